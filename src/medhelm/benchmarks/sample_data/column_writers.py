"""Writers of column formats: Parquet, Arrow streams, and Arrow files with an index (Feather).

A column has one type: true or false, whole numbers, numbers, texts, times, lists or mappings of these. Texts that are
all ISO dates with a time (`2150-01-31T08:15:00`) become times, as hospitals store them.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.benchmarks.data.arrow_ipc import BATCH, MAGIC, SCHEMA, messages
from medhelm.domain import Source
from medhelm.errors import DataError
from medhelm.io.rows import Row, columns

if TYPE_CHECKING:
    from nanoarrow import CArray

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**63
_METADATA_V5 = 4


def write_parquet(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """One record per row, in Parquet."""
    import duckdb

    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False, "threads": 1}) as connection:
        connection.register("records", _records(rows, path))
        connection.view("records").write_parquet(str(path))


def write_arrow(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """One record per row, as an Arrow stream."""
    path.write_bytes(_stream(rows, path))


def write_feather(rows: Sequence[Row], path: Path, _source: Source) -> None:
    """One record per row, as an Arrow file: a stream between two marks, with an index at the end."""
    stream = _stream(rows, path)
    start = MAGIC + b"\0\0"
    index = _index(stream, len(start))
    path.write_bytes(start + stream + index + struct.pack("<i", len(index)) + MAGIC)


def _stream(rows: Sequence[Row], path: Path) -> bytes:
    from nanoarrow.ipc import StreamWriter

    out = io.BytesIO()
    with StreamWriter.from_writable(out) as writer:
        writer.write_array(_records(rows, path))
    return out.getvalue()


def _index(stream: bytes, start: int) -> bytes:
    """The Flatbuffer that tells where the batches of a stream are, in a file where the stream begins at `start`.

    Layout of a Footer (https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format). All offsets in a Flatbuffer
    are relative, so the description of the columns is taken over from the stream as it is, at the end.
    """
    parts = list(messages(io.BytesIO(stream)))
    schema = next(part for part in parts if part.kind == SCHEMA)
    described = schema.content
    assert described is not None, "a schema message holds a schema"
    batches = [part for part in parts if part.kind == BATCH]
    blocks = b"".join(struct.pack("<qi4xq", start + part.start, part.length, part.body) for part in batches)
    directory = struct.pack("<6H", 12, 14, 12, 4, 0, 8)  # its size, that of the table; places of four fields, 0: absent
    table_at, schema_field, batches_field, blocks_at = 16, 20, 24, 40
    schema_at = blocks_at + len(blocks) + described.at
    return b"".join(
        [
            struct.pack("<I", table_at),
            directory,
            struct.pack("<iIIh", table_at - 4, schema_at - schema_field, blocks_at - 4 - batches_field, _METADATA_V5),
            struct.pack("<6xI", len(batches)),
            blocks,
            schema.description,
        ]
    )


def _records(rows: Sequence[Row], path: Path) -> CArray:
    """The rows as one Arrow array of records."""
    return _array_of_mappings(list(rows), columns(rows), str(path))


def _array(values: list[Any], place: str) -> CArray:
    """Values of one type, None among them, as an Arrow array."""
    import nanoarrow

    match _kind(values, place):
        case "nothing" | "texts":
            return nanoarrow.c_array(values, nanoarrow.string())
        case "times":
            return _array_of_times(values)
        case "true or false":
            return nanoarrow.c_array(values, nanoarrow.bool_())
        case "whole numbers":
            return nanoarrow.c_array(values, nanoarrow.int64())
        case "numbers":
            return nanoarrow.c_array([None if v is None else float(v) for v in values], nanoarrow.float64())
        case "lists":
            return _array_of_lists(values, place)
        case _:
            names = columns([value for value in values if value is not None])
            return _array_of_mappings(values, names, place)


def _array_of_times(values: list[Any]) -> CArray:
    import nanoarrow

    times = [datetime.fromisoformat(value).replace(tzinfo=UTC) if value else None for value in values]
    counts = [0 if time is None else (time - _EPOCH) // timedelta(microseconds=1) for time in times]
    content = struct.pack(f"<{len(counts)}q", *counts)
    return nanoarrow.c_array_from_buffers(nanoarrow.timestamp("us"), len(values), [_present(values), content])


def _array_of_lists(values: list[Any], place: str) -> CArray:
    import nanoarrow

    entries = _array([entry for value in values for entry in value or ()], f"{place}, within its lists")
    ends = accumulate((len(value or ()) for value in values), initial=0)
    content = struct.pack(f"<{len(values) + 1}i", *ends)
    form = nanoarrow.list_(entries.schema)
    return nanoarrow.c_array_from_buffers(form, len(values), [_present(values), content], children=[entries])


def _array_of_mappings(values: list[Any], names: Sequence[str], place: str) -> CArray:
    import nanoarrow

    _check_names(names, place)
    parts = [
        _array([None if value is None else value.get(name) for value in values], f"{place}, `{name}`") for name in names
    ]
    form = nanoarrow.struct({name: part.schema for name, part in zip(names, parts, strict=True)})
    return nanoarrow.c_array_from_buffers(form, len(values), [_present(values)], children=parts)


def _check_names(names: Sequence[str], place: str) -> None:
    """Names that every program which reads such files takes as they are."""
    if not names:
        raise DataError(f"{place}: there is nothing in it; a column format needs at least one name.")
    odd = [name for name in names if not name or "\0" in name]
    if odd:
        raise DataError(f"{place}: {odd[0]!r} cannot name a column of this format.")
    if len({name.lower() for name in names}) < len(names):
        raise DataError(f"{place}: of {', '.join(names)}, two differ in capital letters only. Rename one.")


def _present(values: list[Any]) -> bytes | None:
    """One bit per value: whether it is there; None if all are."""
    import numpy

    present = numpy.fromiter((value is not None for value in values), dtype=bool, count=len(values))
    return None if present.all() else numpy.packbits(present, bitorder="little").tobytes()


def _kind(values: list[Any], place: str) -> str:
    """What the values are, in words."""
    kinds = {_kind_of(value, place) for value in values if value is not None}
    if kinds == {"whole numbers", "numbers"}:
        return "numbers"
    if len(kinds) > 1:
        raise DataError(f"{place}: holds {' and '.join(sorted(kinds))}. A column of this format has one type.")
    kind = kinds.pop() if kinds else "nothing"
    if kind == "texts" and all(_TIME.fullmatch(value) for value in values if value is not None):
        return "times"
    return kind


def _kind_of(value: object, place: str) -> str:
    match value:
        case bool():
            return "true or false"
        case int():
            if not -_LARGEST <= value < _LARGEST:
                raise DataError(f"{place}: holds {value}, which is too large for a column. Make it a text.")
            return "whole numbers"
        case float():
            return "numbers"
        case str():
            return "texts"
        case list():
            return "lists"
        case Mapping():
            return "objects"
        case _:
            raise DataError(f"{place}: holds {value!r:.60}, which is no text, number, list or object.")
