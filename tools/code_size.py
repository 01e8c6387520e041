"""Count the code, and compare it with the budgets in `tools/budgets.toml`.

    python -m tools.code_size [--write]

A code line is a line with code: no blank line, comment or docstring. Budgets only fall: `--write` lowers them to
today's counts, and whoever raises one by hand says why in the commit.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "medhelm"
BUDGETS = ROOT / "tools" / "budgets.toml"
MANY_PARAMETERS = 8
"""From this number of parameters on, a function is counted."""

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines with code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def import_lines(tree: ast.AST) -> int:
    """Count the lines of import statements."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a module, methods included."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the parameters, without `self` and `cls`."""
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len([argument for argument in named if argument.arg not in ("self", "cls")])


def count() -> dict[str, float]:
    """Return the figures that have a budget: code lines of each package, and figures of the whole."""
    packages: Counter[str] = Counter()
    imports = modules = wide = 0
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        place = path.relative_to(SOURCE).parts
        packages[place[0] if len(place) > 1 else "root"] += len(code_lines(text))
        imports += import_lines(tree)
        modules += "library" not in place
        wide += sum(n_parameters(function) >= MANY_PARAMETERS for function in functions(tree))
    total = sum(packages.values())
    return {
        **{f"code lines: {name}": lines for name, lines in sorted(packages.items())},
        "code lines: core": total - packages["extensions"],
        "code lines: all": total,
        "modules without benchmark hooks": modules,
        "functions with 8 or more parameters": wide,
        "import statements, % of code lines": round(100 * imports / total, 1),
        "code lines: tests": _lines_below(ROOT / "tests"),
        "code lines: bench": _lines_below(ROOT / "bench"),
    }


def _lines_below(folder: Path) -> int:
    return sum(len(code_lines(path.read_text(encoding="utf-8"))) for path in folder.rglob("*.py"))


def budgets() -> dict[str, float]:
    """Return the most that each figure may be."""
    return {str(name): float(most) for name, most in tomllib.loads(BUDGETS.read_text(encoding="utf-8")).items()}


def over_budget(found: dict[str, float], most: dict[str, float]) -> list[str]:
    """Return a sentence for each figure over its budget, and for each without one."""
    return [
        f"{name}: {value:g}, budget {most[name]:g}" if name in most else f"{name}: {value:g} has no budget"
        for name, value in found.items()
        if value > most.get(name, -1)
    ]


def main() -> None:
    """Print the figures; exit code 1 if one is over its budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="lower budgets to today's figures")
    chosen = parser.parse_args()
    found, most = count(), budgets()
    for name, value in found.items():
        print(f"{name:40} {value:>9,g} {most.get(name, float('nan')):>9,g}")
    if chosen.write:
        lowered = {name: min(value, most.get(name, value)) for name, value in found.items()}
        lines = "".join(f'"{name}" = {value:g}\n' for name, value in lowered.items())
        BUDGETS.write_text(f"# The most that each figure of `tools/code_size.py` may be.\n{lines}", encoding="utf-8")
    sys.exit(1 if over_budget(found, most) and not chosen.write else 0)


if __name__ == "__main__":
    main()
