"""Run our tasks in Inspect with the scripted model, as a program, and write logs.

    python inspect_program.py FOLDER ASKED

ASKED is JSON: tasks, their parameters, options of Inspect's own, and mistakes: name -> task and parameters.

What was asked, what Inspect itself reads in its logs, and what is said of mistakes goes to FOLDER/seen.json. It is a
process of its own because Inspect's modules give warnings, and because it finds tasks by entry points.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import eval as evaluate
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import EvalLog
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    modelapi,
)

from medhelm.extensions.exchange.inspect import tasks
from tests.support.models.scripted import FAILS, JUDGES, REFUSES, answer, verdict

ASKED: list[dict[str, Any]] = []
"""Every request, as it would have been sent."""


class Scripted(ModelAPI):
    """Says what `scripted` says."""

    async def generate(
        self, input: list[ChatMessage], tools: object, tool_choice: object, config: GenerateConfig
    ) -> ModelOutput:
        """Answer, or judge."""
        messages = [(message.role, message.text) for message in input]
        limits = {"max_tokens": config.max_tokens, "temperature": config.temperature, "stop": config.stop_seqs}
        ASKED.append({"model": self.model_name, "messages": messages, **limits})
        kind, text = ("say", verdict(self.model_name, messages)) if self.model_name in JUDGES else answer(messages)
        if kind == FAILS:
            raise RuntimeError("the server is on fire")
        output = ModelOutput.from_content(
            self.model_name, text, stop_reason="content_filter" if kind == REFUSES else "stop"
        )
        output.usage = ModelUsage(
            input_tokens=15, input_tokens_cache_read=5, output_tokens=3, reasoning_tokens=2, total_tokens=23
        )
        return output

    def should_retry(self, ex: BaseException) -> bool:
        """Never: a fault that is scripted stays."""
        return False


@modelapi(name="scripted")
def scripted() -> type[ModelAPI]:
    """Make it known as `scripted/NAME`."""
    return Scripted


def seen(logs: Sequence[EvalLog]) -> dict[str, Any]:
    """Task -> numbers, as Inspect has them."""
    return {
        log.eval.task: {
            "status": log.status,
            "results": {
                score.name: {
                    **{name.rpartition("_")[2]: one.value for name, one in score.metrics.items()},
                    "scored": score.scored_samples,
                }
                for score in (log.results.scores if log.results else ())
            },
        }
        for log in logs
    }


def said_of(task: str, parameters: dict[str, Any]) -> str:
    """Return the message about a task that cannot be made."""
    try:
        (tasks.TASKS.get(task) or tasks.benchmark)(**parameters)
    except PrerequisiteError as error:
        return str(error.message)
    return ""


if __name__ == "__main__":
    folder, asked = sys.argv[1:]
    names, parameters, options, mistakes = json.loads(asked)
    done = evaluate(
        names,
        model="scripted/model",
        task_args=parameters,
        log_dir=folder,
        display="log",  # "none" lays out a table of all tasks that is never shown, for most of the time
        max_tasks=4,
        log_realtime=False,
        log_level="error",
        adaptive_connections=False,
        **options,
    )
    said = {name: said_of(*mistake) for name, mistake in mistakes.items()}
    content = {"asked": ASKED, "tasks": seen(done), "said": said}
    Path(folder, "seen.json").write_text(json.dumps(content), encoding="utf-8")
