"""The suite of MedHELM, and suites that users define in files.

A file has one benchmark on each line, or is YAML with a name and optional weights:

    name: inpatient
    description: What matters on our wards.
    benchmarks:            # or a list of names, each with weight 1
      aci_bench: 2
      medcalc_bench: 1

A file of HELM's run entries is a suite of their benchmarks, each with weight 1. HELM writes these files in HOCON, but
uses only what is valid YAML as well:

    entries: [
      {description: "medcalc_bench:model=openai/gpt-4o-2024-05-13", priority: 1},
    ]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.domain.benchmark import Suite, SuiteEntry
from medhelm.errors import ConfigError, Problem, UserError, suggestion

if TYPE_CHECKING:
    from medhelm.io.strict_yaml import KeyPath, YamlDocument

FILE = Path(__file__).with_name("suite.yaml")
"""Categories, subcategories and the 37 benchmarks."""


@cache
def load_suite() -> tuple[SuiteEntry, ...]:
    """Return all benchmarks of the suite, in the order of the published tables."""
    from medhelm.io.package_yaml import read_package_yaml  # lazy: a run of named benchmarks needs no PyYAML

    content = read_package_yaml(FILE)
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


@cache
def is_in_suite(benchmark: str) -> bool:
    """Return True if a benchmark is one of the 37 of the suite."""
    return any(entry.name == benchmark for entry in load_suite())


@cache
def helm_classes() -> Mapping[str, str]:
    """Map HELM's name of each benchmark to the class of its scenario, as `helm` in its definition says."""
    from medhelm.benchmarks.definition import LIBRARY
    from medhelm.io.package_yaml import read_package_yaml

    return {
        entry.alias or entry.name: read_package_yaml(LIBRARY / entry.name / "benchmark.yaml")["helm"]
        for entry in load_suite()
    }


def find_suite(name: str, others: Sequence[SuiteEntry] = ()) -> Suite:
    """Return the suite of that name, or in that file.

    Parameters
    ----------
    name
        `all` benchmarks; `paper35` or `suite37`, those of the paper or of the published tables; an access level, a
        category or a subcategory; or the path of a file.
    others
        Known benchmarks outside the published tables. They belong to their categories, and files may name them.

    Raises
    ------
    UserError
        If there is neither a suite nor a file of that name.
    ConfigError
        With all errors of a file.
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
            f"--suite {name}: is neither `all`, `paper35`, `suite37`, an access level, a category or a subcategory, "
            f"nor a file. {near}".rstrip()
        )
    aliases = {entry.alias: entry.name for entry in entries if entry.alias}
    return read_suite(path, aliases | {entry.name: entry.name for entry in entries})


SUFFIXES = (".yaml", ".yml")
"""Suffixes of files that are read as YAML."""

RUN_ENTRIES = ".conf"
"""Suffix of files with HELM's run entries."""

_HELM_PREFIX = "medhelm_"
"""Begins HELM's names of entries of MedHELM whose plain names are entries of other suites: `medhelm_med_qa`."""

_HELM_ARGUMENTS = {
    "condition", "data_path", "jury_config_path", "max_eval_instances", "max_length", "model", "model_deployment",
    "num_output_tokens", "subject", "subset",
}  # fmt: skip
"""Arguments of a run entry that leave its benchmark as it is: the model, limits, files, and the group of instances."""


def read_suite(path: Path, ids: Mapping[str, str]) -> Suite:
    """Read the suite in a file.

    `ids` maps every known name and alias to the id of its benchmark.
    Raises ConfigError with all errors: unknown keys and names, repeated benchmarks, weights that are not above 0.
    """
    if path.suffix == RUN_ENTRIES:
        return _from_run_entries(path, ids)
    return _from_yaml(path, ids) if path.suffix in SUFFIXES else _from_lines(path, ids)


def _from_yaml(path: Path, ids: Mapping[str, str]) -> Suite:
    from medhelm.benchmarks.schema import ListedSuiteShape, WeightedSuiteShape  # lazy: few commands need pydantic
    from medhelm.io.strict_yaml import load_yaml, validate

    document = load_yaml(path)
    problems: list[Problem] = []
    content: ListedSuiteShape | WeightedSuiteShape | None = None
    try:
        listed = isinstance(document.data, dict) and isinstance(document.data.get("benchmarks"), list)
        content = validate(document, ListedSuiteShape) if listed else validate(document, WeightedSuiteShape)
    except ConfigError as error:
        problems += error.problems
    weights = _resolve(_benchmark_names(document), ids, problems)
    if problems or content is None:
        raise ConfigError(document.place, problems)
    if isinstance(content, WeightedSuiteShape):
        weights = {ids[name]: weight for name, weight in content.benchmarks.items()}
    return Suite(name=content.name, weights=weights, description=content.description)


def _benchmark_names(document: YamlDocument) -> Iterable[tuple[str, int | None]]:
    """Return every text in place of a benchmark name, with its line."""
    found = document.data.get("benchmarks") if isinstance(document.data, dict) else None
    places: dict[KeyPath, object] = {}
    if isinstance(found, list):
        places = {("benchmarks", place): name for place, name in enumerate(found)}
    elif isinstance(found, dict):
        places = {("benchmarks", name): name for name in found}
    return [(name, document.line_of(place)) for place, name in places.items() if isinstance(name, str)]


def _from_run_entries(path: Path, ids: Mapping[str, str]) -> Suite:
    """Read the benchmarks of HELM's run entries; each unknown name and argument is one problem."""
    from medhelm.benchmarks.schema import RunEntriesShape  # lazy: few commands need pydantic
    from medhelm.io.strict_yaml import load_yaml, validate

    document = load_yaml(path)
    problems: dict[str, Problem] = {}
    weights: dict[str, float] = {}
    for place, entry in enumerate(validate(document, RunEntriesShape).entries):
        name, _, listed = entry.description.partition(":")
        line = document.line_of(("entries", place))
        known = ids.get(name) or ids.get(name.removeprefix(_HELM_PREFIX))
        if known is None:
            problems.setdefault(name, Problem(f"unknown benchmark `{name}`. {suggestion(name, ids)}".rstrip(), line))
            continue
        weights[known] = 1.0
        given = {argument.partition("=")[0].strip() for argument in listed.split(",")} - {""}
        for argument in sorted(given - _HELM_ARGUMENTS):
            text = f"{name}: the argument `{argument}` has no equivalent here. Remove it, or the entry."
            problems.setdefault(f"{name}:{argument}", Problem(text, line))
    if problems:
        raise ConfigError(document.place, list(problems.values()))
    return Suite(name=path.name, weights=weights)


def _from_lines(path: Path, ids: Mapping[str, str]) -> Suite:
    """Read one name per line; empty lines and text after `#` are ignored."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError(str(path), [Problem(f"cannot be read: {error.strerror or error}.")]) from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), [Problem("not UTF-8 text. Save the file as UTF-8.")]) from None
    texts = ((line.partition("#")[0].strip(), number) for number, line in enumerate(lines, start=1))
    problems: list[Problem] = []
    weights = _resolve(((text, number) for text, number in texts if text), ids, problems)
    if not weights and not problems:
        problems.append(Problem("the file names no benchmark. Write one name per line."))
    if problems:
        raise ConfigError(str(path), problems)
    return Suite(name=path.name, weights=weights)


def _resolve(
    names: Iterable[tuple[str, int | None]], ids: Mapping[str, str], problems: list[Problem]
) -> dict[str, float]:
    """Return the ids of the benchmarks with weight 1; append errors to `problems`."""
    lines: dict[str, int | None] = {}
    for name, line in names:
        if name not in ids:
            problems.append(Problem(f"unknown benchmark `{name}`. {suggestion(name, ids)}".rstrip(), line))
        elif ids[name] in lines:
            first = f"repeats `{ids[name]}` of line {lines[ids[name]]}"
            problems.append(Problem(f"{name}: {first}. Keep one of them.", line))
        else:
            lines[ids[name]] = line
    return dict.fromkeys(lines, 1.0)


def constructions() -> dict[str, str]:
    """Return benchmark of the paper -> how the paper came by it: `existing`, `reformulated` or `new`."""
    return {entry.name: entry.construction for entry in load_suite() if entry.in_paper}
