"""Imported runs scored again: our published rule gives HELM's numbers, and the corrected rule needs no data."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.domain import Instance, Reference, Run
from medhelm.evaluation.rescore import (
    completed,
    library_of,
    rejudge,
    stored_dataset,
    unknown_benchmarks,
    with_data,
)
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import JuryChange
from medhelm.scoring.jury.parsing import published_grades
from medhelm.scoring.metrics import METRICS
from medhelm.storage.judgments import read_replies
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support.exchange.helm import RUNS, change, copy_of, run_folder, taken

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
    dataset = stored_dataset([run], LIBRARY, open_store(store), data=None, limit=None)
    rows = {row["instance_id"]: row for row in read_records(run)}
    compared = 0
    for instance in dataset:
        row = rows[instance.id]
        for metric in run.estimates["published"].keys() & METRICS.keys():
            ours = METRICS[metric].function("published")(row["completion"], instance)
            assert ours == pytest.approx(row[f"{metric}_published"], abs=1e-12), (metric, instance.id)
            compared += 1
    assert compared >= 2 * dataset.n


@pytest.mark.parametrize(("name", "default"), [("medication_qa", 1.0), ("LETTERS", 0.0), ("med_dialog", 1.0)])
def test_our_published_rule_gives_helms_jury_score_from_the_stored_judgments(
    store: Path, name: str, default: float
) -> None:
    run = runs_of(store)[name, A]
    dataset = stored_dataset([run], LIBRARY, open_store(store), data=None, limit=None)
    rubric = dataset.benchmark.rubric
    assert rubric is not None
    assert rubric.published_default == default
    criteria = [criterion.name for criterion in rubric.criteria]
    replies = read_replies(run)
    for row in read_records(run):
        texts = [
            reply.completion.text for (id_, _), own in replies.items() if id_ == row["instance_id"] for reply in own
        ]
        grades = [grade for text in texts if text for grade in published_grades(text, criteria) or []]
        expected = sum(grades) / len(grades) if grades else default
        assert row["jury_published"] == pytest.approx(expected, abs=1e-12)


def test_rescoring_keeps_every_published_number_and_where_it_comes_from(store: Path, rescored: Path) -> None:
    before, after = runs_of(store), runs_of(rescored)
    assert before.keys() == after.keys()
    for key, run in before.items():
        new = after[key]
        assert (new.id, new.origin, new.settings) == (run.id, run.origin, run.settings)
        for metric, estimate in run.estimates["published"].items():
            assert new.estimates["published"][metric].value == pytest.approx(estimate.value, rel=1e-12)
            assert new.estimates["published"][metric].low == pytest.approx(estimate.low, rel=1e-9)
        rows = zip(read_records(run), read_records(new), strict=True)
        for old, now in rows:
            assert all(now[f"{m}_published"] == old[f"{m}_published"] for m in run.estimates["published"])
            assert (old["instance_id"], old["completion"]) == (now["instance_id"], now["completion"])


def test_corrected_numbers_come_without_any_data(rescored: Path) -> None:
    runs = runs_of(rescored)
    assert runs["pubmed_qa", A].estimates["corrected"]["exact_match"].value == pytest.approx(5 / 6)
    assert runs["medec", A].estimates["corrected"]["medec_flag_accuracy"].value == pytest.approx(4 / 6)
    assert runs["clear", A].estimates["corrected"]["exact_match"].value == pytest.approx(3 / 6)
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
    assert run.jury_result is not None
    assert [judge.name for judge in run.jury_result.jury.judges] == ["mock/judge1", "mock/judge2"]
    (old,) = [other for other in load_runs(open_store(tmp_path)) if other.id != run.id]
    new = run.estimates["published"]["jury"].value
    assert new != pytest.approx(old.estimates["published"]["jury"].value)
    replies = read_replies(run)
    sums = []
    for row in read_records(run):
        own = [json.loads(reply.completion.text) for (id_, _), said in replies.items() for reply in said
               if id_ == row["instance_id"] and reply.completion.text]  # fmt: skip
        grades = [int(float(cell["score"])) for verdict in own for cell in verdict.values()]
        sums.append(sum(grades) / len(grades) if grades else 0.0)
    assert new == pytest.approx(sum(sums) / len(sums))


def test_foreign_metrics_stay_as_they_are(tmp_path: Path) -> None:
    folder = copy_of("STAY-RG", tmp_path)

    def more(entries: Any) -> None:
        for place, entry in enumerate(entries):
            entry["stats"].append({"name": {"name": "summac", "split": "test"}, "count": 1, "sum": place - 2.5})

    change(folder, "per_instance_stats.json", more)
    taken(folder, tmp_path / "store")
    (run,) = again(tmp_path / "store")
    assert "summac" in run.estimates["published"]
    assert run.estimates["published"]["summac"].low < run.estimates["published"]["summac"].value
    assert "summac" not in run.estimates["corrected"]
    assert "computed by the harness that made the run" in run.not_computed["summac"]


# --- columns from data ------------------------------------------------------------------------------------------------


def asked(id_: str, text: str, answer: str, **metadata: str) -> Instance:
    return Instance(id=id_, fields={"input": text}, references=(Reference(answer),), metadata=metadata)


def own(id_: str, note: str, question: str, answer: str) -> Instance:
    fields = {"note": note, "question": question}
    return Instance(
        id=id_, fields=fields, references=(Reference(answer),), metadata={"Calculator ID": "6"}, cluster="n"
    )


def test_an_instance_is_recognised_by_its_texts() -> None:
    ours = [
        own("1", "A note.", "BMI?", "22"),
        own("2", "Another note.", "BMI?", "22"),
        own("3", "A  note.", "Age?", "9"),
    ]
    theirs = [
        asked("1", "Patient note: A note.\nQuestion:  BMI?", "22", Category="physical"),
        asked("77", "Patient note: Another note.\n\nQuestion: BMI?", "22"),
        asked("3", "Patient note: A note. Question: Weight?", "9"),
        asked("9", "nothing of ours", "none"),
    ]
    found, n = completed(theirs, ours)
    assert n == 2
    assert dict(found[0].metadata) == {"Calculator ID": "6", "Category": "physical"}
    assert found[0].cluster == "n"
    assert dict(found[1].metadata) == {"Calculator ID": "6"}
    assert (dict(found[2].metadata), dict(found[3].metadata)) == ({}, {})


def test_medcalc_is_computed_with_the_data(tmp_path: Path, data_dir: Path) -> None:
    """Real questions in a run of HELM: what they lack comes from the data folder."""
    from medhelm.benchmarks.data.dataset import open_dataset

    rows = list(open_dataset(LIBRARY["medcalc_bench"], data=data_dir, tier="real", options=SampleOptions(limit=9)))
    folder = copy_of("medcalc_bench", tmp_path)

    def real(state: Any) -> None:
        for one, row in zip(state["request_states"], rows, strict=True):
            one["instance"] |= {"id": row.id, "references": [{"output": {"text": row.correct[0]}, "tags": ["correct"]}]}
            one["instance"]["input"]["text"] = (
                f"Patient note: {row.fields['note']}\n\nQuestion: {row.fields['question']}"
            )
            one["instance"]["extra_data"] = {
                "category": row.metadata["Category"],
                "lower_limit": "0",
                "upper_limit": "1",
            }
            one["result"]["completions"][0]["text"] = row.correct[0]

    def rename(entries: Any) -> None:
        places = {f"{i + 1}": row.id for i, row in enumerate(rows)}
        for entry in entries:
            entry["instance_id"] = places[entry["instance_id"]]

    change(folder, "scenario_state.json", real)
    change(folder, "per_instance_stats.json", rename)
    ((_, run),) = taken(folder, tmp_path / "store").items()
    dataset = stored_dataset([run], LIBRARY, open_store(tmp_path / "store"), data=data_dir, limit=None)
    for instance, row in zip(dataset, rows, strict=True):
        assert instance.metadata["Calculator ID"] == row.metadata["Calculator ID"]
    (again_run,) = rejudge(
        [LIBRARY["medcalc_bench"]], JuryChange(), EvaluationSetup(store=tmp_path / "store", data=data_dir)
    ).runs
    assert again_run.estimates["corrected"]["medcalc_accuracy"].n == 9


def test_data_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    instances = [asked("1", "x", "y")]
    assert with_data(instances, LIBRARY["medcalc_bench"], ["medcalc_accuracy"], tmp_path) == instances
    assert with_data(instances, LIBRARY["pubmed_qa"], ["exact_match"], tmp_path) == instances


def test_a_run_without_its_questions_says_what_to_do(tmp_path: Path) -> None:
    taken(run_folder("WARD-EM"), tmp_path)
    for path in (tmp_path / "instances").glob("*.parquet"):
        path.unlink()
    with pytest.raises(Exception, match="Import the run again"):
        again(tmp_path)


def test_sql_is_executed_where_the_database_is(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the database that HELM had, our published rule gives HELM's numbers."""
    database = tmp_path / "ward.sqlite"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(
            "create table patient (patientid int, age int); insert into patient values (1, 40), (2, 50), (3, 50);"
        )
    run = runs_of(store)["ehrsql", A]
    plain = stored_dataset([run], LIBRARY, open_store(store), data=None, limit=None)
    known = [replace(one, fields={}, metadata={"database": str(database)}) for one in plain]
    monkeypatch.setattr("medhelm.evaluation.rescore.open_dataset", lambda *_, **__: known)
    dataset = stored_dataset([run], LIBRARY, open_store(store), data=tmp_path, limit=None)
    rows = {row["instance_id"]: row for row in read_records(run)}
    for instance in dataset:
        assert instance.metadata["database"] == str(database)
        for metric in ("sql_execution_accuracy", "sql_validity", "sql_precision", "sql_recall"):
            ours = METRICS[metric].function("published")(rows[instance.id]["completion"], instance)
            assert ours == rows[instance.id][f"{metric}_published"], (metric, instance.id)
