"""Limits the number of connections to what the system lets this process open."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple

from medhelm.domain import Model
from medhelm.errors import UserError

RESERVE, PER_MODEL = 24, 6
"""Files that an evaluation needs besides connections: in all, and for the runs of each model or judge."""

MAY_JOIN = 256
"""Servers that there should be room for beyond those of a pool's file, because they may join it later."""


class ConnectionLimit(NamedTuple):
    """Connections that may be open at once."""

    in_all: int
    """Over all endpoints, those that join later included; 0 for no limit."""
    per_endpoint: int
    """To one endpoint."""


def limit_connections(
    models: Collection[Model], asked: int | None, default: int, note: Callable[[str], object] | None
) -> ConnectionLimit:
    """Return how many connections fit within the limit on open files, which is raised if the system allows it.

    Parameters: models, with judges; asked, connections per endpoint that the user asked for, None for `default`;
    note, receives a message if the number is lowered. Room for servers that join a pool later is made if the system
    allows it, and nothing is said if not.
    Raises: UserError if there is no room for one connection.
    """
    wanted = asked or default
    endpoints = len({address for model in models for address in model.addresses})
    try:
        import resource
    except ImportError:  # a system without such limits
        return ConnectionLimit(0, wanted)
    reserve = _open_now() + RESERVE + PER_MODEL * len(models)
    needed = wanted * endpoints + reserve
    joining = wanted * MAY_JOIN * sum(bool(model.endpoints_file) for model in models)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not endpoints or soft == resource.RLIM_INFINITY:
        return ConnectionLimit(0, wanted)
    for enough in dict.fromkeys((needed + joining, needed)):
        if soft < enough:
            raised = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
            with suppress(OSError, ValueError):  # macOS allows less than it says
                resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
                soft = raised
    if soft >= needed:
        return ConnectionLimit(soft - reserve if joining else 0, wanted)
    fitting = (soft - reserve) // endpoints
    advice = f"This process may open {soft} files (`ulimit -n`); `ulimit -n {2 * needed}` before the command"
    if fitting < 1:
        raise UserError(f"too few files may be open to send requests. {advice} raises the limit. Nothing was sent.")
    if note:
        lowered = f"--concurrency {wanted} is lowered to {fitting}: at most" if asked else "at most"
        note(f"{lowered} {fitting} requests at once are sent to each endpoint. {advice} allows more.")
    return ConnectionLimit(soft - reserve, fitting)


def _open_now() -> int:
    """Return the number of files open in this process."""
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - numbers, not paths
    except OSError:
        return 16
