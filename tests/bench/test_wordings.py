"""The study of wordings: how it counts, and what the readers must read."""

from __future__ import annotations

import pytest

from bench.studies.wordings import __main__ as study
from bench.studies.wordings.form import Form, read_all


def test_readings_are_right_wrong_or_unread() -> None:
    found = {"right": 1, "wrong": 2, "unread": None, "nothing": None, "invented": 3}
    expected = {"right": 1, "wrong": 1, "unread": 1, "nothing": None, "invented": None}
    forms = [Form(text=text, expected=value) for text, value in expected.items()]
    readings = read_all(forms, lambda form: found[form.text])
    assert [reading.form.text for reading in readings if reading.is_wrong] == ["wrong", "invented"]
    assert [reading.form.text for reading in readings if reading.is_unread] == ["unread"]


def test_the_study_shows_failures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from bench.studies.wordings import choice

    monkeypatch.setattr(choice, "read", lambda form: 0)
    assert study.main(["choice", "--show", "1"]) == 1
    table, failure = capsys.readouterr().out.split("\n\n")
    reader, forms, right, wrong, unread = table.splitlines()[-1].split()
    assert (reader, unread) == ("choice", "0")
    assert int(forms) == int(right) + int(wrong) == len(choice.FORMS)
    assert "expected" in failure
