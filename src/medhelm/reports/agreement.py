"""Agreement of the jury with clinicians, and sample sizes for measuring it: tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from medhelm.analysis.agreement.jury_vs_clinicians import SHARE, Conclusion, conclude
from medhelm.reports.formats.fields import Field, table_of
from medhelm.reports.formats.json import select
from medhelm.reports.formats.tables import Value, decimal, estimate_text, number, render, with_interval

if TYPE_CHECKING:
    from medhelm.analysis.agreement.calibration import RatingSample
    from medhelm.analysis.agreement.jury_vs_clinicians import (
        AgreementWithClinicians,
        BenchmarkAgreement,
        ClinicianAgreement,
        JuryAgreement,
    )
    from medhelm.analysis.agreement.reliability import RaterAgreement
    from medhelm.domain import Estimate, Rule

COMBINED = "Combined"
"""Name of the row for all benchmarks together."""

MEANING = """\
Jury and a clinician: correlation of the jury's scores with one clinician's. Two clinicians: correlation of one
clinician's ratings with another's; 0 for clinicians who guess. Jury minus clinicians: difference in level, in grades.
Brackets: 95% confidence intervals."""
"""Explanation that is printed below the table."""

WIDE_MEANING = """\
If the jury's correlation with a clinician is not lower than that of two clinicians, it agrees with a clinician as well
as another clinician does. Both come from all ratings at once, and ignore differences in level.
ICC(3,k): agreement with the clinicians' average: 0 none, 1 perfect order and spacing, below 0 the reverse. It ignores
differences in level, which ICC(2,1) does not.
Intervals: those of ICC(3,k) use Fisher's transformation, unless noted, as do those of Spearman in the second table;
those of ICC(2,1) the F distribution, those of correlations with a clinician a jackknife over instances, and all others
a bootstrap over instances."""
"""Explanation that is printed below the tables of all numbers."""

PUBLISHED_MEANING = """\
Published rule: clinicians with each other by the mean of ICC(3,k) over pairs who share at least two completions, with a
bootstrap interval over pairs. With few shared completions this mean is near 1 even for clinicians who guess: do not
judge a jury by it."""
"""Explanation of the published rule."""

WEAK = 0.5
"""Correlation of two clinicians below which they agree weakly."""

SPEARMAN = "spearman=value spearman_low=low spearman_high=high"
"""JSON of a rank correlation: key and field."""

KAPPA = "weighted_kappa=kappa.value"
"""JSON of a weighted kappa: key and field."""


def as_json(found: JuryAgreement) -> dict[str, Any]:
    """Return the output of `medhelm agreement --json`. An undefined number is null and has a `reason`."""
    return {
        "ratings": found.place,
        "jury_from": found.jury_from,
        "datasets": {name: _benchmark_json(one) for name, one in found.datasets.items()},
        "combined": _benchmark_json(found.combined),
        "verdict": verdict(found),
        "remarks": [remark.text for remark in found.remarks],
    }


def _benchmark_json(found: BenchmarkAgreement) -> dict[str, Any]:
    jury = found.jury
    return {
        "n_instances": found.n_instances,
        "n_raters": len(found.raters),
        "jury_vs_clinicians": _comparison_json(jury),
        # Two keys for the published number, the mean over pairs: the first one is older. No text uses it.
        "clinicians": _clinicians_json(found.clinicians, found.raters),
        "clinicians_published": _clinicians_json(found.clinicians, found.raters),
        "one_clinician": {
            "jury": _raters_json(found.one_clinician.jury),
            "clinicians": _raters_json(found.one_clinician.raters),
            "difference": _raters_json(found.one_clinician.difference),
            "share": {**_raters_json(found.one_clinician.share), "needed": SHARE},
        },
        "clinicians_all_ratings": _raters_json(found.one_clinician.raters.of_mean(2), "icc3k"),
        "conclusion": str(conclude(found.one_clinician)),
        **select(jury.spearman, SPEARMAN, rounded=True),
        **select(jury, f"{KAPPA} weighted_kappa_low=kappa.low weighted_kappa_high=kappa.high", rounded=True),
        "criteria": {name: _full_comparison_json(match) for name, match in found.criteria.items()},
        "judges": {name: _full_comparison_json(match) for name, match in found.judges.items()},
        "baselines": {name: _full_comparison_json(match) for name, match in found.baselines.items()},
        "remarks": [remark.text for remark in found.remarks],
    }


def _comparison_json(found: AgreementWithClinicians) -> dict[str, Any]:
    """Return a comparison, with its bootstrap interval if there is one."""
    row = {**select(found.consistency, "icc3k=value low high", rounded=True), "n": found.n}
    if found.resampled:
        row |= select(found.resampled, "bootstrap_low=low bootstrap_high=high", rounded=True)
    if found.consistency.reason:
        row["reason"] = found.consistency.reason
    if found.agreement:
        row["absolute"] = select(found.agreement, "icc21=value low high", rounded=True)
    if found.difference:
        row["difference"] = select(found.difference, "value low high", rounded=True)
    return row


def _raters_json(found: RaterAgreement, key: str = "value") -> dict[str, Any]:
    """Return agreement with one clinician."""
    row = {**select(found, f"{key}=value low high", rounded=True), "n": found.n, "n_raters": found.n_raters}
    return {**row, "reason": found.reason} if found.reason else row


def _full_comparison_json(found: AgreementWithClinicians) -> dict[str, Any]:
    """Return a comparison with rank correlation and kappa."""
    return {
        **_comparison_json(found),
        **select(found.spearman, SPEARMAN, rounded=True),
        **select(found, KAPPA, rounded=True),
    }


def _clinicians_json(found: ClinicianAgreement, raters: Sequence[str]) -> dict[str, Any]:
    values = [pair.value for pair in found.pairs.pairs if pair.value is not None]
    return {
        "icc3k": number(found.pairs.value),
        "low": number(found.low),
        "high": number(found.high),
        "pairs_low": number(found.pairs_low),
        "pairs_high": number(found.pairs_high),
        "n_pairs": found.pairs.n_pairs,
        "min": number(min(values, default=None)),
        "max": number(max(values, default=None)),
        "pairs": [
            {
                "raters": [raters[pair.first], raters[pair.second]],
                "n": pair.n,
                "icc3k": number(pair.value),
                **({"reason": pair.reason} if pair.reason else {}),
            }
            for pair in found.pairs.pairs
        ],
    }


# --- verdict ----------------------------------------------------------------------------------------------------------

CALIBRATE = (Conclusion.AS_GOOD, Conclusion.WORSE, Conclusion.UNCLEAR, Conclusion.NO_COMPARISON)
"""Conclusions after which calibrated scores can be read as clinicians' grades: jury and clinicians agree."""


def verdict(found: JuryAgreement) -> list[str]:
    """Return the verdict in words, from the numbers of the table: one or two sentences on each benchmark."""
    several = len(found.datasets) > 1
    sentences = []
    for name, one in found.datasets.items():
        about = f"{name}: " if several else ""
        sentences.append(about + _conclusion_sentence(one))
        if conclude(one.one_clinician) not in CALIBRATE:
            continue
        if (lenient := one.jury.difference) and (lenient.low > 0 or lenient.high < 0):
            sentences.append(about + _leniency_sentence(lenient))
    return sentences


def _conclusion_sentence(found: BenchmarkAgreement) -> str:
    """Return the conclusion on one benchmark with its numbers."""
    one = found.one_clinician
    jury, raters, difference = (estimate_text(of) for of in (one.jury, one.raters, one.difference))
    match conclude(one):
        case Conclusion.AS_GOOD:
            weak = " Two clinicians agree weakly, so a single rating, theirs or the jury's, says little."
            return (
                "The jury can be used in place of a clinician to rank completions: its correlation with a clinician is "
                f"{jury}, that of two clinicians {raters}. The jury reaches at least {_percent(one.share.low)} of it; "
                f"{SHARE:.0%} is needed.{weak if one.raters.value is not None and one.raters.value < WEAK else ''}"
            )
        case Conclusion.WORSE:
            return (
                f"Do not use the jury in place of a clinician: its correlation with a clinician is {jury}, lower than "
                f"that of two clinicians, {raters}. The difference is {difference}."
            )
        case Conclusion.UNCLEAR:
            return (
                f"The jury agrees with a clinician (correlation {jury}), and clinicians with each other ({raters}), "
                f"but the ratings are too few to compare the two: the jury is shown to reach {_percent(one.share.low)} "
                f"of their agreement, and {SHARE:.0%} is needed. Rate more completions before the jury replaces "
                "clinicians."
            )
        case Conclusion.NO_COMPARISON:
            reason = one.raters.reason or one.difference.reason
            return (
                f"The jury agrees with a clinician (correlation {jury}), but how well clinicians agree with each other "
                f"is unknown: {reason}."
            )
        case Conclusion.NO_YARDSTICK:
            return (
                "These ratings cannot show whether the jury can be trusted: the clinicians are not shown to agree with "
                f"each other (correlation {raters}). The jury's correlation with a clinician is {jury}."
            )
        case Conclusion.NO_AGREEMENT:
            known = f" That of two clinicians is {raters}." if one.raters.value is not None else ""
            shown = f"Its correlation with a clinician is {jury}, so agreement is not shown."
            return f"Do not rely on the jury. {shown}{known}"
        case Conclusion.TOO_FEW:
            if one.jury.n == 0:
                return "No completion has both a complete rating and a jury score yet: fill in all grades."
            return f"There are too few ratings to say whether the jury can be trusted: {one.jury.reason}."


def _percent(share: float | None) -> str:
    """Return a lower limit in percent, rounded down; 0% if it is not known."""
    return f"{math.floor(100 * (share or 0.0))}%"


def _leniency_sentence(found: Estimate) -> str:
    """Return how much the jury's grades differ from clinicians'."""
    more = "higher" if found.value > 0 else "lower"
    low, high = sorted((abs(found.low), abs(found.high)))
    interval = f"{decimal(abs(found.value))} [{decimal(low)}, {decimal(high)}]"
    return (
        f"Its grades are {more} than clinicians' by {interval}: read them as clinicians' grades only after calibration."
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def to_table(found: JuryAgreement, format: str = "table", rule: Rule = "corrected", *, wide: bool = False) -> str:
    """Return one row per benchmark; as text or Markdown also the verdict, remarks and meanings.

    Parameters: rule, agreement among clinicians from all ratings at once, or pair by pair as published; wide, True for
    all coefficients, and for criteria, single judges and baselines. CSV has all columns.
    """
    several = {**found.datasets, COMBINED: found.combined} if len(found.datasets) > 1 else dict(found.datasets)
    every = wide or format == "csv"
    rows, headers, drop = table_of(_fields(rule, wide=every), list(several.values()), wide=every)
    overview = render(
        [[name, *row] for name, row in zip(several, rows, strict=True)],
        ["Benchmark", *headers],
        format=format,
        caption=f"{found.place}; grades of the jury from the {found.jury_from}",
        width=120 if every else 130,
        drop=drop,
    )
    if format in ("csv", "latex"):
        return overview
    hidden = {"pair_without_icc"} if rule == "corrected" else set()
    hidden |= set() if wide else {"baseline_missing"}
    shown = [*map(str, (remark for remark in found.remarks if remark.code not in hidden))]
    for name, one in found.datasets.items():
        shown += [f"{name}: {remark}" for remark in one.remarks if remark.code not in hidden]
    if len(found.datasets) > 1:
        # A remark on one benchmark is not repeated for all benchmarks.
        known = {remark for one in found.datasets.values() for remark in one.remarks}
        more = [remark for remark in found.combined.remarks if remark not in known and remark.code not in hidden]
        shown += [f"{COMBINED}: {remark}" for remark in more]
    remarks = "".join(f"- {note}\n" for note in shown)
    top = "".join(f"{fill(sentence, 120)}\n" for sentence in verdict(found)) if rule == "corrected" else ""
    meaning = "\n".join([MEANING, *[WIDE_MEANING] * wide, *[PUBLISHED_MEANING] * (rule == "published")])
    details = _details_table(several, format) if wide else ""
    return "\n".join(filter(None, [top, overview, details, remarks, meaning])) + "\n"


def _fields(rule: Rule, *, wide: bool) -> list[Field[BenchmarkAgreement]]:
    """Return the columns of the jury against clinicians, and of clinicians against each other."""
    by_pairs = rule == "published"

    def column(
        heading: str, get: Callable[[BenchmarkAgreement], Any], drop: int = 0, **settings: Any
    ) -> Field[BenchmarkAgreement]:
        return Field(key=heading, kind="interval", get=get, heading=heading, drop=drop, **settings)

    return [
        column("Completions", lambda found: found.n_instances, 11, text=lambda found: found.n_instances),
        column("Raters", lambda found: found.raters, 10, text=lambda found: len(found.raters)),
        column("Jury and a clinician", lambda found: found.one_clinician.jury, is_present=not by_pairs),
        column("Two clinicians", lambda found: found.one_clinician.raters, is_present=not by_pairs),
        column("Difference", lambda found: found.one_clinician.difference, is_present=not by_pairs),
        column("Jury ICC(3,k)", lambda found: found.jury.consistency, 0 if by_pairs else 9, is_wide=not by_pairs),
        column("Jury ICC(3,k), bootstrap", lambda found: found.jury.resampled, 1, is_wide=True),
        column("Clinicians ICC(3,k)", lambda found: found.clinicians, is_present=by_pairs,
               text=lambda found: _pairwise_text(found.clinicians, wide=wide)),
        column("Clinicians ICC(3,k)", lambda found: found.one_clinician.raters.of_mean(2), 6, is_present=not by_pairs,
               is_wide=True),
        column("Jury ICC(2,1)", lambda found: found.jury.agreement, 5, is_wide=True),
        column("Jury minus clinicians", lambda found: found.jury.difference, 4 if wide else 0),
        column("Spearman", lambda found: found.jury.spearman, 3, is_wide=True),
        column("Weighted kappa", lambda found: found.jury.kappa, 2, is_wide=True),
        column("Pairs", lambda found: found.clinicians, 8, is_present=by_pairs, is_wide=True,
               text=lambda found: found.clinicians.pairs.n_pairs),
        column("Lowest to highest pair", lambda found: found.clinicians, 7, is_present=by_pairs, is_wide=True,
               text=lambda found: _range_text(found.clinicians)),
    ]  # fmt: skip


def _pairwise_text(among: ClinicianAgreement, *, wide: bool) -> str | None:
    """Return the mean over pairs with its bootstrap interval: over pairs, or in wide tables over instances."""
    low, high = (among.low, among.high) if wide else (among.pairs_low, among.pairs_high)
    return with_interval(among.pairs.value, low, high)


def _range_text(among: ClinicianAgreement) -> str | None:
    values = [pair.value for pair in among.pairs.pairs if pair.value is not None]
    return f"{decimal(min(values))} to {decimal(max(values))}" if values else None


_DETAILS: list[Field[AgreementWithClinicians]] = [
    Field("n", lambda match: match.n, heading="Completions", drop=2),
    Field("icc3k", lambda match: match.consistency, kind="interval", heading="ICC(3,k)"),
    Field("spearman", lambda match: match.spearman, kind="interval", heading="Spearman", drop=3),
    Field("kappa", lambda match: match.kappa and match.kappa.value, heading="Weighted kappa", drop=1),
    Field("difference", lambda match: match.difference, kind="interval", heading="Minus clinicians", drop=4),
]
"""Columns of criteria, single judges and baseline metrics against the clinicians."""


def _details_table(several: Mapping[str, BenchmarkAgreement], format: str) -> str:
    """Return the table of criteria, single judges and baseline metrics against the clinicians."""
    found = [
        (name, f"{kind} {what}", match)
        for name, one in several.items()
        for kind, matches in (("jury,", one.criteria), ("judge", one.judges), ("metric", one.baselines))
        for what, match in matches.items()
    ]
    rows, headers, drop = table_of(_DETAILS, [match for _, _, match in found])
    rows = [[name, what, *row] for (name, what, _), row in zip(found, rows, strict=True)]
    return render(rows, ["Benchmark", "Compared with clinicians", *headers], format=format, drop=drop)


# --- completions to rate ----------------------------------------------------------------------------------------------


def sample_to_csv(found: RatingSample, raters: Sequence[str]) -> str:
    """Return CSV for raters to fill in: what is rated, the columns of a ratings file, and the probability."""
    texts = ["prompt", "reference", "completion"]
    headers = ["rater", "benchmark", "instance_id", "model", *texts, *found.criteria, "probability"]
    empty: list[Value] = [None] * len(found.criteria)
    rows: list[list[Value]] = [
        [
            rater,
            *(one.benchmark, one.instance_id, one.model, one.prompt, "\n\n".join(one.references), one.completion),
            *empty,
            one.probability,
        ]
        for rater in raters
        for one in found.completions
    ]
    return render(rows, headers, format="csv")
