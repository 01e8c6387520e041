"""Privacy of a store: deletions of instances, their statements, the log of exports, and pseudonyms."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medhelm.errors import StoreError
from medhelm.io.files import address, file_mask, read_confidential, reason
from medhelm.io.folders import write_confidential, write_file
from medhelm.io.parquet import connect, sql_name, sql_path, sql_text
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.store import Store

# --- deletions --------------------------------------------------------------------------------------------------------
# Statements of deletions of instances.
#
# STORE/deletions/ID.json says what was deleted, where, when and by which command, with keyed hashes in place of ids and
# without any text; ID.md says the same for people. The hashes also keep the instances out: a later evaluation of data
# that still has them leaves them out. Until a deletion is finished, its file holds the keys of the completions to
# delete, so that the same command continues it.

DELETION_FORMAT = 1
"""Version of the statements, under their key `format`."""

FOLDER = "deletions"
"""Folder of a store with the statements."""

DELETED = "deleted-"
"""Start of the id that a deleted instance has in a run that keeps its numbers."""

ROW_GROUP = 2048
"""Most rows of a Parquet file that are held in memory at once."""

CLEARED: Mapping[str, str] = {
    "completion": "CASE WHEN {0} IS NULL THEN NULL ELSE '' END",
    "reasoning": "NULL",
    "token_logprobs": "NULL",
    "text": "CASE WHEN {0} IS NULL THEN NULL ELSE '' END",
    "failure_message": "CASE WHEN {0} IS NULL THEN NULL ELSE '' END",
    "explanation": "''",
    "score_failure": "NULL",
    "verification_code": "NULL",
    "request_digest": "CASE WHEN {0} = '' THEN '' ELSE sha256({1} || {0}) END",
}
"""Column -> its SQL in the row of a deleted instance whose numbers are kept. Hashes of requests are replaced by keyed
ones, so that requests that runs share are still counted once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A deletion of instances: its statement, which holds no text and no id."""

    id: str
    """Id of the deletion."""
    time: str
    """Time of its start, ISO 8601, UTC."""
    command: str
    """The command, with keyed hashes in place of ids."""
    medhelm_version: str
    """Version of MedHELM."""
    numbers_kept: bool
    """True if scores, counts and costs of the instances stay."""
    instances: tuple[tuple[str, str], ...]
    """Benchmark and keyed hash of each instance."""
    clusters: tuple[tuple[str, str], ...] = ()
    """Benchmark and keyed hash of each cluster that was named."""
    is_finished: bool = False
    """False while it is in progress, and after it was interrupted."""
    places: Mapping[str, int] = field(default_factory=dict)
    """File in the store -> rows, marks or completions deleted there, or emptied."""
    runs: tuple[Mapping[str, Any], ...] = ()
    """Runs that were changed: id, benchmark, model, and instances and sha256 of the records before and after."""
    exports: tuple[Mapping[str, Any], ...] = ()
    """Exports outside the store that still hold the instances, or that were deleted: path, time, kind, `deleted`."""
    remaining: tuple[str, ...] = ()
    """Places that the deletion does not reach, in sentences."""
    digests: tuple[str, ...] = ()
    """Keys of the completions to delete; empty once it is finished."""


_PAIRS = Nested(
    lambda pairs: [{"benchmark": name, "key": key} for name, key in pairs],
    lambda content: tuple((one["benchmark"], one["key"]) for one in content),
)

DELETION = JsonForm(
    Deletion,
    key_map(
        "id time command medhelm=medhelm_version numbers_kept instances clusters finished=is_finished places runs "
        "exports remaining digests"
    ),
    nested={
        "instances": _PAIRS,
        "clusters": _PAIRS,
        **{key: Nested(list, tuple) for key in ("runs", "exports", "remaining", "digests")},
    },
    not_if_empty=("digests",),
)
"""The JSON form of a statement."""


def write_deletion(store: Store, deletion: Deletion, *, text: str = "") -> None:
    """Write a statement, and its `text` for people if there is one. Raises: OSError."""
    file = store.folder / FOLDER / f"{deletion.id}.json"
    file.parent.mkdir(mode=0o770, exist_ok=True)
    if text:
        write_file(file.with_suffix(".md"), text, durable=True)
    content = {"format": DELETION_FORMAT, **DELETION.write(deletion)}
    write_file(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n", durable=True)


def read_deletions(store: Store) -> list[Deletion]:
    """Read all statements, the earliest first. Raises: StoreError for a damaged one."""
    found = []
    for path in sorted((store.folder / FOLDER).glob("[!.]*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != DELETION_FORMAT:
                raise ValueError("its format is not known")
            found.append(DELETION.read(content))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{path} is damaged ({error}). It keeps deleted instances out of later evaluations: restore it from a "
                "copy."
            ) from error
    return sorted(found, key=lambda one: (one.time, one.id))


def deleted_instances(store: Store, deletions: Iterable[Deletion] | None = None) -> set[tuple[str, str]]:
    """Return benchmark and keyed hash of all instances that were deleted from a store. Raises: StoreError."""
    known = read_deletions(store) if deletions is None else deletions
    return {pair for deletion in known for pair in deletion.instances}


# --- tables -----------------------------------------------------------------------------------------------------------


def rewrite_table(
    path: Path, new: Path, ids: Mapping[str, str], *, clusters: Mapping[str, str] | None = None, salt: str = ""
) -> int:
    """Copy a Parquet file without the rows of some instances, and return their number; without any, copy nothing.

    Parameters: ids, id of a deleted instance -> keyed hash; salt, a secret to keep their rows without texts, under
    `deleted-HASH`, empty to delete them; clusters, cluster that only these instances are in -> keyed hash.
    Raises: StoreError for a damaged file; OSError.
    """
    import duckdb

    table = f"read_parquet({sql_path(path)})"
    listed = ", ".join(sql_text(one.encode("utf-8", "replace").decode()) for one in ids)
    is_deleted = f"instance_id IN ({listed})"
    try:
        with connect() as connection:
            n = int(connection.execute(f"SELECT count(*) FROM {table} WHERE {is_deleted}").fetchall()[0][0])  # noqa: S608
            if n:
                names = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()]  # noqa: S608
                chosen = _cleared_columns(names, ids, clusters or {}, is_deleted, salt) if salt else "*"
                where = "" if salt else f"WHERE NOT ({is_deleted})"
                connection.execute(
                    f"COPY (SELECT {chosen} FROM {table} {where}) TO {sql_text(address(new))} "  # noqa: S608
                    f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}, USE_TMP_FILE false)"
                )
    except duckdb.Error as error:
        if "IOException" in type(error).__name__ and new.parent.exists() and path.exists():
            raise StoreError(f"{new} cannot be written: {reason(error)}. Repeat the command.") from error
        raise StoreError(f"{path} cannot be read: {reason(error)}. Nothing of it was deleted.") from error
    return n


def _cleared_columns(
    names: Sequence[str], ids: Mapping[str, str], clusters: Mapping[str, str], is_deleted: str, salt: str
) -> str:
    """Return the columns of a table in which the rows of deleted instances hold no text."""

    def renamed(column: str, new: Mapping[str, str]) -> str:
        cases = " ".join(f"WHEN {sql_text(old)} THEN {sql_text(key)}" for old, key in new.items())
        return f"CASE {sql_name(column)} {cases} ELSE {sql_name(column)} END" if cases else sql_name(column)

    columns = []
    for name in names:
        shown = sql_name(name)
        if name == "instance_id":
            shown = renamed(name, {old: f"{DELETED}{key}" for old, key in ids.items()})
        elif name == "cluster":
            shown = renamed(name, clusters)
        elif name in CLEARED:
            shown = (
                f"CASE WHEN {is_deleted} THEN {CLEARED[name].format(sql_name(name), sql_text(salt))} ELSE {shown} END"
            )
        columns.append(f"{shown} AS {sql_name(name)}")
    return ", ".join(columns)


def table_rows(path: Path, columns: Sequence[str], *, distinct: bool = True) -> list[tuple[str, ...]]:
    """Return columns of a table of a store as texts, "" where a value or a column is missing. Raises: StoreError.

    `distinct`: True for each different row once.
    """
    import duckdb

    try:
        with connect() as connection:
            table = f"read_parquet({sql_path(path)})"
            known = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()}  # noqa: S608
            chosen = ", ".join(f"coalesce({sql_name(one)}::VARCHAR, '')" if one in known else "''" for one in columns)
            once = "DISTINCT " if distinct else ""
            return connection.execute(f"SELECT {once}{chosen} FROM {table}").fetchall()  # noqa: S608
    except duckdb.Error as error:
        raise StoreError(f"{path} cannot be read: {reason(error)}. Nothing was deleted.") from error


# --- export log -------------------------------------------------------------------------------------------------------
# Remembers the exports that were written from a store: STORE/exports.json, one entry for each place.
#
# So a deletion of instances can say which exports still hold them.

NAME = "exports.json"
"""Name of the file."""

EXPORT_LOG_FORMAT = 1
"""Version of the file, under its key `format`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExport:
    """An export that was written from a store."""

    path: str
    """Absolute path of the folder or file, or URL."""
    kind: str
    """Kind of export, such as `csv` or `ratings`."""
    time: str
    """Time it was written, ISO 8601, UTC."""
    benchmarks: tuple[str, ...]
    """Benchmarks in it."""
    has_text: bool
    """True if it holds texts of instances or models; False for numbers only."""


def record_export(store: Path, place: Path | str, kind: str, benchmarks: Iterable[str], *, has_text: bool) -> None:
    """Remember an export, in place of an older one at the same path. A store that cannot be written is left alone."""
    from filelock import FileLock

    now = datetime.now(UTC).isoformat(timespec="seconds")
    names = tuple(sorted(set(benchmarks)))
    path = str(place.absolute()) if isinstance(place, Path) else place
    new = StoredExport(path=path, kind=kind, time=now, benchmarks=names, has_text=has_text)
    with suppress(OSError):
        (store / "locks").mkdir(exist_ok=True)
        with FileLock(store / "locks" / "exports.lock"):
            others = [one for one in read_exports(Store(store)) if one.path != new.path]
            write_exports(Store(store), [*others, new])


def write_exports(store: Store, exports: Iterable[StoredExport]) -> None:
    """Write the file. Raises: OSError."""
    content = {"format": EXPORT_LOG_FORMAT, "exports": [asdict(one) for one in exports]}
    write_file(store.folder / NAME, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_exports(store: Store) -> list[StoredExport]:
    """Return the remembered exports; none if the file is missing or damaged."""
    try:
        content = json.loads((store.folder / NAME).read_text(encoding="utf-8"))
        return [StoredExport(**{**one, "benchmarks": tuple(one["benchmarks"])}) for one in content["exports"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


# --- pseudonyms -------------------------------------------------------------------------------------------------------
# Keyed hashes in place of names that can identify patients, such as the record number of a cluster.
#
# STORE/pseudonyms.key holds the key, made once for each store. So a name has the same hash in all exports of a store,
# which keep their groups. Without the key, the name cannot be found by trying all numbers.

KEY_FILE = "pseudonyms.key"
"""File of a store with the key, in hexadecimal digits."""

_KEY_BYTES, _DIGITS = 32, 16


class Pseudonyms:
    """The keyed hashes of one store."""

    def __init__(self, store: Store) -> None:
        """Read the key. A store without one gets one in memory, which `keep` writes."""
        self._store = store
        self._key = _read(store.folder / KEY_FILE) or secrets.token_bytes(_KEY_BYTES)

    @classmethod
    def of_store(cls, store: Store) -> Pseudonyms:
        """Read the key, or make it. In a store that cannot be written, hashes are equal within one export only."""
        found = cls(store)
        with suppress(OSError):
            found.keep()
        return found

    def of(self, benchmark: str, name: str) -> str:
        """Return the hash of a name within a benchmark; empty for an empty name."""
        if not name:
            return ""
        text = f"{benchmark}\0{name}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:_DIGITS]

    def sql(self, benchmark: str, name: str) -> str:
        """Return the same as an SQL expression. Parameters: SQL expressions of the benchmark and the name."""
        inner, outer = (bytes(byte ^ pad for byte in self._key.ljust(64, b"\0")).hex() for pad in (0x36, 0x5C))
        text = f"encode({benchmark} || chr(0) || {name})"
        hash_ = f"sha256(unhex('{outer}') || unhex(sha256(unhex('{inner}') || {text})))[:{_DIGITS}]"
        return f"CASE WHEN {name} = '' THEN '' ELSE {hash_} END"

    def keep(self) -> None:
        """Write the key if the store has none; else use that of the store. Raises: OSError."""
        from filelock import FileLock  # lazy: once for each store

        file, folder = self._store.folder / KEY_FILE, self._store.folder
        if file.exists():
            self._key = _read(file) or self._key
            return
        (folder / "locks").mkdir(exist_ok=True)
        with FileLock(folder / "locks" / "pseudonyms.lock"):
            if known := _read(file):  # of another process
                self._key = known
                return
            write_confidential(file, self._key.hex() + "\n")
            file.chmod(0o660 & ~file_mask(folder))


def _read(file: Path) -> bytes:
    """Return the key in a file; empty if the file is missing or damaged."""
    try:
        key = bytes.fromhex(read_confidential(file))
    except (OSError, ValueError):
        return b""
    return key if len(key) == _KEY_BYTES else b""
