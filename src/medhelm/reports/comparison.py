"""Comparisons of models as tables, as JSON and in sentences: two models, or every pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from medhelm.analysis.comparison.pairs import (
    AdjustedDifference,
    ComparedBenchmark,
    ComparedPairs,
    Comparison,
    ModelPair,
    Unit,
)
from medhelm.analysis.comparison.power import DetectableEffect
from medhelm.analysis.comparison.significance import LEVEL, Adjustment
from medhelm.analysis.leaderboard.cells import Column
from medhelm.domain.text import listed, plural
from medhelm.reports.formats.fields import Field, fields_json, fields_table, flat_interval, list_field, object_field
from medhelm.reports.formats.json import LEFT_OUT, estimate_json, left_out_json, probability, select
from medhelm.reports.formats.tables import (
    Columns,
    ObjectView,
    Value,
    decimal,
    estimate_numbers,
    estimate_text,
    p_text,
    records_as_columns,
    render,
    shows_all,
)

ADJUSTED: dict[Adjustment, str] = {"holm": "Holm", "bh": "Benjamini and Hochberg"}
"""Adjustment -> its name for people."""

WHAT_COUNTS: dict[Unit, str] = {
    "instances": "A difference counts if swapping the two models' answers at random would rarely produce one as large. "
    "It may still be small.",
    "benchmarks": "A difference counts if swapping the two models' scores on benchmarks at random would rarely produce "
    "one as large. It may still be small.",
}
"""Unit of the overall tests -> what a significant difference is, for the foot of tables."""


def finding(comparison: Comparison) -> str:
    """Return in a few words which of the two models is better overall, for a cell of a table."""
    if found := comparison.pair.direction(comparison.adjustment):
        return "first is better" if found > 0 else "second is better"
    is_lost = comparison.pair.is_lost_with_missing(comparison.adjustment)
    return "depends on missing answers" if is_lost else "cannot be separated"


ADJUSTED_AVERAGES = (
    "Not every model has every benchmark. Macro averages are adjusted for this, as on the leaderboard, so their "
    "difference is not the mean of the differences on single benchmarks."
)
"""Remark on a difference of macro averages of models that lack benchmarks."""

ROUNDING = 5e-4
"""Largest deviation of a mean that three decimals do not show."""


def _is_adjusted(pair: ModelPair, columns: Sequence[Column]) -> bool:
    """Return whether the difference of macro averages is not the mean of the differences on the shared benchmarks."""
    tests = [(column.weight, pair.benchmarks.get(column.benchmark)) for column in columns]
    known = [(weight, test.difference.value) for weight, test in tests if test is not None]
    if pair.macro_average is None or len(known) != pair.n_benchmarks:
        return False
    mean = sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)
    return abs(mean - pair.macro_average.difference.value) > ROUNDING


BENCHMARK_FIELDS: list[Field[ComparedBenchmark]] = [
    Field("id", lambda one: one.column.benchmark, kind="text", heading="Benchmark", text=lambda one: one.column.title),
    Field("metric", lambda one: one.column.metric, kind="text",
          heading="Metric", text=lambda one: one.column.metric_title or one.column.metric, drop=2),
    *flat_interval("difference", lambda one: one.difference, "low high n n_left_out n_clusters", heading="Difference"),
    Field("instances", lambda one: one.difference.n, in_json=False, heading="Instances", drop=3),
    Field("p_value", lambda one: one.difference.p_value, kind="p-value",
          heading="p", text=lambda one: p_text(one.difference.p_value), is_wide=True, drop=1),
    Field("p_adjusted", lambda one: one.p_adjusted_alone, kind="p-value"),
    Field("p_adjusted_all_pairs", lambda one: one.p_adjusted, kind="p-value",
          heading="p adjusted", text=lambda one: p_text(one.p_adjusted)),
]  # fmt: skip
"""Two models on a benchmark."""

OVERALL_FIELDS: list[Field[Comparison]] = [
    *flat_interval("difference", lambda both: both.macro_average.difference),
    Field("p_value", lambda both: both.macro_average.difference.p_value, kind="p-value"),
    Field("n_benchmarks", lambda both: both.n_benchmarks, kind="whole number"),
    Field("unit", lambda both: both.unit, kind="text"),
]
"""Two models by macro averages."""

WIN_SHARE_FIELDS: list[Field[Comparison]] = [
    *flat_interval("difference", lambda both: both.win_share.difference),
    Field("p_value", lambda both: both.win_share.difference.p_value, kind="p-value"),
    Field("p_adjusted", lambda both: both.win_share.p_adjusted(both.adjustment), kind="p-value"),
    Field("separated", lambda both: both.pair.direction(both.adjustment) != 0, kind="true or false"),
    Field("n_models", lambda both: both.n_models, kind="whole number"),
]
"""Two models by win shares, the test that decides on the leaderboard."""

FIELDS: list[Field[Comparison]] = [
    Field("verdict", lambda both: verdict(both)[:1], kind="texts"),
    Field("first", lambda both: both.first, kind="text"),
    Field("second", lambda both: both.second, kind="text"),
    Field("adjustment", lambda both: both.adjustment, kind="text"),
    list_field("benchmarks", BENCHMARK_FIELDS, lambda both: both.benchmarks),
    object_field("overall", OVERALL_FIELDS, lambda both: both),
    object_field("win_share", WIN_SHARE_FIELDS, lambda both: both),
    Field("left_out", lambda both: left_out_json(both.left_out), kind="object", schema=LEFT_OUT),
]
"""Two models; differences are first minus second, on a scale of 0 to 1."""


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the output of `medhelm compare A B --json`."""
    return fields_json(FIELDS, comparison)


def to_table(comparison: Comparison, format: str = "table") -> str:
    """Return one row per benchmark and one overall; `--wide` and CSV add unadjusted p-values and the win share."""
    overall = [
        ComparedBenchmark(
            column=Column(benchmark="", title=name, category="", subcategory="", metric=""),
            difference=test.difference,
            p_adjusted=test.p_adjusted(comparison.adjustment),
            p_adjusted_alone=test.p_adjusted(comparison.adjustment),
        )
        for name, test in overall_tests(comparison).items()
    ]
    caption = (
        f"{comparison.first} minus {comparison.second}, on a scale from 0 (worst) to 1 (best); p adjusted for all "
        f"pairs of {comparison.n_models} models, on single benchmarks also for all benchmarks "
        f"({ADJUSTED[comparison.adjustment]})"
    )
    rows = [*comparison.benchmarks, *(overall if shows_all(format) else overall[:1])]
    return fields_table(BENCHMARK_FIELDS, rows, format=format, caption=caption)


def overall_tests(comparison: Comparison) -> dict[str, AdjustedDifference]:
    """Return the tests over all benchmarks by name; on a single benchmark that of its mean score."""
    if comparison.n_benchmarks == 1:
        return {"Mean score": comparison.macro_average}
    return {"Macro average": comparison.macro_average, "Win share": comparison.win_share}


def verdict(comparison: Comparison) -> list[str]:
    """Return whether the two models differ, what a difference is, and how averages are adjusted."""
    first, second, pair = comparison.first, comparison.second, comparison.pair
    found = pair.direction(comparison.adjustment)
    p = _equals(p_text(pair.p_adjusted(comparison.adjustment)))
    among = f", adjusted for all pairs of {comparison.n_models} models" if comparison.n_models > 2 else ""
    means, shares = comparison.macro_average.difference, comparison.win_share.difference
    higher, lower = (first, second) if means.value >= 0 else (second, first)
    if found:
        better, worse = (first, second) if found > 0 else (second, first)
        text = f"{better} is significantly better than {worse} (p {p}{among})."
    elif means.value * shares.value < 0:
        text = (
            f"{first} and {second} cannot be separated: {higher} has the higher average, {lower} the higher win share."
        )
    elif pair.is_lost_with_missing(comparison.adjustment):
        missing = plural(means.n_left_out, "question")
        text = (
            f"{higher} may be better than {lower}, but not if the missing answers are counted against it ({missing}). "
            "Run again to get them."
        )
    else:
        text = f"{first} and {second} cannot be separated (p {p}{among})."
    adjusted = _is_adjusted(pair, [one.column for one in comparison.benchmarks])
    return [text, WHAT_COUNTS[comparison.unit], *([ADJUSTED_AVERAGES] if adjusted else [])]


def _equals(p: str | None) -> str:
    return "unknown" if p is None else p if p.startswith("<") else f"= {p}"


# --- every pair -------------------------------------------------------------------------------------------------------

By = Literal["overall", "benchmark", "test"]
"""Meaning of the rows: pairs, benchmarks, or pairs on each benchmark."""

NAMES = 12
"""Most benchmarks named in one sentence."""


def pairs_as_json(compared: ComparedPairs) -> dict[str, Any]:
    """Return the output of `medhelm compare --json`; differences are first minus second, on a scale of 0 to 1."""
    pairs, way = compared.pairs, compared.adjustment
    return {
        "verdict": pairs_verdict(compared),
        **select(compared, "models n_models n_baselines"),
        "benchmarks": [
            {
                **select(column, "id=benchmark title metric"),
                **_counts_json(_tests_on(compared, column.benchmark), way),
                "mde": estimate_json(effects and effects.corrected, "value sd n_pairs"),
                "mde_published": estimate_json(effects and effects.published, "value sd n_pairs"),
            }
            for column in compared.all_pairs.columns
            for effects in [compared.effects.get(column.benchmark)]
        ],
        "pairs": [
            {
                **select(pair, "first second unit n_benchmarks"),
                "separated": pair.direction(way) != 0,
                "macro_average": _test_json(pair.macro_average, way),
                "win_share": _test_json(pair.win_share, way),
                "win_rate": _test_json(_win_rate_test(pair), way),
                "survives_failures": pair.survives_failures,
                "benchmarks": {name: _test_json(test, way) for name, test in pair.benchmarks.items()},
            }
            for pair in pairs
        ],
        "told_apart": {
            "win_share": _counts_json([pair.win_share for pair in pairs], way),
            "win_rate": _counts_json([_win_rate_test(pair) for pair in pairs], way),
            "macro_average": _counts_json([pair.macro_average for pair in pairs], way),
            "benchmarks": _counts_json([test for pair in pairs for test in pair.benchmarks.values()], way),
        },
        "adjustment": way,
        "level": LEVEL,
        **select(compared, "suite scoring tier"),
        "left_out": left_out_json(compared.left_out),
        "remarks": [*in_words(compared), *map(str, compared.remarks)],
    }


def pairs_to_table(compared: ComparedPairs, *, by: str = "overall", format: str = "table") -> str:
    """Return a table of pairs, of benchmarks, or of pairs on each benchmark; see `By`."""
    if by == "benchmark":
        return _benchmark_table(compared, format)
    if by == "test":
        return _test_table(compared, format)
    is_long, way = shows_all(format), compared.adjustment
    names = ["win share", "macro average"] if is_long else ["macro average"]
    headers = ["Model", "Compared with", "Benchmarks"]
    for name in names:
        headers += [*_interval_headers(f"{name} difference", format), "p adjusted"]
    rows: list[list[Value]] = []
    for pair in compared.pairs:
        tests = dict(zip(names, [pair.win_share, pair.macro_average][-len(names) :], strict=True))
        significant = ", ".join(name for name, test in tests.items() if _is_significant(test, way))
        cells = [cell for test in tests.values() for cell in _test_cells(test, way, format)]
        rows.append([pair.first, pair.second, pair.n_benchmarks, *cells, *([significant or None] if is_long else [])])
    caption = f"First minus second, on a scale from 0 (worst) to 1 (best); {_adjusted_for(compared)}"
    headers += ["Significant by"] if is_long else []
    return render(rows, headers, format=format, caption=caption, drop=() if is_long else ("Benchmarks",))


def _adjusted_for(compared: ComparedPairs) -> str:
    """Return what p-values are adjusted for, for captions."""
    text = f"p adjusted for all pairs of {plural(compared.n_models, 'model')}"
    if compared.n_baselines:
        text += f", pairs with a baseline for all pairs of these and {plural(compared.n_baselines, 'baseline')}"
    return f"{text} ({ADJUSTED[compared.adjustment]})"


def pairs_verdict(compared: ComparedPairs) -> list[str]:
    """Return how many pairs of models differ, and which models the first one is better than."""
    tested = [pair for pair in compared.pairs if pair.macro_average is not None]
    if not tested:
        return []
    found = {(pair.first, pair.second): pair.direction(compared.adjustment) for pair in tested}
    n_models, differ = len(compared.models), sum(one != 0 for one in found.values())
    if not differ:
        subject = f"No two of the {n_models} models" if n_models > 2 else "The two models do not"
        return [f"{subject} differ significantly."]
    sentences = []
    if len(tested) > 1:
        adjusted = ADJUSTED[compared.adjustment]
        sentences.append(f"{differ} of {len(tested)} pairs of models differ significantly ({adjusted}).")
    return [*sentences, _first_model_sentence(compared, found)]


def _first_model_sentence(compared: ComparedPairs, found: Mapping[tuple[str, str], int]) -> str:
    """Return which models the first of the shown ones differs from. `found`: pair -> its direction."""
    first, *others = compared.models
    way = {name: found.get((first, name), -found.get((name, first), 0)) for name in others}
    tested = [name for name in others if (first, name) in found or (name, first) in found]
    better, worse = ([name for name in tested if way[name] == sign] for sign in (-1, 1))
    rest, apart = [name for name in tested if not way[name]], [name for name in others if name not in tested]
    is_whole = len(compared.models) == compared.n_models and not compared.n_baselines
    place = f"{first} ranks {'first' if is_whole else 'highest of these'}"
    if better:
        return f"{place}, but {listed(better, NAMES)} {'is' if len(better) == 1 else 'are'} significantly better."
    if not worse:
        return f"{place}, but is not significantly better than any other of these models."
    whom = "every other model" if len(worse) == len(others) > 1 and is_whole else listed(worse, NAMES)
    text = f"{place} and is significantly better than {whom}"
    text += f", but cannot be separated from {listed(rest, NAMES)}" if rest else ""
    return f"{text}{f'; it shares no benchmark with {listed(apart, NAMES)}' if apart else ''}."


def in_words(compared: ComparedPairs) -> list[str]:
    """Return a summary of the tests in sentences."""
    pairs = [pair for pair in compared.pairs if pair.macro_average is not None]
    if not pairs:
        return []
    sentences = []
    if fragile := [pair for pair in pairs if pair.is_lost_with_missing(compared.adjustment)]:
        sentences.append(
            "The difference of these models is significant only if missing answers are ignored: "
            f"{_named_pairs(fragile)}. Run again to get them."
        )
    if single := [test for pair in pairs for test in pair.benchmarks.values()]:
        differ = _count_significant(single, compared.adjustment)
        verb = "is" if differ == 1 else "are"
        text = f"{differ:,} of {len(single):,} differences on single benchmarks {verb} significant"
        text = text if differ else "No difference on a single benchmark is significant"
        sentences.append(f"{text} ({ADJUSTED[compared.adjustment]}).")
        columns = compared.all_pairs.columns
        tests = {column.title: _tests_on(compared, column.benchmark) for column in columns}
        tied = [title for title, own in tests.items() if own and not _count_significant(own, compared.adjustment)]
        sentences += [f"Benchmarks without a significant difference: {listed(tied, NAMES)}."] if tied and differ else []
    if over := [pair for pair in pairs if pair.unit == "benchmarks"]:
        whose = "all pairs" if len(over) == len(pairs) else f"{len(over)} of {len(pairs)} pairs"
        sentences.append(
            f"Scores of instances are unknown for {whose}: the tests compare benchmark means instead. This shows how "
            "much the choice of benchmarks matters; it says nothing about a single benchmark."
        )
    if alone := [pair for pair in compared.pairs if pair.macro_average is None]:
        sentences.append(f"No benchmark in common: {_named_pairs(alone)}.")
    if any(_is_adjusted(pair, compared.all_pairs.columns) for pair in pairs):
        sentences.append(ADJUSTED_AVERAGES)
    return [*sentences, *(WHAT_COUNTS[unit] for unit in dict.fromkeys(pair.unit for pair in pairs))]


def _named_pairs(pairs: Sequence[ModelPair]) -> str:
    """Return the names of pairs for a sentence, cut after `NAMES`."""
    named = "; ".join(f"{pair.first} and {pair.second}" for pair in pairs[:NAMES])
    return named if len(pairs) <= NAMES else f"{named}; and {len(pairs) - NAMES:,} more pairs"


def _win_rate_test(pair: ModelPair) -> AdjustedDifference | None:
    """Return the difference of win rates, which is tested over benchmarks only: there it is that of win shares."""
    return pair.win_share if pair.unit == "benchmarks" else None


def _benchmark_table(compared: ComparedPairs, format: str) -> str:
    headers = ["Benchmark", "Metric", "Instances", "Pairs", "Significant", "Adjusted", "mde", "mde, published"]
    rows: list[list[Value]] = []
    for column in compared.all_pairs.columns:
        counts = _counts_json(_tests_on(compared, column.benchmark), compared.adjustment)
        significant = [counts["n_unadjusted"], counts["n_adjusted"]] if counts["n_pairs"] else [None, None]
        effects = compared.effects.get(column.benchmark)
        mde = [_effect_text(effects.corrected), _effect_text(effects.published)] if effects else [None, None]
        n = effects.n if effects else None
        rows.append([column.title, column.metric_title or column.metric, n, counts["n_pairs"], *significant, *mde])
    caption = (
        "Pairs of models that differ at the 5% level, before and after adjustment over all pairs and benchmarks "
        f"({ADJUSTED[compared.adjustment]}); mde: minimum detectable effect, mean and SD over pairs"
    )
    return render(rows, headers, format=format, caption=caption, drop=("mde, published", "Metric", "Pairs"))


def _test_table(compared: ComparedPairs, format: str) -> str:
    headers = ["Benchmark", "Model", "Compared with", *_interval_headers("difference", format)]
    rows: list[list[Value]] = []
    for column in compared.all_pairs.columns:
        for pair in compared.pairs:
            if test := pair.benchmarks.get(column.benchmark):
                *difference, p = _test_cells(test, compared.adjustment, format)
                numbers = [*difference, test.difference.n, _p_cell(test.difference.p_value, format), p]
                rows.append([column.title, pair.first, pair.second, *numbers])
    caption = (
        "First minus second, on a scale from 0 (worst) to 1 (best); p adjusted over all pairs and benchmarks "
        f"({ADJUSTED[compared.adjustment]})"
    )
    headers += ["Instances", "p", "p adjusted"]
    return render(rows, headers, format=format, caption=caption, drop=("p", "Instances"))


def _tests_on(compared: ComparedPairs, benchmark: str) -> list[AdjustedDifference]:
    """Return the tests of all pairs on one benchmark."""
    return [pair.benchmarks[benchmark] for pair in compared.pairs if benchmark in pair.benchmarks]


def _is_significant(test: AdjustedDifference | None, adjustment: Adjustment) -> bool:
    return test is not None and test.p_adjusted(adjustment) <= LEVEL


def _count_significant(tests: Sequence[AdjustedDifference | None], adjustment: Adjustment) -> int:
    """Return the number of significant tests after adjustment."""
    return sum(_is_significant(test, adjustment) for test in tests)


def _counts_json(tests: Sequence[AdjustedDifference | None], adjustment: Adjustment) -> dict[str, int]:
    known = [test for test in tests if test is not None]
    return {
        "n_pairs": len(known),
        "n_unadjusted": sum(test.difference.p_value <= LEVEL for test in known),
        "n_adjusted": _count_significant(known, adjustment),
    }


def _test_json(test: AdjustedDifference | None, adjustment: Adjustment) -> dict[str, Any] | None:
    if test is None:
        return None
    return {
        **select(test.difference, "difference=value low high n n_left_out n_clusters", rounded=True),
        "p_value": probability(test.difference.p_value),
        "p_holm": probability(test.p_holm),
        "p_bh": probability(test.p_bh),
        "told_apart": _is_significant(test, adjustment),
    }


def _interval_headers(name: str, format: str) -> list[str]:
    """Return the headings of a difference; in CSV the ends of the interval have their own columns."""
    return [name.capitalize(), f"{name} low", f"{name} high"] if format == "csv" else [name.capitalize()]


def _test_cells(test: AdjustedDifference | None, adjustment: Adjustment, format: str) -> list[Value]:
    """Return the cells under `_interval_headers`, and the adjusted p-value."""
    found = test.difference if test else None
    difference = estimate_numbers(found) if format == "csv" else [estimate_text(found)]
    return [*difference, _p_cell(test.p_adjusted(adjustment), format) if test else None]


def _p_cell(p: float, format: str) -> Value:
    """Return a p-value for the format: rounded for people, in full for CSV."""
    return probability(p) if format == "csv" else p_text(p)


def _effect_text(effect: DetectableEffect | None) -> str | None:
    return f"{decimal(effect.value)} ± {decimal(effect.sd)}" if effect else None


# --- Python and notebooks ---------------------------------------------------------------------------------------------


def _pair_columns(compared: ComparedPairs, by: str) -> Columns:
    """Return one row per test: win share, macro average, or benchmark of a pair."""
    rows = [
        {"first": pair["first"], "second": pair["second"], "test": name, **test}
        for pair in pairs_as_json(compared)["pairs"]
        for name, test in [("win share", pair["win_share"]), ("macro average", pair["macro_average"]),
                           *pair["benchmarks"].items()]
        if test is not None
    ]  # fmt: skip
    return records_as_columns(rows, by)


VIEW: ObjectView[Comparison] = ObjectView(
    summary=lambda comparison: verdict(comparison)[0],
    table=to_table,
    as_json=as_json,
    columns=lambda comparison, by: records_as_columns(as_json(comparison)["benchmarks"], by),
    verdict=lambda comparison: verdict(comparison)[:1],
    remarks=lambda comparison: [*verdict(comparison)[1:], *comparison.remarks],
)
"""Two models in Python."""

PAIRS_VIEW: ObjectView[ComparedPairs] = ObjectView(
    summary=lambda compared: " ".join(pairs_verdict(compared)),
    table=lambda compared, format: pairs_to_table(compared, format=format),
    as_json=pairs_as_json,
    columns=_pair_columns,
    verdict=pairs_verdict,
    remarks=lambda compared: [*in_words(compared), *compared.remarks],
)
"""Every pair of models in Python."""
