"""`medhelm study`: let clinicians rate completions, blinded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from medhelm.cli.global_options import Shared, load, shared_options
from medhelm.cli.options import options_of
from medhelm.cli.output import table_options
from medhelm.cli.printing import print_json, print_remarks, warn
from medhelm.domain.text import plural
from medhelm.extensions.study import views
from medhelm.extensions.study.access import LINK_DAYS, MOST_DAYS, Role, moment_text, new_link, revoke
from medhelm.extensions.study.formats.exchange import export_study, import_files
from medhelm.extensions.study.instruments import instrument_names, read_instrument
from medhelm.extensions.study.journal import events, read_study, studies, study_folder, write_study
from medhelm.extensions.study.outcome import close_study, final_deviations, reassign, withdraw
from medhelm.extensions.study.plans.planning import PlanOptions, plan_study
from medhelm.extensions.study.progress import StudyState, progress
from medhelm.extensions.study.texts import titles_of
from medhelm.extensions.study.types import INSTRUMENT_FORM
from medhelm.extensions.study.views import finding_sentences, plan_as_json, plan_to_text
from medhelm.results.formats.fields import fields_json, fields_table, plain_json
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


COMMAND_LINE = "command line"
"""Name in the events of a study for what is done by commands."""


@study.command()
@click.argument("name")
@options_of(PlanOptions, "options")
@click.option("--preview", is_flag=True, help="Show the plan, and save nothing.")
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def new(shared: Shared, name: str, options: PlanOptions, preview: bool) -> int:
    """Plan a study.

    Draws the same instances for all models, and gives each rater a fixed list of cases, balanced over models and
    raters. Shows the work of each rater, the precision to expect, and completions that reveal their model. A plan that
    is saved does not change.

    \b
    Examples:
      medhelm study new letters --benchmark mtsamples --raters 3 --cases 20
      medhelm study new triage --rater anna:cardiology --rater ben --preview
      medhelm study new notes --instrument pdsqi_9 --precision 0.4 --raters 4
    """
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
            "some completions can reveal their model to raters. Nothing was changed. --exclude-flagged leaves "
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
    store = open_store(shared.store_to_read)
    if name is not None:
        one = progress(store, read_study(store, name))
        if one.state is StudyState.CLOSED:
            one = replace(one, deviations=final_deviations(store, one.study, events(store, name)))
        return _show(shared, views.progress_as_json(one), views.progress_to_text(one))
    every = [progress(store, read_study(store, each)) for each in studies(store)]
    as_json = {"studies": [fields_json(views.SUMMARY, one) for one in every]}
    nothing = "The store has no studies. `medhelm study new` plans one.\n"
    return _show(shared, as_json, fields_table(views.SUMMARY, every) if every else nothing)


def _show(shared: Shared, as_json: Mapping[str, Any], as_text: str) -> int:
    """Print a result in the format that is wanted."""
    if shared.json:
        print_json(as_json)
    else:
        click.echo(as_text, nl=False)
    return 0


@study.command()
@click.argument("name", required=False, metavar="[NAME|FILE]")
@table_options
@shared_options("json")
@click.pass_obj
def instruments(shared: Shared, name: str | None) -> int:
    """List, show and check forms for raters.

    A form of your own is a YAML file; all its mistakes are listed with their lines.

    \b
    Examples:
      medhelm study instruments
      medhelm study instruments pdsqi_9
      medhelm study instruments our_form.yaml
    """
    if name is not None:
        one = read_instrument(name)
        return _show(shared, INSTRUMENT_FORM.write(one), views.instrument_to_text(one))
    every = [read_instrument(each) for each in instrument_names()]
    as_json = {"instruments": [fields_json(views.INSTRUMENTS, one) for one in every]}
    return _show(shared, as_json, fields_table(views.INSTRUMENTS, every))


@study.command()
@click.argument("name")
@click.argument("person")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.RATER.value,
    show_default=True,
    help="A rater rates the own cases; an owner sees and changes all of the study; a reader sees progress and results.",
)
@click.option(
    "--days",
    metavar="N",
    type=click.FloatRange(0, MOST_DAYS, min_open=True),
    default=LINK_DAYS,
    show_default=True,
    help="Days after which the link and its session end.",
)
@click.option(
    "--address",
    metavar="URL",
    default="http://127.0.0.1:8642",
    show_default=True,
    help="Address of the site in the browser of the person.",
)
@click.option("--revoke", "is_revoked", is_flag=True, help="End all links and sessions of the person at once.")
@shared_options("store", "json")
@click.pass_obj
def link(shared: Shared, name: str, person: str, role: str, days: float, address: str, is_revoked: bool) -> int:
    """Make a personal link, or revoke access.

    A link works once, in one browser, which then stays signed in. It is shown now and never again. A new link replaces
    one that was not used; browsers that are signed in stay so until --revoke.

    \b
    Examples:
      medhelm study link letters anna --address https://board.example
      medhelm study link letters chief --role reader --days 90
      medhelm study link letters anna --revoke
    """
    store = open_store(shared.store)
    if is_revoked:
        n_ended = revoke(store, name, person, by=COMMAND_LINE)
        ended = plural(n_ended, "link or session", "links and sessions")
        text = f"{person} has no access to {name} any more: {ended} ended.\n"
        return _show(shared, {"study": name, "person": person, "revoked": n_ended}, text)
    made = new_link(store, name, person, Role(role), days=days, by=COMMAND_LINE)
    ends = datetime.fromtimestamp(made.ends, UTC).isoformat(timespec="seconds")
    whole = f"{address.rstrip('/')}{made.path}"
    if shared.json:
        print_json({"study": name, "person": person, "role": role, "link": whole, "ends": ends})
        return 0
    click.echo(f"Link for {person} ({role}) until {moment_text(made.ends)}, for one browser:\n\n  {whole}\n")
    click.echo("It is not shown again. Send it to this person alone.", err=True)
    return 0


@study.command("withdraw")
@click.argument("name")
@click.argument("rater")
@click.option("--reason", metavar="TEXT", default="", help="Reason, for the owner; it is not in the study's card.")
@click.option("--discard", is_flag=True, help="The ratings given so far do not count.")
@shared_options("store", "json")
@click.pass_obj
def withdraw_(shared: Shared, name: str, rater: str, reason: str, discard: bool) -> int:
    """Record that a rater leaves a study.

    The ratings given so far count, unless --discard is given. `medhelm study reassign` gives the open cases to others.

    \b
    Examples:
      medhelm study withdraw discharge_letters ben --reason "on leave"
      medhelm study withdraw discharge_letters ben --discard
    """
    store = open_store(shared.store)
    left = withdraw(store, read_study(store, name), rater, COMMAND_LINE, reason, keep_ratings=not discard)
    text = f"{rater} has left {name}.\n"
    if left:
        open_cases = f"{plural(len(left), 'case')} {'is' if len(left) == 1 else 'are'} open"
        text += f"{open_cases}. Give them to others: medhelm study reassign {name}\n"
    return _show(shared, {"study": name, "rater": rater, "n_open": len(left)}, text)


@study.command("reassign")
@click.argument("name")
@shared_options("store", "json")
@click.pass_obj
def reassign_(shared: Shared, name: str) -> int:
    """Give cases of raters who left to others.

    Each case goes to a rater who does not have it, so that the load stays even. The plan does not change: what was
    given to whom is recorded, and is in the study's card.

    \b
    Example:
      medhelm study reassign discharge_letters
    """
    store = open_store(shared.store)
    one = read_study(store, name)
    given = Counter(event.rater for event in reassign(store, one, COMMAND_LINE))
    n_left = len(progress(store, one).unassigned)
    lines = [f"{rater}: {plural(n, 'further case')}" for rater, n in sorted(given.items())]
    if n_left:
        lines.append(
            f"{plural(n_left, 'case')} cannot be given to anyone: every rater who has not left has it already."
        )
    lines = lines or ["No case is open."]
    return _show(shared, {"study": name, "given": dict(given), "n_open": n_left}, "\n".join(lines) + "\n")


@study.command()
@click.argument("name")
@click.option("--incomplete", is_flag=True, help="Close the study although ratings are missing.")
@shared_options("store", "json")
@click.pass_obj
def close(shared: Shared, name: str, incomplete: bool) -> int:
    """Close a study for good.

    Shows the mean grades of each model, with intervals, and the agreement of raters. From then on `leaderboard`,
    `compare`, `report`, the site and releases take the ratings by themselves. Nothing can be rated afterwards; closing
    again shows the same.

    \b
    Examples:
      medhelm study close discharge_letters
      medhelm study close discharge_letters --incomplete --json
    """
    store = open_store(shared.store)
    one = read_study(store, name)
    found = close_study(store, one, COMMAND_LINE, incomplete=incomplete)
    as_json = {key: value for key, value in plain_json(found).items() if key != "notes"}  # no words of raters
    return _show(shared, as_json, views.outcome_to_text(one, found, titles_of(store, one)))


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
    records. No file reveals which model wrote a text. `medhelm study import` reads them back.

    \b
    Examples:
      medhelm study export discharge_letters --to for_raters
      medhelm study export letters --to for_raters --format html --rater anna
    """
    store = open_store(shared.store_to_read)
    paths = export_study(store, read_study(store, name), folder, kind, raters, by=COMMAND_LINE)
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
      medhelm study import letters letters-anna.xlsx letters-ben-ratings.json
      medhelm study import discharge_letters redcap_export.csv
    """
    store = open_store(shared.store_to_read)
    found = import_files(store, read_study(store, name), files, rater=rater, replaces=replaces, by=COMMAND_LINE)
    lines = [f"{one.file}: {one.rater}, {one.counts()}\n" for one in found]
    _show(shared, {"files": plain_json(found)}, "".join(lines))
    for one in found:
        for remark in one.remarks():
            warn(f"{one.file}: {remark}")
    if any(one.kept for one in found):
        click.echo("--replace takes the ratings of the files.", err=True)
        return 1
    return 0
