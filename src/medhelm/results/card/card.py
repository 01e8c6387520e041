"""Write an evaluation card of a store."""

from __future__ import annotations

import datetime
import json
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from medhelm import __version__
from medhelm.analysis.cost.sums import sum_costs
from medhelm.analysis.leaderboard.types import Average, Leaderboard, Row
from medhelm.domain import JURY, POOL, Benchmark, Model, Run
from medhelm.domain.grouping import group_by
from medhelm.errors import UserError
from medhelm.evaluation.settings import repeating_words
from medhelm.io.export_folder import check_export, new_export
from medhelm.io.http.hosts import host_of, is_inside, is_loopback
from medhelm.io.output_folder import output_errors, write_file
from medhelm.reports.card import (
    Card,
    CardBenchmark,
    CardDigests,
    CardJudge,
    CardModel,
    Number,
    as_json,
    to_html,
    to_markdown,
)
from medhelm.reports.export import ExportResult
from medhelm.results.card.digests import digests_by_model
from medhelm.results.card.sentences import findings, limits
from medhelm.results.comparable.conditions import has_own_data
from medhelm.results.export_selection import (
    ExportSelection,
    export_leaderboard,
    folder_size,
    select_for_export,
)
from medhelm.results.export_tables import judges_cost
from medhelm.results.jury import total_tallies
from medhelm.results.options import USUAL, BoardOptions
from medhelm.results.runs.names import renamed, short_names, with_names
from medhelm.scoring.metrics import METRICS
from medhelm.storage.releases import prompts_digest
from medhelm.storage.runs import completions_by_snapshot, read_messages

SUFFIXES = (".md", ".html", ".json")
"""Endings of a card in one file."""

DOCUMENTS = (".pdf", ".docx", ".doc", ".odt", ".rtf", ".xlsx", ".csv", ".txt", ".tex", ".htm", ".png", ".svg")
"""Endings of files that people may expect, and that a card is not written as."""


def export_card(
    store: Path,
    place: Path,
    options: BoardOptions = USUAL,
    *,
    definitions: Mapping[str, Benchmark] | None = None,
    today: datetime.date | None = None,
) -> ExportResult:
    """Write the card of a store as `card.md`, `card.html` and `card.json`, or as one file with one of these endings.

    Parameters: place, a folder or file that is new or holds a card; definitions, benchmarks by name, for tasks and
    sources; today, the date of the card.
    Raises: UserError, StoreError, StoreFullError.
    """
    if place.suffix.lower() in DOCUMENTS and not place.is_dir():
        raise UserError(
            f"{place}: a card cannot be written as {place.suffix}. Name a file that ends in .html, which prints well, "
            ".md or .json, or a folder."
        )
    alone = place.suffix in SUFFIXES
    if not alone:
        check_export(place, "card")
    elif place.exists() and not _is_card(place):
        raise UserError(f"{place} exists and is not an evaluation card written by medhelm. Choose another file.")
    selection = select_for_export(store, options)
    if not selection.counted:
        raise UserError("\n".join(["No finished run to report.", *map(str, selection.remarks)]))
    board = export_leaderboard(store, selection, options)
    card = card_of(selection, board, definitions or {}, today or datetime.datetime.now(datetime.UTC).date())
    texts = {
        ".md": to_markdown(card),
        ".html": to_html(card),
        ".json": json.dumps(as_json(card), indent=2, ensure_ascii=False) + "\n",
    }
    if alone:
        _write_one_file(place, texts[place.suffix])
    else:
        with new_export(
            place, "card", {"medhelm": __version__, "scoring": options.rule, "tier": selection.tier}
        ) as new:
            for suffix, text in texts.items():
                (new / f"card{suffix}").write_text(text, encoding="utf-8")
    files, size = (1, place.stat().st_size) if alone else folder_size(place)
    counts = {"models": len(card.models), "benchmarks": len(card.benchmarks), "runs": len(selection.counted)}
    return ExportResult(kind="card", place=place, files=files, bytes=size, counts=counts, scoring=options.rule)


def _is_card(path: Path) -> bool:
    """Return whether a file is an evaluation card, which may be replaced."""
    try:
        start = path.read_text(encoding="utf-8")[:4000]
    except (OSError, ValueError):
        return False
    return '"medhelm_card"' in start or "Evaluation card: " in start


def _write_one_file(place: Path, text: str) -> None:
    with output_errors(place, "file"):
        write_file(place, text)


def card_of(
    selection: ExportSelection, board: Leaderboard, definitions: Mapping[str, Benchmark], today: datetime.date
) -> Card:
    """Return the card of the selected runs and their leaderboard."""
    runs = list(selection.counted.values())
    days = sorted(run.started[:10] for run in runs)
    names = short_names(run.model for run in runs)
    named = renamed(board, names)
    shown = {column.benchmark for column in board.columns}
    digests = digests_by_model(selection.store, {key: run for key, run in selection.counted.items() if key[1] in shown})
    versions = {"medhelm": sorted({run.versions.get("medhelm", "") for run in runs} - {""})}
    versions["Python"] = sorted({run.versions.get("python", "") for run in runs} - {""})
    return Card(
        date=today.isoformat(),
        first_run=days[0],
        last_run=days[-1],
        scoring=board.scoring,
        tier=selection.tier,
        verdict=[with_names(names, sentence) for sentence in named.verdict],
        ranked_by=board.ranked_by,
        models=[_card_model(row, selection, names, digests.get(row.model, {})) for row in board.all_rows],
        benchmarks=_card_benchmarks(selection, board, definitions, names),
        judges=_card_judges(runs),
        settings=_settings_in_words(runs),
        findings=findings(named),
        limits=limits(selection, board, names),
        versions={
            name: ", ".join(found) or (__version__ if name == "medhelm" else platform.python_version())
            for name, found in versions.items()
        },
        measures={column.metric_title or column.metric: _metric_in_words(column.metric) for column in board.columns},
        command=_command(runs, selection, board.scoring),
    )


# --- models -----------------------------------------------------------------------------------------------------------


def _card_model(
    row: Row,
    selection: ExportSelection,
    names: Mapping[str, str],
    digests: Mapping[str, CardDigests],
) -> CardModel:
    runs = [run for (model, _), run in selection.counted.items() if model == row.model]
    judges = [judges_cost(run) for run in runs if run.jury_result]
    reached = next((run.resolved_model for run in runs if run.resolved_model), None)
    return CardModel(
        name=names[row.model],
        reached=_connection_in_words(reached, runs),
        served_as=reached.remote_name if reached else "",
        snapshots=completions_by_snapshot(runs),
        rank=row.rank,
        rank_low=row.rank_low,
        rank_high=row.rank_high,
        win_share=_number(row.win_share),
        win_rate=_number(row.win_rate),
        macro_average=_number(row.adjusted_average),
        n_benchmarks=row.n_benchmarks,
        cost_usd=row.cost_usd,
        judges_cost_usd=sum_costs(judges).usd if judges else None,
        price=_price_in_words(reached),
        digests=digests,
    )


def _number(average: Average | None) -> Number | None:
    return Number(value=average.value, low=average.low, high=average.high) if average else None


def _connection_in_words(model: Model | None, runs: Sequence[Run]) -> str:
    """Describe how a model was reached, without internal addresses, ports, paths or keys."""
    if origins := sorted({run.origin.harness for run in runs if run.origin and run.has_imported_completions}):
        return f"read from files of {', '.join(origins)}"
    if model is None:
        return "not recorded"
    if not model.base_url:
        local = {"baseline": "no language model: a simple rule", "replay": "completions read from a file"}
        return local.get(model.provider, f"this computer, or the usual address of {model.provider}")
    if model.base_url == POOL:
        return "several servers that the user named"
    host = host_of(model.base_url)
    if is_loopback(host):
        return "a server on the same computer"
    return "a server in the own network" if is_inside(host) else f"over the internet: {host}"


def _price_in_words(model: Model | None) -> str:
    if model is None or model.price is None:
        return ""
    price = model.price
    if price.input == price.output == 0:
        return "free of charge"
    words = f"{price.input:g} in, {price.output:g} out, USD per million tokens"
    return f"{words} ({price.source})" if price.source else words


# --- benchmarks -------------------------------------------------------------------------------------------------------


def _card_benchmarks(
    selection: ExportSelection, board: Leaderboard, definitions: Mapping[str, Benchmark], names: Mapping[str, str]
) -> list[CardBenchmark]:
    found = []
    for column in board.columns:
        own = {model: run for (model, name), run in selection.counted.items() if name == column.benchmark}
        if not own:
            continue
        run = next(iter(own.values()))
        known = definitions.get(run.benchmark)
        source, revision, files = _data_source(run, known)
        cells = {row.model: row.cells[column.benchmark] for row in board.all_rows if column.benchmark in row.cells}
        limits = sorted({int(one.settings.get("max_tokens") or 0) for one in own.values()})
        prompts = selection.store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
        found.append(
            CardBenchmark(
                id=run.benchmark,
                title=run.title,
                task=run.taxonomy.task or (known.description.strip() if known else ""),
                source=source,
                revision=revision,
                files=files,
                access=known.access if known else "",
                n=max(one.n for one in own.values()),
                selection=_selection_in_words(run),
                metric=(column.metric_title or column.metric) + (f", {run.rubric} rubric" if run.rubric else ""),
                low=column.low,
                high=column.high,
                mde=board.mde.get(column.benchmark),
                definition_digest=run.benchmark_digest,
                data_digest=run.data_digest,
                prompts_digest=prompts_digest(read_messages(prompts)),
                max_tokens=" or ".join(f"{limit:,}" for limit in limits if limit) or "not recorded",
                scores={
                    names[model]: Number(
                        value=cell.value,
                        low=cell.estimate.low if cell.estimate else None,
                        high=cell.estimate.high if cell.estimate else None,
                        n=cell.estimate.n if cell.estimate else None,
                        n_failed=cell.n_failed,
                        n_failed_by_model=cell.n_failed_by_model,
                    )
                    for model, cell in cells.items()
                    if cell.value is not None
                },
            )
        )
    return found


def _data_source(run: Run, known: Benchmark | None) -> tuple[str, str, dict[str, str]]:
    """Describe the source of the data; return its version and its files with their checksums."""
    if run.origin and run.has_imported_completions:
        return f"files of {run.origin.harness}", "", {run.origin.run: run.origin.sha256}
    if run.tier == "sample":
        return "invented rows that come with the benchmark", "", {}
    if has_own_data(run):
        return "own data in the format of the benchmark", "", {}
    if known is None:
        return "a definition that is not available", "", {}
    if known.as_used(run.rubric, run.benchmark_digest).digest != run.benchmark_digest:
        return "a definition that has changed since", "", {}
    source = known.source
    host = host_of(source.location.partition("{")[0]) if source.location else ""
    where = f"public, {host}" if host else {"public": "public", "gated": "under an agreement"}.get(known.access, "own")
    return where, source.revision, {**source.files, **source.scoring_files}


def _selection_in_words(run: Run) -> str:
    """Describe the selection of instances."""
    if run.has_imported_completions:
        return "as read"
    if run.tier == "sample":
        return "all invented rows"
    limit, sample = run.settings.get("limit"), run.settings.get("sample", "default")
    drawn = "the usual selection" if sample == "default" else f"the selection `{sample}`"
    if subset := run.settings.get("subset"):
        return f"{subset:,} of {drawn}, drawn at random"
    return f"the first {limit:,} of {drawn}" if limit else drawn


def _metric_in_words(metric: str) -> str:
    """Describe a metric in words for the card."""
    if metric == JURY:
        return "mean of the grades that language models gave, on the scale beside it"
    known = METRICS.if_usable(metric)
    return known.description if known else "as another program reported it"


# --- judges, settings and command -------------------------------------------------------------------------------------


def _card_judges(runs: Iterable[Run]) -> list[CardJudge]:
    return [
        CardJudge(name=name.partition("@")[0], expected=tally.expected, missing=tally.failed)
        for name, tally in total_tallies(runs).items()
    ]


def _settings_in_words(runs: Sequence[Run]) -> dict[str, str]:
    """Describe the settings."""

    def all_of(name: str) -> list[str]:
        values = {run.settings.get(name) for run in runs}
        return [f"{value:g}" if isinstance(value, float) else str(value) for value in sorted(values, key=str)]

    temperatures = ["the server's own" if value == "None" else value for value in all_of("temperature")]
    tokens = sorted({int(run.settings.get("max_tokens") or 0) for run in runs} - {0})
    limits = "not recorded"
    if tokens:
        ends = f"{tokens[0]:,}" if len(tokens) == 1 else f"{tokens[0]:,} to {tokens[-1]:,}"
        limits = f"{ends} tokens (pieces of words)"
    own = _own_names_in_words(runs)
    return {
        "Temperature (0: the likeliest answer each time)": " or ".join(temperatures),
        "Longest answer": limits,
        "Seed of the selection": " or ".join(all_of("seed")),
        **({"Own names, which models.yaml or `--model NAME=MODEL@ADDRESS` defines": own} if own else {}),
    }


def _own_names_in_words(runs: Sequence[Run]) -> str:
    """List the models and judges that have a name of the user's own, each with the model behind it."""
    models = {run.resolved_model.name: run.resolved_model for run in runs if run.resolved_model}
    models |= {judge.name: judge for run in runs for judge in run.judges}
    own = [model for name, model in sorted(models.items()) if "/" not in name]
    return ", ".join(f"{model.name} is {model.provider}/{model.remote_name}" for model in own)


def _command(runs: Sequence[Run], selection: ExportSelection, scoring: str) -> str:
    """Return the commands that repeat the evaluation, one for the runs with equal options."""
    by_options = group_by(runs, lambda run: tuple(map(_without_address, repeating_words(run))))
    where = [] if selection.tier == "sample" else ["--data", "DIR"]
    commands = []
    for options, own in by_options.items():
        names = dict.fromkeys(run.benchmark for run in own)
        models = dict.fromkeys(_without_address(run.model) for run in own)
        named = [word for model in models for word in ("--model", model)]
        commands.append(shlex.join(["medhelm", "run", *names, *named, *options, *where]))
    return " && \\\n".join([*commands, f"medhelm leaderboard --scoring {scoring}"])


def _without_address(name: str) -> str:
    """Replace the address of a server with ADDRESS."""
    return f"{name.partition('@')[0]}@ADDRESS" if "@" in name else name
