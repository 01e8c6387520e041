"""The simulations of agreement and calibration run, and give a row per setting."""

from __future__ import annotations

from bench.studies.clinicians import (
    agreement_table,
    ceiling_table,
    difference_table,
    judge_table,
    pairs_table,
    rater_table,
    selection_table,
    size_table,
    verdict_table,
)


def test_every_table_has_its_rows() -> None:
    for table, rows, runs in (
        (agreement_table, 18, 12),
        (difference_table, 6, 12),
        (rater_table, 9, 12),
        (selection_table, 6, 12),
        (verdict_table, 6, 4),
        (size_table, 6, 2),
        (ceiling_table, 8, 12),
        (pairs_table, 6, 2),
        (judge_table, 4, 2),
    ):
        lines = table(runs).strip().splitlines()
        assert len(lines) == 2 + rows
        assert "nan" not in "".join(lines)
