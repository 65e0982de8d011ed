"""Run the command line: ``python -m chexpoint`` is ``chex``."""

import sys

from chexpoint.cli import main

if __name__ == "__main__":
    sys.exit(main())
