"""Sample files of lm-eval: real ones, forms of older versions, and everything that can be odd about one."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Message, Reference
from medhelm.errors import DataError
from medhelm.extensions.exchange.importer import ImportedRun
from medhelm.extensions.exchange.lm_eval import read_lm_eval_samples, sample_files

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lm_eval"
CHAT = FIXTURES / "org__invented-model"


def fixture(task: str) -> Path:
    (path,) = FIXTURES.rglob(f"samples_{task}_*.jsonl")
    return path


# --- real files -------------------------------------------------------------------------------------------------------


def test_a_task_that_generates() -> None:
    path = fixture("invented_short")
    run = read_lm_eval_samples(path)
    (results,) = CHAT.glob("results_*.json")
    assert (run.benchmark, run.title, run.model) == ("invented_short", "invented_short", "org/invented-model")
    assert run.deployment.startswith("http://127.0.0.1:")
    assert run.deployment.endswith("/v1")
    assert (run.origin.harness, run.origin.version) == ("lm_eval", "0.4.13")
    assert run.origin.run == f"org__invented-model/{path.stem}"
    assert run.origin.sha256 == hashlib.sha256(path.read_bytes() + results.read_bytes()).hexdigest()
    assert (run.max_tokens, run.temperature, run.stop) == (16, 0.0, ("\n\n",))
    assert run.started.startswith("2026-11-21T")
    assert [one.id for one in run.instances] == ["0", "1", "2", "3", "4"]
    first = run.instances[0]
    assert first.turns == (Message("user", "Question: Which vitamin is given against scurvy?\nAnswer:"),)
    assert first.references == (Reference("Vitamin C"),)
    assert first.metadata["id"] == "q1"
    assert "choices" not in first.metadata, "a list is no text"
    texts = ["Vitamin C", "the pancreas", "Three", "Warfarin is one.", ""]
    assert [run.completions[str(n)].text for n in range(5)] == texts
    # Every row stands twice, once for each filter.
    assert run.scores["exact_match_strict"] == {"0": 1.0, "1": 1.0, "2": 0.0, "3": 0.0, "4": 0.0}
    assert run.scores["exact_match_first-word"]["3"] == 1.0
    assert run.n_expected == 5
    assert run.remarks == ("1 row: empty completion, which lm-eval also writes after a failed request.",)


def test_the_scores_are_those_of_the_results_file() -> None:
    run = read_lm_eval_samples(fixture("invented_short"))
    (path,) = CHAT.glob("results_*.json")
    theirs = json.loads(path.read_text(encoding="utf-8"))["results"]["invented_short"]
    for name in ("strict", "first-word"):
        own = run.scores[f"exact_match_{name}"]
        assert sum(own.values()) / len(own) == theirs[f"exact_match,{name}"]


def test_examples_a_system_message_and_several_answers() -> None:
    run = read_lm_eval_samples(fixture("invented_few"))
    first = run.instances[0]
    assert [turn.role for turn in first.turns] == ["system", "user", "assistant", "user"]
    assert first.turns[0].text == "You are a careful clerk."
    assert first.fields == {"input": first.turns[-1].text}
    assert (run.temperature, run.stop) == (0.7, ("\n",))
    assert list(run.scores) == ["exact_match"]
    assert any(remark.startswith("5 rows: several completions") for remark in run.remarks)
    assert "bleu: left out, because rows have no value of it." in run.remarks


def test_a_task_that_compares_options() -> None:
    run = read_lm_eval_samples(fixture("invented_choice"))
    first = run.instances[0]
    assert first.choices == first.labels == ("Vitamin A", "Vitamin C", "Vitamin D")
    assert first.correct == ("Vitamin C",)
    assert first.expected == "Vitamin C"
    right = {one.id: run.completions[one.id].text == one.expected for one in run.instances}
    assert right == {id_: score == 1.0 for id_, score in run.scores["acc"].items()}
    assert set(run.scores) == {"acc", "acc_norm"}
    assert (run.max_tokens, run.temperature, run.stop) == (0, None, ())
    assert run.remarks == (
        "options were compared by log-likelihood: the completion is the option with the highest one.",
    )


# --- models and results -----------------------------------------------------------------------------------------------


def alone(tmp_path: Path, task: str = "invented_short", folder: str = "org__m") -> Path:
    """A sample file in a folder of its own, without results."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    return Path(shutil.copy(fixture(task), place))


def test_without_results_the_folder_names_the_model(tmp_path: Path) -> None:
    path = alone(tmp_path)
    run = read_lm_eval_samples(path)
    assert (run.benchmark, run.model, run.deployment, run.origin.version) == ("invented_short", "org/m", "", "")
    assert run.origin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "it has no results file next to it" in " ".join(run.remarks)
    assert run.started.startswith("2026-11-21T18:21:10")


@pytest.mark.parametrize(
    ("content", "model"),
    [
        ({"model_name": "named"}, "named"),
        ({"config": {"model": "hf", "model_args": "pretrained=org/small,dtype=float16"}}, "org/small"),
        ({"config": {"model": "vllm", "model_args": {"pretrained": "org/large"}}}, "org/large"),
        ({"config": {"model": "dummy", "model_args": ""}}, "dummy"),
        ({}, "org/m"),
    ],
)
def test_the_place_of_the_models_name(tmp_path: Path, content: dict[str, Any], model: str) -> None:
    path = alone(tmp_path)
    known = {"results": {"invented_short": {"alias": " - Short"}}, "n-samples": {"invented_short": {"effective": 7}}}
    path.with_name("results_2020-01-01T00-00-00.1.json").write_text(json.dumps({**known, **content}))
    run = read_lm_eval_samples(path)
    assert (run.model, run.title, run.n_expected) == (model, "Short", 7)


def test_results_that_do_not_know_the_task_are_not_its_results(tmp_path: Path) -> None:
    path = alone(tmp_path)
    path.with_name("results_1.json").write_text('{"results": {"other": {}}, "model_name": "wrong"}')
    path.with_name("results_2.json").write_text("not JSON")
    path.with_name("results_3.json").write_text("[]")
    assert read_lm_eval_samples(path).model == "org/m"


def test_sample_files_in_a_folder() -> None:
    assert [path.parent.name for path in sample_files(FIXTURES)] == ["dummy", *["org__invented-model"] * 2]


# --- forms and oddities -----------------------------------------------------------------------------------------------


def generated(**changes: Any) -> dict[str, Any]:
    """A row of a task that generates, as newer versions write it."""
    arguments = {"gen_args_0": {"arg_0": "Why?", "arg_1": {"until": ["\n"], "max_gen_toks": 9}}}
    own = {"doc_id": 0, "doc": {"q": "Why?"}, "target": "so", "arguments": arguments, "resps": [["so"]]}
    return {
        **own,
        "filtered_resps": ["so"],
        "filter": "none",
        "metrics": ["exact_match"],
        "exact_match": 1.0,
        **changes,
    }


def chosen(*likelihoods: object, contexts: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """A row of a task that compares options."""
    options = ("yes", "no", "maybe")
    texts = contexts or ("Is it?",) * len(likelihoods)
    arguments = {
        f"gen_args_{n}": {"arg_0": text, "arg_1": f" {options[n % 3]}"} for n, text in enumerate(texts)
    }  # fmt: skip
    own = {"doc_id": 0, "doc": {}, "target": "1", "arguments": arguments, "resps": [[one] for one in likelihoods]}
    return {**own, "filter": "none", "metrics": ["acc"], "acc": 1.0, **changes}


def read(tmp_path: Path, *rows: object, name: str = "samples_t_2026-01-01T00-00-00.1.jsonl") -> ImportedRun:
    path = tmp_path / name
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in rows), encoding="utf-8")
    return read_lm_eval_samples(path)


def test_rows_of_older_versions(tmp_path: Path) -> None:
    """One list of rows, arguments as lists, numbers as numbers, no filter, metrics not listed."""
    first = {
        "doc_id": 0, "doc": {}, "target": "so", "arguments": [["Why?", {"until": "\n\n", "max_gen_toks": 5}]],
        "resps": [["so"]], "filtered_resps": ["so"], "exact_match": 1.0, "prompt_hash": "x",
    }  # fmt: skip
    content = json.dumps([first, {**first, "doc_id": 1, "exact_match": 0.0}], indent=2)
    path = tmp_path / "pretrained__org__m_old_task.jsonl"
    path.with_name("results.json").write_text('{"results": {"task": {}, "old_task": {}}, "model_name": "org/m"}')
    run = read(tmp_path, content, name=path.name)
    assert (run.benchmark, run.model, run.stop, run.max_tokens) == ("old_task", "org/m", ("\n\n",), 5)
    assert run.scores == {"exact_match": {"0": 1.0, "1": 0.0}}
    assert run.started == ""


@pytest.mark.parametrize("form", [lambda v: [v, False], lambda v: [str(v), "False"], lambda v: [[v, True]]])
def test_forms_of_likelihoods(tmp_path: Path, form: Any) -> None:
    run = read(tmp_path, chosen(form(-2.5), form(-0.5), form(-1.5)))
    assert run.completions["0"].text == "no"
    assert run.instances[0].correct == ("no",)


def test_options_that_follow_again_alone_are_not_options(tmp_path: Path) -> None:
    """`acc_mutual_info` asks for each option once more without the question."""
    row = chosen([-3, False], [-1, False], [-9, False], [0, False], contexts=("Is it?",) * 3 + ("",))
    run = read(tmp_path, row)
    assert run.instances[0].choices == ("yes", "no", "maybe")
    assert run.completions["0"].text == "no"


def test_options_are_the_beginnings_before_a_common_ending(tmp_path: Path) -> None:
    """Winogrande: one ending, several beginnings."""
    row = chosen([-3, False], [-1, False], contexts=("Ann, because", "Bob, because"), target="0")
    row["arguments"]["gen_args_1"]["arg_1"] = " yes"
    run = read(tmp_path, row)
    assert run.instances[0].choices == ("Ann, because", "Bob, because")
    assert run.completions["0"].text == "Bob, because"
    assert run.instances[0].correct == ("Ann, because",)


def test_invalid_likelihoods(tmp_path: Path) -> None:
    run = read(tmp_path, chosen(["-inf", "False"], [-5, False]), chosen([None, False], ["x", 1], doc_id=1))
    assert run.completions["0"].text == "no"
    assert run.completions["1"].failure is not None


def test_a_question_that_is_not_text(tmp_path: Path) -> None:
    """nan is not equal to itself, and no question either."""
    run = read(tmp_path, chosen([-3, False], [-1, False], contexts=(math.nan, math.nan)))  # type: ignore[arg-type]
    assert run.instances[0].turns == (Message("user", ""),)
    assert run.completions["0"].text == "no"


@pytest.mark.parametrize(
    ("target", "right"),
    [
        ("1", ["no"]),
        ("no", ["no"]),
        ("['yes', 'no']", ["yes", "no"]),
        ("[0]", ["yes"]),
        ("7", []),
        ("", []),
        (None, []),
    ],
)
def test_targets_of_options(tmp_path: Path, target: object, right: list[str]) -> None:
    run = read(tmp_path, chosen([-1, False], [-2, False], target=target))
    assert list(run.instances[0].correct) == right
    assert ("the target is not among the options" in " ".join(run.remarks)) == (not right)


@pytest.mark.parametrize(
    ("target", "right"),
    [
        ("so", ["so"]),
        ("['a', 'b']", ["a", "b"]),
        ("[1]", ["1"]),
        ("[x", ["[x"]),
        ("[f()]", ["[f()]"]),
        (3, ["3"]),
        ("", []),
    ],
)
def test_targets_of_texts(tmp_path: Path, target: object, right: list[str]) -> None:
    assert list(read(tmp_path, generated(target=target)).instances[0].correct) == right


def test_equal_options_are_refused(tmp_path: Path) -> None:
    row = chosen([-1, False], [-2, False], target="1")
    row["arguments"]["gen_args_1"]["arg_1"] = " yes"
    assert read(tmp_path, row).instances[0].choices == ()


def test_scores_of_all_kinds(tmp_path: Path) -> None:
    names = ["exact_match", "bleu", "f1", "perplexity", "brier"]
    row = generated(metrics=names, exact_match=True, bleu=["a", "b"], f1=math.nan, perplexity=3, brier=None)
    run = read(tmp_path, row)
    assert run.scores == {"exact_match": {"0": 1.0}, "perplexity": {"0": 3.0}}
    assert run.remarks[-1] == "bleu: left out, because rows have no value of it."


def test_messages_with_parts_and_texts_that_look_like_messages(tmp_path: Path) -> None:
    def asked(context: object) -> tuple[Message, ...]:
        return read(tmp_path, generated(arguments=[[context, {}]])).instances[0].turns

    parts = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}
    ]
    assert asked([json.dumps(parts)]) == (Message("user", "a\nb"),)
    assert asked(json.dumps(parts)) == (Message("user", "a\nb"),)
    assert asked('[{"role": "wizard"}]') == (Message("user", '[{"role": "wizard"}]'),)
    assert asked("[{not JSON") == (Message("user", "[{not JSON"),)


STRICT, FLEXIBLE = {"filter": "strict-match"}, {"filter": "flexible-extract"}


@pytest.mark.parametrize(
    ("rows", "main"),
    [
        ([(STRICT, 1.0), (FLEXIBLE, 1.0)], "exact_match_strict-match"),
        ([(FLEXIBLE, 1.0), (STRICT, 1.0)], "exact_match_flexible-extract"),
        ([(STRICT, 0.0), (FLEXIBLE, 1.0)], "exact_match_flexible-extract"),
        ([(FLEXIBLE, 0.0), (STRICT, 1.0)], "exact_match_strict-match"),
        ([(STRICT, 0.0), (FLEXIBLE, 0.0)], "exact_match_strict-match"),
        ([({"filter": "get-answer"}, 0.0)], "exact_match_get-answer"),
        ([({"filter": "none"}, 0.0)], "exact_match"),
    ],
)
def test_the_main_filter_is_the_first_that_finds_answers(
    tmp_path: Path, rows: list[tuple[dict[str, str], float]], main: str
) -> None:
    run = read(tmp_path, *(generated(exact_match=score, **own) for own, score in rows))
    assert next(iter(run.scores)) == main


def test_the_lists_of_the_task_come_before_the_order_of_the_rows(tmp_path: Path) -> None:
    task = {
        "metric_list": [{"metric": "exact_match"}, {"metric": "f1"}],
        "filter_list": [{"name": "flexible-extract"}, {"name": "strict-match"}],
    }
    results = {"results": {"t": {}}, "configs": {"t": task}}
    (tmp_path / "results_2026-01-01T00-00-00.1.json").write_text(json.dumps(results), encoding="utf-8")
    names = ["f1", "exact_match"]
    rows = [generated(metrics=names, f1=0.5, **own) for own in (STRICT, FLEXIBLE)]
    assert list(read(tmp_path, *rows).scores) == [
        "exact_match_flexible-extract", "exact_match_strict-match", "f1_flexible-extract", "f1_strict-match",
    ]  # fmt: skip


@pytest.mark.parametrize("resps", [[["text"]], ["text"], [["text", "more"]], ["text", "more"]])
def test_completions_of_lm_eval_and_of_lmms_eval(tmp_path: Path, resps: list[object]) -> None:
    run = read(tmp_path, generated(resps=resps))
    assert run.completions["0"].text == "text"
    several = len(resps) > 1 or resps == [["text", "more"]]
    assert any("several completions" in remark for remark in run.remarks) == several


def test_a_row_without_an_answer(tmp_path: Path) -> None:
    run = read(tmp_path, generated(resps=[[None]]), generated(doc_id="x", resps=[[]]))
    assert [one.failure.code for one in run.completions.values() if one.failure] == ["no_answer"] * 2


def test_doubles_and_a_last_line_that_is_cut_off(tmp_path: Path) -> None:
    run = read(tmp_path, generated(), generated(exact_match=0.0), "", '{"doc_id": 1, "doc"')
    assert run.scores == {"exact_match": {"0": 0.0}}
    assert run.remarks[:2] == (
        "1 row: duplicate; the last one counts.",
        "1 row: truncated at the end of the file; left out.",
    )


def test_unknown_fields_and_a_byte_order_mark(tmp_path: Path) -> None:
    row = generated(later={"versions": True})
    assert read(tmp_path, "\ufeff" + json.dumps(row)).completions["0"].text == "so"


WRONG: dict[str, tuple[list[object], str]] = {
    "empty": ([""], "is empty"),
    "no JSON": (["so what"], "line 1 is not valid JSON"),
    "a broken line": ([generated(), "{", generated(doc_id=1)], "line 2 is not valid JSON"),
    "another JSON": ([{"a": 1}], "not an lm-eval sample file"),
    "numbers": (["1", "2"], "not an lm-eval sample file"),
    "no id": ([generated(doc_id=None)], "not an lm-eval sample file"),
    "an empty list": (["[]"], "no row with a completion"),
    "no requests": ([generated(arguments={})], "row 0 has no request or no completion"),
    "texts weighed": ([chosen([-1.5, True])], "measures the likelihood of given texts"),
    "whole texts weighed": ([generated(arguments=[["All of it."]], resps=[["-12.5"]])], "measures the likelihood"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_cannot_be_imported(tmp_path: Path, name: str) -> None:
    rows, words = WRONG[name]
    with pytest.raises(DataError) as wrong:
        read(tmp_path, *rows)
    assert words in str(wrong.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_lm_eval_samples(tmp_path / "samples_x.jsonl")
