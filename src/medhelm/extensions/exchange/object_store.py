"""Stores and folders in object storage: S3, Google Cloud Storage and Azure."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import json
import os
import re
import time
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from medhelm.domain import Benchmark, Run
from medhelm.errors import DataError, MissingError, ProviderError, StoreError, UserError
from medhelm.io.files import leave_plain
from medhelm.io.folders import atomic_file, atomic_folder, delete_folder
from medhelm.io.http.client import HttpClient, HttpResponse
from medhelm.io.http.egress import ADMINISTRATOR_FILE, EgressPolicy, read_rules
from medhelm.io.http.hosts import SUBJECT, Audit, Subject, host_of, is_inside, is_loopback, without_secrets
from medhelm.models.addresses import record_consent
from medhelm.models.providers.bedrock import Credentials, signed_headers
from medhelm.results.comparable import has_own_data
from medhelm.results.export import benchmarks_with_record_numbers
from medhelm.results.options import EVERY_RUN, RunFilter
from medhelm.results.runs.selection import filter_runs
from medhelm.storage.audit import AuditLog
from medhelm.storage.damage import no_damaged_runs
from medhelm.storage.imported_instances import instances_file
from medhelm.storage.releases import MANIFEST, release_names
from medhelm.storage.runs import load_runs
from medhelm.storage.store import NAME, Store, create, open_store, stored_folder

# --- services ---------------------------------------------------------------------------------------------------------
# The services behind addresses of object stores: where they are, how requests are signed, how objects are listed.
#
# S3 and Google Cloud Storage list and create objects in the same way; Azure does it with other names. Requests are
# described here and sent by `ObjectStore`.

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


# --- folder -----------------------------------------------------------------------------------------------------------
# A folder in an object store (S3, Google Cloud Storage, Azure): list, read, and create; objects never change.
#
# Requests go through `HttpClient`, as all others do: the egress policy admits every host and address, redirects are
# refused, and each request is in the audit log. Credentials come from the variables in `VARIABLES` only, never from the
# metadata service of the machine.

REPLY_S, BYTES_PER_S = 30.0, 50_000
"""Seconds to wait for a reply, and the slowest transfer of an object: both limit the time for one request."""

GIVE_UP_S = 60.0
"""A request that failed is not repeated if this many seconds have passed since the first attempt."""

WAIT_S, ATTEMPTS = 0.5, 6
"""Seconds before the second attempt, doubled for each further one, and attempts in all."""

MOST_PAGES = 10_000
"""Most pages of a list of objects; services send a thousand objects in one."""

_TRANSIENT = {409, 429, 500, 502, 503, 504}
_EMPTY = hashlib.sha256(b"").hexdigest()
_CODE = re.compile(rb"<Code>([A-Za-z]{1,60})</Code>")
_Result = TypeVar("_Result")


class ObjectStore:
    """A folder of an object store. `with ObjectStore(...) as remote:` closes its connections in the end."""

    def __init__(
        self, url: str, *, offline: bool, environment: Mapping[str, str] = os.environ, audit: Audit | None = None
    ) -> None:
        """Check the address; nothing is sent yet. `audit`: log of the requests.

        Raises: UserError for an address or a host that may not be contacted, and for credentials that cannot be used.
        """
        self.url = url.rstrip("/")
        self.audit = audit
        self._service, folder = service_of(self.url, environment)
        address = self._service.address
        self.host = host_of(address)
        if urlsplit(address).scheme != "https" and not is_inside(self.host):
            raise UserError(f"{address}: use https://, or data and keys would be sent unencrypted.")
        policy = EgressPolicy(offline, {self.host})
        policy.admit_all([address])
        self._folder = f"{folder}/" if folder else ""
        self._sizes: dict[str, int] = {}
        self._http = HttpClient(policy, timeout_s=REPLY_S, audit=audit, of_models=False)
        self._loop = asyncio.Runner()

    def __enter__(self) -> Self:
        """Return the folder itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close all connections."""
        self._loop.run(self._http.close())
        self._loop.close()

    def sizes(self) -> dict[str, int]:
        """List all objects: key below the folder -> bytes. Raises: MissingError."""
        self._sizes = self._run(self._list())
        return dict(self._sizes)

    def read(self, key: str) -> bytes | None:
        """Read an object; None if there is none. Raises: MissingError."""
        content = io.BytesIO()
        return content.getvalue() if self._run(self._get(key, content)) else None

    def download(self, key: str, file: Path) -> None:
        """Write an object to a new file. Raises: MissingError if there is none; StoreFullError."""
        with file.open("xb") as out:
            if not self._run(self._get(key, out)):
                raise MissingError(f"{self.url}/{key}: the object was removed while the store was read. Try again.")

    def create(self, key: str, content: Path | bytes, *, benchmark: str = "") -> bool:
        """Create an object; return False, and do not change it, if it exists. Raises: MissingError.

        `benchmark`: name in the audit log.
        """
        with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
            return self._run(self._put(key, file, benchmark))

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        with self._errors():
            return self._loop.run(work)

    async def _list(self) -> dict[str, int]:
        service, found, marker = self._service, dict[str, int](), ""
        for _ in range(MOST_PAGES):
            url = service.list_url(self._folder, marker)
            reply = await self._repeat(partial(self._http.get, url, headers=self._headers("GET", url)))
            objects, marker = _read_list(reply.body, service)
            found |= {key.removeprefix(self._folder): size for key, size in objects if key != self._folder}
            if not marker:
                return found
        raise MissingError(f"{self.url} cannot be used: its list of objects does not end.")

    async def _get(self, key: str, into: IO[bytes]) -> bool:
        """Write an object to a file; return False if there is none."""
        url = self._service.object_url(self._folder + key)
        limit_s = REPLY_S + self._sizes.get(key, 0) / BYTES_PER_S

        async def send() -> HttpResponse:
            into.seek(0)
            into.truncate()
            return await self._http.get(url, headers=self._headers("GET", url), timeout_s=limit_s, into=into)

        return (await self._repeat(send, known=(404,))).status != 404

    async def _put(self, key: str, file: IO[bytes], benchmark: str) -> bool:
        """Create an object; return False if it exists."""
        service, url = self._service, self._service.object_url(self._folder + key)
        size, digest = file.seek(0, os.SEEK_END), _digest(file)
        limit_s = REPLY_S + size / BYTES_PER_S

        async def send() -> HttpResponse:
            headers = self._headers("PUT", url, service.if_absent, digest=digest, size=size)
            return await self._http.put(url, headers=headers, body=file, timeout_s=limit_s)

        SUBJECT.set(Subject(benchmark=benchmark, digest=digest, requests=0))
        try:
            return (await self._repeat(send, known=service.exists)).status not in service.exists
        finally:
            SUBJECT.set(None)

    def _headers(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, *, digest: str = _EMPTY, size: int = 0
    ) -> dict[str, str]:
        return self._service.headers(method, url, headers or {}, digest=digest, size=size)

    async def _repeat(self, send: Callable[[], Awaitable[HttpResponse]], known: tuple[int, ...] = ()) -> HttpResponse:
        """Send a request, again after errors that may pass. `known`: statuses that are answers, besides success.

        Raises: MissingError for another status; ProviderError.
        """
        started = time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            is_last = attempt == ATTEMPTS or time.monotonic() - started >= GIVE_UP_S
            try:
                reply = await send()
            except ProviderError as error:
                if is_last or not error.retryable or time.monotonic() - started >= GIVE_UP_S:
                    raise
            else:
                if reply.status < 300 or reply.status in known:
                    return reply
                if is_last or reply.status not in _TRANSIENT:
                    code = _CODE.search(reply.body[:4096])
                    reason = f" {code[1].decode()}" if code else ""
                    raise MissingError(f"{self.url} cannot be used: {self.host} replied {reply.status}{reason}.")
            await asyncio.sleep(WAIT_S * 2.0 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors to MissingError, without addresses that hold secrets."""
        try:
            yield
        except ProviderError as error:
            raise MissingError(f"{self.url} cannot be used: {error}") from None


def _read_list(body: bytes, service: StorageService) -> tuple[list[tuple[str, int]], str]:
    """Return the keys and sizes in a list of objects, and what continues it. Raises: MissingError."""
    from medhelm.io.office import parse_xml

    try:
        root = parse_xml(body)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2].rpartition(":")[2]
        if root.tag != service.list_of:
            raise ValueError
        objects = [
            (one.findtext(service.name, ""), int(one.findtext(service.size, ""))) for one in root.iter(service.item)
        ]
    except (DataError, ValueError):
        raise MissingError(f"{service.address} sent a list of objects that cannot be read.") from None
    return objects, root.findtext(service.marker, "")


def _digest(file: IO[bytes]) -> str:
    """Return the SHA-256 of a file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed asks for more than IO


# --- publishing -------------------------------------------------------------------------------------------------------
# Publish runs and releases to an object store, and read them there through a copy on this machine.
#
# The layout is that of a store. Objects are created and never changed. A run is published when its `run.json` is there,
# a release when its `release.json` is: they come last, so an interrupted publication is invisible, and the same command
# finishes it. A copy downloads each run once.

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
_RUN_FILES = re.compile(rf"(runs/{_NAME}/{_NAME})/{_NAME}")
_RELEASE_FILES = re.compile(rf"(releases/{_NAME})/{_NAME}")
_OTHER_FILES = re.compile(rf"(?:prompts|instances)/{_NAME}")
"""Keys of the layout. Others are ignored: the content of an object store is not trusted."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Result of a publication."""

    url: str
    """Address of the published store."""
    runs: int
    """Runs that were published now."""
    releases: int
    """Releases that were published now."""
    known: int
    """Runs and releases that were there already."""
    remarks: tuple[str, ...] = ()
    """Remarks on what was published that may identify patients."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A run or a release with its files, the one that makes it visible last."""

    title: str
    benchmark: str
    files: Mapping[str, Path]
    """Key -> file."""

    @property
    def marker(self) -> str:
        """Key of the file that makes it visible: the last one."""
        return list(self.files)[-1]


def publish(
    store: Store,
    remote: ObjectStore,
    definitions: Sequence[Benchmark],
    *,
    wanted: RunFilter = EVERY_RUN,
    allowed: Collection[str] = (),
) -> Publication:
    """Publish finished runs that meet some conditions, and all releases.

    Parameters: definitions, of the benchmarks that are known, others count as private; allowed, hosts that may get
    gated and private data.
    Raises: UserError, before anything is sent, for private data without consent, for a run or release that was
    published with other content, and as `filter_runs`; StoreError; MissingError if the object store cannot be used.
    """
    with no_damaged_runs():
        complete = [run for run in load_runs(store, variants=True) if run.is_complete]
        runs = filter_runs(wanted, complete, lambda run: run, families=True)
    private = _private_benchmarks(runs, definitions)
    if problem := _missing_consent(private, remote.host, allowed):
        raise UserError(problem)
    parts = [*(_run_part(store, run) for run in runs), *(_release_part(store, name) for name in release_names(store))]
    published = remote.sizes()
    known = [part for part in parts if part.marker in published]
    if other := [part for part in known if remote.read(part.marker) != part.files[part.marker].read_bytes()]:
        raise UserError(
            f"{remote.url} has other content under the same name: {', '.join(part.title for part in other)}. What is "
            "published never changes: publish to another folder, or leave these out with --exclude or --benchmark. "
            "Nothing was sent."
        )
    if private:
        record_consent(remote.audit, [remote.host], private, allowed=allowed)
    remote.create("store.json", (store.folder / "store.json").read_bytes())
    for part in parts:
        if part.marker not in published:
            _send(part, remote)
    new = [part for part in parts if part.marker not in published]
    n_releases = sum(not part.benchmark for part in new)
    remarks = tuple(
        f"{name}: the clusters look like record numbers of patients, and were published as they are, as were the texts."
        for name in benchmarks_with_record_numbers(runs)
    )
    return Publication(remote.url, len(new) - n_releases, n_releases, len(known), remarks)


def _run_part(store: Store, run: Run) -> _Part:
    digests = run.benchmark_digest, run.data_digest
    instances = instances_file(store, run.benchmark, run.data_digest)
    shared = [
        store.prompts_file(run.benchmark, *digests),
        store.baseline_file(run.benchmark, *digests),
        instances,
        instances.with_suffix(".json"),
    ]
    title = f"{run.benchmark} with {run.model}"
    return _part(store, title, stored_folder(run), NAME, [path for path in shared if path.exists()], run.benchmark)


def _release_part(store: Store, name: str) -> _Part:
    return _part(store, f"release {name}", store.folder / "releases" / name, MANIFEST)


def _part(
    store: Store, title: str, folder: Path, marker: str, shared: Sequence[Path] = (), benchmark: str = ""
) -> _Part:
    """Return the files of a folder, after those that it shares with others, and with its marker last."""
    own = sorted(path for path in folder.iterdir() if path.is_file() and path.name != marker)
    files = [*shared, *own, folder / marker]
    return _Part(title, benchmark, {path.relative_to(store.folder).as_posix(): path for path in files})


def _send(part: _Part, remote: ObjectStore) -> None:
    """Create the objects of a part. Raises: StoreError if one of them exists with other content."""
    for key, path in part.files.items():
        if not remote.create(key, path, benchmark=part.benchmark) and remote.read(key) != path.read_bytes():
            raise StoreError(
                f"{remote.url}/{key} exists with other content, so {part.title} was not published. It is left from "
                "another publication that was interrupted: remove it there, or publish to another folder."
            )


def _private_benchmarks(runs: Sequence[Run], definitions: Sequence[Benchmark]) -> list[str]:
    """Return the benchmarks of some runs whose data is not public."""
    public = {benchmark.name for benchmark in definitions if benchmark.access == "public"}
    real = [run for run in runs if run.tier == "real"]
    return sorted({run.benchmark for run in real if run.benchmark not in public or has_own_data(run)})


def _missing_consent(private: Sequence[str], host: str, allowed: Collection[str]) -> str:
    """Return the message on private data that would be sent without consent; "" if there is none."""
    rules = read_rules()
    if not private or is_loopback(host) or host in allowed or (rules and rules.private_data.has(host)):
        return ""
    return (
        f"data that is not public would leave this machine: prompts, completions, references and clusters of "
        f"{', '.join(private)} to {host}.\nIf its terms of use permit that, add --allow-host {host}\n"
        f"`private_data` in {ADMINISTRATOR_FILE} permits hosts for every command. Nothing was sent."
    )


# --- copies -----------------------------------------------------------------------------------------------------------


def copies_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of all copies, in the user's cache folder."""
    return Path(environment.get("XDG_CACHE_HOME", "").strip() or "~/.cache").expanduser() / "medhelm" / "published"


def copy_of(url: str, *, offline: bool, environment: Mapping[str, str] = os.environ) -> Path:
    """Bring the copy of a published store up to date, and return its folder; the requests are in its audit log.

    What was removed from the object store is removed from the copy. Raises: UserError for an address that may not be
    contacted; StoreError if there is no store; MissingError if it cannot be read.
    """
    url = url.rstrip("/")
    name = f"{url.rpartition('/')[2]}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
    store = Store(copies_folder(environment) / name)
    leave_plain(store.folder)
    with (
        closing(AuditLog(store.audit_file)) as audit,
        ObjectStore(url, offline=offline, environment=environment, audit=audit) as remote,
    ):
        _update(create(store.folder), remote)
    return open_store(store.folder).folder


def _update(store: Store, remote: ObjectStore) -> None:
    """Bring a copy up to date. Raises: as `copy_of`."""
    folder, keys = store.folder, remote.sizes()
    if "store.json" not in keys:
        raise StoreError(f"no store at {remote.url}. `medhelm export store {remote.url}` publishes one.")
    groups: dict[str, list[str]] = {}
    for key in keys:
        if found := _RUN_FILES.fullmatch(key) or _RELEASE_FILES.fullmatch(key):
            groups.setdefault(found[1], []).append(key)
        elif _OTHER_FILES.fullmatch(key):
            _download(remote, key, folder)
    for group, files in groups.items():
        marker = MANIFEST if group.startswith("releases/") else NAME
        if f"{group}/{marker}" in keys and not (folder / group).exists():
            with atomic_folder(folder / group) as new:
                for key in files:
                    remote.download(key, new / key.rpartition("/")[2])
    for path in [*folder.glob("runs/*/[!.]*"), *folder.glob("releases/[!.]*")]:
        if path.relative_to(folder).as_posix() not in groups:
            delete_folder(path)


def _download(remote: ObjectStore, key: str, folder: Path) -> None:
    """Download an object that is not there yet."""
    if (folder / key).exists():
        return
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / key) as new:
        remote.download(key, new)
