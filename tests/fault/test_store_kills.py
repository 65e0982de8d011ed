"""Whatever happens to a writer, the store opens, and images that were finished are whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

KEY = bytes(range(32)).hex()

COMMON = """
import errno, os, random, resource, shutil, signal, sys, traceback
from pathlib import Path
from chexpoint.errors import ChexError, StoreError
from chexpoint.store import Store
import chexpoint.store.dedup, chexpoint.store.store  # not to be counted among the steps

def noise(seed, nbytes=9_000):
    return random.Random(seed).randbytes(nbytes)

X = noise(1, 40_000)
chexpoint.store.image_writer.CACHED_BYTES = len(X)  # so that there are caches
CONTENTS = {
    "a": {"x": X, "y": noise(2)},
    "b": {"x": X[:500] + b"!" + X[501:], "y": noise(2)},
    "c": {"x": X[:900] + b"?" + X[901:], "z": noise(3)},
    "d": {"x": X[:700] + b"+" + X[701:], "y": noise(2)},
}

def put(store, name, like=None):
    store.put(name, {"n": name}, streams={"s": name.encode()}, arrays=CONTENTS[name], like=like)

def whole(folder, at_least, at_most):
    "Check that a store opens, has no damage, and gives back what was put into its images."
    store = Store.open(folder)
    names = {each.name for each in store.images()}
    assert set(at_least) <= names <= set(at_most), names
    assert store.fsck().damages == (), store.fsck()
    for name in names:
        with store.read(name) as image:
            assert image.document == {"n": name}
            assert image.stream("s") == name.encode()
            assert {k: image.array(k).tobytes() for k in image.arrays} == CONTENTS[name]
    return store
"""

# One process for all points: each is reached by a fork of it, in which that step goes wrong.
STEPS = """
def arm(left, kind):
    "Let the first step go wrong after as many as are left."
    def one():
        left[0] -= 1
        if left[0] >= 0:
            return
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif left[0] == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    def wrapped(call):
        def step(*args, **kw):
            one()
            return call(*args, **kw)
        return step
    real_write = os.write
    def write(fd, data):
        one()
        done = real_write(fd, data[: len(data) // 2])
        one()
        return done + real_write(fd, data[done:])
    os.write = write
    for name in ["fsync", "mkdir", "replace"] + ["open", "unlink"] * (kind == "kill"):
        setattr(os, name, wrapped(getattr(os, name)))

def attempt(folder, kind, steps):
    "Run `do` in a fork; return 0 if no step went wrong, 4 if one did that can be done without."
    pid = os.fork()
    if pid == 0:
        left = [steps]
        try:
            arm(left, kind)
            try:
                do(folder)
            except StoreError as error:
                assert kind != "kill" and "No space left" in str(error), error
                os._exit(3)
            os._exit(0 if left[0] >= 0 else 4)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def every_point(base, kind):
    "Let the first step of `do` go wrong, the second, ... until it gets through; return how many."
    template = Path(base) / "template"
    prepare(template)
    for steps in range(1000):
        folder = Path(base) / str(steps)
        if template.exists():
            shutil.copytree(template, folder)
        code = attempt(folder, kind, steps)
        assert code in (0, 3, 4, -signal.SIGKILL), code
        check(folder, code in (0, 4))
        shutil.rmtree(folder)
        if code == 0:
            return steps
"""

FIRST = """
def prepare(folder):
    return None

def do(folder):
    put(Store.open(folder), "a")

def check(folder, is_through):
    store = whole(folder, "a" if is_through else "", "a")
    put(store, "b")
    store.gc()
    whole(folder, "b", "ab")
    assert not list((folder / "tmp").iterdir())
"""

NEXT = """
def prepare(folder):
    store = Store.open(folder)
    put(store, "a")
    put(store, "b", "a")

def do(folder):
    put(Store.open(folder), "c", "b")

def check(folder, is_through):
    store = whole(folder, "abc" if is_through else "ab", "abc")
    put(store, "d", "b")
    store.gc()
    whole(folder, "abd", "abcd")
"""

BUDGET = """
def prepare(folder):
    store = Store.open(folder)
    for name in "ab":
        put(store, name)

def do(folder):
    store = Store.open(folder, budget_bytes=64_000)
    put(store, "c", "b")

def check(folder, is_through):
    store = whole(folder, "c" if is_through else "", "abc")
    # None has to go before the new one is there.
    assert {each.name for each in store.images()} & {"c"} or len(store.images()) == 2
    put(store, "d")
    whole(folder, "d", "abcd")
"""

SWEEP = """
def prepare(folder):
    store = Store.open(folder)
    put(store, "a")
    store.put("e", {"n": "e"}, streams={"s": b"e"}, arrays={}, same=["y"], like="a")
    store.put("f", {"n": "f"}, streams={"s": b"f"}, arrays={}, same=["y"], like="e")
    store.forget("a")
    for name in "ef":
        CONTENTS[name] = {"y": noise(2)}

def do(folder):
    Store.open(folder).gc()

def check(folder, is_through):
    store = whole(folder, "ef", "ef")
    store.gc()
    assert store.usage().pack_bytes < 20_000
    whole(folder, "ef", "ef")
"""

REPAIR = """
def prepare(folder):
    store = Store.open(folder)
    put(store, "a")
    put(store, "b")
    CONTENTS["e"] = {"y": noise(2)}
    store.put("e", {"n": "e"}, streams={"s": b"e"}, arrays={}, same=["y"], like="a")
    pack = max((folder / "packs").iterdir(), key=lambda each: each.stat().st_size)
    data = bytearray(pack.read_bytes())
    data[20_000] ^= 1
    pack.write_bytes(data)

def do(folder):
    Store.open(folder).fsck(repair=True)

def check(folder, is_through):
    store = Store.open(folder)
    assert store.fsck().damages == () or not is_through
    store.fsck(repair=True)
    whole(folder, "e", "e")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kill", "full"])
@pytest.mark.parametrize(
    ("scenario", "least"),
    [(FIRST, 15), (NEXT, 12), (BUDGET, 12), (SWEEP, 15), (REPAIR, 15)],
    ids=["first", "next", "budget", "sweep", "repair"],
)
def test_a_step_that_goes_wrong_costs_the_unfinished_image_only(
    scenario: str, least: int, kind: str
) -> None:
    main = "print(every_point(*sys.argv[1:]))"
    # In memory: hundreds of stores are made, and a kill is none of the disk's business.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        done = subprocess.run(
            [sys.executable, "-c", COMMON + STEPS + scenario + main, folder, kind],
            env={**os.environ, "CHEX_STORE_KEY": KEY},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= least


# ------------------------------------------------------------ no room, no permission

FILLING = (
    COMMON
    + """
folder, limit = Path(sys.argv[1]) / "store", int(sys.argv[2])
store = Store.open(folder)
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
names = []
for number in range(1000):
    name = f"n{number}"
    CONTENTS[name] = {name: noise(number, 3_000 * (number + 1))}
    try:
        put(store, name)
    except StoreError as error:
        print(error)
        break
    names.append(name)
assert len(names) > 3
whole(folder, names, names)
assert not list((folder / "tmp").iterdir())
if not limit:
    store.forget(*names[2:])
    store.gc()
    put(store, name)
    whole(folder, [*names[:2], name], [*names[:2], name])
print("whole")
"""
)


def fill(folder: Path, *, prefix: Sequence[str] = (), limit: int = 0) -> str:
    """Put images until nothing more fits; return why it ended, once all before is found whole."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", FILLING, str(folder), str(limit)],
        env={**os.environ, "CHEX_STORE_KEY": KEY},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    message, last = done.stdout.splitlines()
    assert last == "whole"
    return message


def in_mount(folder: Path, script: str) -> list[str] | None:
    """Return a command that runs another with a mount of its own; None if nobody may."""
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    command += [f'{script} && shift && exec "$@"', "sh", str(folder)]
    if shutil.which("unshare") is None:
        return None
    tried = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=60)
    return command if tried.returncode == 0 else None


@pytest.mark.slow
@pytest.mark.parametrize("size", ["300k", "701k"])
def test_a_full_disk_is_told_and_all_before_is_whole(tmp_path: Path, size: str) -> None:
    prefix = in_mount(tmp_path, f'mount -t tmpfs -o size={size} none "$1"')
    if prefix is None:
        pytest.skip("a small disk cannot be mounted here")
    assert "No space left on device. Make room" in fill(tmp_path, prefix=prefix)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20_000, 50_001])
def test_a_limit_of_the_file_size_is_told_and_all_before_is_whole(
    tmp_path: Path, limit: int
) -> None:
    assert "File too large" in fill(tmp_path, limit=limit)


READING = (
    COMMON
    + """
CONTENTS["e"] = {"y": noise(2)}
folder = Path(sys.argv[1]) / "store"
whole(folder, "ab", "ab")
store = Store.open(folder)
for action in (
    lambda: put(store, "c"), lambda: store.forget("a"), lambda: store.gc(wanted=["a"]),
    lambda: Store.open(folder.parent / "other"),
):
    try:
        action()
    except StoreError as error:
        print(error)
whole(folder, "ab", "ab")
"""
)


@pytest.mark.slow
def test_a_store_that_may_only_be_read_can_be_read(tmp_path: Path) -> None:
    prefix = in_mount(tmp_path, 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1"')
    if prefix is None:
        pytest.skip("nothing can be mounted here")
    environment = {**os.environ, "CHEX_STORE_KEY": KEY}
    making = COMMON + "s = Store.open(sys.argv[1] + '/store'); put(s, 'a'); put(s, 'b')"
    subprocess.run([sys.executable, "-c", making, str(tmp_path)], env=environment, check=True)
    for has_lock in (True, False):
        if not has_lock:
            (tmp_path / "store" / "lock").unlink()
        done = subprocess.run(
            [*prefix, sys.executable, "-c", READING, str(tmp_path)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        messages = done.stdout.splitlines()
        assert len(messages) == 4
        assert all("cannot be written, because of: Read-only file system" in m for m in messages)
