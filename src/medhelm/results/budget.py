"""The budget of a store: a limit on what all of its commands spend, and what counts against it."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medhelm.analysis.cost import sum_costs
from medhelm.errors import UserError
from medhelm.results.runs.pricing import Pricing
from medhelm.results.spending import read_spending
from medhelm.storage.budget_ledger import Balance, Ledger
from medhelm.storage.live_status import known_evaluations
from medhelm.storage.store import Store, create, open_store

NANO = 1_000_000_000
"""Billionths in a US dollar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """The budget of a store."""

    balance: Balance
    """Its sums."""
    remarks: tuple[str, ...] = ()
    """Limits of the numbers."""


def set_budget(folder: Path, limit_usd: float, pricing: Pricing) -> BudgetState:
    """Limit what all commands spend in a store, which is created if it does not exist, in US dollars.

    What was spent before counts too, at the prices of the day of each run.
    Raises: UserError if commands run that do not know of the limit yet; StoreError.
    """
    store = create(folder)
    spent_before, remarks = 0, tuple[str, ...]()
    if not store.budget_file.exists():
        _refuse_running(store)
        spent_before, remarks = _spent_before(folder, pricing)
    with closing(Ledger(store.budget_file, create=True)) as ledger:
        ledger.set_limit(int(limit_usd * NANO + 0.001), spent_before)
        return BudgetState(balance=ledger.balance(), remarks=remarks)


def budget_of(folder: Path) -> BudgetState | None:
    """Return the budget of a store; None if it has none. Raises: StoreError."""
    store = open_store(folder)
    if not store.budget_file.exists():
        return None
    with closing(Ledger(store.budget_file)) as ledger:
        return BudgetState(balance=ledger.balance())


def release_lost(folder: Path) -> float:
    """Stop counting what commands that were killed may have spent; return it in US dollars. Raises: StoreError."""
    store = open_store(folder)
    if not store.budget_file.exists():
        return 0.0
    with closing(Ledger(store.budget_file)) as ledger:
        return ledger.release() / NANO


def remove_budget(folder: Path) -> bool:
    """Remove the limit and its counts; return False if there was none. Raises: UserError if commands are running."""
    store = open_store(folder)
    if not store.budget_file.exists():
        return False
    _refuse_running(store)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            store.budget_file.with_name(store.budget_file.name + suffix).unlink()
    return True


def budget_as_json(state: BudgetState | None) -> dict[str, Any]:
    """Return the budget as JSON; `limit_usd` is null if there is none."""
    if state is None:
        return {"limit_usd": None}
    balance = state.balance
    limit = balance.limit or 0
    return {
        "limit_usd": limit / NANO,
        "left_usd": max(0, limit - balance.held) / NANO,
        "spent_usd": (balance.spent_before + balance.spent) / NANO,
        "spent_before_usd": balance.spent_before / NANO,
        "reserved_usd": balance.reserved / NANO,
        "lost_usd": balance.lost / NANO,
        "models": [{"model": model, "requests": n, "spent_usd": nano / NANO} for model, n, nano in balance.by_model],
        "commands": [
            {
                "command": command,
                "pid": pid,
                "started": datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
                "spent_usd": nano / NANO,
            }
            for command, pid, started, nano in balance.by_command
        ],
        "remarks": list(state.remarks),
    }


def _spent_before(folder: Path, pricing: Pricing) -> tuple[int, tuple[str, ...]]:
    """Return what was spent in a store without a budget, in billionths of a US dollar, and remarks on unknown costs."""
    try:
        items = read_spending([folder], pricing).items
    except UserError:
        return 0, ()  # nothing was ever bought
    spent = sum_costs(item.spent_usd for item in items)
    unknown = sorted({item.judge or item.model for item in items if item.spent_usd is None})
    remark = f"What was spent on {', '.join(unknown)} before is not counted: its price or its tokens are unknown."
    return round(spent.known_usd * NANO), (remark,) if unknown else ()


def _refuse_running(store: Store) -> None:
    """Raise UserError if an evaluation of this store is running."""
    running = [str(one.status.pid) for one in known_evaluations(store) if one.is_alive]
    if running:
        raise UserError(
            f"a command is running for this store (process {', '.join(running)}), which would not notice the change. "
            "Wait for it or stop it, then repeat this command. Nothing was changed."
        )
