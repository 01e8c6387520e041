"""Reads YAML files of this package without checks; `io.strict_yaml` reads those of users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader with libyaml is an order of magnitude faster; PyYAML can be installed without it."""


def read_package_yaml(path: Path) -> Any:
    """Return the content of a YAML file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)  # noqa: S506 - a safe one
