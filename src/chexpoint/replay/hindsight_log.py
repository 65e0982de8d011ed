"""What a replay in hindsight has found out so far, on disk: so that it can be gone on with.

A file of JSON lines.  The first says what is replayed; each other one is what came of some
iterations.  They are known by what they are of, so that another division of the rest among hosts
does not matter.  A line that was being written when the process was killed is not read.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import xxhash

from chexpoint.replay.hindsight_lane import Outcome
from chexpoint.replay.hindsight_values import HindsightPlan, Probe

_FORMAT = 1


class HindsightLog:
    """The file of one replay.

    Parameters
    ----------
    folder
        Where it is kept; None keeps nothing.
    """

    def __init__(self, folder: Path | None, plan: HindsightPlan) -> None:
        cells = [[cell.source, cell.old_source, str(cell.folder)] for cell in plan.cells]
        text = json.dumps([plan.version, cells])
        name = xxhash.xxh3_128(text.encode()).hexdigest()
        self._head = {"format": _FORMAT, "hindsight": name}
        self._path = None if folder is None else folder / f"hindsight-{name}.jsonl"

    def read(self, probes: Iterable[Probe]) -> dict[int, Outcome]:
        """Return what an earlier replay has found out about some probes, by their numbers."""
        known: dict[tuple[int, int, int, int], Outcome] = {}
        wanted = {_key(probe): (number, probe) for number, probe in enumerate(probes)}
        if self._path is not None:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                lines = iter(self._path.read_text(encoding="utf-8").splitlines())
                if json.loads(next(lines, "null")) == self._head:
                    for line in lines:
                        told = json.loads(line)
                        key = told["cell"], told["loop"], told["start"], told["stop"]
                        if key in wanted:
                            known[key] = _outcome(told, wanted[key][1])
        return {wanted[key][0]: outcome for key, outcome in known.items()}

    def begin(self, outcomes: Iterable[Outcome]) -> None:
        """Begin anew, with what is known."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                part = self._path.with_suffix(f".{os.getpid()}")
                lines = [json.dumps(self._head), *(_line(each) for each in outcomes)]
                part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                os.replace(part, self._path)

    def add(self, outcome: Outcome) -> None:
        """Keep what came of a probe, unless it failed: then it is tried again."""
        if self._path is not None and not outcome.failed:
            with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
                file.write(f"{_line(outcome)}\n")

    def end(self, *, is_complete: bool) -> None:
        """Forget what is not needed any more."""
        if self._path is not None and is_complete:
            with contextlib.suppress(OSError):  # in a folder that is read-only there is none
                self._path.unlink()


def _key(probe: Probe) -> tuple[int, int, int, int]:
    return probe.cell, probe.loop, probe.segment.start, probe.segment.stop


def _line(outcome: Outcome) -> str:
    cell, loop, start, stop = _key(outcome.probe)
    told: dict[str, object] = {"cell": cell, "loop": loop, "start": start, "stop": stop}
    told["segment"] = asdict(outcome.probe.segment)
    return json.dumps({**told, "events": list(outcome.events), "notes": list(outcome.notes)})


def _outcome(told: dict[str, object], probe: Probe) -> Outcome:
    segment = replace(probe.segment, **told["segment"])  # type: ignore[arg-type]
    return Outcome(
        probe=replace(probe, segment=segment),
        events=tuple(told["events"]),  # type: ignore[arg-type]
        notes=tuple(told["notes"]),  # type: ignore[arg-type]
    )
