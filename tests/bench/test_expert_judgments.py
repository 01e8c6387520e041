"""Trivial scorers against experts: the readers, the scorers, and that the page says what is computed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bench.studies import expert_judgments as expert_judgements
from bench.studies.expert_data import Graded, Notes, claims, graded_sets, note_preferences
from bench.studies.expert_judgments import BEGIN, END, PAGE, hits, kappa_by_rank, scorers, shared_words, tables
from medhelm.results.agreement import agreement
from medhelm.results.formats.tables import with_interval
from tests.support.benchmarks.library import benchmark

NUMBER = re.compile(r"-?\d+\.\d+")
VALUE = re.compile(r"\| (-?\d+\.\d+)")
LIMIT = re.compile(r"[\[,] ?(-?\d+\.\d+)")


# --- what is read -----------------------------------------------------------------------------------------------------


def test_graded_answers_are_those_of_the_files_without_their_references(data_dir: Path) -> None:
    found = graded_sets(data_dir)
    # 1,107 answers to 150 questions, each with a reference among them; two questions stand there twice.
    test = found["MEDIQA test"]
    assert len(test) == 1107 - 150
    assert len({answer.question for answer in test}) == 148
    assert Counter(answer.grade for answer in test) == {1: 125, 2: 410, 3: 333 - 32, 4: 239 - 118}
    # 692 judged answers, 18 of them unreadable; the same answer to a question counts once.
    live = found["LiveQA 2017"]
    assert len({(answer.question, answer.text) for answer in live}) == len(live)
    assert {answer.grade for answer in live} == {1, 2, 3, 4}
    # Two grades for the same answer to the same question become their mean.
    assert {answer.grade for answer in found["MedQuAD"]} == {1, 1.5, 2, 2.5, 3, 3.5, 4}
    for answers in found.values():
        assert all(answer.references and answer.text not in answer.references for answer in answers)


def test_the_reference_of_mediqa_has_at_least_a_three(data_dir: Path) -> None:
    """32 of the 104 questions from LiveQA have no answer that good."""
    answers = graded_sets(data_dir)["MEDIQA training, LiveQA"]
    assert len({answer.question for answer in answers}) == 104 - 32


def test_claims_and_their_majority(data_dir: Path) -> None:
    found = claims(data_dir)
    assert Counter(claim.majority for claim in found) == {0: 12, 1: 234, 2: 153}
    assert len({claim.question for claim in found}) == 50


def test_preferences_are_those_that_the_authors_counted(data_dir: Path) -> None:
    found = note_preferences(data_dir)
    counted = [Counter(min(n.preferred[i]) for n in found if len(n.preferred[i]) == 1) for i in range(3)]
    assert counted == [{"GT": 9, "FT": 1, "ICL": 4}, {"GT": 5, "ICL": 14}, {"GT": 9, "ICL": 6}]
    assert all(set(notes.notes) == {"GT", "FT", "ICL"} and min(map(len, notes.notes.values())) > 100 for notes in found)


# --- scorers ----------------------------------------------------------------------------------------------------------


def test_scorers_of_two_answers() -> None:
    answers = [
        Graded("q", "What causes gout?", "Uric acid causes gout.", ("no", "gout comes from uric acid"), 4),
        Graded("q", "What causes gout?", "Ask", ("gout comes from uric acid",), 1),
    ]
    found = scorers(answers)
    assert found["length in words"].tolist() == [4, 1]
    assert found["words of the question"].tolist() == [pytest.approx(2 / 3), 0]
    assert found["ROUGE-1"].tolist() == [pytest.approx(2 * 3 / 9), 0]
    assert found["ROUGE-L"].tolist() == [pytest.approx(2 * 2 / 9), 0]
    assert found["constant"].tolist() == [1, 1]
    assert found["random"].tolist() == scorers(answers)["random"].tolist()


def test_shared_words_counts_each_word_once_and_by_its_stem() -> None:
    assert shared_words("causes of causing gout", "It caused gout, gout.") == pytest.approx(2 / 3)
    assert shared_words("?", "anything") == 0.0


def test_kappa_by_rank_is_the_best_that_an_order_allows() -> None:
    grades = np.array([1.0, 1, 2, 3, 4, 4])
    assert kappa_by_rank(np.stack([grades * 7, grades], axis=1)) == pytest.approx(1.0)
    assert kappa_by_rank(np.stack([np.ones(6), grades], axis=1)) == pytest.approx(0.0)
    # Turned around, the grades are 4 4 3 2 1 1: squared distances 9, 9, 1, 1, 9, 9, where 3.17 are to be expected.
    expected = np.mean((grades[:, None] - grades[None, :]) ** 2)
    assert kappa_by_rank(np.stack([-grades, grades], axis=1)) == pytest.approx(1 - 38 / 6 / expected)


def test_answers_that_tell_nothing_between_the_notes_do_not_count() -> None:
    texts = {"GT": "a b c", "FT": "a", "ICL": "a b"}
    every = frozenset(texts)
    notes = [
        Notes("talk", texts, (frozenset({"GT"}), frozenset({"FT"}), every)),
        Notes("talk", texts, (frozenset({"GT", "ICL"}), frozenset({"ICL"}), every)),
    ]
    share, chance = hits(notes, ("GT", "FT", "ICL"), lambda one, name: len(one.notes[name]))
    assert share.endswith("(2 of 4)")
    assert chance == f"{(1 + 1 + 2 + 1) / 12:.2f}"
    share, chance = hits(notes, ("FT", "ICL"), lambda one, name: len(one.notes[name]))
    assert (share.partition(" ")[0], share[-8:], chance) == ("0.67", "(2 of 3)", "0.50")


# --- the page ---------------------------------------------------------------------------------------------------------


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.long
def test_the_tables_on_the_page_are_those_that_are_computed(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by `python -m bench.expert_judgements --write-docs`; here the intervals are drawn less often."""
    monkeypatch.setattr(expert_judgements, "DRAWS", 60)
    shown = page().partition(BEGIN)[2].partition(END)[0].strip()
    computed = "\n".join(tables(data_dir)).strip()
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", computed)
    values, ends = (
        [float(x) for text in (shown, computed) for x in pattern.findall(text)] for pattern in (VALUE, LIMIT)
    )
    half = len(values) // 2
    assert half > 130
    assert values[:half] == values[half:]
    assert ends[: len(ends) // 2] == pytest.approx(ends[len(ends) // 2 :], abs=0.3)


@pytest.mark.long
def test_the_example_on_the_page_gives_the_numbers_beside_it(tmp_path: Path) -> None:
    (rows,) = re.findall(r"```csv\n(.*?)```", page(), re.DOTALL)
    (tmp_path / "ratings.csv").write_text(rows, encoding="utf-8")
    found = agreement(tmp_path / "ratings.csv", tmp_path / "none", [benchmark("aci_bench")]).datasets["aci_bench"]
    jury, among = found.jury, found.one_clinician.raters.of_mean(2)
    assert jury.resampled and jury.agreement and jury.difference and jury.kappa and among
    expected = {
        "jury, ICC(3,k) by Fisher": (jury.consistency.value, jury.consistency.low, jury.consistency.high),
        "jury, ICC(3,k) by bootstrap": (jury.resampled.value, jury.resampled.low, jury.resampled.high),
        "jury, ICC(2,1)": (jury.agreement.value, jury.agreement.low, jury.agreement.high),
        "jury minus clinicians": (jury.difference.value, jury.difference.low, jury.difference.high),
        "Spearman": (jury.spearman.value, jury.spearman.low, jury.spearman.high),
        "weighted kappa": (jury.kappa.value, jury.kappa.low, jury.kappa.high),
    }
    lines = [f"| {name} | {with_interval(*ends)} |" for name, ends in expected.items()]
    lines.append(f"| clinicians, ICC(3,k) | {among.value:.3f} |")
    lines.append(f"| completions, raters | {found.n_instances}, {len(found.raters)} |")
    assert [line for line in lines if line not in page()] == []


def test_without_data_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = page()
    with pytest.raises(SystemExit):
        expert_judgements.main(["--data", str(tmp_path), "--write-docs"])
    assert "there is no folder jury_validation" in capsys.readouterr().err
    assert page() == before
