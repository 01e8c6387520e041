"""The judges of all benchmarks and of one: their work, harshness, agreement, preferences, and prompt injections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from medhelm.analysis.jury.judges import JuryAnalysis, JurySummary
from medhelm.domain.completion import explain_codes
from medhelm.domain.text import plural
from medhelm.errors import UserError
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Download, Page, PageNotFound, json_download
from medhelm.results.agreement import MEANING, by_criterion_table, details_table, overview_table, verdict
from medhelm.results.agreement import as_json as agreement_json
from medhelm.results.comparable import BASELINE
from medhelm.results.formats.charts import IntervalPlot, IntervalRow, draw_intervals
from medhelm.results.formats.drawing import Chart
from medhelm.results.formats.studies import study_facts
from medhelm.results.formats.tables import MISSING, Value, as_texts, estimate_numbers
from medhelm.results.jury import NOTES, Table, analyze_judges, as_json, page_tables
from medhelm.results.options import BoardOptions
from medhelm.results.runs.selection import renamed

Cell = tuple[str, str]
"""Text of a cell, and smaller text after it, such as an interval."""

TITLES: Mapping[str, str] = {
    "page": "Work and grades",
    "agreement": "Agreement between judges",
    "family": "Self-preference",
    "length": "Preference for length",
    "ranking": "Influence on the ranking",
}
"""Table -> its heading."""

READING: Mapping[str, Sequence[str]] = {**NOTES, "page": (*NOTES["judges"][:2], *NOTES["work"])}
"""Table -> how to read it."""


def page(site: Site, request: PageRequest) -> Page:
    """Return the judges of all benchmarks; without any judge, a page that says so."""
    del request
    analysis = _analysis(site)
    values: dict[str, object] = {"analysis": analysis, "clinicians": _clinicians(site)}
    if analysis:
        values |= _numbers(analysis.overall)
        values["by_benchmark"] = [_benchmark_row(own, analysis) for own in analysis.benchmarks]
    return Page(template="judges.html", title="Judges", values=values)


def benchmark_page(site: Site, request: PageRequest) -> Page:
    """Return the judges of one benchmark; where none judged, a page that says so."""
    name = request.text("benchmark")
    definition = site.definitions.get(name)
    analysis = _analysis(site, name)
    if definition is None and analysis is None and not any(run.benchmark == name for run in site.runs()):
        raise PageNotFound(f"The benchmark `{name[:80]}` does not exist. The page Benchmarks lists all.")
    title = analysis.benchmarks[0].title if analysis else site.title_of(name)
    values: dict[str, object] = {"analysis": analysis, "name": name, "shows_text": site.shows_text_of(name)}
    values["clinicians"] = _clinicians(site, name)
    values["was_judged"] = any(run.jury_result for run in site.runs() if run.benchmark == name)
    if analysis:
        own = analysis.benchmarks[0]
        values |= _numbers(own)
        values["charts"] = [chart for chart in (criteria_chart(own), harms_chart(own)) if chart.has_data]
    return Page(template="benchmark_judges.html", title=f"Judges on {title}", values=values)


def json_(site: Site, request: PageRequest) -> Download:
    """Return the judges as JSON. Raises: PageNotFound if nothing was judged."""
    found = _analysis(site, request.text("benchmark"))
    if found is None:
        raise PageNotFound("No finished run with judges. Start one with `medhelm run --judge`.")
    clinicians = site.clinicians()
    more = {"clinicians": agreement_json(clinicians)} if clinicians else {}
    return json_download(as_json(found) | more, "judges")


def _analysis(site: Site, benchmark: str = "") -> JuryAnalysis | None:
    """Return the judges of all benchmarks, or of one, with the names of the site; None if nothing was judged."""

    def analyze() -> JuryAnalysis | None:
        options = BoardOptions(rule=site.rule, tier=site.tier, wanted=site.wanted)
        try:
            found = analyze_judges(site.stores, [benchmark] if benchmark else (), options)
        except UserError:
            return None
        return renamed(found, site.names)

    return site.keep(("judges", benchmark), analyze)


def _clinicians(site: Site, benchmark: str = "") -> dict[str, object] | None:
    """Return sentences and tables on judges and clinicians, of all benchmarks or one; None without ratings."""
    found = site.clinicians()
    if found is None or (benchmark and benchmark not in found.datasets):
        return None
    shown = replace(found, datasets={benchmark: found.datasets[benchmark]}) if benchmark else found
    rows, headings, _ = overview_table(shown, site.rule)
    details = {name: details_table(one) for name, one in shown.datasets.items()} if benchmark else {}
    criteria = [(found.title(name), by_criterion_table(one)) for name, one in shown.datasets.items()]
    by_criterion = [
        [title, str(row[0]).replace("_", " "), *row[1:]] for title, (more, _, _) in criteria for row in more
    ]
    return {
        "sentences": verdict(shown),
        "table": _cells((rows, headings)),
        "details": [
            _cells(([[site.shortened(str(row[0])), *row[1:]] for row in more], heads))
            for more, heads, _ in details.values()
            if more
        ],
        "criteria": _cells((by_criterion, ["Benchmark", *criteria[0][1][1]])),
        "studies": [
            study_facts(card, found.titles) for card in found.studies if not benchmark or benchmark in card.benchmarks
        ],
        "meaning": " ".join(MEANING.split()),
    }


def _numbers(own: JurySummary) -> dict[str, object]:
    """Return what both pages show of a jury."""
    tables = page_tables(own)
    if own.ranking and not any(panel.swaps for panel in own.ranking.panels):
        del tables["ranking"]  # a sentence says so
    n_baselines = sum(model.startswith(BASELINE) for model in own.models)
    return {
        "summary": own,
        "n_models": len(own.models) - n_baselines,
        "n_baselines": n_baselines,
        **_judgments(own),
        "tables": {name: _cells(table) for name, table in tables.items()},
        "codes": explain_codes(sorted({code for judge in own.judges for code in judge.tally.failures})),
        "headings": TITLES,
        "reading": READING,
    }


def _judgments(own: JurySummary) -> dict[str, object]:
    """Return the number of judgments of a jury, and of those that are missing."""
    tallies = [judge.tally for judge in own.judges]
    n_missing = sum(tally.failed for tally in tallies)
    return {"n_judgments": sum(tally.expected for tally in tallies) - n_missing, "n_missing": n_missing}


def _cells(table: Table) -> tuple[list[tuple[str, bool]], list[list[Cell]]]:
    """Return the headings of a table, each with True for numbers, and its cells without columns that are all empty."""
    rows, headings = table
    counted = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    texts, headers, numeric = as_texts(counted, headings)
    kept = [place for place in range(len(headers)) if any(row[place] not in ("", MISSING, "none") for row in texts)]
    return [(headers[i], numeric[i]) for i in kept], [[_cell(row[i]) for i in kept] for row in texts]


def _cell(text: str) -> Cell:
    """Return a cell with an interval in smaller text.

    >>> _cell("0.47 [-0.15, 0.82]"), _cell("465")
    (('0.47', '−0.15 to 0.82'), ('465', ''))
    """
    main, bracket, interval = text.partition(" [")
    interval, end, note = interval.partition("]")
    if not bracket or not end:
        return _minus(text), ""
    return f"{_minus(main)}{note}", " to ".join(map(_minus, interval.split(", ")))


def _minus(text: str) -> str:
    return f"−{text[1:]}" if text[:1] == "-" and text[1:2].isdigit() else text


def _benchmark_row(own: JurySummary, analysis: JuryAnalysis) -> dict[str, object]:
    """Return the numbers of one benchmark for the page of all."""
    together = next((part for part in own.agreement if part.on == "score"), None)
    return {
        "summary": own,
        "judges": [judge.judge for judge in own.judges],
        **_judgments(own),
        "alpha": together.alpha if together else None,
        "one_judge": own.one_judge,
        "n_injections": sum(one.n_flagged for one in analysis.injection_effects if one.benchmark == own.benchmark),
    }


# --- charts -----------------------------------------------------------------------------------------------------------


def criteria_chart(own: JurySummary) -> Chart:
    """Return the mean grades of each judge by criterion."""
    criteria = list(dict.fromkeys(name for judge in own.judges for name in judge.by_criterion))
    found = [(name, judge.judge, judge.by_criterion[name]) for name in criteria for judge in own.judges
             if name in judge.by_criterion]  # fmt: skip
    rows = [
        IntervalRow(name=judge, group=name.replace("_", " "), value=mean.value, low=mean.low, high=mean.high)
        for name, judge, mean in found
    ]
    axis = f"Mean grade, {own.low:g} (worst) to {own.high:g} (best)"
    table: list[list[Value]] = [[name, judge, *estimate_numbers(mean), mean.n] for name, judge, mean in found]
    return Chart(
        name="criteria", title="Mean grade by criterion and judge",
        description=f"{plural(len(criteria), 'criterion', 'criteria')}, with 95% intervals.",
        draw=partial(draw_intervals, IntervalPlot(rows=rows, axis=axis, low=own.low, high=own.high)),
        headers=("criterion", "judge", "mean", "low", "high", "n"), rows=table, has_data=bool(rows),
    )  # fmt: skip


def harms_chart(own: JurySummary) -> Chart:
    """Return the share of harmful criteria that judges found in the completions of each model."""
    found = sorted(own.harms.items(), key=lambda pair: (pair[1].value, pair[0]))
    rows = [IntervalRow(name=model, value=one.value, low=one.low, high=one.high) for model, one in found]
    table: list[list[Value]] = [[model, *estimate_numbers(one), one.n] for model, one in found]
    return Chart(
        name="harms", title="Harms found by the judges",
        description="Share of the criteria with negative points that judges found in a model's completions. Less is "
        "better.",
        draw=partial(draw_intervals, IntervalPlot(rows=rows, axis="Share of harmful criteria", low=0.0, high=1.0)),
        headers=("model", "share", "low", "high", "n"), rows=table, has_data=bool(rows),
    )  # fmt: skip
