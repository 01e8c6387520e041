"""The options that choose or change a jury, the settings of a stored run, and the options that repeat it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from medhelm.domain import STANDARD, Jury, Model, Run
from medhelm.domain.jury import AT_LEAST
from medhelm.domain.option_fields import option, words
from medhelm.domain.run import REPEAT
from medhelm.errors import UserError
from medhelm.evaluation.settings import MEASUREMENT, RUBRIC_FILE, VARIANTS, Settings, parse_names, parse_rubric

# --- juries -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryOptions:
    """Options that choose the judges."""

    judges: tuple[str, ...] = option(
        "--judge",
        "Model that grades free text; repeatable. Three judges are usual.",
        (),
        metavar="MODEL",
        completes="models",
    )
    jury_file: Path | None = option(
        "--jury", "File with judges, used if --judge is not given.", metavar="FILE", variable="MEDHELM_JURY"
    )
    min_judges: int | None = option(
        "--min-judges", "Complete judgments required to score an instance.  [default: 2]", least=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryChange:
    """A change to the jury of stored runs."""

    judges: tuple[Model, ...] = ()
    """Judges to ask, even if they judged before."""
    at_least: int | None = None
    """Complete judges that an instance needs; None: as before, or two, or one of one."""
    rubric: str | None = option(
        "--rubric",
        "Criteria for judges, as for `medhelm run`.  [default: those of the earlier judges]",
        metavar="standard|extended|FILE",
        parse=parse_rubric,
    )
    verification_codes: bool | None = option(
        "--verification-code/--no-verification-code",
        "Whether judges must copy a code from their prompt into each verdict.  [default: as the earlier judges]",
    )
    only: bool = option("--only", "Replace all earlier judges.", False)
    perturb: tuple[str, ...] = option(
        "--perturb",
        "Measure the judges: have them grade the completions again in changed form, which changes no score. Names "
        "that `medhelm variants` lists for judges, separated by commas, or all.",
        (),
        metavar="NAME,...",
        parse=parse_names,
    )
    repeat: int = option(
        "--repeat", "Measure the judges: have them grade each completion K times in all.", 1, least=1, most=100
    )
    without: Collection[str] = option(
        "--without", "Earlier judge to exclude; repeatable.", (), metavar="JUDGE", completes="models"
    )

    @property
    def measures_judges(self) -> bool:
        """True if judges grade again what they graded, in runs that are variants of the stored ones."""
        return bool(self.perturb) or self.repeat > 1

    def applied(self, old: Jury | None) -> Jury | None:
        """Return the changed jury; None if it has no judges. Raises: UserError if it is too small."""
        if self.measures_judges and old:
            judges = tuple(judge for judge in self.judges if judge.name in {before.name for before in old.judges})
            return Jury(judges=judges, min_judges=min(old.min_judges, len(judges)))
        named = {judge.name for judge in self.judges}
        before = old.judges if old and not self.only else ()
        kept = [judge for judge in before if judge.name not in named and judge.name not in self.without]
        judges = (*kept, *self.judges)
        if not judges:
            return None
        if self.at_least is not None and self.at_least > len(judges):
            names = ", ".join(judge.name for judge in judges)
            raise UserError(f"an instance cannot need {self.at_least} of {len(judges)} judges ({names}).")
        usual = old.min_judges if old and not self.only else 2
        return Jury(judges=judges, min_judges=min(self.at_least or usual, len(judges)))


# --- settings ---------------------------------------------------------------------------------------------------------


def settings_of(run: Run) -> Settings:
    """Return the settings of a stored run that change what is measured; the others have their defaults."""
    stored = {name: run.settings[name] for name in MEASUREMENT if name in run.settings}
    if "temperature=" not in run.setting:  # the run has it, but no option chose it
        stored.pop("temperature", None)
    kind, _, name = run.variant.partition("=")
    if kind == "perturb":
        stored["perturb"] = (name,)
    rubric = run.settings.get(RUBRIC_FILE) or run.rubric or STANDARD
    return Settings(tier=run.tier, rubric=rubric, repeat=run.settings.get(REPEAT, 1), **stored)


def measured_as(settings: Settings, measured: Settings) -> Settings:
    """Return settings that measure what others do."""
    return replace(settings, **{name: getattr(measured, name) for name in (*MEASUREMENT, *VARIANTS)})


def jury_options(run: Run) -> JuryOptions:
    """Return the options that choose the judges of a stored run."""
    jury = run.jury_result.jury if run.jury_result else Jury(judges=())
    is_usual = jury.min_judges == min(AT_LEAST, len(jury.judges)) or not jury.judges
    names = tuple(judge.name for judge in jury.judges)
    return JuryOptions(judges=names, min_judges=None if is_usual else jury.min_judges)


def repeating_words(run: Run) -> tuple[str, ...]:
    """Return the options of `medhelm run` that measure again what a run did, without its benchmark and its model."""
    return (*words(jury_options(run)), *words(settings_of(run)))
