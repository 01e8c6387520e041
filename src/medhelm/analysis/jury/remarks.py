"""Remarks on a jury: what limits its numbers, and which biases are significant."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from medhelm.analysis.jury.judges import JurySummary
from medhelm.analysis.jury.reliability import JudgeFinding
from medhelm.analysis.leaderboard.remarks import SAMPLE_TIER
from medhelm.domain import Tier
from medhelm.domain.remark import Remark

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
                    f"On {own.title}, {judge.judge} is not shown to agree with the other judges (correlation "
                    f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}])."
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
