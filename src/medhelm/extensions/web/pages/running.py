"""Evaluations in progress: their page and JSON, and the requests that stop or remove one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from medhelm.domain import Run
from medhelm.extensions.web import live_status
from medhelm.extensions.web.live_status import EvaluationProgress, ModelProgress
from medhelm.extensions.web.page import Destination, PageRequest
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Download, Page, PageNotFound, json_download
from medhelm.results.runs.selection import short_names

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

OUTCOMES: Mapping[str, str] = {"interrupt": "stopped", "budget": "stopped by the budget", "": "stopped"}
"""Message of a run that is not complete -> its state in words."""


NOT_RUNNING = "No evaluation of this name is running. It may have ended in the meantime."
"""Message about an evaluation that cannot be stopped."""


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


def start_page(site: Site) -> Page:
    """Return the first page of a site without a complete run: evaluations in progress, and how to start one."""
    statuses = Counter(str(run.status) for run in site.runs())
    values = {
        **_values(site),
        "n_stopped": statuses["partial"],
        "n_failed": statuses["failed"],
        "n_other": statuses["complete"],
    }
    return Page(template="start.html", title="No results yet", values=values)


def stop_page(site: Site, request: PageRequest) -> Page:
    """Return the question before an evaluation is stopped. Raises: PageNotFound if it is not running."""
    found = live_status.evaluations(site.stores)
    names = _names(site, found)
    for one in found:
        if one.status.id == request.text("evaluation") and one.phase == "running":
            values = {"one": _evaluation_view(site, one, names), "progress": one}
            return Page(template="stop.html", title="Stop this evaluation?", values=values)
    raise PageNotFound(NOT_RUNNING)


def stop(site: Site, parts: Mapping[str, str], _: Mapping[str, Sequence[str]]) -> Destination:
    """Ask an evaluation to stop. Raises: PageNotFound if it is not running."""
    if not live_status.stop(site.stores, parts["evaluation"]):
        raise PageNotFound(NOT_RUNNING)
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
    words = {"running": "running", "stopping": "stopping", "stopped": "stopped", "lost": "ended without a record"}
    counts = {phase: sum(one.phase == phase for one in found) for phase in words}
    if not found:
        return "No evaluation is running."
    parts = [f"{counts[phase]} {text}" for phase, text in words.items() if counts[phase]]
    return f"Evaluations: {', '.join(parts)}."


def _evaluation_view(site: Site, one: EvaluationProgress, names: Mapping[str, str]) -> dict[str, object]:
    """Return an evaluation with the texts that the page shows."""
    titles = {run.benchmark: site.title_of(run.benchmark) for run in one.status.runs}
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
            "title": site.title_of(run.benchmark),
            "model": names[run.model],
            "ended": _local_time(end),
            "state": "complete" if run.status == "complete" else OUTCOMES.get(run.message, "model cannot be used"),
        }
        for end, run in latest
    ]


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
