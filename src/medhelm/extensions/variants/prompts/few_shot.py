"""Solved examples before each question: their origin, the check that they leak no answer, and the draw.

Examples never come from the instances that are evaluated. A candidate is left out if its question repeats one of them,
word for word or nearly, and it is never shown to an instance of its own cluster. The draw depends on the seed and the
ids alone, so that equal instances get equal examples in every run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b, sha256
from heapq import nsmallest
from itertools import count
from pathlib import Path
from zlib import crc32

from medhelm.benchmarks.data.dataset import Dataset, SourceTable
from medhelm.benchmarks.prompts import OPTIONS, fill, placeholders
from medhelm.domain import Benchmark, Instance, Message, Source
from medhelm.domain.text import plural
from medhelm.errors import UserError
from medhelm.extensions.variants.prompts.types import FewShot
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store

EXAMPLES = "examples"
"""Key of a run's settings: number and origin of its examples, in words."""

SELECTIONS = ("few_shot", "train", "validation", "dev")
"""Named selections that hold examples, in order of preference."""

MOST_CANDIDATES = 500
"""Candidates that are kept, drawn by the seed: more do not make a draw better."""

KINDS = {".jsonl": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".xlsx": "xlsx", ".parquet": "parquet"}
"""Suffix of a file with examples -> kind of the source."""

WORDS, MOST_WORDS, OVERLAP, COMMON = 8, 400, 0.5, 0.02
"""Two questions are nearly the same if they share half of their sequences of eight words. The first 400 words of a
question are compared, shortest field first. Sequences that 2% of the evaluated instances have, such as a schema, say
nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplePool:
    """Candidates for examples, and the draw from them."""

    benchmark: Benchmark
    """The benchmark as it asks."""
    few_shot: FewShot
    """Number of examples and kind of draw."""
    seed: int
    """Seed of the draw."""
    candidates: Sequence[Instance]
    """Instances that can be shown."""
    n: int
    """Number of instances that could be candidates."""
    origin: str
    """Origin of the candidates, in words."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of candidates that are not shown."""

    @property
    def digest(self) -> str:
        """Hash of all that decides which examples are shown."""
        texts = [[one.id, one.cluster, *map(str, self._turns(one))] for one in self.candidates]
        content = [self.few_shot.n, self.few_shot.stratify, self.seed, texts]
        return sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()

    def in_words(self) -> str:
        """Describe the pool in one phrase."""
        reasons = "".join(f"; {n:,} {'is' if n == 1 else 'are'} not used: {why}" for why, n in self.left_out.items())
        return f"{self.few_shot.n} of {self.n:,} {self.origin}{reasons}"

    def with_examples(self, instance: Instance) -> Instance:
        """Return an instance with its examples. Raises: UserError if there are too few for it."""
        allowed = [one for one in self.candidates if not one.cluster or one.cluster != instance.cluster]
        key = f"{self.seed}\0{instance.id}\0"
        allowed.sort(key=lambda one: blake2b((key + one.id).encode("utf-8", "surrogatepass"), digest_size=8).digest())
        if len(allowed) < self.few_shot.n:
            raise self.too_few(len(allowed), f" for instance {instance.id}, whose cluster is left out")
        if self.few_shot.stratify:
            allowed = _in_turn(allowed)
        chosen = allowed[: self.few_shot.n]
        return replace(instance, examples=tuple(turn for one in chosen for turn in self._turns(one)))

    def too_few(self, n: int, where: str = "") -> UserError:
        """Return the error for a pool that is too small."""
        reasons = "".join(f", {count:,} left out: {why}" for why, count in self.left_out.items())
        return UserError(
            f"{self.benchmark.name}: {plural(self.few_shot.n, 'example')} cannot be drawn from {n:,} {self.origin}"
            f"{reasons}{where}. Examples from the evaluated instances would show their answers. Evaluate fewer "
            "(--limit), or name rows of your own in a prompt file: `few_shot: {file: FILE}`. Nothing was sent."
        )

    def _turns(self, one: Instance) -> tuple[Message, Message]:
        """Return an example as the turn of a user and the ideal reply."""
        mark = self.benchmark.answer_after
        reply = f"{mark} {one.expected}" if mark else one.expected
        return Message("user", fill(self.benchmark.prompt, self.benchmark, one)), Message("assistant", reply)


def example_pool(few_shot: FewShot, dataset: Dataset, benchmark: Benchmark, seed: int) -> ExamplePool:
    """Find the candidates for examples, and leave out those that could show an answer.

    Parameters: dataset, the instances to evaluate; benchmark, theirs as it asks; seed, that of the command.
    Raises: UserError if there are too few; as `open_dataset` for a named selection or a file.
    """
    seed = seed if few_shot.seed is None else few_shot.seed
    found, origin, is_same_data = _candidates(few_shot, dataset)
    questions = _Questions(dataset, benchmark)
    left_out: Counter[str] = Counter()
    n_usable = count()

    def usable() -> Iterator[Instance]:
        for one in found:
            if is_same_data and one.id in questions.ids:
                left_out["they are evaluated"] += 1
            elif not one.expected.strip():
                left_out["no reference"] += 1
            elif questions.are_like(one):
                left_out["the question repeats or overlaps one that is evaluated"] += 1
            else:
                next(n_usable)
                yield one

    drawn = nsmallest(MOST_CANDIDATES, usable(), key=lambda one: sha256(f"{seed}\0{one.id}".encode()).digest())
    pool = ExamplePool(
        benchmark=benchmark,
        few_shot=few_shot,
        seed=seed,
        candidates=drawn,
        n=next(n_usable),
        origin=origin,
        left_out=dict(left_out),
    )
    if len(drawn) < few_shot.n:
        raise pool.too_few(len(drawn))
    return pool


def _candidates(few_shot: FewShot, dataset: Dataset) -> tuple[Iterable[Instance], str, bool]:
    """Return the instances to draw from, their origin in words, and whether their ids are those of the data set."""
    benchmark = dataset.benchmark
    if few_shot.file:
        return _rows_of(few_shot.file, benchmark), f"rows of {few_shot.file.name}", False
    name = few_shot.sample or next((name for name in SELECTIONS if name in benchmark.samples), "")
    if name and (selection := dataset.selection(name)) is not None:
        return selection, f"instances of the selection `{name}`", True
    return dataset.not_selected(), "instances that are not selected", True


def _rows_of(file: Path, benchmark: Benchmark) -> Iterator[Instance]:
    """Yield the rows of a file as instances of a benchmark. Raises: UserError for a format that cannot be read."""
    kind = KINDS.get(file.suffix.lower())
    if kind is None or benchmark.source.kind == "folder":
        known = ", ".join(KINDS)
        why = f"its suffix is none of {known}" if kind is None else f"{benchmark.name} is not read from one table"
        raise UserError(f"few_shot.file: {file} cannot be read: {why}. Nothing was sent.")
    source = Source(kind=kind, files={file.name: ""})
    if kind == benchmark.source.kind:
        source = replace(benchmark.source, files={file.name: ""}, scoring_files={}, expected_count=None)
    table = SourceTable(benchmark, source, file.parent)
    table.scan(expected_count=None)
    return table.read()


def _in_turn(instances: Iterable[Instance]) -> list[Instance]:
    """Return the first instance of each correct answer, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    numbered = []
    for one in instances:
        numbered.append((seen[one.expected], one))
        seen[one.expected] += 1
    return [one for _, one in sorted(numbered, key=lambda pair: pair[0])]


class _Questions:
    """The questions that are evaluated, for comparison with candidates."""

    def __init__(self, dataset: Dataset, benchmark: Benchmark) -> None:
        self.ids: set[str] = set()
        self._names = sorted(placeholders(benchmark.prompt) - {OPTIONS})
        self._texts: set[tuple[str, ...]] = set()
        counts: Counter[int] = Counter()
        for instance in dataset:
            self.ids.add(instance.id)
            words = self._words(instance)
            self._texts.add(words)
            counts.update(_sequences(words))
        most = max(2, COMMON * len(self.ids))
        self._common = {key for key, n in counts.items() if n > most}
        self._rare = counts.keys() - self._common

    def are_like(self, candidate: Instance) -> bool:
        """Return True if a candidate asks one of the questions, or nearly the same."""
        words = self._words(candidate)
        own = _sequences(words) - self._common
        return words in self._texts or (bool(own) and len(own & self._rare) >= OVERLAP * len(own))

    def _words(self, instance: Instance) -> tuple[str, ...]:
        """Return the first words of a question in lower case, shortest field first."""
        texts = sorted((instance.fields.get(name, "") for name in self._names), key=len)
        found = (match.group() for text in texts for match in re.finditer(r"\w+", text.casefold()))
        return tuple(word for word, _ in zip(found, range(MOST_WORDS), strict=False))


def _sequences(words: Sequence[str]) -> set[int]:
    """Return the hashes of all sequences of `WORDS` words."""
    return {crc32(" ".join(words[at : at + WORDS]).encode("utf-8", "replace")) for at in range(len(words) - WORDS + 1)}


def purge_examples(store: Store, benchmark: str, instance_ids: Collection[str] | None) -> int:  # noqa: ARG001
    """Delete the stored prompts that have examples, any of which may be a deleted instance; return the number of files.

    The runs stay, and a new run with `--prompt` stores its prompts again.
    """
    files = {
        store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
        for run in load_runs(store, benchmark, variants=True)
        if run.settings.get(EXAMPLES)
    }
    existing = [file for file in files if file.is_file()]
    for file in existing:
        file.unlink()
    return len(existing)
