"""What every column of every exported table means: the data dictionary that goes with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from medhelm.reports.tables import render

Kind = Literal["text", "whole number", "number", "true or false", "JSON"]
"""What the cells of a column hold."""

NEVER = "never missing"
"""Of a column that has a value in every row."""


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One column of one table."""

    column: str
    """Its name."""
    kind: Kind
    """What its cells hold."""
    meaning: str
    """What it says."""
    missing: str = NEVER
    """When a cell is empty."""
    unit: str = ""
    """What it is counted in."""
    range: str = ""
    """Which values it can have."""


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """A metric, for the dictionary."""

    name: str
    """Its name."""
    description: str
    """What it measures."""
    range: str
    """Which values it can have."""


TABLES: Mapping[str, str] = {
    "runs": "One row for each run: one model on one benchmark with fixed settings.",
    "estimates": "One row for each run, metric and rule: the mean of the metric with its 95 % interval.",
    "groups": "One row for each run and group of its instances, for benchmarks that have groups.",
    "judges": "One row for each run and judge: what the judge was asked, and what it cost.",
    "records": "One row for each run and instance: the scores of one completion.",
    "judgments": "One row for each run, instance, judge and criterion: one grade.",
    "leaderboard": "One row for each rule and model: the models in order of rank.",
    "prompts": "One row for each benchmark and instance: what the models read.",
}
"""Table -> what a row of it is."""

_RUN = ColumnEntry("run", "text", "Id of the run: joins the tables.", range="64 hexadecimal digits")
_BENCHMARK = ColumnEntry("benchmark", "text", "Id of the benchmark.")
_MODEL = ColumnEntry("model", "text", "Name of the model, with the address of its server where it has one.")
_POSITION = ColumnEntry("position", "whole number", "Place of the instance in the run.", range="0 and above")
_INSTANCE = ColumnEntry(
    "instance_id", "text", "Id of the instance as the data set gives it. It identifies a patient where that id does."
)
_RULE = ColumnEntry(
    "scoring",
    "text",
    "Rule of the score: `corrected`, as the metric's authors meant it; `published`, as the reference implementation "
    "computes it, faults included. Never mix the two.",
    range="corrected, published",
)
_DIGEST = "64 hexadecimal digits"
_UNKNOWN = "not known"


def _interval(name: str, what: str, unit: str, range_: str, missing: str) -> list[ColumnEntry]:
    """A number with its interval."""
    return [
        ColumnEntry(name, "number", f"{what}.", missing, unit, range_),
        ColumnEntry(f"{name}_low", "number", f"Lower end of the 95 % interval of {name}.", missing, unit, range_),
        ColumnEntry(f"{name}_high", "number", f"Upper end of the 95 % interval of {name}.", missing, unit, range_),
    ]


def _tokens(of: str) -> list[ColumnEntry]:
    """Tokens, as a provider counts them."""
    zero = "0 and above; 0 where the server does not count"
    counts = {
        "input": f"Tokens read for {of}, cached ones included.",
        "cached_input": "Of these, tokens the server had cached.",
        "output": f"Tokens written for {of}, hidden ones included.",
        "reasoning": "Of these, hidden tokens of reasoning.",
        "cache_write": "Of the tokens read, those the server put into its cache.",
    }
    return [ColumnEntry(f"{name}_tokens", "whole number", what, NEVER, "tokens", zero) for name, what in counts.items()]


_RUNS = [
    _RUN,
    _BENCHMARK,
    ColumnEntry("title", "text", "Name of the benchmark for people."),
    ColumnEntry("category", "text", "Id of its category of medical work."),
    ColumnEntry("subcategory", "text", "Id of its subcategory."),
    ColumnEntry("task", "text", "The task in words.", "the definition names none"),
    _MODEL,
    ColumnEntry("model_at_server", "text", "What the server calls the model.", "in runs of older versions"),
    ColumnEntry(
        "tier", "text", "Real data, or a few invented rows that say nothing of performance.", range="real, sample"
    ),
    ColumnEntry("status", "text", "Whether all instances were asked.", range="complete, partial, failed"),
    ColumnEntry("counts", "true or false", "Whether the run stands for its model on the leaderboard."),
    ColumnEntry("main_metric", "text", "The metric that leaderboards show."),
    ColumnEntry("n", "whole number", "Instances that should have been answered.", NEVER, "instances", "1 and above"),
    ColumnEntry("n_failed", "whole number", "Of these, instances without a completion.", NEVER, "instances", "0 to n"),
    ColumnEntry("failures", "JSON", "Code of a failure -> how many instances."),
    ColumnEntry("started", "text", "Time of the start, ISO 8601, UTC."),
    ColumnEntry("seconds", "number", "Wall-clock time of the run.", NEVER, "seconds", "0 and above"),
    ColumnEntry(
        "requests_sent", "whole number", "Requests that left in that time, retries included.", NEVER, "requests"
    ),
    ColumnEntry("requests_cached", "whole number", "Completions that were there already.", NEVER, "requests"),
    ColumnEntry(
        "n_shortened", "whole number", "Prompts that were shortened to fit the model.", NEVER, "instances", "0 to n"
    ),
    ColumnEntry("snapshots", "JSON", "Name of the model as its server gave it -> completions under it."),
    *_tokens("completions"),
    ColumnEntry("cost_usd", "number", "Price of the model's own tokens.", "the price is not known", "US dollars"),
    ColumnEntry(
        "judges_cost_usd", "number", "Price of the judges' tokens.", "no judges, or a price not known", "US dollars"
    ),
    ColumnEntry(
        "price_input_usd", "number", "Price of input.", "the price is not known", "US dollars per million tokens"
    ),
    ColumnEntry(
        "price_output_usd", "number", "Price of output.", "the price is not known", "US dollars per million tokens"
    ),
    ColumnEntry("price_source", "text", "Where the price was read, and when.", "the price is not known"),
    ColumnEntry("judges", "text", "Names of the judges, separated by `; `.", "nobody judged"),
    ColumnEntry(
        "jury_coverage", "number", "Judgments that are there, of those expected.", "nobody judged", "", "0 to 1"
    ),
    ColumnEntry("sample", "text", "Which selection of instances was asked.", _UNKNOWN),
    ColumnEntry("limit", "whole number", "Only so many of the selected instances.", "all of them", "instances"),
    ColumnEntry("seed", "whole number", "Seed of the selection.", _UNKNOWN),
    ColumnEntry("max_tokens", "whole number", "Limit on a completion.", _UNKNOWN, "tokens"),
    ColumnEntry("temperature", "number", "Sampling temperature.", "none was sent", "", "0 and above"),
    ColumnEntry("benchmark_digest", "text", "SHA-256 of the benchmark's definition.", NEVER, "", _DIGEST),
    ColumnEntry("data_digest", "text", "SHA-256 of the data files and of the selection.", NEVER, "", _DIGEST),
    ColumnEntry("medhelm_version", "text", "Version of medhelm.", _UNKNOWN),
    ColumnEntry("python_version", "text", "Version of Python.", _UNKNOWN),
    ColumnEntry("origin", "text", "Other harness that the run was read from.", "the run was made by medhelm"),
    ColumnEntry("origin_run", "text", "Name of the run there.", "the run was made by medhelm"),
]

_ESTIMATES = [
    _RUN,
    _BENCHMARK,
    _MODEL,
    ColumnEntry("metric", "text", "Name of the metric."),
    ColumnEntry("main", "true or false", "Whether it is the one that leaderboards show."),
    _RULE,
    *_interval("value", "The metric over all scored instances", "the metric's own", "see the metric", NEVER),
    ColumnEntry("n", "whole number", "Instances behind it.", NEVER, "instances", "1 and above"),
    ColumnEntry("n_failed", "whole number", "Instances without a score, left out of it.", NEVER, "instances"),
    ColumnEntry("method", "text", "How the interval was made.", _UNKNOWN),
]

_GROUPS = [
    _RUN,
    _BENCHMARK,
    _MODEL,
    ColumnEntry("group", "text", "Name of the group: a condition, a task, a source."),
    _RULE,
    ColumnEntry("value", "number", "Mean of the main metric in the group.", "nothing was scored", "the metric's own"),
    ColumnEntry("n", "whole number", "Instances scored in the group.", NEVER, "instances"),
]

_JUDGES = [
    _RUN,
    _BENCHMARK,
    _MODEL,
    ColumnEntry("judge", "text", "Name of the judge."),
    ColumnEntry("expected", "whole number", "Judgments that should be there.", NEVER, "judgments"),
    ColumnEntry("failed", "whole number", "Judgments that are missing.", NEVER, "judgments"),
    ColumnEntry("failures", "JSON", "Code of a failure -> how many judgments."),
    *_tokens("judgments"),
    ColumnEntry("cost_usd", "number", "Price of these tokens.", "the price is not known", "US dollars"),
]

_RECORDS = [
    _RUN,
    _BENCHMARK,
    _MODEL,
    _POSITION,
    _INSTANCE,
    ColumnEntry(
        "cluster",
        "text",
        "Instances with the same value share a patient or a question and are not independent. It identifies a patient "
        "where the data set's id does.",
        "independent of all others",
    ),
    ColumnEntry("group", "text", "Its group: a condition, a task, a source.", "the benchmark has no groups"),
    *(
        ColumnEntry(
            f"main_score_{rule}",
            "number",
            f"Score by the main metric of the run, {rule} rule.",
            "no completion, or no score",
            "the metric's own",
            "see the metric",
        )
        for rule in ("corrected", "published")
    ),
    ColumnEntry("failure_boundary", "text", "Where it failed.", "there is a completion", "", "data, provider, ..."),
    ColumnEntry("failure_code", "text", "Why there is no completion, in a word.", "there is a completion"),
    ColumnEntry(
        "finish_reason", "text", "Why the model stopped: `stop`, `length`, or the server's own word.", _UNKNOWN
    ),
    *_tokens("the completion"),
    ColumnEntry(
        "latency_s", "number", "From sending the request to having its answer.", NEVER, "seconds", "0 and above"
    ),
    ColumnEntry(
        "batched",
        "true or false",
        "Whether the completion was bought through a batch API, at half the price.",
        "in runs of older versions",
    ),
    ColumnEntry("reported_model", "text", "The model's name as the server gave it.", "the server gave none"),
    ColumnEntry("fingerprint", "text", "What the server calls the software that answered.", "the server gave none"),
    ColumnEntry(
        "refused_parts",
        "text",
        "Parts of the request that the server refuses, so that it went without them, separated by commas.",
        "it took all",
        "",
        "schema, temperature, stop, seed",
    ),
    ColumnEntry(
        "left_out",
        "whole number",
        "Characters of the prompt that were left out, to fit the model.",
        "in runs of older versions",
        "characters",
        "0 and above",
    ),
    ColumnEntry(
        "suspicions",
        "text",
        "What in the completion may be meant for a judge, separated by commas.",
        "nothing, or nobody judged",
        "",
        "verdict, instruction, marker, unicode, length",
    ),
    ColumnEntry(
        "jury_coverage", "number", "Judgments that are there, of those expected.", "nobody judged", "", "0 to 1"
    ),
]

_RECORD_TEXTS = [
    ColumnEntry("completion", "text", "What the model wrote. May hold patient data.", "there is no completion"),
    ColumnEntry("failure_message", "text", "Why there is no completion, in words.", "there is a completion"),
    ColumnEntry(
        "score_failure", "text", "Why a metric gave no score.", "every metric gave one, or there is no completion"
    ),
]

_JUDGMENTS = [
    _RUN,
    _BENCHMARK,
    _MODEL,
    _POSITION,
    _INSTANCE,
    ColumnEntry("judge", "text", "Name of the judge."),
    ColumnEntry("criterion", "text", "Name of the criterion."),
    ColumnEntry(
        "score",
        "number",
        "The grade; in a rubric in points 1 for met and 0 for not met.",
        "the judge failed",
        "the rubric's scale",
        "such as 1 to 5",
    ),
    ColumnEntry(
        "points", "number", "What meeting the criterion earns; below 0 for a harm; 0 for grades.", NEVER, "points"
    ),
    ColumnEntry("failure_code", "text", "Why there is no grade, in a word.", "there is a grade"),
]

_JUDGMENT_TEXTS = [
    ColumnEntry("explanation", "text", "Why the judge graded so. May hold patient data.", "the judge gave none"),
    ColumnEntry("failure_message", "text", "Why there is no grade, in words.", "there is a grade"),
]

_NO_RIVAL = "no benchmark in common with another model"

_LEADERBOARD = [
    _RULE,
    ColumnEntry("rank", "whole number", "Place; equal models share one.", NEVER, "", "1 and above"),
    ColumnEntry(
        "rank_low", "whole number", "Best place of the 95 % interval of the rank.", _UNKNOWN, "", "1 and above"
    ),
    ColumnEntry("rank_high", "whole number", "Worst place of that interval.", _UNKNOWN, "", "1 and above"),
    ColumnEntry(
        "tie_group",
        "whole number",
        "Models of one group cannot be told apart from its best.",
        _UNKNOWN,
        "",
        "1 and above",
    ),
    _MODEL,
    *_interval("win_rate", "Share of rivals beaten, mean over benchmarks", "", "0 to 1", _NO_RIVAL),
    ColumnEntry(
        "guarded_win_rate",
        "number",
        "Win rate with every missing benchmark counted as lost: decides the rank.",
        _NO_RIVAL,
        "",
        "0 to 1",
    ),
    ColumnEntry("win_rate_sd", "number", "Population SD, over rivals, of the share of benchmarks won.", _NO_RIVAL),
    *_interval("macro_average", "Mean over benchmarks, each from 0 to 1", "", "0 to 1", "no score"),
    ColumnEntry(
        "macro_average_sd", "number", "Sample SD of these scores over benchmarks.", "fewer than two benchmarks"
    ),
    ColumnEntry("n_benchmarks", "whole number", "Benchmarks with a score.", NEVER, "benchmarks", "0 and above"),
    ColumnEntry("coverage", "number", "Share of the board's benchmarks with a score.", NEVER, "", "0 to 1"),
    ColumnEntry("cost_usd", "number", "What its runs cost, judges not included.", "a price is not known", "US dollars"),
    ColumnEntry("tier", "text", "Real data or invented rows.", NEVER, "", "real, sample"),
]

_PROMPTS = [
    _BENCHMARK,
    ColumnEntry("benchmark_digest", "text", "SHA-256 of the benchmark's definition: joins `runs`.", NEVER, "", _DIGEST),
    ColumnEntry("data_digest", "text", "SHA-256 of the data and the selection: joins `runs`.", NEVER, "", _DIGEST),
    _POSITION,
    _INSTANCE,
    ColumnEntry("messages", "JSON", "What the models read, turn by turn. May hold patient data."),
    ColumnEntry("choices", "JSON", "The options, in order; an empty list for an open question."),
    ColumnEntry("references", "JSON", "Known answers, each with `text` and `correct`. May hold patient data."),
]


def dictionary(metrics: Iterable[MetricEntry], *, texts: bool) -> dict[str, list[ColumnEntry]]:
    """Table -> its columns in order, for tables with these metrics, and with or without texts."""
    tables = {
        "runs": _RUNS,
        "estimates": _ESTIMATES,
        "groups": _GROUPS,
        "judges": _JUDGES,
        "records": [*_RECORDS, *_scores(metrics), *(_RECORD_TEXTS if texts else ())],
        "judgments": [*_JUDGMENTS, *(_JUDGMENT_TEXTS if texts else ())],
        "leaderboard": _LEADERBOARD,
    }
    return {**tables, "prompts": _PROMPTS} if texts else tables


def _scores(metrics: Iterable[MetricEntry]) -> list[ColumnEntry]:
    """Two columns for each metric."""
    missing = "not a metric of the benchmark, no completion, or no score"
    return [
        ColumnEntry(
            f"{metric.name}_{rule}",
            "number",
            f"{metric.description} {rule.capitalize()} rule.",
            missing,
            "the metric's own",
            metric.range,
        )
        for metric in metrics
        for rule in ("corrected", "published")
    ]


def to_rows(tables: Mapping[str, Sequence[ColumnEntry]]) -> list[dict[str, str | None]]:
    """The dictionary as a table of its own."""
    return [
        {
            "table": table,
            "column": entry.column,
            "type": entry.kind,
            "unit": entry.unit or None,
            "range": entry.range or None,
            "meaning": entry.meaning,
            "missing": entry.missing,
        }
        for table, entries in tables.items()
        for entry in entries
    ]


def to_markdown(tables: Mapping[str, Sequence[ColumnEntry]], *, format: str, texts: bool) -> str:
    """The dictionary for people."""
    held = (
        "These tables hold prompts and completions. Where these hold patient data, so do the tables: keep them where "
        "such data may be kept."
        if texts
        else "These tables hold no prompt, no completion and no words of a judge. Ids of instances and clusters are "
        "the data set's own: where these identify a patient, so do the tables."
    )
    lines = ["# Data dictionary", "", held, "", *_how(format)]
    for table, entries in tables.items():
        rows = [
            [entry.column, entry.kind, entry.unit or None, entry.range or None, entry.meaning, entry.missing]
            for entry in entries
        ]
        heads = ["column", "type", "unit", "range", "meaning", "missing when"]
        lines += [f"## {table}.{format}", "", TABLES[table], "", render(rows, heads, format="md")]
    return "\n".join(lines).rstrip() + "\n"


def _how(format: str) -> list[str]:
    """How the files are read."""
    if format == "parquet":
        return ["A missing value is null.", ""]
    return [
        'CSV as in RFC 4180, UTF-8, one heading line. An empty field is a missing value; an empty text is `""`. '
        "A text that a spreadsheet would run as a formula (it begins with =, +, -, @, a tab or a carriage return) has "
        "an apostrophe in front; take one apostrophe away to get the text back.",
        "",
    ]
