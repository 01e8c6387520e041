"""A store of sample rows with completions that judges graded, for studies of clinicians."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm, repeated, succeeded
from tests.support.made_once import made_once
from tests.support.servers.openai import Answer, Server

BENCHMARK = "aci_bench"
"""The benchmark: notes of invented visits, with a rubric."""

MODELS, JUDGES = ("north", "mesa"), ("judge-1", "judge-2", "judge-3")
"""Names of the models and judges behind the server."""

WEEKS = re.compile(r"See again in (\d) weeks?\.")
"""In each completion: the grade that it deserves, 1 to 5."""


def sample_store(medhelm: Medhelm, folder: Path) -> Path:
    """Write such a store into an empty folder, and return it; it is made once in a process."""
    made_once(folder, "study-store", lambda: _make(medhelm, folder))
    return folder / "store"


def _make(medhelm: Medhelm, folder: Path) -> None:
    with Server() as server:
        server.answer_with(_answer)
        addresses = {name: f"{name}=openai/{name}@{server.url}/v1" for name in (*MODELS, *JUDGES)}
        models = repeated("--model", (addresses[name] for name in MODELS))
        judges = repeated("--judge", (addresses[name] for name in JUDGES))
        store = ("--store", str(folder / "store"))
        succeeded(medhelm("run", BENCHMARK, "--tier", "sample", *models, *judges, *store, "--quiet"))


def _answer(body: Mapping[str, Any]) -> Answer:
    """Let `north` deserve 3 to 5 and `mesa` 1 to 3, by the length of the visit; judges differ by a point."""
    text = str(body["messages"][0]["content"])
    name = str(body["model"])
    if name not in JUDGES:
        weeks = (3 if name == "north" else 1) + len(text) % 3
        return chat(
            f"HISTORY OF PRESENT ILLNESS\nSeen for the complaint of this visit.\n\nPLAN\nSee again in {weeks} weeks."
        )
    deserved = int(WEEKS.findall(text)[-1])
    grade = min(5, max(1, deserved + (JUDGES.index(name) - 1) * (len(text) % 2)))
    criteria = ("accuracy", "completeness", "clarity")
    return chat("{" + ", ".join(f'"{one}": {{"score": {grade}, "explanation": "as it is"}}' for one in criteria) + "}")
