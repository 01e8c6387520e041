"""The options of commands and functions that read a store: its runs, their prices, and the ranking of models.

Light: the command line makes its options of these fields, and shell completion reads them at every press of a key.

Suites of a store: their benchmarks and weights, and the order in which benchmarks are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from functools import cache, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, get_args

from medhelm.benchmarks.suites import find_suite, load_suite
from medhelm.domain import RULES, Benchmark, Model, Price, Rule, Tier
from medhelm.domain.benchmark import Suite, SuiteEntry
from medhelm.domain.option_fields import option, option_of, options_in
from medhelm.domain.ranking import RankingOptions
from medhelm.domain.text import AnyPath, AnyPaths, as_names, as_paths, listed, shortened
from medhelm.errors import MedHelmError, UserError
from medhelm.models.prices import price_of

if TYPE_CHECKING:
    from medhelm.analysis.comparison.significance import Adjustment
    from medhelm.analysis.leaderboard.cells import Column
    from medhelm.domain.run import RunOnDisk
    from medhelm.models.price_book import PriceBook


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Conditions on runs. Names may be shortened to a prefix that no other name has."""

    models: Collection[str] = option(
        "--model",
        "Only runs of this model; the beginning of its name is enough; repeatable.",
        (),
        metavar="MODEL",
        completes="stored_models",
    )
    excluded: Collection[str] = option(
        "--exclude", "Exclude runs of this model; repeatable.", (), metavar="MODEL", completes="stored_models"
    )
    benchmarks: Collection[str] = option(
        "--benchmark",
        "Only runs on this benchmark; repeatable.",
        (),
        metavar="BENCHMARK",
        completes="stored_benchmarks",
    )
    variants: Collection[str] = option(
        "--variant",
        "Also runs that asked other questions: a name such as typos, prompt=terse or repeat=2, or all; repeatable.",
        (),
        metavar="NAME",
    )
    since: datetime | None = option(
        "--since",
        "Only runs that started on this day or later, in UTC, such as 2026-11-01 or 2026-11-01T14:30.",
        metavar="DATE",
    )

    def __post_init__(self) -> None:
        """Accept one name in place of several. Raises: UserError for values that are not names or a time."""
        for name in ("models", "excluded", "benchmarks", "variants"):
            object.__setattr__(self, name, tuple(as_names(getattr(self, name), name)))
        if self.since is not None and not isinstance(self.since, datetime):
            raise UserError(f"`since` must be a datetime. This is not: {shortened(self.since)}.")

    @property
    def is_empty(self) -> bool:
        """True if every run meets it."""
        return self == EVERY_RUN


EVERY_RUN = RunFilter()
"""The filter without conditions."""

FILTER_FLAGS = listed([form.flag for one in fields(RunFilter) if (form := option_of(one))])
"""The options that filter runs, for messages."""


NO_RATINGS = "none"
"""Choice of no ratings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationOptions:
    """Ratings by clinicians to show, and to calibrate jury scores with."""

    ratings: AnyPath = ""
    """A file, or the name of a study in the store; "" for all studies of the store, `none` for no ratings."""
    studies: Collection[str] | None = None
    """Only these studies of the store, where all are chosen; None for all."""
    definitions: Sequence[Benchmark] = ()
    """Benchmarks whose rubrics are known, for a file."""
    curve: bool = False
    """True if grades are mapped through a rising curve instead of a straight line."""

    @property
    def is_given(self) -> bool:
        """True for a file or a study that was named."""
        return str(self.ratings) not in ("", NO_RATINGS)


STORED_RATINGS = CalibrationOptions()
"""The ratings of the store."""

RATINGS_HELP = (
    "Clinicians' ratings: a file, the name of a study in the store, or none.  [default: all studies of the store]"
)
"""Help of `--ratings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions(RankingOptions):
    """Options of a leaderboard, and of everything that reads the runs that count on it."""

    completers_only: bool = option(
        "--completers-only",
        "Leave out refusals and exhausted limits instead of counting them as the worst answer.",
        False,
        group="ranking",
    )
    suite: AnyPath = option(
        "--suite",
        "Benchmarks that count: all, paper35, suite37, public, gated, private, a category, a subcategory, or a file "
        "with one benchmark per line (YAML: with weights; .conf: run entries of HELM).",
        "all",
        metavar="NAME|FILE",
        completes="suites",
    )
    wanted: RunFilter = options_in(EVERY_RUN)
    """Only these runs are read."""
    tier: Tier | None = option(
        "--tier", "Results on real data or on sample rows.  [default: real, if there are any]", choices=get_args(Tier)
    )
    rule: Rule = option("--scoring", "Scoring rule to show; both are computed and stored.", "corrected", choices=RULES)
    pricing: Pricing | AnyPaths | None = option(
        "--prices",
        "Prices that override all others: a YAML list of {model, input, output} in US dollars per million tokens, or a "
        "snapshot such as paper-2025-05-12; repeatable.",
        (),
        metavar="FILE|SNAPSHOT",
    )
    clinicians: CalibrationOptions | None = STORED_RATINGS
    """Ratings that are shown, and with which jury scores are also calibrated; None for none. The jury's scores still
    determine the ranks."""
    comparable_only: bool = True
    """False to include runs under other conditions, as leaderboards released before 0.2.0 did."""
    benchmark_folders: AnyPaths = ()
    """Folders with further benchmarks that a suite file may name."""
    short_names: bool = False
    """True for names of models without addresses of servers."""
    criteria: bool = False
    """True to read the judges' grades by criterion too, which takes longer; only with corrected scoring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOptions:
    """Options of a report or a card about itself."""

    title: str = option("--title", "Title of the document.", "", metavar="TEXT")
    institution: str = option("--institution", "Institution that the document is for.", "", metavar="NAME")
    author: str = option("--author", "Person or group that made it.", "", metavar="NAME")
    date: str = option("--date", "Date of the document.  [default: today]", "", metavar="DATE")
    ratings: Path | None = option("--ratings", RATINGS_HELP, metavar="FILE|NAME|none")
    signers: Path | None = option(
        "--signed-by",
        "Check the signature of the release that holds these results: a public key, or a file of allowed signers.",
        metavar="FILE",
    )

    @property
    def texts(self) -> dict[str, str]:
        """Return what the document says: name of a field -> its text, empty ones included."""
        return {name: getattr(self, name) for name in ("title", "institution", "author", "date")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options that choose other results than those of stores, or beside them."""

    scores: Path | None = option("--scores", "CSV file of published scores to use instead of a store.", metavar="FILE")
    with_published: bool = option("--with-published", "Include the nine published models.", False)
    published_only: bool = option("--published-only", "Only the nine published models; needs no store.", False)

    @property
    def has_no_runs(self) -> bool:
        """True if no store is read."""
        return self.published_only or self.scores is not None


BY_PAIRS = ("overall", "benchmark", "test", "criterion")
"""Words of `compare --by`; other names are columns of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """Options of a comparison of models."""

    everything: bool = option("--all", "Compare every pair of models; the default if no models are named.", False)
    adjustment: Adjustment = option(
        "--adjust",
        "Adjust p-values by Holm (family-wise error) or by Benjamini and Hochberg (false discovery rate).",
        "holm",
        choices=("holm", "bh"),
    )
    by: str | None = option(
        "--by",
        "Rows if more than two models are compared: overall (pairs), benchmark, or test (pairs on each benchmark); for "
        "two models: criterion, for those of the judges' rubrics, or a column of the data.  [default: overall]",
        metavar="overall|benchmark|test|criterion|[BENCHMARK:]COLUMN",
    )
    published_only: bool = option(
        "--published-only", "Compare the published models by their means; nothing else is known.", False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawOptions:
    """Options of a draw of completions to rate."""

    by_score: bool = option("--by-score", "Draw completions with rare jury scores more often.", False)
    same_instances: bool = option(
        "--same-instances", "Draw the same instances for every model, which compares models best.", False
    )
    show_models: bool = option("--show-models", "Write the names of models instead of codes.", False)
    include_baselines: bool = option(
        "--include-baselines", "Also draw completions of baselines; those that --model names are drawn.", False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeFilter:
    """Choice of what to delete. Without any condition, everything."""

    benchmarks: Collection[str] = option("--benchmark", "Only text of this benchmark; repeatable.", (), metavar="NAME")
    models: Collection[str] = option("--model", "Only text of this model or judge; repeatable.", (), metavar="NAME")
    before: datetime | None = None
    """Only what is older; None for any age."""
    orphans: bool = option("--orphans", "Also delete completions in the cache that do not belong to a run.", False)
    only_orphans: bool = False
    """Nothing else."""

    def selects(self, one: RunOnDisk) -> bool:
        """Return whether a run is to be deleted. A damaged run has no known age."""
        started = datetime.fromisoformat(one.started) if one.started else None
        return (
            not self.only_orphans
            and one.benchmark in (self.benchmarks or [one.benchmark])
            and bool({one.model, one.model_name} & set(self.models or [one.model]))
            and (self.before is None or (started is not None and started < self.before))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRequest:
    """The instances to delete, as the user names them."""

    instances: Sequence[str] = option("--instance", "Only this instance; repeatable.", (), metavar="BENCHMARK:ID")
    clusters: Sequence[str] = option(
        "--cluster",
        "Only the instances of this cluster, such as a patient; repeatable.",
        (),
        metavar="[BENCHMARK:]NAME",
    )
    lists: tuple[Path, ...] = option(
        "--file",
        "Only the instances or clusters in this file: one per line, or CSV with the columns benchmark and "
        "instance_id or cluster; repeatable.",
        (),
        metavar="LIST",
    )
    keep_numbers: bool = option(
        "--keep-numbers", "Keep scores, counts and costs of the deleted instances, without any text.", False
    )
    exports: bool = option("--exports", "Also delete the exports of this store that hold the instances.", False)
    orphans: bool = False
    """True to delete all completions in the cache that belong to no run."""


NO_DOCUMENT = DocumentOptions()
"""A document that says nothing about itself."""

USUAL_DRAW = DrawOptions()
"""The defaults of a draw."""

USUAL = BoardOptions()
"""The defaults."""


def folders_of(options: BoardOptions) -> list[Path]:
    """Return the folders with further benchmarks. Raises: UserError for anything but paths."""
    return as_paths(options.benchmark_folders, "benchmark_folders")


A = TypeVar("A")
K = TypeVar("K")
R = TypeVar("R")
P = ParamSpec("P")


def by_keywords(kind: Callable[P, K]) -> Callable[[Callable[[A, K], R]], Callable[Concatenate[A, P], R]]:
    """Let a function of a value and of options, an object of this dataclass, take the options as keywords."""

    def add(function: Callable[[A, K], R]) -> Callable[Concatenate[A, P], R]:
        plain = signature(function)
        name = next(iter(plain.parameters))
        apply: Callable[..., R] = function
        make: Any = kind

        @wraps(function)
        def call(*values: Any, **given: Any) -> R:
            values = (given.pop(name),) if name in given and not values else values
            return apply(*values, make(**given))

        chosen = [
            Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for one in fields(make)
        ]
        call.__signature__ = plain.replace(parameters=[plain.parameters[name], *chosen])  # type: ignore[attr-defined]
        return cast("Callable[Concatenate[A, P], R]", call)

    return add


# --- pricing ----------------------------------------------------------------------------------------------------------
# The prices with which the costs of stored runs are computed.

ModelFinder = Callable[[str], Model | None]
"""Name of a model -> the model as configured now; None if unknown."""


def find_no_model(_: str) -> Model | None:
    """Find no model."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """Prices to use for the bill."""

    books: Sequence[PriceBook] = ()
    """Prices given by the user; they take precedence."""
    day: date | None = None
    """Date of the prices; None: the day of each run."""
    find_model: ModelFinder = find_no_model
    """Finds the models of runs that do not record them."""

    def price(self, model: Model, then: date) -> Price | None:
        """Return the price of a model: from the books, from its run, or from the price lists of the day."""
        recorded = model.price
        # Prices in models.yaml have no date; others are looked up again for another day.
        if self.day is not None and recorded is not None and recorded.source != "models.yaml":
            recorded = None
        return price_of(replace(model, price=recorded), self.day or then, self.books)


def read_pricing(prices: Pricing | AnyPaths | None) -> Pricing | None:
    """Return the prices in some files. Raises: ConfigError for a wrong file."""
    if prices is None or isinstance(prices, Pricing):
        return prices
    from medhelm.models.catalog import find_models
    from medhelm.models.price_book import read_price_books

    files = [str(path) for path in as_paths(prices, "pricing")]
    if not files:
        return None
    return Pricing(books=read_price_books(files), find_model=model_finder(find_models))


def model_finder(find: Callable[[Sequence[str]], Sequence[Model]]) -> ModelFinder:
    """Return a finder that gives None where `find` raises for an unknown name."""

    def find_model(name: str) -> Model | None:
        try:
            return find([name])[0]
        except MedHelmError:
            return None

    return find_model


# --- suites -----------------------------------------------------------------------------------------------------------


def resolve_suite(suite: str, columns: Iterable[Column] = (), folders: Sequence[Path] = ()) -> Suite:
    """Return a suite by name or file.

    Parameters: columns, benchmarks with results, which belong to their categories; folders, folders with further
    benchmarks. A file may name these and all known benchmarks, with or without results.
    Raises: UserError and ConfigError as `find_suite`.
    """
    others = [
        SuiteEntry(name=c.benchmark, title=c.title, category=c.category, subcategory=c.subcategory) for c in columns
    ]
    if Path(suite).is_file():
        from medhelm.benchmarks.catalog import all_names  # lazy: few suites are files

        others += [SuiteEntry(name=name, title=name, category="", subcategory="") for name in all_names(folders)]
    return find_suite(suite, others)


def suite_sort_key(benchmark: str) -> tuple[int, str]:
    """Return a sort key: benchmarks of the suite in its order, then all others by name."""
    places = _places_in_suite()
    return places.get(benchmark, len(places)), benchmark


@cache
def _places_in_suite() -> dict[str, int]:
    return {entry.name: place for place, entry in enumerate(load_suite())}
