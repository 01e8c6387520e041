"""Addresses of services: checked and normalized.

Stricter than URLs in general, so that every parser finds the same host: no user name, no password, no backslash, no
fragment, and no query except Azure's `api-version`.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from medhelm.io.http_client import is_loopback

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)"
    r"(?P<port>:[0-9]{1,5})?(?P<path>/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*)?(?P<query>\?api-version=[A-Za-z0-9.-]+)?",
    re.IGNORECASE,
)
_OPERATION = re.compile(r"(?:/chat/completions|(?<=/v1)/(?:completions|responses|messages|embeddings|models))$")
"""Ends of addresses that were copied from examples."""

_INSIDE = (".local", ".internal")
"""Endings of host names within a private network."""


def checked_address(text: str, *, insecure: bool = False) -> str:
    """Normalize an address: lower case scheme and host, no trailing slash or space, no operation at the end.

    An operation is what clients add, such as `/chat/completions`. http:// is allowed for this machine and private
    networks (addresses such as 10.0.0.5, names without a dot, `.local`, `.internal`); any other host needs https://, or
    `insecure`.
    Raises: ValueError with the reason and the fix; it never repeats a possible password or key.
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
        return "an address must begin with http:// or https://, such as http://127.0.0.1:8000/v1."
    if "@" in text.partition("://")[2].partition("/")[0]:
        return "an address must not contain a user name or password; put keys into environment variables."
    port = re.fullmatch(r"https?://[^/?#]*:(\d{1,9})([/?#].*)?", text, re.IGNORECASE)
    if port and int(port[1]) > 65535:
        return f"port {port[1]} does not exist: ports go up to 65535."
    if "?" in text or "#" in text:
        return "an address must not contain `?` or `#`, except Azure's `?api-version=`."
    return "not a valid address. Write scheme, host, port and path, such as http://127.0.0.1:8000/v1."


def host_of(address: str) -> str:
    """Return the host of an address, in lower case and without brackets; "" if there is none."""
    return urlsplit(address).hostname or ""


def is_inside(host: str) -> bool:
    """Return True if `host` is this machine, or by its form a machine of a private network."""
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_INSIDE)
    return address.is_private and not address.is_unspecified
