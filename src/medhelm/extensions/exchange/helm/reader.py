"""Read HELM run folders as runs, and translate HELM's names of benchmarks, metrics and models.

Based on crfm-helm 0.5.16. Benchmarks and metrics that it does not have keep their own names.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import fsum, isclose, isfinite
from typing import Any, NamedTuple

from medhelm.benchmarks.suites import helm_classes
from medhelm.domain import JURY, Completion, Failure, Instance, Judgment, Message, Model, Origin, Reference, Usage
from medhelm.evaluation.rescore import INPUT
from medhelm.extensions.exchange.helm.folders import RunFolder, UnreadableRun
from medhelm.extensions.exchange.importer import ImportedRun, model_of

# --- names ------------------------------------------------------------------------------------------------------------

_GROUP_ARGUMENTS = {"clear": "condition", "ehrshot": "subject", "n2c2_ct_matching": "subject", "med_dialog": "subset"}
"""HELM scenario whose groups are separate runs -> the argument that distinguishes them."""

METRICS: Mapping[str, str] = {
    "medcalc_accuracy": "medcalc_bench_accuracy",
    "medec_flag_accuracy": "medec_error_flag_accuracy",
    "medec_sentence_accuracy": "medec_error_sentence_accuracy",
    "icd_f1": "mimiciv_billing_code_f1",
    "icd_precision": "mimiciv_billing_code_precision",
    "icd_recall": "mimiciv_billing_code_recall",
    "sql_execution_accuracy": "ehr_sql_execution_accuracy",
    "sql_validity": "ehr_sql_query_validity",
    "sql_precision": "ehr_sql_precision_answerable",
    "sql_recall": "ehr_sql_recall_answerable",
    "bertscore": "BERTScore-F",
    "bertscore_precision": "BERTScore-P",
    "bertscore_recall": "BERTScore-R",
    "coverage": "summarization_coverage",
    "density": "summarization_density",
    "compression": "summarization_compression",
}
"""Our metric -> its name in HELM, where the names differ."""

_METRIC_CLASSES: Mapping[str, str] = {
    "medcalc_accuracy": "medcalc_bench_metrics.MedCalcBenchMetric",
    "medec_flag_accuracy": "medec_metrics.MedecMetric",
    "icd_f1": "mimiciv_billing_code_metrics.MIMICIVBillingCodeMetric",
    "sql_execution_accuracy": "ehr_sql_metrics.EhrSqlMetric",
}
"""Our metric -> the HELM class that computes it, below `helm.benchmark.metrics`."""

_LONGEST_NAME = 200
"""Maximum characters of a run's name, which is also a folder's name: file systems allow 255 bytes."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\,*?#%\"<>|]")
"""Characters that are not allowed in the value of an argument or in the name of a folder."""


def scenario_class(scenario: str) -> str:
    """Return the dotted name of a scenario's class; for an unknown scenario, a name that matches no class."""
    known = helm_classes().get(scenario)
    return f"helm.benchmark.scenarios.{known}" if known else f"medhelm.benchmarks.{scenario}"


def is_known(scenario: str) -> bool:
    """Return True if HELM has this scenario."""
    return scenario in helm_classes()


def main_split(scenario: str) -> str:
    """Return the split that HELM's tables show."""
    return "valid" if scenario == "med_mcqa" else "test"


def metric_name(metric: str, scenario: str) -> str:
    """Return the name of a benchmark's metric in HELM.

    >>> metric_name("jury", "aci_bench"), metric_name("jury", "our_own"), metric_name("rouge_l", "aci_bench")
    ('aci_bench_accuracy', 'jury_score', 'rouge_l')
    """
    if metric == JURY:
        return f"{scenario}_accuracy" if is_known(scenario) else "jury_score"
    return METRICS.get(metric, metric)


def metric_spec(metric: str) -> dict[str, Any]:
    """Return the HELM class that computes a metric, with its arguments, as in HELM's files.

    For an unknown metric, the name matches no class.
    """
    if metric in _METRIC_CLASSES:
        return {"class_name": f"helm.benchmark.metrics.{_METRIC_CLASSES[metric]}", "args": {}}
    if metric.endswith("exact_match"):
        return {
            "class_name": "helm.benchmark.metrics.basic_metrics.BasicGenerationMetric",
            "args": {"names": [metric]},
        }
    return {"class_name": f"medhelm.scoring.metrics.{metric}", "args": {}}


def group_argument(scenario: str) -> str:
    """Return the argument of a scenario that distinguishes its groups."""
    return _GROUP_ARGUMENTS.get(scenario, "group")


def run_name(scenario: str, *, group: str = "", **modifiers: str | int | None) -> str:
    """Return the name of a run in HELM's grammar: scenario, group and further settings.

    >>> run_name("clear", group="homelessness", max_eval_instances=None, model="openai/gpt-4o")
    'clear:condition=homelessness,model=openai_gpt-4o'
    >>> run_name("med_dialog", group="icliniq", model="meta/llama")
    'med_dialog,subset=icliniq:model=meta_llama'
    """
    name = scenario
    if group:
        separator = "," if scenario == "med_dialog" else ":"
        name += f"{separator}{group_argument(scenario)}={_value(group)}"
    for key, value in modifiers.items():
        if value is not None:
            name += f"{',' if ':' in name else ':'}{key}={_value(str(value))}"
    return name[:_LONGEST_NAME]


def _value(text: str) -> str:
    return _UNSAFE.sub("_", text)


def model_names(models: Iterable[str]) -> dict[str, str]:
    """Map models to their names in HELM: without the server's address; equal ones are numbered.

    >>> model_names(["openai/gpt-4o", "openai/m@http://h:1/v1", "openai/m@http://u:secret@h:2/v1", "mine"])
    {'mine': 'medhelm/mine', 'openai/gpt-4o': 'openai/gpt-4o', 'openai/m@http://h:1/v1': 'openai/m', \
'openai/m@http://u:secret@h:2/v1': 'openai/m-2'}
    """

    def without_address(model: str) -> str:
        name = model.partition("@")[0]
        return name if "/" in name else f"medhelm/{name}"

    return _unique_names(sorted(set(models)), without_address)


def judge_names(judges: Iterable[str]) -> dict[str, str]:
    """Map judges to the short names of their annotations in HELM.

    >>> judge_names(["openai/gpt-4o", "meta/llama@http://127.0.0.1:1/v1", "azure/gpt-4o"])
    {'openai/gpt-4o': 'gpt-4o', 'meta/llama@http://127.0.0.1:1/v1': 'llama', 'azure/gpt-4o': 'gpt-4o-2'}
    """
    return _unique_names(judges, lambda judge: judge.partition("@")[0].rpartition("/")[2])


def _unique_names(models: Iterable[str], shorten: Callable[[str], str]) -> dict[str, str]:
    """Map models to their shortened names; equal ones are numbered from 2."""
    names: dict[str, str] = {}
    for model in models:
        name = short = shorten(model)
        number = 1
        while name in names.values():
            number += 1
            name = f"{short}-{number}"
        names[model] = name
    return names


# --- runs -------------------------------------------------------------------------------------------------------------
# Read a finished HELM run as an `ImportedRun`.
#
# Only the first completion of the first trial on unperturbed instances is imported. The prompt is the text that was
# sent, unchanged, as one user message or as the messages of the request. Values of each instance are those of
# `per_instance_stats.json`, which has a separate entry per metric and instance. If it repeats a name, the last value
# counts.

GENERAL_METRICS = (
    "num_instances",
    "num_references",
    "num_train_trials",
    "num_train_instances",
    "prompt_truncated",
    "num_prompt_tokens",
    "num_completion_tokens",
    "num_output_tokens",
    "inference_runtime",
    "finish_reason_length",
    "finish_reason_stop",
    "finish_reason_endoftext",
    "finish_reason_unknown",
)
"""HELM's statistics of every run, in addition to its scores."""

NO_SCORES = frozenset(
    {
        *GENERAL_METRICS,
        *(
            "batch_size",
            "inference_denoised_runtime",
            "inference_idealized_runtime",
            "logprob",
            "max_prob",
            "num_bytes",
        ),
        *("num_completions", "num_perplexity_tokens", "predicted_index", "training_co2_cost", "training_energy_cost"),
    }
)
"""HELM metrics that describe a request instead of scoring a completion; their values are stored elsewhere."""

EXTRA_DATA = {
    "category": "Category",
    "lower_limit": "Lower Limit",
    "upper_limit": "Upper Limit",
    "value": "value",
}
"""Key of an instance's `extra_data` -> name of the column; other keys keep their names."""

_TOKENS = ("num_prompt_tokens", "num_output_tokens")
_IGNORED_STATS = NO_SCORES.difference(_TOKENS)

_NO_PART = re.compile(r"path|config|version|url|dir$")
"""Names of scenario arguments that do not distinguish parts of a benchmark."""

_AT_K = re.compile(r"@(\d+)$")


class HelmRunSpec(NamedTuple):
    """Benchmark, part and model of a run, from its specification."""

    benchmark: str
    """Name of the scenario, or of a user's own benchmark."""
    part: str
    """The part of the benchmark, by the arguments of the scenario; "" for the whole benchmark."""
    model: str
    """Name of the model."""
    deployment: str
    """The model deployment."""


def read_run_spec(spec: Mapping[str, Any]) -> HelmRunSpec:
    """Read a run specification. Raises: KeyError, TypeError or AttributeError if it is malformed."""
    adapter, scenario = spec["adapter_spec"], spec["scenario_spec"]
    groups = [str(group) for group in spec.get("groups", ())]
    arguments = {} if "configurable" in str(scenario.get("class_name", "")).lower() else scenario.get("args", {})
    part = ", ".join(str(v) for k, v in arguments.items() if isinstance(v, str) and not _NO_PART.search(k))
    benchmark = groups[-1] if groups else re.split("[:,]", str(spec["name"]))[0]
    return HelmRunSpec(benchmark, part, str(adapter["model"]), str(adapter.get("model_deployment", "")))


def read_helm_run(folder: RunFolder) -> ImportedRun:
    """Read the run in a folder. Raises: UnreadableRun if it is incomplete or of an unsupported kind."""
    contents, digest = folder.read()
    try:
        return _Reader(folder, contents, digest).run()
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        what = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else str(error)
        raise UnreadableRun(f"its files do not have HELM's layout ({what[:200]})") from error


class _Reader:
    """Reads the contents of the files of one run."""

    def __init__(self, folder: RunFolder, contents: Mapping[str, Any], digest: str) -> None:
        self.folder = folder
        self.spec = contents["run_spec.json"]
        self.adapter = self.spec["adapter_spec"]
        self.state = contents["scenario_state.json"]
        self.stats = contents["per_instance_stats.json"]
        self.means = contents["stats.json"]
        self.origin = Origin(harness="helm", version="", run=folder.name, sha256=digest)
        self.issues: Counter[str] = Counter()

    def run(self) -> ImportedRun:
        spec = read_run_spec(self.spec)
        states = self._only_split(self._request_states(), main_split(spec.benchmark))
        ids = _unique([str(state["instance"]["id"]) for state in states])
        scores, counted = self._scores(states, ids)
        jury = read_jury(self.spec, list(zip(ids, states, strict=True)))
        self.issues.update(jury.issues)
        times = [time for state in states if (time := (state.get("result") or {}).get("request_datetime"))]
        request = states[0]["request"]
        self._check_means(scores, str(states[0]["instance"].get("split", "")))
        return ImportedRun(
            origin=self.origin,
            benchmark=spec.benchmark,
            title=spec.part,
            model=spec.model,
            deployment=spec.deployment,
            instances=[self._instance(id_, state) for id_, state in zip(ids, states, strict=True)],
            completions={
                id_: self._completion(state, counted.get(id_, {})) for id_, state in zip(ids, states, strict=True)
            },
            scores=_main_first(scores, self.folder.main_metric(spec.benchmark) or jury.metric),
            judges=jury.judges,
            judgments=jury.judgments,
            judge_prompt=jury.prompt,
            unjudged_score=jury.default,
            max_tokens=int(request.get("max_tokens") or self.adapter.get("max_tokens") or 0),
            temperature=request.get("temperature", self.adapter.get("temperature")),
            stop=tuple(map(str, request.get("stop_sequences", ()))),
            started=datetime.fromtimestamp(min(times), UTC).isoformat(timespec="seconds") if times else "",
            tier=self.folder.tier,
            remarks=tuple(text.replace("{n}", f"{count:,}") for text, count in self.issues.items()),
        )

    def _request_states(self) -> list[Mapping[str, Any]]:
        """Return the requests to import, in order."""
        found = []
        for state in self.state["request_states"]:
            if state.get("reference_index") is not None:
                raise UnreadableRun(
                    f"the method `{self.adapter.get('method')}` sends a request for each option, which returns "
                    "no completion"
                )
            if state["instance"].get("perturbation"):
                self.issues["{n} requests on perturbed instances are left out"] += 1
            elif state.get("train_trial_index", 0) > 0:
                self.issues["{n} requests of further trials are left out: the first trial counts"] += 1
            else:
                found.append(state)
        if not found:
            raise UnreadableRun("it has no request on an unperturbed instance")
        return found

    def _only_split(self, states: Sequence[Mapping[str, Any]], split: str) -> list[Mapping[str, Any]]:
        """Return the requests on the split that HELM's tables show; all requests if it has none."""
        found = [state for state in states if state["instance"].get("split") == split] or list(states)
        if n_left_out := len(states) - len(found):
            self.issues[f"{{n}} instances are left out: HELM's tables show only the split {split}"] += n_left_out
        return found

    def _check_means(self, scores: Mapping[str, Mapping[str, float]], split: str) -> None:
        """Add a remark if the mean of the instances differs from the mean that HELM's own tables use."""
        for stat in self.means:
            named = stat["name"]
            own = scores.get(named["name"])
            if own and stat.get("mean") is not None and named.get("split") == split and "perturbation" not in named:
                mean = fsum(own.values()) / len(own)
                if not isclose(mean, stat["mean"], rel_tol=1e-9, abs_tol=1e-12):
                    says = f"the mean of its instances is {mean:.6g}, but stats.json has {stat['mean']:.6g}"
                    self.issues[f"{named['name']}: {says}"] = 1

    def _instance(self, id_: str, state: Mapping[str, Any]) -> Instance:
        instance = state["instance"]
        mapping = state.get("output_mapping") or {}
        references = tuple(
            Reference(str(reference["output"].get("text", "")), "correct" in reference.get("tags", ()))
            for reference in instance.get("references", ())
        )
        if mapping:
            right = {reference.text for reference in references if reference.correct}
            references = tuple(Reference(str(text), str(text) in right) for text in mapping.values())
        extra = instance.get("extra_data") or {}
        return Instance(
            id=id_,
            fields={INPUT: _input_text(instance["input"])},
            references=references,
            choices=tuple(map(str, mapping.values())),
            labels=tuple(map(str, mapping)),
            metadata={EXTRA_DATA.get(str(key), str(key)): _column_text(value) for key, value in extra.items()},
            turns=self._messages(state["request"]),
        )

    def _messages(self, request: Mapping[str, Any]) -> tuple[Message, ...]:
        if request.get("multimodal_prompt"):
            raise UnreadableRun("its prompts contain images or audio, which cannot be imported")
        if messages := request.get("messages"):
            return tuple(Message(message["role"], str(message["content"])) for message in messages)
        return (Message("user", str(request["prompt"])),)

    def _completion(self, state: Mapping[str, Any], counted: Mapping[str, float]) -> Completion:
        result = state.get("result")
        if state.get("prompt_truncated"):
            self.issues["{n} prompts were truncated by HELM to fit the context window"] += 1
        if not result:
            return Completion(failure=Failure("provider", "no_result", "HELM stored no result of this request"))
        latency_s = float(result.get("request_time") or 0.0)
        if not result.get("success", True):
            message = str(result.get("error") or "HELM gives no reason")
            return Completion(failure=Failure("provider", "request_failed", message[:2000]), latency_s=latency_s)
        completions = result.get("completions") or []
        if not completions:
            return Completion(
                failure=Failure("provider", "no_completion", "the request succeeded without a completion")
            )
        if len(completions) > 1:
            self.issues["{n} requests have several completions; only the first one is imported"] += 1
        first = completions[0]
        if first.get("thinking"):
            self.issues["{n} completions have separate reasoning, which is left out"] += 1
        written = len(first.get("tokens") or ()) or counted.get("num_output_tokens") or 0
        return Completion(
            text=str(first["text"]),
            finish_reason=str((first.get("finish_reason") or {}).get("reason", "")),
            usage=Usage(input=int(counted.get("num_prompt_tokens", 0)), output=int(written)),
            latency_s=latency_s,
        )

    def _scores(
        self, states: Sequence[Mapping[str, Any]], ids: Sequence[str]
    ) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
        """Return metric -> instance -> value; and instance -> token counts by HELM."""
        names = self._ids_by_helm_id(states, ids)
        columns: dict[str, dict[str, float]] = {}
        places: Counter[tuple[str, str]] = Counter()
        for entry in self.stats:
            own = names.get(str(entry["instance_id"]))
            if own is None or entry.get("train_trial_index") or entry.get("perturbation"):
                continue
            for stat in entry["stats"]:
                named = stat["name"]
                name = named["name"]
                if name in _IGNORED_STATS or not stat["count"] or "perturbation" in named:
                    continue
                id_ = own[0]
                if len(own) > 1:  # metrics have an entry for each of the instances, in order
                    id_ = own[places[name, id_] % len(own)]
                    places[name, own[0]] += 1
                value = stat["sum"] / stat["count"]
                column = columns.setdefault(name, {})
                if column.setdefault(id_, value) != value:
                    self._count_difference(name, column[id_], value)
                    column[id_] = value
        counted: dict[str, dict[str, float]] = {}
        for name in _TOKENS:
            for id_, value in columns.pop(name, {}).items():
                counted.setdefault(id_, {})[name] = value if isfinite(value) else 0.0
        return _without_at_k_copies(
            {name: finite for name, c in columns.items() if (finite := self._finite(name, c))}
        ), counted

    def _ids_by_helm_id(self, states: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> dict[str, list[str]]:
        """Map HELM's instance ids to ours; instances that share an id have several of ours."""
        names: dict[str, list[str]] = {}
        for state, id_ in zip(states, ids, strict=True):
            names.setdefault(str(state["instance"]["id"]), []).append(id_)
        if len(names) < len(ids):
            self.issues["{n} instances repeat an earlier id, so a number is appended"] += len(ids) - len(names)
        return names

    def _count_difference(self, name: str, before: float, value: float) -> None:
        """Count different values under one name; nan equals nan here."""
        if name not in _TOKENS and not (before != before and value != value):
            self.issues[f"{name} has several different values for {{n}} instances: the last one counts"] += 1

    def _finite(self, name: str, column: dict[str, float]) -> dict[str, float]:
        """Return a column without values that are not finite."""
        if not isfinite(fsum(column.values())):
            finite = {id_: float(value) for id_, value in column.items() if isfinite(value)}
            text = f"{name} is not a number for some instances ({{n}})"
            self.issues[text] += len(column) - len(finite)
            return finite
        return column


def _main_first(scores: Mapping[str, Mapping[str, float]], main: str) -> dict[str, Mapping[str, float]]:
    """Return scores with the main metric first: the named one, or else the first in HELM's order, but
    ROUGE-L instead of ROUGE-1.
    """
    first = next(iter(scores), "")
    main = main if main in scores else "rouge_l" if first == "rouge_1" and "rouge_l" in scores else first
    return {main: scores[main], **scores} if main else dict(scores)


def _without_at_k_copies(scores: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return scores without `at k` metrics that equal the plain ones, as in runs with one completion each."""
    return {name: own for name, own in scores.items() if own != scores.get(_AT_K.sub("", name)) or "@" not in name}


def _unique(ids: Sequence[str]) -> list[str]:
    """Return names made unique: a number is appended to repeated ones.

    >>> _unique(["a", "b", "a"])
    ['a', 'b', 'a#2']
    """
    taken: Counter[str] = Counter()
    found: dict[str, None] = {}
    for id_ in ids:
        taken[id_] += 1
        name = id_ if taken[id_] == 1 else f"{id_}#{taken[id_]}"
        while name in found:
            taken[id_] += 1
            name = f"{id_}#{taken[id_]}"
        found[name] = None
    return list(found)


def _input_text(given: Mapping[str, Any]) -> str:
    """Return the text of an input, which may be a conversation."""
    if given.get("messages"):
        return "\n\n".join(f"{message['role']}: {message['content']}" for message in given["messages"])
    return str(given.get("text", ""))


def _column_text(value: object) -> str:
    """Return a value of `extra_data` as text for a column."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- juries -----------------------------------------------------------------------------------------------------------
# Read the judgments that HELM stored: for each instance one object per judge, by the judge's short name.
#
# `annotations` is {ANNOTATOR: {"prompt_text": text or null, JUDGE: {CRITERION: {"score": ..., "explanation": ...}}}}.
#
# A judge that failed or whose completion could not be parsed is missing, without a reason. An annotation without a
# prompt belongs to an empty completion, which is not sent to judges.

DROPPED = "not_kept"
"""Failure code of a judgment that is missing in HELM's files."""

DEFAULT_JUDGES = {
    "gpt": "openai/gpt-4o-2024-05-13",
    "llama": "meta/llama-3.3-70b-instruct",
    "claude": "anthropic/claude-3-7-sonnet-20250219",
}
"""Short name -> model, for old runs, whose judges were defined in HELM's code and not in its files."""

_NO_JUDGE = ("prompt_text", "empty_output_equivalence_judgement")


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmJury:
    """The judges of a run, and all their judgments."""

    judges: tuple[Model, ...] = ()
    """The judges; empty for a run without judges."""
    metric: str = ""
    """HELM's name of their score; empty for a run without judges."""
    judgments: Mapping[str, Sequence[Judgment]] = field(default_factory=dict)
    """Instance -> each judge's judgment of each criterion; instances with an empty completion are missing."""
    prompt: str = ""
    """The judges' prompt, with placeholders; empty if the files do not contain it."""
    default: float | None = None
    """HELM's score for an instance without judgments; None if the files do not contain it."""
    issues: Counter[str] = field(default_factory=Counter)
    """Irregularity -> number of occurrences."""


def read_jury(spec: Mapping[str, Any], states: Sequence[tuple[str, Mapping[str, Any]]]) -> HelmJury:
    """Read the jury of a run. `states`: instance id and request state of each instance, in order."""
    metrics = (one for one in spec.get("metric_specs", ()) if str(one.get("class_name", "")).endswith("LLMJuryMetric"))
    metric: Mapping[str, Any] = next(metrics, {})
    arguments: Mapping[str, Any] = metric.get("args", {})
    name = _annotation_key(arguments.get("scenario_name"), states)
    if not name:
        models = arguments.get("annotator_models") or {}
        return HelmJury(
            judges=tuple(_models(list(models), models).values()),
            metric=str(arguments.get("metric_name", "")),
            default=arguments.get("default_score"),
        )
    annotators = [one.get("args", {}) for one in spec.get("annotators", ())]
    annotator: Mapping[str, Any] = next((one for one in annotators if one.get("name") == name), {})
    models = arguments.get("annotator_models") or next(
        (given for one in (annotator, *annotators) if (given := one.get("annotator_models"))), None
    )
    annotations = {id_: state["annotations"].get(name) for id_, state in states if state.get("annotations")}
    verdicts = {id_: _verdicts(annotation) for id_, annotation in annotations.items() if _was_judged(annotation)}
    names = list(models) if models else list(dict.fromkeys(judge for own in verdicts.values() for judge in own))
    judges = _models(names, models or {})
    criteria = list(annotator.get("annotation_criteria", ())) or _common_criteria(verdicts)
    n_missing = len(states) - len(annotations)
    return HelmJury(
        judges=tuple(judges.values()),
        metric=str(arguments.get("metric_name", f"{name}_accuracy")),
        judgments={
            id_: [judgment for one in names for judgment in _judgments(judges[one].name, own.get(one), criteria)]
            for id_, own in verdicts.items()
        },
        prompt=str(annotator.get("prompt_template", "")),
        default=arguments.get("default_score", 0.0 if annotator.get("prompt_template") else None),
        issues=Counter({f"{n_missing} instances are not annotated": 1} if n_missing > 0 else {}),
    )


def _annotation_key(expected: object, states: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the key of the judges' annotations: the one that the metric names, or the first with scores; else ""."""
    for _, state in states:
        for name, annotation in (state.get("annotations") or {}).items():
            if name == expected or (expected is None and _verdicts(annotation)):
                return str(name)
    return ""


def _was_judged(annotation: object) -> bool:
    """Return True if the completion was sent to judges."""
    return isinstance(annotation, dict) and annotation.get("prompt_text") is not None


def _verdicts(annotation: object) -> dict[str, Mapping[str, Any]]:
    """Return the verdict of each judge in an annotation; empty if it is not from judges."""
    if not isinstance(annotation, dict):
        return {}
    own = {str(k): v for k, v in annotation.items() if k not in _NO_JUDGE and isinstance(v, dict)}
    return {judge: v for judge, v in own.items() if any(isinstance(c, dict) and "score" in c for c in v.values())}


def _common_criteria(verdicts: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Return the criteria that all verdicts have, in the order of the first verdict."""
    flat = [verdict for by_judge in verdicts.values() for verdict in by_judge.values()]
    return [name for name in flat[0] if all(name in verdict for verdict in flat)] if flat else []


def _models(short_names: Sequence[str], models: Mapping[str, Any]) -> dict[str, Model]:
    """Map short names to judges; if two are deployments of one model, the name includes the deployment."""
    names = {one: str(models.get(one, {}).get("model_name") or DEFAULT_JUDGES.get(one, one)) for one in short_names}
    found = {}
    for one, name in names.items():
        deployment = str(models.get(one, {}).get("model_deployment") or one)
        is_unique = list(names.values()).count(name) == 1
        found[one] = replace(model_of(name), name=name if is_unique else f"{name}@{deployment}")
    return found


def _judgments(judge: str, verdict: Mapping[str, Any] | None, criteria: Sequence[str]) -> list[Judgment]:
    """Return the judgments of one judge on one completion: on each criterion, and on any others it scored."""
    if verdict is None:
        failure = Failure("judge", DROPPED, "HELM stored nothing from this judge: it failed, or was not readable")
        return [Judgment(judge=judge, criterion=name, score=None, failure=failure) for name in criteria]
    names = [*criteria, *(name for name in verdict if name not in criteria)]
    return [_judgment(judge, name, verdict.get(name)) for name in names]


def _judgment(judge: str, name: str, cell: object) -> Judgment:
    score = cell.get("score") if isinstance(cell, dict) else None
    explanation = str(cell.get("explanation") or "") if isinstance(cell, dict) else ""
    try:
        number = float(score)  # type: ignore[arg-type]
        if not isfinite(number):
            raise ValueError(number)
    except (TypeError, ValueError):
        failure = Failure("judge", "not_a_grade", f"`score` is {str(score)[:100]!r}, not a number")
        return Judgment(judge=judge, criterion=name, score=None, failure=failure, explanation=explanation)
    return Judgment(judge=judge, criterion=name, score=number, explanation=explanation)
