"""What holds for every benchmark that ships: definition, invented rows, prompts, scores, real data.

Golden files stand in tests/golden: `prompts/<benchmark>.txt` has the first three prompts of the sample tier in full,
`prompts/<benchmark>.json` the ids and hashes of the first three prompts on real data, whose text is not ours to copy,
`digests.json` what must come out the same on every machine and with every Python. After a change that is meant, write
them anew and look at the difference:

    MEDHELM_UPDATE_GOLDEN=1 pytest tests/benchmarks/library
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import pytest

from medhelm.benchmarks import definition
from medhelm.benchmarks.data.dataset import find_data, open_dataset
from medhelm.benchmarks.data.sample_rows import write_sample
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.prompts import fill, placeholders
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import JURY, Completion, Instance
from medhelm.errors import MissingError
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import METRIC_NAMES, METRICS
from tests.support.benchmarks.library import (
    LIBRARY,
    NAMES,
    SHIPPED,
    benchmark,
    prompt_text,
    real,
    sample_tier,
    sequences,
)
from tests.support.cases import table

GOLDEN = Path(__file__).parent.parent.parent / "golden"
UPDATE = bool(os.environ.get("MEDHELM_UPDATE_GOLDEN"))
PUBLIC = tuple(name for name in SHIPPED if benchmark(name).access == "public")

each = table("name", SHIPPED)
each_public = pytest.mark.parametrize("name", PUBLIC)


def shown(instance: Instance) -> list[str]:
    """The texts of the data that a model reads."""
    return [*instance.fields.values(), *(turn.text for turn in instance.turns)]


def metrics_of(name: str) -> list[Metric]:
    """What scores a text without judges; none where only judges can."""
    return [METRICS[metric] for metric in benchmark(name).metrics if metric != JURY]


# --- definitions ------------------------------------------------------------------------------------------------------


@each
def test_a_definition_names_its_source_and_agrees_with_the_suite(name: str) -> None:
    ours, source = benchmark(name), benchmark(name).source
    assert ours.citation.startswith("https://")
    assert all((ours.license, ours.rules.published, ours.rules.corrected, ours.rules.why))
    if ours.access != "public":
        assert len(source.note) > 40, "says who has the data, and how to get it"
    elif name != "med_dialog":  # nobody serves its files any more
        assert re.fullmatch("[0-9a-f]{40}", source.revision), "pinned to a commit"
        assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in source.files.values())
        assert placeholders(source.location) <= {"revision", "file"}
        assert "{revision}" in source.location
        assert source.expected_count
    for entry in load_suite():
        if entry.name == name:
            assert (ours.title, ours.access, ours.aliases) == (
                entry.title,
                entry.access,
                (entry.alias,) * bool(entry.alias),
            )
            assert (ours.taxonomy.category, ours.taxonomy.subcategory) == (entry.category, entry.subcategory)


@table("name", [name for name in NAMES if benchmark(name).rubric])
def test_judges_see_all_of_the_input_and_not_the_instructions(name: str) -> None:
    ours = benchmark(name)
    assert ours.rubric and ours.main_metric == JURY
    fields = placeholders(ours.prompt)
    assert ours.rubric.question or len(fields) == 1, "several fields need words between them"
    template = ours.rubric.question or f"{{{next(iter(fields))}}}"
    assert placeholders(template) == fields
    for instance in sample_tier(name):
        question = fill(template, ours, instance)
        assert all(text.rstrip() in question for text in instance.fields.values())
        assert prompt_text(name, instance) not in question


# --- the sample tier --------------------------------------------------------------------------------------------------


@each
def test_the_sample_tier_asks_at_least_eight_complete_questions(name: str) -> None:
    instances = sample_tier(name)
    assert len(instances) >= 8
    assert len({instance.id for instance in instances}) == len(instances)
    for instance in instances:
        prompt = prompt_text(name, instance)
        texts = shown(instance)
        assert texts
        assert all(text.strip() for text in texts)
        assert all(text.rstrip() in prompt for text in texts)
        assert not re.search(r"\{\w+\}|\bnan\b|\bNone\b(?!\.)", prompt)


@each
def test_every_label_is_the_right_one_somewhere(name: str) -> None:
    instances = sample_tier(name)
    fixed = [instance for instance in instances if instance.choices]
    if fixed and not benchmark(name).choice_columns:
        assert {instance.expected for instance in fixed} == set(fixed[0].labels)
    for instance in fixed:
        assert sum(reference.correct for reference in instance.references) == 1
        assert tuple(reference.text for reference in instance.references) == instance.choices
        assert len({choice.casefold() for choice in instance.choices}) == len(instance.choices)


@each
def test_prompts_of_the_sample_tier_are_as_recorded(name: str) -> None:
    recorded = "".join(
        f"=== {instance.id}\n{prompt_text(name, instance)}\n=== expected: {instance.expected}\n\n"
        for instance in sample_tier(name)[:3]
    )
    path = GOLDEN / "prompts" / f"{name}.txt"
    if UPDATE:
        path.write_text(recorded, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == recorded


def test_digests_are_the_same_on_every_machine() -> None:
    found = {}
    for name in SHIPPED:
        dataset = open_dataset(benchmark(name), data=None, tier="sample")
        prompts = "\0".join(prompt_text(name, instance) for instance in dataset)
        found[name] = {
            "definition": benchmark(name).extended_digest or benchmark(name).digest,
            "sample": dataset.digest,
            "prompts": hashlib.sha256(prompts.encode()).hexdigest(),
        } | ({"standard rubric": benchmark(name).digest} if benchmark(name).extended_digest else {})
    path = GOLDEN / "digests.json"
    if UPDATE:
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8", newline="\n")
    assert json.loads(path.read_text(encoding="utf-8")) == found


def test_released_digests_are_those_of_the_shipped_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored runs refer to these digests, so rewording a `hooks.py` or adding a metric must not change them.

    The rubric of the first release is the extended one. After a change that changes no prompt and no earlier score:
    `MEDHELM_UPDATE_GOLDEN=1 pytest` on this file.
    """
    golden = json.loads((GOLDEN / "digests.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(definition, "_released_digests", dict)
    current = {name: definition.read_definition(LIBRARY / name, metrics=METRIC_NAMES) for name in SHIPPED}
    pairs = {own.extended_digest or own.digest: golden[name]["definition"] for name, own in current.items()}
    pairs |= {own.digest: golden[name]["standard rubric"] for name, own in current.items() if own.extended_digest}
    expected = {found: released for found, released in pairs.items() if found != released}
    if UPDATE:
        definition.RELEASED_DIGESTS.write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8", newline="\n")
    assert json.loads(definition.RELEASED_DIGESTS.read_text(encoding="utf-8")) == expected


def as_asked(instances: Iterable[Instance]) -> list[tuple[object, ...]]:
    """What is asked and what is right, in an order that does not depend on the names of files."""
    return sorted(
        (
            sorted(i.fields.items()),
            [(turn.role, turn.text) for turn in i.turns],
            [(r.text, r.correct) for r in i.references],
            i.choices,
            i.group,
            [(c.description, c.points, c.tags) for c in i.criteria],
        )
        for i in instances
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_sample_rows_in_their_external_format_go_through_the_real_loader(name: str, tmp_path: Path) -> None:
    """Workbooks, tables, XML, databases and folders of text as a hospital has them; without checksums and counts."""
    ours = benchmark(name)
    write_sample(ours, tmp_path / name)
    files = dict.fromkeys(ours.source.files, "")
    own = replace(ours, source=replace(ours.source, files=files, expected_count=None))
    loaded = list(open_dataset(own, data=tmp_path, tier="real", options=SampleOptions(sample="all"), scoring=True))
    assert as_asked(loaded) == as_asked(sample_tier(name))
    if len(files) == 1 and not any("*" in file for file in files):
        assert [instance.id for instance in loaded] == [instance.id for instance in sample_tier(name)]


# --- scores -----------------------------------------------------------------------------------------------------------


def scores(name: str, instance: Instance, reply: str) -> dict[tuple[str, str], float]:
    """Scores by metric and rule; what needs something that is not here is left out."""
    found: dict[tuple[str, str], float] = {}
    for score in apply(metrics_of(name), instance, Completion(text=reply)):
        if score.value is None:
            assert score.failure is not None
            assert score.failure.code == "not_computed", score.failure.message
        else:
            found[score.metric, score.rule] = score.value
    return found


@each
def test_the_reference_gets_the_best_value(name: str) -> None:
    for instance in sample_tier(name):
        for (metric, rule), value in scores(name, instance, instance.expected).items():
            # Where there is a reference, coverage describes how much of an answer is copied, not how good it is.
            copying = metric == "coverage" and "rouge_l" in benchmark(name).metrics
            if rule == "corrected" and not METRICS[metric].descriptive and not copying:
                assert value == pytest.approx(METRICS[metric].best), (metric, instance.id)


@each
def test_an_empty_completion_never_scores_above_the_constant_baseline(name: str) -> None:
    """By the corrected rule. The published one gives points for silence where the published scores did."""
    for instance, reply in product(sample_tier(name), ("", " \n")):
        for (metric, rule), value in scores(name, instance, reply).items():
            if rule == "corrected" and instance.expected.strip() not in ("", "null"):
                assert value == METRICS[metric].low, (metric, instance.id)


# --- real data --------------------------------------------------------------------------------------------------------


def needs_data(name: str, data: Path) -> None:
    try:
        find_data(benchmark(name), data)
    except MissingError:
        pytest.skip(f"{name} is not among the public data there")


@pytest.mark.long
@each_public
def test_prompts_on_real_data_are_as_recorded(data_dir: Path, name: str) -> None:
    needs_data(name, data_dir)
    hashes = {
        instance.id: hashlib.sha256(prompt_text(name, instance).encode()).hexdigest()
        for instance in islice(real(name, "default", data_dir), 3)
    }
    path = GOLDEN / "prompts" / f"{name}.json"
    if UPDATE:
        path.write_text(json.dumps(hashes, indent=2) + "\n", encoding="utf-8", newline="\n")
    assert list(json.loads(path.read_text(encoding="utf-8")).items()) == list(hashes.items())


@pytest.mark.long
@each_public
def test_every_real_instance_can_be_asked(data_dir: Path, name: str) -> None:
    needs_data(name, data_dir)
    for instance in real(name, "all", data_dir):
        prompt = prompt_text(name, instance)
        assert all(text.rstrip() in prompt for text in shown(instance))
        assert instance.expected or benchmark(name).metrics == (JURY,)
        assert not instance.choices or sum(reference.correct for reference in instance.references) == 1


def own_words(instance: Instance) -> list[str]:
    """All texts of an instance but the schema of a database, which is a fact."""
    fields = [text for field, text in instance.fields.items() if field != "schema"]
    return [*fields, *(turn.text for turn in instance.turns), *(c.description for c in instance.criteria)]


@pytest.mark.long
@each_public
def test_invented_rows_repeat_no_real_text(data_dir: Path, name: str) -> None:
    """No fifteen words in a row; shorter ones are stock phrases of exams."""
    needs_data(name, data_dir)
    invented = {words for instance in sample_tier(name) for words in sequences(own_words(instance), 15)}
    copied = [
        words
        for instance in real(name, "all", data_dir)
        for words in sequences(own_words(instance), 15)
        if words in invented
    ]
    assert copied == []
