"""Built-in definitions that were checked in advance."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from medhelm.benchmarks import definition
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.definition import CHECKED, FILE_NAME, HOOKS, LIBRARY, find_checked, read_definition
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.library import SHIPPED
from tests.support.cases import table
from tools.checked_definitions import content


def test_the_file_is_up_to_date() -> None:
    assert CHECKED.read_text(encoding="utf-8") == content(), "run: make reference"


@table("name", SHIPPED)
def test_a_checked_benchmark_is_the_one_that_is_read(name: str) -> None:
    checked, read = find_checked(name), read_definition(LIBRARY / name, metrics=METRIC_NAMES)
    assert checked is not None
    assert checked == read
    assert list(checked.source.files) == list(read.source.files)  # their order counts


@pytest.fixture
def changeable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the folder of a built-in benchmark, in a library of its own."""
    folder = tmp_path / "head_qa"
    shutil.copytree(LIBRARY / folder.name, folder)
    monkeypatch.setattr(definition, "LIBRARY", tmp_path)
    monkeypatch.setattr("medhelm.benchmarks.catalog.LIBRARY", tmp_path)
    find_checked.cache_clear()
    yield folder
    find_checked.cache_clear()


@pytest.mark.parametrize("file", [FILE_NAME, HOOKS])
def test_a_changed_definition_is_read_again(changeable: Path, file: str) -> None:
    assert find_checked(changeable.name) is not None
    find_checked.cache_clear()
    with (changeable / file).open("a", encoding="utf-8") as out:
        out.write("\n# changed\n")
    assert find_checked(changeable.name) is None
    (changeable / FILE_NAME).write_text(
        (changeable / FILE_NAME).read_text(encoding="utf-8").replace("max_tokens: ", "max_tokens: 1"), encoding="utf-8"
    )
    (read,) = load_benchmarks([changeable.name], metrics=METRIC_NAMES)
    shipped = read_definition(LIBRARY / changeable.name, metrics=METRIC_NAMES)
    assert read.max_tokens == int(f"1{shipped.max_tokens}")


def test_a_built_in_benchmark_needs_neither_pydantic_nor_yaml() -> None:
    code = (
        "import sys; from medhelm.benchmarks.catalog import load_benchmarks; "
        "load_benchmarks(['head_qa', 'healthbench'], metrics=()); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pydantic", "yaml"}.isdisjoint(done.stdout.split())
