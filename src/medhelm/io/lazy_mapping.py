"""A mapping from names to objects that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class LazyMapping(Mapping[str, T], Generic[T]):
    """Imports a value on first access; its names, and whether a name exists, are known without any import.

    >>> functions = LazyMapping({"square_root": "math:sqrt"})
    >>> list(functions), functions["square_root"](9.0)
    (['square_root'], 3.0)
    """

    def __init__(self, targets: Mapping[str, str]) -> None:
        """`targets`: name -> `module:attribute`."""
        self._targets = targets
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            module, _, attribute = self._targets[name].partition(":")
            self._loaded[name] = cast("T", getattr(import_module(module), attribute))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)
