"""The published results that ship: every number that was printed of them comes out again."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from statistics import fmean, pstdev, stdev

import pytest
from scipy.stats import binomtest

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.suites import load_suite
from medhelm.errors import UserError
from medhelm.extensions.paper.write import published_costs
from medhelm.results.published.boards import (
    CLUSTERED,
    FOLDER,
    HALF_STEP,
    INTERVAL,
    ceiling_of,
    load_results,
    published_cells,
    published_scores,
)
from medhelm.results.scores_csv import read_scores
from medhelm.scoring.metrics import METRIC_NAMES, METRICS

FIXTURE = Path(__file__).parents[2] / "fixtures" / "published_leaderboard.csv"
RESULTS = load_results()
PAPER = [entry.name for entry in load_suite() if entry.in_paper]
ALL = [entry.name for entry in load_suite()]

# Table 1 of the paper: win rate, its SD, macro average, its SD.
TABLE_1 = {
    "DeepSeek R1": ("0.66", "0.10", "0.75", "0.22"),
    "o3-mini": ("0.64", "0.16", "0.77", "0.18"),
    "Claude 3.7 Sonnet": ("0.64", "0.13", "0.73", "0.21"),
    "Claude 3.5 Sonnet": ("0.63", "0.14", "0.73", "0.21"),
    "GPT-4o": ("0.57", "0.17", "0.73", "0.18"),
    "Gemini 2.0 Flash": ("0.42", "0.17", "0.70", "0.21"),
    "GPT-4o mini": ("0.39", "0.18", "0.71", "0.20"),
    "Llama 3.3 70B": ("0.30", "0.13", "0.69", "0.22"),
    "Gemini 1.5 Pro": ("0.24", "0.08", "0.67", "0.21"),
}

# The same from the exported scores, by the reference's own rules: for 35 and for 37 benchmarks, to three decimals.
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

# Table 3 of the paper: tokens of the model, tokens of the jury, and what both cost in US dollars.
TABLE_3 = {
    "Claude 3.5 Sonnet": (245_958_343, 45_868_483, "778.67", "792.21", "1570.88"),
    "Claude 3.7 Sonnet": (242_510_517, 42_326_449, "768.26", "768.38", "1536.64"),
    "DeepSeek R1": (334_133_126, 68_364_208, "848.21", "957.96", "1806.17"),
    "Gemini 1.5 Pro": (277_273_571, 42_864_352, "359.33", "771.73", "1131.06"),
    "Gemini 2.0 Flash": (276_777_154, 42_864_352, "43.04", "771.73", "814.77"),
    "GPT-4o": (248_731_118, 41_929_516, "647.28", "765.91", "1413.19"),
    "GPT-4o mini": (248_731_118, 41_929_516, "38.83", "765.91", "804.74"),
    "Llama 3.3 70B": (242_895_608, 42_121_933, "172.45", "767.13", "939.58"),
    "o3-mini": (337_967_189, 68_617_978, "762.50", "959.54", "1722.04"),
}


def by_model(names: list[str]) -> dict[str, list[float]]:
    """Model -> values on these benchmarks."""
    return {m.name: [RESULTS.scores[key, name].value for name in names] for key, m in RESULTS.models.items()}


def win_rate(model: str, table: dict[str, list[float]], tie: float = 0.5) -> float:
    """Mean over benchmarks of the share of rivals beaten, by plain counting."""
    rivals = [own for name, own in table.items() if name != model]
    shares = []
    for place, value in enumerate(table[model]):
        won = sum(1.0 if value > rival[place] else tie if value == rival[place] else 0.0 for rival in rivals)
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


# --- scores -----------------------------------------------------------------------------------------------------------


def test_the_scores_are_those_of_the_published_export() -> None:
    export = read_scores(FIXTURE, load_suite())
    kept = {(RESULTS.models[s.model].name, s.benchmark): s.value for s in RESULTS.scores.values()}
    assert kept == {(cell.model, cell.benchmark): cell.value for cell in export.cells}
    assert len(kept) == 9 * 37
    assert {model.name: model.win_rate for model in RESULTS.models.values()} == export.win_rates
    assert list(RESULTS.benchmarks) == ALL


@pytest.mark.parametrize("model", TABLE_1)
def test_table_1_follows_from_the_scores(model: str) -> None:
    for names, printed in zip((PAPER, ALL), RECOMPUTED[model], strict=True):
        assert " ".join(f"{value:.3f}" for value in four(model, names)) == printed


def test_35_of_the_36_entries_of_table_1_are_as_printed() -> None:
    differing = {
        (model, place): f"{value:.4f}"
        for model, printed in TABLE_1.items()
        for place, (value, shown) in enumerate(zip(four(model, PAPER), printed, strict=True))
        if f"{value:.2f}" != shown
    }
    assert differing == {("Claude 3.5 Sonnet", 0): "0.6357"}


def test_the_exception_is_made_by_rounding_scores_to_three_decimals() -> None:
    """Its ties are none in the unrounded scores: lost, they give 0.632, won 0.639; the paper's 0.63 lies between."""
    table = by_model(PAPER)
    ties = [
        (name, rival)
        for place, name in enumerate(PAPER)
        for rival, own in table.items()
        if rival != "Claude 3.5 Sonnet" and own[place] == table["Claude 3.5 Sonnet"][place]
    ]
    assert ties == [("clear", "GPT-4o mini"), ("head_qa", "GPT-4o")]
    lost, won = (win_rate("Claude 3.5 Sonnet", table, tie) for tie in (0.0, 1.0))
    assert (f"{lost:.3f}", f"{won:.3f}") == ("0.632", "0.639")
    assert lost < 0.635 < won


def test_published_win_rates_differ_from_recomputed_ones_by_such_ties_only() -> None:
    table = by_model(ALL)
    for model in RESULTS.models.values():
        low, high = win_rate(model.name, table, 0.0), win_rate(model.name, table, 1.0)
        assert low - HALF_STEP <= model.win_rate <= high + HALF_STEP, model.name


@pytest.mark.parametrize(
    ("category", "low", "high"),
    [
        ("clinical_decision_support", "0.61", "0.76"),
        ("clinical_note_generation", "0.74", "0.85"),
        ("patient_communication_and_education", "0.76", "0.89"),
        ("medical_research_assistance", "0.65", "0.75"),
        ("administration_and_workflow", "0.53", "0.63"),
    ],
)
def test_categories_have_the_published_ranges(category: str, low: str, high: str) -> None:
    names = [entry.name for entry in load_suite() if entry.in_paper and entry.category == category]
    means = [four(model.name, names)[2] for model in RESULTS.models.values()]
    assert (f"{min(means):.2f}", f"{max(means):.2f}") == (low, high)


def test_with_the_two_later_benchmarks_decision_support_is_higher() -> None:
    names = [entry.name for entry in load_suite() if entry.category == "clinical_decision_support"]
    means = [four(model.name, names)[2] for model in RESULTS.models.values()]
    assert (len(names), f"{min(means):.2f}", f"{max(means):.2f}") == (12, "0.63", "0.77")


# --- tokens and costs -------------------------------------------------------------------------------------------------


def test_every_cell_of_table_3_is_reproduced_exactly() -> None:
    found = {
        row.model: (row.benchmark_tokens, row.jury_tokens, row.benchmark_usd, row.jury_usd, row.total_usd)
        for row in published_costs()
    }
    assert found == {
        model: (own, jury, float(paid), float(judged), float(total))
        for model, (own, jury, paid, judged, total) in TABLE_3.items()
    }
    totals = [math.fsum(row.total_usd or 0 for row in published_costs(suite)) for suite in ("paper35", "all")]
    assert [f"{total:.2f}" for total in totals] == ["11739.07", "11825.97"]


def test_costs_of_cells_add_up_to_the_table() -> None:
    for suite in ("paper35", "all"):
        cells, _ = published_cells(suite)
        for row in published_costs(suite):
            own = [cell.cost_usd for cell in cells if cell.model == row.model]
            assert math.fsum(cost for cost in own if cost is not None) == pytest.approx(row.total_usd, abs=1e-9)


# Rows of the published file: tokens of judges, and four costs.
PUBLISHED_ROWS = [
    ("claude_3_5_sonnet", "medalign", 11_791_274, 704_512, "35.24 0.66 73.22 18.11"),
    ("deepseek_r1", "mtsamples", 2_030_832, 1_748_992, "0.44 9.22 12.61 44.97"),
    ("gpt_4o", "aci_bench", 280_997, 491_520, "0.47 0.92 1.74 12.64"),
    ("gemini_2_0_flash", "n2c2_ct", 0, 0, "0.15 0.00 0.00 0.00"),
    ("llama_3_3_70b", "ehrsql", 0, 0, "0.68 0.73 0.00 0.00"),
    ("o3_mini", "med_dialog", 8_522_471, 8_192_000, "0.63 38.72 52.92 210.62"),
    ("gemini_1_5_pro", "hospice_referral", 0, 0, "29.74 0.01 0.00 0.00"),
    ("claude_3_7_sonnet", "med_qa", 0, 0, "0.79 0.02 0.00 0.00"),
]


@pytest.mark.parametrize(("model", "benchmark", "read", "written", "costs"), PUBLISHED_ROWS)
def test_costs_of_single_rows_are_the_published_ones(
    model: str, benchmark: str, read: int, written: int, costs: str
) -> None:
    bill = ceiling_of(RESULTS.scores[model, benchmark])
    assert (bill.judge_input_tokens, bill.judge_output_tokens) == (read, written)
    assert f"{bill.input_usd} {bill.output_usd} {bill.judge_input_usd} {bill.judge_output_usd}" == costs


def test_output_tokens_are_limits_but_for_three_rows() -> None:
    differing = {}
    for (key, name), score in RESULTS.scores.items():
        limit = 4000 if RESULTS.models[key].reasoning else RESULTS.benchmarks[name].max_tokens
        if score.output_tokens != score.instances * limit:
            differing[key, name] = (score.instances, score.output_tokens)
    assert differing == {
        (key, "n2c2_ct"): (258, 172) for key in ("claude_3_5_sonnet", "claude_3_7_sonnet", "gemini_2_0_flash")
    }


def test_instances_are_the_same_for_all_models_but_for_three_rows() -> None:
    differing = {
        pair: score.instances
        for pair, score in RESULTS.scores.items()
        if score.instances != RESULTS.benchmarks[pair[1]].instances
    }
    assert differing == {
        ("deepseek_r1", "mtsamples"): 427,
        ("o3_mini", "mtsamples"): 427,
        ("claude_3_5_sonnet", "medalign"): 172,
    }


def test_the_cost_of_the_jury_is_the_sum_of_its_judges() -> None:
    assert [judge.key for judge in RESULTS.jury] == ["claude_3_7_sonnet", "gpt_4o", "llama_3_3_70b"]
    assert round(sum(judge.price.input for judge in RESULTS.jury), 2) == 6.21
    assert round(sum(judge.price.output for judge in RESULTS.jury), 2) == 25.71
    printed = {model.key: model.printed_price for model in RESULTS.models.values() if model.printed_price}
    assert {key: (price.input, price.output) for key, price in printed.items()} == {"deepseek_r1": (1.20, 4.84)}


# --- what it is put beside --------------------------------------------------------------------------------------------


def test_metrics_agree_with_the_definitions() -> None:
    known = {benchmark.name: benchmark for benchmark in load_benchmarks(["all"], metrics=METRIC_NAMES)}
    assert set(known) == set(RESULTS.benchmarks)
    for name, published in RESULTS.benchmarks.items():
        assert (published.metric, published.max_tokens) == (known[name].metrics[0], known[name].max_tokens), name
        assert (published.question_type == "open") == (published.metric == "jury")
    assert sum(published.question_type == "open" for published in RESULTS.benchmarks.values()) == 13


def test_columns_have_the_scales_of_the_metrics() -> None:
    _, columns = published_cells()
    assert [column.benchmark for column in columns] == ALL
    for column in columns:
        metric = METRICS.get(column.metric)
        assert (column.low, column.high) == ((metric.low, metric.high) if metric else (1.0, 5.0))
        assert column.metric_title == (metric.title if metric else "Jury")
        assert len(column.judges) == (0 if metric else 3)


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


def test_only_shares_of_correct_completions_of_one_run_have_intervals() -> None:
    for own in RESULTS.benchmarks.values():
        if own.independent is not None:
            metric = METRICS[own.metric]
            assert (own.runs, metric.low, metric.high, own.metric != "icd_f1") == (1, 0, 1, True)
            assert own.independent <= own.scored <= own.instances


def test_published_means_are_shares_of_the_instances_they_are_over() -> None:
    """Each is a whole number of correct completions, within rounding."""
    for own in RESULTS.benchmarks.values():
        if own.metric not in ("exact_match", "medec_flag_accuracy") or own.runs > 1:
            continue
        for key in RESULTS.models:
            right = RESULTS.scores[key, own.name].value * own.scored
            assert abs(right - round(right)) <= HALF_STEP * own.scored + 1e-9, (key, own.name)


def test_half_of_the_med_qa_instances_are_reported(data_dir: Path) -> None:
    (benchmark,) = load_benchmarks(["med_qa"], metrics=METRIC_NAMES)
    dataset = open_dataset(benchmark, data=data_dir, tier="real", options=SampleOptions(sample="published"))
    own = RESULTS.benchmarks["med_qa"]
    assert (len(dataset), own.scored, own.instances) == (503, 503, 1000)
    assert {score.scored for score in RESULTS.scores.values() if score.benchmark == "med_qa"} == {503}
    others = {b.name for b in RESULTS.benchmarks.values() if b.scored != b.instances}
    assert others == {"med_qa"}


# --- cells ------------------------------------------------------------------------------------------------------------


def cells_of(benchmark: str) -> list[Cell]:
    return [cell for cell in published_cells()[0] if cell.benchmark == benchmark]


@pytest.mark.parametrize("benchmark", ["pubmed_qa", "medbullets", "head_qa", "med_qa", "med_mcqa"])
def test_intervals_hold_those_of_every_count_that_rounds_to_the_published_mean(benchmark: str) -> None:
    n = RESULTS.benchmarks[benchmark].scored
    for cell in cells_of(benchmark):
        assert cell.value is not None
        assert cell.estimate is not None
        assert (cell.estimate.method, cell.estimate.n, cell.n) == (INTERVAL, n, n)
        counts = [k for k in range(n + 1) if abs(k / n - cell.value) <= HALF_STEP + 1e-12]
        assert counts
        for count in counts:
            exact = binomtest(count, n).proportion_ci(method="wilson")
            assert cell.estimate.low <= exact.low + 1e-12
            assert exact.high - 1e-12 <= cell.estimate.high
        assert cell.estimate.high - cell.estimate.low < 0.12


def test_intervals_are_wider_where_instances_share_a_note() -> None:
    clustered = {c.benchmark for c in published_cells()[0] if c.estimate and c.estimate.method == CLUSTERED}
    assert clustered == {"medcalc_bench", "medec", "medhallu", "race_bias", "ehrsql"}
    for cell in cells_of("medec"):
        assert cell.value is not None
        assert cell.estimate is not None
        alone = binomtest(round(cell.value * 597), 597).proportion_ci(method="wilson")
        assert cell.estimate.high - cell.estimate.low > 1.3 * (alone.high - alone.low)


@pytest.mark.parametrize("benchmark", ["aci_bench", "clear", "ehrshot", "n2c2_ct", "mimic_iv_billing_code", "cdi_qa"])
def test_means_that_are_not_shares_have_no_interval(benchmark: str) -> None:
    cells = cells_of(benchmark)
    assert [cell.estimate for cell in cells] == [None] * 9
    assert all(cell.n for cell in cells)


def test_a_suite_selects_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("pubmed_qa\nhealthbench\nshc_ptbm_med\n", encoding="utf-8")
    cells, columns = published_cells(str(file))
    assert ({c.benchmark for c in cells}, len(cells)) == ({"pubmed_qa", "adhd_behavior"}, 18)
    assert isinstance(columns[0], Column)
    with pytest.raises(UserError, match="paper53"):
        published_cells("paper53")


def test_rows_for_notebooks_have_the_same_numbers() -> None:
    rows = published_scores("paper35")
    assert len(rows) == 9 * 35
    row = next(row for row in rows if (row["name"], row["benchmark"]) == ("GPT-4o", "aci_bench"))
    assert row == {
        "model": "openai/gpt-4o-2024-05-13",
        "name": "GPT-4o",
        "benchmark": "aci_bench",
        "title": "ACI-Bench",
        "category": "clinical_note_generation",
        "metric": "jury",
        "scale_low": 1.0,
        "scale_high": 5.0,
        "value": 4.512,
        "low": None,
        "high": None,
        "n": 120,
        "input_tokens": 188_837,
        "output_tokens": 92_160,
        "cost_usd": pytest.approx(15.77),
    }


# --- the files --------------------------------------------------------------------------------------------------------


def test_every_file_has_a_source_and_is_small() -> None:
    files = sorted(file for file in FOLDER.iterdir() if file.suffix in (".csv", ".yaml"))
    told = {source["file"] for source in RESULTS.sources["files"]}
    assert {file.name for file in files} - {"sources.yaml"} == told
    assert all(source["taken_from"] and source["revision"] and source["what"] for source in RESULTS.sources["files"])
    assert sum(file.stat().st_size for file in files) < 32_000


def test_names_are_unique_and_models_have_a_provider() -> None:
    models = list(RESULTS.models.values())
    assert len({model.name for model in models}) == len({model.model for model in models}) == 9
    assert all("/" in model.model and model.window >= 128_000 for model in models)
    assert [model.key for model in models if model.reasoning] == ["deepseek_r1", "o3_mini"]
