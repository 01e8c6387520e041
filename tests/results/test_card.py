"""`medhelm export card`: one page for people who decide."""

from __future__ import annotations

import datetime
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.domain import Model, Origin, Price
from medhelm.results.card import export_card
from medhelm.results.options import BoardOptions, RunFilter
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm
from tests.support.evaluated_store import copy_of_store, port_of
from tests.support.stores import add_judged_runs, grades

TODAY = datetime.date(2026, 3, 4)


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters of options, the same in groups, and judged text, with failures of every kind."""
    return copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "exported-store")


def card(store: Path, **options: Any) -> dict[str, Any]:
    """The card of a store, as JSON."""
    place = store.parent / "card.json"
    export_card(store, place, BoardOptions(**options), today=TODAY)
    content: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return content


def limits(store: Path, **options: Any) -> str:
    return " ".join(card(store, **options)["limits"])


# --- what is on it ----------------------------------------------------------------------------------------------------


def test_the_card_holds_the_numbers_of_the_leaderboard(medhelm: Medhelm, store: Path) -> None:
    found = card(store)
    board = medhelm("leaderboard", "--store", store, "--json").json
    assert found["ranked_by"] == board["ranked_by"]
    assert [model["name"] for model in found["models"]] == [row["model"].partition("@")[0] for row in board["models"]]
    for model, row in zip(found["models"], board["models"], strict=True):
        assert model["rank"] == row["rank"]
        for name in ("win_share", "win_rate", "macro_average"):
            for key in ("value", "low", "high"):
                assert model[name][key] == pytest.approx(row[name][key], abs=1e-6)
        for benchmark in found["benchmarks"]:
            shown, own = benchmark["scores"][model["name"]], row["benchmarks"][benchmark["id"]]
            assert {k: shown[k] for k in ("n", "n_failed")} == {k: own[k] for k in ("n", "n_failed")}
            for key in ("value", "low", "high"):
                assert shown[key] == pytest.approx(own[key], abs=1e-6)


def test_models_are_shown_with_their_server_and_reported_version(store: Path) -> None:
    model = card(store)["models"][0]
    assert (model["name"], model["served_as"]) == ("openai/a", "a")
    assert model["reached"] == "a server on the same computer"
    assert model["snapshots"] == {"mock-1": 27}
    assert model["price"] == ""


def test_data_and_prompts_have_digests(store: Path) -> None:
    found = {benchmark["id"]: benchmark for benchmark in card(store)["benchmarks"]}
    runs = {run.benchmark: run for run in load_runs(open_store(store))}
    for name, benchmark in found.items():
        assert benchmark["data_digest"] == runs[name].data_digest
        assert benchmark["definition_digest"] == runs[name].benchmark_digest
        assert re.fullmatch("[0-9a-f]{64}", benchmark["prompts_digest"])
    assert found["toy"]["prompts_digest"] == found["grouped"]["prompts_digest"] != found["letters"]["prompts_digest"]


def test_the_digest_of_prompts_is_that_of_a_release(medhelm: Medhelm, store: Path) -> None:
    medhelm("release", "one", "--store", store)
    manifest = json.loads((store / "releases" / "one" / "release.json").read_text(encoding="utf-8"))
    frozen = {run["benchmark"]: run["prompts"] for run in manifest["bases"]}
    assert {benchmark["id"]: benchmark["prompts_digest"] for benchmark in card(store)["benchmarks"]} == frozen


def test_each_model_has_digests_of_all_it_was_measured_with(store: Path) -> None:
    one, two = card(store)["models"][:2]
    assert set(one["digests"]) == {"toy", "grouped", "letters"}
    assert one["digests"] == two["digests"]
    toy, letters = one["digests"]["toy"], one["digests"]["letters"]
    for part in ("data", "references", "prompts", "definition"):
        assert re.fullmatch("[0-9a-f]{64}", toy[part])
        assert toy[part] != letters[part]
    assert toy["judges"] == "" != letters["judges"]
    assert (toy["sampling"], toy["max_tokens"]) == ("temperature 0", 5)
    export_card(store, store.parent / "card.md", today=TODAY)
    _, _, table = (store.parent / "card.md").read_text(encoding="utf-8").partition("## Digests per model")
    rows = [line.split("|")[2:] for line in table.partition("##")[0].splitlines() if "openai/" in line]
    assert rows[0] == rows[1]
    assert "temperature 0, at most 5 to 50 tokens" in rows[0][-2]


def test_the_source_of_known_data_is_named_with_its_revision(medhelm: Medhelm, data_dir: Path, tmp_path: Path) -> None:
    medhelm("run", "pubmed_qa", "--model", "baseline/majority", "--limit", "20", "--data", data_dir, "--store", "store")
    assert medhelm("export", "card", "card.json", "--store", "store").code == 0
    found = json.loads(Path("card.json").read_text(encoding="utf-8"))
    (benchmark,) = found["benchmarks"]
    assert benchmark["source"] == "public, raw.githubusercontent.com"
    assert re.fullmatch("[0-9a-f]{40}", benchmark["revision"])
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in benchmark["files"].values())
    assert benchmark["selection"] == "the first 20 of the usual selection"
    assert "--limit 20" in found["command"]
    assert any("Only the first questions" in text for text in found["limits"])


def test_settings_versions_and_command_are_there(store: Path) -> None:
    found = card(store)
    assert found["settings"]["Temperature (0: the likeliest answer each time)"] == "0"
    assert found["settings"]["Longest answer"] == "5 to 50 tokens (pieces of words)"
    assert set(found["versions"]) == {"medhelm", "Python"}
    assert found["date"] == "2026-03-04"
    assert found["command"].startswith("medhelm run grouped toy --model openai/a@ADDRESS")
    assert "medhelm run letters --model" in found["command"]
    assert "--judge openai/judge-3@ADDRESS" in found["command"]


def test_judges_with_their_missing_judgments(store: Path) -> None:
    found = card(store)
    judges = [(judge["name"], judge["expected"], judge["missing"]) for judge in found["judges"]]
    assert judges == [("openai/judge-1", 48, 6), ("openai/judge-2", 48, 6), ("openai/judge-3", 48, 12)]
    said = " ".join(found["limits"])
    assert "24 of 144 judgments are missing, so 2 answers have no score." in said
    assert "2 of 54 answers failed because of the model (refusal 2), counted as the worst answer." in said
    assert "answers are missing" not in said


def test_failures_are_missing_by_the_published_rule(store: Path) -> None:
    said = limits(store, rule="published")
    assert "2 of 54 answers are missing (refusal 2): they are left out of the scores." in said
    assert "worst answer" not in said


def test_significant_differences_agree_with_the_leaderboard(medhelm: Medhelm, tmp_path: Path) -> None:
    add_judged_runs(tmp_path / "store", "letters", grades(1, 60))
    found = card(tmp_path / "store")
    board = medhelm("leaderboard", "--store", tmp_path / "store", "--json").json
    said = " ".join(found["findings"])
    better = {
        (one, other)
        for one, below in re.findall(r"(\S+) is significantly better than (.*?)\.(?:\s|$)", said)
        for other in re.split(", | and ", below)
    }
    equal = set(re.findall(r"(\S+) and (\S+?)[;.](?:\s|$)", said.partition("Cannot be separated")[2]))
    assert better == {tuple(pair) for pair in board["told_apart_adjusted"]}
    assert len(better) + len(equal) == 6


def test_many_models_are_described_in_groups(tmp_path: Path) -> None:
    models = [f"maker/model-{i}" for i in range(8)]
    table = grades(2, 30, models=models, judges=("judge/one",))
    add_judged_runs(tmp_path / "store", "letters", table, models=models, judges=("judge/one",))
    found = card(tmp_path / "store")
    assert re.match(r"\d+ of 28 differences between models are larger than chance explains", found["findings"][0])


def test_the_verdict_is_that_of_the_leaderboard_without_addresses(medhelm: Medhelm, store: Path) -> None:
    board = medhelm("leaderboard", "--store", store, "--json").json
    said = re.sub(r"@[^\s,)]*", "", " ".join(board["verdict"]))
    assert said
    assert " ".join(card(store)["verdict"]) == said
    export_card(store, store.parent / "card.md", today=TODAY)
    assert (store.parent / "card.md").read_text(encoding="utf-8").splitlines()[2] == said


def test_baselines_follow_the_models_without_a_rank(tmp_path: Path) -> None:
    models = ("lab/one", "baseline/majority", "lab/two", "lab/three")
    add_judged_runs(tmp_path / "store", "letters", grades(1, 20), models=models)
    found = card(tmp_path / "store")
    *competing, baseline = found["models"]
    assert [model["rank"] is None for model in competing] == [False] * 3
    assert (baseline["name"], baseline["rank"], baseline["win_share"]) == ("baseline/majority", None, None)
    assert baseline["macro_average"]["value"] > 0
    assert any("Baselines are simple rules" in text for text in found["limits"])
    assert not any("baseline/majority" in text for text in found["findings"])


# --- what it says of limits -------------------------------------------------------------------------------------------


def test_invented_rows_are_called_so(medhelm: Medhelm, tmp_path: Path) -> None:
    place = make_benchmark(tmp_path)
    medhelm("run", place, "--model", "baseline/majority", "--tier", "sample", "--store", tmp_path / "store")
    assert "They say nothing about real performance." in limits(tmp_path / "store")
    export_card(tmp_path / "store", tmp_path / "card.html", today=TODAY)
    assert "INVENTED EXAMPLES, NOT REAL DATA" in (tmp_path / "card.html").read_text(encoding="utf-8")
    assert "--tier sample" in card(tmp_path / "store")["command"]


def test_runs_of_other_programs_are_called_so(tmp_path: Path) -> None:
    origin = Origin(harness="helm", version="0.5", run="letters:model=x", sha256="f" * 64)
    add_judged_runs(tmp_path / "store", "letters", grades(1, 20), origin=origin)
    found = card(tmp_path / "store")
    assert found["models"][0]["reached"] == "read from files of helm"
    assert found["benchmarks"][0]["files"] == {"letters:model=x": "f" * 64}
    assert "4 of 4 runs were imported from another program (helm)" in " ".join(found["limits"])


def test_a_judge_that_judges_itself_is_named(tmp_path: Path) -> None:
    add_judged_runs(tmp_path / "store", "letters", grades(1, 20))
    assert "openai/gpt-4o graded answers of the same model" in limits(tmp_path / "store")


def test_runs_of_another_jury_are_left_out_by_name(tmp_path: Path) -> None:
    table = grades(1, 20)
    add_judged_runs(tmp_path / "store", "letters", table)
    add_judged_runs(tmp_path / "store", "letters", table[:1, :1], models=("late/comer",), judges=("judge/one",))
    found = card(tmp_path / "store")
    assert "late/comer" not in {model["name"] for model in found["models"]}
    assert any(text.startswith("late/comer is left out of Letters: graded by judge/one,") for text in found["limits"])


def test_a_missing_benchmark_and_an_unknown_price_are_reported(tmp_path: Path) -> None:
    table = grades(1, 20)
    add_judged_runs(tmp_path / "store", "letters", table, cost_usd=None)
    add_judged_runs(tmp_path / "store", "notes", table[:, :1], models=("openai/gpt-4o",), cost_usd=1.5)
    said = limits(tmp_path / "store")
    assert "has no score on Notes" in said
    assert "not a free model" in said


def test_published_scoring_is_called_so(store: Path) -> None:
    found = card(store, rule="published")
    assert found["scoring"] == "published"
    assert "known faults included" in " ".join(found["limits"])


def test_a_price_has_its_date(tmp_path: Path) -> None:
    price = Price(input=2.5, output=10.0, source="list of 2026-01-02")
    reached = Model(name="openai/gpt-4o", provider="openai", remote_name="gpt-4o", base_url="https://api.x.test/v1/k3y", price=price)  # fmt: skip  # noqa: E501
    add_judged_runs(
        tmp_path / "store", "letters", grades(1, 20)[:, :1], models=("openai/gpt-4o",), resolved_model=reached
    )
    (model,) = card(tmp_path / "store")["models"]
    assert model["price"] == "2.5 in, 10 out, USD per million tokens (list of 2026-01-02)"
    assert model["reached"] == "over the internet: api.x.test"


def test_a_single_model_is_not_compared(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path), "--model", "baseline/majority", "--store", tmp_path / "store")
    assert card(tmp_path / "store")["findings"] == ["There is one model: a comparison needs at least two."]


# --- the page ---------------------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """Checks that a page is well formed and loads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "link", "iframe", "object", "base", "form")
        assert not [name for name, _ in attributes if name in ("src", "href", "style") or name.startswith("on")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    assert page.open == []
    return page


def test_the_page_is_whole_and_fetches_nothing(store: Path, tmp_path: Path) -> None:
    export_card(store, tmp_path / "out", today=TODAY)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "card.html", "card.json", "card.md", "medhelm-export.json",
    ]  # fmt: skip
    text = page_of(tmp_path / "out" / "card.html").text
    for words in ("Evaluation card: 2 models on 3 benchmarks", "openai/b", "1 failed"):
        assert words in text
        assert words in (tmp_path / "out" / "card.md").read_text(encoding="utf-8")
    assert "url(" not in text and "@import" not in text


def test_names_cannot_write_into_the_page(tmp_path: Path) -> None:
    evil = "maker/<script>alert(1)</script>"
    add_judged_runs(
        tmp_path / "store", "letters", grades(1, 20)[:, :1], models=("openai/gpt-4o",), title=evil,
        resolved_model=Model(name="openai/gpt-4o", provider="openai", remote_name=evil),
    )  # fmt: skip
    export_card(tmp_path / "store", tmp_path / "card.html", today=TODAY)
    assert "<script" not in (tmp_path / "card.html").read_text(encoding="utf-8")
    assert evil in page_of(tmp_path / "card.html").text
    export_card(tmp_path / "store", tmp_path / "card.md", today=TODAY)
    assert "<script" not in re.sub(r"\\<", "", (tmp_path / "card.md").read_text(encoding="utf-8"))


def test_no_text_of_patients_and_no_address_is_on_any_of_them(store: Path, tmp_path: Path) -> None:
    export_card(store, tmp_path / "out", today=TODAY)
    for path in (tmp_path / "out").iterdir():
        content = path.read_text(encoding="utf-8")
        for text in (
            "number 4",
            "An answer to",
            "HYPERLINK",
            f":{port_of(store)}",
            "127.0.0.1",
            "content filter",
            "it is",
        ):
            assert text not in content.replace("it is safe", "")


def test_the_same_store_and_day_give_the_same_card(store: Path, tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        export_card(store, tmp_path / name, today=TODAY)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


# --- where it is written ----------------------------------------------------------------------------------------------


def test_a_card_may_be_replaced_and_another_file_may_not(medhelm: Medhelm, store: Path) -> None:
    for name in ("card.md", "card.html", "card.json"):
        assert medhelm("export", "card", name, "--store", store).code == 0
        assert medhelm("export", "card", name, "--store", store).code == 0
    Path("thesis.md").write_text("years of work", encoding="utf-8")
    done = medhelm("export", "card", "thesis.md", "--store", store)
    assert (done.code, Path("thesis.md").read_text(encoding="utf-8")) == (2, "years of work")
    assert "not an evaluation card" in done.err


def test_only_the_selected_benchmark_is_in_the_card(store: Path) -> None:
    found = card(store, wanted=RunFilter(benchmarks=["toy"]))
    assert [benchmark["id"] for benchmark in found["benchmarks"]] == ["toy"]
    assert found["judges"] == []
    assert {model["n_benchmarks"] for model in found["models"]} == {1}


def test_a_store_without_a_finished_run_has_no_card(medhelm: Medhelm, tmp_path: Path) -> None:
    add_judged_runs(
        tmp_path / "store", "letters", np.ones((1, 1, 3, 3)), models=("a/b",), judges=("c/d",), status="partial"
    )
    done = medhelm("export", "card", "card.md", "--store", tmp_path / "store")
    assert done.code == 2
    assert "No finished run to report" in done.err
    assert not Path("card.md").exists()
