"""Numbers, dates and gestational ages in the forms that models write: none is read wrongly, and few are not read."""

from __future__ import annotations

from types import ModuleType

import pytest

from bench.studies.wordings import date, number, weeks_and_days
from bench.studies.wordings.form import read_all


@pytest.mark.parametrize("reader", [number, date, weeks_and_days], ids=["number", "date", "weeks_and_days"])
def test_no_wording_is_read_wrongly_and_few_are_unread(reader: ModuleType) -> None:
    readings = read_all(reader.FORMS, reader.read)
    wrong = [(one.form.text, one.form.expected, one.found) for one in readings if one.is_wrong]
    unread = [(one.form.text, one.form.expected) for one in readings if one.is_unread]
    assert len(readings) >= 600
    assert sum(one.form.expected is None for one in readings) >= 30
    assert not wrong, f"{len(wrong)} of {len(readings)}: {wrong[:20]}"
    assert len(unread) < 0.01 * len(readings), unread[:20]
