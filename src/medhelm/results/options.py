"""The options of commands and functions that read a store: which runs they read, and how they rank models.

Light: the command line makes its options of these fields, and shell completion reads them at every press of a key.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from medhelm.domain.arguments import as_names, shortened
from medhelm.domain.options import option
from medhelm.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Conditions on runs. Names may be shortened to a prefix that no other name has."""

    models: Collection[str] = option(
        "--model",
        "Only runs of this model; the beginning of its name is enough; repeatable.",
        (),
        metavar="MODEL",
        completes="stored_models",
    )
    excluded: Collection[str] = option(
        "--exclude", "Exclude runs of this model; repeatable.", (), metavar="MODEL", completes="stored_models"
    )
    benchmarks: Collection[str] = option(
        "--benchmark",
        "Only runs on this benchmark; repeatable.",
        (),
        metavar="BENCHMARK",
        completes="stored_benchmarks",
    )
    since: datetime | None = option(
        "--since",
        "Only runs that started on this day or later, in UTC, such as 2026-11-01 or 2026-11-01T14:30.",
        metavar="DATE",
    )

    def __post_init__(self) -> None:
        """Accept one name in place of several. Raises: UserError for values that are not names or a time."""
        for name in ("models", "excluded", "benchmarks"):
            object.__setattr__(self, name, tuple(as_names(getattr(self, name), name)))
        if self.since is not None and not isinstance(self.since, datetime):
            raise UserError(f"`since` must be a datetime. This is not: {shortened(self.since)}.")

    @property
    def is_empty(self) -> bool:
        """True if every run meets it."""
        return not (self.models or self.excluded or self.benchmarks or self.since)


EVERY_RUN = RunFilter()
"""The filter without conditions."""
