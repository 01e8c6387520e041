"""Count the wordings that each reader reads right, wrongly or not at all."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from bench.studies.wordings.form import Reading, read_all
from medhelm.results.formats.tables import render

READERS = (
    "chat",
    "chat_held_out",
    "choice",
    "codes",
    "date",
    "labels",
    "medec",
    "number",
    "sql",
    "weeks_and_days",
    "yes_no",
)
"""Modules of this package, one for each reader."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print one line per reader, and the failures; return 1 if a form is read wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", nargs="*", help=f"readers to try: {', '.join(READERS)} (all)")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="failures to show for each reader (20)")
    arguments = parser.parse_args(argv)
    rows, failures, n_wrong = [], [], 0
    for reader in arguments.reader or READERS:
        module = import_module(f"bench.studies.wordings.{reader}")
        readings = read_all(module.FORMS, module.read)
        wrong = [reading for reading in readings if reading.is_wrong]
        unread = [reading for reading in readings if reading.is_unread]
        n_wrong += len(wrong)
        right = len(readings) - len(wrong) - len(unread)
        rows.append([reader, str(len(readings)), str(right), str(len(wrong)), str(len(unread))])
        failures += [_described(reader, reading) for reading in (wrong + unread)[: arguments.show]]
    print(render(rows, ["reader", "forms", "right", "wrong", "unread"]))
    print(*failures, sep="\n")
    return int(n_wrong > 0)


def _described(reader: str, reading: Reading) -> str:
    """Return one line about a form that was not read right."""
    form = reading.form
    return (
        f"{reader} ({form.group}): expected {form.expected!r}, read {reading.found!r}: {form.text!r} {form.context!r}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
