"""`evaluate` and `load_benchmark` of the Python API: they take names or objects, and check them first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING
from warnings import warn

from medhelm.domain import Benchmark, Jury, Model
from medhelm.domain.jury import AT_LEAST
from medhelm.domain.option_fields import check_options
from medhelm.domain.text import AnyPath, AnyPaths, as_list, as_path, as_paths, shortened
from medhelm.errors import ErrorCollector, UserError
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.models.gateway import OFFLINE_VARIABLE

if TYPE_CHECKING:
    from medhelm.benchmarks.data.dataset import Dataset
    from medhelm.evaluation.recorder import ProgressListener

AnyBenchmarks = str | PathLike[str] | Benchmark | Iterable[str | PathLike[str] | Benchmark]
"""Benchmarks, names of benchmarks and groups, or paths of definitions: one or several."""

AnyModels = str | Model | Iterable[str | Model]
"""Models or names of models: one or several."""


def evaluate(
    benchmarks: AnyBenchmarks,
    models: AnyModels,
    *,
    store: AnyPath,
    data: AnyPath | None = None,
    settings: Settings | None = None,
    jury: Jury | AnyModels | None = None,
    environment: Mapping[str, str] | None = None,
    listener: ProgressListener | None = None,
    datasets: Sequence[Dataset] = (),
) -> Evaluation:
    """Send every request that the store has no completion for, score the completions, and store the runs.

    It also works inside a running event loop, such as that of a notebook.

    Parameters
    ----------
    benchmarks
        Benchmarks, their names or groups, or paths of definitions: one or several.
    models
        Models, or names as `find_models` takes them: one or several.
    store
        Folder of the store; created if it does not exist.
    data
        Folder with one folder per benchmark; not needed for the sample tier. None for the folder that MEDHELM_DATA
        names.
    settings
        Options; None means the defaults.
    jury
        Judges for open-ended benchmarks: a `Jury`, or models or their names. Without a jury their other metrics are
        used.
    environment
        Variables with API keys; None for those of the process.
    listener
        Receives progress and notes.
    datasets
        More benchmarks whose instances are open already, such as the prompts of a finished HELM run.

    Returns
    -------
    Evaluation
        The runs, and how the evaluation ended. Completions received are stored even if it ends early.

    Raises
    ------
    UserError
        For wrong arguments, names or data, before anything is sent.
    MissingError
        For missing data, keys or packages, before anything is sent.
    StoreError
        If the store cannot be used, or the disk is full.
    """
    settings = Settings() if settings is None else settings
    environment = os.environ if environment is None else environment
    check_settings(settings)
    if settings.offline:
        environment = {**environment, OFFLINE_VARIABLE: "1"}
    folder, data = as_path(store, "store"), data or environment.get("MEDHELM_DATA") or None
    errors = ErrorCollector()
    found, named = _find_names(benchmarks, models, environment, errors, has_datasets=bool(datasets))
    judges: Jury | None = Jury(judges=())  # if the right one has errors
    with errors.collect():
        judges = jury_of(jury, environment)
    from medhelm.evaluation.evaluate import evaluate
    from medhelm.evaluation.session import EvaluationSetup

    setup = EvaluationSetup(
        store=folder,
        data=None if data is None else as_path(data, "data"),
        settings=settings,
        environment=environment,
        listener=listener,
    )
    return evaluate(found, named, setup, jury=judges, datasets=datasets, errors=errors)


def _find_names(
    benchmarks: AnyBenchmarks,
    models: AnyModels,
    environment: Mapping[str, str],
    errors: ErrorCollector,
    *,
    has_datasets: bool,
) -> tuple[list[Benchmark], list[Model]]:
    """Return benchmarks and models by name, and collect what is wrong with the names."""
    found: list[Benchmark] = []
    named: list[Model] = []
    with errors.collect():
        if not (found := find_benchmarks(benchmarks)) and not has_datasets:
            raise UserError("`benchmarks` is empty: name a benchmark, such as `pubmed_qa`.")
    with errors.collect():
        if not (named := models_of(models, environment)):
            raise UserError("`models` is empty: name a model, such as `openai/gpt-4o`.")
    return found, named


def load_benchmark(name: str | PathLike[str], *, folders: AnyPaths = ()) -> Benchmark:
    """Load the benchmark with this name, alias, or path.

    Parameters
    ----------
    name
        Name or alias of a benchmark, or the path of a definition or its folder.
    folders
        One folder or several with further definitions.

    Raises
    ------
    UserError
        If the name is unknown, or that of a group of benchmarks.
    ConfigError
        If the definition is wrong; lists every problem with its line.
    """
    found = find_benchmarks(str(as_path(name, "name")) if isinstance(name, PathLike) else name, folders)
    if len(found) != 1:
        names = ", ".join(benchmark.name for benchmark in found)
        raise UserError(
            f"`{name}` is a group of {len(found)} benchmarks: {names}. Load one of them; `medhelm.evaluate` also takes "
            "the name of a group."
        )
    return found[0]


def find_benchmarks(benchmarks: AnyBenchmarks, folders: AnyPaths = ()) -> list[Benchmark]:
    """Return benchmarks, each once: those given as objects, then those that are named. Raises: UserError."""
    from medhelm.benchmarks.catalog import load_benchmarks
    from medhelm.scoring.metrics import METRIC_NAMES

    kinds = (str, PathLike, Benchmark)
    wanted = as_list(benchmarks, kinds, "benchmarks", "a benchmark, its name, or the path of its definition")
    names = [str(one) for one in wanted if not isinstance(one, Benchmark)]
    loaded = load_benchmarks(names, metrics=METRIC_NAMES, extra=as_paths(folders, "folders")) if names else []
    given = [one for one in wanted if isinstance(one, Benchmark)]
    return list({benchmark.name: benchmark for benchmark in (*loaded, *given)}.values()) if given else loaded


def models_of(models: AnyModels, environment: Mapping[str, str], name: str = "models") -> list[Model]:
    """Return models as they are, and find those that are named, in this order. Raises: UserError."""
    from medhelm.models.catalog import find_models

    wanted = as_list(models, (str, Model), name, "a model or its name")
    named = dict.fromkeys(one for one in wanted if isinstance(one, str))
    found = dict(zip(named, find_models(named, environment=environment, note=warn) if named else (), strict=True))
    return [found[one] if isinstance(one, str) else one for one in wanted]


def jury_of(jury: Jury | AnyModels | None, environment: Mapping[str, str]) -> Jury | None:
    """Return the jury of these judges; None without any. Raises: UserError for a model that cannot judge."""
    if jury is None or isinstance(jury, Jury):
        return jury
    from medhelm.models.catalog import find_jury

    judges = as_list(jury, (str, Model), "jury", "a medhelm.Jury, or a model or its name")
    if all(isinstance(judge, str) for judge in judges):
        return find_jury(judges, file=None, at_least=None, models_file=None, environment=environment, note=warn)[0]
    found = tuple(models_of(judges, environment, "jury"))
    return Jury(judges=found, min_judges=min(AT_LEAST, len(found)))


def check_settings(settings: Settings) -> None:
    """Raise UserError for anything but settings, and for values that they cannot have."""
    if not isinstance(settings, Settings):
        raise UserError(f"`settings` must be medhelm.Settings(...). This is not: {shortened(settings)}.")
    check_options(settings)
