"""Wordings of judgments of a note: no error, an error in a sentence, an error without a sentence, and no judgment."""

from __future__ import annotations

from collections.abc import Iterator

from bench.studies.wordings import medec_held_out as held_out
from bench.studies.wordings.form import Form
from medhelm.scoring.answers.note_error import read_error_judgment

NOTE = """0 A 54-year-old woman comes to the clinic because of fatigue for 2 weeks.
1 She takes metformin for type 2 diabetes mellitus.
2 Her pulse is 88/min, and blood pressure is
3 150/95 mm Hg.
4 Her platelet count is 45,000/mm3 after 6 days of heparin.
5 Heparin is continued because of suspected thrombosis.
6 Argatroban is not available.
7 She is admitted to the hospital.
8 An echocardiogram shows no abnormalities.
9 She is discharged after 3 days."""
"""An invented note with an error in sentence 5."""

ORIGINAL = "Heparin is continued because of suspected thrombosis."
CORRECTED = "Heparin is stopped because of suspected thrombosis."

FIVE = (
    "5 {c}",
    "5",
    "5.",
    "5. {c}",
    "5: {c}",
    "5) {c}",
    "5 - {c}",
    "5 – {c}",
    "5, {c}",
    "(5) {c}",
    "[5] {c}",
    "#5 {c}",
    "#5: {c}",
    "ID 5: {c}",
    "ID: 5\n{c}",
    '5 "{c}"',
    "5\n{c}",
    "5\t{c}",
    "5 → {c}",
    "Sentence 5",
    "Sentence 5: {c}",
    "Sentence 5 {c}",
    "Sentence #5: {c}",
    "Sentence no. 5: {c}",
    "Sentence (5): {c}",
    "Sentence ID 5: {c}",
    "Sentence ID: 5\nCorrected sentence: {c}",
    "Sentence Number: 5\nCorrection: {c}",
    "Line 5: {c}",
    "Error: 5 {c}",
    "Error found: 5 {c}",
    "Error detected: 5 {c}",
    "Error identified: Sentence 5",
    "Error in sentence 5: {c}",
    "Error sentence: 5",
    "Error at 5: {c}",
    "Error ID: 5",
    "ERROR 5 {c}",
    "INCORRECT. 5 {c}",
    "INCORRECT 5 {c}",
    "INCORRECT: 5 {c}",
    "INCORRECT\n5 {c}",
    "INCORRECT - sentence 5",
    "Incorrect. Sentence 5 should be: {c}",
    "Incorrect. Sentence 5 should read '{c}'",
    "Incorrect, sentence 5.",
    "Not correct. 5 {c}",
    "Not correct: 5 {c}",
    "NOT CORRECT\n\n5 {c}",
    "Wrong. 5 {c}",
    "The text is not correct. 5 {c}",
    "The text is incorrect. 5 {c}",
    "The note isn't correct.\n5 {c}",
    "The text contains an error. 5 {c}",
    "The text contains an error:\n5 {c}",
    "The text contains exactly one error.\n\n5 {c}",
    "There is an error. 5 {c}",
    "There is one medical error in this note.\n5 {c}",
    "I found an error. 5 {c}",
    "This note contains a medical error. The wrong sentence is 5. It should read: {c}",
    "The error is in sentence 5.",
    "The error is located in sentence 5.",
    "The error lies in sentence 5: heparin must be stopped.",
    "The medical error occurs in sentence 5, where heparin is continued.",
    "The mistake is in sentence number 5.",
    "The wrong sentence is sentence 5.",
    "The incorrect sentence is 5.",
    "The incorrect sentence is number 5: {c}",
    "The sentence with the error is 5.",
    "The sentence containing the error is sentence 5.",
    "The erroneous sentence ID is 5.",
    "There is an error in sentence 5.",
    "There's a mistake in sentence 5: heparin causes the low platelets.",
    "There appears to be an error in sentence 5.",
    "I found an error in sentence 5.",
    "I believe sentence 5 is wrong.",
    "I think the error is in sentence 5.",
    "Sentence 5 is incorrect.",
    "Sentence 5 is wrong.",
    "Sentence 5 is medically inaccurate.",
    "Sentence 5 is not correct.",
    "Sentence 5 isn't right.",
    "Sentence 5 contains an error.",
    "Sentence 5 contains the error.",
    "Sentence 5 has a medical error: heparin must be stopped.",
    "Sentence 5 includes a mistake.",
    "Sentence 5 should be: {c}",
    "Sentence 5 should read: {c}",
    "Sentence 5 should say that heparin is stopped.",
    "Sentence 5 should be corrected to: {c}",
    "Sentence 5 needs to be corrected: {c}",
    "Sentence 5 must be changed to {c}",
    "In sentence 5, 'continued' should be 'stopped'.",
    'In sentence 5, "continued" should be "stopped".',
    "In sentence 5, “continued” should be replaced with “stopped”.",
    "In sentence 5, heparin should be stopped, not continued.",
    "In sentence 5, heparin is wrongly continued.",
    "In sentence 5 the drug is incorrect.",
    "Sentence 3 is correct, but sentence 5 contains an error.",
    "Sentences 0 to 4 are correct. Sentence 5 is incorrect.",
    "All sentences are correct except sentence 5.",
    "The text is correct except for sentence 5.",
    "The text is correct, except sentence 5, which should read: {c}",
    "No errors except in sentence 5.",
    "Everything is accurate apart from sentence 5.",
    "The text is mostly correct, but sentence 5 is wrong.",
    "The note is otherwise accurate; the error is in sentence 5.",
    "Here is the corrected sentence:\n5 {c}",
    "Here's the correction:\n\n5 {c}",
    "Corrected sentence: 5 {c}",
    "Corrected: 5 {c}",
    "Correction: 5 {c}",
    "Correct sentence 5 to: {c}",
    "Correct version of sentence 5: {c}",
    "Correction for sentence 5: {c}",
    "Change sentence 5 to: {c}",
    "Replace sentence 5 with: {c}",
    "5 should be: {c}",
    "5 is incorrect. {c}",
    "5 is wrong.",
    "5 contains the error.",
    "5 ❌ {c}",
    "❌ 5 {c}",
    "❌ Sentence 5: {c}",
    "❌ INCORRECT\n\n5 {c}",
    "⚠️ Error in sentence 5",
    "Error: Yes\nSentence: 5",
    "Error flag: 1\nError sentence ID: 5\nCorrected sentence: {c}",
    "Flag: 1, Sentence: 5",
    "error_flag=1, sentence_id=5",
    '{{"error": true, "sentence": 5}}',
    '{{"error_flag": 1, "error_sentence_id": 5, "corrected_sentence": "{c}"}}',
    '{{"sentence_id": 5, "correction": "{c}"}}',
    '{{"id": 5, "text": "{c}"}}',
    '{{"correct": false, "sentence": 5}}',
    '{{"is_correct": false, "error_sentence": "5", "corrected": "{c}"}}',
    '{{"answer": "5 {c}"}}',
    '{{"verdict": "INCORRECT", "sentence_number": 5}}',
    '{{"has_error": "yes", "line": 5}}',
    '[{{"sentence": 5, "issue": "heparin"}}]',
    "5 {o} -> {c}",
    "5 {c} (was: {o})",
    "Original: 5 {o}\nCorrected: 5 {c}",
    "Original sentence 5: {o}\nCorrected sentence 5: {c}",
    "After reviewing the note, the error is in sentence 5.\n\n5 {c}",
    "Reviewing each sentence:\n\n0 is fine.\n1 is fine.\n5 is incorrect: heparin must be stopped.",
    "0: correct\n1: correct\n2: correct\n3: correct\n4: correct\n5: incorrect\n6: correct",
    "Sentence 0: correct\nSentence 4: correct\nSentence 5: incorrect, heparin must be stopped\nSentence 6: correct",
    'The sentence "{o}" is incorrect.',
    "The sentence '{o}' contains an error. It should be '{c}'",
    'The error is in "{o}"',
    'Incorrect: "{o}"\nCorrect: "{c}"',
    "The text is not medically correct. The wrong sentence is 5.",
    "The text is not entirely accurate. Sentence 5 should be revised.",
    "Yes, there is an error in sentence 5.",
    "Yes. Sentence 5 is incorrect.",
    "The clinical note has an error in sentence five.",
    "Step 1: read the note.\nStep 2: sentence 5 continues heparin in spite of thrombocytopenia.\n\nAnswer: 5 {c}",
    "Let me check.\n\nSentence 1 is fine.\nSentence 4 suggests HIT.\n\nFinal answer: 5 {c}",
)
"""Sentence 5 is wrong; {c}: the corrected sentence, {o}: the original one."""

FINE = (
    "CORRECT",
    "CORRECT.",
    "Correct",
    "correct.",
    "CORRECT!",
    "CORRECT ✅",
    "✅ CORRECT",
    "✔ Correct",
    "(CORRECT)",
    "'CORRECT'",
    "[CORRECT]",
    "CORRECT - all findings fit the diagnosis",
    "CORRECT: the management is appropriate.",
    "CORRECT (no errors found)",
    "CORRECT\n\nExplanation: heparin is as recommended in sentence 5.",
    "CORRECT\n\nThe note has no medical errors.",
    "CORRECT. All sentences are accurate.",
    "The text is correct.",
    "The text is CORRECT.",
    "The text is correct",
    "This text is correct.",
    "The note is correct.",
    "The clinical note is medically correct.",
    "The clinical note is accurate.",
    "The narrative appears to be entirely accurate.",
    "The text appears correct.",
    "The text seems to be correct.",
    "The text looks correct.",
    "The document is error-free.",
    "The note is free of errors.",
    "The note is free from medical errors.",
    "The text contains no errors.",
    "The text does not contain any errors.",
    "The text doesn't contain an error.",
    "The note has no mistakes.",
    "The note does not have any medical errors.",
    "There is no error.",
    "There are no errors.",
    "There are no medical errors in the text.",
    "There are no errors in this note; every sentence is correct.",
    "There isn't an error in the text.",
    "There aren't any errors.",
    "No error",
    "No errors.",
    "No errors found.",
    "No error found in the text.",
    "No errors were detected.",
    "No medical errors identified.",
    "No mistakes.",
    "No corrections needed.",
    "No correction is necessary.",
    "Nothing is wrong.",
    "Nothing needs to be corrected.",
    "I found no errors.",
    "I did not find any errors.",
    "I didn't find any medical errors in this note.",
    "I don't see any errors.",
    "I see no errors in the note.",
    "I could not find an error.",
    "I could not identify any errors.",
    "I believe the text is correct.",
    "I think it is CORRECT",
    "All sentences are correct.",
    "All of the sentences are correct.",
    "All sentences are medically accurate.",
    "Every sentence is correct.",
    "Everything is correct.",
    "Everything appears to be correct.",
    "All correct.",
    "None of the sentences contain an error.",
    "None of the sentences is wrong.",
    "No sentence is incorrect.",
    "No sentence contains an error.",
    "Error: No",
    "Error: none",
    "Errors: None",
    "Error found: No",
    "Error flag: 0",
    "Error Flag: 0\nError Sentence ID: -1",
    "error_flag=0",
    "Flag: 0",
    '{"error": false}',
    '{"error": "none"}',
    '{"error": null}',
    '{"error_flag": 0}',
    '{"error_flag": 0, "sentence_id": -1, "corrected_sentence": "NA"}',
    '{"has_error": false, "sentence": null}',
    '{"correct": true}',
    '{"is_correct": true}',
    '{"answer": "CORRECT"}',
    '{"verdict": "correct"}',
    '{"result": "CORRECT", "explanation": "The plan is appropriate."}',
    '["CORRECT"]',
    "Verdict: CORRECT",
    "Status: correct",
    "Judgment: CORRECT",
    "The answer is CORRECT.",
    "The correct answer is CORRECT.",
    "Answer: correct",
    "So the output is: CORRECT",
    "My answer: CORRECT",
    "After careful review, the text is correct.",
    "After reviewing each sentence, I conclude that the text is CORRECT.",
    "Based on my review, there are no medical errors in this note.\n\nCORRECT",
    "Let me check the sentences.\n0 is plausible.\n1 fits.\n\nCORRECT",
    "Sentence 5 could be questioned, but the dose is as recommended.\n\nCORRECT",
    "At first sentence 5 seems wrong, but it is appropriate. Therefore, the text is correct.",
    "0: correct\n1: correct\n2: correct\n\nThe text is correct.",
    "Sentence 0: correct\nSentence 1: correct\nAll sentences are correct.",
    "The text is not incorrect.",
    "No, there is no error.",
    "No, the text is correct.",
    "Step 1: read.\nStep 2: check.\nAnswer: CORRECT",
    "Yes, the text is correct.",
)
"""The note has no error."""

WRONG = (
    "INCORRECT",
    "Incorrect.",
    "Not correct.",
    "NOT CORRECT",
    "The note is not correct.",
    "The text is incorrect.",
    "The text isn't correct.",
    "The note is not entirely accurate.",
    "error",
    "ERROR",
    "There is an error.",
    "There is a medical error in this note.",
    "The text contains an error.",
    "The note contains one error.",
    "I found an error.",
    "The errors are in sentences 5 and 7.",
    "Sentences 5 and 7 are incorrect.",
    "Sentence 5 is incorrect, and sentence 7 is incorrect.",
    '{"error": true}',
    '{"error_flag": 1}',
    '{"correct": false}',
    "Error: yes",
    "Error flag: 1",
    "42 The patient is well.",
)
"""The note has an error; not exactly one sentence is named."""

NOTHING = (
    "I cannot help with that.",
    "I'm sorry, but I can't provide medical advice.",
    "Heparin should be stopped in heparin-induced thrombocytopenia.",
    "The patient has type 2 diabetes.",
    "yes",
    "-1",
    "Sentence 5 is correct.",
    "2 errors were found",
    "The correct treatment is argatroban.",
    "If the text is correct, output CORRECT.",
    "I need to check whether the text is correct.",
    "Is the text correct?",
    "Let's check each sentence for errors.",
    "The text contains an error, but the text is correct.",
    "CORRECT or 5?",
)
"""Nothing that can be read as one judgment."""

DECORATIONS = (
    "{}",
    "**{}**",
    "`{}`",
    "```\n{}\n```",
    "```text\n{}\n```",
    "<answer>{}</answer>",
    "<answer>\n{}\n</answer>",
    "<final_answer>{}</final_answer>",
    '"{}"',
    "“{}”",
    "> {}",
    "- {}",
    "• {}",
    "* {}",
    "Answer: {}",
    "**Answer:** {}",
    "**Answer**: {}",
    "Final Answer: {}",
    "### Answer\n{}",
    "Assistant: {}",
    "Output: {}",
    "Sure! Here is my answer:\n\n{}",
    "<think>Sentence 3 is wrong? The text is correct? Sentence 7.</think>\n\n{}",
    "\ufeff{}",
    "\u200b{}\u200b",
    "  {}\n\n",
    "\\boxed{{{}}}",
    "{}\r\n",
)
"""What models put around an answer."""


def _forms() -> Iterator[Form]:
    """Yield every wording in every decoration, once for the flag and once for the sentence."""
    kinds = (
        ("five", FIVE, True, 5),
        ("fine", FINE, False, None),
        ("wrong", WRONG, True, None),
        ("none", NOTHING, None, None),
    )
    for kind, texts, error, sentence in kinds:
        for text in texts:
            filled = text.format(c=CORRECTED, o=ORIGINAL) if kind == "five" else text
            for decoration in DECORATIONS:
                yield from _pair(decoration.format(filled), error, sentence, kind)
            others = (
                (0, 8)
                if set(filled) & set("0123456789") == {"5"} and "five" not in filled and "{o}" not in text
                else ()
            )
            for other in others:
                yield from _pair(
                    filled.replace("5", str(other)), error, other if sentence == 5 else None, f"{kind} as {other}"
                )


def _held_out() -> Iterator[Form]:
    """Yield the wordings that were written later."""
    notes = (
        (held_out.VARICELLA, held_out.SEVEN, 7, held_out.FIRST_FINE, held_out.FIRST_NOTHING),
        (held_out.INFARCTION, held_out.TWELVE, 12, held_out.SECOND_FINE, held_out.SECOND_NOTHING),
    )
    for note, wrong, number, fine, nothing in notes:
        for texts, error, sentence in ((wrong, True, number), (fine, False, None), (nothing, None, None)):
            for text in texts:
                yield from _pair(text, error, sentence, "held out", note)


def _pair(text: str, error: bool | None, sentence: int | None, kind: str, note: str = NOTE) -> Iterator[Form]:
    """Yield a form for the flag and one for the sentence."""
    yield Form(text=text, expected=error, context=note, group=f"flag, {kind}")
    yield Form(text=text, expected=sentence, context=note, group=f"sentence, {kind}")


def read(form: Form) -> bool | int | None:
    """Read the flag or the sentence."""
    judgment = read_error_judgment(form.text, form.context)
    return judgment.error if form.group.startswith("flag") else judgment.sentence


FORMS = [*_forms(), *_held_out()]
