"""PatientInstruct: cases that passed the check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.errors import DataError

_TEXTS = (
    "Diagnosis",
    "ActualProcedure",
    "HistoryPhysicalNoteText",
    "OperativeNoteText",
    "DischargeInstructionNoteText",
)


def rows(entries: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    """Yield {passed_check, Diagnosis, ActualProcedure, ...} for every row; the texts have no outer white space.

    `passed_check` is yes where QC reads TRUE, in capitals or not, and empty elsewhere. None is skipped here: the
    definition skips and counts rows where that or a text is empty, so the id of a case is its place in the file.
    Raises: DataError if a column is missing.
    """
    for entry in entries:
        missing = [name for name in ("QC", *_TEXTS) if name not in entry]
        if missing:
            raise DataError(f"the cases have no column {', '.join(missing)}. Columns: {', '.join(entry)}.")
        texts = {name: str(entry[name] or "").strip() for name in _TEXTS}
        yield {"passed_check": "yes" if str(entry["QC"]).strip().upper() == "TRUE" else "", **texts}
