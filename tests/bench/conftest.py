"""The server program, a place to measure, and rows of measurements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cells import Bench
from bench.measure import Server, build_server, find_compiler


@pytest.fixture(scope="session")
def server_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler here (cc, gcc, clang or $CC)")
    return build_server(compiler, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def server(server_program: Path) -> Iterator[Server]:
    with Server(server_program, 0) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Bench:
    return Bench(
        work=tmp_path,
        data=tmp_path / "data",
        medhelm=tmp_path / "bin" / "medhelm",
        venvs=tmp_path / "venvs",
        addresses={0: "http://127.0.0.1:1/v1", 200: "http://127.0.0.1:2/v1"},
    )
