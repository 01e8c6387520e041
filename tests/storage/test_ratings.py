"""Frozen ratings in a store: what is frozen is read again, never changed, and not used once somebody changed it."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain.study import CardCriterion, CardDesign, CardInstrument, CardRater, StudyCard
from medhelm.errors import StoreError, UserError
from medhelm.storage.ratings import (
    StoredRating,
    _csv,
    _parsed_rows,
    completion_digest,
    damaged_ratings,
    freeze_ratings,
    remove_rated_instances,
    stored_ratings,
)
from medhelm.storage.store import Store, create

CARD = StudyCard(
    name="ward-2026",
    title="Discharge letters on two wards",
    instrument=CardInstrument(
        name="three_axes",
        title="Three axes",
        version="1",
        digest="0" * 64,
        is_rubric=True,
        criteria={
            "accuracy": CardCriterion(low=1, high=5, question="Is it correct?"),
            "harm": CardCriterion(low=1, high=5, higher_is_better=False),
        },
    ),
    raters=(CardRater(id="R1", role="nurse"), CardRater(id="R2"), CardRater(id="R3")),
    design=CardDesign(n_cases=2, n_shared=1, seed=7, precision=0.3),
    blinding=("Names of models were hidden.",),
)


def row(rater: str = "R1", instance_id: str = "i1", **more: object) -> StoredRating:
    """Return a rating of an invented completion."""
    given = {"grades": {"accuracy": 4, "harm": None}, "completion_sha256": completion_digest("Yes."), **more}
    return StoredRating(rater=rater, benchmark="toy", instance_id=instance_id, model="m/a", **given)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def test_frozen_ratings_are_read_again_by_their_owner_alone_and_never_change(store: Store) -> None:
    rows = (row(), row("R2", probability=0.25), row("R1", "i2"))
    frozen = freeze_ratings(store, CARD, rows)
    assert stored_ratings(store) == [frozen]
    assert frozen.rows == rows
    assert [(one.id, one.n_ratings) for one in frozen.card.raters] == [("R1", 2), ("R2", 1), ("R3", 0)]
    assert (frozen.card.benchmarks, frozen.card.models) == (("toy",), ("m/a",))
    assert {stat.S_IMODE(path.stat().st_mode) for path in frozen.path.parent.iterdir()} == {0o600}
    with pytest.raises(UserError, match="never change"):
        freeze_ratings(store, CARD, rows[:1])
    assert stored_ratings(store) == [frozen]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([], "has no ratings"),
        ([row("R9")], "no rater `R9`"),
        ([row(), row()], "more than once"),
        ([row(grades={"accuracy": 6})], "from 1 to 5"),
        ([row(grades={"accuracy": float("nan")})], "from 1 to 5"),
        ([row(grades={"tone": 3})], "no criterion `tone`"),
        ([row(probability=0.0)], "above 0"),
    ],
)
def test_a_wrong_rating_is_named_and_nothing_is_frozen(store: Store, wrong: list[StoredRating], text: str) -> None:
    with pytest.raises(UserError, match=text):
        freeze_ratings(store, CARD, wrong)
    assert [*stored_ratings(store), *damaged_ratings(store)] == []


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 81])
def test_a_name_is_that_of_a_folder(store: Store, name: str) -> None:
    with pytest.raises(UserError, match="cannot be named"):
        freeze_ratings(store, replace(CARD, name=name), [row()])


def change_card(path: Path, **values: object) -> None:
    """Change the card of a study."""
    card = path.with_name("study.json")
    card.write_text(json.dumps({**json.loads(card.read_text()), **values}))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda path: path.write_text(path.read_text().replace("4", "5")), "changed after it was frozen"),
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.with_name("study.json").write_text("{"), "Expecting"),
        (lambda path: change_card(path, medhelm_study=2), "has version 2"),
        (lambda path: change_card(path, name="another"), "card is that of `another`"),
        (lambda path: change_card(path, surprise=1), "surprise"),
    ],
)
def test_changed_or_damaged_ratings_are_named_and_not_used(
    store: Store, damage: Callable[[Path], object], text: str
) -> None:
    good, bad = (freeze_ratings(store, replace(CARD, name=name), [row()]) for name in ("good", "bad"))
    damage(bad.path)
    assert stored_ratings(store) == [good]
    [sentence] = damaged_ratings(store)
    assert text in sentence
    assert str(bad.path.parent) in sentence
    with pytest.raises(StoreError, match="are not used"):
        remove_rated_instances(store, "toy", ["i1"])


def test_ratings_of_deleted_instances_go_and_the_card_says_so(store: Store) -> None:
    freeze_ratings(store, CARD, [row(), row("R2"), row("R1", "i2")])
    freeze_ratings(store, replace(CARD, name="other"), [row("R1", "i2")])
    assert remove_rated_instances(store, "elsewhere", None) == 0
    assert remove_rated_instances(store, "toy", []) == 0
    assert remove_rated_instances(store, "toy", ["i1"]) == 2
    other, found = stored_ratings(store)
    assert [(one.rater, one.instance_id) for one in found.rows] == [("R1", "i2")]
    assert "2 ratings of 1 instance of toy" in found.card.deviations[0]
    assert other.card.deviations == ()
    assert remove_rated_instances(store, "toy", None) == 2
    assert [one.rows for one in stored_ratings(store)] == [(), ()]


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXT, TEXT, st.floats(1, 5) | st.none())))
def test_any_name_and_grade_is_read_as_it_was_written(names: list[tuple[str, str, float | None]]) -> None:
    rows = tuple(row(rater, instance, grades={"accuracy": grade, "harm": None}) for rater, instance, grade in names)
    assert _parsed_rows(_csv(CARD, rows).decode(), CARD.instrument.criteria) == rows
