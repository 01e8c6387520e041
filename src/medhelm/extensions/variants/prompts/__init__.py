"""Other prompts for the instances of a benchmark: built-in ones by name, and files of the user."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import JURY, Benchmark
from medhelm.domain.run import ANSWER_AFTER, Variant
from medhelm.errors import UserError, suggestion
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.prompts.types import FewShot, PromptVariant
from medhelm.extensions.variants.types import NamedChange

COT_TOKENS = 1024
"""Tokens for reasoning in a completion, beside those for the answer."""

CONFIDENCE, ABSTAIN = "confidence", "abstain"
"""Names of the prompts that ask for a confidence, and that permit not to answer."""

_SHORT_CUE = 3
"""Most words of a last line such as "Answer:" that asks for the answer at once, and nothing else."""

_STEP_BY_STEP = (
    "Reason step by step before you answer. This holds whatever is said above about the length of the reply, or about "
    "leaving out reasons. Then finish with `Answer:` at the start of a line, followed by the final answer alone, in "
    "the form asked for above."
)
_MARK = "Answer:"

_ASKS_CONFIDENCE = (
    "After your reply, add a last line `Confidence: N%`, where N is the probability from 0 to 100 that your reply is "
    "correct. Add this line whatever else is said about the form or the length of the reply."
)
_PERMITS_ABSTENTION = (
    "If this cannot be answered, because information is missing or because it rests on a wrong premise, reply "
    "`Cannot be answered`{instead}. You may do so whatever else is said about the form of the reply."
)
_MORE_TOKENS = 32
"""Tokens of what these sentences ask for, beside those of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInPrompt(NamedChange):
    """A prompt that can be chosen by name."""

    of: Callable[[Benchmark], PromptVariant]
    """Makes it for a benchmark. Raises: UserError or MissingError if it cannot be made."""


def _few_shot(benchmark: Benchmark) -> PromptVariant:
    if benchmark.conversation_column:
        raise UserError(
            f"{benchmark.name}: --prompt few_shot is not for benchmarks whose model continues a conversation. "
            "Nothing was sent."
        )
    return PromptVariant(few_shot=FewShot())


def _chain_of_thought(benchmark: Benchmark) -> PromptVariant:
    limit = benchmark.max_tokens + COT_TOKENS
    if benchmark.conversation_column:
        system = f"{benchmark.system}\n\n{_STEP_BY_STEP}".lstrip()
        return PromptVariant(system=system, answer_after=_MARK, max_tokens=limit, stop=())
    body, cue = _split_cue(benchmark.prompt)
    asked = benchmark.prompt.rstrip() if "{" in cue else body  # a cue with a field is part of the question
    return PromptVariant(prompt=f"{asked}\n\n{_STEP_BY_STEP}", answer_after=_MARK, max_tokens=limit, stop=())


def _split_cue(template: str) -> tuple[str, str]:
    """Return a template without a last line such as "Answer:", after which a model answers at once, and this line."""
    head, _, last = template.rstrip().rpartition("\n")
    is_cue = last.endswith(":") and len(last.split()) <= _SHORT_CUE
    return (head.rstrip(), last) if head and is_cue else (template.rstrip(), "")


def _confidence(benchmark: Benchmark) -> PromptVariant:
    if benchmark.metrics[0] == JURY:
        raise UserError(
            f"--prompt {CONFIDENCE}: {benchmark.name} is graded by judges, and a grade is not right or wrong. "
            "Choose benchmarks with a key. Nothing was sent."
        )
    return _with_sentence(benchmark, _ASKS_CONFIDENCE)


def _abstain(benchmark: Benchmark) -> PromptVariant:
    instead = " in place of an option" if benchmark.choices or benchmark.choice_columns else ""
    return _with_sentence(benchmark, _PERMITS_ABSTENTION.format(instead=instead))


def _with_sentence(benchmark: Benchmark, sentence: str) -> PromptVariant:
    """Return the benchmark's own prompt with a sentence at its end, before a cue such as "Answer:".

    A continued conversation has it in the system message. No sequence ends the completion before its last line.
    """
    limit = benchmark.max_tokens + _MORE_TOKENS
    if benchmark.conversation_column:
        return PromptVariant(system=f"{benchmark.system}\n\n{sentence}".strip(), max_tokens=limit, stop=())
    body, cue = _split_cue(benchmark.prompt)
    return PromptVariant(prompt="\n\n".join(filter(None, [body, sentence, cue])), max_tokens=limit, stop=())


def _beginning_with(text: str, benchmark: Benchmark) -> PromptVariant:
    """Return a prompt that begins with a sentence; before a conversation it is the system message."""
    if benchmark.conversation_column:
        return PromptVariant(system=f"{text}\n\n{benchmark.system}".rstrip())
    return PromptVariant(prompt=f"{text}\n\n{benchmark.prompt}")


def _as_expert(benchmark: Benchmark) -> PromptVariant:
    text = "You are an experienced physician. Answer with the care of a consultation."
    return PromptVariant(system=f"{text}\n\n{benchmark.system}".rstrip())


def _helm(benchmark: Benchmark) -> PromptVariant:
    from medhelm.extensions.variants.prompts.helm import helm_prompt  # lazy: reads the source of another package

    return helm_prompt(benchmark)


_BUILT_IN = (
    BuiltInPrompt(
        name="chain_of_thought",
        title="Chain of thought",
        description="Asks for reasoning first, then for the answer on a line of its own, which alone is scored.",
        of=_chain_of_thought,
    ),
    BuiltInPrompt(
        name="few_shot",
        title="Few-shot",
        description="Shows five solved examples before each question, none of them evaluated.",
        of=_few_shot,
    ),
    BuiltInPrompt(
        name=CONFIDENCE,
        title="Confidence",
        description="Asks for a last line with the probability that the reply is correct.",
        of=_confidence,
    ),
    BuiltInPrompt(
        name=ABSTAIN,
        title="Abstain",
        description="Permits the reply that a question cannot be answered.",
        of=_abstain,
    ),
    BuiltInPrompt(
        name="helm",
        title="HELM",
        description="Words each question as the installed package crfm-helm does.",
        of=_helm,
    ),
    BuiltInPrompt(
        name="expert",
        title="Expert",
        description="Adds a system message that makes the model a physician; the question stays.",
        of=_as_expert,
    ),
    BuiltInPrompt(
        name="polite",
        title="Polite",
        description="Begins with a courteous request; the question stays.",
        of=partial(_beginning_with, "Hello. Could you please help me with the following? Thank you in advance."),
    ),
    BuiltInPrompt(
        name="terse",
        title="Terse",
        description="Begins with a demand to be brief; the question stays.",
        of=partial(_beginning_with, "Be brief. Give what is asked for below and no more."),
    ),
)

PROMPTS: Mapping[str, BuiltInPrompt] = {one.name: one for one in _BUILT_IN}
"""Name -> built-in prompt, in the order of lists."""


def prompt_variant(name: str, dataset: Dataset, settings: Settings) -> Variant:
    """Return the variant that asks the instances of a data set by another prompt.

    `name`: a built-in prompt, or a YAML file. Raises: UserError or ConfigError, with all problems, if the benchmark
    cannot be asked this way; MissingError if a package or a file is missing.
    """
    benchmark = dataset.benchmark
    asked = _find(name, benchmark)
    changed = asked.applied(benchmark)
    stored = {"prompt_source": asked.source, ANSWER_AFTER: asked.answer_after}
    settled: dict[str, Any] = {key: value for key, value in stored.items() if value}
    draw, examples = None, ""
    if asked.few_shot:
        from medhelm.extensions.variants.prompts.few_shot import EXAMPLES, example_pool  # lazy: few prompts show any

        pool = example_pool(asked.few_shot, dataset, changed, settings.seed)
        settled[EXAMPLES], draw = pool.in_words(), pool.with_examples
        examples = pool.digest
    content = [asdict(replace(asked, few_shot=None)), examples]
    settled["prompt_digest"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return Variant(name=f"prompt={name}", settings=settled, benchmark=asked.applied, instance=draw)


def _find(name: str, benchmark: Benchmark) -> PromptVariant:
    """Return a prompt by its name or file. Raises: as `prompt_variant`."""
    from medhelm.extensions.variants.prompts.prompt_file import SUFFIXES, read_prompt_file  # lazy: pydantic

    if Path(name).suffix in SUFFIXES:
        return read_prompt_file(Path(name), benchmark)
    if name not in PROMPTS:
        raise UserError(
            f"--prompt: `{name}` is neither a built-in prompt nor a YAML file. {suggestion(name, PROMPTS)} Nothing was "
            "sent."
        )
    return PROMPTS[name].of(benchmark)
