"""What goes wrong between here and a server, in words that say what to do."""

from __future__ import annotations

import os
import ssl
from errno import ECONNREFUSED, EHOSTUNREACH, ENETUNREACH
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.errors import ProviderError

if TYPE_CHECKING:
    from yarl import URL

_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")
"""What OpenSSL calls an answer that is no beginning of a secure connection."""

_EXPIRED, _OTHER_HOST, _OTHER_IP = 10, 62, 64
"""OpenSSL's verdicts on a certificate (X509_V_ERR_CERT_HAS_EXPIRED, ..._HOSTNAME_MISMATCH, ..._IP_ADDRESS_MISMATCH)."""

_USUAL_PORTS = {8000: "vLLM's", 8080: "llama.cpp's", 11434: "Ollama's", 1234: "LM Studio's"}
"""Port -> whose it is, unless it was set otherwise."""

_REASONS = {
    ECONNREFUSED: "nobody listens there",
    EHOSTUNREACH: "there is no way to this host",
    ENETUNREACH: "there is no way to its network",
}


def connection_problem(error: Exception, address: URL, limit_s: float, *, near: bool) -> ProviderError:
    """What an exception of the HTTP library means. `near`: whether the host is this machine."""
    import aiohttp

    place = address.origin()
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        what = f"{place} does not accept connections: no answer in time. {_whereabouts(address, near=near)}"
        return ProviderError("connection", what, retryable=True)
    if isinstance(error, TimeoutError):
        return ProviderError("timeout", f"{place} did not answer within {limit_s:g} s", retryable=True)
    if isinstance(error, aiohttp.ClientSSLError):
        return ProviderError("certificate", _insecure(error, place), fatal=True)
    if isinstance(error, aiohttp.ClientConnectorDNSError | UnicodeError):
        what = f"there is no host of the name {address.host}. {_whereabouts(address, near=near)}"
        return ProviderError("connection", what, retryable=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        reason = _REASONS.get(number) or (os.strerror(number) if number > 0 else error.strerror or "no connection")
        what = f"cannot connect to {place}: {reason}. {_whereabouts(address, near=near)}"
        return ProviderError("connection", what, retryable=True)
    if isinstance(error, aiohttp.ClientPayloadError):
        what = f"the reply of {place} broke off or could not be unpacked. {_log(address)}"
        return ProviderError("connection", what, retryable=True)
    if isinstance(error, aiohttp.ClientResponseError):
        what = f"{place} answered with something that is not HTTP. {_other_scheme(address)}".rstrip()
        return ProviderError("malformed_reply", what, retryable=True)
    what = f"{place} closed the connection without an answer. {_other_scheme(address) or _log(address)}"
    return ProviderError("connection", what, retryable=True)


def redirected(status: int, target: str, address: URL) -> ProviderError:
    """A reply that sends elsewhere; `target`: where, without secrets, or "".

    Fatal: every request would get the same.
    """
    return ProviderError(
        "redirect",
        f"{address.origin()} answered with a redirect (status {status}) to {target or 'an address it does not name'}, "
        "which is not followed, because it could lead to a host that is not allowed. Check the model's address: behind "
        "a login page there is no API, and http:// may have to be https://.",
        fatal=True,
    )


def invalid_request(name: str, address: URL) -> ProviderError:
    """A header that cannot be sent. Its value is not quoted: it is most likely a key."""
    return ProviderError(
        "bad_key",
        f"the header {name} for {address.origin()} cannot be sent: it has a line break or another control character. "
        "If it holds a key, set its environment variable again, without the line end.",
        fatal=True,
    )


def _insecure(error: Exception, place: URL) -> str:
    """Why there is no secure connection, and what to do."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    said = f"{getattr(cause, 'reason', '') or ''} {cause}"
    if any(name in said.upper() for name in _NOT_TLS):
        return f"{place} does not speak HTTPS: write its address with http://."
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return f"no secure connection to {place}: {getattr(cause, 'reason', None) or type(error).__name__}."
    reason = cause.verify_message.rstrip(".")
    refused = f"the certificate of {place} is not trusted here: {reason}."
    if cause.verify_code == _EXPIRED:
        return f"{refused} Who runs the server has to renew it, if the clock of this machine is right."
    if cause.verify_code in (_OTHER_HOST, _OTHER_IP):
        return f"{refused} Write the address with the host's name as it stands in the certificate."
    named = os.environ.get("SSL_CERT_FILE", "")
    if named and not Path(named).is_file():
        return f"{refused} SSL_CERT_FILE names a file that is not there: {named}."
    return (
        f"{refused} If it is your institution's own, name the file with its certificates in the environment variable "
        "SSL_CERT_FILE."
    )


def _whereabouts(address: URL, *, near: bool) -> str:
    """What to do if nobody is at an address."""
    if near:
        usual = "" if address.port in _USUAL_PORTS else f" {', '.join(f'{v} is {k}' for k, v in _USUAL_PORTS.items())}."
        return f"Start the server, or correct the port {address.port}.{usual}"
    return (
        f"Check how {address.host} is spelled, and whether this machine can reach it: VPN, firewall. Proxies that the "
        "environment names are not used."
    )


def _other_scheme(address: URL) -> str:
    return "If it speaks HTTPS, write its address with https://." if address.scheme == "http" else ""


def _log(address: URL) -> str:
    return f"Something listens at port {address.port}: its own log says why."
