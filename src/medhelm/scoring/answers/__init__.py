"""Reading what models write: plain functions from text to text, option, number or date. No model, no file, no network.

Every function takes any string, never raises, and needs time proportional to its length.
"""

from __future__ import annotations

from medhelm.scoring.answers.choice import find_choice
from medhelm.scoring.answers.date import read_date, read_weeks_and_days
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.answers.plain_text import after_reasoning, comparable, normalize, plain

__all__ = [
    "after_reasoning",
    "comparable",
    "find_choice",
    "normalize",
    "plain",
    "read_date",
    "read_number",
    "read_weeks_and_days",
]
