"""Comparisons of models as tables, as JSON and in sentences: two models, or every pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from medhelm.domain.text import listed
from medhelm.reports.formats.json_output import estimate_json, left_out_json, probability, select
from medhelm.reports.formats.tables import (
    Columns,
    ObjectView,
    Value,
    decimal,
    estimate_numbers,
    estimate_text,
    records_as_columns,
    render,
)

if TYPE_CHECKING:
    from medhelm.analysis.comparison.all_pairs import AdjustedDifference, ComparedPairs, ModelPair
    from medhelm.analysis.comparison.minimum_detectable_effect import DetectableEffect
    from medhelm.analysis.comparison.multiple_testing import Adjustment
    from medhelm.analysis.comparison.paired import PairedDifference
    from medhelm.analysis.comparison.two_models import Comparison

ADJUSTED: dict[Adjustment, str] = {"holm": "Holm", "bh": "Benjamini and Hochberg"}
"""Adjustment -> its name for people."""

LEVEL = 0.05
"""Significance level."""

NULL_HYPOTHESIS = (
    "The p-values test whether, on each question, each model could just as well have given the other's answer; "
    "they say nothing about the size of a difference."
)
"""The null hypothesis, for the foot of tables."""

SMALLEST = 0.0001
"""P-values below this are shown as `<0.0001`."""


def p_text(p: float | None) -> str | None:
    """Return a p-value for people: four decimals.

    >>> p_text(0.04), p_text(1e-9)
    ('0.0400', '<0.0001')
    """
    return f"<{SMALLEST}" if p is not None and p < SMALLEST else decimal(p, 4)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the output of `medhelm compare A B --json`; differences are first minus second, on a scale of 0 to 1."""
    return {
        "verdict": verdict(comparison)[:1],
        **select(comparison, "first second adjustment"),
        "benchmarks": [
            {
                **select(compared, "id=column.benchmark metric=column.metric"),
                **_difference_json(compared.difference),
                "p_adjusted": probability(compared.p_adjusted),
            }
            for compared in comparison.benchmarks
        ],
        "overall": {
            **select(comparison.macro_average.difference, "difference=value low high", rounded=True),
            "p_value": probability(comparison.macro_average.difference.p_value),
            **select(comparison, "n_benchmarks unit"),
        },
        "win_share": {**_overall_json(comparison.win_share, comparison.adjustment), "n_models": comparison.n_models},
        "left_out": left_out_json(comparison.left_out),
    }


def _overall_json(test: AdjustedDifference, adjustment: Adjustment) -> dict[str, Any]:
    """Return the test that decides on the leaderboard."""
    return {
        **select(test.difference, "difference=value low high", rounded=True),
        "p_value": probability(test.difference.p_value),
        "p_adjusted": probability(test.p_adjusted(adjustment)),
        "separated": test.p_adjusted(adjustment) <= LEVEL,
    }


def _difference_json(found: PairedDifference) -> dict[str, Any]:
    names = "difference=value low high n n_left_out n_clusters"
    return {**select(found, names, rounded=True), "p_value": probability(found.p_value)}


def to_table(comparison: Comparison, format: str = "table") -> str:
    """Return one row per benchmark, and one for the mean over benchmarks."""
    headers = ["Benchmark", "Metric", "Difference", "Instances", "p", "p adjusted"]
    rows = [
        [
            compared.column.title,
            compared.column.metric_title or compared.column.metric,
            estimate_text(compared.difference),
            compared.difference.n,
            p_text(compared.difference.p_value),
            p_text(compared.p_adjusted),
        ]
        for compared in comparison.benchmarks
    ]
    for name, test in overall_tests(comparison).items():
        found = test.difference
        adjusted = p_text(test.p_adjusted(comparison.adjustment))
        rows.append([name, "", estimate_text(found), found.n, p_text(found.p_value), adjusted])
    caption = (
        f"{comparison.first} minus {comparison.second}, on a scale from 0 (worst) to 1 (best); p adjusted over the "
        f"benchmarks, and overall over all pairs of {comparison.n_models} models ({ADJUSTED[comparison.adjustment]})"
    )
    return render(rows, headers, format=format, caption=caption, drop=("p", "Metric", "Instances"))


def overall_tests(comparison: Comparison) -> dict[str, AdjustedDifference]:
    """Return the tests over all benchmarks by name; on a single benchmark that of its mean score."""
    if comparison.n_benchmarks == 1:
        return {"Mean score": comparison.win_share}
    return {"Macro average": comparison.macro_average, "Win share": comparison.win_share}


def verdict(comparison: Comparison) -> list[str]:
    """Return whether the two models differ, and what was tested."""
    test = comparison.win_share
    better, worse = comparison.first, comparison.second
    if test.difference.value < 0:
        better, worse = worse, better
    p = p_text(test.p_adjusted(comparison.adjustment))
    among = f", adjusted for all pairs of {comparison.n_models} models" if comparison.n_models > 2 else ""
    if test.p_adjusted(comparison.adjustment) <= LEVEL:
        found = f"{better} is significantly better than {worse} (p {_equals(p)}{among})."
    else:
        found = f"{comparison.first} and {comparison.second} cannot be separated (p {_equals(p)}{among})."
    return [found, NULL_HYPOTHESIS]


def _equals(p: str | None) -> str:
    return p if p is None or p.startswith("<") else f"= {p}"  # type: ignore[return-value]


# --- every pair -------------------------------------------------------------------------------------------------------

By = Literal["overall", "benchmark", "test"]
"""Meaning of the rows: pairs, benchmarks, or pairs on each benchmark."""

AT_LEVEL = "the 5% level"
"""The same as text."""

NAMES = 12
"""Most benchmarks named in one sentence."""


def pairs_as_json(compared: ComparedPairs, adjustment: Adjustment) -> dict[str, Any]:
    """Return the output of `medhelm compare --json`; differences are first minus second, on a scale of 0 to 1."""
    found = compared.all_pairs
    return {
        "verdict": pairs_verdict(compared, adjustment),
        "models": list(found.models),
        "benchmarks": [
            {
                **select(column, "id=benchmark title metric"),
                **_counts_json(_tests_on(compared, column.benchmark), adjustment),
                "mde": _effect_json(compared, column.benchmark, "corrected"),
                "mde_published": _effect_json(compared, column.benchmark, "published"),
            }
            for column in found.columns
        ],
        "pairs": [
            {
                **select(pair, "first second unit n_benchmarks"),
                "macro_average": _test_json(pair.macro_average, adjustment),
                "win_share": _test_json(pair.win_share, adjustment),
                "win_rate": _test_json(_win_rate_test(pair), adjustment),
                "survives_failures": pair.survives_failures,
                "benchmarks": {name: _test_json(test, adjustment) for name, test in pair.benchmarks.items()},
            }
            for pair in found.pairs
        ],
        "told_apart": {
            "win_share": _counts_json([pair.win_share for pair in found.pairs], adjustment),
            "win_rate": _counts_json([_win_rate_test(pair) for pair in found.pairs], adjustment),
            "macro_average": _counts_json([pair.macro_average for pair in found.pairs], adjustment),
            "benchmarks": _counts_json([t for pair in found.pairs for t in pair.benchmarks.values()], adjustment),
        },
        "adjustment": adjustment,
        "level": LEVEL,
        **select(compared, "suite scoring tier"),
        "left_out": left_out_json(compared.left_out),
        "remarks": [*in_words(compared, adjustment), *map(str, compared.remarks)],
    }


def pairs_to_table(
    compared: ComparedPairs, adjustment: Adjustment, *, by: str = "overall", format: str = "table"
) -> str:
    """Return a table of pairs, of benchmarks, or of pairs on each benchmark; see `By`."""
    if by == "benchmark":
        return _benchmark_table(compared, adjustment, format)
    if by == "test":
        return _test_table(compared, adjustment, format)
    headers = ["Model", "Compared with", "Benchmarks", *_interval_headers("win share difference", format), "p adjusted",
               *_interval_headers("macro average difference", format), "p adjusted", "Significant by"]  # fmt: skip
    rows: list[list[Value]] = []
    for pair in compared.all_pairs.pairs:
        tests = {"win share": pair.win_share, "macro average": pair.macro_average}
        significant = [name for name, test in tests.items() if _is_significant(test, adjustment)]
        cells: list[Value] = []
        for test in tests.values():
            cells += [*_interval_cells(test, format), _p_cell(test.p_adjusted(adjustment), format) if test else None]
        rows.append([pair.first, pair.second, pair.n_benchmarks, *cells, ", ".join(significant) or None])
    caption = (
        f"First minus second, on a scale from 0 (worst) to 1 (best); p adjusted over all pairs ({ADJUSTED[adjustment]})"
    )
    return render(
        rows,
        headers,
        format=format,
        caption=caption,
        drop=("Benchmarks", "p adjusted", "Macro average difference", "Significant by"),
    )


def pairs_verdict(compared: ComparedPairs, adjustment: Adjustment) -> list[str]:
    """Return how many pairs of models differ, and which models the first cannot be separated from."""
    found = compared.all_pairs
    tests = [pair.win_share for pair in found.pairs if pair.win_share is not None]
    if not tests:
        return []
    differ = _count_significant(tests, adjustment)
    if not differ:
        return [f"No two of the {len(found.models)} models differ significantly."]
    first = found.models[0]
    pairs = {pair.second: pair.win_share for pair in found.pairs if pair.first == first}
    worse = [
        name for name, test in pairs.items() if test and _is_significant(test, adjustment) and test.difference.value > 0
    ]
    rest = [name for name in pairs if name not in worse]
    sentences = []
    if len(tests) > 1:
        sentences.append(f"{differ} of {len(tests)} pairs of models differ significantly ({ADJUSTED[adjustment]}).")
    if worse:
        whom = "every other model" if not rest and len(worse) > 1 else listed(worse, NAMES)
        but = f", but cannot be separated from {listed(rest, NAMES)}" if rest else ""
        sentences.append(f"{first} ranks first and is significantly better than {whom}{but}.")
    else:
        sentences.append(f"{first} ranks first, but is not significantly better than any other model.")
    return sentences


def in_words(compared: ComparedPairs, adjustment: Adjustment) -> list[str]:
    """Return a summary of the tests in sentences."""
    found = compared.all_pairs
    pairs = [pair for pair in found.pairs if pair.macro_average is not None]
    if not pairs:
        return []
    by_kind = {
        "Win share": [pair.win_share for pair in pairs],
        "Macro average": [pair.macro_average for pair in pairs],
    }
    sentences = [f"{kind}: {_count_sentence(tests, 'pair', adjustment)}." for kind, tests in by_kind.items()]
    if single := [test for pair in pairs for test in pair.benchmarks.values()]:
        sentences.append(f"Single benchmarks: {_count_sentence(single, 'pair on a benchmark', adjustment)}.")
        tied = [c.title for c in found.columns if not _count_significant(_tests_on(compared, c.benchmark), adjustment)]
        sentences += [f"Benchmarks without a significant difference: {listed(tied, NAMES)}."] if tied else []
    if over := [pair for pair in pairs if pair.unit == "benchmarks"]:
        whose = "all pairs" if len(over) == len(pairs) else f"{len(over)} of {len(pairs)} pairs"
        sentences.append(
            f"Scores of instances are unknown for {whose}: the tests compare benchmark means instead. This shows how "
            "much the choice of benchmarks matters; it says nothing about a single benchmark."
        )
    if alone := [f"{pair.first} and {pair.second}" for pair in found.pairs if pair.macro_average is None]:
        sentences.append(f"No benchmark in common: {listed(alone, NAMES)}.")
    sentences.append(NULL_HYPOTHESIS)
    return sentences


def _win_rate_test(pair: ModelPair) -> AdjustedDifference | None:
    """Return the difference of win rates, which is tested over benchmarks only: there it is that of win shares."""
    return pair.win_share if pair.unit == "benchmarks" else None


def _benchmark_table(compared: ComparedPairs, adjustment: Adjustment, format: str) -> str:
    headers = ["Benchmark", "Metric", "Instances", "Pairs", "Significant", "Adjusted", "mde", "mde, published"]
    rows: list[list[Value]] = []
    for column in compared.all_pairs.columns:
        tests = _tests_on(compared, column.benchmark)
        effects = compared.effects.get(column.benchmark)
        rows.append(
            [
                column.title,
                column.metric_title or column.metric,
                effects.n if effects else None,
                len(tests),
                sum(test.difference.p_value <= LEVEL for test in tests) if tests else None,
                _count_significant(tests, adjustment) if tests else None,
                _effect_text(effects.corrected if effects else None),
                _effect_text(effects.published if effects else None),
            ]
        )
    caption = (
        f"Pairs of models that differ at {AT_LEVEL}, before and after adjustment over all pairs and "
        f"benchmarks ({ADJUSTED[adjustment]}); mde: minimum detectable effect, mean and SD over pairs"
    )
    return render(rows, headers, format=format, caption=caption, drop=("mde, published", "Metric", "Pairs"))


def _test_table(compared: ComparedPairs, adjustment: Adjustment, format: str) -> str:
    headers = [
        "Benchmark",
        "Model",
        "Compared with",
        *_interval_headers("difference", format),
        "Instances",
        "p",
        "p adjusted",
    ]
    titles = {column.benchmark: column.title for column in compared.all_pairs.columns}
    rows: list[list[Value]] = [
        [
            titles[name],
            pair.first,
            pair.second,
            *_interval_cells(pair.benchmarks[name], format),
            pair.benchmarks[name].difference.n,
            _p_cell(pair.benchmarks[name].difference.p_value, format),
            _p_cell(pair.benchmarks[name].p_adjusted(adjustment), format),
        ]
        for name in titles
        for pair in compared.all_pairs.pairs
        if name in pair.benchmarks
    ]
    caption = (
        "First minus second, on a scale from 0 (worst) to 1 (best); p adjusted over all pairs and benchmarks "
        f"({ADJUSTED[adjustment]})"
    )
    return render(rows, headers, format=format, caption=caption, drop=("p", "Instances"))


def _tests_on(compared: ComparedPairs, benchmark: str) -> list[AdjustedDifference]:
    """Return the tests of all pairs on one benchmark."""
    return [pair.benchmarks[benchmark] for pair in compared.all_pairs.pairs if benchmark in pair.benchmarks]


def _is_significant(test: AdjustedDifference | None, adjustment: Adjustment) -> bool:
    return test is not None and test.p_adjusted(adjustment) <= LEVEL


def _count_significant(tests: Sequence[AdjustedDifference | None], adjustment: Adjustment) -> int:
    """Return the number of significant tests after adjustment."""
    return sum(_is_significant(test, adjustment) for test in tests)


def _count_sentence(tests: Sequence[AdjustedDifference | None], noun: str, adjustment: Adjustment) -> str:
    """Return a sentence such as `22 of 36 pairs differ at the 5% level, 15 after adjustment (Holm)`."""
    known = [test for test in tests if test is not None]
    before, after = sum(test.difference.p_value <= LEVEL for test in known), _count_significant(known, adjustment)
    plural = noun if len(known) == 1 else noun.replace("pair", "pairs", 1)
    verb, kept = "differs" if before == 1 or len(known) == 1 else "differ", "none" if after == 0 else str(after)
    way = ADJUSTED[adjustment]
    return f"{before or 'none'} of {len(known)} {plural} {verb} at {AT_LEVEL}, {kept} after adjustment ({way})"


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
        **_difference_json(test.difference),
        "p_holm": probability(test.p_holm),
        "p_bh": probability(test.p_bh),
        "told_apart": _is_significant(test, adjustment),
    }


def _effect_json(compared: ComparedPairs, benchmark: str, rule: str) -> dict[str, Any] | None:
    effects = compared.effects.get(benchmark)
    return estimate_json(getattr(effects, rule), "value sd n_pairs") if effects else None


def _interval_headers(name: str, format: str) -> list[str]:
    """Return the headings of a difference; in CSV the ends of the interval have their own columns."""
    return [name.capitalize(), f"{name} low", f"{name} high"] if format == "csv" else [name.capitalize()]


def _interval_cells(test: AdjustedDifference | None, format: str) -> list[Value]:
    """Return the cells under `_interval_headers`."""
    found = test.difference if test else None
    return estimate_numbers(found) if format == "csv" else [estimate_text(found)]


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
        for pair in pairs_as_json(compared, compared.adjustment)["pairs"]
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
    summary=lambda compared: " ".join(pairs_verdict(compared, compared.adjustment)),
    table=lambda compared, format: pairs_to_table(compared, compared.adjustment, format=format),
    as_json=lambda compared: pairs_as_json(compared, compared.adjustment),
    columns=_pair_columns,
    verdict=lambda compared: pairs_verdict(compared, compared.adjustment),
    remarks=lambda compared: [*in_words(compared, compared.adjustment), *compared.remarks],
)
"""Every pair of models in Python."""
