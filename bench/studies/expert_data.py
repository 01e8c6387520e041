"""Public data with experts' judgments of answers and notes, read into a few plain types.

The files are in `medi_qa` and `jury_validation` in the data folder. Each reader states what it leaves out.
"""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.scoring.metrics.rouge import words

GOOD = 3
"""From this grade on (correct but incomplete), an answer of MEDIQA can be the reference for others."""

LABELS = ("Contradiction", "Neutral", "Entailment")
"""Relations of an answer to a claim, from worst to best."""


@dataclass(frozen=True, slots=True)
class Graded:
    """An answer that experts graded from 1 (incorrect) to 4 (excellent)."""

    question: str
    """Id of the question: answers to the same one are not independent."""
    asked: str
    """The question."""
    text: str
    """The answer."""
    references: tuple[str, ...]
    """Answers known to be good; the answer is none of them."""
    grade: float
    """The experts' grade; the mean if there are several."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, an answer, and the labels of three physicians."""

    question: str
    """Id of the question: its claims are not independent."""
    answer: str
    """A model's answer."""
    claim: str
    """Statement that the answer may entail or contradict."""
    labels: tuple[int, ...]
    """Position in `LABELS` that each physician chose."""

    @property
    def majority(self) -> int:
        """Return the label that most physicians chose."""
        return max(self.labels, key=self.labels.count)


@dataclass(frozen=True, slots=True)
class Notes:
    """A conversation, three notes on it, and which of them each annotator prefers."""

    conversation: str
    """Between doctor and patient."""
    notes: Mapping[str, str]
    """System -> its note: GT a human, FT a fine-tuned model, ICL GPT-4."""
    preferred: tuple[frozenset[str], ...]
    """For each annotator the systems whose notes are preferred; several for a tie."""


def graded_sets(data: Path) -> dict[str, list[Graded]]:
    """Name -> all graded answers with at least one reference that they are not."""
    folder = data / "medi_qa"
    return {
        "MEDIQA test": _mediqa(folder / "MEDIQA2019-Task3-QA-TestSet-wLabels.xml"),
        "MEDIQA validation": _mediqa(folder / "MEDIQA2019-Task3-QA-ValidationSet.xml"),
        "MEDIQA training, LiveQA": _mediqa(folder / "MEDIQA2019-Task3-QA-TrainingSet1-LiveQAMed.xml"),
        "MEDIQA training, Alexa": _mediqa(folder / "MEDIQA2019-Task3-QA-TrainingSet2-Alexa.xml"),
        "LiveQA 2017": list(_liveqa(data / "jury_validation")),
        "MedQuAD": list(_medquad(data / "jury_validation")),
    }


def _mediqa(path: Path) -> list[Graded]:
    """Answers other than the one ranked first, which is their reference.

    Questions whose first answer has a grade below `GOOD` are left out: they have no good answer to compare with.
    """
    found = []
    for question in ET.parse(path).getroot().iter("Question"):
        asked = _text(question.find("QuestionText"))
        answers = list(question.iter("Answer"))
        first = next(answer for answer in answers if answer.get("ReferenceRank") == "1")
        if int(first.attrib["ReferenceScore"]) < GOOD:
            continue
        reference = _text(first.find("AnswerText"))
        found += [
            Graded(
                asked.casefold(),
                asked,
                _text(answer.find("AnswerText")),
                (reference,),
                float(answer.attrib["ReferenceScore"]),
            )
            for answer in answers
            if answer is not first
        ]
    return found


def _liveqa(folder: Path) -> Iterator[Graded]:
    """Answers of systems, each once although several systems gave it; without those graded -2, unreadable."""
    questions = _liveqa_questions(folder)
    path = folder / "liveqa_med_2017" / "TREC-2017-LiveQA-Medical-qrels-NIST-692.txt"
    lines = dict.fromkeys(path.read_text(encoding="utf-8").splitlines())
    for number, grade, text in (line.split(" ", 2) for line in lines):
        if int(grade) > 0:
            yield Graded(number, *_with_references(questions[number], text), float(grade))


def _medquad(folder: Path) -> Iterator[Graded]:
    """Answers from MedQuAD to the same questions. An answer with two grades counts with their mean."""
    questions = _liveqa_questions(folder)
    place = folder / "medquad_judged"
    with (place / "Answers-retrieved-from-MedQuAD_subset.csv").open(encoding="utf-8", newline="") as file:
        texts = {row["AnswerID"]: row["Answer"].partition("Answer:")[2].strip() for row in csv.DictReader(file)}
    grades: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in (place / "qrels_LiveQAMed2017_subset.txt").read_text(encoding="utf-8").splitlines():
        number, grade, answer = line.split()
        grades[number, answer].append(int(grade[0]))
    for (number, answer), given in grades.items():
        asked, text, references = _with_references(questions[number], texts[answer])
        if references:
            yield Graded(number, asked, text, references, sum(given) / len(given))


def _liveqa_questions(folder: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Number of a question -> the question as it was sent in, and its reference answers."""
    path = folder / "liveqa_med_2017" / "TREC-2017-LiveQA-Medical-Test-Questions-w-summaries.xml"
    return {
        question.attrib["qid"].removeprefix("TQ"): (
            f"{_text(question.find('.//SUBJECT'))} {_text(question.find('.//MESSAGE'))}".strip(),
            tuple(_text(answer) for answer in question.iter("ANSWER")),
        )
        for question in ET.parse(path).getroot()
    }


def _with_references(question: tuple[str, tuple[str, ...]], text: str) -> tuple[str, str, tuple[str, ...]]:
    """The question, the answer, and its references without those that are the answer, or hold it, or are in it."""
    asked, references = question
    return asked, text, tuple(reference for reference in references if not _within_each_other(text, reference))


def _within_each_other(one: str, other: str) -> bool:
    """Return whether one text contains the words of the other in the same order, without gaps."""
    first, second = (f" {' '.join(words(text))} " for text in (one, other))
    return first in second or second in first


def claims(data: Path) -> list[Claim]:
    """All claims of K-QA that physicians labelled."""
    with (data / "jury_validation" / "k_qa" / "NLI_medical_annotator.csv").open(encoding="utf-8", newline="") as file:
        return [
            Claim(
                row["Question"],
                row["answer"],
                row["claim"],
                tuple(LABELS.index(row[f"label_{number}"]) for number in range(3)),
            )
            for row in csv.DictReader(file)
        ]


def note_preferences(data: Path) -> list[Notes]:
    """The conversations of ACI-Bench whose notes annotators compared."""
    folder = data / "jury_validation" / "aci_bench_note_preferences"
    columns = ("clinical note A", "clinical note B", "clinical note C")
    systems = {row["example_id"]: [row[name] for name in columns] for row in _tsv(folder / "systems_key.tsv")}
    annotated = [
        {row["example_id"]: row["preferred"] for row in _tsv(folder / "annotations" / f"annotator_{number}.tsv", 2)}
        for number in (1, 2, 3)
    ]
    found = []
    for row in _tsv(folder / "human_eval.tsv"):
        name = row["example_id"]
        of_letter = dict(zip("ABC", systems[name], strict=True))
        chosen = tuple(frozenset(of_letter[letter] for letter in said[name].split("/")) for said in annotated)
        notes = {system: row[column] for system, column in zip(systems[name], columns, strict=True)}
        found.append(Notes(row["doctor-patient dialogue"], notes, chosen))
    return found


def _tsv(path: Path, skip: int = 0) -> Sequence[dict[str, str]]:
    """Rows of a table separated by tabs, below `skip` records that are no part of it."""
    with path.open(encoding="utf-8", newline="") as file:
        records = list(csv.reader(file, delimiter="\t"))[skip:]
    return [dict(zip(records[0], record, strict=False)) for record in records[1:]]


def _text(element: ET.Element | None) -> str:
    """The text of an element, blanks put together."""
    return " ".join((element.text or "").split()) if element is not None else ""
