"""Checks of benchmark folders from elsewhere: consent to run their code, and no links that lead out of them.

`hooks.py` runs with the rights of the user. That of the package, and of packages that the user installed, is trusted.
Code of any other folder runs only after `--trust FOLDER`. The consent is recorded in the user's configuration folder,
with a digest of the code; when the code changes, it is asked for again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from medhelm.benchmarks.definition import FILE_NAME, HOOKS, LIBRARY
from medhelm.domain import Benchmark
from medhelm.errors import UserError
from medhelm.io.output_folder import write_file

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
