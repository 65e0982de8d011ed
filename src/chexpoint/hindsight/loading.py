"""Reads the state of loops out of the images that a recording has written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chexpoint.hindsight.state.putting_back import StoredLeaf

if TYPE_CHECKING:
    from chexpoint.store import Store, StoredImage


class Images:
    """Reads leaves out of images."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._store: Store | None = None
        self._open: dict[str, StoredImage] = {}

    def leaf(self, image: str, name: str) -> StoredLeaf:
        """Return a leaf as it was stored.

        Raises
        ------
        ChexError
            If the image is not there, or damaged, or somebody else's.
        """
        found = self._open.get(image)
        if found is None:
            if self._store is None:
                # Not before the program has imported what it needs: it loads NumPy.
                from chexpoint.store import Store

                self._store = Store.open(self._where, create=False)
            if len(self._open) >= 8:
                self._open.pop(next(iter(self._open))).close()
            found = self._open[image] = self._store.read(image)
        about = found.document["leaves"][name]
        data = found.array(name) if about["kind"] == "array" else found.stream(name)
        return StoredLeaf(kind=about["kind"], meta=about["meta"], data=data)

    def close(self) -> None:
        for image in self._open.values():
            image.close()
        self._open.clear()
