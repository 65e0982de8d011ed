"""Tests of surveys: what they name, what they cannot see, and that they leave no trace."""

from __future__ import annotations

import io
import logging
import random
import socket
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from torch import nn
from tqdm import tqdm  # type: ignore[import-untyped]

from chexpoint.hindsight.state.reach import reach
from chexpoint.hindsight.state.survey import take_survey
from tests.unit.hindsight.state_kit import Kept, surveyed

Roots = dict[str, Any]


def names_of(roots: Roots) -> set[str]:
    return {name for name in surveyed(roots).leaves if not name.startswith("@")}


def test_names_of_leaves() -> None:
    net = nn.Sequential(nn.Linear(20, 20))
    roots: Roots = {
        "net": net,
        "optimizer": torch.optim.SGD(net.parameters(), lr=0.1),
        "epoch": 3,
        "data": np.zeros(500),
        "history": {"a": np.zeros(500), "b": [torch.zeros(500), 1.0]},
    }
    assert names_of(roots) == {
        "data",
        "epoch",
        "history",
        "history:0",
        "history:1",
        "net",
        "net:0.bias",
        "net:0.weight",
        "optimizer",
    }


def test_digests_of_arrays_are_those_of_their_bytes() -> None:
    leaf = surveyed({"data": np.arange(600.0)}).leaves["data"]
    assert leaf.digest() == xxhash.xxh3_128_hexdigest(leaf.data())
    assert leaf.nbytes == leaf.data().nbytes == 4800


def test_contents_are_not_copied() -> None:
    data, tensor = np.zeros(500), torch.zeros(500)
    leaves = surveyed({"data": data, "tensor": tensor}).leaves
    views = {name: leaves[name].data() for name in ("data", "tensor")}
    data[0] = tensor[0] = 1
    assert all(bytes(view)[:8] != bytes(8) for view in views.values())


def test_the_same_twice() -> None:
    roots: Roots = {"a": [1, {"b": {2, 3}}], "net": nn.Linear(20, 20), "x": np.zeros(500), "s": "t"}
    first, second = surveyed(roots), surveyed(roots)
    assert second.changed_since(first) == set()


def test_one_element_of_a_large_array() -> None:
    roots: Roots = {"x": np.zeros(1_000_000)}
    before = Kept(roots)
    roots["x"][777_777] = 1e-300
    assert before.changed(roots) == {"x"}


def test_new_leaves_count_as_changed() -> None:
    roots: Roots = {"a": 1}
    before = surveyed(roots)
    roots["b"] = 2
    assert surveyed(roots).changed_since(before) == {"b"}


def numpy_state() -> str:
    return repr(np.random.get_state(legacy=False))


def test_no_random_number_is_drawn_and_no_gradient_made() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    loss = net(torch.randn(2, 4)).sum()
    roots: Roots = {"net": net, "loss": loss, "rng": np.random.default_rng(0)}
    states = random.getstate(), numpy_state(), torch.get_rng_state()
    versions = [parameter._version for parameter in net.parameters()]
    for leaf in surveyed(roots).leaves.values():
        leaf.data()
        leaf.digest()
    assert random.getstate() == states[0]
    assert numpy_state() == states[1]
    assert torch.equal(torch.get_rng_state(), states[2])
    assert [parameter._version for parameter in net.parameters()] == versions
    assert all(parameter.grad is None for parameter in net.parameters())
    loss.backward()


class Moody:
    """Raises wherever it can."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    def __reduce_ex__(self, protocol: object) -> Any:
        raise RuntimeError("not in the mood\nfor anything")


def generate() -> Any:
    yield 1


def test_what_cannot_be_followed_is_said(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"abc")
    reading = (tmp_path / "data.bin").open("rb")
    connection = sqlite3.connect(":memory:")
    sock = socket.socket()
    running = generate()
    roots: Roots = {
        "connection": connection,
        "deep": [{"a": (generate(),)}],
        "fine": [1],
        "moody": Moody(),
        "reading": reading,
        "running": running,
        "sock": sock,
        "thread": threading.Thread(),
    }
    try:
        survey = take_survey(roots)
    finally:
        reading.close()
        connection.close()
        sock.close()
    assert set(survey.unseen) == set(roots) - {"fine"}
    assert "a generator" in survey.unseen["deep"]
    assert "a socket" in survey.unseen["sock"]
    assert survey.unseen["moody"] == "its state cannot be stored: not in the mood"
    assert "fine" in survey.leaves


def test_a_model_inside_what_cannot_be_followed_is_still_seen() -> None:
    class Holder:
        def __init__(self) -> None:
            self.model = nn.Linear(20, 20)
            self.batches = generate()

    survey = take_survey({"holder": Holder()})
    assert "holder.model:weight" in survey.leaves
    assert set(survey.unseen) == {"holder"}


def test_what_only_takes_is_no_state(tmp_path: Path) -> None:
    with (tmp_path / "log.txt").open("w") as log, tqdm(range(3), file=io.StringIO()) as bar:
        roots: Roots = {
            "log": log,
            "bar": bar,
            "logger": logging.getLogger("x"),
            "out": sys.stdout,
            "held": [log, logging.getLogger("y"), 1],
        }
        before = surveyed(roots)
        log.write("text")
        bar.update(1)
        assert surveyed(roots).changed_since(before) == set()
        assert {name for name in before.leaves if not name.startswith("@")} == {"held"}


def test_what_is_too_long_counts_as_changed_but_is_stored() -> None:
    roots: Roots = {"many": [f"{number:0100}" for number in range(180_000)]}
    before = Kept(roots)
    assert before.changed(roots) == {"many"}
    roots["many"].clear()
    before.put_back(roots)
    assert len(roots["many"]) == 180_000


def test_a_large_data_set_is_taken_as_constant() -> None:
    class Texts(torch.utils.data.Dataset[str]):
        def __init__(self) -> None:
            self.texts = [f"{number:0100}" for number in range(180_000)]

    assert names_of({"texts": Texts()}) == set()


def test_a_limited_effort() -> None:
    roots: Roots = {"a": np.zeros(100_000), "b": np.zeros(100_000), "c": [1]}
    first = take_survey(roots, effort_bytes=1_000_000)
    second = take_survey(roots, effort_bytes=1_000_000)
    assert second.changed_since(first) == {"b", "c"}
    assert take_survey(roots).changed_since(first) == {"b", "c"}


def test_deep_nesting_raises_nothing() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    survey = take_survey({"deep": deep})
    assert set(survey.unseen) == {"deep"}
    while isinstance(deep, list):
        deep = deep.pop()


class Proxy:
    """Says nothing about itself, as proxies of web frameworks do outside of a request."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no request")


def test_objects_that_hide_their_class_raise_nothing() -> None:
    survey = take_survey({"a": Proxy(), "b": [Proxy()], "c": [1]})
    assert "c" in survey.leaves
    assert reach(["a", "b", "c"], {"a": Proxy(), "b": [Proxy()], "c": [1]}).roots


def test_a_model_in_a_set_cannot_be_found_again() -> None:
    survey = take_survey({"models": {nn.Linear(2, 2)}})
    assert "a Linear" in survey.unseen["models"]
