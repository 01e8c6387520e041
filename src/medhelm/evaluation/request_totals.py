"""Totals over the requests to one model or judge: counts, tokens, cost, and the versions that servers reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from medhelm.analysis.cost.prices import cost_with_batches
from medhelm.domain import Completion, Model, Usage
from medhelm.models.budget import is_metered


class RequestTotals:
    """Totals over the requests to one model or judge."""

    def __init__(self, model: Model) -> None:
        """Start at zero. `model`: the model or judge, with its price."""
        self.model = model
        self.requests_sent = self.requests_cached = 0
        self.usage = Usage()
        """Tokens of all completions, whenever they were bought."""
        self._batched = Usage()
        self._is_metered = True
        self._snapshots: Counter[str] = Counter()
        self._fingerprints: Counter[str] = Counter()
        self._refused_parts: Counter[str] = Counter()

    def add(self, completion: Completion, *, requests_sent: int, cached: bool) -> None:
        """Add a completion, the requests sent for it now, and whether it came from the cache."""
        self.requests_sent += requests_sent
        self.requests_cached += cached
        self.usage += completion.usage
        if completion.batched:
            self._batched += completion.usage
        if self.model.base_url and not is_metered(completion):
            self._is_metered = False
        if completion.reported_model:
            self._snapshots[completion.reported_model] += 1
        if completion.fingerprint:
            self._fingerprints[completion.fingerprint] += 1
        if completion.refused_parameters:
            self._refused_parts.update(completion.refused_parameters)

    @property
    def cost_usd(self) -> float | None:
        """Price of all completions, whenever they were bought; None if the price or the tokens are unknown."""
        price = self.model.price
        return None if price is None or not self._is_metered else cost_with_batches(self.usage, self._batched, price)

    @property
    def snapshots(self) -> dict[str, int]:
        """Model version that servers reported -> completions, most frequent first."""
        return by_frequency(self._snapshots)

    @property
    def fingerprints(self) -> dict[str, int]:
        """System fingerprint that servers reported -> completions, most frequent first."""
        return by_frequency(self._fingerprints)

    @property
    def refused_parameters(self) -> dict[str, int]:
        """Optional part of a request that servers refused -> completions made without it, most frequent first."""
        return by_frequency(self._refused_parts)


def by_frequency(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts sorted by frequency, then name, so that they do not depend on the order of arrival."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
