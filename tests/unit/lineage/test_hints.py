"""Signs of nondeterminism in code, in generators and on the stack."""

from __future__ import annotations

import linecache
import random
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from chexpoint.lineage.entropy import entropy_hint
from chexpoint.lineage.hints import (
    cell_line,
    input_hint,
    network_hint,
    random_hints,
    random_states,
    scan,
    thread_hints,
)
from chexpoint.model import Hint


def time_lines(source: str, aliases: dict[str, str] | None = None) -> list[int | None]:
    return [hint.line for hint in scan(source, aliases or {}).hints if hint.kind == "time"]


@pytest.fixture
def states_kept() -> Iterator[None]:
    kept, kept_numpy = random.getstate(), np.random.get_state()
    yield
    random.setstate(kept)
    np.random.set_state(kept_numpy)


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.perf_counter_ns()",
        "from time import time\ntime()",
        "from time import monotonic as clock\nclock()",
        "import time\ntime.strftime('%H')",
        "import time\ntime.localtime()",
        "import datetime\ndatetime.datetime.now()",
        "import datetime as dt\ndt.date.today()",
        "from datetime import datetime as d, timezone\nd.now(timezone.utc)",
        "import pandas as pd\npd.Timestamp.now()",
        "import pandas as pd\npd.Timestamp('now')",
        "import numpy as np\nnp.datetime64('today')",
        "import time\nx = [f(time.time()) for f in ()]",
    ],
)
def test_calls_that_give_the_time_are_found(source: str) -> None:
    assert time_lines(source) == [2]


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.sleep(1)",
        "import time\ntime.strftime('%H', (2024, 1, 1, 0, 0, 0, 0, 1, 0))",
        "import time\ntime.localtime(0)",
        "import numpy as np\nnp.datetime64('2024-01-01')",
        "import pandas as pd\npd.Timestamp('2024-01-01')",
        "from mine import time\ntime()",
        "from .time import time\ntime()",
        "frame.time.now()",
        "import time\nclock = time.time",
        "def broken(:\n    time.time()",
        "null\0byte",
    ],
)
def test_other_calls_are_not(source: str) -> None:
    assert time_lines(source) == []


def test_imports_of_earlier_cells_count() -> None:
    first = scan("from time import time as now", {})
    assert time_lines("x = 1\nnow()", dict(first.aliases)) == [2]
    assert time_lines("x = 1\nnow()") == []


def test_a_call_on_one_line_is_hinted_at_once() -> None:
    assert time_lines("import time\ntime.time() - time.time()\ntime.time()") == [2, 3]


def test_code_inside_magics_is_found_at_its_line() -> None:
    cell = "get_ipython().run_cell_magic('time', '', 'import time\\ntime.time()\\n')"
    assert time_lines(cell) == [3]
    line = "x = 1\nget_ipython().run_line_magic('time', 'time.time()')"
    assert time_lines(line, {"time": "time"}) == [2]
    other = "get_ipython().run_cell_magic('writefile', 'f', 'import time\\ntime.time()\\n')"
    assert time_lines(other) == []


def test_code_is_scanned_without_warnings_of_its_own() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert time_lines('import time\nx = "\\d"\ntime.time()') == [3]
    assert caught == []


def test_generators_that_seed_themselves_are_found() -> None:
    code = "import random\nrandom.Random()\nrandom.Random(1)\nrandom.seed()\nrandom.seed(2)"
    hints = scan(code, {}).hints
    assert [(hint.kind, hint.line) for hint in hints] == [("entropy", 2), ("entropy", 4)]


def history_of(source: str, aliases: dict[str, str] | None = None) -> list[tuple[str, int | None]]:
    hints = scan(source, aliases or {}).hints
    return [(hint.what.split()[0], hint.line) for hint in hints if hint.kind == "history"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 1\nIn[3]", [("In", 2)]),
        ("x = Out[3] + Out[4]", [("Out", 1)]),
        ("_ih, _oh, _dh", [("_ih", 1), ("_oh", 1), ("_dh", 1)]),
        ("_i, _ii, _iii", [("_i", 1), ("_ii", 1), ("_iii", 1)]),
        ("_i12\n_7 + __ + ___", [("_i12", 1), ("_7", 2), ("__", 2), ("___", 2)]),
        ("print(_)\n_ = 1\n_", [("_", 1)]),
        ("_ = _ + 1", [("_", 1)]),
        ("_ += 1", [("_", 1)]),
        ("def f():\n    return _", [("_", 2)]),
        ("[_ for x in y]", [("_", 1)]),
        ("await f(_)", [("_", 1)]),
        ("x = '\\d' is _5", [("_5", 1)]),
        ("get_ipython().run_line_magic('rerun', '3')", [("%rerun", 1)]),
        ("x\nget_ipython().run_cell_magic('time', '', 'x\\nOut[1]')", [("Out", 4)]),
    ],
)
def test_uses_of_the_history_are_found(source: str, found: list[tuple[str, int | None]]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert history_of(source) == found
    assert caught == []


@pytest.mark.parametrize(
    "source",
    [
        "for _ in range(3): pass",
        "for _ in range(3): print(_)",
        "_, x = f()\n_",
        "_ = f()\nprint(_)",
        "[_ for _ in x]",
        "lambda _: _",
        "def f(_): return _",
        "def f():\n    _ = 1\n    return _",
        "@f.register\ndef _(x): return 1",
        "from gettext import gettext as _\n_('x')",
        "import In\nIn.f()",
        "with f() as _: _.g()",
        "try: f()\nexcept E as _: print(_)",
        "class A:\n    _ = 1\n    x = _",
        "a._1, a.In, {'Out': 1}, f(_1=2)",
        "____, __name__, _x, _1x, _i1_, Output, i1",
        "get_ipython().run_line_magic('cd', '..')",
        "return _",
        "_ = 1\ndef broken(:",
    ],
)
def test_other_names_are_no_history(source: str) -> None:
    assert history_of(source) == []


def test_a_name_imported_earlier_is_no_history() -> None:
    first = scan("from gettext import gettext as _", {})
    assert history_of("_('x')", dict(first.aliases)) == []
    assert history_of("_('x')") == [("_", 1)]


def test_a_question_is_blamed_on_the_line_of_the_running_cell() -> None:
    cell: dict[str, Any] = {"hint": input_hint, "frame": sys._getframe}
    run("x = 1\na = hint(frame(), globals())", cell)
    assert (cell["a"].kind, cell["a"].line) == ("input", 2)
    assert input_hint(sys._getframe(), {}).line is None


@pytest.mark.parametrize(
    ("source", "seeded"),
    [
        ("import random\nrandom.seed(1)", {"random": True}),
        ("import random\nrandom.seed()", {"random": False}),
        ("import random\nrandom.seed()\nrandom.seed(a=1)", {"random": True}),
        ("import numpy as np\nnp.random.seed(1)", {"numpy.random": True}),
        ("from numpy import random\nrandom.seed(1)", {"numpy.random": True}),
        ("import torch\ntorch.manual_seed(1)", {"torch": True}),
        ("import torch\ntorch.seed()", {"torch": False}),
        ("import torch\ntorch.cuda.manual_seed_all(1)", {}),
        ("import tensorflow as tf\ntf.random.set_seed(1)", {}),
        ("rng.seed(1)", {}),
        ("import numpy as np\nnp.random.default_rng(1)", {}),
        ("seed_everything(1)", dict.fromkeys(("random", "numpy.random", "torch"), True)),
        ("mine.set_seed(1)", dict.fromkeys(("random", "numpy.random", "torch"), True)),
    ],
)
def test_seeds_are_found(source: str, seeded: dict[str, bool]) -> None:
    assert scan(source, {}).seeded == seeded


@pytest.mark.parametrize(
    ("source", "draws"),
    [
        ("import random\nrandom.random()", {"random": 2}),
        ("import random\nrandom.seed(1)\nrandom.getstate()", {}),
        ("import numpy as np\nx = 1\nnp.random.rand(3)\nnp.random.rand(3)", {"numpy.random": 3}),
        ("import numpy as np\nnp.random.default_rng(1)\nnp.random.Generator", {}),
        ("import torch\ntorch.randn(3)", {"torch": 2}),
        ("import torch\ntorch.nn.Linear(3, 3)", {"torch": 2}),
        ("import torch\ntorch.zeros(3)", {}),
    ],
)
def test_the_first_line_that_draws_is_found(source: str, draws: dict[str, int]) -> None:
    assert scan(source, {}).draws == draws


@pytest.mark.usefixtures("states_kept")
def test_states_change_with_each_draw_and_only_then() -> None:
    before = random_states()
    assert random_states() == before
    random.random()
    between = random_states()
    assert {name for name in before if before[name] != between[name]} == {"random"}
    np.random.standard_normal()
    first = random_states()
    # The second normal number was made along with the first.
    np.random.standard_normal()
    assert len({states["numpy.random"] for states in (between, first, random_states())}) == 3


def test_a_module_that_is_not_ready_has_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    assert "torch" not in random_states()
    assert "random" in random_states()


def test_draws_from_a_generator_that_was_never_seeded_are_hinted_at() -> None:
    signs = scan("import random\nx = 1\nrandom.random()", {})
    wanted = Hint(
        kind="random",
        what="random was used but never seeded: results may differ each time; "
        "call random.seed(...)",
        line=3,
    )
    assert random_hints({"random": 1}, {"random": 2}, set(), signs) == [wanted]
    assert random_hints({"random": 1}, {"random": 1}, set(), signs) == []
    assert random_hints({"random": 1}, {"random": 2}, {"random"}, signs) == []


def test_a_seed_in_the_same_cell_is_enough() -> None:
    signs = scan("import random\nrandom.seed(1)\nrandom.random()", {})
    assert random_hints({"random": 1}, {"random": 2}, set(), signs) == []


def test_a_library_may_draw_where_the_code_does_not_show_it() -> None:
    hints = random_hints({"numpy.random": 1}, {"numpy.random": 2}, set(), scan("f()", {}))
    assert [hint.line for hint in hints] == [None]


def test_the_code_decides_about_a_generator_that_was_not_loaded_before() -> None:
    used, unused = scan("import torch\ntorch.rand(1)", {}), scan("import torch", {})
    assert [hint.line for hint in random_hints({}, {"torch": 1}, set(), used)] == [2]
    assert random_hints({}, {"torch": 1}, set(), unused) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import a\nfrom b import c\nget_ipython().run_line_magic('matplotlib', 'inline')", 0),
        ("import a\na.f()", 1),
        ("get_ipython().run_cell_magic('time', '', 'f()')", 1),
        ("x = get_ipython()", 1),
    ],
)
def test_imports_may_draw(source: str, count: int) -> None:
    assert len(random_hints({"random": 1}, {"random": 2}, set(), scan(source, {}))) == count


def run(source: str, namespace: dict[str, Any]) -> None:
    exec(compile(source, "<cell>", "exec"), namespace)  # noqa: S102


def hints_of(source: str, namespace: dict[str, Any] | None = None) -> list[Hint | None]:
    """Run a cell in which ``entropy()`` asks for entropy."""
    cell: dict[str, Any] = {"__name__": "__main__"} if namespace is None else namespace
    found: list[Hint | None] = []
    cell["entropy"] = lambda: found.append(entropy_hint(sys._getframe(1), cell))
    run(source, cell)
    return found


def test_entropy_is_blamed_on_the_line_of_the_running_cell() -> None:
    cell: dict[str, Any] = {"__name__": "__main__"}
    run("\n\n\n\ndef f():\n    entropy()", cell)
    (hint,) = hints_of("x = 1\nf()", cell)
    assert hint is not None
    assert (hint.kind, hint.line) == ("entropy", 2)


@pytest.mark.parametrize(
    ("call", "is_hint"),
    [
        ("RandomState(42)", False),
        ("numpy.random.RandomState(seed=n)", False),
        ("RandomState()", True),
        ("RandomState(None)", True),
        ("RandomState(seed=nothing)", True),
        ("RandomState(n + 1)", True),
        ("default_rng(n)", True),
    ],
)
def test_a_generator_that_is_seeded_at_once_takes_its_entropy_in_vain(
    call: str, is_hint: bool
) -> None:
    found: list[Hint | None] = []
    name = f"<cell {call}>"
    source = f"n = 7; nothing = None\nresult = {call}\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    cell: dict[str, Any] = {"__name__": "__main__"}

    # In NumPy it is C that asks, so that the caller of `random` is the cell.
    def getrandbits(*args: object, **words: object) -> None:
        found.append(entropy_hint(sys._getframe(), cell))

    asks = types.FunctionType(
        getrandbits.__code__,
        {"__name__": "random", "sys": sys, "entropy_hint": entropy_hint},
        closure=getrandbits.__closure__,
    )
    cell["RandomState"] = cell["default_rng"] = asks
    cell["numpy"] = types.SimpleNamespace(random=types.SimpleNamespace(RandomState=asks))
    exec(compile(source, name, "exec"), cell)  # noqa: S102
    (hint,) = found
    assert (hint is not None) is is_hint


def test_entropy_for_names_and_keys_is_no_hint() -> None:
    library = {"__name__": "multiprocessing.process", "found": []}
    run("def f(entropy):\n    entropy()", library)
    assert hints_of("f(entropy)", {"__name__": "__main__", "f": library["f"]}) == [None]
    library["__name__"] = "mine.process"
    assert hints_of("f(entropy)", {"__name__": "__main__", "f": library["f"]}) != [None]


def test_entropy_outside_cells_is_no_hint() -> None:
    assert entropy_hint(sys._getframe(), {}) is None


def test_a_script_run_by_a_cell_is_the_user_s_code() -> None:
    magics = {"__name__": "IPython.core.magics"}
    run("def run(f):\n    f()", magics)
    cell: dict[str, Any] = {"__name__": "__main__", "run": magics["run"]}
    (hint,) = hints_of("\n\nrun(lambda: exec('f()', {'__name__': '__main__', 'f': entropy}))", cell)
    assert hint is not None
    assert hint.line == 3


def test_hosts_are_hinted_at_unless_they_are_this_machine() -> None:
    cell: dict[str, Any] = {"hint": network_hint, "frame": sys._getframe}
    run("a = hint('example.org', frame(), globals())\nb = hint('localhost', frame(), {})", cell)
    assert (cell["a"].kind, cell["a"].line, cell["b"]) == ("network", 1, None)
    assert "example.org" in cell["a"].what
    assert network_hint("example.org", sys._getframe(), {}) is None


def test_there_is_no_line_without_a_cell() -> None:
    assert cell_line(sys._getframe(), {}) is None


def test_a_thread_of_the_user_that_goes_on_is_a_hint_and_one_of_a_library_is_not() -> None:
    namespace: dict[str, Any] = {"end": threading.Event()}
    exec("def wait():\n    end.wait()", namespace)  # noqa: S102 - made here
    thread = threading.Thread(target=namespace["wait"], name="of-the-user")
    other = threading.Thread(target=namespace["end"].wait, name="of-a-library")
    assert thread_hints(namespace) == []
    for each in (thread, other):
        each.start()
    (found,) = thread_hints(namespace)
    namespace["end"].set()
    for each in (thread, other):
        each.join()
    assert found.kind == "background"
    assert "of-the-user" in found.what
    assert thread_hints(namespace) == []
