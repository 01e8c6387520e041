"""Count how judgments of real notes and real queries are read, in many wordings.

    .venv/bin/python -m bench.studies.wordings.real_rows --medec FILE.csv... --ehrsql FILE.json...

The files are those of MEDEC (`MEDEC-MS-TestSet-with-GroundTruth-and-ErrorType.csv`) and EHRSQL (`test.json`).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.studies.wordings.medec import FINE, FIVE
from bench.studies.wordings.sql import ALONE, JSON, PROSE, bare
from medhelm.results.formats.tables import render
from medhelm.scoring.answers.note_error import read_error_judgment
from medhelm.scoring.sql.extract import find_query

_TEMPLATES_OF_A_QUERY = 20


class _Reading(NamedTuple):
    """How one wording of one row was read."""

    template: str
    right: bool
    unread: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts and the templates that were not always read right; return 1 if a row was read wrongly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--medec", nargs="*", type=Path, default=[], metavar="CSV")
    parser.add_argument("--ehrsql", nargs="*", type=Path, default=[], metavar="JSON")
    arguments = parser.parse_args(argv)
    readings = {"medec": list(_notes(arguments.medec)), "sql": list(_queries(arguments.ehrsql))}
    rows, failures = [], Counter[str]()
    for name, found in readings.items():
        wrong = [reading for reading in found if not reading.right and not reading.unread]
        unread = [reading for reading in found if reading.unread]
        rows.append([name, str(len(found)), str(len(wrong)), str(len(unread))])
        failures.update(f"{name}: {reading.template!r}" for reading in (*wrong, *unread))
    print(render(rows, ["reader", "readings", "wrong", "unread"]))
    print(*(f"{count} {template}" for template, count in failures.most_common(20)), sep="\n")
    return int(any(row[2] != "0" for row in rows))


def _notes(files: Iterable[Path]) -> Iterator[_Reading]:
    """Read every note in every wording that does not name other sentences."""
    wrong = [text for text in FIVE if text.count("5") == 1 and not any(sign in text for sign in "01234678")]
    for file in files:
        for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines(keepends=True)):
            note = row["Sentences"].replace("\r\n", "\n").strip()
            if not note:
                continue
            error, number = row["Error Flag"] == "1", row["Error Sentence ID"]
            corrected, original = row["Corrected Sentence"].strip(), row["Error Sentence"].strip()
            for template in wrong if error else FINE:
                text = template.replace("5", number).format(c=corrected, o=original) if error else template
                found = read_error_judgment(text, note)
                expected = (True, int(number)) if error else (False, None)
                unread = found.error is None or (found.error and error and found.sentence is None)
                yield _Reading(template, tuple(found) == expected, bool(unread))


def _queries(files: Iterable[Path]) -> Iterator[_Reading]:
    """Read every query in 20 wordings and as JSON."""
    texts = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    queries = dict.fromkeys(row["query"] for rows in texts for row in rows if row["query"] != "null")
    templates = (*ALONE, *PROSE)
    for number, query in enumerate(queries):
        at = number * _TEMPLATES_OF_A_QUERY
        for template in (templates[(at + step) % len(templates)] for step in range(_TEMPLATES_OF_A_QUERY)):
            yield _query_reading(template, template.format(q=query), query)
        for template in JSON:
            yield _query_reading(template, template.format(j=json.dumps(query)), query)


def _query_reading(template: str, text: str, query: str) -> _Reading:
    """Read a query."""
    found = find_query(text)
    return _Reading(template, found is not None and bare(found) == bare(query), unread=False)


if __name__ == "__main__":
    raise SystemExit(main())
