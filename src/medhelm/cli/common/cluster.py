"""Options of commands that can compute on a Ray cluster."""

from __future__ import annotations

import click

from medhelm.cli.common.options import add_options

cluster_options = add_options(
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
