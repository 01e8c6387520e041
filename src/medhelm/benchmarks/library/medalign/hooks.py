"""MedAlign: one row for each instruction, with the record of the patient it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from medhelm.benchmarks.data.readers import read
from medhelm.errors import DataError
from medhelm.io.files import read_text

INSTRUCTIONS = "clinician-reviewed-model-responses.tsv"
RESPONSES = "clinician-instruction-responses.tsv"
RECORDS = "medalign_ehr_xml"

ANNOTATOR = "Annotator_1"
"""The annotator whose responses are the references."""

MOST_TOKENS = 100_000
FOR_COMPLETION = 256
FOR_TEMPLATE = 25
CHARACTERS_PER_TOKEN = 3.5
"""Of records in XML in the tokenizer cl100k_base: 3.4 where there are codes only, 3.8 with many notes."""

_SHOWN = 5


def rows(folder: Path, variant: str = "") -> Iterator[Mapping[str, object]]:
    """Yield {id, person, question, record, response} for every instruction that the annotator has responded to.

    They are in the order of the responses; if there are two for one instruction, the first counts. `id` is the number
    of the instruction. `record` is the XML text of the patient's record as it is; of one that is too long for a prompt
    of about 100,000 tokens only the end is kept, from the start of a line, below a line that says so. One record is in
    memory at a time. Skipped: responses without an instruction, and instructions without a response.

    With the variant `published`, instructions about a record that is too long are left out, as they were there.
    Raises: DataError with all instructions that are not numbered or have no record, and with records whose name is not
    a number.
    """
    questions = _questions(folder / INSTRUCTIONS)
    responses = _responses(folder / RESPONSES)
    records = _records(folder / RECORDS)
    asked = {number: questions[number] for number in responses if number in questions}
    lacking = [f"{person}.xml (instruction {number})" for number, (person, _) in asked.items() if person not in records]
    if lacking:
        raise DataError(f"{folder / RECORDS}: has no record {_listed(lacking)}. Get the folder again.")
    if not asked:
        raise DataError(f"{folder}: no response of {ANNOTATOR} in {RESPONSES} has its instruction in {INSTRUCTIONS}.")
    for number, (person, question) in asked.items():
        record = read_text(records[person])
        longest = _longest(question)
        if len(record) > longest and variant == "published":
            continue
        yield {
            "id": str(number),
            "person": str(person),
            "question": question,
            "record": _end_of(record, longest).strip(),
            "response": responses[number],
        }


def _longest(question: str) -> int:
    """Return the most characters of a record that fit into the prompt."""
    room = (MOST_TOKENS - FOR_COMPLETION - FOR_TEMPLATE) * CHARACTERS_PER_TOKEN - len(question)
    return max(int(room), 0)


def _end_of(record: str, longest: int) -> str:
    """Return the record, or the whole lines at its end that fit."""
    if len(record) <= longest:
        return record
    cut = len(record) - longest
    line_end = record.find("\n", cut)
    return f"(earlier entries are left out)\n{record[cut if line_end < 0 else line_end + 1 :]}"


def _questions(path: Path) -> dict[int, tuple[int, str]]:
    """Map the number of each instruction to its patient and its text; the file may repeat an instruction."""
    found: dict[int, tuple[int, str]] = {}
    problems = []
    for place, entry in _rows(path, ("instruction_id", "question", "person_id")):
        number, person = _number(entry["instruction_id"]), _number(entry["person_id"])
        if number is None or person is None:
            problems.append(f"{place}: {entry['instruction_id']!r:.30} for {entry['person_id']!r:.30}")
        elif found.get(number, (person, ""))[0] != person:
            problems.append(f"{place}: instruction {number} is about patient {person}, above about {found[number][0]}")
        else:
            found[number] = (person, entry["question"].strip())
    if problems:
        fix = "instruction_id and person_id must be whole numbers, and an instruction is about one patient."
        raise DataError(f"{path}, {_listed(problems)}: {fix}")
    return found


def _responses(path: Path) -> dict[int, str]:
    """Map the number of each instruction to the annotator's response."""
    found: dict[int, str] = {}
    problems = []
    for place, entry in _rows(path, ("instruction_id", "annotator_num", "clinician_response")):
        if entry["annotator_num"].strip() != ANNOTATOR:
            continue
        number = _number(entry["instruction_id"])
        if number is None:
            problems.append(f"{place}: {entry['instruction_id']!r:.30}")
        else:
            found.setdefault(number, entry["clinician_response"].strip())
    if problems:
        raise DataError(f"{path}, {_listed(problems)}: instruction_id must be a whole number.")
    return found


def _records(folder: Path) -> dict[int, Path]:
    """Map the number of each patient to the file of the record. Raises DataError for other names."""
    files = sorted(folder.glob("*.xml"))
    strange = [path.name for path in files if _number(path.name.partition(".")[0]) is None]
    if strange:
        raise DataError(f"{folder}: {_listed(strange)}: a record is named by its patient's number, such as 124.xml.")
    return {number: path for path in files if (number := _number(path.name.partition(".")[0])) is not None}


def _rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a table, each with its place in words. Raises: DataError if a column is missing."""
    for place, row in enumerate(read(path, "tsv"), start=1):
        missing = [name for name in needed if name not in row]
        if missing:
            raise DataError(f"{path}: has no column {', '.join(missing)}. Columns: {', '.join(row)}.")
        yield f"row {place}", {name: str(row[name]) for name in needed}


def _number(text: str) -> int | None:
    """Return a whole number, also as data frames write it ("124.0"); None for other texts."""
    digits = text.strip().removesuffix(".0")
    return int(digits) if digits.isdecimal() else None


def _listed(entries: Iterable[str]) -> str:
    """List the first few entries, and the number of others."""
    listed = list(entries)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
