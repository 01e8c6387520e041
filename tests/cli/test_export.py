"""`medhelm export`: help, refusals, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, assert_refused
from tests.support.made_once import made_once

KINDS = ("helm", "csv", "parquet", "card")


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """Two baselines on one small benchmark."""

    def make() -> None:
        models = ["--model", "baseline/majority", "--model", "baseline/random"]
        assert medhelm("run", make_benchmark(tmp_path), *models, "--store", tmp_path / "store").code == 0

    made_once(tmp_path, __name__, make)
    return tmp_path / "store"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_said_before_anything_is_written(medhelm: Medhelm, store: Path, kind: str) -> None:
    export = ("export", kind, "out", "--store", store)
    for options, words in (
        (["--benchmark", "tooy"], "no run of `tooy`. Did you mean `toy`?"),
        (["--tier", "sample"], "holds no run on sample data"),
        (["--store", "other"], "uses one store"),
    ):
        assert_refused(medhelm(*export, *options), words)
    one, other = sorted(store.glob("runs/toy/*/records.parquet"))
    one.write_bytes(b"junk")
    other.unlink()
    assert_refused(
        medhelm(*export),
        f"{one} is missing or damaged (",
        f"{other} is missing or damaged (No such file or directory)",
    )
    assert not Path("out").exists()


def test_a_card_is_refused_as_pdf_and_a_table_as_html(medhelm: Medhelm, tmp_path: Path) -> None:
    assert_refused(
        medhelm("export", "card", tmp_path / "card.pdf", "--store", tmp_path),
        "cannot be written as .pdf",
        ".html, which prints well",
    )
    assert_refused(
        medhelm("leaderboard", "-o", tmp_path / "board.html", "--store", tmp_path),
        "the result is text, and cannot be written as .html",
    )
    assert list(tmp_path.iterdir()) == []
