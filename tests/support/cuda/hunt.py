"""Runs all checks on kernels with planted defects; each in a process of its own, which may crash.

python -m tests.support.cuda.hunt BASE NAME=LIBRARY ...    prints what became of each, as JSON
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

from tests.support.cuda.checks import check_all
from tests.support.cuda.emulator import EmulatedDevice

_SECONDS = 30
_MEMORY = 4 << 30


def verdict(library: Path, base: Path) -> str:
    """Return how a defect was noticed; empty if it was not."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.write(writer, _try(library, base).encode()[:1000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said


def _try(library: Path, base: Path) -> str:
    # A defect may write anywhere, ask for any amount of memory, or never end.
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(_SECONDS)
    try:
        check_all(lambda seed: EmulatedDevice(library, base, seed=seed))
    except Exception as error:  # However it shows.
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Check every library that is named."""
    base = Path(sys.argv[1])
    pairs = (argument.rsplit("=", 1) for argument in sys.argv[2:])
    verdicts = {name: verdict(Path(library), base) for name, library in pairs}
    json.dump(verdicts, sys.stdout)


if __name__ == "__main__":
    main()
