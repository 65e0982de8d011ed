"""What follows from the notes about a cell."""

from __future__ import annotations

import pytest

from chexpoint.lineage.cell_log import CellLog, Outcome, conclude
from chexpoint.lineage.fingerprint import Reading, Signature
from chexpoint.lineage.places import Places
from chexpoint.lineage.processes import WORKER
from chexpoint.lineage.trail import Step
from chexpoint.model import CellAudit, Event, Hint, Input

PLACES = Places("/p", home="/home/me", tmp="/tmp", environment=[])


def signature(n: int) -> Signature:
    return (1, n, 10 * n, n, n)


def log() -> CellLog:
    made = CellLog(Step(Step(None)))
    made.begin(made.step)
    return made


def ended(made: CellLog, *, packages: str | None = None, **report: object) -> CellAudit:
    return conclude(
        made,
        report,
        places=PLACES,
        mechanism="system calls",
        packages=packages,
        changed=lambda path, reading: False,
    )


def test_an_empty_cell_has_nothing() -> None:
    assert ended(log()) == CellAudit()


def test_inputs_are_sorted_and_each_is_there_once() -> None:
    made = log()
    for name in ("/p/b", "/p/a", "/p/b"):
        made.read(WORKER, name, Reading(signature(1), "d1"))
    made.listed(WORKER, "/p", Reading(None, "names"))
    audit = ended(made, packages="new", variables={"B": "x", "A": None})
    assert audit.inputs == (
        Input(kind="file", name="./a", digests=("d1",)),
        Input(kind="file", name="./b", digests=("d1",)),
        Input(kind="folder", name=".", digests=("names",)),
        Input(kind="packages", name="", digests=("new",)),
        Input(kind="variable", name="A", digests=("absent",)),
        Input(kind="variable", name="B", digests=("x",)),
    )


def test_only_consecutive_repeats_are_dropped() -> None:
    made = log()
    for n, digest in ((1, "a"), (1, "a"), (2, "a"), (3, "b"), (1, "a")):
        made.read(WORKER, "/p/f", Reading(signature(n), digest))
    assert ended(made).inputs[0].digests == ("a", "b", "a")


def test_reading_the_same_state_again_tells_nothing_new() -> None:
    made = log()
    assert made.read(WORKER, "/p/f", Reading(signature(1), "a"))
    assert not made.read("0.1", "/p/f", Reading(signature(1), "a"))
    assert made.read("0.1", "/p/f", Reading(signature(2), "a"))
    made.word(WORKER, "/p/g", "absent")
    made.word("0.1", "/p/g", "absent")
    assert [(note[0], note[2]) for note in made.notes] == [
        (WORKER, "/p/f"),
        ("0.1", "/p/f"),
        (WORKER, "/p/g"),
    ]


def test_events_are_in_order_with_what_was_found() -> None:
    made = log()
    late = Reading(signature(1))
    made.read("0.1", "/p/f", late)
    made.did(WORKER, "exec", "/bin/true")
    late.digest = "d1"
    assert ended(made).events == (
        Event("0.1", "read", "./f", "d1"),
        Event(WORKER, "exec", "/bin/true", ""),
    )


# ---------------------------------------------------------------- listings


def test_listings_by_imports_are_no_inputs() -> None:
    made = log()
    made.listed(WORKER, "/p", Reading(None, "names"))
    assert ended(made, import_lists={"/p": 1}).inputs == ()


def test_a_listing_beside_those_by_imports_is_an_input() -> None:
    made = log()
    made.listed(WORKER, "/p", Reading(None, "names"))
    made.listed(WORKER, "/p", Reading(None, "names"))
    (found,) = ended(made, import_lists={"/p": 1}).inputs
    assert found.digests == ("names",)


def test_a_listing_by_a_child_is_an_input_whatever_the_worker_imported() -> None:
    made = log()
    made.listed("0.1", "/p", Reading(None, "names"))
    assert len(ended(made, import_lists={"/p": 3}).inputs) == 1


def test_the_last_listing_of_a_child_can_be_taken_back() -> None:
    made = log()
    made.listed("0.1", "/p", Reading(None, "one"))
    made.listed("0.2", "/p", Reading(None, "two"))
    made.unlist("0.1", "/p")
    assert ended(made).inputs[0].digests == ("two",)
    made.unlist("0.1", "/p")
    made.unlist("0.2", "/p")
    made.unlist("0.2", "/p")
    assert ended(made).inputs == ()


# ---------------------------------------------------------------- hints


def test_the_network_is_one_input_whoever_was_talked_to() -> None:
    made = log()
    made.peers = {"1.2.3.4:80": WORKER, "5.6.7.8:80": "0.1"}
    audit = ended(made)
    assert audit.inputs == (Input(kind="network", name="", digests=("volatile",)),)
    assert [hint.what for hint in audit.hints] == [
        "it talked to 1.2.3.4:80",
        "it talked to 5.6.7.8:80",
    ]


def test_a_host_that_the_worker_can_name_is_better_than_its_address() -> None:
    made = log()
    made.peers = {"1.2.3.4:80": WORKER}
    named = {"kind": "network", "what": "it looked up example.org", "line": 3}
    audit = ended(made, hints=[named])
    assert audit.hints == (Hint(kind="network", what="it looked up example.org", line=3),)


def test_a_cell_that_changes_what_it_read_or_listed_gets_a_hint() -> None:
    made = log()
    made.read(WORKER, "/p/f", Reading(signature(1), "d1"))
    made.word(WORKER, "/p/new", "absent")
    made.listed(WORKER, "/p", Reading(None, "names"))
    for path in ("/p/f", "/p/new"):
        made.wrote(WORKER, "write", path, signature(1))
        made.outcomes[path] = Outcome("written", Reading(signature(2), "d2"))
    found = [hint.what for hint in ended(made).hints]
    assert found == [
        "it changed ./f, which it had read",
        "it listed the folder . and changed what is in it",
    ]


def test_a_transient_file_is_no_change_of_an_input() -> None:
    made = log()
    made.listed(WORKER, "/p", Reading(None, "names"))
    made.wrote(WORKER, "create", "/p/scratch", None)
    made.outcomes["/p/scratch"] = Outcome("transient")
    assert ended(made).hints == ()


def test_what_happened_between_cells_is_said() -> None:
    made = CellLog(Step(None))
    for n in range(9):
        made.read("0.1", f"/p/{n}", Reading(signature(n), "d"))
    made.begin(Step(made.step))
    (hint,) = ended(made).hints
    assert hint.kind == "background"
    assert "/p/4" in hint.what
    assert "/p/5" not in hint.what


# ---------------------------------------------------------------- effects and gaps


def test_effects_are_sorted_and_say_what_became_of_each() -> None:
    made = log()
    late, lost = Reading(signature(3), "absent"), Reading(signature(4), "absent")
    late.is_far = True  # far away, and gone by then; the other one, somebody else has deleted
    made.outcomes = {
        "/p/b": Outcome("written", Reading(signature(2), "d2")),
        "/p/a": Outcome("deleted"),
        "/p/c": Outcome("written", late),
        "/p/d": Outcome("written", lost),
    }
    found = [(e.path, e.kind, e.digest, e.size_bytes) for e in ended(made).effects]
    assert found == [
        ("./a", "deleted", "", 0),
        ("./b", "written", "d2", 20),
        ("./c", "deleted", "absent", 30),
        ("./d", "written", "", 40),
    ]


def test_gaps_of_both_sides_are_kept_once() -> None:
    made = log()
    made.gap("one")
    made.gap("one")
    audit = ended(made, opaque=["two", "one"])
    assert audit.gaps == ("one", "two")
    assert not audit.is_complete


def test_a_file_that_changed_after_it_was_read_is_volatile_unless_the_cell_changed_it() -> None:
    made = log()
    made.read(WORKER, "/p/others", Reading(signature(1), "d1"))
    made.read(WORKER, "/p/own", Reading(signature(1), "d1"))
    made.word(WORKER, "/p/gone", "absent")
    made.wrote(WORKER, "write", "/p/own", signature(1))
    audit = conclude(
        made,
        {},
        places=PLACES,
        mechanism="system calls",
        packages=None,
        changed=lambda path, reading: True,
    )
    assert {i.name: i.digests for i in audit.inputs} == {
        "./gone": ("absent",),
        "./others": ("volatile",),
        "./own": ("d1",),
    }


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/p/a/b", "./a/b"),
        ("/p", "."),
        ("/tmp", "$TMP"),
        ("/tmp/tmpabcdefgh/x", "$TMP/tmp*/x"),
        ("/home/me", "~"),
        ("/home/me/x", "~/x"),
        ("/", "/"),
        ("/x", "/x"),
        ("/dev/shm/psm_abcdefgh", "/dev/shm/psm_*"),
        ("1.2.3.4:80", "1.2.3.4:80"),
    ],
)
def test_every_path_has_the_name_that_its_place_gives_it(path: str, name: str) -> None:
    made = log()
    made.did(WORKER, "read", path)
    assert ended(made).events[0].name == name
