"""`medhelm merge`: complete runs from their shards."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from medhelm.cli.common.global_options import Shared, load, shared_options
from medhelm.cli.common.options import run_filter_options, scoring_option
from medhelm.cli.common.output import table_options
from medhelm.cli.run import print_runs
from medhelm.errors import UserError

if TYPE_CHECKING:
    from medhelm.domain import Rule
    from medhelm.results.options import RunFilter


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
    from medhelm.extensions.cluster.shards import complete_runs, find_shards, merge_shards
    from medhelm.results.runs.run_filter import filter_runs
    from medhelm.storage.store import create, open_store

    started = perf_counter()
    shards = find_shards([open_store(folder) for folder in folders])
    if not shards:
        raise UserError(
            f"no shards in {', '.join(map(str, folders))}. `medhelm run --shard I/N` writes them. Nothing was merged."
        )
    groups = complete_runs(filter_runs(wanted, shards, lambda one: one.run))
    names = sorted({own[0].run.benchmark for own in groups})
    merged = merge_shards(groups, load(shared, names), create(shared.store), note=shared.note)
    seconds = round(perf_counter() - started, 3)
    done = Evaluation(runs=tuple(merged), stopped="", messages=(), cost_usd=0.0, seconds=seconds)
    print_runs(shared, done, rule)
    return done.exit_code
