"""Addresses of services: checked and normalized.

Stricter than URLs in general, so that every parser finds the same host: no user name, no password, no backslash, no
fragment, and no query except Azure's `api-version`.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from medhelm.io.http.egress import DIRECT
from medhelm.io.http.hosts import is_inside

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)"
    r"(?P<port>:[0-9]{1,5})?(?P<path>/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*)?(?P<query>\?api-version=[A-Za-z0-9.-]+)?",
    re.IGNORECASE,
)
_OPERATION = re.compile(r"(?:/chat/completions|(?<=/v1)/(?:completions|responses|messages|embeddings|models))$")
"""Ends of addresses that were copied from examples."""


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


def checked_proxy(text: str) -> str:
    """Normalize the address of a proxy, `http://HOST:PORT` or `https://HOST:PORT`; `direct` means none.

    Raises: ValueError with the reason and the fix; it never repeats a possible password.
    """
    if text.strip() == DIRECT:
        return DIRECT
    if "@" in text:
        raise ValueError(
            "a proxy's address must not contain a user name or password; put `user:password` into the environment "
            "variable MEDHELM_PROXY_LOGIN."
        )
    address = checked_address(text, insecure=True)
    if urlsplit(address).path or urlsplit(address).query:
        raise ValueError("a proxy's address has no path: write http://HOST:PORT.")
    return address
