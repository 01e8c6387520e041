"""The study of the size of leaderboards: its synthetic results are what it says, and sizes are measured."""

from __future__ import annotations

import numpy as np
import pytest

from bench.studies import leaderboard_size
from bench.studies.leaderboard_size import BENCHMARKS, measured, synthetic


def test_results_have_every_kind_of_score_clusters_and_failures() -> None:
    cells, columns = synthetic(3, 400)
    assert (len(cells), len(columns)) == (3 * BENCHMARKS, BENCHMARKS)
    scores = {cell.benchmark: cell.scores for cell in cells if cell.scores is not None}
    kinds = [len(np.unique(one[~np.isnan(one)])) for one in scores.values()]
    assert {2, 4} < set(kinds)
    assert max(kinds) > 350
    assert any(cell.clusters for cell in cells)
    assert any(cell.n_failed for cell in cells)


@pytest.mark.parametrize("what", ["leaderboard", "compare"])
def test_a_size_is_measured(what: str) -> None:
    found = measured(3, 20, what)
    assert found["seconds"] > 0
    assert found["mib"] > 10


def test_the_table_has_a_row_for_each_size(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["leaderboard_size", "--most", "9"])
    monkeypatch.setattr(leaderboard_size, "SIZES", ((3, 20, "compare"), (9, 20, "leaderboard"), (10, 20, "compare")))
    leaderboard_size.main()
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("| models x benchmarks x instances |")
    assert [row.split(" | ")[:2] for row in rows] == [["| 3 x 37 x 20", "compare"], ["| 9 x 37 x 20", "leaderboard"]]
