"""Logs of Inspect, `.eval` and `.json`, as runs: read without Inspect, so that nothing of it need be installed.

A log of a task of ours names benchmark and tier, and carries its instances and judges' replies whole. Of any other task
the samples are what the log says: messages as they were sent, targets as references, scores as numbers.

Several epochs: the score is Inspect's own reduction of them, the completion that of the first epoch that
was answered.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from medhelm.domain import ImportedRun, Origin
from medhelm.errors import DataError
from medhelm.exchange.fields import address, counted, digest_of, instant, load_json
from medhelm.exchange.inspect.archive import EvalArchive
from medhelm.exchange.inspect.samples import InspectSample, judged_by, read_sample, score_values
from medhelm.io.untrusted_json import count, mapping, number, sequence, text

VERSIONS = (1, 2)
"""Formats of logs that are known."""

OURS = "medhelm/"
"""What the names of our tasks begin with."""

_CHUNKED = "/sample.json"


@dataclass(frozen=True, slots=True)
class _Log:
    """What stands in a file."""

    header: Mapping[str, Any]
    """All but the samples."""
    samples: Iterator[Mapping[str, Any]]
    """One object for each sample and epoch."""
    reductions: Sequence[Any]
    """Scores of several epochs made into one."""


@dataclass(slots=True)
class _Gathered:
    """Samples, as far as they were read."""

    samples: dict[str, InspectSample] = field(default_factory=dict)
    values: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)
    """Metric -> sample -> epoch -> its value."""
    odd: Counter[str] = field(default_factory=Counter)
    """What was odd, in words after "N samples: " -> how often."""
    epochs: set[int] = field(default_factory=set)
    seen: set[tuple[str, int]] = field(default_factory=set)


def log_files(folder: Path) -> list[Path]:
    """The logs below a folder: all `.eval` files, and the `.json` files that are named as Inspect names logs."""
    named = [path for path in sorted(folder.rglob("*.json")) if path.name[:4].isdigit() and "T" in path.name[:11]]
    return sorted([*folder.rglob("*.eval"), *named])


def read_inspect_log(path: Path) -> ImportedRun:
    """One log as a run. Raises: DataError that says what is wrong with the file, and what helps."""
    digest = digest_of(path)
    if path.suffix == ".eval":
        with EvalArchive(path) as archive:
            return _as_run(path, _log_of_archive(archive), digest)
    return _as_run(path, _log_of_json(path), digest)


def _log_of_archive(archive: EvalArchive) -> _Log:
    names = archive.names
    start = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
    if start is None:
        raise DataError("is a zip file, but no log of Inspect: it has neither header.json nor _journal/start.json.")
    header = mapping(archive.read(start))
    if chunked := [name for name in names if name.startswith("samples/") and _is_chunked(name, names)]:
        raise DataError(
            f"holds {len(chunked)} samples in pieces (`inspect log convert-chunked`), which are not read here: "
            "import the log it was made of."
        )
    samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    reductions = sequence(archive.read("reductions.json")) if "reductions.json" in names else ()
    return _Log(header, (mapping(content) for _, content in archive.read_many(samples)), reductions)


def _is_chunked(name: str, names: Sequence[str]) -> bool:
    """Whether a member is the head of a sample in pieces. A sample's own id may look like a path, too."""
    return name.endswith(_CHUNKED) and name.removesuffix(_CHUNKED) + "/skeleton.json" in names


def _log_of_json(path: Path) -> _Log:
    content = mapping(load_json(path))
    if not {"eval", "status", "version"} <= content.keys():
        raise DataError("is JSON, but no log of Inspect: it has no `version`, `status` and `eval`.")
    reductions = content.get("reductions") or mapping(content.get("results")).get("sample_reductions")
    return _Log(content, map(mapping, sequence(content.get("samples"))), sequence(reductions))


def _as_run(path: Path, log: _Log, digest: str) -> ImportedRun:
    header = log.header
    version = header.get("version")
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise DataError(f"is a log in format {json.dumps(version)[:40]}; formats {known} are known here.")
    spec = mapping(header.get("eval"))
    task, model = text(spec.get("task")), text(spec.get("model"))
    if not task or not model:
        raise DataError("names no task or no model: it is no whole log of Inspect.")
    ours = mapping(mapping(spec.get("metadata")).get("medhelm")) if task.startswith(OURS) else {}
    gathered = _gathered(log, model, ours=bool(ours))
    if not gathered.samples:
        raise DataError(
            f"holds no samples (status {text(header.get('status')) or 'started'}): nothing was finished, or not logged."
        )
    scores = _reduced(gathered, log)
    order = _order(spec, gathered)
    limits = {**mapping(spec.get("model_generate_config")), **mapping(mapping(header.get("plan")).get("config"))}
    samples = {name: gathered.samples[name] for name in order}
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
        judges=judged_by(samples.values()),
        judgments={name: one.judgments for name, one in samples.items() if one.judgments},
        replies={name: one.replies for name, one in samples.items() if one.replies},
        medhelm_task=_task(spec, ours),
        tier="sample" if ours.get("tier") == "sample" else "real",
        max_tokens=count(limits.get("max_tokens")),
        temperature=number(limits.get("temperature")),
        stop=tuple(text(one) for one in sequence(limits.get("stop_seqs")) if text(one)),
        started=instant(text(stats.get("started_at")) or text(spec.get("created"))),
        n_expected=_expected(spec, gathered),
        remarks=_remarks(header, gathered),
    )


def _task(spec: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """What decided the instances of a task of ours; empty for other tasks."""
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


def _scorers(header: Mapping[str, Any]) -> list[str]:
    """The scorers of a log, by name; none if it does not say. Logs of before scores had names had one."""
    results = mapping(header.get("results"))
    listed = [mapping(one) for one in sequence(results.get("scores"))] or [mapping(results.get("scorer"))]
    listed += [mapping(one) for one in sequence(mapping(header.get("eval")).get("scorers"))]
    names = (text(one.get("scorer")) or text(one.get("name")) for one in listed)
    return list(dict.fromkeys(filter(None, names)))


def _gathered(log: _Log, model: str, *, ours: bool) -> _Gathered:
    found = _Gathered()
    scorers = _scorers(log.header)
    for raw in log.samples:
        name, epoch = raw.get("id"), raw.get("epoch", 1)
        if isinstance(name, bool) or not isinstance(name, str | int) or not isinstance(epoch, int):
            found.odd["no id, so left out"] += 1
            continue
        key = (text(str(name)), epoch)
        if key in found.seen:
            found.odd["twice there, the last counts"] += 1
            for by_sample in found.values.values():
                by_sample.get(key[0], {}).pop(epoch, None)
        found.seen.add(key)
        found.epochs.add(epoch)
        sample = read_sample(raw, key[0], epoch, model, ours=ours, odd=found.odd)
        known = found.samples.get(key[0])
        if known is None or _goes_before(sample, known):
            found.samples[key[0]] = sample
        scores = mapping(raw.get("scores"))
        if raw.get("score") and not scores:
            scores = {(scorers or ["score"])[0]: raw["score"]}
        several = not ours and len(scorers or scores) > 1
        values = {} if sample.completion.failure else score_values(scores, several=several, odd=found.odd)
        for metric, value in values.items():
            found.values.setdefault(metric, {}).setdefault(key[0], {})[epoch] = value
    return found


def _goes_before(sample: InspectSample, known: InspectSample) -> bool:
    """Whether of two epochs of a sample this one counts: one that was answered, of such ones the first."""
    failed, before = sample.completion.failure is not None, known.completion.failure is not None
    return sample.epoch <= known.epoch if failed == before else before


def _reduced(gathered: _Gathered, log: _Log) -> dict[str, dict[str, float]]:
    """Metric -> sample -> one number: of several epochs Inspect's reduction, where the log has it, else the mean."""
    scores = {
        metric: {name: fmean(own.values()) for name, own in by_sample.items() if own}
        for metric, by_sample in gathered.values.items()
    }
    if len(gathered.epochs) < 2:
        return scores
    reducers: dict[str, str] = {}
    several = len({text(mapping(one).get("scorer")) for one in log.reductions} | {*_scorers(log.header)}) > 1
    for one in map(mapping, log.reductions):
        scorer, reducer = text(one.get("scorer")), text(one.get("reducer")) or "mean"
        # Of several reductions the first has the metric's own name, as in Inspect's tables.
        suffix = "" if reducers.setdefault(scorer, reducer) == reducer else f"_{reducer}"
        for entry in map(mapping, sequence(one.get("samples"))):
            name = str(entry.get("sample_id"))
            known = gathered.samples.get(name)
            if known is None or known.completion.failure:
                continue
            for metric, value in score_values({scorer: entry}, several=several, odd=Counter()).items():
                scores.setdefault(metric + suffix, {})[name] = value
    return scores


def _order(spec: Mapping[str, Any], gathered: _Gathered) -> list[str]:
    """Ids in the order of the data set, as far as the log tells it."""
    listed = [str(name) for name in sequence(mapping(spec.get("dataset")).get("sample_ids"))]
    places = {name: place for place, name in enumerate(listed)}
    return sorted(gathered.samples, key=lambda name: places.get(name, len(places)))


def _expected(spec: Mapping[str, Any], gathered: _Gathered) -> int:
    """Samples that should have been asked."""
    listed = {str(name) for name in sequence(mapping(spec.get("dataset")).get("sample_ids"))}
    return max(len(listed), len(gathered.samples))


def _remarks(header: Mapping[str, Any], gathered: _Gathered) -> tuple[str, ...]:
    spec = mapping(header.get("eval"))
    said = []
    status = text(header.get("status")) or "started"
    if status != "success":
        message = text(mapping(header.get("error")).get("message")).strip().partition("\n")[0][:200]
        said.append(f"the log has the status `{status}`{f' ({message})' if message else ''}: what is there is taken.")
    if len(gathered.epochs) > 1:
        said.append(
            f"{len(gathered.epochs)} epochs: scores are reduced as in Inspect; completions, and with them any scoring "
            "again, are those of the first that was answered."
        )
    for role, bound in mapping(spec.get("model_roles")).items():
        names = [text(mapping(one).get("model")) for one in (bound if isinstance(bound, list) else [bound])]
        said.append(f"the role {text(role)} was {', '.join(filter(None, names)) or 'unknown'}.")
    return (*said, *counted(gathered.odd.items(), "sample"))
