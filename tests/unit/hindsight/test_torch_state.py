"""Tests of what torch objects hold, and of going on from it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from chexpoint.hindsight.state.putting_back import CannotPutBack, put_back
from chexpoint.hindsight.state.survey import take_survey
from tests.unit.hindsight.state_kit import Kept, digests, kept, surveyed

Roots = dict[str, Any]


def small_net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 4)
    )


def training(make_optimizer: Callable[[Any], torch.optim.Optimizer]) -> Roots:
    net = small_net()
    optimizer = make_optimizer(net.parameters())
    data = TensorDataset(torch.randn(64, 20), torch.randint(0, 4, (64,)))
    return {
        "net": net,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
        "loader": DataLoader(data, batch_size=16, shuffle=True),
        "history": [],
    }


def train_epoch(roots: Roots) -> None:
    roots["net"].train()
    for inputs, labels in roots["loader"]:
        roots["optimizer"].zero_grad()
        loss = functional.cross_entropy(roots["net"](inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        roots["optimizer"].step()
    roots["scheduler"].step()
    roots["history"].append(loss.item())


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True),
        lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True),
        lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.01),
    ],
    ids=["sgd", "adam", "adamw", "rmsprop", "adagrad"],
)
def test_training_goes_on_bit_for_bit(make: Callable[[Any], torch.optim.Optimizer]) -> None:
    roots = training(make)
    before = Kept(roots)
    train_epoch(roots)
    middle = Kept(roots)
    train_epoch(roots)
    train_epoch(roots)
    after = digests(roots)
    same = {name: id(value) for name, value in roots.items()}

    assert middle.put_back(roots) == {}
    train_epoch(roots)
    train_epoch(roots)
    assert digests(roots) == after

    assert before.put_back(roots) == {}
    for _ in range(3):
        train_epoch(roots)
    assert digests(roots) == after
    assert {name: id(value) for name, value in roots.items()} == same


def test_a_state_goes_into_the_objects_of_a_new_process() -> None:
    # As in a replay: the same program up to the loop, with nothing of the loop.
    roots = training(torch.optim.Adam)
    train_epoch(roots)
    there = Kept(roots)
    train_epoch(roots)
    after = digests(roots)

    fresh = training(torch.optim.Adam)
    with torch.no_grad():
        for parameter in fresh["net"].parameters():
            parameter.add_(1)
    there.put_back(fresh)
    train_epoch(fresh)
    assert digests(fresh) == after


def test_only_what_changed_is_named() -> None:
    net = small_net()
    for parameter in net[0].parameters():
        parameter.requires_grad_(False)
    head = [parameter for parameter in net.parameters() if parameter.requires_grad]
    roots: Roots = {"net": net.eval(), "optimizer": torch.optim.SGD(head, lr=0.1)}
    before = Kept(roots)
    net(torch.randn(8, 20)).sum().backward()
    assert before.changed(roots) == set()
    roots["optimizer"].step()
    assert before.changed(roots) == {"net:1.weight", "net:1.bias", "net:4.weight", "net:4.bias"}


def test_changes_past_the_version_counter_are_seen() -> None:
    net = nn.Linear(300, 300)
    before = Kept({"net": net})
    net.weight.data.mul_(0.5)
    assert before.changed({"net": net}) == {"net:weight"}
    before.put_back({"net": net})
    assert before.digests == digests({"net": net})


def test_flags_and_attributes_of_modules() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.steps = 0
            self.seen: list[int] = []
            self.scale = torch.ones(3)
            self.register_buffer("mask", torch.ones(2), persistent=False)

    net: Any = Counting()
    seen = net.seen
    roots: Roots = {"net": net}
    before = Kept(roots)
    net.steps = 7
    net.seen.append(3)
    net.scale.add_(1)
    net.extra = "x"
    net.mask.zero_()
    net.inner.eval()
    net.inner.weight.requires_grad_(False)
    assert before.changed(roots) == {"net", "net:mask"}
    before.put_back(roots)
    assert (net.steps, net.seen, net.inner.training) == (0, [], True)
    assert net.seen is seen
    assert net.inner.weight.requires_grad
    assert not hasattr(net, "extra")
    assert torch.equal(net.mask, torch.ones(2))
    assert torch.equal(net.scale, torch.ones(3))


def test_gradients_are_not_state() -> None:
    net = small_net()
    before = Kept({"net": net})
    net.eval()(torch.randn(4, 20)).sum().backward()
    before.put_back({"net": net})
    assert all(parameter.grad is None for parameter in net.parameters())


def test_tied_weights_are_one_leaf() -> None:
    net: Any = nn.Sequential(nn.Linear(40, 40), nn.Linear(40, 40))
    net[1].weight = net[0].weight
    before = Kept({"net": net})
    assert "net:1.weight" not in before.survey.leaves
    with torch.no_grad():
        net[1].weight.zero_()
    assert before.changed({"net": net}) == {"net:0.weight"}
    before.put_back({"net": net})
    assert net[0].weight is net[1].weight


def test_parameters_of_no_known_module_are_the_optimizers() -> None:
    parameters = list(nn.Linear(30, 30).parameters())
    optimizer = torch.optim.SGD([{"params": parameters[:1]}, {"params": parameters[1:]}], lr=0.1)
    roots: Roots = {"optimizer": optimizer}
    before = Kept(roots)
    assert {"optimizer:param.0.0", "optimizer:param.1.0"} <= set(before.survey.leaves)
    with torch.no_grad():
        parameters[1].add_(1)
    assert before.changed(roots) == {"optimizer:param.1.0"}
    before.put_back(roots)


def test_a_scheduler_brings_its_optimizer() -> None:
    net = nn.Linear(30, 30)
    optimizer = torch.optim.Adam(net.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    roots: Roots = {"net": net, "scheduler": scheduler}
    before = Kept(roots)
    net(torch.randn(2, 30)).sum().backward()
    optimizer.step()
    scheduler.step()
    changed = before.changed(roots)
    assert {"scheduler", "scheduler.optimizer", "scheduler.optimizer:0.exp_avg"} <= changed
    before.put_back(roots)
    assert optimizer.param_groups[0]["lr"] == 0.001
    assert not optimizer.state


def test_a_group_that_was_added_and_a_layer_that_was_frozen() -> None:
    first, second = nn.Linear(30, 30), nn.Linear(30, 30)
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1, momentum=0.9)
    roots: Roots = {"first": first, "second": second, "optimizer": optimizer}
    before = Kept(roots)
    optimizer.add_param_group({"params": second.parameters(), "lr": 0.5})
    first.weight.requires_grad_(False)
    second(first(torch.randn(2, 30))).sum().backward()
    optimizer.step()
    after = Kept(roots)
    before.put_back(roots)
    assert len(optimizer.param_groups) == 1
    assert first.weight.requires_grad
    after.put_back(roots)
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 2]
    assert optimizer.param_groups[1]["params"][0] is second.weight
    assert second.weight in optimizer.state


def test_copies_of_models() -> None:
    net = small_net()
    roots: Roots = {"net": net, "best": None, "averaged": torch.optim.swa_utils.AveragedModel(net)}
    before = Kept(roots)
    roots["best"] = copy.deepcopy(net)
    with torch.no_grad():
        net[0].weight.add_(1)
    roots["averaged"].update_parameters(net)
    after = Kept(roots)
    bound = before.put_back(roots)
    assert bound == {"best": None}
    bound = after.put_back(roots)
    assert set(bound) == {"best"}
    assert roots["best"] is not net


def test_a_state_dict_that_is_the_model_itself() -> None:
    # Without a copy, it changes with the model: it must do so after it was put back, too.
    net = nn.Linear(50, 50)
    roots: Roots = {"net": net, "best": net.state_dict()}
    before = Kept(roots)
    assert sum(leaf.nbytes for name, leaf in before.survey.leaves.items() if ":" in name) < 11_000
    roots["best"] = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        net.weight.zero_()
    copied = Kept(roots)
    before.put_back(roots)
    with torch.no_grad():
        net.weight.fill_(3)
    assert torch.equal(roots["best"]["weight"], net.weight)
    # And the other way round: what was a copy must not write into the model.
    copied.put_back(roots)
    assert torch.count_nonzero(net.weight) == 0
    assert torch.count_nonzero(roots["best"]["weight"]) > 0


def test_views_stay_views() -> None:
    whole = torch.arange(1000.0)
    roots: Roots = {"a_part": whole[100:700:2], "whole": whole, "alias": whole.detach()}
    before = Kept(roots)
    whole.zero_()
    before.put_back(roots)
    roots["a_part"].fill_(-1)
    assert roots["whole"][100] == -1
    assert roots["whole"] is whole

    fresh: Roots = {"a_part": None, "whole": None, "alias": None}
    before.put_back(fresh)
    fresh["a_part"].fill_(-1)
    assert fresh["whole"][100] == -1
    assert fresh["alias"][100] == -1


def test_a_loss_with_its_graph_comes_back_without_it() -> None:
    net = nn.Linear(3, 3)
    roots: Roots = {"loss": net(torch.ones(3)).sum(), "net": net}
    value = roots["loss"].item()
    before = Kept(roots)
    roots["loss"] = None
    before.put_back(roots)
    assert roots["loss"].item() == value
    assert roots["loss"].grad_fn is None


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(600, dtype=torch.bfloat16).reshape(20, 30),
        torch.ones(40, 30, dtype=torch.bool),
        torch.ones(400, dtype=torch.complex64) * 1j,
        torch.randn(4, 8, 6, 6).to(memory_format=torch.channels_last),
        torch.randn(40, 30).t(),
        torch.randn(40, 30)[::2, ::3],
        torch.empty(0, 3),
        torch.tensor(3.5),
        torch.randn(40, 30).to(torch.float16),
        torch.randint(0, 9, (40, 30)),
        torch.ones(300, dtype=torch.complex64).conj(),
        nn.Parameter(torch.randn(400)),
    ],
    # Not their contents, which are random.
    ids=lambda each: f"{each.dtype}".removeprefix("torch."),
)
def test_tensors_of_all_kinds(value: torch.Tensor) -> None:
    roots: Roots = {"value": value.clone(), "held": [value.clone()]}
    before = Kept(roots)
    roots["value"] = roots["held"] = None
    before.put_back(roots)
    assert torch.equal(roots["value"], value)
    assert torch.equal(roots["held"][0], value)
    assert roots["value"].dtype == value.dtype
    assert before.changed(roots) <= {"value", "held:0"}
    if value.numel():
        with torch.no_grad():
            roots["value"].zero_()
        assert "value" in Kept({"value": value}).changed(roots)


def test_compiled_and_parallel_wrappers() -> None:
    net = small_net()
    roots: Roots = {
        "model": torch.compile(net, backend="eager"),
        "wide": nn.DataParallel(small_net()),
    }
    before = Kept(roots)
    assert "model:0.weight" in before.survey.leaves
    with torch.no_grad():
        net[0].weight.zero_()
        roots["wide"].module[0].weight.zero_()
    assert before.changed(roots) == {"model:0.weight", "wide:module.0.weight"}
    before.put_back(roots)


def test_scalers_and_plateaus() -> None:
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    roots: Roots = {
        "scaler": torch.amp.GradScaler("cpu", init_scale=8.0),
        "plateau": torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0),
        "optimizer": optimizer,
        "net": net,
    }
    roots["scaler"].scale(torch.ones(1))
    before = Kept(roots)
    roots["plateau"].step(1.0)
    roots["plateau"].step(2.0)
    roots["scaler"].update(4.0)
    assert before.changed(roots) == {"plateau", "scaler", "optimizer"}
    before.put_back(roots)
    assert optimizer.param_groups[0]["lr"] == 1.0


def test_loaders_with_generators_and_datasets_that_change() -> None:
    class Growing(torch.utils.data.Dataset[int]):
        def __init__(self) -> None:
            self.seen: list[int] = []

        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> int:
            self.seen.append(index)
            return index

    data = Growing()
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(data, batch_size=2, shuffle=True, generator=generator)
    roots: Roots = {"loader": loader, "data": data}
    before = Kept(roots)
    first = [batch.tolist() for batch in loader]
    assert before.changed(roots) == {"data", "loader.generator"}
    before.put_back(roots)
    assert data.seen == []
    assert [batch.tolist() for batch in loader] == first


def test_what_lives_in_other_processes_cannot_be_followed() -> None:
    data = TensorDataset(torch.randn(8, 2))
    loader = DataLoader(data, num_workers=1, persistent_workers=True)
    survey = take_survey({"loader": loader, "batches": iter(DataLoader(data))})
    assert "workers" in survey.unseen["loader"]
    assert "DataLoader" in survey.unseen["batches"]


def test_nothing_is_changed_if_something_does_not_fit() -> None:
    roots: Roots = {"aaa": [1], "net": nn.Linear(30, 30), "optimizer": None}
    leaves = kept(surveyed(roots))
    other: Roots = {"aaa": [2], "net": nn.Linear(30, 31), "optimizer": None}
    was = digests(other)
    with pytest.raises(CannotPutBack, match="'net' is not what it was: its 'weight'"):
        put_back(other, leaves)
    assert digests(other) == was
    with pytest.raises(CannotPutBack, match="'net' does not exist here yet"):
        put_back({"aaa": [2], "net": None}, leaves)


def test_an_optimizer_that_was_made_anew() -> None:
    net = small_net()
    roots: Roots = {"net": net, "optimizer": torch.optim.Adam(net.parameters(), lr=0.5)}
    before = Kept(roots)
    made = roots["optimizer"] = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.randn(8, 20)).sum().backward()
    made.step()
    after = Kept(roots)
    with pytest.raises(CannotPutBack, match="nothing of its kind"):
        before.put_back(roots)
    roots["optimizer"] = torch.optim.SGD(net.parameters(), lr=0.3)
    after.put_back(roots)
    assert roots["optimizer"].param_groups[0]["momentum"] == 0.9
