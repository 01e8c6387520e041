"""Prompts read from the source of an installed HELM, here a package of the same form with words of our own."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import Instance
from medhelm.errors import MissingError, UserError
from medhelm.evaluation.settings import Settings
from medhelm.extensions.variants.prompts import prompt_variant
from medhelm.extensions.variants.prompts.helm import COMPARED, helm_prompt
from tests.support.benchmarks import library
from tests.support.cli import Medhelm, assert_refused

BASE = """\
class PassageQuestionInput(Input):
    def __init__(self, passage: str, question: str, passage_prefix: str = "", question_prefix: str = "Question: ",
                 separator: str = "\\n"):
        super().__init__(f"{passage_prefix}{passage}{separator}{question_prefix}{question}")
"""

SPECS = """\
raise RuntimeError("this is parsed and never run")

def spec(scenario, **nouns):
    return scenario

@run_spec_function("one")
def one():
    scenario = ScenarioSpec(class_name="helm.benchmark.scenarios.pubmed_qa_scenario.PubMedQAScenario", args={})
    return get_multiple_choice_adapter_spec(
        method=JOINT, instructions="Answer the invented question below.", input_noun="Question", output_noun="Reply",
        max_train_instances=0,
    )

@run_spec_function("two")
def two(path: str):
    scenario = ScenarioSpec(class_name="helm.benchmark.scenarios.race_based_med_scenario.RaceBasedMedScenario", args={})
    return get_multiple_choice_adapter_spec(
        method=JOINT, instructions="Say {A} or B.", input_noun=None, output_noun="Letter only", max_tokens=3,
    )

@run_spec_function("three")
def three():
    scenario = ScenarioSpec(class_name="helm.benchmark.scenarios.medhallu_scenario.MedHalluScenario", args={})
    return get_generation_adapter_spec(
        instructions="", input_noun="Case", newline_after_input_noun=True, output_noun=None, max_tokens=9,
        stop_sequences=[],
    )

@run_spec_function("four")
def four():
    scenario = ScenarioSpec(class_name="helm.benchmark.scenarios.medec_scenario.MedecScenario", args={})
    return get_generation_adapter_spec(instructions=TEXT + "x", max_tokens=9)

@run_spec_function("five")
def five():
    scenario = ScenarioSpec(class_name="helm.benchmark.scenarios.aci_bench_scenario.ACIBenchScenario", args={})
    return get_generation_adapter_spec(instructions="Write.", output_noun="Note")

@run_spec_function("six")
def six():
    scenario = ScenarioSpec(class_name="helm.benchmark.scenarios.medcalc_bench_scenario.MedCalcBenchScenario", args={})
    return get_generation_adapter_spec(instructions="Work.", output_noun="Value")
"""

SCENARIOS = {
    "pubmed_qa": """\
class PubMedQAScenario(Scenario):
    def get_instances(self, path):
        for example in data:
            background = "\\n".join([f"{label}. {text}" for label, text in parts])
            question: str = example["QUESTION"]
            prompt = PassageQuestionInput(
                passage=background, question=question + "\\n", passage_prefix="Context: ", separator="\\n\\n"
            )
            yield Instance(input=prompt, references=references)
""",
    "race_based_med": """\
class RaceBasedMedScenario(Scenario):
    def read(self, path):
        for row in rows:
            question = row["Question"]
            response = row["Response"]
            prompt = (
                f"Is it so?\\n\\n "
                f"Question: {question}\\nResponse: {response}\\n"
            )
            data[prompt] = answer
    def get_instances(self, path):
        for prompt, answer in self.read(path).items():
            yield Instance(input=Input(text=prompt), references=references)
""",
    "medhallu": """\
class MedHalluScenario(Scenario):
    def create(self, question, knowledge, answer):
        text = f"Known: {knowledge} {{sic}}" + "\\n" + f"Asked: {question.strip()}\\nSaid: {answer}"
        return Instance(input=Input(text=text), references=[])
""",
    "aci_bench": """\
class ACIBenchScenario(Scenario):
    def get_instances(self, path):
        yield Instance(input=Input(text=f"A: {one}"))
        yield Instance(input=Input(text=f"B: {one}"))
""",
    "medcalc_bench": """\
class MedCalcBenchScenario(Scenario):
    def get_instances(self, path):
        text = row["Patient Note"]
        text += more()
        yield Instance(input=Input(text))
""",
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution crfm-helm 0.0.1 with these modules."""
    root = tmp_path / "site"
    (root / "crfm_helm-0.0.1.dist-info").mkdir(parents=True)
    (root / "crfm_helm-0.0.1.dist-info" / "METADATA").write_text("Name: crfm-helm\nVersion: 0.0.1\n")
    folder = root / "helm" / "benchmark"
    (folder / "run_specs").mkdir(parents=True)
    (folder / "scenarios").mkdir()
    (folder / "run_specs" / "medhelm_run_specs.py").write_text(SPECS)
    (folder / "scenarios" / "scenario.py").write_text(BASE)
    for name, text in SCENARIOS.items():
        (folder / "scenarios" / f"{name}_scenario.py").write_text(text)
    monkeypatch.syspath_prepend(root)
    return folder


def asked(name: str, **fields: str) -> str:
    """Return the prompt of HELM for an instance with these fields."""
    benchmark = helm_prompt(library.benchmark(name)).applied(library.benchmark(name))
    labels = ("A", "B", "C")[: len(benchmark.choices)]
    instance = Instance(id="1", fields=fields, references=(), choices=benchmark.choices, labels=labels)
    return render(benchmark, instance).messages[-1].text


def test_a_prompt_is_the_one_that_helm_sent(installed: Path) -> None:
    """HELM itself made this run; its instructions were replaced by the words of the package above."""
    folder = Path("tests/fixtures/helm/0.5.16/runs/v1")
    run = folder / "pubmed_qa:model=mock_writer-a,model_deployment=mock_writer-a"
    (file,) = run.glob("scenario_state.json*")
    state = json.loads(gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes())
    sent = state["request_states"][0]["request"]["prompt"]
    context, _, question = sent.partition("Context: ")[2].partition("\n\nQuestion: ")
    found = asked("pubmed_qa", context=context, question=question.partition("\n")[0])
    assert found == sent.replace("below.\n", "below.\n\n", 1)  # with the line break that HELM adds to instructions
    variant = helm_prompt(library.benchmark("pubmed_qa"))
    assert (variant.max_tokens, variant.stop, variant.source) == (1, None, "crfm-helm 0.0.1")


def test_texts_are_put_together_from_variables_functions_and_nouns(installed: Path) -> None:
    assert asked("race_bias", question="Why?", response="So.") == (
        "Say {A} or B.\n\nIs it so?\n\n Question: Why?\nResponse: So.\nA. yes\nB. no\nLetter only:"
    )
    assert asked("medhallu", knowledge="K", question="Q", answer="{A}") == "Case:\nKnown: K {sic}\nAsked: Q\nSaid: {A}"
    variant = helm_prompt(library.benchmark("medhallu"))
    assert (variant.max_tokens, variant.stop, variant.system) == (9, (), "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("medec", "is not a literal"),
        ("aci_bench", "2 kinds of questions"),
        ("medcalc_bench", "its values text are not the fields note, question"),
        ("med_qa", "no run specification of MedQAScenario"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused(name: str, reason: str, installed: Path) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        helm_prompt(library.benchmark(name))
    assert "crfm-helm 0.0.1" in str(caught.value)
    assert "--like" in str(caught.value)


def test_only_compared_benchmarks_and_an_installed_package_will_do(medhelm: Medhelm, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--prompt helm is for aci_bench, ehrsql"):
        helm_prompt(library.benchmark("clear"))
    with pytest.raises(UserError, match="--like"):
        helm_prompt(replace(library.benchmark("med_qa"), folder=tmp_path))
    with pytest.raises(MissingError, match="`pip install --no-deps crfm-helm` is enough"):
        helm_prompt(library.benchmark("med_qa"))
    run = medhelm("run", "med_qa", "--tier", "sample", "--model", "baseline/lexical", "--prompt", "helm")
    assert_refused(run, "crfm-helm, which is not installed", "Nothing was sent.", code=4)
    assert set(library.SHIPPED) >= COMPARED


def test_the_version_is_stored_with_the_run(installed: Path) -> None:
    dataset = open_dataset(library.benchmark("pubmed_qa"), data=None, tier="sample")
    variant = prompt_variant("helm", dataset, Settings(tier="sample"))
    assert variant.settings["prompt_source"] == "crfm-helm 0.0.1"
