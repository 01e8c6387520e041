"""Fit requests to the context windows of models: truncate the prompt, or refuse to send it.

The tokens of a prompt are known only after the provider has counted them, and estimates improve as completions arrive.
A prompt truncated by another estimate would be another prompt, and would be bought again. So prompts are truncated to
one of a few fixed lengths, and a completion that was bought for any of them before is used first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from medhelm.analysis.cost.token_estimates import UNTESTED_ERROR
from medhelm.domain import Benchmark, Completion, Failure, FailureCode, Model, Request
from medhelm.evaluation.context_window.token_ratios import RunHistory, TokenEstimator
from medhelm.evaluation.context_window.truncate import n_characters, truncate_to
from medhelm.models.client import Client, ClientResult, ModelUnusable
from medhelm.models.prices import known_window
from medhelm.models.provider import Provider
from medhelm.storage.store import Store

PROMPT_TOKENS, MESSAGE_TOKENS = 16, 8
"""Most tokens that chat templates add to a prompt, and to each of its messages."""

LENGTHS = tuple(6 / 1.15**step for step in range(16))
"""Lengths that prompts are truncated to, in characters per token of room, longest first: from plain English with a
large vocabulary (6) to text in which nearly every character is a token (0.7)."""

OLLAMA_PORT = 11434
"""Default port of Ollama."""

_NUMBER = r"([1-9][\d,]{2,11})"
_STATED_WINDOW = re.compile(
    "|".join(
        phrase.replace("N", _NUMBER)
        for phrase in (
            *(r"maximum (?:context|model|prompt) length(?: is| of|:) N", "with N maximum context length"),
            *("context length (?:is|of) only N", r"context (?:size|window|length) (?:is |of )?\(?N", "n_ctx: N"),
            *(r"maximum number of (?:input )?tokens(?: allowed)? \(N", "only supports up to N", "token limit: N"),
            *("configured limit of N", "limit for this model is N", "while limit is N", "max size: N"),
            *("must be <= N", "must have less than N", r"length should be \[\d+, ?N", r"> N(?: maximum|$|[^\d])"),
            *("the model can hold N", "with a window of N"),  # in this process, and of Ollama
        )
    )
)
"""Phrases in which servers state their context window when a prompt is too long."""


@dataclass(frozen=True, slots=True)
class FittedRequest:
    """A request that fits the model, or the failure that replaces it."""

    request: Request
    """The request; its prompt fits, by estimate."""
    left_out: int = 0
    """Characters removed from the prompt."""
    failure: Failure | None = None
    """The failure, if nothing is sent."""


def _added(first: ClientResult, second: ClientResult) -> ClientResult:
    """Return the second result, with the requests and the cost of both."""
    costs = (first.cost_usd, second.cost_usd)
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    return replace(second, requests_sent=first.requests_sent + second.requests_sent, cost_usd=cost)


@dataclass(frozen=True, slots=True)
class _Step:
    """One of the lengths that a prompt can be truncated to."""

    per_token: float
    """Its characters per token of room."""
    fit: FittedRequest


class ContextFitter:
    """Sends requests that fit the context windows of models, and learns these windows."""

    def __init__(
        self,
        estimator: TokenEstimator,
        known: Callable[[Request], bool],
        note: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`known`: returns True if the completion of a request was bought; `note`: shows a message."""
        self.estimator = estimator
        self._known, self._note = known, note
        self._windows: dict[str, int | None] = {}
        self._reasoning: set[str] = set()

    @classmethod
    def of(cls, store: Store, known: Callable[[Request], bool], note: Callable[[str], object]) -> ContextFitter:
        """Make a fitter that learns lengths from the runs of a store; they are read when they are first needed."""
        return cls(TokenEstimator(lambda: RunHistory(store)), known, note)

    def window(self, model: Model) -> int | None:
        """Return the context window of a model in tokens, for prompt and completion together; None if it is unknown."""
        if model.name not in self._windows:
            self._windows[model.name] = known_window(model)
        return self._windows[model.name]

    async def ask(self, client: Client, provider: Provider, request: Request, benchmark: Benchmark) -> ClientResult:
        """Send a request, with its prompt truncated if necessary, and further if the server finds it too long.

        A model that reasons, as its replies show, gets the limit of reasoning models, if its prompt need not be
        truncated for that. Completions that were bought before, with either limit, are used first.
        Raises what `Client.complete` raises.
        """
        if provider.local:
            return await self._ask(client, provider, request, benchmark)
        from medhelm.models.reasoning import needs_room, with_room  # lazy: baselines do not reason

        roomy = with_room(request)
        if roomy is None or not self._fits_whole(roomy, benchmark):
            return await self._ask(client, provider, request, benchmark)
        if request.model.name in self._reasoning and not self._known(request):
            return await self._ask(client, provider, roomy, benchmark)
        first = await self._ask(client, provider, request, benchmark)
        if not needs_room(first.completion, request):
            return first
        self.say_that_it_reasons(request, roomy)
        return _added(first, await self._ask(client, provider, roomy, benchmark))

    def _fits_whole(self, request: Request, benchmark: Benchmark) -> bool:
        """Return True if a request is sent with its whole prompt."""
        fit = self.fit(request, benchmark)
        return fit.failure is None and not fit.left_out

    def roomier(self, request: Request, completion: Completion, benchmark: Benchmark) -> Request | None:
        """Return what `ask` sends next because reasoning used up the limit of a request; None if there is nothing."""
        from medhelm.models.reasoning import needs_room, with_room  # lazy, as in `ask`

        roomy = with_room(request)
        if roomy is None or not needs_room(completion, request) or not self._fits_whole(roomy, benchmark):
            return None
        return roomy

    def say_that_it_reasons(self, request: Request, roomy: Request) -> None:
        """Remember that a model reasons, and say so once."""
        name = request.model.name
        if name not in self._reasoning:
            self._reasoning.add(name)
            self._note(
                f"{name} reasons before it answers, and used up its limit of {request.max_tokens:,} tokens without an "
                f"answer. Its requests now allow {roomy.max_tokens:,} tokens, which may cost more; `max_tokens` in "
                "models.yaml sets another limit."
            )

    async def _ask(self, client: Client, provider: Provider, request: Request, benchmark: Benchmark) -> ClientResult:
        """Send a request as `ask`, with its own limit."""
        fit, sent = self.fit(request, benchmark), 0
        while fit.failure is None:
            try:
                reply = await client.complete(provider, fit.request)
            except ModelUnusable as error:
                error.requests_sent += sent
                raise
            sent += reply.requests_sent
            completion = reply.completion
            if completion.failure and completion.failure.code == FailureCode.CONTEXT_LENGTH:
                self._learn_window(request.model, completion.failure.message)
                is_billed = "without saying so" in completion.failure.message  # a shorter one would be billed as well
                if self.window(request.model) is not None and not is_billed:
                    fit = self._next_shorter(request, benchmark, fit.left_out) or FittedRequest(
                        request, failure=self._does_not_fit(request, completion.failure)
                    )
                    continue
            if self.window(request.model) is not None:
                self.estimator.learn(request.model, benchmark, n_characters(fit.request.prompt), completion.usage.input)
            if sent == reply.requests_sent and not fit.left_out:
                return reply
            return replace(reply, requests_sent=sent, left_out=fit.left_out)
        return ClientResult(Completion(failure=fit.failure), False, sent, 0.0)

    async def ask_whole(
        self, client: Client, provider: Provider, request: Request, benchmark: Benchmark
    ) -> ClientResult:
        """Send a request whose prompt must not be truncated, such as one to a judge; a failure if it does not fit.

        Raises what `Client.complete` raises.
        """
        if failure := self.unfit(request, benchmark):
            return ClientResult(Completion(failure=failure), False, 0, 0.0)
        reply = await client.complete(provider, request)
        completion = reply.completion
        if completion.failure and completion.failure.code == FailureCode.CONTEXT_LENGTH:
            self._learn_window(request.model, completion.failure.message)
        elif self.window(request.model) is not None:
            self.estimator.learn(request.model, benchmark, n_characters(request.prompt), completion.usage.input)
        return reply

    def fit(self, request: Request, benchmark: Benchmark) -> FittedRequest:
        """Return the request as it will be sent: with the whole prompt, a truncated one, or not at all."""
        whole, room = FittedRequest(request), self._room(request)
        if room is None or n_characters(request.prompt) <= room or self._known(request):
            return whole  # even with a token for each character
        steps = list(self._steps(request, benchmark, room))
        if not steps:  # nothing can be left out
            return replace(whole, failure=self.unfit(request, benchmark))
        if bought := self._bought_before(steps):
            return bought
        if n_characters(request.prompt) * self._tokens_per_character(request, benchmark) <= room:
            return whole
        return self._longest_fit(request, benchmark, steps)

    def unfit(self, request: Request, benchmark: Benchmark) -> Failure | None:
        """Return the failure of a request whose prompt must not be truncated.

        None if it will be sent, because it is more likely to fit than not, or was bought before.
        """
        room, length = self._room(request), n_characters(request.prompt)
        if room is None or length <= room or self._known(request):
            return None
        ratio = self.estimator.ratio(request.model, benchmark)
        per_character = ratio.most if _truncates_silently(request.model) else ratio.tokens_per_character
        return None if length * per_character <= room else self._does_not_fit(request)

    def _next_shorter(self, request: Request, benchmark: Benchmark, left_out: int) -> FittedRequest | None:
        """Return the next shorter request after one without `left_out` characters was too long; else None."""
        room = self._room(request) or 0
        steps = [step for step in self._steps(request, benchmark, room) if step.fit.left_out > left_out]
        return (self._bought_before(steps) or self._longest_fit(request, benchmark, steps)) if steps else None

    def _bought_before(self, steps: Sequence[_Step]) -> FittedRequest | None:
        return next((step.fit for step in steps if self._known(step.fit.request)), None)

    def _longest_fit(self, request: Request, benchmark: Benchmark, steps: Sequence[_Step]) -> FittedRequest:
        """Return the longest request that fits by estimate; if none does, the shortest."""
        tokens_per_character = self._tokens_per_character(request, benchmark)
        return next((step.fit for step in steps if step.per_token * tokens_per_character <= 1), steps[-1].fit)

    def _tokens_per_character(self, request: Request, benchmark: Benchmark) -> float:
        """Return the tokens per character to assume for a prompt.

        With much data that is the upper bound. With little data it is the expected value: a server refuses a prompt
        that is too long at no cost, while an unnecessary truncation lowers the quality for good. For servers that
        truncate silently it is always the upper bound.
        """
        ratio = self.estimator.ratio(request.model, benchmark)
        little = ratio.one_error >= UNTESTED_ERROR and not _truncates_silently(request.model)
        return ratio.tokens_per_character if little else ratio.most

    def _room(self, request: Request) -> int | None:
        """Return the tokens that the texts of a prompt may have; None if the context window is unknown."""
        if (window := self.window(request.model)) is None:
            return None
        return window - request.max_tokens - PROMPT_TOKENS - MESSAGE_TOKENS * len(request.prompt.messages)

    def _steps(self, request: Request, benchmark: Benchmark, room: int) -> Iterator[_Step]:
        """Yield the request with its prompt truncated to each length, longest first."""
        if request.instance is None or room <= 0:
            return
        lengths = [int(per_token * room) for per_token in LENGTHS]
        for found in truncate_to(benchmark, request.instance, lengths):
            per_token = n_characters(found.prompt) / room
            yield _Step(
                per_token, FittedRequest(replace(request, prompt=found.prompt, shared_characters=0), found.left_out)
            )

    def _does_not_fit(self, request: Request, said: Failure | None = None) -> Failure:
        """Return the failure of a request that cannot be sent. `said`: the server's answer to the last one that was."""
        window = self.window(request.model) or 0
        words = (
            f"the prompt does not fit: {request.model.name} reads {window:,} tokens, the answer may have "
            f"{request.max_tokens:,} of them, and nothing more may be left out of {n_characters(request.prompt):,} "
            "characters"
        )
        words += f" ({said.message})" if said else ""
        if 2 * request.max_tokens > window:
            words += ". A lower `max_tokens` in models.yaml leaves more room for the prompt"
        return Failure("provider", FailureCode.DOES_NOT_FIT, words)

    def _learn_window(self, model: Model, message: str) -> None:
        """Use the context window that a server states in an error message, if it is smaller than the known one."""
        stated = stated_window(message)
        before = self.window(model)
        if stated and (before is None or stated < before):
            self._windows[model.name] = stated
            known = f", not {before:,}" if before else ""
            is_theirs, larger = model.base_url.startswith("https://"), ", or start the server with a larger one"
            self._note(
                f"{model.name} reads {stated:,} tokens{known}, says its server: longer prompts are shortened, or not "
                f"sent. Give `window: {stated}` in models.yaml to know it before{'' if is_theirs else larger}."
            )


def _truncates_silently(model: Model) -> bool:
    """Return True if a server accepts prompts that are too long and drops a part of them, as Ollama does."""
    return model.provider == "ollama" or any(urlsplit(address).port == OLLAMA_PORT for address in model.addresses)


def stated_window(message: str) -> int | None:
    """Return the context window that a server states in an error message, in tokens; None if it states none.

    >>> stated_window("prompt is too long: 209,412 tokens > 200,000 maximum")
    200000
    """
    found = _STATED_WINDOW.search(message.lower())
    return int(next(filter(None, found.groups())).replace(",", "")) if found else None
