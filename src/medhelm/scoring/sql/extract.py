"""Extract SQL from a completion and prepare it for execution, as the rules of the SQL metrics require.

A query in tags, in a code block, in JSON or on a line of its own is the answer, whatever is said about it: only if the
completion says that the question cannot be answered, and that the query would need another schema, it abstains. A query
inside a sentence counts unless the completion abstains: "SELECT phone FROM contact would fail, since there is no such
table". A lone SELECT is no query and no abstention; the authors of EHRSQL execute it, and it fails.
"""

from __future__ import annotations

import json
import re
from typing import Any

from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.text import before_next_question, strip_reasoning

_INVISIBLE = lazy_regex(
    r"[\x00-\x08\x0e-\x1f\x7f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]|</s>|<\|[\w ]{1,30}\|>"
)
_TAGGED = (
    lazy_regex(r"<\s*sql\s*>(.*?)(?:</?\s*sql\s*>|\Z)", re.DOTALL | re.IGNORECASE),
    lazy_regex(r"\[sql\](.*?)(?:\[/sql\]|\Z)", re.DOTALL | re.IGNORECASE),
    lazy_regex(
        r"<(?:final[ _-]?)?(?:answer|output|response|result|query|code|(?:sql|sqlite)[ _-]?query)>"
        r"(.*?)(?:</[\w -]{2,20}>|\Z)",
        re.DOTALL | re.IGNORECASE,
    ),
    lazy_regex(r"\\boxed\s?\{(.*)\}", re.DOTALL),
    lazy_regex(r"(?:'''|\"{3})(.*)(?:'''|\"{3})", re.DOTALL),
    lazy_regex(r"\A['\"](?=\s*(?:select|with)\b)(.*)['\"][;.\s]*\Z", re.DOTALL | re.IGNORECASE),
)
_FENCED = lazy_regex(
    r"(?P<delimiter>```+|~~~+)(?:[ \t]*(?!(?:select|with)\b)[\w+#.-]*[ \t]*\r?\n)?(?P<inside>.*?)(?:(?P=delimiter)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_JSON_FIELD = lazy_regex(r"[\"'](?:\w*sql\w*|query|answer)[\"']\s*:\s*(?=[\"'])", re.IGNORECASE)
_KEYS = ("sql", "quer(?:y|ies)", "statement", "^(?:final)?answer$", "^(?:result|response|output|data)$")
"""Patterns of the keys that hold the query, first to last."""
_OPTIONAL = lazy_regex(
    r"\bif\syou(?:'d)?\s(?:(?:only|also|instead|rather|would|actually)\s){0,2}(?:want|need|prefer|like|meant)\b[^\n]*\n?\s*\Z",
    re.IGNORECASE,
)
"""Introduces another query than the one that is asked for."""
_DIALECT = lazy_regex(r"\s*(?:sql(?:ite)?(?:query)?[23]?|mysql|postgres(?:ql)?|query)\b\s*:?>?\s*", re.IGNORECASE)
_NAME = r"(?:\w+|\"[^\"]*\"|`[^`]*`|\[[^\]]*\])"
_VERB = (  # "select the rows" is an instruction
    r"(?:the|an|which|your|this|that|any|each|every|those|these|it|appropriate|relevant|only|statement|query|command|clause|a(?=\s+(?!from\b|as\b)\w)"
    r"|all(?=\s+(?:rows|the|patients|records)\b)|rows(?=\s+(?!from\b)\w)|from|and|or|is)\b"
)
_QUERY = (
    rf"(?:select\b(?=\s*[\w(*'\"`\[@:+.-])(?!\s+{_VERB})"
    rf"|with\s+(?:recursive\s+)?{_NAME}\s*(?:\([^()]*\)\s*)?as\s*(?:(?:not\s+)?materialized\s*)?\()"
)
_CHANGE = (
    r"(?:(?:insert|replace)\s+(?:or\s+\w+\s+)?into\b|update\s+\S+\s+set\b|delete\s+from\b"
    r"|(?:create|drop|alter)\s+(?:(?:temp|temporary|unique|virtual)\s+)?(?:table|view|index|trigger)\b)"
)
_OTHER = r"(?:explain\s+(?:query\s+plan\s+)?(?:select|with)\b|pragma\s+\w|attach\s+(?:database\s+)?['\"]|values\s*\()"
_COMMENTS = r"(?:\s+|--[^\n]*+\n?|(?>/\*.*?(?:\*/|\Z)))*+"
_BEGINS = lazy_regex(f"{_COMMENTS}(?:{_QUERY}|{_CHANGE}|{_OTHER})", re.DOTALL | re.IGNORECASE)
_FOLLOWS = lazy_regex(f"{_COMMENTS}(?:{_QUERY}|{_CHANGE})", re.DOTALL | re.IGNORECASE)
_ONLY_COMMENTS = lazy_regex(_COMMENTS, re.DOTALL)
_BEFORE_STATEMENT = lazy_regex(rf"\A(?:{_COMMENTS};)*+{_COMMENTS}", re.DOTALL)
_LEAD = lazy_regex(r"(?:[\s>*•_\"'“`($]|-(?!-)|\d{1,2}[.)]\s)+")
_FINAL = lazy_regex(
    r"\b(?:final|correct|corrected|revised)\s(?:sql\s)?(?:answer|query|sql|statement)\b(?:\sis)?\W*?[:\n]",
    re.IGNORECASE,
)
_CORRECTS = lazy_regex(r"\b(?:correct(?:ed|ion)|revised|fixed|improved|updated)\b", re.IGNORECASE)
"""Announces another answer to the same question."""
_ON_A_LINE = lazy_regex(rf"(?:^|:|[-=]>\s)(?:[ \t>*\"'“`(-]|\d[.)]\s)*(?={_QUERY})", re.MULTILINE | re.IGNORECASE)
_STATED = lazy_regex(rf"\b(?:query|sql|statement|answer)\b\s?(?:is\b|:)[\s:\"'“`(*]*(?={_QUERY})", re.IGNORECASE)
_ANYWHERE = lazy_regex(rf"(?<![\w.])(?={_QUERY})", re.IGNORECASE)
_TOKEN = lazy_regex(r"'(?:[^']|'')*+'|\"[^\"]*+\"|`[^`]*+`|--[^\n]*+|(?>/\*.*?(?:\*/|\Z))|;", re.DOTALL)
_PART = lazy_regex(r"```|~~~|(?<=;)_|--(?!-)[^\n]*+|(?>/\*.*?(?:\*/|\Z))|['\"`“”();{}]|\*\*|</|<\||\n\s*", re.DOTALL)
_OPENING = "(`\"'“"
_BEFORE_NAME = " \t\n(.,=<>|+-/*"
_INCOMPLETE = lazy_regex(
    r"(?:\b(?:select|distinct|from|where|and|or|by|join|on|in|as|union|all|intersect|except|having|limit|offset|not|like"
    r"|between|case|when|then|else|with|using|is|exists|over)|[,(=<>+/|.-])\s*\Z",
    re.IGNORECASE,
)
_CASE, _END = lazy_regex(r"\bcase\b", re.IGNORECASE), lazy_regex(r"\bend\b", re.IGNORECASE)
_SELECT = lazy_regex(r"select\b", re.IGNORECASE)
_CONTINUES = lazy_regex(
    r"(?P<word>from|where|(?:group|order)(?=\s+by\b)|having|(?:limit|offset)(?=\s+[\d(:@?-])|join|inner|left|right|full"
    r"|cross|natural|outer|on|using(?=\s*\()|union"
    r"|intersect|except|and|or|window|case|when|then|else|end|as|not|asc|desc|between|like|escape|collate|over|nulls"
    r"|in(?=\s*\()|is(?=\s+(?:not\s+)?null))\b(?!\s*:)"
    r"|[),;!+%]|=(?!=)|/(?!/)|\|\||<[=>]?\s|>=|-- |/\*|[->*]\s?(?=[('\d])",
    re.IGNORECASE,
)

_PUBLISHED_TAG = lazy_regex(r"<\s*sql\s*>(.*?)</?\s*sql\s*>", re.DOTALL | re.IGNORECASE)
_PUBLISHED_LINE = lazy_regex(r"^sql\n", re.MULTILINE)

_RANGES = {
    "temperature": ("35.5", "38.1"),
    "sao2": ("95.0", "100.0"),
    "heart_rate": ("60.0", "100.0"),
    "respiration": ("12.0", "18.0"),
    "systolic_bp": ("90.0", "120.0"),
    "diastolic_bp": ("60.0", "90.0"),
    "mean_bp": ("60.0", "110.0"),
}
"""Vital sign -> lowest and highest normal value, from the evaluation by EHRSQL's authors."""

_LIMIT = lazy_regex(rf"\b({'|'.join(_RANGES)})_(lower|upper)\b")
_PRESENT = lazy_regex(r"\bcurrent_time\b")
_FORMAT = lazy_regex(r"(\bstrftime\s*\(\s*'[^']*')", re.IGNORECASE)
_LETTERS = lazy_regex(r"%[A-Z]|[^%]+|%")
_TYPING_ERRORS = (("< =", "<="), ("> =", ">="), ("! =", "!="), ("%y", "%Y"), ("%j", "%J"))


def find_query(completion: str) -> str | None:
    """Find the SQL in a completion; None for an abstention: empty, `null`, or "the question cannot be answered".

    It may be in tags, in a code block of any language (the last one with a query), in JSON, or in prose. It ends at its
    semicolon unless another statement follows; the same statement again is ignored, and so are another question that
    the model asks itself and its query. Text that is neither SQL nor an abstention is returned unchanged, as a query
    that cannot be executed. So is reasoning that was cut off.

    >>> find_query("Sure:\\n```sql\\nselect 1;\\n```")
    'select 1;'
    >>> find_query("Unanswerable: the schema has no table of addresses.") is None
    True
    """
    text = _INVISIBLE.sub("", strip_reasoning(completion)).strip()
    if not text and not strip_reasoning(completion + "."):
        return completion.strip()
    text = _json_text(_own_answer(text))
    body = _marked_block(text)
    start = _statement_start(body)
    if start is not None:
        before = text[: max(text.find(body), 0)] + body[:start]
        sentence = before[before.rfind("\n") + 1 :]
        return None if is_hypothetical(before) or says_unanswerable(sentence) else _statement(body, start)
    if _ONLY_COMMENTS.fullmatch(body.rstrip("; \t\r\n")):
        return None
    inside = _STATED.search(body)
    if not inside and (abstains(body) or abstains(text)):
        return None
    inside = inside or _ANYWHERE.search(body)
    return _statement(body, inside.end()) if inside else body


def _own_answer(text: str) -> str:
    """Return what precedes another question that the model asks itself, if it answers and is not corrected later."""
    before = before_next_question(text)
    if before is None or _CORRECTS.search(text, len(before)):
        return text
    block, line = _marked_block(before), before.strip()
    start = _statement_start(block)
    answers = _ANYWHERE.search(block, start) is not None if start is not None else "\n" not in line and abstains(line)
    return before if line and answers else text


def published_query(completion: str) -> str:
    """Return the text that the published leaderboard executes: the inside of <sql> tags, or else the whole completion.

    Back-ticks, and a first line that reads `sql`, are removed. Empty if nothing is left.
    """
    text = completion.strip()
    tagged = _PUBLISHED_TAG.search(text)
    return _PUBLISHED_LINE.sub("", (tagged[1] if tagged else text).strip().replace("`", "").strip())


def goes_on_after_statement(sql: str) -> bool:
    """Return whether more than white space and comments follows the first statement, if only a semicolon.

    Python's `sqlite3`, which the published leaderboard used, executes nothing then.

    >>> goes_on_after_statement("select ';;'; -- done;"), goes_on_after_statement("select 1;;")
    (False, True)
    """
    text = _BEFORE_STATEMENT.sub("", sql, count=1)
    end = next((token.end() for token in _TOKEN.finditer(text) if token[0] == ";"), len(text))
    return _ONLY_COMMENTS.fullmatch(text, end) is None


def apply_conventions(sql: str, present: str) -> str:
    """Normalize a query as the authors of EHRSQL do before executing it.

    The text is put in lower case, `current_time` and 'now' become the time `present`, names of normal limits of vital
    signs become numbers, and frequent typing errors are corrected. Letters of strftime formats keep their case, except
    %y and %j, which the data uses for %Y and %J; the authors lower all of them, so that minutes become months. If
    `present` is empty, `current_time` and 'now' stay.

    >>> apply_conventions("SELECT strftime('%y %M', current_time) < = 'A'", "2105-12-31 23:59:00")
    "select strftime('%Y %M', '2105-12-31 23:59:00') <= 'a'"
    """
    parts = _FORMAT.split(sql)
    parts[::2] = map(str.lower, parts[::2])
    parts[1::2] = (_LETTERS.sub(_lower_unless_specifier, part) for part in parts[1::2])
    text = _LIMIT.sub(lambda limit: _RANGES[limit[1]][limit[2] == "upper"], "".join(parts))
    if present:
        text = _PRESENT.sub(f"'{present}'", text).replace("'now'", f"'{present}'")
    for error, correct in _TYPING_ERRORS:
        text = text.replace(error, correct)
    return text


def with_single_quotes(sql: str) -> str:
    """Replace doubled quotation marks by single ones, as the authors do for `''2105-12-31''`.

    >>> with_single_quotes("select ''2105''")
    "select '2105'"
    """
    return sql.replace("''", "'")


def _lower_unless_specifier(part: re.Match[str]) -> str:
    """Return a piece of a format in lower case, unless it is a specifier."""
    return part[0] if len(part[0]) == 2 and part[0].startswith("%") else part[0].lower()


def _json_text(text: str) -> str:
    """Return the query of a JSON document, "" if it has none; the text itself if it is no such document."""
    bare = text
    fenced = _FENCED.fullmatch(text)
    if fenced:
        bare = fenced["inside"].strip()
    start = bare.find("{") if '"' in bare else -1
    for position in dict.fromkeys((0, start)):
        if position >= 0 and bare[position : position + 1] in tuple('{["'):
            try:
                document, end = json.JSONDecoder(strict=False).raw_decode(bare[position:])
            except (ValueError, RecursionError):
                continue
            found = _query_of(document)
            if found is not None and (position or not bare[end:].strip(" ;.`\n")):
                return found
    field = _JSON_FIELD.search(bare)
    return bare[field.end() :].replace('\\"', '"').replace("\\n", "\n") if field else text


def _query_of(document: Any) -> str | None:
    """Return the query in a JSON value, "" for null; None if no key names it."""
    if isinstance(document, str):
        return document
    if isinstance(document, list):
        return _query_of(document[0]) if len(document) == 1 else (None if document else "")
    if not isinstance(document, dict):
        return None
    fields = {re.sub(r"[\W_]", "", key).lower(): value for key, value in document.items()}
    for pattern in _KEYS:
        key = next((key for key in fields if re.search(pattern, key)), None)
        if key is not None:
            return "" if fields[key] is None else _query_of(fields[key])
    if not fields or any(re.search("answer", key) and value in (False, "no", "false") for key, value in fields.items()):
        return ""
    values = list(fields.values())
    return _query_of(values[0]) if len(values) == 1 and isinstance(values[0], dict) else None


def _marked_block(text: str) -> str:
    """Return the text inside tags, a box or a code block; the whole text if there are none."""
    for pattern in (*_TAGGED, _FENCED):
        found = list(pattern.finditer(text))
        found = [match for match in found if not _OPTIONAL.search(text, 0, match.start())] or found
        blocks = [match["inside"] if pattern is _FENCED else match[1] for match in found]
        blocks = [_DIALECT.sub("", block, count=1) if _DIALECT.match(block) else block for block in blocks]
        queries = [block for block in blocks if _statement_start(block) is not None]
        if queries or (blocks and _statement_start(text) is None):
            chosen = (queries or blocks)[-1].strip()
            return chosen if pattern is _FENCED else _marked_block(_json_text(chosen))
    return text


def _statement_start(body: str) -> int | None:
    """Return the position where a statement begins; None if none does.

    This is the beginning of the text, including comments; else what follows "Final query:"; else the first line, or
    place after a colon, that looks like a query.
    """
    for match in (None, _DIALECT.match(body)):
        lead = _LEAD.match(body, match.end() if match else 0)
        start = lead.end() if lead else (match.end() if match else 0)
        if _BEGINS.match(body, start):
            return start
    for final in [*_FINAL.finditer(body)][-1:]:
        found = _ON_A_LINE.search(body, final.end() - 1)
        if found:
            return found.end()
    found = _ON_A_LINE.search(body)
    if found is None:
        return None
    start = found.end()
    first = _ANYWHERE.search(body, 0, start)
    return None if first and _statement_end(body, first.end()) > start else start


def _statement(text: str, start: int) -> str:
    """Return the statement at `start` and those that follow directly, without repetition and trailing prose."""
    last = _statement_end(text, start)
    first = text[start:last].strip().rstrip(".")
    while _FOLLOWS.match(text, last):
        begin, last = last, _statement_end(text, last)
        if _comparable(text[begin:last]) != _comparable(first):
            return text[start:last].strip()
    return first


def _comparable(statement: str) -> str:
    """Return a statement with single spaces and without a semicolon."""
    return " ".join(statement.strip().rstrip(";").split())


def _statement_end(text: str, start: int) -> int:
    """Return where the statement at `start` ends: after its semicolon, or before what cannot belong to it."""
    opening = text[start - 1 : start] if start else ""
    depth, at = 0, _after_comments(text, start)
    while part := _PART.search(text, at):
        at, sign = part.end(), part[0]
        if sign in ("(", ")"):
            depth += 1 if sign == "(" else -1
            if depth < 0:
                return part.start()
        elif sign == ";":
            return at
        elif sign in ("'", '"', "`"):
            if sign == opening and text[part.start() - 1] not in _BEFORE_NAME:
                return part.start()
            at = _closing_quote(text, part.start())
        elif sign.isspace():
            if not depth and not _goes_on(text, start, part):
                return part.start()
        elif not sign.startswith(("--", "/*")):
            return part.start()
    return len(text)


def _after_comments(text: str, start: int) -> int:
    """Return the position after white space and comments."""
    comments = _ONLY_COMMENTS.match(text, start)
    return comments.end() if comments else start


def _closing_quote(text: str, start: int) -> int:
    """Return the position after the string or name that begins at `start`; the end of the text if it is not closed."""
    sign, at = text[start], start + 1
    while (at := text.find(sign, at)) >= 0:
        if text[at + 1 : at + 2] != sign:
            return at + 1
        at += 2
    return len(text)


def _goes_on(text: str, start: int, gap: re.Match[str]) -> bool:
    """Return True if a statement goes on after a line break outside of parentheses."""
    if gap.end() == len(text) or _INCOMPLETE.search(text, max(start, gap.start() - 20), gap.start()):
        return gap.end() < len(text)
    found = _CONTINUES.match(text, gap.end())
    if found is None:  # the SELECT of a WITH
        return text[start : start + 4].lower() == "with" and _SELECT.match(text, gap.end()) is not None
    word, before = found["word"], text[start : gap.start()]
    if (word or "").lower() in ("when", "then", "else", "end"):
        return len(_CASE.findall(before)) > len(_END.findall(before))
    written_so = before[:6]
    return not word or word != word.capitalize() or written_so == written_so.capitalize()


# --- abstention -------------------------------------------------------------------------------------------------------
# Recognize that a completion says that its question cannot be answered.

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
