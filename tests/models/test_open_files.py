"""The number of connections fits within the limit on open files."""

from __future__ import annotations

import resource

import pytest

from medhelm.errors import UserError
from medhelm.models import concurrency
from medhelm.models.concurrency import ConnectionLimit, limit_connections
from tests.support.stores import hosted_model

NONE = resource.RLIM_INFINITY


def limited(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, *, wanted: int = 128, endpoints: int = 2, file: str = ""
) -> tuple[ConnectionLimit, list[str], list[tuple[int, int]]]:
    """Ask for connections with 10 open files and 2 models; return the limit, the notes and the limits set."""
    notes: list[str] = []
    given: list[tuple[int, int]] = []

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] > 1000:
            raise ValueError("not allowed to raise maximum limit")
        given.append(limits)

    monkeypatch.setattr(concurrency, "_open_now", lambda: 10)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    addresses = [f"http://127.0.0.1:{i}" for i in range(endpoints)] or [""]
    models = [
        hosted_model(f"openai/m{i}", base_url=addresses[i % len(addresses)], endpoints_file=file) for i in range(2)
    ]
    found = limit_connections(models, None if wanted == 128 else wanted, 128, notes.append)
    return found, notes, given


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "per_endpoint"),
    [
        (1024, 1024, [], 128),
        (NONE, NONE, [], 128),
        (256, 4096, [(302, 4096)], 128),
        (256, NONE, [(302, NONE)], 128),
        (64, 100, [(100, 100)], 27),
        (64, 64, [(64, 64)], 9),
    ],
)
def test_limit_on_open_files_is_raised_or_respected(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: list[tuple[int, int]], per_endpoint: int
) -> None:
    found, notes, given = limited(monkeypatch, soft, hard)
    assert (given, found.per_endpoint) == (raised, per_endpoint)
    assert len(notes) == (per_endpoint < 128)


def test_lowered_number_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is lowered, too, where the system refuses what its limit allows."""
    assert limited(monkeypatch, 256, NONE, wanted=600)[0] == ConnectionLimit(210, 105)
    found, (note,), _ = limited(monkeypatch, 64, 64, wanted=256, endpoints=1)
    assert found == ConnectionLimit(18, 18)
    assert note == (
        "--concurrency 256 is lowered to 18: at most 18 requests at once are sent to each endpoint. This process may "
        "open 64 files (`ulimit -n`); `ulimit -n 604` before the command allows more."
    )


@pytest.mark.parametrize(
    ("soft", "hard", "in_all", "per_endpoint"), [(256, NONE, 256, 128), (1024, 1024, 978, 128), (64, 64, 18, 9)]
)
def test_servers_that_join_later_open_no_more_files_than_allowed(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, in_all: int, per_endpoint: int
) -> None:
    """Room for those servers is tried first; this system refuses more than 1,000 files."""
    found, notes, _ = limited(monkeypatch, soft, hard, file="endpoints.txt")
    assert found == ConnectionLimit(in_all, per_endpoint)
    assert len(notes) == (per_endpoint < 128)


def test_no_room_for_a_connection_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"may open 40 files \(`ulimit -n`\).* Nothing was sent"):
        limited(monkeypatch, 40, 40)
    assert limited(monkeypatch, 40, 40, endpoints=0)[0].per_endpoint == 128
