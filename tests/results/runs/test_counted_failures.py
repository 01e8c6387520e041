"""One number for a run everywhere: failures that the model caused count as the worst answer by corrected scoring."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medhelm as api
from medhelm.domain import JURY, RULES, Completion, Failure, Rule, Run, Score
from medhelm.results.leaderboard import read_inputs
from medhelm.results.options import BoardOptions
from medhelm.results.runs.cells import score_details
from medhelm.results.runs.counted import counted_run, counted_runs
from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tests.support.stores import jury_of, make_record, make_store, scored_run, write_run
from tests.support.values import present

N = 40
"""Questions of the benchmark."""

REFUSED, LOST = 9, 2
"""The first questions are refused, and those after them are lost on the way."""


def run_timid(medhelm: Medhelm, server: Server, folder: Path, *options: str) -> Any:
    """Run a perfect model with these failures, and return what the command printed."""

    def reply(body: dict[str, Any]) -> Answer:
        number = question_number(body)
        if number < REFUSED:
            return chat(None, finish_reason="content_filter")
        return Answer(status=400, body={}) if number < REFUSED + LOST else chat(perfect(number))

    server.answer_with(reply)
    return medhelm("run", folder, "--model", f"openai/timid@{server.url}/v1", "--model", "baseline/majority", *options)


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    return make_benchmark(tmp_path, n=N)


def test_every_command_has_the_number_of_the_leaderboard(medhelm: Medhelm, benchmark: Path, server: Server) -> None:
    done = run_timid(medhelm, server, benchmark, "--json").json["runs"][0]
    board = medhelm("leaderboard", "--json").json["models"]
    (cell,) = [row["benchmarks"]["toy"] for row in board if "timid" in row["model"]]
    expected = (N - REFUSED - LOST) / (N - LOST)
    assert (cell["value"], cell["n_failed_by_model"]) == (pytest.approx(expected, abs=1e-6), REFUSED)
    numbers = {key: cell[key] for key in ("value", "low", "high", "n")}
    shown = medhelm("runs", "show", "toy", "openai/timid", "--json").json
    (listed,) = [one for one in medhelm("runs", "list", "--json").json["runs"] if "timid" in one["model"]]
    runs = api.load_runs("medhelm-store")
    (in_python,) = [one for one in runs.to_dict()["runs"] if "timid" in one["model"]]
    for metrics in (done["metrics"], shown["metrics"], in_python["metrics"]):
        assert metrics["exact_match"]["n_failed_by_model"] == REFUSED
        assert metrics["exact_match"]["completers"]["value"] == cell["completers"]["value"] == 1.0
    for found in (done["metrics"]["exact_match"], shown["metrics"]["exact_match"], shown["score"], listed["score"]):
        assert {key: found[key] for key in numbers} == pytest.approx(numbers, abs=1e-6)
    # The reference rule leaves failures out, everywhere.
    by_rule = {rule: done["metrics_by_rule"][rule]["exact_match"]["value"] for rule in RULES}
    assert by_rule == {"corrected": pytest.approx(expected), "published": 1.0}
    # As text, and in the exported table.
    listing, details = medhelm("runs", "list").out, medhelm("runs", "show", "toy", "openai/timid").out
    for text in (listing, details, str(runs)):
        assert f"{expected:.3f} [" in text
    assert medhelm("export", "csv", "out").code == 0
    text = next(Path().rglob("estimates.csv")).read_text(encoding="utf-8")
    kind = {"model": in_python["model"], "metric": "exact_match", "scoring": "corrected"}
    (row,) = [row for row in csv.DictReader(io.StringIO(text)) if row | kind == row]
    assert float(row["value"]) == pytest.approx(expected, abs=1e-6)


SENTENCE = f"{REFUSED} refusals on toy, counted as the worst answer."

OTHER_RULES = re.compile(
    r"(?:refusals?|refused (?:instance|completion)s?|exhausted limits?|failures that the model caused)\b[^.;|]{0,80}\b"
    r"(?:(?<!not )missing|left out(?! instead)|not counted|(?:as|is|are) wrong|no score|worst grade|excluded)\b",
    re.IGNORECASE,
)
"""Sentences by which a refusal would be anything but the worst answer."""


def plain(text: str) -> str:
    """Return a text or a page in one line, without tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_every_output_speaks_of_refusals_in_one_way(medhelm: Medhelm, benchmark: Path, server: Server) -> None:
    done = run_timid(medhelm, server, benchmark)
    assert done.out.count(SENTENCE) == 1, "with the runs, and not again below the leaderboard"
    said = {"run": done.out, "failures": done.err}
    for command in ("runs show toy openai/timid", "leaderboard", "leaderboard --format md"):
        said[command] = medhelm(*command.split()).out
        assert SENTENCE in said[command]
    said["by benchmark"] = medhelm("leaderboard", "--by", "benchmark").out
    assert medhelm("export", "site", "site").code == 0
    assert medhelm("export", "card", "card.html").code == 0
    said |= {str(page): page.read_text(encoding="utf-8") for page in [*Path("site").rglob("*.html"), Path("card.html")]}
    assert any(SENTENCE in plain(text) for name, text in said.items() if name.startswith("site"))
    assert "counted as the worst answer" in said["card.html"]
    wrong = {name: found[0] for name, text in said.items() if (found := OTHER_RULES.search(plain(text)))}
    assert wrong == {}


def test_a_model_that_refuses_everything_is_ranked_last(medhelm: Medhelm, benchmark: Path, server: Server) -> None:
    server.answer_with(
        lambda body: chat(None, finish_reason="content_filter") if body["model"] == "mute" else chat("A")
    )
    models = [f"--model={name}=openai/{name}@{server.url}/v1" for name in ("mute", "other")]
    done = medhelm("run", benchmark, *models)
    assert (done.code, f"- mute: {N} refusals on toy, counted as the worst answer." in done.out) == (1, True)
    (last,) = [row for row in medhelm("leaderboard", "--json").json["models"] if row["model"] == "mute"]
    (listed,) = [one for one in medhelm("runs", "list", "--json").json["runs"] if one["model"] == "mute"]
    assert last["rank"] == 2
    for score in (last["benchmarks"]["toy"], listed["score"]):
        assert [score[key] for key in ("value", "n", "n_failed", "n_failed_by_model")] == [0.0, N, N, N]
    published = medhelm("leaderboard", "--scoring", "published", "--json").json["models"]
    assert [row["benchmarks"]["toy"]["value"] for row in published if row["model"] == "mute"] == [None]


def test_every_page_and_message_speaks_of_refusals_in_one_way() -> None:
    root = Path(api.__file__).parents[2]
    files = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.html")]
    files += [path for path in (root / "src").rglob("*.py") if "library" not in path.parts]
    wrong = {
        f"{path.relative_to(root)}: {found[0]}"
        for path in files
        for found in OTHER_RULES.finditer(plain(path.read_text(encoding="utf-8")))
    }
    assert wrong == set()


def refusing(
    metric: str, values: list[float | None], folder: Path, *, names: list[str] | None = None, **changes: Any
) -> Run:
    """Write a run whose missing scores are refusals. `names`: the group of each instance."""
    fields = {"main_metric": metric, "failures": {"refusal": values.count(None)}} | changes
    records = []
    for position, value in enumerate(values):
        failure = Failure("provider", "refusal", "no") if value is None else None
        records.append(
            make_record(
                position,
                instance_id=f"i{position:03d}",
                group=names[position] if names else "",
                completion=Completion(text=None if failure else "x", failure=failure),
                scores=tuple(Score(metric=metric, rule=rule, value=value, failure=failure) for rule in RULES),
            )
        )
    return write_run(folder, scored_run("toy", "openai/m", values, **fields), records)


def test_groups_count_failures_too(tmp_path: Path) -> None:
    groups = {
        "young": {"corrected": 1.0, "published": 1.0, "n": 2},
        "old": {"corrected": 1.0, "published": 1.0, "n": 1},
    }
    run = refusing("exact_match", [1.0, 1.0, None, 1.0], tmp_path / "a", groups=groups, names=["young"] * 3 + ["old"])
    found = counted_run(run).groups
    assert found["young"] == {"corrected": pytest.approx(2 / 3), "published": 1.0, "n": 2, "completers": 1.0}
    assert found["old"] == groups["old"]


def test_a_refusal_before_a_jury_is_the_worst_grade(medhelm: Medhelm, tmp_path: Path) -> None:
    jury: dict[str, Any] = {"jury_result": jury_of("openai/a", "openai/b"), "main_metric": JURY}
    run = refusing(JURY, [5.0, 3.0, None, None], tmp_path / "store", **jury)
    assert counted_run(run).estimates["corrected"][JURY].value == (5 + 3 + 1 + 1) / 4
    show = ("runs", "show", "toy", "openai/m", "--store")
    assert f"2 refusals on {run.title}, counted as the worst answer." in medhelm(*show, tmp_path / "store").out
    make_store(tmp_path / "other", {"toy": {"openai/m": [1.0, 0.0, None, 1.0]}})
    assert "worst answer" not in medhelm(*show, tmp_path / "other").out


def test_records_that_cannot_be_read_leave_the_stored_estimate(tmp_path: Path) -> None:
    good = refusing("exact_match", [1.0, 1.0, None, None], tmp_path / "a")
    lost = refusing("exact_match", [1.0, 0.0, None, None], tmp_path / "b")
    assert lost.folder is not None
    (lost.folder / "records.parquet").write_bytes(b"damaged")
    first, second = counted_runs([lost, good])
    assert first.estimates == lost.estimates
    assert second.estimates["corrected"]["exact_match"].value == 0.5
    assert second.estimates["published"] == good.estimates["published"]


@pytest.mark.parametrize(("rule", "young", "n"), [("corrected", 2 / 3, 3), ("published", 1.0, 2)])
def test_scores_in_detail_count_a_refusal_in_its_subgroup(tmp_path: Path, rule: Rule, young: float, n: int) -> None:
    names = ["young", "young", "young", "old", ""]
    refusing("exact_match", [1.0, 1.0, None, 0.0, 1.0], tmp_path, names=names, groups={"old": {}})
    inputs = read_inputs([tmp_path], BoardOptions(rule=rule))
    ((_, found),) = score_details(list(inputs.runs.values()), inputs.columns[0], rule, with_subgroups=True)
    assert list(found.subgroups) == ["old", "young"], "instances without a subgroup are in none"
    mean = present(found.subgroups["young"])
    assert (mean.value, mean.n) == pytest.approx((young, n))
    np.testing.assert_array_equal(found.values, [1, 1, np.nan, 0, 1])
