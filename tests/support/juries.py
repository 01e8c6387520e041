"""Runs whose answers were graded by several judges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from medhelm.analysis.jury.cells import JudgedRun
from medhelm.analysis.means import Floats


def judged_run(
    grades: Floats,
    model: str,
    *,
    judges: Sequence[str] = ("j0", "j1", "j2", "j3", "j4"),
    criteria: Sequence[str] = ("c0", "c1", "c2", "c3"),
    points: Sequence[float] | Floats | None = None,
    lengths: Floats | None = None,
    clusters: Sequence[str] | None = None,
) -> JudgedRun:
    """Return a run that every judge graded by every criterion: grades of shape (judges, instances, criteria)."""
    n_judges, n, n_criteria = grades.shape
    places = list(product(range(n_judges), range(n), range(n_criteria)))
    return JudgedRun(
        model=model,
        instances=[f"i{i:03}" for i in range(n)],
        clusters=clusters or [""] * n,
        lengths=np.ones(n) if lengths is None else lengths,
        default_scores=np.full(n, np.nan),
        judged_instances=[f"i{i:03}" for _, i, _ in places],
        judges=[judges[j] for j, _, _ in places],
        criteria=[criteria[c] for _, _, c in places],
        grades=grades.reshape(-1).astype(float),
        points=None if points is None else np.tile(np.array(points, dtype=float), n_judges * n),
    )
