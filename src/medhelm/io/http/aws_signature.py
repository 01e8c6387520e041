"""AWS Signature Version 4: sign a request with a secret that is not sent.

Source: "Create a signed AWS API request" in AWS's Identity and Access Management User Guide.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qsl, quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials of an AWS account."""

    key_id: str
    """The public name of the key."""
    secret: str
    """The secret key; never sent."""
    session_token: str = ""
    """Goes with a temporary key; empty for a lasting one."""

    def __repr__(self) -> str:
        """Leave out secrets."""
        return "Credentials(...)"


def signed_headers(
    method: str,
    url: str,
    body: bytes | str,
    *,
    credentials: Credentials,
    region: str,
    service: str,
    moment: datetime,
    headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers that sign a request: date, session token and `Authorization`, and `headers`.

    Parameters: url, as it is sent, its path percent-encoded once; body, or its SHA-256 in hexadecimal; moment, in UTC;
    headers, further ones to sign. The signature covers all of them and the host, with its port where it is not the
    scheme's own.

    >>> from datetime import UTC
    >>> who = Credentials(key_id="AKIDEXAMPLE", secret="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    >>> when = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    >>> signed = signed_headers("GET", "https://example.amazonaws.com/", b"", credentials=who, region="us-east-1",
    ...     service="service", moment=when)
    >>> signed["Authorization"][-64:]
    '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'
    """
    date = moment.strftime("%Y%m%dT%H%M%SZ")
    digest = body if isinstance(body, str) else hashlib.sha256(body).hexdigest()
    sent = {**(headers or {}), "X-Amz-Date": date}
    path, query = urlsplit(url).path or "/", sorted(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    if service == "s3":
        sent["X-Amz-Content-SHA256"] = digest
    else:  # encoded a second time: what was `%3A` becomes `%253A`
        path = quote(path, safe="/-_.~")
    if credentials.session_token:
        sent["X-Amz-Security-Token"] = credentials.session_token
    covered = {name.lower(): value for name, value in {**sent, "host": _host(url)}.items()}
    names = ";".join(sorted(covered))
    canonical = "\n".join(
        [
            method,
            path,
            "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query),
            *(f"{name}:{covered[name]}" for name in sorted(covered)),
            "",
            names,
            digest,
        ]
    )
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join([_ALGORITHM, date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for step in (date[:8], region, service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    sent["Authorization"] = (
        f"{_ALGORITHM} Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def _host(url: str) -> str:
    """Return the Host header of an address."""
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}[parts.scheme]
    return parts.netloc.removesuffix(f":{usual}")
