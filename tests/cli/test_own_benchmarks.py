"""Benchmarks and data of the user's own, and how commands that read the store find them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.definition import LIBRARY
from medhelm.errors import UserError
from medhelm.extensions.web.site import Site
from medhelm.storage.own_benchmarks import RememberedBenchmark, remember_folders
from medhelm.storage.store import Store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.html import HtmlPage
from tests.support.web.sites import make_client

CANARY = "a title that only the definition has"


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with a run of the benchmark `toy` in the folder `own`; the command names it."""
    make_benchmark(tmp_path / "own")
    store = tmp_path / "results"
    words = ("run", "toy", "--benchmarks", tmp_path / "own", "--model", "baseline/majority", "--store", store)
    succeeded(medhelm(*words))
    return store


def test_commands_that_read_the_store_find_it(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    for words in (
        ("rescore", "toy"),
        ("export", "card", tmp_path / "card.html"),
        ("leaderboard", "--suite", "private"),
        ("export", "site", tmp_path / "site"),
    ):
        found = succeeded(medhelm(*words, "--store", store))
        assert "benchmark folder" not in found.err, words
    assert "your own" in (tmp_path / "site" / "benchmarks.html").read_text(encoding="utf-8")


def test_a_folder_that_is_gone_is_named_with_the_fix(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    """Without a copy of the definition, as in stores of older versions."""
    shutil.rmtree(store / "definitions")
    shutil.move(tmp_path / "own", tmp_path / "moved")
    found = succeeded(medhelm("export", "card", tmp_path / "card.html", "--store", store))
    assert f"benchmark folder of toy not found: {tmp_path / 'own' / 'toy'}. Add --benchmarks DIR." in found.err
    page = HtmlPage(make_client(store).get("/benchmarks").text)
    assert "Benchmark folder not found: add --benchmarks DIR" in page.text
    again = succeeded(medhelm("rescore", "toy", "--store", store, "--benchmarks", tmp_path / "moved"))
    assert "not found" not in again.err


def test_after_a_purge_a_folder_that_is_gone_is_gone(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    other = make_benchmark(tmp_path / "own", name="other")
    succeeded(medhelm("run", other, "--model", "baseline/majority", "--store", store))
    succeeded(medhelm("purge", "--benchmark", "toy", "--yes", "--store", store))
    assert Site(stores=[store]).definitions["toy"].folder == tmp_path / "own" / "toy"
    shutil.rmtree(tmp_path / "own" / "toy")
    found = succeeded(medhelm("export", "card", tmp_path / "card.html", "--store", store))
    assert f"benchmark folder of toy not found: {tmp_path / 'own' / 'toy'}. Add --benchmarks DIR." in found.err
    site = Site(stores=[store])
    assert ("toy" in site.definitions, "other" in site.definitions) == (False, True)
    client = make_client(store)
    assert [client.get(page).status_code for page in ("/", "/benchmarks", "/benchmarks/toy")] == [200, 200, 404]


def test_a_store_alone_knows_the_definition_as_it_was_run(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    shutil.move(tmp_path / "own", tmp_path / "moved")
    alone = Path(shutil.move(store, tmp_path / "elsewhere"))
    for words in (("card", tmp_path / "card.html"), ("site", tmp_path / "site")):
        found = succeeded(medhelm("export", *words, "--store", alone))
        if words[0] == "card":
            assert (
                f"not found: {tmp_path / 'own' / 'toy'}. Its definition as last run is read from the store" in found.err
            )
    assert "from the store" in (tmp_path / "site" / "benchmarks.html").read_text(encoding="utf-8")
    client = make_client(alone)
    assert "which the store keeps" in client.get("/benchmarks/toy").text
    (case,) = re.findall(r'href="(/benchmarks/toy/cases/[^"?]*)"', client.get("/benchmarks/toy/cases").text)[:1]
    assert "Instruction" in client.get(case).text, "the prompt is shown in its parts"
    succeeded(medhelm("leaderboard", "--suite", "private", "--store", alone))
    assert not list(alone.rglob("hooks.py"))


def test_results_are_shown_by_the_definition_of_the_run_and_scored_by_the_present_one(
    medhelm: Medhelm, store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "own" / "toy" / "benchmark.yaml"
    before = Site(stores=[store]).definitions["toy"]
    file.write_text(file.read_text(encoding="utf-8") + "\n# a comment\n", encoding="utf-8")
    assert Site(stores=[store]).definitions["toy"].folder == file.parent
    text = file.read_text(encoding="utf-8")
    title = next(line for line in text.splitlines() if line.startswith("title:"))
    file.write_text(text.replace(title, f"title: {CANARY}"), encoding="utf-8")
    site = Site(stores=[store])
    assert site.definitions["toy"].title == before.title
    assert list(site.copied_definitions) == ["toy"]
    card = succeeded(medhelm("export", "card", tmp_path / "card.html", "--store", store))
    assert f"{file} changed since toy was last run." in card.err
    succeeded(medhelm("rescore", "toy", "--store", store))
    assert Site(stores=[store]).definitions["toy"].title == CANARY


def test_code_is_not_kept_and_data_that_needs_it_is_not_read(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = make_benchmark(tmp_path / "own")
    (folder / "hooks.py").write_text("def rows(rows):\n    yield from rows\n", encoding="utf-8")
    (tmp_path / "data").mkdir()
    store = tmp_path / "results"
    words = ("toy", "--benchmarks", tmp_path / "own", "--store", store)
    succeeded(medhelm("run", *words, "--model", "baseline/majority", "--trust", folder))
    shutil.move(folder, tmp_path / "data" / "toy")
    assert_refused(medhelm("rescore", "toy", "--store", store), "unknown benchmark `toy`", "Add --benchmarks DIR")
    assert not list(store.rglob("hooks.py"))
    assert Site(stores=[store]).definitions["toy"].title
    with pytest.raises(UserError, match=r"toy: the store keeps its definition without its hooks\.py"):
        open_dataset(Site(stores=[store]).definitions["toy"], data=tmp_path / "data", tier="real")


def test_what_the_user_names_wins_and_a_store_cannot_replace_a_benchmark(
    medhelm: Medhelm, store: Path, tmp_path: Path
) -> None:
    other = make_benchmark(tmp_path / "other")
    text = (other / "benchmark.yaml").read_text(encoding="utf-8")
    title = next(line for line in text.splitlines() if line.startswith("title:"))
    (other / "benchmark.yaml").write_text(text.replace(title, f"title: {CANARY}"), encoding="utf-8")
    shutil.copytree(LIBRARY / "pubmed_qa", tmp_path / "fake" / "pubmed_qa")
    fake = tmp_path / "fake" / "pubmed_qa"
    remember_folders(Store(store), {"pubmed_qa": RememberedBenchmark(folder=fake)})
    named, remembered = Site(stores=[store], benchmark_folders=[tmp_path / "other"]), Site(stores=[store])
    assert named.definitions["toy"].title == CANARY
    assert remembered.definitions["toy"].title != CANARY
    assert remembered.definitions["pubmed_qa"].folder == LIBRARY / "pubmed_qa"
    succeeded(medhelm("rescore", "toy", "--store", store, "--benchmarks", tmp_path / "other"))


def test_a_folder_that_only_a_store_names_runs_no_code_and_makes_no_text_public(
    medhelm: Medhelm, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "own" / "toy"
    text = (folder / "benchmark.yaml").read_text(encoding="utf-8")
    (folder / "benchmark.yaml").write_text(text.replace("access: private", "access: public"), encoding="utf-8")
    assert "access: public" in (folder / "benchmark.yaml").read_text(encoding="utf-8")
    trace = tmp_path / "trace"
    code = f"import pathlib\npathlib.Path({str(trace)!r}).touch()\n\ndef rows(rows):\n    yield from rows\n"
    (folder / "hooks.py").write_text(code, encoding="utf-8")
    hidden = Site(stores=[store], with_text=False)
    assert (hidden.access_of("toy"), hidden.shows_text_of("toy")) == ("public", False)
    assert Site(stores=[store], with_text=False, benchmark_folders=[tmp_path / "own"]).shows_text_of("toy")
    assert make_client(store).get("/benchmarks/toy").status_code == 200
    succeeded(medhelm("export", "card", tmp_path / "card.html", "--store", store))
    refused = medhelm("rescore", "toy", "--store", store)
    assert refused.code != 0
    assert f"--trust {folder}" in refused.err
    assert not trace.exists()


# --- a spreadsheet as a benchmark, and files in place of the published ones -------------------------------------------

HEADER = ["Case ID", "Patient", " Note text ", "Answer"]


def cases() -> list[list[str]]:
    """Rows with an answer in changing case: each third one is yes."""
    note = "72-year-old, temp 38.{} °C – naïve; “no” bleeding, takes {}."
    kinds = [("yes", "apixaban"), ("No", "metformin"), ("no", "aspirin")]
    return [
        [str(i), f"p{i // 2}", note.format(i, kinds[i % 3][1]), kinds[i % 3][0].upper() if i == 3 else kinds[i % 3][0]]
        for i in range(1, 31)
    ]


def tabs(path: Path) -> Path:
    path = path / "notes.csv"
    path.write_text("".join("\t".join(row) + "\n" for row in (HEADER, *cases())), encoding="utf-16")
    return path


def test_a_spreadsheet_becomes_a_benchmark(medhelm: Medhelm, tmp_path: Path) -> None:
    made = succeeded(medhelm("benchmarks", "new", "anticoagulants", "--from", tabs(tmp_path), "--out", tmp_path))
    for words in ("The prompt shows `Note text`", "identified by `Case ID`", "same `Patient` count as one patient"):
        assert words in made.out
    place = tmp_path / "anticoagulants"
    checked = succeeded(medhelm("benchmarks", "check", place, "--json"))
    (result,) = checked.json["benchmarks"]
    assert (result["n"], result["exceptions"], result["findings"]) == (30, [], [])
    assert "38.1 °C – naïve; “no” bleeding" in medhelm("benchmarks", "preview", place, "--count", "1").out
    run = medhelm("run", place, "--model", "baseline/majority", "--json").json["runs"][0]
    assert run["metrics"]["exact_match"]["value"] == pytest.approx(2 / 3)


def test_what_is_skipped_or_spelled_in_several_ways_is_said(medhelm: Medhelm, tmp_path: Path) -> None:
    labels = ["Y", "yes", "N", "no", "No", "unknown"]
    rows = [
        f"{n},{'' if label == 'no' else 'Fever since Monday.'},Is it {label}?,{label}" for n, label in enumerate(labels)
    ]
    (tmp_path / "w.csv").write_text("\n".join(["id,note,question,answer", *rows]), encoding="utf-8")
    made = succeeded(medhelm("benchmarks", "new", "ward", "--from", "w.csv"))
    for words in ("1 of 6 rows is skipped, because `note` is empty", "read as one: `N` as `no`, `Y` as `yes`"):
        assert words in made.out
    (result,) = succeeded(medhelm("benchmarks", "check", "./ward", "--json")).json["benchmarks"]
    assert (result["n"], result["findings"]) == (5, [])
    assert result["remarks"][-1] == "1 of 6 rows is skipped: `note` is empty (1)"
    definition = tmp_path / "ward" / "benchmark.yaml"
    text = definition.read_text(encoding="utf-8")
    definition.write_text(text.replace(', values: {N: "no", Y: "yes"}', ""), encoding="utf-8")
    assert_refused(
        medhelm("benchmarks", "check", "./ward"),
        "w.csv, line 2 (id 0): the answer `Y` is not one of the options",
        "If it means `yes`, write `values: {Y: yes}` under `answer`.",
    )


def test_a_cluster_that_looks_like_a_record_number_is_named(medhelm: Medhelm, tmp_path: Path) -> None:
    """When it is guessed, and when the benchmark is checked."""
    rows = [f"{1000100 + n // 2},note {n} of a patient who came in,{'yes' if n % 2 else 'no'}" for n in range(8)]
    (tmp_path / "notes.csv").write_text("\n".join(["Subject,Note,Answer", *rows]) + "\n")
    made = succeeded(medhelm("benchmarks", "new", "own", "--from", "notes.csv"))
    assert "`Subject` looks like a record number of patients" in made.out + made.err
    checked = medhelm("benchmarks", "check", "own")
    assert "`cluster: Subject` looks like a record number of patients" in checked.out + checked.err


def test_what_a_name_may_mean(medhelm: Medhelm, tmp_path: Path) -> None:
    tabs(tmp_path)
    medhelm("benchmarks", "new", "mine")
    (tmp_path / "mine").rename(tmp_path / "pubmed_qa")
    for name, words in (
        ("pubmed_qa", "is both a benchmark and the folder ./pubmed_qa"),
        ("PubMedQA", "Did you mean `pubmed_qa`?"),
        ("med_qa,pubmed_qa", "Separate names with blanks: med_qa pubmed_qa."),
        ("notes.csv", "`medhelm benchmarks new NAME --from notes.csv` makes a benchmark of it"),
    ):
        assert_refused(medhelm("run", name, "--model", "baseline/majority"), words)


def test_own_data_in_place_of_the_published_files_is_another_data_set(
    medhelm: Medhelm, tmp_path: Path, data_dir: Path
) -> None:
    sample = medhelm("data", "sample", "pubmed_qa", "--out", tmp_path)
    assert f"medhelm run pubmed_qa --data {tmp_path} --own-data --model ..." in sample.out
    refused = medhelm("benchmarks", "check", "pubmed_qa", "--data", tmp_path)
    assert_refused(refused, "for data of your own, use --own-data")
    own = ("run", "pubmed_qa", "--data", tmp_path, "--own-data", "--model", "baseline/majority")
    assert medhelm(*own).code == 0
    assert "PubMedQA (own data)" in medhelm("leaderboard", "--by", "benchmark").out
    medhelm("run", "pubmed_qa", "--data", data_dir, "--model", "baseline/lexical", "--limit", "50")
    assert "run on own data, the others on the published data" in medhelm("leaderboard").out
