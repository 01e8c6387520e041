"""MedAlign: instructions, a clinician's responses and records in XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from medhelm.benchmarks.hooks import Hook, load_hook
from medhelm.errors import DataError
from tests.support.benchmarks import library

QUESTIONS = "clinician-reviewed-model-responses.tsv"
RESPONSES = "clinician-instruction-responses.tsv"
RECORDS = "medalign_ehr_xml"


@pytest.fixture
def hook() -> Hook:
    return load_hook(library.LIBRARY / "medalign/hooks.py")


def question(number: object, person: object) -> dict[str, object]:
    return {"file": QUESTIONS, "instruction_id": number, "question": "What now?", "person_id": person}


def response(number: object, text: str = "This.", annotator: str = "Annotator_1") -> dict[str, object]:
    return {"file": RESPONSES, "instruction_id": number, "annotator_num": annotator, "clinician_response": text}


def record(name: object, text: str = "<record>\n</record>\n") -> dict[str, object]:
    return {"file": f"{RECORDS}/{name}.xml", "text": text}


def written(folder: Path, *rows: Mapping[str, object]) -> Path:
    return library.written("medalign", rows, folder)


def test_instructions_follow_the_annotators_responses(hook: Hook, tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        *(question(number, 7) for number in (1, 2, 3, 4)),
        question(3, 7),
        response(3),
        response(2, "Other.", "Annotator_2"),
        response(1, "First."),
        response(1, "Second."),
        response(9),
        record(7),
        record(8),
    )
    assert [(row["id"], row["response"]) for row in hook(folder)] == [("3", "This."), ("1", "First.")]


def test_numbers_as_data_frames_write_them_are_read(hook: Hook, tmp_path: Path) -> None:
    folder = written(tmp_path, question("12.0", "7.0"), response("12"), record(7))
    (row,) = hook(folder)
    assert (row["id"], row["person"]) == ("12", "7")


LONG = "<record>\n" + "".join(f"  <visit>{i:04}</visit>\n" for i in range(500)) + "</record>\n"


def test_of_a_long_record_the_end_is_kept_from_the_start_of_a_line_and_the_published_reading_leaves_it_out(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hook.__globals__, "MOST_TOKENS", 256 + 25 + 600)
    folder = written(tmp_path, question(1, 7), question(2, 8), response(1), response(2), record(7, LONG), record(8))
    long, short = hook(folder)
    text = str(long["record"])
    note, _, kept = text.partition("\n")
    assert note == "(earlier entries are left out)"
    assert LONG.strip().endswith(kept)
    assert kept.startswith("<visit>") or kept.startswith("  <visit>")
    assert 600 * 3.5 - 30 < len(kept) <= 600 * 3.5
    assert short["record"] == "<record>\n</record>"
    assert [row["id"] for row in hook(folder, variant="published")] == ["2"]


BAD: Sequence[tuple[list[dict[str, object]], str]] = [
    ([question("x1", 7), question(2, "y"), response(1), record(7)], r"row 1: 'x1' for '7', row 2: '2' for 'y'"),
    (
        [question(1, 7), question(1, 8), response(1), record(7)],
        "row 2: instruction 1 is about patient 8, above about 7",
    ),
    ([question(1, 7), response("one"), record(7)], r"row 1: 'one': instruction_id must be a whole number"),
    (
        [question(1, 7), question(2, 9), response(1), response(2), record(8)],
        r"no record 7.xml \(instruction 1\), 9.xml",
    ),
    ([question(1, 7), response(2), record(7)], "no response of Annotator_1"),
]


@pytest.mark.parametrize(("rows", "words"), BAD)
def test_files_that_do_not_fit_are_named(hook: Hook, tmp_path: Path, rows: list[dict[str, object]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        list(hook(written(tmp_path, *rows)))
