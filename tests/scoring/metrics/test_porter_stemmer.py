"""Stems of English words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.scoring.metrics.rouge import stem

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
