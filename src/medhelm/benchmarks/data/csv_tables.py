"""Reads CSV files: finds encoding, delimiter and header where the definition does not name them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.rows import BrokenCell, PlacedRow, Row, header, is_error
from medhelm.io.spreadsheets import WORKBOOKS, TextTableFormat, find_format, is_workbook, read_records
from medhelm.io.text_encoding import DEFAULT


def read_csv(path: Path, source: Source) -> Iterator[Row]:
    """Yield one row per record below the header, values as text. Empty lines are skipped.

    Encoding, delimiter and header are found where the definition does not name them.
    """
    if is_workbook(path):
        fix = "Write `kind: xlsx` under `source`." if path.suffix.lower() in WORKBOOKS else "Save the sheet as CSV."
        raise DataError(f"{path}: is a workbook, not text. {fix}")
    records = read_records(path, table_format(path, source))
    names = header(next(records, (0, []))[1], path)
    for line, record in records:
        if len(record) < len(names) or any(record[len(names) :]):
            raise DataError(
                f"{path}, line {line}: the record has {len(record)} fields, the header has "
                f"{len(names)}. Put fields with a separator, a quote or a line break in double quotes; or name the "
                "line of the header with `header_row` under `source`."
            )
        cells = (BrokenCell("", f"the error {cell}") if is_error(cell) else cell for cell in record)
        yield PlacedRow(zip(names, cells, strict=False), f"line {line}")


def table_format(path: Path, source: Source) -> TextTableFormat:
    """Return how a file of kind `csv` or `tsv` is written: as the definition says, or as the file shows."""
    return find_format(
        path,
        encoding="" if source.encoding == DEFAULT else source.encoding,
        delimiter="\t" if source.kind == "tsv" else source.delimiter,
        header_row=source.header_row,
    )
