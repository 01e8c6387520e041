"""Runs as a table and as JSON, and one instance with all its completions as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from medhelm.domain import RULES, JuryResult, Rule, Run
from medhelm.domain.text import plural
from medhelm.reports import tables
from medhelm.reports.json_output import plain_json, select
from medhelm.reports.tables import decimal, estimate_text, printable


def as_json(runs: Sequence[Run], rule: Rule, *, cost_usd: float, seconds: float) -> dict[str, Any]:
    """Return the output of `medhelm run --json`."""
    return {
        "runs": [_run_json(run, rule) for run in runs],
        "requests_sent": sum(run.requests_sent + _to_judges(run) for run in runs),
        "cost_usd": cost_usd,
        "seconds": seconds,
        "scoring": rule,
    }


def _run_json(run: Run, rule: Rule) -> dict[str, Any]:
    names = (
        "benchmark model tier status message n n_failed failures requests_sent requests_cached n_shortened=n_truncated "
        "left_out_characters=truncated_characters snapshots fingerprints refused_parts=refused_parameters tokens=usage "
        "cost_usd seconds"
    )
    return {
        **select(run, names),
        "metrics": plain_json(run.estimates[rule])
        | {name: _no_number(run, reason) for name, reason in run.not_computed.items()},
        **select(run, "metrics_by_rule=estimates groups main_metric"),
        "jury": _jury_json(run.jury_result) if run.jury_result else None,
        "run_dir": str(run.folder) if run.folder else None,
    }


def _to_judges(run: Run) -> int:
    """Return the number of requests sent to judges."""
    return sum(tally.requests_sent for tally in run.jury_result.tallies.values()) if run.jury_result else 0


def _jury_json(result: JuryResult) -> dict[str, Any]:
    """Return the judgments of a run."""
    names = "expected failed failures requests_sent requests_cached tokens=usage cost_usd"
    return {
        "judges": {name: select(tally, names) for name, tally in result.tallies.items()},
        "at_least": result.jury.min_judges,
        "scale": [result.low, result.high],
        **select(result, "coverage n_blank n_below_floor=n_too_few_judges n_suspicious=n_with_injection_signs"),
        "labels": plain_json(result.subscores),
    }


def _no_number(run: Run, reason: str) -> dict[str, Any]:
    """Return an entry for a metric that could not be computed."""
    return {"value": None, "low": None, "high": None, "n": 0, "n_failed": run.n, "method": "", "not_computed": reason}


def to_table(runs: Sequence[Run], rule: Rule) -> str:
    """Return one line per run, with the main metric under both rules, and notes below the table.

    The chosen rule comes first and with its interval. The notes list truncated prompts, unsupported parameters, the
    work of juries, and metrics that could not be computed.
    """
    other: Rule = "published" if rule == "corrected" else "corrected"
    headers = ["benchmark", "model", "status", "n", "failed", "metric", rule, other, "sent", "cached", "cost USD"]
    rows = [
        [
            run.benchmark,
            run.model,
            run.status,
            str(run.n),
            _failures(run),
            run.main_metric,
            estimate_text(run.estimates[rule].get(run.main_metric)) or "-",
            decimal(run.estimates[other][run.main_metric].value) if run.main_metric in run.estimates[other] else "-",
            str(run.requests_sent),
            str(run.requests_cached),
            "?" if run.cost_usd is None else f"{run.cost_usd:.4f}",
        ]
        for run in runs
    ]
    table = tables.render(rows, headers, format="table")
    return "\n".join([table, *_shortened(runs), *_refused(runs), *_juries(runs), *_not_computed(runs)])


def _shortened(runs: Sequence[Run]) -> list[str]:
    """Return a line per run with truncated prompts."""
    return [
        f"- truncated, {run.benchmark} with {run.model}: {run.n_truncated:,} of {run.n:,} prompts, by "
        f"{run.truncated_characters / run.n_truncated:,.0f} characters on average"
        for run in runs
        if run.n_truncated
    ]


def _refused(runs: Sequence[Run]) -> list[str]:
    """Return a line per model or judge whose server refuses parts of a request."""
    by_name: dict[str, Counter[str]] = {}
    for run in runs:
        by_name.setdefault(run.model, Counter()).update(run.refused_parameters)
        for judge, tally in (run.jury_result.tallies if run.jury_result else {}).items():
            by_name.setdefault(judge, Counter()).update(tally.refused_parameters)
    return [
        f"- not supported by the server of {name}: {', '.join(f'{part} ({n:,})' for part, n in found.items())}"
        for name, found in by_name.items()
        if found
    ]


def _juries(runs: Sequence[Run]) -> list[str]:
    """Return lines on each jury: judgments, failures, requests, cost and scores on parts of the rubric."""
    lines = []
    for run in runs:
        if (result := run.jury_result) is None:
            continue
        tallies = result.tallies.values()
        costs = [tally.cost_usd for tally in tallies]
        known = None if None in costs else sum(cost or 0.0 for cost in costs)
        parts = [f"{sum(t.expected for t in tallies)} judgments of {len(result.jury.judges)} judges"]
        failures = sum((Counter(tally.failures) for tally in tallies), Counter[str]())
        if failures:
            kinds = ", ".join(f"{code} {count}" for code, count in failures.most_common())
            parts.append(f"{failures.total()} missing ({kinds})")
        counted = {"without a score for it": result.n_too_few_judges, "blank": result.n_blank}
        counted |= {"with signs of prompt injection": result.n_with_injection_signs}
        parts += [f"{plural(n, 'completion')} {what}" for what, n in counted.items() if n]
        parts.append(f"{sum(t.requests_sent for t in tallies)} sent, {sum(t.requests_cached for t in tallies)} cached")
        parts.append("cost ?" if known is None else f"{known:.4f} USD")
        lines.append(f"- jury, {run.benchmark} with {run.model}: {'; '.join(parts)}")
        if result.subscores:
            lines.append(f"  {', '.join(f'{label} {mean.value:.2f}' for label, mean in result.subscores.items())}")
    return lines


def _not_computed(runs: Sequence[Run]) -> list[str]:
    """Return a line per reason why metrics could not be computed."""
    lacking: dict[str, tuple[set[str], set[str]]] = {}
    for run in runs:
        for metric, reason in run.not_computed.items():
            metrics, benchmarks = lacking.setdefault(reason, (set(), set()))
            metrics.add(metric)
            benchmarks.add(run.benchmark)
    return [
        f"- not computed: {', '.join(sorted(metrics))} on {plural(len(benchmarks), 'benchmark')}: {reason}"
        for reason, (metrics, benchmarks) in lacking.items()
    ]


def _failures(run: Run) -> str:
    kinds = ", ".join(f"{code} {count}" for code, count in run.failures.items())
    return f"{run.n_failed} ({kinds})" if kinds else str(run.n_failed)


# --- one instance -----------------------------------------------------------------------------------------------------


def case_to_text(case: Mapping[str, Any], rule: Rule) -> str:
    """Return a case of `results.leaderboard.find_instance` as text; scores of `rule` come first."""
    parts = [f"{case['benchmark']} / {case['instance_id']}"]
    if "messages" not in case:
        parts.append("(the prompt is not stored; `medhelm benchmarks preview` renders prompts from the data)")
    for message in case.get("messages", ()):
        parts.append(f"--- {message['role']}\n{printable(message['content'])}")
    for reference in case.get("references", ()):
        parts.append(
            f"--- {'correct' if reference['correct'] else 'incorrect'} reference\n{printable(reference['text'])}"
        )
    parts += [_completion(record, rule) for record in case["completions"]]
    return "\n\n".join(parts)


def _completion(record: Mapping[str, Any], rule: Rule) -> str:
    rules = sorted(RULES, key=lambda r: r != rule)
    scores = [
        f"{key.removesuffix(f'_{r}')} ({r}) {value:g}"
        for r in rules
        for key, value in record.items()
        if key.endswith(f"_{r}") and isinstance(value, float)
    ]
    if record["completion"] is None:
        text = f"no completion: {record['failure_code']} ({record['failure_boundary']}): {record['failure_message']}"
    else:
        text = printable(record["completion"]) or "(empty)"
    tier = "" if record["tier"] == "real" else f" ({record['tier']} rows)"
    tokens = f"{record['input_tokens']} + {record['output_tokens']} tokens, {record['latency_s']:.2f} s"
    if record.get("left_out"):
        scores.append(f"prompt truncated by {record['left_out']:,} characters")
    if record.get("suspicions"):
        scores.append(f"signs of prompt injection: {record['suspicions']}")
    lines = [f"=== {record['model']}{tier}", printable(text), f"[{'; '.join([*scores, tokens])}]"]
    return "\n".join([*lines, *(_judgment(judgment) for judgment in record.get("judgments", ()))])


def _judgment(judgment: Mapping[str, Any]) -> str:
    """Return one line: judge, criterion, grade and explanation."""
    head = f"  {judgment['judge']}, {printable(judgment['criterion'])}: "
    if judgment["score"] is None:
        return head + f"no judgment: {judgment['failure_code']}: {printable(judgment['failure_message'] or '')}"
    return head + f"{judgment['score']:g}  {printable(judgment['explanation'] or '')}".rstrip()
