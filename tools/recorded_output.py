"""Run the commands that a page shows, and write what they print into the page.

    python -m tools.recorded_output [--check] PAGE...

A fenced block `console` holds commands after `$ `, each followed by its output. Where the first or the last line of an
output is `...`, it is cut there: as many lines are recorded as the page shows. A fenced block after a paragraph that
ends in a file name, such as "`models.yaml`:", is written to that file first. Commands run in order in an empty folder,
where DATA is the folder of real data. The practice server of the tutorials runs meanwhile, on a free port that the page
shows as 8000.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
SERVER = ROOT / "docs" / "tutorials" / "practice_server.py"
PORT_SHOWN = "8000"
DATA_SHOWN = "DATA"
CUT = "..."
START_S = 20.0
"""How long the practice server may take to start."""

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_BEFORE = re.compile(r"`([\w./-]+)`:\s*$")
_VARIES = (
    (re.compile(r"\b\d+\.\d\d s\b"), "0.00 s"),  # a latency
    (re.compile(r"\[-?\d+\.\d+, -?\d+\.\d+\]"), "[0, 0]"),  # an interval: its draws depend on the server's port
    (re.compile(r" +|--+"), " "),  # columns as wide as what is in them
)
_SETTINGS = ("MEDHELM_", "OPENAI_", "AZURE_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "AWS_")


def recorded(page: str, folder: Path, port: int) -> str:
    """Return the page with the output of its commands, run in `folder`, in the place of what it shows."""
    parts, end = [], 0
    for block in _FENCE.finditer(page):
        parts.append(page[end : block.start(2)])
        end = block.end(2)
        language, text = block[1], block[2]
        file = _FILE_BEFORE.search(page[: block.start()])
        if language == "console":
            text = "".join(_with_output(command, shown, folder, port) for command, shown in _commands(text))
        elif file and language in ("yaml", "csv", "json", "python"):
            target = folder / file[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace(f":{PORT_SHOWN}/", f":{port}/"), encoding="utf-8")
        parts.append(text)
    return "".join(parts) + page[end:]


def differences(shown: str, now: str) -> list[str]:
    """Return the lines in which two versions of a page differ, without measured times and ends of intervals."""
    for pattern, replacement in _VARIES:
        shown, now = pattern.sub(replacement, shown), pattern.sub(replacement, now)
    return list(difflib.unified_diff(shown.splitlines(), now.splitlines(), "shown", "now", lineterm="", n=0))


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines of output shown after it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        n = 1
        while lines[n - 1].endswith("\\"):
            n += 1
        yield "\n".join(lines[:n]), lines[n:]


def _with_output(command: str, shown: list[str], folder: Path, port: int) -> str:
    """A command and what it prints now, cut where the page cuts it."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] != "medhelm":
        raise ValueError(f"only `medhelm` can be recorded, not `{command}`")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    done = subprocess.run(
        [sys.executable, "-m", "medhelm", *words[1:]],
        cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    if b"Traceback (most recent call last)" in done.stdout:
        raise RuntimeError(f"`{command}` failed:\n{done.stdout.decode()}")
    output = done.stdout.decode().replace(f":{port}/", f":{PORT_SHOWN}/").rstrip()
    lines = [line.rstrip() for line in output.splitlines()]
    if shown[:1] == [CUT] and len(shown) > 1:
        lines = [CUT, *lines[1 - len(shown) :]]
    elif CUT in shown[1:]:
        lines = [*lines[: shown.index(CUT)], CUT]
    return "\n".join([f"$ {command}", *lines, ""])


@contextmanager
def practice_server() -> Iterator[int]:
    """The practice server in a process of its own; yields its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVER, str(port)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(int(START_S / 0.05)):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(START_S)


def run_page(page: Path, data: Path) -> str:
    """Return what `page` would be with the output of today."""
    with tempfile.TemporaryDirectory() as folder, practice_server() as port:
        (Path(folder) / DATA_SHOWN).symlink_to(data.resolve())
        return recorded(page.read_text(encoding="utf-8"), Path(folder), port)


def main() -> None:
    """Update or check the pages named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is out of date")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of real data")
    chosen = parser.parse_args()
    stale = []
    for page in chosen.pages:
        now = run_page(page, chosen.data)
        if differences(page.read_text(encoding="utf-8"), now):
            stale.append(str(page))
            if not chosen.check:
                page.write_text(now, encoding="utf-8", newline="\n")
    if stale:
        print(f"{'out of date' if chosen.check else 'updated'}: {', '.join(stale)}")
    sys.exit(1 if stale and chosen.check else 0)


if __name__ == "__main__":
    main()
