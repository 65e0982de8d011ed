"""Recording and reuse in a real kernel: what is not run, what is, and that it is all the same.

Most tests share one kernel; each uses cells and versions of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernels import Kernel
from tests.support.notebooks import (
    Shown,
    evict_all,
    finish,
    kernel_at,
    reused,
    run_all,
    run_cell,
    value,
)

pytestmark = pytest.mark.slow


class Lab:
    """A kernel and its project folder."""

    def __init__(self, kernel: Kernel, project: Path) -> None:
        self.kernel = kernel
        self.project = project

    def run(self, code: str, **options: Any) -> Shown:
        return run_cell(self.kernel, code, **options)

    def run_all(self, cells: list[str], version: str) -> list[Shown]:
        return run_all(self.kernel, cells, version=version)

    def twice(self, cells: list[str], version: str) -> list[Shown]:
        """Run all cells, twice; return what the second time has shown."""
        self.run_all(cells, version)
        return self.run_all(cells, version)

    def value(self, expression: str) -> str:
        return value(self.kernel, expression)

    def write(self, name: str, text: str) -> None:
        (self.project / name).write_text(text)

    def read(self, name: str) -> str:
        return (self.project / name).read_text()

    def texts(self, magic: str) -> str:
        """Return what a magic of CHEX displays, as text."""
        (display,) = self.run(magic).ok().outcome.displays
        return str(display.content["data"]["text/plain"])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("reuse")
    with kernel_at(folder / "project", folder / "kernel", CHEX_KEEP_FILES="64K") as kernel:
        yield Lab(kernel, folder / "project")


# ---------------------------------------------------------------- what is reused


def test_a_second_run_shows_the_same_and_computes_nothing(lab: Lab) -> None:
    cells = ["s1 = 20", "s2 = s1 + 1\nprint('one')\ns2", "s2 * 2"]
    first = lab.run_all(cells, "same")
    second = lab.run_all(cells, "same")
    assert reused(first) == "ccc"
    assert reused(second) == "rrr"
    assert [(s.text, s.result) for s in second] == [("", None), ("one\n", "21"), ("", "42")]
    counts = [shown.count for shown in second]
    assert counts == list(range(counts[0], counts[0] + 3))
    assert lab.value("s1, s2") == "(20, 21)"


def test_after_an_edit_only_what_follows_is_computed(lab: Lab) -> None:
    cells = ["e1 = [1]", "e1.append(2)", "e2 = sum(e1)", "e3 = e2 * 10\ne3"]
    lab.run_all(cells, "edit")
    cells[2] = "e2 = sum(e1) + 1"
    again = lab.run_all(cells, "edit")
    assert reused(again) == "rrcc"
    assert again[3].result == "40"
    assert lab.value("e1, e2, e3") == "([1, 2], 4, 40)"
    cells[2] = "e2 = sum(e1)"
    assert reused(lab.run_all(cells, "edit")) == "rrrr"
    assert lab.value("e1, e2, e3") == "([1, 2], 3, 30)"


def test_layout_does_not_count_but_a_hidden_value_does(lab: Lab) -> None:
    lab.run_all(["l1 = 5", "l2 = (l1,\n      6)\nl2"], "layout")
    again = lab.run_all(["l1  =  5  # five", "l2 = (l1, 6)\n# a pair\nl2"], "layout")
    assert reused(again) == "rr"
    assert again[1].result == "(5, 6)"
    hidden = lab.run_all(["l1 = 5", "l2 = (l1, 6)\nl2;", "l3 = 7"], "layout")
    assert reused(hidden) == "rcc"
    assert hidden[1].result is None
    assert lab.run_all(["l1 = 5", "l2 = (l1, 6)\nl2"], "layout")[1].result == "(5, 6)"


def test_a_line_that_may_be_a_magic_is_compared_as_text(lab: Lab) -> None:
    cells = ["t1 = 1", "ls -a", "t2 = 2"]
    lab.run_all(cells, "text")
    lab.run_all(cells, "text")  # the first one has made the project folder
    assert reused(lab.run_all(cells, "text")) == "rrr"
    cells[1] = "ls  -a"
    # It is run; what follows is known, because it is the same code after all.
    assert reused(lab.run_all(cells, "text")) == "rcr"


def test_an_edited_file_is_noticed(lab: Lab) -> None:
    lab.write("numbers.txt", "7")
    cells = ["d1 = 1", "d2 = int(open('numbers.txt').read())", "d3 = d2 + d1\nd3"]
    assert reused(lab.twice(cells, "data")) == "rrr"
    lab.write("numbers.txt", "8")
    edited = lab.run_all(cells, "data")
    assert reused(edited) == "rcc"
    assert "numbers.txt has other contents now" in edited[1].why
    assert edited[2].result == "9"
    lab.write("numbers.txt", "7")
    back = lab.run_all(cells, "data")
    assert reused(back) == "rrr"
    assert back[2].result == "8"
    assert lab.value("d3") == "8"


def test_an_edited_module_is_noticed(lab: Lab) -> None:
    lab.write("tool.py", "def grow(x):\n    return x + 1\n")
    cells = ["import tool", "m1 = tool.grow(1)\nm1"]
    assert reused(lab.twice(cells, "module")) == "rr"
    lab.write("tool.py", "def grow(x):\n    return x + 1000\n")
    edited = lab.run_all(cells, "module")
    assert reused(edited) == "cc"
    assert "tool.py has other contents now" in edited[0].why
    assert edited[1].result == "1001"


@pytest.mark.parametrize("spoil", ["deleted", "changed"])
def test_an_effect_that_is_lost_is_put_back(lab: Lab, spoil: str) -> None:
    name = f"{spoil}.txt"
    cells = [f"o1 = open('{name}', 'w').write('as it was')", f"o2 = open('{name}').read()\no2"]
    assert reused(lab.twice(cells, spoil)) == "rr"  # and so everything is recorded
    if spoil == "deleted":
        (lab.project / name).unlink()
    else:
        lab.write(name, "spoilt")
    assert reused(lab.run_all(cells, spoil)) == "rr"
    assert lab.read(name) == "as it was"


def test_an_effect_that_was_too_large_to_be_kept_is_computed(lab: Lab) -> None:
    cells = ["b1 = open('large.bin', 'wb').write(bytes(100_000))", "b2 = 2"]
    assert reused(lab.twice(cells, "large")) == "rr"
    (lab.project / "large.bin").unlink()
    again = lab.run_all(cells, "large")
    assert reused(again) == "cr"
    assert "large.bin" in again[0].why
    assert (lab.project / "large.bin").stat().st_size == 100_000


def test_cells_with_magics_are_reused(lab: Lab) -> None:
    cells = [
        "g1 = 1",
        "%%time\ng2 = g1 + 1",
        "!echo from a shell",
        "%%bash\necho from bash",
        "%matplotlib inline",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
        "files = !echo one two\nfiles",
    ]
    again = lab.twice(cells, "magics")
    assert reused(again) == "r" * len(cells)
    assert "Wall time" in again[1].text
    assert again[2].text.strip() == "from a shell"
    assert again[3].text == "from bash\n"
    assert "image/png" in again[5].outputs[0].content["data"]
    assert "one two" in str(again[6].result)
    assert lab.value("g2, files") == "(2, ['one two'])"


def test_output_past_python_is_shown_again(lab: Lab) -> None:
    cell = (
        "import ctypes, os\n"
        "code = os.system('echo from a child')\n"
        "code = ctypes.CDLL(None).puts(b'from C')\n"
        "print('from Python')"
    )
    (again,) = lab.twice([cell], "past")
    assert again.is_reused
    assert sorted(again.text.splitlines()) == ["from C", "from Python", "from a child"]


def test_large_output_is_shown_again(lab: Lab) -> None:
    (again,) = lab.twice(["print('x' * 3_000_000)"], "long")
    assert again.is_reused
    assert again.text == "x" * 3_000_000 + "\n"


def test_an_asynchronous_cell_is_reused(lab: Lab) -> None:
    again = lab.twice(["import asyncio", "await asyncio.sleep(0)\na1 = 5\na1", "a1 + 1"], "async")
    assert reused(again) == "rrr"
    assert lab.value("a1") == "5"


def test_a_display_that_was_updated_is_shown_as_it_was_at_last(lab: Lab) -> None:
    cell = "u1 = display('first', display_id=True)\nu1.update('last')"
    (again,) = lab.twice([cell], "updated")
    assert again.is_reused
    assert [m.content["data"]["text/plain"] for m in again.outputs] == ["'last'"]


# ---------------------------------------------------------------- what is not reused


def test_cells_left_to_chance_are_run_and_so_is_all_after_them(lab: Lab) -> None:
    cells = ["import random, time", "h1 = 1", "h2 = random.random()", "h3 = h2 + h1"]
    again = lab.twice(cells, "chance")
    assert reused(again) == "rrcc"
    assert "seed" in again[2].why
    assert lab.value("h3 - h2") == "1.0" or abs(float(lab.value("h3 - h2")) - 1) < 1e-9
    seeded = ["import random, time", "random.seed(3)", "h4 = random.random()\nprint(h4)"]
    again = lab.twice(seeded, "seeded")
    assert reused(again) == "rrr"
    assert lab.value("h4") == again[2].text.strip()


def test_hints_that_do_not_matter_can_be_allowed(lab: Lab) -> None:
    cells = ["import time", "w1 = time.time()\nprint(w1)", "w2 = w1 + 1"]
    again = lab.twice(cells, "time")
    assert reused(again) == "rcc"
    lab.run("%chex_reuse on --allow time").ok()
    allowed = lab.run_all(cells, "time")
    assert reused(allowed) == "rrr"
    assert allowed[1].text == again[1].text
    lab.run("%chex_reuse on").ok()
    assert reused(lab.run_all(cells, "time")) == "rcc"


def test_reuse_can_be_switched_off(lab: Lab) -> None:
    cells = ["f1 = 1", "f2 = f1 + 1\nf2"]
    lab.run_all(cells, "off")
    lab.run("%chex_reuse off").ok()
    assert reused(lab.run_all(cells, "off")) == "cc"
    assert "off" in lab.run("%chex_reuse").told
    lab.run("%chex_reuse on").ok()
    assert reused(lab.run_all(cells, "off")) == "rr"


def test_failing_cells_are_never_reused(lab: Lab) -> None:
    cells = ["x1 = 1", "x1 += 1\n1 / 0", "x2 = x1\nx2", "raise SystemExit(3)", "x3 = 3"]
    again = lab.twice(cells, "fail")
    assert reused(again) == "r!c!c"
    assert again[1].error == "ZeroDivisionError: division by zero"
    assert again[2].result == "2"
    assert lab.value("x1, x2, x3") == "(2, 2, 3)"


def test_cells_that_ask_the_user_are_never_reused(lab: Lab) -> None:
    for answer in ("one", "two"):
        lab.run("%chex_record asks").ok()
        asked = lab.run("q1 = input('what? ')", answers=[answer]).ok()
        assert not asked.is_reused
        assert lab.run("q1").ok().result == repr(answer)


def test_what_talks_to_the_front_end_is_never_reused(lab: Lab) -> None:
    widget = ["from ipywidgets import IntSlider", "i1 = IntSlider(value=3)\ni1", "i1.value = 4"]
    again = lab.twice(widget, "widget")
    assert reused(again) == "rcc"
    assert "widget" in again[1].why
    assert again[2].outputs[0].type == "comm_msg"
    update = ["y1 = display('one', display_id='y')", "y1.update('two')", "y2 = 2"]
    again = lab.twice(update, "update")
    assert reused(again) == "rcr"
    assert again[1].outputs[0].type == "update_display_data"


def test_history_is_not_taken_for_granted(lab: Lab) -> None:
    assert reused(lab.twice(["k1 = 4\nk1", "k2 = _ + 1"], "history")) == "rc"
    assert lab.value("k2") == "5"


# ---------------------------------------------------------------- versions


def test_cells_of_two_versions_may_take_turns(lab: Lab) -> None:
    shown = [
        lab.run(f"%%chex_record {name}\n{code}").ok().text
        for name, code in (
            ("left", "n1 = 1"),
            ("right", "n1 = 100"),
            ("left", "n1 += 1\nprint(n1)"),
            ("right", "n1 += 1\nprint(n1)"),
            ("left", "n1 += 1\nprint(n1)"),
        )
    ]
    assert shown == ["", "", "2\n", "101\n", "3\n"]
    assert lab.run("print(n1)").text == "3\n"
    assert "4 cells" in lab.texts("%chex_log left")
    assert "2 cells" in lab.texts("%chex_log right")
    again = [
        lab.run(f"%%chex_record right-2\n{code}") for code in ("n1 = 100", "n1 += 1\nprint(n1)")
    ]
    assert reused(again) == "rr"


def test_a_version_may_begin_at_the_present_state(lab: Lab) -> None:
    lab.run_all(["p1 = 1", "p2 = p1 + 1"], "base")
    lab.run("%chex_record branch --here").ok()
    assert lab.run("p3 = p2 + 1\np3").ok().result == "3"
    assert "3 cells" in lab.texts("%chex_log branch")
    lab.run("%chex_checkout base").ok()
    assert lab.value("'p3' in globals(), p2") == "(False, 2)"


def test_recording_can_be_paused(lab: Lab) -> None:
    lab.run_all(["r1 = 1"], "pause")
    lab.run("%chex_record --off").ok()
    lab.run("r1 += 1").ok()
    assert json.loads(lab.run("%chex_record --json").ok().outcome.stdout)["is_on"] is False
    lab.run("%chex_record --on").ok()
    assert lab.run("r1 += 1\nr1").ok().result == "3"
    # A version is always whole: the cell in between is part of the way.
    assert "3 cells" in lab.texts("%chex_log pause")


@pytest.mark.parametrize("cell", ["%chex_record a/b", "%%chex_record a/b\nx = 1"])
def test_a_bad_name_is_one_line(lab: Lab, cell: str) -> None:
    shown = lab.run(cell)
    assert shown.status == "error"
    told = shown.outcome.stderr or shown.error
    assert "cannot be in the name of a version" in told
    assert "Traceback" not in told


def test_versions_nodes_and_cells_can_be_checked_out(lab: Lab) -> None:
    lab.run_all(["c1 = 1", "c2 = c1 + 1", "c3 = c2 + 1"], "first")
    count = lab.run("%chex_record --json").count
    node = json.loads(lab.run("%chex_log first --json").ok().outcome.stdout)[1]["node"]
    lab.run_all(["c1 = 10", "c2 = c1 + 1"], "second")
    for evict in (False, True):
        if evict:
            evict_all(lab.kernel)
        lab.run("%chex_checkout first").ok()
        assert lab.value("c1, c2, c3") == "(1, 2, 3)"
        lab.run("%chex_checkout second").ok()
        assert lab.value("c1, c2, 'c3' in globals()") == "(10, 11, False)"
        lab.run(f"%chex_checkout {node[:12]}").ok()
        assert lab.value("c1, c2, 'c3' in globals()") == "(1, 2, False)"
    assert count > 0
    wrong = lab.run("%chex_checkout nowhere")
    assert wrong.outcome.stderr.startswith("UsageError: no ")


def test_what_follows_a_checkout_belongs_to_the_version_that_led_there(lab: Lab) -> None:
    lab.run_all(["v1 = 1", "v2 = 2"], "alpha")
    lab.run_all(["v1 = 10", "v2 = 20"], "beta")
    lab.run("%chex_checkout alpha").ok()
    lab.run("v3 = v1 + v2").ok()
    lab.run("%chex_checkout beta").ok()
    assert lab.value("v1, v2, 'v3' in globals()") == "(10, 20, False)"
    lab.run("%chex_checkout alpha").ok()
    assert lab.value("v1, v2, v3") == "(1, 2, 3)"


def test_files_that_differ_are_told_and_put_back_if_wanted(lab: Lab) -> None:
    lab.write("source.txt", "1")
    cells = [
        "z1 = int(open('source.txt').read())",
        "z2 = open('sink.txt', 'w').write(str(z1 * 11))",
    ]
    lab.run_all(cells, "ones")
    lab.write("source.txt", "2")
    lab.run_all(cells, "twos")
    told = lab.run("%chex_checkout ones").ok().told
    assert "./source.txt has other contents now" in told
    assert "./sink.txt has other contents now" in told
    assert lab.read("sink.txt") == "22"
    lab.run("%chex_restore root").ok()
    evict_all(lab.kernel)
    told = lab.run("%chex_checkout ones --files").ok().told
    assert "2 files put back" in told
    assert (lab.read("source.txt"), lab.read("sink.txt")) == ("1", "11")
    assert lab.value("z1") == "1"
    # Without the files, running the cells again leads elsewhere, and that is said.
    lab.run("%chex_restore root").ok()
    evict_all(lab.kernel)
    told = lab.run("%chex_checkout twos").ok().told
    assert "led to another one" in told


def test_cells_in_any_order_are_history(lab: Lab) -> None:
    lab.run_all(["j1 = 1", "j1 += 1", "j1"], "order")
    lab.run("j1 += 1").ok()
    lab.run("j1 += 1").ok()
    assert lab.run("j1").result == "4"
    lab.run("%chex_checkpoint spot").ok()
    lab.run("j1 = 50").ok()
    lab.run("%chex_restore spot").ok()
    assert lab.run("j1 += 10\nj1").result == "14"
    lab.run("%chex_restore spot").ok()
    assert lab.run("j1 += 10\nj1").result == "14"
    assert "7 cells" in lab.texts("%chex_log")
    # The first cells again, out of order: not a state that is known.
    again = [lab.run(cell) for cell in ("j1 += 1", "j1 = 1", "j1")]
    assert again[2].result == "1"
    assert lab.value("j1") == "1"


def test_a_cell_with_magics_of_chex_can_be_on_the_way(lab: Lab) -> None:
    """What it asked for was done when it ran first."""
    lab.run_all(["aa1 = 1", "aa2 = 2\n%chex_checkpoint kept", "aa3 = 3"], "asking")
    lab.run("aa4 = 4\n%chex_record asking-on --here").ok()
    lab.run("aa5 = 5").ok()
    lab.run("%chex_restore root").ok()
    evict_all(lab.kernel)
    told = lab.run("%chex_checkout asking-on").ok().told
    assert "5 cells run again" in told
    assert "checkpoint" not in told
    assert lab.value("aa1 + aa2 + aa3 + aa4 + aa5") == "15"


# ---------------------------------------------------------------- the state behind it


def test_questions_about_the_state_are_answered_from_the_right_one(lab: Lab) -> None:
    cells = ["class Here:\n    sought = 1", "here = Here()"]
    assert reused(lab.twice(cells, "ask")) == "rr"
    code = "here.sou"
    found = lab.kernel.request("complete_request", {"code": code, "cursor_pos": len(code)})
    assert found.content["matches"] == ["sought"]
    assert reused(lab.run_all(cells, "ask")) == "rr"
    asked = {"code": "here", "cursor_pos": 2, "detail_level": 0}
    looked = lab.kernel.request("inspect_request", asked)
    assert "Here" in looked.content["data"]["text/plain"]


def test_requests_sent_at_once_are_answered_in_order(lab: Lab) -> None:
    cells = ["%chex_record burst", "bb1 = 1", "bb1 += 1\nprint(bb1)", "bb1 += 1\nprint(bb1)"]
    for letters in ("cccc", "crrr"):
        requests = [lab.kernel.submit(cell) for cell in cells]
        shown = [finish(lab.kernel, request) for request in requests]
        assert reused(shown) == letters
        assert [s.text for s in shown[2:]] == ["2\n", "3\n"]
        counts = [s.count for s in shown[1:]]
        assert counts == list(range(counts[0], counts[0] + 3))


def test_a_front_end_that_asks_for_widgets_changes_nothing(lab: Lab) -> None:
    """JupyterLab does as soon as it sees a kernel, if ipywidgets are installed for it."""
    lab.run("%chex_record asked")
    content = {"comm_id": "control", "target_name": "jupyter.widget.control", "data": {}}
    lab.kernel.send("comm_open", content)
    asking = {"comm_id": "control", "data": {"method": "request_states"}}
    lab.kernel.send("comm_msg", asking)
    lab.run("w1 = 1")
    lab.kernel.send("comm_msg", asking)
    lab.run("w1 + 1")
    assert reused(lab.run_all(["w1 = 1", "w1 + 1"], "asked")) == "rr"


# ---------------------------------------------------------------- help


def test_every_magic_answers_a_question_mark_with_an_example(lab: Lab) -> None:
    listed = lab.run("%chex_help").ok().text
    names = sorted(set(re.findall(r"%(chex_\w+)", listed)))
    assert len(names) > 20
    for name in names:
        (page,) = lab.run(f"%{name}?").ok().outcome.content["payload"]
        assert re.search(rf"Examples?::\n[^:]*%%?{name}", page["data"]["text/plain"]), name
