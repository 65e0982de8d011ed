"""What is said of a replay, however it is shown."""

from __future__ import annotations

from dataclasses import replace

from chexpoint.view.replay_facts import (
    VersionResult,
    head_line,
    reached_cells,
    saved_cells,
    sentences,
    tally,
    verdict,
    version_results,
    work,
)
from tests.support.replay_outputs import MISSING, differing
from tests.support.replays import (
    Sample,
    build,
    good_replay,
    interrupted_replay,
    node_of,
    sample_replay,
)


def result_of(results: tuple[VersionResult, ...], label: str) -> VersionResult:
    (found,) = (result for result in results if result.label == label)
    return found


def test_a_version_has_the_status_and_the_reason_of_its_worst_cell() -> None:
    results = version_results(sample_replay())
    deeper, scaled = result_of(results, "deeper"), result_of(results, "scaled")
    assert (deeper.status, deeper.why) == ("different", "cell 4: stdout differs in lines 1 and 2")
    assert (scaled.status, scaled.why) == ("failed", "cell 3: KeyError: 'flipper_length'")
    assert result_of(results, "base").why == ""


def test_an_excused_cell_is_not_the_reason() -> None:
    samples = {
        "a": Sample(source="a", status="different", reasons=("excused",), is_excused=True),
        "b": Sample(source="b", after="a", status="different", reasons=("not excused",)),
    }
    (result,) = version_results(build(samples, {"v": "b"}))
    assert result.why == "cell 2: not excused"


def test_what_is_not_done_is_not_good_and_what_is_left_out_is_called_so() -> None:
    results = version_results(interrupted_replay())
    deeper, scaled = result_of(results, "deeper"), result_of(results, "scaled")
    assert (deeper.word, deeper.status, deeper.is_good) == ("not done", None, False)
    assert (scaled.word, scaled.place) == ("left out", 3)
    assert verdict(results) == "4 of 6 versions reproduced"


def test_words_are_counted_from_good_to_bad() -> None:
    assert tally(["failed", "same", "left out", "same", "not done"]) == (
        "2 same, 1 failed, 1 not done, 1 left out"
    )
    assert tally([]) == ""


def test_what_was_not_run_is_not_called_saved() -> None:
    replay = sample_replay()
    assert replay.cells_in_versions == 29
    assert reached_cells(replay) == 28
    assert saved_cells(replay) == 28 - replay.computed_cells
    assert saved_cells(replace(replay, computed_cells=50)) == 0


def test_a_saving_is_claimed_only_if_there_is_one() -> None:
    replay = good_replay()
    assert work(replay) == "computed 8 cells instead of 20: 19.8 s instead of 49.8 s"
    slow = replace(replay, seconds=100.0, computed_cells=24)
    assert work(slow) == "computed 24 cells: 100.0 s"


def test_a_cell_is_called_by_its_first_line_that_does_something() -> None:
    assert head_line("# %%\n# a comment\n  x = 1\ny = 2") == "x = 1"
    assert head_line("# only a comment\n#") == "# only a comment"
    assert head_line("%%time\nx = 1") == "%%time"
    assert head_line("") == ""


def test_sentences_are_said_once_and_an_exception_stands_in_for_them() -> None:
    samples = {
        "a": Sample(source="a", reasons=("x", "x"), differences=(differing("x"), differing("y"))),
        "b": Sample(source="b", after="a", status="failed", error=MISSING),
    }
    replay = build(samples, {"v": "b"})
    assert sentences(replay.cells[node_of("a")]) == ("x", "y")
    assert sentences(replay.cells[node_of("b")]) == ("KeyError: 'flipper_length'",)
