"""Tokens and time of completions: pooled over benchmarks, and unknown as soon as one part is."""

from __future__ import annotations

import numpy as np

from medhelm.analysis.planned_cost import RunUse, pooled_use
from tests.support.values import present

ONE = RunUse(completions=2, input_tokens=300, output_tokens=20, seconds=np.array([1.0, 3.0]))
OTHER = RunUse(completions=3, input_tokens=100, output_tokens=5, seconds=np.array([2.0, 10.0, 2.0]))


def test_completions_of_all_benchmarks_are_pooled() -> None:
    found = present(pooled_use([ONE, OTHER], 0.02))
    assert (found.completions, found.usd_per_1000) == (5, 4.0)
    assert (found.input_tokens, found.output_tokens, found.tokens) == (80.0, 5.0, 85.0)
    assert (found.seconds, found.mean_seconds) == (2.0, 3.6)


def test_an_unknown_part_makes_the_whole_unknown() -> None:
    found = present(pooled_use([ONE, RunUse(completions=3)], None))
    assert (found.tokens, found.seconds, found.mean_seconds, found.usd_per_1000) == (None, None, None, None)
    assert pooled_use([ONE, None], 1.0) is None
    assert pooled_use([RunUse(completions=0)], 0.0) is None
