"""`medhelm benchmarks`, `data`, `models`, `plugins`, `taxonomy` and `docs`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medhelm.cli import shell_completion
from medhelm.cli.global_options import Shared, existing_audit_log, load, open_datasets, shared_options
from medhelm.cli.options import FORMATS, option_from
from medhelm.cli.output import output_option, table_options
from medhelm.cli.printing import print_either, print_json, warn
from medhelm.errors import UserError
from medhelm.evaluation.settings import Settings

if TYPE_CHECKING:
    from medhelm.domain import Model, Tier


# --- benchmarks and taxonomy ------------------------------------------------------------------------------------------


@click.group()
@shared_options()
def benchmarks() -> None:
    """List, preview and check benchmarks.

    \b
    Examples:
      medhelm benchmarks list
      medhelm benchmarks check pubmed_qa --data DIR
    """


@benchmarks.command("list")
@click.argument("names", nargs=-1, metavar="[BENCHMARK|GROUP]...", shell_complete=shell_completion.benchmarks)
@table_options
@shared_options("data", "benchmarks", "json")
@click.pass_obj
def list_benchmarks(shared: Shared, names: tuple[str, ...]) -> int:
    """List benchmarks and their data.

    Benchmarks outside the suite come last.

    \b
    Example:
      medhelm benchmarks list clinical_decision_support --data DIR
    """
    from medhelm.benchmarks.suites import constructions
    from medhelm.evaluation.check import find_folder
    from medhelm.results.catalog import benchmark_as_json, benchmarks_table

    found = load(shared, names or ["all", "additional"])
    made = constructions()
    folders = {benchmark.name: find_folder(benchmark, shared.data) for benchmark in found}
    print_either(
        shared.json,
        {"benchmarks": [benchmark_as_json(b, folders[b.name], made.get(b.name, "")) for b in found]},
        benchmarks_table(found, folders, made),
    )
    return 0


@benchmarks.command("show")
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@output_option
@shared_options("data", "benchmarks", "json")
@click.pass_obj
def show_benchmark(shared: Shared, name: str) -> int:
    """Show the definition of a benchmark.

    Shows its task, data, prompt, limits and metrics.

    \b
    Example:
      medhelm benchmarks show medcalc_bench
    """
    from medhelm.benchmarks.suites import constructions
    from medhelm.evaluation.check import find_folder
    from medhelm.results.catalog import benchmark_as_json, show_text

    for benchmark in load(shared, [name]):
        folder, made = find_folder(benchmark, shared.data), constructions().get(benchmark.name, "")
        print_either(shared.json, benchmark_as_json(benchmark, folder, made), show_text(benchmark, folder, made))
    return 0


@benchmarks.command()
@click.argument("names", nargs=-1, metavar="[BENCHMARK|GROUP]...", shell_complete=shell_completion.benchmarks)
@click.option("--format", type=FORMATS, default="md", show_default=True, help="Format of the output.")
@table_options
@shared_options("benchmarks", "json")
@click.pass_obj
def rules(shared: Shared, names: tuple[str, ...], format: str) -> int:
    """Compare published and corrected rules.

    Shows both scoring rules of each benchmark, and why they differ.

    \b
    Example:
      medhelm benchmarks rules medec ehrshot
    """
    from medhelm.results.catalog import rules_table
    from medhelm.results.formats.fields import plain_json

    found = load(shared, names or ["all"])
    if shared.json or format == "json":
        print_json({"benchmarks": [{"benchmark": b.name, **plain_json(b.rules)} for b in found]})
    else:
        click.echo(rules_table(found, format), nl=False)
    return 0


@benchmarks.command()
@click.argument("name", shell_complete=shell_completion.benchmarks)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Folder in which to create the benchmark's folder.  [default: current folder]",
)
@click.option(
    "--from", "table", metavar="FILE", type=click.Path(path_type=Path), help="CSV file or workbook with your data."
)
@click.option("--answer", metavar="COLUMN", default="", help="Column of the correct answer in that file.")
@click.option(
    "--like",
    "model",
    metavar="BENCHMARK",
    help="Copy prompt, metrics and rubric of this benchmark, for data of your own in its schema.",
    shell_complete=shell_completion.benchmarks,
)
@shared_options("benchmarks", "json")
@click.pass_obj
def new(shared: Shared, name: str, out: Path, table: Path | None, answer: str, model: str | None) -> int:
    """Create a folder for your own benchmark.

    The folder holds a commented definition and invented rows, and passes `medhelm benchmarks check`. With --from, your
    data is copied into the folder, and the definition is a guess at the purpose of each column. With --like, the
    definition is that of another benchmark, without what describes its published data.

    \b
    Examples:
      medhelm benchmarks new sepsis_qa
      medhelm benchmarks new sepsis_qa --from notes.xlsx
      medhelm benchmarks new our_notes --like aci_bench
    """
    from medhelm.benchmarks.catalog import check_new_name
    from medhelm.benchmarks.new_benchmark import benchmark_from_table, scaffold

    if answer and table is None:
        raise click.UsageError("--answer names a column of the file that --from names: add --from.")
    check_new_name(name, shared.benchmark_folders)
    if model is not None:
        if table is not None:
            raise click.UsageError("--from and --like cannot be combined. Use one of them.")
        return _new_like(shared, name, out, model)
    place, guessed = benchmark_from_table(name, table, out, answer=answer) if table else (scaffold(name, out), [])
    path = str(place) if "/" in str(place) else f"./{place}"
    if shared.json:
        print_json({"benchmark": name, "folder": str(place), "guessed": guessed})
        return 0
    todo = "Check these guesses in" if table else "Replace the invented rows in both data files with yours and edit"
    click.echo("\n".join([f"Created {place}.", *guessed, f"{todo} {place / 'benchmark.yaml'}; then run"]))
    click.echo(f"  medhelm benchmarks check {path}\n  medhelm run {path} --model ...")
    return 0


def _new_like(shared: Shared, name: str, out: Path, model: str) -> int:
    """Create a benchmark like another one, and print what to do next."""
    from medhelm.benchmarks.new_benchmark import benchmark_like

    found = load(shared, [model])
    if len(found) != 1:
        raise UserError(f"--like: `{model}` is a group. Name one benchmark.")
    place, files = benchmark_like(name, found[0], out)
    path = str(place) if "/" in str(place) else f"./{place}"
    if shared.json:
        print_json({"benchmark": name, "folder": str(place), "files": files})
        return 0
    has_hooks = (place / "hooks.py").is_file()
    trust = f" --trust {path}" if has_hooks else ""
    click.echo(f"Created {place}, which asks and scores like {found[0].name}.")
    click.echo(f"Put your data into {', '.join(str(place / file) for file in files)}; then run")
    click.echo(f"  medhelm benchmarks check {path}{trust}\n  medhelm run {path} --model ...")
    return 0


@benchmarks.command()
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), default=3, show_default=True, help="Number of prompts."
)
@option_from(Settings, "prompt")
@option_from(Settings, "sample")
@option_from(Settings, "tier")
@option_from(Settings, "own_data")
@shared_options("data", "benchmarks", "trust", "json")
@click.pass_obj
def preview(shared: Shared, name: str, count: int, prompt: str, sample: str, tier: Tier, own_data: bool) -> int:
    """Show the first prompts as sent to models.

    Nothing is sent.

    \b
    Examples:
      medhelm benchmarks preview pubmed_qa --tier sample
      medhelm benchmarks preview pubmed_qa --tier sample --prompt few_shot
    """
    from medhelm.evaluation.check import case_of
    from medhelm.evaluation.session import in_each_way
    from medhelm.results.catalog import preview_text

    settings = Settings(prompt=prompt, sample=sample, tier=tier, limit=count, own_data=own_data)
    for opened in open_datasets(shared, name, tier=tier, sample=sample, limit=count, own_data=own_data):
        (dataset,) = in_each_way(opened, settings)
        cases = [case_of(dataset.benchmark, instance) for instance in dataset]
        print_either(shared.json, cases, preview_text(dataset.benchmark, cases))
    return 0


@benchmarks.command()
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@option_from(Settings, "limit")
@option_from(Settings, "sample")
@option_from(Settings, "tier")
@option_from(Settings, "own_data")
@shared_options("data", "benchmarks", "trust")
@click.pass_obj
def instances(shared: Shared, name: str, limit: int | None, sample: str, tier: Tier, own_data: bool) -> int:
    """Print all instances as JSON lines.

    Each line holds the id, fields, references, choices, messages and max_tokens of an instance.

    \b
    Example:
      medhelm benchmarks instances medbullets --data DIR > medbullets.jsonl
    """
    from medhelm.evaluation.check import case_of

    for dataset in open_datasets(shared, name, tier=tier, sample=sample, limit=limit, own_data=own_data):
        for instance in dataset:
            click.echo(json.dumps(case_of(dataset.benchmark, instance)))
    return 0


@benchmarks.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="BENCHMARK|GROUP...", shell_complete=shell_completion.benchmarks
)
@click.option(
    "--model",
    "models",
    metavar="MODEL",
    multiple=True,
    help="Check that every prompt fits this model; repeatable.",
    shell_complete=shell_completion.models,
)
@click.option(
    "--presidio",
    metavar="PIPELINE",
    help="Also look for names, places and numbers with Presidio and this spaCy pipeline, such as en_core_web_lg.",
)
@option_from(Settings, "sample")
@option_from(Settings, "tier")
@option_from(Settings, "own_data")
@output_option
@shared_options("data", "benchmarks", "trust", "models", "json")
@click.pass_obj
def check(
    shared: Shared,
    names: tuple[str, ...],
    sample: str,
    tier: Tier,
    own_data: bool,
    models: tuple[str, ...],
    presidio: str | None,
) -> int:
    """Validate definition, data and references.

    Scores each reference as if it were a completion. Lists repeated or contradictory questions, references contained
    in the prompt, nearly constant references, options that differ only in case, prompts that are too long for a model,
    characters garbled by a wrong encoding, and possible personal identifiers, with the HIPAA categories that were
    searched. It does not de-identify. In a group, benchmarks without data are skipped. Exit codes: 0 if every reference
    gets the best score or has an explanation, 1 otherwise, 2 if data is wrong, 4 if data of a named benchmark is
    missing.

    \b
    Examples:
      medhelm benchmarks check medcalc_bench --data DIR
      medhelm benchmarks check all --tier sample
    """
    from medhelm.benchmarks.data_quality import IDENTIFIERS, PRESIDIO_ENTITIES, UNSEARCHED, no_search, presidio_search
    from medhelm.evaluation.check import check_all
    from medhelm.results.catalog import check_text, identifiers_text, skipped_text
    from medhelm.results.formats.fields import plain_json

    windows = _context_windows(shared, models)
    groups = [load(shared, [name]) for name in names]
    done = check_all(
        groups,
        data=shared.data,
        tier=tier,
        sample=sample,
        windows=windows,
        own_data=own_data,
        further_search=presidio_search(presidio) if presidio else no_search,
    )
    entities = list(PRESIDIO_ENTITIES) if presidio else []
    if shared.json:
        search = {"searched": list(IDENTIFIERS), "unsearched": list(UNSEARCHED), "presidio": entities}
        print_json({"benchmarks": plain_json(done.checks), "skipped": list(done.skipped), "identifier_search": search})
    else:
        parts = [check_text(plain_json(check)) for check in done.checks]
        if parts:
            parts.append(identifiers_text(list(IDENTIFIERS), UNSEARCHED, entities))
        if parts := [*parts, *skipped_text(done.skipped)]:
            click.echo("\n\n".join(parts))
    for error in done.errors:
        click.echo(f"medhelm: {error}", err=True)
    return done.exit_code


def _context_windows(shared: Shared, names: Sequence[str]) -> dict[str, int]:
    """Return the context window of each model in tokens. Raises: UserError if one is unknown."""
    from medhelm.models.catalog import find_models
    from medhelm.models.gateway import without_gateway

    environment = without_gateway(os.environ)
    models = find_models(names, file=shared.models_file, environment=environment) if names else []
    if unknown := [model.name for model in models if model.window is None]:
        raise UserError(f"the context window of {', '.join(unknown)} is unknown. Set `window: TOKENS` in models.yaml.")
    return {model.name: model.window for model in models if model.window}


@click.command()
@click.option("--tasks", is_flag=True, help="Also list the tasks of each subcategory.")
@output_option
@shared_options("data", "benchmarks", "trust", "json")
@click.pass_obj
def taxonomy(shared: Shared, tasks: bool) -> int:
    """Show medical tasks and their benchmarks.

    Marks the benchmarks whose data is available.

    \b
    Example:
      medhelm taxonomy --data DIR
    """
    from medhelm.benchmarks.taxonomy import TASKS_OF_THE_PAPER, VALIDATION
    from medhelm.results.catalog import coverage, taxonomy_as_json, taxonomy_tree

    covered = coverage(load(shared, ["all"]), shared.data)
    tree = taxonomy_tree(covered, tasks_of_the_paper=TASKS_OF_THE_PAPER, validation=VALIDATION, with_tasks=tasks)
    print_either(shared.json, taxonomy_as_json(covered, TASKS_OF_THE_PAPER, VALIDATION), tree)
    return 0


# --- data -------------------------------------------------------------------------------------------------------------

_names = click.argument("names", nargs=-1, metavar="[BENCHMARK|GROUP]...", shell_complete=shell_completion.benchmarks)


@click.group()
@shared_options()
def data() -> None:
    """Locate, download and verify data.

    \b
    Examples:
      medhelm data status --data DIR
      medhelm data fetch public --data DIR
    """


@data.command()
@_names
@table_options
@shared_options("data", "benchmarks", "json")
@click.pass_obj
def status(shared: Shared, names: tuple[str, ...]) -> int:
    """Show source, license and state of data.

    Also lists missing files, and the agreements that gated data requires.

    \b
    Example:
      medhelm data status gated --data DIR
    """
    from medhelm.benchmarks.data.dataset import availability
    from medhelm.results.catalog import data_as_json, data_table

    known = [(benchmark, availability(benchmark, shared.data)) for benchmark in load(shared, names or ["all"])]
    print_either(shared.json, data_as_json(known), data_table(known))
    return 0


@data.command()
@_names
@shared_options("data", "benchmarks", "json")
@click.pass_obj
def verify(shared: Shared, names: tuple[str, ...]) -> int:
    """Verify checksums of data files.

    Exit codes: 0 if all files match the definitions, 2 if a file differs, 4 if data of a named benchmark is missing.

    \b
    Example:
      medhelm data verify --data DIR
    """
    from medhelm.benchmarks.data.dataset import availability
    from medhelm.results.catalog import data_as_json, data_table

    known = [(b, availability(b, shared.data, verify=True)) for b in load(shared, names or ["all"])]
    if not names:
        known = [(benchmark, found) for benchmark, found in known if found.folder]
    print_either(shared.json, data_as_json(known), data_table(known))
    if any(found.state == "changed" for _, found in known):
        return 2
    return 0 if all(found.is_usable for _, found in known) else 4


@data.command()
@_names
@option_from(Settings, "proxy")
@shared_options("store", "data", "benchmarks", "offline", "json")
@click.pass_obj
def fetch(shared: Shared, names: tuple[str, ...], proxy: str) -> int:
    """Download public data into --data DIR.

    Downloads the pinned revision and verifies its checksums. Resumes after an interruption and keeps valid files. If
    the store exists, each request is written to its audit log.

    \b
    Example:
      medhelm data fetch pubmed_qa medec --data DIR
    """
    from medhelm.benchmarks.download import fetch as fetch_data
    from medhelm.models.addresses import PROXY_LOGIN
    from medhelm.results.formats.fields import plain_json

    if shared.data is None:
        raise UserError("no data folder was named. Give --data DIR or set MEDHELM_DATA. Nothing was downloaded.")
    wanted = load(shared, names or ["public"])
    with existing_audit_log(shared) as audit:
        done = fetch_data(
            wanted,
            shared.data,
            offline=shared.offline,
            progress=lambda text: click.echo(text, err=True),
            proxy=proxy,
            proxy_login=os.environ.get(PROXY_LOGIN, "").strip(),
            audit=audit,
        )
    if shared.json:
        print_json({"benchmarks": plain_json(done)})
    else:
        for one in done:
            click.echo(f"{one.benchmark}: {one.state}{f' in {one.folder}' if one.folder else ''}")
    for one in done:
        if one.state == "failed":
            click.echo(f"medhelm: {one.message}", err=True)
    return 4 if any(one.state == "failed" for one in done) else 0


@data.command()
@click.argument("name", metavar="BENCHMARK", shell_complete=shell_completion.benchmarks)
@click.option("--rows", metavar="N", type=click.IntRange(min=1), help="Only the first N invented rows.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("sample-data"),
    show_default=True,
    help="Folder in which to create the benchmark's folder.",
)
@shared_options("benchmarks", "json")
@click.pass_obj
def sample(shared: Shared, name: str, rows: int | None, out: Path) -> int:
    """Write invented rows in a benchmark's format.

    The files show the format that your own data must have.

    \b
    Example:
      medhelm data sample clear --out my-data
    """
    from medhelm.benchmarks.data.sample_rows import write_sample
    from medhelm.results.catalog import written_text

    for benchmark in load(shared, [name]):
        folder = out / benchmark.name
        files, n_rows = write_sample(benchmark, folder, rows=rows)
        print_either(
            shared.json,
            {"benchmark": benchmark.name, "rows": n_rows, "files": [str(path) for path in files]},
            written_text(benchmark.name, files, n_rows, out),
        )
    return 0


# --- models -----------------------------------------------------------------------------------------------------------


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
    from medhelm.models.gateway import without_gateway
    from medhelm.models.keys import key_state, missing_key
    from medhelm.results.catalog import examples_table, model_as_json, models_table

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
        more = [model_as_json(model, key=keys[model.name], lacks=lacks[model.name]) for model in shown]
        rows = [model_as_json(model, key=keys[model.name]) for model in known]
        print_json({"models": rows} if names else {"models": rows, "examples": more})
    else:
        click.echo(models_table(known, keys=keys), nl=False)
        if shown:
            click.echo(examples_table(shown, keys=keys, lacks=lacks))
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
    from medhelm.models.gateway import without_gateway
    from medhelm.models.model_check import check
    from medhelm.results.catalog import check_as_json, check_lines

    found = find_models(names, file=shared.models_file, environment=without_gateway(os.environ), note=warn)
    with existing_audit_log(shared) as audit:
        checked = check(found, environment=os.environ, offline=shared.offline, proxy=proxy, audit=audit)
    if shared.json:
        print_json({"models": [check_as_json(one) for one in checked]})
    else:
        for one in checked:
            click.echo(check_lines(one))
    failures = [one.answer.failure.code for one in checked if one.answer.failure]
    return 4 if FailureCode.NO_KEY in failures else int(bool(failures))


# --- plugins ----------------------------------------------------------------------------------------------------------


@click.command()
@shared_options("benchmarks", "json")
@click.pass_obj
def plugins(shared: Shared) -> int:
    """List and check installed plug-ins.

    Imports every provider, metric and benchmark that installed packages add. Plug-ins run with your permissions:
    install only those you trust. Exit code 1: a plug-in cannot be used.

    \b
    Example:
      medhelm plugins
    """
    from medhelm.cli import PLUGIN_COMMANDS
    from medhelm.results.catalog import plugins_text
    from medhelm.scoring.installed_plugins import installed_plugins

    found, problems = installed_plugins(shared.benchmark_folders, commands=[PLUGIN_COMMANDS])
    rows = [
        {
            "kind": one.plugin.group.removeprefix("medhelm.").removesuffix("s"),
            "name": one.plugin.name,
            "package": one.plugin.package,
            "version": one.plugin.version,
            "target": one.plugin.target,
            "gives": list(one.gives),
            "problems": list(one.problems),
        }
        for one in found
    ]
    print_either(shared.json, {"plugins": rows, "problems": problems}, plugins_text(rows, problems), nl=False)
    return int(bool(problems) or any(one.problems for one in found))


# --- docs -------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("page", required=False)
@click.option("--path", "only_path", is_flag=True, help="Print the path of the file instead of its text.")
@shared_options("json")
@click.pass_obj
def docs(shared: Shared, page: str | None, only_path: bool) -> int:
    """List or print the documentation.

    PAGE is a name from the list, with or without its folder. Editors can check benchmark.yaml with
    `benchmark.schema.json`.

    \b
    Examples:
      medhelm docs
      medhelm docs benchmark_yaml
      medhelm docs benchmark.schema.json --path
    """
    from medhelm.io.plugins import find_document, find_documents, title_of

    if page is not None:
        path = find_document(page)
        if shared.json:
            print_json({"path": str(path), "text": path.read_text(encoding="utf-8")})
        else:
            click.echo(path if only_path else path.read_text(encoding="utf-8"), nl=only_path)
        return 0
    documents = find_documents()
    titles = {name: title_of(path) for name, path in documents.items()}
    if shared.json:
        print_json(
            {"documents": [{"name": name, "title": titles[name], "path": str(documents[name])} for name in documents]}
        )
        return 0
    width = max(map(len, documents))
    for name, title in titles.items():
        click.echo(f"{documents[name]}" if only_path else f"{name:<{width}}  {title}".rstrip())
    return 0
