"""Searches and reads the texts of stored prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.io.parquet import connect, sql_path

if TYPE_CHECKING:
    import duckdb


def ids_with_prompt_text(connection: duckdb.DuckDBPyConnection, files: Sequence[Path], text: str) -> Iterator[str]:
    """Yield the ids of instances whose prompt, choices or references contain a text in any case.

    Prompts are stored as JSON, whose keys must not match. A part of the text that JSON never escapes selects the rows
    that are parsed. DuckDB refuses a lone surrogate, which JSON of Python can hold: such rows are parsed here.
    """
    pattern = re.escape(text)
    plain = max(re.findall(r"[ !#-\[\]-~]+", text), key=len, default="")
    for path in files:
        if not path.is_file():
            continue
        cursor = connection.execute(
            f'SELECT instance_id, texts IS NULL, messages, choices, "references" FROM ('  # noqa: S608 - our own file
            f"SELECT *, {_PROMPT_TEXTS} AS texts FROM read_parquet({sql_path(path)}) "
            "WHERE regexp_matches(concat(messages, choices, \"references\"), ?, 'i')) "
            "WHERE texts IS NULL OR regexp_matches(texts, ?, 'i')",
            [re.escape(plain), pattern],
        )
        while rows := cursor.fetchmany(1000):
            for instance_id, is_unread, *columns in rows:
                if not is_unread or re.search(pattern, "\0".join(_texts(*columns)), re.IGNORECASE):
                    yield instance_id


_PROMPT_TEXTS = """
CASE WHEN json_valid(messages) AND json_valid(choices) AND json_valid("references") THEN concat_ws(chr(0),
    array_to_string(json_extract_string(messages, '$[*].content'), chr(0)),
    array_to_string(json_extract_string(choices, '$[*]'), chr(0)),
    array_to_string(json_extract_string("references", '$[*].text'), chr(0))) END
"""
"""SQL of all texts of a prompt, separated by NUL; NULL if DuckDB cannot parse them."""


def _texts(messages: str, choices: str, references: str) -> list[str]:
    """Parse all texts of a prompt."""
    contents = [one["content"] for one in json.loads(messages)]
    return [*contents, *json.loads(choices), *(one["text"] for one in json.loads(references))]


def read_prompts(files: Sequence[Path], instance_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Read the messages of these instances and of the first two in each file, by id; others are left out."""
    found: dict[str, list[dict[str, str]]] = {}
    with connect() as connection:
        for path in files:
            if path.is_file():
                rows = connection.execute(
                    f"SELECT instance_id, messages FROM read_parquet({sql_path(path)}) "  # noqa: S608 - our own file
                    "WHERE instance_id IN (SELECT unnest(?::VARCHAR[])) OR position < 2",
                    [list(instance_ids)],
                ).fetchall()
                found = {instance_id: json.loads(messages) for instance_id, messages in rows} | found
    return found
