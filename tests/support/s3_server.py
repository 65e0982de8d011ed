"""An S3-compatible server for tests: that of moto, in a process of its own.

It ends with the process that started it, and forgets everything.  Clients find it by the settings
that AWS gives names to, as a user's would.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

BUCKET = "team"

_SERVER = """
import sys

from moto.moto_server.threaded_moto_server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()  # until whoever started it is gone
server.stop()
"""


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server with one empty bucket."""

    url: str
    _process: subprocess.Popen[str] = field(repr=False)

    @property
    def settings(self) -> dict[str, str]:
        """Return the environment of a client."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "team",
            "AWS_SECRET_ACCESS_KEY": "team",
            "AWS_DEFAULT_REGION": "us-east-1",
            # It is here or it is gone: waiting does not help.
            "AWS_MAX_ATTEMPTS": "1",
        }

    def stop(self) -> None:
        """End it; then its address refuses everybody."""
        self._process.kill()
        self._process.wait()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server on a free port."""
    command = [sys.executable, "-c", _SERVER]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a line for each request
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, "the server has not started"
            server = S3Server(f"http://127.0.0.1:{port}", process)
            _make_bucket(server.url)
            yield server
        finally:
            process.kill()


def _make_bucket(url: str) -> None:
    request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")  # noqa: S310 - our own
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        answer.read()
