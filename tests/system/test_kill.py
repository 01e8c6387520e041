"""What a process that is killed or interrupted leaves behind: everything it received."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support import programs
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect, question_number
from tests.support.benchmarks.judged import JUDGES, court, write_benchmark
from tests.support.cli import repeated
from tests.support.servers.openai import Answer, Server

N, CONCURRENCY, KILLS = 120, 4, 5

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def start(store: Path, benchmark: Path, server: Server, *judges: str) -> subprocess.Popen[str]:
    words = ("run", str(benchmark), "--model", server.model(), "--store", str(store), "--json")
    judged = repeated("--judge", map(server.model, judges))
    return programs.start(store.parent, *words, *judged, "--concurrency", str(CONCURRENCY))


def records(store: Path) -> list[dict[str, object]]:
    """All rows of the only run, without the time that each took or arrived."""
    (run,) = load_runs(open_store(store))
    return [
        {key: value for key, value in row.items() if key not in ("latency_s", "received")} for row in read_records(run)
    ]


def finish(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=600)
    return process.returncode


def killed_at(moments: Sequence[int], store: Path, benchmark: Path, server: Server, *judges: str) -> None:
    """Run until the server has received so many requests in all, then kill; once for each of `moments`."""
    for moment in moments:
        process = start(store, benchmark, server, *judges)
        server.wait_for(moment)
        process.send_signal(signal.SIGKILL)
        finish(process)


@pytest.mark.long
def test_a_jury_killed_at_random_moments_ends_the_same_and_is_paid_once(tmp_path: Path, server: Server) -> None:
    server.answer_with(court(lambda judge, n, _: "hm" if judge == "judge-2" and n % 7 == 0 else None))
    benchmark, n = write_benchmark(tmp_path, n=80), 80
    assert finish(start(tmp_path / "undisturbed", benchmark, server, *JUDGES)) == 1
    before = server.count
    assert before == n * 4 + 12  # every seventh completion is shown to the second judge again
    moments = sorted(random.Random(1).sample(range(before + 1, before * 2 - 20), KILLS))
    killed_at(moments, tmp_path / "killed", benchmark, server, *JUDGES)
    assert finish(start(tmp_path / "killed", benchmark, server, *JUDGES)) == 1
    assert records(tmp_path / "killed") == records(tmp_path / "undisturbed")
    (killed,), (whole,) = (load_runs(open_store(tmp_path / name)) for name in ("killed", "undisturbed"))
    assert (killed.estimates, killed.id) == (whole.estimates, whole.id)
    assert repr(read_judgments(killed)) == repr(read_judgments(whole))
    assert server.count - before - before <= KILLS * CONCURRENCY


def test_an_interrupt_keeps_what_was_received_and_what_is_in_flight(tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(perfect))
    benchmark = make_benchmark(tmp_path, n=N)
    server.hold()
    process = start(tmp_path / "store", benchmark, server)
    server.wait_for(CONCURRENCY)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "Ctrl-C again" in process.stderr.readline()
    server.release()
    assert finish(process) == 130
    assert len(records(tmp_path / "store")) == CONCURRENCY == server.count
    assert finish(start(tmp_path / "store", benchmark, server)) == 0
    assert len(set(map(question_number, server.bodies))) == server.count
    assert len(records(tmp_path / "store")) == N


def test_a_second_interrupt_waits_for_neither_models_nor_judges(tmp_path: Path, server: Server) -> None:
    slow = Answer(ending="hang")
    server.answer_with(court(lambda judge, n, _: slow if n > 5 else None))
    process = start(tmp_path / "store", write_benchmark(tmp_path, n=40), server, *JUDGES)
    server.wait_for(6 * 4 + CONCURRENCY)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "Ctrl-C again" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert finish(process) == 130
    (run,) = load_runs(open_store(tmp_path / "store"))
    assert run.status == "partial"
    assert {row["instance_id"] for row in read_records(run)} <= {f"q{i}" for i in range(6)}
