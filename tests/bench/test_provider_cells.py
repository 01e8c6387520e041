"""Figures of hosted providers: the stand-in for their services, commands, reports, goals and the table."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bench.tools import provider_speed
from bench.tools.provider_speed import SERVICES
from bench.workloads import providers
from tests.support.bench_rows import measured
from tests.support.servers.vendors import VENDORS


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with provider_speed.fake_server() as found:
        yield found


def test_every_hosted_provider_has_its_service_where_it_really_is() -> None:
    assert {name: (each.path, each.base, each.variable) for name, each in SERVICES.items()} == {
        name: (vendor.path, vendor.base, vendor.variable) for name, vendor in VENDORS.items()
    }


@pytest.mark.parametrize("name", SERVICES)
def test_every_provider_gets_the_answer_it_is_asked_for(name: str, address: str) -> None:
    wall, cpu = asyncio.run(provider_speed.ask(name, address, 70))
    assert wall > 0
    assert cpu > 0


def test_a_goal_is_the_worse_of_time_and_processor() -> None:
    told = {"azure": (1900, 410), "google": (2000, 440), "bedrock": (1500, 560)}
    openai = {"openai_per_s": 2000, "openai_cpu_us": 400}
    rows = [
        measured(f"providers/{mode}", reported={"requests": 400, "per_s": per_s, "cpu_us": cpu_us, **openai})
        for mode, (per_s, cpu_us) in told.items()
    ]
    goals = {goal.name.partition("/")[0]: goal for goal in providers.goals(rows)}
    values = {name: goal.value for name, goal in goals.items() if goal.value is not None}
    assert values == pytest.approx({"azure": 2000 / 1900, "google": 1.1, "bedrock": 1.4})
    assert all(goals[name].met and goals[name].limit == 1.5 for name in values)
