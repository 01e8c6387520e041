"""One row of an lm-eval sample file: the instance and the completion."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.domain import Completion, Failure, Instance, Message, Reference
from medhelm.errors import DataError
from medhelm.exchange.fields import short_text
from medhelm.io.untrusted_json import count, mapping, number, sequence, text

_LONGEST_LIST = 10_000  # maximum characters of a target that is parsed as a list
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class LmEvalRow:
    """A row of the data, and its completion."""

    instance: Instance
    """The instance, with its prompt."""
    completion: Completion
    """The generated text, or the option with the highest likelihood."""
    by_likelihood: bool = False
    """True if options were compared by likelihood."""
    max_tokens: int = 0
    """Limit on completion tokens; 0 if there was none."""
    temperature: float | None = None
    """Sampling temperature, if one was set."""
    stop: tuple[str, ...] = ()
    """Stop sequences."""


def read_row(row: Mapping[str, Any], name: str, *, odd: Counter[str]) -> LmEvalRow:
    """Read one row. Irregularities are counted in `odd`, as text that follows "N rows: ".

    Raises: DataError for tasks without completions, which measure the likelihood of given texts.
    """
    requests = [_as_list(one, "arg_") for one in _as_list(row.get("arguments"), "gen_args_")]
    responses = sequence(row.get("resps"))
    if requests and len(requests[0]) > 1 and isinstance(requests[0][1], dict):
        return _generation_row(row, name, requests[0], responses, odd)
    if len(requests) > 1 and all(len(request) > 1 and isinstance(request[1], str) for request in requests):
        return _multiple_choice_row(row, name, requests, responses, odd)
    if not requests or not responses:
        raise DataError(f"row {name} has no request or no completion.")
    raise DataError("the task measures the likelihood of given texts, so it has no completions to import.")


def _generation_row(
    row: Mapping[str, Any], name: str, request: Sequence[Any], responses: Sequence[Any], odd: Counter[str]
) -> LmEvalRow:
    """Read a row with a generated text; if there are several completions, the first one."""
    texts = sequence(responses[0]) if responses else ()
    if len(texts) > 1:
        odd["several completions; the first one is kept, and the scores are those of lm-eval"] += 1
    settings = mapping(request[1])
    until = settings.get("until")
    if texts and isinstance(texts[0], str):
        completion = Completion(text=text(texts[0]))
        if not texts[0].strip():
            odd["empty completion, which lm-eval also writes after a failed request"] += 1
    else:
        completion = Completion(failure=Failure("provider", "no_answer", "the file has no completion"))
    return LmEvalRow(
        instance=_instance(row, name, _turns(request[0]), _target_texts(row.get("target")), ()),
        completion=completion,
        max_tokens=count(settings.get("max_gen_toks") or settings.get("max_tokens")),
        temperature=number(settings.get("temperature")),
        stop=tuple(filter(None, map(text, until if isinstance(until, list) else [until]))),
    )


def _multiple_choice_row(
    row: Mapping[str, Any], name: str, requests: Sequence[Sequence[Any]], responses: Sequence[Any], odd: Counter[str]
) -> LmEvalRow:
    """Read a row whose options were compared by their log-likelihoods.

    Options that are repeated without the question serve to correct for their unconditional likelihood. If the same
    ending follows different beginnings, the beginnings are the options.
    """
    context = requests[0][0]
    own = [place for place, request in enumerate(requests) if repr(request[0]) == repr(context)]
    options = [text(requests[place][1]).strip() for place in own]
    if len(own) == 1:
        own = list(range(len(requests)))
        options = [text(request[0]).strip() for request in requests]
        context = requests[0][1]
    likelihoods = [_likelihood(responses[place]) if place < len(responses) else None for place in own]
    known = [value for value in likelihoods if value is not None]
    if len(known) < len(own):
        failure = Failure("provider", "no_answer", "the file lacks log-likelihoods of some options")
        completion = Completion(failure=failure)
    else:
        completion = Completion(text=options[likelihoods.index(max(known))])
    correct = _correct_options(row.get("target"), options)
    if not correct:
        odd["the target is not among the options"] += 1
    unique = len(set(options)) == len(options)
    return LmEvalRow(
        instance=_instance(row, name, _turns(context), correct, options if unique else ()),
        completion=completion,
        by_likelihood=True,
    )


def _instance(
    row: Mapping[str, Any], name: str, turns: tuple[Message, ...], correct: Sequence[str], options: Sequence[str]
) -> Instance:
    references = [Reference(one, one in correct) for one in options] or [Reference(one) for one in correct]
    return Instance(
        id=name,
        fields={"input": turns[-1].text if turns else ""},
        references=tuple(references),
        choices=tuple(options),
        labels=tuple(options),
        metadata={text(key): own for key, value in mapping(row.get("doc")).items() if (own := short_text(value))},
        turns=turns,
    )


def _as_list(value: object, prefix: str) -> list[Any]:
    """Return a list, or the values of an object whose keys are a prefix and a number, as in newer files."""
    if isinstance(value, dict):
        return [value[f"{prefix}{place}"] for place in range(len(value)) if f"{prefix}{place}" in value]
    return list(sequence(value))


def _turns(context: object) -> tuple[Message, ...]:
    """Return the messages sent: plain text, or chat messages as JSON, alone or in a list of one."""
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
    """Return the text of a message, which may be a list of parts."""
    if isinstance(value, str):
        return text(value)
    return "\n".join(text(mapping(part).get("text")) for part in sequence(value) if mapping(part).get("type") == "text")


def _likelihood(value: object) -> float | None:
    """Return a log-likelihood: a number or its digits, possibly nested in lists with other values."""
    while isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return number(value) if value != float("-inf") else -1e308


def _target_texts(value: object) -> list[str]:
    """Return the correct references as text; files contain lists in Python syntax."""
    if isinstance(value, list):
        return [text(one) if isinstance(one, str) else str(one) for one in value]
    said = text(value) if isinstance(value, str) else "" if value is None else str(value)
    if said.startswith("[") and said.endswith("]") and len(said) <= _LONGEST_LIST:
        try:
            found = ast.literal_eval(said)  # constants only: nothing is executed
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found = None
        if isinstance(found, list) and all(isinstance(one, str | int | float) for one in found):
            return [str(one) for one in found]
    return [said] if said else []


def _correct_options(target: object, options: Sequence[str]) -> list[str]:
    """Return the correct options: the target gives their text, or their index from 0."""
    correct = []
    for one in _target_texts(target):
        if one.strip() in options:
            correct.append(one.strip())
        elif one.strip().isdecimal() and int(one) < len(options):
            correct.append(options[int(one)])
    return correct
