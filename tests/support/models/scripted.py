"""A model and judges whose words depend on what they read alone; for the same questions asked on two roads.

Answers are of all kinds: right and wrong options, prose around them, numbers, lists, copied sentences, nothing at all,
a filter's refusal. Judges mostly behave; some replies cannot be read, at first or for good.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from tests.support.models.verification import verified

Messages = Sequence[tuple[str, str]]
"""Role and text of each turn."""

REFUSES, FAILS = "refuse", "fail"
"""Actions in place of a completion."""

JUDGES = ("strict", "kind", "vague")
"""Names of judges."""

_LETTERS = ("A", "B", "C", "D", "The answer is B.", "**(C)**", "A. no")

_WORDS = (
    "yes", "no", "maybe", "True", "False", "1", "0", "CORRECT", "",
    "12.5", "about 27.4 kg/m2", "3 0 4", "SELECT 1", "SELECT COUNT(*) FROM patients",
    "I10, E11.9, Z79.4", "I cannot say.",
)  # fmt: skip


def number(*texts: str) -> int:
    """A number that depends on these texts alone."""
    return int.from_bytes(hashlib.sha256("\0".join(texts).encode()).digest()[:4])


def answer(messages: Messages) -> tuple[str, str]:
    """Return the action of the model and its text: ("say", TEXT), (REFUSES, "") or (FAILS, "")."""
    prompt = messages[-1][1]
    chance = number("what", prompt) % 20
    if chance == 0:
        return REFUSES, ""
    if chance == 1:
        return FAILS, ""
    lines = [line for line in prompt.splitlines() if line.strip()]
    if chance < 7:  # a line of the prompt: an option, a sentence, a definition
        return "say", lines[number("line", prompt) % len(lines)]
    if chance < 14:
        return "say", _LETTERS[number("letter", prompt) % len(_LETTERS)]
    if chance < 17:
        return "say", " ".join(prompt.split()[:40])
    return "say", _WORDS[number("word", prompt) % len(_WORDS)]


def verdict(judge: str, messages: Messages) -> str:
    """Return the reply of a judge: JSON of the form that its prompt shows, sometimes something else."""
    prompt = messages[0][1]
    chance = number(judge, prompt) % 12
    if chance == 0 and len(messages) == 1:
        return "Let me think about that first."
    if chance == 1:
        return "It is good."
    grade = number("grade", judge, prompt)
    if '"criteria_met": <' in prompt:
        return verified(json.dumps({"criteria_met": grade % 2 == 0, "explanation": "So it seems."}), prompt)
    form = prompt[prompt.rindex("The form, with your words") :]
    names = re.findall(r'"(\w+)": \{"score"', form)
    cells = {name: {"score": 1 + (grade + i) % 5, "explanation": f"On {name}."} for i, name in enumerate(names)}
    if chance == 2:
        cells.pop(names[0])
    return verified(json.dumps(cells), prompt)
