"""Reduce English words to stems, which ROUGE compares, by Porter's rules with the additions of NLTK.

M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980) 130-137, with the changes of its author ("bli" and
"logi" among the suffixes of step 2) and those of NLTK's default mode: a table of irregular forms, short words in -ies
and -ied, a final y that stays after a vowel, and "alli" and "fulli" in step 2.
"""

from __future__ import annotations

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
