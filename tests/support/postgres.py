"""A real PostgreSQL server for tests: of PyPI's `pgserver`, or else one that is on the machine.

It listens on a socket in a folder of its own, and nowhere else.  It refuses to run as root, so root
starts it as `nobody`.  It ends with the process that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Becomes the user, if told one, and then the program; a kill of the caller ends it.
_BECOME = """
import ctypes, os, signal, sys
user = int(sys.argv[1])
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
ctypes.CDLL(None).prctl(1, signal.SIGQUIT)
os.chdir(sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])
"""


class PostgresServer:
    """A server that can be stopped, started again, and made to hang."""

    def __init__(self, folder: Path) -> None:
        """Make an empty server; the folder is one that any user can get to."""
        self.folder = folder
        self._user = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else 0
        self._data = folder / "data"
        self._programs = _programs(folder, is_for_others=bool(self._user))
        self._process: subprocess.Popen[str] | None = None
        self._rest: threading.Thread | None = None
        self._places = 0
        folder.chmod(0o755)
        if self._user:
            os.chown(folder, self._user, -1)
        initdb = self._become(
            "initdb", "-D", str(self._data), "-U", "chex", "-A", "trust", "-E", "UTF8",
            "--locale=C", "--no-sync", "--no-instructions",
        )  # fmt: skip
        made = subprocess.run(initdb, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stdout}{made.stderr}")

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "max_connections": "60",
            "shared_buffers": "16MB",
            "dynamic_shared_memory_type": "mmap",
        }
        settings = [part for key, value in options.items() for part in ("-c", f"{key}={value}")]
        command = self._become("postgres", "-D", str(self._data), *settings)
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        output, lines = self._process.stderr, []
        assert output is not None
        for line in output:
            if "ready to accept connections" in line:
                # What it says from now on nobody reads, but it must get rid of it.
                self._rest = threading.Thread(target=output.read, daemon=True)
                self._rest.start()
                return
            lines.append(line)
        self.stop()
        raise RuntimeError(f"PostgreSQL does not start: {''.join(lines)[-3000:]}")

    def stop(self) -> None:
        """Stop at once, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(timeout=60)
            if self._rest is not None:
                self._rest.join()
            if process.stderr is not None:
                process.stderr.close()

    @property
    def url(self) -> str:
        """How to get to it."""
        return f"postgresql://chex@/postgres?host={self.folder}"

    def new_place(self) -> str:
        """Make room for tables that nobody else sees; return its URL."""
        self._places += 1
        # A schema: to make a database takes much longer.
        self.execute(f"CREATE SCHEMA place{self._places}")
        return f"{self.url}&options=-csearch_path%3Dplace{self._places}"

    def execute(self, statement: str) -> list[Any]:
        """Run a statement as an administrator."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def hanging(self, *, whole: bool = False) -> Iterator[None]:
        """Let processes of the server stop, but not end, within the block.

        Those that serve ledgers now; or, too, the one that takes new connections.
        """
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'chex'"
        pids = [int(row[0]) for row in self.execute(query)]
        if whole and self._process is not None:
            pids.append(self._process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _become(self, program: str, *arguments: str) -> list[str]:
        become = [sys.executable, "-S", "-c", _BECOME, str(self._user), str(self.folder)]
        return [*become, str(self._programs / program), *arguments]


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run a server within the block."""
    folder = Path(tempfile.mkdtemp(prefix="chex-pg-"))
    try:
        server = PostgresServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(folder: Path, *, is_for_others: bool) -> Path:
    """Return where the programs of PostgreSQL are; another user must be able to run them."""
    spec = importlib.util.find_spec("pgserver")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        if is_for_others and not _is_open(package):
            # They find their libraries beside the package.
            for name in ("pgserver", "pgserver.libs"):
                if (package.parent / name).is_dir():
                    shutil.copytree(package.parent / name, folder / name, symlinks=True)
            package = folder / "pgserver"
        if (package / "pginstall" / "bin" / "postgres").exists():
            return package / "pginstall" / "bin"
    found = shutil.which("postgres")
    if found is not None:
        return Path(found).resolve().parent
    for installed in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True):
        return installed.parent
    raise RuntimeError("there is no PostgreSQL: pip install pgserver, or apt install postgresql")


def _is_open(folder: Path) -> bool:
    """Return whether everybody may enter a folder."""
    return all(each.stat().st_mode & 0o005 == 0o005 for each in [folder, *folder.parents][:-1])
