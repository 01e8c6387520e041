"""Stores of random cases, and a plain implementation of every condition of a search over them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Estimate,
    Failure,
    Instance,
    Judgment,
    JuryVerdict,
    Message,
    Prompt,
    Record,
    Reference,
    Score,
)
from medhelm.domain.completion import CAUSED_BY_MODEL
from medhelm.extensions.web.cases.search import OF_TWO, CaseSearch
from medhelm.scoring.metric import apply, is_unreadable
from medhelm.scoring.metrics import METRICS
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import Store
from tests.support.stores import jury_of, make_record, make_run, write_run

MODELS = ("lab/a", "lab/b", "lab/c", "lab/d", "lab/e", "lab/f", "lab/g", "baseline/majority")
TEXTS = (
    "A",
    "b.",
    "The answer is C.",
    "",
    "<think>A?</think>",
    "<think>B or C</think>C",
    "no idea",
    "A",
    "B",
    "B",
    "C",
)
FAILURES = ("refusal", "length", "timeout")
CRITERIA = ("accuracy", "safety")


@dataclass(frozen=True)
class Stored:
    """The records of one benchmark as they were written."""

    records: dict[str, list[Record]]
    """Model -> its records, in order."""
    keys: list[str]
    """Label of the correct option of each instance; empty for judged benchmarks."""
    prompts: list[str]
    """Text of each prompt."""

    @property
    def contestants(self) -> list[str]:
        """Models by mean score, without the baseline."""
        means = {model: self._mean(model) for model in self.records if not model.startswith("baseline/")}
        return sorted(means, key=lambda model: (-means[model], model))

    def _mean(self, model: str) -> float:
        return fmean([one for one in (share(record) for record in self.records[model]) if one is not None] or [-1.0])


def write_choices(
    folder: Path, seed: int, n: int = 14, models: Sequence[str] = MODELS, draws: int = 1, **changes: Any
) -> Stored:
    """Write the benchmark `toy` with options A to C: answers of all forms, failures, cut prompts and completions.

    Parameters: draws, another number draws other completions of the same questions; changes, fields of every run.
    """
    draw = random.Random(seed)
    metric = METRICS["exact_match"]
    instances = [_instance(n, draw.randrange(3)) for n in range(n)]
    prompts = [f"Question {place}: {draw.choice(('Heparin', 'aspirin', 'none'))} given?" for place in range(n)]
    draw = random.Random(1_000 * draws + seed)
    records: dict[str, list[Record]] = {}
    for model in models:
        records[model] = []
        for place, instance in enumerate(instances):
            completion = Completion(text=draw.choice(TEXTS), finish_reason=draw.choice(("stop", "stop", "length")))
            if draw.random() < 0.15:
                completion = Completion(text=None, failure=Failure("provider", draw.choice(FAILURES), "failed"))
            scores = apply([metric], instance, completion)
            record = make_record(
                place,
                instance_id=instance.id,
                group=("ward", "icu")[place % 2],
                completion=completion,
                truncated_characters=draw.choice((0, 0, 0, 7)),
                injection_signs=draw.choice(((), (), ("verdict",))),
                is_unreadable=is_unreadable(metric, instance, completion, scores),
                scores=scores,
            )
            records[model].append(record)
        known = [one.scores[0].value for one in records[model] if one.scores[0].value is not None]
        means = {"exact_match": Estimate(value=fmean(known), low=0.0, high=1.0, n=len(known), n_failed=n - len(known))}
        run = make_run("toy", model, n=n, estimates=dict.fromkeys(RULES, means), **changes)
        stored = write_run(folder, run, records[model])
    listed = "\nA. first\nB. second\nC. third\nAnswer:"
    rows = (
        (instance, Prompt((Message("user", text + listed),))) for instance, text in zip(instances, prompts, strict=True)
    )
    write_prompts(Store(folder).prompts_file("toy", stored.benchmark_digest, stored.data_digest), rows)
    return Stored(records, [instance.expected for instance in instances], prompts)


def _instance(place: int, right: int) -> Instance:
    texts = ("first", "second", "third")
    references = tuple(Reference(text, correct=at == right) for at, text in enumerate(texts))
    return Instance(id=f"i{place:02d}", fields={}, references=references, choices=texts, labels=("A", "B", "C"))


def write_grades(folder: Path, seed: int, n: int = 10, models: Sequence[str] = MODELS) -> Stored:
    """Write the benchmark `notes`: two judges grade two criteria from 1 to 5; low is good for the second one."""
    draw = random.Random(seed)
    records: dict[str, list[Record]] = {}
    result = replace(jury_of("lab/judge-a", "lab/judge-b"), lower_is_better=CRITERIA[1:])
    for model in models:
        records[model] = [_graded(draw, place) for place in range(n)]
        run = make_run("notes", model, n=n, main_metric=JURY, jury_result=result)
        write_run(folder, run, records[model], [JURY])
    return Stored(records, [], [""] * n)


def _graded(draw: random.Random, place: int) -> Record:
    judgments = tuple(
        Judgment(judge=judge, criterion=criterion, score=draw.choice((1.0, 2.0, 3.0, 4.0, 5.0, None)),
                 failure=None, explanation="")
        for judge in ("lab/judge-a", "lab/judge-b")
        for criterion in CRITERIA
    )  # fmt: skip
    value = draw.choice((1.0, 2.25, 3.0, 4.5, None))
    failure = Failure("judge", "too_few_judges", "too few") if value is None else None
    return make_record(
        place,
        instance_id=f"i{place:02d}",
        completion=Completion(text="A note."),
        scores=tuple(Score(metric=JURY, rule=rule, value=value, failure=failure) for rule in RULES),
        jury_verdict=JuryVerdict(scores=(), judgments=judgments),
    )


# --- conditions, one by one -------------------------------------------------------------------------------------------


def share(record: Record) -> float | None:
    """Return the score from 0 to 1; a failure that the model caused is 0."""
    score = record.scores[0]
    failure = record.completion.failure
    if failure and failure.code in CAUSED_BY_MODEL:
        return 0.0
    if score.value is None:
        return None
    return (score.value - 1) / 4 if score.metric == JURY else score.value


def answer(record: Record) -> str | None:
    """Return the option that a completion of `TEXTS` names."""
    if record.completion.failure:
        return None
    said = {"A": "A", "b.": "B", "The answer is C.": "C", "<think>B or C</think>C": "C", "B": "B", "C": "C"}
    return said.get(record.completion.text or "", "")


def is_low(judgment: Judgment) -> bool:
    """Return True for a bad grade: at most 2, or at least 4 where low is good."""
    grade = judgment.score
    return grade is not None and (grade >= 4 if judgment.criterion == CRITERIA[1] else grade <= 2)


def judge_spread(record: Record) -> float:
    """Return the largest difference between grades of one criterion; -1 without two of them."""
    found = [-1.0]
    for criterion in CRITERIA:
        judgments = record.jury_verdict.judgments if record.jury_verdict else ()
        grades = [one.score for one in judgments if one.criterion == criterion and one.score is not None]
        found.append((max(grades) - min(grades)) / 4 if grades else -1.0)
    return max(found)


def expected(stored: Stored, search: CaseSearch) -> list[str]:
    """Return the ids that a search must find, in order, by looking at one instance after the other."""
    contestants = stored.contestants or list(stored.records)
    counted = list(stored.records) if search.with_baselines else list(dict.fromkeys([*contestants, *search.models]))
    strong = contestants[: (len(contestants) + 1) // 2] if len(contestants) >= 6 else contestants
    found = []
    for place in range(len(stored.prompts)):
        own = {model: stored.records[model][place] for model in counted}
        if _instance_meets(stored, search, place, own, strong) and any(
            _record_meets(search, model, record, stored.prompts[place]) for model, record in own.items()
        ):
            found.append((place, own))
    return [f"i{place:02d}" for place, _ in sorted(found, key=lambda pair: _order(search, *pair))]


def _record_meets(search: CaseSearch, model: str, record: Record, prompt: str) -> bool:
    completion, score = record.completion, record.scores[0].value
    text = completion.text or ""
    code = completion.failure.code if completion.failure else ""
    judgments = record.jury_verdict.judgments if record.jury_verdict else ()
    low = [one.criterion for one in judgments if is_low(one)]
    shown = {
        "wrong": share(record) is not None and share(record) < 0.5,  # type: ignore[operator]
        "only_wrong": share(record) is not None and share(record) < 0.5,  # type: ignore[operator]
        "right": share(record) is not None and share(record) >= 0.5,  # type: ignore[operator]
        "failed": bool(code),
        "refused": code == "refusal",
        "unscored": score is None,
        "blank": not code and text in ("", "<think>A?</think>"),
        "unreadable": text == "no idea",
        "cut": record.truncated_characters > 0 or completion.finish_reason == "length" or code == "length",
        "truncated": record.truncated_characters > 0 or completion.finish_reason == "length" or code == "length",
        "injection": bool(record.injection_signs),
        "criterion": bool(low),
    }
    sought = search.text.lower()
    places = {"prompt": [prompt], "completion": [text], "all": [prompt, text, record.instance_id]}[search.within]
    return (
        shown.get(search.show, True)
        and search.model in ("", model)
        and search.failure in ("", code)
        and (search.low is None or (score is not None and score >= search.low))
        and (search.high is None or (score is not None and score <= search.high))
        and (not search.criterion or search.criterion in low)
        and (not search.answer or answer(record) == search.answer)
        and (not sought or any(sought in one.lower() for one in places))
    )


def _instance_meets(
    stored: Stored, search: CaseSearch, place: int, own: dict[str, Record], strong: Sequence[str]
) -> bool:
    shares = {model: share(record) for model, record in own.items()}
    right = [model for model, value in shares.items() if value is not None and value >= 0.5]
    wrong = [model for model, value in shares.items() if value is not None and value < 0.5]
    scored = len(right) + len(wrong)
    group = next(iter(own.values())).group
    if search.group not in ("", group):
        return False
    if search.key and stored.keys[place] != search.key:
        return False
    if search.better:
        best, worst = shares[search.better], shares[search.than]
        if best is None or worst is None or best <= worst:
            return False
    if search.show in OF_TWO:
        pair = (search.got, search.missed)
        outcomes = [True if model in right else False if model in wrong else None for model in pair]
        said = [answer(own[model]) if stored.keys else None for model in pair]
        has_flipped = None not in outcomes and outcomes[0] != outcomes[1]
        is_other = None not in said and said[0] != said[1]
        if search.show == "other_answer":
            return is_other and None not in outcomes and not has_flipped
        return has_flipped or is_other
    if (search.got and search.got not in right) or (search.missed and search.missed not in wrong):
        return False
    judged = [search.model] if search.model else list(own)
    shown = {
        "different": bool(right and wrong),
        "all_wrong": any(model in wrong for model in strong) and not any(model in right for model in strong),
        "only_wrong": len(wrong) == 1 and bool(right),
        "split": bool(right and wrong) and min(len(right), len(wrong)) * 3 >= scored,
        "judges": max(judge_spread(own[model]) for model in judged) >= 0.5,
    }
    return shown.get(search.show, True)


def _order(search: CaseSearch, place: int, own: dict[str, Record]) -> tuple[Any, ...]:
    shares = [value for value in map(share, own.values()) if value is not None]
    ranked = share(own[search.model]) if search.model else fmean(shares) if shares else None
    spread = max(shares) - min(shares) if shares else None
    judged = [own[search.model]] if search.model else list(own.values())
    differ: float | None = max(map(judge_spread, judged))
    values = {"worst": ranked, "best": ranked, "spread": spread, "judges": None if differ == -1 else differ}
    value = values.get(search.sort)
    if search.sort in ("position", "id") or value is None:
        return (search.sort not in ("position", "id"), 0.0, place)
    return False, round(value if search.sort == "worst" else -value, 9), place
