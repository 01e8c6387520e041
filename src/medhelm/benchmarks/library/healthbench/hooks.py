"""HealthBench: one conversation per row, with the physicians' criteria for the next reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

THEME = "theme:"


def rows(rows: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, object]]:
    """Yield {id, conversation, criteria, theme, ideal}; the canary string is removed.

    A conversation's own tags, its theme among them, become tags of its criteria, so that each tag has its own score.
    """
    for row in rows:
        ideal = row["ideal_completions_data"] or {}
        yield {
            "id": row["prompt_id"],
            "conversation": row["prompt"],
            "criteria": _criteria(row),
            "theme": next((tag.removeprefix(THEME) for tag in row["example_tags"] if tag.startswith(THEME)), ""),
            "ideal": ideal.get("ideal_completion"),
        }


def _criteria(row: Mapping[str, Any]) -> list[Mapping[str, object]]:
    """Return the distinct criteria of a row; the points of repeated ones add up, as they do in the score.

    One with other tags, or points of the other sign, counts elsewhere in the score, and stays apart.
    """
    criteria: dict[object, Mapping[str, Any]] = {}
    for criterion in row["rubrics"]:
        key = criterion["criterion"].strip(), frozenset(criterion["tags"]), criterion["points"] > 0
        points = criterion["points"] + (criteria[key]["points"] if key in criteria else 0)
        criteria[key] = {**criterion, "points": points, "tags": [*criterion["tags"], *row["example_tags"]]}
    return list(criteria.values())
