"""``python -m chexpoint.kernel -f CONNECTION_FILE``, as the kernel spec calls it."""

import os
import sys

# As the stock launcher does: a random.py beside the notebook must not break the kernel.
if sys.path and sys.path[0] in {"", os.getcwd()}:
    del sys.path[0]

from chexpoint.kernel.launch import launch

sys.exit(launch(sys.argv[1:]))
