"""Separate the reasoning that a model writes into its text from its answer.

Servers with a reasoning parser return the reasoning in a field of its own. Others leave it in the text, between the
markers of the model. Reasoning is not the answer: it is not scored, judged, rated or shown.

A marker in quotation marks or backticks is a mention. So is a block inside a line of a text that is otherwise no
reasoning: "Use <think> tags </think> sparingly."
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class _Marker(NamedTuple):
    """Start and end of reasoning, as regular expressions."""

    start: str
    end: str
    may_be_headless: bool = True
    """True if an end without a start shows that the prompt has opened it; False for words that other texts have."""


_NAMES = r"(?:seed:|mm:|ant|longcat_)?(?:think|thinking|thoughts?|reasoning|scratchpad|inner_monologue)"
_HEADER = r"[^<\n]{0,80}(?:<\|[a-z]+\|>[^<\n]{0,40})?<\|message\|>"

_MARKERS = (
    # <think> of DeepSeek R1, Qwen, GLM, Nemotron, MiniMax and most others; <thought> of EXAONE and Marco-o1; Seed-OSS
    # <seed:think>; LongCat <longcat_think>; <antThinking> of Claude
    _Marker(rf"<\s?{_NAMES}>", rf"<\s?/\s?{_NAMES}>"),
    _Marker(r"<unused94>(?:thought\b)?", r"<unused95>"),  # MedGemma 1.5
    _Marker(r"<\|channel>\s?thought\b", r"<channel\|>"),  # Gemma 4
    # gpt-oss ("harmony"): every channel but `final`, also where the server has removed the special tokens
    _Marker(
        rf"(?:<\|start\|>assistant)?<\|channel\|>\s?(?:analysis|commentary)\b{_HEADER}|\A(?-i:analysis(?=[A-Z]))",
        rf"(?:<\|end\|>\s?)?(?:<\|start\|>)?(?:assistant)?<\|channel\|>\s?final\b{_HEADER}|(?-i:assistantfinal)",
    ),
    _Marker(r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    _Marker(r"◁think▷", r"◁/think▷"),  # Kimi-VL
    _Marker(r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # Sky-T1, OpenThinker
    _Marker(r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Command A Reasoning
    _Marker(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    _Marker(
        r"<\|(?:think|thinking|thought)\|>",  # Solar, and others of this form
        r"<\|(?:/|end_?)(?:think|thinking|thought)\|>|<\|end\|>(?=\s?<\|begin\|>)",
    ),
    _Marker(r"<start_working_out>", r"<end_working_out>"),
)
"""Sources: the chat templates and model cards of these models. Each begins with one of the characters `_FIRST`."""

_HEADINGS = (
    _Marker(r"\A\s{0,9}#{1,4} Thinking\s{0,3}\n", r"^#{1,4} Final Response[ :]{0,3}$", False),  # HuatuoGPT-o1
    _Marker(r"\A\s{0,9}Here is my thought process:", r"^\s{0,9}Here is my response:", False),  # Granite 3.2
)
"""Headings and sentences at the beginning of a text."""

_FIRST = r"<\[◁a"

_WRAPPERS = (
    r"<\|(?:return|end|call|(?:begin|end)_of_solution|(?:START|END)_(?:RESPONSE|TEXT)|begin\|>assistant<\|content)\|>"
    r"|</?(?:output|response)>|<(?:start|end)_of_turn>"
)
"""Markers around the answer of the same models; removed only beside reasoning."""

_ENDS_OF_NAMES = ("think", "thinking", "thought", "thoughts", "reasoning", "scratchpad", "inner_monologue")
_HEADING_HINTS = ("# thinking", "here is my thought process:")
_HINTS = (
    *(f"{name}{end}" for name in _ENDS_OF_NAMES for end in (">", "|>")), "<unused94>", "<unused95>", "<|channel",
    "channel|>", "[think]", "[/think]", "◁", "<|inner_", "working_out>", "assistantfinal", "<|end|>", *_HEADING_HINTS,
)  # fmt: skip
"""Texts without any of these, in lower case, have no marker, except for the first word of gpt-oss."""

_SIGNS = ("<", "[", "◁", "#", "analysis", "assistantfinal", "ere is my thought process:")
"""Texts without any of these have no marker."""

_NEAR = 200
"""Characters beside a block that are looked at."""

_QUOTES = "`\"'“”‘’"

Tags = Sequence[tuple[str, str]]
"""Further pairs of start and end, as plain text."""


class SplitText(NamedTuple):
    """A text of a model, in two parts."""

    reasoning: str
    """Its reasoning, without markers; empty if it has none."""
    answer: str
    """The rest."""


def split_reasoning(text: str, tags: Tags = (), *, start_only: bool = False) -> SplitText:
    r"""Split a model's text into reasoning and answer.

    An end without a start makes everything before it reasoning: the prompt has opened it. Reasoning that does not end
    was cut off, so no answer follows it. Blank space between reasoning and answer is removed.

    Parameters
    ----------
    tags : pairs of start and end that a model uses besides the known ones
    start_only : only reasoning at the very beginning counts, and needs its start: the text may quote another one, as
        the reply of a judge does

    >>> split_reasoning("<think>A or B?</think>\n\nB")
    SplitText(reasoning='A or B?', answer='B')
    >>> split_reasoning("Blood gas analysis: B")
    SplitText(reasoning='', answer='Blood gas analysis: B')
    """
    if not tags and not any(sign in text for sign in _SIGNS):
        return SplitText("", text)
    lower = text.lower()
    if not tags and not text.startswith("analysis") and not any(hint in lower for hint in _HINTS):
        return SplitText("", text)
    pattern = _pattern(tuple(map(tuple, tags)), any(hint in lower for hint in _HEADING_HINTS))
    thoughts, kept = (_leading if start_only else _blocks)(text, pattern)
    if not thoughts:
        return SplitText("", text)
    return SplitText("\n".join(thoughts).strip(), re.sub(_WRAPPERS, "", "".join(kept)).lstrip())


def strip_reasoning(completion: str) -> str:
    """Return a completion without the reasoning that some models write into it (`split_reasoning`).

    >>> strip_reasoning("<think>A or B?</think>B")
    'B'
    """
    return split_reasoning(completion).answer


def is_marker(text: str) -> bool:
    """Return True if a text is a known start or end of reasoning.

    >>> is_marker("[THINK]"), is_marker("</s>")
    (True, False)
    """
    return _pattern(()).fullmatch(text) is not None


@lru_cache(maxsize=64)
def _pattern(tags: tuple[tuple[str, ...], ...], has_headings: bool = False) -> re.Pattern[str]:
    """Return one expression for all markers: group `s0` is the first start, `e0` its end (`f0` if it needs a start)."""
    own = [_Marker(re.escape(start), re.escape(end)) for start, end in tags]
    first = _FIRST + "".join(re.escape(text[0]) for pair in tags for text in pair)
    found = []
    for n, marker in enumerate([*own, *_MARKERS, *(_HEADINGS if has_headings else ())]):
        end = "e" if marker.may_be_headless else "f"
        found.append(f"(?P<s{n}>{marker.start})|(?P<{end}{n}>{marker.end})")
    near = r"\s#h" if has_headings else ""
    return re.compile(f"(?=[{first}{near}])(?:{'|'.join(found)})", re.IGNORECASE | re.MULTILINE)


def _leading(text: str, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Return the reasoning at the beginning of a text, and the rest."""
    thoughts: list[str] = []
    position, is_open = 0, ""
    for mark in pattern.finditer(text):
        kind, family = mark.lastgroup[0], mark.lastgroup[1:]  # type: ignore[index]
        if not is_open:
            if kind != "s" or text[position : mark.start()].strip():
                break
            is_open, position = family, mark.end()
        elif kind != "s" and family == is_open:
            thoughts.append(text[position : mark.start()] or " ")
            is_open, position = "", mark.end()
    if is_open:
        return [*thoughts, text[position:] or " "], []
    return thoughts, [text[position:]]


def _blocks(text: str, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Return all reasoning in a text, and everything else."""
    thoughts: list[str] = []
    kept: list[str] = []
    position, start, is_open = 0, 0, ""
    for mark in pattern.finditer(text):
        kind, family = mark.lastgroup[0], mark.lastgroup[1:]  # type: ignore[index]
        if _is_mention(mark):
            continue
        if kind == "s":
            if not is_open:
                kept.append(text[position : mark.start()])
                start, position, is_open = mark.start(), mark.end(), family
        elif not is_open and kind == "e":
            thoughts.append("".join([*kept, text[position : mark.start()]]) or " ")
            kept, position = [], mark.end()
        elif family == is_open:
            if not thoughts and _is_inside_line(text, start, mark.end()):
                kept.append(text[start : mark.end()])
            else:
                thoughts.append(text[position : mark.start()] or " ")
                if kept and not text[max(0, start - 1)].isspace():
                    kept.append("\n")
            position, is_open = mark.end(), ""
    if is_open:
        return [*thoughts, text[position:] or " "], kept
    return thoughts, [*kept, text[position:]]


def _is_mention(mark: re.Match[str]) -> bool:
    """Return True if a marker is in quotation marks."""
    before, after = mark.string[mark.start() - 1 : mark.start()], mark.string[mark.end() : mark.end() + 1]
    return bool(before and after) and before in _QUOTES and after in _QUOTES


def _is_inside_line(text: str, start: int, end: int) -> bool:
    """Return True if a block lies within one line, with words on both sides."""
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    words = before.rpartition("\n")[2].strip() and after.partition("\n")[0].strip()
    return "\n" not in text[start:end] and bool(words)
