"""Completions from a file: one JSON object per line with `benchmark`, `instance_id` and `completion`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from medhelm.domain import Completion, Failure, FailureCode, Model, Request, Usage
from medhelm.domain.text import listed, plural
from medhelm.errors import ConfigError, Problem, UserError
from medhelm.models.provider import Environment, Provider, Service
from medhelm.models.providers.errors import shown, well_formed

_USAGE = ("input", "cached_input", "output", "reasoning", "cache_write")


@dataclass(frozen=True)
class Replay(Provider):
    """All completions of one file, in memory."""

    completions: Mapping[tuple[str, str], Completion]
    """Benchmark and instance ID -> completion."""
    place: str
    """The file, as the user named it."""
    used: set[tuple[str, str]] = field(default_factory=set)
    """Those that were requested."""

    local = True

    async def complete(self, request: Request) -> Completion:
        """Return the completion of the request's instance; a missing line is a failure, not an empty completion."""
        if request.instance is None:
            message = "a replay file completes prompts of benchmarks only"
            return Completion(failure=Failure("provider", FailureCode.NO_INSTANCE, message))
        key = (request.benchmark, request.instance.id)
        found = self.completions.get(key)
        if found is not None:
            self.used.add(key)
            return found
        message = f"{self.place} has no line for benchmark `{request.benchmark}`, instance `{request.instance.id}`"
        return Completion(failure=Failure("provider", FailureCode.NO_REPLAY, message))

    def unused(self, benchmark: str) -> str:
        """Return a remark on lines that a run on all instances of a benchmark did not use; "" if there are none."""
        named = dict.fromkeys(name for name, _ in self.completions)
        if benchmark not in named:
            return f"{self.place} has no line for benchmark `{benchmark}`. It has lines for {listed(list(named), 4)}."
        ids = [key[1] for key in self.completions if key[0] == benchmark and key not in self.used]
        if not ids:
            return ""
        what = "names an instance" if len(ids) == 1 else "name instances"
        lines = f"{plural(len(ids), 'line')} of {self.place} for {benchmark}"
        return f"{lines} {what} that the run does not have: {listed(ids, 4)}."


def read_replay(path: Path, *, aliases: Mapping[str, str] | None = None) -> Replay:
    """Read a replay file (JSON lines, UTF-8).

    Each line has `benchmark` (a name, or one of `aliases`: alias -> name), `instance_id` (a text or an integer) and
    `completion` (a text, "" included, or null with an optional `failure`: a message, or `{code, message}`); optionally
    `finish_reason` and `usage` (`{input, cached_input, output, reasoning, cache_write}`, in tokens). Other keys are
    ignored.
    Raises: UserError if the file cannot be read; ConfigError with the numbers of all invalid lines, and of lines with
    different completions of the same instance.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    reader = _Reader(aliases or {})
    for number, line in enumerate(lines, start=1):
        reader.add(number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
    reader.check(str(path))
    return Replay(reader.completions, str(path))


@dataclass(slots=True)
class _Reader:
    """Collects the completions of a replay file, and its problems."""

    aliases: Mapping[str, str]
    completions: dict[tuple[str, str], Completion] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    wrong: dict[str, list[int]] = field(default_factory=dict)

    def add(self, number: int, line: bytes) -> None:
        """Read one line; its problems are collected."""
        if not line.strip():
            return
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            self._note("not a JSON object in UTF-8", number)
            return
        problems = _problems(row)
        for problem in problems:
            self._note(problem, number)
        if problems:
            return
        name = row["benchmark"]
        key = (self.aliases.get(name, name), str(row["instance_id"]))
        completion = _completion(row)
        if key in self.completions and self.completions[key] != completion:
            text = f"benchmark `{key[0]}`, instance `{key[1]}` has a different completion in line {self.lines[key]}"
            self._note(f"{text}; keep only one", number)
        self.completions.setdefault(key, completion)
        self.lines.setdefault(key, number)

    def check(self, place: str) -> None:
        """Raises: ConfigError if there was any problem."""
        if self.wrong:
            problems = [
                Problem(text if len(numbers) == 1 else f"{text} (lines {', '.join(map(str, numbers))})", numbers[0])
                for text, numbers in self.wrong.items()
            ]
            raise ConfigError(place, problems)

    def _note(self, text: str, number: int) -> None:
        self.wrong.setdefault(text, []).append(number)


def _problems(row: object) -> list[str]:
    """Return the problems of one line."""
    if not isinstance(row, dict):
        return ["not a JSON object in UTF-8"]
    missing = [name for name in ("benchmark", "instance_id", "completion") if name not in row]
    if missing:
        return [f"without {' and '.join(f'`{name}`' for name in missing)}"]
    problems = []
    if not isinstance(row["benchmark"], str):
        problems.append("`benchmark` must be a text")
    if isinstance(row["instance_id"], bool) or not isinstance(row["instance_id"], str | int):
        problems.append("`instance_id` must be a text or an integer")
    if not isinstance(row["completion"], str | None):
        problems.append("`completion` must be a text, or null for a failure")
    if row.get("failure") is not None and row["completion"] is not None:
        problems.append("`completion` and `failure` exclude each other")
    if not isinstance(row.get("finish_reason"), str | None):
        problems.append("`finish_reason` must be a text")
    if not _is_usage(row.get("usage")):
        problems.append(f"`usage` must be an object of integers: {', '.join(_USAGE)}")
    return problems


def _is_usage(usage: object) -> bool:
    if usage is None:
        return True
    return isinstance(usage, dict) and all(
        name in _USAGE and isinstance(count, int) and not isinstance(count, bool) and count >= 0
        for name, count in usage.items()
    )


def _completion(row: Mapping[str, Any]) -> Completion:
    text = row["completion"]
    return Completion(
        text=None if text is None else well_formed(text),
        failure=_failure(row.get("failure")) if text is None else None,
        finish_reason=row.get("finish_reason") or "",
        usage=Usage(**cast("dict[str, int]", row.get("usage") or {})),
    )


def _failure(recorded: object) -> Failure:
    """Return why a line has no completion: a message, an object, or nothing."""
    code = recorded.get("code") if isinstance(recorded, dict) else None
    text = recorded.get("message") if isinstance(recorded, dict) else recorded
    message = shown(text) if isinstance(text, str) else ""
    code = shown(code).replace(" ", "_") if isinstance(code, str) else ""
    return Failure("provider", code or FailureCode.REPLAYED_FAILURE, message or "the file records a failure")


def _resolve(model: Model, environment: Environment) -> Model:  # noqa: ARG001 - see Service
    """Add the digest of the file: a file with other content is another model."""
    if not model.remote_name.endswith(".jsonl"):
        raise ValueError("a replay file is JSON lines: its name ends in .jsonl.")
    try:
        with Path(model.remote_name).open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{model.remote_name} cannot be read: {error.strerror or error}.") from error
    return replace(model, parameters={"sha256": content})


SERVICE = Service(
    name="replay",
    title="replay file",
    open=lambda model, context: read_replay(Path(model.remote_name), aliases=context.aliases),
    takes_address=False,
    resolve=_resolve,
    in_process=True,
)
