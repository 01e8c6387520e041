"""Marks of references: what they come to, and their file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.domain import Failure, RunStatus
from medhelm.errors import StoreError
from medhelm.extensions.paper.reference_filter.report import (
    REFERENCE_VERDICTS,
    ReferenceMark,
    ReferenceMarks,
    ReferenceOpinion,
    marks_file,
    read_marks,
    write_marks,
)
from medhelm.storage.store import Store, create

TIMEOUT = Failure("judge", "timeout", "no answer in time")
ANSWERS = {"y": True, "n": False, "-": None}


def mark(answers: str) -> ReferenceMark:
    """One judge for each letter: y outside information, n none, - failed."""
    return ReferenceMark(
        tuple(
            ReferenceOpinion(
                judge=f"j{i}",
                outside_prompt=ANSWERS[a],
                failure=TIMEOUT if a == "-" else None,
                explanation="why é\u2028",
            )
            for i, a in enumerate(answers)
        )
    )


def test_more_than_half_of_all_judges_decide() -> None:
    for verdict, opinions in (("set_aside", "y yy-"), ("kept", "n nny"), ("unknown", "yn y- yynn")):
        assert {mark(answers).verdict for answers in opinions.split()} == {verdict}


def marks(**changes: object) -> ReferenceMarks:
    made = ReferenceMarks(
        benchmark="toy",
        benchmark_digest="b" * 64,
        data_digest="d" * 64,
        tier="real",
        selection={"sample": "default", "limit": None, "seed": 0},
        judges=("j0", "j1"),
        prompt_version=1,
        status=RunStatus.COMPLETE,
        started="2026-01-01T00:00:00+00:00",
        by_instance={"q2": mark("nn"), "q0": mark("yy"), "q1": mark("y-"), "q3": mark("--")},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def stored(store: Store) -> ReferenceMarks | None:
    return read_marks(store, "toy", "b" * 64, "d" * 64)


def test_marks_are_counted_and_listed_in_the_order_of_the_data() -> None:
    assert {verdict: marks().ids(verdict) for verdict in REFERENCE_VERDICTS} == {
        "kept": ["q2"],
        "set_aside": ["q0"],
        "unknown": ["q1", "q3"],
    }
    assert marks().failures == {"j0": {"timeout": 1}, "j1": {"timeout": 2}}


def test_what_was_written_is_read_back(store: Store) -> None:
    assert stored(store) is None
    path = write_marks(store, marks())
    assert path is not None
    assert stored(store) == marks()
    assert list(stored(store).by_instance) == ["q2", "q0", "q1", "q3"]  # type: ignore[union-attr]
    for digests in (("c" * 64, "d" * 64), ("b" * 64, "e" * 64)):
        assert read_marks(store, "toy", *digests) is None, "another definition or selection has marks of its own"
    assert read_marks(store, "other", "b" * 64, "d" * 64) is None
    assert path == store.folder / "filters" / f"toy-{'b' * 10}-{'d' * 10}.json"
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["judges"], content["by_instance"]["q0"]["verdict"]) == (["j0", "j1"], "set_aside")


def test_stopped_marks_do_not_take_the_place_of_complete_ones(store: Store) -> None:
    partial = marks(status=RunStatus.PARTIAL, by_instance={"q0": mark("--")})
    write_marks(store, partial)
    assert stored(store) == partial
    write_marks(store, marks())
    assert write_marks(store, partial) is None
    assert stored(store) == marks()
    other = marks(judges=("j0",), by_instance={"q0": mark("n")})
    write_marks(store, other)
    assert stored(store) == other


def test_a_damaged_file_is_named(store: Store) -> None:
    path = marks_file(store, "toy", "b" * 64, "d" * 64)
    path.parent.mkdir()
    for content in ("", "{}", '{"judges": [], "by_instance": {"q": {"opinions": [1]}}}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(StoreError, match=rf"{path.name} is damaged .*Remove it"):
            stored(store)
