"""What counts as naming an option: replies as models of all sorts write them."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.text import find_choice
from medhelm.text.options import tidy

Options = tuple[tuple[str, ...], tuple[str, ...]]

YES_NO_MAYBE = (tuple("ABC"), ("yes", "no", "maybe"))
DRUGS = (tuple("ABCDE"), ("Metformin", "Warfarin", "Insulin glargine", "Aspirin 81 mg", "Observation"))
CELLS = (tuple("ABCDE"), ("B lymphocytes", "C-reactive protein", "E. coli", "Vitamin A", "None of the above"))
LETTERS = (tuple("AB"), ("A", "B"))
HISTORY = (tuple("ABC"), ("has a history of homelessness", "does not have a history of homelessness", "uncertain"))
JUDGMENT = (("0", "1"), ("0", "1"))
WORDS = (("yes", "no"), ("yes", "no"))
NINE = (tuple("ABCDEFGHI"), tuple(f"finding {n}" for n in range(1, 10)))

BARE = [
    ("A", 0),
    ("B", 1),
    (" C\n", 2),
    ("a", 0),
    ("b", 1),
    ("c.", 2),
    ("A.", 0),
    ("B)", 1),
    ("(C)", 2),
    ("(b)", 1),
    ("[A]", 0),
    ("{B}", 1),
    ("<C>", 2),
    ("**A**", 0),
    ("**B.**", 1),
    ("*C*", 2),
    ("__A__", 0),
    ("`B`", 1),
    ("'A'", 0),
    ('"B"', 1),
    ("“C”", 2),
    ("A:", 0),
    ("B;", 1),
    ("C!", 2),
    ("- B", 1),
    ("> A", 0),
    ("# C", 2),
    ("Ｂ", 1),
    ("（Ａ）", 0),
    ("\u200bB\ufeff", 1),
    ("B</s>", 1),
    ("C<|im_end|>", 2),
    ("<b>A</b>", 0),
    ("$B$", 1),
    ("\\(C\\)", 2),
    ("```\nB\n```", 1),
    ("✅ A", 0),
    ("Option B", 1),
    ("option (c)", 2),
    ("Choice A.", 0),
    ("Answer B", 1),
    ("It is C.", 2),
    ("The letter B", 1),
]

WITH_TEXT = [
    ("A. yes", 0),
    ("B. No", 1),
    ("C) maybe", 2),
    ("(A) yes", 0),
    ("A yes", 0),
    ("b no", 1),
    ("a) yes", 0),
    ("b. no", 1),
    ("A: yes", 0),
    ("B - no", 1),
    ("C – maybe", 2),
    ("A—yes", 0),
    ("B, no", 1),
    ("A (yes)", 0),
    ("A = yes", 0),
    ("B → no", 1),
    ("**A.** yes", 0),
    ("**A. yes**", 0),
    ("A.\tYes.", 0),
    ("yes", 0),
    ("Yes.", 0),
    ("NO", 1),
    ("**Maybe**", 2),
    ('"no"', 1),
    ("Yes, because the trial was positive.", 0),
    ("No. The difference was not significant.", 1),
    ("No - the study was underpowered", 1),
    ("Maybe: results are mixed", 2),
    ("yes (A)", 0),
    ("Yes because all arms improved", 0),
    ("Yes\n\nThe trial was positive.", 0),
]

EXPLAINED = [
    ("B because the trial was negative", 1),
    ("A because the trial was positive", 0),
    ("B\n\nThe abstract reports no difference.", 1),
    ("A\nThe abstract reports a difference.", 0),
    ("B. The abstract reports no difference.", 1),
    ("A. The abstract reports a difference.", 0),
    ("B: the abstract reports no difference", 1),
    ("C, since the results conflict", 2),
    ("A, given that all arms improved", 0),
    ("B - there was no difference", 1),
    ("B The study found no difference", 1),
    ("A The study found a difference", 0),
    ("A (because all arms improved)", 0),
    ("B (no difference was found)", 1),
    ("Option B: no difference was found", 1),
    ("B. no\n\nA is wrong because the trial was negative. C is wrong as well.", 1),
    ("B\n\nExplanation:\nA. yes would need a positive trial\nC. maybe would need conflicting data", 1),
    ("A. yes\n\nWhy the others are wrong:\nB. no: the trial was positive\nC. maybe: it was clear", 0),
    ("C. maybe\n\nA. yes is too strong\nB. no is too strong", 2),
    ("A\n\nQuestion: Does aspirin help?\nAnswer: B", 0),
    ("A is correct.", 0),
    ("B is the answer.", 1),
    ("B, not C", 1),
    ("B and not C", 1),
    ("A rather than B", 0),
    ("B but C is close", 1),
    ("yes, A", 0),
    ("B. no\n\nConfidence: 90%", 1),
    ("#### B", 1),
    ("<choice>C</choice>", 2),
    ("B is the correct answer because the trial was negative.", 1),
]

STATED = [
    ("Answer: A", 0),
    ("answer: b", 1),
    ("ANSWER: C", 2),
    ("Ans: B", 1),
    ("Ans. B", 1),
    ("Answer - B", 1),
    ("Answer = A", 0),
    ("Answer – C", 2),
    ("Answer → B", 1),
    ("Answer:\nB", 1),
    ("Answer\n\nB", 1),
    ("**Answer:** B", 1),
    ("**Answer**: **C**", 2),
    ("### Final Answer\n**B. no**", 1),
    ("Final answer: C", 2),
    ("Final Answer: (A) yes", 0),
    ("My answer is B.", 1),
    ("The answer is A", 0),
    ("The answer is (B).", 1),
    ("The answer is: **C**", 2),
    ("The answer is option B", 1),
    ("The answer is a.", 0),
    ("The answer is (a) because all arms improved", 0),
    ("The correct answer is (B).", 1),
    ("The correct answer is B, no.", 1),
    ("The correct answer is\n\n**(B) no**", 1),
    ("The correct option is C", 2),
    ("The best choice is therefore B.", 1),
    ("The most appropriate answer to the question is: B", 1),
    ("The best answer here is A.", 0),
    ("The correct choice would be B", 1),
    ("The answer must be C.", 2),
    ("The answer is most likely B.", 1),
    ("The answer is no.", 1),
    ("Answer: yes", 0),
    ("The answer is 'maybe'", 2),
    ("Correct: B", 1),
    ("Choice: C", 2),
    ("Selected option: A", 0),
    ("I choose B.", 1),
    ("I would go with (C).", 2),
    ("I'd pick A", 0),
    ("I would answer B because of the p value", 1),
    ("Therefore, B.", 1),
    ("Option B is correct.", 1),
    ("Choice (B) is correct", 1),
    ("Only C is correct", 2),
    ("Option A is incorrect. Option B is correct.", 1),
    ("The answer is B and not C.", 1),
    ("So the answer is A, not B.", 0),
    ("The answer is **B**.\n\nOption A is incorrect.", 1),
    ("Based on the abstract, I would select option B.", 1),
    ("The answer to the question is yes.", 0),
    ("Yes, the answer is A.", 0),
    ("Final Answer: The final answer is $\\boxed{B}$. I hope it is correct.", 1),
    ("The answer is: Option A: yes", 0),
    ("The best answer is option **C: maybe**.", 2),
    ("Answer: B (confidence: high)", 1),
    ("Answer: [B]", 1),
    ("Answer:yes", 0),
    ("option c is the best choice", 2),
    ("(A) is the right answer", 0),
    ("I think that B is correct.", 1),
    ("\\boxed{C}", 2),
    ("$\\boxed{B}$", 1),
    ("\\[\\boxed{\\text{A}}\\]", 0),
    ("The final answer is $\\boxed{\\textbf{(B)}}$.", 1),
    ("<answer>C</answer>", 2),
    ("<answer>\nB. no\n</answer>", 1),
    ("<final_answer>A</final_answer>", 0),
    ('{"answer": "B"}', 1),
    ("{'answer': 'C'}", 2),
    ('{"answer":"A","explanation":"option B is not supported"}', 0),
    ('{"reasoning": "The answer is A or B", "answer": "C"}', 2),
    ('```json\n{"answer": "B"}\n```', 1),
    ('{"answer_choice": "B"}', 1),
    ("[[B]]", 1),
    ("答案：B", 1),
    ("正确答案是 C。", 2),
    ("答案是B，因为没有差异", 1),
    ("La respuesta correcta es B.", 1),
    ("Die Antwort ist C.", 2),
    ("Réponse : A", 0),
    ("정답: B", 1),
    ("Ответ: C", 2),
]

REASONED = [
    ("Let me think. A is tempting, but the trial was negative.\n\nThe answer is B.", 1),
    ("At first the answer is A. On reflection, the answer is C.", 2),
    ("Option A: positive trial. Option B: negative trial.\nThe trial was negative.\n\nB", 1),
    ("The trial was negative, so:\n\n**B. no**", 1),
    ("A. yes: needs a positive trial\nB. no: needs a negative trial\nC. maybe: else\n\nThe answer is B", 1),
    ("A. yes\nB. no\nC. maybe\n\nAnswer: C", 2),
    ("B\n\nWait, looking again, the correct answer is C.", 2),
    ("<think>A? B? The answer is A.</think>\n\nB", 1),
    ("<think>The answer is A.</think>The correct answer is **C**.", 2),
    ("The answer is not A. The answer is B.", 1),
    ("The answer is B. It is clear that the answer is not A.", 1),
    ("Therefore B is correct.\nThis rests on the p value.", 1),
    ("Step 1: read the abstract.\nStep 2: no difference.\nConclusion: B", 1),
]

NOT_NAMED = [
    "",
    "   \n ",
    "?",
    "A or B",
    "A and C",
    "A, C",
    "A/B",
    "A & B",
    "A, B, C",
    "(A) or (B)",
    "A. yes or B. no",
    "A B",
    "Both A and B",
    "The answer is A or B.",
    "The answer is both A and B.",
    "Either A or B",
    "Neither",
    "None",
    "All of them",
    "yes and no",
    "yes or no",
    "Yes, no",
    "A. yes B. no C. maybe",
    "A. yes\nB. no\nC. maybe",
    "A. yes\nB. no",
    "A\nB",
    "B\nC",
    "A. yes: the trial was positive\nB. no: the trial was negative",
    "not A",
    "A is incorrect.",
    "A is not correct",
    "Options: A, B",
    "The answer is",
    "Which answer is correct?",
    "Not B but C",
    "Answer: A. yes B. no",
    "AAAA",
    "A. yes: a positive trial; B. no: a negative one; C. maybe",
    "The answer is A and B, not C.",
    "Not A or B",
    "The answer is not B.",
    "A patient with asthma needs oxygen",
    "A 45-year-old man presents with fever",
    "A definitive answer is not possible",
    "A reason for this could be bias",
    "The answer is a matter of debate",
    "The answer is A patient's own choice",
    "a good question",
    "AB",
    "ABC",
    "D",
    "B12 deficiency",
    "B-cell lymphoma",
    "A-fib",
    "C-section",
    "A1c was high",
    "Hepatitis B is the most likely diagnosis",
    "No evidence was found",
    "No longer",
    "Maybe yes",
    "yesterday",
    "Not sure",
    "I cannot answer this question.",
    "I'm sorry, but I can't provide medical advice.",
    "As an AI language model, I cannot give medical advice.",
    "I think so",
    "The answer cannot be determined",
    "The abstract supports this answer",
    "Both groups improved",
    "N/A",
    "B. yes",
    "A. no",
    "The answer is C. no",
    '{"answer": null}',
    '{"answer": ["A", "B"]}',
    '{"answer": "A or B"}',
    "\\boxed{A, B}",
    "<think>The answer is A",
    "<think>The answer is A</think>",
    "¬A",
    "If A is correct, the trial must have been positive",
    "The answer could be A",
    "B and C",
    "1",
    "无法回答",
]

OTHER_OPTIONS = [
    (DRUGS, "Warfarin", 1),
    (DRUGS, "warfarin is the most appropriate next step", 1),
    (DRUGS, "insulin  glargine", 2),
    (DRUGS, "The answer is Insulin glargine.", 2),
    (DRUGS, "Aspirin 81 mg", 3),
    (DRUGS, "Aspirin 81 mgs", None),
    (DRUGS, "D. Aspirin", 3),
    (DRUGS, "E", 4),
    (DRUGS, "B. Warfarin is indicated in atrial fibrillation.", 1),
    (DRUGS, "B Warfarin", 1),
    (DRUGS, "Metformin or warfarin", None),
    (DRUGS, "Metformin is contraindicated", None),
    (DRUGS, "Metformin, then warfarin", 0),
    (DRUGS, "A. Warfarin", None),
    (DRUGS, "D and E", None),
    (DRUGS, "The patient needs warfarin", None),
    (DRUGS, "E. coli is the most common cause", None),
    (CELLS, "B lymphocytes", 0),
    (CELLS, "The answer is B lymphocytes.", 0),
    (CELLS, "B", 1),
    (CELLS, "A. B lymphocytes", 0),
    (CELLS, "C-reactive protein", 1),
    (CELLS, "E. coli", 2),
    (CELLS, "C. E. coli", 2),
    (CELLS, "Vitamin A", 3),
    (CELLS, "None of the above", 4),
    (CELLS, "The answer is none of the above.", 4),
    (CELLS, "B. C-reactive protein", 1),
    (LETTERS, "A", 0),
    (LETTERS, "B. B", 1),
    (LETTERS, "A. A", 0),
    (LETTERS, "b", 1),
    (LETTERS, "Answer: A", 0),
    (LETTERS, "A patient", None),
    (HISTORY, "B", 1),
    (HISTORY, "A. Has a history of homelessness", 0),
    (HISTORY, "does not have a history of homelessness.", 1),
    (HISTORY, "The patient has a history of homelessness", None),
    (HISTORY, "C. Uncertain", 2),
    (JUDGMENT, "0", 0),
    (JUDGMENT, "1", 1),
    (JUDGMENT, "0.", 0),
    (JUDGMENT, "**1**", 1),
    (JUDGMENT, "Answer: 0", 0),
    (JUDGMENT, "Your Judgment: 1", 1),
    (JUDGMENT, "Judgement: 0", 0),
    (JUDGMENT, "1 (hallucinated)", 1),
    (JUDGMENT, "0 - factual", 0),
    (JUDGMENT, "1\n\nThe answer misstates the mechanism.", 1),
    (JUDGMENT, "1. The answer misstates the mechanism.", 1),
    (JUDGMENT, "0 because it agrees with the knowledge", 0),
    (JUDGMENT, "The answer is 1.", 1),
    (JUDGMENT, "\\boxed{0}", 0),
    (JUDGMENT, '{"answer": 1}', 1),
    (JUDGMENT, "Label: 0", 0),
    (JUDGMENT, "10", None),
    (JUDGMENT, "01", None),
    (JUDGMENT, "0.5", None),
    (JUDGMENT, "-1", None),
    (JUDGMENT, "100%", None),
    (JUDGMENT, "1%", None),
    (JUDGMENT, "0/1", None),
    (JUDGMENT, "0 or 1", None),
    (JUDGMENT, "0 1", None),
    (JUDGMENT, "0 means factual, 1 means hallucinated", None),
    (JUDGMENT, "1. The question asks about aspirin.\n2. The answer names warfarin.", None),
    (JUDGMENT, "2", None),
    (JUDGMENT, "Hallucinated", None),
    (WORDS, "Yes", 0),
    (WORDS, "no.", 1),
    (WORDS, "Answer: no", 1),
    (WORDS, "**Yes**, because", 0),
    (WORDS, "nothing", None),
    (WORDS, "yes/no", None),
    (NINE, "I", 8),
    (NINE, "I.", 8),
    (NINE, "Answer: I", 8),
    (NINE, "I think B", None),
    (NINE, "I, as a model, cannot say", None),
    (NINE, "I'm not sure", None),
    (NINE, "Answer: I don't know", None),
]


@pytest.mark.parametrize(("reply", "option"), BARE + WITH_TEXT + EXPLAINED + STATED + REASONED)
def test_an_option_is_read(reply: str, option: int) -> None:
    assert find_choice(reply, *YES_NO_MAYBE) == option


@pytest.mark.parametrize("reply", NOT_NAMED)
def test_in_doubt_there_is_none(reply: str) -> None:
    assert find_choice(reply, *YES_NO_MAYBE) is None


@pytest.mark.parametrize(("options", "reply", "option"), OTHER_OPTIONS)
def test_other_kinds_of_options(options: Options, reply: str, option: int | None) -> None:
    assert find_choice(reply, *options) == option


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
    text = tidy(characters)
    assert len(text.lower()) == len(text)


OPTIONS = st.sampled_from([YES_NO_MAYBE, DRUGS, CELLS, LETTERS, JUDGMENT, WORDS, NINE])
SIGNS = (":", ".", ",", "(", ")", "\n", " ", "**", "\\boxed{", "}", "<answer>", "</think>", "<think>", "İ", "-")
PHRASES = ("A", "B", "a", "0", "1", "yes", "no", "or", "and", "not", "answer", "The answer is", "option", "is correct")
PIECES = st.sampled_from([*SIGNS, *PHRASES, "Question:"])


@given(
    OPTIONS,
    st.one_of(st.text(), st.lists(PIECES, max_size=14).map(" ".join), st.lists(PIECES, max_size=14).map("".join)),
)
def test_any_text_gives_an_option_or_none(options: Options, reply: str) -> None:
    labels, texts = options
    option = find_choice(reply, labels, texts)
    assert option is None or 0 <= option < len(texts)


@given(OPTIONS, st.data())
def test_label_and_text_alone_are_always_read(options: Options, data: st.DataObject) -> None:
    labels, texts = options
    option = data.draw(st.integers(0, len(texts) - 1))
    assert find_choice(labels[option], labels, texts) == option
    assert find_choice(texts[option], labels, texts) == option or texts[option] in labels


@given(st.lists(st.text(), min_size=1, max_size=6), st.text())
def test_any_options_may_be_given(texts: list[str], reply: str) -> None:
    labels = "ABCDEF"[: len(texts)]
    option = find_choice(reply, labels, texts)
    assert option is None or 0 <= option < len(texts)


MEGABYTE = 1_000_000
ADVERSARIAL = [
    "A",
    "answer",
    "answer: ",
    "answer is ",
    "the answer to ",
    "(",
    "A, ",
    "A or ",
    "\n",
    "A.\n",
    " ",
    "1",
    "\\boxed{",
]
ADVERSARIAL += [
    "<think>",
    "</think>",
    "B is ",
    "I would choose ",
    "*",
    "İ",
    "\u0301",
    "yes ",
    "Question:",
    "\nQuestion:",
    "答案",
    "-",
]


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_a_megabyte_is_read(piece: str) -> None:
    """Every pattern is bounded: a reply of any shape takes time in proportion to its length."""
    reply = piece * (MEGABYTE // len(piece))
    assert find_choice(reply + "\nThe answer is B", *DRUGS) in (None, 1)
