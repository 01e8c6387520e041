"""EHRSQL: questions, the schema they are asked about, and the place of the database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from medhelm.errors import DataError

SPLITS = ("valid", "test")
"""The evaluated splits, in order."""

PRESENT = "2105-12-31 23:59:00"
"""Current time of the questions and the database."""

NO_QUERY = "null"
"""Query of a question that cannot be answered."""

_CREATE = re.compile(r"^CREATE TABLE\b.*?;", re.DOTALL | re.MULTILINE)


def rows(folder: Path) -> Iterator[Mapping[str, object]]:
    """Yield one row for every question; none is skipped.

    Columns: id, question, template; schema, the CREATE TABLE statements of eicu.sql; query, the SQL of the authors or
    `null`; and for scoring value, what was put into the question, current_time, conventions, and database, the path
    where eicu.sqlite should be: prompts do not need it.
    Raises: DataError if a question is marked as impossible and has a query, or the other way round.
    """
    data = folder / "eicu"
    schema = "\n\n".join(_CREATE.findall((data / "eicu.sql").read_text(encoding="utf-8")))
    if not schema:
        raise DataError(f"{data / 'eicu.sql'}: holds no CREATE TABLE statement")
    database = str((data / "eicu.sqlite").absolute())
    for split in SPLITS:
        for entry in json.loads((data / f"{split}.json").read_text(encoding="utf-8")):
            if entry["is_impossible"] != (entry["query"] == NO_QUERY):
                raise DataError(f"{split}.json, question {entry['id']}: is_impossible and query contradict each other")
            yield {
                "id": entry["id"],
                "question": entry["question"],
                "schema": schema,
                "query": entry["query"],
                "value": entry.get("value", {}),
                "template": entry["template"],
                "current_time": PRESENT,
                "conventions": "ehrsql",
                "database": database,
            }
