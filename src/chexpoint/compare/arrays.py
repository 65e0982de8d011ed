"""How two files with arrays of numpy compare.  Nothing is unpickled."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chexpoint.compare.finding import SAME, Finding, worst
from chexpoint.compare.numbers import far_elements
from chexpoint.compare.tolerance import Tolerance

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST_ARCHIVE = 256 * 2**20  # bytes, when unpacked: it may claim to be small


def compare_npy(recorded: Path, replayed: Path, tolerance: Tolerance) -> Finding:
    """Return how two files with one array each compare."""
    import numpy as np

    old = np.load(recorded, mmap_mode="r", allow_pickle=False)
    new = np.load(replayed, mmap_mode="r", allow_pickle=False)
    return compare_arrays(old, new, tolerance)


def compare_npz(recorded: Path, replayed: Path, tolerance: Tolerance) -> Finding:
    """Return how two archives of arrays compare."""
    with zipfile.ZipFile(recorded) as old, zipfile.ZipFile(replayed) as new:
        if sorted(old.namelist()) != sorted(new.namelist()):
            return Finding("different", "has arrays of other names")
        for archive in (old, new):
            if sum(member.file_size for member in archive.infolist()) > _LARGEST_ARCHIVE:
                return Finding("different", "has other contents, too many to be compared further")
        return worst(_compare_members(old, new, tolerance))


def _compare_members(
    old: zipfile.ZipFile, new: zipfile.ZipFile, tolerance: Tolerance
) -> Iterator[Finding]:
    for name in old.namelist():
        found = compare_arrays(_array(old, name), _array(new, name), tolerance)
        in_it = f" in {name.removesuffix('.npy')}" if found.what else ""
        yield found._replace(what=found.what + in_it)


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    import numpy as np

    array: NDArray[Any] = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
    return array


def compare_arrays(recorded: NDArray[Any], replayed: NDArray[Any], tolerance: Tolerance) -> Finding:
    """Return how two arrays compare."""
    if recorded.shape != replayed.shape:
        what = f"has an array of shape {replayed.shape} instead of {recorded.shape}"
        return Finding("different", what)
    if recorded.dtype != replayed.dtype:
        what = f"has an array of type {replayed.dtype} instead of {recorded.dtype}"
        return Finding("different", what)
    if recorded.flags.f_contiguous and replayed.flags.f_contiguous:
        recorded, replayed = recorded.T, replayed.T  # flat without a copy
    off, far = far_elements(recorded, replayed, tolerance)
    if far:
        return Finding("different", f"differs in {far} of {recorded.size} numbers")
    return Finding("close", "has close numbers") if off else SAME
