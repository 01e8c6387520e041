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
from medhelm.evaluation.rescore import rejudge
from medhelm.evaluation.session import EvaluationSetup
from medhelm.evaluation.settings import JuryChange, Settings
from medhelm.extensions.exchange.logs import import_logs
from medhelm.models.catalog import find_models
from medhelm.storage.runs import load_runs, read_records, score_column
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.benchmarks.library import SHIPPED, benchmark
from tests.support.cases import check_cases
from tests.support.exchange.inspect_logs import evaluated, process
from tests.support.models.scripted import FAILS, JUDGES, REFUSES, answer, verdict
from tests.support.servers.openai import Answer, Server

pytestmark = pytest.mark.skipif(find_spec("inspect_ai") is None, reason="inspect_ai comes with the extra inspect")

LIMIT = 4
"""Instances of each benchmark."""

FEW = ("aci_bench", "clear", "ehrshot", "ehrsql", "healthbench", "medcalc_bench")
"""Benchmarks that are not only tested at length: text and points that judges grade, options, groups, SQL, numbers."""

AT_LENGTH = pytest.mark.parametrize(
    "roads", [pytest.param(tuple(SHIPPED), marks=pytest.mark.long, id="all")], indirect=True
)


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
        names = [f"medhelm/{name}" for name in benchmarks]
        self.theirs = evaluated(folder, *names, "-T", "tier=sample", "-T", f"limit={LIMIT}", "-T", f"judges={judges}")
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
def test_every_benchmark_that_ships_is_a_task(roads: Roads) -> None:
    assert set(roads.theirs["tasks"]) == {f"medhelm/{name}" for name in SHIPPED}
    assert {task["status"] for task in roads.theirs["tasks"].values()} == {"success"}


@AT_LENGTH
def test_inspect_and_medhelm_send_the_same_requests(roads: Roads) -> None:
    """One question of two benchmarks is asked once on our road, for it is remembered."""
    limits = ("max_tokens", "temperature", "stop")

    def request(messages: list[list[str]], content: Mapping[str, Any]) -> str:
        return json.dumps([content["model"], messages, [content.get(name) for name in limits]])

    ours = {request([[turn["role"], turn["content"]] for turn in body["messages"]], body) for body in roads.asked}
    theirs = {request(asked["messages"], asked) for asked in roads.theirs["asked"]}
    assert ours == theirs
    assert len(ours) == len(roads.asked) > 350


@pytest.mark.long
def test_inspect_and_medhelm_give_the_same_scores(roads: Roads) -> None:
    check_cases(roads.benchmarks, partial(has_the_same_scores, roads))


def has_the_same_scores(roads: Roads, name: str) -> None:
    theirs = roads.theirs["tasks"][f"medhelm/{name}"]
    run = roads.ours[name]
    ours = records(run)
    assert set(theirs["samples"]) == set(ours)
    metrics = [*run.estimates["corrected"], *run.not_computed]
    for instance_id, sample in theirs["samples"].items():
        row = ours[instance_id]
        if sample["error"] or row["failure_code"]:
            assert bool(sample["error"]) == (row["failure_code"] == "bad_request")
            assert row["completion"] is None
            assert sample["scores"] is None or math.isnan(sample["scores"])
            continue
        assert sample["completion"] == row["completion"]
        values = {
            (metric, rule): sample["scores"][metric if rule == "corrected" else f"{metric}_{rule}"]
            for metric in metrics
            for rule in RULES
        }
        mine = {key: math.nan if (score := row[score_column(*key)]) is None else score for key in values}
        assert values == pytest.approx(mine, nan_ok=True, rel=1e-12, abs=0)
        assert len(sample["scores"]) == len(values)


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
    """Else the tests above would compare nothing with nothing."""
    means = [estimate.value for run in roads.ours.values() for estimate in run.estimates["corrected"].values()]
    at_length = roads.benchmarks != FEW
    assert sum(0 < value < 1 for value in means) > (20 if at_length else 3)
    assert sum(run.n_failed for run in roads.ours.values()) > (5 if at_length else 0)
    judged = [run.jury_result for run in roads.ours.values() if run.jury_result]
    assert len(judged) == (14 if at_length else 2)
    assert sum(sum(tally.failed for tally in result.tallies.values()) for result in judged) > (5 if at_length else 0)
    assert sum(result.n_too_few_judges for result in judged) > 0 or not at_length
    pooled = {"clear", "ehrshot", "n2c2_ct", "med_dialog"}.intersection(roads.benchmarks)
    assert len(pooled) == (4 if at_length else 2)
    assert all(roads.ours[name].groups for name in pooled)


# --- and back -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imported(roads: Roads) -> dict[str, Run]:
    """The logs of Inspect, taken in."""
    done = import_logs([roads.folder / "logs"], "inspect", store=roads.folder / "imported")
    assert done.skipped == ()
    return {one.run.benchmark: one.run for one in done.taken}


@AT_LENGTH
def test_an_imported_log_is_the_run_that_would_have_been_made_here(roads: Roads, imported: dict[str, Run]) -> None:
    """Up to names, what cannot be known (who was asked how often) and the interval's draws."""
    check_cases(roads.benchmarks, lambda name: is_the_same_run(imported[name], roads.ours[name]))


def is_the_same_run(theirs: Run, ours: Run) -> None:
    assert theirs.origin is not None
    assert theirs.origin.is_medhelm_task
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
    if ours.jury_result and theirs.jury_result:
        assert [t.failures for t in theirs.jury_result.tallies.values()] == [
            t.failures for t in ours.jury_result.tallies.values()
        ]
        assert theirs.jury_result.coverage == ours.jury_result.coverage
        assert {k: v.value for k, v in theirs.jury_result.subscores.items()} == {
            k: v.value for k, v in ours.jury_result.subscores.items()
        }
    else:
        assert theirs.jury_result is None
        assert ours.jury_result is None


def test_tokens_are_those_of_the_model_under_test(imported: dict[str, Run]) -> None:
    """`inspect_side` counts 15 tokens, 5 more of the cache, and 3 written, 2 of them thoughts, for each request."""
    for run in imported.values():
        n = run.n - run.failures.get("sample_error", 0)
        assert run.usage == Usage(input=20 * n, cached_input=5 * n, output=3 * n, reasoning=2 * n)


def test_importing_the_same_logs_again_changes_nothing(roads: Roads, imported: dict[str, Run]) -> None:
    again = import_logs([roads.folder / "logs"], "inspect", store=roads.folder / "imported")
    assert {one.state for one in again.taken} == {"unchanged"}
    assert {one.run.id for one in again.taken} == {run.id for run in imported.values()}


def test_scoring_again_gives_the_same_numbers(roads: Roads, imported: dict[str, Run]) -> None:
    """From the stored completions and replies, with the instances read anew from the benchmark."""
    names = ("clear", "ehrshot", "ehrsql", "aci_bench", "healthbench", "medcalc_bench")
    store = roads.folder / "imported"
    done = rejudge([benchmark(name) for name in names], JuryChange(), EvaluationSetup(store=store))
    assert {run.benchmark for run in done.runs} == set(names)
    for run in done.runs:
        before = imported[run.benchmark]
        assert (run.id, run.origin, run.estimates) == (before.id, before.origin, before.estimates)
    assert len(load_runs(open_store(store))) == len(imported)


# --- what users meet --------------------------------------------------------------------------------------------------


def inspect(folder: Path, *arguments: str, fails: bool = False) -> str:
    """Inspect's own command."""
    said = process(folder, str(Path(sys.executable).with_name("inspect")), *arguments, fails=fails)
    return " ".join(said.split())


@pytest.mark.long
def test_an_error_is_shown_without_a_traceback(tmp_path: Path) -> None:
    said = inspect(tmp_path, "eval", "medhelm/pubmed_qa", "--model", "mockllm/model", fails=True)
    assert "pubmed_qa: the data was not found" in said
    assert "-T data=DIR" in said
    assert "Traceback" not in said


MISTAKES = {
    "data=/nowhere": ("pubmed_qa", {"data": "/nowhere"}, "the data was not found"),
    "tier": ("pubmed_qa", {"tier": "invented"}, "tier=invented: use `real` or `sample`."),
    "sample": ("pubmed_qa", {"tier": "sample", "sample": "nothing"}, "nothing"),
    "limit": ("pubmed_qa", {"tier": "sample", "limit": 0}, "the limit must be at least 1, is 0."),
    "judge twice": ("aci_bench", {"tier": "sample", "judges": "a/b,a/b"}, "duplicate judge: a/b."),
    "too many": ("aci_bench", {"tier": "sample", "judges": ["a/b"], "min_judges": 2}, "cannot need 2 of 1 judges"),
    "judges only": ("healthbench", {"tier": "sample"}, "-T judges=MODEL,MODEL"),
    "group": ("benchmark", {"path": "public", "tier": "sample"}, "is a group of"),
    "unknown": ("benchmark", {"path": "pubmedqa2", "tier": "sample"}, "unknown benchmark `pubmedqa2`"),
}  # fmt: skip


def test_names_are_known_without_definitions_and_mistakes_before_anything_is_asked(tmp_path: Path) -> None:
    """One process for both, for importing Inspect takes seconds."""
    code = f"""
import json
import sys
import inspect_ai
before = set(sys.modules)
from inspect_ai._util.entrypoints import ensure_entry_points
ensure_entry_points("medhelm")
new = sorted(set(sys.modules) - before)
assert "medhelm.extensions.exchange.inspect.tasks" in new, new
watched = ("medhelm.", "duckdb", "yaml", "scipy", "vl_convert")
imported = [name for name in new if name.startswith(watched)]
import medhelm.extensions.exchange.inspect.tasks as tasks
from inspect_ai._util.error import PrerequisiteError
said = {{}}
for name, (task, arguments, _) in {MISTAKES!r}.items():
    try:
        (tasks.TASKS.get(task) or tasks.benchmark)(**arguments)
    except PrerequisiteError as error:
        said[name] = str(error.message)
print(json.dumps([imported, said]))
"""
    imported, said = json.loads(process(tmp_path, sys.executable, "-c", code))
    extension, tasks = "medhelm.extensions.exchange", "medhelm.extensions.exchange.inspect.tasks"
    parents = ["medhelm.extensions", extension, f"{extension}.inspect"]
    assert imported == [*parents, tasks, f"{tasks}.scorer"]
    assert said.keys() == MISTAKES.keys()
    for name, (_, _, words) in MISTAKES.items():
        assert words in said[name]


@pytest.mark.long
def test_a_benchmark_of_ones_own_in_two_epochs(tmp_path: Path) -> None:
    """A model that always says the same has the number of one epoch; answers of one sample are not independent."""
    toy = make_benchmark(tmp_path, n=9)
    names = ("medhelm/benchmark", "-T", f"path={toy}", "--epochs", "2", "--limit", "6")
    seen = evaluated(tmp_path, *names)["tasks"]["medhelm/benchmark"]
    assert next(iter(seen["results"])) == "exact_match"
    assert seen["results"]["exact_match"]["scored"] > 6
    done = import_logs([tmp_path / "logs"], "inspect", store=tmp_path / "store", extra=[toy])
    (one,) = done.taken
    assert one.run.benchmark == "toy"
    assert one.run.tier == "real"
    assert one.run.n == 6
    value = seen["results"]["exact_match"]["value"]
    assert one.run.estimates["corrected"]["exact_match"].value == pytest.approx(value)
    assert any("2 epochs" in remark for remark in one.remarks)
    assert any("(6 of 9 instances)" in remark for remark in one.remarks)


@pytest.mark.long
def test_limits_are_those_of_the_kind_of_model_and_of_judges(tmp_path: Path) -> None:
    """Who reasons is told by the name, as on our own road; what the user says goes before that."""
    code = """
import json
from inspect_ai import eval
from medhelm.extensions.exchange.inspect.jury import TaskJury
from medhelm.extensions.exchange.inspect.tasks import TASKS

def config(model, **arguments):
    (log,) = eval("medhelm/pubmed_qa", model=model, display="none", log_dir="logs", limit=1,
                  task_args={"tier": "sample", **arguments})
    return [log.plan.config.max_tokens, log.plan.config.temperature]

def judge(name, tokens=None):
    config = TaskJury([name], at_least=None, reply_tokens=tokens)._model(name).config
    return [config.max_tokens, config.temperature]

made = TASKS["pubmed_qa"](tier="sample").config
print(json.dumps([
    config("mockllm/model"), config("mockllm/o3-mini"), config("mockllm/o3-mini", reasoning=False),
    config("mockllm/model", reasoning=True), [made.max_tokens, made.temperature],
    judge("mockllm/model"), judge("mockllm/o3-mini"), judge("mockllm/o3-mini", 99),
]))
"""
    said = json.loads(process(tmp_path, sys.executable, "-W", "ignore", "-c", code).splitlines()[-1])
    plain, thinking = [1, 0.0], [4000, None]
    assert said == [plain, thinking, plain, [4000, 0.0], plain, [4096, 0.0], [8192, None], [99, None]]


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


@pytest.mark.long
def test_without_judges_the_next_metric_stands_in_with_a_warning(tmp_path: Path) -> None:
    said = inspect(
        tmp_path, "eval", "medhelm/aci_bench", "--model", "none/none", "-T", "tier=sample", "--display", "plain",
        "--log-dir", str(tmp_path / "logs"),
    )  # fmt: skip
    assert "no judges are named (-T judges=MODEL,MODEL): rouge_l is used instead" in said
