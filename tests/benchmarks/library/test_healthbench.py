"""HealthBench: conversations, criteria with points, and the sets that are not the one that ships."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from medhelm.benchmarks.catalog import is_additional
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.definition import read_definition
from medhelm.benchmarks.hooks import trust
from medhelm.benchmarks.prompts import render
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.library import LIBRARY, benchmark, hook, prompt_text, real, sample_tier

NAME = "healthbench"
ROWS = [json.loads(line) for line in (LIBRARY / NAME / "sample.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_model_reads_the_conversation_and_nothing_else() -> None:
    for row, instance in zip(ROWS, sample_tier(NAME), strict=True):
        messages = render(benchmark(NAME), instance).messages
        assert [(m.role, m.text) for m in messages] == [(turn["role"], turn["content"]) for turn in row["prompt"]]
        assert instance.id == row["prompt_id"]
        assert instance.fields == {}


def test_the_canary_is_removed() -> None:
    assert all("canary" in row for row in ROWS)
    assert not any("canary" in repr(instance).lower() for instance in sample_tier(NAME))


def test_criteria_carry_the_tags_of_their_conversation() -> None:
    for row, instance in zip(ROWS, sample_tier(NAME), strict=True):
        assert len(instance.criteria) == len(row["rubrics"])
        for given, criterion in zip(row["rubrics"], instance.criteria, strict=True):
            assert (criterion.description, criterion.points) == (given["criterion"], given["points"])
            assert criterion.tags == (*given["tags"], *row["example_tags"])
        assert f"theme:{instance.metadata['theme']}" in instance.criteria[0].tags


def test_a_repeated_criterion_is_judged_once_for_the_sum_of_its_points() -> None:
    row = ROWS[0]
    first = row["rubrics"][0]
    (found,) = hook(NAME, [{**row, "rubrics": [first, row["rubrics"][1], {**first, "points": 2}]}])
    criteria = found["criteria"]
    assert isinstance(criteria, list)
    assert [criterion["points"] for criterion in criteria] == [10, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rubrics": []}, "`criteria`: must be a JSON list of .*, is an empty list"),
        ({"rubrics": [{"criterion": "a", "points": -5, "tags": []}]}, "`criteria`: no criterion has positive points"),
        (
            {"prompt": [{"role": "assistant", "content": "a"}]},
            "`conversation`: the last turn must be a text of the user",
        ),
        ({"prompt": "hello"}, "`conversation`: must be a JSON list"),
        ({"prompt_id": ""}, "`id` identifies the row, but is empty"),
        ({"rubrics": [{"criterion": "a", "tags": []}]}, r"hooks\.py, line \d+: KeyError: 'points', after row 1"),
    ],
)
def test_an_unusable_row_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    (folder := tmp_path / "mine").mkdir()
    for name in ("benchmark.yaml", "hooks.py"):
        shutil.copy(LIBRARY / NAME / name, folder)
    trust(folder)
    text = (folder / "benchmark.yaml").read_text(encoding="utf-8").replace("name: healthbench", "name: mine")
    (folder / "benchmark.yaml").write_text(text, encoding="utf-8")
    (folder / "sample.jsonl").write_text(json.dumps({**ROWS[0], **change}) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        open_dataset(read_definition(folder, metrics=METRIC_NAMES), data=None, tier="sample")


def test_another_set_is_a_copy_of_the_folder_with_four_words_changed(tmp_path: Path) -> None:
    """As the note of its source says."""
    folder = tmp_path / "healthbench_hard"
    shutil.copytree(LIBRARY / NAME, folder)
    trust(folder)
    text = (folder / "benchmark.yaml").read_text(encoding="utf-8")
    source = benchmark(NAME).source
    ((file, checksum),) = source.files.items()
    for old, new in (
        ("name: healthbench", "name: healthbench_hard"),
        (f"{file}: {checksum}", 'hard_2025-05-08-21-00-10.jsonl: ""'),
        ("expected_count: 104", f"expected_count: {len(ROWS)}"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "benchmark.yaml").write_text(text, encoding="utf-8")
    shutil.copy(LIBRARY / NAME / "sample.jsonl", folder / "hard_2025-05-08-21-00-10.jsonl")
    hard = read_definition(folder, metrics=METRIC_NAMES)
    assert list(open_dataset(hard, data=None, tier="real")) == list(sample_tier(NAME))
    assert not is_additional(hard)
    assert all(word in source.note for word in ("copy this folder", "name of the file", "the count", "--benchmarks"))


def test_the_real_conversations(data_dir: Path) -> None:
    dataset = real(NAME, "default", data_dir)
    instances = list(dataset)
    assert (dataset.n, dataset.n_skipped) == (104, 0)
    assert Counter(instance.metadata["theme"] for instance in instances) == {"context_seeking": 104}
    assert Counter(bool(instance.references) for instance in instances) == {True: 101, False: 3}
    assert Counter(len(instance.turns) for instance in instances)[1] == 51
    criteria = [criterion for instance in instances for criterion in instance.criteria]
    assert Counter(criterion.points for criterion in criteria) == {5.0: 208}
    tags = Counter(tag for criterion in criteria for tag in criterion.tags)
    assert (tags["axis:accuracy"], tags["axis:context_awareness"], tags["theme:context_seeking"]) == (104, 104, 208)
    for instance in instances:
        assert not any(ideal in prompt_text(NAME, instance) for ideal in instance.correct)


def test_the_canary_is_removed_from_real_data(data_dir: Path) -> None:
    import gzip

    file = data_dir / NAME / "context_seeking_consensus_hard_104.jsonl.gz"
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        canary = json.loads(next(lines))["canary"]
    assert len(canary) > 10
    assert not any(canary in repr(instance) for instance in real(NAME, "default", data_dir))
