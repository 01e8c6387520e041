"""The study of wordings: how it counts, and what the readers must read."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from bench.studies.wordings import __main__ as study
from bench.studies.wordings import choice, real_options
from bench.studies.wordings.form import Reading, read_all


def check(readings: list[Reading]) -> None:
    """Check that nothing is read wrongly, and fewer than 1% not at all."""
    wrong = [(reading.form.text, reading.form.expected, reading.found) for reading in readings if reading.is_wrong]
    unread = [reading.form.text for reading in readings if reading.is_unread]
    assert not wrong
    assert len(unread) < 0.01 * len(readings), unread


@pytest.mark.parametrize("reader", study.READERS)
def test_wordings_are_read(reader: str) -> None:
    module = import_module(f"bench.studies.wordings.{reader}")
    assert len(module.FORMS) >= (400 if reader == "chat" else 600)
    check(read_all(module.FORMS, module.read))


def test_wordings_are_read_on_real_options(data_dir: Path) -> None:
    readings = read_all(real_options.forms(data_dir, 12), choice.read)
    assert len(readings) > 3_000
    check(readings)
