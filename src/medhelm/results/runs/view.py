"""Runs as tables, text and JSON: those of an evaluation, stored and removed ones, and submitted batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from medhelm.domain import RULES, Estimate, JuryResult, Rule, Run
from medhelm.domain.completion import Batch
from medhelm.domain.run import (
    Removal,
    RemovalEffect,
    RunOnDisk,
    completion_remarks,
    failure_remarks,
    is_refused,
    no_answer_text,
)
from medhelm.domain.text import duration, listed, metric_title, plural
from medhelm.results.formats import tables
from medhelm.results.formats.fields import plain_json, select
from medhelm.results.formats.tables import (
    MISSING,
    Columns,
    ObjectView,
    Value,
    cost_text,
    counts_text,
    decimal,
    estimate_numbers,
    estimate_text,
    printable,
    records_as_columns,
    render,
    size_text,
    tabulate,
)

# --- runs of an evaluation --------------------------------------------------------------------------------------------


def runs_as_json(runs: Sequence[Run], rule: Rule, *, cost_usd: float, seconds: float) -> dict[str, Any]:
    """Return the output of `medhelm run --json`."""
    return {
        "runs": [_run_json(run, rule) for run in runs],
        "requests_sent": sum(run.requests_sent + _count_judge_requests(run) for run in runs),
        "cost_usd": cost_usd,
        "seconds": seconds,
        "scoring": rule,
    }


def _run_json(run: Run, rule: Rule) -> dict[str, Any]:
    names = (
        "benchmark model tier status message n n_failed n_not_asked failures requests_sent requests_cached "
        "requests_retried requests_duplicate n_shortened=n_truncated "
        "left_out_characters=truncated_characters snapshots fingerprints refused_parts=refused_parameters "
        "completion_days tokens=usage cost_usd seconds completion_counts"
    )
    return {
        **select(run, names),
        **({"shard": str(run.shard)} if run.shard else {}),
        "metrics": {
            **{name: _not_computed_json(run, reason) for name, reason in run.not_computed.items()},
            **{name: _metric_json(run, rule, name) for name in run.estimates[rule]},
        },
        "metrics_by_rule": {
            one: {name: _metric_json(run, one, name) for name in run.estimates.get(one, {})} for one in RULES
        },
        **select(run, "groups main_metric"),
        "jury": _jury_json(run, run.jury_result) if run.jury_result else None,
        **select(run, "run_dir=folder"),
    }


def _metric_json(run: Run, rule: Rule, name: str, *, rounded: bool = False) -> dict[str, Any]:
    """Return a metric; where failures count as the worst answer, also their number and the mean without them.

    `n_failed` counts all failures, as in a leaderboard: those that count as the worst answer are among them.
    """
    found = select(run.estimates[rule][name], "value low high n n_failed", rounded=rounded)
    if not rounded:
        found["method"] = run.estimates[rule][name].method
    if rule == "corrected" and (completers := run.completers.get(name)):
        found["n_failed_by_model"] = completers.n_failed - found["n_failed"]
        found["n_failed"] = completers.n_failed
        found["completers"] = select(completers, "value low high n n_failed method", rounded=rounded)
    elif rule == "corrected" and is_refused(run):
        found |= {"n_failed": run.n_failed, "n_failed_by_model": run.n_failed, "completers": None}
    return found


def _count_judge_requests(run: Run) -> int:
    """Return the number of requests sent to judges."""
    return sum(tally.requests_sent for tally in run.tallies.values())


def _jury_json(run: Run, result: JuryResult) -> dict[str, Any]:
    """Return the judgments of a run."""
    names = "expected failed failures requests_sent requests_cached tokens=usage cost_usd"
    return {
        "judges": {name: select(tally, names) for name, tally in result.tallies.items()},
        "at_least": result.jury.min_judges,
        "rubric": run.rubric,
        "rubric_digest": result.rubric_digest,
        "verification_codes": result.jury.has_codes,
        "scale": [result.low, result.high],
        **select(result, "coverage n_blank n_below_floor=n_too_few_judges n_suspicious=n_with_injection_signs"),
        "labels": plain_json(result.subscores),
    }


def _not_computed_json(run: Run, reason: str) -> dict[str, Any]:
    """Return an entry for a metric that could not be computed."""
    return {"value": None, "low": None, "high": None, "n": 0, "n_failed": run.n, "method": "", "not_computed": reason}


def runs_table(runs: Sequence[Run], rule: Rule) -> str:
    """Return one line per run, with the main metric under both rules, and notes below the table.

    The chosen rule comes first and with its interval. The notes list truncated prompts, unsupported parameters, the
    work of juries, and metrics that could not be computed.
    """
    return "\n".join([_table(runs, rule, "table"), *_bullets(_notes(runs))])


def _notes(runs: Sequence[Run]) -> list[str]:
    notes = [*completion_notes(runs), *_truncation_notes(runs), *_unsupported_notes(runs), *_jury_notes(runs)]
    return [*notes, *_not_computed_notes(runs)]


def completion_notes(runs: Sequence[Run]) -> list[str]:
    """Return the notes on failures that count as the worst answer, and on completions without a readable answer."""
    return [str(remark) for remark in (*failure_remarks(runs), *completion_remarks(runs))]


def _bullets(notes: Sequence[str]) -> list[str]:
    return [f"- {note}" for note in notes]


def _table(runs: Sequence[Run], rule: Rule, format: str) -> str:
    other: Rule = "published" if rule == "corrected" else "corrected"
    columns: dict[str, Callable[[Run], Value]] = {
        "benchmark": lambda run: run.benchmark,
        "model": lambda run: run.model,
        "tier": lambda run: run.tier,
        "status": lambda run: f"{run.status}, shard {run.shard}" if run.shard else run.status,
        "n": lambda run: run.n,
        "failed": _failures_text,
        "unfinished": lambda run: run.n_not_asked,
        "no answer": lambda run: no_answer_text(run),
        "metric": lambda run: metric_title(run.main_metric),
        rule: lambda run: estimate_text(run.estimates[rule].get(run.main_metric)),
        other: lambda run: decimal(found.value) if (found := run.estimates[other].get(run.main_metric)) else None,
        "sent": lambda run: run.requests_sent,
        "retried": lambda run: run.requests_retried,
        "cached": lambda run: max(0, run.requests_cached - run.requests_duplicate),
        "duplicate": lambda run: run.requests_duplicate,
        "cost USD": lambda run: cost_text(run.cost_usd),
    }
    if len({run.tier for run in runs}) < 2:
        del columns["tier"]
    rows, headers = tabulate(runs, columns, optional=["unfinished", "no answer", "retried", "duplicate"])
    drop = ("retried", "duplicate", "cached", "sent", other, "metric", "status", "cost USD", "no answer")
    return render(rows, headers, format=format, drop=drop)


def _truncation_notes(runs: Sequence[Run]) -> list[str]:
    """Return a note per run with truncated prompts."""
    return [
        f"truncated, {run.benchmark} with {run.model}: {run.n_truncated:,} of {run.n:,} prompts, by "
        f"{run.truncated_characters / run.n_truncated:,.0f} characters on average"
        for run in runs
        if run.n_truncated
    ]


def _unsupported_notes(runs: Sequence[Run]) -> list[str]:
    """Return a note per model or judge whose server does not support parts of a request."""
    by_name: dict[str, Counter[str]] = {}
    for run in runs:
        by_name.setdefault(run.model, Counter()).update(run.refused_parameters)
        for judge, tally in run.tallies.items():
            by_name.setdefault(judge, Counter()).update(tally.refused_parameters)
    return [
        f"not supported by the server of {name}: {', '.join(f'{part} ({n:,})' for part, n in found.items())}"
        for name, found in by_name.items()
        if found
    ]


def _jury_notes(runs: Sequence[Run]) -> list[str]:
    """Return a note on each jury: judgments, failures, requests, cost, and scores on parts of the rubric below it."""
    notes = []
    for run in runs:
        if (result := run.jury_result) is None:
            continue
        tallies = result.tallies.values()
        cost = _total_cost(tally.cost_usd for tally in tallies)
        n_judgments, n_judges = sum(tally.expected for tally in tallies), len(result.jury.judges)
        parts = [f"{plural(n_judgments, 'judgment')} of {plural(n_judges, 'judge')}"]
        failed = {name: tally for name, tally in result.tallies.items() if tally.failed}
        if failed:
            kinds = "; ".join(f"{name}: {counts_text(tally.failures)}" for name, tally in failed.items())
            parts.append(f"{sum(tally.failed for tally in failed.values()):,} missing ({kinds})")
        default = " (published: a default score if all grades are missing)" if result.form == "grades" else ""
        counted = {f"without a score as a result{default}": result.n_too_few_judges, "blank": result.n_blank}
        n_uncoded = sum(tally.failures.get("unverified", 0) for tally in tallies)
        if n_uncoded:
            parts.append(f"{plural(n_uncoded, 'judgment')} without verification code (published: counted)")
        counted |= {"with signs of prompt injection": result.n_with_injection_signs}
        parts += [f"{plural(n, 'completion')} {what}" for what, n in counted.items() if n]
        parts.append(f"{sum(t.requests_sent for t in tallies)} sent, {sum(t.requests_cached for t in tallies)} cached")
        parts.append("cost unknown" if cost is None else f"{cost:.4f} USD")
        rubric = f", {run.rubric} rubric" if run.rubric else ""
        rubric += "" if run.settings.get("verification_codes", True) else ", no verification codes"
        note = f"jury{rubric}, {run.benchmark} with {run.model}: {'; '.join(parts)}"
        if result.subscores:
            note += f"\n  {', '.join(f'{label} {mean.value:.2f}' for label, mean in result.subscores.items())}"
        notes.append(note)
    return notes


def _not_computed_notes(runs: Sequence[Run]) -> list[str]:
    """Return a note per reason why metrics could not be computed."""
    lacking: dict[str, tuple[set[str], set[str]]] = {}
    for run in runs:
        for metric, reason in run.not_computed.items():
            metrics, benchmarks = lacking.setdefault(reason, (set(), set()))
            metrics.add(metric)
            benchmarks.add(run.benchmark)
    return [
        f"not computed: {listed([metric_title(name) for name in sorted(metrics)])} on "
        f"{plural(len(benchmarks), 'benchmark')}: {reason}"
        for reason, (metrics, benchmarks) in lacking.items()
    ]


def _failures_text(run: Run) -> str:
    failed = run.n_failed - run.n_not_asked
    return f"{failed} ({counts_text(run.failures)})" if run.failures else str(failed)


# --- stored runs ------------------------------------------------------------------------------------------------------


def stored_to_table(runs: Sequence[RunOnDisk], format: str = "table") -> str:
    """Return one line per stored run; below a text table, the reasons of damage."""
    is_csv = format == "csv"
    columns: dict[str, Callable[[RunOnDisk], Value]] = {
        "store": lambda one: str(one.store),
        "removal": lambda one: one.removal,
        "run": lambda one: one.short_id,
        "benchmark": lambda one: one.benchmark,
        "model": lambda one: one.model,
        "tier": _of_run(lambda run: run.tier),
        "status": lambda one: one.status,
        "n": _of_run(lambda run: run.n),
        "failed": _of_run(lambda run: run.n_failed - run.n_not_asked),
        "unfinished": _of_run(lambda run: run.n_not_asked),
        "no answer": _of_run(lambda run: no_answer_text(run)),
        **(STORED_CSV if is_csv else STORED_TEXT),
    }
    if len({one.store for one in runs}) < 2:
        del columns["store"]
    rows, headers = tabulate(runs, columns, optional=["removal", "unfinished", "no answer"])
    drop = ("size", "from", "judges", "tier", "metric", "cost USD", "started", "failed", "unfinished",
            "status", "no answer")  # fmt: skip
    table = render(rows, headers, format=format, drop=drop)
    damaged = [f"- damaged: {one.folder}: {one.problem}" for one in runs if one.problem]
    if is_csv or not damaged:
        return table
    advice = "- Restore damaged files from a copy, or use `medhelm runs remove ID` and run or import it again."
    return "\n".join([table, *damaged, advice, ""])


def _main_estimate(run: Run) -> Estimate | None:
    """Return the main metric by the corrected rule; None without a score."""
    return run.estimates.get("corrected", {}).get(run.main_metric)


def run_cost(run: Run) -> float | None:
    """Return the cost of a run's completions and judgments; None if a price is unknown."""
    tallies = run.tallies.values()
    return _total_cost([run.cost_usd, *(tally.cost_usd for tally in tallies)])


def _total_cost(costs: Iterable[float | None]) -> float | None:
    """Return the sum of costs; None if one is unknown."""
    known = list(costs)
    return None if None in known else sum(cost or 0.0 for cost in known)


def origin_text(run: Run) -> str:
    """Return where the completions of a run come from: a run here, a file of completions, or another harness."""
    if run.origin and run.has_imported_completions:
        return f"import ({run.origin.harness})"
    source = "replay" if run.model.startswith("replay/") else "fresh run" if run.fresh else "run"
    source += f", shard {run.shard}" if run.shard else ""
    return f"{source}, prompts of {run.origin.harness}" if run.origin else source


def _of_run(cell: Callable[[Run], Value]) -> Callable[[RunOnDisk], Value]:
    """Return the function of a cell that is empty for a run whose `run.json` is damaged."""
    return lambda one: cell(one.run) if one.run else None


def _judge_names(run: Run) -> list[str]:
    return [judge.name for judge in run.judges]


STORED_TEXT: Mapping[str, Callable[[RunOnDisk], Value]] = {
    "metric": _of_run(lambda run: metric_title(run.main_metric)),
    "score": _of_run(lambda run: estimate_text(_main_estimate(run))),
    "cost USD": _of_run(lambda run: cost_text(run_cost(run))),
    "started": _of_run(lambda run: run.started[:16].replace("T", " ")),
    "judges": _of_run(lambda run: len(_judge_names(run)) or None),
    "from": _of_run(origin_text),
    "size": lambda one: size_text(one.n_bytes),
}
"""Last columns of stored runs, for people."""

STORED_CSV: Mapping[str, Callable[[RunOnDisk], Value]] = {
    "metric": _of_run(lambda run: run.main_metric),
    "score": _of_run(lambda run: estimate_numbers(_main_estimate(run))[0]),
    "low": _of_run(lambda run: estimate_numbers(_main_estimate(run))[1]),
    "high": _of_run(lambda run: estimate_numbers(_main_estimate(run))[2]),
    "cost USD": _of_run(lambda run: run_cost(run)),
    "started": _of_run(lambda run: run.started),
    "judges": _of_run(lambda run: "; ".join(_judge_names(run)) or None),
    "from": _of_run(origin_text),
    "bytes": lambda one: one.n_bytes,
}
"""The same columns for CSV."""


def stored_as_json(runs: Sequence[RunOnDisk]) -> dict[str, Any]:
    """Return the output of `medhelm runs list --json`."""
    return {"runs": [_stored_json(one) for one in runs], "bytes": sum(one.n_bytes for one in runs)}


def _stored_json(one: RunOnDisk) -> dict[str, Any]:
    """Return a stored run; of a damaged `run.json` only what its folder says."""
    run = one.run
    return {
        **select(one, "id short_id store benchmark model"),
        **select(one, "title=run.title tier=run.tier status"),
        "problem": one.problem or None,
        **select(one, "n=run.n n_failed=run.n_failed n_not_asked=run.n_not_asked main_metric=run.main_metric"),
        "score": _metric_json(run, "corrected", run.main_metric, rounded=True) if run and _main_estimate(run) else None,
        **select(one, "completion_counts=run.completion_counts"),
        "cost_usd": run and run_cost(run),
        "started": one.started or None,
        "judges": _judge_names(run) if run else [],
        "from": origin_text(run) if run else None,
        "removal": one.removal or None,
        **select(one, "bytes=n_bytes run_dir=folder"),
    }


def stored_run_as_json(one: RunOnDisk, *, is_counted: bool | None) -> dict[str, Any]:
    """Return the output of `medhelm runs show --json`. `is_counted`: None if it was not looked up."""
    run = one.run
    found = {**_stored_json(one), "counts": is_counted, "files": dict(one.files)}
    if run is None:
        return found
    names = "settings versions benchmark_digest data_digest resolved_model origin taxonomy groups"
    return {**_run_json(run, "corrected"), **found, **select(run, names)}


def stored_run_to_text(one: RunOnDisk, *, is_counted: bool | None) -> str:
    """Return everything about one run as text. `is_counted`: None if it was not looked up."""
    run = one.run
    lines = [f"{one.benchmark} with {one.model}", ""]
    facts: dict[str, str | None] = {"id": one.id, "status": one.status, "damage": one.problem or None}
    if run:
        facts |= _run_facts(run)
        facts["leaderboard"] = None if is_counted is None else "counted" if is_counted else "not counted"
    facts["removal"] = one.removal or None
    facts["folder"] = str(one.folder)
    facts["files"] = ", ".join(f"{name} {size_text(size)}" for name, size in one.files.items()) or "none"
    shown = {name: text for name, text in facts.items() if text}
    width = max(map(len, shown))
    lines += [f"{name:<{width}}  {printable(text)}" for name, text in shown.items()]
    if run:
        notes = [
            *completion_notes([run]),
            *_truncation_notes([run]),
            *_unsupported_notes([run]),
            *_not_computed_notes([run]),
        ]
        lines += ["", _metrics_table(run).rstrip(), *_bullets(notes)]
        lines += [*_judges_table(run), *_subscores_table(run)]
    return "\n".join(lines)


def _run_facts(run: Run) -> dict[str, str | None]:
    """Return the settings and counts of a run, by name."""
    model, cost = run.resolved_model, run_cost(run)
    failures = f" ({', '.join(f'{code} {n:,}' for code, n in run.failures.items())})" if run.failures else ""
    price = model.price if model else None
    return {
        "stopped": run.message or None,
        "data": f"{run.tier}, digest {run.data_digest[:16]}",
        "definition": f"digest {run.benchmark_digest[:16]}",
        "model at server": f"{model.remote_name} ({model.provider})" if model else None,
        "answered as": _named_counts(run.snapshots),
        "completed on": ", ".join(f"{day} ({n:,})" for day, n in run.completion_days.items()),
        "fingerprints": _named_counts(run.fingerprints),
        "settings": ", ".join(f"{name} {value}" for name, value in run.settings.items() if value is not None),
        "started": f"{run.started}, took {duration(run.seconds)}",
        "from": origin_text(run) + (f", {run.origin.run}" if run.origin else ""),
        "instances": f"{run.n:,}, {run.n_failed - run.n_not_asked:,} failed{failures}"
        + (f", {run.n_not_asked:,} unfinished" if run.n_not_asked else ""),
        "no answer": no_answer_text(run)
        if run.completion_counts or run.n_failed == run.n
        else "unknown: an earlier version made the run; `medhelm rescore` counts",
        "requests": f"{run.requests_sent:,} sent, {run.requests_cached:,} from the cache",
        "tokens": _tokens_text(run),
        "price": f"{price.input:g} in, {price.output:g} out, USD per million tokens ({price.source})"
        if price
        else None,
        "cost": "unknown" if cost is None else f"{cost:.4f} USD, judges included",
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
    }


def _named_counts(counts: Mapping[str, int]) -> str:
    """Return names with their counts, most first."""
    return ", ".join(f"{name or 'unnamed'} ({n:,})" for name, n in Counter(counts).most_common())


def _tokens_text(run: Run) -> str:
    usage = run.usage
    parts = [f"{usage.input:,} in", f"{usage.output:,} out"]
    parts += [f"{n:,} {name}" for n, name in ((usage.cached_input, "cached"), (usage.reasoning, "reasoning")) if n]
    return ", ".join(parts)


def _metrics_table(run: Run) -> str:
    """Return the metrics by both rules, the main one first."""
    names = dict.fromkeys([run.main_metric, *(name for own in run.estimates.values() for name in own)])
    rows: list[list[Value]] = [
        [metric_title(name), *(estimate_text(run.estimates.get(rule, {}).get(name)) for rule in RULES)]
        for name in names
    ]
    return render(rows, ["metric", *RULES])


def _judges_table(run: Run) -> list[str]:
    """Return a table of the judges of a run; nothing without a jury."""
    if (result := run.jury_result) is None:
        return []
    rows: list[list[Value]] = [
        [
            name,
            tally.expected,
            tally.failed,
            _named_counts(tally.failures) or None,
            tally.usage.input,
            tally.usage.output,
            cost_text(tally.cost_usd),
            _named_counts(tally.snapshots) or None,
        ]
        for name, tally in result.tallies.items()
    ]
    heads = ["judge", "judgments", "missing", "reasons", "tokens in", "tokens out", "cost USD", "answered as"]
    caption = f"Jury: an instance needs {plural(result.jury.min_judges, 'judge')}"
    drop = ("answered as", "tokens out", "tokens in", "reasons")
    table = render(rows, heads, caption=caption, drop=drop)
    return ["", table.rstrip()]


def _subscores_table(run: Run) -> list[str]:
    """Return the scores on parts of the rubric: its criteria, or the tags of criteria with points."""
    if (result := run.jury_result) is None or not result.subscores:
        return []
    rows: list[list[Value]] = [[name, estimate_text(mean), mean.n] for name, mean in result.subscores.items()]
    part = "tag" if result.form == "points" else "criterion"
    return ["", render(rows, [part, "score", "n"]).rstrip()]


# --- removing runs ----------------------------------------------------------------------------------------------------


def effect_to_text(effect: RemovalEffect) -> str:
    """Return what a removal takes out of a store, as a table and sentences."""
    lines = [stored_to_table(effect.runs).rstrip(), ""]
    size = size_text(sum(one.n_bytes for one in effect.runs))
    lines.append(f"- These {plural(len(effect.runs), 'run')} ({size}) no longer count anywhere.")
    if effect.requests:
        lines.append(f"- {_repeat_cost_text(effect)}")
    if effect.imported:
        lines.append(f"- Only a new import restores {plural(effect.imported, 'run')} from other harnesses.")
    lines += [
        f"- Release {name} uses {n:,} of these runs: `medhelm verify {name}` will report them as missing."
        for name, n in effect.releases.items()
    ]
    return "\n".join(lines)


def _repeat_cost_text(effect: RemovalEffect) -> str:
    """Return what the same runs would buy again, in sentences."""
    cost = f"{effect.cost_usd:.4f} USD"
    if effect.cost_unknown:
        cost += f" and the unknown cost of {plural(effect.cost_unknown, 'run')}"
    whole = f"{plural(effect.requests, 'completion')}, including those of judges"
    missing = effect.requests - effect.requests_cached
    again = f"buy {missing:,} again" if missing else "buy nothing again"
    return (
        f"Of {whole}, {effect.requests_cached:,} stay in the cache: the same runs would {again}. Without the cache "
        f"they would cost {cost}."
    )


def effect_as_json(effect: RemovalEffect, removal: Removal | None) -> dict[str, Any]:
    """Return the output of `medhelm runs remove --json`. `removal`: None if nothing was removed."""
    return {
        "removal": removal and removal.id,
        "runs": [_stored_json(one) for one in (removal.runs if removal else effect.runs)],
        **select(effect, "requests requests_cached cost_usd cost_unknown imported releases"),
    }


def removals_as_json(removals: Sequence[Removal]) -> dict[str, Any]:
    """Return the output of `medhelm runs purge --json`."""
    return {
        "purged": [{**select(one, "id removed"), "runs": [_stored_json(run) for run in one.runs]} for one in removals],
        "bytes": sum(run.n_bytes for one in removals for run in one.runs),
    }


def removals_to_text(removals: Sequence[Removal]) -> str:
    """Return one line per removal, with its runs."""
    return "\n".join(
        f"{one.id}  {plural(len(one.runs), 'run')}, {size_text(sum(run.n_bytes for run in one.runs))}: "
        + listed([f"{run.benchmark} with {run.model}" for run in one.runs], 5)
        for one in removals
    )


# --- Python and notebooks ---------------------------------------------------------------------------------------------


def _summary(run: Run) -> str:
    score = estimate_text(_main_estimate(run))
    data = "" if run.tier == "real" else ", sample rows"
    found = f"{metric_title(run.main_metric)} {score or MISSING}"
    return f"{run.model} on {run.benchmark}, {run.status}, {run.n:,} instances{data}, {found}"


def _runs_summary(runs: Sequence[Run]) -> str:
    models, benchmarks = ({getattr(run, name) for run in runs} for name in ("model", "benchmark"))
    return f"{plural(len(runs), 'run')} of {plural(len(models), 'model')} on {plural(len(benchmarks), 'benchmark')}"


def _run_columns(runs: Iterable[Run], by: str) -> Columns:
    """Return one row per run, metric and rule."""
    rows = [
        {
            **select(run, "benchmark model tier status"),
            "metric": metric,
            "scoring": rule,
            "is_main": metric == run.main_metric,
            **select(found, "value low high n n_failed method", rounded=True),
            **select(run, "cost_usd seconds started id", rounded=True),
        }
        for run in runs
        for rule, by_metric in run.estimates.items()
        for metric, found in by_metric.items()
    ]
    return records_as_columns(rows, by)


def _evaluation_summary(done: Any) -> str:
    stopped = f", stopped early: {done.stopped}" if done.stopped else ""
    sent = plural(done.requests_sent, "request")
    return f"{_runs_summary(done.runs)}, {sent} sent, {done.cost_usd:.4f} USD spent{stopped}"


RUN_VIEW: ObjectView[Run] = ObjectView(
    summary=_summary,
    table=lambda run, format: _table([run], "corrected", format),
    as_json=lambda run: _run_json(run, "corrected"),
    columns=lambda run, by: _run_columns([run], by),
    remarks=lambda run: _notes([run]),
)
"""A run in Python."""

RUNS_VIEW: ObjectView[Sequence[Run]] = ObjectView(
    summary=_runs_summary,
    table=lambda runs, format: _table(runs, "corrected", format),
    as_json=lambda runs: {"runs": [_run_json(run, "corrected") for run in runs]},
    columns=_run_columns,
    remarks=_notes,
)
"""Runs of a store in Python."""

EVALUATION_VIEW: ObjectView[Any] = ObjectView(  # an `Evaluation`, a class of a layer above
    summary=_evaluation_summary,
    table=lambda done, format: _table(done.runs, "corrected", format),
    as_json=lambda done: runs_as_json(done.runs, "corrected", cost_usd=done.cost_usd, seconds=done.seconds),
    columns=lambda done, by: _run_columns(done.runs, by),
    remarks=lambda done: [*_notes(done.runs), *done.messages],
)
"""An evaluation in Python."""


# --- batches ----------------------------------------------------------------------------------------------------------


def batches_as_json(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """Return the output of `medhelm batches --json`; `batch` is null while its id at the provider is unknown."""
    return [
        {
            **select(batch, "provider model role requests=n"),
            "handed_over": datetime.fromtimestamp(batch.created, UTC).isoformat(timespec="seconds"),
            "state": batch.state,
            "batch": batch.remote_id or None,
        }
        for batch in batches
    ]


def batches_table(batches: Sequence[Batch], format: str = "table") -> str:
    """Return one row per batch, oldest first."""
    headers = ["provider", "model", "role", "requests", "submitted", "state", "batch"]
    rows = [list(row.values()) for row in batches_as_json(batches)]
    return tables.render(rows, headers, format=format)
