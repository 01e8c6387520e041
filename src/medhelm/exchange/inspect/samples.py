"""One sample of a log of Inspect: what was asked, what came back, what it scored, and what our judges said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any, Literal

from medhelm.domain import Completion, Failure, Instance, JudgeReply, Judgment, Message, Model, Reference, Usage
from medhelm.exchange.fields import metric_name, short
from medhelm.io.untrusted_json import count, mapping, number, sequence, text
from medhelm.storage.imported_instances import instance_from_json

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_YES_NO = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_ROLES: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
}
_FINISH = {"max_tokens": "length", "model_length": "length"}
_ATTACHMENT = "attachment://"


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectSample:
    """A sample in one epoch."""

    epoch: int
    """Which one."""
    instance: Instance
    """What was asked."""
    completion: Completion
    """What came back, or why nothing did."""
    judgments: tuple[Judgment, ...] = ()
    """What the judges of a task of ours gave."""
    replies: tuple[JudgeReply, ...] = ()
    """What they said."""


def read_sample(
    raw: Mapping[str, Any], name: str, epoch: int, model: str, *, ours: bool, odd: Counter[str]
) -> InspectSample:
    """A sample as it stands in a log. What is odd about it is counted in `odd`, in words after "N samples: "."""
    output = mapping(raw.get("output"))
    completion = _completion(raw, output, model, odd)
    turns = _turns(raw, odd)
    metadata = mapping(raw.get("metadata"))
    if ours and (own := mapping(metadata.get("medhelm"))):
        instance = replace(instance_from_json(name, own), turns=turns)
    else:
        instance = _instance(raw, name, turns, metadata)
    said = mapping(mapping(mapping(raw.get("scores")).get("medhelm")).get("metadata")) if ours else {}
    return InspectSample(
        epoch=epoch,
        instance=instance,
        completion=completion,
        judgments=tuple(_judgment(mapping(one)) for one in sequence(said.get("judgments"))),
        replies=tuple(_reply(mapping(one)) for one in sequence(said.get("replies"))),
    )


# --- what was asked ---------------------------------------------------------------------------------------------------


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
    said = raw.get("input")
    asked = said if isinstance(said, str) else "\n\n".join(turn.text for turn in turns if turn.role == "user")
    return Instance(
        id=name,
        fields={"input": _resolved(text(asked), raw)},
        references=references,
        choices=choices if labels else (),
        labels=labels,
        metadata={text(key): own for key, value in metadata.items() if (own := short(value))},
        turns=turns,
    )


def _turns(raw: Mapping[str, Any], odd: Counter[str]) -> tuple[Message, ...]:
    """The messages before the last answer: solvers may have changed what the data set says."""
    messages = [mapping(one) for one in sequence(raw.get("messages"))]
    answers = [place for place, one in enumerate(messages) if one.get("role") == "assistant"]
    if mapping(raw.get("output")).get("choices") and answers:
        messages = messages[: answers[-1]]
    if not messages:
        said = raw.get("input")
        messages = [{"role": "user", "content": said}] if isinstance(said, str) else list(map(mapping, sequence(said)))
    turns = []
    strange: set[str] = set()
    for one in messages:
        role = _ROLES.get(text(one.get("role")))
        if role is None:
            strange.add("tools were used, and what they said is kept as the user's words")
        said, is_text = _content_text(one.get("content"), raw)
        if not is_text:
            strange.add("more than text was sent (images, files), which is not kept")
        turns.append(Message(role or "user", said))
    odd.update(strange)
    return tuple(turns)


def _content_text(content: object, raw: Mapping[str, Any]) -> tuple[str, bool]:
    """The text of a message, without reasoning, and whether there was nothing else in it."""
    if isinstance(content, str):
        return _resolved(text(content), raw), True
    parts = [mapping(part) for part in sequence(content)]
    texts = [_resolved(text(part.get("text")), raw) for part in parts if part.get("type") == "text"]
    return "\n".join(texts), all(part.get("type") in ("text", "reasoning") for part in parts)


def _resolved(said: str, raw: Mapping[str, Any]) -> str:
    """A text, or what the log keeps in another place for it."""
    if said.startswith(_ATTACHMENT):
        return text(mapping(raw.get("attachments")).get(said.removeprefix(_ATTACHMENT))) or said
    return said


# --- what came back ---------------------------------------------------------------------------------------------------


def _completion(raw: Mapping[str, Any], output: Mapping[str, Any], model: str, odd: Counter[str]) -> Completion:
    choices = sequence(output.get("choices"))
    choice = mapping(choices[0]) if choices else {}
    reason = text(choice.get("stop_reason"))
    known: dict[str, Any] = {
        "usage": _usage(_counted(raw, output, model)),
        "latency_s": number(output.get("time")) or 0.0,
        "reported_model": text(output.get("model")),
    }
    if raw.get("invalidation"):
        odd["declared invalid, and failures here"] += 1
        return Completion(failure=Failure("provider", "invalidated", "the sample was declared invalid"), **known)
    error = text(mapping(raw.get("error")).get("message"))
    limit = text(mapping(raw.get("limit")).get("type"))
    if not choices:
        if limit and not error:
            failure = Failure("provider", f"{limit}_limit", f"the sample's limit on {limit} was reached")
        else:
            words = error or text(output.get("error")) or "the log has no answer"
            failure = Failure("provider", "sample_error" if error else "no_answer", words.partition("\n")[0][:500])
        return Completion(failure=failure, **known)
    if reason == "content_filter":
        if score_values(mapping(raw.get("scores")), several=True, odd=Counter()):
            odd["ended by the provider's filter: a failure here, whatever it was scored"] += 1
        failure = Failure("provider", "refusal", "the provider's content filter ended the answer")
        return Completion(failure=failure, finish_reason=reason, **known)
    if error:
        odd["answered before an error, so the answer is kept"] += 1
    said, _ = _content_text(mapping(choice.get("message")).get("content"), raw)
    if reason == "model_length" and not count(mapping(output.get("usage")).get("output_tokens")):
        # Inspect gives the service's complaint as the answer, and scores it.
        odd["too long for the model: a failure here, whatever it was scored"] += 1
        return Completion(failure=Failure("provider", "context_length", said[:500]), finish_reason="length", **known)
    return Completion(text=said, finish_reason=_FINISH.get(reason, reason), **known)


def _counted(raw: Mapping[str, Any], output: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The tokens of the model under test: of its one answer, or, of several, all in the sample."""
    answers = sum(mapping(one).get("role") == "assistant" for one in sequence(raw.get("messages")))
    every = mapping(mapping(raw.get("model_usage")).get(model))
    return every if answers > 1 and every else mapping(output.get("usage")) or every


def _usage(said: Mapping[str, Any]) -> Usage:
    """Tokens as they are counted here. In old logs of some providers `input_tokens` has the cached ones in it."""
    spent, written = count(said.get("input_tokens")), count(said.get("output_tokens"))
    cached, stored = count(said.get("input_tokens_cache_read")), count(said.get("input_tokens_cache_write"))
    reasoning, total = count(said.get("reasoning_tokens")), count(said.get("total_tokens"))
    if not (cached + stored and total == spent + written):
        spent += cached + stored
    if reasoning and (reasoning > written or total == spent + written + reasoning):
        written += reasoning
    cached = min(cached, spent)
    return Usage(
        input=spent, cached_input=cached, output=written, reasoning=reasoning, cache_write=min(stored, spent - cached)
    )


# --- what it scored ---------------------------------------------------------------------------------------------------


def score_values(scores: Mapping[str, Any], *, several: bool, odd: Counter[str]) -> dict[str, float]:
    """Metric -> number, of the scores of one sample.

    A score with several values gives one metric for each: called as the value, or, where the log has `several` scorers,
    as both. Correct, partial, incorrect and no answer are 1, 0.5, 0 and 0; what is unscored is left out.
    """
    found: dict[str, float] = {}
    strange = False
    for scorer, score in scores.items():
        value = mapping(score).get("value")
        named = {scorer: value}
        if isinstance(value, dict):
            named = {f"{scorer}_{key}" if several else key: own for key, own in value.items()}
        elif isinstance(value, list):
            named = {f"{scorer}_{place}": own for place, own in enumerate(value)}
        for name, own in named.items():
            as_number = _as_number(own)
            strange = strange or (as_number is None and own is not None and not isinstance(own, float))
            if as_number is not None:
                found[metric_name(name)] = as_number
    if strange:
        odd["a score is no number, and left out"] += 1
    return found


def _as_number(value: object) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value in _WORDS:
            return _WORDS[value]
        if value.lower() in _YES_NO:
            return _YES_NO[value.lower()]
        try:
            found = float(value)
        except ValueError:
            return None
        return found if math.isfinite(found) else None
    return number(value)


# --- what our judges said ---------------------------------------------------------------------------------------------


def judged_by(samples: Iterable[InspectSample]) -> tuple[Model, ...]:
    """The judges of a run, in the order of their judgments."""
    names = dict.fromkeys(one.judge for sample in samples for one in sample.judgments)
    parts = [(name, *name.partition("/")) for name in names]
    return tuple(Model(name=name, provider=provider, remote_name=rest) for name, provider, _, rest in parts)


def _judgment(said: Mapping[str, Any]) -> Judgment:
    score, code = number(said.get("score")), text(said.get("failure"))
    if score is None:
        failure = Failure("judge", code or "no_verdict", text(said.get("message")) or "the log has no grade")
    return Judgment(
        judge=text(said.get("judge")),
        criterion=text(said.get("criterion")),
        score=score,
        points=number(said.get("points")) or 0.0,
        failure=failure if score is None else None,
        explanation=text(said.get("explanation")),
    )


def _reply(said: Mapping[str, Any]) -> JudgeReply:
    code = text(said.get("failure"))
    failure = Failure("judge", code, text(said.get("message"))) if code else None
    return JudgeReply(
        judge=text(said.get("judge")),
        prompt_index=count(said.get("part")),
        attempt=count(said.get("attempt")),
        completion=Completion(
            text=None if failure else text(said.get("text")),
            failure=failure,
            finish_reason=text(said.get("finish_reason")),
        ),
    )
