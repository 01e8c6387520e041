"""Reads a leaderboard that was published as CSV: one row per model, one column per benchmark.

The header is `Model`, then `Mean win rate` (may be absent), then `<title> - <metric>` for every benchmark, as in
`MedCalc-Bench - MedCalc Accuracy`. Values are means in the metric's own unit, 0 to 1 or 1 to 5; percentages are read as
shares. An empty field, `NA` or `-` is a missing value. European CSV files and workbooks are read too:
see `io.spreadsheets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.domain.remark import Remark
from medhelm.domain.suite import SuiteEntry
from medhelm.errors import ConfigError, Problem
from medhelm.io.spreadsheets import clean_cell, is_percentage, parse_number, read_spreadsheet

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.cells import Cell, Column

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
"""From this similarity on, an unknown title is taken for a slip of the pen."""


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

    A title that is like none of the suite's is a benchmark of one's own, in the category `unknown`; a title that is
    nearly one of them is an error.
    Raises: ConfigError if the file cannot be read, or with every problem, by line and column.
    """
    sheet = read_spreadsheet(path, {*MODEL, WIN_RATE})
    line, header = sheet.line, [clean_cell(name) for name in sheet.names]
    cleaned = [(number, [clean_cell(cell) for cell in row]) for number, row in sheet.rows]
    rows = [(number, row) for number, row in cleaned if any(row)]
    problems: list[Problem] = []
    headings = _headings(line, header, _used(header, rows), suite, problems)
    win_rate_at = next((i for i, name in enumerate(header) if name.lower() == WIN_RATE), None)
    values = _values(rows, headings, win_rate_at, header, problems)
    if not rows:
        problems.append(Problem("The file has only a header and no models."))
    scales = {place: _scale(place, heading, values[place], problems) for place, heading in headings.items()}
    win_rates = values.get(win_rate_at, []) if win_rate_at is not None else []
    for place, scale in scales.items():
        problems += _outside(values[place], scale, headings[place].entry.title)
    problems += _outside(win_rates, SHARE, "Mean win rate")
    if problems:
        raise ConfigError(str(path), _first(problems))
    text = f"{path.name} is not UTF-8; it was read as Windows-1252."
    encoding = [Remark("not_utf_8", "", text)] if sheet.encoding == "cp1252" else []
    return PublishedScores(
        cells=tuple(_cells(values, headings)),
        columns=tuple(_column(heading, scales[place]) for place, heading in headings.items()),
        win_rates={value.model: value.number for value in win_rates},
        remarks=(*encoding, *_assumptions(headings, values, scales)),
    )


def _first(problems: Sequence[Problem]) -> list[Problem]:
    """The first problems by line, and how many more there are."""
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    more = [Problem(f"And {len(ordered) - MOST} more.", ordered[-1].line)] if len(ordered) > MOST else []
    return [*ordered[:MOST], *more]


def _shown(text: str) -> str:
    """A field, cut if it is long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


# --- the header -------------------------------------------------------------------------------------------------------


def _used(header: Sequence[str], rows: Iterable[tuple[int, list[str]]]) -> list[int]:
    """Places after the first that have a heading, or any content below it: spreadsheets leave columns without both."""
    filled = {place for _, row in rows for place, field in enumerate(row) if field}
    return [place for place, name in enumerate(header) if place > 0 and (name or place in filled)]


def _headings(
    line: int, header: list[str], used: Sequence[int], suite: Sequence[SuiteEntry], problems: list[Problem]
) -> dict[int, _Heading]:
    """Place in a row -> the benchmark there."""
    if header[0].lower() not in MODEL:
        problems.append(Problem(f"column 1 is `{_shown(header[0])}`; the first column must be `Model`.", line))
    known = {_letters(name): entry for entry in suite for name in (entry.title, entry.alias, entry.name) if name}
    headings: dict[int, _Heading] = {}
    seen: dict[str, int] = {}
    for place in used:
        name = header[place]
        if (key := name.lower()) != WIN_RATE:
            try:
                headings[place] = heading = _heading(name, known)
            except ValueError as error:
                problems.append(Problem(f"column {place + 1}{error}", line))
                continue
            key = _letters(heading.entry.name)
        if key in seen:
            headings.pop(place, None)
            title = _shown(name.rpartition(" - ")[0] or name)
            problems.append(Problem(f"column {place + 1}: `{title}` is already in column {seen[key] + 1}.", line))
        seen.setdefault(key, place)
    if not headings and not problems:
        problems.append(Problem("No benchmark found: columns must be named `<title> - <metric>`.", line))
    return headings


def _heading(name: str, known: Mapping[str, SuiteEntry]) -> _Heading:
    """The benchmark that a heading names. Raises: ValueError with what is wrong, to follow `column 4`."""
    title, separator, metric = name.rpartition(" - ")
    if not separator or not metric.strip() or not title.strip():
        example = f", such as `{_shown(name)} - EM`" if name else ""
        raise ValueError(f" is `{_shown(name)}`; it must be `<title> - <metric>`{example}.")
    title, metric = title.strip(), metric.strip()
    letters = _letters(title)
    if not letters:
        raise ValueError(f": `{_shown(title)}` is not a title: it has neither letters nor digits.")
    entry = known.get(letters)
    if entry is None and (near := _near(letters, known)):
        raise ValueError(
            f": unknown benchmark `{_shown(title)}`. Did you mean `{near.title}`? If it is one of your own, name it "
            "so that it cannot be taken for that."
        )
    name = re.sub(r"[\W_]+", "_", title.lower()).strip("_")
    own = SuiteEntry(name=name, title=title, category=UNKNOWN, subcategory=UNKNOWN)
    return _Heading(entry or own, metric, _known_scale(metric), entry is not None)


def _near(letters: str, known: Mapping[str, SuiteEntry]) -> SuiteEntry | None:
    """The known benchmark whose name is nearly the same; None if there is none."""
    near = get_close_matches(letters, known, n=1, cutoff=NEAR)
    return known[near[0]] if near else None


def _letters(name: str) -> str:
    """Lower-case letters and digits of a name, for comparing names."""
    return re.sub(r"[\W_]", "", name.lower())


def _known_scale(metric: str) -> Scale | None:
    """The scale of a metric, whose name may have been cut as in `MedCalc Acc...`; None if it is not known."""
    cut = metric.removesuffix("...").removesuffix("…")
    fits = {scale for name, scale in SCALES.items() if name == metric or (cut != metric and name.startswith(cut))}
    return fits.pop() if len(fits) == 1 else None


# --- the rows ---------------------------------------------------------------------------------------------------------


def _values(
    rows: Iterable[tuple[int, list[str]]],
    headings: Mapping[int, _Heading],
    win_rate_at: int | None,
    header: Sequence[str],
    problems: list[Problem],
) -> dict[int, list[_Value]]:
    """Position in a row -> the numbers in that column, without missing ones."""
    places = sorted({*headings, *([win_rate_at] if win_rate_at is not None else [])})
    values: dict[int, list[_Value]] = {place: [] for place in places}
    lines: dict[str, int] = {}
    for line, row in rows:
        model = row[0]
        if not model:
            problems.append(Problem("column 1: the name of the model is missing.", line))
        elif model in lines:
            problems.append(Problem(f"model `{_shown(model)}` is already in line {lines[model]}.", line))
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
                number = _number(row[place], heading.scale if heading else SHARE)
            except ValueError as error:
                problems.append(Problem(f"{title}: {error}", line))
                continue
            if number is not None:
                values[place].append(_Value(line, model, number, row[place]))
    return values


def _number(field: str, scale: Scale | None) -> float | None:
    """The value of a field. Raises: ValueError with what is wrong."""
    try:
        number = parse_number(field)
    except ValueError:
        raise ValueError(f"`{_shown(field)}` is not a number. Write it like 0.743, or leave it empty.") from None
    if number is not None and is_percentage(field) and scale == GRADES:
        raise ValueError(f"`{field}` is a percentage, but the scale is 1 to 5. Write the grade.")
    return number


def _scale(place: int, heading: _Heading, values: Sequence[_Value], problems: list[Problem]) -> Scale:
    """The scale of a column: the metric's; if that is not known, the one that all its values fit."""
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


def _outside(values: Iterable[_Value], scale: Scale, title: str) -> Iterator[Problem]:
    """Numbers that the scale does not have."""
    for value in values:
        if not scale[0] <= value.number <= scale[1]:
            meant = scale == SHARE and 1 < value.number <= 100 and not is_percentage(value.text)
            hint = f" If it is a percentage, write {value.text}%." if meant else ""
            yield Problem(f"{title}: {value.text} is outside {scale[0]:g} to {scale[1]:g}.{hint}", value.line)


# --- the result -------------------------------------------------------------------------------------------------------


def _cells(values: Mapping[int, Sequence[_Value]], headings: Mapping[int, _Heading]) -> Iterator[Cell]:
    """Cells, model by model as in the file."""
    from medhelm.analysis.leaderboard.cells import Cell

    found = [(value.line, place, value) for place in headings for value in values[place]]
    for _, place, value in sorted(found, key=lambda item: item[:2]):
        yield Cell(model=value.model, benchmark=headings[place].entry.name, value=value.number)


def _column(heading: _Heading, scale: Scale) -> Column:
    """A benchmark of the board."""
    from medhelm.analysis.leaderboard.cells import Column

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
    """Yield what had to be assumed."""
    own = [heading.entry.title for heading in headings.values() if not heading.in_suite]
    if own:
        text = f"Not part of the suite, so listed in the category `{UNKNOWN}`: {_listed(own)}."
        yield Remark("not_in_suite", "", text)
    guessed = [place for place, heading in headings.items() if heading.scale is None and values[place]]
    for scale in (SHARE, GRADES):
        names = [f"{headings[p].entry.title} ({headings[p].metric})" for p in guessed if scales[p] == scale]
        if names:
            text = (
                f"Assumed to be on a scale from {scale[0]:g} to {scale[1]:g}, which fits the values: {_listed(names)}."
            )
            yield Remark("assumed_scale", "", text)


def _listed(names: Sequence[str]) -> str:
    """Names in a row, cut after the first few."""
    text = ", ".join(_shown(name) for name in names[:NAMES])
    return text if len(names) <= NAMES else f"{text} and {len(names) - NAMES} more"
