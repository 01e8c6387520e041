"""One run of another harness, or several that are one here, into the store."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from medhelm.domain import JURY, Benchmark, Completion, ImportedRun, Instance, Judgment, Origin, Run
from medhelm.errors import UserError
from medhelm.evaluation.imported.benchmarks import imported_benchmark
from medhelm.exchange.run_folder import ImportedRunFolder, write_imported_run
from medhelm.io.parquet import ColumnWriter
from medhelm.storage.imported_instances import instances_digest, write_instances
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class NameMap:
    """What the names of another harness are called here. A name that is not listed stays as it is."""

    benchmarks: Mapping[str, str] = field(default_factory=dict)
    """Name there -> name here; names and aliases of the library need not be listed."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Metric there -> metric here, `jury` for what judges gave; "" for numbers that are no scores and are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRunResult:
    """What became of one run."""

    run: Run
    """As it is stored."""
    state: Literal["new", "unchanged", "changed"]
    """It was not there; it was there, from the same files; or it was there from files that have changed since."""
    remarks: tuple[str, ...] = ()
    """What was odd, in words."""


def import_run(
    parts: Sequence[ImportedRun],
    *,
    store: Store,
    library: Mapping[str, Benchmark],
    naming: NameMap,
    model: str = "",
) -> ImportedRunResult:
    """Store what another harness made as one run of ours.

    Parameters: parts, one run as its reader handed it over, or several of one model that together are one benchmark
    here (each becomes a group, called as its `title`); library, the benchmarks known here by name and alias
    (`library_of`); naming, what names are called here; model, what the model is called here, empty for
    `parts[0].model`.

    Each metric of `parts` gives the scores of the rule `published`, to the letter; those of the rule `corrected` come
    from `rescore`. The main metric is the first one of the benchmark here that there are scores of, else the first of
    `scores`. Instances, prompts, completions and judgments are stored, so that no data is needed later.
    The same run from the same files again changes nothing.

    Raises: UserError if the parts cannot be one run (no instances, no scores, different models or judges); StoreError.
    """
    with RunImporter(store, library, naming) as taker:
        return taker.take(parts, model=model)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRun:
    """The parts of one run put together, under the names they have here."""

    benchmark: Benchmark
    """With the prompts of the other harness."""
    about: Mapping[str, Any]
    """What has to be stored of the benchmark besides, to find it again."""
    origin: Origin
    """Where all parts come from."""
    model: str
    """What the model is called here."""
    imported: ImportedRun
    """Instances, completions, scores and judgments of all parts; metrics are called as here, the main one first."""
    data_digest: str
    """Hash of everything that was asked."""


def join_parts(
    parts: Sequence[ImportedRun], library: Mapping[str, Benchmark], naming: NameMap, model: str = ""
) -> JoinedRun:
    """Put the parts of a run together. Raises: UserError if they cannot be one run."""
    first = parts[0]
    origin = _origin(parts)
    if len({(part.model, part.deployment, tuple(j.name for j in part.judges)) for part in parts}) > 1:
        raise UserError(f"{origin.run}: these are runs of different models or judges, and no parts of one run.")
    theirs = naming.benchmarks.get(first.benchmark, first.benchmark)
    name = library[theirs].name if theirs in library else file_name(theirs)
    known = library.get(name)
    grouped = len(parts) > 1
    whole = _together(parts) if grouped else first
    if known and known.group_column and not grouped:
        text = f"only the part {first.title or 'without a name'} of {name} is there"
        whole = replace(whole, remarks=(*whole.remarks, text))
    if not whole.judgments and not (known and known.rubric):
        whole = replace(whole, judges=())  # nothing is known of what they were asked
    scores = _renamed(whole.scores, naming.metrics, judged=bool(whole.judges))
    if not whole.instances or not any(scores.values()):
        raise UserError(f"{origin.run}: there is no instance with a score in it.")
    order = [metric for metric in (known.metrics if known else ()) if metric in scores]
    scores = {metric: scores[metric] for metric in [*order, *(m for m in scores if m not in order)]}
    about = _about(whole, grouped=grouped)
    benchmark = imported_benchmark(
        name, library, metrics=scores, about=about, max_tokens=whole.max_tokens, stop=whole.stop
    )
    return JoinedRun(
        benchmark=benchmark,
        about=about,
        origin=origin,
        model=model or first.model,
        imported=replace(whole, scores=scores),
        data_digest=instances_digest(whole.instances),
    )


class RunImporter:
    """Takes in runs one after another; knows what the store holds already. To be used in a `with`."""

    def __init__(self, store: Store, library: Mapping[str, Benchmark], naming: NameMap) -> None:
        """Reads the `run.json` files of the store."""
        self.store, self.benchmarks, self.naming = store, library, naming
        self._writer = ColumnWriter()
        self._known: dict[tuple[str, str], list[Run]] = {}
        for run in load_runs(store):
            if run.origin and not run.origin.completions_made_here:
                self._known.setdefault((run.origin.harness, run.origin.run), []).append(run)

    def __enter__(self) -> RunImporter:
        """Nothing to open."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let go of the engine that writes."""
        self.close()

    def close(self) -> None:
        """Let go of the engine that writes."""
        self._writer.close()

    def unchanged(self, origin: Origin) -> Run | None:
        """The run that is stored from the same files; None if there is none."""
        return next((run for run in self._before(origin) if run.origin and run.origin.sha256 == origin.sha256), None)

    def take(self, parts: Sequence[ImportedRun], *, model: str = "") -> ImportedRunResult:
        """As `import_run`."""
        origin = _origin(parts)
        if same := self.unchanged(origin):
            return ImportedRunResult(run=same, state="unchanged")
        one = join_parts(parts, self.benchmarks, self.naming, model)
        before = self._before(origin)
        write_instances(
            self.store,
            one.imported.instances,
            benchmark=one.benchmark.name,
            benchmark_digest=one.benchmark.digest,
            data_digest=one.data_digest,
            about=one.about,
            writer=self._writer,
        )
        run, odd = write_imported_run(
            ImportedRunFolder(
                benchmark=one.benchmark,
                data_digest=one.data_digest,
                origin=origin,
                model=one.model,
                imported=one.imported,
            ),
            self.store,
            self._writer,
        )
        remarks = (*one.imported.remarks, *odd, *self._replace(before, run))
        self._known[origin.harness, origin.run] = [*(old for old in before if old.folder and old.folder.exists()), run]
        return ImportedRunResult(run=run, state="changed" if before else "new", remarks=remarks)

    def _before(self, origin: Origin) -> list[Run]:
        return self._known.get((origin.harness, origin.run), [])

    def _replace(self, before: Iterable[Run], new: Run) -> list[str]:
        """Take away what older files of the same run gave, unless judges were paid for it here since."""
        said = []
        for old in before:
            if old.folder is None or old.id == new.id or not old.folder.exists():
                continue
            if _judges(old) == _judges(new):
                shutil.rmtree(old.folder)
            else:
                said.append(
                    f"{old.folder} was judged here, from files that have changed since. It stays; remove it if it "
                    "should no longer count"
                )
        return said


def _judges(run: Run) -> tuple[str, ...]:
    return tuple(judge.name for judge in run.jury_result.jury.judges) if run.jury_result else ()


def _origin(parts: Sequence[ImportedRun]) -> Origin:
    """Where all parts come from."""
    if len(parts) == 1:
        return parts[0].origin
    ordered = sorted((part.origin for part in parts), key=lambda origin: origin.run)
    digest = hashlib.sha256(json.dumps([[o.run, o.sha256] for o in ordered]).encode()).hexdigest()
    return replace(ordered[0], run=" + ".join(origin.run for origin in ordered), sha256=digest)


def _together(parts: Sequence[ImportedRun]) -> ImportedRun:
    """All parts as one, each a group; the ids begin with its name."""
    names = [part.title or part.origin.run for part in parts]
    if len(set(names)) < len(names):
        names = [part.origin.run for part in parts]
    instances: list[Instance] = []
    completions: dict[str, Completion] = {}
    scores: dict[str, dict[str, float]] = {}
    judgments: dict[str, Sequence[Judgment]] = {}
    for name, part in zip(names, parts, strict=True):
        instances += [replace(one, id=f"{name}/{one.id}", group=name) for one in part.instances]
        completions |= {f"{name}/{id_}": completion for id_, completion in part.completions.items()}
        judgments |= {f"{name}/{id_}": said for id_, said in part.judgments.items()}
        for metric, own in part.scores.items():
            scores.setdefault(metric, {}).update({f"{name}/{id_}": score for id_, score in own.items()})
    remarks = [f"{name}: {text}" for name, part in zip(names, parts, strict=True) for text in part.remarks]
    return replace(
        parts[0],
        instances=instances,
        completions=completions,
        scores=scores,
        judgments=judgments,
        started=min((part.started for part in parts if part.started), default=""),
        remarks=tuple(remarks),
    )


def _renamed(
    scores: Mapping[str, Mapping[str, float]], names: Mapping[str, str], *, judged: bool
) -> dict[str, Mapping[str, float]]:
    """Scores by what their metrics are called here. The jury's comes first where nobody knows better."""
    found: dict[str, Mapping[str, float]] = {}
    for theirs, own in scores.items():
        name = names.get(theirs, theirs)
        if name == JURY and not judged:
            name = theirs
        if name and (name not in found or name == theirs):
            found[name] = own
    return {JURY: found[JURY], **found} if JURY in found else found


def _about(whole: ImportedRun, *, grouped: bool) -> dict[str, Any]:
    """What has to be known of a benchmark besides its instances."""
    criteria: Counter[str] = Counter()
    for said in whole.judgments.values():
        criteria.update(list(dict.fromkeys(one.criterion for one in said)))
    # A criterion that few instances were graded on was added by a judge of its own accord.
    usual = [name for name, count in criteria.items() if 2 * count >= len(whole.judgments)]
    about: dict[str, Any] = {"title": whole.benchmark, "grouped": grouped}
    if usual:
        about |= {"criteria": usual, "judge_prompt": whole.judge_prompt}
        about |= {"unjudged": whole.unjudged_score}
    return about
