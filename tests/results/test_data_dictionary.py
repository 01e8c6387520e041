"""The dictionary of exported columns."""

from __future__ import annotations

import pytest

from medhelm.results.export import TABLES, ColumnEntry, MetricEntry, dictionary, to_markdown, to_rows

METRICS = [MetricEntry("exact_match", "Share of right answers.", "0 to 1"), MetricEntry("jury", "Grades.", "1 to 5")]


@pytest.mark.parametrize("texts", [False, True])
def test_every_column_is_described_once_in_a_sentence(texts: bool) -> None:
    for table, entries in dictionary(METRICS, texts=texts).items():
        assert table in TABLES
        names = [entry.column for entry in entries]
        assert len(names) == len(set(names)), table
        for entry in entries:
            assert entry.meaning.endswith("."), entry
            assert entry.missing, entry


def test_each_metric_has_a_column_for_each_rule() -> None:
    records = {entry.column: entry for entry in dictionary(METRICS, texts=False)["records"]}
    assert {"exact_match_corrected", "exact_match_published", "jury_corrected", "jury_published"} <= set(records)
    assert records["jury_published"].range == "1 to 5"
    assert records["exact_match_corrected"].meaning == "Share of right answers. Corrected rule."


def test_texts_are_described_only_where_they_are() -> None:
    def columns(texts: bool) -> set[tuple[str, str]]:
        found = dictionary(METRICS, texts=texts)
        return {(table, entry.column) for table, entries in found.items() for entry in entries}

    more = columns(True) - columns(False)
    assert columns(False) < columns(True)
    assert {("records", "completion"), ("judgments", "explanation"), ("prompts", "messages")} <= more
    assert {table for table, _ in more} == {"records", "judgments", "prompts"}


def test_columns_that_may_hold_patient_data_are_marked() -> None:
    found = dictionary(METRICS, texts=True)
    for table, column in (("records", "completion"), ("prompts", "messages"), ("judgments", "explanation")):
        (entry,) = [entry for entry in found[table] if entry.column == column]
        assert "patient data" in entry.meaning
    for entry in found["records"]:
        if entry.column == "instance_id":
            assert "identifies a patient" in entry.meaning
        if entry.column == "cluster":
            assert "keyed hash" in entry.meaning


def test_cells_that_do_not_apply_are_empty() -> None:
    rows = to_rows({"t": [ColumnEntry("c", "text", "Something.")]})
    assert rows == [
        {
            "table": "t", "column": "c", "type": "text", "unit": None, "range": None, "meaning": "Something.",
            "missing": "never missing",
        }
    ]  # fmt: skip


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("texts", [False, True])
def test_the_page_describes_the_files(format: str, texts: bool) -> None:
    page = to_markdown(dictionary(METRICS, texts=texts), format=format, texts=texts)
    assert ("These tables contain prompts and completions." in page) == texts
    assert ("apostrophe" in page) == (format == "csv")
    assert f"## records.{format}" in page
    assert all(f"## {table}.{format}" in page for table in TABLES if texts or table != "prompts")
    assert page.endswith("\n") and not page.endswith("\n\n")
