"""Status files of evaluations: their content, who is alive, requests to stop, and what is left out."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from medhelm.storage.live_status import (
    MOST_ENDED,
    JudgeProgress,
    ask_to_stop,
    forget,
    forget_resumed,
    known_evaluations,
    new_id,
)
from medhelm.storage.store import Store, create
from tests.support.running import make_ended, make_run, make_status, written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def test_a_status_is_read_as_it_was_written_and_its_process_is_alive(store: Store) -> None:
    judged = make_run(judges={"openai/j": JudgeProgress(expected=4, failed=1)}, cost_usd=None)
    status = make_status(runs=(judged, make_run(state="waiting", rate_per_s=None)), max_cost_usd=5.0)
    with written(store, status) as file:
        (found,) = known_evaluations(store)
        assert (found.status, found.is_alive, found.is_asked_to_stop) == (status, True, False)
        assert not forget(store, status.id)
        assert ask_to_stop(store, status.id)
        assert file.is_asked_to_stop
        file.write(make_status(state="stopping"))
        (found,) = known_evaluations(store)
        assert (found.status.state, found.is_asked_to_stop) == ("stopping", True)
    assert not known_evaluations(store)[0].is_alive
    assert not ask_to_stop(store, status.id)
    assert forget(store, status.id)
    assert list((store.folder / "running").iterdir()) == []
    started = "2026-11-01T10:20:30.123+00:00"
    assert new_id(started).startswith("20261101102030-")
    assert new_id(started) != new_id(started)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_only_the_owner_can_read_the_files_and_an_evaluation_that_ends_by_itself_leaves_none(store: Store) -> None:
    with written(store, make_status()) as file:
        assert ask_to_stop(store, make_status().id)
        folder = store.folder / "running"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600] * 3
        file.close(keep_status=False)
    assert list(folder.iterdir()) == []


def test_files_that_are_damaged_or_of_another_version_are_left_out(store: Store) -> None:
    path = store.folder / "running" / f"{make_ended(store.folder).id}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    changes: list[dict[str, Any]] = [{"format": 3}, {"id": "another"}, {"runs": [{"model": "m"}]}, {"more": 1}]
    changes += [{"pid": "many"}, {"state": "<script>"}]
    for text in ("[" * 50_000, *(json.dumps({**content, **change}) for change in changes)):
        path.write_text(text, encoding="utf-8")
        assert known_evaluations(store) == [], text[:200]


def test_a_status_of_version_1_is_read(store: Store) -> None:
    status = make_ended(store.folder, runs=(make_run(judges={"openai/j": JudgeProgress(expected=4, failed=1)}),))
    path = store.folder / "running" / f"{status.id}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    (run,) = content["runs"]
    tokens = run.pop("tokens")
    run |= {"failed": run.pop("n_failed"), "cached": run.pop("requests_cached"), "input_tokens": tokens["input"]}
    run |= {"output_tokens": tokens["output"], "judges": [{"judge": "openai/j", "expected": 4, "missing": 1}]}
    del content["servers"]
    path.write_text(json.dumps({**content, "format": 1}), encoding="utf-8")
    assert [one.status for one in known_evaluations(store)] == [status]


def test_a_command_removes_what_it_resumes_and_the_oldest_of_many(store: Store) -> None:
    started = "2026-12-01T00:00:00+00:00"
    resumed = make_ended(store.folder, id="resumed", started=started)
    make_ended(store.folder, id="elsewhere", started=started, folder="/other")
    for number in range(MOST_ENDED + 2):
        started = f"2026-11-01T00:00:{number:02}"
        make_ended(store.folder, id=f"old-{number:02}", command=("run", "medec"), started=started)
    with written(store, make_status(id="alive")):
        forget_resumed(store, resumed.command, resumed.folder)
        left = [evaluation.status.id for evaluation in known_evaluations(store)]
    assert left == ["elsewhere", *(f"old-{number:02}" for number in range(MOST_ENDED + 1, 3, -1)), "alive"]
