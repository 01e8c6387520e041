"""Reads an Arrow stream in a separate process, because nanoarrow corrupts memory on some malformed files.

`medhelm.benchmarks.data.column_formats` starts this file by its path, with the Arrow stream as standard input. The
process opens no other file and cannot write one; its memory and processor time are limited. Output is one JSON value
per line: lists of rows, then an object, which is empty if the stream was read to its end, or else holds the `error`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import warnings
from collections.abc import Iterator
from decimal import Context, Decimal
from itertools import islice
from typing import Any

_ROWS_AT_A_TIME = 1000
_MEMORY = 4 * 2**30
_PER_BYTE = 32
"""Bytes of memory for each byte of the file, beyond `_MEMORY`: buffers may be compressed."""
_OPEN_FILES = 16


def serve(bytes_key: str) -> None:
    """Write the rows of the stream. Binary values become objects with the key `bytes_key` and hexadecimal digits."""
    import nanoarrow
    from nanoarrow.iterator import PyIterator

    from medhelm.io.rows import plain

    PyIterator._decimal_iter = _decimals

    warnings.simplefilter("ignore")  # about lost fractions of a microsecond and text types
    _limit_resources(os.fstat(0).st_size)
    try:
        with nanoarrow.ArrayStream.from_readable(sys.stdin.buffer) as stream:
            for batch in stream:
                records: Iterator[dict[str, Any]] = batch.iter_py()
                while rows := [
                    {name: plain(value) for name, value in record.items()}
                    for record in islice(records, _ROWS_AT_A_TIME)
                ]:
                    _write_line(rows, bytes_key)
    except (ArithmeticError, LookupError, MemoryError, NotImplementedError, RuntimeError, ValueError) as error:
        _write_line({"error": str(error).strip().split("\n", 1)[0] or type(error).__name__}, bytes_key)
    else:
        _write_line({}, bytes_key)


def _decimals(self: Any, offset: int, length: int) -> Iterator[Decimal | None]:
    """Yield decimals, negative ones too: nanoarrow 0.9 reads their bytes as unsigned."""
    context = Context(prec=self._schema_view.decimal_precision)
    scale = -self._schema_view.decimal_scale
    for item in self._primitive_iter(offset, length):
        value = None if item is None else int.from_bytes(item, sys.byteorder, signed=True)
        yield None if value is None else Decimal(value).scaleb(scale, context)


def _write_line(value: object, bytes_key: str) -> None:
    """Write one line to the parent."""
    text = json.dumps(value, default=lambda content: {bytes_key: bytes(content).hex()})
    sys.stdout.buffer.write(text.encode("ascii") + b"\n")
    sys.stdout.buffer.flush()


def _limit_resources(size: int) -> None:
    """Limit the resources of this process. Limits that the platform does not have are skipped."""
    seconds = 60 + size // 2**20
    limits = {
        resource.RLIMIT_AS: _MEMORY + _PER_BYTE * size,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_NPROC: 0,
    }
    for kind, most in limits.items():
        try:
            _, hard = resource.getrlimit(kind)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):
            continue


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[2])
    serve(sys.argv[1])
