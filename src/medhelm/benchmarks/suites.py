"""The benchmarks of MedHELM by name, title and place, whether or not their definitions are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import yaml

from medhelm.domain.suite import Suite, SuiteEntry
from medhelm.errors import UserError, suggestion

FILE = Path(__file__).with_name("suite.yaml")
"""Categories, subcategories and the 37 benchmarks."""


@cache
def load_suite() -> tuple[SuiteEntry, ...]:
    """All benchmarks of the suite, in the order of the published tables."""
    content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return tuple(
        SuiteEntry(
            name=entry["name"],
            title=entry["title"],
            category=entry["category"],
            subcategory=entry["subcategory"],
            alias=entry.get("alias", ""),
            in_paper=entry.get("paper", True),
            access=entry["access"],
            construction=entry["made"],
        )
        for entry in content["benchmarks"]
    )


def find_suite(name: str, others: Sequence[SuiteEntry] = ()) -> Suite:
    """The suite of that name, or in that file.

    `all` is whatever there is; `paper35` and `suite37` are those of the paper and of the published tables; an access
    level, a category or a subcategory are groups of benchmarks; a file lists them, see `suite_file`.
    Parameters: others, benchmarks outside the published tables that are at hand or at least known: they belong to their
    categories, and files may name them.
    Raises: UserError for anything else, ConfigError with all problems of a file.
    """
    if name == "all":
        return Suite(name=name, weights=None)
    entries = [*load_suite(), *others]
    groups: dict[str, list[str]] = {
        "paper35": [entry.name for entry in load_suite() if entry.in_paper],
        "suite37": [entry.name for entry in load_suite()],
    }
    for entry in entries:
        for group in (entry.access, entry.category, entry.subcategory):
            groups.setdefault(group, []).append(entry.name)
    groups.pop("", None)
    if name in groups:
        return Suite(name=name, weights=dict.fromkeys(groups[name], 1.0))
    path = Path(name)
    if not path.is_file():
        known = ["all", *groups]
        near = suggestion(name, known) if get_close_matches(name, known, n=1) else ""
        raise UserError(
            f"--suite {name}: neither `all`, `paper35`, `suite37`, an access level, a category or a subcategory, nor a "
            f"file. {near}".rstrip()
        )
    from medhelm.benchmarks.suite_file import read_suite

    aliases = {entry.alias: entry.name for entry in entries if entry.alias}
    return read_suite(path, aliases | {entry.name: entry.name for entry in entries})
