"""`medhelm models ...`."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

import click

from medhelm.cli.options import Shared, print_json, shared_options


@click.group()
@shared_options
def models() -> None:
    """The models that can be asked: your own names and the baselines."""


@models.command("list")
@shared_options
@click.argument("names", nargs=-1, metavar="[MODEL]...")
@click.pass_obj
def list_models(shared: Shared, /, names: tuple[str, ...]) -> int:
    """List models with address, window and price: those named, else those of models.yaml and the baselines.

    \b
    Example:
      medhelm models list openai/gpt-4o openai/o3-mini
    """
    from medhelm.models.catalog import defined_models, find_models
    from medhelm.models.prices import price_of
    from medhelm.reports.model_report import list_table, to_json

    if names:
        found = find_models(names, file=shared.models_file, environment=os.environ)
    else:
        found = defined_models(file=shared.models_file, environment=os.environ)
    priced = [replace(model, price=price_of(model, datetime.now(UTC).date())) for model in found]
    if shared.json:
        print_json({"models": [to_json(model) for model in priced]})
    else:
        click.echo(list_table(priced), nl=False)
    return 0


@models.command("check")
@shared_options
@click.argument("names", nargs=-1, required=True, metavar="MODEL...")
@click.pass_obj
def check_models(shared: Shared, /, names: tuple[str, ...]) -> int:
    """Send one small request to each model: is it there, does the key work, how long does it take?

    \b
    Example:
      medhelm models check openai/NAME@http://127.0.0.1:8000/v1
    """
    from medhelm.models.catalog import find_models
    from medhelm.probe import probe
    from medhelm.reports.model_report import check_line, to_json

    found = find_models(names, file=shared.models_file, environment=os.environ)
    answers = [(model, probe(model, environment=os.environ, offline=shared.offline)) for model in found]
    if shared.json:
        print_json({"models": [to_json(model, answer) for model, answer in answers]})
    else:
        for model, answer in answers:
            click.echo(check_line(model, answer))
    return int(any(answer.failure for _, answer in answers))
