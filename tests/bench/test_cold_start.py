"""The studies of cold start and of two checkouts: what they count, and how they compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.studies import before_after, cold_start
from bench.studies.cold_start import AFTER, BEFORE, RATIO, FirstRequest, alternate, code_lines


def test_lines_of_code_have_no_comments_docstrings_or_blanks(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(
        '"""Two\nlines."""\n\nimport os  # why\n\n# a comment\nX = """text\nof two lines"""\n"""Field."""\n'
        'def f(\n    x,\n):\n    """Doc."""\n    return x\n',
        encoding="utf-8",
    )
    assert code_lines(file) == 1 + 2 + 3 + 1


def test_checkouts_alternate_and_the_first_round_does_not_count() -> None:
    calls: list[str] = []

    def measure(name: str, seconds: list[float]) -> float:
        calls.append(name)
        return seconds.pop(0)

    before, after = [9.0, 1.0, 10.0, 2.0], [9.0, 0.5, 6.0, 1.0]
    found = alternate({BEFORE: lambda: measure("b", before), AFTER: lambda: measure("a", after)}, rounds=3)
    assert "".join(calls) == "ab" + "ba" + "ab" + "ba"
    assert found == {BEFORE: 2.0, AFTER: 1.0, RATIO: 0.5}


def test_one_checkout_has_no_ratio() -> None:
    assert alternate({AFTER: lambda: 1.0}, rounds=1) == {AFTER: 1.0}


def test_the_first_request_of_a_real_run_is_timed_and_its_modules_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_start, "LIMIT_S", 600)
    with FirstRequest().running() as server:
        seconds = cold_start.first_request_s(sys.executable, server, "pubmed_qa", tmp_path)
        files, listing = cold_start.loaded_modules(sys.executable, server, "pubmed_qa", tmp_path)
    assert seconds > 0
    assert len(files) == len(set(files)) > 20
    assert all("medhelm" in path.parts and path.suffix == ".py" for path in files)
    assert {"aiohttp", "json"} <= set(json.loads(listing.read_text(encoding="utf-8"))[1])
    assert cold_start.libraries_s(sys.executable, listing, tmp_path) > 0


def test_a_run_that_fails_shows_its_message(tmp_path: Path) -> None:
    with FirstRequest().running() as server, pytest.raises(SystemExit, match="no_such_benchmark"):
        cold_start.first_request_s(sys.executable, server, "no_such_benchmark", tmp_path)


@pytest.mark.parametrize(("ratio", "code", "word"), [(1.05, 0, "met"), (1.06, 1, "missed")])
def test_a_slower_checkout_misses_the_goal(
    ratio: float, code: int, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"--help": {BEFORE: 1.0, AFTER: ratio, RATIO: ratio}}
    monkeypatch.setattr(before_after, "compare", lambda pythons, **_: found)
    assert before_after.main(["--before", sys.executable]) == code
    row = capsys.readouterr().out.splitlines()[-1]
    assert [cell.strip() for cell in row.split("|")[1:-1]] == [
        "--help",
        "1.000 s",
        f"{ratio:.3f} s",
        f"{ratio:.2f}",
        word,
    ]
    assert before_after.main(["--before", sys.executable, "--json"]) == code
    assert json.loads(capsys.readouterr().out) == found


def test_there_must_be_a_checkout_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        before_after.main([])
    assert ended.value.code == 2
    assert "--before is required" in capsys.readouterr().err
