"""The measuring scripts: the server, one measured process, commands, rows, goals and tables."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import bench, machine
from bench.cells import Bench, Cell, wipe
from bench.measure import Measurement
from bench.peers import PEERS
from bench.workloads import WORKLOADS, plain
from tests.support.bench_rows import measured

GOOD = Measurement(wall_s=2.0, cpu_s=1.0, peak_mib=100.0, exit_code=0, timed_out=False)


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", bench.CELLS, ids=lambda cell: cell.name)
def test_every_cell_has_a_command_that_asks_the_right_server(cell: Cell, place: Bench) -> None:
    (place.work / "largest.json").write_text('{"benchmark": "head_qa"}', encoding="utf-8")
    workload = bench.WORKLOAD_OF[cell]
    if cell.harness in PEERS and cell.n:
        questions = place.data / plain.QUESTIONS_FILE
        questions.parent.mkdir(parents=True)
        questions.write_text("{}", encoding="utf-8")
        workload.prepare([cell], place)
    words = workload.command(cell, place)
    assert all(isinstance(word, str) and word for word in words)
    if cell.n == 0:
        return
    written = " ".join(words)
    if cell.harness == "helm":  # its addresses are in a file
        folder = Path(words[words.index("--local-path") + 1])
        written += (folder / "model_deployments.yaml").read_text(encoding="utf-8")
    assert place.addresses[cell.latency_ms] in written
    assert str(cell.n) in written


def test_a_cold_run_finds_nothing_of_the_last_one(place: Bench) -> None:
    kept = place.work / "w1_1.jsonl"
    kept.write_text("", encoding="utf-8")
    for name in ("helm-out/runs", "helm-env0/cache", "medhelm-store", "suite-store", "inspect-cache"):
        (place.work / name).mkdir(parents=True)
    (place.work / "lmeval-cache_rank0.db").write_bytes(b"")
    for leftovers in (*(workload.leftovers for workload in WORKLOADS), *(peer.leftovers for peer in PEERS.values())):
        wipe(leftovers, place)
    assert sorted(path.name for path in place.work.iterdir()) == ["helm-env0", "w1_1.jsonl"]
    assert not (place.work / "helm-env0" / "cache").exists()


# --- rows and goals ---------------------------------------------------------------------------------------------------

COLD = Cell(harness="medhelm", mode="cold", n=1000)


def test_a_row_is_the_median_of_its_runs() -> None:
    runs = [replace(GOOD, wall_s=wall, cpu_s=wall / 2, peak_mib=wall * 10) for wall in (3.0, 1.0, 2.5)]
    found = bench.summarize(COLD, runs, {"requests": 1000, "in_flight_max": 9}, {"accuracy": 0.5, "instances": 7})
    assert (found.wall_s, found.wall_min_s, found.wall_max_s) == (2.5, 1.0, 3.0)
    assert (found.cpu_s, found.peak_mib, found.repetitions) == (1.25, 25.0, 3)
    assert (found.requests, found.in_flight_max, found.accuracy, found.seconds_inside) == (1000, 9, 0.5, None)
    assert found.reported == {"instances": 7}
    assert found.counts


@pytest.mark.parametrize(
    ("cell", "run", "requests", "unread", "problem"),
    [
        (COLD, GOOD, 999, "", "999 requests instead of 1000"),
        (COLD, replace(GOOD, exit_code=-9, timed_out=True), 1000, "", "timeout"),
        (COLD, GOOD, 1000, "KeyError 'runs'", "no report: KeyError 'runs'"),
        (COLD, replace(GOOD, exit_code=1), 3, "", "exit code 1; 3 requests instead of 1000"),
    ],
)
def test_a_run_that_went_wrong_does_not_count(
    cell: Cell, run: Measurement, requests: int, unread: str, problem: str
) -> None:
    found = bench.summarize(cell, [GOOD, run], {"requests": requests}, {}, unread)
    assert found.problem == problem
    assert not found.counts


ALL_ROWS = [
    measured("medhelm/help", 0.2),
    measured("medhelm/demo", 20.0),
    measured("medhelm/w1-1/0ms/cold", 0.5),
    measured("medhelm/w1-1000/0ms/cold", 0.9),
    measured("medhelm/w1-1000/0ms/warm", 0.6),
    measured("medhelm-c64/w1-1000/200ms/cold", 3.5),
    measured("medhelm/invented-1000/0ms/cold", peak_mib=90.0),
    measured("medhelm/invented-100000/0ms/cold", peak_mib=110.0),
    measured("lmeval/w1-1000/0ms/cold", 10.0),
    measured("lmeval/w1-1/0ms/cold", 9.5),
    measured("inspect/w1-1000/0ms/cold", 19.0),
    measured("inspect/w1-1000/0ms/warm", 14.0),
    measured("lmeval/w1-1000/200ms/cold", 8.0),
]


def test_every_goal_can_be_met() -> None:
    goals = [*plain.goals(ALL_ROWS), *machine.installation_goals({"install_mib": 200.0, "packages": 40})]
    assert [goal.name for goal in goals if goal.met is not True] == []
    values = [goal.value for goal in goals]
    for expected in (0.09, 3.5 / 3.125, 0.6 / 14, 20, 2497.5):
        assert pytest.approx(expected) in values


@pytest.mark.parametrize("missing", [r.cell for r in ALL_ROWS[:8]])
def test_a_goal_without_its_row_is_neither_met_nor_missed(missing: str) -> None:
    absent = plain.goals([r for r in ALL_ROWS if r.cell != missing])
    spoilt = plain.goals([replace(r, problem="exit code 1") if r.cell == missing else r for r in ALL_ROWS])
    assert None in [goal.met for goal in absent]
    assert [goal.met for goal in absent] == [goal.met for goal in spoilt]


# --- the main script --------------------------------------------------------------------------------------------------


FAKE_MEDHELM = """\
#!{python}
import json, sys, urllib.request
words = sys.argv[1:]
if words[0] == "run":
    url = next(word for word in words if "@" in word).partition("@")[2] + "/chat/completions"
    body = json.dumps({{"messages": [{{"role": "user", "content": "Question: so?"}}]}}).encode()
    for _ in range(int(words[words.index("--limit") + 1])):
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=600) as reply:
            reply.read()
    run = {{"main_metric": "m", "metrics": {{"m": {{"value": 0.5}}}}}}
    print(json.dumps({{"seconds": 0.1, "runs": [run]}}))
"""


def test_a_whole_run_with_a_fake_command(
    server_program: Path, tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server_program.exists()
    command = tmp_path / "bin" / "medhelm"
    command.parent.mkdir()
    command.write_text(FAKE_MEDHELM.format(python=sys.executable), encoding="utf-8")
    command.chmod(0o755)
    out = tmp_path / "results.json"
    words = ["--medhelm", str(command), "--data", str(data_dir), "--reps", "2", "--out", str(out)]
    code = bench.main([*words, "--only", "medhelm/help", "medhelm/w1-1/*", "--keep", str(tmp_path / "work")])
    saved = json.loads(out.read_text(encoding="utf-8"))
    rows = {r["cell"]: r for r in saved["rows"] if not r["quoted"]}
    assert set(rows) == {"medhelm/help", "medhelm/w1-1/0ms/cold"}
    one = rows["medhelm/w1-1/0ms/cold"]
    assert (one["requests"], one["accuracy"], one["repetitions"], one["problem"]) == (1, 0.5, 2, "")
    assert code in (0, 1)  # whether `--help` is fast enough is not for a test to say
    assert "| medhelm/w1-1/0ms/cold" in capsys.readouterr().out
    assert (tmp_path / "work" / "w1_1.jsonl").exists()
