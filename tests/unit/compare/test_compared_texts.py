"""Texts are the same, close or different, as a person would say."""

from __future__ import annotations

from typing import Literal

import pytest

from chexpoint.compare.texts import LARGEST_TEXT, compare_texts
from chexpoint.compare.tolerance import Tolerance

# Everything in pairs: what was recorded, and what the replay shows.
CLOSE = {
    "an address": ("<object at 0x7fd555fa4c30>", "<object at 0x7f8b1c0d5e50>"),
    "a short address": ("<Foo at 0x1f3a2b0>", "<Foo at 0x2e>"),
    "an address without at": ("ptr=0x7fd555fa4c30", "ptr=0x7f8b1c0d5e50"),
    "an id of an object": ("id 140554331155504", "id 139874331155000"),
    "a uuid": (
        "UUID('9e63b13d-b332-42a9-a2c1-4812f27cec32')",
        "UUID('0e63b13d-b332-42a9-a2c1-4812f27cec30')",
    ),
    "a temporary folder": ("'/tmp/tmpce9vo1f8'", "'/tmp/tmp1e0_zzq8'"),
    "a file in one": ("wrote /tmp/tmpce9vo1f8/a.csv", "wrote /tmp/tmp1e0_zzq8/a.csv"),
    "a warning of a cell": (
        "/tmp/ipykernel_3041/2754.py:1: UserWarning: hm\n  warnings.warn('hm')",
        "/tmp/ipykernel_99/2754.py:1: UserWarning: hm\n  warnings.warn('hm')",
    ),
    "a warning of an IPython cell": (
        "<ipython-input-1-475bece68099>:1: UserWarning: hm",
        "<ipython-input-7-475bece68099>:1: UserWarning: hm",
    ),
    "a warning of a package": (
        "/home/ann/venv/lib/python3.11/site-packages/sklearn/base.py:12: FutureWarning: x",
        "/opt/python/lib/python3.12/site-packages/sklearn/base.py:12: FutureWarning: x",
    ),
    "a process": ("Worker pid=3041 is up", "Worker pid=99 is up"),
    "an ISO time": ("started 2026-11-17T10:32:21.260857Z", "started 2026-11-18T09:00:00.1Z"),
    "a time with a zone": ("2026-11-17 10:32:21+01:00", "2026-12-17 10:32:21+02:00"),
    "a line of a log": (
        "2026-11-17 10:32:21,260 INFO loss 0.25",
        "2026-11-18 09:01:05,001 INFO loss 0.25",
    ),
    "a datetime": (
        "datetime.datetime(2026, 11, 17, 10, 32, 21, 260857)",
        "datetime.datetime(2026, 11, 18, 9, 0)",
    ),
    "a date": ("today is 2026-11-17", "today is 2027-01-02"),
    "an American date": ("11/17/2026", "12/01/2026"),
    "a date in words": ("Tue Nov 17 10:32:21 2026", "Wed Nov 18 09:01:05 2026"),
    "the command date": ("Tue Nov 17 10:53:08 UTC 2026", "Wed Nov 18 09:01:05 AM CET 2026"),
    "a long date": ("November 17, 2026", "January 2, 2027"),
    "a name with a time": ("run_20261117_103221.csv", "run_20261118_090105.csv"),
    "a time of day": ("[10:32:21] epoch 1 done", "[09:01:05] epoch 1 done"),
    "a timedelta": ("0:00:01.234567", "0:00:02.5"),
    "seconds": ("it took 1.23 s", "it took 14.5 s"),
    "milliseconds": ("done in 12ms", "done in 9.5ms"),
    "minutes and seconds": ("done in 1min 3s", "done in 2min 14s"),
    "minutes and seconds, short": ("done in 1m3s", "done in 12m14s"),
    "seconds in words": ("12.5 seconds", "3.25 seconds"),
    "tiny seconds": ("1.2e-05 s", "3.4e-06 s"),
    "an elapsed time": ("elapsed: 3.21", "elapsed: 0.5"),
    "a training time": ("Training time = 12.3", "Training time = 8"),
    "timeit": (
        "370 ns ± 127 ns per loop (mean ± std. dev. of 7 runs, 1,000,000 loops each)",
        "1.2 µs ± 3 ns per loop (mean ± std. dev. of 7 runs, 100,000 loops each)",
    ),
    "timeit that was disturbed": (
        (
            "The slowest run took 5.71 times longer than the fastest. This could mean that an"
            " intermediate result is being cached.\n"
            "370 ns ± 127 ns per loop (mean ± std. dev. of 2 runs, 10 loops each)"
        ),
        "361 ns ± 2 ns per loop (mean ± std. dev. of 2 runs, 10 loops each)",
    ),
    "time": (
        "CPU times: user 1.93 ms, sys: 0 ns, total: 1.93 ms\nWall time: 2.65 ms\n",
        "CPU times: user 4 us, sys: 1e+03 ns, total: 5 us\nCompiler : 0.2 s\nWall time: 7.15 us\n",
    ),
    "a bar of tqdm": (
        "\r  0%|          | 0/3 [00:00<?, ?it/s]\r100%|##########| 3/3 [00:00<00:00, 81.2it/s]\n",
        (
            "\r  0%|          | 0/3 [00:00<?, ?it/s]\r 33%|###3      | 1/3 [00:01<00:02,  1.02s/it]"
            "\r100%|##########| 3/3 [00:03<00:00,  1.04s/it]\n"
        ),
    ),
    "a bar without an end": ("10it [00:01,  9.5it/s]", "10it [00:00, 95.1it/s]"),
    "a download": (
        "data: 100% 5.0M/5.0M [00:01<00:00, 4.2MB/s]",
        "data: 100% 5.0M/5.0M [00:11<00:00, 420kB/s]",
    ),
    "a bar of Keras": (
        (
            "\x1b[1m1/2\x1b[0m ━━ \x1b[1m3s\x1b[0m 3s/step - loss: 0.5"
            "\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b\b"
            "\r\x1b[1m2/2\x1b[0m ━━ \x1b[1m4s\x1b[0m 2ms/step - loss: 0.4"
        ),
        "\r\x1b[1m2/2\x1b[0m ━━ \x1b[1m1s\x1b[0m 9ms/step - loss: 0.4",
    ),
    "a rate": ("read at 12.3 MB/s, 950 samples/sec", "read at 9 MB/s, 1024 samples/sec"),
    "colors": ("\x1b[31mred\x1b[39m", "red"),
    "the end of a text": ("a\n", "a"),
    "spaces at the end": ("a  \nb", "a\nb"),
    "ends of lines": ("a\r\nb\r\n", "a\nb\n"),
    "a float": ("loss 0.123456789", "loss 0.123456790"),
    "a float in another notation": ("lr 0.001", "lr 1e-3"),
    "a float that is whole": ("x = 2.0", "x = 2"),
    "zero but for rounding": ("5.551115123125783e-17", "0.0"),
    "the sign of zero": ("-0.0", "0.0"),
    "an array": (
        "array([0.        , 0.33333333, 0.66666667])",
        "array([1.0e-17, 0.3333333, 0.66666667])",
    ),
    "a complex number": ("(1.5+2j)", "(1.5000000001+1.9999999999j)"),
    "an imaginary rest": ("(1+1e-17j)", "(1-3e-18j)"),
    "thousands": ("1,234,567.891", "1,234,567.892"),
    "a number and a time": ("loss 0.25 after 3.1 s", "loss 0.2500000001 after 2 s"),
    "columns of a printed frame": (
        "          a    b\n0  0.333333  1.0\n1  1.000000  2.0",
        "     a    b\n0  0.3333333  1.0\n1       1  2.0",
    ),
    "negative numbers": ("-1.5 +2.5", "-1.5000001 +2.5000001"),
}
DIFFERENT = {
    "a word": ("done", "failed"),
    "a whole number": ("10 rows", "11 rows"),
    "a large whole number": ("total 100000000", "total 100000001"),
    "a digit": ("loss 0.25", "loss 0.26"),
    "a small digit": ("loss 0.1234", "loss 0.1235"),
    "a sign": ("-0.5", "0.5"),
    "nan": ("loss nan", "loss 0.5"),
    "an exponent": ("1e-3", "1e-4"),
    "the imaginary part": ("(1+2j)", "(1+3j)"),
    "imaginary or not": ("2.5j", "2.5"),
    "a version": ("numpy 1.26.4", "numpy 1.26.5"),
    "an address on the net": ("10.0.0.1", "10.0.0.2"),
    "a name with a digit": ("x1", "x2"),
    "a digest": ("d41d8cd98f00b204e9800998ecf8427e", "e41d8cd98f00b204e9800998ecf8427e"),
    "a hexadecimal result": ("0xdeadbeef", "0xdeadbeee"),
    "a date of long ago": ("2019-03-04", "2019-03-05"),
    "a speed": ("12.5 m/s", "12.6 m/s"),
    "least and most": ("max 4.0 min 2.0", "max 4.5 min 2.0"),
    "steps taken": ("took 5 steps", "took 6 steps"),
    "a slice": ("x[10:20]", "x[10:30]"),
    "a ratio": ("16:10", "16:9"),
    "a line that is missing": ("a\nb\nc", "a\nb"),
    "a line that is new": ("a\nb", "a\nb\nc"),
    "the order of lines": ("a\nb", "b\na"),
    "the number of numbers": ("[1.0, 2.0]", "[1.0, 2.0, 3.0]"),
    "where a bar ends": (
        "\r100%|##########| 3/3 [00:00<00:00, 81.2it/s]\n",
        "\r 67%|######6   | 2/3 [00:00<00:00, 81.2it/s]\n",
    ),
    "what a bar says": (
        "\r100%|##########| 3/3 [00:00<00:00, 81.2it/s, loss=0.5]\n",
        "\r100%|##########| 3/3 [00:00<00:00, 80.2it/s, loss=0.6]\n",
    ),
    "what is printed besides a time": ("loss 0.25 after 3.1 s", "loss 0.35 after 3.1 s"),
    "a file in a temporary folder": ("/tmp/tmpce9vo1f8/a.csv", "/tmp/tmpce9vo1f8/b.csv"),
    "an absolute path": ("/data/one/a.csv", "/data/two/a.csv"),
}


@pytest.mark.parametrize("case", CLOSE)
def test_what_does_not_matter_is_close(case: str) -> None:
    recorded, replayed = CLOSE[case]
    assert compare_texts(recorded, replayed, Tolerance()).status == "close"
    assert compare_texts(replayed, recorded, Tolerance()).status == "close"


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_matters_is_different(case: str) -> None:
    recorded, replayed = DIFFERENT[case]
    assert compare_texts(recorded, replayed, Tolerance()).status == "different"
    assert compare_texts(replayed, recorded, Tolerance()).status == "different"


@pytest.mark.parametrize("text", [text for pair in CLOSE.values() for text in pair])
def test_what_is_equal_is_the_same(text: str) -> None:
    assert compare_texts(text, text, Tolerance()) == ("same", "")


@pytest.mark.parametrize(
    ("recorded", "replayed", "what"),
    [
        ("a\nloss 0.5\nb", "a\nloss 0.6\nb", "differs in line 2: 'loss 0.5' -> 'loss 0.6'"),
        ("a\nb", "a", "ends before line 2: 'b'"),
        ("a", "a\nb", "goes on with line 2: 'b'"),
        ("x 0.1", "x 0.1000000001", "has close numbers, first in line 1: 'x 0.1' -> "),
        ("1 s", "2 s", "differs only in volatile parts, first in line 1: '1 s' -> '2 s'"),
        ("0.1 1 s", "0.10000000001 2 s", "has close numbers and volatile parts, first in"),
        ("a  b", "a b", "differs only in white space, first in line 1"),
        ("\x1b[1ma\x1b[0m", "a", "looks the same in the end"),
        ("x" * 999 + "a", "x" * 999 + "b", f"line 1: '…{'x' * 20}a' -> '…{'x' * 20}b'"),
        ("a" + "x" * 999, "b" + "x" * 999, f"line 1: 'a{'x' * 59}…' -> 'b{'x' * 59}…'"),
        ("\ud800\x00", "b", "line 1: '��' -> 'b'"),
    ],
)
def test_a_sentence_says_what_was_found(recorded: str, replayed: str, what: str) -> None:
    assert what in compare_texts(recorded, replayed, Tolerance()).what


@pytest.mark.parametrize(
    ("drawn", "seen"),
    [
        ("abc\rx", "xbc"),
        ("abc\r\x1b[Kx", "x"),
        ("abc\b\bx", "axc"),
        ("a\nb\x1b[Ax", "ax\nb"),
        ("a\nb\x1b[1A\r\x1b[2Kx", "x\nb"),
        ("abc\x1b[1K", ""),
        ("a\n\x1b[9999999999Ab", "b"),
        ("\x1b]8;;file:///x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[?25labc\x1b[?25h", "abc"),
        ("abc\r\n\n\n", "abc"),
    ],
)
def test_what_is_drawn_counts_as_it_looks(drawn: str, seen: str) -> None:
    assert compare_texts(drawn, seen, Tolerance()).what == "looks the same in the end"


def test_bars_within_bars_count_as_they_look() -> None:
    outer = "100%|##########| 2/2 [00:00<00:00, 99.1it/s]"
    inner = "\n\r  0%|          | 0/2 [00:00<?, ?it/s]\x1b[A"
    gone = "\n\r                                     \x1b[A"
    twice = f"\r  0%|          | 0/2 [00:00<?, ?it/s]{inner}{gone}{inner}{gone}\r{outer}\n"
    assert compare_texts(twice, f"\r{outer}\n", Tolerance()).what == "looks the same in the end"


@pytest.mark.parametrize(
    ("folders", "status"), [(("/home/ann/p", "/run/x"), "close"), ((), "different")]
)
def test_folders_that_stand_for_the_project_are_the_same(
    folders: tuple[str, ...], status: Literal["close", "different"]
) -> None:
    tolerance = Tolerance(folders=folders)
    recorded, replayed = "read /home/ann/p/data.csv", "read /run/x/data.csv"
    assert compare_texts(recorded, replayed, tolerance).status == status


def test_a_folder_of_a_similar_name_is_another() -> None:
    tolerance = Tolerance(folders=("/home/ann/p", "/run/x"))
    assert compare_texts("/home/ann/p2/a", "/run/x2/a", tolerance).status == "different"
    assert compare_texts("/home/ann/p", "/run/x/", tolerance).status == "different"


def test_a_text_that_is_very_long_is_the_same_or_different() -> None:
    text = "took 1 s\n" * (LARGEST_TEXT // 9)
    assert compare_texts(text, text, Tolerance()).status == "same"
    found = compare_texts(text, text + "x" * 9, Tolerance())
    assert found == ("different", "differs, and is too long (16.0 MB) to be compared by line")


def test_only_lines_that_differ_take_effort() -> None:
    text = "took 1 s\n" * 200_000
    assert compare_texts(text + "1 s", text + "2 s", Tolerance()).status == "close"


def test_more_than_can_be_compared_is_different() -> None:
    recorded, replayed = "1 s " * (5 << 18), "2 s " * (5 << 18)
    found = compare_texts(recorded, replayed, Tolerance())
    assert found == ("different", "differs, in more than can be compared in detail")


@pytest.mark.slow
@pytest.mark.timeout(60)  # is reached if time is quadratic: each of these would take minutes
@pytest.mark.parametrize(
    "piece", ["111,", "1m ", "/a", "b\b", "a\r", "[00:00<", "deadbeef-", "2026-", "\x1b]", "\x1b["]
)
def test_no_text_takes_quadratic_time(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    assert compare_texts(f"{text}.mx", f"{text}.my", Tolerance()).status == "different"
