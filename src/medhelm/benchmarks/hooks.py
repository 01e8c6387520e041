"""`hooks.py` beside a definition: one function, `rows`, that makes a table of data that is none.

    def rows(rows: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]
    def rows(folder: Path) -> Iterator[Mapping[str, object]]                          where `source.kind` is `folder`

It gets the rows of the files as the format gives them, or the folder with the files, and yields the rows the definition
speaks of. If a selection of the definition names a `variant`, it gets that too, as `variant=...`. It is run only
when data is read. A hook that leaves rows out should yield an id of its own (`id: [id]` in the definition): otherwise
an instance is named after its place among the rows the hook yields.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from traceback import extract_tb

from medhelm.errors import DataError, UserError

Rows = Iterator[Mapping[str, object]]
"""Rows of a table: column -> value."""

Hook = Callable[..., Rows]
"""What the function `rows` of a `hooks.py` is."""

_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a hook raises when it and the data do not fit each other."""


class _Uncached(SourceFileLoader):
    """Leaves no bytecode beside the definition, and never runs bytecode of an older text."""

    def path_stats(self, path: str) -> Mapping[str, float]:  # noqa: ARG002
        """Without times of change, the import system keeps no bytecode."""
        raise OSError


def load_hook(path: Path) -> Hook:
    """Run a `hooks.py` and give its function `rows`. Raises: UserError if it cannot be run or has no such function."""
    name = f"medhelm_hooks_{path.parent.name}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    loader = _Uncached(name, str(path))
    spec = spec_from_loader(name, loader)
    if spec is None:
        raise UserError(f"{path}: cannot be loaded.")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up there
    try:
        loader.exec_module(module)
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: not Python ({error.msg}).") from None
    except (ImportError, OSError, *_MISTAKES) as error:
        raise UserError(f"{path}{_line_in(path, error)}: cannot be run ({type(error).__name__}: {error}).") from error
    hook = getattr(module, "rows", None)
    if not callable(hook):
        raise UserError(f"{path}: has no function `rows`. Write `def rows(rows): ...` that yields one mapping per row.")
    return hook  # type: ignore[no-any-return]


def through_hook(hook: Hook, data: Rows | Path, path: Path, *, variant: str = "") -> Rows:
    """What `hook`, from the file `path`, makes of rows or of a folder.

    Raises: DataError that says after which row it broke off.
    """
    n_read = 0

    def counted(rows: Rows) -> Rows:
        nonlocal n_read
        for row in rows:
            n_read += 1
            yield row

    chosen = {"variant": variant} if variant else {}
    try:
        for row in hook(data if isinstance(data, Path) else counted(data), **chosen):
            if not isinstance(row, Mapping):
                raise DataError(f"{path}: yields {type(row).__name__}, where a mapping of columns to values is needed.")
            yield row
    except _MISTAKES as error:
        where = f"{path}{_line_in(path, error)}"
        how_far = f"in {data}" if isinstance(data, Path) else f"after row {n_read} of the data was read"
        raise DataError(
            f"{where}: {type(error).__name__}: {error}, {how_far}. "
            "The hook and the data do not fit each other: mend the one that is wrong."
        ) from error


def _line_in(path: Path, error: BaseException) -> str:
    """`, line N`: where in `path` the error came up; empty if it was elsewhere."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""
