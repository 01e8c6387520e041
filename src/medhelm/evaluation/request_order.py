"""In which order questions are sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Instance
from medhelm.evaluation.session import MAXIMUM_IN_FLIGHT
from medhelm.models.prompt_caching import CachePrices, order_by_shared_prefix

TOGETHER, CHARACTERS = 4 * MAXIMUM_IN_FLIGHT, 8_000_000
"""Questions whose order is thought about together, and the characters that they may have about: they are in memory, and
a benchmark may be larger than that."""


class QueuedInstance(NamedTuple):
    """One instance, when its turn comes."""

    position: int
    """Its place among the instances."""
    instance: Instance
    shared: int
    """Characters of its prompt that others sent with it begin with too, if that makes them cheaper; else 0."""


def in_request_order(
    benchmark: Benchmark, instances: Iterable[Instance], rates: CachePrices | None
) -> Iterator[QueuedInstance]:
    """The instances in their own order, but for those whose long beginnings a cache at these `rates` makes cheaper."""
    if rates is None:
        yield from (QueuedInstance(position, instance, 0) for position, instance in enumerate(instances))
        return
    for portion in _portions(benchmark, instances):
        for turn in order_by_shared_prefix([text for _, _, text in portion], rates, ahead=MAXIMUM_IN_FLIGHT):
            position, instance, _ = portion[turn.position]
            yield QueuedInstance(position, instance, turn.shared)


def _portions(benchmark: Benchmark, instances: Iterable[Instance]) -> Iterator[list[tuple[int, Instance, str]]]:
    """Instances with their places and the texts of their prompts, as many at a time as are thought about together."""
    portion: list[tuple[int, Instance, str]] = []
    size = 0
    for position, instance in enumerate(instances):
        text = "".join(message.text for message in render(benchmark, instance).messages)
        portion.append((position, instance, text))
        size += len(text)
        if len(portion) == TOGETHER or size >= CHARACTERS:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
