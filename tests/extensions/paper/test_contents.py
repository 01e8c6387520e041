"""Tables of a report agree with the JSON of the leaderboard and with the printed paper."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.agreement.jury_vs_clinicians import JuryAgreement, RatingMatrix, measure_agreement
from medhelm.analysis.comparison.power import detectable_effects
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.planned_cost import CompletionUse
from medhelm.benchmarks.suites import load_suite
from medhelm.domain.result import Remark
from medhelm.extensions.paper import contents
from medhelm.extensions.paper import write as appendix
from medhelm.extensions.paper.contents import ModelCost, PaperTable, write
from medhelm.extensions.paper.write import ReportRequest, gather_inputs, suite_listings, taxonomy_titles
from medhelm.results.formats.tables import estimate_text
from medhelm.results.leaderboard_view import as_json
from medhelm.results.options import BoardOptions
from tests.support.leaderboards import HOSTILE, TABLE_1, TABLE_3, published, toy_board, toy_costs


def rows_of(table: PaperTable) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(write(table, "csv"))))


def number(text: str) -> float | None:
    return float(text) if text else None


@pytest.mark.parametrize("model", TABLE_1)
def test_table_1_of_the_paper_comes_out_to_its_printed_digits(model: str) -> None:
    (row,) = (row for row in rows_of(contents.table_1(published())) if row["model"] == model)
    found = [float(row[name]) for name in ("win_rate", "win_rate_sd", "macro_average", "macro_average_sd")]
    printed = list(TABLE_1[model])
    if model == "Claude 3.5 Sonnet":
        # Scores were published to three decimals, which makes ties: 0.6357 instead of 0.63.
        assert found[0] == pytest.approx(0.6357, abs=5e-5)
        found, printed = found[1:], printed[1:]
    if model == "GPT-4o":
        assert found[1] == pytest.approx(0.1748, abs=5e-5)
    assert [round(value, 2) for value in found] == printed


def test_table_3_of_the_paper_comes_out_to_its_printed_digits() -> None:
    found = gather_inputs(ReportRequest(published="only", options=BoardOptions(suite="paper35")))
    table = contents.table_3(found.costs, found.board)
    shown = {row["model"]: row for row in rows_of(table)}
    assert list(shown) == [row.model for row in found.board.rows]
    for model, (tokens, jury_tokens, usd, jury_usd, total) in TABLE_3.items():
        row = shown[model]
        assert (int(row["benchmark_tokens"]), int(row["jury_tokens"])) == (tokens, jury_tokens)
        assert [float(row[name]) for name in ("benchmark_usd", "jury_usd", "total_usd")] == [usd, jury_usd, total]
        assert row["basis"] == "ceiling"
    assert sum(float(row["total_usd"]) for row in shown.values()) == pytest.approx(11_739.07)
    assert "1,806.17" in write(table, "md")


@pytest.mark.parametrize(
    "board",
    [
        published(),
        toy_board(1, 1),
        toy_board(2, 3),
        toy_board(4, 6, missing=[(0, 0), (2, 5)]),
        toy_board(3, 2, tied=True),
        toy_board(3, 2, names=["baseline/majority"]),
    ],
    ids=["published", "one", "two", "gaps", "ties", "baseline"],
)
def test_table_1_holds_the_numbers_of_the_boards_json(board: Leaderboard) -> None:
    models = as_json(board)["models"]
    rows = rows_of(contents.table_1(board))
    assert [row["model"] for row in rows] == [model["model"] for model in models]
    for row, model in zip(rows, models, strict=True):
        for name, sd in (("win_rate", "win_rate_sd"), ("macro_average", "macro_sd")):
            known: dict[str, Any] = model[name] or {"value": None, "low": None, "high": None}
            assert number(row[name]) == known["value"]
            assert (number(row[f"{name}_low"]), number(row[f"{name}_high"])) == (known["low"], known["high"])
            assert number(row[f"{name}_sd"]) == model[sd]
        for name in ("rank", "rank_low", "rank_high", "tie_group", "n_benchmarks", "coverage", "guarded_win_rate"):
            assert number(row[name]) == model[name]
        share = model["win_share"] or {"value": None, "low": None, "high": None}
        assert [number(row[f"win_share{end}"]) for end in ("", "_low", "_high")] == list(share.values())
        assert (row["suite"], row["scoring"], row["tier"]) == (board.suite, board.scoring, board.tier)


def test_a_model_with_gaps_is_shown_with_its_adjusted_average() -> None:
    whole, gaps = toy_board(3, 4), toy_board(3, 4, missing=[(2, 0)])
    assert "Own average" not in contents.table_1(whole).headers
    table = contents.table_1(gaps)
    macro, own = (list(table.headers).index(name) for name in ("Macro average", "Own average"))
    assert [row[macro] for row in table.rows] == [estimate_text(row.adjusted_average) for row in gaps.rows]
    assert [row[own] for row in table.rows] == [estimate_text(row.macro_average) for row in gaps.rows]
    assert "estimated from the other scores for benchmarks that a model lacks" in " ".join(table.notes)
    assert {"4 (100%)", "3 (75%)"} == {row[-1] for row in table.rows}


def test_baselines_are_below_the_models_in_table_1_and_table_subcategories() -> None:
    board = toy_board(3, 2, names=["baseline/majority"])
    table = contents.table_1(board)
    assert [(row[0], row[1]) for row in table.rows][-1] == (None, "baseline/majority")
    share = list(table.headers).index("Win share")
    assert {row[share] for row in table.rows if row[0] is None} == {None}
    assert contents.BASELINES in table.notes
    assert contents.BASELINES not in contents.table_1(toy_board(3, 2)).notes
    assert appendix.table_subcategories(board, taxonomy_titles()).headers[-1] == "baseline/majority"


def test_table_1_shows_win_shares_with_intervals_where_questions_are_sampled() -> None:
    table = contents.table_1(toy_board(3, 4))
    share, rate = (list(table.headers).index(name) for name in ("Win share", "Win rate"))
    assert all("[" in str(row[share]) and "[" not in str(row[rate]) for row in table.rows)
    assert contents.NO_INTERVAL in table.notes
    paper = contents.table_1(published())
    assert "Win share" not in paper.headers
    assert all("[" in str(row[list(paper.headers).index("Win rate")]) for row in paper.rows)
    assert not any("resampl" in note or "bootstrap" in note for note in (*table.notes, *paper.notes))


def test_table_subcategories_holds_the_means_of_the_boards_subcategories() -> None:
    board = published()
    models = {model["model"]: model["subcategories"] for model in as_json(board)["models"]}
    rows = rows_of(appendix.table_subcategories(board, taxonomy_titles()))
    assert len(rows) == 22 * 9
    for row in rows:
        assert number(row["value"]) == models[row["model"]][row["subcategory"]]["value"]
    counts = {row["subcategory"]: int(row["n_benchmarks"]) for row in rows}
    assert sorted(counts.values()) == [1] * 15 + [2, 2, 2, 2, 3, 4, 5]
    shown = appendix.table_subcategories(board, taxonomy_titles())
    assert [str(row[0]) for row in shown.rows].count("Clinical Decision Support") == 4
    assert "Patient-Provider Messaging (4)" in {row[1] for row in shown.rows}


def test_table_c3_lists_the_35_benchmarks_with_access_source_and_instances() -> None:
    board = published()
    suite = [entry.name for entry in load_suite() if entry.in_paper]
    rows = rows_of(appendix.table_c3(suite_listings(board, suite), board, taxonomy_titles()))
    assert [row["benchmark"] for row in rows] == suite
    assert Counter(row["access"] for row in rows) == {"public": 14, "gated": 7, "private": 14}
    assert Counter(row["source"] for row in rows) == {"existing": 17, "reformulated": 5, "new": 13}
    by_name = {row["benchmark"]: row for row in rows}
    assert (by_name["mtsamples"]["instances_low"], by_name["mtsamples"]["instances_high"]) == ("78", "427")
    assert by_name["aci_bench"]["instances_low"] == "120"
    assert {row["n_models"] for row in rows} == {"9"}


def test_table_c3_marks_benchmarks_without_runs_and_lists_own_ones() -> None:
    board = toy_board(2, 3)
    lines = suite_listings(board)
    table = appendix.table_c3(lines, board, taxonomy_titles())
    assert len(table.rows) == 37
    assert [row[-1] for row in table.rows] == ["2 of 2"] * 3 + ["no"] * 34
    assert [row[-2] for row in table.rows] == ["12"] * 3 + [None] * 34
    assert all(row[5] for row in table.rows), "metrics of what was not run are known from the published results"
    assert table.caption.startswith("3 of 37 benchmarks with results")


def test_table_e4_holds_both_rules() -> None:
    board = toy_board(3, 2, n=20)
    effects = detectable_effects([cell for row in board.rows for cell in row.cells.values()], board.columns)
    table = appendix.table_e4(effects, board)
    rows = rows_of(table)
    for row in rows:
        found = effects[row["benchmark"]]
        assert found.published is not None and found.corrected is not None
        assert float(row["published_mde"]) == pytest.approx(found.published.value, abs=1e-6)
        assert float(row["corrected_sd"]) == pytest.approx(found.corrected.sd, abs=1e-6)
        assert row["corrected_pairs"] == "3"
    # By hand: 2.8 standard errors of the paired difference, mean over the three pairs.
    first = [row.cells[board.columns[0].benchmark].scores for row in board.rows]
    by_hand = [2.8 * np.std(a - b) / np.sqrt(20) for i, a in enumerate(first) for b in first[i + 1 :]]  # type: ignore[operator]
    assert float(rows[0]["published_mde"]) == pytest.approx(np.mean(by_hand), abs=1e-6)
    assert float(rows[0]["published_sd"]) == pytest.approx(np.std(by_hand), abs=1e-6)
    assert any("--scoring published" in note for note in table.notes)


def test_an_unknown_cost_is_a_dash_and_never_nothing() -> None:
    board = toy_board(3, 2)
    table = contents.table_3(toy_costs(board, unknown=[1], free=[2]), board, ["no price is known of lab/model-1"])
    totals = [row[5] for row in table.rows]
    assert totals == ["0.37", None, "0.00"]
    assert rows_of(table)[1]["total_usd"] == ""
    assert any("never counted as 0" in note for note in table.notes)
    assert table.notes[-1].startswith("no price is known")


def test_what_a_completion_takes_is_shown_if_it_is_known() -> None:
    board = toy_board(3, 2, n=40, costs=[0.1, 0.2, None])
    first, second, third = board.rows
    use = CompletionUse(
        completions=80, usd_per_1000=2.5, input_tokens=900.0, output_tokens=99.6, seconds=1.234, mean_seconds=2.0
    )
    timed = replace(board, rows=(replace(first, use=use), second, third))
    table = contents.table_3(toy_costs(board), timed)
    assert table.headers[-3:] == ["Tokens per completion", "Seconds per completion", "On frontier"]
    by_model = {row[0]: list(row[-3:]) for row in table.rows}
    assert by_model[first.model][:2] == ["1000", "1.2"]
    assert by_model["lab/model-2"] == [*by_model["lab/model-2"][:2], None]
    assert by_model["lab/model-0"][2] == "1.00"
    assert "Not compared by cost, because their cost is unknown: lab/model-2." in table.notes
    assert rows_of(table)[0]["seconds_per_completion"] == "1.234"
    assert contents.table_3(toy_costs(board), board).headers[-2:] == ["Basis", "On frontier"]


@pytest.mark.parametrize(
    ("usd", "shown"),
    [(0.0, "0.00"), (0.004321, "0.00432"), (0.00000512, "0.000005"), (0.5, "0.50"), (12345.678, "12,345.68")],
)
def test_small_amounts_show_digits(usd: float, shown: str) -> None:
    board = toy_board(1, 1)
    cost = ModelCost(
        model=board.rows[0].model, benchmark_tokens=1, jury_tokens=0, benchmark_usd=usd, jury_usd=0.0, ceiling_usd=None
    )
    assert contents.table_3([cost], board).rows[0][5] == shown


def clinical() -> JuryAgreement:
    """Two clinicians and a jury on eight completions of two benchmarks."""
    rng = np.random.default_rng(3)

    def panel(name: str) -> RatingMatrix:
        true = rng.normal(3.5, 0.8, 8)
        grades = np.clip(np.round(true[:, None, None] + rng.normal(0, 0.5, (8, 2, 2))), 1, 5)
        jury = np.clip(true + rng.normal(0, 0.4, (8,)), 1, 5)
        return RatingMatrix(
            cases=[f"{name} {i}" for i in range(8)], clusters=[f"{name}/{i}" for i in range(8)], raters=["A", "B"],
            criteria=["accuracy", "clarity"], grades=grades, composites=grades.mean(axis=2),
            jury_grades=np.stack([jury, jury], axis=1), jury=jury, judges={}, baselines={"rouge_l": rng.random(8)},
            low=1, high=5,
        )  # fmt: skip

    sets = {name: measure_agreement(panel(name), np.random.default_rng(0), 50) for name in ("aci_bench", "mediqa_qa")}
    return JuryAgreement(
        place="ratings.csv",
        datasets=sets,
        combined=sets["aci_bench"],
        jury_from="file",
        remarks=(Remark("note", "", "Mind this."),),
    )


def test_table_2_holds_the_jury_the_clinicians_and_the_baselines() -> None:
    found, board = clinical(), toy_board(2, 2)
    table = contents.table_2(found, board, {"rouge_l": "ROUGE-L"})
    assert [row[0] for row in table.rows] == ["aci_bench", "mediqa_qa", "Combined"]
    assert table.headers[-1] == "ROUGE-L and clinicians"
    rows = rows_of(table)
    for name, one in found.datasets.items():
        by_who = {row["who"]: row for row in rows if row["benchmark"] == name}
        assert float(by_who["jury"]["icc3k"]) == pytest.approx(one.jury.consistency.value, abs=1e-6)
        assert float(by_who["jury"]["low"]) == pytest.approx(one.jury.consistency.low, abs=1e-6)
        assert number(by_who["clinicians"]["icc3k"]) == pytest.approx(one.clinicians.pairs.value, abs=1e-6)
        assert float(by_who["rouge_l"]["icc3k"]) == pytest.approx(one.baselines["rouge_l"].consistency.value, abs=1e-6)
    assert "Mind this." in table.notes


def all_tables(board: Leaderboard) -> list[PaperTable]:
    effects = detectable_effects([cell for row in board.rows for cell in row.cells.values()], board.columns)
    return [
        contents.table_1(board),
        contents.table_2(clinical(), board, {}),
        contents.table_3(toy_costs(board), board),
        appendix.table_c3(suite_listings(board), board, taxonomy_titles()),
        appendix.table_subcategories(board, taxonomy_titles()),
        appendix.table_e4(effects, board),
    ]


def test_sample_rows_are_stamped_on_every_table_in_every_format() -> None:
    for table in all_tables(toy_board(2, 3, tier="sample")):
        assert "SAMPLE TIER" in write(table, "md")
        assert "SAMPLE TIER" in write(table, "latex")
        assert {row["tier"] for row in rows_of(table)} == {"sample"}
    for table in all_tables(toy_board(2, 3)):
        assert "SAMPLE TIER" not in write(table, "md")
        assert {row["tier"] for row in rows_of(table)} == {"real"}


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (5, 37), (30, 3)])
def test_every_row_is_as_long_as_its_headings(shape: tuple[int, int]) -> None:
    for table in all_tables(toy_board(*shape)):
        assert {len(row) for row in table.rows} == {len(table.headers)}
        assert {len(row) for row in table.csv_rows} == {len(table.csv_headers)}
        assert len(set(table.csv_headers)) == len(table.csv_headers), "names of CSV columns are unique"


def test_hostile_names_stay_in_their_cells() -> None:
    board = toy_board(5, 2, names=HOSTILE)
    for table in all_tables(board):
        lines = write(table, "md").splitlines()
        cells = {line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}
        assert len(cells) == 1, f"{table.key}: a name made or ended a cell"
    by_model = {row["model"] for row in rows_of(contents.table_1(board))}
    assert by_model == {f"'{name}" if name.startswith("=") else name for name in HOSTILE}, "a spreadsheet runs nothing"


def test_different_weights_are_reported() -> None:
    board = toy_board(2, 2)
    heavy = replace(board, columns=(replace(board.columns[0], weight=2.5), board.columns[1]))
    titles = taxonomy_titles()
    table = appendix.table_c3(suite_listings(heavy), heavy, titles)
    at = list(table.headers).index("Weight")
    assert [row[at] for row in table.rows[:3]] == ["2.5", "1", None]
    assert rows_of(table)[0]["weight"] == "2.5"
    assert any("weighted" in note for note in contents.table_1(heavy).notes)
    assert "Weight" not in appendix.table_c3(suite_listings(board), board, titles).headers
