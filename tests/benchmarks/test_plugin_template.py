"""The template of a package of plug-ins works as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.plugins import install_template


def test_its_own_tests_pass_once_it_is_installed(site: Path, tmp_path: Path) -> None:
    package = install_template(site, tmp_path / "medhelm-ward")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(package / "src")])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=package)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
