"""Definitions over the real public data: counts, answers and draws as the data's authors and users report them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from numpy.random import RandomState

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.errors import DataError
from tests.support.benchmarks.definitions import Make


def ids(dataset: Dataset) -> list[str]:
    return [instance.id for instance in dataset]


def test_real_pubmed_qa(make: Make, data_dir: Path) -> None:
    hooks = "def rows(rows):\n    for row in rows:\n        yield {**row, 'context': '\\n'.join(row['CONTEXTS'])}\n"
    benchmark = make(
        name="pubmed_qa",
        source={
            "kind": "json",
            "files": {"ori_pqal.json": "8b3276be8942ebbd77f3ddcda12c1749bf0e490045a736fd8438ee40cf37a41d"},
            "key": "PMID",
            "expected_count": 1000,
        },
        id="PMID",
        hooks=hooks,
        columns={"question": "QUESTION"},
        choices=["yes", "no", "maybe"],
        answer="final_decision",
        prompt="{context}\n{question}\n{options}",
        samples={"official": {"ids_file": "test_ground_truth.json"}},
    )
    dataset = open_dataset(benchmark, data=data_dir, tier="real")
    answers = [instance.expected for instance in dataset]
    assert [answers.count(letter) for letter in "ABC"] == [552, 338, 110]
    official = open_dataset(benchmark, data=data_dir, tier="real", sample="official")
    truth = json.loads((data_dir / "pubmed_qa" / "test_ground_truth.json").read_text(encoding="utf-8"))
    assert {instance.id: instance.correct[0] for instance in official} == truth
    assert ids(official) == [id_ for id_ in ids(dataset) if id_ in truth]
    first = render(benchmark, next(iter(dataset))).messages[0].text
    assert first.endswith("\nA. yes\nB. no\nC. maybe")


def test_real_medcalc_bench(make: Make, data_dir: Path) -> None:
    benchmark = make(
        name="medcalc_bench",
        source={
            "kind": "csv",
            "files": {"test_data.csv": "c2d23097f8bdb7ae4a77dbf4a5a767335df7303998d7c7664a73a29fd8e2b31a"},
            "expected_count": 1047,
        },
        columns={"note": "Patient Note", "question": "Question"},
        id="Row Number",
        cluster="Note ID",
        answer="Ground Truth Answer",
        metadata=["Category", "Lower Limit", "Upper Limit"],
        prompt="{note}\n\n{question}",
        sample={"size": 1000},
    )
    dataset = open_dataset(benchmark, data=data_dir, tier="real")
    assert (dataset.n, dataset.n_total) == (1000, 1047)
    assert ids(dataset)[:3] == [str(i + 1) for i in RandomState(0).permutation(1047)[:3]]
    whole = {instance.id: instance for instance in open_dataset(benchmark, data=data_dir, tier="real", sample="all")}
    categories = [instance.metadata["Category"] for instance in whole.values()]
    assert (categories.count("lab"), categories.count("date")) == (327, 60)
    assert all(instance.cluster for instance in whole.values())


def test_real_medbullets(make: Make, data_dir: Path) -> None:
    options = ["opa", "opb", "opc", "opd", "ope"]
    benchmark = make(
        name="medbullets",
        source={"kind": "csv", "files": {"medbullets_op5.csv": ""}, "expected_count": 308},
        require=["question", "answer_idx", "opa"],
        choices={"columns": options, "missing": "Not applicable"},
        answer={"column": "answer_idx", "form": "letter"},
        prompt="{question}\n{options}",
    )
    answers = [instance.expected for instance in open_dataset(benchmark, data=data_dir, tier="real")]
    assert [answers.count(letter) for letter in "ABCDE"] == [61, 74, 53, 67, 53]


def test_real_med_mcqa_by_number_and_med_qa_by_dotted_names(make: Make, data_dir: Path) -> None:
    benchmark = make(
        name="med_mcqa",
        source={"files": {"dev.json": ""}, "expected_count": 4183},
        choices={"columns": ["opa", "opb", "opc", "opd"]},
        answer={"column": "cop", "form": "number"},
        id="id",
        prompt="{question}\n{options}",
    )
    assert {instance.expected for instance in open_dataset(benchmark, data=data_dir, tier="real")} == set("ABCD")
    file = "data_clean/questions/US/4_options/phrases_no_exclude_test.jsonl"
    benchmark = make(
        name="med_qa",
        source={"files": {file: ""}, "expected_count": 1273},
        columns={"a": "options.A", "b": "options.B", "c": "options.C", "d": "options.D"},
        choices={"columns": ["a", "b", "c", "d"]},
        answer={"column": "answer_idx", "form": "letter"},
        prompt="{question}\n{options}",
        sample={"size": 1000, "pool": 2545, "offset": 1272},
    )
    assert open_dataset(benchmark, data=data_dir, tier="real").n == sum(
        int(p) >= 1272 for p in RandomState(0).permutation(2545)[:1000]
    )


def test_real_medhallu_in_both_formats(make: Make, data_dir: Path) -> None:
    hooks = (
        "def rows(rows):\n"
        "    for row in rows:\n"
        "        knowledge = '\\n'.join(row['Knowledge'])\n"
        "        for column, label in (('Ground Truth', '0'), ('Hallucinated Answer', '1')):\n"
        "            yield {'k': knowledge, 'q': row['Question'], 'a': row[column], 'label': label}\n"
    )
    found = []
    for kind, file in (("arrow", "pqa_labeled_train.arrow"), ("jsonl", "pqa_labeled_train.jsonl")):
        benchmark = make(
            name="medhallu",
            source={"kind": kind, "files": {file: ""}, "expected_count": 2000},
            hooks=hooks,
            choices={"texts": ["0", "1"], "labels": "texts"},
            answer="label",
            prompt="{k} {q} {a}",
            sample={"size": 1000},
        )
        found.append(list(open_dataset(benchmark, data=data_dir, tier="real")))
    assert found[0] == found[1]
    assert {instance.expected for instance in found[0]} == {"0", "1"}


def test_real_data_under_a_fault(make: Make, data_dir: Path, tmp_path: Path) -> None:
    """One byte less, and nothing runs."""
    folder = tmp_path / "data" / "medcalc_bench"
    folder.mkdir(parents=True)
    content = (data_dir / "medcalc_bench" / "test_data.csv").read_bytes()
    (folder / "test_data.csv").write_bytes(content[:-1000])
    sha = "c2d23097f8bdb7ae4a77dbf4a5a767335df7303998d7c7664a73a29fd8e2b31a"
    changes: dict[str, Any] = {"name": "medcalc_bench", "prompt": "{Question}", "answer": "Ground Truth Answer"}
    for checksum, words in ((sha, "sha256 is"), ("", "not a well-formed CSV record|the record has")):
        benchmark = make(**changes, source={"kind": "csv", "files": {"test_data.csv": checksum}})
        with pytest.raises(DataError, match=words):
            open_dataset(benchmark, data=tmp_path / "data", tier="real")
