"""Find the option that a completion names.

Asked for one letter, models write "B", "**(B)** no", "The correct answer is B.", or three pages that end so. The
reading has five stages:

1. the completion without wrapping (`answer_text`, `options.choice_text`);
2. its tokens: words with roles, and options named by a label, a text or both (`options.find_tokens`);
3. lines that list options are set aside, unless a verdict is beside an option: "A. Incorrect. B. Correct.";
4. statements: "the answer is B", "B is correct", "I choose B", "it is B", a line or sentence that is only an option;
   what is denied ("not A", "A is wrong"), compared ("B rather than A"), supposed ("if so, A") or asked states nothing;
5. the conclusion: the strongest statement counts, and a later one after a retraction ("Wait, no: B").

The result is None if no option is stated, or two are and nothing decides between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.choice_words import YES_AND_NO
from medhelm.scoring.answers.options import PreparedOptions, choice_text, differ, find_tokens, prepare_options
from medhelm.scoring.answers.plain_text import before_next_question
from medhelm.scoring.answers.statements import ANSWERED, Statement, find_statements, retracts

_CROSSED_NO = lazy_regex(r"\A[❌✗✘✖]\s?(?=no\b(?![^\n]*\n))", re.IGNORECASE)
"""A cross that says no, as the word after it does; in a list, it says that "no" is wrong."""


def find_choice(completion: str, labels: Sequence[str], texts: Sequence[str]) -> int | None:
    """Return the index of the option that a completion names; None if it names none, or several.

    `labels` are the names of the options, letters or their texts; `texts` are their texts, as many as labels. If two
    options have the same text and the completion only has the text, the first one is returned.

    >>> find_choice("The answer is **B**.", ["A", "B"], ["yes", "no"])
    1
    >>> find_choice("A patient with asthma", ["A", "B"], ["yes", "no"]) is None
    True
    """
    labels, bare = tuple(labels), completion.strip()
    if bare in labels:
        return labels.index(bare)
    text = choice_text(completion)
    text = _CROSSED_NO.sub("", text)
    options = prepare_options(labels, tuple(texts))
    whole = text.lower().strip(" .\"'")
    whole = YES_AND_NO.get(whole, whole)
    if whole in options.own and whole and whole.upper() not in options.labels:
        return options.own.index(whole)
    before = before_next_question(text)
    option = None if before is None else _decide(before, options)
    return _decide(text, options) if option is None else option


def _decide(text: str, options: PreparedOptions) -> int | None:
    """Return the option that the strongest statement names, after the last retraction."""
    tokens = find_tokens(text, options)
    statements = find_statements(tokens, options)
    retracted = max((at for at, token in enumerate(tokens) if token.role in "rn" and retracts(tokens, at)), default=-1)
    statements = [found for found in statements if found.at > retracted] or statements
    if not statements:
        return None
    chosen = max(reversed(statements), key=lambda found: found.strength)
    against = [found for found in statements if differ(found.option, chosen.option, options)]
    agrees = any(found is not chosen and not found.alone and found not in against for found in statements)
    for found in against:
        if _refines(chosen, found, options):
            return found.option
        if found.strength == chosen.strength or (found.at > chosen.at and found.strength >= ANSWERED):
            return None
        if found.alone and chosen.alone and not agrees:
            return None
    return chosen.option if chosen.option >= 0 else None


def _refines(no: Statement, other: Statement, options: PreparedOptions) -> bool:
    """Return True for "No, it is not mentioned" where "not mentioned" is an option beside "no"."""
    follows = no.alone and 0 < other.at - no.at <= 4
    return follows and options.own[no.option] == "no" and options.own[other.option].startswith(("not ", "no "))
