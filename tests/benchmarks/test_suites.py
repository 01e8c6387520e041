"""The suite of 37 benchmarks, and suites by name, by group and from files; all that is wrong with a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from medhelm.benchmarks.suites import find_suite, load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain.benchmark import Suite, SuiteEntry
from medhelm.errors import ConfigError, UserError
from tests.support.benchmarks.library import SHIPPED

OTHERS = [
    SuiteEntry(name="sepsis_qa", title="Sepsis QA", category="clinical_decision_support", subcategory="our_wards"),
    SuiteEntry(name="unplaced", title="Unplaced", category="", subcategory=""),
]


def test_the_suite_is_complete_and_every_benchmark_has_its_place() -> None:
    suite, paper = load_suite(), [entry for entry in load_suite() if entry.in_paper]
    assert len(suite) == len({entry.name for entry in suite}) == len({entry.title for entry in suite}) == 37
    assert set(SHIPPED) == {*(entry.name for entry in suite), "adversemed_500", "healthbench"}
    assert [entry.name for entry in suite if entry not in paper] == ["med_qa", "med_mcqa"]
    assert Counter(entry.access for entry in paper) == {"public": 14, "gated": 7, "private": 14}
    assert list(Counter(entry.category for entry in paper).values()) == [10, 6, 8, 6, 5]
    places = {(category.id, sub.id) for category in load_taxonomy() for sub in category.subcategories}
    assert {(entry.category, entry.subcategory) for entry in suite} == places


def weights_of(suite: Suite) -> dict[str, float]:
    assert suite.weights is not None
    return dict(suite.weights)


@pytest.mark.parametrize(("name", "count"), [("paper35", 35), ("suite37", 37)])
def test_the_published_suites(name: str, count: int) -> None:
    weights = weights_of(find_suite(name, OTHERS))
    assert len(weights) == count
    assert set(weights.values()) == {1.0}
    assert ("med_qa" in weights) == (name == "suite37")
    assert list(weights) == [entry.name for entry in load_suite() if entry.name in weights]


@pytest.mark.parametrize("name", ["paper53", "publik", "clinical_decision", "nowhere.yaml", "", "."])
def test_names_that_are_not_suites_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"--suite .*: is neither `all`, `paper35`, `suite37`"):
        find_suite(name, OTHERS)
    if name == "publik":
        with pytest.raises(UserError, match="Did you mean `public`"):
            find_suite(name)


def written(folder: Path, text: str, name: str = "ours.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def problems(file: str) -> list[tuple[int | None, str]]:
    with pytest.raises(ConfigError) as refused:
        find_suite(file, OTHERS)
    return [(problem.line, problem.text) for problem in refused.value.problems]


def test_a_list_of_names_with_comments_and_aliases(tmp_path: Path) -> None:
    file = written(tmp_path, "\ufeff# ours\n\nsepsis_qa\nshc_ptbm_med  # an alias\n\npubmed_qa\n", "ours.txt")
    found = find_suite(file, OTHERS)
    assert found == Suite(name="ours.txt", weights={"sepsis_qa": 1.0, "adhd_behavior": 1.0, "pubmed_qa": 1.0})
    assert list(weights_of(found)) == ["sepsis_qa", "adhd_behavior", "pubmed_qa"]


def test_yaml_with_weights(tmp_path: Path) -> None:
    text = "name: wards\ndescription: What matters.\nbenchmarks:\n  race_based_med: 2\n  unplaced: 0.5\n"
    found = find_suite(written(tmp_path, text, "ours.yml"), OTHERS)
    assert found == Suite(name="wards", weights={"race_bias": 2.0, "unplaced": 0.5}, description="What matters.")


def test_all_problems_of_yaml_are_reported_at_once(tmp_path: Path) -> None:
    text = """\
name: wards
descripton: typo
benchmarks:
  pubmed_q: 1
  ehrsql: 0
  ehr_sql: 2
  med_qa: many
"""
    assert problems(written(tmp_path, text)) == [
        (2, "descripton: unknown key. Did you mean `description`?"),
        (4, "unknown benchmark `pubmed_q`. Did you mean `pubmed_qa`?"),
        (5, "benchmarks.ehrsql: must be more than 0.0, is the number 0."),
        (6, "ehr_sql: repeats `ehrsql` of line 5. Keep one of them."),
        (7, "benchmarks.med_qa: must be a number, is `many`."),
    ]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("name: x\nbenchmarks: []\n", "a.yaml", "benchmarks: must have at least 1 entry."),
        ("name: x\nbenchmarks: medec\n", "a.yaml", "benchmarks: must be a mapping of keys to values, is `medec`."),
        ("name: x\nname: y\nbenchmarks: [a]\n", "a.yaml", "name: appears twice (first in line 1). Keep one of them."),
    ],
)  # fmt: skip
def test_broken_files_are_explained(tmp_path: Path, text: str, name: str, said: str) -> None:
    assert [words for _, words in problems(written(tmp_path, text, name))] == [said]


RUN_ENTRIES = """\
# Runs of two models.

entries: [

  ########## Clinical Decision Support ##########

  {description: "medcalc_bench:model=google/gemini-1.5-pro-001,model_deployment=ward/gemini", priority: 1},
  {description: "medcalc_bench:num_output_tokens=4000,model=openai/o3-mini", priority: 2, groups: [a]},

  {description: "clear:condition=liver_disease,max_eval_instances=100,model=m,data_path=/d", priority: 1},
  {description: "medhelm_med_qa:model=m", priority: 1},  # not the entry of other suites
  {description: "shc_gip_med:data_path=/d,model=m", priority: 1},
  {description: "sepsis_qa", priority: 1},
]
"""


def test_run_entries_of_helm_are_a_suite(tmp_path: Path) -> None:
    found = find_suite(written(tmp_path, RUN_ENTRIES, "ours.conf"), OTHERS)
    names = ["medcalc_bench", "clear", "med_qa", "hospice_referral", "sepsis_qa"]
    assert found == Suite(name="ours.conf", weights=dict.fromkeys(names, 1.0))
    assert list(weights_of(found)) == names


def test_problems_of_run_entries(tmp_path: Path) -> None:
    text = RUN_ENTRIES.replace("clear:", "cleer:").replace("medcalc_bench:", "medcalc_bench:temperature=1,", 1)
    assert problems(written(tmp_path, text, "ours.conf")) == [
        (7, "medcalc_bench: the argument `temperature` has no equivalent here. Remove it, or the entry."),
        (10, "unknown benchmark `cleer`. Did you mean `clear`?"),
    ]
