"""The sign-flip test of one row of totals."""

from __future__ import annotations

from medhelm.analysis.comparison.significance import sign_flip_tests
from medhelm.analysis.means import Floats


def sign_flip_test(totals: Floats) -> float:
    """Return the p-value of totals, shape (k,)."""
    return float(sign_flip_tests(totals[None, :])[0])
