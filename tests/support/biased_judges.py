"""A server whose models answer letters more or less well, and whose judges are fair or biased in a known way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import CRITERIA, DEFINITION, is_judge, number, verdict, write_benchmark
from tests.support.cli import Medhelm, succeeded
from tests.support.servers.openai import Answer, Server

FAIR, LONG, FIRST, FICKLE = "judge-fair", "judge-long", "judge-first", "judge-fickle"
"""Judges that grade by what is said, by length, by place, and by chance."""

PREFERRED = "preferred"
"""Key of the verdict on two completions."""

_QUALITY = re.compile(r"is of grade (\d)")
_RESPONSE = re.compile(r"<RESPONSE(?:_[12])? ([0-9a-f]{24})>\n(.*?)\n</RESPONSE", re.DOTALL)


def quality(model: str, question: int) -> int:
    """Return how good a completion is, from 2 to 5: those of `model-a` are mostly better than those of `model-b`."""
    chance = sha256(f"{model} {question}".encode()).digest()[0]
    return (3 if model == "model-a" else 2) + chance % 3


def completion(model: str, question: int) -> str:
    """Return a completion whose length says nothing about its quality."""
    length = sha256(f"length {model} {question}".encode()).digest()[0] % 5
    more = " Drink water." * (1 + 4 * length)
    return f"Advice: rest. This advice of {model} is of grade {quality(model, question)}.{more}"


class BiasedJudges:
    """For `Server.answer_with`."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def __call__(self, body: Mapping[str, Any]) -> Answer:
        """Answer as a model, or grade as a judge."""
        name, prompt = str(body["model"]), body["messages"][0]["content"]
        if not is_judge(body):
            return chat(completion(name, number(body)))
        texts = [text for _, text in _RESPONSE.findall(prompt)]
        self._seen[name + prompt] += 1
        again = self._seen[name + prompt]
        return chat(_preference(name, texts) if len(texts) > 1 else _grades(name, prompt, texts[0], again))


def _value(judge: str, text: str) -> float:
    """Return what a judge sees in a completion."""
    return len(text) if judge == LONG else float(_QUALITY.findall(text)[0])


def _grades(judge: str, prompt: str, text: str, again: int) -> str:
    """Return the grades of a completion; `again`: how often the judge has seen this prompt."""
    if judge == FIRST:  # the criterion that comes first gets the best grade
        places = [prompt.index(f"- {name}: ") for name in CRITERIA]
        return verdict(*(5 if place == min(places) else 3 for place in places))
    if judge == FICKLE:
        return verdict(*[1 + sha256(f"{again} {text}".encode()).digest()[0] % 5] * 3)
    if judge == LONG:
        return verdict(*[min(5, 1 + len(text) // 120)] * 3)
    return verdict(*[int(_value(judge, text))] * 3)


def _preference(judge: str, texts: list[str]) -> str:
    """Return the verdict on two completions: 1, 2, or 0 for a tie."""
    first, second = (_value(judge, text) for text in texts)
    said = 1 if judge == FIRST or first > second else 2 if second > first else 0
    return verdict(said, criteria=(PREFERRED,))


def graded_store(
    medhelm: Medhelm, server: Server, folder: Path, *, n: int, judges: Sequence[str], definition: str = DEFINITION
) -> Path:
    """Write a benchmark, have two models answer it and judges grade that in `folder`/store; return its folder."""
    server.answer_with(BiasedJudges())
    benchmark = write_benchmark(folder, n=n, definition=definition)
    models = [f"--model={server.model(f'model-{name}')}" for name in "ab"]
    succeeded(medhelm("run", benchmark, *models, *judges_at(server, judges), "--store", folder / "store"))
    return benchmark


def judges_at(server: Server, names: Sequence[str]) -> list[str]:
    """Return the options that name judges on a server."""
    return [f"--judge={server.model(name)}" for name in names]
