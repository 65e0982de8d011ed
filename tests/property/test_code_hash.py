"""The code hash on generated cells: the tree counts, all of it and nothing else."""

from __future__ import annotations

import ast
import keyword
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from chexpoint.lineage.code import code_hash
from chexpoint.model import Digest

pytestmark = pytest.mark.slow

_NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=4).filter(
    lambda name: not keyword.iskeyword(name) and not keyword.issoftkeyword(name)
)
_CONSTANTS = st.one_of(
    st.integers(0),
    st.floats(0, allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from([None, True, False, ...]),
)
_ATOMS = st.one_of(
    _NAMES.map(lambda name: ast.Name(name, ast.Load())),
    _CONSTANTS.map(ast.Constant),
)


def _larger(inner: st.SearchStrategy[ast.expr]) -> st.SearchStrategy[ast.expr]:
    operators = st.sampled_from([ast.Add(), ast.Mult(), ast.Pow(), ast.BitOr()])
    return st.one_of(
        st.builds(ast.BinOp, inner, operators, inner),
        st.builds(ast.UnaryOp, st.sampled_from([ast.USub(), ast.Not()]), inner),
        st.builds(lambda f, a: ast.Call(f, a, []), inner, st.lists(inner, max_size=3)),
        st.builds(lambda e: ast.List(e, ast.Load()), st.lists(inner, max_size=3)),
        st.builds(lambda v, n: ast.Attribute(v, n, ast.Load()), inner, _NAMES),
        st.builds(ast.IfExp, inner, inner, inner),
    )


_EXPRESSIONS: st.SearchStrategy[ast.expr] = st.recursive(_ATOMS, _larger, max_leaves=8)


@st.composite
def _statements(draw: st.DrawFn) -> ast.stmt:
    value = draw(_EXPRESSIONS)
    name = draw(_NAMES)
    body: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], value, lineno=1)]
    match draw(st.integers(0, 3)):
        case 0:
            return ast.Expr(value)
        case 1:
            return ast.If(value, body, [])
        case 2:
            return ast.For(ast.Name(name, ast.Store()), value, body, [], lineno=1)
        case _:
            return body[0]


_CELLS = st.lists(_statements(), min_size=1, max_size=4)


def text(statements: list[ast.stmt]) -> str:
    return ast.unparse(ast.fix_missing_locations(ast.Module(statements, [])))


def hash_of(source: str) -> Digest:
    return code_hash(source, TransformerManager().transform_cell)


@given(_CELLS, st.data())
def test_comments_blank_lines_and_semicolons_do_not_count(
    cell: list[ast.stmt], data: st.DataObject
) -> None:
    source = text(cell)
    # Only the simple statements of the top level: a line may also be inside a literal.
    pieces = [text([statement]) for statement in cell]
    changes = st.sampled_from(["", "  # comment", "\n\n", " ;", "\n# comment\n"])
    changed = "\n".join(
        piece + data.draw(changes if "\n" not in piece else st.just("\n")) for piece in pieces
    )
    assert hash_of(changed) == hash_of(source)


@given(_EXPRESSIONS, _NAMES)
def test_redundant_parentheses_do_not_count(expression: ast.expr, name: str) -> None:
    source = ast.unparse(ast.fix_missing_locations(expression))
    assert hash_of(f"{name} = ((\n{source}\n))") == hash_of(f"{name} = {source}")


@given(_CELLS)
def test_the_text_of_the_tree_has_the_same_hash(cell: list[ast.stmt]) -> None:
    source = text(cell)
    assert hash_of(ast.unparse(ast.parse(source))) == hash_of(source)
    assert hash_of(f"%%time\n{source}") != hash_of(source)


@given(_CELLS, st.data())
def test_every_constant_and_name_counts(cell: list[ast.stmt], data: st.DataObject) -> None:
    before = text(cell)
    leaves = [
        node
        for statement in cell
        for node in ast.walk(statement)
        if isinstance(node, ast.Name | ast.Constant | ast.Attribute)
    ]
    assume(leaves)
    leaf = data.draw(st.sampled_from(leaves))
    match leaf:
        case ast.Name():
            leaf.id += "_"
        case ast.Attribute():
            leaf.attr += "_"
        case ast.Constant():
            leaf.value = data.draw(_CONSTANTS.filter(lambda new: repr(new) != repr(leaf.value)))
    after = text(cell)
    assert hash_of(before) != hash_of(after)


@given(_CELLS, _CELLS)
def test_cells_are_equal_exactly_when_their_trees_are(a: list[ast.stmt], b: list[ast.stmt]) -> None:
    first, second = text(a), text(b)
    same = ast.dump(ast.parse(first)) == ast.dump(ast.parse(second))
    assert (hash_of(first) == hash_of(second)) is same


@given(st.text(), st.sampled_from(["", "%%time\n", "%%bash\n", "%chex_status\n"]))
def test_any_text_has_a_hash(source: str, magic: str) -> None:
    assert len(hash_of(magic + source)) == 32
