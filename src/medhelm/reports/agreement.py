"""The jury beside clinicians, as tables for people and as JSON; and how many completions a study of it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medhelm.reports.tables import Value, decimal, number, render, with_interval

if TYPE_CHECKING:
    from medhelm.analysis.agreement.icc_sample_size import SampleSizes
    from medhelm.analysis.agreement.jury_vs_clinicians import (
        AgreementWithClinicians,
        BenchmarkAgreement,
        ClinicianAgreement,
        JuryAgreement,
    )

COMBINED = "Combined"
"""What the row of all benchmarks together is called."""

MEANING = """\
ICC(3,k): consistency of two raters, here the jury and the mean of the clinicians, each standardised first, with k = 2.
It is 1 where both put completions in the same order at the same distances, 0 where they have nothing to do with each
other, and negative where they contradict each other. It does not ask whether they give the same grades: ICC(2,1) on the
raw scale and the difference of the means do. Clinicians: mean over pairs who share at least two completions.
Brackets: 95 % intervals. Those of ICC(3,k) and ICC(2,1) are by F where nothing else is said, those of Spearman in the
second table by Fisher's transformation, all others by bootstrap over instances."""
"""What the numbers say, for below the tables."""


def as_json(found: JuryAgreement) -> dict[str, Any]:
    """The result of `medhelm agreement --json`. What is undefined is null, with a reason beside it."""
    return {
        "ratings": found.place,
        "jury_from": found.jury_from,
        "datasets": {name: _agreement(one) for name, one in found.datasets.items()},
        "combined": _agreement(found.combined),
        "remarks": list(found.remarks),
    }


def _agreement(found: BenchmarkAgreement) -> dict[str, Any]:
    jury = found.jury
    return {
        "n_instances": found.n_instances,
        "n_raters": len(found.raters),
        "jury_vs_clinicians": _match(jury),
        "clinicians": _clinicians(found.clinicians, found.raters),
        "spearman": number(jury.spearman.value),
        "spearman_low": number(jury.spearman.low),
        "spearman_high": number(jury.spearman.high),
        "weighted_kappa": number(jury.kappa.value) if jury.kappa else None,
        "weighted_kappa_low": number(jury.kappa.low) if jury.kappa else None,
        "weighted_kappa_high": number(jury.kappa.high) if jury.kappa else None,
        "criteria": {name: _row(match) for name, match in found.criteria.items()},
        "judges": {name: _row(match) for name, match in found.judges.items()},
        "baselines": {name: _row(match) for name, match in found.baselines.items()},
        "remarks": list(found.remarks),
    }


def _match(found: AgreementWithClinicians) -> dict[str, Any]:
    """A comparison, with its bootstrap interval where there is one."""
    row: dict[str, Any] = {
        "icc3k": number(found.consistency.value),
        "low": number(found.consistency.low),
        "high": number(found.consistency.high),
        "n": found.n,
    }
    if found.resampled:
        row |= {"bootstrap_low": number(found.resampled.low), "bootstrap_high": number(found.resampled.high)}
    if found.consistency.reason:
        row["reason"] = found.consistency.reason
    if found.agreement:
        ends = found.agreement
        row["absolute"] = {"icc21": number(ends.value), "low": number(ends.low), "high": number(ends.high)}
    if found.difference:
        gap = found.difference
        row["difference"] = {"value": number(gap.value), "low": number(gap.low), "high": number(gap.high)}
    return row


def _row(found: AgreementWithClinicians) -> dict[str, Any]:
    """A comparison with everything in one place."""
    return {
        **_match(found),
        "spearman": number(found.spearman.value),
        "spearman_low": number(found.spearman.low),
        "spearman_high": number(found.spearman.high),
        "weighted_kappa": number(found.kappa.value) if found.kappa else None,
    }


def _clinicians(found: ClinicianAgreement, raters: Sequence[str]) -> dict[str, Any]:
    values = [pair.value for pair in found.pairs.pairs if pair.value is not None]
    return {
        "icc3k": number(found.pairs.value),
        "low": number(found.low),
        "high": number(found.high),
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


# --- for people -------------------------------------------------------------------------------------------------------


def to_table(found: JuryAgreement, format: str = "table") -> str:
    """One row per benchmark; then, as text or Markdown, criteria, judges and baselines, remarks, and what it means."""
    several = {**found.datasets, COMBINED: found.combined} if len(found.datasets) > 1 else dict(found.datasets)
    overview = _overview(several, format, caption=f"{found.place}; the jury's grades are from the {found.jury_from}")
    if format in ("csv", "latex"):
        return overview
    notes = [*found.remarks, *(f"{name}: {remark}" for name, one in found.datasets.items() for remark in one.remarks)]
    if len(found.datasets) > 1:
        # What is said of one benchmark is not said again of all.
        known = {remark for one in found.datasets.values() for remark in one.remarks}
        notes += [f"{COMBINED}: {remark}" for remark in found.combined.remarks if remark not in known]
    remarks = "".join(f"- {note}\n" for note in notes)
    return "\n".join(filter(None, [overview, _details(several, format), remarks, MEANING])) + "\n"


def _overview(several: Mapping[str, BenchmarkAgreement], format: str, caption: str) -> str:
    """The jury against the clinicians, and the clinicians among themselves."""
    headers = [
        "Benchmark", "Completions", "Raters", "Jury ICC(3,k), F", "Jury ICC(3,k), bootstrap", "Jury ICC(2,1)",
        "Jury minus clinicians", "Spearman", "Weighted kappa", "Clinicians ICC(3,k)", "Pairs", "Lowest to highest pair",
    ]  # fmt: skip
    rows: list[list[Value]] = []
    for name, found in several.items():
        jury, among = found.jury, found.clinicians
        drawn, gap, kappa = jury.resampled, jury.difference, jury.kappa
        values = [pair.value for pair in among.pairs.pairs if pair.value is not None]
        rows.append(
            [
                name,
                found.n_instances,
                len(found.raters),
                with_interval(jury.consistency.value, jury.consistency.low, jury.consistency.high),
                with_interval(drawn.value, drawn.low, drawn.high) if drawn else None,
                with_interval(jury.agreement.value, jury.agreement.low, jury.agreement.high)
                if jury.agreement
                else None,
                with_interval(gap.value, gap.low, gap.high) if gap else None,
                with_interval(jury.spearman.value, jury.spearman.low, jury.spearman.high),
                with_interval(kappa.value, kappa.low, kappa.high) if kappa else None,
                with_interval(among.pairs.value, among.low, among.high),
                among.pairs.n_pairs,
                f"{decimal(min(values))} to {decimal(max(values))}" if values else None,
            ]
        )
    return render(rows, headers, format=format, caption=caption, width=120)


def _details(several: Mapping[str, BenchmarkAgreement], format: str) -> str:
    """The jury by criterion, each judge alone, and metrics that need no judge, each against the clinicians."""
    headers = ["Benchmark", "Against the clinicians", "Completions", "ICC(3,k)", "Spearman", "Weighted kappa"]
    headers.append("Minus clinicians")
    rows: list[list[Value]] = []
    for name, found in several.items():
        named = [(f"jury, {criterion}", match) for criterion, match in found.criteria.items()]
        named += [(f"judge {judge}", match) for judge, match in found.judges.items()]
        named += [(f"metric {metric}", match) for metric, match in found.baselines.items()]
        for what, match in named:
            gap = match.difference
            rows.append(
                [
                    name,
                    what,
                    match.n,
                    with_interval(match.consistency.value, match.consistency.low, match.consistency.high),
                    with_interval(match.spearman.value, match.spearman.low, match.spearman.high),
                    decimal(match.kappa.value) if match.kappa else None,
                    with_interval(gap.value, gap.low, gap.high) if gap else None,
                ]
            )
    return render(rows, headers, format=format)


# --- planning ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSizeAnswer:
    """A question of planning and its answers."""

    rows: Sequence[SampleSizes]
    """One for each width."""
    expected: float
    """The ICC that is expected."""
    raters: int
    """How many rate each completion."""
    assurance: float
    """Probability that the interval is no wider."""
    population: int | None
    """Completions there are; None for any number."""


def plan_as_json(found: SampleSizeAnswer) -> dict[str, Any]:
    """The result of `medhelm agreement --plan --json`."""
    return {
        "expected_icc": found.expected,
        "raters": found.raters,
        "assurance": found.assurance,
        "population": found.population,
        "plans": [
            {"width": row.width, "bonett": row.bonett, "zou": row.zou, "icc31": row.one_rater, "icc3k": row.mean}
            for row in found.rows
        ],
    }


def plan_to_table(found: SampleSizeAnswer, format: str = "table") -> str:
    """One row per width: how many completions all the raters must rate."""
    headers = ["Width", "ICC(3,k)", "ICC(3,1)", "ICC(3,1), Zou 2012", "ICC(3,1), Bonett 2002"]
    among = f" of {found.population:,}" if found.population else ""
    caption = (
        f"Completions{among} that {found.raters} raters must all rate, for a 95 % interval no wider than this "
        f"(probability {found.assurance:.0%}; Bonett: on average), if the ICC is {found.expected:g}"
    )
    cells: list[list[Value]] = [[row.width, row.mean, row.one_rater, row.zou, row.bonett] for row in found.rows]
    return render(cells, headers, format=format, caption=caption)
