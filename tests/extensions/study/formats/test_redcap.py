"""REDCap: a data dictionary that a project accepts, and exports of records as REDCap writes them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from medhelm.errors import ConfigError
from medhelm.extensions.study.formats.exchange import RaterCases, rater_cases
from medhelm.extensions.study.formats.redcap import HEADER, MOST_NAME, read_redcap, variable_names, write_redcap
from medhelm.extensions.study.types import CaseRating, InstrumentForm
from medhelm.io.spreadsheets import is_formula
from tests.support.offline_studies import offline_study

Rows = list[dict[str, str]]


def rows_of(content: bytes) -> Rows:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def export(cases: RaterCases, file: Path, edit: Callable[[Rows], object], *, labels: bool = False) -> Path:
    """Write the records as REDCap exports them: with columns of its own, with raw values or with labels."""
    files = write_redcap(cases)
    records, fields = rows_of(files["-records.csv"]), {one[HEADER[0]]: one for one in rows_of(files["-dictionary.csv"])}
    edit(records)
    for one in records:
        one.update(redcap_data_access_group="ward", rating_complete="2")
    if labels:
        records = [
            {_label(fields, name): _value(fields, name, value) for name, value in one.items()} for one in records
        ]
    with file.open("w", newline="", encoding="utf-8-sig") as new:
        writer = csv.DictWriter(new, list(records[0]), lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(records)
    return file


def _label(fields: dict[str, dict[str, str]], name: str) -> str:
    return fields[name]["Field Label"] if name in fields else "Complete?" if name.endswith("complete") else name


def _value(fields: dict[str, dict[str, str]], name: str, value: str) -> str:
    choices = fields[name]["Choices, Calculations, OR Slider Labels"] if name in fields else ""
    return dict(one.split(", ", 1) for one in choices.split(" | ")).get(value, value) if choices else value


def read(cases: RaterCases, file: Path) -> dict[int, CaseRating]:
    return {one.number: one.rating for one in read_redcap(file, lambda _: cases).ratings}


def fill_in(records: Rows) -> None:
    records[0].update(accurate="4", clear="cannot_judge", clear_why="No labs", harm_severity="3", harm_likelihood="1")
    records[1].update(accurate="5", clear_why="of an earlier choice", comment="It's\r\nlong")


@pytest.mark.parametrize("labels", [False, True])
def test_records_are_read_with_raw_values_and_with_labels(cases: RaterCases, tmp_path: Path, labels: bool) -> None:
    found = read(cases, export(cases, tmp_path / "a.csv", fill_in, labels=labels))
    assert set(found) == {1, 2}
    assert found[1].grades == {"accurate": 4, "harm_severity": 3, "harm_likelihood": 1}
    assert found[1].not_judged == {"clear": "No labs"}
    assert (found[2].grades, found[2].not_judged) == ({"accurate": 5}, {})
    assert found[2].comment.split() == ["It's", "long"]


def change(column: str, value: str, row: int = 0) -> Callable[[Rows], None]:
    return lambda records: records[row].update({column: value})


def test_a_mistake_is_named_by_field(cases: RaterCases, tmp_path: Path) -> None:
    mistakes: tuple[tuple[Callable[[Rows], object], str], ...] = (
        (change("accurate", "7"), "accurate: must be a whole number from 1 to 5, is `7`."),
        (change("clear", "cannot_judge"), "clear_why: say why this cannot be judged."),
        (change("case_number", "99"), "case_number: `99` is not a case of rater_1 with these texts."),
        (change("digest", "t0"), "case_number: `1` is not a case of rater_1"),
        (lambda records: records.append(dict(records[0])), "case_number: case 1 occurs twice. Keep one record."),
        (change("rater", "rater_2"), "holds records of several studies or raters."),
        (lambda records: [one.pop("digest") for one in records], "has no column `digest`."),
    )
    for edit, message in mistakes:
        with pytest.raises(ConfigError, match=re.escape(message)):
            read(cases, export(cases, tmp_path / "a.csv", edit))


@pytest.mark.parametrize("form", InstrumentForm)
def test_the_dictionary_makes_a_project(tmp_path: Path, form: InstrumentForm) -> None:
    files = write_redcap(rater_cases(*offline_study(tmp_path / "s", form), "rater_1"))
    fields, records = rows_of(files["-dictionary.csv"]), rows_of(files["-records.csv"])
    assert tuple(fields[0]) == HEADER
    assert len(HEADER) == 18
    names = [one[HEADER[0]] for one in fields]
    assert names == list(records[0])
    assert names[0] == "record_id"
    assert len(set(names)) == len(names) == len({one["Field Label"] for one in fields})
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", name) and len(name) <= MOST_NAME for name in names)
    for one in fields:
        assert set(re.findall(r"\[(\w+)\]", one["Branching Logic (Show field only if...)"])) <= set(names)
        choices = one["Choices, Calculations, OR Slider Labels"]
        assert bool(choices) == (one["Field Type"] == "radio")
        codes = [choice.split(", ")[0] for choice in choices.split(" | ")] if choices else []
        assert len(codes) == len(set(codes))
    assert len({one["record_id"] for one in records}) == len(records)
    for row in [*fields, *records]:
        assert not [cell for cell in row.values() if is_formula(cell) and not cell.startswith("'")]
        assert all(len(cell.encode()) < 65_535 for cell in row.values())


def test_names_of_variables_are_short_and_different() -> None:
    long = [f"{'a' * 40}_{n}" for n in range(30)] + ["comment", "digest", "x", "x_why", "Größe", "9"]
    names = variable_names(long)
    assert not [name for name in names.values() if "__" in name]
    derived = [f"{name}{end}" for name in names.values() for end in ("", "_why", "_text")]
    assert len(set(derived)) == len(derived)
    assert max(map(len, derived)) <= MOST_NAME
