"""What counts as naming an option: replies as models of all sorts write them.

Thousands of wordings are in `bench.studies.wordings`; here are one of each kind, and those that were once read wrongly.
"""

from __future__ import annotations

from medhelm.scoring.answers.choice import find_choice
from tests.support.cases import table

YES_NO_MAYBE = (tuple("ABC"), ("yes", "no", "maybe"))
DRUGS = (tuple("ABCD"), ("Warfarin", "Aspirin", "Heparin", "Clopidogrel"))
ASTHMA = (tuple("ABC"), ("Inhaled corticosteroids", "Long-acting beta2-agonists", "Short-acting beta2-agonists"))
MESH = (tuple("ABCD"), ("prostethic silo", "prolene mesh", "saline bag", "skin flap"))
YES_NO = (("A", "B"), ("yes", "no"))
MENTIONED = (("A", "B", "C"), ("yes", "no", "not mentioned"))
JUDGMENT = (("0", "1"), ("0", "1"))

NAMED = [
    ("A", 0),
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
    ("Ответ: В", 1),  # in the Cyrillic alphabet
    ("Doğru yanıt B'dir.", 1),
    ("At first the answer is A. On reflection, the answer is C.", 2),
    ("A. yes: needs a positive trial\nB. no: needs a negative trial\nC. maybe: else\n\nThe answer is B", 1),
    ("B\n\nWait, looking again, the correct answer is C.", 2),
    ("<think>The answer is A.</think>The correct answer is **C**.", 2),
    ("The answer is B. It is clear that the answer is not A.", 1),
]

NOT_NAMED = [
    "",
    "A. yes\nB. no\nC. maybe",
    "A. yes: the trial was positive\nB. no: the trial was negative",
    "Answer: A. yes B. no",
    "The answer is A and B, not C.",
    "A patient with asthma needs oxygen",
    "B-cell lymphoma",
    "Hepatitis B is the most likely diagnosis",
    "As an AI language model, I cannot give medical advice.",
    "The answer is C. no",
    '{"answer": ["A", "B"]}',
    "<think>The answer is A",
    "¬A",
    "If A is correct, the trial must have been positive",
    "The answer could be A",
    "В данном случае",
    "无法回答",
]

ONCE_MISREAD = [
    (
        DRUGS,
        "The correct answer is B. Aspirin.\n\nThe other options are not the correct answer:\n\nA. Warfarin is slow."
        "\nC. Heparin is parenteral.\nD. Clopidogrel is second.",
        1,
    ),
    (DRUGS, "The correct answer is B. Aspirin.\n\nLet's examine each option:\n\nA. Warfarin: no.\nC. Heparin: no.", 1),
    (DRUGS, "The most appropriate drug is:\n\nB. Aspirin\n\nRationale: it is first line.", 1),
    (DRUGS, "So aspirin is the answer", 1),
    (DRUGS, "A. Incorrect.\nB. Correct.\nC. Incorrect.\nD. Incorrect.", 1),
    (DRUGS, "✅ **B** 🩺", 1),
    (DRUGS, "I believe the answer is Heparin. Wait, no, it's B.", 1),
    (DRUGS, "La respuesta correcta es la B", 1),
    (
        ASTHMA,
        "The correct answer is C. Short-acting beta2-agonists.\n\nThe other options are not the correct answer:\n\n"
        "A. Inhaled corticosteroids are for long-term control.\nB. Long-acting beta2-agonists are for maintenance.",
        2,
    ),
    (MESH, "The correct answer is A. prosthetic silo.", 0),
    (YES_NO, "My answer is A for yes.", 0),
    (YES_NO, "The patient is not eligible. B", 1),
    (YES_NO, "It is unlikely, so B.", 1),
    (YES_NO, "Yes/No: No", 1),
    (YES_NO, "Y", 0),
    (MENTIONED, "No, it is not mentioned", 2),
    (JUDGMENT, "1 / hallucinated", 1),
    (JUDGMENT, "Judgment: 0 for factual", 0),
    (JUDGMENT, "0.0", 0),
]


@table(("reply", "option"), NAMED)
def test_an_option_is_read(reply: str, option: int) -> None:
    assert find_choice(reply, *YES_NO_MAYBE) == option


@table("reply", NOT_NAMED)
def test_an_ambiguous_completion_has_no_answer(reply: str) -> None:
    assert find_choice(reply, *YES_NO_MAYBE) is None


@table(("options", "completion", "option"), ONCE_MISREAD)
def test_what_was_once_misread_is_read(
    options: tuple[tuple[str, ...], tuple[str, ...]], completion: str, option: int
) -> None:
    assert find_choice(completion, *options) == option
