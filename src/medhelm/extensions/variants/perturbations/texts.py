"""Texts of an instance that a perturbation may change: fields that the prompt shows, and turns of the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from medhelm.benchmarks.prompts import OPTIONS, placeholders
from medhelm.domain import Benchmark, Instance

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


def shown_fields(benchmark: Benchmark) -> frozenset[str]:
    """Return the names of the fields that the prompt shows."""
    return _shown_fields(benchmark.prompt, benchmark.system)


@lru_cache(maxsize=64)
def _shown_fields(prompt: str, system: str) -> frozenset[str]:
    return frozenset((placeholders(prompt) | placeholders(system)) - {OPTIONS})


def shown_texts(instance: Instance, benchmark: Benchmark) -> list[str]:
    """Return the fields that the prompt shows, and all turns."""
    shown = shown_fields(benchmark)
    return [*(instance.fields[name] for name in sorted(shown)), *(turn.text for turn in instance.turns)]


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


def check_frame(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
    """Check that nothing but texts of the prompt differs."""
    hidden = original.fields.keys() - shown_fields(benchmark)
    turns = [
        [("user", "") if turn.role == "user" else (turn.role, turn.text) for turn in one.turns]
        for one in (original, changed)
    ]
    same = replace(changed, fields=original.fields, turns=original.turns) == original
    if same and turns[0] == turns[1] and all(original.fields[name] == changed.fields[name] for name in hidden):
        return ""
    return "Only texts of the prompt may change."
