"""Completions in one plain style: what goes, what stays, and that no word or number is lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.domain.completion import strip_reasoning
from medhelm.extensions.study.texts import leveled


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>Which dose?</think>\n**5 mg**", "5 mg"),
        ("## Plan\n\n* **Aspirin** 81 mg 💊\n* follow-up\n", "Plan\n\n• Aspirin 81 mg\n• follow-up"),
        ("- a\n    - b\n- c", "• a\n  • b\n• c"),
        ("Title\n=====\ntext\n\n---\n\n\nmore", "Title\n\ntext\n\nmore"),
        ("| Drug | Dose |\n|---|:-:|\n| a | **5** |", "Drug | Dose\na | 5"),
        ("***both*** and **bold *it* bold** [site](http://x.y) `code`", "both and bold it bold site (http://x.y) code"),
        ("- * **Reduce salt\n- sleep:**", "• Reduce salt\n• sleep:"),
        ("- **- Salt:** less\n- - sleep\n* **• *rest***", "• Salt: less\n• sleep\n• rest"),
        ('- **"Sleep" blends', '• "Sleep" blends'),
        ("a**Dose**5 mg `b`c", "a**Dose**5 mg b c"),
        ("**Dose**5 mg (**b**) c", "Dose 5 mg (b) c"),
        ("> quoted\n```json\n{}\n```", "quoted\njson\n{}"),
        ("He said “no”… – it’s fine—really.", 'He said "no"... – it\'s fine – really.'),
        ("Great 🙂. ✅ yes ❌ no", "Great. ✓ yes ✗ no"),
        (f"{'seen in the emergency department with a cough that lasted'} for\nthree weeks\nHR 70",
         "seen in the emergency department with a cough that lasted for three weeks\nHR 70"),
    ],
)  # fmt: skip
def test_marks_are_dropped_and_texts_have_one_style(text: str, shown: str) -> None:
    assert leveled(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "T score\n- 2.5",  # a minus
        "+ fever\n- cough",  # present and absent
        "> 60 mL/min",
        "10**3 and 2*3*4, p = 0.03**",
        "ALT_max snake_case_name",
        "$$x_1 + y_2$$ and \\(a_b\\)",
        "K 3.2 → 4.0, ♀, 37 °C, ★★☆",
        "~~aspirin~~ clopidogrel",
        "BP 120/80\nHR 70",
        "می‌خواهم",
    ],
)
def test_what_may_have_a_meaning_stays(text: str) -> None:
    assert leveled(text) == text


PIECES = st.sampled_from(
    [
        *"*_`#>|-+•~=[]()\n \t\u200b\u202e—’🙂✅①⁵🔴❶",
        *("**", "***", "__", "```", "---", "|--|", "- ", "* ", "1. ", "\r\n", "##", "\u2028", "# ", "> ", "\n\n"),
        *("word", "5", "mg", "ünd", "dose", "](http://", "\ufe0f\u20e3", "हिन्दी", "x_y", "\n  - "),
    ]
)


@given(st.lists(PIECES | st.text(max_size=3), max_size=40).map("".join))
def test_no_word_and_no_number_is_lost_joined_or_moved(text: str) -> None:
    shown = leveled(text)
    assert _words(shown) == _words(strip_reasoning(text))
    assert not re.search(r"\n\n\n|[ \t]\n|\r", shown)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)
