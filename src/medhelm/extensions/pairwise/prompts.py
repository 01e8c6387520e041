"""The prompt to a judge about two completions, and its verdict.

Texts are delimited, and verdicts verified, as for the jury (`scoring.jury.prompts`, `scoring.jury.parsing`): a verdict
is a grade on one criterion, whose scale has three values. So planted and copied verdicts are not counted here either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from medhelm.domain import Benchmark, Completion, Criterion, Instance, Message, Prompt, Rubric
from medhelm.domain.completion import strip_reasoning
from medhelm.scoring.jury.panel import shown_texts
from medhelm.scoring.jury.parsing import parse_judgments, retry_reason
from medhelm.scoring.jury.prompts import JudgePrompt, delimit, explain_tags, object_schema, question, with_code

VERSION = 1
"""Version of the prompt; increment it with every change of the wording."""

PREFERRED = "preferred"
"""Key of the verdict."""

SCALE = Rubric(task="", criteria=(Criterion(PREFERRED, "the better response"),), low=0, high=2)
"""The verdict as a grade: 1 and 2 for the response with this number, 0 for a tie."""

_SCHEMA = object_schema(  # the explanation first, so that the verdict follows from it
    {
        PREFERRED: object_schema({"explanation": {"type": "string"}, "score": {"type": "integer", "enum": [0, 1, 2]}}),
    }
)

_TASK = (
    "You are a medical expert. You see a question or task, and the responses of two language models to it. Decide "
    "which response is better."
)


class PairVerdict(NamedTuple):
    """The verdict in one completion of a judge."""

    number: int | None
    """1 or 2 for the better response, 0 for a tie; None if there is no verdict."""
    explanation: str
    """Explanation in the judge's words."""
    failure: str
    """Code of the problem if there is no verdict; see `scoring.jury.parsing`."""
    retry: str
    """Problem in words for the judge; empty if there is none, or a retry cannot help."""
    reply: str
    """The whole text, for a retry."""


def pair_prompt(
    benchmark: Benchmark, instance: Instance, texts: tuple[str, str], *, with_codes: bool = True
) -> JudgePrompt:
    """Return the prompt about two completions, in this order; it is deterministic.

    The reference is shown if judges of the benchmark see it. `with_codes`: False to ask for no verification code.
    """
    rubric = benchmark.rubric
    assert rubric is not None, "only benchmarks with a rubric are judged"
    shown = {"QUESTION": question(benchmark, instance)}
    shown |= {f"RESPONSE_{number}": strip_reasoning(text) for number, text in enumerate(texts, 1)}
    what = [
        "the question or task that was put to two models (QUESTION)",
        "the first response (RESPONSE_1)",
        "the second response (RESPONSE_2)",
    ]
    if rubric.shows_reference and instance.correct and instance.correct[0].strip():
        shown["REFERENCE"] = instance.correct[0]
        what.append("a reference, to compare the responses with where you need it (REFERENCE)")
    tags = delimit(shown)
    material = "\n\n".join(tags.around(name, text) for name, text in shown.items())
    text = f"{_TASK}\n\n{explain_tags(what, tags)}\n\n{material}\n\n{_instructions(rubric, instance)}"
    prompt = JudgePrompt(part=0, criteria=SCALE.criteria, prompt=Prompt((Message("user", text),)), schema=_SCHEMA)
    return with_code(prompt) if with_codes else prompt


def _instructions(rubric: Rubric, instance: Instance) -> str:
    """State the criteria and the form of the verdict."""
    listed = "\n".join(f"- {_in_words(rubric, one)}" for one in instance.criteria or rubric.criteria)
    form = {PREFERRED: {"explanation": "<the reason, in one or two short sentences>", "score": "<1, 2 or 0>"}}
    shown = json.dumps(form).replace('"<1, 2 or 0>"', "<1, 2 or 0>")
    return (
        f"Judge by these criteria, all of them together:\n\n{listed}\n\n"
        "The order of the responses says nothing about them, nor does their length: a longer response is not better "
        "for being longer.\n\n"
        f"Reply with one JSON object and nothing else. Under the key `{PREFERRED}` it has an object with "
        "`explanation`, and with `score`, which is 1 if RESPONSE_1 is better, 2 if RESPONSE_2 is better and 0 if "
        "neither is. It has to be valid JSON: keys and strings in double quotes, quotes inside the explanation "
        f"escaped. The form, with your words in place of <...>:\n\n{shown}"
    )


def _in_words(rubric: Rubric, criterion: Criterion) -> str:
    """Return a criterion, and whether it is desirable."""
    if rubric.form == "points":
        return f"{criterion.description} ({'undesirable' if criterion.points < 0 else 'desirable'})"
    name = criterion.name if criterion.higher_is_better else f"{criterion.name} (less is better)"
    return name if criterion.description in ("", criterion.name) else f"{name}: {criterion.description}"


def read_verdict(
    judge: str, prompt: JudgePrompt, completion: Completion, instance: Instance, texts: Sequence[str]
) -> PairVerdict:
    """Parse a judge's completion; one that cannot be parsed has no verdict.

    `texts`: the two completions; a verdict that is copied from them does not count.
    """
    shown = (*shown_texts(instance, texts[0]), texts[1])
    judgments = parse_judgments(
        judge, SCALE.criteria, completion, rubric=SCALE, shown=shown, code=prompt.verification_code
    )
    (judgment,) = judgments
    why, reply = judgment.explanation, completion.text or ""
    if judgment.score is None:
        code = judgment.failure.code if judgment.failure else ""
        return PairVerdict(None, why, code, retry_reason(judgments), reply)
    if judgment.score not in (0, 1, 2):
        return PairVerdict(None, why, "off_scale", f"`{PREFERRED}` has a score other than 1, 2 and 0", reply)
    return PairVerdict(int(judgment.score), why, "", "", reply)
