"""Batches: requests that were submitted together to a provider's batch API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

BatchState = Literal["intended", "submitted", "collected", "deleted"]
BATCH_STATES: tuple[BatchState, ...] = get_args(BatchState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Requests to one model that are bought together."""

    id: str
    """Our own name for it, which goes with it to the service where that is possible."""
    provider: str
    """Which provider serves the model."""
    base_url: str
    """Address of the service."""
    model: str
    """The model, as the user called it."""
    remote_name: str
    """What the provider calls it."""
    model_digest: str
    """Hash of everything that decides who answers, whatever the user calls it."""
    role: Literal["model", "judge"]
    """What it was asked as."""
    state: BatchState
    """`intended` before it is known whether the service took it, `submitted` until its answers are in the cache,
    `collected` until its requests and answers are deleted at the service, and `deleted` after that."""
    created: float
    """When it was made, in seconds since 1970, UTC."""
    n: int
    """Requests in it."""
    digests: tuple[str, ...] = ()
    """Digests of these requests, as hexadecimal digits, which are also their names at the service; empty once they
    are collected."""
    has_stop_sequences: bool = False
    """Whether any of them names sequences that end its answer."""
    remote_id: str = ""
    """What the service calls it; empty while that is not known."""
    is_uncertain_match: bool = False
    """Whether it was found at the service by its time and size only, and may be somebody else's."""
    unanswered: tuple[str, ...] = ()
    """Digests of the requests that came back without an answer: asked directly from then on."""
    refused_parameters: Mapping[str, str] = field(default_factory=dict)
    """Part of a request that the service refused in this batch -> what it said."""
    rejected_remote_ids: tuple[str, ...] = ()
    """What the service calls batches that were taken for this one, and are somebody else's."""

    @property
    def is_pending(self) -> bool:
        """Whether the service may be answering it, or has answers that are not here."""
        return self.state in ("intended", "submitted")

    @property
    def reminder(self) -> str:
        """What a run says that does without what waits in it."""
        return (
            f"{self.model}: {self.n} requests wait in batch {self.remote_id or self.id}, and are asked anew now; "
            "--batch collects them instead"
        )
