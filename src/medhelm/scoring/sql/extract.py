"""SQL out of a reply, and made ready to be executed: the texts that the rules of the SQL metrics work on."""

from __future__ import annotations

import re

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.plain_text import strip_reasoning

_TAGGED = lazy_regex(r"<\s*sql\s*>(.*?)(?:</?\s*sql\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCED = lazy_regex(
    r"```(?:[ \t]*(?!(?:select|with)\b)[\w+#.-]*[ \t]*\r?\n)?(.*?)(?:```|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_DIALECT = lazy_regex(r"\s*(?:sql(?:ite)?(?:query)?[23]?|mysql|postgres(?:ql)?|query)\b\s*:?\s*", re.IGNORECASE)
_NAME = r"(?:\w+|\"[^\"]*\"|`[^`]*`|\[[^\]]*\])"
_QUERY = (
    r"(?:select\b"
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
_ON_A_LINE = lazy_regex(rf"(?:^|[:`>\"])[ \t]*({_QUERY})", re.MULTILINE | re.IGNORECASE)
_ANYWHERE = lazy_regex(rf"(?<![\w.]){_QUERY}", re.IGNORECASE)
_TOKEN = lazy_regex(r"'(?:[^']|'')*+'|\"[^\"]*+\"|`[^`]*+`|--[^\n]*+|(?>/\*.*?(?:\*/|\Z))|;", re.DOTALL)
_PARAGRAPH = lazy_regex(r"\n[ \t]*\r?\n\s*")
_GOES_ON = lazy_regex(
    r"(?:from|where|group|order|having|limit|offset|join|inner|left|right|full|cross|natural|on|using|union|intersect"
    r"|except|and|or|select|window|case|when|then|else|end|as|in|not|is)\b|[(),*/+<>='\"|.-]",
    re.IGNORECASE,
)
_NOTHING = {"", "null", "none", "nan", "n/a", "na", "empty", "empty string", "an empty string", "no query"}
_SAYS_NO = lazy_regex(
    r"(?:\b(?:can(?:['’]t|\s?not)|could(?:n['’]t| not)|unable|impossible)|(?:\bnot|n['’]t) (?:be )?(?:able|possible))\b"
    r".{0,80}?\b(?:answer|determin|deriv|generat|provid|produc|creat|writ|form|construct|retriev|quer|obtain|tell)"
    r"|\bun-?answerable\b|\bnot answerable\b"
    r"|\b(?:does|do|did)(?: not|n['’]t) (?:contain|include|hold|have|store|provide|cover|record|support|exist)"
    r"|\bno (?:\w+ ){0,3}(?:table|column|field|information|data|record|way)s?\b"
    r"|(?:\bnot|n['’]t) (?:\w+ )?(?:available|stored|recorded|present|included|contained|captured|part of|in the)\b"
    r"|\binsufficient (?:information|data|schema)\b",
    re.IGNORECASE | re.DOTALL,
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
"""Vital sign -> its normal range, lowest and highest value, from the evaluation of EHRSQL's authors."""

_LIMIT = lazy_regex(rf"\b({'|'.join(_RANGES)})_(lower|upper)\b")
_PRESENT = lazy_regex(r"\bcurrent_time\b")
_FORMAT = lazy_regex(r"(\bstrftime\s*\(\s*'[^']*')", re.IGNORECASE)
_LETTERS = lazy_regex(r"%[A-Z]|[^%]+|%")
_SLIPS = (("< =", "<="), ("> =", ">="), ("! =", "!="), ("%y", "%Y"), ("%j", "%J"))


def find_query(reply: str) -> str | None:
    """The SQL in a reply; None if it gives none: empty, `null`, or words that the question cannot be answered.

    It may stand in <sql> tags, in a code block of any language (of several, in the last that holds a query), or among
    prose. It ends at its semicolon unless another statement follows. Text that is neither SQL nor a refusal is returned
    as it is: an answer that cannot be executed. So is reasoning that was cut off.

    >>> find_query("Sure:\\n```sql\\nselect 1;\\n```")
    'select 1;'
    >>> find_query("Unanswerable: there is no table of addresses.") is None
    True
    """
    text = strip_reasoning(reply).strip()
    if not text and not strip_reasoning(reply + "."):
        return reply.strip()
    body = _marked(text)
    start = _start(body)
    if start is not None:
        return _one_statement(body[start:])
    bare = body.strip(" \t\r\n`'\";.()[]*")
    says_nothing = bare.lower() in _NOTHING or _ONLY_COMMENTS.fullmatch(body.rstrip("; \t\r\n")) is not None
    if says_nothing or _SAYS_NO.search(text):
        return None
    inside = _ANYWHERE.search(body)
    return _one_statement(body[inside.start() :]) if inside else body


def published_query(reply: str) -> str:
    """What the published leaderboard executes of a reply: the inside of a pair of <sql> tags if there is one, without
    back-ticks and without a line that reads `sql`; empty if nothing is left.
    """
    text = reply.strip()
    tagged = _PUBLISHED_TAG.search(text)
    return _PUBLISHED_LINE.sub("", (tagged[1] if tagged else text).strip().replace("`", "").strip())


def as_authors_mean(sql: str, present: str) -> str:
    """A query as the authors of EHRSQL execute it: in lower case, with the moment `present` for `current_time` and for
    'now', with numbers for the names of normal limits of vital signs, and with slips of the pen mended.

    Letters of formats in strftime keep their case, except %y and %j, which the data writes for %Y and %J: the authors
    lower them too, and minutes become months. If `present` is empty, the words for the present stay.

    >>> as_authors_mean("SELECT strftime('%y %M', current_time) < = 'A'", "2105-12-31 23:59:00")
    "select strftime('%Y %M', '2105-12-31 23:59:00') <= 'a'"
    """
    parts = _FORMAT.split(sql)
    parts[::2] = map(str.lower, parts[::2])
    parts[1::2] = (_LETTERS.sub(_lowered, part) for part in parts[1::2])
    text = _LIMIT.sub(lambda limit: _RANGES[limit[1]][limit[2] == "upper"], "".join(parts))
    if present:
        text = _PRESENT.sub(f"'{present}'", text).replace("'now'", f"'{present}'")
    for slip, meant in _SLIPS:
        text = text.replace(slip, meant)
    return text


def with_single_quotes(sql: str) -> str:
    """`sql` with one quotation mark for two: the authors mend `''2105-12-31''` like that.

    >>> with_single_quotes("select ''2105''")
    "select '2105'"
    """
    return sql.replace("''", "'")


def _lowered(part: re.Match[str]) -> str:
    """A piece of a format in lower case, unless it is a specifier."""
    return part[0] if len(part[0]) == 2 and part[0].startswith("%") else part[0].lower()


def _marked(text: str) -> str:
    """What a reply marks as its query: the inside of tags or of a code block; all of it if nothing is marked."""
    for pattern in (_TAGGED, _FENCED):
        blocks = [
            _DIALECT.sub("", block, count=1) if _DIALECT.match(block) else block for block in pattern.findall(text)
        ]
        if blocks:
            return next((block for block in reversed(blocks) if _start(block) is not None), blocks[-1]).strip()
    return text


def _start(body: str) -> int | None:
    """Where a statement begins: at the beginning, comments before it included; else where a line, or what follows a
    colon, looks like a query. None if nothing does.
    """
    if _BEGINS.match(body):
        return 0
    found = _ON_A_LINE.search(body)
    return found.start(1) if found else None


def _one_statement(text: str) -> str:
    """The statement at the beginning of `text`, and any that follow it at once, without the prose behind."""
    for token in _TOKEN.finditer(text):
        if token[0] == ";" and not _FOLLOWS.match(text, token.end()):
            return text[: token.end()].strip()
    for gap in _PARAGRAPH.finditer(text):
        if not _GOES_ON.match(text, gap.end()):
            return text[: gap.start()].strip("` \t\r\n")
    return text.strip("` \t\r\n")
