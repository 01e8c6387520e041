"""Reading models.yaml, in which users define models, and jury.yaml, which names judges.

Each name in models.yaml maps to one `ModelDefinition`.

A name `PROVIDER/NAME` always belongs to that provider: an entry can change its settings, but not where it is. A file
that is merely found in the working folder may come from somebody else, so it cannot send a provider's key elsewhere,
and each key that it sends is reported with its host. Other variables are keys only if their names say so.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from medhelm.domain import Model
from medhelm.domain.text import listed, value_in_words
from medhelm.errors import ConfigError, Problem, suggestion
from medhelm.io.http.hosts import host_of, is_loopback
from medhelm.io.strict_yaml import YamlDocument, read_yaml, validate
from medhelm.models.addresses import checked_address, checked_endpoints, checked_pool, checked_proxy
from medhelm.models.keys import GENERAL_KEY
from medhelm.models.price_book import PriceDefinition
from medhelm.models.providers import SERVICES, answers_in_process

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_MAX_PLAIN_VARIABLE = 24
"""A longer text of capitals and digits without an underscore is probably a key, not the name of a variable."""

_OWN_VARIABLES = "MEDHELM_"
"""First characters of the variables of MedHELM, such as the key of a store. Only GENERAL_KEY is a key for servers."""

_KEY_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_KEY")
"""Variables of unknown servers, such as WARD_KEY or GROQ_API_KEY, that a file in the working folder may name ..."""

_NOT_OF_MODELS = {
    "ACCESS", "ACCOUNT", "AWS", "AZURE", "DATABASE", "DB", "DEPLOY", "ENCRYPTION", "GCP", "GITHUB", "GITLAB", "GOOGLE",
    "HOST", "JWT", "MASTER", "PRIVATE", "SECRET", "SESSION", "SIGNING", "SSH", "SSL", "STORAGE", "STORE", "TLS",
}  # fmt: skip
"""... unless one of these words is in the name: then it is a key for something else."""

_PLAIN_FIRST = re.compile(r"[A-Za-z0-9._-]+")
_SLASHES = dict.fromkeys(map(ord, "\N{FRACTION SLASH}\N{DIVISION SLASH}\N{BIG SOLIDUS}\N{FULLWIDTH SOLIDUS}"), "/")
_ALIKE = str.maketrans("01l", "oii")
"""Characters that look like others in a name."""

_RESERVED = {"model", "messages", "stream", "n", "system", "contents", "systemInstruction", "candidateCount", "modelId"}
_SECRET = re.compile(r"(?i).*(api[-_]?key|authorization|password|secret|(^|[-_])token$)")

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Reasoning efforts of all services."""

_Count = Annotated[int, Field(gt=0)]
_Tags = Annotated[list[Annotated[str, Field(min_length=2, max_length=200)]], Field(min_length=2, max_length=2)]


def definable_providers() -> list[str]:
    """Return the built-in providers that models.yaml can name; those of packages can be named as well."""
    return [name for name in SERVICES.built_in if not answers_in_process(name)]


def _check_provider(name: str) -> str:
    if name not in SERVICES or answers_in_process(name):
        expected = " or ".join(f"'{known}'" for known in definable_providers())
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
    return name


class ModelDefinition(BaseModel):
    """One model of models.yaml. All keys are optional."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    provider: Annotated[str, AfterValidator(_check_provider)] = "openai"
    """The provider whose API it has; `openai` for every OpenAI-compatible server. Packages can add providers."""
    model: str = ""
    """The server's name for it; default: its name in models.yaml."""
    share_completions: bool = False
    """With `model`: use stored completions of other names for the same model; default: it has its own."""
    insecure: bool = False
    """Allow http:// for a host outside this machine and private networks."""
    base_url: str | list[str] = ""
    """Address of the service, up to and including its version, or a list of those of several identical servers;
    default: the provider's own."""
    endpoints: str = ""
    """File with the addresses of several identical servers, one per line; it is read again when it changes."""
    proxy: str = ""
    """Address of an HTTP proxy for it, such as `http://proxy.example:3128`; `direct`: none, even with --proxy."""
    ca_file: str = ""
    """File with the only certificate authorities to accept for it, in PEM; default: those that this machine trusts."""
    client_certificate: str = ""
    """File with the certificate to identify with, in PEM; default: none."""
    client_key: str = ""
    """File with the key of `client_certificate`; default: the key is in the same file."""
    key: str = ""
    """Environment variable that holds the key; default: the rule of `models.keys`."""
    price: PriceDefinition | None = None
    """Its price; default: looked up if the vendor is known."""
    window: _Count | None = None
    """Context window: most tokens of prompt and completion together."""
    reasoning: bool | None = None
    """True if it spends hidden tokens before it answers; default: by its name."""
    reasoning_effort: str = ""
    """Effort of a reasoning model, such as `low`."""
    reasoning_tags: list[_Tags] = Field(default_factory=list)
    """Pairs of start and end of reasoning in its completions, such as `[["<plan>", "</plan>"]]`; known ones, such as
    <think>, need none."""
    max_tokens: _Count | None = None
    """Limit on completions, in tokens, instead of the benchmark's."""
    max_concurrency: _Count | None = None
    """Most requests in flight."""
    structured: bool = True
    """Send JSON schemas; a server that does not support them is detected."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Further request parameters, sent unchanged; null removes a parameter that would be sent."""
    serve_arguments: list[str | int | float] = Field(default_factory=list)
    """Further arguments for `vllm serve`, such as `[--max-model-len, 8192]`."""
    _found_at: str = PrivateAttr("")
    _folder: Path = PrivateAttr(Path())

    @property
    def address(self) -> str:
        """Address of the service; empty for a pool, or the provider's own."""
        return "" if isinstance(self.base_url, list) else self.base_url

    @property
    def addresses(self) -> list[str]:
        """Addresses that are written in models.yaml."""
        return self.base_url if isinstance(self.base_url, list) else [self.base_url] if self.base_url else []

    @property
    def is_elsewhere(self) -> bool:
        """Return True if the model is not at the provider's own address."""
        return bool(self.base_url or self.endpoints)

    def pool(self) -> tuple[tuple[str, ...], str]:
        """Return the addresses of a pool, and the file that lists them; neither for one address.

        Raises: UserError with all problems of that file.
        """
        if file := self.file("endpoints"):
            return checked_endpoints(Path(file).absolute()), str(Path(file).absolute())
        return (tuple(self.base_url) if isinstance(self.base_url, list) else ()), ""

    def file(self, key: str) -> str:
        """Return the path of a file; relative paths start at the folder of models.yaml."""
        path: str = getattr(self, key)
        return str(self._folder / Path(path).expanduser()) if path else ""

    def key_notice(self, model: Model) -> str:
        """Return a sentence on the host that gets a key of `model`; "" if the user named the file or no key is sent."""
        is_near = all(is_loopback(host_of(address)) for address in model.addresses) and not self.endpoints
        is_expected = not self.key and (not self.is_elsewhere or (is_near and model.key_variable == GENERAL_KEY))
        if not self._found_at or not model.key_variable or is_expected:
            return ""
        hosts = listed(["/".join(address.split("/")[:3]) for address in model.addresses], 5)
        return f"{self._found_at}: `{model.name}` sends the key in {model.key_variable} to {hosts}"

    @model_validator(mode="before")
    @classmethod
    def _check_mapping(cls, value: Any) -> Any:
        """Explain an address or a name in place of a definition, a common mistake."""
        if isinstance(value, str):
            raise ValueError("must be a mapping of keys to values, such as {base_url: http...} or {model: gpt-4o}.")
        return value

    @model_validator(mode="after")
    def _check_combinations(self) -> ModelDefinition:
        if self.window and self.max_tokens and self.max_tokens >= self.window:
            raise ValueError(
                f"`max_tokens` {self.max_tokens} leaves no room for a prompt in a `window` of {self.window}, which "
                "holds prompt and completion together."
            )
        if self.client_key and not self.client_certificate:
            raise ValueError("`client_key` needs a `client_certificate`.")
        if (self.endpoints or isinstance(self.base_url, list)) and self.provider != "openai":
            raise ValueError("several servers can serve a model of `provider: openai` only, the compatible ones.")
        if self.endpoints and self.base_url:
            raise ValueError("`base_url` and `endpoints` both say where the servers are: leave one of them out.")
        fixed = [key for key in ("insecure", "proxy", "ca_file", "client_certificate") if getattr(self, key)]
        if self.endpoints and fixed:
            raise ValueError(
                f"`{fixed[0]}` would apply to servers that are not known yet: list their addresses under `base_url` "
                "instead of `endpoints`."
            )
        if self.proxy not in ("", "direct") and any(one.startswith("http://") for one in self.addresses):
            raise ValueError("`proxy` needs an https:// address: the proxy could read requests without TLS.")
        return self

    @field_validator("reasoning_effort")
    @classmethod
    def _check_effort(cls, value: str) -> str:
        if value and value not in EFFORTS:
            help_ = suggestion(value, EFFORTS)
            raise ValueError(f"{value_in_words(value)} is not a known effort. {help_} Put new ones under `parameters`.")
        return value

    @field_validator("reasoning_tags")
    @classmethod
    def _check_tags(cls, value: list[list[str]]) -> list[list[str]]:
        for start, end in value:
            if start == end or not start.strip() or not end.strip():
                raise ValueError(f"{value_in_words([start, end])}: start and end must be two different texts.")
        return value

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str | list[str], info: ValidationInfo) -> str | list[str]:
        if isinstance(value, list):
            if not value:
                raise ValueError("the list is empty: write the addresses of the servers into it.")
            return list(checked_pool(value, insecure=bool(info.data.get("insecure"))))
        address = checked_address(value, insecure=bool(info.data.get("insecure")))
        if "?" in address and info.data.get("provider") != "azure":
            raise ValueError("`?api-version=` belongs to `provider: azure`.")
        return address

    @field_validator("proxy")
    @classmethod
    def _check_proxy(cls, value: str) -> str:
        return checked_proxy(value)

    @field_validator("key")
    @classmethod
    def _check_variable(cls, value: str) -> str:
        """Never repeat the value: it may be a key."""
        plain = "_" not in value and len(value) > _MAX_PLAIN_VARIABLE
        if not _VARIABLE.fullmatch(value) or plain:
            raise ValueError(
                "must be the name of an environment variable in capitals, such as MY_SERVER_KEY. "
                "If this is the key itself, take it out of the file and put it into that variable."
            )
        if value.startswith(_OWN_VARIABLES) and value != GENERAL_KEY:
            raise ValueError(f"{value} is a setting of MedHELM itself and is never sent. Name another variable.")
        return value

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, value: dict[str, Any]) -> dict[str, Any]:
        wrong = [f"`{name}` is set by medhelm and cannot be a parameter." for name in value if name in _RESERVED]
        secret = [name for name in value if _SECRET.match(name)]
        wrong += [
            f"`{name}` looks like a secret. Put it into an environment variable, and name that under `key`."
            for name in secret
        ]
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            wrong.append("a number in it is too large to send.")
        if wrong:
            raise ValueError(" ".join(wrong))
        return value


class _ModelsFile(RootModel[dict[str, ModelDefinition]]):
    """Name of a model -> its definition."""


def read_definitions(file: Path, *, is_found: bool = False) -> Mapping[str, ModelDefinition]:
    """Return name -> definition, in the order of the file; empty for an empty file.

    `is_found`: the user did not name the file; it is in the working folder.
    Raises: ConfigError with all problems and their lines; values that may be keys are not repeated.
    """
    document = read_yaml(file)
    if document.data is None and not document.problems:
        return {}
    misplaced = _structure_problems(document)
    problems = [*misplaced, *_name_problems(document)]
    definitions: Mapping[str, ModelDefinition] = {}
    try:
        definitions = {} if misplaced else validate(document, _ModelsFile).root
    except ConfigError as error:
        problems += error.problems
    for name, definition in definitions.items():
        line = document.line_of((name,))
        if text := _redirection(name, definition) or (_untrusted_setting(name, definition) if is_found else ""):
            problems.append(Problem(text, line))
        definition._folder = file.parent
        if is_found:
            definition._found_at = f"{document.place}:{line}"
    if problems:
        raise ConfigError(document.place, problems)
    return definitions


def _redirection(name: str, definition: ModelDefinition) -> str:
    """Return the problem of a definition that moves `PROVIDER/NAME` to another model or address; "" if it does not."""
    first, slash, rest = name.partition("/")
    moved = [key for key in ("provider", "model", "base_url", "endpoints") if key in definition.model_fields_set]
    if not slash or not moved or not (first in SERVICES.built_in or first in SERVICES):
        return ""
    service, hosts = SERVICES[first], [host_of(address) for address in definition.addresses]
    is_same = {
        "provider": definition.provider == first,
        "model": definition.model in ("", name, rest),
        "base_url": all(not service.base_url and definition.provider == first and service.owns(host) for host in hosts),
        "endpoints": False,
    }
    changed = " and ".join(f"`{key}`" for key in moved if not is_same[key])
    if not changed:
        return ""
    return (
        f"{name}: {changed} cannot be changed: {first}/NAME is always the model of that name at "
        f"{service.title}. Choose a name of your own, such as `my-{rest.partition('@')[0].rpartition('/')[2]}`, with "
        f"`model: {definition.model or rest.partition('@')[0]}`."
    )


def _untrusted_setting(name: str, definition: ModelDefinition) -> str:
    """Return the problem of a definition that only a file named by the user may have; "" if there is none."""
    if keys := [key for key in ("proxy", "ca_file", "client_certificate", "client_key") if getattr(definition, key)]:
        return (
            f"{name}: `{keys[0]}` decides who can read your requests, so it counts only in a file that you name. If "
            "you trust this file, name it with --models or MEDHELM_MODELS."
        )
    return _key_at_wrong_host(name, definition) or _key_of_something_else(name, definition)


def _key_of_something_else(name: str, definition: ModelDefinition) -> str:
    """Return the problem of a variable that need not hold the key of a model's server; "" if there is none."""
    known = {GENERAL_KEY, "", *(one for service in SERVICES.built_in.values() for one in service.key_variables)}
    known |= set(SERVICES[definition.provider].key_variables)
    variable = definition.key
    if variable in known or (_KEY_NAME.fullmatch(variable) and not _NOT_OF_MODELS & set(variable.split("_"))):
        return ""
    return (
        f"{name}: `key` {variable} may hold something else than a key for this model, and is not sent. Name a variable "
        "such as WARD_KEY or WARD_API_KEY, or, if you trust this file, name it with --models or MEDHELM_MODELS."
    )


def _key_at_wrong_host(name: str, definition: ModelDefinition) -> str:
    """Return the problem of a definition that sends the key of one provider to the host of another; "" if none."""
    owners = [
        service
        for service in SERVICES.built_in.values()
        if definition.key in (*service.key_variables, *service.key_pairs.values())
    ]
    if not owners:
        return ""
    hosts = [host_of(address) for address in definition.addresses]
    foreign = [host for host in hosts if not is_loopback(host) and not any(one.owns(host) for one in owners)]
    if definition.is_elsewhere and not foreign and not definition.endpoints:
        return ""
    if not definition.is_elsewhere and any(service.name == definition.provider for service in owners):
        return ""
    place = foreign[0] if foreign else definition.endpoints and "servers that join later"
    return (
        f"{name}: `key` {definition.key} belongs to {owners[0].title}, and is not sent to "
        f"{place or SERVICES[definition.provider].title}. Name another variable, or, if you trust this file, name it "
        "with --models."
    )


def _structure_problems(document: YamlDocument) -> list[Problem]:
    """Return the problems of the file as a whole: its top level must map names to models."""
    data = document.data
    if not isinstance(data, dict):
        return [Problem("the top of the file must map names to models, such as `my-model: {base_url: http://...}`.")]
    entry = data.get("models")
    if list(data) == ["models"] and isinstance(entry, dict) and not entry.keys() & ModelDefinition.model_fields.keys():
        line = document.line_of(("models",))
        return [Problem("models: names belong at the top level: delete this line, and indent the rest less.", line)]
    return []


def _name_problems(document: YamlDocument) -> list[Problem]:
    """Return the problems of names that cannot be used, or that have another meaning."""
    problems = []
    for name in document.data if isinstance(document.data, dict) else ():
        line = document.line_of((name,))
        if not name.strip() or name != name.strip() or not name.isprintable():
            problems.append(Problem("a name must be one line of text without surrounding spaces.", line))
        elif name.startswith(("baseline/", "replay/")):
            problems.append(Problem(f"{name}: this name is reserved; choose another one.", line))
        elif text := _imitation(name):
            problems.append(Problem(text, line))
    return problems


def _imitation(name: str) -> str:
    """Return the problem of a name that looks like `PROVIDER/NAME` and is not; "" if there is none.

    >>> _imitation("OpenAI/gpt-4o").partition(";")[0], _imitation("Qwen/Qwen3-8B")
    ('OpenAI/gpt-4o: this looks like a model of the provider `openai`', '')
    """
    first, slash, _ = unicodedata.normalize("NFKC", name.translate(_SLASHES)).partition("/")
    if not slash or name.startswith(tuple(f"{known}/" for known in SERVICES)):
        return ""
    if not _PLAIN_FIRST.fullmatch(first) or not name.startswith(f"{first}/"):
        return f"{name!a}: before a slash, a name can have only the letters A to Z, digits, `.`, `_` and `-`."
    looks = first.lower().translate(_ALIKE)
    if known := next((known for known in SERVICES if known.translate(_ALIKE) == looks), ""):
        return f"{name}: this looks like a model of the provider `{known}`; write {known}/..., or choose another name."
    return ""


# --- jury file --------------------------------------------------------------------------------------------------------
# It lists the `judges`, and how many of them an instance needs (`at_least`). It is read only if the user names it,
# because prompts and completions are sent to the models in it. The reference implementation's file of judges is read as
# well: a list of mappings with `name`, `model` and `model_deployment`.


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class JudgeEntry(_Strict):
    """One judge: the name of a model, or a mapping as the reference implementation writes it."""

    model: str = ""
    """Name of the model."""
    model_name: str = ""
    """The same, in the judges of a custom benchmark there; `name` is the deployment then."""
    name: str = ""
    """The reference implementation's name for the judge."""
    model_deployment: str = ""
    """The reference implementation's deployment of it."""

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"model": value}
        if not isinstance(value, dict):
            raise ValueError("must be the name of a model, such as openai/gpt-4o.")
        return value

    @model_validator(mode="after")
    def _check_one_model(self) -> JudgeEntry:
        if bool(self.model) == bool(self.model_name):
            raise ValueError("must name one model under `model`.")
        return self

    @property
    def judge(self) -> str:
        """Name of the model."""
        return self.model or self.model_name

    @property
    def remark(self) -> str:
        """Return a note on what is not used of the entry; "" if all is used."""
        called, deployment = (self.name, self.model_deployment) if self.model else ("", self.name)
        said = [f"is called this here, not `{called}`"] if called not in ("", self.judge) else []
        said += [f"its deployment `{deployment}` there is not used"] if deployment else []
        return f"judge {self.judge}: {', and '.join(said)}." if said else ""


class JuryFile(_Strict):
    """The whole file."""

    judges: Annotated[list[JudgeEntry], Field(min_length=1)]
    at_least: Annotated[int, Field(ge=1)] | None = None


def read_jury_file(file: Path) -> tuple[YamlDocument, JuryFile | None, list[Problem]]:
    """Return the file, for the lines of problems, its content, None if that is invalid, and the problems of its form.

    Raises: ConfigError if nothing can be read.
    """
    document = read_yaml(file)
    try:
        return document, validate(document, JuryFile), []
    except ConfigError as error:
        return document, None, list(error.problems)


def judge_names(document: YamlDocument) -> dict[int, str]:
    """Return position -> name of the judges that can be read, whatever else is wrong with the file."""
    entries = document.data.get("judges") if isinstance(document.data, dict) else None
    names: dict[int, str] = {}
    for position, entry in enumerate(entries if isinstance(entries, list) else ()):
        name = entry.get("model") or entry.get("model_name") if isinstance(entry, dict) else entry
        if name and isinstance(name, str):
            names[position] = name
    return names
