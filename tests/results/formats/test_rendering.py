"""PNG and PDF of a picture, and what is said where they cannot be made."""

from __future__ import annotations

import struct
import sys
import zlib

import pytest

from medhelm.errors import MissingError
from medhelm.extensions.paper import figures
from medhelm.results.formats.drawing import PICTURES, PNG_SCALE, check_installed, render_picture
from tests.support.leaderboards import toy_board


def png_rows(content: bytes) -> tuple[int, int, set[bytes]]:
    """Width, height and the different lines of a PNG."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    at, data = 8, b""
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            data += content[at + 8 : at + 8 + size]
        at += size + 12
    raw = zlib.decompress(data)
    step = len(raw) // height
    return width, height, {raw[i : i + step] for i in range(0, len(raw), step)}


def test_a_picture_in_every_format() -> None:
    svg = figures.figure_win_rates(toy_board(5, 3)).svg
    made = render_picture(svg, PICTURES)
    assert list(made) == ["svg", "png", "pdf"]
    assert made["svg"] == svg.encode()
    assert made["pdf"].startswith(b"%PDF-1.") and b"FontFile" in made["pdf"], "fonts are inside"
    width, _, lines = png_rows(made["png"])
    assert f'width="{width // PNG_SCALE}"' in svg
    assert len(lines) > 100, "many different lines of pixels"


def test_only_svg_needs_no_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert render_picture("<svg/>", ["svg"]) == {"svg": b"<svg/>"}
    with pytest.raises(MissingError, match=r"package missing: vl-convert-python.*pip install '\.\[figures\]'"):
        check_installed()
