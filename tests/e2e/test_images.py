"""States on disk: they outlive the kernel, come back as they were, or are computed again."""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.kernels import Kernel
from tests.support.notebooks import (
    evict_all,
    kernel_at,
    kill_now,
    reused,
    run_all,
    run_cell,
    value,
)

pytestmark = pytest.mark.slow

# Longer than an image takes to load: otherwise cells are run again.
SLOW = "import time\ntime.sleep(0.8)\n"
POINT = """
class Point:
    def __init__(self, x):
        self.x = x

points = [Point(1), Point(2)]
first = points[0]
"""
CELLS = [
    f"{SLOW}import numpy as np\nimport pandas as pd",
    "frame = pd.DataFrame({'a': np.arange(50_000), 'b': 'word'})",
    "total = 0\n\ndef add(n):\n    global total\n    total += n\n    return total\n\nadd(3)",
    POINT,
    "frame['c'] = frame['a'] * 2\nadd(4)",
]


class Place:
    """A project folder, and the kernels that work in it one after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self._kernels = 0

    def kernel(self, **env: str) -> AbstractContextManager[Kernel]:
        """Start a kernel; it holds no checkpoints of its own accord."""
        self._kernels += 1
        own = self.folder / f"kernel{self._kernels}"
        settings = {"CHEX_AUTO": "never", "XDG_CONFIG_HOME": str(self.folder / "config")}
        return kernel_at(self.project, own, **{**settings, **env})

    def packs(self) -> list[Path]:
        return sorted(self.project.glob(".chex/store/packs/**/*.pack"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def keep_all(kernel: Kernel, cells: list[str], version: str = "v") -> None:
    """Run cells as a version, with a state on disk after each."""
    run_cell(kernel, "%chex_persist always").ok()
    for shown in run_all(kernel, cells, version=version):
        shown.ok()
    run_cell(kernel, "%chex_persist --wait").ok()


def test_a_restarted_kernel_loads_the_state_and_runs_nothing(place: Place) -> None:
    with place.kernel() as kernel:
        keep_all(kernel, CELLS)
    with place.kernel() as kernel:
        told = run_cell(kernel, "%chex_checkout v").ok().told
        assert "run again" not in told
        assert value(kernel, "(total, int(frame['c'].sum()), list(frame.columns))") == str(
            (7, 2 * sum(range(50_000)), ["a", "b", "c"])
        )
        # What shared objects still does, and functions see the variables of the notebook.
        assert run_cell(kernel, "first.x = 9\npoints[0].x, add(1), total").result == "(9, 8, 8)"
        assert run_cell(kernel, "isinstance(first, Point), type(first) is Point").result == str(
            (True, True)
        )
        assert run_cell(kernel, "Out[7], In[4][:5]").result == "(7, 'frame')"


def test_states_survive_a_kernel_that_is_killed(place: Place) -> None:
    with place.kernel(CHEX_PERSIST="always") as kernel:
        for shown in run_all(kernel, CELLS[:3], version="v"):
            shown.ok()
        run_cell(kernel, "%chex_persist --wait").ok()
        kill_now(kernel)
    with place.kernel() as kernel:
        assert "run again" not in run_cell(kernel, "%chex_checkout v").ok().told
        assert run_cell(kernel, "add(1)").result == "4"


def test_run_all_after_a_restart_goes_on_from_the_state_on_disk(place: Place) -> None:
    cells = [f"{SLOW}import os", "x = [os.getpid()]", "y = x + x"]
    with place.kernel() as kernel:
        keep_all(kernel, cells)
        (made_by,) = {value(kernel, "y[0]"), value(kernel, "y[1]")}
    with place.kernel() as kernel:
        shown = run_all(kernel, [*cells, "z = y + y"], version="v2")
        assert reused(shown) == "rrrc"
        assert value(kernel, "set(z)") == "{" + made_by + "}"


def test_a_state_that_depends_on_chance_comes_back_as_it_was(place: Place) -> None:
    cells = ["import random", "lucky = random.random()", "also = lucky + 1"]
    with place.kernel() as kernel:
        keep_all(kernel, cells)
        lucky = value(kernel, "lucky, random.random()")
    with place.kernel() as kernel:
        run_cell(kernel, "%chex_checkout v").ok()
        assert value(kernel, "lucky, random.random()") == lucky


def test_only_the_cell_of_a_variable_that_cannot_be_stored_runs_again(place: Place) -> None:
    heavy = f"{SLOW}import os\nheavy = [os.getpid()]"
    cells = ["numbers = (n * n for n in range(10))", heavy, "light = 1"]
    with place.kernel() as kernel:
        keep_all(kernel, cells)
        made_by = value(kernel, "heavy[0]")
    with place.kernel() as kernel:
        told = run_cell(kernel, "%chex_checkout v").ok().told
        assert "1 cell run again" in told
        assert value(kernel, "heavy[0]") == made_by
        assert run_cell(kernel, "next(numbers), next(numbers), light").result == "(0, 1, 1)"


def test_a_generator_that_was_used_is_not_put_back_to_its_start(place: Place) -> None:
    cells = ["numbers = (n * n for n in range(10))", "next(numbers), next(numbers)", "light = 1"]
    with place.kernel() as kernel:
        keep_all(kernel, cells)
    with place.kernel() as kernel:
        run_cell(kernel, "%chex_checkout v").ok()
        assert run_cell(kernel, "next(numbers)").result == "4"


def test_a_flipped_bit_is_told_and_the_cells_are_run_again(place: Place) -> None:
    with place.kernel() as kernel:
        keep_all(kernel, CELLS[:3])
    for pack in place.packs():
        data = bytearray(pack.read_bytes())
        data[len(data) // 3] ^= 4
        pack.write_bytes(data)
    with place.kernel() as kernel:
        shown = run_cell(kernel, "%chex_checkout v")
        shown.ok()
        assert "Cells are run again instead" in shown.told
        assert "cells run again" in shown.told
        assert run_cell(kernel, "add(1), len(frame)").result == "(4, 50000)"


BEYOND = {
    "thread": (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
        "thread",
    ),
    "magic": (
        "@get_ipython().register_magic_function\ndef shout(line):\n    return line.upper()",
        "the line magic 'shout' was defined in a cell",
    ),
    "signal": (
        "import signal\n_ = signal.signal(signal.SIGUSR1, lambda *_: None)",
        "a signal handler was changed",
    ),
    "task": (
        "import asyncio\n_ = asyncio.create_task(asyncio.sleep(1000)) and None",
        "an asyncio task is waiting",
    ),
    "module": (
        "_ = open('mine.py', 'w').write('numbers = (n for n in range(3))')\nimport mine",
        "what module 'mine' holds cannot be stored",
    ),
    "builtin": ("import builtins\nbuiltins.pi = 3", "a builtin was changed"),
    "accessor": (
        "import pandas.api.extensions as e\ne.register_index_accessor('own')(type('Own', (), {}))",
        "the accessor 'own' of pandas was defined in a cell",
    ),
}


def test_a_state_with_more_than_variables_is_not_kept_and_says_why(place: Place) -> None:
    with place.kernel(CHEX_PERSIST="always") as kernel:
        for name, (cell, why) in BEYOND.items():
            for shown in run_all(kernel, ["kept = [1]", cell], version=name):
                shown.ok()
            told = run_cell(kernel, "%chex_persist --wait").ok().told
            assert "the last one is not: " in told, name
            assert why in told, name


# Its OpenMP threads are gone in a copy of the process.
XGBOOST = """
import numpy as np, xgboost
x = np.random.default_rng(0).random((500, 4))
model = xgboost.XGBRegressor(n_estimators=5).fit(x, x.sum(axis=1))
show = lambda: float(model.predict(x).sum())
"""
# Its threads cannot be stopped: the worker itself writes the image.
POLARS = """
import polars
frame = polars.DataFrame({'a': range(1000), 'b': ['x', 'y'] * 500})
show = lambda: (frame.group_by('b').sum().sort('b')['a'].to_list(), frame['a'].sum())
"""
TORCH = """
import torch
_ = torch.manual_seed(3)
net = torch.nn.Linear(4, 2)
adam = torch.optim.Adam(net.parameters())
net(torch.ones(3, 4)).sum().backward()
adam.step()

def show():
    shared = adam.param_groups[0]['params'][0] is net.weight
    return net(torch.ones(1, 4)).tolist(), torch.rand(2).tolist(), shared
"""


@pytest.mark.parametrize("make", [XGBOOST, POLARS, TORCH], ids=["xgboost", "polars", "torch"])
def test_states_of_libraries_with_threads_come_back(place: Place, make: str) -> None:
    with place.kernel() as kernel:
        keep_all(kernel, [f"{SLOW}{make}"])
        status = json.loads(run_cell(kernel, "%chex_status --json").ok().outcome.stdout)
        assert not status["unkept"]
        before = value(kernel, "show()")
    with place.kernel() as kernel:
        assert "run again" not in run_cell(kernel, "%chex_checkout v").ok().told
        assert value(kernel, "show()") == before


def test_another_folder_with_the_same_key_loads_it_and_a_stranger_does_not(place: Place) -> None:
    key = "ab" * 32
    with place.kernel(CHEX_STORE_KEY=key) as kernel:
        keep_all(kernel, CELLS[:3])
    moved = Place(place.folder / "elsewhere")
    shutil.copytree(place.project, moved.project)
    with moved.kernel(CHEX_STORE_KEY=key) as kernel:
        assert "run again" not in run_cell(kernel, "%chex_checkout v").ok().told
        assert value(kernel, "total") == "3"
        assert value(kernel, "__import__('os').getcwd()") == repr(str(moved.project))
    with moved.kernel(CHEX_STORE_KEY="cd" * 32) as kernel:
        told = run_cell(kernel, "%chex_checkout v").ok().told
        assert "Cells are run again instead" in told
        assert value(kernel, "total") == "3"


def test_checkpoints_that_had_to_go_live_on_as_images(place: Place) -> None:
    with place.kernel() as kernel:
        keep_all(kernel, CELLS)
        evict_all(kernel)
        assert "run again" not in run_cell(kernel, "%chex_checkout 5").ok().told


def test_what_is_off_writes_nothing(place: Place) -> None:
    with place.kernel() as kernel:
        run_all(kernel, CELLS[:2], version="v")
        assert "off, 0 states" in run_cell(kernel, "%chex_persist").ok().told
    assert not (place.project / ".chex" / "store").exists()
