"""Findings about a jury: figures over several benchmarks, remarks and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from medhelm.analysis.agreement.reliability import LEAST_UNITS, RaterAgreement
from medhelm.analysis.comparison.pairs import separated_matrix
from medhelm.analysis.jury.cells import (
    ALL_JUDGES,
    JuryWithoutNamed,
    Ranking,
    average_by_panel,
    average_estimates,
    judge_panels,
    judge_scores,
    rank_by_panel,
    shared_judges,
)
from medhelm.analysis.jury.judges import (
    JudgedBenchmark,
    JudgeFinding,
    JudgeReliability,
    JudgeScores,
    JudgeSummary,
    JuryReliability,
    JurySummary,
    LengthBias,
    align_panel,
    average_agreement,
    jury_reliability,
    stacked_scores,
    without_named,
)
from medhelm.analysis.leaderboard.findings import SAMPLE_ROWS, SAMPLE_TIER
from medhelm.analysis.means import row_means
from medhelm.domain import Estimate, JudgeTally, Tier, Usage
from medhelm.domain.completion import explain_codes
from medhelm.domain.result import Remark
from medhelm.domain.text import listed

# --- all benchmarks together ------------------------------------------------------------------------------------------
# Summaries over several benchmarks: means in which each benchmark counts once.


def summarize_benchmarks(benchmarks: Sequence[JudgedBenchmark], numbers: Sequence[JurySummary]) -> JurySummary:
    """Summarize all benchmarks together: in grades if all have one scale, else from 0 (worst) to 1 (best).

    Every number with an interval is the mean over the benchmarks that have it; as on the leaderboard, models are ranked
    by macro average, by those judges who judged all models on all benchmarks.

    Parameters: benchmarks and numbers, in the same order, at least one.
    """
    first = numbers[0]
    one_scale = all((own.low, own.high) == (first.low, first.high) for own in numbers)
    even = [own if one_scale else _on_unit_scale(own) for own in numbers]
    forms = {own.form for own in numbers}
    names = dict.fromkeys(judge.judge for own in numbers for judge in own.judges)
    reliability = jury_reliability(
        JudgeScores.stack([stacked_scores(b.cells, judge_scores(b.cells)) for b in benchmarks])
    )
    by_judge = {one.judge: one for one in reliability.judges}
    ranking = _rank_models(benchmarks)
    return JurySummary(
        benchmark="",
        title="All benchmarks",
        low=first.low if one_scale else 0.0,
        high=first.high if one_scale else 1.0,
        form=first.form if len(forms) == 1 else "mixed",
        rubric="",
        models=tuple(dict.fromkeys(model for own in numbers for model in own.models)),
        n_instances=sum(own.n_instances for own in numbers),
        n_completions=sum(own.n_completions for own in numbers),
        judges=tuple(
            _summarize_judge([judge for own in even for judge in own.judges if judge.judge == name], by_judge.get(name))
            for name in names
        ),
        one_judge=None,
        agreement=average_agreement([own.agreement for own in numbers]),
        best=average_estimates([own.best for own in numbers]),
        worst=average_estimates([own.worst for own in numbers]),
        length=_average_length_bias([own.length for own in even]),
        ranking=ranking,
        all_judges_shared=all(own.all_judges_shared and len(own.judges) == len(names) for own in numbers),
        without_named=without_named(reliability, ranking, lambda named: _rank_models(benchmarks, named)),
    )


def _summarize_judge(parts: Sequence[JudgeSummary], found: JudgeReliability | None) -> JudgeSummary:
    """Summarize one judge over the benchmarks it judged. `found`: its scores beside the others', over all of them."""
    spreads = [part.sd for part in parts if part.sd is not None]
    return JudgeSummary(
        judge=parts[0].judge,
        family=parts[0].family,
        tally=sum_tallies([part.tally for part in parts]),
        mean=average_estimates([part.mean for part in parts]),
        sd=float(np.mean(spreads)) if spreads else None,
        best=average_estimates([part.best for part in parts]),
        worst=average_estimates([part.worst for part in parts]),
        severity=average_estimates([part.severity for part in parts]),
        own_models=tuple(dict.fromkeys(model for part in parts for model in part.own_models)),
        self_preference=average_estimates([part.self_preference for part in parts]),
        length=_average_length_bias([part.length for part in parts]),
        agreement=found.agreement if found else None,
        finding=found.finding if found else JudgeFinding.UNKNOWN,
    )


def sum_tallies(tallies: Iterable[JudgeTally]) -> JudgeTally:
    """Sum the tallies of one judge; the cost is unknown if any of them is."""
    total = JudgeTally(usage=Usage(), cost_usd=0.0)
    for tally in tallies:
        codes = dict.fromkeys([*total.failures, *tally.failures])
        known = total.cost_usd is not None and tally.cost_usd is not None
        total = JudgeTally(
            expected=total.expected + tally.expected,
            failures={code: total.failures.get(code, 0) + tally.failures.get(code, 0) for code in codes},
            usage=total.usage + tally.usage,
            cost_usd=(total.cost_usd or 0.0) + (tally.cost_usd or 0.0) if known else None,
            requests_sent=total.requests_sent + tally.requests_sent,
            requests_cached=total.requests_cached + tally.requests_cached,
        )
    return total


def _average_length_bias(parts: Sequence[LengthBias | None]) -> LengthBias | None:
    """Average length bias over benchmarks: only those with the more frequent basis."""
    there = [part for part in parts if part is not None]
    if not there:
        return None
    within = [part for part in there if part.basis == "within instances"]
    used = within if 2 * len(within) >= len(there) else [part for part in there if part not in within]
    return LengthBias(
        basis=used[0].basis,
        slope=average_estimates([part.slope for part in used]),
        relative_to_others=average_estimates([part.relative_to_others for part in used]),
        spearman=average_estimates([part.spearman for part in used]),
    )


def _on_unit_scale(own: JurySummary) -> JurySummary:
    """Convert the numbers of a benchmark to a scale from 0 to 1."""
    span = own.high - own.low

    def length(part: LengthBias | None) -> LengthBias | None:
        return part and replace(
            part, slope=_scaled(part.slope, 0, span), relative_to_others=_scaled(part.relative_to_others, 0, span)
        )

    return replace(
        own,
        length=length(own.length),
        judges=tuple(
            replace(
                judge,
                mean=_scaled(judge.mean, own.low, span),
                sd=None if judge.sd is None else judge.sd / span,
                severity=_scaled(judge.severity, 0, span),
                self_preference=_scaled(judge.self_preference, 0, span),
                length=length(judge.length),
            )
            for judge in own.judges
        ),
    )


def _scaled(estimate: Estimate | None, start: float, span: float) -> Estimate | None:
    """Convert an estimate to another origin and unit."""
    if estimate is None:
        return None
    value, low, high = ((number - start) / span for number in (estimate.value, estimate.low, estimate.high))
    return replace(estimate, value=value, low=low, high=high)


def _rank_models(benchmarks: Sequence[JudgedBenchmark], left_out: Collection[str] = ()) -> Ranking | None:
    """Rank models by macro average over the benchmarks, with and without each judge that judged all of them.

    `left_out`: judges that do not count.
    """
    names = list(dict.fromkeys(model for benchmark in benchmarks for model in benchmark.cells.models))
    shared = [set(shared_judges(benchmark.cells)) for benchmark in benchmarks]
    judges = [
        judge for judge in benchmarks[0].cells.judges if all(judge in own for own in shared) and judge not in left_out
    ]
    if not judges:
        return None
    panels = judge_panels(judges)
    aligned = [
        {name: align_panel(benchmark, [judges[i] for i in panel], names) for name, panel in panels.items()}
        for benchmark in benchmarks
    ]
    means = [{name: row_means(own.scores) for name, own in found.items()} for found in aligned]
    return rank_by_panel(
        average_by_panel(means), judges, names, separated_matrix(names, [found[ALL_JUDGES] for found in aligned])
    )


# --- remarks ----------------------------------------------------------------------------------------------------------
# What limits the numbers of a jury, and which biases are significant.

MOSTLY_LENGTH = 0.7
"""Rank correlation with length from which the order of scores is mostly the order of lengths: half of its variance."""

SATURATED = 0.5
"""Share of grades at an end of the scale from which a benchmark is saturated: the median grade is then that end."""


def remarks(numbers: Sequence[JurySummary], overall: JurySummary, tier: Tier) -> Iterator[Remark]:
    """Yield remarks, the most limiting first.

    Parameters
    ----------
    numbers : sequence of JurySummary
        One for each benchmark.
    overall : JurySummary
        All benchmarks together.
    tier : Tier
        Real data or sample rows.
    """
    if tier == "sample":
        yield SAMPLE_TIER
    for own in numbers:
        yield from _panel(own)
    for own in numbers:
        yield from _saturation(own)
    for own in numbers:
        yield from _length(own)
    yield from _judges_to_leave_out(numbers[0] if len(numbers) == 1 else overall)
    if len(numbers) > 1:
        yield from _doubtful_judges(numbers, {judge.judge for judge in overall.named})
    yield from _self_preference(overall)
    for own in numbers:
        yield from _dependence(own)


def _panel(own: JurySummary) -> Iterator[Remark]:
    """Yield juries of one judge, judges without any judgment, and juries that differ between models."""
    if len(own.judges) == 1:
        text = f"{own.title} has one judge: agreement, severity and self-preference cannot be measured."
        yield Remark("one_judge", own.benchmark, text)
    for judge in own.judges:
        if judge.tally.expected and judge.tally.failed == judge.tally.expected:
            text = f"{judge.judge} gave no judgment on {own.title}: the jury there is smaller than configured."
            yield Remark("judge_without_judgments", judge.judge, text)
    if not own.all_judges_shared:
        text = f"Not all models on {own.title} had the same judges: only judges that graded every model rank them."
        yield Remark("judges_differ", own.benchmark, text)


def _saturation(own: JurySummary) -> Iterator[Remark]:
    """Yield benchmarks on which most grades are the best, or the worst, of the scale."""
    things = "grades" if own.form == "grades" else "scores"
    if own.best and own.best.value >= SATURATED:
        text = (
            f"{own.title}: {_percent(own.best.value)} of the {things} are the highest possible ({own.high:g}), so the "
            f"benchmark cannot separate good models from better ones.{_separated_nevertheless(own)}"
        )
        yield Remark("saturated_high", own.benchmark, text)
    if own.worst and own.worst.value >= SATURATED:
        text = (
            f"{own.title}: {_percent(own.worst.value)} of the {things} are the lowest possible ({own.low:g}), so the "
            f"benchmark cannot separate weak models.{_separated_nevertheless(own)}"
        )
        yield Remark("saturated_low", own.benchmark, text)


def _judges_to_leave_out(together: JurySummary) -> Iterator[Remark]:
    """Yield how to leave out judges whose scores say nothing, or the opposite."""
    for judge in together.named:
        text = f"`medhelm rescore --data DIR --without {judge.judge}` scores without it. Nothing is sent."
        yield Remark("judge_to_leave_out", judge.judge, f"{judge.judge} can be left out: {text}")


def _doubtful_judges(numbers: Sequence[JurySummary], named: Collection[str]) -> Iterator[Remark]:
    """Yield judges who seem to guess on one of several benchmarks, which chance may explain.

    `named`: judges whom the verdict names.
    """
    for own in numbers:
        for judge in own.judges:
            found = judge.agreement
            if judge.finding is JudgeFinding.GUESSES and judge.judge not in named and found and found.value is not None:
                text = (
                    f"On {own.title}, the correlation of {judge.judge} with the other judges is {found.value:.2f} "
                    f"[{found.low:.2f}, {found.high:.2f}], so agreement is not shown."
                )
                yield Remark("judge_may_guess", judge.judge, text)


def _length(own: JurySummary) -> Iterator[Remark]:
    """Yield a jury whose scores mostly follow the length of completions."""
    found = own.length and own.length.spearman
    if not found or max(found.low, -found.high) < MOSTLY_LENGTH:
        return
    longer = "longer" if found.value > 0 else "shorter"
    text = (
        f"{own.title}: the jury's scores follow the length of the completions (rank correlation {found.value:.2f} "
        f"[{found.low:.2f}, {found.high:.2f}]): {longer} ones get higher scores. This can be bias."
    )
    yield Remark("scores_follow_length", own.benchmark, text)


def _separated_nevertheless(own: JurySummary) -> str:
    """Return a sentence on the pairs of models that the jury separates nevertheless; none for judges by chance."""
    ranking = own.ranking
    if ranking is None or own.is_by_chance:
        return ""
    pairs = f"{ranking.n_pairs} pair{'s' if ranking.n_pairs != 1 else ''}"
    return f" Its jury separates {ranking.n_significant} of {pairs} of models."


def _self_preference(overall: JurySummary) -> Iterator[Remark]:
    """Yield judges that significantly favor models of their own family, or disfavor them."""
    for judge in overall.judges:
        found = judge.self_preference
        if found is None or found.low <= 0 <= found.high:
            continue
        higher = "higher" if found.value > 0 else "lower"
        ends = sorted(abs(end) for end in (found.low, found.high))
        text = (
            f"{judge.judge} grades models of its own family ({judge.family}) {abs(found.value):.2f} "
            f"[{ends[0]:.2f}, {ends[1]:.2f}] {higher} than the other judges do, relative to its usual severity."
        )
        yield Remark("self_preference", judge.judge, text)


def _dependence(own: JurySummary) -> Iterator[Remark]:
    """Yield judges without whom two models that the full jury separates change order."""
    if own.without_named and own.without_named.all_are_by_chance:
        return
    for panel in own.ranking.panels if own.ranking else ():
        clear = [swap for swap in panel.swaps if swap.is_significant]
        if clear and panel.name.startswith("without"):
            more = f" (and {len(clear) - 1} more such pairs)" if len(clear) > 1 else ""
            text = (
                f"{own.title}: {panel.name}, {clear[0].worse} ranks above {clear[0].better}{more}, although the full "
                "jury ranks them the other way by a significant difference."
            )
            yield Remark("ranking_depends_on_judge", own.benchmark, text)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


# --- verdict ----------------------------------------------------------------------------------------------------------
# A few sentences: which judges to leave out, and whether the scores can rank models.

NAMES = 5
"""Most benchmarks named in one sentence."""

NOT_CLINICIANS = (
    "Judges that agree with each other can still be wrong: `medhelm agreement` compares them with clinicians."
)

SURE = (JudgeFinding.CONSTANT, JudgeFinding.AGAINST)
"""Findings that the verdict names on one of several benchmarks: among many, one judge may seem to guess by chance."""


def verdict(benchmarks: Sequence[JurySummary], overall: JurySummary, tier: Tier) -> list[str]:
    """Return whether a jury can be trusted to rank models, as far as its own judgments show.

    Parameters: benchmarks, one summary each; overall, all benchmarks together; tier, real data or sample rows.
    """
    found = [] if tier == "real" else [SAMPLE_ROWS]
    judged = [own for own in benchmarks if any(judge.mean is not None for judge in own.judges)]
    found += _nothing_judged([own for own in benchmarks if own not in judged])
    if not judged:
        return found
    together = benchmarks[0] if len(benchmarks) == 1 else overall
    found += _named_judges(judged, together)
    found += _agreement(judged, together)
    if together.without_named is None and not any(own.is_by_chance for own in judged):
        found += _separated(together)
    return [*found, NOT_CLINICIANS]


def _nothing_judged(benchmarks: Sequence[JurySummary]) -> Iterator[str]:
    """Yield the benchmarks without any judgment, with the reasons."""
    if not benchmarks:
        return
    codes = Counter[str]()
    for judge in (judge for own in benchmarks for judge in own.judges):
        codes.update(judge.tally.failures)
    reasons = f" ({', '.join(f'{code} {n:,}' for code, n in codes.most_common())})" if codes else ""
    yield f"All judgments on {listed([own.title for own in benchmarks], NAMES)} are missing{reasons}."
    if meaning := explain_codes(code for code, _ in codes.most_common()):
        yield meaning


# --- verdict: single judges -------------------------------------------------------------------------------------------


def _named_judges(benchmarks: Sequence[JurySummary], together: JurySummary) -> Iterator[str]:
    """Yield a sentence on each judge whose scores say nothing, or the opposite, and what changes without them."""
    for judge in together.named:
        yield _finding_sentence(judge, "")
    names = {judge.judge for judge in together.named}
    for own in benchmarks if len(benchmarks) > 1 else ():
        for judge in own.named:
            if judge.judge not in names and judge.finding in SURE:
                yield _finding_sentence(judge, f"On {own.title}, ")
    if together.without_named:
        yield _without_sentence(together.without_named, together.ranking)


def _finding_sentence(judge: JudgeSummary | JudgeReliability, where: str) -> str:
    """Return what the other judges show about a named judge. `where`: the benchmark, or "" for all."""
    found = judge.agreement
    if judge.finding is JudgeFinding.CONSTANT:
        return f"{where}{judge.judge} gives every completion the same score, so its grades say nothing."
    assert found is not None, "a finding follows from this number"
    number = f"(correlation {_with_interval(found)})"
    if judge.finding is JudgeFinding.AGAINST:
        return f"{where}{judge.judge} grades against the other judges {number}."
    do_not = f"{where}do not" if where else "Do not"
    shown = f"its correlation with the other judges is {_with_interval(found)}, so agreement is not shown"
    return f"{do_not} rely on {judge.judge}: {shown}, although the others agree with each other."


def _without_sentence(without: JuryWithoutNamed, before: Ranking | None) -> str:
    """Return what changes if the named judges are left out: agreement, separated pairs and the order of models."""
    parts = []
    if without.one_judge.value is not None and without.one_judge_of_all.value is not None:
        parts.append(f"the judges' agreement is {without.one_judge.value:.2f} instead of "
                     f"{without.one_judge_of_all.value:.2f} (ICC(3,1))")  # fmt: skip
    if without.ranking and before:
        n, n_pairs = without.ranking.n_significant, without.ranking.n_pairs
        counted = f"{n} of {n_pairs} pair{'s' * (n_pairs > 1)} of models {'is' if n_pairs == 1 else 'are'} separated"
        changed = without.ranking.n_significant != before.n_significant and not without.all_are_by_chance
        parts.append(counted + (f" instead of {before.n_significant}" if changed else ""))
        parts.append(_order(without.reordered))
    effect = listed(parts) if parts else "nothing can be compared"
    warning = "Do not use the ranking by all judges. " if without.all_are_by_chance else ""
    return f"{warning}Without {listed(without.judges, NAMES)}, {effect}."


def _order(reordered: Sequence[tuple[str, str]]) -> str:
    """Return how the order of models changes."""
    if not reordered:
        return "the order of the models is the same"
    (first, second), more = reordered[0], len(reordered) - 1
    return f"{first} ranks above {second}" + (f" ({more} more change order)" if more else "")


# --- verdict: agreement -----------------------------------------------------------------------------------------------


ICC_IN_WORDS = "where 1 is perfect agreement and 0 is none (ICC(3,1))"
"""Explanation of agreement among judges, after its value."""


def _agreement(benchmarks: Sequence[JurySummary], together: JurySummary) -> Iterator[str]:
    """Yield where the judges agree better than chance, and where that is not shown."""
    measured = [(own, own.without_named.one_judge if own.without_named else own.one_judge) for own in benchmarks]
    known = [
        (own, one.value, one.low) for own, one in measured if one and one.value is not None and one.low is not None
    ]
    agreed = [(own, value) for own, value, low in known if low > 0]
    chance = [(own.title, one) for own, one in measured if one and one.is_by_chance]
    unknown = [own.title for own, one in measured if one is None or one.low is None]
    if agreed and not (len(benchmarks) == 1 and together.without_named):
        values = sorted(value for _, value in agreed)
        spread = f"{values[0]:.2f}" if len(values) == 1 else f"{values[0]:.2f} to {values[-1]:.2f}"
        names = agreed[0][0].title if len(benchmarks) == 1 else f"{len(agreed)} of {len(benchmarks)} benchmarks"
        who = "The other judges" if together.without_named else "The judges"
        yield f"{who} agree better than chance on {names}: {spread}, {ICC_IN_WORDS}."
    if chance:
        yield _by_chance(chance)
    if unknown:
        needed = f"two judges with differing grades on {LEAST_UNITS} independent instances are needed"
        yield f"Agreement cannot be measured on {listed(unknown, NAMES)}: {needed}."


def _by_chance(benchmarks: Sequence[tuple[str, RaterAgreement]]) -> str:
    """Return that the ranking on these benchmarks is not to be used. `benchmarks`: titles and agreement of judges."""
    names = listed([title for title, _ in benchmarks], NAMES)
    values = ", ".join(f"{one.value:.2f}" for _, one in benchmarks[:NAMES] if one.value is not None)
    contradict = all(one.high is not None and one.high < 0 for _, one in benchmarks)
    what = "contradict each other" if contradict else "are not shown to agree better than chance"
    return f"Do not use the ranking on {names}: the judges {what}: {values}, {ICC_IN_WORDS}."


def judges_in_words(found: Iterable[tuple[str, JuryReliability | None]]) -> list[str]:
    """Return sentences for a leaderboard on judges whose scores cannot rank models; empty if there are none.

    `found`: title of each judged benchmark, and its judges beside each other.
    """
    known = [(title, one) for title, one in found if one is not None]
    sentences = [
        _finding_sentence(judge, f"On {title}, ")
        for title, one in known
        for judge in one.named
        if len(known) == 1 or judge.finding in SURE
    ]
    left = [(title, one.without_named or one.one_judge) for title, one in known]
    chance = [(title, one) for title, one in left if one.value is not None and one.is_by_chance]
    return [*sentences, *([_by_chance(chance)] if chance else [])]


def _separated(own: JurySummary) -> Iterator[str]:
    """Yield how many pairs of models the jury separates, and whether that depends on a single judge."""
    ranking = own.ranking
    if ranking is None or not ranking.n_pairs:
        return
    if ranking.n_pairs == 1:
        found = "separates the two models" if ranking.n_significant else "does not separate the two models"
    else:
        with_baselines = any(model.split("/")[0] == "baseline" for model in own.models)
        kinds = "models and baselines" if with_baselines else "models"
        found = f"separates {ranking.n_significant} of {ranking.n_pairs} pairs of {kinds}"
    turned = [
        panel.name.removeprefix("without ")
        for panel in ranking.panels
        if panel.name.startswith("without") and any(swap.is_significant for swap in panel.swaps)
    ]
    order = f"; the order of some depends on {listed(turned, NAMES)}" if turned else ""
    yield f"The jury {found}{order}."


def _with_interval(found: RaterAgreement) -> str:
    """Return a correlation with its interval."""
    ends = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}{ends}"
