"""Stores frozen leaderboards: STORE/releases/NAME/{leaderboard.json, release.json}, written once and never changed.

`leaderboard.json` is the leaderboard exactly as printed; `release.json` holds the provenance of its numbers.
Both hold numbers, names and digests only: no text from patients or models.

Signatures of files with SSH keys, made and checked by OpenSSH's `ssh-keygen`, as git signs commits.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from medhelm.domain import Run
from medhelm.domain.result import CellProvenance, Release
from medhelm.errors import MissingError, StoreError, UserError, suggestion
from medhelm.io.files import open_file
from medhelm.io.folders import atomic_folder
from medhelm.io.parquet import connect, sql_path
from medhelm.storage.json_form import JsonForm, key_map
from medhelm.storage.runs import read_messages
from medhelm.storage.store import ORIGIN, PRICE, Store, disk_errors, stored_folder

if TYPE_CHECKING:
    from io import BufferedReader

# --- ssh signatures ---------------------------------------------------------------------------------------------------

NAMESPACE = "medhelm-release"
"""Purpose of a signature; a signature for another purpose is not accepted."""

SUFFIX = ".sig"
"""Ending of the file with the signature of a file."""

_SECONDS = 120.0
"""Longest time for a signature: an agent may ask for a touch of a security key."""


class Signer(NamedTuple):
    """The key that signed a file."""

    name: str
    """Name of the signer in the file of signers; "" if that is a single public key."""
    key: str
    """Kind and fingerprint, such as `ED25519 key SHA256:...`."""


def sign_file(file: Path, key: Path) -> Path:
    """Sign a file and return the file of the signature, which is next to it.

    `key`: a private key, or a public key whose private key an agent holds.
    Raises: MissingError without ssh-keygen; UserError if the key cannot sign.
    """
    if not key.is_file():
        raise UserError(f"--sign {key}: this file does not exist. Name an SSH key, such as ~/.ssh/id_ed25519.")
    done = _run("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(file))
    if done.returncode:
        raise UserError(f"--sign {key}: this key cannot sign: {_reason(done)}")
    return file.with_name(file.name + SUFFIX)


def check_signature(file: Path, signers: Path) -> Signer:
    """Return the signer of a file, whose signature is next to it.

    `signers`: a public key, or a file in the format `allowed_signers` of ssh-keygen(1).
    Raises: MissingError without ssh-keygen; UserError for a signature that is missing, wrong, or by another key.
    """
    signature = file.with_name(file.name + SUFFIX)
    if not signers.is_file():
        raise UserError(f"--signed-by {signers}: this file does not exist. Name a public key or a file of signers.")
    if not signature.is_file():
        raise UserError(
            f"{file.parent} is not signed: it has no {signature.name}. `medhelm release --sign KEY` signs a release."
        )
    with TemporaryDirectory() as scratch:
        allowed, is_key = signers, _is_public_key(signers)
        if is_key:
            allowed = Path(scratch) / "allowed_signers"
            allowed.write_text(f"signer {signers.read_text(encoding='utf-8').strip()}\n", encoding="utf-8")
        by = ("-f", str(allowed), "-s", str(signature))
        found = _run("-Y", "find-principals", *by)
        names = found.stdout.decode(errors="replace").split()
        if found.returncode or not names:
            raise UserError(f"{signature} is not a signature by {'this key' if is_key else 'anyone in'} {signers}.")
        done = _run("-Y", "verify", *by, "-I", names[0], "-n", NAMESPACE, content=file.read_bytes())
    if done.returncode:
        raise UserError(f"{signature} does not belong to {file}, which was changed or replaced after it was signed.")
    words = done.stdout.decode(errors="replace").strip().rpartition(" with ")[2]
    return Signer("" if is_key else names[0], words)


def _is_public_key(file: Path) -> bool:
    """Return True for a file with a single public key, which starts with its kind."""
    lines = [line for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return len(lines) == 1 and lines[0].startswith(("ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"))


def _run(*arguments: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise MissingError("signatures need `ssh-keygen`, which is part of OpenSSH. Install its client.")
    try:
        return subprocess.run(  # noqa: S603 - a fixed program, without a shell
            [program, *arguments], input=content, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"ssh-keygen did not finish within {_SECONDS:.0f} s.") from error


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"ssh-keygen ended with exit code {done.returncode}"


# --- releases ---------------------------------------------------------------------------------------------------------

FORMAT = 1
"""Version of the files of a release."""

MANIFEST, BOARD = "release.json", "leaderboard.json"
"""The files of a release; the manifest is written last."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""Valid names of releases: file names on every system."""

BASIS = JsonForm(
    CellProvenance,
    key_map(
        "model benchmark run_id started n metric definition data prompts settings records judgments snapshots "
        "jury at_least=min_judges prices versions origin"
    ),
)

RELEASE = JsonForm(
    Release,
    key_map("name created medhelm=medhelm_version note options suite_text bases=provenance sha256"),
    nested={"bases": BASIS.many},
    not_stored=("leaderboard",),
)
"""The JSON form of the manifest; the leaderboard has its own file."""


def bases_of(runs: Iterable[tuple[str, Run]], store: Store) -> list[CellProvenance]:
    """Return the provenance of stored runs, each with the name of its model on the leaderboard."""
    digest = cache(lambda path: prompts_digest(read_messages(path)))  # most runs of a benchmark have the same prompts
    return [
        _basis_of(model, run, digest(store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)))
        for model, run in runs
    ]


def _basis_of(model: str, run: Run, prompts: str) -> CellProvenance:
    folder, judged = stored_folder(run), run.jury_result
    judges = judged.jury.judges if judged else ()
    said = reported_models(folder / "replies.parquet", "judge") if judged else {}
    priced = ([run.resolved_model] if run.resolved_model else []) + list(judges)
    return CellProvenance(
        model=model,
        benchmark=run.benchmark,
        run_id=run.id,
        started=run.started,
        n=run.n,
        metric=run.main_metric,
        definition=run.benchmark_digest,
        data=run.data_digest,
        prompts=prompts,
        settings=dict(run.settings),
        records=file_digest(folder / "records.parquet"),
        judgments=file_digest(folder / "judgments.parquet"),
        snapshots=reported_models(folder / "records.parquet").get("", []),
        jury={judge.name: said.get(judge.name, []) for judge in judges},
        min_judges=judged.jury.min_judges if judged else 0,
        prices={one.name: PRICE.write(one.price) if one.price else None for one in priced},
        versions=dict(run.versions),
        origin=ORIGIN.write(run.origin) if run.origin else {},
    )


def prompts_digest(messages: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """Return the SHA-256 of instance ids and the messages of their prompts, in the order of the ids; "" for none."""
    if not messages:
        return ""
    digest = hashlib.sha256()
    for instance_id in sorted(messages):
        said = [[message["role"], message["content"]] for message in messages[instance_id]]
        digest.update(json.dumps([instance_id, said]).encode() + b"\n")
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hex, of an encrypted one that of its content; "" if the file is missing."""
    if not path.is_file():
        return ""
    try:
        with open_file(path, "rb") as file:
            return hashlib.file_digest(cast("BufferedReader", file), "sha256").hexdigest()
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({error}). Restore it from a copy.") from error


def reported_models(path: Path, by: str = "") -> dict[str, list[str]]:
    """Read the model names in responses from a Parquet file with `reported_model`.

    Returns: value of column `by` -> names, sorted, without empty ones; "" -> names if `by` is empty.
    """
    if not path.is_file():
        return {}
    who = by or "''"
    with connect() as connection:
        rows = connection.execute(
            f"SELECT DISTINCT {who}, reported_model FROM read_parquet({sql_path(path)}) "  # noqa: S608 - quoted, our own
            "WHERE reported_model <> '' ORDER BY ALL"
        ).fetchall()
    found: dict[str, list[str]] = {}
    for name, reported in rows:
        found.setdefault(name, []).append(reported)
    return found


def board_bytes(board: Mapping[str, Any]) -> bytes:
    """Serialize a leaderboard to the bytes that are frozen and compared: sorted keys, indented by two spaces, UTF-8."""
    return (json.dumps(board, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def write_release(store: Store, release: Release, *, key: Path | None = None) -> Path:
    """Freeze a leaderboard and return its folder.

    `key`: the SSH key that signs its manifest, and with it the digest of the leaderboard.
    Raises: UserError for a name that is not valid, or already in use: releases never change; as `sign_file`.
    """
    if not _NAME.fullmatch(release.name):
        raise UserError(
            f"a release cannot be named `{release.name}`. Use at most 80 letters, digits, dots, dashes and "
            "underscores, such as `2026-11`."
        )
    folder = _folder(store) / release.name
    if folder.exists():
        raise UserError(f"release `{release.name}` already exists, and releases never change. Choose another name.")
    manifest = json.dumps({"medhelm_release": FORMAT, **RELEASE.write(release)}, indent=2, ensure_ascii=False)
    with disk_errors(folder, "Nothing was frozen."), atomic_folder(folder, replace=False, durable=True) as new:
        (new / BOARD).write_bytes(board_bytes(release.leaderboard))
        (new / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
        if key is not None:
            sign_file(new / MANIFEST, key)
    return folder


def store_of_release(folder: Path) -> Path | None:
    """Return the store that the folder of a release lies in; None for one that was moved out of its store."""
    store = folder.resolve().parent.parent
    return store if (store / "store.json").is_file() else None


def release_names(store: Store) -> list[str]:
    """Return the names of all releases of a store, sorted."""
    return sorted(path.parent.name for path in _folder(store).glob(f"[!.]*/{MANIFEST}"))


def read_release(store: Store, name: str) -> Release:
    """Read the release with this name, or in the folder with this path.

    Raises: UserError if there is none; StoreError if its files are damaged or were changed since.
    """
    folder = _release_folder(store, name)
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        version = content.pop("medhelm_release")
        frozen = (folder / BOARD).read_bytes()
        if version == FORMAT:
            release = RELEASE.read(content, leaderboard=json.loads(frozen))
            _check_types(release)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"the release in {folder} is damaged ({error}). Restore its files from a copy.") from error
    if version != FORMAT:
        raise StoreError(f"the release in {folder} has version {version!r}; this version of medhelm reads {FORMAT}.")
    if folder.absolute().parent == _folder(store).absolute():  # a copy elsewhere may have any name
        _check_name(release, folder)
    if hashlib.sha256(frozen).hexdigest() != release.sha256:
        raise StoreError(
            f"{folder / BOARD} was changed after the release: its sha256 differs from the one in {MANIFEST}. "
            "Restore it from a copy."
        )
    return release


def is_signed(store: Store, name: str) -> bool:
    """Return whether a release has a signature, valid or not."""
    return (_release_folder(store, name) / (MANIFEST + SUFFIX)).is_file()


def release_signer(store: Store, name: str, signers: Path) -> Signer:
    """Return the signer of a release, if listed in a file of signers. Raises: UserError as `check_signature`."""
    folder = _release_folder(store, name)
    _check_name(read_release(store, name), folder)
    return check_signature(folder / MANIFEST, signers)


def _check_name(release: Release, folder: Path) -> None:
    """Raise StoreError if the folder of a release has another name: its signature is about the name that it had."""
    if release.name != folder.absolute().name:
        raise StoreError(
            f"the release in {folder} is `{release.name}`: its folder was renamed, or replaced by a copy of another "
            "release. Rename it back, or restore the right one."
        )


def _release_folder(store: Store, name: str) -> Path:
    """Return the folder of the release with this name or path. Raises: UserError if there is none."""
    path = Path(name)
    folder = path if (path / MANIFEST).is_file() else _folder(store) / name
    if not (folder / MANIFEST).is_file():
        names = release_names(store)
        known = suggestion(name, names) if names else "There is none yet: `medhelm release NAME` makes one."
        raise UserError(f"{store.folder} has no release `{name}`. {known}".rstrip())
    return folder


def _folder(store: Store) -> Path:
    return store.folder / "releases"


KINDS: Mapping[str, type | tuple[type, ...]] = {"str": str, "int": int, "Mapping": Mapping, "Sequence": (list, tuple)}
"""Start of an annotation -> the types that a value read from JSON may have."""

DEEPEST = 40
"""Maximum nesting depth of lists and objects."""


def _check_types(release: Release) -> None:
    """Raise TypeError or ValueError unless all fields that comparisons read have their types: the file is untrusted."""
    values: list[Release | CellProvenance] = [release, *release.provenance]
    for one in values:
        for part in fields(one):
            _expect(getattr(one, part.name), KINDS.get(str(part.type).partition("[")[0], object), part.name)
    board = release.leaderboard
    for key in ("models", "benchmarks"):
        _expect(board[key], list, key)
    for row in board["models"]:
        _expect(row["model"], str, "model")
        _expect(row["rank"], (int, NoneType), "rank")
        for cell in row.get("benchmarks", {}).values():
            _expect(cell.get("value"), (int, float, NoneType), "value")
    for entry in board["benchmarks"]:
        _expect(entry["id"], str, "id")
    _check_depth([RELEASE.write(release), board], DEEPEST)


def _expect(value: Any, kind: type | tuple[type, ...], name: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {str(value)[:40]!r}")


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise ValueError(f"more than {DEEPEST} levels of lists and objects")
    if isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, left - 1)
