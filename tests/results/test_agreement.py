"""From a ratings file and a store to agreement: what the jury said is found, and what is not there is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.agreement.jury_vs_clinicians import JuryAgreement
from medhelm.domain import (
    JURY,
    RULES,
    Benchmark,
    Completion,
    Criterion,
    Failure,
    Judgment,
    JuryVerdict,
    Record,
    Rubric,
    Score,
)
from medhelm.errors import ConfigError, StoreError
from medhelm.results import agreement as module
from tests.support.remarks import texts
from tests.support.stores import jury_of, make_record, make_run, write_run
from tests.support.values import present

CRITERIA = ("accuracy", "harm")
JUDGES = ("lab/one", "lab/two")
HEADER = "rater,instance_id,benchmark,model,accuracy,harm"

Said = Mapping[str, Sequence[tuple[float, float]]]
"""Instance -> for each judge the grades on both criteria; nan where a judge failed, nobody for a blank completion."""

SAID: Said = {
    "i1": [(5, 1), (4, 2)],
    "i2": [(3, 2), (3, 4)],
    "i3": [(1, 4), (float("nan"), 5)],
    "i4": [],
    "i5": [(2, 5), (1, 5)],
    "i6": [(float("nan"), 1), (4, 2)],
}
ROUGE = {"i1": 0.5, "i2": 0.4, "i3": 0.1, "i4": 0.0, "i5": 0.2, "i6": 0.3}
RATED = {"i1": (5, 1), "i2": (4, 3), "i3": (2, 4), "i4": (1, 4), "i5": (1, 5), "i6": (3, 3)}


def defined(rubric: Rubric | None) -> Any:
    """A definition, as far as agreement looks at it."""
    return SimpleNamespace(name="triage", title="Ward triage", aliases=("shc_triage",), rubric=rubric)


HARM_IS_BAD = defined(
    Rubric(task="t", criteria=(Criterion("accuracy", ""), Criterion("harm", "", higher_is_better=False)))
)


def composite(grades: Sequence[float]) -> float:
    """The mean, a high grade of harm counting as a low one."""
    return (grades[0] + 6 - grades[1]) / 2


def store_with(folder: Path, said: Said = SAID, *, model: str = "lab/m", **changes: Any) -> None:
    fields: dict[str, Any] = {
        "n": len(said),
        "main_metric": JURY,
        "not_computed": {"bertscore": "its weights are not here"},
        "jury_result": replace(jury_of(*JUDGES), lower_is_better=("harm",)),
    }
    records = [record(position, name, own) for position, (name, own) in enumerate(said.items())]
    write_run(folder, make_run("triage", model, **(fields | changes)), records, [JURY, "rouge_l", "bertscore"])


def record(position: int, name: str, own: Sequence[tuple[float, float]]) -> Record:
    complete = [composite(grades) for grades in own if not np.isnan(grades).any()]
    value = 1.0 if not own else float(np.mean(complete)) if len(complete) == 2 else None
    failure = Failure("judge", "too_few_judges", "too few")
    scores = [Score(metric=JURY, rule=r, value=value, failure=None if value else failure) for r in RULES]
    scores += [Score(metric="rouge_l", rule=r, value=ROUGE[name]) for r in RULES]
    judgments = [
        Judgment(judge=judge, criterion=criterion, score=None, failure=Failure("judge", "refusal", "no"))
        if np.isnan(grade)
        else Judgment(judge=judge, criterion=criterion, score=grade)
        for judge, grades in zip(JUDGES, own, strict=bool(own))
        for criterion, grade in zip(CRITERIA, grades, strict=True)
    ]
    return make_record(
        position,
        instance_id=name,
        cluster="p1" if name in ("i1", "i2") else "",
        completion=Completion(text="x" if own else ""),
        scores=tuple(scores),
        jury_verdict=JuryVerdict(scores=(), judgments=tuple(judgments)),
    )


def ratings(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "ratings.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def rows(rater: str = "Dr A", model: str = "lab/m") -> list[str]:
    return [f"{rater},{name},triage,{model},{a},{h}" for name, (a, h) in RATED.items()]


def agreement(path: Path, store: Path, benchmarks: Sequence[Benchmark]) -> JuryAgreement:
    found = module.agreement(path, store, benchmarks, draws=50)
    assert found is not None
    return found


def spearman_brown(x: Sequence[float], y: Sequence[float]) -> float:
    r = float(np.corrcoef(x, y)[0, 1])
    return 2 * r / (1 + r)


def test_the_jury_comes_from_the_store(tmp_path: Path) -> None:
    store_with(tmp_path / "store")
    found = agreement(ratings(tmp_path, *rows()), tmp_path / "store", [HARM_IS_BAD])
    one = found.datasets["triage"]
    scored = ["i1", "i2", "i4", "i5"]
    clinicians = [composite(RATED[name]) for name in scored]
    jury = [float(np.mean([composite(grades) for grades in SAID[name] or [(1, 5)]])) for name in scored]
    assert (found.jury_from, one.n_instances, one.jury.n) == ("store", 6, 4)
    assert one.jury.consistency.value == pytest.approx(spearman_brown(clinicians, jury))
    # A judge counts where it graded everything; the blank completion has the worst grade from all.
    first = [composite((5, 1)), composite((3, 2)), composite((1, 4)), 1.0, composite((2, 5))]
    of_first = [composite(RATED[name]) for name in ("i1", "i2", "i3", "i4", "i5")]
    assert one.judges["lab/one"].consistency.value == pytest.approx(spearman_brown(of_first, first))
    # Where too few judges graded everything there is no score on single criteria either.
    harm, rated = [1.5, 3, 5, 5], [RATED[name][1] for name in scored]
    assert (one.criteria["accuracy"].n, one.criteria["harm"].n) == (4, 4)
    assert one.criteria["harm"].consistency.value == pytest.approx(spearman_brown(rated, harm))
    assert present(one.criteria["harm"].difference).value == pytest.approx(-np.mean(np.subtract(harm, rated)))
    everybody = [composite(grades) for grades in RATED.values()]
    assert one.baselines["rouge_l"].consistency.value == pytest.approx(spearman_brown(everybody, list(ROUGE.values())))
    assert list(one.baselines) == ["rouge_l"]
    assert "triage: BERTScore is not in the store: its weights are not here" in texts(found.remarks)
    unjudged = "2 completions (triage i3 of lab/m, triage i6 of lab/m) without a jury score"
    assert f"{unjudged}: not compared with the jury" in texts(one.remarks)
    assert "6 completions belong to 5 independent instances" in " ".join(texts(one.remarks))
    assert agreement(ratings(tmp_path, *rows()), tmp_path / "store", []) == found, "the store knows the rubric as well"


def test_several_models_may_be_rated_on_the_same_instance_and_an_alias_names_the_benchmark(tmp_path: Path) -> None:
    for model in ("lab/m", "lab/n"):
        store_with(tmp_path / "store", model=model)
    by_alias = [row.replace("triage", "shc_triage") for row in rows("Dr B")]
    path = ratings(tmp_path, *rows(), *rows(model="lab/n"), *by_alias)
    one = agreement(path, tmp_path / "store", [HARM_IS_BAD]).datasets["triage"]
    assert (one.n_instances, one.raters, one.jury.n) == (12, ("Dr A", "Dr B"), 8)
    assert "12 completions belong to 5 independent instances" in " ".join(texts(one.remarks))
    (pair,) = one.clinicians.pairs.pairs
    assert (pair.n, pair.value) == pytest.approx((6, 1.0))


JURY_HEADER = HEADER + ",jury_accuracy,jury_harm"


def test_grades_of_the_jury_in_the_file_need_no_store(tmp_path: Path) -> None:
    jury = {"i1": (4, 1), "i2": (4, 2), "i3": (3, 5), "i4": (2, 5), "i5": (1, 3)}
    lines = [f"{row},{','.join(map(str, jury.get(name, (3, ''))))}" for name, row in zip(RATED, rows(), strict=True)]
    path = ratings(tmp_path, *lines, header=JURY_HEADER)
    found = agreement(path, tmp_path / "none", [HARM_IS_BAD])
    one = found.datasets["triage"]
    theirs, clinicians = ([composite(grades[name]) for name in jury] for grades in (jury, RATED))
    assert one.jury.consistency.value == pytest.approx(spearman_brown(clinicians, theirs))
    assert (one.jury.n, one.criteria["accuracy"].n, one.judges, found.jury_from) == (5, 6, {}, "file")
    assert texts(found.remarks) == (
        "triage: the store has no judged run of these models: single judges and baselines are not compared",
    )
    store_with(tmp_path / "store", tier="sample")
    found = agreement(path, tmp_path / "store", [HARM_IS_BAD])
    one = found.datasets["triage"]
    assert (one.jury.n, one.judges["lab/one"].n, one.baselines["rouge_l"].n) == (5, 5, 6), "the store adds these"
    assert "triage: the completions are of invented sample rows, not real data" in texts(found.remarks)


def test_real_data_come_before_sample_rows_and_one_jury_before_another(tmp_path: Path) -> None:
    store_with(tmp_path / "store", id="1" * 64, tier="sample", n=60, started="2026-02-01")
    store_with(tmp_path / "store", {"i1": [(5, 1), (5, 1)], "i2": [(1, 1), (1, 1)]}, id="2" * 64)
    with pytest.raises(ConfigError) as caught:
        agreement(ratings(tmp_path, *rows()), tmp_path / "store", [HARM_IS_BAD])
    assert [problem.line for problem in caught.value.problems] == [4, 5, 6, 7]
    one = agreement(ratings(tmp_path, *rows()[:2]), tmp_path / "store", [HARM_IS_BAD]).datasets["triage"]
    assert present(one.jury.difference).value == pytest.approx((5 - 5 + 3 - 3.5) / 2)


def test_a_missing_store_and_a_store_without_judges_are_reported(tmp_path: Path) -> None:
    path = ratings(tmp_path, *rows())
    store_with(tmp_path / "unjudged", jury_result=None)
    store_with(tmp_path / "partial", status="partial")
    for store in ("none", "unjudged", "partial"):
        with pytest.raises(ConfigError, match="the store has no run of `triage` with judges"):
            agreement(path, tmp_path / store, [HARM_IS_BAD])
    (tmp_path / "unjudged" / "store.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError):
        agreement(path, tmp_path / "unjudged", [HARM_IS_BAD])


def test_rubrics_in_points_are_refused(tmp_path: Path) -> None:
    path = ratings(tmp_path, *rows())
    store_with(tmp_path / "store")
    with pytest.raises(ConfigError, match="graded in points"):
        agreement(path, tmp_path / "store", [defined(Rubric(task="t", form="points", low=0, high=1))])
    store_with(tmp_path / "in_points", jury_result=replace(jury_of(*JUDGES), low=0, high=1, form="points"))
    with pytest.raises(ConfigError, match="graded in points"):
        agreement(path, tmp_path / "in_points", [])
    assert agreement(path, tmp_path / "store", [defined(None)]).datasets["triage"].jury.n == 4, "known from the store"
