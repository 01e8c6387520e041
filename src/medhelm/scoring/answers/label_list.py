"""Read the labels that a completion names.

What surrounds a list is left out: reasoning, tags, a heading or lead-in such as "The labels are:", list marks, table
rules, emphasis, explanations after it, and what is said about each entry ("**Asthma**: wheezing"). Entries that the
completion rejects ("Stroke: absent") are left out too. Words such as "none" are no label.

The same words may be one label or two: "anxiety and depression", "nausea/vomiting", "cancer: lung". Labels of the
reference are never divided. Other text with "and" or a slash is one label, unless a part of it is a label of the
reference, or commas show that it is the end of a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.answer_text import clean_text
from medhelm.scoring.answers.plain_text import strip_reasoning, strip_wrapping

_NOUN = (
    r"(?:labels?|diagnos[ei]s|conditions|categor(?:y|ies)|class(?:es)?|tags?|topics?|findings|symptoms|problems?"
    r"|predictions?|answers?|outputs?|results?|responses?|list|options?|comorbidities|medical\shistory|impression"
    r"|assessment|disorders|diseases|codes?|dx)"
)
_VERBS = (
    r"(?:has|have|had|mentions?|shows?|describes?|presents\swith|suffers\sfrom|includes?|contains?|discusses|documents"
    r"|supports?|indicates|suggests|(?:is|was)\s(?:about|diagnosed\swith)|(?:should|can|could)\sbe\s\w+ed(?:\sas)?)"
)
_SUBJECT = r"(?:patient|note|text|case|document|report|record|person|man|woman|child|summary)"
_ACCORDING = r"(?:(?:based\son|according\sto)\s[^,:\n]{1,60},\s)?"
_WORD = r"[^\s:,;.|]+"
_HEADING = lazy_regex(
    # a line, or a sentence, that begins with a heading and a colon
    rf"(?:^[ \t#>_\"]*|(?<=[.!]\s)(?=final|correct))(?:\w+!?[,!.]\s)?{_ACCORDING}(?:{_WORD}\ ){{0,9}}?{_NOUN}(?:\(s\))?"
    rf"(?:\s\d{{1,2}})?(?:\s{_WORD}){{0,3}}?(?:\s\([^()\n]*\))?"
    r"[_\"]*(?:\s(?:are|is|include|apply|applies)(?:\sas\sfollows)?)?\s?:[ \t]*"
    rf"|^[ \t]*(?:\w+\ )?{_NOUN}\s(?:=|->|→|=>|[-–—])\s"
    # the beginning of a sentence that goes on with the labels
    rf"|^[ \t]*(?:(?:sure|certainly|so|therefore|thus|i\sthink|i\sbelieve|yes)[,!:]?\s)?{_ACCORDING}"
    rf"(?:(?:the|these|this|my|all|its|i)\s(?:{_WORD}\s){{0,6}}?{_NOUN}(?:\sthat\sapply|\sthat\sapplies)?"
    r"\s(?:is|are|include|would\sbe)"
    rf"|(?:the|this)\s(?:{_WORD}\s){{0,6}}?{_SUBJECT}\s(?:{_VERBS})|(?:he|she|they)\s(?:{_VERBS})|(?:it|this)\sis"
    r"|i(?:'d|\swould)?\s(?:assign|choose|select|predict|label|classify)(?:\s(?:this|it)(?:\sas)?)?"
    r"(?:\sthe\sfollowing(?:\slabels)?)?|i\s(?:think|believe)|yes:)(?!\w)\s?:?[ \t]*"
    # a line with nothing else
    rf"|^[ \t]*#*[ \t]*(?:\w+\ ){{0,2}}{_NOUN}[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_PREDICATE = lazy_regex(
    rf",?\s(?:(?:all|both)\s)?(?:apply|applies|(?:is|are)\s(?:all\s|both\s)?(?:present|documented|the\s(?:\w+\s)?{_NOUN}))\W*$"
    r"|\s[-–—]\s(?:all|these|both|each|as|since|because)\b.*$",
    re.IGNORECASE,
)
_FINAL = lazy_regex(r"\b(?:final|correct(?:ed)?|revised|updated|answers?)\b", re.IGNORECASE)
_RETRACTION = lazy_regex(
    r"^\W*(?:wait|actually|correction|on\s(?:second\sthought|reflection))\b[^:\n]{0,30}:", re.IGNORECASE | re.MULTILINE
)
_REJECTED = (
    r"(?:absent|negative|excluded|unlikely|denied|rejected|ruled\sout|n/a|false|none|no(?=\W*$|[,;.])|0(?![.\d%])"
    r"|not\s(?:present|applicable|documented|mentioned|found|seen|supported|included|selected|indicated|active|assigned|\w+ed)"
    r"|❌|✗|✘)"
)
_REJECTS_ALL = lazy_regex(rf"^\W*(?:\w+\s)?{_REJECTED}[^:\n]*:|^\W*considered\b[^:\n]*:", re.IGNORECASE)
_CONFIRMED = r"(?:yes|true|1(?![.\d%])|present|positive|✅|✓|✔)"
_CONFIRMS_ALL = lazy_regex(rf"^{_CONFIRMED}\s?:\s", re.IGNORECASE)
_STATUS = lazy_regex(rf"(?P<label>.*?\S)\s?[:=]\s?(?:(?P<no>{_REJECTED})|{_CONFIRMED})\W*", re.IGNORECASE | re.DOTALL)
_EXPLANATION = lazy_regex(
    r"^\W*(?:explanations?|rationales?|reason(?:s|ing)?|notes?|justification|evidence|comments?|remarks?|disclaimer|confidence|why|(?:supporting|key|clinical)\sevidence)"
    r"\b\W*(?::|$)",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE_BEGINS = (
    r"(?:The|This|These|Those|There|He|She|They|It|All|Both|Let|I|We|You|If|Please|Patient|Because|Since|As|In|Based"
    r"|Hope)\b"
)
_SENTENCE = lazy_regex(rf"\W*{_SENTENCE_BEGINS}(?:\s+\S+){{2,}}.*[.!?:]\W*")
_NEXT_SENTENCE = lazy_regex(rf"[.!]\s+(?={_SENTENCE_BEGINS}|[A-Z][^.,;]*\s(?:is|are|was|were|has|have)\b).*", re.DOTALL)
_REJECTING_SENTENCE = lazy_regex(rf"\b(?:is|was|are|were)\s(?:\w+ly\s)?{_REJECTED}", re.IGNORECASE)
_RULE = lazy_regex(r"\|?[\s:|-]*---[\s:|-]*")
_MARK = lazy_regex(
    r"(?:[-*–—+◦▪●‣→>~▸■►➤⁃]\s|[•✅✓✔☑①-⑳]\s?|-(?=[A-Za-z])|\[[xX]\]\s|#\d{1,3}\s|\d\u20e3\s?|\d{1,2}\s[-–—]\s"
    r"|\d{1,2}\.(?=[A-Za-z])|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})\\?[.):]\s)+"
)
_ORDINAL = lazy_regex(r"(?:(?:and\s)?(?:first|second|third|fourth|fifth|last)(?:ly)?,\s)", re.IGNORECASE)
_NUMBERED = lazy_regex(r"\d{1,2}\s(?=\S)")
_UNCHECKED = lazy_regex(r"(?:[-*+]\s)?\[\s?\]\s|(?:❌|✗|✘|☐)")
_INLINE_NUMBER = lazy_regex(r"\s(?=\(?\d{1,2}[.)]\s)")
_PARENTHESIS = lazy_regex(r"(?<=[^\s,;])\s[(\[]([^()\[\]]*)[)\]]")
_REMARK = lazy_regex(r"\s?:\s|\s(?:[-–—→]|->|=>)\s")
_CHAIN = lazy_regex(r"\s(--|->|→|=>|>|/|\+|\|\||[-–—])\s|(\t)")
_NOT_LABEL = lazy_regex(
    r"\s*(?:but\s|and\s)?(?:not|no|because|since|as(?!\swell)|due\sto|given|based\son|which)\s.*"
    r"|\s*(?:i\scan(?:'t|not)|i'm\ssorry|sorry|i\sam\s(?:sorry|unable))\b.*",
    re.IGNORECASE | re.DOTALL,
)
_INSTEAD = lazy_regex(r",?\s(?:rather\sthan|instead\sof|but\snot)\s.*", re.IGNORECASE | re.DOTALL)
_SEPARATOR = lazy_regex(r"[,;\n、，；|•·]")
_DIVIDES_REFERENCE = lazy_regex(r"[,;\n]")
_AND = r"(?:and(?:\salso)?|&|as\swell\sas|along\swith|together\swith|plus|und|et|y|和)"
_AND_FIRST = lazy_regex(rf"{_AND}\s+(?=\S)", re.IGNORECASE)
_ONLY_AND = lazy_regex(_AND, re.IGNORECASE)
_JOINS = lazy_regex(rf"\s+{_AND}\s+|\s\+\s|\s?/\s?", re.IGNORECASE)
_ENDS_LIST = lazy_regex(rf"\s+{_AND}\s+", re.IGNORECASE)
_BEFORE = lazy_regex(r"(?:both|only|just)\s+", re.IGNORECASE)
_AFTER = lazy_regex(r"\s+only\Z", re.IGNORECASE)
_NO_LABEL = lazy_regex(
    r"(?:none|null|nil|n/?a|not\sapplicable|(?:there\s(?:are|is)\s)?(?:no|none\sof\sthe)\s(?:\w+\s){0,2}?"
    rf"(?:above|{_NOUN})(?:\s(?:apply|applies|found|identified|present)(?:\s.*)?)?|there\sare\snone"
    r"|none(?:\sof\s(?:these|them))?(?:\s(?:apply|applies))?|nothing(?:\sapplies)?)",
    re.IGNORECASE,
)
_TAG = lazy_regex(r"</?(?:labels?|categories|diagnos[ei]s|tags|list|br|li|ul|ol|p|final)\s?/?>", re.IGNORECASE)
_ENTRY_KEYS = (
    "label",
    "name",
    "diagnosis",
    "condition",
    "category",
    "class",
    "tag",
    "topic",
    "problem",
    "symptom",
    "finding",
)
_NAMES_LABELS = lazy_regex(rf"{_NOUN}(?:\spresent)?\Z", re.IGNORECASE)
_PYTHON = lazy_regex(r"[\[{]\s*'")
_YES = (True, 1, "1", "yes", "true", "present", "positive")
_YES_OR_NO = (*_YES, False, 0, "0", "no", "false", "absent", "negative", None)
_AROUND = " \t\r*_`\"'“”‘’[]{}<>#!?✅❌"
_PRIVATE = 0xE000  # first character for private use: each stands for a protected label


def read_labels(text: str, known: AbstractSet[str] = frozenset()) -> frozenset[str]:
    """Read the labels in `text`, in folded case. `known`: labels that are never divided, such as the reference's.

    >>> sorted(read_labels('Labels:\\n1. "Asthma"\\n2. **COPD**: a smoker.'))
    ['asthma', 'copd']
    """
    text = _TAG.sub("\n", strip_reasoning(text))
    given = _json_entries(text)
    if given is not None:
        labels = {_bare(entry) for entry in given}
    else:
        protected = {chr(_PRIVATE + number): label for number, label in enumerate(sorted(known, key=len, reverse=True))}
        text = _protect(clean_text(text), protected)
        entries = (part for line in _lines(text, known) for part in _parts(line, known | protected.keys()))
        labels = {_restore(_label(entry), protected) for entry in entries}
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


def _json_entries(text: str) -> list[str] | None:
    """Return the entries of a JSON document in `text`; None without one."""
    if '"' not in text and _PYTHON.search(text):
        text = text.replace("'", '"')
    decoder = json.JSONDecoder(strict=False)
    at = 0
    while (found := re.compile(r"[\[{]\s*[\"{\[]|\[\]|\{\}").search(text, at)) is not None:
        try:
            document, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            return None
        entries = _entries(document)
        if entries is not None:
            return entries
    return None


def _entries(document: Any) -> list[str] | None:
    """Return the labels of a JSON value; None if it holds none in an obvious place."""
    if isinstance(document, list):
        found = [_entry(element) for element in document]
        return None if None in found else [entry for entry in found if entry is not None]
    if not isinstance(document, dict) or not document:
        return None
    values = list(document.values())
    if not any(isinstance(value, (list, dict)) for value in values) and all(value in _YES_OR_NO for value in values):
        return [key for key, value in document.items() if value in _YES]
    named = [value for key, value in document.items() if _NAMES_LABELS.search(key.replace("_", " "))]
    for value in named or values[: len(values) == 1]:
        entries = sorted(read_labels(value)) if isinstance(value, str) else _entries(value)
        if entries is not None:
            return entries
    return None


def _entry(element: Any) -> str | None:
    """Return the label of one element of a JSON list; None without one."""
    if isinstance(element, dict):
        keys = [key for key in element if key.lower() in _ENTRY_KEYS] or list(element)[: len(element) == 1]
        element = element[keys[0]] if keys else None
    return element if isinstance(element, str) else None


def _lines(text: str, known: AbstractSet[str]) -> Iterator[str]:
    """Yield the lines of the list in a text, without headings, list marks, remarks and explanations."""
    lines = [line for line in _section(text, known).split("\n") if not line.strip().endswith("?")]
    filled = [line.strip() for line in lines if line.strip()]
    several = len(filled) > 1
    numbered = several and all(map(_NUMBERED.match, filled))
    header = next((number for number, line in enumerate(lines) if "|" in line and _RULE.fullmatch(line.strip())), 0) - 1
    indent = min((len(line) - len(line.lstrip()) for line in lines[1:] if _MARK.match(line.lstrip())), default=99)
    rejecting = False
    for number, line in enumerate(lines):
        bare = line.strip()
        rejecting = bool(bare) and (rejecting or _REJECTS_ALL.match(bare) is not None)
        nested = len(line) - len(line.lstrip()) > indent
        if not bare or rejecting or nested or number == header or _is_remark(bare, several=several):
            continue
        if bare.startswith("|"):
            bare = _cell(bare)
        elif bare.startswith("(") and bare.endswith(")") and bare.count("(") == 1:
            bare = bare[1:-1]
        bare = _NUMBERED.sub("", bare, count=1) if numbered else _CONFIRMS_ALL.sub("", bare)
        for item in _INLINE_NUMBER.split(_NEXT_SENTENCE.sub("", _PREDICATE.sub("", bare))):
            yield from _without_remark(item, known)


def _is_remark(line: str, *, several: bool) -> bool:
    """Return True for a line of a list without a label: a rule, an unchecked box, a sentence, "Here they are:"."""
    if _RULE.fullmatch(line) or _UNCHECKED.match(line):
        return True
    if not several:
        return _SENTENCE.fullmatch(line) is not None and _REJECTING_SENTENCE.search(line) is not None
    return (
        line.endswith(":")
        or _SENTENCE.fullmatch(line) is not None
        or _REJECTING_SENTENCE.search(line) is not None
        or _UNCHECKED.search(line) is not None
    )


def _cell(row: str) -> str:
    """Return the label of a row of a table: its first cell that is no number; "" if another cell rejects it."""
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    if any(re.fullmatch(_REJECTED, cell, re.IGNORECASE) for cell in cells[1:]):
        return ""
    return next((cell for cell in cells if not cell.isdigit()), "")


def _section(text: str, known: AbstractSet[str]) -> str:
    """Return the part of a text with the labels: after the lead-in, before the explanation."""
    retracted = [match.end() for match in _RETRACTION.finditer(text)]
    text = text[retracted[-1] :] if retracted else text
    headings = list(_HEADING.finditer(text))
    final = [heading for heading in headings if _FINAL.search(heading[0])]
    if headings:
        start = final[-1] if final else headings[0]
        text = _HEADING.sub("\n", text[start.start() :])
    text = text.strip("\n")
    explanation = _EXPLANATION.search(text)
    text = text[: explanation.start()] if explanation and explanation.start() else text
    before, colon, after = text.strip().partition(": ")
    if colon and "\n" not in text.strip() and _SEPARATOR.search(after) and not _SEPARATOR.search(before):
        heading = _label(before)  # "Comorbidities: asthma, COPD", but "Asthma: wheezing, cough" where that is a label
        if heading not in known and not _STATUS.fullmatch(text.split(",")[0]):
            return after
    return text


def _without_remark(item: str, known: AbstractSet[str]) -> Iterator[str]:
    """Yield an item without its list mark and what is said about it; nothing if it is rejected."""
    mark = _MARK.match(item)
    item = item[mark.end() :] if mark and mark.end() < len(item) else item
    parts = [_STATUS.fullmatch(part) for part in item.split(",")]
    if all(parts):
        yield from (part["label"] for part in parts if part and not part["no"])
        return
    if known:
        rejected = [
            entry for entry in _SEPARATOR.split(_PARENTHESIS.sub(_hide_separators, item)) if _is_rejected(entry)
        ]
        item = _PARENTHESIS.sub("", item) if not rejected else ""
    item = _INSTEAD.sub("", item)
    remark = _REMARK.search(item)
    if remark and not _SEPARATOR.search(item[: remark.start()]) and not _is_chain(item):
        if re.match(_REJECTED, item[remark.end() :], re.IGNORECASE):
            return
        item = item[: remark.start()]
    if item:
        yield item


def _is_chain(item: str) -> bool:
    """Return True if the same sign, such as " > ", divides an item at least twice, or a tab does."""
    signs = [match[1] or match[2] for match in _CHAIN.finditer(item)]
    return len(signs) > 1 and len(set(signs)) == 1


def _hide_separators(parenthesis: re.Match[str]) -> str:
    """Return a remark in parentheses without separators."""
    return _SEPARATOR.sub(" ", parenthesis[0])


def _is_rejected(entry: str) -> bool:
    """Return True if a remark in parentheses rejects an entry."""
    remark = _PARENTHESIS.search(entry)
    return remark is not None and re.match(_REJECTED, remark[1], re.IGNORECASE) is not None


def _parts(item: str, known: AbstractSet[str]) -> Iterable[str]:
    """Divide an item into labels."""
    before = _BEFORE.match(item)
    item = _AFTER.sub("", item[before.end() :] if before else item)
    if _is_chain(item) and not _SEPARATOR.search(item):
        return _CHAIN.sub("\n", item).split("\n")
    item = _ORDINAL.sub("", item)
    parts = [part for part in _SEPARATOR.split(item) if part.strip() and not _NOT_LABEL.fullmatch(part)]
    if len(parts) > 1:
        last = parts[-1].strip()
        first = _AND_FIRST.match(last)
        return [*parts[:-1], *([last] if first else _ENDS_LIST.split(last))]
    joined = [part for part in _JOINS.split(" ".join(parts)) if part.strip()]
    return joined if any(_label(part) in known for part in joined) else parts


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
