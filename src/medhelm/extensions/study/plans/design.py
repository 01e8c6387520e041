"""The design of a study: which cases each rater gets, and in which order. Pure and seeded.

Cases are given out one after the other, model by model, each to the raters who have the fewest cases of the model so
far, then the fewest in all, then the fewest together with the raters chosen already; the rest is by chance. So the
numbers of cases of two raters differ by one at most, as do those of each model, and harsh raters weigh on all models
alike. Nothing is drawn later: the assignment is part of the plan.

The precision of a model's mean grade that a study can reach, from the spread of grades in its store.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from medhelm.analysis.agreement.reliability import LEAST_RATERS, rater_effect
from medhelm.analysis.means import Floats, t_quantile
from medhelm.domain import JURY, Run
from medhelm.extensions.study.instruments import RUBRIC
from medhelm.extensions.study.types import Assignment, CaseKind, Instrument, InstrumentForm
from medhelm.storage.ratings import StoredRatings, stored_ratings
from medhelm.storage.run_scores import read_scores
from medhelm.storage.store import Store

GAP_OF_REPEATS = 10
"""Least difference between the numbers of a case and of its repetition."""

GAP_OF_INSTANCES = 10
"""Wanted difference between the numbers of two cases on the same instance, for one rater."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignCase:
    """A case before it is given to raters: one completion, or two of the same instance."""

    items: tuple[str, ...]
    """Id of the item; of two items, in any order."""
    models: tuple[str, ...]
    """Models of the items."""
    instance: str
    """Benchmark and instance, or any other name of what must not come twice in a row."""
    is_shared: bool = False
    """True if several raters get it."""


def mark_shared(numbers: int, share: float) -> list[bool]:
    """Mark a share of a sequence, evenly spread.

    >>> mark_shared(5, 0.4)
    [False, False, True, False, True]
    """
    return [math.floor((n + 1) * share + 1e-9) > math.floor(n * share + 1e-9) for n in range(numbers)]


def pair_models(models: Sequence[str], rounds: int) -> list[list[tuple[str, str]]]:
    """Pair models in rounds, so that each one is in one pair of a round, and meets all others equally often.

    With an odd number of models, another one rests in each round (the circle method of tournaments).

    >>> pair_models(["a", "b", "c"], 3)
    [[('b', 'c')], [('a', 'c')], [('a', 'b')]]
    """
    seats: list[str | None] = [*models, *([None] if len(models) % 2 else [])]
    found = []
    for _ in range(rounds):
        half = len(seats) // 2
        pairs = zip(seats[:half], reversed(seats[half:]), strict=True)
        met = [(one, other) for one, other in pairs if one is not None and other is not None]
        found.append([(min(pair), max(pair)) for pair in met])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found


def assign(
    cases: Sequence[DesignCase],
    calibration: Sequence[DesignCase],
    raters: Sequence[str],
    *,
    raters_per_shared_case: int = 2,
    repeated: float = 0.0,
    seed: int = 0,
) -> dict[str, tuple[Assignment, ...]]:
    """Give cases to raters, and put each rater's list in order.

    All raters begin with the calibration cases, in the same order. Then cases come in random order, those on the same
    instance far apart; a repetition comes at least `GAP_OF_REPEATS` cases after the first time. Of a pair, the side of
    each model is random, and each model is on the left as often as on the right, up to one, for each rater.

    Parameters: cases, in the order in which they are given out; raters, at least as many as a shared case needs;
    repeated, share of a rater's cases that come a second time.
    Returns: rater -> cases. Equal arguments give equal results. Raises: ValueError for too few raters.
    """
    rng = np.random.default_rng(seed)
    if not raters or (any(case.is_shared for case in cases) and len(raters) < raters_per_shared_case):
        raise ValueError(f"{len(raters)} raters are too few for cases with {raters_per_shared_case}")
    first_sides = _sides(calibration, rng)
    given: dict[str, tuple[Assignment, ...]] = {}
    for rater, own in _give_out(cases, raters, raters_per_shared_case, rng).items():
        ordered = _spread(own, rng)
        n_repeated = round(repeated * len(ordered))
        sides = {id(case): items for case, items in zip(ordered, _sides(ordered, rng), strict=True)}
        rows = [(CaseKind.CALIBRATION, items) for items in first_sides]
        for case, is_repeated in _with_repeats(ordered, n_repeated, rng):
            once = CaseKind.SHARED if case.is_shared else CaseKind.SINGLE
            rows.append((CaseKind.REPEATED if is_repeated else once, sides[id(case)]))
        given[rater] = tuple(Assignment(number=n, kind=kind, items=items) for n, (kind, items) in enumerate(rows, 1))
    return given


def _give_out(
    cases: Sequence[DesignCase], raters: Sequence[str], n_each: int, rng: np.random.Generator
) -> dict[str, list[DesignCase]]:
    """Return rater -> cases, balanced as the head of this module says."""
    given: dict[str, list[DesignCase]] = {rater: [] for rater in raters}
    of_model: Counter[tuple[str, str]] = Counter()
    together: Counter[frozenset[str]] = Counter()
    for case in cases:
        chance = dict(zip(raters, rng.permutation(len(raters)).tolist(), strict=True))
        chosen: list[str] = []
        for _ in range(n_each if case.is_shared else 1):
            chosen.append(
                min(
                    (rater for rater in raters if rater not in chosen),
                    key=lambda rater: (
                        sum(of_model[rater, model] for model in case.models),
                        len(given[rater]),
                        sum(together[frozenset((rater, other))] for other in chosen),
                        chance[rater],
                    ),
                )
            )
        for rater in chosen:
            given[rater].append(case)
            of_model.update((rater, model) for model in case.models)
        together.update(frozenset(pair) for pair in combinations(chosen, 2))
    return given


# --- order ------------------------------------------------------------------------------------------------------------


def _spread(cases: Sequence[DesignCase], rng: np.random.Generator) -> list[DesignCase]:
    """Return cases in random order, those on the same instance as far apart as is possible, up to the wanted gap."""
    for gap in range(min(GAP_OF_INSTANCES, len(cases)), 0, -1):
        found = _spaced(cases, gap, rng)
        if found is not None:
            return found
    return [cases[place] for place in rng.permutation(len(cases))]


def _spaced(cases: Sequence[DesignCase], gap: int, rng: np.random.Generator) -> list[DesignCase] | None:
    """Return cases in random order with places of the same instance differing by `gap` at least; None if none is found.

    At each place the instance with the most cases left comes first, which finds an order if there is one.
    """
    left: dict[str, list[DesignCase]] = defaultdict(list)
    for place in rng.permutation(len(cases)):
        left[cases[place].instance].append(cases[place])
    chance = dict(zip(left, rng.permutation(len(left)).tolist(), strict=True))
    last: dict[str, int] = {}
    order: list[DesignCase] = []
    for place in range(len(cases)):
        free = [name for name in left if place - last.get(name, -gap) >= gap]
        if not free:
            return None
        name = max(free, key=lambda name: (len(left[name]), chance[name]))
        order.append(left[name].pop())
        last[name] = place
        if not left[name]:
            del left[name]
    return order


def _with_repeats(
    cases: Sequence[DesignCase], n_repeated: int, rng: np.random.Generator
) -> list[tuple[DesignCase, bool]]:
    """Return cases with True for those that come a second time, of which there may be fewer in a short list."""
    order = [(case, False) for case in cases]
    candidates = rng.permutation(max(len(cases) - GAP_OF_REPEATS + 1, 0))[:n_repeated]
    for start in sorted(candidates.tolist(), reverse=True):  # later insertions are at later places of the list
        case = cases[start]
        first = order.index((case, False))
        places = range(first + GAP_OF_REPEATS, len(order) + 1)
        good = [at for at in places if all(near.instance != case.instance for near, _ in order[at - 1 : at + 1])]
        order.insert(int(rng.choice(good or list(places))), (case, True))
    return order


# --- sides of pairs ---------------------------------------------------------------------------------------------------


def _sides(cases: Sequence[DesignCase], rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Return the items of each case; of pairs, in an order in which each model is left as often as right, up to one.

    Models are the points and pairs the lines of a graph. A walk along all lines that enters each point as often as it
    leaves it gives the sides; points with an odd number of lines are connected to an extra one first (Euler).
    """
    if not any(len(case.items) == 2 for case in cases):
        return [case.items for case in cases]
    lines: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number in rng.permutation(len(cases)).tolist():
        one, other = cases[number].models
        lines[one].append((number, other))
        lines[other].append((number, one))
    extra = ""
    for number, model in enumerate([name for name, own in lines.items() if len(own) % 2], len(cases)):
        lines[model].append((number, extra))
        lines[extra].append((number, model))
    first: dict[int, str] = {}
    is_backward = bool(rng.integers(2))
    for start in list(lines):
        point = start
        while lines[point]:
            number, next_point = lines[point].pop()
            if number in first:
                continue
            first[number] = next_point if is_backward else point
            point = next_point
    return [
        case.items if first[number] == case.models[0] else tuple(reversed(case.items))
        for number, case in enumerate(cases)
    ]


# --- precision --------------------------------------------------------------------------------------------------------

LEAST_GRADES = 10
"""Completions of a model that show the spread of its grades."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Standard deviations of grades, from which the precision of a mean follows."""

    between_instances: float
    """Of the quality of a model's completions."""
    residual: float
    """Of one rating around the quality of the completion and the severity of the rater."""
    between_raters: float
    """Of the severity of raters."""
    source: str = ""
    """Its source, in words."""


USUAL_SPREAD = (0.2, 0.15, 0.06)
"""Deviation between instances, of one rating, and between raters, as shares of the scale: of 1 to 5, 0.8, 0.6, 0.24."""


def usual_spread(low: float, high: float) -> Spread:
    """Return the deviations to expect on a scale if nothing is known.

    >>> usual_spread(1, 5).between_instances
    0.8
    """
    between, residual, raters = (share * (high - low) for share in USUAL_SPREAD)
    return Spread(between_instances=between, residual=residual, between_raters=raters, source="usual values")


def half_width(spread: Spread, n_cases: int, n_raters: int, *, shared: float = 0.0, n_each: int = 2) -> float:
    """Return the expected half-width of the 95% interval of a model's mean grade.

    The variance of the mean over n cases is (b^2 + e^2 (1 - s + s / k)) / n: b between instances, e of one rating, s
    the share of cases with k raters. Raters who all rate as many cases of the model add v^2 / R, v being the deviation
    of their severity and R their number. Both are multiplied with their quantile of Student's t, with n - 1 and R - 1
    degrees of freedom, and added in quadrature, as in the interval of the leaderboard.

    Parameters: n_cases, of the model, at least 2; n_raters, 0 to leave out differences between raters, which do not
    affect comparisons of models; shared, share of cases that `n_each` raters rate.
    """
    per_case = spread.between_instances**2 + spread.residual**2 * (1 - shared + shared / n_each)
    reach = t_quantile(0.975, n_cases - 1) * math.sqrt(per_case / n_cases)
    return math.hypot(reach, rater_reach(spread, n_raters, shared=shared))


def rater_reach(spread: Spread, n_raters: int, *, shared: float) -> float:
    """Return the part of the half-width that more cases cannot reduce.

    It is 0 if the ratings cannot show differences between raters: too few raters, or no shared case. The mean then
    holds for these raters only.
    """
    if n_raters < LEAST_RATERS or shared <= 0:
        return 0.0
    return t_quantile(0.975, n_raters - 1) * spread.between_raters / math.sqrt(n_raters)


def cases_for_precision(
    wanted: float, spread: Spread, n_raters: int, *, shared: float = 0.0, n_each: int = 2, most: int = 100_000
) -> int | None:
    """Return the fewest cases of a model whose mean has a 95% interval of the wanted half-width; see `half_width`.

    None if more than `most` are needed, or no number is enough, because these few raters differ too much.
    """
    low, high = 2, most
    if half_width(spread, high, n_raters, shared=shared, n_each=n_each) > wanted:
        return None
    while low < high:
        middle = (low + high) // 2
        is_enough = half_width(spread, middle, n_raters, shared=shared, n_each=n_each) <= wanted
        low, high = (low, middle) if is_enough else (middle + 1, high)
    return low


# --- the spread of grades in a store ----------------------------------------------------------------------------------


def common_scale(instruments: Iterable[Instrument]) -> tuple[float, float] | None:
    """Return the scale of a mean grade; None for preferences, and if criteria have different scales."""
    found = list(instruments)
    if any(one.form is InstrumentForm.PREFERENCE for one in found):
        return None
    scales = {(one.low, one.high) for instrument in found for one in instrument.criteria}
    scales |= {(0, 1) for one in found if one.form is InstrumentForm.CHECKS}
    return scales.pop() if len(scales) == 1 else None


def expected_spread(
    store: Store, instruments: Mapping[str, Instrument], runs: Mapping[tuple[str, str], Run]
) -> Spread | None:
    """Return the spread of grades to expect: from earlier ratings, else from the jury's scores, else usual values.

    Parameters: instruments, benchmark -> form; runs, benchmark and model -> run.
    Returns: None if the criteria have no scale in common.
    """
    scale = common_scale(instruments.values())
    if scale is None:
        return None
    usual = usual_spread(*scale)
    digests = {one.digest for one in instruments.values()}
    for earlier in reversed(stored_ratings(store)):
        is_same = earlier.card.instrument.digest in digests
        if is_same and (found := spread_of_ratings(_tables(earlier), usual, f"ratings of {earlier.card.name}")):
            return found
    if any(one.name != RUBRIC for one in instruments.values()):
        return usual
    judged = [run for run in runs.values() if run.jury_result]
    scores = [read_scores(run, JURY, "corrected").values for run in judged]
    variances = [float(own.var(ddof=1)) for own in (one[~np.isnan(one)] for one in scores) if len(own) >= LEAST_GRADES]
    if not variances:
        return usual
    between = max(math.sqrt(float(np.mean(variances))), usual.between_instances / 4)  # judges may give one grade to all
    return Spread(
        between_instances=between,
        residual=usual.residual,
        between_raters=usual.between_raters,
        source="spread of the jury's scores, usual values for raters",
    )


def spread_of_ratings(tables: Sequence[Floats], usual: Spread, source: str) -> Spread | None:
    """Estimate the spread of grades from ratings of several models.

    The spread of one rating comes from completions that several raters rated, less what severity adds to it; the spread
    between instances is what is left of that between the means of completions.

    Parameters: tables, one for each model, shape (completions, raters), nan if missing, the same raters in all; usual,
    for what the ratings do not show. Returns: None for fewer than `LEAST_GRADES` completions of each model.
    """
    kept = [table for table in tables if len(table) >= LEAST_GRADES]
    if not kept:
        return None
    every = np.concatenate(kept)
    given = ~np.isnan(every)
    severity = rater_effect(every, given.sum(axis=0) / given.sum()).deviation
    between_raters = usual.between_raters if severity is None else severity
    several = every[given.sum(axis=1) >= 2]
    residual = usual.residual
    if len(several) >= LEAST_GRADES:
        within = float(np.nanvar(several, axis=1, ddof=1).mean())
        residual = math.sqrt(max(within - between_raters**2, 0.0)) or usual.residual
    n_each = float((1 / given.sum(axis=1)).mean())
    means = float(np.mean([np.nanmean(table, axis=1).var(ddof=1) for table in kept]))
    between = max(means - n_each * (residual**2 + between_raters**2), (usual.between_instances / 4) ** 2)
    return Spread(between_instances=math.sqrt(between), residual=residual, between_raters=between_raters, source=source)


def _tables(earlier: StoredRatings) -> list[Floats]:
    """Return the mean grades of frozen ratings: for each model a row for each completion, a column for each rater."""
    raters = sorted({row.rater for row in earlier.rows})
    rows: dict[str, dict[tuple[str, str], Floats]] = {}
    for row in earlier.rows:
        grades = [grade for grade in row.grades.values() if grade is not None]
        empty = np.full(len(raters), np.nan)
        own = rows.setdefault(row.model, {}).setdefault((row.benchmark, row.instance_id), empty)
        own[raters.index(row.rater)] = float(np.mean(grades)) if grades else np.nan
    tables = [np.stack(list(own.values())) for own in rows.values()]
    return [table[(~np.isnan(table)).any(axis=1)] for table in tables]
