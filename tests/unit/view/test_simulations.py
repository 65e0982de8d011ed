"""Simulations as text and as pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

from chexpoint.model import Cluster
from chexpoint.plan import sample_tree, simulate
from chexpoint.view import PLAN_START, simulation_svg, simulation_text

TREE = sample_tree("an", seed=3)
CLUSTER = Cluster(hosts=4, memory=2**30, bandwidth=2**30, losses=1)
FOUND = simulate(TREE, CLUSTER)


def test_the_text_tells_what_was_found() -> None:
    text = simulation_text(TREE, FOUND)
    lines = text.splitlines()
    assert lines[0].startswith("4 hosts: 20 versions in ")
    assert f"{FOUND.computed}  are computed, {FOUND.again} of them again" in text
    assert re.search(r"moved +[0-9.]+ GB  [0-9]+ images? stored, [0-9]+ times? loaded", text)
    assert re.search(r"lost +1  after [0-9]+ min", text)
    assert sum(line.endswith("lost then") for line in lines) == 1
    assert max(map(len, simulation_text(TREE, FOUND, width=50).splitlines())) <= 50


def test_the_text_says_why_nothing_is_shipped_and_who_has_nothing_to_do() -> None:
    idle = simulate(TREE, replace(CLUSTER, hosts=30, losses=0, bandwidth=0.0))
    text = simulation_text(TREE, idle)
    assert "no states are shipped: give --bandwidth" in text
    assert "... and 10 more hosts, done by" in text
    few = simulate(TREE, Cluster(hosts=20, bandwidth=1.0))
    assert "no state is worth shipping" in simulation_text(TREE, few)


def test_the_picture_has_a_row_for_each_host_and_a_cross_for_a_loss() -> None:
    drawn = simulation_svg(TREE, FOUND)
    assert drawn.startswith(PLAN_START)
    root = ElementTree.fromstring(drawn)  # noqa: S314 - our own text
    names = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [name for name in names if name and name.startswith("host ")] == [
        *("host 1", "host 2", "host 3", "host 4")
    ]
    assert drawn.count('class="cross"') == 2  # one in the legend
    bars = [float(bar.get("width", "0")) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert min(bars) >= 0.5
    assert "chex-dark" in simulation_svg(TREE, FOUND, dark=True)


def test_a_picture_of_many_hosts_stays_small() -> None:
    many = simulate(sample_tree("ci", versions=60, length=12), Cluster(hosts=60))
    assert len(simulation_svg(TREE, many)) < 60 * 40 * 120
