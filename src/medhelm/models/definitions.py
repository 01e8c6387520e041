"""models.yaml: the models people define themselves. Each name maps to one `Definition`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from medhelm.config import Document, load_yaml, validate
from medhelm.domain import Price
from medhelm.errors import ConfigError, Problem
from medhelm.models.addresses import checked_address
from medhelm.models.providers import PROVIDERS

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_LONGEST_PLAIN_VARIABLE = 24
"""A longer run of capitals and digits without an underscore is rather a key than the name of a variable."""

_RESERVED = {"model", "messages", "stream", "n", "system", "contents", "systemInstruction", "candidateCount", "modelId"}
_SECRET = re.compile(r"(?i).*(api[-_]?key|authorization|password|secret|(^|[-_])token$)")

_Count = Annotated[int, Field(gt=0)]
_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _or_a_packages(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """A provider of an installed package, by its name; everything else as `check` has it."""
    if isinstance(value, str) and value not in PROVIDERS.built_in and value in PROVIDERS:
        return value
    return check(value)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PriceDefinition(_Strict):
    """US dollars per million tokens."""

    input: _Dollars
    """Per million input tokens that were not cached by the provider."""
    output: _Dollars
    """Per million output tokens, hidden reasoning included."""
    cached_input: _Dollars | None = None
    """Per million cached input tokens; absent: as `input`."""

    @property
    def price(self) -> Price:
        """The same as a noun of the house."""
        return Price(input=self.input, output=self.output, cached_input=self.cached_input, source="models.yaml")


class Definition(_Strict):
    """One model of models.yaml. Every key may be left out."""

    provider: Annotated[
        Literal["openai", "azure", "anthropic", "google", "vertex", "bedrock", "hf", "vllm", "ollama", "llamacpp"],
        WrapValidator(_or_a_packages),
    ] = "openai"
    """Whose dialect it speaks; `openai` for every OpenAI-compatible server. Providers of packages go by their names."""
    model: str = ""
    """What the server calls it; absent: its name in models.yaml."""
    insecure: bool = False
    """Whether http:// may lead to a host outside this machine and private networks."""
    base_url: str = ""
    """Address of the service, up to and including its version part; absent: the provider's own."""
    key: str = ""
    """Environment variable that holds the key; absent: the rule of `models.keys`."""
    price: PriceDefinition | None = None
    """What it costs; absent: looked up where the vendor is known."""
    window: _Count | None = None
    """Tokens that prompt and completion may have together."""
    reasoning: bool | None = None
    """Whether it spends hidden tokens before it answers; absent: judged by its name."""
    reasoning_effort: str = ""
    """Effort asked of a reasoning model, such as `low`."""
    max_tokens: _Count | None = None
    """Limit on completions, instead of the benchmark's."""
    max_concurrency: _Count | None = None
    """Most requests in flight."""
    structured: bool = True
    """Whether its server may be asked to hold it to a JSON schema; one that cannot is found out by itself."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Further request parameters, sent as they are; null leaves a parameter out that would be sent."""
    serve_arguments: list[str | int | float] = Field(default_factory=list)
    """Further words for `vllm serve`, such as `[--max-model-len, 8192]`."""

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str, info: ValidationInfo) -> str:
        address = checked_address(value, insecure=bool(info.data.get("insecure")))
        if "?" in address and info.data.get("provider") != "azure":
            raise ValueError("`?api-version=` belongs to `provider: azure`.")
        return address

    @field_validator("key")
    @classmethod
    def _variable(cls, value: str) -> str:
        """Never repeats the value: it may be a key."""
        plain = "_" not in value and len(value) > _LONGEST_PLAIN_VARIABLE
        if not _VARIABLE.fullmatch(value) or plain:
            raise ValueError(
                "must be the name of an environment variable in capitals, such as MY_SERVER_KEY. "
                "If this is the key itself, take it out of the file and put it into that variable."
            )
        return value

    @field_validator("parameters")
    @classmethod
    def _sendable(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in _RESERVED:
                raise ValueError(f"`{name}` is set by this package and cannot be a parameter.")
            if _SECRET.match(name):
                raise ValueError(f"`{name}` looks like a secret. Name the variable that holds it under `key`.")
        return value


class _File(_Strict):
    models: dict[str, Definition]


def read_definitions(file: Path) -> Mapping[str, Definition]:
    """Name -> definition, in the order of the file. An empty file defines nothing.

    Raises: ConfigError with all problems and their lines; values that may be keys are not repeated.
    """
    document = load_yaml(file)
    if document.data is None:
        return {}
    # The names stand at the top of the file; one level more gives the reader a model to compare with.
    wrapped = Document(
        place=document.place,
        data={"models": document.data},
        lines={("models", *path): line for path, line in document.lines.items()},
        text=document.text,
    )
    try:
        return validate(wrapped, _File).models
    except ConfigError as error:
        problems = [Problem(p.text.removeprefix("models.").removeprefix("models: "), p.line) for p in error.problems]
        raise ConfigError(error.place, problems) from None
