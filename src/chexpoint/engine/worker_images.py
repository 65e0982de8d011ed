"""Writing the state of a worker to a store, and reading it back.

Runs in the worker, or in a copy of one of its checkpoints.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from asyncio import AbstractEventLoop
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chexpoint.engine.beyond import Beyond
from chexpoint.engine.wire import Link, Packet
from chexpoint.errors import ChexError
from chexpoint.image import TouchLog
from chexpoint.model import (
    ImageDocument,
    ImageInfo,
    ImageName,
    image_document_from_json,
    to_json,
)

if TYPE_CHECKING:
    from chexpoint.store import Store

_INPUTS = ":in"
_OUTPUT = ":out:"
_LAST = (":_", ":__", ":___")
# The user's own work comes first.
_LEAST_ROOM = 0.03
_FOLDER, _EXTENSIONS = "start_folder", "extensions"
# What IPython puts into the namespace for itself.
_SHELLS = {"In", "Out", "_ih", "_oh", "_dh", "_", "__", "___", "_i", "_ii", "_iii"}


class WorkerImages:
    """Makes images of a shell's state, and gives it theirs.

    Parameters
    ----------
    shell
        IPython's, whose namespace is the state.
    folder
        Where the worker was started: what lies there is found again where another one is.
    loop
        In which cells run.
    """

    def __init__(self, shell: Any, folder: str, loop: AbstractEventLoop) -> None:
        self._shell = shell
        self._folder = folder
        self._beyond = Beyond(shell, loop)
        self._touches = TouchLog()
        self._is_prepared = False
        self._is_as_forked = True
        """Whether writing has run no code of the user's in this copy: loading to check might."""
        self._kept: dict[str, str] = {}
        """Variables that stayed when an image was loaded, and the cells that had made them."""
        # Tells the cells of this worker from those of others whose states it may get.
        self._prefix = uuid.uuid4().hex[:12]

    def ran(self, seq: int, source: str | None) -> None:
        """Note what a request may have changed: a cell by its source, else anything."""
        if source is None:
            self._touches.everything()
        else:
            self._touches.ran(f"{self._prefix}.{seq}", source, self._shell.user_ns)

    # ------------------------------------------------------------ writing

    def prepare(self) -> None:
        """Load what writing an image needs, once, so that not every copy has to."""
        from chexpoint.image import capture
        from chexpoint.store import Series, Store

        if self._is_prepared:
            return
        self._is_prepared = True
        # Names are loaded with their modules; encoding something loads the rest.
        _ = capture, Store, Series().encode(bytes(4096))

    def write(self, wanted: Packet) -> None:
        """Write an image, in a process of its own, and tell the supervisor how it went."""
        link = Link.from_fd(wanted.fds[0])
        link.command(event="begun", pid=os.getpid())
        packet: Packet | None = wanted
        while packet is not None:
            order = packet.command()["order"]
            made = self._shell.kernel.as_in_cells(self.make, order)
            waits = bool(order["has_more"] and self._is_as_forked)
            link.command(**made, waits=waits)
            packet = link.receive() if waits else None

    def make(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Write an image; return what the supervisor is told."""
        from chexpoint.image import small_pages

        started = time.perf_counter()
        self._is_as_forked = False
        try:
            with small_pages():
                info = self._make(order)
        except ChexError as error:
            return {"event": "image_failed", "name": order["name"], "why": str(error)}
        except Exception as error:  # of the user's own classes, or of ours
            why = f"storing the state failed: {type(error).__name__}: {error}"
            return {"event": "image_failed", "name": order["name"], "why": why}
        info = replace(info, seconds=time.perf_counter() - started)
        return {"event": "imaged", "info": to_json(info)}

    def _make(self, order: Mapping[str, Any]) -> ImageInfo:
        from chexpoint.image import capture
        from chexpoint.store import Store

        if order["only"]:
            return self._make_artifact(order)
        if beyond := self._beyond.found():
            raise _NotStored(f"{beyond}, which is not part of any variable")
        self._check_room()
        with Store.open(order["store"], budget_bytes=order["budget"]) as store:
            like, previous = _document(store, order["like"])
            taken = capture(self._state(), touches=self._touches, previous=previous)
            lost = tuple(
                replace(each, cell=each.cell or self._kept.get(each.name, ""))
                for each in taken.document.lost
                if not _is_history(each.name)
            )
            count = self._shell.execution_count - 1
            extensions = sorted(self._shell.extension_manager.loaded)
            facts = {
                **taken.document.facts,
                _FOLDER: self._folder,
                _EXTENSIONS: extensions,
            }
            document = replace(taken.document, execution_count=count, lost=lost, facts=facts)
            if dropped := facts["dropped"]:
                raise _NotStored(f"what module '{dropped[0]}' holds cannot be stored")
            blocking = [each for each in lost if not each.is_alone]
            if blocking:
                first = blocking[0]
                why = f"'{first.name}' ({first.kind}) cannot be stored: {first.why}"
                raise _NotStored(why)
            info = store.put(
                ImageName(order["name"]),
                to_json(document),
                streams=taken.streams,
                arrays=taken.arrays,
                same=taken.same,
                like=like,
                cost_s=order["cost_s"],
            )
        return replace(info, lost=lost, line=())

    def _make_artifact(self, order: Mapping[str, Any]) -> ImageInfo:
        """Write some variables alone."""
        from chexpoint.image import capture
        from chexpoint.store import Store

        self._check_room()
        names = set(order["only"])
        with Store.open(order["store"], budget_bytes=order["budget"]) as store:
            taken = capture(self._shell.user_ns, touches=TouchLog(), only=names)
            if lost := taken.document.lost:
                raise _NotStored(f"'{lost[0].name}' ({lost[0].kind}): {lost[0].why}")
            is_plain = not any(b"__main__" in stream for stream in taken.streams.values())
            self._is_as_forked = is_plain and not taken.document.facts["own_modules"]
            return store.put(
                ImageName(order["name"]),
                to_json(taken.document),
                streams=taken.streams,
                arrays=taken.arrays,
                # Tables of one name have often nothing else in common.
                follows=False,
                cost_s=order["cost_s"],
            )

    def _check_room(self) -> None:
        room = shutil.disk_usage(self._folder)
        if room.free < _LEAST_ROOM * room.total:
            raise _NotStored("the disk is nearly full: chex gc frees space")

    def _state(self) -> dict[str, Any]:
        """Return the variables of the user's, and IPython's history under names of our own."""
        shell = self._shell
        state = self.variables()
        history = shell.history_manager
        state[_INPUTS] = [list(history.input_hist_parsed), list(history.input_hist_raw)]
        for number, value in history.output_hist.items():
            state[f"{_OUTPUT}{number}"] = value
        for name in _LAST:
            if name[1:] in shell.user_ns:
                state[name] = shell.user_ns[name[1:]]
        return state

    def variables(self) -> dict[str, Any]:
        """Return the variables of the user's."""
        shell = self._shell
        hidden = shell.user_ns_hidden
        outputs = {f"_{number}" for number in shell.history_manager.output_hist}
        return {
            name: value
            for name, value in shell.user_ns.items()
            if name not in _SHELLS
            and name not in outputs
            and not (name.startswith("_i") and name[2:].isdigit())
            and not (name in hidden and hidden[name] is value)
        }

    # ------------------------------------------------------------ reading

    def load(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Give the shell the state of an image; return what the supervisor is told."""
        answer = {"event": "loaded", "name": order["name"], "why": "", "interrupted": False}
        try:
            self._load(order)
        except KeyboardInterrupt:
            answer["interrupted"] = True
        except ChexError as error:
            answer["why"] = str(error)
        except Exception as error:
            answer["why"] = f"loading the state failed: {type(error).__name__}: {error}."
        return answer

    def _load(self, order: Mapping[str, Any]) -> None:
        from chexpoint.image import rebuild
        from chexpoint.store import Store

        with (
            Store.open(order["store"], create=False) as store,
            store.read(ImageName(order["name"])) as image,
        ):
            document = self._here(image_document_from_json(image.document))
            state = rebuild(document, image.stream, image.array, main=self._shell.user_ns)
        manager = self._shell.extension_manager
        for name in document.facts.get(_EXTENSIONS, ()):
            if name not in manager.loaded:
                manager.load_extension(name)
        self._place(document, state, keep=frozenset(order["keep"]))

    def _here(self, document: ImageDocument) -> ImageDocument:
        """Return a document whose folders are those of this worker."""
        facts = dict(document.facts)
        before = facts.get(_FOLDER, self._folder)
        facts["cwd"] = _moved(facts["cwd"], before, self._folder)
        facts["path"] = [_moved(each, before, self._folder) for each in facts["path"]]
        facts["own_modules"] = {
            name: [_moved(file, before, self._folder), digest]
            for name, (file, digest) in facts["own_modules"].items()
        }
        return replace(document, facts=facts)

    def _place(
        self, document: ImageDocument, state: dict[str, Any], *, keep: frozenset[str]
    ) -> None:
        """Make a state the shell's; nothing here can fail."""
        shell, names = self._shell, self._shell.user_ns
        history = shell.history_manager
        for name in self.variables():
            if name not in keep:
                del names[name]
        for name in [name for name in names if name.startswith("_") and name[1:].isdigit()]:
            del names[name]
        parsed, raw = state.pop(_INPUTS, [[""], [""]])
        history.input_hist_parsed[:], history.input_hist_raw[:] = parsed, raw
        history.output_hist.clear()
        for name in [name for name in state if name.startswith(_OUTPUT)]:
            number, value = int(name.removeprefix(_OUTPUT)), state.pop(name)
            history.output_hist[number] = names[f"_{number}"] = value
        for name in _LAST:
            names[name[1:]] = state.pop(name, "")
        names.update({name: value for name, value in state.items() if name[0] != ":"})
        shell.execution_count = document.execution_count + 1
        self._kept = {name: self._touches.last_cell(name) for name in keep}
        self._touches = TouchLog.resumed(document.line, document=document)


def _is_history(name: str) -> bool:
    """Return whether a name stands for something that a cell has shown, and may be missing."""
    return name.startswith(_OUTPUT) or name in _LAST


def _moved(path: str, before: str, now: str) -> str:
    """Return where something is now that was in a folder, or below it, before."""
    is_inside = path == before or path.startswith(os.path.join(before, ""))
    return now + path[len(before) :] if is_inside else path


class _NotStored(ChexError):
    """A variable stands in the way of an image."""


def _document(store: Store, name: str | None) -> tuple[ImageName | None, ImageDocument | None]:
    """Return an image that may be similar, and what it holds; None if it cannot be read."""
    if name is None:
        return None, None
    try:
        with store.read(ImageName(name)) as image:
            return ImageName(name), image_document_from_json(image.document)
    except (ChexError, TypeError, KeyError):
        return None, None
