"""Snapshots of plain bytes, and what a process must not have left over."""

from __future__ import annotations

import os
from pathlib import Path

from chexpoint.hindsight.writing.materialiser import Part, Snapshot
from chexpoint.store import Store


def part(key: str, contents: bytes, *, is_stream: bool = False) -> Part:
    def copy_into(memory: memoryview) -> None:
        memory[:] = contents

    return Part(
        key=key,
        kind="stream" if is_stream else "array",
        nbytes=len(contents),
        copy_into=copy_into,
    )


def snapshot(name: str, like: str | None = None, **arrays: bytes) -> Snapshot:
    parts = tuple(part(key, contents) for key, contents in arrays.items())
    return Snapshot(name=name, document={"name": name}, parts=parts, like=like)


def contents_of(store: Path, image: str) -> dict[str, bytes]:
    """Return the parts of an image."""
    with Store.open(store, create=False) as opened, opened.read(image) as found:
        arrays = {key: found.array(key).tobytes() for key in found.arrays}
        return arrays | {key: found.stream(key) for key in found.streams}


def children() -> list[str]:
    """Return the live and the dead children of this process."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split()


def shared_memory() -> list[str]:
    """Return the shared mappings of ours in this process that a program may write to.

    Databases have others.
    """
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return [line for line in maps if line.split()[1] in ("rw-s", "-w-s") and "chex-" in line]


def descriptors() -> set[str]:
    """Return what the open descriptors of this process are."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue  # the one that lists them
    return found
