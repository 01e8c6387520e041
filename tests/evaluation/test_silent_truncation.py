"""Prompts that a server truncated silently, found by the counts of a whole run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.prompts import render
from medhelm.evaluation.context import n_characters
from medhelm.evaluation.remarks import Plateau, find_plateau
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.library import benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

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


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.15, 0.25])
@pytest.mark.parametrize("name", ["medcalc_bench", "pubmed_qa", "aci_bench", "mtsamples", "medec"])
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
    place = make_benchmark(tmp_path, n=20)
    rows = [json.loads(line) for line in (place / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [row | {"question": "lengthy " * (200 + 10 * n)} for n, row in enumerate(rows)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts), encoding="utf-8")

    def answer(body: dict[str, Any]) -> Answer:
        count = min(window, len(body["messages"][0]["content"]) // 4)
        choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": count, "completion_tokens": 1, "total_tokens": count + 1}
        return Answer(body={"model": "m", "choices": [choice], "usage": usage})

    server.answer_with(answer)
    done = medhelm("run", str(place), "--model", f"openai/m@{server.url}/v1")
    words = "on toy: 10 prompts have different lengths, but the server counted 600 tokens in each"
    assert (words in " ".join(done.err.split())) is (window == 600), done.err
