"""The experiment graph of one kernel: tells it what cells did, and asks it what it knows.

Used by the thread of the journal alone.  Whatever is wrong with the graph, the kernel goes on
without it, and the user is told once.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from chexpoint.engine import (
    Bound,
    Chosen,
    Found,
    Item,
    Pass,
    Way,
    body_of,
)
from chexpoint.graph import (
    NEVER,
    Bindings,
    Deed,
    GraphWay,
    PassOver,
    follow,
    matches,
    renumbered,
    way_to,
)
from chexpoint.lineage import Step, code_hash, lineage_digest, strict_digest
from chexpoint.model import (
    Artifact,
    ArtifactId,
    CellLineage,
    CellRecord,
    NodeId,
    Operation,
    Output,
    PathCell,
    RecordedOperation,
    lineage_from_json,
    to_json,
)
from chexpoint.project.graph_keeping import GraphKeeping
from chexpoint.project.graph_settings import GraphSettings
from chexpoint.project.graph_uses import is_random_state, needed, transformed, used, uses_of
from chexpoint.project.project import Project
from chexpoint.project.reuse import plain_code

Objection = Callable[[Sequence[CellLineage], CellLineage, Sequence[Output]], str]
"""Returns why the results of a run cannot stand for a cell now."""

# What may be spent on variables that a cell does not need, so that later ones have them.
_SPARE_S = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """An operation of the graph that a cell may be."""

    lineage: CellLineage
    outputs: tuple[Output, ...]
    operation: Operation


class Graphing(GraphKeeping):
    """One kernel's view of the experiment graph; see `GraphKeeping` for its parameters."""

    def __init__(
        self, project: Project, settings: GraphSettings, *, tell: Callable[[str], None]
    ) -> None:
        super().__init__(project, settings, tell=tell)
        self._deeds: dict[Step, Deed | None] = {}
        self.decisions: dict[str, str] = {}
        """What was done for each variable, and why."""
        self._names: dict[str, ArtifactId] = {}
        self._unread: set[ArtifactId] = set()
        """What is to be stored, and no cell has used yet."""

    def told(self) -> dict[str, str]:
        """Return what was done for each variable, and whether it is stored, with the reasons."""
        found = self.decisions.copy()
        for name, artifact in self._names.copy().items():
            if (why := self.reasons.get(artifact)) is not None:
                found[name] = "; ".join(filter(None, [found.get(name, ""), why]))
        return found

    # ------------------------------------------------------------ what cells did

    def record(self, step: Step, cell: CellRecord) -> Chosen | None:
        """Tell the graph about a cell that has run; return what of it is worth storing."""
        deed = self._deed(step)
        if deed is None or cell.lineage.status != "ok":
            return None
        with_contents = [
            replace(artifact, group=group)
            for artifact, group in zip(deed.artifacts, deed.variables.writes, strict=True)
        ]
        operation = replace(deed.operation, user=_user(), time=time.time())
        recorded = RecordedOperation(
            operation=operation,
            artifacts=tuple(with_contents),
            lineage=to_json(cell.lineage.bare()),
            outputs=cell.outputs,
            scores=deed.variables.scores,
        )
        for problem in self._open().merge(recorded):
            self._say(problem)
        if self._graph is not None:
            self._graph.operations[operation.id] = operation
            self._graph.artifacts.update((each.id, each) for each in deed.artifacts)
        self._names |= deed.after.variables
        unused = self._unused(step, deed)
        before = set(self._wishes)
        chosen = self._choose(step, deed)
        self._unread |= self._wishes.keys() - before
        return replace(chosen, unused=unused)

    def _unused(self, step: Step, deed: Deed) -> frozenset[ArtifactId]:
        """Return what was to be stored, and is gone now without having been used by a cell."""
        if self._settings.strategy != "storage-aware":
            return frozenset()
        before = self._bindings(step.parent) if step.parent is not None else None
        self._unread -= {read.artifact for read in deed.operation.reads}
        gone = set(before.variables.values() if before else ()) - set(deed.after.variables.values())
        unused = frozenset(self._unread & gone)
        self._unread -= unused
        return unused

    def loaded(self, items: Sequence[Item], bound: Bound) -> None:
        """Artifacts were loaded, or one could not be."""
        ledger = self._open()
        if bound.why and bound.artifact is not None:
            self._useless.add(bound.artifact)
            if bound.is_lost:
                # Else others may have the key, or the library, that it was stored with.
                image = next((i.image for i in items if i.artifact == bound.artifact), "")
                ledger.drop_stored([bound.artifact], image=image or None)
                if self._graph is not None and bound.artifact in self._graph.artifacts:
                    gone = replace(self._graph.artifacts[bound.artifact], stored=None)
                    self._graph.artifacts[bound.artifact] = gone
            lost = [item.names for item in items if item.artifact == bound.artifact]
            names = [name for each in lost for name in each]
            self._say(f"'{', '.join(names)}' is computed again: {bound.why}")
            return
        known = ledger.artifacts([item.artifact for item in items])
        for item, seconds in zip(items, bound.seconds, strict=False):
            artifact = known.get(item.artifact)
            if artifact is not None:
                backend = self._backend() if item.image else "ledger"
                size = artifact.group.size_bytes
                ledger.note_load(backend, artifact.group.kinds[0], size, seconds)
        ledger.used([item.artifact for item in items])

    # ------------------------------------------------------------ what is known

    def find(
        self, source: str, place: Step, path: Sequence[CellLineage], objection: Objection
    ) -> tuple[Found | None, str]:
        """Return an operation that a cell at a place is an instance of, or why there is none."""
        bindings = self._bindings(place)
        if bindings is None or place.node is None:
            return None, ""
        body = body_of(source).strip()
        plain = plain_code(body)
        code = plain if plain is not None else code_hash(body, transformed)
        # Cells that draw random numbers say so; settings may matter to any cell.
        names = {name for name in used(uses_of(body), bindings) if not is_random_state(name)}
        why = ""
        for operation in self._open().operations_like(code, bindings.root):
            if plain is None and body_of(operation.source).strip() != body:
                continue  # what it means may depend on the names there are
            problem = operation.doubt or matches(bindings, operation, names)
            candidate = None if problem else self._candidate(operation, place, source, bindings)
            if candidate is None:
                why = why or problem
                continue
            problem = objection(path, candidate.lineage, candidate.outputs)
            if not problem:
                return self._graft(candidate, place), ""
            why = why or problem
        for trouble in self._open().problems():
            self._say(trouble)
        return None, why

    def _candidate(
        self, operation: Operation, place: Step, source: str, bindings: Bindings
    ) -> Candidate | None:
        """Return an operation as it would be at a place; None if it cannot be there."""
        recorded = self._open().recorded(operation.id)
        if recorded is None or place.node is None:
            return None
        lineage = lineage_from_json(recorded.lineage)
        inputs = renumbered(bindings, lineage.audit.inputs)
        if inputs is None or lineage.variables is None:
            return None
        here = replace(
            lineage,
            node=lineage_digest(place.node, lineage.code, inputs),
            parent=place.node,
            strict=strict_digest(place.strict, lineage.code, lineage.audit.events),
            number=place.number + 1,
            execution_count=place.number + 1,
            source=source,
            audit=replace(lineage.audit, inputs=inputs),
            variables=replace(lineage.variables, operation=operation.id),
        )
        return Candidate(here, recorded.outputs, operation)

    def _graft(self, found: Candidate, place: Step) -> Found:
        """Add a cell to the tree that ran elsewhere."""
        record = CellRecord(
            lineage=found.lineage,
            taint=place.taint,
            parent_taint=place.taint,
            outputs=found.outputs,
        )
        session = f"graph-{found.operation.id}"
        execution = self._project.record(record, session=session)
        self._open().used(found.operation.writes)
        cell = PathCell.recorded(record, execution)
        return Found(cell, found.lineage, found.outputs)

    def way(
        self, source: str, place: Step, worker: Step, *, later: Sequence[str] | None = None
    ) -> Way | None:
        """Return how the worker gets to a place, if only what a cell needs has to be there.

        Parameters
        ----------
        later
            The cells that will follow; None if that is not known.
        """
        uses = uses_of(body_of(source).strip())
        if uses.uses_history:
            return None  # what cells have shown is not there if they are passed over
        bindings = self._bindings(place)
        path = place.path()
        deeds = [self._deed(step) for step in path[1:]]
        first = self._bindings(path[0])
        known = [deed for deed in deeds if deed is not None]
        if bindings is None or first is None or len(known) < len(deeds):
            return None
        needs = needed(uses, bindings)
        ids = {artifact.id for deed in known for artifact in deed.artifacts}
        artifacts = self._open().artifacts(sorted(ids))
        behind = [at for at, step in enumerate(path) if step.is_same_state(worker)]
        starts = [(0, frozenset[str](), True)]
        if behind:
            starts.append((behind[-1], worker.absent, False))

        def load_s(ident: ArtifactId) -> float:
            return self._load_s(artifacts.get(ident))

        ways = []
        for start, absent, is_from_root in starts:
            found = way_to(known, first, start=start, absent=absent, needs=needs, load_s=load_s)
            if found is not None:
                ways.append((found.seconds, start, absent, is_from_root))
        if not ways:
            return None
        _, start, absent, is_from_root = min(ways, key=lambda each: each[0])
        best = way_to(
            known,
            first,
            start=start,
            absent=absent,
            needs=needs,
            load_s=load_s,
            spare_s=_SPARE_S,
            later=None if later is None else _needed_by(later, bindings),
        )
        if best is None:
            return None
        self._note(best, known, artifacts)
        return self._as_way(best, path, artifacts, is_from_root=is_from_root)

    def _as_way(
        self,
        found: GraphWay,
        path: Sequence[Step],
        artifacts: dict[ArtifactId, Artifact],
        *,
        is_from_root: bool,
    ) -> Way:
        """Return a way as an engine takes it."""
        little = [
            ident
            for move in found.moves
            if isinstance(move, PassOver)
            for ident, _ in move.load
            if (stored := artifacts[ident].stored) is not None and not stored.image
        ]
        contents = self._open().contents(little) if little else {}
        moves: list[Step | Pass] = []
        for move in found.moves:
            step = path[move.number]
            if not isinstance(move, PassOver):
                moves.append(step)
                continue
            items = []
            for ident, names in move.load:
                stored = artifacts[ident].stored
                image = stored.image if stored is not None else ""
                text = contents.get(ident, "")
                items.append(Item(ident, names, text, image, self.store if image else ""))
            seconds = sum(self._load_s(artifacts.get(ident)) for ident, _ in move.load)
            moves.append(Pass(step.lacking(move.absent), tuple(items), move.unbind, seconds))
        return Way(is_from_root, tuple(moves), found.seconds)

    def _load_s(self, artifact: Artifact | None) -> float:
        if artifact is None or artifact.stored is None or artifact.id in self._useless:
            return NEVER
        if not artifact.stored.image:
            return 1e-4
        rates, group = self._load_rates(), artifact.group
        return rates.expect(self._backend(), group.kinds[0], group.size_bytes)

    def _note(
        self, found: GraphWay, deeds: Sequence[Deed], artifacts: dict[ArtifactId, Artifact]
    ) -> None:
        """Remember what is done for each variable, for who asks why."""
        for number, deed in enumerate(deeds, 1):
            runs = number - 1 in found.plan.run
            for artifact in deed.artifacts:
                load_s = self._load_s(artifacts.get(artifact.id))
                for name in artifact.group.names:
                    if runs or name not in self.decisions:
                        self.decisions[name] = _told(deed.operation, load_s, runs=runs)
        loaded = {i: names for m in found.moves if isinstance(m, PassOver) for i, names in m.load}
        for ident, names in loaded.items():
            seconds = self._load_s(artifacts.get(ident))
            for name in names:
                self.decisions[name] = f"loaded, in about {seconds:.3g} s"

    # ------------------------------------------------------------ paths

    def _bindings(self, step: Step) -> Bindings | None:
        """Return what the variables are at a step; None if that is not known."""
        if step.parent is None:
            return None if step.node is None else Bindings(NodeId(step.node))
        deed = self._deed(step)
        return None if deed is None else deed.after

    def _deed(self, step: Step) -> Deed | None:
        """Return a cell as the graph sees it; None if it is not known what it did."""
        waiting = []
        at: Step | None = step
        while at is not None and at.parent is not None and at not in self._deeds:
            waiting.append(at)
            at = at.parent
        for each in reversed(waiting):
            before = self._bindings(each.parent) if each.parent is not None else None
            record = each.record
            if record is None and each.execution:
                record = each.record = self._project.lineage(each.execution)
            deed = None
            if before is not None and record is not None:
                deed = follow(before, record, run=f"{each.taint}-{each.execution}")
            self._deeds[each] = deed
        return self._deeds.get(step)


def _needed_by(cells: Sequence[str], bindings: Bindings) -> frozenset[str]:
    """Return the variables that some cells need, as far as they are there now."""
    found = (needed(uses_of(body_of(source).strip()), bindings) for source in cells)
    return frozenset().union(*found)


def _told(operation: Operation, load_s: float, *, runs: bool) -> str:
    if runs and operation.sticky:
        return f"computed, because its cell cannot be passed over: {operation.sticky}"
    if runs and load_s == NEVER:
        return f"computed in about {operation.seconds:.3g} s: it is not stored"
    if runs:
        return f"computed in about {operation.seconds:.3g} s, as loading takes {load_s:.3g} s"
    return "not needed so far"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
