"""Texts of an instance that a perturbation may change: fields that the prompt shows, and turns of the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from random import Random

from medhelm.benchmarks.prompts import OPTIONS, placeholders
from medhelm.domain import Benchmark, Instance
from medhelm.extensions.variants.types import Apply, Check

SHORTEST_WORDS = 4
"""Fewest words of a text that may change: shorter ones are often names or labels."""

_XML = re.compile(r"\s*<\w[^<>]*>")
_JSON = re.compile(r"\s*[\[{<]\s*[\"'<{\[]")
_WORD = re.compile(r"[^\W\d_]{2,}")


def change_texts(instance: Instance, benchmark: Benchmark, change: Callable[[str], str]) -> Instance:
    """Return an instance with `change` applied to the fields of its prompt and to the turns of the user.

    Labels of options, references, metadata, and the turns of other roles stay.
    """
    shown = shown_fields(benchmark)
    return replace(
        instance,
        fields={name: change(text) if name in shown else text for name, text in instance.fields.items()},
        turns=tuple(replace(turn, text=change(turn.text)) if turn.role == "user" else turn for turn in instance.turns),
    )


def change_prose(instance: Instance, benchmark: Benchmark, change: Callable[[str], str]) -> Instance:
    """Return an instance with `change` applied to its prose: not to names, code, schemas, XML or JSON."""
    return change_texts(instance, benchmark, lambda text: change(text) if is_prose(text) else text)


def in_prose(change: Callable[[str, Random], str]) -> Apply:
    """Return the perturbation that changes the prose of an instance, with a generator for what is drawn."""

    def apply(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance:
        return change_prose(instance, benchmark, lambda text: change(text, rng))

    return apply


def shown_fields(benchmark: Benchmark) -> frozenset[str]:
    """Return the names of the fields that the prompt shows."""
    return _shown_fields(benchmark.prompt, benchmark.system)


@lru_cache(maxsize=64)
def _shown_fields(prompt: str, system: str) -> frozenset[str]:
    return frozenset((placeholders(prompt) | placeholders(system)) - {OPTIONS})


def changed_texts(original: Instance, changed: Instance) -> Iterator[tuple[str, str]]:
    """Yield each text that differs, before and after."""
    pairs = [(text, changed.fields[name]) for name, text in original.fields.items()]
    pairs += [(turn.text, new.text) for turn, new in zip(original.turns, changed.turns, strict=True)]
    yield from ((old, new) for old, new in pairs if old != new)


def in_small_letters(text: str) -> str:
    """Return a text of the same length in small letters, in which patterns are found faster than in any case."""
    return text.replace("İ", "i").lower()  # the only letter whose small form is longer


def is_prose(text: str) -> bool:
    """Return True for text of several words that is neither code, a schema, XML nor JSON.

    >>> is_prose("The patient has had a cough for two weeks."), is_prose('{"id": 3, "name": "a long name of it"}')
    (True, False)
    """
    if len(list(islice(_WORD.finditer(text), SHORTEST_WORDS))) < SHORTEST_WORDS or _JSON.match(text):
        return False
    if "</" in text and _XML.match(text):
        return False
    return not ("```" in text or "CREATE TABLE" in text or ("SELECT " in text and " FROM " in text))


def differ_in_texts_alone(original: Instance, changed: Instance) -> bool:
    """Return True if two instances differ in nothing but the texts of fields and turns."""
    return replace(changed, fields=original.fields, turns=original.turns) == original


def check_frame(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
    """Check that nothing but texts of the prompt differs."""
    hidden = original.fields.keys() - shown_fields(benchmark)
    turns = [
        [("user", "") if turn.role == "user" else (turn.role, turn.text) for turn in one.turns]
        for one in (original, changed)
    ]
    same_hidden = turns[0] == turns[1] and all(original.fields[name] == changed.fields[name] for name in hidden)
    return "" if same_hidden and differ_in_texts_alone(original, changed) else "Only texts of the prompt may change."


def check_texts(rule: Callable[[str, str], str]) -> Check:
    """Return the check that nothing but texts of the prompt differs, and that each changed text keeps a rule.

    `rule`: gets a text before and after; returns what it breaks, or "".
    """

    def checked(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
        broken = (rule(old, new) for old, new in changed_texts(original, changed))
        return check_frame(original, changed, benchmark) or next(filter(None, broken), "")

    return checked
