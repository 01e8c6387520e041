"""The ledger: reservations of several processes under one limit."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.errors import StoreError
from medhelm.storage.budget_ledger import Ledger, Reservation, Settlement


def reservation(number: int, nano: int = 10, digest: bytes = b"") -> Reservation:
    return Reservation(number, digest or f"{number}".encode(), "m", nano, "{}")


@contextmanager
def opened(folder: Path, limit: int | None = None, n: int = 1, spent_before: int = 0) -> Iterator[list[Ledger]]:
    """Open a ledger as `n` processes; a closed one is a process that has ended."""
    (folder / "locks").mkdir(exist_ok=True)
    ledgers = [Ledger(folder / "budget.sqlite", create=True) for _ in range(n)]
    if limit is not None:
        ledgers[0].set_limit(limit, spent_before)
    yield ledgers
    for ledger in ledgers:
        ledger.close()


def test_reservations_fit_into_what_all_have_left(tmp_path: Path) -> None:
    with opened(tmp_path, 45, n=2, spent_before=5) as (one, two):
        assert (tmp_path / "budget.sqlite").stat().st_mode & 0o777 == 0o600
        assert one.exchange([], [reservation(n) for n in range(1, 4)]) == (3, False)
        assert two.exchange([], [reservation(1), reservation(2)]) == (1, True)
        assert one.exchange([Settlement(1, "m", 4), Settlement(2, "m", 10)], []) == (0, False)
        assert two.exchange([], [reservation(2)]) == (0, True)  # 5 + 14 + 20 and 10 more
        assert one.exchange([Settlement(3, "m", 0)], []) == (0, False)
        assert two.exchange([], [reservation(2)]) == (1, False)
        found = one.balance()
        assert (found.limit, found.spent_before, found.spent, found.reserved, found.held) == (45, 5, 14, 20, 39)
        assert found.by_model == (("m", 2, 14),)


def test_what_ended_processes_had_in_flight_is_settled_by_the_cache_or_lost(tmp_path: Path) -> None:
    with opened(tmp_path, 100, n=3) as (one, two, three):
        one.exchange([], [reservation(n) for n in range(1, 4)])
        two.exchange([], [reservation(7)])
        one.close()
        three.settle_ended(lambda digest, price, most: {b"1": 3, b"2": 4}.get(digest))
        found = three.balance()
        assert (found.spent, found.reserved, found.lost) == (7, 10, 10)
        assert three.exchange([], [reservation(1, 75)]) == (0, True)  # two may still leave something
        assert three.release() == 10
        assert three.exchange([], [reservation(1, 75)]) == (1, False)


def test_a_request_that_is_taken_over_was_lost(tmp_path: Path) -> None:
    with opened(tmp_path, 100, n=2) as (one, two):
        one.exchange([], [reservation(1)])
        one.close()
        two.exchange([], [reservation(1)])  # the same digest
        two.settle_ended(lambda digest, price, most: 1)
        assert (two.balance().lost, two.balance().reserved) == (10, 10)


def test_batches_are_reserved_as_a_whole_and_settled_when_they_are_collected(tmp_path: Path) -> None:
    with opened(tmp_path, 45, n=2) as (one, two):
        assert one.reserve_batch([reservation(n) for n in range(1, 5)])
        assert one.reserve_batch([reservation(n) for n in range(1, 5)])  # they are reserved already
        assert not two.reserve_batch([reservation(n) for n in range(5, 7)])
        one.close()
        two.settle_ended(lambda digest, price, most: 2 if digest in (b"1", b"2") else None)
        assert (two.balance().spent, two.balance().reserved, two.balance().lost) == (4, 20, 0)
        two.exchange([], [reservation(3)])  # the batch did not answer it: it is sent directly
        assert (two.balance().reserved, two.balance().lost) == (20, 0)


@settings(max_examples=12, deadline=None)
@given(limit=st.integers(0, 200), n=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_whatever_happens_the_limit_is_not_passed(limit: int, n: int, seed: int) -> None:
    """Processes reserve, settle, and are killed at random; what the provider bills never passes the limit."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, opened(Path(name), limit, n) as ledgers:
        alive: dict[int, dict[int, int]] = {place: {} for place in range(n)}
        billed = number = 0
        for _ in range(60):
            if not alive:
                break
            place = draw.choice(sorted(alive))
            ledger, flying = ledgers[place], alive[place]
            action = draw.random()
            if action < 0.55:
                wanted = [reservation(number + k, draw.randint(1, 30)) for k in range(1, draw.randint(2, 5))]
                granted, _ = ledger.exchange([], wanted)
                number += len(wanted)
                for one in wanted[:granted]:
                    flying[one.number] = draw.randint(0, one.nano)
                    billed += flying[one.number]
            elif action < 0.9 and flying:
                done = draw.choice(sorted(flying))
                ledger.exchange([Settlement(done, "m", flying.pop(done))], [])
            elif action > 0.95:
                ledger.close()
                del alive[place]
                if alive:
                    ledgers[min(alive)].settle_ended(lambda digest, price, most: None)
            assert billed <= limit
        last = Ledger(Path(name) / "budget.sqlite")
        assert billed <= last.balance().held <= limit
        last.close()


def test_a_link_and_a_file_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        Ledger(tmp_path / "budget.sqlite")
    (tmp_path / "budget.sqlite").symlink_to(tmp_path / "other")
    with pytest.raises(StoreError, match="it is not a regular file"):
        Ledger(tmp_path / "budget.sqlite", create=True)
    assert not (tmp_path / "other").exists()
    (tmp_path / "budget.sqlite").unlink()
    (tmp_path / "budget.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(StoreError, match=r"budget.sqlite is damaged or not a database"):
        Ledger(tmp_path / "budget.sqlite")
