"""Imported runs scored again: our published rule gives HELM's numbers, and the corrected rule needs no data."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.domain import Instance, Reference, Run
from medhelm.evaluation.rescore import (
    library_of,
    rejudge,
    stored_dataset,
    unknown_benchmarks,
    with_data,
)
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.stored_settings import JuryChange
from medhelm.scoring.metrics import METRICS
from medhelm.storage.judgments import read_replies
from medhelm.storage.runs import load_runs, read_columns, read_records
from medhelm.storage.store import open_store
from tests.support.exchange.helm import RUNS, run_folder, taken

LIBRARY = library_of()
A = "mock/writer-a"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all runs, as they were imported."""
    place = tmp_path_factory.mktemp("imported") / "store"
    taken(RUNS, place)
    return place


@pytest.fixture(scope="module")
def rescored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after `rescore`."""
    place = tmp_path_factory.mktemp("rescored") / "store"
    taken(RUNS, place)
    again(place)
    return place


def again(place: Path, change: JuryChange | None = None, models: tuple[str, ...] = ()) -> list[Run]:
    store = open_store(place)
    benchmarks = {benchmark.name: benchmark for benchmark in LIBRARY.values()}
    benchmarks |= {benchmark.name: benchmark for benchmark in unknown_benchmarks(store, load_runs(store), ())}
    return list(
        rejudge(list(benchmarks.values()), change or JuryChange(), EvaluationSetup(store=place), models=models).runs
    )


def runs_of(place: Path) -> dict[tuple[str, str], Run]:
    return {(run.benchmark, run.model): run for run in load_runs(open_store(place))}


FAMILIES = ["medcalc_bench", "pubmed_qa", "medec", "mimic_iv_billing_code", "WARD-EM", "STAY-RG", "clear", "med_dialog"]


@pytest.mark.parametrize("name", FAMILIES)
def test_our_published_rule_gives_helms_number_on_every_instance(store: Path, name: str) -> None:
    run = runs_of(store)[name, A]
    rows = {row["instance_id"]: row for row in read_records(run)}
    metrics = run.estimates["published"].keys() & METRICS.keys()
    assert len(metrics) >= 2
    for instance in stored_dataset([run], LIBRARY, open_store(store), data=None, limit=None):
        row = rows.pop(instance.id)
        for metric in metrics:
            ours = METRICS[metric].function("published")(row["completion"], instance)
            assert ours == pytest.approx(row[f"{metric}_published"], abs=1e-12), (metric, instance.id)
    assert rows == {}


def test_rescoring_keeps_every_published_number_and_where_it_comes_from(store: Path, rescored: Path) -> None:
    before, after = runs_of(store), runs_of(rescored)
    assert before.keys() == after.keys()
    for key, run in before.items():
        new = after[key]
        assert (new.id, new.origin, new.settings) == (run.id, run.origin, run.settings)
        for metric, estimate in run.estimates["published"].items():
            again = new.estimates["published"][metric]
            assert (again.value, again.low) == pytest.approx((estimate.value, estimate.low), rel=1e-9)
        columns = ["instance_id", "completion", *(f"{metric}_published" for metric in run.estimates["published"])]
        assert read_columns(new, columns) == read_columns(run, columns)


def test_corrected_numbers_come_without_any_data(rescored: Path) -> None:
    runs = runs_of(rescored)
    for name, metric, value in (
        ("pubmed_qa", "exact_match", 5 / 6),
        ("medec", "medec_flag_accuracy", 4 / 6),
        ("clear", "exact_match", 3 / 6),
    ):
        assert runs[name, A].estimates["corrected"][metric].value == pytest.approx(value)
    assert "corrected" in runs["med_dialog", A].groups["icliniq"]
    letters = runs["LETTERS", A]
    assert letters.jury_result is not None
    assert letters.estimates["corrected"]["jury"].n_failed == letters.jury_result.n_too_few_judges == 2
    assert set(letters.jury_result.subscores) == {"accuracy", "completeness", "clarity"}


@pytest.mark.parametrize(
    ("name", "metric", "column"),
    [("medcalc_bench", "medcalc_accuracy", "Calculator ID"), ("ehrsql", "sql_execution_accuracy", "database")],
)
def test_what_the_files_do_not_hold_is_not_computed_and_never_nought(
    rescored: Path, name: str, metric: str, column: str
) -> None:
    run = runs_of(rescored)[name, A]
    assert metric not in run.estimates["corrected"]
    assert metric in run.estimates["published"]
    assert f"`{column}`" in run.not_computed[metric]
    assert "--data" in run.not_computed[metric]
    assert all(row[f"{metric}_corrected"] is None for row in read_records(run))


def test_a_judge_less_is_a_jury_of_our_own_and_its_published_score_is_computed(tmp_path: Path) -> None:
    taken(run_folder("LETTERS:model=mock_writer-a"), tmp_path)
    (run,) = again(tmp_path, JuryChange(without=("mock/judge3",)))
    assert run.origin is not None
    assert [judge.name for judge in run.judges] == ["mock/judge1", "mock/judge2"]
    (old,) = [other for other in load_runs(open_store(tmp_path)) if other.id != run.id]
    new = run.estimates["published"]["jury"].value
    assert new != pytest.approx(old.estimates["published"]["jury"].value)
    grades: dict[str, list[int]] = {id_: [] for id_ in read_columns(run, ["instance_id"])["instance_id"]}
    for (id_, _), replies in read_replies(run).items():
        for text in (reply.completion.text for reply in replies):
            grades[id_] += [int(float(cell["score"])) for cell in json.loads(text).values()] if text else []
    assert new == pytest.approx(fmean(fmean(own) if own else 0.0 for own in grades.values()))


# --- columns from data ------------------------------------------------------------------------------------------------


def test_real_questions_get_from_the_data_folder_what_they_lack(tmp_path: Path, data_dir: Path) -> None:
    """They are recognized by their texts, whatever their ids are."""
    medcalc, metrics = LIBRARY["medcalc_bench"], ["medcalc_accuracy"]
    rows = list(open_dataset(medcalc, data=data_dir, tier="real", options=SampleOptions(limit=9)))
    imported = [
        Instance(
            id=f"other {row.id}",
            fields={"input": f"Patient note: {row.fields['note']}\n\nQuestion:  {row.fields['question']}"},
            references=(Reference(row.correct[0]),),
            metadata={"Category": "physical"},
        )
        for row in rows
    ]
    unknown = Instance(id=rows[0].id, fields={"input": "nothing of ours"}, references=(Reference("none"),))
    *found, last = with_data([*imported, unknown], medcalc, metrics, data_dir)
    assert [(one.metadata["Calculator ID"], one.metadata["Category"], one.cluster) for one in found] == [
        (row.metadata["Calculator ID"], "physical", row.cluster) for row in rows
    ]
    assert last.metadata == {}
    assert with_data(imported, medcalc, metrics, tmp_path) == imported, "without the data"
    assert with_data(imported, LIBRARY["pubmed_qa"], ["exact_match"], tmp_path) == imported, "nothing is lacking"
