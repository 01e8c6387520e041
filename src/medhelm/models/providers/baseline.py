"""Baselines: completions without a model, which every leaderboard shows. No network, no key, no cost.

`majority` gives the most frequent correct answer of the benchmark, `random` a random one, and `lexical` the text that
shares the most words with the question. All three depend only on the instances and the seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from random import Random
from typing import TypeVar

from medhelm.domain import Completion, Failure, FailureCode, Instance, Model, Request
from medhelm.errors import ProviderError, suggestion
from medhelm.models.provider import Environment, Provider, Service

BASELINES = ("majority", "random", "lexical")
"""Names that may follow `baseline/`."""

MAX_REFERENCES = 1000
"""Correct answers of one benchmark that `random` draws from."""

CHARACTERS_PER_TOKEN = 4
"""Characters that count as one token, without a tokenizer."""

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

Rule = Callable[[Request, Instance], str]
T = TypeVar("T")


class Baseline(Provider):
    """One of the three rules."""

    local = True

    def __init__(self, rule: str, *, seed: int = 0) -> None:
        """`rule`: one of `BASELINES`."""
        rules: dict[str, Rule] = {"majority": self._majority, "random": self._random, "lexical": lexical_answer}
        self.rule = rule
        self.seed = seed
        self._answer = rules[rule]
        self._most_frequent: dict[str, str] = {}
        self._drawn: dict[str, list[tuple[str, str]]] = {}

    def prepare(self, benchmark: str, instances: Iterable[Instance]) -> None:
        """Read all instances of `benchmark`, before the first request. `lexical` does not need them."""
        if self.rule == "majority":
            self._most_frequent[benchmark] = most_frequent_answer(instances)[0]
        elif self.rule == "random":
            self._drawn[benchmark] = _reservoir(instances, Random(f"{self.seed}:{benchmark}"))

    async def complete(self, request: Request) -> Completion:
        """Apply the rule. Raises: ProviderError if `prepare` was not called for the request's benchmark."""
        if request.instance is None:
            message = f"baseline/{self.rule} completes prompts of benchmarks only"
            return Completion(failure=Failure("provider", FailureCode.NO_INSTANCE, message))
        return Completion(text=self._answer(request, request.instance), finish_reason="stop")

    def _majority(self, request: Request, _: Instance) -> str:
        return self._prepared(self._most_frequent, request.benchmark)

    def _random(self, request: Request, instance: Instance) -> str:
        """Return a label, or for an open question the correct answer of another instance; "" if none exists."""
        drawn = self._prepared(self._drawn, request.benchmark)
        sample = f":{request.sample}" if request.sample else ""
        rng = Random(f"{self.seed}:{request.benchmark}:{instance.id}{sample}")
        if instance.choices:
            return rng.choice(instance.labels)
        others = [answer for name, answer in drawn if name != instance.id]
        return rng.choice(others) if others else ""

    def _prepared(self, found: Mapping[str, T], benchmark: str) -> T:
        if benchmark not in found:
            raise ProviderError(
                FailureCode.NOT_PREPARED, f"baseline/{self.rule} has not read `{benchmark}`", fatal=True
            )
        return found[benchmark]


def most_frequent_answer(instances: Iterable[Instance]) -> tuple[str, int]:
    """Return the most frequent correct answer, the first of equally frequent ones, and the number of its instances.

    If no instance has one, it is "" for all of them.

    Digests are counted: of answers that never repeat, only the first is kept in memory.
    """
    counts: dict[bytes, int] = {}
    texts: dict[bytes, str] = {}
    n = 0
    for n, instance in enumerate(instances, 1):  # noqa: B007 - used after the loop
        if not (answer := instance.expected):
            continue
        digest = blake2b(answer.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        counts[digest] = counts.get(digest, 0) + 1
        if counts[digest] == 2 or not texts:
            texts[digest] = answer
    most = max(counts, key=lambda digest: counts[digest], default=b"")
    return (texts[most], counts[most]) if counts else ("", n)


def _reservoir(instances: Iterable[Instance], rng: Random) -> list[tuple[str, str]]:
    """Draw ID and correct answer of at most 1,000 instances, each with the same chance (Vitter 1985, algorithm R)."""
    kept: list[tuple[str, str]] = []
    answered = ((i.id, i.expected) for i in instances if i.expected)
    for position, pair in enumerate(answered):
        if position < MAX_REFERENCES:
            kept.append(pair)
        elif (place := rng.randrange(position + 1)) < MAX_REFERENCES:
            kept[place] = pair
    return kept


def lexical_answer(request: Request, instance: Instance) -> str:
    """Return the label of the option, or the sentences, that share the most words with the question.

    For a choice question, an option's different words in the fields are counted, without fields that repeat an option;
    of equal options the first wins. For an open question, the sentences of the fields most similar to the question are
    taken, the earlier first, up to four characters per token of the limit, and joined in the order of the text. The
    question is the field of that name, or without one the prompt without its fields.
    """
    if instance.choices:
        options = set(instance.choices)
        known = words(" ".join(text for text in instance.fields.values() if text not in options))
        shared = [len(words(option) & known) for option in instance.choices]
        return instance.labels[shared.index(max(shared))]
    question, sources = _question_and_sources(request, instance)
    sentences = [s.strip() for text in sources for s in _SENTENCE_END.split(text) if s.strip()]
    return _most_similar(sentences, words(question), limit=request.max_tokens * CHARACTERS_PER_TOKEN)


def words(text: str) -> set[str]:
    """Return the different words of `text`, in lower case.

    >>> sorted(words("The dose: 5 mg, the DOSE."))
    ['5', 'dose', 'mg', 'the']
    """
    return set(_WORD.findall(text.casefold()))


def _question_and_sources(request: Request, instance: Instance) -> tuple[str, list[str]]:
    """Return the question, and the texts that may hold the answer: all other fields, or the question itself."""
    question = instance.fields.get("question", "")
    sources = [text for name, text in instance.fields.items() if name != "question"]
    if not question:
        question = request.prompt.messages[-1].text if request.prompt.messages else ""
        for text in sources:
            question = question.replace(text, " ") if text else question
    return question, sources or [question]


def _most_similar(sentences: list[str], wanted: set[str], *, limit: int) -> str:
    """Return the sentences with the most words of `wanted`, within `limit` characters; the best one is cut to fit."""
    shared = [len(words(sentence) & wanted) for sentence in sentences]
    ranked = sorted(range(len(sentences)), key=lambda i: (-shared[i], i))
    taken: list[int] = []
    free = limit
    for i in ranked:
        if taken and (not shared[i] or len(sentences[i]) + 1 > free):
            break
        taken.append(i)
        free -= len(sentences[i]) + 1
    return " ".join(sentences[i] for i in sorted(taken))[:limit]


def _resolve(model: Model, environment: Environment) -> Model:  # noqa: ARG001 - see Service
    if model.remote_name not in BASELINES:
        raise ValueError(f"unknown baseline. {suggestion(model.remote_name, BASELINES)}")
    return model


SERVICE = Service(
    name="baseline",
    title="baseline",
    open=lambda model, context: Baseline(model.remote_name, seed=context.seed),
    takes_address=False,
    resolve=_resolve,
    in_process=True,
)
