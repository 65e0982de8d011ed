"""Kernels whose states are kept on disk, for `images.py`: with Kishu, with CHEX, and without."""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

TIMEOUT_S = 600.0


class Session:
    """A running kernel, and one client that runs cells in it."""

    def __init__(self, argv: Sequence[str], folder: Path, env: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._manager = KernelManager()
        # A kernel by its command: no spec has to be installed.
        self._manager._kernel_spec = KernelSpec(
            argv=list(argv), display_name="bench", language="python"
        )
        self._log = (folder / "kernel.log").open("ab")
        self._manager.start_kernel(
            cwd=str(folder), env={**os.environ, **env}, stdout=self._log, stderr=self._log
        )
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        try:
            self._client.wait_for_ready(timeout=60)
            self.run("pass")
        except (KeyError, RuntimeError) as error:
            self.close(now=True)
            raise RuntimeError(f"the kernel does not start: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()

    def close(self, *, now: bool = False) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=now)
        self._log.close()

    def run(self, code: str, **options: Any) -> tuple[float, str, dict[str, Any]]:
        """Run a cell; return its seconds until idle, what it printed, and its expressions.

        Raises
        ------
        RuntimeError
            If the cell fails.
        """
        printed: list[str] = []

        def take(message: dict[str, Any]) -> None:
            if message["header"]["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                printed.append(message["content"]["text"])

        started = time.perf_counter()
        reply = self._client.execute_interactive(
            code, output_hook=take, timeout=TIMEOUT_S, allow_stdin=False, **options
        )["content"]
        seconds = time.perf_counter() - started
        if reply["status"] != "ok":
            raise RuntimeError(f"{code[:60]!r}: {reply.get('ename')}: {reply.get('evalue')}")
        return seconds, "".join(printed), reply.get("user_expressions", {})


class Side(ABC):
    """A way to keep the states of a notebook in a folder, and to go back to them."""

    name: str

    @abstractmethod
    def start(self, folder: Path, *, is_new: bool) -> Session:
        """Return a kernel that keeps the state after each cell from now on.

        Parameters
        ----------
        is_new
            Whether a notebook begins; otherwise states of an earlier kernel are gone back to.
        """

    @abstractmethod
    def place(self, session: Session, states: int) -> str:
        """Return the name of the state that the session is in, once it is on disk.

        Parameters
        ----------
        states
            How many are kept by then, this one included.
        """

    @abstractmethod
    def go_back(self, session: Session, place: str) -> tuple[float, str]:
        """Bring a session to a state; return how long the user waits, and what he is told."""

    def is_from_disk(self, told: str) -> bool:
        """Return whether going back loaded a state, by what the user was told."""
        return True

    @abstractmethod
    def stored_bytes(self, folder: Path) -> int:
        """Return what all states together take on disk."""

    def cache_bytes(self, folder: Path) -> int:
        """Return how much of that could be deleted without losing a state."""
        return 0


class Stock(Side):
    """A plain kernel, which keeps nothing: what the cells themselves take."""

    def __init__(self, python: str = sys.executable, name: str = "stock") -> None:
        self.name = name
        self._argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    def start(self, folder: Path, *, is_new: bool) -> Session:
        return Session(self._argv, folder, {"IPYTHONDIR": str(folder / "ipython")})

    def place(self, session: Session, states: int) -> str:
        return ""

    def go_back(self, session: Session, place: str) -> tuple[float, str]:
        raise NotImplementedError

    def stored_bytes(self, folder: Path) -> int:
        return 0


class Kishu(Side):
    """A kernel with Kishu in its test mode, in which it does not wait for a front end to save."""

    name = "kishu"

    def __init__(self, python: str) -> None:
        self._argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    def start(self, folder: Path, *, is_new: bool) -> Session:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "session.ipynb"
        if not path.exists():
            nbformat.write(nbformat.v4.new_notebook(), path)
        env = {
            "ENV_KISHU_TEST_MODE": "1",
            "TEST_NOTEBOOK_PATH": str(path),
            "KISHU_PATH_ROOT": str(folder),
            "IPYTHONDIR": str(folder / "ipython"),
        }
        session = Session(self._argv, folder, env)
        session.run(f"from kishu import init_kishu\ninit_kishu({str(path)!r})")
        return session

    def place(self, session: Session, states: int) -> str:
        # Silent: otherwise Kishu would keep a state for this as well.
        head = {"at": "_kishu._kishu_branch.get_head().commit_id"}
        _, _, found = session.run("", silent=True, user_expressions=head)
        return str(found["at"]["data"]["text/plain"]).strip("'")

    def go_back(self, session: Session, place: str) -> tuple[float, str]:
        # As its command `kishu checkout` does it.
        checkout = {"done": f"_kishu.checkout({place!r})"}
        seconds, _, found = session.run("", silent=True, user_expressions=checkout)
        if found["done"]["status"] != "ok":
            raise RuntimeError(f"checkout of {place}: {found['done'].get('evalue')}")
        return seconds, str(found["done"]["data"]["text/plain"])

    def stored_bytes(self, folder: Path) -> int:
        return sum(each.stat().st_size for each in folder.glob("*.kishudb*"))


class Chex(Side):
    """The kernel of CHEX, with images of all states or without."""

    def __init__(self, *, persist: bool) -> None:
        self.name = "chex" if persist else "chex_off"
        self._persist = persist
        self._argv = [sys.executable, "-m", "chexpoint.kernel", "-f", "{connection_file}"]

    def start(self, folder: Path, *, is_new: bool) -> Session:
        session = Session(self._argv, folder, {"IPYTHONDIR": str(folder / "ipython")})
        if self._persist:
            session.run("%chex_persist always")
        if is_new:
            session.run("%chex_record bench")
        return session

    def place(self, session: Session, states: int) -> str:
        """Wait until the state is on disk: it is written while the user goes on."""
        if self._persist:
            session.run("%chex_persist --wait")
        _, printed, _ = session.run("%chex_status --json")
        status = json.loads(printed)
        if self._persist and status["images"] < states:
            raise RuntimeError(f"{status['images']} of {states} are on disk: {status['unkept']}")
        return str(status["node"])

    def go_back(self, session: Session, place: str) -> tuple[float, str]:
        seconds, told, _ = session.run(f"%chex_checkout {place}")
        return seconds, told

    def is_from_disk(self, told: str) -> bool:
        return "run again" not in told

    def stored_bytes(self, folder: Path) -> int:
        return _size(folder / ".chex" / "store")

    def cache_bytes(self, folder: Path) -> int:
        return _size(folder / ".chex" / "store" / "index")


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
