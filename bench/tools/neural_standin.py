"""Two metrics in place of BERTScore, which needs torch: the same interface and the same arithmetic, with NumPy.

`standin_bertscore` computes five layers of DistilBERT's size (width 768, 12 heads, feed-forward 3,072) with random
weights for both texts, and matches the token vectors greedily, as BERTScore does. Its numbers mean nothing; its cost is
that of the metric on one CPU core. `standin_gpu` only waits, as a CPU does while a GPU computes.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medhelm.domain import Instance
from medhelm.scoring.metric import Metric, ScoreFunction

WIDTH, INNER, HEADS, LAYERS, LONGEST = 768, 3072, 12, 5, 512
"""Sizes of distilbert-base-uncased up to the layer that BERTScore uses."""

WAIT_S = float(os.environ.get("STANDIN_WAIT_S", "0.05"))
"""Time of one score on the GPU."""

Matrix = NDArray[np.floating[Any]]

LOG = os.environ.get("STANDIN_LOG", "")
"""File with the process and the moment of each score; empty: none."""

_ONE_AT_A_TIME = Lock()


@cache
def _weights() -> list[tuple[Matrix, ...]]:
    """Return the weights of all layers; made once in each process, as weights are loaded once."""
    rng = np.random.default_rng(0)
    shapes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, INNER), (INNER, WIDTH))
    return [tuple(rng.standard_normal(shape, dtype=np.float32) / 28 for shape in shapes) for _ in range(LAYERS)]


def _vectors(text: str) -> Matrix:
    """Return a unit vector for each word of a text, of shape (words, 768)."""
    words = text.split()[:LONGEST] or [""]
    seeds = [zlib.crc32(word.encode()) for word in words]
    states = np.stack([np.random.default_rng(seed).standard_normal(WIDTH, dtype=np.float32) for seed in seeds])
    for project, join, widen, narrow in _weights():
        query, key, value = (
            part.reshape(-1, HEADS, WIDTH // HEADS).swapaxes(0, 1) for part in np.split(states @ project, 3, axis=1)
        )
        scores = np.exp(np.clip(query @ key.swapaxes(1, 2) / 8, -30, 30))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        states = _normal(states + mixed.swapaxes(0, 1).reshape(-1, WIDTH) @ join)
        states = _normal(states + np.maximum(states @ widen, 0) @ narrow)
    unit: Matrix = states / np.linalg.norm(states, axis=1, keepdims=True)
    return unit


def _normal(states: Matrix) -> Matrix:
    normal: Matrix = (states - states.mean(1, keepdims=True)) / (states.std(1, keepdims=True) + 1e-6)
    return normal


@lru_cache(maxsize=256)
def _similarity(reference: str, completion: str) -> float:
    cosines = _vectors(completion) @ _vectors(reference).T
    precision, recall = float(cosines.max(1).mean()), float(cosines.max(0).mean())
    return max(0.0, min(1.0, 2 * precision * recall / (precision + recall))) if precision + recall > 0 else 0.0


@lru_cache(maxsize=256)
def _waited(reference: str, completion: str) -> float:
    time.sleep(WAIT_S)
    return (len(reference) + len(completion)) % 10 / 10


def _one_at_a_time(compare: Callable[[str, str], float]) -> ScoreFunction:
    """Return a rule that compares a completion with the reference, and logs the first comparison of each instance."""
    done: set[str] = set()

    def rule(completion: str, instance: Instance) -> float:
        with _ONE_AT_A_TIME:
            value = compare(instance.correct[0], completion)
            if LOG and instance.id.startswith("r") and instance.id not in done:  # no example for plug-ins
                done.add(instance.id)
                with Path(LOG).open("a", encoding="utf-8") as log:
                    log.write(f"{os.getpid()} {time.time()}\n")
            return value

    return rule


STANDIN_BERTSCORE, STANDIN_GPU = (
    Metric(
        name=name,
        title=name,
        description="In place of BERTScore, to measure speed.",
        source="bench",
        corrected=_one_at_a_time(compare),
        slow=True,
        neural=True,
    )
    for name, compare in (("standin_bertscore", _similarity), ("standin_gpu", _waited))
)
