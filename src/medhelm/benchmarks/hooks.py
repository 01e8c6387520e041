"""Run `hooks.py` of a benchmark: its one function, `rows`, converts the data to a table.

    def rows(rows: Iterator[Mapping[str, object]]) -> Iterator[Mapping[str, object]]
    def rows(folder: Path) -> Iterator[Mapping[str, object]]                          if `source.kind` is `folder`

It gets the rows of the files, or the folder with the files, and yields the rows of the definition. If the selection has
a `variant`, it gets `variant=...` too. It runs only when data is read, and outside the package only after consent. A
hook that skips rows should yield its own ids (`id: [id]` in the definition); otherwise the id is the position among the
rows that it yields.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from traceback import extract_tb

from medhelm.benchmarks.definition import FILE_NAME, HOOKS, LIBRARY
from medhelm.domain import Benchmark
from medhelm.errors import DataError, UserError
from medhelm.io.folders import write_file

Rows = Iterator[Mapping[str, object]]
"""Rows of a table, each a mapping of columns to values."""

Hook = Callable[..., Rows]
"""The function `rows` of a `hooks.py`."""

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
"""Exceptions of a hook that does not match the data."""

_SECRET = re.compile(r"(?i)^medhelm_|key|token|secret|pass|pwd|credential|login|auth|cookie|sas")
"""Names of environment variables that may hold keys, and all of MedHELM."""

_in_hook = ContextVar("in_hook", default=False)
"""True while the current thread runs code of a hook."""

_END: Mapping[str, object] = {}
"""Marks the end of the rows; compared by identity."""


class _UncachedLoader(SourceFileLoader):
    """A loader that writes no bytecode and never runs outdated bytecode."""

    def path_stats(self, path: str) -> Mapping[str, float]:  # noqa: ARG002
        """Report no modification time, so that the import system caches no bytecode."""
        raise OSError


def load_hook(path: Path) -> Hook:
    """Run a `hooks.py` and return its function `rows`. Raises UserError if this fails."""
    name = f"medhelm_hooks_{path.parent.name}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    loader = _UncachedLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    if spec is None:
        raise UserError(f"{path}: cannot be loaded.")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look up their module there
    try:
        with _without_secrets():
            loader.exec_module(module)
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: not Python ({error.msg}).") from None
    except (ImportError, OSError, *_MISTAKES) as error:
        raise UserError(f"{path}{_line_in(path, error)}: cannot be run ({type(error).__name__}: {error}).") from error
    hook = getattr(module, "rows", None)
    if not callable(hook):
        raise UserError(f"{path}: has no function `rows`. Write `def rows(rows): ...` that yields one mapping per row.")
    return hook  # type: ignore[no-any-return]


class _Environment(type(os.environ)):  # type: ignore[misc]
    """The environment of the process; code of a hook sees it without secrets.

    Nothing is removed: other threads read their keys at the same time.
    """

    def __getitem__(self, name: str) -> str:
        if _in_hook.get() and _SECRET.search(name):
            raise KeyError(name)
        return str(super().__getitem__(name))

    def __iter__(self) -> Iterator[str]:
        names = super().__iter__()
        return (name for name in names if not _SECRET.search(name)) if _in_hook.get() else names

    def __len__(self) -> int:
        return sum(1 for _ in self)


os.environ.__class__ = _Environment  # every holder of `os.environ` must see the same object


@contextmanager
def _without_secrets() -> Iterator[None]:
    """Hide secrets from `os.environ` in this context, while code of a hook runs."""
    token = _in_hook.set(True)
    try:
        yield
    finally:
        _in_hook.reset(token)


def run_hook(hook: Hook, data: Rows | Path, path: Path, *, variant: str = "") -> Rows:
    """Yield the rows that a hook returns for rows, or for a folder of files. `path`: the hook's file.

    Raises DataError with the row after which the hook failed.
    """
    n_read = 0

    def counted(rows: Rows) -> Rows:
        nonlocal n_read
        for row in rows:
            n_read += 1
            yield row

    chosen = {"variant": variant} if variant else {}
    try:
        with _without_secrets():
            found = iter(hook(data if isinstance(data, Path) else counted(data), **chosen))
        while True:
            with _without_secrets():
                row = next(found, _END)
            if row is _END:
                return
            if not isinstance(row, Mapping):
                raise DataError(f"{path}: yields {type(row).__name__}; it must yield mappings of columns to values.")
            yield row
    except _MISTAKES as error:
        where = f"{path}{_line_in(path, error)}"
        progress = f"in {data}" if isinstance(data, Path) else f"after row {n_read} of the data was read"
        raise DataError(
            f"{where}: {type(error).__name__}: {error}, {progress}. "
            "The hook does not match the data: correct one of them."
        ) from error


def _line_in(path: Path, error: BaseException) -> str:
    """Return `, line N` of `path` if the error occurred there; else ""."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


# --- trust ------------------------------------------------------------------------------------------------------------
# Checks of benchmark folders from elsewhere: consent to run their code, and no links that lead out of them.
#
# `hooks.py` runs with the rights of the user. That of the package, and of packages that the user installed, is trusted.
# Code of any other folder runs only after `--trust FOLDER`. The consent is recorded in the user's configuration folder,
# with a digest of the code; when the code changes, it is asked for again.

_CODE = (".py", ".pyc", ".pyd", ".so")
"""Suffixes of files that Python runs."""

_trusted: dict[str, str] = {}
"""Folder -> digest of its code, for consents of this process: they hold even if they cannot be recorded."""


def trust(folder: Path) -> None:
    """Record consent to the code of a benchmark folder, or of all benchmarks in a folder.

    Raises: UserError if there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f"--trust {folder}: this folder does not exist.")
    given = {
        str(place.resolve()): _code_digest(place)
        for place in (folder, *(file.parent for file in sorted(folder.glob(f"*/{FILE_NAME}"))))
        if (place / HOOKS).is_file()
    }
    recorded = _recorded_consents()
    if given.items() <= recorded.items():
        return
    _trusted.update(given)
    file = _consent_file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(file, json.dumps({"format": 1, "folders": recorded | given}, indent=2) + "\n")
        file.chmod(0o600)
    except (OSError, UserError):  # such as a home folder that is read-only
        return


def _is_installed(benchmark: Benchmark) -> bool:
    """Return True if a benchmark is built in, or belongs to a package that the user installed."""
    return bool(benchmark.package) or benchmark.folder.resolve().parent == LIBRARY.resolve()


def check_trusted(benchmark: Benchmark) -> None:
    """Raise UserError if the code of a benchmark may not run: it is not installed, and the user did not agree to it."""
    if _is_installed(benchmark):
        return
    folder = benchmark.folder.resolve()
    known = _recorded_consents() | _trusted
    if known.get(str(folder)) == _code_digest(folder):
        return
    changed = (
        "changed since you agreed to run it" if str(folder) in known else "is code that would run with your permissions"
    )
    raise UserError(
        f"{benchmark.folder / HOOKS} {changed}. It was not run. Read it; if you trust it, give the same command "
        f"with --trust {benchmark.folder}"
    )


def check_links(benchmark: Benchmark, files: Iterable[Path]) -> None:
    """Raise UserError for files of a benchmark folder that are elsewhere: a link would show any file of the user."""
    if _is_installed(benchmark):  # installers may link the files of a package
        return
    folder = benchmark.folder.resolve()
    for file in files:
        if not file.resolve().is_relative_to(folder):
            raise UserError(f"{file} is a link out of its benchmark folder. Copy the file, or use --data DIR.")


def _code_digest(folder: Path) -> str:
    """Hash the names and contents of all files with code in a folder."""
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.suffix in _CODE and file.is_file()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()}\n{len(content)}\n".encode(errors="surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _consent_file() -> Path:
    """Return the file with all consents."""
    configured = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    base = configured if configured.is_absolute() else Path.home() / ".config"  # as its specification says
    return base / "medhelm" / "trusted.json"


def _recorded_consents() -> dict[str, str]:
    """Return folder -> digest of the recorded consents; none if the file cannot be read."""
    try:
        content = json.loads(_consent_file().read_text(encoding="utf-8"))
        folders = content["folders"]
        return {str(folder): str(digest) for folder, digest in folders.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, RecursionError):
        return {}  # RuntimeError: there is no home folder
