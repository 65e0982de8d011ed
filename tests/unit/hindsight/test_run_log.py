"""What is written of a run comes back, whenever its processes were killed."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.errors import ChexError
from chexpoint.hindsight.run_log import (
    RunLog,
    list_runs,
    read_run,
)
from chexpoint.model import LoggedValue, LoopCheckpoint, LoopRun, LoopSite

SITES = (
    LoopSite(site=0, line=1, kind="for", label="epoch", names=("model",), estimate=("model",)),
    LoopSite(site=1, line=2, kind="while", label="step", within=0, no_estimate="calls train()"),
)
EVENTS: tuple[dict[str, Any], ...] = (
    {"e": "loop", "n": 0, "site": 0, "k": 2, "can_jump": True, "why_not": ""},
    {"e": "iter", "n": 0, "i": 0, "t": 1.0, "ck": None},
    {"e": "log", "n": 0, "at": [0, 1], "labels": [["epoch", 0]], "line": 3, "via": "print",
     "name": "print", "value": {"float": "nan"}},
    {"e": "block", "n": 0, "i": 0, "b": 0, "site": 1, "s": 0.75, "ck": {"model": "loop.r.0"}},
    {"e": "digest", "image": "loop.r.0", "leaf": "history", "digest": "canonical"},
    {"e": "iter", "n": 0, "i": 1, "t": 2.5, "ck": {"model": "loop.r.0", "opt": "loop.r.1"}},
    {"e": "block", "n": 0, "i": 1, "b": 0, "site": 1, "s": 0.5, "ck": {"model": "loop.r.2"}},
    {"e": "log", "n": 0, "at": [1], "labels": [], "line": 5, "via": "log", "name": "loss",
     "value": 0.1},
    {"e": "refused", "site": 1, "why": "a generator"},
    {"e": "end", "n": 0, "i": 2, "how": "break", "t": 4.5, "ck": {"model": "loop.r.1"}},
)  # fmt: skip
SAVED: tuple[dict[str, Any], ...] = (
    {"image": "loop.r.0", "digests": {"model": "aa", "history": "pickled"}, "stored_bytes": 10},
    {"image": "loop.r.1", "digests": {"model": "bb", "opt": "cc"}, "stored_bytes": 5},
    {"image": "loop.r.2", "failed": "no room"},
)


def lines(rows: tuple[dict[str, Any], ...]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(folder: Path, run: str = "r") -> Path:
    """Make the folder of a run, with everything in it."""
    log = RunLog.create(folder, run, source="for epoch in ...", sites=SITES, facts={"threads": 2})
    for event in EVENTS:
        log.event(**event)
    log.close()
    (folder / run / "saved.jsonl").write_bytes(lines(SAVED))
    return folder / run


def test_run_comes_back(tmp_path: Path) -> None:
    run = read_run(write(tmp_path))
    assert run.sites == SITES
    assert (run.run, run.source, run.facts) == ("r", "for epoch in ...", {"threads": 2})
    assert (run.seconds, run.stored_bytes, run.refused) == (4.5, 15, {1: "a generator"})
    (loop,) = run.loops
    assert (loop.site, loop.ordinal, loop.how, loop.can_jump) == (0, 2, "break", True)
    assert [each.seconds for each in loop.iterations] == [1.5, 2.0]
    assert loop.end == LoopCheckpoint(leaves={"model": "loop.r.1"}, at=(2,))
    assert run.values[1] == LoggedValue(loop=0, at=(1,), line=5, name="loss", value=0.1)
    assert math.isnan(run.values[0].value)
    assert run.values[0].labels == (("epoch", 0),)


def test_checkpoint_counts_if_all_its_images_are_saved(tmp_path: Path) -> None:
    path = write(tmp_path)
    first, second = read_run(path).loops[0].iterations
    assert first.blocks[0].checkpoint == LoopCheckpoint(leaves={"model": "loop.r.0"}, at=(0, 0))
    assert second.start is not None
    assert second.blocks[0].checkpoint is None
    (path / "saved.jsonl").write_bytes(lines(SAVED[:1]))
    assert read_run(path).loops[0].iterations[1].start is None
    (path / "saved.jsonl").unlink()
    assert read_run(path).loops[0].iterations[0].blocks[0].checkpoint is None


def test_digest_of_the_program_comes_before_that_of_the_bytes(tmp_path: Path) -> None:
    assert read_run(write(tmp_path)).digests == {
        "loop.r.0": {"model": "aa", "history": "canonical"},
        "loop.r.1": {"model": "bb", "opt": "cc"},
    }


def test_loop_that_was_found_not_to_be_jumpable(tmp_path: Path) -> None:
    path = write(tmp_path)
    with open(path / "events.jsonl", "ab") as file:
        file.write(lines(({"e": "can_jump", "n": 0, "why_not": "a socket"},)))
    (loop,) = read_run(path).loops
    assert (loop.can_jump, loop.why_not) == (False, "a socket")


def test_loop_that_never_ended(tmp_path: Path) -> None:
    path = write(tmp_path)
    (path / "events.jsonl").write_bytes(lines(EVENTS[:7]))
    (loop,) = read_run(path).loops
    assert (loop.how, loop.end) == ("", None)
    assert [each.seconds for each in loop.iterations] == [1.5, 0.5]


def test_every_torn_end_is_read(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = (path / "events.jsonl").read_bytes()
    counts = []
    for size in range(len(whole) + 1):
        (path / "events.jsonl").write_bytes(whole[:size])
        run = read_run(path)
        counts.append(len(run.values))
    assert counts == sorted(counts)
    assert counts[-1] == 2


@given(st.lists(st.sampled_from(EVENTS) | st.dictionaries(
    st.sampled_from(["e", "n", "i", "b", "t", "s", "ck", "at", "site", "labels", "value"]),
    st.sampled_from([r["e"] for r in EVENTS])
    | st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers())
    | st.dictionaries(st.text(max_size=2), st.integers() | st.text(max_size=2)),
)), st.binary(max_size=40))  # fmt: skip
def test_damaged_events_are_left_out(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], garbage: bytes
) -> None:
    path = write(tmp_path_factory.mktemp("runs"))
    (path / "events.jsonl").write_bytes(lines(tuple(events)) + garbage)
    (path / "saved.jsonl").write_bytes(lines(SAVED) + garbage)
    run = read_run(path)
    assert isinstance(run, LoopRun)
    assert len(run.values) <= len(events)


@pytest.mark.parametrize("head", [b"", b"{", b"[]", b"{}", b'{"source": 1}', b"\xff" * 9])
def test_damaged_head_is_said_in_one_line(tmp_path: Path, head: bytes) -> None:
    path = write(tmp_path)
    (path / "run.json").write_bytes(head)
    with pytest.raises(ChexError, match="record of run 'r' is damaged") as caught:
        read_run(path)
    assert "\n" not in str(caught.value)
    assert list_runs(tmp_path) == ()


def test_unknown_and_newer_runs(tmp_path: Path) -> None:
    with pytest.raises(ChexError, match="no run 'x' is recorded"):
        read_run(tmp_path / "x")
    path = write(tmp_path)
    head = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**head, "format": 2}))
    with pytest.raises(ChexError, match="newer CHEX"):
        read_run(path)


def test_fields_of_sites_that_are_not_known_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path)
    head = json.loads((path / "run.json").read_text())
    head["sites"][0]["later"] = 1
    (path / "run.json").write_text(json.dumps(head))
    assert read_run(path).sites == SITES


def test_runs_are_listed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path, name)
        head = json.loads((tmp_path / name / "run.json").read_text())
        (tmp_path / name / "run.json").write_text(json.dumps({**head, "time": ord(name)}))
    (tmp_path / "d").mkdir()
    assert [head.run for head in list_runs(tmp_path)] == ["c", "b", "a"]
    assert list_runs(tmp_path / "nowhere") == ()


def test_run_is_private(tmp_path: Path) -> None:
    path = write(tmp_path / "loops")
    for each in (tmp_path / "loops", path, path / "run.json", path / "events.jsonl"):
        assert stat.S_IMODE(each.stat().st_mode) & 0o077 == 0


def test_odd_values_are_written(tmp_path: Path) -> None:
    log = RunLog.create(tmp_path, "r", source="", sites=())
    log.event(e="loop", n=0, site=0)
    for value in (math.inf, object(), {1: {2}}, "\ud800", float("nan")):
        log.event(e="log", n=0, at=[0], labels=[("x", value)], value=value)
    log.close()
    assert not log.problem
    values = [each.value for each in read_run(tmp_path / "r").values]
    assert values[0] == math.inf
    assert values[1].startswith("<object object")
    assert values[3] == "\ud800"
    assert len(values) == 5


def test_events_are_written_in_whole_lines(tmp_path: Path) -> None:
    log = RunLog.create(tmp_path, "r", source="", sites=())
    log.event(e="loop", n=0, site=0)
    for number in range(5000):
        log.event(e="log", n=0, at=[number], labels=[], value="x" * 100)
    written = (tmp_path / "r" / "events.jsonl").read_bytes()
    assert written.endswith(b"\n")
    log.flush()
    log.close()
    log.event(e="log", n=0, at=[0], value=1)
    log.close()
    assert [each.at[0] for each in read_run(tmp_path / "r").values] == list(range(5000))


def test_forked_process_writes_nothing_of_its_parent(tmp_path: Path) -> None:
    log = RunLog.create(tmp_path, "r", source="", sites=())
    log.event(e="loop", n=0, site=0)
    log.event(e="log", n=0, at=[0], value=1)
    if not (child := os.fork()):
        log.close()
        os._exit(0)
    os.waitpid(child, 0)
    log.close()
    assert len(read_run(tmp_path / "r").values) == 1


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from chexpoint.hindsight.run_log import RunLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = RunLog.create(Path(sys.argv[1]), "r", source="", sites=())
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
log.event(e="loop", n=0, site=0)
for i in range(100):
    log.event(e="log", n=0, at=[i], value=i)
    log.flush()
log.close()
assert "cannot be written" in log.problem, log.problem
"""


def test_full_disk_stops_the_record_and_not_the_program(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FULL_DISK, tmp_path], check=True, timeout=60)
    values = read_run(tmp_path / "r").values
    assert [each.value for each in values] == list(range(len(values)))
    assert len(values) > 3
