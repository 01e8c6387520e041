"""What each reading command prints and writes, on three fixed stores: one approved file per command.

Update: `MEDHELM_UPDATE_GOLDEN=1 pytest tests/architecture/test_contracts.py`, then read the difference.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest

from medhelm.storage.store import create
from tests.support import six_stores
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import write_benchmark
from tests.support.cli import Medhelm
from tests.support.evaluated_store import JUDGES as EVALUATED_BY
from tests.support.evaluated_store import answer
from tests.support.made_once import made_once
from tests.support.servers.openai import Server
from tests.support.stores import MODELS, add_judged_runs, grades, rounded

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "outputs"
FIXTURES = ROOT / "tests" / "fixtures" / "stores"
UPDATE = bool(os.environ.get("MEDHELM_UPDATE_GOLDEN"))
FORMATS = ("table", "csv", "md", "latex", "json")
"""Formats of commands with `--format`."""

STORES = ("refusing", "judged", "v1")
"""Scores of 0 and 1 and grades with refusals and a timeout; a jury and clinicians; a store that version 1 wrote."""

PAIR = {
    "refusing": ("openai/a", "openai/b"),
    "judged": MODELS[:2],
    "v1": ("writer", "unpriced"),
}
"""Two models of each store."""


def in_each_format(*command: str) -> list[tuple[str, ...]]:
    return [(*command, "--format", format_) for format_ in FORMATS]


COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "leaderboard": [
        *in_each_format("leaderboard"),
        *[
            ("leaderboard", "--by", by, "--format", format_)
            for by in ("category", "subcategory", "benchmark", "head-to-head")
            for format_ in FORMATS[:-1]
        ],
        ("leaderboard", "--wide"),
        ("leaderboard", "--shared", "--scoring", "published"),
        ("leaderboard", "--published-only"),
    ],
    "compare": [
        *in_each_format("compare", "{a}", "{b}"),
        ("compare", "{a}", "{b}", "--wide", "--adjust", "bh"),
        *[
            ("compare", "--by", by, "--format", format_)
            for by in ("overall", "benchmark", "test")
            for format_ in FORMATS
        ],
        ("compare", "--wide", "--adjust", "bh"),
    ],
    "cost": [
        *in_each_format("cost"),
        *[("cost", "--by", by, "--format", format_) for by in ("benchmark", "judge", "run") for format_ in FORMATS[:2]],
        ("cost", "--rule", "ceiling"),
    ],
    "power": [
        *in_each_format("power"),
        *in_each_format("power", "--difference", "0.05"),
        ("power", "--difference", "0.05", "--wide"),
    ],
    "jury": [
        *in_each_format("jury"),
        *[("jury", "--wide", "--format", format_) for format_ in ("table", "md", "latex")],
    ],
    "agreement": [
        *in_each_format("agreement", "ratings.csv"),
        *[("agreement", "ratings.csv", "--wide", "--scoring", rule) for rule in ("corrected", "published")],
        ("agreement", "ratings.csv", "--scoring", "published", "--format", "csv"),
    ],
    "runs": [*in_each_format("runs", "list"), ("runs", "show", "{run}"), ("runs", "show", "{run}", "--json")],
    "show": [("show", "{benchmark}", "{instance}"), ("show", "{benchmark}", "{instance}", "--json")],
    "release": [
        ("release", "first"),
        ("release", "second"),
        *in_each_format("release"),
        *in_each_format("diff", "first", "second"),
        ("verify", "first"),
        ("verify", "first", "--json"),
    ],
    "gate": [
        ("release", "main"),
        *[("gate", "--against", "main", "--format", format_) for format_ in ("table", "md", "junit", "github", "json")],
    ],
    "batches": [("batches",), ("batches", "--json")],
    "budget": [("budget", "set", "20"), ("budget", "show"), ("budget", "show", "--json")],
    "audit": [("audit", "show"), ("audit", "verify"), ("audit", "verify", "--json")],
    "report": [("report", "out")],
    "export": [
        *[
            ("export", kind, "out", *flags)
            for kind in ("csv", "parquet", "helm", "card")
            for flags in ((), ("--json",))
        ],
        ("export", "site", "site"),
    ],
}
"""What is approved together -> commands, in order, on a copy of each store."""

CATALOG: list[tuple[str, ...]] = [
    *[("benchmarks", "list", "medec", "aci_bench", *flags) for flags in ((), ("--json",))],
    ("benchmarks", "show", "medcalc_bench"),
    *in_each_format("benchmarks", "rules", "medcalc_bench"),
    ("benchmarks", "show", "aci_bench", "--json"),
    ("benchmarks", "preview", "pubmed_qa", "--tier", "sample"),
    *[("benchmarks", "check", "medec", "--tier", "sample", *flags) for flags in ((), ("--json",))],
    *[("data", "status", "medec", "ehrshot", *flags) for flags in ((), ("--json",))],
    ("taxonomy",),
    *[
        ("plan", "aci_bench", "medec", "--tier", "sample", "--model", "openai/gpt-4o", "--judge", "openai/o1", *flags)
        for flags in ((), ("--json",))
    ],
]
"""Commands that read no store."""

_VARIES = (
    (re.compile(r"\b20\d\d-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z|\+00:00)?)?"), "DATE"),
    (re.compile(r"\b\d+\.\d+ s\b"), "0.0 s"),
    (re.compile(r'"(seconds|version|generated|created|bytes)": ("[^"]*"|[\d.e+-]+)'), r'"\1": "VARIES"'),
    (re.compile(r"\b[0-9a-f]{64}\b|(?<=-)[0-9a-f]{10}\b"), "HASH"),
    (re.compile(r'\b([Pp]ython"?:? "?)3\.\d+\.\d+\S*?(?=["\s])'), r"\1VERSION"),
    (re.compile(r"medhelm (version )?\d+\.\d+\.\d+\S*"), "medhelm VERSION"),
)
"""Dates, times, digests and versions."""

_DIFFERS = re.compile("latency|received|digest|verification_code|request_id")
"""Columns of stored tables that differ with each run, or with the server's address."""


def make(name: str, folder: Path) -> Path:
    """Write one of the stores to `folder/store`, with clinicians' ratings beside it."""
    store = folder / "store"
    if name == "v1":
        shutil.copytree(FIXTURES / "v1" / "jury", store)
    elif name == "judged":
        create(store)
        for place, benchmark in enumerate(("notes", "letters")):
            add_judged_runs(store, benchmark, grades(place, 24))
        _write_ratings(folder / "ratings.csv")
    else:
        six_stores.make(name, store)
    return store


def _write_ratings(path: Path) -> None:
    """Grades of three clinicians on both benchmarks, of whom the first two see what the judges see."""
    raters = ("r1", "r2", "r3")
    lines = [
        ",".join((rater, f"i{n}", benchmark, model, *(str(int(grade)) for grade in given[j, m, n])))
        for place, benchmark in enumerate(("notes", "letters"))
        for given in [grades(place, 24, judges=raters)]
        for j, rater in enumerate(raters)
        for m, model in enumerate(MODELS)
        for n in range(24)
    ]
    path.write_text("\n".join(["rater,instance_id,benchmark,model,accuracy,completeness,clarity", *lines]) + "\n")


def _words(store: Path, name: str) -> dict[str, str]:
    """What stands for the names in COMMANDS."""
    runs = sorted((store / "runs").rglob("run.json"))
    first = next((path for path in runs if json.loads(path.read_text()).get("n")), None)
    assert first is not None
    run = json.loads(first.read_text())
    with duckdb.connect() as database:
        row = database.execute(f"select min(instance_id) from '{first.parent}/records.parquet'").fetchone()
    assert row is not None
    return {"a": PAIR[name][0], "b": PAIR[name][1], "run": run["id"], "benchmark": run["benchmark"], "instance": row[0]}


def _section(medhelm: Medhelm, folder: Path, command: tuple[str, ...]) -> Iterator[str]:
    done = medhelm(*command, "--store", "store")
    yield f"$ medhelm {' '.join(command)}   -> {done.code}"
    yield from (line for line in (_pretty(done.out), done.err and "[stderr]\n" + done.err) if line)
    for place in ("out", "site"):
        if "--json" not in command:  # the same files once more
            yield from _files(folder / place)
        shutil.rmtree(folder / place, ignore_errors=True)


def _pretty(text: str) -> str:
    if not text.startswith("{"):
        return text
    return json.dumps(json.loads(text), indent=1, ensure_ascii=False, sort_keys=True)


def _files(folder: Path) -> Iterator[str]:
    """Each file that a command wrote: the card, columns and the digest of rows of Parquet, the digest of other text."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder.parent)
        if path.suffix == ".parquet":
            with duckdb.connect() as database:
                relation = database.sql(f"select * from '{path}'")
                kinds = [f"{column} {kind}" for column, kind in zip(relation.columns, relation.types, strict=True)]
                yield f"{name}: {', '.join(kinds)}; rows {_digest(rounded(repr(relation.fetchall())))}"
        elif path.name == "card.md":
            yield f"{name}:\n{path.read_text(encoding='utf-8')}"
        elif path.suffix in (".html", ".md", ".csv", ".json", ".tex", ".txt", ".svg", ".js", ".css"):
            text = path.read_text(encoding="utf-8")
            yield f"{name}: {len(text.splitlines())} lines, {_digest(_masked(text, folder.parent))}"
        else:
            yield f"{name}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _masked(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FOLDER").replace(str(ROOT), "ROOT")
    for pattern, replacement in _VARIES:
        text = pattern.sub(replacement, text)
    return rounded(text)


IN_SHORT = {"v1": {"leaderboard", "runs", "show"}, "refusing": COMMANDS.keys() - {"export"}, "judged": COMMANDS.keys()}
"""Store -> what is compared without the long tests."""


@pytest.mark.parametrize(
    ("name", "what"),
    [
        pytest.param(name, what, marks=[] if what in IN_SHORT[name] else [pytest.mark.long], id=f"{what}-{name}")
        for what, name in product(COMMANDS, STORES)
    ],
)
def test_commands_print_and_write_what_is_approved(
    what: str, name: str, medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    made_once(tmp_path, f"contract-{name}", lambda: make(name, tmp_path))
    words: dict[str, Any] = _words(tmp_path / "store", name)
    shown: list[str] = []
    for command in COMMANDS[what]:
        shown += _section(medhelm, tmp_path, tuple(word.format(**words) for word in command))
    _approve(shown, tmp_path, f"{what}/{name}.txt")


def test_the_catalog_is_as_approved(medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    _approve([line for command in CATALOG for line in _section(medhelm, tmp_path, command)], tmp_path, "catalog.txt")


def test_a_run_prints_and_stores_what_is_approved(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With failures, a jury, judgments that cannot be read, blank completions; then scored and judged again."""
    monkeypatch.setenv("COLUMNS", "160")
    benchmarks = [make_benchmark(tmp_path), write_benchmark(tmp_path)]
    models = [word for name in "ab" for word in ("--model", name)]
    judges = [word for name in EVALUATED_BY for word in ("--judge", name)]
    run = ("run", *map(str, benchmarks), *models, *judges, "--attempts", "1")
    shown: list[str] = []
    with Server() as server:
        server.answer_with(answer)
        (tmp_path / "models.yaml").write_text(
            "".join(
                f"{name}: {{provider: openai, model: {name}, base_url: {server.url}/v1}}\n"
                for name in ("a", "b", *EVALUATED_BY)
            ),
            encoding="utf-8",
        )
        for command in (
            run,
            (*run, "--json"),
            ("rescore",),
            ("rescore", "--json"),
            *in_each_format("confusion", "toy"),
        ):
            shown += _section(medhelm, tmp_path, command)
        shown += _stored(tmp_path / "store")
        address = f":{server.port}/"
    _approve([line.replace(address, ":PORT/") for line in shown], tmp_path, "run.txt")


def _stored(store: Path) -> Iterator[str]:
    """Every run as JSON, and the rows of its tables without what differs each time."""
    for path in sorted((store / "runs").rglob("run.json"), key=_names_of):
        yield _pretty(path.read_text(encoding="utf-8"))
        for table in sorted(path.parent.glob("*.parquet")):
            with duckdb.connect() as database:
                relation = database.sql(f"select * from '{table}'")
                kept = [name for name in relation.columns if not _DIFFERS.search(name)]
                yield f"{table.name}: {', '.join(relation.columns)}"
                yield from (repr(row) for row in relation.select(*kept).fetchall())


def _names_of(path: Path) -> tuple[str, str]:
    run = json.loads(path.read_text(encoding="utf-8"))
    return run["model"], run["benchmark"]


def _approve(shown: list[str], folder: Path, name: str) -> None:
    """Compare with the approved file of this name, or write it."""
    text = "\n".join(line.rstrip() for line in _masked("\n".join(shown), folder).splitlines()) + "\n"
    file = GOLDEN / name
    if UPDATE:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    assert text == file.read_text(encoding="utf-8")
