"""Our benchmarks on both roads, ours and that of Inspect: the same questions, the same scores."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import RULES, Jury, Run, Usage
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Settings
from medhelm.extensions.exchange.logs import import_logs
from medhelm.models.catalog import find_models
from medhelm.storage.runs import read_records
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.benchmarks.library import SHIPPED, benchmark
from tests.support.cases import check_cases
from tests.support.exchange.inspect_logs import evaluated, process
from tests.support.models.scripted import FAILS, JUDGES, REFUSES, answer, verdict
from tests.support.servers.openai import Answer, Server

pytestmark = pytest.mark.skipif(find_spec("inspect_ai") is None, reason="inspect_ai comes with the extra inspect")

LIMIT = 4
"""Instances of each benchmark."""

FEW = ("aci_bench", "clear", "ehrsql", "medcalc_bench")
"""Benchmarks that are not only tested at length: text that judges grade, options, groups, SQL, numbers."""

AT_LENGTH = pytest.mark.parametrize(
    "roads", [pytest.param(tuple(SHIPPED), marks=pytest.mark.long, id="all")], indirect=True
)


MISTAKES: Mapping[str, tuple[tuple[str, dict[str, Any]], str]] = {
    "data": (("pubmed_qa", {"data": "/nowhere"}), "the data was not found"),
    "tier": (("pubmed_qa", {"tier": "invented"}), "tier=invented: use `real` or `sample`."),
    "too many": (("aci_bench", {"tier": "sample", "judges": ["a/b"], "min_judges": 2}), "cannot need 2 of 1 judges"),
    "judges only": (("healthbench", {"tier": "sample"}), "-T judges=MODEL,MODEL"),
    "group": (("benchmark", {"path": "public", "tier": "sample"}), "is a group of"),
}
"""Name -> task that cannot be made with its parameters, and words of the message."""


def served(body: Mapping[str, Any]) -> Answer:
    """What `scripted` says, as a server says it."""
    messages = [(turn["role"], turn["content"]) for turn in body["messages"]]
    if body["model"] in JUDGES:
        return chat(verdict(body["model"], messages))
    kind, text = answer(messages)
    if kind == FAILS:
        return Answer(status=400, body={"error": {"message": "the server is on fire"}})
    return chat(text, finish_reason="content_filter" if kind == REFUSES else "stop")


class Roads:
    """Both roads, walked once."""

    def __init__(self, folder: Path, server: Server, benchmarks: Sequence[str]) -> None:
        """Ask benchmarks that ship, on their invented rows, with three judges."""
        self.folder, self.benchmarks = folder, benchmarks
        judges = ",".join(f"scripted/{name}" for name in JUDGES)
        parameters = {"tier": "sample", "limit": LIMIT, "judges": judges}
        mistakes = {name: mistake for name, (mistake, _) in MISTAKES.items()}
        self.theirs = evaluated(folder, [f"medhelm/{name}" for name in benchmarks], parameters, mistakes)
        server.answer_with(served)
        models = find_models(
            [f"openai/{name}@{server.url}/v1" for name in ("model", *JUDGES)], file=None, environment={}
        )
        done = evaluate(
            [benchmark(name) for name in benchmarks],
            models[:1],
            store=folder / "store",
            settings=Settings(tier="sample", limit=LIMIT),
            jury=Jury(judges=tuple(models[1:])),
        )
        self.ours = {run.benchmark: run for run in done.runs}
        self.asked = list(server.bodies)


@pytest.fixture(
    scope="module",
    params=[pytest.param(FEW, id="few"), pytest.param(tuple(SHIPPED), marks=pytest.mark.long, id="all")],
)
def roads(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roads]:
    with Server() as server:
        yield Roads(tmp_path_factory.mktemp("inspect"), server, request.param)


def records(run: Run) -> dict[str, dict[str, Any]]:
    return {row["instance_id"]: row for row in read_records(run)}


@AT_LENGTH
def test_inspect_and_medhelm_send_the_same_requests(roads: Roads) -> None:
    """Each benchmark that ships is a task. One question of two benchmarks is asked once by us, for it is cached."""
    assert set(roads.theirs["tasks"]) == {f"medhelm/{name}" for name in SHIPPED}
    assert {task["status"] for task in roads.theirs["tasks"].values()} == {"success"}
    limits = ("max_tokens", "temperature", "stop")

    def request(messages: list[list[str]], content: Mapping[str, Any]) -> str:
        return json.dumps([content["model"], messages, [content.get(name) for name in limits]])

    ours = {request([[turn["role"], turn["content"]] for turn in body["messages"]], body) for body in roads.asked}
    theirs = {request(asked["messages"], asked) for asked in roads.theirs["asked"]}
    assert ours == theirs
    assert len(ours) == len(roads.asked) > 350


def test_inspect_and_medhelm_give_the_same_estimates(roads: Roads) -> None:
    check_cases(roads.benchmarks, partial(has_the_same_estimates, roads))


def has_the_same_estimates(roads: Roads, name: str) -> None:
    results = roads.theirs["tasks"][f"medhelm/{name}"]["results"]
    run = roads.ours[name]
    assert next(iter(results)) == run.main_metric
    for rule in RULES:
        for metric, mine in run.estimates[rule].items():
            theirs = results[metric if rule == "corrected" else f"{metric}_{rule}"]
            assert theirs["value"] == pytest.approx(mine.value, rel=1e-9, abs=1e-12)
            assert theirs["scored"] == mine.n
            if not mine.method.startswith("bootstrap"):  # whose draws depend on the run's id
                assert (theirs["low"], theirs["high"]) == pytest.approx((mine.low, mine.high), rel=1e-9, abs=1e-12)


def test_the_scripted_model_makes_all_kinds_of_cases(roads: Roads) -> None:
    """Else the other tests would compare nothing with nothing."""
    runs = roads.ours.values()
    means = [estimate.value for run in runs for estimate in run.estimates["corrected"].values()]
    assert sum(0 < value < 1 for value in means) > 3
    assert any(run.n_failed for run in runs)
    assert any(tally.failed for run in runs if run.jury_result for tally in run.jury_result.tallies.values())
    assert roads.ours["clear"].groups


# --- and back -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imported(roads: Roads) -> dict[str, Run]:
    """The logs of Inspect, taken in."""
    done = import_logs([roads.folder / "logs"], "inspect", store=roads.folder / "imported")
    assert done.skipped == ()
    return {one.run.benchmark: one.run for one in done.taken}


def test_an_imported_log_is_the_run_that_would_have_been_made_here(roads: Roads, imported: dict[str, Run]) -> None:
    """Up to names, what cannot be known (who was asked how often) and the interval's draws."""
    check_cases(roads.benchmarks, lambda name: is_the_same_run(imported[name], roads.ours[name]))


def is_the_same_run(theirs: Run, ours: Run) -> None:
    assert theirs.origin is not None
    assert theirs.origin.is_medhelm_task
    n = theirs.n - theirs.failures.get("sample_error", 0)  # the scripted model counts the same for each request
    assert theirs.usage == Usage(input=20 * n, cached_input=5 * n, output=3 * n, reasoning=2 * n)
    same = ("benchmark", "title", "benchmark_digest", "data_digest", "tier", "status", "n", "n_failed", "groups")
    assert {key: getattr(theirs, key) for key in same} == {key: getattr(ours, key) for key in same}
    assert theirs.main_metric == ours.main_metric
    for rule in RULES:
        assert list(theirs.estimates[rule]) == list(ours.estimates[rule])
        for metric, mine in ours.estimates[rule].items():
            found = theirs.estimates[rule][metric]
            assert found.value == pytest.approx(mine.value, rel=1e-12, abs=1e-12)
            assert (found.n, found.n_failed, found.method) == (mine.n, mine.n_failed, mine.method)
    mine_rows, their_rows = records(ours), records(theirs)
    assert list(their_rows) == list(mine_rows)
    columns = [name for name in mine_rows[next(iter(mine_rows))] if name.endswith(RULES)]
    for instance_id, row in mine_rows.items():
        other = their_rows[instance_id]
        kept = [*columns, "completion", "cluster", "group", "jury_coverage", "suspicions"]
        assert {key: other[key] for key in kept} == {key: row[key] for key in kept}
    juries = [
        run.jury_result
        and (
            [tally.failures for tally in run.jury_result.tallies.values()],
            run.jury_result.coverage,
            {name: estimate.value for name, estimate in run.jury_result.subscores.items()},
        )
        for run in (ours, theirs)
    ]
    assert juries[0] == juries[1]


# --- what users meet --------------------------------------------------------------------------------------------------


def inspect(folder: Path, *arguments: str, fails: bool = False) -> str:
    """Inspect's own command."""
    said = process(folder, str(Path(sys.executable).with_name("inspect")), *arguments, fails=fails)
    return " ".join(said.split())


@pytest.mark.long
def test_inspects_command_shows_our_errors_without_a_traceback_and_our_warnings(tmp_path: Path) -> None:
    wrong = inspect(tmp_path, "eval", "medhelm/pubmed_qa", "--model", "mockllm/model", fails=True)
    assert "pubmed_qa: the data was not found" in wrong
    assert "Traceback" not in wrong
    options = ("--model", "none/none", "-T", "tier=sample", "--display", "plain", "--log-dir", str(tmp_path / "logs"))
    said = inspect(tmp_path, "eval", "medhelm/aci_bench", *options)
    assert "no judges are named (-T judges=MODEL,MODEL): rouge_l is used instead" in said


def test_mistakes_are_named_before_anything_is_asked(roads: Roads) -> None:
    said = roads.theirs["said"]
    assert [name for name, (_, words) in MISTAKES.items() if words not in said[name]] == []


@pytest.mark.long
def test_a_benchmark_of_ones_own_in_two_epochs(tmp_path: Path) -> None:
    """A model that always says the same has the number of one epoch; answers of one sample are not independent."""
    toy = make_benchmark(tmp_path, n=9)
    tasks = evaluated(tmp_path, ["medhelm/benchmark"], {"path": str(toy)}, epochs=2, limit=6)["tasks"]
    seen = tasks["medhelm/benchmark"]["results"]["exact_match"]
    assert seen["scored"] > 6
    (one,) = import_logs([tmp_path / "logs"], "inspect", store=tmp_path / "store", extra=[toy]).taken
    assert (one.run.benchmark, one.run.tier, one.run.n) == ("toy", "real", 6)
    assert one.run.estimates["corrected"]["exact_match"].value == pytest.approx(seen["value"])
    assert all(any(words in remark for remark in one.remarks) for words in ("2 epochs", "(6 of 9 instances)"))


@pytest.mark.long
def test_an_error_about_the_context_window_is_not_a_completion(tmp_path: Path) -> None:
    """Inspect gives it as the answer; a reply that was cut off because the window was full stays one."""
    code = """
import json
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
complaint = ModelOutput.from_content("m", "maximum context length is 10 tokens: A", stop_reason="model_length")
cut_off = ModelOutput.from_content("m", "A", stop_reason="model_length")
cut_off.usage = ModelUsage(input_tokens=9, output_tokens=1, total_tokens=10)
with_error = ModelOutput.from_content("m", "too long", stop_reason="model_length", error="prompt is too long")
complaint.usage = with_error.usage = ModelUsage()  # else this model counts with a file from the network
model = get_model("mockllm/model", custom_outputs=[complaint, cut_off, with_error])
(log,) = eval("medhelm/pubmed_qa", model=model, display="none", log_dir="logs", max_connections=1, max_samples=1,
              task_args={"tier": "sample", "limit": 3})
print(json.dumps([[sample.scores["medhelm"].value, sample.scores["medhelm"].metadata] for sample in log.samples]))
"""
    said = json.loads(process(tmp_path, sys.executable, "-W", "ignore", "-c", code).splitlines()[-1])
    (first, why), (second, _), (third, also) = said
    assert math.isnan(first)
    assert math.isnan(third)
    assert why == also == {"failure": "context_length"}
    assert second["choice_extracted"] == 1.0
    done = import_logs([tmp_path / "logs"], "inspect", store=tmp_path / "store")
    (one,) = done.taken
    assert one.run.failures == {"context_length": 2}
    assert (one.run.n, one.run.estimates["corrected"]["choice_extracted"].n) == (3, 1)
    assert any("2 samples: prompt too long for the model" in remark for remark in one.remarks)
