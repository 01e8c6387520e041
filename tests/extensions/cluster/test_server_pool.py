"""Pools of servers, in simulated time and by name."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Model
from medhelm.errors import ProviderError, UserError
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Evaluation, Settings
from medhelm.models.addresses import SentData, missing_consent, policy_for
from medhelm.models.catalog import find_models
from medhelm.models.client import ModelUnusable
from medhelm.models.model_check import check
from medhelm.models.prompt_caching import MIN_CHARACTERS
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
from tests.support import virtual_time
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect
from tests.support.models.simulated_servers import SimulatedPool
from tests.support.servers.openai import Answer, Server

run_test = virtual_time.run
ONE, TWO, THREE = (f"http://127.0.0.1:800{n}/v1" for n in range(3))


def now() -> float:
    return asyncio.get_running_loop().time()


def write(file: Path, *addresses: str) -> None:
    """Replace the file; its time differs from that of the version before."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text("".join(f"{address}\n" for address in addresses))
    os.utime(file, ns=(before + 1_000_000, before + 1_000_000))


async def test_servers_die_and_join_and_nothing_is_lost_or_bought_twice(tmp_path: Path) -> None:
    """Three servers of 8 completions a second; one dies after 20 s and another one joins after 40 s."""
    file, n = tmp_path / "endpoints.txt", 1_300
    write(file, ONE, TWO)

    pool = SimulatedPool([ONE, TWO], file=file)
    write(file, ONE, TWO, "http://127.0.0.1:8009/v1")

    async def events() -> None:
        await asyncio.sleep(20)
        pool.server(ONE).die()
        await asyncio.sleep(20)
        write(file, ONE, TWO, "http://127.0.0.1:8009/v1", THREE)

    eventful = asyncio.ensure_future(events())
    results = await pool.ask_all(range(n), lanes=48)
    await eventful
    capacity = 24 * 20 + 16 * 20 + 24 * (now() - 40)
    assert [r.completion.failure for r in results if r.completion.failure] == []
    assert pool.good() == Counter(range(n))
    assert n / capacity > 0.9, f"{n / capacity:.3f} of what the living servers could complete"
    shares = [sum(server.good.values()) for server in pool.servers.values()]
    assert min(shares) > n / 10
    assert any("joined" in note for note in pool.notes)
    assert any(f"{ONE} does not respond" in note for note in pool.notes)


async def test_a_request_goes_to_another_server_at_once_and_keeps_its_attempts() -> None:
    pool = SimulatedPool([ONE, TWO, THREE])
    await pool.ask_all(range(24), lanes=24)
    asking = asyncio.gather(*[pool.ask(number) for number in range(100, 124)])
    await asyncio.sleep(0.5)
    started = now()
    pool.server(ONE).die()
    pool.server(TWO).die()
    results = await asking
    assert all(result.completion.text == THREE for result in results if result.requests_sent > 1)
    assert Counter(result.requests_sent for result in results)[1] == 8
    assert now() - started < 4.0  # 24 requests at 8 a second, without any backoff
    pool.server(ONE).restart()
    await pool.ask_all(range(200, 400), lanes=24)
    assert sum(pool.server(ONE).good.values()) > 50, "a server that is back gets requests"


async def test_a_request_that_times_out_everywhere_fails_and_the_pool_goes_on() -> None:
    pool = SimulatedPool([ONE, TWO])
    await pool.ask(0)
    for server in pool.servers.values():
        server.failure = ProviderError("bad_request", "no such field")
    wrong = await pool.ask(3)
    assert wrong.completion.failure is not None
    assert (wrong.completion.failure.code, wrong.requests_sent, pool.notes) == ("bad_request", 1, [])
    for server in pool.servers.values():
        server.failure = ProviderError("timeout", "no reply", retryable=True, reply_lost=True)
    result = await pool.ask(1)
    assert result.completion.failure is not None
    assert result.completion.failure.code == "timeout"
    assert result.requests_sent == 5 + 2, "the first at each server does not count"
    for server in pool.servers.values():
        server.failure = None
    assert (await pool.ask(2)).completion.text


async def test_a_server_with_another_model_or_key_is_set_aside_alone() -> None:
    pool = SimulatedPool([ONE, TWO, THREE])
    pool.server(ONE).listed = ["another"]
    pool.server(TWO).failure = ProviderError("key", "openai/m@pool: wrong key", fatal=True)
    results = await pool.ask_all(range(50), lanes=24)
    assert {result.completion.text for result in results} == {THREE}
    assert not pool.server(ONE).received
    assert sorted(pool.notes) == [
        f"openai/m@pool: {ONE} is set aside and gets no requests until it serves this one: it serves another",
        f"openai/m@pool: {TWO} is set aside and gets no requests: wrong key",
    ]

    alone = SimulatedPool([ONE])
    alone.server(ONE).listed = ["another"]
    with pytest.raises(ModelUnusable, match="it serves another"):
        await alone.ask(1)


async def test_without_any_server_the_model_is_given_up(tmp_path: Path) -> None:
    pool = SimulatedPool([ONE, TWO])
    pool.server(ONE).die()
    pool.server(TWO).die()
    with pytest.raises(ModelUnusable, match=r"none of its servers can be used \(http://127.0.0.1:8000/v1: refused"):
        await pool.ask(1)
    assert 25 < now() < 40
    with pytest.raises(ModelUnusable):
        await pool.ask(2)
    assert now() < 40, "later requests are refused at once"

    waiting = SimulatedPool([ONE], file=tmp_path / "endpoints.txt")  # others may join: it waits longer
    waiting.server(ONE).die()
    asking = asyncio.ensure_future(waiting.ask(1))
    await asyncio.sleep(100)
    write(tmp_path / "endpoints.txt", ONE, TWO)
    assert (await asking).completion.text == TWO


async def test_the_requests_of_a_server_that_hangs_move_to_another() -> None:
    pool = SimulatedPool([ONE, TWO], max_silence_s=60.0)
    await pool.ask_all(range(16), lanes=16)
    pool.server(ONE).hang()
    results = await pool.ask_all(range(100, 300), lanes=24)
    assert {result.completion.text for result in results} == {TWO}
    assert sum(pool.good().values()) == 216


async def test_a_file_that_is_wrong_changes_what_it_can(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.txt"
    write(file, ONE)

    pool = SimulatedPool([ONE], file=file, joining=["*.cluster", "10.1.0.0/16"])
    asking = asyncio.ensure_future(pool.ask_all(range(800), lanes=24))
    await asyncio.sleep(5)
    write(file, ONE, "nonsense", "http://stranger/v1", "https://127.0.0.1/v1", "http://10.1.2.3:8000/v1")
    await asyncio.sleep(5)
    write(file)
    await asyncio.sleep(5)
    file.unlink()
    await asking
    said = "\n".join(pool.notes)
    for words in (
        f"{file}:2: `nonsense`: an address must begin with http:// or https://",
        "http://stranger/v1 in",
        "lists no server to use. Its last list of servers is kept.",
        "cannot be read: No such file or directory. Its last list of servers is kept.",
    ):
        assert words in said
    assert set(pool.servers) == {ONE, "http://10.1.2.3:8000/v1"}
    assert sum(pool.server("http://10.1.2.3:8000/v1").good.values()) > 100


async def test_prompts_with_the_same_beginning_go_to_the_same_server() -> None:
    """Sixty notes with ten questions each, the questions of six notes at a time."""
    pool = SimulatedPool([ONE, TWO, THREE], capacity=4)
    asked = [(note, number) for start in range(0, 60, 6) for number in range(10) for note in range(start, start + 6)]
    waiting = iter(asked)

    async def lane() -> None:
        for note, number in waiting:
            await pool.ask(100 * note + number, f"note {note} " + "x" * MIN_CHARACTERS + f" question {number}")

    await asyncio.gather(*[lane() for _ in range(18)])
    homes = [Counter(key // 100 for key in server.good) for server in pool.servers.values()]
    beginnings = sum(len(home) for home in homes)
    assert beginnings < 1.5 * 60, "few beginnings are computed by more than one server"
    assert now() < 1.1 * len(asked) / 12, "and no server waits for it"


async def test_a_place_is_free_again_after_a_cancellation() -> None:
    pool = SimulatedPool([ONE], capacity=1)
    asking = [asyncio.ensure_future(pool.ask(number)) for number in range(5)]
    await asyncio.sleep(0.5)
    for task in asking[:4]:
        task.cancel()
    assert (await asking[4]).completion.text == ONE
    assert pool.pool.replicas[0].in_flight == 0
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing runs on"


# --- pools by name ----------------------------------------------------------------------------------------------------

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
