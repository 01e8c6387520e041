"""Damaged files, guided by coverage: atheris changes whole files so that they reach new code of the readers.

    .venv/bin/pip install atheris
    .venv/bin/python -m bench.studies.guided_inputs [--inputs N] [--seed N] [--only KIND,...]

It complements `bench.studies.faulty_inputs`, which changes files at random. Each kind of file is read in a process of
its own that ends at the first exception other than an error with advice; the file that caused it is kept and named.
Code of native libraries and of other processes does not guide it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from bench.cells import ROOT
from bench.studies.faulty_inputs import FORMATS, OTHERS, readers, seeds
from bench.table import table

SLOW = {"parquet": 20, "arrow": 50, "xlsx": 2, "docx": 2}
"""Kind -> how many times fewer files are read: a database, a process or an archive is opened for each."""

_DONE = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+)")
_BEGUN = re.compile(r"INITED\s+cov: (\d+)")
_KEPT = re.compile(r"Test unit written to (\S+)")


def fuzz(kind: str, arguments: list[str]) -> None:
    """Read changed files of one kind until the arguments of libFuzzer say stop; an exception ends the process."""
    import atheris

    with atheris.instrument_imports(include=["medhelm"]):
        from medhelm.errors import MedHelmError

        scratch = Path(tempfile.mkdtemp(prefix="medhelm-guided-"))
        read, whole = readers(scratch)[kind], seeds(scratch)[kind]
        read(whole)  # imports what readers import late
    corpus = scratch / "corpus"
    corpus.mkdir()
    (corpus / "whole").write_bytes(whole)

    def one(content: bytes) -> None:
        with suppress(MedHelmError):
            read(content)

    atheris.Setup([sys.argv[0], str(corpus), *arguments], one)
    atheris.Fuzz()


def study(inputs: int, seed: int, kinds: list[str], kept: Path) -> tuple[str, bool]:
    """Return a table, and True if no file raised anything but an error with advice. `kept`: folder for the others."""
    lines, problems, total = [], [], 0
    for kind in kinds:
        runs = max(inputs // SLOW.get(kind, 1), 1)
        options = [f"-runs={runs}", f"-seed={seed}", "-max_len=100000", f"-artifact_prefix={kept}/", "-timeout=60"]
        command = [sys.executable, "-m", "bench.studies.guided_inputs", "--kind", kind, *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
        if (ended := _DONE.search(done.stderr)) and (begun := _BEGUN.search(done.stderr)) and not done.returncode:
            total += int(ended[1])
            lines.append([kind, f"{int(ended[1]):,}", begun[1], ended[2], "0"])
        else:
            file = found[1] if (found := _KEPT.search(done.stderr)) else "no file was kept"
            problems.append(f"{kind}: {file}\n{done.stderr[-2000:]}")
            lines.append([kind, "-", "-", "-", "1"])
        print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    lines.append(["all", f"{total:,}", "", "", f"{len(problems)}"])
    text = table(["files", "read", "branches of the whole file", "branches in the end", "problems"], lines)
    return "\n".join([text, *problems]), not problems


def main() -> int:
    """Print the table; the exit code is 1 if there is a problem."""
    if sys.argv[1:2] == ["--kind"]:
        fuzz(sys.argv[2], sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=5000, help="files of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join((*FORMATS, *OTHERS)), metavar="KIND,...")
    asked = parser.parse_args()
    kept = Path(tempfile.mkdtemp(prefix="medhelm-guided-kept-"))
    text, good = study(asked.inputs, asked.seed, asked.only.split(","), kept)
    print(text)
    return int(not good)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
