"""One wording of an answer, and how many wordings a reader reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One wording of an answer."""

    text: str
    """The completion."""
    expected: Any
    """What it says; None if it gives no answer, or several."""
    context: Any = None
    """What the reader needs besides the completion, such as the options."""
    group: str = ""
    """The kind of wording, for the list of failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a reader read one form."""

    form: Form
    found: Any
    """What the reader returned; None if it found no answer."""

    @property
    def is_wrong(self) -> bool:
        """True if an answer was read that the form does not give."""
        return self.found is not None and self.found != self.form.expected

    @property
    def is_unread(self) -> bool:
        """True if the form gives an answer and none was read."""
        return self.found is None and self.form.expected is not None


def read_all(forms: Iterable[Form], read: Callable[[Form], Any]) -> list[Reading]:
    """Read every form."""
    return [Reading(form=form, found=read(form)) for form in forms]
