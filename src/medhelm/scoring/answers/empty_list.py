"""Recognize the answer that a list is empty, such as "None." or "No codes apply.", which is an answer like others."""

from __future__ import annotations

import re

from medhelm.io.lazy_regex import lazy_regex

_LONGEST = 200
"""Characters of the longest text that can be one; a longer one explains something else."""

_FENCE = lazy_regex(r"```\w*")
_SAYS_NONE = lazy_regex(
    r"\W*(?:(?:the )?(?:final )?(?:answer|codes?|labels?|diagnos[ie]s|output|result)\W{1,4}(?:is |are )?)?\W*"
    r"(?:none|nil|null|nothing|n/?a|not applicable|empty(?: (?:list|set|string))?|(?-i:\[\s*\]|\{\s*\}|\"\"))\W*"
    r"|.{0,60}?\b(?:no|none of the|not any|without(?: any)?"
    r"|(?:cannot|can't|could not|unable to) (?:assign|give|find|determine|identify)(?: an?y?)?)"
    r" (?:[\w-]+ ){0,4}?(?:codes?|labels?|diagnos[ie]s|conditions?|categor(?:y|ies))\b.*",
    re.IGNORECASE | re.DOTALL,
)


def says_none(completion: str) -> bool:
    """Return True if a completion says that there is nothing to list.

    >>> says_none("None."), says_none("No ICD-10 codes apply."), says_none("[]"), says_none("The note is about asthma.")
    (True, True, True, False)
    """
    text = _FENCE.sub("", completion).strip()
    return 0 < len(text) <= _LONGEST and _SAYS_NONE.fullmatch(text) is not None
