"""Card of a finished study in which clinicians rated completions: who rated what, how, and how it was blinded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCriterion:
    """A criterion of the instrument of a study."""

    low: float
    """The lowest grade."""
    high: float
    """The highest grade."""
    higher_is_better: bool = True
    """False if the lowest grade is the best."""
    question: str = ""
    """The question that raters answer with a grade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardInstrument:
    """The instrument of a study: the form that its raters filled in."""

    name: str
    """Name, such as `pdsqi_9`."""
    title: str
    """Title for people."""
    version: str
    """Its version."""
    digest: str
    """sha256 of the form."""
    is_rubric: bool
    """True if its criteria are those of the benchmarks' rubric, so that ratings and the jury's grades compare."""
    criteria: Mapping[str, CardCriterion]
    """Name -> criterion, in the order of the form. The mean of a rating is that of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRater:
    """A rater of a study."""

    id: str
    """Name in `ratings.csv`, such as `R1`: a pseudonym."""
    role: str = ""
    """Profession, such as `nephrologist`; empty if unknown."""
    n_ratings: int = 0
    """Completions that the rater rated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDesign:
    """Assignment of the completions of a study to its raters."""

    n_cases: int
    """Completions to rate."""
    n_shared: int = 0
    """Of these, completions for two or more raters."""
    n_repeated: int = 0
    """Completions that a rater rated twice, to measure how consistent the rater is."""
    n_calibration: int = 0
    """Completions that all raters rated first."""
    seed: int = 0
    """Seed of the assignment."""
    precision: float | None = None
    """Half the width of the 95% interval that was planned, on the instrument's scale; None if none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCard:
    """Description of a finished study: its raters, instrument, design and blinding."""

    name: str
    """Name of the study and of its folder."""
    title: str
    """Title for people."""
    purpose: str = ""
    """Purpose in a sentence or two."""
    owner: str = ""
    """Person or group that led it."""
    created: str = ""
    """Time of the plan, ISO 8601, UTC."""
    closed: str = ""
    """Time of its end, after which rating was impossible, ISO 8601, UTC."""
    instrument: CardInstrument
    """The form of a rating."""
    benchmarks: Sequence[str] = ()
    """Benchmarks whose completions were rated."""
    models: Sequence[str] = ()
    """Models whose completions were rated."""
    raters: Sequence[CardRater] = ()
    """Those who rated."""
    design: CardDesign
    """Assignment of completions to raters."""
    blinding: Sequence[str] = ()
    """Sentences on what raters could not know, and on how they could have learned it."""
    deviations: Sequence[str] = ()
    """Sentences on what was not as planned."""
    digest: str = ""
    """sha256 of `ratings.csv`."""
