"""Remarks on finished runs: failed requests, models that changed behind their name, and truncated prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from medhelm.domain import Failure, JudgeTally, Remark, Run
from medhelm.domain.text import plural
from medhelm.evaluation.totals import by_frequency
from medhelm.models.providers.errors.advice import ADVICE
from medhelm.scoring.jury.aggregation import JudgeVerdict

UNUSABLE = "unusable"
"""Failure code of requests that were not sent because their judge cannot be used."""


@dataclass(slots=True)
class _FailureKind:
    """One kind of failure of one model or judge."""

    count: int
    """Failed requests."""
    message: str
    """Message of the first of them."""


@dataclass(slots=True)
class FailureSummary:
    """The failed requests of a run by model or judge and by code, each with the message of the first.

    Only the numbers are stored with a run: messages of services may repeat what they were sent.
    """

    _found: dict[tuple[str, str], _FailureKind] = field(default_factory=dict)

    def add(self, name: str, failure: Failure) -> None:
        """Count one failure of a request to the model or judge of this name."""
        known = self._found.get((name, failure.code))
        if known is None:
            self._found[name, failure.code] = _FailureKind(1, failure.message)
        else:
            known.count += 1

    def add_judges(self, verdicts: Sequence[JudgeVerdict]) -> None:
        """Count failed requests to judges; a judge that cannot be used has a message of its own."""
        for one in verdicts:
            failure = one.reply.completion.failure
            if failure and not one.cached and failure.code != UNUSABLE:
                self.add(one.reply.judge, failure)

    @classmethod
    def of_all(cls, several: Iterable[FailureSummary]) -> FailureSummary:
        """Combine the failures of several runs."""
        together = cls()
        for summary in several:
            for key, kind in summary._found.items():
                known = together._found.setdefault(key, _FailureKind(0, kind.message))
                known.count += kind.count
        return together

    def sentences(self) -> list[str]:
        """Return a sentence for each kind: name, number, code, first message, and advice."""
        return [_sentence(name, code, kind) for (name, code), kind in self._found.items()]


def _sentence(name: str, code: str, kind: _FailureKind) -> str:
    said = kind.message.removeprefix(f"{name}: ").strip()
    if said and not said.endswith((".", "!", "?")):
        said += "."
    many = f"{plural(kind.count, 'request')} failed"
    return " ".join(filter(None, (f"{name}: {many} ({code}):", said, ADVICE.get(code, ""))))


MOST_NAMED = 4
"""Most snapshots to name in one sentence; fingerprints are only counted."""


def drift_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each model or judge that reported several versions in these runs."""
    by_name: dict[str, list[Run | JudgeTally]] = {}
    for run in runs:
        by_name.setdefault(run.model, []).append(run)
        for judge, tally in (run.jury_result.tallies if run.jury_result else {}).items():
            by_name.setdefault(judge, []).append(tally)
    snapshots = {name: _sum(one.snapshots for one in found) for name, found in by_name.items()}
    fingerprints = {name: _sum(one.fingerprints for one in found) for name, found in by_name.items()}
    several_versions = {name: names for name, names in snapshots.items() if len(names) > 1}
    remarks = [Remark("several_versions", name, f"{name} {_under(names)}.") for name, names in several_versions.items()]
    several = [f"{name} ({len(prints)})" for name, prints in fingerprints.items() if len(prints) > 1]
    if several:
        text = (
            f"Servers of {', '.join(several)} reported several system fingerprints: the system changed or differs "
            "between machines, so the same request can get different completions."
        )
        remarks.append(Remark("several_fingerprints", "", text))
    return remarks


def truncation_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each model whose prompts were truncated to fit its context window."""
    by_model: dict[str, list[Run]] = {}
    for run in runs:
        if run.n_truncated:
            by_model.setdefault(run.model, []).append(run)
    return [
        Remark(
            "truncated_prompts",
            model,
            f"{model} got {sum(run.n_truncated for run in found):,} prompts truncated to fit its context window: "
            f"{', '.join(f'{run.title} {run.n_truncated:,} of {run.n:,}' for run in found)}.",
        )
        for model, found in by_model.items()
    ]


def _under(names: Mapping[str, int]) -> str:
    """Name the versions that a model reported."""
    ordered = list(by_frequency(names).items())
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    listed = ", ".join(f"{name} ({n:,})" for name, n in ordered[:MOST_NAMED])
    return f"was served as {len(ordered)} versions, so it is not a single model: {listed}{more}"


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total
