"""Suites by name, by group and from files; what is wrong with a file is said all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.benchmarks.suites import find_suite, load_suite
from medhelm.domain.benchmark import Suite, SuiteEntry
from medhelm.errors import ConfigError, UserError

OTHERS = [
    SuiteEntry(name="sepsis_qa", title="Sepsis QA", category="clinical_decision_support", subcategory="our_wards"),
    SuiteEntry(name="unplaced", title="Unplaced", category="", subcategory=""),
]


def weights_of(suite: Suite) -> dict[str, float]:
    assert suite.weights is not None
    return dict(suite.weights)


def test_the_suite_all_has_no_weights() -> None:
    assert find_suite("all", OTHERS) == Suite(name="all", weights=None)


@pytest.mark.parametrize(("name", "count"), [("paper35", 35), ("suite37", 37)])
def test_the_published_suites(name: str, count: int) -> None:
    weights = weights_of(find_suite(name, OTHERS))
    assert len(weights) == count
    assert set(weights.values()) == {1.0}
    assert ("med_qa" in weights) == (name == "suite37")
    assert list(weights) == [entry.name for entry in load_suite() if entry.name in weights]


def test_access_levels_partition_the_suite() -> None:
    parts = [set(weights_of(find_suite(name, OTHERS))) for name in ("public", "gated", "private")]
    assert sorted(set.union(*parts)) == sorted(entry.name for entry in load_suite())
    assert sum(map(len, parts)) == 37
    assert "pubmed_qa" in parts[0]
    assert "mimic_rrs" in parts[1]
    assert "clear" in parts[2]


def test_own_benchmarks_belong_to_their_category() -> None:
    weights = weights_of(find_suite("clinical_decision_support", OTHERS))
    assert len(weights) == 12 + 1
    assert list(weights)[-1] == "sepsis_qa"
    assert list(weights_of(find_suite("our_wards", OTHERS))) == ["sepsis_qa"]
    planning = weights_of(find_suite("planning_treatments"))
    assert list(planning) == ["mtsamples", "medec"]


@pytest.mark.parametrize("name", ["paper53", "publik", "clinical_decision", "nowhere.yaml", "", "."])
def test_names_that_are_not_suites_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"--suite .*: is neither `all`, `paper35`, `suite37`"):
        find_suite(name, OTHERS)
    if name == "publik":
        with pytest.raises(UserError, match="Did you mean `public`"):
            find_suite(name)


# --- files ------------------------------------------------------------------------------------------------------------


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


def test_yaml_with_a_list(tmp_path: Path) -> None:
    file = written(tmp_path, "name: wards\nbenchmarks: [pubmed_qa, ehr_sql]\n")
    assert find_suite(file, OTHERS) == Suite(name="wards", weights={"pubmed_qa": 1.0, "ehrsql": 1.0})


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
  head_qa: -1.5
  med_qa: many
  medec: .inf
  clear:
"""
    assert problems(written(tmp_path, text)) == [
        (2, "descripton: unknown key. Did you mean `description`?"),
        (4, "unknown benchmark `pubmed_q`. Did you mean `pubmed_qa`?"),
        (5, "benchmarks.ehrsql: must be more than 0.0, is the number 0."),
        (6, "ehr_sql: repeats `ehrsql` of line 5. Keep one of them."),
        (7, "benchmarks.head_qa: must be more than 0.0, is the number -1.5."),
        (8, "benchmarks.med_qa: must be a number, is `many`."),
        (9, "benchmarks.medec: must be a number, is `.inf`."),
        (10, "benchmarks.clear: must be a number, is empty."),
    ]


def test_all_problems_of_a_list_are_reported_at_once(tmp_path: Path) -> None:
    lines = "pubmed_qa\nmedbulets\npubmed_qa\n"
    assert problems(written(tmp_path, lines, "ours.txt")) == [
        (2, "unknown benchmark `medbulets`. Did you mean `medbullets`?"),
        (3, "pubmed_qa: repeats `pubmed_qa` of line 1. Keep one of them."),
    ]
    listed = "benchmarks:\n  - pubmed_qa\n  - 7\n  - medbulets\n  - pubmed_qa\n"
    assert problems(written(tmp_path, listed)) == [
        (None, "name: missing. Add this key."),
        (3, "benchmarks[1]: must be text, is the number 7. Put it in quotes."),
        (4, "unknown benchmark `medbulets`. Did you mean `medbullets`?"),
        (5, "pubmed_qa: repeats `pubmed_qa` of line 2. Keep one of them."),
    ]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("", "a.yaml", "the file is empty."),
        ("", "a.txt", "the file names no benchmark. Write one name per line."),
        ("name: x\nbenchmarks: []\n", "a.yaml", "benchmarks: must have at least 1 entry."),
        ("name: x\nbenchmarks: medec\n", "a.yaml", "benchmarks: must be a mapping of keys to values, is `medec`."),
        ("name: ''\nbenchmarks: [pubmed_qa]\n", "a.yaml", "name: must not be empty, is an empty text."),
        ("- pubmed_qa\n", "a.yaml", "the file: must be a mapping of keys to values, is a list."),
        ("a: b: c\n", "a.yaml", "not valid YAML: mapping values are not allowed in this context."),
        ("name: x\nname: y\nbenchmarks: [a]\n", "a.yaml", "name: appears twice (first in line 1). Keep one of them."),
    ],
)  # fmt: skip
def test_broken_files_are_explained(tmp_path: Path, text: str, name: str, said: str) -> None:
    assert [words for _, words in problems(written(tmp_path, text, name))] == [said]


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "a.yaml"):
        (tmp_path / name).write_bytes(b"pubmed_qa\n\xff\xfe\n")
        assert "not UTF-8 text" in problems(str(tmp_path / name))[0][1]


RUN_ENTRIES = """\
# Runs of two models.

entries: [

  ########## Clinical Decision Support ##########

  {description: "medcalc_bench:model=google/gemini-1.5-pro-001,model_deployment=ward/gemini", priority: 1},
  {description: "medcalc_bench:num_output_tokens=4000,model=openai/o3-mini", priority: 2, groups: [a]},

  #Liver Disease
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            RUN_ENTRIES.replace('"sepsis_qa"', '"mmlu:subject=anatomy,model=m"')
            .replace("clear:", "cleer:")
            .replace("medcalc_bench:", "medcalc_bench:version=2,temperature=1,"),
            [
                (7, "medcalc_bench: the argument `temperature` has no equivalent here. Remove it, or the entry."),
                (7, "medcalc_bench: the argument `version` has no equivalent here. Remove it, or the entry."),
                (11, "unknown benchmark `cleer`. Did you mean `clear`?"),
                (14, "unknown benchmark `mmlu`."),
            ],
            id="unknown names and arguments",
        ),
        pytest.param("entries: []", [(1, "entries: must have at least 1 entry.")], id="empty"),
        pytest.param("entries: [{priority: 1}]", [(1, "entries[0].description: missing. Add this key.")], id="nothing"),
        pytest.param('include "a.conf"', [(None, "the file: must be a mapping")], id="include"),
        pytest.param("entries: [\n {description: a}\n {description: b}]", [(3, "not valid YAML: ")], id="no comma"),
    ],
)
def test_problems_of_run_entries(tmp_path: Path, text: str, expected: list[tuple[int | None, str]]) -> None:
    found = problems(written(tmp_path, text, "ours.conf"))
    assert [line for line, _ in found] == [line for line, _ in expected]
    assert all(said.startswith(wanted) for (_, said), (_, wanted) in zip(found, expected, strict=True)), found
