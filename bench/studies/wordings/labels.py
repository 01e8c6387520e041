"""Wordings of sets of labels: lists of every kind, with headings, explanations and words around them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

from bench.studies.wordings import labels_held_out as held_out
from bench.studies.wordings.form import Form
from medhelm.scoring.answers.labels import read_labels

SETS = (
    ("Asthma", "COPD", "Heart failure"),
    ("Type 2 diabetes mellitus", "Hypertension", "Chronic kidney disease"),
    ("anxiety", "COVID-19", "GERD"),
    ("Sepsis", "Acute on chronic diastolic heart failure", "Non-ST-elevation myocardial infarction"),
)

THREE = (
    "{a}, {b}, {c}",
    "{a}, {b}, {c}.",
    "{a},{b},{c}",
    "{a}; {b}; {c}",
    "{a};{b};{c}",
    "{a}, {b} and {c}",
    "{a}, {b}, and {c}",
    "{a}, {b}, and {c}.",
    "{a}, {b} & {c}",
    "{a}, {b}, as well as {c}",
    "{a}\n{b}\n{c}",
    "{a}\n\n{b}\n\n{c}",
    "{a} | {b} | {c}",
    "{a}|{b}|{c}",
    "{a} / {b} / {c}",
    "{a}、{b}、{c}",
    "{a}，{b}，{c}",
    "{a}；{b}；{c}",
    "{a} • {b} • {c}",
    "{a} · {b} · {c}",
    "- {a}\n- {b}\n- {c}",
    "* {a}\n* {b}\n* {c}",
    "+ {a}\n+ {b}\n+ {c}",
    "• {a}\n• {b}\n• {c}",
    "– {a}\n– {b}\n– {c}",
    "◦ {a}\n◦ {b}\n◦ {c}",
    "→ {a}\n→ {b}\n→ {c}",
    "> {a}\n> {b}\n> {c}",
    "✅ {a}\n✅ {b}\n✅ {c}",
    "✓ {a}\n✓ {b}\n✓ {c}",
    "- [x] {a}\n- [x] {b}\n- [x] {c}",
    "- [x] {a}\n- [x] {b}\n- [ ] Stroke\n- [x] {c}",
    "1. {a}\n2. {b}\n3. {c}",
    "1) {a}\n2) {b}\n3) {c}",
    "(1) {a}\n(2) {b}\n(3) {c}",
    "1: {a}\n2: {b}\n3: {c}",
    "#1 {a}\n#2 {b}\n#3 {c}",
    "a) {a}\nb) {b}\nc) {c}",
    "A. {a}\nB. {b}\nC. {c}",
    "i. {a}\nii. {b}\niii. {c}",
    "1. {a} 2. {b} 3. {c}",
    "1) {a}, 2) {b}, 3) {c}",
    "(1) {a}, (2) {b}, and (3) {c}",
    "1. **{a}**\n2. **{b}**\n3. **{c}**",
    "**{a}**, **{b}**, **{c}**",
    "**{a}**\n**{b}**\n**{c}**",
    "`{a}`, `{b}`, `{c}`",
    "- `{a}`\n- `{b}`\n- `{c}`",
    '"{a}", "{b}", "{c}"',
    "'{a}', '{b}', '{c}'",
    "“{a}”, “{b}” and “{c}”",
    '["{a}", "{b}", "{c}"]',
    "['{a}', '{b}', '{c}']",
    "[{a}, {b}, {c}]",
    "{{{a}, {b}, {c}}}",
    "({a}, {b}, {c})",
    '```json\n["{a}", "{b}", "{c}"]\n```',
    '```\n["{a}", "{b}", "{c}"]\n```',
    "```\n{a}\n{b}\n{c}\n```",
    "```text\n{a}, {b}, {c}\n```",
    "```python\n['{a}', '{b}', '{c}']\n```",
    "```yaml\nlabels:\n  - {a}\n  - {b}\n  - {c}\n```",
    "labels:\n- {a}\n- {b}\n- {c}",
    '{{"labels": ["{a}", "{b}", "{c}"]}}',
    '{{"labels": "{a}, {b}, {c}"}}',
    '{{"diagnoses": ["{a}", "{b}", "{c}"]}}',
    '{{"answer": ["{a}", "{b}", "{c}"]}}',
    '{{"answer": "{a}; {b}; {c}"}}',
    '{{"predicted_labels": ["{a}", "{b}", "{c}"], "explanation": "Smoker, wheeze."}}',
    '{{"reasoning": "Smoker, wheeze; stroke is absent.", "labels": ["{a}", "{b}", "{c}"]}}',
    '{{"{a}": true, "{b}": true, "{c}": true, "Stroke": false}}',
    '{{"{a}": 1, "{b}": 1, "{c}": 1, "Stroke": 0}}',
    '[{{"label": "{a}"}}, {{"label": "{b}"}}, {{"label": "{c}"}}]',
    '[{{"diagnosis": "{a}", "evidence": "wheeze"}}, {{"diagnosis": "{b}", "evidence": "smoker"}},'
    ' {{"diagnosis": "{c}", "evidence": "edema"}}]',
    '```json\n{{\n  "labels": [\n    "{a}",\n    "{b}",\n    "{c}"\n  ]\n}}\n```',
    "Labels: {a}, {b}, {c}",
    "Labels:\n{a}\n{b}\n{c}",
    "Labels:\n- {a}\n- {b}\n- {c}",
    "**Labels:** {a}, {b}, {c}",
    "**Labels**: {a}, {b}, {c}",
    "### Labels\n- {a}\n- {b}\n- {c}",
    "## Diagnoses\n\n1. {a}\n2. {b}\n3. {c}",
    "Label: {a}, {b}, {c}",
    "Diagnoses: {a}, {b}, {c}",
    "Diagnosis: {a}; {b}; {c}",
    "Conditions: {a}, {b}, {c}",
    "Categories: {a}, {b}, {c}",
    "Classes: {a}, {b}, {c}",
    "Tags: {a}, {b}, {c}",
    "Topics: {a}, {b}, {c}",
    "Findings: {a}, {b}, {c}",
    "Symptoms: {a}, {b}, {c}",
    "Problems: {a}, {b}, {c}",
    "Problem list:\n- {a}\n- {b}\n- {c}",
    "Prediction: {a}, {b}, {c}",
    "Predicted labels: {a}, {b}, {c}",
    "Applicable labels: {a}, {b}, {c}",
    "Relevant labels: {a}, {b}, {c}",
    "Final labels: {a}, {b}, {c}",
    "Answer: {a}, {b}, {c}",
    "Answer: {a}, {b} and {c}",
    "**Answer:** {a}, {b}, {c}",
    "Final answer: {a}, {b}, {c}",
    "Final Answer:\n{a}\n{b}\n{c}",
    "Output: {a}, {b}, {c}",
    "Result: {a}, {b}, {c}",
    "Response: {a}, {b}, {c}",
    "Assistant: {a}, {b}, {c}",
    "The labels are: {a}, {b}, {c}",
    "The labels are {a}, {b}, and {c}.",
    "The labels are as follows:\n- {a}\n- {b}\n- {c}",
    "The labels that apply are: {a}, {b}, {c}.",
    "The following labels apply: {a}, {b}, {c}.",
    "The following labels apply:\n\n1. {a}\n2. {b}\n3. {c}",
    "The correct labels are {a}, {b} and {c}.",
    "The diagnoses are: {a}, {b}, {c}",
    "The diagnoses are {a}, {b} and {c}.",
    "The patient's diagnoses are {a}, {b}, and {c}.",
    "The patient has {a}, {b}, and {c}.",
    "The note mentions {a}, {b}, and {c}.",
    "This note is about {a}, {b}, and {c}.",
    "The applicable categories include {a}, {b}, and {c}.",
    "The answer is {a}, {b}, {c}.",
    "The answer is: {a}, {b}, {c}",
    "My answer is {a}, {b}, and {c}.",
    "Based on the note, the labels are: {a}, {b}, {c}.",
    "Based on the note, the following diagnoses apply:\n\n- {a}\n- {b}\n- {c}",
    "Here are the labels:\n\n- {a}\n- {b}\n- {c}",
    "Here are the labels: {a}, {b}, {c}",
    "Here is the list of diagnoses:\n1. {a}\n2. {b}\n3. {c}",
    "Sure! Here are the labels:\n\n{a}, {b}, {c}",
    "Sure, the labels are: {a}, {b}, {c}",
    "Certainly! The applicable labels are:\n\n* **{a}**\n* **{b}**\n* **{c}**\n\nLet me know if you need more.",
    "I would assign the following labels: {a}, {b}, {c}.",
    "I assign: {a}, {b}, {c}",
    "- **{a}**: wheezing and cough\n- **{b}**: long-time smoker\n- **{c}**: edema, orthopnea",
    "- **{a}:** wheezing and cough\n- **{b}:** long-time smoker\n- **{c}:** edema, orthopnea",
    "1. **{a}** - wheezing and cough\n2. **{b}** - long-time smoker\n3. **{c}** - edema, orthopnea",
    "1. **{a}** – wheezing, cough\n2. **{b}** – smoker\n3. **{c}** – edema",
    "* **{a}** (wheezing)\n* **{b}** (smoker)\n* **{c}** (edema; orthopnea)",
    "- {a}: wheezing and cough\n- {b}: long-time smoker\n- {c}: edema, orthopnea",
    "1. {a}: wheezing, cough\n2. {b}: smoker\n3. {c}: edema",
    "1. {a} - wheezing, cough\n2. {b} - smoker\n3. {c} - edema",
    "{a}: wheezing\n{b}: smoker\n{c}: edema",
    "{a} (wheezing), {b} (smoker), {c} (edema)",
    "| Label | Evidence |\n|---|---|\n| {a} | wheezing |\n| {b} | smoker |\n| {c} | edema |",
    "| {a} |\n| {b} |\n| {c} |",
    "{a}, {b}, {c}\n\nExplanation: smoker, wheeze, edema",
    "{a}, {b}, {c}\n\nExplanation: The patient smokes, and wheezes; edema is present.",
    "{a}, {b}, {c}\n\n**Explanation:**\n- Smoker\n- Wheeze",
    "{a}, {b}, {c}\n\nThe patient smokes, wheezes, and has edema.",
    "{a}, {b}, {c}\n\nRationale: smoker, wheeze",
    "{a}, {b}, {c}\n\nReasoning: smoker, wheeze",
    "{a}, {b}, {c}\n\nNote: stroke was considered, but is absent.",
    "{a}, {b}, {c}\n\nThese labels were chosen because of wheeze, smoking and edema.",
    "{a}, {b}, {c}\nExplanation: smoker, wheeze",
    "{a}, {b}, {c}. The patient smokes, and wheezes.",
    "- {a}\n- {b}\n- {c}\n\nThe patient smokes, wheezes, and has edema.",
    "- {a}\n- {b}\n- {c}\n\nLet me know if you need anything else!",
    "1. {a}\n2. {b}\n3. {c}\n\nThese are supported by wheeze, smoking and edema.",
    "The patient smokes and wheezes.\n\nLabels: {a}, {b}, {c}",
    "The patient smokes, wheezes, and has edema. There is no stroke.\n\nFinal answer: {a}, {b}, {c}",
    "Step 1: the patient smokes, and wheezes.\nStep 2: edema.\n\n**Final labels:** {a}, {b}, {c}",
    "<think>Stroke, shock?</think>{a}, {b}, {c}",
    "<answer>{a}, {b}, {c}</answer>",
    "<answer>\n{a}\n{b}\n{c}\n</answer>",
    "<labels>{a}, {b}, {c}</labels>",
    "\\boxed{{{a}, {b}, {c}}}",
    "$\\boxed{{\\text{{{a}, {b}, {c}}}}}$",
    "\\boxed{{{a}}}, \\boxed{{{b}}}, \\boxed{{{c}}}",
    "\ufeff{a}, {b}, {c}",
    "{a}, {b}, {c}\u200b",
    "  {a} ,  {b} ,  {c}  ",
    "{a}, {a}, {b}, {c}",
    "{a}, {b}, {c},",
    "{a}, {b}, {c}</s>",
    "{a}, {b}, {c}<|im_end|>",
    "{a}, {b}, {c}\r\n",
)
"""Three labels of a set."""

TWO = (
    "{a}, {b}",
    "{a} and {b}",
    "Labels: {a} and {b}",
    "The labels are {a} and {b}.",
    "The patient has {a} and {b}.",
    "Answer: {a} and {b}.",
    "both {a} and {b}",
    "{a} & {b}",
    "{a} + {b}",
    "{a}/{b}",
    '```json\n["{a}", "{b}"]\n```',
    "{a}, {b}\nStroke is not present.",
    "{a}; {b}; (no stroke)",
    "{a}; {b}; stroke isn't",
    "- {a}\n- {b}\n- Stroke: not present",
    "- {a}\n- {b}\n- Stroke (ruled out)",
    "- {a}: present\n- {b}: present\n- Stroke: absent",
    "{a}: yes\n{b}: yes\nStroke: no",
    "{a}: 1\n{b}: 1\nStroke: 0",
    "{a}: true\n{b}: true\nStroke: false",
    "{a} ✅\n{b} ✅\nStroke ❌",
    "Stroke, {a}\n\nWait, actually: {a}, {b}",
    "Labels: Stroke\n\nCorrected labels: {a}, {b}",
)
"""Two labels of a set."""

ONE = (
    "{a}",
    "{a}.",
    "**{a}**",
    "**{a}**: wheezing",
    "Label: {a}",
    "The label is {a}.",
    "The diagnosis is {a}.",
    "The only label that applies is {a}.",
    "- {a}",
    "1. {a}",
    '["{a}"]',
    '{{"label": "{a}"}}',
    "\\boxed{{{a}}}",
    "<answer>{a}</answer>",
    "{a}\n\nExplanation: wheezing, smoker",
    "Only {a}.",
)
"""One label of a set."""

NO_LABEL = (
    "None",
    "none.",
    "None of the above",
    "None of the labels apply.",
    "No labels.",
    "No label applies.",
    "No labels apply to this note.",
    "N/A",
    "null",
    "[]",
    '{"labels": []}',
    "```json\n[]\n```",
    "Labels: none",
    "**Labels:** None",
    "Answer: none",
    "There are no applicable labels.",
    "Not applicable",
    "",
)
"""No label."""

WHOLE = (
    ("anxiety and depression", "anxiety and depression"),
    ("diabetes (type 2)", "diabetes (type 2)"),
    ("vitamin D deficiency", "vitamin d deficiency"),
    ("COVID-19", "covid-19"),
    ("St. Vitus dance", "st. vitus dance"),
    ("5-FU toxicity", "5-fu toxicity"),
    ("nausea/vomiting", "nausea/vomiting"),
    ("ear, nose and throat", "ear, nose and throat"),
    ("cancer: lung", "cancer: lung"),
    ("none", "none"),
    ("bone and joint infection", "bone and joint infection"),
    ("A", "a"),
    ("i", "i"),
    ("-5", "-5"),
    ("1.5", "1.5"),
    ("Alzheimer's disease", "alzheimer's disease"),
    ("C. difficile colitis", "c. difficile colitis"),
    ("2. degree burn", "2. degree burn"),
    ("S. aureus; MRSA", "s. aureus; mrsa"),
)
"""A label of a reference that looks like more than one, or like a list mark, and what is to be read."""


def _forms() -> Iterator[Form]:
    """Yield all wordings, with the labels of each set."""
    sets = cycle(SETS)
    for group, templates, number in (("three", THREE, 3), ("two", TWO, 2), ("one", ONE, 1)):
        for template in templates:
            for _ in range(3):
                labels = next(sets)
                text = template.format(a=labels[0], b=labels[1], c=labels[2])
                expected = frozenset(label.casefold() for label in labels[:number])
                yield Form(text=text, expected=expected, context=expected, group=group)
                if not (group == "two" and any(sign in template for sign in ("and", "&", "+", "/"))):
                    yield Form(
                        text=text, expected=expected, context=frozenset({"stroke of luck"}), group=f"{group}, unknown"
                    )
    for text in NO_LABEL:
        yield Form(text=text, expected=frozenset(), context=frozenset({"asthma"}), group="none")
    for text, label in WHOLE:
        for whole in (
            text,
            f"{text}.",
            f"- {text}",
            f"Labels: {text}, stroke",
            f"{text}\nstroke",
            f'["{text}", "stroke"]',
        ):
            expected = frozenset({label} | ({"stroke"} if "stroke" in whole else set()))
            yield Form(text=whole, expected=expected, context=frozenset({label, "stroke"}), group="whole")


def _held_out() -> Iterator[Form]:
    """Yield the wordings that were written later."""
    first = (held_out.FIRST_NONE, held_out.FIRST_ONE, held_out.FIRST_TWO, held_out.FIRST_THREE)
    second = (held_out.SECOND_NONE, held_out.SECOND_ONE, (), held_out.SECOND_THREE)
    third = ((), held_out.THIRD_ONE, (), held_out.THIRD_THREE)
    rounds = (
        (held_out.FIRST_LABELS, "Osteoporosis", first),
        (held_out.SECOND_LABELS, "Gout", second),
        (held_out.THIRD_LABELS, "Lupus", third),
    )
    for labels, other, kinds in rounds:
        for number, texts in enumerate(kinds):
            expected = frozenset(label.casefold() for label in labels[:number])
            for text in texts:
                for sign, label in zip("ABCX", (*labels, other), strict=True):
                    text = text.replace(f"<{sign}>", label)
                yield Form(text=text, expected=expected, context=expected or frozenset({"sepsis"}), group="held out")


def read(form: Form) -> frozenset[str] | None:
    """Read the labels; None if there are none and some are expected."""
    found = read_labels(form.text, form.context)
    return found if found or not form.expected else None


FORMS = [*_forms(), *_held_out()]
