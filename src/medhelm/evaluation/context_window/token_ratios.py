"""Estimate the tokens of prompts and completions from earlier runs in a store, or by a rule of thumb.

Sources in order of preference: the same model on the same benchmark, the same model on other benchmarks, its family, a
rule of thumb.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from medhelm.analysis.cost.token_estimates import (
    UNKNOWN,
    UNTESTED_ERROR,
    CompletionLength,
    TokenRatio,
    learn_token_ratio,
    pool_token_ratios,
)
from medhelm.domain import Benchmark, Model, Run
from medhelm.errors import StoreError
from medhelm.evaluation.context_window.truncate import n_truncated
from medhelm.models.model_names import family_of, plain_name
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store

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

        `references`: mean length of the references; None if there are none.
        """
        here = [run for run in self.runs if run.benchmark == benchmark.name]
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
            found = references or CompletionLength(OPEN_SHARE * limit, f"{OPEN_SHARE:.0%} of the limit")
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
