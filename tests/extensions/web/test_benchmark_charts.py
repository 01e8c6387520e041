"""Charts of one benchmark from stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from medhelm.extensions.web.benchmark_charts import benchmark_charts
from medhelm.extensions.web.site import BoardSelection, Site, board_of
from medhelm.results.formats.drawing import Chart
from medhelm.results.formats.tables import Value
from tests.support.cli import Medhelm
from tests.support.evaluated_store import copy_of_store


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("template")


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path, template: Path) -> Path:
    """Two models on letters, on the same in two groups, and on text for a jury; one completion of `b` failed."""
    return copy_of_store(medhelm, tmp_path, template)


def charts_of(store: Path, benchmark: str, *, with_text: bool = True) -> dict[str, Any]:
    site = Site(stores=[store], with_text=with_text)
    board = board_of(site, BoardSelection())
    column = next(column for column in board.columns if column.benchmark == benchmark)
    return {name: make() for name, make in benchmark_charts(site, board, column).items()}


def names(chart: Chart) -> list[str]:
    """Return the models of a table, without provider and address."""
    return [str(row[0]).partition("@")[0].rpartition("/")[2] for row in chart.rows]


def numbers(cells: Sequence[Value]) -> list[float]:
    """Return the numbers of some cells of a table."""
    return [cell for cell in cells if isinstance(cell, int | float)]


def test_failures_count_in_the_chart_as_in_the_score(store: Path) -> None:
    found = charts_of(store, "toy")
    assert names(found["scores"]) == names(found["distribution"]) == ["a", "b"]
    right, wrong, counted, unscored = numbers(found["distribution"].rows[1][1:])
    assert (counted, unscored, right + wrong + counted + unscored) == (1, 0, 9)
    assert right / (right + wrong + counted) == pytest.approx(found["scores"].rows[1][2], abs=1e-6)
    assert found["distribution"].rows[0][1:] == [9, 0, 0, 0]
    assert [row[1:] for row in found["failures"].rows] == [["refusal", 1, 9, pytest.approx(1 / 9, abs=1e-6)]]
    assert found["failures"].notes[0].startswith("No failures: ")
    assert not found["subgroups"].has_data


def test_subgroups_of_private_data_are_left_out_with_the_text(store: Path) -> None:
    found = charts_of(store, "grouped")
    assert len(found["subgroups"].numbers) == 2 * 2
    private = charts_of(store, "grouped", with_text=False)
    assert (private["subgroups"].has_data, private["distribution"].has_data) == (False, True)
