"""From names to benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.benchmarks import catalog, suites
from medhelm.benchmarks.catalog import ADDITIONAL, all_names, is_additional, load_benchmarks
from medhelm.benchmarks.suites import load_suite
from medhelm.domain.benchmark import SuiteEntry
from medhelm.errors import ConfigError, UserError
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.definitions import METRICS, make_benchmark

DIAGNOSIS = {"category": "clinical_decision_support", "subcategory": "supporting_diagnostic_decisions"}
NOTES = {"category": "clinical_note_generation", "subcategory": "documenting_patient_visits"}
RUBRIC = {"task": "You are a nurse.", "criteria": {"accuracy": "Is it so?"}}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three built-in benchmarks, which are the suite, instead of the real ones."""
    folder = tmp_path / "library"
    make_benchmark(folder, name="alpha", aliases=["first_one", "eins"])
    make_benchmark(folder, name="gamma", access="gated", taxonomy=NOTES, rubric=RUBRIC, metrics=["jury"])
    make_benchmark(folder, name="beta", access="private", taxonomy=DIAGNOSIS)
    (folder / "not_a_benchmark").mkdir()
    monkeypatch.setattr(catalog, "LIBRARY", folder)
    suite = [SuiteEntry(name=name, title=name, category="", subcategory="") for name in ("alpha", "beta", "gamma")]
    monkeypatch.setattr(suites, "load_suite", lambda: tuple(suite))
    return folder


def found(*names: str, extra: tuple[Path, ...] = ()) -> list[str]:
    return [benchmark.name for benchmark in load_benchmarks(names, metrics=METRICS, extra=extra)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["gamma", "alpha"], ["gamma", "alpha"]),
        (["first_one"], ["alpha"]),
        (["all"], ["alpha", "beta", "gamma"]),
        (["gamma", "all"], ["gamma", "alpha", "beta"]),
        (["public"], ["alpha"]),
        (["open"], ["gamma"]),
        (["clinical_decision_support"], ["alpha", "beta"]),
        (["documenting_patient_visits"], ["gamma"]),
        ([], []),
    ],
)
@pytest.mark.usefixtures("library")
def test_names_aliases_and_groups(names: list[str], expected: list[str]) -> None:
    assert found(*names) == expected


@pytest.mark.usefixtures("library")
def test_all_unknown_names_are_reported_at_once() -> None:
    with pytest.raises(UserError) as caught:
        found("alfa", "beta", "privat", "zzz")
    assert str(caught.value).split("\n\n") == [
        "unknown benchmark `alfa`. Did you mean `alpha`?",
        "unknown benchmark `privat`. Did you mean `private`?",
        "unknown benchmark `zzz`. Known: additional, all, alpha, beta, clinical_decision_support, "
        "clinical_note_generation, closed, documenting_patient_visits, eins, first_one, gamma, gated, open, "
        "planning_treatments, private, public, supporting_diagnostic_decisions.",
    ]


def test_a_built_in_benchmark_outside_the_suite_is_in_no_group_of_the_suite(library: Path, tmp_path: Path) -> None:
    conversations = {"category": "conversations", "subcategory": "replies"}
    make_benchmark(library, name="delta", aliases=["vier"], taxonomy=conversations)
    make_benchmark(tmp_path / "mine", name="sepsis_qa")
    extra = (tmp_path / "mine",)
    assert all_names(extra) == ["alpha", "beta", "delta", "gamma", "sepsis_qa"]
    assert found("all", extra=extra) == ["alpha", "beta", "gamma", "sepsis_qa"]
    assert found("public", "closed", extra=extra) == ["alpha", "sepsis_qa", "beta"]
    assert found(ADDITIONAL) == found("delta") == found("vier") == found("conversations") == found("replies")
    assert [is_additional(b) for b in load_benchmarks(["delta", "alpha"], metrics=METRICS)] == [True, False]
    assert [is_additional(b) for b in load_benchmarks(["sepsis_qa"], metrics=METRICS, extra=extra)] == [False]


def test_two_benchmarks_of_one_name(library: Path, tmp_path: Path) -> None:
    make_benchmark(tmp_path / "mine", name="alpha")
    with pytest.raises(UserError, match=r"two benchmarks are named `alpha`: .*library.*mine.* Rename the"):
        found("beta", extra=(tmp_path / "mine",))
    with pytest.raises(UserError, match="two benchmarks are named `alpha`"):
        found("alpha", str(tmp_path / "mine" / "alpha"))


@pytest.mark.usefixtures("library")
def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_benchmark(tmp_path / "mine", name="sepsis_qa").folder
    assert found(str(folder), str(folder / "benchmark.yaml")) == ["sepsis_qa"]
    file = (folder / "benchmark.yaml").rename(tmp_path / "mine" / "loose.yml")
    assert found(str(file)) == ["sepsis_qa"]
    make_benchmark(tmp_path / "mine", name="sepsis_qa")
    monkeypatch.chdir(tmp_path / "mine")
    assert (
        found("sepsis_qa") == found("./sepsis_qa") == found("../mine/sepsis_qa/") == found("loose.yml") == ["sepsis_qa"]
    )
    monkeypatch.chdir(folder)
    assert found(".") == found("benchmark.yaml") == ["sepsis_qa"]


@pytest.mark.usefixtures("library")
def test_a_name_that_is_a_folder_here_as_well_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_benchmark(tmp_path / "mine", name="alpha", title="Not this one")
    monkeypatch.chdir(tmp_path / "mine")
    with pytest.raises(UserError, match=r"is both a benchmark and the folder \./alpha"):
        load_benchmarks(["alpha"], metrics=METRICS)
    assert load_benchmarks(["./alpha"], metrics=METRICS)[0].title == "Not this one"


def test_all_invalid_definitions_are_reported_at_once(library: Path) -> None:
    (library / "alpha" / "benchmark.yaml").write_text("name: alpha\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"alpha.*has 9 problems"):
        found("all")
    assert found("beta") == ["beta"], "others are not held up"
    (library / "beta" / "benchmark.yaml").write_text("name: beta\nname: beta\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        found("all", "alpha", "zzz")
    assert "has 9 problems" in str(caught.value)
    assert "appears twice" in str(caught.value)


def test_the_groups_of_the_library_are_the_suite() -> None:
    names = [benchmark.name for benchmark in load_benchmarks(["all"], metrics=METRIC_NAMES)]
    assert sorted(names) == sorted(entry.name for entry in load_suite())
    found = [benchmark.name for benchmark in load_benchmarks([ADDITIONAL], metrics=METRIC_NAMES)]
    assert found == ["adversemed_500", "healthbench"]
