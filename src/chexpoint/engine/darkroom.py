"""The supervisor's side of images that are being written, each by a process of its own."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine.wire import Link
from chexpoint.model import CheckpointId, ImageName, image_info_from_json

ImageEvent = ev.Imaged | ev.ImageFailed | ev.ImageLoaded


class Darkroom:
    """Connections to the processes that write images.

    A process that has written some variables of a checkpoint waits for the next ones, if there are
    any: to copy a large process takes longer than to write a small table.
    """

    def __init__(self) -> None:
        self._links: dict[ImageName, Link] = {}
        self._pids: dict[ImageName, int] = {}
        self._sources: dict[ImageName, CheckpointId] = {}
        self._waiting: dict[CheckpointId, tuple[Link, int]] = {}

    def filenos(self) -> list[int]:
        return [link.fileno() for link in self._links.values()]

    def order(self, control: Link, order: Mapping[str, Any]) -> None:
        """Tell a frozen process to let a copy of itself write an image."""
        name, checkpoint = ImageName(order["name"]), CheckpointId(order["checkpoint"])
        # Whatever is wanted of one checkpoint is wanted in a row.
        for other in [each for each in self._waiting if each != checkpoint]:
            self.dropped(other)
        self._sources[name] = checkpoint
        if order["only"] and checkpoint in self._waiting:
            self._links[name], self._pids[name] = self._waiting.pop(checkpoint)
            # If it is dead, that shows on our end.
            with contextlib.suppress(OSError):
                self._links[name].command(order=dict(order))
            return
        mine, theirs = Link.pair()
        # If the process is dead, closing our copy of its end shows on ours.
        with contextlib.suppress(OSError):
            control.command([theirs.fileno()], do="image", order=dict(order))
        theirs.close()
        self._links[name] = mine

    def dropped(self, checkpoint: CheckpointId) -> None:
        """A checkpoint has gone, and with it what there was to write of it."""
        for name in [name for name, source in self._sources.items() if source == checkpoint]:
            del self._sources[name]
        if checkpoint in self._waiting:
            self._waiting.pop(checkpoint)[0].close()

    def results(self, ready: set[int]) -> Iterator[ImageEvent]:
        """Yield how images went whose processes have spoken."""
        for name, link in list(self._links.items()):
            if link.fileno() in ready and (result := self._read(name, link)) is not None:
                yield result

    def _read(self, name: ImageName, link: Link) -> ImageEvent | None:
        try:
            packet = link.receive(wait=False)
        except BlockingIOError:
            return None
        if packet is not None and packet.command()["event"] == "begun":
            self._pids[name] = packet.command()["pid"]
            return None
        source = self._sources.pop(name, None)
        if packet is not None and packet.command().get("waits") and source is not None:
            self._waiting[source] = self._links.pop(name), self._pids.pop(name)
        else:
            self._forget(name)
        if packet is None:
            return ev.ImageFailed(name, "the process that wrote the state to disk ended early")
        return image_result(packet.command())

    def _forget(self, name: ImageName) -> None:
        self._links.pop(name).close()
        self._pids.pop(name, None)
        self._sources.pop(name, None)

    def give_up(self, name: ImageName) -> None:
        """End the process that writes an image."""
        if (pid := self._pids.get(name)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if name in self._links:
            self._forget(name)

    def wait(self, seconds: float) -> list[ImageEvent]:
        """Wait a while for what is being written; return how it went."""
        found: list[ImageEvent] = []
        deadline = time.monotonic() + seconds
        while self._links and (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select(self.filenos(), [], [], left)
            found += self.results(set(ready))
        return found


def image_result(event: Mapping[str, Any]) -> ImageEvent:
    """Return what a process tells about the image that it was to write or to load."""
    if event["event"] == "imaged":
        return ev.Imaged(image_info_from_json(event["info"]))
    name = ImageName(event["name"])
    if event["event"] == "image_failed":
        return ev.ImageFailed(name, event["why"])
    return ev.ImageLoaded(name, event["why"], event["interrupted"])
