"""Addresses of services: what people write, checked and brought into one form.

Stricter than URLs in general, so that every parser reads the same host in them: no user name, no password, no
backslash, no fragment, and no query but Azure's `api-version`.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import quote, urlsplit

from medhelm.io.http_client import is_loopback

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)"
    r"(?P<port>:[0-9]{1,5})?(?P<path>/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*)?(?P<query>\?api-version=[A-Za-z0-9.-]+)?",
    re.IGNORECASE,
)
_OPERATION = re.compile(r"(?:/chat/completions|(?<=/v1)/(?:completions|responses|messages|embeddings|models))$")
"""What people leave at the end of an address that they copied from an example."""

_INSIDE = (".local", ".internal")
"""Endings of names that exist within one network only."""


def checked_address(text: str, *, insecure: bool = False) -> str:
    """The address in one form: scheme and host in lower case, no slash or blank at the end, without the operation that
    clients add, such as `/chat/completions`.

    http:// is for this machine and for private networks (addresses such as 10.0.0.5, names without a dot, `.local`,
    `.internal`); any other host needs https://, or `insecure`.
    Raises: ValueError with the reason and the fix; it never repeats what may be a password or a key.
    """
    text = text.strip()
    found = _ADDRESS.fullmatch(text)
    if not found or int((found["port"] or ":0")[1:]) > 65535 or not _is_host(found["host"]):
        raise ValueError(_reason(text))
    scheme, host = found["scheme"].lower(), found["host"].lower()
    if scheme == "http" and not insecure and not is_inside(host.strip("[]")):
        raise ValueError(
            f"http:// would send questions and keys to {host} unencrypted. "
            "Use https://, or define the model in models.yaml with `insecure: true`."
        )
    path = _OPERATION.sub("", (found["path"] or "").rstrip("/")).rstrip("/")
    return f"{scheme}://{host}{found['port'] or ''}{path}{found['query'] or ''}"


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return ".." not in host
    try:
        ipaddress.IPv6Address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _reason(text: str) -> str:
    if not text.lower().startswith(("http://", "https://")):
        return "an address begins with http:// or https://, such as http://127.0.0.1:8000/v1."
    if "@" in text.partition("://")[2].partition("/")[0]:
        return "an address holds no user name and no password; a key belongs in an environment variable."
    port = re.fullmatch(r"https?://[^/?#]*:(\d{1,9})([/?#].*)?", text, re.IGNORECASE)
    if port and int(port[1]) > 65535:
        return f"there is no port {port[1]}: ports go up to 65535."
    if "?" in text or "#" in text:
        return "an address ends before `?` and `#`; only Azure's `?api-version=` may follow."
    return "not an address. It is a scheme, a host, a port and a path, such as http://127.0.0.1:8000/v1."


def host_of(address: str) -> str:
    """The host in an address, in lower case and without brackets; "" if there is none."""
    return urlsplit(address).hostname or ""


def is_inside(host: str) -> bool:
    """Whether `host` is this machine, or by its very form a machine of a private network."""
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_INSIDE)
    return address.is_private and not address.is_unspecified


def anthropic_address(address: str) -> str:
    """Where the Messages API stands: what was written, with `/v1` at its end.

    >>> [anthropic_address(text) for text in ("https://a.org", "https://a.org/llm/v1", "https://a.org/v1/messages")]
    ['https://a.org/v1', 'https://a.org/llm/v1', 'https://a.org/v1']
    """
    return address.removesuffix("/messages").removesuffix("/v1") + "/v1"


def google_address(address: str) -> str:
    """Where the Gemini API stands: what was written, with its version at the end.

    >>> [google_address(text) for text in ("https://g.org", "https://g.org/v1beta", "https://g.org/v1/models/m:x")]
    ['https://g.org/v1beta', 'https://g.org/v1beta', 'https://g.org/v1']
    """
    address = re.sub(r"/models(/[^/]+)?$", "", address)
    return address if re.search(r"/v\d+((alpha|beta)\d*)?$", address) else f"{address}/v1beta"


def vertex_address(address: str, project: str, location: str) -> str:
    """Where the models of a project on Vertex AI stand; `address` is empty for Google's own.

    `global` and the multi-regions have hosts of their own. An address that names its project stays as it is.

    >>> vertex_address("", "p", "europe-west4")
    'https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4'
    >>> [vertex_address("", "p", place).partition("/v1")[0] for place in ("global", "eu")]
    ['https://aiplatform.googleapis.com', 'https://aiplatform.eu.rep.googleapis.com']
    """
    if not address:
        hosts = {"global": "aiplatform", "eu": "aiplatform.eu.rep", "us": "aiplatform.us.rep"}
        address = f"https://{hosts.get(location, f'{location}-aiplatform')}.googleapis.com"
    if "/projects/" in address:
        return address.partition("/publishers/")[0]
    return f"{address.removesuffix('/v1')}/v1/projects/{quote(project, safe='')}/locations/{quote(location, safe='')}"


def bedrock_address(address: str) -> str:
    """Where Bedrock's runtime stands: what was written, without the operation.

    >>> bedrock_address("https://b.org/x/model/m/converse")
    'https://b.org/x'
    """
    return re.sub(r"/model(/[^/]+(/[a-z-]+)?)?$", "", address)


def azure_address(address: str, deployment: str, version: str = "") -> str:
    """Where an Azure OpenAI deployment is reached, given the address of its resource.

    An address that leads to `/openai/v1` or to a deployment stays as it is. From the resource alone: the classic form
    if a `version` of the API is known (or stands in the address as `?api-version=`), else the one without versions.

    >>> azure_address("https://x.openai.azure.com", "gpt-4o")
    'https://x.openai.azure.com/openai/v1'
    >>> azure_address("https://x.openai.azure.com", "gpt-4o", "2024-10-21")
    'https://x.openai.azure.com/openai/deployments/gpt-4o?api-version=2024-10-21'
    """
    base, _, query = address.partition("?api-version=")
    version = query or version
    if base.endswith("/openai/v1"):
        return base
    if "/openai/deployments/" in base:
        return f"{base}?api-version={version}" if version else base
    if base.endswith("/models"):  # of Azure's model inference, which came before /openai/v1 and has the same models
        return f"{base.removesuffix('/models')}/openai/v1"
    base = base.removesuffix("/responses").removesuffix("/openai").removesuffix("/v1")
    if version:
        return f"{base}/openai/deployments/{quote(deployment, safe='')}?api-version={version}"
    return f"{base}/openai/v1"
