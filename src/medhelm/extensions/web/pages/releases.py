"""Releases and stores: the page that shows them side by side and compares two, and their JSON.

The models over the releases of a store: a slope chart of the number that ranks, with its table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, compress, pairwise
from typing import Any

from markupsafe import Markup

from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.diff import CellChange, ChangedCases, ReleaseComparison
from medhelm.domain.result import CellProvenance, Release
from medhelm.domain.text import listed, plural
from medhelm.extensions.web.board_charts import chart_file, chart_links
from medhelm.extensions.web.compared import (
    compared_names,
    comparison_of,
    current_stores,
    model_names,
    shown_release,
    side_by_side,
    side_of,
    side_titles,
)
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.pages.case_list import exported_cases, opened
from medhelm.extensions.web.pages.leaderboard import IMPORTED, Mark
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Download, Page, Parameters, json_download, text_download, url_key
from medhelm.results.formats.drawing import (
    COMPACT,
    FONT_SIZE,
    SMALL,
    Chart,
    Drawing,
    LinearScale,
    circle,
    domain,
    element,
    fit,
    group,
    label,
    line,
    paint,
    short,
    text_width,
    tick_text,
)
from medhelm.results.formats.fields import fields_json, select_fields
from medhelm.results.formats.tables import MISSING, Value, decimal, number, render
from medhelm.results.releases import (
    CASE_FIELDS,
    CURRENT,
    RELEASE_FIELDS,
    SHOWN,
    comparison_as_json,
    difference_rows,
    presence_sentences,
    rank_cause,
    rank_sentences,
    reasons,
    tier_of,
)
from medhelm.results.runs.selection import renamed_json
from medhelm.results.runs.side_by_side import OUTCOMES, SideScore, ranking_score, reasons_in_words
from medhelm.results.runs.side_by_side import as_json as sides_as_json
from medhelm.results.runs.side_by_side import verdict as verdict_of_sides

# --- release charts ---------------------------------------------------------------------------------------------------

MOST_MODELS = 30
"""Most models with a line; the table has all."""

ROW = 15.0
"""Least pixels between two labels."""

TOP, BOTTOM = 26.0, 14.0
"""Pixels above the plot, for the names of releases, and below it."""

HEADING = 72.0
"""Least pixels for the name of a release."""

CHANGED = 0.0005
"""Least difference of two values that are shown as different: three decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHistory:
    """One model over all releases."""

    model: str
    """Its name."""
    points: Sequence[SideScore | None]
    """One for each release; None where the model is not in it."""

    @property
    def last(self) -> SideScore:
        """Return the latest known point."""
        return next(one for one in reversed(self.points) if one)

    @property
    def is_current(self) -> bool:
        """Return whether the model is in the latest release."""
        return self.points[-1] is not None

    @property
    def is_changed(self) -> bool:
        """Return whether its number changed from one release to the next."""
        return any(a and b and abs(a.value - b.value) > CHANGED for a, b in pairwise(self.points))


def is_comparable(release: Release, latest: Release) -> bool:
    """Return whether a release ranks by the same number as the latest one, on the same kind of data and scores."""
    keys = ("scoring", "tier", "ranked_by")
    return all(release.leaderboard.get(key) == latest.leaderboard.get(key) for key in keys)


def histories(releases: Sequence[Release]) -> list[ModelHistory]:
    """Return the ranked models of some releases, in the order of their last ranks; those that are gone come last."""
    boards = [{row["model"]: row for row in one.leaderboard["models"] if row["rank"] is not None} for one in releases]
    found = [
        ModelHistory(model=model, points=[ranking_score(board[model]) if model in board else None for board in boards])
        for model in dict.fromkeys(model for board in boards for model in board)
    ]
    return sorted(found, key=lambda one: (not one.is_current, one.last.rank or 0, one.model))


def trend_chart(releases: Sequence[Release], without: Sequence[str] = ()) -> Chart:
    """Return the chart of the models over releases, in the order of time. `without`: stores that have no release."""
    found = [one for one in histories(releases) if any(one.points)]
    shown = found[:MOST_MODELS]
    names = [one.name for one in releases]
    measure = str(releases[-1].leaderboard.get("ranked_by") or "macro average") if releases else "macro average"
    rows: list[list[Value]] = [
        [release.name, release.created[:10], one.model, point.rank, number(point.value), number(point.low),
         number(point.high), point.n_benchmarks]
        for one in found
        for release, point in zip(releases, one.points, strict=True)
        if point
    ]  # fmt: skip
    notes = [f"{measure.capitalize()} from 0 (worst) to 1 (best), among the models and benchmarks of each release. "
             "Strong lines: models whose number changed."]  # fmt: skip
    counts = {len(one.leaderboard["benchmarks"]) for one in releases}
    if len(counts) > 1:
        notes.append("The releases have different benchmarks, so their numbers are not fully comparable.")
    if without:
        notes.append(f"Not shown: {listed(without)}, which {'has' if len(without) == 1 else 'have'} no release.")
    if len(found) > len(shown):
        notes.append(f"The first {len(shown)} of {plural(len(found), 'model')}. The table has all.")
    return Chart(
        name="trend",
        title="Models over releases",
        description=_description(found, names),
        draw=partial(draw_trend, shown, names),
        headers=["release", "created", "model", "rank", measure.replace(" ", "_"), "low", "high", "n_benchmarks"],
        rows=rows,
        notes=notes,
        has_data=len(releases) > 1 and bool(found),
    )


def _description(found: Sequence[ModelHistory], names: Sequence[str]) -> str:
    """Return the main result in a sentence or two."""
    if len(names) < 2 or not found:
        return "A second release is needed to show a trend."
    moves = [
        (one.points[-1].value - first.value, one.model)
        for one in found
        if one.points[-1] and (first := next((point for point in one.points if point), None)) is not one.points[-1]
        if first
    ]
    changed = sorted((move for move in moves if abs(move[0]) > CHANGED), key=lambda move: -abs(move[0]))
    text = f"From {names[0]} to {names[-1]}: "
    if not changed:
        return f"{text}no number changed."
    words = [f"{short(model)} {'+' if change > 0 else '−'}{abs(change):.3f}" for change, model in changed[:3]]
    more = f", {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"{text}{listed(words)}{more}."


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw_trend(shown: Sequence[ModelHistory], names: Sequence[str], width: int) -> Drawing:
    """Draw a line for each model, with its rank, name and number at the end of the line."""
    height = TOP + max(180.0, ROW * len(shown)) + BOTTOM
    is_compact = width < COMPACT
    texts = [f"{one.last.rank} {one.model}" for one in shown]
    widest = max((text_width(text, FONT_SIZE * 1.08) for text in texts), default=0.0) + text_width(" 0.000", SMALL) + 24
    right = width - min(widest, width * (0.6 if is_compact else 0.42))
    left = 12.0 if is_compact else 56.0
    values = [point.value for one in shown for point in one.points if point]
    scale = LinearScale(*domain(values, low=0.0, high=1.0), height - BOTTOM, TOP + 6)
    across = [left + (right - left) * place / max(len(names) - 1, 1) for place in range(len(names))]
    lines = [_history(one, across, scale) for one in shown]
    places = spread([scale(one.last.value) for one in shown], ROW, (TOP + 8, height - BOTTOM + 4))
    labels = [
        _label(one, text, (across[-1], scale(one.last.value)), place, width)
        for one, text, place in zip(shown, texts, places, strict=True)
    ]
    return height, [_axes(names, across, scale, is_compact=is_compact), *lines, *labels]


def _axes(names: Sequence[str], across: Sequence[float], scale: LinearScale, *, is_compact: bool) -> Markup:
    """Return a line for each release with its name, as far as there is room, and the ticks of the numbers."""
    ticks = [] if is_compact else scale.ticks(5)
    texts = [label(across[0] - 10, scale(tick) + 4, tick_text(tick, ticks), anchor="end", size=SMALL) for tick in ticks]
    grid = [line(across[0], scale(tick), across[-1], scale(tick)) for tick in ticks]
    apart = (across[-1] - across[0]) / max(len(across) - 1, 1)
    step = max(1, math.ceil(HEADING / max(apart, 1.0)))
    named = [at for at in range(len(names)) if (len(names) - 1 - at) % step == 0]
    room = apart * step - 8 if len(named) > 1 else HEADING
    headings = [
        label(across[at], TOP - 10, names[at], width=room, anchor="start" if at == 0 else "middle", size=SMALL,
              bold=True)
        for at in named
    ]  # fmt: skip
    return (
        group("grid", grid)
        + group("axis", [line(x, TOP, x, scale.start) for x in across])
        + group("soft", texts)
        + group("ink", headings)
    )


def _history(one: ModelHistory, across: Sequence[float], scale: LinearScale) -> Markup:
    """Return the line and the points of a model; it is broken where the model is missing."""
    known = [(x, scale(point.value)) if point else None for x, point in zip(across, one.points, strict=True)]
    name = "line" if one.is_changed else "pale-line"
    parts = [line(*a, *b, stroke_width=2 if one.is_changed else 1.2) for a, b in pairwise(known) if a and b]
    radius = 3.5 if one.is_changed else 2.5
    dots = [circle(at[0], at[1], radius, **paint("mark")) for at in known if at]
    ranks = ", ".join(
        f"rank {point.rank} ({decimal(point.value)})" if point else MISSING for point in one.points
    )  # fmt: skip
    return element("g", element("title", f"{one.model}: {ranks}"), group(name, parts), *dots)


def _label(one: ModelHistory, text: str, at: tuple[float, float], place: float, width: int) -> Markup:
    """Return rank, name and number of a model beside its last point, joined to it where they had to move."""
    x, y = at
    joint = group("axis", [line(x + 5, y, x + 12, place - 4, stroke_width=0.8)]) if one.is_current else Markup("")
    value = decimal(one.last.value) if one.is_current else "gone"
    room = width - x - 18 - text_width(f" {value}", SMALL)
    words = label(x + 14, place, fit(text, room), bold=one.is_changed)
    numbers = label(width - 4, place, value or MISSING, anchor="end", size=SMALL)
    return joint + group("ink" if one.is_current else "soft", [words]) + group("soft", [numbers])


def spread(wanted: Sequence[float], apart: float, ends: tuple[float, float]) -> list[float]:
    """Return places as near as possible to those that are wanted, at least `apart` from each other, in the same order.

    >>> spread([10.0, 12.0, 40.0], 15.0, (0.0, 100.0))
    [10.0, 25.0, 40.0]
    """
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    places = [0.0] * len(wanted)
    lowest = ends[0]
    for at in order:
        places[at] = lowest = max(wanted[at], lowest)
        lowest += apart
    highest = ends[1]
    for at in reversed(order):
        places[at] = highest = min(places[at], highest)
        highest -= apart
    return places


# --- releases ---------------------------------------------------------------------------------------------------------

MOST_IDS = 100
"""Most cases listed for one changed score; the JSON interface has all."""

MOST_PAIRS = 200
"""Most pairs of releases that a page of the static site links to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGroup:
    """The cases of a changed score that changed in the same way."""

    title: str
    """Name of the change."""
    n: int | None
    """Number of cases; None for questions without options."""
    ids: Sequence[str] | None
    """Ids of the cases; None where they are secret."""
    list_link: str
    """Address of the list of these cases; empty in the static site, and where texts are not shown."""
    links: Mapping[str, str]
    """Instance id -> address of its case, for the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreChange:
    """One model on one benchmark in two releases."""

    change: CellChange
    """Both values and the changed inputs."""
    title: str
    """Name of the benchmark."""
    places: int
    """Decimals of the values."""
    inputs: str
    """Changed inputs, as text."""
    marks: Sequence[Mark]
    """Labels such as `imported`."""
    cases: ChangedCases | None
    """The runs behind both, instance by instance; None if it is the same run."""
    groups: Sequence[CaseGroup]
    """The cases that changed, by kind."""

    @property
    def has_other_value(self) -> bool:
        """Return True if the value differs."""
        return self.change.before != self.change.now

    @property
    def is_changed(self) -> bool:
        """Return True if the value differs, or completions give other answers."""
        return self.has_other_value or any(one.n for one in self.groups)

    @property
    def is_separated(self) -> bool:
        """Return True if the difference is significant, and both were measured in the same way."""
        cases = self.cases
        return bool(cases and cases.p_adjusted is not None and cases.p_adjusted <= LEVEL)


def page(site: Site, request: PageRequest) -> Page:
    """Return the comparison of two releases; without names that of the latest with the store as it is."""
    first, second, *also = names = compared_names(site, request)
    found = comparison_of(site, first, second)
    sides = side_by_side(site, names)
    rows = _rows(site, request, found)
    changed = [row for row in rows if row.is_changed]
    known, titles = side_titles(site), _titles(found)
    stores = current_stores(site)
    trend = _trend_of(site, names, found)
    values = {
        "first": first,
        "second": second,
        "earlier": [(name, title) for name, title in known.items() if name != CURRENT],
        "choices": list(known.items()),
        "pairs": list(combinations(known, 2))[:MOST_PAIRS],
        "names": known,
        "sides": sides,
        "also": also,
        "further": [(name, title) for name, title in known.items() if name not in names],
        "columns": _columns(request, names),
        "outcomes": OUTCOMES,
        "sides_in_words": [site.shortened(one) for one in verdict_of_sides(sides)],
        "reasons": [site.shortened(one) for one in reasons_in_words(sides)],
        "problems": [one.problem for one in site.releases().values() if one.problem],
        "facts": [
            {
                **fields_json(RELEASE_FIELDS, one),
                **({"sha256": ""} if name in stores else {}),
                "signature": _signature(site, name),
            }
            for one, name in ((found.first, first), (found.second, second))
        ],
        "same": not found.diff.board and not found.diff.cells,
        "verdict": [*filter(None, (verdict(found, changed), rank_cause(found.diff)))],
        "trend": trend if trend.has_data else None,
        "trend_links": chart_links(request, "releases_chart", trend.name, {"before": first, "now": second}),
        "added": presence_sentences(found.diff),
        "ranks": rank_sentences(found.diff),
        "options": difference_rows(found.diff.options),
        "most_ids": MOST_IDS,
        "changed": changed,
        "unchanged": [row for row in rows if not row.is_changed],
        "only": [[(model, titles.get(name, name)) for model, name in side] for side in found.only],
        "board": difference_rows(found.diff.board[:SHOWN]),
        "n_board": len(found.diff.board),
        "site_tier": "sample" if "sample" in map(tier_of, (found.first, found.second)) else site.known_tier,
    }
    return Page(
        template="releases.html", title="Stores and releases" if len(stores) > 1 else "Compare releases", values=values
    )


def _columns(request: PageRequest, names: Sequence[str]) -> list[str]:
    """Return for each column the address of the page without it; empty for the two that are compared in detail."""
    state = {"before": names[0], "now": names[1]}
    return ["", "", *(request.here(**state, also=[one for one in names[2:] if one != name]) for name in names[2:])]


def chart(site: Site, request: PageRequest) -> Download:
    """Return the chart of the models over releases as a file."""
    names = compared_names(site, request)
    found = comparison_of(site, *names[:2])
    return chart_file(request.text("chart"), {"trend": lambda: _trend_of(site, names, found)})


def _trend_of(site: Site, names: Sequence[str], found: ReleaseComparison) -> Chart:
    """Return the chart of the releases that rank by the same number as the later one, in the order of time.

    The present state of each compared store follows if it differs from its latest release. `names`: of the columns.
    """
    stores = current_stores(site)
    frozen = [one for one in site.releases().values() if one.release]
    shown = [shown_release(site, side_of(site, one.name, one.name)) for one in frozen]
    present, without = [], []
    for name, side in zip(names, (found.first, found.second), strict=False):
        if name not in stores:
            continue
        is_own = [len(stores) == 1 or one.store == stores[name] for one in frozen]
        if not any(is_own):
            without.append(name)
        elif list(compress(shown, is_own))[-1].leaderboard["models"] != side.leaderboard["models"]:
            present.append(replace(side, name="now" if name == CURRENT else f"{name}, now"))
    return trend_chart([one for one in (*shown, *present) if is_comparable(one, found.second)], without)


def _signature(site: Site, name: str) -> str:
    """Return whether a release is signed, and how to check it."""
    known = site.releases().get(name)
    if known is None or known.release is None:
        return ""
    if not known.is_signed:
        return "not signed"
    return f"signed; `medhelm verify {known.release.name} --signed-by KEY` checks it"


def csv(site: Site, request: PageRequest) -> Download:
    """Return the changed scores as CSV."""
    tested = select_fields(CASE_FIELDS, "difference low high n p_adjusted n_gained n_lost n_other")
    headers = ["benchmark", "model", "before", "now", "changed_inputs", *(field.key for field in tested[:-3])]
    headers += ["only_later_right", "only_earlier_right", "other_answer", "not_compared_because"]
    rows: list[list[Any]] = []
    for row in _rows(site, request, comparison_of(site, *compared_names(site, request)[:2])):
        cases, change = row.cases, row.change
        numbers = [field.get(cases) if cases and cases.has_cases else None for field in tested]
        reason = cases.reason if cases else ""
        rows.append([change.benchmark, change.model, change.before, change.now, row.inputs, *numbers, reason])
    text = render(rows, headers, format="csv")
    return text_download(text, "releases", "csv")


def json_list(site: Site, request: PageRequest) -> Download:
    """Return the releases as JSON."""
    del request
    known = [
        {**fields_json(RELEASE_FIELDS, one.release), "name": name}
        for name, one in site.releases().items()
        if one.release
    ]
    return json_download({"releases": known}, "releases")


def json_(site: Site, request: PageRequest) -> Download:
    """Return the comparison as JSON, with the keys of `medhelm diff --json`."""
    names = compared_names(site, request)
    found, sides = comparison_of(site, names[0], names[1]), side_by_side(site, names)
    content = {**comparison_as_json(found), **sides_as_json(sides)}
    return json_download(renamed_json(site.names, content), "release-comparison")


def verdict(found: ReleaseComparison, changed: Sequence[ScoreChange]) -> str:
    """Return how many scores changed, and which changes are significant."""
    if not changed:
        return "No score changed."
    n = sum(row.has_other_value for row in changed)
    text = f"{n:,} of {plural(len(_shared_scores(found)), 'score')} changed."
    if same := len(changed) - n:
        text += f" {plural(same, 'score')} stayed the same, but other cases are right."
    tested = [row for row in changed if row.cases and row.cases.difference]
    if not tested:
        because = {row.cases.reason for row in changed if row.cases}
        return f"{text} No change could be tested: {because.pop() if len(because) == 1 else 'see the reasons below'}."
    significant = [
        f"{row.change.model} on {row.title} ({'better' if row.cases.difference.value > 0 else 'worse'})"
        for row in tested
        if row.is_separated and row.cases and row.cases.difference
    ]
    names = f": {listed(significant, 5)}" if significant else ""
    if len(tested) == 1:
        return f"{text} The one that could be tested is {'' if significant else 'not '}significant{names}."
    n_significant = f"{len(significant):,}" if significant else "none"
    are = "is" if len(significant) < 2 else "are"
    return f"{text} Of the {len(tested):,} that could be tested, {n_significant} {are} significant{names}."


def _shared_scores(found: ReleaseComparison) -> set[tuple[str, str]]:
    """Return model and benchmark of the scores that both releases have."""
    keys = [{(one.model, one.benchmark) for one in release.provenance} for release in (found.first, found.second)]
    return keys[0] & keys[1]


def _titles(found: ReleaseComparison) -> dict[str, str]:
    """Map ids of benchmarks to their titles."""
    entries = [*found.first.leaderboard["benchmarks"], *found.second.leaderboard["benchmarks"]]
    return {entry["id"]: str(entry.get("title", entry["id"])) for entry in entries}


def _rows(site: Site, request: PageRequest, found: ReleaseComparison) -> list[ScoreChange]:
    """Return the scores whose value or inputs changed, in the order of the leaderboard's benchmarks."""
    titles = _titles(found)
    wide = {entry["id"] for entry in found.second.leaderboard["benchmarks"] if entry.get("high") not in (None, 1, 1.0)}
    cases = {(one.model, one.benchmark): one for one in found.cases}
    imported = {(one.model, one.benchmark) for one in found.second.provenance if _is_imported(one)}
    order = list(titles)
    rows = [
        ScoreChange(
            change=change,
            title=titles.get(change.benchmark, change.benchmark),
            places=2 if change.benchmark in wide else 3,
            inputs=reasons(change.why),
            marks=[IMPORTED] if (change.model, change.benchmark) in imported else [],
            cases=cases.get((change.model, change.benchmark)),
            groups=_case_groups(site, request, cases.get((change.model, change.benchmark))),
        )
        for change in found.diff.cells
    ]
    return sorted(rows, key=lambda row: order.index(row.change.benchmark) if row.change.benchmark in titles else -1)


def _case_groups(site: Site, request: PageRequest, cases: ChangedCases | None) -> list[CaseGroup]:
    """Return the cases of a changed score by the kind of their change, with links to the lists and to each case."""
    if cases is None or not cases.has_cases:
        return []
    first, second = compared_names(site, request)[:2]
    earlier, later = model_names(site, cases.model, first, second)
    pair = {"benchmark": cases.benchmark, "before": first, "now": second}
    kinds: list[tuple[str, int | None, Sequence[str] | None, dict[str, str]]] = [
        ("Newly right", cases.n_gained, cases.gained, {"got": later, "missed": earlier}),
        ("Newly wrong", cases.n_lost, cases.lost, {"got": earlier, "missed": later}),
        ("Other answer", cases.n_other, cases.other, {"got": later, "missed": earlier, "show": "other_answer"}),
    ]
    # The static site has pages of the changed cases of its first pair only.
    has_pages = not request.is_static or [first, second] == compared_names(site, Parameters())[:2]
    exported = _exported_ids(site, request, cases.benchmark) if request.is_static else frozenset()
    groups = []
    for title, n, every, search in kinds:
        ids = [one for one in every if one in exported] if request.is_static and every is not None else every
        shown = (ids or ())[:MOST_IDS]
        page = {**pair, "a": earlier, "b": later, **search} if has_pages else {"benchmark": cases.benchmark}
        links = {one: request.links.to("case", {**page, "case": url_key(one)}) for one in shown}
        has_list = bool(n) and ids is not None and not request.is_static
        list_link = request.links.to("cases", {**pair, **search}) if has_list else ""
        groups.append(CaseGroup(title=title, n=n, ids=ids, list_link=list_link, links=links))
    return groups


def _exported_ids(site: Site, request: PageRequest, benchmark: str) -> frozenset[str]:
    """Return the ids of the cases that a static site holds: nothing is said of others."""
    if not any(cell.benchmark == benchmark for cell in site.inputs().cells):
        return frozenset()
    return frozenset(exported_cases(site, opened(site, benchmark), request.most_cases))


def _is_imported(basis: CellProvenance) -> bool:
    """Return True if the prompts of a run come from another harness."""
    return bool(basis.origin) and not basis.origin.get("our_task")
