"""What was spent, and when to stop."""

from __future__ import annotations

from medhelm.analysis.cost.prices import BATCH_FACTOR, cost_of, cost_with_batches
from medhelm.domain import Completion, Request, Usage
from medhelm.errors import BudgetError

__all__ = ["BATCH_FACTOR", "Budget", "charged", "cost_of", "cost_with_batches", "is_metered"]


def charged(request: Request, completion: Completion) -> Usage:
    """The usage that counts against a budget: as reported, or the most it can have been where nothing was reported.

    A service that reports no tokens must not look free: then every three characters of the prompt count as a token,
    more than any tokenizer makes of them, and the completion as long as it was allowed to be.
    """
    if is_metered(completion):
        return completion.usage
    characters = sum(len(message.text) for message in request.prompt.messages)
    return Usage(input=characters // 3 + 1, output=request.max_tokens)


def is_metered(completion: Completion) -> bool:
    """Whether the service reported tokens for a completion; one that failed without a text needs none."""
    return completion.text is None or completion.usage.input > 0


class Budget:
    """Counts what was bought in this execution against a limit.

    Money is charged when an answer arrives, since its price is not known before. So the limit can be passed, but by no
    more than the requests that were in flight when it was reached.
    """

    def __init__(self, limit_usd: float | None = None) -> None:
        """`limit_usd`: US dollars that may be spent; None: no limit."""
        self.limit_usd = limit_usd
        self.spent_usd = 0.0

    def charge(self, cost_usd: float) -> None:
        """Add the cost of an answer that has arrived."""
        self.spent_usd += cost_usd

    def check(self) -> None:
        """Raises: BudgetError if nothing more may be bought."""
        if self.limit_usd is not None and self.spent_usd >= self.limit_usd:
            raise BudgetError(
                f"stopped by the budget: {self.spent_usd:.4f} of {self.limit_usd:.4f} US dollars are spent. Everything "
                "received is kept; the same command with a higher --max-cost goes on from here, and `medhelm plan` "
                "with the same arguments says what is left to pay."
            )
