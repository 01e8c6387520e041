"""The judges at work: every completion goes to all of them at once, and each reply that cannot be read comes back once
with what was wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medhelm.domain import Benchmark, Completion, Failure, Instance, JudgeReply, Jury, Model, Prompt, Request
from medhelm.models.client import ClientResult, ModelUnusable
from medhelm.models.prompt_caching import cache_prices, shared_prefix
from medhelm.models.provider import Provider
from medhelm.scoring.jury.aggregation import JudgeVerdict, is_blank, shown_texts
from medhelm.scoring.jury.parsing import parse_judgments, retry_reason
from medhelm.scoring.jury.prompts import JudgePrompt, judge_prompts, retry_prompt

REPLY_TOKENS = 4096
"""Limit on a judge's reply."""

REASONING_REPLY_TOKENS = 8192
"""The same for a judge that reasons before it answers, hidden reasoning included."""

Stored = Callable[[str, str, str], Sequence[JudgeReply]]
"""Model under test, benchmark and instance -> replies of judges that need not be asked again."""

Asking = Callable[[Provider, Request, Benchmark], Awaitable[ClientResult]]
"""Gets the reply to a request, or a failure where the prompt does not fit the judge: nothing is left out of it."""


class JudgePanel:
    """The judges of a run, each with the provider that reaches it."""

    def __init__(
        self, jury: Jury, providers: Mapping[str, Provider], asking: Asking, stored: Stored | None = None
    ) -> None:
        """`providers`: judge -> how it is reached; a judge without one gives only what is `stored`."""
        self.jury = jury
        self.unusable: dict[str, str] = {}
        """Judge that had to be given up -> why."""
        self._providers = providers
        self._asking = asking
        self._stored = stored

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Judge -> how it is reached, of those that are asked."""
        return self._providers

    async def hear(
        self, model: str, benchmark: Benchmark, instance: Instance, completion: Completion
    ) -> list[JudgeVerdict]:
        """Everything the judges say of a completion of `model`; nothing of one that failed or has no word.

        Raises: BudgetError, Interrupted or StoreError when nothing more may be asked; what came in is in the cache.
        """
        rubric = benchmark.rubric
        assert rubric is not None, "only benchmarks with a rubric are judged"
        if completion.failure or is_blank(completion):
            return []
        asked = judge_prompts(benchmark, instance, completion.text or "")
        shown = shown_texts(instance, completion.text or "")

        def hear(said: JudgeReply, ask: JudgePrompt, **how: Any) -> JudgeVerdict:
            read = parse_judgments(said.judge, ask, said.completion, rubric=rubric, shown=shown)
            return JudgeVerdict(reply=said, judgments=read, **how)

        stored = self._stored(model, benchmark.name, instance.id) if self._stored else []
        kept = [hear(said, asked[said.prompt_index], cached=True) for said in stored if said.prompt_index < len(asked)]
        work = [
            self._ask(judge, benchmark, ask, hear, shared)
            for judge in self.jury.judges
            if judge.name in self._providers
            for shared in [_shared(asked, judge)]
            for ask in asked
        ]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return kept + [one for outcome in outcomes if not isinstance(outcome, BaseException) for one in outcome]

    async def _ask(
        self, judge: Model, benchmark: Benchmark, ask: JudgePrompt, hear: Callable[..., JudgeVerdict], shared: int
    ) -> list[JudgeVerdict]:
        """One prompt to one judge, and once more if its reply cannot be read."""
        request = request_to_judge(judge, ask.prompt, ask.schema, shared)
        said, how = await self._say(request, benchmark, ask.part, 0)
        first = hear(said, ask, **how)
        problem = retry_reason(first.judgments)
        if not problem:
            return [first]
        request = request_to_judge(judge, retry_prompt(ask, said.completion.text or "", problem), ask.schema)
        said, how = await self._say(request, benchmark, ask.part, 1)
        return [first, hear(said, ask, **how)]

    async def _say(
        self, request: Request, benchmark: Benchmark, part: int, attempt: int
    ) -> tuple[JudgeReply, dict[str, Any]]:
        """One request, and what it took; a judge that cannot be reached gives a reply that failed."""
        judge = request.model
        try:
            reply = await self._asking(self._providers[judge.name], request, benchmark)
        except ModelUnusable as error:
            self.unusable.setdefault(judge.name, str(error))
            failed = Completion(failure=Failure("judge", "unusable", str(error)))
            reply = ClientResult(failed, False, error.requests_sent, 0.0, request.digest)
        completion = reply.completion
        if completion.failure:
            completion = replace(completion, failure=replace(completion.failure, boundary="judge"))
        said = JudgeReply(
            judge=judge.name, prompt_index=part, attempt=attempt, completion=completion, request_digest=reply.digest
        )
        return said, {"requests_sent": reply.requests_sent, "cached": reply.cached}


def request_to_judge(judge: Model, prompt: Prompt, schema: Mapping[str, Any] | None, shared: int = 0) -> Request:
    """The request that asks a judge this prompt, of which others to it `shared` the first so many characters."""
    return Request(
        model=judge, prompt=prompt, max_tokens=judge_max_tokens(judge), schema=schema, shared_characters=shared
    )


def _shared(asked: Sequence[JudgePrompt], judge: Model) -> int:
    """Characters that all prompts about one completion begin with, if the cache of the judge's provider saves them."""
    rates = cache_prices(judge) if len(asked) > 1 else None
    texts = ["".join(message.text for message in ask.prompt.messages) for ask in asked] if rates else []
    return shared_prefix(texts, rates) if rates else 0


def judge_max_tokens(judge: Model) -> int:
    """Tokens that a judge may write: its own limit, or that of its kind."""
    return judge.max_tokens or (REASONING_REPLY_TOKENS if judge.reasoning else REPLY_TOKENS)
