"""Adaptive checkpointing: which blocks are worth a checkpoint, so that recording stays cheap.

The rule is the joint invariant of 'Hindsight Logging for Model Training' (PVLDB 14, section 3.2,
equation 4), tested after a block has run and before its state is materialised::

    M_i / C_i  <  n_i / (k_i + 1) * min(1 / (1 + c), epsilon)

``M_i``  what a checkpoint of block i costs the training thread: survey, copies, page faults later
``C_i``  what running it takes
``n_i``  how often it ran
``k_i``  how many checkpoints of it were taken
``c``    what restoring takes, in units of M

The first half is the record overhead, ``k M < n epsilon C``; the second the replay latency,
``M + R < n / k C`` with ``R = c M``: a replay that loads is not slower than one that computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from chexpoint.errors import InvalidValue
from chexpoint.model import Seconds

EPSILON = 1 / 15
_NEW = 0.3
"""The weight of a new sample in a moving average."""


@dataclass(slots=True)
class _Block:
    """What is known of one block."""

    runs: int = 0
    checkpoints: int = 0
    run_s: Seconds = 0.0
    """C, a moving average."""
    cost_s: Seconds = 0.0
    """M, a moving average."""


class Pace:
    """Decides, from what checkpoints cost and blocks take, when to take the next.

    Besides the invariant of each iteration there is a limit for the whole: all that was paid, and
    what the next checkpoint is expected to cost, stays below epsilon of what was computed.

    Parameters
    ----------
    epsilon
        The share of the computing time that recording may cost; infinite if that does not matter.
    c
        What restoring is expected to take, in units of what materialising does.

    Raises
    ------
    InvalidValue
        If one of them cannot be.
    """

    def __init__(self, epsilon: float = EPSILON, c: float = 1.0) -> None:
        if not (0 <= epsilon <= 1 or epsilon == math.inf):
            raise InvalidValue(f"an overhead of {epsilon:g} cannot be: give a share from 0 to 1.")
        if not (math.isfinite(c) and c >= 0):
            raise InvalidValue(f"a restore cannot take {c:g} times as long as a checkpoint.")
        self.epsilon = epsilon
        self.c = c
        self.paid_s: Seconds = 0.0
        """All that recording has cost."""
        self.computed_s: Seconds = 0.0
        """All that blocks have taken."""
        self._blocks: dict[int, _Block] = {}

    def ran(self, site: int, seconds: Seconds) -> None:
        """Note that a block has run.

        Blocks do not contain one another, and what recording cost meanwhile is not included.
        """
        block = self._block(site)
        block.runs += 1
        block.run_s = _average(block.run_s, seconds, is_first=block.runs == 1)
        self.computed_s += max(0.0, seconds)

    def paid(self, site: int, seconds: Seconds) -> None:
        """Note that a checkpoint of a block was taken, and what that cost."""
        block = self._block(site)
        block.checkpoints += 1
        block.cost_s = _average(block.cost_s, seconds, is_first=block.checkpoints == 1)
        self.paid_s += max(0.0, seconds)

    def spent(self, seconds: Seconds) -> None:
        """Note another cost: starting the writer, a survey without a checkpoint, page faults."""
        self.paid_s += max(0.0, seconds)

    def restored(self, materialise_s: Seconds, restore_s: Seconds) -> None:
        """Refine c by a restore that was observed."""
        if materialise_s > 0 and restore_s >= 0:
            self.c = _average(self.c, restore_s / materialise_s, is_first=False)

    def allows(
        self, sites: Sequence[int], expected: Seconds | None = None, *, running_s: Seconds = 0.0
    ) -> bool:
        """Return whether checkpoints are to be taken of all these blocks.

        Asked after they have run: the blocks of one iteration together, because a replay can use
        all of their checkpoints or none.

        Parameters
        ----------
        expected
            What checkpoints of those may cost together of which none was taken yet.  None if
            nothing is known: then the first is taken to find out.
        running_s
            What has been computed that is not noted yet, because it goes on.
        """
        if self.epsilon == math.inf:
            return True
        running_s = max(0.0, running_s)
        blocks = [self._block(site) for site in dict.fromkeys(sites)]
        measured = [block for block in blocks if block.checkpoints]
        unknown = 0.0 if len(measured) == len(blocks) else max(0.0, expected or 0.0)
        next_s = unknown + sum(block.cost_s for block in measured)
        if self.paid_s + next_s > self.epsilon * (self.computed_s + running_s):
            return False
        # Equation 4, with both sides multiplied by (k + 1) C, summed over the blocks.
        cost_s = unknown + sum((block.checkpoints + 1) * block.cost_s for block in measured)
        value_s = running_s + sum(block.runs * block.run_s for block in blocks)
        return value_s > 0 and cost_s < value_s * min(1 / (1 + self.c), self.epsilon)

    @property
    def share(self) -> float:
        """What recording has cost, as a share of what was computed."""
        return self.paid_s / self.computed_s if self.computed_s > 0 else 0.0

    def _block(self, site: int) -> _Block:
        return self._blocks.setdefault(site, _Block())


def _average(before: float, new: float, *, is_first: bool) -> float:
    """Return a moving average; a clock that was set back counts as no time."""
    new = max(0.0, new)
    return new if is_first else before + _NEW * (new - before)
