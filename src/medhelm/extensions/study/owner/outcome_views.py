"""Texts on the page of a closed study: means by model, harm, agreement with the jury, comments, and the card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from medhelm.domain import Estimate
from medhelm.domain.text import listed, plural
from medhelm.extensions.study.measures import PreferenceResult
from medhelm.extensions.study.outcome import HarmCounts, ModelGrade, StudyOutcome
from medhelm.extensions.study.owner.views import Names, criterion_title, time_text
from medhelm.extensions.study.types import Study
from medhelm.io.http.pages import url_key
from medhelm.results.formats.tables import MISSING, decimal, percent

Cells = Sequence[tuple[str, str]]
"""Texts of a row, each with the text of its interval or ""."""


def results_view(found: StudyOutcome, study: Study, names: Names) -> dict[str, Any]:
    """Return the results of a closed study, without the jury and the card."""
    tables = [_means(name, found, study, names) for name in study.benchmarks if found.means]
    tables += [_preference(found.preference)] if found.preference else []
    tables += [_harm(found.harm)] if found.harm else []
    return {
        "sentence": _sentence(found, names),
        "tables": tables,
        "notes": list(_notes(found)),
        "comments": [
            {
                "case": one.instance_id,
                "address": f"/benchmarks/{quote(one.benchmark)}/cases/{url_key(one.instance_id)}",
                "benchmark": names.benchmark(one.benchmark),
                "model": listed(one.models),
                "rater": names.rater(one.rater),
                "comment": one.comment,
                "reasons": [f"{criterion_title(name)}: {reason}" for name, reason in one.not_judged.items()],
                "n_marks": one.n_marks,
            }
            for one in found.notes
        ],
        "facts": _facts(found),
        "is_frozen": bool(found.ratings),
    }


def _sentence(found: StudyOutcome, names: Names) -> str:
    if found.preference:
        return _most_preferred(found.preference)
    sentences = []
    for name in dict.fromkeys(one.benchmark for one in found.means):
        whole = [one for one in found.means if one.benchmark == name and not one.criterion]
        sentences += [_best_of(whole, names.benchmark(name))] if whole else []
    return " ".join(sentences) or "No case was rated."


def _most_preferred(found: PreferenceResult) -> str:
    """Return a sentence on preferences: a winner only if its interval is apart from all others."""
    best, *others = found.shares
    won = f"{_share(best.value)} of its comparisons{_in(best.low, best.high)}"
    low, highs = best.low, [one.high for one in others]
    if low is None or None in highs:
        return f"{best.model} is preferred in {won}; there are too few ratings for intervals."
    if any(high >= low for high in highs if high is not None):
        return f"No winner: {best.model} is preferred most often, in {won}, but the intervals overlap."
    return f"Clinicians prefer {best.model} most often: in {won}."


def _best_of(means: Sequence[ModelGrade], title: str) -> str:
    """Return a sentence on the means of one benchmark, the best one first: a winner only if its interval is apart."""
    best, *others = means
    mean, ends = _mean(best)
    low, highs = best.mean.low, [one.mean.high for one in others]
    if not others:
        return f"On {title}, clinicians rate {best.model} {mean}{f' ({ends})' if ends else ''}."
    if low is None or None in highs:
        return f"On {title}, {best.model} has the highest mean, {mean}; there are too few ratings for intervals."
    ties = [one.model for one in others if one.mean.high is not None and one.mean.high >= low]
    if ties:
        overlap = f"its interval overlaps with that of {listed(ties, 3)}"
        return f"On {title}, no winner: {best.model} has the highest mean, {mean}, but {overlap}."
    return f"On {title}, clinicians rate {best.model} highest: {mean} ({ends})."


def _mean(one: ModelGrade) -> tuple[str, str]:
    mean = one.mean
    ends = "" if mean.low is None or mean.high is None else f"{decimal(mean.low, 2)} to {decimal(mean.high, 2)}"
    return decimal(mean.value, 2) or MISSING, ends


def _means(benchmark: str, found: StudyOutcome, study: Study, names: Names) -> dict[str, Any]:
    own = [one for one in found.means if one.benchmark == benchmark]
    criteria = list(dict.fromkeys(one.criterion for one in own))
    by_place = {(one.model, one.criterion): one for one in own}
    rows = []
    for model in dict.fromkeys(one.model for one in own):
        whole = by_place[model, criteria[0]].mean
        cells = [_mean(by_place[model, name]) if (model, name) in by_place else (MISSING, "") for name in criteria]
        rows.append({"title": model, "cells": [*cells, (str(whole.n), ""), (str(whole.n_raters), "")]})
    instrument = study.instruments[benchmark]
    ends = {(one.low, one.high) for one in instrument.criteria}
    scale = f", on {min(ends)[0]} to {min(ends)[1]}" if len(ends) == 1 else ""
    harm = " Harm: 0 (none) to 3 (severe)." if study.asks_harm else ""
    return {
        "title": f"Ratings on {names.benchmark(benchmark)}",
        "caption": f"{instrument.title}{scale}, with 95% intervals.{harm}",
        "heads": [*map(criterion_title, criteria), "Completions", "Raters"],
        "rows": rows,
    }


def _preference(found: PreferenceResult) -> dict[str, Any]:
    rows = [
        {"title": one.model, "cells": [(_share(one.value), _ends(one.low, one.high)), (str(one.n), "")]}
        for one in found.shares
    ]
    caption = "Share of comparisons won, half of ties included, with 95% interval."
    caption += f" {plural(found.n, 'comparison')}, {plural(found.n_ties, 'tie')}."
    if left := found.left:
        caption += f" Of the others, {_share(left.value)}{_in(left.low, left.high)} prefer the left text;"
        caption += " without an effect of the side, half would."
    return {"title": "Preferences", "caption": caption, "heads": ["Preferred", "Comparisons"], "rows": rows}


def _harm(found: Sequence[HarmCounts]) -> dict[str, Any]:
    rows = [
        {
            "title": one.model,
            "cells": [
                *[(str(n), "") for n in one.severity],
                _share_cell(one.serious),
                (str(one.n_likely), ""),
                (str(one.n), ""),
            ],
        }
        for one in found
    ]
    return {
        "title": "Harm that raters expect",
        "caption": "Ratings, if someone acted on the text. Likely: medium or high.",
        "heads": ["None", "Mild", "Moderate", "Severe, or death", "Moderate or worse", "Of these, likely", "Ratings"],
        "rows": rows,
    }


def _share(value: float | None) -> str:
    return MISSING if value is None else percent(value)


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{_share(low)} to {_share(high)}"


def _in(low: float | None, high: float | None) -> str:
    ends = _ends(low, high)
    return f" ({ends})" if ends else ""


def _share_cell(found: Estimate | None) -> tuple[str, str]:
    return (MISSING, "") if found is None else (_share(found.value), _ends(found.low, found.high))


def _notes(found: StudyOutcome) -> Iterator[str]:
    yield "Calibration cases and second ratings of the same rater do not enter these means."
    if found.n_adjudicated:
        yield f"{plural(found.n_adjudicated, 'case')} went to adjudication; that rating counts as one more."
    if reasons := {one.mean.reason for one in found.means if one.mean.reason}:
        yield f"Without an interval: {'; '.join(sorted(reasons))}."


def _facts(found: StudyOutcome) -> list[tuple[str, str]]:
    missing = f", {plural(found.n_missing, 'case')} not rated" if found.n_missing else ""
    return [
        ("Closed", f"{time_text(found.closed)} UTC by {found.closed_by}"),
        ("Ratings", f"{found.n_ratings:,}{missing}"),
        *([] if found.ratings else [("sha256 of all files", found.digest)]),
    ]
