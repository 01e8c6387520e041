"""Texts of remarks, for tests of their wording."""

from __future__ import annotations

from collections.abc import Iterable

from medhelm.domain.result import Remark


def texts(remarks: Iterable[Remark]) -> tuple[str, ...]:
    """Return the text of each remark."""
    return tuple(remark.text for remark in remarks)


def codes(remarks: Iterable[Remark]) -> set[str]:
    """Return the codes of the remarks."""
    return {remark.code for remark in remarks}
