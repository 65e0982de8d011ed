"""Auditing where it is turned off, taken already, or costs something; and when its owner dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from textwrap import dedent

import pytest

from chexpoint.engine import Engine
from chexpoint.errors import EngineClosed
from tests.support.audited import digest_of, effects, reads, run
from tests.support.fuse_server import can_mount
from tests.support.processes import Process, marked, wait_exit, wait_none_marked

pytestmark = pytest.mark.slow

TIMEOUT_S = 60
NOBODY = 65534


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_bytes(b"contents")
    return tmp_path


def is_audited(engine: Engine) -> bool:
    return engine.status().audit == "system calls"


# ---------------------------------------------------------------- as it is asked for


def test_off_means_off_and_every_cell_says_so(project: Path) -> None:
    with Engine(cwd=project, env={"CHEX_AUDIT": "off"}) as engine:
        status = engine.status()
        assert (status.audit, status.audit_note) == ("off", "CHEX_AUDIT=off")
        for source in ("open('in.txt').read()", "1 + 1"):
            lineage = run(engine, source)
            assert lineage.audit.mechanism == "off"
            assert lineage.audit.gaps == ("auditing is off (CHEX_AUDIT=off)",)
            assert reads(lineage) == {}
        engine.checkpoint("here")
        run(engine, "x = 1")
        engine.restore("here")
        assert [cell.source for cell in engine.lineage()] == ["open('in.txt').read()", "1 + 1"]


def test_the_hook_sees_what_python_does_and_says_what_it_cannot_see(project: Path) -> None:
    with Engine(cwd=project, env={"CHEX_AUDIT": "hook"}) as engine:
        status = engine.status()
        assert (status.audit, status.audit_note) == ("audit hook", "CHEX_AUDIT=hook")
        first = run(engine, "text = open('in.txt').read()")
        assert reads(first) == {"./in.txt": (digest_of(b"contents"),)}
        assert first.audit.is_complete
        second = run(engine, "with open('out.txt', 'w') as file: _ = file.write(text)")
        assert effects(second) == {"./out.txt": "written"}
        third = run(engine, "again = open('out.txt').read()")
        assert reads(third) == {"./out.txt": ("cell:2",)}
        fourth = run(engine, "import subprocess; _ = subprocess.run(['cat', 'in.txt'])")
        assert not fourth.audit.is_complete
        assert "cat" in fourth.audit.gaps[0]


def test_under_the_hook_a_file_that_the_cell_creates_is_no_input(project: Path) -> None:
    source = """
        import os, sqlite3
        try:
            open("new.txt")
        except FileNotFoundError:
            with open("new.txt", "w") as file:
                _ = file.write(str(os.getpid()))
        with sqlite3.connect("new.db") as connection:
            _ = connection.execute("CREATE TABLE t (a)")
        connection.close()
    """
    with Engine(cwd=project, env={"CHEX_AUDIT": "hook"}) as engine:
        lineage = run(engine, source)
    assert reads(lineage) == {}
    assert {"./new.txt": "written", "./new.db": "written"}.items() <= effects(lineage).items()


def test_an_engine_within_a_cell_falls_back_and_says_why(project: Path) -> None:
    source = """
        from chexpoint.engine import Engine
        with Engine() as inner:
            status = inner.status()
            result = inner.run("open('in.txt').read()")
            inner.checkpoint("here")
            _ = inner.restore("here")
            cells = inner.lineage()
        print(status.audit, status.audit_note, sep="\\n")
        print(result.status, [i.name for i in cells[0].audit.inputs])
    """
    with Engine(cwd=project) as engine:
        if not is_audited(engine):
            pytest.skip("system calls cannot be audited here")
        result = engine.run(dedent(source).strip(), timeout_s=TIMEOUT_S)
        assert result.error is None
        audit, note, outcome = result.text.splitlines()
        assert audit == "audit hook"
        assert "as in a kernel within a kernel" in note
        assert outcome == "ok ['./in.txt']"
        # What the inner engine reads is read by a child of the outer one's cell.
        assert reads(engine.lineage()[-1])["./in.txt"] == (digest_of(b"contents"),)


# ---------------------------------------------------------------- without the right to do so

WITHOUT_RIGHT = """
import ctypes, json, struct

CAP_SYS_ADMIN = 21
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(24, CAP_SYS_ADMIN, 0, 0, 0) == 0  # from the bounding set
header = struct.pack("<Ii", 0x20080522, 0)
data = ctypes.create_string_buffer(24)
assert libc.capget(header, data) == 0
words = list(struct.unpack("<6I", data.raw))
for at in range(3):
    words[at] &= ~(1 << CAP_SYS_ADMIN)
assert libc.capset(header, struct.pack("<6I", *words)) == 0

from chexpoint.engine import Channel, Engine

with Engine() as engine:
    status = engine.status()
    engine.run("import subprocess; subprocess.run(['./plain'], check=True)")
    engine.lineage()
    seen = []
    receive = engine._receive

    def keep(deadline):
        packet = receive(deadline)
        if packet.channel == Channel.IOPUB:
            message = engine._codec.parse(packet.frames)
            if message.type == "stream":
                seen.append((message.content["text"], message.parent.get("msg_type")))
        return packet

    engine._receive = keep
    result = engine.run("subprocess.run(['./special'], check=True)")
    cells = engine.lineage()
    engine.status()  # what was to be shown came before this answer
    print(json.dumps([status.audit, status.audit_note, result.status, cells[-1].audit.gaps, seen]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs rights to give up")
def test_without_the_right_it_still_works_and_says_what_programs_cannot_do(project: Path) -> None:
    for name in ("plain", "special"):
        (project / name).write_bytes(Path("/bin/true").read_bytes())
        (project / name).chmod(0o755)
    os.chown(project / "special", NOBODY, NOBODY)
    (project / "special").chmod(0o4755)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RIGHT],
        cwd=project,
        check=True,
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
    )
    audit, note, outcome, gaps, seen = json.loads(done.stdout)
    if audit != "system calls":
        pytest.skip("system calls cannot be audited here")
    assert "sudo" in note
    assert "CHEX_AUDIT=hook" in note
    assert outcome == "ok"
    assert gaps == []
    ((text, parent),) = seen
    assert text.startswith("CHEX: special ran without the extra rights it needs")
    assert "CHEX_AUDIT=hook" in text
    assert parent == "execute_request"


# ---------------------------------------------------------------- when others end

MARK = "CHEX_TEST_MARK"

DAEMON = """
import os
if os.fork():
    os._exit(0)
os.setsid()
os.write(1, b"r")
with open("orders") as orders:
    for line in orders:
        with open("answers", "w") as answers:
            answers.write(open("in.txt").read())
"""

START_DAEMON = """
import subprocess, sys
starter = subprocess.Popen([sys.executable, "daemon.py"], stdout=subprocess.PIPE)
assert starter.stdout.read(1) == b"r"
_ = starter.wait()
"""


def the_one(processes: list[Process], part: str) -> int:
    """Return the process whose command has a part in it."""
    (found,) = [process.pid for process in processes if part in process.command]
    return found


def test_a_server_that_outlives_the_engine_can_still_open_files(project: Path) -> None:
    mark = uuid.uuid4().hex
    (project / "daemon.py").write_text(DAEMON)
    os.mkfifo(project / "orders")
    os.mkfifo(project / "answers")
    # Opened for both, because the server opens its end only later.
    orders = os.open(project / "orders", os.O_RDWR)
    with Engine(cwd=project, env={MARK: mark}) as engine:
        audited = is_audited(engine)
        run(engine, START_DAEMON)
    left = marked(MARK, mark)
    server = the_one(left, "daemon.py")
    try:
        assert len(left) == 1 + audited
        with os.fdopen(orders, "wb") as pipe:
            pipe.write(b"go\n")
            pipe.flush()
            assert (project / "answers").read_bytes() == b"contents"
            if audited:
                assert not wait_exit(the_one(left, "caretaker.py"), timeout_s=0)
    finally:
        os.kill(server, signal.SIGKILL)
    assert wait_none_marked(MARK, mark, timeout_s=TIMEOUT_S) == []


def test_if_nothing_outlives_the_engine_nobody_stays(project: Path) -> None:
    mark = uuid.uuid4().hex
    with Engine(cwd=project, env={MARK: mark}) as engine:
        run(engine, "import subprocess; sleeper = subprocess.Popen(['sleep', '1000'])")
        assert the_one(marked(MARK, mark), "sleep")
    assert wait_none_marked(MARK, mark, timeout_s=TIMEOUT_S) == []


@pytest.mark.parametrize(
    "loop",
    [
        "while True: open('in.txt').close()",
        "while True: subprocess.run(['/bin/cat', 'in.txt'], stdout=subprocess.DEVNULL)",
        "while True: pass",
    ],
)
def test_an_engine_that_is_killed_leaves_nothing_that_hangs(project: Path, loop: str) -> None:
    mark = uuid.uuid4().hex
    engine = Engine(cwd=project, env={MARK: mark})
    engine.run("import subprocess")
    engine.checkpoint("here")
    started = threading.Event()

    def run_until_killed() -> None:
        with pytest.raises(EngineClosed):
            engine.run(f"print('started', flush=True)\n{loop}", on_output=lambda _: started.set())

    runner = threading.Thread(target=run_until_killed)
    runner.start()
    assert started.wait(TIMEOUT_S)
    os.kill(engine.pid, signal.SIGKILL)
    runner.join()
    engine.kill()
    assert wait_none_marked(MARK, mark, timeout_s=TIMEOUT_S) == []


# ---------------------------------------------------------------- a cell's own file server

SERVER = Path(__file__).parent.parent / "support" / "fuse_server.py"


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount")
@pytest.mark.parametrize(
    "use",
    [
        "import os; assert os.listdir('far') == ['far.bin']",
        "subprocess.run(['far/far.bin'], check=False)",
        "open('far/__pycache__/m.pyc')",
        "os.rename('far/far.bin', 'far/other')",
        "os.link('far/far.bin', 'far/other')",
        "os.remove('far/far.bin')",
        "open('far/new', 'w')",
        "os.chdir('far'); open('far.bin').close(); os.chdir('..')",
    ],
)
def test_nothing_hangs_on_a_file_server_that_itself_opens_files(project: Path, use: str) -> None:
    engine = Engine(cwd=project)
    try:
        start_server(engine, project)
        engine.run(f"import os\n{use}", timeout_s=20)  # whether or not the server can do it
        assert engine.run("print('alive')", timeout_s=20).text == "alive\n"
        assert engine.lineage(last=1)[0].source == "print('alive')"
        run(engine, "server.kill(); _ = server.wait()")
    finally:
        subprocess.run(["umount", "-l", str(project / "far")], check=False, capture_output=True)
        engine.close()


def start_server(engine: Engine, project: Path) -> None:
    """Have a cell start a file server that opens a file for each request."""
    (project / "far").mkdir()
    code = SERVER.read_text()
    marker = "        _, opcode, unique, node, *_ = _REQUEST.unpack_from(request)\n"
    assert marker in code
    (project / "server.py").write_text(code.replace(marker, f"        open('in.txt')\n{marker}"))
    source = """
        import subprocess, sys
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        server = subprocess.Popen([sys.executable, "-Wignore", "server.py", "far"], **pipes)
        _ = server.stdout.read(1)
    """
    assert engine.run(dedent(source)).status == "ok"


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount")
def test_a_file_server_started_by_the_cell_may_itself_open_files(project: Path) -> None:
    engine = Engine(cwd=project)
    try:
        start_server(engine, project)
        lineage = run(engine, "size = len(open('far/far.bin', 'rb').read())")
        assert engine.run("print(size)").text == "3072\n"
        assert len(reads(lineage)["./far/far.bin"]) == 1
        run(engine, "server.kill(); _ = server.wait()")
    finally:
        subprocess.run(["umount", "-l", str(project / "far")], check=False, capture_output=True)
        engine.close()


def test_many_programs_in_one_cell_do_not_use_up_descriptors(project: Path) -> None:
    script = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        from chexpoint.engine import Engine
        with Engine() as engine:
            engine.run("import subprocess\\n"
                       "for n in range(300): subprocess.run(['/bin/cat', 'in.txt'])")
            (cell,) = engine.lineage()
        print(cell.audit.gaps, [i.name for i in cell.audit.inputs if i.kind == "file"])
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(script)],
        cwd=project,
        check=True,
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
    )
    assert done.stdout.decode().strip() == "() ['./in.txt']"
