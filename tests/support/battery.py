"""The state battery: what has to be as it was when a checkpoint is restored.

A case is three pieces of notebook code.  ``setup`` makes some state; a
checkpoint is taken; ``disturb`` is the timeline that will be abandoned and
spoils everything in sight; the checkpoint is restored; ``check`` asserts that
the state is as ``setup`` left it.  There are three ways to pass:

* right: ``check`` finds everything as it was, and nothing was reported;
* refused: the checkpoint was not taken, the reason names the culprit
  (``Case.refuse``), and the live state is unharmed;
* reported: ``check`` finds a difference and the restore said so
  (``Case.report``).

A difference that nobody mentions is a failure, and so is an alarm about
something that is as it was.

Run as a program (``python battery.py``) it proves, without any engine, that
every case can fail: one JSON line per case with what ``check`` says right
after ``setup`` and what it says after ``setup`` and ``disturb``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One piece of state, how to make it, spoil it and recognise it."""

    group: str
    name: str
    setup: tuple[str, ...]
    disturb: tuple[str, ...]
    check: str
    refuse: str = ""
    """What the reason of a refusal must say (a pattern); empty: it must not be refused."""
    report: tuple[str, ...] = ()
    """What the warnings of a restore must say (patterns); empty: there must be none."""
    cleanup: tuple[str, ...] = ()
    """Ends what a refused case has started, so that it does not outlive the case."""

    @property
    def id(self) -> str:
        """The case's name as part of a test's id."""
        return re.sub(r"\W+", "-", f"{self.group} {self.name}")


RIGHT = "RIGHT"
WRONG = "WRONG"


def checking_cell(check: str) -> str:
    """Return a cell that prints RIGHT, or WRONG and which line of ``check`` says so."""
    return f"""\
try:
{textwrap.indent(check, "    ")}
except BaseException as _why:
    import traceback as _traceback
    _line = [f.line for f in _traceback.extract_tb(_why.__traceback__)]
    print("{WRONG}:", type(_why).__name__, str(_why)[:200], "at", _line[:1] + _line[-1:])
    del _why
else:
    print("{RIGHT}")
import sys as _sys
_sys.stdout.flush()
"""


def verdict_in(text: str) -> str:
    """Return the line of a checking cell's output that is its verdict, or an empty string."""
    return next((line for line in text.splitlines() if line.startswith((RIGHT, WRONG))), "")


def _cells(code: str | Iterable[str]) -> tuple[str, ...]:
    sources = (code,) if isinstance(code, str) else code
    return tuple(textwrap.dedent(source).strip("\n") for source in sources)


CASES: list[Case] = []

WARM = {
    "namespace": "import numpy",
    "aliasing": "import numpy",
    "unpicklable": "import numpy",
    "process state": "import numpy",
    "shared with the system": "import numpy, multiprocessing.pool, concurrent.futures.process",
    "files on disk": "import sqlite3",
    "progress bars": "import tqdm",
}
"""What each group imports once, before its first case."""


def _group(name: str) -> Callable[..., None]:
    def add(
        case: str,
        *,
        setup: str | Sequence[str],
        disturb: str | Sequence[str],
        check: str,
        refuse: str = "",
        report: str | tuple[str, ...] = (),
        cleanup: str = "",
    ) -> None:
        CASES.append(
            Case(
                group=name,
                name=case,
                setup=_cells(setup),
                disturb=_cells(disturb),
                check=_cells(check)[0],
                refuse=refuse,
                report=(report,) if isinstance(report, str) else report,
                cleanup=_cells(cleanup) if cleanup else (),
            )
        )

    return add


# ============================================================ namespace
case = _group("namespace")

case(
    "scalars",
    setup="""
        import datetime, decimal, fractions, pathlib, uuid
        v = dict(i=7, big=2**200, f=0.1, c=1j, t=True, s="é", b=b"\\0x", n=None, e=...,
                 r=range(3, 9, 2), sl=slice(1, None), d=decimal.Decimal("1.10"),
                 q=fractions.Fraction(1, 3), p=pathlib.Path("a/b"), u=uuid.UUID(int=5),
                 day=datetime.date(2020, 2, 29))
        i, f, s = 1, 2.5, "text"
    """,
    disturb="""
        v.update({k: None for k in v}); v["new"] = 1
        i = f = s = None
    """,
    check="""
        assert (i, f, s) == (1, 2.5, "text")
        assert list(v) == "i big f c t s b n e r sl d q p u day".split()
        assert v["i"] == 7 and v["big"] == 1 << 200 and v["f"] == 0.1 and v["c"] == 1j
        assert v["t"] is True and v["s"] == "é" and v["b"] == b"\\0x" and v["n"] is None
        assert v["e"] is ... and v["r"] == range(3, 9, 2) and v["sl"] == slice(1, None)
        assert str(v["d"]) == "1.10" and v["q"] * 3 == 1 and v["u"].int == 5
        assert v["p"].name == "b" and v["day"].isoformat() == "2020-02-29"
    """,
)
case(
    "containers",
    setup="""
        import array, collections, heapq
        li, tu, se, fs = [3, [4]], (1, [2]), {1, 2}, frozenset("ab")
        di = {"z": 1, "a": {"n": [1]}}
        ba = bytearray(b"abc"); dq = collections.deque([1, 2, 3], maxlen=3)
        co = collections.Counter("hello"); od = collections.OrderedDict(x=1, y=2)
        cm = collections.ChainMap({"k": 1}, {"k": 2, "m": 3}); ar = array.array("d", [1, 2])
        hp = [5, 1, 4]; heapq.heapify(hp)
    """,
    disturb="""
        li[1].append(9); li.clear(); tu[1].append(9); se.add(99); fs = None
        di["a"]["n"].append(9); di["b"] = 1; ba.extend(b"zz"); dq.append(9); co.update("zzz")
        od.move_to_end("x"); cm["k"] = 50; ar.append(9); heapq.heappop(hp)
    """,
    check="""
        assert li == [3, [4]] and tu == (1, [2]) and se == {1, 2} and fs == frozenset("ab")
        assert di == {"z": 1, "a": {"n": [1]}} and list(di) == ["z", "a"]
        assert ba == b"abc" and list(dq) == [1, 2, 3] and dq.maxlen == 3 and co["l"] == 2
        assert "z" not in co and list(od) == ["x", "y"] and cm["k"] == 1 and cm.parents["k"] == 2
        assert ar.tolist() == [1, 2] and hp == [1, 5, 4]
    """,
)
case(
    "iteration order of sets",
    setup="""
        names = {f"name{i}" for i in range(200)}
        order = tuple(names)
    """,
    disturb="names.clear(); names.update(f'other{i}' for i in range(1000)); order = ()",
    check="""
        assert len(order) == 200
        assert tuple(names) == order
        assert hash("name1") == hash("name" + "1")
    """,
)
case(
    "numpy arrays of many kinds",
    setup="""
        import numpy as np
        a = np.arange(12.0).reshape(3, 4); f = np.asfortranarray(a)
        st = np.array([(1, "x")], dtype=[("n", "i4"), ("s", "U3")])
        ob = np.array([[1], {"k": 2}], dtype=object); ma = np.ma.masked_equal([1, 2, 3], 2)
        dt = np.array(["2020-01-01", "NaT"], dtype="M8[D]"); ro = np.ones(3)
        ro.flags.writeable = False
    """,
    disturb="""
        a[:] = -1; f += 100; st["n"] = 9; ob[0].append(5); ob[1] = None; ma.mask = False
        dt[:] = "NaT"; ro.flags.writeable = True; ro[:] = 0
    """,
    check="""
        assert (a == np.arange(12).reshape(3, 4)).all() and a.flags.c_contiguous
        assert (f == a).all() and f.flags.f_contiguous
        assert st["n"][0] == 1 and st["s"][0] == "x" and ob.tolist() == [[1], {"k": 2}]
        assert ma.sum() == 4 and np.isnat(dt).tolist() == [False, True]
        assert ro.sum() == 3 and not ro.flags.writeable
    """,
)
case(
    "a large array changed in place",
    setup="""
        import numpy as np
        big = np.arange(8_000_000, dtype="f8"); where = big.ctypes.data
    """,
    disturb="big *= 0.5; big[::4096] = np.nan; where = 0",
    check="""
        assert big.ctypes.data == where
        assert (big == np.arange(8_000_000)).all()
    """,
)
case(
    "pandas frames",
    setup="""
        import numpy as np, pandas as pd
        df = pd.DataFrame({"a": [1, 2, 3], "c": pd.Categorical(["x", "y", "x"]), "s": list("abc")},
                          index=pd.date_range("2024-01-01", periods=3, tz="UTC"))
        df.attrs["unit"] = "m"
        grouped = df.groupby("c", observed=True)["a"].sum()
    """,
    disturb="""
        df.loc[:, "a"] = 0; df["new"] = 1; df.drop(index=df.index[0], inplace=True)
        df.attrs.clear(); grouped[:] = -1; df.columns = list("pqrt")
    """,
    check="""
        assert list(df.columns) == ["a", "c", "s"] and df["a"].tolist() == [1, 2, 3]
        assert df["c"].cat.categories.tolist() == ["x", "y"] and df.attrs == {"unit": "m"}
        assert str(df.index.tz) == "UTC" and len(df) == 3 and grouped.to_dict() == {"x": 4, "y": 2}
    """,
)
case(
    "a class of a cell and its instances",
    setup="""
        class Point:
            made = 0
            def __init__(self, x): self.x = x; Point.made += 1
            def double(self): return self.x * 2
        p = Point(4); q = Point(5)
    """,
    disturb="""
        p.x = 0; q.__class__ = type("Other", (), {}); Point.double = lambda self: -1
        OldPoint = Point
        class Point:
            made = -5
    """,
    check="""
        assert type(p) is Point and type(q) is Point and Point.made == 2
        assert p.double() == 8 and q.double() == 10
        assert "OldPoint" not in globals()
        import pickle
        assert pickle.loads(pickle.dumps(p)).x == 4
    """,
)
case(
    "metaclasses and registries of subclasses",
    setup="""
        class Meta(type):
            known = []
            def __new__(m, name, bases, ns):
                cls = super().__new__(m, name, bases, ns); m.known.append(name); return cls
        class Base(metaclass=Meta):
            plugins = {}
            def __init_subclass__(cls, **kw): Base.plugins[cls.__name__] = cls
        class One(Base): pass
    """,
    disturb="""
        class Two(Base): pass
        Meta.known.clear(); Base.plugins.pop("One"); One.__bases__ = (Two,)
    """,
    check="""
        assert Meta.known == ["Base", "One"] and list(Base.plugins) == ["One"]
        assert [c.__name__ for c in Base.__subclasses__()] == ["One"]
        assert One.__mro__ == (One, Base, object) and "Two" not in globals()
    """,
)
case(
    "enums, dataclasses, named tuples, slots",
    setup="""
        import dataclasses, enum, typing
        class Color(enum.Enum): RED = 1; BLUE = 2
        @dataclasses.dataclass
        class D: a: int = 1; b: list = dataclasses.field(default_factory=list)
        class NT(typing.NamedTuple): x: int; y: str = "y"
        class S: __slots__ = ("u", "w")
        red, d, nt, s = Color.RED, D(b=[1]), NT(3), S(); s.u = "u"
    """,
    disturb="""
        d.b.append(2); d.a = 9; s.u = None; s.w = 1; nt = nt._replace(x=0); red = Color.BLUE
        class Color(enum.Enum): RED = 10
    """,
    check="""
        assert red is Color.RED and Color(1) is red and len(Color) == 2
        assert d == D(1, [1]) and nt == (3, "y") and s.u == "u" and not hasattr(s, "w")
    """,
)
case(
    "abstract classes and virtual subclasses",
    setup="""
        import abc
        class Shape(abc.ABC):
            @abc.abstractmethod
            def area(self): ...
        class Duck: pass
        before = issubclass(Duck, Shape)
    """,
    disturb="Shape.register(Duck); assert issubclass(Duck, Shape); Shape.area = None",
    check="""
        assert not before and not issubclass(Duck, Shape)
        assert Shape.__abstractmethods__ == {"area"} and callable(Shape.area)
    """,
)
case(
    "functions with attributes, defaults and code",
    setup="""
        def f(x, acc=[], *, scale=2):
            acc.append(x); return sum(acc) * scale
        f(1); f.calls = 1
        g = f
    """,
    disturb="""
        f(100); f.calls = 99; f.__kwdefaults__["scale"] = 0
        f.__code__ = (lambda x, acc: -1).__code__
        def f(x): return None
    """,
    check="""
        assert g is f and f.calls == 1 and f.__defaults__ == ([1],)
        assert f(2) == 6 and f(0, scale=1) == 3
    """,
)
case(
    "source of functions written in cells",
    setup=(
        """
        def shout(text):
            # a comment that only the source has
            return text.upper()
        """,
        "import inspect; text_before = inspect.getsource(shout)",
    ),
    disturb="""
        def shout(text): return "quiet"
        text_before = ""
    """,
    check="""
        assert "only the source has" in inspect.getsource(shout)
        assert inspect.getsource(shout) == text_before and shout("a") == "A"
    """,
)
case(
    "closures",
    setup="""
        def counter():
            n = 0; seen = []
            def up(by=1):
                nonlocal n
                n += by; seen.append(by); return n
            def look(): return n, list(seen)
            return up, look
        up, look = counter(); up(); up(5)
    """,
    disturb="up(1000); up.__closure__[0].cell_contents = -7; look = None",
    check="assert look() == (6, [1, 5]) and up() == 7 and look() == (7, [1, 5, 1])",
)
case(
    "decorators that keep state",
    setup="""
        import functools
        calls = []
        @functools.lru_cache(maxsize=4)
        def slow(x): calls.append(x); return x * x
        slow(2); slow(2); slow(3)
        @functools.singledispatch
        def kind(x): return "any"
        class Lazy:
            @functools.cached_property
            def value(self): calls.append("lazy"); return object()
        lazy = Lazy(); first = lazy.value
        part = functools.partial(slow, 3)
    """,
    disturb="""
        slow.cache_clear(); slow(9); kind.register(int, lambda x: "int"); lazy.value = None
        calls.append("x"); part = None
    """,
    check="""
        info = slow.cache_info()
        assert (info.hits, info.misses, info.currsize) == (1, 2, 2)
        assert calls == [2, 3, "lazy"] and kind(1) == "any" and lazy.value is first
        assert part() == 9 and slow.cache_info().hits == 2
    """,
)
case(
    "a patched module",
    setup="""
        import math, textwrap
        math.tau_half = 3.0; textwrap.original = textwrap.shorten
        textwrap.shorten = lambda *a, **k: "patched"
    """,
    disturb="math.tau_half = None; textwrap.shorten = textwrap.original; math.pi = 3; del math.e",
    check="""
        assert math.tau_half == 3.0 and 3.14 < math.pi < 3.15 and 2.7 < math.e < 2.8
        assert textwrap.shorten("a b", 9) == "patched" and textwrap.original("a b", 9) == "a b"
    """,
)
case(
    "a module of the user, changed in memory and reloaded",
    setup="""
        import importlib, os, sys
        open("battery_mod.py", "w").write("x = 1\\nclass K: pass\\n")
        sys.path.insert(0, os.getcwd())
        import battery_mod
        battery_mod.x = 5; K, k = battery_mod.K, battery_mod.K()
    """,
    disturb="importlib.reload(battery_mod); K = None; sys.path.pop(0)",
    check="""
        assert battery_mod.x == 5 and battery_mod.K is K and type(k) is K
        assert sys.modules["battery_mod"] is battery_mod and sys.path[0] == os.getcwd()
    """,
)
case(
    "modules imported later are gone",
    setup="import sys; missing = 'mailbox' not in sys.modules",
    disturb="""
        import mailbox; from wsgiref import handlers; sys.modules['invented'] = sys; missing = 0
    """,
    check="""
        assert missing is True
        assert "mailbox" not in sys.modules and "invented" not in sys.modules
        assert "mailbox" not in globals() and "handlers" not in globals()
    """,
)
case(
    "builtins",
    setup="""
        import builtins
        builtins.answer = 42; list_before = builtins.list; list = [1]
    """,
    disturb="del builtins.answer; builtins.pow = None; del list; builtins.extra = 1",
    check="""
        assert answer == 42 and pow(2, 3) == 8 and list == [1] and not hasattr(builtins, "extra")
        assert builtins.list is list_before
    """,
)
case(
    "deleted and added names",
    setup="kept = 'kept'; gone = 1; del gone",
    disturb="del kept; gone = 2; added = 3",
    check="""
        assert kept == "kept" and "gone" not in globals() and "added" not in globals()
    """,
)
case(
    "history: In, Out and the underscores",
    setup=("start = len(In) - 1", "6 * 7", "'second'"),
    disturb=("'lost'", "Out.clear(); In.append('rubbish')", "123"),
    check="""
        assert _ == "second" and __ == 42 and Out[start + 1] == 42 and Out[start + 2] == "second"
        assert start + 3 not in Out and In[start + 1] == "6 * 7" and _ih is In
        assert In[-1].startswith("try:") and len(In) == start + 4 and _i == "'second'"
    """,
)
case(
    "execution count",
    setup=("start = get_ipython().execution_count", "pass"),
    disturb=("pass", "pass", "get_ipython().execution_count = 1000"),
    check="assert get_ipython().execution_count == start + 2",
)
case(
    "IPython: magics, hooks, aliases, formatters",
    setup="""
        from IPython.core.magic import register_line_magic
        @register_line_magic
        def shout(line): return line.upper()
        ran = []
        def hook(): ran.append(1)
        get_ipython().events.register("post_execute", hook)
        class Nice: pass
        html = get_ipython().display_formatter.formatters["text/html"]
        html.for_type(Nice, lambda o: "<b>nice</b>")
        get_ipython().run_line_magic("alias", "hello echo hello")
        get_ipython().ast_node_interactivity = "last"
    """,
    disturb="""
        get_ipython().events.unregister("post_execute", hook); html.pop(Nice)
        get_ipython().magics_manager.magics["line"].pop("shout")
        get_ipython().run_line_magic("unalias", "hello")
        get_ipython().ast_node_interactivity = "all"
    """,
    check="""
        assert get_ipython().run_line_magic("shout", "abc") == "ABC"
        assert html(Nice()) == "<b>nice</b>" and len(ran) == 1
        assert hook in get_ipython().events.callbacks["post_execute"]
        assert get_ipython().find_line_magic("hello") is not None
        assert get_ipython().ast_node_interactivity == "last"
    """,
)
case(
    "weak references",
    setup="""
        import weakref
        class Node: pass
        node = Node(); died = []
        ref = weakref.ref(node, lambda r: died.append(1))
        by_name = weakref.WeakValueDictionary(n=node)
        marks = weakref.WeakKeyDictionary({node: "m"})
        proxy = weakref.proxy(node); node.x = 3
    """,
    disturb="del node; assert ref() is None and died == [1]",
    check="""
        assert ref() is node and died == [] and by_name["n"] is node and marks[node] == "m"
        assert proxy.x == 3
        del node
        assert ref() is None and died == [1] and len(by_name) == 0
    """,
)
case(
    "identity",
    setup="""
        class T: pass
        objects = [T(), [], {}, (1, 2), "a long string, not interned!", 10**30, lambda: 0, T]
        ids = [id(o) for o in objects]; by_id = {id(o): o for o in objects}
    """,
    disturb="objects = [T(), [], {}]; ids = by_id = None",
    check="""
        assert len(ids) == 8 and [id(o) for o in objects] == ids
        assert all(by_id[id(o)] is o for o in objects)
    """,
)
case(
    "interned strings and small singletons",
    setup="""
        import sys
        parts = ["chex", "-battery-", "intern"]
        word = sys.intern("".join(parts)); one = int("1"); empty = ()
    """,
    disturb="del word; other = sys.intern(''.join(parts)); one = 2; empty = [1]",
    check="""
        assert sys.intern("".join(parts)) is word and one is int("1") and empty is ()[:]
    """,
)
case(
    "annotations of the notebook",
    setup="count: int = 3\nname: 'str'",
    disturb="count: float = 4.0\nother: bytes = b''\n__annotations__.pop('name')",
    check="assert __annotations__ == {'count': int, 'name': 'str'} and count == 3",
)
case(
    "the last exception",
    setup=("def fail():\n    local = 'evidence'\n    1 / 0", "fail()"),
    disturb=("import sys; sys.last_value = None", "{}['other']"),
    check="""
        import sys
        assert type(sys.last_value) is ZeroDivisionError and sys.last_type is ZeroDivisionError
        tb = sys.last_traceback
        while tb.tb_next: tb = tb.tb_next
        assert tb.tb_frame.f_locals == {"local": "evidence"}
    """,
)
case(
    "__main__ is the notebook",
    setup="import __main__; __main__.through_main = 1; here = globals()",
    disturb="__main__.through_main = 2; here = None",
    check="""
        import sys
        assert through_main == 1 and sys.modules["__main__"].__dict__ is globals() is here
    """,
)
case(
    "a large graph of small objects",
    setup="""
        graph = [{"id": i, "next": None, "tags": [str(i)]} for i in range(30_000)]
        for a, b in zip(graph, graph[1:]): a["next"] = b
    """,
    disturb="""
        for item in graph[::3]: item["tags"].append("spoiled"); item["next"] = None
        graph.reverse(); del graph[1000:]
    """,
    check="""
        assert len(graph) == 30_000 and all(g["tags"] == [str(i)] for i, g in enumerate(graph))
        assert all(a["next"] is b for a, b in zip(graph, graph[1:]))
    """,
)
case(
    "finalizers of the abandoned timeline do not run",
    setup="""
        import os
        class Handle:
            def __del__(self): open("closed", "a").write("x")
        handle = Handle(); state = "setup"
    """,
    disturb="state = 'disturbed'; more = [Handle() for _ in range(3)]",
    check="""
        assert state == "setup" and not os.path.exists("closed")
        del handle
        assert os.path.getsize("closed") == 1
        os.remove("closed")
    """,
)

# ============================================================ aliasing
case = _group("aliasing")

case(
    "objects shared by names and containers",
    setup="""
        inner = [1]
        a = {"in": inner}; b = (inner, a); c = [inner] * 3
        class Box: pass
        box = Box(); box.content = inner
    """,
    disturb="inner.append(2); a['in'] = list(inner); c[0] = None; box.content = []",
    check="""
        assert a["in"] is inner and b[0] is inner and b[1] is a and box.content is inner
        assert all(x is inner for x in c) and inner == [1]
        inner.append("seen")
        assert b[1]["in"][-1] == "seen" and c[2] == [1, "seen"]
    """,
)
case(
    "numpy views",
    setup="""
        import numpy as np
        base = np.arange(24.0); view = base[::2]; square = base.reshape(4, 6); flip = square.T[::-1]
        strided = np.lib.stride_tricks.as_strided(base, (5, 4), (32, 8))
    """,
    disturb="base[:] = 0; view = view.copy(); square = square * 1; strided = None; flip[:] = 9",
    check="""
        assert view.base is base and np.shares_memory(square, base) and np.shares_memory(flip, view)
        assert base.sum() == 276
        base[4] = 100
        assert view[2] == square[0, 4] == flip[1, 0] == strided[1, 0] == 100
    """,
)
case(
    "pandas over numpy memory",
    setup="""
        import numpy as np, pandas as pd
        raw = np.arange(6.0); s = pd.Series(raw, copy=False)
        df = pd.DataFrame(raw.reshape(3, 2), copy=False)
        part = df[[0]]; shallow = s.copy(deep=False)
        shared = np.shares_memory(raw, s.to_numpy())
    """,
    disturb="raw[:] = -1; s.iloc[0] = 7; df.loc[0, 0] = 5; part = None",
    check="""
        assert shared and np.shares_memory(raw, s.to_numpy()) and s.tolist() == [0, 1, 2, 3, 4, 5]
        raw[2] = 50
        assert s.iloc[2] == 50 and df.loc[1, 0] == 50 and part[0].tolist()[1] == 50
        shallow.iloc[0] = 9
        assert s.iloc[0] == 0
    """,
)
case(
    "cycles",
    setup="""
        import weakref
        loop = []; loop.append(loop)
        class Tree:
            def __init__(self, up=None): self.up = up; self.down = []
        top = Tree(); top.down = [Tree(top), Tree(top)]; ref = weakref.ref(top)
    """,
    disturb="loop.append(1); top.down[0].up = None; top.down.pop()",
    check="""
        assert loop[0] is loop and len(loop) == 1
        assert [t.up is top for t in top.down] == [True, True]
        import gc
        del top
        gc.collect()
        assert ref() is None
    """,
)
case(
    "memoryview",
    setup="""
        buf = bytearray(b"0123456789"); mv = memoryview(buf); sub = mv[2:5]
        words = memoryview(bytearray(8)).cast("I")
    """,
    disturb="sub[:] = b'xxx'; mv.release(); words[0] = 5; sub.release(); buf.extend(b'more')",
    check="""
        assert bytes(mv) == b"0123456789" and bytes(sub) == b"234" and words[0] == 0
        sub[0] = ord("Z")
        assert buf == b"01Z3456789"
        try: buf.extend(b"no"); assert False, "an exported buffer must not grow"
        except BufferError: pass
    """,
)
case(
    "bound methods",
    setup="""
        class Acc:
            def __init__(self): self.items = []
            def add(self, x): self.items.append(x); return len(self.items)
        acc = Acc(); add = acc.add; push = acc.items.append; push(0)
    """,
    disturb="add(1); acc.items = []; acc = Acc(); push('z')",
    check="""
        assert add.__self__ is acc and push.__self__ is acc.items and acc.items == [0]
        add(1); push(2)
        assert acc.items == [0, 1, 2]
    """,
)
case(
    "defaultdict and its factory",
    setup="""
        import collections, itertools
        ids = itertools.count(10); number = collections.defaultdict(ids.__next__)
        number["a"], number["b"]
        tree = lambda: collections.defaultdict(tree)
        root = tree(); root["x"]["y"]["z"] = 1
    """,
    disturb="number['c'], number['d']; next(ids); root['x']['w']; number.default_factory = list",
    check="""
        assert dict(number) == {"a": 10, "b": 11} and number["c"] == 12 and next(ids) == 13
        assert list(root["x"]) == ["y"] and root["x"]["y"]["z"] == 1
    """,
)
case(
    "dictionary views and mapping proxies",
    setup="""
        import types
        d = {"a": 1}; keys, items, proxy = d.keys(), d.items(), types.MappingProxyType(d)
    """,
    disturb="d['b'] = 2; d = {}; keys = None",
    check="""
        assert list(keys) == ["a"] and proxy["a"] == 1
        d["new"] = 5
        assert "new" in keys and ("new", 5) in items and proxy["new"] == 5
    """,
)
case(
    "iterators over a list that still grows",
    setup="lst = [1, 2, 3]; it = iter(lst); next(it); rev = reversed(lst); next(rev)",
    disturb="list(it); lst.clear(); list(rev)",
    check="""
        lst.append(4)
        assert list(it) == [2, 3, 4] and list(rev) == [2, 1]
    """,
)
case(
    "ctypes and numpy over one buffer",
    setup="""
        import ctypes, numpy as np
        store = bytearray(16); n = np.frombuffer(store, "i4")
        c = (ctypes.c_int * 4).from_buffer(store)
        c[1] = 7; where = ctypes.addressof(c)
    """,
    disturb="n[:] = -1; c[0] = 3; where = 0",
    check="""
        assert n.tolist() == [0, 7, 0, 0] and ctypes.addressof(c) == where == n.ctypes.data
        c[2] = 9
        assert n[2] == 9 and store[8] == 9
    """,
)
case(
    "a torch tensor over numpy memory",
    setup="""
        import numpy as np, torch
        n = np.zeros(4, "f4"); t = torch.from_numpy(n); w = torch.ones(3, requires_grad=True)
        loss = (w * 2).sum(); tied = torch.nn.Linear(3, 3); other = torch.nn.Linear(3, 3)
        other.weight = tied.weight
    """,
    disturb="""
        t += 5; n = n.copy(); loss.backward()
        with torch.no_grad(): tied.weight.zero_()
        other.weight = torch.nn.Parameter(torch.ones(3, 3))
    """,
    check="""
        assert n.sum() == 0 and w.grad is None and other.weight is tied.weight
        t[1] = 3
        assert n[1] == 3 and bool(tied.weight.any())
        loss.backward()
        assert w.grad.tolist() == [2, 2, 2]
    """,
)
case(
    "two closures over one variable",
    setup="""
        def pair():
            x = [0]; y = 1
            def put(v):
                nonlocal y
                y = v; x.append(v)
            return put, lambda: (x, y)
        put, get = pair(); put(5)
    """,
    disturb="put(6); get()[0].clear(); get = None",
    check="""
        assert get() == ([0, 5], 5) and put.__closure__[1] is get.__closure__[1]
        put(8)
        assert get() == ([0, 5, 8], 8)
    """,
)
case(
    "queues and conditions sharing a lock",
    setup="""
        import queue, threading
        q = queue.Queue(maxsize=3); q.put("a"); q.put("b")
        lock = threading.Lock(); cond = threading.Condition(lock); also = threading.Condition(lock)
    """,
    disturb="q.get(); q.put('c'); q.put('d'); lock = threading.Lock(); q.queue.clear()",
    check="""
        assert list(q.queue) == ["a", "b"] and q.not_empty._lock is q.mutex
        assert q.get(timeout=1) == "a"
        with cond: assert lock.locked() and not also.acquire(blocking=False)
        assert not lock.locked()
    """,
)
case(
    "names taken from a module",
    setup="""
        import types
        mod = types.ModuleType("battery_inner")
        exec("table = {}\\ndef put(k): table[k] = 1", mod.__dict__)
        table, put = mod.table, mod.put; put("a")
    """,
    disturb="put('b'); mod.table = {}; table = None",
    check="""
        assert table is mod.table is put.__globals__["table"] and table == {"a": 1}
        mod.put("z")
        assert table == {"a": 1, "z": 1}
    """,
)

# ============================================================ unpicklable
case = _group("unpicklable")

case(
    "a half consumed generator",
    setup="""
        log = []
        def gen():
            try:
                for i in range(5):
                    got = yield i
                    log.append(got)
            finally:
                log.append("closed")
        g = gen(); next(g); g.send("x")
        expr = (i * i for i in range(4)); next(expr)
        def outer(): yield from inner
        inner = iter([1, 2, 3]); o = outer(); next(o)
    """,
    disturb="g.send('y'); g.close(); list(expr); list(o)",
    check="""
        assert log == ["x"] and g.gi_frame.f_locals["i"] == 1
        assert g.send("z") == 2 and list(expr) == [1, 4, 9] and list(o) == [2, 3]
        g.close()
        assert log == ["x", "z", "closed"]
    """,
)
case(
    "coroutines",
    setup="""
        import types
        @types.coroutine
        def switch(): return (yield "switched")
        steps = []
        async def work():
            steps.append("start"); got = await switch(); steps.append(got); return "done"
        fresh, half = work(), work(); half.send(None)
    """,
    disturb="""
        try: half.send("abandoned")
        except StopIteration: pass
        fresh.close()
    """,
    check="""
        assert steps == ["start"] and half.cr_frame is not None and fresh.cr_frame is not None
        try: half.send("resumed"); assert False
        except StopIteration as stop: assert stop.value == "done"
        assert steps == ["start", "resumed"] and fresh.send(None) == "switched"
    """,
)
case(
    "asynchronous generators",
    setup="""
        async def ticks():
            for i in range(4): yield i
        agen = ticks()
        first = await agen.__anext__()
    """,
    disturb="rest = [x async for x in agen]; first = None",
    check="""
        assert first == 0 and [x async for x in agen] == [1, 2, 3]
    """,
)
case(
    "lambdas and local classes",
    setup="""
        def make(n):
            class Local:
                factor = n
                def __call__(self, x): return x * self.factor
            return Local(), (lambda x: x + n)
        mul, add = make(3); table = {"sq": lambda x: x * x}
    """,
    disturb="type(mul).factor = 0; add = None; table['sq'] = lambda x: 0",
    check="""
        assert mul(5) == 15 and add(5) == 8 and table["sq"](5) == 25
        assert type(mul).__qualname__ == "make.<locals>.Local"
    """,
)
case(
    "locks and other primitives of one thread",
    setup="""
        import threading
        lock, rlock = threading.Lock(), threading.RLock()
        sem, ev = threading.Semaphore(3), threading.Event()
        lock.acquire(); rlock.acquire(); rlock.acquire(); sem.acquire(); ev.set()
    """,
    disturb="lock.release(); rlock.release(); rlock.release(); sem.release(); ev.clear()",
    check="""
        assert lock.locked() and sem._value == 2 and ev.is_set()
        rlock.release(); rlock.release()
        try: rlock.release(); assert False
        except RuntimeError: pass
        lock.release()
        assert lock.acquire(timeout=1)
    """,
)
case(
    "frames and tracebacks",
    setup="""
        import sys
        def grab():
            secret = [41]; secret[0] += 1
            return sys._getframe()
        frame = grab()
        def fail(x): return x["missing"]
        try: fail({})
        except KeyError as err: saved = err
    """,
    disturb="frame.f_locals['secret'].append(0); frame.clear(); saved.__traceback__ = None",
    check="""
        assert frame.f_locals["secret"] == [42] and frame.f_code is grab.__code__
        assert saved.__traceback__.tb_next.tb_frame.f_locals == {"x": {}}
    """,
)
case(
    "ctypes objects and callbacks",
    setup="""
        import ctypes
        class Pair(ctypes.Structure): _fields_ = [("a", ctypes.c_int), ("next", ctypes.c_void_p)]
        pair = Pair(3, 0); ptr = ctypes.pointer(pair); seen = []
        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
        def compare(x, y): seen.append(1); return x[0] - y[0]
        libc = ctypes.CDLL(None); numbers = (ctypes.c_int * 4)(4, 2, 3, 1)
        block = libc.malloc; block.restype = ctypes.c_void_p; raw = block(64)
        ctypes.memset(raw, 65, 8)
    """,
    disturb="""
        pair.a = 0; libc.qsort(numbers, 4, 4, compare); ctypes.memset(raw, 66, 64)
    """,
    check="""
        assert ptr.contents.a == 3 and seen == [] and list(numbers) == [4, 2, 3, 1]
        assert ctypes.string_at(raw, 8) == b"A" * 8
        libc.qsort(numbers, 4, 4, compare)
        assert list(numbers) == [1, 2, 3, 4] and seen
    """,
)
case(
    "weakref.finalize",
    setup="""
        import weakref
        class Res: pass
        res = Res(); freed = []
        fin = weakref.finalize(res, freed.append, "freed"); fin.atexit = False
    """,
    disturb="del res; assert freed == ['freed'] and not fin.alive",
    check="""
        assert fin.alive and freed == [] and fin.peek()[0] is res
        del res
        assert freed == ["freed"]
    """,
)
case(
    "context variables",
    setup="""
        import contextvars
        var = contextvars.ContextVar("var", default="default")
        token = var.set("cell"); own = contextvars.copy_context(); own.run(var.set, "own")
    """,
    disturb="var.reset(token); own.run(var.set, 'spoiled'); var.set('other')",
    check="""
        assert var.get() == "cell" and own[var] == "own"
    """,
)
case(
    "regular expression iterators and scanners",
    setup="""
        import re
        it = re.finditer(r"\\w", "abcd"); next(it)
        scan = re.compile(r"\\d").scanner("1a2b3"); scan.search()
        words = re.Scanner([(r"[a-z]+", lambda s, t: t.upper()), (r"\\s+", None)])
        match = re.match("(?P<x>a)b", "ab")
    """,
    disturb="list(it); scan.search(); scan.search(); words = match = None",
    check="""
        assert [m[0] for m in it] == ["b", "c", "d"] and scan.search()[0] == "2"
        assert words.scan("ab cd")[0] == ["AB", "CD"] and match["x"] == "a"
        assert match.span() == (0, 2)
    """,
)
case(
    "itertools and builtin iterators",
    setup="""
        import itertools
        count = itertools.count(5); next(count); cyc = itertools.cycle("ab"); next(cyc)
        left, right = itertools.tee(iter(range(4))); next(left); next(left)
        gr = itertools.groupby("aabb"); key, run = next(gr); next(run)
        acc = itertools.accumulate([1, 2, 3]); next(acc)
        zi, ma, en = zip("ab", [1, 2]), map(str, [1, 2]), enumerate("xy")
        next(zi), next(ma), next(en)
        chain = itertools.chain([1], [2, 3]); next(chain)
    """,
    disturb="""
        next(count), next(cyc), list(left), list(right), list(gr), list(acc)
        list(zi), list(ma), list(en), list(chain)
    """,
    check="""
        assert next(count) == 6 and next(cyc) == "b" and list(left) == [2, 3]
        assert list(right) == [0, 1, 2, 3] and list(run) == ["a"] and next(gr)[0] == "b"
        assert list(acc) == [3, 6] and list(zi) == [("b", 2)] and list(ma) == ["2"]
        assert list(en) == [(1, "y")] and list(chain) == [2, 3]
    """,
)
case(
    "sqlite in memory",
    setup="""
        import sqlite3
        con = sqlite3.connect(":memory:")
        con.execute("create table t (x)"); con.execute("create temp table tt (y)")
        con.executemany("insert into t values (?)", [(i,) for i in range(5)]); con.commit()
        con.execute("insert into tt values ('temp')")
        con.create_function("twice", 1, lambda v: v * 2)
        cur = con.execute("select x from t order by x"); cur.fetchone()
    """,
    disturb="cur.fetchall(); con.rollback(); con.execute('drop table t'); con.close()",
    check="""
        assert cur.fetchone() == (1,) and con.in_transaction
        assert con.execute("select y from tt").fetchall() == [("temp",)]
        assert con.execute("select twice(max(x)) from t").fetchone() == (8,)
        con.rollback()
        assert con.execute("select count(*) from tt").fetchone() == (0,)
    """,
)
case(
    "thread-local values",
    setup="""
        import threading
        local = threading.local(); local.x = [1]
        class Typed(threading.local):
            def __init__(self): self.y = "init"
        typed = Typed(); typed.y = "set"
    """,
    disturb="local.x.append(2); del local.x; typed.y = None",
    check="assert local.x == [1] and typed.y == 'set'",
)
case(
    "hashes, compressors, decoders in the middle",
    setup="""
        import bz2, codecs, hashlib, hmac, lzma, zlib
        h = hashlib.sha256(b"part one"); m = hmac.new(b"k", b"one", "md5")
        data = zlib.compress(b"hello " * 100); dec = zlib.decompressobj()
        head = dec.decompress(data[:5]); com = zlib.compressobj(); body = com.compress(b"abc")
        lz = lzma.LZMACompressor(); lzhead = lz.compress(b"x" * 50)
        utf = codecs.getincrementaldecoder("utf-8")(); start = utf.decode("é".encode()[:1])
    """,
    disturb="""
        h.update(b"spoil"); m.update(b"spoil"); dec.decompress(data[5:]); com.flush(); lz.flush()
        utf.reset()
    """,
    check="""
        h.update(b" two"); m.update(b" two")
        assert h.hexdigest() == hashlib.sha256(b"part one two").hexdigest()
        assert m.hexdigest() == hmac.new(b"k", b"one two", "md5").hexdigest()
        assert head + dec.decompress(data[5:]) == b"hello " * 100
        assert zlib.decompress(body + com.flush()) == b"abc"
        assert lzma.decompress(lzhead + lz.flush())
        assert start + utf.decode("é".encode()[1:]) == "é"
    """,
)
case(
    "matplotlib figures",
    setup="""
        from matplotlib.figure import Figure
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        import numpy as np
        fig = Figure(figsize=(2, 2), dpi=50); canvas = FigureCanvasAgg(fig); ax = fig.add_subplot()
        line, = ax.plot([1, 2, 3]); ax.set_title("before"); canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba()).copy(); clicks = []
        cid = fig.canvas.mpl_connect("draw_event", lambda e: clicks.append(1))
    """,
    disturb="""
        line.set_ydata([9, 9, 9]); ax.set_title("after"); ax.clear(); canvas.draw()
        fig.canvas.mpl_disconnect(cid); pixels[:] = 0
    """,
    check="""
        assert ax.get_title() == "before" and line.get_ydata().tolist() == [1, 2, 3]
        assert clicks == []
        canvas.draw()
        assert (np.asarray(canvas.buffer_rgba()) == pixels).all() and len(clicks) == 1
    """,
)
case(
    "the figures of pyplot",
    setup="""
        import matplotlib; matplotlib.use("agg")
        import matplotlib.pyplot as plt
        f1 = plt.figure("one"); plt.plot([1, 2]); f2 = plt.figure("two"); plt.figure("one")
        plt.rcParams["lines.linewidth"] = 7
    """,
    disturb="plt.close('all'); plt.figure('three'); plt.rcdefaults()",
    check="""
        assert plt.get_figlabels() == ["one", "two"] and plt.gcf() is f1
        assert len(plt.gca().lines) == 1 and plt.rcParams["lines.linewidth"] == 7
    """,
)
case(
    "compiled numba functions",
    setup="""
        import numba
        @numba.njit
        def total(n):
            s = 0
            for i in range(n): s += i
            return s
        total(10); kinds = list(total.signatures)
    """,
    disturb="total(2.5); kinds = None; assert len(total.signatures) == 2",
    check="""
        assert list(total.signatures) == kinds and len(kinds) == 1 and total(1000) == 499500
    """,
)
case(
    "files in memory",
    setup="""
        import io
        text = io.StringIO("one\\ntwo\\nthree\\n"); text.readline()
        raw = io.BytesIO(b"abcdef"); raw.read(2); buffered = io.BufferedReader(raw, 4)
        buffered.read(1)
        wrap = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"); wrap.write("pending")
    """,
    disturb="text.read(); buffered.read(); raw.seek(0); wrap.write('more'); wrap.flush()",
    check="""
        assert text.read() == "two\\nthree\\n" and buffered.read() == b"def"
        assert wrap.buffer.getvalue() == b""
        wrap.flush()
        assert wrap.buffer.getvalue() == b"pending"
    """,
)
case(
    "readers of text and XML in the middle",
    setup="""
        import csv, io, json, tokenize, xml.etree.ElementTree as ET
        rows = csv.reader(io.StringIO("a,b\\n1,2\\n3,4\\n")); next(rows)
        pull = ET.XMLPullParser(["end"]); pull.feed("<r><a/><b")
        seen = [e.tag for _, e in pull.read_events()]
        toks = tokenize.generate_tokens(io.StringIO("a = 1\\n").readline); next(toks)
        enc = json.JSONEncoder().iterencode([1, [2]]); next(enc)
    """,
    disturb="list(rows); pull.feed('/></r>'); list(toks); list(enc)",
    check="""
        assert list(rows) == [["1", "2"], ["3", "4"]] and seen == ["a"]
        pull.feed("/><c/></r>")
        assert [e.tag for _, e in pull.read_events()] == ["b", "c", "r"]
        assert next(toks).string == "=" and "".join(enc) == ", [2]]"
    """,
)
case(
    "random generators as objects",
    setup="""
        import random, numpy as np
        r = random.Random(4); r.random(); r.gauss(0, 1)
        g = np.random.default_rng(7); g.normal(); kids = g.spawn(1)
        it = np.nditer(np.arange(4)); next(it)
        order = list(range(8)); r.shuffle(order)
        state, gstate = r.getstate(), g.bit_generator.state
    """,
    disturb="r.seed(0); r.random(); g.normal(size=100); g.spawn(2); list(it); r.shuffle(order)",
    check="""
        assert r.getstate() == state and g.bit_generator.state == gstate
        assert sorted(order) == list(range(8)) and [int(x) for x in it] == [1, 2, 3]
        ref = np.random.default_rng(7); ref.normal(); ref.spawn(1)
        assert g.normal() == ref.normal() and g.spawn(1)[0].normal() == ref.spawn(1)[0].normal()
    """,
)
case(
    "futures and events of asyncio",
    setup="""
        import asyncio
        loop = asyncio.get_running_loop()
        fut = loop.create_future(); ev = asyncio.Event(); lock = asyncio.Lock()
        await lock.acquire()
        async def waiter(): await ev.wait(); return await fut
        task = asyncio.create_task(waiter()); await asyncio.sleep(0)
        hits = []; fut.add_done_callback(lambda f: hits.append(f.result()))
    """,
    disturb="fut.set_result('abandoned'); ev.set(); lock.release(); await task",
    check="""
        assert not fut.done() and not ev.is_set() and lock.locked() and not task.done() and not hits
        ev.set(); fut.set_result("restored")
        assert await asyncio.wait_for(task, 5) == "restored" and hits == ["restored"]
        assert asyncio.get_running_loop() is loop
    """,
)
case(
    "capsules and foreign handles",
    setup="""
        import numpy as np, datetime
        arr = np.arange(3.0); cap = arr.__dlpack__()
        struct = arr.__array_struct__
        class Once:
            def __dlpack__(self, **kw): return cap
            def __dlpack_device__(self): return arr.__dlpack_device__()
    """,
    disturb="np.from_dlpack(Once()); arr[:] = 9; del struct",
    check="""
        assert "dltensor" in repr(cap) and "used" not in repr(cap)
        again = np.from_dlpack(Once())
        assert again.tolist() == [0, 1, 2] and struct is not None
    """,
)
case(
    "arrow streams",
    setup="""
        import pyarrow as pa
        batches = [pa.record_batch({"x": [i, i + 1]}) for i in range(3)]
        reader = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
        first = reader.read_next_batch(); sink = pa.BufferOutputStream(); sink.write(b"abc")
    """,
    disturb="reader.read_all(); sink.write(b'spoil'); sink.close(); first = None",
    check="""
        assert first["x"].to_pylist() == [0, 1]
        assert reader.read_all()["x"].to_pylist() == [1, 2, 2, 3]
        assert not sink.closed and sink.getvalue().to_pybytes() == b"abc"
    """,
    refuse="arrow",
)
case(
    "a pending exception context and open with-blocks",
    setup="""
        import contextlib, io
        closed = []
        @contextlib.contextmanager
        def managed(name):
            try: yield name
            finally: closed.append(name)
        stack = contextlib.ExitStack(); a = stack.enter_context(managed("a"))
        stack.callback(closed.append, "callback"); buf = io.StringIO()
        stack.enter_context(contextlib.redirect_stderr(buf))
    """,
    disturb="stack.close(); assert closed == ['callback', 'a']",
    check="""
        import sys
        assert closed == [] and sys.stderr is buf
        stack.close()
        assert closed == ["callback", "a"] and sys.stderr is not buf
    """,
)

# ============================================================ process state
case = _group("process state")

case(
    "the random module, seeded",
    setup="import random; random.seed(11); random.random(); random.gauss(0, 1)",
    disturb="random.seed(99); [random.random() for _ in range(10)]",
    check="""
        ref = random.Random(11); ref.random(); ref.gauss(0, 1)
        assert random.gauss(0, 1) == ref.gauss(0, 1) and random.random() == ref.random()
    """,
)
case(
    "the random module, never seeded",
    setup="import random; state = random.getstate()",
    disturb="random.random(); state = None",
    check="assert random.getstate() == state",
)
case(
    "numpy's global generator",
    setup="import numpy as np; np.random.seed(3); np.random.normal()",
    disturb="np.random.seed(0); np.random.rand(1000)",
    check="""
        ref = np.random.RandomState(3); ref.normal()
        assert np.random.normal() == ref.normal() and np.random.rand() == ref.rand()
    """,
)
case(
    "torch's generator",
    setup="""
        import torch
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(5); torch.rand(3); own = torch.Generator().manual_seed(8)
        torch.rand(2, generator=own)
    """,
    disturb="""
        torch.manual_seed(6); torch.rand(3); torch.rand(9, generator=own)
        torch.set_default_dtype(torch.float32)
    """,
    check="""
        ref = torch.Generator().manual_seed(5); torch.rand(3, generator=ref)
        assert torch.rand(2).tolist() == torch.rand(2, generator=ref).tolist()
        ref = torch.Generator().manual_seed(8); torch.rand(2, generator=ref)
        assert torch.rand(1, generator=own) == torch.rand(1, generator=ref)
        assert torch.get_default_dtype() == torch.float64
    """,
)
case(
    "working directory",
    setup="import os; os.mkdir('inner'); outer = os.getcwd(); os.chdir('inner')",
    disturb="os.chdir('/'); outer = None",
    check="assert os.getcwd() == os.path.join(outer, 'inner')",
)
case(
    "environment",
    setup="""
        import os, subprocess, time
        os.environ["BATTERY"] = "set"; os.environ.pop("BATTERY_GONE", None)
        os.environ["TZ"] = "XXX-9"; time.tzset()
    """,
    disturb="""
        del os.environ["BATTERY"]; os.environ["BATTERY_GONE"] = "here"
        os.environ["TZ"] = "UTC0"; time.tzset()
    """,
    check="""
        assert os.environ["BATTERY"] == "set" and "BATTERY_GONE" not in os.environ
        assert time.timezone == -9 * 3600 and time.localtime(0).tm_hour == 9
        seen = subprocess.run("echo $BATTERY-$BATTERY_GONE", shell=True, capture_output=True)
        assert seen.stdout == b"set-\\n"
    """,
)
case(
    "file mode mask",
    setup="import os; os.umask(0o027)",
    disturb="os.umask(0o077)",
    check="assert os.umask(0o022) == 0o027",
)
case(
    "signal handlers",
    setup="""
        import os, signal
        hits = []
        signal.signal(signal.SIGUSR1, lambda *a: hits.append("usr1"))
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    """,
    disturb="""
        signal.signal(signal.SIGUSR1, signal.SIG_IGN); signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        hits.append("spoiled")
    """,
    check="""
        os.kill(os.getpid(), signal.SIGUSR1)
        assert hits == ["usr1"] and signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL
    """,
)
case(
    "blocked and pending signals",
    setup="""
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGUSR1})
        os.kill(os.getpid(), signal.SIGUSR2)
    """,
    disturb="""
        signal.sigtimedwait({signal.SIGUSR2}, 1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2, signal.SIGUSR1})
    """,
    check="""
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= {signal.SIGUSR1, signal.SIGUSR2}
        assert signal.sigpending() == {signal.SIGUSR2}
    """,
    refuse="SIGUSR2|pending",
    report="SIGUSR2|pending",
)
case(
    "a timer that has long to go",
    setup="import signal; signal.setitimer(signal.ITIMER_REAL, 500, 70)",
    disturb="signal.setitimer(signal.ITIMER_REAL, 0)",
    check="""
        left, every = signal.getitimer(signal.ITIMER_REAL)
        assert 400 < left <= 500 and every == 70
        signal.setitimer(signal.ITIMER_REAL, 0)
    """,
)
case(
    "a timer about to fire",
    setup="""
        import signal, time
        fired = []
        signal.signal(signal.SIGALRM, lambda *a: fired.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.5)
    """,
    disturb="signal.setitimer(signal.ITIMER_REAL, 0); fired.append('spoiled')",
    check="""
        end = time.monotonic() + 3
        while not fired and time.monotonic() < end: time.sleep(0.02)
        assert fired == [1]
    """,
)
case(
    "timers of CPU time",
    setup="""
        import signal
        signal.signal(signal.SIGVTALRM, lambda *a: None)
        signal.signal(signal.SIGPROF, lambda *a: None)
        signal.setitimer(signal.ITIMER_VIRTUAL, 900); signal.setitimer(signal.ITIMER_PROF, 800, 5)
    """,
    disturb="signal.setitimer(signal.ITIMER_VIRTUAL, 0); signal.setitimer(signal.ITIMER_PROF, 0)",
    check="""
        assert 800 < signal.getitimer(signal.ITIMER_VIRTUAL)[0] <= 900.1
        assert 700 < signal.getitimer(signal.ITIMER_PROF)[0] <= 800.1
        assert signal.getitimer(signal.ITIMER_PROF)[1] == 5
    """,
)
case(
    "import system",
    setup="""
        import sys
        class Finder:
            @staticmethod
            def find_spec(name, path=None, target=None): return None
        sys.path.append("/battery/path"); sys.meta_path.append(Finder)
        sys.dont_write_bytecode = True
        sys.path_importer_cache["/battery/path"] = None
    """,
    disturb="""
        sys.path.clear(); sys.path.append("/x"); sys.meta_path.remove(Finder)
        sys.dont_write_bytecode = False; sys.path_importer_cache.pop("/battery/path")
    """,
    check="""
        assert sys.path[-1] == "/battery/path" and len(sys.path) > 2 and Finder in sys.meta_path
        assert sys.dont_write_bytecode and "/battery/path" in sys.path_importer_cache
    """,
)
case(
    "limits of the interpreter",
    setup="""
        import sys
        sys.setrecursionlimit(4321); sys.setswitchinterval(0.25); sys.set_int_max_str_digits(9999)
        hook = sys.unraisablehook; mine = lambda *a: None; sys.unraisablehook = mine
    """,
    disturb="""
        sys.setrecursionlimit(3000); sys.setswitchinterval(0.005); sys.set_int_max_str_digits(0)
        sys.unraisablehook = hook
    """,
    check="""
        assert sys.getrecursionlimit() == 4321 and sys.getswitchinterval() == 0.25
        assert sys.get_int_max_str_digits() == 9999 and sys.unraisablehook is mine
    """,
)
case(
    "locale",
    setup="""
        import locale
        locale.setlocale(locale.LC_ALL, "C"); locale.setlocale(locale.LC_TIME, "C.UTF-8")
    """,
    disturb="locale.setlocale(locale.LC_ALL, 'C.UTF-8')",
    check="""
        assert locale.setlocale(locale.LC_TIME) == "C.UTF-8"
        assert locale.setlocale(locale.LC_CTYPE) == "C"
    """,
)
case(
    "resource limits",
    setup="""
        import resource
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (700, hard))
        core = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0, core))
    """,
    disturb="""
        resource.setrlimit(resource.RLIMIT_NOFILE, (600, hard))
        stack = resource.getrlimit(resource.RLIMIT_STACK)[1]
        resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, stack))
    """,
    check="""
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (700, hard)
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, core)
        assert resource.getrlimit(resource.RLIMIT_STACK)[0] != 4 << 20
    """,
)
case(
    "preference of the out-of-memory killer, and priority",
    setup="""
        import os
        oom = open("/proc/self/oom_score_adj").read(); nice = os.nice(0)
    """,
    disturb="open('/proc/self/oom_score_adj', 'w').write('600'); os.nice(3)",
    check="assert open('/proc/self/oom_score_adj').read() == oom and os.nice(0) == nice",
)
case(
    "decimal context",
    setup="""
        import decimal; decimal.getcontext().prec = 7
        decimal.getcontext().traps[decimal.Inexact] = False
    """,
    disturb="decimal.getcontext().prec = 3; decimal.setcontext(decimal.ExtendedContext)",
    check="assert decimal.getcontext().prec == 7 and str(decimal.Decimal(1) / 3) == '0.3333333'",
)
case(
    "options of numpy and pandas",
    setup="""
        import numpy as np, pandas as pd
        np.seterr(divide="raise"); np.set_printoptions(precision=2)
        pd.set_option("display.max_rows", 7)
    """,
    disturb="""
        np.seterr(all='ignore'); np.set_printoptions(precision=8)
        pd.reset_option('display.max_rows')
    """,
    check="""
        assert np.geterr()["divide"] == "raise" and np.get_printoptions()["precision"] == 2
        assert pd.get_option("display.max_rows") == 7
    """,
)
case(
    "warnings: filters and once-only registry",
    setup="""
        import io, contextlib, types, warnings
        mod = types.ModuleType("battery_warns")
        exec("import warnings\\ndef warn(): warnings.warn('battery once')", mod.__dict__)
        warnings.simplefilter("default"); warnings.filterwarnings("error", message="battery stop")
        with contextlib.redirect_stderr(io.StringIO()) as first: mod.warn(); mod.warn()
        filters = list(warnings.filters)
    """,
    disturb="warnings.resetwarnings(); mod.__warningregistry__.clear(); filters = None",
    check="""
        assert warnings.filters == filters and first.getvalue().count("battery once") == 1
        assert any("battery once" in str(key) for key in mod.__warningregistry__)
    """,
)
case(
    "logging",
    setup="""
        import io, logging
        stream = io.StringIO(); handler = logging.StreamHandler(stream)
        logger = logging.getLogger("battery"); logger.addHandler(handler); logger.setLevel("INFO")
        logger.propagate = False; logger.info("one"); logging.addLevelName(35, "LOUD")
    """,
    disturb="""
        logger.info("abandoned"); logger.removeHandler(handler); logger.setLevel("ERROR")
        logging.getLogger().setLevel("CRITICAL"); logging.addLevelName(35, "X"); logging.disable()
    """,
    check="""
        assert logger.handlers == [handler] and logging.getLevelName(35) == "LOUD"
        logger.info("two")
        assert stream.getvalue() == "one\\ntwo\\n" and logging.getLogger().level != logging.CRITICAL
    """,
)
case(
    "settings of the garbage collector",
    setup="""
        import gc; gc.disable(); gc.set_threshold(1234, 5, 6); gc.callbacks.append(print)
        gc.set_debug(0)
    """,
    disturb="gc.enable(); gc.set_threshold(700); gc.callbacks.clear()",
    check="""
        assert not gc.isenabled() and gc.get_threshold() == (1234, 5, 6)
        assert gc.callbacks[-1] is print
        gc.callbacks.clear()
    """,
)
case(
    "an enabled garbage collector",
    setup="import gc; gc.enable(); thresholds = gc.get_threshold()",
    disturb="gc.disable(); gc.set_threshold(9)",
    check="assert gc.isenabled() and gc.get_threshold() == thresholds",
)
case(
    "cycles from before the checkpoint are still collected",
    setup="""
        import gc, weakref
        class Knot: pass
        knot = Knot(); knot.self = knot; ref = weakref.ref(knot); cleared = []
        weakref.finalize(knot, cleared.append, 1).atexit = False
    """,
    disturb="del knot; gc.collect(); cleared.append('spoiled')",
    check="""
        assert ref() is knot and cleared == []
        del knot
        gc.collect()
        assert ref() is None and cleared == [1]
    """,
)
case(
    "exit handlers",
    setup="""
        import atexit
        def bye(): open("bye", "w").close()
        atexit.register(bye); registered = atexit._ncallbacks()
    """,
    disturb="atexit.register(print); atexit.register(int)",
    check="""
        import os
        assert atexit._ncallbacks() == registered and not os.path.exists("bye")
    """,
)
case(
    "faulthandler",
    setup="""
        import faulthandler, signal, os
        log = open("faults.txt", "w"); faulthandler.enable(file=log)
        faulthandler.register(signal.SIGUSR1, file=log)
    """,
    disturb="faulthandler.disable(); faulthandler.unregister(signal.SIGUSR1)",
    check="""
        assert faulthandler.is_enabled()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert "thread" in open("faults.txt").read().lower()
        log.truncate(0)
    """,
    report="faults.txt",
)
case(
    "a watchdog of faulthandler",
    setup="""
        import faulthandler, os, time
        log = open("late.txt", "w"); faulthandler.dump_traceback_later(0.4, file=log)
    """,
    disturb="faulthandler.cancel_dump_traceback_later(); log.truncate(0)",
    check="""
        end = time.monotonic() + 2
        while not os.path.getsize("late.txt") and time.monotonic() < end: time.sleep(0.02)
        assert os.path.getsize("late.txt")
    """,
    refuse="faulthandler|thread",
    report="faulthandler",
)
case(
    "temporary files: place and names",
    setup="import os, tempfile; os.mkdir('tmp'); tempfile.tempdir = os.path.abspath('tmp')",
    disturb="tempfile.tempdir = None; os.environ['TMPDIR'] = '/'; tempfile._name_sequence = None",
    check="""
        assert tempfile.gettempdir() == os.path.abspath("tmp")
        fd, made = tempfile.mkstemp(); os.close(fd); os.remove(made)
        assert os.path.dirname(made) == os.path.abspath("tmp")
    """,
)
case(
    "registries of the standard library",
    setup="""
        import codecs, copyreg, csv, mimetypes, socket
        csv.register_dialect("battery", delimiter=";"); socket.setdefaulttimeout(3.5)
        codecs.register_error("battery", lambda e: ("?", e.end))
        mimetypes.add_type("x/b", ".battery")
        copyreg.dispatch_table[type(codecs)] = print
    """,
    disturb="""
        csv.unregister_dialect("battery"); socket.setdefaulttimeout(None)
        codecs.register_error("battery", lambda e: ("!", e.end)); mimetypes.init()
        copyreg.dispatch_table.pop(type(codecs))
    """,
    check="""
        assert "battery" in csv.list_dialects() and socket.getdefaulttimeout() == 3.5
        assert "é".encode("ascii", "battery") == b"?"
        assert mimetypes.guess_type("a.battery")[0] == "x/b"
        assert copyreg.dispatch_table[type(codecs)] is print
    """,
)
case(
    "the main thread",
    setup="import threading; me = threading.current_thread(); ident = threading.get_ident()",
    disturb="me.name = 'Spoiled'; ident = 0",
    check="""
        assert threading.current_thread() is threading.main_thread() is me
        assert me.name == "MainThread" and threading.get_ident() == ident == me.ident
        assert me.native_id == threading.get_native_id() and me.is_alive()
        assert threading.active_count() == len(threading.enumerate())
    """,
)
case(
    "pending tasks",
    setup="""
        import asyncio
        got = []
        async def consume(q):
            while True: got.append(await q.get())
        q = asyncio.Queue(); q.put_nowait(1); task = asyncio.create_task(consume(q))
        await asyncio.sleep(0); q.put_nowait(2)
        await asyncio.sleep(0)
    """,
    disturb="""
        q.put_nowait("abandoned"); await asyncio.sleep(0); task.cancel(); await asyncio.sleep(0)
        got.append("spoiled")
    """,
    check="""
        assert got == [1, 2] and not task.done() and task in asyncio.all_tasks()
        q.put_nowait(3)
        await asyncio.sleep(0.01)
        assert got == [1, 2, 3]
        task.cancel()
    """,
)
case(
    "pending timers of the loop",
    setup="""
        import asyncio
        fired = asyncio.Event(); loop = asyncio.get_running_loop()
        handle = loop.call_later(0.3, fired.set); far = loop.call_later(1000, print)
        sleeper = asyncio.create_task(asyncio.sleep(0.2, "slept"))
        await asyncio.sleep(0)
    """,
    disturb="handle.cancel(); far.cancel(); sleeper.cancel(); await asyncio.sleep(0)",
    check="""
        await asyncio.wait_for(fired.wait(), 3)
        assert await asyncio.wait_for(sleeper, 3) == "slept" and not far.cancelled()
        far.cancel()
    """,
)
case(
    "settings of the running loop",
    setup="""
        import asyncio
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop(); caught = []
        loop.set_exception_handler(lambda l, c: caught.append(c["message"]))
        loop.slow_callback_duration = 9
    """,
    disturb="loop.set_exception_handler(None); loop.slow_callback_duration = 0.1; loop = None",
    check="""
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is loop and loop.slow_callback_duration == 9
        loop.call_exception_handler({"message": "m"})
        assert caught == ["m"]
        loop.set_exception_handler(None)
    """,
)
case(
    "an event loop of the user",
    setup="""
        import asyncio, threading, time
        mine = asyncio.new_event_loop(); done = []
        mine.call_later(0.05, done.append, "timer")
        later = mine.create_task(asyncio.sleep(0.01, "task"))
    """,
    disturb="later.cancel(); mine.close(); done.append('spoiled')",
    check="""
        def drive():
            async def main():
                first = await later
                second = await asyncio.get_running_loop().run_in_executor(None, lambda: "thread")
                start = time.process_time(); await asyncio.sleep(0.3)
                return first, second, time.process_time() - start
            return mine.run_until_complete(asyncio.wait_for(main(), 5))
        result = []
        t = threading.Thread(target=lambda: result.append(drive())); t.start(); t.join(10)
        assert result and result[0][:2] == ("task", "thread") and done == ["timer"]
        assert result[0][2] < 0.2, "the loop spins"
    """,
    refuse="event loop|epoll|socket",
    report="event loop|epoll|socket",
)
case(
    "a thread pool used before and after",
    setup="""
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2, thread_name_prefix="mine")
        was = list(pool.map(abs, [-1, -2, -3]))
    """,
    disturb="list(pool.map(abs, range(10))); pool.shutdown(); was = None",
    check="""
        assert was == [1, 2, 3]
        futures = [pool.submit(abs, -i) for i in range(8)]
        assert [f.result(timeout=5) for f in futures] == list(range(8))
        import threading
        assert any(t.name.startswith("mine") for t in threading.enumerate())
        pool.shutdown()
    """,
)
case(
    "a thread pool that is working",
    setup="""
        import threading
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(1, thread_name_prefix="busy-pool"); go = threading.Event()
        result = pool.submit(go.wait, 60)
        waiting = pool.submit(abs, -3)
    """,
    disturb="go.set(); result.result(timeout=5); waiting.result(timeout=5)",
    check="""
        assert not result.done() and not waiting.done()
        go.set()
        assert result.result(timeout=5) is True and waiting.result(timeout=5) == 3
    """,
    refuse="busy-pool",
    cleanup="go.set()",
)
case(
    "asyncio.to_thread",
    setup="import asyncio; was = await asyncio.to_thread(sum, [1, 2])",
    disturb="was = await asyncio.to_thread(sum, [5, 6])",
    check="""
        assert was == 3 and await asyncio.wait_for(asyncio.to_thread(sum, [3, 4]), 5) == 7
    """,
)
case(
    "directory stack and last directory of IPython",
    setup="""
        import os
        os.mkdir("one"); os.mkdir("two"); home = os.getcwd()
        for name in ("one", "../two"): get_ipython().run_line_magic("cd", "-q " + name)
        dh = list(_dh)
    """,
    disturb="get_ipython().run_line_magic('cd', '-q /'); _dh.append('rubbish')",
    check="""
        assert _dh == dh and os.getcwd() == os.path.join(home, "two")
        get_ipython().run_line_magic("cd", "-q -")
        assert os.getcwd() == os.path.join(home, "one")
    """,
)

# ============================================================ shared with the system
case = _group("shared with the system")

case(
    "position in a file being read",
    setup="""
        import io
        open("r.txt", "w").write("".join(f"line {i}\\n" for i in range(5000)))
        f = open("r.txt"); f.readline(); f.readline()
        b = open("r.txt", "rb", buffering=0); b.read(5)
    """,
    disturb="f.read(); f.close(); b.seek(0, 2)",
    check="""
        assert f.readline() == "line 2\\n" and sum(1 for _ in f) == 4997
        assert b.tell() == 5 and b.read(2) == b"0\\n"
    """,
)
case(
    "bare descriptors",
    setup="""
        import os
        with open("raw.bin", "wb") as out: out.write(bytes(range(100)))
        fd = os.open("raw.bin", os.O_RDONLY); os.read(fd, 10)
    """,
    disturb="os.read(fd, 50); os.close(fd)",
    check="assert os.read(fd, 3) == bytes([10, 11, 12]) and os.lseek(fd, 0, os.SEEK_CUR) == 13",
)
case(
    "duplicated descriptors share their position",
    setup="""
        import os
        open("dup.bin", "wb").write(bytes(range(100)))
        one = os.open("dup.bin", os.O_RDONLY); two = os.dup(one); os.read(one, 10)
    """,
    disturb="os.read(two, 50); os.close(one); os.close(two)",
    check="""
        assert os.read(two, 1) == b"\\n" and os.read(one, 1) == b"\\x0b"
        os.lseek(two, 50, os.SEEK_SET)
        assert os.read(one, 1) == bytes([50])
    """,
    refuse="dup.bin",
    report="dup.bin",
)
case(
    "flags of descriptors",
    setup="""
        import fcntl, os
        open("flags.txt", "w").write("abc")
        ap = os.open("flags.txt", os.O_WRONLY | os.O_APPEND)
        inh = os.open("flags.txt", os.O_RDONLY); os.set_inheritable(inh, True)
        sync = os.open("flags.txt", os.O_RDWR | os.O_SYNC)
        before = [fcntl.fcntl(d, fcntl.F_GETFL) for d in (ap, inh, sync)]
    """,
    disturb="os.set_inheritable(inh, False); fcntl.fcntl(ap, fcntl.F_SETFL, 0); before = []",
    check="""
        assert [fcntl.fcntl(d, fcntl.F_GETFL) for d in (ap, inh, sync)] == before
        assert os.get_inheritable(inh) and not os.get_inheritable(ap)
        assert fcntl.fcntl(ap, fcntl.F_GETFL) & os.O_APPEND
    """,
)
case(
    "text not yet written out",
    setup="f = open('un.txt', 'w'); f.write('abc'); g = open('un.bin', 'wb'); g.write(b'12')",
    disturb="f.write('XYZ'); g.write(b'3456'); state = 'spoiled'",
    check="""
        assert "state" not in globals() and open("un.txt").read() == "" and f.tell() == 3
        f.flush(); g.flush()
        assert open("un.txt").read() == "abc" and open("un.bin").read() == "12"
        f.truncate(0); f.close(); g.truncate(0); g.close()
    """,
    report="un.txt|un.bin",
)
case(
    "a file being read and written",
    setup="""
        open("rw.txt", "w").write("0123456789")
        f = open("rw.txt", "r+"); f.seek(4)
    """,
    disturb="f.seek(0); f.read(); state = 1",
    check="assert f.tell() == 4 and f.read(2) == '45' and 'state' not in globals()",
)
case(
    "a directory half listed",
    setup="""
        import os
        os.mkdir("many")
        for i in range(1500): open(f"many/{'name' * 10}{i:05}", "w").close()
        it = os.scandir("many"); seen = {next(it).name for _ in range(10)}
        dfd = os.open("many", os.O_DIRECTORY)
    """,
    disturb="for _ in it: pass\nos.close(dfd)",
    check="""
        rest = [e.name for e in it]
        assert len(rest) == 1490 and not seen & set(rest) and len(os.listdir(dfd)) == 1500
    """,
    refuse="many",
    report="many",
)
case(
    "device files",
    setup="null = open('/dev/null', 'w'); zero = open('/dev/zero', 'rb', 0); n = 1",
    disturb="null.close(); zero.close(); n = 2",
    check="""
        null.write("x"); null.flush()
        assert zero.read(3) == b"\\0\\0\\0" and n == 1
    """,
)
case(
    "a pipe with bytes in it",
    setup="import os; r, w = os.pipe(); os.write(w, b'hello')",
    disturb="os.read(r, 5); os.write(w, b'abandoned')",
    check="""
        os.set_blocking(r, False)
        assert os.read(r, 100) == b"hello"
        os.write(w, b"more")
        assert os.read(r, 100) == b"more"
    """,
    refuse="pipe",
    report="pipe",
)
case(
    "a named pipe",
    setup="""
        import os
        os.mkfifo("fifo"); fd = os.open("fifo", os.O_RDWR | os.O_NONBLOCK); os.write(fd, b"in fifo")
    """,
    disturb="os.read(fd, 7); os.write(fd, b'abandoned')",
    check="assert os.read(fd, 100) == b'in fifo'",
    refuse="fifo|pipe",
    report="fifo|pipe",
)
case(
    "a socket pair",
    setup="import socket; a, b = socket.socketpair(); a.sendall(b'hello'); b.settimeout(2)",
    disturb="b.recv(5); a.sendall(b'abandoned')",
    check="""
        assert b.recv(100) == b"hello"
        b.sendall(b"back")
        assert a.recv(100) == b"back"
    """,
    refuse="socket",
    report="socket",
)
case(
    "client and server in one process",
    setup="""
        import socket
        server = socket.create_server(("127.0.0.1", 0)); port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port)); peer, _ = server.accept()
        client.sendall(b"ping"); peer.settimeout(2); client.settimeout(2)
    """,
    disturb="peer.recv(4); client.sendall(b'abandoned'); peer.close()",
    check="""
        assert peer.recv(100) == b"ping"
        peer.sendall(b"pong")
        assert client.recv(100) == b"pong"
    """,
    refuse="socket|connection",
    report="socket|connection|127.0.0.1",
)
case(
    "a listening socket",
    setup="""
        import socket
        server = socket.create_server(("127.0.0.1", 0)); server.settimeout(2)
        port = server.getsockname()[1]
    """,
    disturb="server.close(); port = 0",
    check="""
        with socket.create_connection(("127.0.0.1", port), timeout=2) as c:
            peer, _ = server.accept(); peer.close()
    """,
    refuse="socket|listen",
    report="socket|listen|127.0.0.1",
)
case(
    "a datagram socket",
    setup="""
        import socket
        udp = socket.socket(type=socket.SOCK_DGRAM); udp.bind(("127.0.0.1", 0)); udp.settimeout(2)
        udp.sendto(b"queued", udp.getsockname())
    """,
    disturb="udp.recv(10); udp.sendto(b'abandoned', udp.getsockname())",
    check="assert udp.recv(100) == b'queued'",
    refuse="socket",
    report="socket|127.0.0.1",
)
case(
    "a server of asyncio",
    setup="""
        import asyncio
        async def serve(r, w): w.write(b"hi"); w.close()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
    """,
    disturb="server.close(); port = 0",
    check="""
        async def ask():
            r, w = await asyncio.open_connection("127.0.0.1", port); said = await r.read()
            w.close()
            return said
        assert await asyncio.wait_for(ask(), 3) == b"hi"
    """,
    refuse="socket|listen|server",
    report="socket|listen|127.0.0.1",
)
case(
    "anonymous memory shared between processes",
    setup="import mmap; m = mmap.mmap(-1, 8192); m[:5] = b'hello'",
    disturb="m[:5] = b'spoil'",
    check="assert m[:5] == b'hello'",
    refuse="shared",
    report="shared",
)
case(
    "much shared memory, changed at once",
    setup="import mmap; m = mmap.mmap(-1, 96 << 20); m[:] = b'good' * (24 << 20)",
    disturb="m[-4:] = b'evil'; m[:4] = b'evil'",
    check="assert m[:4] == b'good' and m[-4:] == b'good'",
    refuse="shared",
    report="shared",
)
case(
    "shared memory changed by a task in the background",
    setup="""
        import asyncio, mmap, struct
        m = mmap.mmap(-1, 64 << 20); m[8:] = b"x" * ((64 << 20) - 8); n = 0
        async def tick():
            global n
            while True:
                n += 1; m[:8] = struct.pack("q", struct.unpack("q", m[:8])[0] + 1)
                await asyncio.sleep(0.0005)
        task = asyncio.create_task(tick()); await asyncio.sleep(0.01)
    """,
    disturb="m[:8] = struct.pack('q', 0); await asyncio.sleep(0.01)",
    check="""
        ticks = struct.unpack("q", m[:8])[0], n
        task.cancel(); await asyncio.sleep(0)
        assert ticks[0] == ticks[1], ticks
    """,
    refuse="shared",
    report="shared",
)
case(
    "many open files, read on at once",
    setup="""
        import os
        open("many.txt", "w").write("0123456789" * 100)
        fds = [os.open("many.txt", os.O_RDONLY) for _ in range(400)]
        for fd in fds: os.read(fd, 5)
    """,
    disturb="for fd in reversed(fds): os.read(fd, 500)",
    check="assert {os.lseek(fd, 0, os.SEEK_CUR) for fd in fds} == {5}",
)
case(
    "private memory",
    setup="""
        import mmap
        m = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m[:5] = b"hello"
        open("priv.bin", "wb").write(b"from disk")
        f = open("priv.bin", "r+b"); c = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
        c[:4] = b"mine"
        ro = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); ro.seek(5)
    """,
    disturb="m[:5] = b'spoil'; c[:] = b'xxxxxxxxx'; ro.close(); c.close()",
    check="assert m[:5] == b'hello' and c[:] == b'mine disk' and ro.read() == b'disk'",
)
case(
    "a file mapped for writing",
    setup="""
        import mmap
        open("map.bin", "wb").write(b"0123456789")
        f = open("map.bin", "r+b"); m = mmap.mmap(f.fileno(), 0)
    """,
    disturb="m[:4] = b'spoi'; m.flush()",
    check="assert m[:] == b'0123456789'",
    refuse="map.bin",
    report="map.bin",
)
case(
    "multiprocessing: values and arrays",
    setup="""
        import multiprocessing as mp
        v = mp.Value("i", 5); a = mp.Array("d", [1.0, 2.0]); rv = mp.RawValue("i", 6)
    """,
    disturb="v.value = -1; a[0] = -1; rv.value = -1",
    check="assert v.value == 5 and a[:] == [1.0, 2.0] and rv.value == 6",
    refuse="shared|multiprocessing",
    report="shared|multiprocessing",
)
case(
    "multiprocessing: a held lock",
    setup="import multiprocessing as mp; lock = mp.Lock(); lock.acquire()",
    disturb="lock.release()",
    check="""
        assert not lock.acquire(block=False)
        lock.release()
        assert lock.acquire(timeout=1)
    """,
    refuse="lock|semaphore|shared",
    report="lock|semaphore|shared",
)
case(
    "multiprocessing: locks, semaphores, events",
    setup="""
        import multiprocessing as mp
        r = mp.RLock(); r.acquire(); r.acquire(); s = mp.Semaphore(3); s.acquire()
        b = mp.BoundedSemaphore(2); e = mp.Event(); e.set(); lock = mp.Lock()
    """,
    disturb="""
        r.release(); r.release(); s.acquire(); s.acquire(); b.acquire(); e.clear()
        lock.acquire()
    """,
    check="""
        assert s.get_value() == 2 and b.get_value() == 2 and e.is_set()
        assert lock.acquire(block=False)
        r.release(); r.release()
        try: r.release(); assert False
        except AssertionError as err: assert "not owned" in str(err)
    """,
    refuse="lock|semaphore|shared",
    report="lock|semaphore|shared",
)
case(
    "multiprocessing: queues",
    setup="""
        import multiprocessing as mp
        q = mp.Queue(); q.put("item"); sq = mp.SimpleQueue(); sq.put("simple"); a, b = mp.Pipe()
        a.send(1)
        import time; time.sleep(0.1)
    """,
    disturb="q.get(timeout=2); sq.get(); b.recv(); q.put('abandoned'); sq.put('abandoned')",
    check="""
        assert b.poll(1) and b.recv() == 1 and not sq.empty() and sq.get() == "simple"
        assert q.get(timeout=2) == "item"
    """,
    refuse="pipe|Queue|socket|lock|semaphore|thread",
    report="pipe|Queue|socket|lock|semaphore",
)
case(
    "shared_memory",
    setup="""
        from multiprocessing import shared_memory
        shm = shared_memory.SharedMemory(create=True, size=64); shm.buf[:5] = b"hello"
    """,
    disturb="shm.buf[:5] = b'spoil'",
    check="assert bytes(shm.buf[:5]) == b'hello'",
    refuse="shared|psm_",
    report="shared|psm_",
    cleanup="shm.close(); shm.unlink()",
)
case(
    "shared_memory removed by the abandoned timeline",
    setup="""
        from multiprocessing import shared_memory
        shm = shared_memory.SharedMemory(create=True, size=64); shm.buf[:5] = b"hello"
    """,
    disturb="shm.unlink()",
    check="""
        other = shared_memory.SharedMemory(shm.name)
        assert bytes(other.buf[:5]) == b"hello"
        other.close()
    """,
    refuse="shared|psm_",
    report="shared|psm_",
    cleanup="shm.close(); shm.unlink()",
)
case(
    "np.memmap for writing",
    setup="""
        import numpy as np
        mm = np.memmap("mm.dat", dtype="f8", mode="w+", shape=(1000,)); mm[:] = 1; mm.flush()
    """,
    disturb="mm[:] = -5; mm.flush()",
    check="assert mm.sum() == 1000 and np.fromfile('mm.dat').sum() == 1000",
    refuse="mm.dat",
    report="mm.dat",
)
case(
    "np.memmap for reading, and copy-on-write",
    setup="""
        import numpy as np
        np.arange(1000.0).tofile("ro.dat")
        r = np.memmap("ro.dat", mode="r"); c = np.memmap("ro.dat", dtype="f8", mode="c"); c[0] = 77
    """,
    disturb="c[:] = -1; r = None",
    check="""
        assert c[0] == 77 and c[1:].sum() == 499500 and r.view("f8")[0] == 0
        assert r.view("f8").sum() == 499500
    """,
)
case(
    "epoll",
    setup="""
        import os, select, socket
        ep = select.epoll(); ev1, ev2 = os.eventfd(0), os.eventfd(1)
        ep.register(ev2, select.EPOLLIN)
    """,
    disturb="ep.register(ev1, select.EPOLLOUT); ep.unregister(ev2); os.close(ev2)",
    check="assert ep.poll(1) == [(ev2, select.EPOLLIN)]",
    refuse="epoll|eventfd",
    report="epoll|eventfd",
)
case(
    "selectors",
    setup="""
        import os, selectors
        sel = selectors.DefaultSelector(); ev = os.eventfd(1)
        key = sel.register(ev, selectors.EVENT_READ, "data")
    """,
    disturb="sel.modify(ev, selectors.EVENT_WRITE, 'spoiled'); sel.close()",
    check="assert [(k.data, e) for k, e in sel.select(1)] == [('data', selectors.EVENT_READ)]",
    refuse="epoll|eventfd",
    report="epoll|eventfd",
)
case(
    "eventfd",
    setup="import os; ev = os.eventfd(0, os.EFD_NONBLOCK); os.eventfd_write(ev, 5)",
    disturb="os.eventfd_read(ev); os.eventfd_write(ev, 77)",
    check="assert os.eventfd_read(ev) == 5",
    refuse="eventfd",
    report="eventfd",
)
case(
    "timerfd",
    setup="""
        import ctypes, os, select, struct
        libc = ctypes.CDLL(None, use_errno=True)
        tfd = libc.timerfd_create(1, os.O_NONBLOCK)
        libc.timerfd_settime(tfd, 0, struct.pack("qqqq", 0, 0, 300, 0), None)
    """,
    disturb="libc.timerfd_settime(tfd, 0, struct.pack('qqqq', 0, 0, 0, 0), None)",
    check="""
        out = ctypes.create_string_buffer(32)
        assert libc.timerfd_gettime(tfd, out) == 0
        assert 200 < struct.unpack("qqqq", out.raw)[2] <= 300
    """,
    refuse="timerfd",
    report="timerfd",
)
case(
    "a file locked with flock",
    setup="""
        import fcntl, subprocess, sys
        held = open("held.lock", "w"); fcntl.flock(held, fcntl.LOCK_EX)
        probe = "import fcntl; fcntl.flock(open('held.lock'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        def locked():
            return subprocess.run([sys.executable, "-Sc", probe], stderr=-3).returncode == 1
    """,
    disturb="fcntl.flock(held, fcntl.LOCK_UN)",
    check="assert locked()",
    refuse="held.lock",
    report="held.lock",
)
case(
    "a file locked with fcntl",
    setup="""
        import fcntl, subprocess, sys
        held = open("posix.lock", "w"); fcntl.lockf(held, fcntl.LOCK_EX)
        probe = "import fcntl; fcntl.lockf(open('posix.lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        def locked():
            return subprocess.run([sys.executable, "-Sc", probe], stderr=-3).returncode == 1
    """,
    disturb="fcntl.lockf(held, fcntl.LOCK_UN)",
    check="assert locked()",
    refuse="posix.lock",
    report="posix.lock",
)
case(
    "a pseudo-terminal",
    setup="""
        import os; master, slave = os.openpty(); os.write(master, b'typed\\n')
        os.set_blocking(slave, False)
    """,
    disturb="os.read(slave, 100); os.write(master, b'abandoned\\n')",
    check="assert os.read(slave, 100) == b'typed\\n'",
    refuse="pty|pts|ptmx|terminal",
    report="pty|pts|ptmx|terminal",
)
case(
    "a running child",
    setup="""
        import subprocess
        child = subprocess.Popen(["sleep", "100"])
    """,
    disturb="child.kill(); child.wait()",
    check="assert child.poll() is None; child.kill(); assert child.wait(5) == -9",
    refuse="sleep",
    cleanup="child.kill(); child.wait()",
)
case(
    "a child being talked to",
    setup="""
        import subprocess
        pipe = subprocess.PIPE
        cat = subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, text=True, bufsize=1)
        cat.stdin.write("one\\n"); first = cat.stdout.readline()
    """,
    disturb="cat.stdin.close(); cat.wait()",
    check="""
        cat.stdin.write("two\\n")
        assert cat.stdout.readline() == "two\\n"
        cat.stdin.close()
        assert cat.wait(5) == 0
    """,
    refuse="cat",
    cleanup="cat.kill(); cat.wait()",
)
case(
    "a child that has ended, not yet waited for",
    setup="""
        import os, subprocess
        child = subprocess.Popen(["sh", "-c", "exit 3"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    """,
    disturb="child.wait(); child.returncode = 99",
    check="assert child.returncode is None and child.wait(5) == 3",
    refuse="child",
    report="child",
)
case(
    "a child waited for",
    setup="import subprocess; child = subprocess.Popen(['sh', '-c', 'exit 3']); child.wait()",
    disturb="child.returncode = None; child = None",
    check="assert child.returncode == 3 and child.poll() == 3 and child.wait() == 3",
)
case(
    "multiprocessing: a pool",
    setup="""
        import multiprocessing as mp
        pool = mp.get_context("fork").Pool(2); was = pool.map(abs, [-1, -2])
    """,
    disturb="pool.terminate(); was = None",
    check="assert was == [1, 2] and pool.map_async(abs, [-3, -4]).get(timeout=5) == [3, 4]",
    refuse="pool|ForkPoolWorker|multiprocessing|child|thread",
    cleanup="pool.terminate(); pool.join()",
)
case(
    "a process pool",
    setup="""
        import multiprocessing as mp
        from concurrent.futures import ProcessPoolExecutor
        pool = ProcessPoolExecutor(1, mp_context=mp.get_context("fork"))
        was = pool.submit(abs, -1).result()
    """,
    disturb="pool.shutdown(); was = None",
    check="assert was == 1 and pool.submit(abs, -3).result(timeout=5) == 3",
    refuse="pool|Executor|multiprocessing|child|thread",
    cleanup="pool.shutdown()",
)
case(
    "multiprocessing: a process that has ended",
    setup="""
        import multiprocessing as mp
        p = mp.get_context("fork").Process(target=abs, args=(1,)); p.start(); p.join()
    """,
    disturb="p.close()",
    check="assert p.exitcode == 0 and not p.is_alive() and mp.active_children() == []",
)
case(
    "a running thread",
    setup="""
        import threading
        stop = threading.Event(); ticks = []
        def tick():
            while not stop.wait(0.01): ticks.append(1)
        t = threading.Thread(target=tick, name="battery-ticker", daemon=True); t.start()
    """,
    disturb="stop.set(); t.join()",
    check="""
        n = len(ticks)
        import time
        time.sleep(0.1)
        assert t.is_alive() and len(ticks) > n
    """,
    refuse="battery-ticker",
    cleanup="stop.set(); t.join()",
)
case(
    "a thread that has ended",
    setup="""
        import threading
        out = []; t = threading.Thread(target=out.append, args=(1,)); t.start(); t.join()
    """,
    disturb="out.clear(); t = threading.Thread(target=print)",
    check="""
        assert out == [1] and not t.is_alive() and t.ident
        again = threading.Thread(target=out.append, args=(2,)); again.start(); again.join(5)
        assert out == [1, 2]
    """,
)
case(
    "a thread that holds a lock",
    setup="""
        import threading
        lock = threading.Lock(); go = threading.Event(); ready = threading.Event()
        def hold():
            with lock: ready.set(); go.wait(60)
        t = threading.Thread(target=hold, name="battery-holder", daemon=True); t.start()
        ready.wait()
    """,
    disturb="go.set(); t.join()",
    check="""
        assert lock.locked() and t.is_alive()
        go.set()
        assert lock.acquire(timeout=3)
    """,
    refuse="battery-holder",
    cleanup="go.set(); t.join()",
)
case(
    "a timer thread",
    setup="import threading; t = threading.Timer(300, print); t.name = 'battery-timer'; t.start()",
    disturb="t.cancel(); t.join()",
    check="assert t.is_alive() and not t.finished.is_set()",
    refuse="battery-timer",
    cleanup="t.cancel(); t.join()",
)
case(
    "a thread started behind Python's back",
    setup="""
        import _thread, time
        stop = []; beats = []
        def beat():
            while not stop: beats.append(1); time.sleep(0.01)
        _thread.start_new_thread(beat, ())
    """,
    disturb="stop.append(1); time.sleep(0.1)",
    check="""
        n = len(beats); time.sleep(0.2)
        assert len(beats) > n
    """,
    refuse="thread",
    cleanup="stop.append(1); time.sleep(0.1)",
)
case(
    "a temporary directory",
    setup="""
        import os, tempfile
        td = tempfile.TemporaryDirectory(dir="."); open(os.path.join(td.name, "x"), "w").write("x")
    """,
    disturb="name = td.name; state = 'spoiled'",
    check="assert open(os.path.join(td.name, 'x')).read() == 'x' and 'state' not in globals()",
)
case(
    "temporary files without a name",
    setup="""
        import os, tempfile
        tf = tempfile.TemporaryFile("w+"); tf.write("unnamed"); tf.flush()
        nt = tempfile.NamedTemporaryFile("w+"); nt.write("named"); nt.flush(); os.unlink(nt.name)
        nt._closer.delete = False
        sp = tempfile.SpooledTemporaryFile(max_size=100, mode="w+"); sp.write("spooled")
    """,
    disturb="tf.close(); nt.seek(0); nt.read(); sp.rollover(); sp.write('more')",
    check="""
        assert tf.tell() == 7
        tf.seek(0); nt.seek(0); sp.seek(0)
        assert tf.read() == "unnamed" and nt.read() == "named" and sp.read() == "spooled"
    """,
)
case(
    "temporary files without a name, written by the abandoned timeline",
    setup="import tempfile; tf = tempfile.TemporaryFile('w+'); tf.write('unnamed'); tf.flush()",
    disturb="tf.seek(0); tf.write('SPOILED AND LONGER'); tf.flush()",
    check="""
        assert tf.tell() == 7
        tf.seek(0)
        assert tf.read() == "unnamed"
    """,
    refuse="temporary|deleted|tmp",
    report="temporary|deleted|tmp",
)
case(
    "an open file that was deleted",
    setup="""
        import os
        open("gone.txt", "w").write("still here"); f = open("gone.txt", "r+"); os.remove("gone.txt")
        f.read(6)
    """,
    disturb="f.read(); f.close()",
    check="assert f.read() == 'here' and not os.path.exists('gone.txt')",
)
case(
    "memory files",
    setup="import os; fd = os.memfd_create('battery'); os.write(fd, b'hello')",
    disturb="os.pwrite(fd, b'SPOIL', 0); os.lseek(fd, 0, 0)",
    check="assert os.lseek(fd, 0, os.SEEK_CUR) == 5 and os.pread(fd, 5, 0) == b'hello'",
    refuse="battery|memfd",
    report="battery|memfd",
)

# ============================================================ files on disk
case = _group("files on disk")

case(
    "rewritten",
    setup="open('data.csv', 'w').write('good')",
    disturb="open('data.csv', 'w').write('spoiled')",
    check="assert open('data.csv').read() == 'good'",
    report="data.csv",
)
case(
    "rewritten with the same size",
    setup="open('same.bin', 'wb').write(b'good')",
    disturb="open('same.bin', 'wb').write(b'evil')",
    check="assert open('same.bin', 'rb').read() == b'good'",
    report="same.bin",
)
case(
    "appended",
    setup="open('log.txt', 'w').write('one\\n')",
    disturb="open('log.txt', 'a').write('two\\n')",
    check="assert open('log.txt').read() == 'one\\n'",
    report="log.txt",
)
case(
    "deleted",
    setup="import os; open('victim.txt', 'w').write('x')",
    disturb="if os.path.exists('victim.txt'): os.remove('victim.txt')",
    check="assert open('victim.txt').read() == 'x'",
    report="victim.txt",
)
case(
    "created",
    setup="import os; before = sorted(os.listdir())",
    disturb="open('extra.txt', 'w').write('x'); os.makedirs('made', exist_ok=True)",
    check="assert sorted(os.listdir()) == before",
    report=("extra.txt", "made"),
)
case(
    "renamed",
    setup="import os; open('old.txt', 'w').write('x')",
    disturb="if os.path.exists('old.txt'): os.rename('old.txt', 'new.txt')",
    check="assert open('old.txt').read() == 'x' and not os.path.exists('new.txt')",
    report=("old.txt", "new.txt"),
)
case(
    "replaced as editors do",
    setup="import os; open('conf.json', 'w').write('1')",
    disturb="open('conf.json.tmp', 'w').write('2'); os.replace('conf.json.tmp', 'conf.json')",
    check="assert open('conf.json').read() == '1'",
    report="conf.json",
)
case(
    "truncated",
    setup="import os; open('long.txt', 'w').write('0123456789')",
    disturb="os.truncate('long.txt', 3)",
    check="assert open('long.txt').read() == '0123456789'",
    report="long.txt",
)
case(
    "written through a bare descriptor",
    setup="import os; open('bare.bin', 'wb').write(b'good')",
    disturb="fd = os.open('bare.bin', os.O_WRONLY); os.write(fd, b'evil'); os.close(fd)",
    check="assert open('bare.bin', 'rb').read() == b'good'",
    report="bare.bin",
)
case(
    "made executable",
    setup="import os; open('run.sh', 'w').write('x'); os.chmod('run.sh', 0o644)",
    disturb="os.chmod('run.sh', 0o755)",
    check="assert os.stat('run.sh').st_mode & 0o777 == 0o644",
    report="run.sh",
)
case(
    "a link pointed elsewhere",
    setup="""
        import os; open('a.txt', 'w').write('a'); open('b.txt', 'w').write('b')
        os.symlink('a.txt', 'link')
    """,
    disturb="os.remove('link'); os.symlink('b.txt', 'link')",
    check="assert os.readlink('link') == 'a.txt'",
    report="link",
)
case(
    "a tree removed",
    setup="""
        import os, shutil; os.makedirs('tree/sub'); open('tree/sub/leaf.txt', 'w').write('leaf')
    """,
    disturb="shutil.rmtree('tree', ignore_errors=True)",
    check="assert open('tree/sub/leaf.txt').read() == 'leaf'",
    report="tree",
)
case(
    "the working directory removed",
    setup="import os, shutil; os.mkdir('work'); os.chdir('work')",
    disturb="os.chdir('..'); shutil.rmtree('work', ignore_errors=True)",
    check="assert os.path.basename(os.getcwd()) == 'work'; os.mkdir('new'); os.rmdir('new')",
    report="work",
)
case(
    "a temporary directory cleaned up",
    setup="""
        import os, tempfile; td = tempfile.TemporaryDirectory(dir='.')
        name = os.path.basename(td.name)
    """,
    disturb="td.cleanup()",
    check="assert os.path.isdir(td.name) and name in td.name",
    report="tmp",
)
case(
    "a log file that goes on",
    setup="""
        import logging
        lg = logging.getLogger("disk"); lg.addHandler(logging.FileHandler("app.log"))
        lg.propagate = False
        lg.warning("one")
    """,
    disturb="lg.warning('abandoned')",
    check="lg.warning('two'); assert open('app.log').read() == 'one\\ntwo\\n'",
    report="app.log",
)
case(
    "a file open for writing and written further",
    setup="f = open('out.txt', 'w'); f.write('good\\n'); f.flush()",
    disturb="f.write('abandoned\\n'); f.flush()",
    check="""
        f.write("next\\n"); f.flush()
        assert open("out.txt").read() == "good\\nnext\\n"
    """,
    report="out.txt",
)
case(
    "a file open for appending and written further",
    setup="f = open('app.txt', 'a'); f.write('good\\n'); f.flush()",
    disturb="f.write('abandoned\\n'); f.flush()",
    check="""
        f.write("next\\n"); f.flush()
        assert open("app.txt").read() == "good\\nnext\\n"
    """,
    report="app.txt",
)
case(
    "a compressed file being written",
    setup="import gzip; z = gzip.open('z.gz', 'wt'); z.write('good'); z.flush()",
    disturb="z.write('abandoned' * 1000); z.close()",
    check="""
        z.write(" next"); z.close()
        import os
        assert gzip.open("z.gz", "rt").read() == "good next"
    """,
    report="z.gz",
)
case(
    "written by numpy and pandas",
    setup="""
        import numpy as np, pandas as pd
        np.save("n.npy", np.ones(3)); pd.DataFrame({"a": [1]}).to_csv("p.csv")
    """,
    disturb="np.save('n.npy', np.zeros(3)); pd.DataFrame({'a': [2]}).to_csv('p.csv')",
    check="assert np.load('n.npy').sum() == 3 and pd.read_csv('p.csv')['a'][0] == 1",
    report=("n.npy", "p.csv"),
)
case(
    "written by a C++ library",
    setup="""
        import pyarrow as pa
        def save(v):
            with pa.OSFile("t.arrow", "wb") as out: out.write(v)
        save(b"good")
    """,
    disturb="save(b'spoiled')",
    check="assert open('t.arrow', 'rb').read() == b'good'",
    report="t.arrow",
    refuse="arrow",
)
case(
    "written by a child process",
    setup="import os; open('c.txt', 'w').write('good')",
    disturb="os.system('echo spoiled > c.txt')",
    check="assert open('c.txt').read() == 'good'",
    report="c.txt",
)
case(
    "written by a magic",
    setup="open('cell.py', 'w').write('x = 1\\n')",
    disturb="%%writefile cell.py\nx = 2\n",
    check="assert open('cell.py').read() == 'x = 1\\n'",
    report="cell.py",
)
case(
    "only read: no alarm",
    setup="import os; open('in.txt', 'w').write('input'); n = 1",
    disturb="open('in.txt').read(); os.stat('in.txt'); os.listdir(); n = 2",
    check="assert open('in.txt').read() == 'input' and n == 1",
)
case(
    "made and removed again: no alarm",
    setup="import os, tempfile; n = 1",
    disturb="""
        open("scratch", "w").write("x"); os.remove("scratch"); n = 2
        with tempfile.TemporaryDirectory() as d: open(os.path.join(d, "y"), "w").write("y")
    """,
    check="assert not os.path.exists('scratch') and n == 1",
)
case(
    "written before the checkpoint: no alarm",
    setup="f = open('early.txt', 'w'); f.write('x'); f.close(); n = 1",
    disturb="f = None; n = 2",
    check="assert f.closed and n == 1 and open('early.txt').read() == 'x'",
)
case(
    "sqlite with an open transaction",
    setup="""
        import sqlite3
        con = sqlite3.connect("open.db"); con.execute("create table t (x)"); con.commit()
        con.execute("insert into t values (1)")
    """,
    disturb="con.execute('insert into t values (2)'); con.commit()",
    check="""
        assert con.in_transaction
        con.rollback()
        assert con.execute("select count(*) from t").fetchone() == (0,)
    """,
    refuse="open.db",
    cleanup="con.close()",
)
case(
    "sqlite, idle",
    setup="""
        import sqlite3
        con = sqlite3.connect("idle.db"); con.execute("create table t (x)")
        con.execute("insert into t values (1)"); con.commit()
    """,
    disturb="con.close()",
    check="""
        assert con.execute("select x from t").fetchall() == [(1,)]
        assert con.execute("pragma integrity_check").fetchone() == ("ok",)
    """,
)
case(
    "sqlite, idle, then written by the abandoned timeline",
    setup="""
        import sqlite3
        con = sqlite3.connect("w.db"); con.execute("create table t (x)")
        con.execute("insert into t values (1)"); con.commit()
    """,
    disturb="""
        con.executemany('insert into t values (?)', [(i,) for i in range(5000)]); con.commit()
    """,
    check="""
        assert con.execute("pragma integrity_check").fetchone() == ("ok",)
        assert con.execute("select count(*) from t").fetchone() == (1,)
    """,
    report="w.db",
)
case(
    "sqlite in WAL mode",
    setup="""
        import sqlite3
        con = sqlite3.connect("wal.db"); con.execute("pragma journal_mode=wal")
        con.execute("create table t (x)"); con.execute("insert into t values (1)"); con.commit()
    """,
    disturb="con.executemany('insert into t values (?)', [(i,) for i in range(500)]); con.commit()",
    check="assert con.execute('select count(*) from t').fetchone() == (1,)",
    refuse="wal.db",
    report="wal.db",
    cleanup="con.close()",
)
case(
    "dbm and shelve",
    setup="import shelve; db = shelve.open('shelf'); db['a'] = 1; db.sync()",
    disturb="db['a'] = 2; db['b'] = 3; db.sync()",
    check="assert dict(db) == {'a': 1}",
    refuse="shelf",
    report="shelf",
    cleanup="db.close()",
)

# ============================================================ progress bars
case = _group("progress bars")

case(
    "a finished bar",
    setup="""
        import io
        from tqdm import tqdm
        total = sum(tqdm(range(1000), file=io.StringIO()))
    """,
    disturb="total = sum(tqdm(range(10), file=io.StringIO()))",
    check="""
        assert total == 499500 and sum(tqdm(range(100), file=io.StringIO())) == 4950
    """,
)
case(
    "a bar half way, watched by its monitor thread",
    setup="""
        import io
        from tqdm import tqdm
        out = io.StringIO(); bar = tqdm(total=10, file=out, desc="half"); bar.update(3)
        assert tqdm.monitor is not None and tqdm.monitor.is_alive()
    """,
    disturb="bar.update(5); bar.set_description('spoiled'); bar.close()",
    check="""
        assert bar.n == 3 and not bar.disable
        bar.update(1); bar.refresh()
        assert "half:  40%" in out.getvalue() and "spoiled" not in out.getvalue()
        bar.close()
        assert sum(tqdm(range(100), file=io.StringIO())) == 4950
    """,
)
case(
    "nested bars, pandas and the locks of tqdm",
    setup="""
        import io, threading
        import pandas as pd
        from tqdm import tqdm
        tqdm.pandas(file=io.StringIO())
        was = pd.Series([1, 2]).progress_apply(lambda x: x + 1).tolist()
        outer = tqdm(range(3), file=io.StringIO()); it = iter(outer); next(it)
        lock = tqdm.get_lock()
    """,
    disturb="list(it); was = None; lock.acquire()",
    check="""
        assert was == [2, 3] and list(it) == [1, 2] and tqdm.get_lock() is lock
        assert pd.Series([4]).progress_apply(lambda x: x).tolist() == [4]
        free = []
        t = threading.Thread(target=lambda: free.append(lock.mp_lock.acquire(timeout=1)))
        t.start(); t.join(5)
        assert free == [True]
    """,
)
case(
    "the bar notebooks choose",
    setup="""
        from tqdm.auto import tqdm
        total = 0
        for i in tqdm(range(100)): total += i
    """,
    disturb="for i in tqdm(range(5)): total = -1",
    check="""
        assert total == 4950
        assert sum(tqdm(range(10))) == 45
    """,
)


# ============================================================ the proof that every case can fail


def _say_verdict(cells: Iterable[str], check: str, folder: str) -> str:
    """Return what ``check`` prints after ``cells``, all run in a shell of this process."""
    from IPython.core.interactiveshell import InteractiveShell

    os.chdir(folder)
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]  # stale after a fork
    shell = InteractiveShell.instance()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        for cell in cells:
            shell.run_cell(cell, store_history=True)
        printed.seek(0)
        before = printed.read()
        shell.run_cell(checking_cell(check), store_history=True)
    return verdict_in(printed.getvalue()[len(before) :]) or f"no verdict: {printed.getvalue()}"


def _in_child(work: Callable[[], str], limit_s: int) -> str:
    """Return what ``work`` returns in a forked process, which then ends without clean-up."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        try:
            # What a pipe takes in one piece: grandchildren keep it open, so there is no EOF.
            os.write(writer, work().encode()[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    readable, _, _ = select.select([reader], [], [], limit_s)
    said = os.read(reader, 4000) if readable else b"no verdict: hangs"
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, 9)
    os.waitpid(pid, 0)
    return said.decode()


def prove_cases_can_fail(names: Sequence[str]) -> None:
    """Print, for every case, what it says untouched and what it says disturbed."""
    from IPython.core.interactiveshell import InteractiveShell

    history = InteractiveShell.instance().history_manager
    assert history is not None
    history.enabled = False
    for imports in WARM.values():
        exec(imports, {})  # noqa: S102
    for case in CASES:
        if not names or case.id in names:
            said = {"id": case.id, "untouched": _prove(case, ())}
            said["disturbed"] = _prove(case, case.disturb)
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()


def _prove(case: Case, disturb: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return _in_child(lambda: _say_verdict((*case.setup, *disturb), case.check, folder), 30)


if __name__ == "__main__":
    prove_cases_can_fail(sys.argv[1:])
