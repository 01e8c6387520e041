"""Colors of charts: enough contrast in light and dark, and the same in the style sheet and in downloaded pictures."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from medhelm.extensions.web.board_charts import SCORE_EDGES, SHARE_EDGES
from medhelm.results.formats.drawing import PAINT

CSS = (files("medhelm.extensions.web") / "static" / "charts.css").read_text(encoding="utf-8")


def colors(block: str) -> dict[str, str]:
    """Return the custom properties of a part of the style sheet, without their prefix."""
    return dict(re.findall(r"--chart-([\w-]+): (#[0-9a-f]{6});", block))


LIGHT_PART, DARK_PART = CSS.split("@media screen and (prefers-color-scheme: dark)")[:2]
LIGHT, DARK = colors(LIGHT_PART), colors(DARK_PART.split("@media (forced-colors")[0])
MODES = {"light": LIGHT, "dark": DARK}


def luminance(color: str) -> float:
    """Return the relative luminance of WCAG 2.2."""
    shares = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of WCAG 2.2, 1 to 21."""
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["step", "share"])
def test_numbers_on_every_step_are_readable(mode: str, kind: str) -> None:
    found = MODES[mode]
    edges = SCORE_EDGES if kind == "step" else SHARE_EDGES
    ratios = {n: contrast(found[f"{kind}-{n}"], found[f"on-{kind}-{n}"]) for n in range(1, len(edges) + 2)}
    assert {n: round(ratio, 2) for n, ratio in ratios.items() if ratio < 4.5} == {}


def test_pictures_without_the_style_sheet_have_its_light_colors() -> None:
    assert {name: next(iter(attributes.values())) for name, attributes in PAINT.items()} == {
        name: LIGHT[name] for name in PAINT
    }
    for name, attributes in PAINT.items():
        assert f".c-{name} {{ {next(iter(attributes))}: var(--chart-{name}); }}" in CSS
