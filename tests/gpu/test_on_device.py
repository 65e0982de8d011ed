"""The same checks on a CUDA device, where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chexpoint.errors import InvalidValue, StoreError
from chexpoint.store.cuda import CudaDiffer, Device
from chexpoint.store.cuda.cupy_device import CupyDevice, load_cupy
from chexpoint.store.dedup.differ import HostDiffer
from tests.support.cuda.checks import check_all, check_looks, check_regions, contents

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cupy() -> Any:
    """CuPy with a device."""
    try:
        return load_cupy()
    except StoreError as error:
        pytest.skip(str(error))


def make_device(_seed: int) -> Device:
    """Make a device; nobody decides the order of its threads."""
    return CupyDevice()


@pytest.mark.usefixtures("cupy")
def test_kernels_do_all_they_should() -> None:
    check_all(make_device)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("chunk_bytes", [16, 64, 128, 256, 4096])
def test_many_chunks_are_looked_at_alike(chunk_bytes: int) -> None:
    for seed in range(3):
        check_looks(make_device, seed, chunk_bytes, 20_011)
        check_regions(make_device, seed, chunk_bytes, 1_009)


def test_arrays_of_cupy_are_read_where_they_are(cupy: Any) -> None:
    differ = CudaDiffer()
    theirs = HostDiffer(method="ours", chunk_bytes=256, engine="plain")
    for data in contents(3, 256, 5000):
        found, expected = differ.analyse(cupy.asarray(data)), theirs.analyse(data)
        assert found.root == expected.root
        np.testing.assert_array_equal(found.new, expected.new)
        np.testing.assert_array_equal(found.payload, expected.payload)


def test_work_that_was_begun_is_waited_for(cupy: Any) -> None:
    differ = CudaDiffer()
    with cupy.cuda.Stream(non_blocking=True):
        data = cupy.zeros(1 << 24, cupy.float32)
        for _ in range(50):
            data += 1
        found = differ.analyse(data)
    expected = HostDiffer(method="ours", chunk_bytes=256, engine="plain")
    assert found.root == expected.analyse(np.full(1 << 24, 50, np.float32)).root


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "bool", "complex64"])
def test_tensors_of_torch_are_read_where_they_are(kind: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    tensor = torch.arange(5000, device="cuda").to(getattr(torch, kind))
    host = tensor.cpu().view(torch.uint8).numpy()
    expected = HostDiffer(method="ours", chunk_bytes=256, engine="plain").analyse(host)
    assert CudaDiffer().analyse(tensor).root == expected.root
    with pytest.raises(InvalidValue, match="contiguous"):
        CudaDiffer().analyse(tensor.reshape(50, 100).T)


@pytest.mark.usefixtures("cupy")
def test_bytes_of_the_host_are_copied_to_the_device() -> None:
    data = b"the same bytes" * 1000
    expected = HostDiffer(method="ours", chunk_bytes=256, engine="plain").analyse(data)
    assert CudaDiffer().analyse(data).root == expected.root
    with pytest.raises(InvalidValue, match="no contiguous bytes"):
        CudaDiffer().analyse(object())
