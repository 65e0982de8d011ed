"""Lineage of a whole notebook: the same when it should be, another when it must be.

And what the audit makes of input that no notebook should have: files that hang, vanish, never end
or change while they are read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from chexpoint.engine import Engine
from chexpoint.model import CellLineage
from tests.support.audited import (
    CELL_TIMEOUT_S,
    differences,
    digest_of,
    effects,
    lists,
    reads,
    run,
    run_all,
)
from tests.support.fuse_server import CONTENTS, NAME, can_mount, serving

pytestmark = pytest.mark.slow

PARTS = 8
PAGE = 4096

# ---------------------------------------------------------------- the notebook

SCENARIO = {
    name: dedent(cell).strip()
    for name, cell in {
        "set up": """
            import json, os, sqlite3, subprocess, sys, tempfile, time
            from pathlib import Path
            Path("out").mkdir(exist_ok=True)
        """,
        "threads": """
            from concurrent.futures import ThreadPoolExecutor
            names = [f"data/part-{n}.txt" for n in range(8)]
            with ThreadPoolExecutor(4) as pool:
                texts = list(pool.map(lambda name: Path(name).read_text(), names))
        """,
        "processes": """
            import multiprocessing
            def length(name):
                with open(name) as file:
                    return len(file.read())
            with multiprocessing.get_context("fork").Pool(3) as pool:
                lengths = pool.map(length, names, chunksize=1)
        """,
        "temporary file": """
            with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as kept:
                kept.write(str(time.time()))
        """,
        "temporary file again": """
            text = Path(kept.name).read_text()
        """,
        "temporary folder": """
            os.remove(kept.name)
            with tempfile.TemporaryDirectory() as scratch:
                Path(scratch, "note").write_text("x")
                noted = Path(scratch, "note").read_text()
        """,
        "write time": """
            import pyarrow as pa, pyarrow.parquet as pq
            Path("out/now.json").write_text(json.dumps({"now": time.time()}))
            pq.write_table(pa.table({"now": [time.time()]}), "out/now.parquet")
        """,
        "read time": """
            now = json.loads(Path("out/now.json").read_text())["now"]
            assert pq.read_table("out/now.parquet").num_rows == 1
        """,
        "write hdf5": """
            import h5py
            with h5py.File("out/array.h5", "w") as file:
                file["array"] = [now] * 100
        """,
        "read hdf5": """
            with h5py.File("out/array.h5", "r") as file:
                array = file["array"][:]
        """,
        "create database": """
            Path("out/rows.sqlite").unlink(missing_ok=True)
            connection = sqlite3.connect("out/rows.sqlite")
            connection.execute("CREATE TABLE t (at REAL)")
            connection.commit()
            connection.close()
        """,
        "write database": """
            connection = sqlite3.connect("out/rows.sqlite")
            connection.execute("INSERT INTO t VALUES (?)", (time.time(),))
            connection.commit()
            connection.close()
        """,
        "read database": """
            connection = sqlite3.connect("out/rows.sqlite")
            assert len(connection.execute("SELECT * FROM t").fetchall()) == 1
            connection.close()
        """,
        "polars": """
            import polars
            polars.DataFrame({"a": [1, 2]}).write_parquet("out/polars.parquet")
            frame = polars.read_parquet("out/polars.parquet")
            table = polars.scan_csv("data/b.csv").collect()
        """,
        "pandas": """
            import pandas as pd
            frame = pd.read_csv("data/a.csv")
            stamped = pd.read_parquet("out/now.parquet")
        """,
        "children": """
            count = "print(len(open('data/part-1.txt').read()))"
            subprocess.run([sys.executable, "-c", count], check=True)
            subprocess.run(["cat", "data/part-2.txt", "out/now.json"], check=True)
        """,
        "bash": """
            %%bash
            sort data/b.csv > out/sorted.csv
            wc -l < out/sorted.csv
        """,
        "local module": """
            import utils
            answer = utils.answer()
        """,
        "listing": """
            entries = sorted(os.listdir("data"))
        """,
        "log": """
            with open("out/log.txt", "a") as log:
                log.write(f"{time.time()}\\n")
        """,
        "read sorted": """
            ordered = Path("out/sorted.csv").read_text()
        """,
    }.items()
}
NUMBER = {name: number for number, name in enumerate(SCENARIO, start=1)}


def make_project(folder: Path) -> Path:
    """Write the files that the notebook reads."""
    (folder / "data").mkdir(parents=True)
    for n in range(PARTS):
        (folder / "data" / f"part-{n}.txt").write_text(f"part {n}\n" * (n + 1))
    (folder / "data" / "a.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "data" / "b.csv").write_text("a,b\n7,8\n5,6\n")
    (folder / "utils.py").write_text("def answer():\n    return 42\n")
    return folder


def run_scenario(folder: Path, *, writes_bytecode: bool = True) -> tuple[CellLineage, ...]:
    """Run the notebook in a fresh engine."""
    env = {"PYTHONDONTWRITEBYTECODE": "" if writes_bytecode else "1"}
    with Engine(cwd=folder, env=env) as engine:
        return run_all(engine, list(SCENARIO.values()))


def nodes(lineages: Sequence[CellLineage]) -> list[str]:
    return [lineage.node for lineage in lineages]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("notebook") / "project")


@pytest.fixture(scope="module")
def first(project: Path) -> tuple[CellLineage, ...]:
    """Return the lineages of the first run, without bytecode and outputs of earlier ones."""
    assert not (project / "out").exists()
    return run_scenario(project)


def test_each_cell_is_complete_and_follows_the_one_before(first: Sequence[CellLineage]) -> None:
    assert [lineage.source for lineage in first] == list(SCENARIO.values())
    assert [lineage.number for lineage in first] == list(NUMBER.values())
    assert not [gap for lineage in first for gap in lineage.audit.gaps]
    assert nodes(first)[:-1] == [lineage.parent for lineage in first][1:]
    assert len(set(nodes(first))) == len(SCENARIO)


def test_inputs_are_what_the_notebook_reads(first: Sequence[CellLineage]) -> None:
    def seen(name: str) -> dict[str, tuple[str, ...]]:
        return reads(first[NUMBER[name] - 1])

    parts = {f"./data/part-{n}.txt" for n in range(PARTS)}
    for name in ("threads", "processes"):
        assert seen(name).keys() == parts
    assert list(seen("temporary file again").values()) == [(f"cell:{NUMBER['temporary file']}",)]
    written = f"cell:{NUMBER['write time']}"
    assert seen("read time") == {"./out/now.json": (written,), "./out/now.parquet": (written,)}
    assert seen("read hdf5") == {"./out/array.h5": (f"cell:{NUMBER['write hdf5']}",)}
    assert seen("write database") == {"./out/rows.sqlite": (f"cell:{NUMBER['create database']}",)}
    assert seen("read database") == {"./out/rows.sqlite": (f"cell:{NUMBER['write database']}",)}
    # Polars also looks for what an earlier process of the same user may have left behind.
    assert {name for name in seen("polars") if name.startswith(".")} == {"./data/b.csv"}
    assert seen("pandas").keys() == {"./data/a.csv", "./out/now.parquet"}
    assert seen("children").keys() == {
        "./data/part-1.txt",
        "./data/part-2.txt",
        "./out/now.json",
    }
    assert seen("bash").keys() == {"./data/b.csv"}
    assert seen("local module").keys() == {"./utils.py"}
    assert lists(first[NUMBER["listing"] - 1]).keys() == {"./data"}
    assert seen("read sorted") == {"./out/sorted.csv": (f"cell:{NUMBER['bash']}",)}
    for name in ("set up", "temporary file", "temporary folder", "write time", "write hdf5"):
        assert not seen(name)
    for name in ("create database", "listing", "log"):
        assert not seen(name)


def test_same_notebook_again_has_the_same_lineage(
    first: Sequence[CellLineage], project: Path, tmp_path: Path
) -> None:
    elsewhere = make_project(tmp_path / "some" / "where" / "else")
    for folder, writes_bytecode in (
        (project, True),
        (project, True),
        (project, False),
        (elsewhere, False),
        (elsewhere, True),
    ):
        again = run_scenario(folder, writes_bytecode=writes_bytecode)
        assert differences(first, again) == {}, (folder, writes_bytecode)
        assert nodes(again) == nodes(first)


CHANGES = {
    "data/a.csv": {"pandas"},
    "data/part-2.txt": {"threads", "processes", "children"},
    "utils.py": {"local module"},
    "data/another.txt": {"listing"},
}


@pytest.mark.parametrize(("path", "readers"), CHANGES.items(), ids=CHANGES)
def test_change_reaches_its_readers_and_all_cells_after_the_first(
    first: Sequence[CellLineage], tmp_path: Path, path: str, readers: set[str]
) -> None:
    folder = make_project(tmp_path / "changed")
    with (folder / path).open("a") as file:
        file.write("\n")
    changed = run_scenario(folder)
    touched = {int(label.split(":")[0]) for label in differences(first, changed)}
    assert touched == {NUMBER[name] for name in readers}, differences(first, changed)
    before = min(touched) - 1
    assert nodes(changed)[:before] == nodes(first)[:before]
    assert not set(nodes(changed)[before:]) & set(nodes(first)[before:])


def test_comments_and_white_space_keep_the_lineage(tmp_path: Path) -> None:
    variants = [
        ["x = 1", "open('note').read()"],
        ["x  =  1  # one", "# read it\nopen( 'note' ).read()"],
        ["x = 2", "open('note').read()"],
    ]
    (tmp_path / "note").write_text("x")
    found = []
    for cells in variants:
        with Engine(cwd=tmp_path) as engine:
            found.append(nodes(run_all(engine, cells)))
    assert found[0] == found[1]
    assert not set(found[0]) & set(found[2])


# ---------------------------------------------------------------- bad input


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("bad") / "project")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine(cwd=folder) as started:
        run(started, "import os")
        yield started


def test_missing_file_is_absent(engine: Engine) -> None:
    lineage = run(engine, "try: open('missing')\nexcept FileNotFoundError: pass")
    assert reads(lineage) == {"./missing": ("absent",)}


def test_file_looked_for_and_then_made_in_one_cell_is_no_input(engine: Engine) -> None:
    cell = """
        try: open('made')
        except FileNotFoundError: open('made', 'w').close()
        open('made').read()
    """
    lineage = run(engine, cell)
    assert not reads(lineage)
    assert effects(lineage) == {"./made": "written"}


def test_file_that_stays_open_counts_again_when_others_have_changed_it(
    engine: Engine, folder: Path
) -> None:
    (folder / "held").write_bytes(b"before")
    run(engine, "held = open('held')")
    assert reads(run(engine, "x = 1")) == {}
    (folder / "held").write_bytes(b"after")
    lineage = run(engine, "text = held.read()")
    assert reads(lineage) == {"./held": (digest_of(b"after"),)}
    assert reads(run(engine, "held.close()")) == {}


@pytest.mark.parametrize("way", ["os.link", "os.rename", "os.symlink"])
def test_file_read_by_the_new_name_that_the_cell_gave_it_is_an_input(
    engine: Engine, folder: Path, way: str
) -> None:
    contents = f"for {way}".encode()
    (folder / f"old-{way}").write_bytes(contents)
    lineage = run(engine, f"{way}('old-{way}', 'new-{way}'); open('new-{way}').read()")
    assert (digest_of(contents),) in reads(lineage).values(), lineage.audit.inputs


def test_file_read_and_deleted_in_one_cell_keeps_its_digest(engine: Engine, folder: Path) -> None:
    contents = os.urandom(2**20) * 64
    (folder / "vanishing").write_bytes(contents)
    cell = """
        with open('vanishing', 'rb') as f: f.read(10)
        os.unlink('vanishing')
    """
    lineage = run(engine, cell)
    assert reads(lineage) == {"./vanishing": (digest_of(contents),)}
    assert effects(lineage) == {"./vanishing": "deleted"}


def test_file_read_and_overwritten_in_one_cell_keeps_its_digest(
    engine: Engine, folder: Path
) -> None:
    contents = os.urandom(2**20) * 64
    (folder / "replaced").write_bytes(contents)
    cell = """
        with open('replaced', 'rb') as f: f.read(10)
        with open('replaced', 'wb') as f: f.write(b'new')
    """
    lineage = run(engine, cell)
    assert reads(lineage) == {"./replaced": (digest_of(contents),)}
    (effect,) = lineage.audit.effects
    assert (effect.path, effect.digest) == ("./replaced", digest_of(b"new"))


def test_folder_opened_as_a_file_is_survived(engine: Engine) -> None:
    cell = """
        try: open('data')
        except IsADirectoryError: pass
        open('data/part-0.txt').read()
    """
    assert reads(run(engine, cell))["./data/part-0.txt"] == (digest_of(b"part 0\n"),)


def test_link_to_itself_is_no_digest(engine: Engine, folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    cell = """
        try: open('loop')
        except OSError: pass
        open('data/part-0.txt').read()
    """
    seen = reads(run(engine, cell))
    assert seen["./data/part-0.txt"] == (digest_of(b"part 0\n"),)
    assert seen.get("./loop", ("absent",)) in {("absent",), ("unreadable",)}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission_is_unreadable(engine: Engine, folder: Path) -> None:
    (folder / "locked").touch(mode=0o000)
    lineage = run(engine, "try: open('locked')\nexcept PermissionError: pass")
    assert reads(lineage) == {"./locked": ("unreadable",)}


def test_link_is_an_input_as_what_it_points_to(engine: Engine, folder: Path) -> None:
    (folder / "latest").symlink_to("data/part-1.txt")
    seen = reads(run(engine, "open('latest').read()"))
    assert (digest_of(b"part 1\n" * 2),) in seen.values()


def test_pipe_is_named_and_not_read(engine: Engine, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    cell = """
        import threading
        def write():
            with open('pipe', 'w') as f: f.write('through')
        writer = threading.Thread(target=write)
        writer.start()
        with open('pipe') as f: assert f.read() == 'through'
        writer.join()
    """
    assert reads(run(engine, cell)) == {"./pipe": ("fifo",)}


def test_huge_file_is_known_by_its_size(engine: Engine, folder: Path) -> None:
    (folder / "huge").touch()
    os.truncate(folder / "huge", 100 * 2**30)
    lineage = run(engine, "with open('huge', 'rb') as f: assert f.read(16) == bytes(16)")
    (word,) = reads(lineage)["./huge"]
    assert word.startswith("size:")


def test_names_that_are_not_text_are_kept_apart(engine: Engine, folder: Path) -> None:
    names = [b"\xff.bin", b"\xfe.bin", b"line\nbreak", "snow \u2603".encode()]
    for name in names:
        Path(folder, os.fsdecode(name)).write_bytes(name)
    lineage = run(engine, f"for name in {names}: open(name).close()")
    seen = reads(lineage)
    assert len(seen) == len(names)
    assert sorted(seen.values()) == sorted((digest_of(name),) for name in names)


REWRITE = """
import itertools, os, sys

file = os.open(sys.argv[1], os.O_RDWR)
os.write(1, b"x")
for value in itertools.cycle((b"\\x01", b"\\x00")):
    for page in range(int(sys.argv[2])):
        os.pwrite(file, value, page * 4096)
"""


def rewritten_states(pages: int) -> set[str]:
    """Return the digests of every contents that the file which is rewritten ever has."""
    contents = bytearray(pages * PAGE)
    found = {digest_of(bytes(contents))}
    for value in (1, 0):
        for page in range(pages):
            contents[page * PAGE] = value
            found.add(digest_of(bytes(contents)))
    return found


@pytest.mark.parametrize("pages", [4, 64])
def test_file_that_changes_while_it_is_hashed_has_no_wrong_digest(
    engine: Engine, folder: Path, pages: int
) -> None:
    path = folder / f"rewritten-{pages}"
    path.write_bytes(bytes(pages * PAGE))
    command = [sys.executable, "-c", REWRITE, str(path), str(pages)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.read(1) == b"x"
        try:
            lineage = run(engine, f"for _ in range(200): open('{path.name}', 'rb').read()")
        finally:
            writer.kill()
    (digests,) = reads(lineage).values()
    assert set(digests) <= rewritten_states(pages) | {"volatile"}
    after = run(engine, f"open('{path.name}', 'rb').read()")
    assert reads(after) == {f"./{path.name}": (digest_of(path.read_bytes()),)}


# ---------------------------------------------------------------- robustness


def make_small_files(folder: Path, count: int) -> dict[str, tuple[str, ...]]:
    """Write small files; return the inputs that reading them gives."""
    shutil.rmtree(folder / "small", ignore_errors=True)
    (folder / "small").mkdir()
    for n in range(count):
        (folder / "small" / str(n)).write_text(f"number {n}")
    return {f"./small/{n}": (digest_of(f"number {n}".encode()),) for n in range(count)}


def test_opens_under_a_storm_of_signals_are_all_seen(engine: Engine, folder: Path) -> None:
    expected = make_small_files(folder, 100)
    cell = """
        import signal
        ticks = 0
        def tick(*_):
            global ticks
            ticks += 1
        before = signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        try:
            for n in range(10_000):
                with open(f'small/{n % 100}') as f: assert f.read() == f'number {n % 100}'
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert ticks > 10
    """
    assert reads(run(engine, cell)) == expected


def test_opens_of_many_threads_at_once_are_all_seen(engine: Engine, folder: Path) -> None:
    expected = make_small_files(folder, 400)
    cell = """
        import threading
        start = threading.Barrier(8)
        def read(first):
            start.wait()
            for n in range(first, 400, 8):
                with open(f'small/{n}') as f: assert f.read() == f'number {n}'
        threads = [threading.Thread(target=read, args=(first,)) for first in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """
    assert reads(run(engine, cell)) == expected


def test_cell_interrupted_while_it_opens_files_is_audited_and_so_is_the_next(
    engine: Engine, folder: Path
) -> None:
    expected = make_small_files(folder, 1)
    opening = threading.Event()

    def interrupt() -> None:
        opening.wait()
        engine.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = engine.run(
        "n = 0\n"
        "while True:\n"
        "    with open('small/0') as f: f.read()\n"
        "    n += 1\n"
        "    if n == 100: print('go', flush=True)",
        on_output=lambda _: opening.set(),
        timeout_s=CELL_TIMEOUT_S,
    )
    thread.join()
    assert result.error is not None
    assert result.error.ename == "KeyboardInterrupt"
    interrupted = engine.lineage()[-1]
    assert interrupted.status == "error"
    assert expected.items() <= reads(interrupted).items()
    assert reads(run(engine, "with open('small/0') as f: f.read()")) == expected


def test_restored_states_have_the_lineage_they_had(folder: Path) -> None:
    paths = {}
    with Engine(cwd=folder) as engine:
        for n in range(20):
            run(engine, f"x = {n}; open('data/part-{n % PARTS}.txt').read()")
            engine.checkpoint(f"n{n}")
            paths[n] = engine.lineage()
            engine.restore(f"n{n // 2}")
            assert nodes(engine.lineage()) == nodes(paths[n // 2])
            part = (n + 3) % PARTS
            lineage = run(engine, f"y = open('data/part-{part}.txt').read()")
            assert lineage.parent == paths[n // 2][-1].node
            contents = (folder / "data" / f"part-{part}.txt").read_bytes()
            assert reads(lineage) == {f"./data/part-{part}.txt": (digest_of(contents),)}
        for n, path in paths.items():
            engine.restore(f"n{n}")
            assert engine.lineage() == path


# ---------------------------------------------------------------- a file server that hangs

needs_fuse = pytest.mark.skipif(not can_mount(), reason="mounting FUSE is not allowed here")


@needs_fuse
def test_far_file_is_read_right(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    with Engine(cwd=tmp_path) as engine, serving(tmp_path / "far"):
        result = engine.run(
            f"import os; print(os.listdir('far'), len(open('far/{NAME}', 'rb').read()))"
        )
        lineage = engine.lineage()[-1]
    assert result.text == f"{[NAME]} {len(CONTENTS)}\n"
    (word,) = reads(lineage)[f"./far/{NAME}"]
    assert word == digest_of(CONTENTS) or word.startswith("size:")


@needs_fuse
def test_file_that_hangs_holds_up_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    make_project(tmp_path / "near")
    far = f"far/{NAME}"
    cell = f"""
        import os, threading, time
        def read_far():
            global got
            with open('{far}', 'rb') as f: got = f.read()
        stuck = threading.Thread(target=read_far, daemon=True)
        stuck.start()
        print('go', flush=True)
        while not os.path.exists('held'): time.sleep(0.01)
        texts = [open(f'near/data/part-{{n}}.txt').read() for n in range({PARTS})]
    """
    stuck = threading.Event()
    # The server ends first: until then the worker cannot.
    with Engine(cwd=tmp_path) as engine, serving(tmp_path / "far") as server:

        def tell() -> None:
            stuck.wait()
            server.wait_held()
            (tmp_path / "held").touch()

        server.hang()
        teller = threading.Thread(target=tell)
        teller.start()
        result = engine.run(dedent(cell), on_output=lambda _: stuck.set(), timeout_s=CELL_TIMEOUT_S)
        teller.join()
        assert result.error is None, "\n".join(result.error.traceback)
        hung = engine.lineage()[-1]
        next_cell = run(engine, "open('near/data/part-1.txt').read()")
        server.resume()
        back = run(
            engine, f"stuck.join(); assert len(got) == {len(CONTENTS)}; open('{far}', 'rb').read()"
        )
    seen = reads(hung)
    for n in range(PARTS):
        contents = (tmp_path / "near" / "data" / f"part-{n}.txt").read_bytes()
        assert seen[f"./near/data/part-{n}.txt"] == (digest_of(contents),)
    words = seen.get(f"./{far}", ())
    assert digest_of(CONTENTS) not in words
    assert words or not hung.audit.is_complete
    assert reads(next_cell).keys() == {"./near/data/part-1.txt"}
    (word,) = reads(back)[f"./{far}"]
    assert word == digest_of(CONTENTS) or word.startswith("size:")
