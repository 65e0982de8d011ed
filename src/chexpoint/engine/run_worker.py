"""Starts a worker: ``python run_worker.py LINK_FD SUPERVISOR_PID [ipykernel options]``."""

import gc
import sys

# This file's folder: its modules must not shadow those of the same name elsewhere.
del sys.path[0]

gc.disable()
from chexpoint.engine.worker import main  # noqa: E402

# Modules stay.  A collection need not look at them, and by that copy them in every fork.
gc.freeze()
gc.enable()
main(sys.argv[1:])
