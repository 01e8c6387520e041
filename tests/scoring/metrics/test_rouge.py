"""ROUGE: against Google's package, by hand, and what it promises."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.domain import RULES, Rule
from medhelm.errors import DataError
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics.rouge import (
    ROUGE_1,
    ROUGE_2,
    ROUGE_L,
    Rouge,
    rouge,
    stem,
    unicode_words,
    words,
    words_of_any_script,
)
from tests.support.benchmarks.questions import open_question as asked
from tests.support.cases import table

every_rule = pytest.mark.parametrize("rule", RULES)
every_metric = pytest.mark.parametrize("metric", [ROUGE_1, ROUGE_2, ROUGE_L], ids=lambda metric: metric.name)
pieces = [
    "the", "The", "patient", "patients", "denied", "denies", "denying", "fever,", "fevers.", "3.5", "mg", "->", "É",
    "e\u0301", "{a}", "\n", "\u212a", "İ",
]  # fmt: skip
prose = st.lists(st.sampled_from(pieces)).map(" ".join)


# --- words and subsequences -------------------------------------------------------------------------------------------


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii_are_the_same_by_both_rules(text: str) -> None:
    """The corrected rule finds them by another way as soon as a text has one other character, so that is compared."""
    assert words_of_any_script(text) == words(text)
    assert words_of_any_script(f"{text} —") == words(text)


@table(
    ("text", "expected"),
    [
        ("Ménière Sjögren", ("ménière", "sjögren")),
        ("\u03b2-blocker \u00b5g \u03bcg", ("\u03b2", "blocker", "\u03bcg", "\u03bcg")),
        ("10\u2079/L, 2\u00bd m\u00b2, HbA\u2081c", ("10", "9", "l", "2", "1", "2", "m", "2", "hba1c")),
        ("\ufb01brosis soft\u00adware a\u200bb", ("fibrosi", "softwar", "a", "b")),
        ("ไม่กิน ๗๕ มก.", ("ไ", "ม่", "กิ", "น", "75", "ม", "ก")),  # marks stay with their letters
        ("ឈឺក្បាល", ("ឈឺ", "ក្", "បា", "ល")),
        ("٧٥ ملغ مرّة", ("75", "ملغ", "مرّة")),
        ("5\ufe0f\u20e3 \u2764\ufe0f \u0301 x\ud800y", ("5", "x", "y")),
    ],
)
def test_the_words_of_other_scripts(text: str, expected: tuple[str, ...]) -> None:
    assert words_of_any_script(text) == expected


@given(st.text())
def test_no_letter_or_digit_is_lost(text: str) -> None:
    """Each of them is in a word, and a word begins with one."""
    found = words_of_any_script(text)
    assert all(word[0].isalnum() for word in found)
    kept = [c for c in unicodedata.normalize("NFC", text) if unicodedata.category(c)[0] in "LN"]
    assert sum(map(len, unicode_words(text))) >= len(kept) * (not text.isascii())


# --- the three values -------------------------------------------------------------------------------------------------


@table(
    ("reference", "answer", "expected"),
    [
        ("no acute distress", "no acute distress", (1, 1, 1)),
        ("no acute distress", "distress, acute: no", (1, 0, 1 / 3)),
        ("no fever no chills", "no fever", (2 / 3, 0.5, 2 / 3)),
        ("denies fevers", "DENIED FEVER", (1, 1, 1)),
        ("no acute distress", "fever", (0, 0, 0)),
        ("", "", (0, 0, 0)),
    ],
)
def test_the_values_of(reference: str, answer: str, expected: tuple[float, float, float]) -> None:
    assert rouge(reference, answer) == pytest.approx(expected, abs=1e-15)


@given(st.one_of(prose, st.text()), st.one_of(prose, st.text()))
def test_values_lie_between_nothing_and_the_same_words(one: str, other: str) -> None:
    scores = rouge(one, other)
    assert all(0 <= score <= 1 for score in scores)
    assert scores.rouge_l <= scores.rouge_1  # a series in order cannot be longer than what is shared in any order
    assert rouge(one, one) == ((1, float(len(words(one)) > 1), 1) if words(one) else (0, 0, 0))


def test_values_are_those_of_google_for_any_text() -> None:
    package = pytest.importorskip("rouge_score.rouge_scorer", reason="rouge-score is in the group dev")
    google = package.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)

    @given(st.one_of(prose, st.text()), st.one_of(prose, st.text()))
    def check(reference: str, answer: str) -> None:
        scores = google.score(reference, answer)
        expected = Rouge(*(scores[name].fmeasure for name in ("rouge1", "rouge2", "rougeL")))
        assert rouge(reference, answer) == expected

    check()


# --- the two rules ----------------------------------------------------------------------------------------------------


@every_rule
def test_the_best_right_reference_counts(rule: Rule) -> None:
    instance = asked("fever", "no acute distress", wrong="chills and a cough")
    assert ROUGE_L.function(rule)("no acute distress", instance) == 1
    assert ROUGE_L.function(rule)("chills and a cough", instance) == 0


def test_reasoning_is_not_part_of_an_answer() -> None:
    reply = "<think>fever, chills or a cough?</think>no acute distress"
    assert ROUGE_1.corrected(reply, asked("no acute distress")) == 1
    assert ROUGE_1.function("published")(reply, asked("no acute distress")) < 0.6


@pytest.mark.parametrize("reference", ["", "。！"])
@every_metric
def test_a_reference_without_words_cannot_be_scored(metric: Metric, reference: str) -> None:
    assert metric.function("published")(reference, asked(reference)) == 0
    with pytest.raises(DataError, match="no correct reference has"):
        metric.corrected(reference, asked(reference))


DANGEROUS = [
    ("每日一次，每次75至100毫克。", "绝对不能服用：75和100都会致命。"),
    ("يؤخذ 75 إلى 100 ملغ مرة يوميا", "لا تتناوله أبدا: 75 و100 قاتلة"),
    ("По 75–100 мг один раз в день.", "Никогда не принимать: 75 и 100 смертельны."),
]


@every_metric
@pytest.mark.parametrize(("reference", "dangerous"), DANGEROUS)
def test_digits_alone_do_not_make_an_answer_right(metric: Metric, reference: str, dangerous: str) -> None:
    assert metric.corrected(reference, asked(reference)) == 1
    assert metric.corrected(dangerous, asked(reference)) < 0.5
    for completion in (reference, dangerous):
        with pytest.raises(DataError, match="the published rule compares only a-z and 0-9"):
            metric.function("published")(completion, asked(reference))


def test_the_published_rule_compares_what_it_mostly_reads() -> None:
    for reference in ("Fièvre élevée depuis lundi", "Đau ngực", "TNF-α", "fever: 熱", "75", "", "…"):
        assert ROUGE_1.function("published")(reference, asked(reference)) == float(any(c.isalnum() for c in reference))
    assert ROUGE_1.function("published")("75 100", asked("每日75至100毫克", "fever")) == 0  # the other one is left out


def test_a_reference_of_one_word_has_no_pair() -> None:
    assert ROUGE_1.corrected("fever", asked("fever")) == ROUGE_L.corrected("fever", asked("fever")) == 1
    assert ROUGE_2.function("published")("fever", asked("fever")) == 0
    with pytest.raises(DataError, match="no correct reference has two words"):
        ROUGE_2.corrected("fever", asked("fever"))
    assert ROUGE_2.corrected("no fever", asked("fever", "no fever")) == 1


# --- stems ------------------------------------------------------------------------------------------------------------


ENDINGS = [
    "s", "ss", "sses", "ies", "es", "ied", "eed", "ed", "ing", "y", "e", "ll", "at", "bl", "iz", "ational", "tional",
    "enci", "anci", "izer", "bli", "alli", "entli", "eli", "ousli", "ization", "ation", "ator", "alism", "iveness",
    "fulness", "ousness", "aliti", "iviti", "biliti", "fulli", "logi", "icate", "ative", "alize", "iciti", "ical",
    "ful", "ness", "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion",
    "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize",
]  # fmt: skip
lower_case_words = st.from_regex("[a-z0-9]{1,20}", fullmatch=True)
DEPARTURES = "skies sky dying lying tying news innings outings cannings howe proceed exceed succeed dies flies tried"
"""Words where NLTK departs from Porter's paper."""

words_with_endings = st.builds(
    lambda start, endings: start + "".join(endings),
    st.text("aeiouybclstz1", max_size=5),
    st.lists(st.sampled_from(ENDINGS), max_size=3),
)


@settings(max_examples=200)
@given(st.one_of(lower_case_words, words_with_endings, st.sampled_from(DEPARTURES.split())))
def test_it_is_the_stem_of_nltk(word: str) -> None:
    porter = pytest.importorskip("nltk.stem.porter", reason="nltk comes with rouge-score, of the group dev")
    assert stem(word) == porter.PorterStemmer().stem(word)


@pytest.mark.long
def test_it_is_the_stem_of_nltk_for_every_word_of_real_notes(data_dir: Path) -> None:
    porter = pytest.importorskip("nltk.stem.porter", reason="nltk comes with rouge-score, of the group dev")
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in data_dir.glob("mtsamples_*/*/*.txt")]
    for path in data_dir.glob("aci_bench/*.json"):
        texts += [row["src"] + row["tgt"] for row in json.loads(path.read_text(encoding="utf-8"))["data"]]
    vocabulary = {word for text in texts for word in re.findall("[a-z0-9]+", text.lower())}
    assert len(vocabulary) > 20_000
    theirs = porter.PorterStemmer()
    assert {word: stem(word) for word in vocabulary} == {word: theirs.stem(word) for word in vocabulary}
