"""Judges that grade stored completions again in changed form, and the numbers about them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from medhelm.domain.run import JUDGED
from medhelm.extensions.variants.judge_robustness import section
from medhelm.extensions.variants.judging import CHANGES, has_same_words, in_markdown, in_plain_text, padded
from medhelm.results.formats.sections import section_in_markdown
from medhelm.results.options import BoardOptions
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from tests.support.biased_judges import FAIR, FICKLE, FIRST, LONG, graded_store, judges_at
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Server


@pytest.mark.parametrize(
    ("change", "text", "changed"),
    [
        (in_markdown, "Plan:\nRest at home. Drink water.", "## Plan:\n- **Rest at** home.\n- **Drink water.**"),
        (in_markdown, "Seen by Dr. Smith at 5 mg. Twice daily.", "- **Seen by** Dr. Smith at 5 mg. Twice daily."),
        (in_markdown, "- fever\n+ cough", "- fever\n+ cough"),
        (in_markdown, "| a | b |\n", "| a | b |\n"),
        (in_markdown, "1. Rest\n2. Sleep", "1. Rest\n2. Sleep"),
        (in_plain_text, "# Plan\n\n- **Rest** at *home*\n* Sleep\n---\nEnd", "Plan\n\nRest at home\nSleep\nEnd"),
        (in_plain_text, "2*3*4 mg and a**b", "2*3*4 mg and a**b"),
        (in_plain_text, "- fever\n+ cough", "- fever\n+ cough"),
        (in_plain_text, "```\n# code\n```", "```\n# code\n```"),
    ],
)
def test_markdown_is_added_and_removed_where_it_is_no_sign_of_its_own(
    change: Callable[[str, Random], str], text: str, changed: str
) -> None:
    assert change(text, Random(0)) == changed


def test_no_change_of_style_alters_a_word_and_padding_keeps_the_whole_text() -> None:
    rng = Random(0)
    for _ in range(300):
        text = "".join(rng.choices("ab.:!-*#+|` \n1", k=rng.randrange(80)))
        for change in (in_markdown, in_plain_text):
            assert has_same_words(text, change(text, Random(1))), text
        assert text.strip() in padded(text, Random(1))


# --- the whole path ---------------------------------------------------------------------------------------------------


JUDGES = (FAIR, LONG, FIRST, FICKLE)


def test_judges_grade_again_in_runs_of_their_own_and_the_plain_runs_stay(
    medhelm: Medhelm, server: Server, tmp_path: Path
) -> None:
    benchmark = graded_store(medhelm, server, tmp_path, n=3, judges=(FAIR, LONG))
    store = ("--store", tmp_path / "store")
    before = {path: path.read_bytes() for path in (tmp_path / "store" / "runs").rglob("*") if path.is_file()}
    sent = server.count
    command = ("rejudge", benchmark, "--perturb", "all", "--repeat", "3", *store)
    rows = succeeded(medhelm(*command, "--dry-run", "--json")).json["rows"]
    planned = sum(row["requests"] - row["cached"] for row in rows)
    assert server.count == sent
    done = succeeded(medhelm(*command, "--json"))
    names = [*CHANGES, "repeat_2", "repeat_3"]
    assert {run["model"].partition("/v1")[2] for run in done.json["runs"]} == {f" [{JUDGED}{name}]" for name in names}
    # The completions have no Markdown to remove, so these judgments are known; all others are bought, and only once.
    assert server.count - sent == planned == 2 * 3 * 2 * (len(names) - 1)
    assert {path: path.read_bytes() for path in before} == before
    sent = server.count
    succeeded(medhelm(*command))
    assert server.count == sent
    opened = open_store(tmp_path / "store")
    assert len(load_runs(opened)) == 2
    padded_run = next(run for run in load_runs(opened, variants=True) if run.variant == "judge=padding")
    assert list(padded_run.estimates["corrected"]) == ["jury"]
    assert all(re.search(r"\n\nAdvice: rest.*\n\n", text, re.DOTALL) for text in read_columns(padded_run)["completion"])
    shown = succeeded(medhelm("jury", "--robustness", *store)).out
    assert "no change shifts the grades of a judge significantly" in " ".join(shown.split())  # of three completions
    # Judging with a further judge leaves these runs alone.
    succeeded(medhelm("rejudge", benchmark, *judges_at(server, ["judge-new"]), *store))


def test_what_cannot_be_measured_is_refused_before_anything_is_sent(
    medhelm: Medhelm, server: Server, tmp_path: Path
) -> None:
    benchmark = graded_store(medhelm, server, tmp_path, n=2, judges=(FAIR,))
    sent, command = server.count, ("rejudge", benchmark, "--store", tmp_path / "store")
    for options, words in (
        (("--perturb", "paddin,shorter"), ("`paddin`", "`padding`", "`shorter`", "Nothing was")),
        (("--repeat", "2", "--only"), ("--only",)),
        (("--repeat", "2", *judges_at(server, ["judge-new"])), ("nothing to compare with", "Nothing was sent")),
    ):
        assert_refused(medhelm(*command, *options), *words)
    assert server.count == sent


def test_biased_judges_come_out_as_what_they_are(medhelm: Medhelm, server: Server, tmp_path: Path) -> None:
    benchmark = graded_store(medhelm, server, tmp_path, n=12, judges=JUDGES)
    store = ("--store", tmp_path / "store")
    assert section([tmp_path / "store"], BoardOptions()) is None
    succeeded(medhelm("rejudge", benchmark, "--perturb", "padding,criteria_order", *store))
    found = section([tmp_path / "store"], BoardOptions())
    assert found is not None
    assert not any("kappa" in one for one in found.sentences)  # without repeats, there is no table about them
    succeeded(medhelm("rejudge", benchmark, "--repeat", "3", *store))
    found = section([tmp_path / "store"], BoardOptions())
    assert found is not None
    assert [table.caption.split()[0] for table in found.tables] == ["Shift", "Order", "Agreement", "Grades"]
    assert server.url not in section_in_markdown(found)
    shown = succeeded(medhelm("jury", "letters", "--robustness", *store, "--json")).json
    numbers = shown["benchmarks"]["letters"]
    names = {one: server.model(one) for one in JUDGES}
    shifts = {(one["judge"], one["change"]): one for one in numbers["shifts"]}
    assert len(shifts) == 2 * len(JUDGES)
    for (judge, change), one in shifts.items():
        if judge in (names[FAIR], names[FIRST]):
            assert one["shift"]["value"] == pytest.approx(0, abs=1e-9)
            assert one["moved"]["value"] == 0
        if (judge, change) == (names[LONG], "padding"):
            assert one["shift"]["low"] > 0
            assert one["p_adjusted"] < 0.01
            assert one["n"] == 24
    first = shifts[names[FIRST], "criteria_order"]["by_criterion"]
    assert first["accuracy"]["value"] == pytest.approx(-2)
    assert first["clarity"]["value"] == pytest.approx(2)
    repeats = {one["judge"]: one["icc_2_1"]["value"] for one in numbers["repeats"] if one["icc_2_1"]}
    assert repeats[names[FAIR]] == repeats[names[LONG]] == 1
    assert repeats[names[FICKLE]] < 0.4
    ranks = {(one["judge"], one["change"]): one for one in numbers["ranks"]}
    fair = ranks[names[FAIR], "padding"]
    assert (fair["n_pairs"], fair["n_kept"], fair["least"]) == (1, 1, 1)
    assert numbers["length"][names[LONG]]["spearman"]["value"] > 0.9
    assert any(names[LONG] in one and "higher with padding" in one for one in shown["verdict"])
    assert not any(names[FAIR] in one for one in shown["verdict"])
    table = succeeded(medhelm("jury", "--robustness", *store)).out
    assert "judge-long" in table and server.url not in table
    rows = list(csv.DictReader(succeeded(medhelm("jury", "--robustness", *store, "--format", "csv")).out.splitlines()))
    assert {row["statistic"] for row in rows} >= {"shift", "moved", "pairs_kept", "icc_2_1", "length_spearman"}
