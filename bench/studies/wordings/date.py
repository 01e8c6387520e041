"""Wordings of a date: due dates and dates of conception, with the dates that they are computed from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

DAYS = (
    (date(2013, 12, 17), 280),
    (date(2006, 4, 4), 280),
    (date(2021, 2, 28), 283),
    (date(2020, 2, 29), 277),
    (date(1999, 12, 31), 280),
    (date(2009, 12, 14), 17),
    (date(2011, 6, 3), 14),
    (date(2010, 1, 30), 12),
)
"""Last menstrual periods, and the days to add."""

STYLES = (
    "%m/%d/%Y",
    "{m}/{d}/%Y",
    "%m-%d-%Y",
    "%m.%d.%Y",
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%B {d}, %Y",
    "%b {d}, %Y",
    "%b. {d}, %Y",
    "{d} %B %Y",
    "%d %b %Y",
    "{d}-%b-%Y",
    "%B {d}th, %Y",
    "{d}th of %B %Y",
    "%Y %B {d}",
    "%Y, %B {d}",
    "%Y-%b-%d",
    "%A, %B {d}, %Y",
    "the {d}th of %B, %Y",
    "%B {d} %Y",
    "%m / %d / %Y",
    "%B %d,%Y",
)

TEMPLATES = (
    # One date.
    "{due}",
    " {due}.\n",
    "**{due}**",
    "`{due}`",
    "```\n{due}\n```",
    '{{"answer": "{due}"}}',
    '```json\n{{"answer": "{due}"}}\n```',
    "{{'answer': '{due}'}}",
    "<answer>{due}</answer>",
    "\\boxed{{{due}}}",
    "$\\boxed{{\\text{{{due}}}}}$",
    "Answer: {due}",
    "**Estimated Due Date: {due}**",
    "The estimated due date is {due}.",
    "The date of conception would be {due}",
    "EDD {due}",
    "Assistant: {due}",
    "~{due}",
    "Around {due}",
    "Estimated date of delivery (EDD) = {due}",
    "It is {due} (40 weeks after the LMP).",
    "Using Naegele's rule with a 28-day cycle, the due date is {due}.",
    # Two dates and a stated one.
    "LMP {lmp} ... \\boxed{{{due}}}",
    "Start: {lmp}\n\n**{due}**",
    "LMP {lmp} → EDD {due}",
    "LMP {lmp} -> {due}",
    "LMP: {lmp}\nEDD: {due}",
    "Adding {n} days to {lmp} gives {due}",
    "LMP was {lmp}; the date of conception would be {due}",
    "LMP: {lmp}. Add {n} days. Estimated due date: {due}",
    "With an LMP of {lmp} the answer is {due}.",
    "{lmp} + {n} days = {due}",
    "{lmp} + {n} days = **{due}**",
    "{lmp} plus {n} days is {due}.",
    "{lmp} + {n} days\n\nAnswer: {due}",
    "The LMP was {lmp}. Therefore, the due date is {due}.",
    "The first day of the last period was {lmp}. The estimated due date is {due}, {n} days later.",
    "Based on the LMP of {lmp}, the estimated date of conception is {due}.",
    "If the LMP is {lmp}, then conception occurred on {due}.",
    "The last menstrual period is {lmp}. The due date is {due}.",
    "1. LMP: {lmp}\n2. Add {n} days\n3. Result: {due}",
    "1. LMP: {lmp}\n2. Add {n} days: {due}\n\nFinal answer: {due}",
    "Step 1: LMP = {lmp}\nStep 2: {lmp} + {n} days\nStep 3: {due}",
    "LMP is {lmp}.\n\n{due}",
    '{{"step_by_step_thinking": "LMP {lmp} plus {n} days", "answer": "{due}"}}',
    "The answer is {due}. The LMP was {lmp}.",
    "The due date is {due}. I added {n} days to the LMP, {lmp}.",
    "The estimated due date is {due}, counted from the LMP of {lmp}.",
    "{due} (LMP {lmp} + {n} days)",
    "{due}\n\nExplanation: LMP {lmp} plus {n} days.",
    "**{due}**\n\nThe LMP was {lmp}.",
    "**Answer:** {due}\n\n**Reasoning:** {lmp} + {n} days",
    "From {lmp}, {n} days later is {due}",
    "{n} days after {lmp} is {due}.",
    "Counting {n} days from {lmp} we arrive at {due}.",
    "LMP {lmp}; so the EDD falls on {due}.",
    "| LMP | {lmp} |\n|---|---|\n| EDD | **{due}** |",
    "<think>{lmp} ... maybe {lmp}?</think>{due}",
    "The patient's LMP ({lmp}) plus {n} days yields an EDD of {due}.",
    "Last menstrual period: {lmp}. Estimated date of delivery: {due}.",
    "Given LMP {lmp}, the estimated due date (EDD) is approximately **{due}**.",
    "LMP {lmp} + 1 year - 3 months + 7 days = {due}",
    "not {lmp} but {due}",
    "The answer is {due}, not {lmp}.",
    "I first thought {lmp}. The correct answer is {due}.",
    "The final answer is {due}; the LMP was {lmp} and the cycle 28 days.",
    "Conception: {due}\nLMP: {lmp}",
    "EDD: {due}; LMP: {lmp}",
    "The due date, {n} days after the LMP ({lmp}), is {due}.",
    "The LMP was on {lmp}, and the estimated due date is therefore {due}.",
    "Estimated due date = LMP + {n} days = {lmp} + {n} days = {due}",
)

OTHER = {
    "9/23/14": date(2014, 9, 23),
    "09/23/14": date(2014, 9, 23),
    "09-23-14": date(2014, 9, 23),
    "LMP 12/17/13, so the EDD is 09/23/14": date(2014, 9, 23),
    "Answer: 9/23/'14": date(2014, 9, 23),
    "12/31/99": date(1999, 12, 31),
    "Sep 23, '14": date(2014, 9, 23),
    "23/09/2014": date(2014, 9, 23),
    "23.09.2014": date(2014, 9, 23),
    "2014 February 22": date(2014, 2, 22),
    "2014 Feb 22": date(2014, 2, 22),
    "２０１４/０２/２２": date(2014, 2, 22),
    "٢٠١٤/٠٢/٢٢": date(2014, 2, 22),
    "2014年2月22日": date(2014, 2, 22),
    "2014-02-22T00:00:00": date(2014, 2, 22),
    "20140222": date(2014, 2, 22),
    "02/22/2014 (mm/dd/yyyy)": date(2014, 2, 22),
    "02/22/2014 00:00": date(2014, 2, 22),
    "02‑22‑2014": date(2014, 2, 22),
    "02–22–2014": date(2014, 2, 22),
    "02/22/2014 = February 22, 2014": date(2014, 2, 22),
    "LMP 12/17/2013 ... \\boxed{09/23/2014}": date(2014, 9, 23),
    "Start: 12/17/2013\n\n**09/23/2014**": date(2014, 9, 23),
    "LMP 12/17/2013 → EDD 09/23/2014": date(2014, 9, 23),
    "Adding 280 days gives 09/23/2014": date(2014, 9, 23),
    "the date of conception would be 12/31/2013": date(2013, 12, 31),
    "The EDD is September 23, 2014 (09/23/2014).": date(2014, 9, 23),
    "22nd February 2014": date(2014, 2, 22),
    "22nd of February, 2014": date(2014, 2, 22),
    "FEBRUARY 22, 2014": date(2014, 2, 22),
    "Feb-22-2014": date(2014, 2, 22),
    "February 22nd 2014": date(2014, 2, 22),
    "02/22/2014,": date(2014, 2, 22),
    "Date: 02/22/2014": date(2014, 2, 22),
    "22 février 2014": None,
    "The final answer is 09/23/2014. Wait, with a 30-day cycle the answer is 09/25/2014.": date(2014, 9, 25),
}

NONE = (
    "",
    "unknown",
    "The LMP is not given.",
    "09/2014",
    "September 2014",
    "September 23",
    "09/23",
    "2014",
    "02/30/2014",
    "13/32/2014",
    "00/10/2014",
    "February 30, 2014",
    "09/23/20145",
    "12/17/2013 or 09/23/2014",
    "12/17/2013, 09/23/2014",
    "Either 12/17/2013 or 12/18/2013.",
    "between 09/20/2014 and 09/27/2014",
    "09/20/2014 to 09/27/2014",
    "09/20/2014 - 09/27/2014",
    "The due date is between September 20, 2014 and September 27, 2014.",
    "The due date is 09/23/2014 or 09/24/2014.",
    "1.2.3.2014",
    "<think>09/23/2014",
    "280 days",
    "40 weeks",
    "27.4",
    "version 1.2.14",
    "12/15",
    "120/80/60",
    '{"answer": null}',
    "It is not 09/23/2014.",
    "The first trimester ended on 03/11/2014, the second on 06/17/2014.",
    "LMP: 12/17/2013\nCycle: 28 days",
    "The LMP was 12/17/2013.",
    "LMP 12/17/2013 + 280 days =",
)


def styled(day: date, style: str) -> str:
    """Write a date; the ordinals of the templates are those of a day that is valid."""
    ordinal = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}.get(day.day, "th")
    return day.strftime(
        style.replace("{d}th", f"{day.day}{ordinal}").replace("{d}", str(day.day)).replace("{m}", str(day.month))
    )


def forms() -> Iterator[tuple[str, date | None]]:
    """Yield texts and the date that each states."""
    for place, template in enumerate(TEMPLATES):
        for turn in range(10):
            start, days = DAYS[(place + turn) % len(DAYS)]
            style = STYLES[(3 * place + 7 * turn) % len(STYLES)]
            due = start + timedelta(days)
            yield template.format(lmp=styled(start, style), due=styled(due, style), n=days), due
    yield from OTHER.items()
    yield from ((text, None) for text in NONE)


FORMS = list(forms())
