"""Follows the variables of a worker, if somebody wants to know; loads some, and forgets others."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chexpoint.errors import ChexError, ImageRefused, StoreDamaged, UnknownImage

if TYPE_CHECKING:
    from chexpoint.engine.variables import VariableWatch
    from chexpoint.model import ArtifactId, CellVariables


class WorkerVariables:
    """What cells do to the namespace of a shell.

    Parameters
    ----------
    shell
        IPython's, whose namespace it is.
    variables
        Returns those of the user's in it.
    """

    def __init__(self, shell: Any, variables: Callable[[], dict[str, Any]]) -> None:
        self._shell = shell
        self._variables = variables
        self._made: VariableWatch | None = None
        self._is_wanted = False
        self._report: CellVariables | None = None

    @property
    def _watch(self) -> VariableWatch:
        if self._made is None:
            # Not before it is needed: a worker starts faster without.
            from chexpoint.engine.variables import VariableWatch

            self._made = VariableWatch(self._variables, main=self._shell.user_ns)
        return self._made

    def follow(self) -> None:
        """Follow what cells do from now on; what that needs is loaded now, not in a cell."""
        if not self._is_wanted:
            self._is_wanted = True
            self._watch.prepare()

    def begin(self, transformed: str) -> None:
        """A cell is about to run; ``transformed`` is plain Python."""
        self._report = None
        if self._is_wanted:
            self._watch.begin(transformed)

    def end(self, transformed: str, seconds: float) -> None:
        """The cell has ended."""
        if self._is_wanted:
            self._report = self._watch.finish(transformed, seconds=seconds)

    def importing(self) -> contextlib.AbstractContextManager[None]:
        """To be held while statements of a cell run that only import."""
        return self._watch.importing() if self._is_wanted else contextlib.nullcontext()

    def take(self) -> dict[str, Any] | None:
        """Return what the last cell did, as JSON; None if that is not known."""
        from chexpoint.model import to_json

        report, self._report = self._report, None
        found: dict[str, Any] | None = to_json(report)
        return found

    def began_with(
        self, artifact: ArtifactId, *, changes: Sequence[str], reads: Sequence[str]
    ) -> None:
        """Note that the running cell puts a stored model into a variable."""
        if self._made is not None:
            self._made.began_with(artifact, changes=changes, reads=reads)

    def changed(self) -> None:
        """Something that is no cell may have changed variables."""
        if self._made is not None:
            self._made.forget()

    def bind(self, items: Sequence[Mapping[str, Any]], unbind: Sequence[str]) -> dict[str, Any]:
        """Load variables and forget others, or leave all as it is; return what to tell."""
        answer: dict[str, Any] = {"event": "bound", "why": "", "artifact": "", "seconds": []}
        answer |= {"interrupted": False, "lost": False}
        from chexpoint.engine.variable_contents import LoadedGroup

        values: dict[str, Any] = {}
        try:
            if any(item["image"] for item in items):
                # What is imported once is no part of what loading takes.
                import numpy as np

                from chexpoint.store import Store

                _ = np, Store
            for item in items:
                started = time.perf_counter()
                answer["artifact"] = item["artifact"]
                values |= self._load(item)
                answer["seconds"].append(time.perf_counter() - started)
        except KeyboardInterrupt:
            answer["interrupted"] = True
        except ChexError as error:
            answer["why"] = str(error)
            answer["lost"] = isinstance(error, StoreDamaged | UnknownImage)
        except Exception as error:  # loading runs code of any library
            answer["why"] = f"loading failed: {type(error).__name__}: {error}"
        else:
            answer["artifact"] = ""
            self._watch.unbind(unbind)
            self._watch.bind([LoadedGroup(values=values)])
        return answer

    def _load(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables of an item; nothing changes."""
        from chexpoint.engine.variable_contents import load_contents, load_from_image

        names, main = set(item["names"]), self._shell.user_ns
        if item["contents"]:
            found = load_contents(item["contents"], main)
        elif not item["image"]:
            raise ImageRefused("its contents are gone, or were written with another key.")
        else:
            from chexpoint.store import Store

            with (
                Store.open(item["store"], create=False) as store,
                store.read(item["image"]) as image,
            ):
                found = load_from_image(image, names, main)
        return {name: value for name, value in found.items() if name in names}
