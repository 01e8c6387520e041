"""Specifications into pictures: SVG, PNG and PDF, within this process, without a browser and without the network."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from medhelm.errors import MissingError

Picture = Literal["svg", "png", "pdf", "json"]
"""How a figure is written; `json` is its specification."""

PICTURES: tuple[Picture, ...] = get_args(Picture)
"""All of them."""

PNG_SCALE = 2.0
"""Pixels of a PNG for one of the figure: sharp on paper at half the size."""

PNG_PPI = 72.0 * PNG_SCALE

INSTALL = "pip install '.[figures]'"
"""What installs the packages that draw."""


def check_installed() -> None:
    """Raise MissingError if a package that draws is not installed, or is broken."""
    missing = []
    for module, package in {"altair": "altair", "vl_convert": "vl-convert-python"}.items():
        try:
            __import__(module)
        except ImportError:
            missing.append(package)
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise MissingError(f"{' and '.join(missing)} {verb} not installed, so there are no figures. {INSTALL}")


def render(spec: Mapping[str, Any], formats: Collection[str]) -> dict[str, bytes]:
    """A specification in some of PICTURES: format -> content of a file.

    Raises: ValueError for a specification that holds nan or infinity, which is no JSON.
    """
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    found = {"json": text.encode()} if "json" in formats else {}
    if not set(formats) - {"json"}:
        return found
    import vl_convert

    # Nothing may be fetched: the data is inside, and an empty list allows no address.
    vega = vl_convert.vegalite_to_vega(text)
    svg = vl_convert.vega_to_svg(vega, allowed_base_urls=[])
    if "svg" in formats:
        found["svg"] = svg.encode()
    if "png" in formats:
        found["png"] = vl_convert.svg_to_png(svg, scale=1.0, ppi=PNG_PPI)
    if "pdf" in formats:
        found["pdf"] = vl_convert.svg_to_pdf(svg)
    return found
