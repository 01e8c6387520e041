"""Files of arrays that are mapped into memory: nothing is read before it is used.

    16 bytes   MAGIC, with the version of the layout
     4 bytes   CRC-32 of everything after it
     8 bytes   length of the header
    header     JSON: {"about": ..., "arrays": {name: [type, shape, place after the header]}}
    arrays     each at a multiple of 64 bytes

HDF5 and Arrow files would need a package for this; a `.npz` file cannot be mapped. Readers get arrays that cannot be
written, of plain numbers only, and nothing at all from a file that is damaged.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from medhelm.io.output_folder import atomic_file

if TYPE_CHECKING:
    import numpy as np

MAGIC = b"medhelm-arrays-1"
"""First bytes of a file."""

ALIGNED = 64
"""Arrays begin at a multiple of this."""

CHUNK = 2**20
"""Bytes whose checksum is computed at once."""

_START = len(MAGIC) + 4
"""Place of the first byte that the checksum covers."""


Identity = tuple[int, int, int, int]
"""Size, times and number of a file: another content has another identity."""


class ArrayFile(NamedTuple):
    """Content of a file."""

    about: Any
    """JSON value."""
    arrays: Mapping[str, np.ndarray]
    """Read-only arrays."""
    identity: Identity
    """Identity of the file."""


def file_identity(found: os.stat_result) -> Identity:
    """Return the identity of a file."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def write_arrays(path: Path, about: Any, arrays: Mapping[str, Sequence[np.ndarray]], *, mode: int) -> Identity:
    """Write a file, rename it into place, and return its identity.

    Parameters: arrays, each in pieces, which follow each other along its first axis; mode, permissions of the file.
    Raises: OSError.
    """
    import numpy as np

    places: dict[str, Any] = {}
    content: list[bytes | memoryview] = []
    size = 0
    for name, pieces in arrays.items():
        own = [np.ascontiguousarray(piece) for piece in pieces]
        n_bytes = sum(piece.nbytes for piece in own)
        places[name] = [own[0].dtype.str, [sum(map(len, own)), *own[0].shape[1:]], size]
        content += [*(piece.data.cast("B") for piece in own if piece.size), bytes(-n_bytes % ALIGNED)]
        size = _aligned(size + n_bytes)
    header = json.dumps({"about": about, "arrays": places}).encode()
    head = len(header).to_bytes(8, "little") + header
    content = [head, bytes(-(_START + len(head)) % ALIGNED), *content]
    checksum = 0
    for part in content:
        checksum = zlib.crc32(part, checksum)
    with atomic_file(path) as new, new.open("wb") as file:
        new.chmod(mode)
        file.writelines([MAGIC, checksum.to_bytes(4, "little"), *content])
    return file_identity(path.stat())


def read_arrays(path: Path, intact: Identity | None = None) -> ArrayFile | None:
    """Map a file into memory; None if it is missing, damaged, or of another version.

    `intact`: identity that the file had when its checksum was right. It is not computed again.
    """
    import numpy as np

    try:
        with path.open("rb") as file:
            identity = file_identity(os.fstat(file.fileno()))
            start = file.read(_START + 8)
            if start[: len(MAGIC)] != MAGIC:
                return None
            if identity != intact and int.from_bytes(start[len(MAGIC) : _START], "little") != _checksum(file):
                return None
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        length = int.from_bytes(start[_START:], "little")
        header = from_json(content[len(start) : len(start) + length])
        arrays, first = {}, _aligned(len(start) + length)
        for name, (kind, shape, place) in header["arrays"].items():
            arrays[name] = np.frombuffer(content, np.dtype(kind), math.prod(shape), first + place).reshape(shape)
        return ArrayFile(header["about"], arrays, identity)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _checksum(file: Any) -> int:
    file.seek(_START)
    found = 0
    while chunk := file.read(CHUNK):
        found = zlib.crc32(chunk, found)
    return found


def _aligned(place: int) -> int:
    return -(-place // ALIGNED) * ALIGNED
