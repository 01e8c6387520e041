"""Render specifications as SVG, PNG and PDF in this process, without a browser and without the network."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from medhelm.domain.text import plural
from medhelm.errors import MissingError

Picture = Literal["svg", "png", "pdf", "json"]
"""Format of a figure; `json` is its specification."""

PICTURES: tuple[Picture, ...] = get_args(Picture)
"""All formats."""

PNG_SCALE = 2.0
"""PNG pixels per pixel of the figure, for a sharp print at half the size."""

PNG_PPI = 72.0 * PNG_SCALE

INSTALL = "Install them, in a checkout with pip install '.[figures]'."
"""Advice if a package is missing."""


def check_installed() -> None:
    """Raise MissingError if a package for figures is not installed, or is broken."""
    missing = []
    for module, package in {"altair": "altair", "vl_convert": "vl-convert-python"}.items():
        try:
            __import__(module)
        except ImportError:
            missing.append(package)
    if missing:
        packages = plural(len(missing), "package")
        raise MissingError(f"figures were not made: {packages} missing: {', '.join(missing)}. {INSTALL}")


def render(spec: Mapping[str, Any], formats: Collection[str]) -> dict[str, bytes]:
    """Return a specification in some of PICTURES: format -> content of the file.

    Raises: ValueError if the specification contains nan or infinity, which JSON cannot represent.
    """
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    found = {"json": text.encode()} if "json" in formats else {}
    if not set(formats) - {"json"}:
        return found
    import vl_convert

    # The data is inside, and an empty list of addresses allows no download.
    vega = vl_convert.vegalite_to_vega(text)
    svg = vl_convert.vega_to_svg(vega, allowed_base_urls=[])
    if "svg" in formats:
        found["svg"] = svg.encode()
    if "png" in formats:
        found["png"] = vl_convert.svg_to_png(svg, scale=1.0, ppi=PNG_PPI)
    if "pdf" in formats:
        found["pdf"] = vl_convert.svg_to_pdf(svg)
    return found
