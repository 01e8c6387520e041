"""Read whether a completion finds an error in a note of numbered sentences, and in which of them.

In these steps, the first that gives a judgment:

1. fields such as "error flag: 0", also of a JSON object;
2. what follows the last "Answer:" or a retraction such as "Wait,", or the beginning of the text: CORRECT, the number of
   a sentence, or "incorrect" and then the number;
3. a last line that is CORRECT;
4. the statements of all sentences. Those with a number are about that sentence, the others about the whole note.
   "The text is correct, except sentence 5" finds an error. Other contradictions give no judgment, unless the last
   statement is a conclusion.

A sentence of the note may be quoted instead of numbered. Two wrong sentences count as none, since one is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.number import ONES
from medhelm.scoring.answers.text import before_next_task, clean_text


class ErrorJudgment(NamedTuple):
    """The judgment of a note."""

    error: bool | None
    """True if the note has an error; None if no judgment can be read."""
    sentence: int | None = None
    """Number of the wrong sentence; None unless exactly one is named."""


_UNREAD = ErrorJudgment(None)
_FINE_JUDGMENT = ErrorJudgment(False)

# --- the text ---------------------------------------------------------------------------------------------------------

_FIELD = lazy_regex(r"[,{\[]\s*[\"']([A-Za-z][\w -]{0,40})[\"']\s?:")
_TAG_FIELD = lazy_regex(r"<(\w{0,20}(?:error|flag|sentence|line|correct)\w{0,20})>([^<>]{0,500})</\1>", re.IGNORECASE)
_WORD_INSIDE = lazy_regex(r"(?<=[a-z])(?=[A-Z])|_")
_QUOTES = str.maketrans("“”‘’", "\"\"''")
_PLAIN = str.maketrans(dict.fromkeys('*_`"{}[]|#✅✔✓☑❌✗✘⚠➡⚕\ufe0f', " "))
_MARKS = lazy_regex(r"(?:(?:[=-]>|<(?=\d)|>(?=\s?\w)|[-–](?!\d)|[^\w\s<>=≥≤+.–-])\s?)+(?=\S)")
_NOTE_LINE = lazy_regex(r"^(\d{1,3})\s(.*)$", re.MULTILINE)
_SHORTEST_QUOTE, _SHORTEST_IN_MARKS = 20, 8
"""Characters of a sentence of the note that is recognized without and with quotation marks."""
_BEFORE_ARROW = lazy_regex(r"(?<=\d)\s+(?=(?:[-=]>|→)\s)")
_QUOTED_ID = lazy_regex(r"\bQuoted sentence (\d{1,3})\b")
_QUOTATION = lazy_regex(
    r"(\b(?:be|read|say|state|to|with|by|as|not|than|of|sentence\s\d{1,3})\s?:?\s)\"(?!\d{1,3}\s)[^\"\n]*\s[^\"\n]*\""
)
_NEW_TEXT = lazy_regex(
    r"\b((?:(?:should|must|ought\sto|to)\s(?:be|read|say|state)|with|correct(?:ed|ion)(?:\s\w+){0,3}?)\s?:)"
    r"\s(?!(?:sentence\s)?\d{1,3}\b).*$"
    r"|(?:^|(?<=[.:!]\s))(\d{1,3}[.:)]?)\s(?=\W?(?-i:[A-Z]))"
    r"(?!\W?(?:in|not\s)?(?:correct|accurate|wrong|errors?|erroneous|fine|ok|no\serror|quoted)\b).*$",
    re.IGNORECASE | re.MULTILINE,
)

# --- the beginning, or after "Answer:" --------------------------------------------------------------------------------

_CUE = lazy_regex(
    r"(?:(?:^|(?<=[.!?])\ |(?<=[:=]\ )|(?<=[:=]))(?:(?:so|thus|therefore|hence|and|sure|certainly)[,!:]?\ )?"
    r"(?:here(?:'s|\ is)\ )?(?:(?:the|my)\ )?(?:final\ |correct\ |overall\ )?"
    r"(?:answer|output|verdict|response|result|decision|correction|corrected|conclusion|judge?ment|assessment|status|a)"
    r"\s?(?:is\b|[:=]|\n|[-–—]\ )\s?:?\s?)+"
    r"|^(?:\w+(?:\s\w+)?\s?:|(?:ok|okay|fine|yes|sure)[,.])\s(?=(?-i:CORRECT)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_RETRACTION = lazy_regex(
    r"\b(?:wait|actually|on\s(?:second\sthought|reflection)|scratch\sthat|let\sme\s(?:reconsider|correct\smyself))\b"
    r"[\s,.:;!–—-]*(?:no\b[\s,.:;–—-]*)?",
    re.IGNORECASE,
)
_EXCEPT_FOR = (
    r"(?:except|apart\sfrom|aside\sfrom|other\sthan|with\sthe\sexception|besides|barring|excluding"
    r"|(?:but|save)(?:\sfor)?\s(?:sentence|line))"
)
_TAKES_BACK = lazy_regex(
    r"\b(?:(?:wait|actually)[\s,.:;!–—-]+no\b|scratch\sthat|on\s(?:second\sthought|reflection)|let\sme\scorrect\smyself)"
    r"[\s,.:;–—-]*(?![^.\n]{0,120}\b(?:also|too|both)\b)",
    re.IGNORECASE,
)
_FINE = lazy_regex(
    rf"(?:(?!(?i:correct\W{{1,3}}{_EXCEPT_FOR}\b))(?:"
    r"CORRECT\b(?!\s?(?:sentence|answer|version|text\b|id\b|or\b|to\b|if\b|/)|\s?:\s?\d|\s?\?)"
    r"|(?i:correct)\s?(?:$|[.!,;(—–]|-\s|--|:\s?(?:the|no|all|this|there)\b)))"
    r"|(?i:no)\s(?:(?i:medical|clinical|factual)\s)?(?i:errors?)\b(?!\s?(?i:,|except|but|apart|other|in\ssentence))",
    re.MULTILINE,
)
_SENTENCE = r"(?:sentence|line)s?(?:\s(?:with|at))?(?:\s(?:id|no\.?|number|index))?|\bS(?=\d)|id"
_LINK = r"\s?(?:(?:is|was)\b|[:=→])?\s?:?\s?(?:sentence\s|number\s|no\.\s)?"
_NUMBER = (
    r"\(?(?P<id>\d{1,3})\b[)>]?(?![/%°]|[.,]\d|\ ?[-–]\ ?\d|\ \d+\ \d|\ (?:or|and|to)\s\d"
    r"|\ (?:errors?|mistakes?|sentences?|issues?|problems?|corrections?|out\sof|of\sthe|days?|weeks?"
    r"|months?|years?|hours?|mg|mm|ml|mcg|times|(?:is|are)\s(?:correct|accurate|fine|right|ok(?:ay)?))\b)"
)
_BARE = lazy_regex(rf"(?:(?:no\.?|number)\s)?{_NUMBER}", re.IGNORECASE)
_NAMED = lazy_regex(
    r"(?:(?:error|mistake|issue|problem)\s?:?\s(?:in\s|at\s)?|(?:wrong|incorrect|erroneous|corrected|correct|the)\s"
    rf"|it(?:'s|\sis)\s)?(?:{_SENTENCE}){_LINK}{_NUMBER}\s?(?:$|(?-i:[A-Z])"
    r"|[:.,;)>=→—–-]\s?+(?!(?:is\s)?(?:correct|accurate|fine|ok|no\s(?:\w+\s)?(?:error|mistake|issue)s?)\b))",
    re.IGNORECASE | re.MULTILINE,
)
_ERROR = r"(?:(?:medical|clinical|factual)\s)?(?:errors?|mistakes?)(?:\s(?:found|detected|identified|present|here))?"
_SAYS_WRONG_FIRST = lazy_regex(
    r"yes\W+(?=sentence\s\d)|(?:(?:the|this)\s(?:\w+\s){0,2}?(?:text|note|narrative|record|document)\s)?"
    rf"(?:(?:is|is\snot|isn't|not|not\s\w+ly)\s)?(?:incorrect|wrong|not\s(?:\w+ly\s)?correct|{_ERROR}|correct|accurate)"
    r"\b\s?(?:[.:,;!>→—–-]|(?=\n)|(?=[(\d])|(?=sentence\s\d)|at\b|id\b|in\b)\s?(?:[.:–-]\s?)?",
    re.IGNORECASE,
)
_NEGATIVE_FIRST = lazy_regex(r"\b(?:yes|incorrect|wrong|errors?|mistakes?|not|isn't)\b", re.IGNORECASE)
_SAYS_ERROR = lazy_regex(
    r"(?:^|:\s)\d{1,3}[.:)]?\s(?-i:[A-Z0-9])\S*\s+\S|\b(?:incorrect|wrong|error)\b", re.IGNORECASE | re.MULTILINE
)
"""The number of a sentence and a sentence, or words: an error, even if the note has no sentence of that number."""
_WALKS = lazy_regex(
    r"\b(?:each|every)\s(?:sentence|line|statement)\b|\b(sentence|line|one)[\s-]by[\s-]\1\b", re.IGNORECASE
)
"""Announces remarks on all sentences: a number at the beginning of a line corrects nothing then."""
_NUMBERED_SENTENCE = lazy_regex(r"(?:^|(?<=[.!?] ))\d{1,3}\s(?=[A-Z])", re.MULTILINE)
_LAST_LINE = lazy_regex(r"(?:\A|\n)(?P<id>\d{1,3})\s(?=[A-Z])[^\n]*\Z")
_CORRECTION = lazy_regex(
    rf"(?:^|(?<=[.:!]\ ))(?:sentence\s)?{_NUMBER}[.:)]?(?:\s(?=\W?(?-i:[A-Z]))|$)", re.IGNORECASE | re.MULTILINE
)
_BEGINS_LINE = lazy_regex(rf"^{_NUMBER}(?P<dot>\.?)(?:[:)\s]|$)", re.IGNORECASE | re.MULTILINE)

# --- fields -----------------------------------------------------------------------------------------------------------

_FLAG_FIELD = lazy_regex(
    r"(?:^|:\s|[,;]\s)\W{0,3}(?:(?P<fine>(?:is\s|text\s|note\s)*correct)|(?:error\s)?flag"
    r"|(?:\w+\s){0,2}?errors?(?:\s(?!(?:sentence|id|line|number|location)\b)\w+)?)\s?[:=?]\s?"
    r"(?P<value>true|false|yes|no|none|null|nil|n/?a|0|1)\b(?=\s*(?:$|[.,;)-]|\w+(?:\s\w+)?\s?[:=]))",
    re.IGNORECASE | re.MULTILINE,
)
_ASKED = lazy_regex(
    r"\b(?:(?:is|are|does|has)\b[^?\n]{0,40}\b(?:errors?|mistakes?)|(?P<fine>(?:is|are)\b[^?\n]{0,40}\bcorrect))\b[^?\n]{0,20}"
    r"\?\s(?P<value>yes|no)\b",
    re.IGNORECASE,
)
_NO_ID_FIELD = lazy_regex(
    r"^\W{0,3}(?:(?:error|incorrect|wrong)\s(?:sentence\s?|line\s?)?(?:id\s?|number\s?)?|sentence\swith\s(?:the\s)?error\s?)"
    r"[:=]\s?(?:none|null|n/?a|-1)\b",
    re.IGNORECASE | re.MULTILINE,
)
_ID_FIELD = lazy_regex(
    rf"\b(?:error\s|wrong\s|incorrect\s)?(?:{_SENTENCE})\s?[:=]\s?(?P<id>\d{{1,3}})\b(?![./]\d)", re.IGNORECASE
)
_YES = ("true", "yes", "1")

# --- statements -------------------------------------------------------------------------------------------------------

_CLAUSE = lazy_regex(
    r"(?<=[.!?;])(?<!^\d\.)(?<!^\d\d\.)\s+|\n|,\s(?=\d{1,3}\sis\b|(?:so|thus|therefore|hence)\b)|,?\s+(?=(?:but|however|although|though|while|whereas|yet)\b)"
    r"|,?\s(?=(?:with\sthe\sexception|except|apart\sfrom|aside\sfrom|other\sthan)\b)",
    re.IGNORECASE,
)
_OPEN = lazy_regex(
    r"\?\s*$|^\W*if\b|\bif\sthe(?:re|\stext|\snote)\b|\b(?:perhaps|possibly|maybe|first\sthought|initially)\b|\bwhether\b|\blet(?:'s|\sme|\sus)\b|\b(?:I|we)\s(?:will|need|must)\b"
    r"|\b(?:may|might|could)\s(?:be|have|contain|seem|look)\b|\bat\sfirst\b|\blook(?:ing)?\sfor\b",
    re.IGNORECASE,
)
_DIGIT_WORDS = (*ONES, "twenty")
_NUMBER_WORD = lazy_regex(rf"\b(sentence\s)({'|'.join(_DIGIT_WORDS)})\b", re.IGNORECASE)
_IDS = lazy_regex(
    rf"\b(?:{_SENTENCE})(?:{_LINK}|s?\s)\(?(?P<first>\d{{1,3}})\b\)?(?![./]\d)"
    r"(?P<more>(?:\s?(?:,|and|or|&|to|through|[-–])\s?(?:sentence\s)?\d{1,3}\b"
    r"(?![./]\d|%|\s(?!(?:is|are|was|were|should|must|contain|have|has|need|and|or|to|in|because)\b)[a-z]))*)",
    re.IGNORECASE,
)
_EVIDENCE = lazy_regex(
    r"\(\s?(?:see\s|cf\.?\s)?sentence\s\d{1,3}\s?\)|\b(?:documented|stated|mentioned|noted|described|reported|recorded|listed)"
    r"\s(?:earlier\s|above\s)?in\s(?:the\s)?sentence\s\d{1,3}\b"
    r"|\b(?:contradicts|conflicts\swith|because|since|due\sto|given|in\s(?:light|view)\sof|despite|per|according\sto|based\son)\b[^.;\d]{0,60}?\bsentence\s\d{1,3}\b",
    re.IGNORECASE,
)
"""A sentence that only gives the reason why another one is wrong."""
_CONTRADICTION = lazy_regex(r"\b(?:contradict|conflict|inconsistent)\w*\s(?:with\s)?each\sother\b", re.IGNORECASE)
_ERROR_IS = lazy_regex(
    rf"\b(?:{_ERROR})\s?(?:[:(]|\s(?:(?:is|lies|was\sfound|can\sbe\sfound)\s)?(?:in\s|at\s)?)\s?#?(?P<first>\d{{1,3}})\b"
    r"(?![./]\d)",
    re.IGNORECASE,
)
_EXCEPT = lazy_regex(r"\bexcept\sfor\s(?:number\s|no\.\s|#)?(?P<first>\d{1,3})\b", re.IGNORECASE)
_ID_AT_END = lazy_regex(
    r"\b(?:sentence|line|id|one|statement)\b[^.\n\d]{0,60}?\bis\s?:?\s?(?:sentence\s|number\s)?(?P<first>\d{1,3})\b"
    r"(?![./]\d)",
    re.IGNORECASE,
)
_ID_AT_START = lazy_regex(
    r"(?P<first>\d{1,3})\b(?![./]\d)\s?(?:[:.)–-]|(?=is\b|are\b|contains\b|has\b|should\b|incorrect|correct|wrong|→|-?>))",
    re.IGNORECASE,
)
_BAD = r"(?:incorrect|wrong(?:ly)?|erroneous(?:ly)?|inaccurate|mistaken|false|flawed|incorrectly)"
_UNSOUND = lazy_regex(
    r"\b(?:is|are|appears?|seems?)\s(?:\w+ly\s)?(?:problematic|inappropriate|inconsistent|contraindicated|unsafe|harmful)\b"
    r"|\b(?:contradicts?|conflicts?)\b|\bQuoted\ssentence\s\d+\s*(?:->|→|=>)",
    re.IGNORECASE,
)
_GOOD = r"(?:correct|accurate|right|fine|valid|error-?free|appropriate|consistent|ok(?:ay)?)"
_NOUN = (
    r"(?<!refractive\s)(?<!inborn\s)\b(?:errors?|mistakes?|inaccurac(?:y|ies)|inconsistenc(?:y|ies)|discrepanc(?:y|ies)|faults?"
    r"|corrections?|issues?|problems?)\b(?!\sof\smeta)"
)
_IS = r"(?:is|are|was|were|seems?|appears?|looks?|as)"
_NOT = r"(?:not|n't|unable|fail(?:ed)?|never|isn't|aren't|doesn't|don't|didn't|couldn't|cannot|can't)"
_NOT_GOOD = lazy_regex(rf"\b{_NOT}\s(?:to\sbe\s|\w+ly\s|all\s){{0,2}}{_GOOD}\b", re.IGNORECASE)
_NO_ERROR_CLAUSE = lazy_regex(
    rf"\b(?:no|without|without\sany|free\sof|free\sfrom|zero|none|nothing|neither)\s(?!other|further|additional)"
    rf"(?:[\w']+\s){{0,6}}?(?:{_NOUN}|{_BAD}|corrected)"
    rf"|\b(?:{_NOT})\s(?:[\w']+\s){{0,6}}?(?:{_NOUN}|{_BAD})|\b\w+n't\s(?:[\w']+\s){{0,4}}?(?:{_NOUN}|{_BAD})"
    r"|\berror[\s-]?free\b|\bnothing\s(?:to\scorrect|wrong)\b|\bchecks\sout\b|^\W*none\W*$|(?<!sentence\s)\b0\serrors?\b|\bno\s(?:changes?|sentence|corrections?)\b",
    re.IGNORECASE,
)
_BAD_CLAUSE = lazy_regex(rf"\b{_BAD}\b|{_NOUN}", re.IGNORECASE)
_BAD_NOTE = lazy_regex(
    rf"\b{_IS}\s(?:\w+ly\s)?(?:incorrect|erroneous|inaccurate|wrong)\b|^\W*(?:{_ERROR}|{_BAD})\W*$"
    rf"|\b(?:contains?|has|have|is|are|'s|found|see|identified|detected)\s(?:an?|one|exactly\sone|the\sfollowing|some)\s"
    rf"(?:\w+\s)?(?:{_NOUN})",
    re.IGNORECASE,
)
_REPAIRS = lazy_regex(
    r"\b(?:should|must|needs?\sto|ought\sto)\b|\b(?:replaced?|changed?|revised?|corrected)\b|\binstead\sof\b"
    r"|\bwould\sbe\scorrect\b|^\W*the\s(?:correct|right|appropriate)\s\w+(?:\s\w+)?\s(?:is|would\sbe|should\sbe)\b"
    r"|^\W*(?:except|with\sthe\sexception|apart|aside|other\sthan)\b"
    r"|^\W*correct(?:ions?\b|\sversion\sof\b|\s(?:the\s)?sentence\b)"
    r"|\b(?:correct(?:ing)?|rewrite|edit|substitute|fix|amend|modify|revise|update)\s(?:[\w-]+\s){0,6}?sentence\b",
    re.IGNORECASE,
)
_EXCEPTS = lazy_regex(rf"\W*{_EXCEPT_FOR}\b", re.IGNORECASE)
_ABOUT_OTHERS = lazy_regex(r"\b(?:other|others|rest|remaining|otherwise|mostly|most)\b", re.IGNORECASE)
_IS_NOT = lazy_regex(r"\b(?:is\snot|isn't)(?:\W*$|,)", re.IGNORECASE)
_PRONOUN = lazy_regex(r"\W*(?:but\s|and\s)?(?:it|this|that|which|the\scorrect\s\w+(?:\s\w+)?)\b", re.IGNORECASE)
_WHOLE = (
    r"(?:text|note|record|document|narrative|everything|all|(?:every|each)\s(?:sentence|line)|sentences|lines|statements"
    r"|case|report|facts|contents?|(?<!incorrect\s)information)"
)
_GOOD_NOTE = lazy_regex(
    rf"\b{_WHOLE}\b[^.\n]{{0,40}}?\b{_IS}\s(?:(?:to\sbe|all|already|\w+ly)\s){{0,3}}(?:consistent\sand\s)?(?:correct|accurate|right|fine|sound|valid|error-?free)\b"
    r"|^\W*(?:(?:yes|so|therefore|thus|hence)\W+)?(?:everything\s|all\s(?:is\s)?|(?:it|this|that)\sis\s|it's\s|I\s\w+\s(?:it\sis\s)?"
    r"|(?:it\s)?(?:looks|seems|appears)\s)?correct(?:\sto\sme)?\W*$"
    r"|\b(?:is|as)\s(?-i:CORRECT)\b",
    re.IGNORECASE,
)
_GOOD_SENTENCE = lazy_regex(rf"\b{_GOOD}\b", re.IGNORECASE)
_CONTRAST = lazy_regex(
    r"\W*(?:but|however|yet|except|with\sthe|apart|aside|other\sthan|though|although)\b", re.IGNORECASE
)
_CONCLUDES = lazy_regex(
    r"\W*(?:so|therefore|thus|hence|overall|in\s(?:conclusion|summary)|finally|consequently|final\w*|conclusion)\b",
    re.IGNORECASE,
)


_ALL_BUT = lazy_regex(
    r"\b(?:all|everything|(?:every|each)\ssentence)(?:\s(?:of\s)?(?:the\s)?(?:other\s)?(?:sentences|it|lines|statements))?"
    rf"\s(?:but|except(?:\sfor)?|save(?:\sfor)?)\s((?:sentence|line)\s\d{{1,3}})\s{_IS}\s(?:\w+ly\s)?{_GOOD}\b",
    re.IGNORECASE,
)
"""All sentences but one are right."""
_BUT_ONE = lazy_regex(
    r"\s(?:but(?:\sfor)?|save(?:\sfor)?|barring|besides|excluding|excepting|bar)(?=\s(?:the\s(?:[\w-]+\s){1,3}(?:in|of)\s)?"
    r"(?:sentence|line)\s\d{1,3}\s?(?:$|[.,:;(]))",
    re.IGNORECASE | re.MULTILINE,
)


class _Statement(NamedTuple):
    """The statement of a clause about the note or about some of its sentences."""

    wrong: bool
    ids: frozenset[int]
    """Empty if it is about the note as a whole."""
    clause: str


def read_error_judgment(completion: str, note: str = "") -> ErrorJudgment:
    """Read the judgment in `completion`, however it is worded.

    `note`: the note, each line with the number of its sentence at the beginning. If given, sentences that it quotes are
    recognized, and other numbers are not: "42 The patient is well." then finds an error in no sentence.

    >>> read_error_judgment("**Correct.**"), read_error_judgment("Incorrect. Sentence 7 should be: Give heparin.")
    (ErrorJudgment(error=False, sentence=None), ErrorJudgment(error=True, sentence=7))
    """
    sentences = {int(line[1]): line[2].strip() for line in _NOTE_LINE.finditer(note)}
    text = _prepared(completion, sentences)
    found = _read(text)
    if sentences and found.sentence is not None and found.sentence not in sentences:
        return ErrorJudgment(True) if _SAYS_ERROR.search(text) else _UNREAD
    return found


def _read(text: str) -> ErrorJudgment:
    """Read the judgment in a prepared text."""
    found = _judgment_in_fields(text)
    if found:
        return found
    cues = [match.end() for pattern in (_CUE, _RETRACTION) for match in pattern.finditer(text)]
    for start in (*sorted(cues)[:-4:-1], 0):
        found = _judgment_at(text, start)
        if found:
            return found
    found = _after_retraction(text)
    if found:
        return found
    last = text[text.rfind("\n") + 1 :]
    if _FINE.fullmatch(last.rstrip(".! ")):
        return _FINE_JUDGMENT
    found = _judgment_in_statements(_QUOTED_ID.sub("the sentence", text))
    quoted = _judgment_in_statements(text) if found.error is not False and found.sentence is None else found
    if quoted.sentence is not None:
        return quoted  # the number says more than the text: notes repeat sentences
    corrects = _LAST_LINE.search(text) if found.error is not False else None
    repeats = len(_NUMBERED_SENTENCE.findall(text)) > 1  # the note, or a part of it
    if corrects and not repeats and not _GOOD_SENTENCE.search(corrects[0]):
        return ErrorJudgment(True, int(corrects["id"]))
    return found


def _after_retraction(text: str) -> ErrorJudgment | None:
    """Return the wrong sentence that is named after "Wait, no:"; None without one."""
    for retraction in list(_TAKES_BACK.finditer(text))[-1:]:
        found = _judgment_in_statements(text[retraction.end() :])
        if found.sentence is not None:
            return found
    return None


def _prepared(completion: str, sentences: Mapping[int, str]) -> str:
    """Return the lines of a completion without markup, with fields as lines and quotations as numbers."""
    text = _TAG_FIELD.sub(lambda tag: f"\n{_WORD_INSIDE.sub(' ', tag[1])}: {tag[2]}\n", before_next_task(completion))
    text = _FIELD.sub(lambda field: f"\n{_WORD_INSIDE.sub(' ', field[1])}: ", text)
    lines = clean_text(text.replace("[]", "none")).translate(_QUOTES).splitlines()
    repeated = {" ".join(f"{number} {sentence}".translate(_QUOTES).split()) for number, sentence in sentences.items()}
    kept = [line for line in lines if " ".join(line.split()) not in repeated]
    text = _with_numbers("\n".join(kept if len(lines) - len(kept) > 1 else lines), sentences)
    text = _BEFORE_ARROW.sub(" ", text)
    text = _QUOTATION.sub(r"\1...", text).translate(_PLAIN)
    bare = (" ".join(line.split()) for line in text.splitlines())
    bare = (line[_after_marks(line, 0) :] for line in bare)
    text = "\n".join(line for line in bare if line.strip(" .,:;-)"))
    return _NUMBER_WORD.sub(lambda word: word[1] + str(_DIGIT_WORDS.index(word[2].lower())), text)


def _with_numbers(text: str, sentences: Mapping[int, str]) -> str:
    """Write the sentences of the note that a completion quotes as "Quoted sentence 7", longest first."""
    lower = text.lower()
    for number, sentence in sorted(sentences.items(), key=lambda item: -len(item[1])):
        words = sentence.translate(_QUOTES).rstrip(".").split()
        if len(sentence) < _SHORTEST_IN_MARKS or words[-1].lower() not in lower:
            continue
        marks = "?" if len(sentence) >= _SHORTEST_QUOTE else ""
        spaced = r"\s+".join(map(re.escape, words))
        quotation = re.compile(rf"(?<!\w)[\"']{marks}{spaced}(?P<end>\.?[\"']{marks})(?!\w)", re.IGNORECASE)
        named = f"Quoted sentence {number}"
        text = quotation.sub(lambda found, named=named: named + " \n"[found["end"] in ("", ".")], text)  # type: ignore[misc]
    return text


def _judgment_at(text: str, start: int) -> ErrorJudgment | None:
    """Return the judgment at `start`; None if there is none."""
    start = _after_marks(text, start)
    if _FINE.match(text, start):
        return _FINE_JUDGMENT
    says_wrong = _SAYS_WRONG_FIRST.match(text, start)
    if says_wrong and _NEGATIVE_FIRST.search(says_wrong[0]):
        start = _after_marks(text, says_wrong.end())
    found = _NAMED.match(text, start) or _BARE.match(text, start)
    if found is None or _repeats_note(text, start, int(found["id"])):
        return None
    return ErrorJudgment(True, int(found["id"]))


def _after_marks(text: str, start: int) -> int:
    """Return the position after list marks, opening quotation marks and brackets at `start`."""
    marks = _MARKS.match(text, start)
    return marks.end() if marks else start


def _repeats_note(text: str, start: int, number: int) -> bool:
    """Return True if the number at `start` begins a list or the note: the next line begins with the next number."""
    listed = _BEGINS_LINE.match(text, start)
    if listed and listed["dot"]:  # "1. The patient ..." may be a step of the reasoning, with the next one further down
        return _BEGINS_LINE.search(text, listed.end()) is not None
    end = text.find("\n", start)
    following = _BEGINS_LINE.match(text, end + 1) if end >= 0 else None
    return following is not None and int(following["id"]) == number + 1


def _judgment_in_fields(text: str) -> ErrorJudgment | None:
    """Read fields such as "error flag: 1"; None if there are none, or if they contradict each other."""
    found = (field for pattern in (_FLAG_FIELD, _ASKED) for field in pattern.finditer(text))
    flags = {(field["value"].lower() in _YES) is not bool(field["fine"]) for field in found}
    if not flags and _NO_ID_FIELD.search(text):
        return _FINE_JUDGMENT
    if len(flags) != 1:
        return None
    ids = {int(field["id"]) for field in _ID_FIELD.finditer(text)} or _named_ids(text)
    error = flags.pop()
    return ErrorJudgment(True, next(iter(ids)) if len(ids) == 1 else None) if error else _FINE_JUDGMENT


def _judgment_in_statements(text: str) -> ErrorJudgment:
    """Read the judgment from statements anywhere in a completion."""
    statements = list(_without_concessions(list(_statements(_NEW_TEXT.sub(r"\1\2", _with_except(_CUE.sub("", text)))))))
    wrong = [statement for statement in statements if statement.wrong]
    decided = [one for one in wrong if not _CONTRADICTION.search(one.clause)]
    wrong = decided if any(one.ids for one in decided) else wrong
    fine = [statement for statement in statements if not statement.wrong and not statement.ids]
    if wrong and fine:
        last = statements[-1]
        if not _CONCLUDES.match(last.clause):
            return _UNREAD
        wrong, fine = ([last], []) if last.wrong else ([], [last])
    numbers = frozenset[int]().union(*(statement.ids for statement in wrong))
    if not numbers and not fine and not _WALKS.search(text):
        numbers = frozenset(int(line["id"]) for line in _CORRECTION.finditer(text))
        numbers = numbers if len(numbers) == 1 else frozenset()
    if not wrong and not numbers:
        return _FINE_JUDGMENT if fine else _UNREAD
    return ErrorJudgment(True, next(iter(numbers)) if len(numbers) == 1 else None)


def _with_except(text: str) -> str:
    """Write "all but sentence 3 are right" and "all right but sentence 3" with the words that other patterns know."""
    return _BUT_ONE.sub(" except", _ALL_BUT.sub(r"\1 is wrong", text))


def _statements(text: str) -> Iterator[_Statement]:
    """Yield what each clause says, if it says anything. "It" is the sentence that the clause before is about."""
    ids, last, was_open = frozenset[int](), None, False
    for clause in _CLAUSE.split(text):
        ids = (
            _named_ids(_EVIDENCE.sub("", clause))
            or _named_ids(clause)
            or (ids if _PRONOUN.match(clause) else frozenset())
        )
        is_open = _OPEN.search(clause) is not None
        wrong = None if is_open or (was_open and _IS_NOT.search(clause)) else _says_wrong(clause, ids, last)
        was_open = is_open
        if wrong is not None:
            last = wrong
            yield _Statement(wrong, ids, clause)


def _says_wrong(clause: str, ids: AbstractSet[int], last: bool | None) -> bool | None:
    """Return what a clause says about the sentences `ids`, or about the note if there are none; None if nothing.

    `last`: what the clause before says.
    """
    negated = _NO_ERROR_CLAUSE.search(clause) is not None
    if _NOT_GOOD.search(clause):
        return True
    if ids and _EXCEPTS.match(clause):
        return True
    if not ids:
        if negated:
            return False
        if _BAD_NOTE.search(clause):
            return True
        return False if _GOOD_NOTE.search(clause) and not _ABOUT_OTHERS.search(clause) else None
    if _IS_NOT.search(clause):
        return not last
    if not negated and any(pattern.search(clause) for pattern in (_BAD_CLAUSE, _REPAIRS, _UNSOUND)):
        return True
    return False if negated or _GOOD_SENTENCE.search(clause) else None


def _named_ids(clause: str) -> frozenset[int]:
    """Return the numbers of the sentences that a clause names."""
    at_start = _ID_AT_START.match(clause)
    ids = {int(at_start["first"])} if at_start else set()
    for pattern in (_ID_AT_END, _ERROR_IS, _EXCEPT):
        ids |= {int(match["first"]) for match in pattern.finditer(clause)}
    for match in _IDS.finditer(clause):
        ids |= {int(match["first"]), *map(int, re.findall(r"\d+", match["more"]))}
    return frozenset(ids)


def _without_concessions(statements: list[_Statement]) -> Iterator[_Statement]:
    """Leave out what the next statement limits: "The text is correct, except sentence 5"."""
    for number, statement in enumerate(statements):
        following = statements[number + 1] if number + 1 < len(statements) else None
        if not (following and following.wrong and not statement.wrong and _CONTRAST.match(following.clause)):
            yield statement
