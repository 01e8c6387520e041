"""Runs a command and ends it, with all that it started, when whoever asked for it is gone. A program of its own.

    python guard.py GRACE_S COMMAND ...

Its standard input is a pipe that nobody writes to: when the other end closes, be it because that process was killed,
the command gets SIGTERM, and after GRACE_S seconds SIGKILL, as a whole group of processes. When the command ends by
itself, what it left behind is killed, and its exit code is ours. Standard library only, and nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable


def die_with_parent() -> None:
    """Let the kernel end this process when its parent dies, where it can (Linux)."""
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def end_group(group: int, number: int) -> None:
    """Send a signal to all processes of a group that are still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def wait_for_end(stream: int, then: Callable[[], object]) -> None:
    """Wait until nobody can write to a pipe any more."""
    with contextlib.suppress(OSError):
        while os.read(stream, 1024):
            pass
    then()


def main() -> int:
    """Run the command; its exit code, or 128 and the number of the signal that ended it."""
    grace_s, command = float(sys.argv[1]), sys.argv[2:]
    die_with_parent()  # beside the pipe, which a process forked from ours may hold open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asked: it closes the pipe when it is done
    try:
        child = subprocess.Popen(  # noqa: S603 - the command is what this program is for
            command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror or error}\n")
        return 127

    def end() -> None:
        end_group(child.pid, signal.SIGTERM)
        late = threading.Timer(grace_s, end_group, (child.pid, signal.SIGKILL))
        late.daemon = True
        late.start()

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=end, daemon=True).start())
    threading.Thread(target=wait_for_end, args=(sys.stdin.fileno(), end), daemon=True).start()
    code = child.wait()
    end_group(child.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
