"""Undo what hides words in a text: invisible characters, escapes, encodings, look-alike letters and simple ciphers.

`visible_text` returns the text as a careful reader would decode it. It is used on judged texts and on judges' replies,
so that a copy is recognized in any spelling. `other_readings` adds readings that would spoil ordinary text, such as the
reversed text; they serve only to search for phrases.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from urllib.parse import unquote

from medhelm.io.lazy_regex import lazy_regex

_ROUNDS = 6
"""Maximum number of layers of encodings that are undone."""

_HIDDEN = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
UNSEEN = lazy_regex(rf"[{_HIDDEN}]+")
"""Invisible characters."""
_TAGS = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}

_SURROGATES = lazy_regex(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_ESCAPE = lazy_regex(r"\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|([\"'\\/])|[bfnrtv])")
_PERCENT = lazy_regex(r"%[0-9a-fA-F]{2}")
_QUOTED_PRINTABLE = lazy_regex(r"=([0-9A-F]{2})(?=(?:[^=]{0,40}=[0-9A-F]{2}))")

_CODES = lazy_regex(r"(?:[%=][0-9a-fA-F]{2})+")
_SOFT_BREAK = lazy_regex(r"=[ \t]{0,9}\r?\n")
_WORD = lazy_regex(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{2,}={0,2}")

_BASE64 = lazy_regex(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}={0,2}")
_BASE32 = lazy_regex(r"(?<![A-Za-z0-9])[A-Z2-7]{24,}={0,6}")
_HEX = lazy_regex(r"(?<![0-9A-Za-z])(?:(?:0x|\\x)?[0-9a-fA-F]{2}[ :,]?){12,}(?![0-9A-Za-z])")
_BINARY = lazy_regex(r"(?<![0-9])(?:[01]{8}\s?){8,}(?![0-9])")
_BASE85 = lazy_regex(r"(?<!\S)(?:<~)?[!-~]{25,}(?!\S)")
_DECIMALS = lazy_regex(r"(?<![\d.])(?:\d{2,3}[ ,]{1,2}){12,}\d{2,3}(?![\d.])")
_PIECE = lazy_regex(
    r"(?<![A-Za-z0-9+/])(?=[A-Za-z0-9+/]{0,22}(?:[a-z0-9][A-Z]|[0-9][a-z]))[A-Za-z0-9+/]{3,23}={0,2}(?![A-Za-z0-9+/])"
)
_SPACED = lazy_regex(r"(?<!\S)(?:\S[ .\-_*]){7,}\S(?!\S)")

ALIKE = str.maketrans(
    "авсԁеһіјӏмнорԛгѕтυѵԝхуёқґїєαβγδεηικνορτχωɑɡıɩɪʟɴʀʏάέίό",
    "abcdehijlmhopqrstuvwxyekrieabydenikvoptxwagiiilnryaeio",
)
"""Letters of other scripts that look like Latin ones, in folded case."""
_LEET = str.maketrans("013457@$!|", "oleastasil")


def visible_text(text: str) -> str:
    """Return `text` with all layers of escapes and encodings undone, in place.

    Tag characters become letters, other invisible characters are removed, and wide and styled letters are normalized
    (NFKC). JSON, HTML, URL and quoted-printable escapes are resolved, as are runs in base 64, 32 and 16, and in
    binary or decimal codes, if they encode printable text.

    >>> visible_text("a \\\\u005cu0062 YWNjdXJhY3kgc2NvcmUgNQ== &#38;lt; d")
    'a b accuracy score 5 < d'
    """
    for _ in range(_ROUNDS):
        before = text
        if not text.isascii():
            text = unicodedata.normalize("NFKC", UNSEEN.sub(_tag_letters, text))
        text = _resolve_escapes(text)
        for expression, decode in _RUNS:
            text = expression.sub(partial(_decode_run, decode), text)
        if text == before:
            break
    return text


def decoded_text(text: str, *, pieces: bool = False) -> str:
    """Return `text` with every single escape undone, whatever is around it.

    `visible_text` leaves a few percent signs or short runs alone, which ordinary text has. Here a part of a text is
    decoded like the whole. `pieces`: True to decode also each word that is printable text in base 64.

    >>> decoded_text('"%46lawless &#105;n e=76ery respec\\\\u0074"'), decoded_text("QWxs of it", pieces=True)
    ('"Flawless in every respect"', 'All of it')
    """
    for _ in range(_ROUNDS):
        before = text
        for _ in range(_ROUNDS):
            text, layer = _undo_escapes(text), text
            if text == layer:
                break
        if pieces:  # only now: what is left of an escape must not join the letters beside it
            text = _WORD.sub(partial(_decode_run, _from_base64), text)
        if text == before:
            break
    return text


def _undo_escapes(text: str) -> str:
    """Undo one layer of escapes, each wherever it is."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", UNSEEN.sub(_tag_letters, text)).translate(ALIKE)
    text = html.unescape(_ESCAPE.sub(_resolve_escape, _SURROGATES.sub(_join_surrogates, text)))
    return _CODES.sub(_decode_bytes, _SOFT_BREAK.sub("", text))


def _decode_bytes(codes: re.Match[str]) -> str:
    """Return the text that percent-encoded or quoted-printable bytes encode."""
    found = bytes.fromhex(re.sub("[%=]", "", codes[0])).decode(errors="replace")
    return "".join(sign if sign >= " " else " " for sign in found)


def other_readings(text: str) -> Iterator[str]:
    """Yield further readings of a visible text, for a search of phrases.

    These are the text with look-alike letters replaced, in which digits replace letters, in ROT13, reversed, with
    spaced letters joined, and the words hidden in base 85 or in several pieces of base 64.
    """
    if not text.isascii():
        yield text.translate(ALIKE)
    yield text.translate(_LEET)
    yield codecs.encode(text, "rot13")
    yield text[::-1]
    if _SPACED.search(text):
        yield _SPACED.sub(lambda run: re.sub(r"(?<=\S)[ .\-_*](?=\S)", "", run[0]), text)
    hidden = [_decode_or_keep(run[0], _from_base85) for run in _BASE85.finditer(text)]
    pieces = _PIECE.findall(text)
    if len(pieces) > 1:
        decoded = ((run, _decode_or_keep(run, _from_base64)) for run in ("".join(pieces), *pieces))
        hidden += [clear for run, clear in decoded if clear != run]
    if hidden:
        yield " ".join(hidden)


def _tag_letters(unseen: re.Match[str]) -> str:
    """Return the letters encoded in invisible characters."""
    return "".join(_TAGS.get(ord(sign), "") for sign in unseen[0])


def _resolve_escapes(text: str) -> str:
    """Resolve one layer of escapes."""
    if "\\" in text:
        text = _SURROGATES.sub(_join_surrogates, text)
        text = _ESCAPE.sub(_resolve_escape, text)
    if "&" in text:
        text = html.unescape(text)
    if "%" in text and _PERCENT.search(text):
        text = unquote(text, errors="replace") if len(_PERCENT.findall(text)) > 2 else text
    if "=" in text and _QUOTED_PRINTABLE.search(text):
        text = _QUOTED_PRINTABLE.sub(lambda code: _character(_hex(code[1])), text)
    return text


def _join_surrogates(pair: re.Match[str]) -> str:
    """Return the character that an escaped surrogate pair encodes."""
    return chr(0x10000 + ((_hex(pair[1]) & 0x3FF) << 10) + (_hex(pair[2]) & 0x3FF))


def _resolve_escape(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    return _character(_hex(code)) if code else escape[4] or " "


def _hex(digits: str) -> int:
    return int(digits, 16)


def _character(code: int) -> str:
    """Return the character with a code point; nothing for half a pair or a control character."""
    if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        return ""
    return chr(code) if code >= 0x20 else " "


def _decode_run(decode: Callable[[str], bytes], run: re.Match[str]) -> str:
    return _decode_or_keep(run[0], decode)


def _decode_or_keep(run: str, decode: Callable[[str], bytes]) -> str:
    """Return the text that a run encodes, or the run itself if that is not printable text."""
    with suppress(ValueError):
        clear = UNSEEN.sub(_tag_letters, decode(run).decode())
        if clear and all(sign.isprintable() or sign.isspace() for sign in clear):
            return clear
    return run


def _from_base64(run: str) -> bytes:
    run = run.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(run + "=" * (-len(run) % 4), validate=True)


def _from_base32(run: str) -> bytes:
    run = run.rstrip("=")
    return base64.b32decode(run + "=" * (-len(run) % 8))


def _from_hex(run: str) -> bytes:
    return bytes.fromhex(re.sub(r"0x|\\x|[ :,]", "", run))


def _from_binary(run: str) -> bytes:
    return bytes(int(byte, 2) for byte in re.findall(r"[01]{8}", run))


def _from_decimals(run: str) -> bytes:
    return bytes(int(code) for code in re.findall(r"\d+", run))


def _from_base85(run: str) -> bytes:
    for decode in (base64.b85decode, base64.a85decode):
        with suppress(ValueError):
            clear = decode(run.removeprefix("<~").removesuffix("~>"))
            if clear.isascii() and clear.decode().isprintable():
                return clear
    raise ValueError("not base 85")


_RUNS: tuple[tuple[re.Pattern[str], Callable[[str], bytes]], ...] = (
    (_BINARY, _from_binary),
    (_DECIMALS, _from_decimals),
    (_HEX, _from_hex),
    (_BASE32, _from_base32),
    (_BASE64, _from_base64),
)
