"""The kernels do what they should: the source, in many orders, on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chexpoint.errors import InvalidValue, StoreError
from chexpoint.store.cuda import CudaDiffer
from chexpoint.store.cuda.table import MOST, Table
from chexpoint.store.dedup.analysis import Analysis, Method, PaperMethod, Regions
from chexpoint.store.dedup.chunks import Gathered
from chexpoint.store.dedup.differ import HostDiffer
from tests.support.cuda.checks import (
    MakeDevice,
    check_all,
    check_contention,
    check_digests,
    check_looks,
    check_regions,
    contents,
)
from tests.support.cuda.emulator import EmulatedDevice, KernelError

pytestmark = pytest.mark.slow


@pytest.fixture
def make(library: Path) -> MakeDevice:
    """Make devices that differ in the order of threads."""
    return lambda seed: EmulatedDevice(library, seed=seed)


def test_kernels_do_all_they_should(make: MakeDevice) -> None:
    check_all(make)


def test_digests_of_all_lengths_are_those_of_the_library(make: MakeDevice) -> None:
    check_digests(make, range(1, 4097))


@pytest.mark.parametrize("chunk_bytes", [16, 32, 64, 128, 256, 512, 4096, 65536])
def test_looks_find_what_a_dictionary_finds(make: MakeDevice, chunk_bytes: int) -> None:
    # One chunk, a prime, a power of two, and one more.
    for seed, chunks in enumerate((1, 3, 31, 64, 65)):
        check_looks(make, seed, chunk_bytes, chunks if chunk_bytes < 65536 else min(chunks, 5))


@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 7, 8, 9, 33, 100])
def test_regions_are_those_of_a_dictionary(make: MakeDevice, chunks: int) -> None:
    for seed in range(3):
        check_regions(make, seed, 16, chunks)


def test_the_order_of_threads_does_not_matter(make: MakeDevice) -> None:
    for seed in range(40):
        check_contention(make, seed)


@pytest.mark.parametrize("method", ["ours", "full", "basic", "list", "tree"])
def test_all_engines_find_the_same(make: MakeDevice, method: Method) -> None:
    for seed in (11, 12):
        ours = CudaDiffer(method=method, chunk_bytes=64, device=make(seed))
        theirs = HostDiffer(method=method, chunk_bytes=64, engine="plain")
        for data in contents(seed, 64, 1200):
            if method == "ours":
                assert_same(ours.analyse(data), theirs.analyse(data))
            else:
                assert_same(ours.regions(data), theirs.regions(data))


def assert_same(one: Analysis | Regions, other: Analysis | Regions) -> None:
    """Assert that all fields are equal, types of arrays included."""
    for name in type(one).__slots__:
        # Chunks that are gathered late are arrays when they are asked for.
        sides = (getattr(each, name) for each in (one, other))
        left, right = (each[:] if isinstance(each, Gathered) else each for each in sides)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, name
            np.testing.assert_array_equal(left, right, err_msg=name)
        else:
            assert left == right, name


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    looks=st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=1, max_size=4),
    tail=st.integers(0, 15),
    seed=st.integers(0, 1000),
)
def test_any_contents_are_looked_at_alike(
    make: MakeDevice, looks: list[list[int]], tail: int, seed: int
) -> None:
    ours = CudaDiffer(chunk_bytes=16, device=make(seed))
    theirs = HostDiffer(method="ours", chunk_bytes=16, engine="plain")
    for values in looks:
        data = np.repeat(np.array(values, np.uint8), 16)
        data = data[: len(data) - tail] if len(data) > tail else data
        assert_same(ours.analyse(data), theirs.analyse(data))


@pytest.mark.parametrize("shift", [1, 4, 8])
def test_contents_may_begin_anywhere(make: MakeDevice, shift: int) -> None:
    whole = np.random.default_rng(shift).integers(0, 256, 90_000, dtype=np.uint8)
    data = whole[shift:-3]
    for chunk_bytes in (64, 256):
        ours = CudaDiffer(chunk_bytes=chunk_bytes, device=make(shift))
        theirs = HostDiffer(method="ours", chunk_bytes=chunk_bytes, engine="plain")
        assert_same(ours.analyse(data), theirs.analyse(data))


def test_a_look_brings_its_findings_in_one_copy(library: Path) -> None:
    device = EmulatedDevice(library)
    found = CudaDiffer(device=device).analyse(np.arange(10_000, dtype=np.uint32))
    # Counts, by which the host makes room, come before.
    assert [size for size in device.copied if size > 32] == [device.copied[-1]]
    assert device.copied[-1] >= found.payload.nbytes + found.new.nbytes


def test_the_table_grows_and_stays_small(make: MakeDevice) -> None:
    random = np.random.default_rng(0)
    differ = CudaDiffer(chunk_bytes=256, device=make(1))
    theirs = HostDiffer(method="ours", chunk_bytes=256, engine="plain")
    data = random.integers(0, 256, 256 * 4000, dtype=np.uint8)
    for step in range(4):
        assert_same(differ.analyse(data), theirs.analyse(data))
        if step == 0:
            assert differ.size_bytes <= 0.25 * data.nbytes
        data = random.integers(0, 256, len(data), dtype=np.uint8)


def test_too_many_chunks_are_refused(library: Path) -> None:
    device = EmulatedDevice(library)
    table = Table(device)
    with pytest.raises(StoreError, match="use larger chunks"):
        table.make_room(MOST, device.empty(1, "u8"))


def test_the_root_is_that_of_the_contents_for_every_method(make: MakeDevice) -> None:
    data = np.arange(50_000, dtype=np.uint32)
    expected = HostDiffer(method="ours", chunk_bytes=64, engine="plain").analyse(data).root
    for method in get_args(PaperMethod):
        differ = CudaDiffer(method=method, chunk_bytes=64, device=make(0))
        differ.regions(data)
        assert differ.root == expected, method


def test_a_differ_does_only_what_it_was_made_for(make: MakeDevice) -> None:
    with pytest.raises(InvalidValue, match="call analyse"):
        CudaDiffer(device=make(0)).regions(np.zeros(4))
    with pytest.raises(InvalidValue, match="call regions"):
        CudaDiffer(method="tree", device=make(0)).analyse(np.zeros(4))


def test_a_differ_that_failed_half_way_does_not_go_on(library: Path) -> None:
    device = EmulatedDevice(library)
    differ = CudaDiffer(device=device)
    differ.analyse(np.zeros(1000))
    device.fail_at = device.launches + 4
    with pytest.raises(KernelError, match="on purpose"):
        differ.analyse(np.ones(1000))
    with pytest.raises(StoreError, match="start a new series"):
        differ.analyse(np.ones(1000))
