"""Agreement of the jury with clinicians, and sample sizes for measuring it: tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medhelm.reports.json_output import select
from medhelm.reports.tables import Value, decimal, estimate_text, number, render, with_interval

if TYPE_CHECKING:
    from medhelm.analysis.agreement.icc_sample_size import SampleSizes
    from medhelm.analysis.agreement.jury_vs_clinicians import (
        AgreementWithClinicians,
        BenchmarkAgreement,
        ClinicianAgreement,
        JuryAgreement,
    )

COMBINED = "Combined"
"""Name of the row for all benchmarks together."""

MEANING = """\
ICC(3,k), k = 2: consistency of two raters, here the jury and the mean of the clinicians, after both are standardized.
1 means the same order and spacing of completions, 0 no relation, and a negative value disagreement. It ignores
differences in level: see ICC(2,1) on the raw scale, and the difference of the means. Clinicians: mean over pairs of
clinicians who share at least two completions.
Brackets: 95% confidence intervals. Unless noted, those of ICC(3,k) and ICC(2,1) use the F distribution, those of
Spearman in the second table Fisher's transformation, and all others a bootstrap over instances."""
"""Explanation that is printed below the tables."""

SPEARMAN = "spearman=value spearman_low=low spearman_high=high"
"""JSON of a rank correlation: key and field."""


def as_json(found: JuryAgreement) -> dict[str, Any]:
    """Return the output of `medhelm agreement --json`. An undefined number is null and has a `reason`."""
    return {
        "ratings": found.place,
        "jury_from": found.jury_from,
        "datasets": {name: _agreement(one) for name, one in found.datasets.items()},
        "combined": _agreement(found.combined),
        "remarks": [remark.text for remark in found.remarks],
    }


def _agreement(found: BenchmarkAgreement) -> dict[str, Any]:
    jury = found.jury
    return {
        "n_instances": found.n_instances,
        "n_raters": len(found.raters),
        "jury_vs_clinicians": _match(jury),
        "clinicians": _clinicians(found.clinicians, found.raters),
        **select(jury.spearman, SPEARMAN, rounded=True),
        "weighted_kappa": number(jury.kappa.value) if jury.kappa else None,
        "weighted_kappa_low": number(jury.kappa.low) if jury.kappa else None,
        "weighted_kappa_high": number(jury.kappa.high) if jury.kappa else None,
        "criteria": {name: _row(match) for name, match in found.criteria.items()},
        "judges": {name: _row(match) for name, match in found.judges.items()},
        "baselines": {name: _row(match) for name, match in found.baselines.items()},
        "remarks": [remark.text for remark in found.remarks],
    }


def _match(found: AgreementWithClinicians) -> dict[str, Any]:
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


def _row(found: AgreementWithClinicians) -> dict[str, Any]:
    """Return a comparison with rank correlation and kappa."""
    return {
        **_match(found),
        **select(found.spearman, SPEARMAN, rounded=True),
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


# --- tables -----------------------------------------------------------------------------------------------------------


def to_table(found: JuryAgreement, format: str = "table") -> str:
    """Return one row per benchmark; as text or Markdown also criteria, judges, baselines, remarks and explanations."""
    several = {**found.datasets, COMBINED: found.combined} if len(found.datasets) > 1 else dict(found.datasets)
    overview = _overview(several, format, caption=f"{found.place}; grades of the jury from the {found.jury_from}")
    if format in ("csv", "latex"):
        return overview
    notes = [
        *map(str, found.remarks),
        *(f"{name}: {remark}" for name, one in found.datasets.items() for remark in one.remarks),
    ]
    if len(found.datasets) > 1:
        # A remark on one benchmark is not repeated for all benchmarks.
        known = {remark for one in found.datasets.values() for remark in one.remarks}
        notes += [f"{COMBINED}: {remark}" for remark in found.combined.remarks if remark not in known]
    remarks = "".join(f"- {note}\n" for note in notes)
    return "\n".join(filter(None, [overview, _details(several, format), remarks, MEANING])) + "\n"


def _overview(several: Mapping[str, BenchmarkAgreement], format: str, caption: str) -> str:
    """Return the table of the jury against clinicians, and of clinicians against each other."""
    headers = [
        "Benchmark", "Completions", "Raters", "Jury ICC(3,k), F", "Jury ICC(3,k), bootstrap", "Jury ICC(2,1)",
        "Jury minus clinicians", "Spearman", "Weighted kappa", "Clinicians ICC(3,k)", "Pairs", "Lowest to highest pair",
    ]  # fmt: skip
    rows: list[list[Value]] = []
    for name, found in several.items():
        jury, among = found.jury, found.clinicians
        values = [pair.value for pair in among.pairs.pairs if pair.value is not None]
        rows.append(
            [
                name,
                found.n_instances,
                len(found.raters),
                estimate_text(jury.consistency),
                estimate_text(jury.resampled),
                estimate_text(jury.agreement),
                estimate_text(jury.difference),
                estimate_text(jury.spearman),
                estimate_text(jury.kappa),
                with_interval(among.pairs.value, among.low, among.high),
                among.pairs.n_pairs,
                f"{decimal(min(values))} to {decimal(max(values))}" if values else None,
            ]
        )
    return render(rows, headers, format=format, caption=caption, width=120)


def _details(several: Mapping[str, BenchmarkAgreement], format: str) -> str:
    """Return the table of criteria, single judges and baseline metrics against the clinicians."""
    headers = ["Benchmark", "Against the clinicians", "Completions", "ICC(3,k)", "Spearman", "Weighted kappa"]
    headers.append("Minus clinicians")
    rows: list[list[Value]] = []
    for name, found in several.items():
        named = [(f"jury, {criterion}", match) for criterion, match in found.criteria.items()]
        named += [(f"judge {judge}", match) for judge, match in found.judges.items()]
        named += [(f"metric {metric}", match) for metric, match in found.baselines.items()]
        for what, match in named:
            rows.append(
                [
                    name,
                    what,
                    match.n,
                    estimate_text(match.consistency),
                    estimate_text(match.spearman),
                    decimal(match.kappa.value) if match.kappa else None,
                    estimate_text(match.difference),
                ]
            )
    return render(rows, headers, format=format)


# --- sample sizes------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSizeAnswer:
    """Sample sizes for a study, with the assumptions behind them."""

    rows: Sequence[SampleSizes]
    """One row per width of the interval."""
    expected: float
    """Expected ICC."""
    raters: int
    """Raters per completion."""
    assurance: float
    """Probability that the interval is at most that wide."""
    population: int | None
    """Number of completions in all; None for unlimited."""


def plan_as_json(found: SampleSizeAnswer) -> dict[str, Any]:
    """Return the output of `medhelm agreement --plan --json`."""
    return {
        **select(found, "expected_icc=expected raters assurance population"),
        "plans": [select(row, "width bonett zou icc31=one_rater icc3k=mean") for row in found.rows],
    }


def plan_to_table(found: SampleSizeAnswer, format: str = "table") -> str:
    """Return one row per width: the number of completions that every rater must rate."""
    headers = ["Width", "ICC(3,k)", "ICC(3,1)", "ICC(3,1), Zou 2012", "ICC(3,1), Bonett 2002"]
    among = f" of {found.population:,}" if found.population else ""
    caption = (
        f"Completions{among} that all {found.raters} raters must rate for a 95% interval of at most this width "
        f"(probability {found.assurance:.0%}; Bonett: on average), if the ICC is {found.expected:g}"
    )
    cells: list[list[Value]] = [[row.width, row.mean, row.one_rater, row.zou, row.bonett] for row in found.rows]
    return render(cells, headers, format=format, caption=caption)
