"""Arrays on a device go to the store without coming to the host as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chexpoint.model import ImageName
from chexpoint.store import Store
from tests.support.cuda.checks import contents
from tests.support.cuda.emulator import EmulatedDevice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

pytestmark = pytest.mark.slow


class OnDevice:
    """An array that is no buffer: only the emulated device can look at it."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        self.__cuda_array_interface__ = data.__array_interface__


class Device(EmulatedDevice):
    """Takes the arrays of this test."""

    def contents(self, data: object) -> Any:
        return super().contents(data.data if isinstance(data, OnDevice) else data)


def test_images_from_a_device_go_on_with_their_series(
    monkeypatch: pytest.MonkeyPatch, library: Path, tmp_path: Path
) -> None:
    device = Device(library, seed=3)
    monkeypatch.setattr("chexpoint.store.cuda.differ.CupyDevice", lambda: device)
    states = list(contents(5, 256, 301))
    added = []
    with Store.open(tmp_path / "store", key=b"k" * 32) as store:
        for number, state in enumerate(states):
            array: Any = OnDevice(state)
            name = ImageName(f"i{number}")
            info = store.put(name, {}, streams={"s": b"x"}, arrays={"x/device0": array})
            added.append(info.stored_bytes)
        for number, state in enumerate(states):
            with store.read(ImageName(f"i{number}")) as image:
                assert image.array("x/device0").tobytes() == state.tobytes()
        assert not store.fsck().damages
    assert max(added[1:]) < added[0]
