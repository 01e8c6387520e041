"""The prices that the costs of stored runs are computed with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from medhelm.domain import Model, Price
from medhelm.domain.text import AnyPaths, as_paths
from medhelm.errors import MedHelmError
from medhelm.models.prices import price_of

if TYPE_CHECKING:
    from medhelm.models.price_book import PriceBook

ModelFinder = Callable[[str], Model | None]
"""Name of a model -> the model as configured now; None if unknown."""


def find_no_model(_: str) -> Model | None:
    """Find no model."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """Prices to use for the bill."""

    books: Sequence[PriceBook] = ()
    """Prices given by the user; they take precedence."""
    day: date | None = None
    """Date of the prices; None: the day of each run."""
    find_model: ModelFinder = find_no_model
    """Finds the models of runs that do not record them."""

    def price(self, model: Model, then: date) -> Price | None:
        """Return the price of a model: from the books, from its run, or from the price lists of the day."""
        recorded = model.price
        # Prices in models.yaml have no date; others are looked up again for another day.
        if self.day is not None and recorded is not None and recorded.source != "models.yaml":
            recorded = None
        return price_of(replace(model, price=recorded), self.day or then, self.books)


def read_pricing(prices: Pricing | AnyPaths | None) -> Pricing | None:
    """Return the prices in some files. Raises: ConfigError for a wrong file."""
    if prices is None or isinstance(prices, Pricing):
        return prices
    from medhelm.models.catalog import find_models
    from medhelm.models.price_book import read_price_books

    files = [str(path) for path in as_paths(prices, "pricing")]
    if not files:
        return None
    return Pricing(books=read_price_books(files), find_model=model_finder(find_models))


def model_finder(find: Callable[[Sequence[str]], Sequence[Model]]) -> ModelFinder:
    """Return a finder that gives None where `find` raises for an unknown name."""

    def find_model(name: str) -> Model | None:
        try:
            return find([name])[0]
        except MedHelmError:
            return None

    return find_model
