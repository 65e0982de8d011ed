"""Which engine looks at chunks, and that it makes no difference."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from chexpoint.store.dedup import Series
from chexpoint.store.dedup.engines import loops

_PIECES = """
import sys
{before}
import numpy as np
from chexpoint.store.dedup import Series
series = Series(engine="{engine}")
data = np.arange(100_000, dtype=np.int64)
first = series.encode(data)
data[500] = 0
sys.stdout.buffer.write(b"".join([*first, *series.encode(data)]))
{after}
"""


def _pieces(engine: str, before: str = "", after: str = "") -> bytes:
    code = _PIECES.format(engine=engine, before=before, after=after)
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout


def test_without_numba_the_plain_engine_gives_the_same_pieces() -> None:
    without = _pieces("jit", before="sys.modules['numba'] = None")
    assert without == _pieces("plain")
    assert without


def test_numba_is_not_imported_for_small_arrays() -> None:
    assert _pieces("auto", after="assert 'numba' not in sys.modules")


def test_compiled_and_plain_pieces_are_the_same() -> None:
    if loops() is None:
        pytest.skip("nothing can be compiled here")
    rng = np.random.default_rng(0)
    data = rng.integers(0, 3, 300_000, np.uint8)
    compiled, plain, mixed = Series(engine="jit"), Series(engine="plain"), Series(engine="jit")
    for number in range(6):
        data[rng.integers(0, len(data), 10)] += 1
        # A series may go on with another engine.
        mixed = Series.load(b"".join(mixed.dump()), engine=("jit", "plain")[number % 2])
        pieces = [b"".join(each.encode(data)) for each in (compiled, plain, mixed)]
        assert pieces[0] == pieces[1] == pieces[2]
