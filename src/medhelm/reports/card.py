"""An evaluation card: what was evaluated, on what, how, and what came out; one page for people who decide.

It holds numbers, names and digests, and no text of patients, models or judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from medhelm.reports.tables import MISSING, NUMERIC, Value, decimal, escape_markdown, render, with_interval

FORMAT = 1
"""Version of the card's JSON."""

SHORT = 12
"""Digits of a digest that are shown to people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number with its 95 % interval."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    n_failed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardModel:
    """A model, as it was reached."""

    name: str
    """Name, without an address."""
    reached: str
    """Where it was reached, in words, without an address."""
    served_as: str
    """What its server calls it."""
    snapshots: Mapping[str, int]
    """Name that the server gave with its answers -> how many answers."""
    rank: int
    """Place on the leaderboard."""
    rank_low: int | None
    """Best place of the 95 % interval; None if it is not known."""
    rank_high: int | None
    """Worst place of it."""
    win_rate: Number | None
    """Share of the other models that it beats, mean over benchmarks."""
    macro_average: Number | None
    """Mean over benchmarks, each from 0 to 1."""
    n_benchmarks: int
    """Benchmarks with a score."""
    cost_usd: float | None
    """What its answers cost."""
    judges_cost_usd: float | None
    """What judging them cost; None without judges, or if a price is not known."""
    price: str
    """Its price with source and date, in words; empty if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardBenchmark:
    """A benchmark, its data, and its scores."""

    id: str
    """Name of the benchmark."""
    title: str
    """Name for people."""
    task: str
    """What a model has to do, in words."""
    source: str
    """Where the data comes from, in words."""
    revision: str
    """Version of the data; empty if it has none."""
    files: Mapping[str, str]
    """File -> its SHA-256."""
    access: str
    """Who can get the data; empty if not known."""
    n: int
    """Instances asked."""
    selection: str
    """Which instances, in words."""
    metric: str
    """Name of the metric for people."""
    low: float
    """Worst score."""
    high: float
    """Best score."""
    mde: float | None
    """Smallest difference, on a scale from 0 to 1, that would be found in four of five tries."""
    definition_digest: str
    """SHA-256 of the definition."""
    data_digest: str
    """SHA-256 of data and selection."""
    prompts_digest: str
    """SHA-256 of all prompts; empty if they are not stored."""
    max_tokens: str
    """Limit on an answer, in words."""
    scores: Mapping[str, Number]
    """Name of a model -> its score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardJudge:
    """A judge."""

    name: str
    """Name, without an address."""
    expected: int
    """Judgments that should be there."""
    missing: int
    """Judgments that are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Everything on the page."""

    date: str
    """Day on which the card was written, ISO 8601."""
    first_run: str
    """Day of the first run."""
    last_run: str
    """Day of the last run."""
    scoring: str
    """Rule of the scores."""
    tier: str
    """Real data or sample rows."""
    models: Sequence[CardModel]
    """In order of rank."""
    benchmarks: Sequence[CardBenchmark]
    """In the order of the suite."""
    judges: Sequence[CardJudge]
    """Who graded free text."""
    settings: Mapping[str, str]
    """What was chosen -> how, in words."""
    findings: Sequence[str]
    """What can and cannot be told apart, in sentences."""
    limits: Sequence[str]
    """What the numbers do not say, in sentences."""
    versions: Mapping[str, str]
    """Program -> its versions."""
    measures: Mapping[str, str]
    """Name of a metric for people -> what it measures."""
    command: str
    """The command that does it again."""


WORDS: Mapping[str, str] = {
    "Score": "mean over all questions of a benchmark; the brackets hold the 95 % interval: how far chance alone could "
    "have moved it",
    "Win rate": "how often a model scores higher than another one, over all benchmarks: 0 is never, 1 is always",
    "Place": "by win rate, with a missing benchmark counted as lost; the brackets hold where chance could have put it",
    "Average": "mean over the benchmarks, each put on a scale from 0 to 1",
    "Digest": "a checksum: equal digests mean equal content",
    "Corrected scoring": "answers are read as each measure's authors meant it; published scoring repeats the rules of "
    "the published leaderboard, known faults included",
}
"""Word -> what it means, for people outside the field."""


def as_json(card: Card) -> dict[str, Any]:
    """The card as plain lists and dictionaries."""
    return {"medhelm_card": FORMAT, **asdict(card)}


def to_markdown(card: Card) -> str:
    """The card for people, as Markdown."""
    lines = [f"# {title(card)}", "", *(escape_markdown(text) for text in opening(card)), ""]
    for heading, headers, rows in tables(card):
        lines += [f"## {heading}", "", render(rows, headers, format="md")]
    for heading, sentences in sections(card):
        lines += [f"## {heading}", "", *(f"- {escape_markdown(text)}" for text in sentences), ""]
    lines += ["## To do it again", "", "```", card.command, "```", ""]
    return "\n".join(lines)


Table = tuple[str, list[str], list[list[Value]]]
"""Heading, column headings, rows."""


def title(card: Card) -> str:
    """The title of the page."""
    count = len(card.benchmarks)
    return f"Evaluation card: {len(card.models)} model{_s(card.models)} on {count} benchmark{_s(card.benchmarks)}"


def _s(things: Sequence[object]) -> str:
    return "" if len(things) == 1 else "s"


def opening(card: Card) -> list[str]:
    """What is said first: what this is, and, of invented data, that it is."""
    days = card.first_run if card.first_run == card.last_run else f"{card.first_run} to {card.last_run}"
    said = f"Evaluated {days}; card written {card.date}. {card.scoring.capitalize()} scoring."
    if card.tier == "sample":
        return [said, "INVENTED EXAMPLES, NOT REAL DATA: nothing here says how a model performs."]
    return [said]


def tables(card: Card) -> list[Table]:
    """The tables of the page."""
    return [_results(card), _scores(card), _models(card), _data(card)]


def _results(card: Card) -> Table:
    headers = ["Place", "Model", "Win rate", "Average", "Benchmarks", "Answers USD", "Judging USD"]
    rows: list[list[Value]] = [
        [
            m.rank if m.rank_low == m.rank_high else f"{m.rank} ({m.rank_low} to {m.rank_high})",
            m.name,
            _number(m.win_rate, 2),
            _number(m.macro_average, 2),
            m.n_benchmarks,
            decimal(m.cost_usd, 2),
            decimal(m.judges_cost_usd, 2),
        ]
        for m in card.models
    ]
    return "Results", headers, rows


def _scores(card: Card) -> Table:
    names = [model.name for model in card.models]
    if len(names) <= 4:
        headers = ["Benchmark", "Measure (scale)", *names]
        rows: list[list[Value]] = [
            [b.title, _scale(b), *(_score(b.scores.get(name), b) for name in names)] for b in card.benchmarks
        ]
    else:
        headers = ["Benchmark", "Measure (scale)", "Model", "Score"]
        rows = [
            [b.title if place == 0 else "", _scale(b) if place == 0 else "", name, _score(b.scores.get(name), b)]
            for b in card.benchmarks
            for place, name in enumerate(names)
        ]
    return "Scores", headers, rows


def _scale(benchmark: CardBenchmark) -> str:
    return f"{benchmark.metric} ({benchmark.low:g} to {benchmark.high:g})"


def _score(number: Number | None, benchmark: CardBenchmark) -> str | None:
    """A score, and how many answers are missing, where some are."""
    text = _number(number, 3 if benchmark.high - benchmark.low <= 1 else 2)
    if number and text and number.n_failed:
        return f"{text}, {number.n_failed} missing"
    return text


def _number(number: Number | None, places: int) -> str | None:
    return with_interval(number.value, number.low, number.high, places) if number else None


def _models(card: Card) -> Table:
    headers = ["Model", "Reached", "Called there", "Version that answered", "Price"]
    rows: list[list[Value]] = [
        [m.name, m.reached, m.served_as or None, _snapshots(m), m.price or "not known"] for m in card.models
    ]
    return "Models", headers, rows


def _snapshots(model: CardModel) -> str:
    several = len(model.snapshots) > 1
    named = [(name or "not said") + (f" ({count:,})" if several else "") for name, count in model.snapshots.items()]
    return ", ".join(named) or MISSING


def _data(card: Card) -> Table:
    headers = ["Benchmark", "Task", "Source", "Questions", "Data digest", "Prompts digest"]
    rows: list[list[Value]] = [
        [
            b.title,
            b.task or None,
            b.source + (f", revision {b.revision[:SHORT]}" if b.revision else ""),
            f"{b.n:,}: {b.selection}",
            b.data_digest[:SHORT],
            b.prompts_digest[:SHORT] or "not stored",
        ]
        for b in card.benchmarks
    ]
    return "Data", headers, rows


def sections(card: Card) -> list[tuple[str, list[str]]]:
    """Heading -> sentences, of the parts that are no tables."""
    judges = [
        f"{j.name}: {j.expected - j.missing:,} of {j.expected:,} judgments" if j.expected else j.name
        for j in card.judges
    ]
    how = [f"{name}: {value}" for name, value in card.settings.items()]
    how += [f"Judges (language models that grade free text): {'; '.join(judges)}"] if judges else []
    how += ["Versions: " + ", ".join(f"{name} {version}" for name, version in card.versions.items())]
    return [
        ("What can and cannot be told apart", list(card.findings)),
        ("What these numbers do not say", list(card.limits)),
        ("How it was done", how),
        ("Words", [f"{word}: {meaning.rstrip('.')}." for word, meaning in {**WORDS, **card.measures}.items()]),
    ]


# --- HTML -------------------------------------------------------------------------------------------------------------

STYLE = """
@page { size: A4; margin: 10mm 11mm; }
* { box-sizing: border-box; }
body { font: 8.2pt/1.32 "Helvetica Neue", Arial, "Liberation Sans", sans-serif; color: #16202a; margin: 0 auto;
       max-width: 188mm; padding: 4mm 0; background: #fff; }
h1 { font-size: 14pt; margin: 0 0 1mm; }
h2 { font-size: 9pt; margin: 3mm 0 1mm; color: #0b4f6c; border-bottom: 0.3mm solid #0b4f6c; }
p { margin: 0 0 1mm; }
p.invented { font-weight: bold; border: 0.5mm solid #a4133c; color: #a4133c; padding: 1mm 2mm; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; border-bottom: 0.2mm solid #56646f; }
th, td { padding: 0.4mm 1.6mm 0.4mm 0; vertical-align: top; overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
tr + tr td { border-top: 0.1mm solid #d5dce1; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
ul { margin: 0; padding-left: 3.6mm; }
code { font: 7.4pt/1.3 "DejaVu Sans Mono", Consolas, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
div.columns { display: flex; gap: 6mm; }
div.columns > section { flex: 1 1 0; min-width: 0; }
@media print { body { padding: 0; max-width: none; } h2 { break-after: avoid; } tr, li { break-inside: avoid; } }
""".strip()


def to_html(card: Card) -> str:
    """The card as a page of its own."""
    first, *more = opening(card)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title(card))}</title>",
        f"<style>\n{STYLE}\n</style></head><body>",
        f"<h1>{escape(title(card))}</h1>",
        f"<p>{escape(first)}</p>",
        *(f'<p class="invented">{escape(text)}</p>' for text in more),
    ]
    for heading, headers, rows in tables(card):
        lines += [f"<h2>{escape(heading)}</h2>", *_table(headers, rows)]
    parts = [_section(heading, sentences) for heading, sentences in sections(card)]
    lines += [*_side_by_side(parts[0], parts[1]), *_side_by_side(parts[2], parts[3])]
    lines += ["<h2>To do it again</h2>", f"<p><code>{escape(card.command)}</code></p>", "</body></html>"]
    return "\n".join(lines) + "\n"


def _table(headers: list[str], rows: list[list[Value]]) -> list[str]:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = ["<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows]
    return [f"<table><thead><tr>{head}</tr></thead><tbody>", *body, "</tbody></table>"]


def _cell(value: Value) -> str:
    text = MISSING if value is None else str(value)
    is_number = not isinstance(value, str) or (NUMERIC.match(text) and len(text) <= 40 and ":" not in text)
    return f'<td class="number">{escape(text)}</td>' if is_number else f"<td>{escape(text)}</td>"


def _section(heading: str, sentences: list[str]) -> list[str]:
    items = "".join(f"<li>{escape(text)}</li>" for text in sentences)
    return ["<section>", f"<h2>{escape(heading)}</h2>", f"<ul>{items}</ul>", "</section>"]


def _side_by_side(left: list[str], right: list[str]) -> list[str]:
    return ['<div class="columns">', *left, *right, "</div>"]
