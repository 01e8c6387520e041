"""`medhelm release`, `diff`, `verify`, `gate`, `card` and `export`."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medhelm.cli import shell_completion
from medhelm.cli.extensions import ExtensibleGroup
from medhelm.cli.global_options import Shared, board_options, clinicians_of, load, shared_options
from medhelm.cli.options import add_options, format_option, option_from, options_of
from medhelm.cli.output import progress_options, table_options, write_output
from medhelm.cli.printing import as_shown, print_json
from medhelm.errors import UserError
from medhelm.results.options import BoardOptions, DocumentOptions

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Rule
    from medhelm.results.export import ExportResult, Format
    from medhelm.results.runs.slices import SliceSource
    from medhelm.storage.releases import Signer


# --- release, diff and verify -----------------------------------------------------------------------------------------

_leaderboard_options = add_options(
    options_of(BoardOptions, "options", "suite"), options_of(BoardOptions, "options", "ranking", "tier", "rule")
)


@click.command()
@click.argument("name", required=False)
@click.option("--note", default="", help="Purpose of the release, shown in lists.")
@click.option(
    "--sign",
    "key",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Sign the release with this SSH key, using OpenSSH's ssh-keygen.",
)
@_leaderboard_options
@format_option
@table_options
@shared_options("store", "benchmarks", "json")
@click.pass_obj
def release(
    shared: Shared, /, name: str | None, note: str, key: Path | None, format_: str, options: BoardOptions
) -> int:
    """Freeze the leaderboard under a name.

    Without a name, lists the releases. A release holds the leaderboard, byte for byte, and for each run the digests of
    its data, definition, prompts, completions and judgments, the model versions, jury, prices and software versions.

    \b
    Examples:
      medhelm release 2026-11 --note "for the governance committee"
      medhelm release
    """
    from medhelm.results.releases import freeze, release_as_json, releases_table
    from medhelm.storage.releases import read_release, release_names
    from medhelm.storage.store import open_store

    if key and not name:
        raise UserError("--sign signs a new release. Give its name.")
    if name:
        made = [
            freeze(
                shared.store,
                name,
                replace(options, benchmark_folders=tuple(shared.folders_of_stores)),
                note=note,
                key=key,
            )
        ]
    else:
        store = open_store(shared.store_to_read)
        made = [read_release(store, known) for known in release_names(store)]
    if format_ == "json":
        print_json(release_as_json(made[0]) if name else [release_as_json(one) for one in made])
        return 0
    if name and format_ in ("table", "md"):
        click.echo(as_shown(" ".join(made[0].leaderboard["verdict"]), format_) + "\n")
    click.echo(releases_table(made, format_), nl=False)
    return 0


@click.command()
@click.argument("first", metavar="RELEASE_A", shell_complete=shell_completion.releases)
@click.argument("second", metavar="[RELEASE_B]", default="current", shell_complete=shell_completion.releases)
@format_option
@table_options
@shared_options("store", "json")
@click.pass_obj
def diff(shared: Shared, /, first: str, second: str, format_: str) -> int:
    """Compare two releases or stores.

    Shows each model's rank and number side by side with the change, the models, benchmarks and values that changed, and
    the inputs that changed with them. If the stores still have both versions of a run, they are tested instance by
    instance. Give the name of a release, the path of its folder, or the folder of another store; `current` is the store
    as it is now. `medhelm compare` does the same, also for more than two.

    \b
    Examples:
      medhelm diff 2026-10 2026-11
      medhelm diff 2026-10
      medhelm diff ../theirs
    """
    print_side_by_side(shared, (first, second), format_)
    return 0


def print_side_by_side(shared: Shared, names: Sequence[str], format_: str) -> None:
    """Print releases and stores side by side; of two also every difference.

    Raises: UserError for an unknown name; StoreError for a release that cannot be read.
    """
    from medhelm.results.releases import compare_releases, comparison_as_json, comparison_to_text
    from medhelm.results.runs import side_by_side

    sides, runs = side_by_side.find_sides(shared.store_to_read, names)
    found = side_by_side.compare_sides(sides, runs)
    first, second = sides[0].named_release, sides[1].named_release
    pair = compare_releases(first, second, runs) if len(sides) == 2 else None
    if format_ == "json":
        print_json({**(comparison_as_json(pair) if pair else {}), **side_by_side.as_json(found)})
        return
    if pair is None or pair.diff.board or pair.diff.cells:
        click.echo(side_by_side.to_text(found, format_), nl=pair is not None)
    if pair:
        click.echo(comparison_to_text(pair, format_), nl=False)


@click.command()
@click.argument("name", metavar="[RELEASE]", required=False, shell_complete=shell_completion.releases)
@click.option(
    "--signed-by",
    "signers",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="First check that the release was signed by this public key, or by one in this file of allowed signers.",
)
@_leaderboard_options
@format_option
@table_options
@progress_options
@shared_options("store", "data", "benchmarks", "trust", "json")
@click.pass_obj
def verify(shared: Shared, /, name: str | None, signers: Path | None, format_: str, options: BoardOptions) -> int:
    """Recompute the leaderboard and compare.

    Scores every stored completion again with the current definitions, data and code, and compares the result, byte for
    byte, with the store or a release. Sends nothing. Exit codes: 0 identical, 1 different, 4 data is missing.

    \b
    Examples:
      medhelm verify --data DIR
      medhelm verify 2026-11 --data DIR --json
      medhelm verify 2026-11 --data DIR --signed-by committee.pub
    """
    from medhelm.cli.progress import progress_listener
    from medhelm.results.releases import find_release
    from medhelm.results.verification import verification_as_json, verification_to_text
    from medhelm.results.verification import verify as recompute

    signer = _signer(shared, name, signers)
    with _signals_as_ctrl_c(), progress_listener(shared) as listener:
        found = recompute(
            shared.store_to_read,
            replace(options, benchmark_folders=tuple(shared.folders_of_stores)),
            data=shared.data,
            release=find_release(shared.store_to_read, name) if name else None,
            listener=listener,
        )
    if format_ == "json":
        print_json({**verification_as_json(found), "signer": signer._asdict() if signer else None})
        return found.exit_code
    if signer:
        click.echo(f"Signed by {' with '.join(filter(None, signer))}.\n")
    click.echo(verification_to_text(found, format_), nl=False)
    return found.exit_code


def _signer(shared: Shared, name: str | None, signers: Path | None) -> Signer | None:
    """Return the signer of a release; None without `--signed-by`. Raises: UserError if the signature is not valid."""
    if signers is None:
        return None
    if name is None:
        raise UserError("--signed-by checks the signature of a release. Give its name.")
    from medhelm.storage.releases import release_signer
    from medhelm.storage.store import open_store

    return release_signer(open_store(shared.store_to_read), name, signers)


@contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C: temporary files are removed, and the exit code is 130."""
    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            if before[number] is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, signal.default_int_handler)
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number] or signal.SIG_DFL)


# --- gate -------------------------------------------------------------------------------------------------------------


@click.command()
@click.option(
    "--against",
    required=True,
    metavar="REFERENCE",
    shell_complete=shell_completion.releases,
    help="Another store, a release by name or folder, a run by id or folder, or `previous`: the run before the latest.",
)
@click.option(
    "--margin",
    metavar="D",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.02,
    show_default=True,
    help="Largest drop that passes, on a scale from 0 (worst) to 1 (best).",
)
@click.option(
    "--model",
    "models",
    metavar="MODEL",
    multiple=True,
    shell_complete=shell_completion.stored_models,
    help="Model of the store; repeatable.  [default: all that the reference also has]",
)
@click.option(
    "--baseline-model",
    metavar="MODEL",
    default="",
    help="Name of the model in the reference, if it differs; needs one --model.",
)
@click.option(
    "--benchmark",
    "benchmarks",
    metavar="BENCHMARK",
    multiple=True,
    help="Benchmark to compare on; repeatable.  [default: all in the reference]",
)
@click.option(
    "--by",
    metavar="criterion|[BENCHMARK:]COLUMN",
    default="",
    help="Also fail if a model got worse by a criterion of the judges' rubrics or by the score with floors, or on a "
    "value of this column of the data.",
)
@click.option("--each", is_flag=True, help="Pass only if every benchmark passes, not just their mean.")
@click.option("--allow-missing", is_flag=True, help="Pass even if benchmarks of the reference are not compared.")
@click.option(
    "--ignore-missing", is_flag=True, help="Leave out missing scores instead of counting them as the worst score."
)
@click.option(
    "--scoring",
    "rule",
    type=click.Choice(["corrected", "published"]),
    help="Scoring rule.  [default: that of the release, or corrected]",
)
@option_from(BoardOptions, "tier")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json", "junit", "md", "github"]),
    default="table",
    show_default=True,
    help="Format of the output; github: annotations of GitHub Actions.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the result to this file, and print only the verdict.",
)
@shared_options("store", "data", "benchmarks", "json")
@click.pass_obj
def gate(
    shared: Shared,
    /,
    against: str,
    rule: Rule | None,
    format_: str,
    output: Path | None,
    **choices: Any,
) -> int:
    """Fail a build if a model got worse.

    Compares each model with a reference on the same instances: paired differences with 95% intervals, by benchmark and
    for their mean. Exit codes: 0 pass, 1 worse by more than the margin, 5 undecided. Undecided means that the interval
    includes a drop as large as the margin, or that a benchmark of the reference is missing.

    \b
    Examples:
      medhelm gate --store build --against reference
      medhelm gate --against 2026-11 --margin 0.03 --format junit -o gate.xml
      medhelm gate --against previous           after `medhelm run --fresh`
      medhelm gate --against reference --by criterion
      medhelm gate --against old --model openai/new --baseline-model openai/old
      medhelm gate --against 2026-11 --by sex
    """
    import json

    from medhelm.results.formats.gate import CRITERION, as_json, gate_text, verdict
    from medhelm.results.gate import GateOptions
    from medhelm.results.gate import gate as compare_with

    source = slice_source(shared) if choices["by"] not in ("", CRITERION) else None
    found = compare_with(shared.store_to_read, against, GateOptions(rule=rule, source=source, **choices))
    if shared.json or format_ == "json":
        text = json.dumps(as_json(found), indent=2, ensure_ascii=False) + "\n"
    else:
        text = gate_text(found, format_)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_output(output, text)
        click.echo(verdict(found))
    return found.exit_code


# --- export and card --------------------------------------------------------------------------------------------------

SOME_FAILED = 1
"""Exit code if some runs could not be exported."""


@click.group(cls=ExtensibleGroup, within="export ", extensions={"helm": "exchange", "site": "web", "store": "exchange"})
@shared_options()
def export() -> None:
    """Export tables, HELM files, a card or a site.

    \b
    Examples:
      medhelm export helm DIR       HELM's files, for helm-summarize
      medhelm export csv DIR        tables for R, Stata or Excel
      medhelm export parquet DIR    the same tables for pandas, DuckDB or Spark
      medhelm export card DIR       one page for a governance committee
      medhelm export site DIR       the pages of `medhelm serve` as files
      medhelm export store URL      runs and releases, to an object store
    """


selection_options = options_of(BoardOptions, "options", "wanted", "tier")
"""The options that select runs."""

folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))

text_option = click.option(
    "--with-text",
    "texts",
    is_flag=True,
    help="Include prompts, completions and judges' explanations, which may contain patient data.",
)


_table_export = add_options(
    folder_argument,
    text_option,
    selection_options,
    options_of(BoardOptions, "options", "pricing"),
    shared_options("store", "benchmarks", "models", "json"),
)


@export.command()
@_table_export
@click.pass_obj
def csv(shared: Shared, folder: Path, options: BoardOptions, texts: bool) -> int:
    """Write CSV tables with a data dictionary.

    The tables hold runs, records, judgments and the leaderboard.

    \b
    Example:
      medhelm export csv tables --benchmark pubmed_qa
    """
    return _export_tables(shared, folder, "csv", options, texts)


@export.command()
@_table_export
@click.pass_obj
def parquet(shared: Shared, folder: Path, options: BoardOptions, texts: bool) -> int:
    """Write Parquet tables with a data dictionary.

    The tables are those of `medhelm export csv`.

    \b
    Example:
      medhelm export parquet tables
    """
    return _export_tables(shared, folder, "parquet", options, texts)


@export.command()
@click.argument("place", metavar="DIR|FILE", type=click.Path(path_type=Path))
@selection_options
@options_of(BoardOptions, "options", "rule", "pricing")
@options_of(DocumentOptions, "about")
@shared_options("store", "benchmarks", "models", "json")
@click.pass_obj
def card(shared: Shared, place: Path, options: BoardOptions, about: DocumentOptions) -> int:
    """Write an evaluation card for decision makers.

    Its first page has the verdict, the limitations, the ranks, the judges and the release; scores, data, digests and
    methods follow. In DIR, it is written as Markdown, HTML (for printing) and JSON. The suffix of FILE selects the
    format: .md, .html or .json. The card contains no patient text and no server address.

    \b
    Examples:
      medhelm export card card.html --benchmark pubmed_qa --benchmark aci_bench
      medhelm export card card.html --title "Discharge summaries"
    """
    from medhelm.results.card import export_card

    options = replace(board_options(shared, options), clinicians=clinicians_of(shared, about.ratings))
    done = export_card(shared.store_to_read, place, options, about, definitions=definitions_of(shared))
    return print_result(done, shared)


def _export_tables(shared: Shared, folder: Path, format: Format, options: BoardOptions, texts: bool) -> int:
    from medhelm.results.export import export_tables

    options = board_options(shared, options)
    return print_result(export_tables(shared.store_to_read, folder, format, options, texts=texts), shared)


def definitions_of(shared: Shared) -> dict[str, Benchmark]:
    """Return the known definitions of the benchmarks in the stores of the command, by name."""
    from medhelm.benchmarks.catalog import all_names

    stored = {path.name for store in shared.all_stores for path in store.glob("runs/*")}
    known = [name for name in all_names(shared.folders_of_stores) if name in stored]
    return {benchmark.name: benchmark for benchmark in load(shared, known, of_stores=True)}


def slice_source(shared: Shared) -> SliceSource:
    """Return where values of columns of the data are found beside the stores of the command."""
    from medhelm.results.runs.slices import SliceSource

    return SliceSource(definitions=definitions_of(shared), data=shared.data)


def print_result(done: ExportResult, shared: Shared) -> int:
    """Print the result of an export and return the exit code."""
    from medhelm.io.files import key_of
    from medhelm.results.export import export_as_json, export_to_text

    if shared.json:
        print_json(export_as_json(done))
    else:
        click.echo(export_to_text(done), nl=False)
    for text in done.remarks:
        click.echo(f"- {text}", err=True)
    for text in done.left_out:
        click.echo(f"- left out: {text}", err=True)
    if key_of(shared.store / "store.json"):
        click.echo("- the store is encrypted, but the exported files are not", err=True)
    return SOME_FAILED if done.left_out else 0
