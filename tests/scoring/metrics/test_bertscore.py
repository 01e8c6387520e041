"""BERTScore: against the formula in NumPy, with a tiny model of random weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from medhelm.domain import RULES, Completion, Instance, Rule
from medhelm.errors import DataError, NotComputed
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import bertscore as neural
from medhelm.scoring.metrics.bertscore import (
    BERTSCORE,
    BERTSCORE_PRECISION,
    BERTSCORE_RECALL,
    FOLDER,
    LAYER,
    REVISION,
    similarity,
)
from tests.support.benchmarks.questions import open_question as asked

LONGEST = 24
WORDS = "the patient denies fever chills no acute distress pain chest rash ##s . , : { }".split(" ")  # noqa: SIM905
METRICS = [BERTSCORE, BERTSCORE_PRECISION, BERTSCORE_RECALL]
every_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
needs_packages = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")), reason="torch and transformers are in the extra `neural`"
)
PAIRS = [
    ("the patient denies fever", "the patient denies chills"),
    ("no acute distress", "pain, chest pain, acute chest pain."),
    ("fevers", "the patient denies fevers and chills"),
    ("no rash.", "No Rash."),
    ("unknown words only", "the patient"),
    ("the patient denies chest pain. " * 9, "no acute distress"),
]


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    neural._encoder.cache_clear()
    neural._similarity.cache_clear()
    yield
    neural._encoder.cache_clear()
    neural._similarity.cache_clear()


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a DistilBERT with six small layers of random weights, and its tokenizer."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("weights")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    tokenizer = transformers.DistilBertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=512)
    tokenizer.save_pretrained(folder)
    shape = transformers.DistilBertConfig(
        vocab_size=len(vocabulary),
        dim=24,
        n_layers=6,
        n_heads=4,
        hidden_dim=48,
        max_position_embeddings=LONGEST,
        initializer_range=0.25,
    )
    torch.manual_seed(0)
    transformers.DistilBertModel(shape).save_pretrained(folder)
    return folder


@pytest.fixture
def model(weights: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(weights))
    return weights


@pytest.fixture(scope="session")
def states(weights: Path) -> Any:
    """Text -> the vectors of its tokens after the fifth layer of the whole model."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(weights)
    whole = transformers.DistilBertModel.from_pretrained(weights).eval()

    def of(text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        ids = tokenizer(text)["input_ids"]
        ids = ids[: LONGEST - 1] + ids[-1:] if len(ids) > LONGEST else ids
        with torch.no_grad():
            layers = whole(torch.tensor([ids]), output_hidden_states=True).hidden_states
        assert len(layers) == 7
        return np.asarray(layers[LAYER][0].tolist())

    return of


@needs_packages
@pytest.mark.parametrize(("reference", "answer"), PAIRS)
def test_values_are_those_of_the_formula_and_a_text_is_most_like_itself(
    model: Path, states: Any, reference: str, answer: str
) -> None:
    found, sought = states(answer), states(reference)
    lengths = np.outer(np.linalg.norm(found, axis=1), np.linalg.norm(sought, axis=1))
    cosines = found @ sought.T / lengths
    precision = cosines.max(axis=1)[1:-1].mean()  # without the marks at both ends
    recall = cosines.max(axis=0)[1:-1].mean()
    f1 = 2 * precision * recall / (precision + recall)
    assert similarity(reference, answer) == pytest.approx((precision, recall, f1), abs=2e-6)
    assert similarity(reference, reference) == similarity(reference, f" {reference}\n") == (1, 1, 1)


@needs_packages
def test_threads_wait_for_each_other_and_get_the_same(model: Path) -> None:
    alone = [similarity(*pair) for pair in PAIRS]
    neural._similarity.cache_clear()
    neural._encoder.cache_clear()
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda pair: similarity(*pair), PAIRS)) == alone


@needs_packages
@pytest.mark.parametrize("rule", RULES)
def test_the_best_right_reference_counts_for_each_value(model: Path, rule: Rule) -> None:
    references = ("no acute distress", "chills")
    instance = asked(*references, wrong="chest pain")
    each = [similarity(reference, "chest pain") for reference in references]
    assert BERTSCORE.function(rule)("chest pain", instance) == max(values.f1 for values in each) < 1
    assert BERTSCORE_PRECISION.function(rule)("chest pain", instance) == max(values.precision for values in each)
    assert BERTSCORE_RECALL.function(rule)("chest pain", instance) == max(values.recall for values in each)


@needs_packages
@pytest.mark.parametrize("rule", RULES)
@every_metric
def test_what_every_metric_promises(model: Path, metric: Metric, rule: Rule) -> None:
    instance = asked("the patient denies chest pain")
    rate = metric.function(rule)
    assert rate(instance.expected, instance) == rate(f"\n {instance.expected} ", instance) == metric.best
    assert rate("", instance) == rate(" \n", instance) == metric.low
    assert metric.low < rate("no acute distress", instance) < metric.best


@needs_packages
def test_the_two_rules(model: Path) -> None:
    instance = asked("{no rash}")
    assert BERTSCORE.function("published")("no rash", instance) == 1
    assert BERTSCORE.corrected("no rash", instance) < 1
    assert BERTSCORE.corrected("<think>fever?</think>{no rash}", instance) == 1
    assert BERTSCORE.function("published")("<think>fever?</think>{no rash}", instance) < 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("instance", [asked(wrong="fever"), asked(" \n")], ids=["wrong", "blank"])
def test_without_a_reference_there_is_no_score(instance: Instance, rule: Rule) -> None:
    with pytest.raises(DataError, match="every correct reference is empty"):
        BERTSCORE.function(rule)("fever", instance)


# --- what may be missing ----------------------------------------------------------------------------------------------


def test_without_packages_there_is_no_score_but_a_reason_after_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []
    monkeypatch.setattr(neural, "find_spec", searches.append)
    for answer in ("fever", "chills", ""):
        scores = apply(METRICS, asked("fever"), Completion(text=answer))
        assert {score.failure and score.failure.code for score in scores} == {"not_computed"}
        assert all("needs torch and transformers: in a checkout, `pip install " in str(one.failure) for one in scores)
    assert searches == ["torch", "transformers"]


@needs_packages
def test_without_weights_there_is_no_score_but_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(NotComputed, match=f"set {FOLDER} to their folder, or run: hf download"):
        similarity("fever", "fever")


@needs_packages
@pytest.mark.parametrize("name", ["models--distilbert-base-uncased", "models--distilbert--distilbert-base-uncased"])
def test_weights_are_found_in_the_local_cache(
    weights: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    copytree(weights, tmp_path / name / "snapshots" / REVISION)
    assert similarity("no rash", "no rash") == (1, 1, 1)


def test_the_packages_are_not_loaded_before_they_are_needed() -> None:
    question = (
        "import sys, medhelm.scoring.metrics; print(sorted({'torch', 'transformers', 'nltk'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@every_metric
@pytest.mark.parametrize("reference", ["每日一次，每次75毫克。", "По 75 мг"])
def test_a_reference_in_another_script_is_not_compared(metric: Metric, reference: str) -> None:
    for rule in RULES:
        with pytest.raises(DataError, match="reads English, and less than half of the reference's words"):
            metric.function(rule)(reference, asked(reference))


# --- texts that are longer than the model reads -----------------------------------------------------------------------


@needs_packages
@every_metric
def test_texts_that_the_model_does_not_read_to_the_end_are_noticed(model: Path, metric: Metric) -> None:
    fits, long = "fever " * (LONGEST - 2), "fever " * (LONGEST - 1)  # and two special tokens
    cases = [(fits, fits), (long, fits), (fits, long), (f"<think>{long}</think>{fits}", fits)]
    found = [apply([metric], asked(reference), Completion(text=answer)) for answer, reference in cases]
    assert [[score.cut for score in scores] for scores in found] == [[cut] * 2 for cut in (False, True, True, False)]
    assert {score.value for score in apply([metric], asked(long), Completion(text=fits))} == {1.0}, "as if equal"
