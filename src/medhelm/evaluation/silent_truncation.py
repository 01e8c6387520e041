"""Find runs whose longest prompts have one and the same count of tokens: their server truncated them silently.

A single count shows this only if it is below the number of words (`models.providers.errors`). In a whole run a smaller
cut shows, too: counts grow with the prompts, and stop at one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from medhelm.domain import Run
from medhelm.domain.result import Remark
from medhelm.evaluation.context_window import n_truncated
from medhelm.models.providers.errors import LEAST_REPORTED
from medhelm.storage.store import Store
from medhelm.storage.token_usage import prompt_characters, read_sent

MOST_READ = 5_000
"""Most prompts of a run to look at."""

FEWEST = 3
"""Fewest prompts with the same count, and with lower ones."""

SPREAD = 1.05
"""Least ratio of the longest prompt of a plateau to its shortest, and to the length that its count allows at the fewest
tokens per character of all other prompts."""


class Plateau(NamedTuple):
    """The count at which the tokens of a run's prompts stop."""

    tokens: int
    """The count."""
    n: int
    """Prompts with it."""


def find_plateau(prompts: Sequence[tuple[int, int]]) -> Plateau | None:
    """Return the plateau of a run; None if there is none. `prompts`: characters and tokens of each.

    >>> find_plateau([(n, min(n // 4, 2048)) for n in range(4000, 10_000, 100)])
    Plateau(tokens=2048, n=18)
    """
    counted = [(characters, tokens) for characters, tokens in prompts if tokens >= LEAST_REPORTED]
    top = max((tokens for _, tokens in counted), default=0)
    same = [characters for characters, tokens in counted if tokens == top]
    lower = [tokens / characters for characters, tokens in counted if tokens < top]
    if min(len(same), len(lower)) < FEWEST:
        return None
    is_plateau = max(same) >= SPREAD * min(same) and SPREAD * top / max(same) <= min(lower)
    return Plateau(top, len(same)) if is_plateau else None


def plateau_remarks(runs: Iterable[Run], store: Store) -> list[Remark]:
    """Return a remark for each stored run whose longest prompts have the same count of tokens."""
    remarks = []
    for run in runs:
        sent = read_sent(run, MOST_READ)
        counts = [one.tokens for one in sent]
        file = store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
        # Of most runs, few prompts have the highest count, and their prompts need not be read.
        characters = prompt_characters(file, MOST_READ) if counts.count(max(counts, default=0)) >= FEWEST else {}
        lengths = [(characters.get(one.instance_id, 0), one) for one in sent]
        pairs = [(whole - n_truncated(one.left_out, whole), one.tokens) for whole, one in lengths if whole]
        if found := find_plateau(pairs):
            text = (
                f"{run.model} on {run.title}: {found.n:,} prompts have different lengths, but the server counted "
                f"{found.tokens:,} tokens in each, the most of all. It probably truncated them without saying so. "
                "Start it with a larger context window, or set its `window` in models.yaml."
            )
            remarks.append(Remark("truncated_by_server", run.model, text))
    return remarks
