"""Value types of a study: its plan, its instruments, and what raters give, each with its JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from medhelm.storage.json_form import JsonForm, Nested, by_name, key_map

FORMAT = 1
"""Version of the files of a study."""

HARM_SEVERITY, HARM_LIKELIHOOD = "harm_severity", "harm_likelihood"
"""Names of the two questions on harm, which every instrument can add to its criteria."""


class InstrumentForm(StrEnum):
    """The completions that a rater looks at, and the questions."""

    GRADES = "grades"
    """One completion, a grade for each criterion."""
    CHECKS = "checks"
    """One completion, each criterion met (1) or not met (0); instances have their own criteria, with points."""
    PREFERENCE = "preference"
    """Two completions of one instance: a grade below zero prefers the left one, above zero the right one."""


class CaseKind(StrEnum):
    """Reason why a rater gets a case."""

    CALIBRATION = "calibration"
    """First, the same for all raters; its ratings count for agreement alone."""
    SINGLE = "single"
    """Rated by this rater alone."""
    SHARED = "shared"
    """Rated by two or more raters."""
    REPEATED = "repeated"
    """A case that the same rater has rated before, to see whether the ratings are the same."""
    ADJUDICATION = "adjudication"
    """A case on which two raters differ, for a third one."""


class MarkKind(StrEnum):
    """The fault of a marked passage."""

    ERROR = "error"
    """The passage is wrong."""
    OMISSION = "omission"
    """Something is missing at this place."""
    INVENTED = "invented"
    """The material does not say this."""


class RatingSource(StrEnum):
    """The form in which a rating was given."""

    BROWSER = "browser"
    WORKBOOK = "workbook"
    HTML_FILE = "html_file"
    LABEL_STUDIO = "label_studio"
    REDCAP = "redcap"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentCriterion:
    """One question of an instrument; its grades are the whole numbers from `low` to `high`."""

    name: str
    """Id, such as `accuracy`."""
    question: str
    """The question to the rater, in the instrument's own words."""
    low: int
    """The lowest grade."""
    high: int
    """The highest grade."""
    anchors: Mapping[str, str] = field(default_factory=dict)
    """Grade, as text -> what it means; at least for both ends."""
    higher_is_better: bool = True
    """True if the highest grade is the best one."""
    points: float = 0.0
    """Points for meeting the criterion, below zero for a harm; 0 outside of checks."""

    @property
    def grades(self) -> range:
        """All grades, the lowest first."""
        return range(self.low, self.high + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """The form that raters fill in for a case."""

    name: str
    """Id, such as `pdsqi_9`; `rubric` for the criteria of a benchmark's own rubric."""
    title: str
    """Name for people."""
    form: InstrumentForm
    """The completions that a rater looks at, and the questions."""
    instructions: str = ""
    """Text that raters read before they begin."""
    criteria: tuple[InstrumentCriterion, ...] = ()
    """The questions, in order; empty if each instance has its own."""
    source: str = ""
    """Publication, or where it comes from."""
    license: str = ""
    """License of its words."""
    digest: str = ""
    """Sha256, in hex, of all that a rater sees of it: its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A completion to rate. Raters and their files see its id alone."""

    id: str
    """Random id, 16 hexadecimal digits."""
    benchmark: str
    """Name of the benchmark."""
    instance_id: str
    """Id of the instance."""
    model: str
    """Name of the model."""
    run: str
    """Folder of the run that holds the completion, relative to the store."""
    completion_sha256: str
    """Sha256, in hex, of the UTF-8 of the completion without reasoning."""
    probability: float
    """Probability with which it was selected among the completions of its model and benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A case of one rater."""

    number: int
    """Its place in the rater's list, from 1."""
    kind: CaseKind
    """Reason why the rater gets it."""
    items: tuple[str, ...]
    """Id of the item; of two items, the left one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rater:
    """A person who rates."""

    id: str
    """Pseudonym in all results, such as `rater_1`."""
    name: str = ""
    """Name that only the owner sees; empty if it was not given."""
    role: str = ""
    """Profession or specialty, for the study's card."""
    user: str = ""
    """Name at the hospital's single sign-on; empty for personal links alone."""
    is_adjudicator: bool = False
    """True for a rater who gets the cases on which others differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDesign:
    """Requirements of the plan."""

    n_cases: int
    """Completions to rate (pairs, for preferences), without calibration cases."""
    n_calibration: int
    """Cases that all raters rate first."""
    raters_per_shared_case: int
    """Raters of a shared case, at least 2."""
    shared: float
    """Share of the cases that several raters rate, 0 to 1."""
    repeated: float
    """Share of a rater's cases that come a second time, 0 to 1."""
    seed: int
    """Seed of the selection and of the assignment."""
    precision: float | None = None
    """Half-width of the 95% interval of a model's mean grade that was wanted; None if the number of cases was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The plan of a study, fixed before anyone rates."""

    name: str
    """Id in snake case, and name of its folder."""
    title: str
    """Title for people."""
    created: str
    """Time of the plan, ISO 8601, UTC."""
    owner: str = ""
    """The person who is responsible, as given."""
    purpose: str = ""
    """Purpose of the ratings, as given."""
    design: StudyDesign
    """Requirements of the plan."""
    instruments: Mapping[str, Instrument]
    """Benchmark -> the form for its cases; all of one form, grades or checks or preference."""
    models: tuple[str, ...]
    """Models whose completions are rated."""
    items: tuple[Item, ...]
    """The completions, in random order."""
    raters: tuple[Rater, ...]
    """The raters."""
    assignments: Mapping[str, tuple[Assignment, ...]]
    """Id of a rater -> the rater's cases, in order."""
    shows_reference: bool = False
    """True if raters see the reference."""
    asks_harm: bool = True
    """True if raters are asked for severity and likelihood of harm."""
    medhelm: str = ""
    """Version that made the plan."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Benchmarks whose completions are rated."""
        return tuple(self.instruments)

    @property
    def n_shared(self) -> int:
        """Cases that two or more raters get, without calibration cases."""
        cases = (case for own in self.assignments.values() for case in own)
        return len({frozenset(case.items) for case in cases if case.kind is CaseKind.SHARED})

    @property
    def n_repeated(self) -> int:
        """Cases that come a second time to the same rater, over all raters."""
        return sum(case.kind is CaseKind.REPEATED for own in self.assignments.values() for case in own)

    def item(self, item_id: str) -> Item:
        """Return an item. Raises: StopIteration for an unknown id; check ids from outside first."""
        return next(one for one in self.items if one.id == item_id)

    def rater(self, rater_id: str) -> Rater:
        """Return a rater. Raises: StopIteration for an unknown id; check ids from outside first."""
        return next(one for one in self.raters if one.id == rater_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPassage:
    """A marked passage of a completion as shown."""

    start: int
    """Position of its first character in the text as shown."""
    end: int
    """Position after its last character; equal to `start` for something missing at this place."""
    kind: MarkKind
    """Its fault."""
    side: int = 0
    """0 for the only or left completion, 1 for the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRating:
    """Answers of a rater to one case; criteria that are in neither mapping are not answered yet."""

    grades: Mapping[str, int] = field(default_factory=dict)
    """Criterion, or question on harm -> grade."""
    not_judged: Mapping[str, str] = field(default_factory=dict)
    """Criterion -> why the rater cannot judge it."""
    comment: str = ""
    """Comment in the rater's words."""
    marks: tuple[MarkedPassage, ...] = ()
    """Marked passages."""
    seconds: float = 0.0
    """Seconds that the case was visible since the rating before this one."""
    source: RatingSource = RatingSource.BROWSER
    """The form in which it was given."""

    def is_complete(self, criteria: Iterable[InstrumentCriterion]) -> bool:
        """Return True if every criterion has a grade or a reason."""
        return all(one.name in self.grades or one.name in self.not_judged for one in criteria)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRow:
    """A stored rating of one case by one rater: a line of the rater's file. A later row replaces an earlier one."""

    time: str
    """Time it was stored, ISO 8601, UTC."""
    rater: str
    """Id of the rater."""
    number: int
    """Number of the case in the rater's list."""
    items: tuple[str, ...]
    """Ids of the items of the case."""
    revision: int
    """1 for the first rating of the case, and so on."""
    instrument: str
    """Digest of the instrument that the rater saw."""
    rating: CaseRating
    """The answers."""


# --- JSON forms -------------------------------------------------------------------------------------------------------

_enum = {kind: Nested(str, kind) for kind in (InstrumentForm, CaseKind, MarkKind, RatingSource)}
_texts = Nested(list, tuple)

CRITERION_FORM = JsonForm(
    InstrumentCriterion, key_map("name question low high anchors higher_is_better points"), not_if_empty=("points",)
)
INSTRUMENT_FORM = JsonForm(
    Instrument,
    key_map("name title form instructions criteria source license digest"),
    nested={"form": _enum[InstrumentForm], "criteria": CRITERION_FORM.many},
)
ITEM_FORM = JsonForm(Item, key_map("id benchmark instance_id model run completion_sha256 probability"))
ASSIGNMENT_FORM = JsonForm(Assignment, key_map("number kind items"), nested={"kind": _enum[CaseKind], "items": _texts})
RATER_FORM = JsonForm(Rater, key_map("id name role user is_adjudicator"))
DESIGN_FORM = JsonForm(
    StudyDesign, key_map("n_cases n_calibration raters_per_shared_case shared repeated seed precision")
)
STUDY_FORM = JsonForm(
    Study,
    key_map(
        "name title created owner purpose design instruments models items raters assignments shows_reference "
        "asks_harm medhelm"
    ),
    nested={
        "design": DESIGN_FORM.one,
        "instruments": INSTRUMENT_FORM.by_name,
        "models": _texts,
        "items": ITEM_FORM.many,
        "raters": RATER_FORM.many,
        "assignments": by_name(ASSIGNMENT_FORM.many),
    },
)
MARK_FORM = JsonForm(MarkedPassage, key_map("start end kind side"), nested={"kind": _enum[MarkKind]})
CASE_RATING_FORM = JsonForm(
    CaseRating,
    key_map("grades not_judged comment marks seconds source"),
    nested={"marks": MARK_FORM.many, "source": _enum[RatingSource]},
    not_if_empty=("not_judged", "comment", "marks"),
)
ROW_FORM = JsonForm(
    RatingRow,
    key_map("time rater number items revision instrument rating"),
    nested={"items": _texts, "rating": CASE_RATING_FORM.one},
)
