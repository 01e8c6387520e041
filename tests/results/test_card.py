"""`medhelm export card`: one page for people who decide."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from medhelm.domain import Origin, Price
from medhelm.results.card import export_card
from medhelm.results.options import BoardOptions, DocumentOptions, RunFilter
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, assert_refused
from tests.support.evaluated_store import copy_of_store, port_of
from tests.support.html import HtmlPage
from tests.support.ssh_keys import make_key
from tests.support.stores import CRITERIA, MODELS, add_judged_runs, grades, make_model

pytestmark = pytest.mark.usefixtures("few_draws")

TODAY = DocumentOptions(date="2026-03-04")


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters of options, the same in groups, and judged text, with failures of every kind."""
    return copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "exported-store")


@pytest.fixture
def shared(medhelm: Medhelm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a store and its card in every form, which no test changes."""
    folder, template = (tmp_path_factory.getbasetemp() / name for name in ("store-with-card", "exported-store"))
    if not folder.exists():
        export_card(copy_of_store(medhelm, folder, template), folder / "out", about=TODAY)
    return folder


def card(store: Path, **options: Any) -> dict[str, Any]:
    """The card of a store, as JSON."""
    place = store.parent / "card.json"
    export_card(store, place, BoardOptions(**options), about=TODAY)
    return read(place)


def read(place: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return content


def test_the_card_holds_the_numbers_and_the_verdict_of_the_leaderboard(medhelm: Medhelm, shared: Path) -> None:
    found = read(shared / "out" / "card.json")
    board = medhelm("leaderboard", "--store", shared / "store", "--json").json
    ends = ("value", "low", "high")
    for model, row in zip(found["models"], board["models"], strict=True):
        assert (model["name"], model["rank"]) == (row["model"].partition("@")[0], row["rank"])
        for name in ("win_share", "win_rate", "macro_average"):
            assert [model[name][key] for key in ends] == pytest.approx([row[name][key] for key in ends], abs=1e-6)
        for benchmark in found["benchmarks"]:
            shown, own = benchmark["scores"][model["name"]], row["benchmarks"][benchmark["id"]]
            assert (shown["n"], shown["n_failed"]) == (own["n"], own["n_failed"])
            assert [shown[key] for key in ends] == pytest.approx([own[key] for key in ends], abs=1e-6)
    said = re.sub(r"@[^\s,)]*", "", " ".join(board["verdict"]))
    assert " ".join(found["verdict"]) == said != ""
    model = found["models"][0]
    assert (model["served_as"], model["reached"]) == ("a", "a server on the same computer")
    assert model["snapshots"] == {"mock-1": 27}
    assert found["command"].startswith("medhelm run grouped toy --model openai/a@ADDRESS")
    assert "--judge openai/judge-3@ADDRESS" in found["command"]


def test_the_source_of_known_data_is_named_with_its_revision(medhelm: Medhelm, data_dir: Path, tmp_path: Path) -> None:
    medhelm("run", "pubmed_qa", "--model", "baseline/majority", "--limit", "20", "--data", data_dir, "--store", "store")
    assert medhelm("export", "card", "card.json", "--store", "store").code == 0
    found = read(Path("card.json"))
    (benchmark,) = found["benchmarks"]
    assert benchmark["source"] == "public, raw.githubusercontent.com"
    assert re.fullmatch("[0-9a-f]{40}", benchmark["revision"])
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in benchmark["files"].values())
    assert benchmark["selection"] == "the first 20 of the default selection"
    assert "--limit 20" in found["command"]
    assert any("Only the first questions" in text for text in found["limits"])


def test_missing_judgments_and_answers_are_counted(shared: Path) -> None:
    found = read(shared / "out" / "card.json")
    judges = [(judge["name"], judge["expected"], judge["missing"]) for judge in found["judges"]]
    assert judges == [("openai/judge-1", 48, 6), ("openai/judge-2", 48, 6), ("openai/judge-3", 48, 12)]
    said = " ".join(found["limits"])
    assert "24 of 144 judgments are missing, so 2 answers have no score." in said
    assert "2 of 54 answers failed because of the model (refusal 2), counted as the worst answer." in said
    published = " ".join(card(shared / "store", rule="published")["limits"])
    assert "2 of 54 answers are missing (refusal 2): they are left out of the scores." in published
    assert "worst answer" not in published


def test_invented_rows_and_a_single_model_are_called_so(medhelm: Medhelm, tmp_path: Path) -> None:
    place = make_benchmark(tmp_path)
    medhelm("run", place, "--model", "baseline/majority", "--tier", "sample", "--store", tmp_path / "store")
    found = card(tmp_path / "store")
    assert "They say nothing about real performance." in " ".join(found["limits"])
    assert "--tier sample" in found["command"]
    assert found["findings"] == ["There is one model: a comparison needs at least two."]
    export_card(tmp_path / "store", tmp_path / "card.html", about=TODAY)
    page = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert page.index("<h1>") < page.index("INVENTED EXAMPLES, NOT REAL DATA") < page.index("<h2>")


def test_runs_of_other_programs_are_called_so(tmp_path: Path) -> None:
    origin = Origin(harness="helm", version="0.5", run="letters:model=x", sha256="f" * 64)
    add_judged_runs(tmp_path / "store", "letters", grades(1, 20), origin=origin)
    found = card(tmp_path / "store")
    assert found["models"][0]["reached"] == "read from files of helm"
    assert found["benchmarks"][0]["files"] == {"letters:model=x": "f" * 64}
    assert "4 of 4 runs were imported from another program (helm)" in " ".join(found["limits"])


def test_a_missing_benchmark_and_an_unknown_price_are_reported(tmp_path: Path) -> None:
    table = grades(1, 20)
    add_judged_runs(tmp_path / "store", "letters", table, cost_usd=None)
    add_judged_runs(tmp_path / "store", "notes", table[:, :1], models=("openai/gpt-4o",), cost_usd=1.5)
    said = " ".join(card(tmp_path / "store")["limits"])
    assert "has no score on Notes" in said
    assert "not a free model" in said
    add_judged_runs(tmp_path / "store", "advice", table[:, :1], models=("lab/apart",))
    found = card(tmp_path / "store")["findings"]
    assert not any("lab/apart" in text for text in found if text.startswith("Cannot be separated"))
    assert any("was not run on the same benchmarks as" in text for text in found)


def test_a_price_has_its_date(tmp_path: Path) -> None:
    price = Price(input=2.5, output=10.0, source="list of 2026-01-02")
    reached = make_model("openai/gpt-4o", base_url="https://api.x.test/v1/k3y", price=price)
    models = ("openai/gpt-4o",)
    add_judged_runs(tmp_path / "store", "letters", grades(1, 20)[:, :1], models=models, resolved_model=reached)
    (model,) = card(tmp_path / "store")["models"]
    assert model["price"] == "2.5 in, 10 out, USD per million tokens (list of 2026-01-02)"
    assert model["reached"] == "over the internet: api.x.test"


def test_the_page_is_whole_fetches_nothing_and_has_no_text_of_patients_and_no_address(shared: Path) -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in (shared / "out").iterdir()}
    for words in ("Evaluation card: 2 models on 3 benchmarks", "openai/b", "1 failed", "are in no release"):
        assert words in pages["card.html"]
        assert words in pages["card.md"]
    fetched = r"<(script|img|link|iframe|object|base|form)\b|\s(src|href|style|on\w+)=|url\(|@import"
    assert not re.search(fetched, pages["card.html"])
    port = port_of(shared / "store")
    secrets = ("number 4", "An answer to", "HYPERLINK", f":{port}", "127.0.0.1", "content filter", "it is")
    for content in pages.values():
        assert [text for text in secrets if text in content.replace("it is safe", "")] == []


def test_many_models_have_several_tables_and_baselines_follow_without_a_rank(tmp_path: Path) -> None:
    models = ("lab/one", "baseline/majority", "lab/two", "lab/three", "lab/four", "lab/five", "lab/six", "lab/seven")
    for name in ("letters", "notes"):
        add_judged_runs(tmp_path / "store", name, grades(1, 20, models=models), models=models)
    export_card(tmp_path / "store", tmp_path / "card.md", about=TODAY)
    text = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert text.startswith("# Evaluation card: 7 models on 2 benchmarks")
    assert "| – | baseline/majority | " in text
    headings = re.findall(r"(?m)^## Scores, part \d of 2\n\n\| Benchmark \| Metric \(scale\) \|(.*)\|$", text)
    assert sorted(name for heading in headings for name in heading.strip().split(" | ")) == sorted(models)
    one = BoardOptions(wanted=RunFilter(benchmarks=["notes"]))
    export_card(tmp_path / "store", tmp_path / "card.md", one, about=TODAY)
    assert "| Model | Notes, Jury (1 to 5) |" in (tmp_path / "card.md").read_text(encoding="utf-8")
    assert re.search(r"\d+ of 21 pairs of models differ significantly", text)


def test_the_card_begins_with_title_people_release_and_signature(medhelm: Medhelm, store: Path) -> None:
    key = make_key(store.parent / "committee")
    said = ("--title", "Drafts `of` <letters>", "--institution", "St. Mary", "--author", "Board", "--date", "May 2026")
    where = ("--store", store, *said)
    medhelm("release", "frozen", "--store", store, "--sign", key)
    for place, option, words in (
        ("card.md", (), "signed, not checked here"),
        ("folder", ("--signed-by", f"{key}.pub"), ", verified"),
    ):
        assert medhelm("export", "card", place, *where, *option).code == 0
        page = Path(place) if place == "card.md" else Path(place) / "card.md"
        lines = page.read_text(encoding="utf-8").splitlines()
        assert lines[0] == r"# Drafts \`of\` \<letters>"
        assert lines[2:4] == ["Evaluation card: 2 models on 3 benchmarks  ", "St. Mary · Board  "]
        assert "card of May 2026." in lines[4]
        assert lines[5].startswith("Release frozen of ") and words in lines[5]
    other = make_key(store.parent / "other")
    refused = medhelm("export", "card", "card.md", *where, "--signed-by", f"{other}.pub")
    assert_refused(refused, "is not a signature by this key")
    about = read(Path("folder/medhelm-export.json"))["about"]
    assert about == {"title": said[1], "institution": "St. Mary", "author": "Board", "date": "May 2026"}
    html = HtmlPage(Path("folder/card.html").read_text(encoding="utf-8"))
    assert html.text.index("Drafts") < html.text.index("St. Mary") < html.text.index("Release frozen")
    assert "letters" not in html.tags()


def test_a_card_names_the_release_that_holds_its_results_and_no_other(medhelm: Medhelm, store: Path) -> None:
    medhelm("release", "frozen", "--store", store)
    found = card(store)
    assert found["release"]["name"] == "frozen"
    shown = {benchmark["id"]: benchmark["prompts_digest"] for benchmark in found["benchmarks"]}
    assert shown == {run["benchmark"]: run["prompts"] for run in read(store / "releases/frozen/release.json")["bases"]}
    assert shown["toy"] == shown["grouped"] != shown["letters"]
    assert card(store, rule="published")["release"] is None
    part = card(store, wanted=RunFilter(benchmarks=["toy"]))["release"]
    assert (part["name"], part["is_part"]) == ("frozen", True)
    add_judged_runs(store, "notes", grades(1, 20)[:, :1], models=("openai/gpt-4o",))
    assert card(store)["release"] is None


def test_the_command_runs_as_printed(medhelm: Medhelm, store: Path) -> None:
    commands = card(store)["command"].replace("\\\n", "").split(" && ")
    places = {
        "ADDRESS": f"http://127.0.0.1:{port_of(store)}/v1", "DIR": str(store.parent), "BENCHMARKS": str(store.parent)
    }  # fmt: skip
    for command in commands[:-1]:
        for word, place in places.items():
            command = re.sub(rf"\b{word}\b", place, command)
        done = medhelm(*shlex.split(command)[1:], "--store", store, "--json")
        assert done.json["requests_sent"] == 0, done.err
    assert commands[-1] == "medhelm leaderboard --scoring corrected"


def test_the_command_names_what_private_data_and_own_names_need(tmp_path: Path) -> None:
    inside = make_model("ward", base_url="http://gpu1.internal:8000/v1", provider="openai", remote_name="llama")
    add_judged_runs(tmp_path / "store", "letters", grades(1, 20)[:, :1], models=("ward",), resolved_model=inside)
    found = card(tmp_path / "store")
    assert "--data DIR --benchmarks BENCHMARKS --models models.yaml --allow-host HOST" in found["command"]
    assert "gpu1" not in json.dumps(found)


def test_clinicians_who_disagree_with_the_jury_come_first(tmp_path: Path, medhelm: Medhelm) -> None:
    add_judged_runs(tmp_path / "store", "letters", grades(1, 40))
    chance, ratings = Random(1), tmp_path / "ratings.csv"
    rows = [
        f"{rater},i{n},letters,{model}"
        + "".join(f",{min(5, max(1, quality + chance.randint(-1, 1)))}" for _ in CRITERIA)
        for n in range(40)
        for model in MODELS
        for quality in [chance.randint(1, 5)]
        for rater in ("ann", "bob", "cat")
    ]
    ratings.write_text("\n".join([f"rater,instance_id,benchmark,model,{','.join(CRITERIA)}", *rows]), encoding="utf-8")
    assert not card(tmp_path / "store")["verdict"][0].startswith("Do not rely")
    assert medhelm("export", "card", "rated.json", "--store", tmp_path / "store", "--ratings", ratings).code == 0
    assert "Do not rely on the jury" in read(Path("rated.json"))["verdict"][0]


def test_a_card_may_be_replaced_and_another_file_may_not(medhelm: Medhelm, shared: Path) -> None:
    shutil.copy(shared / "out" / "card.md", "card.md")
    assert medhelm("export", "card", "card.md", "--store", shared / "store", "--model", "openai/a").code == 0
    assert "1 model on 3 benchmarks" in Path("card.md").read_text(encoding="utf-8")
    Path("thesis.md").write_text("years of work", encoding="utf-8")
    assert_refused(medhelm("export", "card", "thesis.md", "--store", shared / "store"), "not an evaluation card")
    assert Path("thesis.md").read_text(encoding="utf-8") == "years of work"


def test_a_store_without_a_finished_run_has_no_card(medhelm: Medhelm, tmp_path: Path) -> None:
    add_judged_runs(tmp_path / "store", "letters", grades(1, 3), status="partial")
    assert_refused(medhelm("export", "card", "card.md", "--store", tmp_path / "store"), "No finished run to report")
    assert not Path("card.md").exists()
