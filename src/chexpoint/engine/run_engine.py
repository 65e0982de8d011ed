"""Starts a headless supervisor: ``python run_engine.py LINK_FD AUTO BUDGET_BYTES [GUEST]``."""

import gc
import os
import sys

# This file's folder: its modules must not shadow those of the same name elsewhere.
del sys.path[0]

# Modules stay: no collection need look at them.
gc.disable()

from chexpoint.engine.spawn import Spawner  # noqa: E402

os.set_inheritable(int(sys.argv[1]), False)
if sys.argv[4:]:
    from chexpoint.engine.guest import settle_in

    settle_in(sys.argv[4])
_spawner = Spawner(["--Session.key=headless", "--ext=chexpoint"])
_spawner.start_ahead()

from chexpoint.engine.serving import serve  # noqa: E402

gc.freeze()
gc.enable()
serve(sys.argv[1:], _spawner)
