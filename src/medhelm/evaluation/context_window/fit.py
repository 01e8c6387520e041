"""Prompts and windows: what is sent where the whole prompt would not fit the model.

How many tokens a prompt has is known only once the provider has counted it, and estimates get better as answers arrive.
A prompt that was shortened by another estimate would be another prompt, and bought anew. So prompts are shortened to
one of a few lengths, the same at all times, and what was bought at any of them before is taken first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from medhelm.analysis.cost.plan import UNTESTED_ERROR, TokenRatio
from medhelm.domain import Benchmark, Completion, Failure, Model, Request
from medhelm.evaluation.context_window.token_ratios import RunHistory, TokenEstimator
from medhelm.evaluation.context_window.truncate import n_characters, truncate_to
from medhelm.models.client import Client, ClientResult, ModelUnusable
from medhelm.models.context_windows import known_window
from medhelm.models.provider import Provider
from medhelm.storage.store import Store

DOES_NOT_FIT = "does_not_fit"
"""Failure code of an instance that was not asked, because it is too long for the model and may not be shortened."""

TOO_LONG = "context_length"
"""Failure code of a server that counted more tokens than it can read."""

PROMPT_TOKENS, MESSAGE_TOKENS = 16, 8
"""What chat templates put around a prompt and around each of its messages, at most."""

LENGTHS = tuple(6 / 1.15**step for step in range(16))
"""The lengths that prompts are shortened to, in characters for each token of room, the longest first: from easy English
with a large vocabulary (6) to text of which nearly every character is a token (0.7)."""

OLLAMA_PORT = 11434
"""Where Ollama listens, unless it is told otherwise."""

_NUMBER = r"([1-9][\d,]{2,11})"
_STATED = re.compile(
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
"""How servers put what they can read: those whose complaints about long prompts are known."""


@dataclass(frozen=True, slots=True)
class FittedRequest:
    """What is sent for one instance."""

    request: Request
    """With a prompt that fits, as far as can be told."""
    left_out: int = 0
    """Characters that the prompt has lost."""
    failure: Failure | None = None
    """Why nothing is sent."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One of the lengths that a prompt can be shortened to."""

    per_token: float
    """Its characters for each token of room."""
    fit: FittedRequest


class ContextFitter:
    """Knows what models can read, and sends what fits them."""

    def __init__(
        self, gauge: TokenEstimator, known: Callable[[bytes], bool], note: Callable[[str], object] = lambda _: None
    ) -> None:
        """`known`: whether the completion of a request with this digest was bought. `note`: told what a person should
        know.
        """
        self.gauge = gauge
        self._known, self._note = known, note
        self._windows: dict[str, int | None] = {}

    @classmethod
    def of(cls, store: Store, known: Callable[[bytes], bool], note: Callable[[str], object]) -> ContextFitter:
        """One that knows what the runs of a store tell of lengths; they are read when that is first needed."""
        return cls(TokenEstimator(lambda: RunHistory(store)), known, note)

    def window(self, model: Model) -> int | None:
        """Tokens that prompt and answer may have together, as far as is known by now."""
        if model.name not in self._windows:
            self._windows[model.name] = known_window(model)
        return self._windows[model.name]

    async def ask(self, client: Client, provider: Provider, request: Request, benchmark: Benchmark) -> ClientResult:
        """The reply to a request whose prompt is shortened if need be; shorter still if the server finds it too long.

        Raises what `Client.complete` raises.
        """
        fit, sent = self.fit(request, benchmark), 0
        while fit.failure is None:
            try:
                reply = await client.complete(provider, fit.request)
            except ModelUnusable as error:
                error.requests_sent += sent
                raise
            sent += reply.requests_sent
            completion = reply.completion
            if completion.failure and completion.failure.code == TOO_LONG:
                self._heed(request.model, completion.failure.message)
                if self.window(request.model) is not None:
                    fit = self._next(request, benchmark, fit.left_out) or FittedRequest(
                        request, failure=self._does_not_fit(request, completion.failure)
                    )
                    continue
            if self.window(request.model) is not None:
                self.gauge.learn(request.model, benchmark, n_characters(fit.request.prompt), completion.usage.input)
            return replace(reply, requests_sent=sent, left_out=fit.left_out)
        return ClientResult(Completion(failure=fit.failure), False, sent, 0.0)

    async def ask_whole(
        self, client: Client, provider: Provider, request: Request, benchmark: Benchmark
    ) -> ClientResult:
        """The reply to a request that nothing may be left out of: that of a judge, who grades what it has read.

        Raises what `Client.complete` raises.
        """
        if failure := self.unfit(request, benchmark):
            return ClientResult(Completion(failure=failure), False, 0, 0.0)
        reply = await client.complete(provider, request)
        completion = reply.completion
        if completion.failure and completion.failure.code == TOO_LONG:
            self._heed(request.model, completion.failure.message)
        elif self.window(request.model) is not None:
            self.gauge.learn(request.model, benchmark, n_characters(request.prompt), completion.usage.input)
        return reply

    def fit(self, request: Request, benchmark: Benchmark) -> FittedRequest:
        """What is to be sent for a request: the prompt itself, a shorter one, or nothing."""
        whole, room = FittedRequest(request), self._room(request)
        if room is None or n_characters(request.prompt) <= room or self._known(request.digest):
            return whole  # even with a token for each character
        steps = list(self._steps(request, benchmark, room))
        if not steps:  # nothing can be left out
            return replace(whole, failure=self.unfit(request, benchmark))
        if bought := self._bought(steps):
            return bought
        if n_characters(request.prompt) * self._reckoned(request, benchmark) <= room:
            return whole
        return self._chosen(request, benchmark, steps)

    def unfit(self, request: Request, benchmark: Benchmark) -> Failure | None:
        """Why a request that nothing may be left out of is not sent. None: it is sent, being more likely to fit than
        not, or bought before.
        """
        room, length = self._room(request), n_characters(request.prompt)
        if room is None or length <= room or self._known(request.digest):
            return None
        factor = self._factor(request, benchmark)
        per_character = factor.most if _cuts_in_silence(request.model) else factor.tokens_per_character
        return None if length * per_character <= room else self._does_not_fit(request)

    def _next(self, request: Request, benchmark: Benchmark, left_out: int) -> FittedRequest | None:
        """What is sent after a prompt that had lost `left_out` characters was too long still; None: nothing is left."""
        room = self._room(request) or 0
        steps = [step for step in self._steps(request, benchmark, room) if step.fit.left_out > left_out]
        return (self._bought(steps) or self._chosen(request, benchmark, steps)) if steps else None

    def _bought(self, steps: Sequence[_Step]) -> FittedRequest | None:
        return next((step.fit for step in steps if self._known(step.fit.request.digest)), None)

    def _chosen(self, request: Request, benchmark: Benchmark, steps: Sequence[_Step]) -> FittedRequest:
        """The longest that fits by the estimate; where none does, the shortest."""
        reckoned = self._reckoned(request, benchmark)
        return next((step.fit for step in steps if step.per_token * reckoned <= 1), steps[-1].fit)

    def _reckoned(self, request: Request, benchmark: Benchmark) -> float:
        """Tokens for each character that a prompt is taken to have.

        That is the most it may have, where much is known. Where little is, it is what is expected: a server that finds
        a prompt too long refuses it for nothing, and one that was shortened without need is worth less for good. Of a
        server that would cut it in silence the most is taken at all times.
        """
        factor = self._factor(request, benchmark)
        little = factor.one_error >= UNTESTED_ERROR and not _cuts_in_silence(request.model)
        return factor.tokens_per_character if little else factor.most

    def _factor(self, request: Request, benchmark: Benchmark) -> TokenRatio:
        return self.gauge.factor(request.model, benchmark)

    def _room(self, request: Request) -> int | None:
        """Tokens that the texts of a prompt may have; None if the model's window is not known."""
        if (window := self.window(request.model)) is None:
            return None
        return window - request.max_tokens - PROMPT_TOKENS - MESSAGE_TOKENS * len(request.prompt.messages)

    def _steps(self, request: Request, benchmark: Benchmark, room: int) -> Iterator[_Step]:
        """The lengths that a prompt can be shortened to, the longest first."""
        assert request.instance is not None, "a prompt of a benchmark is made from an instance"
        lengths = [int(per_token * room) for per_token in LENGTHS] if room > 0 else []
        for found in truncate_to(benchmark, request.instance, lengths):
            per_token = n_characters(found.prompt) / room
            yield _Step(
                per_token, FittedRequest(replace(request, prompt=found.prompt, shared_characters=0), found.left_out)
            )

    def _does_not_fit(self, request: Request, said: Failure | None = None) -> Failure:
        """Why nothing is sent. `said`: what the server said to the last that was."""
        window = self.window(request.model) or 0
        words = (
            f"the prompt does not fit: {request.model.name} reads {window:,} tokens, the answer may have "
            f"{request.max_tokens:,} of them, and nothing more may be left out of {n_characters(request.prompt):,} "
            "characters"
        )
        words += f" ({said.message})" if said else ""
        if 2 * request.max_tokens > window:
            words += ". A lower `max_tokens` in models.yaml leaves more room for the prompt"
        return Failure("provider", DOES_NOT_FIT, words)

    def _heed(self, model: Model, message: str) -> None:
        """Keep the window that a server names in its complaint, if it is smaller than what was known."""
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


def _cuts_in_silence(model: Model) -> bool:
    """Whether a server is one that takes prompts that are too long, and drops a part of them: Ollama."""
    return model.provider == "ollama" or urlsplit(model.base_url).port == OLLAMA_PORT


def stated_window(message: str) -> int | None:
    """The tokens that a server says it can read, from its complaint; None if it does not say.

    >>> stated_window("prompt is too long: 209,412 tokens > 200,000 maximum")
    200000
    """
    found = _STATED.search(message.lower())
    return int(next(filter(None, found.groups())).replace(",", "")) if found else None
