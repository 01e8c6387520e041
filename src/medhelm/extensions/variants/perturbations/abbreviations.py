"""Perturbation that writes clinical abbreviations in full, and full terms as abbreviations.

Only abbreviations with one meaning in clinical text are written in full. Not listed for example: MS (multiple
sclerosis, mitral stenosis, morphine sulfate), PT (patient, physical therapy, prothrombin time), CP (chest pain,
cerebral palsy), RA (rheumatoid arthritis, right atrium, room air), PE (pulmonary embolism, physical examination), HR
(heart rate, hazard ratio), RR (respiratory rate, relative risk), MI (myocardial infarction, mitral insufficiency), ED
(emergency department, erectile dysfunction), DM (diabetes mellitus, dermatomyositis), IV (intravenous, stage four)
and CSF (cerebrospinal fluid, colony-stimulating factor).
"""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import NamedTuple

from medhelm.domain import Benchmark, Instance
from medhelm.extensions.variants.perturbations.cases import change_prose, check_texts, shown_text
from medhelm.extensions.variants.types import Perturbation

_LEXICON = """
AAA > abdominal aortic aneurysm
ACTH = adrenocorticotropic hormone
ADHD = attention deficit hyperactivity disorder
AKI = acute kidney injury
ARDS = acute respiratory distress syndrome
BMI = body mass index
BP = blood pressure
BPH = benign prostatic hyperplasia
BUN = blood urea nitrogen
CABG = coronary artery bypass grafting
CBC = complete blood count
CHF = congestive heart failure
CKD = chronic kidney disease
COPD = chronic obstructive pulmonary disease
CRP > C-reactive protein
DKA = diabetic ketoacidosis
DVT = deep vein thrombosis
ECG = electrocardiogram
EEG > electroencephalogram
EGD > esophagogastroduodenoscopy
EKG < electrocardiogram
ERCP = endoscopic retrograde cholangiopancreatography
ESR > erythrocyte sedimentation rate
ESRD = end-stage renal disease
GERD = gastroesophageal reflux disease
GFR = glomerular filtration rate
HDL = high-density lipoprotein
HIV = human immunodeficiency virus
HPV = human papillomavirus
HTN < hypertension
IBD = inflammatory bowel disease
IBS = irritable bowel syndrome
ICU = intensive care unit
IUD > intrauterine device
LDL = low-density lipoprotein
LVEF = left ventricular ejection fraction
MRI > magnetic resonance imaging
MRSA = methicillin-resistant Staphylococcus aureus
NSAID = nonsteroidal anti-inflammatory drug
OCD > obsessive-compulsive disorder
PCOS = polycystic ovary syndrome
PTSD = post-traumatic stress disorder
RBC > red blood cell
SLE > systemic lupus erythematosus
SSRI = selective serotonin reuptake inhibitor
STEMI = ST-elevation myocardial infarction
T2DM = type 2 diabetes mellitus
TIA = transient ischemic attack
TSH = thyroid-stimulating hormone
URI = upper respiratory infection
UTI = urinary tract infection
VTE = venous thromboembolism
WBC > white blood cell
"""
"""Abbreviation and term: `=` for both directions, `<` from the abbreviation to the term only, because the term has
other meanings, `>` from the term to the abbreviation only, because the abbreviation has, or the term would be
awkward."""

_ASKS = re.compile(r"\bstands?\s+for\b|\babbreviat|\bacronym|\bfull\s+form\b|\bspell(?:ed)?\s+out\b")
"""Questions about the abbreviations themselves."""
_ENDING = r"(s?)(?![\w/]|-\w)"
_PART_OF_WORD = re.compile(r"[\w/-]")
_ARTICLE = re.compile(r"\b([Aa])n?\s+$")
_SHORT_FORM = re.compile(r"([A-Z](?<!\w[A-Z])[A-Z\d]+)(s?)\b")
_AN = re.compile(r"an(?<!\wan)\b")
_STARTS_SENTENCE = re.compile(r"(?:^|[.!?:]\s+|\n\s*)$")


class _Term(NamedTuple):
    """A term and its abbreviation."""

    short: str
    long: str
    long_folded: str
    to_short: bool
    to_long: bool
    short_form: re.Pattern[str]
    """The abbreviation and the ending of its plural."""
    long_form: re.Pattern[str]
    """The term, with the same."""


@cache
def _terms() -> tuple[_Term, ...]:
    """Return the terms of the lexicon."""
    found: list[_Term] = []
    for line in _LEXICON.strip().split("\n"):
        short, direction, long = line.split(" ", 2)
        in_any_case = f"[{long[0].lower()}{long[0].upper()}](?i:{re.escape(long[1:])}{_ENDING})"  # found faster
        patterns = re.compile(re.escape(short) + _ENDING), re.compile(in_any_case)
        found.append(_Term(short, long, long.casefold(), direction in "=>", direction in "=<", *patterns))
    return tuple(found)


def _exchanged(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:  # noqa: ARG001
    """Return an instance with each term in its other form; a term that occurs in both forms stays."""
    whole = shown_text(instance, benchmark)
    folded = whole.casefold()
    if _ASKS.search(folded):
        return None
    changes: list[tuple[_Term, bool]] = []
    for term in _terms():
        has_short, n_long = term.short in whole, folded.count(term.long_folded)
        if has_short == bool(n_long) or f"({term.short}" in whole or (has_short and not term.to_long):
            continue
        form = term.short_form if has_short else term.long_form
        n = whole.count(term.short) if has_short else n_long
        whole_words = (found for found in form.finditer(whole) if not _PART_OF_WORD.match(_before(found)))
        if (has_short or term.to_short) and n == len(list(whole_words)):
            changes.append((term, has_short))
    return change_prose(instance, benchmark, lambda text: _with(changes, text)) if changes else None


def _before(found: re.Match[str]) -> str:
    """Return the character before a match; empty at the start of the text."""
    return found.string[max(0, found.start() - 1) : found.start()]


def _with(changes: list[tuple[_Term, bool]], text: str) -> str:
    """Return a text with terms in their other form. `changes`: each with True to write it in full."""
    for term, to_long in changes:
        form, new = (term.short_form, term.long) if to_long else (term.long_form, term.short)
        pieces: list[str] = []
        end = 0
        for found in form.finditer(text):
            before, end = text[end : found.start()], found.end()
            if article := _ARTICLE.search(before, len(before) - 4):
                before = before[: article.start()] + article[1] + ("n " if _begins_with_vowel_sound(new) else " ")
            starts = _STARTS_SENTENCE.search(before[-4:]) and (before or not pieces)
            pieces += [before, new[0].upper() + new[1:] if starts else new, found[1]]
        text = "".join([*pieces, text[end:]])
    return text


def _begins_with_vowel_sound(form: str) -> bool:
    """Return True if the article is "an".

    >>> [form for form in ["HIV", "BMI", "UTI", "urinary tract infection", "STEMI"] if _begins_with_vowel_sound(form)]
    ['HIV']
    """
    if form.isupper() and form != "STEMI":  # which is read as a word
        return form[0] in "AEFHILMNORSX"
    return form[0].lower() in "aeiou" and not form.startswith("uri")


@check_texts
def _check(old: str, new: str) -> str:
    """Check that a text, with its numbers and negations, is the same once all abbreviations are in full."""
    return "" if _in_full(old) == _in_full(new) else "Only abbreviations and their terms may change."


def _in_full(text: str) -> str:
    """Return a text in lowercase with all abbreviations in full, and one form of the article."""
    full = _SHORT_FORM.sub(lambda found: _in_words().get(found[1], found[1]) + found[2], text)
    return _AN.sub("a", full.casefold())


@cache
def _in_words() -> dict[str, str]:
    return {term.short: term.long for term in _terms()}


PERTURBATIONS = (
    Perturbation(
        name="abbreviations",
        title="Abbreviations",
        description="Writes clinical abbreviations with one meaning in full, and full terms as abbreviations.",
        apply=_exchanged,
        check=_check,
    ),
)
"""The perturbation of this module."""
