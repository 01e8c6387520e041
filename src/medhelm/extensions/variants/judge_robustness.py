"""Reactions of judges to changes that say nothing new, from stored judgments: as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from medhelm.analysis.jury.cells import ALL_JUDGES, JudgedRun
from medhelm.analysis.jury.judges import JudgeAgreement
from medhelm.analysis.jury.robustness import (
    ChangedJudgments,
    JudgeRobustness,
    JudgeShift,
    RankStability,
    judge_robustness,
)
from medhelm.cli.printing import as_shown, print_json, print_remarks
from medhelm.domain import Rule, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.run import JUDGED, Variant
from medhelm.domain.text import listed
from medhelm.errors import UserError
from medhelm.extensions.variants.judging import CHANGES, measuring_variants, repeat_of
from medhelm.results.formats.fields import Field, estimate_json, fields_json, fields_table, table_of
from medhelm.results.formats.tables import (
    HasInterval,
    Value,
    decimal,
    estimate_numbers,
    estimate_text,
    render,
    with_minus,
)
from medhelm.results.jury import SEED, judgment_cells, needed_judges, read_judged_run, select_judged
from medhelm.results.options import BoardOptions, suite_sort_key
from medhelm.results.runs.selection import renamed, short_names
from medhelm.storage.damage import intact_runs
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store

if TYPE_CHECKING:
    from medhelm.results.formats.sections import ResultSection


def measure_robustness(
    stores: Sequence[Path], benchmarks: Sequence[str], options: BoardOptions
) -> tuple[JudgeRobustness, ...]:
    """Compare the judgments of changed completions, and repeated ones, with the plain ones.

    Parameters: benchmarks, empty for all. Raises: UserError if nothing was judged again; as `analyze_judges`.
    """
    choice, _ = select_judged(stores, benchmarks, options)
    by_benchmark: dict[str, dict[str, Run]] = {}
    for model, benchmark in sorted(choice.runs, key=lambda key: (suite_sort_key(key[1]), key)):
        by_benchmark.setdefault(benchmark, {})[model] = choice.runs[model, benchmark]
    again = group_by(_judged_runs(stores), lambda run: run.benchmark)
    measured = [_measured(runs, again[name], options.rule) for name, runs in by_benchmark.items() if name in again]
    if not measured:
        names = " ".join(by_benchmark)
        raise UserError(
            "judges have not graded these completions again. "
            f"`medhelm rejudge {names} --perturb all --repeat 3` has them do so."
        )
    return tuple(measured)


def _judged_runs(stores: Sequence[Path]) -> list[Run]:
    """Return the runs whose completions judges graded again."""
    stored = [run for store in stores for run in load_runs(open_store(store), variants=True)]
    return intact_runs(run for run in stored if run.variant.startswith(JUDGED) and run.is_complete)


def _measured(runs: Mapping[str, Run], again: Sequence[Run], rule: Rule) -> JudgeRobustness:
    """Return the numbers of one benchmark. `runs`: model -> its plain run; `again`: runs that were judged again."""
    latest = max(runs.values(), key=lambda run: run.started)
    judged = latest.jury_result
    assert judged is not None, "only runs with judges are looked at"
    sheets = {
        model: read_judged_run(model, run, rule)
        for model, run in runs.items()
        if run.benchmark_digest == latest.benchmark_digest
    }
    changed = []
    for variant in measuring_variants():
        if own := _judged_again(runs, again, variant, rule):
            name = variant.name.removeprefix(JUDGED)
            changed.append(ChangedJudgments(name, judgment_cells(own, judged, rule), CHANGES[name].text is not None))
    repeats = {repeat.name: repeat for run in again if (repeat := repeat_of(run))}
    sheets_again = [_judged_again(runs, again, repeat, rule) for _, repeat in sorted(repeats.items())]
    return judge_robustness(
        latest.benchmark,
        latest.title,
        judgment_cells(list(sheets.values()), judged, rule),
        changed,
        [judgment_cells(own, judged, rule) for own in sheets_again if own],
        at_least=needed_judges(judged, rule),
        rng=np.random.default_rng(SEED),
    )


def _judged_again(runs: Mapping[str, Run], again: Sequence[Run], variant: Variant, rule: Rule) -> list[JudgedRun]:
    """Return the judgments of each model under a variant; of a judge that graded several times, the latest ones."""
    found = []
    for model, plain in runs.items():
        digest = variant.digest_of(plain.data_digest)
        own = [
            run
            for run in sorted(again, key=lambda run: run.started)
            if (run.model_name, run.setting, run.data_digest) == (plain.model_name, plain.setting, digest)
            and (run.benchmark_digest, run.rubric) == (plain.benchmark_digest, plain.rubric)
        ]
        latest = {judge.name: run for run in own for judge in run.judges}
        judged_by = [(run, {name for name, last in latest.items() if last is run}) for run in own]
        parts = [(read_judged_run(model, run, rule), judges) for run, judges in judged_by if judges]
        found += [_together(parts)] if parts else []
    return found


def _together(parts: Sequence[tuple[JudgedRun, set[str]]]) -> JudgedRun:
    """Return the judgments of several runs on the same completions, of some judges each, as those of one run."""
    kept = [(part, place) for part, judges in parts for place, name in enumerate(part.judges) if name in judges]
    points = [part.points[place] for part, place in kept if part.points is not None]
    return replace(
        parts[-1][0],
        judged_instances=[part.judged_instances[place] for part, place in kept],
        judges=[part.judges[place] for part, place in kept],
        criteria=[part.criteria[place] for part, place in kept],
        grades=np.array([part.grades[place] for part, place in kept], dtype=float),
        points=np.array(points, dtype=float) if points else None,
    )


# --- in words ---------------------------------------------------------------------------------------------------------


def verdict(found: Sequence[JudgeRobustness]) -> Iterator[str]:
    """Yield what moves the judges, and whether the order of the models stays, in sentences."""
    for own in found:
        moved = [one for one in own.shifts if one.is_significant and one.shift]
        for one in moved:
            assert one.shift is not None, "it is significant"
            side = "higher" if one.shift.value > 0 else "lower"
            ends = sorted(abs(end) for end in (one.shift.low, one.shift.high))
            yield (
                f"{own.title}: {one.judge} grades {decimal(abs(one.shift.value), 2)} "
                f"({decimal(ends[0], 2)} to {decimal(ends[1], 2)}) {side} with {title_of(one.change)}."
            )
        if own.shifts and not moved:
            yield f"{own.title}: no change shifts the grades of a judge significantly."
        whole = [rank for rank in own.ranks if rank.judge == ALL_JUDGES and rank.pairs]
        for rank in whole:
            if rank.n_kept < len(rank.pairs):
                lost = [f"{pair.better} over {pair.worse}" for pair in rank.pairs if not pair.is_kept]
                yield f"{own.title}: {title_of(rank.change)} reverses the order of {listed(lost)}."
        if whole and all(rank.n_kept == len(rank.pairs) for rank in whole):
            yield f"{own.title}: the order of the models by all judges stays under every change."


def title_of(change: str) -> str:
    """Return a change as it appears in sentences."""
    title = CHANGES[change].title
    return title[0].lower() + title[1:] if title.split()[0] not in ("Markdown",) else title


# --- tables and JSON --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a table: a part of the result, and its benchmark."""

    of: JudgeRobustness
    part: Any


_PARTS = "value low high n method"

_SHIFTS: list[Field[JudgeShift]] = [
    Field("judge", lambda one: one.judge, kind="text", heading="Judge"),
    Field("change", lambda one: one.change, kind="text", heading="Change", text=lambda one: CHANGES[one.change].title),
    Field("shift", lambda one: one.shift, kind="interval", parts=_PARTS, heading="Shift",
          meaning="Mean of changed minus plain grade, in grades, high being good.",
          text=lambda one: _signed(one.shift)),
    Field("p_adjusted", lambda one: one.p_adjusted, kind="p-value", heading="p",
          meaning="P-value of the shift, adjusted by Holm's method for all judges and changes of the benchmark."),
    Field("moved", lambda one: one.moved, kind="interval", parts=_PARTS, heading="Grades moved",
          text=lambda one: f"{one.moved.value:.1%}" if one.moved else None,
          meaning="Share of the changed completions with another score."),
    Field("n", lambda one: one.shift.n if one.shift else 0, kind="whole number", heading="Completions",
          meaning="Changed completions that were graded both times."),
    Field("by_criterion", lambda one: {name: estimate_json(mean, _PARTS) for name, mean in one.by_criterion.items()},
          kind="object", meaning="Criterion -> shift of its grade."),
]  # fmt: skip
"""Shift of a judge under a change."""

_RANKS: list[Field[RankStability]] = [
    Field("change", lambda one: one.change, kind="text", heading="Change", text=lambda one: CHANGES[one.change].title),
    Field("judge", lambda one: one.judge, kind="text", heading="Ranked by"),
    Field("n_pairs", lambda one: len(one.pairs), kind="whole number", heading="Pairs of models"),
    Field("n_kept", lambda one: one.n_kept, kind="whole number", heading="Same order"),
    Field("least", lambda one: one.least.share if one.least else None, heading="Least certain",
          text=lambda one: _least_text(one), missing="no two models have different means",
          meaning="Lowest share, over pairs, of the bootstrap draws in which both orders agree."),
    Field("pairs", lambda one: [
        {"better": pair.better, "worse": pair.worse, "kept": pair.is_kept, "share": round(pair.share, 6)}
        for pair in one.pairs
    ], kind="object"),
]  # fmt: skip
"""Order of the models under a change."""

_REPEATS: list[Field[JudgeAgreement]] = [
    Field("judge", lambda one: one.on, kind="text", heading="Judge"),
    Field("n", lambda one: one.n, kind="whole number", heading="Completions"),
    Field("icc_2_1", lambda one: one.icc_2_1, kind="interval", parts=_PARTS, heading="ICC(2,1)",
          text=lambda one: _signed(one.icc_2_1)),
    Field("weighted_kappa", lambda one: one.kappa, kind="interval", parts=_PARTS, heading="Weighted kappa",
          text=lambda one: _signed(one.kappa)),
]  # fmt: skip
"""Agreement of a judge with itself."""

FIELDS: list[Field[JudgeRobustness]] = [
    Field("title", lambda own: own.title, kind="text"),
    Field("scale", lambda own: {"low": own.low, "high": own.high}, kind="object"),
    Field("shifts", lambda own: [fields_json(_SHIFTS, one) for one in own.shifts], kind="object"),
    Field("ranks", lambda own: [fields_json(_RANKS, one) for one in own.ranks], kind="object"),
    Field("repeats", lambda own: [fields_json(_REPEATS, one) for one in own.repeats], kind="object"),
    Field("length", lambda own: {
        judge: {"basis": one.basis, "spearman": estimate_json(one.spearman, _PARTS)}
        for judge, one in own.lengths.items()
    }, kind="object"),
]  # fmt: skip
"""One benchmark."""

NOTES = (
    "Shift: mean of changed minus plain grade of the same completions, with 95% intervals by instance cluster; p is "
    "adjusted for all judges and changes (Holm). Completions that a change leaves as they are do not count.",
    "Least certain: share of the bootstrap draws in which plain and changed grades order the pair alike. Of the judges "
    "alone, those who reverse a pair are shown.",
    "Weighted kappa and ICC(2,1): agreement of a judge with itself when it gets the same prompts again.",
    "Length: rank correlation of grade and length among plain completions; longer ones can be better.",
)
"""Remarks about the tables, in their order."""


def _notes(found: Sequence[JudgeRobustness]) -> list[str]:
    """Return the remarks about the tables that have rows."""
    return [note for note, (_, _, rows) in zip(NOTES, _tables(found), strict=True) if rows]


def as_json(found: Sequence[JudgeRobustness]) -> dict[str, Any]:
    """Return the output of `medhelm jury --robustness --json`."""
    return {
        "verdict": list(verdict(found)),
        "benchmarks": {own.benchmark: fields_json(FIELDS, own) for own in found},
    }


def to_text(found: Sequence[JudgeRobustness], format: str = "table") -> str:
    """Return the tables of all benchmarks; CSV has one row for each number."""
    if format == "csv":
        headers = ["benchmark", "statistic", "judge", "change", "value", "low", "high", "n"]
        return render([row for own in found for row in _numbers(own)], headers, format=format)
    parts = [
        fields_table([_benchmark_field(), *map(_of_part, fields)], rows, format=format, caption=caption, keep=2)
        for caption, fields, rows in _tables(found)
        if rows
    ]
    return "\n".join(parts)


def _numbers(own: JudgeRobustness) -> Iterator[list[Value]]:
    """Yield the rows of CSV."""
    for one in own.shifts:
        for statistic, mean in (("shift", one.shift), ("moved", one.moved)):
            yield [own.benchmark, statistic, one.judge, one.change, *estimate_numbers(mean), mean.n if mean else 0]
    for rank in own.ranks:
        share = rank.least.share if rank.least else None
        kept = rank.n_kept / len(rank.pairs) if rank.pairs else None
        for statistic, value in (("pairs_kept", kept), ("least_share", share)):
            yield [own.benchmark, statistic, rank.judge, rank.change, value, None, None, len(rank.pairs)]
    for agreement in own.repeats:
        for statistic, mean in (("icc_2_1", agreement.icc_2_1), ("weighted_kappa", agreement.kappa)):
            yield [own.benchmark, statistic, agreement.on, "", *estimate_numbers(mean), agreement.n]
    for judge, length in own.lengths.items():
        spearman = length.spearman
        yield [own.benchmark, "length_spearman", judge, "", *estimate_numbers(spearman), spearman.n if spearman else 0]


def _tables(found: Sequence[JudgeRobustness]) -> Iterator[tuple[str, list[Field[Any]], list[_Row]]]:
    yield "Shift of the grades under changes that say nothing new", _SHIFTS, _rows(found, "shifts")
    ranks = [row for row in _rows(found, "ranks") if _is_shown(row.part)]
    yield "Order of the models under these changes", _RANKS, ranks
    yield "Agreement of judges with themselves", _REPEATS, _rows(found, "repeats")
    lengths = [_Row(own, item) for own in found for item in own.lengths.items()]
    yield "Grades and length", _LENGTHS, lengths


_LENGTHS: list[Field[Any]] = [
    Field("judge", lambda item: item[0], kind="text", heading="Judge"),
    Field("spearman", lambda item: item[1].spearman, kind="interval", heading="Rank correlation",
          text=lambda item: _signed(item[1].spearman)),
    Field("basis", lambda item: item[1].basis, kind="text", heading="Compared"),
]  # fmt: skip


def _is_shown(rank: RankStability) -> bool:
    """Return whether tables show an order: that of all judges, and of a judge who reverses a pair."""
    return bool(rank.pairs) and (rank.judge == ALL_JUDGES or rank.n_kept < len(rank.pairs))


def _rows(found: Sequence[JudgeRobustness], kind: str) -> list[_Row]:
    return [_Row(own, part) for own in found for part in getattr(own, kind)]


def _benchmark_field() -> Field[_Row]:
    return Field(
        "benchmark", lambda row: row.of.benchmark, kind="text", heading="Benchmark", text=lambda row: row.of.title
    )


def _of_part(field: Field[Any]) -> Field[_Row]:
    """Return a field of a part as a field of its row."""
    text = field.text
    return replace(field, get=lambda row: field.get(row.part), text=(lambda row: text(row.part)) if text else None)


def _signed(mean: HasInterval | None) -> str | None:
    return with_minus(estimate_text(mean, 2) or "") or None


def _least_text(one: RankStability) -> str | None:
    least = one.least
    return f"{least.share:.1%} ({least.better}, {least.worse})" if least else None


def _with_short_names(found: tuple[JudgeRobustness, ...]) -> tuple[JudgeRobustness, ...]:
    return renamed(found, short_names({name for own in found for name in (*own.models, *own.judges)}))


def print_robustness(stores: Sequence[Path], benchmarks: Sequence[str], options: BoardOptions, format: str) -> None:
    """Print what `medhelm jury --robustness` shows."""
    found = measure_robustness(stores, benchmarks, options)
    if format == "json":
        print_json(as_json(found))
        return
    found = _with_short_names(found)
    if format in ("table", "md"):
        click.echo(as_shown(" ".join(verdict(found)), format) + "\n")
    click.echo(to_text(found, format), nl=format in ("table", "md"))
    print_remarks(_notes(found) if format in ("table", "md") else (), format)


def section(stores: Sequence[Path], options: BoardOptions) -> ResultSection | None:
    """Return the section of reports, cards and the site; None if no judge graded completions again."""
    from medhelm.results.formats.sections import ResultSection, SectionTable

    if not _judged_runs(stores):
        return None
    try:
        found = measure_robustness(stores, (), replace(options, clinicians=None))
    except UserError:  # the options leave out these runs
        return None
    found = _with_short_names(found)
    tables = []
    for caption, fields, rows in _tables(found):
        cells, headers, _ = table_of([_benchmark_field(), *map(_of_part, fields)], rows)
        tables += [SectionTable(caption=caption, headers=headers, rows=cells)] if rows else []
    return ResultSection(
        key="judges", title="Robustness of the judges", sentences=[*verdict(found), *_notes(found)], tables=tables
    )
