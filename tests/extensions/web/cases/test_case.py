"""Cases of a benchmark: searches, pages, one case, and two models compared."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Instance, Message, Prompt, Reference
from medhelm.domain.completion import strip_reasoning
from medhelm.errors import UserError
from medhelm.extensions.web.cases.case import NO_PROMPT, BenchmarkCases, find_case, open_cases
from medhelm.extensions.web.cases.listing import NEIGHBORS, find_cases, locate_case
from medhelm.extensions.web.cases.search import CaseSearch
from medhelm.io.http.pages import url_key
from medhelm.results.runs.answers import option_labels, option_reader
from medhelm.scoring.metrics import METRICS
from medhelm.storage.runs import load_runs, write_prompts
from medhelm.storage.store import Store, open_store
from tests.support.case_store import HOSTILE_IDS, MODELS, XSS, add_judged_cases, make_case_store
from tests.support.stores import make_record, make_run, make_store, write_run

GOOD, BAD, SLOW = MODELS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_judged_cases(make_case_store(tmp_path_factory.mktemp("cases") / "store"))


@pytest.fixture(scope="module")
def cases(folder: Path) -> BenchmarkCases:
    return open_cases([folder], "toy")


def found(cases: BenchmarkCases, **search: Any) -> list[int]:
    """Return the positions of the instances that a search finds, in its order."""
    return [HOSTILE_IDS.index(item.row.instance_id) for item in find_cases(cases, CaseSearch(**search)).items]


ALL = list(range(len(HOSTILE_IDS)))


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({}, ALL),
        ({"text": "naloxone", "within": "completion"}, [2, 4, 6, 8]),
        ({"text": "ASPIRIN", "within": "completion", "model": BAD}, [1, 3, 5, 7, 9]),
        ({"text": "naloxone", "within": "prompt"}, ALL),
        ({"text": "question 7"}, [7]),
        ({"text": "GRÖßE 3", "within": "prompt"}, [3]),
        ({"text": "question.\nquestion 1", "within": "prompt"}, [1]),
        ({"text": ".*"}, []),
        ({"text": "' or 1=1"}, [8]),
        ({"text": XSS}, [0, 6]),
        ({"sort": "id"}, sorted(ALL, key=lambda n: HOSTILE_IDS[n].encode())),
    ],
)
def test_searches_for_texts(cases: BenchmarkCases, search: dict[str, Any], expected: Sequence[int]) -> None:
    assert found(cases, **search) == list(expected)


def test_a_failure_that_the_model_caused_counts_as_wrong_by_the_corrected_rule_only(tmp_path: Path) -> None:
    make_store(tmp_path, {"toy": {"a": [1.0, None], "b": [1.0, 1.0]}})
    cases = open_cases([tmp_path], "toy")
    assert find_cases(cases, CaseSearch(missed="a")).total == 0
    refused = replace(cases, searched=replace(cases.searched, counted_as_worst=("timeout",)))
    assert [item.row.shares for item in find_cases(refused, CaseSearch(missed="a")).items] == [{"a": 0.0, "b": 1.0}]
    assert open_cases([tmp_path], "toy", rule="published").searched.counted_as_worst == ()


def test_judges_that_disagree(folder: Path) -> None:
    cases = open_cases([folder], "notes")
    ids = [item.row.instance_id for item in find_cases(cases, CaseSearch(show="judges")).items]
    assert ids == ["i1"]
    by_spread = [item.row.instance_id for item in find_cases(cases, CaseSearch(sort="judges")).items]
    assert by_spread == ["i1", "i0", "i2"]


def test_pages_are_stable_and_a_page_beyond_the_last_is_the_last(cases: BenchmarkCases) -> None:
    pages = [find_cases(cases, CaseSearch(sort="worst"), page=page, size=4) for page in (1, 2, 3, 99)]
    ids = [item.row.instance_id for page in pages[:3] for item in page.items]
    assert sorted(ids) == sorted(HOSTILE_IDS)
    assert pages[3] == pages[2]
    assert [(page.page, page.pages, page.total) for page in pages[:3]] == [(1, 3, 10), (2, 3, 10), (3, 3, 10)]


def test_hostile_ids_have_keys_that_find_them_also_where_case_is_ignored(cases: BenchmarkCases) -> None:
    for instance_id in HOSTILE_IDS:
        key = url_key(instance_id)
        assert len(key) < 80
        assert key.replace("~", "").replace("-", "").isalnum()
        assert key == key.lower()
        assert find_case(cases, key).instance_id == instance_id
    ids = ["A", "a", "a ", "a/", "../a", "", " ", "x" * 60, "x" * 61, "x" * 300, "con", "con.", "é", "e"]
    assert len({url_key(one) for one in ids}) == len(ids)


@pytest.mark.parametrize("key", ["nothing", "..", "~", "plain~0", "' OR 1=1; --", "x" * 5000])
def test_an_unknown_key_is_an_error(cases: BenchmarkCases, key: str) -> None:
    with pytest.raises(UserError, match="has an instance with the key"):
        find_case(cases, key)


def test_a_missing_prompt_is_stated(tmp_path: Path) -> None:
    cases = open_cases([make_case_store(tmp_path, prompts=False)], "toy")
    assert find_case(cases, "plain").problem == NO_PROMPT
    assert found(cases, text="question") == []
    assert found(cases, text="naloxone") == [2, 4, 6, 8]
    assert {item.excerpt for item in find_cases(cases, CaseSearch()).items} == {""}


def test_prompts_with_broken_characters_are_searched(tmp_path: Path) -> None:
    run = make_run("toy", "a", n=1)
    write_run(tmp_path, run, [make_record(0, instance_id="x")])
    path = Store(tmp_path).prompts_file("toy", run.benchmark_digest, run.data_digest)
    instance = Instance(id="x", fields={}, references=(Reference("Aspirin"),), choices=("A\0B",))
    write_prompts(path, [(instance, Prompt((Message("user", "broken \ud800 pair"),)))])
    cases = open_cases([tmp_path], "toy")
    totals = {
        text: find_cases(cases, CaseSearch(text=text)).total for text in ("PAIR", "aspirin", "content", "b", "\0")
    }
    assert totals == {"PAIR": 1, "aspirin": 1, "content": 0, "b": 1, "\0": 1}


def test_neighbors_within_a_search(cases: BenchmarkCases) -> None:
    search = CaseSearch(show="wrong")
    first = locate_case(cases, search, HOSTILE_IDS[0])
    assert (first.number, first.total, first.previous, first.next) == (1, 5, "", url_key(HOSTILE_IDS[2]))
    last = locate_case(cases, search, HOSTILE_IDS[8])
    assert (last.number, last.previous, last.next) == (5, url_key(HOSTILE_IDS[6]), "")
    outside = locate_case(cases, search, HOSTILE_IDS[1])
    assert (outside.number, outside.next) == (0, url_key(HOSTILE_IDS[0]))
    for place in (first, last, outside):
        assert [one.row.instance_id for one in place.neighbors] == [HOSTILE_IDS[n] for n in (0, 2, 4, 6, 8)]
        assert (place.first, place.last, place.n_before, place.n_after) == (
            url_key(HOSTILE_IDS[0]), url_key(HOSTILE_IDS[8]), 0, 0,
        )  # fmt: skip
    assert first.neighbors[1].shares == [1.0, 1.0, 0.0], "in the order of rank"


@pytest.mark.parametrize("at", [0, 1, 12, 13, 30, 58, 59])
def test_neighbors_of_a_long_list_are_around_the_case(tmp_path: Path, at: int) -> None:
    write_run(tmp_path / "store", make_run("many", "lab/m", n=60), (make_record(n) for n in range(60)))
    many = open_cases([tmp_path / "store"], "many")
    ids = [item.row.instance_id for item in find_cases(many, CaseSearch(), size=60).items]
    found = locate_case(many, CaseSearch(), ids[at])
    assert [one.row.instance_id for one in found.neighbors] == ids[found.n_before :][:NEIGHBORS]
    assert found.n_before == min(max(0, at - NEIGHBORS // 2), 60 - NEIGHBORS)
    assert found.n_before + len(found.neighbors) + found.n_after == 60
    assert locate_case(many, CaseSearch(text="no such text"), ids[at]).neighbors == []


@pytest.mark.parametrize("name", ["", "nothing", "../runs/toy", "t*"])
def test_an_unknown_benchmark_is_an_error_and_never_a_path(folder: Path, name: str) -> None:
    with pytest.raises(UserError, match="no run of"):
        open_cases([folder], name)


OLD_STORES = sorted((Path(__file__).parents[3] / "fixtures" / "stores").rglob("store.json"))


@pytest.mark.parametrize("manifest", OLD_STORES, ids=[path.parent.name for path in OLD_STORES])
def test_cases_of_stores_of_older_versions_are_found(manifest: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"  # a copy: it gets a key for the hashes of clusters
    shutil.copytree(manifest.parent, store)
    for benchmark in {run.benchmark for run in load_runs(open_store(store)) if run.status == "complete"}:
        cases = open_cases([store], benchmark)
        found = find_cases(cases, CaseSearch())
        assert find_cases(cases, CaseSearch(show="injection", sort="judges")).total <= found.total
        assert find_case(cases, found.items[0].key).completions


@pytest.mark.parametrize("letters", [True, False])
@pytest.mark.parametrize(
    "text", ["A", "B.", "**Naloxone**", "The answer is A.", "not A", "A or B", "", "<think>A</think>B"]
)
def test_the_option_of_a_completion_is_the_one_that_its_metric_scores(text: str, letters: bool) -> None:
    choices, labels = ("Aspirin", "Naloxone"), ("A", "B") if letters else ("Aspirin", "Naloxone")
    references = (Reference("Aspirin"), Reference("Naloxone", correct=False))
    lines = [f"{label}. {one}" if letters else one for label, one in zip(labels, choices, strict=True)]
    prompt = {
        "messages": [{"role": "user", "content": "Which?\n" + "\n".join(lines)}],
        "choices": list(choices),
        "references": [{"text": one.text, "correct": one.correct} for one in references],
    }
    assert tuple(option_labels(None, prompt)) == labels
    answer = strip_reasoning(text)
    option = option_reader("exact_match", prompt, labels)(answer)
    instance = Instance(id="1", fields={}, references=references, choices=choices, labels=labels)
    assert (option == labels[0]) is (METRICS["exact_match"].corrected(answer, instance) == 1.0)
    assert option in ("", *labels)
    assert option_reader("rouge_l", prompt, labels)(answer) is None
    assert option_reader("exact_match", {}, ())(answer) is None
