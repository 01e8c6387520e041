"""models.yaml: the models people define themselves. Each name maps to one `ModelDefinition`."""

from __future__ import annotations

import json
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
    model_validator,
)

from medhelm.domain import Price
from medhelm.errors import ConfigError, Problem, suggestion
from medhelm.io.strict_yaml import YamlDocument, read_yaml, validate, value_in_words
from medhelm.models.addresses import checked_address
from medhelm.models.price_book import Dollars
from medhelm.models.providers import PROVIDERS

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_LONGEST_PLAIN_VARIABLE = 24
"""A longer run of capitals and digits without an underscore is rather a key than the name of a variable."""

_RESERVED = {"model", "messages", "stream", "n", "system", "contents", "systemInstruction", "candidateCount", "modelId"}
_SECRET = re.compile(r"(?i).*(api[-_]?key|authorization|password|secret|(^|[-_])token$)")

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Words for how much a model should reason, of all services."""

_Count = Annotated[int, Field(gt=0)]


def _or_a_packages(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """A provider of an installed package, by its name; everything else as `check` has it."""
    if isinstance(value, str) and value not in PROVIDERS.built_in and value in PROVIDERS:
        return value
    return check(value)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class PriceDefinition(_Strict):
    """US dollars per million tokens."""

    input: Dollars
    """Per million input tokens that were not cached by the provider."""
    output: Dollars
    """Per million output tokens, hidden reasoning included."""
    cached_input: Dollars | None = None
    """Per million cached input tokens; absent: as `input`."""
    cache_write: Dollars | None = None
    """Per million input tokens that the provider writes into its cache; absent: as `input`."""

    @property
    def price(self) -> Price:
        """The same as a noun of the house."""
        return Price(
            input=self.input,
            output=self.output,
            cached_input=self.cached_input,
            cache_write=self.cache_write,
            source="models.yaml",
        )


class ModelDefinition(_Strict):
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

    @model_validator(mode="before")
    @classmethod
    def _is_mapping(cls, value: Any) -> Any:
        """A name in place of a definition is what people try first."""
        if isinstance(value, str) and value.lower().startswith(("http://", "https://")):
            raise ValueError("must be a mapping of keys to values: write {base_url: http...}.")
        provider, _, name = value.partition("/") if isinstance(value, str) else ("", "", "")
        if provider in PROVIDERS and re.fullmatch(r"[A-Za-z0-9./:_-]+", name):
            raise ValueError(f"must be a mapping of keys to values: write {{provider: {provider}, model: {name}}}.")
        return value

    @model_validator(mode="after")
    def _fits(self) -> ModelDefinition:
        if self.window and self.max_tokens and self.max_tokens >= self.window:
            raise ValueError(
                f"`max_tokens` {self.max_tokens} leaves no room for a prompt in a `window` of {self.window}. A window "
                "holds prompt and answer together."
            )
        return self

    @field_validator("reasoning_effort")
    @classmethod
    def _effort(cls, value: str) -> str:
        if value and value not in EFFORTS:
            help_ = suggestion(value, EFFORTS)
            raise ValueError(
                f"{value_in_words(value)} is no effort that is known here. {help_} What is new goes under `parameters`."
            )
        return value

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
        wrong = [f"`{name}` is set by this package and cannot be a parameter." for name in value if name in _RESERVED]
        secret = [name for name in value if _SECRET.match(name)]
        wrong += [f"`{name}` looks like a secret. Name the variable that holds it under `key`." for name in secret]
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            wrong.append("a number in it is too large to be sent.")
        if wrong:
            raise ValueError(" ".join(wrong))
        return value


_KEYS = ModelDefinition.model_fields.keys()


class _File(_Strict):
    models: dict[str, ModelDefinition]


def read_definitions(file: Path) -> Mapping[str, ModelDefinition]:
    """Name -> definition, in the order of the file. An empty file defines nothing.

    Raises: ConfigError with all problems and their lines; values that may be keys are not repeated.
    """
    document = read_yaml(file)
    if document.data is None and not document.problems:
        return {}
    problems = [*_misplaced(document), *_misnamed(document)]
    # The names stand at the top of the file; one level more gives the reader a model to compare with.
    wrapped = YamlDocument(
        place=document.place,
        data={"models": document.data},
        lines={("models", *path): line for path, line in document.lines.items()},
        text=document.text,
        problems=document.problems,
    )
    try:
        found = {} if _misplaced(document) else validate(wrapped, _File).models
    except ConfigError as error:
        problems += [Problem(p.text.removeprefix("models.").removeprefix("models: "), p.line) for p in error.problems]
    if problems:
        raise ConfigError(document.place, problems)
    return found


def _misplaced(document: YamlDocument) -> list[Problem]:
    """What is wrong with the file as a whole: its top maps the names of models to what they are."""
    data = document.data
    if not isinstance(data, dict):
        return [Problem("the top of the file must map names to models, such as `my-model: {base_url: http://...}`.")]
    if list(data) == ["models"] and isinstance(data["models"], dict) and not data["models"].keys() & _KEYS:
        line = document.line_of(("models",))
        return [
            Problem("models: names stand at the top of this file: leave this line out, and indent the rest less.", line)
        ]
    return []


def _misnamed(document: YamlDocument) -> list[Problem]:
    """Names that cannot be asked for, or that mean something else already."""
    problems = []
    for name in document.data if isinstance(document.data, dict) else ():
        line = document.line_of((name,))
        if not name.strip() or name != name.strip() or not name.isprintable():
            problems.append(Problem("a name must be a text in one line, without blanks around it.", line))
        elif name.startswith(("baseline/", "replay/")):
            problems.append(Problem(f"{name}: stays what it is; choose another name.", line))
    return problems
