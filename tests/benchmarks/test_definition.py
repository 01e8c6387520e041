"""Definitions: what each key becomes, what is wrong with a file, and what the digest depends on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from medhelm.benchmarks import definition
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.definition import (
    CHECKED,
    FILE_NAME,
    HOOKS,
    LIBRARY,
    definition_file,
    find_checked,
    missing_columns_error,
    read_definition,
)
from medhelm.domain import AnswerField, Benchmark, SampleRule, Source, Taxonomy
from medhelm.errors import ConfigError
from medhelm.io.plugins import find_document
from medhelm.io.strict_yaml import load_yaml
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.definitions import METRICS, Make
from tests.support.benchmarks.library import SHIPPED
from tests.support.cases import table
from tools.checked_definitions import content

SHA = "7da4b1397418b4bd15074066ea6a377ac44a599794a959cd8ebc76937ea597e6"
REVISION = "ef3c9da03fc17f46fbd95ce860e0a55c51ed3606"
FULL = f"""\
name: full
title: Full
description: Every key there is.
aliases: [other_name]
taxonomy: {{category: clinical_decision_support, subcategory: planning_treatments, task: Answer}}
access: gated
citation: https://doi.org/10.1/x
license: MIT
source:
  kind: json
  location: https://example.org/{{revision}}/{{file}}
  revision: {REVISION}
  files: {{b.json: {SHA}, a/a.json: ""}}
  rows: data.rows
  key: pmid
  encoding: cp1252
  expected_count: 308
  note: Ask nicely.
columns: {{question: Question, note: "Patient Note"}}
id: [Row Number, pmid]
cluster: Note ID
require: [question]
drop_duplicates: true
choices: {{columns: [opa, opb], missing: Not applicable}}
answer: {{column: idx, form: letter}}
metadata: [Category]
sample: {{size: 100, pool: 1000, offset: 10}}
samples: {{official: {{ids_file: ids.json}}, all: {{}}}}
system: Be brief about {{note}}.
prompt: |
  {{question}}

  {{options}}
stop: ["\\n"]
max_tokens: 1
metrics: [exact_match, quasi_exact_match]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "full" / "benchmark.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str) -> Benchmark:
    return read_definition(write(folder, text), metrics=METRICS)


def problems(folder: Path, text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return [(problem.line, problem.text) for problem in caught.value.problems]


def line_of(text: str, key: str) -> int:
    """Line of a key at the top of a file."""
    return next(i for i, line in enumerate(text.split("\n"), 1) if line.startswith(f"{key}:"))


def test_every_key_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    benchmark = read_definition(path, metrics=METRICS)
    assert benchmark.taxonomy == Taxonomy(
        category="clinical_decision_support", subcategory="planning_treatments", task="Answer"
    )
    assert benchmark.source == Source(
        kind="json",
        location="https://example.org/{revision}/{file}",
        revision=REVISION,
        files={"b.json": SHA, "a/a.json": ""},
        rows="data.rows",
        key="pmid",
        encoding="cp1252",
        expected_count=308,
        note="Ask nicely.",
    )
    assert list(benchmark.source.files) == ["b.json", "a/a.json"], "in reading order"
    assert (benchmark.name, benchmark.title, benchmark.description) == ("full", "Full", "Every key there is.")
    assert (benchmark.aliases, benchmark.access, benchmark.license) == (("other_name",), "gated", "MIT")
    assert benchmark.columns == {"question": "Question", "note": "Patient Note"}
    assert (benchmark.id_columns, benchmark.cluster_column) == (("Row Number", "pmid"), "Note ID")
    assert (benchmark.required_columns, benchmark.drop_duplicates) == (("question",), True)
    assert benchmark.choice_columns == ("opa", "opb")
    assert benchmark.choices == ("Not applicable", "Not applicable"), "what empty options read"
    assert (benchmark.answer, benchmark.metadata_columns) == (AnswerField(column="idx", form="letter"), ("Category",))
    assert benchmark.sample == SampleRule(size=100, pool=1000, offset=10)
    assert benchmark.samples == {"official": SampleRule(ids_file="ids.json"), "all": SampleRule()}
    assert (benchmark.system, benchmark.prompt) == ("Be brief about {note}.", "{question}\n\n{options}\n")
    assert (benchmark.stop, benchmark.max_tokens) == (("\n",), 1)
    assert (benchmark.metrics, benchmark.main_metric) == (("exact_match", "quasi_exact_match"), "exact_match")
    assert benchmark.folder == path.parent
    assert re.fullmatch("[0-9a-f]{64}", benchmark.digest)


def test_yes_and_no_are_texts_without_quotes(tmp_path: Path) -> None:
    text = FULL.replace("choices: {columns: [opa, opb], missing: Not applicable}", "choices: [yes, no, maybe]")
    assert read_definition(write(tmp_path, text), metrics=METRICS).choices == ("yes", "no", "maybe")


CHOICES, SAMPLE = "{columns: [opa, opb], missing: Not applicable}", "sample: {size: 100, pool: 1000, offset: 10}"

MISTAKES = [
    ("name: full", "name: Full-1", "name: must be snake case (lower-case letters, digits, single `_`), is `Full-1`."),
    ("name: full", "name: fool", "name: is `fool`, but the folder is `full`. Give both the same name."),
    ("access: gated", "acess: gated", "acess: unknown key. Did you mean `access`?"),
    (
        "access: gated",
        "access: open",
        "access: `open` is not one of the possible values. Known: gated, private",
    ),
    (f"b.json: {SHA}", "b.json: abc", 'source.files.b.json: must be a sha256 in hex (64 digits 0-9, a-f), or ""'),
    (f"b.json: {SHA}", f"../b.json: {SHA}", "must be a path below the data folder"),
    ("encoding: cp1252", "encoding: utf9", "source.encoding: unknown encoding `utf9`."),
    ("expected_count: 308", "sheet: one", "source: `sheet` is only for xlsx, not for json."),
    ("drop_duplicates: true", "drop_duplicates: yes", "drop_duplicates: must be true or false, is `yes`."),
    (CHOICES, "{texts: [a, b], missing: c}", "choices: `missing` is the text"),
    ("answer: {column: idx, form: letter}", "answer: [a]", "answer: must be the name of a column"),
    ("form: letter}", "form: leter}", "answer.form: `leter` is not one of the possible values."),
    (SAMPLE, "sample: {pool: 5}", "sample: `pool` needs a `size`"),
    (SAMPLE, "sample: {size: 5, ids_file: a}", "sample: `ids_file` cannot be combined"),
    ("all: {}", "default: {}", "samples: `default` means the key `sample`; choose another name."),
    ("drop_duplicates: true", "positive: good", "positive: needs `choices` with the same texts for every instance."),
    (
        "drop_duplicates: true",
        "forbidden_perturbations: {Typos: No.}",
        "forbidden_perturbations.Typos: must be snake case",
    ),
    (
        "drop_duplicates: true",
        "forbidden_perturbations: {typos: spelling}",
        "forbidden_perturbations.typos: must be a sentence that ends with a period, is `spelling`.",
    ),
    (", quasi_exact_match]", ", exactmatch]", "metrics[1]: unknown metric `exactmatch`. Did you mean `exact_match`?"),
]


@pytest.mark.parametrize(("right", "wrong", "problem"), MISTAKES, ids=[problem[:40] for *_, problem in MISTAKES])
def test_each_problem_has_a_message_and_a_line(tmp_path: Path, right: str, wrong: str, problem: str) -> None:
    assert FULL.count(right) == 1
    text = FULL.replace(right, wrong)
    found = problems(tmp_path, text)
    matching = [line for line, words in found if problem in words]
    assert matching, found
    line = matching[0]
    changed = text[: FULL.index(right)].count("\n") + 1
    assert line is not None
    assert line in (changed, line_of(text, "source")), "the line of the mistake, or of the mapping it is about"


def test_the_positive_class_is_an_option_and_not_part_of_the_digest(tmp_path: Path) -> None:
    plain = FULL.replace(f"choices: {CHOICES}", "choices: [yes, no]").replace("{column: idx, form: letter}", "idx")
    usual, found = read(tmp_path, plain), read(tmp_path, plain + "positive: yes\n")
    assert (usual.positive, found.positive) == ("", "yes")
    assert found.digest == usual.digest
    assert any(
        "positive: `sick` is not one of `choices`: yes, no." in words
        for _, words in problems(tmp_path, plain + "positive: sick\n")
    )


def test_forbidden_perturbations_are_not_part_of_the_digest(tmp_path: Path) -> None:
    usual, found = read(tmp_path, FULL), read(tmp_path, FULL + "forbidden_perturbations: {typos: Spelling counts.}\n")
    assert (usual.forbidden_perturbations, found.forbidden_perturbations) == ({}, {"typos": "Spelling counts."})
    assert found.digest == usual.digest


@pytest.mark.parametrize("name", ["none", "note", "question"])
def test_the_field_to_shorten_is_read_and_part_of_the_digest(tmp_path: Path, name: str) -> None:
    """A field of either template, or none; prompts differ by it, so the digest does."""
    usual, found = read(tmp_path, FULL), read(tmp_path, FULL + f"shorten: {name}\n")
    assert (usual.shorten, found.shorten) == ("", name)
    assert found.digest != usual.digest


def test_missing_keys_are_all_named(tmp_path: Path) -> None:
    words = [text for _, text in problems(tmp_path, "name: full\n")]
    needed = ["title", "description", "taxonomy", "access", "source", "max_tokens", "metrics", "prompt", "answer"]
    assert words == [f"{key}: missing. Add this key." for key in needed]


def test_problems_of_shape_and_of_sense_come_together(tmp_path: Path) -> None:
    text = FULL.replace("access:", "acess:").replace("exact_match,", "exactmatch,").replace("{question}", "{ question}")
    text = text.replace("choices:", "choise:")
    found = problems(tmp_path, text)
    assert [line for line, _ in found if line] == sorted(line for line, _ in found if line)
    words = "\n".join(words for _, words in found)
    for part in ("acess: unknown key", "access: missing", "choise: unknown key", "unknown metric `exactmatch`"):
        assert part in words
    assert "answer.form: `letter` needs `choices`" in words
    assert "prompt: a single brace in `{ question}`" in words
    assert "prompt: {options} needs `choices`" in words


def test_placeholders_are_checked_if_the_columns_are_known(make: Make) -> None:
    source = {"kind": "text", "files": {"x": ""}}
    assert make(source=source, prompt="{mine}", columns={"mine": "text"}, answer="text")
    with pytest.raises(ConfigError, match=r"prompt: \{texts\} is not a column of text files. Did you mean `text`\?"):
        make(source=source, prompt="{texts}")
    assert make(source=source, prompt="{texts}", hooks="def rows(rows): yield from rows"), (
        "a hook makes its own columns"
    )


def test_the_file_of_a_definition_is_found_again_under_any_name(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    benchmark = read_definition(path, metrics=METRICS)
    other = path.rename(path.with_name("mine.yml"))
    path.with_name("another.yaml").write_text("name: another\n", encoding="utf-8")
    assert definition_file(benchmark) == other


def test_a_conversation_is_sent_instead_of_a_prompt(make: Make) -> None:
    benchmark = make(conversation="turns", prompt=None, system="Be kind to {name}.")
    assert (benchmark.conversation_column, benchmark.prompt) == ("turns", "")
    assert make(conversation="turns", prompt=None).digest != make(conversation="other", prompt=None).digest
    with pytest.raises(ConfigError, match=r"line 17  conversation: cannot be combined with `prompt`\."):
        make(conversation="turns")
    with pytest.raises(ConfigError, match=r"conversation: must not be empty\."):
        make(conversation=" ", prompt=None)


def test_the_digest_does_not_depend_on_formatting(tmp_path: Path) -> None:
    digest = read(tmp_path, FULL).digest
    lines = FULL.split("\n")
    reordered = "\n".join(["# a comment", *lines[1:2], *lines[:1], "", *lines[2:]])
    assert read(tmp_path, reordered).digest == digest
    assert read(tmp_path, FULL.replace("access: gated", "access: 'gated'")).digest == digest


def test_the_digest_depends_on_code_and_on_the_order_of_files(make: Make) -> None:
    files = {"a.jsonl": "", "b.jsonl": ""}
    digests = [make(source={"files": order}).digest for order in (files, dict(reversed(files.items())))]
    digests += [make(source={"files": files}, hooks=code).digest for code in ("", "x = 1", "x = 2")]
    assert len(set(digests)) == 5


HOOK = "from medhelm.errors import DataError\n\n\ndef rows(data):\n    yield from data\n"


@pytest.mark.parametrize(
    ("reworded", "is_same"),
    [
        ('"""Read the rows."""\n\n' + HOOK, True),
        (HOOK.replace("medhelm.errors", "medhelm.io.errors"), True),
        (HOOK.replace("yield", "# one after another\n    yield"), True),
        (HOOK.replace("data\n", "reversed(data)\n"), False),
        ("import csv\n" + HOOK, False),
    ],
)
def test_the_digest_follows_the_code_of_hooks_and_not_its_wording(make: Make, reworded: str, is_same: bool) -> None:
    assert (make(hooks=reworded).digest == make(hooks=HOOK).digest) is is_same


def test_reading_runs_no_code(make: Make, tmp_path: Path) -> None:
    make(hooks=f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    assert not (tmp_path / "ran").exists()


@table("file", sorted(LIBRARY.glob("*/benchmark.yaml")))
def test_the_schema_for_editors_accepts_every_definition(file: Path) -> None:
    schema = json.loads(find_document("benchmark.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    content = load_yaml(file).data
    assert list(validator.iter_errors(content)) == []
    assert [error.message for error in validator.iter_errors({**content, "acess": "public"})]


def test_a_category_almost_in_the_taxonomy_is_an_error(make: Make) -> None:
    make(taxonomy={"category": "discharge", "subcategory": "planning_the_discharge"})
    with pytest.raises(ConfigError, match="very similar to `clinical_decision_support`"):
        make(taxonomy={"category": "clinical_decision_suport", "subcategory": "planning_treatments"})


def test_each_missing_option_is_suggested_its_own_column(make: Make) -> None:
    missing = {f"option_{letter}": "choices" for letter in "abcd"}
    text = str(missing_columns_error(make(), missing, ["Option A", "Option B", "Option C", "Option D"], "x.csv"))
    assert [f"such as `option_{letter}: Option {letter.upper()}`" in text for letter in "abcd"] == [True] * 4


# --- definitions that were checked in advance -------------------------------------------------------------------------


def test_the_file_is_up_to_date() -> None:
    assert CHECKED.read_text(encoding="utf-8") == content(), "run: make reference"


@table("name", SHIPPED)
def test_a_checked_benchmark_is_the_one_that_is_read(name: str) -> None:
    checked, read = find_checked(name), read_definition(LIBRARY / name, metrics=METRIC_NAMES)
    assert checked is not None
    assert checked == read
    assert list(checked.source.files) == list(read.source.files)  # their order counts


@pytest.fixture
def changeable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the folder of a built-in benchmark, in a library of its own."""
    folder = tmp_path / "head_qa"
    shutil.copytree(LIBRARY / folder.name, folder)
    monkeypatch.setattr(definition, "LIBRARY", tmp_path)
    monkeypatch.setattr("medhelm.benchmarks.catalog.LIBRARY", tmp_path)
    find_checked.cache_clear()
    yield folder
    find_checked.cache_clear()


@pytest.mark.parametrize("file", [FILE_NAME, HOOKS])
def test_a_changed_definition_is_read_again(changeable: Path, file: str) -> None:
    assert find_checked(changeable.name) is not None
    find_checked.cache_clear()
    with (changeable / file).open("a", encoding="utf-8") as out:
        out.write("\n# changed\n")
    assert find_checked(changeable.name) is None
    (changeable / FILE_NAME).write_text(
        (changeable / FILE_NAME).read_text(encoding="utf-8").replace("max_tokens: ", "max_tokens: 1"), encoding="utf-8"
    )
    (read,) = load_benchmarks([changeable.name], metrics=METRIC_NAMES)
    shipped = read_definition(LIBRARY / changeable.name, metrics=METRIC_NAMES)
    assert read.max_tokens == int(f"1{shipped.max_tokens}")


def test_a_built_in_benchmark_needs_neither_pydantic_nor_yaml() -> None:
    code = (
        "import sys; from medhelm.benchmarks.catalog import load_benchmarks; "
        "load_benchmarks(['head_qa', 'healthbench'], metrics=()); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pydantic", "yaml"}.isdisjoint(done.stdout.split())
