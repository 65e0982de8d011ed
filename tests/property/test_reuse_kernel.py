"""Random notebooks in a real kernel: with reuse, everything is as if every cell had been run.

After each Run All the whole namespace, what the cells show, and the files are compared with those
of a plain Python process that runs the same cells on a copy of the same files.  One kernel serves
all examples.  ``CHEX_EXAMPLES=1000`` runs many more of them, by chance.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.support.kernels import Kernel
from tests.support.notebooks import Shown, evict_all, kernel_at, run_all, run_cell, value

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

_EXAMPLES = int(os.environ.get("CHEX_EXAMPLES", "0"))

# ---------------------------------------------------------------- what is compared

# Runs in the kernel and in the plain process alike, so it must not import from here.
DUMP = """
import os, random, sys, types
def dump(names):
    seen, alive = {}, []
    def canon(value):
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return repr(value)
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__, getattr(value, "STEP", None)]
        if isinstance(value, types.FunctionType):
            kept = value.__defaults__
            code = value.__code__
            body = [repr(code.co_consts), code.co_code.hex()]
            return ["function", value.__name__, body, canon(kept)]
        if id(value) in seen:
            return ["seen", seen[id(value)]]
        seen[id(value)] = len(seen)
        alive.append(value)  # or another object may get its id
        if isinstance(value, (list, tuple)):
            return [type(value).__name__, [canon(each) for each in value]]
        if isinstance(value, dict):
            return ["dict", [[canon(k), canon(v)] for k, v in value.items()]]
        if isinstance(value, type):
            own = {k: v for k, v in vars(value).items() if not k.startswith("__")}
            return ["class", value.__name__, canon(own)]
        return ["instance", type(value).__name__, canon(vars(value))]
    own = {k: v for k, v in sorted(names.items()) if k[0] != "_" and k not in HIDDEN}
    lots = {k: v for k, v in own.items() if k.startswith("lot")}
    found = {k: canon(v) for k, v in own.items() if k not in lots}
    where = os.path.relpath(os.getcwd(), os.environ["NOTEBOOK"])
    drawn = repr(random.getstate()) if names.get("seeded") else ""
    drawn = hash(drawn) if drawn else 0
    return {"names": found, "lots": sorted(lots), "cwd": where, "random": drawn,
            "variable": os.environ.get("NB_VAR")}
"""
HIDDEN = ("In", "Out", "get_ipython", "exit", "quit", "open", "os")

PLAIN = """
import ast, contextlib, io, json, sys
work = json.load(sys.stdin)
exec(work["dump"], scope := {"HIDDEN": work["hidden"]})
sys.path.insert(0, "")
names = {"__name__": "__main__"}
shown = []
for source in work["cells"]:
    out, result, status = io.StringIO(), None, "ok"
    with contextlib.redirect_stdout(out):
        try:
            tree = ast.parse(source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "cell", "exec"), names)
            if last is not None:
                result = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        except Exception as error:
            status = type(error).__name__
    shown.append([status, out.getvalue(), None if result is None else repr(result)])
json.dump({"shown": shown, "state": scope["dump"](names)}, sys.stdout)
"""


# ---------------------------------------------------------------- cells

_small = st.integers(0, 3)
_names = st.sampled_from(["a", "b", "c"])
_lists = st.sampled_from(["l", "m"])
_files = st.sampled_from(["out0.txt", "out1.txt"])

FIRST = "import importlib, os, random, sys\na, b, c = 0, 1, 2\nl, m, d = [0], [1], {}"


def _cell(text: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda values: text.format(*values))


PURE = (
    _cell("{0} = {1}", _names, _small),
    _cell("{0} = {1} + 1\nprint({0})", _names, _names),
    _cell("{0}.append({1})\n{0}", _lists, _names),
    _cell("{0} = {1}", _lists, _lists),
    _cell("{0} += [{1}]", _lists, _small),
    _cell("d['k{0}'] = {1}", _small, _lists),
    _cell("d.setdefault('k{0}', []).append({1})\nprint(d)", _small, _names),
    _cell("def fn(x, kept=[]):\n    kept.append(x + {0})\n    return list(kept)", _small),
    _cell("{0} = fn({1})", _lists, _names),
    _cell("class Thing:\n    level = {0}\n\nthing = Thing()\nthing.list = {1}", _small, _lists),
    _cell("thing.list.append(Thing.level)\nThing.level += {0}", _small),
    _cell("del {0}", _names),
    _cell("print({0}, {1})  # {2}", _names, _lists, _small),
    _cell("random.seed({0}); seeded = True", _small),
    _cell("{0} = random.random() if globals().get('seeded') else 0\n{0}", _names),
    _cell("os.environ['NB_VAR'] = '{0}'", _small),
    _cell("{0} = os.environ.get('NB_VAR'), os.environ.get('NB_OUTER')\n{0}", _names),
    _cell("os.chdir('sub' if os.path.basename(os.getcwd()) != 'sub' else '..')"),
)
READS = (
    _cell("{0} = int(open('data.txt').read())", _names),
    _cell("{0} = open('{1}').read()\n{0}", _names, _files),
    _cell(
        "try:\n    {0} = open('{1}').read()\nexcept FileNotFoundError:\n    {0} = None\nprint({0})",
        _names,
        _files,
    ),
    _cell("{0} = [n for n in sorted(os.listdir('.')) if n[0] not in '._']\n{0}", _lists),
    _cell("import helper\n{0} = helper.step({0})", _names),
    _cell("import helper\nimportlib.reload(helper)\nprint(helper.STEP)"),
    _cell("sys.modules.pop('helper', None)\nimport helper\n{0} = helper.STEP", _names),
)
WRITES = (
    _cell("written = open('{0}', 'w').write(repr({1}))", _files, _names),
    _cell("with open('{0}', 'w') as file:\n    print({1}, file=file)", _files, _lists),
    _cell("open('{0}', 'w').write('{1}')\n{2} = open('{0}').read()", _files, _small, _names),
    _cell("open('data.txt', 'w').write('{0}{1}')", _small, _small),
    _cell("open('{0}', 'w').close()\nos.remove('{0}')", _files),
    _cell("open('{0}', 'w').write('{2}')\nos.rename('{0}', '{1}')", _files, _files, _small),
    _cell("text = open('{0}').read()\nopen('{0}', 'w').write(text + '{1}')", _files, _small),
    _cell(
        "os.makedirs('made/{0}', exist_ok=True)\nopen('made/{0}/x', 'w').write(str({1}))",
        _small,
        _names,
    ),
)
UPDATES = (
    _cell("try:\n    os.remove('{0}')\nexcept FileNotFoundError:\n    print('no')", _files),
    _cell(
        "try:\n    os.rename('{0}', '{1}')\nexcept FileNotFoundError:\n    print('no')",
        _files,
        _files,
    ),
    _cell(
        "with open('log.txt', 'a') as file:\n    print({0}, file=file)\n"
        "print(open('log.txt').read())",
        _names,
    ),
    _cell("open('{0}', 'a').write('{1}')", _files, _small),
    _cell(
        "try:\n    open('{0}', 'x').write('{1}')\nexcept FileExistsError:\n    print('there')",
        _files,
        _small,
    ),
    _cell("open('{0}', 'a+').write('{1}')", _files, _small),
)
STATS = (
    _cell("{0} = os.path.exists('{1}')\nprint({0})", _names, _files),
    _cell(
        "if not os.path.exists('{0}'):\n    open('{0}', 'w').write('{1}')\n    print('made')",
        _files,
        _small,
    ),
)
CHANCE = (
    _cell("lot = random.SystemRandom().random()\nprint('lot', lot)"),
    _cell("lot2 = globals().get('lot', 0) * {0}\nprint('lot2', lot2)", _small),
)
cells = st.one_of(*PURE, *READS, *WRITES, *CHANCE, *UPDATES, *STATS)


# ---------------------------------------------------------------- what happens to a notebook


@dataclass(frozen=True)
class Action:
    """One thing that a user does; which of the numbers it uses depends on what it is."""

    what: str
    at: int = 0
    text: str = ""


_actions = st.one_of(
    st.builds(Action, st.just("edit"), st.integers(0, 7), cells),
    st.builds(Action, st.just("edit"), st.integers(0, 7), cells),
    st.builds(Action, st.just("insert"), st.integers(0, 7), cells),
    st.builds(Action, st.just("drop"), st.integers(0, 7)),
    st.builds(Action, st.just("comment"), st.integers(0, 7)),
    st.builds(Action, st.just("data"), st.integers(0, 2)),
    st.builds(Action, st.just("helper"), st.integers(0, 2)),
    st.builds(Action, st.just("delete"), st.just(0), _files),
    st.builds(Action, st.just("spoil"), st.just(0), _files),
    st.builds(Action, st.just("undo"), st.integers(0, 3)),
    st.builds(Action, st.just("checkout"), st.integers(0, 3)),
    st.builds(Action, st.just("evict")),
    st.builds(Action, st.just("single"), st.integers(0, 7)),
    st.builds(Action, st.just("again")),
)
scenarios = st.tuples(
    st.lists(cells, min_size=4, max_size=7),
    st.lists(st.lists(_actions, min_size=1, max_size=3), min_size=3, max_size=5),
)

_salts = count()


@dataclass
class Desk:
    """A project folder, the notebook in it, and the kernel."""

    kernel: Kernel
    project: Path
    scratch: Path
    cells: list[str] = field(default_factory=list)
    runs: list[tuple[str, list[str]]] = field(default_factory=list)
    """The versions so far, and their cells."""
    reused: int = 0
    computed: int = 0

    def reset(self, cells: list[str]) -> None:
        for path in self.project.iterdir():
            if path.is_dir() and path.name != ".chex":
                shutil.rmtree(path)
            elif path.is_file():
                path.unlink()
        (self.project / "sub").mkdir()
        self.write_data(0)
        (self.project / "sub" / "data.txt").write_text("77")
        self.write_helper(0)
        # Other examples must not be found: each begins with a number of its own.
        self.cells = [f"salt = {next(_salts)}", FIRST, *cells]
        self.runs = []

    def write_data(self, number: int) -> None:
        (self.project / "data.txt").write_text(str(number))

    def write_helper(self, number: int) -> None:
        text = f"STEP = {number}\ndef step(x):\n    return x + STEP\n"
        (self.project / "helper.py").write_text(text)

    # ------------------------------------------------------------ actions

    def act(self, action: Action) -> None:  # noqa: C901 - a flat table
        at = 2 + action.at % max(1, len(self.cells) - 2)
        match action.what:
            case "edit" if at < len(self.cells):
                self.cells[at] = action.text
            case "insert":
                self.cells.insert(at, action.text)
            case "drop" if at < len(self.cells):
                del self.cells[at]
            case "comment" if at < len(self.cells):
                self.cells[at] += "\n# the same"
            case "data":
                self.write_data(action.at)
            case "helper":
                self.write_helper(action.at)
            case "delete":
                (self.project / action.text).unlink(missing_ok=True)
            case "spoil":
                (self.project / action.text).write_text("spoilt")
            case "undo":
                self.cells = list(self.runs[action.at % len(self.runs)][1])
            case "checkout":
                run_cell(self.kernel, f"%chex_checkout {self.runs[action.at % len(self.runs)][0]}")
            case "evict":
                self.evict()
            case "single" if at < len(self.cells):
                run_cell(self.kernel, self.cells[at])

    def evict(self) -> None:
        evict_all(self.kernel)

    # ------------------------------------------------------------ Run All, and its reference

    def run_all(self) -> None:
        version = f"v{next(_salts)}"
        copy = self.scratch / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.project, copy, ignore=shutil.ignore_patterns(".chex"))
        note("\n---- cell\n".join(["RUN", *self.cells]))
        shown = run_all(self.kernel, self.cells, version=version)
        marks = [f"{s.count}: {'reused' if s.is_reused else s.why or 'computed'}" for s in shown]
        note(f"{version}: {marks}")
        self.runs.append((version, list(self.cells)))
        self.reused += sum(s.is_reused for s in shown)
        self.computed += sum(not s.is_reused for s in shown)
        wanted = run_plain(self.cells, copy)
        for cell, found, then in zip(self.cells, shown, wanted["shown"], strict=True):
            assert as_shown(found) == as_wanted(then), cell
        assert files_of(self.project) == files_of(copy)
        assert self.state() == wanted["state"]
        self.check_lots(shown)
        assert files_of(self.project) == files_of(copy), "bringing back the state changed files"

    def state(self) -> dict[str, Any]:
        code = f"HIDDEN = {HIDDEN!r}\n{DUMP}"
        dumped = "__import__('json').dumps(scope['dump'](get_ipython().user_ns))"
        text = value(self.kernel, f"(lambda scope: (exec({code!r}, scope), {dumped})[1])({{}})")
        found: dict[str, Any] = json.loads(eval(text))  # noqa: S307 - the repr of a string
        return found

    def check_lots(self, shown: list[Shown]) -> None:
        """What was drawn by lot is the same in the state and in what is shown."""
        printed = {}
        for each in shown:
            for line in each.text.splitlines():
                name, _, number = line.partition(" ")
                if name.startswith("lot"):
                    printed[name] = number
        for name, number in printed.items():
            assert value(self.kernel, name) == number, name


def as_shown(shown: Shown) -> list[str | None]:
    status = "ok" if shown.status == "ok" else str(shown.outcome.content["ename"])
    return [status, without_lots(shown.text), shown.result]


def as_wanted(shown: list[str | None]) -> list[str | None]:
    status, text, result = shown
    return [status, without_lots(text or ""), result]


def without_lots(text: str) -> str:
    return "".join(line for line in text.splitlines(True) if not line.startswith("lot"))


def run_plain(cells: list[str], folder: Path) -> dict[str, Any]:
    """Run cells in a plain Python process; return what they show, and the state at the end."""
    work = json.dumps({"cells": cells, "dump": DUMP, "hidden": HIDDEN})
    env = {**os.environ, "NOTEBOOK": str(folder), **ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", PLAIN],
        input=work,
        capture_output=True,
        text=True,
        cwd=folder,
        env=env,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# Hashes are compared; and a module that is edited twice in a second must be read twice.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "NB_OUTER": "outer"}


def files_of(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not name.startswith(".chex") and "__pycache__" not in name:
            found[name] = path.read_text() if path.is_file() else "a folder"
    return found


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("random")
    project = folder / "project"
    env = {**ENVIRONMENT, "NOTEBOOK": str(project)}
    with kernel_at(project, folder / "kernel", **env) as kernel:
        yield Desk(kernel, project, folder)


@settings(
    max_examples=_EXAMPLES or 12,
    derandomize=not _EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)
@given(scenarios)
def test_run_all_is_as_if_every_cell_had_been_run(
    desk: Desk, scenario: tuple[list[str], list[list[Action]]]
) -> None:
    cells, rounds = scenario
    desk.reset(cells)
    desk.run_all()
    for actions in rounds:
        for action in actions:
            note(f"{action}")
            desk.act(action)
        desk.run_all()


def test_much_of_it_was_reused(desk: Desk) -> None:
    """Else the test above would have nothing to say."""
    assert desk.reused > desk.computed / 4
