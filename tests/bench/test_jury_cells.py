"""Figures of the jury: what the server says, the workload, commands, reports, goals and the table."""

from __future__ import annotations

import csv
import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from bench.cells import Bench, Cell, wipe
from bench.measure import Server
from bench.workloads import jury
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.bench_rows import measured
from tests.support.cli import Medhelm


def cell(harness: str = "medhelm", **more: Any) -> Cell:
    return Cell(**{"harness": harness, "mode": "cold", "workload": jury.NAME, "n": 200, **more})


# --- the server -------------------------------------------------------------------------------------------------------


def says(server: Server, **body: Any) -> str:
    """What the server's model answers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    asked = {"messages": [{"role": "user", "content": "Question: so?"}], **body}
    connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
    reply: Any = json.loads(connection.getresponse().read())
    connection.close()
    text: str = reply["choices"][0]["message"]["content"]
    return text


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


# --- commands and reports ---------------------------------------------------------------------------------------------


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


WALLS = {
    "medhelm-plain/jury-1/0ms/cold": 0.5,
    "medhelm-plain/jury-200/0ms/cold": 0.699,  # 1 ms a letter
    "medhelm/jury-1/0ms/cold": 0.6,
    "medhelm/jury-200/0ms/cold": 1.396,  # 1 ms more for each of three judges
    "medhelm-plain/jury-200/200ms/cold": 1.4,
    "medhelm/jury-200/200ms/cold": 3.2,
    "medhelm-own/jury-200/200ms/cold": 2.8,
}
OVERHEAD, SHARED, OWN = (
    "time per judgment at 0 ms after startup, relative to a plain request",
    "letters and judgments at 200 ms after startup, one address, relative to the critical path",
    "the same with judges at another address",
)


@pytest.mark.parametrize(
    ("name", "wall_s", "missed"),
    [
        ("", 0.0, []),
        ("medhelm/jury-200/0ms/cold", 1.8, [OVERHEAD]),
        ("medhelm-plain/jury-200/0ms/cold", 0.6, [OVERHEAD]),
        ("medhelm/jury-200/200ms/cold", 3.8, [SHARED]),
        ("medhelm-own/jury-200/200ms/cold", 3.3, [OWN]),
    ],
)
def test_every_goal_can_be_met_and_missed(name: str, wall_s: float, missed: list[str]) -> None:
    rows = [measured(cell, wall_s if cell == name else wall) for cell, wall in WALLS.items()]
    assert [goal.name for goal in jury.goals(rows) if goal.met is not True] == missed
