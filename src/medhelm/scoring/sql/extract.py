"""Extract SQL from a completion and prepare it for execution, as the rules of the SQL metrics require."""

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
_BEFORE_STATEMENT = lazy_regex(rf"\A(?:{_COMMENTS};)*+{_COMMENTS}", re.DOTALL)
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
"""Vital sign -> lowest and highest normal value, from the evaluation by EHRSQL's authors."""

_LIMIT = lazy_regex(rf"\b({'|'.join(_RANGES)})_(lower|upper)\b")
_PRESENT = lazy_regex(r"\bcurrent_time\b")
_FORMAT = lazy_regex(r"(\bstrftime\s*\(\s*'[^']*')", re.IGNORECASE)
_LETTERS = lazy_regex(r"%[A-Z]|[^%]+|%")
_TYPING_ERRORS = (("< =", "<="), ("> =", ">="), ("! =", "!="), ("%y", "%Y"), ("%j", "%J"))


def find_query(completion: str) -> str | None:
    """Find the SQL in a completion; None for an abstention: empty, `null`, or "the question cannot be answered".

    It may be in <sql> tags, in a code block of any language (the last one with a query), or in prose. It ends at its
    semicolon unless another statement follows. Text that is neither SQL nor an abstention is returned unchanged, as a
    query that cannot be executed. So is reasoning that was cut off.

    >>> find_query("Sure:\\n```sql\\nselect 1;\\n```")
    'select 1;'
    >>> find_query("Unanswerable: the schema has no table of addresses.") is None
    True
    """
    text = strip_reasoning(completion).strip()
    if not text and not strip_reasoning(completion + "."):
        return completion.strip()
    body = _marked_block(text)
    start = _statement_start(body)
    if start is not None:
        return _one_statement(body[start:])
    bare = body.strip(" \t\r\n`'\";.()[]*")
    says_nothing = bare.lower() in _NOTHING or _ONLY_COMMENTS.fullmatch(body.rstrip("; \t\r\n")) is not None
    if says_nothing or _SAYS_NO.search(text):
        return None
    inside = _ANYWHERE.search(body)
    return _one_statement(body[inside.start() :]) if inside else body


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


def _marked_block(text: str) -> str:
    """Return the text inside tags or a code block; the whole text if there are none."""
    for pattern in (_TAGGED, _FENCED):
        blocks = [
            _DIALECT.sub("", block, count=1) if _DIALECT.match(block) else block for block in pattern.findall(text)
        ]
        if blocks:
            return next(
                (block for block in reversed(blocks) if _statement_start(block) is not None), blocks[-1]
            ).strip()
    return text


def _statement_start(body: str) -> int | None:
    """Return the position where a statement begins; None if none does.

    This is the beginning of the text, including comments; else the first place after a line break or colon that looks
    like a query.
    """
    if _BEGINS.match(body):
        return 0
    found = _ON_A_LINE.search(body)
    return found.start(1) if found else None


def _one_statement(text: str) -> str:
    """Return the statement at the beginning of `text` and those that follow directly, without trailing prose."""
    for token in _TOKEN.finditer(text):
        if token[0] == ";" and not _FOLLOWS.match(text, token.end()):
            return text[: token.end()].strip()
    for gap in _PARAGRAPH.finditer(text):
        if not _GOES_ON.match(text, gap.end()):
            return text[: gap.start()].strip("` \t\r\n")
    return text.strip("` \t\r\n")
