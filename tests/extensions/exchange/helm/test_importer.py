"""Runs of HELM in a store: numbers to the letter, names, groups, and the same folder again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Run
from medhelm.errors import UserError
from medhelm.evaluation.rescore import library_of
from medhelm.extensions.exchange.helm.importer import import_helm
from medhelm.extensions.exchange.importer import ImportedRun, ImportedRunResult, NameMap, RunImporter, reply_of
from medhelm.storage.judgments import read_judgments, read_replies
from medhelm.storage.runs import load_runs, read_messages, read_records
from medhelm.storage.store import create, open_store, read_run
from tests.support.exchange.helm import HELM, RUNS, by_name, change, content, copy_of, read, run_folder, taken

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
    ("pubmed_qa", "pubmed_qa:model=mock_writer-a,model_deployment=mock", {
        "exact_match": "exact_match", "quasi_exact_match": "quasi_exact_match"}),
    ("medec", "medec:model=mock_writer-a", {
        "medec_flag_accuracy": "medec_error_flag_accuracy",
        "medec_sentence_accuracy": "medec_error_sentence_accuracy"}),
    ("medication_qa", "medication_qa", {"jury": "medication_qa_accuracy", "rouge_l": "rouge_l", "rouge_2": "rouge_2"}),
    ("ehrsql", "ehr_sql", {
        "sql_execution_accuracy": "ehr_sql_execution_accuracy", "sql_validity": "ehr_sql_query_validity",
        "sql_precision": "ehr_sql_precision_answerable", "sql_recall": "ehr_sql_recall_answerable"}),
    ("mimic_iv_billing_code", "mimiciv_billing_code:model=mock_writer-a", {"icd_f1": "mimiciv_billing_code_f1"}),
    ("LETTERS", "LETTERS:model=mock_writer-a", {"jury": "jury_score"}),
    ("STAY-RG", "STAY-RG", {"rouge_l": "rouge_l", "prefix_exact_match": "prefix_exact_match"}),
    ("WARD-EM", "WARD-EM", {"exact_match": "exact_match", "quasi_prefix_exact_match": "quasi_prefix_exact_match"}),
]  # fmt: skip
"""Benchmark here, run there, and metric here -> metric there; the first is the main one."""


@pytest.mark.parametrize(("benchmark", "start", "metrics"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_published_numbers_are_helms_own_to_the_last_digits(
    runs: dict[tuple[str, str], Run], benchmark: str, start: str, metrics: dict[str, str]
) -> None:
    run = runs[benchmark, A]
    means = {
        stat["name"]["name"]: stat["mean"]
        for stat in content(run_folder(start), "stats.json")
        if "perturbation" not in stat["name"] and stat["name"].get("split") == "test" and "mean" in stat
    }
    records = list(read_records(run))
    assert run.main_metric == next(iter(metrics))
    for ours, theirs in metrics.items():
        assert run.estimates["published"][ours].value == pytest.approx(means[theirs], rel=1e-13)
        own = {
            entry["instance_id"]: stat["mean"]
            for entry in content(run_folder(start), "per_instance_stats.json")
            for stat in entry["stats"]
            if stat["name"]["name"] == theirs
        }
        assert {row["instance_id"]: row[f"{ours}_published"] for row in records} == own
        assert all(row[f"{ours}_corrected"] is None for row in records)
    assert run.estimates["corrected"] == {}


def test_a_run_has_its_origin(runs: dict[tuple[str, str], Run]) -> None:
    run = runs["WARD-EM", A]
    assert run.origin is not None
    assert (run.origin.harness, run.origin.completions_made_here) == ("helm", False)
    assert run.origin.run == f"v1/{run_folder('WARD-EM').name}"
    assert len(run.origin.sha256) == 64
    assert (run.status, run.n, run.n_failed, run.requests_sent, run.cost_usd) == ("complete", 6, 0, 0, None)
    assert (run.settings["max_tokens"], run.settings["temperature"], run.settings["stop"]) == (16, 0.0, [])
    assert run.taxonomy.category == "unknown"
    assert runs["medec", A].taxonomy.category == "clinical_decision_support"


def test_run_files_round_trip(runs: dict[tuple[str, str], Run]) -> None:
    for run in runs.values():
        assert run.folder is not None
        assert read_run(run.folder / "run.json") == run
        json.loads((run.folder / "run.json").read_text(), parse_constant=pytest.fail)


def test_prompts_are_unchanged(store: Path, runs: dict[tuple[str, str], Run]) -> None:
    run = runs["pubmed_qa", A]
    found = read_messages(open_store(store).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest))
    asked = content(run_folder("pubmed_qa:model=mock_writer-b"), "scenario_state.json")["request_states"]
    assert found == {one["instance"]["id"]: [{"role": "user", "content": one["request"]["prompt"]}] for one in asked}


def test_models_with_the_same_prompts_share_instances(store: Path, runs: dict[tuple[str, str], Run]) -> None:
    assert runs["pubmed_qa", A].data_digest == runs["pubmed_qa", "mock/writer-b"].data_digest
    assert len(list((store / "prompts").glob("pubmed_qa-*.parquet"))) == 1
    assert len(list((store / "instances").glob("pubmed_qa-*.parquet"))) == 1


def test_two_deployments_of_a_model_have_different_names(runs: dict[tuple[str, str], Run]) -> None:
    assert {model for name, model in runs if name == "pubmed_qa"} == {A, f"{A}@other/writer-a", "mock/writer-b"}


def test_parts_of_a_benchmark_become_groups_of_one_run(runs: dict[tuple[str, str], Run]) -> None:
    clear, dialog = runs["clear", A], runs["med_dialog", A]
    assert (clear.n, set(clear.groups)) == (6, {"homelessness", "liver_disease"})
    assert {row["group"] for row in read_records(clear)} == {"homelessness", "liver_disease"}
    assert {row["instance_id"] for row in read_records(clear)} == {
        *(f"homelessness/id{i}" for i in range(4)),
        *(f"liver_disease/id{i}" for i in range(2)),
    }
    means = []
    for part in ("healthcaremagic", "icliniq"):
        stats = content(run_folder(f"med_dialog,subset={part}"), "stats.json")
        (mean,) = [s["mean"] for s in stats if s["name"] == {"name": "med_dialog_accuracy", "split": "test"}]
        assert dialog.groups[part]["published"] == pytest.approx(mean, rel=1e-13)
        means.append(mean)
    assert dialog.groups["icliniq"]["n"] == 5
    assert dialog.estimates["published"]["jury"].value == pytest.approx(sum(means) / 2, rel=1e-11)


def test_judgments_and_what_is_missing_of_them(runs: dict[tuple[str, str], Run]) -> None:
    run = runs["LETTERS", A]
    assert run.jury_result is not None
    assert (run.jury_result.low, run.jury_result.high, run.jury_result.jury.min_judges) == (1.0, 5.0, 2)
    judgments = read_judgments(run)
    n_missing = sum(code != "" for code in judgments.failures)
    assert n_missing == sum(tally.failed for tally in run.jury_result.tallies.values()) == 15
    assert sum(tally.expected for tally in run.jury_result.tallies.values()) == 9 * 3 * 3
    assert run.jury_result.n_blank == 1
    assert len(read_replies(run)) == 9 * 3


def test_the_same_folder_again_changes_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = import_helm(RUNS, store=store)
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()}
    second = import_helm(RUNS.parent, store=store)
    assert {one.state for one in first.taken} == {"new"}
    assert {one.state for one in second.taken} == {"unchanged"}
    assert by_name(second) == by_name(first)
    after = {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("file", ["per_instance_stats.json", "scenario_state.json"])
def test_changed_files_replace_the_earlier_run_with_a_remark(tmp_path: Path, file: str) -> None:
    folder = copy_of("WARD-EM", tmp_path / "out")
    store = tmp_path / "store"
    import_helm(folder, store=store)

    def other(data: Any) -> None:
        if file == "scenario_state.json":
            data["request_states"][0]["instance"]["input"]["text"] = "Another question."
        else:
            for stat in data[0]["stats"]:
                stat["sum"] = 0.0

    change(folder, file, other)
    (again,) = import_helm(folder, store=store).taken
    assert again.state == "changed"
    (run,) = load_runs(open_store(store))
    assert run == again.run
    assert import_helm(folder, store=store).taken[0].state == "unchanged"


def test_one_broken_run_does_not_stop_the_others(tmp_path: Path) -> None:
    for start in ("WARD-EM", "STAY-RG", "clear:condition=home", "clear:condition=liver"):
        copy_of(start, tmp_path)
    suite = tmp_path / "runs" / "v1"
    broken = suite / run_folder("STAY-RG").name
    (broken / "per_instance_stats.json.gz").unlink()
    liver = suite / run_folder("clear:condition=liver").name
    (liver / "stats.json.gz").write_bytes(b"")
    done = import_helm(tmp_path, store=tmp_path / "store")
    assert {one.run.benchmark for one in done.taken} == {"WARD-EM", "clear"}
    assert dict(done.skipped) == {
        f"v1/{broken.name}": "per_instance_stats.json is missing",
        f"v1/{liver.name}": dict(done.skipped)[f"v1/{liver.name}"],
    }
    (clear,) = [one for one in done.taken if one.run.benchmark == "clear"]
    assert clear.run.n == 4
    assert any("liver_disease" in text and "was left out" in text for text in clear.remarks)
    assert any("only the part homelessness" in text for text in clear.remarks)


def test_failures_are_missing_data_and_their_published_score_stays(tmp_path: Path) -> None:
    folder = copy_of("WARD-EM", tmp_path)

    def fail(state: Any) -> None:
        state["request_states"][0]["result"] = {"success": False, "error": "no", "completions": []}

    change(folder, "scenario_state.json", fail)
    ((_, run),) = taken(folder, tmp_path / "store").items()
    assert (run.n, run.n_failed, dict(run.failures)) == (6, 1, {"request_failed": 1})
    row = next(read_records(run))
    assert (row["completion"], row["failure_code"]) == (None, "request_failed")
    assert row["exact_match_published"] is not None


def test_several_processes_give_what_one_gives(tmp_path: Path) -> None:
    one = import_helm(RUNS, store=tmp_path / "one", processes=1)
    two = import_helm(RUNS, store=tmp_path / "two", processes=2)
    assert [t.run.id for t in one.taken] == [t.run.id for t in two.taken]
    for a, b in zip(one.taken, two.taken, strict=True):
        assert replace(a.run, folder=None) == replace(b.run, folder=None)
        assert list(read_records(a.run)) == list(read_records(b.run))


def test_of_two_runs_with_the_same_name_the_first_is_imported(tmp_path: Path) -> None:
    """One of them would otherwise pass for a changed copy of the other."""
    done = import_helm(HELM, store=tmp_path / "store")
    names = [one.run.origin.run for one in done.taken if one.run.origin]
    assert len(set(names)) == len(names)
    assert {name for name, _ in done.skipped} <= {f"v1/{path.name}" for path in RUNS.iterdir()}
    assert len(done.skipped) == 4
    assert all("has the same suite and run name" in reason for _, reason in done.skipped)


def test_the_same_run_of_another_suite_is_another_run(tmp_path: Path) -> None:
    copy_of("WARD-EM", tmp_path)
    copy_of("WARD-EM", tmp_path, suite="v2")
    done = import_helm(tmp_path, store=tmp_path / "store")
    assert len({one.run.id for one in done.taken}) == 2
    assert {one.state for one in import_helm(tmp_path, store=tmp_path / "store").taken} == {"unchanged"}


# --- take_in on its own -----------------------------------------------------------------------------------------------


def take(tmp_path: Path, *parts: ImportedRun, **more: Any) -> Run:
    naming = more.pop("naming", NameMap(metrics={"jury_score": "jury"}))
    return import_run(parts, tmp_path / "store", naming, **more).run


def import_run(parts: Sequence[ImportedRun], store: Path, naming: NameMap, **more: Any) -> ImportedRunResult:
    with closing(RunImporter(create(store), LIBRARY)) as importer:
        return importer.import_run(parts, naming, **more)


def test_names_are_those_of_the_naming(tmp_path: Path) -> None:
    one = replace(read(run_folder("WARD-EM")), benchmark="their ward/1")
    naming = NameMap(benchmarks={"their ward/1": "medec"}, metrics={"exact_match": "em", "quasi_exact_match": ""})
    run = take(tmp_path, one, naming=naming, model="my/model")
    assert (run.benchmark, run.model, run.main_metric) == ("medec", "my/model", "em")
    assert "quasi_exact_match" not in run.estimates["published"]
    other = take(tmp_path / "other", one)
    assert other.benchmark == "their_ward_1"


def test_an_unknown_metric_keeps_its_name_and_range(tmp_path: Path) -> None:
    one = read(run_folder("WARD-EM"))
    values = {instance.id: 10.0 * place - 5 for place, instance in enumerate(one.instances)}
    run = take(tmp_path, replace(one, scores={"odd": values}))
    estimate = run.estimates["published"]["odd"]
    assert estimate.value == pytest.approx(20.0)
    assert -5 <= estimate.low < 20 < estimate.high <= 45


def test_parts_that_cannot_form_one_run_are_refused(tmp_path: Path) -> None:
    one = read(run_folder("WARD-EM"))
    with pytest.raises(UserError, match="different models or judges"):
        take(tmp_path, one, replace(one, model="other"))
    with pytest.raises(UserError, match="no instance with a score"):
        take(tmp_path, replace(one, scores={}))


def test_fewer_instances_than_expected_are_a_partial_run(tmp_path: Path) -> None:
    run = take(tmp_path, replace(read(run_folder("WARD-EM")), n_expected=10))
    assert (run.status, run.n, run.n_failed) == ("partial", 10, 4)


def test_instances_without_a_score_are_counted(tmp_path: Path) -> None:
    one = read(run_folder("WARD-EM"))
    some = dict(list(one.scores["exact_match"].items())[:4])
    naming = NameMap()
    done = import_run([replace(one, scores={"exact_match": some})], tmp_path / "s", naming)
    assert done.remarks == ("exact_match: 2 of 6 instances have no score",)
    assert done.run.estimates["published"]["exact_match"].n_failed == 2


def test_a_jury_of_which_nothing_is_known_is_a_number_of_theirs(tmp_path: Path) -> None:
    one = replace(read(run_folder("LETTERS:model=mock_writer-a")), judgments={}, judge_prompt="")
    run = take(tmp_path, one)
    assert run.jury_result is None
    assert run.main_metric == "jury_score"


def test_a_reply_is_made_of_its_judgments() -> None:
    one = read(run_folder("LETTERS:model=mock_writer-a"))
    for cells in one.judgments.values():
        for judge in one.judges:
            own = [cell for cell in cells if cell.judge == judge.name]
            reply = reply_of(own)
            if reply.text is None:
                assert reply.failure == own[0].failure
            else:
                said = json.loads(reply.text)
                assert {name: cell["score"] for name, cell in said.items()} == {c.criterion: c.score for c in own}
