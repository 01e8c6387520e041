"""The HTML file of a rater: all cases in one file that opens without a server, and the ratings that it saves.

The file has the markup and style of the rater's pages. It sends nothing anywhere and keeps nothing in the browser: its
policy allows its own style and script alone, by their digests. Ratings are saved as `NAME-ratings.json`.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from medhelm.domain.text import value_in_words
from medhelm.errors import ConfigError, Problem, UserError
from medhelm.extensions.study.formats import exchange
from medhelm.extensions.study.formats.exchange import OfflineCase, OpenRater, RaterCases, ReturnedFile, ReturnedRating
from medhelm.extensions.study.journal import problems_of
from medhelm.extensions.study.pages import PACKAGE
from medhelm.extensions.study.rate_pages import case_values
from medhelm.extensions.study.rating_form import form_values, rater_forms, read_rating
from medhelm.extensions.study.types import CaseRating, RatingSource
from medhelm.results.formats.markdown import page_templates

_STYLE, _CASES, _SCRIPT, _DATA = (f"<!-- {name} -->" for name in ("style", "cases", "script", "data"))
"""Places of the template that are filled after it was rendered. No text can hold them: `<` is escaped."""


# --- writing ----------------------------------------------------------------------------------------------------------


def write_html_file(cases: RaterCases) -> dict[str, bytes]:
    """Return the file, under the end of its name."""
    templates = page_templates(PACKAGE)
    style, script = _static("rate_file.css", "rate.css"), _program()
    numbers = {one.number: one.benchmark for one in cases.cases}
    shell = templates.get_template("rate_file.html").render(
        title=cases.study.title,
        purpose=cases.study.purpose,
        forms=rater_forms(cases.study, numbers, cases.definitions),
        cases=[one.number for one in cases.cases],
        policy=_policy(style, script),
    )
    data = json.dumps(_data(cases)).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    content = {_STYLE: style, _CASES: "".join(map(_case_template, cases.cases)), _SCRIPT: script, _DATA: data}
    # In one go, so that nothing is looked for in what was filled in.
    head, *rest = _split(shell, list(content))
    page = head + "".join(part + after for part, after in zip(content.values(), rest, strict=True))
    return {".html": page.encode("utf-8", "replace")}


def _split(text: str, places: list[str]) -> list[str]:
    """Return the parts of a text between places, each of which it has once, in this order."""
    parts = []
    for place in places:
        before, found, text = text.partition(place)
        assert found, f"the template lacks {place}"
        parts.append(before)
    return [*parts, text]


def _policy(style: str, script: str) -> str:
    """Return the content security policy of the file."""
    hashes = [f"'sha256-{b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in (style, script)]
    rest = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    return f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; {rest}"


def _data(cases: RaterCases) -> dict[str, Any]:
    """Return what the script knows of the study."""
    own = [
        {
            "number": one.number,
            "digest": one.digest,
            "revision": one.revision,
            "questions": [question.name for question in one.questions],
            "fields": form_values(one.questions, one.rating or CaseRating()),
        }
        for one in cases.cases
    ]
    origin = {"study": cases.study.name, "plan": cases.plan, "rater": cases.rater}
    last = len(cases.cases) + len(cases.gone)
    file = f"{cases.study.name}-{cases.rater}-ratings.json"
    return {"format": exchange.FORMAT, **origin, "file": file, "last": last, "cases": own}


def _case_template(case: OfflineCase) -> str:
    """Return a `template` element with the form of a case."""
    template = page_templates(PACKAGE).get_template("rate_case.html")
    values = {
        **case_values(case.number, case.texts, case.instrument.form, CaseRating()),
        "macros": page_templates(PACKAGE).get_template("rate_macros.html").module,
        "base": "",
        "revision": 0,
        "others": [],
        "next_label": "Next case",
    }
    content = "".join(template.blocks["content"](template.new_context(values)))
    return f'<template data-case="{case.number}">{content}</template>\n'


@cache
def _static(*names: str) -> str:
    """Return static files, joined."""
    folder = files(PACKAGE) / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _program() -> str:
    """Return the script: the one for the texts of a case runs for each case that is shown."""
    texts = _static("rate_texts.js")
    return f"function startTexts() {{\n{texts}\n}}\n{_static('rate_file.js')}"


# --- reading ----------------------------------------------------------------------------------------------------------


def read_html_ratings(path: Path, open_rater: OpenRater) -> ReturnedFile:
    """Read the ratings that the HTML file saved. Raises: ConfigError with everything that is wrong."""
    content = exchange.load_json(path)
    listed = content.get("ratings") if isinstance(content, dict) else None
    if not isinstance(listed, list) or content.get("format") != exchange.FORMAT:
        text = "is not a file with ratings that the HTML file of a study saved, or was saved by another version."
        raise exchange.refusal(path, text)
    cases = open_rater(exchange.origin_of(content))
    problems: list[Problem] = []
    found: dict[int, ReturnedRating] = {}
    for place, one in enumerate(listed, 1):
        name = f"rating {place}"
        try:
            rating = _returned(one, cases)
        except (UserError, ValueError) as error:
            problems.append(Problem(f"{name}: {error}"))
            continue
        if rating and found.setdefault(rating.number, rating) is not rating:
            problems.append(Problem(f"{name}: case {rating.number} was rated above already."))
    if problems:
        raise ConfigError(str(path), problems)
    return ReturnedFile(rater=cases.rater, source=RatingSource.HTML_FILE, ratings=tuple(found.values()))


def _returned(one: Any, cases: RaterCases) -> ReturnedRating | None:
    """Return a rating; None if nothing is answered, or the case is gone. Raises: UserError; ValueError."""
    if not isinstance(one, dict) or not isinstance(one.get("fields"), dict):
        raise UserError("must have a number and fields.")
    case = cases.checked_case(one.get("number"), one.get("digest"))
    if case is None:
        return None
    fields = {str(name): _values(value) for name, value in one["fields"].items()}
    fields["seconds"] = [str(one.get("seconds", 0))]
    rating = read_rating(fields, case.questions)
    if wrong := list(problems_of(rating, case.questions, case.texts.completions)):
        raise UserError(" ".join(wrong))
    if not exchange.is_given(rating):
        return None
    revision = one["revision"] if type(one.get("revision")) is int else 0
    return ReturnedRating(number=case.number, revision=revision, rating=replace(rating, source=RatingSource.HTML_FILE))


def _values(value: Any) -> list[str]:
    """Return the values of a field. Raises: UserError for anything but texts."""
    found: list[str] = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in found):
        raise UserError(f"{value_in_words(value)} is not the text of a field.")
    return found
