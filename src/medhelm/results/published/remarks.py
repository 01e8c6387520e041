"""Remarks on published results, and on own results that are compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.sampling import PUBLISHED as PUBLISHED_SAMPLE
from medhelm.domain import JURY, Benchmark, Run
from medhelm.domain.result import Remark
from medhelm.domain.text import listed, plural
from medhelm.errors import MedHelmError
from medhelm.models.model_names import plain_name
from medhelm.results.comparable import has_own_data
from medhelm.results.published.data import PRICES_DATE, REASONING_LIMIT, load_results
from medhelm.scoring.metrics import METRIC_NAMES

NAMES = 6
"""Most names written out in one sentence."""

KNOWN_ERRORS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("medcalc_bench",),
        "MedCalc-Bench: questions of the categories `lab` and `dosage`, more than a third of all, could not score.",
    ),
    (
        ("ehrsql",),
        "EHRSQL: an empty answer to every question scores 0.38 by the published rule, more than any model.",
    ),
    (
        ("mtsamples",),
        "MTSamples: DeepSeek R1 and o3-mini were run on 427 instances, the other models on 78.",
    ),
    (
        ("med_qa",),
        "MedQA: the models were run on 1,000 instances of two splits; only the 503 of the test split are reported.",
    ),
    (("medalign",), "MedAlign: Claude 3.5 Sonnet was run on 172 instances, the other models on 149."),
    (
        ("n2c2_ct",),
        "N2C2-CT: the costs of Claude 3.5 Sonnet, Claude 3.7 Sonnet and Gemini 2.0 Flash omit a third of the tokens.",
    ),
)
"""Benchmarks -> known error in their published results."""

JURY_DEFAULT = (
    "Known error in published results: Jury scores: a completion that was blank, or that no judge could grade, counts "
    "as the lowest grade, 1.0."
)


def known_error_remarks(benchmarks: Iterable[str]) -> Iterator[Remark]:
    """Yield a remark for each known error in the published results on these benchmarks."""
    shown, results = set(benchmarks), load_results()
    for names, text in KNOWN_ERRORS:
        if shown & set(names):
            yield Remark("known_error", names[0], f"Known error in published results: {text}")
    if any(results.benchmarks[name].metric == JURY for name in shown if name in results.benchmarks):
        judges = listed([judge.name for judge in results.jury], NAMES)
        text = f"{JURY_DEFAULT} The judges, {judges}, also judged their own completions."
        yield Remark("known_error", JURY, text)
    for model in results.models.values():
        if model.printed_price:
            printed, used = model.printed_price, model.price
            text = (
                f"The published costs of {model.name} use {used.input:.2f} and {used.output:.2f} USD per million "
                f"tokens; the paper's table of prices has {printed.input:.2f} and {printed.output:.2f}."
            )
            yield Remark("published_price", model.name, text)


def table_1_remarks() -> Iterator[Remark]:
    """Yield a remark on the one entry of the paper's table 1 that cannot be reproduced as printed."""
    text = (
        "Scores were published to three decimals, which creates ties: the win rate of Claude 3.5 Sonnet comes out as "
        "0.636, and is 0.63 in table 1 of the paper. The other 35 entries are as printed."
    )
    yield Remark("rounded_scores", "Claude 3.5 Sonnet", text)


def cost_remarks(*, beside_bills: bool = False) -> Iterator[Remark]:
    """Yield a remark on what the published costs mean."""
    text = (
        "Published costs are ceilings, not bills: every completion and every judge's response counts as if it had "
        f"used its full limit, at prices of {PRICES_DATE.isoformat()}."
    )
    own = " Costs of your own runs are for the tokens that were used: do not compare the two." if beside_bills else ""
    yield Remark("cost_ceilings", "", text + own)


def benchmark_remarks(
    n_common: int, without_own: Sequence[str], unpublished: Sequence[str], different_metric: Sequence[str]
) -> Iterator[Remark]:
    """Yield remarks on the number of benchmarks that are compared, and on those that are left out.

    Parameters: n_common, benchmarks with own and published results; without_own, titles of published benchmarks without
    own results; unpublished, titles of own benchmarks without published results; different_metric, benchmarks whose
    own and published results use different metrics.
    """
    n_published = n_common + len(without_own) + len(different_metric)
    text = (
        f"Rows marked † are published and were not measured here. {n_common} of {n_published} published benchmarks "
        f"also have results of your own; {len(without_own)} do not and are left out. Win rates and averages cover the "
        f"{n_common}, so they differ from the published ones."
    )
    yield Remark("published_rows", "", text)
    if different_metric:
        text = f"Left out, because own and published results use different metrics: {', '.join(different_metric)}."
        yield Remark("different_metric", "", text)
    if unpublished:
        yield Remark("not_published", "", f"Left out, because results are not published: {listed(unpublished, NAMES)}.")


def condition_remarks(
    own: Sequence[Cell], runs: Mapping[tuple[str, str], Run], columns: Sequence[Column]
) -> Iterator[Remark]:
    """Yield remarks on differences between own and published runs: prompts, instances, data, limits, jury."""
    shown = [(cell.model, runs[cell.model, cell.benchmark]) for cell in own]
    order = {column.benchmark: place for place, column in enumerate(columns)}
    shown.sort(key=lambda pair: (order[pair[1].benchmark], pair[0]))
    yield from _prompt_remarks(shown)
    yield from _instance_remarks(shown)
    yield from _data_remarks([run for _, run in shown])
    yield from _limit_remarks(shown)
    yield from _jury_remarks([run for _, run in shown if run.main_metric == JURY])
    failed = sum(run.n_failed for _, run in shown)
    if failed:
        text = (
            f"{failed} instances of your own runs have no completion and are left out of the means; published means "
            "count such instances as the worst answer."
        )
        yield Remark("failed_instances", "", text)


def _prompt_remarks(shown: Sequence[tuple[str, Run]]) -> Iterator[Remark]:
    """Yield remarks on where the prompts of own runs come from."""
    reference, others, n_own = [], [], 0
    for model, run in shown:
        where = f"{run.title} with {model}"
        if run.origin is None:
            n_own += 1
        elif run.origin.harness == "helm":
            reference.append(where)
        else:
            others.append(where)
    if n_own:
        text = "Prompts differ: your own runs word the same tasks differently, which alone can change a score."
        yield Remark("different_prompts", "", text)
    if reference:
        rest = "; these are more comparable than the rest" if n_own or others else ""
        text = f"Prompts of the reference implementation were used for {listed(reference, NAMES)}{rest}."
        yield Remark("reference_prompts", "", text)
    if others:
        text = f"Prompts of another harness, not those of the published runs, were used for {listed(others, NAMES)}."
        yield Remark("imported_prompts", "", text)


def _instance_remarks(shown: Sequence[tuple[str, Run]]) -> Iterator[Remark]:
    """Yield a remark on benchmarks with another number of instances."""
    published = load_results()
    counts: dict[str, tuple[str, set[int]]] = {}
    for _, run in shown:
        counts.setdefault(run.benchmark, (run.title, set()))[1].add(run.n)
    differing = []
    for benchmark, (title, own) in counts.items():
        theirs = {published.scores[key, benchmark].scored for key in published.models}
        if own != theirs or len(theirs) > 1:
            differing.append(f"{title} {_counts_in_words(own)} (published: {_counts_in_words(theirs)})")
    if differing:
        text = f"Instances differ, so these are means over different questions: {listed(differing, NAMES)}."
        yield Remark("different_instances", "", text)


def _counts_in_words(numbers: set[int]) -> str:
    return " or ".join(f"{number:,}" for number in sorted(numbers))


def _data_remarks(runs: Sequence[Run]) -> Iterator[Remark]:
    """Yield remarks on benchmarks whose data or selection of instances may differ from the published ones."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for run in {(run.benchmark, run.benchmark_digest, run.data_digest): run for run in runs}.values():
        if run.has_imported_completions:
            continue  # The other harness read its own data.
        if has_own_data(run):
            found.setdefault(OWN, {})[run.title] = None
            continue
        definition = _built_in_definition(run)
        if definition is None:
            found.setdefault(CHANGED, {})[run.title] = None
        elif not (definition.source.files and all(definition.source.files.values())):
            found.setdefault(UNVERIFIED, {})[run.title] = None
        has_published = definition is not None and PUBLISHED_SAMPLE in definition.samples
        sample = run.settings.get("sample", "default")
        same = (PUBLISHED_SAMPLE,) if has_published else (PUBLISHED_SAMPLE, "default")
        if run.settings.get("seed", 0) != 0 or sample not in same:
            found.setdefault(OFFERED if has_published else REDRAWN, {})[run.title] = None
    for kind in (OWN, CHANGED, UNVERIFIED, REDRAWN, OFFERED):
        if kind in found:
            code, text, advice = kind
            yield Remark(code, "", f"{text}: {listed(list(found[kind]), NAMES)}.{advice}")


OWN = ("own_data", "Run on own data, so the published scores are for other instances", "")
CHANGED = ("changed_definition", "The benchmark definition is not the built-in one, so the data may differ", "")
UNVERIFIED = ("unverified_data", "The published data has no public copy to compare with", "")
REDRAWN = ("different_selection", "The selection of instances differs from the published one", "")
OFFERED = (*REDRAWN[:2], f" Use `medhelm run --sample {PUBLISHED_SAMPLE}` for the published one.")
"""Code, text and advice of remarks on data."""


def _built_in_definition(run: Run) -> Benchmark | None:
    """Return the built-in definition that a run used; None if it used another."""
    try:
        (benchmark,) = load_benchmarks([run.benchmark], metrics=METRIC_NAMES)
    except MedHelmError:
        return None
    return benchmark if benchmark.as_used(run.rubric, run.benchmark_digest).digest == run.benchmark_digest else None


def _limit_remarks(shown: Sequence[tuple[str, Run]]) -> Iterator[Remark]:
    """Yield a remark on runs with another limit on completions."""
    differing = []
    for model, run in shown:
        benchmark = load_results().benchmarks[run.benchmark]
        limit = run.settings.get("max_tokens")
        if limit is not None and limit not in (benchmark.max_tokens, REASONING_LIMIT):
            differing.append(f"{run.title} with {model} ({limit})")
    if differing:
        text = f"The limit on completions differs from the published one: {listed(differing, NAMES)}."
        yield Remark("different_limit", "", text)


def _jury_remarks(runs: Sequence[Run]) -> Iterator[Remark]:
    """Yield a remark on benchmarks for each other jury that graded them."""
    if not runs:
        return
    published = {plain_name(judge.model): judge.name for judge in load_results().jury}
    differing: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        if {plain_name(judge.remote_name) for judge in run.judges} != set(published):
            titles = differing.setdefault(tuple(judge.name for judge in run.judges), [])
            titles += [run.title] if run.title not in titles else []
    theirs = listed(list(published.values()))
    for names, titles in differing.items():
        text = (
            f"{listed(titles, NAMES)} had another jury: {listed(names, NAMES)} instead of {theirs}. Juries differ in "
            "severity, so scores differ because of the jury as well as the model."
        )
        yield Remark("different_jury", "", text)


def same_model_remarks(
    own: Sequence[Cell],
    published: Sequence[Cell],
    columns: Sequence[Column],
    runs: Mapping[tuple[str, str], Run],
) -> Iterator[Remark]:
    """Yield a remark on how much own results of a published model differ from its published results."""
    by_name = {plain_name(model.model): model for model in load_results().models.values()}
    theirs = {(cell.model.partition(" [")[0], cell.benchmark): cell for cell in published}
    scale = {column.benchmark: column for column in columns}
    for name in dict.fromkeys(cell.model for cell in own):
        mine = [cell for cell in own if cell.model == name and cell.value is not None]
        known = {by_name.get(plain_name(_remote_name(runs[name, cell.benchmark]))) for cell in mine}
        same = next(iter(known)) if len(known) == 1 else None
        if same is None:
            continue
        gaps = [_score_gap(cell, theirs.get((same.name, cell.benchmark)), scale[cell.benchmark]) for cell in mine]
        text = (
            f"{name} is the model published as {same.name}. On {plural(len(gaps), 'benchmark')} its own results differ "
            f"from the published ones by {fsum(gaps) / len(gaps):+.3f} on average, on a scale of 0 to 1."
        )
        yield Remark("same_model", name, text)


def _score_gap(own: Cell, published: Cell | None, column: Column) -> float:
    if published is None or own.value is None or published.value is None:
        return 0.0
    return column.normalize(own.value) - column.normalize(published.value)


def _remote_name(run: Run) -> str:
    """Return the name that the server uses for the model."""
    return run.resolved_model.remote_name if run.resolved_model else run.model
