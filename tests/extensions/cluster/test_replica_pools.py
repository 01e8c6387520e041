"""Evaluations of a model that several servers serve: what is sent where, and what of it is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Model
from medhelm.errors import UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.models.addresses import SentData, missing_consent, policy_for
from medhelm.models.catalog import find_models
from medhelm.models.model_check import check
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect
from tests.support.servers.openai import Answer, Server

N = 60


def pool(*urls: str) -> Model:
    (model,) = find_models([f"openai/mock@{','.join(f'{url}/v1' for url in urls)}"], environment={})
    return model


def toy(folder: Path) -> Benchmark:
    (found,) = load_benchmarks([str(make_benchmark(folder, n=N))], metrics=METRIC_NAMES)
    return found


def run(tmp_path: Path, benchmark: Benchmark, model: Model) -> Evaluation:
    return evaluate([benchmark], [model], store=tmp_path / "store", settings=Settings(concurrency=4))


def test_a_run_at_several_servers_one_of_which_breaks_connections(tmp_path: Path) -> None:
    benchmark = toy(tmp_path)
    with Server() as one, Server() as two:
        one.answer_with(answers_with(perfect))
        two.script(Answer(ending="reset"))
        done = run(tmp_path, benchmark, pool(one.url, two.url))
        (result,) = done.runs
        assert (result.n, result.n_failed, result.status) == (N, 0, "complete")
        assert one.count == N, "each completion was bought once"
        assert 0 < two.count < N / 2
        one.script(Answer(status=500))
        assert run(tmp_path, benchmark, pool(two.url, one.url)).requests_sent == 0, "other servers, the same model"
    (stored,) = load_runs(open_store(tmp_path / "store"))
    assert stored.model == "openai/mock@pool"
    assert one.url not in next((tmp_path / "store" / "runs").rglob("run.json")).read_text()


def test_each_server_of_a_pool_is_checked(tmp_path: Path) -> None:
    with Server() as one:
        one.script(chat("OK"))
        checked = check([pool(one.url, "http://127.0.0.1:1")], environment={})
    assert [result.model.name for result in checked] == [
        f"openai/mock@pool at {one.url}/v1",
        "openai/mock@pool at http://127.0.0.1:1/v1",
    ]
    assert [result.answer.failure and result.answer.failure.code for result in checked] == [None, "connection"]


def test_every_host_of_a_pool_needs_consent_for_private_data(tmp_path: Path) -> None:
    sent = [SentData(benchmark=toy(tmp_path), n=N, is_own=True)]
    model = pool("http://127.0.0.1:8000", "http://10.1.0.5:8000", "http://node7:8000")
    text = missing_consent(sent, [model], [], allowed=["10.1.0.0/16"])
    assert "to node7 (openai/mock@pool)" in text
    assert "10.1.0.5" not in text
    assert missing_consent(sent, [model], [], allowed=["10.1.0.5", "NODE7"]) == ""
    with pytest.raises(UserError, match="--allow-host: `http://node7` is neither a host"):
        missing_consent(sent, [model], [], allowed=["http://node7"])


def test_hosts_that_may_join_matter_only_to_pools_with_a_file(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.txt"
    file.write_text("http://10.1.0.5:8000/v1\n")
    (filed,) = find_models([f"openai/mock@file:{file}"], environment={})
    policy = policy_for([filed], offline=False, allow_hosts=["10.1.0.0/16", "*.cluster"])
    for host in ("10.1.0.5", "10.1.9.9", "node.cluster"):
        policy.admit(f"http://{host}:8000/v1")
    with pytest.raises(UserError, match="only hosts of the models"):
        policy.admit("http://elsewhere:8000/v1")
    fixed = policy_for([pool("http://10.1.0.5:8000", "http://10.1.0.6:8000")], offline=False, allow_hosts=["10.1.0.9"])
    with pytest.raises(UserError, match="only hosts of the models"):
        fixed.admit("http://10.1.0.9:8000/v1")
