"""`medhelm confidence`: how far confidences of models can be trusted, and when models decline to answer.

Confidences are those that completions state, and the probabilities of the tokens that name their options. They are
compared with scores of 0 and 1. Completions that decline to answer are counted apart.

Reliability diagrams: the accuracy of the answers in each bin of confidence, one panel for each run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
from markupsafe import Markup

from medhelm.analysis.confidence import ConfidenceCalibration
from medhelm.cli import shell_completion
from medhelm.cli.global_options import Shared, load, shared_options
from medhelm.cli.options import format_option, options_of
from medhelm.cli.output import table_options
from medhelm.cli.printing import print_json, print_remarks
from medhelm.domain import Benchmark, Run
from medhelm.domain.result import Remark
from medhelm.domain.text import listed, plural
from medhelm.errors import UserError
from medhelm.extensions.variants.prompts import ABSTAIN, CONFIDENCE
from medhelm.results.formats.drawing import (
    FONT_SIZE,
    LinearScale,
    circle,
    element,
    empty_picture,
    frame_paint,
    group,
    label,
    line,
    paint,
    picture,
    rect,
)
from medhelm.results.formats.fields import Field, columns_of, fields_json, fields_table, list_field, rounded_rows
from medhelm.results.formats.tables import render
from medhelm.results.options import BoardOptions

if TYPE_CHECKING:
    from medhelm.analysis.confidence import Abstention, ReliabilityBin, RiskPoint
    from medhelm.extensions.variants.asked_runs import Answered

ABSTENTION = "abstention"
"""Metric that scores abstentions too."""

MUST_ABSTAIN = "must_abstain"
"""Expectation of a variant whose instances cannot be answered any more."""

Source = Literal["stated", "tokens"]
"""Source of a confidence: the completion states it, or it is the probability of its tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedRun:
    """Confidences of one model on one benchmark."""

    benchmark: str
    """Name of the benchmark."""
    model: str
    """Name of the model, with the way it was asked."""
    source: Source
    """Source of the confidences."""
    n_without: int
    """Answers without a confidence, which do not count."""
    found: ConfidenceCalibration
    """Their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstainingRun:
    """Completions of one model on one benchmark that decline to answer."""

    benchmark: str
    """Name of the benchmark."""
    model: str
    """Name of the model, with the way it was asked."""
    must_abstain: bool
    """True if nothing else is right: the instances cannot be answered any more."""
    found: Abstention
    """Their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceReport:
    """Confidences and abstentions of the models of some stores."""

    threshold: float
    """Confidences below it are low."""
    calibrated: tuple[CalibratedRun, ...]
    """Runs with confidences."""
    abstaining: tuple[AbstainingRun, ...]
    """Runs in which models could decline to answer."""
    remarks: tuple[Remark, ...]
    """Limits of the numbers."""


@click.command()
@click.argument("benchmarks", nargs=-1, shell_complete=shell_completion.benchmarks)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    metavar="P",
    help="Confidences below it are low, as those that call for a person.",
)
@click.option(
    "--diagram",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg",
    help="Also draw the accuracy by confidence, one panel for each run.",
)
@options_of(BoardOptions, "options", "wanted", "tier")
@format_option
@table_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def confidence(
    shared: Shared,
    benchmarks: tuple[str, ...],
    threshold: float,
    diagram: Path | None,
    options: BoardOptions,
    format_: str,
) -> int:
    """Show how far confidences can be trusted.

    Confidences are stated by completions (`run --prompt confidence`) or are probabilities of tokens (`run --logprobs`).
    For each model: calibration error, Brier score, overconfidence, and accuracy if only the surest answers are kept,
    each with its 95% interval. Also how often models decline to answer (`run --prompt abstain`), and how often they do
    so where nothing else is right. CSV holds the confidences alone.

    \b
    Examples:
      medhelm confidence med_qa
      medhelm confidence --model openai/gpt-4o --threshold 0.7 --json
    """
    from medhelm.benchmarks.catalog import all_names
    from medhelm.results.runs.selection import renamed, short_names

    runs = load_asked(shared.all_stores, options, benchmarks)
    known = set(all_names(shared.folders_of_stores))
    names = sorted({run.benchmark for run in runs} & known)
    definitions = {one.name: one for one in load(shared, names, of_stores=True)}
    report = measure_confidence(runs, definitions, threshold=threshold, is_named=bool(benchmarks))
    shown = renamed(report, short_names([run.model for run in runs]))
    if diagram is not None:
        _write_diagram(diagram, shown)
    if format_ == "json":
        print_json(fields_json(JSON_FIELDS, report))
        return 0
    click.echo(to_text(shown, format_), nl=False)
    print_remarks(shown.remarks, format_)
    return 0


def _write_diagram(file: Path, report: ConfidenceReport) -> None:
    """Write the reliability diagrams of a report. Raises: UserError."""
    from medhelm.io.folders import output_errors, write_file

    if not report.calibrated:
        raise UserError(f"--diagram {file}: no run has confidences to draw.")
    with output_errors(file, "file"):
        panels = [ReliabilityPanel(one.model, f"{one.benchmark}, {one.source}", one.found) for one in report.calibrated]
        write_file(file, str(draw_reliability(panels)))
    left_out = len(report.calibrated) - MOST_PANELS
    more = f" It shows the first {MOST_PANELS}; choose others with --model." if left_out > 0 else ""
    click.echo(f"{file} has a diagram for each run with confidences.{more}", err=True)


# --- runs and their instances -----------------------------------------------------------------------------------------


def load_asked(stores: Sequence[Path], options: BoardOptions, benchmarks: Collection[str] = ()) -> list[Run]:
    """Return the latest finished run of each model, benchmark and way of asking, without repeats and baselines.

    Of variants, those whose instances cannot be answered, and those that the options name. Raises: UserError without
    any; StoreError.
    """
    from medhelm.results.comparable import BASELINE, default_tier
    from medhelm.results.runs.selection import choose_variants, filter_runs
    from medhelm.storage.damage import intact_runs
    from medhelm.storage.runs import load_runs
    from medhelm.storage.store import open_store

    wanted = options.wanted
    if benchmarks:
        wanted = replace(wanted, benchmarks=(*wanted.benchmarks, *benchmarks))
    every = [run for path in stores for run in load_runs(open_store(path), variants=True)]
    named = choose_variants(wanted.variants, every, lambda run: run) if wanted.variants else []
    found = filter_runs(
        replace(wanted, variants=()),
        [run for run in every if not run.variant or run.settings.get("expectation") == MUST_ABSTAIN or run in named],
        lambda run: run,
        families=True,
    )
    tier = options.tier or default_tier(found)
    kept = [run for run in found if run.tier == tier and run.is_complete and not run.model.startswith(BASELINE)]
    latest = {(run.benchmark, run.model): run for run in sorted(kept, key=lambda run: run.started)}
    if not latest:
        places = listed([str(path) for path in stores])
        raise UserError(f"no finished run of a model on {tier} data in {places}. `medhelm run` makes one.")
    return intact_runs(latest[key] for key in sorted(latest))


# --- report -----------------------------------------------------------------------------------------------------------


def measure_confidence(
    runs: Sequence[Run], definitions: Mapping[str, Benchmark], *, threshold: float = 0.5, is_named: bool = False
) -> ConfidenceReport:
    """Measure the confidences and abstentions of runs.

    Parameters: definitions, name of a benchmark -> its definition, as far as known; threshold, confidences below it are
    low; is_named, True to count abstentions of all runs, also where the prompt did not permit any.
    Raises: UserError if there is nothing to measure; StoreError.
    """
    from medhelm.analysis.confidence import count_abstentions
    from medhelm.extensions.variants.asked_runs import AskedRun, names_abstention, read_answered
    from medhelm.results.runs.answers import read_options

    calibrated: list[CalibratedRun] = []
    abstaining: list[AbstainingRun] = []
    graded: dict[str, None] = {}
    silent: dict[str, None] = {}
    for run in runs:
        options = read_options([AskedRun(run).prompts], definitions.get(run.benchmark), "")
        answered, n_failed = read_answered(run, options)
        keys = [(own, label) for own in options.values() for label in own.correct]
        has_no_answer = bool(keys) and all(names_abstention(*key) for key in keys)
        must_abstain = has_no_answer or run.settings.get("expectation") == MUST_ABSTAIN
        if run.settings.get("logprobs") and all(one.tokens is None for one in answered):
            silent[run.model] = None
        if any(one.score not in (0.0, 1.0, None) for one in answered):
            graded[run.benchmark] = None
        elif has_no_answer or not must_abstain:
            calibrated += calibrations_of(run, answered, threshold)
        if must_abstain or is_named or run.settings.get("prompt") in (ABSTAIN, CONFIDENCE):
            counted = count_abstentions(
                [*(one.abstained for one in answered), *[None] * n_failed],
                [*(None if must_abstain else one.score for one in answered), *[None] * n_failed],
                clusters=[*(one.cluster for one in answered), *[""] * n_failed],
            )
            if counted is not None:
                abstaining.append(
                    AbstainingRun(benchmark=run.benchmark, model=run.model, must_abstain=must_abstain, found=counted)
                )
    if not calibrated and not abstaining:
        raise UserError(
            f"no confidence in {plural(len(runs), 'run')}. `medhelm run BENCHMARK --prompt {CONFIDENCE}` asks models "
            f"to state one, and --logprobs asks servers for probabilities of tokens; --prompt {ABSTAIN} permits not to "
            "answer."
        )
    return ConfidenceReport(
        threshold=threshold,
        calibrated=tuple(calibrated),
        abstaining=tuple(abstaining),
        remarks=tuple(_remarks(calibrated, list(graded), list(silent))),
    )


def calibrations_of(run: Run, answered: Sequence[Answered], threshold: float) -> Iterator[CalibratedRun]:
    """Yield the numbers of each kind of confidence that these completions have.

    Those that abstain do not count, unless the metric of the run says whether that was right.
    """
    from medhelm.analysis.confidence import calibrate

    is_scored = run.main_metric == ABSTENTION
    answers = [one for one in answered if one.score is not None and (is_scored or not one.abstained)]
    sources: dict[Source, list[float | None]] = {
        "stated": [one.stated for one in answers],
        "tokens": [one.tokens for one in answers],
    }
    for source, confidences in sources.items():
        pairs = [(c, one) for c, one in zip(confidences, answers, strict=True) if c is not None]
        found = calibrate(
            [c for c, _ in pairs],
            [one.score == 1.0 for _, one in pairs],
            clusters=[one.cluster for _, one in pairs],
            threshold=threshold,
        )
        if found is not None:
            yield CalibratedRun(
                benchmark=run.benchmark,
                model=run.model,
                source=source,
                n_without=len(answers) - len(pairs),
                found=found,
            )


def _remarks(calibrated: Sequence[CalibratedRun], graded: Sequence[str], silent: Sequence[str]) -> Iterator[Remark]:
    """Yield what must be known to read the numbers."""
    if graded:
        text = f"Scores of {listed(graded)} are grades and not right or wrong: their confidences are not compared."
        yield Remark("graded", "", text)
    if silent:
        text = (
            f"--logprobs brought no probability of an option for {listed(silent)}. `medhelm models check` says what a "
            "server gives."
        )
        yield Remark("without_logprobs", "", text)
    missing = [
        f"{one.model} on {one.benchmark} ({one.source}) {one.n_without:,}" for one in calibrated if one.n_without
    ]
    if missing:
        yield Remark("without_confidence", "", f"Answers without a confidence do not count: {listed(missing)}.")
    if any(one.source == "tokens" for one in calibrated):
        text = (
            "tokens: the probability of the option at the token that names it, as a share of the probabilities of all "
            "options there. Other tokens are ignored, and so are alternatives that the server did not return."
        )
        yield Remark("token_probabilities", "", text)


# --- output -----------------------------------------------------------------------------------------------------------


def _number(
    key: str, get: Callable[[ConfidenceCalibration], Any], heading: str, meaning: str, drop: int = 0, **settings: Any
) -> Field[CalibratedRun]:
    """Return the field of a number with its interval."""
    return Field(key, lambda one: get(one.found), kind="interval", heading=heading, meaning=meaning, drop=drop,
                 **settings)  # fmt: skip


def _part(key: str, get: Callable[[ConfidenceCalibration], float], heading: str, meaning: str) -> Field[CalibratedRun]:
    """Return the field of a number without an interval, for wide tables."""
    return Field(key, lambda one: get(one.found), heading=heading, meaning=meaning, is_wide=True)


CALIBRATION_FIELDS: list[Field[CalibratedRun]] = [
    Field("benchmark", lambda one: one.benchmark, kind="text", heading="Benchmark", meaning="The benchmark."),
    Field("model", lambda one: one.model, kind="text", heading="Model", meaning="The model, with how it was asked."),
    Field("source", lambda one: one.source, kind="text", heading="Confidence", range="stated, tokens",
          meaning="Source of the confidences: completions state them, or the probabilities of tokens."),
    Field("n", lambda one: one.found.n, kind="whole number", heading="n", drop=9,
          meaning="Answers with a confidence."),
    Field("n_without", lambda one: one.n_without, kind="whole number", heading="Without", hide_empty=True, drop=8,
          meaning="Answers without a confidence."),
    _number("accuracy", lambda found: found.accuracy, "Accuracy", "Share of these answers that is right.", 7),
    _number("mean_confidence", lambda found: found.mean_confidence, "Mean confidence", "Mean confidence.",
            is_wide=True),
    _number("overconfidence", lambda found: found.overconfidence, "Overconfidence",
            "Mean confidence minus accuracy."),
    _number("ece", lambda found: found.ece, "ECE",
            "Expected calibration error in bins of equal mass, without what chance adds."),
    _number("brier", lambda found: found.brier, "Brier", "Mean squared difference of confidence and score.", 6),
    _number("aurc", lambda found: found.aurc, "AURC", "Area under the risk-coverage curve: the mean error rate over "
            "all shares of the answers, those with the highest confidence.", 2),
    _number("accuracy_at_80", lambda found: found.selective[0], "Accuracy at 80%",
            "Accuracy of the 80% of answers with the highest confidence.", 3),
    _number("accuracy_at_90", lambda found: found.selective[1], "Accuracy at 90%",
            "Accuracy of the 90% of answers with the highest confidence.", 4),
    _number("low_confidence", lambda found: found.low_confidence, "Low confidence",
            "Share of the answers with a confidence below the threshold.", 5),
    _part("ece_plain", lambda found: found.ece_plain, "ECE, plain", "The calibration error with what chance adds."),
    _part("ece_equal_width", lambda found: found.ece_equal_width, "ECE, equal width",
          "The same in ten bins of equal width."),
    _part("reliability", lambda found: found.reliability, "Reliability", "Part of the Brier score: miscalibration."),
    _part("resolution", lambda found: found.resolution, "Resolution",
          "Part of the Brier score, subtracted: how far confidences separate right from wrong."),
    _part("uncertainty", lambda found: found.uncertainty, "Uncertainty",
          "Part of the Brier score that the accuracy alone decides."),
]  # fmt: skip
"""The numbers of a run with confidences."""

_BIN_FIELDS: list[Field[ReliabilityBin]] = [
    Field("n", lambda one: one.n, kind="whole number", meaning="Answers in the bin."),
    Field("low", lambda one: one.low, meaning="Lowest confidence."),
    Field("high", lambda one: one.high, meaning="Highest confidence."),
    Field("confidence", lambda one: one.confidence, meaning="Mean confidence."),
    Field("accuracy", lambda one: one.accuracy, kind="interval", meaning="Share that is right."),
]
_RISK_FIELDS: list[Field[RiskPoint]] = [
    Field("coverage", lambda one: one.coverage, meaning="Share of the answers, those with the highest confidence."),
    Field("risk", lambda one: one.risk, meaning="Share of these that is wrong."),
    Field("threshold", lambda one: one.threshold, meaning="Lowest confidence among them."),
]

ABSTENTION_FIELDS: list[Field[AbstainingRun]] = [
    Field("benchmark", lambda one: one.benchmark, kind="text", heading="Benchmark", meaning="The benchmark."),
    Field("model", lambda one: one.model, kind="text", heading="Model", meaning="The model, with how it was asked."),
    Field("must_abstain", lambda one: one.must_abstain, kind="true or false", heading="Must abstain",
          text=lambda one: "yes" if one.must_abstain else "no",
          meaning="True if the instances cannot be answered, so that declining is right."),
    Field("n", lambda one: one.found.n, kind="whole number", heading="n", meaning="Completions."),
    Field("n_failed", lambda one: one.found.n_failed, kind="whole number", heading="Failed", hide_empty=True,
          meaning="Instances without a completion."),
    Field("abstained", lambda one: one.found.rate, kind="interval", heading="Abstained",
          meaning="Share of the completions that decline to answer."),
    Field("answered_accuracy", lambda one: one.found.answered_accuracy, kind="interval", heading="Accuracy if answered",
          meaning="Share of the other completions that is right.", missing="no answer, or nothing can be right"),
]  # fmt: skip
"""The abstentions of a run."""

JSON_FIELDS: list[Field[ConfidenceReport]] = [
    Field("threshold", lambda report: report.threshold, meaning="Confidences below it are low."),
    list_field(
        "confidence",
        [
            *CALIBRATION_FIELDS,
            list_field("curve", _BIN_FIELDS, lambda one: one.found.curve),
            list_field("risk_coverage", _RISK_FIELDS, lambda one: one.found.risks),
        ],
        lambda report: report.calibrated,
    ),
    list_field("abstention", ABSTENTION_FIELDS, lambda report: report.abstaining),
    Field("remarks", lambda report: [remark.text for remark in report.remarks], kind="texts"),
]
"""The output of `medhelm confidence --json`."""


def to_text(report: ConfidenceReport, format: str = "table") -> str:
    """Return the confidences and the abstentions as tables; CSV holds the confidences."""
    if format == "csv":
        rows, headings = rounded_rows(columns_of(CALIBRATION_FIELDS), report.calibrated)
        return render(rows, headings, format=format)
    caption = f"Confidence, with 95% intervals; low: below {report.threshold:g}"
    tables = []
    if report.calibrated:
        tables.append(fields_table(CALIBRATION_FIELDS, report.calibrated, format=format, caption=caption))
    if report.abstaining:
        caption = "Completions that decline to answer, with 95% intervals"
        tables.append(fields_table(ABSTENTION_FIELDS, report.abstaining, format=format, caption=caption))
    return "\n".join(tables)


# --- reliability diagram ----------------------------------------------------------------------------------------------

MOST_PANELS, PER_ROW = 12, 3
"""Panels in one picture, and beside each other."""

SIDE, LEFT, TOP, BOTTOM, RIGHT = 220, 46, 48, 44, 14
"""Pixels of a panel's square, and of the space around it."""

SMALL = FONT_SIZE - 1
"""Size of all texts but the name of the model."""

LARGEST = 9
"""Radius of the point of a bin with all answers, in pixels; areas are in proportion to answers."""

TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

_TITLE = "Reliability diagram"


class ReliabilityPanel(NamedTuple):
    """The confidences of one run."""

    title: str
    """Name of the model."""
    subtitle: str
    """Benchmark and source of the confidences."""
    found: ConfidenceCalibration
    """Numbers with the curve to draw."""


def draw_reliability(panels: Sequence[ReliabilityPanel]) -> Markup:
    """Return an SVG picture of at most `MOST_PANELS` panels, in their order.

    Points on the diagonal are calibrated; below it, a model is surer than it is right. Whiskers are 95% intervals.
    """
    shown = panels[:MOST_PANELS]
    columns = min(PER_ROW, len(shown))
    panel_width, panel_height = LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM
    if not shown:
        return empty_picture(panel_width, title=_TITLE, description="No run has confidences.")
    drawn = [
        element("g", _drawn(one), transform=f"translate({(at % columns) * panel_width} {at // columns * panel_height})")
        for at, one in enumerate(shown)
    ]
    rows = -(-len(shown) // columns)
    return picture(
        columns * panel_width, rows * panel_height, *drawn, title=_TITLE, description="; ".join(map(_in_words, shown))
    )


def _in_words(panel: ReliabilityPanel) -> str:
    """Return a panel as text."""
    bins = ", ".join(f"{one.accuracy.value:.2f} right at {one.confidence:.2f}" for one in panel.found.curve)
    return f"{panel.title}, {panel.subtitle}: {bins}"


def _drawn(panel: ReliabilityPanel) -> Markup:
    """Return the panel of one run: titles, axes, diagonal, and a point with its interval for each bin."""
    x, y = LinearScale(0, 1, LEFT, LEFT + SIDE), LinearScale(0, 1, TOP + SIDE, TOP)
    titles = [
        label(LEFT, 18, panel.title, width=SIDE, bold=True),
        label(LEFT, 34, f"{panel.subtitle}, ECE {panel.found.ece.value:.3f}", width=SIDE, size=SMALL),
    ]
    grid = [line(x(tick), TOP, x(tick), TOP + SIDE) for tick in TICKS]
    grid += [line(LEFT, y(tick), LEFT + SIDE, y(tick)) for tick in TICKS]
    words = [label(x(tick), TOP + SIDE + 15, f"{tick:g}", anchor="middle", size=SMALL) for tick in TICKS]
    words += [label(LEFT - 5, y(tick) + 4, f"{tick:g}", anchor="end", size=SMALL) for tick in TICKS]
    words.append(label(LEFT + SIDE / 2, TOP + SIDE + 33, "confidence", anchor="middle", size=SMALL))
    turned = f"translate(12 {TOP + SIDE / 2:.0f}) rotate(-90)"
    words.append(element("text", "accuracy", transform=turned, text_anchor="middle", font_size=SMALL))
    whiskers = [line(x(one.confidence), y(one.accuracy.low), x(one.confidence), y(one.accuracy.high), stroke_width=1.5)
                for one in panel.found.curve]  # fmt: skip
    points = [
        circle(x(one.confidence), y(one.accuracy.value), max(2.5, LARGEST * (one.n / panel.found.n) ** 0.5))
        for one in panel.found.curve
    ]
    return Markup("").join(
        [
            group("grid", grid),
            rect(LEFT, TOP, SIDE, SIDE, **frame_paint()),
            group("line", [line(x(0), y(0), x(1), y(1), stroke_dasharray="4 4", stroke_width=1.2)]),
            group("axis", whiskers),
            element("g", *points, **paint("mark")),
            group("ink", titles),
            group("soft", words),
        ]
    )
