"""Instances that are too many or too long for memory, put aside in a file until their turn."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from dataclasses import asdict
from tempfile import TemporaryFile, gettempdir
from threading import Lock
from weakref import finalize

from medhelm.domain import Criterion, Instance, Message, Reference
from medhelm.errors import DataError, StoreFullError


class SpilledInstances:
    """Instances in a file without a name, which is gone when nobody needs them. Threads may read it together."""

    def __init__(self, numbered: Iterable[tuple[int, Instance]], n: int) -> None:
        """`numbered`: `n` instances in any order, each with its number, from 0.

        Raises: DataError if they are fewer; StoreFullError if there is no room for them.
        """
        self._starts = array("q", bytes(8 * n))
        self._file = TemporaryFile(prefix="medhelm-")  # noqa: SIM115 - closed with the shelf
        finalize(self, self._file.close)
        self._lock = Lock()
        n_put = 0
        for number, instance in numbered:
            self._starts[number] = self._file.tell()
            self._put(instance)
            n_put += 1
        if n_put < n:
            raise DataError(f"the data gives {n_put} of the {n} instances it gave before. Run the same command again.")

    def __getitem__(self, number: int) -> Instance:
        """The instance with that number."""
        with self._lock:
            self._file.seek(self._starts[number])
            line = self._file.readline()
        content = json.loads(line)
        references = tuple(Reference(**reference) for reference in content["references"])
        lists = {name: tuple(content[name]) for name in ("choices", "labels")}
        graded = ({**criterion, "tags": tuple(criterion["tags"])} for criterion in content["criteria"])
        criteria = tuple(Criterion(**criterion) for criterion in graded)
        turns = tuple(Message(**turn) for turn in content["turns"])
        return Instance(**{**content, **lists, "references": references, "criteria": criteria, "turns": turns})

    def _put(self, instance: Instance) -> None:
        line = json.dumps(asdict(instance)).encode("ascii") + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise StoreFullError(
                f"{gettempdir()} cannot be written: {error.strerror or error}. Large data waits there for its turn. "
                "Free some space, or name another folder in TMPDIR, and run the same command again."
            ) from error
