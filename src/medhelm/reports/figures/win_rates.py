"""Averages that rank, with intervals, and significant differences between pairs of models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from medhelm.reports.figures import style
from medhelm.reports.formats.tables import estimate_text
from medhelm.reports.leaderboard_fields import shown_name

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.types import Leaderboard

WIDTH, LINE_H = 380, 20
"""Width of the plot and height of a line, in pixels."""

CELL = 22
"""Pixels of a cell."""

RANKING = {
    "macro average": ("Macro averages", "Macro average: mean over benchmarks, on a scale of 0 to 1"),
    "win rate": ("Win rates", "Win rate: share of other models beaten, mean over benchmarks"),
    "mean score": ("Mean scores", "Mean score on a scale of 0 to 1"),
}
"""Number that ranks -> its name, and the title of its axis."""

HERE, PUBLISHED = "measured here", "published"
"""Sources of scores."""

KNOWN = {
    "> significant (Holm correction for all pairs)": (">", "#579ed0"),
    "< significant, the other way round": ("<", "#d9883b"),
    "= not significant": ("=", "#efefef"),
}
"""Result for a pair of models -> its sign and color."""


@style.without_checks
def win_rates(board: Leaderboard, *, heading: str, notes: Sequence[str]) -> dict[str, Any]:
    """Return a plot with one line per model, best first: the average that ranks, 95% interval, and the numbers."""
    import altair as alt

    shown = style.names([shown_name(row) for row in board.rows])
    values = []
    for name, row in zip(shown, board.rows, strict=True):
        if (found := board.ranking_average(row)) is None:
            continue
        low, high = style.ends(found)
        values.append({
            "model": name,
            "source": PUBLISHED if row.published else HERE,
            "value": round(found.value, 6),
            "low": round(low, 6),
            "high": round(high, 6),
            "text": estimate_text(found),
        })  # fmt: skip

    def x(field: str) -> Any:
        axis = alt.Axis(format=".1f", values=[0, 0.2, 0.4, 0.6, 0.8, 1], labelFlush=False)
        return alt.X(field, title=RANKING[board.ranked_by][1], scale=alt.Scale(domain=[0, 1]), axis=axis)

    y = alt.Y("model:N", sort=shown, title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=8))
    base = alt.Chart().encode(y=y)
    line = base.mark_rule(strokeWidth=1.6, color=style.SOFT).encode(x=x("low:Q"), x2=alt.X2("high:Q"))
    sources = {str(value["source"]) for value in values}
    point = base.mark_point(filled=True, size=60, opacity=1).encode(x=x("value:Q"), **_by_source(sources))
    text = base.mark_text(align="left", fontSize=11, color=style.INK).encode(
        text=alt.Text("text:N"), x=alt.value(WIDTH + 12)
    )
    layers = alt.layer(line, point, text, data=alt.InlineData(values=values))
    title = style.title(heading, notes, sample=board.tier == "sample", width=WIDTH + 320)
    return style.finish(layers.properties(width=WIDTH, height=alt.Step(LINE_H), title=title))


def _by_source(sources: Collection[str]) -> dict[str, Any]:
    """Return color and shape by source of the scores, with a legend if there are both sources."""
    import altair as alt

    legend = alt.Legend(title="Scores", orient="bottom", direction="horizontal") if len(sources) > 1 else None
    both = [HERE, PUBLISHED]
    return {
        "color": alt.Color("source:N", scale=alt.Scale(domain=both, range=[style.BLUE, style.ORANGE]), legend=legend),
        "shape": alt.Shape("source:N", scale=alt.Scale(domain=both, range=["circle", "diamond"]), legend=legend),
    }


@style.without_checks
def pairs(board: Leaderboard, *, heading: str, notes: Sequence[str]) -> dict[str, Any]:
    """Return a triangle of all pairs: the higher-ranked model on the left, the other one above."""
    import altair as alt

    rows = [row for row in board.rows if board.ranking_average(row) is not None]
    shown = style.names([shown_name(row) for row in rows])
    adjusted, reverse, tied = KNOWN
    values = []
    for i, better in enumerate(rows):
        for j, other in enumerate(rows[i + 1 :], start=i + 1):
            pair = (better.model, other.model)
            if not board.were_compared(*pair):
                continue
            known = adjusted if pair in board.separated else reverse if pair[::-1] in board.separated else tied
            values.append({"better": shown[i], "other": shown[j], "known": known, "text": KNOWN[known][0]})
    present = [known for known in KNOWN if any(value["known"] == known for value in values)]
    x = alt.X("other:N", sort=shown[1:], title=None, axis=style.names_above())
    y = alt.Y("better:N", sort=shown[:-1], title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=6))
    color = alt.Color(
        "known:N",
        title=None,
        sort=present,
        scale=alt.Scale(domain=present, range=[KNOWN[known][1] for known in present]),
        legend=alt.Legend(orient="bottom", direction="vertical", symbolType="square", symbolSize=140),
    )
    base = alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y)
    cells = base.mark_rect(stroke="white", strokeWidth=1).encode(color=color)
    signs = base.mark_text(fontSize=11, color="#000000").encode(text=alt.Text("text:N"))
    title = style.title(heading, notes, sample=board.tier == "sample", width=max(CELL * len(shown) + 220, 460))
    return style.finish(
        alt.layer(cells, signs).properties(width=alt.Step(CELL), height=alt.Step(CELL), title=title)
    )  # fmt: skip
