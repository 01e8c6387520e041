"""Folders that many tests of a module begin with: made by the first test, copied for the others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path


def made_once(folder: Path, name: str, make: Callable[[], object]) -> None:
    """Fill `folder`, a test's empty temporary folder, with what `make` writes there.

    Only the first call with a `name` in this process calls `make`; others get a copy, which they may change.
    """
    template = folder.parent / f"made-once-{name}"
    if template.exists():
        shutil.copytree(template, folder, dirs_exist_ok=True)
    else:
        make()
        shutil.copytree(folder, template)
