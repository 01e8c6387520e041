"""Which runs are put side by side: only what was measured alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medhelm.domain import Estimate, JuryResult, Run
from medhelm.results.comparable import select_runs
from medhelm.results.runs.remarks import jury_remarks
from tests.support.remarks import texts
from tests.support.stores import jury_of, make_run

MEAN = Estimate(value=0.5, low=0.4, high=0.6, n=10)


def run(model: str, jury: JuryResult | None = None, **changes: object) -> Run:
    """A finished run on the benchmark `notes`."""
    metric = "jury" if jury else "rouge_l"
    fields = {"main_metric": metric, "estimates": {"corrected": {metric: MEAN}}, "started": "2026-01-01"}
    return make_run("notes", model, jury_result=jury, **(fields | changes))


AB, ABC = jury_of("a", "b"), jury_of("a", "b", "c")

CASES: dict[str, tuple[list[Run], dict[str, int], list[str]]] = {
    "the latest of equals": ([run("m", AB, started="2026-01-02"), run("m", AB)], {"m": 0}, []),
    "the one with most instances": ([run("m", AB, started="2026-01-02"), run("m", AB, n=11)], {"m": 1}, []),
    "judged before unjudged": ([run("m", started="2026-01-02"), run("m", AB)], {"m": 1}, []),
    "the jury of most models": ([run("m", ABC), run("m", AB), run("n", AB)], {"m": 1, "n": 2}, []),
    "the latest jury of equals": ([run("m", AB, started="2026-01-02"), run("m", ABC)], {"m": 0}, []),
    "a jury before more models without": ([run("m", AB), run("n"), run("o")], {"m": 0}, ["n", "o"]),
    "another jury is left out": ([run("m", AB), run("n", AB), run("o", ABC)], {"m": 0, "n": 1}, ["o"]),
    "another floor is another jury": (
        [run("m", AB), run("n", AB), run("o", jury_of("a", "b", min_judges=1))], {"m": 0, "n": 1}, ["o"],
    ),
    "a jury that gave no score": ([run("m", AB, estimates={}), run("m"), run("n")], {"m": 1, "n": 2}, []),
    "a jury with no score but the published default": (
        [run("m", AB, estimates={"published": {"jury": MEAN}}), run("m"), run("n")], {"m": 1, "n": 2}, [],
    ),
    "a model without a score before baselines": (
        [run("m", AB, estimates={}), run("baseline/a"), run("baseline/b")], {"baseline/a": 1, "baseline/b": 2}, ["m"],
    ),
    "without any jury": ([run("m"), run("n")], {"m": 0, "n": 1}, []),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "chosen", "left_out"), CASES.values(), ids=CASES)
def test_one_run_of_each_model_counts(runs: list[Run], chosen: dict[str, int], left_out: list[str]) -> None:
    found = select_runs(("", one) for one in runs)
    assert {model: next(i for i, r in enumerate(runs) if r is one) for (model, _), one in found.runs.items()} == chosen
    assert [one.model for one in found.left_out] == left_out


def test_a_run_that_was_stopped_does_not_count_and_is_named() -> None:
    found = select_runs([("", run("m", AB, status="partial", n_failed=4)), ("", run("n", AB))])
    assert (list(found.runs), found.unfinished) == ([("n", "notes")], ["notes with m (6 of 10)"])


def test_models_of_different_stores_have_labels() -> None:
    found = select_runs([(" [x]", run("m", AB)), (" [y]", run("m", AB))])
    assert list(found.runs) == [("m [x]", "notes"), ("m [y]", "notes")]


def test_missing_judgments_and_judges_under_test_are_named() -> None:
    missing = run("m", jury_of("a", "m", failures={"refusal": 3}))
    assert texts(jury_remarks([missing, run("n", AB), run("o", replace(AB, n_too_few_judges=2), title="Letters")])) == (
        "Judgments are missing: Notes 5.0% (refusal 6).",
        "m is both a judge and a model under test. `medhelm jury` measures self-preference.",
    )
    lost = replace(jury_of("a", "b", failures={"timeout": 15}), n_too_few_judges=4)
    assert texts(jury_remarks([run("n", lost)])) == (
        "Judgments are missing: Notes 50.0% (timeout 30); 4 completions have no score as a result.",
    )
    assert jury_remarks([run("n", AB), run("o")]) == []
