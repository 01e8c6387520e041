"""Collect the wheels of MedHELM and everything it needs, with their hashes, for machines without a network.

    python -m tools.wheelhouse FOLDER [EXTRA]...          # for example: wheels encryption figures

Run it on a machine with a network, of the same system and with the same Python version as the other one. FOLDER must
be new. Its file requirements.txt pins every wheel by version and SHA-256. Copy FOLDER, and install there:

    pip install --no-index --find-links FOLDER --require-hashes -r FOLDER/requirements.txt

pip then refuses a wheel that was changed on the way. Keep a copy of requirements.txt elsewhere to notice changes to it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def requirements(folder: Path) -> str:
    """Return the content of a requirements file that pins all wheels in a folder by version and SHA-256."""
    lines = []
    for wheel in sorted(folder.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        with wheel.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{name.replace('_', '-').lower()}=={version} --hash=sha256:{digest}")
    return "".join(f"{line}\n" for line in lines)


def main(arguments: list[str]) -> int:
    """Build or download the wheels, and write requirements.txt."""
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    folder, extras = Path(arguments[0]), arguments[1:]
    if folder.exists():
        print(f"{folder} exists: name a new folder, so that it holds nothing else.", file=sys.stderr)
        return 2
    project = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), project], check=True)
    file = folder / "requirements.txt"
    file.write_text(requirements(folder), encoding="utf-8")
    print(f"{file}: {len(list(folder.glob('*.whl')))} wheels")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
