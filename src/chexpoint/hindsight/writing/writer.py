"""The writer: a process of its own that takes snapshots from shared memory and stores them.

It belongs to a training process, which it outlives: what was handed over completely is stored, and
then it ends.  It takes what the processor and the disk have left.

Packets are JSON, one object each.  To the writer: ``arena`` (with its memfd), ``touch`` (have pages
ready), ``save`` (a snapshot is complete, in the arena or in a file that comes with the packet).
From it: one answer to each ``save``, after the line about it in ``saved.jsonl`` is on the disk.
"""

from __future__ import annotations

import array
import contextlib
import json
import mmap
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chexpoint.errors import ChexError, ImageRefused, UnknownImage
from chexpoint.hindsight.writing.writer_lines import append_line
from chexpoint.hindsight.writing.writer_lock import hold_lock
from chexpoint.hindsight.writing.writer_start import LINK_FD

PACKET_BYTES = 4096
HEAD = struct.Struct("<Q")
"""A snapshot begins with the length of its header, which is JSON; offsets in it are from there."""

# Killed before others when memory is short: the training loses nothing but a checkpoint.
_OOM_SCORE = b"600"
# A tenth of what others get, while they want all of it.
_NICE = 10


class LazyParts(Mapping[str, memoryview]):
    """Parts of a snapshot, each fetched when it is stored; digests are taken on the way."""

    def __init__(
        self,
        fetch: Mapping[str, Callable[[], memoryview]],
        digests: dict[str, str] | None = None,
    ) -> None:
        self._fetch = fetch
        self._digests = digests

    def __getitem__(self, key: str) -> memoryview:
        import xxhash

        contents = self._fetch[key]()
        if self._digests is not None:
            self._digests[key] = xxhash.xxh3_128_hexdigest(contents)
        return contents

    def __iter__(self) -> Iterator[str]:
        return iter(self._fetch)

    def __len__(self) -> int:
        return len(self._fetch)


def save_snapshot(
    where: tuple[str, str, int | None],
    header: Mapping[str, Any],
    fetch: Callable[[int], Callable[[], memoryview]],
) -> dict[str, Any]:
    """Store a snapshot and write the line about it; return that line, whatever happens.

    Parameters
    ----------
    where
        The store, the folder of the run, and the budget of the store.
    header
        Name, document and parts.
    fetch
        Returns how to get the contents of a part, by its number.
    """
    store, folder, budget = where
    name = header["name"]
    try:
        line = _put(store, budget, header, fetch)
    except ChexError as error:
        line = {"image": name, "failed": str(error)}
    except Exception as error:  # nothing may end the writer: others wait for it
        line = {"image": name, "failed": f"{type(error).__name__}: {error}"}
    try:
        append_line(folder, line)
    except OSError as error:
        return {"image": name, "failed": f"the record of it cannot be written: {error}"}
    return line


def _put(
    where: str,
    budget: int | None,
    header: Mapping[str, Any],
    fetch: Callable[[int], Callable[[], memoryview]],
) -> dict[str, Any]:
    from chexpoint.store import Store

    started = time.perf_counter()
    digests: dict[str, str] = {}
    kinds: dict[str, dict[str, Callable[[], memoryview]]] = {"array": {}, "stream": {}}
    for number, (key, kind, _, _) in enumerate(header["parts"]):
        kinds[kind][key] = fetch(number)
    arguments: dict[str, Any] = {
        "streams": LazyParts(kinds["stream"]),
        "arrays": LazyParts(kinds["array"], digests),
        "cost_s": header["cost_s"],
    }
    with Store.open(where, budget_bytes=budget) as store:
        like = header["like"]
        try:
            info = store.put(header["name"], header["document"], like=like, **arguments)
        except (UnknownImage, ImageRefused):
            if like is None:
                raise
            info = store.put(header["name"], header["document"], like=None, **arguments)
    return {
        "image": header["name"],
        "digests": digests,
        "bytes": sum(nbytes for _, _, _, nbytes in header["parts"]),
        "stored_bytes": info.stored_bytes,
        "seconds": time.perf_counter() - started,
    }


def warm_up() -> None:
    """Load what storing needs."""
    import xxhash

    from chexpoint.store import Series, Store

    _ = Store, xxhash, Series().encode(bytes(4096))


def stand_back() -> None:
    """Leave processor, disk and memory to those who need them first.

    To be called in a session of its own.  Not at idle priority: where all processors are busy, as
    they are in a training, nothing would be written before its end.
    """
    # Linux may share the processor between sessions first, and then within each: there alone,
    # what this process says of itself would count for nothing.
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "wb", 0) as file:
        file.write(b"%d" % _NICE)
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", 0) as file:
        file.write(_OOM_SCORE)


def close_all_but(kept: int) -> None:
    """Close what this process inherited, besides the standard streams."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            if fd > 2 and fd != kept:
                with contextlib.suppress(OSError):
                    os.close(fd)


class _Writer:
    """Answers the packets of one training process."""

    def __init__(self, link: socket.socket, where: tuple[str, str, int | None]) -> None:
        self._link = link
        self._where = where
        self._arena_fd = -1
        self._arena: mmap.mmap | None = None

    def run(self, client_pid: int) -> None:
        """Serve until the training process has ended, or wants no more."""
        waiting = select.poll()
        waiting.register(self._link, select.POLLIN)
        # Somebody else may hold the other end of the link: a child of the training process.
        is_alone = False
        try:
            waiting.register(os.pidfd_open(client_pid), select.POLLIN)
        except ProcessLookupError:
            is_alone = True
        except OSError:
            pass  # Linux before 5.3: then the end of the link has to do
        is_warm = False
        while True:
            if not is_warm and not is_alone and not waiting.poll(0):
                is_warm = True
                # If it fails, that will be said when something is to be stored.
                with contextlib.suppress(Exception):
                    warm_up()
            if not is_alone:
                waiting.poll()
            try:
                packet = self._receive()
            except BlockingIOError:
                return  # all is done, and nobody is left to send more
            if packet is None:
                return
            self._serve(*packet)

    def _receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """Return a packet and the descriptors that came with it; None at the end."""
        size = socket.CMSG_SPACE(4)
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        while True:
            try:
                data, ancillary, _, _ = self._link.recvmsg(PACKET_BYTES, size, flags)
                break
            except ConnectionResetError:
                # It left answers unread.  What it had sent before is still to come.
                continue
        if not data:
            return None
        fds = array.array("i")
        for level, kind, passed in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(passed[: len(passed) - len(passed) % fds.itemsize])
        return json.loads(data), list(fds)

    def _serve(self, packet: dict[str, Any], fds: list[int]) -> None:
        match packet["do"]:
            case "arena":
                self._arena_fd = fds[0]
                self._arena = mmap.mmap(fds[0], packet["bytes"], prot=mmap.PROT_READ)
            case "touch":
                # New pages are cleared here, and not when the training thread comes upon them.
                with contextlib.suppress(OSError):
                    os.posix_fallocate(self._arena_fd, packet["at"], packet["bytes"])
            case "save" if fds:
                spool = mmap.mmap(fds[0], packet["bytes"], prot=mmap.PROT_READ)
                os.close(fds[0])
                self._save(packet["n"], memoryview(spool))
            case "save":
                at = packet["at"]
                whole = memoryview(b"" if self._arena is None else self._arena)
                self._save(packet["n"], whole[at : at + packet["bytes"]])

    def _save(self, number: int, snapshot: memoryview) -> None:
        (length,) = HEAD.unpack_from(snapshot)
        header = json.loads(bytes(snapshot[HEAD.size : HEAD.size + length]))

        def fetch(part: int) -> Callable[[], memoryview]:
            _, _, offset, nbytes = header["parts"][part]
            return lambda: snapshot[offset : offset + nbytes]

        line = save_snapshot(self._where, header, fetch)
        answer = {
            "n": number,
            "failed": line.get("failed", "")[:1000],
            "stored_bytes": line.get("stored_bytes", 0),
            "seconds": line.get("seconds", 0.0),
        }
        # Whether it is still there does not matter: the file has it.
        with contextlib.suppress(OSError):
            self._link.send(json.dumps(answer).encode(), socket.MSG_NOSIGNAL)


def main(argv: list[str]) -> None:
    """Run the writer: the training process, the store, the folder of the run, the budget."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stand_back()
    close_all_but(LINK_FD)
    pid, store, folder, budget = argv
    # No folder of the user's is kept busy.
    os.chdir("/")
    link = socket.socket(fileno=LINK_FD)
    lock = hold_lock(folder)
    _Writer(link, (store, folder, int(budget) if budget else None)).run(int(pid))
    if lock is not None:
        os.close(lock)
    os._exit(0)
