"""What a reader has to know where runs of other harnesses stand beside ours, or beside one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from medhelm.domain import Rule, Run

HARNESSES = {"helm": "HELM", "inspect": "Inspect", "lm_eval": "lm-eval"}
"""What a harness is called in sentences."""

_NAMED = 5


def imported_remarks(runs: Iterable[Run], rule: Rule) -> list[str]:
    """Sentences on the runs of a leaderboard or a comparison, by whom they were made; none if all are our own."""
    runs = list(runs)
    imported = [run for run in runs if run.origin and not run.origin.completions_made_here]
    if not any(run.origin for run in runs):
        return []
    return [*_other_prompts(runs), *_other_words(runs), *_not_scored(imported, rule)]


def _other_prompts(runs: Sequence[Run]) -> list[str]:
    """Benchmarks whose models were asked by different harnesses."""
    by_benchmark: dict[str, dict[str, set[str]]] = {}
    for run in runs:
        by_benchmark.setdefault(run.title, {}).setdefault(_prompts_of(run), set()).add(run.model)
    mixed = {title: made for title, made in by_benchmark.items() if len(made) > 1}
    if not mixed:
        return []
    whose = sorted({whose for made in mixed.values() for whose in made})
    return [
        f"Prompts of {' and '.join(whose)} stand side by side on {_listed(mixed)}: the questions are put in other "
        "words, and only instances with the same id are paired."
    ]


def _prompts_of(run: Run) -> str:
    return HARNESSES.get(run.origin.harness, run.origin.harness) if run.origin else "MedHELM"


def _other_words(runs: Sequence[Run]) -> list[str]:
    """Benchmarks on which one harness did not ask all its models the same."""
    asked: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        if run.origin:
            asked.setdefault((run.title, run.origin.harness), set()).add(run.data_digest)
    several = sorted({title for (title, _), digests in asked.items() if len(digests) > 1})
    if not several:
        return []
    return [
        f"Not all models of another harness were asked the same on {_listed(several)}: instances, prompts or their "
        "order differ, and the same id need not be the same question."
    ]


def _not_scored(imported: Sequence[Run], rule: Rule) -> list[str]:
    """Runs whose main metric has no number by this rule."""
    waiting = [run for run in imported if run.main_metric not in run.estimates.get(rule, {})]
    if not waiting:
        return []
    verb = "has" if len(waiting) == 1 else "have"
    again = all(run.not_computed.get(run.main_metric) for run in waiting)
    how = "; `medhelm rescore` says what is missing" if again else ": `medhelm rescore` computes what their files allow"
    return [f"{len(waiting)} of {len(imported)} imported runs {verb} no {rule} score{how}."]


def _listed(names: Iterable[str] | Mapping[str, object]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return ", ".join(ordered[:_NAMED]) + more
