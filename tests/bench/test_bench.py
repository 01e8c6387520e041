"""The measuring scripts: the server, one measured process, commands, rows, goals and tables."""

from __future__ import annotations

import csv
import hashlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench import bench, machine, table
from bench.cells import ROOT, Bench, Cell, environment, wipe
from bench.measure import Measurement, Server, build_server, find_compiler, peak_in_mib, run_process
from bench.peers import PEERS
from bench.table import Goal, Row
from bench.workloads import WORKLOADS, plain

GOOD = Measurement(wall_s=2.0, cpu_s=1.0, peak_mib=100.0, exit_code=0, timed_out=False)


def row(cell: str, wall_s: float = 1.0, **more: Any) -> Row:
    """A row whose other columns follow from the name of its cell."""
    harness, *rest = cell.split("/")
    known: dict[str, Any] = {
        "cell": cell,
        "harness": harness.partition("-")[0],
        "mode": rest[-1],
        "n": int(rest[0].split("-")[1]) if len(rest) == 3 else 0,
        "latency_ms": int(rest[1].removesuffix("ms")) if len(rest) == 3 else 0,
        "repetitions": 3,
        "wall_s": wall_s,
        "wall_min_s": wall_s,
        "wall_max_s": wall_s,
        "cpu_s": wall_s,
        "peak_mib": 100.0,
    }
    return Row(**(known | more))


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler here (cc, gcc, clang or $CC)")
    return build_server(compiler, tmp_path_factory.mktemp("server"))


@pytest.fixture
def server(server_program: Path) -> Iterator[Server]:
    with Server(server_program, 0) as running:
        yield running


def ask(connection: http.client.HTTPConnection, content: object, **more: object) -> dict[str, Any]:
    body = json.dumps({"model": "mock", "messages": [{"role": "user", "content": content}], **more})
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 200
    found: dict[str, Any] = json.loads(reply.read())
    return found


def text_of(reply: Mapping[str, Any]) -> str:
    text: str = reply["choices"][0]["message"]["content"]
    return text


@pytest.fixture
def connection(server: Server) -> Iterator[http.client.HTTPConnection]:
    opened = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    yield opened
    opened.close()


def test_a_completion_has_what_clients_read(connection: http.client.HTTPConnection) -> None:
    reply = ask(connection, "Question: Is it so?\nReply yes, no or maybe.")
    assert text_of(reply) in ("yes", "no", "maybe")
    assert reply["choices"][0]["finish_reason"] == "stop"
    usage = reply["usage"]
    assert usage["prompt_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_one_question_has_one_answer_however_it_is_put(connection: http.client.HTTPConnection) -> None:
    words = {"A": "yes", "B": "no", "C": "maybe"}
    for number in range(30):
        question = f"Question: Does naïve “T{number}” cell count rise?"
        plain = text_of(ask(connection, f"Context: one\n\n{question}\n\nReply yes, no or maybe."))
        lettered = text_of(ask(connection, f"Context: two\n\n{question}\n\nA. yes\nB. no\nC. maybe", temperature=0))
        parts = text_of(ask(connection, [{"type": "text", "text": f"Question: other?\n{question}\nA) yes"}]))
        assert [words[lettered], words[parts]] == [plain, plain]


def test_answers_differ_and_all_occur(connection: http.client.HTTPConnection) -> None:
    given = [text_of(ask(connection, f"Question: number {n}?\nA. yes\nB. no\nC. maybe")) for n in range(200)]
    assert {answer: given.count(answer) > 5 for answer in "ABC"} == dict.fromkeys("ABC", True)


def test_only_the_last_message_counts(connection: http.client.HTTPConnection) -> None:
    for n in range(10):
        last = {"role": "user", "content": f"is {n} enough"}
        more = [{"role": "system", "content": "Question: which?\nA. this"}, last]
        assert text_of(ask(connection, "", messages=more)) == text_of(ask(connection, f"is {n} enough"))


def test_counters_count_and_start_again(server: Server, connection: http.client.HTTPConnection) -> None:
    server.reset()
    for _ in range(3):
        ask(connection, "once more")
    counters = server.reset()
    assert (counters["requests"], counters["in_flight_max"]) == (3, 1)
    assert server.reset()["requests"] == 0


def test_what_the_server_does_not_know_is_refused(connection: http.client.HTTPConnection) -> None:
    statuses = []
    for method, path in (("GET", "/v1/models"), ("GET", "/elsewhere"), ("POST", "/v1/embeddings")):
        connection.request(method, path, "{}" if method == "POST" else None)
        reply = connection.getresponse()
        reply.read()
        statuses.append(reply.status)
    assert statuses == [200, 404, 404]


def test_a_body_of_unknown_length_is_refused(connection: http.client.HTTPConnection) -> None:
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()  # no body: the server hangs up at once
    assert connection.getresponse().status == 411


def test_a_large_prompt_arrives_whole(connection: http.client.HTTPConnection) -> None:
    assert ask(connection, "x" * 1_000_000)["usage"]["prompt_tokens"] > 250_000


def test_many_at_once_all_wait_and_are_all_answered(server_program: Path) -> None:
    with Server(server_program, 20) as slow:
        open_ones = [http.client.HTTPConnection("127.0.0.1", slow.port, timeout=600) for _ in range(40)]
        slow.reset()
        body = json.dumps({"messages": [{"role": "user", "content": "Question: so?"}]})
        for one in open_ones:
            one.request("POST", "/v1/chat/completions", body)
        assert len({one.getresponse().read() for one in open_ones}) >= 1
        counters = slow.reset()
        for one in open_ones:
            one.close()
    assert counters["requests"] == 40
    assert 1 <= counters["in_flight_max"] <= 40


@pytest.mark.parametrize("words", [[], ["0"], ["x", "0"], ["0", "-1"], ["70000", "0"], ["0", "0", "1", "2"]])
def test_the_server_says_how_it_is_called(server_program: Path, words: list[str]) -> None:
    done = subprocess.run([server_program, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: server PORT LATENCY_MS" in done.stderr


def test_a_port_in_use_is_named(server_program: Path, server: Server) -> None:
    done = subprocess.run([server_program, str(server.port), "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"127.0.0.1:{server.port}" in done.stderr


def test_the_server_ends_by_itself(server_program: Path) -> None:
    assert subprocess.run([server_program, "0", "0", "0"], capture_output=True, check=False).returncode == 0


def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho no such header >&2\nexit 1\n", encoding="utf-8")
    failing.chmod(0o755)
    with pytest.raises(SystemExit, match="no such header"):
        build_server(str(failing), tmp_path)


def test_the_compiler_of_the_environment_comes_first(tmp_path: Path) -> None:
    mine = tmp_path / "my-cc"
    mine.write_text("#!/bin/sh\n", encoding="utf-8")
    mine.chmod(0o755)
    assert find_compiler({"CC": str(mine)}) == str(mine)
    assert find_compiler({"CC": str(tmp_path / "absent")}) == find_compiler({})


# --- one measured process ---------------------------------------------------------------------------------------------


def run_python(tmp_path: Path, code: str, limit_s: float = 600.0) -> Measurement:
    command = [sys.executable, "-c", code]
    return run_process(command, cwd=tmp_path, environment={"WORD": "yes"}, stdout=tmp_path / "out", limit_s=limit_s)


def test_a_process_is_measured_and_its_output_kept(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['WORD']); print('no', file=sys.stderr); block = bytes(80 << 20); exit(3)"
    measured = run_python(tmp_path, code)
    assert (measured.exit_code, measured.timed_out) == (3, False)
    assert measured.wall_s > 0
    assert measured.cpu_s > 0
    assert 1 < measured.peak_mib < 2000
    assert (tmp_path / "out").read_text(encoding="utf-8") == "yes\n"
    assert (tmp_path / "out.err").read_text(encoding="utf-8") == "no\n"


def test_a_larger_process_has_a_larger_peak(tmp_path: Path) -> None:
    # From a process of its own: the peak of a small child is never below that of its parent, and this one may be large.
    code = f"""
import pathlib, sys
sys.path.insert(0, {str(ROOT)!r})
from bench.measure import run_process
for mib in (1, 200):
    command = [sys.executable, "-c", f"block = b'x' * ({{mib}} << 20)"]
    out = pathlib.Path("out")
    print(run_process(command, cwd=pathlib.Path(), environment={{}}, stdout=out, limit_s=600).peak_mib)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    small, large = map(float, done.stdout.split())
    assert 150 < large - small < 250


def test_a_process_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    measured = run_python(tmp_path, "import signal; signal.pause()", limit_s=0.2)
    assert measured.timed_out
    assert measured.exit_code < 0


@pytest.mark.parametrize(("system", "mib"), [("linux", 2.0), ("darwin", 2 / 1024)])
def test_the_unit_of_the_peak_depends_on_the_system(system: str, mib: float) -> None:
    assert peak_in_mib(2048, system) == mib


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_w1_is_the_same_for_all_peers(data_dir: Path, tmp_path: Path) -> None:
    questions = plain.read_questions(data_dir)
    plain.write_w1(questions, tmp_path, 20)
    lines = [json.loads(line) for line in (tmp_path / "w1_20.jsonl").read_text(encoding="utf-8").splitlines()]
    with (tmp_path / "w1_20.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    assert len(questions) == 1000
    assert len(lines) == len(records) == 20
    for line, record in zip(lines, records, strict=True):
        assert line["input"] == plain.W1_TEMPLATE.format(**record)
        assert line["target"] == record["correct_answer"]
        assert {line["target"], *json.loads(record["incorrect_answers"])} == {"yes", "no", "maybe"}
        assert not set("{}$") & set(record["context"] + record["question"])


def test_missing_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"ori_pqal\.json does not exist"):
        plain.read_questions(tmp_path)


def test_invented_rows_differ_and_repeat_themselves() -> None:
    rows = list(islice(plain.invented_rows(300), 300))
    assert rows == list(plain.invented_rows(300))
    assert len({r["question"] for r in rows}) == len({r["id"] for r in rows}) == 300
    assert {r["answer"] for r in rows} == {"yes", "no", "maybe"}
    lengths = [len(r["context"]) for r in rows]
    assert 1300 < sum(lengths) / len(lengths) < 1600


def test_an_invented_benchmark_describes_its_rows(tmp_path: Path) -> None:
    folder = plain.write_benchmark(tmp_path / "invented_12", 12)
    rows = (folder / "rows.jsonl").read_bytes()
    definition = (folder / "benchmark.yaml").read_text(encoding="utf-8")
    assert rows.count(b"\n") == 12
    assert hashlib.sha256(rows).hexdigest() in definition
    assert "name: invented_12\n" in definition
    assert "expected_count: 12\n" in definition
    assert "Question: {question}" in definition


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Bench:
    return Bench(
        work=tmp_path,
        data=tmp_path / "data",
        medhelm=Path("bin/medhelm"),
        venvs=tmp_path / "venvs",
        addresses={0: "http://127.0.0.1:1/v1", 200: "http://127.0.0.1:2/v1"},
    )


def test_cells_have_names_of_their_own() -> None:
    names = [cell.name for cell in bench.CELLS]
    assert len(names) == len(set(names))
    assert {"medhelm/help", "medhelm/demo", "medhelm-c64/w1-1000/200ms/cold", "inspect/w1-1000/0ms/warm"} <= set(names)
    assert set(PEERS) < {cell.harness for cell in bench.CELLS}
    assert len(bench.CELLS) == sum(len(workload.cells) for workload in WORKLOADS), "a cell has one workload"


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


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Cell(harness="medhelm", mode="help"), ["--help"]),
        (Cell(harness="medhelm", mode="cold", n=7), ["run pubmed_qa", "--limit 7", "--json"]),
        (Cell(harness="medhelm", mode="cold", n=7, variant="c64"), ["--concurrency 64"]),
        (Cell(harness="medhelm", mode="cold", n=9, workload="invented"), ["/invented_9 "]),
        (Cell(harness="helm", mode="cold", n=1), ["-n 4"]),
        (Cell(harness="helm", mode="skip", n=1, variant="c64"), ["-n 64", "--skip-completed-runs"]),
        (Cell(harness="inspect", mode="warm", n=1), ["-T cache=true", "--display plain"]),
        (Cell(harness="inspect", mode="cold", n=1, variant="tuned"), ["--no-log-realtime"]),
        (Cell(harness="lmeval", mode="warm", n=1), ["--use_cache"]),
    ],
)
def test_what_a_cell_is_shows_in_its_command(cell: Cell, words: list[str], place: Bench) -> None:
    command = " ".join(plain.command(cell, place))
    assert [word for word in words if word not in command] == []


def test_measured_processes_see_no_settings_and_no_proxies(monkeypatch: pytest.MonkeyPatch, place: Bench) -> None:
    for name in ("MEDHELM_STORE", "PYTHONPATH", "HTTPS_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "set")
    given = environment(place.work)
    assert not {"MEDHELM_STORE", "PYTHONPATH", "HTTPS_PROXY", "http_proxy"} & set(given)
    assert given["OPENAI_API_KEY"]


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


def test_our_report_is_read(place: Bench) -> None:
    run = {"metrics": {"exact_match": {"value": 0.47}}, "main_metric": "exact_match"}
    place.stdout.write_text(json.dumps({"runs": [run], "seconds": 0.5}), encoding="utf-8")
    assert plain.read(Cell(harness="medhelm", mode="cold", n=1), place) == {"accuracy": 0.47, "seconds_inside": 0.5}


def test_the_peers_reports_are_read(place: Bench) -> None:
    stats = place.work / "helm-out" / "runs" / "s" / "one" / "stats.json"
    stats.parent.mkdir(parents=True)
    stats.write_text(json.dumps([{"name": {"name": "n"}}, {"name": {"name": "exact_match"}, "mean": 0.5}]), "utf-8")
    results = place.work / "lmeval-out" / "mock" / "results_1.json"
    results.parent.mkdir(parents=True)
    results.write_text(json.dumps({"results": {"w1_1": {"exact_match,none": 0.25}}}), "utf-8")
    assert plain.read(Cell(harness="helm", mode="cold", n=1), place) == {"accuracy": 0.5}
    assert plain.read(Cell(harness="lmeval", mode="cold", n=1), place) == {"accuracy": 0.25}


def test_inspect_is_asked_for_its_own_log(place: Bench) -> None:
    header = {"results": {"scores": [{"metrics": {"mean": {"value": 0.75}}}]}}
    program = place.program("inspect", "inspect")
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(header)}\nEND\n", encoding="utf-8")
    program.chmod(0o755)
    (place.work / "inspect-out").mkdir()
    (place.work / "inspect-out" / "one.eval").write_bytes(b"")
    assert plain.read(Cell(harness="inspect", mode="cold", n=1), place) == {"accuracy": 0.75}


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
        (replace(COLD, mode="warm"), GOOD, 1, "", "1 requests instead of 0"),
        (COLD, replace(GOOD, exit_code=2), 1000, "", "exit code 2"),
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


@pytest.mark.parametrize(
    ("one_s", "many_s", "rate"), [(0.5, 1.0, 1998.0), (1.0, 1.0, None), (2.0, 1.0, None), (None, 1.0, None)]
)
def test_the_rate_leaves_the_start_out(one_s: float | None, many_s: float, rate: float | None) -> None:
    one = None if one_s is None else row("medhelm/w1-1/0ms/cold", one_s)
    assert plain.rate_after_startup(one, row("medhelm/w1-1000/0ms/cold", many_s)) == rate


def goals_of(rows: list[Row], extra: Mapping[str, float] | None = None) -> dict[str, Goal]:
    return {
        goal.name.partition(" (")[0]: goal for goal in [*plain.goals(rows), *machine.installation_goals(extra or {})]
    }


ALL_ROWS = [
    row("medhelm/help", 0.2),
    row("medhelm/demo", 20.0),
    row("medhelm/w1-1/0ms/cold", 0.5),
    row("medhelm/w1-1000/0ms/cold", 0.9),
    row("medhelm/w1-1000/0ms/warm", 0.6),
    row("medhelm-c64/w1-1000/200ms/cold", 3.5),
    row("medhelm/invented-1000/0ms/cold", peak_mib=90.0),
    row("medhelm/invented-100000/0ms/cold", peak_mib=110.0),
    row("lmeval/w1-1000/0ms/cold", 10.0),
    row("lmeval/w1-1/0ms/cold", 9.5),
    row("inspect/w1-1000/0ms/cold", 19.0),
    row("inspect/w1-1000/0ms/warm", 14.0),
    row("lmeval/w1-1000/200ms/cold", 8.0),
]


def test_every_goal_can_be_met() -> None:
    goals = goals_of(ALL_ROWS, {"install_mib": 200.0, "packages": 40}).values()
    assert [goal.name for goal in goals if goal.met is not True] == []
    by_name = goals_of(ALL_ROWS)
    assert by_name["W1 cold at 0 ms, relative to the fastest peer"].value == pytest.approx(0.09)
    assert by_name[
        "W1 at 200 ms with 64 concurrent requests, relative to the server's own time"
    ].value == pytest.approx(3.5 / 3.125)
    assert by_name["W1 warm, relative to Inspect with its cache"].value == pytest.approx(0.6 / 14)
    assert by_name["peak memory, growth from 1,000 to 100,000 instances"].value == pytest.approx(20)
    assert by_name["instances per second after startup, W1 cold at 0 ms"].value == pytest.approx(2497.5)


@pytest.mark.parametrize("missing", [r.cell for r in ALL_ROWS[:8]])
def test_a_goal_without_its_row_is_neither_met_nor_missed(missing: str) -> None:
    absent = goals_of([r for r in ALL_ROWS if r.cell != missing])
    spoilt = goals_of([replace(r, problem="exit code 1") if r.cell == missing else r for r in ALL_ROWS])
    undecided = [name for name, goal in absent.items() if goal.met is None and not name.startswith("install")]
    assert undecided
    assert undecided == [n for n, goal in spoilt.items() if goal.met is None and not n.startswith("install")]


def test_the_fastest_peer_is_the_one_to_beat() -> None:
    goal = plain.goals([*ALL_ROWS, row("helm/w1-1000/0ms/cold", 1.0)])[0]
    assert "helm/w1-1000/0ms/cold" in goal.name
    assert goal.met is False


def test_without_peers_there_is_nothing_to_compare_with() -> None:
    goals = plain.goals([r for r in ALL_ROWS if r.harness == "medhelm"])
    assert "no peer" in goals[0].name
    assert [goals[0].met, goals[2].met] == [None, None]


@pytest.mark.parametrize(
    ("value", "at_least", "met"),
    [(1.0, False, True), (1.01, False, False), (1.0, True, True), (0.99, True, False), (None, True, None)],
)
def test_a_limit_is_part_of_what_is_allowed(value: float | None, at_least: bool, met: bool | None) -> None:
    assert Goal(name="x", value=value, limit=1.0, unit="s", at_least=at_least).met is met


def test_quoted_rows_stand_in_only_for_peers_not_measured() -> None:
    quoted, source = bench.quoted_rows()
    assert {"date", "machine", "versions"} <= set(source)
    assert all(r.quoted and r.counts and r.harness in PEERS for r in quoted)
    measured = row("inspect/w1-1/0ms/cold")
    rows = bench.with_quoted([measured], quoted)
    assert [r for r in rows if r.harness == "inspect"] == [measured]
    assert {r.harness for r in rows if r.quoted} == {"helm", "lmeval"}
    assert plain.goals(bench.with_quoted(ALL_ROWS[:6], quoted))[0].quoted


# --- tables and files -------------------------------------------------------------------------------------------------


def test_a_table_lines_up() -> None:
    lines = table.table(["name", "n"], [["a", "1"], ["longer", "22"]]).splitlines()
    assert lines == ["| name   |  n |", "| ------ | -: |", "| a      |  1 |", "| longer | 22 |"]


def test_rows_show_what_is_known_and_why_one_does_not_count() -> None:
    bad = replace(row("medhelm/w1-1000/0ms/cold", 2.0), problem="exit code 1")
    lines = table.rows_table([row("helm/w1-1/0ms/cold", 1.5, quoted=True, requests=1, accuracy=0.5), bad]).splitlines()
    assert "helm/w1-1/0ms/cold *" in lines[2]
    assert [cell.strip() for cell in lines[2].split("|")][2:-1] == [
        "3", "1.50", "1.50-1.50", "1.50", "100", "1", "-", "-", "0.500",
    ]  # fmt: skip
    assert "(exit code 1)" in lines[3]


def test_goals_show_met_missed_and_not_measured() -> None:
    lines = table.goals_table(
        [
            Goal(name="fast", value=0.0412, limit=0.05, unit="x", quoted=True),
            Goal(name="small", value=250.4, limit=200, unit="MiB"),
            Goal(name="many", value=None, limit=2000, unit="/s", at_least=True),
        ]
    ).splitlines()
    cells = [[cell.strip() for cell in line.split("|")][1:-1] for line in lines[2:]]
    assert cells == [
        ["fast *", "0.041x", "<= 0.050x", "met"],
        ["small", "250 MiB", "<= 200 MiB", "missed"],
        ["many", "-", ">= 2,000 /s", "not measured"],
    ]


def test_rates_are_shown_with_and_without_the_start() -> None:
    rows = [*ALL_ROWS, row("inspect-tuned/w1-1000/0ms/cold", 10.0), row("inspect/w1-1/0ms/cold", 5.0)]
    cells = [[c.strip() for c in line.split("|")][1:-1] for line in plain.rates_table(rows).splitlines()[2:]]
    assert ["medhelm", "1111", "2498", "0.90"] in cells
    assert ["lmeval", "100", "1998", "10.00"] in cells
    assert ["inspect-tuned", "100", "200", "10.00"] in cells


def written(rows: list[Row]) -> dict[str, Any]:
    return table.report(
        rows,
        plain.goals(rows),
        date="2026-01-02",
        machine=machine.describe(),
        versions={"medhelm": "1"},
        extra={},
        quoted_from={"date": "2025-01-01", "machine": "another", "versions": "older"},
    )


def test_the_report_is_json_and_reads_back() -> None:
    saved = written(ALL_ROWS)
    again = json.loads(json.dumps(saved))
    assert again == saved
    assert [Row(**r) for r in again["rows"]] == ALL_ROWS
    assert again["goals"][0]["met"] is True
    assert again["quoted_from"] is None


def test_the_page_names_date_machine_versions_and_sources() -> None:
    rows = [*ALL_ROWS[:3], row("helm/w1-1/0ms/cold", quoted=True)]
    saved = written(rows)
    page = table.page(rows, plain.goals(rows), saved, ["| another table", ""])
    for words in (
        "| another table",
        "2026-01-02",
        saved["machine"]["system"],
        "medhelm 1",
        "| goal",
        "| cell",
        "2025-01-01 on another",
    ):
        assert words in page


def test_only_the_part_between_the_marks_is_replaced() -> None:
    text = f"# Title\n\n{table.BEGIN}\nold\n{table.END}\n\nend\n"
    once = table.replace_between(text, "new")
    assert once == f"# Title\n\n{table.BEGIN}\n\nnew\n\n{table.END}\n\nend\n"
    assert table.replace_between(once, "new") == once


@pytest.mark.parametrize(
    "text", ["", table.BEGIN, f"{table.END}\n{table.BEGIN}", f"{table.BEGIN}{table.BEGIN}{table.END}"]
)
def test_a_file_without_both_marks_is_left_alone(text: str) -> None:
    with pytest.raises(ValueError, match="once each"):
        table.replace_between(text, "new")


def test_the_readme_has_a_place_for_the_figures() -> None:
    readme = (bench.HERE / "README.md").read_text(encoding="utf-8")
    assert "new" in table.replace_between(readme, "new")


# --- machine and command ----- -------------------------------------------------------------------------------------


def test_the_machine_is_described() -> None:
    found = machine.describe()
    assert found["cores"] >= 1
    assert found["processor"]
    assert found["python"].startswith(f"{sys.version_info.major}.")


def test_versions_come_from_the_environment_asked() -> None:
    assert machine.version(Path(sys.executable), "pytest") == pytest.__version__
    assert machine.version(Path(sys.executable), "no-such-package") == "unknown"
    assert machine.version(Path("nowhere") / "python", "pytest") == "unknown"


def test_an_installation_is_weighed_without_its_tools(tmp_path: Path) -> None:
    for name, size in (("pip/a.py", 100), ("ours/b.py", 30), ("ours/__pycache__/b.pyc", 7), ("c.so", 5)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    assert machine.size_of(tmp_path) == 35


def test_only_what_is_installed_and_wanted_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "lmeval" / "bin" / "lm_eval"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"")
    words = ["--medhelm", "medhelm", "--venvs", str(tmp_path), "--only", "*/w1-1000/200ms/*", "medhelm/help"]
    cells = bench.chosen_cells(bench.arguments(words))
    assert [cell.name for cell in cells] == [
        "medhelm/help",
        "medhelm-c64/w1-1000/200ms/cold",
        "lmeval/w1-1000/200ms/cold",
    ]
    said = capsys.readouterr().err
    assert "helm is not installed" in said
    assert "inspect is not installed" in said


@pytest.mark.parametrize(
    ("wanted", "cells"),
    [
        ("suite/list", ["suite/list"]),
        ("suite/*-run", ["suite/ehrshot-run"]),
        ("suite", [cell.name for cell in bench.CELLS if cell.harness == "suite"]),
        ("medhelm-c64", ["medhelm-c64/w1-1000/0ms/cold", "medhelm-c64/w1-1000/200ms/cold"]),
        ("suit", []),
    ],
)
def test_a_pattern_is_a_name_or_what_names_begin_with(wanted: str, cells: list[str]) -> None:
    chosen = bench.arguments(["--medhelm", "medhelm", "--only", wanted])
    assert [cell.name for cell in bench.chosen_cells(chosen)] == cells


def test_a_compiler_is_needed_only_to_ask_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "find_compiler", lambda: None)
    assert dict(bench.start_servers([], tmp_path)) == {}
    with pytest.raises(SystemExit, match="no C compiler"):
        dict(bench.start_servers([0], tmp_path))


def test_nothing_to_measure_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--only", "no such cell"]) == 2
    assert "nothing to measure" in capsys.readouterr().err


def test_no_repetitions_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(["--reps", "0"])
    assert ended.value.code == 2
    assert "at least 1" in capsys.readouterr().err


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
