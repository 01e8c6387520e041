"""What the documents say is true."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from medhelm.benchmarks.suites import load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.evaluation.imported.benchmarks import library_of
from medhelm.exchange.helm.importer import helm_naming
from medhelm.models.catalog import defined_models
from tests.support.cli import Medhelm

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "bench" / "README.md"]

ROWS = """\
case,patient_id,note,question,option_a,option_b,option_c,correct
1,p1,Fever and low blood pressure.,What is likely?,Sepsis,Migraine,Gout,A
2,p1,A swollen big toe.,What is likely?,Sepsis,Migraine,Gout,C
"""


COMMAND = re.compile(r"^    medhelm ((?:benchmarks|models|data|import|export) [a-z-]+|[a-z-]+) ?(.*)$", re.MULTILINE)
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


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_page_of_the_suite_is_what_the_definitions_say(medhelm: Medhelm) -> None:
    """Written anew by `MEDHELM_UPDATE_GOLDEN=1 pytest tests/test_docs.py`."""
    table = medhelm("benchmarks", "rules").out
    before, _, rest = SUITE.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    if UPDATE:
        SUITE.write_text(before + BEGIN + table + END + after, encoding="utf-8", newline="\n")
        shown = table
    assert shown == table
    assert all(f"| {entry.name} |" in " ".join(shown.split()) for entry in load_suite())


def test_the_readme_names_every_benchmark_in_its_category() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for category in load_taxonomy():
        (line,) = re.findall(rf"^\| {category.title} \| (.*) \|$", text, re.MULTILINE)
        assert line.replace("`", "").split() == [e.name for e in load_suite() if e.category == category.id]


EXCHANGE = ROOT / "docs" / "how-to" / "exchange_helm.md"
NAMES_BEGIN, NAMES_END = "<!-- names: begin -->\n", "<!-- names: end -->\n"


def test_the_page_of_exchange_names_metrics_as_the_import_does() -> None:
    """Written anew by `MEDHELM_UPDATE_GOLDEN=1 pytest tests/test_docs.py`."""
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
