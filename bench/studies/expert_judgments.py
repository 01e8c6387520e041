"""Agreement of trivial scorers with experts on public data: the baseline for a jury.

    python -m bench.studies.expert_judgments [--data DIR] [--write-docs]

Run in the project's folder. Prints tables; --write-docs puts them into docs/explanation/agreement.md. Graded answers: a
constant, chance, length, words shared with the question, and ROUGE with reference answers that the graded answer is
none of. Claims: three physicians among themselves, and ROUGE against their majority. Notes: three annotators among
themselves, and how often scorers prefer the note that they prefer. Intervals are by bootstrap over questions.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from bench.studies.expert_data import LABELS, Claim, Graded, Notes, claims, graded_sets, note_preferences
from medhelm.analysis.agreement.coefficients import Level, average_ranks, krippendorff_alpha, spearman, weighted_kappa
from medhelm.analysis.agreement.jury_vs_clinicians import standardized_icc
from medhelm.analysis.means import Floats, bootstrap_statistic, wilson_interval
from medhelm.results.formats.tables import Value, render, with_interval
from medhelm.scoring.metrics.rouge import Rouge, rouge, words

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "explanation" / "agreement.md"
BEGIN, END = "<!-- experts: begin -->\n", "<!-- experts: end -->\n"
SEED, DRAWS = 7, 500

Statistic = Callable[[Floats], float | None]
"""Of rows of two columns, a scorer's scores and the experts' grades."""


# --- scorers ----------------------------------------------------------------------------------------------------------


def shared_words(sought: str, text: str) -> float:
    """Share of the different words of `sought` that occur in `text`, compared by stem; 0 if `sought` has none."""
    wanted = set(words(sought))
    return len(wanted & set(words(text))) / len(wanted) if wanted else 0.0


def best_rouge(answer: Graded, kind: Callable[[Rouge], float]) -> float:
    """Return the best ROUGE over the references."""
    return max(kind(rouge(reference, answer.text)) for reference in answer.references)


def scorers(answers: Sequence[Graded]) -> dict[str, Floats]:
    """Return scorer -> scores of the answers."""
    rng = np.random.default_rng(SEED)
    of_each: dict[str, Callable[[Graded], float]] = {
        "length in words": lambda answer: len(answer.text.split()),
        "words of the question": lambda answer: shared_words(answer.asked, answer.text),
        "ROUGE-1": partial(best_rouge, kind=lambda found: found.rouge_1),
        "ROUGE-2": partial(best_rouge, kind=lambda found: found.rouge_2),
        "ROUGE-L": partial(best_rouge, kind=lambda found: found.rouge_l),
    }
    return {
        "constant": np.ones(len(answers)),
        "random": rng.random(len(answers)),
        **{name: np.array([score(answer) for answer in answers], dtype=float) for name, score in of_each.items()},
    }


# --- agreement with grades --------------------------------------------------------------------------------------------


def rank_correlation(both: Floats) -> float | None:
    """Spearman."""
    return spearman(*both.T).value


def consistency(both: Floats) -> float | None:
    """ICC(3,k) of standardized scores and grades."""
    return standardized_icc(both).value


def kappa_by_rank(both: Floats) -> float | None:
    """Quadratic weighted kappa after the scores were turned into grades as frequent as the experts' own.

    The answers that score best get the experts' best grade, as many as the experts gave it to, and so on down: the most
    that is possible for scores without a scale. A constant gets the middle of the experts' grades.
    """
    scores, grades = both[:, 0], np.floor(both[:, 1] + 0.5)
    place = np.ceil(average_ranks(scores)).astype(int) - 1
    return weighted_kappa(np.sort(grades)[place], grades).value


def measured(statistic: Statistic, both: Floats, clusters: Sequence[str], places: int = 2) -> str | None:
    """A statistic with its interval, in words; None where it is undefined."""

    def of_each(counts: Floats) -> Floats:
        values = [statistic(np.repeat(both, row.astype(int), axis=0)) for row in counts]
        return np.array([np.nan if value is None else value for value in values])

    found = bootstrap_statistic(len(both), of_each, np.random.default_rng(SEED), DRAWS, clusters=clusters)
    return with_interval(found.value, found.low, found.high, places)


MEASURES: Mapping[str, Statistic] = {
    "Spearman": rank_correlation,
    "ICC(3,k)": consistency,
    "quadratic kappa": kappa_by_rank,
}
"""Title -> what is measured."""


def graded_tables(sets: Mapping[str, Sequence[Graded]]) -> Iterator[str]:
    """One table per measure: one row per scorer, one column per data set."""
    names = [f"{name} ({len(answers)} of {len({a.question for a in answers})})" for name, answers in sets.items()]
    scores = {name: scorers(answers) for name, answers in sets.items()}
    for title, statistic in MEASURES.items():
        rows: dict[str, list[Value]] = {}
        for name, answers in sets.items():
            grades, questions = np.array([a.grade for a in answers]), [a.question for a in answers]
            for scorer, own in scores[name].items():
                cell = measured(statistic, np.stack([own, grades], axis=1), questions)
                rows.setdefault(scorer, [scorer]).append(cell)
        table = render(list(rows.values()), ["Scorer", *names], format="md")
        yield f"{title} with the experts' grades, by data set (answers of questions)\n\n{table}"


# --- claims -----------------------------------------------------------------------------------------------------------


def claims_table(found: Sequence[Claim]) -> str:
    """Physicians among themselves; then scorers of whether the answer holds the claim, against their majority."""
    labels = np.array([claim.labels for claim in found], dtype=float)
    questions = [claim.question for claim in found]
    alphas: dict[str, Level] = {"alpha, different labels": "nominal", "alpha, labels in order": "ordinal"}
    rows: list[list[Value]] = [
        ["physicians", title, measured(partial(_alpha, level=level), labels, questions)]
        for title, level in alphas.items()
    ]
    for first, second in combinations(range(3), 2):
        pair = labels[:, [first, second]]
        rows.append([f"physicians {first + 1} and {second + 1}", "Cohen's kappa", measured(_cohen, pair, questions)])
    scores: dict[str, Callable[[Claim], float]] = {
        "words of the claim": lambda claim: shared_words(claim.claim, claim.answer),
        "ROUGE-1": lambda claim: rouge(claim.claim, claim.answer).rouge_1,
        "ROUGE-2": lambda claim: rouge(claim.claim, claim.answer).rouge_2,
        "ROUGE-L": lambda claim: rouge(claim.claim, claim.answer).rouge_l,
    }
    majority = np.array([claim.majority == LABELS.index("Entailment") for claim in found], dtype=float)
    for name, score in scores.items():
        both = np.stack([np.array([score(claim) for claim in found]), majority], axis=1)
        rows += [
            [name, "Spearman", measured(rank_correlation, both, questions)],
            [name, "ICC(3,k)", measured(consistency, both, questions)],
        ]
    return render(rows, ["Who", "Measure", f"{len(found)} claims, {len(set(questions))} questions"], format="md")


def _alpha(labels: Floats, level: Level) -> float | None:
    return krippendorff_alpha(labels, level).value


def _cohen(labels: Floats) -> float | None:
    return weighted_kappa(*labels.T, weights="none").value


# --- notes ------------------------------------------------------------------------------------------------------------


def notes_table(found: Sequence[Notes]) -> str:
    """Annotators among themselves; then how often a scorer prefers a note that they prefer."""
    codes = {chosen: float(place) for place, chosen in enumerate(dict.fromkeys(c for n in found for c in n.preferred))}
    labels = np.array([[codes[chosen] for chosen in notes.preferred] for notes in found])
    alone = [""] * len(found)
    rows: list[list[Value]] = [
        ["annotators", "alpha, different answers", measured(partial(_alpha, level="nominal"), labels, alone), None]
    ]
    for first, second in combinations(range(3), 2):
        kappa = measured(_cohen, labels[:, [first, second]], alone)
        rows.append([f"annotators {first + 1} and {second + 1}", "Cohen's kappa", kappa, None])
    of_three: dict[str, Callable[[Notes, str], float]] = {
        "longest note": lambda notes, name: len(notes.notes[name].split()),
        "ROUGE-L with the conversation": lambda notes, name: rouge(notes.conversation, notes.notes[name]).rouge_l,
    }
    systems = ("GT", "FT", "ICL")
    for name, score in of_three.items():
        rows.append([name, "a preferred one of three", *hits(found, systems, score)])
    of_two: dict[str, Callable[[Notes, str], float]] = {
        "ROUGE-L with the human note": lambda notes, name: rouge(notes.notes["GT"], notes.notes[name]).rouge_l,
        "always the note of GPT-4": lambda _, name: float(name == "ICL"),
    }
    for name, score in of_two.items():
        rows.append([name, "the preferred one of two models'", *hits(found, systems[1:], score)])
    return render(rows, ["Who", "Measure", f"{len(found)} conversations", "by chance"], format="md")


def hits(found: Sequence[Notes], systems: Sequence[str], score: Callable[[Notes, str], float]) -> tuple[str, str]:
    """How often the note that scores best is a preferred one, per annotator and conversation; and how often by chance.

    Answers that tell nothing between these notes, because all or none of them are preferred, do not count. Whole
    conversations are drawn for the interval.
    """
    hits: list[tuple[float, float]] = []
    places: list[str] = []
    for place, notes in enumerate(found):
        best = max(systems, key=lambda system: score(notes, system))
        for chosen in notes.preferred:
            among = chosen & set(systems)
            if 0 < len(among) < len(systems):
                hits.append((float(best in among), len(among) / len(systems)))
                places.append(str(place))
    table = np.array(hits)

    def mean(counts: Floats) -> Floats:
        drawn: Floats = counts @ table[:, 0] / counts.sum(axis=1)
        return drawn

    shown = bootstrap_statistic(len(table), mean, np.random.default_rng(SEED), DRAWS, clusters=places)
    low, high = shown.low, shown.high
    if table[:, 0].min() == table[:, 0].max():
        n = len(set(places))
        low, high = wilson_interval(table[0, 0] * n, n)
    share = with_interval(shown.value, low, high, 2)
    return f"{share} ({int(table[:, 0].sum())} of {len(table)})", f"{table[:, 1].mean():.2f}"


# --- the page ---------------------------------------------------------------------------------------------------------


def tables(data: Path) -> Iterator[str]:
    """Every table, each with a line that says what it is."""
    yield from graded_tables(graded_sets(data))
    yield "K-QA: does an answer entail, contradict or leave open a claim?\n\n" + claims_table(claims(data))
    yield "ACI-Bench: which of three notes is preferred?\n\n" + notes_table(note_preferences(data))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Agreement of trivial scorers with experts on public data.")
    data = Path(os.environ.get("MEDHELM_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with one folder of data per benchmark")
    parser.add_argument("--write-docs", action="store_true", help=f"put the tables into {PAGE.relative_to(ROOT)}")
    chosen = parser.parse_args(arguments)
    if not (chosen.data / "jury_validation").is_dir():
        parser.error(f"there is no folder jury_validation in {chosen.data}")
    text = "\n".join(tables(chosen.data))
    print(text)
    if chosen.write_docs:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
