"""Private data through pools and gateways: processes connect to the allowed addresses, and to nothing else."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import programs
from tests.support.benchmarks.choice import answers_with, make_benchmark, perfect
from tests.support.programs import finish, start
from tests.support.servers.openai import Server
from tests.support.socket_trap import SocketTrap

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

N = 12
OUTSIDE = "10.255.255.9"
"""A host in a private network: allowed for public data, and not for private data without consent."""


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    with Server() as one, Server() as two:
        for server in (one, two):
            server.answer_with(answers_with(perfect))
        yield one, two


@pytest.fixture
def folder(tmp_path: Path, servers: tuple[Server, Server]) -> Path:
    """A private benchmark, a pool of two servers, and a model that is outside."""
    definition = make_benchmark(tmp_path, n=N) / "benchmark.yaml"
    definition.write_text(definition.read_text().replace("access: public", "access: private"))
    (tmp_path / "endpoints.txt").write_text("".join(f"{server.url}/v1\n" for server in servers))
    (tmp_path / "models.yaml").write_text(
        "ward: {endpoints: endpoints.txt, model: m}\n"
        f"far: {{base_url: ['http://127.0.0.1:1/v1', 'http://{OUTSIDE}:8000/v1'], model: m}}\n"
    )
    return tmp_path


def addresses(*servers: Server) -> set[str]:
    return {server.url.removeprefix("http://") for server in servers}


def run(folder: Path, trap: SocketTrap, model: str, *options: str, **variables: str) -> tuple[int, str]:
    """Evaluate in a process with a trap; return the exit code and the messages on one line."""
    command = ("run", "./toy", "--model", model, "--concurrency", "2", "--store", f"store-{trap.folder.name}", *options)
    code, _, err = finish(start(folder, *command, **trap.variables, **variables))
    return code, " ".join(err.split())


def gateway_variables(found: dict[str, Any]) -> dict[str, str]:
    return {"MEDHELM_GATEWAY": found["url"], "MEDHELM_GATEWAY_TOKEN_FILE": found["token_file"]}


def test_a_private_run_at_a_pool_connects_to_its_servers_alone(folder: Path, servers: tuple[Server, Server]) -> None:
    trap = SocketTrap(folder / "trap")
    code, err = run(folder, trap, "ward")
    assert code == 0, err
    assert trap.caught() == addresses(*servers)
    assert sum(server.count for server in servers) == N
    assert all(server.count for server in servers)


def test_an_address_that_is_added_during_a_private_run_is_never_contacted(
    folder: Path, servers: tuple[Server, Server]
) -> None:
    trap, file = SocketTrap(folder / "trap"), folder / "endpoints.txt"
    for server in servers:
        server.hold_beyond(1)
    command = ("run", "./toy", "--model", "ward", "--concurrency", "2", "--store", "store")
    process = start(folder, *command, **trap.variables)
    try:
        servers[0].wait_for(2)
        file.write_text(f"{file.read_text()}http://{OUTSIDE}:8000/v1\n")
        assert process.stderr is not None
        seen = ""
        while "gets no requests" not in seen:
            line = process.stderr.readline()
            assert line, f"the run ended without a message about the address: {seen}"
            seen += line
        for server in servers:
            server.release()
        code, _, err = finish(process)
    finally:
        process.kill()
        process.wait()
    assert code == 0, err
    assert f"{OUTSIDE} was not in the list when the command started" in " ".join((seen + err).split())
    assert trap.caught() == addresses(*servers)


def test_a_private_run_through_a_gateway_connects_to_the_gateway_alone(
    folder: Path, servers: tuple[Server, Server]
) -> None:
    trap, gate = SocketTrap(folder / "trap"), SocketTrap(folder / "gate-trap")
    with programs.gateway(folder, "--model", "ward", **gate.variables) as found:
        code, err = run(folder, trap, "ward", **gateway_variables(found))
        assert code == 0, err
        assert trap.caught() == {found["url"].removeprefix("http://")}
    assert gate.caught() == addresses(*servers)
    assert sum(server.count for server in servers) == N


def test_without_consent_nothing_is_connected_to_and_the_message_names_data_and_host(folder: Path) -> None:
    trap = SocketTrap(folder / "trap")
    code, err = run(folder, trap, "far")
    assert code == 2
    assert re.search(rf"toy \(private\): up to {N} prompts to {re.escape(OUTSIDE)} \(far\)", err), err
    assert f"add --allow-host {OUTSIDE}" in err
    assert "Nothing was sent." in err
    assert trap.caught() == set()
    run(folder, trap, "far", "--allow-host", OUTSIDE, "--give-up-after", "1")
    assert trap.caught() == {"127.0.0.1:1", f"{OUTSIDE}:8000"}, "the trap sees what is allowed"


def test_without_consent_of_the_gateway_only_the_gateway_is_connected_to(folder: Path) -> None:
    trap, gate = SocketTrap(folder / "trap"), SocketTrap(folder / "gate-trap")
    with programs.gateway(folder, "--model", "far", **gate.variables) as found:
        code, err = run(folder, trap, "far", **gateway_variables(found))
        assert code == 2
        assert f"toy: data that is not public would leave the gateway {found['url']} for " in err
        assert f"{OUTSIDE} (far). If its terms of use permit that, start the gateway with --allow-host" in err
        assert "Nothing was sent." in err
        assert trap.caught() == {found["url"].removeprefix("http://")}
    assert gate.caught() == set()
