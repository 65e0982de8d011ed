"""What counts in the code of a cell, and what does not."""

from __future__ import annotations

import itertools
import sys
import warnings

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from chexpoint.lineage.code import code_hash
from chexpoint.model import Digest


def hash_of(source: str) -> Digest:
    return code_hash(source, TransformerManager().transform_cell)


SAME = [
    ("x = 1", "x = 1  # one"),
    ("x = 1", "\n\n  # first\n\nx   =  1\n\n"),
    ("x = 1", "x = (1)"),
    ("x = 1", "(x) = 1"),
    ("x = 1, 2", "x = (\n    1,\n    2,\n)"),
    ("x", "x;"),
    ("x = 1; y = 2", "x = 1\ny = 2"),
    ("x = 'a'", 'x = "a"'),
    ("x = 'a'", "x = u'''a'''"),
    ("x = 'ab'", "x = 'a' r'b'"),
    ("x = 255", "x = 0xFF"),
    ("x = 1000.0", "x = 1_000.0"),
    ("  x = 1\n  y = 2", "x = 1\ny = 2"),
    ("if a:\n  b", "if a:\n        b"),
    ("", "# nothing\n\n"),
    ("%%time\nx = 1", "%%time \n\nx = (1)  # one"),
    ("%%time\nx = 1", "%%time\n    x = 1"),
    ("%%capture out\n%%time\nx = 1", "%%capture  out \n%%time\n# one\nx = 1;"),
    ("%%capture\nx = !ls", "%%capture\nx  = !ls"),
    ("%%bash -e\nls", "%%bash  -e \nls\n"),
    ("x = 1", "%%chex_record name\nx = 1"),
    ("%%bash\nls", "%%chex_record name\n%%bash\nls"),
    ("%%time\nx", "%%chex_record name\n%%time\nx # y"),
    ("x = 1", "%chex_checkpoint here\nx = 1\n%chex_status"),
    ("x = 1", "x = 1\n%chex_restore here"),
    ("", "%chex_checkout here"),
    (">>> x = 1", "x = 1"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_layout_does_not_count(a: str, b: str) -> None:
    assert hash_of(a) == hash_of(b)


DIFFERENT = [
    # Constants have types.
    *itertools.combinations(["x = 1", "x = 1.0", "x = True", "x = '1'", "x = b'1'", "x = 1j"], 2),
    *itertools.combinations(["x = None", "x = ...", "x = ''", "x = b''", "x = 'None'"], 2),
    ("x = '\\ud800'", "x = '\\ud801'"),
    ("x = 1", "y = 1"),
    ("x = 1", "x == 1"),
    ("x = 1", "x: int = 1"),
    ("x: int", "(x): int"),
    ("x = -1", "x = 1"),
    ("x = 0.1", "x = 0.10000000000000002"),
    ("a + b", "a - b"),
    ("f(a, b)", "f((a, b))"),
    ("f(a)", "f(*a)"),
    ("f(a, b)", "f(b, a)"),
    ("[a, [b]]", "[[a], b]"),
    ("a; b", "a, b"),
    ("{a: b}", "{**b}"),
    ("if a:\n    b\nc", "if a:\n    b\n    c"),
    ("if a:\n    b\nelse:\n    c", "if a:\n    b\n    c"),
    ("def f(): 'doc'", "def f(): 'other'"),
    ("def f(a, /): 0", "def f(a): 0"),
    ("def f(a, *, b): 0", "def f(a, b): 0"),
    ("def f(): 0", "async def f(): 0"),
    ("f'{x}'", "f'{x!r}'"),
    ("f'{x}'", "'{x}'"),
    ("import a", "import a as b"),
    ("from a import b", "from .a import b"),
    ("global a", "nonlocal a"),
    ("x", "await x"),
    ("match a:\n    case 1: 0", "match a:\n    case True: 0"),
    ("['a', 'b']", "['a\\n1:b']"),
    ("!ls", "!ls -l"),
    ("!ls", "%ls"),
    ("%time x", "x"),
    ("x = %chex_status", "x = 1"),
    ("", "pass"),
    # Magics: their name, their line, their body.
    ("%%time\nx", "x"),
    ("%%time\nx", "%%timeit\nx"),
    ("%%timeit -n 1\nx", "%%timeit -n 2\nx"),
    ("%%time\nx = 1", "%%time\nx = 2"),
    ("%%capture\n%%time\nx", "%%time\n%%capture\nx"),
    ("%%bash\nls", "%%sh\nls"),
    ("%%bash\nls", "%%bash\nls  # all"),
    ("%%bash\nls", "%%bash\n ls"),
    ("%%html\n<p>", "%%html\n<p >"),
    ("%%writefile a\nx = 1", "%%writefile b\nx = 1"),
    ("%%unknown\nx = 1", "%%unknown\nx = (1)"),
    # What is not Python is taken as it is.
    ("x = = 1", "x = =  1"),
    ("%%time\nx = = 1", "%%time\nx = =  1"),
    ("%%time\nx = = 1", "x = = 1"),
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_everything_else_counts(a: str, b: str) -> None:
    assert hash_of(a) != hash_of(b)


STRANGE = {
    "null byte": "x = 1\0",
    "lone surrogate": "x = '\ud800'",
    "other lone surrogate": "x = '\udc80'",
    "invalid escape": r"x = '\d'",
    "number next to keyword": "1if x else 2",
    "unfinished": "x = (",
    "unfinished string": "'''",
    "strange indents": "if x:\n        a\n    b",
    "long integer": "x = 0x" + "f" * 10_000,
    "too long integer": "9" * 5000,
    "deep parentheses": "(" * 300 + ")" * 300,
    "deep operators": "a" + "+a" * 4_000,
    "deep unary": "-" * 10_000 + "1",
    "many magics": "%%time\n" * 50,
    "help": "x?",
    "only a magic": "%%",
}


@pytest.mark.parametrize("source", STRANGE.values(), ids=STRANGE)
def test_strange_cells_have_a_hash_of_their_own(source: str) -> None:
    # Warnings are errors here: the parser must not give any.
    found = hash_of(source)
    assert len(found) == 32
    assert found not in {hash_of(""), hash_of(source + "\ny = 1")}


def test_a_cell_that_only_looks_at_the_past_is_nothing() -> None:
    body = "for epoch in range(3):\n    print(epoch)\n"
    assert hash_of(f"%%chex_hindsight baseline --epochs 1:2\n{body}") == hash_of("")
    assert hash_of(f"%%chex_hindsight --into table\n{body}") != hash_of("")


def test_a_cell_is_not_its_own_text_in_a_magic() -> None:
    hashes = [hash_of(f"{magic}ls(") for magic in ("", "%%time\n", "%%bash\n", "%%script bash\n")]
    assert len(set(hashes)) == 4


def test_long_sums_do_not_depend_on_the_depth_of_the_caller() -> None:
    source = "a" + "+a" * 1500 + "  # comment"
    assert hash_of(source) == hash_of(source.removesuffix("  # comment"))

    def deep(frames: int) -> Digest:
        return hash_of(source) if frames == 0 else deep(frames - 1)

    assert deep(sys.getrecursionlimit() // 4) == hash_of(source)


def test_a_failing_transformer_is_survived() -> None:
    def fails(source: str) -> str:
        raise RuntimeError(source)

    assert code_hash("x = 1", fails) != code_hash("x = 2", fails)


def test_a_transformer_that_always_makes_a_magic_is_survived() -> None:
    def grows(source: str) -> str:
        return f"get_ipython().run_cell_magic('time', '', {source + 'x'!r})"

    assert code_hash("x", grows)


def test_warnings_shown_already_are_not_shown_again() -> None:
    registry: dict[str | tuple[str, type[Warning], int], int] = {}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn_explicit("once", UserWarning, "file", 1, registry=registry)
            hash_of(r"'\d'")
    assert [str(warning.message) for warning in shown] == ["once"]


def test_hashes_stay_what_they_are() -> None:
    """Stored lineages name these: they must not change with CHEX or Python."""
    source = '''
import numpy as np
from .a import b as c

@decorated
class A(B, key=1.5):
    """Doc."""

    def f(self, x: int = -1, /, *args: str, y=b"1", **kw) -> None:
        global g
        with open(f"{x!r:>{y}}") as self.file:
            return [a for a in range(0xFF) if not a % 2j]

match a:
    case {"k": [1, *_], **rest} if rest: ...
    case A(x=None) | "s": pass
try:
    x[1:2, ...] = lambda: (yield)
except (E, F) as e:
    raise e from None
'''
    assert hash_of(source) == "b00ab0b12cfac9aed0f559b6dc5fe76e"
    assert hash_of("%%bash -e\nls") == "ae8e6e2f45ec498b222ec43f8cf8120e"
    assert hash_of("x = (") == "56b48d63a88d210ee8237ae7d3af2d2c"
