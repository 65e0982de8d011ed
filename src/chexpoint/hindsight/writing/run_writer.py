"""Starts a writer: ``python run_writer.py CLIENT_PID STORE FOLDER BUDGET``; its link is fd 3."""

import os
import sys

# This file's folder: its modules must not shadow those of the same name elsewhere.
del sys.path[0]
# A program may have found us by a path that it set itself.
sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))

from chexpoint.hindsight.writing.writer import main  # noqa: E402

main(sys.argv[1:])
