"""What a process tells about its own cells; each scenario in an interpreter of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chexpoint.lineage.digest import digest

PLAIN = """
def run(source, namespace={"__name__": "__main__"}):
    try:
        exec(compile(source, "<cell>", "exec"), namespace)
    except Exception:
        pass

namespace, transform = run.__defaults__[0], str
"""

IPYTHON = """
import io
from contextlib import redirect_stderr, redirect_stdout
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.history_manager.enabled = False

def run(source):
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        shell.run_cell(source)

namespace, transform = (lambda: shell.user_ns), shell.transform_cell
"""

MAIN = """
import json, os, sys
from chexpoint.lineage.watch import CellWatch
asked = json.loads(sys.argv[1])
normalise = lambda text: text.replace("/old", "/new")
watch = CellWatch(namespace, normalise=normalise, **asked["options"])
watch.start()
watch.start()
reports = []
for source, between in asked["cells"]:
    watch.begin()
    run(source)
    reports.append(watch.finish(transform(source)))
    run(between)
print(json.dumps(reports))
"""

VARIABLES = {"MINE": "secret", "AT": "/old/place", "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


def reports(
    *cells: str | tuple[str, str],
    cwd: Path | None = None,
    shell: str = PLAIN,
    variables: dict[str, str] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Run cells in a new interpreter; a second text of a cell runs after its report."""
    pairs = [(cell, "") if isinstance(cell, str) else cell for cell in cells]
    asked = json.dumps({"cells": pairs, "options": options})
    done = subprocess.run(
        [sys.executable, "-c", shell + MAIN, asked],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**VARIABLES, **(variables or {})},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(cell: str, **options: Any) -> dict[str, Any]:
    return reports(cell, **options)[0]


def lines(found: dict[str, Any], kind: str) -> list[int | None]:
    return [hint["line"] for hint in found["hints"] if hint["kind"] == kind]


def signature(path: Path) -> list[int]:
    info = path.stat()
    return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


# Environment variables


@pytest.mark.parametrize(
    "reading",
    [
        "os.environ['MINE']",
        "os.environ.get('MINE')",
        "os.getenv('MINE')",
        "'MINE' in os.environ",
        "os.environb[b'MINE']",
        "os.environ.setdefault('MINE', '')",
        "os.path.expandvars('$MINE')",
        "[os.environ.get(name) for name in ('MINE',)]",
        "dict(os.environ)\nos.environ['MINE']",
        "os.environ['MINE']\nos.environ['MINE'] = 'other'\nos.environ['MINE']",
        "[os.environ[name] for name in os.environ if name.startswith('MI')]",
        "list(os.environ)\nos.getenv('MINE')",
    ],
)
def test_a_variable_that_is_read_is_an_input(reading: str) -> None:
    found = report(f"import os\n{reading}")
    assert found["variables"] == {"MINE": digest("variable", "secret")}


def test_a_variable_that_is_not_set_is_an_input() -> None:
    cell = "import os\nos.getenv('NONE')\n'NEITHER' in os.environ\nos.environ['NOR']"
    assert report(cell)["variables"] == {"NONE": None, "NEITHER": None, "NOR": None}


@pytest.mark.parametrize(
    "copying",
    [
        "os.environ.copy()",
        "dict(os.environ)",
        "dict(os.environ, MORE='1')",
        "{**os.environ}",
        "{**os.environ, 'MORE': '1'}",
        "os.environ | {'MORE': '1'}",
        "{'MORE': '1'} | os.environ",
        "{}.update(os.environ)",
        "f(**os.environ)",
        "dict(os.environ.items())",
        "{k: v for k, v in os.environ.items()}",
        "list(os.environ.values())",
        "{k: os.environ[k] for k in os.environ}",
        "[os.environ.get(k) for k in list(os.environ)]",
        "{k: os.environ[k] for k in os.environ.keys() if k != 'LANG'}",
        "import copy; copy.deepcopy(os.environ)['MINE']",
        "repr(os.environ)",
        "os.environ == {}",
    ],
)
def test_a_copy_of_the_environment_reads_none_of_it(copying: str) -> None:
    found = report(f"import os\ndef f(**options): pass\nfor _ in range(2):\n    {copying}")
    assert found["variables"] == {}


@pytest.mark.parametrize(
    "cell",
    [
        "os.environ['MINE'] = 'new'\nos.environ['MINE']",
        "os.environ['NEW'] = 'new'\nos.getenv('NEW')",
        "os.environb[b'NEW'] = b'new'\nos.getenv('NEW')",
        "del os.environ['MINE']\nos.getenv('MINE')",
        "os.environ.pop('MINE', None) and 0\nos.getenv('MINE')",
        "os.environ |= {'NEW': 'new'}\n'NEW' in os.environ",
        "os.environ.update(NEW='set')\nos.getenv('NEW')",
    ],
)
def test_what_a_cell_makes_of_a_variable_is_not_from_outside(cell: str) -> None:
    change, read = cell.split("\n")
    name = "MINE" if "'MINE'" in read else "NEW"
    together, later = reports(f"import os\n{change}\n{read}", read)
    assert later["variables"] == {name: "set"}
    # To pop it is to read it.
    expected = digest("variable", "secret") if "pop" in change else "set"
    assert together["variables"] == {name: expected}


@pytest.mark.parametrize(
    "cell",
    [
        "os.environ['MINE']; os.environ['MINE'] = 'new'; os.environ['MINE']",
        "os.environ['MINE'] = 'secret'; os.environ['MINE']",
        "os.environ['MINE'] = 'new'; f(); os.environ['MINE'] = 'secret'; f()",
        "with patch.dict(os.environ, MINE='new'): f()\nf()",
        "with patch.dict(os.environ, clear=True): f()\nf()",
        "for value in ('new', 'secret'): os.environ['MINE'] = value; f()",
    ],
)
def test_a_value_that_may_be_from_outside_counts_as_such(cell: str) -> None:
    before = "import os\nfrom unittest.mock import patch\ndef f(): return os.getenv('MINE')"
    found = reports(before, cell)
    assert found[1]["variables"] == {"MINE": digest("variable", "secret")}


def test_a_variable_that_is_set_and_deleted_again_is_as_absent_as_before() -> None:
    cell = "import os\nos.environ['NEW'] = '1'\ndel os.environ['NEW']\nos.getenv('NEW')"
    assert report(cell)["variables"] == {"NEW": None}


def test_what_the_process_sets_before_the_first_cell_counts_as_it_was_given() -> None:
    started = "import os\nos.environ.update(BACKEND='inline', AT='/else')\ndel os.environ['MINE']\n"
    cell = "import os\n[os.getenv(name) for name in ('BACKEND', 'AT', 'MINE')]"
    assert report(cell, shell=started + PLAIN)["variables"] == {
        "AT": digest("variable", "/new/place"),
        "BACKEND": None,
        "MINE": digest("variable", "secret"),
    }


def test_a_restored_process_knows_what_it_was_given() -> None:
    found = reports(
        "import os\nos.environ['NEW'] = '1'",
        ("os.environ['AT'] = '/mine'", "if os.fork(): os.wait(); os._exit(0)"),
        "os.getenv('NEW'), os.getenv('AT'), os.getenv('MINE')",
    )
    assert found[2]["variables"] == {
        "AT": "set",
        "MINE": digest("variable", "secret"),
        "NEW": "set",
    }


@pytest.mark.slow
def test_magics_read_and_set_variables_too() -> None:
    found = reports(
        "%env NEW=1", "%env NEW", "%env MINE", "%set_env MINE=2", "%env MINE", shell=IPYTHON
    )
    assert [each["variables"].get("NEW") for each in found[:2]] == [None, "set"]
    assert found[2]["variables"] == {"MINE": digest("variable", "secret")}
    assert found[4]["variables"] == {"MINE": "set"}


def test_values_are_normalised_and_hashed() -> None:
    found = report("import os\nos.environ['AT']\nos.environ['MINE']")
    assert found["variables"]["AT"] == digest("variable", "/new/place")
    assert "secret" not in json.dumps(found)


def test_variables_of_a_login_or_a_terminal_are_no_inputs() -> None:
    names = ["TERM", "PWD", "_", "JPY_PARENT_PID", "JUPYTER_PATH", "SSH_TTY", "XDG_SESSION_ID"]
    cell = f"import os\n[os.environ.get(name) for name in {[*names, 'TERMINAL']}]"
    assert report(cell)["variables"] == {"TERMINAL": None}


def test_a_missing_variable_looks_the_same_to_the_user() -> None:
    cell = """
import os, traceback
try:
    os.environ["NONE"]
except KeyError as error:
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert files == ["<cell>", "<frozen os>"], files
    os.environ["FINE"] = str(error.args)
"""
    found = reports(cell, "import os\nassert os.environ['FINE'] == str(('NONE',))\nos.getenv('OK')")
    assert "OK" in found[1]["variables"]


def test_variables_reach_child_processes_as_ever() -> None:
    cell = """
import os, subprocess
os.environ["MORE"] = "1"
del os.environ["MINE"]
seen = subprocess.run(["env"], capture_output=True, text=True).stdout.split()
assert "MORE=1" in seen and not any(text.startswith("MINE=") for text in seen)
os.getenv("FINE")
"""
    assert report(cell)["variables"] == {"FINE": None}


def test_variables_read_by_threads_count() -> None:
    cell = """
import os, threading
thread = threading.Thread(target=os.getenv, args=("MINE",))
thread.start()
thread.join()
"""
    assert list(report(cell)["variables"]) == ["MINE"]


@pytest.mark.slow
def test_reads_of_the_shell_itself_do_not_count() -> None:
    failing = "import os\nos.path.join(os.environ['MINE'], 1)"
    found = reports(failing, "%%time\nos.getenv('AT')", "os.getenv('LANG')", shell=IPYTHON)
    assert [list(each["variables"]) for each in found] == [["MINE"], ["AT"], ["LANG"]]


# Folders


def test_folders_listed_by_imports_are_told_from_others(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "own_module.py").write_text("")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "data").mkdir()
    found = report(
        "import os, sys\nsys.path.insert(0, 'link')\nimport own_module\n"
        "os.listdir('real')\nos.listdir('data')\nwith os.scandir('data'): pass\n"
        "os.listdir()",
        cwd=tmp_path,
    )
    assert found["import_lists"][str(tmp_path / "real")] == 1
    assert found["lists"] == {
        str(tmp_path / "real"): 1,
        str(tmp_path / "data"): 2,
        str(tmp_path): 1,
    }


def test_searches_for_packages_are_imports(tmp_path: Path) -> None:
    cell = """
import importlib.metadata, pkgutil, sys
sys.path[:] = ["."]
list(importlib.metadata.distributions())
list(pkgutil.iter_modules(["."]))
"""
    # The modules are loaded first, or they would be looked for in the folder as well.
    found = reports("import importlib.metadata, pkgutil", cell, cwd=tmp_path)[1]
    assert found["import_lists"] == {str(tmp_path): 2}
    assert found["lists"] == {}


def test_a_folder_given_by_descriptor_is_known_by_name(tmp_path: Path) -> None:
    cell = "import os\nat = os.open('.', os.O_RDONLY)\nos.listdir(at)\nos.close(at)"
    assert report(cell, cwd=tmp_path)["lists"] == {str(tmp_path): 1}


def test_ignored_folders_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    cell = "import os\nos.listdir('a')\nos.listdir('.')"
    found = report(cell, cwd=tmp_path, ignored=[str(tmp_path / "a")])
    assert found["lists"] == {str(tmp_path): 1}


def test_what_happens_between_cells_is_part_of_the_next(tmp_path: Path) -> None:
    first, second = reports(("", "import os; os.listdir('.')"), "", cwd=tmp_path)
    assert (first["lists"], second["lists"]) == ({}, {str(tmp_path): 1})


# Hints


def test_hosts_are_named_with_the_line_that_looked_them_up() -> None:
    cell = """import socket
try:
    socket.getaddrinfo("chex.invalid", 80, flags=socket.AI_NUMERICHOST)
except OSError:
    socket.gethostbyname("localhost")
"""
    found = report(cell)
    assert found["hosts"] == ["chex.invalid", "localhost"]
    (hint,) = found["hints"]
    assert (hint["kind"], hint["line"]) == ("network", 3)


def test_entropy_is_seen_where_it_is_taken() -> None:
    cell = """import os, random, secrets, tempfile, uuid
uuid.uuid4()
secrets.token_hex()
random.SystemRandom().random()
tempfile.mktemp()
for _ in range(3): os.urandom(1)
"""
    found = report(cell)
    assert lines(found, "entropy") == [2, 3, 4, 6]


def test_entropy_still_comes_from_the_system_and_can_be_pickled() -> None:
    cell = """
import os, pickle
assert len(os.urandom(5)) == 5 and os.urandom(8) != os.urandom(8)
assert pickle.loads(pickle.dumps(os.urandom)) is os.urandom
os.getenv("FINE")
"""
    assert "FINE" in report(cell)["variables"]


def test_questions_to_the_user_are_hinted_at_once_for_each_line() -> None:
    cell = "ask()\nfor _ in range(2): ask()"
    asking = """
def ask():
    watch.asked_input()
namespace["ask"] = ask
"""
    first, second = reports(cell, "", shell=PLAIN + asking)
    assert lines(first, "input") == [1, 2]
    assert lines(second, "input") == []


@pytest.mark.slow
def test_generators_of_numpy_without_a_seed_are_seen() -> None:
    found = reports(
        "import numpy as np\nx = np.random.default_rng(1)\ny = np.random.default_rng()",
        "np.random.rand()",
        "np.random.seed(1)\nnp.random.rand()",
        "np.random.rand()",
        "x.normal()",
    )
    assert lines(found[0], "entropy") == [3]
    assert [lines(each, "random") for each in found] == [[], [1], [], [], []]


def test_random_numbers_are_hinted_at_until_there_is_a_seed() -> None:
    found = reports(
        "import random",
        "x = 1\nrandom.random()",
        "random.seed(1)",
        "random.random()",
        "random.seed()",
        "random.random()",
    )
    assert [lines(each, "random") for each in found] == [[], [2], [], [], [], [1]]
    assert lines(found[4], "entropy") == [1]


@pytest.mark.slow
def test_hints_have_the_lines_of_notebook_cells() -> None:
    found = reports(
        "import uuid, time\n\ndef name():\n    return uuid.uuid4()",
        "x = 1\n\nname()",
        "%%time\nx = 1\nname()",
        "%%time\nname()",
        "x = 1\n%time y = name()",
        "import asyncio\nawait asyncio.sleep(0)\nname()",
        "x = [name() for _ in range(3)]\ntime.time()",
        "%timeit -n 1 -r 1 name()",
        "from IPython.display import display, HTML\nx = display(HTML(''), display_id=True)",
        shell=IPYTHON,
    )
    assert [lines(each, "entropy") for each in found] == [[], [3], [3], [2], [2], [3], [1], [1], []]
    assert lines(found[6], "time") == [2]


# Files, where nothing else sees them


def opened(cell: str, cwd: Path, **options: Any) -> list[list[Any]]:
    found: list[list[Any]] = report(cell, cwd=cwd, fallback=True, **options)["opened"]
    return [entry for entry in found if entry[1].startswith(str(cwd))]


def test_without_need_files_are_not_noted() -> None:
    assert report("open('/dev/null')").keys() == {
        "import_lists",
        "lists",
        "variables",
        "hosts",
        "looks",
        "hints",
    }


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        ("open('f')", "read"),
        ("open('f', 'w')", "write"),
        ("open('f', 'w+')", "write"),
        ("open('f', 'a')", "append"),
        ("open('f', 'r+')", "rdwr"),
        ("open(b'f', 'rb')", "read"),
        ("pathlib.Path('f').read_text()", "read"),
        ("os.open('f', os.O_RDONLY)", "read"),
        ("os.truncate('f', 0)", "truncate"),
        ("os.remove('f')", "delete"),
        ("sqlite3.connect('f')", "rdwr"),
        ("sqlite3.connect('file:f?mode=ro', uri=True)", "rdwr"),
        ("os.system.__class__ and open(os.path.join(os.getcwd(), 'f'))", "read"),
    ],
)
def test_operations_are_noted_with_the_file_as_it_was(
    tmp_path: Path, call: str, operation: str
) -> None:
    (tmp_path / "f").write_text("some text")
    before = signature(tmp_path / "f")
    noted = opened(f"import os, pathlib, sqlite3\n{call}", tmp_path)
    assert noted == [[operation, str(tmp_path / "f"), before]]


def test_operations_on_names_are_noted(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("some text")
    (tmp_path / "folder").mkdir()
    cell = """
import os, socket
try: open("none")
except OSError: pass
os.mkdir("new")
os.listdir("folder")
os.link("f", "new/hard")
os.symlink("../f", "new/soft")
os.rename("f", "new/f")
os.rmdir("folder")
at = os.open("new", os.O_RDONLY)
os.remove("soft", dir_fd=at)
try: socket.socket(socket.AF_UNIX).connect(os.path.abspath("peer"))
except OSError: pass
"""
    folder = signature(tmp_path / "folder")
    noted = opened(cell, tmp_path)
    file = signature(tmp_path / "new" / "f")[:4]
    shapes = [
        [entry[0], *(str(Path(p).relative_to(tmp_path)) for p in entry[1::2])] for entry in noted
    ]
    assert shapes == [
        ["absent", "none"],
        ["folder", "new"],
        ["list", "folder"],
        ["link", "f", "new/hard"],
        ["link", "new/../f", "new/soft"],
        ["rename", "f", "new/f"],
        ["delete", "folder"],
        ["delete", "new/soft"],
        ["connect", "peer"],
    ]
    assert noted[0][2] is None
    assert noted[1][2] is None
    assert noted[2][2] == noted[6][2] == folder
    assert noted[3][2][:4] == noted[4][2][:4] == noted[5][2][:4] == file
    assert noted[5][4] is None
    assert noted[7][2][1] != file[1]  # the link, not what it leads to


def test_peers_are_noted() -> None:
    cell = "import socket\nsocket.socket(type=socket.SOCK_DGRAM).connect(('127.0.0.1', 9))"
    assert ["connect", "127.0.0.1:9", None] in report(cell, fallback=True)["opened"]


def test_order_is_kept_and_repeats_are_dropped(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("")
    noted = opened("for name in 'aabba': open(name)", tmp_path)
    assert [Path(path).name for _, path, _ in noted] == ["a", "b", "a"]


def test_imports_list_folders_apart(tmp_path: Path) -> None:
    (tmp_path / "own_module.py").write_text("x = 1")
    cell = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, ''); import own_module"
    noted = opened(cell, tmp_path)
    assert [op for op, path, _ in noted if path == str(tmp_path / "own_module.py")] == ["read"]
    assert not any(op == "list" for op, _, _ in noted)


def test_a_folder_can_be_removed_without_inventing_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").write_text("")
    noted = opened("import shutil\nshutil.rmtree('a')", tmp_path)
    deleted = [path for op, path, _ in noted if op == "delete"]
    assert deleted == [str(tmp_path / path) for path in ("a/b/f", "a/b", "a")]
    assert not any(op == "absent" for op, _, _ in noted)


def test_ignored_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    assert opened("open('f')", tmp_path, ignored=[str(tmp_path)]) == []


def test_threads_are_noted(tmp_path: Path) -> None:
    for name in "abcdefgh":
        (tmp_path / name).write_text("")
    cell = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(open, "abcdefgh"))
"""
    noted = opened(cell, tmp_path)
    assert {Path(path).name for op, path, _ in noted if op == "read"} == set("abcdefgh")


@pytest.mark.slow
def test_there_is_a_bound_and_it_is_told(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("")
    cell = "for _ in range(50_001):\n    for name in 'ab': open(name).close()"
    found, after = reports(cell, "open('a')", cwd=tmp_path, fallback=True)
    assert len(found["opened"]) == 100_000
    assert found["opaque"] == ["more than 100,000 files were used: the rest is not known"]
    assert len(after["opened"]) == 1
    assert after["opaque"] == []


# What cannot be seen

SPAWN = """
import os, sys
from multiprocessing.util import spawnv_passfds
spawnv_passfds(sys.executable.encode(), [b"python", b"-c", b""], [])
os.wait()
"""


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("import subprocess\nsubprocess.run(['true'])", "true"),
        ("import subprocess\nsubprocess.run('true', shell=True)", "sh"),
        ("import os\nos.system('true')", "sh"),
        ("import os\nos.posix_spawnp('true', ['true'], {})\nos.wait()", "true"),
        ("import os\nif not os.fork(): os._exit(0)\nos.wait()", "a copy of this process"),
        (SPAWN, "python"),
    ],
)
def test_children_make_a_cell_opaque(cell: str, name: str) -> None:
    first, second = reports(cell, "", fallback=True)
    assert first["opaque"] == [f"a child process was started ({name}): what it read is not known"]
    assert second["opaque"] == []


def test_a_program_is_found_as_the_system_finds_it(tmp_path: Path) -> None:
    program = tmp_path / "own-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = f"/nowhere:{tmp_path}:{VARIABLES['PATH']}"
    cell = "import subprocess\nsubprocess.run(['own-program'])\nsubprocess.run(['./own-program'])"
    noted = opened(cell, tmp_path, variables={"PATH": path})
    assert [(op, Path(at).name) for op, at, _ in noted if op == "exec"] == [
        ("exec", program.name)
    ] * 2
    assert noted[0][2] == signature(program)


def test_libraries_that_read_files_themselves_make_every_cell_opaque(tmp_path: Path) -> None:
    (tmp_path / "polars.py").write_text("")
    found = reports(
        "import sys; sys.path.insert(0, '')", "import polars", "", cwd=tmp_path, fallback=True
    )
    sentence = "polars is loaded and may read files that the audit hook does not see"
    assert [each["opaque"] for each in found] == [[], [sentence], [sentence]]


def test_foreign_libraries_make_a_cell_opaque(tmp_path: Path) -> None:
    cell = f"import ctypes\nctypes.CDLL('libc.so.6')\nctypes.CDLL({str(tmp_path / 'own.so')!r})"
    said = "C functions may be called through ctypes: what they read is not known"
    assert report(cell, fallback=True)["opaque"] == [said]


def test_c_functions_loaded_by_a_cell_may_be_called_in_any_later_one() -> None:
    found = reports("import ctypes\nlibc = ctypes.CDLL(None)", "libc.getpid()", fallback=True)
    assert [len(each["opaque"]) for each in found] == [1, 1]


def test_forks_of_this_package_are_not_the_user_s() -> None:
    cell = """
import os
own = {"__name__": "chexpoint.engine.freeze", "os": os}
exec("if not os.fork(): os._exit(0)\\nos.wait()\\nopen('/dev/null')\\nos.listdir('/')", own)
"""
    found = report(cell, fallback=True)
    assert found["opaque"] == []
    assert not any(path in {"/dev/null", "/"} for _, path, _ in found["opened"])
    assert (found["lists"], found["import_lists"]["/"]) == ({}, 1)


# Robustness


def test_nothing_is_raised_into_the_user_s_code() -> None:
    cell = """
import os, sys
class Odd:
    def __fspath__(self): raise ZeroDivisionError
for event in ("open", "os.listdir", "os.rename", "os.remove", "sqlite3.connect", "socket.connect",
              "subprocess.Popen", "socket.getaddrinfo", "os.truncate", "ctypes.dlopen", "os.mkdir"):
    for args in ((), (1,), (Odd(),), (None, None, None), (Odd(), Odd(), 0, 0), (10**6, [], {})):
        sys.audit(event, *args)
os.getenv("FINE")
"""
    assert "FINE" in report(cell, fallback=True)["variables"]


def test_a_forked_child_goes_on_by_itself(tmp_path: Path) -> None:
    cell = """
import os
if not os.fork():
    status = 1
    try:
        os.listdir("."), os.getenv("CHILD"), os.urandom(1), open("made", "w")
        status = 0
    finally:
        os._exit(status)
assert os.wait()[1] == 0
os.getenv("FINE")
"""
    found = report(cell, cwd=tmp_path, fallback=True)
    assert list(found["variables"]) == ["FINE"]
    assert (found["lists"], found["hints"]) == ({}, [])
    assert (tmp_path / "made").exists()


def test_a_child_that_goes_on_in_place_of_its_parent_has_what_was_seen_so_far(
    tmp_path: Path,
) -> None:
    first, second = reports(
        ("import os, random; random.seed(1)", "if os.fork(): os.wait(); os._exit(0)"),
        "random.random(); os.listdir('.')",
        cwd=tmp_path,
    )
    assert (first["hints"], second["hints"]) == ([], [])
    assert second["lists"] == {str(tmp_path): 1}
