"""Figures of hosted providers: the stand-in for their services, commands, reports, goals and the table."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cells import ROOT, TOOLS, Bench, Cell
from bench.table import Row
from bench.tools import provider_speed
from bench.tools.provider_speed import SERVICES, Service
from bench.workloads import providers
from medhelm.models.client import ModelUnusable
from tests.support.servers.vendors import VENDORS

OWN: dict[str, Cell] = {cell.mode: cell for cell in providers.CELLS}


@pytest.fixture
def place(tmp_path: Path) -> Bench:
    return Bench(work=tmp_path, data=tmp_path / "data", medhelm=tmp_path / "bin" / "medhelm", venvs=None, addresses={})


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with provider_speed.fake_server() as found:
        yield found


# --- the stand-in -----------------------------------------------------------------------------------------------------


def test_every_hosted_provider_has_its_service_where_it_really_is() -> None:
    assert {name: (each.path, each.base, each.variable) for name, each in SERVICES.items()} == {
        name: (vendor.path, vendor.base, vendor.variable) for name, vendor in VENDORS.items()
    }


def names_in(body: Any) -> Any:
    """The form of a body: its names and how they are nested, without values."""
    if isinstance(body, dict):
        return {name: names_in(value) for name, value in body.items()}
    return [names_in(value) for value in body] if isinstance(body, list) else None


def unknown_names(ours: Any, theirs: Any) -> list[str]:
    """Names in one form that do not stand at the same place of the other."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        missing = [name for name in ours if name not in theirs]
        return missing + [each for name in ours if name in theirs for each in unknown_names(ours[name], theirs[name])]
    if isinstance(ours, list) and isinstance(theirs, list):
        return [each for a, b in zip(ours, theirs, strict=True) for each in unknown_names(a, b)]
    return [] if ours == theirs else [f"{ours} for {theirs}"]


@pytest.mark.parametrize("name", SERVICES)
def test_bodies_have_the_form_of_the_service(name: str) -> None:
    said = VENDORS[name].said(provider_speed.REPLY)
    assert unknown_names(names_in(SERVICES[name].body), names_in(said)) == []
    assert unknown_names({"invented": None}, names_in(said)) == ["invented"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_provider_gets_the_answer_it_is_asked_for(name: str, address: str) -> None:
    wall, cpu = asyncio.run(provider_speed.ask(name, address, 70))
    assert wall > 0
    assert cpu > 0


def test_a_request_to_another_path_gets_no_answer(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    google = SERVICES["google"]
    elsewhere = Service(path=google.path, base="/v2", variable=google.variable, body=google.body)
    monkeypatch.setattr(provider_speed, "SERVICES", {**SERVICES, "google": elsewhere})
    with pytest.raises(ModelUnusable, match="no service has this path"):
        asyncio.run(provider_speed.ask("google", address, 1))


def test_wrong_counts_do_not_count(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(provider_speed, "TOKENS_OUT", 6)
    with pytest.raises(SystemExit, match="anthropic: not the completion that was sent"):
        asyncio.run(provider_speed.ask("anthropic", address, 1))


async def exchange(*pieces: bytes) -> bytes:
    """What the stand-in says to bytes that arrive in these pieces, until it has nothing more to say."""
    said: list[bytes] = []

    class Wire(asyncio.Transport):
        def write(self, data: Any) -> None:
            said.append(bytes(data))

        def close(self) -> None:
            said.append(b"closed")

    connection = provider_speed.FakeServices()
    connection.connection_made(Wire())
    for piece in pieces:
        connection.data_received(piece)
    return b"".join(said)


REQUEST = b"POST /model/m/converse HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: 4\r\n\r\n{  }"


@pytest.mark.parametrize("cut", [1, 30, len(REQUEST) - 5, len(REQUEST) - 1])
def test_requests_may_arrive_in_pieces_and_several_at_once(cut: int) -> None:
    answer = provider_speed.ANSWERS[b"/model/m/converse"]
    assert asyncio.run(exchange(REQUEST[:cut])) == b""
    assert asyncio.run(exchange(REQUEST[:cut], REQUEST[cut:])) == answer
    assert asyncio.run(exchange(REQUEST + REQUEST[:cut], REQUEST[cut:])) == answer * 2


def test_what_is_no_request_for_a_service_is_not_answered_as_one() -> None:
    unknown = asyncio.run(exchange(REQUEST.replace(b"converse", b"other")))
    assert unknown.startswith(b"HTTP/1.1 404 ")
    assert asyncio.run(exchange(b"POST /model/m/converse HTTP/1.1\r\nHost: h\r\n\r\n")) == b"closed"


# --- commands and reports ---------------------------------------------------------------------------------------------


def test_both_are_measured_in_turn_and_the_first_turn_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    taken = {"bedrock": iter([(90.0, 9.0), (2.0, 0.4), (8.0, 0.6), (4.0, 0.5)]),
             "openai": iter([(70.0, 7.0), (1.0, 0.1), (2.0, 0.3), (9.0, 0.2)])}  # fmt: skip

    async def ask(name: str, address: str, n: int) -> tuple[float, float]:
        assert address.startswith("http://127.0.0.1:")
        assert n == 100
        asked.append(name)
        return next(taken[name])

    monkeypatch.setattr(provider_speed, "ask", ask)
    told = provider_speed.compare("bedrock", requests=100, pairs=3)
    assert asked == ["bedrock", "openai", "openai", "bedrock", "bedrock", "openai", "openai", "bedrock"]
    assert told == pytest.approx(
        {"requests": 100, "per_s": 25, "cpu_us": 5000, "openai_per_s": 50, "openai_cpu_us": 2000}
    )


@pytest.mark.parametrize("mode", OWN)
def test_a_cell_runs_the_script_in_the_environment_of_our_command(mode: str, place: Bench) -> None:
    words = providers.command(OWN[mode], place)
    assert words == [str(place.work / "bin" / "python"), str(TOOLS / "provider_speed.py"), mode]
    assert Path(words[1]).is_file()
    assert (OWN[mode].n, OWN[mode].latency_ms, OWN[mode].variant) == (0, 0, ""), "asks no server of the bench"


def test_reports_are_read(place: Bench) -> None:
    place.stdout.write_text('{"per_s": 2.5, "cpu_us": 300}', encoding="utf-8")
    assert providers.read(OWN["vertex"], place) == {"per_s": 2.5, "cpu_us": 300}


@pytest.mark.parametrize("words", [[], ["mistral"], ["google", "vertex"]])
def test_the_script_knows_hosted_providers_alone(words: list[str]) -> None:
    script = TOOLS / "provider_speed.py"
    done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "usage: provider_speed.py openai|azure|anthropic|google|vertex|bedrock\n"


def test_the_script_measures_in_a_process_of_its_own() -> None:
    code = "import json, bench.tools.provider_speed as p; print(json.dumps(p.compare('azure', requests=8, pairs=1)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told.pop("requests") == 8
    assert set(told) == {"per_s", "cpu_us", "openai_per_s", "openai_cpu_us"}
    assert all(value > 0 for value in told.values())


# --- goals and the table ----------------------------------------------------------------------------------------------


def row(mode: str, per_s: float, cpu_us: float, openai_per_s: float = 2000, openai_cpu_us: float = 400) -> Row:
    times: dict[str, Any] = dict.fromkeys(("wall_s", "wall_min_s", "wall_max_s", "cpu_s", "peak_mib"), 5.0)
    reported = {"requests": 400, "per_s": per_s, "cpu_us": cpu_us, "openai_per_s": openai_per_s}
    return Row(
        cell=f"providers/{mode}", harness="providers", mode=mode, n=0, latency_ms=0, repetitions=1,
        reported={**reported, "openai_cpu_us": openai_cpu_us}, **times,
    )  # fmt: skip


ROWS = [
    row("openai", 2050, 396),
    row("azure", 1900, 410),
    row("anthropic", 2100, 380),
    row("google", 2000, 440),
    row("vertex", 1600, 400),
    row("bedrock", 1500, 560),
]


def test_every_cell_of_hosted_providers_is_part_of_a_figure() -> None:
    assert [row.mode for row in ROWS] == list(OWN) == list(SERVICES)
    assert [providers.REFERENCE, *providers.PROVIDERS] == list(SERVICES)


def test_a_goal_is_the_worse_of_time_and_processor() -> None:
    goals = {goal.name.partition("/")[0]: goal for goal in providers.goals(ROWS)}
    values = {name: goal.value for name, goal in goals.items()}
    assert values == pytest.approx(
        {"azure": 2000 / 1900, "anthropic": 2000 / 2100, "google": 1.1, "vertex": 1.25, "bedrock": 1.4}
    )
    assert all(goal.met and goal.limit == 1.5 for goal in goals.values())


@pytest.mark.parametrize("name", providers.PROVIDERS)
@pytest.mark.parametrize(("per_s", "cpu_us"), [(1300, 400), (2000, 610)])
def test_every_goal_of_hosted_providers_can_be_missed(name: str, per_s: float, cpu_us: float) -> None:
    slow = row(name, per_s, cpu_us)
    goals = providers.goals([slow if row.mode == name else row for row in ROWS])
    assert [goal.name.partition("/")[0] for goal in goals if goal.met is False] == [name]


@pytest.mark.parametrize("name", providers.PROVIDERS)
def test_a_goal_of_a_provider_without_its_row_is_neither_met_nor_missed(name: str) -> None:
    absent = [goal.met for goal in providers.goals([row for row in ROWS if row.mode != name])]
    spoilt = [replace(row, problem="exit code 1") if row.mode == name else row for row in ROWS]
    assert absent.count(None) == 1
    assert absent == [goal.met for goal in providers.goals(spoilt)]


def test_the_table_of_providers_tells_what_was_measured() -> None:
    lines = providers.providers_table(ROWS).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == [
        "hosted providers", "requests/s", "time vs openai/", "CPU µs per request", "CPU vs openai/",
    ]  # fmt: skip
    assert cells[2] == ["openai/", "2,050", "0.98x", "396", "0.99x"]
    assert cells[-1] == ["bedrock/", "1,500", "1.33x", "560", "1.40x"]
    assert len(cells) == 2 + len(ROWS)


def test_providers_that_were_not_measured_are_not_in_the_table() -> None:
    assert len(providers.providers_table(ROWS[:2]).splitlines()) == 4
    assert providers.providers_table([replace(row, problem="exit code 1") for row in ROWS]) == ""
