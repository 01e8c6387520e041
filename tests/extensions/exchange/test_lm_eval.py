"""Sample files of lm-eval: real ones, forms of older versions, and everything that can be odd about one."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Message, Reference
from medhelm.errors import DataError
from medhelm.extensions.exchange.importer import ImportedRun
from medhelm.extensions.exchange.logs import read_lm_eval_samples

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lm_eval"
CHAT = FIXTURES / "org__invented-model"


def fixture(task: str) -> Path:
    (path,) = FIXTURES.rglob(f"samples_{task}_*.jsonl")
    return path


def test_a_task_that_generates() -> None:
    path = fixture("invented_short")
    run = read_lm_eval_samples(path)
    (results,) = CHAT.glob("results_*.json")
    assert (run.benchmark, run.title, run.model) == ("invented_short", "invented_short", "org/invented-model")
    assert (run.origin.harness, run.origin.version) == ("lm_eval", "0.4.13")
    assert run.origin.sha256 == hashlib.sha256(path.read_bytes() + results.read_bytes()).hexdigest()
    assert (run.max_tokens, run.temperature, run.stop) == (16, 0.0, ("\n\n",))
    first = run.instances[0]
    assert first.turns == (Message("user", "Question: Which vitamin is given against scurvy?\nAnswer:"),)
    assert first.references == (Reference("Vitamin C"),)
    assert (first.metadata["id"], "choices" in first.metadata) == ("q1", False), "a list is no text"
    texts = ["Vitamin C", "the pancreas", "Three", "Warfarin is one.", ""]
    assert [run.completions[str(n)].text for n in range(5)] == texts
    # Every row stands twice, once for each filter.
    assert run.scores["exact_match_strict"] == {"0": 1.0, "1": 1.0, "2": 0.0, "3": 0.0, "4": 0.0}
    theirs = json.loads(results.read_text(encoding="utf-8"))["results"]["invented_short"]
    for name in ("strict", "first-word"):
        scores = run.scores[f"exact_match_{name}"]
        assert sum(scores.values()) / len(scores) == theirs[f"exact_match,{name}"]
    assert run.remarks == ("1 row: empty completion, which lm-eval also writes after a failed request.",)


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


@pytest.mark.parametrize(
    ("content", "model"),
    [
        ({"model_name": "named"}, "named"),
        ({"config": {"model": "hf", "model_args": "pretrained=org/small,dtype=float16"}}, "org/small"),
        ({"config": {"model": "vllm", "model_args": {"pretrained": "org/large"}}}, "org/large"),
        ({}, "org/m"),
    ],
)
def test_the_place_of_the_models_name(tmp_path: Path, content: dict[str, Any], model: str) -> None:
    place = tmp_path / "org__m"
    place.mkdir()
    path = Path(shutil.copy(fixture("invented_short"), place))
    path.with_name("results_0.json").write_text('{"results": {"other": {}}, "model_name": "wrong"}')
    alone = read_lm_eval_samples(path)
    assert (alone.benchmark, alone.model, alone.origin.version) == ("invented_short", "org/m", "")
    assert "it has no results file next to it" in " ".join(alone.remarks)
    known = {"results": {"invented_short": {"alias": " - Short"}}, "n-samples": {"invented_short": {"effective": 7}}}
    path.with_name("results_2020-01-01T00-00-00.1.json").write_text(json.dumps({**known, **content}))
    run = read_lm_eval_samples(path)
    assert (run.model, run.title, run.n_expected) == (model, "Short", 7)


def generated(**changes: Any) -> dict[str, Any]:
    """A row of a task that generates, as newer versions write it."""
    arguments = {"gen_args_0": {"arg_0": "Why?", "arg_1": {"until": ["\n"], "max_gen_toks": 9}}}
    row = {"doc_id": 0, "doc": {"q": "Why?"}, "target": "so", "arguments": arguments, "resps": [["so"]]}
    return {
        **row,
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


def test_likelihoods_written_as_text_and_invalid_ones(tmp_path: Path) -> None:
    nested, invalid = chosen([[-2.5, True]], [["-0.5", "False"]]), chosen([None, False], ["x", 1], doc_id=1)
    run = read(tmp_path, nested, invalid, chosen(["-inf", "False"], [-5, False], doc_id=2))
    assert run.completions["0"].text == run.completions["2"].text == "no"
    assert run.completions["1"].failure is not None


@pytest.mark.parametrize(
    ("target", "right"),
    [("1", ["no"]), ("no", ["no"]), ("['yes', 'no']", ["yes", "no"]), ("[0]", ["yes"]), ("7", []), (None, [])],
)
def test_targets_of_options(tmp_path: Path, target: object, right: list[str]) -> None:
    run = read(tmp_path, chosen([-1, False], [-2, False], target=target))
    assert list(run.instances[0].correct) == right
    assert ("the target is not among the options" in " ".join(run.remarks)) == (not right)


@pytest.mark.parametrize(
    ("target", "right"),
    [("so", ["so"]), ("['a', 'b']", ["a", "b"]), ("[1]", ["1"]), ("[f()]", ["[f()]"]), (3, ["3"]), ("", [])],
)
def test_targets_of_texts(tmp_path: Path, target: object, right: list[str]) -> None:
    assert list(read(tmp_path, generated(target=target)).instances[0].correct) == right


def test_messages_with_parts_and_texts_that_look_like_messages(tmp_path: Path) -> None:
    def asked(context: object) -> tuple[Message, ...]:
        return read(tmp_path, generated(arguments=[[context, {}]])).instances[0].turns

    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    turns = [{"role": "user", "content": parts}]
    assert asked([json.dumps(turns)]) == (Message("user", "a\nb"),)
    assert asked(json.dumps(turns)) == (Message("user", "a\nb"),)
    assert asked('[{"role": "wizard"}]') == (Message("user", '[{"role": "wizard"}]'),)
    assert asked("[{not JSON") == (Message("user", "[{not JSON"),)


STRICT, FLEXIBLE = {"filter": "strict-match"}, {"filter": "flexible-extract"}


@pytest.mark.parametrize(
    ("rows", "main"),
    [
        ([(FLEXIBLE, 1.0), (STRICT, 1.0)], "exact_match_flexible-extract"),
        ([(STRICT, 0.0), (FLEXIBLE, 1.0)], "exact_match_flexible-extract"),
        ([(STRICT, 0.0), (FLEXIBLE, 0.0)], "exact_match_strict-match"),
        ([({"filter": "none"}, 0.0)], "exact_match"),
    ],
)
def test_the_main_filter_is_the_first_that_finds_answers(tmp_path: Path, rows: list[Any], main: str) -> None:
    run = read(tmp_path, *(generated(exact_match=score, **filter_) for filter_, score in rows))
    assert next(iter(run.scores)) == main


@pytest.mark.parametrize(
    ("resps", "text"),
    [([["text"]], "text"), (["text"], "text"), ([["text", "more"]], "text"), ([[None]], None), ([[]], None)],
)
def test_completions_of_lm_eval_and_of_lmms_eval(tmp_path: Path, resps: list[Any], text: str | None) -> None:
    run = read(tmp_path, generated(resps=resps))
    failure = run.completions["0"].failure
    assert (run.completions["0"].text, failure and failure.code) == (text, None if text else "no_answer")
    assert any("several completions" in remark for remark in run.remarks) == (len(resps[0]) == 2)


def test_a_byte_order_mark_doubles_and_a_last_line_that_is_cut_off(tmp_path: Path) -> None:
    run = read(tmp_path, "\ufeff" + json.dumps(generated()), generated(exact_match=0.0), "", '{"doc_id": 1, "doc"')
    assert run.scores == {"exact_match": {"0": 0.0}}
    assert run.remarks[:2] == (
        "1 row: duplicate; the last one counts.",
        "1 row: truncated at the end of the file; left out.",
    )


WRONG: list[tuple[list[object], str]] = [
    ([""], "is empty"),
    ([generated(), "{", generated(doc_id=1)], "line 2 is not valid JSON"),
    ([{"a": 1}], "not an lm-eval sample file"),
    (["[]"], "no row with a completion"),
    ([generated(arguments={})], "row 0 has no request or no completion"),
    ([chosen([-1.5, True])], "measures the likelihood of given texts"),
]


@pytest.mark.parametrize(("rows", "words"), WRONG)
def test_files_that_cannot_be_imported(tmp_path: Path, rows: list[object], words: str) -> None:
    with pytest.raises(DataError) as wrong:
        read(tmp_path, *rows)
    assert words in str(wrong.value)
