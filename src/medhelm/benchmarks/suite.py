"""The benchmarks of MedHELM by name, title and place, whether or not their definitions are at hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from medhelm.analysis.suite import SuiteEntry
from medhelm.errors import UserError

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
        )
        for entry in content["benchmarks"]
    )


def suite_names(suite: str) -> list[str] | None:
    """Names of the benchmarks of a suite: `all` (None: whatever there is), `paper35`, or a file with one name a line.

    In a file, blank lines and what follows a `#` do not count. Raises UserError for anything else.
    """
    if suite == "all":
        return None
    if suite == "paper35":
        return [entry.name for entry in load_suite() if entry.in_paper]
    path = Path(suite)
    if not path.is_file():
        raise UserError(f"--suite {suite}: neither `all`, `paper35` nor a file with one benchmark a line.")
    aliases = {entry.alias: entry.name for entry in load_suite() if entry.alias}
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    names = [aliases.get(line, line) for line in lines if line]
    if not names:
        raise UserError(f"--suite {suite}: the file names no benchmark. Write one name a line.")
    return names
