"""Prompts that ask for a confidence, or that permit not to answer: a benchmark's own prompt with one sentence more."""

from __future__ import annotations

from medhelm.domain import JURY, Benchmark
from medhelm.errors import UserError
from medhelm.extensions.variants.prompts.types import PromptVariant

CONFIDENCE, ABSTAIN = "confidence", "abstain"
"""Names of the prompts."""

_ASKS_CONFIDENCE = (
    "After your reply, add a last line `Confidence: N%`, where N is the probability from 0 to 100 that your reply is "
    "correct. Add this line whatever else is said about the form or the length of the reply."
)
_PERMITS_ABSTENTION = (
    "If this cannot be answered, because information is missing or because it rests on a wrong premise, reply "
    "`Cannot be answered`{instead}. You may do so whatever else is said about the form of the reply."
)
_MORE_TOKENS = 32
"""Tokens of the sentences that are asked for, beside those of the answer."""

_SHORT_CUE = 3
"""Most words of a last line such as "Answer:", which stays the last."""


def confidence_prompt(benchmark: Benchmark) -> PromptVariant:
    """Return the prompt that asks for a last line `Confidence: N%`.

    Raises: UserError for a benchmark whose completions are graded by judges: they are not right or wrong.
    """
    if benchmark.metrics[0] == JURY:
        raise UserError(
            f"--prompt {CONFIDENCE}: {benchmark.name} is graded by judges, and a grade is not right or wrong. "
            "Choose benchmarks with a key. Nothing was sent."
        )
    return _with_sentence(benchmark, _ASKS_CONFIDENCE)


def abstain_prompt(benchmark: Benchmark) -> PromptVariant:
    """Return the prompt that permits the reply that a question cannot be answered."""
    has_options = bool(benchmark.choices or benchmark.choice_columns)
    return _with_sentence(
        benchmark, _PERMITS_ABSTENTION.format(instead=" in place of an option" if has_options else "")
    )


def _with_sentence(benchmark: Benchmark, sentence: str) -> PromptVariant:
    """Return the benchmark's own prompt with a sentence at its end, before a cue such as "Answer:".

    A continued conversation has it in the system message. No sequence ends the completion before its last line.
    """
    limit = benchmark.max_tokens + _MORE_TOKENS
    if benchmark.conversation_column:
        return PromptVariant(system=f"{benchmark.system}\n\n{sentence}".strip(), max_tokens=limit, stop=())
    body, _, last = benchmark.prompt.rstrip().rpartition("\n")
    if last.rstrip().endswith(":") and len(last.split()) <= _SHORT_CUE:
        prompt = f"{body.rstrip()}\n\n{sentence}\n\n{last}"
    else:
        prompt = f"{benchmark.prompt.rstrip()}\n\n{sentence}"
    return PromptVariant(prompt=prompt, max_tokens=limit, stop=())
