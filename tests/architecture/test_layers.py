"""The shape of the house: a module imports only from layers below it, or from its own folder, without a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "medhelm"

LAYERS = (
    {"domain", "errors", "text"},
    {"config", "prompting", "analysis", "storage", "plugins"},
    {"benchmarks", "models", "reports"},
    {"scoring"},
    {
        "agreement",
        "ahead",
        "batching",
        "dealings",
        "calibrating",
        "chosen_runs",
        "collecting",
        "comparing",
        "coverage",
        "drift",
        "evaluate",
        "evaluation",
        "examine",
        "exporting",
        "fetching",
        "fitting",
        "floor",
        "foreign",
        "importing",
        "inspection",
        "installed",
        "interruption",
        "judges",
        "jury_in_progress",
        "probe",
        "published_results",
        "ratings",
        "reference_filter",
        "rejudge",
        "reporting",
        "road",
        "run_in_progress",
        "sending",
        "session",
        "settings",
        "shortening",
        "billing",
        "expectations",
        "outstanding",
        "patience",
        "spending",
        "forecast",
        "standings",
        "stored_runs",
        "troubles",
        "releases",
        "verification",
    },
    {"cli", "inspect_tasks", "progress", "face", "__main__"},
)
"""Modules and folders, lowest first. The package itself holds its version, which anyone may read."""

WITHIN_A_LAYER = {"errors": {"domain"}}
"""Neighbours that may be imported: neighbour folders otherwise do not know each other."""


def modules() -> dict[str, Path]:
    """Dotted name below the package -> file."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if "library" not in parts:
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


def imports(name: str, path: Path) -> Iterator[str]:
    """Our modules that a file imports, wherever in the file."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        targets = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            targets = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        for target in targets:
            inner = target.removeprefix("medhelm.")
            if target.startswith("medhelm.") and inner in known and inner != name:
                yield inner


def layer_of(name: str) -> int:
    top = name.partition(".")[0]
    return next(number for number, layer in enumerate(LAYERS) if top in layer)


def edges() -> list[tuple[str, str]]:
    return [(name, target) for name, path in modules().items() if name for target in imports(name, path)]


def test_every_module_has_a_layer() -> None:
    tops = {name.partition(".")[0] for name in modules() if name}
    assert tops == set().union(*LAYERS)


def test_no_module_imports_from_a_layer_above() -> None:
    assert [(a, b) for a, b in edges() if layer_of(a) < layer_of(b)] == []


def test_neighbours_below_the_road_do_not_know_each_other() -> None:
    def strangers(a: str, b: str) -> bool:
        top, other = a.partition(".")[0], b.partition(".")[0]
        return layer_of(a) == layer_of(b) < 4 and top != other and other not in WITHIN_A_LAYER.get(top, set())

    assert [(a, b) for a, b in edges() if strangers(a, b)] == []


def test_there_is_no_import_loop() -> None:
    graph: dict[str, set[str]] = {}
    for a, b in edges():
        # A package's own __init__ is imported with each of its modules; it is no loop of theirs.
        graph.setdefault(a, set()).add(b)
    assert list(TopologicalSorter(graph).static_order())


def test_no_file_is_too_long() -> None:
    """What grows past this is usually two things."""
    long = {
        name: n for name, path in modules().items() if (n := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert long == {}
