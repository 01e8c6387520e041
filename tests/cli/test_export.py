"""`medhelm export`: help, refusals, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once
from tests.support.stores import make_store

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
    cases = [
        (["--benchmark", "tooy"], "no run of `tooy`. Did you mean `toy`?"),
        (["--model", "baseline/lexical"], "no run of `baseline/lexical`."),
        (["--tier", "sample"], "holds no run on sample data"),
        (["--store", "other", "--store", "store"], "uses one store"),
    ]
    for options, words in cases:
        assert_refused(
            medhelm("export", kind, "out", *options, *([] if "--store" in options else ["--store", store])), words
        )
        assert not Path("out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_cannot_be_read_are_all_named(medhelm: Medhelm, store: Path, kind: str) -> None:
    one, other = sorted(store.glob("runs/toy/*/records.parquet"))
    one.write_bytes(b"junk")
    other.unlink()
    assert_refused(
        medhelm("export", kind, "out", "--store", store),
        f"{one} is missing or damaged (",
        f"{other} is missing or damaged (No such file or directory)",
    )
    assert not Path("out").exists()


def test_damaged_prompts_are_named(medhelm: Medhelm, store: Path) -> None:
    (prompts,) = store.glob("prompts/*.parquet")
    prompts.write_bytes(b"junk")
    assert_refused(medhelm("export", "helm", "out", "--store", store), f"{prompts} cannot be read")


@pytest.mark.parametrize("kind", KINDS)
def test_one_model_on_one_benchmark_is_enough(medhelm: Medhelm, store: Path, kind: str) -> None:
    succeeded(medhelm("export", kind, "out", "--store", store, "--model", "baseline/majority"))
    assert Path("out").exists()


@pytest.mark.parametrize("kind", ["helm", "csv", "parquet"])
def test_a_folder_inside_a_file_cannot_be_written(medhelm: Medhelm, store: Path, kind: str) -> None:
    Path("file").write_text("x", encoding="utf-8")
    assert_refused(medhelm("export", kind, "file/out", "--store", store), "cannot be written")


def test_a_benchmark_goes_by_its_alias_too(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", "mediqa_qa", "--tier", "sample", "--model", "baseline/lexical", "--store", tmp_path / "store")
    assert medhelm("export", "helm", "out", "--store", tmp_path / "store", "--benchmark", "medi_qa").code == 0
    (run,) = Path("out/runs/medhelm").iterdir()
    assert run.name == "medi_qa:model=baseline_lexical"


def test_a_card_is_refused_as_pdf_and_a_table_as_html(medhelm: Medhelm, tmp_path: Path) -> None:
    assert_refused(
        medhelm("export", "card", tmp_path / "card.pdf", "--store", tmp_path),
        "cannot be written as .pdf",
        ".html, which prints well",
    )
    assert not (tmp_path / "card.pdf").exists()
    assert_refused(
        medhelm("leaderboard", "-o", tmp_path / "board.html", "--store", tmp_path),
        "the result is text, and cannot be written as .html",
    )
    assert not (tmp_path / "board.html").exists()


def test_only_near_names_are_suggested(medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "zero.csv").write_text("a,b\n")
    far = medhelm("benchmarks", "new", "own", "--from", "none.csv").err
    assert ("does not exist" in far, "holds zero.csv" in far, "Did you mean" in far) == (True, True, False)
    assert "Did you mean `zero.csv`?" in medhelm("benchmarks", "new", "own", "--from", "zeros.csv").err


def test_an_unknown_instance_is_answered_with_ids(medhelm: Medhelm, tmp_path: Path) -> None:
    make_store(tmp_path / "store", {"toy": {"m/a": [1.0, 0.0]}})
    assert_refused(
        medhelm("show", "toy", "i01", "--store", "store"),
        "Did you mean `i001`? Instances: i000 and i001. `medhelm export csv DIR --benchmark toy` writes",
    )
