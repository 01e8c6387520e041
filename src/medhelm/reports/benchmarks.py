"""The benchmark catalog as text and as JSON: lists, definitions, prompts, results of checks, and the taxonomy."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medhelm.domain import Benchmark, Criterion
from medhelm.reports import tables
from medhelm.reports.tables import printable

SHOWN = 5
"""How many of the references with the same fault are shown; `--json` has them all."""


def list_table(benchmarks: Sequence[Benchmark], folders: Mapping[str, Path | None]) -> str:
    """One line per benchmark. `folders`: name -> where its data was found; None if it was not."""
    packaged = any(b.package for b in benchmarks)
    headers = ["name", "title", "subcategory", "access", "instances", "metric", "data here"]
    headers += ["package"] if packaged else []
    rows = [
        [
            b.name,
            b.title,
            b.taxonomy.subcategory,
            b.access,
            evaluated_in_words(b),
            b.main_metric,
            "yes" if folders[b.name] else "no",
            *([b.package or "-"] if packaged else []),
        ]
        for b in benchmarks
    ]
    return tables.render(rows, headers, format="table")


def evaluated(benchmark: Benchmark) -> int | None:
    """How many instances are evaluated by default; None if the definition does not say."""
    expected, size = benchmark.source.expected_count, benchmark.sample.size
    if benchmark.group_column and size and (expected is None or expected > size):
        return None  # it depends on the number of groups
    counts = [count for count in (expected, size) if count]
    return min(counts) if counts else None


def evaluated_in_words(benchmark: Benchmark) -> str:
    """The same for people: `1,000`, `100 per condition`, or `all there are`."""
    if count := evaluated(benchmark):
        return f"{count:,}"
    if benchmark.group_column and benchmark.sample.size:
        return f"{benchmark.sample.size:,} per {benchmark.group_column}"
    return f"at most {benchmark.sample.size:,}" if benchmark.sample.size else "all there are"


def as_json(benchmark: Benchmark, folder: Path | None) -> dict[str, Any]:
    """A definition as JSON. `folder`: where its data was found."""
    content = asdict(benchmark)
    return {
        **content,
        "folder": str(benchmark.folder),
        "instances": evaluated(benchmark),
        "data": folder and str(folder),
    }


def show_text(benchmark: Benchmark, folder: Path | None) -> str:
    """A definition for reading."""
    source = benchmark.source
    samples = ", ".join(["default", *benchmark.samples])
    lines = [
        f"{benchmark.title} ({', '.join([benchmark.name, *benchmark.aliases])})",
        benchmark.description,
        "",
        f"category      {benchmark.taxonomy.category} > {benchmark.taxonomy.subcategory}",
        f"task          {benchmark.taxonomy.task or '-'}",
        f"access        {benchmark.access}; licence: {benchmark.license or 'not stated'}",
        f"citation      {benchmark.citation or '-'}",
        *([f"package       {benchmark.package}"] if benchmark.package else []),
        f"data          {source.kind}: {', '.join(source.files) or '-'}; {folder or 'not found here'}",
        f"from          {source.location or '-'} {source.revision}".rstrip(),
        *([f"note          {source.note}"] if source.note else []),
        f"instances     {source.expected_count or '?'} in the data, evaluated: {evaluated_in_words(benchmark)}; "
        f"selections: {samples}",
        f"max_tokens    {benchmark.max_tokens}",
        f"metrics       {', '.join(benchmark.metrics)} (the first is the main one)",
        f"digest        {benchmark.digest}",
        *_rules_and_rubric(benchmark),
        *(f"remark        {printable(remark)}" for remark in benchmark.remarks),
        "",
        *_prompt(benchmark),
    ]
    return "\n".join(lines)


def _rules_and_rubric(benchmark: Benchmark) -> list[str]:
    """How the rules differ, and what judges are asked."""
    lines = []
    if benchmark.rules.published:
        lines += [
            f"published     {benchmark.rules.published}",
            f"corrected     {benchmark.rules.corrected}",
            f"why           {benchmark.rules.why}",
        ]
    if rubric := benchmark.rubric:
        scale = "points" if rubric.form == "points" else f"{rubric.low:g} to {rubric.high:g}"
        lines += [f"rubric        {scale}: {printable(rubric.task)}"]
        lines += [f"              {_criterion(criterion)}" for criterion in rubric.criteria]
        if benchmark.criteria_column:
            lines.append(f"              the criteria of each instance stand in the column {benchmark.criteria_column}")
    return lines


def _criterion(criterion: Criterion) -> str:
    """A criterion for reading."""
    notes = [f"{criterion.points:+g} points"] if criterion.points else []
    notes += [] if criterion.higher_is_better else ["the lowest grade is the best"]
    shown = f" ({', '.join(notes)})" if notes else ""
    return f"{criterion.name}{shown}: {printable(criterion.description)}"


def _prompt(benchmark: Benchmark) -> list[str]:
    """What a model is asked."""
    if benchmark.conversation_column:
        return [f"prompt: the conversation in the column {benchmark.conversation_column} is to be continued"]
    return ["prompt", *(f"  | {line}" for line in benchmark.prompt.splitlines())]


def rules_table(benchmarks: Sequence[Benchmark], format: str) -> str:
    """What the published rule does, what is done here, and why, for each benchmark; `format`: see `tables.render`."""
    rows = [
        [b.name, b.title, evaluated_in_words(b), b.main_metric, d.published, d.corrected, d.why]
        for b in benchmarks
        for d in [b.rules]
    ]
    headers = ["benchmark", "title", "instances", "main metric", "published rule", "corrected rule", "why"]
    return tables.render([[" ".join(cell.split()) for cell in row] for row in rows], headers, format=format)


def preview_text(benchmark: Benchmark, cases: Sequence[Mapping[str, Any]]) -> str:
    """Prompts as a model would read them."""
    parts = []
    for case in cases:
        turns = "\n".join(f"[{m['role']}]\n{printable(m['content'])}" for m in case["messages"])
        right = " | ".join(printable(r["text"]) for r in case["references"] if r["correct"])
        parts.append(f"--- {benchmark.name} / {case['id']}\n{turns}\n[right answer: {right}]")
    parts.append(f"main metric {benchmark.main_metric}, at most {benchmark.max_tokens} tokens each")
    return "\n\n".join(parts)


def check_text(check: Mapping[str, Any]) -> str:
    """The result of a check: mean score of the references by metric and rule, and every one that is not accepted."""
    metrics = list(check["means"]["corrected"])
    rows = [
        [metric, *(_mean(check["means"][rule][metric]) for rule in ("corrected", "published"))] for metric in metrics
    ]
    lines = [
        f"{check['benchmark']}: the definition is sound; {check['n']} references scored as if they were completions",
        "",
        tables.render(rows, ["metric", "corrected", "published"], format="table").rstrip("\n"),
    ]
    if not rows:
        lines = [f"{check['benchmark']}: the definition is sound; {check['n']} instances, which only judges can score"]
    lines += [line for rule in check["means"] for line in _exceptions(check["exceptions"], rule)]
    if floor := check["floor"]:
        values = ", ".join(f"{rule} {_mean(value)}" for rule, value in floor["values"].items())
        answer = textwrap.shorten(printable(floor["answer"]), 60, placeholder=" ...")
        lines += ["", f"the same answer always: {answer!r}, right in {100 * floor['share']:.1f} %, scores {values}"]
    if check["findings"]:
        lines += ["", "to look at:", *(f"  {printable(finding['text'])}" for finding in check["findings"])]
    if check["remarks"]:
        lines += ["", "how it was read:", *(f"  {printable(remark)}" for remark in check["remarks"])]
    if check["note"]:
        lines += ["", f"note: {check['note']}"]
    return "\n".join(lines)


def skipped_text(names: Sequence[str]) -> list[str]:
    """Which benchmarks were not checked, because their data is not here; nothing if all were."""
    return [f"skipped, because their data is not here: {', '.join(names)}"] if names else []


def _mean(value: float | None) -> str:
    return "not computed" if value is None else f"{value:.4f}"


def _exceptions(exceptions: Sequence[Mapping[str, Any]], rule: str) -> list[str]:
    """References that one rule does not accept, those with the same reason together."""
    by_reason: dict[str, list[Mapping[str, Any]]] = {}
    for exception in exceptions:
        if exception["rule"] == rule:
            by_reason.setdefault(exception["reason"] or "NOT EXPLAINED", []).append(exception)
    lines = []
    for reason, group in by_reason.items():
        examples = "; ".join(f"{e['instance_id']}: {printable(e['reference'])!r}" for e in group[:SHOWN])
        more = f"; and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
        lines.append(f"  {len(group)} because {reason} ({examples}{more})")
    return ["", f"references that do not get the best score by the {rule} rule:", *lines] if lines else []


# --- taxonomy ---------------------------------------------------------------------------------------------------------

WIDTH = 24
"""Columns for the name of a benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCoverage:
    """A benchmark in its place."""

    name: str
    """Its id."""
    task: str
    """The task it stands for."""
    access: str
    """public, gated or private."""
    instances: str
    """How many are evaluated, in words."""
    n: int | None
    """The same as a number; None if the definition does not say."""
    here: bool
    """Whether its data is on this machine."""
    why_not: str
    """Why it is not; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubcategoryCoverage:
    """A subcategory with its benchmarks."""

    id: str
    """Its id."""
    title: str
    """Its name."""
    benchmarks: Sequence[BenchmarkCoverage]
    """Benchmarks in it."""
    tasks: Sequence[str] = ()
    """Its tasks, as far as they are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryCoverage:
    """A category with its subcategories."""

    id: str
    """Its id."""
    title: str
    """Its name."""
    subcategories: Sequence[SubcategoryCoverage]
    """Its subcategories."""
    definition: str = ""
    """What belongs to it; empty for one of the user's own."""
    criterion: str = ""
    """By what it is recognised."""
    performers: str = ""
    """Who does this work."""


def taxonomy_tree(categories: Sequence[CategoryCoverage], *, tasks_of_the_paper: int, with_tasks: bool) -> str:
    """The whole as text; `with_tasks`: also the tasks of each subcategory."""
    lines: list[str] = []
    for category in categories:
        lines += [category.title, *(f"  {text}" for text in (category.definition, category.criterion) if text)]
        lines += [f"  Done by: {category.performers}"] if category.performers else []
        for subcategory in category.subcategories:
            lines += [f"  {subcategory.title} ({_covered(subcategory)})"]
            lines += [f"    - {task}" for task in subcategory.tasks if with_tasks]
            lines += [_line(benchmark) for benchmark in subcategory.benchmarks]
        lines.append("")
    return "\n".join([*lines, _taxonomy_summary(categories, tasks_of_the_paper)])


def _taxonomy_summary(categories: Sequence[CategoryCoverage], tasks_of_the_paper: int) -> str:
    """The counts, and what is not known."""
    places = [place for category in categories for place in category.subcategories]
    benchmarks = [benchmark for place in places for benchmark in place.benchmarks]
    covered = {(p.id, benchmark.task) for p in places for benchmark in p.benchmarks if benchmark.task in p.tasks}
    here = sum(benchmark.here for benchmark in benchmarks)
    return (
        f"{len(categories)} categories, {len(places)} subcategories, {len(benchmarks)} benchmarks, {here} with data "
        f"here.\n{sum(len(place.tasks) for place in places)} tasks, {len(covered)} of them with a benchmark. The paper "
        f"counts {tasks_of_the_paper} tasks, but their list is unpublished:\n"
        "these are what can be recovered from the condensed points of its appendix."
    )


def taxonomy_as_json(categories: Sequence[CategoryCoverage], tasks_of_the_paper: int) -> dict[str, Any]:
    """The whole as JSON."""
    return {
        "categories": [
            {
                "id": category.id,
                "title": category.title,
                "definition": category.definition,
                "criterion": category.criterion,
                "performers": category.performers,
                "subcategories": [_subcategory_json(subcategory) for subcategory in category.subcategories],
            }
            for category in categories
        ],
        "n_tasks": sum(len(subcategory.tasks) for category in categories for subcategory in category.subcategories),
        "n_tasks_of_the_paper": tasks_of_the_paper,
    }


def _subcategory_json(subcategory: SubcategoryCoverage) -> dict[str, Any]:
    benchmarks = [
        {
            "name": benchmark.name,
            "task": benchmark.task,
            "access": benchmark.access,
            "instances": benchmark.n,
            "here": benchmark.here,
            "why_not": benchmark.why_not,
        }
        for benchmark in subcategory.benchmarks
    ]
    return {
        "id": subcategory.id,
        "title": subcategory.title,
        "tasks": list(subcategory.tasks),
        "benchmarks": benchmarks,
    }


def _covered(subcategory: SubcategoryCoverage) -> str:
    n = len(subcategory.benchmarks)
    tasks = f"{len(subcategory.tasks)} task{'' if len(subcategory.tasks) == 1 else 's'}, " if subcategory.tasks else ""
    return f"{tasks}{n or 'no'} benchmark{'' if n == 1 else 's'}"


def _line(benchmark: BenchmarkCoverage) -> str:
    state = "data here" if benchmark.here else f"no data here: {benchmark.why_not}"
    return printable(
        f"    * {benchmark.name:<{WIDTH}} {benchmark.access:<8} instances: {benchmark.instances:<17} {state}"
    )
