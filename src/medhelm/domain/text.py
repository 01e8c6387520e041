"""Small helpers for text that people read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from medhelm.domain.benchmark import JURY
from medhelm.errors import UserError, suggestion

SERVERS: Sequence[tuple[str, str]] = (
    (r"(?i)\b[a-z][a-z0-9+.-]*://[^\s,;\"'<>()]*[^\s,;\"'<>().:]|\bunix:[^\s,;]*", "[server]"),
    (r"(?i)\b(host name|check how|on node) [^\s,;]*[a-z0-9]", r"\1 [server]"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?|\[[0-9a-fA-F]*:[0-9a-fA-F:.]*\](?::\d+)?", "[server]"),
    (r"(?i)\b(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:corp|internal|lan|local|svc))\b(?::\d+)?", "[server]"),
    (r"(?i)\bport \d+", "port [number]"),
)
"""Pattern of the address of a server in a message -> what replaces it; for Python and for DuckDB."""


def plural(n: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun.

    Parameters: n, the count; noun, its singular; nouns, its plural if it does not end in s.

    >>> plural(1, "benchmark"), plural(1200, "benchmark"), plural(2, "entry", "entries")
    ('1 benchmark', '1,200 benchmarks', '2 entries')
    """
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"


def best_of(n: int, n_all: int, noun: str) -> str:
    """Return a count of things in the order of their rank, and of how many if they are not all.

    >>> best_of(24, 1300, "model"), best_of(3, 3, "model")
    ('the best 24 of 1,300 models', '3 models')
    """
    return plural(n, noun) if n >= n_all else f"the best {n:,} of {plural(n_all, noun)}"


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Return names as a list in a sentence; if there are more than `most`, only the first ones are named.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 2)
    ('a, b and c', 'a, b and 1 more')
    """
    if most is not None and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def short_count(number: int) -> str:
    """Return a large count with a unit.

    >>> short_count(950), short_count(1_400), short_count(2_500_000)
    ('950', '1.4k', '2.5M')
    """
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return str(number)


def duration(seconds: float | None) -> str:
    """Return a duration in words; a question mark if it is unknown.

    >>> duration(9.6), duration(400), duration(20_000), duration(None)
    ('10 s', '6 min 40 s', '5 h 33 min', '?')
    """
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def without_servers(message: str) -> str:
    """Return the message of a failure without the addresses of servers, for publication.

    >>> without_servers("cannot connect to http://gpu7:8000: refused. See the log of the server on port 8000.")
    'cannot connect to [server]: refused. See the log of the server on port [number].'
    """
    for pattern, replacement in SERVERS:
        message = re.sub(pattern, replacement, message)
    return message


def value_in_words(value: object) -> str:
    """Format a value for an error message, shortened and with its type recognizable."""
    match value:
        case None:
            return "empty"
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            shown = value if value.isprintable() else repr(value)[1:-1]
            return f"`{shown if len(shown) <= 60 else shown[:57] + '...'}`" if value else "an empty text"
        case int() | float():
            return f"the number {value}"
        case list():
            return "a list"
        case _:
            return "a mapping"


# --- titles -----------------------------------------------------------------------------------------------------------
# Titles of metrics and categories, in every table, chart and page. JSON and CSV hold names.

METRIC_TITLES: Mapping[str, str] = {
    "exact_match": "EM",
    "quasi_exact_match": "Quasi-EM",
    "prefix_exact_match": "Prefix EM",
    "quasi_prefix_exact_match": "Prefix quasi-EM",
    "choice_extracted": "Readable",
    "abstention": "Abstention",
    "rouge_l": "ROUGE-L",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "bertscore": "BERTScore",
    "bertscore_precision": "BERTScore P",
    "bertscore_recall": "BERTScore R",
    "coverage": "Coverage",
    "density": "Density",
    "compression": "Compression",
    "balanced_accuracy": "Balanced accuracy",
    "label_f1": "F1 per case",
    "label_micro_f1": "Micro F1",
    "label_macro_f1": "Macro F1",
    "numeric_tolerance": "Within tolerance",
    "medcalc_accuracy": "MedCalc accuracy",
    "medec_flag_accuracy": "Error flag",
    "medec_sentence_accuracy": "Error sentence",
    "icd_f1": "ICD F1",
    "icd_precision": "ICD precision",
    "icd_recall": "ICD recall",
    "icd_micro_f1": "ICD micro F1",
    "sql_execution_accuracy": "SQL accuracy",
    "sql_precision": "SQL precision",
    "sql_recall": "SQL recall",
    "sql_validity": "SQL validity",
    JURY: "Jury",
}
"""Name of a built-in metric -> its title."""


def metric_title(name: str) -> str:
    """Return the title of a metric; if it is not built in, its name in words.

    >>> metric_title("rouge_l"), metric_title("triage_distance")
    ('ROUGE-L', 'Triage distance')
    """
    return METRIC_TITLES.get(name) or name.replace("_", " ").capitalize()


def group_title(name: str) -> str:
    """Return a category or subcategory id as words.

    >>> group_title("clinical_decision_support")
    'Clinical decision support'
    """
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


# --- arguments --------------------------------------------------------------------------------------------------------
# Checks arguments of the Python API: one or more values, texts or paths, and names from a fixed list.

AnyPath = str | PathLike[str]
"""A path as callers write it."""

AnyPaths = AnyPath | Iterable[AnyPath]
"""One or more paths."""

AnyNames = str | Iterable[str]
"""One or more names."""


def as_list(value: Any, kinds: tuple[type, ...], name: str, meaning: str) -> list[Any]:
    """Return one or more values as a list.

    Parameters: kinds, types of a single value; name, the argument; meaning, a valid value in words.
    Raises: UserError for values of another type.
    """
    if isinstance(value, kinds):
        return [value]
    found = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
    for one in found:
        if not isinstance(one, kinds):
            raise UserError(f"`{name}` must be {meaning}, or several of them. This is not: {shortened(one)}.")
    return found


def as_names(value: AnyNames, name: str) -> list[str]:
    """Return one or more names as a list. Raises: UserError for values that are not texts."""
    return as_list(value, (str,), name, "a name")


def as_path(value: AnyPath, name: str) -> Path:
    """Return a path. Raises: UserError for anything but a text or a path."""
    if not isinstance(value, str | PathLike) or not str(value):
        raise UserError(f"`{name}` must be a path. This is not: {shortened(value)}.")
    return Path(value)


def as_paths(value: AnyPaths, name: str) -> list[Path]:
    """Return one or more paths as a list. Raises: UserError for anything but texts and paths."""
    return [as_path(one, name) for one in as_list(value, (str, PathLike), name, "a path")]


def check_choice(value: object, known: Collection[str], name: str) -> None:
    """Raise UserError unless a value is one of the known ones."""
    if not isinstance(value, str) or value not in known:
        hint = suggestion(value, known) if isinstance(value, str) else f"Known: {', '.join(known)}."
        raise UserError(f"`{name}` cannot be {shortened(value)}. {hint}".rstrip())


def shortened(value: object) -> str:
    """Return a value for a message, with its type: at most 80 characters.

    >>> shortened(3)
    '3 (int)'
    """
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:60] + '...'} ({type(value).__name__:.15})"


# --- names ------------------------------------------------------------------------------------------------------------
# Names that come from elsewhere, such as a worker or a server: what is accepted as one.
#
# A text that is accepted is short and holds no sentence, so that it can be logged and shown where no text of a prompt
# or completion may be.

LONGEST = 80
"""Most characters of the names of benchmarks and workers."""

LONGEST_REPORTED = 200
"""Most characters of a name that a server reports."""

_BENCHMARK = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_WORKER = re.compile(r"\w[\w.:@+-]*")
_REPORTED = re.compile(r"[A-Za-z0-9._:/@+~#=%,\\-]+")
_TAG = re.compile(r"[0-9a-f]{16}")
_START = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|\+\d\d:\d\d)")


def is_benchmark_name(text: str) -> bool:
    """Return True for the name of a benchmark: at most 80 characters in snake case."""
    return len(text) <= LONGEST and _BENCHMARK.fullmatch(text) is not None


def is_worker_name(text: str) -> bool:
    """Return True for the name of a worker: at most 80 letters, digits and the characters `_ . : @ + -`."""
    return len(text) <= LONGEST and _WORKER.fullmatch(text) is not None


def is_model_tag(text: str) -> bool:
    """Return True for the hash of a model's definition, in 16 hexadecimal digits."""
    return _TAG.fullmatch(text) is not None


def is_start_time(text: str) -> bool:
    """Return True for the start of a fresh run, an ISO 8601 time with its zone."""
    return _START.fullmatch(text) is not None


def reported_name(text: str) -> str:
    """Return what a server reports, such as its model, if it is a name; else a hash in its place.

    A server can put any text there, that of a prompt included. The hash still shows whether it changed.

    >>> reported_name("gpt-4o-2024-08-06"), reported_name("Mr. John Doe, 62")
    ('gpt-4o-2024-08-06', 'sha256:194c4638840309f1')
    """
    if not text or (len(text) <= LONGEST_REPORTED and _REPORTED.fullmatch(text)):
        return text
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
