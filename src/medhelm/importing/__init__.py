"""From what other harnesses asked and scored to runs of ours in the store.

Readers of foreign files (`storage.helm_runs`, ...) hand over `ImportedRun`s; `take_in` makes one stored `Run` of one of
them, or of several that together are one benchmark here.
"""

from __future__ import annotations

from medhelm.foreign.benchmarks import library_of
from medhelm.importing.taking import Joined, Naming, Taken, Taker, joined, take_in

__all__ = ["Joined", "Naming", "Taken", "Taker", "joined", "library_of", "take_in"]
