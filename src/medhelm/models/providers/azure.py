"""Azure OpenAI: OpenAI's API, at the address of a resource; a model's name is that of a deployment."""

from __future__ import annotations

import re
from urllib.parse import quote

from medhelm.domain import FailureCode
from medhelm.models.addresses import checked_address
from medhelm.models.provider import Environment, Service, Setting
from medhelm.models.providers.openai import open_chat_completions

ENDPOINT = "AZURE_OPENAI_ENDPOINT"
_VERSION = re.compile(r"[A-Za-z0-9.-]+")


def azure_address(written: str, remote_name: str, environment: Environment) -> str:
    """Return the address of a deployment, given that of its resource; `written` wins over the environment.

    An address of `/openai/v1` or of a deployment is kept. For a resource: the classic form if a version of the API is
    set (or `?api-version=` written), otherwise the form without versions.
    Raises: ValueError with the variable that is missing or invalid.

    >>> azure_address("https://x.openai.azure.com", "gpt-4o", {})
    'https://x.openai.azure.com/openai/v1'
    >>> azure_address("https://x.openai.azure.com", "gpt-4o", {"AZURE_OPENAI_API_VERSION": "2024-10-21"})
    'https://x.openai.azure.com/openai/deployments/gpt-4o?api-version=2024-10-21'
    """
    base, _, query = (written or _endpoint(environment)).partition("?api-version=")
    version = query or _version(environment)
    if base.endswith("/openai/v1"):
        return base
    if "/openai/deployments/" in base:
        return f"{base}?api-version={version}" if version else base
    if base.endswith("/models"):  # Azure's model inference API: older than /openai/v1, with the same models
        return f"{base.removesuffix('/models')}/openai/v1"
    base = base.removesuffix("/responses").removesuffix("/openai").removesuffix("/v1")
    if version:
        return f"{base}/openai/deployments/{quote(remote_name, safe='')}?api-version={version}"
    return f"{base}/openai/v1"


def _endpoint(environment: Environment) -> str:
    endpoint = environment.get(ENDPOINT, "").strip()
    if not endpoint:
        raise ValueError(
            f"set {ENDPOINT} to the address of your resource, or write azure/DEPLOYMENT@https://... "
            "(`base_url` in models.yaml)."
        )
    try:
        return checked_address(endpoint)
    except ValueError as error:
        raise ValueError(f"{ENDPOINT}: {error}") from None


def _version(environment: Environment) -> str:
    """Return the version of the classic API, if one is set."""
    version = environment.get("AZURE_OPENAI_API_VERSION") or environment.get("OPENAI_API_VERSION") or ""
    if version and not _VERSION.fullmatch(version):
        raise ValueError("AZURE_OPENAI_API_VERSION is not a version such as 2024-10-21.")
    return version


SERVICE: Service = Service(
    name="azure",
    title="Azure OpenAI",
    open=lambda model, context: open_chat_completions(SERVICE, model, context),
    locate=azure_address,
    settings=(Setting((ENDPOINT,), "https://your-resource.openai.azure.com"),),
    hosts=r".+\.(openai\.azure\.(com|us|cn)|(cognitiveservices|services\.ai)\.azure\.(com|us))",
    host_variable=ENDPOINT,
    key_variables=("AZURE_OPENAI_API_KEY",),
    examples=("azure/DEPLOYMENT",),
    error_codes={
        "deploymentnotfound": FailureCode.UNKNOWN_MODEL,
        "authenticationtypedisabled": FailureCode.NO_ACCESS,
    },
    error_phrases={
        FailureCode.NO_ACCESS: (
            "virtual network/firewall rules|public access is disabled|api version not supported|unsupported api version"
        ),
    },
    advice={
        FailureCode.UNKNOWN_MODEL: (
            "Is there a deployment `{model.remote_name}` at {model.base_url}? The Azure portal lists deployments; "
            "their names differ from those of models."
        ),
        FailureCode.NO_ACCESS: (
            "The key works, but not for this model, project or location, network or API version "
            "(AZURE_OPENAI_API_VERSION): change that in the Azure portal, or name another deployment."
        ),
    },
    lists_models=False,
)
