"""Import logs of Inspect and sample files of lm-eval as runs: one run per file.

Read sample files of lm-evaluation-harness (`--log_samples`) as runs: one task and one model each.

`samples_TASK_DATE.jsonl` has one line per row and filter; `results_DATE.json` next to it gives the model and its
settings. Generation tasks have completions. Multiple-choice tasks have log-likelihoods: the completion is the option
with the highest one, which is what `acc` scores.

Each filter of a task gives a metric of its own. The first one in the task's own order is the main one, unless it scores
0 everywhere and a later one does not: it then found no answer in the form it expects, as `strict-match` often does.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from medhelm.domain import RULES, Benchmark, Completion, Failure, Instance, Message, Origin, Reference
from medhelm.errors import DataError, UserError
from medhelm.evaluation.rescore import library_of
from medhelm.extensions.exchange.importer import (
    ImportedRun,
    ImportedRunResult,
    ImportSummary,
    NameMap,
    RunImporter,
    count_remarks,
    digest_of,
    iso_time,
    load_json,
    metric_name,
    parse_json,
    short_text,
    web_address,
)
from medhelm.extensions.exchange.inspect.logs import (
    instances_with_our_prompts,
    log_files,
    read_inspect_log,
    score_again,
)
from medhelm.io.rows import count, mapping, number, sequence, text
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, create

# --- lm eval ----------------------------------------------------------------------------------------------------------

_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)")
_LONGEST_LIST = 10_000  # maximum characters of a target that is parsed as a list
_NO_FILTER = "none"
_ROLES = ("system", "user", "assistant")
_NO_METRICS = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash", "prompt_str",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Results:
    """The results file; empty if it is missing."""

    path: Path | None
    content: Mapping[str, Any]
    task: str

    def of_task(self, name: str) -> Mapping[str, Any]:
        """Return the value of `name` for the task."""
        return mapping(mapping(self.content.get(name)).get(self.task))

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return the model's arguments, which older versions wrote as one string."""
        given = mapping(self.content.get("config")).get("model_args")
        if isinstance(given, str):
            return {name: value for name, mark, value in (one.partition("=") for one in given.split(",")) if mark}
        return mapping(given)


@dataclass(slots=True)
class _ReadRows:
    """The rows read so far."""

    rows: dict[str, _Row] = field(default_factory=dict)
    scores: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    """Metric and filter -> row -> score."""
    filters: list[str] = field(default_factory=list)
    pooled: set[str] = field(default_factory=set)
    """Metrics without a value for each row."""
    seen: set[tuple[str, str]] = field(default_factory=set)
    issues: Counter[str] = field(default_factory=Counter)


def sample_files(folder: Path) -> list[Path]:
    """Return the sample files below a folder."""
    return sorted(folder.rglob("samples_*.jsonl"))


def read_lm_eval_samples(path: Path) -> ImportedRun:
    """Read one file as a run. Raises: DataError with the problem and the remedy."""
    read = _read_rows(_file_rows(path))
    results = _results_of(path)
    if not read.rows:
        raise DataError("has no row with a completion.")
    remarks = count_remarks(read.issues.items(), "row")
    if results.path is None:
        remarks.append("it has no results file next to it, so the model is named after the folder.")
    if read.pooled:
        names = ", ".join(sorted(read.pooled))
        remarks.append(f"{names}: left out, because rows have no value of it.")
    if any(one.by_likelihood for one in read.rows.values()):
        remarks.append("options were compared by log-likelihood: the completion is the option with the highest one.")
    first = next(iter(read.rows.values()))
    digest = digest_of(*([path, results.path] if results.path else [path]))
    return ImportedRun(
        origin=Origin(
            harness="lm_eval",
            version=text(results.content.get("lm_eval_version")),
            run=f"{path.parent.name}/{path.stem}",
            sha256=digest,
        ),
        benchmark=results.task,
        title=text(results.of_task("results").get("alias")).strip(" -") or results.task,
        model=_model(path, results),
        deployment=_deployment(results),
        instances=[one.instance for one in read.rows.values()],
        completions={name: one.completion for name, one in read.rows.items()},
        scores={
            metric_name(metric if read.filters == [_NO_FILTER] else f"{metric}_{filter_}"): own
            for (metric, filter_), own in _in_order(read.scores, results)
        },
        max_tokens=first.max_tokens,
        temperature=first.temperature,
        stop=first.stop,
        started=_started(path, results),
        n_expected=max(count(results.of_task("n-samples").get("effective")), len(read.rows)),
        remarks=tuple(remarks),
    )


def _in_order(
    scores: Mapping[tuple[str, str], Mapping[str, float]], results: _Results
) -> list[tuple[tuple[str, str], Mapping[str, float]]]:
    """Return the scores by metric and filter, the main ones first: by the lists of the task, and not all 0."""
    task = results.of_task("configs")
    metrics = [text(mapping(one).get("metric")) for one in sequence(task.get("metric_list"))]
    filters = [text(mapping(one).get("name")) for one in sequence(task.get("filter_list"))]
    metrics += [metric for metric, _ in scores]
    filters += [filter_ for _, filter_ in scores]

    def place(item: tuple[tuple[str, str], Mapping[str, float]]) -> tuple[int, bool, int]:
        (metric, filter_), own = item
        return metrics.index(metric), not any(own.values()), filters.index(filter_)

    return sorted(scores.items(), key=place)


# --- rows -------------------------------------------------------------------------------------------------------------


def _file_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file: one per line, or one list (until 2024).

    A truncated last line gives `{"cut off": True}`.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}.") from error
    if not content.strip():
        raise DataError("is empty.")
    content = content.removeprefix(b"\xef\xbb\xbf")
    if content.lstrip().startswith(b"["):
        yield from map(mapping, sequence(parse_json(content, "is not valid JSON")))
        return
    lines = content.splitlines()
    for place, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield mapping(parse_json(line, f"line {place} is not valid JSON"))
        except DataError:
            if place < len(lines) or place == 1:
                raise
            yield {"cut off": True}


def _read_rows(rows: Iterator[Mapping[str, Any]]) -> _ReadRows:
    found = _ReadRows()
    for row in rows:
        if row.get("cut off"):
            found.issues["truncated at the end of the file; left out"] += 1
            continue
        name = row.get("doc_id")
        if isinstance(name, bool) or not isinstance(name, int | str) or "resps" not in row:
            raise DataError("is not an lm-eval sample file: a row has no `doc_id` or no `resps`.")
        key, filter_ = text(str(name)), text(row.get("filter")) or _NO_FILTER
        if filter_ not in found.filters:
            found.filters.append(filter_)
        if (key, filter_) in found.seen:
            found.issues["duplicate; the last one counts"] += 1
        found.seen.add((key, filter_))
        read = _read_row(row, key, issues=found.issues if key not in found.rows else Counter())
        if filter_ == found.filters[0] or key not in found.rows:
            found.rows[key] = read
        for metric, value in _scores(row):
            score = float(value) if isinstance(value, bool) else number(value)
            if score is not None:
                found.scores.setdefault((metric, filter_), {})[key] = score
            elif value is not None and not isinstance(value, float):
                found.pooled.add(metric)
    return found


def _scores(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the metrics of a row with their values; older files do not list the metrics."""
    listed = [text(name) for name in sequence(row.get("metrics"))]
    return [(name, row.get(name)) for name in (listed or row) if name not in _NO_METRICS]


# --- one row ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row of the data, and its completion."""

    instance: Instance
    """The instance, with its prompt."""
    completion: Completion
    """The generated text, or the option with the highest likelihood."""
    by_likelihood: bool = False
    """True if options were compared by likelihood."""
    max_tokens: int = 0
    """Limit on completion tokens; 0 if there was none."""
    temperature: float | None = None
    """Sampling temperature, if one was set."""
    stop: tuple[str, ...] = ()
    """Stop sequences."""


def _read_row(row: Mapping[str, Any], name: str, *, issues: Counter[str]) -> _Row:
    """Read one row. Irregularities are counted in `issues`, as text that follows "N rows: ".

    Raises: DataError for tasks without completions, which measure the likelihood of given texts.
    """
    requests = [_as_list(one, "arg_") for one in _as_list(row.get("arguments"), "gen_args_")]
    responses = sequence(row.get("resps"))
    if requests and len(requests[0]) > 1 and isinstance(requests[0][1], dict):
        return _generation_row(row, name, requests[0], responses, issues)
    if len(requests) > 1 and all(len(request) > 1 and isinstance(request[1], str) for request in requests):
        return _multiple_choice_row(row, name, requests, responses, issues)
    if not requests or not responses:
        raise DataError(f"row {name} has no request or no completion.")
    raise DataError("the task measures the likelihood of given texts, so it has no completions to import.")


def _generation_row(
    row: Mapping[str, Any], name: str, request: Sequence[Any], responses: Sequence[Any], issues: Counter[str]
) -> _Row:
    """Read a row with a generated text; if there are several completions, the first one.

    lm-eval lists the completions of each request; lmms-eval lists texts.
    """
    texts = responses if responses and isinstance(responses[0], str) else sequence(responses[0]) if responses else ()
    if len(texts) > 1:
        issues["several completions; the first one is kept, and the scores are those of lm-eval"] += 1
    settings = mapping(request[1])
    until = settings.get("until")
    if texts and isinstance(texts[0], str):
        completion = Completion(text=text(texts[0]))
        if not texts[0].strip():
            issues["empty completion, which lm-eval also writes after a failed request"] += 1
    else:
        completion = Completion(failure=Failure("provider", "no_answer", "the file has no completion"))
    return _Row(
        instance=_instance(row, name, _turns(request[0]), _target_texts(row.get("target")), ()),
        completion=completion,
        max_tokens=count(settings.get("max_gen_toks") or settings.get("max_tokens")),
        temperature=number(settings.get("temperature")),
        stop=tuple(filter(None, map(text, until if isinstance(until, list) else [until]))),
    )


def _multiple_choice_row(
    row: Mapping[str, Any], name: str, requests: Sequence[Sequence[Any]], responses: Sequence[Any], issues: Counter[str]
) -> _Row:
    """Read a row whose options were compared by their log-likelihoods.

    Options that are repeated without the question serve to correct for their unconditional likelihood. If the same
    ending follows different beginnings, the beginnings are the options.
    """
    context = requests[0][0]
    own = [place for place, request in enumerate(requests) if repr(request[0]) == repr(context)]
    options = [text(requests[place][1]).strip() for place in own]
    if len(own) == 1:
        own = list(range(len(requests)))
        options = [text(request[0]).strip() for request in requests]
        context = requests[0][1]
    likelihoods = [_likelihood(responses[place]) if place < len(responses) else None for place in own]
    known = [value for value in likelihoods if value is not None]
    if len(known) < len(own):
        failure = Failure("provider", "no_answer", "the file lacks log-likelihoods of some options")
        completion = Completion(failure=failure)
    else:
        completion = Completion(text=options[likelihoods.index(max(known))])
    correct = _correct_options(row.get("target"), options)
    if not correct:
        issues["the target is not among the options"] += 1
    unique = len(set(options)) == len(options)
    return _Row(
        instance=_instance(row, name, _turns(context), correct, options if unique else ()),
        completion=completion,
        by_likelihood=True,
    )


def _instance(
    row: Mapping[str, Any], name: str, turns: tuple[Message, ...], correct: Sequence[str], options: Sequence[str]
) -> Instance:
    references = [Reference(one, one in correct) for one in options] or [Reference(one) for one in correct]
    return Instance(
        id=name,
        fields={"input": turns[-1].text if turns else ""},
        references=tuple(references),
        choices=tuple(options),
        labels=tuple(options),
        metadata={text(key): own for key, value in mapping(row.get("doc")).items() if (own := short_text(value))},
        turns=turns,
    )


def _as_list(value: object, prefix: str) -> list[Any]:
    """Return a list, or the values of an object whose keys are a prefix and a number, as in newer files."""
    if isinstance(value, dict):
        return [value[f"{prefix}{place}"] for place in range(len(value)) if f"{prefix}{place}" in value]
    return list(sequence(value))


def _turns(context: object) -> tuple[Message, ...]:
    """Return the messages sent: plain text, or chat messages as JSON, alone or in a list of one."""
    if isinstance(context, list) and len(context) == 1:
        context = context[0]
    prompt = text(context)
    if prompt.lstrip().startswith("[{"):
        try:
            messages = [mapping(one) for one in sequence(json.loads(prompt))]
        except (ValueError, RecursionError):
            messages = []
        if messages and all(one.get("role") in _ROLES for one in messages):
            return tuple(Message(one["role"], _content(one.get("content"))) for one in messages)
    return (Message("user", prompt),)


def _content(value: object) -> str:
    """Return the text of a message, which may be a list of parts."""
    if isinstance(value, str):
        return text(value)
    return "\n".join(text(mapping(part).get("text")) for part in sequence(value) if mapping(part).get("type") == "text")


def _likelihood(value: object) -> float | None:
    """Return a log-likelihood: a number or its digits, possibly nested in lists with other values."""
    while isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return number(value) if value != float("-inf") else -1e308


def _target_texts(value: object) -> list[str]:
    """Return the correct references as text; files contain lists in Python syntax."""
    if isinstance(value, list):
        return [text(one) if isinstance(one, str) else str(one) for one in value]
    target = text(value) if isinstance(value, str) else "" if value is None else str(value)
    if target.startswith("[") and target.endswith("]") and len(target) <= _LONGEST_LIST:
        try:
            found = ast.literal_eval(target)  # constants only: nothing is executed
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found = None
        if isinstance(found, list) and all(isinstance(one, str | int | float) for one in found):
            return [str(one) for one in found]
    return [target] if target else []


def _correct_options(target: object, options: Sequence[str]) -> list[str]:
    """Return the correct options: the target gives their text, or their index from 0."""
    correct = []
    for one in _target_texts(target):
        if one.strip() in options:
            correct.append(one.strip())
        elif one.strip().isdecimal() and int(one) < len(options):
            correct.append(options[int(one)])
    return correct


# --- the results file -------------------------------------------------------------------------------------------------


def _results_of(path: Path) -> _Results:
    """Find the results file of a sample file: the one with the same date, or else the newest one with the task."""
    named = _SAMPLES.fullmatch(path.stem)
    candidates = sorted(path.parent.glob("results*.json"), reverse=True)
    if named:
        candidates = [path.with_name(f"results_{named['date']}.json"), *candidates]
    for candidate in candidates:
        try:
            content = mapping(load_json(candidate)) if candidate.is_file() else {}
        except DataError:
            continue
        known = sorted(map(str, mapping(content.get("results"))), key=len, reverse=True)
        task = named["task"] if named else next((one for one in known if path.stem.endswith(one)), "")
        if task in known:
            return _Results(candidate, content, task)
    return _Results(None, {}, named["task"] if named else path.stem)


def _model(path: Path, results: _Results) -> str:
    """Return the model's name from the results, or else from the folder, in which `__` replaces a slash."""
    arguments = results.arguments
    named = (text(arguments.get(key)) for key in ("model", "pretrained", "path"))
    name = text(results.content.get("model_name")) or next(filter(None, named), "")
    return name or text(mapping(results.content.get("config")).get("model")) or path.parent.name.replace("__", "/")


def _deployment(results: _Results) -> str:
    """Return the address of the model's server; empty for local models."""
    url = web_address(text(results.arguments.get("base_url")))
    return url.removesuffix("/completions").removesuffix("/chat")


def _started(path: Path, results: _Results) -> str:
    """Return the start of the evaluation: from the results, or else the (approximate) date in the file's name."""
    seconds = number(results.content.get("date"))
    if seconds is not None and 0 < seconds < 2**33:
        from datetime import UTC, datetime

        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    named = _SAMPLES.fullmatch(path.stem)
    date, _, time = (named["date"] if named else "").partition("T")
    return iso_time(f"{date}T{time.replace('-', ':')}") if time else ""


# --- logs -------------------------------------------------------------------------------------------------------------

Harness = Literal["inspect", "lm_eval"]


class _Format(NamedTuple):
    """The log files of a harness."""

    find: Callable[[Path], list[Path]]
    """Finds the files below a folder."""
    read: Callable[[Path], ImportedRun]
    """Reads one file."""
    in_words: str


_FORMATS: Mapping[Harness, _Format] = {
    "inspect": _Format(log_files, read_inspect_log, "Inspect log (*.eval, or *.json with a time in its name)"),
    "lm_eval": _Format(
        sample_files, read_lm_eval_samples, "lm-eval sample file (samples_*.jsonl, written with --log_samples)"
    ),
}

OUR_NAMING = NameMap(
    metrics={f"{name}_{rule}": name if rule == "published" else "" for name in METRIC_NAMES for rule in RULES}
    | dict.fromkeys(METRIC_NAMES, "")
)
"""Metric names of our tasks in logs: NAME_published under the published rule, NAME under the corrected rule."""


def import_logs(
    places: Sequence[Path],
    harness: Harness,
    *,
    store: Path,
    data: Path | None = None,
    extra: Sequence[Path] = (),
    watch: Callable[[int, int], None] = lambda done, of: None,  # noqa: ARG005
) -> ImportSummary:
    """Import files, and all log files in folders.

    Parameters: data, the folder with one data folder per benchmark, if there is one; extra, folders with further
    benchmarks; watch, called with the number of files done and in total.
    A file that cannot be read is reported with the reason, and the import continues. Runs already imported from the
    same file are kept unchanged.
    Raises: UserError if no file could be imported; StoreError.
    """
    files, skipped = _files(places, harness)
    library = library_of(extra)
    opened = create(store)
    taken: list[ImportedRunResult] = []
    with closing(RunImporter(opened, library)) as run_importer:
        importer = _LogImporter(opened, data, library, run_importer)
        for done, file in enumerate(files, start=1):
            try:
                taken.append(importer.import_file(file, harness))
            except UserError as error:
                skipped.append((str(file), str(error)))
            watch(done, len(files))
    if not taken:
        lines = [f"{name}: {reason}" for name, reason in skipped]
        raise UserError("\n".join(["no file could be imported.", *lines]))
    return ImportSummary(taken=tuple(taken), skipped=tuple(skipped))


def _files(places: Sequence[Path], harness: Harness) -> tuple[list[Path], list[tuple[str, str]]]:
    """Return all files without duplicates, and the places that have none, with the reason."""
    found: dict[Path, Path] = {}
    missing: list[tuple[str, str]] = []
    for place in places:
        files = _FORMATS[harness].find(place) if place.is_dir() else [place] if place.exists() else []
        if not place.exists():
            missing.append((str(place), "this file or folder does not exist."))
        elif not files:
            missing.append((str(place), f"this folder has no {_FORMATS[harness].in_words}."))
        for file in files:
            found.setdefault(file.resolve(), file)
    return list(found.values()), missing


class _LogImporter:
    """Imports log files, one after another."""

    def __init__(
        self, store: Store, data: Path | None, library: Mapping[str, Benchmark], importer: RunImporter
    ) -> None:
        """`importer`: imports tasks that cannot be scored again here, with the scores in the log."""
        self._store, self._data, self._library, self._importer = store, data, library, importer
        stored = load_runs(store)
        self._by_digest = {run.origin.sha256: run for run in stored if run.origin}
        self._names = {run.origin.run for run in stored if run.origin}

    def import_file(self, file: Path, harness: Harness) -> ImportedRunResult:
        """Import a file. Raises: UserError with the reason if that is not possible."""
        # The digest of a log is that of its file, so one that is stored need not be read.
        if harness == "inspect" and (same := self._by_digest.get(digest_of(file))):
            return ImportedRunResult(run=same, state="unchanged")
        log = _FORMATS[harness].read(file)
        if same := self._by_digest.get(log.origin.sha256):
            return ImportedRunResult(run=same, state="unchanged")
        return self._import_medhelm_task(log) if log.medhelm_task else self._importer.import_run([log], NameMap())

    def _import_medhelm_task(self, log: ImportedRun) -> ImportedRunResult:
        """Import a run of a MedHELM task: score it again, or keep the logged scores if the task has changed since."""
        known = self._library.get(log.benchmark)
        instances = instances_with_our_prompts(log, known, self._data) if known else []
        if known and instances:
            run = score_again(log, known, instances, self._store)
            state: Literal["new", "changed"] = "changed" if log.origin.run in self._names else "new"
            self._names.add(log.origin.run)
            n_run, n_selected = run.n, log.medhelm_task["n"]
            part = (
                f"Inspect ran only part of the selection ({n_run} of {n_selected} instances); use -T limit=N instead, "
                "which can be scored again"
            )
            return ImportedRunResult(
                run=run, state=state, remarks=(*log.remarks, *([part] if n_run < n_selected else []))
            )
        why = f"the prompts differ from the current prompts of {log.benchmark}"
        if known is None:
            why = f"the benchmark {log.benchmark} is unknown (use --benchmarks DIR to add a folder of benchmarks)"
        if log.tier == "sample":
            raise UserError(f"{why}, and the log holds sample data, not real data.")
        taken = self._importer.import_run([log], OUR_NAMING)
        remarks = (*taken.remarks, f"{why}, so the log's own scores are used.")
        return ImportedRunResult(run=taken.run, state=taken.state, remarks=remarks)
