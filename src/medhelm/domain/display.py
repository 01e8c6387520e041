"""Display of results in Python and in notebooks."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar


class Displayable:
    """An object with a short `repr`, a table for notebooks, and conversions to JSON and to data frames."""

    __slots__ = ()

    VIEW: ClassVar[str]
    """`module:name` of the `ObjectView` that renders it, in `reports`, a layer above; imported on first use."""

    def _view(self) -> Any:
        module, _, name = self.VIEW.partition(":")
        return getattr(import_module(module), name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._view().summarize(self)}>"

    def __str__(self) -> str:
        return str(self._view().to_text(self))

    def _repr_html_(self) -> str:
        return str(self._view().to_html(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values, with the keys of the command's `--json`."""
        result: dict[str, Any] = self._view().as_json(self)
        return result

    def to_frame(self, by: str = "", *, library: str = "") -> Any:
        """Return the result as a data frame, every number in a column of its own.

        Parameters
        ----------
        by
            Rows of a leaderboard: `overall`, `category`, `subcategory`, `benchmark` or `head-to-head`.
        library
            `pandas` or `polars`; empty for the one that is installed, pandas if both are.

        Raises
        ------
        MissingError
            If neither pandas nor polars is installed.
        UserError
            For another `by` or `library`.
        """
        return self._view().to_frame(self, by, library)
