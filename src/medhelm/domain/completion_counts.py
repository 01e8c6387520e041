"""Counts of completions without a readable answer, and sentences that name the likely cause.

Such completions are no failures: they were received, and scored. A model that "knows nothing" and a server that loses
its answers would look the same without these counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medhelm.domain.failure_code import AS_WORST, CAUSED_BY_MODEL, caused_in_words
from medhelm.domain.grouping import group_by
from medhelm.domain.remark import Remark
from medhelm.domain.run import CompletionCounts, Run
from medhelm.domain.text import listed, plural

LEAST_SHARE = 0.05
"""Share of the completions from which a remark says so."""

NAMED = 5
"""Most benchmarks named in one sentence."""


@dataclass(frozen=True, slots=True)
class _Affected:
    """Completions of one run with the same problem."""

    run: Run
    counts: CompletionCounts
    n: int
    """Number of them."""

    @property
    def share(self) -> str:
        """Return the number of them among all."""
        return f"{self.n:,} of {plural(self.counts.n, 'completion')}"


def counts_of(run: Run) -> CompletionCounts | None:
    """Return the counts of a run; None if they are unknown, or if it is a baseline, which no server answers for."""
    return None if run.model.startswith("baseline/") else run.completion_counts


def failure_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each model with failures that count as the worst answer, and with runs without a score."""
    found: list[Remark] = []
    for model, own in group_by(runs, lambda run: run.model).items():
        counted = [run for run in own if run.main_metric in run.completers or is_refused(run)]
        if counted:
            failures = sum((Counter(run.failures) for run in counted), Counter[str]())
            found.append(worst_answers(model, failures, [run.title for run in counted]))
        # Such a run is not stored, so none of its failures is counted.
        if empty := [
            run.title for run in own if run.status == "failed" and not CAUSED_BY_MODEL.isdisjoint(run.failures)
        ]:
            text = f"{model}: no completion on {listed(empty, NAMED)}, so it has no score there and is not ranked."
            found.append(Remark("no_completions", model, text))
    return found


def is_refused(run: Run) -> bool:
    """Return True for a run without completions whose refusals count as the worst answer."""
    return run.n_failed == run.n > 0 and run.main_metric in run.estimates.get("corrected", {})


def worst_answers(model: str, failures: Mapping[str, int], titles: Sequence[str], n: int = 0) -> Remark:
    """Return the remark on failures that the model caused, on these benchmarks.

    `failures`: code -> number; `n`: their number if the codes are not known.
    """
    kinds = caused_in_words(failures) or plural(n, "failure that the model caused", "failures that the model caused")
    return Remark("failures_counted_as_worst", model, f"{model}: {kinds} on {listed(titles, NAMED)}, {AS_WORST}.")


def completion_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each model and problem that concerns many of its completions on some benchmark.

    The problems: blank completions, completions without a readable answer, and completions cut by the limit on tokens.
    """
    found: list[Remark] = []
    for model, own in group_by(runs, lambda run: run.model).items():
        known = [(run, counts) for run in own if (counts := counts_of(run))]
        blank = _affected((run, counts, counts.blank) for run, counts in known)
        if blank:
            found.append(Remark("blank_completions", model, _sentence(model, blank, "are blank", _blank_cause(blank))))
        unread = _affected((run, counts, counts.unreadable or 0) for run, counts in known)
        for answer, same in group_by(unread, lambda one: one.counts.answer).items():
            advice = f"`medhelm show {same[0].run.benchmark} INSTANCE` shows the text"
            text = _sentence(model, same, f"hold no readable {answer}", advice)
            found.append(Remark("unreadable_completions", model, text))
        at_limit = _affected((run, counts, counts.at_limit) for run, counts in known)
        for limit, same in group_by(at_limit, lambda one: one.run.settings.get("max_tokens")).items():
            ends = f"end at the limit of {plural(limit, 'token')}" if isinstance(limit, int) else "end at their limit"
            text = _sentence(model, same, ends, "raise `max_tokens` of the model in models.yaml")
            found.append(Remark("completions_at_limit", model, text))
    return found


def no_answer_text(run: Run) -> str | None:
    """Return the numbers of a run for a table cell, such as `2 blank, 4 unreadable`; None if there are none."""
    counts = counts_of(run)
    if counts is None:
        return None
    kinds = {"blank": counts.blank, "unreadable": counts.unreadable or 0}
    if not any(kinds.values()):  # otherwise the limit is a cause of these, and the remark names it
        kinds = {"cut by the limit": counts.at_limit}
    return ", ".join(f"{n:,} {kind}" for kind, n in kinds.items() if n) or None


def _affected(found: Iterable[tuple[Run, CompletionCounts, int]]) -> list[_Affected]:
    """Return the runs of which enough completions are concerned."""
    return [_Affected(run, counts, n) for run, counts, n in found if n and n >= LEAST_SHARE * counts.n]


def _sentence(model: str, found: Sequence[_Affected], problem: str, advice: str) -> str:
    """Return the finding for all runs of a model, in one sentence."""
    if len(found) == 1:
        one = found[0]
        verb, _, rest = problem.partition(" ")
        verb = {"are": "is"}.get(verb, f"{verb}s") if one.n == 1 else verb
        return f"{model}: {one.share} on {one.run.title} {verb} {rest}: {advice}."
    n, of = sum(one.n for one in found), sum(one.counts.n for one in found)
    where = listed([f"{one.run.title} {one.n:,} of {one.counts.n:,}" for one in found], NAMED)
    return f"{model}: {n:,} of {of:,} completions {problem} ({where}): {advice}."


def _blank_cause(found: Sequence[_Affected]) -> str:
    """Return the likely cause of blank completions, and what to do."""
    n, reasoned = sum(one.n for one in found), sum(one.counts.blank_with_reasoning for one in found)
    if reasoned:
        which = "the replies hold" if reasoned == n else f"{reasoned:,} of these replies hold{'s' * (reasoned == 1)}"
        return f"{which} reasoning but no answer, so check the reasoning parser of the server, and `max_tokens`"
    return "check the chat template of the server, the stop sequences and `max_tokens`"
