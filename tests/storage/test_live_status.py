"""Status files of evaluations: their content, who is alive, requests to stop, and what is left out."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import StoreError
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
        file.write(make_status(state="stopping"))
        assert known_evaluations(store)[0].status.state == "stopping"
    assert not known_evaluations(store)[0].is_alive


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_only_the_owner_can_read_the_files(store: Store) -> None:
    with written(store, make_status()):
        assert ask_to_stop(store, make_status().id)
        folder = store.folder / "running"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
        assert len(list(folder.iterdir())) == 3


def test_an_evaluation_that_ends_by_itself_leaves_nothing(store: Store) -> None:
    with written(store, make_status()) as file:
        ask_to_stop(store, make_status().id)
        file.close(keep_status=False)
    assert list((store.folder / "running").iterdir()) == []


def test_only_what_is_running_can_be_stopped_and_only_what_ended_removed(store: Store) -> None:
    status = make_status()
    with written(store, status) as file:
        assert not file.is_asked_to_stop
        assert not forget(store, status.id)
        assert ask_to_stop(store, status.id)
        assert file.is_asked_to_stop
        assert known_evaluations(store)[0].is_asked_to_stop
    assert not ask_to_stop(store, status.id)
    assert forget(store, status.id)
    assert list((store.folder / "running").iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../../store", "/etc/passwd", "*", "a\0b", "x" * 5000, "\ud800"])
def test_a_hostile_name_never_becomes_a_path(store: Store, name: str) -> None:
    with written(store, make_status()):
        assert not ask_to_stop(store, name)
    assert not forget(store, name)
    assert len(known_evaluations(store)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 3},
        {"format": None},
        {"id": "another"},
        {"runs": 3},
        {"runs": [{"model": "m"}]},
        {"pid": "many"},
        {"spent_usd": float("nan")},
        {"state": "<script>"},
        {"more": 1},
        None,
    ],
)
def test_files_that_are_damaged_or_of_another_version_are_left_out(
    store: Store, changes: dict[str, Any] | None
) -> None:
    status = make_ended(store.folder)
    path = store.folder / "running" / f"{status.id}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text("[" * 50_000 if changes is None else json.dumps({**content, **changes}), encoding="utf-8")
    assert known_evaluations(store) == []


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
    resumed = make_ended(store.folder, id="resumed", started="2026-12-01T00:00:00+00:00")
    elsewhere = make_ended(store.folder, id="elsewhere", started="2026-12-01T00:00:00+00:00", folder="/other")
    for number in range(MOST_ENDED + 2):
        make_ended(
            store.folder, id=f"old-{number:02}", command=("run", "medec"), started=f"2026-11-01T00:00:{number:02}"
        )
    with written(store, make_status(id="alive")):
        forget_resumed(store, resumed.command, resumed.folder)
        left = [one.status.id for one in known_evaluations(store)]
    assert left == [elsewhere.id, *(f"old-{number:02}" for number in range(MOST_ENDED + 1, 3, -1)), "alive"]


def test_evaluations_of_one_moment_have_different_names() -> None:
    now = "2026-11-01T10:20:30.123+00:00"
    assert new_id(now).startswith("20261101102030-")
    assert new_id(now) != new_id(now)


def test_a_request_that_cannot_be_written_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with written(store, make_status()):
        monkeypatch.setattr(Path, "touch", refuse)
        with pytest.raises(StoreError, match="Permission denied"):
            ask_to_stop(store, make_status().id)
