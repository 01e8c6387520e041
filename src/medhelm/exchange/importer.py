"""Import a run of another harness, or several that form one run here, into the store."""

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
    """Names of another harness and their names in MedHELM. A name that is not listed stays the same."""

    benchmarks: Mapping[str, str] = field(default_factory=dict)
    """Their name -> our name; names and aliases of the library can be omitted."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Their metric -> our metric (`jury` for judges' scores); "" leaves out a number that is not a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRunResult:
    """The result of importing one run."""

    run: Run
    """The run in the store."""
    state: Literal["new", "unchanged", "changed"]
    """`unchanged`: already imported from the same files; `changed`: imported before from older versions of them."""
    remarks: tuple[str, ...] = ()
    """Irregularities found, in words."""


def import_run(
    parts: Sequence[ImportedRun],
    *,
    store: Store,
    library: Mapping[str, Benchmark],
    naming: NameMap,
    model: str = "",
) -> ImportedRunResult:
    """Store a run of another harness as one MedHELM run.

    Parameters: parts, one run as its reader returned it, or several runs of one model that together form one benchmark
    here (each becomes a group named after its `title`); library, the known benchmarks by name and alias
    (`library_of`); naming, the map of names; model, the model's name here, empty for `parts[0].model`.

    Each metric of `parts` provides the scores under the rule `published`, unchanged; scores under the rule `corrected`
    come from `rescore`. The main metric is the benchmark's first metric that has scores, or else the first of `scores`.
    Instances, prompts, completions and judgments are stored, so that no data is needed later.
    Importing the same run from the same files again changes nothing.

    Raises: UserError if the parts cannot form one run (no instances or scores, different models or judges); StoreError.
    """
    with RunImporter(store, library, naming) as taker:
        return taker.take(parts, model=model)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRun:
    """The parts of one run, joined under their names in MedHELM."""

    benchmark: Benchmark
    """The benchmark, with the prompts of the other harness."""
    about: Mapping[str, Any]
    """Further fields to store about the benchmark, so that it can be found again."""
    origin: Origin
    """Common origin of all parts."""
    model: str
    """The model's name here."""
    imported: ImportedRun
    """Instances, completions, scores and judgments of all parts; metrics have their names here, main metric first."""
    data_digest: str
    """Hash of all instances and prompts."""


def join_parts(
    parts: Sequence[ImportedRun], library: Mapping[str, Benchmark], naming: NameMap, model: str = ""
) -> JoinedRun:
    """Join the parts of a run. Raises: UserError if they cannot form one run."""
    first = parts[0]
    origin = _origin(parts)
    if len({(part.model, part.deployment, tuple(j.name for j in part.judges)) for part in parts}) > 1:
        raise UserError(f"{origin.run}: these runs have different models or judges, so they cannot form one run.")
    theirs = naming.benchmarks.get(first.benchmark, first.benchmark)
    name = library[theirs].name if theirs in library else file_name(theirs)
    known = library.get(name)
    grouped = len(parts) > 1
    whole = _together(parts) if grouped else first
    if known and known.group_column and not grouped:
        text = f"only the part {first.title or 'without a name'} of {name} was found"
        whole = replace(whole, remarks=(*whole.remarks, text))
    if not whole.judgments and not (known and known.rubric):
        whole = replace(whole, judges=())  # the judges' prompts are unknown
    scores = _renamed(whole.scores, naming.metrics, judged=bool(whole.judges))
    if not whole.instances or not any(scores.values()):
        raise UserError(f"{origin.run}: it has no instance with a score.")
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
    """Imports runs one after another and tracks which runs the store already has. A context manager."""

    def __init__(self, store: Store, library: Mapping[str, Benchmark], naming: NameMap) -> None:
        """Read the `run.json` files of the store."""
        self.store, self.benchmarks, self.naming = store, library, naming
        self._writer = ColumnWriter()
        self._known: dict[tuple[str, str], list[Run]] = {}
        for run in load_runs(store):
            if run.origin and not run.origin.completions_made_here:
                self._known.setdefault((run.origin.harness, run.origin.run), []).append(run)

    def __enter__(self) -> RunImporter:
        """Return the importer itself; there is nothing to open."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the database connection used for writing."""
        self.close()

    def close(self) -> None:
        """Close the database connection used for writing."""
        self._writer.close()

    def unchanged(self, origin: Origin) -> Run | None:
        """Return the stored run that was imported from the same files; None if there is none."""
        return next((run for run in self._before(origin) if run.origin and run.origin.sha256 == origin.sha256), None)

    def take(self, parts: Sequence[ImportedRun], *, model: str = "") -> ImportedRunResult:
        """Import one run, as `import_run` does."""
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
        """Remove the runs imported from older versions of the files, unless they have since been judged here."""
        said = []
        for old in before:
            if old.folder is None or old.id == new.id or not old.folder.exists():
                continue
            if _judges(old) == _judges(new):
                shutil.rmtree(old.folder)
            else:
                said.append(
                    f"{old.folder} was judged here and its source files changed since. It was kept; remove it if it "
                    "should no longer count"
                )
        return said


def _judges(run: Run) -> tuple[str, ...]:
    return tuple(judge.name for judge in run.jury_result.jury.judges) if run.jury_result else ()


def _origin(parts: Sequence[ImportedRun]) -> Origin:
    """Return the common origin of all parts."""
    if len(parts) == 1:
        return parts[0].origin
    ordered = sorted((part.origin for part in parts), key=lambda origin: origin.run)
    digest = hashlib.sha256(json.dumps([[o.run, o.sha256] for o in ordered]).encode()).hexdigest()
    return replace(ordered[0], run=" + ".join(origin.run for origin in ordered), sha256=digest)


def _together(parts: Sequence[ImportedRun]) -> ImportedRun:
    """Merge all parts into one run, each as a group; instance ids are prefixed with the group's name."""
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
    """Return scores under the metrics' names here. The jury's score comes first by default."""
    found: dict[str, Mapping[str, float]] = {}
    for theirs, own in scores.items():
        name = names.get(theirs, theirs)
        if name == JURY and not judged:
            name = theirs
        if name and (name not in found or name == theirs):
            found[name] = own
    return {JURY: found[JURY], **found} if JURY in found else found


def _about(whole: ImportedRun, *, grouped: bool) -> dict[str, Any]:
    """Return the fields that describe a benchmark besides its instances."""
    criteria: Counter[str] = Counter()
    for said in whole.judgments.values():
        criteria.update(list(dict.fromkeys(one.criterion for one in said)))
    # A criterion with grades for only a few instances was added by a judge on its own.
    usual = [name for name, count in criteria.items() if 2 * count >= len(whole.judgments)]
    about: dict[str, Any] = {"title": whole.benchmark, "grouped": grouped}
    if usual:
        about |= {"criteria": usual, "judge_prompt": whole.judge_prompt}
        about |= {"unjudged": whole.unjudged_score}
    return about
