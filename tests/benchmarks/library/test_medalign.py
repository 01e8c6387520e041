"""MedAlign: instructions, a clinician's responses and records in XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sample_files import write_files
from medhelm.benchmarks.hooks import Hook, load_hook
from medhelm.errors import DataError
from tests.support.benchmarks.library import LIBRARY, benchmark

QUESTIONS = "clinician-reviewed-model-responses.tsv"
RESPONSES = "clinician-instruction-responses.tsv"
RECORDS = "medalign_ehr_xml"


@pytest.fixture
def hook() -> Hook:
    return load_hook(LIBRARY / "medalign/hooks.py")


def question(number: object, person: object, text: str = "What now?") -> dict[str, object]:
    return {"file": QUESTIONS, "instruction_id": number, "question": text, "person_id": person}


def response(number: object, text: str = "This.", annotator: str = "Annotator_1") -> dict[str, object]:
    return {"file": RESPONSES, "instruction_id": number, "annotator_num": annotator, "clinician_response": text}


def record(name: object, text: str = "<record>\n</record>\n") -> dict[str, object]:
    return {"file": f"{RECORDS}/{name}.xml", "text": text}


def written(folder: Path, *rows: Mapping[str, object]) -> Path:
    write_files(rows, folder / "medalign", benchmark=benchmark("medalign"))
    return folder / "medalign"


def ids(hook: Hook, folder: Path, **choice: str) -> list[str]:
    return [str(row["id"]) for row in hook(folder, **choice)]


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


def test_of_a_long_record_the_end_is_kept_from_the_start_of_a_line(
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
    n_lines = len(kept.splitlines())
    assert 600 * 3.5 - 30 < len(kept) <= 600 * 3.5
    assert n_lines == int((600 * 3.5 - len("What now?") - len("</record>\n")) // len("  <visit>0000</visit>\n")) + 1
    assert short["record"] == "<record>\n</record>"


def test_the_published_reading_leaves_out_long_records(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hook.__globals__, "MOST_TOKENS", 256 + 25 + 600)
    folder = written(tmp_path, question(1, 7), question(2, 8), response(1), response(2), record(7, LONG), record(8))
    assert ids(hook, folder) == ["1", "2"]
    assert ids(hook, folder, variant="published") == ["2"]


def test_a_long_record_on_one_line_is_cut_within_it(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hook.__globals__, "MOST_TOKENS", 256 + 25 + 100)
    folder = written(tmp_path, question(1, 7), response(1), record(7, "abcdefghij" * 100))
    (row,) = hook(folder)
    kept = str(row["record"]).removeprefix("(earlier entries are left out)\n")
    assert ("abcdefghij" * 100).endswith(kept)
    assert len(kept) == 350 - len("What now?")


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
    ([question(1, 7), response(1), record("EHR_7")], r"EHR_7\.xml: a record is named by its patient's number"),
    ([question(1, 7), response(2), record(7)], "no response of Annotator_1"),
    (
        [{"file": QUESTIONS, "instruction_id": 1, "person": 7}, response(1), record(7)],
        "has no column question, person_id",
    ),
    (
        [question(1, 7), {"file": RESPONSES, "instruction_id": 1}, record(7)],
        "no column annotator_num, clinician_response",
    ),
]


@pytest.mark.parametrize(("rows", "words"), BAD)
def test_files_that_do_not_fit_are_named(hook: Hook, tmp_path: Path, rows: list[dict[str, object]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        list(hook(written(tmp_path, *rows)))


def test_bytes_that_are_not_text_are_named(hook: Hook, tmp_path: Path) -> None:
    folder = written(tmp_path, question(1, 7), response(1), record(7))
    (folder / RECORDS / "7.xml").write_bytes(b"<record>\n\xff</record>")
    with pytest.raises(DataError, match=r"7\.xml, line 2, byte 9: byte 0xff is not utf-8 text"):
        list(hook(folder))


def test_an_empty_response_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = [question(1, 7), question(2, 7), response(1, ""), response(2), record(7)]
    written(tmp_path, *rows)
    dataset = open_dataset(benchmark("medalign"), data=tmp_path, tier="real")
    assert ([instance.id for instance in dataset], dataset.n_skipped) == (["2"], 1)
