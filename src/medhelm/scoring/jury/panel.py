"""Send every completion to all judges at once, and retry each unreadable reply once with its problem."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.domain import (
    Benchmark,
    Completion,
    Failure,
    InjectionSign,
    Instance,
    JudgeReply,
    Jury,
    JuryVerdict,
    Model,
    Prompt,
    Request,
    Rubric,
)
from medhelm.models.client import ClientResult, ModelUnusable
from medhelm.models.prompt_caching import cache_prices, shared_prefix
from medhelm.models.provider import Provider
from medhelm.scoring.jury.aggregation import JudgeVerdict, injection_signs, is_judged, jury_verdict, shown_texts

if TYPE_CHECKING:
    from medhelm.scoring.jury.prompts import JudgePrompt

REPLY_TOKENS = 4096
"""Token limit of a judge's reply."""

REASONING_REPLY_TOKENS = 8192
"""Token limit for a judge that reasons before it answers, hidden reasoning included."""

MAXIMUM_JUDGED = 256
"""Completions that wait for judges, at most: models wait for judges, so that completions do not pile up."""

StoredReplies = Callable[[str, str, str], Sequence[JudgeReply]]
"""Model under test, benchmark and instance -> stored replies, which need no new request."""

Complete = Callable[[Provider, Request, Benchmark], Awaitable[ClientResult]]
"""Sends a request. A prompt that does not fit the judge's context window is a failure; it is never truncated."""


IsKnown = Callable[[Request], bool]
"""Returns True if the reply to a request was bought before."""


class CompletionJudgment(NamedTuple):
    """The judges' work on one completion."""

    verdicts: Sequence[JudgeVerdict]
    """The verdict in each reply of a judge."""
    verdict: JuryVerdict
    """The jury's scores."""
    injection_signs: Sequence[InjectionSign]
    """Signs of a prompt injection in the completion."""


class JudgePanel:
    """The judges of a run and their providers. They judge a bounded number of completions at a time."""

    def __init__(
        self,
        jury: Jury,
        providers: Mapping[str, Provider],
        complete: Complete,
        stored: StoredReplies | None = None,
        is_known: IsKnown | None = None,
        *,
        with_codes: bool = True,
    ) -> None:
        """`providers`: judge -> provider; a judge without one has only `stored` replies. `is_known`: see
        `judge_request`. `with_codes`: False to ask for no verification codes.
        """
        self.jury, self.providers = jury, providers
        self.unusable: dict[str, str] = {}
        """Judge that cannot be used -> reason."""
        self._complete = complete
        self._stored = stored
        self._is_known = is_known
        self._with_codes = with_codes
        self.room = asyncio.Semaphore(MAXIMUM_JUDGED)
        """Held for each completion that is requested or judged."""

    async def judge(
        self, model: str, benchmark: Benchmark, instance: Instance, completion: Completion
    ) -> CompletionJudgment:
        """Have all judges judge a completion of `model`; they are not asked if it failed, is empty or too long.

        Raises BudgetError, Interrupted or StoreError if no more requests can be sent. Received replies stay cached.
        """
        verdicts = await self._verdicts(model, benchmark, instance, completion)
        return CompletionJudgment(
            verdicts,
            jury_verdict(benchmark, instance, completion, self.jury, verdicts),
            injection_signs(benchmark, instance, completion),
        )

    async def _verdicts(
        self, model: str, benchmark: Benchmark, instance: Instance, completion: Completion
    ) -> list[JudgeVerdict]:
        from medhelm.scoring.jury.prompts import judge_prompts  # lazy, like all of judging: most runs have no judges

        rubric = benchmark.rubric
        assert rubric is not None, "only benchmarks with a rubric are judged"
        if not is_judged(completion):
            return []
        text = completion.text or ""
        prompts = judge_prompts(benchmark, instance, text, with_codes=self._with_codes)
        case = _Case(benchmark, rubric, shown_texts(instance, text))
        stored = self._stored(model, benchmark.name, instance.id) if self._stored else []
        verdicts = [
            case.verdict(
                replace(prompts[reply.prompt_index], verification_code=reply.verification_code), reply, cached=True
            )
            for reply in stored
            if reply.prompt_index < len(prompts)
        ]
        work = [
            self._ask(judge, prompt, case, shared)
            for judge in self.jury.judges
            if judge.name in self.providers
            for shared in [_shared(prompts, judge)]
            for prompt in prompts
        ]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            verdicts += outcome
        return verdicts

    async def _ask(self, judge: Model, prompt: JudgePrompt, case: _Case, shared: int) -> list[JudgeVerdict]:
        """Send one prompt to one judge, and retry once if its reply cannot be read."""
        from medhelm.scoring.jury.parsing import retry_reason
        from medhelm.scoring.jury.prompts import retry_prompt

        name = case.benchmark.name
        prompt, request = judge_request(judge, prompt, shared, self._is_known, benchmark=name)
        first = await self._send(request, prompt, case, attempt=0)
        reason = retry_reason(first.judgments)
        if not reason:
            return [first]
        again = retry_prompt(prompt, first.reply.completion.text or "", reason)
        request = request_to_judge(judge, again, prompt.schema, benchmark=name)
        return [first, await self._send(request, prompt, case, attempt=1)]

    async def _send(self, request: Request, prompt: JudgePrompt, case: _Case, *, attempt: int) -> JudgeVerdict:
        """Send one request. A judge that cannot be used gives a failed reply."""
        judge = request.model
        try:
            result = await self._complete(self.providers[judge.name], request, case.benchmark)
        except ModelUnusable as error:
            self.unusable.setdefault(judge.name, str(error))
            failed = Completion(failure=Failure("judge", "unusable", str(error)))
            result = ClientResult(failed, False, error.requests_sent, 0.0, request.digest)
        completion = result.completion
        if completion.failure:
            completion = replace(completion, failure=replace(completion.failure, boundary="judge"))
        reply = JudgeReply(
            judge=judge.name,
            prompt_index=prompt.part,
            attempt=attempt,
            completion=completion,
            request_digest=result.digest,
            verification_code=prompt.verification_code,
        )
        return case.verdict(prompt, reply, requests_sent=result.requests_sent, cached=result.cached)


@dataclass(frozen=True, slots=True)
class _Case:
    """One completion to judge."""

    benchmark: Benchmark
    rubric: Rubric
    shown: tuple[str, ...]
    """All texts that judges read."""

    def verdict(
        self, prompt: JudgePrompt, reply: JudgeReply, *, requests_sent: int = 0, cached: bool = False
    ) -> JudgeVerdict:
        """Parse a reply."""
        from medhelm.scoring.jury.parsing import parse_judgments

        judgments = parse_judgments(
            reply.judge,
            prompt.criteria,
            reply.completion,
            rubric=self.rubric,
            shown=self.shown,
            code=prompt.verification_code,
        )
        return JudgeVerdict(reply=reply, judgments=judgments, requests_sent=requests_sent, cached=cached)


def request_to_judge(
    judge: Model, prompt: Prompt, schema: Mapping[str, Any] | None, shared: int = 0, *, benchmark: str = ""
) -> Request:
    """Build the request to a judge; `shared`: leading characters that its other prompts have in common."""
    return Request(
        model=judge,
        prompt=prompt,
        max_tokens=judge_max_tokens(judge),
        schema=schema,
        shared_characters=shared,
        benchmark=benchmark,
    )


def judge_request(
    judge: Model, prompt: JudgePrompt, shared: int = 0, is_known: IsKnown | None = None, *, benchmark: str = ""
) -> tuple[JudgePrompt, Request]:
    """Return the first request to a judge, and its prompt.

    With `is_known`, a reply that was bought without a verification code is not bought again: then this is the prompt
    without one. Its verdict counts as it did, unless it is a copy.
    """
    request = request_to_judge(judge, prompt.prompt, prompt.schema, shared, benchmark=benchmark)
    if prompt.verification_code and is_known is not None and not is_known(request):
        from medhelm.scoring.jury.prompts import without_code

        earlier = without_code(prompt)
        bought = request_to_judge(judge, earlier.prompt, earlier.schema, shared, benchmark=benchmark)
        if is_known(bought):
            return earlier, bought
    return prompt, request


def _shared(prompts: Sequence[JudgePrompt], judge: Model) -> int:
    """Return the length of the common prefix of all prompts, if the judge's provider has a prompt cache; else 0."""
    prices = cache_prices(judge) if len(prompts) > 1 else None
    texts = ["".join(message.text for message in one.prompt.messages) for one in prompts] if prices else []
    return shared_prefix(texts, prices) if prices else 0


def judge_max_tokens(judge: Model) -> int:
    """Return the token limit of a judge: its own, or the default of its kind."""
    return judge.max_tokens or (REASONING_REPLY_TOKENS if judge.reasoning else REPLY_TOKENS)
