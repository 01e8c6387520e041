"""Which date, or how many weeks and days, a reply gives as its answer."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.scoring.answers.date import read_date, read_weeks_and_days
from tests.support.cases import table

DATES = [
    "09/23/2014",
    " 09/23/2014.\n",
    "09-23-2014",
    "09.23.2014",
    "2014-09-23",
    "23/09/2014",
    "September 23, 2014",
    "Sep 23, 2014",
    "Sept. 23rd, 2014",
    "23 September 2014",
    "23rd of September, 2014",
    "23-Sep-2014",
    '{"answer": "09/23/2014"}',
    "09/23/2014 (September 23, 2014)",
    "LMP: 12/17/2013. Add 280 days. Estimated due date: 09/23/2014",
    "With an LMP of 12/17/2013 the answer is 09/23/2014, not 09/24/2014.",
]

SEVERAL_DATES = [
    "LMP 12/17/2013 ... \\boxed{09/23/2014}",
    "LMP 12/17/2013 → EDD 09/23/2014",
    "LMP 12/17/2013, due 09/23/2014",
    "9/23/14",
    "2014 September 23",
]

NO_DATES = [
    "",
    "unknown",
    "09/2014",
    "02/30/2014",
    "09/23/20145",
    "12/17/2013 or 09/23/2014",
    "1.2.3.2014",
    "<think>09/23/2014",
]

AGES = [
    ("('14 weeks', '2 days')", (14, 2)),
    ("(14 weeks, 2 days)", (14, 2)),
    ("14 weeks 2 days", (14, 2)),
    ("14 weeks, 2 days", (14, 2)),
    ("1 week, 1 day", (1, 1)),
    ("0 weeks 6 days", (0, 6)),
    ("14w2d", (14, 2)),
    ("14+2", (14, 2)),
    ("14 2/7 weeks", (14, 2)),
    ("(14, 2)", (14, 2)),
    ("The gestational age is 14 weeks and 2 days.", (14, 2)),
    ("14 weeks", (14, 0)),
    ('{"weeks": 14, "days": 2}', (14, 2)),
    ("[18, 1]", (18, 1)),
    ('{"answer": [18, 1]}', (18, 1)),
    ("100 days is 14 weeks 2 days, i.e. (14 weeks, 2 days)", (14, 2)),
    ("From 13 weeks 1 day one week on. The answer is (14 weeks, 1 days)", (14, 1)),
]

NO_AGES = [
    "",
    "14.2 weeks",
    "14 weeks 2-3 days",
    "14",
    "13 weeks 1 day or 14 weeks 1 day",
]


@table("reply", DATES + SEVERAL_DATES)
def test_the_date_is_read(reply: str) -> None:
    assert read_date(reply) == date(2014, 9, 23)


@table("reply", NO_DATES)
def test_no_date(reply: str) -> None:
    assert read_date(reply) is None


@table("month", range(1, 13))
def test_every_month_has_its_names(month: int) -> None:
    day = date(2021, month, 13)
    for form in ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d-%b-%Y", "%m/%d/%Y"):
        assert read_date(day.strftime(form)) == day


@table(("reply", "age"), AGES)
def test_the_age_is_read(reply: str, age: tuple[int, int]) -> None:
    assert read_weeks_and_days(reply) == age


@table("reply", NO_AGES)
def test_no_age(reply: str) -> None:
    assert read_weeks_and_days(reply) is None


@settings(deadline=None)
@given(st.dates(min_value=date(1000, 1, 1)))
def test_any_day_is_read_in_digits(day: date) -> None:
    assert read_date(f"{day.month}/{day.day}/{day.year}") == day
    assert read_date(day.isoformat()) == day


PIECES = st.sampled_from(["1", "23", "2014", "/", "-", "May", "weeks", "d", "+", "(", "answer", ":", "\n", " ", "٣"])


@settings(deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=14).map("".join), st.lists(PIECES, max_size=14).map(" ".join)))
def test_any_text_gives_an_answer_or_none(reply: str) -> None:
    assert read_date(reply) is None or isinstance(read_date(reply), date)
    assert read_weeks_and_days(reply) is None or len(read_weeks_and_days(reply) or ()) == 2


LENGTH = 200_000


@pytest.mark.parametrize(
    "piece", ["1", "1/", "1 ", "1w", "1 weeks ", "May ", "answer ", "final is ", "-", "(", "2014-", "\n"]
)
def test_long_replies_are_read(piece: str) -> None:
    """Every pattern is bounded: with quadratic time, a reply of this length would take minutes."""
    reply = piece * (LENGTH // len(piece))
    assert read_date(reply + " answer: 09/23/2014") in (None, date(2014, 9, 23))
    assert read_weeks_and_days(reply + " answer: 14w2d") in (None, (14, 2))
