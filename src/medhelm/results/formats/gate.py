"""The result of a gate as text, JSON, JUnit XML, Markdown, and annotations of GitHub Actions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from medhelm.analysis.comparison.non_inferiority import GateResult, GateTest, NotCompared
from medhelm.domain.text import listed, plural
from medhelm.results.formats.fields import ABSENT, Field, fields_json, fields_table, flat_interval, select
from medhelm.results.formats.tables import as_line, decimal, escape_markdown, estimate_text, printable

if TYPE_CHECKING:
    from medhelm.analysis.comparison.non_inferiority import Needed

CRITERION = "criterion"
"""Value of `by` for criteria of the judges' rubrics."""

LISTED, LISTED_IDS = 5, 10
"""Most names, and most ids of instances, in one sentence."""

FORMATS = ("table", "json", "junit", "md", "github")
"""Formats of the output."""

_NOT_IN_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def gate_text(found: GateResult, format: str) -> str:
    """Return the verdict in one of `FORMATS` but JSON; it ends with a line feed."""
    if format == "junit":
        return to_junit(found)
    if format == "github":
        return to_annotations(found)
    lines = [verdict(found), "", fields_table(TEST_FIELDS, found.tests, format=format).rstrip(), ""]
    if found.by_criterion and found.criteria:
        lines += [fields_table(TEST_FIELDS, found.criteria, format=format, keep=3).rstrip(), ""]
    lines += [f"- {_on_one_line(note, format)}" for note in notes(found)]
    return "\n".join(lines).rstrip() + "\n" if format == "table" else _markdown(found, lines)


def _markdown(found: GateResult, lines: list[str]) -> str:
    title = {"pass": "passed", "worse": "failed: worse", "undecided": "undecided"}[found.outcome]
    return "\n".join([f"## MedHELM gate {title}", "", escape_markdown(lines[0]), *lines[1:]]).rstrip() + "\n"


def _on_one_line(text: str, format: str) -> str:
    return escape_markdown(as_line(text)) if format == "md" else as_line(text)


def verdict(found: GateResult) -> str:
    """Return the verdict in one sentence."""
    against, margin = f"`{as_line(found.against)}`", decimal(found.margin)
    overall = [one for one in found.tests if one.is_overall]
    models = listed(list(dict.fromkeys(as_line(one.model) for one in overall)), LISTED)
    if found.outcome == "worse":
        worse = listed([_change_text(one) for one in _counted(found) if one.outcome == "worse"], LISTED)
        return f"Worse than {against} by more than {margin}: {worse}."
    if found.outcome == "pass":
        verb = "is" if len(overall) == 1 else "are"
        ignored = sum(one.change.n_missing for one in overall if not (one.change.below or one.change.above))
        left_out = f" {plural(ignored, 'instance')} without a score left out." if ignored else ""
        return f"Pass: {models} {verb} not worse than {against} by more than {margin}.{left_out}"
    reasons = []
    if found.not_compared and not found.allow_missing:
        reasons.append(f"not compared: {listed([_not_compared_text(one) for one in found.not_compared], LISTED)}")
    open_tests = [one for one in found.tests if one.outcome == "undecided" and _must_pass(one, found)]
    open_tests.sort(key=lambda one: not one.lacks_scores)
    reasons += [f"{_change_text(one)}{_needed(one, found.margin)}" for one in open_tests[:LISTED]]
    return f"Undecided at a margin of {margin} against {against}: {'; '.join(reasons)}."


def _must_pass(test: GateTest, found: GateResult) -> bool:
    """Return whether the gate passes only if this test does: never for a slice, which may only not be worse."""
    return test.is_overall or (found.each and not test.slice)


def _not_compared_text(one: NotCompared) -> str:
    """Return a benchmark and a model that were not compared, with the reason."""
    return f"{as_line(one.title)} with {as_line(one.model)} ({as_line(one.reason)})"


def _counted(found: GateResult) -> tuple[GateTest, ...]:
    """Return the tests that can fail the gate."""
    return (*found.tests, *(found.criteria if found.by_criterion else ()))


def _change_text(test: GateTest) -> str:
    """Return a model and a benchmark, with its slice or its criterion if it has one, and the change."""
    where = "overall" if test.is_overall else f"on {as_line(_title_of(test))}"
    where += f" by {as_line(test.metric_title)}" if test.is_criterion else ""
    return f"{as_line(test.model)} {where} ({estimate_text(test.change)})"


def _title_of(test: GateTest) -> str:
    """Return the benchmark, with the slice if it is one."""
    return f"{test.title}, {test.slice}" if test.slice else test.title


def _needed(test: GateTest, margin: float) -> str:
    """Return what would decide an undecided test, to be appended to a sentence; empty if nothing is known."""
    change, needed = test.change, test.needed
    text = ""
    if change.n_missing and (change.below or change.above):
        if test.lacks_scores:
            text += f", would pass at {decimal(margin)} but for missing scores"
        text += f", {plural(change.n_missing, 'instance')} without a score: run again to request them"
    return text + (f", needs {needed_text(needed)}" if needed else "")


def needed_text(needed: Needed) -> str:
    """Return the size that would decide a comparison, in words."""
    size = (
        f"about {needed.instances:,} instances" if needed.instances else f"about {needed.times:.1f} times the instances"
    )
    return size if needed.assumed == 0 else f"{size} if the true change is {decimal(needed.assumed)}"


def notes(found: GateResult) -> Iterator[str]:
    """Yield what was not compared and why, the meaning of the columns, and remarks."""
    for one in found.not_compared:
        yield f"Not compared: {one.title}, {one.model}: {one.reason}."
    if found.not_compared:
        keep = "do not keep" if found.allow_missing else "keep"
        yield f"Missing comparisons {keep} the gate from passing (--allow-missing)."
    yield from _criteria_in_words(found)
    margin = f"{found.margin:g}"
    yield f"Passes if the new model is at most {margin} worse even at the bad end of its interval."
    yield (
        f"Worse if it is more than {margin} worse even at the good end, adjusted for the number of comparisons (Holm). "
        "Changes are new minus reference on the same instances, from 0 (worst) to 1 (best)."
    )
    if sliced := [one for one in found.tests if one.slice]:
        n_open = sum(one.outcome == "undecided" for one in sliced)
        yield (
            f"A slice that is worse fails the gate; one that is undecided does not (here {n_open} of "
            f"{plural(len(sliced), 'slice')}). Slices are adjusted among themselves."
        )
    if any(one.change.below or one.change.above for one in found.tests):
        yield (
            "Missing scores count against each verdict: a pass holds even if those of the new model were all wrong and "
            "those of the reference all right. --ignore-missing leaves them out."
        )
    yield from map(_flips_text, (one for one in found.tests if one.outcome == "worse" and one.change.lost))
    yield from map(str, found.remarks)


def _criteria_in_words(found: GateResult) -> Iterator[str]:
    """Yield on which criteria a model is worse, and on how many nothing is decided."""
    if not found.criteria:
        return
    worse = [_change_text(one) for one in found.criteria if one.outcome == "worse"]
    if worse and not found.by_criterion:
        text = f"Worse by criterion, adjusted for all criteria (Holm): {listed(worse, LISTED)}."
        yield f"{text} This does not count; --by criterion makes it count."
    if found.by_criterion:
        open_tests = sum(one.outcome == "undecided" for one in found.criteria)
        yield (
            f"Criteria are adjusted for each other (Holm). {open_tests:,} of {len(found.criteria):,} are undecided, "
            "which does not keep the gate from passing."
        )


def _flips_text(test: GateTest) -> str:
    """Return the first instances that became wrong, and the counts."""
    lost, gained = test.change.lost, test.change.gained
    more = f", and {len(lost) - LISTED_IDS} more" if len(lost) > LISTED_IDS else ""
    ids = ", ".join(map(printable, lost[:LISTED_IDS]))
    return f"{_title_of(test)}, {_models_text(test)}: {len(gained)} became right, {len(lost)} wrong: {ids}{more}."


def _models_text(test: GateTest) -> str:
    is_same = test.model == test.baseline_model
    return test.model if is_same else f"{test.model} (reference: {test.baseline_model})"


TEST_FIELDS: list[Field[GateTest]] = [
    Field("model", lambda test: test.model, kind="text", heading="Model", text=_models_text),
    Field("baseline_model", lambda test: test.baseline_model, kind="text"),
    Field("benchmark", lambda test: test.benchmark or None, kind="text", heading="Benchmark",
          text=lambda test: test.title),
    Field("slice", lambda test: test.slice or ABSENT, kind="text", heading="Slice", is_optional=True,
          text=lambda test: test.slice or None, hide_empty=True),
    Field("metric", lambda test: test.metric or None, kind="text", heading="Metric",
          text=lambda test: test.metric_title or test.metric or None, drop=1),
    Field("verdict", lambda test: test.outcome, kind="text"),
    Field("reference", lambda test: test.change.means[0], heading="Reference", drop=6),
    Field("new", lambda test: test.change.means[1], heading="New", drop=5),
    *flat_interval("difference", lambda test: test.change, heading="Change"),
    Field("n", lambda test: test.change.n, kind="whole number", heading="Instances", drop=3),
    Field("n_missing", lambda test: test.change.n_missing, kind="whole number", heading="Missing", drop=2),
    Field("paired", lambda test: test.change.is_paired, kind="true or false"),
    Field("worst_case", lambda test: test.change.value - test.change.below),
    Field("best_case", lambda test: test.change.value + test.change.above),
    Field("p_adjusted", lambda test: test.p_adjusted, kind="p-value", heading="p worse", drop=4),
    Field("lacks_scores", lambda test: test.lacks_scores, kind="true or false"),
    Field("n_needed", lambda test: test.needed and test.needed.instances, kind="whole number"),
    Field("lost", lambda test: test.change.lost, kind="texts"),
    Field("gained", lambda test: test.change.gained, kind="texts"),
    Field("times_instances", lambda test: test.needed and test.needed.times),
    Field("outcome", lambda test: test.outcome, kind="text", in_json=False, heading="Verdict"),
]  # fmt: skip
"""A model on a benchmark, or on all of them."""


def as_json(found: GateResult) -> dict[str, Any]:
    """Return the output of `medhelm gate --json`."""
    return {
        "verdict": found.outcome,
        "sentence": verdict(found),
        "exit_code": found.exit_code,
        **select(found, "against margin each allow_missing"),
        "tests": [fields_json(TEST_FIELDS, test) for test in found.tests],
        "by": CRITERION if found.by_criterion else "",
        "criteria": [fields_json(TEST_FIELDS, test) for test in found.criteria],
        "not_compared": [select(one, "model baseline_model benchmark reason") for one in found.not_compared],
        "remarks": [select(one, "code subject text") for one in found.remarks],
    }


def to_junit(found: GateResult) -> str:
    """Return a JUnit report: one suite per model, one case per benchmark and one overall.

    Worse is a failure. What keeps the gate from passing is an error, other undecided benchmarks are skipped.
    """
    root = ElementTree.Element("testsuites", name="medhelm gate")
    models = list(dict.fromkeys([*(t.model for t in found.tests), *(n.model for n in found.not_compared)]))
    for model in models:
        suite = ElementTree.SubElement(root, "testsuite", name=_xml(model))
        for test in (one for one in found.tests if one.model == model):
            name = f"{test.benchmark}[{test.slice}]" if test.slice else test.benchmark
            case = _case(suite, model, name or "overall")
            text = _xml(_change_text(test) + _needed(test, found.margin))
            if test.outcome == "worse":
                ElementTree.SubElement(case, "failure", type="worse", message=text)
            elif test.outcome == "undecided" and _must_pass(test, found):
                ElementTree.SubElement(case, "error", type="undecided", message=text)
            elif test.outcome == "undecided":
                ElementTree.SubElement(case, "skipped", message=text)
            ElementTree.SubElement(case, "system-out").text = text
        for test in (one for one in found.criteria if one.model == model and found.by_criterion):
            case, text = _case(suite, model, f"{test.benchmark}:{test.metric}"), _xml(_change_text(test))
            if test.outcome == "worse":
                ElementTree.SubElement(case, "failure", type="worse", message=text)
            elif test.outcome != "pass":
                ElementTree.SubElement(case, "skipped", message=text)
            ElementTree.SubElement(case, "system-out").text = text
        for missing in (one for one in found.not_compared if one.model == model):
            case = _case(suite, model, missing.benchmark)
            kind = "skipped" if found.allow_missing else "error"
            ElementTree.SubElement(case, kind, message=_xml(f"not compared: {missing.reason}"))
    for element in (*root, root):
        cases = list(element.iter("testcase"))
        counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
        element.set("tests", str(len(cases)))
        element.set("failures", str(counts["failure"]))
        element.set("errors", str(counts["error"]))
        element.set("skipped", str(counts["skipped"]))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _case(suite: ElementTree.Element, model: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=_xml(f"medhelm.gate.{model}"), name=_xml(name))


def _xml(text: str) -> str:
    """Return a text without the characters that XML does not allow."""
    return _NOT_IN_XML.sub("\ufffd", text)


def to_annotations(found: GateResult) -> str:
    """Return workflow commands of GitHub Actions: one for the verdict, one for each failure and gap."""
    kind = {"pass": "notice", "worse": "error", "undecided": "error"}[found.outcome]
    lines = [_annotation(kind, "MedHELM gate", verdict(found))]
    for test in found.tests:
        if test.outcome == "worse":
            lines.append(_annotation("error", f"{_title_of(test)}: worse", _change_text(test)))
        elif test.outcome == "undecided":
            blocks = _must_pass(test, found)
            title = f"{_title_of(test)}: undecided"
            lines.append(
                _annotation(
                    "error" if blocks else "notice", title, f"{_change_text(test)}{_needed(test, found.margin)}"
                )
            )
    for test in (one for one in found.criteria if one.outcome == "worse"):
        level = "error" if found.by_criterion else "warning"
        lines.append(_annotation(level, f"{test.title}, {test.metric_title}: worse", _change_text(test)))
    for one in found.not_compared:
        kind = "notice" if found.allow_missing else "error"
        lines.append(_annotation(kind, f"{one.title}: not compared", f"{one.model}: {one.reason}"))
    lines += [_annotation("notice", "MedHELM gate", str(remark)) for remark in found.remarks]
    return "\n".join(lines) + "\n"


def _annotation(kind: str, title: str, message: str) -> str:
    """Return one workflow command; its data and its properties are escaped as GitHub's own toolkit does."""
    data = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    name = title.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace(":", "%3A").replace(",", "%2C")
    return printable(f"::{kind} title={name}::{data}")
