"""How long prompts and replies will be, as far as earlier runs of a store tell, and by rule of thumb where they do not.

What comes first goes first: the same model on the same benchmark, the same model elsewhere, its family, a rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from medhelm.analysis.cost.plan import (
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
from medhelm.storage.lengths import prompt_characters, read_replied, read_sent
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store

SEEN = 100
"""So many prompts of a run are looked at: more make the factor no more exact."""

ENOUGH = 8
"""So many answers of a run say more than all runs before it."""

RUNS = 5
"""So many runs of other benchmarks, or of other models, are looked at."""

SHORT = 16
"""A limit up to here is taken to be used up: models say more than a letter if they may."""

OPEN_SHARE = 0.5
"""Share of the limit that a reply takes of which nothing is known."""

REASONING_SHARE = 0.3
"""The same for a model that reasons first, hidden tokens included."""

HIDDEN_SHARE = 0.75
"""Share of these tokens that is hidden, where no run tells."""

CRITERION_TOKENS = 60
"""What a judge writes on one criterion: a grade, and a reason in one or two short sentences."""


class RunHistory:
    """What the runs of a store tell about lengths. Reads what is asked for, once."""

    def __init__(self, store: Store | None) -> None:
        """`store`: None if there is none yet."""
        self._store = store
        runs = sorted(load_runs(store) if store else [], key=lambda run: run.started, reverse=True)
        self.runs = [run for run in runs if _is_counted(run)]
        """Runs whose tokens were counted, the latest first."""
        self.judged = [run for run in runs if run.jury_result]
        """Runs that a jury graded, the latest first; baselines' too."""
        self._factors: dict[str, TokenRatio | None] = {}

    def factor(self, model: Model, benchmark: Benchmark) -> TokenRatio:
        """Input tokens for each character that `model` reads on `benchmark`."""
        own = [run for run in self.runs if is_same(run.resolved_model, model)]
        here = self._first([run for run in own if run.benchmark == benchmark.name], "its own run of this benchmark")
        if here:
            return here
        elsewhere = [run for run in own if run.benchmark != benchmark.name]
        if pooled := self._pooled(elsewhere, "its runs of other benchmarks"):
            return pooled
        name = family_of(model.remote_name, model.name)
        family = [
            run
            for run in self.runs
            if run.resolved_model and family_of(run.resolved_model.remote_name, run.model) == name
        ]
        on_same = [run for run in family if run.benchmark == benchmark.name]
        pooled = self._pooled(on_same or family, f"other models of its family ({name})")
        return pooled or UNKNOWN

    def _first(self, runs: Sequence[Run], basis: str) -> TokenRatio | None:
        return next((replace(factor, basis=basis) for run in runs if (factor := self._learned(run))), None)

    def _pooled(self, runs: Sequence[Run], basis: str) -> TokenRatio | None:
        found: dict[tuple[str, str], TokenRatio] = {}
        for run in runs:
            key = (run.benchmark, run.model)
            if key not in found and len(found) < RUNS and (factor := self._learned(run)):
                found[key] = factor
        return pool_token_ratios(list(found.values()), basis)

    def _learned(self, run: Run) -> TokenRatio | None:
        """What one run tells; None if its prompts are not stored."""
        if run.id not in self._factors:
            assert self._store is not None, "a run comes from a store"
            file = self._store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
            characters = prompt_characters(file, SEEN)
            pairs = [
                (whole - n_truncated(sent.left_out, whole), sent.tokens)
                for sent in read_sent(run, SEEN)
                if (whole := characters.get(sent.instance_id))
            ]
            self._factors[run.id] = learn_token_ratio([c for c, _ in pairs], [t for _, t in pairs], "")
        return self._factors[run.id]

    def output(
        self, model: Model, benchmark: Benchmark, limit: int, references: CompletionLength | None
    ) -> CompletionLength:
        """Tokens of a completion by `model` on `benchmark`, hidden ones included; never above `limit`.

        `references`: the mean length of the right answers; None where there are none.
        """
        here = [run for run in self.runs if run.benchmark == benchmark.name]
        own = [run for run in here if is_same(run.resolved_model, model)]
        alike = [run for run in here if run.resolved_model and run.resolved_model.reasoning == model.reasoning]
        if own:
            found = CompletionLength(_written(own[0]), "its own run of this benchmark", hidden=_hidden(own[0]))
        elif alike:
            kind = "that reason" if model.reasoning else "that do not reason"
            basis, hidden = f"other models {kind} on this benchmark", median(map(_hidden, alike))
            found = CompletionLength(median(map(_written, alike)), basis, hidden=hidden)
        elif model.reasoning:
            found = self._reasoned(model, limit)
        elif limit <= SHORT:
            found = CompletionLength(limit, "the limit")
        else:
            found = references or CompletionLength(OPEN_SHARE * limit, f"{OPEN_SHARE:.0%} of the limit")
        return replace(found, tokens=min(found.tokens, limit))

    def _reasoned(self, model: Model, limit: int) -> CompletionLength:
        """Tokens of a model that reasons, on a benchmark that none of its kind was run on: most are thoughts."""
        own = [run for run in self.runs if is_same(run.resolved_model, model)]
        if own:
            hidden = median(map(_hidden, own))
            return CompletionLength(median(map(_written, own)), "its runs of other benchmarks", hidden=hidden)
        return CompletionLength(REASONING_SHARE * limit, f"{REASONING_SHARE:.0%} of the limit", hidden=HIDDEN_SHARE)

    def verdict(self, judge: Model, benchmark: Benchmark, n_criteria: int, limit: int) -> CompletionLength:
        """Tokens of one reply of `judge`, and how often it has to be asked again.

        `n_criteria`: how many it grades in one reply.
        """
        own = [(run, name) for run in self.judged if (name := judge_in(run, judge))]
        here = [(run, name) for run, name in own if run.benchmark == benchmark.name]
        for asked, basis in ((here, "its own judgments on this benchmark"), (own, "its judgments elsewhere")):
            if found := _replies(asked[:RUNS], basis, limit):
                return found
        others = [
            (run, other.name)
            for run in self.judged
            if run.benchmark == benchmark.name
            for other in (run.jury_result.jury.judges if run.jury_result else ())
            if other.reasoning == judge.reasoning
        ]
        if found := _replies(others[:RUNS], "other judges on this benchmark", limit):
            return found
        if judge.reasoning:
            return CompletionLength(REASONING_SHARE * limit, f"{REASONING_SHARE:.0%} of the limit")
        return CompletionLength(
            min(CRITERION_TOKENS * n_criteria, limit), f"{CRITERION_TOKENS} tokens for each criterion"
        )


class TokenEstimator:
    """Input tokens for each character, of models that are being asked: from their answers as they arrive, and from
    earlier runs until there are enough of these.
    """

    def __init__(self, experience: Callable[[], RunHistory]) -> None:
        """`experience`: what earlier runs tell; asked for once, when it is needed first."""
        self._experience = experience
        self._read: RunHistory | None = None
        self._before: dict[tuple[str, str], TokenRatio] = {}
        self._seen: dict[tuple[str, str], deque[tuple[int, int]]] = {}
        self._learned: dict[tuple[str, str], TokenRatio] = {}

    def learn(self, model: Model, benchmark: Benchmark, characters: int, tokens: int) -> None:
        """Take in what a provider counted for one prompt."""
        if characters and tokens:
            key = (model.name, benchmark.name)
            self._seen.setdefault(key, deque(maxlen=SEEN)).append((characters, tokens))
            self._learned.pop(key, None)

    def factor(self, model: Model, benchmark: Benchmark) -> TokenRatio:
        """What is known by now of `model` on `benchmark`; while answers are few, at least what one of them had."""
        key = (model.name, benchmark.name)
        seen = self._seen.get(key, ())
        if len(seen) < ENOUGH:
            if key not in self._before:
                self._read = self._read or self._look_back()
                self._before[key] = self._read.factor(model, benchmark)
            before = self._before[key]
            highest = max((tokens / characters for characters, tokens in seen), default=0.0)
            if highest <= before.tokens_per_character:
                return before
            return TokenRatio(highest, UNTESTED_ERROR, "its first answers in this run", UNTESTED_ERROR)
        if key not in self._learned:
            factor = learn_token_ratio([c for c, _ in seen], [t for _, t in seen], "its answers in this run")
            assert factor is not None, "no prompt without a character is taken in"
            self._learned[key] = factor
        return self._learned[key]

    def _look_back(self) -> RunHistory:
        """What earlier runs tell; nothing if one of them is damaged, which is no reason to stop."""
        try:
            return self._experience()
        except StoreError:
            return RunHistory(None)


def judge_in(run: Run, judge: Model) -> str:
    """What a judge is called in a run; "" if it did not judge there."""
    judges = run.jury_result.jury.judges if run.jury_result else ()
    return next((other.name for other in judges if is_same(other, judge)), "")


def is_same(one: Model | None, other: Model) -> bool:
    """Whether two names lead to the same model, wherever it is reached."""
    return one is not None and plain_name(one.remote_name) == plain_name(other.remote_name)


def _is_counted(run: Run) -> bool:
    """Whether its completions were counted in tokens, and asked by us."""
    asked_here = run.origin is None or run.origin.completions_made_here
    return bool(
        asked_here and run.resolved_model and run.resolved_model.base_url and run.usage.input and run.n > run.n_failed
    )


def _written(run: Run) -> float:
    """Mean tokens of a completion."""
    return run.usage.output / (run.n - run.n_failed)


def _hidden(run: Run) -> float:
    """Share of hidden reasoning in what was written."""
    return run.usage.reasoning / run.usage.output if run.usage.output else 0.0


def _replies(asked: Sequence[tuple[Run, str]], basis: str, limit: int) -> CompletionLength | None:
    """What judges wrote in some runs together; None if no reply was counted in tokens."""
    read = [read_replied(run, judge) for run, judge in asked]
    n = sum(one.n for one in read)
    if not n:
        return None
    return CompletionLength(min(sum(one.output for one in read) / n, limit), basis, sum(one.again for one in read) / n)
