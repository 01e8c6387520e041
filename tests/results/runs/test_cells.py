"""Cells of runs whose failures count as wrong answers, where the number is a ratio and not a mean."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from medhelm.results.runs.cells import cell_of, column_of
from medhelm.storage.run_scores import CodedTexts, RunScores
from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tests.support.stores import make_run

N = 60
"""Questions, of which 20 have the answer B."""


def reply(body: dict[str, Any]) -> Answer:
    """Both models know every A and a fifth of the B; `refuses` does not answer the others, which `guesses` misses.

    `drops` is `guesses`, but the requests of two questions fail on their way.
    """
    number = question_number(body)
    if body["model"] == "drops" and number in (2, 8):
        return Answer(status=400, body={})
    if perfect(number) == "A" or number % 5 == 0:
        return chat(perfect(number))
    return chat(None, finish_reason="content_filter") if body["model"] == "refuses" else chat("A")


def make_store(medhelm: Medhelm, server: Server, folder: Path, metric: str, models: Sequence[str]) -> Path:
    """Run the models on a benchmark whose main metric is a ratio, without failures and with them."""
    server.answer_with(reply)
    benchmark = make_benchmark(folder, n=N)
    definition = benchmark / "benchmark.yaml"
    text = definition.read_text(encoding="utf-8").replace("[exact_match,", f"[{metric}, exact_match,")
    if metric.startswith("label"):
        text = text.replace("choices: [good, bad]\n", "").replace("form: letter", "form: text").replace("{options}", "")
    definition.write_text(text, encoding="utf-8")
    named = [word for model in models for word in ("--model", f"openai/{model}@{server.url}/v1")]
    done = medhelm("run", benchmark, *named, "--store", folder / "store", "--attempts", "1")
    assert done.code in (0, 1), done.err
    return folder / "store"


def rows(medhelm: Medhelm, store: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of the leaderboard by the short name of the model."""
    found = medhelm("leaderboard", "--store", store, "--json").json["models"]
    return {row["model"].partition("@")[0].rpartition("/")[2]: row for row in found}


def interval(found: dict[str, Any]) -> list[float]:
    return [round(found[name], 9) for name in ("value", "low", "high")]


def forget_classes(store: Path) -> None:
    """Rewrite the records as version 0.2.0 wrote them: failed instances have no parts."""
    for file in store.glob("runs/*/*/records.parquet"):
        with duckdb.connect() as connection:
            named = connection.execute(f"SELECT name FROM parquet_schema('{file}')").fetchall()
            columns = [name for (name,) in named if name.endswith("_parts")]
            changed = ", ".join(f"CASE WHEN failure_code <> '' THEN NULL ELSE {c} END AS {c}" for c in columns)
            new = file.with_suffix(".new")
            connection.execute(f"COPY (SELECT * REPLACE ({changed}) FROM '{file}') TO '{new}' (FORMAT parquet)")
        new.replace(file)
    shutil.rmtree(store / "derived", ignore_errors=True)


METRICS = {
    "balanced_accuracy": (1 + 4 / 20) / 2,
    "label_macro_f1": (1 + 8 / 24) / 2,
    "label_micro_f1": 88 / 104,
}
"""Metric -> the number of `refuses`, which gets 40 of 40 A and 4 of 20 B right, and names nothing else."""


AGES: tuple[Callable[[Path], None], ...] = (lambda store: None, forget_classes)
"""What makes a store one of this version, and one of version 0.2.0."""


@pytest.mark.parametrize("metric", METRICS)
def test_a_refusal_is_a_wrong_answer_in_its_class(
    medhelm: Medhelm, tmp_path: Path, server: Server, metric: str
) -> None:
    store = make_store(medhelm, server, tmp_path, metric, ["guesses", "refuses"])
    for make_older in AGES:
        make_older(store)
        found = rows(medhelm, store)["refuses"]["benchmarks"]["toy"]
        assert found["value"] == pytest.approx(METRICS[metric], abs=1e-6)
        assert (found["n"], found["n_failed_by_model"], found["method"]) == (N, 16, "mover")


def test_a_model_does_not_gain_by_refusing_what_it_would_get_wrong(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    """Score, interval, averages, comparison and gate are those of the same model without refusals."""
    store = make_store(medhelm, server, tmp_path, "balanced_accuracy", ["guesses", "refuses"])
    for make_older in AGES:
        make_older(store)
        found = rows(medhelm, store)
        for key in ("macro_average", "win_share"):
            assert interval(found["refuses"][key]) == interval(found["guesses"][key])
        refused, guessed = (found[model]["benchmarks"]["toy"] for model in ("refuses", "guesses"))
        assert interval(refused) == interval(guessed)
    compared = medhelm("compare", "guesses", "refuses", "--store", store, "--json").json
    assert [(one["difference"], one["p_value"]) for one in compared["benchmarks"]] == [(0, 1)]
    shutil.copytree(store, store.with_name("reference"))
    options = ("--model", found["refuses"]["model"], "--baseline-model", found["guesses"]["model"], "--margin", "0.3")
    checked = medhelm("gate", "--store", store, "--against", store.with_name("reference"), *options, "--json").json
    assert {(one["difference"], one["n_missing"]) for one in checked["tests"]} == {(0, 0)}


def test_failures_of_an_unknown_class_are_spread_over_the_classes_and_lost_requests_stay_missing(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    """An old run without the references of its prompts: of 44 scored instances 40 are A and 4 are B."""
    store = make_store(medhelm, server, tmp_path, "balanced_accuracy", ["refuses", "drops"])
    lost = rows(medhelm, store)["drops"]["benchmarks"]["toy"]
    assert (lost["n"], lost["n_failed"], lost.get("n_failed_by_model", 0)) == (58, 2, 0)
    assert lost["value"] == pytest.approx((1 + 4 / 18) / 2, abs=1e-6)
    forget_classes(store)
    shutil.rmtree(store / "prompts")
    assert rows(medhelm, store)["refuses"]["benchmarks"]["toy"]["value"] == pytest.approx(44 / 60, abs=1e-6)


@pytest.mark.parametrize(("n_failed", "value"), [(2, None), (5, 0.0)], ids=["others are not scored", "all refused"])
def test_refusals_alone_are_no_score_of_a_run_that_was_not_scored(n_failed: int, value: float | None) -> None:
    """A run of another harness can have completions without a corrected score."""
    run = make_run("toy", "lab/a", n=5, n_failed=n_failed, main_metric="exact_match", estimates={})
    codes = CodedTexts((np.arange(5) < n_failed).astype(int), ["", "refusal"])
    scored = RunScores(
        ids=[str(i) for i in range(5)], values=np.full(5, np.nan), clusters=None, parts=None, failure_codes=codes
    )
    column = column_of(run, None, "corrected")
    assert cell_of("lab/a", run, column, scored, rule="corrected", as_worst=True).value == value
