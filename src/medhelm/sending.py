"""In which order questions are sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from medhelm.domain import Benchmark, Instance
from medhelm.models.openings import CacheRates, in_turn
from medhelm.prompting import render
from medhelm.session import MAXIMUM_IN_FLIGHT

TOGETHER = 4 * MAXIMUM_IN_FLIGHT
"""Questions whose order is thought about together: they are in memory, and a benchmark may be larger than that."""


class Question(NamedTuple):
    """One instance, when its turn comes."""

    position: int
    """Its place among the instances."""
    instance: Instance
    shared: int
    """Characters of its prompt that others sent with it begin with too, if that makes them cheaper; else 0."""


def in_order_of_sending(
    benchmark: Benchmark, instances: Iterable[Instance], rates: CacheRates | None
) -> Iterator[Question]:
    """The instances in their own order, but for those whose long beginnings a cache at these `rates` makes cheaper."""
    if rates is None:
        yield from (Question(position, instance, 0) for position, instance in enumerate(instances))
        return
    waiting = enumerate(instances)
    while some := list(islice(waiting, TOGETHER)):
        prompts = ["".join(message.text for message in render(benchmark, one).messages) for _, one in some]
        for turn in in_turn(prompts, rates, ahead=MAXIMUM_IN_FLIGHT):
            yield Question(*some[turn.position], turn.shared)
