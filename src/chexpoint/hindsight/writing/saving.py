"""``chexpoint.save`` and ``chexpoint.load``: the background materialiser by itself.

An object is captured as images of whole states are, so that what a library knows to store there is
stored here too; what belongs to the process, and not to the object, is left out.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from chexpoint.errors import InvalidValue, StoreError, UnknownImage
from chexpoint.hindsight.writing.materialiser import (
    Materialiser,
    Part,
    Saved,
    Snapshot,
    open_materialiser,
)
from chexpoint.model import ImageDocument, Seconds, image_document_from_json, to_json

_FOLDER = ".chex"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
_VALUE = "value"
# Seconds: what a user saved on purpose is the last to go when the store is full.
_WORTH = 1e6
_SLICE_S = 0.2

_log = logging.getLogger(__name__)


class Saving:
    """An object on its way to the disk.  May be used by any thread."""

    def __init__(self, name: str, saver: _Saver) -> None:
        self.name = name
        self._saver = saver
        self._saved: Saved | None = None

    def wait(self, timeout_s: Seconds | None = None) -> bool:
        """Wait until it is on the disk, or has failed; return whether it is one of the two."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._saved is None:
            left = _SLICE_S if deadline is None else min(_SLICE_S, deadline - time.monotonic())
            self._saver.look(max(0.0, left))
            if left <= 0:
                break
        return self._saved is not None

    @property
    def is_done(self) -> bool:
        """Whether it is on the disk, or has failed."""
        return self.wait(0.0)

    @property
    def failed(self) -> str:
        """Why it is not saved; empty as long as nothing went wrong."""
        return "" if not self.wait(0.0) or self._saved is None else self._saved.failed

    def settle(self, saved: Saved) -> None:
        """Note what became of it."""
        self._saved = saved
        if saved.failed:
            _log.warning("saving '%s' failed: %s", self.name, saved.failed)

    def __repr__(self) -> str:
        state = self.failed or ("done" if self.is_done else "on its way")
        return f"<Saving '{self.name}': {state}>"


class _Saver:
    """Saves objects of one project."""

    def __init__(self, folder: Path) -> None:
        self._materialiser: Materialiser = open_materialiser(
            str(folder / _FOLDER / "store"), str(folder / _FOLDER / "saves")
        )
        self._lock = threading.Lock()
        self._open: dict[str, Saving] = {}
        """By image."""
        self._latest: dict[str, str] = {}
        """The image of each name that was saved last."""
        self._number = 0

    def save(self, obj: object, name: str) -> Saving:
        """Take a snapshot of an object."""
        with self._lock:
            document, parts = _captured(obj, name)
            # Later ones are larger, whichever process saves them.
            self._number = max(self._number + 1, time.time_ns() // 1000)
            image = f"save.{name}.{self._number}"
            snapshot = Snapshot(
                name=image,
                document=document,
                parts=parts,
                like=self._latest.get(name),
                cost_s=_WORTH,
            )
            saving = self._open[image] = Saving(name, self)
            self._latest[name] = image
            self._materialiser.submit(snapshot, wait=True)
            self._settle()
        return saving

    def look(self, timeout_s: Seconds) -> None:
        """See what has become of savings, and wait for them a little."""
        with self._lock:
            if self._open:
                self._materialiser.drain(timeout_s)
                self._settle()

    def finish(self, *, wait: bool) -> None:
        """Let go of writer and memory."""
        with self._lock:
            if wait:
                self._materialiser.drain(None)
                self._settle()
            self._materialiser.finish()

    def _settle(self) -> None:
        for saved in self._materialiser.poll():
            saving = self._open.pop(saved.name, None)
            if saving is not None:
                saving.settle(saved)


_savers: dict[Path, _Saver] = {}


def save(obj: object, name: str, *, folder: str | os.PathLike[str] | None = None) -> Saving:
    """Save an object as it is now, and return at once; it is written in the background.

    Before Python exits, all that was saved is on the disk.

    Parameters
    ----------
    obj
        Anything that an image of a notebook's state can hold.
    name
        For `load`.  The newest object of a name is loaded.
    folder
        Of the project, whose ``.chex`` it is saved in.  None for the one that the current folder
        lies in; if there is none, the current folder becomes one.

    Raises
    ------
    InvalidValue
        If the object or its name cannot be saved.
    """
    return _saver(_project(folder)).save(obj, _checked(name))


def load(name: str, *, folder: str | os.PathLike[str] | None = None) -> Any:
    """Return the newest object that was saved under a name.

    Raises
    ------
    UnknownImage
        If there is none.
    ImageRefused
        If it was saved by another Python, or with other libraries.
    """
    from chexpoint.image import rebuild
    from chexpoint.store import Store

    project = _project(folder)
    _wait_for(project)
    images = _images(project)
    if _checked(name) not in images:
        known = ", ".join(sorted(images)) or "nothing"
        raise UnknownImage(f"no object was saved as '{name}' in {project}. Saved are: {known}.")
    with (
        Store.open(project / _FOLDER / "store", create=False) as store,
        store.read(images[name]) as image,
        _same_random_numbers(),
    ):
        document = image_document_from_json(image.document)
        main = vars(sys.modules["__main__"])
        return rebuild(document, image.stream, image.array, main=main)[_VALUE]


def finish_saves() -> None:
    """Keep no memory and no descriptor for saves; those that are on their way still arrive."""
    for saver in _savers.values():
        saver.finish(wait=False)


# ------------------------------------------------------------ where


def _checked(name: str) -> str:
    if not _NAME.fullmatch(str(name)):
        raise InvalidValue(
            f"{str(name)[:40]!r} cannot name a saved object: use 1 to 80 letters, digits and . _ -"
        )
    return str(name)


def _project(folder: str | os.PathLike[str] | None) -> Path:
    if folder is not None:
        return Path(folder).absolute()
    here = Path.cwd()
    found = (each for each in (here, *here.parents) if (each / _FOLDER).is_dir())
    return next(found, here)


def _images(project: Path) -> dict[str, str]:
    """Return the newest image of each name."""
    from chexpoint.store import Store

    try:
        with Store.open(project / _FOLDER / "store", create=False) as store:
            names = [each.name for each in store.images()]
    except StoreError:
        if (project / _FOLDER / "store").exists():
            raise
        return {}
    newest: dict[str, tuple[int, str]] = {}
    for image in names:
        prefix, _, rest = image.partition(".")
        name, _, number = rest.rpartition(".")
        if prefix == "save" and name and number.isdigit():
            newest[name] = max(newest.get(name, (-1, "")), (int(number), image))
    return {name: image for name, (_, image) in newest.items()}


def _saver(project: Path) -> _Saver:
    if project not in _savers:
        _savers[project] = _Saver(project)
    return _savers[project]


def _wait_for(project: Path) -> None:
    if project in _savers:
        _savers[project].finish(wait=True)


# ------------------------------------------------------------ what


def _captured(obj: object, name: str) -> tuple[dict[str, Any], tuple[Part, ...]]:
    """Return the document of an object's image, and its parts."""
    from chexpoint.image import TouchLog, capture

    with _same_random_numbers():
        taken = capture({_VALUE: obj}, touches=TouchLog())
    for lost in taken.document.lost:
        if lost.name == _VALUE:
            raise InvalidValue(f"'{name}' ({lost.kind}) cannot be saved: {lost.why}.")
    document = _without_process(taken.document)
    keys = {key for group in document.groups for key in (group.stream, *group.arrays)}
    contents: dict[str, Any] = {**taken.streams, **taken.arrays}
    parts = tuple(
        _part(key, contents[key], is_stream=key in taken.streams) for key in contents if key in keys
    )
    return to_json(document), parts


def _without_process(document: ImageDocument) -> ImageDocument:
    """Return a document of the object alone: loading it changes nothing else."""
    groups = []
    for group in document.groups:
        if _VALUE in group.variables:
            # A module of the user's that shares something with it is loaded, and not put in place.
            names = [
                each if each == _VALUE else f"other{number}"
                for number, each in enumerate(group.variables)
            ]
            groups.append(replace(group, variables=tuple(names)))
    return replace(document, groups=tuple(groups), lost=(), line=(), facts={"format": 1})


def _part(key: str, contents: Any, *, is_stream: bool) -> Part:
    if hasattr(contents, "__cuda_array_interface__"):
        return Part(
            key=key,
            kind="array",
            nbytes=contents.nbytes,
            copy_into=lambda memory: _from_device(contents, memory),
        )
    view = memoryview(contents).cast("B")

    def copy_into(memory: memoryview) -> None:
        memory[:] = view

    kind: Any = "stream" if is_stream else "array"
    return Part(key=key, kind=kind, nbytes=view.nbytes, copy_into=copy_into)


def _from_device(contents: Any, memory: memoryview) -> None:
    """Copy what is on a GPU to the host, once."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.frombuffer(memory, dtype=torch.uint8).copy_(torch.as_tensor(contents, device="cuda"))
        return
    import numpy as np

    cupy: Any = sys.modules["cupy"]
    cupy.asarray(contents).get(out=np.frombuffer(memory, np.uint8))


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Leave the generators as they were: what is loaded, if only to check it, may draw numbers."""
    states: Mapping[str, Any] = {name: get() for name, (get, _) in _generators().items()}
    try:
        yield
    finally:
        for name, (_, put) in _generators().items():
            if name in states:
                put(states[name])


def _generators() -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {"random": (random.getstate, random.setstate)}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = (numpy.random.get_state, numpy.random.set_state)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = (torch.get_rng_state, torch.set_rng_state)
    return found


# ------------------------------------------------------------ the end of the process


def _finish_all() -> None:
    for saver in list(_savers.values()):
        saver.finish(wait=True)


# A fork has none of them: its parent saves what it has begun.
os.register_at_fork(after_in_child=_savers.clear)
atexit.register(_finish_all)
