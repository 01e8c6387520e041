"""`medhelm encrypt` and `medhelm decrypt`: convert a store, file by file."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from medhelm.cli.global_options import Shared, shared_options
from medhelm.cli.printing import print_json
from medhelm.errors import StoreError, UserError
from medhelm.extensions.vault import files
from medhelm.extensions.vault.cipher import CIPHER, SECTION, STATE, refuse_key_inside, role_of
from medhelm.extensions.vault.files import DecryptionError, StoreKey, open_encrypted
from medhelm.io.files import error_class, file_mode, is_encrypted, make_shared_folder, store_error
from medhelm.io.folders import atomic_file, write_file
from medhelm.models.cache import (
    COLUMNS,
    Row,
    add_columns,
    checksum,
    create_table,
    opened_row,
    restore,
    sealed_row,
)
from medhelm.storage.derived_files import FOLDER
from medhelm.storage.live_status import known_evaluations
from medhelm.storage.own_benchmarks import DEFINITIONS
from medhelm.storage.store import ENCRYPTED, FORMAT, Store, create, find_store, open_store, repair
from medhelm.storage.store_host import processes_in


@click.command()
@click.option(
    "--new-key",
    is_flag=True,
    help="Change the key of an encrypted store to the first key given; the old key must be given after it.",
)
@shared_options("store", "json")
@click.pass_obj
def encrypt(shared: Shared, new_key: bool) -> int:
    """Encrypt a store, or create an encrypted one.

    Everything with text is then encrypted on the disk with AES-256-GCM: prompts, completions, references, judgments,
    and messages that quote them. Commands work as before, but need the key in one of MEDHELM_STORE_KEY_FILE (a file),
    MEDHELM_STORE_KEY_COMMAND (a command that prints it, such as the client of a vault) or MEDHELM_STORE_KEY. A key is
    32 random bytes in base64 or hexadecimal digits, one key per line. If the conversion is interrupted, repeat the
    command: nothing is lost. Without the key, nothing can be recovered.

    \b
    Example:
      openssl rand -base64 32 > /secure/medhelm.key
      export MEDHELM_STORE_KEY_FILE=/secure/medhelm.key
      medhelm encrypt --store STORE
    """
    from medhelm.results.formats.fields import plain_json

    done = encrypt_store(shared.store, os.environ, new_key=new_key)
    if shared.json:
        print_json(plain_json(done))
    elif new_key:
        click.echo(f"{shared.store} now opens with the key of fingerprint {done.fingerprint}")
    elif not done.changed:
        click.echo(f"{shared.store} is encrypted, with the key of fingerprint {done.fingerprint}")
    else:
        click.echo(
            f"{shared.store} is encrypted, with the key of fingerprint {done.fingerprint}. {_converted_text(done)}"
        )
        click.echo("Keep a copy of the key elsewhere: nothing can be recovered without it.", err=True)
        if done.files or done.completions:
            click.echo(
                "The plain files were deleted, but backups, snapshots and unused disk blocks may still hold them.",
                err=True,
            )
    return 0


@click.command()
@shared_options("store", "json")
@click.pass_obj
def decrypt(shared: Shared) -> int:
    """Convert an encrypted store to plain files.

    If the conversion is interrupted, repeat the command: nothing is lost.

    \b
    Example:
      medhelm decrypt --store STORE
    """
    from medhelm.results.formats.fields import plain_json

    done = decrypt_store(shared.store, os.environ)
    if shared.json:
        print_json(plain_json(done))
    else:
        click.echo(f"{shared.store} is not encrypted{f' any more. {_converted_text(done)}' if done.changed else ''}")
    return 0


def _converted_text(done: ConvertedStore) -> str:
    damaged = f", {done.damaged:,} damaged ones left out" if done.damaged else ""
    return f"Converted: {done.files:,} files, {done.completions:,} completions of the cache{damaged}."


# --- conversion -------------------------------------------------------------------------------------------------------
# Encrypts an existing store, decrypts it again, or wraps its key with another one.
#
# Files are converted one by one, each atomically, and the cache as a whole. Until the end, `store.json` says that the
# store is being converted, so that the same command continues an interrupted conversion, and nothing is lost.

TIMEOUT_S = 10.0
"""Most seconds to wait for another process that uses the cache."""

TEXT_FILES = ("run.json", "*.parquet", "prompts/*.floor.json", "instances/*.json", "filters/*.json", "pairwise/*.json",
              "pseudonyms.key", "annotations.jsonl", "studies/*/*.json*", "studies/*/raters/*.jsonl",
              "ratings/*/*")  # fmt: skip
"""Patterns of the files that hold text, besides the cache. All others hold names, numbers, digests and settings."""

_PART = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedStore:
    """Outcome of a conversion."""

    state: Literal["encrypted", "plain"]
    """State of the store now."""
    changed: bool
    """False if there was nothing to do."""
    fingerprint: str
    """Public name of the user's key; "" for a plain store."""
    files: int = 0
    """Files that were converted."""
    completions: int = 0
    """Completions in the cache that were converted."""
    damaged: int = 0
    """Damaged completions of the cache that were left out; those that records hold are restored from them."""


def encrypt_store(folder: Path, environment: Mapping[str, str], *, new_key: bool = False) -> ConvertedStore:
    """Encrypt a store, or create an encrypted one.

    `new_key`: only wrap the key of an encrypted store with the first of the user's keys.
    Raises: MissingError without a key; StoreError for a wrong key, or if the store is in use; UserError.
    """
    user_keys = files.read_user_keys(environment)
    refuse_key_inside(folder, environment)
    is_new = not (folder / "store.json").exists()
    if is_new:
        create(folder)
    section = _read_section(folder)
    if new_key:
        if section is None:
            raise UserError(f"{folder} is not encrypted; `medhelm encrypt` without --new-key does that.")
        changed = files.wrap_again(section, user_keys)
        with _disk_errors(folder):
            _write_section(folder, {**section, **changed})
        return ConvertedStore(state="encrypted", changed=True, fingerprint=changed["wrapped_by"])
    if section is None:
        repair(find_store(folder))
        section = files.new_section(user_keys[0])
    key = files.open_section(section, user_keys)
    unchanged = ConvertedStore(state="encrypted", changed=False, fingerprint=section["wrapped_by"])
    if section.get(STATE) == "complete":
        return replace(unchanged, changed=is_new)
    with _locked_store(Store(folder)), _disk_errors(folder):
        _write_section(folder, {**section, STATE: "encrypting"})
        n_files = _convert_files(Store(folder), key, encrypting=True)
        n_rows, damaged = _convert_cache(folder, lambda row: sealed_row(_intact(row), key))
        for name in (FOLDER, DEFINITIONS):  # derived from the plain files, and copies
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        _write_section(folder, {**section, STATE: "complete"})
    return replace(unchanged, changed=True, files=n_files, completions=n_rows, damaged=damaged)


def decrypt_store(folder: Path, environment: Mapping[str, str]) -> ConvertedStore:
    """Decrypt a store. Raises: as `encrypt_store`; StoreError naming all damaged files, before anything changes."""
    if not (folder / "store.json").exists():
        open_store(folder)
    section = _read_section(folder)
    if section is None:
        return ConvertedStore(state="plain", changed=False, fingerprint="")
    key = files.open_section(section, files.read_user_keys(environment))
    store = Store(folder)
    with _locked_store(store), _disk_errors(folder):
        _check_files(store, key)
        _write_section(folder, {**section, STATE: "decrypting"})
        n_files = _convert_files(store, key, encrypting=False)
        n_rows, damaged = _convert_cache(folder, lambda row: opened_row(row, key))
        _write_section(folder, None)
    CIPHER.forget(folder)
    return ConvertedStore(
        state="plain", changed=True, fingerprint="", files=n_files, completions=n_rows, damaged=damaged
    )


@contextmanager
def _locked_store(store: Store) -> Iterator[None]:
    """Keep other processes from using the store. Raises: StoreError naming what is in progress."""
    from filelock import FileLock, Timeout

    busy = [f"evaluation {one.status.id}" for one in known_evaluations(store) if one.is_alive]
    busy += processes_in(store)
    with ExitStack() as held, _disk_errors(store.folder):
        make_shared_folder(store.folder / "locks")
        for file in sorted({*store.folder.glob("locks/*.lock"), store.folder / "locks" / "encryption.lock"}):
            lock = FileLock(file, mode=file_mode(file))
            try:
                lock.acquire(blocking=False)
            except Timeout:
                busy.append(file.stem.replace("--", " with "))
            else:
                held.callback(lock.release)
        if busy:
            raise StoreError(f"the store is in use: {', '.join(busy)}. Wait or stop that. Nothing was changed.")
        yield


@contextmanager
def _disk_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise error_class(error, StoreError)(
            f"{place} cannot be written: {error.strerror or error}. Nothing is lost: free some space, and repeat the "
            "command to continue."
        ) from error


def _read_section(folder: Path) -> dict[str, Any] | None:
    """Return the section of a store; None if it is not encrypted. Raises: StoreError if `store.json` is damaged."""
    manifest = folder / "store.json"
    try:
        section = json.loads(manifest.read_text(encoding="utf-8")).get(SECTION)
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(f"{manifest} cannot be read ({error}). Restore it from a copy.") from error
    if section is not None and not isinstance(section, dict):
        raise StoreError(f"{manifest} is damaged: its section `{SECTION}` cannot be read. Restore it from a copy.")
    return section


def _write_section(folder: Path, section: Mapping[str, Any] | None) -> None:
    """Write `store.json` with this section, or as that of a plain store. Raises: OSError."""
    content = {"medhelm_store": FORMAT} if section is None else {"medhelm_store": ENCRYPTED, SECTION: dict(section)}
    write_file(folder / "store.json", json.dumps(content) + "\n", durable=True)


# --- files ------------------------------------------------------------------------------------------------------------


def _text_files(store: Store) -> Iterator[Path]:
    """Yield the files of a store that hold text, those of runs being written or removed included."""
    for pattern in TEXT_FILES:
        yield from sorted(path for path in store.folder.rglob(pattern) if path.is_file())


def _check_files(store: Store, key: StoreKey) -> None:
    """Read all files. Raises: StoreError naming all damaged ones."""
    problems = []
    for path in _text_files(store):
        if is_encrypted(path):
            try:
                with open_encrypted(path, "rb", key, role_of(path.relative_to(store.folder))) as file:
                    while file.read(_PART):
                        pass
            except DecryptionError as error:
                problems.append(f"{path} cannot be decrypted: {error}. Restore it from a copy, or remove it.")
    if problems:
        raise StoreError("\n".join([*problems, "Nothing was changed."]))


def _convert_files(store: Store, key: StoreKey, *, encrypting: bool) -> int:
    """Convert all files that are not converted yet, and return their number. Raises: OSError."""
    n = 0
    for path in _text_files(store):
        if is_encrypted(path) == encrypting:
            continue
        role = role_of(path.relative_to(store.folder))
        # Every command clears the folder of the store after a kill, but not the folders of thousands of runs.
        with atomic_file(path, durable=True, hidden_in=store.folder) as new:
            new.touch(mode=0o600)
            shutil.copymode(path, new)
            source = path.open("rb") if encrypting else open_encrypted(path, "rb", key, role)
            with source, open_encrypted(new, "wb", key, role) if encrypting else new.open("wb") as target:
                shutil.copyfileobj(source, target, _PART)
        n += 1
    return n


# --- the cache --------------------------------------------------------------------------------------------------------


def _convert_cache(folder: Path, convert: Callable[[Row], Row]) -> tuple[int, int]:
    """Replace the cache by a new file; return the numbers of its completions and of damaged ones that were left out.

    A new file, because the old one keeps what was replaced in free pages and in its log. `convert`: raises an error for
    a damaged row.
    """
    path = Store(folder).cache_file
    if not path.is_file() or not path.stat().st_size:
        return 0, 0
    add_columns(path)
    n_damaged = 0

    def converted(rows: Iterator[Row]) -> Iterator[Row]:
        nonlocal n_damaged
        for row in rows:
            try:
                new = convert(row)
            except (TypeError, ValueError, AttributeError, struct.error):
                n_damaged += 1
            else:
                yield new

    try:
        with closing(sqlite3.connect(path, timeout=TIMEOUT_S, isolation_level=None)) as old:
            old.text_factory = lambda text: text.decode("utf-8", "replace")
            old.execute("PRAGMA locking_mode = EXCLUSIVE")
            if old.execute("PRAGMA journal_mode = DELETE").fetchone()[0] != "delete":
                raise StoreError(f"{path} is in use. End the processes that use the store, and repeat the command.")
            old.execute("BEGIN EXCLUSIVE")
            with atomic_file(path, durable=True) as new, closing(sqlite3.connect(new, isolation_level=None)) as target:
                new.chmod(0o600)
                shutil.copymode(path, new)
                target.execute("PRAGMA journal_mode = OFF")  # the file is complete before it is put in place
                create_table(target)
                n = restore(target, converted(old.execute(f"SELECT {', '.join(COLUMNS)} FROM completions")))  # noqa: S608
                target.close()
    except sqlite3.Error as error:
        raise store_error(error, path, TIMEOUT_S) from error
    return n, n_damaged


def _intact(row: Row) -> Row:
    """Return a plain row. Raises: ValueError and others if it is damaged."""
    if checksum(*row[:-1]) != row[-1]:
        raise ValueError("wrong checksum")
    return row
