"""Find where a completion names the options of a question.

`find_tokens` turns a text into tokens with roles. An option is named by its label, its text, or both:
"B", "Aspirin", "B. Aspirin" and "Aspirin (B)" are one token. A letter that may be a word or a name is none: "A
patient", "hepatitis B", "B cells", "E. coli".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import NamedTuple

from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.text import clean_text

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
_UNSPACED_LETTERS = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_SIGNS = r"\s።.,:;!?()\[\]{}<>|\"/=&→—–。．，、；：？！।۔،؛؟（）【】《》〔〕〈〉⇒·…"
_TOKEN = (
    rf"[^{_SIGNS}{_UNSPACED_LETTERS}\d\ue000-\ue03f−-][^{_SIGNS}{_UNSPACED_LETTERS}\ue000-\ue03f]*|[\ue000-\ue03f]"
    rf"|\d+(?:[.,]\d+)?\s?%|[-−]?\d+(?:[.,]\d+)*(?:[^\W_{_UNSPACED_LETTERS}]*)|[{_UNSPACED_LETTERS}]|\S|\n"
)
_TOKEN_OF_ASCII = lazy_regex(_TOKEN)
_ISOLATED_WORDS = frozenset(
    "yes no maybe true false none both never always unknown uncertain other all any y n zero one".split()  # noqa: SIM905
)
_EXPLAINS = frozenset(
    "the this these it there because based given according explanation rationale reason since in confidence".split()  # noqa: SIM905
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


# --- option places ----------------------------------------------------------------------------------------------------
# Recognize options that are named by their place: "the second option", "option number 3", "the last choice".
#
# The same words are used for other things: "warfarin is the first choice", "the first option to try is warfarin", and
# the options of a list that the model writes itself. A place counts only where an answer is stated, and only if the
# text names no other place.

_ORDINALS = (
    r"first|1st|primera|primeira|première|erste[nr]?|prima",
    r"second|2nd|segunda|deuxième|seconde|zweite[nr]?|seconda",
    r"third|3rd|tercera|terceira|troisième|dritte[nr]?|terza",
    r"fourth|4th|cuarta|quatrième|vierte[nr]?|quarta",
    r"fifth|5th|quinta|cinquième|fünfte[nr]?",
    r"sixth|6th",
    r"seventh|7th",
    r"eighth|8th",
    r"ninth|9th",
    r"tenth|10th",
)
_LAST = r"last|última|dernière|letzte[nr]?|ultima"
_CARDINALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NOUN = r"(?:option|choice|alternative|opción|opção|opzione|alternativa|proposition|antwortmöglichkeit)"
_PLACE = lazy_regex(
    rf"\b(?:(?P<ordinal>{'|'.join((*_ORDINALS, _LAST))})\s(?:(?:answer|listed|given)\s)?"
    rf"(?:{_NOUN}|answer|respuesta|réponse|antwort|resposta|risposta|one)"
    rf"|(?P<noun>(?:answer\s)?{_NOUN})\s(?:(?:number|no\.?|nº|n°|número)\s?|\#)?(?P<number>\d{{1,2}}|{'|'.join(_CARDINALS)}))"
    r"(?![\w%/-]|[.,]\d|\s(?:to|for|in|when|if|of|would|could|might|may|should)\b)",
    re.IGNORECASE,
)
_STATES = lazy_regex(
    r"(?:^|\n|[.!?:;,(\[\"–—]\s?|\b(?:answer|choice|option|diagnosis|step|respuesta|réponse|antwort|resposta|risposta|correcta"
    r"|correta|correcte|corretta|it|that|es|est|ist|is\s(?:therefore|thus|clearly))\s(?:is|es|est|ist|é|è|lautet|would\sbe|must\sbe|should\sbe"
    r"|has\sto\sbe)?\s?|\b(?:it's|so|thus|therefore|hence|choose|chose|choosing|select|selecting|pick|picking|go\swith|going\swith"
    r"|opt\sfor|answer\swith|recommend|elijo|choisis|wähle|escolho|scelgo)\s)"
    r"(?:(?:the|la|die|der|a|le|l'|as)\s?)?\Z",
    re.IGNORECASE,
)
_BESIDE = 40
"""Characters looked at before a place."""


def with_labels(text: str, labels: Sequence[str], *, numbers: bool) -> str:
    """Return a text with "option B" for "the second option", where it states an answer.

    `labels`: the labels of the options, in order. `numbers`: "option 2" is one, too, since no option is a number.

    >>> with_labels("I choose the second option.", "ABCD", numbers=True)
    'I choose the option B.'
    >>> with_labels("Warfarin is the first choice.", "ABCD", numbers=True)
    'Warfarin is the first choice.'
    """
    found = [match for match in _PLACE.finditer(text) if match["ordinal"] or numbers]
    places = {_place(match, len(labels)) for match in found}
    if len(places) != 1 or not 0 <= (place := places.pop()) < len(labels):
        return text
    for match in reversed(found):
        if match["noun"] or _STATES.search(text[max(0, match.start() - _BESIDE) : match.start()]):
            text = f"{text[: match.start()]}option {labels[place]}{text[match.end() :]}"
    return text


def _place(match: re.Match[str], n_options: int) -> int:
    """Return the index of the option that a match of `_PLACE` names; it may be none of the options."""
    if match["ordinal"]:
        places = (n for n, words in enumerate(_ORDINALS) if re.fullmatch(words, match["ordinal"], re.IGNORECASE))
        return next(places, n_options - 1)
    number = match["number"].lower()
    return int(number) - 1 if number.isdigit() else _CARDINALS.index(number)


# --- choice words -----------------------------------------------------------------------------------------------------
# Words that tell what a completion says about an option, in the languages of medical benchmarks.
#
# Every word has a role, which is one character. A statement is then a short string of roles: "The answer is not B" is
# "uainM". Languages share one table, since a word of one is no common word with another role in the others.

OPTION, CONTRADICTORY = "M", "Z"
"""Roles of an option, and of a letter beside the text of another option."""

_ENGLISH = {
    # names the answer
    "a": (
        "answer answers ans response reply solution key verdict judgment judgement conclusion decision output result "
        "prediction classification selection exception integer answer_key answer_choice answer_option "
        "textbook_answer exam_answer board_answer expected_answer intended_answer"
    ),
    # names an option
    "o": "option choice letter alternative one fit match l'option l'opzione l'opció l'alternative",
    # heads a list of options
    "O": (
        "options choices alternatives distractors other_options others answer_choices answer_options "
        "other_choices the_others each_option each_choice other_answers incorrect_options incorrect_answers "
        "wrong_answers following"
    ),
    # right
    "c": "correct right ✅ ✔ ☑ ✓ correctly",
    # better
    "d": (
        "favored wins best better true preferred preferable superior more_likely most_accurate most_suitable "
        "most_appropriate most_likely more_appropriate more_suitable makes_the_most_sense makes_sense "
        "has_the_strongest_support edges_it applies fits_best best_explains best_accounts_for best_fits best_matches "
        "best_describes what_i_would_choose what_i'd_choose only_option_left only_choice_left only_one_left "
        "only_one_left_standing only_option_that_explains only_one_that_explains "
        "only_option_that_fits only_one_that_fits only_option_that_matches only_one_that_matches "
        "only_option_that_accounts_for only_one_that_accounts_for "
        "only_answer_left only_option_remaining only_choice_remaining only_one_remaining only_option_that_remains "
        "only_one_that_remains only_option_standing only_one_standing last_one_standing"
    ),
    # wrong
    "x": (
        "incorrect incorrectly wrong false unlikely excluded exclude excluding eliminate eliminated eliminating "
        "ruled_out rule_out ruling_out contraindicated inappropriate less_likely least_likely_correct inaccurate "
        "untrue unsuitable not_indicated would_be_considered answer_to_a_different answer_to_another distractor trap "
        "unnecessary outdated obsolete partially_correct partly_correct almost_correct partially_right partly_right "
        "rarely_correct hardly_the_answer second-line no_longer_recommended not_recommended would_need would_require "
        "unrelated irrelevant ❌ ✗ ✘ ✖ anything_but less_appropriate rejected reject"
    ),
    # what a question asks for
    "p": (
        "diagnosis diagnoses step treatment drug cause mechanism test explanation management therapy finding "
        "of_choice intervention medication etiology pathogen organism least_likely procedure investigation "
        "condition label score rating class"
    ),
    # is
    "i": (
        "is was be are were equals it's its that's this's seems appears remains becomes lies stands stands_out_as "
        "matches fits it_is means meaning says"
    ),
    # leads to an option
    "v": (
        "confident_in judged_as consistent_with compatible_with corresponds_to correspond_to points_to point_to "
        "points_toward suggests suggest indicates indicate leaving leaves leaves_us_with leave_us_with making makes "
        "explained_by supports support favors favor prefer prefers has is_called matches_with left_with "
        "narrows_it_down_to narrowed_down_to comes_down_to boils_down_to typical_of characteristic_of leads_to"
    ),
    # denies what follows
    "n": ("not isn't ain't can't cannot wouldn't shouldn't won't doesn't don't didn't wasn't aren't neither nor never"),
    # denies what follows, but not what precedes: "A: nothing else fits"
    "N": (
        "nothing no_evidence no_finding no_findings no_feature no_features no_sign no_signs no_reason doubt doubt_that "
        "doubtful hesitant avoid hardly far_from none_of_the_findings none_of_the_features none_of_these_findings"
    ),
    # chooses
    "h": (
        "all_but all_except commit_to committing_to i_recommend i'd_recommend i_would_recommend everything_but "
        "everything_except none_but none_except nothing_but all_options_except all_options_but settled_on choose "
        "chose go_for give_it give_it_a gets_a it_gets give select pick choosing selecting picking go_with "
        "going_with opt_for opting_for answer_with say vote vote_for vote_is lean_toward lean_towards lean_to lean "
        "leaning leaning_toward leaning_towards except except_for select_option assign judge output_is settle_on "
        "reply_with respond_with went_with conclude mark return circle rate_this judge_it judge_this exception_of"
    ),
    # concludes
    "s": (
        "so thus therefore hence final finally overall conclude_that ultimately consequently in_conclusion "
        "in_summary to_summarize in_short accordingly revised"
    ),
    # but
    "b": "but however yet whereas instead_it_is",
    # supposes
    "f": (
        "was_going_to was_about_to if unless depending suppose assuming otherwise initially initial_answer "
        "initial_impression initial_thought at_first first_thought at_first_glance first_glance common_mistake "
        "one_might one_may you_might many_would many_people students some_would tempting provided_that "
        "hypothetically i_said might_seem may_seem might_think preliminary had_the_patient had_she had_he had_there "
        "were_the_patient were_there it_depends runner-up second_best second_most_likely next_best_option "
        "next_best_choice next_best_answer my_second_choice second_choice_is initial_guess first_guess "
        "example_answer trap_answer user_thinks user_says user_said user's_answer you_said you_think you_thought "
        "next_, student's_answer student_answered student_chose one_could_argue could_argue some_argue some_textbooks "
        "some_sources older_guidelines previously_the_answer previous_question previous_question's"
    ),
    # grants
    "g": "although though while even_if even_though despite whereas_in albeit whether",
    # may be
    "m": "could might may can possibly perhaps",
    # compares
    "t": "than over rather_than instead_of compared_with compared_to as_opposed_to in_preference_to",
    # explains
    "e": "because since as due for given which e.g. based according per",
    # retracts
    "r": (
        "take_that_back strike_that never_mind i_was_wrong wait actually correction scratch sorry apologies "
        "apologize apologise mistake reconsider reconsidering hmm reflection oops closer_inspection "
        "second_thought second_thoughts looking_again rechecking upon_review misread misspoke edit edited update "
        "amended double-check"
    ),
    # adds nothing
    "u": (
        "to_this_question to_the_question if_i_had_to_guess if_i_have_to_guess if_i_have_to_choose does did "
        "little_doubt without_doubt beyond_doubt true_statement here's alone if_i_had_to_choose if_i_had_to_pick "
        "if_i_had_to_pick_one if_i_must_choose if_forced_to_choose if_pressed maybe easily without_a_doubt no_doubt "
        "for_sure the a an this that these it my your our i we you one's most likely probably clearly definitely "
        "indeed certainly here now only single would will should must have_to has_to just simply also both either "
        "i'd i'll i'm we'd sure okay ok well yes-no of_course believe think think_that believe_that believe_it am "
        "being obviously surely undoubtedly very more out judged clear next first unfortunately sadly in_fact "
        "sure_thing thing absolutely hallucinated factual statement statements please respectively always already "
        "really truly there all"
    ),
    # preposition
    "k": (
        "of in with to from by among between on at into about regarding under obtain order perform start initiate "
        "begin administer"
    ),
    # or
    "|": "vs versus or and/or",
    # and
    "&": "then and_then followed_by as_is and plus as_well_as",
}
_OTHERS = {
    "a": (
        "respuesta resposta gabarito réponse antwort lösung risposta antwoord svar svaret vastaus odpowiedź "
        "odpowiedzią odpověď răspuns răspunsul válasz odgovor ответ ответом відповідь отговор отговорът cevap "
        "yanıt الإجابة الجواب اجابة إجابة جواب پاسخ תשובה התשובה उत्तर जवाब উত্তর উত্তরটি பதில் விடை సమాధానం "
        "đáp_án câu_trả_lời trả_lời jawaban jawabannya jawapan jawapannya sagot jibu ìdáhùn idahun amsa amsar መልስ "
        "απάντηση svarið atsakymas vastus solución solução soluzione solution_finale rezultat conclusión "
        "conclusão resultado"
    ),
    "o": (
        "antwortmöglichkeit opción opção option_finale opzione optie opsi opcja opció opțiunea alternativa "
        "alternativ letra lettre lettera buchstabe proposition vaihtoehto вариант варіант الخيار خيار گزینه "
        "विकल्प বিকল্প pilihan chaguo seçenek seçeneğidir şık şıkkı şıkkıdır seçeneği lựa_chọn phương_án vraag "
        "inciso literal"
    ),
    "c": (
        "correcta correcto correta correto correcte juste bonne richtig richtige richtigen korrekt korrekte "
        "korrekta corretta corretto giusta esatta juist juiste goede rätt rätta riktig riktige riktiga rigtig "
        "rigtige rigtigt oikea prawidłowa prawidłową prawidłowy poprawna poprawną poprawny správná správně "
        "správný corect corectă corecta helyes točan tačan ispravan правильный правильным верный верным правильно "
        "верно правильна правильною верният правилният doğru الصحيحة الصحيح صحيحة صحیح درست הנכונה נכון सही সঠিক "
        "சரியான సరైన đúng benar tepat betul tama tamang sahihi ትክክለኛው σωστή σωστό chính_xác cierta certa correctă"
    ),
    "x": (
        "incorrecta incorreta incorrecte falsch sbagliata onjuist fel nieprawidłowa неверный неправильный yanlış "
        "خطأ غلط गलत salah"
    ),
    "p": "diagnóstico diagnostic diagnose diagnosi diagnosis_nya tratamiento tratamento traitement behandlung",
    "i": (
        "es est ist è é jest to är er on este je jeste е это является lautet sunt est-ce هي هو است ہے है হল হলো "
        "είναι là está está_na adalah ialah ay ni ita_ce ce ነው היא हैं yra są dır dir olan"
    ),
    "n": (
        "no_es não_é pas nicht non_è non niet inte ikke ei nie nem не ليست ليس لیس không không_phải không_phải_là "
        "bukan si hindi_ang δεν όχι 不是 não"
    ),
    # denies what precedes
    "z": "नहीं değil değildir 아니라 아니고 ではなく じゃなく नही",
    "h": (
        "elegiría escogería escolheria elijo escojo escolho choisis wähle scelgo kies väljer velger vælger "
        "wybieram выбираю обираю seçiyorum chọn pilih أختار memilih marque"
    ),
    "s": (
        "por_tanto por_lo_tanto portanto logo donc daher somit also_ist folglich quindi pertanto dus därför "
        "dlatego следовательно таким_образом поэтому итак vậy do_đó jadi finale dolayısıyla لذلك अतः इसलिए "
        "final_de"
    ),
    "b": "sino mas mais sondern ma bensì maar utan lecz ale а tetapi tapi melainkan بل mà",
    "u": (
        "la el le les l a(z) az de het det den das die der il lo una un en η το ο ang o são será sería seria être "
        "jest_to la_opción đó ja y_a ich je_vous eu yo"
    ),
}
_UNSPACED = {
    "a": "正确答案 正確答案 答案 正解 答え 答 解答 正答 回答 정답 올바른_답 옳은_답 답 คำตอบ ตอบ 最佳答案 结论",
    "o": "选项 選項 選択肢 선택지 보기 ข้อ 번 項 项",
    "c": "正确 正確 正しい 対 が正解 가_정답 이_정답 ที่ถูกต้อง ถูกต้อง 올바른 옳은",
    "x": "错误 錯誤 不正确 不正確 排除 誤り 틀린",
    "p": "最可能的诊断 诊断 診斷 診断 진단",
    "i": "是 为 為 は 은 는 です だ 입니다 이다 예요 이에요 이네요 คือ である",
    "n": "不是 并非 不选",
    "z": "ではなく じゃなくて 가_아니라 이_아니라 아니라",
    "h": "应选 应选择 應選擇 應選 选择 選擇 故选 故選 所以选 选 選 本题选",
    "s": "因此 综上所述 故 所以 したがって 따라서 よって",
    "b": "而是",
    "u": "我 的 本题 本題 가 이 を が 를 을 로 라 이라 と思います と思う 더",
}
_ROLE_OF_SIGN = {
    **dict.fromkeys(".!。．！।۔።", "."),
    **dict.fromkeys(";；؛", ";"),
    **dict.fromkeys("?？؟", "?"),
    **dict.fromkeys(",，、،", ","),
    **dict.fromkeys("()[]{}<>|（）【】《》〔〕〈〉", "("),
    **dict.fromkeys(":=→—–：⇒", ":"),
    **dict.fromkeys("/&", "|"),
    "\n": "\n",
}


def _words(table: dict[str, str]) -> dict[str, str]:
    return {word.replace("_", " "): role for role, words in table.items() for word in words.split()}


YES_AND_NO = {
    **dict.fromkeys(("sí", "si", "oui", "ja", "sim", "да", "是", "はい", "네"), "yes"),
    **dict.fromkeys(("non", "nein", "não", "nao", "нет", "否", "いいえ", "아니요"), "no"),
}
"""Words of other languages that count if a completion is nothing else."""


@cache
def roles() -> dict[str, str]:
    """Return word or sign, in lower case -> role."""
    return {**_words(_OTHERS), **_words(_UNSPACED), **_words(_ENGLISH), **_ROLE_OF_SIGN}


@cache
def phrases() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return first word -> the words that follow it in phrases with one role, the longest first."""
    split = [tuple(re.findall(r"[^\s()]+|[()]", phrase)) for phrase in roles() if " " in phrase or "(z" in phrase]
    following: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in sorted(split, key=len, reverse=True):
        following.setdefault(first, []).append(tuple(rest))
    return {first: tuple(rests) for first, rests in following.items()}


@cache
def unspaced_words() -> str:
    """Return a pattern of the words of languages that are written without spaces."""
    return "|".join(map(re.escape, sorted(_words(_UNSPACED), key=len, reverse=True)))
