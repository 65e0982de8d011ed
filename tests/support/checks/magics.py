"""Magics and shell commands."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel


@feature()
def check_bash_magic(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        %%bash
        cd /
        echo "from $0 in $(pwd)"
        echo problem >&2
        """
    ).ok()
    assert outcome.stdout == "from bash in /\n"
    assert outcome.stderr == "problem\n"
    kernel.run("%%bash --out kept\necho kept")
    assert kernel.run("print(repr(kept))") == "'kept\\n'\n"
    failed = kernel.execute("%%bash\nexit 3")
    assert failed.content["ename"] == "CalledProcessError"
    assert kernel.run("%%script python3\nprint(6 * 7)") == "42\n"


@feature()
def check_shell_escapes(kernel: Kernel) -> None:
    assert kernel.execute("!echo one; echo two").ok().stdout.split() == ["one", "two"]
    assert kernel.execute("value = 'py'\n!echo $value {value.upper()}").ok().stdout.split() == [
        "py",
        "PY",
    ]
    assert kernel.run("lines = !printf 'a\\nb\\n'\nprint(lines, lines.n)") == "['a', 'b'] a\nb\n"
    kernel.execute("!exit 3").ok()
    assert kernel.run("print(_exit_code)") == "3\n"
    assert kernel.execute("%sx echo sx").ok().result == {"text/plain": "['sx']"}


@feature()
def check_shell_command_streams(kernel: Kernel) -> None:
    """The output of a command is shown while it runs."""
    pipe = kernel.cwd / "pipe"
    os.mkfifo(pipe)
    request = kernel.submit("!echo early; cat pipe; echo late")
    kernel.wait_stdout(request, "early")
    pipe.write_text("between\n")
    assert kernel.finish(request).ok().stdout.split() == ["early", "between", "late"]


@feature()
def check_files(kernel: Kernel) -> None:
    assert kernel.run("%%writefile note.txt\nwritten by a cell").endswith("Writing note.txt\n")
    assert (kernel.cwd / "note.txt").read_text() == "written by a cell\n"
    assert kernel.run("%%writefile -a note.txt\nmore") == "Appending to note.txt\n"
    assert kernel.run("print(open('note.txt').read(), end='')") == "written by a cell\nmore\n"
    kernel.run("import os\nos.mkdir('sub')")
    assert kernel.execute("%cd sub").ok().stdout == f"{kernel.cwd / 'sub'}\n"
    assert kernel.execute("%pwd").ok().result == {"text/plain": repr(str(kernel.cwd / "sub"))}
    assert kernel.execute("!pwd").ok().stdout.strip() == str(kernel.cwd / "sub")
    kernel.execute("%cd ..").ok()
    kernel.run("import shutil\nshutil.rmtree('sub')\nos.remove('note.txt')")


@feature()
def check_timing_magics(kernel: Kernel) -> None:
    assert re.search(r"per loop \(mean", kernel.run("%timeit -n 10 -r 2 pass"))
    assert re.search(r"per loop \(mean", kernel.run("%%timeit -n 10 -r 2\nx = 1\nx + 1"))
    kernel.run("timed = %timeit -q -o -n 10 -r 2 pass")
    assert kernel.run("print(timed.loops, timed.repeat)") == "10 2\n"
    assert re.search(r"^4\nCPU times.*Wall time", kernel.run("%%time\nprint(4)"), re.DOTALL)
    outcome = kernel.execute("%time 6 * 7").ok()
    assert outcome.result == {"text/plain": "42"}
    assert "Wall time" in outcome.stdout


@feature()
def check_run_magic(kernel: Kernel) -> None:
    (kernel.cwd / "script.py").write_text(
        "import sys\nprint(__name__, sys.argv[1:])\nmade_by_script = 42\nprint(__file__)\n"
    )
    stdout = kernel.run("%run script.py a b")
    assert stdout == f"__main__ ['a', 'b']\n{kernel.cwd / 'script.py'}\n"
    assert kernel.run("print(made_by_script)") == "42\n"
    assert kernel.run("%run -n script.py").startswith("script []\n")
    (kernel.cwd / "broken.py").write_text("def f():\n    1 / 0\nf()\n")
    (error,) = kernel.execute("%run broken.py").of_type("error")
    assert error.content["ename"] == "ZeroDivisionError"
    (kernel.cwd / "leaves.py").write_text("import sys\nprint('bye')\nsys.exit(0)\n")
    assert kernel.execute("%run leaves.py").ok().stdout == "bye\n"


@feature()
def check_namespace_magics(kernel: Kernel) -> None:
    kernel.run("visible_one, visible_two = 1, 'two'")
    assert {"visible_one", "visible_two"} <= set(kernel.run("%who").split())
    assert "visible_two" in kernel.run("%whos str")
    kernel.run("del visible_one\n%reset_selective -f visible_t")
    assert kernel.run("print([n for n in dir() if n.startswith('visible')])") == "[]\n"
    kernel.run("%env CHECKED_VARIABLE=7")
    assert kernel.execute("!echo $CHECKED_VARIABLE").ok().stdout.strip() == "7"
    assert kernel.execute("%env CHECKED_VARIABLE").ok().result == {"text/plain": "'7'"}
    kernel.run("import os\ndel os.environ['CHECKED_VARIABLE']")


@feature(own_kernel=True)
def check_reset(kernel: Kernel) -> None:
    kernel.run("gone = 1\n5")
    kernel.execute("%reset -f").ok()
    assert kernel.execute("gone").content["ename"] == "NameError"
    assert kernel.run("print(display is not None, get_ipython() is not None)") == "True True\n"


@feature()
def check_rich_cell_magics(kernel: Kernel) -> None:
    for magic, kind in (
        ("html", "text/html"),
        ("markdown", "text/markdown"),
        ("latex", "text/latex"),
        ("javascript", "application/javascript"),
        ("svg", "image/svg+xml"),
    ):
        (shown,) = kernel.execute(f"%%{magic}\n<svg/>").ok().displays
        assert "<svg/>" in shown.content["data"][kind]


@feature()
def check_user_magics_and_aliases(kernel: Kernel) -> None:
    kernel.run(
        """
        from IPython.core.magic import register_cell_magic, register_line_magic
        @register_line_magic
        def double(line): return int(line) * 2
        @register_cell_magic
        def upper(line, cell): print(line, cell.upper(), end="")
        """
    )
    assert kernel.execute("%double 21").ok().result == {"text/plain": "42"}
    assert kernel.execute("x = %double 4\nx").ok().result == {"text/plain": "8"}
    assert kernel.run("%%upper arg\nbody") == "arg BODY\n"
    kernel.run("%alias say echo said %s")
    assert kernel.execute("%say it").ok().stdout.strip() == "said it"
    assert "UsageError" in kernel.execute("%no_such_magic").stderr


@feature()
def check_extensions(kernel: Kernel) -> None:
    (kernel.cwd / "own_extension.py").write_text(
        "def load_ipython_extension(shell):\n    shell.push({'from_extension': 42})\n"
    )
    kernel.run("%load_ext own_extension\nprint(from_extension)")
    assert kernel.run("%load_ext own_extension") == (
        "The own_extension extension is already loaded. To reload it, use:\n"
        "  %reload_ext own_extension\n"
    )
    kernel.run("%load_ext autoreload\n%autoreload 0")


@feature()
def check_autoreload(kernel: Kernel) -> None:
    module = kernel.cwd / "reloaded_module.py"
    module.write_text("value = 1\n")
    kernel.run("%load_ext autoreload\n%autoreload 2\nimport reloaded_module")
    module.write_text("value = 'changed'\n")
    assert kernel.run("print(reloaded_module.value)") == "changed\n"
    kernel.run("%autoreload 0")


@feature()
def check_pip_and_other_pagers(kernel: Kernel) -> None:
    assert "pip " in kernel.execute("%pip --version").ok().stdout
    (page,) = kernel.execute("%prun -s cumulative sum(range(10))").ok().content["payload"]
    assert "function calls" in page["data"]["text/plain"]
    (page,) = kernel.execute("%quickref").ok().content["payload"]
    assert "IPython" in page["data"]["text/plain"]
    assert "timeit" in str(kernel.execute("%lsmagic").ok().result)


@feature()
def check_macro_and_store(kernel: Kernel) -> None:
    count = kernel.execute("print('in a macro')").ok().content["execution_count"]
    kernel.execute(f"%macro -q repeated {count}").ok()
    assert kernel.run("repeated") == "in a macro\n"
    kernel.run(f"%save -f saved.py {count}")
    assert "in a macro" in (kernel.cwd / "saved.py").read_text()
