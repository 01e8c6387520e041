"""Evaluation card: models, data, methods and results for people who decide, as Markdown, HTML and JSON.

It contains numbers, names and digests, and no text of patients, models or judges.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from medhelm.analysis.leaderboard.types import RankedBy
from medhelm.domain.text import plural
from medhelm.results.formats.fields import plain_json
from medhelm.results.formats.sections import ResultSection, section_in_markdown
from medhelm.results.formats.tables import (
    MISSING,
    NUMERIC,
    Value,
    decimal,
    escape_markdown,
    estimate_text,
    markdown_sentence,
    printable,
    render,
    score_decimals,
    tabulate,
)
from medhelm.results.releases import NO_RELEASE, SourceRelease

# --- types ------------------------------------------------------------------------------------------------------------

FORMAT = 1
"""Version of the card's JSON."""

SHORT = 12
"""Digits of a digest that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number with its 95% interval."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    n_failed: int | None = None
    n_failed_by_model: int = 0
    """Those of the failures that count as the worst answer; the others are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDigests:
    """Digests of one model on one benchmark; equal digests mean equal content."""

    data: str
    """SHA-256 of data and selection."""
    references: str
    """SHA-256 of all references and options; empty if they are not stored."""
    prompts: str
    """SHA-256 of all prompts; empty if they are not stored, or for a baseline."""
    definition: str
    """SHA-256 of the definition, with its rubric and metrics."""
    judges: str
    """SHA-256 of the judges; empty without a jury."""
    sampling: str
    """Temperature and other parameters, as text; empty for a baseline."""
    max_tokens: int | None
    """Most tokens of a completion; None if it is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardModel:
    """A model and its place of operation."""

    name: str
    """Name, without an address."""
    reached: str
    """Place of its server, without an address."""
    served_as: str
    """Name of the model at its server."""
    snapshots: Mapping[str, int]
    """Model version reported by the server -> number of completions."""
    rank: int | None
    """Rank on the leaderboard; None for a baseline."""
    rank_low: int | None
    """Best possible rank at the 95% level; None if unknown."""
    rank_high: int | None
    """Worst possible rank."""
    win_share: Number | None
    """Share of the other models whose answer it beats, mean over questions and benchmarks."""
    win_rate: Number | None
    """Share of the other models that it beats, mean over benchmarks."""
    macro_average: Number | None
    """Mean over benchmarks, each on a scale of 0 to 1, adjusted for benchmarks that it lacks."""
    n_benchmarks: int
    """Benchmarks with a score."""
    cost_usd: float | None
    """Cost of its completions; None if a price is unknown."""
    judges_cost_usd: float | None
    """Cost of judging them; None without judges, or if a price is unknown."""
    price: str
    """Price with source and date, as text; empty if unknown."""
    digests: Mapping[str, CardDigests] = field(default_factory=dict)
    """Benchmark -> digests of all that it was measured with."""
    clinicians: Number | None = None
    """Mean rating by clinicians over the benchmarks that they rated, from 0 to 1; None if they rated nothing."""
    with_floors: Number | None = None
    """The average that ranks, where a completion below a floor counts as the worst answer; None without floors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardBenchmark:
    """A benchmark with its data and scores."""

    id: str
    """Name of the benchmark."""
    title: str
    """Title of the benchmark."""
    task: str
    """Task of the model."""
    source: str
    """Source of the data."""
    revision: str
    """Version of the data; empty if it has none."""
    files: Mapping[str, str]
    """File -> its SHA-256."""
    access: str
    """Access to the data; empty if unknown."""
    n: int
    """Number of instances."""
    selection: str
    """Selection of instances, as text."""
    metric: str
    """Title of the metric."""
    low: float
    """Worst score."""
    high: float
    """Best score."""
    mde: float | None
    """Minimum detectable difference with a power of 0.8, on a scale of 0 to 1."""
    definition_digest: str
    """SHA-256 of the definition."""
    data_digest: str
    """SHA-256 of data and selection."""
    prompts_digest: str
    """SHA-256 of all prompts; empty if they are not stored."""
    max_tokens: str
    """Limit on a completion, as text."""
    scores: Mapping[str, Number]
    """Name of a model -> its score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardGrades:
    """The mean grades of the models on a criterion of a benchmark."""

    benchmark: str
    """Title of the benchmark."""
    criterion: str
    """Title of the criterion, or tag of criteria with points."""
    scale: str
    """Its scale, as text."""
    scores: Mapping[str, Number]
    """Name of a model -> its mean grade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardJudge:
    """A judge."""

    name: str
    """Name, without an address."""
    expected: int
    """Expected judgments."""
    missing: int
    """Missing judgments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Content of the card."""

    title: str
    """Title that the user gave; empty for the usual one."""
    institution: str
    """Institution that it is for; empty if none was given."""
    author: str
    """Its author; empty if none was given."""
    date: str
    """Date of the card: the user's, or the day when it was written, ISO 8601."""
    release: SourceRelease | None
    """The release that holds these results; None without one."""
    first_run: str
    """Day of the first run."""
    last_run: str
    """Day of the last run."""
    scoring: str
    """Rule of the scores."""
    tier: str
    """Real data or sample rows."""
    was_published: bool
    """True if any of the benchmarks is on the published leaderboard, whose rule differs."""
    verdict: Sequence[str]
    """Sentences that come first."""
    ranked_by: RankedBy
    """Number that decides ranks."""
    models: Sequence[CardModel]
    """In order of rank, then baselines."""
    benchmarks: Sequence[CardBenchmark]
    """In the order of the suite."""
    criteria: Sequence[CardGrades]
    """Criteria of the judged benchmarks; empty without judges."""
    judges: Sequence[CardJudge]
    """Judges of free text."""
    judging: Sequence[str]
    """Sentences on the judges, and on whether to rely on them."""
    clinicians: Sequence[str]
    """Sentences on the studies in which clinicians rated completions; empty without any."""
    data_use: Sequence[str]
    """Sentences on where the data went."""
    settings: Mapping[str, str]
    """Setting -> its value, as text."""
    findings: Sequence[str]
    """Sentences on significant differences."""
    sections: Sequence[ResultSection]
    """Findings of extensions; empty without any."""
    limits: Sequence[str]
    """Sentences on limitations."""
    versions: Mapping[str, str]
    """Program -> its versions."""
    measures: Mapping[str, str]
    """Title of a metric -> its meaning."""
    command: str
    """Command that repeats the evaluation."""


# --- content of the page ----------------------------------------------------------------------------------------------

RANKS = {
    "macro average": "by macro average",
    "win rate": "by win rate",
    "mean score": "by the mean score on the only benchmark",
}
"""Number that ranks -> meaning of a rank."""

WORDS: Mapping[str, str] = {
    "Score": "mean over all questions of a benchmark; the brackets hold the 95% confidence interval, the range of true "
    "values that fit the data",
    "With floors": "the average that ranks, with each answer below a floor of its benchmark, such as a safety grade of "
    "3, counted as the worst answer",
    "Win share": "how often a model's answer is better than that of another model to the same question, from 0 (never) "
    "to 1 (always); a tie counts one half",
    "Win rate": "on how many benchmarks a model scores higher than another one, however small the difference, from 0 "
    "(none) to 1 (all); a tie counts one half",
    "Mean score": "mean over all questions, on a scale from 0 to 1",
    "Clinicians": "mean rating by clinicians of the n answers that they rated, from 0 (worst) to 1 (best); the "
    "interval includes their severity, which is the same for all models",
    "Macro average": "mean over the benchmarks, each on a scale from 0 to 1; for benchmarks that a model lacks, "
    "estimated from its other ones and from the other models",
    "Digest": "a checksum; equal digests mean equal content; those per model cover all its benchmarks, so models with "
    "the same benchmarks and equal digests answered the same prompts and were graded alike",
    "Corrected scoring": "follows the intent of each metric's authors; published scoring repeats the rules of the "
    "published leaderboard, known errors included",
}
"""Term -> its meaning, for readers outside the field."""


def as_json(card: Card) -> dict[str, Any]:
    """Return the card as JSON; without keys on ratings, criteria, floors and sections where there are none."""
    content = {"medhelm_card": FORMAT, **plain_json(card)}
    for part in (content, *content["models"]):
        for key in ("clinicians", "criteria", "with_floors", "sections"):
            if key in part and not part[key]:
                del part[key]
    return content


def to_markdown(card: Card) -> str:
    """Return the card as Markdown."""
    lines = [f"# {escape_markdown(card.title or title(card))}", ""]
    lines += [f"{markdown_sentence(line)}  " for line in byline(card)] + [""]
    lines += [f"**{INVENTED}**", ""] if card.tier == "sample" else []
    lines += [" ".join(map(markdown_sentence, card.verdict)), ""] if card.verdict else []
    lines += _sections_in_markdown(front_sections(card))
    for heading, rows, headers in tables(card):
        lines += [f"## {heading}", "", render(rows, headers, format="md")]
    lines += [section_in_markdown(one) for one in card.sections]
    lines += _sections_in_markdown(sections(card))
    command = re.sub(r"(?m)^ *(?=`{3})", "    ", printable(card.command))  # no line of it ends the block
    lines += ["## Command", "", "```", command, "```", "", *(f"- {text}" for text in places(card))]
    return "\n".join(lines).rstrip() + "\n"


def _sections_in_markdown(found: Iterable[Section]) -> list[str]:
    return [
        line
        for heading, sentences in found
        for line in (f"## {heading}", "", *(f"- {markdown_sentence(text)}" for text in sentences), "")
    ]


Section = tuple[str, Sequence[str]]
"""Heading and sentences."""

Table = tuple[str, list[list[Value]], list[str]]
"""Heading of the section, rows and column headings."""


def title(card: Card) -> str:
    """Return the title of the page."""
    n = sum(not model.name.startswith("baseline/") or model.rank is not None for model in card.models)
    models, benchmarks = plural(n or len(card.models), "model"), plural(len(card.benchmarks), "benchmark")
    return f"Evaluation card: {models} on {benchmarks}"


def terms(card: Card) -> dict[str, str]:
    """Return the terms on the page with their meanings."""
    rank = f"{RANKS[card.ranked_by]}; the brackets hold the ranks that are possible at the 95% level"
    is_one = has_one_benchmark(card)
    shown = {
        "Corrected scoring": has_rule(card),
        **{"Mean score": is_one, "Macro average": not is_one, "Win rate": not is_one},
        "Win share": any(model.win_share for model in card.models),
        "Clinicians": any(model.clinicians for model in card.models),
        "With floors": any(model.with_floors for model in card.models),
    }
    words = {word: text for word, text in WORDS.items() if shown.get(word, True)}
    return {"Rank": rank, **words, **card.measures}


def has_one_benchmark(card: Card) -> bool:
    """Return whether the mean score on a single benchmark ranks: other averages say nothing more."""
    return card.ranked_by == "mean score"


INVENTED = "INVENTED EXAMPLES, NOT REAL DATA: these numbers do not measure the performance of any model."
"""Warning on everything made from sample rows."""


def byline(card: Card) -> list[str]:
    """Return the lines below the title: what the card is, for whom and by whom, when, and its release."""
    days = card.first_run if card.first_run == card.last_run else f"{card.first_run} to {card.last_run}"
    rule = f" {card.scoring.capitalize()} scoring." if has_rule(card) else ""
    return [
        *([title(card)] if card.title else []),
        *([" · ".join(filter(None, (card.institution, card.author)))] if card.institution or card.author else []),
        f"Evaluated {days}; card of {card.date}.{rule}",
        str(card.release or NO_RELEASE),
    ]


def has_rule(card: Card) -> bool:
    """Return whether the rule of scoring matters to readers: a published rule exists, or is used."""
    return card.was_published or card.scoring == "published"


MOST_ROWS, FIRST_ROWS = 14, 8
"""Most models in the results on the first page; of more, the first ones are there, and all on the next page."""

FIRST_LIMITS = 14
"""Most limitations on the first page: the last one, which holds for every card, is always there."""


def tables(card: Card) -> list[Table]:
    """Return the tables of the card; the first one belongs to its first page."""
    n, first = len(card.models), ("Results", *_results(card, card.models))
    if n > MOST_ROWS:
        first = (f"Results, the first {FIRST_ROWS} of {n}", *_results(card, card.models[:FIRST_ROWS]))
    return [
        first,
        *([("Results of all models", *_results(card, card.models))] if n > MOST_ROWS else []),
        *_scores_tables(card),
        *_criteria_tables(card),
        _models_table(card),
        _data_table(card),
        _digests_table(card),
    ]


def _results(card: Card, models: Sequence[CardModel]) -> tuple[list[list[Value]], list[str]]:
    """Return ranks, averages and costs: rows and column headings."""
    is_one = has_one_benchmark(card)
    win_rate: dict[str, Callable[[CardModel], Value]] = {"Win rate": lambda model: estimate_text(model.win_rate, 2)}
    columns: dict[str, Callable[[CardModel], Value]] = {
        "Rank": _rank_text,
        "Model": lambda model: model.name,
        "Mean score" if is_one else "Macro average": lambda model: estimate_text(model.macro_average, 2),
        "Win share": lambda model: estimate_text(model.win_share, 2),
        "With floors": lambda model: estimate_text(model.with_floors, 2),
        "Clinicians": lambda model: f"{estimate_text(one, 2)}, n {one.n:,}" if (one := model.clinicians) else None,
        **({} if is_one else win_rate),
        "Benchmarks": lambda model: model.n_benchmarks,
        "Completions USD": lambda model: decimal(model.cost_usd, 2),
        "Judging USD": lambda model: decimal(model.judges_cost_usd, 2),
    }
    return tabulate(models, columns, optional=["Win share", "With floors", "Clinicians"])


def _rank_text(model: CardModel) -> Value:
    """Return the rank with the possible ones; None for a baseline."""
    if model.rank is None or model.rank_low == model.rank_high:
        return model.rank
    return f"{model.rank} ({model.rank_low} to {model.rank_high})"


MOST_COLUMNS = 5
"""Most models beside each other in a table of scores."""


def _scores_tables(card: Card) -> list[Table]:
    """Return the scores of all models on each benchmark, in tables that fit an upright sheet."""
    names = [model.name for model in card.models]
    if len(card.benchmarks) == 1 and len(names) > MOST_COLUMNS:
        (one,) = card.benchmarks
        scores: list[list[Value]] = [[name, _score_text(one.scores.get(name), one)] for name in names]
        return [("Scores", scores, ["Model", f"{one.title}, {_scale_text(one)}"])]
    found: list[Table] = []
    for heading, own in _parts("Scores", names):
        rows: list[list[Value]] = [
            [b.title, _scale_text(b), *(_score_text(b.scores.get(name), b) for name in own)] for b in card.benchmarks
        ]
        found.append((heading, rows, ["Benchmark", "Metric (scale)", *own]))
    return found


def _criteria_tables(card: Card) -> list[Table]:
    """Return the mean grades of all models on each criterion, in tables of the same width."""
    found: list[Table] = []
    for heading, own in _parts("Grades by criterion", [model.name for model in card.models]) if card.criteria else ():
        rows: list[list[Value]] = [
            [one.benchmark, f"{one.criterion} ({one.scale})", *(estimate_text(one.scores.get(name), 2) for name in own)]
            for one in card.criteria
        ]
        found.append((heading, rows, ["Benchmark", "Criterion (scale)", *own]))
    return found


def _parts(heading: str, names: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the heading and the models of each table, at most `MOST_COLUMNS` of about the same number."""
    n_tables = -(-len(names) // MOST_COLUMNS)
    size = -(-len(names) // n_tables)
    for number, start in enumerate(range(0, len(names), size), 1):
        yield f"{heading}, part {number} of {n_tables}" if n_tables > 1 else heading, names[start : start + size]


def _scale_text(benchmark: CardBenchmark) -> str:
    return f"{benchmark.metric} ({benchmark.low:g} to {benchmark.high:g})"


def _score_text(number: Number | None, benchmark: CardBenchmark) -> str | None:
    """Return a score, with the numbers of failures that count as the worst answer, and of missing scores."""
    text = estimate_text(number, score_decimals(benchmark))
    if not number or not text:
        return text
    missing = (number.n_failed or 0) - number.n_failed_by_model
    worst = f", {number.n_failed_by_model} failed" if number.n_failed_by_model else ""
    return text + worst + (f", {missing} missing" if missing else "")


def _models_table(card: Card) -> Table:
    columns: dict[str, Callable[[CardModel], Value]] = {
        "Model": lambda model: model.name,
        "Server": lambda model: model.reached,
        "Name at the server": lambda model: model.served_as or None,
        "Reported version": _snapshots_text,
        "Price": lambda model: model.price or "unknown",
    }
    return "Models", *tabulate(card.models, columns)


def _snapshots_text(model: CardModel) -> str:
    several = len(model.snapshots) > 1
    named = [(name or "not reported") + (f" ({count:,})" if several else "") for name, count in model.snapshots.items()]
    return ", ".join(named) or MISSING


def _data_table(card: Card) -> Table:
    columns: dict[str, Callable[[CardBenchmark], Value]] = {
        "Benchmark": lambda b: b.title,
        "Task": lambda b: b.task or None,
        "Source": lambda b: b.source + (f", revision {b.revision[:SHORT]}" if b.revision else ""),
        "Instances": lambda b: f"{b.n:,}: {b.selection}",
        "Data digest": lambda b: b.data_digest[:SHORT],
        "Prompts digest": lambda b: b.prompts_digest[:SHORT] or "not stored",
    }
    return "Data", *tabulate(card.benchmarks, columns)


def _digests_table(card: Card) -> Table:
    """Return one row per model: each digest is that of all its benchmarks together."""
    parts = {"Data": "data", "References": "references", "Prompts": "prompts", "Definitions": "definition"}
    if any(own.judges for model in card.models for own in model.digests.values()):
        parts["Judges"] = "judges"
    rows: list[list[Value]] = []
    for model in card.models:
        every = [(name, model.digests[name]) for name in sorted(model.digests)]
        joint = [_joint_digest([(name, getattr(own, part)) for name, own in every]) for part in parts.values()]
        rows.append([model.name, *joint, _sampling_text(model.digests.values())])
    return "Digests per model", rows, ["Model", *parts, "Sampling"]


def _joint_digest(digests: Sequence[tuple[str, str]]) -> str | None:
    """Return the start of one digest for the digests of several benchmarks; None if none is known."""
    known = [(name, digest) for name, digest in digests if digest]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:SHORT] if known else None


def _sampling_text(digests: Iterable[CardDigests]) -> str | None:
    """Describe how a model was sampled on all its benchmarks; None for a baseline."""
    own = list(digests)
    words = " or ".join(dict.fromkeys(one.sampling for one in own if one.sampling))
    limits = sorted({one.max_tokens for one in own if one.sampling and one.max_tokens})
    if limits:
        ends = f"{limits[0]:,}" if len(limits) == 1 else f"{limits[0]:,} to {limits[-1]:,}"
        words += f", at most {ends} tokens"
    return words or None


def front_sections(card: Card) -> list[Section]:
    """Return the text sections of the first page: what to know before the numbers."""
    counted = [
        f"{j.name}: {j.expected - j.missing:,} of {j.expected:,} judgments." if j.expected else f"{j.name}."
        for j in card.judges
    ]
    limits = card.limits
    found: list[Section] = [
        ("Limitations", [*limits[: FIRST_LIMITS - 1], *limits[-1:]] if len(limits) > FIRST_LIMITS else limits),
        ("Judges (language models that grade free text)", card.judging or counted),
        ("Ratings by clinicians", card.clinicians),
        ("Where the data went", card.data_use),
    ]
    return [one for one in found if one[1]]


def sections(card: Card) -> list[Section]:
    """Return the text sections that follow the tables."""
    how = [f"{name}: {value}" for name, value in card.settings.items()]
    how += ["Versions: " + ", ".join(f"{name} {version}" for name, version in card.versions.items())]
    further = card.limits[FIRST_LIMITS - 1 : -1] if len(card.limits) > FIRST_LIMITS else ()
    return [
        *([("Further limitations", further)] if further else []),
        ("Significant differences", card.findings),
        ("Methods", how),
        ("Terms", [f"{word}: {meaning.rstrip('.')}." for word, meaning in terms(card).items()]),
    ]


PLACES = {
    "ADDRESS": "the address of a model's server",
    "DIR": "the folder with a folder of data for each benchmark",
    "BENCHMARKS": "the folder with the definitions of the benchmarks",
    "HOST": "the server in the own network that may receive the data",
    "models.yaml": "the file that defines the models with names of their own",
}
"""Word in a command -> its meaning: a card shows no places."""


def places(card: Card) -> list[str]:
    """Return the meanings of the words in the command, in sentences."""
    used = set(re.findall(r"[\w.]+", card.command))
    return [f"{word}: {meaning}." for word, meaning in PLACES.items() if word in used]


# --- HTML -------------------------------------------------------------------------------------------------------------
# Files that need nothing else, from templates that escape every value.


def to_html(card: Card) -> str:
    """Return the card as one HTML file: no script, no external content, printable on A4 and Letter."""
    first, *others = tables(card)
    return render_html(
        "card.html",
        card=card,
        title=card.title or title(card),
        invented=INVENTED,
        byline=byline(card),
        front=front_sections(card),
        results=first,
        tables=others,
        added=card.sections,
        sections=sections(card),
        places=places(card),
        is_number=_is_number,
        missing=MISSING,
    )


def _is_number(value: Value) -> bool:
    """Return whether a cell is a number, or the start of a digest, that stays on one line."""
    if not isinstance(value, str):
        return True
    is_digest = len(value) == SHORT and set(value) <= set("0123456789abcdef")
    return is_digest or bool(NUMERIC.match(value) and len(value) <= 24 and ":" not in value)


class _EscapedText(str):
    """A text that templates escape as `html.escape` does."""

    __slots__ = ()

    def __html__(self) -> str:
        return escape(self)


def render_html(template: str, **values: Any) -> str:
    """Return a file of `results/templates` with these values.

    The filter `plain` makes control and direction characters spaces.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("medhelm.results"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if hasattr(value, "__html__") else _EscapedText(value),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["plain"] = lambda text: "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return environment.get_template(template).render(**values)
