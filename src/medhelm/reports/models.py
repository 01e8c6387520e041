"""Models as tables and as JSON: addresses, keys, prices, and results of test requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from medhelm.domain import Model, Price, Usage
from medhelm.domain.completion import ModelCheck
from medhelm.domain.text import listed
from medhelm.reports.formats.json import plain_json
from medhelm.reports.formats.tables import Value, render, tabulate

SHOWN_NAMES = 20
"""Most model names of a server in one message."""

_KEYS = {"none": "none needed", "set": "set", "missing": "MISSING", "wrong": "WRONG"}
_WITHIN = {"baseline": "this process", "replay": "this process", "hf": "this process", "vllm": "this machine"}
"""Provider without an address -> place where its models run."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


LIMIT_AND_PRICE: Mapping[str, Callable[[Model], Value]] = {
    "window": lambda model: model.window or "?",
    "reasoning": lambda model: "yes" if model.reasoning else "no",
    "price in": lambda model: f"{model.price.input:g}" if model.price else "?",
    "price out": lambda model: f"{model.price.output:g}" if model.price else "?",
    "price of": lambda model: _price_date(model.price),
}
"""Columns that both tables of models have."""


def list_table(models: Sequence[Model], *, keys: Mapping[str, str]) -> str:
    """Return one line per model; prices are in US dollars per million tokens, with their date.

    `keys`: name of a model -> `none`, `set`, `missing` or `wrong`.
    """
    columns: dict[str, Callable[[Model], Value]] = {
        "model": lambda model: model.name,
        "provider": lambda model: model.provider,
        "address": lambda model: listed(model.replicas, 2) or model.base_url or _WITHIN.get(model.provider, "?"),
        "key": lambda model: _key(model, keys[model.name]),
        **LIMIT_AND_PRICE,
    }
    return render(*tabulate(models, columns), drop=("price of", "reasoning", "window", "provider", "address"))


def examples_table(models: Sequence[Model], *, keys: Mapping[str, str], lacks: Mapping[str, Sequence[str]]) -> str:
    """Return one line per example: name, variables to set, and current price.

    `lacks`: name of a model -> missing variables besides that of its key.
    """

    def variables(model: Model) -> str:
        missing = (f"{name} MISSING" for name in lacks[model.name])
        return ", ".join(filter(None, (_key(model, keys[model.name]), *missing)))

    rows, headers = tabulate(models, {"for example": lambda model: model.name, "set": variables, **LIMIT_AND_PRICE})
    return (
        f"\n{render(rows, headers, drop=('price of', 'reasoning', 'window'))}\n"
        "Examples: other models of these providers, and OpenAI-compatible servers, are named in the same way.\n"
        "Prices are US dollars per million tokens. Replace words in capitals. Test a model before a run:\n"
        "  medhelm models check NAME"
    )


def _key(model: Model, state: str) -> str:
    """Return the variable of the key and its state."""
    return " ".join(filter(None, (model.key_variable, _KEYS[state])))


def _price_date(price: Price | None) -> str:
    """Return the date of a price if its source gives one, else the source."""
    if price is None:
        return "?"
    found = _DAY.search(price.source)
    return found[0] if found else price.source or "?"


def as_json(model: Model, **more: Any) -> dict[str, Any]:
    """Return a model with further keys."""
    return {**plain_json(model), **more}


def check_as_json(check: ModelCheck) -> dict[str, Any]:
    """Return a model with the result of its test request."""
    findings = plain_json(check)
    return {**findings.pop("model"), **findings}


def check_lines(check: ModelCheck) -> str:
    """Return the result of a test request: one line, and details below it."""
    name, answer = check.model.name, check.answer
    if not check.asked and not answer.failure:
        return f"{name}: runs in this process, so no request was sent."
    if answer.failure:
        lines = [f"{name}: {answer.failure.code}: {answer.failure.message}"]
    else:
        version = f", reports itself as {answer.reported_model}" if answer.reported_model else ""
        lines = [
            f"{name}: responded with {_brief(answer.text or '')!r} in {answer.latency_s:.2f} s{version}",
            f"  usage: {_usage(answer.usage)}",
        ]
    if check.structured is not None:
        no = "no; judgments are read from plain text"
        lines.append(f"  structured output: {'yes' if check.structured else no}")
    if check.logprobs is not None:
        lines.append(f"  log-probabilities of tokens: {'yes' if check.logprobs else 'no'}")
    lines += [f"  unsupported by the server, so not sent: {part} ({why})" for part, why in check.left_out.items()]
    if check.names:
        lines.append(f"  the server has: {listed(check.names, SHOWN_NAMES)}")
    if check.advice:
        lines.append(f"  advice: {check.advice}")
    return "\n".join(lines)


def _brief(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _usage(usage: Usage) -> str:
    """Return the tokens that the server counted."""
    if not usage.input:
        return "not reported; costs are estimated from the lengths of prompts and the limits of completions"
    cached = f" ({usage.cached_input} cached)" if usage.cached_input else ""
    thought = f" ({usage.reasoning} for reasoning)" if usage.reasoning else ""
    return f"{usage.input} input tokens{cached}, {usage.output} output tokens{thought}"
