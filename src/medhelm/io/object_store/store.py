"""A folder in an object store (S3, Google Cloud Storage, Azure): list, read, and create; objects never change.

`obstore` sends the requests; it is an extra. It does not use our HTTP client, so each address is checked by the egress
policy before the first request, each object is recorded in the audit log, and proxies and credentials come from the
variables in `VARIABLES` only, never from instance metadata.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medhelm.errors import MissingError, UserError
from medhelm.io.http.audit import Audit, Subject
from medhelm.io.http.egress import PIECE_BYTES, EgressPolicy
from medhelm.io.http.hosts import host_of, is_inside, without_secrets

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

VARIABLES: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "AWS_ACCESS_KEY_ID": "access_key_id",
        "AWS_SECRET_ACCESS_KEY": "secret_access_key",
        "AWS_SESSION_TOKEN": "session_token",
        "AWS_REGION": "region",
        "AWS_ENDPOINT_URL": "endpoint",
    },
    "gs": {"GOOGLE_APPLICATION_CREDENTIALS": "service_account"},
    "az": {
        "AZURE_STORAGE_ACCOUNT_NAME": "account_name",
        "AZURE_STORAGE_ACCOUNT_KEY": "account_key",
        "AZURE_STORAGE_SAS_TOKEN": "sas_key",
        "AZURE_STORAGE_ENDPOINT": "endpoint",
    },
}
"""Scheme of an address -> environment variable -> setting. Without credentials only public buckets can be read."""

_CREDENTIALS = {"access_key_id", "service_account", "account_key", "sas_key"}

_PLACE = re.compile(r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)*/?")
"""Addresses: scheme, bucket (for Azure, container), folder."""


@dataclass(frozen=True, slots=True)
class _Service:
    """The service behind an address."""

    settings: Mapping[str, str]
    """Settings of `obstore`."""
    addresses: tuple[str, ...]
    """Addresses that are contacted: the service itself, then the service that issues tokens."""


def _service(url: str, environment: Mapping[str, str]) -> _Service:
    """Return the service of an address. Raises: UserError."""
    if not _PLACE.fullmatch(url) or ".." in url:
        raise UserError(
            f"`{without_secrets(url)}` is not the address of a folder in an object store. Write s3://BUCKET/FOLDER, "
            "gs://BUCKET/FOLDER or az://CONTAINER/FOLDER, with letters, digits, `.`, `_` and `-`."
        )
    scheme = url.partition("://")[0]
    settings = {key: environment[name] for name, key in VARIABLES[scheme].items() if environment.get(name)}
    if not _CREDENTIALS & settings.keys():
        settings["skip_signature"] = "true"  # else it would ask the metadata service of the machine
    if scheme == "gs":
        return _Service(settings, ("https://storage.googleapis.com", "https://oauth2.googleapis.com"))
    if scheme == "az":
        if "account_name" not in settings:
            raise UserError(f"{url}: set AZURE_STORAGE_ACCOUNT_NAME to the name of the storage account.")
        settings.setdefault("endpoint", f"https://{settings['account_name']}.blob.core.windows.net")
        return _Service(settings, (settings["endpoint"],))
    settings.setdefault("region", "us-east-1")
    settings.setdefault("endpoint", f"https://s3.{settings['region']}.amazonaws.com")
    return _Service({**settings, "virtual_hosted_style_request": "false"}, (settings["endpoint"],))


class ObjectStore:
    """A folder of an object store."""

    def __init__(
        self, url: str, *, offline: bool, environment: Mapping[str, str] = os.environ, audit: Audit | None = None
    ) -> None:
        """Check the address; nothing is sent yet. `audit`: log of the objects that are written or read.

        Raises: UserError for an address or a host that may not be contacted; MissingError without `obstore`.
        """
        self.url = url.rstrip("/")
        service = _service(self.url, environment)
        self.host = host_of(service.addresses[0])
        for address in service.addresses:
            if urlsplit(address).scheme != "https" and not is_inside(host_of(address)):
                raise UserError(f"{address}: use https://, or data and keys would be sent unencrypted.")
        self._policy = EgressPolicy(offline, {host_of(address) for address in service.addresses})
        self._policy.admit_all(service.addresses)
        self._address = service.addresses[0]
        self._audit = audit
        self._client = _open(self.url, service, self._policy)

    def sizes(self) -> dict[str, int]:
        """List all objects: key below the folder -> bytes. Raises: MissingError."""
        import obstore

        with self._errors():
            return {one["path"]: one["size"] for page in obstore.list(self._client) for one in page}

    def read(self, key: str) -> bytes | None:
        """Read an object; None if there is none. Raises: MissingError."""
        return b"".join(pieces) if (pieces := self._pieces(key)) is not None else None

    def download(self, key: str, file: Path) -> None:
        """Write an object to a new file. Raises: MissingError if there is none."""
        pieces = self._pieces(key)
        if pieces is None:
            raise MissingError(f"{self.url}/{key}: the object was removed while the store was read. Try again.")
        with self._errors(), file.open("xb") as out:
            out.writelines(pieces)

    def create(self, key: str, content: Path | bytes, *, benchmark: str = "") -> bool:
        """Create an object; return False, and do not change it, if it exists. Raises: MissingError.

        `benchmark`: name in the audit log.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError

        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        self._note("PUT", size, Subject(benchmark=benchmark, digest=_digest(content), requests=0))
        with self._errors():
            try:
                obstore.put(self._client, key, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def _pieces(self, key: str) -> Iterator[bytes] | None:
        """Return the content of an object in pieces; None if there is none."""
        import obstore

        self._note("GET", 0, Subject(requests=0))
        with self._errors():
            try:
                return (bytes(piece) for piece in obstore.get(self._client, key).stream(min_chunk_size=PIECE_BYTES))
            except FileNotFoundError:
                return None

    def _note(self, method: str, size: int, subject: Subject) -> None:
        if self._audit:
            self._audit.request_all(method, self._address, [(subject, size)])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of the library to MissingError, without addresses that hold secrets."""
        from obstore.exceptions import BaseError

        try:
            yield
        except BaseError as error:
            reason = str(error).split("\n", 1)[0].split("?", 1)[0]
            raise MissingError(f"{self.url} cannot be used ({type(error).__name__}): {reason[:300]}") from None


def _open(url: str, service: _Service, policy: EgressPolicy) -> Client:
    """Open the folder. Raises: UserError for settings that the library refuses; MissingError without the library."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise MissingError(
            f"{url}: object stores need obstore: in a checkout, `pip install '.[object-stores]'`."
        ) from None
    from yarl import URL

    options: Any = {"timeout": "120s", "connect_timeout": "20s"}
    if service.addresses[0].startswith("http://"):
        options["allow_http"] = True
    if proxy := policy.proxy_of(URL(service.addresses[0])):
        options["proxy_url"] = proxy
    settings: Any = dict(service.settings)
    retries: Any = {"max_retries": 5}
    with _without_proxies():
        try:
            found: Client = from_url(url, config=settings, client_options=options, retry_config=retries)
            return found
        except (BaseError, ValueError) as error:
            raise UserError(f"{url}: {str(error).splitlines()[0]}") from None


@contextmanager
def _without_proxies() -> Iterator[None]:
    """Hide the proxies of the environment from the library, which would use them."""
    hidden = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


def _digest(content: Path | bytes) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
