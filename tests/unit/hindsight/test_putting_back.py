"""Tests of putting values back into live objects."""

from __future__ import annotations

import datetime
import decimal
import functools
import itertools
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from torch import nn

from chexpoint.hindsight.state.putting_back import CannotPutBack, put_back
from chexpoint.hindsight.state.reach import Passing
from tests.unit.hindsight.state_kit import Kept, digests, kept, surveyed

Roots = dict[str, Any]


def test_containers_take_their_contents_in_place() -> None:
    values: Roots = {
        "a_list": [1, [2, 3]],
        "a_dict": {"x": 1, 2: [3]},
        "a_set": {1, 2},
        "a_deque": deque([1, 2], maxlen=5),
        "a_bytearray": bytearray(b"abc"),
        "an_array": np.arange(10.0),
        "counts": Counter("aab"),
    }
    roots = dict(values)
    inner = values["a_list"][1]
    before = Kept(roots)
    values["a_list"][1].append(4)
    values["a_list"].append("new")
    values["a_dict"].clear()
    values["a_set"].add(3)
    values["a_deque"].append(3)
    values["a_bytearray"].extend(b"d")
    values["an_array"] *= 2
    values["counts"]["z"] += 1
    assert before.changed(roots) == set(values)
    bound = before.put_back(roots)
    assert bound == {}
    assert values["a_list"] == [1, [2, 3]]
    assert values["a_dict"] == {"x": 1, 2: [3]}
    assert values["a_set"] == {1, 2}
    assert list(values["a_deque"]) == [1, 2]
    assert values["a_bytearray"] == b"abc"
    assert values["an_array"].tolist() == list(range(10))
    assert values["a_list"][1] is inner


@dataclass
class Layer:
    weight: Any


@pytest.mark.parametrize("is_bound", [False, True], ids=["not bound yet", "bound to another"])
@pytest.mark.parametrize("make", [lambda: Layer(np.zeros(3)), lambda: nn.Linear(3, 1)])
def test_what_the_variable_of_a_loop_held_stays_the_object_that_others_hold(
    make: Any, *, is_bound: bool
) -> None:
    layers = [make(), make()]
    first, second = layers
    with torch.no_grad():
        for number, layer in enumerate(layers):
            layer.weight += number + 1
    roots: Roots = {"layers": layers, Passing("a_layer"): second}
    before = Kept(roots)
    wanted = [layer.weight.tolist() for layer in layers]
    with torch.no_grad():
        for layer in layers:
            layer.weight *= 0
    now: Roots = {"layers": layers, **({Passing("a_layer"): first} if is_bound else {})}
    now.update(put_back(now, before.leaves))
    assert [first.weight.tolist(), second.weight.tolist()] == wanted
    assert layers[0] is first
    assert layers[1] is second
    assert now["a_layer"] is second


def test_what_others_read_is_not_left_behind() -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    roots: Roots = {"frame": frame}
    before = Kept(roots)
    frame.loc[0, "a"] = 5
    with pytest.raises(CannotPutBack, match="a DataFrame cannot be changed in place"):
        put_back(roots, before.leaves, {"frames": [frame]})
    assert frame["a"].tolist() == [5, 2]
    bound = put_back(roots, before.leaves, {"frames": [frame.copy()]})
    assert bound["frame"]["a"].tolist() == [1, 2]  # type: ignore[index]


def test_what_cannot_change_is_bound_anew() -> None:
    roots: Roots = {"epoch": 3, "best": 0.5, "name": "a", "pair": (1, 2), "none": None}
    before = Kept(roots)
    roots.update(epoch=4, best=0.25, name="b", pair=(3,), none=1)
    assert before.changed(roots) == {"epoch", "best", "name", "pair", "none"}
    bound = before.put_back(roots)
    assert bound == {"epoch": 3, "best": 0.5, "name": "a", "pair": (1, 2), "none": None}


def test_names_that_are_not_there_yet_are_made() -> None:
    there: Roots = {"best": {"weight": np.ones(500)}, "step": 7}
    before = Kept(there)
    fresh: Roots = {}
    before.put_back(fresh)
    assert fresh["step"] == 7
    assert fresh["best"]["weight"].sum() == 500
    fresh["best"]["weight"][0] = 5


def test_two_names_for_one_list() -> None:
    losses: list[float] = []
    roots: Roots = {"history": {"loss": losses}, "losses": losses, "same": losses}
    before = Kept(roots)
    losses.append(1.0)
    after = Kept(roots)
    assert before.changed(roots) == {"history"}
    assert before.put_back(roots) == {}
    assert losses == []
    after.put_back(roots)
    assert losses == [1.0]

    fresh: Roots = {"history": {"loss": []}, "losses": None, "same": []}
    after.put_back(fresh)
    assert fresh["history"]["loss"] is fresh["losses"] is fresh["same"]


def test_what_no_longer_is_shared() -> None:
    shared: list[int] = [1]
    roots: Roots = {"a": [shared], "b": [[1]]}
    before = Kept(roots)
    roots["b"][0] = shared
    before.put_back(roots)
    assert roots["a"][0] is not roots["b"][0]
    roots["a"][0].append(2)
    assert roots["b"] == [[1]]


def test_cycles_within_and_across_names() -> None:
    a: list[Any] = [1]
    b: dict[str, Any] = {"a": a}
    a.append(b)
    a.append((a, b))
    roots: Roots = {"a": a, "b": b}
    before = Kept(roots)
    a.clear()
    b.clear()
    before.put_back(roots)
    assert roots["a"] is a
    assert a[1] is roots["b"]
    assert a[1]["a"] is a
    assert a[2][0] is a
    assert a[2][1] is a[1]


@dataclass
class Settings:
    rate: float = 0.1
    notes: list[str] = field(default_factory=list)


class Slotted:
    __slots__ = ("items", "value")

    value: int

    def __init__(self) -> None:
        self.items: list[int] = []


class Tracker(dict[str, int]):
    """A dict with attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0


def test_objects_keep_their_identity() -> None:
    settings, slotted, tracker = Settings(), Slotted(), Tracker()
    notes = settings.notes
    roots: Roots = {"settings": settings, "slotted": slotted, "tracker": tracker}
    before = Kept(roots)
    settings.rate = 0.2
    settings.notes.append("x")
    slotted.items.append(1)
    slotted.value = 3
    tracker["a"] = 1
    tracker.calls = 1
    assert before.changed(roots) == set(roots)
    after = Kept(roots)
    assert before.put_back(roots) == {}
    assert settings == Settings()
    assert settings.notes is notes
    assert slotted.items == []
    assert not hasattr(slotted, "value")
    assert (dict(tracker), tracker.calls) == ({}, 0)
    after.put_back(roots)
    assert slotted.value == 3
    assert (dict(tracker), tracker.calls) == ({"a": 1}, 1)


class Trainer:
    """Holds all that a training needs, and things without a state."""

    def __init__(self, log: Any) -> None:
        self.model = nn.Sequential(nn.Linear(20, 20), nn.Dropout(), nn.Linear(20, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.lock = threading.Lock()
        self.loss: Any = lambda out: out.pow(2).mean()
        self.log = log
        self.shadow = {name: each.detach().clone() for name, each in self.model.named_parameters()}
        self.history: list[float] = []
        self.callbacks = [functools.partial(self.note, scale=2.0)]

    def note(self, value: float, scale: float) -> None:
        self.history.append(value * scale)

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.loss(self.model(torch.randn(4, 20)))
        loss.backward()
        self.optimizer.step()
        for name, each in self.model.named_parameters():
            self.shadow[name].lerp_(each.detach(), 0.1)
        for callback in self.callbacks:
            callback(loss.item())


def test_an_object_that_holds_a_training(tmp_path: Path) -> None:
    with (tmp_path / "log.txt").open("w") as log:
        trainer = Trainer(log)
        roots: Roots = {"trainer": trainer}
        same = [trainer.model, trainer.optimizer, trainer.shadow, trainer.history, trainer.lock]
        before = Kept(roots)
        assert "trainer.model:0.weight" in before.survey.leaves
        for _ in range(3):
            trainer.step()
        after = digests(roots)
        assert {"trainer", "trainer.model:0.weight", "trainer.optimizer"} <= before.changed(roots)
        assert before.put_back(roots) == {}
        now = [trainer.model, trainer.optimizer, trainer.shadow, trainer.history, trainer.lock]
        assert all(one is other for one, other in zip(same, now, strict=True))
        assert trainer.history == []
        for _ in range(3):
            trainer.step()
        assert digests(roots) == after


def test_lists_of_models_with_an_outer_name() -> None:
    models = [nn.Linear(20, 20) for _ in range(3)]
    roots: Roots = {"ensemble": models, "first": models[0], "weights": list(models[1].parameters())}
    before = Kept(roots)
    assert {"first:weight", "ensemble[1]:weight"} <= set(before.survey.leaves)
    with torch.no_grad():
        models[0].weight.zero_()
        models[2].bias.zero_()
    assert before.changed(roots) == {"first:weight", "ensemble[2]:bias"}
    models.pop(0)
    models.reverse()
    assert "ensemble" in before.changed(roots)
    models.reverse()
    models.insert(0, roots["first"])
    before.put_back(roots)
    assert roots["weights"][0] is models[1].weight


def test_values_of_many_kinds() -> None:
    frame = pd.DataFrame({"x": np.arange(500.0), "y": ["a"] * 500})
    roots: Roots = {
        "frame": frame,
        "series": frame["x"] * 2,
        "when": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "exact": decimal.Decimal("1.10"),
        "path": Path("a") / "b",
        "ordered": OrderedDict(b=1, a=2),
        "default": defaultdict(list, a=[1]),
        "structured": np.zeros(400, dtype=[("a", "i4"), ("b", "f8")]),
        "objects": np.array([[1], {"a": 2}], dtype=object),
        "times": np.arange(300).astype("datetime64[s]"),
        "fortran": np.asfortranarray(np.arange(600.0).reshape(20, 30)),
        "frozen": frozenset({(1, 2), "a"}),
        "counter": itertools.count(3),
        "complex": 1 + 2j,
    }
    before = Kept(roots)
    values = dict(roots)
    frame["x"] += 1
    next(roots["counter"])
    for name in roots:
        roots[name] = None
    before.put_back(roots)
    assert roots["frame"]["x"].tolist() == list(range(500))
    assert roots["series"].equals(values["series"])
    assert next(roots["counter"]) == 3
    assert roots["default"]["new"] == []
    assert roots["fortran"].flags.f_contiguous
    for name in ("when", "exact", "path", "ordered", "frozen", "complex"):
        assert roots[name] == values[name]
    for name in ("structured", "times", "fortran"):
        assert (roots[name] == values[name]).all()


def test_views_of_arrays_stay_views() -> None:
    data = np.arange(4000.0).reshape(40, 100)
    roots: Roots = {"column": data[:, 3], "data": data, "held": {"rows": data[2:5], "t": data.T}}
    before = Kept(roots)
    data[:] = 0
    assert before.changed(roots) == {"data"}
    assert before.put_back(roots) == {}
    roots["column"][0] = -1
    assert data[0, 3] == -1
    fresh: Roots = {"column": None, "data": None, "held": None}
    before.put_back(fresh)
    fresh["column"][2] = -7
    assert fresh["data"][2, 3] == fresh["held"]["rows"][0, 3] == fresh["held"]["t"][3, 2] == -7


def test_only_some_leaves_are_given() -> None:
    big, other = np.zeros(500), np.ones(500)
    net = nn.Linear(20, 20)
    roots: Roots = {"held": [big, other, "a"], "net": net}
    before = Kept(roots)
    big += 1
    some = {name: before.leaves[name] for name in ("held:0",)}
    assert put_back(roots, some) == {}
    assert big.sum() == 0
    roots["held"].append("b")
    assert put_back(roots, {"held": before.leaves["held"]}) == {}
    assert roots["held"][0] is big
    assert len(roots["held"]) == 3
    with torch.no_grad():
        net.weight.zero_()
    net.eval()
    put_back(roots, {"net:weight": before.leaves["net:weight"]})
    assert torch.count_nonzero(net.weight)
    assert not net.training
    put_back(roots, {"net": before.leaves["net"]})
    assert net.training


def test_functions_and_classes_in_values() -> None:
    class Local:
        def __init__(self, value: int) -> None:
            self.value = value

    def double(value: int) -> int:
        return value * 2

    roots: Roots = {"steps": [double, len, lambda value: value + 1], "local": [Local(1)]}
    before = Kept(roots)
    steps = list(roots["steps"])
    roots["steps"].reverse()
    roots["local"][0].value = 5
    roots["local"].append(Local(6))
    with pytest.raises(CannotPutBack, match="does not exist here"):
        put_back({"local": []}, {"local": before.leaves["local"]})
    roots["steps"].reverse()
    before.put_back(roots)
    assert roots["steps"] == steps
    assert [each.value for each in roots["local"]] == [1]


def test_damaged_or_foreign_leaves_change_nothing() -> None:
    roots: Roots = {"a": [1], "b": [2]}
    leaves = kept(surveyed(roots))
    leaves["b"] = type(leaves["b"])(kind="stream", meta=leaves["b"].meta, data=b"nonsense")
    roots["a"].append(5)
    with pytest.raises(CannotPutBack, match="'b' cannot be read"):
        put_back(roots, leaves)
    assert roots["a"] == [1, 5]
