"""The class that Ray starts on the nodes of a cluster: a process that holds models and computes neural metrics.

It gets the names of what it computes, and data. It stores nothing: every result goes back to the process that asked,
which commits it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import medhelm
from medhelm.domain import Completion, FailureCode, Model, Request
from medhelm.errors import MedHelmError, ProviderError
from medhelm.extensions.cluster.ray.pool import WorkerDescription, WorkerFailure, WorkerResult
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.provider import Provider, SharedResources
from medhelm.models.providers import SERVICES, open_provider

DEVICE = "MEDHELM_HF_DEVICE"
"""Environment variable with the device of models within a process."""


class ClusterWorker:
    """Holds models, each loaded at its first request, and computes by name. Its methods run in one event loop."""

    def __init__(self, host: str = "", folder: str = "") -> None:
        """`host`: address of the node, if it is known; `folder`: working directory, if it exists here."""
        self._host = host or _node_address()
        self._notes: list[str] = []
        self._resources = SharedResources(self._notes.append)
        self._http = HttpClient(EgressPolicy(offline=True))  # workers contact no host
        self._providers: dict[str, Provider] = {}
        with suppress(OSError):
            os.chdir(folder or ".")

    async def describe(self) -> WorkerDescription:
        """Return where it runs; the answer also shows that it has started."""
        return WorkerDescription(self._host, medhelm.__version__)

    async def complete(self, request: Request, seed: int) -> WorkerResult:
        """Return the completion of one request, or a `WorkerFailure`."""
        return self._result(await self._complete(request, seed))

    async def compute(self, function: str, *arguments: object) -> WorkerResult:
        """Call a function of medhelm, given as `module:name`, in a thread, and return its result."""
        module, _, name = function.partition(":")
        called: Callable[..., Any] = getattr(import_module(f"medhelm.{module}"), name)
        return self._result(await asyncio.to_thread(called, *arguments))

    async def _complete(self, request: Request, seed: int) -> Completion | WorkerFailure:
        try:
            return await self._provider(request.model, seed).complete(request)
        except ProviderError as error:
            # Only fatal errors name the node: the message on a prompt that is too long is read again.
            message = self._with_node(error) if error.fatal else str(error)
            return WorkerFailure(error.code, message, error.retryable, error.fatal)
        except MedHelmError as error:  # the model cannot be opened on this node
            return WorkerFailure(FailureCode.NOT_STARTED, self._with_node(error), retryable=False, fatal=True)

    def _provider(self, model: Model, seed: int) -> Provider:
        """Return the provider of a model; opened once. Raises: UserError, MissingError."""
        provider = self._providers.get(model.name)
        if provider is None:
            environment = dict(os.environ)
            if environment.get("CUDA_VISIBLE_DEVICES"):  # Ray has chosen the GPU, which is then the first
                environment.pop(DEVICE, None)
            _check_same(model, environment)
            provider = open_provider(model, self._http, environment=environment, seed=seed, resources=self._resources)
            self._providers[model.name] = provider
        return provider

    def _result(self, value: object) -> WorkerResult:
        notes = tuple(self._notes)
        self._notes.clear()
        return WorkerResult(value, notes)

    def _with_node(self, error: MedHelmError) -> str:
        return f"on node {self._host}: {error}"


def _check_same(model: Model, environment: dict[str, str]) -> None:
    """Check that the model's files here are those that identify its completions. Raises: ProviderError."""
    wanted = model.parameters.get("version")
    found = SERVICES[model.provider].resolve(model, environment).parameters.get("version")
    if found != wanted:
        versions = [str(version)[:16] if version else "none" for version in (found, wanted)]
        raise ProviderError(
            FailureCode.NOT_LOADED,
            f"{model.name}: the version of its files is {versions[0]} here, but {versions[1]} on the machine that "
            "started the evaluation. Copy the same files to all of them.",
            fatal=True,
        )


def _node_address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())
