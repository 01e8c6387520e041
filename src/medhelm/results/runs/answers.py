"""Stored prompts: options of choice questions, the option that each completion names, and texts.

The store keeps texts and scores; the option is read from the text by the reader of the metrics. What was read is kept
in memory for each file of records.

One instance of a benchmark with what every stored run made of it, as JSON and as text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.benchmarks.prompts import LETTERS
from medhelm.domain import RULES, Benchmark, Instance, Reference, Rule, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import split_reasoning, strip_reasoning
from medhelm.domain.run import ANSWER_AFTER, SHORT_ID
from medhelm.domain.text import listed
from medhelm.errors import UserError, suggestion
from medhelm.io.files import address
from medhelm.io.parquet import connect, sql_path
from medhelm.results.comparable import select_runs, store_label
from medhelm.results.formats.tables import printable
from medhelm.results.options import EVERY_RUN, RunFilter
from medhelm.results.runs.selection import choose_variants, filter_runs
from medhelm.scoring.answers.text import final_answer
from medhelm.scoring.metric import too_long
from medhelm.scoring.metrics import METRICS
from medhelm.scoring.metrics.matching import READS_OPTION
from medhelm.storage.damage import intact_runs
from medhelm.storage.judgments import read_explanations
from medhelm.storage.privacy import Pseudonyms
from medhelm.storage.runs import load_runs, read_columns, read_prompt, read_prompt_rows, read_record
from medhelm.storage.store import open_store, stored_folder

if TYPE_CHECKING:
    import duckdb

MOST_FILES = 2_000
"""Files of records whose answers are kept in memory; then all are dropped."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one choice question."""

    labels: tuple[str, ...]
    """Names of the options in completions: letters, or their texts."""
    texts: tuple[str, ...]
    """Texts of the options, in the order shown."""
    correct: tuple[str, ...]
    """Labels of the correct options."""


def read_options(prompts: Sequence[Path], definition: Benchmark | None, metric: str) -> Mapping[str, Options]:
    """Read the options of the instances in these files, by id; instances without options are left out.

    Empty for a metric that reads no option. `definition`: that of the benchmark, if known.
    """
    known = METRICS.if_usable(metric)
    if known and (known.reads is None or known.reads.answer != READS_OPTION.answer):
        return {}
    files = tuple((path, path.stat().st_mtime_ns) for path in prompts if path.is_file())
    return _options(files, definition.choice_labels if definition else "")


@lru_cache(maxsize=64)
def _options(files: Sequence[tuple[Path, int]], form: str) -> Mapping[str, Options]:
    """Read the options. `form`: whether letters or texts are their names; empty: as the first prompt has them."""
    found: dict[str, Options] = {}
    for path, _ in files:
        named = form or _form_in(path)
        rows = read_prompt_rows(path, 'instance_id, choices, "references"', "WHERE choices <> '[]'")
        for name, choices, references in rows or ():
            found.setdefault(name, _made(json.loads(choices), json.loads(references), named))
    return found


def _form_in(path: Path) -> str:
    """Return the form of the names of options in the first prompt that has any; empty without one."""
    for row in read_prompt_rows(path, "messages, choices", "WHERE choices <> '[]' LIMIT 1") or ():
        messages, choices = map(json.loads, row)
        labels = option_labels(None, {"messages": messages, "choices": choices})
        return "texts" if labels == choices else "letters"
    return ""


def _made(texts: Sequence[str], references: Sequence[Mapping[str, Any]], form: str) -> Options:
    labels = texts if form == "texts" else LETTERS[: len(texts)]
    right = {one["text"].strip() for one in references if one["correct"]}
    correct = [label for label, text in zip(labels, texts, strict=False) if text.strip() in right]
    return Options(tuple(labels), tuple(texts), tuple(correct))


def option_labels(definition: Benchmark | None, prompt: Mapping[str, Any]) -> list[str]:
    """Return the names of the options of a stored prompt: letters, or their texts; none for an open question.

    Without a definition, texts are the names if each is a line of the prompt, without a letter before it.
    """
    choices: list[str] = prompt.get("choices", [])
    letters = list(LETTERS[: len(choices)])
    if definition is not None:
        return choices if definition.choice_labels == "texts" else letters
    lines = {line.strip() for message in prompt.get("messages", []) for line in message["content"].splitlines()}
    is_named_by_text = bool(choices) and len(letters) == len(choices) and lines.issuperset(map(str.strip, choices))
    return choices if is_named_by_text or len(letters) < len(choices) else letters


def option_reader(metric: str, prompt: Mapping[str, Any], labels: Sequence[str]) -> Callable[[str], str | None]:
    """Return the function that finds the label of the option that a completion names, with the reader of the metric.

    It returns "" if the completion names none, and None for an open question or a metric that reads no option.
    """
    choices = tuple(prompt.get("choices", ()))
    known = METRICS.if_usable(metric)
    reader = known.reads if known else READS_OPTION
    if not choices or len(labels) != len(choices) or reader is None or reader.answer != READS_OPTION.answer:
        return lambda _: None
    references = tuple(Reference(one["text"], one["correct"]) for one in prompt.get("references", ()))
    question = Instance(id="", fields={}, references=references, choices=choices, labels=tuple(labels))

    def read(text: str) -> str | None:
        if too_long(text):
            return None
        found = reader.find(text, question)
        return labels[found] if isinstance(found, int) else ""

    return read


# --- answers ----------------------------------------------------------------------------------------------------------

_known: dict[tuple[str, int], dict[str, str | None]] = {}
"""File of records and its time -> instance -> label of the option that its completion names; None without one."""


def read_answers(
    runs: Mapping[str, Run], options: Mapping[str, Options], ids: Collection[str] | None = None
) -> dict[str, dict[str, str]]:
    """Return model -> instance -> label of the option that its completion names; empty if it names none.

    Requests without a completion are left out. `ids`: the instances to read; None for all that have options.
    """
    wanted = set(options) if ids is None else set(ids) & options.keys()
    if not wanted:
        return {model: {} for model in runs}
    if len(_known) > MOST_FILES:
        _known.clear()
    files = {model: stored_folder(run) / "records.parquet" for model, run in runs.items()}
    kept = {model: _known.setdefault((str(path), path.stat().st_mtime_ns), {}) for model, path in files.items()}
    missing = {model: path for model, path in files.items() if not wanted <= kept[model].keys()}
    readers: dict[str, Callable[[str], str | None]] = {}
    for model, instance_id, text in _completions(missing, wanted, ids is None):
        if instance_id in options and instance_id not in kept[model]:
            if instance_id not in readers:
                own = options[instance_id]
                readers[instance_id] = option_reader("", {"choices": own.texts}, own.labels)
            mark = runs[model].settings.get(ANSWER_AFTER)
            marked = final_answer(text, mark) if mark else None
            kept[model][instance_id] = readers[instance_id](strip_reasoning(text) if marked is None else marked)
    for model in missing:
        kept[model] |= dict.fromkeys(wanted - kept[model].keys())
    found = {model: {name: own[name] for name in wanted} for model, own in kept.items()}
    return {model: {name: answer for name, answer in own.items() if answer is not None} for model, own in found.items()}


def _completions(files: Mapping[str, Path], ids: Collection[str], every: bool) -> Iterable[tuple[str, str, str]]:
    """Yield model, instance and completion."""
    models = {address(path): model for model, path in files.items()}
    if not models:
        return
    condition = "" if every else "AND instance_id IN (SELECT unnest(?::VARCHAR[]))"
    with connect() as connection:
        cursor = connection.execute(
            f"SELECT filename, instance_id, completion FROM read_parquet([{', '.join(map(sql_path, models))}], "  # noqa: S608
            f"union_by_name = true, filename = true) WHERE completion IS NOT NULL {condition}",
            [] if every else [list(ids)],
        )
        while rows := cursor.fetchmany(1000):
            for file, instance_id, text in rows:
                yield models[file], instance_id, text


# --- texts of prompts -------------------------------------------------------------------------------------------------


def ids_with_prompt_text(connection: duckdb.DuckDBPyConnection, files: Sequence[Path], text: str) -> Iterator[str]:
    """Yield the ids of instances whose prompt, choices or references contain a text in any case.

    Prompts are stored as JSON, whose keys must not match. A part of the text that JSON never escapes selects the rows
    that are parsed. DuckDB refuses a lone surrogate, which JSON of Python can hold: such rows are parsed here.
    """
    pattern = re.escape(text)
    plain = max(re.findall(r"[ !#-\[\]-~]+", text), key=len, default="")
    for path in files:
        if not path.is_file():
            continue
        cursor = connection.execute(
            f'SELECT instance_id, texts IS NULL, messages, choices, "references" FROM ('  # noqa: S608 - our own file
            f"SELECT *, {_PROMPT_TEXTS} AS texts FROM read_parquet({sql_path(path)}) "
            "WHERE regexp_matches(concat(messages, choices, \"references\"), ?, 'i')) "
            "WHERE texts IS NULL OR regexp_matches(texts, ?, 'i')",
            [re.escape(plain), pattern],
        )
        while rows := cursor.fetchmany(1000):
            for instance_id, is_unread, *columns in rows:
                if not is_unread or re.search(pattern, "\0".join(_texts(*columns)), re.IGNORECASE):
                    yield instance_id


_PROMPT_TEXTS = """
CASE WHEN json_valid(messages) AND json_valid(choices) AND json_valid("references") THEN concat_ws(chr(0),
    array_to_string(json_extract_string(messages, '$[*].content'), chr(0)),
    array_to_string(json_extract_string(choices, '$[*]'), chr(0)),
    array_to_string(json_extract_string("references", '$[*].text'), chr(0))) END
"""
"""SQL of all texts of a prompt, separated by NUL; NULL if DuckDB cannot parse them."""


def _texts(messages: str, choices: str, references: str) -> list[str]:
    """Parse all texts of a prompt."""
    contents = [one["content"] for one in json.loads(messages)]
    return [*contents, *json.loads(choices), *(one["text"] for one in json.loads(references))]


def read_prompts(files: Sequence[Path], instance_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Read the messages of these instances and of the first two in each file, by id; others are left out."""
    found: dict[str, list[dict[str, str]]] = {}
    condition = "WHERE instance_id IN (SELECT unnest(?::VARCHAR[])) OR position < 2"
    for path in files:
        rows = read_prompt_rows(path, "instance_id, messages", condition, list(instance_ids))
        found = {instance_id: json.loads(messages) for instance_id, messages in rows or ()} | found
    return found


# --- cases ------------------------------------------------------------------------------------------------------------


def find_instance(
    stores: Sequence[Path], benchmark: str, instance_id: str, wanted: RunFilter = EVERY_RUN
) -> dict[str, Any]:
    """Return one instance as JSON: prompt, references, and each run's record and judgments.

    `wanted`: only these runs are read; whether the leaderboard counts them depends on the others too.
    Raises: UserError if none of them has the instance.
    """
    opened = [(store_label(path, stores), open_store(path)) for path in stores]
    variants = wanted.variants
    runs = [
        (label, store, run) for label, store in opened for run in intact_runs(load_runs(store, variants=bool(variants)))
    ]
    runs = choose_variants(variants, runs, lambda one: one[2])
    names = {run.benchmark for _, _, run in runs}
    if benchmark not in names:
        places = ", ".join(map(str, stores))
        raise UserError(f"no run of `{benchmark}` in {places}. {suggestion(benchmark, names)}".strip())
    runs = [one for one in runs if one[2].benchmark == benchmark]
    counted = _counted_folders((label, run) for label, _, run in runs)
    completions = []
    prompt: Mapping[str, Any] | None = None
    for label, store, run in filter_runs(wanted, runs, lambda one: one[2]):
        if (record := read_record(run, instance_id)) is None:
            continue
        own = read_prompt(store.prompts_file(benchmark, run.benchmark_digest, run.data_digest), instance_id)
        prompt = prompt or (None if run.is_variant else own)
        judgments = read_explanations(run, instance_id)
        shown = {
            "model": run.model + label,
            "run_id": run.id,
            "judges": [judge.name for judge in run.judges],
            "counts": run.folder in counted,
            "tier": run.tier,
            "main_metric": run.main_metric,
            **record,
            **({"prompt": own} if run.is_variant else {}),
            "cluster": Pseudonyms.of_store(store).of(benchmark, record["cluster"]) if record["cluster"] else "",
        }
        completions.append({**shown, "judgments": judgments} if judgments else shown)
    if not completions:
        ids = list(
            dict.fromkeys(one for _, _, run in runs for one in read_columns(run, ["instance_id"])["instance_id"])
        )
        raise UserError(
            f"no run of {benchmark} has an instance `{instance_id}`. {suggestion(instance_id, ids)} Instances: "
            f"{listed(ids, 10)}. `medhelm export csv DIR --benchmark {benchmark}` writes all ids.".replace("  ", " ")
        )
    return {"benchmark": benchmark, "instance_id": instance_id, **(prompt or {}), "completions": completions}


def _counted_folders(found: Iterable[tuple[str, Run]]) -> set[Path | None]:
    """Return the folders of the runs of one benchmark that the leaderboard of their tier counts."""
    by_tier = group_by(found, lambda pair: pair[1].tier)
    return {run.folder for own in by_tier.values() for run in select_runs(own).runs.values()}


# --- text -------------------------------------------------------------------------------------------------------------


def case_to_text(case: Mapping[str, Any], rule: Rule) -> str:
    """Return a case of `find_instance` as text; scores of `rule` come first."""
    parts = [f"{case['benchmark']} / {case['instance_id']}"]
    if "messages" not in case:
        parts.append("(the prompt is not stored; `medhelm benchmarks preview` renders prompts from the data)")
    for message in case.get("messages", ()):
        parts.append(f"--- {message['role']}\n{printable(message['content'])}")
    for reference in case.get("references", ()):
        parts.append(
            f"--- {'correct' if reference['correct'] else 'incorrect'} reference\n{printable(reference['text'])}"
        )
    texts = {one["name"]: one["text"] for one in case.get("criteria", ())}
    n_runs = Counter(record["model"] for record in case["completions"])
    parts += [_completion_text(one, rule, texts, is_only_run=n_runs[one["model"]] == 1) for one in case["completions"]]
    return "\n\n".join(parts)


def _completion_text(record: Mapping[str, Any], rule: Rule, texts: Mapping[str, str], *, is_only_run: bool) -> str:
    """Return what a run made of the instance. `texts`: criterion -> its text, where it is the instance's own."""
    rules = sorted(RULES, key=lambda r: r != rule)
    scores = [
        f"{key.removesuffix(f'_{r}')} ({r}) {value:g}"
        for r in rules
        for key, value in record.items()
        if key.endswith(f"_{r}") and isinstance(value, float)
    ]
    if record["completion"] is None:
        text = f"no completion: {record['failure_code']} ({record['failure_boundary']}): {record['failure_message']}"
    else:
        split = split_reasoning(record["completion"])
        text = printable(split.answer) or "(empty)"
        if hidden := len(split.reasoning) + len(record.get("reasoning") or ""):
            scores.append(f"{hidden:,} characters of reasoning not shown")
    tokens = f"{record['input_tokens']} + {record['output_tokens']} tokens, {record['latency_s']:.2f} s"
    if record.get("left_out"):
        scores.append(f"prompt truncated by {record['left_out']:,} characters")
    if record.get("unreadable"):
        scores.append("no readable answer")
    if record.get("suspicions"):
        scores.append(f"signs of prompt injection: {record['suspicions']}")
    facts = "; ".join(_case_facts(record, is_only_run=is_only_run))
    lines = [f"=== {record['model']}{facts and f' ({facts})'}", printable(text), f"[{'; '.join([*scores, tokens])}]"]
    return "\n".join([*lines, *(_judgment_text(judgment, texts) for judgment in record.get("judgments", ()))])


def _case_facts(record: Mapping[str, Any], *, is_only_run: bool) -> list[str]:
    """Return what distinguishes a run in the heading of its completion; little if the model has no other run."""
    facts = [] if record["tier"] == "real" else [f"{record['tier']} rows"]
    if not is_only_run:
        judges = f", judged by {', '.join(record['judges'])}" if record["judges"] else ""
        facts.append(f"run {record['run_id'][:SHORT_ID]}{judges}")
        facts.append(f"{'counted' if record['counts'] else 'not counted'} on the leaderboard")
    return facts


def _judgment_text(judgment: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """Return one line: judge, criterion with its points and text, grade and explanation."""
    name, points = judgment["criterion"], judgment.get("points")
    shown = " ".join(
        filter(None, [printable(name), f"[{points:+g}]" if points else "", printable(texts.get(name, ""))])
    )
    head = f"  {judgment['judge']}, {shown}: "
    if judgment["score"] is None:
        return head + f"no judgment: {judgment['failure_code']}: {printable(judgment['failure_message'] or '')}"
    if points:
        head += "met, " if judgment["score"] else "not met, "
    return head + f"{judgment['score']:g}  {printable(judgment['explanation'] or '')}".rstrip()
