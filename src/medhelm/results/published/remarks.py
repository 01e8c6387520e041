"""What a reader must know of published numbers, and of own numbers beside them, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum

from medhelm.analysis.leaderboard.types import Cell, Column
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import JURY, Benchmark, Run
from medhelm.errors import MedHelmError
from medhelm.models.model_names import plain_name
from medhelm.results.published.data import PRICES_DATE, REASONING_LIMIT, load_results
from medhelm.scoring.metrics import METRIC_NAMES

NAMES = 6
"""Most names written out in one sentence."""

PUBLISHED_SAMPLE = "published"
"""Name of the selection that takes the published instances, in benchmarks where the usual one is better."""

KNOWN_ERRORS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("medcalc_bench",),
        "MedCalc-Bench: no answer to a question of the categories `lab` and `dosage`, more than a third of all, could "
        "score.",
    ),
    (
        ("ehrsql",),
        "EHRSQL: by the published rule an empty answer to every question of the data set scores 0.38, more than any "
        "model.",
    ),
    (
        ("mtsamples",),
        "MTSamples: DeepSeek R1 and o3-mini were asked 427 instances, the other models 78.",
    ),
    (
        ("med_qa",),
        "MedQA: the models were asked 1,000 instances of two splits; only the 503 of the test split are reported.",
    ),
    (("medalign",), "MedAlign: Claude 3.5 Sonnet was asked 172 instances, the other models 149."),
    (
        ("n2c2_ct",),
        "N2C2-CT: the costs of Claude 3.5 Sonnet, Claude 3.7 Sonnet and Gemini 2.0 Flash lack a third of the tokens.",
    ),
)
"""Benchmarks -> what is wrong with their published numbers."""

JURY_DEFAULT = (
    "Known error in published numbers: Jury scores: an answer that was blank, or that no judge could grade, counts "
    "as the worst grade, 1.0."
)


def known_error_remarks(benchmarks: Iterable[str]) -> Iterator[str]:
    """What is known to be wrong with the published numbers on these benchmarks."""
    shown, results = set(benchmarks), load_results()
    for names, text in KNOWN_ERRORS:
        if shown & set(names):
            yield f"Known error in published numbers: {text}"
    if any(results.benchmarks[name].metric == JURY for name in shown if name in results.benchmarks):
        judges = _listed([judge.name for judge in results.jury])
        yield f"{JURY_DEFAULT} The judges, {judges}, judged their own answers too."
    for model in results.models.values():
        if model.printed_price:
            printed, used = model.printed_price, model.price
            yield (
                f"The published costs of {model.name} are at {used.input:.2f} and {used.output:.2f} US dollars per "
                f"million tokens; the paper's table of prices says {printed.input:.2f} and {printed.output:.2f}."
            )


def table_1_remarks() -> Iterator[str]:
    """The one entry of table 1 of the paper that does not come out as printed."""
    yield (
        "Scores were published to three decimals, which makes ties that were none: the win rate of Claude 3.5 Sonnet "
        "comes out as 0.636, and is 0.63 in table 1 of the paper. Its other 35 entries come out as printed."
    )


def cost_remarks(*, beside_bills: bool = False) -> Iterator[str]:
    """What the costs are."""
    text = (
        "Published costs are ceilings, not bills: every completion and every judge's reply counts as long as it was "
        f"allowed to be, at prices of {PRICES_DATE.isoformat()}"
    )
    yield (
        f"{text}. Costs of own runs are what the tokens used cost: do not compare the two."
        if beside_bills
        else (f"{text}.")
    )


def benchmark_remarks(
    n_common: int, without_own: Sequence[str], unpublished: Sequence[str], otherwise: Sequence[str]
) -> Iterator[str]:
    """Which benchmarks are on the board, and which are not."""
    n_published = n_common + len(without_own) + len(otherwise)
    yield (
        f"Rows marked † are published and were not measured here. {n_common} of {n_published} published benchmarks "
        f"have own results to compare, {len(without_own)} have none and are left out. Win rates and averages are over "
        f"the {n_common} and differ from the published ones."
    )
    if otherwise:
        yield f"Left out, because own and published results go by different metrics: {', '.join(otherwise)}."
    if unpublished:
        yield f"Left out, because there are no published results: {_listed(unpublished)}."


def condition_remarks(
    own: Sequence[Cell], runs: Mapping[tuple[str, str], Run], columns: Sequence[Column]
) -> Iterator[str]:
    """In what own runs differ from the published ones: prompts, instances, data, limits, jury."""
    shown = [(cell.model, runs[cell.model, cell.benchmark]) for cell in own]
    order = {column.benchmark: place for place, column in enumerate(columns)}
    shown.sort(key=lambda pair: (order[pair[1].benchmark], pair[0]))
    yield from _on_prompts(shown)
    yield from _on_instances(shown)
    yield from _on_data([run for _, run in shown])
    yield from _on_limits(shown)
    yield from _on_juries([run for _, run in shown if run.main_metric == JURY])
    failed = sum(run.n_failed for _, run in shown)
    if failed:
        yield (
            f"{failed} instances of own runs have no completion and are left out of the means; published means count "
            "such instances as wrong."
        )


def _on_prompts(shown: Sequence[tuple[str, Run]]) -> Iterator[str]:
    """Whose words the models were asked in."""
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
        yield (
            "Prompts differ: own runs are asked for the same in other words than the published ones were, which alone "
            "can move a score."
        )
    if reference:
        rest = "; these compare more strictly than the rest" if n_own or others else ""
        yield f"Asked in the words of a run of the reference implementation: {_listed(reference)}{rest}."
    if others:
        yield f"Asked in the words of another harness, which are not those of the published runs: {_listed(others)}."


def _on_instances(shown: Sequence[tuple[str, Run]]) -> Iterator[str]:
    """Where the number of instances is another one."""
    published = load_results()
    counts: dict[str, tuple[str, set[int]]] = {}
    for _, run in shown:
        counts.setdefault(run.benchmark, (run.title, set()))[1].add(run.n)
    differing = []
    for benchmark, (title, own) in counts.items():
        theirs = {published.scores[key, benchmark].scored for key in published.models}
        if own != theirs or len(theirs) > 1:
            differing.append(f"{title} {_counts(own)} (published: {_counts(theirs)})")
    if differing:
        yield f"Instances differ, so these are means over different questions: {_listed(differing)}."


def _counts(numbers: set[int]) -> str:
    return " or ".join(f"{number:,}" for number in sorted(numbers))


def _on_data(runs: Sequence[Run]) -> Iterator[str]:
    """Where the data, or the selection from it, is not known to be that of the published results."""
    changed: dict[str, None] = {}
    unpinned: dict[str, None] = {}
    redrawn: dict[str, None] = {}
    offered: dict[str, None] = {}
    for run in {(run.benchmark, run.benchmark_digest, run.data_digest): run for run in runs}.values():
        if run.origin is not None and not run.origin.completions_made_here:
            continue  # The other harness read its own data.
        definition = _definition(run)
        if definition is None:
            changed[run.title] = None
        elif not (definition.source.files and all(definition.source.files.values())):
            unpinned[run.title] = None
        has_published = definition is not None and PUBLISHED_SAMPLE in definition.samples
        sample = run.settings.get("sample", "default")
        if run.settings.get("seed", 0) != 0 or sample != (PUBLISHED_SAMPLE if has_published else "default"):
            (offered if has_published else redrawn)[run.title] = None
    if changed:
        yield f"Not the definition of the benchmark that is built in, so perhaps other data: {_listed(list(changed))}."
    if unpinned:
        yield (
            "Whether the data is that of the published results cannot be known, because there is no public copy to "
            f"compare it with: {_listed(list(unpinned))}."
        )
    if redrawn:
        yield f"Another selection of instances than the published one: {_listed(list(redrawn))}."
    if offered:
        yield (
            f"Another selection of instances than the published one, which `medhelm run --sample {PUBLISHED_SAMPLE}` "
            f"takes: {_listed(list(offered))}."
        )


def _definition(run: Run) -> Benchmark | None:
    """The built-in definition that the run was asked by; None if it was another."""
    try:
        (benchmark,) = load_benchmarks([run.benchmark], metrics=METRIC_NAMES)
    except MedHelmError:
        return None
    return benchmark if benchmark.digest == run.benchmark_digest else None


def _on_limits(shown: Sequence[tuple[str, Run]]) -> Iterator[str]:
    """Where completions could have another length."""
    differing = []
    for model, run in shown:
        benchmark = load_results().benchmarks[run.benchmark]
        limit = run.settings.get("max_tokens")
        if limit is not None and limit not in (benchmark.max_tokens, REASONING_LIMIT):
            differing.append(f"{run.title} with {model} ({limit})")
    if differing:
        yield f"The limit on completions differs from the published one: {_listed(differing)}."


def _on_juries(runs: Sequence[Run]) -> Iterator[str]:
    """Where other judges graded."""
    if not runs:
        return
    published = {plain_name(judge.model): judge.name for judge in load_results().jury}
    differing: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        judges = run.jury_result.jury.judges if run.jury_result else ()
        if {plain_name(judge.remote_name) for judge in judges} != set(published):
            titles = differing.setdefault(tuple(judge.name for judge in judges), [])
            titles += [run.title] if run.title not in titles else []
    for names, titles in differing.items():
        yield (
            f"Another jury graded {_listed(titles)}: {_listed(names)} here, {_listed(list(published.values()))} there. "
            "Juries differ in severity, so these columns compare juries as much as models."
        )


def same_model_remarks(
    own: Sequence[Cell],
    published: Sequence[Cell],
    columns: Sequence[Column],
    runs: Mapping[tuple[str, str], Run],
) -> Iterator[str]:
    """How far own runs of one of the nine models are from its published results: what measuring anew changes."""
    by_name = {plain_name(model.model): model for model in load_results().models.values()}
    theirs = {(cell.model.partition(" [")[0], cell.benchmark): cell for cell in published}
    scale = {column.benchmark: column for column in columns}
    for name in dict.fromkeys(cell.model for cell in own):
        mine = [cell for cell in own if cell.model == name and cell.value is not None]
        known = {by_name.get(plain_name(_remote_name(runs[name, cell.benchmark]))) for cell in mine}
        same = next(iter(known)) if len(known) == 1 else None
        if same is None:
            continue
        gaps = [_gap(cell, theirs.get((same.name, cell.benchmark)), scale[cell.benchmark]) for cell in mine]
        count = "1 benchmark" if len(gaps) == 1 else f"{len(gaps)} benchmarks"
        yield (
            f"{name} is the model that was published as {same.name}. On {count} its own results differ from the "
            f"published ones by {fsum(gaps) / len(gaps):+.3f} on average, on a scale of 0 to 1."
        )


def _gap(own: Cell, published: Cell | None, column: Column) -> float:
    if published is None or own.value is None or published.value is None:
        return 0.0
    return column.normalize(own.value) - column.normalize(published.value)


def _remote_name(run: Run) -> str:
    """What the model's server calls it."""
    return run.resolved_model.remote_name if run.resolved_model else run.model


def _listed(names: Sequence[str]) -> str:
    """Names in a row, cut after the first few."""
    if len(names) > NAMES:
        return f"{', '.join(names[:NAMES])} and {len(names) - NAMES} more"
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), *names[-1:]])
