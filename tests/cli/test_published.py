"""`medhelm leaderboard --published-only` and `--with-published`: what they print, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, succeeded
from tests.support.leaderboards import TABLE_3

TOTALS = {model: printed[-1] for model, printed in TABLE_3.items()}
"""US dollars in all."""


def test_published_only_needs_no_store_and_gives_tables_1_and_3(medhelm: Medhelm, tmp_path: Path) -> None:
    outcome = succeeded(medhelm("leaderboard", "--published-only", "--suite", "paper35", "--json"))
    assert list(tmp_path.iterdir()) == []
    board = outcome.json
    assert (board["suite"], board["scoring"], board["tier"]) == ("paper35", "published", "real")
    assert {model["model"]: model["cost_usd"] for model in board["models"]} == TOTALS
    assert all(model["published"] is True and model["n_benchmarks"] == 35 for model in board["models"])
    assert board["models"][0]["model"] == "DeepSeek R1"
    panel = medhelm("leaderboard", "--published-only", "--suite", "paper35", "--panel", "published", "--json").json
    assert panel["pairs"] == board["pairs"]


def test_published_rows_are_marked_in_every_table(medhelm: Medhelm, tmp_path: Path) -> None:
    """Beside those of a baseline on a toy that goes by the name of a published benchmark."""
    assert medhelm("run", make_benchmark(tmp_path, name="pubmed_qa", n=30), "--model", "baseline/majority").code == 0
    for shape, by in (("table", "overall"), ("md", "category"), ("latex", "subcategory"), ("latex", "benchmark")):
        out = medhelm("leaderboard", "--with-published", "--format", shape, "--by", by).out
        mark = r"$\dagger$" if shape == "latex" else "†"
        assert f"GPT-4o {mark}" in out
        assert ("baseline/majority" in out, f"baseline/majority {mark}" in out) == (True, False)
        assert f"{mark} published, not measured here" in out


def test_own_models_get_the_win_rate_they_would_have_in_the_published_table(medhelm: Medhelm, tmp_path: Path) -> None:
    """A second own model moves the win rate among all models, and nothing against the published ones."""
    place = make_benchmark(tmp_path, name="pubmed_qa", n=30)
    boards = []
    for name in ("majority", "random"):
        assert medhelm("run", place, "--model", f"baseline/{name}").code == 0
        for file in (tmp_path / "medhelm-store").glob(f"runs/*/*{name}*/run.json"):
            content = file.read_text(encoding="utf-8")
            file.write_text(content.replace(f'"baseline/{name}"', f'"own/{name}"'), encoding="utf-8")
        boards.append(medhelm("leaderboard", "--panel", "published", "--json").json)
    assert [len(board["models"]) for board in boards] == [10, 11]
    assert set(boards[0]["panel"]) == set(TOTALS)
    rates = [{model["model"]: model["win_rate"]["value"] for model in board["models"]} for board in boards]
    assert rates[0].items() <= rates[1].items()
    scores = {model["model"]: model["benchmarks"]["pubmed_qa"]["value"] for model in boards[0]["models"]}
    own = scores.pop("own/majority")
    beaten = sum(own > score for score in scores.values()) + sum(own == score for score in scores.values()) / 2
    assert rates[0]["own/majority"] == pytest.approx(beaten / 9, abs=1e-6)
    assert boards[0]["scoring"] == "published"
    with_all = medhelm("leaderboard", "--with-published", "--json").json
    assert {model["model"]: model["win_rate"]["value"] for model in with_all["models"]} != rates[1]
