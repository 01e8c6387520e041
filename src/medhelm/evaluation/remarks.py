"""Remarks on finished runs: failures, changed models, old completions, silent servers, and truncated prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from medhelm.domain import FailureCode, JudgeTally, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import Remark
from medhelm.domain.text import listed, metric_title, plural
from medhelm.evaluation.request_totals import FailureKind, FailureSummary, by_frequency
from medhelm.models.provider import Provider
from medhelm.models.providers.advice import ADVICE

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset


def failure_sentences(summaries: Iterable[FailureSummary]) -> list[str]:
    """Return a sentence for each kind of failure in some runs: name, number, code, first message, and advice."""
    found: dict[tuple[str, str], FailureKind] = {}
    for summary in summaries:
        for key, kind in summary.kinds.items():
            known = found.setdefault(key, FailureKind(0, kind.message))
            known.count += kind.count
    return [_failure_sentence(name, code, kind) for (name, code), kind in found.items()]


def _failure_sentence(name: str, code: str, kind: FailureKind) -> str:
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
        for judge, tally in run.tallies.items():
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


def code_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each judge that never returned the verification code of its prompts.

    Its verdicts were readable and no copies, so the judge does not follow the instruction: no completion explains that.
    """
    by_judge: dict[str, list[JudgeTally]] = {}
    for run in runs:
        for judge, tally in run.tallies.items():
            by_judge.setdefault(judge, []).append(tally)
    return [
        Remark("judge_without_codes", judge, _codeless_text(judge, missing))
        for judge, tallies in by_judge.items()
        if (missing := sum(tally.failures.get("unverified", 0) for tally in tallies))
        and all(tally.failed == tally.expected for tally in tallies)
    ]


def _codeless_text(judge: str, n: int) -> str:
    return (
        f"{judge} never returned the verification code of its prompts, so {plural(n, 'judgment')} of it count by the "
        "published rule only. They do not repeat the judged texts: this judge does not follow the instruction. To "
        f"count them, use `medhelm rejudge --judge JUDGE --no-verification-code`, or name another judge."
    )


def age_remarks(runs: Iterable[Run], today: date | None = None) -> list[Remark]:
    """Return a remark for each model some of whose completions are older than today."""
    today = today or datetime.now(UTC).date()
    by_model = group_by(runs, lambda run: run.model)
    remarks = []
    for model, found in by_model.items():
        days = _sum(run.completion_days for run in found)
        older = {day: n for day, n in days.items() if day < today.isoformat()}
        if older:
            text = (
                f"{model}: {sum(older.values()):,} of {days.total():,} completions are from {span_of(older)}. "
                "`medhelm run --fresh` requests new ones."
            )
            remarks.append(Remark("older_completions", model, text))
    return remarks


def replay_remarks(runs: Iterable[Run], providers: Mapping[str, Provider]) -> list[str]:
    """Return a remark for each run on all instances that misses lines in a replay file which has others, unused."""
    remarks = []
    for run in runs:
        is_part = run.shard or run.settings.get("limit") or run.settings.get("subset")
        if run.failures.get(FailureCode.NO_REPLAY) and not (run.n_not_asked or is_part):
            from medhelm.models.providers.replay import Replay  # lazy: few runs replay completions

            provider = providers.get(run.model_name)
            remarks.append(provider.unused(run.benchmark) if isinstance(provider, Replay) else "")
    return list(filter(None, remarks))


def skipped_row_remarks(datasets: Iterable[Dataset]) -> list[str]:
    """Return a remark for each data set of unknown size some of whose rows are skipped, with the reasons."""
    return [
        f"{dataset.benchmark.name}: {dataset.skipped_rows}."
        for dataset in datasets
        if dataset.skipped and dataset.tier == "real" and dataset.benchmark.source.expected_count is None
    ]


async def server_remarks(runs: Iterable[Run], providers: Mapping[str, Provider]) -> list[str]:
    """Probe the servers of models whose completions all came from the cache; return what is wrong, in sentences."""
    import asyncio

    from medhelm.models.model_check import probe  # with all that asks servers, which leaderboards do not need

    by_model = group_by(runs, lambda run: run.model_name)
    probes = []
    for model, found in by_model.items():
        n_cached = sum(run.requests_cached for run in found)
        if n_cached and not any(run.requests_sent for run in found):
            reported = {name for run in found for name in run.snapshots}
            probes.append(probe(providers[model], n_cached, reported))
    return [text for text in await asyncio.gather(*probes) if text]


def span_of(days: Iterable[str]) -> str:
    """Return the first and the last of some days.

    >>> span_of(["2026-11-23", "2026-11-21"])
    '2026-11-21 to 2026-11-23'
    """
    ordered = sorted(days)
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


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


def cut_text_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each benchmark with texts of which a metric read only the beginning."""
    remarks = []
    for benchmark, found in group_by((run for run in runs if run.cut_texts), lambda run: run.benchmark).items():
        names = list(dict.fromkeys(metric_title(name) for run in found for name in run.cut_texts))
        counts = ", ".join(f"{run.model} {max(run.cut_texts.values()):,} of {run.n:,}" for run in found)
        text = (
            f"{listed(names)} on {found[0].title} compared only the beginning of long texts: {counts} instances have a "
            "completion or reference that is longer than the metric reads."
        )
        remarks.append(Remark("cut_texts", benchmark, text))
    return remarks


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
