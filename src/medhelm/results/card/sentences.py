"""The sentences of an evaluation card: what its numbers say, and what they do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.results.export_selection import ExportSelection
from medhelm.results.run_selection import judges_under_test

FEW = 6
"""Most models whose pairs are told one by one."""


def findings(board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    """What can and cannot be told apart."""
    models = [row.model for row in board.rows]
    if len(models) < 2:
        return ["One model alone: there is nothing to compare it with."]
    said = _pairs(board, names) if len(models) <= FEW else _groups(board, names)
    mdes = [mde for mde in board.mde.values() if mde]
    if mdes:
        low, high = f"{min(mdes):.2f}", f"{max(mdes):.2f}"
        size = low if low == high else f"{low} to {high}"
        said.append(
            f"On a single benchmark a true difference below about {size} (on a scale from 0 to 1) can go unnoticed."
        )
    return said


def _pairs(board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    models = [row.model for row in board.rows]
    said, equal = [], []
    for place, model in enumerate(models):
        below = models[place + 1 :]
        beaten = [names[other] for other in below if (model, other) in board.significant_pairs]
        equal += [
            f"{names[model]} and {names[other]}" for other in below if (model, other) not in board.significant_pairs
        ]
        if beaten:
            said.append(f"{names[model]} does better than {_listed(beaten)}, by more than chance.")
    if equal:
        said.append(f"Not to be told apart with this data: {'; '.join(equal)}.")
    return said


def _groups(board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    n = len(board.rows)
    said = [
        f"{len(board.significant_pairs)} of {n * (n - 1) // 2} pairs of models can be told apart by more than chance."
    ]
    groups: dict[int | None, list[str]] = {}
    for row in board.rows:
        groups.setdefault(row.tie_group, []).append(names[row.model])
    said += [
        f"{group[0]} cannot be told apart from {_listed(group[1:])}."
        for number, group in groups.items()
        if number and len(group) > 1
    ]
    return said


def limits(selection: ExportSelection, board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    """What the numbers do not say."""
    runs = list(selection.counted.values())
    said = []
    if selection.tier == "sample":
        said.append("The questions are a few invented examples. They say nothing about real performance.")
    if board.scoring == "published":
        said.append("Scores follow the rule of the published leaderboard, known faults included.")
    said += _missing_answers(selection)
    said += _left_out(selection, board, names)
    said += _judged(selection)
    foreign = Counter(run.origin.harness for run in runs if run.origin and not run.origin.completions_made_here)
    for harness, count in foreign.items():
        said.append(
            f"{count} of {len(runs)} runs were made with another program ({harness}) and read in: how the models were "
            "asked there was not seen."
        )
    if any(run.settings.get("limit") for run in runs):
        said.append("Only the first questions of the data were asked: intervals are wider than they need be.")
    not_beaten = [
        c.title
        for c in board.columns
        if c.constant_baseline is not None and _is_not_beaten(board, c.benchmark, c.constant_baseline)
    ]
    if not_beaten:
        said.append(f"No model does better than giving the same answer every time on {_listed(not_beaten)}.")
    if any(row.cost_usd is None for row in board.rows):
        said.append("Where a cost is missing, a price is not known; it does not mean free.")
    said.append(
        "Benchmarks are prepared questions. They do not show how a model does with your patients, in your workflow, or "
        "whether it is safe there."
    )
    return said


def _missing_answers(selection: ExportSelection) -> list[str]:
    """Of answers that are not there."""
    runs = list(selection.counted.values())
    failed = sum(run.n_failed for run in runs)
    if not failed:
        return []
    codes = sum((Counter(run.failures) for run in runs), Counter[str]())
    kinds = ", ".join(f"{code.replace('_', ' ')} {count}" for code, count in codes.most_common(3))
    total = sum(run.n for run in runs)
    return [f"{failed:,} of {total:,} answers are missing ({kinds}): they are left out, not counted as wrong."]


def _left_out(selection: ExportSelection, board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    """Of models that were not asked, or not judged alike, everywhere."""
    said = []
    titles = {column.benchmark: column.title for column in board.columns}
    for row in board.rows:
        absent = [title for name, title in titles.items() if name not in row.cells or row.cells[name].value is None]
        if absent:
            said.append(f"{names[row.model]} has no score on {_listed(absent)}: compared with others without it.")
    other = {
        run.title
        for run in selection.runs
        if run.status == "complete" and selection.counted.get((run.model, run.benchmark)) is None
    }
    if other:
        said.append(f"Runs graded by other judges, or by none, are left out on {_listed(sorted(other))}.")
    return said


def _judged(selection: ExportSelection) -> list[str]:
    """Of juries."""
    runs = [run for run in selection.counted.values() if run.jury_result]
    if not runs:
        return []
    said = ["Free text was graded by language models. They err too; ratings of clinicians are the measure of that."]
    tallies = [tally for run in runs if run.jury_result for tally in run.jury_result.tallies.values()]
    expected, missing = sum(tally.expected for tally in tallies), sum(tally.failed for tally in tallies)
    if missing:
        without = sum(run.jury_result.n_too_few_judges for run in runs if run.jury_result)
        lost = f", and {without:,} answers have no score for it" if without else ""
        said.append(f"{missing:,} of {expected:,} judgments are missing{lost}.")
    if both := [name.partition("@")[0] for name in judges_under_test(selection.counted.values())]:
        said.append(f"{_listed(both)} graded answers of its own kind: judges may favour their own.")
    return said


def _is_not_beaten(board: Leaderboard, benchmark: str, baseline: float) -> bool:
    values = [row.cells[benchmark].value for row in board.rows if benchmark in row.cells]
    known = [value for value in values if value is not None]
    return bool(known) and max(known) <= baseline


def _listed(words: Sequence[str]) -> str:
    """Words as people list them.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
