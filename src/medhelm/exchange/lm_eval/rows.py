"""One row of a sample file of lm-eval: what was asked, and what came back."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.domain import Completion, Failure, Instance, Message, Reference
from medhelm.errors import DataError
from medhelm.exchange.fields import short
from medhelm.io.untrusted_json import count, mapping, number, sequence, text

_LONGEST_LIST = 10_000  # characters of a target that is read as a list
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class LmEvalRow:
    """A row of the data, and the answer."""

    instance: Instance
    """What was asked."""
    completion: Completion
    """The text, or the likeliest option."""
    chosen: bool = False
    """Whether options were compared."""
    max_tokens: int = 0
    """Limit on the text; 0 if there was none."""
    temperature: float | None = None
    """Sampling temperature, if one was set."""
    stop: tuple[str, ...] = ()
    """Sequences that ended the text."""


def read_row(row: Mapping[str, Any], name: str, *, odd: Counter[str]) -> LmEvalRow:
    """One row. What is odd about it is counted in `odd`, in words after "N rows: ".

    Raises: DataError for tasks in which nothing is answered: they measure how likely a given text is.
    """
    requests = [_arguments(one) for one in _listed(row.get("arguments"), "gen_args_")]
    answers = sequence(row.get("resps"))
    if requests and len(requests[0]) > 1 and isinstance(requests[0][1], dict):
        return _generated(row, name, requests[0], answers, odd)
    if len(requests) > 1 and all(len(request) > 1 and isinstance(request[1], str) for request in requests):
        return _chosen(row, name, requests, answers, odd)
    if not requests or not answers:
        raise DataError(f"row {name} has no request or no answer.")
    raise DataError("the task measures how likely given texts are: there is no answer to take in.")


def _generated(
    row: Mapping[str, Any], name: str, request: Sequence[Any], answers: Sequence[Any], odd: Counter[str]
) -> LmEvalRow:
    """A row whose answer is a text; of several answers the first."""
    texts = sequence(answers[0]) if answers else ()
    if len(texts) > 1:
        odd["answered several times; the first answer is kept, scores are those of lm-eval"] += 1
    settings = mapping(request[1])
    until = settings.get("until")
    if texts and isinstance(texts[0], str):
        completion = Completion(text=text(texts[0]))
        if not texts[0].strip():
            odd["the answer is empty, as lm-eval also writes where a request failed"] += 1
    else:
        completion = Completion(failure=Failure("provider", "no_answer", "the file has no answer"))
    return LmEvalRow(
        instance=_instance(row, name, _turns(request[0]), _targets(row.get("target")), ()),
        completion=completion,
        max_tokens=count(settings.get("max_gen_toks") or settings.get("max_tokens")),
        temperature=number(settings.get("temperature")),
        stop=tuple(filter(None, map(text, until if isinstance(until, list) else [until]))),
    )


def _chosen(
    row: Mapping[str, Any], name: str, requests: Sequence[Sequence[Any]], answers: Sequence[Any], odd: Counter[str]
) -> LmEvalRow:
    """A row whose options were compared by their log-likelihoods.

    Where the same options follow again, without the question, they are there to correct for their own likelihood.
    Where one ending follows different beginnings, the beginnings are the options.
    """
    context = requests[0][0]
    own = [place for place, request in enumerate(requests) if repr(request[0]) == repr(context)]
    options = [text(requests[place][1]).strip() for place in own]
    if len(own) == 1:
        own = list(range(len(requests)))
        options = [text(request[0]).strip() for request in requests]
        context = requests[0][1]
    likelihoods = [_likelihood(answers[place]) if place < len(answers) else None for place in own]
    known = [value for value in likelihoods if value is not None]
    if len(known) < len(own):
        failure = Failure("provider", "no_answer", "the file lacks log-likelihoods of some options")
        completion = Completion(failure=failure)
    else:
        completion = Completion(text=options[likelihoods.index(max(known))])
    right = _right_options(row.get("target"), options)
    if not right:
        odd["the target is none of the options"] += 1
    unique = len(set(options)) == len(options)
    return LmEvalRow(
        instance=_instance(row, name, _turns(context), right, options if unique else ()),
        completion=completion,
        chosen=True,
    )


def _instance(
    row: Mapping[str, Any], name: str, turns: tuple[Message, ...], right: Sequence[str], options: Sequence[str]
) -> Instance:
    references = [Reference(one, one in right) for one in options] or [Reference(one) for one in right]
    return Instance(
        id=name,
        fields={"input": turns[-1].text if turns else ""},
        references=tuple(references),
        choices=tuple(options),
        labels=tuple(options),
        metadata={text(key): own for key, value in mapping(row.get("doc")).items() if (own := short(value))},
        turns=turns,
    )


def _listed(value: object, prefix: str) -> list[Any]:
    """A list, or an object whose keys are a prefix and a number, as newer files have it."""
    if isinstance(value, dict):
        return [value[f"{prefix}{place}"] for place in range(len(value)) if f"{prefix}{place}" in value]
    return list(sequence(value))


def _arguments(value: object) -> list[Any]:
    return _listed(value, "arg_")


def _turns(context: object) -> tuple[Message, ...]:
    """What was sent: a plain text, or the messages of a chat as JSON, alone or in a list of one."""
    if isinstance(context, list) and len(context) == 1:
        context = context[0]
    said = text(context)
    if said.lstrip().startswith("[{"):
        try:
            messages = [mapping(one) for one in sequence(json.loads(said))]
        except (ValueError, RecursionError):
            messages = []
        if messages and all(one.get("role") in _ROLES for one in messages):
            return tuple(Message(one["role"], _content(one.get("content"))) for one in messages)
    return (Message("user", said),)


def _content(value: object) -> str:
    """The text of a message, whose parts may be listed."""
    if isinstance(value, str):
        return text(value)
    return "\n".join(text(mapping(part).get("text")) for part in sequence(value) if mapping(part).get("type") == "text")


def _likelihood(value: object) -> float | None:
    """A log-likelihood: a number or its digits, alone or with more beside it, however deep in lists."""
    while isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return number(value) if value != float("-inf") else -1e308


def _targets(value: object) -> list[str]:
    """Right answers, as text; files have lists as Python writes them."""
    if isinstance(value, list):
        return [text(one) if isinstance(one, str) else str(one) for one in value]
    said = text(value) if isinstance(value, str) else "" if value is None else str(value)
    if said.startswith("[") and said.endswith("]") and len(said) <= _LONGEST_LIST:
        try:
            found = ast.literal_eval(said)  # constants only: nothing is called
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found = None
        if isinstance(found, list) and all(isinstance(one, str | int | float) for one in found):
            return [str(one) for one in found]
    return [said] if said else []


def _right_options(target: object, options: Sequence[str]) -> list[str]:
    """Options that are right: the target has their text, or their number from 0."""
    right = []
    for one in _targets(target):
        if one.strip() in options:
            right.append(one.strip())
        elif one.strip().isdecimal() and int(one) < len(options):
            right.append(options[int(one)])
    return right
