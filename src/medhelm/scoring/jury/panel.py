"""The judges at work: every completion goes to all of them at once, and each reply that cannot be read comes back once
with what was wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medhelm.domain import Benchmark, Completion, Failure, Instance, JudgeReply, Jury, Model, Prompt, Request
from medhelm.models.client import Client, ModelUnusable, Reply
from medhelm.models.provider import Provider
from medhelm.scoring.jury.prompts import Ask, asks, second_try
from medhelm.scoring.jury.scores import Heard, is_blank, shown_texts
from medhelm.scoring.jury.verdict import problem_of, read_judgments

REPLY_TOKENS = 4096
"""Limit on a judge's reply."""

REASONING_REPLY_TOKENS = 8192
"""The same for a judge that reasons before it answers, hidden reasoning included."""

Stored = Callable[[str, str, str], Sequence[JudgeReply]]
"""Model under test, benchmark and instance -> replies of judges that need not be asked again."""


class Panel:
    """The judges of a run, each with the provider that reaches it."""

    def __init__(
        self, jury: Jury, providers: Mapping[str, Provider], client: Client, stored: Stored | None = None
    ) -> None:
        """`providers`: judge -> how it is asked; a judge without one gives only what is `stored`."""
        self.jury = jury
        self.unusable: dict[str, str] = {}
        """Judge that had to be given up -> why."""
        self._providers = providers
        self._client = client
        self._stored = stored

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Judge -> how it is asked, of those that are."""
        return self._providers

    async def hear(self, model: str, benchmark: Benchmark, instance: Instance, completion: Completion) -> list[Heard]:
        """Everything the judges say of a completion of `model`; nothing of one that failed or has no word.

        Raises: BudgetError, Interrupted or StoreError when nothing more may be asked; what came in is in the cache.
        """
        rubric = benchmark.rubric
        assert rubric is not None, "only benchmarks with a rubric are judged"
        if completion.failure or is_blank(completion):
            return []
        asked = asks(benchmark, instance, completion.text or "")
        shown = shown_texts(instance, completion.text or "")

        def hear(said: JudgeReply, ask: Ask, **how: Any) -> Heard:
            read = read_judgments(said.judge, ask, said.completion, rubric=rubric, shown=shown)
            return Heard(reply=said, judgments=read, **how)

        stored = self._stored(model, benchmark.name, instance.id) if self._stored else []
        kept = [hear(said, asked[said.part], cached=True) for said in stored if said.part < len(asked)]
        work = [
            self._ask(judge, self._providers[judge.name], ask, hear)
            for judge in self.jury.judges
            if judge.name in self._providers
            for ask in asked
        ]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return kept + [one for outcome in outcomes if not isinstance(outcome, BaseException) for one in outcome]

    async def _ask(self, judge: Model, provider: Provider, ask: Ask, hear: Callable[..., Heard]) -> list[Heard]:
        """One prompt to one judge, and once more if its reply cannot be read."""
        said, how = await self._say(judge, provider, ask, ask.prompt, 0)
        first = hear(said, ask, **how)
        problem = problem_of(first.judgments)
        if not problem:
            return [first]
        prompt = second_try(ask, said.completion.text or "", problem)
        said, how = await self._say(judge, provider, ask, prompt, 1)
        return [first, hear(said, ask, **how)]

    async def _say(
        self, judge: Model, provider: Provider, ask: Ask, prompt: Prompt, attempt: int
    ) -> tuple[JudgeReply, dict[str, Any]]:
        """One request, and what it took; a judge that cannot be reached gives a reply that failed."""
        request = request_to_judge(judge, prompt, ask.schema)
        try:
            reply = await self._client.complete(provider, request)
        except ModelUnusable as error:
            self.unusable.setdefault(judge.name, str(error))
            failed = Completion(failure=Failure("judge", "unusable", str(error)))
            reply = Reply(failed, False, error.requests_sent, 0.0, request.digest)
        completion = reply.completion
        if completion.failure:
            completion = replace(completion, failure=replace(completion.failure, boundary="judge"))
        said = JudgeReply(
            judge=judge.name, part=ask.part, attempt=attempt, completion=completion, request_digest=reply.digest
        )
        return said, {"requests_sent": reply.requests_sent, "cached": reply.cached}


def request_to_judge(judge: Model, prompt: Prompt, schema: Mapping[str, Any] | None) -> Request:
    """The request that asks a judge this prompt."""
    return Request(model=judge, prompt=prompt, max_tokens=reply_limit(judge), schema=schema)


def reply_limit(judge: Model) -> int:
    """Tokens that a judge may write: its own limit, or that of its kind."""
    return judge.max_tokens or (REASONING_REPLY_TOKENS if judge.reasoning else REPLY_TOKENS)
