"""`medhelm filter-references`: the contract that scripts rely on."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.benchmarks.open_ended import make_open_benchmark, marks_as_outside, report_number, row, verdict
from tests.support.cli import Medhelm, assert_refused
from tests.support.programs import finish, start
from tests.support.servers.openai import Answer, Server


def test_the_whole_command(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    """Mark, then run two models, then look at what is stored."""
    server.answer_with(marks_as_outside(1, 4))
    place = make_open_benchmark(tmp_path)
    marked = medhelm("filter-references", place, "--judge", server.model("judge"), "--json")
    assert (marked.code, marked.err, server.count) == (0, "", 6)
    (found,) = marked.json["benchmarks"]
    assert (found["kept"], found["set_aside"], found["unknown"], found["models"]) == (4, 2, 0, [])
    assert found["ids"]["set_aside"] == ["r1", "r4"]

    assert medhelm("run", place, "--model", "baseline/lexical", "--model", "baseline/random").code == 0
    shown = medhelm("filter-references", place)
    assert (shown.code, shown.err, server.count) == (0, "", 6)
    for name in ("baseline/lexical", "baseline/random"):
        assert re.search(rf"^rouge_l +{name} .* 6 / 4 / 2 ", shown.out, re.MULTILINE)
    assert_refused(medhelm("filter-references", make_benchmark(tmp_path), place), "toy is closed")


def test_a_report_draws_the_scores_on_accepted_and_flagged_references(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    server.answer_with(marks_as_outside(1, 4))
    place = make_open_benchmark(tmp_path)
    assert medhelm("run", place, "--model", server.model("m"), "--model", "baseline/lexical").code == 0
    missing = medhelm("report", tmp_path / "none", "--only", "figureD1", "--formats", "svg")
    assert "filter-references" in missing.out + missing.err
    marked = medhelm("filter-references", place, "--judge", server.model("judge"), "--json").json
    (expected,) = [
        {part: one[part]["value"] for part in ("kept", "set_aside")}
        for one in marked["benchmarks"][0]["models"]
        if one["metric"] == "rouge_l" and not one["model"].startswith("baseline/")
    ]
    assert medhelm("report", tmp_path / "out", "--only", "figureD1", "--formats", "svg").code == 0
    svg = (tmp_path / "out" / "figures" / "figureD1.svg").read_text(encoding="utf-8")
    bars = dict(re.findall(r">((?:Accepted|Flagged) \(\d\))</text><text[^>]*>([\d.]+)<", svg))
    assert bars == {"Accepted (4)": f"{expected['kept']:.3f}", "Flagged (2)": f"{expected['set_aside']:.3f}"}


def test_failures_end_with_one_and_a_judge_that_cannot_be_used_with_four(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    server.answer_with(lambda body: chat("Hm.") if report_number(body) == 2 else chat(verdict(False)))
    shown = medhelm("filter-references", make_open_benchmark(tmp_path), "--judge", server.model("judge"))
    assert shown.code == 1
    assert re.search(r"^reports +real data +6 +5 +0 +1 +0.0%$", shown.out, re.MULTILINE)

    server.script(Answer(status=401, body={"error": {"message": "bad key"}}))
    shown = medhelm("filter-references", "./reports", "--judge", server.model("other"))
    assert (shown.code, shown.err.count("bad key")) == (4, 1)
    assert "6 (unusable 6)" in shown.out


# --- stopped and gone on ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_what_was_received_before_a_stop_is_not_paid_for_again(
    tmp_path: Path, server: Server, number: signal.Signals, code: int
) -> None:
    server.answer_with(marks_as_outside(3))
    place = make_open_benchmark(tmp_path, n=40)
    command = ("filter-references", str(place), "--judge", server.model("judge"), "--concurrency", "4", "--json")
    first = start(tmp_path, *command)
    server.wait_for(10)
    server.hold()
    held = server.count
    first.send_signal(number)
    if number == signal.SIGINT:
        server.release()
    ended, out, err = finish(first)
    server.release()
    assert ended == code
    if number == signal.SIGINT:
        assert json.loads(out)["benchmarks"][0]["status"] == "partial"
        assert "stopping" in err
    ended, out, _ = finish(start(tmp_path, *command))
    (found,) = json.loads(out)["benchmarks"]
    assert (ended, found["status"], found["ids"]["set_aside"]) == (0, "complete", ["r3"])
    times = [report_number(body) for body in server.bodies]
    assert set(times) == set(range(40))
    # Only what was in flight at the kill may have been asked twice; an interrupt waits for it.
    assert held <= len(times) <= (40 if number == signal.SIGINT else 44)


def test_marks_quote_no_more_than_the_explanation(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.script(chat(verdict(False)))
    place = make_open_benchmark(tmp_path, rows=[row(0, impression="Secret of the record.")])
    shown = medhelm("filter-references", place, "--judge", server.model("judge"), "--json")
    stored = Path(shown.json["benchmarks"][0]["file"]).read_text(encoding="utf-8")
    assert "Secret" not in stored + shown.out
    assert "Because." in stored
