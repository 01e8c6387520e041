"""Sets of labels and balanced accuracy: against scikit-learn 1.9, whose results are written down here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from medhelm.analysis.ratios import linearized
from medhelm.domain import RULES, Instance, Rule
from medhelm.errors import DataError
from medhelm.scoring.answers.labels import read_labels
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics import METRICS
from tests.support.benchmarks.questions import choice, open_question
from tests.support.cases import table

F1, MICRO, MACRO = METRICS["label_f1"], METRICS["label_micro_f1"], METRICS["label_macro_f1"]
BALANCED = METRICS["balanced_accuracy"]

REFERENCES = ["asthma, copd", "copd", "pneumonia, sepsis, asthma", "sepsis", "asthma, heart failure"]
ANSWERS = ["asthma", "copd, asthma", "pneumonia; sepsis; asthma", "pneumonia", ""]


def total(metric: Metric, rule: Rule, replies: Sequence[str], instances: Sequence[Instance]) -> float:
    """The number of a whole run."""
    values = np.array([metric.function(rule)(reply, one) for reply, one in zip(replies, instances, strict=True)])
    if metric.parts is None:
        return float(values.mean())
    parts = [metric.parts(reply, one, rule) for reply, one in zip(replies, instances, strict=True)]
    return float(linearized(values, parts).mean())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("metric", "expected"), [(F1, 0.4666666667), (MICRO, 0.625), (MACRO, 0.5333333333)])
def test_averages_are_those_of_scikit_learn(metric: Metric, expected: float, rule: Rule) -> None:
    """f1_score(average="samples" | "micro" | "macro", zero_division=0) on the same sets."""
    found = total(metric, rule, ANSWERS, [open_question(reference) for reference in REFERENCES])
    assert found == pytest.approx(expected)


def test_balanced_accuracy_is_that_of_scikit_learn() -> None:
    """balanced_accuracy_score: 3 of 4 yes, 1 of 2 no, 0 of 1 maybe."""
    options = ("yes", "no", "maybe")
    truth = ["yes", "yes", "yes", "yes", "no", "no", "maybe"]
    replies = ["A", "A", "B", "A", "B", "A", "B"]
    found = total(BALANCED, "corrected", replies, [choice(options.index(right), *options) for right in truth])
    assert found == pytest.approx(0.4166666667)


@table("seed", range(10))
def test_averages_follow_from_counts(seed: int) -> None:
    """An independent computation from the counts of each label."""
    draw = random.Random(seed)
    vocabulary = [f"label {n}" for n in range(draw.randint(1, 8))]
    references = [set(draw.sample(vocabulary, draw.randint(1, len(vocabulary)))) for _ in range(9)]
    answers = [{label for label in [*vocabulary, "invented"] if draw.random() < 0.4} for _ in range(9)]
    hits, given, wanted = Counter[str](), Counter[str](), Counter[str]()
    for reference, answer in zip(references, answers, strict=True):
        hits.update(reference & answer)
        given.update(answer)
        wanted.update(reference)
    each = [2 * hits[label] / (given[label] + wanted[label]) for label in given.keys() | wanted.keys()]
    whole = 2 * hits.total() / (given.total() + wanted.total())
    instances = [open_question(", ".join(sorted(reference))) for reference in references]
    replies = ["\n".join(f"- {label.title()}" for label in sorted(answer)) for answer in answers]
    assert total(MICRO, "corrected", replies, instances) == pytest.approx(whole)
    assert total(MACRO, "corrected", replies, instances) == pytest.approx(sum(each) / len(each))


@table(
    "text",
    [
        "* **Asthma**\n* **COPD**\n* **Heart failure**",
        '["asthma", "COPD", "heart failure"]',
        "Asthma, COPD, and heart failure.",
        "<think>sepsis, shock</think>asthma, COPD, heart failure",
    ],
)
def test_labels_are_read_in_any_list(text: str) -> None:
    assert read_labels(text) == {"asthma", "copd", "heart failure"}


def test_the_published_rule_compares_labels_exactly() -> None:
    reference = open_question("Asthma, COPD")
    for reply, published in [("Asthma,COPD", 1), (" COPD\nAsthma ", 1), ("asthma, copd", 0), ("- Asthma, COPD", 0.5)]:
        assert F1.function("published")(reply, reference) == published
        assert F1.corrected(reply, reference) == 1


def test_wrong_labels_are_explained() -> None:
    explained = "missing: asthma; not in the reference: sepsis"
    assert F1.explain("COPD, sepsis", open_question("asthma, copd"), "corrected") == explained
    many = open_question(", ".join("abcdefgh"))
    assert F1.explain("a", many, "corrected") == "missing: b, c, d, e, f and 2 more"


def test_labels_can_be_in_several_references() -> None:
    assert F1.corrected("copd, asthma", open_question("asthma", "copd")) == 1


@pytest.mark.parametrize("rule", RULES)
def test_an_instance_that_has_no_labels_or_options_cannot_be_scored(rule: Rule) -> None:
    for metric in (F1, MICRO, MACRO):
        for nothing in (open_question(), open_question(" ; ")):
            with pytest.raises(DataError, match="the reference holds no label"):
                metric.function(rule)("asthma", nothing)
    with pytest.raises(DataError, match="the question has no options"):
        BALANCED.function(rule)("asthma", open_question("asthma"))
