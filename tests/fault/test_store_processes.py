"""Several processes use a store at once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from chexpoint.store import Store

KEY = bytes(range(32))

WRITER = """
import random, sys
from chexpoint.store import Store

folder, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
array = bytearray(random.Random(7).randbytes(60_000))
print("ready", flush=True)
sys.stdin.readline()
store = Store.open(folder)
for number in range(count):
    array[1000 * number] = ord(who)
    name = f"{who}{number}"
    store.put(name, {"n": number}, streams={"s": name.encode()}, arrays={"x": array})
    with store.read(name) as image:
        assert image.array("x").tobytes() == array
    if number % 2:
        store.forget(f"{who}{number - 1}")
        store.gc()
"""


def start(script: str, *args: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CHEX_STORE_KEY": KEY.hex()},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_processes_write_read_and_sweep_at_once_from_the_first_moment(tmp_path: Path) -> None:
    folder, count = tmp_path / "store", 10
    started = [start(WRITER, str(folder), who, str(count)) for who in "abc"]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=120)
        assert process.returncode == 0
    store = Store.open(folder, key=KEY)
    expected = {f"{who}{number}" for who in "abc" for number in range(1, count, 2)}
    assert {each.name for each in store.images()} == expected
    store.gc()
    assert store.fsck().damages == ()
    for name in expected:
        array = bytearray(random.Random(7).randbytes(60_000))
        for number in range(int(name[1:]) + 1):
            array[1000 * number] = ord(name[0])
        with store.read(name) as image:
            assert image.stream("s") == name.encode()
            assert image.array("x").tobytes() == array


HOLDER = """
import sys
from chexpoint.store import Store
image = Store.open(sys.argv[1]).read("a")
print("ready", flush=True)
sys.stdin.readline()
sys.stdout.write(str(len(image.array("x"))))
"""


def test_what_another_process_reads_is_not_swept_from_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.store.sweeping.PATIENCE_S", 0.0)
    store = Store.open(tmp_path / "store", key=KEY)
    store.put("a", {}, streams={}, arrays={"x": bytes(5_000)})
    process = start(HOLDER, str(tmp_path / "store"))
    store.forget("a")
    assert store.gc().kept_busy == 1
    told, _ = process.communicate("go\n", timeout=60)
    assert told == "5000"
    assert store.gc().packs == 1


def test_a_process_that_dies_holds_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", key=KEY)
    store.put("a", {}, streams={}, arrays={"x": bytes(5_000)})
    process = start(HOLDER, str(tmp_path / "store"))
    store.forget("a")
    process.kill()
    process.communicate(timeout=60)
    assert store.gc().packs == 1


def test_a_fork_does_not_let_go_what_its_parent_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.store.sweeping.PATIENCE_S", 0.0)
    store = Store.open(tmp_path / "store", key=KEY)
    store.put("a", {}, streams={}, arrays={"x": bytes(5_000)})
    image = store.read("a")
    pid = os.fork()
    if pid == 0:
        image.close()
        os._exit(0)
    os.waitpid(pid, 0)
    store.forget("a")
    assert store.gc().kept_busy == 1
    image.close()
    assert store.gc().packs == 1
