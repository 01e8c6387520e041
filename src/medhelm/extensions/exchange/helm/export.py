"""Export runs as HELM run folders, with the schema and models that `helm-summarize` needs.

Null fields are omitted, nan is never written, lists are indented by two. Files are written instance by instance, so
that memory does not grow with the size of a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum, isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from medhelm import __version__
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import JURY, Benchmark, Model, Rule, Run
from medhelm.domain.text import without_servers
from medhelm.errors import StoreError, UserError
from medhelm.extensions.exchange.helm.folders import json_list, per_instance, rows, stat, write_json
from medhelm.extensions.exchange.helm.reader import (
    GENERAL_METRICS,
    group_argument,
    judge_names,
    main_split,
    metric_name,
    metric_spec,
    model_names,
    run_name,
    scenario_class,
)
from medhelm.extensions.exchange.importer import plain_score
from medhelm.io.folders import check_export, new_export
from medhelm.io.parquet import connect, sql_name
from medhelm.results.export import ExportResult, ExportSelection, folder_size, select_for_export
from medhelm.results.options import USUAL, BoardOptions
from medhelm.scoring.metrics import METRICS
from medhelm.storage.damage import damage
from medhelm.storage.judgments import JUDGMENT_COLUMNS
from medhelm.storage.privacy import record_export
from medhelm.storage.runs import parts_column, run_metrics, score_column
from medhelm.storage.store import Store

if TYPE_CHECKING:
    import duckdb


# --- run folders ------------------------------------------------------------------------------------------------------

DECIMALS = 12
"""Decimals of a run's scores: HELM compares them exactly, so rounding errors of sums would decide comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmRun:
    """A run folder to write: a run, or one group of it."""

    run: Run
    """The stored run, with its records."""
    name: str
    """Name of the run in HELM, and of its folder."""
    scenario: str
    """The benchmark's name in HELM."""
    description: str
    """Task of the model, in words."""
    rule: Rule
    """The scoring rule of the scores to write."""
    prompts: Path
    """The prompts file of the run."""
    model: str
    """The model's name in HELM."""
    judges: Mapping[str, Model]
    """Short name in the annotations -> judge."""
    group: str | None = None
    """Only the instances of this group; None for all instances."""


def write_helm_run(engine: duckdb.DuckDBPyConnection, folder: Path, helm_run: HelmRun) -> int:
    """Write the five files into a new `folder`; returns the number of instances. `engine`: from `connect`.

    Raises: StoreError if the prompts do not match the run.
    """
    folder.mkdir(parents=True)
    run, scenario, rule = helm_run.run, helm_run.scenario, helm_run.rule
    split = main_split(scenario)
    lettered = is_lettered(engine, helm_run.prompts)
    adapter = _adapter_spec(helm_run, lettered=lettered)
    annotators = _annotators(helm_run)
    write_json(folder / "run_spec.json", _run_spec(helm_run, adapter, annotators))
    write_json(
        folder / "scenario.json",
        {
            "name": scenario,
            "description": helm_run.description,
            "tags": [],
            "definition_path": scenario_class(scenario),
        },
    )
    metrics = run_metrics(run)
    means = {metric: _Aggregate() for metric in metrics}
    general = {name: _Aggregate() for name in GENERAL_METRICS}
    after = {"annotator_specs": annotators} if annotators else {}
    states = json_list(folder / "scenario_state.json", {"adapter_spec": adapter}, "request_states", after)
    n = 0
    with states as add_state, json_list(folder / "per_instance_stats.json") as add_stats:
        for case in cases(engine, run, helm_run.prompts, helm_run.group):
            own = _general(case)
            add_state(json.dumps(_request_state(helm_run, case, adapter, lettered=lettered), indent=2))
            scores = {m: v for m in metrics if (v := case.record.get(score_column(m, rule))) is not None}
            for metric, value in scores.items():
                means[metric].add(value, case.record.get(parts_column(metric, rule)))
            for name, value in own.items():
                general[name].add(value)
            named = {metric_name(metric, scenario): value for metric, value in scores.items()} | own
            add_stats(per_instance(case.record["instance_id"], named, split))
            n += 1
    found = {metric: _value(helm_run, metric, mean) for metric, mean in means.items()}
    values = {metric_name(m, scenario): round(value, DECIMALS) for m, value in found.items() if value is not None}
    values |= {name: mean.value for name, mean in general.items() if mean.value is not None} | {"num_instances": n}
    with json_list(folder / "stats.json") as add:
        for name, value in values.items():
            add(stat(name, value, split))
    return n


# --- specifications ---------------------------------------------------------------------------------------------------


def _run_spec(helm_run: HelmRun, adapter: Mapping[str, Any], annotators: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    arguments = {group_argument(helm_run.scenario): helm_run.group} if helm_run.group is not None else {}
    return {
        "name": helm_run.name,
        "scenario_spec": {"class_name": scenario_class(helm_run.scenario), "args": arguments},
        "adapter_spec": adapter,
        "metric_specs": [_metric_spec(helm_run, metric) for metric in run_metrics(helm_run.run)],
        "data_augmenter_spec": {
            "perturbation_specs": [],
            "should_augment_train_instances": False,
            "should_include_original_train": False,
            "should_skip_unchanged_train": False,
            "should_augment_eval_instances": False,
            "should_include_original_eval": False,
            "should_skip_unchanged_eval": False,
            "seeds_per_instance": 1,
        },
        "groups": [helm_run.scenario],
        **({"annotators": annotators} if annotators else {}),
    }


def _adapter_spec(helm_run: HelmRun, *, lettered: bool) -> dict[str, Any]:
    """Return the adapter: it adds nothing to the instances' texts, which are complete prompts."""
    settings = helm_run.run.settings
    return {
        "method": "multiple_choice_joint" if lettered else "generation",
        "global_prefix": "",
        "global_suffix": "",
        "instructions": "",
        "input_prefix": "",
        "input_suffix": "",
        "reference_prefix": "A. ",
        "reference_suffix": "\n",
        "chain_of_thought_prefix": "",
        "chain_of_thought_suffix": "\n",
        "output_prefix": "",
        "output_suffix": "\n",
        "instance_prefix": "\n",
        "substitutions": [],
        "max_train_instances": 0,
        "max_eval_instances": helm_run.run.n,
        "num_outputs": 1,
        "num_train_trials": 1,
        "num_trials": 1,
        "sample_train": True,
        "model_deployment": helm_run.model,
        "model": helm_run.model,
        "temperature": float(settings.get("temperature") or 0.0),
        "max_tokens": int(settings.get("max_tokens") or 0),
        "stop_sequences": [],
        "multi_label": False,
    }


def _metric_spec(helm_run: HelmRun, metric: str) -> dict[str, Any]:
    if metric != JURY:
        return metric_spec(metric)
    return {
        "class_name": "helm.benchmark.metrics.llm_jury_metrics.LLMJuryMetric",
        "args": {
            "metric_name": metric_name(metric, helm_run.scenario),
            "scenario_name": helm_run.scenario,
            "annotator_models": _annotator_models(helm_run),
            "default_score": helm_run.run.jury_result.low if helm_run.run.jury_result else 1.0,
        },
    }


def _annotators(helm_run: HelmRun) -> list[dict[str, Any]]:
    """Return the judges in HELM's form; empty for a run without judges."""
    if not helm_run.judges:
        return []
    judged = helm_run.run.jury_result
    graded = judged.subscores if judged and judged.form == "grades" else ()
    arguments = {
        "name": helm_run.scenario,
        "annotation_criteria": {criterion: ["score", "explanation"] for criterion in graded},
        "annotator_models": _annotator_models(helm_run),
    }
    return [{"class_name": f"medhelm.jury.{helm_run.scenario}", "args": arguments}]


def _annotator_models(helm_run: HelmRun) -> dict[str, dict[str, str]]:
    plain = {short: judge.name.partition("@")[0] for short, judge in helm_run.judges.items()}
    return {short: {"model_name": name, "model_deployment": name} for short, name in plain.items()}


# --- instances --------------------------------------------------------------------------------------------------------


def _request_state(helm_run: HelmRun, case: HelmCase, adapter: Mapping[str, Any], *, lettered: bool) -> dict[str, Any]:
    text = case.messages[-1]["content"]
    single = len(case.messages) == 1
    request = {
        "model_deployment": helm_run.model,
        "model": helm_run.model,
        "embedding": False,
        "prompt": text if single else "",
        "temperature": adapter["temperature"],
        "num_completions": 1,
        "top_k_per_token": 1,
        "max_tokens": adapter["max_tokens"],
        "stop_sequences": [],
        "echo_prompt": False,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        **({} if single else {"messages": case.messages}),
    }
    letters = [chr(ord("A") + place) for place in range(len(case.choices))]
    return {
        "instance": {
            "input": {"text": text, **({} if single else {"messages": case.messages})},
            "references": [
                {"output": {"text": one["text"]}, "tags": ["correct"] if one["correct"] else []}
                for one in case.references
            ],
            "split": main_split(helm_run.scenario),
            "id": case.record["instance_id"],
        },
        "train_trial_index": 0,
        **({"output_mapping": dict(zip(letters, case.choices, strict=True))} if lettered else {}),
        "request": request,
        "result": _result(case.record),
        "num_train_instances": 0,
        "prompt_truncated": False,
        "num_conditioning_tokens": 0,
        **({"annotations": {helm_run.scenario: _annotation(helm_run, case)}} if helm_run.judges else {}),
    }


def _result(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the completion. A failure has an empty one, because HELM's tools read the first without a check."""
    reason = {"finish_reason": {"reason": record["finish_reason"]}} if record["finish_reason"] else {}
    result: dict[str, Any] = {
        "success": record["failure_code"] is None,
        "embedding": [],
        "completions": [{"text": record["completion"] or "", "logprob": 0, "tokens": [], **reason}],
        "cached": False,
        "request_time": record["latency_s"] or 0.0,
    }
    if record["failure_code"] is not None:
        message = without_servers(record["failure_message"] or "")
        result["error"] = f"{record['failure_code']}: {message}".rstrip(": ")
        result["error_flags"] = {"is_retriable": False, "is_fatal": False}
    return result


def _annotation(helm_run: HelmRun, case: HelmCase) -> dict[str, Any]:
    """Return the judgments in HELM's form, which leaves out a judge that did not score every criterion.

    In HELM a null prompt means that no judge was asked. The judges' prompts are not stored, so an empty one is written.
    """
    if not (case.record["completion"] or "").strip():
        return {"prompt_text": None, "empty_output_equivalence_judgement": False}
    annotation: dict[str, Any] = {"prompt_text": ""}
    for short, judge in helm_run.judges.items():
        own = [row for row in case.judgments if row["judge"] == judge.name]
        if own and all(row["score"] is not None for row in own):
            annotation[short] = {
                row["criterion"]: {"score": plain_score(row["score"]), "explanation": row["explanation"] or ""}
                for row in own
            }
    return annotation


def _general(case: HelmCase) -> dict[str, float]:
    """Return HELM's statistics of an instance, in addition to its scores."""
    record = case.record
    reason = record["finish_reason"] or "unknown"
    kind = reason if reason in ("length", "stop", "endoftext") else "unknown"
    output = record["output_tokens"] or 0
    return {
        "num_references": len(case.references),
        "num_train_trials": 1,
        "num_train_instances": 0,
        "prompt_truncated": 0,
        "num_prompt_tokens": record["input_tokens"] or 0,
        "num_completion_tokens": output,
        "num_output_tokens": output,
        "inference_runtime": record["latency_s"] or 0.0,
        **{f"finish_reason_{name}": int(name == kind) for name in ("length", "stop", "endoftext", "unknown")},
    }


# --- aggregate scores -------------------------------------------------------------------------------------------------


class _Aggregate:
    """Aggregates the scores of a metric: their mean, or the mean of ratios of sums."""

    def __init__(self) -> None:
        self._sum, self._n = 0.0, 0
        self._parts: dict[str, list[float]] = {}

    def add(self, value: float, parts: str | None = None) -> None:
        """Add the score of an instance; `parts`, as JSON, is given if the aggregate is not a mean."""
        self._sum, self._n = self._sum + value, self._n + 1
        for label, (above, below) in json.loads(parts).items() if parts else ():
            sums = self._parts.setdefault(label, [0.0, 0.0])
            sums[0] += above
            sums[1] += below

    @property
    def value(self) -> float | None:
        """Return the aggregate score; None without scores."""
        if self._parts:
            ratios = [above / below for above, below in self._parts.values() if below > 0]
            return sum(ratios) / len(ratios) if ratios else None
        return self._sum / self._n if self._n else None


def _value(helm_run: HelmRun, metric: str, mean: _Aggregate) -> float | None:
    """Return the stored score of a whole run, or the computed score of a group."""
    if helm_run.group is not None:
        if metric == helm_run.run.main_metric:
            return helm_run.run.groups[helm_run.group][helm_run.rule]
        return mean.value
    estimate = helm_run.run.estimates[helm_run.rule].get(metric)
    return estimate.value if estimate else None


@dataclass(frozen=True, slots=True)
class HelmCase:
    """All stored data of one instance."""

    record: Mapping[str, Any]
    """Its row in the records."""
    messages: Sequence[Mapping[str, str]]
    """Its prompt."""
    choices: Sequence[str]
    """Its options."""
    references: Sequence[Mapping[str, Any]]
    """Its references: `text` and `correct`."""
    judgments: Sequence[Mapping[str, Any]]
    """The judgments of its completion."""


def cases(
    engine: duckdb.DuckDBPyConnection, run: Run, prompts_file: Path, group: str | None = None
) -> Iterator[HelmCase]:
    """Yield the instances of a run, in order. Raises: StoreError if the prompts do not match the records."""
    folder = run.folder
    assert folder is not None, "runs of a store have a folder"
    prompts = rows(engine, prompts_file)
    judgments_file, columns = folder / "judgments.parquet", ", ".join(map(sql_name, JUDGMENT_COLUMNS))
    judgments = _JudgmentsByPosition(rows(engine, judgments_file, columns) if judgments_file.exists() else iter(()))
    for record in rows(engine, folder / "records.parquet"):
        prompt = next((row for row in prompts if row["position"] == record["position"]), None)
        if prompt is None or prompt["instance_id"] != record["instance_id"]:
            raise StoreError(
                f"{prompts_file} is not the prompts file of {folder}: instance {record['instance_id']} is not at "
                f"position {record['position']} in it. Run the benchmark again."
            )
        own_judgments = judgments.at(record["position"])
        if group is not None and record["group"] != group:
            continue
        content = {key: json.loads(prompt[key]) for key in ("messages", "choices", "references")}
        yield HelmCase(record=record, judgments=own_judgments, **content)


def is_lettered(engine: duckdb.DuckDBPyConnection, prompts: Path) -> bool:
    """Return True if the prompts ask for the letter of an option."""
    first = next(rows(engine, prompts), None)
    if first is None:
        return False
    choices = json.loads(first["choices"])
    shown = "\n".join(message["content"] for message in json.loads(first["messages"]))
    return bool(choices) and f"A. {choices[0]}" in shown


class _JudgmentsByPosition:
    """Judgments of one instance at a time, read along with the records, in order."""

    def __init__(self, rows: Iterator[dict[str, Any]]) -> None:
        self._groups = groupby(rows, key=lambda row: int(row["position"]))
        self._held: tuple[int, list[dict[str, Any]]] | None = None

    def at(self, position: int) -> list[dict[str, Any]]:
        """Return the judgments of the instance at `position`; positions must increase from call to call."""
        while self._held is None or self._held[0] < position:
            found = next(self._groups, None)
            if found is None:
                return []
            self._held = (found[0], list(found[1]))
        return self._held[1] if self._held[0] == position else []


# --- schema -----------------------------------------------------------------------------------------------------------
# Write the files that `helm-summarize` needs in addition to run folders: the schema of the tables, and the models.

ALL_BENCHMARKS = "medhelm_scenarios"
"""Group of all benchmarks, as in HELM's own schema: its table `accuracy` is the leaderboard."""


def write_schema(
    path: Path, benchmarks: Sequence[tuple[str, Mapping[str, Any]]], metrics: Iterable[Mapping[str, Any]]
) -> None:
    """Write the schema file, for `helm-summarize --schema-path`.

    Parameters: benchmarks, the category and the entry of each; metrics, their entries.
    """
    categories: dict[str, list[str]] = {}
    for category, entry in benchmarks:
        categories.setdefault(category, []).append(entry["name"])
    content = {
        "metrics": [*({"name": name} for name in GENERAL_METRICS), *metrics],
        "perturbations": [],
        "metric_groups": [
            {"name": "accuracy", "display_name": "Accuracy", "metrics": [_matcher("${main_name}")]},
            {
                "name": "efficiency",
                "display_name": "Efficiency",
                "hide_win_rates": True,
                "metrics": [_matcher("inference_runtime")],
            },
            {
                "name": "general_information",
                "display_name": "General information",
                "hide_win_rates": True,
                "metrics": [_matcher(name) for name in ("num_instances", "num_prompt_tokens", "num_output_tokens")],
            },
        ],
        "run_groups": [
            {
                "name": ALL_BENCHMARKS,
                "display_name": "MedHELM",
                "description": "All benchmarks",
                "category": "All scenarios",
                "subgroups": [_category(name) for name in categories],
            },
            *(
                {
                    "name": _category(name),
                    "display_name": name.replace("_", " ").capitalize(),
                    "description": f"Benchmarks of {name.replace('_', ' ')}",
                    "category": "Healthcare Task Categories",
                    "subgroups": scenarios,
                }
                for name, scenarios in categories.items()
            ),
            *(entry for _, entry in benchmarks),
        ],
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")


def write_models(path: Path, models: Sequence[str]) -> None:
    """Write the models' metadata, for `helm-summarize --local-path`."""
    content = {
        "models": [
            {
                "name": name,
                "display_name": name,
                "description": "",
                "creator_organization_name": name.partition("/")[0],
                "access": "limited",
                "tags": ["TEXT_MODEL_TAG"],
            }
            for name in models
        ]
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _category(name: str) -> str:
    """Return the name of a category's group, distinct from benchmark names."""
    return f"category_{name}"


def _matcher(name: str) -> dict[str, str]:
    return {"name": name, "split": "${main_split}"}


# --- exporting --------------------------------------------------------------------------------------------------------
# Export runs to a folder that HELM's tools can read.

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
        task = run.taxonomy.task
        entry = {
            "name": scenario,
            "display_name": run.title,
            "short_display_name": run.title,
            "description": _description(run, definitions),
            "metric_groups": ["accuracy", "efficiency", "general_information"],
            "environment": {"main_name": metric_name(run.main_metric, scenario), "main_split": main_split(scenario)},
            "taxonomy": {"task": task, "language": "English"} if task else {},
        }
        benchmarks[scenario] = run.taxonomy.category, entry
        for metric in run_metrics(run):
            name = metric_name(metric, scenario)
            metrics.setdefault(name, metric_entry(name, metric))
    write_schema(path, list(benchmarks.values()), metrics.values())


def metric_entry(name: str, metric: str) -> dict[str, Any]:
    """Return the schema's entry for a metric; those that only describe have no direction. `name`: that in HELM."""
    title, description, direction = name, "As another harness reported it.", {"lower_is_better": False}
    if metric == JURY:
        title, description = "Jury Score", "Mean score given by judges, on the rubric's own scale."
    elif known := METRICS.if_usable(metric):
        title, description = known.title, known.description
        direction = {} if known.descriptive else {"lower_is_better": not known.higher_is_better}
    return {
        "name": name,
        "display_name": title,
        "short_display_name": title,
        "description": description,
        **direction,
    }
