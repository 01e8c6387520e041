"""Check the quality of a benchmark's data: duplicates, contradictions, leaks, identifiers, lengths.

All findings are warnings for the author of a benchmark: valid data can repeat a question.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil
from pathlib import Path
from typing import Any

from medhelm.analysis.cost import CHARACTERS_PER_TOKEN
from medhelm.analysis.slices import MOST_SLICES
from medhelm.benchmarks.data.readers import proposed_values
from medhelm.benchmarks.helm_format import OWN
from medhelm.benchmarks.prompts import render
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain import Benchmark, ConstantBaseline, Instance
from medhelm.domain.text import plural
from medhelm.errors import MissingError, UserError, suggestion

# --- personal identifiers ---------------------------------------------------------------------------------------------
# Search texts for personal identifiers: by patterns, and by Presidio with a pipeline of spaCy.

IdentifierSearch = Callable[[str], Iterable[str]]
"""Function that returns the kinds of identifiers that a text seems to contain."""

_NUMBER = r"(?: ?(?:number|no\.?|id|#))?[:# ]{1,3}"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_STREET = r"(?:Street|St\.|Avenue|Ave\.?|Road|Rd\.?|Lane|Drive|Boulevard|Blvd\.?|Court|Highway|Hwy)"


def _labeled(names: str, value: str = r"[A-Z]{0,3}-?\d[\d-]{4,}\b") -> re.Pattern[str]:
    """Return a pattern for a number after its name, such as `account no. 99887766`."""
    return re.compile(rf"\b(?:{names}){_NUMBER}{value}", re.IGNORECASE)


IDENTIFIERS: Mapping[str, re.Pattern[str]] = {
    "a name after a title": re.compile(r"\b(?:Mr|Mrs|Ms|Miss)\.? [A-Z][a-z]+|\b[Pp]atient name: ?[A-Z][a-z]+"),
    "an address or ZIP code": re.compile(
        rf"\b\d{{1,5}} (?:[A-Z][a-z]+ ){{1,3}}{_STREET}(?!\w)|\b[A-Z][a-z]+,? [A-Z]{{2}} \d{{5}}(?:-\d{{4}})?\b"
    ),
    "a date or an age of 90 or more": re.compile(
        rf"(?<![\d./-])\d{{1,2}}([/.-])\d{{1,2}}\1(?:19|20)?\d{{2}}(?!\.?\d|/)|\b(?:19|20)\d\d-\d\d-\d\d\b"
        rf"|\b{_MONTH} \d{{1,2}},? (?:19|20)\d\d\b|\b\d{{1,2}} {_MONTH} (?:19|20)\d\d\b"
        r"|\b(?:9\d|1[01]\d)[- ]?(?:years?[- ]old|y/?o)\b"
    ),
    "a telephone number": re.compile(
        r"(?<![\d-])(?<!fax )(?<!fax: )(?:\+1[ -]\d{3} |(?:\+1[ -])?(?:\(\d{3}\) ?|\d{3}[-.]))"
        r"(?!555[-. ]01)\d{3}[-. ]\d{4}(?![\d-])",
        re.IGNORECASE,
    ),
    "a fax number": _labeled("fax", r"[+(\d][\d(). -]{6,}\d"),
    "an e-mail address": re.compile(r"\b[\w.+-]+@(?!example\b)[\w-]+\.[\w.-]*[a-z]{2}\b", re.IGNORECASE),
    "a social security number": re.compile(r"(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"),
    "a medical record number": _labeled("MRN|medical record"),
    "a health plan number": _labeled("member|policy|health plan|beneficiary|insurance|medicare"),
    "an account number": _labeled("account|acct"),
    "a license number": _labeled("licen[sc]e|certificate|DEA|NPI"),
    "a device serial number": _labeled("serial|device", r"(?=[A-Z-]*\d)[A-Z\d-]{6,}\b"),
    "a web address": re.compile(r"\b(?:https?://|www\.)(?!(?:www\.)?example\.)\S+", re.IGNORECASE),
    "an IP address": re.compile(rf"(?<![\d.])(?:{_BYTE}\.){{3}}{_BYTE}(?![\d.])"),
}
"""Kind of personal identifier -> pattern: 14 of the 18 categories of HIPAA's Safe Harbor rule (45 CFR 164.514(b)(2)).

Reserved examples (555-01xx, example.org) do not count.
"""

UNSEARCHED = (
    "vehicle identifiers",
    "biometric identifiers",
    "photographs",
    "other unique numbers, characteristics or codes",
)
"""The categories of that rule without a pattern."""


RECORD_COLUMNS = re.compile(
    r"(?:^|_)(?:mrn|pid|ssn|nhs|pat(?:ient)?_?(?:id|no|nr|num(?:ber)?)?|person_?id|subject_?id|hadm_?id|record_?(?:id|no|num(?:ber)?)"
    r"|medical_?record(?:_?(?:id|no|num(?:ber)?))?|case_?(?:no|num(?:ber)?)|insurance(?:_?(?:id|no|num(?:ber)?))?)(?:$|_)"
)
"""Name of a column, in snake case, that holds record numbers of patients."""

_RECORD_NUMBER = re.compile(r"[A-Za-z]{0,4}[-_ ]?\d(?:[-. ]?\d){5,}")
"""A value like a record number: six or more digits."""


def are_record_numbers(column: str, values: Iterable[str]) -> bool:
    """Return True if a column looks like record numbers of patients: by its name, or by most of its values.

    >>> are_record_numbers("MRN", []), are_record_numbers("note", ["1000105", "1000071"])
    (True, True)
    >>> are_record_numbers("topic", ["asthma", "2024"])
    False
    """
    name = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()).strip("_")
    if RECORD_COLUMNS.search(name):
        return True
    filled = [value for value in values if value]
    return 2 * sum(bool(_RECORD_NUMBER.fullmatch(value.strip())) for value in filled) > len(filled)


def kinds_by_pattern(text: str) -> list[str]:
    """Return the kinds of identifiers whose pattern matches a text."""
    return [kind for kind, pattern in IDENTIFIERS.items() if pattern.search(text)]


def no_search(text: str) -> Iterable[str]:  # noqa: ARG001 - the signature of an `IdentifierSearch`
    """Find nothing."""
    return ()


PRESIDIO_ENTITIES: Mapping[str, str] = {
    "PERSON": "a name",
    "LOCATION": "a place",
    "PHONE_NUMBER": "a telephone number",
    "US_BANK_NUMBER": "an account number",
    "IBAN_CODE": "an account number",
    "CREDIT_CARD": "an account number",
    "US_DRIVER_LICENSE": "a license number",
    "MEDICAL_LICENSE": "a license number",
    "US_MBI": "a health plan number",
    "US_PASSPORT": "a passport number",
    "MAC_ADDRESS": "a device serial number",
}
"""Entity that Presidio finds and the patterns miss -> kind of identifier. Its dates are left out: "two days" is one."""

PRESIDIO_SCORE = 0.5
"""Minimum confidence of an entity, from 0 to 1. Numbers without a word that explains them are below it."""


def presidio_search(model: str) -> IdentifierSearch:
    """Return a function that finds kinds of identifiers with Presidio, such as names without a title.

    Parameters: model, an installed spaCy pipeline with named entities, by name or folder. Nothing is downloaded.
    Raises: MissingError if Presidio or the pipeline is not installed; UserError if the pipeline cannot be used.
    """
    try:
        import spacy
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NlpEngineProvider
    except ImportError:
        raise MissingError("--presidio needs presidio-analyzer: in a checkout, `pip install '.[presidio]'`.") from None
    if not (spacy.util.is_package(model) or Path(model).is_dir()):  # Presidio would download it
        raise MissingError(
            f"--presidio {model}: no spaCy pipeline of this name is installed, and no folder has it. Install one, such "
            "as en_core_web_lg: `python -m spacy download en_core_web_lg`, or copy its wheel here and `pip install` it."
        )
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)  # it names each language that it does not use
    settings = {"nlp_engine_name": "spacy", "models": [{"lang_code": "en", "model_name": model}]}
    try:
        engine = AnalyzerEngine(nlp_engine=NlpEngineProvider(nlp_configuration=settings).create_engine())
    except (OSError, ValueError) as error:
        raise UserError(f"--presidio {model}: spaCy cannot load this pipeline: {error}") from error
    return lambda text: _kinds_by_presidio(engine, text)


def _kinds_by_presidio(engine: Any, text: str) -> list[str]:
    """Return the kinds of identifiers that Presidio finds in a text."""
    found = engine.analyze(text, language="en", entities=list(PRESIDIO_ENTITIES), score_threshold=PRESIDIO_SCORE)
    kinds = {PRESIDIO_ENTITIES[one.entity_type] for one in found}
    return [kind for kind in dict.fromkeys(PRESIDIO_ENTITIES.values()) if kind in kinds]


# --- findings ---------------------------------------------------------------------------------------------------------

SHOWN = 3
"""Instances listed for each finding."""

NEARLY_ALWAYS = 0.9
"""Minimum share of instances for an answer to be nearly constant."""

MOST_ANSWERS = 50
"""Maximum number of different answers among which spellings of the same answer are searched."""

LEAST_LEAK = 25
"""Minimum characters of a reference to search for in its prompt: shorter ones occur by chance."""

_MOJIBAKE = re.compile(
    "[\u00c2-\u00c5][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201e\u2020\u2021\u2026"
    "\u2030\u2039\u203a\u20ac\u2122]|\u00e2\u20ac|\ufffd"
)
"""UTF-8 that was decoded as Windows-1252, such as `Â°`, and the sign for a character that could not be decoded."""


@dataclass(frozen=True, slots=True)
class DataFinding:
    """One kind of problem in the data."""

    code: str
    """Code, such as `leak`."""
    text: str
    """Description."""
    instance_ids: tuple[str, ...] = ()
    """All instances with the problem."""


@dataclass(slots=True)
class _Findings:
    """Findings of one pass over the instances."""

    prompts: dict[bytes, tuple[str, bytes]] = field(default_factory=dict)
    """Hash of a prompt -> its first instance, and the hash of its answer."""
    by_code: dict[str, list[str]] = field(default_factory=dict)
    """Code -> instances."""
    answers: dict[str, None] = field(default_factory=dict)
    """The first different answers, in order; up to `MOST_ANSWERS`."""
    identifiers: dict[str, list[str]] = field(default_factory=dict)
    """Kind of identifier -> instances."""
    slices: dict[str, Counter[str]] = field(default_factory=dict)
    """Column of `slices` -> slice -> instances in it."""
    longest: tuple[int, str] = (0, "")
    """Length of the longest prompt in characters, and its instance."""
    lengths: Counter[int] = field(default_factory=Counter)
    """Estimated tokens of a prompt -> number of prompts."""

    def note(self, code: str, instance: Instance) -> None:
        """Add an instance to a finding."""
        self.by_code.setdefault(code, []).append(instance.id)


_WORDS = {
    "duplicate": "the same prompt and answer as another instance",
    "conflict": "the same prompt as another instance, but another answer",
    "empty": "an empty text in the prompt",
    "leak": "the reference, word for word, inside the prompt",
    "mojibake": "characters garbled by a wrong encoding, such as `\u00c2\u00b0` for `\u00b0`",
    "similar_choices": "options that differ only in case or spaces",
}
"""Code -> description of the problem."""


def inspect_data(
    benchmark: Benchmark,
    instances: Iterable[Instance],
    *,
    baseline: ConstantBaseline | None,
    windows: Mapping[str, int],
    further_search: IdentifierSearch = no_search,
) -> list[DataFinding]:
    """Check all instances of a benchmark.

    Parameters: baseline, the most frequent answer, None if there is none; windows, model -> its context window in
    tokens; further_search, text -> kinds of identifiers that the patterns may miss.
    """
    found = _Findings()
    for instance in instances:
        _inspect_instance(benchmark, instance, found, further_search)
    findings = [DataFinding(code, _in_words(ids, _WORDS[code]), tuple(ids)) for code, ids in found.by_code.items()]
    findings += [
        DataFinding("identifier", _in_words(ids, f"what looks like {kind}"), tuple(ids))
        for kind, ids in found.identifiers.items()
    ]
    findings += [*_own_taxonomy(benchmark), *_spellings(benchmark, found), *_no_positive_class(benchmark)]
    findings += _unusable_slices(found)
    return [*findings, *_constant_answer(baseline), *_long_prompts(benchmark, found, windows)]


def _inspect_instance(
    benchmark: Benchmark, instance: Instance, found: _Findings, further_search: IdentifierSearch
) -> None:
    """Check one instance."""
    messages = render(benchmark, instance).messages
    prompt = "\n".join(message.text for message in messages)
    key, answer = _hash(prompt), _hash(instance.expected)
    first = found.prompts.setdefault(key, (instance.id, answer))
    if first[0] != instance.id:
        found.note("duplicate" if first[1] == answer else "conflict", instance)
    if len(found.answers) <= MOST_ANSWERS and instance.expected:
        found.answers[instance.expected] = None
    if any(not text.strip() for text in instance.fields.values()):
        found.note("empty", instance)
    if _MOJIBAKE.search(prompt) or _MOJIBAKE.search(instance.expected):
        found.note("mojibake", instance)
    if not instance.choices and _leaks(instance):
        found.note("leak", instance)
    if len({" ".join(choice.casefold().split()) for choice in instance.choices}) < len(instance.choices):
        found.note("similar_choices", instance)
    for kind in dict.fromkeys((*kinds_by_pattern(prompt), *further_search(prompt))):
        found.identifiers.setdefault(kind, []).append(instance.id)
    for one in benchmark.slices:
        sizes = found.slices.setdefault(one.column, Counter())
        sizes[one.name_of(instance.metadata.get(one.column, ""))] += 1
    found.longest = max(found.longest, (len(prompt), instance.id))
    found.lengths[ceil(len(prompt) / CHARACTERS_PER_TOKEN)] += 1


def _spellings(benchmark: Benchmark, found: _Findings) -> Iterator[DataFinding]:
    """Report answers that are written in several ways, such as `Y` and `yes`."""
    answers = [] if benchmark.choice_columns else [*benchmark.choices, *found.answers]
    values = proposed_values(answers) if len(answers) <= MOST_ANSWERS else {}
    if values:
        shown = ", ".join(f"{spelling}: {answer}" for spelling, answer in values.items())
        once = ", and list each option once under `choices`" if benchmark.choices else ""
        text = f"answers that may mean the same. If they do, write `values: {{{shown}}}` under `answer`{once}"
        yield DataFinding("spellings", text)


def _leaks(instance: Instance) -> bool:
    """Return True if a reference occurs in the fields of the prompt, ignoring line breaks."""
    shown = " ".join(" ".join(instance.fields.values()).split()).casefold()
    wanted = [" ".join(text.split()).casefold() for text in instance.correct]
    return any(len(text) >= LEAST_LEAK and text in shown for text in wanted)


def _constant_answer(baseline: ConstantBaseline | None) -> Iterator[DataFinding]:
    if baseline and baseline.share >= NEARLY_ALWAYS:
        share = f"{100 * baseline.share:.1f}%"
        yield DataFinding(
            "constant", f"the answer is nearly always the same: `{baseline.answer}` in {share} of the instances"
        )


def _no_positive_class(benchmark: Benchmark) -> Iterator[DataFinding]:
    """Ask for the positive class of a question with two options."""
    if len(benchmark.choices) == 2 and not benchmark.positive:
        text = (
            f"no class is named as the positive one, for sensitivity and specificity; add `positive: "
            f"{benchmark.choices[0]}` or `positive: {benchmark.choices[1]}`"
        )
        yield DataFinding("no_positive_class", text)


SLICED = 50
"""Least instances of data in which slices of one instance are reported: a few sample rows always have some."""


def _unusable_slices(found: _Findings) -> Iterator[DataFinding]:
    """Report columns with too many slices, and slices of one instance in data of more than a few."""
    for column, sizes in found.slices.items():
        if len(sizes) > MOST_SLICES:
            text = (
                f"`slices: {column}` has {len(sizes)} values; at most {MOST_SLICES} slices are compared, so add `bands`"
            )
            yield DataFinding("many_slices", text)
        elif sizes.total() >= SLICED and (alone := sorted(name for name, n in sizes.items() if n == 1)):
            few = f"{plural(len(alone), 'slice')} of one instance, such as `{alone[0]}`"
            yield DataFinding("lone_slice", f"`slices: {column}` has {few}; no interval can be given for one instance")


def _own_taxonomy(benchmark: Benchmark) -> Iterator[DataFinding]:
    """Report a category or subcategory that the taxonomy lacks: it is allowed, but can be a mistake.

    HELM's format has neither, so nothing was mistaken there.
    """
    place = benchmark.taxonomy
    if place.category == OWN:
        return
    subcategories = {one.id: [sub.id for sub in one.subcategories] for one in load_taxonomy()}
    known = subcategories.get(place.category)
    if known is None:
        text = f"`{place.category}` is not one of the categories of `medhelm taxonomy`"
        yield DataFinding("own_category", f"{text}. {suggestion(place.category, list(subcategories))}")
    elif place.subcategory not in known:
        text = f"`{place.subcategory}` is not one of the subcategories of `{place.category}` in `medhelm taxonomy`"
        yield DataFinding("own_subcategory", f"{text}. {suggestion(place.subcategory, known)}")


def _long_prompts(benchmark: Benchmark, found: _Findings, windows: Mapping[str, int]) -> Iterator[DataFinding]:
    """Report prompts that exceed the context window of a model, by estimate."""
    for model, window in windows.items():
        room = window - benchmark.max_tokens
        n = sum(count for tokens, count in found.lengths.items() if tokens > room)
        if n:
            tokens, longest = int(found.longest[0] / CHARACTERS_PER_TOKEN), found.longest[1]
            yield DataFinding(
                "too_long",
                f"{n} prompts exceed the {window:,} tokens of {model}, less {benchmark.max_tokens:,} for completions; "
                f"the longest, {longest}, has about {tokens:,}",
            )


def _in_words(ids: Sequence[str], words: str) -> str:
    named = ", ".join(ids[:SHOWN]) + (", ..." if len(ids) > SHOWN else "")
    return f"{words}: {plural(len(ids), 'instance')} ({named})"


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
