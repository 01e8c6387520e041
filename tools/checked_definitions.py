"""Write the definitions of the built-in benchmarks in the form that needs no further checks.

python -m tools.checked_definitions            # writes the file
python -m tools.checked_definitions --check    # writes nothing; exit code 1 if the file is out of date
"""

from __future__ import annotations

import argparse
import json
import sys

from medhelm.benchmarks.definition import CHECKED, FILE_NAME, LIBRARY, checked_entry, read_definition
from medhelm.scoring.metrics import METRIC_NAMES


def content() -> str:
    """Return the content of the file as it should be."""
    names = sorted(file.parent.name for file in LIBRARY.glob(f"*/{FILE_NAME}"))
    benchmarks = [read_definition(LIBRARY / name, metrics=METRIC_NAMES) for name in names]
    return json.dumps({one.name: checked_entry(one) for one in benchmarks}, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if it is out of date")
    text = content()
    if parser.parse_args().check:
        return int(text != CHECKED.read_text(encoding="utf-8"))
    CHECKED.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
