"""Answers that exist already, from a file: one JSON object a line with `benchmark`, `instance_id`, `completion`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from medhelm.domain import Completion, Failure, Request, Usage
from medhelm.errors import ConfigError, Problem, UserError
from medhelm.models.providers.errors.redact import shown, well_formed

_USAGE = ("input", "cached_input", "output", "reasoning", "cache_write")


class Replay:
    """All completions of one file, in memory."""

    local = True
    endpoint = ""

    def __init__(self, completions: Mapping[tuple[str, str], Completion], *, place: str) -> None:
        """`completions`: benchmark and instance id -> completion. `place`: the file as the user knows it."""
        self.completions = completions
        self.place = place

    async def complete(self, request: Request) -> Completion:
        """The line of the request's instance; a line that is not there is a failure, not an empty answer."""
        if request.instance is None:
            words = "a replay answers questions of benchmarks only"
            return Completion(failure=Failure("provider", "no_instance", words))
        found = self.completions.get((request.benchmark, request.instance.id))
        if found is not None:
            return found
        words = f"{self.place} has no line for benchmark `{request.benchmark}`, instance `{request.instance.id}`"
        return Completion(failure=Failure("provider", "no_replay", words))


def read_replay(path: Path, *, aliases: Mapping[str, str] | None = None) -> Replay:
    """Read a replay file (JSON lines, UTF-8).

    Each line: `benchmark` (a name, or one of `aliases`: alias -> name), `instance_id` (text or a whole number) and
    `completion` (text, "" included, or null with an optional `failure`: words, or `{code, message}`); if known also
    `finish_reason` and `usage` (`{input, cached_input, output, reasoning, cache_write}`, tokens). Other keys are
    ignored.
    Raises: UserError if the file cannot be read, ConfigError with the numbers of all lines that are wrong, and of those
    that answer the same instance differently.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    reading = _Reading(aliases or {})
    for number, line in enumerate(lines, start=1):
        reading.add(number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
    reading.check(str(path))
    return Replay(reading.completions, place=str(path))


@dataclass(slots=True)
class _Reading:
    """A replay file, as far as it was read."""

    aliases: Mapping[str, str]
    completions: dict[tuple[str, str], Completion] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    wrong: dict[str, list[int]] = field(default_factory=dict)

    def add(self, number: int, line: bytes) -> None:
        """Take in one line; what is wrong with it is noted."""
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
            text = f"benchmark `{key[0]}`, instance `{key[1]}` has another completion in line {self.lines[key]}"
            self._note(f"{text}; keep one of them", number)
        self.completions.setdefault(key, completion)
        self.lines.setdefault(key, number)

    def check(self, place: str) -> None:
        """Raise if anything was wrong."""
        if self.wrong:
            problems = [
                Problem(text if len(numbers) == 1 else f"{text} (lines {', '.join(map(str, numbers))})", numbers[0])
                for text, numbers in self.wrong.items()
            ]
            raise ConfigError(place, problems)

    def _note(self, text: str, number: int) -> None:
        self.wrong.setdefault(text, []).append(number)


def _problems(row: object) -> list[str]:
    """What is wrong with one line, in words."""
    if not isinstance(row, dict):
        return ["not a JSON object in UTF-8"]
    missing = [name for name in ("benchmark", "instance_id", "completion") if name not in row]
    if missing:
        return [f"without {' and '.join(f'`{name}`' for name in missing)}"]
    problems = []
    if not isinstance(row["benchmark"], str):
        problems.append("`benchmark` must be a text")
    if isinstance(row["instance_id"], bool) or not isinstance(row["instance_id"], str | int):
        problems.append("`instance_id` must be a text or a whole number")
    if not isinstance(row["completion"], str | None):
        problems.append("`completion` must be a text, or null for a failure")
    if row.get("failure") is not None and row["completion"] is not None:
        problems.append("`completion` and `failure` exclude each other")
    if not isinstance(row.get("finish_reason"), str | None):
        problems.append("`finish_reason` must be a text")
    if not _is_usage(row.get("usage")):
        problems.append(f"`usage` must be an object of whole numbers: {', '.join(_USAGE)}")
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


def _failure(said: object) -> Failure:
    """Why a line has no completion: as the file says it, in words or as an object, or not at all."""
    code = said.get("code") if isinstance(said, dict) else None
    words = said.get("message") if isinstance(said, dict) else said
    message = shown(words) if isinstance(words, str) else ""
    code = shown(code).replace(" ", "_") if isinstance(code, str) else ""
    return Failure("provider", code or "replayed_failure", message or "the file records a failure")
