"""Naming options of all kinds, and what `find_choice` promises for any reply."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.scoring.answers.choice import find_choice
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
    (DRUGS, "B. Warfarin is indicated in atrial fibrillation.", 1),
    (DRUGS, "Metformin is contraindicated", None),
    (DRUGS, "A. Warfarin", None),
    (DRUGS, "Warfarin (A) is the best answer", None),
    (SENTENCES, "The kidney is affected.", 0),
    (SENTENCES, "The answer is the kidney is affected", 0),
    (SENTENCES, "D. > 5 mmol/L", 3),
    (SENTENCES, "A mass. or A mass that grows", None),
    (CELLS, "Vitamins A and B is most likely", None),
    (CELLS, "Retinol (A) is the best answer", None),
    (CELLS, "C. E. coli", 2),
    (LETTERS, "A patient", None),
    (HISTORY, "does not have a history of homelessness.", 1),
    (JUDGMENT, "Your Judgment: 1", 1),
    (JUDGMENT, "1 (hallucinated)", 1),
    (JUDGMENT, "1. The answer misstates the mechanism.", 1),
    (JUDGMENT, "10", None),
    (JUDGMENT, "-1", None),
    (JUDGMENT, "0 means factual, 1 means hallucinated", None),
    (JUDGMENT, "1. The question asks about aspirin.\n2. The answer names warfarin.", None),
    (WORDS, "yes/no", None),
    (NINE, "I think B", 1),
    (NINE, "I, as a model, cannot say", None),
    (DRUGS, "The second option.", 1),
    (DRUGS, "La respuesta correcta es la segunda opción.", 1),
    (DRUGS, "The second option is wrong.", None),
    (DRUGS, "The first option to try is warfarin.", 1),
    (DRUGS, "Option 1: insulin. Option 2: surgery. I prefer option 2.", None),
    ((tuple("ABC"), ("2", "3", "5")), "Option 2", None),
    ((tuple("ABC"), ("1", "2", "3")), "Option 2", 1),
]


@table(("options", "reply", "option"), OTHER_OPTIONS)
def test_other_kinds_of_options(options: Options, reply: str, option: int | None) -> None:
    assert find_choice(reply, *options) == option


@table(
    "more",
    [
        "\n\nQuestion 2: A man with a rash.\nA. Eczema\nD. Psoriasis\nAnswer: D",
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
    assert find_choice("A or B", "AB", ("", "")) is None


OTHER_TEXTS = st.lists(st.text(), min_size=1, max_size=6).map(
    lambda texts: (tuple("ABCDEF"[: len(texts)]), tuple(texts))
)
OPTIONS = st.sampled_from([YES_NO_MAYBE, DRUGS, CELLS, SENTENCES, LETTERS, HISTORY, JUDGMENT, WORDS, NINE])
SIGNS = (":", ".", ",", "(", ")", "\n", " ", "**", "\\boxed{", "}", "<answer>", "</think>", "<think>", "İ", "-")
PHRASES = ("A", "B", "a", "0", "1", "yes", "no", "or", "and", "not", "answer", "The answer is", "option", "is correct")
PIECES = st.sampled_from([*SIGNS, *PHRASES, "Question:"])


@settings(deadline=None)
@given(
    OPTIONS | OTHER_TEXTS,
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


LENGTH = 100_000
ADVERSARIAL = ["A", "answer: ", "(", "A or ", "A.\n", " ", "\\boxed{", "<think>", "B is ", "*", "\nQuestion:", "答案"]


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_long_replies_are_read(piece: str) -> None:
    """Every pattern is bounded: with quadratic time, a reply of this length would take minutes."""
    reply = piece * (LENGTH // len(piece))
    assert find_choice(reply + "\nThe answer is B", *DRUGS) in (None, 1)
