"""Ratings by clinicians that a result uses: those frozen in its store, those of one of its studies, or a file.

On a benchmark, one instrument counts: the benchmark's rubric before others, then the one used last. Of a model there,
the latest study with that instrument counts. Ratings of a completion that was generated anew since are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from medhelm.domain import Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import Remark
from medhelm.domain.study import StudyCard
from medhelm.domain.text import AnyPath, listed, plural
from medhelm.errors import UserError, suggestion
from medhelm.results.options import NO_RATINGS
from medhelm.results.ratings import RatedBenchmark, Rating, Ratings, missing_grades, read_ratings
from medhelm.storage.judgments import read_judgments
from medhelm.storage.ratings import (
    StoredRating,
    StoredRatings,
    completion_digest,
    damaged_ratings,
    ratings_names,
    stored_ratings,
)
from medhelm.storage.runs import read_columns
from medhelm.storage.store import Store

NAMED = 3
"""Most models named in a remark."""

CountedRuns = Mapping[tuple[str, str], Run]
"""Benchmark and model -> the run that counts."""


def is_ratings_file(ratings: AnyPath) -> bool:
    """Return True for a file; False for the name of a study, for `none` and for "", the ratings of the store."""
    return str(ratings) not in ("", NO_RATINGS) and Path(ratings).is_file()


def chosen_ratings(
    ratings: AnyPath,
    store: Store | None,
    runs: CountedRuns,
    known: Callable[[], Mapping[str, RatedBenchmark]],
    *,
    scale: tuple[float, float] | None = None,
    studies: Collection[str] | None = None,
) -> Ratings | None:
    """Return the ratings that a user chose; None for none.

    Parameters: ratings, a file, the name of a study in the store, `none`, or "" for all studies of the store; store,
    None without one; runs, those that count; known, returns the benchmarks that a file can be about; scale, as of
    `read_ratings`; studies, the only ones of the store that count, None for all.
    Raises: ConfigError with all problems of a file; UserError for an unknown study.
    """
    name = str(ratings)
    if name == NO_RATINGS:
        return None
    names = ratings_names(store) if store else []
    is_file = is_ratings_file(ratings)
    if store and not is_file and (name in names or (names and not name)):
        return ratings_of_store(store, runs, [name] if name else studies)
    if not name:
        return None
    if names and not is_file and not Path(ratings).suffix:
        text = f"`{name}` is neither a file nor a study whose ratings the store holds."
        raise UserError(f"{text} {suggestion(name, names)}".rstrip())
    return read_ratings(Path(ratings), known(), lambda *key: _ids_of(runs[key]), scale=scale)


def _ids_of(run: Run) -> list[str]:
    ids: list[str] = read_columns(run, ["instance_id"])["instance_id"]
    return ids


def ratings_of_store(store: Store, runs: CountedRuns, names: Collection[str] | None = None) -> Ratings | None:
    """Return the ratings of the studies of a store with these names, None for all; None without any."""
    studies = [one for one in stored_ratings(store) if names is None or one.card.name in names]
    damaged = [Remark("damaged_ratings", "", text) for text in damaged_ratings(store)]
    if not (studies or damaged):
        return None
    chosen = dict[tuple[str, str], StoredRatings]()
    benchmarks: dict[str, RatedBenchmark] = {}
    remarks: list[Remark] = [*damaged]
    for benchmark in dict.fromkeys(row.benchmark for study in studies for row in study.rows):
        own = sorted((one for one in studies if benchmark in one.card.benchmarks), key=_precedence)
        last = own[-1].card
        used = [one for one in own if one.card.instrument.criteria == last.instrument.criteria]
        judged = [run for (of, _), run in runs.items() if of == benchmark and run.jury_result]
        benchmarks[benchmark] = _rated_benchmark(benchmark, last, judged[:1])
        if others := [one.card.name for one in own if one not in used]:
            text = (
                f"{benchmark}: the ratings of {listed(others)} are not used, because {last.instrument.title} of "
                f"{last.name} counts here. --ratings NAME chooses one study."
            )
            remarks.append(Remark("other_instrument", benchmark, text))
        chosen |= {(benchmark, row.model): one for one in used for row in one.rows if row.benchmark == benchmark}
    remarks += _replaced(studies, chosen, benchmarks)
    rows, left_out = _current_rows(chosen, runs)
    present = {row.benchmark for row in rows}
    cards = [one.card for one in studies if any(one is own for own in chosen.values())]
    return Ratings(
        place=f"ratings of {listed([card.name for card in cards])}" if cards else "ratings of the store",
        rows=tuple(rows),
        benchmarks={name: known for name, known in benchmarks.items() if name in present},
        has_jury=False,
        remarks=(*remarks, *left_out, *missing_grades(rows), *constant_raters(rows, benchmarks)),
        studies=tuple(cards),
    )


def _precedence(study: StoredRatings) -> tuple[bool, str, str]:
    """Return the key that sorts studies of one benchmark; the last one counts."""
    return study.card.instrument.is_rubric, study.card.closed, study.card.name


def _rated_benchmark(name: str, card: StudyCard, judged: Sequence[Run]) -> RatedBenchmark:
    """Return a benchmark as a study rated it. `judged`: a judged run, which has the rubric; empty without one."""
    criteria = card.instrument.criteria
    scales = {criterion: (one.low, one.high) for criterion, one in criteria.items()}
    is_mixed = len(set(scales.values())) > 1
    low, high = (0.0, 1.0) if is_mixed else next(iter(scales.values()))
    is_rubric = card.instrument.is_rubric
    for run in judged:
        result = run.jury_result
        assert result is not None, "only judged runs are looked at"
        same_scale = (result.low, result.high) == (low, high) and result.form != "points"
        is_rubric = is_rubric and same_scale and set(read_judgments(run).criteria) <= criteria.keys()
    return RatedBenchmark(
        name=name,
        criteria=tuple(criteria),
        lower_is_better=frozenset(criterion for criterion, one in criteria.items() if not one.higher_is_better),
        low=low,
        high=high,
        is_rubric=is_rubric,
        scales=scales if is_mixed else {},
    )


def _replaced(
    studies: Sequence[StoredRatings],
    chosen: Mapping[tuple[str, str], StoredRatings],
    benchmarks: Mapping[str, RatedBenchmark],
) -> Iterator[Remark]:
    """Yield a remark on each study that a later one with the same instrument replaces."""
    for study in studies:
        keys = dict.fromkeys((row.benchmark, row.model) for row in study.rows)
        later = [
            (key, chosen[key].card.name)
            for key in keys
            if key in chosen
            and chosen[key] is not study
            and tuple(study.card.instrument.criteria) == benchmarks[key[0]].criteria
        ]
        if later:
            models = listed([f"{model} on {benchmark}" for (benchmark, model), _ in later], NAMED)
            text = f"{study.card.name}: {listed(sorted({name for _, name in later}))} replaces its ratings of {models}."
            yield Remark("replaced_ratings", "", text)


def _current_rows(
    chosen: Mapping[tuple[str, str], StoredRatings], runs: CountedRuns
) -> tuple[list[Rating], list[Remark]]:
    """Return the ratings of completions that the runs still hold, and remarks on the others."""
    rows: list[Rating] = []
    remarks: list[Remark] = []
    several = Counter(benchmark for benchmark, _ in {(key[0], id(study)) for key, study in chosen.items()})
    for (benchmark, model), study in chosen.items():
        own = [row for row in study.rows if (row.benchmark, row.model) == (benchmark, model)]
        if (run := runs.get((benchmark, model))) is None:
            text = f"{plural(len(own), 'rating')} of {model} on {benchmark} are not used: no run of it counts here."
            remarks.append(Remark("rated_without_run", model, text))
            continue
        digests = _completion_digests(run, {row.instance_id for row in own})
        kept = [row for row in own if digests.get(row.instance_id) == row.completion_sha256]
        prefix = f"{study.card.name} " if several[benchmark] > 1 else ""
        rows += [_as_rating(row, prefix) for row in kept]
        remarks += _left_out(own, kept, digests)
    return rows, remarks


def _completion_digests(run: Run, ids: set[str]) -> dict[str, str]:
    """Return instance -> digest of its completion, for those of these instances that a run has."""
    columns = read_columns(run, ["instance_id", "completion"])
    pairs = zip(columns["instance_id"], columns["completion"], strict=True)
    return {name: completion_digest(text or "") for name, text in pairs if name in ids}


def _left_out(
    own: Sequence[StoredRating], kept: Sequence[StoredRating], digests: Mapping[str, str]
) -> Iterator[Remark]:
    """Yield remarks on ratings of completions that a run does not hold any more."""
    gone = [row for row in own if row.instance_id not in digests]
    about = f"of {own[0].model} on {own[0].benchmark}"
    if gone:
        text = f"{plural(len(gone), 'rating')} {about} are not used: the run lacks the instance."
        yield Remark("rated_instance_missing", own[0].model, text)
    if n_changed := len(own) - len(kept) - len(gone):
        text = f"{plural(n_changed, 'rating')} {about} are not used: the completion is not the one that was rated."
        yield Remark("rated_completion_changed", own[0].model, text)


def _as_rating(row: StoredRating, prefix: str) -> Rating:
    """Return a stored rating. `prefix`: of the name of its rater, whose pseudonym another study may use, too."""
    return Rating(
        rater=prefix + row.rater,
        benchmark=row.benchmark,
        model=row.model,
        instance_id=row.instance_id,
        grades=row.grades,
        jury={},
        line=0,
        probability=row.probability,
    )


LEAST_GRADES = 5
"""Minimum ratings of a rater who gave all of them the same grades, to be named."""


def constant_raters(rows: Iterable[Rating], benchmarks: Mapping[str, RatedBenchmark]) -> Iterator[Remark]:
    """Yield a remark on each rater who gave every completion of a benchmark the same grades."""
    for (benchmark, rater), own in group_by(rows, lambda row: (row.benchmark, row.rater)).items():
        grades = {tuple(benchmarks[benchmark].oriented(row.grades)) for row in own}
        if len(own) >= LEAST_GRADES and len(grades) == 1:
            text = (
                f"{benchmark}: {rater} gave all {len(own)} completions the same grades, which say nothing about "
                "differences between them. They count."
            )
            yield Remark("constant_rater", rater, text)
