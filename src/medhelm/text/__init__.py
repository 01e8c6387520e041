"""Reading what models write: plain functions from text to text, option, number or date. No model, no file, no network.

Every function takes any string, never raises, and needs time proportional to its length.
"""

from __future__ import annotations

from medhelm.text.choices import find_choice
from medhelm.text.dates import read_date, read_weeks_and_days
from medhelm.text.numbers import read_number
from medhelm.text.plain import after_reasoning, comparable, normalise, plain

__all__ = [
    "after_reasoning",
    "comparable",
    "find_choice",
    "normalise",
    "plain",
    "read_date",
    "read_number",
    "read_weeks_and_days",
]
