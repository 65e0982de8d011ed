"""Replays that have ended: one to look at, one of a stranger, one with very many versions."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from chexpoint.model import (
    CellAudit,
    CellError,
    CellLineage,
    EnvironmentInfo,
    ExecutionTree,
    MemoryMoment,
    NodeId,
    Output,
    OutputDifference,
    RecordedCell,
    Recording,
    Replay,
    ReplayedCell,
    ReplayStatus,
    TreeNode,
    Version,
)
from tests.support.replay_outputs import (
    CURVE,
    FRAME,
    FRAME_TEXT,
    MISSING,
    bars,
    differing,
    display,
    printed,
    raised,
    result,
)

MB = 2**20
ROOT_NODE = NodeId("0" * 32)
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\x1b[31m\x00\ud800"


# ---------------------------------------------------------------- cells and replays


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A cell of a made-up replay: what was recorded of it, and what came of it."""

    source: str
    after: str = ""
    """The name of the cell before it; none for a first one."""
    seconds: float = 0.5
    size: int = 8 * MB
    recorded: tuple[Output, ...] = ()
    replayed: tuple[Output, ...] | None = None
    """As recorded, if it is None."""
    status: ReplayStatus | None = "same"
    """None for a cell that is not done."""
    reasons: tuple[str, ...] = ()
    differences: tuple[OutputDifference, ...] = ()
    computed: int = 1
    error: CellError | None = None
    is_excused: bool = False
    tags: frozenset[str] = field(default_factory=frozenset)


def node_of(name: str) -> NodeId:
    """Return the id of a made-up node, which looks like a real one."""
    return NodeId(f"{zlib.crc32(name.encode('utf-8', 'replace')):08x}".ljust(32, "5"))


def build(
    samples: Mapping[str, Sample], versions: Mapping[str, str], *, title: str = "penguins"
) -> Replay:
    """Return a replay.

    Parameters
    ----------
    samples
        The cells by their names, each after the one before it.
    versions
        By label, the name of the last cell.
    """
    paths: dict[str, tuple[str, ...]] = {"": ()}
    for name, sample in samples.items():
        paths[name] = (*paths[sample.after], name)
    nodes = [
        TreeNode(
            id=node_of(name),
            parent=node_of(sample.after) if sample.after else None,
            cell=sample.source,
            cost=sample.seconds,
            size=sample.size,
            execution_count=len(paths[name]),
            last_run=float(at),
        )
        for at, (name, sample) in enumerate(samples.items())
    ]
    found = [
        Version(
            name=label,
            path=tuple(node_of(name) for name in paths[end]),
            created=1_760_000_000.0 + at * 600,
            origin="penguins.ipynb",
        )
        for at, (label, end) in enumerate(versions.items())
    ]
    tree = ExecutionTree(nodes, found)
    cells = {node_of(name): _recorded(name, s, len(paths[name])) for name, s in samples.items()}
    done = {node_of(n): _replayed(n, s) for n, s in samples.items() if s.status is not None}
    return Replay(
        recording=Recording(tree=tree, cells=cells, title=title),
        cells=done,
        seconds=0.4 + sum(cell.seconds * cell.computed for cell in done.values()),
        computed_cells=sum(cell.computed for cell in done.values()),
        planned_seconds=sum(s.seconds for s in samples.values()),
        overhead_seconds=0.02,
        peak_checkpoint_bytes=96 * MB,
        budget_bytes=128 * MB,
        planner="pc-move",
        started=1_770_000_000.0,
    )


def _recorded(name: str, sample: Sample, number: int) -> RecordedCell:
    return RecordedCell(
        lineage=CellLineage(
            node=node_of(name),
            parent=node_of(sample.after) if sample.after else ROOT_NODE,
            code=f"{zlib.crc32(sample.source.encode('utf-8', 'replace')):032x}",
            strict="57",
            number=number,
            execution_count=number,
            source=sample.source,
            audit=CellAudit(),
            seconds=sample.seconds,
            size_bytes=sample.size,
        ),
        outputs=sample.recorded,
        cell_id=f"cell-{number}",
        tags=sample.tags,
    )


def _replayed(name: str, sample: Sample) -> ReplayedCell:
    assert sample.status is not None
    is_skipped = sample.status == "skipped"
    return ReplayedCell(
        node=node_of(name),
        status=sample.status,
        reasons=sample.reasons,
        differences=sample.differences,
        outputs=() if is_skipped else sample.replayed or sample.recorded,
        seconds=0.0 if is_skipped else sample.seconds * 0.9,
        size_bytes=sample.size,
        computed=0 if is_skipped else sample.computed,
        error=sample.error,
        is_excused=sample.is_excused,
    )


PENGUINS: dict[str, Sample] = {
    "import": Sample(
        source="import numpy as np\nimport pandas as pd\nfrom sklearn import ensemble",
        seconds=1.9,
        size=70 * MB,
    ),
    "load": Sample(
        after="import",
        source='frame = pd.read_csv("penguins.csv")\nframe.head(2)',
        seconds=2.4,
        size=90 * MB,
        recorded=(result(2, text__html=FRAME.format(5076.0), text__plain=FRAME_TEXT.format(5076)),),
        computed=2,
    ),
    "clean": Sample(
        after="load",
        source="clean = frame.dropna()\nprint(len(clean), 'rows are left')",
        seconds=3.1,
        size=95 * MB,
        recorded=(printed("333 rows are left\n"),),
    ),
    "time": Sample(
        after="clean",
        source="%%time\nscores = cross_validate(clean)\nprint(scores)",
        seconds=4.2,
        size=95 * MB,
        recorded=(printed("[0.97 0.95 0.98]\nWall time: 4.02 s\n"),),
        replayed=(printed("[0.97 0.95 0.98]\nWall time: 3.71 s\n"),),
        status="close",
        reasons=("only a time differs",),
        differences=(differing("a time differs in line 2"),),
    ),
    "fit": Sample(
        after="clean",
        source="model = ensemble.RandomForestClassifier(max_depth=3, random_state=1)\n"
        "model.fit(clean[features], clean.species)\nmodel.score(held, truth)",
        seconds=6.5,
        recorded=(result(4, text__plain="0.9701492537313433"),),
    ),
    "plot": Sample(
        after="fit",
        source="clean.groupby('species').mass.mean().plot.bar();",
        recorded=(display({"image/png": bars(120, 60, 90), "text/plain": "<Figure>"}),),
    ),
    "fit deeper": Sample(
        after="clean",
        source="model = ensemble.RandomForestClassifier(max_depth=9)\n"
        "model.fit(clean[features], clean.species)\n"
        "for name, score in scores(model):\n    print(f'{name:10} {score:.4f}')",
        seconds=9.0,
        recorded=(printed("accuracy   0.9701\nrecall     0.9683\nf1         0.9690\n"),),
        replayed=(printed("accuracy   0.9552\nrecall     0.9541\nf1         0.9690\n"),),
        status="different",
        reasons=(
            "stdout differs in lines 1 and 2",
            "this was to be expected: a random number generator had no seed",
        ),
        differences=(differing("stdout differs in lines 1 and 2"),),
    ),
    "plot deeper": Sample(
        after="fit deeper",
        source="show(model)",
        recorded=(
            display({"image/png": bars(120, 60, 90), "text/plain": "<Figure>"}),
            result(5, text__html=FRAME.format(5076.0), text__plain=FRAME_TEXT.format("5076.0")),
            display({"image/svg+xml": CURVE.format("seagreen", 55)}),
            printed("done\n"),
            display({"application/json": {"depth": 9, "leaves": [3, 5]}}),
        ),
        replayed=(
            display({"image/png": bars(110, 60, 97), "text/plain": "<Figure>"}),
            result(5, text__html=FRAME.format(5081.5), text__plain=FRAME_TEXT.format("5081.5")),
            display({"image/svg+xml": CURVE.format("seagreen", 35)}),
            printed("done\n"),
            display({"application/json": {"depth": 9, "leaves": [3, 6]}}),
            printed("UserWarning: the forest is small\n", "stderr"),
        ),
        status="different",
        reasons=("2.1 % of the pixels of a picture differ", "wrote other contents to ./model.bin"),
        differences=(
            differing("2.1 % of the pixels differ"),
            differing("a number of the table differs", 1, 1),
            differing("the picture differs", 2, 2),
            differing("the data differ", 4, 4),
            differing("was not shown when it was recorded", None, 5),
            differing("wrote other contents to ./model.bin", None, None),
        ),
    ),
    "scale": Sample(
        after="load",
        source="scaled = frame.copy()\nscaled['x'] = frame['flipper_length'] / 10",
        recorded=(printed("scaled\n"),),
        replayed=(raised(MISSING),),
        status="failed",
        reasons=("KeyError: 'flipper_length'", "it did not fail when it was recorded"),
        differences=(differing("was shown when it was recorded", 0, None),),
        error=MISSING,
    ),
    "fit scaled": Sample(
        after="scale",
        source="model.fit(scaled, clean.species)",
        status="skipped",
        reasons=("cell 3 before it failed",),
    ),
    "stamp": Sample(
        after="plot",
        source="# chex-volatile\nprint(datetime.now())",
        recorded=(printed("2026-01-07 10:11:12\n"),),
        replayed=(printed("2026-02-02 03:33:20\n"),),
        status="different",
        reasons=("the text differs in line 1", "the cell is tagged chex-volatile"),
        differences=(differing("the text differs in line 1"),),
        is_excused=True,
        tags=frozenset({"chex-volatile"}),
    ),
}
PENGUIN_VERSIONS = {
    "base": "plot",
    "deeper": "plot deeper",
    "scaled": "fit scaled",
    "stamped": "stamp",
    "timed": "time",
    "shallow": "plot",
}
MEMORY = tuple(
    MemoryMoment(time=at * 1.9, held_bytes=held * MB)
    for at, held in enumerate((0, 0, 70, 90, 90, 96, 96, 96, 70, 70, 96, 96, 20, 20, 0))
)


def sample_replay() -> Replay:
    """Return a replay in which everything can be seen that may come of a cell."""
    made = build(PENGUINS, PENGUIN_VERSIONS)
    environment = EnvironmentInfo(
        python="3.11.9",
        implementation="CPython",
        machine="x86_64",
        system="Linux",
        packages=(("numpy", "2.1.0"), ("pandas", "2.2.3"), ("scikit-learn", "1.5.2")),
    )
    recording = replace(
        made.recording,
        environment=environment,
        notes=("the file /data/weights.bin is outside of the project, and is taken as it is",),
    )
    return replace(
        made,
        recording=recording,
        memory=MEMORY,
        notes=("pandas is 2.3.0 here, and was 2.2.3 when the versions were recorded",),
    )


def good_replay() -> Replay:
    """Return a replay in which every version is reproduced."""
    wanted = ("import", "load", "clean", "time", "fit", "plot", "stamp")
    samples = {name: PENGUINS[name] for name in wanted}
    ends = {label: end for label, end in PENGUIN_VERSIONS.items() if end in samples}
    return replace(build(samples, ends), memory=MEMORY)


def interrupted_replay() -> Replay:
    """Return a replay that did not get to everything, and had no time for a version."""
    todo = {"plot deeper", "fit scaled", "scale"}
    samples = {
        name: replace(sample, status=None) if name in todo else sample
        for name, sample in PENGUINS.items()
    }
    made = build(samples, PENGUIN_VERSIONS)
    return replace(made, is_interrupted=True, left_out=("scaled",), budget_bytes=float("inf"))


def hostile_replay() -> Replay:
    """Return a replay of a stranger: whatever can be text tries to be something else."""
    frame = (
        f"<script>alert(1)</script><p onclick=alert(2)>{HOSTILE}</p>"
        '<link rel="stylesheet" href="https://example.org/a.css"><base href="https://example.org/">'
        '<meta http-equiv="refresh" content="0;url=https://example.org/"><img src="https://e.org/a">'
    )
    shown = (
        printed(f"{HOSTILE}\n\x1b]8;;https://example.org\x07link\x1b]8;;\x07\n"),
        result(1, text__html=frame, text__plain=HOSTILE),
        display({"image/svg+xml": f"<svg onload=alert(3)>{HOSTILE}</svg>"}),
        display({"image/png": f'x" onerror="alert(4) {HOSTILE}'}),
        display({"application/javascript": "alert(5)", "text/latex": f"$x$ {HOSTILE}"}),
        display({"application/vnd.jupyter.widget-view+json": {"model_id": HOSTILE}}),
        {"output_type": HOSTILE, HOSTILE: HOSTILE},
    )
    other = tuple({**output, "more": 1} for output in reversed(shown))
    error = CellError(ename=HOSTILE, evalue=HOSTILE, traceback=(HOSTILE, f"\x1b[31m{HOSTILE}"))
    differences = tuple(differing(HOSTILE, at, at) for at in range(len(shown)))
    samples = {
        HOSTILE: Sample(
            source=f"# {HOSTILE}\n\x0c",
            recorded=shown,
            replayed=other,
            status="different",
            reasons=(HOSTILE, "two\nlines"),
            differences=(*differences, differing("nowhere", 99, -1)),
            error=error,
            tags=frozenset({HOSTILE, "a,b"}),
        ),
        "next": Sample(after=HOSTILE, source=HOSTILE, status="failed", error=error),
    }
    made = build(samples, {HOSTILE: "next", "plain": HOSTILE}, title=HOSTILE)
    environment = EnvironmentInfo(python=HOSTILE, packages=((HOSTILE, HOSTILE),))
    recording = replace(made.recording, environment=environment, notes=(HOSTILE,))
    return replace(made, recording=recording, notes=(HOSTILE,), planner=HOSTILE)


def many_replay(versions: int = 500, cells: int = 10, *, bad: int = 7) -> Replay:
    """Return a replay of very many versions, some of which are not reproduced."""
    statuses: Sequence[ReplayStatus] = ("different", "failed", "close")
    samples: dict[str, Sample] = {}
    ends: dict[str, str] = {}
    for at in range(versions):
        shared = (at * 7) % cells
        before = ""
        for number in range(cells):
            name = f"{at // 25 if number < shared else at}-{number}" if number else "start"
            if name not in samples or number >= shared:
                is_bad = number == cells - 1 and at % bad == 0
                samples[name] = Sample(
                    after=before,
                    source=f"x{number} = step({number}, alpha={at / 100})\nprint(x{number})",
                    recorded=(printed(f"{at * number}\n" * 20),),
                    replayed=(printed(f"{at * number + is_bad}\n" * 20),),
                    status=statuses[at // bad % 3] if is_bad else "same",
                    reasons=("the text differs in line 1",) if is_bad else (),
                    differences=(differing("the text differs in line 1"),) if is_bad else (),
                )
            before = name
        ends[f"version-{at:03}"] = before
    return build(samples, ends, title="many")
