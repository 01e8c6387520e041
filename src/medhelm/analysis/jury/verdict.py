"""The verdict on a jury in a few sentences: whether its judges agree, and whether its scores can rank models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from medhelm.analysis.agreement.reliability import LEAST_UNITS, RaterAgreement
from medhelm.analysis.jury.judges import JurySummary
from medhelm.analysis.leaderboard.verdict import SAMPLE_ROWS
from medhelm.domain import Tier
from medhelm.domain.failure_code import explain_codes
from medhelm.domain.text import listed

NAMES = 5
"""Most benchmarks named in one sentence."""

NOT_CLINICIANS = (
    "Judges that agree with each other can still be wrong: `medhelm agreement` compares them with clinicians."
)


def verdict(benchmarks: Sequence[JurySummary], overall: JurySummary, tier: Tier) -> list[str]:
    """Return whether a jury can be trusted to rank models, as far as its own judgments show.

    Parameters: benchmarks, one summary each; overall, all benchmarks together; tier, real data or sample rows.
    """
    found = [] if tier == "real" else [SAMPLE_ROWS]
    judged = [own for own in benchmarks if any(judge.mean is not None for judge in own.judges)]
    found += _nothing_judged([own for own in benchmarks if own not in judged])
    if not judged:
        return found
    found += _agreement(judged)
    found += _separated(benchmarks[0] if len(benchmarks) == 1 else overall)
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


def _agreement(benchmarks: Sequence[JurySummary]) -> Iterator[str]:
    """Yield where the judges agree better than chance, and where that is not shown."""
    known = [(own, one.value, one.low) for own in benchmarks if (one := own.one_judge) and one.value is not None]
    agreed = [(own, value) for own, value, low in known if low is not None and low > 0]
    chance = [(own, value) for own, value, low in known if low is not None and low <= 0]
    unknown = [own.title for own in benchmarks if own.one_judge is None or own.one_judge.low is None]
    if agreed:
        values = sorted(value for _, value in agreed)
        spread = f"{values[0]:.2f}" if len(values) == 1 else f"{values[0]:.2f} to {values[-1]:.2f}"
        names = agreed[0][0].title if len(benchmarks) == 1 else f"{len(agreed)} of {len(benchmarks)} benchmarks"
        yield f"The judges agree better than chance on {names} (ICC(3,1) {spread})."
    if chance:
        yield _by_chance([(own.title, value) for own, value in chance], "They" if agreed else "The judges")
    if unknown:
        needed = f"two judges with differing grades on {LEAST_UNITS} independent instances are needed"
        yield f"Agreement cannot be measured on {listed(unknown, NAMES)}: {needed}."


def judges_by_chance(agreement: Iterable[tuple[str, RaterAgreement | None]]) -> list[str]:
    """Return a sentence on the benchmarks whose judges are not shown to agree better than chance; empty if none are.

    `agreement`: title of each judged benchmark, and the agreement of one judge's scores with another's.
    """
    known = [(title, one) for title, one in agreement if one is not None]
    measured = [(title, one.value, one.low) for title, one in known if one.value is not None and one.low is not None]
    chance = [(title, value) for title, value, low in measured if low <= 0]
    return [_by_chance(chance, "The judges")] if chance else []


def _by_chance(benchmarks: Sequence[tuple[str, float]], subject: str) -> str:
    names = listed([f"{title} (ICC(3,1) {value:.2f})" for title, value in benchmarks], NAMES)
    its = "its" if len(benchmarks) == 1 else "their"
    return f"{subject} are not shown to agree better than chance on {names}: {its} scores cannot rank models."


def _separated(own: JurySummary) -> Iterator[str]:
    """Yield how many pairs of models the jury separates, and whether that depends on a single judge."""
    ranking = own.ranking
    if ranking is None or not ranking.n_pairs:
        return
    if ranking.n_pairs == 1:
        found = "separates the two models" if ranking.n_significant else "does not separate the two models"
    else:
        found = f"separates {ranking.n_significant} of {ranking.n_pairs} pairs of models"
    turned = [
        panel.name.removeprefix("without ")
        for panel in ranking.panels
        if panel.name.startswith("without") and any(swap.is_significant for swap in panel.swaps)
    ]
    order = f"; the order of some depends on {listed(turned, NAMES)}" if turned else ""
    yield f"The jury {found}{order}."
