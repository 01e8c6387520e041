"""What a reader of a jury's numbers must know, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medhelm.analysis.jury.judges import JurySummary
from medhelm.analysis.jury.ranking import Ranking
from medhelm.domain import Tier

SATURATED = 0.5
"""Share of grades at an edge of the scale from which a benchmark is called saturated. From one half on the median grade
is the edge itself: for the typical completion, a better one could not be graded higher."""


def remarks(numbers: Sequence[JurySummary], overall: JurySummary, tier: Tier) -> Iterator[str]:
    """Yield sentences, the most limiting first."""
    if tier == "sample":
        yield "Sample tier: these are a few invented rows per benchmark; they say nothing about real performance."
    for own in numbers:
        yield from _jury(own)
    for own in numbers:
        yield from _edges(own)
    yield from _family(overall)
    for own in numbers:
        yield from _dependent(own)


def _jury(own: JurySummary) -> Iterator[str]:
    """Juries too small to be compared, judges that said nothing, and judges that did not judge all."""
    if len(own.judges) == 1:
        yield f"{own.title} has one judge: nothing can be said of agreement, severity or preference."
    for judge in own.judges:
        if judge.tally.expected and judge.tally.failed == judge.tally.expected:
            yield f"{judge.judge} gave no judgment on {own.title}: the jury is smaller there than it seems."
    if not own.all_judges_shared:
        yield f"Not all models on {own.title} had the same judges: only judges of all of them rank the models."


def _edges(own: JurySummary) -> Iterator[str]:
    """Benchmarks on which too many grades are the best, or the worst, there is."""
    things = "grades" if own.form == "grades" else "scores"
    if own.best and own.best.value >= SATURATED:
        yield (
            f"{own.title}: {_percent(own.best.value)} of the {things} are the best there is ({own.high:g}), so what is "
            f"better than the typical completion cannot be graded higher: such a benchmark no longer separates good "
            f"models from better ones.{_separated(own.ranking)}"
        )
    if own.worst and own.worst.value >= SATURATED:
        yield (
            f"{own.title}: {_percent(own.worst.value)} of the {things} are the worst there is ({own.low:g}): such a "
            f"benchmark does not separate weak models.{_separated(own.ranking)}"
        )


def _separated(ranking: Ranking | None) -> str:
    """How many models are told apart nevertheless."""
    if ranking is None:
        return ""
    pairs = f"{ranking.n_pairs} pair{'s' if ranking.n_pairs != 1 else ''}"
    return f" Its jury tells {ranking.n_significant} of {pairs} of models apart."


def _family(overall: JurySummary) -> Iterator[str]:
    """Judges whose preference for their own family, or against it, is more than chance."""
    for judge in overall.judges:
        found = judge.self_preference
        if found is None or found.low <= 0 <= found.high:
            continue
        more = "more" if found.value > 0 else "less"
        ends = sorted(abs(end) for end in (found.low, found.high))
        yield (
            f"{judge.judge} gives models of its own family ({judge.family}) {abs(found.value):.2f} "
            f"[{ends[0]:.2f}, {ends[1]:.2f}] {more} than the other judges do, its usual distance from them aside."
        )


def _dependent(own: JurySummary) -> Iterator[str]:
    """Judges without whom two models that the jury tells apart change places."""
    for panel in own.ranking.panels if own.ranking else ():
        clear = [swap for swap in panel.swaps if swap.is_significant]
        if clear and panel.name.startswith("without"):
            yield (
                f"{own.title}: {panel.name}, {clear[0].worse} comes before {clear[0].better}"
                f"{f' (and {len(clear) - 1} more such pairs)' if len(clear) > 1 else ''}, although all judges together "
                "tell them apart."
            )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
