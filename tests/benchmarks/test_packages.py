"""Benchmarks of installed packages: by name, in groups, and what is left out of them and why."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from medhelm.benchmarks import catalog
from medhelm.benchmarks.catalog import all_names, load_benchmarks, read_packaged_benchmarks
from medhelm.domain import Benchmark
from medhelm.errors import UserError
from tests.support.benchmarks.definitions import METRICS, make_benchmark
from tests.support.plugins import Install

OTHER = {"category": "ward_work", "subcategory": "rounds"}


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of one benchmark in the place of ours; an empty working folder."""
    folder = tmp_path / "library"
    make_benchmark(folder, name="alpha", aliases=["eins"])
    monkeypatch.setattr(catalog, "LIBRARY", folder)
    monkeypatch.setattr(catalog, "is_additional", lambda benchmark: False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def load(*names: str, extra: Collection[Path] = ()) -> list[Benchmark]:
    return load_benchmarks(names, metrics=METRICS, extra=tuple(extra))


def found(*names: str, extra: Collection[Path] = ()) -> list[str]:
    return [benchmark.name for benchmark in load(*names, extra=extra)]


def put(install: Install, place: Path, package: str = "ward", point: str = "ward_tasks", *names: str) -> str:
    """A package whose entry point is a path; gives the name of its module."""
    for name in names:
        make_benchmark(place / package, name=name, taxonomy=OTHER)
    code = f"from pathlib import Path\nFOLDER = Path({str(place / package)!r})\n"
    return install(package, code, version="1.2", benchmarks={point: "FOLDER"})


def test_by_name_by_entry_point_and_in_groups(install: Install, tmp_path: Path) -> None:
    put(install, tmp_path, "ward", "ward_tasks", "rounds_qa", "shift_notes")
    (one,) = load("rounds_qa")
    assert (one.name, one.package, one.folder) == ("rounds_qa", "ward", tmp_path / "ward" / "rounds_qa")
    assert found("ward_tasks") == ["rounds_qa", "shift_notes"]
    assert found("all") == found("public") == found("closed") == ["alpha", "rounds_qa", "shift_notes"]
    assert found("ward_work") == found("rounds") == ["rounds_qa", "shift_notes"]
    assert found("shift_notes", "all") == ["shift_notes", "alpha", "rounds_qa"]
    assert all_names() == ["alpha", "rounds_qa", "shift_notes"]
    assert [benchmark.package for benchmark in load("all")] == ["", "ward", "ward"]
    assert load("alpha", "eins")[0].package == ""


def test_no_package_is_imported_for_what_is_here(install: Install, tmp_path: Path) -> None:
    module = put(install, tmp_path, "ward", "ward_tasks", "rounds_qa")
    make_benchmark(tmp_path / "mine", name="own_qa")
    assert found("alpha", "eins", str(tmp_path / "mine" / "own_qa")) == ["alpha", "own_qa"]
    assert found("own_qa", extra=[tmp_path / "mine"]) == ["own_qa"]
    assert module not in sys.modules
    assert found("rounds_qa") == ["rounds_qa"]
    assert module in sys.modules


def test_a_package_folder_holds_benchmarks(site: Path, install: Install) -> None:
    make_benchmark(site / "ward_folder_module", name="rounds_qa")
    (site / "ward_folder_module" / "__init__.py").touch()
    install("ward", "import ward_folder_module as FOLDER\n", benchmarks={"ward_tasks": "FOLDER"})
    assert found("ward_tasks") == ["rounds_qa"]


@pytest.mark.parametrize(
    ("code", "attribute", "words"),
    [
        ("FOLDER = '/no/such/folder'\n", "FOLDER", "names /no/such/folder, which is not a folder of folders"),
        ("", "", "which is not exactly one folder"),
        ("raise RuntimeError('away')\n", "FOLDER", "cannot be imported: RuntimeError: away"),
    ],
)
def test_an_entry_point_without_a_target(
    install: Install, tmp_path: Path, code: str, attribute: str, words: str
) -> None:
    install("lost", code, benchmarks={"lost_tasks": attribute})
    put(install, tmp_path, "ward", "ward_tasks", "rounds_qa")
    with pytest.raises(UserError) as caught:
        load("lost_tasks")
    assert words in str(caught.value)
    assert str(caught.value).startswith("lost 0.1 (entry point `lost_tasks` of medhelm.benchmarks)")
    assert found("rounds_qa") == ["rounds_qa"]


def test_names_that_exist_here_stay_what_they_are(install: Install, tmp_path: Path) -> None:
    put(install, tmp_path, "thief", "thief_tasks", "alpha", "eins", "all", "mine_qa", "fresh_qa")
    make_benchmark(tmp_path / "mine", name="mine_qa")
    extra = [tmp_path / "mine"]
    assert load("alpha", extra=extra)[0].package == load("eins", extra=extra)[0].package == ""
    assert load("mine_qa", extra=extra)[0].folder == tmp_path / "mine" / "mine_qa"
    assert found("all", extra=extra) == ["alpha", "fresh_qa", "mine_qa"]
    assert found("thief_tasks", extra=extra) == ["fresh_qa"]
    packaged = read_packaged_benchmarks(metrics=METRICS, extra=extra)
    assert set(packaged.problems) == {"alpha", "eins", "all", "mine_qa"}
    for name, problem in packaged.problems.items():
        assert problem.startswith(
            f"thief 1.2 (entry point `thief_tasks` of medhelm.benchmarks) uses the name `{name}`, "
        )


def test_a_name_used_by_two_packages_is_unusable(install: Install, tmp_path: Path) -> None:
    put(install, tmp_path, "ward", "ward_tasks", "rounds_qa", "ward_qa")
    put(install, tmp_path, "clinic", "clinic_tasks", "rounds_qa")
    with pytest.raises(
        UserError, match=r"`rounds_qa` is the name of two plug-ins: clinic 1\.2 .* and ward 1\.2 .* Uninstall"
    ):
        load("rounds_qa")
    assert found("all") == ["alpha", "ward_qa"]
    assert found("ward_tasks") == ["ward_qa"]
    put(install, tmp_path, "hospital", "ward_tasks", "bed_qa")
    with pytest.raises(UserError, match=r"`ward_tasks` is the name of two plug-ins: hospital 1\.2 .* and ward 1\.2"):
        load("ward_tasks")
    assert found("rounds_qa") == ["rounds_qa"]  # the clinic's: what two packages call ward_tasks is nobody's
