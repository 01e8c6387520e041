"""Batches: requests that are submitted together to a provider's batch API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class BatchState(StrEnum):
    """State of a batch, in the order in which it passes through them."""

    INTENDED = "intended"
    """About to be submitted: it is not known whether the service has accepted it."""
    SUBMITTED = "submitted"
    """Accepted by the service; its completions are not in the cache yet."""
    COLLECTED = "collected"
    """Its completions are in the cache; the service still holds its requests and results."""
    DELETED = "deleted"
    """The service holds nothing of it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Requests to one model that were submitted as one batch job."""

    id: str
    """Id chosen by MedHELM, sent to the service if it accepts one."""
    provider: str
    """Provider that serves the model."""
    base_url: str
    """URL of the service."""
    model: str
    """Name of the model as the user wrote it."""
    remote_name: str
    """Name of the model at the provider."""
    model_digest: str
    """`Model.digest`: equal for all names of one model."""
    role: Literal["model", "judge"]
    """Role of the model in these requests."""
    state: BatchState
    """`intended` before the service has confirmed it, `submitted` until its completions are in the cache, `collected`
    until its requests and completions are deleted at the service, and `deleted` after that."""
    created: float
    """Creation time in seconds since 1970, UTC."""
    n: int
    """Number of requests."""
    digests: tuple[str, ...] = ()
    """Digests of the requests in hex, which are also their ids at the service; empty once collected."""
    has_stop_sequences: bool = False
    """True if any of them has stop sequences."""
    remote_id: str = ""
    """Id at the service; empty while unknown."""
    unanswered: tuple[str, ...] = ()
    """Digests of requests that came back without a completion and are sent directly from then on."""
    refused_parameters: Mapping[str, str] = field(default_factory=dict)
    """Request parameter that the service refused in this batch -> its message."""

    @property
    def is_pending(self) -> bool:
        """Return True if the service may be working on it, or has completions not yet collected."""
        return self.state in (BatchState.INTENDED, BatchState.SUBMITTED)

    @property
    def reminder(self) -> str:
        """Note for a run that sends the same requests without waiting for the batch."""
        return (
            f"{self.model}: {self.n} requests are pending in batch {self.remote_id or self.id} and are sent again now; "
            "--batch collects them instead"
        )
