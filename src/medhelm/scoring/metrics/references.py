"""What a reply is compared with."""

from __future__ import annotations

from medhelm.domain import Instance
from medhelm.errors import DataError


def right_texts(instance: Instance) -> tuple[str, ...]:
    """Texts of the right references, one at least. Raises DataError if there is none: then no answer could be right."""
    right = instance.correct
    if not right:
        raise DataError("no reference is marked as correct, so no answer could be right; check the answer column")
    return right
