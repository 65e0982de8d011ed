"""Starts a headless supervisor: ``python run_engine.py LINK_FD AUTO BUDGET_BYTES``."""

import sys

# This file's folder: its modules must not shadow those of the same name elsewhere.
del sys.path[0]

from chexpoint.engine.serve import main  # noqa: E402

main(sys.argv[1:])
