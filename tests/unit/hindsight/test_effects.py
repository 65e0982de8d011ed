"""The rules by which the names are found that a loop changes."""

from __future__ import annotations

import ast
import textwrap

import pytest

from chexpoint.hindsight.program.instrumenting import instrument
from chexpoint.model import LoopSite


def sites(source: str) -> tuple[LoopSite, ...]:
    return instrument(ast.parse(textwrap.dedent(source))).sites


def cell(body: str, *, before: str = "", after: str = "") -> LoopSite:
    """Return the site of a loop with this body, at the top level of a cell."""
    rows = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return sites(f"{before}\nfor i in data:\n{rows}\n{after}\n")[0]


def test_rule_0_a_changed_object_gets_another_name() -> None:
    site = cell("net.step()\nnet = other")
    assert site.no_estimate == "line 4 binds `net` anew after its object was changed"


@pytest.mark.parametrize(
    "body",
    [
        "x = 1\nx = 2",  # it was only bound
        "loss += f()\nif i:\n    loss = 0.0",  # as in every tutorial
        "x = 1\nx = f(x)",
        "net.step()\nnet.lr = 3",
    ],
)
def test_rule_0_is_about_objects(body: str) -> None:
    assert not cell(body).no_estimate


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("loss = net.step(i)", {"net", "loss"}),  # rule 1
        ("a, b = net.inner[0].step(i)", {"net", "a", "b"}),
        ("loss = step(net)", {"loss"}),  # rule 2: what it misses shows at run time
        ("a = b", {"a"}),  # rule 3
        ("a, *b = c", {"a", "b"}),
        ("a: int = 1", {"a"}),
        ("optimizer.step()", {"optimizer"}),  # rule 4
        ("loss.mean().backward()", {"loss"}),
        ("super().step()", {"self"}),
        ("print(i)", set()),  # rule 5 does not count for these
        ("len(a)\nisinstance(a, b)\nsum(a)\ntqdm(a)\nlog(loss=a)", set()),
        ("next(it)", {"it"}),
        ("x = next(it)", {"x", "it"}),
        ("setattr(net, 'a', 1)", {"net"}),
        ("a += 1", {"a"}),
        ("del a, d['x']", {"a", "d"}),
        ("with torch.no_grad() as g:\n    a = 1", {"torch", "g", "a"}),
        ("if (n := f()):\n    pass", {"n"}),
        ("net.weight = 1\nd[0] = 2\na.b.c += 1", {"net", "d", "a"}),
        ("if i:\n    a = 1\nelse:\n    b = 1", {"a", "b"}),
        ("try:\n    a = 1\nexcept E as e:\n    b = 1\nfinally:\n    c = 1", {"a", "b", "c", "e"}),
        ("for j, k in x.items():\n    a.append(j)", {"j", "k", "x", "a"}),
        ("while q.pop():\n    pass", {"q"}),
        (
            "match i:\n    case [a, *b]:\n        pass\n    case {'x': c, **d}:\n        pass",
            set("abcd"),
        ),
        ("import math\ndef f(): pass", {"math", "f"}),
        ("[out.append(j) for j in i]", {"out"}),
        ("'a'.join(i)\n[].append(1)", set()),
    ],
)
def test_what_statements_change(body: str, changed: set[str]) -> None:
    site = cell(body)
    assert {*site.estimate, *site.own} == changed | {"i"}
    assert not site.no_estimate


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "train_step(net, i)",
            "line 3 calls `train_step(net, i)`, and nobody knows what that changes",
        ),
        (
            "if i:\n    update(net)",
            "line 4 calls `update(net)`, and nobody knows what that changes",
        ),
        ("fs[0](net)", "line 3 calls `fs[0](net)`, and nobody knows what that changes"),
        ("make().step()", "line 3 changes what `make()` gives"),
    ],
)
def test_rule_5_nothing_is_said(body: str, text: str) -> None:
    assert cell(body).no_estimate == text


def test_names_of_the_loop_itself_are_left_out() -> None:
    site = cell(
        "x = i.to(gpu)\nloss = net(x)\nloss.backward()\nopt.step()\ntotal += 1", before="total = 0"
    )
    assert site.own == ("i", "loss", "x")
    assert site.estimate == ("opt", "total")


def test_names_that_are_read_after_the_loop_stay() -> None:
    assert "loss" in cell("loss = f(i)", after="print(loss)").estimate
    assert "loss" in cell("loss = f(i)", after="def g():\n    return loss").estimate
    assert "loss" in cell("loss = f(i)", before="loss = None").estimate


def test_names_that_the_next_iteration_reads_stay() -> None:
    inner = sites("""
        for epoch in range(3):
            print(loss)
            for x in data:
                loss = f(x)
    """)[1]
    assert inner.estimate == ("loss",)
    assert inner.own == ("x",)
    assert cell("a = b\nb = f(i)").estimate == ("b",)


def test_in_a_function_what_is_bound_anew_is_not_read() -> None:
    train, check = sites("""
        def run(train, test):
            for x, y in train:
                loss = f(x, y)
            for x, y in test:
                loss = f(x, y)
                print(loss)
    """)
    assert (train.own, train.estimate) == (("loss", "x", "y"), ())
    assert (check.own, check.estimate) == (("loss", "x", "y"), ())


@pytest.mark.parametrize(
    "after",
    [
        "return best",
        "if x:\n    return\nprint(best)",
        "while x:\n    print(best)\n    best = 1",
        "try:\n    best = f()\nexcept E:\n    print(best)",
        "try:\n    f()\nfinally:\n    g(best)",
        "for x in y:\n    best = x\nreturn best",
        "with x:\n    best = f()\nreturn best",
        "del best",
        "best += 1",
        "return lambda: best",
        "return (best for _ in x)",
        "return [best for _ in x]",
        "match x:\n    case 1:\n        return best",
    ],
)
def test_ways_to_be_read_later(after: str) -> None:
    body = textwrap.indent(after, "    ")
    (site, *_) = sites(f"def run(data):\n    for i in data:\n        best = i\n{body}\n")
    assert site.estimate == ("best",)


@pytest.mark.parametrize(
    "after",
    [
        "best = 1\nreturn best",
        "return 1\nprint(best)",
        "if x:\n    best = 1\nelse:\n    best = 2\nreturn best",
        "return [best for best in x]",
        "def g(best):\n    return best",
    ],
)
def test_ways_not_to_be_read(after: str) -> None:
    body = textwrap.indent(after, "    ")
    (site, *_) = sites(f"def run(data):\n    for i in data:\n        best = i\n{body}\n")
    assert site.own == ("best", "i")


def test_globals_and_variables_of_outer_functions_stay() -> None:
    assert sites("def f():\n    global a\n    for i in x:\n        a = i")[0].estimate == ("a",)
    inner = "def g():\n        nonlocal a\n        for i in x:\n            a = i"
    source = f"def f():\n    a = 0\n    {inner}"
    assert sites(source)[0].estimate == ("a",)


def test_what_is_behind_a_name_of_the_loop() -> None:
    source = "def f(net):\n    for layer in net.layers:\n        layer.reset()"
    assert sites(source)[0].estimate == ("net",)
    head = "for i, (a, b) in enumerate(zip(nets, xs)):"
    source = f"def f(nets):\n    {head}\n        m = nets[i]\n        m.w = b"
    assert sites(source)[0].estimate == ("nets",)


def test_all_names_are_mentioned() -> None:
    assert cell("a.b = c(d, key=lambda e: e)").names == ("a", "c", "d", "data", "e", "i")
