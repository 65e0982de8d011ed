"""Starts a worker: ``python run_worker.py LINK_FD SUPERVISOR_PID [ipykernel options]``."""

import sys

# This file's folder: its modules must not shadow those of the same name elsewhere.
del sys.path[0]

from chexpoint.engine.worker import main  # noqa: E402

main(sys.argv[1:])
