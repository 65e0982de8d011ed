"""Every way in which a cell can touch the world is seen, whoever in it does the touching.

One engine runs all cases, each in a cell of its own, on files that were there before it started.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chexpoint.engine import Engine
from tests.support.audited import digest_of, effects, hints, lists, reads, run

pytestmark = pytest.mark.slow

MACHINE = platform.machine()
OPENAT = {"x86_64": 257, "aarch64": 56}.get(MACHINE)
RENAMEAT2 = {"x86_64": 316, "aarch64": 276}.get(MACHINE)
OPENAT2, IO_URING_SETUP = 437, 425
HEXADECIMAL_DIGITS = 32

BASE, HEADERS = 0x400000, 64 + 56
"""Where a static program is loaded, and how far in its code begins."""

# ---------------------------------------------------------------- the project


PREPARE = """
import sqlite3
import duckdb, h5py, numpy as np, pandas as pd, pyarrow as pa, pyarrow.parquet as pq, torch
from PIL import Image

array = np.arange(1000.0)
np.save("data/array.npy", array)
array.tofile("data/array.raw")
frame = pd.DataFrame({"a": range(100), "b": "text"})
frame.to_csv("data/table.csv", index=False)
pq.write_table(pa.table({"a": list(range(100))}), "data/table.parquet")
with pa.OSFile("data/table.arrow", "wb") as sink:
    table = pa.table({"a": list(range(100))})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
Image.new("RGB", (8, 8), "red").save("data/image.png")
torch.save({"weights": torch.ones(1000)}, "data/model.pt")
with h5py.File("data/array.h5", "w") as file:
    file["array"] = array
with sqlite3.connect("data/rows.sqlite") as connection:
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (1)")
connection.close()
with duckdb.connect("data/rows.duckdb") as database:
    database.execute("CREATE TABLE t AS SELECT 1 AS a")
try:
    from safetensors.numpy import save_file
except ImportError:
    pass
else:
    save_file({"weights": array}, "data/model.safetensors")
"""

READER = """
def read(path):
    with open(path) as file:
        return file.read()
"""

DAEMON = """
import os, sys

if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(open(sys.argv[1]).read())
"""


def static_program(code: bytes, data: bytes = b"") -> bytes:
    """Return an executable for x86_64 that needs no library: this code, then this data."""
    size = HEADERS + len(code) + len(data)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", identity, 2, 62, 1, BASE + HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, BASE, BASE, size, size, 0x1000)
    return header + segment + code + data


def read_by_syscall() -> bytes:
    """Return a program that reads the file named by its argument; it ends with the length read."""
    return static_program(
        bytes.fromhex(
            "488b7c2410"  # mov rdi, [rsp+16]: the first argument
            "31f6 31d2"  # xor esi, esi; xor edx, edx
            "b802000000 0f05"  # open
            "89c7"  # mov edi, eax
            "4881ec00010000 4889e6"  # sub rsp, 256; mov rsi, rsp
            "ba00010000 31c0 0f05"  # read, at most 256 bytes
            "89c7 b83c000000 0f05"  # exit with what read returned
        )
    )


def open_by_old_syscall(path: str) -> bytes:
    """Return a program that opens a file as 32-bit programs do; it ends with the descriptor."""
    code = bytes.fromhex(
        "31c9 31d2"  # xor ecx, ecx; xor edx, edx
        "b805000000 cd80"  # open
        "89c3 b801000000 cd80"  # exit with what open returned
    )
    # mov ebx, path
    address = struct.pack("<BI", 0xBB, BASE + HEADERS + 5 + len(code))
    return static_program(address + code, os.fsencode(path) + b"\0")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with something to read for every library."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("data", "listed", "out"):
        (folder / name).mkdir()
    subprocess.run([sys.executable, "-c", PREPARE], cwd=folder, check=True)
    (folder / "data" / "plain.txt").write_text("plain text\n")
    (folder / "listed" / "one").touch()
    (folder / "listed" / "two").touch()
    (folder / "reader.py").write_text(READER)
    (folder / "helper.py").write_text("ANSWER = 42\n")
    (folder / "daemon.py").write_text(DAEMON)
    programs = {
        "script.sh": b"#!/bin/sh\ncat data/plain.txt\n",
        "static": read_by_syscall(),
        "static32": open_by_old_syscall("data/plain.txt"),
    }
    for program, contents in programs.items():
        (folder / program).write_bytes(contents)
        (folder / program).chmod(0o755)
    for old in ("mapped", "moved", "swapped", "carried", "gone", "shortened", "appended", "target"):
        (folder / "out" / old).write_bytes(old.encode() * 100)
    (folder / "out" / "emptied").mkdir()
    return folder


@pytest.fixture(scope="module")
def engine(project: Path) -> Iterator[Engine]:
    with Engine(cwd=project, env={"CHEX_AUDIT": "auto", "COLOUR": "red"}) as started:
        assert run(started, "import os, sys, subprocess").audit.mechanism == "system calls"
        yield started


@pytest.fixture(scope="module")
def restored(project: Path) -> Iterator[Engine]:
    """Return an engine at a checkpoint of a state that was itself restored."""
    with Engine(cwd=project) as started:
        run(started, "import os, sys, subprocess")
        started.checkpoint("first")
        run(started, "x = 1")
        started.restore("first")
        run(started, "x = 2")
        started.checkpoint("second")
        run(started, "x = 3")
        started.restore("second")
        yield started


# ---------------------------------------------------------------- cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to touch one file."""

    name: str
    path: str
    """The file, relative to the project."""
    cell: str
    needs: str = ""
    """A library that may be missing."""
    is_opaque: str = ""
    """A word of the reason why the audit hook alone cannot see it."""

    def check_possible(self) -> None:
        if self.needs and importlib.util.find_spec(self.needs) is None:
            pytest.skip(f"{self.needs} is not installed")


def read(name: str, path: str, cell: str, *, needs: str = "", is_opaque: str = "") -> Case:
    return Case(name=name, path=path, cell=cell, needs=needs, is_opaque=is_opaque)


PLAIN_READS = [
    read("open", "data/plain.txt", "open('data/plain.txt').read()"),
    read(
        "pathlib", "data/plain.txt", "from pathlib import Path; Path('data/plain.txt').read_bytes()"
    ),
    read(
        "os.open",
        "data/plain.txt",
        "f = os.open('data/plain.txt', os.O_RDONLY); os.read(f, 100); os.close(f)",
    ),
    read(
        "absolute path",
        "data/plain.txt",
        "open(os.path.abspath('data/plain.txt')).read()",
    ),
    read(
        "directory descriptor",
        "data/plain.txt",
        "d = os.open('data', os.O_PATH); f = os.open('plain.txt', os.O_RDONLY, dir_fd=d)\n"
        "os.close(f); os.close(d)",
    ),
    read(
        "thread",
        "data/plain.txt",
        "import threading\n"
        "t = threading.Thread(target=lambda: open('data/plain.txt').read())\n"
        "t.start(); t.join()",
    ),
    read("pandas csv", "data/table.csv", "import pandas as pd; pd.read_csv('data/table.csv')"),
    read("numpy load", "data/array.npy", "import numpy as np; np.load('data/array.npy')"),
    read(
        "numpy memmap",
        "data/array.raw",
        "import numpy as np; np.memmap('data/array.raw', mode='r').sum()",
    ),
    read("numpy fromfile", "data/array.raw", "import numpy as np; np.fromfile('data/array.raw')"),
    read("pillow", "data/image.png", "from PIL import Image; Image.open('data/image.png').load()"),
    read("torch load", "data/model.pt", "import torch; torch.load('data/model.pt')"),
    read(
        "torch load mapped",
        "data/model.pt",
        "import torch; torch.load('data/model.pt', mmap=True)['weights'].sum()",
    ),
    read("local import", "helper.py", "import helper"),
    read(
        "sqlite",
        "data/rows.sqlite",
        "import sqlite3; c = sqlite3.connect('data/rows.sqlite')\n"
        "c.execute('SELECT * FROM t').fetchall(); c.close()",
    ),
]

CPP_READS = [
    read(
        "pyarrow parquet",
        "data/table.parquet",
        "import pyarrow.parquet as pq; pq.read_table('data/table.parquet')",
        is_opaque="pyarrow",
    ),
    read(
        "pyarrow memory map",
        "data/table.arrow",
        "import pyarrow as pa\n"
        "with pa.memory_map('data/table.arrow') as f: pa.ipc.open_file(f).read_all()",
        is_opaque="pyarrow",
    ),
    read(
        "pandas parquet",
        "data/table.parquet",
        "import pandas as pd; pd.read_parquet('data/table.parquet')",
        is_opaque="pyarrow",
    ),
    read(
        "h5py",
        "data/array.h5",
        "import h5py\nwith h5py.File('data/array.h5') as f: f['array'][:]",
        is_opaque="h5py",
    ),
    read(
        "safetensors numpy",
        "data/model.safetensors",
        "from safetensors.numpy import load_file; load_file('data/model.safetensors')",
        needs="safetensors",
        is_opaque="safetensors",
    ),
    read(
        "safetensors torch",
        "data/model.safetensors",
        "from safetensors import safe_open\n"
        "with safe_open('data/model.safetensors', framework='pt') as f: f.get_tensor('weights')",
        needs="safetensors",
        is_opaque="safetensors",
    ),
    read(
        "polars",
        "data/table.parquet",
        "import polars; polars.read_parquet('data/table.parquet')",
        is_opaque="polars",
    ),
    read(
        "polars lazy",
        "data/table.csv",
        "import polars; polars.scan_csv('data/table.csv').select('a').collect()",
        is_opaque="polars",
    ),
    read(
        "duckdb parquet",
        "data/table.parquet",
        "import duckdb; duckdb.sql(\"SELECT sum(a) FROM 'data/table.parquet'\").fetchall()",
        is_opaque="duckdb",
    ),
    read(
        "duckdb database",
        "data/rows.duckdb",
        "import duckdb\n"
        "with duckdb.connect('data/rows.duckdb', read_only=True) as d:\n"
        "    d.execute('SELECT * FROM t').fetchall()",
        is_opaque="duckdb",
    ),
]

PROCESS_READS = [
    read(
        "subprocess",
        "data/plain.txt",
        "subprocess.run(['cat', 'data/plain.txt'], check=True)",
        is_opaque="process",
    ),
    read(
        "os.system",
        "data/plain.txt",
        "assert os.system('cat data/plain.txt') == 0",
        is_opaque="process",
    ),
    read("bash cell", "data/plain.txt", "%%bash\ncat data/plain.txt", is_opaque="process"),
    read("shell line", "data/plain.txt", "!cat data/plain.txt", is_opaque="process"),
    read(
        "posix_spawn",
        "data/plain.txt",
        "p = os.posix_spawn('/bin/cat', ['cat', 'data/plain.txt'], os.environ)\n"
        "assert os.waitpid(p, 0)[1] == 0",
        is_opaque="process",
    ),
    read(
        "python child",
        "data/plain.txt",
        "subprocess.run([sys.executable, '-c', 'open(\"data/plain.txt\").read()'], check=True)",
        is_opaque="process",
    ),
    read(
        "child elsewhere",
        "data/plain.txt",
        "subprocess.run(['cat', 'plain.txt'], cwd='data', check=True)",
        is_opaque="process",
    ),
    read(
        "multiprocessing fork",
        "data/plain.txt",
        "import multiprocessing, reader\n"
        "p = multiprocessing.get_context('fork').Process("
        "target=reader.read, args=('data/plain.txt',))\n"
        "p.start(); p.join(); assert p.exitcode == 0",
        is_opaque="process",
    ),
    read(
        "multiprocessing spawn",
        "data/plain.txt",
        "import multiprocessing, reader\n"
        "p = multiprocessing.get_context('spawn').Process("
        "target=reader.read, args=('data/plain.txt',))\n"
        "p.start(); p.join(); assert p.exitcode == 0",
        is_opaque="process",
    ),
    read(
        "daemon",
        "data/plain.txt",
        # The daemon has the pipe, which therefore ends with it.
        "p = subprocess.run([sys.executable, 'daemon.py', 'data/plain.txt'],"
        " check=True, stdout=subprocess.PIPE)\n"
        "assert p.stdout == b'plain text\\n\\n'",
        is_opaque="process",
    ),
    read(
        "script, its contents",
        "script.sh",
        "subprocess.run(['./script.sh'], check=True)",
        is_opaque="process",
    ),
    read(
        "script, what it reads",
        "data/plain.txt",
        "subprocess.run(['./script.sh'], check=True)",
        is_opaque="process",
    ),
]

LOW_LEVEL_READS = [
    read(
        "libc open",
        "data/plain.txt",
        "import ctypes; libc = ctypes.CDLL(None)\n"
        "f = libc.open(b'data/plain.txt', 0); assert f > 0; os.close(f)",
        is_opaque="ctypes",
    ),
    read(
        "raw openat",
        "data/plain.txt",
        "import ctypes; libc = ctypes.CDLL(None)\n"
        f"f = libc.syscall({OPENAT}, -100, b'data/plain.txt', 0); assert f > 0; os.close(f)",
        is_opaque="ctypes",
    ),
    read(
        "raw openat2",
        "data/plain.txt",
        "import ctypes, struct; libc = ctypes.CDLL(None)\n"
        "how = struct.pack('QQQ', 0, 0, 0)\n"
        f"f = libc.syscall({OPENAT2}, -100, b'data/plain.txt', how, len(how))\n"
        "assert f > 0; os.close(f)",
        is_opaque="ctypes",
    ),
]

STATIC_READS = [
    read(
        "static program",
        "data/plain.txt",
        "assert subprocess.run(['./static', 'data/plain.txt']).returncode == 11",
    ),
    read(
        "static program, its contents",
        "static",
        "assert subprocess.run(['./static', 'data/plain.txt']).returncode == 11",
    ),
    read(
        "system calls of 32-bit programs",
        "data/plain.txt",
        "assert subprocess.run(['./static32']).returncode == 3",
    ),
]


def case_name(case: Case) -> str:
    return case.name


def check_read(engine: Engine, project: Path, case: Case) -> None:
    """Run a case; its file must be among the inputs, with the digest of its contents."""
    case.check_possible()
    lineage = run(engine, case.cell)
    assert lineage.audit.is_complete, lineage.audit.gaps
    expected = digest_of((project / case.path).read_bytes())
    assert reads(lineage).get(f"./{case.path}") == (expected,), lineage.audit.inputs


@pytest.mark.parametrize(
    "case", PLAIN_READS + CPP_READS + PROCESS_READS + LOW_LEVEL_READS, ids=case_name
)
def test_read_is_an_input(engine: Engine, project: Path, case: Case) -> None:
    check_read(engine, project, case)


@pytest.mark.skipif(MACHINE != "x86_64", reason="the program is made of x86_64 instructions")
@pytest.mark.parametrize("case", STATIC_READS, ids=case_name)
def test_read_of_a_static_program_is_an_input(engine: Engine, project: Path, case: Case) -> None:
    if (
        "32" in case.name
        and subprocess.run(["./static32"], cwd=project, check=False).returncode < 0
    ):
        pytest.skip("this kernel does not run 32-bit system calls")
    check_read(engine, project, case)


RESTORED_READS = [
    case
    for case in PLAIN_READS + CPP_READS + PROCESS_READS + LOW_LEVEL_READS
    if case.name
    in {
        "open",
        "thread",
        "pandas csv",
        "sqlite",
        "pyarrow parquet",
        "h5py",
        "polars",
        "subprocess",
        "bash cell",
        "multiprocessing fork",
        "multiprocessing spawn",
        "daemon",
        "libc open",
    }
]


@pytest.mark.parametrize("case", RESTORED_READS, ids=case_name)
def test_read_after_a_restore_is_an_input(restored: Engine, project: Path, case: Case) -> None:
    check_read(restored, project, case)


def test_write_after_a_restore_is_an_effect(restored: Engine) -> None:
    lineage = run(restored, "open('out/restored', 'w').write('x'); os.mkdir('out/restored.d')")
    assert effects(lineage) == {"./out/restored": "written", "./out/restored.d": "folder"}


def test_child_of_a_child_has_a_name_of_its_own(engine: Engine) -> None:
    lineage = run(engine, "subprocess.run(['sh', '-c', 'cat data/plain.txt; true'], check=True)")
    readers = {e.process for e in lineage.audit.events if e.name == "./data/plain.txt"}
    assert len(readers) == 1
    (reader,) = readers
    assert reader.startswith("0.")
    assert reader.count(".") == 2


def test_two_reads_of_one_file_are_one_input(engine: Engine, project: Path) -> None:
    lineage = run(
        engine,
        "open('data/plain.txt').read(); subprocess.run(['cat', 'data/plain.txt'], check=True)",
    )
    names = [i.name for i in lineage.audit.inputs if i.kind == "file"]
    assert names == ["./data/plain.txt"]


def test_files_of_python_are_only_counted(engine: Engine) -> None:
    lineage = run(engine, "import wave")
    assert not lineage.audit.inputs
    assert lineage.audit.environment_reads > 0


def test_variable_is_an_input(engine: Engine) -> None:
    lineage = run(engine, "os.environ['COLOUR']")
    variables = {i.name: i.digests for i in lineage.audit.inputs if i.kind == "variable"}
    assert list(variables) == ["COLOUR"]
    assert len(variables["COLOUR"]) == 1


# ---------------------------------------------------------------- folders

LISTINGS = {
    "listdir": "os.listdir('listed')",
    "scandir": "list(os.scandir('listed'))",
    "glob": "import glob; glob.glob('listed/*')",
    "pathlib": "from pathlib import Path; list(Path('listed').iterdir())",
    "walk": "list(os.walk('listed'))",
    "ls": "subprocess.run(['ls', 'listed'], check=True)",
    "shell": "!echo listed/*",
}


@pytest.mark.parametrize("cell", LISTINGS.values(), ids=LISTINGS)
def test_listed_folder_is_an_input(engine: Engine, cell: str) -> None:
    (digest,) = lists(run(engine, cell))["./listed"]
    assert len(digest) == HEXADECIMAL_DIGITS
    assert lists(run(engine, LISTINGS["listdir"]))["./listed"] == (digest,)


# ---------------------------------------------------------------- writes

WRITES = [
    read("open", "out/open.txt", "with open('out/open.txt', 'w') as f: f.write('x')"),
    read("append", "out/appended", "with open('out/appended', 'a') as f: f.write('x')"),
    read("numpy", "out/array.npy", "import numpy as np; np.save('out/array.npy', np.ones(3))"),
    read(
        "pandas csv",
        "out/table.csv",
        "import pandas as pd; pd.DataFrame({'a': [1]}).to_csv('out/table.csv')",
    ),
    read(
        "pandas parquet",
        "out/pandas.parquet",
        "import pandas as pd; pd.DataFrame({'a': [1]}).to_parquet('out/pandas.parquet')",
    ),
    read(
        "h5py",
        "out/array.h5",
        "import h5py\nwith h5py.File('out/array.h5', 'w') as f: f['a'] = [1]",
    ),
    read(
        "pyarrow",
        "out/pyarrow.parquet",
        "import pyarrow as pa, pyarrow.parquet as pq\n"
        "pq.write_table(pa.table({'a': [1]}), 'out/pyarrow.parquet')",
    ),
    read(
        "polars",
        "out/polars.parquet",
        "import polars; polars.DataFrame({'a': [1]}).write_parquet('out/polars.parquet')",
    ),
    read("torch", "out/model.pt", "import torch; torch.save([1], 'out/model.pt')"),
    read(
        "duckdb table",
        "out/duckdb.parquet",
        "import duckdb; duckdb.sql(\"COPY (SELECT 1 AS a) TO 'out/duckdb.parquet'\")",
    ),
    read(
        "duckdb database",
        "out/rows.duckdb",
        "import duckdb\n"
        "with duckdb.connect('out/rows.duckdb') as d: d.execute('CREATE TABLE t (a INT)')",
    ),
    read(
        "sqlite",
        "out/rows.sqlite",
        "import sqlite3; c = sqlite3.connect('out/rows.sqlite')\n"
        "c.execute('CREATE TABLE t (a)'); c.commit(); c.close()",
    ),
    read("child", "out/child", "subprocess.run('echo x > out/child', shell=True, check=True)"),
    read(
        "mapped memory",
        "out/mapped",
        "import mmap\n"
        "with open('out/mapped', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[:3] = b'new'",
    ),
    read("truncate", "out/shortened", "os.truncate('out/shortened', 3)"),
    read("hard link", "out/linked", "os.link('data/plain.txt', 'out/linked')"),
    read("rename", "out/renamed", "os.rename('out/moved', 'out/renamed')"),
    read(
        "renameat2",
        "out/renamed2",
        "import ctypes\n"
        f"assert ctypes.CDLL(None).syscall({RENAMEAT2}, -100, b'out/swapped', -100,"
        " b'out/renamed2', 0) == 0",
    ),
    read("mv", "out/renamed3", "subprocess.run(['mv', 'out/carried', 'out/renamed3'], check=True)"),
    read(
        "write and rename",
        "out/atomic",
        "with open('out/atomic.part', 'w') as f: f.write('x')\n"
        "os.replace('out/atomic.part', 'out/atomic')",
    ),
]


@pytest.mark.parametrize("case", WRITES, ids=case_name)
def test_write_is_an_effect(engine: Engine, project: Path, case: Case) -> None:
    lineage = run(engine, case.cell)
    assert lineage.audit.is_complete, lineage.audit.gaps
    (effect,) = (e for e in lineage.audit.effects if e.path == f"./{case.path}")
    contents = (project / case.path).read_bytes()
    assert effect.kind == "written"
    assert effect.digest == digest_of(contents)
    assert effect.size_bytes == len(contents)


def test_old_name_of_a_renamed_file_is_deleted(engine: Engine, project: Path) -> None:
    (project / "out" / "before").write_text("x")
    lineage = run(engine, "os.rename('out/before', 'out/after')")
    assert effects(lineage) == {"./out/before": "deleted", "./out/after": "written"}


OTHER_EFFECTS = {
    "mkdir": ("os.mkdir('out/made')", "out/made", "folder"),
    "unlink": ("os.unlink('out/gone')", "out/gone", "deleted"),
    "rmdir": ("os.rmdir('out/emptied')", "out/emptied", "deleted"),
    "symlink": ("os.symlink('target', 'out/pointer')", "out/pointer", "written"),
    "still open": ("held = open('out/held', 'w'); held.write('x')", "out/held", "held"),
    "created and deleted": (
        "open('out/passing', 'w').close(); os.remove('out/passing')",
        "out/passing",
        "transient",
    ),
}


@pytest.mark.parametrize(("cell", "path", "kind"), OTHER_EFFECTS.values(), ids=OTHER_EFFECTS)
def test_change_is_an_effect(engine: Engine, cell: str, path: str, kind: str) -> None:
    lineage = run(engine, cell)
    assert effects(lineage) == {f"./{path}": kind}
    assert not reads(lineage)


def test_mapped_file_that_is_written_is_an_input_as_it_was(engine: Engine, project: Path) -> None:
    (project / "out" / "counted").write_bytes(b"\x01" * 100)
    lineage = run(
        engine,
        "import mmap\n"
        "with open('out/counted', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[0] += 1",
    )
    assert reads(lineage) == {"./out/counted": (digest_of(b"\x01" * 100),)}
    assert effects(lineage) == {"./out/counted": "written"}


def test_file_that_was_only_opened_for_writing_and_reading_is_no_effect(engine: Engine) -> None:
    lineage = run(engine, "with open('data/plain.txt', 'r+') as f: f.read()")
    assert "./data/plain.txt" in reads(lineage)
    assert not effects(lineage)


# ---------------------------------------------------------------- network


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Return a port of this machine that takes connections and datagrams."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        number: int = server.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", number))
            yield number


CONNECTIONS = {
    "kernel": "import socket; socket.create_connection(('127.0.0.1', {port})).close()",
    "child": "subprocess.run([sys.executable, '-c',"
    " \"import socket; socket.create_connection(('127.0.0.1', {port})).close()\"], check=True)",
    "datagram": "import socket\n"
    "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n"
    "    s.sendto(b'x', ('127.0.0.1', {port}))",
}


@pytest.mark.parametrize("cell", CONNECTIONS.values(), ids=CONNECTIONS)
def test_peer_is_an_input_and_a_hint(engine: Engine, port: int, cell: str) -> None:
    lineage = run(engine, cell.format(port=port))
    assert "network" in {i.kind for i in lineage.audit.inputs}
    assert "network" in hints(lineage)
    assert any(str(port) in event.name for event in lineage.audit.events)


# ---------------------------------------------------------------- what runs cannot repeat

ENTROPY = {
    "urandom": "os.urandom(16)",
    "uuid": "import uuid; uuid.uuid4()",
    "device": "with open('/dev/urandom', 'rb') as f: f.read(4)",
    "generator": "import numpy as np; np.random.default_rng()",
    "child": "subprocess.run(['head', '-c', '4', '/dev/urandom'], check=True, capture_output=True)",
    "libc": "import ctypes; ctypes.CDLL(None).getrandom(ctypes.create_string_buffer(48), 48, 0)",
}


@pytest.mark.parametrize("cell", ENTROPY.values(), ids=ENTROPY)
def test_entropy_is_a_hint_and_no_input(engine: Engine, cell: str) -> None:
    lineage = run(engine, cell)
    assert "entropy" in hints(lineage)
    assert {i.kind for i in lineage.audit.inputs} <= {"variable"}  # of numpy, if it loads now


def test_what_modules_draw_while_they_are_imported_is_no_hint(
    engine: Engine, project: Path
) -> None:
    for name in ("drawing", "drawing_too"):
        (project / f"{name}.py").write_text("import random\nNAME = random.random()\n")
    assert "random" not in hints(run(engine, "import drawing\nfrom math import pi\nx = 1"))
    drawn = "import random\ny = random.random()\nimport drawing_too\nz = 1"
    assert "random" in hints(run(engine, drawn))


def test_time_is_a_hint(engine: Engine) -> None:
    lineage = run(engine, "import time\nnow = time.time()")
    found = {(hint.kind, hint.line) for hint in lineage.audit.hints}
    assert ("time", 2) in found


def test_ordinary_cell_has_no_hints_gaps_or_inputs(project: Path) -> None:
    with Engine(cwd=project) as fresh:
        run(fresh, "pass")
        audit = run(fresh, "sum(range(10))").audit
    assert (audit.hints, audit.gaps, audit.inputs, audit.effects) == ((), (), (), ())


def test_requests_past_the_system_calls_make_a_cell_incomplete(engine: Engine) -> None:
    lineage = run(
        engine,
        "import ctypes\n"
        "ring = ctypes.CDLL(None).syscall"
        f"({IO_URING_SETUP}, 1, ctypes.create_string_buffer(120))\n"
        "if ring > 0: os.close(ring)",
    )
    assert not lineage.audit.is_complete
    assert "io_uring" in " ".join(lineage.audit.gaps)


# ---------------------------------------------------------------- the audit hook alone


@pytest.fixture(scope="module")
def hooked(project: Path) -> Iterator[Engine]:
    with Engine(cwd=project, env={"CHEX_AUDIT": "hook"}) as started:
        assert run(started, "import os, sys, subprocess").audit.mechanism == "audit hook"
        yield started


@pytest.fixture(scope="module")
def opaque(project: Path) -> Iterator[Engine]:
    """Return an engine of its own for the cells whose libraries leave a mark on later cells."""
    with Engine(cwd=project, env={"CHEX_AUDIT": "hook"}) as started:
        run(started, "import os, sys, subprocess")
        yield started


STANDARD_LIBRARY_READS = [
    case
    for case in PLAIN_READS
    if case.name
    in {
        "open",
        "pathlib",
        "os.open",
        "absolute path",
        "thread",
        "local import",
        "sqlite",
    }
]


@pytest.mark.parametrize("case", STANDARD_LIBRARY_READS, ids=case_name)
def test_hook_sees_what_python_reads(hooked: Engine, project: Path, case: Case) -> None:
    check_read(hooked, project, case)


def test_hook_sees_listings_writes_and_peers(hooked: Engine, port: int) -> None:
    assert list(lists(run(hooked, "os.listdir('listed')"))) == ["./listed"]
    lineage = run(hooked, "with open('out/hooked', 'w') as f: f.write('x')")
    assert effects(lineage) == {"./out/hooked": "written"}
    lineage = run(hooked, CONNECTIONS["kernel"].format(port=port))
    assert [i.kind for i in lineage.audit.inputs] == ["network"]


LIBRARY_READS = [
    case
    for case in PLAIN_READS
    # The hook is not told to which folder a descriptor belongs.
    if case not in STANDARD_LIBRARY_READS and case.name != "directory descriptor"
]


@pytest.mark.parametrize("case", LIBRARY_READS, ids=case_name)
def test_hook_sees_what_libraries_read_through_python(
    opaque: Engine, project: Path, case: Case
) -> None:
    lineage = run(opaque, case.cell)
    expected = digest_of((project / case.path).read_bytes())
    assert reads(lineage).get(f"./{case.path}") == (expected,), lineage.audit.inputs


@pytest.mark.parametrize(
    "case",
    [case for case in CPP_READS + PROCESS_READS + LOW_LEVEL_READS if case.is_opaque],
    ids=case_name,
)
def test_hook_alone_leaves_a_cell_incomplete(opaque: Engine, case: Case) -> None:
    case.check_possible()
    lineage = run(opaque, case.cell)
    assert lineage.audit.mechanism == "audit hook"
    assert not lineage.audit.is_complete
    assert case.is_opaque in " ".join(lineage.audit.gaps)


def test_without_audit_nothing_is_seen_and_no_cell_is_complete(project: Path) -> None:
    with Engine(cwd=project, env={"CHEX_AUDIT": "off"}) as engine:
        lineage = run(engine, "open('data/plain.txt').read()")
    assert lineage.audit.mechanism == "off"
    assert not lineage.audit.inputs
    assert not lineage.audit.is_complete
