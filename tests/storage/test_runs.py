"""Run folders: what is written comes back, in order, whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import math
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from medhelm.domain import (
    JURY,
    Completion,
    Estimate,
    Failure,
    Instance,
    JudgeTally,
    Judgment,
    Jury,
    JuryResult,
    JuryVerdict,
    Message,
    Model,
    Prompt,
    Record,
    Reference,
    Run,
    RunStatus,
    Score,
    Usage,
)
from medhelm.errors import StoreError, StoreFullError
from medhelm.io import folders as output_folder
from medhelm.storage.damage import DamagedRunWarning, no_damaged_runs
from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import (
    RunWriter,
    load_runs,
    read_messages,
    read_prompt,
    read_prompt_digests,
    read_record,
    read_records,
    read_scores,
    write_prompts,
)
from medhelm.storage.store import Store, create
from tests.support.cli import Medhelm
from tests.support.stores import make_run

NASTY = [
    "plain",
    "",
    "emoji 😀 and Ümläut",
    "controls \x00\x01\x1b[31m\r\n\t",
    "quotes \" ' `; DROP TABLE runs; --",
    "line\u2028separators\u2029",
    "long " * 200_000,
]


def a_run(**changes: Any) -> Run:
    mean = Estimate(value=1.0, low=0.2, high=1.0, n=1, n_failed=1, method="wilson")
    fields: dict[str, Any] = {
        "id": "ab" * 32,
        "settings": {"limit": None, "seed": 0},
        "seconds": 1.5,
        "n": 2,
        "n_failed": 1,
        "failures": {"timeout": 1},
        "usage": Usage(input=5, output=2),
        "estimates": {"corrected": {"exact_match": mean}, "published": {}},
    }
    return make_run(**(fields | changes))


def a_record(position: int, text: str | None = "A", value: float | None = 1.0) -> Record:
    failure = None if text is not None else Failure("provider", "timeout", "no answer in 5 s")
    return Record(
        position=position,
        instance_id=f"i{position}",
        cluster="note-1" if position % 2 else "",
        request_digest=bytes([position]) * 32,
        completion=Completion(text=text, failure=failure, usage=Usage(input=3, cached_input=1, output=2, reasoning=1)),
        scores=(
            Score(metric="exact_match", rule="corrected", value=None if failure else value, failure=failure),
            Score(metric="exact_match", rule="published", value=None if failure else 0.0, failure=failure),
        ),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def writer(store: Store, model: str = "openai/m") -> RunWriter:
    return RunWriter(store, benchmark="toy", model=model, run_id="ab" * 32, metrics=["exact_match"])


def stored(store: Store, records: list[Record], **changes: Any) -> Run:
    writing = writer(store)
    for record in records:
        writing.add(record)
    return dataclasses.replace(a_run(**changes), folder=writing.finish(a_run(**changes)))


def folders(store: Store) -> list[Path]:
    return list((store.folder / "runs" / "toy").iterdir())


JURY_OF_ONE = Jury(judges=(Model(name="lab/judge", provider="openai", remote_name="judge"),), min_judges=1)
TALLIES = {"lab/judge": JudgeTally(expected=4, failures={"malformed": 1}, usage=Usage(input=9), cost_usd=0.5)}


@pytest.mark.parametrize(
    "jury_result",
    [
        None,
        JuryResult(jury=JURY_OF_ONE, low=0, high=1, form="grades", lower_is_better=("harm", "haste"), tallies=TALLIES),
        JuryResult(jury=JURY_OF_ONE, low=0, high=1, form="points", tallies=TALLIES, n_blank=1),
    ],
    ids=["no jury", "grades", "points"],
)
def test_a_run_comes_back_as_it_was_written(store: Store, jury_result: JuryResult | None) -> None:
    run = stored(store, [a_record(0), a_record(1, None)], jury_result=jury_result)
    assert load_runs(store) == [run]


def judged_run(store: Store, judged: JuryVerdict) -> Run:
    writing = RunWriter(store, benchmark="toy", model="openai/m", run_id="ab" * 32, metrics=[JURY])
    writing.add(dataclasses.replace(a_record(0), scores=(), jury_verdict=judged))
    return dataclasses.replace(a_run(), folder=writing.finish(a_run()))


def test_judgments_come_back_with_what_they_earn(store: Store) -> None:
    failure = Failure("judge", "malformed", "no JSON")
    said = (
        Judgment(judge="lab/judge", criterion="helps", score=1.0, points=6),
        Judgment(judge="lab/judge", criterion="harms", score=None, points=-4.5, failure=failure),
        Judgment(judge="lab/judge", criterion="clarity", score=4.0, explanation="plain"),
    )
    found = read_judgments(judged_run(store, JuryVerdict(scores=(), judgments=said)))
    assert (found.criteria, found.failures) == (["helps", "harms", "clarity"], ["", "malformed", ""])
    assert (found.points.tolist(), found.scores[[0, 2]].tolist()) == ([6.0, -4.5, 0.0], [1.0, 4.0])
    assert math.isnan(found.scores[1])
    assert {len(column) for column in read_judgments(judged_run(store, JuryVerdict(scores=())))} == {0}


def test_any_text_comes_back_unharmed_in_the_order_of_the_instances(store: Store) -> None:
    run = stored(store, [a_record(n, text) for n, text in reversed(list(enumerate([*NASTY, "half \ud83d a face"])))])
    assert [row["completion"] for row in read_records(run)] == [*NASTY, "half ? a face"]
    assert read_record(run, "i9' OR '1'='1") is None
    assert run.folder is not None
    assert "quotes" not in (run.folder / "run.json").read_text(encoding="utf-8"), "it holds no text of models"
    for read in (lambda run: list(read_records(run)), lambda run: read_record(run, "i0")):
        with pytest.raises(StoreError, match="is not stored"):
            read(a_run())


def test_failures_and_numbers_come_back(store: Store) -> None:
    run = stored(store, [a_record(0, value=0.5), a_record(1, None)])
    found = read_scores(run, "exact_match", "corrected")
    ids, scores, clusters = found.ids, found.values, found.clusters
    assert ids == ["i0", "i1"]
    assert clusters == ["", "note-1"]
    assert scores[0] == 0.5
    assert math.isnan(scores[1])
    failed = read_record(run, "i1")
    assert failed is not None
    assert (failed["completion"], failed["failure_code"], failed["failure_boundary"]) == (None, "timeout", "provider")
    assert (failed["input_tokens"], failed["cached_input_tokens"], failed["reasoning_tokens"]) == (3, 1, 1)
    assert failed["request_digest"] == "01" * 32


def test_a_metric_that_failed_says_why(store: Store) -> None:
    broken = Score(
        metric="exact_match", rule="corrected", value=None, failure=Failure("metric", "data", "no reference")
    )
    record = dataclasses.replace(a_record(0), scores=(broken,))
    row = read_record(stored(store, [record]), "i0")
    assert row is not None
    assert (row["exact_match_corrected"], row["score_failure"]) == (None, "exact_match: no reference")


def test_a_later_run_takes_the_place_of_the_same_run(store: Store) -> None:
    stored(store, [a_record(0)], seconds=1.0)
    stored(store, [a_record(0), a_record(1)], seconds=2.0)
    (run,) = load_runs(store)
    assert run.seconds == 2.0
    assert len(list(read_records(run))) == 2
    assert folders(store) == [run.folder]


def test_a_run_that_was_stopped_does_not_take_the_place_of_a_complete_one(store: Store) -> None:
    complete = stored(store, [a_record(0), a_record(1)])
    stopped = stored(store, [a_record(0)], status="partial")
    assert stopped.folder == complete.folder
    assert load_runs(store) == [complete]
    assert len(list(read_records(complete))) == 2
    assert folders(store) == [complete.folder]


def test_a_complete_run_takes_the_place_of_a_stopped_one(store: Store) -> None:
    stored(store, [a_record(0)], status="partial")
    complete = stored(store, [a_record(0), a_record(1)])
    assert load_runs(store) == [complete]


def test_an_unfinished_run_does_not_exist(store: Store) -> None:
    writing = writer(store)
    writing.add(a_record(0))
    assert load_runs(store) == []
    writing.discard()
    assert folders(store) == []


def test_leftovers_of_a_killed_process_are_cleared_away(store: Store) -> None:
    killed = writer(store)
    killed.add(a_record(0))
    killed._spool._file.close()  # as the system does at kill -9
    run = stored(store, [a_record(0)])
    assert folders(store) == [run.folder]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"id": "x"}', "\x00", "[" * 100_000])
def test_a_damaged_run_is_left_out_with_a_warning_or_refused(store: Store, content: str) -> None:
    run = stored(store, [a_record(0)])
    assert run.folder is not None
    (run.folder / "run.json").write_text(content, encoding="utf-8")
    with pytest.warns(DamagedRunWarning, match=r"on toy is left out: .*run\.json is damaged .*medhelm runs remove"):
        assert load_runs(store) == []
    with no_damaged_runs(), pytest.raises(StoreError, match=r"run\.json is damaged"):
        load_runs(store)


def test_a_folder_without_run_json_is_a_damaged_run(store: Store) -> None:
    run = stored(store, [a_record(0)])
    assert run.folder is not None
    (run.folder.parent / "notes.txt").write_text("no folder, so no run", encoding="utf-8")
    assert [one.id for one in load_runs(store)] == [run.id]
    (run.folder / "run.json").unlink()
    with pytest.warns(DamagedRunWarning, match=r"on toy is left out: .*run\.json is missing\. .*medhelm runs remove"):
        assert load_runs(store) == []


def test_all_damaged_files_are_named_at_once_where_every_run_must_be_readable(store: Store) -> None:
    folders = []
    for model in ("openai/a", "openai/b", "openai/c", "openai/d"):
        writing = writer(store, model)
        writing.add(a_record(0))
        folders.append(writing.finish(a_run(model=model)))
    (folders[0] / "run.json").write_text("{", encoding="utf-8")
    (folders[1] / "run.json").unlink()
    (folders[2] / "records.parquet").write_bytes(b"no table")
    with no_damaged_runs(), pytest.raises(StoreError) as refused:
        load_runs(store)
    found = {line.partition(" ")[0] for line in str(refused.value).splitlines()}
    names = ("run.json", "run.json", "records.parquet")
    assert found == {str(folder / name) for folder, name in zip(folders, names, strict=False)}
    assert str(refused.value).count("or use `medhelm runs remove ababababab` and run or import it again") == 3


def test_damaged_run_is_replaced_by_a_partial_one(store: Store) -> None:
    run = stored(store, [a_record(0)])
    assert run.folder is not None
    (run.folder / "run.json").write_text("{", encoding="utf-8")
    writing = writer(store)
    writing.add(a_record(0))
    writing.finish(dataclasses.replace(run, status=RunStatus.PARTIAL))
    assert [one.status for one in load_runs(store)] == ["partial"]


def test_a_disk_error_while_writing_says_what_is_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = writer(store)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("medhelm.storage.store.write_confidential", full)
    with pytest.raises(StoreFullError, match=r"No space left on device.*kept in the store's cache"):
        writing.finish(a_run())
    monkeypatch.undo()
    writing.discard()


def test_a_run_that_is_being_put_in_place_is_not_discarded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in another run ends the work while a thread, which cannot be canceled, stores this one."""
    old = stored(store, [a_record(0)])
    writing = writer(store)
    writing.add(a_record(0))
    writing.add(a_record(1))
    discarding = threading.Thread(target=writing.discard)
    sync = output_folder.sync_tree

    def discard_meanwhile(new: Path) -> None:
        discarding.start()
        discarding.join(0.2)  # it can only end afterwards
        sync(new)

    monkeypatch.setattr("medhelm.storage.store.sync_tree", discard_meanwhile)
    folder = writing.finish(a_run())
    discarding.join()
    assert folder == old.folder
    (run,) = load_runs(store)
    assert len(list(read_records(run))) == 2
    assert folders(store) == [folder]


def test_a_run_that_could_not_be_stored_leaves_the_older_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored(store, [a_record(0)])
    assert run.folder is not None

    def damaged(folder: Path, _run: Run) -> None:
        (folder / "run.json").write_text("{", encoding="utf-8")  # what a disk that fails may have kept

    writing = writer(store)
    writing.add(a_record(0))
    writing.add(a_record(1))
    monkeypatch.setattr("medhelm.storage.runs.write_run", damaged)
    with pytest.raises(StoreFullError, match=r"cannot be written: what was written there cannot be read: .*run\.json"):
        writing.finish(a_run())
    assert [len(list(read_records(one))) for one in load_runs(store)] == [1]
    assert folders(store) == [run.folder]


def test_long_texts_are_written_a_few_at_a_time(store: Store) -> None:
    """A hundred rows of a megabyte: together they would fill the memory that the engine may take."""
    path = store.prompts_file("toy", "d" * 64, "e" * 64)
    instance = Instance(id="i", fields={}, references=(Reference("yes"),))
    prompts = ((instance, Prompt((Message("user", f"{number} " * 300_000),))) for number in range(100))
    write_prompts(path, prompts)
    with duckdb.connect() as connection:
        groups = connection.execute(
            "SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata(?)", [str(path)]
        ).fetchall()
    assert sum(rows for _, rows in groups) == 100
    assert len(groups) > 2


def test_prompts_are_stored_once(store: Store) -> None:
    path = store.prompts_file("toy", "d" * 64, "e" * 64)
    instance = Instance(
        id="i0", fields={"q": "why?"}, references=(Reference("yes"), Reference("no", False)), choices=("yes", "no")
    )
    prompt = Prompt((Message("system", "Be brief."), Message("user", "why? 😀\x00")))
    write_prompts(path, [(instance, prompt)])
    before = path.read_bytes()
    write_prompts(path, iter([]))
    assert path.read_bytes() == before
    assert read_prompt(path, "i0") == {
        "position": 0,
        "instance_id": "i0",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "why? 😀\x00"}],
        "criteria": [],
        "choices": ["yes", "no"],
        "references": [{"text": "yes", "correct": True}, {"text": "no", "correct": False}],
    }
    assert read_prompt(path, "i1") is None
    assert read_prompt(path.with_name("other"), "i0") is None
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["ward?", "w[ab]rd1"])
def test_signs_of_patterns_in_the_path_of_a_store_are_literal(medhelm: Medhelm, name: str) -> None:
    """Beside `ward1`, the store `ward?` would otherwise read the records of both."""
    for store, model in (("ward1", "baseline/majority"), (name, "baseline/lexical")):
        done = medhelm("run", "pubmed_qa", "--tier", "sample", "--model", model, "--store", store)
        assert done.code == 0, done
    board = json.loads(medhelm("leaderboard", "--format", "json", "--store", name).out)
    assert [row["model"] for row in board["models"]] == ["baseline/lexical"]
    assert medhelm("export", "csv", f"exported-{len(name)}", "--store", name).code == 0
    rows = Path(f"exported-{len(name)}", "records.csv").read_text(encoding="utf-8")
    assert "baseline/lexical" in rows
    assert "baseline/majority" not in rows


def test_damaged_prompts_are_an_error_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.parquet"
    path.write_bytes(b"not a table at all")
    for read in (read_messages, read_prompt_digests, lambda file: read_prompt(file, "q1")):
        with pytest.raises(StoreError, match=r"prompts\.parquet is damaged .*Remove the file"):
            read(path)
