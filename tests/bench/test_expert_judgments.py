"""Trivial scorers against experts: the readers, the scorers, and that the page says what is computed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.studies import expert_judgments as expert_judgements
from bench.studies.expert_judgments import BEGIN, END, PAGE, tables
from medhelm.results.agreement import agreement
from medhelm.results.formats.tables import with_interval
from tests.support.benchmarks.library import benchmark

NUMBER = re.compile(r"-?\d+\.\d+")
VALUE = re.compile(r"\| (-?\d+\.\d+)")
LIMIT = re.compile(r"[\[,] ?(-?\d+\.\d+)")


# --- the page ---------------------------------------------------------------------------------------------------------


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_tables_on_the_page_are_those_that_are_computed(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by `python -m bench.expert_judgements --write-docs`; here the intervals are drawn less often."""
    monkeypatch.setattr(expert_judgements, "DRAWS", 60)
    shown = page().partition(BEGIN)[2].partition(END)[0].strip()
    computed = "\n".join(tables(data_dir)).strip()
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", computed)
    values, ends = (
        [float(x) for text in (shown, computed) for x in pattern.findall(text)] for pattern in (VALUE, LIMIT)
    )
    half = len(values) // 2
    assert half > 130
    assert values[:half] == values[half:]
    assert ends[: len(ends) // 2] == pytest.approx(ends[len(ends) // 2 :], abs=0.3)


def test_the_example_on_the_page_gives_the_numbers_beside_it(tmp_path: Path) -> None:
    (rows,) = re.findall(r"```csv\n(.*?)```", page(), re.DOTALL)
    (tmp_path / "ratings.csv").write_text(rows, encoding="utf-8")
    rated = agreement(tmp_path / "ratings.csv", tmp_path / "none", [benchmark("aci_bench")])
    assert rated is not None
    found = rated.datasets["aci_bench"]
    jury, among = found.jury, found.one_clinician.raters.of_mean(2)
    assert jury.resampled and jury.agreement and jury.difference and jury.kappa and among
    expected = {
        "jury, ICC(3,k) by Fisher": (jury.consistency.value, jury.consistency.low, jury.consistency.high),
        "jury, ICC(3,k) by bootstrap": (jury.resampled.value, jury.resampled.low, jury.resampled.high),
        "jury, ICC(2,1)": (jury.agreement.value, jury.agreement.low, jury.agreement.high),
        "jury minus clinicians": (jury.difference.value, jury.difference.low, jury.difference.high),
        "Spearman": (jury.spearman.value, jury.spearman.low, jury.spearman.high),
        "weighted kappa": (jury.kappa.value, jury.kappa.low, jury.kappa.high),
    }
    lines = [f"| {name} | {with_interval(*ends)} |" for name, ends in expected.items()]
    lines.append(f"| clinicians, ICC(3,k) | {among.value:.3f} |")
    lines.append(f"| completions, raters | {found.n_instances}, {len(found.raters)} |")
    assert [line for line in lines if line not in page()] == []
