"""The cases of a static list as data for its script, which searches, filters and sorts them in the browser.

A file opened from disk cannot fetch another one, so the data is in scripts that add to one global list. The server
does not send them: it searches itself, and another site could run such a script.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from medhelm.extensions.web.cases.case import BenchmarkCases
from medhelm.extensions.web.cases.listing import CaseListItem, case_items
from medhelm.extensions.web.cases.search import CaseSearch, CompletionGrades, read_judge_findings, read_texts
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.pages.case_list import (
    CHUNK,
    MOST_COLUMNS,
    exported_cases,
    is_graded,
    open_text,
    outcome_marks,
)
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Download, PageNotFound
from medhelm.results.formats.tables import printable

MOST_TEXT = 2_000
"""Characters of a prompt that can be searched."""


def script(site: Site, request: PageRequest) -> Download:
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
