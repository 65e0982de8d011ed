"""The inputs of a cell do not depend on how the processes of a pool take turns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.lineage import Places
from chexpoint.lineage.cell_log import CellLog, Outcome, conclude
from chexpoint.lineage.fingerprint import Reading, Signature
from chexpoint.lineage.processes import WORKER
from chexpoint.lineage.trail import Step
from chexpoint.model import CellAudit

PLACES = Places("/p", home="/home/me", tmp="/tmp", environment=[])
INPUTS = ("/p/a", "/p/b", "/p/sub/c", "/home/me/d", "/tmp/tmpabcdefgh", "/tmp/tmpijklmnop")
OUTPUTS = ("/p/out/x", "/p/out/y")
FOLDERS = ("/p", "/p/sub")

Act = tuple[str, str]
"""What a process does, and to which path."""

ACTS: st.SearchStrategy[Act] = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(INPUTS)),
    st.tuples(st.just("look"), st.sampled_from((*OUTPUTS, "/p/nowhere"))),
    st.tuples(st.just("write"), st.sampled_from(OUTPUTS)),
    st.tuples(st.just("list"), st.sampled_from(FOLDERS)),
    st.tuples(st.just("connect"), st.sampled_from(["1.2.3.4:80", "5.6.7.8:80"])),
    st.tuples(st.just("scratch"), st.sampled_from(["/tmp/s1", "/tmp/s2"])),
)


def signature(path: str) -> Signature:
    n = (*INPUTS, *OUTPUTS).index(path)
    return (1, n, n, n, n)


def play(log: CellLog, process: str, act: Act) -> None:
    """Note what a process does, as `Files` would: inputs stay as they are."""
    what, path = act
    match what:
        case "read":
            log.read(process, path, Reading(signature(path), f"digest of {path}"))
        case "look":
            if path in log.writes:
                log.did(process, "read own", path)
            else:
                log.word(process, path, "absent")
        case "write" | "scratch":
            log.wrote(process, "create", path, None)
            kept = Outcome("written", Reading((2, 2, 2, 2, 2), "out"))
            log.outcomes[path] = kept if what == "write" else Outcome("transient")
        case "list":
            log.listed(process, path, Reading(None, f"names in {path}"))
        case "connect":
            log.peers[path] = process


def audit_of(acts: Sequence[tuple[str, Act]]) -> CellAudit:
    log = CellLog(Step(Step(None)))
    log.begin(log.step)
    for process, act in acts:
        play(log, process, act)
    return conclude(
        log,
        {"import_lists": {"/p": 1}},
        places=PLACES,
        mechanism="system calls",
        packages=None,
        changed=lambda path, reading: False,
    )


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[list[tuple[str, Act]], list[tuple[str, Act]]]:
    """Return two orders of the same acts; in both, each process keeps its own."""
    processes = draw(st.lists(st.lists(ACTS, max_size=6), min_size=1, max_size=4))
    names = [WORKER, "0.1", "0.2", "0.3"]

    def interleaved() -> list[tuple[str, Act]]:
        left = {name: list(acts) for name, acts in zip(names, processes, strict=False)}
        found = []
        while any(left.values()):
            name = draw(st.sampled_from([name for name, acts in left.items() if acts]))
            found.append((name, left[name].pop(0)))
        return found

    return interleaved(), interleaved()


@pytest.mark.slow
@given(orders=interleavings())
def test_any_interleaving_of_processes_gives_the_same_inputs_and_effects(
    orders: tuple[list[tuple[str, Act]], list[tuple[str, Act]]],
) -> None:
    one, other = map(audit_of, orders)
    assert one.inputs == other.inputs
    assert one.effects == other.effects


@given(
    tasks=st.lists(st.tuples(st.just("read"), st.sampled_from(INPUTS)), min_size=1, max_size=10),
    owners=st.lists(st.sampled_from(["0.1", "0.2", "0.3"]), min_size=10, max_size=10),
    order=st.randoms(use_true_random=False),
)
def test_which_worker_of_a_pool_does_a_task_does_not_matter(
    tasks: list[Act], owners: list[str], order: object
) -> None:
    shuffled = list(zip(owners, tasks, strict=False))
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert audit_of(shuffled).inputs == audit_of([("0.1", task) for task in tasks]).inputs


@given(acts=st.lists(ACTS, max_size=10))
def test_inputs_are_canonical(acts: list[Act]) -> None:
    inputs = audit_of([(WORKER, act) for act in acts]).inputs
    keys = [(found.kind, found.name) for found in inputs]
    assert keys == sorted(set(keys))
    written = {path for what, path in acts if what == "write"}
    assert not {PLACES.name(path) for path in written} & {name for _, name in keys}
    read = {PLACES.name(path) for what, path in acts if what == "read"}
    assert read <= {name for _, name in keys}
