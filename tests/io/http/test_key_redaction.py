"""Keys are found however a server writes them, and other texts stay as they are."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from html import escape
from urllib.parse import quote

import pytest

from medhelm.io.http.client import without_keys

KEY = "sk-Ab3/x+9Zq_Lm'77Tt&0Yw"

ECHOES = {
    "as it is": KEY,
    "lower case": KEY.lower(),
    "percent-encoded": quote(KEY, safe=""),
    "HTML": escape(KEY),
    "HTML in numbers": "".join(f"&#{ord(one)};" for one in KEY),
    "JSON": json.dumps(KEY).replace("/", "\\/"),
    "JSON in numbers": "".join(f"\\u{ord(one):04x}" for one in KEY),
    "hexadecimal": KEY.encode().hex(),
    **{f"base64 after {n}": b64encode(b"user:x"[:n] + KEY.encode() + b"..").decode() for n in range(6)},
    **{f"URL-safe base64 after {n}": urlsafe_b64encode(b"abc"[:n] + KEY.encode()).decode() for n in range(3)},
    "HTML of a percent code": escape(quote(KEY, safe="")).replace("%", "&#37;"),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_no_form_of_a_key_is_left(echo: str) -> None:
    found = without_keys(f"Wrong key {echo} for this model", [KEY])
    assert "[key]" in found
    assert echo not in found
    assert KEY[4:12].lower() not in found.lower()


@pytest.mark.parametrize(
    "text",
    ["", "100% sure", "a & b &lt; c", "\\u0041 and C:\\path", KEY[:-1], "Ünïcode İ", "\ud83d"],
)
def test_other_texts_stay(text: str) -> None:
    assert without_keys(text, [KEY, "none", ""]) == text
