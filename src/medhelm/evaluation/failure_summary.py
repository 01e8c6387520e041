"""What went wrong while models and judges were asked, told once for each kind of trouble and not once per request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from medhelm.domain import Failure
from medhelm.domain.text import plural
from medhelm.models.providers.errors.advice import ADVICE
from medhelm.scoring.jury.aggregation import JudgeVerdict

UNUSABLE = "unusable"
"""Code of what was never asked of a judge, because it was given up."""


@dataclass(slots=True)
class _Trouble:
    """One kind of failure of one model or judge."""

    count: int
    """Requests that failed so."""
    words: str
    """What was said of the first of them."""


@dataclass(slots=True)
class FailureSummary:
    """The failures of a run's requests by who was asked and by code, each with the words of the first.

    Only the numbers are stored with a run: words of services may repeat what they were sent.
    """

    _found: dict[tuple[str, str], _Trouble] = field(default_factory=dict)

    def add(self, name: str, failure: Failure) -> None:
        """Count one failure of a request to the model or judge of this name."""
        known = self._found.get((name, failure.code))
        if known is None:
            self._found[name, failure.code] = _Trouble(1, failure.message)
        else:
            known.count += 1

    def add_judges(self, heard: Sequence[JudgeVerdict]) -> None:
        """Count the replies of judges that failed now; a judge that was given up is told of by itself."""
        for one in heard:
            failure = one.reply.completion.failure
            if failure and not one.cached and failure.code != UNUSABLE:
                self.add(one.reply.judge, failure)

    @classmethod
    def of_all(cls, several: Iterable[FailureSummary]) -> FailureSummary:
        """Those of several runs together."""
        together = cls()
        for troubles in several:
            for key, trouble in troubles._found.items():
                known = together._found.setdefault(key, _Trouble(0, trouble.words))
                known.count += trouble.count
        return together

    def sentences(self) -> list[str]:
        """One sentence for each kind: who, how often, its code, what was said first, and what to do."""
        return [_told(name, code, trouble) for (name, code), trouble in self._found.items()]


def _told(name: str, code: str, trouble: _Trouble) -> str:
    said = trouble.words.removeprefix(f"{name}: ").strip()
    if said and not said.endswith((".", "!", "?")):
        said += "."
    many = f"{plural(trouble.count, 'request')} failed"
    return " ".join(filter(None, (f"{name}: {many} ({code}):", said, ADVICE.get(code, ""))))
