"""Prompts other than a benchmark's own, and the checks that every one of them must pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from medhelm.benchmarks.prompts import NO_FIELD, OPTIONS, placeholders, stray_braces
from medhelm.domain import Benchmark
from medhelm.errors import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShot:
    """Solved examples that precede each question."""

    n: int = 5
    """Number of examples."""
    sample: str = ""
    """Named selection to draw them from; empty: the benchmark's selection for examples, or what is not selected."""
    file: Path | None = None
    """File with rows in the schema of the benchmark to draw them from instead."""
    seed: int | None = None
    """Seed of the draw; None: that of the command."""
    stratify: bool = False
    """True to take the examples from each correct answer in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptVariant:
    """A way to ask the instances of a benchmark. What is None stays as the benchmark has it."""

    system: str | None = None
    """Template of the system message."""
    prompt: str | None = None
    """Template of the user message."""
    answer_after: str = ""
    """Mark before the final answer; empty: completions are answers."""
    max_tokens: int | None = None
    """Limit on completions."""
    stop: tuple[str, ...] | None = None
    """Sequences that end a completion."""
    few_shot: FewShot | None = None
    """Solved examples; None for none."""
    source: str = ""
    """Package that the wording is from, with its version; empty for none."""

    def applied(self, benchmark: Benchmark) -> Benchmark:
        """Return a benchmark that asks this way. Judges see its question as before."""
        prompt = benchmark.prompt if self.prompt is None else self.prompt
        system = benchmark.system if self.system is None else self.system
        shown = placeholders(prompt) | placeholders(system)
        return replace(
            benchmark,
            prompt=prompt,
            system=system,
            own_prompt=benchmark.prompt if prompt != benchmark.prompt else benchmark.own_prompt,
            answer_after=self.answer_after,
            max_tokens=self.max_tokens or benchmark.max_tokens,
            stop=benchmark.stop if self.stop is None else self.stop,
            shorten=benchmark.shorten if benchmark.shorten in (NO_FIELD, *shown) else "",
        )


def template_problems(variant: PromptVariant, benchmark: Benchmark) -> Iterator[tuple[str, str, str]]:
    """Yield key, part of its text, and sentence for each problem of the templates with a benchmark.

    Every placeholder of the benchmark's own prompt is needed: without one, part of the question would not be asked.
    """
    if benchmark.conversation_column and variant.prompt is not None:
        text = "is not for a benchmark whose model continues a conversation. Use `system`, or leave it out."
        yield "prompt", "", f"{text} ({benchmark.name})"
        return
    own = placeholders(benchmark.prompt) | placeholders(benchmark.system)
    given = {"prompt": variant.prompt, "system": variant.system}
    shown = set()
    for key, template in given.items():
        if template is None:
            shown |= placeholders(getattr(benchmark, key))
            continue
        shown |= placeholders(template)
        for line in stray_braces(template):
            yield key, line.strip(), f"a single brace in `{line.strip()}`. Write {{{{ or }}}} for a literal brace."
        for name in sorted(placeholders(template) - own):
            help_ = suggestion(name, sorted(own))
            yield key, f"{{{name}}}", f"{{{name}}} is not a field of the prompt of {benchmark.name}. {help_}".rstrip()
    key = "system" if variant.prompt is None else "prompt"
    for name in sorted(own - shown):
        what = "the options" if name == OPTIONS else "a part of the question"
        yield key, "", f"lacks {{{name}}}: {benchmark.name} would be asked without {what}. Insert {{{name}}}."
