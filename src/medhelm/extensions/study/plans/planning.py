"""Plan a study from the runs of a store: completions, raters, instrument, assignment, and what that will take."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from medhelm import __version__
from medhelm.analysis.agreement.calibration import draw_shared
from medhelm.analysis.agreement.reliability import LEAST_RATERS
from medhelm.domain import EXTENDED, Benchmark, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.option_fields import check_options, option
from medhelm.domain.result import Remark
from medhelm.domain.text import is_benchmark_name, listed, plural
from medhelm.errors import UserError, suggestion
from medhelm.extensions.study.instruments import RUBRIC, instrument_of, read_instrument
from medhelm.extensions.study.journal import is_rater_id, studies
from medhelm.extensions.study.plans.design import (
    DesignCase,
    Spread,
    assign,
    cases_for_precision,
    expected_spread,
    half_width,
    mark_shared,
    pair_models,
    rater_reach,
)
from medhelm.extensions.study.plans.identification import Finding, FindingKind, identification_findings
from medhelm.extensions.study.texts import case_texts
from medhelm.extensions.study.types import CaseKind, Instrument, InstrumentForm, Item, Rater, Study, StudyDesign
from medhelm.results.comparable import BASELINE, default_tier, left_out_remarks, select_runs
from medhelm.results.runs.selection import match_name
from medhelm.storage.damage import intact_runs
from medhelm.storage.ratings import completion_digest
from medhelm.storage.runs import load_runs, read_columns
from medhelm.storage.store import Store, stored_folder

USUAL_CASES = 20
"""Cases per model if neither a number nor a precision is wanted."""

MOST_EXCLUSIONS = 50
"""Times that completions are drawn again because some of them name their model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Wishes for a study: the options of `medhelm study new`, and the fields of the page."""

    name: str = ""
    """Id of the study, in snake case."""
    title: str = option("--title", "Title for people.  [default: the name in words]", "", metavar="TEXT")
    owner: str = option("--owner", "Who is responsible for the study.", "", metavar="NAME")
    purpose: str = option("--purpose", "What the ratings are for; raters read it.", "", metavar="TEXT")
    benchmarks: tuple[str, ...] = option(
        "--benchmark",
        "Benchmark whose completions are rated; repeatable.  [default: all that judges graded]",
        (),
        metavar="BENCHMARK",
        completes="stored_benchmarks",
    )
    models: tuple[str, ...] = option(
        "--model",
        "Model whose completions are rated; the beginning of its name is enough; repeatable.  [default: all]",
        (),
        metavar="MODEL",
        completes="stored_models",
    )
    include_baselines: bool = option(
        "--include-baselines", "Also have completions of baselines rated; those that --model names are.", False
    )
    raters: tuple[str | Rater, ...] = option(
        "--rater",
        "A rater: an id that results show, and if wanted a role and a name at the single sign-on; repeatable.",
        (),
        metavar="ID[:ROLE[:USER]]",
    )
    n_raters: int | None = option("--raters", "Number of raters, called rater_1 and so on.", None, least=1, most=100)
    adjudicators: tuple[str | Rater, ...] = option(
        "--adjudicator",
        "A rater who gets only the cases on which others differ; repeatable.",
        (),
        metavar="ID[:ROLE[:USER]]",
    )
    instrument: str = option(
        "--instrument",
        "Form that raters fill in: a name that `medhelm study instruments` lists, or a YAML file.",
        RUBRIC,
        metavar="NAME|FILE",
    )
    n_cases: int | None = option(
        "--cases", f"Cases for each model.  [default: {USUAL_CASES}, if no precision is wanted]", None, least=1
    )
    precision: float | None = option(
        "--precision",
        "As many cases as give the mean grade of a model a 95% interval of this half-width.",
        None,
        above=0,
        metavar="D",
    )
    shared: float = option(
        "--shared", "Share of the cases that several raters rate, 0 to 1.", 0.3, least=0, most=1, metavar="SHARE"
    )
    raters_per_shared_case: int = option("--raters-per-shared-case", "Raters of a shared case.", 2, least=2)
    repeated: float = option(
        "--repeated", "Share of a rater's cases that come a second time, 0 to 1.", 0.1, least=0, most=1, metavar="SHARE"
    )
    n_calibration: int = option(
        "--calibration", "Cases that all raters rate first; they do not count for models.", 3, least=0
    )
    show_reference: bool = option("--show-reference", "Show raters the reference.", False)
    asks_harm: bool = option("--harm/--no-harm", "Ask for severity and likelihood of harm.", True)
    exclude_flagged: bool = option(
        "--exclude-flagged", "Leave out instances on which a completion names a model or has its markers.", False
    )
    seed: int = option("--seed", "Seed of the selection and of the assignment.", 0, least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterWorkload:
    """Expected work of a rater."""

    rater: str
    """Id of the rater."""
    n_cases: int
    """Cases in the rater's list, calibration and repeated ones included."""
    n_repeated: int
    """Cases that come a second time."""
    hours: float
    """Expected time: 230 words a minute, and 20 seconds for each question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPrecision:
    """Expected half-width of the 95% interval of a model's mean grade, in grades."""

    half_width: float
    """Of the mean, as the leaderboard shows it."""
    without_raters: float
    """The same without differences in severity between raters, which do not affect comparisons of models."""
    source: str
    """Source of the spread of grades."""

    def covers(self, low: float, high: float) -> bool:
        """Return True if the interval of a mean in the middle of the scale covers all of it."""
        return self.half_width >= (high - low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStudy:
    """A plan that is not saved yet, and what there is to know before that."""

    study: Study
    """The plan."""
    workloads: tuple[RaterWorkload, ...]
    """Expected work of each rater."""
    precision: ExpectedPrecision | None
    """Expected precision; None for preferences, for one case, and if the criteria have different scales."""
    findings: tuple[Finding, ...]
    """Passages that can reveal to raters which model wrote a completion."""
    remarks: tuple[Remark, ...]
    """Notes on what was left out, and on what to keep in mind."""

    @property
    def n_ratings(self) -> int:
        """Number of cases of all raters together."""
        return sum(one.n_cases for one in self.workloads)


def plan_study(store: Store, definitions: Sequence[Benchmark], options: PlanOptions) -> PlannedStudy:
    """Plan a study; `files.write_study` saves the plan. Equal options and runs give equal plans, apart from the time.

    Parameters: definitions, of the benchmarks whose rubrics are known.
    Raises: UserError naming everything that is wrong with the options; StoreError.
    """
    check_options(options)
    plan = _Plan(store, options)
    plan.check_name()
    plan.check_raters()
    plan.choose_runs(definitions)
    plan.raise_problems()
    plan.read_completions()
    plan.choose_number()
    plan.raise_problems()
    study = plan.draw()
    findings = identification_findings(store, study)
    for _ in range(MOST_EXCLUSIONS if options.exclude_flagged else 0):
        flagged = {one.item for one in findings if one.kind is not FindingKind.SIGNATURE}
        if not flagged:
            break
        plan.excluded |= {(one.benchmark, one.instance_id) for one in study.items if one.id in flagged}
        plan.check_numbers()
        plan.raise_problems()
        study = plan.draw()
        findings = identification_findings(store, study)
    return PlannedStudy(
        study=study,
        workloads=_workloads(store, study),
        precision=plan.expected_precision(),
        findings=tuple(findings),
        remarks=(*plan.remarks, *_remarks(plan, study)),
    )


@dataclass(frozen=True, slots=True)
class _Completion:
    """A completion that can be drawn."""

    run: Run
    sha256: str


@dataclass(slots=True)
class _Plan:
    """A plan in the making: problems are collected, so that one message names them all."""

    store: Store
    options: PlanOptions
    problems: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    raters: list[Rater] = field(default_factory=list)
    runs: dict[tuple[str, str], Run] = field(default_factory=dict)
    """Benchmark and model -> run."""
    instruments: dict[str, Instrument] = field(default_factory=dict)
    completions: dict[str, dict[str, dict[str, _Completion]]] = field(default_factory=dict)
    """Benchmark -> model -> instance -> completion."""
    excluded: set[tuple[str, str]] = field(default_factory=set)
    """Benchmark and instance that are not drawn."""
    n_cases: int = 0
    """Cases for each model."""
    spread: Spread | None = None

    @property
    def models(self) -> list[str]:
        return sorted({model for _, model in self.runs})

    @property
    def n_raters(self) -> int:
        """Raters without adjudicators."""
        return sum(not one.is_adjudicator for one in self.raters)

    @property
    def is_pairs(self) -> bool:
        return any(one.form is InstrumentForm.PREFERENCE for one in self.instruments.values())

    def raise_problems(self) -> None:
        """Raise UserError with all problems so far."""
        if self.problems:
            raise UserError("\n".join([*dict.fromkeys(self.problems), "Nothing was saved."]))

    # --- checks ---

    def check_name(self) -> None:
        name = self.options.name
        if not is_benchmark_name(name):
            self.problems.append(f"name: `{name}` must be snake case, such as `discharge_letters_2026`.")
        elif name in studies(self.store):
            self.problems.append(f"name: the store already has a study `{name}`. Choose another name.")

    def check_raters(self) -> None:
        options = self.options
        if options.raters and options.n_raters:
            self.problems.append("raters: --raters makes the ids, --rater names them. Leave out one of them.")
        given = [*options.raters, *(f"rater_{n}" for n in range(1, (options.n_raters or 0) + 1))]
        self.raters = [_rater(one) for one in given]
        n = len(self.raters)
        self.raters += [replace(_rater(one), is_adjudicator=True) for one in options.adjudicators]
        for rater in self.raters:
            if not is_rater_id(rater.id):
                text = f"rater: `{rater.id}` must have lower case letters, digits, `_` and `-` only, at most 40."
                self.problems.append(f"{text} Give a pseudonym: results show it.")
        for name, count in Counter(rater.id for rater in self.raters).items():
            if count > 1:
                self.problems.append(f"rater: `{name}` is given {count} times. Give each rater an id of its own.")
        if n == 0:
            self.problems.append("rater: none is given. Name each one with --rater, or give a number with --raters.")
        elif options.shared > 0 and n < options.raters_per_shared_case:
            fix = "Add raters, or have no case rated by several (--shared 0)."
            self.problems.append(f"rater: a shared case needs {options.raters_per_shared_case}, not {n}. {fix}")

    def choose_runs(self, definitions: Sequence[Benchmark]) -> None:
        """Choose benchmarks and models, a run for each, and the instrument of each benchmark."""
        instrument = None
        try:
            instrument = read_instrument(self.options.instrument)
        except UserError as error:
            self.problems.append(str(error))
        found = comparable_runs(self.store, self.remarks)
        known = {one.name: one for one in definitions}
        aliases = {alias: one.name for one in definitions for alias in one.aliases}
        names = [aliases.get(name, name) for name in self.options.benchmarks]
        if not names:
            names = [name for name, runs in found.items() if any(run.jury_result for run in runs.values())]
            if not names:
                self.problems.append("benchmark: judges graded none of the store. Name those to rate with --benchmark.")
        models = self._wanted_models(found, names)
        for name in dict.fromkeys(names):
            if name not in found:
                hint = suggestion(name, found) or "`medhelm runs list` lists the runs."
                self.problems.append(f"benchmark: the store has no complete run of `{name}`. {hint}")
                continue
            own = {model: run for model, run in found[name].items() if model in models}
            try:
                if instrument:
                    self.instruments[name] = _instrument(instrument, self.options.instrument, known.get(name), own)
            except UserError as error:
                self.problems.append(str(error))
            self.runs |= {(name, model): run for model, run in own.items()}
        if not self.options.benchmarks:
            self._leave_out_checks()
        if len({one.form for one in self.instruments.values()}) > 1:
            parts = (f"{name} {one.form}" for name, one in self.instruments.items())
            self.problems.append(f"benchmark: one study has one form of rating, not {', '.join(parts)}. Plan several.")
        if self.is_pairs and len(self.models) < 2:
            self.problems.append("model: a preference compares two models or more.")

    def _leave_out_checks(self) -> None:
        """Leave out benchmarks whose criteria are met or not, if others have grades and none was named."""
        checks = [name for name, one in self.instruments.items() if one.form is InstrumentForm.CHECKS]
        if 0 < len(checks) < len(self.instruments):
            self.instruments = {name: one for name, one in self.instruments.items() if name not in checks}
            self.runs = {key: run for key, run in self.runs.items() if key[0] not in checks}
            text = f"Left out: {listed(checks)}, whose criteria are met or not met. Plan a study of their own for them."
            self.remarks.append(Remark("checks_left_out", "", text))

    def _wanted_models(self, found: Mapping[str, Mapping[str, Run]], names: Sequence[str]) -> set[str]:
        known = {model for name in names for model in found.get(name, ())}
        wanted = set()
        for name in self.options.models:
            try:
                wanted.add(match_name(name, known))
            except UserError as error:
                self.problems.append(f"model: {error}")
        if self.options.models:
            return wanted
        baselines = sorted(model for model in known if model.startswith(BASELINE))
        if baselines and not self.options.include_baselines:
            if len(baselines) == len(known):
                self.problems.append("model: the store has only runs of baselines. --include-baselines takes them.")
            text = f"Left out, because they are baselines: {listed(baselines)}."
            self.remarks.append(Remark("baselines_left_out", "", text))
            return known - set(baselines)
        return known

    # --- completions ---

    def read_completions(self) -> None:
        """Read which completions can be rated: those with a text."""
        n_blank: Counter[str] = Counter()
        for (name, model), run in self.runs.items():
            columns = read_columns(run, ["instance_id", "completion"])
            own = self.completions.setdefault(name, {}).setdefault(model, {})
            for instance, text in zip(columns["instance_id"], columns["completion"], strict=True):
                if text is not None and strip_reasoning(text).strip():
                    own[instance] = _Completion(run, completion_digest(text))
                else:
                    n_blank[model] += 1
        if n_blank:
            counts = ", ".join(f"{model} {count}" for model, count in sorted(n_blank.items()))
            text = f"Not rated, because there is nothing to read: blank and failed completions ({counts})."
            self.remarks.append(Remark("blank_completions", "", text))

    def choose_number(self) -> None:
        """Choose the number of cases for each model, from the precision if one is wanted."""
        options, n_raters = self.options, self.n_raters
        self.spread = expected_spread(self.store, self.instruments, self.runs)
        self.n_cases = options.n_cases or USUAL_CASES
        if options.precision is not None:
            if options.n_cases is not None:
                self.problems.append("cases: follow from --precision. Leave out one of them.")
            elif self.spread is None:
                text = "precision: is for grades on one scale. Give a number of cases (--cases) for this instrument."
                self.problems.append(text)
            else:
                self.n_cases = self._cases_for(options.precision, self.spread, n_raters)
        self.check_numbers()

    def _cases_for(self, wanted: float, spread: Spread, n_raters: int) -> int:
        shared, n_each = self.options.shared, self.options.raters_per_shared_case
        found = cases_for_precision(wanted, spread, n_raters, shared=shared, n_each=n_each)
        if found is not None:
            return found
        reach = rater_reach(spread, n_raters, shared=shared)
        alone = cases_for_precision(wanted, spread, 0, shared=shared, n_each=n_each)
        enough = next((n for n in range(n_raters, 101) if rater_reach(spread, n, shared=shared) < 0.8 * wanted), None)
        text = f"precision: ± {wanted:g} cannot be reached with {plural(n_raters, 'rater')}: how much they differ in"
        more = f" With {enough} raters it can be." if enough else ""
        fix = f" For comparisons of models, which severity does not affect, {alone} cases are enough (--cases {alone})."
        self.problems.append(f"{text} severity leaves ± {reach:.2f} ({spread.source}).{more}{fix if alone else ''}")
        return 1

    def per_benchmark(self) -> dict[str, int]:
        """Return the cases of each model on each benchmark: as equal as possible."""
        names = list(self.completions)
        return {name: self.n_cases // len(names) + (n < self.n_cases % len(names)) for n, name in enumerate(names)}

    def check_numbers(self) -> None:
        """Check that all models have enough completions, and that each benchmark gets a case."""
        if self.n_cases < len(self.completions):
            text = f"cases: {self.n_cases} for each model are too few for {plural(len(self.completions), 'benchmark')}."
            self.problems.append(f"{text} Ask for more, or leave out benchmarks.")
        for name, n in self.per_benchmark().items():
            counts = {
                model: sum((name, instance) not in self.excluded for instance in own)
                for model, own in self.completions[name].items()
            }
            few = sorted((count, model) for model, count in counts.items() if count < n)
            if few:
                least, model = few[0]
                others = f", and {plural(len(few) - 1, 'other model')} too few" if len(few) > 1 else ""
                text = (
                    f"cases: {n} of each model are wanted on {name}; {model} has {plural(least, 'completion')}{others}."
                )
                self.problems.append(
                    f"{text} Ask for fewer, or leave out the benchmark{' or the model' * (not others)}."
                )

    # --- the draw ---

    def draw(self) -> Study:
        """Draw completions and calibration cases, and give them to the raters."""
        options = self.options
        rng = np.random.default_rng([options.seed, zlib.crc32(options.name.encode())])
        drawn, spare = self._draw_items(rng)
        calibration = self._calibration(spare, rng)
        cases = self._cases(drawn, rng)
        every = [item for own in (drawn, calibration) for items in own for item in items]
        raters = [rater.id for rater in self.raters if not rater.is_adjudicator]
        given = assign(
            cases,
            [_case(items, is_shared=False) for items in calibration],
            raters,
            raters_per_shared_case=options.raters_per_shared_case,
            repeated=options.repeated,
            seed=options.seed,
        )
        return Study(
            name=options.name,
            title=options.title.strip() or options.name.replace("_", " ").capitalize(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            owner=options.owner.strip(),
            purpose=options.purpose.strip(),
            design=StudyDesign(
                n_cases=len(cases),
                n_calibration=len(calibration),
                raters_per_shared_case=options.raters_per_shared_case,
                shared=options.shared,
                repeated=options.repeated,
                seed=options.seed,
                precision=options.precision,
            ),
            instruments=dict(self.instruments),
            models=tuple(self.models),
            items=tuple(every[place] for place in rng.permutation(len(every))),
            raters=tuple(self.raters),
            assignments={rater.id: given.get(rater.id, ()) for rater in self.raters},
            shows_reference=options.show_reference,
            asks_harm=options.asks_harm and not self.is_pairs,
            medhelm=__version__,
        )

    def _draw_items(self, rng: np.random.Generator) -> tuple[list[tuple[Item, ...]], list[tuple[Item, ...]]]:
        """Return completions to rate, all models of an instance together, and those left for calibration.

        All models have the same instances, as far as they have completions of them.
        """
        drawn, spare = [], []
        for name, n in self.per_benchmark().items():
            of_model = self.completions[name]
            instances = sorted({one for own in of_model.values() for one in own if (name, one) not in self.excluded})
            chosen: dict[str, list[Item]] = {}
            for model, own in of_model.items():
                there = np.array([0.0 if one in own else np.nan for one in instances])
                seed = [self.options.seed, zlib.crc32(name.encode())]
                found = draw_shared(there, n, np.random.default_rng(seed))
                for place in found.drawn.tolist():
                    instance, share = instances[place], float(found.probabilities[place])
                    chosen.setdefault(instance, []).append(self._item(name, instance, model, share, rng))
            drawn += [tuple(items) for items in chosen.values()]
            rest = [one for one in instances if one not in chosen]
            for place in rng.permutation(len(rest)).tolist():
                models = [model for model, own in of_model.items() if rest[place] in own]
                spare.append(tuple(self._item(name, rest[place], model, 1 / len(rest), rng) for model in models))
        return drawn, spare

    def _item(self, name: str, instance: str, model: str, share: float, rng: np.random.Generator) -> Item:
        found = self.completions[name][model][instance]
        return Item(
            id=rng.bytes(8).hex(),
            benchmark=name,
            instance_id=instance,
            model=model,
            run=stored_folder(found.run).relative_to(self.store.folder).as_posix(),
            completion_sha256=found.sha256,
            probability=share,
        )

    def _calibration(self, spare: Sequence[tuple[Item, ...]], rng: np.random.Generator) -> list[tuple[Item, ...]]:
        """Return calibration cases, on instances that are not rated otherwise, with the models in turn."""
        size = 2 if self.is_pairs else 1
        by_benchmark = group_by((items for items in spare if len(items) >= size), lambda items: items[0].benchmark)
        turns = [queue.pop(0) for _ in range(len(spare)) for queue in by_benchmark.values() if queue]
        models = [self.models[place] for place in rng.permutation(len(self.models))]
        found = []
        for number, items in enumerate(turns[: self.options.n_calibration]):
            turned = models[number % len(models) :] + models[: number % len(models)]
            found.append(tuple(sorted(items, key=lambda item: turned.index(item.model))[:size]))
        return found

    def _cases(self, drawn: Sequence[tuple[Item, ...]], rng: np.random.Generator) -> list[DesignCase]:
        """Return the cases in the order in which they are given out: model by model, shared ones evenly spread."""
        order = [drawn[place] for place in rng.permutation(len(drawn))]
        order.sort(key=lambda items: items[0].benchmark)
        shared = mark_shared(len(order), self.options.shared)
        if self.is_pairs:
            rounds = pair_models(self.models, len(order))
            return [
                _case((of_model[one], of_model[other]), is_shared=is_shared)
                for items, is_shared, pairs in zip(order, shared, rounds, strict=True)
                for of_model in [{item.model: item for item in items}]
                for one, other in pairs
                if one in of_model and other in of_model
            ]
        cases = [_case((item,), is_shared=one) for items, one in zip(order, shared, strict=True) for item in items]
        return [case for own in group_by(cases, lambda case: case.models[0]).values() for case in own]

    def expected_precision(self) -> ExpectedPrecision | None:
        """Return the precision to expect of a model's mean grade."""
        if self.spread is None or self.n_cases < 2:
            return None
        options = self.options
        shared, n_each = options.shared, options.raters_per_shared_case
        return ExpectedPrecision(
            half_width=half_width(self.spread, self.n_cases, self.n_raters, shared=shared, n_each=n_each),
            without_raters=half_width(self.spread, self.n_cases, 0, shared=shared, n_each=n_each),
            source=self.spread.source,
        )


def _case(items: tuple[Item, ...], *, is_shared: bool) -> DesignCase:
    models = tuple(item.model for item in items)
    instance = f"{items[0].benchmark}/{items[0].instance_id}"
    return DesignCase(items=tuple(item.id for item in items), models=models, instance=instance, is_shared=is_shared)


def _rater(given: str | Rater) -> Rater:
    """Return a rater, from ID[:ROLE[:USER]]."""
    if isinstance(given, Rater):
        return given
    name, _, rest = given.partition(":")
    role, _, user = rest.partition(":")
    return Rater(id=name.strip(), role=role.strip(), user=user.strip())


def comparable_runs(store: Store, remarks: list[Remark] | None = None) -> dict[str, dict[str, Run]]:
    """Return benchmark -> model -> run whose completions can be rated, judged benchmarks first.

    `remarks`: those on models that were measured otherwise are added to it.
    """
    found: dict[str, dict[str, Run]] = {}
    for name, runs in group_by(intact_runs(load_runs(store)), lambda run: run.benchmark).items():
        tier = default_tier(runs)
        chosen = select_runs(("", run) for run in runs if run.tier == tier)
        if chosen.runs:
            found[name] = {model: run for (model, _), run in chosen.runs.items()}
            if remarks is not None:
                remarks += left_out_remarks(chosen.left_out)
    return dict(sorted(found.items(), key=lambda pair: (not any(run.jury_result for run in pair[1].values()), pair[0])))


def _instrument(
    instrument: Instrument, given: str, definition: Benchmark | None, runs: Mapping[str, Run]
) -> Instrument:
    """Return the form for the cases of a benchmark. Raises: UserError if the benchmark has no criteria for it."""
    if instrument.criteria:
        return instrument
    if definition is None:
        name = next((run.benchmark for run in runs.values()), "the benchmark")
        raise UserError(f"{name}: its definition, which has the rubric, was not found. Add --benchmarks DIR.")
    return instrument_of(definition, given, extended=any(run.rubric == EXTENDED for run in runs.values()))


# --- what it will take ------------------------------------------------------------------------------------------------


def _workloads(store: Store, study: Study) -> tuple[RaterWorkload, ...]:
    """Return the expected work of each rater, who reads everything anew in each case."""
    different = {case.items: case for own in study.assignments.values() for case in own}
    seconds = {items: case_texts(store, study, case).seconds for items, case in different.items()}
    return tuple(
        RaterWorkload(
            rater=rater.id,
            n_cases=len(own),
            n_repeated=sum(case.kind is CaseKind.REPEATED for case in own),
            hours=sum(seconds[case.items] for case in own) / 3600,
        )
        for rater in study.raters
        for own in [study.assignments[rater.id]]
    )


def _remarks(plan: _Plan, study: Study) -> Iterator[Remark]:
    """Yield what to keep in mind about a plan."""
    options = plan.options
    if any(run.tier == "sample" for run in plan.runs.values()):
        yield Remark("sample_tier", "", "The completions are of invented sample rows, not of real data.")
    if study.design.n_calibration < options.n_calibration:
        n = study.design.n_calibration
        text = f"Only {plural(n, 'calibration case')} of {options.n_calibration}: no other instance is left."
        yield Remark("fewer_calibration_cases", "", text)
    main = [[case for case in own if case.kind is not CaseKind.CALIBRATION] for own in study.assignments.values()]
    wanted = any(round(options.repeated * len(own)) for own in main if own)
    if wanted and not any(case.kind is CaseKind.REPEATED for own in main for case in own):
        text = "No case is repeated: a repetition comes ten cases after the first time, and the lists are too short."
        yield Remark("no_repeated_cases", "", text)
    n_raters = plan.n_raters
    if not plan.is_pairs and options.shared > 0 and n_raters < LEAST_RATERS:
        text = (
            f"With {plural(n_raters, 'rater')}, means of models hold for these raters only: how much raters differ in"
        )
        yield Remark("these_raters_only", "", f"{text} severity can be measured from {LEAST_RATERS} raters on.")
    if options.shared == 0 and n_raters > 1:
        text = (
            "No case is shared, so the study cannot show how well raters agree, and means hold for these raters only."
        )
        yield Remark("no_shared_cases", "", text)
    missing = [
        f"{model} on {name}" for name in plan.instruments for model in plan.models if (name, model) not in plan.runs
    ]
    if missing:
        text = f"There are fewer cases of some models, without a comparable run: {listed(missing, 5)}."
        yield Remark("missing_runs", "", text)
    if plan.excluded:
        text = f"Left out: {plural(len(plan.excluded), 'instance')} on which a completion names a model or has its"
        yield Remark("excluded_instances", "", f"{text} markers.")
