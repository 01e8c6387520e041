"""Runs of HELM for tests: real ones of invented text (`fixtures/helm`), and changed copies of them."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medhelm.domain import Run
from medhelm.extensions.exchange.helm.folders import RunFolder
from medhelm.extensions.exchange.helm.importer import import_helm
from medhelm.extensions.exchange.helm.reader import read_helm_run
from medhelm.extensions.exchange.importer import ImportedRun, ImportSummary

HELM = Path(__file__).parents[2] / "fixtures" / "helm"
RUNS = HELM / "0.5.16" / "runs" / "v1"
ALL = sorted(folder for folder in HELM.glob("*/runs/v1/*") if folder.is_dir())
"""Every run there is."""


def run_folder(start: str, version: str = "0.5.16") -> Path:
    """The one run whose name begins so."""
    (found,) = [path for path in (HELM / version / "runs" / "v1").iterdir() if path.name.startswith(start)]
    return found


def content(folder: Path, name: str) -> Any:
    """A file of a run, packed or not."""
    path = folder / name
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    return json.loads(gzip.decompress((folder / f"{name}.gz").read_bytes()))


def copy_of(start: str, to: Path, *, suite: str = "v1") -> Path:
    """A copy of a run, to be changed, below `to`/runs/`suite`."""
    source = run_folder(start)
    target = to / "runs" / suite / source.name
    shutil.copytree(source, target)
    return target


def change(folder: Path, name: str, edit: Callable[[Any], Any]) -> None:
    """Write a file anew after `edit`, which changes the content in place or returns another."""
    data = content(folder, name)
    new = edit(data)
    (folder / f"{name}.gz").unlink(missing_ok=True)
    (folder / name).write_text(json.dumps(data if new is None else new), encoding="utf-8")


def read(folder: Path) -> ImportedRun:
    """The run in a folder."""
    return read_helm_run(RunFolder(folder))


def taken(place: Path, store: Path) -> dict[tuple[str, str], Run]:
    """Benchmark and model -> the run that was taken in, where all can be."""
    done = import_helm(place, store=store)
    assert done.skipped == ()
    return by_name(done)


def by_name(done: ImportSummary) -> dict[tuple[str, str], Run]:
    """Benchmark and model -> run."""
    return {(one.run.benchmark, one.run.model): one.run for one in done.taken}
