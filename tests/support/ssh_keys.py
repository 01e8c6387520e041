"""SSH keys that sign releases."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def make_key(path: Path) -> Path:
    """Make an SSH key without a password at `path`, and its public half beside it; skip the test without OpenSSH."""
    program = shutil.which("ssh-keygen")
    if program is None:
        pytest.skip("OpenSSH's ssh-keygen is not installed")
    subprocess.run([program, "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", path], check=True)
    return path
