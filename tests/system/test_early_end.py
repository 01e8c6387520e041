"""What is loaded beside a run, where the run ends early."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("before", "code"),
    [
        # Ctrl-C while the command line is imported.
        (
            "class Stop:\n"
            "    def find_spec(self, name, *more):\n"
            "        if name == 'medhelm.cli':\n"
            "            raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Stop())",
            130,
        ),
        # Ctrl-C while DuckDB works.
        (
            "import medhelm.cli\n"
            "def query(**_):\n"
            "    raise RuntimeError('Query interrupted')\n"
            "medhelm.cli.cli.main = query",
            130,
        ),
    ],
)
def test_ctrl_c_never_shows_a_traceback(before: str, code: int) -> None:
    program = f"import sys\n{before}\nsys.argv = ['medhelm', '--version']\n"
    program += "from medhelm.__main__ import start\nstart()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
