"""Files that were written before a column existed are read as if it said no."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from medhelm.domain import Usage
from medhelm.storage.judgments import LATER_COLUMNS, LATER_REPLY_COLUMNS, read_replies
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from medhelm.storage.token_usage import read_usage
from tests.support.stores import Call, add_run, hosted_model

ASKED, JUDGE = hosted_model("openai/m"), hosted_model("openai/j")
USAGE = Usage(input=10, cached_input=2, output=5, reasoning=1)


def without(path: Path, columns: Sequence[str]) -> None:
    """Rewrite a file without some of its columns."""
    with duckdb.connect() as connection:
        known = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
        assert set(columns) <= set(known)
        kept = ", ".join(f'"{name}"' for name in known if name not in columns)
        connection.execute(f"COPY (SELECT {kept} FROM '{path}') TO '{path}.new' (FORMAT parquet)")
    Path(f"{path}.new").replace(path)


def test_runs_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    calls = [Call(f"c{n}", USAGE) for n in range(3)]
    said = [[Call(f"s{n}", USAGE)] for n in range(3)]
    add_run(tmp_path, "b", ASKED, calls, judged=[(JUDGE, said)])
    (run,) = load_runs(open_store(tmp_path))
    now = read_usage([run]), read_replies(run)
    assert run.folder is not None
    without(run.folder / "records.parquet", LATER_COLUMNS)
    without(run.folder / "replies.parquet", LATER_REPLY_COLUMNS)
    (old,) = load_runs(open_store(tmp_path))
    assert (read_usage([old])[1], read_replies(old)) == (now[0][1], now[1])
    shares = {one.judge: one.all for one in read_usage([old])[0]}
    assert set(shares) == {"", JUDGE.name}
    assert all((took.requests, took.usage.input, took.batched) == (3, 30, Usage()) for took in shares.values())
    assert read_columns(old, ["batched"])["batched"] == [None] * 3
