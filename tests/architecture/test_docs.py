"""The documents agree with the code, and their links and commands work."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tomllib
from collections import Counter
from dataclasses import replace
from functools import cache
from importlib import import_module
from math import comb
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from medhelm.analysis.comparison.paired_differences import paired_difference
from medhelm.analysis.means import wilson_interval
from medhelm.cli import cli
from medhelm.cli.global_options import Shared
from medhelm.domain import Completion, Instance, Message, Model, Prompt, Request
from medhelm.errors import DataError, ProviderError, UserError
from medhelm.evaluation.rescore import library_of
from medhelm.extensions.exchange.helm.importer import helm_naming
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.providers import ProviderContext
from tests.support.cases import check_cases
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tools import reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), ROOT / "bench" / "README.md"]
BY_NAME = {str(page.relative_to(ROOT)): page for page in PAGES}

ROWS = """\
case,patient_id,note,question,option_a,option_b,option_c,correct
1,p1,Fever and low blood pressure.,What is likely?,Sepsis,Migraine,Gout,A
2,p1,A swollen big toe.,What is likely?,Sepsis,Migraine,Gout,C
"""


COMMAND = re.compile(
    r"^    medhelm (agreement sample|"
    r"(?:audit|benchmarks|models|data|import|export|runs|study|variants) [a-z-]+|[a-z-]+) ?(.*)$",
    re.MULTILINE,
)
"""A line that a reader may copy: the command, and the rest."""

UPDATE = bool(os.environ.get("MEDHELM_UPDATE_GOLDEN"))


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_example_of_an_own_benchmark_works(medhelm: Medhelm, tmp_path: Path) -> None:
    (definition,) = fenced(ROOT / "docs" / "how-to" / "add_a_benchmark.md", "yaml")
    folder = tmp_path / "sepsis_qa"
    folder.mkdir()
    (folder / "benchmark.yaml").write_text(definition, encoding="utf-8")
    (folder / "sepsis.csv").write_text(ROWS, encoding="utf-8")
    assert medhelm("benchmarks", "check", folder).code == 0
    assert "Question: What is likely?\nA. Sepsis\nB. Migraine\nC. Gout" in medhelm("benchmarks", "preview", folder).out
    assert medhelm("run", folder, "--model", "baseline/majority").code == 0


@pytest.mark.parametrize("page", ["how-to/use_from_python.md", "tutorials/notebook.ipynb"])
def test_the_examples_in_python_work(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page runs from top to bottom in an empty folder; a module with one class takes the place of pandas."""
    frames = ModuleType("pandas")
    frames.DataFrame = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", frames)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in fenced(DOCS / page, "python") if page.endswith(".md") else notebook_code(DOCS / page):
        exec(compile(code, page, "exec"), names)
    assert len(names["leaderboard"].rows) >= 2
    assert "baseline/lexical" in names["scores"]["model"]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def notebook_code(path: Path) -> list[str]:
    """Return the code cells, which hold no outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["language_info"]["name"]) == (4, "python")
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    return ["".join(cell["source"]) for cell in code]


@cache
def help_of(command: str) -> str:
    helped = CliRunner().invoke(cli, [*command.split(), "--help"], obj=Shared())
    assert helped.exit_code == 0, f"medhelm {command}"
    return helped.output


def assert_commands_exist(page: Path) -> None:
    for command, rest in COMMAND.findall(page.read_text(encoding="utf-8")):
        for option in ("", *re.findall(r"--[a-z-]+", rest.partition("#")[0])):
            assert option in help_of(command), f"medhelm {command} {option}"


def test_every_command_and_option_in_the_documents_exists() -> None:
    check_cases(BY_NAME, assert_commands_exist)


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and Zensical make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\]\([^)]*\)", "", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(page: Path) -> list[tuple[str, str]]:
    """Path and anchor of each link within the project; either may be empty."""
    return re.findall(r"\]\((?!https?://)([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8"))


def test_links_files_and_modules_of_every_page_exist() -> None:
    check_cases(BY_NAME, assert_links_exist)


def assert_links_exist(page: Path) -> None:
    for path, anchor in links(page):
        target = page.parent / path if path else page
        assert target.exists(), path
        if page.is_relative_to(DOCS):
            assert target.resolve().is_relative_to(DOCS), f"{path} is not part of the site"
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"

    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:src|tests|bench|tools|docs)/[\w./-]+)`", text):
        assert (ROOT / path).exists() or (page.parent / path).exists(), path
    for module in re.findall(r"python -m ((?:bench|tools)[\w.]*)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


def test_the_index_and_the_site_list_every_page() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    parts = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    entries = [entry for part in parts for entry in part.values()]
    listed = [page for entry in entries for page in ([entry] if isinstance(entry, str) else entry)]
    assert sorted(listed) == sorted(pages)
    notebooks = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.ipynb")}
    assert {path for path, _ in links(DOCS / "index.md")} == (pages | notebooks) - {"index.md"}


def test_the_reference_pages_are_up_to_date() -> None:
    stale = [path.name for path, _ in reference.outdated()]
    assert not stale, "run `make reference`"


def test_nothing_tells_to_install_the_package_of_another_project() -> None:
    """`medhelm` on the package index is another project, and this one is not there."""
    files = [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.yaml"), ROOT / "pyproject.toml"]
    wrong = re.compile(
        r"""(?:pip|uvx?|pipx|conda)\s+(?:install|add|run|tool)?\s*["']?medhelm|dependencies = \["medhelm["\[]"""
    )
    assert not [path for path in files if wrong.search(path.read_text(encoding="utf-8"))]


def assert_shown(page: Path, part: str, table: str) -> None:
    """Check that a page shows a table between two marks.

    Written anew by `MEDHELM_UPDATE_GOLDEN=1 pytest tests/architecture/test_docs.py`.
    """
    begin, end = f"<!-- {part}: begin -->\n", f"<!-- {part}: end -->\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    shown, _, after = rest.partition(end)
    if UPDATE:
        page.write_text(before + begin + table + end + after, encoding="utf-8", newline="\n")
        shown = table
    assert shown == table


def test_the_page_of_the_suite_is_what_the_definitions_say(medhelm: Medhelm) -> None:
    assert_shown(DOCS / "reference" / "suite.md", "rules", medhelm("benchmarks", "rules").out)


def test_the_page_of_exchange_names_metrics_as_the_import_does() -> None:
    naming = helm_naming(library_of())
    lines = ["| HELM | here |", "|---|---|"]
    jury = sorted(theirs for theirs, ours in naming.metrics.items() if ours == "jury")
    others = sorted((theirs, ours) for theirs, ours in naming.metrics.items() if ours != "jury")
    lines += [f"| `{theirs}` | {f'`{ours}`' if ours else 'left out: it counts questions'} |" for theirs, ours in others]
    lines += [f"| {', '.join(f'`{theirs}`' for theirs in jury)} | `jury` |"]
    assert_shown(DOCS / "how-to" / "exchange_helm.md", "names", "\n".join(lines) + "\n")


def test_the_example_of_a_metric_works() -> None:
    (code,) = fenced(DOCS / "how-to" / "add_a_metric.md", "python")
    names: dict[str, Any] = {}
    exec(code, names)
    metric = names["WITHIN_WORD_LIMIT"]
    letter = Instance(id="1", fields={}, references=(), metadata={"word_limit": "3"})
    assert [metric.corrected(text, letter) for text in ("one two three", "one two three four", " ")] == [1.0, 0.0, 0.0]
    with pytest.raises(DataError, match="word_limit"):
        metric.corrected("one", replace(letter, metadata={}))


def test_the_example_of_a_provider_works(server: Server) -> None:
    (code,) = fenced(DOCS / "how-to" / "add_a_provider.md", "python")
    names: dict[str, Any] = {}
    exec(code, names)
    with pytest.raises(UserError, match="needs an address"):
        names["open_ward"](Model(name="ward/x", provider="ward", remote_name="x"), None)
    server.script(Answer(body={"text": "A", "tokens": [7, 1]}), Answer(status=401))

    async def ask() -> Completion:
        model = Model(name="ward/x", provider="ward", remote_name="x", base_url=server.url)
        request = Request(model=model, prompt=Prompt((Message("user", "Q"),)), max_tokens=1)
        http = HttpClient(EgressPolicy(offline=True), timeout_s=600)
        provider = names["open_ward"](model, ProviderContext(http=http, environment={}, seed=0, aliases={}))
        try:
            completion: Completion = await provider.complete(request)
            with pytest.raises(ProviderError) as refused:
                await provider.complete(request)
        finally:
            await http.close()
        assert refused.value.fatal
        return completion

    completion = asyncio.run(ask())
    assert (completion.text, completion.usage.input, completion.usage.output) == ("A", 7, 1)
    assert server.bodies[0] == {"model": "x", "question": "Q", "limit": 1}


def test_the_names_a_plug_in_may_rely_on_exist() -> None:
    text = (DOCS / "how-to" / "write_a_plugin.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(medhelm\.[a-z_.]+)` \| (.*?) \|", text, re.MULTILINE)
    assert len(rows) >= 7
    for module, names in rows:
        found = import_module(module)
        assert all(hasattr(found, name) for name in re.findall(r"`(\w+)`", names)), module


def test_the_worked_example_of_the_method_is_calculated_right() -> None:
    """The leaderboard in it is recorded output; these are the other numbers."""
    text = " ".join((DOCS / "explanation" / "method.md").read_text(encoding="utf-8").split())
    for correct, n in ((14, 20), (140, 200)):
        low, high = wilson_interval(correct, n)
        assert f"[{low:.3f}, {high:.3f}]" in text
    first, second = np.repeat([1.0, 0.0, 1.0], [9, 3, 88]), np.repeat([0.0, 1.0, 1.0], [9, 3, 88])
    found = paired_difference(first, second, None)
    assert found is not None
    assert f"Its interval is [{found.low:.3f}, {found.high:.3f}]" in text
    p = (2 * sum(comb(12, k) for k in range(9, 13)) - comb(12, 9)) / 2**12  # the observed result counts half
    assert f"(p = {p:.3f})" in text
    for exact_match, f1, grade in ((0.80, 0.60, 4.2), (0.75, 0.64, 4.4)):
        assert f"= {(exact_match + f1 + (grade - 1) / 4) / 3:.3f}" in text
