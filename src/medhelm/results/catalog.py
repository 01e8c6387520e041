"""Benchmarks, models, data, plug-ins and the taxonomy as tables, text and JSON."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medhelm.benchmarks.data.dataset import availability
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain import Availability, Benchmark, Criterion, Model, Price, Usage
from medhelm.domain.benchmark import Category, Subcategory, group_by
from medhelm.domain.completion import ModelCheck
from medhelm.domain.text import group_title, listed, metric_title, plural
from medhelm.results.formats.fields import plain_json, select
from medhelm.results.formats.tables import MISSING, Value, printable, render, tabulate

# --- benchmarks -------------------------------------------------------------------------------------------------------

SHOWN = 5
"""Most references shown per reason; `--json` has all of them."""


def benchmarks_table(
    benchmarks: Sequence[Benchmark], folders: Mapping[str, Path | None], constructions: Mapping[str, str]
) -> str:
    """Return one line per benchmark.

    `folders`: name -> folder of its data, None if it was not found. `constructions`: see `suites.constructions`.
    """
    columns: dict[str, Callable[[Benchmark], Value]] = {
        "name": lambda b: b.name,
        "title": lambda b: b.title,
        "subcategory": lambda b: group_title(b.taxonomy.subcategory),
        "access": lambda b: b.access,
        "source": lambda b: constructions.get(b.name),
        "instances": evaluated_in_words,
        "metric": lambda b: metric_title(b.main_metric),
        "data": lambda b: "yes" if folders[b.name] else "no",
        "package": lambda b: b.package or None,
    }
    if not any(b.package for b in benchmarks):
        del columns["package"]
    return render(
        *tabulate(benchmarks, columns), drop=("source", "package", "subcategory", "title", "metric", "access")
    )


def evaluated(benchmark: Benchmark) -> int | None:
    """Return the number of instances that are evaluated by default; None if unknown."""
    expected, size = benchmark.source.expected_count, benchmark.sample.size
    if benchmark.group_column and size and (expected is None or expected > size):
        return None  # depends on the number of groups
    counts = [count for count in (expected, size) if count]
    return min(counts) if counts else None


def evaluated_in_words(benchmark: Benchmark) -> str:
    """Return that number as text: `1,000`, `100 per condition` or `all`."""
    if count := evaluated(benchmark):
        return f"{count:,}"
    if benchmark.group_column and benchmark.sample.size:
        return f"{benchmark.sample.size:,} per {benchmark.group_column}"
    return f"at most {benchmark.sample.size:,}" if benchmark.sample.size else "all"


FORMATS = {
    "arrow": "Arrow file",
    "csv": "CSV",
    "docx": "Word document",
    "feather": "Feather file",
    "folder": "folder of files",
    "json": "JSON",
    "jsonl": "JSON lines",
    "lines": "text by line",
    "parquet": "Parquet",
    "text": "text files",
    "xlsx": "Excel workbook",
    "xml": "XML",
}
"""Format of data files -> its name for people."""


def data_in_words(benchmark: Benchmark, n_run: int | None = None, n_most: int | None = None) -> str:
    """Return the format of the data, its number of cases, and how many are evaluated.

    Parameters: n_run, cases of a run without a limit; None if there is none; n_most, cases of the largest run; None if
    there is no run. Returns: a text such as `Excel workbook, 147 cases, all evaluated`.
    """
    count, total = evaluated(benchmark), benchmark.source.expected_count
    kind = FORMATS.get(benchmark.source.kind, benchmark.source.kind)
    if benchmark.sample.size is None and total is None:
        total = n_run
    if total is None:
        return f"{kind}, {evaluated_in_words(benchmark)} cases evaluated"
    part = "all" if benchmark.sample.size is None or count == total else evaluated_in_words(benchmark)
    if n_most is not None and n_most < (count or total):
        part = f"{n_most:,}"
    return f"{kind}, {plural(total, 'case')}, {part} evaluated"


def benchmark_as_json(benchmark: Benchmark, folder: Path | None, construction: str) -> dict[str, Any]:
    """Return a definition as JSON.

    `folder`: folder of its data, None if it was not found. `construction`: how the paper came by it; empty if it is not
    one of the paper's.
    """
    content = plain_json(benchmark)
    for name in ("own_prompt", "answer_after"):  # of other prompts, which a definition does not have
        del content[name]
    return {
        **content,
        "instances": evaluated(benchmark),
        "construction": construction,
        "data": folder and str(folder),
    }


def show_text(benchmark: Benchmark, folder: Path | None, construction: str) -> str:
    """Return a definition as text; parameters as of `benchmark_as_json`."""
    source = benchmark.source
    samples = ", ".join(["default", *benchmark.samples])
    metrics = ", ".join(f"{metric_title(name)} ({name})" for name in benchmark.metrics)
    lines = [
        f"{benchmark.title} ({', '.join([benchmark.name, *benchmark.aliases])})",
        benchmark.description,
        "",
        f"category      {group_title(benchmark.taxonomy.category)} > {group_title(benchmark.taxonomy.subcategory)}",
        f"task          {benchmark.taxonomy.task or MISSING}",
        f"access        {benchmark.access}; license: {benchmark.license or 'not stated'}",
        f"citation      {benchmark.citation or MISSING}",
        *([f"in the paper  {construction} benchmark"] if construction else []),
        *([f"package       {benchmark.package}"] if benchmark.package else []),
        f"data          {source.kind}: {', '.join(source.files) or MISSING}; {folder or 'not found'}",
        f"from          {source.location or MISSING} {source.revision}".rstrip(),
        *([f"note          {source.note}"] if source.note else []),
        f"instances     {source.expected_count or '?'} in the data, evaluated: {evaluated_in_words(benchmark)}; "
        f"selections: {samples}",
        f"max_tokens    {benchmark.max_tokens}",
        f"metrics       {metrics}; the first is the main metric",
        *([f"slices        {', '.join(map(str, benchmark.slice_columns))}"] if benchmark.slice_columns else []),
        f"digest        {benchmark.digest}",
        *_rules_and_rubric(benchmark),
        *(f"remark        {printable(remark)}" for remark in benchmark.remarks),
        "",
        *_prompt_lines(benchmark),
    ]
    return "\n".join(lines)


def _rules_and_rubric(benchmark: Benchmark) -> list[str]:
    """Return lines on the scoring rules and the judges' rubric."""
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
        lines += [f"              {_criterion_text(criterion)}" for criterion in rubric.criteria]
        if benchmark.criteria_column:
            lines.append(f"              criteria of each instance: column {benchmark.criteria_column}")
    if extended := benchmark.extended_rubric:
        lines += [f"extended      {printable(extended.task)}"]
        lines += [f"              {_criterion_text(criterion)}" for criterion in extended.criteria]
    return lines


def _criterion_text(criterion: Criterion) -> str:
    """Return a criterion as text."""
    notes = [f"{criterion.points:+g} points"] if criterion.points else []
    notes += [] if criterion.higher_is_better else ["the lowest grade is best"]
    shown = f" ({', '.join(notes)})" if notes else ""
    return f"{criterion.name}{shown}: {printable(criterion.description)}"


def _prompt_lines(benchmark: Benchmark) -> list[str]:
    """Return the lines of the prompt template."""
    if benchmark.conversation_column:
        return [f"prompt: the conversation in column {benchmark.conversation_column}, which the model continues"]
    return ["prompt", *(f"  | {line}" for line in benchmark.prompt.splitlines())]


def rules_table(benchmarks: Sequence[Benchmark], format: str) -> str:
    """Return a table of the published rule, the corrected rule and the reason, one row per benchmark."""
    columns: dict[str, Callable[[Benchmark], str]] = {
        "benchmark": lambda b: b.name,
        "title": lambda b: b.title,
        "instances": evaluated_in_words,
        "main metric": lambda b: b.main_metric if format == "csv" else metric_title(b.main_metric),
        "published rule": lambda b: b.rules.published,
        "corrected rule": lambda b: b.rules.corrected,
        "why": lambda b: b.rules.why,
    }
    rows = [[" ".join(cell(b).split()) for cell in columns.values()] for b in benchmarks]
    return render(rows, list(columns), format=format)


def preview_text(benchmark: Benchmark, cases: Sequence[Mapping[str, Any]]) -> str:
    """Return prompts exactly as a model would read them."""
    parts = []
    for case in cases:
        turns = "\n".join(f"[{m['role']}]\n{printable(m['content'])}" for m in case["messages"])
        right = " | ".join(printable(r["text"]) for r in case["references"] if r["correct"])
        parts.append(f"--- {benchmark.name} / {case['id']}\n{turns}\n[reference: {right}]")
    parts.append(
        f"main metric {metric_title(benchmark.main_metric)}, at most {plural(benchmark.max_tokens, 'token')} each"
    )
    return "\n\n".join(parts)


def check_text(check: Mapping[str, Any]) -> str:
    """Return the result of a check: mean score of the references per metric and rule, exceptions and findings."""
    metrics = list(check["means"]["corrected"])
    rows = [
        [metric_title(metric), *(_mean_text(check["means"][rule][metric]) for rule in ("corrected", "published"))]
        for metric in metrics
    ]
    lines = [
        f"{check['benchmark']}: valid. Scored {plural(check['n'], 'reference')} as if they were completions.",
        "",
        render(rows, ["metric", "corrected", "published"]).rstrip("\n"),
    ]
    if not rows:
        lines = [f"{check['benchmark']}: valid. {plural(check['n'], 'instance')}, which only judges can score."]
    lines += [line for rule in check["means"] for line in _exception_lines(check["exceptions"], rule)]
    if floor := check["floor"]:
        values = ", ".join(f"{rule} {_mean_text(value)}" for rule, value in floor["values"].items())
        answer = textwrap.shorten(printable(floor["answer"]), 60, placeholder=" ...")
        text = f"always answering {answer!r} is right {floor['share']:.1%} of the time, scores {values}"
        lines += ["", f"constant baseline: {text}"]
    if check["findings"]:
        lines += ["", "findings:", *(f"  {printable(finding['text'])}" for finding in check["findings"])]
    if check["remarks"]:
        lines += ["", "how the data was read:", *(f"  {printable(remark)}" for remark in check["remarks"])]
    if check["note"]:
        lines += ["", f"note: {check['note']}"]
    return "\n".join(lines)


def identifiers_text(searched: Sequence[str], unsearched: Sequence[str], entities: Sequence[str] = ()) -> str:
    """Return the identifiers that a check looks for, those it does not, and the meaning of an empty result.

    Parameters: entities, what Presidio looks for; empty if it does not.
    """
    names = f"Presidio looked for {', '.join(entities)}, as far as its pipeline knows them." if entities else ""
    parts = [
        f"personal identifiers: looked for {', '.join(searched)}. These are {len(searched)} of HIPAA's 18 categories, "
        "by simple patterns for the United States.",
        names,
        f"Not looked for: {', '.join(unsearched)}"
        + ("." if entities else "; names without a title, places without a street or ZIP code."),
        "This does not de-identify anything, and an empty result does not prove that the data has no identifiers.",
    ]
    return "\n".join(textwrap.fill(part, 110, subsequent_indent="  ") for part in parts if part)


def skipped_text(names: Sequence[str]) -> list[str]:
    """Return a line that lists the benchmarks without data; nothing if there are none."""
    return [f"skipped, because their data was not found: {', '.join(names)}"] if names else []


def _mean_text(value: float | None) -> str:
    return "not computed" if value is None else f"{value:.4f}"


def _exception_lines(exceptions: Sequence[Mapping[str, Any]], rule: str) -> list[str]:
    """Return lines on the references that do not get the best score under a rule, grouped by reason."""
    of_rule = [one for one in exceptions if one["rule"] == rule]
    by_reason: dict[str, list[Mapping[str, Any]]] = group_by(of_rule, lambda one: one["reason"] or "NOT EXPLAINED")
    lines = []
    for reason, group in by_reason.items():
        examples = "; ".join(f"{e['instance_id']}: {printable(e['reference'])!r}" for e in group[:SHOWN])
        more = f"; and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
        lines.append(f"  {len(group)} because {reason} ({examples}{more})")
    return ["", f"references without the best score under the {rule} rule:", *lines] if lines else []


# --- taxonomy: types, text and JSON -----------------------------------------------------------------------------------

WIDTH = 24
"""Width of the column of benchmark names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCoverage:
    """A benchmark of a subcategory."""

    benchmark: Benchmark
    """Its definition."""
    why_not: str
    """Reason why the data cannot be used; empty if it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxonomyCoverage:
    """The taxonomy with its benchmarks."""

    categories: Sequence[Category]
    """Categories, those of the user last."""
    benchmarks: Mapping[tuple[str, str], Sequence[BenchmarkCoverage]]
    """Ids of category and subcategory -> benchmarks in it."""

    @property
    def places(self) -> list[tuple[Subcategory, Sequence[BenchmarkCoverage]]]:
        """The subcategories with their benchmarks."""
        return [place for category in self.categories for place in self.places_of(category)]

    def places_of(self, category: Category) -> list[tuple[Subcategory, Sequence[BenchmarkCoverage]]]:
        """Return the subcategories of a category with their benchmarks."""
        return [(sub, self.benchmarks.get((category.id, sub.id), ())) for sub in category.subcategories]


def taxonomy_tree(
    taxonomy: TaxonomyCoverage, *, tasks_of_the_paper: int, validation: Mapping[str, Any], with_tasks: bool
) -> str:
    """Return the taxonomy as text; `with_tasks`: with the tasks of each subcategory."""
    lines: list[str] = []
    for category in taxonomy.categories:
        lines += [category.title, *(f"  {text}" for text in (category.definition, category.criterion) if text)]
        lines += [f"  Done by: {category.performers}"] if category.performers else []
        for subcategory, benchmarks in taxonomy.places_of(category):
            lines += [f"  {subcategory.title} ({_coverage_text(subcategory, len(benchmarks))})"]
            lines += [f"    - {task}" for task in subcategory.tasks if with_tasks]
            lines += map(_benchmark_line, benchmarks)
        lines.append("")
    return "\n".join([*lines, _taxonomy_summary(taxonomy, tasks_of_the_paper), _validation_text(validation)])


def _validation_text(of: Mapping[str, Any]) -> str:
    """Return how the paper's clinicians validated the taxonomy."""
    return (
        f"Validation in the paper: {of['clinicians']} clinicians of {of['specialties']} specialties assigned "
        f"subcategories to\ncategories with {of['category_agreement']:.1%} agreement and rated the comprehensiveness "
        f"{of['comprehensiveness']:.2f} of {of['comprehensiveness_scale'][1]}.\nTheir {of['comments']} comments "
        f"extended it from {of['draft_subcategories']} to {of['subcategories']} subcategories, and from "
        f"{of['draft_tasks']} to {of['tasks']} tasks."
    )


def _taxonomy_summary(taxonomy: TaxonomyCoverage, tasks_of_the_paper: int) -> str:
    """Return the counts, and what is unknown."""
    places = taxonomy.places
    found = [(subcategory, one) for subcategory, benchmarks in places for one in benchmarks]
    tasks = {(subcategory.id, one.benchmark.taxonomy.task) for subcategory, one in found}
    covered = [(subcategory.id, task) in tasks for subcategory, _ in places for task in subcategory.tasks]
    here = sum(not one.why_not for _, one in found)
    return (
        f"{len(taxonomy.categories)} categories, {len(places)} subcategories, {len(found)} benchmarks, {here} with "
        f"data.\n{len(covered)} tasks, {sum(covered)} of them with a benchmark. The paper "
        f"counts {tasks_of_the_paper} tasks, but did not publish the list:\n"
        "these tasks were recovered from the condensed points of its appendix."
    )


def taxonomy_as_json(
    taxonomy: TaxonomyCoverage, tasks_of_the_paper: int, validation: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the output of `medhelm taxonomy --json`."""
    return {
        "categories": [
            {
                **select(category, "id title definition criterion performers"),
                "subcategories": [
                    {**select(place, "id title tasks"), "benchmarks": list(map(_coverage_json, benchmarks))}
                    for place, benchmarks in taxonomy.places_of(category)
                ],
            }
            for category in taxonomy.categories
        ],
        "n_tasks": sum(len(subcategory.tasks) for subcategory, _ in taxonomy.places),
        "n_tasks_of_the_paper": tasks_of_the_paper,
        "validation": dict(validation),
    }


def _coverage_json(one: BenchmarkCoverage) -> dict[str, Any]:
    return {
        **select(one.benchmark, "name task=taxonomy.task access"),
        "instances": evaluated(one.benchmark),
        "here": not one.why_not,
        "why_not": one.why_not,
    }


def _coverage_text(subcategory: Subcategory, n: int) -> str:
    tasks = f"{plural(len(subcategory.tasks), 'task')}, " if subcategory.tasks else ""
    return f"{tasks}{plural(n, 'benchmark') if n else 'no benchmarks'}"


def _benchmark_line(one: BenchmarkCoverage) -> str:
    state = f"no data: {one.why_not}" if one.why_not else "data found"
    known = one.benchmark
    count = evaluated_in_words(known)
    return printable(f"    * {known.name:<{WIDTH}} {known.access:<8} instances: {count:<17} {state}")


# --- plug-ins ---------------------------------------------------------------------------------------------------------


def plugins_text(rows: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> str:
    """Return a table and the problems below it. Rows: `kind, name, package, version, gives, problems`."""
    listed = [
        [
            row["kind"],
            row["name"],
            f"{row['package']} {row['version']}",
            ", ".join(row["gives"]) or None,
            "see below" if row["problems"] else "yes",
        ]
        for row in rows
    ]
    headers = ["kind", "name", "package", "gives", "works"]
    nothing = "No installed package adds providers, metrics or benchmarks.\n"
    shown = render(listed, headers, format="table") if rows else nothing
    wrong = dict.fromkeys([*(problem for row in rows for problem in row["problems"]), *problems])
    return shown + "".join(f"\n- {printable(problem)}" for problem in wrong) + ("\n" if wrong else "")


# --- coverage of the taxonomy -----------------------------------------------------------------------------------------
# The taxonomy of medical tasks with its benchmarks, and which of them have local data.


def coverage(benchmarks: Sequence[Benchmark], data: Path | None) -> TaxonomyCoverage:
    """Return the taxonomy with its benchmarks; categories and subcategories of the user come last, by their ids.

    `data`: the folder with one folder per benchmark; None if there is none.
    """
    by_place = group_by(benchmarks, lambda one: (one.taxonomy.category, one.taxonomy.subcategory))
    known = load_taxonomy()
    others = sorted({category for category, _ in by_place} - {category.id for category in known})
    named = [
        Category(id=one, title=group_title(one), definition="", criterion="", performers="", subcategories=())
        for one in others
    ]
    return TaxonomyCoverage(
        categories=[_with_others(category, by_place) for category in (*known, *named)],
        benchmarks={place: [_benchmark_coverage(one, data) for one in own] for place, own in by_place.items()},
    )


def _with_others(category: Category, places: Iterable[tuple[str, str]]) -> Category:
    """Add the subcategories of the user to a category."""
    ids = {sub for own, sub in places if own == category.id} - {sub.id for sub in category.subcategories}
    others = (Subcategory(id=one, title=group_title(one), tasks=(), points=0) for one in sorted(ids))
    return replace(category, subcategories=(*category.subcategories, *others))


def _benchmark_coverage(benchmark: Benchmark, data: Path | None) -> BenchmarkCoverage:
    found = availability(benchmark, data)
    who = {"gated": "; under an agreement", "private": "; its owner has it"}.get(benchmark.access, "")
    why_not = "" if found.is_usable else found.reason + (who if found.state == "absent" else "")
    return BenchmarkCoverage(benchmark=benchmark, why_not=why_not)


# --- models -----------------------------------------------------------------------------------------------------------
# Addresses, keys, prices, and results of test requests.

SHOWN_NAMES = 20
"""Most model names of a server in one message."""

_KEYS = {"none": "none needed", "set": "set", "missing": "MISSING", "wrong": "WRONG"}
_WITHIN = {"baseline": "this process", "replay": "this process", "hf": "this process", "vllm": "this machine"}
"""Provider without an address -> place where its models run."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


LIMIT_AND_PRICE: Mapping[str, Callable[[Model], Value]] = {
    "window": lambda model: model.window or "?",
    "reasoning": lambda model: "yes" if model.reasoning else "no",
    "price in": lambda model: f"{model.price.input:g}" if model.price else "?",
    "price out": lambda model: f"{model.price.output:g}" if model.price else "?",
    "price of": lambda model: _price_date(model.price),
}
"""Columns that both tables of models have."""


def models_table(models: Sequence[Model], *, keys: Mapping[str, str]) -> str:
    """Return one line per model; prices are in US dollars per million tokens, with their date.

    `keys`: name of a model -> `none`, `set`, `missing` or `wrong`.
    """
    columns: dict[str, Callable[[Model], Value]] = {
        "model": lambda model: model.name,
        "provider": lambda model: model.provider,
        "address": lambda model: listed(model.replicas, 2) or model.base_url or _WITHIN.get(model.provider, "?"),
        "key": lambda model: _key(model, keys[model.name]),
        **LIMIT_AND_PRICE,
    }
    return render(*tabulate(models, columns), drop=("price of", "reasoning", "window", "provider", "address"))


def examples_table(models: Sequence[Model], *, keys: Mapping[str, str], lacks: Mapping[str, Sequence[str]]) -> str:
    """Return one line per example: name, variables to set, and current price.

    `lacks`: name of a model -> missing variables besides that of its key.
    """

    def variables(model: Model) -> str:
        missing = (f"{name} MISSING" for name in lacks[model.name])
        return ", ".join(filter(None, (_key(model, keys[model.name]), *missing)))

    rows, headers = tabulate(models, {"for example": lambda model: model.name, "set": variables, **LIMIT_AND_PRICE})
    return (
        f"\n{render(rows, headers, drop=('price of', 'reasoning', 'window'))}\n"
        "Examples: other models of these providers, and OpenAI-compatible servers, are named in the same way.\n"
        "Prices are US dollars per million tokens. Replace words in capitals. Test a model before a run:\n"
        "  medhelm models check NAME"
    )


def _key(model: Model, state: str) -> str:
    """Return the variable of the key and its state."""
    return " ".join(filter(None, (model.key_variable, _KEYS[state])))


def _price_date(price: Price | None) -> str:
    """Return the date of a price if its source gives one, else the source."""
    if price is None:
        return "?"
    found = _DAY.search(price.source)
    return found[0] if found else price.source or "?"


def model_as_json(model: Model, **more: Any) -> dict[str, Any]:
    """Return a model with further keys."""
    return {**plain_json(model), **more}


def check_as_json(check: ModelCheck) -> dict[str, Any]:
    """Return a model with the result of its test request."""
    findings = plain_json(check)
    return {**findings.pop("model"), **findings}


def check_lines(check: ModelCheck) -> str:
    """Return the result of a test request: one line, and details below it."""
    name, answer = check.model.name, check.answer
    if not check.asked and not answer.failure:
        return f"{name}: runs in this process, so no request was sent."
    if answer.failure:
        lines = [f"{name}: {answer.failure.code}: {answer.failure.message}"]
    else:
        version = f", reports itself as {answer.reported_model}" if answer.reported_model else ""
        lines = [
            f"{name}: responded with {_brief(answer.text or '')!r} in {answer.latency_s:.2f} s{version}",
            f"  usage: {_usage(answer.usage)}",
        ]
    if check.structured is not None:
        no = "no; judgments are read from plain text"
        lines.append(f"  structured output: {'yes' if check.structured else no}")
    if check.logprobs is not None:
        lines.append(f"  log-probabilities of tokens: {'yes' if check.logprobs else 'no'}")
    lines += [f"  unsupported by the server, so not sent: {part} ({why})" for part, why in check.left_out.items()]
    if check.names:
        lines.append(f"  the server has: {listed(check.names, SHOWN_NAMES)}")
    if check.advice:
        lines.append(f"  advice: {check.advice}")
    return "\n".join(lines)


def _brief(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _usage(usage: Usage) -> str:
    """Return the tokens that the server counted."""
    if not usage.input:
        return "not reported; costs are estimated from the lengths of prompts and the limits of completions"
    cached = f" ({usage.cached_input} cached)" if usage.cached_input else ""
    thought = f" ({usage.reasoning} for reasoning)" if usage.reasoning else ""
    return f"{usage.input} input tokens{cached}, {usage.output} output tokens{thought}"


# --- data -------------------------------------------------------------------------------------------------------------
# Sources of benchmark data, and its local state.

Known = Sequence[tuple[Benchmark, Availability]]
"""Benchmarks with the state of their data."""

MEANING = {
    "here": "all files exist",
    "unscorable": "all instances exist, but a file that scoring needs is missing",
    "incomplete": "some files are missing",
    "absent": "no file was found",
    "verified": "all files have the checksums of the definition",
    "unpinned": "the definition has no checksum for some files",
    "changed": "a file has another checksum",
}
"""State of data in a table -> its meaning."""


def data_as_json(known: Known) -> dict[str, Any]:
    """Return the output of `medhelm data status --json`."""
    return {"benchmarks": [_benchmark_json(benchmark, found) for benchmark, found in known]}


def _benchmark_json(benchmark: Benchmark, found: Availability) -> dict[str, Any]:
    return {
        **select(benchmark, "benchmark=name access license"),
        **select(found, "state folder missing reason"),
        **select(benchmark.source, "files scoring_files location revision"),
        "addresses": list(found.addresses),
        "note": benchmark.source.note.strip(),
        "citation": benchmark.citation,
    }


def data_table(known: Known) -> str:
    """Return one line per benchmark, then the sources of the data that is missing."""
    headers = ["benchmark", "access", "license", "state", "known checksums", "folder"]
    rows = [
        [
            *(benchmark.name, benchmark.access, benchmark.license or "not stated"),
            *(_state(found), _checksums(benchmark), str(found.folder) if found.folder else None),
        ]
        for benchmark, found in known
    ]
    text = render(rows, headers, drop=("known checksums", "license", "access"))
    states = [name for name in MEANING if any(_state(found) == name for _, found in known)]
    legend = "\n".join(f"- {name}: {MEANING[name]}" for name in states)
    needed = [_missing_data_text(benchmark, found) for benchmark, found in known if not found.is_usable or found.reason]
    return "\n\n".join([f"{text}\n{legend}" if legend else text.rstrip("\n"), *needed])


def _state(found: Availability) -> str:
    """Return the state in a table. JSON has no such state, but the missing files."""
    return "unscorable" if found.state == "here" and found.missing else found.state


def _checksums(benchmark: Benchmark) -> str:
    """Return the share of files with a checksum in the definition."""
    checksums = [*benchmark.source.files.values(), *benchmark.source.scoring_files.values()]
    return f"{sum(map(bool, checksums))} of {len(checksums)}"


def _missing_data_text(benchmark: Benchmark, found: Availability) -> str:
    """Return the sources of missing data."""
    source = benchmark.source
    files = ", ".join([*source.files, *source.scoring_files])
    lines = [f"{benchmark.name}: {found.reason}", f"  files    {files}"]
    lines += [f"  from     {address}" for address in found.addresses]
    lines += [f"  note     {' '.join(source.note.split())}"] if source.note else []
    return printable("\n".join(lines))


def written_text(name: str, files: Sequence[Path], n_rows: int, folder: Path) -> str:
    """Return the list of sample files that were written."""
    listed = [f"  {path}" for path in files[:10]]
    listed += [f"  ... and {len(files) - 10} more"] if len(files) > 10 else []
    count = f"{plural(n_rows, 'invented row')} in {plural(len(files), 'file')}"
    advice = "Replace them with files of your own in the same format and place; then run\n"
    advice += f"  medhelm run {name} --data {folder} --own-data --model ..."
    return "\n".join([f"{name}: {count}", *listed, advice])
