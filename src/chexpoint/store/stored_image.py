"""An image, as it is read from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from chexpoint.errors import StoreDamaged, StoreError
from chexpoint.model import ImageInfo
from chexpoint.store.image_reader import ImageReader
from chexpoint.store.manifests import Kind, Manifest, Part, Pointer
from chexpoint.store.shelf import Lock, telling

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray


class StoredImage:
    """Hands out the parts of an image, each when it is asked for.

    Until it is closed, no sweep deletes what it still has to read.  Use it in a ``with`` statement.
    """

    def __init__(
        self, reader: ImageReader, pointer: Pointer, manifest: Manifest, lock: Lock
    ) -> None:
        self._reader = reader
        self._manifest = manifest
        self._lock = lock
        self.info: ImageInfo = pointer.info

    @property
    def document(self) -> dict[str, Any]:
        """What the writer said about the image."""
        return self._manifest.document

    @property
    def streams(self) -> tuple[str, ...]:
        """Keys of the streams."""
        return self._keys("stream")

    @property
    def arrays(self) -> tuple[str, ...]:
        """Keys of the arrays."""
        return self._keys("array")

    def stream(self, key: str) -> bytes:
        """Return a stream: what the owner of the key wrote, to the last bit.

        Raises
        ------
        StoreDamaged
            If it is lost.
        StoreError
            If there is none.
        """
        return self._contents(key, "stream").tobytes()

    def array(self, key: str) -> NDArray[np.uint8]:
        """Return the contents of an array, in memory of their own; raises as `stream` does."""
        return self._contents(key, "array")

    def close(self) -> None:
        """Let sweeps go on.  Also done when the image is no longer in use."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _keys(self, kind: Kind) -> tuple[str, ...]:
        return tuple(key for key, part in self._manifest.parts.items() if part.kind == kind)

    def _contents(self, key: str, kind: Kind) -> NDArray[np.uint8]:
        part: Part | None = self._manifest.parts.get(key)
        name = self.info.name
        if part is None or part.kind != kind:
            raise StoreError(f"image '{name}' has no {kind} '{key}'. Run the cells again.")
        try:
            with telling(self._reader.shelf.url, "read"):
                return self._reader.contents(part)
        except StoreDamaged as error:
            raise StoreDamaged(f"{kind} '{key}' of image '{name}' is lost: {error}") from error
