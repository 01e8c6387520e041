"""Read Inspect logs, `.eval` and `.json`, as runs, without Inspect, which need not be installed.

A log of a MedHELM task names the benchmark and tier, and contains all instances and judges' completions. For other
tasks, samples are taken from the log: messages as sent, targets as references, scores as numbers.

With several epochs, the score is Inspect's own reduction of them; the completion is that of the first epoch that
has one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from string import ascii_uppercase
from types import TracebackType
from typing import Any, Literal, Self
from zipfile import BadZipFile, ZipFile, ZipInfo

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.benchmarks.data.sampling import InstanceSelection, SampleOptions
from medhelm.benchmarks.prompts import render
from medhelm.domain import (
    Benchmark,
    Completion,
    Failure,
    Instance,
    JudgeReply,
    Judgment,
    Jury,
    Message,
    Model,
    Origin,
    Reference,
    Run,
    Usage,
)
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.jury import AT_LEAST
from medhelm.errors import DataError, MissingError, UserError
from medhelm.evaluation.evaluate import run_in_event_loop
from medhelm.evaluation.recorder import NullListener
from medhelm.evaluation.runner import CompletionSource, EvaluationRunner, PendingCompletion
from medhelm.evaluation.settings import Settings
from medhelm.extensions.exchange.importer import (
    ImportedRun,
    count_remarks,
    digest_of,
    iso_time,
    load_json,
    metric_name,
    model_of,
    short_text,
    web_address,
)
from medhelm.io.files import address, open_file
from medhelm.io.folders import temporary_folder
from medhelm.io.parquet import connect, open_engine
from medhelm.io.rows import count, mapping, number, sequence, text
from medhelm.models.client import ClientResult
from medhelm.storage.imported_instances import instance_from_json
from medhelm.storage.store import Store, write_run

VERSIONS = (1, 2)
"""Supported versions of the log format."""

OURS = "medhelm/"
"""Prefix of the names of MedHELM tasks."""

_CHUNKED = "/sample.json"


@dataclass(frozen=True, slots=True)
class _Log:
    """The content of a log file."""

    header: Mapping[str, Any]
    """Everything except the samples."""
    samples: Iterator[Mapping[str, Any]]
    """One object for each sample and epoch."""
    reductions: Sequence[Any]
    """Scores reduced over several epochs."""


@dataclass(slots=True)
class _ReadSamples:
    """The samples read so far."""

    samples: dict[str, InspectSample] = field(default_factory=dict)
    values: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)
    """Metric -> sample -> epoch -> its value."""
    issues: Counter[str] = field(default_factory=Counter)
    """Irregularity, as text that follows "N samples: " -> number of samples."""
    epochs: set[int] = field(default_factory=set)
    seen: set[tuple[str, int]] = field(default_factory=set)


def log_files(folder: Path) -> list[Path]:
    """Return the logs below a folder: all `.eval` files, and `.json` files named like Inspect logs."""
    named = [path for path in sorted(folder.rglob("*.json")) if path.name[:4].isdigit() and "T" in path.name[:11]]
    return sorted([*folder.rglob("*.eval"), *named])


def read_inspect_log(path: Path) -> ImportedRun:
    """Read one log as a run. Raises: DataError with the problem and the remedy."""
    digest = digest_of(path)
    if path.suffix == ".eval":
        with EvalArchive(path) as archive:
            return _as_run(path, _archive_log(archive), digest)
    return _as_run(path, _json_log(path), digest)


def _archive_log(archive: EvalArchive) -> _Log:
    names = archive.names
    start = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
    if start is None:
        raise DataError("is a zip file, but not an Inspect log: it has neither header.json nor _journal/start.json.")
    header = mapping(archive.read(start))
    if chunked := [name for name in names if name.startswith("samples/") and _is_chunked(name, names)]:
        raise DataError(
            f"has {len(chunked)} chunked samples (`inspect log convert-chunked`), which are not supported: "
            "import the original log."
        )
    samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    reductions = sequence(archive.read("reductions.json")) if "reductions.json" in names else ()
    return _Log(header, (mapping(content) for _, content in archive.read_many(samples)), reductions)


def _is_chunked(name: str, names: Sequence[str]) -> bool:
    """Return True if a member is the head of a chunked sample. Ids of other samples may look like paths, too."""
    return name.endswith(_CHUNKED) and name.removesuffix(_CHUNKED) + "/skeleton.json" in names


def _json_log(path: Path) -> _Log:
    content = mapping(load_json(path))
    if not {"eval", "status", "version"} <= content.keys():
        raise DataError("is JSON, but not an Inspect log: it has no `version`, `status` and `eval`.")
    reductions = content.get("reductions") or mapping(content.get("results")).get("sample_reductions")
    return _Log(content, map(mapping, sequence(content.get("samples"))), sequence(reductions))


def _as_run(path: Path, log: _Log, digest: str) -> ImportedRun:
    header = log.header
    version = header.get("version")
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise DataError(f"is a log in format {json.dumps(version)[:40]}; the supported formats are {known}.")
    spec = mapping(header.get("eval"))
    task, model = text(spec.get("task")), text(spec.get("model"))
    if not task or not model:
        raise DataError("names no task or no model, so it is not a complete Inspect log.")
    ours = mapping(mapping(spec.get("metadata")).get("medhelm")) if task.startswith(OURS) else {}
    read = _read_samples(log, model, ours=bool(ours))
    if not read.samples:
        raise DataError(
            f"has no samples (status {text(header.get('status')) or 'started'}): none were finished or logged."
        )
    scores = _reduce_epochs(read, log)
    limits = {**mapping(spec.get("model_generate_config")), **mapping(mapping(header.get("plan")).get("config"))}
    listed = map(str, sequence(mapping(spec.get("dataset")).get("sample_ids")))
    places = {name: place for place, name in enumerate(listed)}  # order of the data set, as far as the log has it
    samples = dict(sorted(read.samples.items(), key=lambda item: places.get(item[0], len(places))))
    stats = mapping(header.get("stats"))
    title = text(ours.get("title")) or text(spec.get("task_display_name"))
    return ImportedRun(
        origin=Origin(
            harness="inspect",
            version=text(mapping(spec.get("packages")).get("inspect_ai")),
            run=text(spec.get("eval_id")) or text(spec.get("task_id")) or path.stem,
            sha256=digest,
        ),
        benchmark=text(ours.get("benchmark")) or task,
        title=title or task,
        model=model,
        deployment=web_address(text(spec.get("model_base_url"))),
        instances=[one.instance for one in samples.values()],
        completions={name: one.completion for name, one in samples.items()},
        scores=scores,
        judges=judges_of(samples.values()),
        judgments={name: one.judgments for name, one in samples.items() if one.judgments},
        replies={name: one.replies for name, one in samples.items() if one.replies},
        medhelm_task=_task_settings(spec, ours),
        tier="sample" if ours.get("tier") == "sample" else "real",
        max_tokens=count(limits.get("max_tokens")),
        temperature=number(limits.get("temperature")),
        stop=tuple(text(one) for one in sequence(limits.get("stop_seqs")) if text(one)),
        started=iso_time(text(stats.get("started_at")) or text(spec.get("created"))),
        n_expected=max(len(places), len(samples)),
        remarks=_remarks(header, read),
    )


def _task_settings(spec: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that select the instances of a MedHELM task; empty for other tasks."""
    if not ours:
        return {}
    given, dataset = mapping(spec.get("task_args")), mapping(spec.get("dataset"))
    return {
        "data_digest": text(ours.get("data_digest")),
        "sample": text(given.get("sample")) or "default",
        "limit": count(given.get("limit")) or None,
        "seed": count(given.get("seed")),
        "min_judges": count(given.get("min_judges")) or None,
        "n": count(dataset.get("samples")),
    }


def _scorer_names(header: Mapping[str, Any]) -> list[str]:
    """Return the names of a log's scorers, as far as it lists them. Old logs with unnamed scores had one scorer."""
    results = mapping(header.get("results"))
    listed = [mapping(one) for one in sequence(results.get("scores"))] or [mapping(results.get("scorer"))]
    listed += [mapping(one) for one in sequence(mapping(header.get("eval")).get("scorers"))]
    names = (text(one.get("scorer")) or text(one.get("name")) for one in listed)
    return list(dict.fromkeys(filter(None, names)))


def _read_samples(log: _Log, model: str, *, ours: bool) -> _ReadSamples:
    found = _ReadSamples()
    scorers = _scorer_names(log.header)
    for raw in log.samples:
        name, epoch = raw.get("id"), raw.get("epoch", 1)
        if isinstance(name, bool) or not isinstance(name, str | int) or not isinstance(epoch, int):
            found.issues["no id; left out"] += 1
            continue
        key = (text(str(name)), epoch)
        if key in found.seen:
            found.issues["duplicate; the last one counts"] += 1
            for by_sample in found.values.values():
                by_sample.get(key[0], {}).pop(epoch, None)
        found.seen.add(key)
        found.epochs.add(epoch)
        sample = read_sample(raw, key[0], epoch, model, ours=ours, issues=found.issues)
        known = found.samples.get(key[0])
        if known is None or _precedes(sample, known):
            found.samples[key[0]] = sample
        scores = mapping(raw.get("scores"))
        if raw.get("score") and not scores:
            scores = {(scorers or ["score"])[0]: raw["score"]}
        several = not ours and len(scorers or scores) > 1
        values = {} if sample.completion.failure else score_values(scores, several=several, issues=found.issues)
        for metric, value in values.items():
            found.values.setdefault(metric, {}).setdefault(key[0], {})[epoch] = value
    return found


def _precedes(sample: InspectSample, known: InspectSample) -> bool:
    """Return True if `sample` precedes `known`: epochs with a completion come first, then lower numbers."""
    failed, before = sample.completion.failure is not None, known.completion.failure is not None
    return sample.epoch <= known.epoch if failed == before else before


def _reduce_epochs(read: _ReadSamples, log: _Log) -> dict[str, dict[str, float]]:
    """Return metric -> sample -> score; with several epochs, Inspect's reduction if logged, or else the mean."""
    scores = {
        metric: {name: fmean(own.values()) for name, own in by_sample.items() if own}
        for metric, by_sample in read.values.items()
    }
    if len(read.epochs) < 2:
        return scores
    reducers: dict[str, str] = {}
    several = len({text(mapping(one).get("scorer")) for one in log.reductions} | {*_scorer_names(log.header)}) > 1
    for one in map(mapping, log.reductions):
        scorer, reducer = text(one.get("scorer")), text(one.get("reducer")) or "mean"
        # If there are several reductions, the first has the metric's own name, as in Inspect's tables.
        suffix = "" if reducers.setdefault(scorer, reducer) == reducer else f"_{reducer}"
        for entry in map(mapping, sequence(one.get("samples"))):
            name = str(entry.get("sample_id"))
            known = read.samples.get(name)
            if known is None or known.completion.failure:
                continue
            for metric, value in score_values({scorer: entry}, several=several, issues=Counter()).items():
                scores.setdefault(metric + suffix, {})[name] = value
    return scores


def _remarks(header: Mapping[str, Any], read: _ReadSamples) -> tuple[str, ...]:
    spec = mapping(header.get("eval"))
    remarks = []
    status = text(header.get("status")) or "started"
    if status != "success":
        message = text(mapping(header.get("error")).get("message")).strip().partition("\n")[0][:200]
        remarks.append(f"the log has the status `{status}`{f' ({message})' if message else ''}: it may be incomplete.")
    if len(read.epochs) > 1:
        remarks.append(
            f"{len(read.epochs)} epochs: scores are reduced as in Inspect; completions (and scores computed from "
            "them later) are those of the first epoch that has one."
        )
    for role, bound in mapping(spec.get("model_roles")).items():
        names = [text(mapping(one).get("model")) for one in (bound if isinstance(bound, list) else [bound])]
        remarks.append(f"the role {text(role)} was {', '.join(filter(None, names)) or 'unknown'}.")
    return (*remarks, *count_remarks(read.issues.items(), "sample"))


# --- archive ----------------------------------------------------------------------------------------------------------
# Read Inspect's `.eval` files: a zip of JSON documents, compressed with deflate (until 2025) or Zstandard (since).
#
# Python before 3.14 cannot decompress Zstandard. DuckDB, which the store needs anyway, can: compressed members are
# written to files and read as tables with one column.

ZSTANDARD = 93
"""Number of the Zstandard method in zip files."""

LARGEST_MEMBER = 2**28
"""Maximum size, in bytes, of one document."""

TOGETHER_BYTES, TOGETHER = 2**26, 500
"""Limits on the members decompressed at a time: total bytes and number."""

_BROKEN = (BadZipFile, OSError, ValueError, OverflowError, NotImplementedError, LookupError, struct.error)
"""Exceptions that `zipfile` raises for damaged archives."""

_LOCAL_HEADER = struct.Struct("<4s22xHH")


class EvalArchive:
    """An `.eval` file that is open for reading. All errors are DataErrors with the problem and the remedy."""

    def __init__(self, path: Path) -> None:
        """Open the file."""
        try:
            self._zip = ZipFile(path)
        except _BROKEN as error:
            why = (isinstance(error, OSError) and error.strerror) or "it is truncated, or not an .eval file"
            raise DataError(
                f"cannot be read: {why}. Copy it again, or try `inspect log recover` on the original."
            ) from error
        self._members = {info.filename: info for info in self._zip.infolist()}  # if a name is repeated, the last counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """Return the names of all members."""
        return list(self._members)

    def read(self, name: str) -> Any:
        """Read one document."""
        ((_, content),) = self.read_many([name])
        return content

    def read_many(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield documents in the given order, with few of them in memory at a time."""
        for batch in self._batches(names):
            for info, content in zip(batch, self._unpacked(batch), strict=True):
                yield info.filename, self._parsed(info, content)

    def _batches(self, names: Sequence[str]) -> Iterator[list[ZipInfo]]:
        batch: list[ZipInfo] = []
        size = 0
        for name in names:
            info = self._members[name]
            if info.file_size > LARGEST_MEMBER:
                raise DataError(
                    f"{name} in the archive has {info.file_size:,} bytes; the limit is {LARGEST_MEMBER:,} bytes."
                )
            if batch and (size + info.file_size > TOGETHER_BYTES or len(batch) == TOGETHER):
                yield batch
                batch, size = [], 0
            batch.append(info)
            size += info.file_size
        if batch:
            yield batch

    def _unpacked(self, batch: Sequence[ZipInfo]) -> list[bytes]:
        """Return the decompressed bytes of members, in order."""
        packed = {info.filename: self._packed(info) for info in batch if info.compress_type == ZSTANDARD}
        found = dict(zip(packed, _from_zstandard(list(packed.values()), batch), strict=True))
        return [
            self._checked(info, found[info.filename]) if info.filename in found else self._plain(info) for info in batch
        ]

    def _packed(self, info: ZipInfo) -> bytes:
        """Return the compressed bytes of a member."""
        stream = self._zip.fp
        assert stream is not None, "it is open"
        try:
            stream.seek(info.header_offset)
        except (OSError, ValueError, OverflowError) as error:  # before the beginning of the file
            raise self._damaged(info) from error
        header = stream.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\3\4") or info.flag_bits & 1:
            raise self._damaged(info)
        _, name_length, extra_length = _LOCAL_HEADER.unpack(header)
        stream.seek(name_length + extra_length, 1)
        content = stream.read(info.compress_size)
        if len(content) < info.compress_size:
            raise self._damaged(info)
        return content

    def _plain(self, info: ZipInfo) -> bytes:
        """Return the bytes of a member that Python can decompress."""
        try:
            with self._zip.open(info) as member:
                return member.read(LARGEST_MEMBER)
        except NotImplementedError as error:
            raise DataError(
                f"{info.filename} in the archive has an unknown compression method ({info.compress_type}): "
                "use `inspect log convert --to json --output-dir DIR FILE` to decompress it."
            ) from error
        except (*_BROKEN, zlib.error, EOFError, RuntimeError) as error:
            raise self._damaged(info) from error

    def _checked(self, info: ZipInfo, content: bytes | None) -> bytes:
        """Return the bytes that match the checksum, with or without a final newline."""
        if content is not None and info.CRC in (zlib.crc32(content), zlib.crc32(content + b"\n")):
            return content
        raise self._damaged(info)

    def _parsed(self, info: ZipInfo, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._damaged(info) from error

    def _damaged(self, info: ZipInfo) -> DataError:
        return DataError(f"{info.filename} in the archive is damaged. Copy the file again.")


def _from_zstandard(packed: Sequence[bytes], batch: Sequence[ZipInfo]) -> list[bytes | None]:
    """Decompress Zstandard frames, up to the size in the zip directory; None for damaged ones."""
    if not packed:
        return []
    largest = max(info.file_size for info in batch) + 1
    with temporary_folder() as work:
        files = [work.path / f"{number}.zst" for number in range(len(packed))]
        for file, content in zip(files, packed, strict=True):
            with open_file(file, "wb") as target:
                target.write(content)
        lines = _lines(files, largest)
        if lines is None and len(files) > 1:  # one file is damaged: decompress them one by one
            alone = [_lines([file], largest) for file in files]
            return [None if own is None else b"\n".join(own[file.name]) for file, own in zip(files, alone, strict=True)]
    return [None if lines is None else b"\n".join(lines[file.name]) for file in files]


def _lines(files: Sequence[Path], largest: int) -> dict[str, list[bytes]] | None:
    """Map the name of each file to its lines; None if a file cannot be decompressed."""
    import duckdb

    query = (
        "SELECT filename, line FROM read_csv($files, compression = 'zstd', header = false, filename = true, "
        "auto_detect = false, columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', escape = '', "
        "strict_mode = false, new_line = '\\n', max_line_size = $largest, buffer_size = $buffer)"
    )
    largest = max(largest, 2**21)
    given = {"files": list(map(address, files)), "largest": largest, "buffer": 2 * largest}
    lines: dict[str, list[bytes]] = {file.name: [] for file in files}
    try:
        # DuckDB copies long lines: these need an engine with more memory.
        with connect() if largest <= 2**21 else open_engine(memory_mb=512 + 8 * (largest >> 20)) as connection:
            cursor = connection.execute(query, given)
            while rows := cursor.fetchmany(100):
                for name, line in rows:
                    lines[Path(name).name].append((line or "").encode())
    except duckdb.Error:
        return None
    return lines


# --- samples ----------------------------------------------------------------------------------------------------------
# Read one sample of an Inspect log: instance, completion, scores, and the judgments of MedHELM tasks.

_SCORE_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_YES_NO = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_ROLES: Mapping[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
}
_FINISH_REASONS = {"max_tokens": "length", "model_length": "length"}
_ATTACHMENT = "attachment://"


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectSample:
    """A sample in one epoch."""

    epoch: int
    """Number of the epoch."""
    instance: Instance
    """The instance, with its prompt."""
    completion: Completion
    """The completion, or its failure."""
    judgments: tuple[Judgment, ...] = ()
    """Judgments of a MedHELM task."""
    replies: tuple[JudgeReply, ...] = ()
    """Judges' completions of a MedHELM task."""


def read_sample(
    raw: Mapping[str, Any], name: str, epoch: int, model: str, *, ours: bool, issues: Counter[str]
) -> InspectSample:
    """Read a sample of a log. Irregularities are counted in `issues`, as text that follows "N samples: "."""
    output = mapping(raw.get("output"))
    completion = _completion(raw, output, model, issues)
    turns = _turns(raw, issues)
    metadata = mapping(raw.get("metadata"))
    if ours and (own := mapping(metadata.get("medhelm"))):
        instance = replace(instance_from_json(name, own), turns=turns)
    else:
        instance = _instance(raw, name, turns, metadata)
    scoring = mapping(mapping(mapping(raw.get("scores")).get("medhelm")).get("metadata")) if ours else {}
    return InspectSample(
        epoch=epoch,
        instance=instance,
        completion=completion,
        judgments=tuple(_judgment(mapping(one)) for one in sequence(scoring.get("judgments"))),
        replies=tuple(_reply(mapping(one)) for one in sequence(scoring.get("replies"))),
    )


# --- instances --------------------------------------------------------------------------------------------------------


def _instance(raw: Mapping[str, Any], name: str, turns: tuple[Message, ...], metadata: Mapping[str, Any]) -> Instance:
    choices = tuple(text(one) for one in sequence(raw.get("choices")))
    target = raw.get("target")
    targets = [text(one) for one in (target if isinstance(target, list) else [target]) if text(one)]
    letters = tuple(ascii_uppercase[: len(choices)])
    labels: tuple[str, ...] = ()
    if choices and targets and len(choices) <= len(letters):
        labels = letters if set(targets) <= set(letters) else choices if set(targets) <= set(choices) else ()
    references = tuple(
        Reference(choice, label in targets) for choice, label in zip(choices, labels, strict=True)
    ) if labels else tuple(Reference(one) for one in targets)  # fmt: skip
    input_ = raw.get("input")
    prompt = input_ if isinstance(input_, str) else "\n\n".join(turn.text for turn in turns if turn.role == "user")
    return Instance(
        id=name,
        fields={"input": _resolve_attachment(text(prompt), raw)},
        references=references,
        choices=choices if labels else (),
        labels=labels,
        metadata={text(key): own for key, value in metadata.items() if (own := short_text(value))},
        turns=turns,
    )


def _turns(raw: Mapping[str, Any], issues: Counter[str]) -> tuple[Message, ...]:
    """Return the messages before the last completion: solvers may have changed the data set's input."""
    messages = [mapping(one) for one in sequence(raw.get("messages"))]
    answers = [place for place, one in enumerate(messages) if one.get("role") == "assistant"]
    if mapping(raw.get("output")).get("choices") and answers:
        messages = messages[: answers[-1]]
    if not messages:
        given = raw.get("input")
        messages = (
            [{"role": "user", "content": given}] if isinstance(given, str) else list(map(mapping, sequence(given)))
        )
    turns = []
    irregularities: set[str] = set()
    for one in messages:
        role = _ROLES.get(text(one.get("role")))
        if role is None:
            irregularities.add("tools were used, and their output is kept as user messages")
        content, is_text = _content_text(one.get("content"), raw)
        if not is_text:
            irregularities.add("the prompt has parts other than text (images, files), which are left out")
        turns.append(Message(role or "user", content))
    issues.update(irregularities)
    return tuple(turns)


def _content_text(content: object, raw: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the text of a message without reasoning, and True if it has no other parts."""
    if isinstance(content, str):
        return _resolve_attachment(text(content), raw), True
    parts = [mapping(part) for part in sequence(content)]
    texts = [_resolve_attachment(text(part.get("text")), raw) for part in parts if part.get("type") == "text"]
    return "\n".join(texts), all(part.get("type") in ("text", "reasoning") for part in parts)


def _resolve_attachment(content: str, raw: Mapping[str, Any]) -> str:
    """Return a text, or the attachment that it refers to."""
    if content.startswith(_ATTACHMENT):
        return text(mapping(raw.get("attachments")).get(content.removeprefix(_ATTACHMENT))) or content
    return content


# --- completions ------------------------------------------------------------------------------------------------------


def _completion(raw: Mapping[str, Any], output: Mapping[str, Any], model: str, issues: Counter[str]) -> Completion:
    choices = sequence(output.get("choices"))
    choice = mapping(choices[0]) if choices else {}
    reason = text(choice.get("stop_reason"))
    known: dict[str, Any] = {
        "usage": _usage(_token_counts(raw, output, model)),
        "latency_s": number(output.get("time")) or 0.0,
        "reported_model": text(output.get("model")),
    }
    if raw.get("invalidation"):
        issues["marked invalid, so counted as failures here"] += 1
        return Completion(failure=Failure("provider", "invalidated", "the sample was marked invalid"), **known)
    error = text(mapping(raw.get("error")).get("message"))
    limit = text(mapping(raw.get("limit")).get("type"))
    if not choices:
        if limit and not error:
            failure = Failure("provider", f"{limit}_limit", f"the sample's limit on {limit} was reached")
        else:
            words = error or text(output.get("error")) or "the log has no completion"
            failure = Failure("provider", "sample_error" if error else "no_answer", words.partition("\n")[0][:500])
        return Completion(failure=failure, **known)
    if reason == "content_filter":
        if score_values(mapping(raw.get("scores")), several=True, issues=Counter()):
            issues["blocked by the provider's content filter: a failure here, regardless of its score"] += 1
        failure = Failure("provider", "refusal", "the provider's content filter ended the completion")
        return Completion(failure=failure, finish_reason=reason, **known)
    if error:
        issues["completed before an error, so the completion is kept"] += 1
    answer, _ = _content_text(mapping(choice.get("message")).get("content"), raw)
    if reason == "model_length" and not count(mapping(output.get("usage")).get("output_tokens")):
        # Inspect returns the provider's error message as the completion, and scores it.
        issues["prompt too long for the model: a failure here, regardless of its score"] += 1
        return Completion(failure=Failure("provider", "context_length", answer[:500]), finish_reason="length", **known)
    return Completion(text=answer, finish_reason=_FINISH_REASONS.get(reason, reason), **known)


def _token_counts(raw: Mapping[str, Any], output: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return the tokens of the model under test: of its only completion, or of all completions in the sample."""
    answers = sum(mapping(one).get("role") == "assistant" for one in sequence(raw.get("messages")))
    every = mapping(mapping(raw.get("model_usage")).get(model))
    return every if answers > 1 and every else mapping(output.get("usage")) or every


def _usage(tokens: Mapping[str, Any]) -> Usage:
    """Return token counts in our form. Old logs of some providers include cached tokens in `input_tokens`."""
    spent, written = count(tokens.get("input_tokens")), count(tokens.get("output_tokens"))
    cached, stored = count(tokens.get("input_tokens_cache_read")), count(tokens.get("input_tokens_cache_write"))
    reasoning, total = count(tokens.get("reasoning_tokens")), count(tokens.get("total_tokens"))
    if not (cached + stored and total == spent + written):
        spent += cached + stored
    if reasoning and (reasoning > written or total == spent + written + reasoning):
        written += reasoning
    cached = min(cached, spent)
    return Usage(
        input=spent, cached_input=cached, output=written, reasoning=reasoning, cache_write=min(stored, spent - cached)
    )


# --- scores -----------------------------------------------------------------------------------------------------------


def score_values(scores: Mapping[str, Any], *, several: bool, issues: Counter[str]) -> dict[str, float]:
    """Return metric -> number for the scores of one sample.

    A score with several values becomes one metric for each, named after the value, or after scorer and value if the log
    has `several` scorers. Correct, partial, incorrect and no answer become 1, 0.5, 0 and 0; unscored values are left
    out.
    """
    found: dict[str, float] = {}
    is_any_unreadable = False
    for scorer, score in scores.items():
        value = mapping(score).get("value")
        named = {scorer: value}
        if isinstance(value, dict):
            named = {f"{scorer}_{key}" if several else key: own for key, own in value.items()}
        elif isinstance(value, list):
            named = {f"{scorer}_{place}": own for place, own in enumerate(value)}
        for name, own in named.items():
            as_number = _as_number(own)
            is_any_unreadable |= as_number is None and own is not None and not isinstance(own, float)
            if as_number is not None:
                found[metric_name(name)] = as_number
    if is_any_unreadable:
        issues["a score is not a number; left out"] += 1
    return found


def _as_number(value: object) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value in _SCORE_LETTERS:
            return _SCORE_LETTERS[value]
        if value.lower() in _YES_NO:
            return _YES_NO[value.lower()]
        try:
            found = float(value)
        except ValueError:
            return None
        return found if math.isfinite(found) else None
    return number(value)


# --- judgments --------------------------------------------------------------------------------------------------------


def judges_of(samples: Iterable[InspectSample]) -> tuple[Model, ...]:
    """Return the judges of a run, in the order of their judgments."""
    return tuple(map(model_of, dict.fromkeys(one.judge for sample in samples for one in sample.judgments)))


def _judgment(logged: Mapping[str, Any]) -> Judgment:
    score, code = number(logged.get("score")), text(logged.get("failure"))
    if score is None:
        failure = Failure("judge", code or "no_verdict", text(logged.get("message")) or "the log has no score")
    return Judgment(
        judge=text(logged.get("judge")),
        criterion=text(logged.get("criterion")),
        score=score,
        points=number(logged.get("points")) or 0.0,
        failure=failure if score is None else None,
        explanation=text(logged.get("explanation")),
    )


def _reply(logged: Mapping[str, Any]) -> JudgeReply:
    code = text(logged.get("failure"))
    failure = Failure("judge", code, text(logged.get("message"))) if code else None
    return JudgeReply(
        judge=text(logged.get("judge")),
        prompt_index=count(logged.get("part")),
        attempt=count(logged.get("attempt")),
        completion=Completion(
            text=None if failure else text(logged.get("text")),
            failure=failure,
            finish_reason=text(logged.get("finish_reason")),
        ),
        verification_code=text(logged.get("verification_code")),
    )


# --- medhelm tasks ----------------------------------------------------------------------------------------------------
# Import MedHELM tasks that ran in Inspect, and score them again like completions received here.
#
# The log contains instances, prompts and judges' completions, so judges are not needed. Data is needed only for metrics
# that use more than the instance, such as a database. If the data is available, instances are read from it.

_SELECTION = ("sample", "limit", "seed")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def instances_with_our_prompts(log: ImportedRun, benchmark: Benchmark, data: Path | None) -> list[Instance]:
    """Return the instances in MedHELM's form, in order; none if the prompts sent differ from those of `benchmark`.

    A log has the messages that were sent; here the prompt is built from an instance, unless it is a conversation.
    `data`: the folder with one data folder per benchmark, if there is one.
    """
    of_data = _instances_of_data(log, benchmark, data)
    found = []
    for instance in log.instances:
        turns = tuple(turn for turn in instance.turns if turn.role != "system") if benchmark.conversation_column else ()
        own = of_data.get(instance.id) or replace(instance, turns=turns)
        try:
            same = render(benchmark, own).messages == instance.turns
        except UserError:
            same = False
        if not same:
            return []
        found.append(own)
    return found


def _instances_of_data(log: ImportedRun, benchmark: Benchmark, data: Path | None) -> dict[str, Instance]:
    """Return the instances of the data by id, if the data is available and unchanged."""
    if log.tier == "real" and data is None:
        return {}
    try:
        options = SampleOptions(**{name: log.medhelm_task[name] for name in _SELECTION})
        dataset = open_dataset(benchmark, data=data, tier=log.tier, options=options, scoring=True)
    except (UserError, MissingError):
        return {}
    same = dataset.digest == log.medhelm_task.get("data_digest")
    return {instance.id: instance for instance in dataset} if same else {}


def score_again(log: ImportedRun, benchmark: Benchmark, instances: Sequence[Instance], store: Store) -> Run:
    """Score the completions of `instances` in a log again, and store them as a run.

    Raises: StoreError; UserError if the log has no completion.
    """
    logged = _LoggedCompletions(log)
    chosen = log.medhelm_task
    runner = EvaluationRunner(
        [_dataset(log, benchmark, instances)],
        [model_of(log.model)],
        store,
        Settings(tier=log.tier, sample=chosen["sample"], limit=chosen["limit"], seed=chosen["seed"], offline=True),
        {},
        NullListener(),
        _jury(log),
        logged,
    )
    (run,) = run_in_event_loop(runner).runs
    if (folder := run.folder) is None:
        raise UserError("it has no completion.")
    run = replace(run, started=log.started or run.started, seconds=0.0)
    write_run(folder, run)
    return run


def _jury(log: ImportedRun) -> Jury | None:
    """Return the judges of the log, and the minimum of judges per instance."""
    judges = tuple(log.judges)
    if not judges:
        return None
    needed = log.medhelm_task.get("min_judges") or AT_LEAST
    return Jury(judges=judges, min_judges=min(needed, len(judges)))


def _dataset(log: ImportedRun, benchmark: Benchmark, instances: Sequence[Instance]) -> Dataset:
    """Return the instances as a data set; an interrupted log has fewer than expected."""
    n = max(log.n_expected or 0, len(instances))
    return Dataset(
        benchmark=benchmark,
        tier=log.tier,
        digest=_digest(log, n),
        selection=InstanceSelection(n_total=n, n=n),
        read=lambda: iter(instances),
        instances=instances,
    )


def _digest(log: ImportedRun, n: int) -> str:
    """Return the data's hash from the log, or a different one if Inspect ran only part of the selection."""
    stated = str(log.medhelm_task.get("data_digest"))
    if _DIGEST.fullmatch(stated) and n == log.medhelm_task.get("n"):
        return stated
    return hashlib.sha256(json.dumps([stated, [instance.id for instance in log.instances], n]).encode()).hexdigest()


class _LoggedCompletions(CompletionSource):
    """A source of completions that reads a log of Inspect."""

    def __init__(self, log: ImportedRun) -> None:
        self._log = log
        self.judges = [judge.name for judge in log.judges]
        self.has_codes = all(reply.verification_code for replies in log.replies.values() for reply in replies)

    def origin(self, model: Model, dataset: Dataset) -> Origin | None:  # noqa: ARG002
        """Return the log."""
        return replace(self._log.origin, is_medhelm_task=True)

    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the settings in the log; its name distinguishes runs of the same model."""
        log = self._log
        return {
            **{name: log.medhelm_task.get(name) for name in _SELECTION},
            "max_tokens": log.max_tokens or None,
            "temperature": log.temperature,
            "imported": f"{log.origin.harness}:{log.origin.run}",
            "deployment": log.deployment,
        }

    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:  # noqa: ARG002
        """Yield the completions of the log."""
        for position, instance in enumerate(dataset):
            yield PendingCompletion(position, instance, partial(self._complete, instance.id))

    async def _complete(self, instance_id: str) -> ClientResult:
        """Return the completion in the log, without the model's hidden reasoning; a failure if it has none."""
        found = self._log.completions.get(instance_id)
        if found is None:
            found = Completion(failure=Failure("provider", "not_stored", f"the log has no instance {instance_id}"))
        elif found.text is not None:
            found = replace(found, text=strip_reasoning(found.text))
        return ClientResult(found, False, 0, 0.0)

    def judge_completions(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:  # noqa: ARG002
        """Return the judges' completions in the log."""
        return list(self._log.replies.get(instance_id, ()))
