"""What a cell did in a replay is compared in every respect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import xxhash

from chexpoint.compare import Tolerance
from chexpoint.model import (
    CellAudit,
    CellError,
    CellLineage,
    CellResult,
    Digest,
    Effect,
    Hint,
    Input,
    NodeId,
    Output,
    RecordedCell,
    ReplayedCell,
)
from chexpoint.replay.checking import Checker

ERROR = CellError(ename="ValueError", evalue="no", traceback=("ValueError: no",))
SHOWN_ERROR: Output = {
    "output_type": "error",
    "ename": "ValueError",
    "evalue": "no",
    "traceback": ["ValueError: no"],
}
LINEAGE = CellLineage(
    node=NodeId("n"),
    parent=NodeId("p"),
    code="c",
    strict="s",
    number=2,
    execution_count=2,
    source="x",
    audit=CellAudit(),
    seconds=1.5,
    size_bytes=10,
)


def text(value: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": value}


def digest(value: str) -> Digest:
    return xxhash.xxh3_128_hexdigest(value.encode())


def audited(**parts: object) -> CellLineage:
    return replace(LINEAGE, audit=CellAudit(**parts))  # type: ignore[arg-type]


def wrote(name: str, value: str) -> Effect:
    return Effect(path=name, kind="written", digest=digest(value), size_bytes=len(value))


class Check:
    """One comparison, in a folder with files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = folder / "kept"
        self.kept.mkdir()

    def find(self, name: str, digest: Digest) -> Path | None:
        path = self.kept / digest
        return path if path.exists() else None

    def keep(self, value: str) -> None:
        (self.kept / digest(value)).write_text(value)

    def __call__(
        self,
        recorded: RecordedCell,
        *outputs: Output,
        error: CellError | None = None,
        lineage: CellLineage | None = LINEAGE,
        doubt: str = "",
    ) -> ReplayedCell:
        result = CellResult(
            status="ok" if error is None else "error",
            execution_count=2,
            outputs=outputs,
            seconds=2.0,
            error=error,
        )
        checker = Checker(self, Tolerance())
        return checker.check(recorded, result, lineage, folder=self.folder, doubt=doubt)


@pytest.fixture
def check(tmp_path: Path) -> Check:
    return Check(tmp_path)


def cell(*outputs: Output, lineage: CellLineage = LINEAGE, **more: object) -> RecordedCell:
    return RecordedCell(lineage=lineage, outputs=outputs, **more)  # type: ignore[arg-type]


def test_what_is_the_same_needs_no_reason(check: Check) -> None:
    found = check(cell(text("1\n")), text("1\n"))
    assert (found.status, found.reasons, found.is_good) == ("same", (), True)
    assert (found.seconds, found.size_bytes, found.computed) == (1.5, 10, 1)


def test_what_is_close_is_good_and_says_why(check: Check) -> None:
    found = check(cell(text("0.1234567890\n")), text("0.1234567891\n"))
    assert (found.status, found.is_good) == ("close", True)
    assert found.reasons


def test_what_differs_is_pointed_at_and_so_is_the_line_that_was_not_logged(check: Check) -> None:
    found = check(cell(text("loss 1.0\nloss 0.5\n")), text("loss 1.0\nloss 0.7\n"))
    assert (found.status, found.is_good) == ("different", False)
    assert [(d.recorded, d.replayed) for d in found.differences] == [(0, 0)]
    assert any("loss 0.5" in reason for reason in found.reasons)


def test_a_new_error_is_a_failure_an_old_one_is_not(check: Check) -> None:
    found = check(cell(), SHOWN_ERROR, error=ERROR)
    assert found.status == "failed"
    assert found.reasons[0] == "ValueError: no"
    failed = replace(LINEAGE, status="error")
    assert check(cell(SHOWN_ERROR, lineage=failed), SHOWN_ERROR, error=ERROR).status == "same"
    other = replace(ERROR, evalue="else")
    shown = {**SHOWN_ERROR, "evalue": "else"}
    assert check(cell(SHOWN_ERROR, lineage=failed), shown, error=other).status == "different"
    found = check(cell(SHOWN_ERROR, lineage=failed))
    assert found.status == "different"
    assert "failed when it was recorded" in found.reasons[0]


def test_a_tagged_cell_may_differ_but_not_fail(check: Check) -> None:
    tagged = cell(text("1\n"), tags=frozenset({"chex-volatile"}))
    found = check(tagged, text("2\n"))
    assert (found.status, found.is_excused, found.is_good) == ("different", True, True)
    assert not check(tagged, SHOWN_ERROR, error=ERROR).is_good
    assert not check(tagged, text("1\n")).is_excused


def test_chance_is_named_where_something_differs(check: Check) -> None:
    found = check(cell(text("1\n")), text("2\n"), doubt="it draws lots")
    assert found.reasons[-1] == "this was to be expected: it draws lots"
    assert check(cell(text("1\n")), text("1\n"), doubt="it draws lots").reasons == ()


def test_files_that_were_written_are_compared(check: Check) -> None:
    recorded = cell(lineage=audited(effects=(wrote("./out.csv", "a,1.0\n"),)))
    same = audited(effects=(wrote("./out.csv", "a,1.0\n"),))
    assert check(recorded, lineage=same).status == "same"
    (check.folder / "out.csv").write_text("a,1.00000000001\n")
    close = audited(effects=(wrote("./out.csv", "a,1.00000000001\n"),))
    assert check(recorded, lineage=close).status == "different"  # nobody knows what it was
    check.keep("a,1.0\n")
    assert check(recorded, lineage=close).status == "close"
    (check.folder / "out.csv").write_text("a,7\n")
    found = check(recorded, lineage=audited(effects=(wrote("./out.csv", "a,7\n"),)))
    assert found.status == "different"
    assert "./out.csv" in found.reasons[0]
    found = check(recorded, lineage=audited())
    assert found.reasons == ("./out.csv was not written",)


def test_inputs_that_were_others_are_named(check: Check) -> None:
    def variable(value: str) -> Input:
        return Input(kind="variable", name="LEVEL", digests=(digest(value),))

    recorded = cell(text("1\n"), lineage=audited(inputs=(variable("3"),)))
    assert check(recorded, text("1\n"), lineage=audited(inputs=(variable("3"),))).status == "same"
    found = check(recorded, text("1\n"), lineage=audited(inputs=(variable("4"),)))
    assert found.status == "close"
    assert found.reasons == ("The environment variable LEVEL had another value.",)
    unseen = audited(inputs=(), gaps=("nobody looked",))
    assert check(recorded, text("1\n"), lineage=unseen).status == "same"


def test_a_hint_alone_is_no_difference(check: Check) -> None:
    hinted = audited(hints=(Hint(kind="time", what="it looks at the clock"),))
    assert check(cell(text("1\n"), lineage=hinted), text("1\n"), lineage=hinted).status == "same"


def test_a_cell_that_left_the_state_as_it_was_is_compared_by_what_it_shows(check: Check) -> None:
    found = check(cell(text("1\n")), text("1\n"), lineage=None)
    assert (found.status, found.seconds) == ("same", 2.0)
