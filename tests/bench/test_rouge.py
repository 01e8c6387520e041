"""The measurement of ROUGE: its texts, and its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.tools import rouge


@pytest.mark.long
def test_there_are_notes_without_data(tmp_path: Path) -> None:
    notes = rouge.read_notes(tmp_path)
    assert len(set(notes)) == len(notes) == 2000
    assert all(200 <= len(note.split()) <= 900 for note in notes)
    assert rouge.invented_notes(2) == rouge.invented_notes(2)


def test_real_notes_are_taken_where_they_are(data_dir: Path) -> None:
    notes = rouge.read_notes(data_dir)
    assert len(notes) > 1500
    assert 200 < sum(len(note.split()) for note in notes) / len(notes) < 900


def test_every_answer_is_different_and_every_second_one_near_its_reference() -> None:
    notes = rouge.invented_notes(20)
    pairs = rouge.make_pairs(notes, 50)
    assert pairs == rouge.make_pairs(notes, 50)
    assert [reference for reference, _ in pairs[:20]] == notes
    assert len({answer for _, answer in pairs}) == 50
    near = [set(answer.split()) <= set(reference.split()) for reference, answer in pairs]
    assert near[1::2] == [True] * 25
    assert sum(near[::2]) < 10


@pytest.mark.long
def test_figures_of_a_few_pairs() -> None:
    pytest.importorskip("rouge_score", reason="rouge-score is in the group dev")
    found = rouge.compare(rouge.make_pairs(rouge.invented_notes(6), 6), subset=2)
    assert found["pairs"] == 6
    assert found["largest_difference"] == 0
    assert min(found["ours_ms"], found["library_ms"], found["words_per_note"]) > 0


def test_a_subset_larger_than_the_whole_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        rouge.main(["--pairs", "1", "--subset", "2"])
    assert "--subset must be at least 1 and at most --pairs" in capsys.readouterr().err
