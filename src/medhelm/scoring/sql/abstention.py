"""Recognize that a completion says that its question cannot be answered."""

from __future__ import annotations

import re

from medhelm.io.lazy_regex import lazy_regex

_NOTHING = lazy_regex(
    r"(?:\W*(?:so,?\s|therefore,?\s)?(?:the\s|my\s)?(?:final\s)?(?:answer|output|sql|query|result|response|assistant)\b"
    r"(?:\squery)?(?:\s?(?:is|:))?)*\W*"
    r"(?:(?:null|none|nan|nil|n\s?/?\s?a|blank|empty(?:\s(?:query|response|output|answer))?"
    r"|(?:(?:I|we)(?:'ll|\swill)?\s)?(?:return(?:s|ing)?\s)?(?:an?\s)?empty\sstring"
    r"|no\s(?:valid\s)?(?:sql\squery|sql|query|output|answer|response))(?:\W*\Z|\s?[-–—:;,(.].*))?",
    re.IGNORECASE | re.DOTALL,
)
_NULL_RESULT = lazy_regex(
    r"\b(?:result|answer|query|output|response)\s(?:is|would\sbe|must\sbe|should\sbe)\s(?:therefore\s)?(?:null|none)\b",
    re.IGNORECASE,
)
_SCHEMA = r"(?:schema|database|db|tables?|columns?|data(?:set)?|fields?|it|they|information)"
_THING = (
    r"(?:tables?|columns?|fields?|attributes?|mapping|info(?:rmation)?|data|records?|way|quer(?:y|ies)|sql|answers?)"
)
_NOT = r"(?:\snot|n['’]t)"
_CANNOT = (
    r"(?:\b(?:can(?:['’]t|\s?not)|could(?:n['’]t|\snot)|unable|impossible)"
    r"|(?:\bnot|n['’]t)\s(?:be\s)?(?:able|possible))\b"
)
_SAYS_NO = lazy_regex(
    # it cannot be done
    rf"{_CANNOT}.{{0,80}}?\b(?:answer|determin|deriv|generat|provid|produc|creat|writ|form|construct|retriev|quer|obtain"
    r"|tell|express|translat|comput|calculat|infer|done|convert|map|find\sa|be\sfound)|^\W*cannot\W*$"
    rf"|\b(?:do{_NOT})\s(?:think|believe)\b.{{0,60}}?\b(?:answered|supports?|possible|contains?)\b|\bnothing\scan\sbe\b"
    r"|(?:^|[:.,\n]\s?)\W*(?:(?:it|this|that)(?:'s|\sis)\s)?(?:not\spossible|impossible)\b"
    rf"|\bis(?:{_NOT}\s(?:possible|answerable)|\simpossible)\b|\bun-?answerable\b|\bempty\sstring\b"
    r"|\b(?:unsupported|invalid|irrelevant)\squestion\b|\bquestion\sis\s(?:invalid|irrelevant|not\srelevant)\b"
    r"|\bnot\s(?:an?\s)?(?:answerable|applicable|supported|related|relevant\sto|derivable|valid\squestion)\b"
    rf"|\b(?:unrelated|irrelevant)\sto\b|\bdoes{_NOT}\s(?:relate|pertain)\b"
    rf"|\b(?:I|we)\s(?:(?:do|can|could){_NOT}\s(?:see|find|have)\s[^.\n]{{0,30}}?{_THING}\b|lack\s)"
    # the schema lacks something
    rf"|\b{_SCHEMA}\b[^.\n]{{0,60}}?\b(?:does|do|did){_NOT}\s(?:\w+ly\s)?(?:contain|include|hold|have|store|provide|cover"
    r"|record|support|exist|allow|track|capture|list|mention|define|specify)"
    rf"|\b(?:does|do){_NOT}\s(?:contain|include|exist|store|support)\b"
    rf"|\b{_SCHEMA}\b[^.\n]{{0,40}}?\b(?:lacks?|misses|omits?|fails?\sto|(?:has|have|contains?|includes?|provides?|offers?|stores?"
    r"|holds?)\s(?:no|nothing)|only\s(?:contains?|stores?|holds?)"
    rf"|(?:is|are)(?:\s(?:missing|absent|unavailable|not\ssuff|insuff)|{_NOT}\s(?:there|provided)))"
    r"|\b(?:missing|absent)\sfrom\sthe\s(?:schema|database|tables)|\blacks?\s(?:a|the\s(?:necessary|required|relevant))\b"
    rf"|\b(?:no|none\sof\s(?:the|these)|neither)\s(?:\w+\s){{0,3}}{_THING}\b(?!\s(?:were|was|has\sbeen)\sfound)"
    r"|\bno\b[^.\n]{0,40}\bin\s(?:the|this)\s(?:\w+\s)?(?:schema|database)\b"
    rf"|\b(?:is|are)n['’]t\s(?:such\s)?(?:an?|any)\s(?:\w+\s){{0,3}}{_THING}\b|\bnot\sseem\sto\sbe\s(?:an?|any)\b"
    r"|\bnothing\sin\sthe\s(?:schema|database|tables|data)\b"
    rf"|^\W*(?:missing|unknown)\s{_THING}\b|\b{_THING}\snot\s(?:found|covered|defined)\b"
    r"|(?:\bnot|n['’]t)\s(?:\w+\s)?(?:available|stored|recorded|present|included|contained|captured|part\sof"
    r"|(?:found\s|covered\s|defined\s|mentioned\s|provided\s)?(?:in|by)\s(?:the\s)?(?:given\s)?(?:schema|database|data|tables?))\b"
    # in Spanish, Portuguese, French and German
    r"|\b(?:no\s(?:se\s)?puede|no\ses\sposible|não\s(?:pode|é\spossível)|imposible|impossível)\b[^.\n]{0,40}?\b(?:respond|contest|ger|crea)"
    r"|\b(?:ne\speut\s(?:pas\s)?être|n'est\spas\spossible|impossible\sde)\b[^.\n]{0,40}?\b(?:répond|générer|créer)"
    r"|\bnicht\s(?:beantwort|möglich|enthalten)|\b(?:esquema|base\sde\sdatos|schéma|schema)\b[^.\n]{0,20}?\bno\s(?:contiene|incluye)\b"
    # there is not enough of it
    rf"|\b(?:insufficient|not\senough|isn't\senough)\s(?:{_THING}|schema)\b|\binformation\sis\sinsufficient\b"
    r"|\bout[\s-]of[\s-](?:the\s)?scope\b|\b(?:outside|beyond)\s(?:of\s)?the\s(?:scope|schema|database)\b",
    re.IGNORECASE | re.DOTALL,
)
_HYPOTHETICAL = lazy_regex(
    r"\b(?:if\s(?:there|the|it|we|such|this|a)\b[^.\n]{0,60}?\b(?:were|was|had|existed|contained|did)"
    r"|would\s(?:be|need|look|require|have)|one\s(?:could|would|might)|hypothetical(?:ly)?|assuming)\b",
    re.IGNORECASE,
)


def abstains(text: str) -> bool:
    """Return True if a completion without a query abstains: it is empty, a word for nothing, or says so.

    >>> abstains("N/A - the schema has no emergency contact"), abstains("4")
    (True, False)
    """
    return any(pattern.search(text) for pattern in (_NULL_RESULT, _SAYS_NO)) or _NOTHING.fullmatch(text) is not None


def says_unanswerable(text: str) -> bool:
    """Return True if a text says that a question cannot be answered, or that the schema lacks something."""
    return _SAYS_NO.search(text) is not None


def is_hypothetical(before: str) -> bool:
    """Return True if the text before a query abstains, and introduces the query as one for another schema.

    >>> is_hypothetical("Unanswerable. If there were a table of contacts, the query would be:")
    True
    """
    return says_unanswerable(before) and _HYPOTHETICAL.search(before) is not None
