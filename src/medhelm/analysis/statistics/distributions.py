"""Probabilities and quantiles of F and of Student's t, for any positive degrees of freedom, whole or not.

Both are the regularized incomplete beta function in other words:

    P(F <= f)     with x = df1 f / (df1 f + df2):  I_x(df1 / 2, df2 / 2)
    P(|T| >= t)   with x = df / (df + t^2):        I_x(df / 2, 1 / 2)

It is computed from its continued fraction (DLMF 8.17.22), on the side where that converges quickly, times a density in
which Stirling's formula takes the large logarithms out, so that nothing is lost at a million degrees of freedom (Loader
2000, Fast and accurate computation of binomial probabilities). Quantiles are searched on the scale of log(x / (1 - x)),
where both ends of 0..1 have room. Up to a million degrees of freedom errors stay below 1e-10 of the value.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import count

TINY = 1e-300
"""Replaces a zero in a continued fraction."""

LAST_DIGIT = 1e-15
"""Relative change below which a computation has come to its end."""

LARGEST_LOG = 700.0
"""Logarithms of odds are searched up to this size; beyond it, about 1e304, a quantile of F is 0 or infinite."""


def f_cdf(f: float, df1: float, df2: float) -> float:
    """Return the probability that F with `df1` and `df2` degrees of freedom is at most `f`.

    Raises: ValueError unless both degrees of freedom are positive and finite and f is a number.

    >>> f"{f_cdf(4.0, 5, 15):.6f}"
    '0.983386'
    """
    _check(df1, df2)
    if math.isnan(f):
        raise ValueError("no probability of nan")
    if f <= 0:
        return 0.0
    return _beta(math.log(f) + math.log(df1 / df2), df1 / 2, df2 / 2)[0]


@lru_cache(maxsize=4096)
def f_quantile(p: float, df1: float, df2: float) -> float:
    """Return the value that F with `df1` and `df2` degrees of freedom stays below with probability `p`, 0 < p < 1.

    Returns: a positive number; 0.0 or infinity where it would be too small or too large for a float.
    Raises: ValueError unless 0 < p < 1 and both degrees of freedom are positive and finite.

    >>> f"{f_quantile(0.95, 3, 10):.4f}"
    '3.7083'
    """
    _check(df1, df2)
    odds = _beta_quantile(p, df1 / 2, df2 / 2) + math.log(df2 / df1)
    return math.exp(odds) if odds <= LARGEST_LOG else math.inf


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Return the value that Student's t with `df` degrees of freedom stays below with probability `p`, 0 < p < 1.

    Returns: a number; infinite where its square would be too large for a float.
    Raises: ValueError unless 0 < p < 1 and df is positive and finite.

    >>> f"{t_quantile(0.975, 2.5):.4f}"
    '3.5747'
    """
    _check(df)
    if p == 0.5:
        return 0.0
    odds = math.log(df) - _beta_quantile(2 * min(p, 1 - p), df / 2, 0.5)
    size = math.exp(odds / 2)
    return size if p > 0.5 else -size


def _check(*degrees: float) -> None:
    """Raise ValueError unless all degrees of freedom are positive and finite."""
    for df in degrees:
        if not 0 < df < math.inf:
            raise ValueError(f"degrees of freedom are positive and finite, not {df}")


def _beta(odds: float, a: float, b: float) -> tuple[float, float]:
    """Return I_x(a, b) and 1 - I_x(a, b) for x = 1 / (1 + exp(-odds)); the smaller one keeps all its digits."""
    x, y = _logistic(odds), _logistic(-odds)
    if x <= (a + 1) / (a + b + 2):
        lower = _density(x, y, a, b) * _fraction(x, a, b) / a
        return lower, 1 - lower
    upper = _density(x, y, a, b) * _fraction(y, b, a) / b
    return 1 - upper, upper


def _logistic(odds: float) -> float:
    """Return 1 / (1 + exp(-odds)), without overflow."""
    return 1 / (1 + math.exp(-odds)) if odds > -LARGEST_LOG else math.exp(odds)


def _density(x: float, y: float, a: float, b: float) -> float:
    """Return x^a y^b / B(a, b) for y = 1 - x: the slope of I_x(a, b) along log(x / y)."""
    if x == 0 or y == 0:
        return 0.0
    n = a + b
    # How far x lies above a / n, times n; from the smaller of x and y, because the larger one has lost digits.
    above = x * n - a if x < y else b - y * n
    exponent = a * _log_ratio(x * n / a, above / a) + b * _log_ratio(y * n / b, -above / b)
    exponent += _stirling_rest(n) - _stirling_rest(a) - _stirling_rest(b)
    return math.exp(exponent) * math.sqrt(a * b / (math.tau * n))


def _log_ratio(ratio: float, excess: float) -> float:
    """Return log(ratio) - excess for ratio = 1 + excess; in `_density` the excesses times a and b add up to 0."""
    return (math.log1p(excess) if abs(excess) < 0.5 else math.log(ratio)) - excess


def _stirling_rest(z: float) -> float:
    """Return the remainder of Stirling's formula for log Gamma(z): its series above 10, the difference below."""
    if z < 10:
        return math.lgamma(z) - ((z - 0.5) * math.log(z) - z + 0.5 * math.log(math.tau))
    square = z * z
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square) / z


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of I_x(a, b), by Lentz's method as modified by Thompson and Barnett (1986)."""
    value = back = 1.0
    front = math.inf
    for step in count(1):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        back = 1 / _not_zero(1 + term * back)
        front = _not_zero(1 + term / front)
        value *= front * back
        if abs(front * back - 1) < LAST_DIGIT:
            break
    return value


def _not_zero(value: float) -> float:
    """Return the value, or a tiny one in place of 0."""
    return value if value != 0 else TINY


def _beta_quantile(p: float, a: float, b: float) -> float:
    """Return log(x / (1 - x)) for I_x(a, b) = p, by Newton's method within a shrinking bracket.

    Returns: plus or minus infinity beyond `LARGEST_LOG`.
    Raises: ValueError unless 0 < p < 1.
    """
    if not 0 < p < 1:
        raise ValueError(f"a quantile needs a probability between 0 and 1, not {p}")
    low, high = -LARGEST_LOG, LARGEST_LOG
    odds = math.log(a / b)
    while high - low > LAST_DIGIT * max(1.0, abs(odds)):
        lower, upper = _beta(odds, a, b)
        excess = lower - p if lower < upper else (1 - p) - upper
        if excess > 0:
            high = odds
        else:
            low = odds
        slope = _density(_logistic(odds), _logistic(-odds), a, b)
        step = excess / slope if slope > 0 else math.inf
        nearer = odds - step
        if abs(step) <= LAST_DIGIT * max(1.0, abs(odds)):
            break
        odds = nearer if low < nearer < high else (low + high) / 2
    return odds if abs(odds) < LARGEST_LOG - 1 else math.copysign(math.inf, odds)
