"""Searches the instances of a benchmark over the records of several runs.

Everything is read from the Parquet files of the runs with one query. Values that come from people are bound parameters;
names in the text of a query are those of our own columns.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from medhelm.analysis.leaderboard.cells import DECIMALS
from medhelm.domain import Benchmark, Run
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.result import HALF
from medhelm.errors import StoreError
from medhelm.extensions.web.cases.tables import Tables
from medhelm.io.files import address, reason
from medhelm.io.http.pages import DIGITS, SEPARATOR, url_key
from medhelm.io.parquet import sql_name, sql_path, sql_text
from medhelm.results.comparable import BASELINE
from medhelm.results.runs.answers import Options, ids_with_prompt_text, read_answers, read_options
from medhelm.storage.annotations import Annotation, annotations_of
from medhelm.storage.damage import damaged, run_tables
from medhelm.storage.store import Store, stored_folder

if TYPE_CHECKING:
    import duckdb

CaseFilter = Literal[
    "all",
    "wrong",
    "right",
    "different",
    "all_wrong",
    "only_wrong",
    "split",
    "changed",
    "other_answer",
    "blank",
    "unreadable",
    "refused",
    "cut",
    "criterion",
    "judges",
    "failed",
    "unscored",
    "injection",
    "truncated",
]
"""Filter by what happened to an instance.

`different`: one model is right and another wrong; `all_wrong`: no strong model is right; `only_wrong`: one model is
wrong and all others are right; `split`: at least a third is right and a third wrong; `changed`: two models differ in
being right, or in the option that they name; `other_answer`: two models name different options and are both right or
both wrong; `blank`: a completion without text; `unreadable`: one without a readable
answer; `cut`: a prompt or a completion that ends at a limit; `criterion`: a judge gave a criterion a low grade, or did
not find it met; `judges`: judges of one completion differ by half of the scale or more, which is 2 of the grades 1 to
5; `failed`: a completion is missing; `unscored`: a score is missing; `injection`: signs of a prompt injection;
`truncated`: the same as `cut`.
"""

OF_TWO: Collection[CaseFilter] = ("changed", "other_answer")
"""Filters that compare the model `got` with the model `missed`."""

CaseOrder = Literal["position", "id", "worst", "best", "spread", "judges"]
"""Order of instances: as in the data; by id; by score, of the model searched for or the mean of all; by the difference
between models, or between judges."""

SearchedText = Literal["all", "prompt", "completion"]
"""Texts that are searched; `all` also searches ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedRuns:
    """Runs of one benchmark with the same main metric."""

    runs: Mapping[str, Run]
    """Model, with its store if there are several -> run."""
    score: str
    """Column of the main metric."""
    worst: float
    """Worst score."""
    best: float
    """Best score."""
    counted_as_worst: Sequence[str] = ()
    """Codes of failures that count as the worst score."""
    prompts: Sequence[Path] = ()
    """Files of prompts; some may be missing."""
    definition: Benchmark | None = None
    """Definition of the benchmark; None if it is not installed here."""

    @property
    def annotations(self) -> dict[str, list[Annotation]]:
        """Annotated instance -> its annotations in all stores of the runs. Raises: StoreError."""
        by_store: dict[Path, dict[str, str]] = {}
        for model, run in self.runs.items():
            by_store.setdefault(stored_folder(run).parents[2], {})[run.model] = model
        found: dict[str, list[Annotation]] = {}
        for folder, names in by_store.items():
            for instance_id, own in annotations_of(Store(folder), next(iter(self.runs.values())).benchmark).items():
                renamed = [replace(one, model=names.get(one.model, one.model)) for one in own]
                found.setdefault(instance_id, []).extend(renamed)
        return found

    @property
    def options(self) -> Mapping[str, Options]:
        """Instance -> its options, of those that have any."""
        return read_options(self.prompts, self.definition, next(iter(self.runs.values())).main_metric)

    @property
    def contestants(self) -> list[str]:
        """Models without the baselines; the baselines if there is nothing else."""
        return [name for name, run in self.runs.items() if not run.model.startswith(BASELINE)] or list(self.runs)

    @property
    def strong(self) -> list[str]:
        """The better half of the models where there are many, else all. `runs` must be in the order of rank."""
        models = self.contestants
        return models[: (len(models) + 1) // 2] if len(models) >= MANY else models

    @property
    def counts_points(self) -> bool:
        """True if judges decide whether a criterion is met; False for grades, and without judges."""
        return any(run.jury_result and run.jury_result.form == "points" for run in self.runs.values())


def _condition(default: Any, meaning: str, words: str = "") -> Any:
    """Return a field of a search that is also a parameter of URLs.

    Parameters: words, the condition in words with `{}` for its value; empty for what is no condition of its own.
    """
    return field(default=default, metadata={"meaning": meaning, "words": words})


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSearch:
    """Conditions on instances. Conditions on completions must hold for one completion together.

    Empty texts are no condition.
    """

    text: str = _condition("", "Text to find, in any case.", "text: {}")
    within: SearchedText = _condition("all", "Texts that are searched; all also searches ids.", "in {}")  # noqa: RUF009
    model: str = _condition("", "Model whose completions are searched.", "completions of {}")
    show: CaseFilter = _condition("all", "Filter by what happened to an instance.", "{}")  # noqa: RUF009
    failure: str = _condition("", "Failure code of a completion.", "failure: {}")
    group: str = _condition("", "Subgroup of instances.", "group: {}")
    low: float | None = _condition(None, "Lowest score of a completion.", "score from {}")
    high: float | None = _condition(None, "Highest score of a completion.", "score to {}")
    got: str = _condition("", "Model that is right.", "right: {}")
    missed: str = _condition("", "Model that is wrong.", "wrong: {}")
    better: str = _condition("", "Model whose score is better than that of the model `than`.", "{}")
    than: str = _condition("", "Model whose score is worse than that of the model `better`.")
    criterion: str = _condition("", "Criterion that a judge graded low, or did not find met.", "low on {}")
    low_grade: float | None = None
    """Grade up to which a criterion is low; from which, where lower is better. None for 2 of 5, or as much."""
    answer: str = _condition("", "Label of the option that a completion names.", "chose {}")
    key: str = _condition("", "Label of the correct option.", "key is {}")
    tag: str = _condition("", "Tag that someone gave to an instance or a completion.", "tag: {}")
    starred: bool = _condition(False, "1: only instances with a star.", "with a star")
    noted: bool = _condition(False, "1: only instances with a note.", "with a note")
    with_baselines: bool = _condition(False, "1: baselines count as models.", "with baselines")
    before: str = _condition("", "Store or release with the earlier runs, in place of those that count.", "from {}")
    now: str = _condition("", "Store or release with the later runs; needs `before`.", "to {}")
    sort: CaseOrder = _condition("position", "Order of the instances.")  # noqa: RUF009

    @property
    def models(self) -> list[str]:
        """Models that the conditions name."""
        return [one for one in (self.model, self.got, self.missed, self.better, self.than) if one]

    def notes(self, annotations: Sequence[Annotation]) -> bool:
        """Return True if the annotations of an instance meet the conditions on tags, stars and notes."""
        return (
            (not self.tag or any(self.tag in one.tags for one in annotations))
            and (not self.starred or any(one.is_starred for one in annotations))
            and (not self.noted or any(one.note for one in annotations))
        )


SEARCH_PARAMETERS = {one.name: one.metadata for one in fields(CaseSearch) if one.metadata}
"""Parameter of URLs -> its `meaning`, and the condition in `words`."""


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One instance in the list of a search."""

    instance_id: str
    """Id of the instance."""
    group: str
    """Group of the instance; empty if there are none."""
    scores: Mapping[str, float | None]
    """Model -> score by the main metric; None if it is missing. A model without this instance is not a key."""
    shares: Mapping[str, float | None]
    """Model -> the same on a scale from 0 (worst) to 1 (best); a failure that the model caused is 0."""
    failures: Mapping[str, str]
    """Model -> failure code of its completion."""
    flags: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Model -> filters that its completion meets by itself, of `FLAGS`."""


@dataclass(frozen=True, slots=True)
class StoredCase:
    """One instance as the store has it."""

    row: CaseRow
    """Scores of all models."""
    records: Mapping[str, Mapping[str, Any]]
    """Model -> all columns of its record; a column that only other files have is None."""
    judgments: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Model -> all columns of the judgments of its completion."""


FLAGS = {
    "blank": "row(model, instance_id) IN (SELECT row(model, instance_id) FROM blanks)",
    "unreadable": "coalesce(unreadable, false)",
    "refused": "failure_code = 'refusal'",
    "cut": "(truncated_characters > 0 OR finish_reason = 'length' OR failure_code = 'length')",
    "failed": "failure_code IS NOT NULL",
    "unscored": "score IS NULL",
    "injection": "injection_signs <> ''",
}
"""Filter by a property of one completion -> SQL condition."""

_RECORD = {"wrong": f"share < {HALF}", "right": f"share >= {HALF}", **FLAGS, "truncated": FLAGS["cut"]}
"""Filter -> SQL condition on one record."""

_INSTANCE = {
    "different": "n_right > 0 AND n_wrong > 0",
    "all_wrong": "n_strong > 0 AND NOT strong_right",
    "only_wrong": "n_wrong = 1 AND n_right > 0",
    "split": "3 * n_right >= n_right + n_wrong AND 3 * n_wrong >= n_right + n_wrong AND n_right > 0 AND n_wrong > 0",
    "judges": f"judge_spread >= {HALF}",
}
"""Filter -> SQL condition on an instance with its counts."""

_ORDER = {
    "position": "position",
    "id": "instance_id",
    "worst": "ranked_share NULLS LAST",
    "best": "ranked_share DESC NULLS LAST",
    "spread": "spread DESC NULLS LAST",
    "judges": "judge_spread DESC NULLS LAST",
}
"""Order -> SQL. Equal instances follow in the order of the data."""

_MAY_BE_BLANK = r"[<\[◁#|]|^\P{L}*$|analysis|assistantfinal|thought process"
"""Pattern of completions that may be without text, or have reasoning only."""

_COLUMNS = {
    "group": ("group", "VARCHAR"),
    "completion": ("completion", "VARCHAR"),
    "unreadable": ("unreadable", "BOOLEAN"),
    "finish_reason": ("finish_reason", "VARCHAR"),
    "failure_code": ("failure_code", "VARCHAR"),
    "truncated_characters": ("left_out", "BIGINT"),
    "injection_signs": ("suspicions", "VARCHAR"),
}
"""Column of the view -> column on disk and its type; files of older versions lack some."""


LOW = 0.25
"""Share of the scale up to which a grade is low: 2 of the grades 1 to 5."""

LEAST_LEAD = 0.5 * 10**-DECIMALS
"""Difference of two shares of the scale from which one score is better than the other."""

MANY = 6
"""Models from which only the better half counts as strong."""


def rank_models(searched: SearchedRuns) -> list[str]:
    """Return the models by their mean score, the best first, and then the baselines."""
    with _Records(searched) as records:
        shares = dict(records.rows("SELECT model, avg(share) FROM records GROUP BY model", []))
    contestants = set(searched.contestants)

    def place(model: str) -> tuple[bool, float, str]:
        share = shares.get(model)
        return model not in contestants, math.inf if share is None else -share, model

    return sorted(searched.runs, key=place)


def counted_models(searched: SearchedRuns, search: CaseSearch) -> list[str]:
    """Return the models whose records a search looks at: baselines only if they are asked for."""
    if search.with_baselines:
        return list(searched.runs)
    return list(dict.fromkeys([*searched.contestants, *search.models]))


def search_cases(searched: SearchedRuns, search: CaseSearch) -> list[str]:
    """Return the ids of all instances that meet the conditions, in order.

    Raises: StoreError for records that cannot be read.
    """
    with _Records(searched) as records:
        return records.search(search)


def read_case_rows(searched: SearchedRuns, instance_ids: Sequence[str], *, with_flags: bool = True) -> list[CaseRow]:
    """Read the scores of these instances by all models, in the order of the ids. `with_flags`: flags, too."""
    with _Records(searched) as records:
        if with_flags:
            records.find_blanks(instance_ids)
        return records.case_rows(instance_ids, with_flags=with_flags)


@dataclass(frozen=True, slots=True)
class CompletionGrades:
    """Judgments of one completion: the largest difference, and the low grades."""

    spread: float
    """Largest difference between them on a criterion, as a share of the scale."""
    low: Sequence[str]
    """Criteria that one of them graded low, sorted."""


def read_judge_findings(searched: SearchedRuns, instance_ids: Sequence[str]) -> dict[tuple[str, str], CompletionGrades]:
    """Return model and instance -> the judgments of the completion."""
    with _Records(searched) as records:
        rows = records.rows(
            "SELECT model, instance_id, max(spread), coalesce(list(DISTINCT criterion) FILTER (is_low), []) "  # noqa: S608
            f"FROM {records.judged(list(searched.runs))} WHERE {_AMONG_IDS} GROUP BY ALL",
            [list(instance_ids)],
        )
    return {(model, name): CompletionGrades(spread or 0.0, sorted(low)) for model, name, spread, low in rows}


Texts: TypeAlias = Mapping[str, Sequence[tuple[str, str]]]
"""Instance -> pairs of a source and a text. The source is "" for the prompt, `option` or `reference` for its other
parts, and the model for a completion."""


def read_texts(searched: SearchedRuns, instance_ids: Sequence[str], models: Sequence[str]) -> Texts:
    """Read all texts of these instances."""
    with _Records(searched) as records:
        return records.texts(instance_ids, models)


def search_texts(searched: SearchedRuns, search: CaseSearch, most: int) -> tuple[int, Texts]:
    """Return the number of instances that meet the conditions, and all texts of the first of them."""
    with _Records(searched) as records:
        found = records.search(search)
        texts = records.texts(found[:most], counted_models(searched, search)) if found else {}
        return len(found), texts


def read_case(searched: SearchedRuns, key: str, models: Sequence[str]) -> StoredCase | None:
    """Read the instance with this key (see `url_key`), with the records of these models; None if no run has it."""
    with _Records(searched) as records:
        instance_id = records.instance_id(key)
        if instance_id is None:
            return None
        row, whole = records.case_rows([instance_id])[0], records.whole(instance_id, models)
        return StoredCase(row, whole, records.judgments(instance_id, list(whole)))


class OutcomeCounts(NamedTuple):
    """Counts of instances by which of two models are right; those without a score of both do not count."""

    both: int
    """Both right."""
    first: int
    """Only the first right."""
    second: int
    """Only the second right."""
    none: int
    """Both wrong."""


def count_outcomes(searched: SearchedRuns, first: str, second: str) -> OutcomeCounts:
    """Count the instances that both, only one, and none of two models got right."""
    with _Records(searched) as records:
        query = (
            f"WITH pairs AS (SELECT bool_or(share >= {HALF}) FILTER (model = ?) AS a, "  # noqa: S608 - our own number
            f"bool_or(share >= {HALF}) FILTER (model = ?) AS b FROM records GROUP BY instance_id) "
            "SELECT count(*) FILTER (a AND b), count(*) FILTER (a AND NOT b), count(*) FILTER (b AND NOT a), "
            "count(*) FILTER (NOT a AND NOT b) FROM pairs"
        )
        return OutcomeCounts(*records.rows(query, [first, second])[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchChoices:
    """Values that occur in the records, for the fields of a form."""

    groups: Sequence[str]
    """Groups of instances."""
    failures: Sequence[str]
    """Failure codes of completions."""
    criteria: Sequence[str]
    """Criteria that all instances share."""
    labels: Sequence[str]
    """Labels of the options; empty for open questions."""


def read_choices(searched: SearchedRuns) -> SearchChoices:
    """Return the values that occur in the records, sorted."""
    with _Records(searched) as records:
        labels = {label for own in searched.options.values() for label in own.labels}
        judged = "" if searched.counts_points else records.judged(list(searched.runs))
        return SearchChoices(
            groups=records.distinct("records", '"group"'),
            failures=records.distinct("records", "failure_code"),
            criteria=records.distinct(judged, "criterion") if judged else [],
            labels=sorted(labels) if len(labels) <= MOST_LABELS else [],
        )


@dataclass(frozen=True, slots=True)
class GradedCase:
    """An instance with its mean grade on one criterion."""

    instance_id: str
    """Id of the instance."""
    mean: float
    """Mean grade over all models and judges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionGrades:
    """Grades of the judges on one criterion."""

    criterion: str
    """Name of the criterion."""
    lower_is_better: bool
    """True if its lowest grade is the best one."""
    mean: float
    """Mean grade over all models."""
    means: Mapping[str, float]
    """Model -> mean grade."""
    n_low: Mapping[str, int]
    """Model -> completions that a judge graded low."""
    worst: Sequence[GradedCase]
    """Instances with the worst mean grade."""


def read_criteria(searched: SearchedRuns, most_cases: int = 3) -> list[CriterionGrades]:
    """Return the grades on each criterion, the worst mean first; baselines do not count. Empty without judges."""
    with _Records(searched) as records:
        return records.criterion_grades(searched.contestants, most_cases)


MOST_LABELS = 26
"""Most different labels of options that a form offers."""


_Where: TypeAlias = tuple[str, list[Any]]
"""A condition in SQL with the values of its parameters."""

_EMPTY = "CREATE OR REPLACE TEMP TABLE {} (model VARCHAR, instance_id VARCHAR)"
"""SQL of a table of completions without any."""

_AMONG_IDS = "instance_id IN (SELECT unnest(?::VARCHAR[]))"
"""Condition that an instance is one of a list."""


class _Records:
    """A connection with the view `records`: one row per instance and model."""

    def __init__(self, searched: SearchedRuns) -> None:
        self._searched = searched
        self._paths = {model: stored_folder(run) / "records.parquet" for model, run in searched.runs.items()}
        self._files = {address(path): model for model, path in self._paths.items()}

    def __enter__(self) -> _Records:
        import duckdb

        try:
            self._tables = Tables(list(self._paths.values()), self._judged_files(list(self._paths)))
            self._connection = self._tables.connect(self._purpose, self._make_view)
        except duckdb.Error as error:
            raise _unreadable(self._searched, error) from error
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error:
            self._connection.close()
        else:
            self._tables.give_back(self._purpose, self._connection)

    @property
    def _purpose(self) -> Hashable:
        """All that the view depends on."""
        return tuple(self._files.items()), tuple(self._searched.strong), self._searched.score, self._share()

    def rows(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises: StoreError for damaged files."""
        import duckdb

        try:
            return self._connection.execute(query, list(values)).fetchall()
        except duckdb.Error as error:
            raise _unreadable(self._searched, error) from error

    def distinct(self, table: str, column: str) -> list[str]:
        """Return the texts in a column, sorted, without the empty one."""
        query = f"SELECT DISTINCT {column} FROM {table} WHERE {column} <> '' ORDER BY 1"  # noqa: S608 - our own names
        return [row[0] for row in self.rows(query, [])]

    def instance_id(self, key: str) -> str | None:
        """Return the id of the instance with this key; None if no run has it."""
        digest = key.rpartition(SEPARATOR)[2]
        is_plain = digest == key
        condition, value = ("instance_id = ?", key) if is_plain else (f"sha256(instance_id)[:{DIGITS}] = ?", digest)
        rows = self.rows(f"SELECT DISTINCT instance_id FROM records WHERE {condition} ORDER BY 1", [value])  # noqa: S608
        return next((row[0] for row in rows if url_key(row[0]) == key), None)

    def case_rows(self, instance_ids: Sequence[str], *, with_flags: bool = False) -> list[CaseRow]:
        """Return the scores of these instances by all models, in the order of the ids."""
        flags = FLAGS if with_flags else {}
        columns = ", ".join(["instance_id", "model", '"group"', "score", "share", "failure_code", *flags.values()])
        query = (
            f"SELECT {columns} FROM records "  # noqa: S608 - our own names
            f"WHERE {_AMONG_IDS} ORDER BY instance_id"
        )
        by_id = groupby(self.rows(query, [list(instance_ids)]), key=lambda row: row[0])
        found = {instance_id: list(own) for instance_id, own in by_id}
        order = {model: place for place, model in enumerate(self._searched.runs)}
        cases = []
        for instance_id in instance_ids:
            rows = sorted(found.get(instance_id, []), key=lambda row: order[row[1]])
            cases.append(
                CaseRow(
                    instance_id,
                    next((row[2] for row in rows if row[2]), ""),
                    {row[1]: row[3] for row in rows},
                    {row[1]: row[4] for row in rows},
                    {row[1]: row[5] for row in rows if row[5]},
                    {row[1]: [name for name, holds in zip(flags, row[6:], strict=True) if holds] for row in rows},
                )
            )
        return cases

    def whole(self, instance_id: str, models: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return model -> all columns of the record of an instance."""
        rows = self._rows_of(self._tables.records, instance_id, [self._paths[model] for model in models])
        return {self._files[row.pop("filename")]: row for row in rows}

    def judgments(self, instance_id: str, models: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return model -> judgments of its completion of an instance, in the order written."""
        files = {address(path): model for model in models for path in self._judged_files([model])}
        lacking = [run for model, run in self._runs(models).items() if run.jury_result and model not in files.values()]
        if lacking:
            raise _unreadable(self._searched, FileNotFoundError(f"no judgments of {lacking[0].model}"))
        found: dict[str, list[dict[str, Any]]] = {}
        for row in self._rows_of(self._tables.judgments, instance_id, files) if files else ():
            found.setdefault(files[row["filename"]], []).append(row)
        return {model: sorted(rows, key=lambda row: row["file_row_number"]) for model, rows in found.items()}

    def _rows_of(self, table: str, instance_id: str, files: Iterable[Path | str]) -> list[dict[str, Any]]:
        """Return all columns of the rows of an instance in some of the files of a table."""
        query = f"SELECT * FROM {table} WHERE instance_id = ? AND filename IN (SELECT unnest(?::VARCHAR[]))"  # noqa: S608
        rows = self.rows(query, [instance_id, list(map(address, files))])
        names = [column[0] for column in self._connection.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def search(self, search: CaseSearch) -> list[str]:
        """Return the ids of the instances that meet the conditions, in order."""
        counted = counted_models(self._searched, search)
        if search.show == "blank":
            self.find_blanks()
        each, whole = self._on_record(search, counted), self._on_instance(search)
        on_record = " AND ".join(["true", *(sql for sql, _ in each)])
        on_instance = " AND ".join([f"bool_or({on_record})", *(sql for sql, _ in whole)])
        judged, spread = "", "NULL"
        if "judges" in (search.show, search.sort):
            table = self.judged([search.model] if search.model else counted)
            spreads = f"SELECT instance_id, max(spread) AS judges FROM {table} GROUP BY instance_id"  # noqa: S608
            judged, spread = f"LEFT JOIN ({spreads}) USING (instance_id)", "any_value(judges)"
        ranked, own = ("any_value(share) FILTER (model = ?)", [search.model]) if search.model else ("avg(share)", [])
        query = (
            f"WITH found AS (SELECT instance_id, min(position) AS position, {ranked} AS ranked_share, "  # noqa: S608
            f"max(share) - min(share) AS spread, {spread}::DOUBLE AS judge_spread, "
            f"count(*) FILTER (share >= {HALF}) AS n_right, count(*) FILTER (share < {HALF}) AS n_wrong, "
            "count(share) FILTER (is_strong) AS n_strong, "
            f"coalesce(bool_or(share >= {HALF}) FILTER (is_strong), false) AS strong_right "
            f"FROM records {judged} WHERE model IN (SELECT unnest(?::VARCHAR[])) GROUP BY instance_id "
            f"HAVING {on_instance}) "
            f"SELECT instance_id FROM found WHERE {_INSTANCE.get(search.show, 'true')} "
            f"ORDER BY {_ORDER[search.sort]}, position, instance_id"
        )
        values = [value for _, own_values in [*each, *whole] for value in own_values]
        return [row[0] for row in self.rows(query, [*own, counted, *values])]

    def _on_record(self, search: CaseSearch, counted: Sequence[str]) -> list[_Where]:
        """Return the conditions on one record."""
        found: list[_Where] = []
        if search.model:
            found.append(("model = ?", [search.model]))
        if search.show in _RECORD:
            found.append((_RECORD[search.show], []))
        if search.show == "only_wrong":
            found.append((_RECORD["wrong"], []))
        if search.failure:
            found.append(("failure_code = ?", [search.failure]))
        if search.low is not None:
            found.append(("score >= ?", [search.low]))
        if search.high is not None:
            found.append(("score <= ?", [search.high]))
        if search.criterion or search.show == "criterion":
            pairs = self._low_judgments(counted, search.criterion, search.low_grade)
            found.append(self._among("lows", pairs))
        if search.answer:
            answers = read_answers(self._runs(counted), self._searched.options)
            pairs = [
                (model, name) for model, own in answers.items() for name, said in own.items() if said == search.answer
            ]
            found.append(self._among("chosen", pairs))
        if search.text:
            found.append(self._on_text(search))
        return found

    def _runs(self, models: Sequence[str]) -> dict[str, Run]:
        return {model: self._searched.runs[model] for model in models}

    def _among(self, table: str, pairs: Sequence[tuple[str, str]]) -> _Where:
        """Return the condition that model and instance are among these."""
        self._fill(table, pairs)
        return f"row(model, instance_id) IN (SELECT row(model, instance_id) FROM {table})", []  # noqa: S608

    def _fill(self, table: str, pairs: Sequence[tuple[str, str]]) -> None:
        self._connection.execute(_EMPTY.format(table))
        if pairs:
            self._connection.execute(
                f"INSERT INTO {table} SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
                [list(column) for column in zip(*pairs, strict=True)],
            )

    def texts(self, instance_ids: Sequence[str], models: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        """Return all texts of these instances, the prompt first."""
        found: dict[str, list[tuple[str, str]]] = {name: [] for name in instance_ids}
        for path in self._searched.prompts:
            if not path.is_file():
                continue
            rows = self.rows(
                f'SELECT instance_id, messages, choices, "references" FROM read_parquet({sql_path(path)}) '  # noqa: S608
                f"WHERE {_AMONG_IDS}",
                [list(instance_ids)],
            )
            for name, messages, choices, references in rows:
                if not found[name]:
                    found[name] += [("", one["content"]) for one in reversed(json.loads(messages))]
                    found[name] += [("option", one) for one in json.loads(choices)]
                    found[name] += [("reference", one["text"]) for one in json.loads(references)]
        rows = self.rows(
            f"SELECT instance_id, model, completion FROM records WHERE {_AMONG_IDS} AND completion IS NOT NULL "  # noqa: S608
            "AND model IN (SELECT unnest(?::VARCHAR[]))",
            [list(instance_ids), list(models)],
        )
        order = {model: place for place, model in enumerate(models)}
        for name, model, text in sorted(rows, key=lambda row: order[row[1]]):
            found[name].append((model, text))
        return found

    def find_blanks(self, instance_ids: Sequence[str] | None = None) -> None:
        """Find the completions without text, except for reasoning. `instance_ids`: None for all instances."""
        chosen = "true" if instance_ids is None else _AMONG_IDS
        rows = self.rows(
            f"SELECT model, instance_id, completion FROM records WHERE {chosen} AND completion IS NOT NULL "  # noqa: S608
            f"AND failure_code IS NULL AND regexp_matches(completion, {sql_text(_MAY_BE_BLANK)})",
            [] if instance_ids is None else [list(instance_ids)],
        )
        self._fill("blanks", [(model, name) for model, name, text in rows if not strip_reasoning(text).strip()])

    def criterion_grades(self, models: Sequence[str], most_cases: int) -> list[CriterionGrades]:
        """Return the grades of these models on each criterion, the worst mean first."""
        files = {address(path): model for model in models for path in self._judged_files([model])}
        if not files:
            return []
        worst, best, _ = self._scale()
        result = next(run.jury_result for run in self._searched.runs.values() if run.jury_result)
        table = f"read_parquet([{', '.join(map(sql_path, files))}], filename = true) WHERE score IS NOT NULL"
        by_model: dict[str, dict[str, float]] = {}
        for criterion, file, mean in self.rows(
            f"SELECT criterion, filename, avg(score) FROM {table} GROUP BY ALL ORDER BY ALL",  # noqa: S608
            [],
        ):
            by_model.setdefault(criterion, {})[files[file]] = mean
        found = []
        for criterion, means in by_model.items():
            turned = criterion in result.lower_is_better
            low = Counter(model for model, _ in self._low_judgments(models, criterion))
            rows = self.rows(
                f"SELECT instance_id, avg(score) AS mean FROM {table} AND criterion = ? GROUP BY instance_id "  # noqa: S608
                f"ORDER BY mean {'DESC' if turned else 'ASC'}, instance_id LIMIT {int(most_cases)}",
                [criterion],
            )
            mean = sum(means.values()) / len(means)
            found.append(
                CriterionGrades(
                    criterion=criterion,
                    lower_is_better=turned,
                    mean=mean,
                    means=means,
                    n_low=low,
                    worst=[GradedCase(*row) for row in rows],
                )
            )
        return sorted(found, key=lambda one: worst + best - one.mean if one.lower_is_better else one.mean)

    def judged(self, models: Sequence[str], low_grade: float | None = None) -> str:
        """Return the SQL table of the judgments of these models: one row for each model, instance and criterion.

        `spread` is the difference between judges as a share of the scale; `is_low` says whether one of them graded low.
        Empty if there are none.
        """
        files = {address(path): model for model in models for path in self._judged_files([model])}
        if not files:
            return (
                "(SELECT NULL::VARCHAR AS model, NULL AS instance_id, '' AS criterion, 0.0 AS spread, false AS is_low)"
            )
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE judged AS "
            "SELECT unnest(?::VARCHAR[]) AS filename, unnest(?::VARCHAR[]) AS model",
            [list(files), list(files.values())],
        )
        worst, best, turned = self._scale()
        span = best - worst
        limit = worst + LOW * span if low_grade is None else low_grade
        turned_limit = best - LOW * span if low_grade is None else low_grade
        low = (
            "CASE WHEN points < 0 THEN score >= 0.5 WHEN points > 0 THEN score < 0.5 "
            f"WHEN criterion IN ({turned}) THEN score >= {turned_limit!r} ELSE score <= {limit!r} END"
        )
        return (
            f"(SELECT model, instance_id, criterion, bool_or({low}) AS is_low, "  # noqa: S608 - our own files
            f"(max(score) - min(score)) / if(max(abs(points)) > 0, 1, {span or 1.0!r}) AS spread "
            f"FROM read_parquet([{', '.join(map(sql_path, files))}], filename = true) AS j "
            "JOIN judged USING (filename) GROUP BY model, instance_id, criterion)"
        )

    def _low_judgments(
        self, models: Sequence[str], criterion: str, low_grade: float | None = None
    ) -> list[tuple[str, str]]:
        """Return model and instance of the completions that a judge graded low on a criterion; "" for any."""
        named, values = ("AND criterion = ?", [criterion]) if criterion else ("", [])
        table = self.judged(models, low_grade)
        query = f"SELECT DISTINCT model, instance_id FROM {table} WHERE is_low {named}"  # noqa: S608 - our own files
        return self.rows(query, values)

    def _scale(self) -> tuple[float, float, str]:
        """Return the worst and the best grade, and as SQL the criteria whose lowest grade is the best one."""
        result = next(run.jury_result for run in self._searched.runs.values() if run.jury_result)
        turned = ", ".join(map(sql_text, result.lower_is_better)) or "''"
        return float(result.low), float(result.high), turned

    def _on_text(self, search: CaseSearch) -> _Where:
        pattern = re.escape(search.text)
        alternatives: list[_Where] = []
        if search.within != "prompt":
            alternatives.append(("coalesce(regexp_matches(completion, ?, 'i'), false)", [pattern]))
        if search.within == "all":
            alternatives.append(("regexp_matches(instance_id, ?, 'i')", [pattern]))
        if search.within != "completion":
            ids = list(ids_with_prompt_text(self._connection, self._searched.prompts, search.text))
            alternatives.append((_AMONG_IDS, [ids]))
        sql = " OR ".join(sql for sql, _ in alternatives)
        return f"({sql})", [value for _, values in alternatives for value in values]

    def _on_instance(self, search: CaseSearch) -> list[_Where]:
        """Return the conditions on all records of an instance."""
        found: list[_Where] = []
        if search.group:
            found.append(('bool_or("group" = ?)', [search.group]))
        if search.key:
            options = self._searched.options.items()
            found.append((_AMONG_IDS, [[name for name, own in options if search.key in own.correct]]))
        if search.tag or search.starred or search.noted:
            annotations = self._searched.annotations.items()
            found.append((_AMONG_IDS, [[name for name, own in annotations if search.notes(own)]]))
        if search.better and search.than:
            share = "any_value(share) FILTER (model = ?)"
            found.append((f"coalesce({share} - {share} > {LEAST_LEAD!r}, false)", [search.better, search.than]))
        if search.show in OF_TWO:
            pair = [search.got, search.missed]
            right = f"bool_or(share >= {HALF}) FILTER (model = ?)"
            first, second = read_answers(self._runs(pair), self._searched.options).values()
            changed = [name for name, said in first.items() if said != second.get(name, said)]
            if search.show == "other_answer":
                return [*found, (f"(coalesce({right} = {right}, false) AND {_AMONG_IDS})", [*pair, changed])]
            return [*found, (f"(coalesce({right} <> {right}, false) OR {_AMONG_IDS})", [*pair, changed])]
        for model, comparison in ((search.got, ">="), (search.missed, "<")):
            if model:
                found.append((f"coalesce(bool_or(share {comparison} {HALF}) FILTER (model = ?), false)", [model]))
        return found

    def _make_view(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the view, and the tables that its conditions name."""
        table = self._tables.records
        known = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()}  # noqa: S608
        columns = [
            f"{sql_name(stored) if stored in known else 'NULL'}::{kind} AS {sql_name(name)}"
            for name, (stored, kind) in _COLUMNS.items()
        ]
        score = sql_name(self._searched.score) if self._searched.score in known else "NULL::DOUBLE"
        score = f"CASE WHEN isfinite({score}) THEN {score} END"
        connection.execute(_EMPTY.format("blanks"))
        connection.execute("CREATE TEMP TABLE models (path VARCHAR, model VARCHAR, is_strong BOOLEAN)")
        strong = set(self._searched.strong)
        connection.execute(
            "INSERT INTO models SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[]), unnest(?::BOOLEAN[])",
            [list(self._files), list(self._files.values()), [model in strong for model in self._files.values()]],
        )
        connection.execute(
            f"CREATE TEMP VIEW records AS SELECT *, {self._share()} AS share "  # noqa: S608 - our own names
            f"FROM (SELECT instance_id, position, model, is_strong, {', '.join(columns)}, {score} AS score "
            f"FROM {table} AS r JOIN models ON r.filename = models.path)"
        )

    def _share(self) -> str:
        """Return the SQL of a score on a scale from 0 (worst) to 1 (best); NULL for an unbounded scale."""
        worst, best = float(self._searched.worst), float(self._searched.best)
        if not math.isfinite(best - worst) or best == worst:
            return "NULL::DOUBLE"
        codes = ", ".join(sql_text(code) for code in self._searched.counted_as_worst)
        failed = f"score IS NULL AND failure_code IN ({codes})" if codes else "false"
        return f"CASE WHEN {failed} THEN 0.0 ELSE (score - ({worst!r})::DOUBLE) / ({best - worst!r})::DOUBLE END"

    def _judged_files(self, models: Sequence[str]) -> list[Path]:
        """Return the files with the judgments of these models."""
        files = [stored_folder(run) / "judgments.parquet" for run in self._runs(models).values()]
        return [path for path in files if path.is_file()]


def _unreadable(searched: SearchedRuns, error: Exception) -> StoreError:
    """Return an error that names each damaged file."""
    problems = damaged(path for run in searched.runs.values() for path in run_tables(run))
    return StoreError("\n".join(map(str, problems)) or f"records cannot be read: {reason(error)}")
