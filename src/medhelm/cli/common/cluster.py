"""Options of commands that can compute on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from medhelm.cli.common.options import add_options

_OPTIONS = add_options(
    click.option(
        "--cluster",
        metavar="auto|HOST:PORT",
        default="",
        envvar="MEDHELM_CLUSTER",
        help="Ray cluster that computes hf/ models and neural metrics; auto: the one of this machine.",
    ),
    click.option(
        "--actors",
        metavar="N",
        type=click.IntRange(1, 4096),
        help="Actors on the cluster.  [default: one per GPU, or without GPUs one per node]",
    ),
)


def cluster_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add `--cluster` and `--actors`; the command gets them as `cluster` and `actors`."""

    @wraps(command)
    def checked(*args: Any, cluster: str, actors: int | None, **options: Any) -> int:
        if actors and not cluster:
            raise click.UsageError(f"--actors {actors} is for a cluster: add --cluster auto, or leave it out.")
        return command(*args, cluster=cluster, actors=actors, **options)

    return _OPTIONS(checked)
