"""`medhelm models ...`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from medhelm.cli.common import shell_completion
from medhelm.cli.common.options import option_from
from medhelm.cli.common.output import table_options
from medhelm.cli.common.printing import print_json, warn
from medhelm.cli.common.shared import Shared, existing_audit_log, shared_options
from medhelm.evaluation.settings import Settings

if TYPE_CHECKING:
    from medhelm.domain import Model


@click.group()
@shared_options()
def models() -> None:
    """List models and check that they respond.

    \b
    Examples:
      medhelm models list
      medhelm models check openai/gpt-4o
    """


@models.command("list")
@click.argument("names", nargs=-1, metavar="[MODEL]...", shell_complete=shell_completion.models)
@table_options
@shared_options("models", "json")
@click.pass_obj
def list_models(shared: Shared, /, names: tuple[str, ...]) -> int:
    """List models with prices and keys.

    Shows address, key variable, context window and dated price. Without names, lists the models of models.yaml, the
    baselines, and examples of each provider.

    \b
    Example:
      medhelm models list openai/gpt-4o google/gemini-2.5-pro
    """
    from medhelm.models.catalog import defined_models, example_models, find_models
    from medhelm.models.keys import key_state, missing_key
    from medhelm.models.remote import without_gateway
    from medhelm.reports import models as models_report

    problems: list[str] = []
    if names:
        found = find_models(names, file=shared.models_file, environment=without_gateway(os.environ), note=warn)
    else:
        found, problems = defined_models(file=shared.models_file, environment=os.environ)
    examples = [] if names else example_models(os.environ)
    known, shown = _with_prices_and_windows(found), _with_prices_and_windows([example.model for example in examples])
    lacks = {example.model.name: example.lacks for example in examples}
    keys = {model.name: key_state(model, os.environ) for model in (*known, *shown)}
    if shared.json:
        more = [models_report.as_json(model, key=keys[model.name], lacks=lacks[model.name]) for model in shown]
        rows = [models_report.as_json(model, key=keys[model.name]) for model in known]
        print_json({"models": rows} if names else {"models": rows, "examples": more})
    else:
        click.echo(models_report.list_table(known, keys=keys), nl=False)
        if shown:
            click.echo(models_report.examples_table(shown, keys=keys, lacks=lacks))
    wrong = {model.key_variable: model for model in reversed((*known, *shown)) if keys[model.name] == "wrong"}
    for model in wrong.values():
        click.echo(f"medhelm: {missing_key(model, os.environ)}", err=True)
    for problem in problems:
        click.echo(f"medhelm: {problem}", err=True)
    return 2 if problems else 0


def _with_prices_and_windows(models: Sequence[Model]) -> list[Model]:
    """Fill in today's price and the context window of each model, if known."""
    from medhelm.models.prices import known_window, price_of

    today = datetime.now(UTC).date()
    return [replace(model, price=price_of(model, today), window=known_window(model)) for model in models]


@models.command("check")
@click.argument("names", nargs=-1, required=True, metavar="MODEL...", shell_complete=shell_completion.models)
@option_from(Settings, "proxy")
@shared_options("store", "models", "offline", "json")
@click.pass_obj
def check_models(shared: Shared, /, names: tuple[str, ...], proxy: str) -> int:
    """Send a small test request to each model.

    Shows latency, usage, structured output and log probabilities, or the failure with advice. If the store exists, each
    request is written to its audit log. Exit codes: 1 if a model fails, 4 if a key is missing.

    \b
    Example:
      medhelm models check openai/NAME@http://127.0.0.1:8000/v1
    """
    from medhelm.domain import FailureCode
    from medhelm.models.catalog import find_models
    from medhelm.models.model_check import check
    from medhelm.models.remote import without_gateway
    from medhelm.reports import models as models_report

    found = find_models(names, file=shared.models_file, environment=without_gateway(os.environ), note=warn)
    with existing_audit_log(shared) as audit:
        checked = check(found, environment=os.environ, offline=shared.offline, proxy=proxy, audit=audit)
    if shared.json:
        print_json({"models": [models_report.check_as_json(one) for one in checked]})
    else:
        for one in checked:
            click.echo(models_report.check_lines(one))
    failures = [one.answer.failure.code for one in checked if one.answer.failure]
    return 4 if FailureCode.NO_KEY in failures else int(bool(failures))
