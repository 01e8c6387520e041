"""Read answers from completions: an option, a number, a date, or a normalized text.

Every function takes any string, never raises, and runs in time proportional to the length of the string.
"""
