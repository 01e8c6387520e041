"""Linearize metrics that are not means over instances: precision, balanced accuracy, F1, means of groups.

All of them have one form. Every instance contributes a numerator and a denominator to some labels; the number is the
mean over labels of the ratios of their sums:

    precision, recall, micro F1   one label for all
    balanced accuracy             a label for each class
    macro F1                      a label for each class, and each instance to several
    means of groups               a label for each group

Linearized values (Woodruff 1971, J. Am. Stat. Assoc. 66) carry such a number through everything that is made for means:
their mean is the number itself, and their spread gives its standard error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.domain import Parts

DIGITS = 12
"""Linearized values are rounded to so many decimals, so that a 1 among them is one."""


def linearized(values: Floats, parts: Sequence[Parts] | None) -> Floats:
    """Values whose mean is the number that `parts` make.

    Parameters: values, shape (n,), each instance's own score, nan for a failure; parts, n of them, those of failures
    not looked at; None if the number is the mean of the scores, which then are returned as they are.
    Returns: shape (n,), nan for failures; all nan if no label has a denominator, for then there is no number.

    >>> float(linearized(np.array([1.0, 0.0, 1.0]), [{"a": (1, 1)}, {"a": (0, 1)}, {"b": (1, 1)}]).mean())
    0.75
    """
    if parts is None:
        return values
    scored = np.flatnonzero(~np.isnan(values))
    labels: dict[str, int] = {}
    entries = [
        (row, labels.setdefault(label, len(labels)), *pair)
        for row, i in enumerate(scored.tolist())
        for label, pair in parts[i].items()
    ]
    result = np.full(len(values), np.nan)
    if not entries:
        return result
    rows, columns, numerators, denominators = (np.array(column) for column in zip(*entries, strict=True))
    columns = columns.astype(int)
    above = np.bincount(columns, numerators, len(labels))
    below = np.bincount(columns, denominators, len(labels))
    defined = below > 0
    if not defined.any():
        return result
    ratios = np.divide(above, below, out=np.zeros(len(labels)), where=defined)
    weights = np.divide(len(scored), below * defined.sum(), out=np.zeros(len(labels)), where=defined)
    shares = (numerators - ratios[columns] * denominators) * weights[columns]
    spread = np.bincount(rows.astype(int), shares, len(scored))
    result[scored] = np.round(ratios[defined].mean() + spread, DIGITS)
    return result
