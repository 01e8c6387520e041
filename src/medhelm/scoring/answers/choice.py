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
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.options import (
    YES_AND_NO,
    PreparedOptions,
    Token,
    choice_text,
    differ,
    find_tokens,
    prepare_options,
)
from medhelm.scoring.answers.text import before_next_question

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


# --- statements -------------------------------------------------------------------------------------------------------
# Find what a completion states about the options of a question.
#
# A sentence is read as a string of roles, one character for each word (see `options`): "The answer is not B" is
# "uainM". What is denied, compared or supposed is removed from it; patterns find the statements in the rest.

WEAK, STATED, ANSWERED, CONCLUDED = 1, 2, 3, 4
"""Strength of statements: "suggests B" of a text, "it is B", "the answer is B", and "therefore the answer is B"."""

_MOST_TOKENS = 400  # of a sentence
_LONGEST_HEADING = 40  # tokens

_GLOSS = r"(?:\(w{1,4}\((?=u*i))?"
_AND_OTHERS = r"(?:(?:,[uo]*M)*,?[&|][nuo]*M)?"
_REMOVED = (
    lazy_regex(r"g[^b,;]*"),  # granted: "although it may be A"
    lazy_regex(r"[^,;b]*f[^b;]*"),  # supposed: "if it were so, A"
    lazy_regex(r"M(?:\|[uo]*M)+(?=[(:]+[^M]*M)|M,M(?=:M)"),  # asked: "A or B: B"
    lazy_regex(rf"(?:t|(?<=d)k)[uok]*M{_AND_OTHERS}"),  # compared: "rather than A"
    lazy_regex(r"k[uo]*M(?:,[uo]*M)*,?[&|][uo]*M,?"),  # compared: "between A and B"
    lazy_regex(
        rf"(?<!h)M{_AND_OTHERS}(?:{_GLOSS}[uo]*[i:]?[um]*[nx](?![uoi]*M)|\([um]*(?:x|n(?![uo]*[wM]))|[uo]*z)"
    ),  # denied: "A is wrong"
    lazy_regex(rf"(?:n[uohkv]*(?:iu*)?|N[uohkviadp]*|x(?:[uok]*|ai|ki)u*)M{_AND_OTHERS}"),  # denied: "not A"
)
_HEADS_LIST = lazy_regex(r"O[^M]*[:i]|x[uaoi]*[ao]:")
_ANSWER_IS = lazy_regex(
    r"(?:(?:[ac]|do)[^M.?m;]{0,14}?[i:][uokbds(]*|[ac](?:[uocb(]*|k)(?=M[uo]*i?(?:$|[.,;(:e&|]))|h[uo(:]*)M"
)
_THING_IS = lazy_regex(r"[dpo][^M.?m;]{0,14}?[i:v][uokbds(]*M")
_IS_ANSWER = lazy_regex(
    r"(?:(?<!w\()M[uo(]*[i:][uski(]*|(?:^|[,;:ovbs])u*M[uo]*)[usp]*(?P<verdict>[acd]|o(?=$))(?=$|[acdopesuktrxi,;(:&])"
)
_IT_IS = lazy_regex(r"(?<!m)(?:[iv][uokbds]*M|:[uokbds]*M(?!u*[im]u*[wek]))")  # no item such as "- B is for fever"
_LEGEND = lazy_regex(r"M(?=:)")
_SAID = lazy_regex(r"(?:M,|[ek][^M,]*,)?(?:[^M,;mnN]{1,6}(?P<option>M)(?:k[^M]*)?|(?P<first>M)k[^M]*)[(]?$")
_ONLY_IT_IS = lazy_regex(r"[us]*iu*M")
_ALONE = lazy_regex(r"(?:^|(?<=[,;(:]))[uosrcbd:]*M+(?:[uo]*(?:i(?=$|[,;]))?|\|u)(?=$|[,;(:eb]|&$)")
_GROUP = lazy_regex(r"M(?:[uo]*,[uo]*M|;M(?=$|;)|M)*(?:[uo]*,?[&|]+[uom]*M)*")
_ITEM = lazy_regex(r"[:cx(]{0,3}o?\(?M(?P<ends>$|[.(:])?")
_VERDICT = lazy_regex(r"[^nxc]{0,8}?(?P<verdict>[nxc])")
_SECTION = lazy_regex(r"[:(]?o?[:(]?M[.:(]?")
_HEADING = lazy_regex(r"[^xnOM]*[ivh][^xnOM]*:|[acdpsuo]*[acdpso]:|[acsu]*a[acsu]*")
_ANSWER_LINE = lazy_regex(r"[ucs]*a[us]*[:(]")


class Statement(NamedTuple):
    """A place of a completion that states an option to be the answer."""

    at: int
    """Position among the tokens."""
    option: int
    """Index of the option; -1 if several are stated."""
    strength: int
    """`WEAK` to `CONCLUDED`."""
    alone: bool = False
    """True if it is only an option between signs: "B", "so B", "B, because ..."."""
    place: str = ""
    """"first" or "last" if such an option begins the text or is its last line; else empty."""


class _Line(NamedTuple):
    """A line of a completion."""

    start: int
    """Position of its first token."""
    tokens: list[Token]
    item: int | None
    """The option that it lists, -1 for another item of a list; None for prose."""
    follows_heading: bool = False
    """True if a heading such as "Other options:" precedes it, directly or before other items."""


def find_statements(tokens: list[Token], options: PreparedOptions) -> list[Statement]:
    """Return the statements of a text, in order."""
    found: list[Statement] = []
    lines = list(_lines(_without_ranking(tokens)))
    headings, blocks = _section_headings(lines), list(_blocks(iter(lines)))
    for number, block in enumerate(blocks):
        listed = len({line.item for line in block}) > 1 or block[0].follows_heading
        in_block = []
        for line in block:
            last = number == len(blocks) - 1 and line is block[-1]
            in_line = [
                found for found in _in_line(line, options, last=last) if not listed or found.strength >= ANSWERED
            ]
            alone = [found for found in in_line if found.alone]
            listed_in_line = any(differ(found.option, alone[0].option, options) for found in alone)
            if listed or (listed_in_line and not any(retracts(line.tokens, at) for at in range(len(line.tokens)))):
                in_line = [found for found in in_line if not found.alone]
            in_block += in_line
        in_block = [found for found in in_block if not found.alone or found.at not in headings]
        found += in_block or (_verdict(block) if listed else [])
    return found


def _section_headings(lines: list[_Line]) -> set[int]:
    """Return the positions of options that head sections: "Option A: Aspirin", prose, "Option B: Heparin", prose.

    Options of sections ascend: one before them that does not is an answer, and so is one in the last line.
    """
    heads = [
        (line.start + roles.index("M"), line.tokens[roles.index("M")])
        for line, roles in ((line, _roles(line.tokens)) for line in lines[:-1])
        if _SECTION.fullmatch(roles) and ("o" in roles or line.tokens[roles.index("M")].is_pair)
    ]
    if len(heads) > 1 and heads[0][1].option >= heads[1][1].option:
        del heads[0]
    return {at for at, _ in heads} if len({token.option for _, token in heads}) > 1 else set()


def _without_ranking(tokens: list[Token]) -> list[Token]:
    """Turn options into words if several have a percentage, or an order: "B 80%, A 15%" or "B > A" states none."""
    shares = {at for at, token in enumerate(tokens) if token.word.endswith("%")}
    shares |= {at - 1 for at in shares if tokens[at - 1].role in ":("}
    ranked = {at for at, token in enumerate(tokens) if token.role == "M" and at + 1 in shares}
    ranked |= {
        at + step
        for at, (token, sign, other) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False))
        if token.role == other.role == "M" and sign.word == ">"
        for step in (0, 2)
    }
    if len({tokens[at].option for at in ranked}) < 2:
        return tokens
    return [Token("w", word=token.word) if at in ranked else token for at, token in enumerate(tokens)]


def _in_line(line: _Line, options: PreparedOptions, *, last: bool) -> Iterator[Statement]:
    """Yield the statements of a line."""
    ends = [at for at, (token, after) in enumerate(pairwise([*line.tokens, Token("")])) if _ends(token, after)]
    whole = all(token.role in ".?" for token in line.tokens[ends[0] :]) if ends else True
    for start, end in pairwise([-1, *ends, len(line.tokens)]):
        sentence = line.tokens[start + 1 : end]
        if not any(token.role == "M" for token in sentence[:_MOST_TOKENS]):
            continue
        at = line.start + start + 1
        place = "first" if at == 0 else "last" if last and whole else ""
        asked = end < len(line.tokens) and line.tokens[end].role == "?"
        statements = _Sentence(sentence[:_MOST_TOKENS], at, options)
        if not asked:
            yield from statements.stated()
        if not asked or (at == 0 and last and whole):
            yield from statements.alone(place)


def _ends(token: Token, after: Token) -> bool:
    """Return True if a token ends a sentence."""
    continues = after.role in ("|", "&") or after.word in ("is", "was")
    return token.role == "?" or (token.role == "." and not continues)


class _Sentence:
    """A sentence without what is denied, compared or supposed."""

    def __init__(self, tokens: list[Token], start: int, options: PreparedOptions) -> None:
        roles, places = _roles(tokens), list(range(len(tokens)))
        if _HEADS_LIST.match(roles):
            places = []
        for pattern in _REMOVED:
            for match in reversed(list(pattern.finditer(roles))):
                remarked = ":" in match[0] and roles[match.start()] == "M" and tokens[places[match.start()]].is_common
                if not remarked:  # "No: not in the note" denies nothing
                    del places[match.start() : match.end()]
            roles = "".join(tokens[at].role for at in places)
        self.roles = roles
        legend = {tokens[match.start()].option for match in _LEGEND.finditer(_roles(tokens))}
        self.is_legend = len(legend) > 1  # "0 = no error, 1 = error"
        self.tokens = [tokens[at] for at in places]
        self.places = [start + at for at in places]
        self.options = options
        self.taken = {match.end() - 1 for match in _THING_IS.finditer(roles)}
        before = roles[: roles.find("M") + 1]
        self.concludes = "s" in before or _ANSWER_LINE.match(before) is not None

    def stated(self) -> Iterator[Statement]:
        """Yield the options that the words beside them state."""
        strengths: dict[int, int] = {}
        for at, strength in _stated(self.roles, self.tokens):
            strengths[at] = max(strength, strengths.get(at, 0))
        self.taken |= {at for at, strength in strengths.items() if strength > WEAK}
        for at, strength in sorted(strengths.items()):
            option = self._option(at)
            if option >= 0 or strength >= ANSWERED:
                yield Statement(self.places[at], option, min(strength + self.concludes, CONCLUDED))

    def alone(self, place: str) -> Iterator[Statement]:
        """Yield the only option between signs."""
        found = [self.roles.index("M", match.start()) for match in _ALONE.finditer(self.roles)]
        found = [at for at in found if self.tokens[at].is_explicit or _may_be_alone(at, self.roles, self.tokens)]
        options = {self._option(at) for at in found}
        found = [at for at in found if _may_be_alone(at, self.roles, self.tokens)]
        if place == "first" and not found and not self.taken and self.roles.startswith("M") and self.tokens[0].is_pair:
            yield Statement(self.places[0], self._option(0), WEAK)
            return
        if (
            self.taken
            or self.is_legend
            or not found
            or any(differ(option, min(options), self.options) for option in options)
        ):
            return
        at, option = found[0], min(options)
        remarked = self.roles[at + 1 : at + 2] == ":" and self.roles[at + 2 : at + 3] not in "e"
        if remarked or (place == "first" and not set(self.roles[:at]) <= set("uo(:")):
            place = ""  # "B: used in children" may be one of several remarks
        strength = {"first": ANSWERED, "last": CONCLUDED}.get(place, STATED + self.concludes)
        if option >= 0:
            yield Statement(self.places[at], option, strength, alone=True, place=place)

    def _option(self, at: int) -> int:
        """Return the option at `at`; -1 if it is one of several."""
        group = next(match for match in _GROUP.finditer(self.roles) if match.start() <= at < match.end())
        named = [token.option for token in self.tokens[group.start() : group.end()] if token.role == "M"]
        return -1 if any(differ(named[0], other, self.options) for other in named) else named[0]


def _stated(roles: str, named: list[Token]) -> Iterator[tuple[int, int]]:
    """Yield position and strength of the options that the words beside them state, the strongest first."""
    for match in _ANSWER_IS.finditer(roles):
        yield match.end() - 1, ANSWERED
    for match in _IS_ANSWER.finditer(roles):
        yield roles.index("M", match.start()), _strength_of(match, named)
    for match in _THING_IS.finditer(roles):
        yield match.end() - 1, STATED
    for match in _IT_IS.finditer(roles):
        at = match.end() - 1
        listed = match[0][0] == ":" and match.start() and roles[match.start() - 1] == "M"
        if named[at].is_explicit and not listed:
            yield at, STATED
    said = _SAID.match(roles)
    if said:
        at = max(said.start("option"), said.start("first"))
        if " " in named[at].word or _ONLY_IT_IS.fullmatch(roles):
            yield at, WEAK


def _strength_of(match: re.Match[str], named: list[Token]) -> int:
    """Return the strength of "B is ...": "is the better one" and "would be the answer" are weaker than "is correct"."""
    supposed = any(token.word in ("would", "should") for token in named[match.start() : match.end()])
    after = named[match.end() : match.end() + 1]
    qualified = bool(after) and (after[0].role == "p" or after[0].word == "for")  # "is the right drug for"
    return STATED if supposed or qualified or match["verdict"] in "do" else ANSWERED


def _may_be_alone(at: int, roles: str, named: list[Token]) -> bool:
    """Return True if an option between signs is an answer: a text only where nothing else is said."""
    if named[at].is_label:
        return not re.search(r"w\($", roles[:at]) or re.match(r"\((?!$|[,;e])", roles[at + 1 :]) is None
    introduced = roles[0] in "esk" or set(roles[:at]) <= set("uosrcbd:,(") or roles[at - 1] in "bs"
    introduced = introduced or (at <= 5 and roles[at - 1 :] == ",M" and "M" not in roles[:at])
    return introduced and (named[at].is_common or re.match(r"[uo]*(?:$|[(:e]|,[uebn(])", roles[at + 1 :]) is not None)


def _lines(tokens: list[Token]) -> Iterator[_Line]:
    """Yield the lines. A heading such as "The answer is:" is one line with what follows it."""
    ends = [n for n, token in enumerate(tokens) if token.role == "\n"] + [len(tokens)]
    joined: list[tuple[int, list[Token]]] = []
    heads = False
    for start, end in pairwise([-1, *ends]):
        line = tokens[start + 1 : end]
        if heads:
            joined[-1] = (joined[-1][0], [*joined[-1][1], Token(":"), *line])
        else:
            joined.append((start + 1, line))
        heading = joined[-1][1]
        heads = (
            len(heading) <= _LONGEST_HEADING and _HEADING.fullmatch(re.split("[.?]", _roles(heading))[-1]) is not None
        )
    follows = False
    for start, line in joined:
        item = _item(line)
        follows = follows if item is not None else bool(line) and line[-1].role == ":"
        yield _Line(start, _as_item(line) if item is not None else line, item, follows and item is not None)


def retracts(tokens: list[Token], at: int) -> bool:
    """Return True if a token withdraws what precedes: "wait", or "No," at the beginning of a sentence."""
    if tokens[at].role == "r":
        return True
    begins = at > 0 and tokens[at - 1].role in ".;?,\n"
    return tokens[at].role == "n" and begins and at + 1 < len(tokens) and tokens[at + 1].role in ",."


def _roles(tokens: list[Token]) -> str:
    return "".join(token.role for token in tokens)


def _item(line: list[Token]) -> int | None:
    """Return the option that a line lists; -1 for the number of another item, None for prose."""
    match = _ITEM.match(_roles(line[:8]))
    named = line[_roles(line[:8]).index("M")] if match else None
    if match and named and named.is_label and (named.is_pair or match["ends"] is not None):
        return named.option
    other = len(line) > 1 and (line[0].word.isdigit() or (len(line[0].word) == 1 and line[0].word.isupper()))
    return -1 if other and line[1].word in (".", ")", ":") else None


def _as_item(line: list[Token]) -> list[Token]:
    """Return the tokens of an item with a colon before its verdict: "A. Incorrect" reads as "A: incorrect"."""
    at = next((n for n, token in enumerate(line) if token.role == "M"), len(line))
    judged = re.fullmatch(r"[.(][ucxn]*[cx](?:[.,].*)?", _roles(line[at + 1 :]))
    return [*line[: at + 1], Token(":"), *line[at + 2 :]] if judged else line


def _blocks(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    """Yield lines that belong together: items in ascending order, or one line of prose."""
    block: list[_Line] = []
    for line in lines:
        last = block[-1].item if block and _is_bare(block[-1]) == _is_bare(line) else None
        if block and not (line.item is not None and last is not None and (line.item > last or line.item < 0)):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _is_bare(line: _Line) -> bool:
    """Return True for a letter alone: before "C. Aspirin is given later", it is an answer, not an item."""
    return not any(token.is_pair or token.role not in "M.(:" for token in line.tokens)


def _verdict(block: list[_Line]) -> Iterator[Statement]:
    """Yield the only item of a list that is called right, or else the only one that is not called wrong."""
    verdicts: dict[str, list[_Line]] = {"c": [], "n": [], "": []}
    for line in block:
        match = _VERDICT.match(_roles(line.tokens))
        verdicts[match["verdict"].replace("x", "n") if match else ""].append(line)
    chosen = verdicts["c"] or (verdicts[""] if verdicts["n"] else [])
    if len(chosen) == 1 and len(block) > 1 and chosen[0].item is not None and chosen[0].item >= 0:
        yield Statement(chosen[0].start, chosen[0].item, STATED)
