"""Finding models and juries: from the name of a model to its address, key and settings.

A name is `PROVIDER/NAME` (`openai/gpt-4o`, `azure/DEPLOYMENT`, `baseline/majority`, `replay/FILE.jsonl`), the same with
an address (`openai/NAME@http://127.0.0.1:8000/v1`), or a name that models.yaml defines. Several identical servers form
a pool (`openai/NAME@URL1,URL2` or `openai/NAME@file:FILE`), named `openai/NAME@pool` whatever its addresses are.
`OWN=NAME` gives a model a name of its own. Keys are in environment variables, and each goes only where it belongs
(`models.keys`).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.domain import POOL, Jury, Model, Prompt, Request
from medhelm.domain.jury import AT_LEAST
from medhelm.domain.text import AnyNames, AnyPath, as_names, as_path, plural
from medhelm.errors import ConfigError, Problem, UserError, suggestion
from medhelm.models.addresses import checked_address, checked_endpoints, checked_pool
from medhelm.models.gateway import Remote, remote_of
from medhelm.models.keys import key_variable
from medhelm.models.model_names import plain_name, reasons
from medhelm.models.provider import Setting
from medhelm.models.providers import SERVICES, answers_in_process, unknown_provider
from medhelm.models.providers.baseline import BASELINES

if TYPE_CHECKING:
    from medhelm.models.models_file import ModelDefinition


_VENDORS = {"claude": "anthropic", "gem(ini|ma)": "google", "(chat)?gpt-(?!oss)|o[1-9]": "openai"}
"""First characters of a vendor's model names -> its provider, for suggestions."""

_WITH_ADDRESS = re.compile(r"(?P<name>.*?)@(?P<address>(?:https?|file):.*)", re.IGNORECASE | re.DOTALL)
_FURTHER_ADDRESS = re.compile(r"https?:.*|\s*", re.IGNORECASE)
"""Text after a comma within the addresses of a pool."""

POOL_PROVIDER, POOL_NAME = "openai", "@pool"
"""The provider whose models a pool can serve, and what follows the name of such a model instead of addresses."""

_ADDRESS_WITHOUT_SCHEME = re.compile(r"|localhost|[^@]*[:/][^@]*")


def find_models(
    names: AnyNames,
    *,
    file: AnyPath | None = None,
    environment: Mapping[str, str] | None = None,
    note: Callable[[str], object] | None = None,
) -> list[Model]:
    """Find models by the names that `--model` takes, in order and each once.

    Parameters
    ----------
    names
        One name or several: `PROVIDER/NAME`, `openai/NAME@URL`, or a name in `file`.
    file
        A `models.yaml`; None for the file that MEDHELM_MODELS names, or `./models.yaml` if it exists.
    environment
        Variables with API keys and settings; None for those of the process. With MEDHELM_GATEWAY the models are those
        of the gateway, except for those that answer within this process.
    note
        Called with a message for each model whose key goes to a host that a `models.yaml` found by itself names.

    Raises
    ------
    UserError
        If a name is wrong; lists every problem.
    ConfigError
        With all problems of `file`.
    """
    names = as_names(names, "names")
    file = None if file is None else as_path(file, "file")
    environment = os.environ if environment is None else environment
    if remote := remote_of(environment):
        return _remote_models(remote, names, environment)
    definitions = _load_definitions(file, environment)
    found, problems = _find_all(names, definitions, environment)
    if problems:
        raise UserError("\n".join(problems))
    if note:
        for name, model in zip(dict.fromkeys(names), found, strict=True):
            definition = definitions.get(name) or definitions.get(name.partition("=")[2])
            if definition and (text := definition.key_notice(model)):
                note(text)
    return found


def with_given_names(names: Sequence[str], given: Sequence[str]) -> list[str]:
    """Replace each name that `NAME=MODEL` in `given` defines by that definition.

    >>> with_given_names(["big", "openai/gpt-4o"], ["big=openai/m@http://127.0.0.1:8000/v1", "openai/m=2"])
    ['big=openai/m@http://127.0.0.1:8000/v1', 'openai/gpt-4o']
    """
    own = {one.partition("=")[0]: one for one in given if "=" in one and one.partition("/")[0] not in SERVICES}
    return [own.get(name, name) for name in names]


def _remote_models(remote: Remote, names: Sequence[str], environment: Mapping[str, str]) -> list[Model]:
    """Return the models of these names as another process serves them. Raises: UserError, MissingError."""
    local = [name for name in dict.fromkeys(names) if answers_in_process(name.partition("/")[0])]
    found, problems = _find_all(local, {}, environment)
    if problems:
        raise UserError("\n".join(problems))
    others = [name for name in dict.fromkeys(names) if name not in local]
    by_name = {model.name: model for model in (*found, *remote.models(others))}
    return [by_name[name] for name in dict.fromkeys(names)]


def defined_models(*, file: Path | None, environment: Mapping[str, str]) -> tuple[list[Model], list[str]]:
    """Return the models of models.yaml, in its order, the baselines, and the problems of all others.

    Raises: ConfigError with all problems of models.yaml.
    """
    definitions = _load_definitions(file, environment)
    return _find_all([*definitions, *(f"baseline/{name}" for name in BASELINES)], definitions, environment)


def _find_all(
    names: Sequence[str], definitions: Mapping[str, ModelDefinition], environment: Mapping[str, str]
) -> tuple[list[Model], list[str]]:
    """Return the models of these names, each once, and the problems of the other names."""
    found: list[Model] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        try:
            _reject_list(name, definitions)
            found.append(_find_model(name, definitions, environment))
        except (ValueError, UserError) as error:  # UserError: from packages that cannot be used
            problems.append(f"model `{_without_secrets(name)}`: {error}")
    problems += [
        f"two pools are named {name}: give one of them another name, as in --model NAME=openai/..."
        for name, n in Counter(model.name for model in found if model.replicas).items()
        if n > 1
    ]
    return found, problems


def _reject_list(name: str, definitions: Mapping[str, ModelDefinition]) -> None:
    """Raise UserError for several names with commas between them, other than the addresses of a pool."""
    parts = [part.strip() for part in name.split(",")]
    if _WITH_ADDRESS.fullmatch(parts[0]) and all(map(_FURTHER_ADDRESS.fullmatch, parts[1:])):
        return
    if len(parts) > 1 and name not in definitions and all("/" in part or part in definitions for part in parts):
        raise UserError("several names with commas between them. Repeat the option for each: --model A --model B.")


def _without_secrets(name: str) -> str:
    """Return a name without passwords and keys in its address.

    >>> _without_secrets("openai/m@https://me:secret@a.org/v1?key=secret")
    'openai/m@https://***@a.org/v1?***'
    """
    name = re.sub(r"(?i)([@,]\s*https?://)[^/]*@", r"\1***@", name)
    return re.sub(r"(@https?://[^?#]*)([?#])(?!api-version=[A-Za-z0-9.-]*$).*", r"\1\2***", name)


def _load_definitions(file: Path | None, environment: Mapping[str, str]) -> Mapping[str, ModelDefinition]:
    named, default = environment.get("MEDHELM_MODELS"), Path("models.yaml")
    is_found = not file and not named
    file = file or (Path(named) if named else default if default.is_file() else None)
    if file is None:
        return {}
    from medhelm.models.models_file import read_definitions  # lazy: most runs have no such file

    return read_definitions(file, is_found=is_found)


def _find_model(name: str, definitions: Mapping[str, ModelDefinition], environment: Mapping[str, str]) -> Model:
    """Return the model of one name. Raises: ValueError with the reason and the fix; UserError."""
    if name in definitions:
        return _defined_model(name, definitions[name], environment)
    provider, slash, rest = name.partition("/")
    own, equals, target = name.partition("=")
    if equals and provider not in SERVICES:
        return _renamed_model(own, target, definitions, environment)
    if not slash or provider not in SERVICES:
        raise ValueError(_unknown_message(name, definitions))
    if not rest or not rest.isprintable():
        raise ValueError(f"a name must follow `{provider}/`.")
    service = SERVICES[provider]
    remote_name, base_url, endpoints_file = rest, "", ""
    replicas: tuple[str, ...] = ()
    if service.takes_address:
        remote_name, address, replicas, endpoints_file = _split_address(rest, provider)
        if "?" in address and provider != "azure":
            raise ValueError("`?api-version=` belongs to azure/DEPLOYMENT.")
        base_url = POOL if replicas else service.address(address, remote_name, environment)
    model = Model(
        name=f"{provider}/{remote_name}{POOL_NAME}" if replicas else name,
        provider=provider,
        remote_name=remote_name,
        base_url=base_url,
        replicas=replicas,
        endpoints_file=endpoints_file,
        key_variable=key_variable(provider, base_url, environment),
        reasoning=not service.in_process and reasons(remote_name),
    )
    return service.resolve(model, environment)


def _renamed_model(
    own: str, target: str, definitions: Mapping[str, ModelDefinition], environment: Mapping[str, str]
) -> Model:
    """Return the model of `NAME=MODEL` under its own name. Raises: as `_find_model`."""
    if own != own.strip() or not own.isprintable() or not own or "@" in own:
        raise ValueError("the name before `=` must be one word or more on one line, without `@`.")
    if own in definitions:
        raise ValueError(f"{own} is defined in models.yaml: choose another name before `=`.")
    model = _find_model(target, definitions, environment)
    if answers_in_process(model.provider):
        raise ValueError(f"{target} needs no other name.")
    return replace(model, name=own, scope=own)


def _unknown_message(name: str, definitions: Mapping[str, ModelDefinition]) -> str:
    """Return the message on a name that is neither defined nor of a known provider."""
    provider, slash, rest = name.partition("/")
    known = [*definitions, *(f"baseline/{baseline}" for baseline in BASELINES)]
    if (near := suggestion(name, known)).startswith("Did you mean"):
        return f"unknown. {near}"
    forms = f"A name is PROVIDER/NAME with one of {', '.join(SERVICES)}, or one that models.yaml defines."
    if not slash:
        meant_whole = _suggestion_for(name)
        return f"unknown. {meant_whole}" if meant_whole.startswith("Did") else f"unknown. {forms} {meant_whole}"
    meant = get_close_matches(provider, SERVICES, n=1)
    return f"{unknown_provider(provider)} " + (f"Did you mean `{meant[0]}/{rest}`?" if meant else forms)


def _suggestion_for(name: str) -> str:
    """Suggest what may be meant by a name without a provider."""
    if name.lower() in SERVICES:
        return f"`{name}` is a provider: its model's name follows, as in {name.lower()}/NAME."
    if vendor := next((vendor for start, vendor in _VENDORS.items() if re.match(start, name, re.IGNORECASE)), ""):
        return f"Did you mean `{vendor}/{name}`?"
    return (
        f"If it is a model on your own server, write openai/{name}@http://HOST:PORT/v1, or ollama/{name} for Ollama's."
    )


def _split_address(text: str, provider: str, *, insecure: bool = False) -> tuple[str, str, tuple[str, ...], str]:
    """Split `NAME@ADDRESS` into name, one address or the addresses of a pool, and the file that lists the pool.

    Raises: ValueError, UserError.
    """
    name, written = _split_name(text)
    replicas, endpoints_file = _pool_of(written, provider)
    address = checked_address(written, insecure=insecure) if written and not replicas else ""
    return name, address, replicas, endpoints_file


def _split_name(rest: str) -> tuple[str, str]:
    """Split `NAME@ADDRESS`; a name may contain an `@` of its own, as in `claude@20240620`."""
    if found := _WITH_ADDRESS.fullmatch(rest):
        if not found["name"]:
            raise ValueError("the name before `@` is missing.")
        return found["name"], found["address"]
    if rest.endswith(POOL_NAME):
        raise ValueError("write the addresses of the pool after `@`: URL1,URL2 or file:FILE with one address per line.")
    tail = rest.rpartition("@")[2]
    if tail != rest and _ADDRESS_WITHOUT_SCHEME.fullmatch(tail):
        checked_address(tail)  # it has no scheme: the error says so
    return rest, ""


def _pool_of(written: str, provider: str) -> tuple[tuple[str, ...], str]:
    """Return the addresses of a pool, and the file that lists them, as written after `@`; neither for one address.

    Raises: ValueError, UserError.
    """
    if written.lower().startswith("file:"):
        if not (file := written[len("file:") :].strip()):
            raise ValueError("the name of a file with addresses must follow `@file:`.")
        path = Path(file).expanduser().absolute()
        pool = checked_endpoints(path), str(path)
    elif "," in written:
        pool = checked_pool(written.split(",")), ""
    else:
        return (), ""
    if provider != POOL_PROVIDER:
        raise ValueError("several servers can serve openai/NAME only; it is the name for every compatible server.")
    return pool


def _is_reasoning(remote_name: str, parameters: Mapping[str, Any]) -> bool:
    """Return True if a model reasons: by its own parameters, as Anthropic and Google have them, or by its name."""
    thinking, config = parameters.get("thinking"), parameters.get("thinkingConfig")
    if isinstance(thinking, dict) and "type" in thinking:
        return thinking["type"] not in ("disabled", "between_tools")
    if isinstance(config, dict) and "thinkingBudget" in config:
        return bool(config["thinkingBudget"])
    return reasons(remote_name)


def _defined_model(name: str, definition: ModelDefinition, environment: Mapping[str, str]) -> Model:
    """Return a model of models.yaml."""
    provider: str = definition.provider
    named = name.partition("/")[0]
    if "provider" not in definition.model_fields_set and not definition.is_elsewhere and _names_provider(named, name):
        provider = named  # `anthropic/claude-...: {max_tokens: ...}` is still Anthropic's
    remote_name, address = definition.model or name.removeprefix(f"{provider}/"), definition.address
    replicas, endpoints_file = definition.pool()
    if not definition.model and not address and not replicas and name.startswith(f"{provider}/"):
        # `openai/NAME@http://...: {window: ...}` keeps its address
        remote_name, address, replicas, endpoints_file = _split_address(
            remote_name, provider, insecure=definition.insecure
        )
    is_alias = definition.model not in ("", name, name.removeprefix(f"{provider}/"))
    service = SERVICES[provider]
    base_url = POOL if replicas else service.address(address, remote_name, environment)
    if definition.serve_arguments and provider != "vllm":
        raise ValueError("`serve_arguments` are for models that are served by vllm/NAME.")
    serve_arguments = {"serve_arguments": definition.serve_arguments} if definition.serve_arguments else {}
    reasoning = _is_reasoning(remote_name, definition.parameters)
    model = Model(
        name=name,
        provider=provider,
        remote_name=remote_name,
        base_url=base_url,
        key_variable=definition.key or key_variable(provider, base_url, environment),
        replicas=replicas,
        endpoints_file=endpoints_file,
        reasoning=reasoning if definition.reasoning is None else definition.reasoning,
        reasoning_effort=definition.reasoning_effort,
        reasoning_tags=tuple((start, end) for start, end in definition.reasoning_tags),
        window=definition.window,
        max_tokens=definition.max_tokens,
        max_concurrency=definition.max_concurrency,
        price=definition.price.price("models.yaml") if definition.price else None,
        structured=definition.structured,
        parameters=definition.parameters | serve_arguments,
        scope="" if definition.share_completions or not is_alias else name,
        proxy=definition.proxy,
        ca_file=definition.file("ca_file"),
        client_certificate=definition.file("client_certificate"),
        client_key=definition.file("client_key"),
    )
    return service.resolve(model, environment)


def _names_provider(named: str, name: str) -> bool:
    """Return True if the first part of a defined name is a provider whose model it extends."""
    if named in SERVICES.built_in:
        return not answers_in_process(named)
    return "/" in name and named in SERVICES


# --- examples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelExample:
    """An example of a model's name."""

    model: Model
    """The model, as it would be reached."""
    lacks: tuple[str, ...]
    """Variables that must be set for it, other than that of its key."""


def example_models(environment: Mapping[str, str]) -> list[ModelExample]:
    """Return one or two example models of each provider, whatever variables are set.

    They are for users who do not know yet how models are named; any model of a provider can be named. A model that is
    no longer sold has neither a price nor a context window.
    """
    services = SERVICES.built_in.values()
    return [_example(name, service.settings, environment) for service in services for name in service.examples]


def _example(name: str, settings: Sequence[Setting], environment: Mapping[str, str]) -> ModelExample:
    lacking = [one for one in settings if not any(environment.get(name, "").strip() for name in one.variables)]
    try:
        return _with_values(name, lacking, environment)
    except (ValueError, UserError):  # a variable has a wrong value, which is reported when the model is asked
        return _with_values(name, settings, environment)


def _with_values(name: str, settings: Sequence[Setting], environment: Mapping[str, str]) -> ModelExample:
    """Return the example of a name, with the example values of some settings."""
    values = {setting.variables[0]: setting.example for setting in settings}
    return ModelExample(_find_model(name, {}, {**environment, **values}), tuple(values))


# --- jury -------------------------------------------------------------------------------------------------------------
# The jury: names of models, given one by one or in a jury file.

_CANNOT_JUDGE = {
    "baseline": "a baseline picks words from the question; it cannot judge.",
    "replay": "a replay file holds completions of benchmarks' prompts, but not of judges' prompts.",
}
"""Provider -> the reason that its models cannot be judges."""


def find_jury(
    names: Sequence[str],
    *,
    file: Path | None,
    at_least: int | None,
    models_file: Path | None,
    environment: Mapping[str, str],
    note: Callable[[str], object] | None = None,
) -> tuple[Jury | None, list[str]]:
    """Return the requested jury, or None, and warnings for the user.

    `names`, if any, are the whole jury. Otherwise it is read from `file`, or from the file that MEDHELM_JURY names; no
    other file is looked for. `at_least` overrides the file's. `models_file`, `note`: as in `find_models`.
    Raises: ConfigError with all problems of a file, or UserError with all those of names given directly.
    """
    if names:
        warnings = [f"{file} is not used, because judges were named with --judge."] if file else []
        judges, wrong = _find_judges(names, models_file, environment, note)
        lines = [f"judge `{names[position]}`: {text}" for position, text in sorted(wrong.items())]
        if too_many := _too_many(at_least, len(names)):
            lines.append(too_many)
        if lines:
            raise UserError("\n".join(lines))
        return _make_jury(judges, at_least), warnings
    variable = environment.get("MEDHELM_JURY")
    file = file or (Path(variable) if variable else None)
    if file is None:
        return None, []

    from medhelm.models.models_file import judge_names, read_jury_file  # lazy: most runs have no such file

    document, content, problems = read_jury_file(file)
    named = judge_names(document)
    judges, wrong = _find_judges(list(named.values()), models_file, environment, note)
    for position, (place, name) in enumerate(named.items()):
        if position in wrong:
            text = f"judges[{place}]: `{name}`: {wrong[position]}"
            problems.append(Problem(text, document.line_of(("judges", place))))
    if content and (too_many := _too_many(content.at_least, len(content.judges))):
        problems.append(Problem(f"at_least: {too_many}", document.line_of(("at_least",))))
    if problems or content is None:
        raise ConfigError(document.place, problems)
    if too_many := _too_many(at_least, len(content.judges)):
        raise UserError(too_many)
    remarks = [entry.remark for entry in content.judges if entry.remark]
    return _make_jury(judges, content.at_least if at_least is None else at_least), remarks


def jury_warnings(jury: Jury, models: Sequence[Model]) -> list[str]:
    """Return a warning about a jury of one judge, and one for each judge that grades its own completions.

    Models are compared by their names at their servers, whatever the server: `openai/gpt-4o` at a gateway is OpenAI's
    `gpt-4o`.
    """
    tested = {plain_name(model.remote_name) for model in models}
    warnings = [
        f"{judge.name} is the only judge: nothing guards against its errors, and agreement between judges cannot be "
        "measured."
        for judge in jury.judges
        if len(jury.judges) == 1
    ]
    return warnings + [
        f"{judge.name} is a judge and also under test. Judges tend to prefer their own words; "
        "`medhelm jury` measures how much."
        for judge in jury.judges
        if plain_name(judge.remote_name) in tested
    ]


def _find_judges(
    names: Sequence[str],
    models_file: Path | None,
    environment: Mapping[str, str],
    note: Callable[[str], object] | None,
) -> tuple[list[Model], dict[int, str]]:
    """Return the models of these names, and position -> problem of the others."""
    found: dict[bytes, Model] = {}
    wrong: dict[int, str] = {}
    for position, name in enumerate(names):
        if name in names[:position]:
            wrong[position] = "is listed twice. A judge counts once."
            continue
        try:
            (model,) = find_models([name], file=models_file, environment=environment, note=note)
        except ConfigError:
            raise
        except UserError as error:
            wrong[position] = str(error).removeprefix(f"model `{name}`: ")
            continue
        if model.provider in _CANNOT_JUDGE:
            wrong[position] = _CANNOT_JUDGE[model.provider]
            continue
        # Judges of equal requests would share their replies, and one opinion would count twice.
        same = found.setdefault(Request(model=model, prompt=Prompt(()), max_tokens=1).content_digest, model)
        if same is not model:
            wrong[position] = f"is the same model as {same.name}. A judge counts once."
    return list(found.values()), wrong


def _make_jury(judges: Sequence[Model], at_least: int | None) -> Jury:
    return Jury(judges=tuple(judges), min_judges=at_least or min(AT_LEAST, len(judges)))


def _too_many(at_least: int | None, n_judges: int) -> str:
    """Return the problem of the number of judges that an instance needs; "" if there is none."""
    if at_least is None or 1 <= at_least <= n_judges:
        return ""
    return f"an instance cannot need {at_least} of {plural(n_judges, 'judge')}."
