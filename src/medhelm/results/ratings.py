"""Ratings files: clinicians' grades of completions, read with every problem at once.

A file is a table with one row for each rater and completion, as `io.spreadsheets` reads it: CSV of any kind that
spreadsheets write, or a workbook. Numbers may have decimal commas where commas do not separate cells. An empty cell is
a grade that was not given: counted, never filled.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medhelm.analysis.agreement.reliability import Grade, ScaleMismatch, scale_mismatches
from medhelm.domain.result import Remark
from medhelm.domain.study import StudyCard
from medhelm.domain.text import value_in_words
from medhelm.errors import ConfigError, Problem, suggestion
from medhelm.io.spreadsheets import Spreadsheet, read_spreadsheet

FIELDS: Mapping[str, tuple[str, ...]] = {
    "rater": ("username", "annotator", "clinician"),
    "instance_id": ("instance",),
    "benchmark": ("dataset_name", "dataset"),
    "model": ("model_key", "model_name"),
}
"""Required column -> other names for it, such as those in the published ratings."""

OPTIONAL: Mapping[str, tuple[str, ...]] = {"probability": ("selection_probability",)}
"""Optional column -> other names for it."""

JURY_PREFIXES = ("jury_", "llm_")
"""Prefixes of columns with the jury's grade on a criterion."""

SHOWN = 20
"""Most problems of one kind that are listed."""

HIDDEN = "hidden-"
"""Prefix of a code in place of a model's name."""

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)")


def hidden_name(benchmark: str, model: str, instance_id: str) -> str:
    """Return a code for the model of one completion, so that raters do not see which completions are of one model.

    It hides names from people, not from programs: with the names at hand it can be computed again.

    >>> hidden_name("aci_bench", "openai/gpt-4o", "D2N088")
    'hidden-a9aaaca33f'
    """
    return HIDDEN + hashlib.sha256("\0".join((benchmark, model, instance_id)).encode()).hexdigest()[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedBenchmark:
    """Benchmark of a ratings file: rubric and judged models."""

    name: str
    """Its name."""
    criteria: tuple[str, ...]
    """Criteria; empty if unknown or different between instances."""
    lower_is_better: frozenset[str] = frozenset()
    """Criteria whose highest grade is the worst."""
    low: float = 1.0
    """The lowest grade."""
    high: float = 5.0
    """The highest grade."""
    models: tuple[str, ...] = ()
    """Models whose completions were judged."""
    in_points: bool = False
    """True if its criteria are met or not met and earn points: no such grades can be read."""
    is_rubric: bool = True
    """False if clinicians rated with another instrument than the judges, so that the two cannot be compared."""
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Criterion -> its lowest and highest grade, if they differ: grades are then converted to `low` and `high`."""

    def oriented(self, given: Mapping[str, float | None]) -> list[float]:
        """Return grades in the order of the criteria, mirrored on the scale where lower is better; nan for none."""
        found = []
        for criterion in self.criteria:
            grade = given[criterion]
            value = math.nan if grade is None else grade
            if criterion in self.scales:
                low, high = self.scales[criterion]
                value = self.low + (value - low) / (high - low) * (self.high - self.low)
            found.append(self.low + self.high - value if criterion in self.lower_is_better else value)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """One rater on one completion."""

    rater: str
    """Name of the rater."""
    benchmark: str
    """Name of the benchmark."""
    model: str
    """Name of the model."""
    instance_id: str
    """Id of the instance."""
    grades: Mapping[str, float | None]
    """Criterion -> grade on the benchmark's scale; None for an empty cell."""
    jury: Mapping[str, float | None]
    """Criterion -> the jury's grade as the file gives it; empty if it gives none."""
    line: int
    """Line in the file."""
    probability: float | None = None
    """Probability with which the completion was drawn to be rated; None if the file does not say."""

    @property
    def case(self) -> tuple[str, str, str]:
        """Benchmark, model and instance of the rated completion."""
        return self.benchmark, self.model, self.instance_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """Ratings of a file without problems, or of a store."""

    place: str
    """The file or the studies as the user knows them."""
    rows: tuple[Rating, ...]
    """In the file's order."""
    benchmarks: Mapping[str, RatedBenchmark]
    """Name -> what the ratings of that benchmark are about; benchmarks in the file only."""
    has_jury: bool
    """True if the file gives the jury's grades."""
    remarks: tuple[Remark, ...]
    """Limits of the ratings, such as missing grades."""
    studies: tuple[StudyCard, ...] = ()
    """Cards of the studies that the ratings come from; empty for those of a file."""


def read_ratings(
    path: Path,
    known: Mapping[str, RatedBenchmark],
    instances: Callable[[str, str], Collection[str]],
    *,
    scale: tuple[float, float] | None = None,
) -> Ratings:
    """Read a ratings file and check it against the known benchmarks and the judged completions.

    If the file has the jury's grades, its benchmarks, models and instances may be unknown.
    Parameters: known, name or alias -> benchmark; instances, returns the ids of the judged completions of a benchmark
    and model; scale, the lowest and highest grade of the file if they are not the rubric's: grades are then converted
    to the rubric's scale, linearly.
    Raises: ConfigError with all problems.
    """
    columns = {**FIELDS, **OPTIONAL}
    sheet = read_spreadsheet(path, {name for field, aliases in columns.items() for name in (field, *aliases)})
    reading = _RatingsReader(sheet, known, instances, scale)
    rows = reading.read_rows()
    if not rows and not reading.problems:
        reading.problems.append(Problem("the file has a header but no ratings.", sheet.line))
    if reading.problems:
        raise ConfigError(str(path), reading.problems)
    return Ratings(
        place=str(path),
        rows=tuple(rows),
        benchmarks={known.name: known for known in reading.used.values()},
        has_jury=bool(reading.columns.jury),
        remarks=tuple(reading.remarks(rows)),
    )


class _Columns:
    """Positions of the columns. Names are compared ignoring case, blanks and hyphens."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [_column_name(name) for name in names]
        self.fields: dict[str, int] = {}
        for name, aliases in {**FIELDS, **OPTIONAL}.items():
            place = next((self.names.index(n) for n in (name, *aliases) if n in self.names), None)
            if place is not None:
                self.fields[name] = place
        self.jury = {
            name.removeprefix(prefix): place
            for place, name in enumerate(self.names)
            for prefix in JURY_PREFIXES
            if name.startswith(prefix)
        }

    def place(self, criterion: str) -> int | None:
        """Return the column of the grades on a criterion."""
        name = _column_name(criterion)
        return self.names.index(name) if name in self.names else None

    def jury_place(self, criterion: str) -> int | None:
        """Return the column of the jury's grades on a criterion."""
        return self.jury.get(_column_name(criterion))


def _column_name(text: str) -> str:
    """Return the form in which names of columns are compared."""
    return re.sub(r"[\s-]+", "_", text.strip().lower())


# --- rows -------------------------------------------------------------------------------------------------------------


class _RatingsReader:
    """Reads the rows of a file once, and collects its problems."""

    def __init__(
        self,
        sheet: Spreadsheet,
        known: Mapping[str, RatedBenchmark],
        instances: Callable[[str, str], Collection[str]],
        scale: tuple[float, float] | None,
    ) -> None:
        self.problems: list[Problem] = []
        self.columns = _Columns(sheet.names)
        self.used: dict[str, RatedBenchmark] = {}
        self._sheet, self._known, self._instances, self._scale = sheet, known, instances, scale
        self._ids: dict[tuple[str, str], Collection[str]] = {}
        self._hidden: dict[tuple[str, str, str], str] = {}
        """Benchmark, instance and code -> name of the model."""
        self._unknown: dict[str, list[int]] = defaultdict(list)
        self._grades: list[Grade] = []
        self._guessed: list[str] = []

    def read_rows(self) -> list[Rating]:
        """Return all ratings; add what is wrong to `problems`."""
        self._check_header()
        if self.problems:
            return []
        found = [rating for line, cells in self._sheet.rows if (rating := self._rating(line, cells)) is not None]
        self._check_unknown()
        self._check_scale()
        self._check_repeated(found)
        return found

    def _check_header(self) -> None:
        for name in [name for name, count in Counter(self.columns.names).items() if name and count > 1]:
            self.problems.append(Problem(f"column `{name}` appears twice. Keep one.", self._sheet.line))
        for name in [name for name in FIELDS if name not in self.columns.fields]:
            used = set(self.columns.fields.values())
            rest = [n for place, n in enumerate(self.columns.names) if place not in used and n]
            fix = suggestion(name, rest).replace("Known:", "Columns:")
            self.problems.append(Problem(f"column `{name}` is missing. {fix}".rstrip(), self._sheet.line))

    def _rating(self, line: int, cells: list[str]) -> Rating | None:
        """Return the rating in a row; None if it is unusable."""
        width = len(self.columns.names)
        if len(cells) < width or any(cell.strip() for cell in cells[width:]):
            words = f"has {len(cells)} cells, the header {width}. Put cells that hold a separator in double quotes."
            self.problems.append(Problem(f"the row {words}", line))
            return None
        names = {name: cells[place].strip() for name, place in self.columns.fields.items()}
        self.problems += [
            Problem(f"{name}: is empty. Every rating needs one.", line) for name, value in names.items() if not value
        ]
        known = self._benchmark(names["benchmark"], line) if all(names.values()) else None
        if known is None:
            return None
        if names["model"].startswith(HIDDEN) and (found := self._model_of_code(known, names)):
            names["model"] = found
        self._check_case(known, names, line)
        who = names["rater"]
        drawn = self._probability(names["probability"], line) if "probability" in names else None
        return Rating(
            rater=who,
            benchmark=known.name,
            model=names["model"],
            instance_id=names["instance_id"],
            grades={c: self._grade(cells, self.columns.place(c), line, who, known) for c in known.criteria},
            jury={c: self._grade(cells, self.columns.jury_place(c), line, "", known) for c in known.criteria}
            if self.columns.jury
            else {},
            line=line,
            probability=drawn,
        )

    def _model_of_code(self, known: RatedBenchmark, names: Mapping[str, str]) -> str | None:
        """Return the model whose name a code hides; None if it is not the code of a judged model."""
        key = (known.name, names["instance_id"], names["model"])
        if key not in self._hidden:
            instance = names["instance_id"]
            self._hidden |= {(known.name, instance, hidden_name(known.name, m, instance)): m for m in known.models}
        return self._hidden.get(key)

    def _probability(self, text: str, line: int) -> float | None:
        """Parse the probability of a draw; an empty cell is reported with the other names."""
        value = self._parse_number(text)
        if value is None or not 0 < value <= 1:
            fix = "Keep what `medhelm agreement sample` wrote, or remove the column."
            text = f"probability: must be above 0 and at most 1, is {value_in_words(text)}. {fix}"
            self.problems.append(Problem(text, line))
            return None
        return value

    def _benchmark(self, name: str, line: int) -> RatedBenchmark | None:
        """Return the benchmark of a row; None if it cannot be used."""
        if name in self.used:
            return self.used[name]
        known = self._known.get(name)
        if known is None and self.columns.jury:
            known = RatedBenchmark(name=name, criteria=())
            self._guessed.append(name)
        if known is None or (not self.columns.jury and not known.models):
            self._unknown[self._why_no_benchmark(name, known)].append(line)
            return None
        if not known.criteria and not known.in_points:
            known = RatedBenchmark(name=known.name, criteria=tuple(self.columns.jury), models=known.models)
        if known.in_points:
            self._unknown[f"benchmark `{name}` is graded in points, by criteria of each instance; not here."] += [line]
            return None
        self.used[name] = known
        self._check_criteria(known)
        return known

    def _why_no_benchmark(self, name: str, known: RatedBenchmark | None) -> str:
        if known is None:
            return f"benchmark: {value_in_words(name)} is unknown. {suggestion(name, self._known)}".rstrip()
        columns = ", ".join(f"jury_{criterion}" for criterion in known.criteria)
        add = f", or add what the jury gave as columns {columns}" if columns else ""
        return f"benchmark: the store has no run of `{name}` with judges. `medhelm run --judge` makes one{add}."

    def _check_criteria(self, known: RatedBenchmark) -> None:
        """Check that every criterion has a column, and either all or none of them one of the jury's."""
        rest = [name for name in self.columns.names if name and name not in known.criteria]
        for criterion in known.criteria:
            wanted = [criterion] if self.columns.place(criterion) is None else []
            if self.columns.jury and self.columns.jury_place(criterion) is None:
                wanted.append(f"jury_{criterion}")
            for name in wanted:
                fix = suggestion(name, rest) if len(rest) > 40 or _near(name, rest) else ""
                text = f"column `{name}` is missing; the rubric of {known.name} has this criterion. {fix}".rstrip()
                self.problems.append(Problem(text, self._sheet.line))

    def _check_case(self, known: RatedBenchmark, names: Mapping[str, str], line: int) -> None:
        """Check that the store has the rated completion, unless the file has the jury's grades."""
        if self.columns.jury:
            return
        model, instance = names["model"], names["instance_id"]
        if model not in known.models and model.startswith(HIDDEN):
            text = f"model: `{model}` is not the code of a judged model of the store on {known.name}, {instance}."
            self._unknown[f"{text} Use the store that the sample was drawn from (--store)."].append(line)
            return
        if model not in known.models:
            text = f"model: the store has no judged run of {value_in_words(model)} on {known.name}."
            self._unknown[f"{text} {suggestion(model, known.models)}".rstrip()].append(line)
            return
        key = (known.name, model)
        if key not in self._ids:
            self._ids[key] = self._instances(*key)
        if instance not in self._ids[key]:
            near = suggestion(instance, self._ids[key]) if len(self._ids[key]) <= 5000 else ""
            text = f"instance_id: the run of {model} on {known.name} has no instance {value_in_words(instance)}."
            fix = near or f"`medhelm benchmarks instances {known.name}` lists them."
            self._unknown[f"{text} {fix}"].append(line)

    def _grade(self, cells: list[str], place: int | None, line: int, rater: str, known: RatedBenchmark) -> float | None:
        """Parse a grade on the rubric's scale; None for an empty or invalid cell. `rater`: "" for the jury."""
        text = cells[place].strip() if place is not None else ""
        if place is None or not text:
            return None
        value = self._parse_number(text)
        column = self.columns.names[place]
        if value is None:
            fix = "Write 4.5, not 4,5." if re.fullmatch(r"\d+,\d+", text) else "Leave it empty if the grade is missing."
            self.problems.append(Problem(f"{column}: must be a number, is {value_in_words(text)}. {fix}", line))
            return None
        low, high = self._scale or (known.low, known.high)
        self._grades.append(Grade(rater=rater, value=value, low=low, high=high, line=line, column=column))
        return known.low + (value - low) / (high - low) * (known.high - known.low) if self._scale else value

    def _parse_number(self, text: str) -> float | None:
        """Parse a number, with a decimal comma if the file may have them; None if it is not a number."""
        number = text.replace(",", ".") if self._sheet.decimal_comma and "." not in text else text
        return float(number) if _NUMBER.fullmatch(number) else None

    # --- checks of all rows together ----------------------------------------------------------------------------------

    def _check_unknown(self) -> None:
        """Report each unknown name once, with the number of rows that have it."""
        shown = list(self._unknown.items())
        for text, lines in shown[:SHOWN]:
            more = f" ({len(lines) - 1} more rows have it.)" if len(lines) > 1 else ""
            self.problems.append(Problem(text + more, lines[0]))
        if len(shown) > SHOWN:
            self.problems.append(Problem(f"... and {len(shown) - SHOWN} more unknown names.", shown[SHOWN][1][0]))

    def _check_scale(self) -> None:
        """Report grades off the scale: single cells, and raters who used another scale."""
        others, slips = scale_mismatches(self._grades)
        self.problems += map(_other_scale_problem, others)
        for cell in slips[:SHOWN]:
            text = f"{cell.column}: must be from {cell.low:g} to {cell.high:g}, is {cell.value:g}."
            self.problems.append(Problem(f"{text} Correct it, or leave the cell empty.", cell.line))
        if len(slips) > SHOWN:
            self.problems.append(Problem(f"... and {len(slips) - SHOWN} more grades off the scale.", slips[SHOWN].line))

    def _check_repeated(self, rows: Sequence[Rating]) -> None:
        """Check that a rater rates a completion once, and that all rows have the same jury grades and probability."""
        first: dict[tuple[str, ...], int] = {}
        drawn: dict[tuple[str, str, str], tuple[float, int]] = {}
        jury: dict[tuple[tuple[str, str, str], str], tuple[float, int]] = {}
        for row in rows:
            earlier = first.setdefault((row.rater, *row.case), row.line)
            if earlier != row.line:
                text = f"rater `{row.rater}` rated {_case_in_words(row)} in line {earlier} already. Keep one of them."
                self.problems.append(Problem(text, row.line))
            if row.probability is not None:
                value, line = drawn.setdefault(row.case, (row.probability, row.line))
                if not math.isclose(value, row.probability, rel_tol=1e-6):
                    text = (
                        f"probability: {_case_in_words(row)} has {row.probability:g} here and {value:g} in line {line}."
                    )
                    self.problems.append(Problem(f"{text} A completion has one.", row.line))
            for criterion, grade in row.jury.items():
                if grade is None:
                    continue
                value, line = jury.setdefault((row.case, criterion), (grade, row.line))
                if not math.isclose(value, grade, abs_tol=1e-6):
                    text = f"the jury's {criterion} of {_case_in_words(row)} is {grade:g} here and {value:g} in line"
                    self.problems.append(Problem(f"{text} {line}. A completion has one.", row.line))

    def remarks(self, rows: Sequence[Rating]) -> Iterator[Remark]:
        """Yield the limits of a file without problems."""
        if self._sheet.encoding == "cp1252":
            yield Remark("encoding", "", "the file is not UTF-8; it was read as Windows-1252")
        yield from missing_grades(rows)
        for name in self._guessed:
            low, high = self._scale or (1.0, 5.0)
            text = f"the rubric of {name} is unknown: grades are assumed to be {low:g} to {high:g}, higher is better"
            yield Remark("unknown_rubric", name, text)
        for known in self.used.values():
            if self._scale and self._scale != (known.low, known.high) and known.name not in self._guessed:
                low, high = self._scale
                text = (
                    f"{known.name}: grades from {low:g} to {high:g} were converted to {known.low:g} to {known.high:g}"
                )
                yield Remark("converted_scale", known.name, text)
        spellings: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            spellings[" ".join(row.rater.casefold().split())].add(row.rater)
        for names in spellings.values():
            if len(names) > 1:
                text = f"{' and '.join(f'`{name}`' for name in sorted(names))} are counted as different raters"
                yield Remark("similar_raters", "", text)


def missing_grades(rows: Iterable[Rating]) -> Iterator[Remark]:
    """Yield a remark on grades that raters did not give."""
    empty = Counter(criterion for row in rows for criterion, grade in row.grades.items() if grade is None)
    if empty:
        counts = ", ".join(f"{criterion} {count}" for criterion, count in empty.items())
        n = empty.total()
        verb = "grade was" if n == 1 else "grades were"
        text = f"{n} {verb} not given ({counts}); a rating without all grades has no composite"
        yield Remark("missing_grades", "", text)


def _near(name: str, names: Collection[str]) -> bool:
    """Return whether one of the names is similar to this one."""
    return suggestion(name, names).startswith("Did you mean")


def _other_scale_problem(found: ScaleMismatch) -> Problem:
    """Return the problem that a rater, or the jury, used another scale."""
    first, values = found.grades[0], [grade.value for grade in found.grades]
    who = f"rater `{first.rater}`" if first.rater else "the jury"
    scale = f"{first.low:g} to {first.high:g}"
    if found.n_off:
        text = f"uses another scale: {found.n_off} of {len(values)} grades are outside {scale}, from"
        fix = "Convert them, or if the whole file uses this scale, add --scale LOW HIGH."
        return Problem(f"{who} {text} {min(values):g} to {max(values):g}. {fix}", first.line)
    text = f"seems to use another scale: no grade above {max(values):g}, while others go up to"
    return Problem(f"{who} {text} {found.highest_of_others:g} on {scale}. Convert them to that scale.", first.line)


def _case_in_words(row: Rating) -> str:
    return f"{row.benchmark} {row.instance_id} of {row.model}"
