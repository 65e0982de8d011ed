"""``chex bench`` finds figures in what benchmarks print, judges them, and tells what it cannot."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chexpoint.cli import main
from chexpoint.cli.bench_claims import (
    BENCHMARKS,
    CLAIMS,
    NEEDS,
    Bar,
    Benchmark,
    Claim,
    mean,
    numbers_at,
)
from chexpoint.cli.bench_run import command_of, lacks, run, source_tree
from chexpoint.cli.bench_table import (
    HEADINGS,
    Outcome,
    Row,
    cells_of,
    complaint_in,
    exit_code,
    judge,
    judged,
    markdown_lines,
    notes,
    rows_json,
    seconds_left,
    shown_bar,
    shown_number,
    text_lines,
)

# Of what the benchmarks print, what is looked at, beside some of what is not.
PRINTED: dict[str, Any] = {
    "replay": {
        "bundled": {
            "studies": {
                "digits": {"over_version_by_version": 0.2, "over_bound": 1.1, "notes": []},
                "relief": {"over_version_by_version": 0.4, "over_bound": 1.2, "notes": []},
            },
            "is_met": True,
        }
    },
    "planner": {"quality": {"cost_over_optimum": {"pc": {"mean": 1.05}, "pc-move": {"mean": 1.0}}}},
    "engine": {
        "large_state": {"checkpoint": {"median_ms": 11.5}, "restore": {"median_ms": 9.0}},
        "start_up": {"ratio": 1.1},
    },
    "lineage": {"notebooks": {"audited": 4.1, "plain": 4.0, "ratio": 1.025, "bar": 1.05}},
    "store": {
        "ratio": {"lineages": {"race": {"ratio": {"tree-64": 178.0, "ours-256": 1084.0}}}},
        "speed": {
            "bars": [
                {"what": "hash and compare at 128 B, of a copy", "value": 1.7},
                {"what": "race: end to end, of a copy", "value": 0.78, "met": True},
            ]
        },
        "missed": [],
    },
    "gpu": {"device": "A100", "methods": {"tree": {"64": {"gb_per_s": 334.0}}}},
    "kishu": {
        "notebooks": {
            "in_place": {
                "kishu": {"back_to_back_wait_s": 1.2, "back_s": 1.6},
                "chex": {"back_to_back_wait_s": 0.06, "back_s": 0.8},
            }
        }
    },
    "hindsight": {
        "training": {
            "cnn": {
                "record": {"over_plain": {"least": 1.01}},
                "outer": {"of_retraining": 0.04},
                "inner": {"of_retraining": 0.58},
            }
        }
    },
    "thread": {
        "threads_1": {
            "designs": {"staging": {"cost_ms": 60.0}, "dcp": {"cost_ms": 135.0}},
            "ratio": {"torch_save": 0.075, "dcp": 0.44},
        }
    },
    "helix": {"workloads": {"helix_over_cut": 100.0}},
    "repeated": {
        "repeated": {
            "of": {
                "w1": {"none": {"cells_s": 8.0}, "elsewhere": {"cells_s": 1.0}},
                "w2": {"none": {"cells_s": 9.0}, "elsewhere": {"cells_s": 0.5}},
            }
        }
    },
    "sequence": {
        "sequence": {"least": {"none": {"version_s": 100.0}, "reuse": {"version_s": 92.0}}}
    },
    "cluster": {"many": {"overhead_s_a_version": 0.0044, "is_met": True}},
}


def outcomes() -> dict[str, Outcome]:
    """Return what comes of all benchmarks."""
    return {name: Outcome(state="done", found=found) for name, found in PRINTED.items()}


def claim(**changed: Any) -> Claim:
    """Return a claim about ``x`` that nobody made."""
    made = Claim(
        benchmark="planner",
        system="a paper",
        what="x",
        ours=mean("x"),
        unit="",
        published=2.0,
        bar=Bar(limit=3.0, sense="most"),
    )
    return replace(made, **changed)


def row(x: float, **changed: Any) -> Row:
    """Return the judgement of it."""
    return judge(claim(**changed), Outcome(state="done", found={"x": x}))


# ---------------------------------------------------------------- finding


def test_every_claim_finds_its_figures() -> None:
    found = judged(outcomes())
    assert [each.claim for each in found] == list(CLAIMS)
    assert {each.state for each in found} == {"done"}
    ours = [round(each.ours or 0.0, 4) for each in found]
    assert ours == [
        *(0.3, 1.15, 1.0, 11.5, 0.025, 1084.0, 0.78, 334.0, 60.0, 800.0),
        *(0.01, 25.0, 0.58, 0.075, 60.0, 100.0, 8.0, 0.92, 4.4),
    ]
    missed = [each.claim.benchmark for each in found if each.is_met is False]
    assert missed == ["repeated", "sequence"]


def test_every_benchmark_has_a_claim_and_a_script() -> None:
    names = [benchmark.name for benchmark in BENCHMARKS]
    assert sorted(set(names)) == sorted(names)
    assert {each.benchmark for each in CLAIMS} == set(names)
    for benchmark in BENCHMARKS:
        assert (source_tree() / "tests" / "bench" / benchmark.script).is_file()
        assert set(benchmark.needs) <= set(NEEDS)


def test_a_path_leads_through_all_keys_and_through_bars() -> None:
    found = {"a": {"one": {"b": 1}, "two": {"b": 2.5}}, "bars": [{"what": "c d", "value": 3}]}
    assert numbers_at(found, "a.*.b") == [1.0, 2.5]
    assert numbers_at(found, "bars.c d.value") == [3.0]


@pytest.mark.parametrize("path", ["b", "a.b.c", "a.*.c", "null", "text", "yes", "empty.*", "a.x"])
def test_what_is_no_number_is_not_taken_for_one(path: str) -> None:
    found = {"a": {"b": 1}, "null": None, "text": "1", "yes": True, "empty": {}}
    with pytest.raises(LookupError):
        numbers_at(found, path)


# ---------------------------------------------------------------- judging


@pytest.mark.parametrize(
    ("bar", "x", "is_met"),
    [
        (Bar(limit=3, sense="most"), 3.0, True),
        (Bar(limit=3, sense="most"), 3.1, False),
        (Bar(limit=3, sense="least"), 3.1, True),
        (Bar(limit=3, sense="least"), 2.9, False),
        (Bar(limit=2, sense="least", of="ratio"), 4.0, True),
        (Bar(limit=2, sense="least", of="ratio"), 3.0, False),
        (None, 3.0, None),
    ],
)
def test_a_bar_is_met_or_not(bar: Bar | None, x: float, is_met: bool | None) -> None:
    found = row(x, bar=bar)
    assert found.is_met is is_met
    assert exit_code([found]) == (is_met is False)


def test_the_ratio_is_ours_over_the_published_figure() -> None:
    assert row(3.0).ratio == 1.5
    assert row(3.0, published=mean("x")).ratio == 1.0
    assert row(3.0, published=None).ratio is None
    assert row(3.0, published=0).ratio is None
    assert row(-0.1).ratio == 0.0


def test_a_missing_figure_fails_with_what_the_benchmark_says() -> None:
    found = judge(claim(), Outcome(state="done", found={"y": {"failed": "no\n  network"}}))
    assert (found.state, found.why, found.ours) == ("failed", "no network", None)
    assert exit_code([found]) == 1
    assert complaint_in({"y": [{"failed": None}]}) == "the benchmark printed no such figure"


def test_what_was_not_run_is_no_failure() -> None:
    gone = Outcome(state="not run", why="no torch", advice="pip install torch")
    found = judge(claim(), gone)
    assert (found.state, found.ours, found.published, found.is_met) == ("not run", None, 2.0, None)
    assert exit_code([found]) == 0
    assert notes({"thread": gone}) == ["thread: not run: no torch; pip install torch"]


# ---------------------------------------------------------------- showing


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ms", "-"),
        (0.0174, "share", "1.74 %"),
        (-0.0053, "share", "-0.53 %"),
        (0.15, "share", "15 %"),
        (1084.0, "times", "1,084 times"),
        (39.96, "times", "40 times"),
        (1.002, "", "1.0020"),
        (1.0, "", "1"),
        (0.5, "", "0.5"),
        (11.52, "ms", "11.5 ms"),
    ],
)
def test_a_figure_is_short(value: float | None, unit: Any, text: str) -> None:
    assert shown_number(value, unit) == text


def test_a_bar_says_what_it_is_of() -> None:
    assert shown_bar(None, "ms") == "-"
    assert shown_bar(Bar(limit=0.02, sense="most"), "share") == "at most 2 %"
    assert shown_bar(Bar(limit=3, sense="least", of="ratio"), "times") == "ratio at least 3"


def test_a_line_of_the_table() -> None:
    assert cells_of(row(4.0)) == ("a paper", "x", "2", "4", "2", "at most 3, NOT MET")
    assert cells_of(row(3.0, published=mean("x")))[2] == "3*"
    assert cells_of(row(3.0, published_as="1 to 2"))[2] == "1 to 2"


def test_the_table_has_a_line_for_each_claim_in_every_shape() -> None:
    done = outcomes() | {"gpu": Outcome(state="not run", why="no CUDA device", advice="buy one")}
    rows = judged(done)
    text = text_lines(rows)
    assert len(text) == len(CLAIMS) + 1
    assert max(map(len, text)) <= 140
    assert next(line for line in text if "not run" in line).startswith("Merkle paper")
    markdown = markdown_lines(rows)
    assert len(markdown) == len(CLAIMS) + 2
    assert {line.count(" | ") for line in markdown} == {len(HEADINGS) - 1}
    assert "not run: no CUDA device" in "\n".join(markdown)
    assert sum("**not met**" in line for line in markdown) == 2
    data = json.loads(json.dumps(rows_json(rows)))
    assert [each["claim"] for each in data] == [each.what for each in CLAIMS]
    assert data[0]["ratio"] == pytest.approx(0.6)
    assert data[2]["same_run"]


def test_a_failure_inside_a_benchmark_is_noted_below_the_table() -> None:
    assert notes(outcomes()) == []
    broken = {"sequence": Outcome(state="done", found={"failed": "no data"})}
    assert notes(broken) == ["sequence: failed: no data"]


def test_the_time_left_follows_what_was_slower() -> None:
    assert seconds_left([10, 20, 30], [], 0) == 60
    assert seconds_left([10, 20, 30], [], 4) == 56
    assert seconds_left([10, 20, 30], [], 40) == 50
    assert seconds_left([10, 20, 30], [20], 10) == 90
    assert seconds_left([10, 20, 30], [20, 40, 60], 0) == 0


# ---------------------------------------------------------------- running


def script_in(folder: Path, code: str) -> Benchmark:
    """Return a benchmark that runs some code."""
    (folder / "tests" / "bench").mkdir(parents=True)
    (folder / "tests" / "bench" / "it.py").write_text(code)
    return Benchmark(
        name="it", script="it.py", quick=("--quick",), full=(), quick_seconds=1, full_seconds=1
    )


def run_in(folder: Path, code: str) -> tuple[Outcome, list[str]]:
    said: list[str] = []
    it = script_in(folder, code)
    outcome = run(it, folder, is_full=False, tick=lambda _, text: said.append(text))
    return outcome, said


def test_what_a_benchmark_prints_is_kept_also_if_it_missed_a_bar(tmp_path: Path) -> None:
    code = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(1)"
    assert run_in(tmp_path, code)[0] == Outcome(state="done", found=["--quick"])


def test_a_benchmark_that_breaks_says_why(tmp_path: Path) -> None:
    outcome, _ = run_in(tmp_path, "import sys; print('{'); raise ValueError('no such data')")
    assert (outcome.state, outcome.why) == ("failed", "ValueError: no such data")
    assert outcome.advice == "to see more: tests/bench/it.py --quick"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_benchmark_is_interrupted_with_us_and_can_clean_up(
    tmp_path: Path, number: signal.Signals
) -> None:
    code = (
        "import pathlib, sys, time\n"
        "try:\n    print('at it', file=sys.stderr, flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    pathlib.Path('cleaned').touch()\n"
    )

    def tick(_seconds: float, text: str) -> None:
        if text == "at it":
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt):
        run(script_in(tmp_path, code), tmp_path, is_full=False, tick=tick)
    assert (tmp_path / "cleaned").exists()


def test_what_a_machine_lacks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDS, "no_such_module", "pip install it")
    it = replace(script_in(tmp_path, ""), needs=("json", "no_such_module"))
    assert lacks(it) == "no_such_module"
    outcome = run(it, tmp_path, is_full=False, tick=lambda *_: None)
    assert outcome == Outcome(state="not run", why="no no_such_module", advice="pip install it")


def test_other_tools_have_a_folder_that_is_kept(tmp_path: Path) -> None:
    kishu = next(each for each in BENCHMARKS if each.name == "kishu")
    command = command_of(kishu, tmp_path, is_full=True)
    assert command[0] == sys.executable
    assert command[-1] == str(Path.home() / ".cache" / "chex-bench-peers")


# ---------------------------------------------------------------- the command


def test_the_list_tells_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [benchmark.name for benchmark in BENCHMARKS]
    assert main(["bench", "--list", "--json", "--only", "helix"]) == 0
    (data,) = json.loads(capsys.readouterr().out)
    assert data["claims"] == ["plans what to reuse, faster than Helix"]


def test_what_takes_long_is_left_out_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_nothing(benchmark: Benchmark, *_: Any, **__: Any) -> Outcome:
        ran.append(benchmark.name)
        return Outcome(state="done", found=PRINTED[benchmark.name])

    monkeypatch.setattr("chexpoint.cli.bench_run.run", run_nothing)
    assert main(["bench"]) == 1
    long = [benchmark.name for benchmark in BENCHMARKS if benchmark.is_long]
    assert ran == [benchmark.name for benchmark in BENCHMARKS if benchmark.name not in long]
    told = capsys.readouterr().out
    assert "\nhindsight: not run: takes about 5 min; chex bench --only hindsight\n" in told
    assert main(["bench", "--only", "hindsight", "--markdown"]) == 0
    assert ran[-1] == "hindsight"
    assert main(["bench", "--full", "--json"]) == 1
    assert set(ran) == set(PRINTED)


def test_two_shapes_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--markdown", "--json"]) == 2
    assert "--markdown is for the table" in capsys.readouterr().err


def test_without_the_source_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("chexpoint.cli.bench_run.files", lambda _: tmp_path / "lib" / "chexpoint")
    monkeypatch.chdir(tmp_path)
    assert main(["bench"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("chex: the benchmarks are not in the installed package: run chex bench")
    assert told.count("\n") == 1


@pytest.mark.slow
def test_the_fastest_benchmark_for_real(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chexpoint", "bench", "--only", "planner", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("planner (1 of 1), about ")
    data = json.loads(done.stdout)
    (found,) = data["rows"]
    assert found["state"] == "done"
    assert found["met"]
    assert found["published"] > found["ours"] >= 1
