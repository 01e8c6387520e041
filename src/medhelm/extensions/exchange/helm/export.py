"""Export runs to a folder that HELM's tools can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import fsum, isclose
from pathlib import Path
from typing import Any

from medhelm import __version__
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import JURY, Benchmark, Rule, Run
from medhelm.errors import StoreError, UserError
from medhelm.extensions.exchange.helm.names import judge_names, main_split, metric_name, model_names, run_name
from medhelm.extensions.exchange.helm.schema import benchmark_entry, metric_entry, write_models, write_schema
from medhelm.extensions.exchange.helm.writer import HelmRun, write_helm_run
from medhelm.io.output_folder import check_export, new_export
from medhelm.io.parquet import connect
from medhelm.reports.export import ExportResult
from medhelm.results.export import ExportSelection, folder_size, select_for_export
from medhelm.results.options import USUAL, BoardOptions
from medhelm.scoring.metrics import METRICS
from medhelm.storage.damage import damage
from medhelm.storage.privacy import record_export
from medhelm.storage.runs import run_metrics
from medhelm.storage.store import Store

SUITE = "medhelm"
"""Default name of the suite of runs."""


def export_helm(
    store: Path,
    folder: Path,
    *,
    rule: Rule = "published",
    suite: str = SUITE,
    options: BoardOptions = USUAL,
    definitions: Mapping[str, Benchmark],
) -> ExportResult:
    """Write the leaderboard's runs to `folder`/runs/SUITE/RUN, with the files that `helm-summarize` needs.

    Parameters: folder, empty, nonexistent or an earlier export; rule, the scoring rule of the scores to write;
    definitions, the benchmarks by name, for their descriptions.
    Under the published rule each group of a benchmark is a separate run, as in HELM, whose tables average over runs.
    Under the corrected rule a benchmark is one run, because its score is the mean over instances.
    Raises: UserError, StoreError, StoreFullError.
    """
    if not suite or suite.startswith(".") or any(c in suite for c in "/\\\0"):
        raise UserError(f"--suite {suite}: use the name of a folder, without a slash.")
    check_export(folder, "helm")
    selection = select_for_export(store, options)
    exported, left_out = [], []
    for run in selection.counted.values():
        if reason := _reason_not_exported(run, rule, _prompts_file(selection.store, run)):
            left_out.append(f"{run.benchmark} with {run.model}: {reason}")
        else:
            exported.append(run)
    if not exported:
        raise UserError("\n".join(["no run can be exported.", *left_out, *map(str, selection.remarks)]))
    if problems := damage({_prompts_file(selection.store, run): None for run in exported}):
        advice = "Remove the file and run the same command again."
        raise StoreError("\n".join(f"{path} cannot be read: {why}. {advice}" for path, why in problems.items()))
    names = model_names(run.model for run in exported)
    listed: dict[str, dict[str, str]] = {}
    n_instances = 0
    about = {"medhelm": __version__, "scoring": rule, "suite": suite, "tier": selection.tier, "runs": listed}
    with connect() as engine, new_export(folder, "helm", about) as new:
        for one in _helm_runs(exported, selection, names, rule, definitions):
            n_instances += write_helm_run(engine, new / "runs" / suite / one.name, one)
            listed[one.name] = {"run": one.run.id, "benchmark": one.run.benchmark, "model": one.model}
        _write_schema(new / "schema.yaml", exported, definitions)
        write_models(new / "prod_env" / "model_metadata.yaml", list(names.values()))
    record_export(store, folder, "helm", (run.benchmark for run in exported), has_text=True)
    files, size = folder_size(folder)
    return ExportResult(
        kind="helm",
        place=folder,
        files=files,
        bytes=size,
        counts={"runs": len(listed), "instances": n_instances, "models": len(names)},
        scoring=rule,
        remarks=tuple(map(str, selection.remarks)),
        left_out=tuple(left_out),
    )


def scenario_of(benchmark: str) -> str:
    """Return the benchmark's scenario name in HELM's files."""
    return next((entry.alias or entry.name for entry in load_suite() if entry.name == benchmark), benchmark)


def _reason_not_exported(run: Run, rule: Rule, prompts: Path) -> str:
    """Return the reason why a run cannot be exported; empty if it can be."""
    if not prompts.exists():
        return "its prompts are not stored. Run it again."
    if run.main_metric not in run.estimates.get(rule, {}):
        remedy = " Try `medhelm rescore`." if run.origin else ""
        return f"it has no {rule} {run.main_metric}.{remedy}"
    return ""


def _prompts_file(store: Store, run: Run) -> Path:
    return store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)


def _helm_runs(
    runs: Iterable[Run],
    selection: ExportSelection,
    names: Mapping[str, str],
    rule: Rule,
    definitions: Mapping[str, Benchmark],
) -> Iterator[HelmRun]:
    """Yield the run folders to write, each with a unique name."""
    taken: set[str] = set()
    for run in runs:
        scenario = scenario_of(run.benchmark)
        judges = {judge.name: judge for judge in run.judges}
        short = judge_names(judges)
        for group in _groups(run, rule):
            name = run_name(
                scenario,
                group=group or "",
                max_eval_instances=run.settings.get("limit"),
                scoring=None if rule == "published" else rule,
                model=names[run.model],
            )
            if name in taken:  # truncated, or different only in characters that folder names cannot contain
                name = f"{name},run={run.id[:10]}"
            taken.add(name)
            yield HelmRun(
                run=run,
                name=name,
                scenario=scenario,
                description=_description(run, definitions),
                rule=rule,
                prompts=_prompts_file(selection.store, run),
                model=names[run.model],
                judges={short[name]: judge for name, judge in judges.items()},
                group=group,
            )


def _groups(run: Run, rule: Rule) -> list[str | None]:
    """Return the groups to export as separate runs; [None] to export everything as one run.

    Groups are separate if the score shown here is the mean of group means, so that HELM's tables show the same score.
    """
    estimate = run.estimates[rule].get(run.main_metric)
    means = [group.get(rule) for group in run.groups.values()]
    scored = [mean for mean in means if mean is not None]
    if rule != "published" or estimate is None or len(scored) < len(means) or not scored:
        return [None]
    if not isclose(fsum(scored) / len(scored), estimate.value, abs_tol=1e-9):
        return [None]
    return list(run.groups)


def _description(run: Run, definitions: Mapping[str, Benchmark]) -> str:
    known = definitions.get(run.benchmark)
    return known.description.strip() if known else run.title


def _write_schema(path: Path, runs: Iterable[Run], definitions: Mapping[str, Benchmark]) -> None:
    """Write the schema for the tables of these runs."""
    benchmarks: dict[str, tuple[str, dict[str, Any]]] = {}
    metrics: dict[str, dict[str, Any]] = {}
    for run in runs:
        scenario = scenario_of(run.benchmark)
        entry = benchmark_entry(
            scenario,
            title=run.title,
            description=_description(run, definitions),
            task=run.taxonomy.task,
            main_metric=metric_name(run.main_metric, scenario),
            split=main_split(scenario),
        )
        benchmarks[scenario] = run.taxonomy.category, entry
        for metric in run_metrics(run):
            name = metric_name(metric, scenario)
            metrics.setdefault(name, _metric_entry(name, metric))
    write_schema(path, list(benchmarks.values()), list(metrics.values()))


def _metric_entry(name: str, metric: str) -> dict[str, Any]:
    if metric == JURY:
        description = "Mean score given by judges, on the rubric's own scale."
        return metric_entry(name, "Jury Score", description, lower_is_better=False)
    known = METRICS.if_usable(metric)
    if known is None:
        return metric_entry(name, name, "As another harness reported it.", lower_is_better=False)
    lower_is_better = None if known.descriptive else not known.higher_is_better
    return metric_entry(name, known.title, known.description, lower_is_better=lower_is_better)
