"""Google's models on Vertex AI: the Gemini API's requests, at the address of a project."""

from __future__ import annotations

import re
from urllib.parse import quote

from medhelm.domain import FailureCode
from medhelm.models.provider import Environment, Service, Setting
from medhelm.models.providers.google import ERROR_CODES, ERROR_PHRASES, open_google

_LOCATION = re.compile(r"[a-z0-9-]+")
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*")


def vertex_address(written: str, remote_name: str, environment: Environment) -> str:  # noqa: ARG001 - see Service
    """Return the address of a project's models; `written` is "" for Google's own.

    `global` and the multi-regions have their own hosts. An address that names its project is kept.
    Raises: ValueError with the variables that are missing or invalid.

    >>> place = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
    >>> vertex_address("", "m", place)
    'https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4'
    >>> vertex_address("", "m", {**place, "GOOGLE_CLOUD_LOCATION": "eu"}).partition("/v1")[0]
    'https://aiplatform.eu.rep.googleapis.com'
    """
    if "/projects/" in written:
        return written.partition("/publishers/")[0]
    project = _value("PROJECT", _PROJECT, environment)
    location = _value("LOCATION", _LOCATION, environment)
    if not project or not location:
        raise ValueError(
            "set GOOGLE_CLOUD_PROJECT to the project's ID and GOOGLE_CLOUD_LOCATION to its location, such as "
            "us-central1 or global."
        )
    hosts = {"global": "aiplatform", "eu": "aiplatform.eu.rep", "us": "aiplatform.us.rep"}
    address = written or f"https://{hosts.get(location, f'{location}-aiplatform')}.googleapis.com"
    return f"{address.removesuffix('/v1')}/v1/projects/{quote(project, safe='')}/locations/{quote(location, safe='')}"


def _value(name: str, form: re.Pattern[str], environment: Environment) -> str:
    """Return the value of a variable that becomes part of an address. Raises: ValueError if it cannot."""
    value = environment.get(f"GOOGLE_CLOUD_{name}", "").strip()
    if value and not form.fullmatch(value):
        raise ValueError(f"GOOGLE_CLOUD_{name} contains characters that a {name.lower()} never has.")
    return value


SERVICE: Service = Service(
    name="vertex",
    title="Google Vertex AI",
    open=lambda model, context: open_google(SERVICE, model, context),
    locate=vertex_address,
    settings=(
        Setting(("GOOGLE_CLOUD_PROJECT",), "your-project"),
        Setting(("GOOGLE_CLOUD_LOCATION",), "global"),
    ),
    hosts=r"([a-z0-9-]+-)?aiplatform\.googleapis\.com|aiplatform\.[a-z]+\.rep\.googleapis\.com",
    key_variables=("GOOGLE_ACCESS_TOKEN",),
    key_prefixes={"ya29.": "GOOGLE_ACCESS_TOKEN"},
    key_hints={"GOOGLE_ACCESS_TOKEN": "`gcloud auth print-access-token` prints one, which lasts an hour."},
    examples=("vertex/gemini-2.5-flash",),
    error_codes=ERROR_CODES,
    error_phrases=ERROR_PHRASES,
    advice={
        FailureCode.NO_ACCESS: (
            "The token works, but not for this model, project or location: its account lacks the role Vertex AI User "
            "in this project, the API is not enabled there, or GOOGLE_CLOUD_PROJECT is wrong."
        ),
        FailureCode.KEY: (
            "An access token lasts an hour: set {model.key_variable} to what `gcloud auth print-access-token` prints, "
            "and repeat the command, which continues from here. Its account needs the role Vertex AI User in the "
            "project that GOOGLE_CLOUD_PROJECT names."
        ),
    },
    lists_models=False,
)
