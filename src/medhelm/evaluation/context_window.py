"""Fit requests to the context windows of models: truncate the prompt, or refuse to send it.

The tokens of a prompt are known only after the provider has counted them, and estimates improve as completions arrive.
A prompt truncated by another estimate would be another prompt, and would be bought again. So prompts are truncated to
one of a few fixed lengths, and a completion that was bought for any of them before is used first.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from urllib.parse import urlsplit

from medhelm.analysis.cost import (
    UNKNOWN,
    UNTESTED_ERROR,
    CompletionLength,
    TokenRatio,
    learn_token_ratio,
    pool_token_ratios,
)
from medhelm.benchmarks.prompts import NO_FIELD, OPTIONS, placeholders, render
from medhelm.domain import Benchmark, Completion, Failure, FailureCode, Instance, Model, Prompt, Request, Run
from medhelm.errors import StoreError
from medhelm.io.plugins import lazy_regex
from medhelm.models.client import Client, ClientResult, ModelUnusable
from medhelm.models.model_names import family_of, plain_name
from medhelm.models.prices import known_window
from medhelm.models.provider import Provider, needs_room, with_room
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store

# --- fitting ----------------------------------------------------------------------------------------------------------

PROMPT_TOKENS, MESSAGE_TOKENS = 16, 8
"""Most tokens that chat templates add to a prompt, and to each of its messages."""

LENGTHS = tuple(6 / 1.15**step for step in range(16))
"""Lengths that prompts are truncated to, in characters per token of room, longest first: from plain English with a
large vocabulary (6) to text in which nearly every character is a token (0.7)."""

OLLAMA_PORT = 11434
"""Default port of Ollama."""

_NUMBER = r"([1-9][\d,]{2,11})"
_STATED_WINDOW = lazy_regex(
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
        if request.model.name in self._reasoning and not self._known(request):
            roomy = self._with_room(request, benchmark)
            return await self._ask(client, provider, roomy or request, benchmark)
        first = await self._ask(client, provider, request, benchmark)
        if (roomy := self.roomier(request, first.completion, benchmark)) is None:
            return first
        self.say_that_it_reasons(request, roomy)
        return _added(first, await self._ask(client, provider, roomy, benchmark))

    def roomier(self, request: Request, completion: Completion, benchmark: Benchmark) -> Request | None:
        """Return what `ask` sends next because reasoning used up the limit of a request; None if there is nothing."""
        return self._with_room(request, benchmark) if needs_room(completion, request) else None

    def _with_room(self, request: Request, benchmark: Benchmark) -> Request | None:
        """Return a request with the limit of reasoning models, if it needs one and its whole prompt is then sent."""
        if (roomy := with_room(request)) is None:
            return None
        fit = self.fit(roomy, benchmark)
        return None if fit.failure or fit.left_out else roomy

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


# --- token estimates --------------------------------------------------------------------------------------------------
# Estimate the tokens of prompts and completions from earlier runs in a store, or by a rule of thumb.
#
# Sources in order of preference: the same model on the same benchmark, the same model on other benchmarks, its family,
# a rule of thumb.

SEEN = 100
"""Prompts of a run to read; more do not make the ratio more precise."""

ENOUGH = 8
"""Completions of the current run that are more informative than all earlier runs."""

RUNS = 5
"""Most runs of other benchmarks, or of other models, to use."""

SHORT = 16
"""Limits up to this many tokens are assumed to be used up: models write more than a letter if they may."""

OPEN_SHARE = 0.5
"""Share of the limit that a completion is assumed to use."""

REASONING_SHARE = 0.3
"""The same for a reasoning model, including hidden tokens."""

HIDDEN_SHARE = 0.75
"""Share of hidden tokens in the completion of a reasoning model."""

CRITERION_TOKENS = 60
"""Tokens of a judgment on one criterion: a grade, and a reason in one or two short sentences."""


class RunHistory:
    """Lengths of prompts and completions in the runs of a store; each run is read once, when it is needed."""

    def __init__(self, store: Store | None) -> None:
        """Read the list of runs. `store`: None if it does not exist yet."""
        self._store = store
        runs = sorted(load_runs(store) if store else [], key=lambda run: run.started, reverse=True)
        self.runs = [run for run in runs if _has_token_counts(run)]
        """Runs with token counts, latest first."""
        self.judged = [run for run in runs if run.jury_result]
        """Runs with a jury, latest first, including those of baselines."""
        self._ratios: dict[str, TokenRatio | None] = {}

    def ratio(self, model: Model, benchmark: Benchmark) -> TokenRatio:
        """Return the input tokens per character of `model` on `benchmark`."""
        own = [run for run in self.runs if is_same(run.resolved_model, model)]
        here = [run for run in own if run.benchmark == benchmark.name]
        if ratio := next(filter(None, map(self._ratio_in, here)), None):
            return replace(ratio, basis="its own run of this benchmark")
        elsewhere = [run for run in own if run.benchmark != benchmark.name]
        if ratio := self._pooled_ratio(elsewhere, "its runs of other benchmarks"):
            return ratio
        name = family_of(model.remote_name, model.name)
        family = [
            run
            for run in self.runs
            if run.resolved_model and family_of(run.resolved_model.remote_name, run.model) == name
        ]
        on_same = [run for run in family if run.benchmark == benchmark.name]
        return self._pooled_ratio(on_same or family, f"other models of its family ({name})") or UNKNOWN

    def _pooled_ratio(self, runs: Sequence[Run], basis: str) -> TokenRatio | None:
        found: dict[tuple[str, str], TokenRatio] = {}
        for run in runs:
            key = (run.benchmark, run.model)
            if key not in found and len(found) < RUNS and (ratio := self._ratio_in(run)):
                found[key] = ratio
        return pool_token_ratios(list(found.values()), basis)

    def _ratio_in(self, run: Run) -> TokenRatio | None:
        """Return the ratio in one run; None if its prompts are not stored."""
        from medhelm.storage.token_usage import prompt_characters, read_sent  # lazy: for earlier runs

        if self._store and run.id not in self._ratios:
            file = self._store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
            characters = prompt_characters(file, SEEN)
            pairs = [
                (whole - n_truncated(sent.left_out, whole), sent.tokens)
                for sent in read_sent(run, SEEN)
                if (whole := characters.get(sent.instance_id))
            ]
            self._ratios[run.id] = learn_token_ratio([c for c, _ in pairs], [t for _, t in pairs], "")
        return self._ratios.get(run.id)

    def completion_length(
        self, model: Model, benchmark: Benchmark, limit: int, references: CompletionLength | None
    ) -> CompletionLength:
        """Return the expected tokens of a completion, including hidden ones; at most `limit`.

        `references`: mean length of the references; None if there are none. Neither they nor earlier runs say how long
        the reasoning before a marked answer is.
        """
        is_marked = bool(benchmark.answer_after)
        here = [run for run in self.runs if run.benchmark == benchmark.name and not is_marked]
        own = [run for run in here if is_same(run.resolved_model, model)]
        alike = [run for run in here if run.resolved_model and run.resolved_model.reasoning == model.reasoning]
        if own:
            found = CompletionLength(
                _mean_output(own[0]), "its own run of this benchmark", hidden=_hidden_share(own[0])
            )
        elif alike:
            kind = "that reason" if model.reasoning else "that do not reason"
            basis, hidden = f"other models {kind} on this benchmark", median(map(_hidden_share, alike))
            found = CompletionLength(median(map(_mean_output, alike)), basis, hidden=hidden)
        elif model.reasoning:
            found = self._reasoning_length(model, limit)
        elif limit <= SHORT:
            found = CompletionLength(limit, "the limit")
        else:
            known = None if is_marked else references
            found = known or CompletionLength(OPEN_SHARE * limit, f"{OPEN_SHARE:.0%} of the limit")
        return replace(found, tokens=min(found.tokens, limit))

    def _reasoning_length(self, model: Model, limit: int) -> CompletionLength:
        """Return the tokens of a reasoning model on a benchmark without runs of reasoning models: most are hidden."""
        own = [run for run in self.runs if is_same(run.resolved_model, model)]
        if own:
            hidden = median(map(_hidden_share, own))
            return CompletionLength(median(map(_mean_output, own)), "its runs of other benchmarks", hidden=hidden)
        return CompletionLength(REASONING_SHARE * limit, f"{REASONING_SHARE:.0%} of the limit", hidden=HIDDEN_SHARE)

    def judge_completion_length(
        self, judge: Model, benchmark: Benchmark, n_criteria: int, limit: int
    ) -> CompletionLength:
        """Return the expected tokens of one completion of `judge`, and the share of second requests.

        `n_criteria`: criteria graded in one completion.
        """
        own = [(run, name) for run in self.judged if (name := judge_in(run, judge))]
        here = [(run, name) for run, name in own if run.benchmark == benchmark.name]
        for asked, basis in ((here, "its own judgments on this benchmark"), (own, "its judgments elsewhere")):
            if found := _judge_length(asked[:RUNS], basis, limit):
                return found
        others = [
            (run, other.name)
            for run in self.judged
            if run.benchmark == benchmark.name
            for other in run.judges
            if other.reasoning == judge.reasoning
        ]
        if found := _judge_length(others[:RUNS], "other judges on this benchmark", limit):
            return found
        if judge.reasoning:
            return CompletionLength(REASONING_SHARE * limit, f"{REASONING_SHARE:.0%} of the limit")
        return CompletionLength(
            min(CRITERION_TOKENS * n_criteria, limit), f"{CRITERION_TOKENS} tokens for each criterion"
        )


class TokenEstimator:
    """Estimates the input tokens per character of models in use.

    The sources are their completions as they arrive, and earlier runs until there are enough of them.
    """

    def __init__(self, history: Callable[[], RunHistory]) -> None:
        """`history` loads the earlier runs; it is called once, when they are first needed."""
        self._load = history
        self._read: RunHistory | None = None
        self._before: dict[tuple[str, str], TokenRatio] = {}
        self._seen: dict[tuple[str, str], deque[tuple[int, int]]] = {}
        self._learned: dict[tuple[str, str], TokenRatio] = {}

    def learn(self, model: Model, benchmark: Benchmark, characters: int, tokens: int) -> None:
        """Add the tokens that a provider counted for one prompt."""
        if characters and tokens:
            key = (model.name, benchmark.name)
            self._seen.setdefault(key, deque(maxlen=SEEN)).append((characters, tokens))
            self._learned.pop(key, None)

    def ratio(self, model: Model, benchmark: Benchmark) -> TokenRatio:
        """Return the current ratio of `model` on `benchmark`; with few completions, at least the highest of theirs."""
        key = (model.name, benchmark.name)
        seen = self._seen.get(key, ())
        if len(seen) < ENOUGH:
            if key not in self._before:
                self._read = self._read or self._load_history()
                self._before[key] = self._read.ratio(model, benchmark)
            before = self._before[key]
            highest = max((tokens / characters for characters, tokens in seen), default=0.0)
            if highest <= before.tokens_per_character:
                return before
            return TokenRatio(highest, UNTESTED_ERROR, "its first answers in this run", UNTESTED_ERROR)
        if key not in self._learned:
            ratio = learn_token_ratio([c for c, _ in seen], [t for _, t in seen], "its answers in this run")
            self._learned[key] = ratio or UNKNOWN  # always learned: only prompts with characters are added
        return self._learned[key]

    def _load_history(self) -> RunHistory:
        """Load the earlier runs; none of them if one is damaged, which must not stop an evaluation."""
        try:
            return self._load()
        except StoreError:
            return RunHistory(None)


def judge_in(run: Run, judge: Model) -> str:
    """Return the name of a judge in a run; "" if it did not judge there."""
    judges = run.judges
    return next((other.name for other in judges if is_same(other, judge)), "")


def is_same(one: Model | None, other: Model) -> bool:
    """Return True if two models are the same, wherever they are served."""
    return one is not None and plain_name(one.remote_name) == plain_name(other.remote_name)


def _has_token_counts(run: Run) -> bool:
    """Return True if the run was made here and has token counts."""
    asked_here = not run.has_imported_completions
    return bool(
        asked_here and run.resolved_model and run.resolved_model.base_url and run.usage.input and run.n > run.n_failed
    )


def _mean_output(run: Run) -> float:
    """Return the mean tokens of a completion."""
    return run.usage.output / (run.n - run.n_failed)


def _hidden_share(run: Run) -> float:
    """Return the share of hidden reasoning in the output tokens."""
    return run.usage.reasoning / run.usage.output if run.usage.output else 0.0


def _judge_length(asked: Sequence[tuple[Run, str]], basis: str, limit: int) -> CompletionLength | None:
    """Return the mean length of judges' completions in some runs; None if no tokens were counted."""
    from medhelm.storage.token_usage import read_replied

    read = [read_replied(run, judge) for run, judge in asked]
    n = sum(one.n for one in read)
    if not n:
        return None
    return CompletionLength(min(sum(one.output for one in read) / n, limit), basis, sum(one.again for one in read) / n)


# --- truncation -------------------------------------------------------------------------------------------------------
# Truncate prompts that are too long for a model.
#
# Nothing is cut from the end of a prompt, which holds the question. One field loses its oldest part, up to the start of
# a sentence, and a note in its place says so.

LEAST_SHARE = 0.5
"""Least share of the prompt of a field that is truncated although the definition does not name it."""

QUESTION = "question"
"""A field of this name holds the question; it is truncated only if the definition names it."""


_BREAK = lazy_regex(r"[.!?][\"'”’)\]]*(?:\s+|(?=[A-Z][A-Z /&-]{2,40}:))|\n\s*")
"""The end of a sentence or a line, with closing quotes and brackets. A section title may follow without a space, as in
notes that lost their line breaks."""

_NOT_AN_END = lazy_regex(
    r"(?:^|[\s(\[])(?:[A-Za-z]|Drs?|Mrs?|Ms|Prof|St|vs|e\.g|i\.e|cf|[Nn]os?|[Ff]igs?|[Aa]pprox|ca|[Pp]ts?|[Yy]rs?"
    r"|n\.v|U\.[SK])$"
    r"|(?:^|\n|[.;]\s|[a-z][.;])[ \t]*\d{1,3}$|:[ \t]*1$"
)
"""Text before a period that does not end a sentence: abbreviations, initials, numbers of list items."""

_SEARCHED = 12
"""Characters before a period to search for these."""

_WORD = lazy_regex(r"\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class TruncatedPrompt:
    """A prompt with part of one field removed."""

    prompt: Prompt
    """The prompt as it is sent."""
    left_out: int
    """Characters removed from the field."""


def n_characters(prompt: Prompt) -> int:
    """Return the number of characters in all messages."""
    return sum(len(message.text) for message in prompt.messages)


def truncated_field(benchmark: Benchmark, instance: Instance) -> str:
    """Return the name of the field that may be truncated; empty if none may.

    That is the field the definition names. If it names none, it is the longest field of the template, provided that
    it is at least half of the prompt; but not a field called `question`, nor the only field of a choice question.
    Conversations and prompts from another harness are never truncated.
    """
    if instance.turns or benchmark.shorten == NO_FIELD:
        return ""
    names = {name for name in _template_fields(benchmark) if name in instance.fields}
    if benchmark.shorten:
        return benchmark.shorten if benchmark.shorten in names else ""
    if instance.choices and len(names) == 1:
        return ""
    names.discard(QUESTION)
    if not names:
        return ""
    longest = max(sorted(names), key=lambda name: len(instance.fields[name]))
    whole = n_characters(render(benchmark, replace(instance, examples=())))
    held = len(instance.fields[longest]) * _n_occurrences(benchmark, longest)
    return longest if held >= LEAST_SHARE * whole else ""


def truncate_to(benchmark: Benchmark, instance: Instance, lengths: Iterable[int]) -> Iterator[TruncatedPrompt]:
    """Yield the prompt of an instance truncated to each of `lengths`, in characters, which must decrease.

    Solved examples are left out first. Then the field is cut at the start of a sentence or a line, or between words if
    that does not remove enough. The iterator ends at the first length that cannot be reached. Lengths that need no cut,
    or the same cut as the one before, are skipped.
    """
    name = truncated_field(benchmark, instance)
    if not name and not instance.examples:
        return
    text, times, left_out = instance.fields.get(name, ""), _n_occurrences(benchmark, name), 0
    whole = n_characters(render(benchmark, instance))
    sentences = words = None
    for most in lengths:
        if (excess := whole - most) <= 0:
            continue
        shorter, dropped = _with_fewer_examples(instance, excess)
        if (excess := excess - dropped) <= 0:
            if dropped > left_out:
                left_out = dropped
                yield TruncatedPrompt(render(benchmark, shorter), dropped)
            continue
        sentences = sentence_starts(text) if sentences is None else sentences
        if not (start := _cut_position(text, sentences, excess, times)):
            words = word_starts(text) if words is None else words
            start = _cut_position(text, words, excess, times)
        if not start:
            return
        if dropped + start > left_out:
            left_out = dropped + start
            fields = {**instance.fields, name: _note(start, len(text)) + text[start:]}
            yield TruncatedPrompt(render(benchmark, replace(shorter, fields=fields)), left_out)


def _with_fewer_examples(instance: Instance, excess: int) -> tuple[Instance, int]:
    """Return an instance without its first examples, as many as have `excess` characters or all, and their length."""
    turns, dropped = instance.examples, 0
    while turns and dropped < excess:
        dropped += sum(len(turn.text) for turn in turns[:2])
        turns = turns[2:]
    return (replace(instance, examples=turns) if dropped else instance), dropped


def _template_fields(benchmark: Benchmark) -> set[str]:
    """Return the names of the fields in the templates."""
    return (placeholders(benchmark.prompt) | placeholders(benchmark.system)) - {OPTIONS}


def _n_occurrences(benchmark: Benchmark, name: str) -> int:
    """Count the occurrences of a field in the templates."""
    return sum(template.count(f"{{{name}}}") for template in (benchmark.prompt, benchmark.system))


def _cut_position(text: str, starts: Sequence[int], excess: int, times: int) -> int:
    """Return the first of `starts` at which a cut shortens the prompt by `excess` characters; 0 if there is none."""
    for start in starts[bisect_left(starts, excess // max(times, 1)) :]:
        if times * (start - len(_note(start, len(text)))) >= excess:
            return start
    return 0


def n_truncated(left_out: int, whole: int) -> int:
    """Return how many characters shorter a prompt gets if the note replaces `left_out` characters of a field.

    `whole`: characters of the field, or about the same, of the prompt that holds it.

    >>> n_truncated(1000, 3000)
    932
    """
    return left_out - len(_note(left_out, whole)) if left_out else 0


def _note(left_out: int, whole: int) -> str:
    """Return the note that replaces the oldest part."""
    return f"[{left_out:,} of {whole:,} characters, from the beginning, are left out here.]\n"


def sentence_starts(text: str) -> list[int]:
    r"""Return the positions in `text` where a sentence or a line starts, in ascending order, without position 0.

    A lowercase letter after a period does not start a sentence, unless a space precedes the period, as in tokenized
    text.

    >>> text = "Seen by Dr. Low on 3 May. BP was 120/80 mm Hg.\n- no fever"
    >>> [text[start : start + 7] for start in sentence_starts(text)]
    ['BP was ', '- no fe']
    """
    return [match.end() for match in _BREAK.finditer(text) if match.end() < len(text) and _is_sentence_end(text, match)]


def word_starts(text: str) -> list[int]:
    """Return the positions in `text` where a word starts, in ascending order, without the first.

    >>> word_starts("to be or")
    [3, 6]
    """
    return [match.end() for match in _WORD.finditer(text)]


def _is_sentence_end(text: str, match: re.Match[str]) -> bool:
    """Return True if a sentence ends at a match."""
    if "\n" in match.group() or text[match.start()] != ".":
        return True
    if text[match.end()].islower():
        return text[match.start() - 1 : match.start()] == " "
    return not _NOT_AN_END.search(text[max(0, match.start() - _SEARCHED) : match.start()])
