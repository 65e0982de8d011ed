"""A lane on a host of a cluster: it shares its host, and its states, with others."""

from __future__ import annotations

import contextlib
import queue
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from chexpoint.engine import ImagesWritten
from chexpoint.errors import ChexError
from chexpoint.model import ROOT, CellLineage, ImageName, NodeId, Seconds
from chexpoint.replay.cluster_cargo import depot_at
from chexpoint.replay.cluster_states import (
    ShippedState,
    is_worth_sending,
    pack_image,
    unpack_image,
)
from chexpoint.replay.course import Course
from chexpoint.replay.lane import Lane, Place

_SENDING_S: Seconds = 10.0


class StateWatcher(Protocol):
    """Who is told about states that travel."""

    def stored(self, state: ShippedState, seconds: Seconds) -> None:
        """A state is in the store now; bringing it there took so long."""

    def loaded(self, node: NodeId, moving_s: Seconds, seconds: Seconds) -> None:
        """A state was loaded: so long it was on its way, and so long it took in all."""

    def useless(self, node: NodeId) -> None:
        """A state could not be loaded."""

    def note(self, text: str) -> None:
        """Something happened that the user should know."""


class _Sent(NamedTuple):
    node: NodeId
    path: tuple[CellLineage, ...]


class HostLane(Lane):
    """A lane that shares its host with others: what ends its engine may be their fault.

    Parameters
    ----------
    shared
        The store that all hosts see; empty if there is none.
    images
        A folder for images, of this host.
    bandwidth
        Bytes a second between this host and the store.
    """

    def __init__(
        self,
        *args: Any,
        shared: str,
        images: Path,
        bandwidth: float,
        states: StateWatcher,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.is_alone = False
        self._fatal: list[NodeId] = []
        self._shared, self._images, self._bandwidth = shared, str(images), bandwidth
        self._states = states
        self._sent: set[NodeId] = set()
        self._awaited: dict[NodeId, _Sent] = {}
        """By what the engine calls the node: states whose images are being written."""
        self._outbox: queue.Queue[tuple[ImageName, _Sent] | None] = queue.Queue()
        self._sender = threading.Thread(target=self._send_all, name="chex-states", daemon=True)
        if shared:
            self._sender.start()

    def start(self) -> None:
        """Start the engine; see `Lane`."""
        super().start()
        if self._shared:
            self._awaited.clear()
            self._running().use_store(self._images)

    def close(self) -> None:
        """End the engine, and bring no more states to the store."""
        super().close()
        if self._sender.is_alive():
            with contextlib.suppress(queue.Empty):
                while True:
                    self._outbox.get_nowait()
            self._outbox.put(None)
            self._sender.join(_SENDING_S)  # a store that hangs must not keep the host

    # ------------------------------------------------------------ what ends engines

    def take_fatal(self) -> tuple[NodeId, ...]:
        """Return the cells that have ended the engine since the last call."""
        fatal, self._fatal = self._fatal, []
        return tuple(fatal)

    def _is_hopeless(self, node: NodeId) -> bool:
        return self.is_alone or super()._is_hopeless(node)

    def _lose(self, course: Course, node: NodeId, why: str, *, is_stuck: bool) -> None:
        if is_stuck or self.is_alone:
            super()._lose(course, node, why, is_stuck=is_stuck)
        else:
            self._fatal.append(node)
            course.gave_up(node)

    # ------------------------------------------------------------ states to the store

    def _is_worth_an_image(self, course: Course, node: NodeId) -> bool:
        if not self._shared or node in self._sent or course.leaves_below(node) < 2:
            return False
        path = self._recording.tree.path(node)
        known = max((at for at, each in enumerate(path) if each.id in self._sent), default=-1)
        prefix_s = sum(course.cost(each.id) for each in path[known + 1 :])
        if not is_worth_sending(prefix_s, course.size(node), self._bandwidth):
            return False
        if self._written(node):
            self._tell_unsent(node, "cells before it have written files")
            return False
        return True

    def _checkpoint(self, course: Course, node: NodeId) -> None:
        is_sent = self._is_worth_an_image(course, node)
        self._wants_image = is_sent
        super()._checkpoint(course, node)
        self._wants_image = False
        place = self._places[node].node
        if is_sent and node in self._checkpoints and place is not None:
            self._sent.add(node)
            self._awaited[place] = _Sent(node, self._running().lineage())
            # Not only after the next cell: that may take long, and others may want it meanwhile.
            self._running().when_written(self._take_written)

    def _step(self, *args: Any) -> None:
        super()._step(*args)
        self.send_images()

    def send_images(self) -> bool:
        """Have images that are written brought to the store; return whether some are not there."""
        if self._awaited:
            self._take_written(self._running().images())
        return bool(self._awaited or self._outbox.unfinished_tasks)

    def _take_written(self, told: ImagesWritten) -> None:
        for image in told.images:
            sent = self._awaited.pop(image.node, None)
            if sent is None:
                continue
            if image.needs or image.keep:
                self._tell_unsent(sent.node, f"'{image.keep[0]}' cannot be stored")
            else:
                self._outbox.put((image.name, sent))
        if not told.is_writing and self._awaited:
            for sent in self._awaited.values():
                self._tell_unsent(sent.node, told.why_not or "its checkpoint is gone")
            self._awaited.clear()

    def _tell_unsent(self, node: NodeId, why: str) -> None:
        self._states.note(f"{self._title(node)}: each host computes it itself: {why}")

    def _send_all(self) -> None:
        """Bring images to the store, in a thread of its own."""
        while (item := self._outbox.get()) is not None:
            name, sent = item
            try:
                self._send(name, sent)
            except (ChexError, OSError) as error:
                self._tell_unsent(sent.node, str(error))
            finally:
                self._outbox.task_done()

    def _send(self, name: ImageName, sent: _Sent) -> None:
        digest, data = pack_image(self._images, name, sent.path)
        with tempfile.NamedTemporaryFile(prefix="chex-state-") as file:
            file.write(data)
            file.flush()
            started = time.perf_counter()
            depot_at(self._shared).put(digest, Path(file.name))
            seconds = time.perf_counter() - started
        state = ShippedState(node=sent.node, digest=digest, size_bytes=len(data))
        self._states.stored(state, seconds)

    # ------------------------------------------------------------ states from the store

    def begin_with(self, course: Course, state: ShippedState) -> None:
        """Load a state that another host has computed; it is computed here if that fails."""
        node = state.node
        if node in self._checkpoints:
            return
        try:
            self._load(course, state)
        except (ChexError, OSError) as error:
            self._states.useless(node)
            self._states.note(f"{self._title(node)} is computed instead of loaded: {error}")
            course.adrift()

    def _load(self, course: Course, state: ShippedState) -> None:
        started = time.perf_counter()
        name = f"from-{state.digest}"
        with tempfile.TemporaryDirectory(prefix="chex-state-") as folder:
            path = Path(folder, state.digest)
            depot_at(self._shared).fetch(state.digest, path)
            moving_s = time.perf_counter() - started
            lineages = unpack_image(self._images, name, path.read_bytes())
        engine = self._running()
        self._scratch.go_back(self._folders[None])
        engine.restore(ROOT)
        course.adrift()
        engine.load(name, lineages)
        taken = engine.checkpoint()
        node = state.node
        self._sent.add(node)
        self._checkpoints[node] = taken.id
        self._folders[node] = self._scratch.state()
        self._places[node] = Place(lineages[-1].number, lineages[-1].node)
        course.received(node)
        self._states.loaded(node, moving_s, time.perf_counter() - started)
