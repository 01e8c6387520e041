"""Completions of real models, and forms that were once read wrongly or not at all."""

from __future__ import annotations

from medhelm.scoring.answers.choice import find_choice
from tests.support.cases import table

DRUGS = (tuple("ABCD"), ("Warfarin", "Aspirin", "Heparin", "Clopidogrel"))
ASTHMA = (tuple("ABC"), ("Inhaled corticosteroids", "Long-acting beta2-agonists", "Short-acting beta2-agonists"))
FEVER = (tuple("ABC"), ("Malaria", "Tuberculosis", "Dengue fever"))
MESH = (tuple("ABCD"), ("prostethic silo", "prolene mesh", "saline bag", "skin flap"))
RATIOS = (tuple("ABCD"), ("45/195", "30/400", "(30/200) / (30/400)", "30/200"))
YES_NO = (("A", "B"), ("yes", "no"))
MENTIONED = (("A", "B", "C"), ("yes", "no", "not mentioned"))
JUDGMENT = (("0", "1"), ("0", "1"))

A_HEADING_BEFORE_OTHER_OPTIONS = [
    "The correct answer is B. Aspirin.\n\nThe other options are not the correct answer:\n\nA. Warfarin is slow."
    "\nC. Heparin is parenteral.\nD. Clopidogrel is second.",
    "The correct answer is B. Aspirin.\n\nLet's examine each option:\n\nA. Warfarin: no.\nC. Heparin: no.",
    "B. Aspirin\n\nThe other options are not correct:\nA. Warfarin is slow.\nC. Heparin is given i.v.",
    "The correct answer is B. Aspirin.\n\nThe components of the score:\nA. Age\nC. Heart failure\nD. Diabetes",
]

STATEMENTS = [
    "The most likely diagnosis is B. Aspirin.",
    "The most appropriate drug is:\n\nB. Aspirin\n\nRationale: it is first line.",
    "The drug of choice is B. Aspirin",
    "The only true statement is B.",
    "This corresponds to option B",
    "The best option is B. Aspirin",
    "The answer appears to be B",
    "The answer must therefore be B",
    "So aspirin is the answer",
    "The answer is not A, it is B.",
    "A. Incorrect.\nB. Correct.\nC. Incorrect.\nD. Incorrect.",
    "Ans B",
    "B ✅",
    "✅ **B** 🩺",
    "B\x00",
    "B 90%",
    "B is more likely than A",
    "I believe the answer is Heparin. Wait, no, it's B.",
    "It should be B.",
    "Based on the note, B.",
    "The most appropriate next step is B.",
    "1. B",
    "Certainly. B",
    "Assistant: B",
]

OTHER_LANGUAGES = [
    *("정답은 B입니다.", "정답: B", "正解はBです", "正解はBです。", "答案是B", "答案选B", "正确答案：B", "选B"),
    *(
        "Letra B",
        "Gabarito: B",
        "Alternativa B",
        "A alternativa correta é a letra B.",
        "A resposta correta é a letra B",
    ),
    *(
        "A resposta correta é B.",
        "La respuesta correcta es la B",
        "La respuesta correcta es B.",
        "Opción B",
        "Respuesta: B",
    ),
    *(
        "La bonne réponse est la B",
        "La bonne réponse est B.",
        "Réponse : B",
        "Die richtige Antwort ist B.",
        "Antwort: B",
    ),
    *("Richtig ist B", "La risposta corretta è la B", "Risposta: B", "Правильный ответ: B", "Ответ: B", "Đáp án: B"),
    *("Cevap: B", "Doğru cevap B", "الإجابة: B", "الإجابة الصحيحة هي B", "उत्तर: B", "सही उत्तर B है", "Antwoord: B"),
    *("Het juiste antwoord is B", "Jibu: B", "Svar: B", "Odpowiedź: B"),
]

OTHER_OPTIONS = [
    (
        ASTHMA,
        "The correct answer is C. Short-acting beta2-agonists.\n\nThe other options are not the correct answer:\n\n"
        "A. Inhaled corticosteroids are for long-term control.\nB. Long-acting beta2-agonists are for maintenance.",
        2,
    ),
    (FEVER, "The most likely diagnosis is C. Dengue fever.", 2),
    (FEVER, "The most likely diagnosis is:\n\nC. Dengue fever\n\nRationale: fever, rash and travel.", 2),
    (FEVER, "A. Incorrect.\nB. Incorrect.\nC. Correct.", 2),
    (MESH, "The correct answer is A. prosthetic silo.", 0),
    (RATIOS, "C. (30/200) / (30/400)", 2),
    (YES_NO, "My answer is A for yes.", 0),
    (YES_NO, "The patient is not eligible. B", 1),
    (YES_NO, "It is unlikely, so B.", 1),
    (YES_NO, "Based on the note, yes.", 0),
    (YES_NO, "The message is confidential: Yes (A).", 0),
    (YES_NO, "Yes/No: No", 1),
    (YES_NO, "Y", 0),
    (YES_NO, "In conclusion, yes.", 0),
    (YES_NO, "Choose A", 0),
    (MENTIONED, "Not mentioned in the note.", 2),
    (MENTIONED, "No, it is not mentioned", 2),
    (JUDGMENT, "1 / hallucinated", 1),
    (JUDGMENT, "The answer is hallucinated: 1", 1),
    (JUDGMENT, "I would output 1.", 1),
    (JUDGMENT, "Judgment: 0 for factual", 0),
    (JUDGMENT, "0.0", 0),
    (JUDGMENT, "I judge: 0", 0),
]


@table("completion", A_HEADING_BEFORE_OTHER_OPTIONS + STATEMENTS + OTHER_LANGUAGES)
def test_the_second_option_is_read(completion: str) -> None:
    assert find_choice(completion, *DRUGS) == 1


@table(("options", "completion", "option"), OTHER_OPTIONS)
def test_an_option_of_another_question_is_read(
    options: tuple[tuple[str, ...], tuple[str, ...]], completion: str, option: int
) -> None:
    assert find_choice(completion, *options) == option
