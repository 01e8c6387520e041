"""All outputs on one store give one answer: the same ranks, scores, failures, differences and p-values."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import medhelm as package
from medhelm.results.formats.tables import p_text
from tests.support.cli import Medhelm
from tests.support.six_stores import STORES, make
from tests.support.statements import Pair, Statements, ranks, read

FORBIDDEN = re.compile(r"tie[_ ]group|guarded|group-end|heavy line|decides\)", re.IGNORECASE)
"""Words that no reader needs; they stay as keys of JSON and names of CSV columns."""


class Answer(NamedTuple):
    """What the JSON of the leaderboard says."""

    board: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]
    better: set[Pair]
    tested: Mapping[frozenset[str], float]
    """Pair -> adjusted p-value."""

    @property
    def ranks(self) -> dict[str, tuple[int, int, int]]:
        """Model -> rank and the possible ones."""
        keys = ("rank", "rank_low", "rank_high")
        ranked = {model: [row[key] for key in keys] for model, row in self.rows.items() if row["rank"]}
        return {model: (rank, low, high) for model, (rank, low, high) in ranked.items()}


def _answer(board: Mapping[str, Any]) -> Answer:
    return Answer(
        board,
        {row["model"]: row for row in board["models"]},
        {(a, b) for a, b in board["told_apart_adjusted"]},
        {frozenset((pair["a"], pair["b"])): pair["p_adjusted"] for pair in board["pairs"]},
    )


IN_SHORT = "timing-out"
"""Store with differences that depend on missing scores."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == IN_SHORT else [pytest.mark.long]) for name in STORES]
)
def test_no_output_contradicts_another(name: str, medhelm: Medhelm, tmp_path: Path) -> None:
    store = make(name, tmp_path / "store")

    def out(*words: str | Path, codes: tuple[int, ...] = (0,)) -> str:
        done = medhelm(*words, "--store", store)
        assert done.code in codes, done.err
        return done.out if done.out else done.err

    answer = _answer(json.loads(out("leaderboard", "--json")))
    for words in (("leaderboard",), ("leaderboard", "--wide"), ("leaderboard", "--format", "md")):
        text = out(*words)
        _agrees(text, answer, states_first=True)
        assert ranks(text) == answer.ranks, words
    for by in ("benchmark", "head-to-head"):
        _agrees(out("leaderboard", "--by", by), answer, states_first=True)
    _check_csv(out("leaderboard", "--format", "csv"), answer)
    _check_head_to_head(out("leaderboard", "--by", "head-to-head", "--format", "csv"), answer)
    _check_comparisons(out, answer)
    copy = shutil.copytree(store, tmp_path / "copy")
    _check_gate(json.loads(out("gate", "--against", copy, "--json", codes=(0, 1, 5))), answer)
    _agrees(out("gate", "--against", copy, codes=(0, 1, 5)), answer)

    out("export", "card", tmp_path / "card")
    card = (tmp_path / "card" / "card.md").read_text()
    _agrees(card, answer, states_all=True, states_first=True)
    assert ranks(card) == answer.ranks
    _check_card(json.loads((tmp_path / "card" / "card.json").read_text()), answer)

    out("report", tmp_path / "report", "--formats", "md,csv", "--only", "table1")
    report = (tmp_path / "report" / "README.md").read_text()
    said = _agrees(report, answer, states_first=True)
    assert said.better == answer.better
    assert ranks(report) == answer.ranks
    _agrees((tmp_path / "report" / "index.html").read_text(), answer, states_first=True)

    out("release", "r1")
    out("verify", "r1")
    assert json.loads((store / "releases" / "r1" / "leaderboard.json").read_text())["models"] == answer.board["models"]
    _check_site(out, tmp_path / "site", answer)
    board = package.leaderboard(store)
    assert board.to_dict() == answer.board
    _agrees(str(board), answer, states_first=True)
    assert bool(said.fragile) == (name == "timing-out")


# --- sentences --------------------------------------------------------------------------------------------------------


def _agrees(text: str, answer: Answer, *, states_all: bool = False, states_first: bool = False) -> Statements:
    """Assert that no sentence of a text contradicts the answer, or another sentence; return what they say."""
    said = read(text, list(answer.ranks))
    is_better = {frozenset(pair) for pair in answer.better}
    assert not said.unread
    assert said.better <= answer.better
    assert said.equal <= answer.tested.keys() - is_better
    assert said.unknown.isdisjoint(answer.tested)
    assert {frozenset(pair) for pair in said.fragile} <= answer.tested.keys() - is_better
    assert said.counts <= {(len(answer.better), len(answer.tested))}
    assert said.first <= {model for model, row in answer.rows.items() if row["rank"] == 1}
    assert not FORBIDDEN.search(text)
    if states_all:
        assert said.better == answer.better
        assert said.equal == answer.tested.keys() - is_better
    if states_first:
        assert said.first
    return said


# --- numbers ----------------------------------------------------------------------------------------------------------


def _check_csv(text: str, answer: Answer) -> None:
    for row in csv.DictReader(io.StringIO(text)):
        known = answer.rows[row["model"]]
        for key in ("rank", "rank_low", "rank_high"):
            assert row[key] == ("" if known[key] is None else str(known[key]))
        for key in ("macro_average", "adjusted_average", "win_share", "win_rate"):
            estimate = known[key] or {"value": None}
            assert row[key] == "" if estimate["value"] is None else float(row[key]) == estimate["value"]


def _check_head_to_head(text: str, answer: Answer) -> None:
    marked = {frozenset((row["a"], row["b"])) for row in csv.DictReader(io.StringIO(text)) if row["separated"] == "yes"}
    assert marked in ({frozenset(pair) for pair in answer.better}, set())


def _check_comparisons(out: Any, answer: Answer) -> None:
    """All pairs, three named models and each pair state the findings of the leaderboard, with its p-values."""
    models = list(answer.rows)
    everything = json.loads(out("compare", "--json"))
    assert {_found(pair) for pair in everything["pairs"] if pair["separated"]} == answer.better
    for pair in everything["pairs"]:
        known = answer.tested.get(frozenset((pair["first"], pair["second"])))
        assert (pair["win_share"] or {"p_holm": None})["p_holm"] == known
        if known is not None:
            assert pair["macro_average"]["p_holm"] == known
    text = out("compare")
    _agrees(text, answer)
    for pair in everything["pairs"]:
        p = p_text(answer.tested.get(frozenset((pair["first"], pair["second"])))) or "–"
        assert re.search(rf"{pair['first']} +{pair['second']}\b.* {re.escape(p)}$", text, re.MULTILINE)
    named = read(out("compare", *models[:3]), models[:3])
    assert not named.unread
    assert named.better <= answer.better
    for place, first in enumerate(models):
        for second in models[place + 1 :]:
            _check_pair(out, first, second, answer)


def _found(pair: Mapping[str, Any]) -> Pair:
    names = (pair["first"], pair["second"])
    return names if pair["macro_average"]["difference"] > 0 else names[::-1]


def _check_pair(out: Any, first: str, second: str, answer: Answer) -> None:
    pair = frozenset((first, second))
    if pair not in answer.tested:
        assert read(out("compare", first, second, codes=(2,)), ()).unknown == {pair}
        return
    found = json.loads(out("compare", first, second, "--json"))
    assert found["win_share"]["p_adjusted"] == answer.tested[pair]
    is_better = {(first, second), (second, first)} & answer.better
    assert found["win_share"]["separated"] == bool(is_better)
    text = out("compare", first, second)
    said = _agrees(text, answer)
    assert said.better == is_better
    assert said.better or said.equal or said.fragile
    assert re.search(rf"Macro average.* {re.escape(str(p_text(answer.tested[pair])))}$", text, re.MULTILINE)


def _check_gate(gate: Mapping[str, Any], answer: Answer) -> None:
    """A store against itself: the scores of both sides are those of the leaderboard."""
    for test in gate["tests"]:
        assert test["difference"] == 0
        if test["benchmark"] is None or test["benchmark"] == "notes":
            continue
        cell = answer.rows[test["model"]]["benchmarks"][test["benchmark"]]
        assert test["new"] == test["reference"] == cell["value"]
        assert test["n"] == cell["n"]
        assert test["n_missing"] == cell["n_failed"] - cell.get("n_failed_by_model", 0)


def _check_card(card: Mapping[str, Any], answer: Answer) -> None:
    for model in card["models"]:
        row = answer.rows[model["name"]]
        assert [model[key] for key in ("rank", "rank_low", "rank_high")] == [
            row[key] for key in ("rank", "rank_low", "rank_high")
        ]
        for end in ("value", "low", "high"):
            assert model["macro_average"][end] == pytest.approx(row["adjusted_average"][end], abs=1e-6)
    for benchmark in card["benchmarks"]:
        for name, score in benchmark["scores"].items():
            cell = answer.rows[name]["benchmarks"][benchmark["id"]]
            for key in ("value", "low", "high", "n", "n_failed"):
                assert score[key] == pytest.approx(cell[key], abs=1e-6)


# --- the site ---------------------------------------------------------------------------------------------------------


def _check_site(out: Any, folder: Path, answer: Answer) -> None:
    """The pages of the site state the findings of the leaderboard."""
    out("export", "site", folder)
    page = (folder / "index.html").read_text()
    _agrees(page, answer, states_first=True)
    assert ranks(page) == answer.ranks
    assert json.loads((folder / "leaderboard.json").read_text())["models"] == answer.board["models"]
    verdicts = set()
    for path in folder.glob("compare*.html"):
        said = _agrees(path.read_text(), answer)
        (pair,) = {frozenset(pair) for pair in (*said.better, *said.equal, *said.unknown, *said.fragile)}
        verdicts.add(pair)
    assert verdicts >= answer.tested.keys()
