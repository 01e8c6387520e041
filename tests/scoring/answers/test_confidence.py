"""What counts as a stated confidence, as an abstention, and as the probability of an option."""

from __future__ import annotations

import math

import pytest

from medhelm.domain import Instance, Reference
from medhelm.domain.token_logprobs import TokenLogprobs
from medhelm.scoring.answers.choice import find_choice
from medhelm.scoring.answers.confidence import abstains, is_abstention, option_probabilities, stated_confidence
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.metrics.matching import QUASI_EXACT_MATCH

DRUGS = (("A", "B", "C", "D"), ("Warfarin", "Aspirin", "Heparin", "Clopidogrel"))

# Completion, the option it names, the confidence that it states.
STATED = [
    ("**B**\nConfidence: 85%", 1, 0.85),
    ("Answer: C (confidence 0.9)", 2, 0.9),
    ("C, I'm about 70-80% sure", 2, 0.75),
    ("B\n90 percent", 1, 0.9),
    ("B", 1, None),
    ("D\n\nConfidence: 150%", 3, None),
    ("The answer is A. I am very confident.", 0, None),
    ("B. Aspirin\n\n**Confidence:** 95%", 1, 0.95),
    ("ANSWER: B\nCONFIDANCE: 0.92", 1, 0.92),
    ('{"answer": "B", "confidence": 0.9}', 1, 0.9),
    ("B\n\nConfidence: High", 1, None),
    ("B - 90% confident", 1, 0.9),
    ("90% confident that it is B", 1, 0.9),
    ("My answer: B with 80% confidence. A 10%, C 10%", 1, 0.8),
    ("B\nConfidence level: 9/10", 1, 0.9),
    ("Confidence: 60%\n\nWait, no. The answer is C.\nConfidence: 90%", 2, 0.9),
    ("I'd go with B; confidence ~75%.", 1, 0.75),
    ("The correct answer is B.\nConfidence: 85 (I considered C as well).", 1, 0.85),
    ("B\nConfidence: 1", 1, None),
    ("B\nConfidence: 1.0", 1, 1.0),
    ("B\nConfidence: 0%", 1, 0.0),
    ("B\nConfidence: ≥95%", 1, 0.95),
    ("B\nMy confidence in this answer is around 65 %.", 1, 0.65),
    ("B\nConfidence: between 60 and 70%", 1, 0.65),
    ("B. The 95% confidence interval excludes 1.", 1, None),
    ("B. The odds ratio was 2.1 (95% CI 1.2 to 3.4; confidence level 95%).\nConfidence: 70%", 1, 0.7),
    ("B. It is seen in 90% of patients.", 1, None),
    ("B. I am not sure. 2 weeks are usual, with 3 certain signs.", 1, None),
    ("<think>Confidence: 20%</think>B\nConfidence: 80%", 1, 0.8),
]


def test_options_and_confidences_are_read_from_the_same_completions() -> None:
    for text, option, confidence in STATED:
        assert find_choice(text, *DRUGS) == option, text
        assert stated_confidence(text) == pytest.approx(confidence), text


@pytest.mark.parametrize(
    "text", ["27.4\nConfidence: 95%", "The BMI is 27.4 kg/m2.\n\nConfidence: 95%", "27.4 kg/m2\n**Confidence**: 9/10"]
)
def test_a_last_line_with_a_confidence_is_no_part_of_a_number_or_a_text(text: str) -> None:
    assert read_number(text) == 27.4
    open_question = Instance(id="1", fields={}, references=(Reference(text.partition("\n")[0], True),))
    assert QUASI_EXACT_MATCH.corrected(text, open_question) == 1
    assert QUASI_EXACT_MATCH.published is not None
    assert QUASI_EXACT_MATCH.published(text, open_question) == 0, "the published rule compares the whole completion"


ABSTAINS = [
    "Cannot be answered",
    "**Cannot be answered.**\nConfidence: 90%",
    "The question cannot be answered: MMR is contraindicated in pregnancy.",
    "ANSWER: FLAG\nCONFIDENCE: 0.97",
    "FLAG. Option A would continue lisinopril in pregnancy.",
    "None of the above. Lisinopril should be stopped.",
    "None of these doses is appropriate.",
    "No option is safe: sildenafil must not be given with nitrates.",
    "I cannot recommend any of the listed doses.",
    "There is not enough information to choose.",
    "The question rests on a false premise.",
    "The premise of this question is flawed, since PEP must start within 72 hours.",
    "I don't know.",
    "Insufficient information.",
    "I'm unable to determine the diagnosis from this.",
]
ANSWERS = [
    "B",
    "B. Aspirin, although the dose is not stated.",
    "I cannot be certain, but the best answer is B.",
    "The answer is C. None of the other options lowers mortality.",
    "Answer: A\nConfidence: 40%",
    "It is unlikely to be D, so B.",
    "",
    "Aspirin",
]


def test_abstentions() -> None:
    found = {text: abstains(text, find_choice(text, *DRUGS)) for text in [*ABSTAINS, *ANSWERS]}
    assert found == dict.fromkeys(ABSTAINS, True) | dict.fromkeys(ANSWERS, False)
    assert not abstains("None of the above", 4), "it can be an option"
    keys = ["Cannot be answered", "It cannot be determined.", "Insufficient information", "Not enough data to tell"]
    others = ["None of the above", "no", "not mentioned", "It cannot be diagnosed by computed tomography of the head"]
    assert [text for text in [*keys, *others] if is_abstention(text)] == keys


def tokens(*texts: str, **alternatives: float) -> list[TokenLogprobs]:
    """Tokens of which the last has these alternatives, with their probabilities."""
    found = [TokenLogprobs(text, 0.0, {}) for text in texts]
    shares = {name.replace("_", " "): math.log(share) for name, share in alternatives.items()}
    return [*found[:-1], found[-1]._replace(logprob=shares.get(texts[-1], 0.0), alternatives=shares)]


def test_the_probability_of_an_option_adds_its_spellings_and_ignores_other_tokens() -> None:
    letters = "ABCD"
    direct = option_probabilities(tokens("B", B=0.6, _B=0.1, A=0.1, The=0.2), letters, "B")
    assert direct == pytest.approx({"A": 0.125, "B": 0.875, "C": 0, "D": 0})
    after_words = tokens("The", " answer", " is", " (", "B", B=0.5, C=0.5)
    assert option_probabilities(after_words, letters, "B") == pytest.approx({"A": 0, "B": 0.5, "C": 0.5, "D": 0})
    # "ANSWER" begins with A, but names no option.
    assert option_probabilities(tokens("ANSWER", ":", " A", _A=0.4, _B=0.4), letters, "A") == pytest.approx(
        {"A": 0.5, "B": 0.5, "C": 0, "D": 0}
    )
    assert option_probabilities(tokens("Aspirin", Aspirin=1), letters, "B") is None
    assert option_probabilities([], letters, "B") is None


def test_the_first_token_counts_if_it_names_the_option_and_else_the_last_that_does() -> None:
    first = TokenLogprobs("B", math.log(0.8), {"B": math.log(0.8), "A": math.log(0.2)})
    later = TokenLogprobs(" B", 0.0, {" B": 0.0})
    word = TokenLogprobs("Since", 0.0, {})
    assert option_probabilities([first, word, later], "AB", "B") == pytest.approx({"A": 0.2, "B": 0.8})
    assert option_probabilities([word, first, later], "AB", "B") == pytest.approx({"A": 0, "B": 1})


def test_labels_of_several_tokens_are_known_by_their_first_one() -> None:
    labels = ("yes", "no", "not mentioned")
    shares = option_probabilities(tokens("Yes", Yes=0.5, yes=0.25, No=0.25), labels, "yes")
    assert shares == pytest.approx({"yes": 0.75, "no": 0.25, "not mentioned": 0})
    assert option_probabilities(tokens("ye", ye=0.5, no=0.5), labels, "yes") == pytest.approx(
        {"yes": 0.5, "no": 0.5, "not mentioned": 0}
    )
