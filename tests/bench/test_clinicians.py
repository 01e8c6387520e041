"""The simulations of agreement and calibration run, and give a row per setting."""

from __future__ import annotations

from bench.studies.clinicians import agreement_table, difference_table, rater_table, selection_table


def test_every_table_has_its_rows() -> None:
    for table, rows in ((agreement_table, 18), (difference_table, 6), (rater_table, 9), (selection_table, 6)):
        lines = table(12).strip().splitlines()
        assert len(lines) == 2 + rows
        assert "nan" not in "".join(lines)
