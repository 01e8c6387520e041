"""Measure by simulation what the documentation says of judges, of agreement among clinicians and of calibration.

    python -m bench.studies.clinicians
    python -m bench.studies.clinicians --only judge_table pairs_table

Prints the tables of docs/explanation/jury.md, agreement.md and calibration.md; about 10 minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from medhelm.analysis.agreement.calibrated_pairs import ScoredModel, calibrated_pairs
from medhelm.analysis.agreement.calibration import CalibratedMean, RatingDesign, draw_completions, prediction_powered
from medhelm.analysis.agreement.coefficients import average_over_pairs, pearson
from medhelm.analysis.agreement.jury_vs_clinicians import SHARE, Conclusion, conclude, standardized_icc
from medhelm.analysis.agreement.reliability import RaterAgreement, jury_and_raters, one_rater_agreement, rater_effect
from medhelm.analysis.jury.judges import JudgeScores, jury_reliability
from medhelm.analysis.means import Floats
from medhelm.results.formats.tables import Value, render

NAN = float("nan")
SEED = 20


def crossed_pairs(raters: int, shared: int) -> Floats:
    """Return ones where each pair of raters shares so many completions, nan elsewhere."""
    pairs = [pair for pair in combinations(range(raters), 2) for _ in range(shared)]
    design = np.full((len(pairs), raters), NAN)
    for row, pair in zip(design, pairs, strict=True):
        row[list(pair)] = 1.0
    return design


DESIGNS: dict[str, Floats] = {
    "5 raters, 2 completions shared by each pair": crossed_pairs(5, 2),
    "5 raters, 5 shared by each pair": crossed_pairs(5, 5),
    "2 raters, all of 10": np.ones((10, 2)),
    "2 raters, all of 30": np.ones((30, 2)),
    "3 raters, all of 20": np.ones((20, 3)),
    "4 raters, half of 40 each": np.where(np.random.default_rng(0).random((40, 4)) < 0.5, 1.0, NAN),
}
AGREEMENTS = (0.0, 0.5, 0.8)


def rated(design: Floats, agreement: float, rng: np.random.Generator, crowded: bool) -> Floats:
    """Return ratings with that agreement; `crowded`: whole grades of which most are the best."""
    n, raters = design.shape
    quality = np.sqrt(agreement) * rng.normal(size=(n, 1))
    ratings = 3 + quality + np.sqrt(1 - agreement) * rng.normal(size=(n, raters))
    if crowded:
        return np.asarray(design * np.clip(np.round(ratings + 1.6), 1, 5))
    return np.asarray(design * (ratings + 0.5 * rng.normal(size=raters)))


def agreement_table(runs: int) -> str:
    """Return the table of values and coverage of agreement among clinicians."""
    rows: list[list[Value]] = []
    for name, design in DESIGNS.items():
        for agreement in AGREEMENTS:
            rng = np.random.default_rng(SEED)
            tables = [rated(design, agreement, rng, False) for _ in range(runs)]
            found = [one_rater_agreement(table) for table in tables]
            crowded = [one_rater_agreement(rated(design, agreement, rng, True)) for _ in range(runs)]
            many = rated(np.ones((200_000, 2)), agreement, rng, True)
            by_pairs = [average_over_pairs(table, standardized_icc).value for table in tables]
            pairs = [value for value in by_pairs if value is not None]
            values = [one.value for one in found if one.value is not None]
            rows.append(
                [
                    name,
                    agreement,
                    f"{2 * agreement / (1 + agreement):.2f}",
                    f"{np.median(pairs):.2f}",
                    f"{np.mean(values):.2f}",
                    covered(found, agreement),
                    covered(crowded, pearson(*many.T).value or NAN),
                ]
            )
    headers = ["Design", "True r", "True ICC(3,k)", "Published: ICC(3,k), median", "All ratings: r, mean"]
    headers += ["r covered", "r covered, most grades the best"]
    return render(rows, headers, format="md")


def difference_table(runs: int) -> str:
    """Return coverage of the difference between jury and clinician, where the jury is one more clinician."""
    rows: list[list[Value]] = []
    for name, design in DESIGNS.items():
        rng = np.random.default_rng(SEED)
        found = []
        for _ in range(runs):
            table = rated(np.ones((len(design), design.shape[1] + 1)), 0.5, rng, False)
            found.append(jury_and_raters(design * table[:, 1:], table[:, 0]).difference)
        rows.append(
            [name, f"{np.mean([one.value for one in found if one.value is not None]):.2f}", covered(found, 0.0)]
        )
    return render(rows, ["Design", "Difference, mean", "0 covered"], format="md")


def covered(found: list[RaterAgreement], truth: float) -> str:
    """Return the share of intervals that contain the truth."""
    inside = [one.low <= truth <= one.high for one in found if one.low is not None and one.high is not None]
    return f"{np.mean(inside):.3f}"


def rater_table(runs: int) -> str:
    """Return coverage of calibrated means for clinicians in general, with and without differences between raters."""
    rows: list[list[Value]] = []
    for severity in (0.0, 0.2, 0.4):
        for raters in (3, 5, 10):
            rng = np.random.default_rng(SEED)
            pairs = [one_panel(raters, severity, rng) for _ in range(runs)]
            cells = [_in_interval([pair[place] for pair in pairs], 3.0) for place in (0, 1)]
            rows.append([severity, raters, *cells[0], *cells[1]])
    headers = ["SD of severity", "Raters", "These raters only", "Width", "Clinicians in general", "Width"]
    return render(rows, headers, format="md")


def one_panel(raters: int, severity: float, rng: np.random.Generator) -> tuple[CalibratedMean, CalibratedMean]:
    """Return the calibrated mean of 500 completions of which all raters rated 50, without and with their effect."""
    quality = 0.8 * rng.normal(size=500)
    jury = 3.4 + 0.7 * quality + 0.4 * rng.normal(size=500)
    table = 3 + quality[:50, None] + severity * rng.normal(size=raters) + 0.5 * rng.normal(size=(50, raters))
    ratings = np.full(500, NAN)
    ratings[:50] = table.mean(axis=1)
    effect = rater_effect(table, np.full(raters, 1 / raters))
    return (
        prediction_powered(jury, ratings, design=RatingDesign(low=-3, high=9)),
        prediction_powered(jury, ratings, design=RatingDesign(low=-3, high=9, raters=effect)),
    )


def coverage(found: Sequence[CalibratedMean], truth: float) -> float:
    """Return the share of intervals that contain the truth."""
    return float(np.mean([one.low <= truth <= one.high for one in found]))


def _in_interval(found: list[CalibratedMean], truth: float) -> list[Value]:
    """Return coverage and mean width."""
    return [f"{coverage(found, truth):.3f}", f"{np.mean([one.high - one.low for one in found]):.2f}"]


def selection_table(runs: int) -> str:
    """Return bias and coverage of calibrated means for several ways to select 50 of 500 completions."""
    rows: list[list[Value]] = []
    for jury in RATED_JURIES:
        for name in SELECTIONS:
            found, truth = means_by_selection(jury, name, runs)
            bias = f"{np.mean([one.value for one in found]) - truth:.2f}"
            rows.append([jury, name, bias, *_in_interval(found, truth)])
    return render(rows, ["Jury", "50 of 500 rated", "Bias", "Covered", "Width"], format="md")


RATED_JURIES = {"good": (0.8, 0.35), "weak": (0.3, 0.7)}
"""Slope of the jury's scores over quality, and their noise."""


def means_by_selection(jury: str, name: str, runs: int) -> tuple[list[CalibratedMean], float]:
    """Return calibrated means of runs whose rated completions were selected in this way, and the true mean."""
    slope, noise = RATED_JURIES[jury]
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(runs):
        quality = np.clip(np.round((3.3 + 0.9 * rng.normal(size=500)) * 3) / 3, 1, 5)
        scores = np.clip(np.round((3.4 + slope * (quality - 3) + noise * rng.normal(size=500)) * 9) / 9, 1, 5)
        drawn, probabilities = SELECTIONS[name](scores, quality, rng)
        ratings = np.where(np.isin(np.arange(500), drawn), quality, NAN)
        design = RatingDesign(low=1, high=5, probabilities=probabilities)
        found.append(prediction_powered(scores, ratings, design=design))
    many = np.clip(np.round((3.3 + 0.9 * rng.normal(size=10**6)) * 3) / 3, 1, 5)
    return found, float(many.mean())


def _drawn(scores: Floats, quality: Floats, rng: np.random.Generator, by_score: bool) -> tuple[Floats, Floats]:
    """Draw as `medhelm agreement sample` does."""
    del quality
    found = draw_completions(scores, 50, rng, scale=(1.0, 5.0) if by_score else None)
    return found.drawn.astype(float), found.probabilities


def _interesting(scores: Floats, quality: Floats, rng: np.random.Generator) -> tuple[Floats, None]:
    """Select bad completions more often, and forget how often."""
    del scores
    chances = np.exp(-quality)
    return rng.choice(500, 50, replace=False, p=chances / chances.sum()).astype(float), None


SELECTIONS: dict[str, Callable[[Floats, Floats, np.random.Generator], tuple[Floats, Floats | None]]] = {
    "`sample`": lambda scores, quality, rng: _drawn(scores, quality, rng, False),
    "`sample --by-score`": lambda scores, quality, rng: _drawn(scores, quality, rng, True),
    "the interesting ones": _interesting,
}


# --- the verdict ------------------------------------------------------------------------------------------------------

VERDICTS = ((3, 30, 0.5, 0), (3, 100, 0.5, 0), (3, 300, 0.5, 0), (2, 100, 0.5, 0), (3, 60, 0.5, 12), (3, 1000, 0.2, 0))
"""Clinicians, completions, correlation of two clinicians, and number of clusters; 0 for independent completions."""


def verdict_table(runs: int) -> str:
    """Return how often a jury at the margin, and one that is one more clinician, are called as good as a clinician."""
    rows: list[list[Value]] = []
    for raters, n, correlation, clusters in VERDICTS:
        rates = [called_as_good(raters, n, correlation, clusters, share, runs) for share in (SHARE, 1.0)]
        rows.append([raters, n, clusters or "none", correlation, *(f"{rate:.3f}" for rate in rates)])
    headers = ["Clinicians", "Completions", "Clusters", "Two clinicians", "At the margin", "One more clinician"]
    return render(rows, headers, format="md")


def called_as_good(raters: int, n: int, correlation: float, clusters: int, share: float, runs: int) -> float:
    """Return the rate of `AS_GOOD` for a jury with this share of the agreement of two clinicians."""
    rng = np.random.default_rng(SEED)
    codes, slope = np.repeat(np.arange(clusters), n // clusters) if clusters else None, share * np.sqrt(correlation)
    found = []
    for _ in range(runs):
        quality = rng.normal(size=n)
        if codes is not None:
            quality = np.sqrt(0.5) * (quality + rng.normal(size=clusters)[codes])
        table = np.sqrt(correlation) * quality[:, None] + np.sqrt(1 - correlation) * rng.normal(size=(n, raters))
        jury = slope * quality + np.sqrt(1 - slope**2) * rng.normal(size=n)
        found.append(conclude(jury_and_raters(table, jury, codes)) is Conclusion.AS_GOOD)
    return float(np.mean(found))


SIZES = ((2, 0.5, 353), (3, 0.5, 242), (5, 0.5, 180), (2, 0.75, 67), (3, 0.75, 53), (3, 0.3, 970))
"""Clinicians, correlation of two clinicians, and the completions with which about 80% of good juries are found."""


def size_table(runs: int) -> str:
    """Return how often so many completions show a jury that is one more clinician to be as good as one."""
    rows: list[list[Value]] = [
        [raters, correlation, n, f"{called_as_good(raters, n, correlation, 0, 1.0, runs):.3f}"]
        for raters, correlation, n in SIZES
    ]
    return render(rows, ["Clinicians", "Two clinicians", "Completions", "Shown"], format="md")


# --- judges -----------------------------------------------------------------------------------------------------------

JUDGES = ("good", "random", "constant", "reversed")
"""Kinds of the third judge, beside two good ones."""


def judge_table(runs: int) -> str:
    """Return how often the third of three judges is named, and a good one."""
    rows: list[list[Value]] = []
    for n, models, agreement in ((30, 1, 0.8), (30, 2, 0.7), (30, 1, 0.5), (100, 1, 0.5)):
        rates = {kind: named(kind, n, models, agreement, runs) for kind in JUDGES}
        good = max(rates[kind][0] for kind in JUDGES)
        rows.append([n, models, agreement, *(f"{rates[kind][1]:.3f}" for kind in JUDGES[1:]), f"{good:.3f}"])
    headers = ["Instances", "Models", "Two good judges", "Random", "Constant", "Reversed", "A good judge"]
    return render(rows, headers, format="md")


def named(kind: str, n: int, models: int, agreement: float, runs: int) -> tuple[float, float]:
    """Return how often a good judge is named (the higher rate of two), and the third one."""
    rng = np.random.default_rng(SEED)
    counts = np.zeros(3)
    for _ in range(runs):
        quality, error = np.sqrt(agreement) * rng.normal(size=n * models), rng.normal(size=(3, n * models))
        grades = quality + np.sqrt(1 - agreement) * error
        grades[2] = {"good": grades[2], "random": error[2], "constant": 0 * quality, "reversed": -grades[2]}[kind]
        scores = (np.clip(np.round(3 + grades), 1, 5) - 1) / 4
        found = jury_reliability(JudgeScores.stack([("abc", scores, np.tile(np.arange(n), models))]))
        counts += [one.finding.is_named for one in found.judges]
    rates = counts / runs
    return float(rates[:2].max()), float(rates[2])


# --- differences between models ---------------------------------------------------------------------------------------


PAIR_JURIES = {"good": (3.4, 0.8, 0.35), "useless": (3.4, 0.0, 0.7), "reversed": (3.0, -0.8, 0.35)}
"""Level of the jury's scores, slope over quality, and noise."""


def pairs_table(runs: int) -> str:
    """Return false findings among three equal models, of which the jury favors one, and the power of a difference."""
    rows: list[list[Value]] = []
    for jury in PAIR_JURIES:
        for shared in (True, False):
            false = np.mean([has_finding(jury, shared, 30, 0.0, seed) for seed in range(runs)])
            power = [np.mean([has_finding(jury, shared, m, 0.4, seed) for seed in range(runs)]) for m in (30, 50)]
            which = "the same" if shared else "others"
            rows.append([jury, which, f"{false:.3f}", *(f"{one:.2f}" for one in power)])
    headers = ["Jury", "Instances rated", "False findings", "0.4 grades found, 30 rated", "50 rated"]
    return render(rows, headers, format="md")


def scored_models(jury: str, shared: bool, rated: int, worse: float, seed: int) -> list[ScoredModel]:
    """Return three models on 300 instances: the jury favors the first, and the others may be worse."""
    rng = np.random.default_rng(seed)
    level, slope, noise = PAIR_JURIES[jury]
    hardness, same, ids = 0.3 * rng.normal(size=300), rng.permutation(300)[:rated], [str(i) for i in range(300)]
    models = []
    for place, name in enumerate("abc"):
        quality = 3.3 + hardness + 0.7 * rng.normal(size=300) - (worse if place else 0.0)
        scores = level + slope * (quality - 3) + noise * rng.normal(size=300) + (0.0 if place else 0.5)
        drawn = same if shared else rng.permutation(300)[:rated]
        ratings = np.where(np.isin(np.arange(300), drawn), np.clip(np.round(quality * 3) / 3, 1, 5), NAN)
        models.append(
            ScoredModel(benchmark="x", model=name, ids=ids, units=ids, scores=np.clip(scores, 1, 5), low=1, high=5,
                        ratings=ratings)
        )  # fmt: skip
    return models


def has_finding(jury: str, shared: bool, rated: int, worse: float, seed: int) -> bool:
    """Return whether three models have a significant difference, of the first and second if any."""
    found = calibrated_pairs(scored_models(jury, shared, rated, worse, seed), "abc", {}, {}).overall
    return found[0].better == "a" if worse else any(pair.better for pair in found)


def ceiling_table(runs: int) -> str:
    """Return coverage of calibrated means where grades are at the end of the scale, or few are disasters."""
    rows: list[list[Value]] = [
        [name, rated, *_in_interval(*means_at_the_end(name, rated, runs))]
        for name in CEILINGS
        for rated in (10, 15, 20, 30)
    ]
    return render(rows, ["Grades", "Rated of 500", "Covered", "Width"], format="md")


def means_at_the_end(name: str, rated: int, runs: int) -> tuple[list[CalibratedMean], float]:
    """Return calibrated means of 500 completions, so many of them rated, and the true mean."""
    truth = float(CEILINGS[name](np.random.default_rng(99), 10**6)[1].mean())
    rng, found = np.random.default_rng(SEED), []
    for _ in range(runs):
        jury, ratings = CEILINGS[name](rng, 500)
        ratings[rated:] = NAN
        found.append(prediction_powered(jury, ratings, design=RatingDesign(low=1, high=5)))
    return found, truth


def _at_the_ceiling(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    quality = 5.3 + 0.7 * rng.normal(size=n)
    return np.clip(quality + 0.2 * rng.normal(size=n), 1, 5), np.clip(quality, 1, 5)


def _with_disasters(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    ratings = np.where(rng.random(n) < 0.03, 1 + rng.random(n), np.clip(4.8 + 0.2 * rng.normal(size=n), 1, 5))
    return np.clip(ratings + 0.3 * rng.normal(size=n), 1, 5), ratings


CEILINGS: dict[str, Callable[[np.random.Generator, int], tuple[Floats, Floats]]] = {
    "two thirds are the best": _at_the_ceiling,
    "3% are disasters, the rest near the best": _with_disasters,
}

TABLES = (
    agreement_table,
    difference_table,
    verdict_table,
    size_table,
    rater_table,
    selection_table,
    ceiling_table,
    pairs_table,
    judge_table,
)


def main() -> None:
    """Print all tables, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="Simulated data sets per row.")
    names = [table.__name__ for table in TABLES]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="Tables to print.")
    options = parser.parse_args()
    for table in TABLES:
        if table.__name__ in options.only:
            print(table(options.runs))


if __name__ == "__main__":
    main()
