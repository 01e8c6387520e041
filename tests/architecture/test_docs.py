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
from importlib import import_module
from math import comb
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.comparison.paired import paired_difference
from medhelm.analysis.means import wilson_interval
from medhelm.benchmarks.suites import load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain import Completion, Instance, Message, Model, Prompt, Request
from medhelm.errors import DataError, ProviderError, UserError
from medhelm.evaluation.rescore import library_of
from medhelm.extensions.exchange.helm.importer import helm_naming
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.catalog import defined_models
from medhelm.models.providers import ProviderContext
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tools import reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), ROOT / "bench" / "README.md"]

ROWS = """\
case,patient_id,note,question,option_a,option_b,option_c,correct
1,p1,Fever and low blood pressure.,What is likely?,Sepsis,Migraine,Gout,A
2,p1,A swollen big toe.,What is likely?,Sepsis,Migraine,Gout,C
"""


COMMAND = re.compile(
    r"^    medhelm (agreement sample|(?:audit|benchmarks|models|data|import|export|runs) [a-z-]+|[a-z-]+) ?(.*)$",
    re.MULTILINE,
)
"""A line that a reader may copy: the command, and the rest."""

UPDATE = bool(os.environ.get("MEDHELM_UPDATE_GOLDEN"))
SUITE = ROOT / "docs" / "reference" / "suite.md"
BEGIN, END = "<!-- rules: begin -->\n", "<!-- rules: end -->\n"


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_example_of_an_own_benchmark_works(medhelm: Medhelm, tmp_path: Path) -> None:
    (definition,) = fenced(ROOT / "docs" / "how-to" / "add_a_benchmark.md", "yaml")
    folder = tmp_path / "sepsis_qa"
    folder.mkdir()
    (folder / "benchmark.yaml").write_text(definition, encoding="utf-8")
    (folder / "sepsis.csv").write_text(ROWS, encoding="utf-8")
    assert medhelm("benchmarks", "check", folder).code == 0
    preview = medhelm("benchmarks", "preview", folder).out
    assert (
        "Note: Fever and low blood pressure.\n\nQuestion: What is likely?\nA. Sepsis\nB. Migraine\nC. Gout" in preview
    )
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
    """Check the parts of the format that notebooks need, and return the code cells, which hold no outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["language_info"]["name"] == "python"
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert {frozenset(cell) for cell in cells if cell not in code} == {
        frozenset(("cell_type", "id", "metadata", "source"))
    }
    return ["".join(cell["source"]) for cell in code]


def test_the_example_of_own_models_can_be_read() -> None:
    models, problems = defined_models(file=ROOT / "docs" / "reference" / "models.example.yaml", environment={})
    assert "ward-qwen" in {model.name for model in models}
    assert problems == []


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_command_and_option_in_the_documents_exists(medhelm: Medhelm, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for command, rest in COMMAND.findall(text):
        helped = medhelm(*command.split(), "--help")
        assert helped.code == 0, f"medhelm {command}"
        for option in re.findall(r"--[a-z-]+", rest.partition("#")[0]):
            assert option in helped.out, f"medhelm {command} {option}"


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


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_to_existing_files_and_headings(page: Path) -> None:
    for path, anchor in links(page):
        target = page.parent / path if path else page
        assert target.exists(), path
        if page.is_relative_to(DOCS):
            assert target.resolve().is_relative_to(DOCS), f"{path} is not part of the site"
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_links_to_missing_headings_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`\n\n## One two\n\n```text\n# no heading\n```\n[a](b.md#c) [d](#e)\n", encoding="utf-8")
    assert anchors(page) == {"one-two", "one-two-1"}
    assert links(page) == [("b.md", "c"), ("", "e")]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_files_and_modules_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:src|tests|bench|tools|docs)/[\w./-]+)`", text):
        assert (ROOT / path).exists() or (page.parent / path).exists(), path
    for module in re.findall(r"python -m ((?:bench|tools)[\w.]*)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


def test_the_index_and_the_site_list_every_page() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    listed = [
        page
        for part in navigation
        for entry in part.values()
        for page in ([entry] if isinstance(entry, str) else entry)
    ]
    assert sorted(listed) == sorted(pages)
    notebooks = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.ipynb")}
    assert {path for path, _ in links(DOCS / "index.md")} == (pages | notebooks) - {"index.md"}


def test_the_reference_pages_are_up_to_date() -> None:
    stale = [path.name for path, _ in reference.outdated()]
    assert not stale, "run `make reference`"


def test_nothing_tells_to_install_the_package_of_another_project() -> None:
    """`medhelm` on the package index is another project, and this one is not there."""
    files = [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.yaml"), ROOT / "Makefile"]
    files += [ROOT / "pyproject.toml"]
    wrong = re.compile(
        r"""(?:pip|uvx?|pipx|conda)\s+(?:install|add|run|tool)?\s*["']?medhelm|dependencies = \["medhelm["\[]"""
    )
    assert not [path for path in files if wrong.search(path.read_text(encoding="utf-8"))]
    assert tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"] == "medhelm-eval"


def test_the_page_of_the_suite_is_what_the_definitions_say(medhelm: Medhelm) -> None:
    """Written anew by `MEDHELM_UPDATE_GOLDEN=1 pytest tests/architecture/test_docs.py`."""
    table = medhelm("benchmarks", "rules").out
    before, _, rest = SUITE.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    if UPDATE:
        SUITE.write_text(before + BEGIN + table + END + after, encoding="utf-8", newline="\n")
        shown = table
    assert shown == table
    assert all(f"| {entry.name} |" in " ".join(shown.split()) for entry in load_suite())


def test_the_pages_about_benchmarks_are_complete() -> None:
    assert f"the {len(load_suite())} benchmarks" in (ROOT / "README.md").read_text(encoding="utf-8")
    listed = (DOCS / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    assert all(f"## {category.title}\n" in listed for category in load_taxonomy())
    assert all(f"| `{entry.name}` |" in listed for entry in load_suite())


EXCHANGE = ROOT / "docs" / "how-to" / "exchange_helm.md"
NAMES_BEGIN, NAMES_END = "<!-- names: begin -->\n", "<!-- names: end -->\n"


def test_the_page_of_exchange_names_metrics_as_the_import_does() -> None:
    """Written anew by `MEDHELM_UPDATE_GOLDEN=1 pytest tests/architecture/test_docs.py`."""
    naming = helm_naming(library_of())
    lines = ["| HELM | here |", "|---|---|"]
    jury = sorted(theirs for theirs, ours in naming.metrics.items() if ours == "jury")
    others = sorted((theirs, ours) for theirs, ours in naming.metrics.items() if ours != "jury")
    lines += [f"| `{theirs}` | {f'`{ours}`' if ours else 'left out: it counts questions'} |" for theirs, ours in others]
    lines += [f"| {', '.join(f'`{theirs}`' for theirs in jury)} | `jury` |"]
    table = "\n".join(lines) + "\n"
    before, _, rest = EXCHANGE.read_text(encoding="utf-8").partition(NAMES_BEGIN)
    shown, _, after = rest.partition(NAMES_END)
    if UPDATE:
        EXCHANGE.write_text(before + NAMES_BEGIN + table + NAMES_END + after, encoding="utf-8", newline="\n")
        shown = table
    assert shown == table


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
    server.script(Answer(body={"text": "A", "tokens": [7, 1]}), Answer(status=401), Answer(status=503))

    async def ask() -> tuple[Completion, list[ProviderError]]:
        model = Model(name="ward/x", provider="ward", remote_name="x", base_url=server.url)
        request = Request(model=model, prompt=Prompt((Message("user", "Q"),)), max_tokens=1)
        http = HttpClient(EgressPolicy(offline=True), timeout_s=600)
        provider = names["open_ward"](model, ProviderContext(http=http, environment={}, seed=0, aliases={}))
        try:
            completion = await provider.complete(request)
            refusals = []
            for _ in range(2):
                with pytest.raises(ProviderError) as refused:
                    await provider.complete(request)
                refusals.append(refused.value)
        finally:
            await http.close()
        return completion, refusals

    completion, (wrong_key, unavailable) = asyncio.run(ask())
    assert (completion.text, completion.usage.input, completion.usage.output) == ("A", 7, 1)
    assert server.bodies[0] == {"model": "x", "question": "Q", "limit": 1}
    assert wrong_key.fatal and unavailable.retryable


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
    scores = {"A": (0.80, 0.60, 4.2), "B": (0.75, 0.64, 4.4), "C": (0.60, 0.60, 3.0)}
    for model in ("A", "B"):
        macro = sum((*scores[model][:2], (scores[model][2] - 1) / 4)) / 3
        assert f"= {macro:.3f}" in text
        beaten = [
            sum((own > other) + (own == other) / 2 for other in column) - 0.5
            for own, column in zip(scores[model], zip(*scores.values(), strict=True), strict=True)
        ]
        assert f"/3 = {sum(beaten) / 2 / 3:.3f}" in text


def test_the_glossary_defines_the_words_of_the_project_in_order() -> None:
    text = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| ([\w ]+) \| .+\. \|$", text, re.MULTILINE)
    assert terms == sorted(terms)
    words = (
        "audit log, baseline, batch, benchmark, budget, cache, client, completion, concurrency, context window, "
        "criterion, egress policy, estimate, instance, interval, judge, judgment, jury, leaderboard, macro average, "
        "metric, prompt injection, provenance, provider, rank, rate limit, record, reference, release, retry, rubric, "
        "run, score, store, tie, token, truncation, win rate"
    )
    assert set(words.split(", ")) <= set(terms)
