"""`medhelm filter-references`: the contract that scripts rely on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.benchmarks.library import NAMES, benchmark
from tests.support.benchmarks.open_ended import make_open_benchmark, marks_as_outside, report_number, row, verdict
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Answer, Server


def judge(server: Server, name: str = "judge") -> str:
    return f"openai/{name}@{server.url}/v1"


def test_the_whole_command(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    """Mark, then run two models, then look at what is stored."""
    server.answer_with(marks_as_outside(1, 4))
    place = make_open_benchmark(tmp_path)
    marked = medhelm("filter-references", place, "--judge", judge(server), "--json")
    assert (marked.code, marked.err, server.count) == (0, "", 6)
    assert set(marked.json) == {"benchmarks", "scoring", "requests_sent", "cost_usd", "seconds"}
    (found,) = marked.json["benchmarks"]
    assert (found["kept"], found["set_aside"], found["unknown"], found["models"]) == (4, 2, 0, [])
    assert found["ids"]["set_aside"] == ["r1", "r4"]
    assert marked.json["requests_sent"] == 6
    assert Path(found["file"]).is_file()

    assert medhelm("run", place, "--model", "baseline/lexical", "--model", "baseline/random").code == 0
    shown = medhelm("filter-references", place)
    assert (shown.code, shown.err, server.count) == (0, "", 6)
    assert "Impressions: scores with and without these references (corrected scoring)" in shown.out
    for name in ("baseline/lexical", "baseline/random"):
        assert re.search(rf"^rouge_l +{name} .* 6 / 4 / 2 ", shown.out, re.MULTILINE)
    by_rule = [
        medhelm("filter-references", place, "--json", "--scoring", rule).json for rule in ("corrected", "published")
    ]
    assert [one["scoring"] for one in by_rule] == ["corrected", "published"]
    ranks = [model["rank"]["all"] for model in by_rule[0]["benchmarks"][0]["models"]]
    assert ranks in ([1, 1], [1, 2])


def test_a_report_draws_the_scores_on_accepted_and_flagged_references(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    server.answer_with(marks_as_outside(1, 4))
    place = make_open_benchmark(tmp_path)
    assert medhelm("run", place, "--model", judge(server, "m"), "--model", "baseline/lexical").code == 0
    missing = medhelm("report", tmp_path / "none", "--only", "figureD1", "--formats", "svg")
    assert "filter-references" in missing.out + missing.err
    marked = medhelm("filter-references", place, "--judge", judge(server), "--json").json
    (expected,) = [
        {part: one[part]["value"] for part in ("kept", "set_aside")}
        for one in marked["benchmarks"][0]["models"]
        if one["metric"] == "rouge_l" and not one["model"].startswith("baseline/")
    ]
    assert medhelm("report", tmp_path / "out", "--only", "figureD1", "--formats", "svg").code == 0
    svg = (tmp_path / "out" / "figures" / "figureD1.svg").read_text(encoding="utf-8")
    bars = dict(re.findall(r">((?:Accepted|Flagged) \(\d\))</text><text[^>]*>([\d.]+)<", svg))
    assert bars == {"Accepted (4)": f"{expected['kept']:.3f}", "Flagged (2)": f"{expected['set_aside']:.3f}"}


def test_failures_end_with_one_and_are_counted(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(lambda body: chat("Hm.") if report_number(body) == 2 else chat(verdict(False)))
    shown = medhelm("filter-references", make_open_benchmark(tmp_path), "--judge", judge(server))
    assert shown.code == 1
    assert re.search(r"1 \(no_verdict 1\)  +7 +0", shown.out)
    assert re.search(r"^reports +real data +6 +5 +0 +1 +0.0%$", shown.out, re.MULTILINE)


def test_judges_that_disagree_are_no_failure(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(lambda body: chat(verdict(body["model"] == "yes")))
    both = ["--judge", judge(server, "yes"), "--judge", judge(server, "no")]
    shown = medhelm("filter-references", make_open_benchmark(tmp_path), *both, "--json")
    assert (shown.code, shown.json["benchmarks"][0]["unknown"]) == (0, 6)


def test_the_budget_ends_with_three(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(marks_as_outside(0))
    definition = f"costly:\n  model: judge\n  base_url: {server.url}/v1\n  price: {{input: 50000, output: 0}}\n"
    (tmp_path / "models.yaml").write_text(definition, encoding="utf-8")
    place = make_open_benchmark(tmp_path, n=20)
    command = ["filter-references", place, "--judge", "costly", "--concurrency", "1", "--json"]
    stopped = medhelm(*command, "--max-cost", "300")
    # The server's 20 tokens are not believed: the most there can have been counts.
    assert (stopped.code, 0 < stopped.json["cost_usd"] <= 300, 0 < server.count < 20) == (3, True, True)
    assert "stopped by the budget" in stopped.err
    (found,) = stopped.json["benchmarks"]
    assert (found["status"], found["unknown"], found["remarks"][0]) == (
        "partial", 20 - server.count, "only partly marked; run the same command again to continue",
    )  # fmt: skip
    assert (medhelm(*command).code, server.count) == (0, 20)


def test_a_missing_key_ends_with_four(medhelm: Medhelm, tmp_path: Path) -> None:
    assert_refused(
        medhelm("filter-references", make_open_benchmark(tmp_path), "--judge", "openai/gpt-4o"),
        "OPENAI_API_KEY",
        code=4,
    )


def test_a_judge_that_cannot_be_used_ends_with_four_and_says_why(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    server.script(Answer(status=401, body={"error": {"message": "bad key"}}))
    shown = medhelm("filter-references", make_open_benchmark(tmp_path), "--judge", judge(server))
    assert shown.code == 4
    assert shown.err.count("bad key") == 1
    assert "6 (unusable 6)" in shown.out
    absent = "openai/judge@http://127.0.0.1:9/v1"
    assert_refused(
        medhelm("filter-references", make_open_benchmark(tmp_path), "--judge", absent, "--attempts", "1"),
        "127.0.0.1:9",
        code=4,
    )


def test_all_mistakes_are_named_at_once(medhelm: Medhelm) -> None:
    shown = medhelm("filter-references", "note_extract", "medec", "--judge", "opnai/x")
    for said in ("note_extract has no references", "medec is closed", "opnai"):
        assert said in shown.err


def test_data_that_is_not_here_ends_with_four(medhelm: Medhelm, server: Server) -> None:
    shown = medhelm("filter-references", "mimic_rrs", "aci_bench", "--judge", judge(server))
    assert_refused(shown, "aci_bench", code=4)
    assert server.count == 0


def test_without_marks_and_without_a_judge_there_is_nothing_to_show(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    places = [make_open_benchmark(tmp_path), make_open_benchmark(tmp_path, name="others")]
    medhelm("run", places[0], "--model", "baseline/lexical")
    assert_refused(
        medhelm("filter-references", *places), "no marks of reports, others on these instances. Name a model"
    )


def test_offline_asks_this_machine_only(
    medhelm: Medhelm, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    server.answer_with(marks_as_outside())
    place = make_open_benchmark(tmp_path)
    shown = medhelm("filter-references", place, "--offline", "--judge", judge(server), "--judge", "openai/gpt-4o")
    assert (shown.code, server.count) == (2, 0)
    assert "offline" in shown.err
    assert medhelm("filter-references", place, "--offline", "--judge", judge(server)).code == 0


def test_the_open_benchmarks_are_filtered_on_invented_rows(medhelm: Medhelm, server: Server) -> None:
    server.script(chat(verdict(False)))
    shown = succeeded(medhelm("filter-references", "open", "--tier", "sample", "--judge", judge(server), "--json"))
    assert re.findall(r"skipped: (\w+)", shown.err) == [
        name for name in sorted(NAMES) if (rubric := benchmark(name).rubric) is not None and not rubric.shows_reference
    ]
    found = {one["benchmark"]: one for one in shown.json["benchmarks"]}
    assert len(found) >= 12
    for one in found.values():
        assert one["kept"] == one["n"] > 0
        assert one["tier"] == "sample"


# --- stopped and gone on ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_what_was_received_before_a_stop_is_not_paid_for_again(
    tmp_path: Path, server: Server, number: signal.Signals, code: int
) -> None:
    server.answer_with(marks_as_outside(3))
    place = make_open_benchmark(tmp_path, n=40)
    store = ["--store", str(tmp_path / "store"), "--concurrency", "4", "--json"]
    command = [sys.executable, "-m", "medhelm", "filter-references", str(place), "--judge", judge(server), *store]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEDHELM_")}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", env=environment
        )

    first = start()
    server.wait_for(10)
    server.hold()
    held = server.count
    first.send_signal(number)
    if number == signal.SIGINT:
        server.release()
    out, err = first.communicate(timeout=600)
    server.release()
    assert first.returncode == code
    if number == signal.SIGINT:
        assert json.loads(out)["benchmarks"][0]["status"] == "partial"
        assert "stopping" in err
    second = start()
    out, _ = second.communicate(timeout=600)
    (found,) = json.loads(out)["benchmarks"]
    assert (second.returncode, found["status"], found["ids"]["set_aside"]) == (0, "complete", ["r3"])
    times = [report_number(body) for body in server.bodies]
    assert set(times) == set(range(40))
    # Only what was in flight at the kill may have been asked twice; an interrupt waits for it.
    assert held <= len(times) <= (40 if number == signal.SIGINT else 44)


def test_marks_quote_no_more_than_the_explanation(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.script(chat(verdict(False)))
    place = make_open_benchmark(tmp_path, rows=[row(0, impression="Secret of the record.")])
    shown = medhelm("filter-references", place, "--judge", judge(server), "--json")
    stored = Path(shown.json["benchmarks"][0]["file"]).read_text(encoding="utf-8")
    assert "Secret" not in stored + shown.out
    assert "Because." in stored


def test_a_closed_benchmark_of_ones_own_is_refused(medhelm: Medhelm, tmp_path: Path) -> None:
    for others in ([], [make_open_benchmark(tmp_path)]):
        assert_refused(medhelm("filter-references", make_benchmark(tmp_path), *others), "toy is closed")
