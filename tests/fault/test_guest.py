"""An engine that is a guest ends with its host, and so does what its cells have started."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chexpoint.engine import Engine, Guest
from tests.support.processes import wait_exit

STARTS = """
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True, env={}
)
print(child.pid, end="")
"""
HOST = f"""
import json, sys, threading
from chexpoint.engine import Engine, Guest
engine = Engine(guest=Guest())
child = engine.run({STARTS!r}).text
print(json.dumps([engine.pid, int(child)]), flush=True)
threading.Event().wait()
"""


def test_nothing_is_left_of_a_guest_when_its_host_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        pids = json.loads(host.stdout.readline())
        host.kill()
    for pid in pids:
        assert wait_exit(pid, timeout_s=60)


@pytest.mark.parametrize("how", ["close", "kill"])
def test_what_cells_have_started_ends_with_a_guest(how: str) -> None:
    engine = Engine(guest=Guest())
    child = int(engine.run(STARTS).text)
    getattr(engine, how)()
    assert wait_exit(child, timeout_s=60)
