"""Reader of leaderboards published as CSV: one row per model, one column per benchmark.

The header is `Model`, then optionally `Mean win rate`, then `<title> - <metric>` for every benchmark, as in
`MedCalc-Bench - MedCalc Accuracy`. Values are means in the metric's own unit, 0 to 1 or 1 to 5; percentages are read as
shares. An empty field, `NA` or `-` is a missing value. European CSV files and workbooks are read too: see
`io.spreadsheets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain.benchmark import SuiteEntry
from medhelm.domain.result import Remark
from medhelm.domain.text import listed
from medhelm.errors import ConfigError, Problem
from medhelm.io.spreadsheets import clean_cell, is_percentage, parse_number, read_spreadsheet

Scale = tuple[float, float]
"""Ends of a scale."""

SHARE: Scale = (0.0, 1.0)
"""The scale of shares and of most metrics."""

GRADES: Scale = (1.0, 5.0)
"""The scale of grades."""

SCALES: dict[str, Scale] = {
    "EM": SHARE,
    "MedCalc Accuracy": SHARE,
    "MedecFlagAcc": SHARE,
    "EHRSQLExeAcc": SHARE,
    "MIMICBillingF1": SHARE,
    "Jury Score": GRADES,
}
"""Short name of a metric in published headers -> ends of its scale."""

MODEL = ("model", "model/adapter")
"""Headings of the first column, in lower case."""

WIN_RATE = "mean win rate"
"""Heading of the published win rate, in lower case."""

UNKNOWN = "unknown"
"""Category and subcategory of a benchmark that is not one of the suite."""

MOST = 50
"""Most problems that are listed."""

LONGEST = 60
"""Characters of a field that are shown."""

NAMES = 6
"""Benchmarks that are named in a warning."""

NEAR = 0.85
"""Similarity from which an unknown title counts as a misspelled one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublishedScores:
    """A published leaderboard, ready for `analysis.leaderboard.build`."""

    cells: tuple[Cell, ...]
    """One per model and benchmark with a value; intervals, counts and costs are not known."""
    columns: tuple[Column, ...]
    """One per benchmark, in the order of the file."""
    win_rates: dict[str, float]
    """Model -> win rate as published, for comparison; models without one are left out."""
    remarks: tuple[Remark, ...]
    """Assumptions made in reading the file."""


@dataclass(frozen=True, slots=True)
class _Heading:
    """A column with scores."""

    entry: SuiteEntry
    """The benchmark."""
    metric: str
    """Short name of its metric, as written."""
    scale: Scale | None
    """Ends of the metric's scale; None if it is not known."""
    in_suite: bool
    """True if the benchmark is one of the suite."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A number in the file."""

    line: int
    """Line in the file."""
    model: str
    """Name of the model."""
    number: float
    """Value."""
    text: str
    """Text in the file."""


def read_scores(path: Path, suite: Sequence[SuiteEntry]) -> PublishedScores:
    """Read the file; titles are matched to `suite` by their letters and digits.

    Other titles are benchmarks of the user, in the category `unknown`; a title that is nearly one of the suite is an
    error.
    Raises: ConfigError if the file cannot be read, or with every problem, by line and column.
    """
    sheet = read_spreadsheet(path, {*MODEL, WIN_RATE})
    line, header = sheet.line, [clean_cell(name) for name in sheet.names]
    cleaned = [(number, [clean_cell(cell) for cell in row]) for number, row in sheet.rows]
    rows = [(number, row) for number, row in cleaned if any(row)]
    problems: list[Problem] = []
    # Spreadsheets leave columns without heading and content.
    filled = {place for _, row in rows for place, field in enumerate(row) if field}
    used = [place for place, name in enumerate(header) if place > 0 and (name or place in filled)]
    headings = _read_headings(line, header, used, suite, problems)
    win_rate_at = next((i for i, name in enumerate(header) if name.lower() == WIN_RATE), None)
    values = _read_values(rows, headings, win_rate_at, header, problems)
    if not rows:
        problems.append(Problem("The file has only a header and no models."))
    scales = {place: _find_scale(place, heading, values[place], problems) for place, heading in headings.items()}
    win_rates = values.get(win_rate_at, []) if win_rate_at is not None else []
    for place, scale in scales.items():
        problems += _out_of_range(values[place], scale, headings[place].entry.title)
    problems += _out_of_range(win_rates, SHARE, "Mean win rate")
    if problems:
        raise ConfigError(str(path), _first_problems(problems))
    text = f"{path.name} is not UTF-8; it was read as Windows-1252."
    encoding = [Remark("not_utf_8", "", text)] if sheet.encoding == "cp1252" else []
    return PublishedScores(
        cells=tuple(_cells(values, headings)),
        columns=tuple(_column(heading, scales[place]) for place, heading in headings.items()),
        win_rates={value.model: value.number for value in win_rates},
        remarks=(*encoding, *_assumptions(headings, values, scales)),
    )


def _first_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Return the first problems by line, and how many more there are."""
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    more = [Problem(f"And {len(ordered) - MOST} more.", ordered[-1].line)] if len(ordered) > MOST else []
    return [*ordered[:MOST], *more]


def _shorten(text: str) -> str:
    """Return a field, cut if it is long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


# --- the header -------------------------------------------------------------------------------------------------------


def _read_headings(
    line: int, header: list[str], used: Sequence[int], suite: Sequence[SuiteEntry], problems: list[Problem]
) -> dict[int, _Heading]:
    """Return place in a row -> heading of the scores there."""
    if header[0].lower() not in MODEL:
        problems.append(Problem(f"column 1 is `{_shorten(header[0])}`; the first column must be `Model`.", line))
    known = {_letters(name): entry for entry in suite for name in (entry.title, entry.alias, entry.name) if name}
    headings: dict[int, _Heading] = {}
    seen: dict[str, int] = {}
    for place in used:
        name = header[place]
        if (key := name.lower()) != WIN_RATE:
            try:
                headings[place] = heading = _parse_heading(name, known)
            except ValueError as error:
                problems.append(Problem(f"column {place + 1}{error}", line))
                continue
            key = _letters(heading.entry.name)
        if key in seen:
            headings.pop(place, None)
            title = _shorten(name.rpartition(" - ")[0] or name)
            problems.append(Problem(f"column {place + 1}: `{title}` is already in column {seen[key] + 1}.", line))
        seen.setdefault(key, place)
    if not headings and not problems:
        problems.append(Problem("No benchmark found: columns must be named `<title> - <metric>`.", line))
    return headings


def _parse_heading(name: str, known: Mapping[str, SuiteEntry]) -> _Heading:
    """Parse a heading. Raises: ValueError with what is wrong, to follow `column 4`."""
    title, separator, metric = name.rpartition(" - ")
    if not separator or not metric.strip() or not title.strip():
        example = f", such as `{_shorten(name)} - EM`" if name else ""
        raise ValueError(f" is `{_shorten(name)}`; it must be `<title> - <metric>`{example}.")
    title, metric = title.strip(), metric.strip()
    letters = _letters(title)
    if not letters:
        raise ValueError(f": `{_shorten(title)}` is not a title: it has neither letters nor digits.")
    entry = known.get(letters)
    if entry is None and (near := get_close_matches(letters, known, n=1, cutoff=NEAR)):
        raise ValueError(
            f": unknown benchmark `{_shorten(title)}`. Did you mean `{known[near[0]].title}`? If it is one of your "
            "own, give it a more distinct name."
        )
    name = re.sub(r"[\W_]+", "_", title.lower()).strip("_")
    own = SuiteEntry(name=name, title=title, category=UNKNOWN, subcategory=UNKNOWN)
    return _Heading(entry or own, metric, _known_scale(metric), entry is not None)


def _letters(name: str) -> str:
    """Return the lower-case letters and digits of a name, for comparing names."""
    return re.sub(r"[\W_]", "", name.lower())


def _known_scale(metric: str) -> Scale | None:
    """Return the scale of a metric, whose name may be cut as in `MedCalc Acc...`; None if it is unknown."""
    cut = metric.removesuffix("...").removesuffix("…")
    fits = {scale for name, scale in SCALES.items() if name == metric or (cut != metric and name.startswith(cut))}
    return fits.pop() if len(fits) == 1 else None


# --- the rows ---------------------------------------------------------------------------------------------------------


def _read_values(
    rows: Iterable[tuple[int, list[str]]],
    headings: Mapping[int, _Heading],
    win_rate_at: int | None,
    header: Sequence[str],
    problems: list[Problem],
) -> dict[int, list[_Value]]:
    """Return place in a row -> the numbers in that column, without missing ones."""
    places = sorted({*headings, *([win_rate_at] if win_rate_at is not None else [])})
    values: dict[int, list[_Value]] = {place: [] for place in places}
    lines: dict[str, int] = {}
    for line, row in rows:
        model = row[0]
        if not model:
            problems.append(Problem("column 1: the name of the model is missing.", line))
        elif model in lines:
            problems.append(Problem(f"model `{_shorten(model)}` is already in line {lines[model]}.", line))
        lines.setdefault(model, line)
        while len(row) > len(header) and not row[-1]:
            row = row[:-1]
        if len(row) != len(header):
            problems.append(Problem(f"has {len(row)} fields; the header has {len(header)}.", line))
            continue
        for place in places:
            heading = headings.get(place)
            title = heading.entry.title if heading else "Mean win rate"
            try:
                number = _parse_value(row[place], heading.scale if heading else SHARE)
            except ValueError as error:
                problems.append(Problem(f"{title}: {error}", line))
                continue
            if number is not None:
                values[place].append(_Value(line, model, number, row[place]))
    return values


def _parse_value(field: str, scale: Scale | None) -> float | None:
    """Parse a field; None if it is empty. Raises: ValueError with what is wrong."""
    try:
        number = parse_number(field)
    except ValueError:
        raise ValueError(f"`{_shorten(field)}` is not a number. Write it like 0.743, or leave it empty.") from None
    if number is not None and is_percentage(field) and scale == GRADES:
        raise ValueError(f"`{field}` is a percentage, but the scale is 1 to 5. Write the grade.")
    return number


def _find_scale(place: int, heading: _Heading, values: Sequence[_Value], problems: list[Problem]) -> Scale:
    """Return the scale of a column: the metric's, or if it is unknown the one that all values fit."""
    if heading.scale is not None or not values:
        return heading.scale or SHARE
    low, high = min(value.number for value in values), max(value.number for value in values)
    for scale in (SHARE, GRADES):
        if scale[0] <= low and high <= scale[1]:
            return scale
    problems.append(
        Problem(
            f"column {place + 1}: the scale of `{heading.metric}` is not known, and the values of "
            f"{heading.entry.title}, {low:g} to {high:g}, fit neither 0 to 1 nor 1 to 5. Write percentages as 74.3%."
        )
    )
    return (low, high)


def _out_of_range(values: Iterable[_Value], scale: Scale, title: str) -> Iterator[Problem]:
    """Yield a problem for each number outside the scale."""
    for value in values:
        if not scale[0] <= value.number <= scale[1]:
            meant = scale == SHARE and 1 < value.number <= 100 and not is_percentage(value.text)
            hint = f" If it is a percentage, write {value.text}%." if meant else ""
            yield Problem(f"{title}: {value.text} is outside {scale[0]:g} to {scale[1]:g}.{hint}", value.line)


# --- the result -------------------------------------------------------------------------------------------------------


def _cells(values: Mapping[int, Sequence[_Value]], headings: Mapping[int, _Heading]) -> Iterator[Cell]:
    """Yield the cells, model by model as in the file."""
    found = [(value.line, place, value) for place in headings for value in values[place]]
    for _, place, value in sorted(found, key=lambda item: item[:2]):
        yield Cell(model=value.model, benchmark=headings[place].entry.name, value=value.number)


def _column(heading: _Heading, scale: Scale) -> Column:
    """Return a column of the leaderboard."""
    return Column(
        benchmark=heading.entry.name,
        title=heading.entry.title,
        category=heading.entry.category,
        subcategory=heading.entry.subcategory,
        metric=heading.metric,
        low=scale[0],
        high=scale[1],
    )


def _assumptions(
    headings: Mapping[int, _Heading], values: Mapping[int, Sequence[_Value]], scales: Mapping[int, Scale]
) -> Iterator[Remark]:
    """Yield remarks on assumptions about categories and scales."""
    own = [_shorten(heading.entry.title) for heading in headings.values() if not heading.in_suite]
    if own:
        text = f"Not part of the suite, so listed in the category `{UNKNOWN}`: {listed(own, NAMES)}."
        yield Remark("not_in_suite", "", text)
    guessed = [place for place, heading in headings.items() if heading.scale is None and values[place]]
    for scale in (SHARE, GRADES):
        names = [_shorten(f"{headings[p].entry.title} ({headings[p].metric})") for p in guessed if scales[p] == scale]
        if names:
            text = f"Assumed to be on a scale from {scale[0]:g} to {scale[1]:g}, which fits the values"
            yield Remark("assumed_scale", "", f"{text}: {listed(names, NAMES)}.")
