"""A server of our own: started once, asked, ended whatever happens; with a program that stands in for vLLM."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.errors import ProviderError, UserError
from medhelm.extensions.local.vllm import Vllm
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.catalog import find_models
from medhelm.models.provider import SharedResources
from medhelm.models.providers import open_provider
from tests.support.running import eventually
from tests.support.servers.openai import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")

STAND_IN = Path(__file__).parents[2] / "support" / "servers" / "fake_vllm.py"


def write_model(folder: Path, **config: Any) -> Path:
    """A folder that looks like a model; nothing here loads it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 28, **config}), encoding="utf-8")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    (folder / "chat_template.jinja").write_text("{{ messages[0]['content'] }}", encoding="utf-8")
    return folder


class Stage:
    """A machine with a stand-in for vLLM, and what became of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = folder / "orders.json"
        self.model = write_model(folder / "model", max_position_embeddings=4096)
        self.notes: list[str] = []
        self.environment = {
            "PATH": os.environ["PATH"],
            "MEDHELM_VLLM": str(STAND_IN),
            "STAND_IN": str(self.plan),
            "OPENAI_API_KEY": "sk-secret",
            "CUDA_VISIBLE_DEVICES": "",
        }
        self.order()

    def order(self, **orders: Any) -> None:
        """What the stand-in is to do."""
        self.plan.write_text(json.dumps(orders), encoding="utf-8")

    @property
    def started(self) -> list[dict[str, Any]]:
        """How the stand-in was started, each time."""
        log = self.plan.with_suffix(".log")
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []

    def named(self, **parameters: Any) -> Model:
        (model,) = find_models([f"vllm/{self.model}"], file=None, environment=self.environment)
        return Model(name=model.name, provider="vllm", remote_name=model.remote_name, parameters=parameters)

    def play(self, act: Callable[[HttpClient, SharedResources], Coroutine[Any, Any, Any]]) -> Any:
        """Run `act`, and end everything afterwards."""

        async def run() -> Any:
            http, resources = HttpClient(EgressPolicy(offline=True)), SharedResources(self.notes.append)
            try:
                return await act(http, resources)
            finally:
                await resources.close()
                await http.close()

        return asyncio.run(run())

    def open(self, model: Model, http: HttpClient, resources: SharedResources) -> Vllm:
        provider = open_provider(model, http, environment=self.environment, resources=resources)
        assert isinstance(provider, Vllm)
        return provider

    def ask(self, model: Model, *texts: str) -> list[Completion]:
        """The answers of a server that was started for them."""

        async def act(http: HttpClient, resources: SharedResources) -> list[Completion]:
            provider = self.open(model, http, resources)
            return await asyncio.gather(*(provider.complete(question(model, text)) for text in texts))

        answers: list[Completion] = self.play(act)
        return answers


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def question(model: Model, text: str) -> Request:
    return Request(model=model, prompt=Prompt((Message("user", text),)), max_tokens=7, stop=("END",))


def is_alive(pid: int) -> bool:
    """Whether a process is there; one that only waits to be buried is not."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()[:1] not in ("", "Z")


def nothing_left(stage: Stage) -> bool:
    """Whether no process that was started is there any more."""
    pids = [pid for start in stage.started for pid in (start["pid"], start["child"]) if pid]
    return bool(pids) and eventually(lambda: not any(map(is_alive, pids)))


def test_it_starts_once_answers_and_leaves_nothing(stage: Stage) -> None:
    """Whatever the names of the model."""
    stage.order(ready_s=0.3, child=True)
    judge = replace(stage.named(), name="the judge")

    async def act(http: HttpClient, resources: SharedResources) -> list[Completion]:
        one, two = stage.open(stage.named(), http, resources), stage.open(judge, http, resources)
        assert one.endpoint == two.endpoint
        asked = [(one, "one"), (two, "two"), (one, "three")]
        return await asyncio.gather(*(provider.complete(question(provider.model, text)) for provider, text in asked))

    first, second, third = stage.play(act)
    assert [each.text for each in (first, second, third)] == ["echo: one", "echo: two", "echo: three"]
    assert (first.finish_reason, first.usage.input, first.usage.output) == ("stop", 5, 2)
    assert first.reported_model == str(stage.model)
    assert len(stage.started) == 1
    assert nothing_left(stage)
    assert any("starting its server" in note for note in stage.notes)
    assert any("ready after" in note for note in stage.notes)


def test_how_it_is_started_and_nobody_else_on_this_machine_can_use_it(stage: Stage) -> None:
    async def act(http: HttpClient, resources: SharedResources) -> int:
        provider = stage.open(stage.named(serve_arguments=["--max-model-len", 2048]), http, resources)
        await provider.server.ready()
        return (await http.post_json(f"{provider.server.base_url}/chat/completions", headers={}, payload={})).status

    assert stage.play(act) == 401
    (start,) = stage.started
    words, seen = start["words"], start["environment"]
    assert words[:4] == ["serve", str(stage.model), "--host", "127.0.0.1"]
    assert words[-4:] == ["--generation-config", "vllm", "--max-model-len", "2048"]
    assert "--trust-remote-code" not in words
    assert "--tensor-parallel-size" not in words  # no GPU here
    # It stays at home, and sees no key but its own.
    assert (seen["HF_HUB_OFFLINE"], seen["VLLM_NO_USAGE_STATS"]) == ("1", "1")
    assert "OPENAI_API_KEY" not in seen
    assert "MEDHELM_VLLM" not in seen
    assert len(seen["VLLM_API_KEY"]) > 20


def test_a_model_without_a_chat_template_reads_plain_text(stage: Stage) -> None:
    """As with hf/: vLLM itself would refuse every question."""
    stage.ask(stage.named(), "x")
    assert "--chat-template" not in stage.started[-1]["words"]
    (stage.model / "chat_template.jinja").unlink()
    stage.ask(stage.named(serve_arguments=["--chat-template", "own.jinja"]), "x")
    assert stage.started[-1]["words"].count("--chat-template") == 1
    stage.ask(stage.named(), "x")
    words = stage.started[-1]["words"]
    jinja2 = pytest.importorskip("jinja2", reason="jinja2 comes with the extra hf")
    template = jinja2.Template(words[words.index("--chat-template") + 1])
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert template.render(messages=turns, bos_token="<s>") == "<s>Be brief.\n\nWhy?"
    assert sum("has no chat template" in note for note in stage.notes) == 1


def test_two_models_share_the_gpus(stage: Stage) -> None:
    stage.environment["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"
    places = [stage.model, write_model(stage.folder / "other", num_attention_heads=7)]

    async def act(http: HttpClient, resources: SharedResources) -> None:
        models = [Model(name=str(place), provider="vllm", remote_name=str(place)) for place in places]
        providers = [stage.open(model, http, resources) for model in models]
        await asyncio.gather(*(each.complete(question(each.model, "x")) for each in providers))

    stage.play(act)
    started = {start["words"][1]: start for start in stage.started}
    for place, gpus, parts in zip(places, ("0,1", "2,3"), ("2", "1"), strict=True):  # 28 heads and 7 heads
        words = started[str(place)]["words"]
        assert started[str(place)]["environment"]["CUDA_VISIBLE_DEVICES"] == gpus
        assert words[words.index("--tensor-parallel-size") + 1] == parts
        assert "--gpu-memory-utilization" not in words


@pytest.mark.parametrize(
    ("says", "advice"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "The GPU does not have enough memory"),
        ("RuntimeError: Failed to infer device type", "vLLM finds no GPU: check nvidia-smi"),
        (
            "consider setting `trust_remote_code=True` in LLM or using the `--trust-remote-code` flag in the CLI.",
            "The model needs code from its own files",
        ),
        # A line that every start prints is no reason.
        ("INFO engine config: max_model_len=8192, trust_remote_code=False", "exited with code 3. The end of its log"),
    ],
)
@pytest.mark.long
def test_a_server_that_ends_early_says_why(stage: Stage, says: str, advice: str) -> None:
    stage.order(exit=3, says=f"INFO loading\n{says}")
    with pytest.raises(ProviderError, match="its server exited with code 3") as raised:
        stage.ask(stage.named(), "x")
    assert (raised.value.code, raised.value.fatal) == ("not_started", True)
    assert advice in str(raised.value)
    assert f"  | {says}" in str(raised.value)
    assert "INFO loading" in str(raised.value)
    assert len(stage.started) == 1
    assert nothing_left(stage)


def test_a_start_that_failed_is_not_repeated_for_every_request(stage: Stage) -> None:
    stage.order(exit=1)

    async def act(http: HttpClient, resources: SharedResources) -> None:
        provider = stage.open(stage.named(), http, resources)
        for _ in range(3):
            with pytest.raises(ProviderError, match="exited with code 1"):
                await provider.complete(question(provider.model, "x"))

    stage.play(act)
    assert len(stage.started) == 1


def test_a_server_that_never_gets_ready_is_given_up(stage: Stage) -> None:
    stage.order(ready_s=3600, says="Loading weights: 3 of 90", child=True)
    stage.environment["MEDHELM_VLLM_WAIT_S"] = "1.5"
    with pytest.raises(ProviderError, match=r"not ready after 1\.5 s\. .*set MEDHELM_VLLM_WAIT_S") as raised:
        stage.ask(stage.named(), "x")
    assert "Loading weights: 3 of 90" in str(raised.value)
    assert nothing_left(stage)


def test_a_server_that_does_not_hear_is_killed_with_its_children(stage: Stage) -> None:
    stage.order(deaf=True, child=True)

    async def act(http: HttpClient, resources: SharedResources) -> None:
        provider = stage.open(stage.named(), http, resources)
        provider.server._grace_s = 0.2
        await provider.complete(question(provider.model, "x"))

    stage.play(act)
    assert nothing_left(stage)


def test_a_server_that_dies_on_the_way_is_told_of_with_its_log(stage: Stage) -> None:
    """Nobody starts it anew in the middle of a run."""
    stage.order(die_after=1)

    async def act(http: HttpClient, resources: SharedResources) -> None:
        provider = stage.open(stage.named(), http, resources)
        await provider.complete(question(provider.model, "x"))
        with pytest.raises(ProviderError):
            await provider.complete(question(provider.model, "y"))
        assert eventually(lambda: not provider.server.alive())
        with pytest.raises(ProviderError, match=r"(?s)its server exited unexpectedly.*illegal memory access") as raised:
            await provider.complete(question(provider.model, "z"))
        assert raised.value.fatal

    stage.play(act)
    assert len(stage.started) == 1


def test_closing_while_it_starts_ends_it(stage: Stage) -> None:
    stage.order(ready_s=3600)

    async def act(http: HttpClient, resources: SharedResources) -> None:
        provider = stage.open(stage.named(), http, resources)
        asking = asyncio.ensure_future(provider.complete(question(provider.model, "x")))
        while not stage.started:
            await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    stage.play(act)
    assert nothing_left(stage)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.long
def test_nothing_outlives_a_process_that_is_killed(stage: Stage, number: int) -> None:
    stage.order(child=True)
    temporary = stage.folder / "temporary"
    temporary.mkdir()
    program = (
        "import asyncio, os, sys\n"
        "from medhelm.models.catalog import find_models\n"
        "from medhelm.io.http.egress import EgressPolicy\n"
        "from medhelm.io.http.client import HttpClient\n"
        "from medhelm.models.providers import open_provider\n"
        "async def main():\n"
        "    (model,) = find_models([sys.argv[1]], file=None, environment=os.environ)\n"
        "    provider = open_provider(model, HttpClient(EgressPolicy(offline=True)), environment=os.environ)\n"
        "    await provider.server.ready()\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    ours = subprocess.Popen(
        [sys.executable, "-c", program, f"vllm/{stage.model}"],
        env={**os.environ, **stage.environment, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert ours.stdout is not None
    assert ours.stdout.readline() == b"ready\n"
    ours.send_signal(number)
    ours.communicate(timeout=PATIENCE_S)
    assert nothing_left(stage)
    assert list(temporary.iterdir()) == []  # not even its log


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", 1], "cannot hold --port"),
        (["--trust_remote"], "cannot hold --trust-remote-code"),  # vLLM takes abbreviations
        (["--config", "my.yaml"], "cannot hold --config, because the file would not be checked"),
    ],
)
def test_arguments_that_are_ours(stage: Stage, arguments: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        stage.ask(stage.named(serve_arguments=arguments), "x")
    assert stage.started == []
