"""Runs of HELM in a store: numbers to the last digit, names, groups, and folders that changed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Run
from medhelm.errors import UserError
from medhelm.evaluation.rescore import library_of
from medhelm.extensions.exchange.helm.importer import import_helm
from medhelm.extensions.exchange.importer import ImportedRun, ImportedRunResult, NameMap, RunImporter
from medhelm.storage.judgments import read_judgments, read_replies
from medhelm.storage.runs import load_runs, read_messages, read_records
from medhelm.storage.store import create, open_store
from tests.support.exchange.helm import RUNS, by_name, change, content, copy_of, read, run_folder, taken

LIBRARY = library_of()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all runs of one version."""
    place = tmp_path_factory.mktemp("imported") / "store"
    taken(RUNS, place)
    return place


@pytest.fixture(scope="module")
def runs(store: Path) -> dict[tuple[str, str], Run]:
    return {(run.benchmark, run.model): run for run in load_runs(open_store(store))}


A = "mock/writer-a"

PAIRS = [
    ("medcalc_bench", "medcalc_bench:", {"medcalc_accuracy": "medcalc_bench_accuracy", "exact_match": "exact_match"}),
    ("medec", "medec:model=mock_writer-a", {
        "medec_flag_accuracy": "medec_error_flag_accuracy",
        "medec_sentence_accuracy": "medec_error_sentence_accuracy"}),
    ("medication_qa", "medication_qa", {"jury": "medication_qa_accuracy", "rouge_l": "rouge_l", "rouge_2": "rouge_2"}),
    ("ehrsql", "ehr_sql", {
        "sql_execution_accuracy": "ehr_sql_execution_accuracy", "sql_validity": "ehr_sql_query_validity",
        "sql_precision": "ehr_sql_precision_answerable", "sql_recall": "ehr_sql_recall_answerable"}),
    ("mimic_iv_billing_code", "mimiciv_billing_code:model=mock_writer-a", {"icd_f1": "mimiciv_billing_code_f1"}),
    ("LETTERS", "LETTERS:model=mock_writer-a", {"jury": "jury_score"}),
]  # fmt: skip
"""Benchmark here, run there, and metric here -> metric there; the first is the main one."""


@pytest.mark.parametrize(("benchmark", "start", "metrics"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_published_numbers_are_helms_own_to_the_last_digits(
    runs: dict[tuple[str, str], Run], benchmark: str, start: str, metrics: dict[str, str]
) -> None:
    run = runs[benchmark, A]
    assert run.main_metric == next(iter(metrics))
    assert (run.status, run.requests_sent, run.cost_usd, run.estimates["corrected"]) == ("complete", 0, None, {})
    records = list(read_records(run))
    entries = content(run_folder(start), "per_instance_stats.json")
    stats = [
        (entry["instance_id"], stat["name"]["name"], stat.get("mean")) for entry in entries for stat in entry["stats"]
    ]
    for ours, theirs in metrics.items():
        scores = {instance_id: mean for instance_id, name, mean in stats if name == theirs}
        assert {row["instance_id"]: row[f"{ours}_published"] for row in records} == scores
        mean = sum(scores.values()) / len(scores)
        assert run.estimates["published"][ours].value == pytest.approx(mean, rel=1e-13)


def test_prompts_are_unchanged_and_shared_by_models(store: Path, runs: dict[tuple[str, str], Run]) -> None:
    run = runs["pubmed_qa", A]
    found = read_messages(open_store(store).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest))
    asked = content(run_folder("pubmed_qa:model=mock_writer-b"), "scenario_state.json")["request_states"]
    assert found == {one["instance"]["id"]: [{"role": "user", "content": one["request"]["prompt"]}] for one in asked}
    for folder in ("prompts", "instances"):
        assert len(list((store / folder).glob("pubmed_qa-*.parquet"))) == 1


def test_parts_of_a_benchmark_become_groups_of_one_run(runs: dict[tuple[str, str], Run]) -> None:
    rows = [(row["group"], row["instance_id"]) for row in read_records(runs["clear", A])]
    parts = {"homelessness": 4, "liver_disease": 2}
    assert rows == [(part, f"{part}/id{i}") for part, n in parts.items() for i in range(n)]
    dialog = runs["med_dialog", A]
    assert dialog.origin is not None
    assert [name.partition(",subset=")[2][:7] for name in dialog.origin.run.split(" + ")] == ["healthc", "icliniq"]
    assert len(dialog.origin.sha256) == 64
    means = []
    for part in ("healthcaremagic", "icliniq"):
        stats = content(run_folder(f"med_dialog,subset={part}"), "stats.json")
        means += [s["mean"] for s in stats if s["name"] == {"name": "med_dialog_accuracy", "split": "test"}]
        assert dialog.groups[part]["published"] == pytest.approx(means[-1], rel=1e-13)
    assert dialog.estimates["published"]["jury"].value == pytest.approx(sum(means) / 2, rel=1e-11)


def test_judgments_and_what_is_missing_of_them(runs: dict[tuple[str, str], Run]) -> None:
    run = runs["LETTERS", A]
    assert run.jury_result is not None
    result, n_missing = run.jury_result, sum(code != "" for code in read_judgments(run).failures)
    assert (result.low, result.high, result.jury.min_judges, result.n_blank) == (1.0, 5.0, 2, 1)
    assert n_missing == sum(tally.failed for tally in result.tallies.values()) == 15
    assert sum(tally.expected for tally in result.tallies.values()) == 9 * 3 * 3
    assert len(read_replies(run)) == 9 * 3


def test_the_same_folder_again_changes_nothing(store: Path, runs: dict[tuple[str, str], Run]) -> None:
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()}
    again = import_helm(RUNS.parent, store=store)
    assert {one.state for one in again.taken} == {"unchanged"}
    assert by_name(again) == runs
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()} == before


def test_several_processes_give_what_one_gives(tmp_path: Path, runs: dict[tuple[str, str], Run]) -> None:
    done = by_name(import_helm(RUNS, store=tmp_path / "store", processes=2))
    assert {name: replace(run, folder=None) for name, run in done.items()} == {
        name: replace(run, folder=None) for name, run in runs.items()
    }
    assert all(list(read_records(run)) == list(read_records(runs[name])) for name, run in done.items())


def test_changed_files_replace_the_earlier_run(tmp_path: Path) -> None:
    folder, store = copy_of("WARD-EM", tmp_path / "out"), tmp_path / "store"
    import_helm(folder, store=store)

    def other(data: Any) -> None:
        data["request_states"][0]["instance"]["input"]["text"] = "Another question."
        data["request_states"][0]["result"] = {"success": False, "error": "no", "completions": []}

    change(folder, "scenario_state.json", other)
    (again,) = import_helm(folder, store=store).taken
    assert again.state == "changed"
    assert load_runs(open_store(store)) == [again.run]
    assert (again.run.n, again.run.n_failed, dict(again.run.failures)) == (6, 1, {"request_failed": 1})
    row = next(read_records(again.run))
    assert (row["completion"], row["failure_code"]) == (None, "request_failed")
    assert row["exact_match_published"] is not None
    assert import_helm(folder, store=store).taken[0].state == "unchanged"


def test_one_broken_part_does_not_stop_the_others(tmp_path: Path) -> None:
    for start in ("WARD-EM", "clear:condition=home", "clear:condition=liver"):
        folder = copy_of(start, tmp_path)
    (folder / "stats.json.gz").write_bytes(b"")
    done = import_helm(tmp_path, store=tmp_path / "store")
    assert {one.run.benchmark: one.run.n for one in done.taken} == {"WARD-EM": 6, "clear": 4}
    assert [name for name, _ in done.skipped] == [f"v1/{folder.name}"]
    (remarks,) = [" ".join(one.remarks) for one in done.taken if one.run.benchmark == "clear"]
    assert "liver_disease" in remarks and "was left out" in remarks
    assert "only the part homelessness" in remarks


def test_of_two_runs_with_the_same_name_the_first_is_imported(tmp_path: Path) -> None:
    """One of them would otherwise pass for a changed copy of the other."""
    first, _ = (copy_of("WARD-EM", tmp_path / "out" / place) for place in ("a", "b"))
    done = import_helm(tmp_path / "out", store=tmp_path / "store")
    assert [one.run.origin and one.run.origin.run for one in done.taken] == [f"v1/{first.name}"]
    ((name, reason),) = done.skipped
    assert name == f"v1/{first.name}"
    assert f"{first} has the same suite and run name" in reason


def import_run(folder: Path, *parts: ImportedRun, naming: NameMap | None = None, model: str = "") -> ImportedRunResult:
    with closing(RunImporter(create(folder / "store"), LIBRARY)) as importer:
        return importer.import_run(parts, naming or NameMap(metrics={"jury_score": "jury"}), model=model)


def test_names_are_those_of_the_naming(tmp_path: Path) -> None:
    ward = replace(read(run_folder("WARD-EM")), benchmark="their ward/1")
    naming = NameMap(benchmarks={"their ward/1": "medec"}, metrics={"exact_match": "em", "quasi_exact_match": ""})
    run = import_run(tmp_path, ward, naming=naming, model="my/model").run
    assert (run.benchmark, run.model, run.main_metric) == ("medec", "my/model", "em")
    assert "quasi_exact_match" not in run.estimates["published"]
    assert import_run(tmp_path / "other", ward).run.benchmark == "their_ward_1"


def test_an_unknown_metric_keeps_its_name_and_range_and_what_is_missing_is_counted(tmp_path: Path) -> None:
    ward = read(run_folder("WARD-EM"))
    values = {instance.id: 10.0 * place - 5 for place, instance in enumerate(ward.instances)}
    whole = import_run(tmp_path, replace(ward, scores={"odd": values}))
    estimate = whole.run.estimates["published"]["odd"]
    assert estimate.value == pytest.approx(20.0)
    assert -5 <= estimate.low < 20 < estimate.high <= 45
    some = dict(list(values.items())[:4])
    done = import_run(tmp_path / "other", replace(ward, scores={"odd": some}, n_expected=10))
    assert "odd: 2 of 6 instances have no score" in done.remarks
    assert (done.run.status, done.run.n, done.run.n_failed) == ("partial", 10, 4)
    assert done.run.estimates["published"]["odd"].n == 4


def test_parts_that_cannot_form_one_run_are_refused(tmp_path: Path) -> None:
    ward = read(run_folder("WARD-EM"))
    with pytest.raises(UserError, match="different models or judges"):
        import_run(tmp_path, ward, replace(ward, model="other"))
    with pytest.raises(UserError, match="no instance with a score"):
        import_run(tmp_path, replace(ward, scores={}))
