"""Style sheets and scripts: the files of one folder, read once by their exact names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""Suffix -> media type; other files are not served."""


@cache
def static_files() -> Mapping[str, bytes]:
    """Return all static files by name. A name from a URL is looked up here and never becomes a path."""
    folder = files("medhelm.extensions.web") / "static"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in MEDIA_TYPES}


def static_file(name: str) -> tuple[bytes, str] | None:
    """Return the content and media type of a static file; None if there is none of this name."""
    content = static_files().get(name)
    return None if content is None else (content, MEDIA_TYPES[name.rpartition(".")[2]])
