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


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == 21
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["step", "share"])
def test_numbers_on_every_step_are_readable(mode: str, kind: str) -> None:
    found = MODES[mode]
    edges = SCORE_EDGES if kind == "step" else SHARE_EDGES
    ratios = {n: contrast(found[f"{kind}-{n}"], found[f"on-{kind}-{n}"]) for n in range(1, len(edges) + 2)}
    assert {n: round(ratio, 2) for n, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("mode", MODES)
def test_steps_of_scores_are_in_order_of_lightness(mode: str) -> None:
    lights = [luminance(MODES[mode][f"step-{n}"]) for n in range(1, len(SCORE_EDGES) + 2)]
    assert lights == sorted(lights, reverse=mode == "light")
    assert len(set(lights)) == len(lights)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("front", "back", "least"),
    [
        ("ink", "ground", 4.5), ("soft", "ground", 4.5), ("soft", "band", 4.5), ("on-mark", "mark", 4.5),
        ("ink", "pale", 4.5), ("other", "ground", 4.5),
        ("mark", "ground", 3), ("line", "ground", 3), ("rule", "ground", 3), ("axis", "ground", 3),
        ("other-line", "ground", 3), ("pale-line", "ground", 3), ("mark", "pale", 3),
    ],
)  # fmt: skip
def test_marks_and_texts_are_visible(mode: str, front: str, back: str, least: float) -> None:
    assert contrast(MODES[mode][front], MODES[mode][back]) >= least


def test_pictures_without_the_style_sheet_have_its_light_colors() -> None:
    assert {name: next(iter(attributes.values())) for name, attributes in PAINT.items()} == {
        name: LIGHT[name] for name in PAINT
    }
    for name, attributes in PAINT.items():
        assert f".c-{name} {{ {next(iter(attributes))}: var(--chart-{name}); }}" in CSS


def test_dark_and_forced_colors_set_every_color() -> None:
    forced = CSS.split("@media (forced-colors: active)")[1].split("/*")[0]
    assert set(DARK) == set(LIGHT)
    assert set(re.findall(r"--chart-([\w-]+):", forced)) == set(PAINT)


def test_no_color_is_outside_the_custom_properties() -> None:
    rules = CSS[CSS.index("/* Pictures.") :]
    assert re.findall(r"#[0-9a-f]{3,6}\b", rules) == []
    assert set(re.findall(r"var\(--chart-([\w-]+)\)", rules)) <= set(LIGHT)
