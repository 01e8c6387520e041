"""The stored comparisons of completions by judges.

STORE/pairwise/BENCHMARK-<id>.json: models, judges and verdicts, with the explanations of the judges. These can quote
the data: the files are as confidential as the run folders. A file is written atomically, so that it is complete.

Results of comparisons by judges: strengths of models, pairs, and biases of judges; as tables and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medhelm.analysis.comparison.preferences import (
    ComparedPair,
    JudgePosition,
    PairVerdicts,
    WinShare,
    compared_pairs,
    judge_positions,
    preferences,
)
from medhelm.domain import RunStatus, Tier, Usage
from medhelm.domain.text import plural
from medhelm.errors import StoreError
from medhelm.io.files import error_class, make_shared_folder, read_confidential
from medhelm.io.folders import write_confidential
from medhelm.results.formats.fields import Field, fields_json, fields_table, table_of
from medhelm.results.formats.tables import (
    Value,
    cost_text,
    data_text,
    estimate_numbers,
    estimate_text,
    percent,
    render,
    with_minus,
)
from medhelm.results.options import BoardOptions
from medhelm.results.runs.selection import renamed, short_names
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.store import USAGE, Store, open_store

if TYPE_CHECKING:
    from medhelm.results.formats.sections import ResultSection

FORMAT = 1
"""Version of the files. Those of a newer one are refused."""

Words = tuple[str, str]
"""A text for each order: with the completion of the first model on top, and with that of the second one."""


@dataclass(frozen=True, slots=True)
class StoredPair:
    """The verdicts of a judge on one pair of completions, with their explanations."""

    verdicts: PairVerdicts
    """The verdicts."""
    failures: Words = ("", "")
    """Codes of missing verdicts."""
    explanations: Words = ("", "")
    """Explanations in the judge's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparingJudge:
    """The work of one judge on a comparison."""

    judge: str
    """Name of the judge."""
    requests_sent: int = 0
    """Requests sent in the latest execution, retries included."""
    requests_cached: int = 0
    """Completions found in the cache."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of all its completions, whenever they were bought."""
    cost_usd: float | None = None
    """Price of that usage; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseComparison:
    """Models on one benchmark whose completions judges compared with each other."""

    id: str
    """Digest of everything that decides the requests."""
    benchmark: str
    """Id of the benchmark."""
    title: str
    """Its name for people."""
    tier: Tier
    """Real data or sample rows."""
    runs: Mapping[str, str]
    """Model -> id of its run."""
    judges: tuple[ComparingJudge, ...]
    """The judges."""
    n_instances: int
    """Instances that were compared."""
    n_failed: Mapping[str, int]
    """Model -> its instances without a completion, which are left out."""
    n_suspicious: Mapping[str, int]
    """Model -> its completions with signs of a prompt injection."""
    status: RunStatus
    """Progress when it was stored."""
    started: str
    """Start time, ISO 8601, UTC."""
    prompt_version: int
    """Version of the judges' prompt."""
    pairs: tuple[StoredPair, ...]
    """Every pair of completions and judge."""


_JUDGE = JsonForm(
    ComparingJudge,
    key_map("judge requests_sent requests_cached usage cost_usd"),
    nested={"usage": USAGE.one},
)

_PAIR_KEYS = ("instance", "cluster", "first", "second", "judge", "forward", "backward", "longer", "is_judged")


def _write_pairs(pairs: Sequence[StoredPair]) -> list[list[Any]]:
    """Return a row for each pair: the columns in `_PAIR_KEYS`, failures and explanations."""
    return [
        [*(getattr(pair.verdicts, key) for key in _PAIR_KEYS), list(pair.failures), list(pair.explanations)]
        for pair in pairs
    ]


def _read_pairs(rows: Sequence[Sequence[Any]]) -> tuple[StoredPair, ...]:
    return tuple(
        StoredPair(PairVerdicts(**dict(zip(_PAIR_KEYS, values, strict=True))), _words(failures), _words(explanations))
        for *values, failures, explanations in rows
    )


def _words(texts: Sequence[str]) -> Words:
    one, other = texts
    return str(one), str(other)


_COMPARISON = JsonForm(
    PairwiseComparison,
    key_map(
        "id benchmark title tier runs judges n_instances n_failed n_suspicious status started prompt_version pairs"
    ),
    nested={
        "judges": _JUDGE.many,
        "status": Nested(str, RunStatus),
        "pairs": Nested(_write_pairs, _read_pairs),
    },
)


def comparison_file(store: Store, benchmark: str, id_: str) -> Path:
    """Return the file of a comparison."""
    return store.folder / "pairwise" / f"{benchmark}-{id_[:10]}.json"


def write_comparison(store: Store, comparison: PairwiseComparison) -> bool:
    """Store a comparison; return False if a complete one is there and this one is partial, which is not stored then.

    Raises: StoreError or StoreFullError if it cannot be written.
    """
    path = comparison_file(store, comparison.benchmark, comparison.id)
    if comparison.status != RunStatus.COMPLETE and path.exists() and _read(path).status == RunStatus.COMPLETE:
        return False
    content = {"format": FORMAT, **_COMPARISON.write(comparison)}
    try:
        make_shared_folder(path.parent)
        write_confidential(path, json.dumps(content, ensure_ascii=True) + "\n")
    except OSError as error:
        raise error_class(error, StoreError)(
            f"{path} cannot be written: {error.strerror or error}. Completions already received are in the store's "
            "cache: free some space and run the same command again."
        ) from error
    return True


def read_comparisons(store: Store, benchmark: str = "") -> list[PairwiseComparison]:
    """Read the comparisons on a benchmark, or all, the latest first. Raises: StoreError for a damaged file."""
    found = [_read(path) for path in _files(store) if benchmark in ("", path.stem.rpartition("-")[0])]
    return sorted(found, key=lambda one: one.started, reverse=True)


def _files(store: Store) -> list[Path]:
    return sorted((store.folder / "pairwise").glob("[!.]*.json"))


def _read(path: Path) -> PairwiseComparison:
    try:
        content = json.loads(read_confidential(path))
        version = content.pop("format")
        if isinstance(version, int) and version > FORMAT:
            raise StoreError(
                f"{path} has format {version}, and this version of medhelm reads {FORMAT}. Update medhelm."
            )
        return _COMPARISON.read(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged ({error}). Remove it, and compare again: completions in the cache are not bought again."
        ) from error


def purge_comparisons(store: Store, benchmark: str, instance_ids: Collection[str] | None) -> int:
    """Delete the verdicts on deleted instances, and return their number. `instance_ids`: None for all.

    Raises: StoreError.
    """
    n_deleted = 0
    for path in _files(store):
        if path.stem.rpartition("-")[0] != benchmark:
            continue
        comparison = _read(path)
        kept = tuple(
            pair for pair in comparison.pairs if instance_ids is not None and pair.verdicts.instance not in instance_ids
        )
        n_deleted += len(comparison.pairs) - len(kept)
        if not kept:
            path.unlink()
        elif len(kept) < len(comparison.pairs):
            instances = {pair.verdicts.instance for pair in kept}
            changed = replace(comparison, pairs=kept, n_instances=len(instances))
            write_confidential(path, json.dumps({"format": FORMAT, **_COMPARISON.write(changed)}) + "\n")
    return n_deleted


# --- results ----------------------------------------------------------------------------------------------------------

LEVEL = 0.05
"""Significance level of pairs, adjusted for all of them, and of biases."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairwiseNumbers:
    """The numbers of a comparison."""

    comparison: PairwiseComparison
    """The comparison."""
    models: tuple[WinShare, ...]
    """Each model, the most preferred first."""
    pairs: tuple[ComparedPair, ...]
    """Every two models."""
    judges: tuple[JudgePosition, ...]
    """Each judge."""


def summarize(comparison: PairwiseComparison) -> PairwiseNumbers:
    """Compute the numbers of a comparison."""
    verdicts = [pair.verdicts for pair in comparison.pairs]
    known = [(one, one.preferred) for one in verdicts if one.preferred is not None]
    fitted: tuple[WinShare, ...] = ()
    if known:
        fitted = preferences(
            [one.first for one, _ in known],
            [one.second for one, _ in known],
            np.array([sign for _, sign in known], dtype=float),
            [one.cluster for one, _ in known],
            has_sides=False,
        ).shares
    return PairwiseNumbers(
        comparison=comparison, models=fitted, pairs=compared_pairs(verdicts), judges=judge_positions(verdicts)
    )


# --- in words ---------------------------------------------------------------------------------------------------------


def verdict(found: PairwiseNumbers) -> Iterator[str]:
    """Yield which models judges prefer, and which judges go by the order, in sentences."""
    for pair in found.pairs:
        share = f"{percent(pair.share.value)} ({percent(pair.share.low)} to {percent(pair.share.high)})"
        if pair.p_adjusted <= LEVEL:
            yield f"{pair.first} is preferred to {pair.second}, with {share} of the comparisons."
        else:
            yield f"{pair.first} and {pair.second} cannot be separated: {pair.first} has {share} of the comparisons."
    for judge in found.judges:
        top = judge.top
        if top and (top.low > 0.5 or top.high < 0.5):
            place = "first" if top.value > 0.5 else "second"
            share = percent(max(top.value, 1 - top.value))
            yield f"{judge.judge} prefers the completion that it sees {place}, in {share} of its verdicts."


def remarks(found: PairwiseNumbers) -> Iterator[str]:
    """Yield limits of the numbers."""
    comparison = found.comparison
    if comparison.status != RunStatus.COMPLETE:
        yield "the comparison was stopped early: some pairs were not judged. Repeat the command to continue."
    if n := sum(pair.verdicts.preferred is None for pair in comparison.pairs):
        yield f"{plural(n, 'verdict')} of {len(comparison.pairs):,} are missing, and do not count."
    for model, n in comparison.n_failed.items():
        if n:
            yield f"{model}: {plural(n, 'instance')} without a completion that judges can read, left out of its pairs."
    for model, n in comparison.n_suspicious.items():
        if n:
            yield f"{model}: {plural(n, 'completion')} with signs of a prompt injection. Read them first."
    if n := sum(not pair.verdicts.is_judged for pair in comparison.pairs):
        yield f"{plural(n, 'pair')} decided without a judge: a blank completion loses, and equal ones tie."


# --- tables and JSON --------------------------------------------------------------------------------------------------

_PARTS = "value low high n method"
_SHARE = "0 to 1"


def _share(key: str, get: Callable[[Any], Any], heading: str, **settings: Any) -> Field[Any]:
    """Return the field of a share, which tables show in percent with its interval."""

    def in_percent(item: Any) -> str | None:
        one = get(item)
        if one is None or one.low is None or one.high is None:
            return None if one is None else percent(one.value)
        return f"{percent(one.value)} [{percent(one.low)}, {percent(one.high)}]"

    return Field(key, get, kind="interval", range=_SHARE, heading=heading, text=in_percent, **settings)


_MODELS: list[Field[WinShare]] = [
    Field("model", lambda one: one.model, kind="text", heading="Model"),
    _share("share", lambda one: one, "Preferred",
           meaning="Mean over the other models of the probability to be preferred, plus half of that of a tie."),
    Field("strength", lambda one: one.strength, kind="interval", parts=_PARTS, heading="Strength",
          text=lambda one: with_minus(estimate_text(one.strength, 2) or ""),
          meaning="Log strength in the model of Bradley and Terry with ties, less the mean over models."),
    Field("n", lambda one: one.n, kind="whole number", heading="Comparisons"),
]  # fmt: skip

_PAIRS: list[Field[ComparedPair]] = [
    Field("first", lambda one: one.first, kind="text", heading="Model"),
    Field("second", lambda one: one.second, kind="text", heading="Compared with"),
    Field("wins", lambda one: one.wins, kind="whole number", heading="Wins"),
    Field("ties", lambda one: one.ties, kind="whole number", heading="Ties"),
    Field("losses", lambda one: one.losses, kind="whole number", heading="Losses"),
    _share("share", lambda one: one.share, "Preferred", parts=_PARTS),
    Field("p_adjusted", lambda one: one.p_adjusted, kind="p-value", heading="p"),
]  # fmt: skip


def _judge_fields(comparison: PairwiseComparison) -> list[Field[JudgePosition]]:
    work = {one.judge: one for one in comparison.judges}

    def of(one: JudgePosition) -> ComparingJudge:
        return work.get(one.judge) or ComparingJudge(judge=one.judge)

    return [
        Field("judge", lambda one: one.judge, kind="text", heading="Judge"),
        Field("n", lambda one: one.n, kind="whole number", heading="Pairs"),
        Field("n_missing", lambda one: one.n_missing, kind="whole number", heading="Missing"),
        _share("consistent", lambda one: one.consistent, "Same in both orders", parts=_PARTS),
        _share("top", lambda one: one.top, "Prefers the first", parts=_PARTS, missing="all verdicts are ties",
               meaning="Share of its verdicts other than ties for the completion shown first: 0.5 without bias."),
        _share("longer", lambda one: one.longer, "Prefers the longer", parts=_PARTS,
               missing="no preference is the same in both orders",
               meaning="Share of its preferences in both orders for the longer completion, which can be better."),
        Field("requests_sent", lambda one: of(one).requests_sent, kind="whole number"),
        Field("requests_cached", lambda one: of(one).requests_cached, kind="whole number"),
        Field("cost_usd", lambda one: of(one).cost_usd, heading="Cost USD",
              text=lambda one: cost_text(of(one).cost_usd), missing="its price is unknown"),
    ]  # fmt: skip


NOTES = (
    "Preferred: share of the comparisons won, half of the ties included. A verdict that depends on the order is a tie.",
    "Strength: Bradley and Terry's model with ties (Davidson 1970). Intervals: 95%, by instance cluster; they hold for "
    "these judges. p is adjusted for all pairs (Holm).",
    "Prefers the first: 50% without position bias. Prefers the longer: this can be bias, or longer ones are better.",
)


def as_json(found: PairwiseNumbers) -> dict[str, Any]:
    """Return the output of `medhelm pairwise --json`: numbers without the words of judges."""
    comparison = found.comparison
    return {
        "benchmark": comparison.benchmark,
        "title": comparison.title,
        "tier": comparison.tier,
        "status": str(comparison.status),
        "started": comparison.started,
        "n_instances": comparison.n_instances,
        "runs": dict(comparison.runs),
        "verdict": list(verdict(found)),
        "models": [fields_json(_MODELS, one) for one in found.models],
        "pairs": [fields_json(_PAIRS, one) for one in found.pairs],
        "judges": [fields_json(_judge_fields(comparison), one) for one in found.judges],
        "warnings": list(remarks(found)),
    }


def to_text(found: PairwiseNumbers, format: str = "table") -> str:
    """Return the tables of a comparison; CSV has one row for each number."""
    if format == "csv":
        headers = ["benchmark", "statistic", "name", "with", "value", "low", "high", "n"]
        return render(list(_numbers(found)), headers, format=format)
    comparison = found.comparison
    caption = f"{comparison.title}: completions compared by judges, {data_text(comparison.tier)}"
    parts = [
        fields_table(_MODELS, found.models, format=format, caption=caption),
        fields_table(_PAIRS, found.pairs, format=format, caption="Pairs of models", keep=2),
        fields_table(_judge_fields(comparison), found.judges, format=format, caption="Judges"),
    ]
    return "\n".join(parts)


def _numbers(found: PairwiseNumbers) -> Iterator[list[Value]]:
    """Yield the rows of CSV."""
    name = found.comparison.benchmark
    for model in found.models:
        yield [name, "preferred", model.model, "", model.value, model.low, model.high, model.n]
        yield [name, "strength", model.model, "", *estimate_numbers(model.strength), model.n]
    for pair in found.pairs:
        yield [name, "preferred", pair.first, pair.second, *estimate_numbers(pair.share), pair.share.n]
    for judge in found.judges:
        for statistic, share in (("consistent", judge.consistent), ("first", judge.top), ("longer", judge.longer)):
            yield [name, statistic, judge.judge, "", *estimate_numbers(share), judge.n]


def section(stores: Sequence[Path], options: BoardOptions) -> ResultSection | None:
    """Return the section of reports, cards and the site: the latest comparison on each benchmark; None without any."""
    from medhelm.results.formats.sections import ResultSection, SectionTable

    latest: dict[str, PairwiseComparison] = {}
    for store in stores:
        for one in read_comparisons(open_store(store)):
            if options.tier in (None, one.tier) and one.benchmark in (options.wanted.benchmarks or (one.benchmark,)):
                latest[one.benchmark] = max(one, latest.get(one.benchmark, one), key=lambda each: each.started)
    if not latest:
        return None
    names = short_names({name for one in latest.values() for name in (*one.runs, *(j.judge for j in one.judges))})
    found = [renamed(summarize(one), names) for one in latest.values()]
    tables = [
        SectionTable(caption=f"{one.comparison.title}: {caption}", headers=headers, rows=rows)
        for one in found
        for caption, (rows, headers, _) in (
            ("preferred models", table_of(_MODELS, one.models)),
            ("pairs of models", table_of(_PAIRS, one.pairs)),
            ("judges", table_of(_judge_fields(one.comparison), one.judges)),
        )
    ]
    texts = [f"{one.comparison.title}: {text}" for one in found for text in (*verdict(one), *remarks(one))]
    title = "Completions compared by judges"
    return ResultSection(key="pairwise", title=title, sentences=[*texts, *NOTES], tables=tables)
