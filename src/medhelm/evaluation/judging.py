"""The judges of an evaluation, or none: what a run asks for after each completion."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from medhelm.domain import Benchmark, Completion, InjectionSign, Instance, Jury, JuryVerdict
from medhelm.models.provider import Provider
from medhelm.scoring.jury.aggregation import JudgeVerdict, injection_signs, jury_verdict
from medhelm.scoring.jury.panel import JudgePanel

MAXIMUM_JUDGED = 256
"""Completions that wait for judges, at most: models wait for judges, so that completions do not pile up."""


class CompletionJudgment(NamedTuple):
    """The judges' work on one completion."""

    replies: Sequence[JudgeVerdict] = ()
    """The judges' completions, with the judgments in them."""
    verdict: JuryVerdict | None = None
    """The jury's scores; None without a jury."""
    injection_signs: Sequence[InjectionSign] = ()
    """Signs of a prompt injection in the completion."""


class RunPanel(Protocol):
    """Judges the completions of a run."""

    jury: Jury | None
    """The judges; None if there are none."""
    unusable: Mapping[str, str]
    """Judge that cannot be used -> the reason."""
    providers: Mapping[str, Provider]
    """Judge -> its provider."""

    async def reserve(self) -> None:
        """Wait until the judges have room for one more completion."""

    def release(self) -> None:
        """Give back the room that `reserve` took."""

    async def judge(
        self, model: str, benchmark: Benchmark, instance: Instance, completion: Completion
    ) -> CompletionJudgment:
        """Judge a completion. Raises BudgetError or Interrupted if nothing more can be requested."""


class NullPanel:
    """The panel of runs without judges: it asks for nothing and adds nothing."""

    jury: Jury | None = None

    def __init__(self) -> None:
        """Make a panel without judges."""
        self.unusable: Mapping[str, str] = {}
        self.providers: Mapping[str, Provider] = {}

    async def reserve(self) -> None:
        """Return at once."""

    def release(self) -> None:
        """Do nothing."""

    async def judge(
        self,
        model: str,  # noqa: ARG002
        benchmark: Benchmark,  # noqa: ARG002
        instance: Instance,  # noqa: ARG002
        completion: Completion,  # noqa: ARG002
    ) -> CompletionJudgment:
        """Return no judgments."""
        return CompletionJudgment()


class JuryPanel:
    """The judges of a jury, for a bounded number of completions at a time."""

    def __init__(self, panel: JudgePanel) -> None:
        """Judge with this panel."""
        self.jury: Jury | None = panel.jury
        self.unusable: Mapping[str, str] = panel.unusable
        self.providers: Mapping[str, Provider] = panel.providers
        self._jury, self._panel = panel.jury, panel
        self._room = asyncio.Semaphore(MAXIMUM_JUDGED)

    async def reserve(self) -> None:
        """Wait until fewer than `MAXIMUM_JUDGED` completions wait for judges."""
        await self._room.acquire()

    def release(self) -> None:
        """Give back the room that `reserve` took."""
        self._room.release()

    async def judge(
        self, model: str, benchmark: Benchmark, instance: Instance, completion: Completion
    ) -> CompletionJudgment:
        """Send a completion to all judges at once. Raises BudgetError or Interrupted."""
        replies = await self._panel.hear(model, benchmark, instance, completion)
        return CompletionJudgment(
            replies,
            jury_verdict(benchmark, instance, completion, self._jury, replies),
            injection_signs(benchmark, instance, completion),
        )
