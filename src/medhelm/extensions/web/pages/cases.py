"""One case: an instance with every model's completion, scores and judgments, and the notes that people add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from medhelm.benchmarks.prompt_parts import PromptPart, prompt_parts
from medhelm.domain import Benchmark, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import listed
from medhelm.errors import UserError
from medhelm.extensions.web.cases.case import BenchmarkCases, Case, case_models, find_case, without_addresses
from medhelm.extensions.web.cases.search import CaseSearch
from medhelm.extensions.web.cases.view import (
    LEAST_LONG,
    ShownCompletion,
    ShownText,
    TextBox,
    common_failures,
    compared_texts,
    criterion_texts,
    make_box,
    option_rows,
    shown_completion,
    shown_text,
    without_option,
)
from medhelm.extensions.web.compared import conditions_in_words
from medhelm.extensions.web.marks import scores_mark
from medhelm.extensions.web.page import MOST_PAGES, Destination, PageRequest
from medhelm.extensions.web.pages.case_list import (
    CONDITIONS,
    SHOWN,
    is_binary,
    is_graded,
    open_text,
    position_of,
    read_search,
    search_parameters,
    some_models,
)
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import (
    BadParameter,
    Download,
    Page,
    PageNotFound,
    Parameters,
    check_query,
    json_download,
    text_download,
    url_key,
)
from medhelm.results.formats.fields import fields_json, plain_json
from medhelm.storage.annotations import Annotation, add_annotation, new_annotation, remove_annotations
from medhelm.storage.store import Store, stored_folder

MOST_COMPLETIONS = 60
"""Most completions on the page."""

MOST_CHARACTER = 1_000_000_000
"""Highest position in a text."""

QUESTION = "Question"
"""Title of the field with the question."""

MOST_OF_LINES = 400
"""Most characters of completions that are shown in the rows of a table."""

REFERENCE = "reference"
"""Value of the parameter `b` that compares a completion with the reference."""

TAGS = ("wrong key", "unclear question", "dose error", "unsafe", "made up", "incomplete")
"""Tags that the form offers."""

VIEWS = {"rendered": "Rendered", "source": "Source"}
"""View of completions -> its name."""


def case_page(site: Site, request: PageRequest) -> Page:
    """Return the page of one case."""
    cases = open_text(site, request)
    search = read_search(cases, request)
    first, second = request.known_name("a", cases.runs), request.known_name("b", [*cases.runs, REFERENCE])
    wanted = [name for name in (first, second, *search.models) if name in cases.runs]
    models = some_models(cases, wanted, MOST_COMPLETIONS)
    case = find_case(cases, request.text("case"), models=models)
    if request.is_static:
        case = without_addresses(case)
    view = request.choice("view", VIEWS, "source" if case.choices else "rendered")
    find = request.text("find")
    place = (request.number("box", 1, low=1, high=MOST_PAGES), request.number("from", 1, low=1, high=MOST_CHARACTER))
    found = _shown(case, cases.definition, wanted, is_rendered=view == "rendered", needle=find or search.text)
    return Page(
        template="case.html",
        title=f"{cases.title}, case {case.instance_id[:60]}",
        values={
            "cases": cases,
            "case": case,
            "shown": found,
            "given": _given(case, cases.definition, find or search.text, place),
            "cuts": [(one.model, one.truncated_characters) for one in case.completions if one.truncated_characters],
            "references": _references(case, is_rendered=view == "rendered", needle=find or search.text),
            "options": option_rows(case, found),
            "no_option": without_option(found),
            "pair": _compared(case, found, first, second, find or search.text),
            "as_lines": bool(case.choices)
            or all(one.text.length <= MOST_OF_LINES and not one.criteria for one in found if not one.found.is_baseline),
            "not_computed": common_failures(case.completions),
            "names": site.names,
            "sides": dict(zip(("before", "now"), cases.sides or (), strict=False)),
            "conditions": conditions_in_words(site, cases),
            "position": position_of(site, request, cases, search, case.instance_id),
            "scores_mark": scores_mark,
            "graded": is_graded(cases),
            "state": {"parameters": search_parameters(search), "a": first, "b": second, "view": view, "find": find},
            "n_left_out": len(cases.models) - len(models),
            "described": _described(search),
            "binary": is_binary(cases),
            "views": VIEWS,
            "notes": _notes(case),
            "tags": list(dict.fromkeys([*TAGS, *(tag for one in case.annotations for tag in one.tags)])),
            "query": urlencode([(name, one) for name, values in request.query.items() for one in values]),
        },
    )


def _notes(case: Case) -> dict[str, list[Annotation]]:
    """Return model -> annotations of its completion."""
    return group_by((one for one in case.annotations if one.model), lambda one: one.model)


def _described(search: CaseSearch) -> str:
    """Return the words for a search in the heading; empty for all cases."""
    if search.show != "all":
        return SHOWN[search.show]
    return "this search" if search_parameters(search) else ""


def _shown(
    case: Case, definition: Benchmark | None, wanted: Sequence[str], *, is_rendered: bool, needle: str
) -> list[ShownCompletion]:
    """Return the completions for the page: those of the search first, baselines last."""
    texts, common = criterion_texts(case, definition), common_failures(case.completions)
    in_order = sorted(case.completions, key=lambda one: one.model not in wanted)
    return [
        shown_completion(
            one, shown_text(one.completion.text or "", is_rendered=is_rendered, needle=needle), texts, common
        )
        for one in in_order
    ]


def _references(case: Case, *, is_rendered: bool, needle: str) -> list[tuple[ShownText, bool]]:
    """Return the references of an open question, and whether each is correct."""
    if case.choices:
        return []
    return [
        (shown_text(one["text"], is_rendered=is_rendered, needle=needle), bool(one["correct"]))
        for one in case.references
    ]


def _given(
    case: Case, definition: Benchmark | None, needle: str, place: tuple[int, int]
) -> list[tuple[PromptPart, TextBox]]:
    """Return the parts of the prompt: the instruction, the question, then the others, long ones last.

    `place`: number of a part, and position in it that is shown; both from 1.
    """
    parts = prompt_parts(case.messages, case.choices, case.labels, definition) if case.messages else []
    if not any(one["role"] == "assistant" for one in case.messages):
        parts = sorted(parts, key=_order)
    longest = max((len(part.text) for part in parts), default=0)
    by_cut = group_by(case.completions, lambda one: one.truncated_characters)
    cuts = {
        at: f"{listed([one.model for one in own])} read the text from here"
        for at, own in by_cut.items()
        if 0 < at < longest
    }
    found = []
    for number, part in enumerate(parts, 1):
        is_cut = len(part.text) == longest and not part.is_instruction
        at = place[1] - 1 if number == place[0] else 0
        found.append((part, make_box(part.title, part.text, needle=needle, notes=cuts if is_cut else None, at=at)))
    return found


def _order(part: PromptPart) -> int:
    """Return the place of a part of a prompt on the page."""
    return 0 if part.is_instruction else 1 if part.title == QUESTION else 2 + (len(part.text) >= LEAST_LONG)


def _compared(
    case: Case, shown: Sequence[ShownCompletion], first: str, second: str, needle: str
) -> dict[str, Any] | None:
    """Return two completions, or one and the reference, with their differences; None if not both are chosen."""
    by_model = {one.found.model: one for one in shown}
    right = next((str(one["text"]) for one in case.references if one["correct"]), "") if second == REFERENCE else None
    if first not in by_model or first == second or (right is None and second not in by_model):
        return None
    other = None if right is not None else by_model[second]
    texts = [by_model[first].found.completion.text or "", (other.found.completion.text or "") if other else right or ""]
    left_text, right_text, is_whole = compared_texts(texts[0], texts[1], needle)
    return {"sides": [(by_model[first], left_text), (other, right_text)], "is_whole": is_whole}


def case_or_list(site: Site, request: PageRequest) -> Page:
    """Return the page of one case; for a case that does not exist, a page that leads to the list."""
    try:
        return case_page(site, request)
    except BadParameter:
        raise
    except UserError as error:
        benchmark = request.text("benchmark")
        if request.is_static or not any(run.benchmark == benchmark for run in site.runs()):
            raise
        values = {"benchmark": benchmark, "message": str(error)}
        return Page(template="case_gone.html", title="This case is not in the store", values=values, status=404)


def json_case(site: Site, request: PageRequest) -> Download:
    """Return the same case as JSON, with whole texts."""
    cases = open_text(site, request)
    case = find_case(cases, request.text("case"))
    content = {**fields_json(CONDITIONS, cases), **plain_json(case)}
    return json_download(content, f"{cases.benchmark}-{case.key}")


def completion_text(site: Site, request: PageRequest) -> Download:
    """Return the whole completion of one model as plain text."""
    cases = open_text(site, request)
    model = case_models(cases).get(request.text("model"), "")
    case = find_case(cases, request.text("case"), models=[model])
    for one in case.completions:
        if one.completion.text is not None:
            return text_download(one.completion.text, f"{cases.benchmark}-{case.key}-{url_key(one.model)}", "txt")
    raise PageNotFound(f"No completion has the key `{request.text('model')[:80]}` in this case.")


def prompt_text(site: Site, request: PageRequest) -> Download:
    """Return the whole prompt and all references of a case as plain text."""
    cases = open_text(site, request)
    case = find_case(cases, request.text("case"), models=[])
    if case.problem:
        raise PageNotFound(case.problem)
    parts = [f"--- {one['role']}\n{one['content']}" for one in case.messages]
    parts += [f"--- {'correct' if one['correct'] else 'incorrect'} reference\n{one['text']}" for one in case.references]
    return text_download("\n\n".join(parts) + "\n", f"{cases.benchmark}-{case.key}-prompt", "txt")


# --- notes, tags and stars --------------------------------------------------------------------------------------------
# Actions: add one to a case or an answer, and remove one.


NOTES = "notes"
"""Id of the list of notes on the page of a case."""


def add_note(site: Site, parts: Mapping[str, str], form: Mapping[str, Sequence[str]]) -> Destination:
    """Add what a form holds. Raises: BadParameter for an empty or too long annotation; PageNotFound; StoreError."""
    cases = open_text(site, _of_form(parts, form))
    instance_id = find_case(cases, parts["case"], models=[]).instance_id
    run, model = _annotated(cases, _field(form, "model"))
    try:
        made = new_annotation(
            cases.benchmark,
            instance_id,
            model=model,
            author=_field(form, "author"),
            note=_field(form, "note"),
            tags=[*form.get("tag", ()), *_field(form, "tags").split(",")],
            is_starred=bool(_field(form, "starred")),
        )
    except UserError as error:
        raise BadParameter(str(error)) from None
    add_annotation(_store_of(run), made)
    return _destination(parts, form, made.author)


def remove_note(site: Site, parts: Mapping[str, str], form: Mapping[str, Sequence[str]]) -> Destination:
    """Remove an annotation of a case. Raises: PageNotFound if there is none of this id; StoreError."""
    cases = open_text(site, _of_form(parts, form))
    instance_id = find_case(cases, parts["case"], models=[]).instance_id
    meant = (cases.benchmark, instance_id, parts["annotation"])
    stores = dict.fromkeys(map(_store_of, cases.runs.values()))
    n = sum(
        remove_annotations(store, lambda one: (one.benchmark, one.instance_id, one.id) == meant) for store in stores
    )
    if not n:
        raise PageNotFound("This note is not in the store. It may have been removed in the meantime.")
    return _destination(parts, form, "")


def _of_form(parts: Mapping[str, str], form: Mapping[str, Sequence[str]]) -> Parameters:
    """Return the parameters of the page that a form was on."""
    return Parameters(parts=parts, query=check_query(parse_qsl(_field(form, "query"))))


def _annotated(cases: BenchmarkCases, key: str) -> tuple[Run, str]:
    """Return the run of the model with this key and its name; without a key, the first run and no name."""
    if not key:
        return next(iter(cases.runs.values())), ""
    if (model := case_models(cases).get(key)) is None:
        raise PageNotFound(f"No model has the key `{key[:80]}` in this benchmark.")
    return cases.runs[model], cases.runs[model].model


def _store_of(run: Run) -> Store:
    return Store(stored_folder(run).parents[2])


def _field(form: Mapping[str, Sequence[str]], name: str) -> str:
    return next(iter(form.get(name, ())), "")


def _destination(parts: Mapping[str, str], form: Mapping[str, Sequence[str]], author: str) -> Destination:
    """Return the page that the form was on, with the name of its author in the form."""
    kept = {name: values for name, values in _of_form(parts, form).query.items() if name not in parts}
    parameters = {**kept, **({"author": author} if author else {}), "benchmark": parts["benchmark"]}
    return Destination(route="case", parameters={**parameters, "case": parts["case"]}, fragment=NOTES)
