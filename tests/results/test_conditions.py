"""Runs that may share a column: by their digests, by the stored prompts where digests differ, and by sampling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Instance, Message, Model, Origin, Prompt, Reference, Run
from medhelm.results.comparable import ConditionsComparison, conditions_of
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import create
from tests.support.stores import jury_of, make_model, make_run

HELM = Origin(harness="helm", version="", run="r", sha256="")


def stored(
    folder: Path,
    model: str = "openai/m",
    *,
    n: int = 4,
    data: str = "1",
    definition: str = "d",
    prompt: str = "Question {}",
    key: str = "A",
    is_stored: bool = True,
    **changes: Any,
) -> Run:
    """A run of `n` instances in a store, with its prompts and references if `is_stored`."""
    run = make_run("toy", model, benchmark_digest=definition, data_digest=data, n=n, **changes)
    store = create(folder)
    if is_stored:
        rows = [
            (
                Instance(id=f"i{i}", fields={}, references=(Reference(text=key, correct=True),)),
                Prompt(messages=(Message(role="user", text=prompt.format(i)),)),
            )
            for i in range(n)
        ]
        write_prompts(store.prompts_file("toy", definition, data), rows)
    return replace(run, folder=store.run_folder("toy", model, run.id))


WRITER = make_model("openai/m", max_tokens=None)
AB = {"main_metric": "jury", "jury_result": jury_of("a", "b")}
THINKER = make_model("openai/m", reasoning=True)

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "equal digests, whatever the number": ({"is_stored": False}, {"n": 5, "is_stored": False}, []),
    "other files with the same content": ({}, {"data": "2"}, []),
    "another answer key": (
        {}, {"data": "2", "key": "B"}, ["scored with another answer key on 4 of 4 instances"],
    ),
    "other prompts explain another definition": (
        {}, {"definition": "f", "prompt": "Say {}"}, ["given other prompts on 4 of 4 instances"],
    ),
    "another rubric": (
        {}, {"definition": "f"},
        ["scored by another version of the benchmark's definition, such as its rubric or metrics"],
    ),
    "the first of all": (
        {"n": 2, "data": "2", "settings": {"limit": 2}}, {}, ["run on only the first 2 of 4 instances"],
    ),
    "more than the others": (
        {}, {"n": 2, "data": "2", "settings": {"limit": 2}}, ["run on 4 instances, the others on only the first 2"],
    ),
    "a limit beyond all": ({"data": "2", "settings": {"limit": 9}}, {}, []),
    "not stored": (
        {"is_stored": False}, {"data": "2"}, ["run on another version or selection of the data"],
    ),
    "the prompts of another harness": (
        {"data": "2", "prompt": "Q: {}", "key": "B", "origin": HELM}, {},
        ["given the prompts of HELM, the others those of MedHELM"],
    ),
    "imported without prompts": ({"data": "2", "origin": HELM, "is_stored": False}, {}, []),
    "a temperature": (
        {"settings": {"temperature": 0.7}}, {"settings": {"temperature": 0.0}},
        ["sampled at temperature 0.7, the others at 0"],
    ),
    "a temperature in models.yaml": (
        {"resolved_model": replace(WRITER, parameters={"temperature": 1})}, {"settings": {"temperature": 0.0}},
        ["sampled at temperature 1, the others at 0"],
    ),
    "a reasoning model takes no temperature": (
        {"resolved_model": THINKER, "settings": {"temperature": None, "max_tokens": 9000}},
        {"resolved_model": WRITER, "settings": {"temperature": 0.0, "max_tokens": 5}}, [],
    ),
    "a server that refuses a temperature": (
        {"refused_parameters": {"temperature": 4}, "settings": {"temperature": 0.7}},
        {"settings": {"temperature": 0.0}}, [],
    ),
    "the benchmark's limit": (
        {"resolved_model": WRITER, "settings": {"max_tokens": 5}},
        {"resolved_model": WRITER, "settings": {"max_tokens": 500}},
        ["limited to 5 tokens a completion, the others to 500"],
    ),
    "a limit of the model's own": (
        {"resolved_model": replace(WRITER, max_tokens=64), "settings": {"max_tokens": 64}},
        {"resolved_model": WRITER, "settings": {"max_tokens": 5}}, [],
    ),
    "a baseline reads no prompt and samples nothing": (
        {"model": "baseline/majority", "definition": "f", "prompt": "Say {}",
         "settings": {"temperature": 0.0, "max_tokens": 5},
         "resolved_model": Model(name="baseline/majority", provider="baseline", remote_name="majority")},
        {"resolved_model": WRITER, "settings": {"temperature": 0.7, "max_tokens": 500}}, [],
    ),
    "a baseline with another answer key": (
        {"model": "baseline/majority", "data": "2", "key": "B"}, {},
        ["scored with another answer key on 4 of 4 instances"],
    ),
    "several differences": (
        {"data": "2", "key": "B", "settings": {"temperature": 0.7}}, {"settings": {"temperature": 0.0}},
        ["scored with another answer key on 4 of 4 instances", "sampled at temperature 0.7, the others at 0"],
    ),
    "other judges": (
        {"main_metric": "jury", "jury_result": jury_of("a", "c")}, AB,
        ["graded by a and c, the others by a and b"],
    ),
    "no judges": (
        {"main_metric": "rouge_l"}, AB, ["not graded by a and b"],
    ),
    "fewer judges needed": (
        {"main_metric": "jury", "jury_result": jury_of("a", "b", min_judges=1)}, AB,
        ["scored if 1 judge graded, the others if 2 did"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("one", "others", "expected"), CASES.values(), ids=CASES)
def test_differences_of_conditions(
    one: dict[str, Any], others: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    first, second = stored(tmp_path / "s", **one), stored(tmp_path / "s", **others)
    found = ConditionsComparison([first, second]).differences(conditions_of(first), conditions_of(second))
    assert [difference.reason for difference in found] == expected


def test_prompts_that_are_not_stored_for_an_import_are_unknown(tmp_path: Path) -> None:
    own = stored(tmp_path)
    imported = stored(tmp_path, data="2", origin=HELM, is_stored=False)
    comparison = ConditionsComparison([own, imported])
    assert comparison.is_known(conditions_of(own))
    assert not comparison.is_known(conditions_of(imported))
