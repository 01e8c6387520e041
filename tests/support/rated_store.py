"""A store with two models that three judges graded, and what clinicians think of each answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from medhelm.evaluation import recorder as run_in_progress
from medhelm.evaluation.python_api import evaluate
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import CRITERIA, jury, mock, number, open_benchmark, verdict
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server

N = 120
MODELS = ("model-a", "model-b")


def quality(model: str, question: int) -> float:
    """What clinicians think of an answer, 1 to 5: the second model is worse by a grade."""
    random = Random(f"{model} {question}")
    return min(5.0, max(1.0, random.gauss(3.4 if model == "model-a" else 2.4, 0.9)))


def grade(judge: str, model: str, question: int, criterion: str) -> int:
    """What a judge gives: half a grade for a whole one of clinicians, and all of it kinder, with chance in it."""
    chance = Random(f"{judge} {model} {question} {criterion}").gauss(0, 0.5)
    return min(5, max(1, round(2.6 + 0.5 * quality(model, question) + chance)))


def answer(body: Mapping[str, Any]) -> Answer:
    """Models sign their answers; judges grade by the signature."""
    question = number(body)
    if not str(body["model"]).startswith("judge"):
        return chat(f"Answer of {body['model']} to number {question}")
    model = next(name for name in MODELS if f"Answer of {name}" in body["messages"][0]["content"])
    return chat(verdict(*(grade(body["model"], model, question, criterion) for criterion in CRITERIA)))


def copy_of_store(folder: Path) -> Path:
    """Write the store, which is made once, into an empty folder, and return it."""
    made_once(folder, "rated", lambda: make_store(folder))
    return folder / "store"


def make_store(folder: Path) -> Path:
    """Make the store in a folder, and return it.

    Neither names nor the runs' ids, which seed the intervals, hold the server's port: the output is always the same.
    """
    with Server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_in_progress, "identity", lambda _, __, model, *___: sha256(model.name.encode()).hexdigest())
        server.answer_with(answer)
        models = [replace(mock(server, name), name=f"lab/{name}") for name in MODELS]
        judges = jury(server)
        named = tuple(replace(judge, name=f"lab/{judge.remote_name}") for judge in judges.judges)
        benchmark = open_benchmark(folder, n=N)
        evaluate([benchmark], models, store=folder / "store", jury=replace(judges, judges=named))
    return folder / "store"
