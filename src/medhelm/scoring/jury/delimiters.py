"""Tags around judged text, which the text cannot close.

Each text stands between `<RESPONSE marker>` and `</RESPONSE marker>`. The marker is a keyed hash of all texts shown
together: equal texts get equal tags, so a request stays the same from run to run, and with it its key in the cache. A
text that holds its own marker would have to be found among 2^96, because every attempt changes the marker; one that
holds it by miracle is given another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

_KEY = b"medhelm: tags around judged text"
_PERSON = b"medhelm.jury"
_BYTES = 12
"""Length of a marker: 96 bits."""


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The tags of one prompt."""

    marker: str
    """What its tags carry, and none of the texts between them: 24 hexadecimal digits."""

    def around(self, name: str, text: str) -> str:
        """`text` as it is, on lines of its own between an opening and a closing tag called `name`."""
        return f"<{name} {self.marker}>\n{text}\n</{name} {self.marker}>"


def delimit(texts: Mapping[str, str]) -> Delimiters:
    """The tags for `texts`, name -> text: the same for the same names and texts in the same order.

    >>> delimit({"RESPONSE": "Rest."}) == delimit({"RESPONSE": "Rest."})
    True
    """
    seal = blake2b(key=_KEY, person=_PERSON, digest_size=_BYTES)
    for name, text in texts.items():
        for part in (name, text):
            raw = part.encode("utf-8", "surrogatepass")
            seal.update(len(raw).to_bytes(8, "big"))  # else ("ab", "c") and ("a", "bc") were the same
            seal.update(raw)
    folded = [text.lower() for text in texts.values()]
    while any(seal.hexdigest() in text for text in folded):
        seal.update(b"again")
    return Delimiters(seal.hexdigest())
