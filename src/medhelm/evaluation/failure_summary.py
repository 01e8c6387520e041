"""Summarize failed requests to models and judges: one message for each kind of failure, not one per request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from medhelm.domain import Failure
from medhelm.domain.text import plural
from medhelm.models.providers.errors.advice import ADVICE
from medhelm.scoring.jury.aggregation import JudgeVerdict

UNUSABLE = "unusable"
"""Failure code of requests that were not sent because their judge cannot be used."""


@dataclass(slots=True)
class _FailureKind:
    """One kind of failure of one model or judge."""

    count: int
    """Failed requests."""
    message: str
    """Message of the first of them."""


@dataclass(slots=True)
class FailureSummary:
    """The failed requests of a run by model or judge and by code, each with the message of the first.

    Only the numbers are stored with a run: messages of services may repeat what they were sent.
    """

    _found: dict[tuple[str, str], _FailureKind] = field(default_factory=dict)

    def add(self, name: str, failure: Failure) -> None:
        """Count one failure of a request to the model or judge of this name."""
        known = self._found.get((name, failure.code))
        if known is None:
            self._found[name, failure.code] = _FailureKind(1, failure.message)
        else:
            known.count += 1

    def add_judges(self, verdicts: Sequence[JudgeVerdict]) -> None:
        """Count failed requests to judges; a judge that cannot be used has a message of its own."""
        for one in verdicts:
            failure = one.reply.completion.failure
            if failure and not one.cached and failure.code != UNUSABLE:
                self.add(one.reply.judge, failure)

    @classmethod
    def of_all(cls, several: Iterable[FailureSummary]) -> FailureSummary:
        """Combine the failures of several runs."""
        together = cls()
        for summary in several:
            for key, kind in summary._found.items():
                known = together._found.setdefault(key, _FailureKind(0, kind.message))
                known.count += kind.count
        return together

    def sentences(self) -> list[str]:
        """Return a sentence for each kind: name, number, code, first message, and advice."""
        return [_sentence(name, code, kind) for (name, code), kind in self._found.items()]


def _sentence(name: str, code: str, kind: _FailureKind) -> str:
    said = kind.message.removeprefix(f"{name}: ").strip()
    if said and not said.endswith((".", "!", "?")):
        said += "."
    many = f"{plural(kind.count, 'request')} failed"
    return " ".join(filter(None, (f"{name}: {many} ({code}):", said, ADVICE.get(code, ""))))
