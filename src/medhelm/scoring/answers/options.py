"""Find where a completion names the options of a question.

`find_tokens` turns a text into tokens with roles (`choice_words`). An option is named by its label, its text, or both:
"B", "Aspirin", "B. Aspirin" and "Aspirin (B)" are one token. A letter that may be a word or a name is none: "A
patient", "hepatitis B", "B cells", "E. coli".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import NamedTuple

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.answer_text import clean_text
from medhelm.scoring.answers.choice_words import phrases, roles, unspaced_words
from medhelm.scoring.answers.option_places import with_labels

_FIRST = 0xE000  # private characters replace the texts of options
_MOST_OPTIONS = 64
_MOST_MENTIONS = 200  # of one text
_BOX = lazy_regex(r"^([-*+] )?\[([ xX])\](?= )", re.MULTILINE)
_NO_MARKUP = dict.fromkeys(map(ord, "*`_$#\\"), "") | {ord("İ"): "I"}
_ARROW = lazy_regex(r"-+>|=+>|>>+|➡|👉|⟹|⟶")
_FIRST_ARROW = lazy_regex(r"^ ?[→⇒] ", re.MULTILINE)
_DASH = lazy_regex(r"(?<=\s)[-−]+(?=\s)|(?<=\w)\s?[-−]+(?=\s)|(?:^|(?<=\n))[-•▪●](?:\s|(?=[A-Za-z(]))")
_NUMBERED = lazy_regex(
    r"^(?:#?\d{1,3}\s?[.)]\s+|(?:#?\d{1,3}\s?:?|Q(?:uestion)?\s?\d{0,3}\s?[.):])\s+(?=[(\[\"]?[A-Za-z](?![A-Za-z])))",
    re.MULTILINE,
)
_NAMED_A = lazy_regex(r"A:\s+(?=[(\[]?[B-J][)\].:]?(?:\s|$))")
_HYPHENATED = lazy_regex(r"(?<=option|answer|choice|letter)-(?=[A-Ja-j](?![A-Za-z]))", re.IGNORECASE)
_QUOTE = lazy_regex(r"(?<!\w)'|'(?!\w)")
_WHOLE_NUMBER = lazy_regex(r"(?<![\d.,])(\d+)\.0+(?![\d.]*\d)")
_ABBREVIATION = lazy_regex(r"\b(i\.e|e\.g|vs|approx)\.", re.IGNORECASE)
_LETTER_SUFFIX = lazy_regex(r"(?<![A-Za-z])([A-Z])['’](?:[dt][ıiuü]r|[yn]?[ıiuü]|d[ae])(?!\w)")
_LOOKALIKE = lazy_regex(r"(?<!\w)[АВСЕНІЈΑΒΕΗΙ](?!\w)(?!\s[а-яα-ω])")
_LOOKALIKES = str.maketrans("АВСЕНІЈΑΒΕΗΙ", "ABCEHIJABEHI")
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_SIGNS = r"\s።.,:;!?()\[\]{}<>|\"/=&→—–。．，、；：？！।۔،؛؟（）【】《》〔〕〈〉⇒·…"
_TOKEN = (
    rf"[^{_SIGNS}{_UNSPACED}\d\ue000-\ue03f−-][^{_SIGNS}{_UNSPACED}\ue000-\ue03f]*|[\ue000-\ue03f]"
    rf"|\d+(?:[.,]\d+)?\s?%|[-−]?\d+(?:[.,]\d+)*(?:[^\W_{_UNSPACED}]*)|[{_UNSPACED}]|\S|\n"
)
_TOKEN_OF_ASCII = lazy_regex(_TOKEN)
_ISOLATED_WORDS = frozenset(
    (
        "yes",
        "no",
        "maybe",
        "true",
        "false",
        "none",
        "both",
        "never",
        "always",
        "unknown",
        "uncertain",
        "other",
        "all",
        "any",
        "y",
        "n",
        "zero",
        "one",
    )
)
_EXPLAINS = frozenset(
    (
        "the",
        "this",
        "these",
        "it",
        "there",
        "because",
        "based",
        "given",
        "according",
        "explanation",
        "rationale",
        "reason",
        "since",
        "in",
        "confidence",
    )
)
_PRONOUNS = frozenset(("it", "they", "he", "she", "there"))
_MODAL = frozenset(("would", "should", "must", "will", "has", "could", "might", "may"))
_AFTER_A = frozenset(("first", "only", "alone", "here", "again", "indeed", "instead"))
_SAME = frozenset(("for", "means", "meaning", "ie", "i.e", "is", "="))
_BOUNDARY = frozenset(".;?,(:\n|&")
_SIMILAR = 0.8
_SHORTEST = 5  # text, in characters, that is recognized with another spelling


class Token(NamedTuple):
    """A word, a sign, or the name of an option."""

    role: str
    """Role of the word; M for an option."""
    option: int = -1
    """Index of the option; -1 for other tokens, and for a letter beside the text of another option."""
    is_label: bool = False
    """True if the option is named by its label."""
    is_common: bool = False
    """True if the option is named by a number or a common word that is isolated, such as "yes"."""
    word: str = ""
    """The word; for an option that is named by its text alone, the text."""

    @property
    def is_explicit(self) -> bool:
        """True if the option is named by its label, or by a word that is isolated."""
        return self.is_label or self.is_common

    @property
    def is_pair(self) -> bool:
        """True if the option is named by its label and its text."""
        return self.is_label and len(self.word) > 1


_LINE_END = Token("\n")


class PreparedOptions(NamedTuple):
    """Options, prepared for searching."""

    labels: dict[str, int]
    """Label, as a capital letter or a digit -> option; empty if options are named by their texts."""
    texts: tuple[tuple[str, int], ...]
    """Lower-case text -> option, the longest first, without those in `words`."""
    words: dict[str, int]
    """Lower-case text that is a number or a common word, and counts only where it is isolated -> option."""
    own: tuple[str, ...]
    """Lower-case text of each option."""


def choice_text(completion: str) -> str:
    """Return the non-empty lines without markup, with single spaces and Latin letters for their look-alikes.

    The lower-case form of the result has the same length.
    """
    text = clean_text(completion)
    if not text.isascii():
        text = text.translate(_characters())
        text = _LOOKALIKE.sub(lambda match: match[0].translate(_LOOKALIKES), text)
        text = _LETTER_SUFFIX.sub(r"\1 ", text)
    if "[x] " in text or "[X] " in text:  # a list of tasks
        text = _BOX.sub(lambda match: "❌" if match[2] == " " else "✅", text)
    text = text.translate(_NO_MARKUP)
    if "'" in text:
        text = _QUOTE.sub('"', text)
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


@cache
def _characters() -> dict[int, str]:
    """Return circled, squared or mathematical character -> the letter or digit that it shows."""
    table = {code: chr(65 + (code - 0x1F130) % 32) for code in range(0x1F130, 0x1F18A) if (code - 0x1F130) % 32 < 26}
    for code in (*range(0x2460, 0x2500), *range(0x1D400, 0x1D800)):
        shown = unicodedata.normalize("NFKC", chr(code)).strip("()")
        if len(shown) == 1:
            table[code] = shown
    return table


def _without_accents(text: str) -> str:
    """Return a text of the same length with "e" for "é": models write "Guillain-Barre"."""
    return text if text.isascii() else text.translate(_accents())


@cache
def _accents() -> dict[int, str]:
    """Return Latin letter with an accent -> the letter without it."""
    return {code: unicodedata.normalize("NFD", chr(code))[0] for code in range(0xC0, 0x180)}


@lru_cache(maxsize=64)
def prepare_options(labels: tuple[str, ...], texts: tuple[str, ...]) -> PreparedOptions:
    """Prepare options for searching in a `choice_text`. Of options with equal text, the first is found."""
    own = tuple(choice_text(text).replace("\n", " ").strip(" \"'").rstrip(". \"'").lower() for text in texts)
    single = all(len(label) == 1 and label.isascii() and label.isalnum() for label in labels)
    first = {text: index for index, text in reversed(list(enumerate(own))) if text}
    words = {text: index for text, index in first.items() if text in _ISOLATED_WORDS or _is_number(text)}
    for texts_, short in ((("yes", "no"), "yn"), (("0", "1"), ("zero", "one"))):
        if words.keys() >= set(texts_):
            words = dict(zip(short, map(words.__getitem__, texts_), strict=True)) | words
    found = {_without_accents(text): index for text, index in reversed(first.items()) if len(text) > 1}
    found = {text: index for text, index in found.items() if text not in words}
    return PreparedOptions(
        labels={label.upper(): index for index, label in reversed(list(enumerate(labels)))} if single else {},
        texts=tuple(sorted(found.items(), key=lambda item: -len(item[0]))[:_MOST_OPTIONS]),
        words=words,
        own=own,
    )


def _is_number(text: str) -> bool:
    """Return True for digits with or without a decimal part."""
    return text.replace(".", "", 1).replace(",", "", 1).isdigit()


def find_tokens(text: str, options: PreparedOptions) -> list[Token]:
    """Return the tokens of a `choice_text`."""
    text = _replace_texts(text, options)
    if "B" in options.labels:
        numbers = not any(map(_is_number, options.words))
        text = with_labels(text, sorted(options.labels, key=options.labels.__getitem__), numbers=numbers)
    if "0" in options.labels:
        text = _WHOLE_NUMBER.sub(r"\1", text)
    elif not any(map(_is_number, options.words)):
        text = _NUMBERED.sub("", _NAMED_A.sub("", text, count=1) if text.startswith("A:") else text)
    if ">" in text or not text.isascii():
        text = _FIRST_ARROW.sub("", _ARROW.sub(" → ", text))
    if "-" in text or not text.isascii():
        text = _DASH.sub(" – ", _HYPHENATED.sub(" ", text))
    tokens = _tokens(_ABBREVIATION.sub(r"\1", text), options)
    return list(_merge(_keep_apart(tokens, options), options))


def _replace_texts(text: str, options: PreparedOptions) -> str:
    """Replace the texts of options by private characters."""
    lower, taken = _without_accents(text.lower()), bytearray(len(text))
    found: list[tuple[int, int, int]] = []
    for number, (own, _) in enumerate(options.texts):
        at, n = lower.find(own), 0
        while at >= 0 and n < _MOST_MENTIONS:
            end, n = at + len(own), n + 1
            if not taken[at] and not taken[end - 1] and _is_whole(lower, at, end):
                found.append((at, end, number))
                taken[at:end] = b"\1" * (end - at)
            at = lower.find(own, end)
    pieces, done = [], 0
    for start, end, number in sorted(found):
        pieces += [text[done:start], chr(_FIRST + number)]
        done = end + (text[end : end + 2] in (".)", '."'))
    return "".join([*pieces, text[done:]])


def _is_whole(lower: str, start: int, end: int) -> bool:
    """Return True if lower[start:end] is not part of a longer word or number."""
    if start and lower[start].isalnum():
        before, further = lower[start - 1], lower[max(0, start - 2) : start - 1]
        if before.isalnum() or (before in "-'’" and further.isalnum()):
            return False
        if lower[start].isdigit() and before in ".,/-−" and further.isdigit():
            return False
    if end == len(lower) or not lower[end - 1].isalnum():
        return True
    after, further = lower[end], lower[end + 1 : end + 2]
    if after.isalnum() or (after in "-'’" and further.isalnum()):
        return False
    return not (lower[end - 1].isdigit() and (after == "%" or (after in ".,/:" and further.isdigit())))


@cache
def _token_of_any() -> re.Pattern[str]:
    """Return the pattern of a token in a text with words that are written without spaces."""
    return re.compile(f"{unspaced_words()}|{_TOKEN}")


def _tokens(text: str, options: PreparedOptions) -> list[Token]:
    """Return the tokens; whatever may name an option does so."""
    pattern = _TOKEN_OF_ASCII if text.isascii() else _token_of_any()
    written = pattern.findall(text)
    lower = [word.lower() for word in written]
    following = phrases()
    known: dict[str, tuple[Token, ...]] = {}
    tokens: list[Token] = []
    at = 0
    while at < len(written):
        word = written[at]
        for rest in following.get(lower[at], ()):
            if tuple(lower[at + 1 : at + 1 + len(rest)]) == rest:
                phrase = " ".join((lower[at], *rest)) if "(" not in rest else "".join((lower[at], *rest))
                tokens.append(Token(roles()[phrase], word=phrase))
                at += len(rest)
                break
        else:
            if word not in known:
                known[word] = _as_tokens(word, options)
            tokens += known[word]
        at += 1
    return tokens


def _as_tokens(word: str, options: PreparedOptions) -> tuple[Token, ...]:
    """Return the token of a word or sign; none for one without a meaning."""
    lower, table = word.lower(), roles()
    if 0 <= ord(word[0]) - _FIRST < _MOST_OPTIONS:
        own, option = options.texts[ord(word) - _FIRST]
        return (Token("M", option, word=own),)
    if len(word) == 1 and word.upper() in options.labels:
        return (Token("M", options.labels[word.upper()], is_label=True, word=word),)
    if lower in options.words:
        return (Token("M", options.words[lower], is_common=True, word=word),)
    if word.endswith("%"):
        return (Token("(", word=word),)
    if lower in table or any(char.isalnum() for char in word):
        return (Token(table.get(lower, "w"), word=word),)
    return ()


def _keep_apart(tokens: list[Token], options: PreparedOptions) -> list[Token]:
    """Turn labels and common words that are words of a sentence back into words."""
    kept: list[Token] = []
    for at, token in enumerate(tokens):
        if (token.role != "M" or not token.is_explicit) and token.word not in ("no", "No", "NO"):
            kept.append(token)
            continue
        before = kept[-1] if kept else _LINE_END
        after = tokens[at + 1] if at + 1 < len(tokens) else _LINE_END
        if token.is_explicit and (
            (token.is_label and _is_surely_label(kept, token, tokens[at + 1 : at + 42], options))
            or _is_name(token, kept, after, tokens[at + 2 : at + 4])
        ):
            kept.append(token)
            if _begins_sentence(before, after) or (after.word in _PRONOUNS and not token.is_label):
                kept.append(Token(":"))
        else:
            kept.append(Token(_role_of_word(token.word, after), word=token.word))
    return kept


def _role_of_word(word: str, after: Token) -> str:
    """Return the role of a label or common word that names no option."""
    if word.lower() == "no":
        return "n" if after.role in _BOUNDARY else "w"
    return "u" if word in "aAI" else roles().get(word.lower(), "w")


def _begins_sentence(before: Token, after: Token) -> bool:
    """Return True if a sentence follows a label without a sign between: "B The study found"."""
    return before.role in ".\n" and after.word[:1].isupper() and after.word.lower() in _EXPLAINS


def _is_surely_label(kept: list[Token], token: Token, following: list[Token], options: PreparedOptions) -> bool:
    """Return True for a label before its text, after "or" and another label, or after "the answer is"."""
    if following and following[0].role in ".(" and _end_of_similar(following, 1, options.own[token.option]):
        return True
    if len(kept) < 2 or not following:
        return False
    if kept[-1].role in "&|" and kept[-2].is_label:
        return True
    stated = (kept[-1].role in ":i" and kept[-2].role in "ac") or (kept[-1].role == "h" and token.word.isupper())
    return stated and (following[0].role == "k" or following[0].word[:1] > "\u0e00")


def _is_name(token: Token, kept: list[Token], after: Token, further: list[Token]) -> bool:
    """Return True if a label or common word names an option, by its neighbors."""
    word, ends, before = token.word, after.role in _BOUNDARY, kept[-1] if kept else _LINE_END
    if before.role in "&|," and len(kept) > 1 and kept[-2].role in "wu" and len(kept[-2].word) == 1:
        return len(kept) > 2 and kept[-3].role == ":"  # not in "Vitamins A and B", but in "A: N, B: Y"
    if before.role in "wf" and before.word:
        return False
    if before.role in ".\n" and after.word in _PRONOUNS and not token.is_label:
        return True
    if token.is_common and before.role == "o" and word.isdigit() and int(word) != token.option + 1:
        return False  # "option 2" may be the second one, or the one with this text
    if not (token.is_label and word.isalpha()):
        return (
            ends
            or after.role in "eMtnzbi"
            or _is_sign(after)
            or (after.role == "u" and (not further or further[0].role in _BOUNDARY))
        )
    if after.word == "." and further and further[0].role == "w" and further[0].word.islower():
        return False  # E. coli
    if word.islower():
        follows = (ends and after.word != "(") or after.role == "e" or (before.role == "o" and after.role in "ic")
        follows = follows or (before.role in "s\n" and after.role == "i" and bool(further) and further[0].role in "acd")
        own_text = after.role == "M" and after.option == token.option
        return (before.role in _BOUNDARY or before.role in ("aohiv" if word in "ai" else "aohivusb")) and (
            follows or own_text
        )
    if word not in "AI":
        return after.role not in "wk"
    if _begins_sentence(before, after) or after.role in "Mitezb" or _is_sign(after) or after.word[:1] > "\u0e00":
        return True
    if after.role == "," and word == "I":
        return before.role in ":i" or (bool(further) and further[0].word in ("because", "since"))
    return (
        ends
        or (word == "A" and (after.role in "vn" or after.word in _MODAL or (after.role in "cd" and before.role == "o")))
        or (after.role == "d" and after.word.partition(" ")[0].endswith("s"))  # "A fits best", not "A better drug"
        or (before.role in "vho" and after.word == "the")
        or (
            word == "A"
            and after.word in _AFTER_A
            and (not further or further[0].role in _BOUNDARY or further[0].role == "i")
        )
        or (before.role in "bi" and after.word == "that")
    )


def _is_sign(token: Token) -> bool:
    """Return True for a check mark or a cross."""
    return token.role in "cx" and not token.word.isalpha()


def _merge(tokens: list[Token], options: PreparedOptions) -> Iterator[Token]:
    """Yield the tokens with a label and the text beside it as one."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        end = _end_of_pair(tokens, at, options) if token.role == "M" else 0
        if not end:
            yield token
            at += 1
            continue
        beside = [other for other in tokens[at + 1 : end + 1] if other.role == "M" and other.is_label != token.is_label]
        other = beside[-1] if beside else token
        same = not differ(token.option, other.option, options)
        word = (other if token.is_label else token).word
        if len(word) == 1 and other is not token:  # a text of one digit: `is_pair` tells the pair by its length
            word = f"{word} "
        yield Token("M", token.option if same else -1, is_label=True, word=word)
        at = end + 1
        if end < len(tokens) - 1 and tokens[at].word == ")" and any(tokens[n].word == "(" for n in range(at - 3, end)):
            at += 1


def _end_of_pair(tokens: list[Token], at: int, options: PreparedOptions) -> int:
    """Return the last index of a label and a text that belong together, and begin at `at`; 0 if they do not."""
    token = tokens[at]
    between = at + 1
    while between < len(tokens) and between <= at + 3 and _joins(tokens[between], token):
        between += 1
    if between >= len(tokens):
        return 0
    other = tokens[between]
    if token.is_label and len(other.word) == 1 and other.word.lower() == options.own[token.option]:
        return between
    if token.is_label and other.role != "M" and tokens[at + 1].role in ".:(":
        return _end_of_similar(tokens, between, options.own[token.option])
    if other.role != "M" or other.is_label == token.is_label:
        return 0
    apart = between + 1 == len(tokens) or (tokens[between + 1].role in ".;?,(:\n" and tokens[between + 1].word != "(")
    if token.is_label and tokens[at + 1].role != "|":
        return between if apart or not differ(token.option, other.option, options) else 0
    same = not differ(token.option, other.option, options)
    return between if apart and (same or not token.is_label) else 0


def _joins(sign: Token, token: Token) -> bool:
    """Return True if `sign` can be between a label and its text, or the other way round."""
    return sign.role in (".:,(|" if token.is_label else ":,(") or (token.is_label and sign.word.lower() in _SAME)


def _end_of_similar(tokens: list[Token], start: int, own: str) -> int:
    """Return the last index of words that are the text of an option but for the spelling; 0 if they are not."""
    words = own.split()
    there = tokens[start : start + len(words)]
    if len(own) < _SHORTEST or any(token.role in ".\n" for token in there):
        return 0
    written = " ".join(token.word.lower() for token in there)
    return start + len(there) - 1 if SequenceMatcher(None, written[:200], own[:200]).ratio() >= _SIMILAR else 0


def differ(one: int, other: int, options: PreparedOptions) -> bool:
    """Return True if two options differ: options with the same text are one."""
    return one != other and (one < 0 or other < 0 or options.own[one] != options.own[other] or not options.own[one])
