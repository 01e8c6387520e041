"""Run folders: what is written comes back, in order, whole or not at all."""

from __future__ import annotations

import dataclasses
import math
import threading
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import (
    Completion,
    Failure,
    Instance,
    Message,
    Prompt,
    Record,
    Reference,
    Rule,
    Run,
    Score,
    Usage,
)
from medhelm.errors import StoreError, StoreFullError
from medhelm.io import folders as output_folder
from medhelm.storage.damage import no_damaged_runs
from medhelm.storage.run_scores import read_all, read_scores
from medhelm.storage.runs import (
    RunWriter,
    load_runs,
    read_columns,
    read_messages,
    read_prompt,
    read_prompt_digests,
    read_record,
    read_records,
    write_prompts,
)
from medhelm.storage.store import Store, create, open_store
from tests.support.stores import TIMEOUT, jury_of, make_record, make_run, make_store

NASTY = [
    "",
    "emoji 😀 and Ümläut",
    "controls \x00\x01\x1b[31m\r\n\t",
    "quotes \" ' `; DROP TABLE runs; --",
    "line\u2028separators\u2029",
    "long " * 200_000,
]


def a_run(**changes: Any) -> Run:
    fields: dict[str, Any] = {"id": "ab" * 32, "n": 2, "n_failed": 1, "failures": {"timeout": 1}}
    return make_run(**(fields | changes))


def a_record(position: int, text: str | None = "A", *, metric_failure: Failure | None = None) -> Record:
    failure = TIMEOUT if text is None else None
    failures: dict[Rule, Failure | None] = {"corrected": metric_failure or failure, "published": failure}
    return make_record(
        position,
        cluster="note-1" if position % 2 else "",
        completion=Completion(text=text, failure=failure, usage=Usage(input=3, cached_input=1, output=2)),
        scores=tuple(
            Score(metric="exact_match", rule=rule, value=None if lost else 0.5, failure=lost)
            for rule, lost in failures.items()
        ),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def writer(store: Store, *records: Record, model: str = "openai/m") -> RunWriter:
    writing = RunWriter(store, benchmark="toy", model=model, run_id="ab" * 32, metrics=["exact_match"])
    for record in records:
        writing.add(record)
    return writing


def stored(store: Store, *records: Record, **changes: Any) -> Run:
    return dataclasses.replace(a_run(**changes), folder=writer(store, *records).finish(a_run(**changes)))


def folders(store: Store) -> list[Path]:
    return list((store.folder / "runs" / "toy").iterdir())


def run_json(store: Store) -> Path:
    (folder,) = folders(store)
    return folder / "run.json"


@pytest.mark.parametrize(
    "changes",
    [None, {"form": "grades", "lower_is_better": ("harm", "haste")}, {"form": "points", "n_blank": 1}],
    ids=str,
)
def test_a_run_comes_back_as_it_was_written(store: Store, changes: dict[str, Any] | None) -> None:
    judges = jury_of("lab/judge", min_judges=1, failures={"malformed": 1})
    jury_result = None if changes is None else dataclasses.replace(judges, **changes)
    broken = Failure("metric", "data", "no reference")
    run = stored(store, a_record(0), a_record(1, None), a_record(2, metric_failure=broken), jury_result=jury_result)
    assert load_runs(store) == [run]
    scores = read_scores(run, "exact_match", "corrected")
    assert (scores.ids, scores.clusters) == (["i0", "i1", "i2"], ["", "note-1", ""])
    assert scores.values == pytest.approx([0.5, math.nan, math.nan], nan_ok=True)
    failed, unscored = read_record(run, "i1"), read_record(run, "i2")
    assert failed is not None
    assert (failed["completion"], failed["failure_code"], failed["failure_boundary"]) == (None, "timeout", "provider")
    assert (failed["input_tokens"], failed["cached_input_tokens"]) == (3, 1)
    assert unscored is not None
    assert (unscored["exact_match_published"], unscored["score_failure"]) == (0.5, "exact_match: no reference")


def test_any_text_comes_back_unharmed_in_the_order_of_the_instances(store: Store) -> None:
    records = [a_record(n, text) for n, text in enumerate([*NASTY, "half \ud83d a face"])]
    run = stored(store, *reversed(records))
    assert [row["completion"] for row in read_records(run)] == [*NASTY, "half ? a face"]
    assert read_record(run, "i9' OR '1'='1") is None
    assert "quotes" not in run_json(store).read_text(encoding="utf-8"), "it holds no text of models"
    with pytest.raises(StoreError, match="is not stored"):
        read_record(a_run(), "i0")


@pytest.mark.parametrize("first", ["complete", "partial", "damaged"])
def test_a_later_run_takes_the_place_of_the_same_run(store: Store, first: str) -> None:
    stored(store, a_record(0), status="partial" if first == "partial" else "complete")
    if first == "damaged":
        run_json(store).write_text("{", encoding="utf-8")
    new = stored(store, a_record(0), a_record(1), status="partial" if first == "damaged" else "complete")
    assert load_runs(store) == [new]
    assert len(list(read_records(new))) == 2
    assert folders(store) == [new.folder]


def test_a_run_that_was_stopped_does_not_take_the_place_of_a_complete_one(store: Store) -> None:
    complete = stored(store, a_record(0), a_record(1))
    assert stored(store, a_record(0), status="partial").folder == complete.folder
    assert load_runs(store) == [complete]
    assert len(list(read_records(complete))) == 2
    assert folders(store) == [complete.folder]


def test_unfinished_runs_do_not_exist_and_leave_nothing(store: Store) -> None:
    writing = writer(store, a_record(0))
    assert load_runs(store) == []
    writing.discard()
    assert folders(store) == []
    writer(store, a_record(0))._spool._file.close()  # as the system does at kill -9
    assert folders(store) != []
    run = stored(store, a_record(0))
    assert folders(store) == [run.folder]


def test_all_damaged_files_are_named_at_once_where_every_run_must_be_readable(store: Store) -> None:
    models = ("openai/a", "openai/b", "openai/c", "openai/d")
    folders = [writer(store, a_record(0), model=model).finish(a_run(model=model)) for model in models]
    damaged = [folders[0] / "run.json", folders[1] / "run.json", folders[2] / "records.parquet"]
    damaged[0].write_text("{", encoding="utf-8")
    damaged[1].unlink()
    damaged[2].write_bytes(b"no table")
    with no_damaged_runs(), pytest.raises(StoreError) as refused:
        load_runs(store)
    assert {line.partition(" ")[0] for line in str(refused.value).splitlines()} == set(map(str, damaged))
    assert str(refused.value).count("or use `medhelm runs remove ababababab` and run or import it again") == 3


def test_a_run_that_cannot_be_stored_leaves_the_older_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored(store, a_record(0))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def damaged(folder: Path, _run: Run) -> None:
        (folder / "run.json").write_text("{", encoding="utf-8")  # what a disk that fails may have kept

    for function, replacement, message in (
        ("store.write_confidential", full, r"No space left on device.*kept in the store's cache"),
        ("runs.write_run", damaged, r"what was written there cannot be read: .*run\.json"),
    ):
        writing = writer(store, a_record(0), a_record(1))
        with monkeypatch.context() as patch, pytest.raises(StoreFullError, match=message):
            patch.setattr(f"medhelm.storage.{function}", replacement)
            writing.finish(a_run())
        writing.discard()
        assert [len(list(read_records(one))) for one in load_runs(store)] == [1]
        assert folders(store) == [run.folder]


def test_a_run_that_is_being_put_in_place_is_not_discarded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in another run ends the work while a thread, which cannot be canceled, stores this one."""
    old = stored(store, a_record(0))
    writing = writer(store, a_record(0), a_record(1))
    discarding = threading.Thread(target=writing.discard)
    sync = output_folder.sync_tree

    def discard_meanwhile(new: Path) -> None:
        discarding.start()
        discarding.join(0.2)  # it can only end afterwards
        sync(new)

    monkeypatch.setattr("medhelm.storage.store.sync_tree", discard_meanwhile)
    assert writing.finish(a_run()) == old.folder
    discarding.join()
    (run,) = load_runs(store)
    assert len(list(read_records(run))) == 2
    assert folders(store) == [old.folder]


def test_prompts_are_stored_once(store: Store) -> None:
    path = store.prompts_file("toy", "d" * 64, "e" * 64)
    references = (Reference("yes"), Reference("no", False))
    instance = Instance(id="i0", fields={"q": "why?"}, references=references, choices=("yes", "no"))
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
    path.write_bytes(b"not a table at all")
    for read in (read_messages, read_prompt_digests, lambda file: read_prompt(file, "q1")):
        with pytest.raises(StoreError, match=r"\.parquet is damaged .*Remove the file"):
            read(path)


@pytest.mark.parametrize("name", ["ward?", "w[ab]rd1"])
def test_signs_of_patterns_in_the_path_of_a_store_are_literal(tmp_path: Path, name: str) -> None:
    """Beside `ward1`, the store `ward?` would otherwise read the records of both."""
    make_store(tmp_path / "ward1", {"toy": {"openai/a": [1.0, 0.0]}}, id="ab" * 32)
    make_store(tmp_path / name, {"toy": {"openai/a": [0.5, 0.5]}}, id="ab" * 32)
    (run,) = load_runs(open_store(tmp_path / name))
    assert read_columns(run, ["exact_match_corrected"])["exact_match_corrected"] == [0.5, 0.5]
    ((_, scores),) = read_all([run], "corrected")
    assert scores.values.tolist() == [0.5, 0.5]
