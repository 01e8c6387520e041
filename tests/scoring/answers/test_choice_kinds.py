"""Naming options of all kinds, and what `find_choice` promises for any reply."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.scoring.answers.choice import find_choice
from medhelm.scoring.answers.options import choice_text
from tests.support.cases import table

Options = tuple[tuple[str, ...], tuple[str, ...]]

YES_NO_MAYBE = (tuple("ABC"), ("yes", "no", "maybe"))
DRUGS = (tuple("ABCDE"), ("Metformin", "Warfarin", "Insulin glargine", "Aspirin 81 mg", "Observation"))
CELLS = (tuple("ABCDE"), ("B lymphocytes", "C-reactive protein", "E. coli", "Vitamin A", "None of the above"))
SENTENCES = (
    tuple("ABCDEF"),
    ("The kidney is affected.", "It is reversible.", "Isotretinoin", "> 5 mmol/L", "A mass", "A mass that grows"),
)
LETTERS = (tuple("AB"), ("A", "B"))
HISTORY = (tuple("ABC"), ("has a history of homelessness", "does not have a history of homelessness", "uncertain"))
JUDGMENT = (("0", "1"), ("0", "1"))
WORDS = (("yes", "no"), ("yes", "no"))
NINE = (tuple("ABCDEFGHI"), tuple(f"finding {n}" for n in range(1, 10)))

OTHER_OPTIONS = [
    (DRUGS, "Warfarin", 1),
    (DRUGS, "warfarin is the most appropriate next step", 1),
    (DRUGS, "insulin  glargine", 2),
    (DRUGS, "Aspirin 81 mg", 3),
    (DRUGS, "Aspirin 81 mgs", None),
    (DRUGS, "D. Aspirin", 3),
    (DRUGS, "B. Warfarin is indicated in atrial fibrillation.", 1),
    (DRUGS, "Metformin or warfarin", None),
    (DRUGS, "Metformin is contraindicated", None),
    (DRUGS, "A. Warfarin", None),
    (DRUGS, "E. coli is the most common cause", None),
    (DRUGS, "Insulin glargine (C) is the most likely answer", 2),
    (DRUGS, "Warfarin (A) is the best answer", None),
    (SENTENCES, "The kidney is affected.", 0),
    (SENTENCES, "The answer is the kidney is affected", 0),
    (SENTENCES, "It is reversible", 1),
    (SENTENCES, "The answer is Isotretinoin.", 2),
    (SENTENCES, "D. > 5 mmol/L", 3),
    (SENTENCES, "A mass. or A mass that grows", None),
    (SENTENCES, "F. A mass that grows\nA. The kidney is affected", None),
    (CELLS, "Vitamins A and B is most likely", None),
    (CELLS, "Retinol (A) is the best answer", None),
    (CELLS, "B lymphocytes", 0),
    (CELLS, "B", 1),
    (CELLS, "A. B lymphocytes", 0),
    (CELLS, "E. coli", 2),
    (CELLS, "C. E. coli", 2),
    (CELLS, "Vitamin A", 3),
    (CELLS, "None of the above", 4),
    (LETTERS, "A", 0),
    (LETTERS, "A. A", 0),
    (LETTERS, "Answer: A", 0),
    (LETTERS, "A patient", None),
    (HISTORY, "B", 1),
    (HISTORY, "does not have a history of homelessness.", 1),
    (HISTORY, "The patient has a history of homelessness", 0),
    (HISTORY, "C. Uncertain", 2),
    (JUDGMENT, "0", 0),
    (JUDGMENT, "1", 1),
    (JUDGMENT, "**1**", 1),
    (JUDGMENT, "Your Judgment: 1", 1),
    (JUDGMENT, "1 (hallucinated)", 1),
    (JUDGMENT, "1. The answer misstates the mechanism.", 1),
    (JUDGMENT, "10", None),
    (JUDGMENT, "0.5", None),
    (JUDGMENT, "-1", None),
    (JUDGMENT, "100%", None),
    (JUDGMENT, "0/1", None),
    (JUDGMENT, "0 or 1", None),
    (JUDGMENT, "0 means factual, 1 means hallucinated", None),
    (JUDGMENT, "1. The question asks about aspirin.\n2. The answer names warfarin.", None),
    (JUDGMENT, "Hallucinated", None),
    (WORDS, "Yes", 0),
    (WORDS, "nothing", None),
    (WORDS, "yes/no", None),
    (NINE, "I", 8),
    (NINE, "Answer: I", 8),
    (NINE, "I think B", 1),
    (NINE, "I, as a model, cannot say", None),
    (NINE, "Answer: I don't know", None),
]


@table(("options", "reply", "option"), OTHER_OPTIONS)
def test_other_kinds_of_options(options: Options, reply: str, option: int | None) -> None:
    assert find_choice(reply, *options) == option


PLACES = [
    (DRUGS, "The second option.", 1),
    (DRUGS, "The answer is the last option.", 4),
    (DRUGS, "Choice number 3", 2),
    (DRUGS, "La respuesta correcta es la segunda opción.", 1),
    (DRUGS, "The second option is wrong.", None),
    (DRUGS, "Option 7", None),
    (DRUGS, "Warfarin is the third choice.", None),
    (DRUGS, "The first option to try is warfarin.", 1),
    (DRUGS, "The last option is warfarin.", None),
    (DRUGS, "The first two options are wrong.", None),
    (DRUGS, "Option 1: insulin. Option 2: surgery. I prefer option 2.", None),
    ((tuple("ABC"), ("2", "3", "5")), "Option 2", None),
    ((tuple("ABC"), ("1", "2", "3")), "Option 2", 1),
    (JUDGMENT, "Option 1", 1),
]


@table(("options", "reply", "option"), PLACES)
def test_a_place_names_an_option_only_where_an_answer_is_stated(
    options: Options, reply: str, option: int | None
) -> None:
    assert find_choice(reply, *options) == option


@table(
    "more",
    [
        "\nNext, D is for children.",
        "\n\nQuestion 2: A man with a rash.\nA. Eczema\nD. Psoriasis\nAnswer: D",
        "\n\nNext question: Which drug?\nThe answer is D.",
        "\nUser: Why not D?\nAssistant: D is correct, too.",
        "\n\n### Instruction:\nWhich vitamin?\n\n### Response:\nD",
    ],
)
def test_an_answer_stays_whatever_question_follows(more: str) -> None:
    for answer in ("B", "Answer: B", "The answer is warfarin."):
        assert find_choice(answer + more, *DRUGS) == 1, answer


def test_options_with_the_same_text_are_one_answer() -> None:
    labels, texts = "ABC", ("Not applicable", "fever", "Not applicable")
    assert find_choice("Not applicable", labels, texts) == 0
    assert find_choice("C. Not applicable", labels, texts) == 2


def test_blank_options_are_found_by_letter_only() -> None:
    assert find_choice("B", "AB", ("", "")) == 1
    assert find_choice("B.", "AB", ("", "")) == 1
    assert find_choice("A or B", "AB", ("", "")) is None


def test_lower_case_keeps_the_length_of_a_tidied_text() -> None:
    """Positions found in one form are used in the other."""
    characters = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    text = choice_text(characters)
    assert len(text.lower()) == len(text)


OPTIONS = st.sampled_from([YES_NO_MAYBE, DRUGS, CELLS, LETTERS, JUDGMENT, WORDS, NINE])
SIGNS = (":", ".", ",", "(", ")", "\n", " ", "**", "\\boxed{", "}", "<answer>", "</think>", "<think>", "İ", "-")
PHRASES = ("A", "B", "a", "0", "1", "yes", "no", "or", "and", "not", "answer", "The answer is", "option", "is correct")
PIECES = st.sampled_from([*SIGNS, *PHRASES, "Question:"])


@settings(deadline=None)
@given(
    OPTIONS,
    st.one_of(st.text(), st.lists(PIECES, max_size=14).map(" ".join), st.lists(PIECES, max_size=14).map("".join)),
)
def test_any_text_gives_an_option_or_none(options: Options, reply: str) -> None:
    labels, texts = options
    option = find_choice(reply, labels, texts)
    assert option is None or 0 <= option < len(texts)


@settings(deadline=None)
@given(OPTIONS, st.data())
def test_a_label_or_text_alone_is_always_read(options: Options, data: st.DataObject) -> None:
    labels, texts = options
    option = data.draw(st.integers(0, len(texts) - 1))
    assert find_choice(labels[option], labels, texts) == option
    assert find_choice(texts[option], labels, texts) == option or texts[option] in labels


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1, max_size=6), st.text())
def test_any_options_may_be_given(texts: list[str], reply: str) -> None:
    labels = "ABCDEF"[: len(texts)]
    option = find_choice(reply, labels, texts)
    assert option is None or 0 <= option < len(texts)


LENGTH = 100_000
ADVERSARIAL = ["A", "answer: ", "the answer to ", "(", "A, ", "A or ", "A.\n", " ", "1", "\\boxed{", "<think>", "B is "]
ADVERSARIAL += ["*", "İ", "yes ", "\nQuestion:", "答案", "-", '"']


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_long_replies_are_read(piece: str) -> None:
    """Every pattern is bounded: with quadratic time, a reply of this length would take minutes."""
    reply = piece * (LENGTH // len(piece))
    assert find_choice(reply + "\nThe answer is B", *DRUGS) in (None, 1)
