"""Evaluation card of a store: collect its facts, digests, findings and limits, and write it to files."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from medhelm import __version__
from medhelm.analysis.agreement.clinician_means import ClinicianMean
from medhelm.analysis.cost import sum_costs
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.leaderboard.findings import beats_constant_answer, lacking_benchmarks, pairs_sentence
from medhelm.analysis.leaderboard.types import Average, Leaderboard, Row
from medhelm.benchmarks.catalog import all_names
from medhelm.domain import JURY, POOL, Benchmark, Estimate, Model, Rule, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import AS_WORST, CAUSED_BY_MODEL
from medhelm.domain.text import listed
from medhelm.errors import UserError
from medhelm.evaluation.stored_settings import repeating_words
from medhelm.io.folders import check_export, new_export, output_errors, write_file
from medhelm.io.http.hosts import host_of, is_inside, is_loopback
from medhelm.results.card_view import (
    Card,
    CardBenchmark,
    CardDigests,
    CardGrades,
    CardJudge,
    CardModel,
    Number,
    as_json,
    to_html,
    to_markdown,
)
from medhelm.results.comparable import BASELINE, has_own_data, judges_under_test, temperature_of
from medhelm.results.export import (
    ExportResult,
    ExportSelection,
    export_leaderboard,
    folder_size,
    judges_cost,
    select_for_export,
)
from medhelm.results.formats.sections import read_sections
from medhelm.results.formats.studies import study_sentences
from medhelm.results.jury import judge_sentences, total_tallies
from medhelm.results.options import NO_DOCUMENT, USUAL, BoardOptions, DocumentOptions
from medhelm.results.published.boards import load_results
from medhelm.results.releases import source_release
from medhelm.results.runs.criteria import board_with_criteria, criterion_title, means_on, scale_text
from medhelm.results.runs.data_use import DataUse, data_use
from medhelm.results.runs.data_use import sentences as data_sentences
from medhelm.results.runs.remarks import effect_sentence, injection_effects
from medhelm.results.runs.selection import renamed, short_names, with_names
from medhelm.scoring.metrics import METRICS
from medhelm.storage.releases import prompts_digest
from medhelm.storage.runs import completions_by_snapshot, read_messages, read_prompt_digests
from medhelm.storage.store import Store, stored_folder

SUFFIXES = (".md", ".html", ".json")
"""Endings of a card in one file."""

DOCUMENTS = (".pdf", ".docx", ".doc", ".odt", ".rtf", ".xlsx", ".csv", ".txt", ".tex", ".htm", ".png", ".svg")
"""Endings of files that people may expect, and that a card is not written as."""


def export_card(
    store: Path,
    place: Path,
    options: BoardOptions = USUAL,
    about: DocumentOptions = NO_DOCUMENT,
    *,
    definitions: Mapping[str, Benchmark] | None = None,
) -> ExportResult:
    """Write the card of a store as `card.md`, `card.html` and `card.json`, or as one file with one of these endings.

    Parameters: place, a folder or file that is new or holds a card; about, what it says about itself, by default with
    the date of today; definitions, benchmarks by name, for tasks and sources.
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
    dated = replace(about, date=about.date or datetime.datetime.now(datetime.UTC).date().isoformat())
    card = card_of(selection, board, definitions or {}, options, dated, data_use([store]))
    texts = {
        ".md": to_markdown(card),
        ".html": to_html(card),
        ".json": json.dumps(as_json(card), indent=2, ensure_ascii=False) + "\n",
    }
    if alone:
        with output_errors(place, "file"):
            write_file(place, texts[place.suffix])
    else:
        metadata = {"medhelm": __version__, "scoring": options.rule, "tier": selection.tier, "about": about.texts}
        with new_export(place, "card", metadata) as new:
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


def card_of(
    selection: ExportSelection,
    board: Leaderboard,
    definitions: Mapping[str, Benchmark],
    options: BoardOptions,
    about: DocumentOptions,
    found: DataUse,
) -> Card:
    """Return the card of the selected runs and their leaderboard. `found`: where the data of the store went."""
    runs = list(selection.counted.values())
    days = sorted(run.started[:10] for run in runs)
    versions = {"medhelm": __version__, "Python": platform.python_version()}
    names = short_names(model for model, _ in selection.counted)
    named = renamed(board, names)
    titles = {column.benchmark for column in board.columns}
    shown = {key: run for key, run in selection.counted.items() if key[1] in titles}
    digests = digests_by_model(selection.store, shown)
    folders = list(dict.fromkeys(stored_folder(run).parents[2] for run in runs))
    in_store = {(run.model, run.benchmark): run for run in runs}
    return Card(
        **about.texts,
        release=source_release(folders[0], in_store, options, about.signers) if len(folders) == 1 else None,
        first_run=days[0],
        last_run=days[-1],
        scoring=board.scoring,
        tier=selection.tier,
        was_published=bool(titles & load_results().benchmarks.keys()),
        verdict=[with_names(names, sentence) for sentence in named.verdict],
        ranked_by=board.ranked_by,
        models=[_card_model(row, selection, names, digests.get(row.model, {})) for row in board.all_rows],
        benchmarks=_card_benchmarks(selection, board, definitions, names),
        criteria=_card_criteria(board, selection, names),
        judges=[
            CardJudge(name=name.partition("@")[0], expected=tally.expected, missing=tally.failed)
            for name, tally in total_tallies(runs).items()
        ],
        judging=judge_sentences(folders, shown, replace(options, tier=selection.tier)),
        clinicians=[sentence for study in board.studies for sentence in study_sentences(study)],
        data_use=data_sentences(found),
        settings=_settings_in_words(runs),
        findings=findings(named),
        sections=read_sections(folders, replace(options, tier=selection.tier)),
        limits=limits(selection, board, names),
        versions={
            name: ", ".join(sorted({run.versions.get(name.lower(), "") for run in runs} - {""})) or current
            for name, current in versions.items()
        },
        measures={column.metric_title or column.metric: _metric_in_words(column.metric) for column in board.columns},
        command=_command(runs, selection, board.scoring, definitions),
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
        clinicians=_number(row.clinicians),
        with_floors=_number(row.average_with_floors),
    )


def _number(found: Average | ClinicianMean | Estimate | None) -> Number | None:
    """Return a number with its interval, and with its count if it is no average over benchmarks."""
    if found is None:
        return None
    n = None if isinstance(found, Average) else found.n
    return Number(value=found.value, low=found.low, high=found.high, n=n)


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
                    names[model]: replace(
                        _number(cell.estimate) or Number(value=cell.value),
                        value=cell.value,
                        n_failed=cell.n_failed,
                        n_failed_by_model=cell.n_failed_by_model,
                    )
                    for model, cell in cells.items()
                    if cell.value is not None
                },
            )
        )
    return found


def _card_criteria(board: Leaderboard, selection: ExportSelection, names: Mapping[str, str]) -> list[CardGrades]:
    """Return the mean grades of the models on each criterion of the judged benchmarks."""
    graded = board_with_criteria(board, selection.counted)
    return [
        CardGrades(
            benchmark=column.title,
            criterion=criterion_title(criterion),
            scale=scale_text(criterion),
            scores={names[one.model]: mean for one in means if (mean := _number(one.estimate))},
        )
        for column in board.columns
        for criterion, means in group_by(means_on(graded, column), lambda one: one.criterion).items()
    ]


def _data_source(run: Run, known: Benchmark | None) -> tuple[str, str, dict[str, str]]:
    """Describe the source of the data; return its version and its files with their checksums."""
    if run.origin and run.has_imported_completions:
        return f"files of {run.origin.harness}", "", {run.origin.run: run.origin.sha256}
    if run.tier == "sample":
        return "invented rows that come with the benchmark", "", {}
    if has_own_data(run):
        return "own data in the format of the benchmark", "", {}
    if known is None:
        return "benchmark folder not found: add `--benchmarks DIR`", "", {}
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
    drawn = "the default selection" if sample == "default" else f"the selection `{sample}`"
    if subset := run.settings.get("subset"):
        return f"{subset:,} of {drawn}, drawn at random"
    return f"the first {limit:,} of {drawn}" if limit else f"all {run.n:,} cases of {drawn}"


def _metric_in_words(metric: str) -> str:
    """Describe a metric in words for the card."""
    if metric == JURY:
        return "mean of the grades that language models gave, on the scale beside it"
    known = METRICS.if_usable(metric)
    return known.description if known else "as another program reported it"


# --- settings and command -------------------------------------------------------------------------------------


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
    models = {model.name: model for run in runs for model in (run.resolved_model, *run.judges) if model}
    own = [model for name, model in sorted(models.items()) if "/" not in name]
    return ", ".join(f"{model.name} is {model.provider}/{model.remote_name}" for model in own)


def _command(
    runs: Sequence[Run], selection: ExportSelection, scoring: str, definitions: Mapping[str, Benchmark]
) -> str:
    """Return the commands that repeat the evaluation, one for the runs with equal options.

    Words in capitals replace places that a card does not show: see `card_view.PLACES`.
    """
    by_options = group_by(runs, lambda run: tuple(map(_without_address, repeating_words(run))))
    known = set(all_names())
    commands = []
    for options, own in by_options.items():
        names = dict.fromkeys(run.benchmark for run in own)
        models = dict.fromkeys(_without_address(run.model) for run in own)
        called = [*models, *(judge.name for run in own for judge in run.judges)]
        hosts = {host for run in own if _needs_consent(run, definitions) for host in _hosts(run)}
        words = [word for model in models for word in ("--model", model)]
        words += [*options, *([] if selection.tier == "sample" else ["--data", "DIR"])]
        words += [] if known.issuperset(names) else ["--benchmarks", "BENCHMARKS"]
        words += ["--models", "models.yaml"] if any("/" not in name for name in called) else []
        words += [word for host in sorted(hosts) for word in ("--allow-host", host)]
        commands.append(shlex.join(["medhelm", "run", *names, *words]))
    return " && \\\n".join([*commands, f"medhelm leaderboard --scoring {scoring}"])


def _needs_consent(run: Run, definitions: Mapping[str, Benchmark]) -> bool:
    """Return whether hosts must be allowed to receive the data of a run."""
    known = definitions.get(run.benchmark)
    return run.tier == "real" and (known is None or known.access != "public" or has_own_data(run))


def _hosts(run: Run) -> set[str]:
    """Return the hosts that a run called, without this computer; those of the own network are not named."""
    models = [model for model in (run.resolved_model, *run.judges) if model]
    hosts = {host_of(address) for model in models for address in model.addresses}
    return {"HOST" if is_inside(host) else host for host in hosts if not is_loopback(host)}


def _without_address(name: str) -> str:
    """Replace the address of a server with ADDRESS."""
    return f"{name.partition('@')[0]}@ADDRESS" if "@" in name else name


# --- digests ----------------------------------------------------------------------------------------------------------
# Digests of the conditions under which each model of a card was measured.


def digests_by_model(store: Store, runs: Mapping[tuple[str, str], Run]) -> dict[str, dict[str, CardDigests]]:
    """Return model -> benchmark -> the digests of a run. `runs`: model and benchmark -> run."""

    @cache
    def stored(benchmark: str, definition: str, data: str) -> tuple[str, str]:
        file = store.prompts_file(benchmark, definition, data)
        references = {name: own for name, (_, own) in (read_prompt_digests(file) or {}).items()}
        return prompts_digest(read_messages(file)), digest_of(sorted(references.items())) if references else ""

    found: dict[str, dict[str, CardDigests]] = {}
    for (model, benchmark), run in runs.items():
        prompts, references = stored(benchmark, run.benchmark_digest, run.data_digest)
        found.setdefault(model, {})[benchmark] = CardDigests(
            data=run.data_digest,
            references=references,
            prompts="" if model.startswith(BASELINE) else prompts,
            definition=run.benchmark_digest,
            judges=_judges_digest(run),
            sampling=_sampling_in_words(run),
            max_tokens=int(run.settings.get("max_tokens") or 0) or None,
        )
    return found


def digest_of(content: object) -> str:
    """Return the SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _judges_digest(run: Run) -> str:
    """Return the digest of names and parameters of the judges, without addresses; empty without a jury."""
    if run.main_metric != JURY or run.jury_result is None:
        return ""
    judges = sorted(
        [judge.name.partition("@")[0], judge.remote_name, judge.reasoning_effort or "", dict(judge.parameters)]
        for judge in run.judges
    )
    return digest_of([judges, run.jury_result.jury.min_judges])


def _sampling_in_words(run: Run) -> str:
    """Describe how a model was sampled."""
    if run.model.startswith(BASELINE):
        return ""
    model, temperature = run.resolved_model, temperature_of(run)
    words = ["its own temperature" if temperature is None else f"temperature {temperature:g}"]
    if model:
        words += [f"reasoning effort {model.reasoning_effort}"] if model.reasoning_effort else []
        # Other values may be long, or name internal servers.
        others = {name: value for name, value in sorted(model.parameters.items()) if name != "temperature"}
        words += [f"{name} {value}" if isinstance(value, int | float) else name for name, value in others.items()]
    return ", ".join(words)


# --- findings and limits ----------------------------------------------------------------------------------------------

FEW = 6
"""Most models whose pairs are listed one by one."""

MOST_TITLES = 8
"""Most benchmarks named in a sentence."""


_ADDRESS = re.compile(r"@https?://[^\s,;]+")
"""The address of a server in the name of a model."""


def findings(board: Leaderboard) -> list[str]:
    """Return sentences on significant differences between models."""
    if len(board.rows) < 2:
        return ["There is one model: a comparison needs at least two."]
    sentences = _pair_sentences(board) if len(board.rows) <= FEW else _counted_pairs(board)
    mdes = [mde for mde in board.mde.values() if mde]
    if mdes:
        low, high = f"{min(mdes):.2f}", f"{max(mdes):.2f}"
        size = low if low == high else f"{low} to {high}"
        sentences.append(
            f"On a single benchmark, a true difference below about {size} (on a scale from 0 to 1) may not be detected."
        )
    return sentences


def _not_separated(board: Leaderboard, model: str, others: Iterable[str]) -> list[str]:
    """Return the models that were compared with a model, and do not differ significantly from it."""
    return [
        other
        for other in others
        if board.were_compared(model, other) and board.separated.isdisjoint({(model, other), (other, model)})
    ]


def _pair_sentences(board: Leaderboard) -> list[str]:
    models = [row.model for row in board.rows]
    sentences, equal = [], []
    for place, model in enumerate(models):
        below = models[place + 1 :]
        beaten = [other for other in models if (model, other) in board.separated]
        apart = [other for other in below if not board.were_compared(model, other)]
        equal += [f"{model} and {other}" for other in _not_separated(board, model, below)]
        if beaten:
            sentences.append(f"{model} is significantly better than {listed(beaten)}.")
        if apart:
            sentences.append(f"{model} was not run on the same benchmarks as {listed(apart)}.")
    if equal:
        sentences.append(f"Cannot be separated with this data: {'; '.join(equal)}.")
    return sentences


def _counted_pairs(board: Leaderboard) -> list[str]:
    sentences = [pairs_sentence(len(board.separated), board.n_tested)]
    for place, row in enumerate(board.rows):
        if alike := _not_separated(board, row.model, [other.model for other in board.rows[place + 1 :]]):
            sentences.append(f"{row.model} cannot be separated from {listed(alike, FEW)}.")
    return sentences


def limits(selection: ExportSelection, board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    """Return the limits of the results."""
    runs = list(selection.counted.values())
    sentences = []
    if selection.tier == "sample":
        sentences.append("The questions are a few invented examples. They say nothing about real performance.")
    if board.scoring == "published":
        sentences.append("Scores follow the rule of the published leaderboard, known faults included.")
    sentences += _failure_sentences(selection, board)
    sentences += _left_out_sentences(selection, board, names)
    sentences += _jury_sentences(selection, board.scoring, is_rated=board.has_clinicians)
    imported = Counter(run.origin.harness for run in runs if run.origin and run.has_imported_completions)
    for harness, count in imported.items():
        sentences.append(
            f"{count} of {len(runs)} runs were imported from another program ({harness}): its prompts and settings "
            "were not checked."
        )
    if any(run.settings.get("limit") for run in runs):
        sentences.append(
            "Only the first questions of the data were used, so intervals are wider than with all of them."
        )
    if not_beaten := [column.title for column in board.columns if _is_not_beaten(board, column)]:
        sentences.append(f"On {listed(not_beaten)}, no model is clearly better than always giving the same answer.")
    if board.baselines:
        sentences.append("Baselines are simple rules, not models: they have no rank.")
    if any(row.cost_usd is None for row in board.rows):
        sentences.append("A missing cost means an unknown price, not a free model.")
    sentences.append(
        "Benchmarks are prepared questions. They do not show how a model performs with your patients or in your "
        "workflow, or whether it is safe there."
    )
    return sentences


def _failure_sentences(selection: ExportSelection, board: Leaderboard) -> list[str]:
    """Return sentences on failures that count as the worst answer, and on missing completions."""
    runs = selection.counted.values()
    codes = sum((Counter(run.failures) for run in runs), Counter[str]())
    total = sum(run.n for run in runs)
    worst = sum(cell.n_failed_by_model for row in board.all_rows for cell in row.cells.values())
    missing = sum(run.n_failed for run in runs) - worst
    sentences = []
    if worst:
        kinds = _common_codes(codes, CAUSED_BY_MODEL)
        sentences.append(f"{worst:,} of {total:,} answers failed because of the model ({kinds}), {AS_WORST}.")
    if missing > 0:
        kinds = _common_codes(codes, codes.keys() - CAUSED_BY_MODEL if worst else codes.keys())
        text = f"{missing:,} of {total:,} answers are missing ({kinds})"
        sentences.append(f"{text}: they are left out of the scores.")
    return sentences


def _common_codes(codes: Counter[str], counted: Collection[str]) -> str:
    """Return the commonest of these kinds of failures with their numbers."""
    found = [(code.replace("_", " "), count) for code, count in codes.most_common() if code in counted]
    return ", ".join(f"{code} {count}" for code, count in found[:3])


def _left_out_sentences(selection: ExportSelection, board: Leaderboard, names: Mapping[str, str]) -> list[str]:
    """Return sentences on models without a score on some benchmarks, or measured under other conditions."""
    sentences = []
    titles = {column.benchmark: column.title for column in board.columns}
    estimated = {model for model, lacking in lacking_benchmarks(board).items() if lacking}
    absent = {
        row.model: [title for name, title in titles.items() if name not in row.cells or row.cells[name].value is None]
        for row in board.rows
    }
    lacking = [model for model, own in absent.items() if own]
    if len(lacking) > FEW:
        sentences.append(
            f"{len(lacking)} of {len(board.rows)} models have no score on some benchmarks. Averages are estimated from "
            f"their other scores, or missing."
        )
    for model in lacking if len(lacking) <= FEW else ():
        end = "; its average is estimated from other scores." if model in estimated else "."
        sentences.append(f"{names[model]} has no score on {listed(absent[model], MOST_TITLES)}{end}")
    left_out = [one for one in selection.left_out if one.benchmark in titles]
    groups = group_by(left_out, lambda one: (_ADDRESS.sub("", one.model), _ADDRESS.sub("", one.reason)))
    for (model, reason), own in groups.items():
        left = listed([titles[one.benchmark] for one in own], MOST_TITLES)
        sentences.append(f"{model} is left out of {left}: {reason}.")
    return sentences


def _jury_sentences(selection: ExportSelection, rule: Rule, *, is_rated: bool) -> list[str]:
    """Return sentences on juries. `is_rated`: True if the card has ratings by clinicians."""
    runs = [run for run in selection.counted.values() if run.jury_result]
    if not runs:
        return []
    compare = "" if is_rated else "; compare them with ratings of clinicians"
    sentences = [
        f"Free text was graded by language models, which make errors{compare}. `medhelm jury` shows whether they agree "
        "with each other."
    ]
    tallies = [tally for run in runs for tally in run.tallies.values()]
    expected, missing = sum(tally.expected for tally in tallies), sum(tally.failed for tally in tallies)
    if missing:
        without = sum(run.jury_result.n_too_few_judges for run in runs if run.jury_result)
        lost = f", so {without:,} answers have no score" if without else ""
        sentences.append(f"{missing:,} of {expected:,} judgments are missing{lost}.")
    sentences += [
        f"{_ADDRESS.sub('', one.model)}: {effect_sentence(one)}" for one in injection_effects(selection.counted, rule)
    ]
    if both := [name.partition("@")[0] for name in judges_under_test(selection.counted.values())]:
        sentences.append(f"{listed(both)} graded answers of the same model: judges may favor their own.")
    return sentences


def _is_not_beaten(board: Leaderboard, column: Column) -> bool:
    """Return whether no model is shown to be better than a constant answer, although this was tested."""
    found = [better for row in board.rows if (better := beats_constant_answer(board, row, column)) is not None]
    return bool(found) and not any(found)
