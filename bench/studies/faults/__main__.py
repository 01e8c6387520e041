"""Run the studies of faults."""

import sys
from contextlib import suppress

from bench.studies.faults import main

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
