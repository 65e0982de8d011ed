"""What a replay found to differ from the record, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from chexpoint.hindsight.log_match import Difference
from chexpoint.model import LoggedValue, LoopRun

_LONGEST = 60
_MOST_LEAVES = 3


class Words:
    """Speaks of one main loop of a run."""

    def __init__(self, run: LoopRun, loop: int) -> None:
        self._sites = {site.site: site for site in run.sites}
        self._loop = run.loops[loop]
        site = self._sites.get(self._loop.site)
        self._label = site.label if site is not None and site.label else "iteration"
        self._names = {
            value.at[0]: value.labels[0]
            for value in reversed(run.values)
            if value.loop == loop and value.labels
        }

    def iteration(self, number: int) -> str:
        """Return what the program calls an iteration: ``epoch 3``."""
        label, value = self._names.get(number, (self._label, number))
        return f"{label} {_short(value)}" if isinstance(value, int | str) else f"{label} {number}"

    def log(self, number: int, difference: Difference) -> str:
        """Return how logs differ."""
        old, new = difference.recorded, difference.replayed
        if new is None:
            what = f"the record {_did(old)} {_named(old)}, the replay did not"
        elif old is None:
            what = f"the replay {_did(new)} {_named(new)}, the record did not"
        elif (old.via, old.name) == (new.via, new.name):
            what = f"the record {_did(old)} {_named(old)}, the replay {_short(new.value)}"
        else:
            what = f"the record {_did(old)} {_named(old)}, the replay {_did(new)} {_named(new)}"
        return f"{self.iteration(number)}: {what}"

    def state(self, at: tuple[int, ...], leaves: Sequence[str]) -> str:
        """Return where state differs."""
        differ = "differs" if len(leaves) == 1 else "differ"
        return f"{self._moment(at)}, {_listed(leaves)} {differ} from the record"

    def base(self, leaves: Sequence[str]) -> str:
        """Return what was not there again before the loop."""
        return (
            f"before the loop, {_listed(leaves)} differs from the record: what comes before it"
            " gives something else each time (set seeds, or read the same data)"
        )

    def changed(self, line: int, leaves: Sequence[str]) -> str:
        """Return what an added statement did that it should not have done."""
        what = f"the statement added in line {line} changed {_listed(leaves)}"
        if any(leaf.startswith("@") for leaf in leaves):
            return f"{what}: it draws random numbers; training went on with other numbers"
        return f"{what}; training went on with other values"

    def _moment(self, at: tuple[int, ...]) -> str:
        if at[0] >= len(self._loop.iterations):
            return f"after the last {self._label}"
        if len(at) == 1:
            return f"before {self.iteration(at[0])}"
        blocks = self._loop.iterations[at[0]].blocks
        site = self._sites.get(blocks[at[1]].site) if at[1] < len(blocks) else None
        loop = f"the loop in line {site.line}" if site is not None else "a loop"
        return f"after {loop} in {self.iteration(at[0])}"


def _did(value: LoggedValue | None) -> str:
    return "printed" if value is not None and value.via == "print" else "logged"


def _named(value: LoggedValue | None) -> str:
    if value is None:
        return "nothing"
    text = _short(value.value)
    return text if value.via in ("print", "logging") else f"{value.name}={text}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _listed(leaves: Sequence[str]) -> str:
    shown = list(leaves[:_MOST_LEAVES])
    more = len(leaves) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
