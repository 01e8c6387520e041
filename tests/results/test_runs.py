"""Runs as tables: counts are called what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from medhelm.domain import JudgeTally, Run
from medhelm.results.runs.view import runs_as_json, runs_table
from tests.support.stores import jury_of, make_run


def cells(*runs: Run) -> list[dict[str, str]]:
    """Return the rows of the table of runs, by heading; columns are two spaces apart."""
    text = runs_table(runs, "corrected").partition("\n\n")[0].splitlines()
    at = [i for i, sign in enumerate(text[1]) if sign == "-" and (i == 0 or text[1][i - 1] == " ")]
    spans = list(zip(at, [*at[1:], None], strict=True))
    heads, *rows = ([line[a:b].strip() for a, b in spans] for line in (text[0], *text[2:]))
    return [dict(zip(heads, row, strict=True)) for row in rows]


def stopped(**changes: Any) -> Run:
    return make_run(**{"status": "partial", "n": 100, "n_failed": 84, **changes})


def test_what_was_never_asked_is_no_failure() -> None:
    (row,) = cells(stopped(failures={"timeout": 4}))
    assert (row["failed"], row["unfinished"]) == ("4 (timeout 4)", "80")
    (shown,) = runs_as_json([stopped(failures={"timeout": 4})], "corrected", cost_usd=0.0, seconds=1.0)["runs"]
    assert (shown["n_failed"], shown["n_not_asked"], shown["failures"]) == (84, 80, {"timeout": 4})


def test_columns_of_rare_counts_are_shown_only_if_there_are_any() -> None:
    assert not {"unfinished", "retried", "duplicate"} & set(cells(make_run())[0])
    (row,) = cells(make_run(requests_sent=12, requests_retried=2, requests_cached=3, requests_duplicate=1))
    assert (row["sent"], row["retried"], row["cached"], row["duplicate"]) == ("12", "2", "2", "1")


def test_a_judge_that_failed_is_named() -> None:
    jury = jury_of("openai/J1", "openai/J2")
    tallies = {**jury.tallies, "openai/J2": JudgeTally(expected=30, failures={"timeout": 30})}
    text = runs_table([make_run(jury_result=replace(jury, tallies=tallies))], "corrected")
    assert "60 judgments of 2 judges; 30 missing (openai/J2: timeout 30)" in text
