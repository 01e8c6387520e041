"""Stores that earlier versions wrote can be read, shown, scored again, verified and continued.

`fixtures/stores/<version>` holds the stores of one version, the benchmarks and models they were made with, and in
`expected` what its own commands said of them. The script `write_<version>.py.in` beside it tells how they were made.
Only the command line is used here. Later versions may say more: added keys, columns and files are fine.
"""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Medhelm

STORES = Path(__file__).parents[1] / "fixtures" / "stores"
VERSIONS = sorted(folder.name for folder in STORES.iterdir() if folder.is_dir())
EXPECTED = [file for version in VERSIONS for file in sorted((STORES / version / "expected").iterdir())]
HASH_DIGITS = 16
"""Length of a keyed hash in place of the name of a cluster."""

EXPORTED = [file for file in EXPECTED if file.name.endswith("-runs.csv")]
RESCORES = [file for file in EXPECTED if file.name.endswith("-rescore.json") and not file.name.startswith("imported")]
"""Without imported runs: rescoring gives them scores that their harness did not."""
JURIES = {"batch-jury.json", "imported-jury.json"}
"""Like `jury-jury.json`, which is not only tested at length."""
OUTPUTS = [file for file in EXPECTED if file.suffix == ".json" and file not in RESCORES]
SHOWN = [
    pytest.param(file, marks=[pytest.mark.long] * (file.name in JURIES or place % 3 > 0))
    for place, file in enumerate(OUTPUTS)
]
RUNS = [file for file in OUTPUTS if "-run" in file.stem]

VOLATILE = {"seconds"}
"""What differs each time a command is given."""

SENTENCES = {"warnings", "remarks", "notes", "not_computed"}
"""Sentences for readers, which later versions may word differently or add to: none may go."""


INTERVALS = {"low", "high", "method"} | {
    f"{of}_{end}" for of in ("value", "completers") for end in ("low", "high", "method")
}
"""What this version computes by other methods from the same scores; with `value_` and `completers_` in tables."""

RECOMPUTING = ("-run", "-rescore", "-jury", "-filter")
"""Commands that compute intervals; all others show those in the store."""


RANKING = {"worth", "rank", "rank_low", "rank_high", "tie_group", "told_apart", "told_apart_adjusted"}
"""What follows from the way models are ranked. Version 1 ranked and tested win rates; win shares replaced them."""

AS_BEFORE = ["--rank-baselines", "--completers-only"]
"""Options of `medhelm leaderboard` for what version 1 always did."""


REVISED = {
    "v1/jury-verify.json": [".same: True became False"],
    "v1/plain-leaderboard-published.json": [".benchmarks[1].mde: 0.437931 became 0.446802"],
    "v1/imported-rescore.json": [
        f".runs[{place}].metrics.{name}{change}"
        for place, name, value, n in ((0, "match", 2 / 3, 3), (1, "choice", 2 / 3, 3), (4, "acc", 0.6, 5))
        for change in (
            f".value: None became {value!r}",
            f".n: 0 became {n}",
            f".n_failed: 5 became {5 - n}",
            ".not_computed is gone",
        )
    ],
    "v1/plain-run.json": [
        ".runs[1].run_dir: 'plain/runs/choice/thinker-d0695138ad' became 'plain/runs/choice/thinker-510663a378'",
        ".runs[4].run_dir: 'plain/runs/codes/thinker-e3a822d0f1' became 'plain/runs/codes/thinker-3b1fd8659d'",
    ],
}
"""File -> what this version says otherwise. Models are compared by means of groups with weighted scores now. A model
that reasons has a temperature in its settings, so its run is another one, with the same completions. Metrics of other
harnesses that compare a completion with the target have corrected scores."""


POINTS = "advice"
"""The benchmark whose rubric has points."""


def name_of(file: Path) -> str:
    return f"{file.parent.parent.name}/{file.name}"


@pytest.fixture
def commands(medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch) -> Medhelm:
    """The command line, with keys for the services that nobody asks."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "invented")
    return medhelm


def unpack(file: Path, to: Path) -> str:
    """Copy the stores that an expectation is about, and what they were made with; returns the store's name."""
    shutil.copytree(file.parent.parent, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("expected"))
    return file.name.partition("-")[0]


def n_sentences(value: Any) -> int:
    """Count the sentences of a field: those of a list, or one text."""
    return len(value) if isinstance(value, list) else int(bool(value))


def holds_its_value(one: Mapping[str, Any]) -> bool:
    """Tell whether an interval holds its value, or has neither end."""
    found = (one.get("low", one.get("value_low")), one.get("value"), one.get("high", one.get("value_high")))
    low, value, high = (math.nan if number in (None, "") else float(number) for number in found)
    return low <= value <= high or (math.isnan(low) and math.isnan(high))


def differences(then: Any, now: Any, path: str = "", *, recomputed: bool = False) -> Iterator[str]:
    """What is gone or other than it was; what was added counts for nothing.

    Parameters: recomputed, True if intervals were computed again: they need to hold the same value.
    """
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key, value in then.items():
            if key in VOLATILE | RANKING:
                continue
            if key == "cluster" and value and len(now.get(key, "")) == HASH_DIGITS:
                continue
            if key in SENTENCES and key in now and n_sentences(value) <= n_sentences(now[key]):
                continue
            if recomputed and key in INTERVALS and key in now and "value" in then and holds_its_value(now):
                continue
            if key in now:
                yield from differences(value, now[key], f"{path}.{key}", recomputed=recomputed)
            else:
                yield f"{path}.{key} is gone"
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for place, (before, after) in enumerate(zip(then, now, strict=True)):
            yield from differences(before, after, f"{path}[{place}]", recomputed=recomputed)
    elif isinstance(then, float) and isinstance(now, float | int) and not isinstance(now, bool):
        if not math.isclose(then, now, rel_tol=1e-9, abs_tol=1e-12):
            yield f"{path}: {then!r} became {now!r}"
    elif then != now:
        yield f"{path}: {then!r} became {now!r}"


def leave_out_failures(output: Any) -> None:
    """Put back the means over completions that arrived: refusals were left out then, and count as wrong now."""
    for run in output.get("runs", ()) if isinstance(output, dict) else ():
        for name, found in run.get("metrics", {}).items():
            if "completers" in found:
                run["metrics"][name] = run["metrics_by_rule"]["corrected"][name] = found["completers"]
        for group in run.get("groups", {}).values():
            group["corrected"] = group.get("completers", group.get("corrected"))


def counted_rows(file: Path) -> list[dict[str, str]]:
    """Rows of a table, those of `estimates.csv` with the means over completions that arrived; see above."""
    found = rows(file)
    for row in found:
        if row.get("completers_value"):
            for part in ("value", "low", "high"):
                row["value" if part == "value" else f"value_{part}"] = row[f"completers_{part}"]
            row["n"], row["method"] = row["completers_n"], row["completers_method"]
            row["n_failed"] = str(int(row["n_failed"]) + int(row["n_failed_by_model"]))
    return found


def rows(file: Path) -> list[dict[str, str]]:
    """The rows of a table, with clusters numbered within a benchmark: their names are keyed hashes now."""
    with file.open(encoding="utf-8", newline="") as lines:
        found = list(csv.DictReader(lines))
    numbers: dict[tuple[str, str], str] = {}
    for row in found:
        if row.get("cluster"):
            row["cluster"] = numbers.setdefault((row["benchmark"], row["cluster"]), str(len(numbers)))
    return found


def exported(commands: Medhelm, store: str, folder: Path) -> Path:
    assert commands("export", "csv", folder, "--store", store).code == 0
    return folder


def assert_same_output(file: Path, commands: Medhelm, store: str) -> None:
    """Give a recorded command again: same exit code, same output."""
    then = json.loads(file.read_text(encoding="utf-8"))
    revised = then["command"][0] == "leaderboard"
    now = commands(*then["command"], "--store", store, *(AS_BEFORE if revised else []))
    is_reproduced = then["command"][0] != "verify" or POINTS not in str(then["output"]["runs"])
    assert now.code == (then["code"] if is_reproduced else 1), now.err
    output = now.json
    if revised:
        output["warnings"] = then["output"]["warnings"]
        order = [model["model"] for model in then["output"]["models"]]
        output["models"].sort(key=lambda model: order.index(model["model"]))
        for model in (*then["output"]["models"], *output["models"]):
            for average in ("win_rate", "macro_average"):
                if model[average]:
                    model[average] = {"value": model[average]["value"]}
    if then["command"][0] == "jury" and output["overall"]["ranking"]:  # by win share now, as on the leaderboard
        output["overall"]["ranking"] = then["output"]["overall"]["ranking"]
    leave_out_failures(output)
    recomputed = any(kind in file.stem for kind in RECOMPUTING)
    changed = [
        one
        for one in differences(then["output"], output, recomputed=recomputed)
        if not is_of_points(one, then["output"])
    ]
    assert changed == REVISED.get(name_of(file), [])


def is_of_points(difference: str, output: Mapping[str, Any]) -> bool:
    """Tell whether a number is of a rubric with points: a completion can have less than none of them now."""
    run = re.match(r"\.runs\[(\d+)\]\.(metrics|metrics_by_rule|groups|jury|differences|same)", difference)
    if run:
        return str(output["runs"][int(run[1])]["benchmark"]) == POINTS
    return difference.startswith((f".benchmarks.{POINTS}.", ".overall.", ".leaderboard"))


@pytest.mark.parametrize("file", SHOWN, ids=name_of)
def test_commands_say_of_an_old_store_what_they_said(file: Path, commands: Medhelm, tmp_path: Path) -> None:
    assert_same_output(file, commands, unpack(file, tmp_path))


@pytest.mark.parametrize("file", EXPORTED, ids=name_of)
def test_an_old_store_holds_the_same_runs_records_and_judgments(file: Path, commands: Medhelm, tmp_path: Path) -> None:
    store = unpack(file, tmp_path)
    now = exported(commands, store, tmp_path / "out")
    then = sorted(file.parent.glob(f"{store}-*.csv"))
    assert len(then) == 4
    for table in then:
        changed = list(differences(rows(table), counted_rows(now / table.name.partition("-")[2])))
        assert changed == [], table.name


@pytest.mark.parametrize("file", RESCORES, ids=name_of)
def test_rescoring_reproduces_every_score(file: Path, commands: Medhelm, tmp_path: Path) -> None:
    store = unpack(file, tmp_path)
    before = exported(commands, store, tmp_path / "before")
    assert_same_output(file, commands, store)
    after = exported(commands, store, tmp_path / "after")
    for table in ("estimates.csv", "records.csv", "judgments.csv"):
        then, now = (without_points_scores(rows(folder / table)) for folder in (before, after))
        assert list(differences(then, now, recomputed=True)) == [], table


def without_points_scores(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Leave out the scores of rubrics with points by the corrected rule; see `is_of_points`."""
    for row in rows:
        if row["benchmark"] == POINTS:
            for name in ("jury_corrected", "main_score_corrected"):
                row.pop(name, None)
    return [row for row in rows if (row["benchmark"], row.get("scoring")) != (POINTS, "corrected")]


@pytest.mark.parametrize("file", RUNS, ids=name_of)
def test_continuing_an_old_run_sends_nothing(file: Path, commands: Medhelm, tmp_path: Path) -> None:
    """No server is at the address in the store: a request would fail."""
    store = unpack(file, tmp_path)
    for run in tmp_path.glob(f"{store}/runs/*/*/run.json"):
        shutil.rmtree(run.parent)  # so that everything has to come from the cache
    command: Sequence[str] = json.loads(file.read_text(encoding="utf-8"))["command"]
    runs = commands(*command, "--store", store).json["runs"]
    asked = [run for run in runs if not run["model"].startswith("baseline/")]
    assert [run["status"] for run in runs] == ["complete"] * len(runs)
    assert {run["requests_sent"] for run in runs} == {0}
    assert all(run["requests_cached"] == run["n"] for run in asked)
    judges = [judge for run in runs for judge in ((run.get("jury") or {}).get("judges") or {}).values()]
    assert {judge["requests_sent"] for judge in judges} <= {0}
