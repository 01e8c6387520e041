"""Models left out of a column: the group that counts, the reason, and the command that brings the others in."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Estimate, JuryResult, Run
from medhelm.domain.result import LeftOut, Remedy
from medhelm.results.comparable import left_out_remarks, select_runs
from tests.results.test_conditions import HELM, stored
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect
from tests.support.benchmarks.judged import court, is_judge, write_benchmark
from tests.support.cli import Medhelm
from tests.support.servers.openai import Server
from tests.support.stores import jury_of, make_model

MEAN = {"corrected": {"exact_match": Estimate(value=0.5, low=0.4, high=0.6, n=10)}}
OLD: dict[str, Any] = {"data": "1", "started": "2026-01-01"}
NEW: dict[str, Any] = {"data": "2", "key": "B", "started": "2026-01-02"}
FIRST: dict[str, Any] = {"data": "3", "n": 2, "settings": {"limit": 2}}
HOT: dict[str, Any] = {"settings": {"temperature": 0.7}}
COLD: dict[str, Any] = {"settings": {"temperature": 0.0}}

GROUPS: dict[str, tuple[list[dict[str, Any]], list[int], list[str]]] = {
    "the group of most models": (
        [{"model": "a", **OLD}, {"model": "b", **OLD}, {"model": "c", **NEW}], [0, 1],
        ["medhelm run toy --model a --model b --model c"],
    ),
    "of equal groups the one with most instances": (
        [{"model": "a", **FIRST, "started": "2026-01-02"}, {"model": "b"}], [1], ["medhelm run toy --model a"],
    ),
    "then the latest": ([{"model": "a", **OLD}, {"model": "b", **NEW}], [1], ["medhelm run toy --model a"]),
    "another draw of instances": (
        [{"model": "a"}, {"model": "b"}, {"model": "c", "n": 3, "data": "4", "settings": {"seed": 7}}], [0, 1],
        ["medhelm run toy --model c"],
    ),
    "the draw of the group": (
        [{"model": name, "data": "4", "settings": {"seed": 7}} for name in "ab"] + [{"model": "c", "n": 3}], [0, 1],
        ["medhelm run toy --model c --seed 7"],
    ),
    "more models on fewer instances": (
        [{"model": "a", **FIRST}, {"model": "b", **FIRST}, {"model": "c"}], [0, 1],
        ["medhelm run toy --model c --limit 2"],
    ),
    "a run of the group before one with more instances": (
        [{"model": "a", **FIRST}, {"model": "b", **FIRST}, {"model": "c"}, {"model": "c", **FIRST}], [0, 1, 3], [],
    ),
    "baselines do not decide": (
        [{"model": "baseline/majority", **OLD}, {"model": "baseline/random", **OLD}, {"model": "c", **NEW}], [2],
        ["medhelm run toy --model baseline/majority", "medhelm run toy --model baseline/random"],
    ),
    "but are ranked where there is nothing else": (
        [{"model": "baseline/majority", **OLD}, {"model": "baseline/random", **OLD}], [0, 1], [],
    ),
    "one temperature, and models that take none": (
        [{"model": "a", **HOT}, {"model": "b", **COLD}, {"model": "c", **COLD}, {"model": "thinker"}], [1, 2, 3],
        ["medhelm run toy --model a"],
    ),
    "another version of the definition": (
        [{"model": "a"}, {"model": "b", "definition": "f", "started": "2026-01-02"}], [1],
        ["medhelm rescore toy --model a"],
    ),
    "a new version of the definition that few have": (
        [{"model": "a"}, {"model": "b"}, {"model": "c", "definition": "f", "started": "2026-01-02"}], [0, 1],
        ["medhelm rescore toy"],
    ),
    "imported runs beside our own": (
        [{"model": "a", "data": "h", "prompt": "Q: {}", "origin": HELM}, {"model": "b"}, {"model": "c"}], [1, 2],
        ["medhelm run toy --model a"],
    ),
    "our own beside imported runs": (
        [{"model": name, "data": "h", "prompt": "Q: {}", "origin": HELM} for name in "ab"] + [{"model": "c"}], [0, 1],
        ["medhelm run --like HELM_RUNS/r --model c"],
    ),
    "imported runs without prompts are kept": (
        [{"model": "a", "data": "h", "origin": HELM, "is_stored": False}, {"model": "b"}], [0, 1], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "chosen", "commands"), GROUPS.values(), ids=GROUPS)
def test_the_largest_comparable_group_counts(
    runs: list[dict[str, Any]], chosen: list[int], commands: list[str], tmp_path: Path
) -> None:
    made = [stored(tmp_path / "s", estimates=MEAN, **run) for run in runs]
    found = select_runs(("", run) for run in made)
    assert sorted(made.index(run) for run in found.runs.values()) == chosen
    assert [one.command for one in found.left_out] == commands
    before = select_runs((("", run) for run in made), comparable_only=False)
    assert {model for model, _ in before.runs} == {run.model for run in made}


def test_a_temperature_of_the_user_is_named_as_such(tmp_path: Path) -> None:
    hot = make_model("x", parameters={"temperature": 0.7})
    runs = [stored(tmp_path / "s", name, **COLD, estimates=MEAN) for name in "ab"]
    runs.append(stored(tmp_path / "s", "x", **COLD, estimates=MEAN, resolved_model=hot))
    (one,) = select_runs(("", run) for run in runs).left_out
    assert one.reason == "sampled at temperature 0.7, the others at 0 (its temperature is set in models.yaml)"
    (remark,) = left_out_remarks([one])
    # To repeat the run alone would change nothing.
    assert str(remark).endswith(
        "Set `temperature: 0` in models.yaml for it; then `medhelm run toy --model x` brings it in."
    )


def test_a_model_without_a_temperature_of_its_own_is_told_that_of_the_others(tmp_path: Path) -> None:
    runs = [
        stored(
            tmp_path / "s",
            name,
            **COLD,
            estimates=MEAN,
            resolved_model=make_model(name, parameters={"temperature": 0.8}),
        )
        for name in "ab"
    ]
    runs.append(stored(tmp_path / "s", "x", **COLD, estimates=MEAN))
    left_out = select_runs(("", run) for run in runs).left_out
    (remark,) = left_out_remarks(left_out)
    assert "sampled at temperature 0, the others at 0.8" in str(remark)
    assert "Set `temperature: 0.8` in models.yaml for it; then `medhelm run toy --model x` brings it in." in str(remark)


def test_other_conditions_need_no_change_of_models(tmp_path: Path) -> None:
    runs = [stored(tmp_path / "s", name, estimates=MEAN) for name in "ab"]
    runs.append(stored(tmp_path / "s", "x", **FIRST, estimates=MEAN))
    (remark,) = left_out_remarks(select_runs(("", run) for run in runs).left_out)
    assert "models.yaml" not in str(remark)


def test_a_command_names_the_store_if_there_are_several(tmp_path: Path) -> None:
    runs = [(" [s]", stored(tmp_path / "s", name, estimates=MEAN)) for name in "ab"]
    runs.append((" [t]", stored(tmp_path / "t", "x", **FIRST, estimates=MEAN)))
    (one,) = select_runs(runs).left_out
    assert (one.model, one.command) == ("x [t]", f"medhelm run toy --model x --store {tmp_path / 't'}")


def with_codes(result: JuryResult) -> JuryResult:
    return replace(result, jury=replace(result.jury, has_codes=True))


JURIES: dict[str, tuple[dict[str, Any], str]] = {
    "no jury": ({"main_metric": "rouge_l"}, "medhelm rejudge toy --model x --judge a --judge b"),
    "a judge more": ({"jury_result": jury_of("a", "b", "c")}, "medhelm rescore toy --model x --without c"),
    "another judge": ({"jury_result": jury_of("a", "c")}, "medhelm rejudge toy --model x --judge b --without c"),
    "fewer judges needed": (
        {"jury_result": jury_of("a", "b", min_judges=1)}, "medhelm rescore toy --model x --min-judges 2",
    ),
    "judged with codes, the others without": (
        {"jury_result": with_codes(jury_of("a", "b"))}, "medhelm rejudge toy --judge a --judge b",
    ),
    "another rubric": (
        {"jury_result": jury_of("a", "b"), "definition": "f"}, "medhelm rejudge toy --model x --judge a --judge b",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "command"), JURIES.values(), ids=JURIES)
def test_the_command_gives_a_model_the_jury_of_the_others(
    changes: dict[str, Any], command: str, tmp_path: Path
) -> None:
    def judged(model: str, **more: Any) -> Run:
        fields: dict[str, Any] = {
            "main_metric": "jury",
            "jury_result": jury_of("a", "b"),
            "started": "2026-01-02",
        } | more
        mean = {"corrected": {fields["main_metric"]: Estimate(value=3, low=2, high=4, n=4)}}
        return stored(tmp_path / "s", model, **fields, estimates=mean)

    runs = [judged("m"), judged("n"), judged("x", **{"started": "2026-01-01", **changes})]
    (one,) = select_runs(("", run) for run in runs).left_out
    assert (one.model, one.command) == ("x", command)


def test_a_remark_holds_all_models_and_benchmarks_with_one_reason() -> None:
    def entry(model: str, benchmark: str, **changes: Any) -> LeftOut:
        fields: dict[str, Any] = {"action": "rescore", "models": (model,), "sends_nothing": True} | changes
        return LeftOut(
            model=model, benchmark=benchmark, title=benchmark.title(), reason="graded by c", remedy=Remedy(**fields)
        )

    both = [entry(model, name) for name in ("aci", "medec") for model in ("m", "n")]
    (remark,) = left_out_remarks(both)
    assert (remark.code, remark.subject) == ("measured_differently", "")
    assert remark.text == (
        "Left out of Aci and Medec: m and n (graded by c). "
        "`medhelm rescore aci medec --model m --model n` brings them in and sends nothing."
    )
    remarks = left_out_remarks([*both, entry("o", "aci"), entry("p", "medec", models=(), sends_nothing=False)])
    assert [remark.text.partition("`")[2].partition("`")[0] for remark in remarks] == [
        "medhelm rescore aci --model m --model n --model o",
        "medhelm rescore medec --model m --model n",
        "medhelm rescore medec",
    ]


# --- through the command line -----------------------------------------------------------------------------------------


@pytest.fixture
def shell(medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Medhelm:
    """The command line, where benchmarks and store are found without options, as a reader of a command has them."""
    monkeypatch.setenv("MEDHELM_BENCHMARKS", str(tmp_path / "definitions"))
    monkeypatch.setenv("MEDHELM_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OPENAI_API_KEY", "invented")
    return medhelm


def board(shell: Medhelm) -> tuple[dict[str, float], list[dict[str, str]]]:
    """Return model -> its value on the only benchmark, and what is left out of it."""
    found = shell("leaderboard", "--json").json
    values = {
        model["model"].partition("@")[0]: cell["value"]
        for model in found["models"]
        for cell in model["benchmarks"].values()
    }
    return values, found["left_out"]


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def new_key(place: Path) -> None:
    """Correct one answer in the data."""
    replaced(place / "rows.jsonl", '"number 0?", "answer": "A"', '"number 0?", "answer": "B"')


def new_prompt(place: Path) -> None:
    replaced(place / "benchmark.yaml", "  Answer:", "  Your answer:")


def new_metrics(place: Path) -> None:
    replaced(place / "benchmark.yaml", "quasi_exact_match, choice_extracted", "choice_extracted")


def new_answer_column(place: Path) -> None:
    replaced(place / "benchmark.yaml", "{column: answer, form: letter}", "{column: corrected, form: letter}")


def more_data(place: Path) -> None:
    rows = [{"id": "q9", "question": "number 9?", "answer": "A", "topic": "1"}]
    with (place / "rows.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


CHANGES: dict[str, tuple[Callable[[Path], None], str, str, int]] = {
    "answer key": (new_key, "run", "scored with another answer key on 1 of 9 instances", 0),
    "answer column": (new_answer_column, "rescore", "scored with another answer key on 1 of 9 instances", 0),
    "prompts": (new_prompt, "run", "given other prompts on 9 of 9 instances", 9),
    "metrics": (
        new_metrics, "rescore",
        "scored by another version of the benchmark's definition, such as its rubric or metrics", 0,
    ),
    "data": (more_data, "run", "run on only 9 of 10 instances", 1),
}  # fmt: skip
"""Change of a benchmark -> how, the command, the reason, and requests that a model needs after it."""

BY_BOTH = {"answer key", "answer column"}
"""One change for each of the two commands: on these, two models before the change are not only tested at length."""


@pytest.mark.parametrize(
    ("n_before", "change", "action", "reason", "n_sent"),
    [
        pytest.param(n, *change, id=f"{name}-{n}", marks=[pytest.mark.long] if n == 2 and name not in BY_BOTH else [])
        for n in (1, 2)
        for name, change in CHANGES.items()
    ],
)
def test_the_command_includes_the_models_that_were_left_out(
    change: Callable[[Path], None],
    action: str,
    reason: str,
    n_sent: int,
    n_before: int,
    shell: Medhelm,
    server: Server,
    tmp_path: Path,
) -> None:
    place = make_benchmark(tmp_path / "definitions")
    lines = (place / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [{**json.loads(line), "corrected": json.loads(line)["answer"]} for line in lines]
    rows[0]["corrected"] = "B"
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    server.answer_with(answers_with(perfect))
    before, after = [f"openai/m{n}@{server.url}/v1" for n in range(n_before)], f"openai/new@{server.url}/v1"
    for name in (*before, "baseline/majority"):
        assert shell("run", "toy", "--model", name).code == 0
    change(place)
    assert shell("run", "toy", "--model", after).code == 0

    values, left_out = board(shell)
    models = {"openai/new"} if n_before == 1 else {f"openai/m{n}" for n in range(n_before)}
    assert {name for name in values if not name.startswith("baseline/")} == models
    named = {one["model"].partition("@")[0]: one for one in left_out}
    if n_before == 1:
        assert named["openai/m0"]["reason"] == reason
    for one in named.values():
        assert (one["benchmark"], one["command"].split()[1]) == ("toy", action)

    sent = server.count
    for command in {one["command"] for one in left_out}:
        assert shell(*shlex.split(command)[1:]).code == 0
    assert server.count == sent + n_sent * n_before
    values, left_out = board(shell)
    assert left_out == []
    assert set(values) == {"openai/new", "baseline/majority", *(f"openai/m{n}" for n in range(n_before))}
    assert len({values[name] for name in values if name.startswith("openai/")}) == 1


def judged(server: Server, names: str) -> list[str]:
    return [word for name in names.split() for word in ("--judge", f"openai/{name}@{server.url}/v1")]


def new_rubric(place: Path) -> None:
    replaced(place / "benchmark.yaml", "Is it plain?", "Is it plain English?")


JURY_CHANGES: dict[str, tuple[Callable[[Path], None] | None, str, str, int]] = {
    "no jury": (None, "", "not graded by ", 18),
    "a judge less": (None, "judge-1", "graded by ", 9),
    "a judge more": (None, "judge-1 judge-2 judge-3", "graded by ", 0),
    "rubric": (new_rubric, "judge-1 judge-2", "scored by another version of the benchmark's definition", 18),
}
"""Difference of the first model -> change of the benchmark after it, its judges, the reason, requests to judges."""


@pytest.mark.parametrize(("change", "judges", "reason", "n_judged"), JURY_CHANGES.values(), ids=JURY_CHANGES)
def test_the_command_gives_stored_completions_the_jury_of_the_others(
    change: Callable[[Path], None] | None,
    judges: str,
    reason: str,
    n_judged: int,
    shell: Medhelm,
    server: Server,
    tmp_path: Path,
) -> None:
    place = write_benchmark(tmp_path / "definitions")
    grade = court()
    server.answer_with(lambda body: grade(body) if is_judge(body) else chat(f"An answer of {body['model']}"))
    first, second = (f"openai/{name}@{server.url}/v1" for name in ("first", "second"))
    assert shell("run", "letters", "--model", first, *judged(server, judges)).code == 0
    if change:
        change(place)
    assert shell("run", "letters", "--model", second, *judged(server, "judge-1 judge-2")).code == 0

    values, (one,) = board(shell)
    assert set(values) == {"openai/second"}
    assert one["reason"].startswith(reason)
    sent = len(server.bodies)
    assert shell(*shlex.split(one["command"])[1:]).code == 0
    assert len(server.bodies) == sent + n_judged
    assert all(is_judge(body) for body in server.bodies[sent:])
    values, left_out = board(shell)
    assert (set(values), left_out) == ({"openai/first", "openai/second"}, [])


def test_comparisons_releases_and_cards_say_the_same(shell: Medhelm, server: Server, tmp_path: Path) -> None:
    place = make_benchmark(tmp_path / "definitions")
    make_benchmark(tmp_path / "definitions", name="other")
    server.answer_with(answers_with(perfect))
    old, new, last = (f"openai/{name}@{server.url}/v1" for name in ("old", "new", "last"))
    assert shell("run", "toy", "other", "--model", old).code == 0
    new_key(place)
    assert shell("run", "toy", "other", "--model", new, "--model", last).code == 0
    reason = "scored with another answer key on 1 of 9 instances"
    entry = {"model": old, "benchmark": "toy", "reason": reason, "command": f"medhelm run toy --model {old}"}
    sentence = (
        f"Left out of toy: openai/old ({reason}). `medhelm run toy --model {old}` brings it in and sends nothing."
    )

    assert shell("leaderboard", "--json").json["left_out"] == [entry]
    assert sentence in shell("leaderboard").out
    assert shell("leaderboard", "--suite", suite(tmp_path, "other"), "--json").json["left_out"] == []
    pair = shell("compare", old, new, "--json").json
    assert ([one["id"] for one in pair["benchmarks"]], pair["left_out"]) == (["other"], [entry])
    assert sentence in shell("compare", old, new).out
    assert shell("compare", new, last, "--json").json["left_out"] == []
    assert shell("compare", "--json").json["left_out"] == [entry]
    refused = shell("compare", old, new, "--suite", suite(tmp_path, "toy"))
    assert (refused.code, sentence in refused.err) == (2, True)

    assert shell("release", "first").code == 0
    assert shell("verify", "first").code == 0
    card = shell("export", "card", tmp_path / "card.json")
    assert card.code == 0
    content = json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))
    assert f"openai/old is left out of toy: {reason}." in content["limits"]
    mine, theirs = (model["digests"]["toy"] for model in content["models"] if model["name"] != "openai/old")
    assert mine == theirs
    assert shell(*shlex.split(entry["command"])[1:]).code == 0
    assert "left_out" in shell("diff", "first", "current", "--json").out


def suite(folder: Path, name: str) -> Path:
    file = folder / f"{name}.txt"
    file.write_text(f"{name}\n", encoding="utf-8")
    return file
