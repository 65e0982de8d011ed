"""What is a device, what is private, who owns a thread."""

from __future__ import annotations

import os

import pytest

from chexpoint.engine import hazards, threads
from chexpoint.engine.descriptors import open_descriptors
from chexpoint.engine.proc import Mapping
from chexpoint.engine.shared_memory import is_private_to_us


@pytest.mark.parametrize("path", ["/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/dri/card0"])
def test_devices_are_hazards(path: str) -> None:
    assert hazards._is_device(path)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/urandom", "/dev/shm/x", "/dev/pts/3", "/x"])
def test_what_only_looks_like_a_device_is_not(path: str) -> None:
    assert not hazards._is_device(path)


@pytest.mark.parametrize(
    ("path", "is_private"),
    [
        ("/dev/zero (deleted)", True),
        ("/memfd:name (deleted)", True),
        ("/dev/shm/sem.x (deleted)", True),
        ("/tmp/pymp-1/x (deleted)", True),
        ("/dev/shm/psm_1", False),
        ("/home/me/data.npy", False),
        ("/SYSV00000000 (deleted)", False),
        ("/dev/nvidia0 (deleted)", False),
    ],
)
def test_shared_memory_that_only_we_can_reach(path: str, is_private: bool) -> None:
    assert is_private_to_us(Mapping(0, 4096, "rw-s", 0, 1, path)) == is_private


def test_an_open_device_is_named() -> None:
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no harmless device to open here")
    fd = os.open("/dev/fuse", os.O_RDONLY)
    try:
        assert "/dev/fuse" in [
            h.what.split()[1] for h in hazards.descriptor_hazards(open_descriptors())
        ]
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("shared_object", "library"),
    [
        ("_polars_runtime_32.abi3.so", "polars"),
        ("libtorch_cpu.so", "torch"),
        ("libgomp-a49a47f9.so.1.0.0", "OpenMP (libgomp)"),
        ("libxyz.so", "libxyz.so"),
    ],
)
def test_libraries_are_called_by_their_names(shared_object: str, library: str) -> None:
    assert threads._library(shared_object) == library
