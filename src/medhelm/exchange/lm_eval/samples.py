"""Read sample files of lm-evaluation-harness (`--log_samples`) as runs: one task and one model each.

`samples_TASK_DATE.jsonl` has one line per row and filter; `results_DATE.json` next to it gives the model and its
settings. Generation tasks have completions. Multiple-choice tasks have log-likelihoods: the completion is the option
with the highest one, which is what `acc` scores.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medhelm.domain import Origin
from medhelm.domain.imported_run import ImportedRun
from medhelm.errors import DataError
from medhelm.exchange.fields import address, count_remarks, digest_of, iso_time, load_json, metric_name, parse_json
from medhelm.exchange.lm_eval.rows import LmEvalRow, read_row
from medhelm.io.untrusted_json import count, mapping, number, sequence, text

_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)")
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
        said = mapping(self.content.get("config")).get("model_args")
        if isinstance(said, str):
            return {name: value for name, mark, value in (one.partition("=") for one in said.split(",")) if mark}
        return mapping(said)


@dataclass(slots=True)
class _ReadRows:
    """The rows read so far."""

    rows: dict[str, LmEvalRow] = field(default_factory=dict)
    scores: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    """Metric and filter -> row -> score."""
    filters: list[str] = field(default_factory=list)
    pooled: set[str] = field(default_factory=set)
    """Metrics without a value for each row."""
    seen: set[tuple[str, str]] = field(default_factory=set)
    odd: Counter[str] = field(default_factory=Counter)


def sample_files(folder: Path) -> list[Path]:
    """Return the sample files below a folder."""
    return sorted(folder.rglob("samples_*.jsonl"))


def read_lm_eval_samples(path: Path) -> ImportedRun:
    """Read one file as a run. Raises: DataError with the problem and the remedy."""
    read = _read_rows(_file_rows(path))
    results = _results_of(path)
    if not read.rows:
        raise DataError("has no row with a completion.")
    remarks = count_remarks(read.odd.items(), "row")
    if results.path is None:
        remarks.append("it has no results file next to it, so the model is named after the folder.")
    if read.pooled:
        names = ", ".join(sorted(read.pooled))
        remarks.append(f"{names}: left out, because rows have no value of it.")
    if any(one.by_likelihood for one in read.rows.values()):
        remarks.append("options were compared by log-likelihood: the completion is the option with the highest one.")
    first = next(iter(read.rows.values()))
    several = len(read.filters) > 1
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
            metric_name(f"{metric}_{filter_}" if several else metric): own
            for (metric, filter_), own in read.scores.items()
        },
        max_tokens=first.max_tokens,
        temperature=first.temperature,
        stop=first.stop,
        started=_started(path, results),
        n_expected=max(count(results.of_task("n-samples").get("effective")), len(read.rows)),
        remarks=tuple(remarks),
    )


# --- rows -------------------------------------------------------------------------------------------------------------


def _file_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file: one per line, or one list (until 2024). A truncated last line is an irregularity."""
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
            found.odd["truncated at the end of the file; left out"] += 1
            continue
        name = row.get("doc_id")
        if isinstance(name, bool) or not isinstance(name, int | str) or "resps" not in row:
            raise DataError("is not an lm-eval sample file: a row has no `doc_id` or no `resps`.")
        key, filter_ = text(str(name)), text(row.get("filter")) or "none"
        if filter_ not in found.filters:
            found.filters.append(filter_)
        if (key, filter_) in found.seen:
            found.odd["duplicate; the last one counts"] += 1
        found.seen.add((key, filter_))
        row_read = read_row(row, key, odd=found.odd if key not in found.rows else Counter())
        if filter_ == found.filters[0] or key not in found.rows:
            found.rows[key] = row_read
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
    said = text(results.content.get("model_name")) or next(filter(None, named), "")
    return said or text(mapping(results.content.get("config")).get("model")) or path.parent.name.replace("__", "/")


def _deployment(results: _Results) -> str:
    """Return the address of the model's server; empty for local models."""
    url = address(text(results.arguments.get("base_url")))
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
