"""Download the public data of benchmarks: pinned, resumable and verified. Existing files are never overwritten."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from medhelm.benchmarks.data.dataset import find_data
from medhelm.benchmarks.data.sampling import (
    addresses,
    check_files,
    file_digest,
    is_archive,
    is_pattern,
    list_digest,
    matches_pattern,
    missing_files,
)
from medhelm.domain import Benchmark
from medhelm.errors import DataError, MissingError, UserError
from medhelm.io.files import finish_in_thread
from medhelm.io.folders import output_error
from medhelm.io.http.egress import EgressPolicy, note_request, way_of
from medhelm.io.http.hosts import SUBJECT, Audit, Subject, is_loopback

if TYPE_CHECKING:
    import aiohttp

CHUNK = 1 << 20
"""Bytes written at a time."""

LARGEST_MEMBER = 4 << 30
"""Maximum size of a file in an archive, in bytes."""

TIMEOUT_S = 60.0
"""Maximum wait for `LEAST_BYTES` from a server, or for the end of its response, in seconds."""

LEAST_BYTES = 1 << 16
"""A server that sends fewer bytes within `TIMEOUT_S` is given up."""

PARTIAL = ".part"
"""Suffix of an incomplete download, which the next one resumes."""

STAGING = f".unpacked{PARTIAL}"
"""Folder for the files of an archive until all are verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadResult:
    """Result of downloading the data of one benchmark."""

    benchmark: str
    """Its id."""
    state: Literal["fetched", "there", "failed"]
    """`fetched`: downloaded and verified; `there`: already present and verified; or `failed`."""
    folder: Path | None
    """Folder of the data; None if the download failed."""
    message: str
    """Reason of a failure; else ""."""


@dataclass(frozen=True, slots=True)
class _Downloader:
    """An open HTTP session, its policy, and the audit log."""

    session: aiohttp.ClientSession
    policy: EgressPolicy
    audit: Audit | None


def fetch(
    benchmarks: Sequence[Benchmark],
    data: Path,
    *,
    offline: bool,
    progress: Callable[[str], None] = lambda _: None,
    proxy: str = "",
    proxy_login: str = "",
    audit: Audit | None = None,
) -> list[DownloadResult]:
    """Download the data of benchmarks into `data`, one folder each. Verified files are kept.

    An error with one benchmark does not stop the others, unless its folder cannot be written. `proxy`: address of a
    proxy, if any; `proxy_login`: `user:password` for it; `audit`: takes a note of each request.
    Raises UserError, before anything is sent, if `offline`, or if the administrator's file forbids a host; as
    `output_error` if a folder cannot be written.
    """
    if offline:
        raise UserError(
            "downloading data needs the network, which offline mode forbids. Remove --offline (and MEDHELM_OFFLINE), "
            "or copy the files yourself: `medhelm data status` lists them and their folders. Nothing was sent."
        )
    places = [benchmark.source.location for benchmark in benchmarks if benchmark.source.location]
    policy = EgressPolicy(
        offline=False,
        allowed=[urlsplit(place).hostname or "" for place in places],
        proxy=proxy,
        proxy_login=proxy_login,
    )
    policy.admit_all(place for place in places if policy.is_restricted)
    if proxy:
        progress(f"downloading through the proxy {proxy}")
    return asyncio.run(_fetch_all(benchmarks, data, progress, policy, audit))


async def _fetch_all(
    benchmarks: Sequence[Benchmark],
    data: Path,
    progress: Callable[[str], None],
    policy: EgressPolicy,
    audit: Audit | None,
) -> list[DownloadResult]:
    import aiohttp

    from medhelm.io.http.egress import open_http_session

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=TIMEOUT_S)
    done = []
    # Checksums are of the files as stored on the server, so no transfer compression is used.
    async with open_http_session(policy, audit, timeout=timeout, auto_decompress=False) as session:
        downloader = _Downloader(session, policy, audit)
        for benchmark in benchmarks:
            SUBJECT.set(Subject(benchmark=benchmark.name, requests=0))
            try:
                done.append(await _fetch_one(downloader, benchmark, data, progress))
            except (UserError, MissingError) as error:
                done.append(DownloadResult(benchmark=benchmark.name, state="failed", folder=None, message=str(error)))
            except OSError as error:
                raise output_error(_data_folder(benchmark, data), error, "name another folder with --data") from error
    return done


async def _fetch_one(
    downloader: _Downloader, benchmark: Benchmark, data: Path, progress: Callable[[str], None]
) -> DownloadResult:
    """Download one benchmark."""
    source = benchmark.source
    folder = _data_folder(benchmark, data)
    checksums = {**source.files, **_id_files(benchmark)}
    wanted = [*missing_files(source, folder), *(n for n in _id_files(benchmark) if not (folder / n).is_file())]
    if (folder / STAGING).exists():  # interrupted while files were moved: some files of a pattern may exist
        wanted = list(dict.fromkeys([*wanted, *filter(is_pattern, source.files)]))
    if not wanted:
        check_files(source, folder)
        return DownloadResult(benchmark=benchmark.name, state="there", folder=folder, message="")
    if not source.location:
        raise MissingError(_not_downloadable(benchmark, folder))
    if is_archive(source.location):
        (address,) = addresses(source, [""])
        progress(f"{benchmark.name}: {address}")
        await _download_archive(downloader, address, {name: checksums[name] for name in wanted}, folder)
    else:
        if patterns := [name for name in wanted if is_pattern(name)]:
            raise DataError(
                f"{benchmark.name}: {', '.join(patterns)} cannot be downloaded: the list of its files is unknown."
            )
        for name, address in zip(wanted, addresses(source, wanted), strict=True):
            progress(f"{benchmark.name}: {address}")
            await _download_file(downloader, address, folder / name, checksums[name])
    check_files(source, folder)
    return DownloadResult(benchmark=benchmark.name, state="fetched", folder=folder, message="")


def _id_files(benchmark: Benchmark) -> dict[str, str]:
    """Map files with the ids of a selection to their sha256, or "" if unknown."""
    samples = [benchmark.sample, *benchmark.samples.values()]
    return {sample.ids_file: sample.ids_sha256 for sample in samples if sample.ids_file}


def _data_folder(benchmark: Benchmark, data: Path) -> Path:
    """Return the folder of the data, existing or not."""
    try:
        return find_data(benchmark, data)
    except MissingError:
        return data / benchmark.name


def _not_downloadable(benchmark: Benchmark, folder: Path) -> str:
    files = ", ".join(benchmark.source.files)
    what = f"{benchmark.name}: cannot be downloaded ({benchmark.access}). Copy {files} to {folder}."
    return f"{what}\n{benchmark.source.note}".rstrip()


async def _download_file(downloader: _Downloader, address: str, path: Path, checksum: str) -> None:
    """Download one file to a partial file, and rename it once its checksum is verified."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    await _download(downloader, address, partial)
    found = file_digest(partial)
    if checksum and found != checksum:
        partial.unlink()
        raise _checksum_error(address, found, checksum)
    partial.replace(path)


def _checksum_error(address: str, found: str, checksum: str) -> DataError:
    return DataError(
        f"{address} is not the file in the definition: it has changed, or another server answered.\n"
        f"  sha256 is     {found}\n"
        f"  it should be  {checksum}\n"
        "The download was deleted. If you want the new file, correct revision and sha256 in benchmark.yaml."
    )


async def _download(downloader: _Downloader, address: str, partial: Path) -> None:
    """Download `address` to `partial`, resuming an earlier download."""
    import aiohttp

    from medhelm.io.http.client import connection_problem  # lazy, like the HTTP library

    start = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    url = downloader.policy.admit(address)
    way = way_of(downloader.policy, url)
    if downloader.audit:
        await note_request(downloader.audit, "GET", url, way.get("proxy"), None)
    try:
        async with (
            asyncio.timeout(TIMEOUT_S) as limit,
            downloader.session.get(url, headers=headers, allow_redirects=False, **way) as response,
        ):
            if start and response.status == 416:  # nothing is left to send: the file was complete
                return
            if response.status not in (200, 206):
                raise DataError(
                    f"{address} cannot be downloaded: the server answered {response.status} {response.reason}."
                )
            with partial.open("ab" if response.status == 206 and start else "wb") as file:
                received = 0
                async for chunk in response.content.iter_chunked(CHUNK):
                    file.write(chunk)
                    received += len(chunk)
                    if received >= LEAST_BYTES:
                        received = 0
                        limit.reschedule(asyncio.get_running_loop().time() + TIMEOUT_S)
    except (aiohttp.ClientError, TimeoutError) as error:
        near, proxy = is_loopback(url.raw_host or ""), way.get("proxy", "")
        problem = connection_problem(error, url, TIMEOUT_S, near=near, proxy=proxy, of_model=False)
        words = str(problem).rstrip(".")
        kept = f" {partial} holds the received part; run the same command again to resume." if partial.exists() else ""
        raise DataError(f"{address} cannot be downloaded: {words}.{kept}") from None


async def _download_archive(downloader: _Downloader, address: str, wanted: Mapping[str, str], folder: Path) -> None:
    """Download an archive and extract files below its top folder. `wanted`: path or pattern -> checksum."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f".archive{PARTIAL}"
    await _download(downloader, address, archive)
    staging = folder / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    try:
        names = await finish_in_thread(lambda: _unpack(archive, list(wanted), staging))
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not the archive
            raise
        archive.unlink()
        raise DataError(f"{address}: cannot be read as an archive ({error}). The download was deleted.") from None
    archive.unlink()
    for name, checksum in wanted.items():
        members = [member for member in names if matches_pattern(member, name)]
        digests = {member: file_digest(staging / member) for member in members}
        found = list_digest(digests, members) if is_pattern(name) else digests.get(name, "nothing")
        if checksum not in ("", found) or not members:
            shutil.rmtree(staging, ignore_errors=True)
            raise _checksum_error(f"{address}, {name}", found, checksum)
    for member in names:
        (folder / member).parent.mkdir(parents=True, exist_ok=True)
        (staging / member).replace(folder / member)
    shutil.rmtree(staging, ignore_errors=True)


def _unpack(archive: Path, wanted: Sequence[str], staging: Path) -> list[str]:
    """Extract the wanted members to `staging`; return their paths without the top folder.

    Only regular files with plain relative paths are extracted. Raises ValueError for a member that is too large.
    """
    names = []
    for member, size, content in _open_members(archive):
        name = PurePosixPath(*PurePosixPath(member).parts[1:]).as_posix()
        if ".." in PurePosixPath(name).parts or not any(matches_pattern(name, pattern) for pattern in wanted):
            continue
        if size > LARGEST_MEMBER:
            raise ValueError(f"{member} has {size} bytes")
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_bytes(content())
        names.append(name)
    return names


def _open_members(archive: Path) -> Iterable[tuple[str, int, Callable[[], bytes]]]:
    """Yield path, size and content of each regular file of a zip or tar archive."""
    import tarfile
    import zipfile

    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, lambda info=info: opened.read(info)  # type: ignore[misc]
        return
    try:
        with tarfile.open(archive) as packed:
            for member in packed:
                file = packed.extractfile(member) if member.isfile() else None
                if file is not None:
                    yield member.name, member.size, file.read
    except tarfile.TarError as error:
        raise ValueError(str(error)) from None
