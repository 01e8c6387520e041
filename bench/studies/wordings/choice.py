"""Wordings of the answer to a question with options, as models of many makers write them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from typing import NamedTuple

from bench.studies.wordings.choice_held_out import DRUG_FORMS
from bench.studies.wordings.choice_held_out_2 import DIAGNOSIS_FORMS, STEP_FORMS
from bench.studies.wordings.choice_languages import TEMPLATES_BY_LANGUAGE
from bench.studies.wordings.choice_remarks import ANSWERS, CASES, DENIED, REMARKS
from bench.studies.wordings.choice_templates import BARE, DECORATIONS, EXPLAINED, LONE, NONE, STATED
from bench.studies.wordings.form import Form
from medhelm.scoring.answers.choice import find_choice


class Options(NamedTuple):
    """The options of a question."""

    labels: tuple[str, ...]
    texts: tuple[str, ...]


def _lettered(*texts: str) -> Options:
    return Options(tuple("ABCDEFGHIJ"[: len(texts)]), texts)


DRUGS = _lettered("Warfarin", "Aspirin", "Heparin", "Clopidogrel")
DIAGNOSES = _lettered(
    "Pulmonary embolism", "Acute pericarditis", "Panic disorder", "Myocardial infarction", "Aortic dissection"
)
STEPS = _lettered(
    "Order a CT scan of the head",
    "Give intravenous alteplase",
    "Observe and repeat the examination in 6 hours",
    "No further testing is needed",
    "Start aspirin and clopidogrel",
)
DOSES = _lettered("2.5 mg", "5 mg", "7.5 mg", "10 mg")
VITAMINS = _lettered("Vitamin A", "Vitamin B12", "Vitamin C", "Vitamin D", "Vitamin E")
SUMMARY = _lettered("Fever", "Rash", "Arthralgia", "All of the above", "None of the above")
TEN = _lettered(
    "Gout",
    "Sarcoidosis",
    "Lyme disease",
    "Psoriatic arthritis",
    "Septic arthritis",
    "Reactive arthritis",
    "Osteoarthritis",
    "Pseudogout",
    "Rheumatoid arthritis",
    "Systemic lupus erythematosus",
)
PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
USES = 3
"""Questions with which each template is used."""

OPTION_SETS = (DRUGS, DIAGNOSES, STEPS, DOSES, VITAMINS, SUMMARY, TEN)


def read(form: Form) -> int | None:
    """Read the option that a form names."""
    options: Options = form.context
    return find_choice(form.text, options.labels, options.texts)


def values(options: Options, right: int) -> dict[str, str]:
    """Return the values of the placeholders if option `right` is the answer."""
    n = len(options.labels)
    x, y = (right + 1) % n, (right + 2) % n
    rows = list(zip(options.labels, options.texts, strict=True))
    verdict = ["Correct" if index == right else "Incorrect" for index in range(n)]
    others = [
        f"{label}. {text}: would not explain the findings."
        for index, (label, text) in enumerate(rows)
        if index != right
    ]
    every = [
        f"{label}. {text}: {'fits the findings well.' if index == right else 'would not explain the findings.'}"
        for index, (label, text) in enumerate(rows)
    ]

    def listed(line: str, *, marks: tuple[str, str] = ("✅", "❌")) -> str:
        return "\n".join(
            line.format(label=label, text=text, verdict=verdict[index], mark=marks[index != right], true=index == right)
            for index, (label, text) in enumerate(rows)
        )

    return {
        "L": options.labels[right],
        "l": options.labels[right].lower(),
        "T": options.texts[right],
        "t": options.texts[right][:1].lower() + options.texts[right][1:],
        "X": options.labels[x],
        "XT": options.texts[x],
        "Y": options.labels[y],
        "YT": options.texts[y],
        "NO": str(right + 1),
        "NTH": PLACES[right],
        "LIST": listed("{label}. {text}"),
        "OTHERS": "\n".join(others),
        "EVERY": "\n".join(every),
        "VERDICTS": listed("{label}. {verdict}."),
        "VERDICTS_DASH": listed("- {label}: {verdict}"),
        "VERDICTS_MARK": listed("{mark} {label}. {text}"),
        "VERDICTS_TRUE": listed("{label}: {true}"),
        "VERDICTS_TEXT": listed("{label}. {text} - {verdict}. This was examined."),
        "VERDICTS_BOLD": listed("**{label}. {text}**: {verdict}"),
    }


_TURNS = count()


def _turn() -> tuple[Options, int]:
    """Return options and the right one, different from one call to the next."""
    n = next(_TURNS) * 5
    options = OPTION_SETS[n % len(OPTION_SETS)]
    return options, (n * 7 // 3) % len(options.labels)


def _english() -> Iterator[Form]:
    """Yield statements, explanations and wrapped answers; every template is used with several options."""
    for group, templates in (("stated", STATED), ("explained", EXPLAINED)):
        for template in (template for template in templates for _ in range(USES)):
            options, right = _turn()
            text = template.format(**values(options, right))
            yield Form(text=text, expected=right, context=options, group=group)
    for decoration, template in product(DECORATIONS, BARE):
        options, right = _turn()
        text = decoration.format(template.format(**values(options, right)))
        yield Form(text=text, expected=right, context=options, group="decorated")


def _unanswered() -> Iterator[Form]:
    """Yield completions that name no option, or several."""
    for template, options in product(NONE, (DRUGS, DIAGNOSES)):
        text = template.format(**values(options, 2))
        yield Form(text=text, expected=None, context=options, group="no answer")


def _with_remarks() -> Iterator[Form]:
    """Yield what is said of another option, alone, before an answer and after it."""
    for template, options, right in ((denied, *pair) for denied in DENIED for pair in ((DRUGS, 1), (DIAGNOSES, 3))):
        named = values(options, right)
        for other in (named["X"], named["XT"]):
            text = template.format(X=other)
            yield Form(text=text, expected=None, context=options, group="denied")
            for whole in (f"{text}\n\nThe answer is {named['L']}.", f"{named['L']}\n\n{text}"):
                yield Form(text=whole, expected=right, context=options, group="denied")
    for answer, remark in product(ANSWERS, REMARKS):
        options, right = _turn()
        if options in (DOSES, VITAMINS, SUMMARY):  # their texts are numbers and letters, or speak of other options
            options, right = STEPS, 1
        stated, said = (template.format(**values(options, right)) for template in (answer, remark))
        for text in (f"{stated}\n\n{said}", f"{said}\n\n{stated}"):
            yield Form(text=text, expected=right, context=options, group="remarks")


def _other_languages() -> Iterator[Form]:
    """Yield letters in other characters, and statements in other languages."""
    for text, right in LONE.items():
        yield Form(text=text, expected=right, context=DRUGS, group="characters")
    for language, templates in TEMPLATES_BY_LANGUAGE.items():
        for template, options in product(templates, (DRUGS, TEN)):
            right = next(_TURNS) % len(options.labels)
            text = template.format(**values(options, right))
            yield Form(text=text, expected=right, context=options, group=language)


FORMS = (
    *_english(),
    *_unanswered(),
    *_other_languages(),
    *_with_remarks(),
    *(Form(text=text, expected=right, context=DRUGS, group="held out") for text, right in DRUG_FORMS),
    *(Form(text=text, expected=right, context=DIAGNOSES, group="held out") for text, right in DIAGNOSIS_FORMS),
    *(Form(text=text, expected=right, context=STEPS, group="held out") for text, right in STEP_FORMS),
    *(
        Form(text=text, expected=right, context=_lettered(*texts), group="held out")
        for texts, forms in CASES
        for text, right in forms
    ),
)
