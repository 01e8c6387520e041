"""Shell completion of names: benchmarks, groups, suites, models, runs and releases.

Completion runs at every press of the Tab key, so it reads only file names and the first lines of files, imports nothing
heavy, sends nothing, and skips files that are missing or damaged. Click itself completes commands, options and files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from click import Context, Parameter
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from medhelm.cli.global_options import Shared


GROUPS = ("all", "public", "gated", "private", "closed", "open", "additional")
"""Groups of benchmarks, except categories."""

SUITES = ("all", "paper35", "suite37", "public", "gated", "private")
"""Suites of a leaderboard, except categories."""

BASELINES = ("baseline/majority", "baseline/random", "baseline/lexical")

PROVIDERS = (
    *("openai/", "azure/", "anthropic/", "google/", "vertex/", "bedrock/"),
    *("hf/", "vllm/", "ollama/", "llamacpp/", "replay/"),
)
"""Prefixes of model names."""

HEAD_BYTES = 4096
"""Bytes read of a `run.json`; its first keys name the benchmark and the model."""

_NAME = re.compile(r"^(?:'([^'\n]+)'|\"([^\"\n]+)\"|([^\s#'\"][^#\n]*?)):(?:\s|$)", re.MULTILINE)
_CATEGORY = re.compile(r"^\s+- id: (\w+)$", re.MULTILINE)
_MODEL = re.compile(r'^  "model": ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)


Complete: TypeAlias = Callable[[Context, Parameter, str], list[CompletionItem]]


def _never_fails(names: Callable[[Shared], Iterable[str]]) -> Complete:
    """Turn a function that yields names into a completion function; an error ends the list of names."""

    @wraps(names)
    def complete(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
        found: dict[str, None] = {}
        try:
            for name in names(context.obj):
                found.setdefault(name)
        except Exception:  # noqa: BLE001, S110 - a traceback would garble the command line
            pass
        items = [CompletionItem(name) for name in sorted(found) if name.startswith(incomplete)]
        if not items and ("/" in incomplete or incomplete.startswith(".")):
            return [CompletionItem(incomplete, type="file")]
        return items

    return complete


@_never_fails
def benchmarks(shared: Shared) -> Iterator[str]:
    """Benchmarks of the catalog and of `--benchmarks`, groups and categories."""
    yield from GROUPS
    library = Path(str(files("medhelm.benchmarks") / "library"))
    for folder in (library, *shared.benchmark_folders):
        yield from (file.parent.name for file in folder.glob("*/benchmark.yaml"))
    yield from _categories()


@_never_fails
def suites(shared: Shared) -> Iterator[str]:  # noqa: ARG001 - the shape of these functions
    """Suites and categories."""
    yield from SUITES
    yield from _categories()


@_never_fails
def models(shared: Shared) -> Iterator[str]:
    """Baselines, providers, names in models.yaml, and models of the store."""
    yield from (*BASELINES, *PROVIDERS)
    yield from _defined_models(shared.models_file or Path("models.yaml"))
    yield from _models_of_runs(shared)


@_never_fails
def stored_models(shared: Shared) -> Iterator[str]:
    """Models that have runs in the store."""
    yield from _models_of_runs(shared)


@_never_fails
def stored_benchmarks(shared: Shared) -> Iterator[str]:
    """Benchmarks that have runs in the store."""
    for store in _stores(shared):
        yield from (path.parent.parent.name for path in store.glob("runs/*/[!.]*/run.json"))


@_never_fails
def stored_run_ids(shared: Shared) -> Iterator[str]:
    """Short ids of the runs of the store, from the names of their folders."""
    for store in _stores(shared):
        yield from (path.name.rpartition("-")[2] for path in store.glob("runs/*/[!.]*"))


@_never_fails
def removals(shared: Shared) -> Iterator[str]:
    """Removals of runs that can be restored."""
    for store in _stores(shared):
        yield from (path.parent.name for path in store.glob("removed/[!.]*/removal.json"))


@_never_fails
def releases(shared: Shared) -> Iterator[str]:
    """Releases of the store."""
    for store in _stores(shared):
        yield from (file.parent.name for file in store.glob("releases/*/release.json"))


def _stores(shared: Shared) -> list[Path]:
    """Folders of the stores named on the command line, or the default one."""
    return [place for place in shared.stores or [Path("medhelm-store")] if isinstance(place, Path)]


def _categories() -> list[str]:
    """Ids of categories and subcategories."""
    return _CATEGORY.findall((files("medhelm.benchmarks") / "taxonomy.yaml").read_text(encoding="utf-8"))


def _defined_models(file: Path) -> Iterator[str]:
    """Names at the top level of a models.yaml, without parsing the rest."""
    if file.is_file():
        yield from ("".join(parts) for parts in _NAME.findall(file.read_text(encoding="utf-8")))


def _models_of_runs(shared: Shared) -> Iterator[str]:
    """Models named at the beginning of each run.json."""
    for store in _stores(shared):
        for path in store.glob("runs/*/*/run.json"):
            with path.open(encoding="utf-8", errors="replace") as file:
                if found := _MODEL.search(file.read(HEAD_BYTES)):
                    yield json.loads(found[1])
