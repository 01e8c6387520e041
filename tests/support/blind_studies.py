"""Studies whose texts are the same in every world, and everything else differs: what a rater sees must be the same."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, quote_plus

from medhelm.domain import (
    JURY,
    Completion,
    Criterion,
    Instance,
    Judgment,
    JuryVerdict,
    Message,
    Prompt,
    Reference,
    Usage,
)
from medhelm.extensions.study.instruments import HARM, read_instrument
from medhelm.extensions.study.journal import Event, EventKind, append_event, digest_of, read_study, record, write_study
from medhelm.extensions.study.texts import case_texts, completion_digest
from medhelm.extensions.study.types import (
    Assignment,
    CaseKind,
    CaseRating,
    InstrumentForm,
    Item,
    Rater,
    Study,
    StudyDesign,
)
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import Store
from tests.support.made_once import made_once
from tests.support.rated_studies import study_of
from tests.support.stores import jury_of, make_model, make_record, make_run, write_run

RATER, ADJUDICATED = "mara", 9
"""The rater whose pages are read, and the number of the case that two others differ on."""

N_INSTANCES = 4
STUDY = "ward"
INSTRUMENTS = ("quest", "omission_commission", "healthbench", "preference")
"""Instruments of each form."""

_LETTERS = "abcdefghijklmnopqrstuvwxyzÄÖüßéñżЖжλ医학🩺"


@dataclass(frozen=True)
class World:
    """Everything that a rater must not learn, drawn from a seed."""

    seed: int
    models: tuple[str, ...] = field(init=False)
    judge: str = field(init=False)
    others: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Draw names with spaces, slashes, quotes and letters of many scripts."""
        random = Random(self.seed)

        def word(n: int) -> str:
            return "".join(random.choices(_LETTERS, k=n))

        def name(n: int) -> str:
            return f'{word(6)} {word(7)}/{word(6)}-{word(5 + n)}+{n}"<b>&'

        names = sorted((name(n + self.seed % 7) for n in range(2)), reverse=bool(self.seed % 2))
        object.__setattr__(self, "models", tuple(names))
        object.__setattr__(self, "judge", f"{word(8)}/{word(9)}")
        object.__setattr__(self, "others", tuple(f"r_{random.getrandbits(48):012x}" for _ in range(2)))

    def number(self, name: str) -> int:
        """Return a number of nine digits that belongs to a name."""
        return 100_000_000 + int(hashlib.sha256(f"{self.seed} {name}".encode()).hexdigest(), 16) % 900_000_000


def text_of(place: int, slot: int) -> str:
    """Return the completion of an instance by the model in a slot: the same in every world."""
    return f"Rest for {place + 2} days.\nTake {slot + 1} tablets of aspirin, then see a doctor. 𠮷 Größe {place}."


def make_blind_study(folder: Path, instrument: str, world: World) -> tuple[Store, Study]:
    """Write a store and a study of one rater, two others who have rated, and a case in adjudication."""
    made_once(folder, f"blind-{instrument}-{world.seed}", lambda: _make_blind_study(folder, instrument, world))
    store = Store(folder)
    return store, read_study(store, STUDY)


def _make_blind_study(folder: Path, instrument: str, world: World) -> None:
    items = _write_runs(folder, world)
    store = Store(folder)
    chosen = read_instrument(instrument)
    by_place = [items[n : n + 2] for n in range(0, len(items), 2)]
    if chosen.form is InstrumentForm.PREFERENCE:
        cases = [tuple(one.id for one in pair) for pair in by_place] * 2
    else:
        cases = [(one.id,) for one in items]
    seen = [one in cases[:place] for place, one in enumerate(cases)]
    kinds = [CaseKind.CALIBRATION, *(CaseKind.REPEATED if again else CaseKind.SHARED for again in seen[1:])]
    own = tuple(Assignment(number=n, kind=kinds[n - 1], items=one) for n, one in enumerate(cases, start=1))
    lists = {RATER: own, **dict.fromkeys(world.others, own)}
    study = study_of(
        items,
        lists,
        chosen,
        title="Letters to patients",
        purpose="Are these letters safe?",
        owner=f"Owner {world.number('owner')}",
        raters=tuple(Rater(id=one, name=f"Dr. {world.number(one)}") for one in lists),
        design=StudyDesign(
            n_cases=8, n_calibration=1, raters_per_shared_case=2, shared=1.0, repeated=0.1, seed=world.seed
        ),
        models=world.models,
        asks_harm=chosen.form is not InstrumentForm.PREFERENCE,
    )
    write_study(store, study)
    for place, other in enumerate(world.others):
        for case in own[:-1]:
            record(store, study, other, case.number, _rating_of_other(store, study, case, world, place))
    event = Event(time=study.created, by="owner", kind=EventKind.ADJUDICATION, rater=RATER, item=" ".join(own[2].items))
    append_event(store, STUDY, event)


def _rating_of_other(store: Store, study: Study, case: Assignment, world: World, place: int) -> CaseRating:
    """Return a rating that differs between worlds, save for that of the case in adjudication.

    There the two others agree, because the order in which they are shown is random.
    """
    criteria = case_texts(store, study, case).criteria
    is_told = case.number == 3
    grade = 1 if is_told else (world.seed + place + case.number) % 2
    comment = "Opinion of another" if is_told else f"Comment {world.number(f'{case.number} {place}')}"
    return CaseRating(grades={one.name: one.low + grade for one in criteria}, comment=comment)


def _write_runs(folder: Path, world: World) -> list[Item]:
    """Write a run of each model, and return the items: those of one instance side by side."""
    random, items = Random(world.seed), {}
    ids = [f"{world.models[0][:5]} {world.number('instance')}-{n}" for n in range(N_INSTANCES)]
    for slot, model in enumerate(world.models):
        run = make_run(
            "letters",
            model,
            n=N_INSTANCES,
            cost_usd=world.number(f"cost {slot}") / 1000,
            main_metric=JURY,
            resolved_model=make_model(model),
            jury_result=jury_of(world.judge, "other/judge"),
        )
        records = [_record(n, ids[n], slot, world) for n in range(N_INSTANCES)]
        stored = write_run(folder, run, records, [JURY])
        assert stored.folder
        for n in range(N_INSTANCES):
            items[n, slot] = Item(
                id=f"{random.getrandbits(64):016x}",
                benchmark="letters",
                instance_id=ids[n],
                model=model,
                run=str(stored.folder.relative_to(folder)),
                completion_sha256=completion_digest(_stored_text(n, slot, world)),
                probability=world.number(model) / 1e9,
            )
    prompts = Store(folder).prompts_file("letters", stored.benchmark_digest, stored.data_digest)
    write_prompts(prompts, [_prompt(n, ids[n]) for n in range(N_INSTANCES)])
    return [items[key] for key in sorted(items)]


def _stored_text(place: int, slot: int, world: World) -> str:
    """Return a completion as it is stored: other Markdown and reasoning in each world, the same words."""
    marks = ("**", "# ", "- ")[(world.seed + slot) % 3]
    reasoning = f"<think>{world.number(f'reasoning {slot}')}</think>"
    return f"{reasoning}{text_of(place, slot).replace('Rest', '**Rest**' if marks == '**' else 'Rest')}"


def _record(place: int, instance_id: str, slot: int, world: World) -> Any:
    completion = Completion(
        text=_stored_text(place, slot, world),
        latency_s=world.number(f"latency {slot}") / 1e4,
        usage=Usage(
            input=world.number(f"input {slot}"),
            output=world.number(f"output {slot}"),
            reasoning=world.number(f"thoughts {slot}"),
        ),
        reported_model=f"reported {world.number(f'version {slot}')}",
        fingerprint=f"fp_{world.number(f'print {slot}')}",
        finish_reason=("stop", "length")[(world.seed + slot) % 2],
    )
    judgment = Judgment(judge=world.judge, criterion="accuracy", score=4.0, explanation=f"{world.number('why')}")
    verdict = JuryVerdict(scores=(), judgments=(judgment,), coverage=1.0)
    return make_record(place, instance_id=instance_id, completion=completion, jury_verdict=verdict)


def _prompt(place: int, instance_id: str) -> tuple[Instance, Prompt]:
    instance = Instance(
        id=instance_id,
        fields={},
        references=(Reference(f"Rest for {place} days."),),
        criteria=(Criterion("c1", "Says to rest.", points=5.0), Criterion("c2", "Names a wrong dose.", points=-3.0)),
    )
    return instance, Prompt((Message("user", f"Write letter {place}.\n\n{'The visit went well. ' * 60}"),))


# --- secrets ----------------------------------------------------------------------------------------------------------


def secrets_of(study: Study, world: World) -> Iterator[str]:
    """Yield what no page may hold, in words."""
    for model in (*world.models, world.judge):
        yield model
        yield from (part for part in re.split(r"[\s/+\-\"<>&]+", model) if len(part) >= 5)
    for item in study.items:
        yield from (item.id, item.instance_id, item.run, item.run.rpartition("/")[2], item.completion_sha256[:10])
    for name in (*(f"{what} {slot}" for what in _NUMBERS for slot in range(2)), "instance", "owner", "why"):
        yield str(world.number(name))
    for other in world.others:
        yield from (other, f"Dr. {world.number(other)}")
    for case in range(1, 9):
        yield from (str(world.number(f"{case} {place}")) for place in range(2))
    yield digest_of(study)[:10]


_NUMBERS = ("cost", "latency", "input", "output", "thoughts", "version", "print", "reasoning")


def disguises(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret could get into an answer, in lower case."""
    raw = secret.encode()
    forms = (
        secret,
        html.escape(secret),
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
        raw.hex(),
        hashlib.sha256(raw).hexdigest()[:10],
        hashlib.md5(raw).hexdigest()[:10],
        secret[::-1],
    )
    yield from {one.casefold() for one in forms}


def told(secrets: Sequence[str], answers: Sequence[str]) -> list[str]:
    """Return the secrets that any answer holds, in any disguise."""
    text = "\n".join(answers).casefold()
    return sorted({secret for secret in secrets if any(form in text for form in disguises(secret))})


def complete_fields(study: Study, instance_criteria: int) -> dict[str, str]:
    """Return the fields of a form with an answer to every question."""
    chosen = study.instruments["letters"]
    criteria = (*chosen.criteria, *(HARM if study.asks_harm else ()))
    if not chosen.criteria:
        n = instance_criteria + len(criteria)
        return {f"grade-{number}": "1" for number in range(1, n + 1)}
    return {f"grade-{number}": str(one.high) for number, one in enumerate(criteria, start=1)}
