"""Run a jury in Inspect: MedHELM builds the prompts, parses the completions and scores; Inspect makes the requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    get_model,
)
from inspect_ai.model import Model as InspectModel
from inspect_ai.util import LimitExceededError, collect

from medhelm.domain import (
    Benchmark,
    Completion,
    Failure,
    Instance,
    JudgeReply,
    Jury,
    JuryVerdict,
    Model,
    Prompt,
)
from medhelm.domain.jury import AT_LEAST
from medhelm.errors import UserError
from medhelm.extensions.exchange.importer import model_of
from medhelm.extensions.exchange.inspect.instances import completion_of
from medhelm.models.model_names import reasons
from medhelm.scoring.jury.panel import JudgeVerdict, is_judged, judge_max_tokens, jury_verdict, shown_texts
from medhelm.scoring.jury.parsing import parse_judgments, retry_reason
from medhelm.scoring.jury.prompts import JudgePrompt, judge_prompts, retry_prompt


@dataclass(frozen=True, slots=True)
class TaskJuryResult:
    """A jury's judgments of one completion, and the scores."""

    verdicts: Sequence[JudgeVerdict]
    """Every verdict, first attempts before second ones."""
    judged: JuryVerdict
    """Judgments and scores."""

    def metadata(self) -> dict[str, Any]:
        """Return everything as JSON for the log, so that scores can be computed again from the completions."""
        return {
            "judgments": [
                {
                    "judge": one.judge,
                    "criterion": one.criterion,
                    "score": one.score,
                    "points": one.points,
                    "failure": one.failure.code if one.failure else None,
                    "message": one.failure.message if one.failure else "",
                    "explanation": one.explanation,
                }
                for one in self.judged.judgments
            ],
            "replies": [
                {
                    "judge": reply.judge,
                    "part": reply.prompt_index,
                    "attempt": reply.attempt,
                    "text": reply.completion.text,
                    "verification_code": reply.verification_code,
                    "failure": reply.completion.failure.code if reply.completion.failure else None,
                    "message": reply.completion.failure.message if reply.completion.failure else "",
                    "finish_reason": reply.completion.finish_reason,
                }
                for reply in (one.reply for one in self.verdicts)
            ],
        }

    def explained(self) -> list[str]:
        """Return one line for each judgment."""
        return [
            f"{one.judge}, {one.criterion}: "
            + (f"no score ({one.failure.message})" if one.failure else f"{one.score:g}. {one.explanation}").rstrip()
            for one in self.judged.judgments
        ]


class TaskJury:
    """The judges of a task."""

    def __init__(self, names: Sequence[str], *, at_least: int | None, reply_tokens: int | None) -> None:
        """`names`: models in Inspect. Raises: UserError if an instance requires more judges than there are."""
        if at_least is not None and not 1 <= at_least <= len(names):
            raise UserError(f"min_judges={at_least}: an instance cannot need {at_least} of {len(names)} judges.")
        judges = tuple(map(_judge_model, names))
        self.jury = Jury(judges=judges, min_judges=at_least or min(AT_LEAST, len(judges)))
        self._reply_tokens = reply_tokens
        self._models: dict[str, InspectModel] = {}

    async def judge(self, benchmark: Benchmark, instance: Instance, completion: Completion) -> TaskJuryResult:
        """Return all judges' verdicts on a completion; an empty completion is not sent to judges."""
        verdicts: list[JudgeVerdict] = []
        if is_judged(completion):
            assert benchmark.rubric is not None, "only benchmarks with a rubric are judged"
            shown = shown_texts(instance, completion.text or "")
            prompts = judge_prompts(benchmark, instance, completion.text or "")

            async def ask(judge: str, part: JudgePrompt) -> list[JudgeVerdict]:
                return await self._ask(judge, part, benchmark, shown)

            by_prompt = await collect(*(ask(judge.name, part) for judge in self.jury.judges for part in prompts))
            verdicts = [one for own in by_prompt for one in own]
        return TaskJuryResult(verdicts, jury_verdict(benchmark, instance, completion, self.jury, verdicts))

    async def _ask(
        self, judge: str, ask: JudgePrompt, benchmark: Benchmark, shown: Sequence[str]
    ) -> list[JudgeVerdict]:
        """Send one prompt to one judge, and once more if its completion cannot be parsed."""
        first = await self._send(judge, ask, ask.prompt, 0, benchmark, shown)
        problem = retry_reason(first.judgments)
        if not problem:
            return [first]
        prompt = retry_prompt(ask, first.reply.completion.text or "", problem)
        return [first, await self._send(judge, ask, prompt, 1, benchmark, shown)]

    async def _send(
        self, judge: str, ask: JudgePrompt, prompt: Prompt, attempt: int, benchmark: Benchmark, shown: Sequence[str]
    ) -> JudgeVerdict:
        """Send one request. If the judge fails, its verdict has a failure (missing data), and the sample continues."""
        assert benchmark.rubric is not None, "only benchmarks with a rubric are judged"
        try:
            output = await self._model(judge).generate([_chat_message(m.role, m.text) for m in prompt.messages])
            completion = completion_of(output, whole=True)
        except LimitExceededError:
            raise
        except Exception as error:  # noqa: BLE001 - each provider of Inspect raises its own errors
            words = str(error) or type(error).__name__
            completion = Completion(failure=Failure("judge", "request_failed", words))
        if completion.failure:
            completion = replace(completion, failure=replace(completion.failure, boundary="judge"))
        reply = JudgeReply(
            judge=judge,
            prompt_index=ask.part,
            attempt=attempt,
            completion=completion,
            verification_code=ask.verification_code,
        )
        return JudgeVerdict(
            reply=reply,
            judgments=parse_judgments(
                judge,
                ask.criteria,
                completion,
                rubric=benchmark.rubric,
                shown=shown,
                code=ask.verification_code,
            ),
        )

    def _model(self, name: str) -> InspectModel:
        """Return the judge as an Inspect model, created on first use."""
        if name not in self._models:
            judge = _judge_model(name)
            limit, temperature = self._reply_tokens or judge_max_tokens(judge), 0.0 if judge.takes_temperature else None
            self._models[name] = get_model(name, config=GenerateConfig(max_tokens=limit, temperature=temperature))
        return self._models[name]


def _judge_model(name: str) -> Model:
    judge = model_of(name)
    return replace(judge, reasoning=reasons(judge.remote_name))


def _chat_message(role: str, text: str) -> ChatMessage:
    return ChatMessageAssistant(content=text) if role == "assistant" else ChatMessageUser(content=text)
