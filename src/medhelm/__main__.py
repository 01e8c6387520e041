"""Entry point of the program: `medhelm`, or `python -m medhelm`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

GARBAGE_AFTER = 200_000
"""Number of new objects before Python collects garbage. The default of 700 costs a tenth of the start-up time."""


def start() -> None:
    """Run the command line, and end the process at once.

    All files are closed by then, and unloading a hundred modules one by one would take as long as loading them.
    """
    os.umask(0o077)  # prompts and completions may hold patient data: files are for their owner, from the first byte
    gc.set_threshold(GARBAGE_AFTER)
    # Pydantic would search every installed package for its plug-ins, which this program does not use.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Our matrices are small: more threads would wait for each other, three times as long where other work is going on.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from medhelm.cli import main

        main()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:  # while modules are imported, or during the end after another one
        code = 130
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # as after `>&-`
                stream.flush()
        except BrokenPipeError:  # the reader closed the pipe, as `| head` does
            pass
        except OSError:
            code = code or 4
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C would show a traceback in what follows
    atexit._run_exitfuncs()  # remove temporary files
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    start()
