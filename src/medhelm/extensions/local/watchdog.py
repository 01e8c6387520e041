"""Run a command, and end it with all its children when the process that started this program exits.

    python watchdog.py GRACE_S COMMAND ...

Standard input is a pipe without data. It closes when the process at the other end exits or is killed. Then the
command's process group gets SIGTERM, and SIGKILL after GRACE_S seconds. When the command itself exits, its remaining
children are killed, and this program returns its exit code. The program uses only the standard library.
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
    """Make the kernel end this process when its parent dies (Linux only)."""
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def end_group(group: int, number: int) -> None:
    """Send a signal to all processes of a group that still run."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def wait_for_end(stream: int, then: Callable[[], object]) -> None:
    """Wait until the write end of a pipe is closed, then call `then`."""
    with contextlib.suppress(OSError):
        while os.read(stream, 1024):
            pass
    then()


def main() -> int:
    """Run the command; return its exit code, or 128 plus the number of the signal that ended it."""
    grace_s, command = float(sys.argv[1]), sys.argv[2:]
    die_with_parent()  # in addition to the pipe, which a fork of the parent may hold open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C: it closes the pipe when it is done
    try:
        child = subprocess.Popen(  # noqa: S603 - running a command is the purpose of this program
            command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror or error}\n")
        return 127

    def end() -> None:
        end_group(child.pid, signal.SIGTERM)
        kill = threading.Timer(grace_s, end_group, (child.pid, signal.SIGKILL))
        kill.daemon = True
        kill.start()

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=end, daemon=True).start())
    threading.Thread(target=wait_for_end, args=(sys.stdin.fileno(), end), daemon=True).start()
    code = child.wait()
    end_group(child.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
