"""Signatures of files with SSH keys, made and checked by OpenSSH's `ssh-keygen`, as git signs commits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from medhelm.errors import MissingError, UserError

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
