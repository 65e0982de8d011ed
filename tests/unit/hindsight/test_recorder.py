"""What is recorded of programs, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from chexpoint.errors import ChexError
from chexpoint.hindsight import keeping, recorder
from tests.support.hindsight_programs import Workshop, expected, jump, probed, whole


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_each_point_has_its_state(workshop: Workshop) -> None:
    run = workshop.record(
        """
        def train(xs):
            for k in range(3):
                xs.append(k)
        xs = []
        for n in range(4):
            train(xs)
            for j in range(2):
                xs.append(j)
            print(n, len(xs))
        """
    )
    (loop,) = run.loops
    assert (loop.how, loop.can_jump, len(loop.iterations)) == ("end", True, 4)
    assert all(each.start is not None for each in loop.iterations)
    assert [[block.site for block in each.blocks] for each in loop.iterations] == [[0, 2]] * 4
    assert [value.value for value in run.values] == ["0 5", "1 10", "2 15", "3 20"]


def test_only_what_changed_is_written_again(workshop: Workshop) -> None:
    run = workshop.record(
        """
        fixed, moving = list(range(1000)), [0]
        for n in range(4):
            moving.append(fixed[n])
        """
    )
    starts = [each.start for each in run.loops[0].iterations]
    assert len({start.leaves["fixed"] for start in starts if start is not None}) == 1
    assert len({start.leaves["moving"] for start in starts if start is not None}) == 4


def test_how_a_loop_ended(workshop: Workshop) -> None:
    run = workshop.record(
        """
        for a in range(4):
            if a == 2:
                break
        try:
            for b in range(4):
                if b == 1:
                    raise ValueError
        except ValueError:
            pass
        for c in range(2):
            pass
        """
    )
    assert [(loop.how, len(loop.iterations)) for loop in run.loops] == [
        ("break", 3),
        ("", 2),
        ("end", 2),
    ]


@pytest.mark.parametrize(
    ("setup", "use", "why"),
    [
        ("it = (n for n in range(99))", "next(it)", "generator"),
        ("it = iter(range(99))", "next(it)", ""),
        ("import weakref\nclass A: pass\na = A()\nit = weakref.ref(a)", "it()", "weak reference"),
        (
            "class Bad:\n    def __reduce__(self): raise RuntimeError('not me')\nit = Bad()",
            "str(it)",
            "not me",
        ),
    ],
)
def test_a_state_that_cannot_be_kept_is_told(
    workshop: Workshop, setup: str, use: str, why: str
) -> None:
    source = f"""{setup}
total = 0
for n in range(4):
    print("iteration", n)
    for k in range(2):
        total += n
        last = {use}
print("over")
"""
    run = workshop.record(source)
    assert run.loops[0].can_jump is (why == "")
    assert why in run.loops[0].why_not
    # It can be replayed all the same, by computing everything.
    new = probed(source, "total +=", "print('P', total)")
    replayed = workshop.replay(run, new, whole(run))
    assert replayed.added == expected(new, whole(run))
    assert replayed.judgement.findings == ()
    assert replayed.standings == {"exact" if why == "" else "unverified"}


@pytest.mark.parametrize("iterable", ["it", "enumerate(it)", "zip(it, 'abcdefgh')"])
def test_an_iterator_that_the_program_holds_too(workshop: Workshop, iterable: str) -> None:
    """It could be set back only for one of the two."""
    source = f"""
it = iter([1, 2, 3, 4, 5, 6, 7, 8])
for n in {iterable}:
    print("iteration", n)
    last = next(it)
print("over")
"""
    run = workshop.record(source)
    assert "iterator" in run.loops[0].why_not
    new = probed(source, "last =", "print('P', n, last)")
    assert workshop.replay(run, new, whole(run)).added == expected(new, whole(run))


@pytest.mark.parametrize(
    "iterable", ["range(4)", "'abcd'", "enumerate(b'abcd')", "reversed([1, 2, 3, 4])", "{1, 2}"]
)
def test_what_can_be_passed_over(workshop: Workshop, iterable: str) -> None:
    run = workshop.record(f"total = []\nfor n in {iterable}:\n    total.append(n)\n")
    assert run.loops[0].can_jump is (iterable != "{1, 2}")


def test_iterations_that_are_not_kept(workshop: Workshop) -> None:
    source = """
        xs = []
        for n in range(6):
            print("iteration", n)
            for k in range(2):
                xs.append(n)
            last = len(xs)
        print("over")
        """
    run = workshop.record(source, wanted=(False, False, True))
    kept = [at for at, each in enumerate(run.loops[0].iterations) if each.start is not None]
    assert 0 < len(kept) < 6
    new = probed(source, "last =", "print('P', xs)")
    for segment in (whole(run), jump(run, kept[-1])):
        assert workshop.replay(run, new, segment).added == expected(new, segment)


def test_large_state_that_comes_back_to_what_it_was(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is large the beginning is not kept: it must not be taken for unchanged."""
    monkeypatch.setattr(recorder, "FIRST_BYTES", 0)
    monkeypatch.setattr(keeping, "FIRST_BYTES", 0)
    source = """
        flag = False
        total = 0
        for n in range(4):
            print("iteration", n)
            flag = True
            for k in range(2):
                flag = False
                total += k
            last = flag
        print("over")
        """
    run = workshop.record(source)
    new = probed(source, "last =", "print('P', last, flag)")
    for segment in (whole(run), jump(run, 2)):
        assert workshop.replay(run, new, segment).added == expected(new, segment)


def test_a_program_without_main_loops_has_no_run(workshop: Workshop) -> None:
    with pytest.raises(ChexError):
        workshop.record("total = sum(n for n in range(4))")
