"""Batch APIs: thousands of requests handed over at once, answered within a day, at half the price.

Two services have one of their own: OpenAI's takes a file of requests (platform.openai.com/docs/guides/batch, and the
vendor's Python SDK 3.54), Anthropic's takes them as they are (platform.claude.com/docs/en/build-with-claude/
batch-processing, and SDK 2.12). What stands inside a request and its answer is that of the model's own dialect.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import IO, Any

from medhelm.domain import Completion, Model, Request
from medhelm.errors import ProviderError
from medhelm.io.http_client import MAX_REPLY_BYTES, HttpClient
from medhelm.models.batch.anthropic import AnthropicBatches
from medhelm.models.batch.openai import OpenAIBatches
from medhelm.models.batch.protocol import (
    LOST,
    NO_BATCHES,
    TOO_MUCH_QUEUED,
    BatchFraming,
    BatchService,
    BatchStatus,
    RequestResult,
)
from medhelm.models.batch.request_file import RequestFile
from medhelm.models.provider import REFUSED_PARTS, Provider
from medhelm.models.providers.errors.classify import classify_error
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.hosted import HttpProvider, missed

__all__ = [
    "LOST",
    "NO_BATCHES",
    "SERVICES",
    "TOO_MUCH_QUEUED",
    "BatchFraming",
    "BatchService",
    "BatchStatus",
    "RequestFile",
    "RequestResult",
    "completion_in",
    "has_batches",
    "lines_in",
    "open_service",
    "payload",
]

SERVICES: Mapping[str, type[OpenAIBatches] | type[AnthropicBatches]] = {
    "openai": OpenAIBatches,
    "anthropic": AnthropicBatches,
}
"""Provider -> its batch API."""


def has_batches(model: Model) -> bool:
    """Whether the model's provider has a batch API; a server that only speaks its dialect may still have none."""
    return model.provider in SERVICES


def payload(provider: HttpProvider, request: Request) -> dict[str, Any]:
    """The body of one request, as it would be if it were sent alone."""
    return provider.dialect.payload(request, provider.dialect.parts(request) - provider.left_out.keys())


def completion_in(
    line: RequestResult, provider: HttpProvider, request: Request, left_out: Collection[str] = ()
) -> Completion:
    """What a line comes to: a completion, refusals included. `left_out`: parts that its batch went without.

    Raises: ProviderError if it was not answered. One about a part of the request that the service refuses has a code
    of `models.provider.REFUSED_PARTS`: from then on `provider` asks without it.
    """
    if line.document is None and not line.status:
        raise ProviderError(line.word, f"{provider.model.name}: not answered in its batch ({line.word})")
    said, status = line.said, line.status
    wanted = provider.dialect.parts(request)
    how: dict[str, Any] = {"batched": True, "refused_parameters": missed(request, wanted.intersection(left_out))}
    if line.document is not None:
        status, said = 200, provider.dialect.error_in(line.document)
        if said is None:
            return replace(provider.dialect.read(line.document, request), **how)
    complaint = parse_error(status, said, secrets=provider.dialect.secrets)
    try:
        return replace(classify_error(complaint, provider.model, parts=wanted.difference(left_out)), **how)
    except ProviderError as error:
        if part := REFUSED_PARTS.get(error.code):
            provider.left_out[part] = complaint.message
        raise


def open_service(provider: Provider, http: HttpClient) -> BatchService | None:
    """The batch API behind a provider; None if there is none."""
    if isinstance(provider, HttpProvider) and (kind := SERVICES.get(provider.model.provider)):
        return kind(provider, http)
    return None


def lines_in(file: IO[bytes], service: BatchService, name: str) -> Iterator[RequestResult]:
    """The lines of a file of answers to the batch with our own name `name`.

    What is no line of JSON is passed over, so that its request counts as missing.
    """
    while text := file.readline(MAX_REPLY_BYTES):  # the rest of a longer line is no line
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, Mapping) and (line := service.read(name, content)):
            yield line
