"""Read Inspect logs, `.eval` and `.json`, as runs, without Inspect, which need not be installed.

A log of a MedHELM task names the benchmark and tier, and contains all instances and judges' completions. For other
tasks, samples are taken from the log: messages as sent, targets as references, scores as numbers.

With several epochs, the score is Inspect's own reduction of them; the completion is that of the first epoch that
has one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from medhelm.domain import Origin
from medhelm.errors import DataError
from medhelm.extensions.exchange.fields import address, count_remarks, digest_of, iso_time, load_json
from medhelm.extensions.exchange.importer import ImportedRun
from medhelm.extensions.exchange.inspect.archive import EvalArchive
from medhelm.extensions.exchange.inspect.samples import InspectSample, judges_of, read_sample, score_values
from medhelm.io.rows import count, mapping, number, sequence, text

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
        deployment=address(text(spec.get("model_base_url"))),
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
