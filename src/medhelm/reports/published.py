"""Reads a leaderboard that was published as CSV: one row per model, one column per benchmark.

The header is `Model`, then `Mean win rate` (may be absent), then `<title> - <metric>` for every benchmark, as in
`MedCalc-Bench - MedCalc Accuracy`. Values are means in the metric's own unit; an empty field is a missing value.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.analysis.suite import SuiteEntry
from medhelm.errors import ConfigError, Problem, UserError, suggestion

if TYPE_CHECKING:
    from medhelm.analysis.board import Cell, Column

SCALES: dict[str, tuple[float, float]] = {
    "EM": (0.0, 1.0),
    "MedCalc Accuracy": (0.0, 1.0),
    "MedecFlagAcc": (0.0, 1.0),
    "EHRSQLExeAcc": (0.0, 1.0),
    "MIMICBillingF1": (0.0, 1.0),
    "Jury Score": (1.0, 5.0),
}
"""Short name of a metric in published headers -> ends of its scale."""

WIN_RATE = "mean win rate"
"""Heading of the published win rate, in lower case."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
"""A number as CSV writes it: no thousands separators, no percent sign."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublishedScores:
    """A published leaderboard, ready for `analysis.leaderboard.build`."""

    cells: tuple[Cell, ...]
    """One per model and benchmark with a value; intervals, counts and costs are not known."""
    columns: tuple[Column, ...]
    """One per benchmark, in the order of the file."""
    win_rates: dict[str, float]
    """Model -> win rate as published, for comparison; models without one are left out."""
    warnings: tuple[str, ...]
    """What looks odd but is no error."""


def read_scores(path: Path, suite: Sequence[SuiteEntry]) -> PublishedScores:
    """Read the file; titles are matched to `suite` by their letters and digits.

    Raises: UserError if the file cannot be read; ConfigError with every problem, by line and column.
    """
    lines = _read(path)
    if not lines:
        raise ConfigError(str(path), [Problem("The file is empty. The first line must be a header.")])
    (line, header), *rows = lines
    problems: list[Problem] = []
    columns = _columns(line, header, suite, problems)
    win_rate_at = next((i for i, name in enumerate(header) if name.strip().lower() == WIN_RATE), None)
    reader = _Reader(columns, win_rate_at, len(header), problems)
    for line, row in rows:
        reader.read(line, row)
    if not rows:
        problems.append(Problem("There is no model: the file has only a header."))
    if problems:
        raise ConfigError(str(path), problems)
    return PublishedScores(
        cells=tuple(reader.cells),
        columns=tuple(columns.values()),
        win_rates=reader.win_rates,
        warnings=tuple(_odd(reader.cells, columns.values())),
    )


def _read(path: Path) -> list[tuple[int, list[str]]]:
    """Rows that are not blank, each with the number of its last line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            return [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8. Save it as `CSV UTF-8`.") from None
    except csv.Error as error:
        raise UserError(f"{path}: is not CSV: {error}.") from None


def _columns(line: int, header: list[str], suite: Sequence[SuiteEntry], problems: list[Problem]) -> dict[int, Column]:
    """Place in a row -> the benchmark there."""
    if header[0].strip().lower() != "model":
        problems.append(Problem(f"column 1 is `{header[0]}`; the first column must be `Model`.", line))
    known = {_letters(name): entry for entry in suite for name in (entry.name, entry.alias, entry.title) if name}
    columns: dict[int, Column] = {}
    seen: dict[str, int] = {}
    for place, name in enumerate(header[1:], start=1):
        if name.strip().lower() == WIN_RATE:
            continue
        title, separator, metric = name.strip().rpartition(" - ")
        entry = known.get(_letters(title))
        if not separator or not metric:
            problems.append(Problem(f"column {place + 1} is `{name}`; it must be `<title> - <metric>`.", line))
        elif entry is None:
            near = suggestion(title, [entry.title for entry in suite])
            problems.append(Problem(f"column {place + 1}: unknown benchmark `{title}`. {near}".rstrip(), line))
        elif entry.name in seen:
            problems.append(
                Problem(f"column {place + 1}: `{title}` stands in column {seen[entry.name] + 1} already.", line)
            )
        else:
            seen[entry.name] = place
            columns[place] = _column(entry, metric)
    if not columns and not problems:
        problems.append(Problem("There is no benchmark: columns named `<title> - <metric>` are needed.", line))
    return columns


def _letters(name: str) -> str:
    """Lower-case letters and digits of a name, for comparing names."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _column(entry: SuiteEntry, metric: str) -> Column:
    """A benchmark of the board; a metric that is not known counts as 0 to 1."""
    from medhelm.analysis.board import Column

    low, high = SCALES.get(metric, (0.0, 1.0))
    return Column(
        benchmark=entry.name,
        title=entry.title,
        category=entry.category,
        subcategory=entry.subcategory,
        metric=metric,
        low=low,
        high=high,
    )


class _Reader:
    """Reads the rows below the header, collecting cells and problems."""

    def __init__(
        self, columns: dict[int, Column], win_rate_at: int | None, length: int, problems: list[Problem]
    ) -> None:
        self.cells: list[Cell] = []
        self.win_rates: dict[str, float] = {}
        self._columns = columns
        self._win_rate_at = win_rate_at
        self._length = length
        self._problems = problems
        self._lines: dict[str, int] = {}

    def read(self, line: int, row: list[str]) -> None:
        """Read one model."""
        from medhelm.analysis.board import Cell

        model = row[0].strip()
        if not model:
            self._problems.append(Problem("column 1: the name of the model is missing.", line))
        elif model in self._lines:
            self._problems.append(Problem(f"model `{model}` stands in line {self._lines[model]} already.", line))
        self._lines.setdefault(model, line)
        if len(row) != self._length:
            self._problems.append(Problem(f"has {len(row)} fields; the header has {self._length}.", line))
            return
        if self._win_rate_at is not None:
            win_rate = self._number(line, "Mean win rate", row[self._win_rate_at], (0.0, 1.0))
            if win_rate is not None:
                self.win_rates[model] = win_rate
        for place, column in self._columns.items():
            value = self._number(line, column.title, row[place], SCALES.get(column.metric))
            if value is not None:
                self.cells.append(Cell(model=model, benchmark=column.benchmark, value=value))

    def _number(self, line: int, title: str, field: str, scale: tuple[float, float] | None) -> float | None:
        """The value of a field; None if it is empty or, which is a problem, no number on the scale."""
        text = field.strip()
        if not text:
            return None
        value = float(text) if NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(value):
            rule = "Write it like 0.743, or leave it empty."
            self._problems.append(Problem(f"{title}: `{field}` is not a number. {rule}", line))
            return None
        if scale is not None and not scale[0] <= value <= scale[1]:
            self._problems.append(Problem(f"{title}: {text} is outside {scale[0]:g} to {scale[1]:g}.", line))
            return None
        return value


def _odd(cells: Sequence[Cell], columns: Iterable[Column]) -> Iterator[str]:
    """Warn of values that do not fit the scale assumed for a metric that is not known."""
    for column in columns:
        values = [cell.value for cell in cells if cell.benchmark == column.benchmark and cell.value is not None]
        outside = [value for value in values if not column.low <= value <= column.high]
        if outside:
            yield (
                f"{column.title}: the scale of `{column.metric}` is not known and taken as 0 to 1, but {outside[0]:g} "
                "is outside it. Win rates hold; macro averages do not."
            )
