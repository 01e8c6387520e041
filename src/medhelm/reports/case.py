"""One case as text: the prompt, the references, and every model's completion and scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medhelm.domain import RULES, Rule
from medhelm.reports.plain import printable


def to_text(case: Mapping[str, Any], rule: Rule) -> str:
    """`case` is what `standings.find_case` found; scores of `rule` are shown first."""
    parts = [f"{case['benchmark']} / {case['instance_id']}"]
    if "messages" not in case:
        parts.append("(the prompt is not stored; `medhelm benchmarks preview` renders it from the data)")
    for message in case.get("messages", ()):
        parts.append(f"--- {message['role']}\n{printable(message['content'])}")
    for reference in case.get("references", ()):
        parts.append(f"--- {'right' if reference['correct'] else 'wrong'} answer\n{printable(reference['text'])}")
    parts += [_completion(record, rule) for record in case["completions"]]
    return "\n\n".join(parts)


def _completion(record: Mapping[str, Any], rule: Rule) -> str:
    rules = sorted(RULES, key=lambda r: r != rule)
    scores = [
        f"{key.removesuffix(f'_{r}')} ({r}) {value:g}"
        for r in rules
        for key, value in record.items()
        if key.endswith(f"_{r}") and isinstance(value, float)
    ]
    if record["completion"] is None:
        said = f"no completion: {record['failure_code']} ({record['failure_boundary']}): {record['failure_message']}"
    else:
        said = printable(record["completion"]) or "(empty)"
    tier = "" if record["tier"] == "real" else f" ({record['tier']} rows)"
    tokens = f"{record['input_tokens']} + {record['output_tokens']} tokens, {record['latency_s']:.2f} s"
    if record.get("left_out"):
        scores.append(f"{record['left_out']:,} characters of the prompt left out, to fit the model")
    if record.get("suspicions"):
        scores.append(f"meant for a judge: {record['suspicions']}")
    lines = [f"=== {record['model']}{tier}", printable(said), f"[{'; '.join([*scores, tokens])}]"]
    return "\n".join([*lines, *(_judgment(judgment) for judgment in record.get("judgments", ()))])


def _judgment(judgment: Mapping[str, Any]) -> str:
    """One line: who, on what, which grade, and why."""
    who = f"  {judgment['judge']}, {printable(judgment['criterion'])}: "
    if judgment["score"] is None:
        return who + f"no judgment: {judgment['failure_code']}: {printable(judgment['failure_message'] or '')}"
    return who + f"{judgment['score']:g}  {printable(judgment['explanation'] or '')}".rstrip()
