"""What the files of runs say of themselves: who answered, and whether they can be read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from medhelm.domain import Run
from medhelm.io.parquet import connect, sql_text


def answers_by_snapshot(runs: Iterable[Run]) -> dict[str, int]:
    """The model's name as its server gave it -> how many completions of these runs came under it; "" for no name."""
    files = [run.folder / "records.parquet" for run in runs if run.folder]
    if not files:
        return {}
    with connect() as connection:
        listed = ", ".join(sql_text(path) for path in files)
        query = (
            "SELECT coalesce(reported_model, ''), count(*) "  # noqa: S608 - our own files
            f"FROM read_parquet([{listed}], union_by_name = true) WHERE failure_code IS NULL GROUP BY ALL ORDER BY ALL"
        )
        return dict(connection.execute(query).fetchall())


def damaged(paths: Iterable[Path]) -> list[str]:
    """What is wrong with Parquet files that are missing or damaged, a sentence each; looks at their ends only."""
    import duckdb

    found = []
    with connect() as connection:
        for path in paths:
            try:
                connection.execute(f"SELECT num_rows FROM parquet_file_metadata({sql_text(path)})").fetchall()  # noqa: S608
            except duckdb.Error as error:
                reason = str(error).splitlines()[0] if path.exists() else "it is not there"
                found.append(f"{path} cannot be read: {reason}. Remove its folder and run the same command again.")
    return found
