"""Read labels from JSON: a list of texts or of objects, an object with yes or no for each label, or a named list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.label_words import NOUN

_BEGINS = lazy_regex(r"[\[{]\s*[\"{\[]|\[\]|\{\}")
_PYTHON = lazy_regex(r"[\[{]\s*'")
_ENTRY_KEYS = (
    *("label", "name", "diagnosis", "condition", "category", "class", "tag", "topic", "problem", "symptom", "finding"),
)
_NAMES_LABELS = lazy_regex(rf"{NOUN}(?:\spresent|\s?\d+)?\Z", re.IGNORECASE)
_NAMES_OTHERS = lazy_regex(r"\b(?:absent|excluded|rejected|negative|not)\b", re.IGNORECASE)
_YES = (True, 1, "1", "yes", "true", "present", "positive")
_NO = (False, 0, "0", "no", "false", "absent", "negative", None)


def labels_in_json(text: str, read: Callable[[str], Collection[str]]) -> list[str] | None:
    """Return the labels of the first JSON document in `text` that has any place for them; None without one.

    `read` reads a text with several labels.
    """
    if '"' not in text and _PYTHON.search(text):
        text = text.replace("'", '"')
    decoder = json.JSONDecoder(strict=False)
    at = 0
    while (found := _BEGINS.search(text, at)) is not None:
        try:
            document, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            return None
        labels = _labels(document, read)
        if labels is not None:
            return labels
    return None


def _labels(document: Any, read: Callable[[str], Collection[str]]) -> list[str] | None:
    """Return the labels of a JSON value; None if it holds none in an obvious place."""
    if isinstance(document, str):
        return sorted(read(document))
    if isinstance(document, list):
        entries = [_entry(element) for element in document]
        return None if None in entries else [entry for entry in entries if entry]
    if not isinstance(document, dict) or not document:
        return None if document else []
    values = list(document.values())
    if all(isinstance(value, (bool, int, float)) or value in _NO or value in _YES for value in values):
        return [key for key, value in document.items() if value not in _NO]
    if all(isinstance(value, dict) and "present" in value for value in values):
        return [key for key, value in document.items() if value["present"] not in _NO]
    if all(len(key) < 3 and isinstance(value, str) for key, value in document.items()):
        return values
    named = [
        value
        for key, value in document.items()
        if _NAMES_LABELS.search(key.replace("_", " ")) and not _NAMES_OTHERS.search(key.replace("_", " "))
    ]
    found = [_labels(value, read) for value in named or values[: len(values) == 1]]
    lists = [labels for labels in found if labels is not None]
    return [label for labels in lists for label in labels] if lists else None


def _entry(element: Any) -> str | None:
    """Return the label of one element of a list, "" if it does not apply; None without one."""
    if isinstance(element, list) and len(element) == 1:
        element = element[0]
    if isinstance(element, dict):
        if element.get("present") in _NO and "present" in element:
            return ""
        keys = [key for key in element if key.lower() in _ENTRY_KEYS] or list(element)[: len(element) == 1]
        element = element[keys[0]] if keys else None
    return element if isinstance(element, str) else None
