"""Folders that many tests begin with: made by the first test, copied for the others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

_TEMPLATES: dict[str, Path] = {}
"""Name -> copy of the folder as it was made."""


def made_once(folder: Path, name: str, make: Callable[[], object]) -> None:
    """Fill `folder`, an empty temporary folder, with what `make` writes there.

    Only the first call with a `name` in this process calls `make`; others get a copy, which they may change.
    """
    if name in _TEMPLATES:
        shutil.copytree(_TEMPLATES[name], folder, dirs_exist_ok=True)
    else:
        make()
        template = folder.parent / f"made-once-{name}"
        shutil.copytree(folder, template)
        _TEMPLATES[name] = template
