"""MTSamples: the plan, summary or findings of a dictated report as the reference, and the report without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from medhelm.benchmarks.data.formats import first_line_of_section, split_section

LISTED = 1000
"""Files that the published program sees: its list of the folder ends there."""


def rows(reports: Iterator[Mapping[str, object]], variant: str = "") -> Iterator[Mapping[str, object]]:
    """Yield {name, note, reference, section, specialty} for every report; without a section, `reference` is empty.

    `section` is the kind of the reference: PLAN, else SUMMARY, else FINDINGS. `note` is the report without its sections
    of that kind and without what the website added; `reference` is what these sections say, each to its end.
    The variant `published` gives what the reference implementation does: of the first 1,000 files, the first line of
    the first such section, and the whole file up to PLAN.
    """
    published = variant == "published"
    for report in islice(reports, LISTED if published else None):
        text = str(report["text"]).replace("\r\n", "\n").strip()
        if published:
            reference, section = first_line_of_section(text)
            note = text.partition("PLAN:")[0].strip() if section else ""
        else:
            note, reference, section = split_section(text)
        specialty = text.partition("\n")[0].partition("Medical Specialty:")[2].strip()
        yield {
            "name": str(report["name"]),
            "note": note,
            "reference": reference,
            "section": section,
            "specialty": specialty,
        }
