"""Requests of a store counted once, against plain dictionaries; and how long they were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from medhelm.domain import Run, Usage
from medhelm.errors import StoreError
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
from medhelm.storage.token_usage import (
    JudgeReplyLength,
    RequestUsage,
    SentRequest,
    UsageShare,
    prompt_characters,
    read_replied,
    read_sent,
    read_sent_to_judge,
    read_usage,
)
from tests.support.stores import Call, add_run, digest, hosted_model

ASKED, OTHER = hosted_model("openai/m"), hosted_model("openai/other")
J1, J2 = hosted_model("openai/j1"), hosted_model("openai/j2")


def usage(rng: Random) -> Usage:
    return Usage(input=rng.randint(1, 99), cached_input=rng.randint(0, 9), output=rng.randint(0, 50), reasoning=1)


def shares(folder: Path) -> tuple[dict[tuple[str, str], UsageShare], set[bytes]]:
    found, digests = read_usage(load_runs(open_store(folder)))
    return {(one.run.started[:10], one.judge): one for one in found}, digests


def test_every_request_belongs_to_the_first_run_that_holds_it(tmp_path: Path) -> None:
    """Three runs that share some requests, and judges that share some: as a dictionary of digests would count them."""
    rng = Random(4)
    calls = {f"c{n}": Call(f"c{n}", usage(rng)) for n in range(12)}
    says = {f"s{n}": Call(f"s{n}", usage(rng)) for n in range(12)}
    days = ["2026-01-03", "2026-01-01", "2026-01-02"]
    held: dict[tuple[str, str], list[Call]] = {}
    for day in days:
        own = [calls[name] for name in rng.sample(sorted(calls), 7)]
        judged = [(judge, [[says[name] for name in rng.sample(sorted(says), 2)] for _ in own]) for judge in (J1, J2)]
        add_run(tmp_path, "b", ASKED, own, judged=judged, started=f"{day}T00:00:00+00:00")
        held[day, ""] = own
        for judge, said in judged:
            held[day, judge.name] = [call for group in said for call in group]
    found, digests = shares(tmp_path)
    seen: set[str] = set()
    assert set(found) == set(held)
    for key in sorted(held):
        first = {call.name: call for call in held[key] if call.name not in seen}
        seen |= set(first)
        assert found[key].all == took(held[key]), key
        assert found[key].first == took(list(first.values())), key
    assert digests == {digest(name) for name in seen}


def took(calls: Sequence[Call]) -> RequestUsage:
    return RequestUsage(requests=len(calls), unmetered=0, usage=sum((call.usage for call in calls), Usage()))


def test_what_was_answered_without_a_word_on_tokens_is_unmetered(tmp_path: Path) -> None:
    calls = [Call("a", Usage(input=5, output=2)), Call("b"), Call("c", text=None), Call("d", Usage(input=3), text=None)]
    add_run(tmp_path, "b", ASKED, calls)
    assert read_usage([]) == ([], set())
    add_run(tmp_path, "b", hosted_model("baseline/majority", base_url=""), [Call(""), Call("", Usage(input=9))])
    (share,) = shares(tmp_path)[0].values()
    assert share.all == share.first == RequestUsage(requests=4, unmetered=1, usage=Usage(input=8, output=2))


def test_every_run_without_its_files_is_named(tmp_path: Path) -> None:
    for name in ("b", "c", "d"):
        add_run(tmp_path, name, ASKED, [Call(name)])
    runs = load_runs(open_store(tmp_path))
    folders = {run.benchmark: run.folder or Path() for run in runs}
    for name in ("b", "d"):
        (folders[name] / "records.parquet").unlink()
    with pytest.raises(StoreError) as caught:
        read_usage(runs)
    assert [str(folders[name]) in str(caught.value) for name in ("b", "c", "d")] == [True, False, True]


def test_a_file_that_is_no_table_is_named(tmp_path: Path) -> None:
    add_run(tmp_path, "b", ASKED, [Call("a")], judged=[(J1, [[Call("s")]])])
    (run,) = load_runs(open_store(tmp_path))
    file = (run.folder or Path()) / "replies.parquet"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(StoreError, match=r"replies\.parquet is missing or damaged"):
        read_usage([run])
    # A plan learns nothing from it, and goes on.
    assert read_replied(run, J1.name) == JudgeReplyLength(0, 0, 0)


# --- how long they were -----------------------------------------------------------------------------------------------


def stored(tmp_path: Path) -> Run:
    calls = [Call(f"c{n}", Usage(input=10 * n, output=n)) for n in range(5)]
    said = [
        [
            Call(f"s{n}", Usage(input=100 + n, output=20)),
            Call(f"t{n}", Usage(input=150, output=99), attempt=1),
            Call(f"u{n}", Usage(input=0, output=0), part=1),
        ]
        for n in range(5)
    ]
    add_run(tmp_path, "b", ASKED, calls, judged=[(J1, said)], prompts=["x" * 7, "\n" * 5, 'é"\\' * 3, "", "y"])
    (run,) = load_runs(open_store(tmp_path))
    return run


def test_lengths_of_requests_that_were_counted(tmp_path: Path) -> None:
    run = stored(tmp_path)
    assert read_sent(run, 100) == [SentRequest(f"i{n}", 0, 10 * n) for n in range(1, 5)]
    assert read_sent(run, 2) == [SentRequest("i1", 0, 10), SentRequest("i2", 0, 20)]
    assert read_sent_to_judge(run, J1.name, 3) == [SentRequest(f"i{n}", 0, 100 + n) for n in range(3)]
    assert read_sent_to_judge(run, "nobody", 3) == []


def test_replies_and_how_often_they_were_asked_for_again(tmp_path: Path) -> None:
    run = stored(tmp_path)
    assert read_replied(run, J1.name) == JudgeReplyLength(n=5, output=100, again=5)
    assert read_replied(run, "nobody") == JudgeReplyLength(0, 0, 0)


def test_characters_are_those_of_the_text_and_not_of_its_json(tmp_path: Path) -> None:
    run = stored(tmp_path)
    file = open_store(tmp_path).prompts_file("b", run.benchmark_digest, run.data_digest)
    assert prompt_characters(file, 100) == {"i0": 7, "i1": 5, "i2": 9, "i3": 0, "i4": 1}
    assert prompt_characters(file, 2) == {"i0": 7, "i1": 5}
    assert prompt_characters(tmp_path / "nothing.parquet", 2) == {}
