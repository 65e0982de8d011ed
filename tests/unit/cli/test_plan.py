"""``chex plan`` plans projects, tree files and samples, and explains what is wrong with them."""

from __future__ import annotations

import io
import json
import math
import re
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from chexpoint.cli import main
from chexpoint.cli.plan import PlanCommand, parse_budget, parse_time, patience
from chexpoint.errors import InvalidValue
from chexpoint.model import Plan, PlanStep
from chexpoint.plan import PLANNERS, check_plan, sample_tree
from chexpoint.project import Project
from chexpoint.view import PLAN_START
from tests.support.commands import run_command
from tests.unit.view.worlds import recorded

SMALL = {
    "nodes": [
        {"id": 0, "parent": None, "cost": 10.0, "size": 100},
        {"id": 1, "parent": 0, "cost": 1.0, "size": 100},
        {"id": 2, "parent": 0, "cost": 2.0, "size": 100},
    ]
}


def run(*words: str) -> int:
    """Run the verb with some words."""
    return run_command(PlanCommand(), *words)


def tree_file(folder: Path, data: object = SMALL) -> str:
    """Return the name of a tree file."""
    path = folder / "tree.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(*words) == 0
    return capsys.readouterr().out


def printed_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(printed(capsys, *words, "--json"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the project of the working folder, with three versions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("CHEX_BUDGET", raising=False)
    return recorded(tmp_path)


@pytest.mark.usefixtures("project")
def test_the_versions_of_a_project_are_planned(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert ": 2 versions in 15.0 s, the least there can be" in text.split("\n")[0]
    # Columns are as wide as the budget, which is what this machine has.
    assert "no checkpoints 17.5 s 14 % are saved" in " ".join(text.split())
    assert "go back to 'import numpy as np' for the last time" in text


def test_only_nodes_that_lead_to_versions_are_planned(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = project.tree().current()
    found = printed_json(capsys)
    assert sorted(found["versions"]) == sorted(str(version.node) for version in tree.versions)
    assert {node for _, node in found["steps"]} <= set(tree.nodes)


@pytest.mark.usefixtures("project")
def test_some_versions_are_planned_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert ": 1 version in 10.0 s" in printed(capsys, "tuned")
    assert ": 1 version in 7.5 s" in printed(capsys, "base@2")
    assert ": 2 versions in 15.0 s" in printed(capsys, "tuned", "base")
    with pytest.raises(InvalidValue, match=r"no version 'tunde'. Did you mean tuned\?"):
        run("tunde")


def test_a_project_without_versions_is_explained(tmp_path: Path) -> None:
    (tmp_path / ".chex").mkdir()
    with pytest.raises(InvalidValue, match="nothing is recorded"):
        run("--project", str(tmp_path))
    with pytest.raises(InvalidValue, match="no folder nowhere"):
        run("--project", "nowhere")


def test_ids_of_a_tree_file_stay_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed_json(capsys, "--tree", tree_file(tmp_path), "--budget", "100")
    assert found["cost"] == found["lower_bound"] == 13.0
    assert found["no_cache_cost"] == 23.0
    assert found["steps"] == [
        ["compute", 0],
        ["checkpoint", 0],
        ["compute", 1],
        ["take", 0],
        ["compute", 2],
    ]
    assert found["versions"] == [1, 2]
    text = json.dumps(SMALL).replace("0,", '"0",', 1).replace('"parent": 0', '"parent": "0"')
    found = printed_json(capsys, "--tree", tree_file(tmp_path, text))
    assert found["steps"][0] == ["compute", "0"]


def test_a_tree_file_may_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(SMALL).encode())))
    assert printed_json(capsys, "--tree", "-", "1")["versions"] == [1]


def test_what_chex_tree_prints_can_be_planned(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tree_file(project.folder, project.tree().current().to_json())
    assert printed(capsys, "--tree", file) == printed(capsys)


@pytest.mark.parametrize(("budget", "cost"), [("0", 23.0), ("99", 23.0), ("unlimited", 13.0)])
def test_budgets_at_both_ends_are_allowed(
    budget: str, cost: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed_json(capsys, "--tree", tree_file(tmp_path), "--budget", budget)
    assert found["cost"] == cost
    assert found["budget"] == (None if budget == "unlimited" else int(budget))


def test_a_budget_that_holds_nothing_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "--tree", tree_file(tmp_path), "--budget", "99")
    assert "note: the budget is smaller than any state" in " ".join(text.split())


def test_the_default_budget_is_that_of_a_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEX_BUDGET", "3M")
    assert printed_json(capsys, "--tree", tree_file(tmp_path))["budget"] == 3 * 2**20
    assert printed_json(capsys, "--sample", "star")["budget"] == 2**30
    monkeypatch.delenv("CHEX_BUDGET")
    assert printed_json(capsys, "--tree", tree_file(tmp_path))["budget"] > 2**20


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_plans_a_sample(planner: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--sample", "equal", "--seed", "3", "--planner", planner, "--time-limit", "1")
    found = printed_json(capsys, *words)
    assert found["planner"] == planner
    check_plan(sample_tree("equal", seed=3), plan_from(found))


def plan_from(data: dict[str, Any]) -> Plan:
    """Return the plan that was printed."""
    return Plan(
        planner=data["planner"],
        budget=math.inf if data["budget"] is None else data["budget"],
        cost=data["cost"],
        lower_bound=data["lower_bound"],
        no_cache_cost=data["no_cache_cost"],
        steps=tuple(PlanStep(action, node) for action, node in data["steps"]),
        versions=tuple(data["versions"]),
        left_out=tuple(data["left_out"]),
    )


@pytest.mark.slow
def test_planners_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--sample", "ci", "--compare", "--time-limit", "1")
    head, *rows = (line.split() for line in printed(capsys, *words).split("\n\n")[0].split("\n"))
    assert head[:2] == ["planner", "cost"]
    assert [row[0] for row in rows] == list(PLANNERS)
    found = printed_json(capsys, *words)
    assert [row["planner"] for row in found] == list(PLANNERS)
    none = found[list(PLANNERS).index("none")]
    assert none["checkpoints"] == none["peak_bytes"] == 0
    assert none["cost"] == none["no_cache_cost"]
    for row in found:
        check_plan(sample_tree("ci"), plan_from(row))
        assert row["checkpoints"] == sum(action == "checkpoint" for action, _ in row["steps"])
        assert row["peak_bytes"] <= row["budget"]
        assert row["seconds"] >= 0


def test_checkpoints_and_restores_may_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tree_file(tmp_path)
    words = ("--tree", file, "--budget", "100")
    assert printed_json(capsys, *words, "--checkpoint-cost", "2")["cost"] == 15.0
    assert printed_json(capsys, *words, "--checkpoint-cost", "1m")["cost"] == 23.0
    assert printed_json(capsys, *words, "--restore-cost", "3s")["cost"] <= 16.0


def test_engines_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--tree", tree_file(tmp_path), "--workers", "2")
    found = printed_json(capsys, *words)
    assert found["makespan"] == max(lane["cost"] for lane in found["lanes"]) == 12.0
    assert found["single"] == 13.0
    assert sorted(v for lane in found["lanes"] for v in lane["versions"]) == [1, 2]
    assert printed(capsys, *words).startswith("2 engines: 2 versions in 12.0 s")


def test_a_cluster_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--tree", tree_file(tmp_path), "--simulate", "--start-cost", "2", "--cell-cost", "0")
    alone = printed_json(capsys, *words, "--checkpoint-cost", "0", "--restore-cost", "0")
    # Starting, telling the host, and computing each cell once.
    assert alone["makespan"] == pytest.approx(2 + 0.02 + 13)
    found = printed_json(capsys, *words, "--workers", "2")
    assert found["makespan"] == found["lower_bound"] == pytest.approx(2 + 0.02 + 12)
    assert [run["cells"] for run in found["runs"]] == [2, 2]
    assert sorted(step[1] for run in found["runs"] for step in run["steps"] if step[1]) == [1, 2]
    assert found["bytes_moved"] == 0
    assert printed(capsys, *words, "--workers", "2").startswith("2 hosts: 2 versions in 14.0 s")


def test_a_simulation_is_drawn_and_may_be_json_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--sample", "an", "--simulate", "--workers", "3", "--lose", "1")
    assert printed(capsys, *words, "--svg", "hosts.svg") == "drew hosts.svg\n"
    (tmp_path / "hosts.svg").write_text(PLAN_START)
    assert printed_json(capsys, *words, "--svg", "hosts.svg")["hosts"] == 3
    ElementTree.parse(tmp_path / "hosts.svg")  # noqa: S314 - our own file
    ElementTree.fromstring(printed(capsys, *words, "--svg"))  # noqa: S314 - our own text


def test_as_many_versions_as_there_is_time_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--tree", tree_file(tmp_path), "--within")
    found = printed_json(capsys, *words, "11s")
    assert (found["versions"], found["left_out"]) == ([1], [2])
    text = printed(capsys, *words, "11")
    assert "1 of 2 versions in 11.0 s" in text
    assert "no time for: 2" in text
    assert printed_json(capsys, *words, "2h")["left_out"] == []


def test_every_step_is_shown_if_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--tree", tree_file(tmp_path), "--budget", "100")
    assert "take  " not in printed(capsys, *words)
    assert "   4   11.0 s    0 B  take        0\n" in printed(capsys, *words, "--steps")


def test_pictures_are_drawn_and_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--tree", tree_file(tmp_path), "--svg", "plan.svg")
    for more in ((), ("--workers", "2")):
        assert printed(capsys, *words, *more) == "drew plan.svg\n"
        ElementTree.parse(tmp_path / "plan.svg")  # noqa: S314 - our own file
    assert printed_json(capsys, *words)["versions"] == [1, 2]
    ElementTree.fromstring(printed(capsys, *words[:2], "--svg"))  # noqa: S314 - our own text
    (tmp_path / "plan.svg").write_text("<svg>mine</svg>")
    with pytest.raises(InvalidValue, match=r"plan\.svg exists and is not a picture of chex plan"):
        run(*words)


NODE = {"id": "a", "parent": None, "cost": 1, "size": 1}

BAD_FILES = {
    "not JSON": ("hello", "is not a tree file: Expecting value"),
    "empty": ("", "is not a tree file"),
    "no nodes": ('{"nodes": []}', "the tree has no nodes"),
    "a list": ("[]", 'a tree file is {"nodes": [...]}'),
    "deep": ("[" * 100_000, "nested too deeply"),
    "many digits": ('{"nodes": [{"id": 1' + "0" * 5000 + "}]}", "is not a tree file"),
    "huge": ({"nodes": [{**NODE, "cost": 1e300}]}, "cost of node 'a' is not a number"),
    "infinite": ('{"nodes": [{"id": "a", "parent": null, "cost": 1e999, "size": 1}]}', "cost of"),
    "not a number": ('{"nodes": [{"id": "a", "parent": null, "cost": NaN, "size": 1}]}', "nan"),
    "negative": ({"nodes": [{**NODE, "size": -1}]}, "size of node 'a' is not a number >= 0: -1"),
    "duplicate": ({"nodes": [NODE, NODE]}, "the same id 'a'"),
    "missing parent": ({"nodes": [{**NODE, "parent": "z"}]}, "the parent 'z' of node 'a'"),
    "cycle": ({"nodes": [NODE, {**NODE, "id": "b", "parent": "b"}]}, "node 'b' of the tree file"),
    "two roots": ({"nodes": [NODE, {**NODE, "id": "b"}]}, "two roots, 'a' and 'b'"),
}


@pytest.mark.parametrize(("data", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_tree_file_is_one_line(
    data: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--tree", tree_file(tmp_path, data)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("chex: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = tmp_path / "binary.json"
    binary.write_bytes(bytes(range(256)) * 10)
    locked = tmp_path / "locked.json"
    locked.write_text("{}")
    locked.chmod(0)
    for path in (binary, locked, tmp_path, tmp_path / "missing.json"):
        assert main(["plan", "--tree", str(path)]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert str(path) in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--planner", "best"), "there is no planner 'best': none"),
        (("--budget", "-1"), "'-1' is not a budget"),
        (("--budget", "much"), "'much' is not a budget. Write for example 512M"),
        (("--within", "soon"), "'soon' is not a time. Write for example 90"),
        (("--workers", "0"), "give --workers 1 or more"),
        (("--workers", "two"), "invalid int value"),
        (("--time-limit", "1e9x"), "is not a time"),
        (("--checkpoint-cost", "nan"), "'nan' is not a time"),
        (("--seed", "x"), "invalid int value"),
        (("--tree", "t.json"), "not allowed with argument --sample"),
        (("--compare", "--svg", "plan.svg"), "leave out --svg"),
        (("--compare", "--planner", "none"), "leave out --planner"),
        (("--compare", "--workers", "2"), "leave out --workers"),
        (("--compare", "--within", "2h"), "leave out --within"),
        (("--compare", "--steps"), "leave out --steps"),
        (("--bandwidth", "1GB/s"), "give --simulate as well"),
        (("--cell-cost", "0"), "give --simulate as well"),
        (("--simulate", "--bandwidth", "fast"), "'fast' is not a bandwidth. Write for example"),
        (("--simulate", "--bandwidth", "0"), "'0' is not a bandwidth"),
        (("--simulate", "--workers", "2", "--lose", "2"), "one has to be left"),
        (("--simulate", "--lose", "-1"), "not a whole number >= 0"),
        (("--simulate", "--within", "2h"), "--within does not go together with --simulate"),
        (("--simulate", "--compare"), "--compare does not go together with --simulate"),
        (("--simulate", "--memory-per-host", "much"), "'much' is not a budget"),
        (
            ("--simulate", "--memory-per-host", "1G", "--budget", "1G"),
            "--budget does not go together with --memory-per-host",
        ),
        (("--svg", "--json"), "--svg and --json cannot both go to standard output"),
        (("--svg", "plan.png"), "does not end in .svg"),
        (("nowhere",), "no version 'nowhere'"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(["plan", "--sample", "star", *words])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


def test_samples_and_their_seeds_belong_together(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, again = (
        printed(capsys, "--sample", "ci", "--seed", seed) for seed in ("1", "2", "1")
    )
    assert first == again != second
    with pytest.raises(InvalidValue, match="give --sample KIND as well"):
        run("--seed", "1")
    with pytest.raises(InvalidValue, match="no kind of sample 'tree'"):
        run("--sample", "tree")


class Terminal(io.StringIO):
    """A terminal that knows whether something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_used = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.is_used.set()
        return super().write(text)


def test_a_user_at_a_terminal_is_told_if_planning_takes_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    quick, slow = Terminal(), Terminal()
    monkeypatch.setattr("sys.stderr", quick)
    assert printed(capsys, "--sample", "star", "--budget", "0")
    assert quick.getvalue() == ""
    monkeypatch.setattr("sys.stderr", slow)
    with patience("exact", after=0):
        assert slow.is_used.wait(20)
    assert "planning exact" in slow.getvalue()


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "plan-a-replay.md"
FLAGS = re.DOTALL | re.MULTILINE


def test_the_example_in_python_prints_what_the_page_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    ((code, shown),) = re.findall(r"^```python\n(.*?)^```\n\n```\n(.*?)^```", text, FLAGS)
    exec(code, {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == shown


@pytest.mark.slow
def test_the_table_of_planners_is_what_the_page_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^\$ chex plan --sample an --compare\n(.*?)^```", text, FLAGS)
    found = printed(capsys, "--sample", "an", "--compare")
    # What planning takes differs from run to run, and there are plans of the same cost.
    costs = [
        re.findall(r"^\S+ +[\d.]+ h +[\d.]+ % +[\d.]+ %", part, FLAGS) for part in (found, shown)
    ]
    assert costs[0] == costs[1]
    assert len(costs[0]) == len(PLANNERS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5 m", 90), ("10min", 600), ("2H", 7200), ("1d", 86400), ("0", 0)],
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


def test_budgets_are_read_as_people_write_them() -> None:
    assert parse_budget("1.5G") == 1.5 * 2**30
    assert parse_budget(" 0 ") == 0
    assert parse_budget("Unlimited") == math.inf


def test_nodes_are_named_as_a_whole_or_by_enough_digits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["abcd1", "abcd2", "xyzw9"]
    nodes = [{**NODE, "id": "root"}, *({**NODE, "id": n, "parent": "root"} for n in names)]
    file = tree_file(tmp_path, {"nodes": nodes})
    assert printed_json(capsys, "--tree", file, "xyzw")["versions"] == ["xyzw9"]
    assert printed_json(capsys, "--tree", file, "root")["versions"] == ["root"]
    with pytest.raises(InvalidValue, match="several nodes begin with 'abcd'"):
        run("--tree", file, "abcd")
    with pytest.raises(InvalidValue, match="no version 'xyz'"):
        run("--tree", file, "xyz")


def test_a_version_without_cells_cannot_be_planned(tmp_path: Path) -> None:
    version = {"name": "v", "number": 1, "created": 0, "origin": "", "parameters": {}, "path": []}
    file = tree_file(tmp_path, {**SMALL, "versions": [{**version, "status": "ok"}]})
    with pytest.raises(InvalidValue, match="version 'v' has no cells"):
        run("--tree", file, "v")
