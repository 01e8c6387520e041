"""Releases and evaluations in progress: their pages and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.leaderboard.diff import CellChange, ChangedCases, ReleaseComparison
from medhelm.domain import Run
from medhelm.domain.result import CellProvenance, Release
from medhelm.domain.text import listed, plural
from medhelm.extensions.web import live_status
from medhelm.extensions.web.case_search import url_key
from medhelm.extensions.web.live_status import EvaluationProgress, ModelProgress
from medhelm.extensions.web.page import (
    Destination,
    Download,
    Page,
    PageNotFound,
    PageRequest,
    json_download,
    text_download,
)
from medhelm.extensions.web.pages.leaderboard import IMPORTED, Mark
from medhelm.extensions.web.site import Site
from medhelm.results.formats.fields import fields_json, select_fields
from medhelm.results.formats.tables import render
from medhelm.results.releases import (
    CASE_FIELDS,
    CURRENT,
    RELEASE_FIELDS,
    SHOWN,
    change_sentences,
    compare_releases,
    comparison_as_json,
    current_like,
    difference_rows,
    reasons,
)
from medhelm.results.runs.selection import short_names, without_address
from medhelm.storage.releases import RELEASE

MOST_IDS = 100
"""Most cases listed for one changed score; the JSON interface has all."""

MOST_PAIRS = 200
"""Most pairs of releases that a page of the static site links to."""


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
    links: Mapping[str, str]
    """Instance id -> address of its case, for the cases of the store that are listed."""

    @property
    def has_other_value(self) -> bool:
        """Return True if the value differs."""
        return self.change.before != self.change.now

    @property
    def is_changed(self) -> bool:
        """Return True if the value differs, or other cases are right."""
        return self.has_other_value or bool(self.cases and (self.cases.n_gained or self.cases.n_lost))

    @property
    def is_separated(self) -> bool:
        """Return True if the difference is significant."""
        return bool(self.cases and self.cases.p_adjusted is not None and self.cases.p_adjusted <= LEVEL)


def page(site: Site, request: PageRequest) -> Page:
    """Return the comparison of two releases; without names that of the latest with the store as it is."""
    first, second = compared_releases(site, request)
    found = comparison_of(site, first, second)
    rows = _rows(site, request, found)
    changed = [row for row in rows if row.is_changed]
    known = [name for name, one in site.releases().items() if one.release]
    titles = _titles(found)
    values = {
        "first": first,
        "second": second,
        "releases": known,
        "choices": [*known, (CURRENT, THE_STORE)],
        "pairs": [(a, b) for at, a in enumerate(known) for b in [*known[at + 1 :], CURRENT]][:MOST_PAIRS],
        "names": {CURRENT: THE_STORE},
        "problems": [one.problem for one in site.releases().values() if one.problem],
        "facts": [fields_json(RELEASE_FIELDS, one) for one in (found.first, found.second)],
        "same": not found.diff.board and not found.diff.cells,
        "verdict": verdict(found, changed),
        "sentences": change_sentences(found.diff),
        "options": difference_rows(found.diff.options),
        "most_ids": MOST_IDS,
        "changed": changed,
        "unchanged": [row for row in rows if not row.is_changed],
        "only": [[(model, titles.get(name, name)) for model, name in side] for side in found.only],
        "board": difference_rows(found.diff.board[:SHOWN]),
        "n_board": len(found.diff.board),
        "site_tier": "sample" if "sample" in (_tier(found.first), _tier(found.second)) else site.known_tier,
    }
    return Page(template="releases.html", title="Compare two releases", values=values)


def csv(site: Site, request: PageRequest) -> Download:
    """Return the changed scores as CSV."""
    tested = select_fields(CASE_FIELDS, "difference low high n p_adjusted n_gained n_lost")
    headers = ["benchmark", "model", "before", "now", "changed_inputs", *(field.key for field in tested[:-2])]
    headers += ["only_later_right", "only_earlier_right"]
    rows: list[list[Any]] = []
    for row in _rows(site, request, comparison_of(site, *compared_releases(site, request))):
        cases, change = row.cases, row.change
        numbers = [field.get(cases) if cases and cases.difference else None for field in tested]
        rows.append([change.benchmark, change.model, change.before, change.now, row.inputs, *numbers])
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
    """Return the comparison as JSON, with the keys of `medhelm diff --json`, and the cases."""
    found = comparison_of(site, *compared_releases(site, request))
    return json_download(comparison_as_json(found), "release-comparison")


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
        return f"{text} No change could be tested, because no cases of both releases are stored."
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
            links=_case_links(site, request, cases.get((change.model, change.benchmark))),
        )
        for change in found.diff.cells
    ]
    return sorted(rows, key=lambda row: order.index(row.change.benchmark) if row.change.benchmark in titles else -1)


def _case_links(site: Site, request: PageRequest, cases: ChangedCases | None) -> dict[str, str]:
    """Return the addresses of the cases that are listed and that the store shows."""
    listed_ids = [*(cases.gained or ())[:MOST_IDS], *(cases.lost or ())[:MOST_IDS]] if cases else []
    if not cases or not listed_ids:
        return {}
    known = _instance_ids(site, cases.benchmark)
    return {
        one: request.links.to("case", {"benchmark": cases.benchmark, "case": url_key(one)})
        for one in listed_ids
        if one in known
    }


def _instance_ids(site: Site, benchmark: str) -> frozenset[str]:
    """Return the ids of the instances of the runs that count on a benchmark."""
    cells = [cell for cell in site.inputs().cells if cell.benchmark == benchmark]
    return frozenset(one for cell in cells for one in cell.ids)


def _is_imported(basis: CellProvenance) -> bool:
    """Return True if the prompts of a run come from another harness."""
    return bool(basis.origin) and not basis.origin.get("our_task")


def _tier(release: Release) -> str:
    return str(release.leaderboard.get("tier", "real"))


# --- compared releases ------------------------------------------------------------------------------------------------
# Releases of a site compared, without addresses of servers and without texts that may not be shown.

THE_STORE = "the store now"
"""Name for people of the present state of the store."""


def compared_releases(site: Site, request: PageRequest) -> tuple[str, str]:
    """Return the names of the two releases that a URL selects; without names the latest and the store as it is.

    Raises: PageNotFound for an unknown name, and without a release.
    """
    known = [name for name, one in site.releases().items() if one.release]
    if not known:
        raise PageNotFound("The store has no release yet. `medhelm release NAME` freezes the leaderboard under a name.")
    second = request.known_name("now", [*known, CURRENT], CURRENT)
    earlier = [name for name in known if name != second]
    return request.known_name("before", known, earlier[-1] if earlier else known[-1]), second


def comparison_of(site: Site, first: str, second: str) -> ReleaseComparison:
    """Return the comparison of two releases, from memory where it was made before. Raises: MedHelmError."""

    def compare() -> ReleaseComparison:
        earlier = site.releases()[first]
        later = None if second == CURRENT else site.releases()[second].release
        release = later or current_like(earlier, site.benchmark_folders)
        assert earlier.release is not None, "the name was checked"
        pair = [_shown(site, one) for one in (earlier.release, release)]
        found = compare_releases(
            replace(pair[0], name=first), replace(pair[1], name=THE_STORE if later is None else second), site.runs()
        )
        return _without_texts(site, found)

    return site.keep(("releases", first, second), compare)


def _shown(site: Site, release: Release) -> Release:
    """Return a release with the names of the site for models, and without texts of data that is not shown."""
    board = {
        **release.leaderboard,
        "benchmarks": [
            one if site.shows_text_of(one["id"]) else {key: one[key] for key in one.keys() - {"floor_answer"}}
            for one in release.leaderboard["benchmarks"]
        ],
    }
    return RELEASE.read(_renamed(site, RELEASE.write(release)), leaderboard=_renamed(site, board))


def _renamed(site: Site, value: Any) -> Any:
    """Return JSON with the names of the site for models, and without any other address."""
    if isinstance(value, str):
        return without_address(site.shortened(value))
    if isinstance(value, Mapping):
        return {_renamed(site, key): _renamed(site, one) for key, one in value.items()}
    return [_renamed(site, one) for one in value] if isinstance(value, (list, tuple)) else value


def _without_texts(site: Site, found: ReleaseComparison) -> ReleaseComparison:
    """Return the comparison without ids of instances of benchmarks whose texts may not be shown."""
    cases = [one if site.shows_text_of(one.benchmark) else replace(one, gained=None, lost=None) for one in found.cases]
    return replace(found, cases=cases)


# --- evaluations in progress ------------------------------------------------------------------------------------------
# Other processes run them. The page also shows the runs that were stored last.

MOST_ROWS = 150
"""Most runs of one evaluation with a row of their own."""

MOST_STORED = 8
"""Most stored runs that are listed."""

REASONS: Mapping[str, str] = {
    "interrupt": "Stopped by Ctrl-C.",
    "site": "Stopped from the site.",
    "budget": "Stopped by the budget.",
    "error": "Ended by an error, which its terminal shows.",
}
"""Reason for an early end -> a sentence."""

OUTCOMES: Mapping[str, str] = {"interrupt": "stopped", "budget": "stopped by the budget", "": "incomplete"}
"""Message of a run that is not complete -> its state in words."""


def running_page(site: Site, request: PageRequest) -> Page:
    """Return the page; its middle part is the same as `live`."""
    del request
    return Page(template="running.html", title="Running evaluations", values=_values(site))


def live(site: Site, request: PageRequest) -> Page:
    """Return the part of the page that a script replaces while evaluations run."""
    del request
    return Page(template="running_live.html", title="", values=_values(site))


def running_json(site: Site, request: PageRequest) -> Download:
    """Return the evaluations as JSON."""
    del request
    found = live_status.evaluations(site.stores)
    return json_download(live_status.as_json(found, _names(site, found)), "running")


def stop(site: Site, parts: Mapping[str, str], _: Mapping[str, Sequence[str]]) -> Destination:
    """Ask an evaluation to stop. Raises: PageNotFound if it is not running."""
    if not live_status.stop(site.stores, parts["evaluation"]):
        raise PageNotFound("No evaluation of this name is running. It may have ended in the meantime.")
    return Destination(route="running")


def remove(site: Site, parts: Mapping[str, str], _: Mapping[str, Sequence[str]]) -> Destination:
    """Remove an evaluation that ended from the list. Raises: PageNotFound if there is none."""
    if not live_status.remove(site.stores, parts["evaluation"]):
        raise PageNotFound("No evaluation of this name has ended.")
    return Destination(route="running")


def _values(site: Site) -> dict[str, object]:
    found = live_status.evaluations(site.stores)
    names = _names(site, found)
    return {
        "evaluations": [_evaluation_view(site, one, names) for one in found],
        "summary": _summary(found),
        "stored": _latest_runs(site, names),
        "now": _local_time(datetime.now(UTC)),
    }


def _names(site: Site, found: Sequence[EvaluationProgress]) -> Mapping[str, str]:
    """Return the names of models and judges on the site, which hold no addresses of servers."""
    known = {run.model for run in site.runs()}
    for one in found:
        known.update(run.model for run in one.status.runs)
        known.update(judge for run in one.status.runs for judge in run.judges)
        known.update(server.model for server in one.status.servers)
    return short_names(known)


def _summary(found: Sequence[EvaluationProgress]) -> str:
    """Return the states of all evaluations in a sentence; it changes only when a state does."""
    words = {"running": "running", "stopping": "stopping", "stopped": "stopped early", "lost": "ended without a record"}
    counts = {phase: sum(one.phase == phase for one in found) for phase in words}
    if not found:
        return "No evaluation is running."
    parts = [f"{counts[phase]} {text}" for phase, text in words.items() if counts[phase]]
    return f"Evaluations: {', '.join(parts)}."


def _evaluation_view(site: Site, one: EvaluationProgress, names: Mapping[str, str]) -> dict[str, object]:
    """Return an evaluation with the texts that the page shows."""
    titles = {run.benchmark: _title(site, run.benchmark) for run in one.status.runs}
    models = [names[model.model] for model in one.models]
    what = next(iter(titles.values())) if len(titles) == 1 else f"{len(titles)} benchmarks"
    who = models[0] if len(models) == 1 else f"{len(models)} models"
    most = max(MOST_ROWS // max(len(models), 1), 1)
    return {
        "progress": one,
        "title": f"{who} on {what}",
        "models": [_model_rows(model, names[model.model], titles, most) for model in one.models],
        "started": _time_text(one.status.started),
        "updated": _time_text(one.status.updated),
        "reason": REASONS.get(one.status.reason, "") if one.phase == "stopped" else "",
        "has_judges": any(run.judges for run in one.status.runs),
        "servers": [(names[server.model], server) for server in one.status.servers],
    }


def _model_rows(model: ModelProgress, name: str, titles: Mapping[str, str], most: int) -> dict[str, object]:
    """Return the rows of a model: of very many runs those in progress, then those with failures."""
    begun = [run for run in model.runs if run.state != "waiting"]
    by_interest = sorted(range(len(begun)), key=lambda i: (begun[i].state != "running", not begun[i].n_failed, i))
    shown = [begun[i] for i in sorted(by_interest[:most])]
    return {
        "name": name,
        "progress": model,
        "rows": [
            (titles[run.benchmark], run, live_status.total_progress([run]), live_status.seconds_left([run]))
            for run in shown
        ],
        "waiting": [titles[run.benchmark] for run in model.runs if run.state == "waiting"],
        "n_without_row": len(begun) - len(shown),
    }


def _latest_runs(site: Site, names: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the runs that were stored last, with the texts that the page shows."""
    ends = [(_end_time(run), run) for run in site.runs()]
    latest = sorted(ends, key=lambda pair: pair[0], reverse=True)[:MOST_STORED]
    return [
        {
            "run": run,
            "title": _title(site, run.benchmark),
            "model": names[run.model],
            "ended": _local_time(end),
            "state": "complete" if run.status == "complete" else OUTCOMES.get(run.message, "model cannot be used"),
        }
        for end, run in latest
    ]


def _title(site: Site, benchmark: str) -> str:
    known = site.definitions.get(benchmark)
    return known.title if known else benchmark


def _end_time(run: Run) -> datetime:
    return datetime.fromisoformat(run.started).astimezone(UTC) + timedelta(seconds=run.seconds)


def _time_text(text: str) -> str:
    try:
        return _local_time(datetime.fromisoformat(text))
    except ValueError:
        return text


def _local_time(moment: datetime) -> str:
    """Return a time in the time zone of the server."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
