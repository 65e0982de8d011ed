"""What ``chex bench`` compares: claims with published figures, and what measures them.

Nothing here runs anything.  A `Figure` finds a number in what a benchmark has printed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Found = Any
"""What a benchmark has printed, parsed."""
Figure = Callable[[Found], float]
"""Finds a number in it; raises `LookupError` if it is not there."""
Unit = Literal["times", "share", "ms", "GB/s", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A script of ``tests/bench``, with what it is asked for."""

    name: str
    script: str
    quick: tuple[str, ...]
    full: tuple[str, ...]
    quick_seconds: float
    """About what it takes on two cores."""
    full_seconds: float
    needs: tuple[str, ...] = ()
    """Names in `NEEDS`."""
    is_long: bool = False
    """Whether it is left out if nobody asks for it, because it takes long even with small sizes."""

    def arguments(self, *, is_full: bool) -> tuple[str, ...]:
        """Return what follows the name of the script."""
        return self.full if is_full else self.quick

    def seconds(self, *, is_full: bool) -> float:
        """Return about what it takes."""
        return self.full_seconds if is_full else self.quick_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a figure must reach."""

    limit: float
    sense: Literal["least", "most"]
    of: Literal["ours", "ratio"] = "ours"

    def is_met(self, value: float) -> bool:
        """Return whether it is reached."""
        return value >= self.limit if self.sense == "least" else value <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One line of the table."""

    benchmark: str
    system: str
    """Whose published figure it is."""
    what: str
    ours: Figure
    unit: Unit
    published: float | Figure | None
    """A function if the other system was measured in the same run; None if no figure is known."""
    bar: Bar | None
    published_as: str = ""
    """How to write the published figure, if it is more than a number."""


NEEDS = {
    "torch": "pip install 'chexpoint[torch]'",
    "numba": "pip install 'chexpoint[jit]'",
    "distributed": "pip install 'chexpoint[dask]'",
    "sklearn": "pip install 'chexpoint[demo]'",
    "pandas": "pip install pandas",
    "root": "run it as root: it makes network namespaces",
    "ip": "install iproute2",
    "CUDA device": "see chex doctor",
}
"""What benchmarks may need, mostly modules; and how to get it."""

EIGHT = "w1,w2,w3,w4,w5,w6,w7,w8"
PEERS = "{peers}"
"""Stands in arguments for the folder in which environments of other tools are kept."""

# ---------------------------------------------------------------- where figures are


def mean(path: str) -> Figure:
    """Return the mean of all numbers at a path such as ``"studies.*.ratio"``."""
    return lambda found: statistics.fmean(numbers_at(found, path))


def most(*paths: str) -> Figure:
    """Return the greatest number at some paths."""
    return lambda found: max(number for path in paths for number in numbers_at(found, path))


def least_quotient(over: str, under: str) -> Figure:
    """Return the least quotient of numbers that stand at two paths, in the same order."""

    def figure(found: Found) -> float:
        pairs = zip(numbers_at(found, over), numbers_at(found, under), strict=True)
        # What took no time that could be measured took less than a tenth of a millisecond.
        return min(a / max(b, 1e-4) for a, b in pairs)

    return figure


def extra(figure: Figure) -> Figure:
    """Return by how much a ratio is above 1."""
    return lambda found: figure(found) - 1


def inverse(figure: Figure) -> Figure:
    """Return how many times faster something is that takes a part of the time."""
    return lambda found: 1 / max(figure(found), 1e-9)


def seconds_as_ms(figure: Figure) -> Figure:
    """Return milliseconds."""
    return lambda found: figure(found) * 1e3


def numbers_at(found: Found, path: str) -> list[float]:
    """Return the numbers at a path: keys with dots between them, ``*`` for every key.

    In a list of bars, the key is what a bar is about.

    Raises
    ------
    LookupError
        If something at it is not there, or no number.
    """
    places = [found]
    for key in path.split("."):
        places = [each for place in places for each in _below(place, key)]
    # A number that is not there is null, and no zero.
    if not places or not all(_is_number(place) for place in places):
        raise LookupError(path)
    return [float(place) for place in places]


def _below(place: Found, key: str) -> Iterator[Found]:
    if isinstance(place, list):
        place = {row["what"]: row for row in place}
    match place, key:
        case dict(), "*":
            yield from place.values()
        case dict(), _:
            yield place[key]
        case _:
            raise LookupError(key)


def _is_number(place: Found) -> bool:
    return isinstance(place, int | float) and not isinstance(place, bool)


# ---------------------------------------------------------------- the table

BENCHMARKS = (
    Benchmark(
        name="replay",
        script="replay.py",
        quick=("--quick", "--only", "bundled", "--peers", PEERS),
        full=("--only", "bundled", "--peers", PEERS),
        quick_seconds=160,
        full_seconds=420,
        needs=("sklearn",),
    ),
    Benchmark(
        name="planner",
        script="planner.py",
        quick=("--quick", "--only", "quality"),
        full=("--only", "quality"),
        quick_seconds=5,
        full_seconds=60,
    ),
    Benchmark(
        name="engine",
        script="engine.py",
        quick=("--quick",),
        full=(),
        quick_seconds=30,
        full_seconds=120,
    ),
    Benchmark(
        name="lineage",
        script="lineage.py",
        quick=("--quick", "--only", "notebooks"),
        full=("--only", "notebooks"),
        quick_seconds=60,
        full_seconds=180,
        needs=("sklearn",),
    ),
    Benchmark(
        name="store",
        script="store.py",
        quick=("--quick", "--only", "ratio,speed", "--of", "race", "--size", "32"),
        full=("--only", "ratio,speed", "--of", "race"),
        quick_seconds=30,
        full_seconds=90,
        needs=("numba",),
    ),
    Benchmark(
        name="gpu",
        script="gpu.py",
        quick=("--mib", "256"),
        full=(),
        quick_seconds=30,
        full_seconds=60,
        needs=("CUDA device",),
    ),
    Benchmark(
        name="kishu",
        script="images.py",
        quick=("--only", "in_place", "--sides", "kishu,chex", "--peers", PEERS),
        full=("--only", "in_place", "--sides", "kishu,chex", "--repeats", "3", "--peers", PEERS),
        quick_seconds=90,
        full_seconds=270,
    ),
    Benchmark(
        name="hindsight",
        script="hindsight.py",
        # In a training of seconds nothing but starting would be seen.
        quick=("--only", "training", "--of", "cnn", "--size", "0.2", "--repeats", "1"),
        full=("--only", "training", "--of", "cnn"),
        quick_seconds=300,
        full_seconds=4500,
        needs=("torch",),
        is_long=True,
    ),
    Benchmark(
        name="thread",
        script="hindsight_thread.py",
        quick=("--rounds", "3", "--threads", "1"),
        full=("--threads", "1"),
        quick_seconds=60,
        full_seconds=150,
        needs=("torch",),
    ),
    Benchmark(
        name="helix",
        script="graph_planning.py",
        quick=("--quick", "--only", "workloads"),
        full=("--only", "workloads"),
        quick_seconds=30,
        full_seconds=600,
    ),
    Benchmark(
        name="repeated",
        script="graph.py",
        quick=("--only", "repeated", "--of", "w1", "--every", "8", "--repeats", "1"),
        full=("--only", "repeated"),
        quick_seconds=90,
        full_seconds=1800,
        needs=("sklearn", "pandas"),
    ),
    Benchmark(
        name="sequence",
        script="graph.py",
        quick=("--only", "sequence", "--of", EIGHT, "--every", "8", "--repeats", "1"),
        full=("--only", "sequence", "--of", EIGHT),
        quick_seconds=600,
        full_seconds=3600,
        needs=("sklearn", "pandas"),
        is_long=True,
    ),
    Benchmark(
        name="cluster",
        script="cluster.py",
        quick=("--quick", "--only", "many"),
        full=("--only", "many"),
        quick_seconds=150,
        full_seconds=420,
        needs=("distributed", "root", "ip"),
    ),
)

CLAIMS = (
    Claim(
        benchmark="replay",
        system="CHEX paper",
        what="replay of all versions, over running them one by one",
        ours=mean("bundled.studies.*.over_version_by_version"),
        unit="",
        published=0.50,
        bar=Bar(limit=0.50, sense="most"),
    ),
    Claim(
        benchmark="replay",
        system="CHEX paper",
        what="replay of all versions, over each cell once and one start",
        ours=mean("bundled.studies.*.over_bound"),
        unit="",
        published=None,
        bar=Bar(limit=1.15, sense="most"),
    ),
    Claim(
        benchmark="planner",
        system="CHEX paper",
        what="plans for small trees, cost over the optimum",
        ours=mean("quality.cost_over_optimum.pc-move.mean"),
        unit="",
        published=mean("quality.cost_over_optimum.pc.mean"),
        bar=Bar(limit=1.002, sense="most"),
    ),
    Claim(
        benchmark="engine",
        system="CHEX paper",
        what="checkpoint or restore of a large array, the slower one",
        ours=most("large_state.checkpoint.median_ms", "large_state.restore.median_ms"),
        unit="ms",
        published=None,
        bar=Bar(limit=25, sense="most"),
    ),
    Claim(
        benchmark="lineage",
        system="CHEX paper",
        what="CPU time that the audit of inputs adds",
        ours=extra(mean("notebooks.ratio")),
        unit="share",
        published=0.15,
        bar=Bar(limit=0.05, sense="most"),
        published_as="15 to 25 %",
    ),
    Claim(
        benchmark="store",
        system="Merkle paper",
        what="times smaller by de-duplication, event graph",
        ours=mean("ratio.lineages.race.ratio.ours-256"),
        unit="times",
        published=mean("ratio.lineages.race.ratio.tree-64"),
        bar=Bar(limit=3, sense="least", of="ratio"),
    ),
    Claim(
        benchmark="store",
        system="Merkle paper",
        what="its speed on one core, over a plain copy",
        ours=mean("speed.bars.race: end to end, of a copy.value"),
        unit="",
        published=None,
        bar=Bar(limit=0.4, sense="least"),
    ),
    Claim(
        benchmark="gpu",
        system="Merkle paper",
        what="speed of Tree on a GPU",
        ours=mean("methods.tree.64.gb_per_s"),
        unit="GB/s",
        published=167,
        bar=None,
        published_as="167 GB/s, A100",
    ),
    Claim(
        benchmark="kishu",
        system="Kishu",
        what="wait until a state with a large array is kept",
        ours=seconds_as_ms(mean("notebooks.in_place.chex.back_to_back_wait_s")),
        unit="ms",
        published=seconds_as_ms(mean("notebooks.in_place.kishu.back_to_back_wait_s")),
        bar=Bar(limit=0.1, sense="most", of="ratio"),
    ),
    Claim(
        benchmark="kishu",
        system="Kishu",
        what="going back to it in a new kernel",
        ours=seconds_as_ms(mean("notebooks.in_place.chex.back_s")),
        unit="ms",
        published=seconds_as_ms(mean("notebooks.in_place.kishu.back_s")),
        bar=Bar(limit=0.5, sense="most", of="ratio"),
    ),
    Claim(
        benchmark="hindsight",
        system="Flor paper",
        what="time that recording adds to a training",
        ours=extra(mean("training.cnn.record.over_plain.least")),
        unit="share",
        published=0.0174,
        bar=Bar(limit=0.02, sense="most"),
    ),
    Claim(
        benchmark="hindsight",
        system="Flor paper",
        what="log in the outer loop, faster than training again",
        ours=inverse(mean("training.cnn.outer.of_retraining")),
        unit="times",
        published=7,
        bar=Bar(limit=20, sense="least"),
        published_as="7 to 1,123 times",
    ),
    Claim(
        benchmark="hindsight",
        system="Flor paper",
        what="log in the inner loop, 2 workers, over training again",
        ours=mean("training.cnn.inner.of_retraining"),
        unit="",
        published=0.5,
        bar=Bar(limit=0.6, sense="most"),
        published_as="near 0.5",
    ),
    Claim(
        benchmark="thread",
        system="Flor paper",
        what="checkpoint in the background, over one that is waited for",
        ours=mean("threads_1.ratio.torch_save"),
        unit="",
        published=0.265,
        bar=Bar(limit=0.15, sense="most"),
    ),
    Claim(
        benchmark="thread",
        system="PyTorch",
        what="the same, asynchronous",
        ours=mean("threads_1.designs.staging.cost_ms"),
        unit="ms",
        published=mean("threads_1.designs.dcp.cost_ms"),
        bar=Bar(limit=0.5, sense="most", of="ratio"),
    ),
    Claim(
        benchmark="helix",
        system="Graph paper",
        what="plans what to reuse, faster than Helix",
        ours=mean("workloads.helix_over_cut"),
        unit="times",
        published=40,
        bar=Bar(limit=40, sense="least"),
    ),
    Claim(
        benchmark="repeated",
        system="Graph paper",
        what="workload that somebody has run, faster; the slowest",
        ours=least_quotient("repeated.of.*.none.cells_s", "repeated.of.*.elsewhere.cells_s"),
        unit="times",
        published=10,
        bar=Bar(limit=10, sense="least"),
    ),
    Claim(
        benchmark="sequence",
        system="Graph paper",
        what="eight workloads with reuse, over without",
        ours=least_quotient("sequence.least.reuse.version_s", "sequence.least.none.version_s"),
        unit="",
        published=0.50,
        bar=Bar(limit=0.50, sense="most"),
    ),
    Claim(
        benchmark="cluster",
        system="CHEX",
        what="time that a cluster adds to a version",
        ours=seconds_as_ms(mean("many.overhead_s_a_version")),
        unit="ms",
        published=None,
        bar=Bar(limit=20, sense="most"),
    ),
)
