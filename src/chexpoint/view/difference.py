"""How two versions differ, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from chexpoint.model import CellLineage, Digest, InputKind, Output, PathCell
from chexpoint.view.alignment import align
from chexpoint.view.outputs import OutputChange, output_changes, value_digest

PairState = Literal["same", "changed", "added", "removed"]
CodeState = Literal["same", "layout", "changed"]
"""``layout``: only comments or white space differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCell:
    """One cell of a side, with all that is compared."""

    cell: PathCell
    lineage: CellLineage | None = None
    """None if it is not known what the cell read."""
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two things that are compared: a version, or the way to a node."""

    label: str
    cells: tuple[SideCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChange:
    """Something that two runs of a cell found different, or that one of them read."""

    kind: InputKind
    name: str
    left: tuple[Digest, ...] | None
    right: tuple[Digest, ...] | None
    """None if this side did not read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPair:
    """The same cell on both sides, or a cell that is on one of them."""

    left: SideCell | None
    right: SideCell | None
    left_number: int | None
    right_number: int | None
    """The place on the path, counted from 1."""
    is_moved: bool = False
    code: CodeState | None = None
    """None for a cell that is on one side only."""
    inputs: tuple[InputChange, ...] = ()
    outputs: tuple[OutputChange, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether both sides lead through the same state: the same node, and no run in doubt."""
        if self.left is None or self.right is None:
            return False
        a, b = self.left.cell, self.right.cell
        return (a.node, a.taint) == (b.node, b.taint)

    @property
    def has_same_node(self) -> bool:
        """Whether both sides have the same node, though maybe not the same state."""
        if self.left is None or self.right is None:
            return False
        return self.left.cell.node == self.right.cell.node

    @property
    def knows_inputs(self) -> bool:
        """Whether all inputs of both sides were seen."""
        return all(
            side is not None
            and side.lineage is not None
            and side.lineage.audit.is_complete
            and side.lineage.audit.mechanism != "off"
            for side in (self.left, self.right)
        )

    @property
    def has_other_status(self) -> bool:
        """Whether the cell failed on one side only."""
        if self.left is None or self.right is None:
            return False
        return self.left.cell.status != self.right.cell.status

    @property
    def state(self) -> PairState:
        """What became of the cell from left to right."""
        if self.left is None:
            return "added"
        if self.right is None:
            return "removed"
        is_changed = self.code != "same" or self.inputs or self.outputs or self.has_other_status
        return "changed" if is_changed else "same"

    @property
    def parts(self) -> tuple[str, ...]:
        """What changed, in words."""
        found = {
            "code": self.code == "changed",
            "comments or white space": self.code == "layout",
            "inputs": self.inputs,
            "outputs": self.outputs,
            "failed on one side": self.has_other_status,
        }
        return tuple(name for name, is_changed in found.items() if is_changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Two sides, and all their cells in an order in which they can be read."""

    left: Side
    right: Side
    pairs: tuple[CellPair, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs that was compared."""
        return all(pair.state == "same" and not pair.is_moved for pair in self.pairs)

    def count(self, state: PairState) -> int:
        """Return how many cells are in a state."""
        return sum(pair.state == state for pair in self.pairs)

    @property
    def summary(self) -> str:
        """What became of the cells, in a line."""
        if self.is_same:
            return "no differences"
        states: tuple[PairState, ...] = ("same", "changed", "added", "removed")
        parts = [f"{self.count(state)} {state}" for state in states if self.count(state)]
        if moved := sum(pair.is_moved for pair in self.pairs):
            parts.append(f"{moved} moved")
        return ", ".join(parts)


def diff(a: Side, b: Side) -> Diff:
    """Return how two sides differ: code, inputs and outputs of each cell."""
    found = align([side.cell for side in a.cells], [side.cell for side in b.cells])
    numbers = {
        pair.left + 1: pair.right + 1
        for pair in found
        if pair.left is not None and pair.right is not None
    }
    pairs = []
    for i, j, is_moved in found:
        left = None if i is None else a.cells[i]
        right = None if j is None else b.cells[j]
        pair = CellPair(
            left=left,
            right=right,
            left_number=None if i is None else i + 1,
            right_number=None if j is None else j + 1,
            is_moved=is_moved,
        )
        if left is not None and right is not None:
            pair = replace(
                pair,
                code=_code(left, right),
                inputs=_input_changes(left, right, numbers),
                outputs=_output_changes(left, right),
            )
        pairs.append(pair)
    return Diff(left=a, right=b, pairs=tuple(pairs))


def _code(left: SideCell, right: SideCell) -> CodeState:
    if left.cell.source == right.cell.source:
        return "same"
    if left.lineage and right.lineage and left.lineage.code == right.lineage.code:
        return "layout"
    return "changed"


def _input_changes(
    left: SideCell, right: SideCell, numbers: Mapping[int, int]
) -> tuple[InputChange, ...]:
    """Return which inputs differ.

    Parameters
    ----------
    numbers
        The place on the right of each cell on the left: a file that the same cell has written is
        the same input, also if that cell is now another place down the path.
    """
    if left.lineage is None or right.lineage is None:
        return ()
    before = {(i.kind, i.name): i.digests for i in left.lineage.audit.inputs}
    after = {(i.kind, i.name): i.digests for i in right.lineage.audit.inputs}
    changes = []
    for kind, name in dict.fromkeys((*before, *after)):
        a, b = before.get((kind, name)), after.get((kind, name))
        if a is None or b is None or tuple(_renumbered(d, numbers) for d in a) != b:
            changes.append(InputChange(kind=kind, name=name, left=a, right=b))
    return tuple(changes)


def _renumbered(digest: Digest, numbers: Mapping[int, int]) -> Digest:
    word, _, number = digest.partition(":")
    if word == "cell" and number.isdecimal() and int(number) in numbers:
        return f"cell:{numbers[int(number)]}"
    return digest


def _output_changes(left: SideCell, right: SideCell) -> tuple[OutputChange, ...]:
    if left.cell.execution and left.cell.execution == right.cell.execution:
        return ()  # the very same run
    return output_changes(left.outputs, right.outputs)


def diff_json(found: Diff) -> dict[str, Any]:
    """Return a difference as plain JSON types; images and other data are digests."""
    return {
        "left": found.left.label,
        "right": found.right.label,
        "same": found.is_same,
        "cells": [
            {
                "state": pair.state,
                "moved": pair.is_moved,
                "shared": pair.is_shared,
                "code": pair.code,
                "left": _side_json(pair.left, pair.left_number),
                "right": _side_json(pair.right, pair.right_number),
                "inputs": [
                    {
                        "kind": change.kind,
                        "name": change.name,
                        "left": None if change.left is None else list(change.left),
                        "right": None if change.right is None else list(change.right),
                    }
                    for change in pair.inputs
                ],
                "outputs": [
                    {
                        "kind": change.kind,
                        "name": change.name,
                        "numbers": change.has_other_numbers,
                        "left": _value_json(change, change.left),
                        "right": _value_json(change, change.right),
                    }
                    for change in pair.outputs
                ],
            }
            for pair in found.pairs
        ],
    }


def _side_json(side: SideCell | None, number: int | None) -> dict[str, Any] | None:
    if side is None:
        return None
    cell = side.cell
    return {
        "number": number,
        "node": cell.node,
        "execution_count": cell.execution_count,
        "cell_id": cell.cell_id,
        "source": cell.source,
        "seconds": cell.seconds,
        "status": cell.status,
    }


def _value_json(change: OutputChange, value: str | None) -> str | None:
    if value is None or change.kind == "text":
        return value
    return f"sha256:{value_digest(value)}"
