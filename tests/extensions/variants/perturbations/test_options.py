"""The order of options: what moves, what stays, and letters that follow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from medhelm.benchmarks.prompts import LETTERS, render
from medhelm.domain import Benchmark, Instance, Reference
from medhelm.extensions.variants.listing import perturbation_variant
from medhelm.extensions.variants.perturbations import GROUPS, perturbations
from tests.support.benchmarks.library import benchmark, sample_tier

MED_QA = benchmark("med_qa")


def question(*choices: str, key: int = 0, text: str = "Which enzyme opens the ring?") -> Instance:
    """Return a question with these options."""
    references = tuple(Reference(choice, place == key) for place, choice in enumerate(choices))
    return Instance(
        id="1", fields={"question": text}, references=references, choices=choices, labels=LETTERS[: len(choices)]
    )


def changed(name: str, instance: Instance, of: Benchmark = MED_QA) -> Instance | None:
    change = perturbation_variant(perturbations()[name], of, 0).instance
    assert change
    return change(instance)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("w x y z", "z y x w"),
        ("w|x|y|None of the above", "y|x|w|None of the above"),
        ("w|x|All of these|None.", "x|w|All of these|None."),
        ("w|x|y|Cannot be determined from the data", "y|x|w|Cannot be determined from the data"),
        ("w|Not applicable|y|z", "z|Not applicable|y|w"),
        ("w|x|y|Both A and B", "y|x|w|Both B and C"),
        ("w|x|y|A & C only", "y|x|w|A & C only"),
        ("w|x|y|Both AB", "y|x|w|Both BC"),
        ("w|x|'B' & 'A'|a and b", "x|w|'A' & 'B'|a and b"),
        ("w|x|Both|Neither", "x|w|Both|Neither"),
        ("w|x|y|as in option A, but later", "as in option D, but later|y|x|w"),
        ("Above 5 cm|Above 10 cm|Previous MI|Hepatitis B", "Hepatitis B|Previous MI|Above 10 cm|Above 5 cm"),
        ("B and C|A and C|A, B and C|C and D", "C and D|A, B and C|A and C|B and C"),  # statements of the question
        ("1 and 2|2 and 3|1 and 3|3 only", None),
        ("w|x|y|Both 1 and 2", None),
        ("w|x|Both|z", None),
        ("w|x|y|Both of the above", None),
        ("w|All of the above|y|z", None),
        ("w|x|y|First any of the above, then z", None),
        ("A|B|C|D", None),
        ("a) w|b) x|c) y|d) z", None),
    ],
)
def test_options_about_others_keep_their_place_and_letters_follow(before: str, after: str | None) -> None:
    sign = "|" if "|" in before else " "
    found = changed("options_reversed", question(*before.split(sign), key=1))
    if after is None:
        assert found is None
        return
    assert found
    assert found.choices == tuple(after.split(sign))


def test_the_correct_option_moves_with_its_text() -> None:
    for key in range(4):
        found = changed("options_reversed", question("w", "x", "y", "z", key=key))
        assert found
        assert found.correct == ("wxyz"[key],)
        assert found.expected == "DCBA"[key]


def test_letters_in_the_question_follow_and_those_of_its_statements_keep_the_question_out() -> None:
    found = changed("options_reversed", question("w", "x", "y", "z", text="Why is option A wrong? Vitamin A helps."))
    assert found
    assert found.fields == {"question": "Why is option D wrong? Vitamin A helps."}
    statements = "A. The liver grows. B. The spleen shrinks. Which is true?"
    assert changed("options_reversed", question("w", "x", "y", "A and B", text=statements)) is None


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_rotations_put_each_option_once_in_each_place(n: int) -> None:
    asked = question(*"vwxyz"[:n], "None of the above")
    orders = [asked, *filter(None, (changed(name, asked) for name in GROUPS["options_order"]))]
    assert len(orders) == n
    places = Counter((place, text) for order in orders for place, text in enumerate(order.choices[:n]))
    assert set(places.values()) == {1}
    assert len(places) == n * n
    assert sum(order.expected == "A" for order in orders) == 1  # a model that always says A is right in one order


def test_a_prompt_that_explains_its_letters_explains_the_new_order() -> None:
    of = benchmark("pubmed_qa")
    reverse = perturbations()["options_reversed"].benchmark
    assert reverse
    found = changed("options_reversed", sample_tier("pubmed_qa")[0], of)
    assert found
    text = render(reverse(of), found).messages[-1].text
    assert "C is yes, B is no, A is maybe" in text
    assert "A. maybe\nB. no\nC. yes" in text
    assert changed("options_shuffled", sample_tier("pubmed_qa")[0], of) is None  # one prompt for all orders
    assert changed("options_reversed", sample_tier("clear")[0], benchmark("clear")) is None  # in words of its own


def test_options_without_letters_are_named_by_their_texts() -> None:
    of = replace(MED_QA, choice_labels="texts")
    found = changed("options_reversed", replace(question("w", "x", "option A"), labels=("w", "x", "option A")), of)
    assert found
    assert found.labels == found.choices == ("option A", "x", "w")
    assert changed("options_reversed", sample_tier("medhallu")[0], benchmark("medhallu")) is None  # lists no options


@pytest.mark.parametrize(
    ("text", "choices", "applies"),
    [
        ("Which enzyme opens the ring?", "pepsin lipase amylase lactase", True),
        ("Which enzyme opens the ring?", "pepsin.|lipase.|amylase.", True),
        ("Which enzyme most likely opens the ring?", "pepsin lipase amylase lactase", False),
        ("Which enzyme does not open the ring?", "pepsin lipase amylase lactase", False),
        ("Which enzyme is marked in the figure?", "pepsin lipase amylase lactase", False),
        ("Which enzyme opens the ring?", "pepsin|lipase|amylase|None of these", False),
        ("Which enzyme opens the ring?", "pepsin|a kind of pepsin|amylase|lactase", False),
        ("How many rings are there?", "5|more than 2|1|0", False),
        ("Which enzyme opens the ring?", "pepsin lipase", False),
    ],
)
def test_none_of_the_above_is_correct_where_no_other_option_can_be(text: str, choices: str, applies: bool) -> None:
    texts = choices.split("|" if "|" in choices else " ")
    found = changed("none_of_the_above", question(*texts, text=text))
    assert (found is not None) == applies
    if found:
        ends = "." if texts[0].endswith(".") else ""
        assert found.choices == (*texts[1:], f"None of the above{ends}")
        assert found.expected == LETTERS[len(texts) - 1]
