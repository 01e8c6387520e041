"""Read one sample of an Inspect log: instance, completion, scores, and the judgments of MedHELM tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any, Literal

from medhelm.domain import Completion, Failure, Instance, JudgeReply, Judgment, Message, Model, Reference, Usage
from medhelm.extensions.exchange.fields import metric_name, model_of, short_text
from medhelm.io.rows import count, mapping, number, sequence, text
from medhelm.storage.imported_instances import instance_from_json

_SCORE_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_YES_NO = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_ROLES: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
}
_FINISH_REASONS = {"max_tokens": "length", "model_length": "length"}
_ATTACHMENT = "attachment://"


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectSample:
    """A sample in one epoch."""

    epoch: int
    """Number of the epoch."""
    instance: Instance
    """The instance, with its prompt."""
    completion: Completion
    """The completion, or its failure."""
    judgments: tuple[Judgment, ...] = ()
    """Judgments of a MedHELM task."""
    replies: tuple[JudgeReply, ...] = ()
    """Judges' completions of a MedHELM task."""


def read_sample(
    raw: Mapping[str, Any], name: str, epoch: int, model: str, *, ours: bool, issues: Counter[str]
) -> InspectSample:
    """Read a sample of a log. Irregularities are counted in `issues`, as text that follows "N samples: "."""
    output = mapping(raw.get("output"))
    completion = _completion(raw, output, model, issues)
    turns = _turns(raw, issues)
    metadata = mapping(raw.get("metadata"))
    if ours and (own := mapping(metadata.get("medhelm"))):
        instance = replace(instance_from_json(name, own), turns=turns)
    else:
        instance = _instance(raw, name, turns, metadata)
    scoring = mapping(mapping(mapping(raw.get("scores")).get("medhelm")).get("metadata")) if ours else {}
    return InspectSample(
        epoch=epoch,
        instance=instance,
        completion=completion,
        judgments=tuple(_judgment(mapping(one)) for one in sequence(scoring.get("judgments"))),
        replies=tuple(_reply(mapping(one)) for one in sequence(scoring.get("replies"))),
    )


# --- instances --------------------------------------------------------------------------------------------------------


def _instance(raw: Mapping[str, Any], name: str, turns: tuple[Message, ...], metadata: Mapping[str, Any]) -> Instance:
    choices = tuple(text(one) for one in sequence(raw.get("choices")))
    target = raw.get("target")
    targets = [text(one) for one in (target if isinstance(target, list) else [target]) if text(one)]
    letters = tuple(ascii_uppercase[: len(choices)])
    labels: tuple[str, ...] = ()
    if choices and targets and len(choices) <= len(letters):
        labels = letters if set(targets) <= set(letters) else choices if set(targets) <= set(choices) else ()
    references = tuple(
        Reference(choice, label in targets) for choice, label in zip(choices, labels, strict=True)
    ) if labels else tuple(Reference(one) for one in targets)  # fmt: skip
    input_ = raw.get("input")
    prompt = input_ if isinstance(input_, str) else "\n\n".join(turn.text for turn in turns if turn.role == "user")
    return Instance(
        id=name,
        fields={"input": _resolve_attachment(text(prompt), raw)},
        references=references,
        choices=choices if labels else (),
        labels=labels,
        metadata={text(key): own for key, value in metadata.items() if (own := short_text(value))},
        turns=turns,
    )


def _turns(raw: Mapping[str, Any], issues: Counter[str]) -> tuple[Message, ...]:
    """Return the messages before the last completion: solvers may have changed the data set's input."""
    messages = [mapping(one) for one in sequence(raw.get("messages"))]
    answers = [place for place, one in enumerate(messages) if one.get("role") == "assistant"]
    if mapping(raw.get("output")).get("choices") and answers:
        messages = messages[: answers[-1]]
    if not messages:
        given = raw.get("input")
        messages = (
            [{"role": "user", "content": given}] if isinstance(given, str) else list(map(mapping, sequence(given)))
        )
    turns = []
    irregularities: set[str] = set()
    for one in messages:
        role = _ROLES.get(text(one.get("role")))
        if role is None:
            irregularities.add("tools were used, and their output is kept as user messages")
        content, is_text = _content_text(one.get("content"), raw)
        if not is_text:
            irregularities.add("the prompt has parts other than text (images, files), which are left out")
        turns.append(Message(role or "user", content))
    issues.update(irregularities)
    return tuple(turns)


def _content_text(content: object, raw: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the text of a message without reasoning, and True if it has no other parts."""
    if isinstance(content, str):
        return _resolve_attachment(text(content), raw), True
    parts = [mapping(part) for part in sequence(content)]
    texts = [_resolve_attachment(text(part.get("text")), raw) for part in parts if part.get("type") == "text"]
    return "\n".join(texts), all(part.get("type") in ("text", "reasoning") for part in parts)


def _resolve_attachment(content: str, raw: Mapping[str, Any]) -> str:
    """Return a text, or the attachment that it refers to."""
    if content.startswith(_ATTACHMENT):
        return text(mapping(raw.get("attachments")).get(content.removeprefix(_ATTACHMENT))) or content
    return content


# --- completions ------------------------------------------------------------------------------------------------------


def _completion(raw: Mapping[str, Any], output: Mapping[str, Any], model: str, issues: Counter[str]) -> Completion:
    choices = sequence(output.get("choices"))
    choice = mapping(choices[0]) if choices else {}
    reason = text(choice.get("stop_reason"))
    known: dict[str, Any] = {
        "usage": _usage(_token_counts(raw, output, model)),
        "latency_s": number(output.get("time")) or 0.0,
        "reported_model": text(output.get("model")),
    }
    if raw.get("invalidation"):
        issues["marked invalid, so counted as failures here"] += 1
        return Completion(failure=Failure("provider", "invalidated", "the sample was marked invalid"), **known)
    error = text(mapping(raw.get("error")).get("message"))
    limit = text(mapping(raw.get("limit")).get("type"))
    if not choices:
        if limit and not error:
            failure = Failure("provider", f"{limit}_limit", f"the sample's limit on {limit} was reached")
        else:
            words = error or text(output.get("error")) or "the log has no completion"
            failure = Failure("provider", "sample_error" if error else "no_answer", words.partition("\n")[0][:500])
        return Completion(failure=failure, **known)
    if reason == "content_filter":
        if score_values(mapping(raw.get("scores")), several=True, issues=Counter()):
            issues["blocked by the provider's content filter: a failure here, regardless of its score"] += 1
        failure = Failure("provider", "refusal", "the provider's content filter ended the completion")
        return Completion(failure=failure, finish_reason=reason, **known)
    if error:
        issues["completed before an error, so the completion is kept"] += 1
    answer, _ = _content_text(mapping(choice.get("message")).get("content"), raw)
    if reason == "model_length" and not count(mapping(output.get("usage")).get("output_tokens")):
        # Inspect returns the provider's error message as the completion, and scores it.
        issues["prompt too long for the model: a failure here, regardless of its score"] += 1
        return Completion(failure=Failure("provider", "context_length", answer[:500]), finish_reason="length", **known)
    return Completion(text=answer, finish_reason=_FINISH_REASONS.get(reason, reason), **known)


def _token_counts(raw: Mapping[str, Any], output: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return the tokens of the model under test: of its only completion, or of all completions in the sample."""
    answers = sum(mapping(one).get("role") == "assistant" for one in sequence(raw.get("messages")))
    every = mapping(mapping(raw.get("model_usage")).get(model))
    return every if answers > 1 and every else mapping(output.get("usage")) or every


def _usage(tokens: Mapping[str, Any]) -> Usage:
    """Return token counts in our form. Old logs of some providers include cached tokens in `input_tokens`."""
    spent, written = count(tokens.get("input_tokens")), count(tokens.get("output_tokens"))
    cached, stored = count(tokens.get("input_tokens_cache_read")), count(tokens.get("input_tokens_cache_write"))
    reasoning, total = count(tokens.get("reasoning_tokens")), count(tokens.get("total_tokens"))
    if not (cached + stored and total == spent + written):
        spent += cached + stored
    if reasoning and (reasoning > written or total == spent + written + reasoning):
        written += reasoning
    cached = min(cached, spent)
    return Usage(
        input=spent, cached_input=cached, output=written, reasoning=reasoning, cache_write=min(stored, spent - cached)
    )


# --- scores -----------------------------------------------------------------------------------------------------------


def score_values(scores: Mapping[str, Any], *, several: bool, issues: Counter[str]) -> dict[str, float]:
    """Return metric -> number for the scores of one sample.

    A score with several values becomes one metric for each, named after the value, or after scorer and value if the log
    has `several` scorers. Correct, partial, incorrect and no answer become 1, 0.5, 0 and 0; unscored values are left
    out.
    """
    found: dict[str, float] = {}
    is_any_unreadable = False
    for scorer, score in scores.items():
        value = mapping(score).get("value")
        named = {scorer: value}
        if isinstance(value, dict):
            named = {f"{scorer}_{key}" if several else key: own for key, own in value.items()}
        elif isinstance(value, list):
            named = {f"{scorer}_{place}": own for place, own in enumerate(value)}
        for name, own in named.items():
            as_number = _as_number(own)
            is_any_unreadable |= as_number is None and own is not None and not isinstance(own, float)
            if as_number is not None:
                found[metric_name(name)] = as_number
    if is_any_unreadable:
        issues["a score is not a number; left out"] += 1
    return found


def _as_number(value: object) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value in _SCORE_LETTERS:
            return _SCORE_LETTERS[value]
        if value.lower() in _YES_NO:
            return _YES_NO[value.lower()]
        try:
            found = float(value)
        except ValueError:
            return None
        return found if math.isfinite(found) else None
    return number(value)


# --- judgments --------------------------------------------------------------------------------------------------------


def judges_of(samples: Iterable[InspectSample]) -> tuple[Model, ...]:
    """Return the judges of a run, in the order of their judgments."""
    return tuple(map(model_of, dict.fromkeys(one.judge for sample in samples for one in sample.judgments)))


def _judgment(logged: Mapping[str, Any]) -> Judgment:
    score, code = number(logged.get("score")), text(logged.get("failure"))
    if score is None:
        failure = Failure("judge", code or "no_verdict", text(logged.get("message")) or "the log has no score")
    return Judgment(
        judge=text(logged.get("judge")),
        criterion=text(logged.get("criterion")),
        score=score,
        points=number(logged.get("points")) or 0.0,
        failure=failure if score is None else None,
        explanation=text(logged.get("explanation")),
    )


def _reply(logged: Mapping[str, Any]) -> JudgeReply:
    code = text(logged.get("failure"))
    failure = Failure("judge", code, text(logged.get("message"))) if code else None
    return JudgeReply(
        judge=text(logged.get("judge")),
        prompt_index=count(logged.get("part")),
        attempt=count(logged.get("attempt")),
        completion=Completion(
            text=None if failure else text(logged.get("text")),
            failure=failure,
            finish_reason=text(logged.get("finish_reason")),
        ),
        verification_code=text(logged.get("verification_code")),
    )
