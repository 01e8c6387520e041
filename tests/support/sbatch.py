"""Stands in for Slurm's `sbatch`: runs the tasks of a batch script at once, on this machine, and waits for them.

Of the options, in the script's #SBATCH lines or before the script on the command line, it honors --array, --output,
--parsable, --export=ALL and --dependency (jobs before this one have ended, because it waits). It knows the names of
others, and refuses what Slurm has no option for. Ctrl-C and SIGTERM reach the tasks as SIGTERM, like `scancel`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

HONORED = {"array", "output", "parsable", "export", "dependency"}
KNOWN = {"job-name", "cpus-per-task", "mem", "time", "gres", "requeue", "signal", "partition", "account"}
JOB = "4100"
"""Number of every job."""


def options(words: list[str]) -> dict[str, str]:
    """Return name -> value, "" for a flag. Ends the process for an option that Slurm does not have."""
    found = {}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in HONORED | KNOWN:
            sys.exit(f"sbatch: error: unrecognized option {word!r}")
        found[name] = value
    return found


def script_options(script: Path) -> dict[str, str]:
    """Return the options in a script: Slurm reads them up to the first command."""
    words = []
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("#SBATCH "):
            words += line.split()[1:]
        elif line.strip() and not line.startswith("#"):
            break
    return options(words)


def tasks(array: str) -> list[int]:
    """Return the numbers of an array, such as `1-8` or `1,3,5-7%2`."""
    found: list[int] = []
    for part in array.partition("%")[0].split(",") if array else ():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main(words: list[str]) -> int:
    """Run a script; return the worst exit code of its tasks."""
    script = Path(next(word for word in words if not word.startswith("--")))
    chosen = script_options(script) | options(words[: words.index(str(script))])
    numbers = tasks(chosen.get("array", ""))
    shared = {
        "SLURM_JOB_ID": JOB,
        "SLURM_SUBMIT_DIR": str(Path.cwd()),
        "SLURM_CPUS_PER_TASK": chosen.get("cpus-per-task", "1"),
    }
    arrays = [
        {
            "SLURM_ARRAY_JOB_ID": JOB,
            "SLURM_ARRAY_TASK_ID": str(number),
            "SLURM_ARRAY_TASK_COUNT": str(len(numbers)),
            "SLURM_ARRAY_TASK_MIN": str(min(numbers)),
            "SLURM_ARRAY_TASK_MAX": str(max(numbers)),
        }
        for number in numbers
    ] or [{}]
    output = chosen.get("output", "slurm-%j.out")
    with ExitStack() as files:
        running = []
        for own in arrays:
            values = {"%j": JOB, "%A": JOB, "%a": own.get("SLURM_ARRAY_TASK_ID", ""), "%x": chosen.get("job-name", "")}
            name = re.sub("%[jAax]", lambda found, values=values: values[found[0]], output)  # type: ignore[misc]
            log = files.enter_context(Path(name).open("ab"))
            # Slurm copies the script when it is submitted, and bash reads the copy.
            command = [
                "bash",
                "-c",
                script.read_text(encoding="utf-8"),
                str(script),
                *words[words.index(str(script)) + 1 :],
            ]
            running.append(
                subprocess.Popen(
                    command,
                    env=os.environ | shared | own,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

        def cancel(*_: object) -> None:
            for one in running:
                one.send_signal(signal.SIGTERM)

        signal.signal(signal.SIGTERM, cancel)
        signal.signal(signal.SIGINT, cancel)
        sys.stdout.write(f"{JOB}\n" if "parsable" in chosen else f"Submitted batch job {JOB}\n")
        sys.stdout.flush()
        return max(one.wait() for one in running)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
