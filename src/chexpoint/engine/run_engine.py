"""Starts a headless supervisor: ``python run_engine.py LINK_FD AUTO BUDGET_BYTES``."""

import os
import sys

# This file's folder: its modules must not shadow those of the same name elsewhere.
del sys.path[0]

from chexpoint.engine.spawn import Spawner  # noqa: E402

os.set_inheritable(int(sys.argv[1]), False)
_spawner = Spawner(["--Session.key=headless", "--ext=chexpoint"])
_spawner.start_ahead()

from chexpoint.engine.serve import main  # noqa: E402

main(sys.argv[1:], _spawner)
