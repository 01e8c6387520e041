"""What a run remarks: failures, each kind once; texts that were compared in part; prompts that a server truncated."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.prompts import render
from medhelm.domain import Failure
from medhelm.evaluation.context_window import n_characters
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.remarks import failure_sentences
from medhelm.evaluation.request_totals import FailureSummary
from medhelm.evaluation.settings import Settings
from medhelm.evaluation.silent_truncation import Plateau, find_plateau
from medhelm.models.providers.advice import ADVICE
from medhelm.scoring import metrics
from medhelm.scoring.metric import Metric
from tests.support.benchmarks import choice
from tests.support.benchmarks.definitions import make_benchmark, write_rows
from tests.support.benchmarks.judged import court, jury, mock, open_benchmark
from tests.support.benchmarks.library import benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server


def test_each_kind_is_told_once_with_the_first_words_and_what_to_do() -> None:
    first, other = FailureSummary(), FailureSummary()
    for number in range(1200):
        first.add("openai/m", Failure("provider", "timeout", f"openai/m: request {number} took too long"))
    for summary, text in ((first, "something."), (other, "second")):
        summary.add("openai/m", Failure("provider", "odd", text))
    other.add("anthropic/m", Failure("provider", "timeout", ""))
    assert failure_sentences([first, other, FailureSummary()]) == [
        f"openai/m: 1,200 requests failed (timeout): request 0 took too long. {ADVICE['timeout']}",
        "openai/m: 2 requests failed (odd): something.",
        f"anthropic/m: 1 request failed (timeout): {ADVICE['timeout']}",
    ]


def test_a_run_tells_what_failed_in_it_and_not_what_failed_before(tmp_path: Path, server: Server) -> None:
    def run() -> tuple[str, ...]:
        return evaluate(
            [open_benchmark(tmp_path, n=3)],
            [mock(server)],
            store=tmp_path / "store",
            settings=Settings(attempts=1),
            jury=jury(server),
        ).messages

    server.answer_with(court(lambda *_: Answer(status=418, body={"error": "teapot"})))
    told = run()
    assert told
    assert all(" failed (bad_request): the server answered 418: teapot." in line for line in told)
    assert all("Check `parameters`" in line for line in told)
    server.answer_with(court())
    assert run() == ()


# --- texts of which a metric reads only the beginning -----------------------------------------------------------------

LIMIT = 5
SHORT_SIGHTED = Metric(
    name="quasi_exact_match",
    title="Short-sighted",
    description="d",
    source="s",
    corrected=lambda completion, instance: float(completion[:LIMIT] == instance.expected[:LIMIT]),
    cuts=lambda completion, instance: max(len(completion), len(instance.expected)) > LIMIT,
)
"""A metric that reads five characters."""


@pytest.fixture
def command(tmp_path: Path) -> tuple[object, ...]:
    source = {"kind": "csv", "files": {"t.csv": ""}}
    make_benchmark(tmp_path, id="id", source=source, metrics=[SHORT_SIGHTED.name])
    rows = [f"{n},question {n},{'yes' if n % 3 else 'certainly'}" for n in range(9)]
    (tmp_path / "tiny" / "t.csv").write_text("\n".join(["id,question,answer", *rows]), encoding="utf-8")
    write_rows(
        tmp_path / "m.jsonl", [{"benchmark": "tiny", "instance_id": str(n), "completion": "yes"} for n in range(9)]
    )
    return "run", tmp_path / "tiny", "--model", f"replay/{tmp_path}/m.jsonl"


def test_a_run_and_its_shards_count_the_same(
    medhelm: Medhelm, command: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "beginning" not in medhelm(*command, "--store", tmp_path / "read to the end").err
    monkeypatch.setattr(metrics.METRICS, "built_in", {**metrics.METRICS.built_in, SHORT_SIGHTED.name: SHORT_SIGHTED})
    whole = medhelm(*command)
    assert "on Tiny compared only the beginning of long texts" in whole.err
    assert "m.jsonl 3 of 9 instances have a completion or reference that is longer" in whole.err
    assert "3 of 9 instances" in medhelm("leaderboard").out
    for part in ("1/2", "2/2"):
        medhelm(*command, "--shard", part, "--store", tmp_path / "parts")
    assert medhelm("merge", tmp_path / "parts", "--store", tmp_path / "merged").code == 0
    assert "3 of 9 instances" in medhelm("leaderboard", "--store", tmp_path / "merged").out


# --- prompts that a server truncated silently -------------------------------------------------------------------------

GROWING = [(1200 + 40 * n, 300 + 10 * n) for n in range(50)]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        pytest.param([(c, min(t, 700)) for c, t in GROWING], Plateau(700, 10), id="a fifth is cut"),
        pytest.param([*GROWING, (3300, 790), (3500, 790)], Plateau(790, 3), id="two are cut by 4 and 10%"),
        pytest.param([(c, min(t, 310)) for c, t in GROWING], None, id="nearly all: nothing to compare with"),
        pytest.param(GROWING, None, id="whole"),
        pytest.param([*GROWING, *[(3200, 800)] * 5], None, id="the same prompts several times"),
        pytest.param([*GROWING, (3200, 800), (3300, 800), (3180, 800)], None, id="other ratios by chance"),
        pytest.param([(c, min(t, 120)) for c, t in GROWING], None, id="counts that are too low to mean anything"),
    ],
)
def test_plateau(prompts: list[tuple[int, int]], expected: Plateau | None) -> None:
    assert find_plateau(prompts) == expected


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.25])
@pytest.mark.parametrize("name", ["medcalc_bench", "pubmed_qa", "aci_bench"])
def test_whole_prompts_are_no_plateau_and_cut_ones_are(data_dir: Path, name: str, noise: float) -> None:
    """Counts of real prompts with a random ratio for each."""
    dataset = open_dataset(benchmark(name), data=data_dir, tier="real", options=SampleOptions(limit=500))
    lengths = [n_characters(render(benchmark(name), instance)) for instance in dataset]
    random = Random(1)
    n_found = 0
    for _ in range(20):
        counts = [max(1, round(n / 4 * math.exp(random.gauss(0, noise)))) for n in lengths]
        whole = [*zip(lengths, counts, strict=True)]
        assert find_plateau(whole) is None
        window = sorted(counts)[len(counts) // 2]
        n_found += find_plateau([(n, min(count, window)) for n, count in whole]) is not None
    assert n_found == 20 or noise > 0.05


@pytest.mark.parametrize("window", [600, 10_000])
def test_a_run_says_that_its_server_truncates(medhelm: Medhelm, server: Server, tmp_path: Path, window: int) -> None:
    place = choice.make_benchmark(tmp_path, n=20)
    questions = [row | {"question": "lengthy " * (200 + 10 * n)} for n, row in enumerate(choice.rows(20))]
    write_rows(place / "rows.jsonl", questions)

    def answer(body: dict[str, Any]) -> Answer:
        count = min(window, len(body["messages"][0]["content"]) // 4)
        choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": count, "completion_tokens": 1}
        return Answer(body={"model": "m", "choices": [choice], "usage": usage})

    server.answer_with(answer)
    done = medhelm("run", str(place), "--model", f"openai/m@{server.url}/v1")
    words = "on toy: 10 prompts have different lengths, but the server counted 600 tokens in each"
    assert (words in " ".join(done.err.split())) is (window == 600), done.err
