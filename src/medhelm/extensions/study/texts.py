"""Texts of a case as raters see them: material, question, references, and the completions in one plain style.

Texts in one plain style, so that formatting does not tell raters which model wrote them.

No word and no number is added, lost or moved: only marks, symbols and white space change. Where a mark may have a
meaning of its own, such as `- 2.5` or `+ fever` at the start of a line, it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from medhelm.benchmarks.prompt_parts import prompt_parts
from medhelm.benchmarks.prompts import LETTERS, OPTIONS, placeholders
from medhelm.domain import Benchmark, Criterion, Run
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.text import group_title
from medhelm.errors import UserError
from medhelm.extensions.study.instruments import check_of, criteria_of
from medhelm.extensions.study.types import Assignment, InstrumentCriterion, Item, Study
from medhelm.storage.ratings import completion_digest as completion_digest
from medhelm.storage.runs import RECORDS, read_columns, read_prompt
from medhelm.storage.store import NAME, Store, read_run

# --- leveling ---------------------------------------------------------------------------------------------------------

MOST_LEVELS = 4
"""Deepest level of a list that keeps an indent of its own."""

LONG_LINE = 60
"""Characters from which a line that ends within a sentence is taken for one that was broken to a fixed width."""

_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BLANKS = re.compile(r"[^\S\n]|[\x00-\x08\x0e-\x1f\x7f]")
_INVISIBLE = re.compile(r"[\u00ad\u200b\u2060\ufeff\u202a-\u202e]+")
_SIGNS = {"✅": "✓", "✔": "✓", "☑": "✓", "❌": "✗", "✖": "✗", "✘": "✗", "❎": "✗"}  # marks of right and wrong stay
_EMOJI = re.compile(
    r"[ ]*(?:(?![✓✗☐★☆♀♂❶-➓])[\U0001F000-\U0001F0FF\U0001F10D-\U0001F12F\U0001F16A-\U0001FAFF\u2600-\u27BF\u2B50\u2B55]"
    r"|[\ufe0f\u20e3\u200d\U000E0020-\U000E007F])+[ ]*"
)
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "…": "...", "‐": "-", "‑": "-"})
_DASH = re.compile(r"[ ]*—[ ]*")

_RULE = re.compile(r"[ ]*(?:[-*_][ ]*){3,}|[ ]*={3,}[ ]*")
_TABLE_RULE = re.compile(r"[ ]*\|?[ ]*:?-+:?[ ]*(?:\|[ ]*:?-+:?[ ]*)*\|?[ ]*")
_FENCE = re.compile(r"[ ]*(?:`{3,}|~{3,})[ ]*")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ ]+(?=\S)")
_QUOTE = re.compile(r"(?:[ ]{0,3}>[ ]?)+(?=[^\W\d])")
_BULLETS = "[-*•◦▪‣●○·▸►➤➢–]"
_BULLET = re.compile(rf"([ ]*)({_BULLETS})[ ]+(?=\S)")
_INNER_BULLET = re.compile(rf"([*_]{{0,3}})[ ]*{_BULLETS}[ ]+(?=\S)")
_IN_TABLE = re.compile(r"[ ]*\|.*\|[ ]*")
_LINK = re.compile(r"!?\[([^\[\]\n]{1,500})\]\((\S{1,500}?)\)")
_CODE = re.compile(r"(`+)(?!`)(.{1,1500}?)(?<!`)\1(?!`)")
_EMPHASIS = (
    re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])((?:(?!\n\n).){1,1500}?)(?<=[^\s*])\1(?!\*)", re.DOTALL),
    re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])((?:(?!\n\n).){1,1500}?)(?<=[^\s_])\1(?!\w)", re.DOTALL),
)

_UNPAIRED = re.compile(r"(?<!\w)\*{2,}(?=[^\W\d])|(?<=[^\W\d])\*{2,}(?!\w)|(?<=[:.!?])\*{2,}(?!\w)|(?<=• )\*{2,}(?=\S)")


def leveled(text: str) -> str:
    r"""Return a completion in the plain style of all cases, without its reasoning.

    Marks of headings, emphasis, code and quotes are dropped; bullets, quotation marks and dashes have one form; rows of
    tables are lines with `|` between cells; formulas stay as they are written; emoji and empty lines are dropped; lines
    that were broken to a fixed width are joined.

    >>> leveled("## Plan\n\n* **Aspirin** 81 mg 💊\n* follow-up")
    'Plan\n\n• Aspirin 81 mg\n• follow-up'
    """
    text = _LINE_ENDS.sub("\n", strip_reasoning(text))
    text = _BLANKS.sub(lambda found: "    " if found[0] == "\t" else " ", text)
    text = _INVISIBLE.sub(_gap, text)
    text = _EMOJI.sub(_gap_of_emoji, "".join(_SIGNS.get(sign, sign) for sign in text)).translate(_QUOTES)
    text = "\n".join(_without_marks(text.split("\n")))
    text = _CODE.sub(_inner, _LINK.sub(r"\1 (\2)", text))
    for pattern in (*_EMPHASIS, *_EMPHASIS):  # twice: bold in italic
        text = pattern.sub(_inner, text)
    text = _UNPAIRED.sub("", text)
    text = _DASH.sub(" – ", text)
    return "\n".join(joined_lines([_single_blanks(line) for line in text.split("\n")])).strip()


def _gap(found: re.Match[str]) -> str:
    """Return what replaces something between two parts of a text: a space if words would grow together."""
    text = found.string
    before, after = text[max(found.start() - 1, 0) : found.start()], text[found.end() : found.end() + 1]
    return " " if before.isalnum() and after.isalnum() else ""


def _gap_of_emoji(found: re.Match[str]) -> str:
    """Return what replaces emoji: nothing at an end of a line and before punctuation, else a space."""
    text = found.string
    before, after = text[max(found.start() - 1, 0) : found.start()], text[found.end() : found.end() + 1]
    return "" if before in ("", "\n") or after in ("", "\n", *".,;:!?)]") else " "


def _inner(found: re.Match[str]) -> str:
    """Return a marked text without its marks, apart from a word that follows at once."""
    after = found.string[found.end() : found.end() + 1]
    before = found.string[max(found.start() - 1, 0) : found.start()]
    left = " " if before.isalnum() and found[2][:1].isalnum() else ""
    return left + found[2] + (" " if after.isalnum() and found[2][-1:].isalnum() else "")


def _without_marks(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines without marks of headings, rules, code, quotes and tables, and with bullets in one form."""
    has_plus = any(line.lstrip(" ").startswith("+ ") for line in lines)
    bullets = {found[2] for line in lines if (found := _BULLET.match(line)) and not line[found.end()].isdigit()}
    if has_plus:
        bullets.discard("-")  # `+` and `-` may mean present and absent
    indents: list[int] = []
    for line in lines:
        if "|" in line and _TABLE_RULE.fullmatch(line):
            continue
        if _RULE.fullmatch(line):
            yield ""
            continue
        fence = _FENCE.match(line)
        line = line[fence.end() :] if fence else line
        heading = _HEADING.match(line)
        if heading:
            yield from ("", line[heading.end() :].rstrip("# "), "")
            continue
        line = line[quote.end() :] if (quote := _QUOTE.match(line)) else line
        found = _BULLET.match(line)
        if found and found[2] in bullets:
            indent = len(found[1])
            while indents and indents[-1] >= indent:
                indents.pop()
            indents.append(indent)
            rest = line[found.end() :]
            while (again := _INNER_BULLET.match(rest)) and not rest[again.end()].isdigit():
                rest = again[1] + rest[again.end() :]
            yield "  " * min(len(indents) - 1, MOST_LEVELS - 1) + "• " + rest
            continue
        indents = indents if line.strip() == "" else []
        if _IN_TABLE.fullmatch(line):
            line = " | ".join(cell.strip() for cell in line.strip(" ")[1:-1].split("|"))
        yield line.strip()


def _single_blanks(line: str) -> str:
    """Return a line with single spaces; a bullet keeps its indent."""
    text = re.sub(r" {2,}", " ", line.strip())
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + text if text.startswith("•") else text


def joined_lines(lines: Sequence[str]) -> list[str]:
    """Return lines with at most one empty line between them, and lines that were broken within a sentence as one."""
    kept: list[str] = []
    for line in lines:
        last = kept[-1] if kept else ""
        if len(last) >= LONG_LINE and last[-1].isalnum() and line[:1].islower() and "|" not in line + last:
            kept[-1] += f" {line}"
        elif line or last:
            kept.append(line)
    return kept


# --- texts ------------------------------------------------------------------------------------------------------------

WORDS_PER_MINUTE = 230
"""Words that a clinician reads in a minute."""

SECONDS_PER_CRITERION = 20
"""Seconds to think about and answer one question."""

SHORT_FIELD = 600
"""Characters up to which a field of the prompt is read as part of the question."""

LONG_SECTION = 8_000
"""Characters from which material is split into several sections."""

_CUE = re.compile(r"\n\s*(?:\S+[^\S\n]*){1,5}:\s*$")
"""A last line that only shows a model where to go on, such as `Answer:`."""

_OUTPUT_FORMAT = re.compile(
    r"^(?:output|reply|respond|answer|return|your (?:reply|answer|response))\b.*"
    r"\b(?:only|nothing else|nothing but|json|without (?:further|other|any)|no (?:words|letters))\b.*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of a prompt that is about the form of the output alone."""


@dataclass(frozen=True, slots=True)
class MaterialSection:
    """A part of the material."""

    title: str
    """Its name."""
    text: str
    """The part, as the model read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTexts:
    """All that a rater reads and answers in one case."""

    material: tuple[MaterialSection, ...]
    """The long parts of the prompt, such as a note; empty if it has none."""
    question: str
    """Request to the model, with the short parts of the prompt."""
    references: tuple[str, ...]
    """Correct answers; empty unless the study shows them."""
    completions: tuple[str, ...]
    """The completion in the plain style; of two, the left one first."""
    criteria: tuple[InstrumentCriterion, ...]
    """Questions to the rater, those on harm last."""

    @property
    def seconds(self) -> float:
        """Return the seconds that a rater is expected to need: for reading, and for each question."""
        read = (self.question, *(one.text for one in self.material), *self.completions)
        n_words = sum(len(text.split()) for text in read)
        return 60 * n_words / WORDS_PER_MINUTE + SECONDS_PER_CRITERION * len(self.criteria)


class CaseGoneError(UserError):
    """A completion of a case is not in the store any more."""


def case_texts(store: Store, study: Study, assignment: Assignment) -> CaseTexts:
    """Read the texts of a case. What is read of a run is kept in memory.

    Raises: CaseGoneError if a completion was deleted or replaced since the plan; StoreError for a damaged run.
    """
    items = [study.item(one) for one in assignment.items]
    prompt = _stored_prompt(store, items[0])
    material, question = material_of(store, items[0])
    # Only instruments without criteria ask those of the instance.
    own = tuple(check_of(Criterion(one["name"], one["text"], points=one["points"])) for one in prompt["criteria"])
    correct = tuple(one["text"] for one in prompt["references"] if one["correct"])
    return CaseTexts(
        material=material,
        question=question,
        references=correct if study.shows_reference else (),
        completions=tuple(leveled(completion_of(store, study, item)) for item in items),
        criteria=criteria_of(study, items[0].benchmark, own),
    )


def material_of(store: Store, item: Item) -> tuple[tuple[MaterialSection, ...], str]:
    """Return the material of an item's instance in sections, and its question."""
    return _parts(_stored_prompt(store, item), known_definition(store.folder, item.benchmark))


# --- the store --------------------------------------------------------------------------------------------------------


def completion_of(store: Store, study: Study, item: Item) -> str:
    """Return a completion as the store has it, without reasoning.

    Raises: CaseGoneError if it was deleted or replaced since the plan.
    """
    wanted = tuple(sorted({one.instance_id for one in study.items if one.run == item.run}))
    file = store.folder / item.run / RECORDS
    try:
        time = file.stat().st_mtime_ns
    except OSError:
        raise CaseGoneError("The text of this case was deleted from the store.") from None
    text = _completions(file.parent, time, wanted).get(item.instance_id)
    if text is None:
        raise CaseGoneError("The text of this case was deleted from the store.")
    if completion_digest(text) != item.completion_sha256:
        raise CaseGoneError("The text of this case was replaced in the store since the study was planned.")
    return strip_reasoning(text)


@lru_cache(maxsize=128)
def _completions(folder: Path, time: int, instance_ids: tuple[str, ...]) -> Mapping[str, str]:
    """Read completions of a run. `time`: that of its records, so that a new file is read again."""
    columns = read_columns(_run(folder, time), ["instance_id", "completion"])
    found = zip(columns["instance_id"], columns["completion"], strict=True)
    wanted = set(instance_ids)
    return {name: text for name, text in found if name in wanted and text is not None}


@lru_cache(maxsize=128)
def _run(folder: Path, time: int) -> Run:
    del time
    return read_run(folder / NAME)


def _stored_prompt(store: Store, item: Item) -> Mapping[str, Any]:
    """Return messages, choices, references and criteria of an item's instance, all empty if they are not stored.

    Raises: CaseGoneError if its run was deleted.
    """
    file = store.folder / item.run / NAME
    try:
        run = _run(file.parent, file.stat().st_mtime_ns)
    except OSError:
        raise CaseGoneError("The run of this case was deleted from the store.") from None
    path = store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
    found = _prompt(path, path.stat().st_mtime_ns, item.instance_id) if path.exists() else None
    return found or {"messages": [], "choices": [], "references": [], "criteria": []}


@lru_cache(maxsize=2048)
def _prompt(path: Path, time: int, instance_id: str) -> Mapping[str, Any] | None:
    del time
    return read_prompt(path, instance_id)


@lru_cache(maxsize=64)
def known_definition(store: Path, benchmark: str) -> Benchmark | None:
    """Return the definition of a benchmark: a built-in one, or one that the store remembers; None if it is unknown."""
    from medhelm.benchmarks.catalog import load_benchmarks, remembered_benchmarks
    from medhelm.scoring.metrics import METRIC_NAMES

    try:
        extra = remembered_benchmarks([store], (), metrics=METRIC_NAMES).folders
        return load_benchmarks([benchmark], metrics=METRIC_NAMES, extra=extra)[0]
    except UserError:
        return None


def definitions_of(store: Store, study: Study) -> dict[str, Benchmark]:
    """Return name -> definition of the benchmarks of a study, as far as they are known."""
    known = {name: known_definition(store.folder, name) for name in study.benchmarks}
    return {name: one for name, one in known.items() if one}


def titles_of(store: Store, study: Study) -> dict[str, str]:
    """Return benchmark -> its title for people, of those whose definition can be found."""
    return {name: one.title for name, one in definitions_of(store, study).items()}


# --- parts of the prompt ----------------------------------------------------------------------------------------------


def _parts(prompt: Mapping[str, Any], definition: Benchmark | None) -> tuple[tuple[MaterialSection, ...], str]:
    """Return the material of a prompt in sections, and its question with the short fields."""
    if not prompt["messages"]:
        return (), "The prompt of this case is not stored."
    choices = prompt["choices"]
    labels = choices if definition and definition.choice_labels == "texts" else LETTERS[: len(choices)]
    options = "\n".join(choices if labels == choices else [f"{a}. {b}" for a, b in zip(labels, choices, strict=False)])
    asked: list[str] = []
    material: list[MaterialSection] = []
    parts = prompt_parts(prompt["messages"], choices, labels, definition)
    inserted: dict[str, str] = {}
    for part in parts:
        if part.title == "Instruction":  # of a template: anything else can be the words of a patient
            asked.append(_without_output_format(part.text))
            inserted = dict.fromkeys(map(group_title, placeholders(definition.prompt if definition else "")), "")
            inserted |= {group_title(OPTIONS): options} if options else {}
        elif part.is_instruction or part.title in ("Last message", "End of the prompt") or len(parts) == 1:
            asked.append(part.text.strip())
        elif len(part.text) <= SHORT_FIELD and f"[{part.title}]" in "".join(asked):
            inserted[part.title] = part.text
        else:
            material += _sections(part.title, part.text.strip("\n"))
            inserted |= {part.title: f"(see {part.title} in the material)"} if part.title in inserted else {}
    question = "\n\n".join(text for text in asked if text)
    if inserted:
        places = re.compile("|".join(re.escape(f"[{title}]") for title in inserted))
        question = places.sub(lambda found: inserted[found[0][1:-1]].strip("\n"), question).rstrip()
    if options and options not in question:
        question = f"{question}\n\n{options}"
    return tuple(material), question


def _without_output_format(text: str) -> str:
    """Return an instruction without lines about the form of the output, and without the cue to go on."""
    kept = _CUE.sub("", "\n" + _OUTPUT_FORMAT.sub("", text.strip()).rstrip())
    return "\n".join(joined_lines((kept.strip() or text.strip()).split("\n")))


def _sections(title: str, text: str) -> Iterator[MaterialSection]:
    """Split a long text at empty lines, else at the ends of lines or words."""
    pieces: list[str] = []
    while len(text) > LONG_SECTION:
        least = LONG_SECTION // 2
        ends = (text.rfind(mark, least, LONG_SECTION) for mark in ("\n\n", "\n", " "))
        end = next((end for end in ends if end > 0), LONG_SECTION)
        pieces.append(text[:end])
        text = text[end:].lstrip("\n")
    pieces += [text] if text.strip() or not pieces else []
    for number, piece in enumerate(pieces, 1):
        yield MaterialSection(f"{title}, part {number} of {len(pieces)}" if len(pieces) > 1 else title, piece)


def shown_texts(store: Store, study: Study) -> dict[str, str]:
    """Return item -> its completion as raters see it, without those that are not in the store any more."""
    found = {}
    for item in study.items:
        try:
            found[item.id] = leveled(completion_of(store, study, item))
        except CaseGoneError:
            continue
    return found
