"""The budget: counts costs and stops at a limit."""

from __future__ import annotations

from medhelm.domain import Completion, Request, Usage
from medhelm.errors import BudgetError


def charged(request: Request, completion: Completion) -> Usage:
    """Return the usage to charge: as reported, or an upper bound if the service reports no tokens.

    The upper bound counts a token per three characters of the prompt, more than any tokenizer, and a completion up to
    its limit.
    """
    if is_metered(completion):
        return completion.usage
    characters = sum(len(message.text) for message in request.prompt.messages)
    return Usage(input=characters // 3 + 1, output=request.max_tokens)


def is_metered(completion: Completion) -> bool:
    """Return True if the service reported tokens; a completion without a text needs none."""
    return completion.text is None or completion.usage.input > 0


class Budget:
    """Counts the costs of this execution against a limit.

    A completion is charged when it arrives, since its cost is not known before. So costs can exceed the limit, but only
    by the requests in flight when it is reached.
    """

    def __init__(self, limit_usd: float | None = None) -> None:
        """`limit_usd`: limit in US dollars; None: no limit."""
        self.limit_usd = limit_usd
        self.spent_usd = 0.0

    def charge(self, cost_usd: float) -> None:
        """Add the cost of a completion."""
        self.spent_usd += cost_usd

    def check(self) -> None:
        """Raises: BudgetError if nothing more may be bought."""
        if self.limit_usd is not None and self.spent_usd >= self.limit_usd:
            raise BudgetError(
                f"stopped by the budget: {self.spent_usd:.4f} of {self.limit_usd:.4f} US dollars are spent. Everything "
                "received is kept; the same command with a higher --max-cost continues from here, and `medhelm plan` "
                "with the same arguments shows the remaining cost."
            )
