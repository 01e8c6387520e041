"""MTSamples Procedures: the plan, summary or findings of an operation note as the reference, and the note without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.benchmarks.data.formats import KINDS, first_line_of_section, split_section

UNFETCHED = "#?%"
"""Signs in the names of files that the published runs lack: they have another meaning in a URL."""


def rows(reports: Iterator[Mapping[str, object]], variant: str = "") -> Iterator[Mapping[str, object]]:
    """Yield {name, note, reference, section, specialty} for every report; without a section, `reference` is empty.

    `section` is the kind of the reference: PLAN, else SUMMARY, else FINDINGS. `note` is the report without its sections
    of that kind and without what the website added; `reference` is what these sections say, each to its end.
    The variant `published` gives what the reference implementation does: the first line of the first such section, and
    the file up to the first section of any of the three kinds; files whose name has one of # ? % are left out.
    """
    published = variant == "published"
    for report in reports:
        name = str(report["name"])
        if published and any(sign in name for sign in UNFETCHED):
            continue
        text = str(report["text"]).replace("\r\n", "\n").strip()
        if published:
            reference, section = first_line_of_section(text)
            note = min((text.partition(f"{kind}:")[0] for kind in KINDS), key=len).strip() if section else ""
        else:
            note, reference, section = split_section(text)
        specialty = text.partition("\n")[0].partition("Medical Specialty:")[2].strip()
        yield {"name": name, "note": note, "reference": reference, "section": section, "specialty": specialty}
