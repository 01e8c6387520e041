"""Other prompts: what models read, which answer is scored, what judges see, and which examples leak nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions
from medhelm.benchmarks.prompts import placeholders, render
from medhelm.domain import Benchmark, Completion, Instance, Message, Reference
from medhelm.errors import UserError
from medhelm.evaluation.context_window import n_characters, truncate_to
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.prompts import PROMPTS, prompt_variant
from medhelm.results.runs.answers import read_answers, read_options
from medhelm.scoring.answers.text import final_answer
from medhelm.scoring.jury.prompts import question
from medhelm.scoring.metric import answer_part, apply
from medhelm.scoring.metrics import METRIC_NAMES, METRICS
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
from tests.support.benchmarks import judged, library
from tests.support.benchmarks.choice import DEFINITION, chat, make_benchmark, perfect, question_number
from tests.support.benchmarks.definitions import write_folder
from tests.support.cli import Medhelm, assert_refused, repeated, succeeded
from tests.support.servers.openai import Server

N = 6
GENERIC = [name for name in PROMPTS if name not in ("few_shot", "helm", "confidence")]

# --- the final answer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("The stem describes aortic dissection.\n\nAnswer: C", "C"),
        ("**Step 1.** She is septic.\n\n**Answer:** B", "B"),
        ("... so the dose is halved.\n**Answer: 27.4**", "27.4"),
        ("### Final Answer\nB", "B"),
        ("Reasoning.\n\n**Final Answer**\n\n(D) Heparin", "(D) Heparin"),
        ("Thus, the final answer: A.", "A."),
        ("> answer : no\n", "no"),
        ("Answer: A?\nNo, sodium is low, which excludes it.\nAnswer: D", "D"),
        ("Answer: B\n\nAnswer:", "B"),
        ("<think>\nAnswer: A\n</think>\nHe has gout.\nAnswer: E", "E"),
        ("My answer: SELECT 1;\n-- done", "SELECT 1;\n-- done"),
        ("Answer:\n\n**HPI**\nA 40-year-old.\n\n**PLAN**\nRest.", "**HPI**\nA 40-year-old.\n\n**PLAN**\nRest."),
        ("The answer is B because of the fever.", None),
        ("In her answer: she denies pain", None),
        ("Answering: this needs thought", None),
        ("", None),
    ],
)
def test_the_final_answer_is_what_follows_the_last_mark(completion: str, answer: str | None) -> None:
    assert final_answer(completion, "Answer:") == answer
    assert final_answer("a\n#### 12\n#### 7", "####") == "7"


OPTIONS = Instance(
    id="1",
    fields={},
    references=(Reference("Aspirin", correct=False), Reference("Heparin"), Reference("Rest", correct=False)),
    choices=("Aspirin", "Heparin", "Rest"),
    labels=("A", "B", "C"),
)
NUMBER = Instance(
    id="2",
    fields={},
    references=(Reference("27.4"),),
    metadata={
        "Calculator ID": "6",
        "Category": "physical",
        "Output Type": "decimal",
        "Lower Limit": "26.0",
        "Upper Limit": "28.8",
    },
)
OPEN = Instance(id="3", fields={}, references=(Reference("Take it with food."),))


@pytest.mark.parametrize(
    ("instance", "metric", "completion", "scores"),
    [
        (OPTIONS, "exact_match", "A is tempting. B thins blood at once.\nAnswer: B", (1, 1)),
        (OPTIONS, "exact_match", "A is tempting, but wrong.\n**Answer: B. Heparin**", (1, 0)),
        (OPTIONS, "exact_match", "The answer is A? No: PE needs anticoagulation.\nAnswer: (B)", (1, 0)),
        (OPTIONS, "exact_match", "B was my first thought.\nAnswer: A", (0, 0)),
        (OPTIONS, "exact_match", "She has a clot, therefore the answer is B.", (1, 0)),
        (OPTIONS, "exact_match", "Both A and B are used. Answer: it depends", (0, 0)),
        (NUMBER, "medcalc_accuracy", "80 kg / (1.71 m)^2 = 80 / 2.92 = 27.4\nAnswer: 27.4", (1, 1)),
        (NUMBER, "medcalc_accuracy", "Height is 171 cm.\nWeight is 80 kg.\n\nAnswer: 27.36 kg/m2", (1, 0)),
        (NUMBER, "medcalc_accuracy", "It is 27.4 if she weighs 80 kg, but she weighs 90.\nAnswer: 30.8", (0, 0)),
        (OPEN, "rouge_l", "The label says so. Absorption doubles.\nAnswer: Take it with food.", (1, 1)),
    ],
)
def test_completions_with_reasoning_are_scored_by_their_final_answer(
    instance: Instance, metric: str, completion: str, scores: tuple[int, int]
) -> None:
    benchmark = replace(library.benchmark("med_qa"), answer_after="Answer:")
    part = answer_part(benchmark, Completion(text=completion))
    found = {one.rule: one.value for one in apply([METRICS[metric]], instance, part)}
    assert (found["corrected"], found["published"]) == scores


def test_reasoning_that_was_cut_has_no_answer_yet() -> None:
    benchmark = replace(library.benchmark("med_qa"), answer_after="Answer:")
    cut = Completion(text="A is wrong. So B it is, unless", finish_reason="length")
    assert answer_part(benchmark, cut).text == ""
    assert answer_part(benchmark, replace(cut, finish_reason="stop")).text == cut.text
    assert answer_part(library.benchmark("med_qa"), cut) is cut


def test_the_option_that_a_completion_names_is_read_from_its_final_answer(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    server.answer_with(lambda _: chat("Bad, clearly. B it must be.\nAnswer: A"))
    succeeded(medhelm("run", make_benchmark(tmp_path, n=1), "--model", server.model(), "--prompt", "chain_of_thought"))
    store = open_store(Path("medhelm-store"))
    (run,) = load_runs(store, variants=True)
    prompts = store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
    assert read_answers({"m": run}, read_options([prompts], None, run.main_metric)) == {"m": {"q0": "A"}}


# --- templates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", library.SHIPPED)
def test_every_benchmark_can_be_asked_by_every_wording(name: str) -> None:
    own = library.benchmark(name)
    dataset = open_dataset(own, data=None, tier="sample")
    (first, *_) = dataset
    plain = render(own, first)
    texts = {plain}
    for prompt in GENERIC:
        varied = dataset.varied(prompt_variant(prompt, dataset, Settings(tier="sample")))
        asked = varied.benchmark
        assert placeholders(own.prompt) <= placeholders(asked.prompt)
        assert (asked.digest, asked.metrics, asked.rubric) == (own.digest, own.metrics, own.rubric)
        assert question(asked, first) == question(own, first)
        assert [one.id for one in varied] == [one.id for one in dataset]
        assert varied.digest != dataset.digest
        texts.add(render(asked, first))
        if prompt == "chain_of_thought":
            assert (asked.answer_after, asked.stop) == ("Answer:", ())
            assert asked.max_tokens > own.max_tokens
            assert not render(asked, first).messages[-1].text.endswith("\nAnswer:")
        if prompt == "abstain" and not own.conversation_column and own.prompt.rstrip().endswith("}:"):
            assert asked.prompt.endswith(own.prompt.rstrip().rpartition("\n")[2]), "a cue stays the last line"
    assert len(texts) == len(GENERIC) + 1


def test_a_prompt_is_a_row_of_its_own_and_judges_see_the_question_as_before(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    seen: list[str] = []

    def judging(judge: str, n: int, body: Mapping[str, Any]) -> None:
        seen.append(body["messages"][0]["content"])

    judge = judged.court(judging)
    reply = "I think about it.\n\nAnswer: The answer to number 1 is 1."
    server.answer_with(lambda body: judge(body) if judged.is_judge(body) else chat(reply))
    place = judged.write_benchmark(tmp_path, n=3)
    command = ("run", place, "--model", server.model(), *repeated("--judge", map(server.model, judged.JUDGES[:2])))
    plain = succeeded(medhelm(*command, "--json")).json["runs"][0]
    before, n_seen = server.count, len(seen)
    found = succeeded(medhelm(*command, "--prompt", "chain_of_thought", "--json")).json["runs"][0]
    assert found["model"] == f"{server.model()} [prompt=chain_of_thought]"
    assert found["metrics"]["rouge_l"]["value"] > plain["metrics"]["rouge_l"]["value"]
    assert server.count - before == 3 + 6
    assert all("I think about it" in text for text in seen[:n_seen])
    assert all("I think about it" not in text and "step by step" not in text for text in seen[n_seen:])
    shown = [re.findall(r"<QUESTION \w+>\n(.*)\n</QUESTION", text) for text in seen]
    assert sorted(shown[:n_seen]) == sorted(shown[n_seen:])
    (row,) = medhelm("leaderboard", "--json").json["models"]
    assert row["model"] == server.model()
    fresh = medhelm("plan", *command[1:4], "--prompt", "chain_of_thought", "--store", tmp_path / "s", "--json").json
    assert fresh["rows"][0]["output_tokens"] == {"expected": 3 * 1074 // 2, "max": 3 * 1074}
    again = succeeded(medhelm("rejudge", place, "--judge", server.model("judge-3"), "--json")).json["runs"]
    assert sorted(run["model"] for run in again) == sorted([plain["model"], found["model"]])
    assert medhelm("verify").code == 0


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_changes_wording_examples_and_limits(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(lambda body: chat(f"Hm.\n#### {perfect(question_number(body))}"))
    place = make_benchmark(tmp_path, n=N)
    (tmp_path / "pool.jsonl").write_text(
        "".join(f'{{"id": "x{n}", "question": "other {n}?", "answer": "B", "topic": "1"}}\n' for n in range(3))
    )
    (tmp_path / "short.yaml").write_text(
        "name: short\n"
        "system: You are a nurse.\n"
        'prompt: "{options}\\n{question}"\n'
        'answer: "####"\n'
        "few_shot: {n: 2, file: pool.jsonl}\n"
        "max_tokens: 77\n"
    )
    command = ("run", place, "--model", server.model(), "--prompt", tmp_path / "short.yaml", "--json")
    (run,) = succeeded(medhelm(*command)).json["runs"]
    assert run["model"] == f"{server.model()} [prompt=short]"
    assert (run["metrics"]["exact_match"]["value"], run["n"]) == (1, N)
    body = server.bodies[0]
    assert body["max_tokens"] == 77
    assert [one["role"] for one in body["messages"]] == ["system", *["user", "assistant"] * 2, "user"]
    assert body["messages"][0]["content"] == "You are a nurse."
    assert body["messages"][1]["content"].startswith("A. good\nB. bad\nother ")
    assert body["messages"][2]["content"] == "#### B"
    (stored,) = load_runs(open_store(Path("medhelm-store")), variants=True)
    assert stored.settings["examples"] == "2 of 3 rows of pool.jsonl"
    assert succeeded(medhelm(*command)).json["requests_sent"] == 0
    (tmp_path / "short.yaml").write_text((tmp_path / "short.yaml").read_text().replace("nurse", "doctor"))
    assert succeeded(medhelm(*command)).json["requests_sent"] == N


UNUSABLE: list[tuple[str, tuple[str, ...]]] = [
    (
        'name: short\nprompt: "{question} {ward} {"\nanser: x\nfew_shot: {n: 0, sample: a, file: b}\n',
        ("anser: unknown key", "few_shot.n: must be at least 1"),
    ),
    (
        "name: brief\nprompt: |\n  Hello.\n  {question} {ward} {\nfew_shot: {file: none.jsonl}\nmax_tokens: 9\n",
        (
            "line 1  name: is `brief`, but the file is `short.yaml`",
            "line 4  prompt: a single brace",
            "line 4  prompt: {ward} is not a field of the prompt of toy.",
            "lacks {options}: toy would be asked without the options",
            "line 5  few_shot.file:",
        ),
    ),
    ("name: short\nsystem: Hello\nfew_shot: {sample: a, file: b}\n", ("cannot be combined",)),
    ("name: short\nmax_tokens: 9\n", ("changes nothing",)),
    ('name: short\nanswer: "Answer:"\n', ("no text asks for `Answer:`",)),
    ('name: short\nprompt: "{options}"\n', ("lacks {question}", "without a part of the question")),
    ("", ("empty",)),
]
"""Prompt files, and all their problems."""


def test_a_file_that_cannot_be_used_is_refused_with_all_problems(
    medhelm: Medhelm, tmp_path: Path, server: Server
) -> None:
    command = ("run", make_benchmark(tmp_path, n=N), "--model", server.model(), "--prompt")
    for text, words in UNUSABLE:
        (tmp_path / "short.yaml").write_text(text)
        refused = medhelm(*command, tmp_path / "short.yaml")
        assert_refused(refused)
        shown = " ".join(refused.err.split())
        assert all(" ".join(one.split()) in shown for one in words), refused.err
    assert_refused(medhelm(*command, "chain_of_thougt"), "neither a built-in prompt", "Did you mean `chain_of_thought`")
    assert_refused(medhelm(*command, tmp_path / "none.yaml"), "none.yaml")
    assert server.count == 0


# --- few-shot ---------------------------------------------------------------------------------------------------------

WORDS = """
fever cough rash pain edema pallor nausea vertigo fatigue anuria ataxia icterus stridor tremor syncope
""".split()  # noqa: SIM905


def ward(folder: Path, rows: list[dict[str, str]], extra: str = "") -> Benchmark:
    """Write and load a benchmark with these rows."""
    text = DEFINITION.format(name="ward").replace("metadata: [topic]", "cluster: patient") + extra
    (found,) = load_benchmarks([str(write_folder(folder / "ward", text, rows))], metrics=METRIC_NAMES)
    return found


def row(n: int, text: str = "", patient: str = "") -> dict[str, str]:
    """A row whose question has words of its own."""
    own = text or " ".join(WORDS[(n * 7 + k * k) % len(WORDS)] + str(n) for k in range(12))
    return {"id": f"r{n}", "question": own, "answer": "B" if n % 2 else "A", "patient": patient or f"p{n}"}


def test_examples_never_show_an_answer(tmp_path: Path) -> None:
    rows = [row(n) for n in range(20)]
    rows[12] = row(12, text=rows[1]["question"].upper() + "!")  # a copy of a question that is evaluated
    rows[13] = row(13, text=" ".join(rows[2]["question"].split()[:10]) + " today")  # nearly a copy
    rows[14] = row(14, patient="p3")  # another question about a patient
    dataset = open_dataset(ward(tmp_path, rows), data=None, tier="real", options=SampleOptions(limit=6))
    variant = prompt_variant("few_shot", dataset, Settings(limit=6))
    assert variant.settings["examples"] == (
        "5 of 12 instances that are not selected; 2 are not used: "
        "the question repeats or overlaps one that is evaluated"
    )
    varied = dataset.varied(variant)
    texts = {one["question"]: one for one in rows}
    for instance in varied:
        shown = [texts[turn.text.split("\n")[0].removeprefix("Question ")] for turn in instance.examples[::2]]
        assert [turn.role for turn in instance.examples] == ["user", "assistant"] * 5
        assert [turn.text for turn in instance.examples[1::2]] == [one["answer"] for one in shown]
        assert len({one["id"] for one in shown}) == 5
        assert {one["id"] for one in shown} <= {f"r{n}" for n in range(6, 20)} - {"r12", "r13"}
        assert instance.cluster not in {one["patient"] for one in shown}
        assert render(varied.benchmark, instance).messages[:-1] == instance.examples


def test_the_draw_depends_on_seed_and_ids_alone(tmp_path: Path) -> None:
    benchmark = ward(tmp_path, [row(n) for n in range(30)])

    def drawn(limit: int, seed: int) -> dict[str, tuple[Message, ...]]:
        dataset = open_dataset(benchmark, data=None, tier="real", options=SampleOptions(limit=limit))
        variant = prompt_variant("few_shot", dataset, Settings(seed=seed))
        return {one.id: one.examples for one in dataset.varied(variant)}

    first = drawn(10, 0)
    assert first == drawn(10, 0)
    assert all(drawn(10, 1)[name] != examples for name, examples in first.items())
    assert len(set(first.values())) == 10
    fewer = drawn(9, 0)
    assert sum(fewer[name] == first[name] for name in fewer) >= 5, "one more candidate changes few draws"


def test_examples_are_taken_from_each_answer_in_turn(tmp_path: Path) -> None:
    rows = [row(n) | {"answer": "B" if n == 20 else "A"} for n in range(21)]
    dataset = open_dataset(ward(tmp_path, rows), data=None, tier="real", options=SampleOptions(limit=4))
    (tmp_path / "even.yaml").write_text("name: even\nfew_shot: {n: 2, stratify: true}\n")
    varied = dataset.varied(prompt_variant(str(tmp_path / "even.yaml"), dataset, Settings()))
    assert all({turn.text for turn in one.examples[1::2]} == {"A", "B"} for one in varied)


SPLIT = "samples: {train: {ids_file: train.json}, test: {ids_file: test.json}}\n"


def test_a_named_selection_holds_the_examples_unless_it_is_evaluated(tmp_path: Path) -> None:
    benchmark = ward(tmp_path, [row(n) for n in range(16)], SPLIT)
    for name, ids in (("train", range(8, 16)), ("test", range(8))):
        text = "[" + ", ".join(f'"r{n}"' for n in ids) + "]"
        (benchmark.folder / f"{name}.json").write_text(text)

    def asked(sample: str, prompt: str = "few_shot") -> str:
        dataset = open_dataset(benchmark, data=None, tier="real", options=SampleOptions(sample=sample))
        return str(prompt_variant(prompt, dataset, Settings(sample=sample)).settings["examples"])

    assert asked("test") == "5 of 8 instances of the selection `train`"
    with pytest.raises(UserError, match="cannot be drawn from 0 instances of the selection `train`, 8 left out: they "):
        asked("train")
    with pytest.raises(UserError, match="would show their answers"):
        asked("default")
    (tmp_path / "given.yaml").write_text("name: given\nfew_shot: {sample: test, n: 3}\n")
    assert asked("train", str(tmp_path / "given.yaml")) == "3 of 8 instances of the selection `test`"
    (tmp_path / "given.yaml").write_text("name: given\nfew_shot: {sample: tset}\n")
    with pytest.raises(UserError, match=r"no sample `tset`\. Did you mean `test`"):
        asked("train", str(tmp_path / "given.yaml"))


def test_too_few_examples_are_refused_before_anything_is_sent(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    place = make_benchmark(tmp_path, n=N)
    rows = (place / "rows.jsonl").read_text()
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "leak.yaml").write_text("name: leak\nfew_shot: {n: 1, file: rows.jsonl}\n")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "text.yaml").write_text("name: text\nfew_shot: {n: 1, file: notes.txt}\n")
    for prompt, words in (
        ("few_shot", ("5 examples cannot be drawn from 0 instances that are not selected", "--limit")),
        (tmp_path / "leak.yaml", ("0 rows of rows.jsonl, 6 left out: the question repeats",)),
        (tmp_path / "text.yaml", ("notes.txt cannot be read: its suffix is none of .jsonl",)),
    ):
        refused = medhelm("plan", place, "--model", server.model(), "--prompt", prompt)
        assert_refused(refused, *words, "Nothing was sent.")
    assert_refused(
        medhelm("run", "healthbench", "--tier", "sample", "--model", "baseline/lexical", "--prompt", "few_shot"),
        "continues a conversation",
    )
    assert server.count == 0


def test_examples_are_left_out_first_where_the_context_window_is_small() -> None:
    benchmark = library.benchmark("pubmed_qa")
    (first, *_) = library.sample_tier("pubmed_qa")
    turns = tuple(Message(role, letter * 100) for letter in "xyz" for role in ("user", "assistant"))
    with_examples = replace(first, examples=turns)
    plain = n_characters(render(benchmark, first))
    found = list(truncate_to(benchmark, with_examples, [plain + 601, plain + 500, plain + 150, plain, plain - 100]))
    kept = [[turn.text[0] for turn in one.prompt.messages[:-1:2]] for one in found]
    assert kept == [["y", "z"], [], []]
    assert [one.left_out for one in found[:2]] == [200, 600]
    assert found[1].prompt == render(benchmark, first)
    assert 700 < found[2].left_out < 900
    whole = replace(benchmark, shorten="none")
    assert [one.left_out for one in truncate_to(whole, with_examples, [plain, plain - 100])] == [600]


def test_a_deleted_instance_is_no_example_any_more(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(lambda _: chat("A"))
    place = make_benchmark(tmp_path, n=12)
    command = ("run", place, "--model", server.model(), "--limit", "2", "--prompt", "few_shot", "--json")
    succeeded(medhelm("run", place, "--model", server.model()))
    succeeded(medhelm(*command))
    (run,) = (one for one in load_runs(open_store(Path("medhelm-store")), variants=True) if one.setting)
    file = open_store(Path("medhelm-store")).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
    shown = str(server.bodies[-1]["messages"][:-1])
    deleted = next(n for n in range(2, 12) if f"number {n}?" in shown)
    assert file.is_file()
    succeeded(medhelm("purge", "--instance", f"toy:q{deleted}", "--yes"))
    assert not file.is_file()
    before = server.count
    succeeded(medhelm(*command))
    asked = str([body["messages"] for body in server.bodies[before:]])
    assert server.count > before
    assert f"number {deleted}?" not in asked
