"""Ratings that a rater could give."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from medhelm.extensions.study.rating_form import REASONS
from medhelm.extensions.study.types import (
    HARM_LIKELIHOOD,
    HARM_SEVERITY,
    CaseRating,
    InstrumentCriterion,
    MarkedPassage,
    MarkKind,
)

WORDS = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cn", "Zl", "Zp"), exclude_characters="\u0085"), max_size=30
).map(str.strip)


@st.composite
def possible_ratings(
    draw: st.DrawFn, criteria: Sequence[InstrumentCriterion], completions: Sequence[str]
) -> CaseRating:
    """Draw a rating of a case with these questions and completions as shown."""
    grades, not_judged = {}, {}
    for one in criteria:
        match draw(st.sampled_from(["grade", "reason", "own words", "open"])):
            case "grade":
                grades[one.name] = draw(st.sampled_from(one.grades))
            case "reason":
                more = draw(WORDS)
                not_judged[one.name] = draw(st.sampled_from(REASONS)) + (f": {more}" if more else "")
            case "own words":
                not_judged[one.name] = draw(WORDS.filter(bool))
    if grades.get(HARM_SEVERITY) == 0:
        grades.pop(HARM_LIKELIHOOD, None)
        not_judged.pop(HARM_LIKELIHOOD, None)
    marks = set()
    for side, text in enumerate(completions):
        for kind in draw(st.lists(st.sampled_from(MarkKind), max_size=2)):
            start = draw(st.integers(1, min(len(text), 40) - 1))
            end = start if kind is MarkKind.OMISSION else draw(st.integers(start + 1, min(len(text), 60)))
            marks.add(MarkedPassage(start=start, end=end, kind=kind, side=side))
    ordered = tuple(sorted(marks, key=lambda mark: (mark.side, mark.start, mark.end, mark.kind)))
    return CaseRating(grades=grades, not_judged=not_judged, comment=draw(WORDS), marks=ordered)
