"""Folders that are written for others: complete or not there, and never in place of anything that is not ours."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medhelm.errors import StoreFullError, UserError

MARKER = "medhelm-export.json"
"""File that says what the folder is; written last."""


def beside(path: Path, suffix: str = "") -> Path:
    """A hidden, unused path next to `path`: write there, then rename, so that `path` is never half written."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}{suffix}")


@contextmanager
def new_export(folder: Path, kind: str, about: Mapping[str, Any]) -> Iterator[Path]:
    """Give a hidden folder to be filled, and put it in place of `folder` when all went well.

    Parameters: folder, new, empty, or an export of the same kind with nothing else in it; about, what stands in its
    marker. Raises: UserError for another folder, before anything is written; StoreFullError if the disk is full.
    """
    check_export(folder, kind)
    new = beside(folder.absolute())
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        new.mkdir()
        yield new
        entries = sorted(path.name for path in new.iterdir())
        marker = {"medhelm_export": kind, "entries": [*entries, MARKER], **about}
        (new / MARKER).write_text(json.dumps(marker, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        _put_in_place(new, folder)
    except OSError as error:
        raise _refusal(folder, error.strerror or str(error)) from error
    except Exception as error:
        # DuckDB has exceptions of its own for a full disk and for memory; their text names the system's reason.
        if type(error).__name__ in ("IOException", "OutOfMemoryException"):
            raise _refusal(folder, str(error)) from error
        raise
    finally:
        shutil.rmtree(new, ignore_errors=True)


def check_export(folder: Path, kind: str) -> None:
    """Raises UserError if an export of this kind may not be put there."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file. Name a new or empty folder.")
    there = {path.name for path in folder.iterdir()}
    if not there:
        return
    found = _read_marker(folder)
    if found is None:
        raise UserError(f"{folder} is not empty, and no export of ours. Name a new or empty folder.")
    if found.get("medhelm_export") != kind:
        raise UserError(
            f"{folder} holds an export of another kind ({found.get('medhelm_export')}). Name a new or empty folder."
        )
    listed = found.get("entries")
    if foreign := sorted(there - set(listed if isinstance(listed, list) else ())):
        raise UserError(
            f"{folder} holds things besides the export ({', '.join(foreign)}), which would be lost. Move them, or name "
            "a new or empty folder."
        )


def _read_marker(folder: Path) -> dict[str, Any] | None:
    try:
        content = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _put_in_place(new: Path, folder: Path) -> None:
    """Rename; an older export is gone only when the new one stands."""
    if folder.exists():
        old = beside(folder.absolute())
        folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        new.rename(folder)


def _refusal(folder: Path, reason: str) -> StoreFullError:
    return StoreFullError(f"{folder} cannot be written: {reason}. Free some space, or name another folder.")
