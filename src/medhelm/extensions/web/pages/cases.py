"""The cases of a benchmark: a search, the list of instances that it finds, and one instance."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

from medhelm.domain import Rule, Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import plural
from medhelm.extensions.web.case_search import CaseSearch, url_key
from medhelm.extensions.web.cases import (
    PAGE,
    BenchmarkCases,
    Case,
    CaseCompletion,
    CaseJudgment,
    CaseList,
    CaseListItem,
    case_models,
    compare_outcomes,
    find_case,
    find_cases,
    list_choices,
    locate_case,
    open_cases,
    without_addresses,
)
from medhelm.extensions.web.page import (
    MOST_PAGES,
    BadParameter,
    Download,
    Page,
    PageNotFound,
    PageRequest,
    json_download,
    text_download,
)
from medhelm.extensions.web.site import Site
from medhelm.results.formats.fields import NUMBER, STRING, Field, fields_json, map_of, plain_json, schema_of

SHOWN = {
    "all": "all cases",
    "wrong": "wrong",
    "right": "right",
    "different": "models differ",
    "judges": "judges differ",
    "failed": "no completion",
    "unscored": "no score",
    "truncated": "truncated",
    "injection": "signs of prompt injection",
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


def page(site: Site, request: PageRequest) -> Page:
    """Return a page of the list."""
    benchmark = request.text("benchmark")
    if not site.shows_text_of(benchmark) or request.most_cases == 0:
        values = {"benchmark": benchmark, "is_public": site.shows_text_of(benchmark)}
        return Page(template="cases_left_out.html", title=f"Cases of {benchmark}", values=values)
    cases = open_text(site, request)
    groups, failures = list_choices(cases)
    search = read_search(cases, request, (groups, failures))
    found = _find_page(cases, search, request)
    compared = compare_outcomes(cases, search.got, search.missed) if search.got and search.missed else None
    return Page(
        template="cases.html",
        title=f"Cases of {cases.title}",
        values={
            "cases": cases,
            "search": search,
            "found": found,
            "parameters": search_parameters(search),
            "compared": compared,
            "options": {"shown": SHOWN, "sorted": SORTED, "within": WITHIN, "groups": groups, "failures": failures},
            "binary": is_binary(cases),
            "columns": some_models(cases, [search.model, search.got, search.missed], MOST_COLUMNS),
        },
    )


def some_models(cases: BenchmarkCases, wanted: Sequence[str], most: int) -> list[str]:
    """Return at most so many models by name, with those that are wanted first."""
    chosen = dict.fromkeys(model for model in [*wanted, *cases.models] if model)
    return cases.models if len(cases.models) <= most else list(chosen)[:most]


def json_list(site: Site, request: PageRequest) -> Download:
    """Return the same page of the list as JSON."""
    cases = open_text(site, request)
    search = read_search(cases, request)
    found = _find_page(cases, search, request)
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
]
"""An instance in the list."""


def open_text(site: Site, request: PageRequest) -> BenchmarkCases:
    """Open the cases of a benchmark whose texts may be shown. Raises: PageNotFound if they may not."""
    benchmark = request.text("benchmark")
    if not site.shows_text_of(benchmark):
        raise PageNotFound(f"Texts of `{benchmark[:80]}` are left out, because its data is not public.")
    return open_cases(site.stores, benchmark, rule=site.rule, tier=site.tier, names=site.names)


def read_search(
    cases: BenchmarkCases, request: PageRequest, choices: tuple[list[str], list[str]] | None = None
) -> CaseSearch:
    """Read a search from the URL. Raises: BadParameter; PageNotFound for unknown names.

    `choices`: the groups and failure codes that occur; None reads them if the URL names one.
    """
    is_narrowed = request.text("group") or request.text("failure")
    groups, failures = choices or (list_choices(cases) if is_narrowed else ([], []))
    choices_of_form: dict[str, Any] = {
        "within": request.choice("within", WITHIN, "all"),
        "show": request.choice("show", SHOWN, "all"),
        "sort": request.choice("sort", SORTED, "position"),
    }
    return CaseSearch(
        **choices_of_form,
        text=request.text("text"),
        model=request.known_name("model", cases.runs),
        failure=request.known_name("failure", failures),
        group=request.known_name("group", groups) or None,
        low=_score(request, "low"),
        high=_score(request, "high"),
        got=request.known_name("got", cases.runs),
        missed=request.known_name("missed", cases.runs),
    )


def search_parameters(search: CaseSearch) -> dict[str, str]:
    """Return the parameters of the URL that make this search; those of the default are left out."""
    default = CaseSearch()
    found = {}
    for one in fields(search):
        value = getattr(search, one.name)
        if value != getattr(default, one.name):
            found[one.name] = f"{value:g}" if isinstance(value, float) else str(value)
    return found


def is_binary(cases: BenchmarkCases) -> bool:
    """Return True if the metric is right or wrong, which is written 0 or 1."""
    return cases.column.metric.endswith(("exact_match", "accuracy")) and (cases.column.low, cases.column.high) == (0, 1)


def _find_page(cases: BenchmarkCases, search: CaseSearch, request: PageRequest) -> CaseList:
    found = find_cases(cases, search, page=request.number("page", 1, low=1, high=MOST_PAGES))
    if request.most_cases is None or request.most_cases >= found.total:
        return found
    left = max(0, request.most_cases - (found.page - 1) * PAGE)
    return replace(found, items=found.items[:left], pages=-(-request.most_cases // PAGE))


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


# --- one case ---------------------------------------------------------------------------------------------------------
# An instance with every model's completion, scores and judgments.

MOST_CHARACTERS = 20_000
"""Characters of a text on the page; a link leads to the whole text."""

MOST_COMPLETIONS = 60
"""Most completions on the page."""


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text on the page, cut if it is long."""

    text: str
    """The part that is shown."""
    length: int
    """Characters of the whole text."""

    @property
    def is_cut(self) -> bool:
        """Return True if a part is missing."""
        return self.length > len(self.text)


@dataclass(frozen=True, slots=True)
class ShownCompletion:
    """A completion on the page."""

    found: CaseCompletion
    """Everything known about it."""
    key: str
    """Key of the model in URLs."""
    text: ShownText
    """The completion; empty if there is none."""
    pieces: Sequence[Piece]
    """The shown text in pieces, with those marked that differ from the other completion."""
    facts: Sequence[tuple[str, str]]
    """Tokens, cost, latency and more, by name."""

    @property
    def judges(self) -> list[str]:
        """Judges in their order."""
        return list(dict.fromkeys(one.judge for one in self.found.judgments))

    @property
    def criteria(self) -> dict[str, list[CaseJudgment]]:
        """Criterion -> judgments, in their order."""
        return group_by(self.found.judgments, lambda one: one.criterion)


def case_page(site: Site, request: PageRequest) -> Page:
    """Return the page of one case."""
    cases = open_text(site, request)
    search = read_search(cases, request)
    first, second = request.known_name("a", cases.runs), request.known_name("b", cases.runs)
    models = some_models(cases, [first, second, search.model, search.got, search.missed], MOST_COMPLETIONS)
    case = find_case(cases, request.text("case"), models=models)
    if request.is_static:
        case = without_addresses(case)
    shown, is_whole = _completions(case, first, second)
    return Page(
        template="case.html",
        title=f"{cases.title}, case {case.instance_id[:60]}",
        values={
            "cases": cases,
            "case": case,
            "messages": [(one["role"], _cut(one["content"])) for one in case.messages],
            "references": [(_cut(one["text"]), bool(one["correct"])) for one in case.references],
            "criteria": {one["name"]: one["text"] for one in case.criteria},
            "shown": shown,
            "compared": bool(first and second and len(shown) == 2),
            "is_whole": is_whole,
            "first": first,
            "second": second,
            "position": locate_case(cases, search, case.instance_id),
            "parameters": search_parameters(search),
            "n_left_out": len(cases.models) - len(models),
            "pair": {"a": first, "b": second},
            "described": SHOWN[search.show]
            if search.show != "all"
            else "this search"
            if search_parameters(search)
            else "",
            "binary": is_binary(cases),
        },
    )


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


def _completions(case: Case, first: str, second: str) -> tuple[list[ShownCompletion], bool]:
    """Return the completions to show, all or two with their differences, and whether both were compared as a whole."""
    chosen = {one.model: one for one in case.completions}
    is_pair = bool(first and second and first != second and {first, second} <= chosen.keys())
    found = [chosen[first], chosen[second]] if is_pair else list(case.completions)
    texts = [_cut(one.completion.text or "") for one in found]
    pieces = [[Piece(one.text, False)] for one in texts]
    is_whole = True
    if is_pair:
        left, right, is_whole = mark_differences(texts[0].text, texts[1].text)
        pieces, is_whole = [left, right], is_whole and not any(one.is_cut for one in texts)
    shown = [
        ShownCompletion(one, url_key(one.model), text, own, _facts(one))
        for one, text, own in zip(found, texts, pieces, strict=True)
    ]
    return shown, is_whole


def _facts(found: CaseCompletion) -> list[tuple[str, str]]:
    """Return tokens, cost, latency and what is unusual about a completion, by name."""
    done = found.completion
    usage = done.usage
    facts: list[tuple[str, Any]] = []
    if usage.input or usage.output:
        facts.append(("tokens", f"{usage.input:,} in, {usage.output:,} out"))
        facts.append(("hidden reasoning", usage.reasoning and f"{usage.reasoning:,} of them"))
        facts.append(("cached input", usage.cached_input and f"{usage.cached_input:,}"))
    cost = found.cost_usd
    facts.append(("cost", "unknown" if cost is None else f"{cost:.6f} USD" if cost else "0 USD"))
    facts.append(("latency", "batch" if done.batched else done.latency_s and f"{done.latency_s:.2f} s"))
    facts.append(("ended by", done.finish_reason if done.finish_reason not in ("", "stop") else ""))
    facts.append(("reported model", done.reported_model if done.reported_model != found.model else ""))
    if found.truncated_characters:
        facts.append(("prompt truncated by", plural(found.truncated_characters, "character")))
    facts.append(("signs of prompt injection", found.injection_signs))
    if found.jury_coverage is not None and found.jury_coverage < 1:
        facts.append(("judgments present", f"{found.jury_coverage:.0%}"))
    facts.append(("answer", "none that can be read" if found.is_unreadable else ""))
    facts.append(("not scored", found.score_failure))
    return [(name, str(value)) for name, value in facts if value]


def _cut(text: str) -> ShownText:
    return ShownText(text[:MOST_CHARACTERS], len(text))


# --- text diff --------------------------------------------------------------------------------------------------------
# Marks the words in which two texts differ.

MOST_WORDS = 1_500
"""Words of each text that are compared; the rest is not marked. The time grows faster than their number."""

_WORD = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text."""

    text: str
    """The piece."""
    differs: bool
    """True if the other text does not have it there."""


def mark_differences(first: str, second: str) -> tuple[list[Piece], list[Piece], bool]:
    """Split two texts into pieces that are equal and pieces that differ, by words.

    Returns the pieces of both, and whether both were compared as a whole. White space does not count as a difference.

    >>> left, right, whole = mark_differences("take one tablet", "take two tablets")
    >>> [(piece.text, piece.differs) for piece in left]
    [('take ', False), ('one tablet', True)]
    """
    words = [_WORD.findall(text) for text in (first, second)]
    compared = [own[:MOST_WORDS] for own in words]
    first_words, second_words = ([word.strip() for word in own] for own in compared)
    matcher = SequenceMatcher(None, first_words, second_words)
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        left.append(Piece("".join(compared[0][start:end]), kind != "equal"))
        right.append(Piece("".join(compared[1][other_start:other_end]), kind != "equal"))
    for pieces, own in ((left, words[0]), (right, words[1])):
        pieces.append(Piece("".join(own[MOST_WORDS:]), False))
    return _filled(left), _filled(right), max(map(len, words)) <= MOST_WORDS


def _filled(pieces: Sequence[Piece]) -> list[Piece]:
    """Leave out empty pieces; a marked piece ends before its white space."""
    return [one for one in chain.from_iterable(map(_trimmed, pieces)) if one.text]


def _trimmed(piece: Piece) -> list[Piece]:
    if not piece.differs:
        return [piece]
    words = piece.text.rstrip()
    return [Piece(words, True), Piece(piece.text[len(words) :], False)]
