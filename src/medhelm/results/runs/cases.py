"""One instance of a benchmark with what every stored run made of it, as JSON and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.domain import RULES, Rule, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import split_reasoning
from medhelm.domain.run import SHORT_ID
from medhelm.domain.text import listed
from medhelm.errors import UserError, suggestion
from medhelm.results.comparable import select_runs, store_label
from medhelm.results.formats.tables import printable
from medhelm.results.options import EVERY_RUN, RunFilter
from medhelm.results.runs.selection import choose_variants, filter_runs
from medhelm.storage.damage import intact_runs
from medhelm.storage.judgments import read_explanations
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.runs import load_runs, read_columns, read_prompt, read_record
from medhelm.storage.store import open_store


def find_instance(
    stores: Sequence[Path], benchmark: str, instance_id: str, wanted: RunFilter = EVERY_RUN
) -> dict[str, Any]:
    """Return one instance as JSON: prompt, references, and each run's record and judgments.

    `wanted`: only these runs are read; whether the leaderboard counts them depends on the others too.
    Raises: UserError if none of them has the instance.
    """
    opened = [(store_label(path, stores), open_store(path)) for path in stores]
    variants = wanted.variants
    runs = [
        (label, store, run) for label, store in opened for run in intact_runs(load_runs(store, variants=bool(variants)))
    ]
    runs = choose_variants(variants, runs, lambda one: one[2])
    names = {run.benchmark for _, _, run in runs}
    if benchmark not in names:
        places = ", ".join(map(str, stores))
        raise UserError(f"no run of `{benchmark}` in {places}. {suggestion(benchmark, names)}".strip())
    runs = [one for one in runs if one[2].benchmark == benchmark]
    counted = _counted_folders((label, run) for label, _, run in runs)
    completions = []
    prompt: Mapping[str, Any] | None = None
    for label, store, run in filter_runs(wanted, runs, lambda one: one[2]):
        if (record := read_record(run, instance_id)) is None:
            continue
        own = read_prompt(store.prompts_file(benchmark, run.benchmark_digest, run.data_digest), instance_id)
        prompt = prompt or (None if run.is_variant else own)
        judgments = read_explanations(run, instance_id)
        shown = {
            "model": run.model + label,
            "run_id": run.id,
            "judges": [judge.name for judge in run.judges],
            "counts": run.folder in counted,
            "tier": run.tier,
            "main_metric": run.main_metric,
            **record,
            **({"prompt": own} if run.is_variant else {}),
            "cluster": Pseudonyms.of_store(store).of(benchmark, record["cluster"]) if record["cluster"] else "",
        }
        completions.append({**shown, "judgments": judgments} if judgments else shown)
    if not completions:
        ids = list(
            dict.fromkeys(one for _, _, run in runs for one in read_columns(run, ["instance_id"])["instance_id"])
        )
        raise UserError(
            f"no run of {benchmark} has an instance `{instance_id}`. {suggestion(instance_id, ids)} Instances: "
            f"{listed(ids, 10)}. `medhelm export csv DIR --benchmark {benchmark}` writes all ids.".replace("  ", " ")
        )
    return {"benchmark": benchmark, "instance_id": instance_id, **(prompt or {}), "completions": completions}


def _counted_folders(found: Iterable[tuple[str, Run]]) -> set[Path | None]:
    """Return the folders of the runs of one benchmark that the leaderboard of their tier counts."""
    by_tier = group_by(found, lambda pair: pair[1].tier)
    return {run.folder for own in by_tier.values() for run in select_runs(own).runs.values()}


# --- text -------------------------------------------------------------------------------------------------------------


def case_to_text(case: Mapping[str, Any], rule: Rule) -> str:
    """Return a case of `find_instance` as text; scores of `rule` come first."""
    parts = [f"{case['benchmark']} / {case['instance_id']}"]
    if "messages" not in case:
        parts.append("(the prompt is not stored; `medhelm benchmarks preview` renders prompts from the data)")
    for message in case.get("messages", ()):
        parts.append(f"--- {message['role']}\n{printable(message['content'])}")
    for reference in case.get("references", ()):
        parts.append(
            f"--- {'correct' if reference['correct'] else 'incorrect'} reference\n{printable(reference['text'])}"
        )
    texts = {one["name"]: one["text"] for one in case.get("criteria", ())}
    n_runs = Counter(record["model"] for record in case["completions"])
    parts += [_completion_text(one, rule, texts, is_only_run=n_runs[one["model"]] == 1) for one in case["completions"]]
    return "\n\n".join(parts)


def _completion_text(record: Mapping[str, Any], rule: Rule, texts: Mapping[str, str], *, is_only_run: bool) -> str:
    """Return what a run made of the instance. `texts`: criterion -> its text, where it is the instance's own."""
    rules = sorted(RULES, key=lambda r: r != rule)
    scores = [
        f"{key.removesuffix(f'_{r}')} ({r}) {value:g}"
        for r in rules
        for key, value in record.items()
        if key.endswith(f"_{r}") and isinstance(value, float)
    ]
    if record["completion"] is None:
        text = f"no completion: {record['failure_code']} ({record['failure_boundary']}): {record['failure_message']}"
    else:
        split = split_reasoning(record["completion"])
        text = printable(split.answer) or "(empty)"
        if hidden := len(split.reasoning) + len(record.get("reasoning") or ""):
            scores.append(f"{hidden:,} characters of reasoning not shown")
    tokens = f"{record['input_tokens']} + {record['output_tokens']} tokens, {record['latency_s']:.2f} s"
    if record.get("left_out"):
        scores.append(f"prompt truncated by {record['left_out']:,} characters")
    if record.get("unreadable"):
        scores.append("no readable answer")
    if record.get("suspicions"):
        scores.append(f"signs of prompt injection: {record['suspicions']}")
    facts = "; ".join(_case_facts(record, is_only_run=is_only_run))
    lines = [f"=== {record['model']}{facts and f' ({facts})'}", printable(text), f"[{'; '.join([*scores, tokens])}]"]
    return "\n".join([*lines, *(_judgment_text(judgment, texts) for judgment in record.get("judgments", ()))])


def _case_facts(record: Mapping[str, Any], *, is_only_run: bool) -> list[str]:
    """Return what distinguishes a run in the heading of its completion; little if the model has no other run."""
    facts = [] if record["tier"] == "real" else [f"{record['tier']} rows"]
    if not is_only_run:
        judges = f", judged by {', '.join(record['judges'])}" if record["judges"] else ""
        facts.append(f"run {record['run_id'][:SHORT_ID]}{judges}")
        facts.append(f"{'counted' if record['counts'] else 'not counted'} on the leaderboard")
    return facts


def _judgment_text(judgment: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """Return one line: judge, criterion with its points and text, grade and explanation."""
    name, points = judgment["criterion"], judgment.get("points")
    shown = " ".join(
        filter(None, [printable(name), f"[{points:+g}]" if points else "", printable(texts.get(name, ""))])
    )
    head = f"  {judgment['judge']}, {shown}: "
    if judgment["score"] is None:
        return head + f"no judgment: {judgment['failure_code']}: {printable(judgment['failure_message'] or '')}"
    if points:
        head += "met, " if judgment["score"] else "not met, "
    return head + f"{judgment['score']:g}  {printable(judgment['explanation'] or '')}".rstrip()
