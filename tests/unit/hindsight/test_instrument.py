"""Where the calls are put, and which loops are left alone."""

from __future__ import annotations

import ast
import textwrap

import pytest

from chexpoint.hindsight.program.instrumenting import Instrumented, instrument

RUNTIME = '__chex__ = __import__("builtins").__dict__.get("__chex__")'


def done(source: str, **options: object) -> Instrumented:
    tree = ast.parse(textwrap.dedent(source))
    before = ast.dump(tree, include_attributes=True)
    result = instrument(tree, **options)  # type: ignore[arg-type]
    assert ast.dump(tree, include_attributes=True) == before, "the given tree was changed"
    compile(result.tree, "<program>", "exec")
    return result


def same(result: Instrumented, expected: str) -> bool:
    return ast.dump(result.tree) == ast.dump(ast.parse(textwrap.dedent(expected)))


def test_loops_of_a_cell() -> None:
    result = done("""
        for epoch in range(3):
            while more:
                step()
    """)
    assert same(
        result,
        """
        if __chex__.enter(0):
            for epoch in __chex__.iterate(0, range(3)):
                if __chex__.enter(1):
                    while more:
                        __chex__.tick(1)
                        step()
                __chex__.end(1)
        __chex__.end(0)
        """,
    )
    outer, inner = result.sites
    assert (outer.site, outer.line, outer.kind, outer.label, outer.within) == (
        0,
        2,
        "for",
        "epoch",
        None,
    )
    assert (inner.site, inner.line, inner.kind, inner.label, inner.within) == (
        1,
        3,
        "while",
        "step",
        0,
    )
    assert not result.left


def test_loops_of_a_function_do_without_us() -> None:
    result = done('''
        def train(data):
            """Train."""
            global model
            for x in data:
                pass
            while data:
                data.pop()
    ''')
    assert same(
        result,
        f'''
        def train(data):
            """Train."""
            {RUNTIME}
            global model
            if __chex__ is None or __chex__.enter(0):
                for x in data if __chex__ is None else __chex__.iterate(0, data):
                    pass
            if __chex__ is not None:
                __chex__.end(0)
            if __chex__ is None or __chex__.enter(1):
                while data:
                    if __chex__ is not None:
                        __chex__.tick(1)
                    data.pop()
            if __chex__ is not None:
                __chex__.end(1)
        ''',
    )
    assert [site.function for site in result.sites] == ["train", "train"]


def test_functions_without_loops_stay_as_they_are() -> None:
    source = "def f():\n    return [x for x in range(3)]\nclass K:\n    def g(self): return 1"
    assert same(done(source), source)


def test_numbers_begin_where_they_are_told_to() -> None:
    result = done("for x in y:\n    pass", first=7)
    assert "enter(7)" in ast.unparse(result.tree)
    assert [site.site for site in result.sites] == [0]


def test_the_third_level_is_left_alone_without_a_word() -> None:
    result = done("""
        for a in x:
            with y:
                for b in x:
                    try:
                        for c in x:
                            pass
                    finally:
                        pass
    """)
    assert [(site.label, site.within) for site in result.sites] == [("a", None), ("b", 0)]
    assert not result.left


def test_levels_are_counted_in_each_function() -> None:
    result = done("""
        for a in x:
            def f():
                for b in x:
                    for c in x:
                        pass
    """)
    assert [(site.label, site.within, site.function) for site in result.sites] == [
        ("a", None, ""),
        ("b", None, "f"),
        ("c", 1, "f"),
    ]


def test_qualified_names() -> None:
    result = done("""
        class Trainer:
            def fit(self):
                def inner():
                    for a in x: pass
                for b in x: pass
    """)
    assert [site.function for site in result.sites] == ["Trainer.fit.<locals>.inner", "Trainer.fit"]


@pytest.mark.parametrize(
    ("target", "label"),
    [
        ("epoch", "epoch"),
        ("i, (x, y)", "i"),
        ("(a, b), c", "a"),
        ("self.x", "step"),
        ("*a, b", "step"),
    ],
)
def test_labels(target: str, label: str) -> None:
    assert done(f"for {target} in data:\n    pass").sites[0].label == label


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("for x in y:\n    pass\nelse:\n    pass", "it has an `else` clause"),
        ("while x:\n    pass\nelse:\n    pass", "it has an `else` clause"),
        ("async def f():\n    for x in y: pass", "it is in an `async` function"),
        ("async def f():\n    async for x in y: pass", "it is in an `async` function"),
        ("def f():\n    for x in y: yield x", "it is in a generator"),
        ("def f():\n    for x in y: pass\n    yield from z", "it is in a generator"),
        ("class K:\n    for x in y: pass", "it is in the body of a class"),
        ("def f():\n    locals()\n    for x in y: pass", "it is in a function that calls `locals`"),
        ("def f():\n    for x in y: vars()", "it is in a function that calls `vars`"),
        ("def f():\n    for x in y: exec(x)", "it is in a function that calls `exec`"),
        ("def f():\n    for x in y: [eval(z) for z in x]", "it is in a function that calls `eval`"),
        ("def f():\n    for x in dir(): pass", "it is in a function that calls `dir`"),
        ("def f():\n    for x in y: sys._getframe()", "it is in a function that uses `_getframe`"),
        (
            "def f():\n    for x in y: currentframe()",
            "it is in a function that uses `currentframe`",
        ),
        ("def f():\n    __chex__ = 1\n    for x in y: pass", "the name `__chex__` is used"),
        ("__chex__ = 1\nfor x in y: pass", "the name `__chex__` is used"),
        ("def f(__import__):\n    for x in y: pass", "the name `__import__` is used"),
        ("@numba.njit(parallel=True)\ndef f():\n    for x in y: pass", "`f` may be compiled"),
        ("def f():\n    for x in y: pass\ng = jit(f)", "`f` may be compiled"),
        ("class N:\n    def forward(self):\n        for x in y: pass", "`forward` may be compiled"),
    ],
)
def test_what_is_left_alone(source: str, reason: str) -> None:
    result = done(source)
    assert same(result, source)
    assert not result.sites
    (left,) = result.left
    assert left[1] == reason
    assert source.splitlines()[left[0] - 1].strip().startswith(("for", "while", "async for"))


def test_top_level_await() -> None:
    source = "for x in y:\n    await x\nasync for x in y:\n    for z in x: pass\nfor a in b: pass"
    result = instrument(ast.parse(source))
    assert result.left == ((1, "it has a `yield` or `await` in it"), (3, "it is an `async for`"))
    assert [site.line for site in result.sites] == [4, 5]
    compile(result.tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_functions_beside_one_that_is_left_alone() -> None:
    result = done("""
        def f():
            def g():
                locals()
                for x in y: pass
            for a in b: pass
    """)
    assert [site.function for site in result.sites] == ["f"]
    assert [line for line, _ in result.left] == [5]


def test_reading_import_is_no_reason() -> None:
    assert done("def f():\n    m = __import__('os')\n    for x in y: pass").sites


def test_lines_stay_where_they_are() -> None:
    source = "for a in x:\n\n    b = 1\n    while c:\n        d = 2\n\ne = 3\n"
    result = done(source)
    lines = {
        node.targets[0].id: node.lineno  # type: ignore[attr-defined]
        for node in ast.walk(result.tree)
        if isinstance(node, ast.Assign)
    }
    assert lines == {"b": 3, "d": 5, "e": 7}
    for node in ast.walk(result.tree):
        if isinstance(node, ast.expr | ast.stmt):
            assert 1 <= node.lineno <= 7


def test_added_statements_are_put_between_calls() -> None:
    source = """\
import extra
for a in x:
    print(a)
    print(extra)
    step()
    for p in params:
        print(p)
def f():
    print(1)
"""
    result = done(source, added=[(1, 1), (3, 3), (4, 4), (6, 7), (9, 9)])
    assert same(
        result,
        f"""
        __chex__.before_added(0)
        import extra
        __chex__.after_added(0)
        if __chex__.enter(0):
            for a in __chex__.iterate(0, x):
                __chex__.before_added(1)
                print(a)
                print(extra)
                __chex__.after_added(1)
                step()
                __chex__.before_added(2)
                for p in params:
                    print(p)
                __chex__.after_added(2)
        __chex__.end(0)
        def f():
            {RUNTIME}
            if __chex__ is not None:
                __chex__.before_added(3)
            print(1)
            if __chex__ is not None:
                __chex__.after_added(3)
        """,
    )
    assert [site.line for site in result.sites] == [2]


def test_added_statements_do_not_change_what_is_said_of_loops() -> None:
    old = "def f():\n    for a in x:\n        b = g(a)\n"
    new = "def f():\n    for a in x:\n        b = g(a)\n        print(locals(), b)\n    print(b)\n"
    (before,), (after,) = done(old).sites, done(new, added=[(4, 4), (5, 5)]).sites
    assert before == after


def test_added_statements_where_no_variable_may_be() -> None:
    source = "def f():\n    print(1)\n    return locals()\nclass K:\n    print(2)\n"
    text = ast.unparse(done(source, added=[(2, 2), (5, 5)]).tree)
    assert text.count("__import__('builtins').__dict__.get('__chex__')") == 8
    assert "__chex__ =" not in text


def test_what_must_be_first_stays_first() -> None:
    source = '"""Text."""\nfrom __future__ import annotations\nimport os\n'
    result = done(source, added=[(1, 1), (2, 2), (3, 3)])
    assert ast.get_docstring(result.tree) == "Text."
    assert isinstance(result.tree.body[1], ast.ImportFrom)


def test_programs_that_are_nested_deep() -> None:
    long = "for x in " + "+".join(["y"] * 900) + ":\n    z = " + "+".join(["x"] * 900)
    assert len(done(long).sites) == 1
    chain = ast.parse("for x in y:\n    if x: pass\n" + "    elif x == 1: pass\n" * 900)
    result = instrument(chain)
    assert result.tree.body == chain.body
    assert result.left == ((1, "the program is nested too deep"),)


def test_an_error_is_where_it_was() -> None:
    source = "for x in 5:\n    pass\n"
    names = {
        "__chex__": type("Through", (), {"enter": lambda *_: True, "iterate": lambda _, s, i: i})()
    }
    with pytest.raises(TypeError, match="'int' object is not iterable") as caught:
        exec(compile(done(source).tree, "<program>", "exec"), names)  # noqa: S102 - it is ours
    assert caught.traceback[-1].lineno == 0
