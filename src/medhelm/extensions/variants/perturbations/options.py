"""Perturbations of the options of choice questions: their order, and "None of the above" for the correct option.

Options that speak of others keep their place: "All of the above" stays below the options that it speaks of. Letters
follow the options: if options A and C trade places, "Both A and B" becomes "Both B and C", and a prompt that says
"A for yes or B for no" says "B for yes or A for no". The checks leave out questions where it is not certain what a text
refers to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from random import Random
from typing import NamedTuple

from medhelm.benchmarks.prompts import LETTERS, OPTIONS, placeholders
from medhelm.domain import Benchmark, Instance, Reference
from medhelm.extensions.variants.perturbations.cases import change_texts
from medhelm.extensions.variants.types import Perturbation

NONE_OF_THE_ABOVE = "None of the above"

ROTATIONS = 4
"""Rotations that put each of up to five options once in each place."""

Order = Callable[[Sequence[int], Random], Sequence[int]]
"""Positions of the options that move -> the same positions in their new order."""

# --- what options refer to --------------------------------------------------------------------------------------------


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_OTHERS = (
    r"(?:of\s+)?(?:the\s+)?(?:above|following|these|them|those|(?:other\s+)?(?:options|answers|choices)|mentioned)"
)
_TRUE = r"(?:\s+(?:is|are)?\s*(?:correct|true|false|possible))?"
_ABOUT_ALL = _compiled(rf"\W*(?:all|none|some|(?:(?:can|may)\s+(?:be|have)\s+)?any)(?:\s+{_OTHERS}){{0,2}}{_TRUE}\W*")
"""Options about all others."""
_ABOUT_TWO = _compiled(rf"\W*(?:both|either|neither)(?:\s+(?:{_OTHERS}|(?:of\s+the\s+)?two)){{0,2}}{_TRUE}\W*")
"""Options about two others."""
_UNDECIDED = _compiled(
    r"\b(?:cannot|can't|can not)\s+be\s+(?:determined|decided|told|answered|known)|not\s+(?:applicable|mentioned)\W*$"
    r"|\b(?:do\s+not|don't)\s+know\b|\b(?:not\s+enough|insufficient)\s+(?:data|information)\b"
)
"""Options that give no answer: they keep their place, usually the last."""
_SEVERAL, _AND = r"\W*(?:(?:both|either|only|options?|answers?)\s+)*", r"\s*(?:,|&|\+|\band\b|\bor\b)+\s*"
_LETTER = r"['\"(]?[A-J]['\")]?"
_LETTERS_ONLY = _compiled(
    rf"{_SEVERAL}(?P<letters>{_LETTER}(?:{_AND}{_LETTER})+|(?<=\w\s)[A-J]{{2}})(?:\s+only)?{_TRUE}\W*"
)
"""Options that only name others by their letters, such as "Both A and C"."""
_NUMBERS_ONLY = _compiled(rf"{_SEVERAL}\(?\d\)?(?:{_AND}\(?\d\)?)+(?:\s+only)?{_TRUE}\W*")
_NAMED = _compiled(r"\band\b|\bor\b|([A-J])")
_OWN_LETTER = _compiled(r"\W*[A-E]\W*$|\s*\(?[A-E]\)\s")
_VAGUE = _compiled(
    r"\babove\W*(?:$|(?:are|is|options?|answers?|statements?|mentioned)\b)|\b(?:as|of)\s+(?:the\s+)?above\b|\boptions?\s+\d"
    r"|\b(?:all|any|two|three|either|both|none)\s+of\s+(?:these|the\s+(?:two|three|four))\b|\b(?:first|last)\s+two\b"
    r"|\b(?:previous|preceding|foregoing|other|remaining)\s+(?:two\s+)?(?:options?|answers?|choices?)\b"
)
"""Texts that refer to options in a way that cannot be followed."""
_LISTED = _compiled(r"(?:^|[\s(:,])\(?[A-E][.)]\s?\S|\b[A-E]\s*[-:=]\s*\S")
"""Statements in a question with letters of their own."""
_MENTION = re.compile(r"(\b(?:[Oo]ption|[Aa]nswer|[Cc]hoice|[Aa]lternative)s?\s+['\"(]?)([A-J])(?![\w-])")
"""An option named by its letter in a text."""
_PAIR = re.compile(r"\b([A-Z])(['\"]?\s*(?:[=:(]|\b(?:is|for|means|stands\s+for)\b)\s*['\"]?)(?=(.*))")
"""A letter and the option that it means, in a prompt."""


class _Kinds(NamedTuple):
    """Positions of the options of a question by what they refer to."""

    moving: tuple[int, ...]
    """Options that mean the same in any place."""
    about_others: tuple[int, ...]
    """Options about others."""
    with_letters: frozenset[int]
    """Those of them that name letters."""


@lru_cache(maxsize=64)
def _kinds(choices: tuple[str, ...]) -> _Kinds:
    """Sort the options by what they refer to.

    >>> _kinds(("Fever", "Cough", "Both A and B", "None of the above"))[:2]
    ((0, 1), (2, 3))
    """
    with_letters = frozenset(place for place, text in enumerate(choices) if _LETTERS_ONLY.fullmatch(text))
    if len(with_letters) > len(choices) - 2:
        with_letters = frozenset()  # these are letters of statements in the question
    about = {place for place, text in enumerate(choices) if _ABOUT_ALL.fullmatch(text) or _ABOUT_TWO.fullmatch(text)}
    about |= with_letters
    moving = (place for place, text in enumerate(choices) if place not in about and not _UNDECIDED.search(text))
    return _Kinds(tuple(moving), tuple(sorted(about)), with_letters)


def _unclear(instance: Instance) -> str:
    """Return why the options of a question cannot be moved; "" if they can."""
    choices, kinds = instance.choices, _kinds(instance.choices)
    if kinds.about_others and kinds.moving and kinds.about_others[0] < kinds.moving[-1]:
        return "An option about others is above some of them."
    if len(kinds.moving) != 2 and any(_ABOUT_TWO.fullmatch(text) for text in choices):
        return 'An option such as "Both" has more than two options above it.'
    if any(_VAGUE.search(choices[place]) for place in kinds.moving) or "ALL" in choices:
        return "An option may refer to others."
    if 0 < sum(bool(_NUMBERS_ONLY.fullmatch(text)) for text in choices) < len(kinds.moving):
        return "Numbers in an option may refer to others."
    if any(_OWN_LETTER.match(text) for text in choices):
        return "An option has a letter of its own."
    if kinds.with_letters and any(_LISTED.search(text) for text in _texts(instance)):
        return "Letters in an option may refer to statements in the question."
    return ""


def _texts(instance: Instance) -> list[str]:
    return [*instance.fields.values(), *(turn.text for turn in instance.turns)]


# --- order ------------------------------------------------------------------------------------------------------------


def _reordered(order: Order, instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:
    """Return a question with its options in another order; None if the prompt does not list them."""
    moving = _kinds(instance.choices).moving
    if len(moving) < 2 or not _lists_options(benchmark) or tuple(new := order(moving, rng)) == moving:
        return None
    sources = _sources(len(instance.choices), moving, new)
    letters = {} if benchmark.choice_labels == "texts" else _letters(instance.labels, sources)
    with_letters = _kinds(instance.choices).with_letters
    choices = tuple(
        (_letters_followed if source in with_letters else _followed)(instance.choices[source], letters)
        for source in sources
    )
    return replace(
        change_texts(instance, benchmark, partial(_followed, letters=letters)),
        choices=choices,
        labels=instance.labels if letters else choices,
        references=tuple(
            Reference(text, instance.references[source].correct) for source, text in zip(sources, choices, strict=True)
        ),
        metadata={column: _followed(text, letters) for column, text in instance.metadata.items()},
    )


def _lists_options(benchmark: Benchmark) -> bool:
    return OPTIONS in placeholders(benchmark.prompt) | placeholders(benchmark.system)


def _sources(n: int, moving: Sequence[int], new: Sequence[int]) -> list[int]:
    """Return for each of `n` places the place of its option before."""
    found = list(range(n))
    for place, source in zip(moving, new, strict=True):
        found[place] = source
    return found


def _letters(labels: Sequence[str], sources: Sequence[int]) -> dict[str, str]:
    """Return the letter of each option before -> its letter now."""
    return {labels[source]: labels[place] for place, source in enumerate(sources)}


def _followed(text: str, letters: Mapping[str, str]) -> str:
    """Return a text with the new letters of the options that it names.

    >>> _followed("Why is option B wrong?", {"B": "D"})
    'Why is option D wrong?'
    """
    return _MENTION.sub(lambda m: m[1] + letters.get(m[2], m[2]), text) if letters else text


def _letters_followed(text: str, letters: Mapping[str, str]) -> str:
    """Return an option that names others with their new letters, in alphabetical order.

    >>> _letters_followed("Both (A) & (C)", {"A": "D", "C": "B"})
    'Both (B) & (D)'
    """
    found = _LETTERS_ONLY.fullmatch(text)
    assert found, "an option that names others"
    start, end = found.span("letters")
    new = iter(sorted(letters.get(letter.upper(), letter.upper()) for letter in _letters_in(text[start:end])))
    named = _NAMED.sub(
        lambda m: (next(new) if m[1].isupper() else next(new).lower()) if m[1] else m[0], text[start:end]
    )
    return text[:start] + named + text[end:]


def _letters_in(text: str) -> list[str]:
    return [found for found in _NAMED.findall(text) if found]


# --- letters in prompts -----------------------------------------------------------------------------------------------


def _explained(order: Order, benchmark: Benchmark) -> Benchmark:
    """Return a benchmark whose prompt explains the letters of its fixed options in their new order."""
    if benchmark.choice_columns or not benchmark.choices:
        return benchmark
    moving = _kinds(benchmark.choices).moving
    n = len(benchmark.choices)
    letters = _letters(LETTERS[:n], _sources(n, moving, order(moving, Random(0))))

    def explained(template: str) -> str:
        return _PAIR.sub(lambda m: letters.get(m[1], m[1]) + m[2], template)

    return replace(benchmark, prompt=explained(benchmark.prompt), system=explained(benchmark.system))


def _contradicted(instance: Instance, benchmark: Benchmark, *, is_same_for_all: bool) -> str:
    """Return why a text would contradict a new order; "" if none would.

    `is_same_for_all`: True if all instances with fixed options get the same order.
    """
    if benchmark.choice_labels == "texts":
        return ""
    own = dict(zip(instance.labels, instance.choices, strict=True))

    def names_option(pair: re.Match[str]) -> bool:
        return pair[1] in own and pair[3].casefold().startswith(own[pair[1]].casefold())

    pairs = [pair for template in (benchmark.prompt, benchmark.system) for pair in _PAIR.finditer(template)]
    if pairs and not (is_same_for_all and not benchmark.choice_columns and all(map(names_option, pairs))):
        return "The prompt says what the letters mean, in words that cannot be changed."
    if pairs and instance.examples:
        return "The solved examples say what the letters mean."
    if any(names_option(pair) for text in _texts(instance) for pair in _PAIR.finditer(text)):
        return "The question says what the letters mean."
    return ""


# --- checks -----------------------------------------------------------------------------------------------------------


def _check_order(original: Instance, changed: Instance, benchmark: Benchmark, *, is_same_for_all: bool = True) -> str:
    """Check that the options and the correct one are the same, and that each letter names the same option as before."""
    if reason := _unclear(original) or _contradicted(original, benchmark, is_same_for_all=is_same_for_all):
        return reason
    if sorted(_resolved(original)) != sorted(_resolved(changed)):
        return "The options and the correct one must be the same."
    if [_named(text, original) for text in _texts(original)] != [_named(text, changed) for text in _texts(changed)]:
        return "The question must be the same, but for letters of options."
    stays = _kinds(original.choices)
    if any(_kinds(changed.choices).about_others != stays.about_others for _ in stays.about_others):
        return "Options about others must keep their place."
    return ""


def _named(text: str, instance: Instance) -> str:
    """Return a text with options in place of their letters."""
    own = dict(zip(instance.labels, instance.choices, strict=True))
    return _MENTION.sub(lambda m: m[1] + own.get(m[2], m[2]), text)


def _resolved(instance: Instance) -> list[tuple[str, bool]]:
    """Return the options, with others in place of their letters, each with True if it is correct."""
    own = dict(zip(instance.labels, instance.choices, strict=True))
    with_letters = _kinds(instance.choices).with_letters
    found: list[tuple[str, bool]] = []
    for place, (text, reference) in enumerate(zip(instance.choices, instance.references, strict=True)):
        named = [own.get(letter.upper(), letter) for letter in re.findall(r"(?<![a-z])[A-Ja-j](?![a-z])", text)]
        found.append(
            (" + ".join(sorted(named)) if place in with_letters else _named(text, instance), reference.correct)
        )
    return found


# --- none of the above ------------------------------------------------------------------------------------------------

_SECOND_BEST = _compiled(
    r"\b(?:most|best|better|first|next|initial|initially|earliest|early|common|commonest|commonly|frequent|usual|usually|likely"
    r"|likelihood|probable|probably|main|mainly|major|primary|primarily|preferred|choice|recommended|ideal|optimum|optimal|appropriate|suspect"
    r"|suggest|suggests|suggestive|indicated|closest|approximate|approximately|about|principal|chief|typical|typically|generally"
    r"|should|would|could|may|might|largest|smallest|longest|shortest|highest|lowest|greatest|least|more|less|maximum|minimum"
    r"|maximal|minimal|important|characteristics?|diagnosis|management|treatment|treated|drug|risks?|complications?|factors?"
    r"|features?|signs?|symptoms?|findings?|effects?|associated|involved|causes?|caused|seen|shows?|part|true|correct|right"
    r"|regarding|respect|statements?|estimate|stated|required|needed|included?|includes|among|can|eliminate|useful"
    r"|\w+est)\b"
)
"""Words of questions whose correct option is the best of those listed: without it, the second best may be correct."""
_NEGATIVE = _compiled(
    r"\b(?:no|not|cannot|except|excluding|false|incorrect|wrong|untrue|other\s+than|unlike|never|all|rare|rarely|uncommon"
    r"|contraindicated|absent|lacks?|without|avoid(?:ed)?)\b|n't\b"
)
"""Words of questions, and of their correct options, in which "none" would be a second negation."""
_SHOWN = _compiled(r"\b(?:shown|figure|image|picture|photograph|radiograph|x-?ray|graph|diagram|marked|arrow|below)\b")
"""Words of questions about a picture that is not part of the data."""
_GRADUAL = _compiled(r"[<>≤≥]|\b(?:more|less|greater|at least|over|under|above|below|up to|or more|any|only)\b")
"""Words of options that include others."""


def _none_of_the_above(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:  # noqa: ARG001
    """Return a question without its correct option, and with "None of the above" as the last and correct one."""
    if not benchmark.choice_columns or not _lists_options(benchmark) or len(instance.choices) < 3:
        return None
    wrong = [text for text, known in zip(instance.choices, instance.references, strict=True) if not known.correct]
    if len(wrong) != len(instance.choices) - 1:
        return None
    ends = "." if all(text.rstrip().endswith(".") for text in wrong) else ""
    choices = (*wrong, NONE_OF_THE_ABOVE + ends)
    return replace(
        instance,
        choices=choices,
        labels=choices if benchmark.choice_labels == "texts" else instance.labels,
        references=tuple(Reference(text, place == len(wrong)) for place, text in enumerate(choices)),
    )


def _check_none_of_the_above(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
    """Check that no other option can be correct once the correct one is gone."""
    if reason := _unclear(original) or _contradicted(original, benchmark, is_same_for_all=False):
        return reason
    if len(_kinds(original.choices).moving) != len(original.choices) or any(map(_VAGUE.search, original.choices)):
        return "An option about others exists already."
    question = " ".join(_texts(original))
    if _SECOND_BEST.search(question):
        return "The question asks for the best option, so that another one may be correct without it."
    if _NEGATIVE.search(question) or _NEGATIVE.search(original.correct[0]):
        return "The question or its correct option has a negation."
    if _SHOWN.search(question):
        return "The question is about a picture."
    if _MENTION.search(question) or any(_LETTERS_ONLY.fullmatch(text) for text in original.choices):
        return "Letters refer to options."
    if any(_GRADUAL.search(text) for text in original.choices):
        return "An option may include another one."
    key = original.correct[0]
    words, others = _words(key), [_words(text) for text in changed.choices[:-1]]
    if not words or any(words <= other or other <= words for other in others):
        return "An option may include another one."
    if (
        len(changed.choices) != len(original.choices)
        or key in changed.choices
        or changed.correct != changed.choices[-1:]
    ):
        return f"The correct option must be gone, and `{NONE_OF_THE_ABOVE}` be the last and correct one."
    return ""


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold())) - {"a", "an", "the", "of", "in"}


# --- perturbations ----------------------------------------------------------------------------------------------------


def _reverse(moving: Sequence[int], rng: Random) -> Sequence[int]:  # noqa: ARG001
    return moving[::-1]


def _shuffle(moving: Sequence[int], rng: Random) -> Sequence[int]:
    found = rng.sample(moving, len(moving))
    return found if found != list(moving) else _rotate(1, moving, rng)


def _rotate(by: int, moving: Sequence[int], rng: Random) -> Sequence[int]:  # noqa: ARG001
    """Move the options up by some places; as they are if that is a whole turn or more."""
    return (*moving[by:], *moving[:by]) if by < len(moving) else moving


def _of_order(name: str, title: str, description: str, order: Order) -> Perturbation:
    is_same_for_all = order is not _shuffle
    return Perturbation(
        name=name,
        title=title,
        description=description,
        apply=partial(_reordered, order),
        check=partial(_check_order, is_same_for_all=is_same_for_all),
        benchmark=partial(_explained, order) if is_same_for_all else None,
    )


PERTURBATIONS = (
    _of_order("options_reversed", "Options reversed", "Lists the options in reverse order.", _reverse),
    _of_order("options_shuffled", "Options shuffled", "Lists the options in a random order.", _shuffle),
    *(
        _of_order(
            f"options_rotated_{by}",
            f"Options moved up by {by}",
            f"Moves each option up by {by} {'place' if by == 1 else 'places'}, and the first to the end.",
            partial(_rotate, by),
        )
        for by in range(1, ROTATIONS + 1)
    ),
    Perturbation(
        name="none_of_the_above",
        title="None of the above",
        description="Takes the correct option away and adds the option `None of the above`, which is then correct.",
        expectation="must_change",
        apply=_none_of_the_above,
        check=_check_none_of_the_above,
    ),
)
"""The perturbations of this module."""
