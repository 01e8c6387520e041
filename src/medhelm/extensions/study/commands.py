"""`medhelm study`: let clinicians rate completions, blinded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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


@study.command("export")
@click.argument("name")
@click.option(
    "--to", "folder", metavar="FOLDER", required=True, type=click.Path(path_type=Path), help="Folder for the files."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["workbook", "html", "label-studio", "redcap"]),
    default="workbook",
    show_default=True,
    help="Kind of the files.",
)
@click.option("--rater", "raters", metavar="ID", multiple=True, help="Only this rater. Can be given several times.")
@shared_options("store", "json")
@click.pass_obj
def export_(shared: Shared, name: str, folder: Path, kind: str, raters: tuple[str, ...]) -> int:
    """Write files for rating without the site.

    Writes files for each rater, with the rater's cases and the ratings so far: a workbook, or an HTML file that opens
    in a browser without a server. Label Studio gets tasks and a labeling configuration, REDCap a data dictionary and
    records. No file tells which model wrote a text. `medhelm study import` reads them back.

    \b
    Examples:
      medhelm study export discharge_letters --to for_raters
      medhelm study export discharge_letters --to for_raters --format html --rater anna
    """
    from medhelm.extensions.study.exchange import export_study
    from medhelm.extensions.study.files import read_study

    store = open_store(shared.store_to_read)
    paths = export_study(store, read_study(store, name), folder, kind, raters, by="command line")
    if shared.json:
        print_json({"files": [str(path) for path in paths]})
        return 0
    for path in paths:
        click.echo(path)
    click.echo(f"They hold the texts of the cases. Read them back with: medhelm study import {name} FILE...", err=True)
    return 0


@study.command("import")
@click.argument("name")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--rater", metavar="ID", default="", help="Whose ratings they are, if the files do not say.")
@click.option("--replace", "replaces", is_flag=True, help="Also replace ratings that were given elsewhere since.")
@shared_options("store", "json")
@click.pass_obj
def import_(shared: Shared, name: str, files: tuple[Path, ...], rater: str, replaces: bool) -> int:
    """Record the ratings of files that came back.

    Reads workbooks, the files that the HTML file saved, exports of Label Studio in the format JSON, and exports of
    REDCap records. Names everything that is wrong, by cell or field, and records nothing then. A case that was rated
    elsewhere after its file was written keeps that rating, unless --replace is given. Importing a file again changes
    nothing.

    \b
    Examples:
      medhelm study import discharge_letters discharge_letters-anna.xlsx discharge_letters-ben-ratings.json
      medhelm study import discharge_letters redcap_export.csv
    """
    from medhelm.extensions.study.exchange import import_files
    from medhelm.extensions.study.files import read_study
    from medhelm.results.formats.fields import plain_json

    store = open_store(shared.store_to_read)
    found = import_files(store, read_study(store, name), files, rater=rater, replaces=replaces, by="command line")
    if shared.json:
        print_json({"files": plain_json(found)})
    else:
        for one in found:
            click.echo(one.in_words())
    for one in found:
        for remark in one.remarks():
            warn(remark)
    return 1 if any(one.kept for one in found) else 0
