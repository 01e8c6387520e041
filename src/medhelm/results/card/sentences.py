"""Sentences of an evaluation card: findings and limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.findings import beats_constant_answer, lacking_benchmarks, pairs_sentence
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import Rule
from medhelm.domain.failure_code import AS_WORST, CAUSED_BY_MODEL
from medhelm.domain.text import listed
from medhelm.results.comparable.run_selection import judges_under_test
from medhelm.results.export_selection import ExportSelection
from medhelm.results.runs.injection_effects import effect_sentence, injection_effects

FEW = 6
"""Most models whose pairs are listed one by one."""


_ADDRESS = re.compile(r"@https?://[^\s,;]+")
"""The address of a server in the name of a model."""


def findings(board: Leaderboard) -> list[str]:
    """Return sentences on significant differences between models."""
    if len(board.rows) < 2:
        return ["There is one model: a comparison needs at least two."]
    sentences = _pair_sentences(board) if len(board.rows) <= FEW else _counted_pairs(board)
    mdes = [mde for mde in board.mde.values() if mde]
    if mdes:
        low, high = f"{min(mdes):.2f}", f"{max(mdes):.2f}"
        size = low if low == high else f"{low} to {high}"
        sentences.append(
            f"On a single benchmark, a true difference below about {size} (on a scale from 0 to 1) may not be detected."
        )
    return sentences


def _pair_sentences(board: Leaderboard) -> list[str]:
    models = [row.model for row in board.rows]
    sentences, equal = [], []
    for place, model in enumerate(models):
        below = models[place + 1 :]
        beaten = [other for other in models if (model, other) in board.separated]
        apart = [other for other in below if not board.were_compared(model, other)]
        equal += [
            f"{model} and {other}"
            for other in below
            if other not in apart and board.separated.isdisjoint({(model, other), (other, model)})
        ]
        if beaten:
            sentences.append(f"{model} is significantly better than {listed(beaten)}.")
        if apart:
            sentences.append(f"{model} was not run on the same benchmarks as {listed(apart)}.")
    if equal:
        sentences.append(f"Cannot be separated with this data: {'; '.join(equal)}.")
    return sentences


def _counted_pairs(board: Leaderboard) -> list[str]:
    sentences = [pairs_sentence(len(board.separated), board.n_tested)]
    for place, row in enumerate(board.rows):
        alike = [
            other.model
            for other in board.rows[place + 1 :]
            if board.were_compared(row.model, other.model)
            and board.separated.isdisjoint({(row.model, other.model), (other.model, row.model)})
        ]
        if alike:
            sentences.append(f"{row.model} cannot be separated from {listed(alike, FEW)}.")
    return sentences


def limits(selection: ExportSelection, board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    """Return the limits of the results."""
    runs = list(selection.counted.values())
    sentences = []
    if selection.tier == "sample":
        sentences.append("The questions are a few invented examples. They say nothing about real performance.")
    if board.scoring == "published":
        sentences.append("Scores follow the rule of the published leaderboard, known faults included.")
    sentences += _failure_sentences(selection, board)
    sentences += _left_out_sentences(selection, board, names)
    sentences += _jury_sentences(selection, board.scoring)
    imported = Counter(run.origin.harness for run in runs if run.origin and run.has_imported_completions)
    for harness, count in imported.items():
        sentences.append(
            f"{count} of {len(runs)} runs were imported from another program ({harness}): its prompts and settings "
            "were not checked."
        )
    if any(run.settings.get("limit") for run in runs):
        sentences.append(
            "Only the first questions of the data were used, so intervals are wider than with all of them."
        )
    if not_beaten := [column.title for column in board.columns if _is_not_beaten(board, column)]:
        sentences.append(f"On {listed(not_beaten)}, no model is clearly better than always giving the same answer.")
    if board.baselines:
        sentences.append("Baselines are simple rules, not models: they have no rank.")
    if any(row.cost_usd is None for row in board.rows):
        sentences.append("A missing cost means an unknown price, not a free model.")
    sentences.append(
        "Benchmarks are prepared questions. They do not show how a model performs with your patients or in your "
        "workflow, or whether it is safe there."
    )
    return sentences


def _failure_sentences(selection: ExportSelection, board: Leaderboard) -> list[str]:
    """Return sentences on failures that count as the worst answer, and on missing completions."""
    runs = selection.counted.values()
    codes = sum((Counter(run.failures) for run in runs), Counter[str]())
    total = sum(run.n for run in runs)
    worst = sum(cell.n_failed_by_model for row in board.all_rows for cell in row.cells.values())
    missing = sum(run.n_failed for run in runs) - worst
    sentences = []
    if worst:
        kinds = _common_codes({code: count for code, count in codes.items() if code in CAUSED_BY_MODEL})
        text = f"{worst:,} of {total:,} answers failed because of the model ({kinds})"
        sentences.append(f"{text}, {AS_WORST}.")
    if missing > 0:
        kinds = _common_codes(
            {code: count for code, count in codes.items() if not worst or code not in CAUSED_BY_MODEL}
        )
        text = f"{missing:,} of {total:,} answers are missing ({kinds})"
        sentences.append(f"{text}: they are left out of the scores.")
    return sentences


def _common_codes(codes: Mapping[str, int]) -> str:
    """Return the commonest kinds of failures with their numbers."""
    return ", ".join(f"{code.replace('_', ' ')} {count}" for code, count in Counter(codes).most_common(3))


def _left_out_sentences(selection: ExportSelection, board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    """Return sentences on models without a score on some benchmarks, or measured under other conditions."""
    sentences = []
    titles = {column.benchmark: column.title for column in board.columns}
    estimated = {model for model, lacking in lacking_benchmarks(board).items() if lacking}
    for row in board.rows:
        absent = [title for name, title in titles.items() if name not in row.cells or row.cells[name].value is None]
        if absent:
            end = "; its average is estimated from other scores." if row.model in estimated else "."
            sentences.append(f"{names[row.model]} has no score on {listed(absent)}{end}")
    groups: dict[tuple[str, str], list[str]] = {}
    for one in selection.left_out:
        if one.benchmark in titles:
            key = (_ADDRESS.sub("", one.model), _ADDRESS.sub("", one.reason))
            groups.setdefault(key, []).append(titles[one.benchmark])
    for (model, reason), left in groups.items():
        sentences.append(f"{model} is left out of {listed(left)}: {reason}.")
    return sentences


def _jury_sentences(selection: ExportSelection, rule: Rule) -> list[str]:
    """Return sentences on juries."""
    runs = [run for run in selection.counted.values() if run.jury_result]
    if not runs:
        return []
    sentences = [
        "Free text was graded by language models, which make errors; compare them with ratings of clinicians. "
        "`medhelm jury` shows whether they agree with each other."
    ]
    tallies = [tally for run in runs for tally in run.tallies.values()]
    expected, missing = sum(tally.expected for tally in tallies), sum(tally.failed for tally in tallies)
    if missing:
        without = sum(run.jury_result.n_too_few_judges for run in runs if run.jury_result)
        lost = f", so {without:,} answers have no score" if without else ""
        sentences.append(f"{missing:,} of {expected:,} judgments are missing{lost}.")
    sentences += [
        f"{_ADDRESS.sub('', one.model)}: {effect_sentence(one)}" for one in injection_effects(selection.counted, rule)
    ]
    if both := [name.partition("@")[0] for name in judges_under_test(selection.counted.values())]:
        sentences.append(f"{listed(both)} graded answers of the same model: judges may favor their own.")
    return sentences


def _is_not_beaten(board: Leaderboard, column: Column) -> bool:
    """Return whether no model is shown to be better than a constant answer, although this was tested."""
    found = [better for row in board.rows if (better := beats_constant_answer(board, row, column)) is not None]
    return bool(found) and not any(found)
