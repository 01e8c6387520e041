"""Import the results of other harnesses as runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from filelock import FileLock

from medhelm.analysis.means import group_means
from medhelm.domain import (
    JURY,
    RULES,
    Benchmark,
    Completion,
    Estimate,
    Failure,
    Instance,
    JudgeTally,
    Judgment,
    Jury,
    JuryResult,
    Model,
    Origin,
    Rule,
    Run,
    RunStatus,
    Score,
    Usage,
)
from medhelm.domain.benchmark import Tier, group_by
from medhelm.domain.jury import AT_LEAST, JudgeReply
from medhelm.domain.text import metric_title, plural
from medhelm.errors import DataError, UserError
from medhelm.evaluation.recorder import identity, software_versions
from medhelm.evaluation.request_totals import CompletionCounter, make_jury_result
from medhelm.evaluation.rescore import imported_benchmark
from medhelm.io.folders import delete_folder
from medhelm.io.parquet import ColumnWriter
from medhelm.io.rows import text, well_formed
from medhelm.results.formats.fields import plain_json, select
from medhelm.results.formats.tables import Value, render, tabulate
from medhelm.scoring.metric import is_unreadable
from medhelm.scoring.metrics import METRICS, metrics_of
from medhelm.storage.imported_instances import instances_digest, write_instances
from medhelm.storage.judgments import (
    COMPLETION_COLUMNS,
    JUDGMENT_COLUMNS,
    REPLY_COLUMNS,
    completion_row,
    judgment_row,
    reply_row,
)
from medhelm.storage.privacy import Pseudonyms, deleted_instances
from medhelm.storage.run_scores import keep_scores
from medhelm.storage.runs import RECORD_COLUMNS, load_runs, parts_column, score_column
from medhelm.storage.store import Store, file_name, new_run, write_run

# --- values in files --------------------------------------------------------------------------------------------------

LARGEST_FILE = 2**31
"""Maximum size, in bytes, of a JSON document that is loaded as a whole."""

_METRIC_SIGN = re.compile(r"[^\w.@+-]+")
_LONGEST_NAME = 80
_LONGEST_VALUE = 1000


def digest_of(*paths: Path) -> str:
    """Return the hex SHA-256 of the given files, concatenated. Raises: DataError if one cannot be read."""
    digest = hashlib.sha256()
    try:
        for path in paths:
            if path.is_fifo():
                raise DataError("cannot be read: it is a named pipe, not a file.")
            with path.open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}.") from error
    return digest.hexdigest()


def load_json(path: Path) -> Any:
    """Load a JSON document, with or without a byte order mark; NaN is accepted. Raises: DataError with the reason."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise DataError(f"has {size:,} bytes; the limit for a document is {LARGEST_FILE:,} bytes.")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}.") from error
    if not content.strip():
        raise DataError("is empty.")
    return parse_json(content, "is not valid JSON")


def parse_json(content: bytes, wrong: str) -> Any:
    """Parse JSON from bytes. Raises: DataError that begins with `wrong` and gives the position."""
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{wrong}: byte {error.start} is not UTF-8.") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{wrong}: {error.msg.lower()} at line {error.lineno}, column {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{wrong}: it is nested too deeply, or contains a number that is too long.") from error


def iso_time(value: str) -> str:
    """Return a time as ISO 8601 in UTC; empty if it is not a time. A time without a zone is read as UTC."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return ""
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return found.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        return ""


def web_address(url: str) -> str:
    """Return the address of a server without user name, password or query, which may contain keys."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}" if parts.hostname else ""


def model_of(name: str) -> Model:
    """Return a model that is known only by its name."""
    provider, slash, rest = name.partition("/")
    return Model(name=name, provider=provider if slash else "", remote_name=rest if slash else name)


def count_remarks(issues: Iterable[tuple[str, int]], what: str) -> list[str]:
    """Return a remark for each irregularity, with its count.

    >>> count_remarks([("no id; skipped", 2), ("duplicate", 1)], "line")
    ['2 lines: no id; skipped.', '1 line: duplicate.']
    """
    return [f"{plural(n, what)}: {words}." for words, n in issues]


def metric_name(name: str) -> str:
    """Return the metric's name in MedHELM: characters that are not allowed in a column name become `_`.

    >>> metric_name("exact_match,strict match")
    'exact_match_strict_match'
    """
    return _METRIC_SIGN.sub("_", well_formed(name))[:_LONGEST_NAME] or "score"


def short_text(value: object) -> str:
    """Return a table value as short text to store with an instance; empty if it is long, or not text or a number."""
    shown = text(value) if isinstance(value, str) else str(value) if isinstance(value, bool | int | float) else ""
    return shown if len(shown) <= _LONGEST_VALUE else ""


# --- importing --------------------------------------------------------------------------------------------------------
# Import runs of other harnesses into the store. Several runs can form one run here.
#
# All data of a run is in memory, so its tables are written column by column. Only scores under the published rule are
# imported; rescoring the run computes those under the corrected rule.

_MISSING = Completion(failure=Failure("provider", "no_result", "the files hold no completion of this instance"))
_ENCODER = json.JSONEncoder(ensure_ascii=False)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """The result of importing the runs in a folder."""

    taken: tuple[ImportedRunResult, ...]
    """Runs that are in the store now."""
    skipped: tuple[tuple[str, str], ...]
    """Runs that were not imported, and the reasons."""
    remarks: tuple[str, ...] = ()
    """Irregularities of the whole import."""


class RunImporter:
    """Imports runs one after another and tracks which runs the store already has."""

    def __init__(self, store: Store, library: Mapping[str, Benchmark]) -> None:
        """Read the store's `run.json` files. `library`: the known benchmarks by name and alias, from `library_of`."""
        self._store, self._library = store, library
        self._writer = ColumnWriter()
        self._known: dict[tuple[str, str], list[Run]] = {}
        for run in load_runs(store):
            if run.origin and run.has_imported_completions:
                self._known.setdefault((run.origin.harness, run.origin.run), []).append(run)

    def close(self) -> None:
        """Close the database connection used for writing."""
        self._writer.close()

    def import_run(self, parts: Sequence[ImportedRun], naming: NameMap, *, model: str = "") -> ImportedRunResult:
        """Store a run of another harness as one MedHELM run.

        Parameters: parts, one run as its reader returned it, or several runs of one model that are one benchmark here
        (each becomes a group named after its `title`); naming, the map of names; model, the model's name here, empty
        for `parts[0].model`.

        Each metric of `parts` provides the scores under the rule `published`, unchanged; scores under the rule
        `corrected` come from `rescore`. The main metric is the benchmark's first metric that has scores, or else the
        first of `scores`. Instances, prompts, completions and judgments are stored, so that no data is needed later.
        Importing the same run from the same files again changes nothing.

        Raises: UserError if the parts cannot form one run (no instances or scores, different models or judges);
        StoreError.
        """
        origin = _origin(parts)
        before = self._known.get((origin.harness, origin.run), [])
        if same := next((run for run in before if run.origin and run.origin.sha256 == origin.sha256), None):
            return ImportedRunResult(run=same, state="unchanged")
        joined = self._without_deleted(join_parts(parts, self._library, naming, model))
        joined.write_instances(self._store, self._writer)
        run, irregularities = write_imported_run(joined, self._store, self._writer)
        remarks = (*joined.imported.remarks, *irregularities, *_remove_outdated(self._store, before, run))
        self._known[origin.harness, origin.run] = [*(old for old in before if old.folder and old.folder.exists()), run]
        return ImportedRunResult(run=run, state="changed" if before else "new", remarks=remarks)

    def _without_deleted(self, joined: JoinedRun) -> JoinedRun:
        """Leave out the instances that were deleted from the store; the digest of the data stays the same."""
        deleted = deleted_instances(self._store)
        if not deleted:
            return joined
        names, benchmark, imported = Pseudonyms(self._store), joined.benchmark.name, joined.imported
        kept = [one for one in imported.instances if (benchmark, names.of(benchmark, one.id)) not in deleted]
        ids = {one.id for one in kept}
        n_gone = len(imported.instances) - len(kept)
        left = replace(
            imported,
            instances=kept,
            completions=_of_ids(imported.completions, ids),
            scores={metric: _of_ids(own, ids) for metric, own in imported.scores.items()},
            judgments=_of_ids(imported.judgments, ids),
            replies=_of_ids(imported.replies, ids),
            n_expected=None if imported.n_expected is None else imported.n_expected - n_gone,
        )
        return replace(joined, imported=left) if n_gone else joined


def _of_ids(values: Mapping[str, Any], ids: Collection[str]) -> dict[str, Any]:
    return {id_: value for id_, value in values.items() if id_ in ids}


def _remove_outdated(store: Store, before: Iterable[Run], new: Run) -> list[str]:
    """Remove the runs imported from older versions of the files, unless they have since been judged here.

    Returns: a remark for each that was kept.
    """
    remarks = []
    for old in before:
        if old.folder is None or old.id == new.id or not old.folder.exists():
            continue
        if _judge_names(old) == _judge_names(new):
            with FileLock(store.lock_file_of(old.folder)):
                delete_folder(old.folder)
        else:
            remarks.append(
                f"{old.folder} was judged here and its source files changed since. It was kept; remove it if it "
                "should no longer count"
            )
    return remarks


def _judge_names(run: Run) -> tuple[str, ...]:
    return tuple(judge.name for judge in run.judges)


# --- parts of a run ---------------------------------------------------------------------------------------------------


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

    @property
    def jury(self) -> Jury | None:
        """Return its jury, with the default minimum of judges per instance; None for a run without judges."""
        judges = tuple(self.imported.judges)
        return Jury(judges=judges, min_judges=min(AT_LEAST, len(judges))) if judges else None

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the run as far as the files give them, and its origin."""
        one = self.imported
        return {
            "sample": "default",
            "limit": None,
            "seed": 0,
            "max_tokens": one.max_tokens or None,
            "temperature": one.temperature,
            "stop": list(one.stop),
            "imported": f"{self.origin.harness}:{self.origin.run}",
            "deployment": one.deployment,
        }

    def write_instances(self, store: Store, writer: ColumnWriter) -> None:
        """Store the instances, so that completions can be scored again without the data."""
        write_instances(
            store,
            self.imported.instances,
            benchmark=self.benchmark.name,
            benchmark_digest=self.benchmark.digest,
            data_digest=self.data_digest,
            about=self.about,
            writer=writer,
        )

    @property
    def is_grouped(self) -> bool:
        """Return True if the benchmark's score is the mean of group means."""
        return bool(self.benchmark.group_column)


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
    whole = _merge_parts(parts) if grouped else first
    if known and known.group_column and not grouped:
        text = f"only the part {first.title or 'without a name'} of {name} was found"
        whole = replace(whole, remarks=(*whole.remarks, text))
    if not whole.judgments and not (known and known.rubric):
        whole = replace(whole, judges=())  # the judges' prompts are unknown
    scores = _rename_scores(whole.scores, naming.metrics, judged=bool(whole.judges))
    if not whole.instances or not any(scores.values()):
        raise UserError(f"{origin.run}: it has no instance with a score.")
    order = [metric for metric in (known.metrics if known else ()) if metric in scores]
    scores = {metric: scores[metric] for metric in [*order, *(m for m in scores if m not in order)]}
    about = _benchmark_facts(whole, grouped=grouped)
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


def _origin(parts: Sequence[ImportedRun]) -> Origin:
    """Return the common origin of all parts."""
    if len(parts) == 1:
        return parts[0].origin
    ordered = sorted((part.origin for part in parts), key=lambda origin: origin.run)
    digest = hashlib.sha256(json.dumps([[o.run, o.sha256] for o in ordered]).encode()).hexdigest()
    return replace(ordered[0], run=" + ".join(origin.run for origin in ordered), sha256=digest)


def _merge_parts(parts: Sequence[ImportedRun]) -> ImportedRun:
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
        judgments |= {f"{name}/{id_}": own for id_, own in part.judgments.items()}
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


def _rename_scores(
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


def _benchmark_facts(whole: ImportedRun, *, grouped: bool) -> dict[str, Any]:
    """Return further fields to store about a benchmark, so that it can be built again from its instances."""
    criteria: Counter[str] = Counter()
    for judgments in whole.judgments.values():
        criteria.update(list(dict.fromkeys(one.criterion for one in judgments)))
    # A criterion with grades for only a few instances was added by a judge on its own.
    usual = [name for name, count in criteria.items() if 2 * count >= len(whole.judgments)]
    about: dict[str, Any] = {"title": whole.benchmark, "grouped": grouped}
    if usual:
        about |= {"criteria": usual, "judge_prompt": whole.judge_prompt, "unjudged": whole.unjudged_score}
    return about


# --- the folder of a run ----------------------------------------------------------------------------------------------


def write_imported_run(joined: JoinedRun, store: Store, writer: ColumnWriter) -> tuple[Run, list[str]]:
    """Write the run to a temporary folder and put that in place. Returns: the run, and remarks on irregularities."""
    columns = _Columns(joined)
    run = _run(joined, columns)
    final = store.run_folder(run.benchmark, run.model, run.id)
    written = replace(run, folder=final)
    with FileLock(store.lock_file(run.benchmark, run.model)):
        with new_run(final) as new:
            writer.write(new / "records.parquet", columns.kinds, columns.records)
            if run.jury_result:
                judgments, replies = columns.judgments()
                writer.write(new / "judgments.parquet", JUDGMENT_COLUMNS, judgments)
                writer.write(new / "replies.parquet", REPLY_COLUMNS, replies)
            write_run(new, run)
        keep_scores(written)
    return written, columns.remarks


class _Columns:
    """The tables of a run, column by column."""

    def __init__(self, joined: JoinedRun) -> None:
        self.joined = joined
        imported = joined.imported
        self.ids = [instance.id for instance in imported.instances]
        self.completions = [imported.completions.get(id_, _MISSING) for id_ in self.ids]
        self.groups = [instance.group for instance in imported.instances]
        self.scores = {name: [own.get(id_) for id_ in self.ids] for name, own in imported.scores.items()}
        main = replace(joined.benchmark, metrics=(next(iter(self.scores)),))
        found = metrics_of(main, judged=True, harness=joined.origin.harness)
        self.metric = found[0] if found else None
        pairs = zip(imported.instances, self.completions, strict=True)
        self.unreadable = [
            is_unreadable(self.metric, instance, own) if self.metric else None for instance, own in pairs
        ]
        self.remarks = [
            f"{name}: {n:,} of {len(self.ids):,} instances have no score"
            for name, own in self.scores.items()
            if (n := sum(score is None for score in own))
        ]
        self.kinds = dict(RECORD_COLUMNS)
        for name in self.scores:
            self.kinds |= {score_column(name, rule): "DOUBLE" for rule in RULES}
        if joined.is_grouped:
            self.kinds |= {parts_column(name, "published"): "VARCHAR" for name in self.scores}

    @property
    def records(self) -> dict[str, Sequence[Any]]:
        """Return the columns of the records."""
        rows = [completion_row(completion) for completion in self.completions]
        table: dict[str, Sequence[Any]] = {
            "position": range(len(self.ids)),
            "instance_id": self.ids,
            "cluster": [instance.cluster for instance in self.joined.imported.instances],
            "group": self.groups,
            "request_digest": "",
            "completion": [completion.text for completion in self.completions],
            "suspicions": "",
            "unreadable": self.unreadable,
        }
        table |= _by_column(rows, COMPLETION_COLUMNS)
        for name, own in self.scores.items():
            table[score_column(name, "published")] = own
            if self.joined.is_grouped:
                pairs = zip(self.groups, own, strict=True)
                table[parts_column(name, "published")] = [
                    None if score is None else json.dumps({group: (score, 1.0)}) for group, score in pairs
                ]
        if self.joined.jury:
            judgments = [self.joined.imported.judgments.get(id_, ()) for id_ in self.ids]
            table["jury_coverage"] = [
                sum(cell.failure is None for cell in own) / len(own) if own else None for own in judgments
            ]
        return table

    def judgments(self) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[Any]]]:
        """Return the columns of the judgments, and of the judges' completions."""
        judgments, replies = [], []
        for position, id_ in enumerate(self.ids):
            own = self.joined.imported.judgments.get(id_, ())
            of_instance = {"position": position, "instance_id": id_}
            judgments += [of_instance | judgment_row(one) for one in own]
            for judge, cells in group_by(own, lambda one: one.judge).items():
                reply = JudgeReply(judge=judge, prompt_index=0, attempt=0, completion=reply_of(cells))
                replies.append(of_instance | reply_row(reply))
        return _by_column(judgments, JUDGMENT_COLUMNS), _by_column(replies, REPLY_COLUMNS)


def _by_column(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Sequence[Any]]:
    return {name: [row[name] for row in rows] for name in names}


def reply_of(judgments: Sequence[Judgment]) -> Completion:
    """Build a judge's completion that parses to these judgments, so that they can be scored again.

    >>> reply_of([Judgment(judge="j", criterion="accuracy", score=4.0, explanation="Fine.")]).text
    '{"accuracy": {"score": 4, "explanation": "Fine."}}'
    """
    if all(one.failure for one in judgments):
        return Completion(failure=judgments[0].failure)
    cells = {one.criterion: {"score": plain_score(one.score), "explanation": one.explanation} for one in judgments}
    return Completion(text=_ENCODER.encode(cells), finish_reason="stop")


def plain_score(score: float | None) -> float | None:
    """Return a score as judges write it: a whole number without a decimal point; None if it is no number."""
    if score is None or not isfinite(score):
        return None
    return int(score) if score.is_integer() else score


def _run(joined: JoinedRun, columns: _Columns) -> Run:
    imported, jury = joined.imported, joined.jury
    benchmark, model = joined.benchmark, model_of(joined.model)
    counter = CompletionCounter(columns.metric)
    main = next(iter(columns.scores))
    for place, (completion, unreadable) in enumerate(zip(columns.completions, columns.unreadable, strict=True)):
        own = Score(metric=main, rule="published", value=columns.scores[main][place])
        counter.add(completion, unreadable=unreadable, scores=[own])
    failures = Counter(c.failure.code for c in columns.completions if c.failure)
    n, n_completions = imported.n_expected or len(columns.ids), len(columns.ids) - failures.total()
    return Run(
        id=identity(benchmark, joined.data_digest, model, joined.settings, jury),
        benchmark=benchmark.name,
        title=benchmark.title,
        taxonomy=benchmark.taxonomy,
        benchmark_digest=benchmark.digest,
        data_digest=joined.data_digest,
        model=model.name,
        resolved_model=model,
        tier=imported.tier,
        settings=joined.settings,
        origin=joined.origin,
        status=_status(n, len(columns.ids), failures.total()),
        n=n,
        n_failed=n - n_completions,
        failures=dict(failures),
        requests_sent=0,
        requests_cached=0,
        usage=sum((completion.usage for completion in columns.completions), Usage()),
        cost_usd=None,
        started=imported.started,
        seconds=0.0,
        main_metric=main,
        estimates={rule: _estimates(joined, columns) if rule == "published" else {} for rule in RULES},
        groups=_group_means(columns) if joined.is_grouped else {},
        jury_result=_jury_result(joined, jury, columns) if jury else None,
        completion_counts=counter.counts(),
        versions=software_versions(),
    )


def _status(n: int, there: int, n_failed: int) -> RunStatus:
    if there < n:
        return RunStatus.PARTIAL
    return RunStatus.FAILED if n_failed == n else RunStatus.COMPLETE


def _estimates(joined: JoinedRun, columns: _Columns) -> dict[str, Estimate]:
    """Return the mean of each metric under the published rule, over instances or over groups."""
    import numpy as np

    from medhelm.analysis.ratios import estimate_ratios

    found = {}
    for name, own in columns.scores.items():
        values = np.array([np.nan if score is None else score for score in own], dtype=float)
        low, high = scale_of(name, values, joined.benchmark)
        parts = None
        if joined.is_grouped:
            parts = [{group: (score or 0.0, 1.0)} for group, score in zip(columns.groups, own, strict=True)]
        is_open = name == JURY and joined.benchmark.rubric is not None and joined.benchmark.rubric.open_below
        if mean := estimate_ratios(values, parts, low=low, high=high, open_below=is_open):
            found[name] = mean
    return found


def scale_of(metric: str, values: Any, benchmark: Benchmark) -> tuple[float, float]:
    """Return the ends of a metric's scale; for an unknown metric, 0 and 1, extended to cover its `values`."""
    if metric == JURY and benchmark.rubric:
        return benchmark.rubric.low, benchmark.rubric.high
    if known := METRICS.if_usable(metric):
        return known.low, known.high
    scored = values[values == values].tolist()  # without nan
    return min([0.0, *scored]), max([1.0, *scored])


def _group_means(columns: _Columns) -> dict[str, dict[str, float | None]]:
    """Return the means of the main metric by group, under the published rule."""
    scores = [nan if score is None else score for score in next(iter(columns.scores.values()))]
    return group_means(columns.groups, {"published": scores})


def _jury_result(joined: JoinedRun, jury: Jury, columns: _Columns) -> JuryResult | None:
    """Return the totals of the judges; None if the benchmark has no rubric."""
    rubric = joined.benchmark.rubric
    if rubric is None:
        return None
    expected: Counter[str] = Counter()
    failed: dict[str, Counter[str]] = {judge.name: Counter() for judge in jury.judges}
    n_too_few_judges = 0
    criteria = {criterion.name for criterion in rubric.criteria}
    for judgments in joined.imported.judgments.values():
        incomplete = {judgment.judge for judgment in judgments if judgment.failure}
        n_too_few_judges += len(jury.judges) - len(incomplete) < jury.min_judges
        for judgment in judgments:
            if judgment.criterion in criteria:
                expected[judgment.judge] += 1
                if judgment.failure:
                    failed[judgment.judge][judgment.failure.code] += 1
    return make_jury_result(
        jury,
        replace(rubric, name=""),  # another harness has its own wording
        {name: JudgeTally(expected=expected[name], failures=dict(failed[name])) for name in failed},
        n_blank=sum(c.failure is None and not (c.text or "").strip() for c in columns.completions),
        n_too_few_judges=n_too_few_judges,
    )


# --- import report ----------------------------------------------------------------------------------------------------
# Imports as text and as JSON.


def as_json(done: ImportSummary) -> dict[str, Any]:
    """Return the output of `medhelm import ... --json`."""
    return {
        "runs": [_entry_json(entry) for entry in done.taken],
        "skipped": [{"run": name, "reason": reason} for name, reason in done.skipped],
        "remarks": list(done.remarks),
    }


def _entry_json(entry: ImportedRunResult) -> dict[str, Any]:
    run = entry.run
    return {
        **select(run, "benchmark model"),
        "state": entry.state,
        **select(run, "status n n_failed main_metric metrics_by_rule=estimates groups not_computed"),
        "judges": [judge.name for judge in run.judges],
        "origin": plain_json(run.origin),
        "remarks": list(entry.remarks),
        **select(run, "run_dir=folder"),
    }


def to_table(entries: Sequence[ImportedRunResult], rule: Rule) -> str:
    """Return one line per run, with the main metric under both rules, the chosen rule first."""
    other: Rule = "published" if rule == "corrected" else "corrected"
    columns: dict[str, Callable[[ImportedRunResult], Value]] = {
        "benchmark": lambda entry: entry.run.benchmark,
        "model": lambda entry: entry.run.model,
        "state": lambda entry: entry.state,
        "n": lambda entry: entry.run.n,
        "failed": lambda entry: entry.run.n_failed,
        "metric": lambda entry: metric_title(entry.run.main_metric),
        rule: lambda entry: _main_score(entry.run, rule),
        other: lambda entry: _main_score(entry.run, other),
    }
    text = render(*tabulate(entries, columns), drop=("failed", "metric", other))
    return "\n".join([text.rstrip(), *_unscored_notes(entries)])


def _unscored_notes(entries: Sequence[ImportedRunResult]) -> list[str]:
    """Return sentences on runs without a corrected score: what computes it, or why nothing can."""
    unscored = [entry.run for entry in entries if entry.run.main_metric not in entry.run.estimates["corrected"]]
    waiting = [run for run in unscored if run.is_complete and run.main_metric not in run.not_computed]
    notes = []
    if waiting:
        verb = "has" if len(waiting) == 1 else "have"
        notes.append(f"{len(waiting)} of {len(entries)} runs {verb} no corrected score yet: run `medhelm rescore`.")
    for reason, runs in group_by(unscored, lambda run: run.not_computed.get(run.main_metric, "")).items():
        if reason:
            verb = "has" if len(runs) == 1 else "have"
            notes.append(
                f"{len(runs)} of {len(entries)} runs {verb} no corrected score: {reason}. "
                "`medhelm leaderboard --scoring published` shows the scores of the harness."
            )
    return notes


def _main_score(run: Run, rule: Rule) -> float | None:
    estimate = run.estimates[rule].get(run.main_metric)
    return None if estimate is None else round(estimate.value, 3)


# --- imported run -----------------------------------------------------------------------------------------------------
# Imported runs: the common form of the files of all other harnesses.


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """One model on one benchmark, as another harness evaluated it.

    Names are those of the other harness; `exchange` maps them to MedHELM's.
    """

    origin: Origin
    """Files it was read from."""
    benchmark: str
    """Name of the benchmark in the other harness."""
    title: str
    """Title of the benchmark; empty if there is none."""
    model: str
    """Name of the model in the other harness."""
    deployment: str = ""
    """Deployment of the model, for harnesses that distinguish deployments; else empty."""
    instances: Sequence[Instance] = ()
    """The instances in order. `turns` are the exact messages sent."""
    completions: Mapping[str, Completion] = field(default_factory=dict)
    """Instance id -> completion; an instance without one failed."""
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Metric in the other harness -> instance id -> score; NaN and missing values are omitted."""
    judges: Sequence[Model] = ()
    """The judges."""
    judgments: Mapping[str, Sequence[Judgment]] = field(default_factory=dict)
    """Instance id -> judgments of its completion: every judge on every criterion, failures included. A blank
    completion has none."""
    judge_prompt: str = ""
    """Prompt of the judges, with {QUESTION}, {RESPONSE} and {GOLD_RESPONSE} to fill in; empty if unknown."""
    unjudged_score: float | None = None
    """Score that the other harness gives an instance without a judgment; None if unknown."""
    replies: Mapping[str, Sequence[JudgeReply]] = field(default_factory=dict)
    """Instance id -> replies of judges, if the files have them, so that they can be scored again."""
    medhelm_task: Mapping[str, Any] = field(default_factory=dict)
    """For a MedHELM task that another harness ran, with all fields, groups and metadata of its instances: selection
    (`data_digest`, `sample`, `limit`, `seed`), number of instances (`n`), judges needed (`min_judges`). Else empty."""
    tier: Tier = "real"
    """Real data, or the sample rows that ship with a benchmark."""
    max_tokens: int = 0
    """Limit on a completion; 0 if unknown."""
    temperature: float | None = None
    """Sampling temperature; None if not sent or unknown."""
    stop: tuple[str, ...] = ()
    """Sequences that ended a completion."""
    started: str = ""
    """Time of the first request, ISO 8601, UTC; empty if unknown."""
    n_expected: int | None = None
    """Number of instances expected; None: those in the files."""
    remarks: tuple[str, ...] = ()
    """Irregularities of the files, and how they were handled."""
