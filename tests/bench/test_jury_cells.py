"""Figures of the jury: what the server says, the workload, commands, reports, goals and the table."""

from __future__ import annotations

import csv
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.cells import Bench, Cell, wipe
from bench.measure import Server, build_server, find_compiler
from bench.table import Row
from bench.workloads import jury
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.cli import Medhelm

ADDRESS = "http://127.0.0.1:1/v1"


def cell(harness: str = "medhelm", **more: Any) -> Cell:
    return Cell(**{"harness": harness, "mode": "cold", "workload": jury.NAME, "n": 200, **more})


@pytest.fixture
def place(tmp_path: Path) -> Bench:
    addresses = {0: ADDRESS, 200: "http://127.0.0.1:2/v1"}
    venvs = tmp_path / "venvs"
    return Bench(work=tmp_path, data=tmp_path / "data", medhelm=tmp_path / "medhelm", venvs=venvs, addresses=addresses)


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler here (cc, gcc, clang or $CC)")
    with Server(build_server(compiler, tmp_path_factory.mktemp("server")), 0) as running:
        yield running


def says(server: Server, **body: Any) -> str:
    """What the server's model answers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    asked = {"messages": [{"role": "user", "content": "Question: so?"}], **body}
    connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
    reply: Any = json.loads(connection.getresponse().read())
    connection.close()
    text: str = reply["choices"][0]["message"]["content"]
    return text


@pytest.mark.parametrize("name", jury.JUDGES)
def test_judges_give_the_verdict_that_runs_are_checked_against(server: Server, name: str) -> None:
    verdict = json.loads(says(server, model=name))
    grades = {criterion: found["score"] for criterion, found in verdict.items()}
    assert list(grades) == ["accuracy", "completeness", "clarity"]
    assert sum(grades.values()) / 3 == grades["accuracy"] == jury.SCORE
    assert all(found["explanation"] for found in verdict.values())


def test_writers_write_a_letter(server: Server) -> None:
    letter = says(server, model=jury.WRITER)
    assert letter.startswith("Dear patient,\n\n")
    assert 80 < len(letter.split()) < 120
    assert letter.isascii()


def test_only_the_models_own_name_makes_it_a_judge(server: Server) -> None:
    quoted = [{"role": "user", "content": 'Question: is "model": "judge1" a judge?'}]
    for body in ({"model": "mock"}, {"model": "mock", "messages": quoted}, {"messages": quoted}, {"model": "a-judge"}):
        assert says(server, **body) in ("yes", "no", "maybe")


def test_a_name_after_the_messages_counts(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": "model"}], "model": "judge2"}
    assert says(server, **body).startswith("{")


# --- the workload -----------------------------------------------------------------------------------------------------


def test_everybody_is_asked_the_same(place: Bench) -> None:
    jury.prepare([cell(n=3), cell("helm", n=3), cell("inspect", n=3)], place)
    (benchmark,) = load_benchmarks([str(place.work / "jury_3")], metrics=METRIC_NAMES)
    ours = [
        render(benchmark, instance).messages[-1].text for instance in open_dataset(benchmark, data=None, tier="real")
    ]
    lines = (place.work / "jury_3.jsonl").read_text(encoding="utf-8").splitlines()
    assert [text.strip() for text in ours] == [json.loads(line)["input"].strip() for line in lines]
    template = (place.work / "jury_prompt.txt").read_text(encoding="utf-8")
    with (place.work / "jury_3.csv").open(encoding="utf-8", newline="") as table:
        filled = [template.format(**row) for row in csv.DictReader(table)]
    assert [text.strip() for text in filled] == [text.strip() for text in ours]
    assert len(set(ours)) == 3


def test_the_benchmark_has_the_criteria_of_the_verdict(place: Bench) -> None:
    jury.prepare([cell(n=1)], place)
    (benchmark,) = load_benchmarks([str(place.work / "jury_1")], metrics=METRIC_NAMES)
    assert benchmark.main_metric == "jury"
    assert benchmark.rubric is not None
    assert [criterion.name for criterion in benchmark.rubric.criteria] == ["accuracy", "completeness", "clarity"]
    assert (benchmark.rubric.low, benchmark.rubric.high) == (1, 5)


def test_the_definition_for_helm_is_one(place: Bench) -> None:
    jury.prepare([cell("helm", n=1)], place)
    (benchmark,) = load_benchmarks([str(place.work / "jury_1.yaml")], metrics=METRIC_NAMES)
    assert benchmark.rubric is not None
    assert [criterion.name for criterion in benchmark.rubric.criteria] == ["accuracy", "completeness", "clarity"]
    assert any("mock/judge1, mock/judge2, mock/judge3" in remark for remark in benchmark.remarks)
    for latency_ms, address in place.addresses.items():
        folder = place.work / f"helm-env-jury{latency_ms}"
        written = json.loads((folder / "model_deployments.yaml").read_text(encoding="utf-8"))["model_deployments"]
        assert [each["client_spec"]["args"]["vllm_model_name"] for each in written] == ["writer", *jury.JUDGES]
        assert {each["client_spec"]["args"]["base_url"] for each in written} == {address}


@pytest.mark.parametrize(
    ("harnesses", "files"),
    [
        ([], []),
        (["medhelm"], ["jury_2", "jury_2.csv", "jury_2.jsonl"]),
        (["inspect"], ["inspect_jury.py", "jury_2", "jury_2.csv", "jury_2.jsonl"]),
    ],
)
def test_only_what_is_needed_is_written(harnesses: list[str], files: list[str], place: Bench) -> None:
    jury.prepare([cell(harness, n=2) for harness in harnesses], place)
    assert sorted(path.name for path in place.work.iterdir()) == files


# --- commands and reports ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "words", "absent"),
    [
        (
            cell(),
            [
                "run",
                "jury_200",
                f"--model openai/writer@{ADDRESS}",
                f"--judge openai/judge1@{ADDRESS} --judge openai/judge2@{ADDRESS} --judge openai/judge3@{ADDRESS}",
                "--concurrency 64",
                "--json",
            ],
            ["localhost"],
        ),
        (cell(variant="plain"), [f"openai/writer@{ADDRESS}"], ["--judge"]),
        (
            cell(variant="own", latency_ms=200),
            ["openai/writer@http://127.0.0.1:2/v1", "--judge openai/judge3@http://localhost:2/v1"],
            ["judge1@http://127"],
        ),
        (
            cell("inspect"),
            ["venvs/inspect/bin/inspect", "data=jury_200.jsonl", "judges=judge1 judge2 judge3", f"address={ADDRESS}"],
            ["--display plain"],
        ),
        (cell("inspect", variant="plain"), ["--max-connections 64", f"--model-base-url {ADDRESS}"], ["judges="]),
        (cell("helm"), ["config_path=jury_200.yaml", "helm-env-jury0", "-n 64", "-m 200"], ["plain"]),
        (cell("helm", variant="plain", latency_ms=200), ["jury_200_plain.yaml", "helm-env-jury200"], []),
    ],
)
def test_what_a_cell_of_the_jury_does(asked: Cell, words: list[str], absent: list[str], place: Bench) -> None:
    command = " ".join(jury.command(asked, place))
    assert [word for word in words if word not in command] == []
    assert [word for word in absent if word in command] == []


@pytest.mark.parametrize(
    ("asked", "requests"), [(cell(), 800), (cell(variant="own"), 800), (cell(variant="plain"), 200)]
)
def test_how_many_requests_a_run_sends(asked: Cell, requests: int) -> None:
    assert jury.expected_requests(asked) == requests


def test_our_report_is_read(place: Bench) -> None:
    run = {"metrics": {"jury": {"value": 4.0}}}
    place.stdout.write_text(json.dumps({"seconds": 1.5, "runs": [run]}), encoding="utf-8")
    assert jury.read_medhelm(cell(), place) == {"seconds_inside": 1.5, "score": 4.0}
    place.stdout.write_text(json.dumps({"seconds": 0.5, "runs": [{"metrics": {}}]}), encoding="utf-8")
    assert jury.read_medhelm(cell(variant="plain"), place) == {"seconds_inside": 0.5}


def test_the_report_of_helm_is_read(place: Bench) -> None:
    stats = place.work / "helm-out" / "runs" / "s" / "one" / "stats.json"
    stats.parent.mkdir(parents=True)
    means = {"jury_score": 4.0, "exact_match": 0.0}
    written = [{"name": {"name": name}, "mean": mean} for name, mean in means.items()]
    stats.write_text(json.dumps(written), encoding="utf-8")
    assert jury.read_helm(cell("helm"), place) == {"score": 4.0}
    assert jury.read_helm(cell("helm", variant="plain"), place) == {}


def test_the_report_of_inspect_is_read(place: Bench) -> None:
    program = place.program("inspect", "inspect")
    program.parent.mkdir(parents=True)
    header = {"results": {"scores": [{"metrics": {"mean": {"value": 4.0}}}]}}
    program.write_text(f"#!/bin/sh\necho '{json.dumps(header)}'\n", encoding="utf-8")
    program.chmod(0o755)
    (place.work / "inspect-out").mkdir()
    (place.work / "inspect-out" / "one.eval").touch()
    assert jury.read_inspect(cell("inspect"), place) == {"score": 4.0}
    assert jury.read_inspect(cell("inspect", variant="plain"), place) == {}


def test_a_run_with_another_score_does_not_count(place: Bench) -> None:
    run = {"metrics": {"jury": {"value": 1.0}}}
    place.stdout.write_text(json.dumps({"seconds": 1.5, "runs": [run]}), encoding="utf-8")
    with pytest.raises(ValueError, match="the jury's score is 1, expected 4"):
        jury.read_medhelm(cell(), place)


def test_a_real_run_is_what_is_expected(place: Bench, server: Server, medhelm: Medhelm) -> None:
    here = Bench(work=place.work, data=place.data, medhelm=Path(), venvs=None, addresses={0: server.base_url})
    for variant in ("", "own", "plain"):
        asked = cell(n=5, variant=variant)
        jury.prepare([asked], here)
        server.reset()
        wipe(jury.WORKLOAD.leftovers, here)
        done = medhelm(*jury.medhelm_command(asked, here)[1:])
        assert done.code == 0, done.err
        assert server.reset()["requests"] == jury.expected_requests(asked)
        here.stdout.write_text(done.out, encoding="utf-8")
        assert ("score" in jury.read_medhelm(asked, here)) == jury.is_judged(asked)


# --- goals and the table ----------------------------------------------------------------------------------------------


def row(name: str, wall_s: float, **more: Any) -> Row:
    times: dict[str, Any] = dict.fromkeys(("wall_s", "wall_min_s", "wall_max_s", "cpu_s"), wall_s)
    return Row(
        cell=name, harness=name.partition("/")[0].partition("-")[0], mode="cold", n=200, latency_ms=0, repetitions=3,
        peak_mib=100.0, **times, **more,
    )  # fmt: skip


WALLS = {
    "medhelm-plain/jury-1/0ms/cold": 0.5,
    "medhelm-plain/jury-200/0ms/cold": 0.699,  # 1 ms a letter
    "medhelm/jury-1/0ms/cold": 0.6,
    "medhelm/jury-200/0ms/cold": 1.396,  # 1 ms more for each of three judges
    "medhelm-plain/jury-200/200ms/cold": 1.4,
    "medhelm/jury-200/200ms/cold": 3.2,
    "medhelm-own/jury-200/200ms/cold": 2.8,
    "inspect-plain/jury-200/0ms/cold": 6.0,
    "inspect/jury-200/0ms/cold": 9.0,
    "inspect/jury-200/200ms/cold": 12.0,
}
OVERHEAD, SHARED, OWN = (
    "time per judgment at 0 ms after startup, relative to a plain request",
    "letters and judgments at 200 ms after startup, one address, relative to the critical path",
    "the same with judges at another address",
)


def rows(**changed: float) -> list[Row]:
    """A row for each cell, some with another time."""
    return [row(name, wall) for name, wall in {**WALLS, **changed}.items()]


def test_every_goal_of_the_jury_can_be_met() -> None:
    goals = {goal.name: goal for goal in jury.goals(rows())}
    assert goals[OVERHEAD].value == pytest.approx(1.0)
    assert goals[SHARED].value == pytest.approx(2.6 / 2.6)
    assert goals[OWN].value == pytest.approx(2.2 / 2.2)
    assert [goal.met for goal in goals.values()] == [True] * 3


@pytest.mark.parametrize(
    ("cell_name", "wall_s", "missed"),
    [
        ("medhelm/jury-200/0ms/cold", 1.8, OVERHEAD),
        ("medhelm-plain/jury-200/0ms/cold", 0.6, OVERHEAD),
        ("medhelm/jury-200/200ms/cold", 3.8, SHARED),
        ("medhelm-own/jury-200/200ms/cold", 3.3, OWN),
    ],
)
def test_every_goal_of_the_jury_can_be_missed(cell_name: str, wall_s: float, missed: str) -> None:
    goals = jury.goals(rows(**{cell_name: wall_s}))
    assert [goal.name for goal in goals if goal.met is False] == [missed]


@pytest.mark.parametrize("cell_name", [name for name in list(WALLS)[:7] if "plain/jury-200/200ms" not in name])
def test_a_goal_of_the_jury_without_its_row_is_neither_met_nor_missed(cell_name: str) -> None:
    absent = [goal.met for goal in jury.goals([row(n, w) for n, w in WALLS.items() if n != cell_name])]
    spoilt = [row(n, w, problem="exit code 1" if n == cell_name else "") for n, w in WALLS.items()]
    assert None in absent
    assert absent == [goal.met for goal in jury.goals(spoilt)]


def test_times_that_make_no_sense_are_no_overhead() -> None:
    for changed in ({"medhelm-plain/jury-200/0ms/cold": 0.4}, {"medhelm/jury-200/0ms/cold": 0.61}):
        assert jury.goals(rows(**changed))[0].value is None


@pytest.mark.parametrize(
    ("n", "own", "rounds"),
    [(200, False, 13), (200, True, 11), (16, False, 2), (16, True, 2), (1, False, 2), (64, False, 4), (64, True, 4)],
)
def test_the_critical_path_counts_rounds(n: int, own: bool, rounds: int) -> None:
    assert jury.critical_path_s(n, 0.2, own=own) == pytest.approx(rounds * 0.2)


def test_the_table_of_the_jury_tells_who_takes_how_long() -> None:
    lines = jury.jury_table(rows()).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert cells == [
        ["medhelm", "0.70 s", "1.40 s", "1.16 ms", "3.20 s"],
        ["inspect", "6.00 s", "9.00 s", "5.00 ms", "12.00 s"],
    ]


def test_what_was_not_measured_of_the_jury_is_not_in_the_table() -> None:
    assert jury.jury_table([]) == ""
    assert jury.jury_table([row("medhelm/jury-200/0ms/cold", 1.0, problem="exit code 1")]) == ""
    (line,) = jury.jury_table([row("helm/jury-200/0ms/cold", 9.0, quoted=True)]).splitlines()[2:]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["helm *", "-", "9.00 s", "-", "-"]
