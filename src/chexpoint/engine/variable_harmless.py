"""Uses of a table that cannot change it, told from the text of a cell.

Only asked about large tables, which take long to be read again.  Pandas copies memory before it is
written to if another object shows it, so what is taken out of a table is not a way into it, unless
somebody goes around that; columns that hold Python objects are one, and tables with such columns
are never told harmless.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from typing import Any

from chexpoint.engine.variable_facts import SOME_FUNCTION
from chexpoint.engine.variable_known import Known, Token, token_of
from chexpoint.engine.variable_reads import CellUses
from chexpoint.engine.variable_tables import is_plain_table, is_table
from chexpoint.engine.variable_text import MEMORY, children_of, nodes_of, writes_around
from chexpoint.image import is_own

# Methods that return something new, unless they are told to work in place.
_METHOD_NAMES = """
abs add add_prefix add_suffix agg aggregate all any apply assign astype between bfill clip copy corr
corrwith count cov cummax cummin cumprod cumsum describe diff div dot drop drop_duplicates dropna
duplicated eq equals expanding explode ffill fillna filter first_valid_index ge get groupby gt head
hist idxmax idxmin info interpolate isin isna isnull items iterrows itertuples join kurt le lt map
mask max mean median melt memory_usage merge min mod mode mul ne nlargest notna notnull nsmallest
nunique pct_change pivot pivot_table plot pow prod quantile query rank reindex rename rename_axis
replace resample reset_index rolling round sample select_dtypes sem set_axis set_index shift skew
sort_index sort_values squeeze stack std sub sum tail to_csv to_dict to_excel to_feather to_frame
to_html to_json to_list to_markdown to_parquet to_pickle to_sql to_string tolist transform transpose
truediv unique unstack value_counts var where xs
"""
_METHODS = frozenset(_METHOD_NAMES.split())
_VALUES = frozenset({"T", "dtype", "dtypes", "empty", "ndim", "shape", "size"})
_PLACES = frozenset({"at", "iat", "iloc", "loc"})
_ACCESSORS = frozenset({"cat", "dt", "plot", "str"})
_LABELS = frozenset({"columns", "index"})
_BUILTINS = frozenset({"bool", "isinstance", "len", "print", "repr", "str", "type"})
_COPYING = frozenset({"enumerate", "list", "set", "sorted", "tuple", *_BUILTINS})
_FUNCTION_NAMES = """
concat crosstab cut get_dummies isna isnull melt merge merge_asof merge_ordered notna notnull pivot
pivot_table qcut to_datetime to_numeric to_timedelta unique wide_to_long
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
# Of other libraries, by their modules.
_LOOKING = {"sklearn.model_selection": frozenset({"train_test_split"})}


class Harmless:
    """Tells which tables a cell surely leaves as they are.

    Parameters
    ----------
    uses
        The cell.
    names
        The variables after it.
    before
        What told them apart before it, by `token_of`.
    touched
        Those that it may have changed.
    direct
        Names that only its own text uses, no function that it can reach.
    """

    def __init__(
        self,
        uses: CellUses,
        names: Mapping[str, object],
        before: Mapping[str, Token],
        *,
        touched: set[str],
        direct: set[str],
        known: Known,
    ) -> None:
        self._uses = uses
        self._names = names
        self._before = before
        self._touched = touched
        self._direct = direct
        self._known = known
        self._bound: set[str] = set()
        self._parents: dict[ast.AST, ast.AST] = {}
        self._mentions: dict[str, list[ast.Name]] = {}
        self._may_change: bool | None = None

    def is_kept(self, name: str) -> bool:
        """Tell whether a variable is a table that the cell has surely left as it was."""
        if not self._is_same(name) or not is_plain_table(self._names[name]):
            return False
        # It can only be changed by way of one of those it shares something with.
        group = self._known.sharing.groups.get(name)
        used = group & self._touched if group is not None else set()
        if not used or not used <= self._direct or not all(map(self._is_same, used)):
            return False
        if not all(is_plain_table(self._names[each]) for each in used):
            return False
        if self._may_change is None:
            self._may_change = self._look()
        return not self._may_change and all(
            self._is_harmless(node, self._names[each])
            for each in used
            for node in self._mentions.get(each, ())
        )

    def _is_same(self, name: str) -> bool:
        return name in self._names and self._before.get(name) == token_of(self._names[name])

    def _look(self) -> bool:
        """Look at the text; return whether anything in it may change any table."""
        tree = self._uses.tree
        if self._uses.is_opaque or tree is None:
            return True
        nodes = nodes_of(tree)
        imported: list[str] = []
        for node in nodes:
            for child in children_of(node):
                self._parents[child] = node
            match node:
                case ast.Name(id=name):
                    self._mentions.setdefault(name, []).append(node)
                    if not isinstance(node.ctx, ast.Load):
                        self._bound.add(name)
                case ast.arg(arg=str(name)) | ast.MatchAs(name=str(name)):
                    self._bound.add(name)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self._bound.add(node.name)
                case ast.alias(name=name, asname=other):
                    imported.append(other or name.partition(".")[0])
        # Two of one name may be two functions.
        self._bound |= {name for name in imported if imported.count(name) > 1}
        return writes_around(nodes) or self._calls_what_writes_around()

    def _calls_what_writes_around(self) -> bool:
        """Tell whether functions that a cell can reach may write memory behind a table's back.

        Those in files of the user's own are not looked into.
        """
        facts = self._known.facts
        used = [facts[name] for name in self._touched if name in facts]
        if any(SOME_FUNCTION in each.reaches for each in used):
            used = list(facts.values())
        homes = set(self._uses.imports).union(*(each.modules for each in used))
        return any(MEMORY in each.reaches for each in used) or any(
            is_own(sys.modules.get(home)) for home in homes
        )

    def _is_harmless(self, node: ast.Name, value: Any) -> bool:
        if not isinstance(node.ctx, ast.Load):
            return False
        parent = self._parents[node]
        match parent:
            case ast.Expr() | ast.FormattedValue():
                return True
            case ast.Subscript(value=inner, ctx=context):
                return inner is node and isinstance(context, ast.Load)
            case ast.Attribute(attr=name, ctx=ast.Load()):
                return self._is_harmless_attribute(parent, name, value)
            case ast.Compare(left=left, comparators=[ast.Constant()]):
                return left is node
        return self._is_argument(node, parent)

    def _is_harmless_attribute(self, node: ast.Attribute, name: str, value: Any) -> bool:
        parent = self._parents[node]
        if name in _METHODS:
            return isinstance(parent, ast.Call) and parent.func is node and not _in_place(parent)
        if name in _PLACES:
            return isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Load)
        if name in _LABELS:
            return self._is_harmless_label(node, parent)
        is_column = name not in dir(type(value)) and name in getattr(value, "columns", ())
        return name in _VALUES or name in _ACCESSORS or is_column

    def _is_harmless_label(self, node: ast.Attribute, parent: ast.AST) -> bool:
        match parent:
            case ast.For(iter=each) | ast.comprehension(iter=each):
                return each is node
            case ast.Attribute(attr="tolist" | "to_list" | "isin" | "difference"):
                return True
            case ast.Compare():
                return True
            case ast.Call(func=ast.Name(id=name)):
                return name in _COPYING and name not in self._names
        return False

    def _is_argument(self, node: ast.AST, parent: ast.AST) -> bool:
        """Tell whether something is given to a function that only looks at it."""
        while isinstance(parent, ast.List | ast.Tuple | ast.keyword):
            node, parent = parent, self._parents[parent]
        match parent:
            case ast.Call(func=ast.Name(id=name)) if parent.func is not node:
                return self._only_looks(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
                module = self._names.get(owner) if owner not in self._bound else None
                if module is sys.modules.get("pandas"):
                    return name in _FUNCTIONS
                return name in {"merge", "join"} and is_table(module)
        return False

    def _only_looks(self, name: str) -> bool:
        """Tell whether a name stands for a function that leaves tables as they are."""
        if name in self._bound:
            return False  # it may have been another one when it was called
        if name not in self._names:
            return name in _BUILTINS
        found = self._names[name]
        if self._before.get(name, token_of(found)) != token_of(found):
            return False
        known = ((sys.modules.get(home), each) for home, each in _LOOKING.items())
        return any(getattr(home, each, None) is found for home, some in known for each in some)


def _in_place(call: ast.Call) -> bool:
    return any(each.arg in {None, "inplace", "copy"} for each in call.keywords)
