"""Quality of judges as JSON (`as_json`) and as tables (`to_text`).

JSON of `medhelm jury --json`:

    benchmarks   ID -> numbers on it
    overall      the same over all benchmarks: means over benchmarks with equal weights
    families     judge or model -> its family
    verdict      sentences: whether the jury can be trusted to rank models
    prompt_injection   [{model, benchmark, n, n_suspicious, mean, mean_without}]: completions with signs of a prompt
                 injection, and the mean jury score with and without them
    warnings     sentences
    tier, scoring

    numbers:
      title, models, n_instances, n_completions
      rubric     name of the rubric, `standard` or `extended`; empty if the benchmark has one only
      scale      {low, high, form}: all grades are oriented so that `high` is good
      judges     NAME -> a judge's numbers
      agreement  a list of {on, n, level, icc_2_1, icc_3_k, weighted_kappa, alpha}; `on` is a criterion, `score` (each
                 judge's score of a completion), or `met` (criteria met or not met); `level` is how alpha counts
                 distances: nominal, ordinal or interval
      one_judge  {value, low, high, n}: ICC(3,1) of scores with the interval that the verdict goes by; null over all
      best, worst   share of the best and of the worst grade, 0..1
      length     {basis, slope, spearman} of the jury's score
      ranking    {pairs, pairs_told_apart, panels: [{name, judges, models: [{model, rank, value}], tau, swaps: [{better,
                 worse, told_apart}]}]} or null; `better` is the one that the whole jury ranks first
      without_named   {judges, one_judge_of_all, one_judge, pairs, pairs_told_apart, models: [{model, rank, value}],
                 reordered: [[MODEL, MODEL]]}: the jury without judges whose `finding` is guesses, constant or against:
                 agreement before and after as {value, low, high, n}, and pairs of models in another order than with
                 all judges, the one that now ranks higher first; null if there are no such judges

    a judge's numbers:
      family, own_models
      judgments  {expected, present, failed, failures: CODE -> count}
      tokens     {input, cached_input, output, reasoning, cache_write}; cost_usd
      mean, sd, best, worst
      harshness  mean of the other judges minus its own grade, on the same completions and criteria
      self_preference   see `analysis.jury.bias.self_preference`
      length     {basis, slope, against_others, spearman}: grades for a doubling of length
      agreement_with_others   correlation of its scores with the mean of the other judges'
      finding    agrees, guesses, constant, against, or unknown; see `analysis.jury.reliability`

A number with a 95% interval is {value, low, high, n, method}. `low` and `high` are null without an interval, and the
whole is null without a number. `method` names the method of the interval: see `NOTES`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from medhelm.domain import Estimate
from medhelm.domain.failure_code import explain_codes
from medhelm.domain.text import listed
from medhelm.reports.formats.json_output import estimate_json, injection_effects_json, plain_json, select
from medhelm.reports.formats.tables import (
    Value,
    counts_text,
    data_text,
    decimal,
    estimate_numbers,
    estimate_text,
    number,
    printable,
    render,
    score_decimals,
)

if TYPE_CHECKING:
    from medhelm.analysis.agreement.reliability import RaterAgreement
    from medhelm.analysis.jury.bias import LengthBias
    from medhelm.analysis.jury.judges import JudgeAgreement, JudgeSummary, JuryAnalysis, JurySummary
    from medhelm.analysis.jury.ranking import JudgePanelRanking, JuryWithoutNamed, Ranking
    from medhelm.domain import JudgeTally


def as_json(analysis: JuryAnalysis) -> dict[str, Any]:
    """Return the output of `medhelm jury --json`; undefined numbers are None."""
    return {
        "verdict": list(analysis.verdict),
        "benchmarks": {own.benchmark: _summary_json(own) for own in analysis.benchmarks},
        "overall": _summary_json(analysis.overall),
        "families": dict(analysis.families),
        "prompt_injection": injection_effects_json(analysis.injection_effects),
        "warnings": [remark.text for remark in analysis.remarks],
        "tier": analysis.tier,
        "scoring": analysis.scoring,
    }


def interval(estimate: Estimate | None) -> dict[str, Any] | None:
    """Return a number with its interval."""
    return estimate_json(estimate, "value low high n method")


def _summary_json(own: JurySummary) -> dict[str, Any]:
    """A jury on one benchmark, or over all."""
    return {
        **select(own, "title rubric models n_instances n_completions"),
        "scale": select(own, "low high form"),
        "judges": {judge.judge: _judge_json(judge) for judge in own.judges},
        "agreement": [_agreement_json(part) for part in own.agreement],
        "one_judge": estimate_json(own.one_judge, "value low high n"),
        "best": interval(own.best),
        "worst": interval(own.worst),
        "length": _length_json(own.length),
        "ranking": _ranking_json(own.ranking),
        "without_named": _without_named_json(own.without_named),
    }


JUDGE_NUMBERS = {"best": "best", "worst": "worst", "harshness": "severity", "self_preference": "self_preference"}
"""Number of a judge in JSON and CSV -> its field."""

LENGTH_NUMBERS = {"slope": "slope", "against_others": "relative_to_others", "spearman": "spearman"}
"""Number on the length of completions in JSON and CSV -> its field."""


def _judge_json(judge: JudgeSummary) -> dict[str, Any]:
    """One judge."""
    return {
        "family": judge.family,
        "own_models": list(judge.own_models),
        "judgments": _judgments_json(judge.tally),
        **select(judge.tally, "tokens=usage cost_usd", rounded=True),
        "mean": interval(judge.mean),
        "sd": number(judge.sd),
        **{name: interval(getattr(judge, field)) for name, field in JUDGE_NUMBERS.items()},
        "length": _length_json(judge.length),
        "agreement_with_others": interval(_as_estimate(judge.agreement)),
        "finding": str(judge.finding),
    }


def _judgments_json(tally: JudgeTally) -> dict[str, Any]:
    """Return the counts of a judge's judgments."""
    return {
        "expected": tally.expected,
        "present": tally.expected - tally.failed,
        **select(tally, "failed failures"),
    }


def _agreement_json(part: JudgeAgreement) -> dict[str, Any]:
    """Coefficients on one criterion, or on scores."""
    return {
        **select(part, "on n level"),
        "icc_2_1": interval(part.icc_2_1),
        "icc_3_k": interval(part.icc_3_k),
        "weighted_kappa": interval(part.kappa),
        "alpha": interval(part.alpha),
    }


def _length_json(length: LengthBias | None) -> dict[str, Any] | None:
    """Return the relation of grades to length."""
    if length is None:
        return None
    numbers = {name: interval(getattr(length, field)) for name, field in LENGTH_NUMBERS.items()}
    return {"basis": length.basis, **numbers}


def _ranking_json(ranking: Ranking | None) -> dict[str, Any] | None:
    """Return the rankings by the whole jury and by parts of it."""
    if ranking is None:
        return None
    return {
        "pairs": ranking.n_pairs,
        "pairs_told_apart": ranking.n_significant,
        "panels": [_panel_json(panel) for panel in ranking.panels],
    }


def _models_json(panel: JudgePanelRanking) -> list[dict[str, Any]]:
    """Models in order of rank."""
    rows = zip(panel.models, panel.ranks, panel.values, strict=True)
    return [{"model": model, "rank": rank, "value": number(value)} for model, rank, value in rows]


def _without_named_json(found: JuryWithoutNamed | None) -> dict[str, Any] | None:
    """Return the jury without the judges that are named."""
    if found is None:
        return None
    return {
        "judges": list(found.judges),
        "one_judge_of_all": estimate_json(found.one_judge_of_all, "value low high n"),
        "one_judge": estimate_json(found.one_judge, "value low high n"),
        "pairs": found.ranking.n_pairs if found.ranking else None,
        "pairs_told_apart": found.ranking.n_significant if found.ranking else None,
        "models": _models_json(found.ranking.panels[0]) if found.ranking else [],
        "reordered": [list(pair) for pair in found.reordered],
    }


def _as_estimate(found: RaterAgreement | None) -> Estimate | None:
    """Return an agreement as an estimate; infinite ends where it has no interval."""
    if found is None or found.value is None:
        return None
    low, high = (-math.inf, math.inf) if found.low is None or found.high is None else (found.low, found.high)
    return Estimate(value=found.value, low=low, high=high, n=found.n, method="jackknife")


def _panel_json(panel: JudgePanelRanking) -> dict[str, Any]:
    """One ranking."""
    return {
        "name": panel.name,
        "judges": list(panel.judges),
        "models": _models_json(panel),
        "tau": number(panel.tau),
        "swaps": plain_json(panel.swaps),
    }


# --- tables -----------------------------------------------------------------------------------------------------------

NAMES = 2
"""Most names in one cell."""

WHOLE_JURY = "all judges"
"""Name of the whole jury in a column of judges."""

NOTES = {
    "judges": (
        "Agreement: correlation of the judge's scores with the mean of the other judges'; 0 for a judge who guesses.",
        "Harsher: by how many grades it grades lower than the others do. Favors its family: by how many grades more.",
        "Effect on the ranking: pairs of models in another order without the judge. `--wide` shows which, and more.",
    ),
    "work": ("Missing judgments are excluded from all numbers. Tokens and cost include unreadable judgments.",),
    "grades": (
        "High grades are good. Best and worst grade: share of grades at either end of the scale.",
        "Harsher than other judges: their mean minus this judge's grade, on the same completions and criteria.",
    ),
    "family": (
        "Favors its family: judge minus other judges on models of its family, minus the same on other models.",
        "Completions of one instance are compared; the other judges' preferences for their own families are removed.",
    ),
    "length": (
        "Twice as long: difference in grade for a completion of twice the length, which can be justified.",
        "Reacts more to length: more than the others do, on the same completions. This can be bias, or the others do",
        "not look closely.",
        "Completions of several models for one instance are compared; with a star, of one model over all instances.",
    ),
    "agreement": (
        "ICC(2,1): absolute agreement of one judge with another. ICC(3,k): consistency of the mean of all judges.",
        "Kappa: mean over pairs of judges, quadratic weights (none for met or not met). Alpha: Krippendorff's.",
        "1 is full agreement, 0 agreement by chance. If nearly all grades are equal, all coefficients are small.",
    ),
    "ranking": (
        "Tau: 1 for the order of the whole jury, -1 for its reverse. (!): the whole jury separates the two.",
        "Significant: by the paired test of the leaderboard, adjusted for all pairs of models (Holm).",
    ),
    "short": ("Brackets: 95% intervals.",),
    "all": (
        "Brackets: 95% intervals by bootstrap over instances, or over patients or notes with several; shares: Wilson.",
        "All benchmarks: the mean over benchmarks with equal weights; models by macro average, as on the leaderboard.",
    ),
}
"""Table -> its explanation, in lines."""


LEAST_IMPORTANT = {
    "judges": ("Harsher than the others", "Favors its family"),
    "work": ("Why missing", "Output tokens", "Input tokens"),
    "grades": ("SD", "Scale", "Worst grade", "Best grade"),
    "family": ("Models of its family",),
    "length": ("Rank correlation",),
    "agreement": ("Alpha", "Weighted kappa", "Grades compared"),
    "ranking": ("Pairs in another order",),
}
"""Table -> columns that a narrow terminal leaves out, the first one first."""


def to_text(analysis: JuryAnalysis, format: str = "table", *, wide: bool = False) -> str:
    """Return a table with a row for each judge, and an explanation; CSV has every number with an interval.

    Parameters: format, see `tables.render`; wide, True for the tables of all numbers as well.
    """
    if format == "csv":
        return _csv(analysis, format)
    blocks = []
    for name, caption, headers, rows in _tables(analysis, wide=wide):
        explained = [*NOTES[name], *(_missing(analysis) if name == "judges" else ())]
        below = "" if format == "latex" else "\n" + "\n".join(f"- {note}" for note in explained) + "\n"
        drop = LEAST_IMPORTANT[name]
        blocks.append(render(rows, headers, format=format, caption=caption, keep=2, drop=drop) + below)
    if format != "latex":
        notes = NOTES["all"] if wide else NOTES["short"] + NOTES["all"][1:] * (len(analysis.benchmarks) > 1)
        blocks.append("\n".join(f"- {note}" for note in [*_rubrics(analysis), *notes]) + "\n")
    return "\n".join(blocks)


def _missing(analysis: JuryAnalysis) -> list[str]:
    """Return notes on missing judgments, and what their codes mean."""
    found = [
        f"{printable(judge.judge)}: {judge.tally.failed} of {judge.tally.expected} judgments are missing "
        f"({counts_text(judge.tally.failures)})."
        for judge in analysis.overall.judges
        if judge.tally.failed
    ]
    meaning = explain_codes(dict.fromkeys(code for judge in analysis.overall.judges for code in judge.tally.failures))
    return [*found, meaning] if meaning else found


def _rubrics(analysis: JuryAnalysis) -> Iterator[str]:
    """Yield a note for each named rubric, with the benchmarks that were graded by it."""
    for name in sorted({own.rubric for own in analysis.benchmarks} - {""}):
        titles = listed([printable(own.title) for own in analysis.benchmarks if own.rubric == name])
        yield f"Graded by the {name} rubric: {titles}."


Rows = list[list[Value]]
"""Rows of a table."""

Table = tuple[list[str], Rows]
"""Headings and rows, with the name of a benchmark in the first column."""


def _tables(analysis: JuryAnalysis, *, wide: bool) -> Iterator[tuple[str, str, list[str], Rows]]:
    """Name, caption, headings and rows of each table that has rows."""
    shown = [*analysis.benchmarks, *([analysis.overall] if len(analysis.benchmarks) > 1 else [])]
    of_judges = ("judges", f"Judges, {data_text(analysis.tier)}, {analysis.scoring} scoring", _judges_table(shown))
    everything = [of_judges, *_wide_tables(analysis, shown)] if wide else [of_judges]
    for name, caption, (headers, rows) in everything:
        if rows:
            yield name, caption, headers, _without_repeated_names(rows)


def _wide_tables(analysis: JuryAnalysis, shown: Sequence[JurySummary]) -> tuple[tuple[str, str, Table], ...]:
    """Name, caption and content of each table of all numbers."""
    return (
        ("work", f"Work of the judges, {data_text(analysis.tier)}", _work_table(shown)),
        ("grades", "Grades of the judges", _grades_table(shown)),
        ("family", "Self-preference: bias for models of the judge's own family, in grades", _family_table(shown)),
        ("length", "Length bias: effect of the length of a completion, in grades", _length_table(shown)),
        ("agreement", "Agreement between judges", _agreement_table(shown)),
        (
            "ranking",
            f"Influence of each judge on the ranking, {analysis.scoring} scoring",
            _ranking_table(shown),
        ),
    )


def _without_repeated_names(rows: Rows) -> Rows:
    """Return the rows with the name of a benchmark in its first row only."""
    above = [None, *(row[0] for row in rows)]
    return [["" if row[0] == name else row[0], *row[1:]] for name, row in zip(above, rows, strict=False)]


def _judges_table(shown: Sequence[JurySummary]) -> Table:
    """Return one row for each judge: agreement, severity, self-preference and effect on the ranking."""
    headers = ["Benchmark", "Judge", "Agreement with the others", "Harsher than the others", "Favors its family"]
    headers.append("Effect on the ranking")
    rows: Rows = []
    for own in shown:
        for judge in own.judges:
            places = score_decimals(own)
            numbers = [_estimate_cell(one, places) for one in (judge.severity, judge.self_preference)]
            agreement = _estimate_cell(_as_estimate(judge.agreement), 2)
            rows.append([own.title, judge.judge, agreement, *numbers, _effect_text(own.ranking, judge.judge)])
    return headers, rows


def _effect_text(ranking: Ranking | None, judge: str) -> str | None:
    """Return how the order of models changes without a judge; None where that is unknown."""
    if ranking is None or judge not in ranking.panels[0].judges:
        return None
    rest = tuple(name for name in ranking.panels[0].judges if name != judge)
    without = next((panel for panel in ranking.panels[1:] if panel.judges == rest), None)
    if without is None:
        return None
    clear = sum(swap.is_significant for swap in without.swaps)
    significant = f", {clear} significant" if clear else ""
    return f"{len(without.swaps)} of {ranking.n_pairs} pairs swap{significant}" if without.swaps else "none"


def _work_table(shown: Sequence[JurySummary]) -> Table:
    """Return judgments, failures, tokens and costs of each judge."""
    headers = ["Benchmark", "Judge", "Judgments", "Missing", "Why missing", "Input tokens", "Output tokens", "Cost USD"]
    rows: Rows = []
    for own in shown:
        for judge in own.judges:
            tally, usage = judge.tally, judge.tally.usage
            share = f"{tally.failed} ({_percent(tally.failed / tally.expected)})" if tally.failed else "0"
            work: list[Value] = [
                tally.expected - tally.failed,
                share,
                counts_text(tally.failures) or None,
                usage.input,
                usage.output,
            ]
            rows.append([own.title, judge.judge, *work, decimal(tally.cost_usd, 4)])
    return headers, rows


def _grades_table(shown: Sequence[JurySummary]) -> Table:
    """Return mean, spread and severity of each judge's grades."""
    headers = ["Benchmark", "Judge", "Scale", "Mean grade", "SD", "Best grade", "Worst grade"]
    headers.append("Harsher than other judges")
    rows: Rows = []
    for own in shown:
        scale = f"{own.low:g} to {own.high:g}"
        rows += [
            [
                own.title,
                judge.judge,
                scale,
                _estimate_cell(judge.mean, score_decimals(own)),
                decimal(judge.sd, 2),
                _share_text(judge.best),
                _share_text(judge.worst),
                _estimate_cell(judge.severity, score_decimals(own)),
            ]
            for judge in own.judges
        ]
        rows.append([own.title, WHOLE_JURY, scale, None, None, _share_text(own.best), _share_text(own.worst), None])
    return headers, rows


def _family_table(shown: Sequence[JurySummary]) -> Table:
    """Return the self-preference of each judge."""
    headers = ["Benchmark", "Judge", "Family", "Models of its family", "Favors its family"]
    rows: Rows = []
    for own in shown:
        for judge in own.judges:
            models = listed(judge.own_models, NAMES) or "none"
            rows.append(
                [
                    own.title,
                    judge.judge,
                    judge.family,
                    models,
                    _estimate_cell(judge.self_preference, score_decimals(own)),
                ]
            )
    return headers, rows


def _length_table(shown: Sequence[JurySummary]) -> Table:
    """Return the length bias of each judge."""
    headers = ["Benchmark", "Judge", "Twice as long", "Reacts more to length", "Rank correlation"]
    rows: Rows = []
    for own in shown:
        everybody = [(judge.judge, judge.length) for judge in own.judges] + [(WHOLE_JURY, own.length)]
        for name, length in everybody:
            if length is None:
                continue
            star = " *" if length.basis == "across instances" else ""
            slopes = [
                _estimate_cell(length.slope, score_decimals(own), star),
                _estimate_cell(length.relative_to_others, score_decimals(own)),
            ]
            rows.append([own.title, name, *slopes, _estimate_cell(length.spearman, 2)])
    return headers, rows


def _agreement_table(shown: Sequence[JurySummary]) -> Table:
    """Return coefficients of agreement."""
    headers = ["Benchmark", "On", "Grades compared", "ICC(2,1)", "ICC(3,k)", "Weighted kappa", "Alpha"]
    rows: Rows = [
        [
            own.title,
            part.on,
            part.n,
            *(_estimate_cell(found, 2) for found in (part.icc_2_1, part.icc_3_k, part.kappa)),
            f"{_estimate_cell(part.alpha, 2)} {part.level}" if part.alpha else None,
        ]
        for own in shown
        for part in own.agreement
    ]
    return headers, rows


def _ranking_table(shown: Sequence[JurySummary]) -> Table:
    """Return the rankings by parts of the jury."""
    headers = ["Benchmark", "Ranked by", "Tau", "Pairs in another order", "Change"]
    rows: Rows = []
    for own in shown:
        if own.ranking is None:
            continue
        apart = f"{own.ranking.n_significant} of {own.ranking.n_pairs} pairs differ significantly"
        for place, panel in enumerate(own.ranking.panels):
            what = _swap_text(panel) if place else apart
            rows.append([own.title, panel.name, decimal(panel.tau, 2), len(panel.swaps), what])
    return headers, rows


def _swap_text(panel: JudgePanelRanking) -> str | None:
    """Return the most important change of order as text."""
    if not panel.swaps:
        return None
    first = max(panel.swaps, key=lambda swap: swap.is_significant)
    more = f", {len(panel.swaps) - 1} more" if len(panel.swaps) > 1 else ""
    return f"{first.worse} over {first.better}{' (!)' if first.is_significant else ''}{more}"


# --- cells ------------------------------------------------------------------------------------------------------------


def _estimate_cell(estimate: Estimate | None, places: int, mark: str = "") -> str | None:
    """Return a number with its interval, if it has one."""
    return None if estimate is None else f"{estimate_text(estimate, places)}{mark}"


def _share_text(estimate: Estimate | None) -> str | None:
    """Return a share in percent."""
    return None if estimate is None else _percent(estimate.value)


def _percent(share: float) -> str:
    return f"{share:.1%}"


# --- CSV --------------------------------------------------------------------------------------------------------------


def _csv(analysis: JuryAnalysis, format: str) -> str:
    """Return one row per number with an interval; `benchmark` is empty for all benchmarks together."""
    headers = ["benchmark", "statistic", "judge", "on", "value", "low", "high", "n", "method", "scoring", "tier"]
    rows: list[list[Value]] = []
    for own in (*analysis.benchmarks, analysis.overall):
        for statistic, judge, on, found in _csv_numbers(own):
            if found is not None:
                end: list[Value] = [found.n, found.method, analysis.scoring, analysis.tier]
                rows.append([own.benchmark, statistic, judge, on, *estimate_numbers(found), *end])
    return render(rows, headers, format=format)


def _csv_numbers(own: JurySummary) -> Iterator[tuple[str, str, str, Estimate | None]]:
    """Yield statistic, judge, subject and number."""
    for judge in own.judges:
        yield "agreement_with_others", judge.judge, "", _as_estimate(judge.agreement)
        yield "mean", judge.judge, "", judge.mean
        for name, field in JUDGE_NUMBERS.items():
            on = judge.family if name == "self_preference" else ""
            yield name, judge.judge, on, getattr(judge, field)
        yield from _length_numbers(judge.judge, judge.length)
    yield from _length_numbers("", own.length)
    yield "best", "", "", own.best
    yield "worst", "", "", own.worst
    for part in own.agreement:
        yield from ((key, "", part.on, getattr(part, key)) for key in ("icc_2_1", "icc_3_k", "kappa", "alpha"))


def _length_numbers(judge: str, length: LengthBias | None) -> Iterator[tuple[str, str, str, Estimate | None]]:
    """Yield the numbers on the length of completions, of a judge or of the whole jury."""
    if length:
        for name, field in LENGTH_NUMBERS.items():
            yield f"length_{name}", judge, length.basis, getattr(length, field)
