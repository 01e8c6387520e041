"""Where a completion names the options of a question."""

from __future__ import annotations

from medhelm.scoring.answers.options import choice_text, find_tokens, prepare_options
from tests.support.cases import table

LABELS, TEXTS = ("A", "B", "C"), ("Yes.", "no", "  Not   sure ")
OPTIONS = prepare_options(LABELS, TEXTS)
DRUGS = prepare_options(("A", "B", "C"), ("Warfarin", "Insulin glargine", "Vitamin B12"))


@table(
    ("completion", "text"),
    [
        ("B", "B"),
        ("  **B**  \n\n\n no ", "B\nno"),
        ("\\boxed{B}", "Answer: B"),
        ("<answer>B</answer>", "Answer: B"),
        ("<think>A</think>B", "B"),
        ("Ｂ：ｎｏ", "B:no"),
        ("Ⓑ 🅱 𝐁 ⒝", "B B B b"),
        ("Ответ: В", "Ответ: B"),
        ("В данном случае", "В данном случае"),
        ("Doğru yanıt B'dir.", "Doğru yanıt B ."),
        ("'B'", '"B"'),
        ("x < 5 and y > 3", "x < 5 and y > 3"),
        ("", ""),
    ],
)
def test_a_cleaned_completion(completion: str, text: str) -> None:
    assert choice_text(completion) == text


def test_options_are_prepared_in_lower_case_and_longest_first() -> None:
    assert OPTIONS.labels == {"A": 0, "B": 1, "C": 2}
    assert OPTIONS.texts == (("not sure", 2),)
    assert OPTIONS.words == {"yes": 0, "no": 1, "y": 0, "n": 1}
    assert OPTIONS.own == ("yes", "no", "not sure")


def test_options_named_by_their_texts_have_no_labels() -> None:
    assert prepare_options(("yes", "no"), ("yes", "no")).labels == {}


def test_the_first_of_equal_texts_is_found() -> None:
    assert prepare_options(("A", "B"), ("fever", "Fever.")).texts == (("fever", 0),)


@table(
    ("text", "roles"),
    [
        ("The answer is B", "uaiM"),
        ("B. insulin glargin", "M"),
        ("Insulin glargine (B)", "M"),
        ("A: Insulin glargine", "M"),  # one place that names two options
        ("B12", "w"),
        ("hepatitis B", "ww"),
        ("Vitamins A and B", "wu&w"),
        ("A patient", "uw"),
        ("C-reactive protein", "ww"),
        ("vitamin b12", "M"),
        ("the a", "uu"),
        ("(b)", "(M("),
        ("warfarins", "w"),
        ("not A", "nM"),
        ("答案是B。", "aiM."),
        ("95% B", "(M"),
        ("", ""),
    ],
)
def test_tokens(text: str, roles: str) -> None:
    assert "".join(token.role for token in find_tokens(text, DRUGS)) == roles


@table(
    ("text", "named"),
    [
        ("B. Insulin glargine", [1]),
        ("Insulin glargine (B)", [1]),
        ("A: Insulin glargine", [-1]),
        ("A or B", [0, 1]),
        ("warfarin, then vitamin B12", [0, 2]),
    ],
)
def test_options_that_are_named(text: str, named: list[int]) -> None:
    assert [token.option for token in find_tokens(text, DRUGS) if token.role == "M"] == named


@table(
    ("text", "named"),
    [
        ("no", [1]),
        ("No difference", []),
        ("the answer is no", [1]),
        ("no, not sure", [1, 2]),
        ("yes (A)", [0]),
        ("N", [1]),
    ],
)
def test_common_words_stand_apart(text: str, named: list[int]) -> None:
    assert [token.option for token in find_tokens(text, OPTIONS) if token.role == "M"] == named
