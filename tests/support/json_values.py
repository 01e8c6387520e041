"""Any JSON document, with the keys that a reader looks for."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


def json_values(*names: str) -> st.SearchStrategy[Any]:
    """Return a strategy of JSON values whose objects have these keys."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=4),
        max_leaves=12,
    )
