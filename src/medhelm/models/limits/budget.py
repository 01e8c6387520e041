"""The budget: reserves the most that a request can cost before it is sent, and charges its real cost afterwards.

Two limits may apply: that of one command (`--max-cost`) and that of the store (`medhelm budget set`). A request that
does not fit waits for those in flight to be charged; only if none is left, the work stops. So a limit is never passed,
as long as a service counts no more tokens than it was sent and asked for.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from medhelm.analysis.cost.token_costs import cost_of
from medhelm.domain import Completion, Request, Usage
from medhelm.errors import MedHelmError
from medhelm.models.provider import BilledError

if TYPE_CHECKING:
    from medhelm.models.limits.spending_limit import SpendingLimit


def charged(request: Request, completion: Completion) -> Usage:
    """Return the usage to charge: as reported, or an upper bound if the service reports no tokens.

    The upper bound counts a token per three characters of the prompt, and a completion up to its limit.
    """
    if is_metered(completion):
        return completion.usage
    characters = sum(len(message.text) for message in request.prompt.messages)
    return Usage(input=characters // 3 + 1, output=request.max_tokens)


def is_metered(completion: Completion) -> bool:
    """Return True if the service reported tokens; a completion without a text needs none."""
    return completion.text is None or completion.usage.input > 0


class Budget:
    """Counts the costs of this execution, and keeps them within limits."""

    def __init__(self, limit_usd: float | None = None) -> None:
        """`limit_usd`: limit of this execution in US dollars; None: no limit."""
        self.limit_usd = limit_usd
        self.spent_usd = 0.0
        self.limits: list[SpendingLimit] = []
        """Limits that every request must fit into, the command's own first."""
        if limit_usd is not None:
            from medhelm.models.limits.spending_limit import CommandLimit  # lazy: most executions have no limit

            self.limits.append(CommandLimit(limit_usd))

    def charge(self, cost_usd: float) -> None:
        """Add the cost of a completion of a batch."""
        self.spent_usd += cost_usd
        for limit in self.limits:
            limit.charge(cost_usd)

    def stop(self, reason: MedHelmError) -> None:
        """Let requests that wait for money raise `reason`."""
        for limit in self.limits:
            limit.stop(reason)

    async def close(self) -> None:
        """Store what was charged last."""
        for limit in self.limits:
            await limit.close()

    def purchase(self, request: Request, digest: bytes) -> Purchase:
        """Return the purchase of one completion, to be entered before the request is sent."""
        return Purchase(self, request, digest)


class Purchase:
    """One request: reserves the most it can cost on entry, and charges its real cost on exit.

    Entering raises BudgetError if it does not fit into a limit. The caller sets `sent`, then `completion`. A reply that
    brought no completion is charged by the tokens it reported. If it reported none, or the reply was lost, it counts
    against a limit with the most it can cost. Errors that a service reports instead of a completion cost nothing.
    """

    __slots__ = ("_budget", "_digest", "_request", "_reserved", "completion", "cost_usd", "sent")

    def __init__(self, budget: Budget, request: Request, digest: bytes) -> None:
        """`digest`: key of the completion in the cache."""
        self._budget, self._request, self._digest = budget, request, digest
        self._reserved: list[tuple[SpendingLimit, int]] = []
        self.sent = False
        """True once the request may have left."""
        self.completion: Completion | None = None
        """The completion, once it has arrived."""
        self.cost_usd: float | None = 0.0
        """US dollars charged; None if the price is unknown."""

    async def __aenter__(self) -> Self:
        """Reserve the most that the request can cost. Raises: BudgetError, StoreError, or the reason of a stop."""
        try:
            for limit in self._budget.limits:
                self._reserved.append((limit, await limit.reserve(self._request, self._digest)))
        except BaseException:
            self._settle(0.0)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Charge the cost instead of the reservation."""
        price = self._request.model.price
        usage = self._billed(error)
        self.cost_usd = None if price is None else cost_of(usage, price)
        self._budget.spent_usd += self.cost_usd or 0.0
        self._settle(self.cost_usd or 0.0)

    def _billed(self, error: BaseException | None) -> Usage:
        """Return the tokens to charge."""
        if self._reserved:
            from medhelm.models.limits.spending_limit import billed_within_limit  # lazy: most executions have no limit

            return billed_within_limit(self._request, self.completion, error) if self.sent else Usage()
        if self.completion is not None:
            return charged(self._request, self.completion)
        return error.usage if isinstance(error, BilledError) else Usage()

    def _settle(self, cost_usd: float) -> None:
        for limit, number in self._reserved:
            limit.settle(number, cost_usd)
