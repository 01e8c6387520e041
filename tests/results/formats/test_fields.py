"""Fields: one description gives JSON, its schema, columns of files, and tables."""

from __future__ import annotations

from dataclasses import dataclass

from medhelm.domain import Estimate
from medhelm.results.formats.fields import (
    ABSENT,
    Field,
    columns_of,
    fields_json,
    fields_schema,
    file_rows,
    rounded_rows,
    select_fields,
    table_of,
)


@dataclass(frozen=True)
class Item:
    """A model with a mean."""

    name: str
    mean: Estimate | None
    failed: int = 0


FIELDS: list[Field[Item]] = [
    Field(key="name", kind="text", get=lambda item: item.name, heading="Name", meaning="Name of the model."),
    Field(key="mean", kind="interval", get=lambda item: item.mean, heading="Mean", missing="no score"),
    Field(key="failed", kind="whole number", get=lambda item: item.failed, heading="Failed", hide_empty=True, drop=2),
    Field(key="share", get=lambda item: 1 / 3, column="share_of_all", heading="Share", is_wide=True, drop=1),
    Field(
        key="tags", kind="object", schema={"type": "array"}, get=lambda item: item.failed or ABSENT, is_optional=True
    ),
    Field(key="panel", kind="text", get=lambda item: "x", in_json=False, is_present=False),
]
KNOWN = Item("a", Estimate(value=1 / 3, low=0.25, high=0.5, n=9, n_failed=0), failed=2)
UNKNOWN = Item("b", None)


def test_json_is_rounded_nested_and_leaves_out_what_an_item_does_not_have() -> None:
    assert fields_json(FIELDS, KNOWN) == {
        "name": "a", "mean": {"value": 0.333333, "low": 0.25, "high": 0.5}, "failed": 2, "share": 0.333333, "tags": 2,
    }  # fmt: skip
    assert fields_json(FIELDS, UNKNOWN) == {"name": "b", "mean": None, "failed": 0, "share": 0.333333}


def test_the_schema_requires_every_key_but_optional_ones_and_allows_null_where_a_value_can_be_missing() -> None:
    schema = fields_schema(FIELDS)
    assert schema["required"] == ["name", "mean", "failed", "share"]
    assert set(schema["properties"]) == {"name", "mean", "failed", "share", "tags"}
    assert schema["properties"]["name"] == {"type": "string", "description": "Name of the model."}
    assert schema["properties"]["mean"]["type"] == ["object", "null"]


def test_files_have_a_column_for_each_number_and_known_ones_first() -> None:
    columns = columns_of(FIELDS, "failed mean")
    assert [column.key for column in columns] == [
        "failed", "mean", "name", "mean_low", "mean_high", "share_of_all", "panel"
    ]  # fmt: skip
    assert columns[3].meaning == "Lower end of the 95% interval of mean."
    (known, unknown) = file_rows(columns, [KNOWN, UNKNOWN])
    assert (known["mean"], known["mean_low"], known["panel"]) == (1 / 3, 0.25, None)
    assert (unknown["mean"], unknown["mean_high"]) == (None, None)
    rows, headers = rounded_rows(select_fields(columns, "name mean panel"), [KNOWN, UNKNOWN])
    assert (rows, headers) == ([["a", 0.333333], ["b", None]], ["name", "mean"])


def test_tables_hide_empty_and_wide_columns_and_name_the_least_important_first() -> None:
    assert table_of(FIELDS, [UNKNOWN]) == ([["b", None]], ["Name", "Mean"], [])
    rows, headers, dropped = table_of(FIELDS, [KNOWN], wide=True)
    assert rows == [["a", "0.333 [0.250, 0.500]", 2, "0.333"]]
    assert (headers, dropped) == (["Name", "Mean", "Failed", "Share"], ["Share", "Failed"])
    assert table_of(FIELDS, []) == ([], ["Name", "Mean", "Share"][:2], [])
