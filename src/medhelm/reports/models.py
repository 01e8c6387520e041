"""Models as a table and as JSON: where they are, what they cost, and whether they answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medhelm.domain import Completion, Model, Price, Usage
from medhelm.reports.tables import render

SHOWN_NAMES = 20
"""Names of a server's models in one message."""

_KEYS = {"none": "none needed", "set": "set", "missing": "MISSING", "wrong": "WRONG"}
_WITHIN = {"baseline": "this process", "replay": "this process", "hf": "this process", "vllm": "this machine"}
"""Provider -> where its models answer, if they have no address."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def list_table(models: Sequence[Model], *, keys: Mapping[str, str]) -> str:
    """One line per model; a price is in US dollars per million input and output tokens, and has its date.

    `keys`: name of a model -> `none`, `set`, `missing` or `wrong`.
    """
    headers = ["model", "provider", "address", "key", "window", "reasoning", "price in", "price out", "price of"]
    rows = [
        [
            model.name,
            model.provider,
            model.base_url or _WITHIN.get(model.provider, "?"),
            _key(model, keys[model.name]),
            str(model.window or "?"),
            "yes" if model.reasoning else "no",
            "?" if model.price is None else f"{model.price.input:g}",
            "?" if model.price is None else f"{model.price.output:g}",
            _when(model.price),
        ]
        for model in models
    ]
    return render(rows, headers)


def examples_table(models: Sequence[Model], *, keys: Mapping[str, str], lacks: Mapping[str, Sequence[str]]) -> str:
    """One line for each example: how it is named, which variables have to be set, and what it costs today.

    `lacks`: name of a model -> variables that have to be set besides its key's.
    """
    headers = ["for example", "set", "window", "reasoning", "price in", "price out", "price of"]
    rows = [
        [
            model.name,
            ", ".join(
                filter(None, (_key(model, keys[model.name]), *(f"{name} MISSING" for name in lacks[model.name])))
            ),
            str(model.window or "?"),
            "yes" if model.reasoning else "no",
            "?" if model.price is None else f"{model.price.input:g}",
            "?" if model.price is None else f"{model.price.output:g}",
            _when(model.price),
        ]
        for model in models
    ]
    return (
        f"\n{render(rows, headers)}\n"
        "Examples: any other model of these providers is named in the same way, and any OpenAI-compatible server.\n"
        "Prices are US dollars per million tokens. Names in capitals are yours. Ask a model once before a run:\n"
        "  medhelm models check NAME"
    )


def _key(model: Model, state: str) -> str:
    """Which variable holds the key, and whether it does."""
    return " ".join(filter(None, (model.key_variable, _KEYS[state])))


def _when(price: Price | None) -> str:
    """The date of a price where its source gives one, else the source."""
    if price is None:
        return "?"
    found = _DAY.search(price.source)
    return found[0] if found else price.source or "?"


def as_json(model: Model, answer: Completion | None = None, **more: Any) -> dict[str, Any]:
    """A model, and what it answered if it was asked."""
    return {**asdict(model), **({"answer": asdict(answer)} if answer else {}), **more}


def check_lines(
    model: Model,
    answer: Completion,
    *,
    asked: bool,
    structured: bool | None,
    logprobs: bool | None,
    left_out: Mapping[str, str],
    names: Sequence[str],
    advice: str,
) -> str:
    """What came of asking a model once, in a line and some more below it."""
    if not asked and not answer.failure:
        return f"{model.name}: answers within this process; there is nothing to ask."
    if answer.failure:
        lines = [f"{model.name}: {answer.failure.code}: {answer.failure.message}"]
    else:
        version = f", reports itself as {answer.reported_model}" if answer.reported_model else ""
        lines = [
            f"{model.name}: answered {_brief(answer.text or '')!r} in {answer.latency_s:.2f} s{version}",
            f"  usage: {_usage(answer.usage)}",
        ]
    if structured is not None:
        lines.append(f"  structured output: {'yes' if structured else 'no; judges are read from plain text'}")
    if logprobs is not None:
        lines.append(f"  log-probabilities of tokens: {'yes' if logprobs else 'no'}")
    lines += [f"  left out, because the server refuses it: {part} ({said})" for part, said in left_out.items()]
    if names:
        rest = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        lines.append(f"  the server has: {', '.join(names[:SHOWN_NAMES])}{rest}")
    if advice:
        lines.append(f"  what to do: {advice}")
    return "\n".join(lines)


def _brief(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _usage(usage: Usage) -> str:
    """Tokens as the server counted them."""
    if not usage.input:
        return "none reported; its cost is estimated from the length of prompts and the limits of answers"
    cached = f" ({usage.cached_input} cached)" if usage.cached_input else ""
    thought = f" ({usage.reasoning} of them thought)" if usage.reasoning else ""
    return f"{usage.input} input tokens{cached}, {usage.output} output tokens{thought}"
