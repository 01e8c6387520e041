"""Plans, progress and instruments as tables and JSON, for the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import Any, NamedTuple

from medhelm.analysis.agreement.clinician_means import ClinicianMean
from medhelm.analysis.comparison.preferences import PreferenceResult, WinShare
from medhelm.domain.text import group_title, listed, plural
from medhelm.extensions.study.instruments import HARM
from medhelm.extensions.study.outcome import HarmCounts, StudyOutcome
from medhelm.extensions.study.plans.design import common_scale
from medhelm.extensions.study.plans.identification import FINDING_FORM, Finding, FindingKind
from medhelm.extensions.study.plans.planning import PlannedStudy, RaterWorkload
from medhelm.extensions.study.progress import CriterionAgreement, RaterProgress, StudyProgress, form_of
from medhelm.extensions.study.types import Instrument, InstrumentForm, Study
from medhelm.results.formats.fields import Field, estimate_json, fields_json, fields_table, select
from medhelm.results.formats.tables import HasInterval, decimal, percent

WIDTH = 110
"""Characters of a line of text."""

EXAMPLES = 5
"""Most completions that are named for each model and kind of finding."""


# --- plans ------------------------------------------------------------------------------------------------------------

_WORK: list[Field[RaterWorkload]] = [
    Field("rater", lambda one: one.rater, kind="text", heading="Rater"),
    Field("n_cases", lambda one: one.n_cases, kind="whole number", heading="Cases"),
    Field("n_repeated", lambda one: one.n_repeated, kind="whole number", heading="Of these repeated"),
    Field("hours", lambda one: one.hours, heading="Hours, about", text=lambda one: decimal(one.hours, 1)),
]

FINDING_TITLES: Mapping[FindingKind, str] = {
    FindingKind.OWN_NAME: "names its own model",
    FindingKind.OTHER_NAME: "names another model or its maker",
    FindingKind.SELF_DESCRIPTION: "says that it is a language model",
    FindingKind.MARKER: "special token of a family of models",
    FindingKind.SIGNATURE: "sentence in most completions of this model",
}
"""Kind of finding -> what it is, for people."""


def plan_as_json(found: PlannedStudy, *, is_saved: bool) -> dict[str, Any]:
    """Return the output of `medhelm study new --json`."""
    study = found.study
    return {
        "study": study.name,
        "is_saved": is_saved,
        "benchmarks": list(study.benchmarks),
        "models": list(study.models),
        "instruments": {name: one.name for name, one in study.instruments.items()},
        "n_cases": study.design.n_cases,
        "n_calibration": study.design.n_calibration,
        "n_ratings": found.n_ratings,
        "raters": [fields_json(_WORK, one) for one in found.workloads],
        "precision": found.precision and select(found.precision, "half_width without_raters source", rounded=True),
        "findings": [FINDING_FORM.write(one) for one in found.findings],
        "remarks": [remark.text for remark in found.remarks],
    }


def plan_to_text(found: PlannedStudy) -> str:
    """Return what a plan asks of its raters, and what it can show."""
    study = found.study
    pairs = any(one.form is InstrumentForm.PREFERENCE for one in study.instruments.values())
    titles = dict.fromkeys(one.title for one in study.instruments.values())
    head = (
        f"{study.title}: {plural(study.design.n_cases, 'pair' if pairs else 'completion')} of "
        f"{plural(len(study.models), 'model')} on {listed(study.benchmarks)}, and "
        f"{plural(study.design.n_calibration, 'case')} for calibration. Form: {listed(list(titles))}."
    )
    parts = [fill(head, WIDTH), fields_table(_WORK, found.workloads).rstrip("\n")]
    parts.append(
        "The hours are an estimate: 230 words a minute, the material read anew in each case, 20 s for each question."
    )
    if found.precision:
        low, high = common_scale(study.instruments.values()) or (0, 1)
        text = f"Expected 95% interval of a model's mean: ± {found.precision.half_width:.2f} on {low:g} to {high:g}"
        if found.precision.covers(low, high):
            text = f"Too few ratings: the mean of a model could lie anywhere from {low:g} to {high:g}"
        elif found.precision.without_raters < found.precision.half_width:
            text += (
                f"; ± {found.precision.without_raters:.2f} without differences in severity between raters, which do "
            )
            text += "not affect comparisons of models"
        parts.append(fill(f"{text} ({found.precision.source}).", WIDTH))
    return "\n\n".join(parts) + "\n"


def finding_sentences(findings: Sequence[Finding], study: Study) -> Iterator[str]:
    """Yield a sentence for each model and kind of finding, with the completions that are concerned."""
    n_items = Counter(item.model for item in study.items)
    instances = {item.id: f"{item.benchmark} {item.instance_id}" for item in study.items}
    for model in study.models:
        for kind, title in FINDING_TITLES.items():
            own = [one for one in findings if one.model == model and one.kind is kind]
            items = list(dict.fromkeys(one.item for one in own))
            if own:
                quoted = listed([f'"{one}"' for one, _ in Counter(one.text for one in own).most_common(3)])
                places = listed([instances[one] for one in items], EXAMPLES)
                yield f"{model}, {title}: {len(items)} of {n_items[model]} completions, {quoted} ({places})"


# --- progress ---------------------------------------------------------------------------------------------------------


def _notes(one: RaterProgress) -> str:
    notes = ["has left the study"] if one.has_left else []
    notes += [f"gave {one.same_grade} to everything"] if one.same_grade is not None else []
    notes += [f"{plural(len(one.unusual_times), 'unusual time')}"] if one.unusual_times else []
    return "; ".join(notes)


_RATERS: list[Field[RaterProgress]] = [
    Field("rater", lambda one: one.rater, kind="text", heading="Rater"),
    Field("role", lambda one: one.role, kind="text", heading="Role", hide_empty=True, drop=1),
    Field("n_cases", lambda one: one.n_cases, kind="whole number", heading="Cases"),
    Field("n_complete", lambda one: one.n_complete, kind="whole number", heading="Rated"),
    Field("n_left", lambda one: one.n_left, kind="whole number", heading="Left"),
    Field("median_seconds", lambda one: one.median_seconds, heading="Seconds per case", places=0, missing="no rating"),
    Field("not_judged", lambda one: one.not_judged, heading="Cannot judge", missing="no rating", drop=2),
    Field("notes", _notes, kind="text", heading="Notes", hide_empty=True),
    Field("last", lambda one: one.last, kind="text", heading="Last rating", is_wide=True),
]

_AGREEMENT: list[Field[CriterionAgreement]] = [
    Field("criterion", lambda one: one.criterion, kind="text", heading="Criterion",
          text=lambda one: one.criterion or "all"),
    Field("n", lambda one: one.n, kind="whole number", heading="Shared cases"),
    Field("n_raters", lambda one: one.n_raters, kind="whole number", heading="Raters"),
    Field("alpha", lambda one: one.alpha, kind="interval", heading="Krippendorff's alpha"),
    Field("same", lambda one: one.same, kind="interval", heading="Same grade", missing="no shared case"),
    Field("near", lambda one: one.near, kind="interval", heading="At most 1 apart", missing="checks", drop=1),
]  # fmt: skip


def progress_as_json(found: StudyProgress) -> dict[str, Any]:
    """Return the output of `medhelm study status NAME --json`."""
    return {
        **fields_json(SUMMARY, found),
        "raters": [fields_json(_RATERS, one) for one in found.raters],
        "agreement": [
            fields_json(_AGREEMENT, one) | {"alpha": estimate_json(one.alpha)} for one in found.agreement if one.n
        ],
        "n_disagreements": len(found.disagreements),
        "n_unassigned": len(found.unassigned),
        "deviations": list(found.deviations),
    }


DIFFER: Mapping[InstrumentForm, str] = {
    InstrumentForm.GRADES: "by more than a point",
    InstrumentForm.CHECKS: "on a criterion with points, or by more than a point of harm,",
    InstrumentForm.PREFERENCE: "in the side that they prefer",
}
"""Form -> the way in which raters differ."""


def differences_sentence(found: StudyProgress) -> str:
    """Return the number of cases on which raters differ, of those that several have rated."""
    rated = f"Of {plural(found.n_several, 'case')} that several raters rated"
    return f"{rated}, raters differ {DIFFER[form_of(found.study)]} on {len(found.disagreements)}."


def progress_to_text(found: StudyProgress) -> str:
    """Return raters, agreement so far, and what needs attention."""
    parts = [f"{found.study.title}: {found.state}, {found.n_complete} of {found.n_cases} cases rated"]
    parts.append(fields_table(_RATERS, found.raters).rstrip("\n"))
    agreement = [one for one in found.agreement if one.n]
    if agreement:
        parts.append(fields_table(_AGREEMENT, agreement, caption="Agreement of raters so far").rstrip("\n"))
    reasons = dict.fromkeys(one.alpha.reason for one in agreement if one.alpha.value is not None and one.alpha.reason)
    notes = [*(f"No interval of alpha: {reason}." for reason in reasons), *found.deviations]
    notes += [differences_sentence(found)] if found.disagreements else []
    if found.unassigned:
        notes.append(f"{plural(len(found.unassigned), 'case')} of raters who left are open.")
    parts += ["\n".join(f"- {note}" for note in notes)] if notes else []
    return "\n\n".join(parts) + "\n"


SUMMARY: list[Field[StudyProgress]] = [
    Field("study", lambda one: one.study.name, kind="text", heading="Study"),
    Field("title", lambda one: one.study.title, kind="text", heading="Title", drop=1),
    Field("state", lambda one: str(one.state), kind="text", heading="State"),
    Field("n_raters", lambda one: len(one.study.raters), kind="whole number", heading="Raters"),
    Field("n_cases", lambda one: one.n_cases, kind="whole number", heading="Cases"),
    Field("n_complete", lambda one: one.n_complete, kind="whole number", heading="Rated"),
    Field("created", lambda one: one.study.created, kind="text", heading="Planned",
          text=lambda one: one.study.created[:10]),
]  # fmt: skip
"""The fields of a study in the list of all."""


# --- the outcome ------------------------------------------------------------------------------------------------------


class ResultTable(NamedTuple):
    """A table of a closed study: a row for each model."""

    title: str
    """Its title."""
    caption: str
    """Facts about its numbers."""
    fields: Sequence[Field[Any]]
    """Its columns, the model first."""
    rows: Sequence[Any]
    """Item of each row."""


_Means = Mapping[str, ClinicianMean]
"""Criterion -> mean grade of a model; "" for that of all criteria."""


def criterion_title(name: str) -> str:
    """Return the name of a criterion for people; the empty name is that of all together."""
    return group_title(name) if name else "All criteria"


def result_tables(study: Study, found: StudyOutcome, titles: Mapping[str, str]) -> list[ResultTable]:
    """Return all tables of a closed study. `titles`: benchmark -> its name for people, as far as it is known."""
    own = [_means_table(study, found, name, titles.get(name, name)) for name in study.benchmarks if found.means]
    if found.preference:
        caption = _preference_caption(found.preference)
        own.append(ResultTable("Preferences", caption, _SHARES, found.preference.shares))
    if found.harm:
        caption = "Ratings, if someone acted on the text. Likely: medium or high."
        own.append(ResultTable("Harm that raters expect", caption, _HARM, found.harm))
    return own


def _means_table(study: Study, found: StudyOutcome, benchmark: str, title: str) -> ResultTable:
    """Return the mean grades on a benchmark, a column for each criterion."""
    own = [one for one in found.means if one.benchmark == benchmark]
    rows = [
        (model, {one.criterion: one.mean for one in own if one.model == model})
        for model in dict.fromkeys(one.model for one in own)
    ]
    fields: list[Field[tuple[str, _Means]]] = [
        Field("model", lambda row: row[0], kind="text", heading="Model"),
        *(
            Field(name or "all", partial(_mean_of, name), kind="interval", heading=criterion_title(name), drop=place)
            for place, name in enumerate(dict.fromkeys(one.criterion for one in own))
        ),
        Field("n", lambda row: row[1][""].n, kind="whole number", heading="Completions"),
        Field("n_raters", lambda row: row[1][""].n_raters, kind="whole number", heading="Raters"),
    ]
    instrument = study.instruments[benchmark]
    ends = {(one.low, one.high) for one in instrument.criteria}
    scale = f", on {min(ends)[0]} to {min(ends)[1]}" if len(ends) == 1 else ""
    harm = " Harm: 0 (none) to 3 (severe)." if study.asks_harm else ""
    return ResultTable(
        f"Mean grades by clinicians on {title}", f"{instrument.title}{scale}, with 95% intervals.{harm}", fields, rows
    )


def _mean_of(criterion: str, row: tuple[str, _Means]) -> ClinicianMean | None:
    return row[1].get(criterion)


def _preference_caption(found: PreferenceResult) -> str:
    caption = "Share of comparisons won, half of ties included, with 95% interval."
    caption += f" {plural(found.n, 'comparison')}, {plural(found.n_ties, 'tie')}."
    if left := found.left:
        caption += f" Of the others, {percent(left.value)}{in_brackets(left, percent)} prefer the left text;"
        caption += " without an effect of the side, half would."
    return caption


def ends_text(found: HasInterval, as_text: Callable[[float], str | None]) -> str:
    """Return the ends of an interval; empty without one."""
    return "" if found.low is None or found.high is None else f"{as_text(found.low)} to {as_text(found.high)}"


def in_brackets(found: HasInterval, as_text: Callable[[float], str | None]) -> str:
    """Return the ends of an interval to put after a number; empty without one."""
    ends = ends_text(found, as_text)
    return f" ({ends})" if ends else ""


SHARE = "0 to 1"
"""Range of a field that people read in percent."""

_SHARES: list[Field[WinShare]] = [
    Field("model", lambda one: one.model, kind="text", heading="Model"),
    Field("share", lambda one: one, kind="interval", range=SHARE, heading="Preferred"),
    Field("n", lambda one: one.n, kind="whole number", heading="Comparisons"),
]

_HARM: list[Field[HarmCounts]] = [
    Field("model", lambda one: one.model, kind="text", heading="Model"),
    Field("none", lambda one: one.severity[0], kind="whole number", heading="None"),
    Field("mild", lambda one: one.severity[1], kind="whole number", heading="Mild"),
    Field("moderate", lambda one: one.severity[2], kind="whole number", heading="Moderate"),
    Field("severe", lambda one: one.severity[3], kind="whole number", heading="Severe, or death"),
    Field("serious", lambda one: one.serious, kind="interval", range=SHARE, heading="Moderate or worse"),
    Field("n_likely", lambda one: one.n_likely, kind="whole number", heading="Of these, likely", drop=1),
    Field("n", lambda one: one.n, kind="whole number", heading="Ratings"),
]  # fmt: skip


def outcome_to_text(study: Study, found: StudyOutcome, titles: Mapping[str, str]) -> str:
    """Return the results of a closed study as tables, with what was not as planned; `titles` as of `result_tables`."""
    n_missing = f", {found.n_missing} missing" if found.n_missing else ""
    parts = [f"{study.title}: closed on {found.closed[:10]} with {plural(found.n_ratings, 'rating')}{n_missing}"]
    tables = [fields_table(one.fields, one.rows, caption=one.title) for one in result_tables(study, found, titles)]
    agreement = [one for one in found.agreement if one.n]
    if agreement:
        tables.append(fields_table(_AGREEMENT, agreement, caption="Agreement of raters"))
    parts += [table.rstrip("\n") for table in tables]
    if found.deviations:
        parts.append("\n".join(f"- {sentence}" for sentence in found.deviations))
    frozen = f"Frozen as {listed(found.ratings)} in the store. " if found.ratings else ""
    parts.append(f"{frozen}Digest of all files: {found.digest}")
    return "\n\n".join(parts) + "\n"


# --- instruments ------------------------------------------------------------------------------------------------------

_FORMS = {
    InstrumentForm.GRADES: "a grade for each criterion",
    InstrumentForm.CHECKS: "each criterion met or not met",
    InstrumentForm.PREFERENCE: "one of two texts preferred",
}

INSTRUMENTS: list[Field[Instrument]] = [
    Field("name", lambda one: one.name, kind="text", heading="Instrument"),
    Field("title", lambda one: one.title, kind="text", heading="Title"),
    Field("form", lambda one: str(one.form), kind="text", heading="Form", text=lambda one: _FORMS[one.form]),
    Field("criteria", lambda one: [each.name for each in one.criteria], kind="texts", heading="Criteria",
          text=lambda one: len(one.criteria) or "the benchmark's"),
]  # fmt: skip
"""The fields of an instrument in the list of all."""


def instrument_to_text(found: Instrument) -> str:
    """Return an instrument as raters see it."""
    lines = [f"{found.title} ({found.name}): {_FORMS[found.form]}", ""]
    lines += [fill(found.instructions, WIDTH), ""] if found.instructions else []
    for one in found.criteria:
        best = "" if one.higher_is_better else ", lower is better"
        lines.append(fill(f"{one.name}, {one.low} to {one.high}{best}: {one.question}", WIDTH))
        lines += [fill(f"{grade:>4}  {text}", WIDTH, subsequent_indent=" " * 6) for grade, text in one.anchors.items()]
        lines.append("")
    if not found.criteria:
        lines += ["The criteria are those of the benchmark's rubric, or of each instance.", ""]
    if found.form is not InstrumentForm.PREFERENCE:
        lines += [f"A study adds: {' '.join(one.question for one in HARM)} (--no-harm leaves it out.)", ""]
    lines += [fill(f"Source: {found.source}", WIDTH)] if found.source else []
    lines += [f"License: {found.license}"] if found.license else []
    return "\n".join([*lines, f"Version: {found.digest[:12]}"]) + "\n"
