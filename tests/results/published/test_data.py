"""The published results that ship: every number that was printed of them comes out again."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from statistics import fmean, pstdev, stdev

import pytest
from scipy.stats import binomtest

from medhelm.analysis.leaderboard.cells import Cell
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.suites import load_suite
from medhelm.extensions.paper.write import published_costs
from medhelm.results.published.boards import (
    CLUSTERED,
    FOLDER,
    HALF_STEP,
    INTERVAL,
    load_results,
    published_cells,
    published_leaderboard,
)
from medhelm.results.scores_csv import read_scores
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.leaderboards import TABLE_1, TABLE_3
from tests.support.values import present

FIXTURE = Path(__file__).parents[2] / "fixtures" / "published_leaderboard.csv"
RESULTS = load_results()
PAPER = [entry.name for entry in load_suite() if entry.in_paper]
ALL = [entry.name for entry in load_suite()]

# Table 1 of the paper from the exported scores, by the reference's own rules: for 35 and for 37 benchmarks.
RECOMPUTED = {
    "DeepSeek R1": ("0.662 0.099 0.750 0.220", "0.662 0.109 0.753 0.214"),
    "o3-mini": ("0.641 0.160 0.769 0.183", "0.660 0.152 0.773 0.180"),
    "Claude 3.7 Sonnet": ("0.636 0.131 0.731 0.210", "0.628 0.147 0.734 0.205"),
    "Claude 3.5 Sonnet": ("0.636 0.141 0.733 0.207", "0.633 0.149 0.736 0.202"),
    "GPT-4o": ("0.570 0.175 0.733 0.183", "0.579 0.173 0.737 0.179"),
    "Gemini 2.0 Flash": ("0.420 0.170 0.703 0.207", "0.431 0.176 0.708 0.202"),
    "GPT-4o mini": ("0.391 0.180 0.712 0.200", "0.370 0.170 0.712 0.194"),
    "Llama 3.3 70B": ("0.304 0.133 0.691 0.219", "0.301 0.146 0.695 0.214"),
    "Gemini 1.5 Pro": ("0.241 0.083 0.671 0.210", "0.235 0.084 0.675 0.205"),
}


def by_model(names: list[str]) -> dict[str, list[float]]:
    """Model -> values on these benchmarks."""
    return {m.name: [RESULTS.scores[key, name].value for name in names] for key, m in RESULTS.models.items()}


def win_rate(model: str, table: dict[str, list[float]]) -> float:
    """Mean over benchmarks of the share of rivals beaten, by plain counting."""
    rivals = [own for name, own in table.items() if name != model]
    shares = []
    for place, value in enumerate(table[model]):
        won = sum(1.0 if value > rival[place] else 0.5 if value == rival[place] else 0.0 for rival in rivals)
        shares.append(won / len(rivals))
    return fmean(shares)


def four(model: str, names: list[str]) -> tuple[float, float, float, float]:
    """Return the numbers of a model in table 1, by plain counting."""
    table = by_model(names)
    strict = [
        fmean(a > b for a, b in zip(table[model], own, strict=True)) for name, own in table.items() if name != model
    ]
    normal = [
        (value - 1) / 4 if RESULTS.benchmarks[name].metric == "jury" else value
        for value, name in zip(table[model], names, strict=True)
    ]
    return win_rate(model, table), pstdev(strict), fmean(normal), stdev(normal)


def test_the_scores_are_those_of_the_published_export() -> None:
    export = read_scores(FIXTURE, load_suite())
    kept = {(RESULTS.models[s.model].name, s.benchmark): s.value for s in RESULTS.scores.values()}
    assert kept == {(cell.model, cell.benchmark): cell.value for cell in export.cells}
    assert len(kept) == 9 * 37
    assert {model.name: model.win_rate for model in RESULTS.models.values()} == export.win_rates
    assert list(RESULTS.benchmarks) == ALL


@pytest.mark.parametrize(("suite", "place"), [("paper35", 0), ("all", 1)])
def test_table_1_follows_from_the_scores(suite: str, place: int) -> None:
    """By plain counting, and on the leaderboard; as printed but for one of 36 entries."""
    names = (PAPER, ALL)[place]
    differing = {}
    for row in published_leaderboard(suite=suite).rows:
        assert row.win_rate
        assert row.macro_average
        shown = (row.win_rate.value, row.win_rate.sd, row.macro_average.value, row.macro_average.sd)
        counted = four(row.model, names)
        for numbers in (counted, shown):
            assert " ".join(f"{value:.3f}" for value in numbers) == RECOMPUTED[row.model][place]
        for column, (value, printed) in enumerate(zip(counted, TABLE_1[row.model], strict=True)):
            if f"{value:.2f}" != f"{printed:.2f}":
                differing[row.model, column] = f"{value:.4f}"
    if suite == "paper35":
        assert differing == {("Claude 3.5 Sonnet", 0): "0.6357"}


def test_every_cell_of_table_3_is_reproduced_exactly() -> None:
    found = {
        row.model: (row.benchmark_tokens, row.jury_tokens, row.benchmark_usd, row.jury_usd, row.total_usd)
        for row in published_costs()
    }
    assert found == TABLE_3
    for suite, total in (("paper35", "11739.07"), ("all", "11825.97")):
        rows, (cells, _) = published_costs(suite), published_cells(suite)
        assert f"{math.fsum(row.total_usd or 0 for row in rows):.2f}" == total
        for row in rows:
            own = [cell.cost_usd for cell in cells if cell.model == row.model]
            assert math.fsum(cost for cost in own if cost is not None) == pytest.approx(row.total_usd, abs=1e-9)


def test_metrics_agree_with_the_definitions() -> None:
    known = {benchmark.name: benchmark for benchmark in load_benchmarks(["all"], metrics=METRIC_NAMES)}
    assert set(known) == set(RESULTS.benchmarks)
    for name, published in RESULTS.benchmarks.items():
        assert (published.metric, published.max_tokens) == (known[name].metrics[0], known[name].max_tokens), name
        assert (published.question_type == "open") == (published.metric == "jury")
    assert sum(published.question_type == "open" for published in RESULTS.benchmarks.values()) == 13


def test_independent_instances_are_counted_as_the_data_has_them(data_dir: Path) -> None:
    """(Sum of the sizes of clusters) squared, over the sum of their squares: answers within a cluster all alike."""
    counted = {name: own.independent for name, own in RESULTS.benchmarks.items() if own.independent is not None}
    small = ("medec", "race_bias", "medbullets", "pubmed_qa", "medcalc_bench")
    assert set(small) < set(counted)
    for benchmark in load_benchmarks(list(small), metrics=METRIC_NAMES):
        sizes = Counter(i.cluster or i.id for i in open_dataset(benchmark, data=data_dir, tier="real"))
        n = sum(sizes.values())
        assert n == RESULTS.benchmarks[benchmark.name].scored
        assert counted[benchmark.name] == n * n // sum(size * size for size in sizes.values())


def cells_of(benchmark: str) -> list[Cell]:
    return [cell for cell in published_cells()[0] if cell.benchmark == benchmark]


@pytest.mark.parametrize("benchmark", ["pubmed_qa", "med_qa"])
def test_intervals_hold_those_of_every_count_that_rounds_to_the_published_mean(benchmark: str) -> None:
    n = RESULTS.benchmarks[benchmark].scored
    for cell in cells_of(benchmark):
        estimate, value = present(cell.estimate), present(cell.value)
        assert (estimate.method, estimate.n, cell.n) == (INTERVAL, n, n)
        counts = [k for k in range(n + 1) if abs(k / n - value) <= HALF_STEP + 1e-12]
        assert counts
        for count in counts:
            exact = binomtest(count, n).proportion_ci(method="wilson")
            assert estimate.low <= exact.low + 1e-12
            assert exact.high - 1e-12 <= estimate.high
        assert estimate.high - estimate.low < 0.12


def test_intervals_are_wider_where_instances_share_a_note() -> None:
    clustered = {c.benchmark for c in published_cells()[0] if c.estimate and c.estimate.method == CLUSTERED}
    assert clustered == {"medcalc_bench", "medec", "medhallu", "race_bias", "ehrsql"}
    for cell in cells_of("medec"):
        alone = binomtest(round(present(cell.value) * 597), 597).proportion_ci(method="wilson")
        assert present(cell.estimate).high - present(cell.estimate).low > 1.3 * (alone.high - alone.low)


def test_means_that_are_not_shares_have_no_interval() -> None:
    for benchmark in ("aci_bench", "clear", "mimic_iv_billing_code"):
        assert [cell.estimate for cell in cells_of(benchmark)] == [None] * 9


def test_every_file_has_a_source_and_is_small() -> None:
    files = sorted(file for file in FOLDER.iterdir() if file.suffix in (".csv", ".yaml"))
    told = {source["file"] for source in RESULTS.sources["files"]}
    assert {file.name for file in files} - {"sources.yaml"} == told
    assert all(source["taken_from"] and source["revision"] and source["what"] for source in RESULTS.sources["files"])
    assert sum(file.stat().st_size for file in files) < 32_000
