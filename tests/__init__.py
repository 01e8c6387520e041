"""Tests, in the folders of what they test; helpers are in `support`."""

import os
import sys
from pathlib import Path

if sys.dont_write_bytecode:  # as in many containers; else each worker and child process compiles all it imports
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parent.parent / ".pycache")
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
