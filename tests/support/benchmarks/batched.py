"""Runs through batch APIs, for tests: models and judges at one server, their answers, and the command in a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain.completion import Batch
from medhelm.evaluation.batches import BatchJob
from medhelm.storage.store import Store
from medhelm.storage.unfinished import Batches
from tests.support.benchmarks.choice import perfect
from tests.support.benchmarks.judged import CRITERIA, verdict
from tests.support.cli import Medhelm, Outcome
from tests.support.servers.batch_apis import BatchServer, vendor_of
from tests.support.servers.openai import Answer
from tests.support.servers.vendors import ANTHROPIC, GOOGLE, OPENAI, Body, Vendor

N = 9
PRICE = {"input": 1.0, "cached_input": 0.25, "output": 10.0}
COST_USD = (16 * 1.0 + 4 * 0.25 + 5 * 10.0) / 1e6
"""Of one reply at the full price: 16 new tokens, 4 cached ones, 5 written."""


def question(body: Body) -> int:
    text = vendor_of(body).prompt_of(body) if vendor_of(body) is GOOGLE else body["messages"][0]["content"]
    return int(text.partition("number ")[2].partition("?")[0])


def respond(body: Body) -> Answer:
    """Models know the answers, judges give a 4."""
    vendor = vendor_of(body)
    if vendor.schema_of(body) is not None or "judge" in str(body.get("model")):
        return vendor.answer(verdict(*(4 for _ in CRITERIA)))
    return vendor.answer(perfect(question(body)))


def entry(vendor: Vendor, server: BatchServer, model: str, **more: Any) -> str:
    known = {"provider": vendor.provider, "model": model, "base_url": server.url + vendor.base, "key": vendor.variable}
    return json.dumps({**known, "price": PRICE, **more})


def write_models(file: Path, server: BatchServer) -> Path:
    """A models.yaml with models and judges of OpenAI and Anthropic, and one of Google, all at one server."""
    lines = [
        f"openai-m: {entry(OPENAI, server, 'gpt-m')}",
        f"anthropic-m: {entry(ANTHROPIC, server, 'claude-m')}",
        f"google-m: {entry(GOOGLE, server, 'm')}",
        f"openai-judge: {entry(OPENAI, server, 'judge-o')}",
        f"anthropic-judge: {entry(ANTHROPIC, server, 'claude-judge')}",
        f"google-judge: {entry(GOOGLE, server, 'm')}",
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def arguments(benchmark: Path, models: Path, *names: str) -> list[str]:
    words = ["run", str(benchmark), "--data", str(benchmark.parent), "--models", str(models), "--json"]
    return words + [word for name in names for word in ("--model", name)]


def command(
    models: Path, benchmark: Path, *names: str, before: str = "", more: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """The same run in a process of its own, that polls all the time. `before`: what it executes first."""
    words = [*arguments(benchmark, models, *names), *more, "--batch"]
    code = (
        "from medhelm import cli; from medhelm.evaluation import batches; "
        "batches.FIRST_POLL_S = 0.01; batches.FIRST_RETRY_S = 0.01; "
        f"{before}\ncli.main()"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEDHELM_")}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
    )


@contextmanager
def killed(process: subprocess.Popen[str]) -> Iterator[None]:
    """Once what is waited for within it has come, the process is killed: it has no chance to clear anything up."""
    yield
    process.kill()
    process.communicate(timeout=600)


@dataclass
class BatchRuns:
    """Commands on one benchmark with models and judges at one server. A model is a name, or the vendor whose it is."""

    medhelm: Medhelm
    services: BatchServer
    models: Path
    benchmark: Path

    @property
    def store(self) -> Store:
        """The store of these commands."""
        return Store(self.benchmark.parent / "medhelm-store")

    @property
    def kept(self) -> list[Batch]:
        """Return the batches that the store remembers."""
        return Batches(self.store).all()

    @property
    def sizes(self) -> list[int]:
        """Return the number of requests of each batch that the services took."""
        return [len(names) for names in self.services.taken]

    def words(self, *models: str | Vendor) -> list[str]:
        """Return the words of `medhelm run`, without `--batch`."""
        return arguments(self.benchmark, self.models, *map(_name, models))

    def run(self, *models: str | Vendor, options: Sequence[str] = (), batch: bool = True, code: int = 0) -> Outcome:
        """Run the models, and check the exit code."""
        done = self.medhelm(*self.words(*models), *options, *(["--batch"] if batch else []))
        assert done.code == code, done.err
        return done

    def start(self, model: str | Vendor, *, before: str = "", more: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start the same run in a process of its own."""
        return command(self.models, self.benchmark, _name(model), before=before, more=more)

    def leave_waiting(self, model: str | Vendor) -> None:
        """Interrupt a run whose batch its service has taken and not finished, as Ctrl-C does."""

        async def interrupt(job: BatchJob, _batch: Batch) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            await job.retries.pause(600.0)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BatchJob, "_wait", interrupt)
            assert self.medhelm(*self.words(model), "--batch").code == 130
        assert [batch.state for batch in self.kept] == ["submitted"]


def _name(model: str | Vendor) -> str:
    return model if isinstance(model, str) else f"{model.provider}-m"
