"""Remarks: findings that a reader of a table, report or page should know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding about results, for people and for programs.

    >>> str(Remark(code="few_instances", subject="pubmed_qa", text="PubMedQA has 12 instances: intervals are wide."))
    'PubMedQA has 12 instances: intervals are wide.'
    """

    code: str
    """Kind of finding, in snake case, such as `few_instances`: stable, so that programs can filter on it."""
    subject: str
    """Name of the model, benchmark, judge or metric it is about; empty for the results as a whole."""
    text: str
    """One or two complete sentences: the finding, its numbers, and what to do about it."""

    def __str__(self) -> str:
        """Return the text, for tables and logs."""
        return self.text
