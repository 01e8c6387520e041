"""Measure ROUGE of many notes: ours and the library `rouge-score`, for the same texts, on one core.

    python bench/tools/rouge.py [--data DIR] [--pairs N] [--subset N]

Prints one JSON object. Needs medhelm and rouge-score in the environment; the group `dev` has both.

References are the real notes of ACI-Bench and MTSamples, about 1,900, in turns. Each completion is different: a note,
the reference itself or another one, without one word in ten. Without the data, the notes have synthetic words. The
time covers ROUGE-1, ROUGE-2 and ROUGE-L by both rules. The library computes the same three values for a part of the
pairs; they must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAIRS, SUBSET = 10_000, 40
NAMES = ("rouge_1", "rouge_2", "rouge_l")


def read_notes(data: Path) -> list[str]:
    """Read real notes from the data folder; without any, return synthetic ones of the same length."""
    notes = []
    for path in sorted(data.glob("aci_bench/*.json")):
        notes += [row["tgt"] for row in json.loads(path.read_text(encoding="utf-8"))["data"]]
    for path in sorted(data.glob("mtsamples_*/*/*.txt")):
        notes.append(path.read_text(encoding="utf-8", errors="replace"))
    return notes or invented_notes(2000)


def invented_notes(count: int) -> list[str]:
    """Return `count` texts of 200 to 900 words; few words of the vocabulary are frequent. The same texts every time."""
    rng = random.Random(7)
    syllables = ["ta", "mo", "ri", "sel", "ne", "ka", "vor", "du", "lin", "pe", "gas", "tro", "cal", "mi", "hep", "or"]
    endings = ["", "", "", "s", "ed", "ing", "ation", "ically", "ness"]
    vocabulary = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) + rng.choice(endings) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    return [" ".join(rng.choices(vocabulary, weights, k=rng.randint(200, 900))) for _ in range(count)]


def make_pairs(notes: Sequence[str], count: int) -> list[tuple[str, str]]:
    """Return `count` pairs of a reference and a different completion; the same ones every time."""
    rng = random.Random(7)
    pairs = []
    for position in range(count):
        reference = notes[position % len(notes)]
        answered = reference if position % 2 else rng.choice(notes)
        pairs.append((reference, " ".join(word for word in answered.split() if rng.random() < 0.9)))
    return pairs


def compare(pairs: Sequence[tuple[str, str]], subset: int) -> dict[str, float]:
    """Time both implementations and compare their values.

    `library_ms` and `ours_ms` are for one pair, and `ratio` is their ratio. `ours_s` is ours for all pairs.
    `largest_difference` is the largest one between two values of the same pair.
    """
    from rouge_score.rouge_scorer import RougeScorer

    from medhelm.domain import Completion, Instance, Reference
    from medhelm.scoring.metric import apply
    from medhelm.scoring.metrics import METRICS

    step = len(pairs) // subset
    some = pairs[::step][:subset]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    start = time.perf_counter()
    theirs = [scorer.score(reference, answer) for reference, answer in some]
    library_s = time.perf_counter() - start

    instances = [
        Instance(id=str(number), fields={}, references=(Reference(reference),))
        for number, (reference, _) in enumerate(pairs)
    ]
    completions = [Completion(text=answer) for _, answer in pairs]
    start = time.perf_counter()
    metrics = [METRICS[name] for name in NAMES]
    scores = [apply(metrics, instance, completion) for instance, completion in zip(instances, completions, strict=True)]
    ours_s = time.perf_counter() - start

    published = [[score.value or 0.0 for score in row if score.rule == "published"] for row in scores]
    differences = [
        abs(found[name].fmeasure - value)
        for found, ours in zip(theirs, published[::step][:subset], strict=True)
        for name, value in zip(("rouge1", "rouge2", "rougeL"), ours, strict=True)
    ]
    return {
        "pairs": len(pairs),
        "words_per_note": round(sum(len(reference.split()) for reference, _ in pairs) / len(pairs)),
        "ours_s": round(ours_s, 3),
        "ours_ms": round(ours_s / len(pairs) * 1000, 4),
        "library_ms": round(library_s / len(some) * 1000, 3),
        "ratio": round(library_s / len(some) / (ours_s / len(pairs)), 1),
        "largest_difference": max(differences),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Measure ROUGE and the library rouge-score.")
    data = Path(os.environ.get("MEDHELM_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with one folder of data per benchmark")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="how many notes to score")
    parser.add_argument("--subset", type=int, default=SUBSET, help="how many of them the library scores as well")
    chosen = parser.parse_args(words)
    if not 0 < chosen.subset <= chosen.pairs:
        parser.error("--subset must be at least 1 and at most --pairs")
    json.dump(compare(make_pairs(read_notes(chosen.data), chosen.pairs), chosen.subset), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
