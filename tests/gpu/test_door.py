"""Without CuPy or a device the engine says so in one line; with them it takes what it can read."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from chexpoint.errors import InvalidValue, StoreError
from chexpoint.store.cuda import CudaDiffer
from chexpoint.store.cuda.cupy_device import ExportedBytes, load_cupy


def test_a_missing_cupy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    load_cupy.cache_clear()
    with pytest.raises(StoreError, match=r"install chexpoint\[gpu\]") as caught:
        CudaDiffer()
    assert "\n" not in str(caught.value)


def test_a_missing_device_is_named() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.is_available():
        pytest.skip("there is a device")
    with pytest.raises(StoreError, match="needs a CUDA device") as caught:
        CudaDiffer()
    assert "\n" not in str(caught.value)


def test_chunks_of_a_size_that_no_engine_takes_are_refused() -> None:
    with pytest.raises(InvalidValue, match="power of two"):
        CudaDiffer(chunk_bytes=100)


class OnDevice:
    """What a library shows of an array on a device."""

    def __init__(self, array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
        self.__cuda_array_interface__ = {
            **array.__array_interface__,
            "strides": None if array.flags.c_contiguous else array.strides,
            "version": 3,
        }


def exported(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> ExportedBytes:
    """Return the bytes of an array that is on a device."""
    found = ExportedBytes.of(OnDevice(array))
    assert found is not None
    return found


def test_an_array_is_read_as_bytes_where_it_is() -> None:
    array = np.zeros((3, 5, 2), np.float32)
    interface = exported(array).__cuda_array_interface__
    assert interface["data"][0] == array.ctypes.data
    assert interface["typestr"] == "|u1"
    assert interface["shape"] == (120,)
    assert interface["strides"] is None


def test_strides_that_say_nothing_are_contiguous() -> None:
    one = OnDevice(np.zeros((3, 1, 4), np.float32))
    one.__cuda_array_interface__["strides"] = (16, 999, 4)
    found = ExportedBytes.of(one)
    assert found is not None
    assert found.nbytes == 48


def test_an_empty_array_is_contiguous() -> None:
    assert exported(np.zeros((0, 4), np.float32)[:, ::2]).nbytes == 0


@pytest.mark.parametrize("pick", ["rows", "transposed", "backwards"])
def test_an_array_with_gaps_is_refused(pick: str) -> None:
    whole = np.zeros((6, 5), np.float32)
    array = {"rows": whole[:, :2], "transposed": whole.T, "backwards": whole[::-1]}[pick]
    with pytest.raises(InvalidValue, match="not C-contiguous"):
        exported(array)


def test_an_array_of_the_host_is_not_taken_for_one_of_a_device() -> None:
    assert ExportedBytes.of(np.zeros(3)) is None
    assert ExportedBytes.of(b"bytes") is None
