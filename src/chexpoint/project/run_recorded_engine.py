"""Starts a headless supervisor that keeps a journal: ``... LINK_FD AUTO BUDGET_BYTES``."""

import gc
import os
import sys

# This file's folder: its modules must not shadow those of the same name elsewhere.
del sys.path[0]

# Modules stay: no collection need look at them.
gc.disable()

from chexpoint.engine import Spawner  # noqa: E402

os.set_inheritable(int(sys.argv[1]), False)
_spawner = Spawner(["--Session.key=headless", "--ext=chexpoint"])
_spawner.start_ahead()

from chexpoint.engine import serve  # noqa: E402
from chexpoint.project import Project, ProjectJournal  # noqa: E402

gc.freeze()
gc.enable()
serve(sys.argv[1:], _spawner, ProjectJournal(Project.at(os.getcwd())))
