"""The core works without extensions: it imports none of their modules, and finds what they declare by name."""

from __future__ import annotations

import pytest

from medhelm.io.plugins import GROUPS, extension_targets, from_extension
from tests.architecture.test_layers import MODULES, edges

MODULES_OF = {
    "cluster": (
        *("cli.gateway", "cli.merge", "evaluation.shards", "models.cluster", "models.gateway", "models.replicas"),
        "scoring.cluster",
    ),
    "local": ("models.local", "models.providers.huggingface", "models.providers.vllm"),
}
"""Extension -> its modules and packages outside its folder."""


def extension_of(module: str) -> str:
    """Return the extension that a module belongs to; "" for the core."""
    if module.startswith("extensions."):
        return module.split(".")[1]
    names = (name for name, places in MODULES_OF.items() if f"{module}.".startswith(tuple(f"{p}." for p in places)))
    return next(names, "")


def test_every_place_of_the_table_exists() -> None:
    assert {place for places in MODULES_OF.values() for place in places} <= set(MODULES)


def test_only_an_extension_imports_its_modules() -> None:
    belongs = [(a, b, extension_of(a), extension_of(b)) for a, b in edges()]
    assert [f"{a} imports {b} of {there}" for a, b, here, there in belongs if there not in ("", here)] == []


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in extension_targets(group)])
def test_everything_that_is_declared_exists(group: str, name: str) -> None:
    assert from_extension(group, name, extension="", what=name) is not None
