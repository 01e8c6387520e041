"""Merge the shards of runs: the merged run equals the one that was never divided, except for times and request counts.

Each shard was evaluated with `medhelm run --shard`, in any store. The records of all shards go through the recorder of
an evaluation, which computes every number again. Nothing is sent, and no instance is scored again. A run is visible
once it is whole: its folder is renamed into place. An interrupted merge is repeated.
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from medhelm import __version__
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.data.sampling import InstanceSelection
from medhelm.cli.global_options import Shared, load, shared_options
from medhelm.cli.options import run_filter_options, scoring_option
from medhelm.cli.output import table_options
from medhelm.cli.run import print_runs
from medhelm.domain import Benchmark, DeletedInstances, Run, RunShard
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import listed, plural
from medhelm.errors import StoreError, UserError
from medhelm.evaluation.recorder import RunRecorder
from medhelm.evaluation.stored_settings import repeating_words
from medhelm.io.files import file_mode, open_file
from medhelm.models.cache import Cache
from medhelm.models.cache_reader import CacheReader
from medhelm.models.client import ClientResult
from medhelm.scoring.installed_plugins import versions_in_use
from medhelm.scoring.jury.panel import JudgeVerdict
from medhelm.scoring.metrics import metrics_of
from medhelm.storage.privacy import DELETED
from medhelm.storage.run_scores import stored_records
from medhelm.storage.runs import load_shards
from medhelm.storage.store import DamagedRunError, Store, stored_folder
from medhelm.storage.store_host import StoreHost, refuse_if_used_elsewhere

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.results.options import RunFilter


_NAMED = 8
"""Most shards named in one sentence."""


class StoredShard(NamedTuple):
    """A shard, and the store that holds it."""

    store: Store
    run: Run
    shard: RunShard

    @property
    def name(self) -> str:
        """Return the shard and its place, for messages."""
        return f"{self.shard} in {self.store.folder}"


def find_shards(stores: Iterable[Store]) -> list[StoredShard]:
    """Return all shards of some stores, by benchmark, model and number. A store that is named twice counts once."""
    different = {store.folder.resolve(): store for store in stores}.values()
    found = [StoredShard(store, run, run.shard) for store in different for run in load_shards(store) if run.shard]
    return sorted(found, key=lambda one: (one.run.benchmark, one.run.model, one.shard.index, str(one.store.folder)))


# --- checks -----------------------------------------------------------------------------------------------------------


def complete_runs(shards: Sequence[StoredShard]) -> list[list[StoredShard]]:
    """Return the shards of each run. Raises: UserError that names all missing, unfinished and different shards."""
    by_pair: dict[tuple[str, str], dict[str, list[StoredShard]]] = {}
    for one in shards:
        by_run = by_pair.setdefault((one.run.benchmark, one.run.model), {})
        by_run.setdefault(one.shard.run_id, []).append(one)
    problems: list[str] = []
    for (benchmark, model), by_run in by_pair.items():
        wrong = [text for own in by_run.values() for text in _problems(own)]
        if wrong and len(by_run) > 1:
            wrong = [*_differences(list(by_run.values())), *wrong]
        problems += [f"{benchmark} with {model}: {text}" for text in wrong]
    if problems:
        raise UserError("\n".join([*problems, "Nothing was merged."]))
    return [own for by_run in by_pair.values() for own in by_run.values()]


def _problems(own: Sequence[StoredShard]) -> Iterator[str]:
    """Yield the reasons why the shards of one run cannot be merged."""
    by_count = group_by(own, lambda one: one.shard.count)
    if len(by_count) > 1:
        found = "; ".join(f"of {n}: {_names(some)}" for n, some in sorted(by_count.items()))
        yield f"its shards overlap, because the run was divided in several ways ({found}). Name the stores of one."
        return
    by_index = group_by(own, lambda one: one.shard.index)
    for same in by_index.values():
        if len(same) > 1:
            places = listed([str(one.store.folder) for one in same])
            yield f"shard {same[0].shard} is in {places}. Name one of them."
    for one in own:
        if not one.run.is_complete:
            done = one.run.n - one.run.n_not_asked
            yield (
                f"shard {one.name} is unfinished ({done:,} of {one.run.n:,} instances). Finish it with the command "
                f"that began it, such as: {_command(one.run, one.shard.index, one.store.folder)}"
            )
    if missing := [index for index in range(1, own[0].shard.count + 1) if index not in by_index]:
        names = listed([f"{index}/{own[0].shard.count}" for index in missing], _NAMED)
        yield (
            f"{names} {'is' if len(missing) == 1 else 'are'} missing. Name the stores of all shards, or run: "
            f"{_command(own[0].run, missing[0], Path('STORE'))}"
        )
    if len(totals := {one.shard.n_in_run for one in own}) > 1:
        yield f"its shards name different numbers of instances ({', '.join(map(str, sorted(totals)))}). Run them again."
    versions = {json.dumps(dict(one.run.versions), sort_keys=True): one for one in own}
    if len(versions) > 1:
        found = "; ".join(f"{_version_text(one.run.versions)} ({one.name})" for one in versions.values())
        yield (
            f"its shards were run by different versions: {found}. Run the commands of some again with the version of "
            "the others; completions are in their stores and are not requested again."
        )


def _differences(groups: Sequence[Sequence[StoredShard]]) -> Iterator[str]:
    """Yield a sentence that names what differs between shards of different runs."""
    examples = [own[0] for own in groups]
    facts = [_facts(one.run) for one in examples]
    for name in dict.fromkeys(name for one in facts for name in one):
        values = [one.get(name) for one in facts]
        if any(value != values[0] for value in values):
            pairs = zip(values, groups, strict=True)
            found = "; ".join(f"{value} in {_names(own)}" for value, own in pairs)
            yield f"its shards are of different runs: {name} is {found}. Divide one run, with the same options."


def _facts(run: Run) -> dict[str, str]:
    """Return what identifies a run, in words."""
    model, jury = run.resolved_model, run.jury_result.jury if run.jury_result else None
    return {
        "the data": run.data_digest[:10],
        "the definition": run.benchmark_digest[:10],
        **{f"the setting {name}": json.dumps(value) for name, value in run.settings.items()},
        "the model's identity": model.digest[:10] if model else "unknown",
        "the jury": f"{listed([judge.name for judge in jury.judges])}, at least {jury.min_judges}" if jury else "none",
    }


def _names(own: Iterable[StoredShard]) -> str:
    return listed([one.name for one in own], _NAMED)


def _version_text(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _command(run: Run, index: int, store: Path) -> str:
    """Return the command that evaluates a shard, as far as a run records its options; the data folder it does not."""
    words = ["medhelm", "run", run.benchmark, "--model", run.model_name, *repeating_words(run)]
    count = run.shard.count if run.shard else 1
    return shlex.join([*words, "--shard", f"{index}/{count}", "--store", str(store)])


def _as_divided(run: Run, benchmark: Benchmark) -> Benchmark:
    """Return the definition of a run's shards. Raises: UserError if it, or what scores it, has changed since."""
    used = benchmark.as_used(run.rubric, run.benchmark_digest)
    if used.digest != run.benchmark_digest:
        raise UserError(
            f"{run.benchmark} with {run.model}: the definition has changed since its shards were run. Merge with the "
            "earlier definition, or run the shards again. Nothing was merged."
        )
    judges = run.judges
    providers = [model.provider for model in (run.resolved_model, *judges) if model]
    plugins = versions_in_use(benchmark.package, providers, [metric.name for metric in _metrics(run, used)])
    here = {"medhelm": __version__, **plugins}
    theirs = {name: version for name, version in run.versions.items() if name != "python"}
    if here != theirs:
        raise UserError(
            f"{run.benchmark} with {run.model}: its shards were run by {_version_text(theirs)}, and this is "
            f"{_version_text(here)}. Merge with the same versions. Nothing was merged."
        )
    return replace(used, title=run.title, taxonomy=run.taxonomy)


# --- merging ----------------------------------------------------------------------------------------------------------


def merge_shards(
    groups: Sequence[Sequence[StoredShard]],
    benchmarks: Iterable[Benchmark],
    target: Store,
    *,
    note: Callable[[str], object] = str,
) -> list[Run]:
    """Merge the shards of each run, with their cached completions and prompts, into a store; return the runs.

    `groups`: of `complete_runs`; `benchmarks`: those of the runs, in the definition that the shards had; `note`
    receives a message per run. Raises: UserError for other definitions and versions, StoreError for damaged shards;
    runs that were merged before that are stored.
    """
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    prepared = [(own, _as_divided(own[0].run, by_name[own[0].run.benchmark])) for own in groups]
    sources = {one.store.folder.resolve(): one.store for own in groups for one in own}
    sources.pop(target.folder.resolve(), None)
    for source in sources.values():
        refuse_if_used_elsewhere(source, time.time())
    found = []
    with closing(StoreHost(target)) as host:
        with closing(Cache(target.cache_file)) as cache:
            for source in sources.values():
                host.renew()
                with CacheReader.of_store(source) as reader:
                    cache.restore(reader.rows())
        for own, benchmark in prepared:
            host.renew()
            _copy_prompts(own, target)
            found.append(_merge(own, benchmark, target, host.renew))
            note(f"{benchmark.name} with {own[0].run.model}: {plural(len(own), 'shard')}, {found[-1].n:,} instances")
    return found


def _copy_prompts(own: Sequence[StoredShard], target: Store) -> None:
    """Copy the prompts and the constant baseline of a benchmark, which every shard stores whole, if they are new."""
    run = own[0].run
    names = (run.benchmark, run.benchmark_digest, run.data_digest)
    for file_of in (Store.prompts_file, Store.baseline_file):
        new = file_of(target, *names)
        sources = [path for one in own if (path := file_of(one.store, *names)).is_file()]
        if not new.exists() and sources:
            from medhelm.io.folders import WorkFolder, put_file

            with WorkFolder(new.parent) as work:
                # Read and written, not copied: each encrypted store has a key of its own.
                with open_file(sources[0], "rb") as source, open_file(work.path / new.name, "wb") as copy:
                    shutil.copyfileobj(source, copy)
                put_file(work.path / new.name, new)


def _merge(own: Sequence[StoredShard], benchmark: Benchmark, target: Store, renew: Callable[[], None]) -> Run:
    """Merge the shards of one run."""
    from filelock import FileLock, Timeout

    recorder = _recorder(own, benchmark)
    model = recorder.model.name
    try:
        file = target.lock_file(benchmark.name, model)
        with FileLock(file, mode=file_mode(file), blocking=False):
            recorder.open(target)
            try:
                _add_records(recorder, own, renew)
                return recorder.finish("", is_unusable=False, changes=_changes(own))
            except BaseException:
                recorder.discard()
                raise
    except Timeout:
        raise StoreError(
            f"{benchmark.name} with {model}: another process is at it in {target.folder}. Try again when it has ended."
        ) from None


def _recorder(own: Sequence[StoredShard], benchmark: Benchmark) -> RunRecorder:
    """Return the recorder of the undivided run."""
    run, shard = own[0].run, own[0].shard
    assert run.resolved_model is not None, "runs of versions with shards have one"
    jury = run.jury_result.jury if run.jury_result else None
    if jury:
        jury = replace(jury, has_codes=all(one.run.jury_result.jury.has_codes for one in own if one.run.jury_result))
    n = shard.n_in_run
    recorder = RunRecorder(
        model=run.resolved_model,
        # Without instances: those were scored when the shards were run.
        dataset=Dataset(
            benchmark=benchmark,
            tier=run.tier,
            digest=run.data_digest,
            selection=InstanceSelection(n_total=n, n=n),
            read=lambda: iter(()),
            instances=None,
        ),
        metrics=_metrics(run, benchmark),
        settings=run.settings,
        jury=jury,
    )
    if recorder.id != shard.run_id:
        raise StoreError(f"{run.folder} is damaged: its settings are not those of run {shard.run_id}. Run it again.")
    recorder.n -= _n_deleted(own)
    return recorder


def _n_deleted(own: Iterable[StoredShard]) -> int:
    """Return the number of instances that were deleted from some shards, with their numbers."""
    return sum(one.n for shard in own for one in shard.run.deletions if not one.numbers_kept)


def _deletions(own: Iterable[StoredShard]) -> tuple[DeletedInstances, ...]:
    """Return the deletions of instances from the shards of a run as those of the run."""
    by_id = group_by((one for shard in own for one in shard.run.deletions), lambda one: one.deletion)
    return tuple(replace(same[0], n=sum(one.n for one in same)) for same in by_id.values())


def _metrics(run: Run, benchmark: Benchmark) -> list[Any]:
    return metrics_of(benchmark, judged=run.jury_result is not None)


def _add_records(recorder: RunRecorder, own: Sequence[StoredShard], renew: Callable[[], None]) -> None:
    """Add the records and request counts of all shards. Raises: StoreError if they are not those of one run."""
    n = own[0].shard.n_in_run
    ids: set[str] = set()
    positions: set[int] = set()
    for one in own:
        renew()
        for record in stored_records(one.run, [metric.name for metric in recorder.metrics]):
            is_new = record.instance_id not in ids and record.position not in positions
            is_own = record.instance_id.startswith(DELETED) or one.shard.has(record.instance_id)
            if not (0 <= record.position < n and is_new and is_own):
                folder = stored_folder(one.run)
                raise DamagedRunError(
                    f"{folder} is damaged: instance {record.instance_id} at position {record.position} is not one of "
                    f"shard {one.shard}, or is there twice.",
                    folder,
                )
            ids.add(record.instance_id)
            positions.add(record.position)
            replies = [JudgeVerdict(reply=reply, judgments=(), cached=True) for reply in record.judge_replies]
            recorder.add(record, ClientResult(record.completion, True, 0, 0.0, record.request_digest), replies)
    if n - len(ids) not in (0, _n_deleted(own)):
        raise StoreError(f"{n - len(ids):,} of {n:,} instances are in no shard of {_names(own)}. Run the shards again.")
    recorder.totals.requests_sent = sum(one.run.requests_sent for one in own)
    recorder.totals.requests_cached = sum(one.run.requests_cached for one in own)
    for name, judge in recorder.jury.judges.items() if recorder.jury else ():
        tallies = [one.run.jury_result.tallies[name] for one in own if one.run.jury_result]
        judge.totals.requests_sent = sum(tally.requests_sent for tally in tallies)
        judge.totals.requests_cached = sum(tally.requests_cached for tally in tallies)


def _changes(own: Sequence[StoredShard]) -> dict[str, Any]:
    """Return the fields of the run that records do not hold. It takes from the first start to the last end."""
    runs = [one.run for one in own]
    try:
        starts = [datetime.fromisoformat(run.started) for run in runs]
        ends = [start + timedelta(seconds=run.seconds) for start, run in zip(starts, runs, strict=True)]
        seconds = round((max(ends) - min(starts)).total_seconds(), 3)
    except (ValueError, TypeError, OverflowError) as error:
        raise StoreError(f"the start or the duration of a shard of {_names(own)} is damaged ({error}).") from None
    not_computed = {metric: text for run in reversed(runs) for metric, text in run.not_computed.items()}
    cut_texts = sum((Counter(run.cut_texts) for run in runs), Counter[str]())
    return {
        "started": min(starts).isoformat(timespec="milliseconds"),
        "seconds": seconds,
        "versions": runs[0].versions,
        "not_computed": not_computed,
        "cut_texts": cut_texts,
        "deletions": _deletions(own),
    }


# --- medhelm merge ----------------------------------------------------------------------------------------------------


@click.command()
@click.argument(
    "folders", metavar="STORE...", nargs=-1, required=True, type=click.Path(file_okay=False, path_type=Path)
)
@run_filter_options
@scoring_option
@table_options
@shared_options("store", "benchmarks", "trust", "json")
@click.pass_obj
def merge(shared: Shared, /, folders: tuple[Path, ...], wanted: RunFilter, rule: Rule) -> int:
    """Merge shards into complete runs.

    Reads the shards that `medhelm run --shard` wrote to each STORE, and writes the complete runs, with their cached
    completions, to the store of --store. The numbers are the same as without shards. Sends nothing and needs no data.
    If shards are missing, unfinished or do not match, they are listed and nothing is merged. Merging again gives the
    same runs.

    \b
    Examples:
      medhelm merge shards/* --store results
      medhelm merge shards/* --store results --benchmark pubmed_qa
    """
    from medhelm.evaluation.settings import Evaluation
    from medhelm.results.runs.selection import filter_runs
    from medhelm.storage.store import create, open_store

    started = perf_counter()
    shards = find_shards([open_store(folder) for folder in folders])
    if not shards:
        raise UserError(
            f"no shards in {', '.join(map(str, folders))}. `medhelm run --shard I/N` writes them. Nothing was merged."
        )
    groups = complete_runs(filter_runs(wanted, shards, lambda one: one.run, families=True))
    names = sorted({own[0].run.benchmark for own in groups})
    merged = merge_shards(groups, load(shared, names), create(shared.store), note=shared.note)
    seconds = round(perf_counter() - started, 3)
    done = Evaluation(runs=tuple(merged), stopped="", messages=(), cost_usd=0.0, seconds=seconds)
    print_runs(shared, done, rule)
    return done.exit_code
