"""What is loaded beside a run, where the run ends early."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from medhelm.evaluation import recorder as run_in_progress


def test_an_import_that_is_under_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The column engine aborts an interpreter that ends while it is being loaded, and the exit code is lost."""
    started: list[threading.Thread] = []
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        started.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    run_in_progress.import_engines()
    (thread,) = started
    assert not thread.daemon
    thread.join()


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
        # Another Ctrl-C while temporary files are removed.
        ("atexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), print('removed')))", 0),
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
    program = f"import atexit, os, signal, sys\n{before}\nsys.argv = ['medhelm', '--version']\n"
    program += "from medhelm.__main__ import start\nstart()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert ("removed" in done.stdout) == ("removed" in before)
