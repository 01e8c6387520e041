"""Numbers for people, in significant digits and in percent."""

from __future__ import annotations

import math

from medhelm.reports.formats.tables import MISSING, decimal


def significant(value: float | None) -> str:
    """Return a number with three significant digits, or all digits before the point; two digits below 0.001.

    >>> significant(0.7), significant(1234.5), significant(0.0), significant(None)
    ('0.700', '1,234', '0', '–')
    >>> significant(0.00009136), significant(2e-9)
    ('0.000091', '<0.000001')
    """
    if value is None:
        return MISSING
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 0.001:
        return f"{value:#.3g}"
    return "<0.000001" if abs(value) < 1e-6 else f"{value:.{1 - math.floor(math.log10(abs(value)))}f}"


def percent(value: float | None) -> str:
    """Return a share as a percentage, with a decimal below 10%.

    >>> percent(0.004), percent(0.5), percent(0.0), percent(None)
    ('0.4%', '50%', '0%', '–')
    """
    if value is None:
        return MISSING
    return f"{value:.1%}" if 0 < value < 0.0995 or 0.9905 < value < 1 else f"{value:.0%}"


SMALLEST = 0.0001
"""P-values below this are shown as `<0.0001`."""


def p_text(p: float | None) -> str | None:
    """Return a p-value for people: four decimals.

    >>> p_text(0.04), p_text(1e-9)
    ('0.0400', '<0.0001')
    """
    return f"<{SMALLEST}" if p is not None and p < SMALLEST else decimal(p, 4)
