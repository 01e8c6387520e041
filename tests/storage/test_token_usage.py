"""Requests of a store counted once, against plain dictionaries; files that lack later columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import duckdb
import pytest

from medhelm.domain import Usage
from medhelm.errors import StoreError
from medhelm.storage.judgments import LATER_COLUMNS, LATER_REPLY_COLUMNS, read_replies
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import open_store
from medhelm.storage.token_usage import (
    JudgeReplyLength,
    RequestUsage,
    read_replied,
    read_usage,
)
from tests.support.stores import Call, add_run, digest, hosted_model

ASKED, J1, J2 = (hosted_model(f"openai/{name}") for name in ("m", "j1", "j2"))


def took(calls: Sequence[Call]) -> RequestUsage:
    return RequestUsage(requests=len(calls), unmetered=0, usage=sum((call.usage for call in calls), Usage()))


def test_every_request_belongs_to_the_first_run_that_holds_it(tmp_path: Path) -> None:
    """Three runs that share some requests, and judges that share some: as a dictionary of digests would count them."""
    rng = Random(4)
    calls = [
        Call(f"{kind}{n}", Usage(input=rng.randint(1, 99), cached_input=rng.randint(0, 9), output=rng.randint(0, 50)))
        for kind in "cs"
        for n in range(12)
    ]
    held: dict[tuple[str, str], list[Call]] = {}
    for day in ("2026-01-03", "2026-01-01", "2026-01-02"):
        own = rng.sample(calls[:12], 7)
        judged = [(judge, [rng.sample(calls[12:], 2) for _ in own]) for judge in (J1, J2)]
        add_run(tmp_path, "b", ASKED, own, judged=judged, started=f"{day}T00:00:00+00:00")
        held[day, ""] = own
        held |= {(day, judge.name): [call for group in said for call in group] for judge, said in judged}
    shares, digests = read_usage(load_runs(open_store(tmp_path)))
    found = {(share.run.started[:10], share.judge): share for share in shares}
    assert set(found) == set(held)
    seen: set[str] = set()
    for key in sorted(held):
        first = {call.name: call for call in held[key] if call.name not in seen}
        seen |= set(first)
        assert (found[key].all, found[key].first) == (took(held[key]), took(list(first.values()))), key
    assert digests == {digest(name) for name in seen}


def test_every_run_with_damaged_files_is_named(tmp_path: Path) -> None:
    for name in ("b", "c", "d"):
        add_run(tmp_path, name, ASKED, [Call(name)], judged=[(J1, [[Call("s")]])])
    runs = load_runs(open_store(tmp_path))
    folders = [run.folder or Path() for run in runs]
    for folder in (folders[0], folders[2]):
        (folder / "records.parquet").unlink()
    with pytest.raises(StoreError) as caught:
        read_usage(runs)
    assert [str(folder) in str(caught.value) for folder in folders] == [True, False, True]
    (folders[1] / "replies.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError, match=r"replies\.parquet is missing or damaged"):
        read_usage(runs[1:2])
    assert read_replied(runs[1], J1.name) == JudgeReplyLength(0, 0, 0), "a plan learns nothing from it, and goes on"


def without(path: Path, columns: Sequence[str]) -> None:
    """Rewrite a file without some of its columns."""
    with duckdb.connect() as connection:
        known = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
        assert set(columns) <= set(known)
        kept = ", ".join(f'"{name}"' for name in known if name not in columns)
        connection.execute(f"COPY (SELECT {kept} FROM '{path}') TO '{path}.new' (FORMAT parquet)")
    Path(f"{path}.new").replace(path)


def test_runs_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    usage = Usage(input=10, cached_input=2, output=5, reasoning=1)
    calls = [Call(f"c{n}", usage) for n in range(3)]
    said = [[Call(f"s{n}", usage)] for n in range(3)]
    add_run(tmp_path, "b", ASKED, calls, judged=[(J1, said)])
    (run,) = load_runs(open_store(tmp_path))
    now = read_usage([run]), read_replies(run)
    assert run.folder is not None
    without(run.folder / "records.parquet", LATER_COLUMNS)
    without(run.folder / "replies.parquet", LATER_REPLY_COLUMNS)
    (old,) = load_runs(open_store(tmp_path))
    assert (read_usage([old])[1], read_replies(old)) == (now[0][1], now[1])
    shares = {one.judge: one.all for one in read_usage([old])[0]}
    assert set(shares) == {"", J1.name}
    assert all((took.requests, took.usage.input, took.batched) == (3, 30, Usage()) for took in shares.values())
    assert read_columns(old, ["batched"])["batched"] == [None] * 3
