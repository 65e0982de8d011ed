"""What a replay finds is what the program would have said."""

from __future__ import annotations

from pathlib import Path

import pytest

from chexpoint.model import Segment
from tests.support.hindsight_programs import Workshop, expected, jump, probed, whole

# By what is tested: a program, the line after which a statement is added, and the statement.
PROGRAMS = {
    "objects_that_a_loop_goes_over_and_others_hold": (
        """
        class Net:
            def __init__(self):
                self.weight = [0]
            def fit(self, k):
                self.weight[0] += k
        one, two = Net(), Net()
        nets = {"one": one, "two": two}
        for n in range(4):
            print("iteration", n)
            for a_net in nets.values():
                a_net.fit(n + 1)
            x = n
        print("over")
        """,
        "x = n",
        "print('P', one.weight, two.weight, nets['two'] is two)",
    ),
    "an_attribute_of_a_class": (
        """
        class A:
            count = 0
            def hit(self):
                A.count += 1
        a = A()
        for n in range(4):
            print("iteration", n)
            for k in range(3):
                a.hit()
            x = A.count
        print("over")
        """,
        "x = A.count",
        "print('P', x, A.count)",
    ),
    "a_variable_of_a_closure_in_a_called_function": (
        """
        def f(n):
            acc = 0
            def add(k):
                nonlocal acc
                acc += k * n
                return k
            for k in range(3):
                r = add(k)
            return acc
        total = 0
        for n in range(4):
            print("iteration", n)
            total += f(n)
        print("over")
        """,
        "total += f",
        "print('P', total)",
    ),
    "a_list_that_only_a_closure_holds": (
        """
        def outer(n):
            hidden = [n]
            def bump():
                hidden.append(len(hidden))
                return len(hidden)
            def loop():
                t = 0
                for k in range(3):
                    t += bump()
                return t
            r = loop()
            return r, hidden
        acc = []
        for n in range(4):
            print("iteration", n)
            acc.append(outer(n))
        print("over")
        """,
        "acc.append",
        "print('P', acc)",
    ),
    "two_closures_of_one_text": (
        """
        def make():
            c = 0
            def bump(k):
                nonlocal c
                c += k
                return c
            return bump
        fs = [make(), make()]
        one, two = make(), make()
        s = 0
        for n in range(4):
            print("iteration", n)
            for k in range(3):
                s += fs[0](k) + fs[1](n) + one(1) + two(2)
            z = s
        print("over")
        """,
        "z = s",
        "print('P', z, fs[0](0), fs[1](0), one(0), two(0))",
    ),
    "an_attribute_of_a_function": (
        """
        def f():
            f.calls += 1
            return f.calls
        f.calls = 0
        for n in range(4):
            print("iteration", n)
            for k in range(2):
                f()
            y = f.calls
        print("over")
        """,
        "y = f.calls",
        "print('P', y)",
    ),
    "a_default_of_a_keyword": (
        """
        def acc(x, *, held={}):
            held[x] = held.get(x, 0) + 1
            return held[x]
        for n in range(4):
            print("iteration", n)
            y = 0
            for k in range(2):
                y += acc(k)
            z = acc(9)
        print("over")
        """,
        "z = acc",
        "print('P', y, z)",
    ),
    "a_list_that_the_loop_makes_longer": (
        """
        queue = [0]
        for n in queue:
            print("iteration", n)
            for k in range(2):
                last = k
            if n < 5:
                queue.append(n + 1)
        print("over")
        """,
        "last = k",
        "print('P', n, queue)",
    ),
    "a_list_that_the_loop_makes_shorter": (
        """
        work = list(range(10))
        for n in work:
            print("iteration", n)
            work.pop()
            for k in range(2):
                last = n
        print("over")
        """,
        "work.pop",
        "print('P', n, work)",
    ),
    "items_that_the_loop_changes": (
        """
        items = [[0], [1], [2], [3]]
        log = []
        for n in items:
            print("iteration", n)
            for k in range(2):
                for other in items:
                    other.append(k)
            log.append(sum(n))
        print("over")
        """,
        "log.append",
        "print('P', n, log)",
    ),
    "enums_and_abstract_classes": (
        """
        import abc, enum, collections, typing
        class Mode(enum.Enum):
            A = 1
            B = 2
        class Base(abc.ABC):
            @abc.abstractmethod
            def go(self, k): ...
        class D(Base):
            def __init__(self): self.mode = Mode.A; self.pt = Pt(0, 0)
            def go(self, k):
                self.mode = Mode.B if self.mode is Mode.A else Mode.A
                self.pt = Pt(self.pt.x + k, k)
        Pt = collections.namedtuple("Pt", "x y")
        d = D()
        for n in range(4):
            print("iteration", n)
            for k in range(3):
                d.go(k + n)
            z = d.mode
        print("over")
        """,
        "z = d.mode",
        "print('P', z, d.pt, d.mode is Mode.A)",
    ),
    "a_dataclass": (
        """
        from dataclasses import dataclass, field
        @dataclass
        class S:
            xs: list = field(default_factory=list)
            best: float = 0.0
        s = S()
        for n in range(4):
            print("iteration", n)
            for k in range(2):
                s.xs.append(k)
                s.best += n
            y = len(s.xs)
        print("over")
        """,
        "y = len",
        "print('P', y, s)",
    ),
    "slots": (
        """
        class P:
            __slots__ = ("x", "y")
            def __init__(self): self.x = 0; self.y = []
            def go(self, k): self.x += k; self.y.append(k)
        p = P()
        for n in range(4):
            print("iteration", n)
            for k in range(2):
                p.go(k + n)
            z = p.x
        print("over")
        """,
        "z = p.x",
        "print('P', z, p.y)",
    ),
    "a_name_for_one_function_and_then_another": (
        """
        def f(k): return k
        def g(k): return -k
        cur = f
        s = 0
        for n in range(4):
            print("iteration", n)
            for k in range(3):
                s += cur(k)
                cur = g if cur is f else f
            z = s
        print("over")
        """,
        "z = s",
        "print('P', z, cur is f)",
    ),
    "one_lambda_and_then_another": (
        """
        fs = [lambda k: k, lambda k: -k]
        cur = fs[0]
        class H: pass
        h = H(); h.f = fs[0]
        s = 0
        for n in range(4):
            print("iteration", n)
            for k in range(3):
                s += cur(k) + h.f(k)
                cur = fs[1] if cur is fs[0] else fs[0]
                h.f = cur
            z = s
        print("over")
        """,
        "z = s",
        "print('P', z, fs.index(cur), cur(3), h.f(3))",
    ),
    "an_added_call_of_a_recorded_function": (
        """
        def total(xs):
            t = 0
            for x in xs:
                t += x
            return t
        xs = []
        hist = []
        for n in range(4):
            print("iteration", n)
            for k in range(2):
                xs.append(n + k)
            hist.append(total(xs))
            xs.append(100)
        print("over")
        """,
        'print("iteration',
        "print('P', total(xs), total([1, 2]))",
    ),
    "blocks_that_look_alike": (
        """
        a = []
        for n in range(4):
            print("iteration", n)
            if n % 2:
                for k in range(2):
                    a.append(k)
            for k in range(3):
                a.append(-k)
            y = len(a)
        print("over")
        """,
        "y = len",
        "print('P', y, a)",
    ),
    "a_value_that_is_set_back": (
        """
        flag = False
        for n in range(4):
            print("iteration", n)
            flag = True
            for k in range(2):
                flag = False
            y = flag
        print("over")
        """,
        "y = flag",
        "print('P', y, flag)",
    ),
    "views_of_arrays": (
        """
        import numpy as np
        a = np.zeros(4)
        v = a
        for n in range(4):
            print("iteration", n)
            for k in range(2):
                v = a[k:]
                v += 1
            v[0] = n
            y = a.tolist()
        print("over")
        """,
        "y = a",
        "print('P', y, v.tolist())",
    ),
    "recursion": (
        """
        def rec(d, out):
            if d == 0:
                return 0
            t = 0
            for k in range(2):
                out.append((d, k))
                t += rec(d - 1, out)
            return t + 1
        out = []
        s = 0
        for n in range(4):
            print("iteration", n)
            s += rec(3, out)
        print("over")
        """,
        "s += rec",
        "print('P', s, len(out))",
    ),
    "a_statement_inside_recursion": (
        """
        def rec(d, out):
            if d == 0:
                return 0
            t = 0
            for k in range(2):
                out.append((d, k))
                t += rec(d - 1, out)
            return t + 1
        out = []
        s = 0
        for n in range(4):
            print("iteration", n)
            s += rec(3, out)
        print("over")
        """,
        "t += rec",
        "print('P', t, len(out))",
    ),
    "a_block_that_returns": (
        """
        def find(n):
            for k in range(5):
                if k == n:
                    return k
            return -1
        s = 0
        for n in range(7):
            print("iteration", n)
            s += find(n)
            for j in range(2):
                s += j
        print("over")
        """,
        "s += find",
        "print('P', s)",
    ),
    "a_block_left_by_an_exception": (
        """
        s = []
        for n in range(5):
            print("iteration", n)
            try:
                for k in range(4):
                    s.append(k)
                    if k == n:
                        raise ValueError
                s.append("else")
            except ValueError:
                s.append("caught")
            for j in range(2):
                s.append(j)
        print("over")
        """,
        "s.append(k)",
        "print('P', s[-3:])",
    ),
    "an_iterator_in_a_variable": (
        """
        def take(it):
            out = []
            for k in range(2):
                out.append(next(it))
            return out
        src = iter(range(100))
        acc = []
        for n in range(4):
            print("iteration", n)
            acc.append(take(src))
        print("over")
        """,
        "acc.append",
        "print('P', acc)",
    ),
    "a_loop_over_a_generator": (
        """
        import random
        random.seed(3)
        a = []
        def data():
            for i in range(4):
                for k in range(2):
                    a.append(random.random())
                yield i
        for n in data():
            print("iteration", n)
            for k in range(2):
                a.append(n)
            y = len(a)
        print("over")
        """,
        "y = len",
        "print('P', n, a)",
    ),
    "one_name_in_two_functions": (
        """
        def work(x):
            total = 0
            for k in range(2):
                total += x
            return total
        total = 100
        for n in range(4):
            print("iteration", n)
            total += work(n)
        print("over")
        """,
        "total += work",
        "print('P', total)",
    ),
    "a_list_with_a_local_and_a_global_name": (
        """
        shared = []
        def main():
            mine = shared
            for n in range(4):
                print("iteration", n)
                for k in range(2):
                    mine.append(n)
                shared.append(-1)
                y = len(mine)
            return y
        main()
        print("over")
        """,
        "y = len",
        "print('P', mine, shared is mine, y)",
    ),
    "variables_of_functions_between": (
        """
        def inner(xs, box):
            for k in range(3):
                xs.append(k)
                box[0] += k
        def outer(n):
            xs, box = [], [n]
            inner(xs, box)
            inner(xs, box)
            return sum(xs) + box[0]
        s = 0
        for n in range(4):
            print("iteration", n)
            s += outer(n)
        print("over")
        """,
        "s += outer",
        "print('P', s)",
    ),
    "a_generator_that_is_consumed_at_once": (
        """
        def batches(n):
            for k in range(3):
                yield k * n
        s = []
        for n in range(4):
            print("iteration", n)
            s.append(list(batches(n)))
        print("over")
        """,
        "s.append",
        "print('P', s)",
    ),
    "objects_in_a_circle": (
        """
        class Node:
            def __init__(self, v): self.v = v; self.next = self
        root = Node(0)
        cur = root
        for n in range(4):
            print("iteration", n)
            for k in range(2):
                new = Node(n * 2 + k)
                new.next = cur.next
                cur.next = new
                cur = new
            z = root.v
        print("over")
        """,
        "z = root.v",
        "print('P', cur.next is root, root.next.v, cur.v)",
    ),
    "a_method_held_by_its_object": (
        """
        class Net:
            def __init__(self): self.w = [0.0]; self.f = self.step
            def step(self, k): self.w[0] += k
            def __call__(self, k): self.f(k); return self.w[0]
        net = Net()
        call = net
        for n in range(4):
            print("iteration", n)
            for k in range(2):
                r = call(k)
            z = net.w[0]
        print("over")
        """,
        "z = net",
        "print('P', z, call is net)",
    ),
    "pairs_of_items": (
        """
        a = {}
        for n, (x, y) in enumerate(zip([1, 2, 3, 4], "abcd")):
            print("iteration", n)
            for k, v in enumerate([x, y]):
                a[k] = v
            z = dict(a)
        print("over")
        """,
        "z = dict",
        "print('P', n, x, y, z)",
    ),
}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_right(workshop: Workshop, name: str) -> None:
    source, after, probe = PROGRAMS[name]
    run = workshop.record(source)
    assert workshop.problem == ""
    record, new = run.loops[0], probed(source, after, probe)
    stop = len(record.iterations)
    segments = [whole(run), Segment(start=2, stop=stop, first=0, is_jump=False)]
    if record.can_jump:
        segments += [jump(run, to) for to in range(1, stop)]
    for segment in segments:
        replayed = workshop.replay(run, new, segment)
        assert replayed.added == expected(new, segment), segment
        assert replayed.judgement.findings == ()
        assert replayed.standings == {"exact"}


def test_blocks_are_skipped_unless_something_was_added_to_them(workshop: Workshop) -> None:
    source = """
        total = 0
        for n in range(4):
            print("iteration", n)
            for k in range(3):
                total += k
            last = total
        print("over")
        """
    run = workshop.record(source)
    outside = workshop.replay(run, probed(source, "last =", "print('P', last)"), whole(run))
    assert outside.count("block", skipped=True) == 4
    inside = workshop.replay(run, probed(source, "total +=", "print('P', k)"), whole(run))
    assert inside.count("block", skipped=False) == 4


def test_the_second_main_loop(workshop: Workshop) -> None:
    source = """
        def total(xs):
            found = 0
            for x in xs:
                found += x
            return found
        xs = []
        for m in range(3):
            for k in range(2):
                xs.append(m * k)
        first = total(xs)
        for n in range(4):
            print("iteration", n)
            for k in range(2):
                xs.append(n + first)
            last = len(xs)
        print("over")
        """
    run = workshop.record(source)
    # Before the loop it calls a recorded function, with a loop that is not a recorded one then.
    new = probed(source, "first = total", "print('before', total(xs), total([1]))")
    new = probed(new, "last = len", "print('P', xs, total(xs))")
    number = len(run.loops) - 1
    for segment in (whole(run, loop=number), jump(run, 2, loop=number)):
        replayed = workshop.replay(run, new, segment, loop=number)
        assert replayed.added == expected(new, segment)
        assert replayed.judgement.findings == ()
        assert replayed.standings == {"exact"}


def test_an_added_statement_that_raises_and_is_caught(workshop: Workshop) -> None:
    source = """
        xs = []
        for n in range(4):
            print("iteration", n)
            try:
                xs.append(n)
            except ValueError:
                pass
            for k in range(2):
                xs.append(k)
            last = len(xs)
        print("over")
        """
    run = workshop.record(source)
    new = probed(source, "    xs.append(n)", "print('P', int('x') if n == 1 else 0)")
    replayed = workshop.replay(run, new, whole(run))
    assert replayed.added == ["P 0", "P 0", "P 0"]
    # From the next iteration on, blocks are skipped as before.
    skipped = [event["i"] for event in replayed.events if event.get("skipped")]
    assert skipped == [0, 2, 3]


def test_what_others_hold_is_computed_again_if_it_cannot_be_changed(workshop: Workshop) -> None:
    source = """
        import array
        numbers = array.array("l", [0, 0])
        held = [numbers]
        for n in range(4):
            print("iteration", n)
            for k in range(3):
                numbers[0] += k + n
            x = n
        print("over")
        """
    run = workshop.record(source)
    new = probed(source, "x = n", "print('P', held[0].tolist(), held[0] is numbers)")
    for segment in (whole(run), Segment(start=2, stop=4, first=0, is_jump=False)):
        replayed = workshop.replay(run, new, segment)
        assert replayed.added == expected(new, segment)
        assert replayed.standings == {"exact"}
    # To jump there is refused, and whoever gave the order has it walk.
    assert workshop.replay(run, new, jump(run, 2)).added == []


def test_a_state_that_does_not_fit_is_told(workshop: Workshop) -> None:
    source = """
        cur = lambda k: k
        total = 0
        for n in range(4):
            print("iteration", n)
            for k in range(3):
                total += cur(k)
                cur = lambda k: k + 1
            last = total
        print("over")
        """
    run = workshop.record(source)
    new = probed(source, "last =", "print('P', last, cur(1))")
    segment = whole(run)
    replayed = workshop.replay(run, new, segment)
    assert replayed.added == expected(new, segment)
    # The other function does not exist before the block has run.
    assert workshop.replay(run, new, jump(run, 2)).count("failed") == 1


@pytest.mark.parametrize(
    "change", ["random.random()", "xs.append(1)", "w.fill(1)", "Kept.items.append(1)"]
)
def test_what_an_added_statement_changes_is_told(workshop: Workshop, change: str) -> None:
    source = """
        import random
        import numpy as np
        class Kept:
            items = []
        xs, w, total = [], np.zeros(3), 0.0
        for n in range(4):
            print("iteration", n)
            total += random.random() + w.sum() + len(xs) + len(Kept.items)
            for k in range(2):
                xs.append(k)
        print("over")
        """
    run = workshop.record(source)
    replayed = workshop.replay(run, probed(source, "total +=", f"print('P', {change})"), whole(run))
    assert replayed.judgement.findings
    added = [row.standing for row in replayed.judgement.rows if row.is_added]
    # The first value is from before the change.
    assert added[0] == "exact"
    assert "exact" not in added[1:]
