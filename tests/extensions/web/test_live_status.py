"""Totals and time left of evaluations, and the command that resumes one."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

from medhelm.extensions.web.live_status import evaluations, seconds_left, total_progress
from medhelm.storage.live_status import JudgeProgress
from medhelm.storage.store import create
from tests.support.running import make_ended, make_run, make_status, written

NOW = datetime(2026, 11, 1, 0, 2, tzinfo=UTC)


def test_totals_of_a_model_count_its_runs_one_after_another() -> None:
    runs = [
        make_run(n=100, done=90, state="ended", rate_per_s=None, judges={"j": JudgeProgress(expected=90, failed=2)}),
        make_run(n=100, done=50, requests_cached=20),
        make_run(n=40, done=0, n_failed=0, failures={}, state="waiting", cost_usd=None, rate_per_s=None),
    ]
    found = total_progress(runs)
    assert (found.n, found.done, found.n_failed, found.requests_cached, found.judgments_missing) == (240, 140, 6, 20, 2)
    assert list(found.failures.items()) == [("refusal", 4), ("timeout", 2)]
    assert (found.cost_usd, found.rate_per_s) == (1.0, 5.0)
    assert seconds_left(runs) == 90 / 5  # the ten instances of the run that ended will not come
    assert seconds_left([make_run(rate_per_s=0.0)]) is seconds_left([make_run(rate_per_s=None)]) is None


def test_phases_follow_from_the_status_the_lock_and_a_request_to_stop(tmp_path: Path) -> None:
    store = create(tmp_path)
    with written(store, make_status(id="a")), written(store, make_status(id="b", state="stopping")):
        (store.folder / "running" / "a.stop").touch()
        make_ended(tmp_path, id="c", state="ended", reason="budget")
        make_ended(tmp_path, id="d", started="2026-11-01T00:00:30.000+00:00")
        found = {one.status.id: (one.phase, one.elapsed_s) for one in evaluations([tmp_path], NOW)}
    assert found == {"b": ("stopping", 120), "a": ("stopping", 120), "d": ("lost", 30), "c": ("stopped", 60)}
    assert list(found)[-2:] == ["d", "c"]


def test_the_command_is_quoted_and_never_shows_what_a_terminal_would_hide(tmp_path: Path) -> None:
    words = ("run", "my benchmark", "--model", "openai/a;rm -rf ~@http://127.0.0.1:9/v1")
    make_ended(tmp_path, id="1", command=words, folder="/a folder")
    make_ended(tmp_path, id="2", command=("run", "x\x1b[2Ky"))
    make_ended(tmp_path, id="3", command=())
    found = {one.status.id: one.command for one in evaluations([tmp_path], NOW)}
    assert shlex.split(found["1"]) == ["cd", "/a folder", "&&", "medhelm", *words]
    assert (found["2"], found["3"]) == ("", "")
