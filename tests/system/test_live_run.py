"""Evaluations in processes of their own, seen, stopped and removed through the site."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.running import eventually, running
from tests.support.servers.openai import Server
from tests.support.web.sites import make_client

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

ANSWERED, IN_FLIGHT = 20, 4


@pytest.mark.long
def test_two_evaluations_are_shown_and_one_is_stopped_and_resumed_and_one_killed(
    tmp_path: Path, server: Server
) -> None:
    store, benchmark = tmp_path / "store", make_benchmark(tmp_path, n=60)
    site = make_client(store, benchmark_folders=[tmp_path])
    server.answer_with(answers_with(perfect))
    server.hold_beyond(ANSWERED)
    with running(store, benchmark, server) as first:
        server.wait_for(ANSWERED + IN_FLIGHT)
        with running(store, make_benchmark(tmp_path, name="other", n=9), server, "other") as second:
            eventually(lambda: "Evaluations: 2 running." in site.get("/running").text)
            found = {one["runs"][0]["benchmark"]: one for one in site.get("/api/running").json()["evaluations"]}
            eventually(lambda: f"{ANSWERED} of 60" in site.get("/running").text)
            assert found["toy"]["pid"] == first.pid
            second.send_signal(signal.SIGKILL)
            second.wait()
        eventually(lambda: "The process no longer exists" in site.get("/running").text)
        assert site.post(f"/running/{found['other']['id']}/remove").status_code == 200
        assert site.post(f"/running/{found['toy']['id']}/stop").status_code == 200
        assert first.stderr is not None
        assert "stopped from the site" in first.stderr.readline()
        server.release()
        assert "partial" in first.communicate(timeout=600)[0]
        assert first.returncode == 130
    (run,) = load_runs(open_store(store))
    assert (run.status, len(list(read_records(run)))) == ("partial", ANSWERED + IN_FLIGHT)
    (left,) = site.get("/api/running").json()["evaluations"]
    assert (left["state"], left["reason"], left["done"]) == ("stopped", "site", ANSWERED + IN_FLIGHT)
    assert [path.suffix for path in (store / "running").iterdir()] == [".json"]
    with running(store, benchmark, server) as again:
        again.communicate(timeout=600)
        assert again.returncode == 0
    assert list((store / "running").iterdir()) == []
    assert server.count == 60 + 4  # nothing was sent twice; four requests were those of the killed process
