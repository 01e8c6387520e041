"""The robustness report of stores: verdict, tables, JSON, and its section in other documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medhelm.analysis.comparison.non_inferiority import Change
from medhelm.domain import Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import listed, plural
from medhelm.errors import MissingError
from medhelm.extensions.variants.asked_runs import RunFamily, find_families
from medhelm.extensions.variants.repeats import PassRate
from medhelm.extensions.variants.robustness import (
    PerturbationResult,
    PositionResult,
    RepeatedResult,
    perturbation_results,
    position_result,
    repeated_result,
)
from medhelm.extensions.variants.sensitivity import (
    CERTAIN,
    PromptSensitivity,
    RankSensitivity,
    prompt_results,
    rank_results,
)
from medhelm.extensions.variants.thresholds import ThresholdResult, threshold_results
from medhelm.extensions.variants.types import MARGIN, REACTIONS
from medhelm.results.comparable import BASELINE
from medhelm.results.formats.fields import (
    NUMBER,
    Field,
    fields_json,
    fields_table,
    list_field,
    list_of,
    map_of,
    table_of,
)
from medhelm.results.formats.sections import ResultSection, SectionTable
from medhelm.results.formats.tables import decimal, estimate_text, p_text, percent, with_interval
from medhelm.results.options import EVERY_RUN, BoardOptions, RunFilter
from medhelm.results.runs.selection import renamed, short_names

MOST_COLUMNS = 9
"""Most columns of a table in a section, which fit a sheet of paper; the least important ones are left out."""

LISTED = 4
"""Most names in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustnessReport:
    """Reactions of models to the same questions, asked in other ways."""

    margin: float
    """Difference of scores up to which they count as equivalent."""
    perturbations: tuple[PerturbationResult, ...]
    """By benchmark and model."""
    repeats: tuple[RepeatedResult, ...]
    """By benchmark and model."""
    positions: tuple[PositionResult, ...]
    """By benchmark and model."""
    thresholds: tuple[ThresholdResult, ...]
    """By threshold and model."""
    prompts: tuple[PromptSensitivity, ...] = ()
    """By benchmark and model."""
    ranks: tuple[RankSensitivity, ...] = ()
    """By benchmark."""

    @property
    def models(self) -> set[str]:
        """Models that were asked in other ways."""
        results: tuple[Any, ...] = (*self.perturbations, *self.repeats, *self.positions, *self.prompts)
        return {one.about.model for one in results}


def robustness_report(
    stores: Sequence[Path],
    wanted: RunFilter = EVERY_RUN,
    *,
    benchmarks: Sequence[str] = (),
    tier: Tier | None = None,
    margin: float = MARGIN,
    k: int | None = None,
) -> RobustnessReport:
    """Compare the variants of the runs of some stores with the runs that they belong to.

    Parameters: benchmarks, empty for all; margin, difference up to which scores are equivalent; k, number of samples
    for pass@k, None for several.
    Raises: UserError for names that no run has, and if `k` is more than the samples; MissingError without any run.
    """
    families = find_families(stores, wanted, benchmarks, tier)
    if not families:
        on = f" on {listed(list(benchmarks))}" if benchmarks else ""
        raise MissingError(f"no finished run{on}. `medhelm run` starts one.")
    return _report_of(families, margin, k)


def _report_of(families: Sequence[RunFamily], margin: float = MARGIN, k: int | None = None) -> RobustnessReport:
    perturbations = tuple(one for family in families for one in perturbation_results(family, margin))
    return RobustnessReport(
        margin=margin,
        perturbations=perturbations,
        repeats=tuple(one for family in families if (one := repeated_result(family, k))),
        positions=tuple(order for family in families if (order := position_result(family))),
        thresholds=tuple(threshold_results(families, perturbations)),
        prompts=tuple(prompt_results(families)),
        ranks=tuple(rank_results(families)),
    )


def with_short_names(report: RobustnessReport) -> RobustnessReport:
    """Return the report with names of models without addresses of servers."""
    return renamed(report, short_names(report.models | {one.model for one in report.thresholds}))


# --- verdict ----------------------------------------------------------------------------------------------------------


def verdict(report: RobustnessReport) -> list[str]:
    """Return the findings in sentences."""
    if not report.models:
        return [
            "Nothing was asked in other ways yet. `medhelm run BENCHMARK --model MODEL --repeat 3 --perturb all` does, "
            "and `medhelm plan` with the same options says at what cost."
        ]
    models = sorted(name for name in report.models if not name.startswith(BASELINE))
    sentences = [sentence for model in models for sentence in _findings(model, report)]
    return [*sentences, *map(_rank_sentence, report.ranks)]


def _findings(model: str, report: RobustnessReport) -> Iterator[str]:
    """Yield the findings on one model."""
    own = [one for one in report.perturbations if one.about.model == model]
    if decided := [one for one in own if one.verdict]:
        yield f"{model}: {_equivalence_sentence(decided, report.margin)}"
    in_words: list[tuple[Sequence[Any], Callable[[Any], str]]] = [
        ([one for one in own if one.reacted], _reaction_sentence),
        (report.positions, _position_sentence),
        (report.repeats, _repeats_sentence),
        (report.prompts, _prompt_sentence),
    ]
    for results, sentence in in_words:
        yield from (f"{model} on {one.about.title}{sentence(one)}" for one in results if one.about.model == model)
    counts = {
        word: sum(one.model == model and one.verdict == word for one in report.thresholds)
        for word in ("met", "not met", "undecided")
    }
    if any(counts.values()):
        yield f"{model}, thresholds of CHAI: {', '.join(f'{n} {word}' for word, n in counts.items() if n)}."


def _reaction_sentence(one: PerturbationResult) -> str:
    reaction = f"{'the' if one.expectation == 'must_change' else ''} {REACTIONS[one.expectation]}".strip()
    return f", {one.perturbation}: gives {reaction}, as it should, in a share of {estimate_text(one.reacted)}."


def _equivalence_sentence(own: Sequence[PerturbationResult], margin: float) -> str:
    by_verdict = group_by(own, lambda one: one.verdict)
    met, others, undecided = (by_verdict.get(word, []) for word in ("met", "not met", "undecided"))
    text = f"on {len(met)} of {plural(len(own), 'set')} of perturbed questions, scores stay within {margin:g}"
    if others:
        shown = [f"{one.perturbation} on {one.about.title}, {estimate_text(one.change)}" for one in others]
        text += f"; they do not on {len(others)} ({listed(shown, LISTED)})"
    if undecided:
        known = [one.n_needed for one in undecided if one.n_needed]
        needs = f" (about {_range(known)} instances would decide)" if known else ""
        text += f"; {len(undecided)} {'is' if len(undecided) == 1 else 'are'} undecided{needs}"
    return f"{text}."


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _position_sentence(one: PositionResult) -> str:
    p = p_text(one.p_value)
    if not one.is_biased:
        return f": no preference for the place of an option is found in {plural(one.n_orders, 'order')} (p {p})."
    points = f"{100 * max(one.excess):.0f} percentage points"
    return (
        f": prefers place {one.preferred}: it chooses it {points} more often than content explains (p {p}). "
        f"A share of {estimate_text(one.all_right)} is right in all {plural(one.n_orders, 'order')}."
    )


def _prompt_sentence(one: PromptSensitivity) -> str:
    n, by_chance = plural(len(one.means), "prompt"), decimal(one.range_by_chance)
    beyond = "" if one.range.low > 0 else ", which equal prompts can give"
    differ = f"differ by {estimate_text(one.range)}{beyond} ({by_chance} by chance)"
    return f": mean scores of {n} {differ}; best: {one.best}."


def _rank_sentence(one: RankSensitivity) -> str:
    return (
        f"{one.title}: {one.n_same_order} of {plural(one.n_pairs, 'pair')} of models keep their order under all "
        f"{plural(len(one.prompts), 'prompt')} in at least {CERTAIN:.0%} of draws of the questions."
    )


def _repeats_sentence(one: RepeatedResult) -> str:
    text = f": the mean of {one.n_samples} samples is {estimate_text(one.mean.mean)}"
    if one.mean.share_sampling is not None:
        text += f"; {percent(one.mean.share_sampling)} of its variance is due to sampling, the rest to the questions"
    if one.agreement:
        text += f"; two samples agree in a share of {estimate_text(one.agreement.consistency)}"
    return f"{text}."


# --- tables -----------------------------------------------------------------------------------------------------------


def _excess_text(change: Change | None) -> str | None:
    return with_interval(change.value, change.low, change.high) if change else None


_MODEL: Field[Any] = Field("model", lambda one: one.about.model, kind="text", heading="Model")
_BENCHMARK: Field[Any] = Field(
    "benchmark", lambda one: one.about.benchmark, kind="text", heading="Benchmark", text=lambda one: one.about.title
)

PERTURBATION_FIELDS: list[Field[PerturbationResult]] = [
    _MODEL,
    _BENCHMARK,
    Field("perturbation", lambda one: one.perturbation, kind="text", heading="Perturbation"),
    Field("expectation", lambda one: one.expectation, kind="text", heading="Should give",
          text=lambda one: REACTIONS[one.expectation], meaning="Correct reaction to the changed instances.", drop=1),
    Field("metric", lambda one: one.metric_title, kind="text"),
    Field("original", lambda one: one.change.means[0], heading="Original", drop=2,
          meaning="Mean score of the originals, from 0 (worst) to 1 (best)."),
    Field("perturbed", lambda one: one.change.means[1], heading="Perturbed", drop=3,
          meaning="Mean score of the same instances, changed."),
    Field("difference", lambda one: one.change, kind="interval", heading="Difference",
          meaning="Perturbed minus original."),
    Field("n", lambda one: one.change.n, kind="whole number", heading="n", drop=4,
          meaning="Instances with both scores."),
    Field("n_missing", lambda one: one.change.n_missing, kind="whole number", heading="Missing", is_wide=True,
          meaning="Instances without one of the scores, which are left out."),
    Field("changed", lambda one: one.changed, kind="interval", heading="Changed",
          meaning="Share of instances whose answer changed; where no answer is read, whose score crossed half the "
          "scale."),
    Field("reads_answers", lambda one: one.reads_answers, kind="true or false"),
    Field("by_chance", lambda one: one.by_chance, kind="interval", missing="no repeats", heading="By chance",
          hide_empty=True, drop=5, meaning="Share of the same instances whose answer changed in another sample of the "
          "original."),
    Field("excess", lambda one: one.excess, kind="interval", missing="no repeats", is_wide=True, heading="Excess",
          text=lambda one: _excess_text(one.excess), meaning="Share that changed beyond chance."),
    Field("reacted", lambda one: one.reacted, kind="interval", missing="answers should stay", heading="As they should",
          hide_empty=True, meaning="Share of instances with the new answer, or with none, as they should."),
    Field("verdict", lambda one: one.verdict, kind="text", missing="scores need not stay", heading="Equivalent",
          meaning="met: the whole interval of the difference lies within the margin; not met: it lies outside."),
    Field("n_needed", lambda one: one.n_needed, kind="whole number", missing="decided", heading="Needs n",
          hide_empty=True, meaning="Instances that would show equivalence in four of five tries."),
]  # fmt: skip
"""A perturbation of one model on one benchmark."""

PASS_FIELDS: list[Field[PassRate]] = [
    Field("k", lambda one: one.k, kind="whole number", meaning="Number of samples."),
    Field("any", lambda one: one.any_right, kind="interval", meaning="pass@k: at least one of k samples is right."),
    Field("all", lambda one: one.all_right, kind="interval", meaning="pass^k: all of k samples are right."),
    Field("n", lambda one: one.any_right.n, kind="whole number", meaning="Instances with k scored samples."),
    Field("n_left_out", lambda one: one.any_right.n_failed, kind="whole number", meaning="Other instances."),
]
"""Pass rates of k samples."""

REPEAT_FIELDS: list[Field[RepeatedResult]] = [
    _MODEL,
    _BENCHMARK,
    Field("metric", lambda one: one.metric_title, kind="text"),
    Field("n_samples", lambda one: one.n_samples, kind="whole number", heading="Samples", drop=3),
    Field("n", lambda one: one.mean.mean.n, kind="whole number", heading="n", drop=2, meaning="Instances."),
    Field("mean", lambda one: one.mean.mean, kind="interval", heading="Mean",
          meaning="Mean score over instances and samples, from 0 (worst) to 1 (best). Its interval covers other "
          "questions and other samples."),
    Field("mean_again", lambda one: one.mean.again, kind="interval", heading="Same questions again",
          text=lambda one: f"{decimal(one.mean.again.low)} to {decimal(one.mean.again.high)}",
          meaning="The same mean; its interval covers other samples of the same questions alone."),
    Field("share_sampling", lambda one: one.mean.share_sampling, missing="nothing varied", heading="Due to sampling",
          text=lambda one: None if one.mean.share_sampling is None else percent(one.mean.share_sampling),
          meaning="Share of the variance of the mean that is due to sampling; the rest is due to the questions."),
    Field("sd_questions", lambda one: one.mean.sd_questions, is_wide=True, heading="SD of questions",
          meaning="Standard deviation of the expected scores of instances."),
    Field("sd_samples", lambda one: one.mean.sd_samples, is_wide=True, heading="SD of samples",
          meaning="Standard deviation of the samples of one instance."),
    list_field("pass", PASS_FIELDS, lambda one: one.passes),
    Field("pass_at_k", lambda one: one.passes[-1].any_right if one.passes else None, kind="interval", in_json=False,
          missing="no instance has k samples", heading="pass@k",
          text=lambda one: _pass_text(one, all_right=False), meaning="At least one of k samples is right."),
    Field("pass_hat_k", lambda one: one.passes[-1].all_right if one.passes else None, kind="interval", in_json=False,
          missing="no instance has k samples", heading="pass^k",
          text=lambda one: _pass_text(one, all_right=True), meaning="All of k samples are right."),
    Field("vote", lambda one: one.agreement and one.agreement.vote, kind="interval", missing="no two answers",
          heading="Vote", drop=1, meaning="Mean score of the most frequent answer; several count by their mean, and "
          "unreadable completions do not vote."),
    Field("n_tied", lambda one: one.agreement and one.agreement.n_tied, kind="whole number", missing="no two answers",
          is_wide=True, heading="Tied votes"),
    Field("consistency", lambda one: one.agreement and one.agreement.consistency, kind="interval",
          missing="no two answers", heading="Consistency", meaning="Share of pairs of samples with the same answer."),
    Field("flip_rate", lambda one: one.agreement and one.agreement.flip_rate, kind="interval",
          missing="no two answers", heading="Flips",
          meaning="Share of instances whose samples do not all have the same answer."),
    Field("reads_answers", lambda one: one.reads_answers, kind="true or false",
          meaning="False if the metric reads no answer: then samples agree if both are right or both are wrong."),
    Field("is_pooled", lambda one: one.is_pooled, kind="true or false",
          meaning="True if the leaderboard shows another number than the mean of scores, such as balanced accuracy."),
]  # fmt: skip
"""The samples of one model on one benchmark."""


def _pass_text(one: RepeatedResult, *, all_right: bool) -> str | None:
    if not one.passes:
        return None
    last = one.passes[-1]
    return f"{estimate_text(last.all_right if all_right else last.any_right)}, k = {last.k}"


POSITION_FIELDS: list[Field[PositionResult]] = [
    _MODEL,
    _BENCHMARK,
    Field("n_orders", lambda one: one.n_orders, kind="whole number", heading="Orders", drop=1),
    Field("n", lambda one: one.accuracy.n, kind="whole number", heading="n", drop=2, meaning="Instances."),
    Field("accuracy", lambda one: one.accuracy, kind="interval", heading="Mean over orders",
          meaning="Mean score over all orders of the options."),
    Field("all_right", lambda one: one.all_right, kind="interval", heading="Right in all",
          meaning="Share of instances that are right in every order."),
    Field("excess", lambda one: list(one.excess), kind="object", schema=list_of({"type": "number"}),
          meaning="By place: share of answers that chose it, beyond the share that content explains."),
    Field("spread", lambda one: one.spread, kind="interval", heading="Position bias",
          meaning="Largest minus smallest excess of a place. The interval begins at 0 unless the test finds a bias."),
    Field("preferred", lambda one: one.preferred if one.is_biased else None, kind="text", missing="no bias found",
          heading="Prefers"),
    Field("p_value", lambda one: one.p_value, kind="p-value", heading="p",
          meaning="Permutation test of a preference for places."),
]  # fmt: skip
"""The orders of options of one model on one benchmark."""

PROMPT_FIELDS: list[Field[PromptSensitivity]] = [
    _MODEL,
    _BENCHMARK,
    Field("means", lambda one: dict(one.means), kind="object", schema=map_of(NUMBER), heading="Means",
          text=lambda one: ", ".join(f"{prompt} {decimal(mean)}" for prompt, mean in one.means.items()),
          meaning="By prompt: mean score, over the instances that have a score under all of them."),
    Field("n", lambda one: one.range.n, kind="whole number", heading="n", meaning="These instances.", drop=1),
    Field("range", lambda one: one.range, kind="interval", heading="Range",
          meaning="Highest mean minus lowest mean."),
    Field("range_by_chance", lambda one: one.range_by_chance, heading="By chance",
          meaning="Range to expect if all prompts were equal."),
    Field("best", lambda one: one.best, kind="text", heading="Best"),
]  # fmt: skip
"""The prompts of one model on one benchmark."""

RANK_FIELDS: list[Field[RankSensitivity]] = [
    Field("benchmark", lambda one: one.benchmark, kind="text", heading="Benchmark", text=lambda one: one.title),
    Field("models", lambda one: one.models, kind="texts", heading="Models", text=lambda one: len(one.models)),
    Field("prompts", lambda one: one.prompts, kind="texts", heading="Prompts", text=lambda one: ", ".join(one.prompts)),
    Field("kendalls_w", lambda one: one.kendalls_w, kind="interval", heading="Kendall's W",
          meaning="Concordance of the ranks: 1 if all prompts give the same ranks."),
    Field("n_pairs", lambda one: one.n_pairs, kind="whole number", heading="Pairs", meaning="Pairs of models."),
    Field("n_same_order", lambda one: one.n_same_order, kind="whole number", heading="Keep their order",
          meaning="Pairs with the same order under every prompt in at least 95% of draws of the instances."),
]  # fmt: skip
"""The ranks of models on one benchmark under several prompts."""

THRESHOLD_FIELDS: list[Field[ThresholdResult]] = [
    Field("threshold", lambda one: one.threshold.key, kind="text"),
    Field("title", lambda one: one.threshold.title, kind="text", heading="Measure"),
    Field("source", lambda one: one.threshold.source, kind="text", heading="Source", is_wide=True,
          meaning="Use case in CHAI's responsible-ai-content."),
    Field("required", lambda one: one.threshold.shown, kind="text", heading="Threshold"),
    Field("limit", lambda one: one.threshold.limit),
    Field("model", lambda one: one.model or None, kind="text", missing="not measured", heading="Model"),
    Field("subject", lambda one: one.subject or None, kind="text", missing="about all", heading="Of"),
    Field("value", lambda one: one.found, kind="interval", missing="not measured", heading="Value",
          text=lambda one: _value_text(one)),
    Field("n", lambda one: one.found and one.found.n, kind="whole number", missing="not measured", heading="n", drop=1),
    Field("verdict", lambda one: one.verdict, kind="text", missing="not measured", heading="Verdict",
          text=lambda one: one.verdict or "not measured"),
    Field("n_needed", lambda one: one.n_needed, kind="whole number", missing="decided or not measured",
          heading="Needs n", hide_empty=True, meaning="Instances that would decide, if the value stayed as it is."),
    Field("measured", lambda one: one.threshold.measured, kind="text", is_wide=True, heading="Measured as"),
    Field("command", lambda one: None if one.model else one.threshold.command, kind="text", missing="measured",
          is_wide=True, heading="Command", meaning="Command that measures it."),
]  # fmt: skip
"""A threshold and a model."""


def _value_text(one: ThresholdResult) -> str | None:
    if one.found is None:
        return None
    return with_interval(*one.found[:3], places=4 if one.threshold.limit < 0.001 else 3)


def tables(report: RobustnessReport) -> dict[str, tuple[str, list[Field[Any]], Sequence[Any]]]:
    """Return name -> caption, fields and rows of each table that is not empty."""
    found: dict[str, tuple[str, list[Field[Any]], Sequence[Any]]] = {
        "thresholds": (
            "Thresholds of the Coalition for Health AI",
            THRESHOLD_FIELDS,
            [one for one in report.thresholds if one.model],
        ),
        "perturbations": (f"Perturbations, margin {report.margin:g}", PERTURBATION_FIELDS, report.perturbations),
        "repeats": ("Repeats", REPEAT_FIELDS, report.repeats),
        "positions": ("Order of options", POSITION_FIELDS, report.positions),
        "prompts": ("Prompts", PROMPT_FIELDS, report.prompts),
        "ranks": ("Ranks under several prompts", RANK_FIELDS, report.ranks),
    }
    return {name: one for name, one in found.items() if one[2]}


def to_text(report: RobustnessReport, names: Sequence[str], format: str) -> str:
    """Return tables in a format, with their captions, one after the other."""
    chosen = [one for name, one in tables(report).items() if name in names]
    return "\n".join(fields_table(fields, rows, format=format, caption=caption) for caption, fields, rows in chosen)


def not_measured(report: RobustnessReport) -> list[str]:
    """Return the thresholds that the store cannot answer, with the commands that would measure them."""
    return [
        f"Not measured: {one.threshold.title}, {one.threshold.shown}. It needs {one.threshold.needs}: "
        f"`{one.threshold.command}`."
        for one in report.thresholds
        if not one.model
    ]


_JSON: list[Field[RobustnessReport]] = [
    Field("margin", lambda report: report.margin),
    Field("verdict", verdict, kind="texts"),
    list_field("perturbations", PERTURBATION_FIELDS, lambda report: report.perturbations),
    list_field("repeats", REPEAT_FIELDS, lambda report: report.repeats),
    list_field("positions", POSITION_FIELDS, lambda report: report.positions),
    list_field("prompts", PROMPT_FIELDS, lambda report: report.prompts),
    list_field("ranks", RANK_FIELDS, lambda report: report.ranks),
    list_field("thresholds", THRESHOLD_FIELDS, lambda report: report.thresholds),
]
"""Keys of `medhelm robustness --json`."""


def as_json(report: RobustnessReport) -> dict[str, Any]:
    """Return the output of `medhelm robustness --json`."""
    return fields_json(_JSON, report)


# --- section ----------------------------------------------------------------------------------------------------------


def section(stores: Sequence[Path], options: BoardOptions) -> ResultSection | None:
    """Return the section for reports, cards and the site; None if nothing was asked in other ways."""
    families = find_families(stores, options.wanted, tier=options.tier)
    if not any(one.repeats or one.perturbed or one.plain.run.is_variant for one in families):
        return None  # before any record is read
    report = with_short_names(_report_of(families))
    found = []
    for caption, fields, rows in tables(report).values():
        cells, headers, dropped = table_of(fields, rows)
        left_out = dropped[: max(len(headers) - MOST_COLUMNS, 0)]
        kept = [place for place, heading in enumerate(headers) if heading not in left_out]
        cells = [[row[place] for place in kept] for row in cells]
        found.append(SectionTable(caption=caption, headers=[headers[place] for place in kept], rows=cells))
    return ResultSection(
        key="robustness",
        title="Robustness",
        sentences=verdict(report),
        tables=found,
        notes=not_measured(report),
    )
