"""Cases: one instance with every model's completion, scores and judgments.

The runs are those that the leaderboard selects, so that cases and leaderboard show the same measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medhelm.analysis.cost import cost_with_batches
from medhelm.analysis.leaderboard.cells import Column
from medhelm.domain import RULES, Benchmark, Completion, Rule, Run, Tier, Usage
from medhelm.domain.completion import CAUSED_BY_MODEL, split_reasoning
from medhelm.domain.text import without_servers
from medhelm.errors import UserError, suggestion
from medhelm.extensions.web.cases.search import SearchedRuns, StoredCase, rank_models, read_case
from medhelm.io.http.pages import url_key
from medhelm.results.comparable import BASELINE, default_tier, select_runs, store_label
from medhelm.results.options import Pricing
from medhelm.results.runs.answers import option_labels, option_reader
from medhelm.results.runs.cells import column_of
from medhelm.results.spending import is_local, run_day
from medhelm.storage.annotations import Annotation
from medhelm.storage.damage import intact_runs
from medhelm.storage.judgments import completion_of
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.runs import load_runs, read_prompt, run_metrics, score_column
from medhelm.storage.store import Store, open_store, stored_folder

NO_PROMPT = (
    "The prompt is not stored: the run was imported without prompts, or its file was removed. "
    "`medhelm benchmarks preview` renders prompts from the data."
)
"""Message of a case without its prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCases:
    """The selected runs of one benchmark, ready to be searched."""

    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name for people."""
    rule: Rule
    """Rule of the scores in lists."""
    tier: Tier
    """Real data or sample rows."""
    column: Column
    """Main metric and its scale."""
    runs: Mapping[str, Run]
    """Model, with its store if there are several -> selected run."""
    left_out: Sequence[str]
    """Models whose runs were measured under other conditions."""
    searched: SearchedRuns
    """The runs as the store searches them."""
    definition: Benchmark | None = None
    """The definition of the benchmark; None if it is not installed here."""
    sides: tuple[str, str] | None = None
    """Names of the two stores or releases whose runs these are, the earlier first; None for those that count now."""

    @property
    def models(self) -> list[str]:
        """Models with a selected run: the best one first, baselines last."""
        return list(self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseJudgment:
    """One judge on one criterion. `score` is None if the judgment is missing."""

    judge: str
    """Name of the judge."""
    criterion: str
    """Name of the criterion."""
    score: float | None
    """Grade, or 1.0 for met and 0.0 for not met."""
    points: float
    """Points for meeting the criterion; 0 for grades."""
    failure: str
    """Failure code and message; empty if there is a score."""
    explanation: str
    """Explanation in the judge's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCompletion:
    """One model's completion of an instance with everything known about it."""

    model: str
    """Model, with its store if there are several."""
    completion: Completion
    """Text or failure, tokens, latency."""
    score: float | None
    """Score by the main metric and the rule of the list."""
    share: float | None
    """The same from 0 (worst) to 1 (best); a failure that the model caused is 0."""
    scores: Mapping[str, Mapping[Rule, float | None]]
    """Metric -> rule -> score, the main metric first."""
    is_unreadable: bool
    """True if the main metric finds no answer in the text."""
    score_failure: str
    """Reason for a missing score although there is a completion; empty if there is none."""
    cost_usd: float | None
    """Cost of the request; None if the price or the tokens are unknown."""
    truncated_characters: int
    """Characters dropped from the prompt."""
    injection_signs: str
    """Signs of a prompt injection aimed at judges, separated by commas."""
    jury_coverage: float | None
    """Judgments present / expected; None without a jury."""
    judgments: Sequence[CaseJudgment]
    """All judgments, in the order of judges and criteria."""
    option: str | None = None
    """Label of the option that the completion names, as the corrected rule reads it; empty if it names none. None for
    an open question, and without a completion."""
    is_baseline: bool = False
    """True for a baseline, which is not a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One instance with the completions of all models that have it."""

    instance_id: str
    """Id of the instance."""
    key: str
    """Key of the instance in URLs and file names."""
    group: str
    """Group of the instance; empty if there are none."""
    cluster: str
    """Keyed hash of the cluster of the instance; empty if it is independent."""
    messages: Sequence[Mapping[str, str]]
    """Messages of the prompt with `role` and `content`; empty if the prompt is not stored."""
    choices: Sequence[str]
    """Options in the order shown."""
    labels: Sequence[str]
    """Name of each option in completions: a letter, or its text."""
    references: Sequence[Mapping[str, Any]]
    """References with `text` and `correct`."""
    criteria: Sequence[Mapping[str, Any]]
    """The instance's own criteria with `name`, `text` and `points`; empty if it has none, or in older stores."""
    problem: str
    """Reason for a missing prompt; empty if it is stored."""
    annotations: Sequence[Annotation]
    """Notes, tags and stars, the earliest first; models have their names on the site."""
    completions: Sequence[CaseCompletion]
    """One for each model: the best one on the benchmark first, baselines last."""


def open_cases(
    stores: Sequence[Path],
    benchmark: str,
    *,
    rule: Rule = "corrected",
    tier: Tier | None = None,
    names: Mapping[str, str] | None = None,
    definition: Benchmark | None = None,
) -> BenchmarkCases:
    """Select the runs of a benchmark as the leaderboard does.

    `tier` None: real data, or the sample rows if the benchmark has nothing else.
    `names`: model -> name to show and search; others keep their name. `definition`: that of the benchmark, if known.
    Raises: UserError if the stores have no finished run of the benchmark; StoreError.
    """
    opened = [(store_label(path, stores), open_store(path)) for path in stores]
    found = [(label, store, run) for label, store in opened for run in intact_runs(load_runs(store, benchmark))]
    if not found or not benchmark:
        known = {run.benchmark for _, store in opened for run in load_runs(store)}
        places = ", ".join(map(str, stores))
        raise UserError(f"no run of `{benchmark[:80]}` in {places}. {suggestion(benchmark[:80], known)}".strip())
    tier = tier or default_tier(run for _, _, run in found)
    selection = select_runs((label, run) for label, _, run in found if run.tier == tier)
    if not selection.runs:
        unfinished = f" Unfinished: {'; '.join(selection.unfinished)}." if selection.unfinished else ""
        raise UserError(f"no finished run of `{benchmark}` on {tier} data.{unfinished} `medhelm run` finishes runs.")
    named = {(names or {}).get(model, model): run for (model, _), run in sorted(selection.runs.items())}
    left_out = [(names or {}).get(one.model, one.model) for one in selection.left_out]
    return cases_of_runs(named, rule=rule, definition=definition, left_out=left_out)


def cases_of_runs(
    named: Mapping[str, Run],
    *,
    rule: Rule,
    definition: Benchmark | None,
    left_out: Sequence[str] = (),
    sides: tuple[str, str] | None = None,
) -> BenchmarkCases:
    """Return the cases of the named runs of one benchmark. The others are fields of `BenchmarkCases`."""
    latest = max(named.values(), key=lambda run: (run.n, run.started))
    column = column_of(latest, None, rule)
    prompts = dict.fromkeys(
        Store(stored_folder(run).parents[2]).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
        for run in named.values()
    )
    worst, best = (column.low, column.high) if column.higher_is_better else (column.high, column.low)
    searched = SearchedRuns(
        runs=named,
        score=score_column(column.metric, rule),
        worst=worst,
        best=best,
        counted_as_worst=sorted(CAUSED_BY_MODEL) if rule == "corrected" else (),
        prompts=list(prompts),
        definition=definition,
    )
    runs = {model: named[model] for model in rank_models(searched)}
    return BenchmarkCases(
        benchmark=latest.benchmark,
        title=column.title,
        rule=rule,
        tier=latest.tier,
        column=column,
        runs=runs,
        left_out=left_out,
        searched=replace(searched, runs=runs),
        definition=definition,
        sides=sides,
    )


def find_case(
    cases: BenchmarkCases, key: str, *, models: Collection[str] | None = None, pricing: Pricing | None = None
) -> Case:
    """Read everything about the instance with this key.

    `models`: models whose completions are read; None for all.
    Raises: UserError if no selected run has the instance; StoreError.
    """
    found = read_case(cases.searched, key, [model for model in cases.runs if models is None or model in models])
    if found is None:
        raise UserError(f"no selected run of {cases.benchmark} has an instance with the key `{key[:80]}`.")
    instance_id = found.row.instance_id
    prompt = next(filter(None, (read_prompt(path, instance_id) for path in cases.searched.prompts)), None) or {}
    pricing = pricing or Pricing()
    first: Mapping[str, Any] = next((found.records[model] for model in cases.runs if model in found.records), {})
    labels = option_labels(cases.definition, prompt)
    read = option_reader(cases.column.metric, prompt, labels)
    completions = [_completion(cases, model, found, pricing, read) for model in cases.runs if model in found.records]
    return Case(
        instance_id=instance_id,
        key=url_key(instance_id),
        group=first.get("group") or "",
        cluster=_hidden_cluster(cases, found.records, first.get("cluster") or ""),
        messages=prompt.get("messages", []),
        choices=prompt.get("choices", []),
        labels=labels,
        references=prompt.get("references", []),
        criteria=prompt.get("criteria", []),
        problem="" if prompt else NO_PROMPT,
        annotations=cases.searched.annotations.get(instance_id, ()),
        completions=completions,
    )


def _hidden_cluster(cases: BenchmarkCases, records: Mapping[str, object], cluster: str) -> str:
    """Return the keyed hash of a cluster, of the store of the first run."""
    if not cluster:
        return ""
    run = next(run for model, run in cases.runs.items() if model in records)
    return Pseudonyms.of_store(Store(stored_folder(run).parents[2])).of(run.benchmark, cluster)


def case_models(cases: BenchmarkCases) -> dict[str, str]:
    """Map the key of each model to its name."""
    return {url_key(model): model for model in cases.runs}


def _completion(
    cases: BenchmarkCases, model: str, found: StoredCase, pricing: Pricing, read: Callable[[str], str | None]
) -> CaseCompletion:
    run, record, share = cases.runs[model], found.records[model], found.row.shares.get(model)
    text: str | None = record["completion"]
    split = split_reasoning(text or "")
    completion = completion_of(record, None if text is None else split.answer)
    if split.reasoning:
        whole = "\n\n".join(filter(None, [completion.reasoning, split.reasoning]))
        completion = replace(completion, reasoning=whole)
    return CaseCompletion(
        model=model,
        completion=completion,
        score=record.get(cases.searched.score),
        share=share,
        scores={
            metric: {rule: record.get(score_column(metric, rule)) for rule in RULES} for metric in run_metrics(run)
        },
        is_unreadable=bool(record.get("unreadable")),
        score_failure=record.get("score_failure") or "",
        cost_usd=_cost(run, completion, pricing),
        truncated_characters=record.get("left_out") or 0,
        injection_signs=record.get("suspicions") or "",
        jury_coverage=record.get("jury_coverage"),
        judgments=[_judgment(row) for row in found.judgments.get(model, ())],
        option=None if text is None else read(split.answer),
        is_baseline=run.model.startswith(BASELINE),
    )


def without_addresses(case: Case) -> Case:
    """Return a case whose failures do not name servers, for publication."""

    def plain(found: CaseCompletion) -> CaseCompletion:
        failure = found.completion.failure
        said = replace(failure, message=without_servers(failure.message)) if failure else None
        judgments = [replace(one, failure=without_servers(one.failure)) for one in found.judgments]
        return replace(
            found,
            completion=replace(found.completion, failure=said),
            score_failure=without_servers(found.score_failure),
            judgments=judgments,
        )

    return replace(case, completions=[plain(one) for one in case.completions])


def _judgment(row: Mapping[str, Any]) -> CaseJudgment:
    code, message = row["failure_code"] or "", row["failure_message"] or ""
    return CaseJudgment(
        judge=row["judge"],
        criterion=row["criterion"],
        score=row["score"],
        points=row["points"] or 0.0,
        failure=": ".join(filter(None, [code, message])),
        explanation=row["explanation"] or "",
    )


def _cost(run: Run, completion: Completion, pricing: Pricing) -> float | None:
    """Return the cost of one request; None if the price or the tokens are unknown."""
    if is_local(run):
        return 0.0
    price = pricing.price(run.resolved_model, run_day(run)) if run.resolved_model else None
    if price is None or not completion.usage.input:
        return None
    return cost_with_batches(completion.usage, completion.usage if completion.batched else Usage(), price)
