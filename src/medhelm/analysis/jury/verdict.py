"""The verdict on a jury in a few sentences: which judges to leave out, and whether the scores can rank models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from medhelm.analysis.agreement.reliability import LEAST_UNITS, RaterAgreement
from medhelm.analysis.jury.judges import JudgeSummary, JurySummary
from medhelm.analysis.jury.ranking import JuryWithoutNamed, Ranking
from medhelm.analysis.jury.reliability import JudgeFinding, JudgeReliability, JuryReliability
from medhelm.analysis.leaderboard.verdict import SAMPLE_ROWS
from medhelm.domain import Tier
from medhelm.domain.failure_code import explain_codes
from medhelm.domain.text import listed

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


# --- single judges ----------------------------------------------------------------------------------------------------


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
    return f"{where}{judge.judge} is not shown to agree with the other judges {number}, who agree with each other."


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


# --- agreement --------------------------------------------------------------------------------------------------------


def _agreement(benchmarks: Sequence[JurySummary], together: JurySummary) -> Iterator[str]:
    """Yield where the judges agree better than chance, and where that is not shown."""
    measured = [(own, own.without_named.one_judge if own.without_named else own.one_judge) for own in benchmarks]
    known = [
        (own, one.value, one.low) for own, one in measured if one and one.value is not None and one.low is not None
    ]
    agreed = [(own, value) for own, value, low in known if low > 0]
    chance = [(own.title, one) for own, one in measured if one and one.low is not None and one.low <= 0]
    unknown = [own.title for own, one in measured if one is None or one.low is None]
    if agreed and not (len(benchmarks) == 1 and together.without_named):
        values = sorted(value for _, value in agreed)
        spread = f"{values[0]:.2f}" if len(values) == 1 else f"{values[0]:.2f} to {values[-1]:.2f}"
        names = agreed[0][0].title if len(benchmarks) == 1 else f"{len(agreed)} of {len(benchmarks)} benchmarks"
        who = "The other judges" if together.without_named else "The judges"
        yield f"{who} agree better than chance on {names} (ICC(3,1) {spread})."
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
    return f"Do not use the ranking on {names}: the judges {what} (ICC(3,1) {values})."


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
    chance = [(title, one) for title, one in left if one.value is not None and one.low is not None and one.low <= 0]
    return [*sentences, *([_by_chance(chance)] if chance else [])]


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


def _with_interval(found: RaterAgreement) -> str:
    """Return a correlation with its interval."""
    ends = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}{ends}"
