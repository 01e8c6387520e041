"""Send every completion to all judges at once, and retry each unreadable reply once with its problem."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.domain import (
    JURY,
    RULES,
    Benchmark,
    Completion,
    Criterion,
    Failure,
    InjectionSign,
    Instance,
    JudgeReply,
    Judgment,
    Jury,
    JuryVerdict,
    Model,
    Prompt,
    Request,
    Rubric,
    Rule,
    Score,
)
from medhelm.domain.completion import strip_reasoning
from medhelm.errors import DataError
from medhelm.models.client import ClientResult, ModelUnusable
from medhelm.models.prompt_caching import cache_prices, shared_prefix
from medhelm.models.provider import Provider
from medhelm.scoring.metric import Metric, group_parts, is_blank, not_computed, too_long

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
        sample: int = 0,
    ) -> None:
        """`providers`: judge -> provider; a judge without one has only `stored` replies. `is_known`: see
        `judge_request`. `with_codes`: False to ask for no verification codes. `sample`: number of the replies among
        several for the same prompt.
        """
        self.jury, self.providers = jury, providers
        self.unusable: dict[str, str] = {}
        """Judge that cannot be used -> reason."""
        self._complete = complete
        self._stored = stored
        self._is_known = is_known
        self._with_codes, self._sample = with_codes, sample
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
        if self._sample:
            request = replace(request, sample=self._sample)
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


# --- aggregation ------------------------------------------------------------------------------------------------------
# Aggregate the judgments of all judges into the jury's score of a completion, by both rules. Calls no model.

Cells = Mapping[str, Sequence[Judgment]]
"""Judge -> its judgments of one completion, in the order of the criteria."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVerdict:
    """One reply of a judge, its judgments, and the requests it took."""

    reply: JudgeReply
    """The reply."""
    judgments: tuple[Judgment, ...]
    """One for each criterion in the prompt."""
    requests_sent: int = 0
    """Requests sent for it, retries included."""
    cached: bool = False
    """True if the reply was already stored or cached."""


def jury_metric(rubric: Rubric) -> Metric:
    """Return the jury's score as a metric, on the scale of the rubric."""
    from medhelm.domain.text import metric_title  # lazy: a run needs no other title

    return Metric(
        name=JURY,
        title=metric_title(JURY),
        description=(
            "Mean over judges of each judge's mean over the criteria of the rubric. An empty completion gets the worst "
            "grade; a completion graded by too few judges has no score."
        ),
        source="MedHELM (Bedi et al., 2025), section on the LLM jury; points as in HealthBench (Arora et al., 2025)",
        corrected=not_computed("judges are needed: name some with --judge"),
        low=rubric.low,
        high=rubric.high,
        open_below=rubric.open_below,
    )


def jury_verdict(
    benchmark: Benchmark, instance: Instance, completion: Completion, jury: Jury, verdicts: Sequence[JudgeVerdict]
) -> JuryVerdict:
    """Aggregate all replies of the judges about a completion.

    Corrected rule: each judge that graded every criterion counts as the mean of its grades (for points, as the share of
    points earned, below 0 if harms outweigh). The score is the mean over these judges, or missing if there are fewer
    than the jury needs. An empty completion gets the worst grade; a missing reply of a judge does not lower the score.

    Published rule: the mean over all integer grades of all first replies that the published tool can read, or its
    default. For points, as the corrected rule. Verdicts count with or without the verification code of their prompt.
    """
    if completion.failure:
        return JuryVerdict(scores=tuple(_missing(rule, completion.failure) for rule in RULES))
    assert benchmark.rubric is not None, "only benchmarks with a rubric are judged"
    rubric = benchmark.rubric
    if is_blank(completion):
        published = rubric.published_default if rubric.form == "grades" else rubric.low
        values: Mapping[Rule, float] = {"corrected": rubric.low, "published": published}
        return JuryVerdict(scores=tuple(_score(rule, instance, values[rule]) for rule in RULES))
    if reason := too_long(completion.text or ""):
        failure = Failure("metric", "unscorable", f"{JURY}, instance {instance.id}: {reason}")
        return JuryVerdict(scores=tuple(_missing(rule, failure) for rule in RULES))
    criteria = instance.criteria or rubric.criteria
    parts = [criteria] if rubric.form == "grades" else [(criterion,) for criterion in criteria]
    cells = {judge.name: _judgments_of(judge.name, parts, verdicts) for judge in jury.judges}
    complete = {name: own for name, own in cells.items() if all(cell.failure is None for cell in own)}
    judgments = tuple(cell for own in cells.values() for cell in own)
    enough = len(complete) >= jury.min_judges
    return JuryVerdict(
        scores=(
            _jury_score("corrected", rubric, criteria, complete, jury, instance),
            _published_grades(rubric, criteria, cells, verdicts, instance, completion)
            if rubric.form == "grades"
            else _published_points(rubric, parts, jury, verdicts, instance, completion),
        ),
        judgments=judgments,
        coverage=sum(cell.failure is None for cell in judgments) / len(judgments),
        subscores=_subscores(rubric, criteria, complete) if enough else {},
    )


def is_judged(completion: Completion) -> bool:
    """Return True if judges are asked about a completion: it did not fail, and is neither empty nor too long."""
    return not (completion.failure or is_blank(completion) or too_long(completion.text or ""))


def injection_signs(benchmark: Benchmark, instance: Instance, completion: Completion) -> tuple[InjectionSign, ...]:
    """Find signs of prompt injection in a completion."""
    from medhelm.scoring.jury.prompt_injection import find_injections  # lazy: most runs have no judges

    if not is_judged(completion):
        return ()
    criteria = instance.criteria or (benchmark.rubric.criteria if benchmark.rubric else ())
    return find_injections(strip_reasoning(completion.text or ""), [criterion.name for criterion in criteria])


def shown_texts(instance: Instance, text: str) -> tuple[str, ...]:
    """Return all texts that a judge may have read: a verdict quoted from them does not count."""
    return (text, *instance.fields.values(), *(turn.text for turn in instance.turns), *instance.correct)


def _judgments_of(judge: str, parts: Sequence[Sequence[Criterion]], verdicts: Sequence[JudgeVerdict]) -> list[Judgment]:
    """Return the judgments of one judge: of its attempts the most readable one, the first of equals."""
    cells: list[Judgment] = []
    for part, criteria in enumerate(parts):
        attempts = sorted(
            (one for one in verdicts if one.reply.judge == judge and one.reply.prompt_index == part),
            key=lambda one: one.reply.attempt,
        )
        if attempts:
            cells += min((one.judgments for one in attempts), key=_n_missing)
        else:
            failure = Failure("judge", "not_asked", f"{judge} was not asked")
            cells += [
                Judgment(judge=judge, criterion=c.name, score=None, points=c.points, failure=failure) for c in criteria
            ]
    return cells


def _n_missing(judgments: Iterable[Judgment]) -> int:
    return sum(judgment.failure is not None for judgment in judgments)


def _jury_score(
    rule: Rule, rubric: Rubric, criteria: Sequence[Criterion], complete: Cells, jury: Jury, instance: Instance
) -> Score:
    """Return the mean over complete judges, or the reason why it is missing."""
    if len(complete) < jury.min_judges:
        text = f"{len(complete)} of {len(jury.judges)} judges graded every criterion, and {jury.min_judges} are needed"
        return _missing(rule, Failure("judge", "too_few_judges", text))
    return _score(rule, instance, fmean(_judge_score(rubric, criteria, own) for own in complete.values()))


def _judge_score(rubric: Rubric, criteria: Sequence[Criterion], own: Sequence[Judgment]) -> float:
    """Return the score of one complete judge: the mean of its grades, or the share of points earned.

    That share is at most 1, and below 0 if harms outweigh: only means over completions are cut to the scale.
    """
    scores = [cell.score or 0.0 for cell in own]
    if rubric.form == "grades":
        sides = zip(criteria, scores, strict=True)
        return fmean(score if c.higher_is_better else rubric.low + rubric.high - score for c, score in sides)
    earned = fsum(c.points * score for c, score in zip(criteria, scores, strict=True))
    return earned / fsum(c.points for c in criteria if c.points > 0)


def _published_grades(
    rubric: Rubric,
    criteria: Sequence[Criterion],
    cells: Cells,
    verdicts: Sequence[JudgeVerdict],
    instance: Instance,
    completion: Completion,
) -> Score:
    from medhelm.scoring.jury.parsing import published_grades

    names = [criterion.name for criterion in criteria]
    shown = shown_texts(instance, completion.text or "")
    grades: list[float] = []
    for reply in [one.reply for one in verdicts]:
        if reply.attempt == 0 and reply.judge in cells and reply.completion.text is not None:
            try:
                grades += published_grades(reply.completion.text, names, shown=shown) or []
            except DataError as error:
                return _missing("published", Failure("judge", "unscorable", f"{reply.judge}: {error}"))
    return _score("published", instance, fmean(grades) if grades else rubric.published_default)


def _published_points(
    rubric: Rubric,
    parts: Sequence[Sequence[Criterion]],
    jury: Jury,
    verdicts: Sequence[JudgeVerdict],
    instance: Instance,
    completion: Completion,
) -> Score:
    """Score as by the corrected rule, with the decisions that lack nothing but the verification code."""
    from medhelm.scoring.jury.parsing import parse_judgments

    shown = shown_texts(instance, completion.text or "")

    def without_code(one: JudgeVerdict) -> JudgeVerdict:
        if not any(cell.failure and cell.failure.code == "unverified" for cell in one.judgments):
            return one
        reply = one.reply
        found = parse_judgments(reply.judge, parts[reply.prompt_index], reply.completion, rubric=rubric, shown=shown)
        return replace(one, judgments=found)

    read = list(map(without_code, verdicts))
    cells = {judge.name: _judgments_of(judge.name, parts, read) for judge in jury.judges}
    complete = {name: own for name, own in cells.items() if all(cell.failure is None for cell in own)}
    return _jury_score("published", rubric, [one for part in parts for one in part], complete, jury, instance)


def _subscores(rubric: Rubric, criteria: Sequence[Criterion], complete: Cells) -> dict[str, float]:
    """Return scores on parts of the rubric, by the judges behind the score.

    These are the mean grade of each criterion or, for points, the share of points earned on the criteria with a tag.
    """
    if rubric.form == "grades":
        return {c.name: fmean(own[i].score or 0.0 for own in complete.values()) for i, c in enumerate(criteria)}
    labels = {}
    for tag in sorted({tag for criterion in criteria for tag in criterion.tags}):
        places = [i for i, criterion in enumerate(criteria) if tag in criterion.tags]
        tagged = [criteria[i] for i in places]
        if any(criterion.points > 0 for criterion in tagged):
            labels[tag] = fmean(_judge_score(rubric, tagged, [own[i] for i in places]) for own in complete.values())
    return labels


def _score(rule: Rule, instance: Instance, value: float) -> Score:
    return Score(metric=JURY, rule=rule, value=value, parts=group_parts(instance, rule, value))


def _missing(rule: Rule, failure: Failure) -> Score:
    return Score(metric=JURY, rule=rule, value=None, failure=failure)
