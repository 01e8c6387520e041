"""Draws completions of judged runs for clinicians to rate: see `analysis.agreement.selection`."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from medhelm.analysis.agreement.selection import DrawnCompletion, RatingSample, draw_completions
from medhelm.domain import JURY, Run
from medhelm.errors import UserError, suggestion
from medhelm.results.agreement import judged_runs
from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import read_columns, score_column


def draw_rating_sample(
    store: Path,
    size: int,
    *,
    seed: int = 0,
    by_score: bool = False,
    benchmarks: Collection[str] = (),
    models: Collection[str] = (),
) -> RatingSample:
    """Draw `size` completions of each model on each benchmark that has a jury score.

    The draw of a model on a benchmark depends on the seed and both names only, not on what else is in the store.

    Parameters: by_score, whether rare scores are drawn more often; benchmarks and models, names, empty for all.
    Raises: UserError if there is nothing to draw from or a name is unknown; StoreError.
    """
    chosen = judged_runs(store) if (store / "store.json").exists() else {}
    runs = {
        (name, model): run
        for name, selected in chosen.items()
        for (model, _), run in selected.runs.items()
        if run.jury_result and run.jury_result.form != "points"
    }
    if not runs:
        raise UserError(f"{store} has no run whose judges gave grades. `medhelm run --judge` makes one.")
    _check("--benchmark", benchmarks, {name for name, _ in runs})
    _check("--model", models, {model for _, model in runs})
    criteria: dict[str, None] = {}
    found: list[DrawnCompletion] = []
    for name in dict.fromkeys(name for name, _ in runs):
        if benchmarks and name not in benchmarks:
            continue
        of_benchmark: list[DrawnCompletion] = []
        for (benchmark, model), run in runs.items():
            if benchmark == name and (not models or model in models):
                of_benchmark += _drawn(run, model, size, seed, by_score)
                criteria |= dict.fromkeys(read_judgments(run).criteria)
        order = np.random.default_rng([seed, zlib.crc32(name.encode())]).permutation(len(of_benchmark))
        found += [of_benchmark[place] for place in order]
    if not found:
        raise UserError("no completion of these benchmarks and models has a jury score.")
    return RatingSample(criteria=tuple(criteria), completions=tuple(found))


def _drawn(run: Run, model: str, size: int, seed: int, by_score: bool) -> list[DrawnCompletion]:
    """Draw from one run."""
    assert run.jury_result is not None, "only judged runs are looked at"
    score = score_column(JURY, "corrected")
    columns = read_columns(run, ["instance_id", "completion", score])
    scores = np.array([np.nan if value is None else value for value in columns[score]], dtype=float)
    rng = np.random.default_rng([seed, zlib.crc32(run.benchmark.encode()), zlib.crc32(model.encode())])
    scale = (run.jury_result.low, run.jury_result.high) if by_score else None
    selection = draw_completions(scores, size, rng, scale=scale)
    return [
        DrawnCompletion(
            benchmark=run.benchmark,
            model=model,
            instance_id=columns["instance_id"][place],
            completion=columns["completion"][place] or "",
            probability=float(selection.probabilities[place]),
        )
        for place in selection.drawn
    ]


def _check(option: str, names: Collection[str], known: Collection[str]) -> None:
    """Raise UserError for an unknown name."""
    for name in names:
        if name not in known:
            fix = suggestion(name, sorted(known))
            raise UserError(f"{option} {name}: the store has no such judged run. {fix}".rstrip())


def rater_names(number: int) -> Sequence[str]:
    """Name raters for a file to be filled in.

    >>> rater_names(2)
    ['rater 1', 'rater 2']
    """
    return [f"rater {place}" for place in range(1, number + 1)]
