"""The list of the cases of a benchmark: a search and the instances that it finds; in a static site, their index."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from medhelm.domain import Rule, Tier
from medhelm.errors import UserError
from medhelm.extensions.web.cases.case import BenchmarkCases, open_cases
from medhelm.extensions.web.cases.listing import (
    PAGE,
    CaseList,
    CaseListItem,
    CasePosition,
    OutcomeMark,
    case_items,
    compare_outcomes,
    cut_text,
    find_cases,
    instructive_cases,
    locate_case,
    outcome_mark,
)
from medhelm.extensions.web.cases.search import (
    OF_TWO,
    SEARCH_PARAMETERS,
    CaseSearch,
    CompletionGrades,
    SearchChoices,
    read_choices,
    read_judge_findings,
    read_texts,
    search_cases,
)
from medhelm.extensions.web.compared import compared_cases, conditions_in_words, model_names
from medhelm.extensions.web.page import MOST_PAGES, Condition, PageRequest
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import BadParameter, Download, Page, PageNotFound, Parameters, json_download
from medhelm.results.formats.fields import NUMBER, STRING, Field, fields_json, map_of, schema_of
from medhelm.results.formats.tables import printable

T = TypeVar("T")

SHOWN = {
    "all": "all cases",
    "wrong": "wrong",
    "right": "right",
    "all_wrong": "all models wrong",
    "only_wrong": "only one model wrong",
    "split": "models split",
    "different": "models differ",
    "changed": "changed (two models)",
    "other_answer": "other answer, as right or wrong (two models)",
    "refused": "refused",
    "unreadable": "no readable answer",
    "blank": "blank",
    "cut": "cut at a limit",
    "failed": "no completion",
    "unscored": "no score",
    "injection": "signs of prompt injection",
    "criterion": "low on a criterion",
    "judges": "judges differ",
    "truncated": "cut at a limit",
}
"""Filter -> its name in the form."""

SORTED = {
    "position": "order of the data",
    "id": "id",
    "worst": "lowest score first",
    "best": "highest score first",
    "spread": "models differ most first",
    "judges": "judges differ most first",
}
"""Order -> its name in the form."""

WITHIN = {"all": "prompts, completions, ids", "prompt": "prompts", "completion": "completions"}
"""Texts that are searched -> their name in the form."""

MOST_COLUMNS = 24
"""Most models with a column in the list."""

CHUNK = 200
"""Cases in one file of the index of a static list."""


def page(site: Site, request: PageRequest) -> Page:
    """Return a page of the list. Conditions that cannot be met keep the page, which says why it is empty."""
    benchmark = request.text("benchmark")
    if not site.shows_text_of(benchmark) or request.most_cases == 0:
        values = {"benchmark": benchmark, "is_public": site.shows_text_of(benchmark)}
        return Page(template="cases_left_out.html", title=f"Cases of {benchmark}", values=values)
    cases = open_text(site, request)
    choices = choices_of(site, cases)
    problems: list[UserError] = []
    search = read_search(cases, request, choices, problems)
    reasons = [str(one) for one in problems] or why_impossible(cases, search, choices)
    found = CaseList(items=[], page=1, pages=1, total=0) if reasons else _find_page(site, cases, search, request)
    parameters, shown = search_parameters(search), shown_filters(cases)
    chips = _chips(request, parameters, shown)
    is_pair = bool(search.got and search.missed) and not reasons
    columns = some_models(cases, search.models, MOST_COLUMNS)
    notes = [] if request.is_static else [one for own in cases.searched.annotations.values() for one in own]
    index = [f"{part + 1}.js" for part in range(-(-found.total // CHUNK))] if request.is_static else []
    status = 200
    if problems:
        status = 400 if any(isinstance(one, BadParameter) for one in problems) else 404
    return Page(
        template="cases.html",
        title=f"Cases of {cases.title}",
        status=status,
        values={
            "cases": cases,
            "search": search,
            "found": found,
            "reasons": reasons,
            "parameters": parameters,
            "has_more": bool(parameters.keys() - {"text", "show", "model", "sort"}),
            "chips": chips,
            "easier": [] if reasons or found.total else _easier(cases, search, chips),
            "sides": dict(zip(("before", "now"), cases.sides or (), strict=False)),
            "conditions": conditions_in_words(site, cases),
            "pair": _pair(site, cases, search) if is_pair else {},
            "compared": compare_outcomes(cases, search.got, search.missed) if is_pair else None,
            "options": {"shown": shown, "sorted": SORTED, "within": WITHIN},
            "choices": choices,
            "has_notes": bool(notes) or bool(search.tag or search.starred or search.noted),
            "tags": sorted({search.tag, *(tag for one in notes for tag in one.tags)} - {""}),
            "n_failed_left_out": len(set(_failed(cases)) - set(exported_cases(site, cases, request.most_cases)))
            if request.is_static
            else 0,
            "n_cases": max(run.n for run in cases.runs.values()),
            "columns": columns,
            "index": index,
            "baselines": set(cases.models) - set(cases.searched.contestants),
            "strong": cases.searched.strong,
            "graded": is_graded(cases),
            "marks": {item.key: outcome_marks(cases, item, columns) for item in found.items},
        },
    )


def outcome_marks(cases: BenchmarkCases, item: CaseListItem, models: Sequence[str]) -> list[OutcomeMark]:
    """Return the results of these models on an instance."""
    return [outcome_mark(item, model, is_binary=is_binary(cases)) for model in models]


def shown_filters(cases: BenchmarkCases) -> dict[str, str]:
    """Return the filters that can find something on this benchmark, with their names in the form."""
    left_out = {"truncated"}
    if len(cases.searched.contestants) < 2:
        left_out |= {"all_wrong", "only_wrong", "split", "different", *OF_TWO}
    if not any(run.judges for run in cases.runs.values()):
        left_out |= {"criterion", "judges"}
    found = {name: title for name, title in SHOWN.items() if name not in left_out}
    if len(cases.searched.strong) < len(cases.searched.contestants):
        found["all_wrong"] = "all strong models wrong"
    return found


def why_impossible(cases: BenchmarkCases, search: CaseSearch, choices: SearchChoices) -> list[str]:
    """Return the reasons why no case can meet the conditions of a search, as sentences; empty if one could."""
    n_models = len(cases.searched.contestants)
    no_completion = search.show in ("right", "blank", "unreadable", "criterion", "judges") or search.answer
    low, high = search.low, search.high
    reasons = {
        "Choose two different models to see what changed between them: one in “Right”, the other in “and wrong”.": (
            search.show in OF_TWO and (not search.got or not search.missed or search.got == search.missed)
        ),
        "One model cannot be right and wrong in the same case.": (
            bool(search.got) and search.got == search.missed and search.show not in OF_TWO
        ),
        "Choose two different models: one that is better, and one that it is better than.": (
            bool(search.better or search.than) and (search.better == search.than or not (search.better and search.than))
        ),
        "This filter compares models, and the store has only one on this benchmark.": (
            n_models < 2 and search.show in ("only_wrong", "split", "different")
        ),
        "No judge graded completions of this benchmark.": (
            bool(search.criterion or search.show in ("criterion", "judges"))
            and not any(run.judges for run in cases.runs.values())
        ),
        "The questions of this benchmark have no options.": bool(search.answer or search.key) and not choices.labels,
        "The lowest score is above the highest one.": low is not None and high is not None and low > high,
        "A request that failed has no completion, so it cannot meet the other condition.": (
            bool(search.failure or search.show in ("failed", "refused")) and bool(no_completion)
        ),
    }
    return [reason for reason, holds in reasons.items() if holds]


def _pair(site: Site, cases: BenchmarkCases, search: CaseSearch) -> dict[str, str]:
    """Return the parameters that show the differences of two completions, the earlier one on the left."""
    if cases.sides is None:
        return {}
    _, later = model_names(site, "", *cases.sides)
    first, second = sorted((search.got, search.missed), key=lambda model: model.endswith(later))
    return {"a": first, "b": second}


REMOVED_WITH: Mapping[str, Collection[str]] = {
    "better": ("than",),
    **dict.fromkeys(("before", "now"), ("before", "now", "model", "got", "missed", "better", "than", "show")),
}
"""Condition -> others that say nothing without it."""


def _chips(request: PageRequest, parameters: Mapping[str, str], shown: Mapping[str, str]) -> list[Condition]:
    """Return the conditions of a search. `shown`: names of the filters."""
    words = {**parameters, "show": {**SHOWN, **shown}.get(parameters.get("show", ""), "")}
    words["better"] = f"{parameters.get('better', 'any model')} better than {parameters.get('than', 'any model')}"
    of_two = {"got": "of {}", "missed": "and {}"} if parameters.get("show") in OF_TWO else {}
    removed = {one: {one, *REMOVED_WITH.get(one, ())} for one in parameters}
    rest = {one: {key: parameters[key] for key in parameters if key not in removed[one]} for one in parameters}
    return [
        Condition(
            cut_text((of_two.get(name) or own["words"]).format(words[name]), 80),
            request.links.to("cases", {**request.parts, **rest[name]}),
            name,
        )
        for name, own in SEARCH_PARAMETERS.items()
        if name in parameters and own["words"]
    ]


def _easier(cases: BenchmarkCases, search: CaseSearch, chips: Sequence[Condition]) -> list[tuple[Condition, int]]:
    """Return the conditions of a search that found nothing, and what the others find without one of them."""
    found = []
    for chip in chips if len(chips) > 1 else ():
        removed = {
            name: getattr(CaseSearch(), name) for name in (chip.name, *(["than"] if chip.name == "better" else []))
        }
        try:
            total = find_cases(cases, replace(search, **removed), size=1).total
        except UserError:
            continue
        if total:
            found.append((chip, total))
    return found


def some_models(cases: BenchmarkCases, wanted: Sequence[str], most: int) -> list[str]:
    """Return at most so many models in the order of rank, with those that are wanted first."""
    return list(dict.fromkeys(model for model in [*wanted, *cases.models] if model))[:most]


def json_list(site: Site, request: PageRequest) -> Download:
    """Return the same page of the list as JSON."""
    cases = open_text(site, request)
    search = read_search(cases, request)
    found = _find_page(site, cases, search, request)
    content = {
        **fields_json(CONDITIONS, cases),
        "search": search_parameters(search),
        "page": found.page,
        "pages": found.pages,
        "total": found.total,
        "cases": [fields_json(ITEM, item) for item in found.items],
    }
    return json_download(content, f"{request.text('benchmark')}-cases")


CONDITIONS: list[Field[BenchmarkCases]] = [
    Field("benchmark", lambda cases: cases.benchmark, kind="text"),
    Field("tier", lambda cases: cases.tier, kind="text", schema=schema_of(Tier)),
    Field("scoring", lambda cases: cases.rule, kind="text", schema=schema_of(Rule)),
    Field("metric", lambda cases: cases.column.metric, kind="text"),
]
"""The benchmark of cases, and the conditions under which they were measured."""

ITEM: list[Field[CaseListItem]] = [
    Field("id", lambda item: item.row.instance_id, kind="text"),
    Field("key", lambda item: item.key, kind="text"),
    Field("group", lambda item: item.row.group, kind="text"),
    Field("excerpt", lambda item: item.excerpt, kind="text"),
    Field("scores", lambda item: dict(item.row.scores), kind="object", schema=map_of(NUMBER)),
    Field("failures", lambda item: dict(item.row.failures), kind="object", schema=map_of(STRING)),
    Field("correct", lambda item: item.correct, kind="texts"),
    Field("answers", lambda item: dict(item.answers), kind="object", schema=map_of(STRING)),
    Field("n_right", lambda item: item.n_right, kind="whole number"),
    Field("n_scored", lambda item: item.n_scored, kind="whole number"),
]
"""An instance in the list. Baselines count in the numbers only if they were asked for."""


def open_text(site: Site, request: Parameters) -> BenchmarkCases:
    """Open the cases of a benchmark whose texts may be shown: those that count, or of two stores or releases.

    Raises: PageNotFound if they may not be shown, or nothing differs.
    """
    benchmark = request.text("benchmark")
    if not site.shows_text_of(benchmark):
        raise PageNotFound(f"Texts of `{benchmark[:80]}` are left out, because its data is not public.")
    if request.text("before") or request.text("now"):
        return compared_cases(site, request)
    return opened(site, benchmark)


def opened(site: Site, benchmark: str) -> BenchmarkCases:
    """Open the cases of a benchmark."""

    def open_() -> BenchmarkCases:
        known = site.definitions.get(benchmark)
        return open_cases(site.stores, benchmark, rule=site.rule, tier=site.tier, names=site.names, definition=known)

    return site.keep(("cases", benchmark), open_)


def choices_of(site: Site, cases: BenchmarkCases) -> SearchChoices:
    """Return the values that the fields of the form offer."""
    return site.keep(("choices of cases", cases.benchmark, cases.sides), lambda: read_choices(cases.searched))


def read_search(
    cases: BenchmarkCases,
    request: PageRequest,
    choices: SearchChoices | None = None,
    problems: list[UserError] | None = None,
) -> CaseSearch:
    """Read a search from the URL.

    `choices`: values that occur; None reads them if the URL names one. `problems`: gets the parameters that are not
    valid; None raises BadParameter, or PageNotFound for unknown names.
    """
    if choices is None and any(map(request.text, ("group", "failure", "criterion", "answer", "key"))):
        choices = read_choices(cases.searched)
    known = choices or SearchChoices(groups=(), failures=(), criteria=(), labels=())

    def checked(read: Callable[..., T], name: str, *arguments: Any, default: T) -> T:
        try:
            return read(name, *arguments)
        except UserError as error:
            if problems is None:
                raise
            problems.append(error)
            return default

    chosen: dict[str, Any] = {
        name: checked(request.choice, name, values, default, default=default)
        for name, values, default in (("within", WITHIN, "all"), ("show", SHOWN, "all"), ("sort", SORTED, "position"))
    }
    names = {
        "model": cases.runs, "got": cases.runs, "missed": cases.runs, "better": cases.runs, "than": cases.runs,
        "failure": known.failures, "group": known.groups, "criterion": known.criteria,
        "answer": known.labels, "key": known.labels,
    }  # fmt: skip
    for name, values in names.items():
        chosen[name] = checked(request.known_name, name, values, default="")
    for name in ("with_baselines", "starred", "noted"):
        chosen[name] = checked(request.choice, name, ("1",), "", default="") == "1"
    return CaseSearch(
        **chosen,
        before=request.text("before"),
        now=request.text("now"),
        text=checked(request.text, "text", default=""),
        tag=checked(request.text, "tag", default=""),
        low=checked(lambda name: _score(request, name), "low", default=None),
        high=checked(lambda name: _score(request, name), "high", default=None),
    )


def search_parameters(search: CaseSearch) -> dict[str, str]:
    """Return the parameters of the URL that make this search; those of the default are left out."""
    default = CaseSearch()
    found = {}
    for one in fields(search):
        value = getattr(search, one.name)
        if value != getattr(default, one.name):
            found[one.name] = "1" if value is True else f"{value:g}" if isinstance(value, float) else str(value)
    return found


def is_binary(cases: BenchmarkCases) -> bool:
    """Return True if the metric is right or wrong, which is written 0 or 1."""
    return cases.column.metric.endswith(("exact_match", "accuracy")) and (cases.column.low, cases.column.high) == (0, 1)


def is_graded(cases: BenchmarkCases) -> bool:
    """Return True if scores are grades, which are not simply right or wrong."""
    return not is_binary(cases) and not cases.searched.options


def _find_page(site: Site, cases: BenchmarkCases, search: CaseSearch, request: PageRequest) -> CaseList:
    number = request.number("page", 1, low=1, high=MOST_PAGES)
    if not request.is_static:
        return find_cases(cases, search, page=number)
    ids = exported_cases(site, cases, request.most_cases)
    items = case_items(cases, search, ids[(number - 1) * PAGE : number * PAGE])
    return CaseList(items=items, page=number, pages=max(1, -(-len(ids) // PAGE)), total=len(ids))


def exported_cases(site: Site, cases: BenchmarkCases, most: int | None) -> Sequence[str]:
    """Return the ids of the cases that a static site holds, in the order of the data. `most`: None for all."""
    most = MOST_PAGES if most is None else most
    return site.keep(("exported cases", cases.benchmark, most), lambda: instructive_cases(cases, most))


def _failed(cases: BenchmarkCases) -> list[str]:
    """Return the ids of the cases with a failed request."""
    return search_cases(cases.searched, CaseSearch(show="failed"))


def position_of(
    site: Site, request: PageRequest, cases: BenchmarkCases, search: CaseSearch, instance_id: str
) -> CasePosition:
    """Return the position of a case in its list, and its neighbors; the static site has no lists of compared cases."""
    if request.is_static and cases.sides:
        return CasePosition(0, 0)
    among = exported_cases(site, cases, request.most_cases) if request.is_static else None
    return locate_case(cases, search, instance_id, among=among)


def _score(request: PageRequest, name: str) -> float | None:
    """Read a bound of scores. Raises: BadParameter for anything but a finite number."""
    text = request.text(name).strip()
    if not text:
        return None
    try:
        found = float(text) if len(text) <= 30 else math.nan
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise BadParameter(f"The parameter `{name}` is `{text[:80]}`. Use a number such as 0.5.")
    return found


# --- index of a static list -------------------------------------------------------------------------------------------
# The cases as data for the script of a static list, which searches, filters and sorts them in the browser.
#
# A file opened from disk cannot fetch another one, so the data is in scripts that add to one global list. The server
# does not send them: it searches itself, and another site could run such a script.


MOST_TEXT = 2_000
"""Characters of a prompt that can be searched."""


def index_script(site: Site, request: PageRequest) -> Download:
    """Return one file. Raises: PageNotFound on the server, and for texts that may not be shown."""
    if not request.is_static:
        raise PageNotFound("Only the files of `medhelm export site` have an index of cases.")
    cases = open_text(site, request)
    number = int(request.text("part").removesuffix(".js"))
    ids = exported_cases(site, cases, request.most_cases)[(number - 1) * CHUNK : number * CHUNK]
    models = cases.models[:MOST_COLUMNS]
    baselines = set(cases.models) - set(cases.searched.contestants)
    findings = read_judge_findings(cases.searched, ids)
    prompts = read_texts(cases.searched, ids, [])
    content: dict[str, Any] = {
        "models": models,
        "baselines": [model in baselines for model in models],
        "strong": [model in cases.searched.strong for model in models],
        "graded": is_graded(cases),
        "cases": [
            {
                **_entry(cases, item, models, findings),
                "url": request.links.to("case", {"benchmark": cases.benchmark, "case": item.key}),
                "text": " ".join(text for _, text in prompts[item.row.instance_id])[:MOST_TEXT],
            }
            for item in case_items(cases, CaseSearch(), ids)
        ],
    }
    text = json.dumps(content, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    code = f"(window.medhelmCases = window.medhelmCases || []).push([document.currentScript.src, {text}]);\n"
    return Download(content=code.encode(), media_type="text/javascript", file_name=f"{number}.js")


def _entry(
    cases: BenchmarkCases,
    item: CaseListItem,
    models: Sequence[str],
    findings: dict[tuple[str, str], CompletionGrades],
) -> dict[str, Any]:
    """Return what the script needs of one case: values by model are in the order of the models."""
    row, name = item.row, item.row.instance_id
    judged = [findings.get((model, name)) for model in models]
    return {
        "id": name,
        "name": printable(name),
        "group": row.group,
        "excerpt": item.excerpt,
        "correct": list(item.correct),
        "marks": [[one.text, one.kind, one.title] for one in outcome_marks(cases, item, models)],
        "has": [model in row.scores for model in models],
        "shares": [row.shares.get(model) for model in models],
        "scores": [row.scores.get(model) for model in models],
        "failures": [row.failures.get(model, "") for model in models],
        "flags": [list(row.flags.get(model, ())) for model in models],
        "answers": [item.answers.get(model) for model in models],
        "low": [list(one.low) if one else [] for one in judged],
        "spread": [one.spread if one else None for one in judged],
    }
