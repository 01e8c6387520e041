"""One record for each provider: its title, addresses, keys, errors, examples and batch API, and how to open it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast, runtime_checkable

from medhelm.domain import FailureCode, Model
from medhelm.io.http.client import HttpClient
from medhelm.models.provider import Provider

Environment = Mapping[str, str]
"""Environment variables: name -> value."""

T = TypeVar("T")


@runtime_checkable
class Closable(Protocol):
    """Something that has to be closed, such as a loaded model or a server that was started."""

    async def close(self) -> None:
        """Close it and release all its resources. May be called more than once."""


class SharedResources:
    """Objects that the providers of a session share, such as loaded models, servers and locks; closed together."""

    def __init__(self, note: Callable[[str], object] | None = None) -> None:
        """`note` shows a message to the user; it is called in the event loop."""
        self.note = note or (lambda _: None)
        self._opened: dict[Hashable, object] = {}

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object of this key; the first call makes it with `make`."""
        if key not in self._opened:
            self._opened[key] = make()
        return cast("T", self._opened[key])

    def opened(self, kind: type[T]) -> list[T]:
        """Return all objects of one type, in the order of opening."""
        return [each for each in list(self._opened.values()) if isinstance(each, kind)]

    async def close(self) -> None:
        """Close all that are `Closable`, concurrently, then raise the first error."""
        import asyncio  # lazy: commands that read results need the names of the providers only

        ending = [each.close() for each in self._opened.values() if isinstance(each, Closable)]
        self._opened.clear()
        for outcome in await asyncio.gather(*ending, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """Objects that a provider may use in addition to its model."""

    http: HttpClient
    """The HTTP client; it enforces the egress policy."""
    environment: Environment
    """Environment variables, keys included."""
    seed: int
    """Seed of random numbers."""
    aliases: Mapping[str, str]
    """Alias of a benchmark -> its name."""
    resources: SharedResources = field(default_factory=SharedResources)
    """Objects that the providers of the session share."""

    def value_of(self, variable: str) -> str:
        """Return the value of an environment variable without surrounding whitespace; "" if it is not set."""
        return self.environment.get(variable, "").strip() if variable else ""

    def __repr__(self) -> str:
        """Leave out the environment, which holds keys."""
        return f"ProviderContext(seed={self.seed})"


Opener = Callable[[Model, ProviderContext], Provider]
"""Opens the provider of a model. Nothing is sent."""


@dataclass(frozen=True, slots=True)
class Setting:
    """An environment variable, other than the key, that a service needs to have an address."""

    variables: tuple[str, ...]
    """Its names; the first that is set counts."""
    example: str
    """A value for examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A provider of models."""

    name: str
    """The part of a model's name before the slash."""
    title: str
    """Its name in messages."""
    open: Opener
    """Opens the provider of a model."""
    examples: tuple[str, ...] = ()
    """Models as users name them, for `medhelm models list`; words in capitals are placeholders."""

    # --- address
    base_url: str = ""
    """Its own address, including the version; empty if it depends on the environment or the user."""
    locate: Callable[[str, str, Environment], str] | None = None
    """(address as written, name of the model, environment) -> base URL. Raises: ValueError with what is missing."""
    settings: tuple[Setting, ...] = ()
    """Variables without which it has no address."""
    resolve: Callable[[Model, Environment], Model] = lambda model, _: model
    """Checks the name of a model and adds what is known without a request. Raises: ValueError, UserError."""
    takes_address: bool = True
    """True if `@http://...` may follow the name of a model."""
    in_process: bool = False
    """True if it answers within this process without any model: always free."""

    on_cluster: bool = False
    """True if its models run in this process, so that actors can run them with `--cluster`."""

    # --- keys
    key_variables: tuple[str, ...] = ()
    """Variables that may hold its key; the first that is set counts."""
    default_key_variable: str = ""
    """The variable to ask for if none is set; empty: the first."""
    key_pairs: Mapping[str, str] = field(default_factory=dict)
    """Variable of a key -> the second variable that this key needs."""
    key_prefixes: Mapping[str, str] = field(default_factory=dict)
    """First characters of its keys -> the variable for such keys."""
    key_hints: Mapping[str, str] = field(default_factory=dict)
    """Variable -> where to get its key, as a sentence."""
    hosts: str = ""
    """Regular expression for its own hosts: only these and this machine get its key."""
    host_variable: str = ""
    """Variable with an address; its host also belongs to the service."""

    # --- errors
    error_codes: Mapping[str, FailureCode] = field(default_factory=dict)
    """Documented error code, type or reason, in lower case -> what it means."""
    error_phrases: Mapping[FailureCode, str] = field(default_factory=dict)
    """Meaning -> regular expression for messages, in lower case, that have no code of their own."""
    advice: Mapping[FailureCode, str] = field(default_factory=dict)
    """Code -> what to do, instead of the general advice; it may name `{model.remote_name}` and other fields."""
    lists_models: bool = True
    """True if the address of requests also lists its models."""

    batch: str = ""
    """`module:CLASS` of its batch API, a `BatchService`, which most runs do not import; empty if it has none."""

    def address(self, written: str, remote_name: str, environment: Environment) -> str:
        """Return the base URL of a model, given the address that the user wrote, "" if none.

        Raises: ValueError with the variables that are missing or invalid.
        """
        if self.locate is not None:
            return self.locate(written, remote_name, environment)
        return written or self.base_url

    def owns(self, host: str) -> bool:
        """Return True if a host is the service's own."""
        return bool(self.hosts) and re.fullmatch(self.hosts, host) is not None
