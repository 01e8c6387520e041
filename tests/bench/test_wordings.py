"""The study of wordings on the options of real questions; `tests/scoring/test_wordings.py` reads all other ones."""

from __future__ import annotations

from pathlib import Path

from bench.studies.wordings import choice, real_options
from bench.studies.wordings.form import read_all


def test_wordings_are_read_on_real_options(data_dir: Path) -> None:
    readings = read_all(real_options.forms(data_dir, 12), choice.read)
    assert len(readings) > 3_000
    wrong = [(reading.form.text, reading.form.expected, reading.found) for reading in readings if reading.is_wrong]
    unread = [reading.form.text for reading in readings if reading.is_unread]
    assert not wrong
    assert len(unread) < 0.01 * len(readings), unread
