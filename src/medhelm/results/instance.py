"""One instance of a benchmark, with what every stored run says about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.domain import Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import listed
from medhelm.errors import UserError, suggestion
from medhelm.results.comparable import select_runs, store_label
from medhelm.results.options import EVERY_RUN, RunFilter
from medhelm.results.runs.run_filter import filter_runs
from medhelm.storage.damage import intact_runs
from medhelm.storage.judgments import read_explanations
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.runs import load_runs, read_columns, read_prompt, read_record
from medhelm.storage.store import open_store


def find_instance(
    stores: Sequence[Path], benchmark: str, instance_id: str, wanted: RunFilter = EVERY_RUN
) -> dict[str, Any]:
    """Return one instance as JSON: prompt, references, and each run's record and judgments.

    `wanted`: only these runs are read; whether the leaderboard counts them depends on the others too.
    Raises: UserError if none of them has the instance.
    """
    opened = [(store_label(path, stores), open_store(path)) for path in stores]
    runs = [(label, store, run) for label, store in opened for run in intact_runs(load_runs(store))]
    names = {run.benchmark for _, _, run in runs}
    if benchmark not in names:
        places = ", ".join(map(str, stores))
        raise UserError(f"no run of `{benchmark}` in {places}. {suggestion(benchmark, names)}".strip())
    runs = [one for one in runs if one[2].benchmark == benchmark]
    counted = _counted_folders((label, run) for label, _, run in runs)
    completions = []
    prompt: Mapping[str, Any] | None = None
    for label, store, run in filter_runs(wanted, runs, lambda one: one[2]):
        if (record := read_record(run, instance_id)) is None:
            continue
        prompt = prompt or read_prompt(
            store.prompts_file(benchmark, run.benchmark_digest, run.data_digest), instance_id
        )
        judgments = read_explanations(run, instance_id)
        shown = {
            "model": run.model + label,
            "run_id": run.id,
            "judges": [judge.name for judge in run.judges],
            "counts": run.folder in counted,
            "tier": run.tier,
            "main_metric": run.main_metric,
            **record,
            "cluster": Pseudonyms.of_store(store).of(benchmark, record["cluster"]) if record["cluster"] else "",
        }
        completions.append({**shown, "judgments": judgments} if judgments else shown)
    if not completions:
        ids = list(
            dict.fromkeys(one for _, _, run in runs for one in read_columns(run, ["instance_id"])["instance_id"])
        )
        raise UserError(
            f"no run of {benchmark} has an instance `{instance_id}`. {suggestion(instance_id, ids)} Instances: "
            f"{listed(ids, 10)}. `medhelm export csv DIR --benchmark {benchmark}` writes all ids.".replace("  ", " ")
        )
    return {"benchmark": benchmark, "instance_id": instance_id, **(prompt or {}), "completions": completions}


def _counted_folders(found: Iterable[tuple[str, Run]]) -> set[Path | None]:
    """Return the folders of the runs of one benchmark that the leaderboard of their tier counts."""
    by_tier = group_by(found, lambda pair: pair[1].tier)
    return {run.folder for own in by_tier.values() for run in select_runs(own).runs.values()}
