"""The services behind addresses of object stores: where they are, how requests are signed, how objects are listed.

S3 and Google Cloud Storage list and create objects in the same way; Azure does it with other names. Requests are
described here and sent by `store`.
"""

from __future__ import annotations

import hmac
import json
import os
import re
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from medhelm.errors import MissingError, UserError
from medhelm.io.http.aws_signature import Credentials, signed_headers
from medhelm.io.http.hosts import without_secrets

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT_URL"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "az": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_ENDPOINT",
    ),
}
"""Scheme of an address -> environment variables that are read. Without credentials only public buckets can be read."""

GOOGLE = "https://storage.googleapis.com"
"""Address of Google Cloud Storage."""

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_TOKEN_S = 3600
"""Seconds that a token for Google Cloud Storage is valid: the maximum."""

_AZURE_VERSION = "2023-11-03"

_PLACE = re.compile(r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)*/?")
"""Addresses: scheme, bucket (for Azure, container), folder."""


class StorageService(ABC):
    """A bucket of one service, with the credentials for it."""

    address: str
    """Address of the service."""
    bucket: str
    """Name of the bucket."""
    if_absent: Mapping[str, str]
    """Headers of a request that creates an object only if it does not exist."""
    exists: tuple[int, ...] = (412,)
    """Statuses that say that it does."""
    list_of, item, name, size, marker = "ListBucketResult", "Contents", "Key", "Size", "NextContinuationToken"
    """Elements of a list of objects: the list, one object, its key, its bytes, and what continues the list."""

    def list_url(self, prefix: str, marker: str) -> str:
        """Return the address of a list of objects. `marker`: continues the list; "" for its beginning."""
        query = {"list-type": "2", "prefix": prefix, "continuation-token": marker}
        return f"{self.address}/{self.bucket}?{_encoded(query)}"

    def object_url(self, key: str) -> str:
        """Return the address of an object."""
        return f"{self.address}/{self.bucket}/{quote(key, safe='/-_.~')}"

    @abstractmethod
    def headers(self, method: str, url: str, headers: Mapping[str, str], *, digest: str, size: int) -> dict[str, str]:
        """Return the headers of a request, signed. `headers`: to sign and send; `digest`: SHA-256 of the body."""


class S3Bucket(StorageService):
    """Amazon S3, or another server that speaks its API."""

    if_absent: Mapping[str, str] = {"If-None-Match": "*"}

    def __init__(self, bucket: str, environment: Mapping[str, str]) -> None:
        """Read region, endpoint and credentials. Raises: UserError."""
        self.bucket, self._region = bucket, environment.get("AWS_REGION") or "us-east-1"
        if not re.fullmatch(r"[a-z0-9-]+", self._region):
            raise UserError("AWS_REGION is not a region such as us-east-1.")
        usual = f"https://s3.{self._region}.amazonaws.com"
        self.address = (environment.get("AWS_ENDPOINT_URL") or usual).rstrip("/")
        key, secret = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
        if bool(key) != bool(secret):
            raise UserError("set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither for a public bucket.")
        token = environment.get("AWS_SESSION_TOKEN", "")
        self._credentials = Credentials(key_id=key, secret=secret, session_token=token) if key else None

    def headers(self, method: str, url: str, headers: Mapping[str, str], *, digest: str, size: int) -> dict[str, str]:  # noqa: ARG002 - the size is not signed
        """Sign with Signature Version 4."""
        if self._credentials is None:
            return dict(headers)
        return signed_headers(
            method,
            url,
            digest,
            credentials=self._credentials,
            region=self._region,
            service="s3",
            moment=datetime.now(UTC),
            headers=headers,
        )


class GoogleBucket(StorageService):
    """Google Cloud Storage, through its XML API. A service account signs its own tokens, so no other host is asked."""

    if_absent: Mapping[str, str] = {"x-goog-if-generation-match": "0"}

    def __init__(self, bucket: str, environment: Mapping[str, str]) -> None:
        """Read the file of a service account. Raises: UserError; MissingError without `cryptography`."""
        self.address, self.bucket = GOOGLE, bucket
        file = environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
        self._account = _read_account(Path(file)) if file else None
        self._token, self._until = "", 0.0

    def headers(self, method: str, url: str, headers: Mapping[str, str], *, digest: str, size: int) -> dict[str, str]:  # noqa: ARG002 - a token signs nothing
        """Add a token, which is used again until shortly before its end."""
        if self._account is None:
            return dict(headers)
        now = datetime.now(UTC).timestamp()
        if now > self._until:
            self._token, self._until = _token(self._account, int(now)), now + _TOKEN_S - 300
        return {**headers, "Authorization": f"Bearer {self._token}"}


class AzureContainer(StorageService):
    """Azure Blob Storage."""

    if_absent: Mapping[str, str] = {"If-None-Match": "*", "x-ms-blob-type": "BlockBlob"}
    exists = (409, 412)
    list_of, item, name, size, marker = "EnumerationResults", "Blob", "Name", "Properties/Content-Length", "NextMarker"

    def __init__(self, bucket: str, environment: Mapping[str, str]) -> None:
        """Read account, endpoint and credentials. Raises: UserError."""
        self.bucket, self._account = bucket, environment.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        if not re.fullmatch(r"[a-z0-9]+", self._account):
            raise UserError(f"az://{bucket}: set AZURE_STORAGE_ACCOUNT_NAME to the name of the storage account.")
        usual = f"https://{self._account}.blob.core.windows.net"
        self.address = (environment.get("AZURE_STORAGE_ENDPOINT") or usual).rstrip("/")
        try:
            self._key = b64decode(environment.get("AZURE_STORAGE_ACCOUNT_KEY", ""), validate=True)
        except ValueError:
            raise UserError("AZURE_STORAGE_ACCOUNT_KEY is not a key of a storage account, which is base64.") from None
        self._access = parse_qsl(environment.get("AZURE_STORAGE_SAS_TOKEN", "").lstrip("?"))

    def list_url(self, prefix: str, marker: str) -> str:
        """Return the address of a list of blobs."""
        query = {"restype": "container", "comp": "list", "prefix": prefix, "marker": marker, **self._added()}
        return f"{self.address}/{self.bucket}?{_encoded(query)}"

    def object_url(self, key: str) -> str:
        """Return the address of a blob, with the access token if there is one and no key."""
        query = _encoded(self._added())
        return super().object_url(key) + (f"?{query}" if query else "")

    def headers(self, method: str, url: str, headers: Mapping[str, str], *, digest: str, size: int) -> dict[str, str]:  # noqa: ARG002 - the body is not signed
        """Sign with the account's key."""
        sent = {**headers, "x-ms-version": _AZURE_VERSION, "x-ms-date": format_datetime(datetime.now(UTC), usegmt=True)}
        if method == "PUT":
            sent["Content-Type"] = "application/octet-stream"
        if not self._key:
            return sent
        signed = shared_key(method, url, sent, size=size, account=self._account, key=self._key)
        return {**sent, "Authorization": f"SharedKey {self._account}:{signed}"}

    def _added(self) -> dict[str, str]:
        return {} if self._key else dict(self._access)


def service_of(url: str, environment: Mapping[str, str] = os.environ) -> tuple[StorageService, str]:
    """Return the service of an address, and the folder in its bucket. Raises: UserError, MissingError."""
    if not _PLACE.fullmatch(url) or ".." in url:
        raise UserError(
            f"`{without_secrets(url)}` is not the address of a folder in an object store. Write s3://BUCKET/FOLDER, "
            "gs://BUCKET/FOLDER or az://CONTAINER/FOLDER, with letters, digits, `.`, `_` and `-`."
        )
    scheme, _, place = url.partition("://")
    bucket, _, folder = place.strip("/").partition("/")
    given = {name: environment.get(name, "").strip() for name in VARIABLES[scheme]}
    if scheme == "s3":
        return S3Bucket(bucket, given), folder
    return GoogleBucket(bucket, given) if scheme == "gs" else AzureContainer(bucket, given), folder


def shared_key(method: str, url: str, headers: Mapping[str, str], *, size: int, account: str, key: bytes) -> str:
    """Return the signature of a request to Azure Blob Storage.

    Source: "Authorize with Shared Key" in the REST reference of Azure Storage.
    """
    given = {name.lower(): value for name, value in headers.items()}
    named = ("content-type", "date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range")
    parts = urlsplit(url)
    lines = [method, "", "", str(size or ""), "", *(given.get(name, "") for name in named)]
    lines += [f"{name}:{given[name]}" for name in sorted(given) if name.startswith("x-ms-")]
    lines.append(f"/{account}{parts.path}")
    lines += [f"{name.lower()}:{value}" for name, value in sorted(parse_qsl(parts.query))]
    return b64encode(hmac.digest(key, "\n".join(lines).encode(), sha256)).decode()


def _encoded(query: Mapping[str, str]) -> str:
    """Return a query without what is empty."""
    return urlencode({name: value for name, value in query.items() if value}, quote_via=quote, safe="-_.~")


def _read_account(file: Path) -> Mapping[str, Any]:
    """Read the file of a service account. Raises: UserError, without its content."""
    named = f"GOOGLE_APPLICATION_CREDENTIALS: {file}"
    try:
        account = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{named} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        account = None
    wanted = ("client_email", "private_key", "private_key_id")
    if not isinstance(account, dict) or not all(isinstance(account.get(key), str) for key in wanted):
        raise UserError(f"{named} is not the key file of a service account, which is JSON with {', '.join(wanted)}.")
    return account


def _token(account: Mapping[str, Any], now: int) -> str:
    """Return a token that the service account signs itself, which needs no request to another host.

    Source: AIP-4111, "Self-signed JWT". Raises: UserError for a key that cannot be used; MissingError.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise MissingError(
            "service accounts of Google need cryptography: in a checkout, `pip install '.[object-stores]'`."
        ) from None
    try:
        key = load_pem_private_key(account["private_key"].encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise UserError("GOOGLE_APPLICATION_CREDENTIALS: the `private_key` in this file is not an RSA key in PEM.")
    email = account["client_email"]
    head = {"alg": "RS256", "typ": "JWT", "kid": account["private_key_id"]}
    claims = {"iss": email, "sub": email, "scope": _GOOGLE_SCOPE, "iat": now, "exp": now + _TOKEN_S}
    text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
    return f"{text}.{_base64(key.sign(text.encode(), PKCS1v15(), SHA256()))}"


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
