"""Imports inside `bench` form no loop, and no module of it knows the workloads except `bench.py`."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from bench.cells import ROOT

FOLDER = ROOT / "bench"


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(folder: Path) -> dict[str, set[str]]:
    """Return module -> modules of the same package that it imports at module level, also for type checking only."""
    paths = {module_name(path, folder.parent): path for path in folder.rglob("*.py")}
    return {
        name: _imported(ast.parse(path.read_text(encoding="utf-8")), set(paths)) - {name}
        for name, path in paths.items()
    }


def _imported(node: ast.AST, known: set[str]) -> set[str]:
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.Import):
            found |= {alias.name for alias in child.names}
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            for alias in child.names:
                submodule = f"{child.module}.{alias.name}"
                found.add(submodule if submodule in known else str(child.module))
        else:
            found |= _imported(child, known)
    return found & known


def find_loop(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one loop, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        loop: list[str] = error.args[1]
        return loop
    return []


def test_imports_form_no_loop() -> None:
    graph = imports(FOLDER)
    assert {"bench.cells", "bench.table"} <= graph["bench.workloads.jury"]
    assert find_loop(graph) == []


@pytest.mark.parametrize("statement", ["import pack.b", "from pack import b", "from pack.b import x"])
@pytest.mark.parametrize("guard", ["{}", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {}"])
def test_a_loop_is_found(tmp_path: Path, statement: str, guard: str) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text(guard.format(statement), encoding="utf-8")
    (package / "b.py").write_text("from pack.a import y", encoding="utf-8")
    assert set(find_loop(imports(package))) == {"pack.a", "pack.b"}


def test_imports_inside_functions_may_close_a_loop(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "a.py").write_text("def f():\n    import pack.b", encoding="utf-8")
    (package / "b.py").write_text("import pack.a", encoding="utf-8")
    assert find_loop(imports(package)) == []


def test_only_the_main_script_knows_all_workloads() -> None:
    graph = imports(FOLDER)
    assert [name for name, imported in graph.items() if "bench.workloads" in imported] == ["bench.bench"]
    peers = {name: imported for name, imported in graph.items() if name.startswith("bench.peers")}
    assert not any(module.startswith("bench.workloads") for imported in peers.values() for module in imported)
