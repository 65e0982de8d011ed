"""Makes the cells of a worker run as the statements of a script do.

The cells of a script are recorded as the user wrote them, so that versions and differences show
the script, and a cell has the same code hash wherever it stands.  What ``python script.py`` does
otherwise than IPython is therefore set up once, by a first cell that calls `enter`.  That cell is
recorded like any other: it changes the state, so it must be part of the lineage, and whoever runs
the version again needs nothing but its cells.  It names the script relative to the folder that
cells run in, and so is the same on every machine.  Rejected: to wrap each cell in code, which is
not the user's text; and to set up a worker behind the record's back, since a node would then stand
for two states, one with ``sys.argv`` of a script and one with that of a notebook.

From then on the cells have

- ``__file__``, ``__doc__``, ``sys.argv``, ``sys.path``, the names and the environment variables of
  a script, and no trace of IPython: no magics, no ``display``, no ``_``, no value shown of an
  expression, no await outside of functions, ``exit()`` as in Python;
- standard output and error as files that scripts expect (``sys.stdout.buffer``), no input, and no
  event loop that runs already, so that ``asyncio.run`` works;
- the file and the lines of the script in errors and warnings, without reading the file: it would
  become an input of the cell.  Lines are counted: every line of a script is in some cell, and
  `PARAMETERS_TITLE` tells the cell that is not from the script.

``SystemExit`` ends a script: with status 0 the cell succeeds and shows `EXIT`, otherwise it fails.
Then, after any other error, and in a last cell that calls `leave`, is done what Python does at its
end: wait for threads and processes, call what `atexit` holds, close files.  Not done is to delete
the variables: somebody may want to look at them.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.machinery
import itertools
import linecache
import os
import sys
import traceback
from types import CodeType, TracebackType
from typing import Any

from chexpoint.lineage import only_imports
from chexpoint.project.script_end import ScriptEnd
from chexpoint.project.script_world import ScriptWorld

EXIT = "application/vnd.chex.exit+json"
"""The type of an output: the script ended here, with this exit status."""

ENDED = "application/vnd.chex.end+json"
"""The type of the answer to `END_QUESTION`: whether there is something left for `leave` to do."""

END_QUESTION = "# Is anything left to do at the end of the script?"
"""A cell that asks for it; comments lead to no node."""

PARAMETERS_TITLE = "# Parameters (-p)"
"""How the cell begins that sets parameters of a script."""

_PARAMETERS_FILE = "<parameters>"
_IPYTHON_BUILTINS = ("__IPYTHON__", "display", "get_ipython")
# ipykernel sets these for front ends; scripts, and what they start, would print colours for ever.
_FRONT_END_VARIABLES = (
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "FORCE_COLOR",
    "GIT_PAGER",
    "MPLBACKEND",
    "PAGER",
    "TERM",
)

_mode: ScriptMode | None = None


def set_up_source(path: str, arguments: tuple[str, ...]) -> str:
    """Return the first cell of a version of a script."""
    words = " ".join(["python", path, *arguments])
    call = ", ".join(repr(word) for word in (path, *arguments))
    return f"# {ascii(words)[1:-1]}\n{_calling('enter')}({call})"


def end_source() -> str:
    """Return the last cell of a version of a script, if it needs one."""
    return f"# What Python does at the end of a script\n{_calling('leave')}()"


def _calling(function: str) -> str:
    # Without an import statement: it would leave a name behind.
    return f"__import__({__name__!r}, fromlist=[{function!r}]).{function}"


def enter(path: str, *arguments: str) -> None:
    """Have the following cells run as those of ``python path arguments``."""
    global _mode  # noqa: PLW0603 - there is one interpreter, and this is its mode
    from IPython.core.getipython import get_ipython

    _mode = ScriptMode(get_ipython(), path)
    _mode.begin(arguments)


def leave() -> None:
    """Do what Python does at the end of a script."""
    if _mode is not None:
        _mode.end.finish()


class ScriptMode:
    """What a shell of IPython does with the cells of a script."""

    def __init__(self, shell: Any, path: str) -> None:
        self._shell = shell
        self._path = path
        self._file = os.path.abspath(path)
        self._lines: list[str] = []
        self._has_begun = False
        self._source = ""
        self._offset = 0
        self.end = ScriptEnd()
        self._world = ScriptWorld(shell, self.end)

    def begin(self, arguments: tuple[str, ...]) -> None:
        """Change the shell and the process; there is no way back but a restore."""
        _restore_variables()
        sys.argv = [self._path, *arguments]
        sys.orig_argv = [sys.executable, *sys.argv]
        sys.path[:] = [folder for folder in sys.path if folder]
        if not sys.flags.safe_path:
            sys.path.insert(0, os.path.dirname(os.path.realpath(self._file)))
        for name in ("ps1", "ps2", "ps3"):
            vars(sys).pop(name, None)
        self._change_shell()
        self._clear_names()

    def _change_shell(self) -> None:
        shell = self._shell
        for name in _IPYTHON_BUILTINS:
            vars(builtins).pop(name, None)
        shell.builtin_trap.auto_builtins.clear()
        shell.builtin_trap._orig_builtins.pop("get_ipython", None)
        shell.autoawait = False
        shell.ast_transformers = [each for each in shell.ast_transformers if _is_own(each)]
        # It would put each cell into the user's names.
        shell.history_manager.store_inputs = lambda *_, **__: None
        # It would read the script to show its lines.
        shell._format_exception_for_storage = lambda *_, **__: {}
        shell.transform_cell = lambda cell: cell if cell.endswith("\n") else f"{cell}\n"
        shell.compile.cache = self._cache
        shell.compile.ast_parse = self._parse
        shell.run_ast_nodes = self._run_nodes

    def _clear_names(self) -> None:
        names = self._shell.user_ns
        names.clear()
        names.update(
            __name__="__main__",
            __doc__=None,
            __package__=None,
            __loader__=importlib.machinery.SourceFileLoader("__main__", self._file),
            __spec__=None,
            __annotations__={},
            __builtins__=builtins,
            __file__=self._file,
            __cached__=None,
        )

    # ------------------------------------------------------------ cells

    def _cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        """Note the lines of a cell, and return the file it is from; called before `_parse`."""
        self._source = transformed_code if raw_code is None else raw_code
        lines = [f"{line}\n" for line in self._source.split("\n")]
        if self._source == END_QUESTION:
            return _PARAMETERS_FILE
        if self._is_added():
            self._offset = 0
            _show_lines(_PARAMETERS_FILE, lines)
            return _PARAMETERS_FILE
        self._offset = len(self._lines)
        self._lines += lines
        _show_lines(self._file, self._lines)
        return self._file

    def _is_added(self) -> bool:
        return self._source.split("\n", 1)[0] == PARAMETERS_TITLE

    def _parse(self, source: str, filename: str = "", symbol: str = "exec") -> ast.AST:
        compiler = self._shell.compile
        tree: ast.AST = type(compiler).ast_parse(compiler, source, filename, symbol)
        return ast.increment_lineno(tree, self._offset) if self._offset else tree

    async def _run_nodes(
        self,
        nodelist: list[ast.stmt],
        cell_name: str,
        interactivity: str = "none",
        compiler: Any = compile,
        result: Any = None,
    ) -> bool:
        """Run a cell; return whether it failed."""
        if self._source == END_QUESTION:
            self._publish(ENDED, {"needed": self.end.is_needed()}, "")
            return False
        if not nodelist:
            return False
        pieces = _apart(self._without_strings(nodelist))
        try:
            codes = [compiler(ast.Module(each, []), cell_name, "exec") for each in pieces]
        except Exception as error:
            if result is not None:
                result.error_before_exec = error
            self._show_error(error, error.__traceback__)
            return True
        return self._run(codes, result)

    def _without_strings(self, nodelist: list[ast.stmt]) -> list[ast.stmt]:
        """Return a cell without strings at its beginning, which would become the docstring."""
        if self._is_added():
            return nodelist
        is_first, self._has_begun = not self._has_begun, True
        at = 0
        while not is_first and at < len(nodelist) and _is_string(nodelist[at]):
            at += 1
        return nodelist[at:]

    def _run(self, codes: list[CodeType], result: Any) -> bool:
        pid = os.getpid()
        importing = self._shell.while_importing
        try:
            with self._world:
                for code in codes:
                    with importing() if only_imports(code) else contextlib.nullcontext():
                        exec(code, self._shell.user_global_ns, self._shell.user_ns)  # noqa: S102
        except SystemExit as error:
            status = self._exit_status(error)
            _end_copy(pid, status)
            self._finish()
            if status == 0:
                self._publish(EXIT, {"status": 0}, "exit status 0")
                return False
            result.error_in_exec = error
            self._show_error(error, None)
            return True
        except BaseException as error:
            # The first entry is this function.
            behind = error.__traceback__.tb_next if error.__traceback__ else None
            self._call_hook(error, behind, is_copy=os.getpid() != pid)
            _end_copy(pid, 1)
            result.error_in_exec = error
            self._show_error(error, behind)
            if not isinstance(error, KeyboardInterrupt):
                self._finish()
            return True
        _end_copy(pid, 0)
        return False

    def _exit_status(self, error: SystemExit) -> int:
        match error.code:
            case None:
                return 0
            case int(code):
                return code & 0xFF if -(2**31) <= code < 2**31 else 0xFF
        with self._world:
            print(error.code, file=sys.stderr)  # noqa: T201 - as Python does
        return 1

    def _call_hook(
        self, error: BaseException, behind: TracebackType | None, *, is_copy: bool
    ) -> None:
        """Call what the script has put into ``sys.excepthook``; a forked copy has no other way."""
        with self._world:
            if is_copy or sys.excepthook is not sys.__excepthook__:
                try:
                    sys.excepthook(type(error), error, behind)
                except Exception:
                    traceback.print_exc()

    def _show_error(self, error: BaseException, behind: TracebackType | None) -> None:
        """Show an error as Python does.

        IPython would read the script for it, and make it an input of the cell.
        """
        lines = traceback.format_exception(type(error), error, behind)
        self._shell._showtraceback(type(error), error, [line.removesuffix("\n") for line in lines])

    def _finish(self) -> None:
        with self._world:
            self.end.finish()

    def _publish(self, kind: str, data: dict[str, Any], text: str) -> None:
        shown = {kind: data, **({"text/plain": text} if text else {})}
        self._shell.display_pub.publish(shown)


def _end_copy(pid: int, status: int) -> None:
    """End this process if it is one that the script has forked: the worker is the other one."""
    if os.getpid() != pid:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _is_own(transformer: object) -> bool:
    """Return whether it is ours that looks at the cells, and not the user's profile."""
    return type(transformer).__module__.startswith("chexpoint.")


def _apart(nodes: list[ast.stmt]) -> list[list[ast.stmt]]:
    """Return the imports at the beginning of a cell, and what follows.

    What libraries draw at random while they are loaded is not drawn by the cell.  What is said
    about the future counts for all of it, and a string would become the docstring.
    """
    imports = list(itertools.takewhile(_is_import, nodes))
    rest = nodes[len(imports) :]
    if not imports or not rest or _is_string(rest[0]) or any(map(_is_future, nodes)):
        return [nodes]
    return [imports, rest]


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_string(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Constant(value)):
            return isinstance(value, str)
    return False


def _show_lines(file: str, lines: list[str]) -> None:
    """Let errors and warnings show lines without reading them; without a time they stay."""
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)


def _restore_variables() -> None:
    """Give environment variables the values this process was started with."""
    first: dict[str, str] = {}
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
        first = {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
    for name in _FRONT_END_VARIABLES:
        # Neither way reads the variable, which would make it an input of the cell.
        if name in first:
            os.environ[name] = first[name]
        else:
            with contextlib.suppress(KeyError):
                del os.environ[name]
