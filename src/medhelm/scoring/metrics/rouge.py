r"""ROUGE (Lin, 2004): overlap of the words of a completion with those of a reference, from 0 to 1.

The F-measures of Google's `rouge-score` with its stemmer. Words of more than three letters a-z are replaced by their
stem. The best value over all correct references counts.

Published rule, as `rouge-score` bit for bit. Words are runs of a-z and 0-9 in lower case. Surrounding white space of
the completion is removed, then one `{` at the beginning and one `}` at the end of completion and references. A
reference without a word (for ROUGE-2, a pair of words) gives 0. A reference in another script is not compared, because
only its numbers and units would be: if less than half of its words, numbers aside, have a letter a-z, the score is
missing.

Corrected rule. Words are those of any script, see `unicode_words`; in ASCII texts they are the same. Letters with
accents, Greek letters and superscripts belong to words instead of separating them. Only reasoning between <think> tags
is removed. If no reference has a word (for ROUGE-2, a pair of words), the score is missing.

A completion without a word, or for ROUGE-2 without a pair of words, scores 0 by both rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from string import ascii_lowercase, digits
from typing import NamedTuple, TypeVar
from unicodedata import category, decomposition, digit, normalize

from medhelm.domain import Instance
from medhelm.domain.text import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.text import strip_reasoning
from medhelm.scoring.metric import Metric, ScoreFunction, correct_references

_SPACES_BETWEEN_WORDS = bytes(code if chr(code) in ascii_lowercase + digits else ord(" ") for code in range(256))
_SOURCE = "ROUGE (Lin, 2004), as in rouge-score 0.1.2 with stemming; published rule: HELM"


class Rouge(NamedTuple):
    """The F-measures of one completion and one reference, each from 0 (nothing in common) to 1 (the same words)."""

    rouge_1: float
    """Single words, in any order."""
    rouge_2: float
    """Pairs of adjacent words."""
    rouge_l: float
    """The longest common subsequence of words."""


_Kind = Callable[[Rouge], float]
"""Selects one of the three."""

_Element = TypeVar("_Element", bound=Hashable)


def without_braces(text: str) -> str:
    """Remove one `{` at the beginning and one `}` at the end, as the published rule does to every text.

    >>> without_braces("{{name}")
    '{name'
    """
    return text.removeprefix("{").removesuffix("}")


@lru_cache(maxsize=2048)
def words(text: str) -> tuple[str, ...]:
    """Split `text` into words of a-z and 0-9. Cached, because every model is compared with the same references.

    >>> words("The patient's ESR: 3.5 -> denied")
    ('the', 'patient', 's', 'esr', '3', '5', 'deni')
    """
    plain = text.lower().encode("ascii", "replace").translate(_SPACES_BETWEEN_WORDS).decode("ascii")
    return tuple(map(_stem_if_long, plain.split()))


@lru_cache(maxsize=2048)
def words_of_any_script(text: str) -> tuple[str, ...]:
    """Split `text` into words as the corrected rule does; those of an ASCII text are the same as by `words`.

    >>> words_of_any_script("Douleurs thoraciques, fièvre: 每日一次")
    ('douleur', 'thoraciqu', 'fièvre', '每', '日', '一', '次')
    """
    if text.isascii():
        return words(text)
    return tuple(_stem_if_long(word) if word.isascii() else word for word in unicode_words(text))


@lru_cache(maxsize=1 << 15)
def _stem_if_long(word: str) -> str:
    """Return the stem of a long word. Equal words become one object in memory."""
    return stem(word) if len(word) > 3 else word


def rouge(reference: str, completion: str, split: Callable[[str], tuple[str, ...]] = words) -> Rouge:
    """Compare a completion with a reference. `split`: `words`, or `words_of_any_script`.

    >>> rouge("no acute distress", "no distress")
    Rouge(rouge_1=0.8, rouge_2=0.0, rouge_l=0.8)
    """
    return _rouge(split(reference), split(completion))


@lru_cache(maxsize=256)
def _rouge(sought: tuple[str, ...], found: tuple[str, ...]) -> Rouge:
    """Compare the words of two texts. Cached: three metrics with two rules mostly need the same pair."""
    if not sought or not found:
        return Rouge(0.0, 0.0, 0.0)
    singles = _n_common(Counter(sought), Counter(found))
    pairs = _n_common(Counter(pairwise(sought)), Counter(pairwise(found)))
    in_order = longest_common_subsequence(sought, found)
    return Rouge(
        _f_measure(singles, len(found), len(sought)),
        _f_measure(pairs, len(found) - 1, len(sought) - 1),
        _f_measure(in_order, len(found), len(sought)),
    )


def _n_common(one: Counter[_Element], other: Counter[_Element]) -> int:
    """Count the common elements of two multisets."""
    return sum([min(one[element], other[element]) for element in one.keys() & other.keys()])


def _f_measure(common: int, found: int, sought: int) -> float:
    """Return the harmonic mean of common/found and common/sought, in the order of operations of `rouge-score`."""
    if common == 0:
        return 0.0
    precision, recall = common / found, common / sought
    return 2 * precision * recall / (precision + recall)


def longest_common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    Each row of the usual table is one integer (Crochemore et al., 2001; Hyyro, 2004): bit i of a row is 0 where the
    length grows at element i of `one`. Each growth also carries a bit out of the top, where it is never touched again.
    So in the end the length is the number of bits beyond those of `one`.

    >>> longest_common_subsequence("no acute distress".split(), "distress no acute".split())
    2
    """
    if len(one) > len(other):
        one, other = other, one
    places: dict[Hashable, int] = {}
    bit = 1
    for element in one:
        places[element] = places.get(element, 0) | bit
        bit <<= 1
    row = bit - 1
    for element in other:
        if hits := row & places.get(element, 0):
            row = (row + hits) | (row - hits)
    return row.bit_length() - len(one)


def _published(kind: _Kind) -> ScoreFunction:
    """Build the published rule of one of the three."""

    def rate(completion: str, instance: Instance) -> float:
        references = [reference for reference in correct_references(instance) if is_mostly_latin(reference)]
        if not references:
            raise DataError(
                "the published rule compares only a-z and 0-9, and less than half of the reference's words have such "
                "letters; the corrected rule compares all words"
            )
        text = without_braces(completion.strip())
        return max(kind(rouge(without_braces(reference), text)) for reference in references)

    return rate


def _corrected(kind: _Kind, needed: int) -> ScoreFunction:
    """Build the corrected rule of one of the three. References with fewer than `needed` words are ignored."""

    def rate(completion: str, instance: Instance) -> float:
        known = correct_references(instance)
        references = [reference for reference in known if len(words_of_any_script(reference)) >= needed]
        if not references:
            raise DataError(
                f"no correct reference has {'a word' if needed == 1 else 'two words'}; check the answer column, or "
                "leave this metric out"
            )
        text = strip_reasoning(completion).strip()
        return max(kind(rouge(reference, text, words_of_any_script)) for reference in references)

    return rate


def _metric(name: str, description: str, kind: _Kind, needed: int = 1) -> Metric:
    """Build one of the three metrics. `needed`: words that a reference must have by the corrected rule."""
    return Metric(
        name=name,
        title=METRIC_TITLES[name],
        description=f"{description}: F-measure. An empty completion scores 0.",
        source=_SOURCE,
        published=_published(kind),
        corrected=_corrected(kind, needed),
    )


ROUGE_1 = _metric("rouge_1", "Words shared with the reference, compared by stem", lambda scores: scores.rouge_1)
ROUGE_2 = _metric("rouge_2", "Pairs of adjacent words shared with the reference", lambda scores: scores.rouge_2, 2)
ROUGE_L = _metric("rouge_l", "Longest common subsequence of words with the reference", lambda scores: scores.rouge_l)


# --- porter stemmer ---------------------------------------------------------------------------------------------------
# Reduce English words to stems, which ROUGE compares, by Porter's rules with the additions of NLTK.
#
# M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980) 130-137, with the changes of its author ("bli"
# and "logi" among the suffixes of step 2) and those of NLTK's default mode: a table of irregular forms, short words in
# -ies and -ied, a final y that stays after a vowel, and "alli" and "fulli" in step 2.

_VOWELS = frozenset("aeiou")

_IRREGULAR = {
    "skies": "sky",
    "sky": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}

_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "fulli": "ful",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = frozenset({
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
})  # fmt: skip


def stem(word: str) -> str:
    """Return the stem of a lower-case word, never empty. Words of one or two letters stay.

    Everything but a vowel counts as a consonant, digits included. The same as `nltk.stem.PorterStemmer().stem(word)`.

    >>> [stem(word) for word in ("denies", "denied", "denying", "hypertensive", "hypertension")]
    ['deni', 'deni', 'deni', 'hypertens', 'hypertens']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _without_past(_without_plural(word))
    if word.endswith("y") and len(word) > 2 and _shape(word)[-2] == "c":
        word = word[:-1] + "i"
    return _without_final_letter(_step_4(_step_3(_step_2(word))))


def _shape(word: str) -> str:
    """Map each letter to v for a vowel or c for a consonant. A y is a vowel after a consonant."""
    vowel = True
    shape = []
    for letter in word:
        vowel = letter in _VOWELS or (letter == "y" and not vowel)
        shape.append("v" if vowel else "c")
    return "".join(shape)


def _measure(word: str) -> int:
    """Count the vowels followed by a consonant: Porter's m."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Return True if a word ends in consonant, vowel, consonant (not w, x, y), or is vowel, consonant: Porter's *o."""
    shape = _shape(word)
    return (shape.endswith("cvc") and word[-1] not in "wxy") or shape == "vc"


def _suffix(word: str, suffixes: frozenset[str] | dict[str, str]) -> str:
    """Return the longest of `suffixes` at the end of `word`; "" if there is none."""
    for length in range(7, 1, -1):
        if word[-length:] in suffixes:
            return word[-length:]
    return ""


def _without_plural(word: str) -> str:
    """Step 1a: -sses, -ies, -s."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_past(word: str) -> str:
    """Step 1b: -ied, -eed, -ed, -ing."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        rest = word.removesuffix(suffix)
        if rest != word and "v" in _shape(rest):
            return _restored(rest)
    return word


def _restored(rest: str) -> str:
    """Restore the word before -ed or -ing: hop(ping), siz(ed) -> hop, size."""
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if rest[-2:-1] == rest[-1] and _shape(rest)[-1] == "c":
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _step_2(word: str) -> str:
    """A double suffix becomes a single one: -ization -> -ize."""
    suffix = _suffix(word, _STEP_2)
    # The l of -logi counts as part of what goes before it, so that "geo" is long enough.
    before = word[:-3] if suffix == "logi" else word.removesuffix(suffix)
    if not suffix or _measure(before) == 0:
        return word
    shorter = word.removesuffix(suffix) + _STEP_2[suffix]
    return _step_2(shorter) if suffix == "alli" else shorter


def _step_3(word: str) -> str:
    """-icate, -ful, -ness and the like."""
    suffix = _suffix(word, _STEP_3)
    rest = word.removesuffix(suffix)
    return rest + _STEP_3[suffix] if suffix and _measure(rest) > 0 else word


def _step_4(word: str) -> str:
    """-ant, -ence and the like, where enough is left without them."""
    suffix = _suffix(word, _STEP_4)
    rest = word.removesuffix(suffix)
    if not suffix or _measure(rest) < 2 or (suffix == "ion" and rest[-1] not in "st"):
        return word
    return rest


def _without_final_letter(word: str) -> str:
    """Step 5: a final e, and one l of two."""
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


# --- unicode words ----------------------------------------------------------------------------------------------------
# Splits texts of any script into words, for metrics that compare words.
#
# A word is a run of letters, combining marks and digits. In scripts without spaces between words each character is a
# word of its own, with its marks: Han, Kana, Hangul, Bopomofo, Thai, Lao, Khmer and Myanmar. This is Unicode's
# segmentation (UAX #29) without its rules for apostrophes and decimal points, at which ROUGE has always split. The
# standard library has all properties it needs. The package `regex` has these rules too, but leaves Thai and Khmer in
# one piece.

CHARACTER_SCRIPTS = (
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # Kana
    "\u3100-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
    "\u0e01-\u0e4f\u0e5a-\u0ecf\u0eda-\u0eff"  # Thai and Lao, without their digits
    "\u1780-\u17df\u17ea-\u17ff"  # Khmer
    "\u1000-\u103f\u104a-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"  # Myanmar
)
"""Scripts without spaces between words, as ranges of a regular expression; the line without a comment is Han."""

LEAST_LATIN = 0.5
"""Minimum share of words with a letter a-z for a text to be mostly Latin."""

_ZERO_WIDTH_SPACE = "\u200b"

_WORDS = lazy_regex(rf"(?=\w)[{CHARACTER_SCRIPTS}][^\w\s]*|\w[^\s{CHARACTER_SCRIPTS}]*")
"""A word of a folded text, in which all that is neither \\w nor a space is a combining mark."""


def unicode_words(text: str) -> list[str]:
    """Return the words of a text, with one spelling for each: lower case, composed, digits 0 to 9.

    Superscripts and fractions are words of their own, so that 10\u2079 is not 109. Characters without a width are
    removed, and all other characters separate words.

    >>> unicode_words("Fie\u0300vre, 7.5 mg: 每次\uff17\u0665毫克")
    ['fièvre', '7', '5', 'mg', '每', '次', '75', '毫', '克']
    """
    folded = normalize("NFC", text).translate(_FOLDED)
    found: list[str] = _WORDS.findall(normalize("NFC", folded))
    return found


@lru_cache(maxsize=2048)
def is_mostly_latin(text: str) -> bool:
    """Return True if at least half of the words, numbers aside, have a letter a-z; also True without such words.

    Of other texts, a metric that knows only these letters sees numbers and units. Cached, because models share
    references.

    >>> is_mostly_latin("Fièvre 39 °C"), is_mostly_latin("每日75毫克"), is_mostly_latin("75")
    (True, False, True)
    """
    if text.isascii():
        return True
    known = [word for word in unicode_words(text) if not word.isdigit()]
    return sum(any(map(str.isascii, word.strip(digits))) for word in known) >= LEAST_LATIN * len(known)


class _Folded(dict[int, str]):
    """Code point -> its text within a word, or spaces where it separates words; filled as characters occur."""

    def __missing__(self, code: int) -> str:
        """Return the text of a character that has not occurred before."""
        character = chr(code)
        kind, tag = category(character), decomposition(character).partition(" ")[0]
        text = " "
        if kind == "Nd":
            text = str(digit(character))
        elif kind == "Me" or (kind == "Cf" and character != _ZERO_WIDTH_SPACE) or _selects_variant(character):
            text = ""
        elif kind[0] in "LMN":
            plain = normalize("NFKC", character).casefold()
            text = "".join(c if category(c)[0] in "LMN" else " " for c in plain)
            if (kind == "No" and tag != "<sub>") or tag == "<super>":
                text = f" {text} "
        self[code] = text
        return text


_FOLDED = _Folded()


def _selects_variant(character: str) -> bool:
    """Return True for a mark that only selects how the character before it is drawn, such as an emoji."""
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


@cache
def combining_marks() -> str:
    """Return all combining marks as characters of a set in a regular expression."""
    return "".join(character for character in map(chr, range(0x300, 0x20000)) if category(character).startswith("M"))
