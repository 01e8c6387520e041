"""Read sample files of lm-evaluation-harness (`--log_samples`) as runs: one task and one model each.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medhelm.domain import Completion, Failure, Instance, Message, Origin, Reference
from medhelm.errors import DataError
from medhelm.extensions.exchange.importer import (
    ImportedRun,
    count_remarks,
    digest_of,
    iso_time,
    load_json,
    metric_name,
    parse_json,
    short_text,
    web_address,
)
from medhelm.io.rows import count, mapping, number, sequence, text

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
