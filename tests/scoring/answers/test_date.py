"""Which date, or how many weeks and days, a reply gives; more wordings are in `bench.studies.wordings`."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from medhelm.scoring.answers.date import read_date, read_weeks_and_days
from tests.support.cases import table

DATES = [
    "09/23/2014",
    "Sept. 23rd, 2014",
    "23rd of September, 2014",
    "2014 September 23",
    "09/23/2014 (September 23, 2014)",
    "LMP 12/17/2013, due 09/23/2014",
    "With an LMP of 12/17/2013 the answer is 09/23/2014, not 09/24/2014.",
]
NO_DATES = ["", "02/30/2014", "12/17/2013 or 09/23/2014"]
AGES = [
    ("('14 weeks', '2 days')", (14, 2)),
    ("1 week, 1 day", (1, 1)),
    ("14 weeks", (14, 0)),
    ("The gestational age is 14 weeks and 2 days.", (14, 2)),
    ("100 days is 14 weeks 2 days, i.e. (14 weeks, 2 days)", (14, 2)),
    ("From 13 weeks 1 day one week on. The answer is (14 weeks, 1 days)", (14, 1)),
]
NO_AGES = ["", "14.2 weeks", "13 weeks 1 day or 14 weeks 1 day"]


@table(("reply", "day"), [*((reply, date(2014, 9, 23)) for reply in DATES), *((reply, None) for reply in NO_DATES)])
def test_the_date_is_read(reply: str, day: date | None) -> None:
    assert read_date(reply) == day


@table(("reply", "age"), [*AGES, *((reply, None) for reply in NO_AGES)])
def test_the_age_is_read(reply: str, age: tuple[int, int] | None) -> None:
    assert read_weeks_and_days(reply) == age


@given(
    st.dates(min_value=date(1000, 1, 1)),
    st.sampled_from(["%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d-%b-%Y", "%m/%d/%Y", "%Y-%m-%d"]),
)
def test_any_day_is_read_with_every_name_of_its_month(day: date, form: str) -> None:
    assert read_date(day.strftime(form)) == day
