"""Models left out of a column: the group that counts, the reason, and the command that brings the others in."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Estimate, Instance, JuryResult, Message, Model, Origin, Prompt, Reference, Run
from medhelm.domain.result import LeftOut, Remedy
from medhelm.results.comparable import left_out_remarks, select_runs, temperature_remarks
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import create
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect
from tests.support.benchmarks.judged import court, is_judge, write_benchmark
from tests.support.cli import Medhelm, assert_refused
from tests.support.servers.openai import Server
from tests.support.stores import jury_of, make_model, make_run

HELM = Origin(harness="helm", version="", run="r", sha256="")


def stored(
    folder: Path,
    model: str = "openai/m",
    *,
    n: int = 4,
    data: str = "1",
    definition: str = "d",
    prompt: str = "Question {}",
    key: str = "A",
    is_stored: bool = True,
    **changes: Any,
) -> Run:
    """A run of `n` instances in a store, with its prompts and references if `is_stored`."""
    run = make_run("toy", model, benchmark_digest=definition, data_digest=data, n=n, **changes)
    store = create(folder)
    if is_stored:
        rows = [
            (
                Instance(id=f"i{i}", fields={}, references=(Reference(text=key, correct=True),)),
                Prompt(messages=(Message(role="user", text=prompt.format(i)),)),
            )
            for i in range(n)
        ]
        write_prompts(store.prompts_file("toy", definition, data), rows)
    return replace(run, folder=store.run_folder("toy", model, run.id))


MEAN = {"corrected": dict.fromkeys(("exact_match", "jury", "rouge_l"), Estimate(value=0.5, low=0.4, high=0.6, n=10))}
OLD: dict[str, Any] = {"data": "1", "started": "2026-01-01"}
NEW: dict[str, Any] = {"data": "2", "key": "B", "started": "2026-01-02"}
FIRST: dict[str, Any] = {"data": "3", "n": 2, "settings": {"limit": 2}}
HOT: dict[str, Any] = {"settings": {"temperature": 0.7}}
COLD: dict[str, Any] = {"settings": {"temperature": 0.0}}

AB = jury_of("a", "b")


def limited(max_tokens: int) -> dict[str, Any]:
    return {"settings": {"temperature": 0.0, "max_tokens": max_tokens}}


def judged(result: JuryResult = AB) -> dict[str, Any]:
    return {"main_metric": "jury", "jury_result": result}


JUDGED: list[dict[str, Any]] = [{"model": name, **judged(), "started": "2026-01-02"} for name in "mn"]
UNJUDGED: dict[str, Any] = {"main_metric": "rouge_l"}
WRITER = make_model("m", max_tokens=None)
BASELINE = Model(name="baseline/majority", provider="baseline", remote_name="majority")

GROUPS: dict[str, tuple[list[dict[str, Any]], list[int], list[tuple[str, str]]]] = {
    "the group of most models": (
        [{"model": "a", **OLD}, {"model": "b", **OLD}, {"model": "c", **NEW}], [0, 1],
        [("scored with another answer key on 4 of 4 instances", "run toy --model a --model b --model c")],
    ),
    "of equal groups the one with most instances": (
        [{"model": "a", **FIRST, "started": "2026-01-02"}, {"model": "b"}], [1],
        [("run on only the first 2 of 4 instances", "run toy --model a")],
    ),
    "the draw of the group": (
        [{"model": name, "data": "4", "settings": {"seed": 7}} for name in "ab"] + [{"model": "c", "n": 3}], [0, 1],
        [("run on only 3 of 4 instances", "run toy --model c --seed 7")],
    ),
    "more models on fewer instances": (
        [{"model": "a", **FIRST}, {"model": "b", **FIRST}, {"model": "c"}], [0, 1],
        [("run on 4 instances, the others on only the first 2", "run toy --model c --limit 2")],
    ),
    "data that is not stored": (
        [{"model": "a", "is_stored": False}, {"model": "b", "data": "2", "started": "2026-01-02"}], [1],
        [("run on another version or selection of the data", "run toy --model a")],
    ),
    "other files with the same content": ([{"model": "a"}, {"model": "b", "data": "2"}], [0, 1], []),
    "baselines do not decide": (
        [{"model": "baseline/majority", **OLD}, {"model": "baseline/random", **OLD}, {"model": "c", **NEW}], [2],
        [("scored with another answer key on 4 of 4 instances", f"run toy --model baseline/{name}")
         for name in ("majority", "random")],
    ),
    "a baseline reads no prompt and samples nothing": (
        [{"model": "baseline/majority", "definition": "f", "prompt": "Say {}", "resolved_model": BASELINE, **COLD},
         {"model": "m", "resolved_model": WRITER, **HOT}], [0, 1], [],
    ),
    "one temperature, and models that take none": (
        [{"model": "a", **HOT}, {"model": "b", **COLD}, {"model": "c", **COLD}, {"model": "thinker"}], [1, 2, 3],
        [("sampled at temperature 0.7, the others at 0", "run toy --model a")],
    ),
    "a reasoning model takes no temperature and its own limit": (
        [{"model": "a", "resolved_model": make_model("a", reasoning=True), **limited(9000)},
         {"model": "m", "resolved_model": WRITER, **COLD, **limited(5)}], [0, 1], [],
    ),
    "a server that refuses a temperature": (
        [{"model": "a", "refused_parameters": {"temperature": 4}, **HOT}, {"model": "b", **COLD}], [0, 1], [],
    ),
    "the benchmark's limit": (
        [{"model": name, "resolved_model": WRITER, **limited(n)} for name, n in (("a", 500), ("b", 500), ("m", 5))],
        [0, 1], [("limited to 5 tokens a completion, the others to 500", "run toy --model m")],
    ),
    "a limit of the model's own": (
        [{"model": "a", "resolved_model": replace(WRITER, max_tokens=64), **limited(64)},
         {"model": "m", "resolved_model": WRITER, **limited(5)}], [0, 1], [],
    ),
    "a new version of the definition that few have": (
        [{"model": "a"}, {"model": "b"}, {"model": "c", "definition": "f", "started": "2026-01-02"}], [0, 1],
        [("scored by another version of the benchmark's definition, such as its rubric or metrics", "rescore toy")],
    ),
    "our own beside imported runs": (
        [{"model": name, "data": "h", "prompt": "Q: {}", "origin": HELM} for name in "ab"] + [{"model": "c"}], [0, 1],
        [("given the prompts of MedHELM, the others those of HELM", "run --like HELM_RUNS/r --model c")],
    ),
    "imported runs without prompts are kept": (
        [{"model": "a", "data": "h", "origin": HELM, "is_stored": False}, {"model": "b"}], [0, 1], [],
    ),
    "another judge": (
        [*JUDGED, {"model": "x", **judged(jury_of("a", "c"))}], [0, 1],
        [("graded by a and c, the others by a and b", "rejudge toy --model x --judge b --without c")],
    ),
    "fewer judges needed": (
        [*JUDGED, {"model": "x", **judged(jury_of("a", "b", min_judges=1))}], [0, 1],
        [("scored if 1 judge graded, the others if 2 did", "rescore toy --model x --min-judges 2")],
    ),
    "judged with codes, the others without": (
        [*JUDGED, {"model": "x", **judged(replace(AB, jury=replace(AB.jury, has_codes=True)))}], [0, 1],
        [("graded with verification codes, the others without them", "rejudge toy --judge a --judge b")],
    ),
    "a jury before more models without": (
        [{"model": "m", **judged()}, {"model": "n", **UNJUDGED}, {"model": "o", **UNJUDGED}], [0],
        [("not graded by a and b", f"rejudge toy --model {name} --judge a --judge b") for name in "no"],
    ),
    "a jury that gave no score": (
        [{"model": "m", **judged(), "estimates": {}}, {"model": "m", **UNJUDGED}], [1], [],
    ),
    "of one model the latest run": (
        [{"model": "m", **judged(), "started": "2026-01-02"}, {"model": "m", **judged()}], [0], [],
    ),
    "of one model the run with most instances": (
        [{"model": "m", **judged(), "started": "2026-01-02"}, {"model": "m", **judged(), "n": 5}], [1], [],
    ),
    "of one model the judged run": (
        [{"model": "m", **UNJUDGED, "started": "2026-01-02"}, {"model": "m", **judged()}], [1], [],
    ),
}  # fmt: skip
"""Runs, the places of those that count, and the reason and command for each of the others."""


@pytest.mark.parametrize(("runs", "chosen", "left_out"), GROUPS.values(), ids=GROUPS)
def test_the_largest_comparable_group_counts(
    runs: list[dict[str, Any]], chosen: list[int], left_out: list[tuple[str, str]], tmp_path: Path
) -> None:
    made = [stored(tmp_path / "s", **{"estimates": MEAN, **run}) for run in runs]
    found = select_runs(("", run) for run in made)
    assert sorted(made.index(run) for run in found.runs.values()) == chosen
    assert [(one.reason, one.command.removeprefix("medhelm ")) for one in found.left_out] == left_out


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [({}, {"temperature": 0.7}), ({"setting": "temperature=0.7", "temperature": 0.7}, {})],
    ids=["models.yaml", "--temperature"],
)
def test_a_temperature_of_the_user_is_a_row_of_its_own(
    settings: dict[str, Any], parameters: dict[str, Any], tmp_path: Path
) -> None:
    """No command would bring the model in: the user wants it at this temperature."""
    hot = make_model("x", parameters=parameters)
    runs = [
        stored(tmp_path / "s", "a", **COLD, estimates=MEAN),
        stored(tmp_path / "s", "b", **COLD, estimates=MEAN),
        stored(tmp_path / "s", "x", estimates=MEAN, resolved_model=hot, settings={**COLD["settings"], **settings}),
    ]
    found = select_runs(("", run) for run in runs)
    assert (len(found.runs), list(found.left_out)) == (3, [])
    (remark,) = temperature_remarks(found.runs)
    assert str(remark) == "Sampled at another temperature than the others (0): x at 0.7."


def test_a_run_that_was_stopped_does_not_count_and_is_named(tmp_path: Path) -> None:
    stopped = stored(tmp_path / "s", "m", estimates=MEAN, status="partial", n=10, n_failed=4)
    found = select_runs([("", stopped), ("", stored(tmp_path / "s", "n", estimates=MEAN))])
    assert (list(found.runs), found.unfinished) == ([("n", "toy")], ["toy with m (6 of 10)"])


def test_a_command_names_the_store_if_there_are_several(tmp_path: Path) -> None:
    runs = [(" [s]", stored(tmp_path / "s", name, estimates=MEAN)) for name in "ab"]
    runs.append((" [t]", stored(tmp_path / "t", "x", **FIRST, estimates=MEAN)))
    (one,) = select_runs(runs).left_out
    assert (one.model, one.command) == ("x [t]", f"medhelm run toy --model x --store {tmp_path / 't'}")


def test_a_remark_holds_all_models_and_benchmarks_with_one_reason() -> None:
    def entry(model: str, benchmark: str, **changes: Any) -> LeftOut:
        remedy = replace(Remedy(action="rescore", models=(model,), sends_nothing=True), **changes)
        return LeftOut(model=model, benchmark=benchmark, title=benchmark, reason="graded by c", remedy=remedy)

    both = [entry(model, name) for name in ("aci", "medec") for model in ("m", "n")]
    (remark,) = left_out_remarks(both)
    assert remark.text == (
        "Left out of aci and medec: m and n (graded by c). "
        "`medhelm rescore aci medec --model m --model n` brings them in and sends nothing."
    )
    remarks = left_out_remarks([*both, entry("o", "aci"), entry("p", "medec", models=(), sends_nothing=False)])
    assert [remark.text.split("`")[1] for remark in remarks] == [
        "medhelm rescore aci --model m --model n --model o",
        "medhelm rescore medec --model m --model n",
        "medhelm rescore medec",
    ]


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
    cells = [(row["model"], cell) for row in found["models"] for cell in row["benchmarks"].values()]
    return {model.partition("@")[0]: cell["value"] for model, cell in cells}, found["left_out"]


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def new_key(place: Path) -> None:
    """Correct one answer in the data."""
    replaced(place / "rows.jsonl", '"number 0?", "answer": "A"', '"number 0?", "answer": "B"')


def new_answer_column(place: Path) -> None:
    replaced(place / "benchmark.yaml", "{column: answer, form: letter}", "{column: corrected, form: letter}")


def new_prompt(place: Path) -> None:
    replaced(place / "benchmark.yaml", "  Answer:", "  Your answer:")


def more_data(place: Path) -> None:
    with (place / "rows.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "q9", "question": "number 9?", "answer": "A", "topic": "1"}\n')


CHANGES: dict[str, tuple[Callable[[Path], None], str, str, int]] = {
    "answer key": (new_key, "run", "scored with another answer key on 1 of 9 instances", 0),
    "answer column": (new_answer_column, "rescore", "scored with another answer key on 1 of 9 instances", 0),
    "prompts": (new_prompt, "run", "given other prompts on 9 of 9 instances", 9),
    "data": (more_data, "run", "run on only 9 of 10 instances", 1),
}
"""Change of a benchmark -> how, the command, the reason, and requests that a model needs after it."""


@pytest.mark.parametrize(
    ("name", "n_before"), [("answer key", 2), ("answer column", 1), ("answer column", 2), ("prompts", 1), ("data", 1)]
)
def test_the_command_includes_the_models_that_were_left_out(
    name: str, n_before: int, shell: Medhelm, server: Server, tmp_path: Path
) -> None:
    change, action, reason, n_sent = CHANGES[name]
    place = make_benchmark(tmp_path / "definitions")
    lines = (place / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [{**json.loads(line), "corrected": json.loads(line)["answer"]} for line in lines]
    rows[0]["corrected"] = "B"
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    server.answer_with(answers_with(perfect))
    before, after = [f"openai/m{n}@{server.url}/v1" for n in range(n_before)], f"openai/new@{server.url}/v1"
    for model in (*before, "baseline/majority"):
        assert shell("run", "toy", "--model", model).code == 0
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


def judges_of(server: Server, names: str) -> list[str]:
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


@pytest.mark.parametrize("name", JURY_CHANGES)
def test_the_command_gives_stored_completions_the_jury_of_the_others(
    name: str, shell: Medhelm, server: Server, tmp_path: Path
) -> None:
    change, judges, reason, n_judged = JURY_CHANGES[name]
    place = write_benchmark(tmp_path / "definitions")
    grade = court()
    server.answer_with(lambda body: grade(body) if is_judge(body) else chat(f"An answer of {body['model']}"))
    first, second = (f"openai/{name}@{server.url}/v1" for name in ("first", "second"))
    assert shell("run", "letters", "--model", first, *judges_of(server, judges)).code == 0
    if change:
        change(place)
    assert shell("run", "letters", "--model", second, *judges_of(server, "judge-1 judge-2")).code == 0

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
    command = f"medhelm run toy --model {old}"
    entry = {"model": old, "benchmark": "toy", "reason": reason, "command": command}
    sentence = f"Left out of toy: openai/old ({reason}). `{command}` brings it in and sends nothing."
    for name in ("toy", "other"):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n", encoding="utf-8")

    assert shell("leaderboard", "--json").json["left_out"] == [entry]
    assert sentence in shell("leaderboard").out
    assert shell("leaderboard", "--suite", tmp_path / "other.txt", "--json").json["left_out"] == []
    pair = shell("compare", old, new, "--json").json
    assert ([one["id"] for one in pair["benchmarks"]], pair["left_out"]) == (["other"], [entry])
    assert shell("compare", "--json").json["left_out"] == [entry]
    assert_refused(shell("compare", old, new, "--suite", tmp_path / "toy.txt"), sentence)

    assert shell("release", "first").code == 0
    assert shell("verify", "first").code == 0
    assert shell("export", "card", tmp_path / "card.json").code == 0
    content = json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))
    assert f"openai/old is left out of toy: {reason}." in content["limits"]
    mine, theirs = (model["digests"]["toy"] for model in content["models"] if model["name"] != "openai/old")
    assert mine == theirs
    assert shell(*shlex.split(command)[1:]).code == 0
    assert "left_out" in shell("diff", "first", "current", "--json").out
