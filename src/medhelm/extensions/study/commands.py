"""`medhelm study`: let clinicians rate completions, blinded."""

from __future__ import annotations

from dataclasses import replace

import click

from medhelm.cli.global_options import Shared, load, shared_options
from medhelm.cli.options import options_of
from medhelm.cli.output import table_options
from medhelm.cli.printing import print_json, print_remarks, warn
from medhelm.extensions.study.planning import PlanOptions
from medhelm.storage.store import open_store


@click.group()
@shared_options()
def study() -> None:
    """Let clinicians rate completions, blinded.

    A study has a plan, which is fixed before anyone rates: completions, raters, the form that they fill in, and who
    rates what. Raters do not see which model wrote a text. `medhelm serve` has pages to plan a study, to rate, and to
    watch and close it; these commands do the same.

    \b
    Examples:
      medhelm study new discharge_letters --benchmark mtsamples --raters 3
      medhelm study status discharge_letters
    """


@study.command()
@click.argument("name")
@options_of(PlanOptions, "options")
@click.option("--preview", is_flag=True, help="Show the plan, and save nothing.")
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def new(shared: Shared, name: str, options: PlanOptions, preview: bool) -> int:
    """Plan a study.

    Draws the same instances for all models, and gives each rater a fixed list of cases, balanced over models and
    raters. Shows the work of each rater, the precision to expect, and completions that tell raters which model wrote
    them. A plan that is saved does not change.

    \b
    Examples:
      medhelm study new discharge_letters --benchmark mtsamples --raters 3 --cases 20
      medhelm study new triage --rater anna:cardiology --rater ben --precision 0.4 --preview
      medhelm study new notes --instrument pdsqi_9 --benchmark aci_bench --raters 4
    """
    from medhelm.extensions.study.files import study_folder, write_study
    from medhelm.extensions.study.planning import plan_study
    from medhelm.extensions.study.views import finding_sentences, plan_as_json, plan_to_text

    store = open_store(shared.store)
    definitions = load(shared, ["open", "additional"], of_stores=True)
    found = plan_study(store, definitions, replace(options, name=name))
    if not preview:
        write_study(store, found.study)
    if shared.json:
        print_json(plan_as_json(found, is_saved=not preview))
        return 0
    click.echo(plan_to_text(found))
    print_remarks(found.remarks, "table")
    if found.findings:
        warn(
            "some completions can tell raters which model wrote them. Nothing was changed. --exclude-flagged leaves "
            "out instances on which a completion names a model or has its markers."
        )
        print_remarks(finding_sentences(found.findings, found.study), "csv")
    if preview:
        click.echo("Nothing was saved: this is a preview.", err=True)
    else:
        click.echo(f"Saved in {study_folder(store, name)}. Make a link for each rater: medhelm study link {name} RATER")
    return 0


@study.command()
@click.argument("name", required=False)
@table_options
@shared_options("store", "json")
@click.pass_obj
def status(shared: Shared, name: str | None) -> int:
    """Show how far a study is, or list all of them.

    For one study: what each rater has done, agreement so far, and what needs attention; nothing by model before it is
    closed.

    \b
    Examples:
      medhelm study status
      medhelm study status discharge_letters
    """
    from medhelm.extensions.study import views
    from medhelm.extensions.study.files import read_study, studies
    from medhelm.extensions.study.progress import progress

    store = open_store(shared.store_to_read)
    if name is not None:
        one = read_study(store, name)
        found = progress(store, one)
        if shared.json:
            print_json(views.progress_as_json(one, found))
        else:
            click.echo(views.progress_to_text(one, found), nl=False)
        return 0
    plans = [read_study(store, each) for each in studies(store)]
    every = [views.StudySummary(plan, progress(store, plan)) for plan in plans]
    if shared.json:
        print_json({"studies": [views.summary_as_json(*each) for each in every]})
    elif every:
        click.echo(views.summaries_table(every), nl=False)
    else:
        click.echo("The store has no studies. `medhelm study new` plans one.")
    return 0


@study.command()
@click.argument("name", required=False, metavar="[NAME|FILE]")
@table_options
@shared_options("json")
@click.pass_obj
def instruments(shared: Shared, name: str | None) -> int:
    """List the forms for raters, or show and check one.

    A form of your own is a YAML file; all its mistakes are listed with their lines.

    \b
    Examples:
      medhelm study instruments
      medhelm study instruments pdsqi_9
      medhelm study instruments our_form.yaml
    """
    from medhelm.extensions.study import views
    from medhelm.extensions.study.instruments import instrument_names, read_instrument

    if name is not None:
        one = read_instrument(name)
        if shared.json:
            print_json(views.instrument_as_json(one))
        else:
            click.echo(views.instrument_to_text(one), nl=False)
        return 0
    found = [read_instrument(each) for each in instrument_names()]
    if shared.json:
        print_json(views.instruments_as_json(found))
    else:
        click.echo(views.instruments_table(found), nl=False)
    return 0
