"""What counts as naming an option: replies as models of all sorts write them.

Thousands of wordings are in `bench.studies.wordings`; here are others of each kind, and those that were once read
wrongly.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medhelm.scoring.answers.choice import find_choice
from tests.support.cases import table

Options = tuple[tuple[str, ...], tuple[str, ...]]

YES_NO_MAYBE = (tuple("ABC"), ("yes", "no", "maybe"))
FOUR_DRUGS = (tuple("ABCD"), ("Warfarin", "Aspirin", "Heparin", "Clopidogrel"))
ASTHMA = (tuple("ABC"), ("Inhaled corticosteroids", "Long-acting beta2-agonists", "Short-acting beta2-agonists"))
MESH = (tuple("ABCD"), ("prostethic silo", "prolene mesh", "saline bag", "skin flap"))
YES_NO = (("A", "B"), ("yes", "no"))
MENTIONED = (("A", "B", "C"), ("yes", "no", "not mentioned"))
JUDGMENT = (("0", "1"), ("0", "1"))
DRUGS = (tuple("ABCDE"), ("Metformin", "Warfarin", "Insulin glargine", "Aspirin 81 mg", "Observation"))
CELLS = (tuple("ABCDE"), ("B lymphocytes", "C-reactive protein", "E. coli", "Vitamin A", "None of the above"))
SENTENCES = (
    tuple("ABCDEF"),
    ("The kidney is affected.", "It is reversible.", "Isotretinoin", "> 5 mmol/L", "A mass", "A mass that grows"),
)
LETTERS = (tuple("AB"), ("A", "B"))
HISTORY = (tuple("ABC"), ("has a history of homelessness", "does not have a history of homelessness", "uncertain"))
WORDS = (("yes", "no"), ("yes", "no"))
NINE = (tuple("ABCDEFGHI"), tuple(f"finding {n}" for n in range(1, 10)))

NAMED = [
    ("- [ ] A. yes\n- [x] B. no\n- [ ] C. maybe", 1),
    ("\u200bB\ufeff", 1),
    ("A—yes", 0),
    ("Yes\n\nThe trial was positive.", 0),
    ("B because the trial was negative", 1),
    ("A (because all arms improved)", 0),
    ("B. no\n\nA is wrong because the trial was negative. C is wrong as well.", 1),
    ("B\n\nExplanation:\nA. yes would need a positive trial\nC. maybe would need conflicting data", 1),
    ("A\n\nQuestion: Does aspirin help?\nAnswer: B", 0),
    ("Not B but C", 2),
    ("A rather than B", 0),
    ("B. no\n\nConfidence: 90%", 1),
    ("The answer is (a) because all arms improved", 0),
    ("The correct answer is\n\n**(B) no**", 1),
    ("Therefore, B.", 1),
    ("The answer is **B**.\n\nOption A is incorrect.", 1),
    ("Final Answer: The final answer is $\\boxed{B}$. I hope it is correct.", 1),
    ("\\[\\boxed{\\text{A}}\\]", 0),
    ('{"answer":"A","explanation":"option B is not supported"}', 0),
    ('{"reasoning": "The answer is A or B", "answer": "C"}', 2),
    ("答案是B，因为没有差异", 1),
    ("Doğru yanıt B'dir.", 1),
    ("At first the answer is A. On reflection, the answer is C.", 2),
    ("A. yes: needs a positive trial\nB. no: needs a negative trial\nC. maybe: else\n\nThe answer is B", 1),
    ("B\n\nWait, looking again, the correct answer is C.", 2),
    ("<think>The answer is A.</think>The correct answer is **C**.", 2),
    ("The answer is B. It is clear that the answer is not A.", 1),
]

NOT_NAMED = [
    "A\n\nIt is complicated.\n\nB",
    "",
    "A. yes\nB. no\nC. maybe",
    "A. yes: the trial was positive\nB. no: the trial was negative",
    "Answer: A. yes B. no",
    "The answer is A and B, not C.",
    "A patient with asthma needs oxygen",
    "B-cell lymphoma",
    "Hepatitis B is the most likely diagnosis",
    "The answer is C. no",
    '{"answer": ["A", "B"]}',
    "<think>The answer is A",
    "¬A",
    "If A is correct, the trial must have been positive",
    "The answer could be A",
    "В данном случае",
    "无法回答",
]

OTHER_OPTIONS: list[tuple[Options, str, int | None]] = [
    (
        FOUR_DRUGS,
        "The correct answer is B. Aspirin.\n\nThe other options are not the correct answer:\n\nA. Warfarin is slow."
        "\nC. Heparin is parenteral.\nD. Clopidogrel is second.",
        1,
    ),
    (
        FOUR_DRUGS,
        "The correct answer is B. Aspirin.\n\nLet's examine each option:\n\nA. Warfarin: no.\nC. Heparin: no.",
        1,
    ),
    (FOUR_DRUGS, "The most appropriate drug is:\n\nB. Aspirin\n\nRationale: it is first line.", 1),
    (FOUR_DRUGS, "So aspirin is the answer", 1),
    (FOUR_DRUGS, "A. Incorrect.\nB. Correct.\nC. Incorrect.\nD. Incorrect.", 1),
    (FOUR_DRUGS, "✅ **B** 🩺", 1),
    (FOUR_DRUGS, "I believe the answer is Heparin. Wait, no, it's B.", 1),
    (FOUR_DRUGS, "La respuesta correcta es la B", 1),
    (
        ASTHMA,
        "The correct answer is C. Short-acting beta2-agonists.\n\nThe other options are not the correct answer:\n\n"
        "A. Inhaled corticosteroids are for long-term control.\nB. Long-acting beta2-agonists are for maintenance.",
        2,
    ),
    (MESH, "The correct answer is A. prosthetic silo.", 0),
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
    (NINE, "I think B", 1),
    (NINE, "I, as a model, cannot say", None),
    (DRUGS, "La respuesta correcta es la segunda opción.", 1),
    (DRUGS, "The second option is wrong.", None),
    (DRUGS, "The first option to try is warfarin.", 1),
    (DRUGS, "Option 1: insulin. Option 2: surgery. I prefer option 2.", None),
]


@table(("reply", "option"), [*NAMED, *((reply, None) for reply in NOT_NAMED)])
def test_an_option_is_read_unless_the_completion_is_ambiguous(reply: str, option: int | None) -> None:
    assert find_choice(reply, *YES_NO_MAYBE) == option


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


OPTIONS = st.sampled_from([YES_NO_MAYBE, DRUGS, CELLS, SENTENCES, LETTERS, HISTORY, JUDGMENT, WORDS, NINE])
OTHER_TEXTS = st.lists(st.text(), min_size=1, max_size=6).map(
    lambda texts: (tuple("ABCDEF"[: len(texts)]), tuple(texts))
)


@given(OPTIONS | OTHER_TEXTS, st.text())
def test_any_options_can_be_asked_about(options: Options, reply: str) -> None:
    assert find_choice(reply, *options) in (None, *range(len(options[1])))


@given(OPTIONS, st.data())
def test_a_label_or_text_alone_is_always_read(options: Options, data: st.DataObject) -> None:
    labels, texts = options
    option = data.draw(st.integers(0, len(texts) - 1))
    assert find_choice(labels[option], labels, texts) == option
    assert find_choice(texts[option], labels, texts) == option or texts[option] in labels
