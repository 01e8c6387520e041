"""A heat map by itself: what it does with strange lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.reports.figures import style
from medhelm.reports.figures.heat_map import HeatMapRow, heat_map
from medhelm.reports.formats.tables import SAMPLE_WARNING


def draw(lines: list[HeatMapRow], models: list[str]) -> dict[str, Any]:
    return heat_map(lines, models, heading="Scores", notes=["a note"], sample=False)


def cells_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for rows in spec["datasets"].values() for row in rows]


def test_groups_are_headings_and_one_group_needs_none() -> None:
    one = draw([HeatMapRow(label="a", group="g", values=[0.5])], ["m"])
    two = draw([HeatMapRow(label="a", group="g", values=[0.5]), HeatMapRow(label="b", group="h", values=[0.5])], ["m"])
    assert "facet" not in one
    assert two["facet"]["row"]["sort"] == ["g", "h"]
    assert two["resolve"] == {"scale": {"y": "independent"}}


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_nan_and_infinity_are_missing_values(value: float | None) -> None:
    (cell,) = cells_of(draw([HeatMapRow(label="a", group="", values=[value])], ["m"]))
    assert (cell["value"], cell["text"], cell["ink"]) == (None, "–", "black")


@pytest.mark.parametrize(("value", "shown"), [(1.25, "1.25"), (-0.5, "-0.50"), (0.0, "0.00"), (0.996, "1.00")])
def test_values_beyond_the_scale_keep_their_number_and_get_the_end_color(value: float, shown: str) -> None:
    spec = draw([HeatMapRow(label="a", group="", values=[value])], ["m"])
    (cell,) = cells_of(spec)
    assert (cell["value"], cell["text"]) == (value, shown)
    scale = spec["layer"][0]["encoding"]["color"]["condition"]["scale"]
    assert (scale["domain"], scale["clamp"]) == ([0, 1], True)
    assert style.shade(value) == style.shade(min(max(value, 0.0), 1.0))


def test_lines_and_models_with_equal_names_are_distinct() -> None:
    lines = [
        HeatMapRow(label="same", group="g", values=[0.1, 0.2]),
        HeatMapRow(label="same", group="h", values=[0.3, 0.4]),
    ]
    cells = cells_of(draw(lines, ["twin", "twin"]))
    assert len({(cell["label"], cell["model"]) for cell in cells}) == 4
    assert sorted(cell["value"] for cell in cells) == [0.1, 0.2, 0.3, 0.4]


def test_groups_of_the_same_words_are_one() -> None:
    lines = [HeatMapRow(label=str(i), group="g" if i % 2 else "h", values=[0.5]) for i in range(4)]
    assert draw(lines, ["m"])["facet"]["row"]["sort"] == ["h", "g"]


def test_a_line_needs_a_value_for_every_model() -> None:
    with pytest.raises(ValueError, match="zip"):
        draw([HeatMapRow(label="a", group="", values=[0.5])], ["m", "n"])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=120), min_size=1, max_size=6))
def test_any_names_become_names_that_fit_and_differ(texts: list[str]) -> None:
    shown = style.names(texts)
    assert len(set(shown)) == len(texts)
    assert all(0 < len(name) <= style.LONGEST_NAME and name.isprintable() for name in shown)
    assert style.names(texts) == shown


def test_a_title_breaks_its_notes_and_stamps_sample_rows() -> None:
    plain = style.title("Heading", ["word " * 60], sample=False, width=400).to_dict()
    assert plain["text"] == "Heading"
    assert len(plain["subtitle"]) > 3
    assert all(len(line) <= 400 / 5.6 for line in plain["subtitle"])
    stamped = style.title("Heading", [], sample=True, width=400).to_dict()
    assert stamped["text"] == [SAMPLE_WARNING, "Heading"]
    assert stamped["color"] == style.WARNING
