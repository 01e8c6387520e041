"""`medhelm models ...`."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

import click

from medhelm.cli.options import Shared, print_json, shared_options

_TOLD = ("asked", "structured", "logprobs", "left_out", "names", "advice")
"""What is told of a check besides the model and its answer."""


@click.group()
@shared_options
def models() -> None:
    """The models that can be asked: your own names and the baselines."""


@models.command("list")
@shared_options
@click.argument("names", nargs=-1, metavar="[MODEL]...")
@click.pass_obj
def list_models(shared: Shared, /, names: tuple[str, ...]) -> int:
    """List models with address, key, window and dated price: those named, else those of models.yaml and the baselines.

    \b
    Example:
      medhelm models list openai/gpt-4o anthropic/claude-sonnet-4-5 google/gemini-2.5-pro
    """
    from medhelm.models.catalog import defined_models, find_models
    from medhelm.models.keys import key_state
    from medhelm.models.prices import price_of
    from medhelm.models.windows import known_window
    from medhelm.reports.model_report import list_table, to_json

    if names:
        found = find_models(names, file=shared.models_file, environment=os.environ)
    else:
        found = defined_models(file=shared.models_file, environment=os.environ)
    today = datetime.now(UTC).date()
    known = [replace(model, price=price_of(model, today), window=known_window(model)) for model in found]
    keys = {model.name: key_state(model, os.environ) for model in known}
    if shared.json:
        print_json({"models": [to_json(model, key=keys[model.name]) for model in known]})
    else:
        click.echo(list_table(known, keys=keys), nl=False)
    return 0


@models.command("check")
@shared_options
@click.argument("names", nargs=-1, required=True, metavar="MODEL...")
@click.pass_obj
def check_models(shared: Shared, /, names: tuple[str, ...]) -> int:
    """Send a small request or two to each model: is it there, does the key work, what can it do, and what to do if not?

    \b
    Example:
      medhelm models check openai/NAME@http://127.0.0.1:8000/v1
    """
    from medhelm.models.catalog import find_models
    from medhelm.probe import check
    from medhelm.reports.model_report import check_lines, to_json

    found = find_models(names, file=shared.models_file, environment=os.environ)
    checked = check(found, environment=os.environ, offline=shared.offline)
    told = [{name: getattr(one, name) for name in _TOLD} for one in checked]
    if shared.json:
        rows = [to_json(one.model, one.answer, **more) for one, more in zip(checked, told, strict=True)]
        print_json({"models": rows})
    else:
        for one, more in zip(checked, told, strict=True):
            click.echo(check_lines(one.model, one.answer, **more))
    return int(any(one.answer.failure for one in checked))
