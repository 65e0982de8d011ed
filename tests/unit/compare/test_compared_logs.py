"""What the record logged must be what the replay logs."""

from __future__ import annotations

import pytest

from chexpoint.compare.logs import missing_from_log
from chexpoint.compare.tolerance import Tolerance
from chexpoint.model import Output


def out(text: str, name: str = "stdout") -> Output:
    return {"output_type": "stream", "name": name, "text": text}


def missing(recorded: list[Output], replayed: list[Output]) -> str | None:
    return missing_from_log(recorded, replayed, Tolerance())


EPOCHS = "epoch 1 loss 0.5 (1.2 s)\nepoch 2 loss 0.25 (1.3 s)\nepoch 3 loss 0.125 (1.1 s)\n"


@pytest.mark.parametrize(
    "replayed",
    [
        EPOCHS,
        EPOCHS.replace("1.2 s", "2.4 s"),
        EPOCHS.replace("0.25", "0.2500000001"),
        EPOCHS.replace("epoch", "gradient 7.5\nepoch"),
        "before\n" + EPOCHS + "after\n",
        EPOCHS + EPOCHS,
        "epoch 1 loss 0.5\n" + EPOCHS,
        "\n" + EPOCHS.replace("\n", "\n\n"),
    ],
)
def test_a_replay_may_log_more(replayed: str) -> None:
    assert missing([out(EPOCHS)], [out(replayed)]) is None


@pytest.mark.parametrize(
    ("replayed", "line"),
    [
        (
            EPOCHS.replace("0.25 ", "0.26 "),
            "line 2 of stdout any more: 'epoch 2 loss 0.25 (1.3 s)'",
        ),
        ("", "line 1 of stdout any more: 'epoch 1"),
        ("".join(EPOCHS.splitlines(keepends=True)[::-1]), "line 2 of stdout any more: 'epoch 2"),
        (EPOCHS.replace("epoch 3", "epoch 4"), "line 3 of stdout any more: 'epoch 3"),
    ],
)
def test_the_first_line_that_is_missing_is_named(replayed: str, line: str) -> None:
    found = missing([out(EPOCHS)], [out(replayed)])
    assert found is not None
    assert found.startswith(f"the replay does not log {line}")


def test_a_line_counts_as_often_as_it_was_logged() -> None:
    assert missing([out("a\na\n")], [out("a\n")]) is not None
    assert missing([out("a\na\n")], [out("a\nb\na\n")]) is None


def test_streams_are_logs_of_their_own() -> None:
    recorded = [out("a\n"), out("x\n", "stderr"), out("b\n")]
    assert missing(recorded, [out("x\n", "stderr"), out("a\nb\n")]) is None
    assert missing(recorded, [out("a\nx\nb\n")]) == (
        "the replay does not log line 1 of stderr any more: 'x'"
    )


def test_what_is_shown_between_lines_does_not_count() -> None:
    shown: Output = {"output_type": "display_data", "data": {"text/plain": "1"}}
    assert missing([out("a\n"), shown, out("b\n")], [shown, out("a\nb\n")]) is None


def test_what_chex_itself_logs_does_not_count() -> None:
    assert missing([out("CHEX: recording version a\na\n")], [out("a\n")]) is None


def test_bars_count_as_they_look_in_the_end() -> None:
    recorded = (
        "\r 50%|#####     | 1/2 [00:00<00:00, 9it/s]\r100%|##########| 2/2 [00:00<00:00, 8it/s]"
    )
    replayed = "\r100%|##########| 2/2 [00:05<00:00, 1it/s]\nmore\n"
    assert missing([out(recorded, "stderr")], [out(replayed, "stderr")]) is None


def test_odd_outputs_log_nothing() -> None:
    odd: list[Output] = [{}, {"output_type": "stream", "name": [], "text": "x"}, out("a\n")]
    assert missing(odd, [out("a\n")]) is None
    assert missing([], odd) is None
