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
    """Requests to one model that are bought together."""

    id: str
    """Our name for it; the service gets it too, where possible."""
    provider: str
    """Name of the provider."""
    base_url: str
    """Address of the service."""
    model: str
    """The model, as the user named it."""
    remote_name: str
    """The provider's name for the model."""
    model_digest: str
    """`Model.digest`: the same for all names of one model."""
    role: Literal["model", "judge"]
    """Whether the requests are to a model or to a judge."""
    state: BatchState
    """Its state."""
    created: float
    """Creation time, in seconds since 1970, UTC."""
    n: int
    """Number of its requests."""
    digests: tuple[str, ...] = ()
    """Digests of its requests, as hexadecimal digits, which name them at the service; empty once collected."""
    has_stop_sequences: bool = False
    """Whether any request names stop sequences."""
    remote_id: str = ""
    """The service's ID for it; empty while unknown."""
    is_uncertain_match: bool = False
    """Whether it was found at the service by time and size only, so that it may belong to someone else."""
    unanswered: tuple[str, ...] = ()
    """Digests of its requests that have no completion: from then on they are sent directly."""
    refused_parameters: Mapping[str, str] = field(default_factory=dict)
    """Optional parameter that the service did not support in this batch -> its message."""
    rejected_remote_ids: tuple[str, ...] = ()
    """IDs of batches that were taken for this one and belong to someone else."""

    @property
    def is_pending(self) -> bool:
        """Whether the service may be processing it, or holds results that are not in the cache."""
        return self.state in (BatchState.INTENDED, BatchState.SUBMITTED)

    @property
    def reminder(self) -> str:
        """Note for a run without --batch that sends this batch's requests again."""
        return (
            f"{self.model}: {self.n} requests are in batch {self.remote_id or self.id} and are now sent again; "
            "use --batch to collect them instead"
        )
