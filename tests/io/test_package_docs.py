"""The documents that come with the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from medhelm.errors import UserError
from medhelm.io.plugins import find_document, find_documents
from tests.support.cli import Medhelm

ROOT = Path(__file__).parents[2]


def test_every_document_is_listed_and_in_the_wheel(medhelm: Medhelm) -> None:
    listed = medhelm("docs").out
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = wheel["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for name, path in find_documents().items():
        assert re.search(rf"^{re.escape(name)}( |$)", listed, re.MULTILINE)
        assert any(path.is_relative_to(ROOT / place) for place in packed), path
    assert medhelm("docs", "benchmark_yaml").out.count("| `source.delimiter` |") == 1
    assert Path(medhelm("docs", "benchmark.schema.json", "--path").out.strip()).is_file()


def test_a_document_is_found_by_any_of_its_names() -> None:
    for name in ("add_a_benchmark", "how-to/add_a_benchmark", "docs/how-to/add_a_benchmark.md"):
        assert find_document(name).name == "add_a_benchmark.md"
    with pytest.raises(UserError, match="Did you mean `add_a_benchmark`"):
        find_document("add_benchmark")
