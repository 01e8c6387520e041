"""The map of the package: layers, no loops, few entries at the root, unique names, tests that mirror the source."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.support.source_code import parsed, statements

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "medhelm"
TESTS = ROOT / "tests"

LAYERS = (
    {"errors", "domain"},
    {"io", "analysis"},
    {"storage"},
    {"benchmarks", "models"},
    {"scoring"},
    {"evaluation"},
    {"results"},
    {"cli"},
    {"extensions"},
)
"""Packages, lowest first. A package imports from lower layers and from itself, never from a neighbor."""

ABOVE_ALL = {"", "__main__"}
"""The public API and the start of the process import whatever they need."""

WITHIN_A_LAYER = {"domain": {"errors"}, "errors": {"domain"}}
"""Neighbors that may be imported: the types and the exceptions that carry them."""

ROOT_ENTRIES = 15
"""Most modules and packages at the root, besides `__init__.py`."""
FOLDER_MODULES, COMMAND_MODULES = 22, 26
"""Most modules of a folder, and of `cli`, where each command has a file."""
LINES, FUNCTION_LINES = 900, 60
"""Most lines of a module, and of a function without its docstring."""


def modules() -> dict[str, Path]:
    """Map dotted names below the package to files, benchmark definitions left out."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if "library" not in parts:
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def imports(name: str, tree: ast.AST) -> Iterator[str]:
    """Yield the modules of this package that a file imports, wherever in the file."""
    for node in statements(tree):
        targets = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # `from package import module` imports the module; the package itself is imported with any of its modules.
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [name if name.removeprefix("medhelm.") in MODULES else node.module for name in full]
        elif isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        for target in targets:
            inner = target.removeprefix("medhelm.")
            if target.startswith("medhelm.") and inner in MODULES and inner != name:
                yield inner


def trees() -> dict[str, ast.Module]:
    """Parse every module; not while tests are collected, which each process does."""
    return {name: parsed(path) for name, path in MODULES.items()}


@cache
def edges() -> list[tuple[str, str]]:
    """List which module imports which."""
    return [(name, target) for name, tree in trees().items() for target in imports(name, tree)]


def package(name: str) -> str:
    return name.partition(".")[0]


def layer(name: str) -> int:
    return next(number for number, packages in enumerate(LAYERS) if package(name) in packages)


def is_allowed(importer: str, imported: str) -> bool:
    """Tell whether the rules let one module import another."""
    a, b = package(importer), package(imported)
    if a == b == "extensions":
        return importer.split(".")[1] == imported.split(".")[1]
    if a in ABOVE_ALL or a == b:
        return True
    return layer(a) > layer(b) or b in WITHIN_A_LAYER.get(a, ())


def test_packages_import_only_from_layers_below() -> None:
    assert [f"{a} imports {b}" for a, b in edges() if not is_allowed(a, b)] == []


def test_there_is_no_import_loop() -> None:
    graph: dict[str, set[str]] = {}
    for a, b in edges():
        graph.setdefault(a, set()).add(b)
    assert list(TopologicalSorter(graph).static_order())


def test_no_folder_holds_too_many_modules() -> None:
    entries = {path.name for path in SOURCE.iterdir()} - {"__init__.py", "py.typed", "__pycache__"}
    assert len(entries) <= ROOT_ENTRIES, sorted(entries)
    count = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py")
    most = {SOURCE / "cli": COMMAND_MODULES}
    assert {str(folder): n for folder, n in count.items() if n > most.get(folder, FOLDER_MODULES)} == {}


def test_no_module_and_no_function_is_too_long() -> None:
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: n for name, n in lengths.items() if n > LINES} == {}
    lengths = {
        f"{name}.{node.name}": node.end_lineno - node.lineno + 1 - docstring_lines(node)
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    }
    assert {name: n for name, n in lengths.items() if n > FUNCTION_LINES} == {}


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the docstring, 0 without one."""
    first = node.body[0]
    has_one = ast.get_docstring(node, clean=False) is not None
    return (first.end_lineno or first.lineno) - first.lineno + 1 if has_one else 0


def test_public_class_names_are_unique() -> None:
    count = Counter(
        node.name
        for tree in trees().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, n in count.items() if n > 1] == []


def test_test_folders_mirror_the_source() -> None:
    """Each package is tested in a folder of its name; other folders hold tests of the whole."""
    whole = {"architecture", "system", "bench", "support", "fixtures", "golden"}
    folders = {
        path.parent.relative_to(TESTS)
        for path in TESTS.rglob("test_*.py")
        if path.parent != TESTS and path.relative_to(TESTS).parts[0] not in whole
    }
    assert {str(folder) for folder in folders if not (SOURCE / folder).is_dir()} == set()
    assert list(TESTS.glob("test_*.py")) == []
