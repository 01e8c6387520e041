"""Batch APIs: thousands of requests submitted at once and completed within a day, at half the price.

OpenAI's takes a file of requests, Anthropic's one document. Inside, requests and completions have the form of the
model's ordinary API.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pkgutil import resolve_name
from typing import IO, TypeGuard

from medhelm.domain import Completion, Model, Request
from medhelm.errors import ProviderError
from medhelm.io.http.client import MAX_REPLY_BYTES, HttpClient
from medhelm.models.batch.protocol import BatchService, RequestResult
from medhelm.models.provider import OptionalParameter, Provider
from medhelm.models.providers import SERVICES
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.hosted import HttpProvider, omitted_parameters


def has_batches(model: Model) -> bool:
    """Return True if the model's provider has a batch API; a compatible server of someone else may still lack one."""
    return not model.replicas and model.provider in SERVICES.built_in and bool(SERVICES[model.provider].batch)


def has_batch_api(provider: Provider) -> TypeGuard[HttpProvider]:
    """Return True if a provider's service has a batch API."""
    return isinstance(provider, HttpProvider) and bool(provider.service.batch)


def open_batch_service(provider: HttpProvider, http: HttpClient) -> BatchService:
    """Open the batch API of a provider that has one."""
    service: BatchService = resolve_name(provider.service.batch)(provider, http)
    return service


def read_completion(
    result: RequestResult,
    provider: HttpProvider,
    request: Request,
    unsupported: Collection[OptionalParameter] = (),
) -> Completion:
    """Read the completion, refusals included, in the result of one request.

    `unsupported`: optional parameters that its batch left out.
    Raises: ProviderError if there is none. If the service does not support an optional parameter, `provider` leaves
    it out from then on.
    """
    if result.document is None and not result.status:
        message = f"{provider.model.name}: not answered in its batch ({result.reason})"
        raise ProviderError(result.reason, message)
    optional = provider.dialect.optional_parameters(request)
    error, status = result.error, result.status
    omitted = omitted_parameters(request, optional.intersection(unsupported))
    if result.document is not None:
        status, error = 200, provider.dialect.error_in(result.document)
        if error is None:
            completion = provider.dialect.read(result.document, request)
            return provider.redacted(replace(completion, batched=True, refused_parameters=omitted))
    response = parse_error(status, error, secrets=provider.dialect.secrets)
    completion = provider.read_error(response, optional.difference(unsupported))
    return provider.redacted(replace(completion, batched=True, refused_parameters=omitted))


def read_results(file: IO[bytes], service: BatchService, name: str) -> Iterator[RequestResult]:
    """Read the results of the batch with our name `name` from a file.

    Lines that are not JSON are skipped, so that their requests count as missing.
    """
    while line := file.readline(MAX_REPLY_BYTES):  # the rest of a longer line is not JSON either
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, Mapping) and (result := service.parse(name, content)):
            yield result
