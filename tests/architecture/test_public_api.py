"""What `import medhelm` offers, and what it costs to start."""

from __future__ import annotations

import subprocess
import sys

import pytest

import medhelm

HEAVY = ("aiohttp", "numpy", "duckdb", "pydantic", "rich", "genai_prices", "docx", "yaml", "asyncio")
"""What the command line must not load before a command needs it."""


def loaded_by(code: str) -> set[str]:
    """Names of all modules that are loaded after `code` ran in a new process."""
    listing = f"{code}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True, encoding="utf-8")
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import medhelm", "import medhelm.cli"])
def test_starting_loads_nothing_heavy(code: str) -> None:
    assert loaded_by(code) & set(HEAVY) == set()


@pytest.mark.parametrize("name", medhelm.__all__)
def test_everything_offered_is_there_and_documented(name: str) -> None:
    offered = getattr(medhelm, name)
    assert offered.__doc__ or name == "__version__"


def test_no_module_hides_what_is_offered() -> None:
    """`medhelm.evaluation.evaluate` is a function, whatever was asked for first."""
    code = "import medhelm as m; m.load_runs; print(*[n for n in m.__all__ if not callable(getattr(m, n))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.split() == ["__version__"]


def test_nothing_else_is_offered() -> None:
    with pytest.raises(AttributeError, match="no attribute `evalute`"):
        medhelm.evalute  # noqa: B018
    assert set(medhelm.__all__) <= set(dir(medhelm))


def test_the_version_is_the_package_s() -> None:
    from importlib.metadata import version

    assert medhelm.__version__ == version("medhelm-eval")
