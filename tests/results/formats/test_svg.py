"""Elements, scales and marks."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.extensions.web.app import environment
from medhelm.extensions.web.benchmark_charts import FailureCount, failures_chart
from medhelm.extensions.web.marks import axis_mark, column_scale, interval_mark, outcome_mark, profile_mark
from medhelm.results.formats.drawing import (
    LogScale,
    coordinate,
    domain,
    element,
    fit,
    linear_ticks,
    text_width,
)
from tests.support.values import present

FINITE = st.floats(-1e6, 1e6)
ANY = st.none() | st.floats()


@given(st.text(), st.text())
def test_texts_and_attributes_are_escaped(text: str, value: str) -> None:
    node = ET.fromstring(element("text", text, class_=value))
    assert len(node) == 0
    assert set(node.attrib) == {"class"}


def test_styles_event_handlers_and_numbers_that_are_not_finite_are_refused() -> None:
    for name in ("style", "onclick"):
        with pytest.raises(ValueError, match="is not allowed"):
            element("g", **{name: "x"})
    for value in (math.nan, -math.inf):
        with pytest.raises(ValueError, match="is not a coordinate"):
            coordinate(value)


@given(st.text(max_size=80), st.floats(0, 400))
def test_shortened_texts_fit(text: str, width: float) -> None:
    found = fit(text, width)
    assert text_width(found) <= max(width, text_width("…"))


@given(st.lists(ANY, max_size=8), st.sampled_from([(None, None), (0.0, 1.0), (1.0, 5.0), (0.0, None)]))
def test_domains_hold_all_finite_values(values: list[float | None], ends: tuple[float | None, float | None]) -> None:
    bounded = [v for v in values if v is None or not math.isfinite(v) or abs(v) < 1e12]
    low, high = domain(bounded, low=ends[0], high=ends[1])
    assert low < high
    margin = 1e-6 * max(abs(low), abs(high), 1)
    assert all(low - margin <= v <= high + margin for v in bounded if v is not None and math.isfinite(v))


@given(FINITE, st.floats(1e-6, 1e6), st.integers(2, 12))
def test_linear_ticks_are_few_and_inside(low: float, span: float, most: int) -> None:
    found = linear_ticks(low, low + span, most)
    assert len(found) <= most
    assert found == sorted(found)
    assert all(low - 1e-5 * span - 1e-9 * abs(low) <= t <= low + span * (1 + 1e-5) + 1e-9 * abs(low) for t in found)


@given(st.floats(1e-9, 1e6), st.floats(1.3, 1e12))
def test_log_scales_are_monotonic_and_have_ticks(low: float, ratio: float) -> None:
    scale = LogScale(low, low * ratio, 0, 100)
    places = [scale(tick) for tick in scale.ticks()]
    assert places == sorted(places)
    assert all(-0.01 <= place <= 100.01 for place in places)
    assert 1 <= len(places) <= 8


@given(ANY, ANY, ANY, st.booleans())
def test_interval_marks_are_well_formed_for_any_numbers(
    value: float | None, low: float | None, high: float | None, hollow: bool
) -> None:
    mark = interval_mark(value, low, high, column_scale([]), hollow=hollow)
    root = ET.fromstring(mark)
    assert (root.get("aria-hidden"), root.get("focusable")) == ("true", "false")
    assert "nan" not in mark
    assert "inf" not in mark


@given(st.floats(0, 1), st.lists(st.floats(0, 1) | st.none()))
def test_a_place_among_other_models_is_within_their_range(value: float, others: list[float | None]) -> None:
    root = ET.fromstring(profile_mark(value, [*others, value]))
    bar, point = present(root.find("rect")), present(root.find("circle"))
    left, width, at = float(bar.attrib["x"]), float(bar.attrib["width"]), float(point.attrib["cx"])
    assert left < at < left + width
    assert "circle" not in profile_mark(None, others)


@given(*[st.integers(0, 400)] * 3)
def test_the_parts_of_a_bar_of_outcomes_have_their_shares(better: int, equal: int, worse: int) -> None:
    widths = [float(one.attrib["width"]) for one in ET.fromstring(outcome_mark(better, equal, worse)).iter("rect")]
    assert len(widths) == sum(n > 0 for n in (better, equal, worse))
    total = better + equal + worse
    assert widths == pytest.approx([sum(widths) * n / total for n in (better, equal, worse) if n], abs=0.02)


def test_the_heading_of_a_column_has_the_ends_of_its_scale() -> None:
    texts = [node.text for node in ET.fromstring(axis_mark(column_scale([]))).iter("text")]
    assert texts == ["0", "1"]


def test_the_figure_has_both_pictures_the_table_and_downloads() -> None:
    chart = failures_chart([FailureCount(model="<b>", reason="rate_limit", n=2, n_instances=9)])
    template = environment().from_string(
        "{% from 'charts/figure.html' import figure %}{{ figure(chart, {'svg': '/a', 'csv': '/b'}) }}"
    )
    html = template.render(chart=chart)
    assert (html.count("<svg"), html.count('role="img"'), html.count("<tr>")) == (2, 2, 2)
    assert '<a href="/b" download>' in html
    assert "<b>" not in html
