"""MedCalc-Bench: the published rule against HELM, the corrected one against its authors' rule."""

from __future__ import annotations

import ast
import csv
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import open_question
from tests.support.cases import table

METRIC = METRICS["medcalc_accuracy"]

# Category, reference, limits, and the completions that HELM 0.5.16 scores with 1 and with 0.
MEDCALC = [
    (
        *("physical", "22.86", "21.717", "24.003"),
        ["22.86", "22.9", "21.717", "24.003", "2.29e1", " 22.9\n", "+22.9", "2_2.9", "\u0662\u0663"],
        ["22.86 kg/m2", "24.0031", "about 22.9", "22,9", "", "nan", "22.9.", "-22.9"],
    ),
    ("lab test", "15", "14.25", "15.75", [], ["15"]),
    ("Physical", "5", "4", "6", [], ["5"]),
    ("risk", "4", "4", "4", ["4", " 4\n"], ["4.0", "4.", "four", "04", "4 points"]),
    ("severity", "-1", "-1", "-1", ["-1"], []),
    ("risk", "1.5", "1.425", "1.575", ["1.5"], ["1.45"]),
    (
        *("date", "09/23/2014", "09/23/2014", "09/23/2014"),
        ["09/23/2014", "9/23/2014", " 09/23/2014\n"],
        ["09-23-2014", "2014-09-23", "September 23, 2014", "09/23/14", "09/24/2014", "09/23/2014.", "9 /23/2014"],
    ),
    (
        *("date", *["('14 weeks', '2 days')"] * 3),
        [
            "('14 weeks', '2 days')",
            "('13 weeks', '9 days')",
            "('14 weeks', '2 days') exactly",
            "('014 weeks', '02 days')",
        ],
        ["(14 weeks, 2 days)", "('14 weeks','2 days')", "('14 weeks', '3 days')", '("14 weeks", "2 days")', ""],
    ),
]


def instance(
    reference: str, low: str = "", high: str = "", *, calculator: str = "6", category: str = "physical"
) -> Instance:
    metadata = {"Category": category, "Calculator ID": calculator, "Lower Limit": low, "Upper Limit": high}
    return open_question(reference, **metadata)


def of_row(row: dict[str, str]) -> Instance:
    return open_question(row["Ground Truth Answer"], **row)


@table(("category", "reference", "low", "high", "right", "wrong"), MEDCALC)
def test_published_scores(
    category: str, reference: str, low: str, high: str, right: list[str], wrong: list[str]
) -> None:
    asked = instance(reference, low, high, category=category)
    scores = {reply: METRIC.function("published")(reply, asked) for reply in right + wrong}
    assert scores == {**dict.fromkeys(right, 1), **dict.fromkeys(wrong, 0)}


@pytest.mark.parametrize("calculator", [2, 3, 8, 23, 24, 46, 49, 56, 67])
@pytest.mark.parametrize("category", ["lab", "lab test", "dosage", "dosage conversion", "risk"])
def test_the_kind_of_answer_follows_from_the_calculator(calculator: int, category: str) -> None:
    asked = instance("1.5", "1.425", "1.575", calculator=str(calculator), category=category)
    assert METRIC.corrected("1.45", asked) == 1
    assert METRIC.corrected("1.4", asked) == 0


@table(
    ("reply", "value"),
    [("4", 1), ("4.0", 1), ("3.6", 1), ("4.5", 1), ("4.6", 0), ("3.5", 1), ("four", 1), ("4 or 5", 0)],
)
def test_points_are_rounded(reply: str, value: int) -> None:
    """Halves go to the even number, as in the authors' evaluation."""
    assert METRIC.corrected(reply, instance("4", "4", "4", calculator="4", category="risk")) == value


def test_a_wrong_answer_is_explained() -> None:
    explained = "25 is outside its limits, 21.717 to 24.003"
    assert METRIC.explain("25 kg/m²", instance("22.86", "21.717", "24.003"), "corrected") == explained
    explained = "3.4, to the nearest whole number, is not 4"
    assert METRIC.explain("3.4", instance("4", calculator="4"), "corrected") == explained


@table(
    ("asked", "words"),
    [
        (open_question("4"), "column `Calculator ID` is missing"),
        (instance("4", calculator="999"), "Calculator ID 999 is unknown"),
        (instance("4", "low", "5"), "`Lower Limit` is 'low'"),
        (instance("4", "3", "nan"), "`Upper Limit` is 'nan'"),
        (instance("soon", calculator="69"), "'soon' holds no number of weeks and days"),
    ],
)
def test_an_instance_that_cannot_be_scored_says_why(asked: Instance, words: str) -> None:
    with pytest.raises(DataError, match=words):
        METRIC.corrected("4", asked)


@pytest.fixture(scope="module")
def rows(data_dir: Path) -> list[dict[str, str]]:
    with (data_dir / "medcalc_bench" / "test_data.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_every_reference_of_the_real_data_is_right(rows: list[dict[str, str]]) -> None:
    """By the corrected rule all are; by the published one two categories never score, which is its ceiling."""
    asked = [of_row(row) for row in rows]
    assert len(asked) == 1047
    assert all(METRIC.corrected(one.expected, one) == 1 for one in asked)
    by_published = [METRIC.function("published")(one.expected, one) for one in asked]
    assert sum(by_published) == 680
    lost = Counter(row["Category"] for row, value in zip(rows, by_published, strict=True) if not value)
    assert lost == {"lab": 327, "dosage": 40}
    drawn = np.random.RandomState(0).permutation(1047)[:1000]
    assert sum(by_published[n] for n in drawn) == 646


def test_another_reference_of_the_real_data_is_rarely_right(rows: list[dict[str, str]]) -> None:
    """Each answer against the question of another calculator: the limits do exclude."""
    right = 0.0
    for n, row in enumerate(rows):
        right += METRIC.corrected(rows[(n + 500) % len(rows)]["Ground Truth Answer"], of_row(row))
    assert right < 0.05 * len(rows)


# --- real answers in the words of models ------------------------------------------------------------------------------


POINTS = {4, 15, 16, 17, 18, 20, 21, 25, 27, 28, 29, 32, 33, 36, 43, 45, 48, 51}

TEMPLATES = (
    "{value}",
    "**{value} {unit}**",
    "\\boxed{{{value}}}",
    '{{"answer": "{value} {unit}"}}',
    "{value}\n\nExplanation: {inputs}.",
    "{inputs}\n\nTherefore, the {name} is {value} {unit}.",
    "{inputs}\n\n**{value} {unit}**",
    "The answer is {value} {unit}. It follows from {inputs}.",
    "Using {name}:\n- {inputs}\n\nResult: {value} {unit}",
    "{explanation}\n\nAnswer: {value}",
)
BESIDE_THE_NOTE = (
    "{a} {b}\n\nThe {name} is {value}.",
    "{a}\n\n{b}\n\n{value}",
    "The answer is {value}. {a}",
    "{value}\n\n{a} {b}",
    "{name}: {value}\n\n{a}",
    "{a} {b} Therefore, the {name} is {value}.",
    "{a}\n\n{b}\n\n\\boxed{{{value}}}",
    'From the note: "{a}" So {name} = {value}.',
    "- {a}\n- {b}\n\n{name} = {value}",
    "The {name} is {value}, because {a}",
    "The {name} is {value}.\n\nRelevant facts: {a} {b}",
    "1. {a}\n2. {b}\n3. {name}: {value}",
    "{value} ({name}). {a}",
)
"""{a} and {b} are sentences of the patient note with other numbers."""

UNITS = {
    2: "mL/min", 3: "mL/min/1.73 m²", 5: "mm Hg", 6: "kg/m²", 7: "mg/dL", 9: "mL/min/1.73 m²", 10: "kg", 11: "msec",
    22: "mL/hr", 24: "mg", 26: "mEq/L", 30: "mOsm/kg", 38: "L", 39: "mEq/L", 40: "%", 44: "mg/dL", 49: "MME/day",
    56: "ms", 57: "ms", 58: "ms", 59: "ms", 60: "m^2", 61: "kg", 62: "kg", 63: "mEq/L", 65: "mEq/L", 66: "mEq/L",
}  # fmt: skip
"""Units of calculators; the others are points, or have no unit."""


def authors_verdict(answer: str, row: dict[str, str]) -> bool:
    """Return the verdict of the authors' program on a short answer, without evaluating it as code."""
    calculator = int(row["Calculator ID"])
    reference = row["Ground Truth Answer"]
    if calculator in (13, 68):
        found = re.match(r"(0?[1-9]|1[0-2])/(0?[1-9]|[12][0-9]|3[01])/(\d{4})", answer)
        day = datetime.strptime(found[0], "%m/%d/%Y") if found else None
        return day == datetime.strptime(reference, "%m/%d/%Y")
    if calculator == 69:
        pairs = [
            re.search(r"\(?[\"']?(\d+)\s*(weeks?)?[\"']?,?\s*[\"']?(\d+)\s*(days?)?[\"']?\s*\)?", text)
            for text in (answer.replace("[", "(").replace("]", ")"), reference)
        ]
        return all(pairs) and len({(int(pair[1]), int(pair[3])) for pair in pairs if pair}) == 1
    if calculator in POINTS:
        scale = re.search(r"(\d+) out of", answer)
        numbers = [scale[1]] if scale else re.findall(r"-?\d+(?:\.\d+)?", answer)
        return bool(numbers) and round(float(numbers[-1])) == float(reference)
    filtration = re.search(r"(-?\d+(?:\.\d+)?)\s*mL/min/1.73", answer)
    numbers = [filtration[1]] if filtration else re.findall(r"-?\d+(?:\.\d+)?", answer)
    return bool(numbers) and float(row["Lower Limit"]) <= float(numbers[-1]) <= float(row["Upper Limit"])


def inputs(row: dict[str, str]) -> str:
    """Write the quantities of a row as models list them: "age 65 years, weight 70 kg"."""
    listed = []
    for name, value in ast.literal_eval(row["Relevant Entities"]).items():
        parts = value if isinstance(value, list) else [value]
        listed.append(f"{name} {' '.join(str(part) for part in parts)}")
    return ", ".join(listed)


def worded(row: dict[str, str]) -> list[str]:
    calculator = int(row["Calculator ID"])
    parts = {
        "value": row["Ground Truth Answer"],
        "unit": UNITS.get(calculator, "points" if calculator in POINTS else ""),
        "name": row["Calculator Name"],
        "inputs": inputs(row),
        "explanation": row["Ground Truth Explanation"],
    }
    texts = []
    for template in TEMPLATES:
        joined = template if parts["unit"] else template.replace("{value} {unit}", "{value}")
        texts.append(joined.format(**{**parts, "value": json.dumps(parts["value"])[1:-1]}))
    return texts


def beside_the_note(row: dict[str, str]) -> list[str]:
    """Write the answer of a row beside two sentences of its note; none if the note has no two with a number."""
    sentences = [one.strip() for one in re.split(r"(?<=[.!?])\s+", row["Patient Note"]) if re.search(r"\d", one)]
    short = [one for one in sentences if len(one) < 400 and one[0].isupper()]
    if len(short) < 2:
        return []
    draw = random.Random(row["Row Number"])
    texts = []
    for template in BESIDE_THE_NOTE:
        a, b = draw.sample(short, 2)
        texts.append(template.format(a=a, b=b, name=row["Calculator Name"], value=row["Ground Truth Answer"]))
    return texts


def beside_a_wrapped_sentence(row: dict[str, str]) -> list[str]:
    """Write the answer of a row before a sentence of its note in which a line ends just before each number."""
    sentences = re.split(r"(?<=[.!?])\s+", row["Patient Note"])
    wrapped = [re.sub(r"(\S+(?: \S+){4,}?(?<!\d)) (?=\d)", r"\1\n", one) for one in sentences if len(one) < 400]
    answer = f"The {row['Calculator Name']} is {row['Ground Truth Answer']}, because "
    return [answer + one for one in wrapped if re.fullmatch(r"[A-Z][^\n]*\n[^\n]*", one)][:5]


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long), 10])
@pytest.mark.parametrize(
    ("write", "n_texts"), [(worded, 10_470), (beside_the_note, 11_258), (beside_a_wrapped_sentence, 2_668)]
)
def test_no_wording_of_a_real_answer_is_read_wrongly(
    rows: list[dict[str, str]], write: Callable[[dict[str, str]], list[str]], n_texts: int, every: int
) -> None:
    unread: list[str] = []
    wrong: list[str] = []
    n_read = 0
    for row in rows[::every]:
        asked = of_row(row)
        for text in write(row):
            n_read += 1
            if not METRIC.corrected(text, asked):
                reason = METRIC.explain(text, asked, "corrected")
                (wrong if reason else unread).append(f"{row['Calculator Name']}: {reason}: {text[-200:]!r}")
    assert not wrong, f"{len(wrong)} of {n_read}: {wrong[:20]}"
    assert len(unread) < 0.01 * n_read, unread[:20]
    assert n_read == n_texts if every == 1 else n_read > 0.8 * n_texts / every


def short_answers(row: dict[str, str]) -> list[str]:
    """Write the answer of a row in the forms that the authors' program reads."""
    calculator, reference = int(row["Calculator ID"]), row["Ground Truth Answer"]
    if calculator == 69:
        weeks, days = re.findall(r"\d+", reference)
        return [reference, f"({weeks}, {days})", f"[{weeks}, {days}]", f"{weeks}, {days}", f"{weeks} weeks {days} days"]
    rounded = re.fullmatch(r"-?\d+\.\d+", reference) and calculator not in POINTS
    near = f"{float(reference):.1f}" if rounded else reference
    unit, name = UNITS.get(calculator, "points"), row["Calculator Name"]
    return [reference, near, f"{near} {unit}", f"about {near}", f"{near} out of 20", f"{name}: {near}"]


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long), 5])
def test_what_the_authors_program_accepts_is_accepted(rows: list[dict[str, str]], every: int) -> None:
    """Short answers; a longer text is not an answer to their program, which reads a JSON object."""
    accepted = 0
    for row in rows[::every]:
        for text in short_answers(row):
            if authors_verdict(text, row):
                accepted += 1
                assert METRIC.corrected(json.dumps({"answer": text}), of_row(row)) == 1, (
                    text,
                    row["Calculator Name"],
                )
                assert METRIC.corrected(text, of_row(row)) == 1, (text, row["Calculator Name"])
    assert accepted > 4 * len(rows[::every])
