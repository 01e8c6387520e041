"""SVG as PNG and PDF, in this process, without a browser and without the network."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec
from typing import Literal, get_args

from medhelm.errors import MissingError

Picture = Literal["svg", "png", "pdf"]
"""Format of a figure."""

PICTURES: tuple[Picture, ...] = get_args(Picture)
"""All formats."""

PNG_SCALE = 2
"""PNG pixels per pixel of the picture, for a sharp print at half the size."""

CONVERTER = "vl_convert"
"""Module of the extra `figures` that makes PNG and PDF; SVG needs none."""


def is_installed() -> bool:
    """Return whether PNG and PDF can be made here."""
    return find_spec(CONVERTER) is not None


def check_installed() -> None:
    """Raise MissingError if the package that makes PNG and PDF is not installed, or is broken."""
    try:
        import_module(CONVERTER)
    except ImportError as error:
        raise MissingError(
            "figures were not made as PNG and PDF: package missing: vl-convert-python. Install it, in a checkout with "
            "pip install '.[figures]'."
        ) from error


def render(svg: str, formats: Collection[str]) -> dict[str, bytes]:
    """Return a picture in some of PICTURES: format -> content of the file. All but SVG needs `check_installed`."""
    found = {"svg": svg.encode()} if "svg" in formats else {}
    if "png" in formats:
        found["png"] = import_module(CONVERTER).svg_to_png(svg, scale=PNG_SCALE, ppi=72)
    if "pdf" in formats:
        found["pdf"] = import_module(CONVERTER).svg_to_pdf(svg)
    return found
