"""Read the labels that a completion names.

What surrounds a list is left out: reasoning, tags, headings and lead-ins such as "The labels are", list marks, table
rules, emphasis, sentences, explanations, and what is said about an entry ("**Asthma**: wheezing"). Entries that the
completion rejects ("Stroke: absent") are left out too. Words such as "none" are no label.

The same words may be one label or two: "anxiety and depression", "nausea/vomiting", "cancer: lung". Labels of the
reference are never divided. Other text with "and" or a slash is one label, unless a part of it is a label of the
reference, or commas show that it is the end of a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.text import before_next_task, clean_text, strip_wrapping

# --- label words ------------------------------------------------------------------------------------------------------
# Words around the labels of a list, as parts of regular expressions.

NOUN = (
    r"(?:labels?|diagnos[ei]s|conditions|categor(?:y|ies)|class(?:es)?|tags?|topics?|findings|symptoms|problems?"
    r"|predictions?|predicted|extracted|answers?|outputs?|results?|responses?|list|options?|comorbidities"
    r"|medical\shistory|impression|assessment|disorders|diseases|codes?|dx)"
)
"""Names of a list of labels."""
SUBJECT = r"(?:patient|note|text|case|document|report|record|person|man|woman|child|summary)"
"""Subjects of a sentence with labels."""
VERB = (
    r"(?:is|are|was|were|be|been|has|have|had|includes?|contains?|mentions?|shows?|describes?|documents?|assign|choose"
    r"|select(?:ed)?|predict|labeled|(?<=d\s)label|classif(?:y|ied)|identif(?:y|ied)|found|suggests?|indicates?|supports?"
    r"|carries|suffers|presents|lists?|say|apply|applies|identified|diagnosed|think|believe)"
)
"""Verbs between a subject and its labels."""
ADVERB = (
    r"(?:probabl[ey]|(?:most\s)?likely|possibl[ey]|presumed|suspected|hence|thus|therefore|so|overall|in\s(?:summary|conclusion)|finally"
    r"|sure|certainly|of\scourse|okay|ok|yes|both|only|just|here\s(?:you\sgo|they\sare)|all\sthat\sapply|it's|i'm\sconfident\sit\sis|yes\sto|based\son\sthe\s\w+)"
)
"""Words before a label that are not part of it."""
QUALIFIER = (
    r"(?:ranking|ranked|order(?:ed)?|primary|secondary|main|other|additional|principal|further|also|i\smeant|i\sassign"
    r"|i\schoose)"
)
"""A heading that says which of the labels follow."""
REJECTED = (
    r"(?:absent|negative|excluded|unlikely|denied|rejected|ruled\sout|n/a|false|none|no(?=\W*$|[,;.])|0(?![.\d%])"
    r"|not\s(?:present|applicable|documented|mentioned|found|seen|supported|included|selected|indicated|active|\w+ed)"
    r"|❌|✗|✘|✖|☐|⬜|\[\s?\]|(?:nein|non|não)(?=\W*$|[,;.])|ausentes?|negativ[oa]|nicht\svorhanden)"
)
"""Remarks on a label that does not apply."""
CONFIRMED = (
    r"(?:yes|true|1(?![.\d%])|present|positive|✅|✓|✔|☑|\[[xX]\]|sí|ja|oui|sim|presentes?"
    r"|présente?|vorhanden|positiv[oa])"
)
"""Remarks on a label that applies."""
MARK = r"(?:[✅✓✔☑❌✗✘✖☐⬜]|\[[xX ]?\])"
"""Signs beside a label that say whether it applies."""


# --- headings, sentences and explanations -----------------------------------------------------------------------------

_RESTARTS = lazy_regex(
    r"(?:^|(?<=[.!?]\s)|(?<=,\sbut\s))[^\w\n]*+(?:wait|actually|correction|sorry|on\s(?:second\sthought|reflection)|(?:the\s|my\s|thus,?\s)?"
    r"(?:final|correct(?:ed)?|revised|updated)(?:\s\S+){0,2}?|(?:the\s|my\s)?(?:final\s)?answers?)\b[^:\n.,]{0,40}?"
    r"(?:,[^:\n]{0,20})?(?::|\b(?:are|is|would\sbe|should\sbe)\b:?|(?=\n)|\s-\s)",
    re.IGNORECASE | re.MULTILINE,
)
_NOUN_HEADING = lazy_regex(
    rf"[\W\d]*(?:[^\s:,;.|]+,?\s){{0,10}}?{NOUN}(?:\(s\))?(?:\s[^\s,;]+){{0,5}}?(?:\s\([^()]*\))?", re.IGNORECASE
)
_SHORT_HEADING = lazy_regex(
    rf"(?:{ADVERB}|{QUALIFIER}|[A-Z]\d[\dA-Z](?:\.\w+)?|yes|no|{CONFIRMED}|\w+\s{CONFIRMED})\W*", re.IGNORECASE
)
_NOUN_FIRST = lazy_regex(rf"^(?:\w+\s)?{NOUN}\s(?:=|->|→|=>|[-–—])\s", re.IGNORECASE)
_LIST_HEADING = lazy_regex(
    r"^[^\w\n]*+(?!(?:[^\s:]+\s){0,4}(?:not|absent|excluded|rejected|considered|ruled)\b)(?:[^\s:]+\s){0,3}?"
    r"(?:labels?|diagnos[ei]s|categories|tags|topics)(?:\s\d+)?[^:\n]{0,20}:",
    re.IGNORECASE | re.MULTILINE,
)
_REJECTING_START = lazy_regex(
    r"\A(?:no|not)\s[^.,;:\n]{1,60}\.\s+"
    r"|^\W*(?:there\s(?:is|was)\s)?no\s(?:evidence|signs?|mention|documentation|indication)\s(?:of|for)\s[^.;:\n]+\.?",
    re.IGNORECASE | re.MULTILINE,
)
_STATUS_HEADING = lazy_regex(
    rf"^(?:#{{1,6}}\s|\*\*)\**((?:(?!none|no\b|n/a|0){REJECTED}|present|positive|confirmed)(?:\s{NOUN})?)\**[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_ONLY_NOUN = lazy_regex(rf"#*\s*(?:\w+\s){{0,2}}{NOUN}\W*", re.IGNORECASE)
_INLINE_HEADING = lazy_regex(
    r"(?<=\w[.;])\s+(?=(?:no|yes|present|absent|positive|negative|excluded|ruled\sout|not\s\w+)\s?:)", re.IGNORECASE
)
_REJECTS_ALL = lazy_regex(rf"\W*(?:\w+\s)?(?:{REJECTED}|no(?=:)|considered)[^:\n]*:", re.IGNORECASE)
_EXPLANATION = lazy_regex(
    r"^\W*(?:explanations?|rationales?|reason(?:s|ing)?|notes?|justification|evidence|comments?|remarks?|disclaimer"
    r"|confidence|references?|why|(?:supporting|key|clinical)\sevidence)\b\W*(?::|$)",
    re.IGNORECASE | re.MULTILINE,
)
_BEGINS = (
    r"(?:The|This|These|Those|There|He|She|They|It|All|Both|Let|I|We|You|If|Please|Patient|Because|Since|As|In|Based|Hope"
    r"|Is|Do|According|No\s\w+\s(?:labels?|diagnos[ei]s)|Three|Two"
    r"|No\sevidence|Confidence|Follow|Consider|Recommend|Monitor|Repeat|Refer|Continue|Start|Evidence|Rationale)\b"
)
_SENTENCE = lazy_regex(rf"\W*{_BEGINS}(?:\s+\S+){{2,}}.*[.!?:)]\W*|[A-Z].*\s(?:is|are|was|were|has|does)\s.*[.!)]")
_CLAUSE_VERB = r"(?:is|are|was|were|has|have|does|do|apply|applies)"
_NEXT_SENTENCE = lazy_regex(rf"(?<=\w{{4}})[.!]\s+(?={_BEGINS}|[A-Z][^.,;]*\s{_CLAUSE_VERB}\b).*", re.DOTALL)
_REJECTING_SENTENCE = lazy_regex(
    rf"\b(?:is|was|are|were)\s(?:\w+ly\s)?{REJECTED}|\b(?:does|do)(?:\snot|n't)\s", re.IGNORECASE
)
_PREDICATE = lazy_regex(
    r",?\s(?:(?:all|both)\s)?(?:(?<!not\s)(?:apply|applies)|(?:is|are)\s(?:all\s|both\s)?(?:present|documented|correct|the\s(?:\w+\s)?"
    rf"{NOUN}))(?:\W*$|(?=;))|\s(?:--|[-–—])\s(?:all|these|both|each|as|since|because)\b.*$",
    re.IGNORECASE,
)

# --- lines ------------------------------------------------------------------------------------------------------------

_RULE = lazy_regex(r"\|?[\s:|-]*---[\s:|-]*")
_MARK = lazy_regex(
    r"(?:#\d{1,3}\s|[^\w\s\"'(\[<>=≥≤±%.,;:|\ue000-\uf8ff-]\s*|[①-⑳]\s?|[-–>]\s|=>\s|-(?=[A-Za-z])|\[[xX]\]\s|\d\u20e3\s?|\d{1,2}\s[-–—]\s|\d{1,2}\.(?=[A-Za-z])"
    r"|[(\[]?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})\\?[\].):/]:?\s|\d{1,3}:\s)+"
)
_NUMBERED = lazy_regex(r"\d{1,2}\s(?=\S)")
_UNCHECKED = lazy_regex(r"(?:[-*+]\s)?\[\s?\]\s|[❌✗✘✖☐⬜]")
_BULLET, _ANY_MARK = lazy_regex(r"[-*•]\s+"), lazy_regex(MARK)
_NEXT_MARK = lazy_regex(rf"(?:^|[,;\s]+)(?={MARK})")
_AFTER_MARK = lazy_regex(rf"({MARK})(?:[,;\s]+|$)")
_INLINE_NUMBER = lazy_regex(r"\s(?=\(?\d{1,2}[.)]\s)")
_STATUS = lazy_regex(
    rf"(?:(?:is\sthere|are\sthere|has)\s)?(?P<label>[^;=?\n]*?[^\s:=,;?(|-])\s*(?:[:=?,\t|]|\s[-–]|\s\(|\s(?:is|was)\s|\s(?=(?-i:{MARK})))\s*(?:(?P<no>{REJECTED})|{CONFIRMED})\W*",
    re.IGNORECASE | re.DOTALL,
)

_YES_OR_NO = lazy_regex(
    r"(?P<label>.*\S)\s(?:(?P<no>no|nein|non|não|(?P<found>absent|negative|not\spresent)|0)|yes|ja|oui|sí|sim|1"
    r"|(?P<lost>present|positive))\W*",
    re.IGNORECASE,
)

# --- entries ----------------------------------------------------------------------------------------------------------

_PARENTHESIS = lazy_regex(r"(?<=[^\s,;])\s[(\[]([^()\[\]]*)[)\]]")
_ONLY_REJECTED = lazy_regex(rf"{REJECTED}\W*", re.IGNORECASE)
_REMARK = lazy_regex(r"\s?:\s|\s(?:--|[-–—→]|->|=>)\s")
_RANKING = lazy_regex(r"(?<!\S)(?:(?![^\W\d])\S)*+[^\W\d]\S*+\s(?:>>?|≫)\s[^\W\d]")
"""Labels in an order: which of them apply is not said."""
_CHAIN = lazy_regex(r"\s(--|->|→|=>|/|\+|\|\||~|@|:|[-–—])\s?(?=\S)|(\t)|(\\)")
_CUT = lazy_regex(
    r",?\s(?:rather\sthan|instead\sof|but\s(?:not|no)|because|since|due\sto|as\sevidenced)\s.*|;\s(?:evidence|reason|rationale)\s?:.*",
    re.IGNORECASE | re.DOTALL,
)
_NOT_LABEL = lazy_regex(
    r"[\s(\[]*(?:but\s|and\s)?(?:not|no|because|since|as(?!\swell)|due\sto|given|based\son|which)\s.*|\s*there\s(?:is|are)\sno\b.*"
    r"|.*\b(?:do|does)\snot\s(?:mention|see)\b.*|\s*(?:i\s(?:think|believe|guess)|obviously|clearly|thank\syou|end\sof\s\w+)\W*|.*\s(?:is|are|was|were)(?:\snot|n't)\b.*|.*\s(?:is|was|were|has\sbeen)\s(?:ruled\sout|excluded|absent|unlikely|denied)\W*"
    r"|\s*(?:i\scan(?:'t|not)|i'm\ssorry|sorry|i\sam\s(?:sorry|unable))\b.*",
    re.IGNORECASE | re.DOTALL,
)
_ADVERBS = lazy_regex(rf"\s*(?:{ADVERB}\b[,:]?\s*)+", re.IGNORECASE)
_LEAD_IN = lazy_regex(
    rf"\s*(?:based|according|the|this|these|those|there|it|he|she|they|i|we|my|our|its|all|three|two|from|her|his|that|after|mrs?|ms|chart|{SUBJECT})\b"
    rf"(?:(?!\b{VERB}\b).)*(?:\b{VERB}\b\s?(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_AFTER_VERB = lazy_regex(
    rf"(?:(?:also|both|would|should|could|likely|probably|been|known|able|treated|for|say|to|be|have|as|with|from|about|of|an?|the|this|it|following|(?:\w+\s)?history"
    rf"|{SUBJECT}|{NOUN}|{VERB}|\w+-year-old)\b:?\s*)*",
    re.IGNORECASE,
)
_SEPARATOR = lazy_regex(r"[,;\n、，；|•·]")
_DIVIDES_REFERENCE = lazy_regex(r"[,;\n]")
_AND = r"(?:and(?:\salso)?|&|as\swell\sas|along\swith|together\swith|plus|und|et|y|和)"
_AND_FIRST = lazy_regex(rf"(?:{_AND}|but)\s+(?=\S)", re.IGNORECASE)
_ONLY_AND = lazy_regex(_AND, re.IGNORECASE)
_JOINS = lazy_regex(rf"\s+{_AND}\s+|\s\+\s|\s?/\s?", re.IGNORECASE)
_ENDS_LIST = lazy_regex(rf"\s+{_AND}\s+", re.IGNORECASE)
_ORDINAL = lazy_regex(r"(?:(?:and\s)?(?:first|second|third|fourth|fifth|last)(?:ly)?,\s)", re.IGNORECASE)
_AFTER = lazy_regex(r"\s+only\Z", re.IGNORECASE)
_NO_LABEL = lazy_regex(
    r"(?:none|null|nil|n/?a|not\sapplicable|(?:there\s(?:are|is)\s)?(?:no|none\sof\sthe)\s(?:\w+\s){0,2}?"
    rf"(?:above|{NOUN})(?:\s(?:apply|applies|found|identified|present)(?:\s.*)?)?|there\sare\snone"
    r"|none(?:\sof\s(?:these|them))?(?:\s(?:apply|applies))?|nothing(?:\sapplies)?|unknown|unclear|not\smentioned)",
    re.IGNORECASE,
)
_TAG = lazy_regex(
    r"</?(?:labels?|categories|diagnos[ei]s|conditions|tags|list|br|li|ul|ol|p|final)\s?/?>", re.IGNORECASE
)
_AROUND = " \t\r*_`~@\"'“”‘’„[]{}<>⟨⟩#!?✅❌"
_PRIVATE = 0xE000  # first character for private use: each stands for a protected label


def read_labels(text: str, known: AbstractSet[str] = frozenset()) -> frozenset[str]:
    """Read the labels in `text`, in folded case. `known`: labels that are never divided, such as the reference's.

    >>> sorted(read_labels('Labels:\\n1. "Asthma"\\n2. **COPD**: a smoker.'))
    ['asthma', 'copd']
    """
    text = _TAG.sub("\n", before_next_task(text))
    given = labels_in_json(text, lambda value: read_labels(value, known))
    if given is not None:
        labels = {_bare(entry) for entry in given}
    else:
        protected = {chr(_PRIVATE + number): label for number, label in enumerate(sorted(known, key=len, reverse=True))}
        text = _protect(clean_text(_STATUS_HEADING.sub(r"\1:", text)), protected)
        labels = {_restore(_label(entry), protected) for entry in _entries(text, known | protected.keys())}
    return frozenset(label for label in labels if label and (label in known or not _NO_LABEL.fullmatch(label)))


def reference_labels(text: str) -> frozenset[str]:
    """Read the labels of a reference, in folded case: separated by commas, semicolons or line breaks.

    >>> sorted(reference_labels("Anxiety and depression; Asthma"))
    ['anxiety and depression', 'asthma']
    """
    return frozenset(label for entry in _DIVIDES_REFERENCE.split(text) if (label := _label(entry)))


def _protect(text: str, protected: Mapping[str, str]) -> str:
    """Replace each known label that could be divided by its character."""
    for sign, label in protected.items():
        if not label.replace(" ", "").isalnum() or _ENDS_LIST.search(label):
            spaced = r"\s+".join(map(re.escape, label.split()))
            text = re.sub(rf"(?<!\w){spaced}(?!\w)", sign, text, flags=re.IGNORECASE)
    return text


def _restore(label: str, protected: Mapping[str, str]) -> str:
    """Write the protected labels of an entry again."""
    return "".join(protected.get(sign, sign) for sign in label)


def _entries(text: str, known: AbstractSet[str]) -> Iterator[str]:
    """Yield the entries of the list in a text."""
    restarts = [match.end() for match in _RESTARTS.finditer(text)]
    text = text[restarts[-1] :] if restarts and text[restarts[-1] :].strip(" .:*_\n") else text
    heading = _LIST_HEADING.search(text)
    text = _REJECTING_START.sub("", text[heading.start() if heading else 0 :].strip())
    explanation = _EXPLANATION.search(text)
    text = text[: explanation.start()] if explanation and explanation.start() else text
    text = _INLINE_HEADING.sub("\n", text)
    text = "\n".join(map(_one_mark_a_line, text.split("\n")))
    statuses = _statuses(text, known)
    if statuses is not None:
        yield from statuses
        return
    for line in _lines(text, known):
        yield from _parts(line, known)


def _statuses(text: str, known: AbstractSet[str]) -> list[str] | None:
    """Return the labels that apply if every line or part is a label and yes or no; None otherwise."""
    lines = [_unmarked(line.strip().strip("|")) for line in text.splitlines() if line.strip()]
    lines = lines[2:] if len(lines) > 2 and _RULE.fullmatch(lines[1]) else lines
    if len(lines) == 1 and not _STATUS.fullmatch(lines[0].split(",")[0]):
        lines = re.split(r"[;,]\s", lines[0])
    elif len(lines) == 1:
        lines = re.split(r",\s", lines[0])
    if len(lines) == 1 and ". " in lines[0]:
        lines = lines[0].split(". ")
    found = [_STATUS.fullmatch(line) for line in lines]
    if None in found and len(lines) > 1:
        found = [_YES_OR_NO.fullmatch(line) for line in lines]
        kinds = {bool(status["no"]) for status in found if status}
        says_found = any(status and (status["found"] or status["lost"]) for status in found)
        if (len(kinds) == 1 and says_found) or any(_label(line) in known for line in lines):
            return None  # "HIV positive, HBV positive" may be labels
    if not found or None in found:
        return None
    return [status["label"].split("|")[0] for status in found if status and not status["no"]]


def _one_mark_a_line(line: str) -> str:
    """Return a line in which each of several marked labels is a line: "Sepsis ☑, Shock ☐"."""
    bare = _BULLET.sub("", line.strip().rstrip("."), count=1)
    marks = 0 if "|" in line else len(_ANY_MARK.findall(bare))
    if marks < 2:
        return line
    for pattern, divided in ((_NEXT_MARK, "\n"), (_AFTER_MARK, r"\1\n")):
        parts = [part for part in pattern.sub(divided, bare).split("\n") if part.strip()]
        if len(parts) == marks and all(_ANY_MARK.sub("", part).strip() for part in parts):
            return "\n".join(parts)
    return line


def _lines(text: str, known: AbstractSet[str]) -> Iterator[str]:
    """Yield the items of the list in a text, without headings, list marks, remarks and sentences."""
    lines = [line for line in text.split("\n") if line.strip() and not line.strip().endswith("?")]
    lines = _without_others(_table(lines), several=len(lines) > 1)
    numbered = len(lines) > 1 and all(_NUMBERED.match(line.strip()) for line in lines)
    marked = sum(_MARK.match(line.strip()) is not None for line in lines)
    single = len(lines) == 1
    for line in lines:
        bare = _NUMBERED.sub("", line.strip(), count=1) if numbered else line.strip()
        if bare.startswith("(") and bare.endswith(")") and bare.count("(") == 1:
            bare = bare[1:-1] if single else ""
        bare = _without_heading(bare, known, single=single)
        for item in _INLINE_NUMBER.split(_NEXT_SENTENCE.sub("", _PREDICATE.sub("", bare))):
            yield from _without_remark(item, known, listed=marked > 0 and not single)


def _table(lines: list[str]) -> list[str]:
    """Return the lines of a text, the rows of a table as their labels."""
    rule = next((number for number, line in enumerate(lines) if "|" in line and _RULE.fullmatch(line.strip())), None)
    if rule is None:
        rows = [line for line in lines if line.strip().startswith("|")]
        return [
            _cell(line) if line in rows and len(rows) > 1 else line.strip().strip("|") if line in rows else line
            for line in lines
        ]
    return [_cell(line) if "|" in line else line for line in (*lines[: max(rule - 1, 0)], *lines[rule + 1 :])]


def _cell(row: str) -> str:
    """Return the label of a row of a table: its first cell that is no number; "" if another cell rejects it."""
    cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
    if any(_ONLY_REJECTED.fullmatch(cell) for cell in cells[1:]):
        return ""
    return next((cell for cell in cells if not cell.isdigit()), "")


def _without_others(lines: Sequence[str], *, several: bool) -> list[str]:
    """Return the lines of a list: not rejected ones, remarks under an entry, rules, and sentences beside the list."""
    kept, rejecting = [], False
    for line in lines:
        bare = line.strip()
        ends = rejecting and not _MARK.match(bare)
        rejecting = _REJECTS_ALL.match(bare) is not None or (rejecting and not ends)
        if rejecting or _RULE.fullmatch(bare) or _UNCHECKED.match(bare) or _ONLY_NOUN.fullmatch(bare):
            continue
        if several and (bare.endswith(":") or _UNCHECKED.search(bare) or _REJECTING_SENTENCE.search(bare)):
            continue
        kept.append(line)
    listed = [line for line in kept if several and not _SENTENCE.fullmatch(line.strip())]
    if not listed:
        named = [line for line in kept if re.search(rf"\b{NOUN}\b", line, re.IGNORECASE)]
        return (named or kept)[:1]
    marks = [_MARK.match(line.strip()) is not None for line in listed]
    marks[0] |= marks.count(False) == 1  # `clean_text` removes the first mark
    indent = min((_indent(line) for line, mark in zip(listed[1:], marks[1:], strict=True) if mark), default=99)
    if marks.count(False) > 1 and not marks[0] and any(marks):
        return [line for line, mark in zip(listed, marks, strict=True) if not mark]
    if marks[0] and marks.count(True) > 1:
        return [line for line, mark in zip(listed, marks, strict=True) if mark and _indent(line) <= indent]
    return listed


def _indent(line: str) -> int:
    """Return the white space at the beginning of a line, in characters."""
    return len(line) - len(line.lstrip())


def _unmarked(item: str) -> str:
    """Return an item without its list mark."""
    mark = _MARK.match(item)
    return item[mark.end() :] if mark and mark.end() < len(item) else item


def _without_heading(line: str, known: AbstractSet[str], *, single: bool) -> str:
    """Return a line without a heading such as "Labels:".

    `single`: there is no other line; then anything before a colon and a list is a heading.
    """
    first = _NOUN_FIRST.match(line)
    line = line[first.end() :] if first else line
    before, colon, after = line.partition(":")
    if not colon or _label(before) in known or not after.strip():
        return line
    is_heading = _NOUN_HEADING.fullmatch(before) or _SHORT_HEADING.fullmatch(before) or _LEAD_IN.fullmatch(before)
    lists = single and _SEPARATOR.search(after) and not _SEPARATOR.search(before) and ":" not in after
    return _without_heading(after.strip(), known, single=single) if is_heading or lists else line


def _without_remark(item: str, known: AbstractSet[str], *, listed: bool) -> Iterator[str]:
    """Yield an item without its list mark and what is said about it; nothing if it is rejected.

    `listed`: it is one of several with list marks, so that it names one label.
    """
    item = _unmarked(item)
    if known:
        parts = _SEPARATOR.split(_PARENTHESIS.sub(lambda found: _SEPARATOR.sub(" ", found[0]), item))
        kept = [part for part in parts if not _is_rejected(part)]
        item = (
            _PARENTHESIS.sub("", item)
            if len(kept) == len(parts)
            else ", ".join(_PARENTHESIS.sub("", part) for part in kept)
        )
    reasons = item.split(";")
    item = ";".join(_CUT.sub("", part) for part in reasons) if all(map(_CUT.search, reasons)) else _CUT.sub("", item)
    if listed:  # "- Asthma. Wheezing.", "- Asthma, on steroids", "- Asthma | wheezing"
        item = item.split(" | ")[0]
        item = re.split(r"(?<=\w{4})\.\s", item, maxsplit=1)[0]
        item = re.split(r",\s(?=[a-z])", item, maxsplit=1)[0] if item[:1].isupper() and ", and " not in item else item
    pieces = item.split(";") if item.count(": ") > 1 and item.count(": ") == item.count(";") + 1 else [item]
    for piece in pieces:
        remark = _REMARK.search(piece)
        if remark and not _SEPARATOR.search(piece[: remark.start()]) and not _is_chain(piece):
            if re.match(REJECTED, piece[remark.end() :], re.IGNORECASE):
                continue
            piece = piece[: remark.start()]
        if piece.strip():
            yield piece


def _is_chain(item: str) -> bool:
    """Return True if the same sign, such as " > ", divides an item at least twice, or a tab does."""
    signs = [match[1] or match[2] or match[3] for match in _CHAIN.finditer(item)]
    return len(signs) > 1 and len(set(signs)) == 1


def _is_rejected(entry: str) -> bool:
    """Return True if a remark in parentheses rejects an entry."""
    remark = _PARENTHESIS.search(entry)
    return remark is not None and re.match(REJECTED, remark[1], re.IGNORECASE) is not None


def _parts(item: str, known: AbstractSet[str]) -> Iterable[str]:
    """Divide an item into labels."""
    item = _ORDINAL.sub("", _ADVERBS.sub("", item, count=1) if _ADVERBS.match(item) else item)
    item = _AFTER.sub("", item)
    if _RANKING.search(item):
        return []
    if _is_chain(item) and not _SEPARATOR.search(item):
        return _CHAIN.sub("\n", item).split("\n")
    if item.count(". ") > 1 and all(
        len(piece) > len("St.") and piece[:1].isupper() for piece in item.rstrip(".").split(". ")
    ):
        return item.split(". ")
    parts = [part for part in _SEPARATOR.split(item) if not _NOT_LABEL.fullmatch(part)]
    parts = [part if _label(part) in known else _without_lead_in(part) for part in parts]
    parts = [part for part in parts if part.strip()]
    if len(parts) > 1:
        last = parts[-1].strip()
        parts = [*parts[:-1], *([last] if _AND_FIRST.match(last) else _ENDS_LIST.split(last))]
    return [entry for part in parts for entry in _joined(part, known)]


def _joined(part: str, known: AbstractSet[str]) -> list[str]:
    """Return the parts joined by "and" or a slash if one of them is a known label, else the whole."""
    joined = [entry for entry in _JOINS.split(part) if entry.strip()]
    return joined if any(_label(entry) in known for entry in joined) else [part]


def _without_lead_in(part: str) -> str:
    """Return the end of a sentence that names labels: after "The patient has a history of"; "" if it has no verb."""
    bare = _ADVERBS.sub("", part, count=1) if _ADVERBS.match(part) else part
    lead_in = _LEAD_IN.fullmatch(bare)
    if lead_in is None:
        return bare
    rest = lead_in["rest"] or ""
    after = _AFTER_VERB.match(rest)
    return rest[after.end() :] if after else rest


def _label(entry: str) -> str:
    """Return an entry without list marks, "and" and what surrounds it; "" if nothing else is left."""
    bare = entry.strip(_AROUND)
    for prefix in (_MARK, _AND_FIRST, _MARK):
        match = prefix.match(bare)
        if match and match.end() < len(bare):
            bare = bare[match.end() :].strip(_AROUND)
    return "" if _ONLY_AND.fullmatch(bare) else _bare(bare)


def _bare(entry: str) -> str:
    """Return an entry in folded case without what surrounds it; "" if it holds no letter or digit."""
    if entry.strip().startswith("(") and entry.strip().endswith(")"):
        entry = entry.strip()[1:-1]
    label = " ".join(strip_wrapping(entry.strip(_AROUND)).strip(_AROUND).casefold().split())
    return label if any(sign.isalnum() or ord(sign) >= _PRIVATE for sign in label) else ""


# --- JSON -------------------------------------------------------------------------------------------------------------
# Read labels from JSON: a list of texts or of objects, an object with yes or no for each label, or a named list.

_BEGINS_JSON = lazy_regex(r"[\[{]\s*[\"{\[]|\[\]|\{\}")
_PYTHON = lazy_regex(r"[\[{]\s*'")
_ENTRY_KEYS = (
    *("label", "name", "diagnosis", "condition", "category", "class", "tag", "topic", "problem", "symptom", "finding"),
)
_NAMES_LABELS = lazy_regex(rf"{NOUN}(?:\spresent|\s?\d+)?\Z", re.IGNORECASE)
_NAMES_OTHERS = lazy_regex(r"\b(?:absent|excluded|rejected|negative|not)\b", re.IGNORECASE)
_YES = (True, 1, "1", "yes", "true", "present", "positive")
_NO = (False, 0, "0", "no", "false", "absent", "negative", None)


def labels_in_json(text: str, read: Callable[[str], Collection[str]]) -> list[str] | None:
    """Return the labels of the first JSON document in `text` that has any place for them; None without one.

    `read` reads a text with several labels.
    """
    if '"' not in text and _PYTHON.search(text):
        text = text.replace("'", '"')
    decoder = json.JSONDecoder(strict=False)
    at = 0
    while (found := _BEGINS_JSON.search(text, at)) is not None:
        try:
            document, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            return None
        labels = _labels(document, read)
        if labels is not None:
            return labels
    return None


def _labels(document: Any, read: Callable[[str], Collection[str]]) -> list[str] | None:
    """Return the labels of a JSON value; None if it holds none in an obvious place."""
    if isinstance(document, str):
        return sorted(read(document))
    if isinstance(document, list):
        entries = [_entry(element) for element in document]
        return None if None in entries else [entry for entry in entries if entry]
    if not isinstance(document, dict) or not document:
        return None if document else []
    values = list(document.values())
    if all(isinstance(value, (bool, int, float)) or value in _NO or value in _YES for value in values):
        return [key for key, value in document.items() if value not in _NO]
    if all(isinstance(value, dict) and "present" in value for value in values):
        return [key for key, value in document.items() if value["present"] not in _NO]
    if all(len(key) < 3 and isinstance(value, str) for key, value in document.items()):
        return values
    named = [
        value
        for key, value in document.items()
        if _NAMES_LABELS.search(key.replace("_", " ")) and not _NAMES_OTHERS.search(key.replace("_", " "))
    ]
    found = [_labels(value, read) for value in named or values[: len(values) == 1]]
    lists = [labels for labels in found if labels is not None]
    return [label for labels in lists for label in labels] if lists else None


def _entry(element: Any) -> str | None:
    """Return the label of one element of a list, "" if it does not apply; None without one."""
    if isinstance(element, list) and len(element) == 1:
        element = element[0]
    if isinstance(element, dict):
        if element.get("present") in _NO and "present" in element:
            return ""
        keys = [key for key in element if key.lower() in _ENTRY_KEYS] or list(element)[: len(element) == 1]
        element = element[keys[0]] if keys else None
    return element if isinstance(element, str) else None


# --- empty list -------------------------------------------------------------------------------------------------------
# Recognize the answer that a list is empty, such as "None." or "No codes apply.", which is an answer like others.

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
