"""Series: the successive contents of one part, encoded piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chexpoint.errors import InvalidValue
from chexpoint.store.dedup import guard
from chexpoint.store.dedup.addresses import Addresses
from chexpoint.store.dedup.analysis import Analysis, Differ, Method
from chexpoint.store.dedup.chunks import as_bytes, count_of
from chexpoint.store.dedup.columns import write_column
from chexpoint.store.dedup.decoding import decode, lay_out, needed
from chexpoint.store.dedup.differ import HostDiffer, make_differ
from chexpoint.store.dedup.digests import content_root
from chexpoint.store.dedup.frames import WORTH_LARGE, choose_form, write_frames
from chexpoint.store.dedup.index import EMPTY
from chexpoint.store.dedup.piece import Coding, PieceInfo, write_piece
from chexpoint.store.dedup.published import write_published
from chexpoint.store.dedup.state import Fact, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from chexpoint.store.dedup.chunks import Gathered
    from chexpoint.store.dedup.layout import Layout

_INDEX_SHARE = 0.25
"""Share of the contents that the index may take in memory before old chunks are forgotten."""

_INDEX_LEAST = 1 << 20
_WORTH_FORGETTING = 1.25

_FACTS = ["method", "chunk_bytes", "number", "nbytes", "_key", "_taken", "_depth", "_streak"]
_FACTS += ["_xor_from", "_form_from", "_slow_bytes", "_is_suspended"]


class Series:
    """Encodes the contents of one part again and again, each time as the next piece.

    Parameters
    ----------
    method
        ``ours``, or one of those that were published: ``full``, ``basic``, ``list``, ``tree``.
    chunk_bytes
        Size of a chunk: a power of two from 16 to 65,536.
    engine
        What looks at chunks: ``jit``, ``plain``, ``cuda``; or ``auto``, one of the first two.
    threads
        How many may compress.

    Raises
    ------
    InvalidValue
        If there is no such method or engine, or chunks cannot have this size.
    """

    def __init__(
        self,
        *,
        method: str = "ours",
        chunk_bytes: int = 256,
        engine: str = "auto",
        threads: int = 1,
    ) -> None:
        self.method = cast("Method", method)
        self.chunk_bytes = chunk_bytes
        self.engine = engine
        self.threads = threads
        self.number = 0
        """How many pieces there are."""
        self.root = b""
        """The root of the last contents; empty before the first."""
        self.nbytes = 0
        """Size of the last contents."""
        self._key = 0
        self._taken = 0
        self._depth = 0
        self._streak = 0
        self._xor_from = 0
        self._form_from = 0
        self._slow_bytes = 0
        self._addresses = Addresses()
        self._sample = np.empty((0, 2), np.uint64)
        self._differ = self._fresh_differ()
        self._is_suspended = False

    @property
    def index_bytes(self) -> int:
        """What it takes in memory to know the last contents and all chunks before."""
        known = self._differ.size_bytes if isinstance(self._differ, HostDiffer) else 0
        return known + self._addresses.table.nbytes + self._sample.nbytes

    def encode(
        self,
        data: Any,
        *,
        previous: Callable[[], Any] | None = None,
        dirty: Sequence[tuple[int, int]] | None = None,
    ) -> list[bytes | memoryview]:
        """Return the next piece, as buffers to be written one after another.

        They may show the memory of ``data``: write them before it changes.  After an error the
        series is of no use; `rebuild` it.

        Parameters
        ----------
        data
            A C-contiguous buffer, or a device array for ``cuda``; of any size.
        previous
            Returns the last contents.  If it is given, pieces may be coded as what differs from
            them byte by byte.
        dirty
            If it is known: ranges of bytes outside of which nothing has changed since the last
            piece, as `PageTracker` gives them.
        """
        if self.engine == "cuda":
            piece = self._encode_device(data)
        else:
            contents = as_bytes(data)
            if count_of(len(contents), self.chunk_bytes) >= EMPTY // 4:
                raise InvalidValue("the array has too many chunks; choose larger chunk_bytes.")
            if self.method != "ours":
                piece = self._encode_published(contents)
            elif self._is_suspended:
                piece = self._encode_unhashed(contents, previous)
            else:
                piece = self._encode_hashed(contents, previous, dirty)
        self.number += 1
        return piece

    def dump(self) -> list[bytes | memoryview]:
        """Return what it takes to go on in another process, as buffers; none for ``cuda``."""
        if not isinstance(self._differ, HostDiffer):
            return []
        facts: dict[str, Fact] = {name: getattr(self, name) for name in _FACTS}
        facts |= {"root": self.root.hex(), "base": self._addresses.taken}
        arrays = self._differ.state()
        arrays |= {"sample": self._sample, "table": self._addresses.table}
        return pack(facts, arrays)

    @classmethod
    def load(cls, data: Any, *, engine: str = "auto") -> Series:
        """Return the series that was dumped.

        Raises
        ------
        ValueError
            If the bytes are damaged; `rebuild` it then.
        """
        facts, arrays = unpack(data)
        if engine == "cuda":
            raise ValueError("a series on a device has to be rebuilt")
        made = cls(
            method=str(facts["method"]), chunk_bytes=int(facts["chunk_bytes"]), engine=engine
        )
        differ = cast("HostDiffer", made._differ)
        for name in _FACTS:
            setattr(made, name, facts[name])
        made.root = bytes.fromhex(str(facts["root"]))
        made._sample = arrays.pop("sample")
        made._addresses = Addresses(arrays.pop("table"), int(facts["base"]))
        differ.set_state(arrays)
        return made

    @classmethod
    def rebuild(cls, chain: Sequence[Any], *, engine: str = "auto") -> Series:
        """Return the series that encoded a chain, which may begin with any key.

        Raises
        ------
        StoreDamaged
            As `decode` does.
        """
        pieces = needed(chain)
        info = pieces[-1].info
        made = cls(method=info.method, chunk_bytes=info.chunk_bytes, engine=engine)
        if info.method != "ours":
            for end in range(len(chain) - len(pieces) + 1, len(chain) + 1):
                made._differ.regions(decode(chain[:end]))
        else:
            made._know(decode(chain), lay_out(pieces), info)
            dependent = [each for each in pieces if each.info.coding in {"xor", "patch"}]
            made._depth = len(dependent)
        made.number, made.root = info.number + 1, info.root
        made.nbytes, made._key, made._streak = info.nbytes, info.key, info.streak
        return made

    def _know(self, contents: NDArray[np.uint8], layout: Layout, info: PieceInfo) -> None:
        """Take over contents as if this series had encoded them."""
        self._taken, self._slow_bytes = layout.taken, layout.slow_bytes
        self._sample = guard.sample_digests(contents, self.chunk_bytes, self.engine)
        self._is_suspended = info.streak >= guard.PATIENCE
        if self._is_suspended:
            return
        if not isinstance(self._differ, HostDiffer):
            found = self._differ.analyse(contents)
            self._addresses = Addresses(layout.at[found.new], layout.taken)
            return
        table = self._differ.know(contents, layout)
        self._addresses = Addresses(table, layout.taken)

    def _encode_published(self, data: Any) -> list[bytes | memoryview]:
        found = self._differ.regions(data)
        is_host = isinstance(self._differ, HostDiffer)
        self.root = content_root(data) if is_host else cast("Any", self._differ).root
        self.nbytes = found.nbytes
        if self.method == "full":
            self._key = self.number
            head, payload = write_frames(found.payload, self.chunk_bytes, 0)
            return self._write("whole", head, payload)
        payload = [found.payload.data] if len(found.payload) else []
        meta = write_published(found, self.method, self.number)
        return self._write("bitmap" if self.method == "basic" else "regions", meta, payload)

    def _encode_hashed(
        self,
        contents: NDArray[np.uint8],
        previous: Callable[[], Any] | None,
        dirty: Sequence[tuple[int, int]] | None,
    ) -> list[bytes | memoryview]:
        if self._taken + count_of(len(contents), self.chunk_bytes) >= EMPTY:
            self._start_over()
        found = cast("HostDiffer", self._differ).analyse(contents, dirty)
        had, self.nbytes, self.root = self.nbytes, len(contents), found.root
        is_first = self._taken == 0
        dense = not is_first and guard.is_dense(len(found.payload), len(contents))
        self._streak = min(self._streak + 1, 255) if dense else 0
        if dense:
            self._sample = guard.sample_digests(contents, self.chunk_bytes, self.engine)
            self._is_suspended = self._streak >= guard.PATIENCE
        piece = None
        if had and not is_first and previous is not None:
            piece = self._try_bytes(contents, previous, found)
        if piece is None:
            piece = self._write_chunks(found)
        else:
            self._rebase()
        self._bound_index()
        return piece

    def _try_bytes(
        self, contents: NDArray[np.uint8], previous: Callable[[], Any], found: Analysis
    ) -> list[bytes | memoryview] | None:
        """Return a piece that needs the bytes before it, if it is smaller than chunks."""
        is_small = 0 < len(contents) < guard.PATCH_BYTES
        if not self._streak and not (is_small and guard.is_shifted(found)):
            return None
        if self._depth >= guard.MOST_DEPENDENT:
            return self._write_whole(contents)
        if is_small:
            return self._try_patch(contents, previous, found)
        return self._try_xor(contents, previous)

    def _encode_unhashed(
        self, contents: NDArray[np.uint8], previous: Callable[[], Any] | None
    ) -> list[bytes | memoryview]:
        self._differ = self._fresh_differ()
        sample = guard.sample_digests(contents, self.chunk_bytes, self.engine)
        self._is_suspended = not guard.is_sparse_again(self._sample, sample)
        self._sample = sample
        self.nbytes = len(contents)
        if not self._is_suspended:
            return self._resume(contents, previous)
        self._streak = min(self._streak + 1, 255)
        self.root = content_root(contents)
        piece = None
        if previous is not None and self._depth < guard.MOST_DEPENDENT:
            piece = self._try_xor(contents, previous)
        self._addresses = Addresses()
        return piece if piece is not None else self._write_whole(contents)

    def _resume(
        self, contents: NDArray[np.uint8], previous: Callable[[], Any] | None
    ) -> list[bytes | memoryview]:
        """Hash chunks again, from these contents on."""
        self._streak = 0
        found = self._differ.analyse(contents)
        self.root = found.root
        if previous is not None and self._depth < guard.MOST_DEPENDENT:
            piece = self._try_xor(contents, previous)
            if piece is not None:
                self._rebase()
                return piece
        self._taken = 0
        self._addresses = Addresses()
        return self._write_chunks(found)

    def _write_chunks(self, found: Analysis) -> list[bytes | memoryview]:
        if self._taken == 0:
            self._key, self._depth, self._slow_bytes = self.number, 0, 0
        count = count_of(found.nbytes, self.chunk_bytes)
        is_whole = self._taken == 0 and len(found.new) == count
        frames, payload = self._write_frames(found.payload)
        self._taken += len(found.new)
        if is_whole:
            return self._write("whole", frames, payload)
        columns = found.new, found.moved, self._addresses.of(found.sources)
        meta = b"".join(map(write_column, columns)) + frames
        return self._write("chunks", meta, payload)

    def _write_whole(self, contents: NDArray[np.uint8]) -> list[bytes | memoryview]:
        self._key, self._depth = self.number, 0
        self._taken = count_of(len(contents), self.chunk_bytes)
        self._slow_bytes = 0
        form = 0
        if self.number >= self._form_from:
            form = choose_form(contents, is_large=True)
            self._form_from = 0 if form else self.number + guard.PAUSE
        frames, payload = write_frames(contents, self.chunk_bytes, form, threads=self.threads)
        return self._write("whole", frames, payload)

    def _write_frames(
        self, payload: NDArray[np.uint8] | Gathered
    ) -> tuple[bytes, list[bytes | memoryview]]:
        # Chunks that compress a little are read slowly; so there must not be too many of them.
        slow = self._slow_bytes + len(payload)
        is_large = slow > max(guard.SLOW_SHARE * self.nbytes, guard.SLOW_LEAST)
        form = choose_form(payload, is_large=is_large)
        made = write_frames(payload, self.chunk_bytes, form, threads=self.threads)
        stored = sum(map(len, made[1]))
        if len(payload) > stored > len(payload) / WORTH_LARGE:
            self._slow_bytes = slow
        return made

    def _try_patch(
        self, contents: NDArray[np.uint8], previous: Callable[[], Any], found: Analysis
    ) -> list[bytes | memoryview] | None:
        """Return a patch, unless chunks are about as small."""
        from chexpoint.store.dedup.zstd import make_patch

        patch = make_patch(contents.data, as_bytes(previous()).data)
        form = choose_form(found.payload, is_large=False)
        _, payload = write_frames(found.payload, self.chunk_bytes, form)
        if guard.PATCH_GAIN * len(patch) > sum(map(len, payload)):
            return None
        self._slow_bytes = 0
        self._depth += 1
        self._taken = count_of(len(contents), self.chunk_bytes)
        # However many chunks are new: looking at them is cheap, and the next change may be another.
        self._streak, self._is_suspended = 0, False
        return self._write("patch", b"", [patch])

    def _try_xor(
        self, contents: NDArray[np.uint8], previous: Callable[[], Any]
    ) -> list[bytes | memoryview] | None:
        """Return what differs from the last contents bit by bit, if that is small."""
        if self.number < self._xor_from:
            return None
        before = as_bytes(previous())
        form = guard.xor_form(before, contents)
        if not form:
            self._xor_from = self.number + guard.PAUSE
            return None
        self._depth += 1
        self._taken = count_of(len(contents), self.chunk_bytes)
        changes = guard.combined(before, contents)
        self._slow_bytes = 0
        return self._write("xor", *write_frames(changes, self.chunk_bytes, form))

    def _rebase(self) -> None:
        """Take chunks from the last contents only: addresses began with them."""
        _, positions = cast("HostDiffer", self._differ).forget()
        self._addresses = Addresses(positions, self._taken)

    def _bound_index(self) -> None:
        """Forget chunks that are not in the last contents, if all take too much memory."""
        differ = cast("HostDiffer", self._differ)
        most = max(_INDEX_SHARE * self.nbytes, _INDEX_LEAST)
        known = differ.memory.index.count
        if self.index_bytes > most and known > _WORTH_FORGETTING * len(differ.memory.ids):
            kept, _ = differ.forget()
            self._addresses = Addresses(self._addresses.of(kept), self._taken)

    def _start_over(self) -> None:
        self._differ = self._fresh_differ()
        self._taken, self._addresses = 0, Addresses()

    def _encode_device(self, data: Any) -> list[bytes | memoryview]:
        if self.method != "ours":
            return self._encode_published(data)
        if self._taken > 3 * count_of(self.nbytes, self.chunk_bytes) + EMPTY // 1024:
            self._start_over()
        analysis = self._differ.analyse(data)
        self.root, self.nbytes = analysis.root, analysis.nbytes
        return self._write_chunks(analysis)

    def _fresh_differ(self) -> Differ:
        return make_differ(self.method, self.chunk_bytes, self.engine)

    def _write(
        self, coding: Coding, meta: bytes, payload: Sequence[bytes | memoryview]
    ) -> list[bytes | memoryview]:
        info = PieceInfo(
            method=self.method,
            coding=coding,
            number=self.number,
            chunk_bytes=self.chunk_bytes,
            nbytes=self.nbytes,
            root=self.root,
            key=self._key,
            streak=self._streak,
        )
        return write_piece(info, meta, payload)
