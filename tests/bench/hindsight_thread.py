"""What a checkpoint of 250 MB costs the training thread, as JSON; designs in turns in one run.

python tests/bench/hindsight_thread.py            everything (about five minutes)
python tests/bench/hindsight_thread.py --rounds 2 --threads 1

The cost of a checkpoint is the time in which the thread is blocked, and what the first step after
it takes longer than a usual one, each the least of all rounds.  The background is quiet again
before the next design has its turn.  ``later_ms`` is what the next three steps take longer.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, async_save

from chexpoint.hindsight.writing.fork_materialiser import ForkMaterialiser
from chexpoint.hindsight.writing.materialiser import (
    Materialiser,
    Part,
    Snapshot,
    StagingMaterialiser,
)

WIDTH, LAYERS, BATCH = 2280, 4, 128
LATER = 3
BARS = {"dcp": 0.5, "torch_save": 0.15}


class Training:
    """An MLP and Adam: 83 MB of weights, thrice."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers: list[torch.nn.Module] = []
        for _ in range(LAYERS):
            layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self._x = torch.randn(BATCH, WIDTH)

    def step(self) -> float:
        """Train on a batch; return how long it took."""
        started = time.perf_counter()
        self.optimizer.zero_grad()
        self.model(self._x).square().mean().backward()
        self.optimizer.step()
        return time.perf_counter() - started

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self.model.state_dict().items()
        for number, state in self.optimizer.state_dict()["state"].items():
            yield from ((f"{number}.{key}", value) for key, value in state.items())


class Design(Protocol):
    """A way to take checkpoints."""

    def take(self) -> None:
        """Do what the training thread has to do."""

    def settle(self) -> None:
        """Wait until the background is quiet."""


class Materialised:
    """One of our materialisers."""

    def __init__(self, training: Training, materialiser: Materialiser) -> None:
        self._training, self._materialiser = training, materialiser
        self._count = 0
        materialiser.start()

    def take(self) -> None:
        self._count += 1
        snapshot = Snapshot(
            name=f"loop.bench.{self._count}",
            document={"count": self._count},
            parts=tuple(part_of(key, each) for key, each in self._training.tensors()),
            like=f"loop.bench.{self._count - 1}" if self._count > 1 else None,
        )
        assert self._materialiser.submit(snapshot, wait=False) is not None

    def settle(self) -> None:
        self._materialiser.drain(None)
        failed = [each for each in self._materialiser.poll() if each.failed]
        assert not failed, failed


def part_of(key: str, tensor: torch.Tensor) -> Part:
    flat = tensor.detach().reshape(-1)

    def copy_into(memory: memoryview) -> None:
        torch.frombuffer(memory, dtype=flat.dtype).copy_(flat)

    return Part(key=key, kind="array", nbytes=tensor.nbytes, copy_into=copy_into)


class TorchSave:
    """``torch.save`` to a file."""

    def __init__(self, training: Training, folder: Path) -> None:
        self._training, self._path = training, folder / "torch.pt"

    def take(self) -> None:
        torch.save(self._training.state(), self._path)

    def settle(self) -> None:
        self._path.unlink(missing_ok=True)


class Distributed:
    """PyTorch's asynchronous checkpoints, by a thread."""

    def __init__(self, training: Training, folder: Path) -> None:
        self._training, self._folder = training, folder / "dcp"
        self._future: Any = None

    def take(self) -> None:
        self._future = async_save(
            self._training.state(),
            storage_writer=FileSystemWriter(self._folder),
            async_checkpointer_type=AsyncCheckpointerType.THREAD,
        )

    def settle(self) -> None:
        if self._future is not None:
            self._future.result()
        shutil.rmtree(self._folder, ignore_errors=True)


def measured(training: Training, design: Design) -> dict[str, float]:
    """Take one checkpoint; return its times in milliseconds."""
    training.step()
    # One step like the first after the checkpoint: the least of many would be less.
    usual = training.step()
    started = time.perf_counter()
    design.take()
    blocked = time.perf_counter() - started
    first = training.step()
    later = sum(training.step() for _ in range(LATER))
    design.settle()
    times = {"usual_step": usual, "blocked": blocked, "first_step": first, "later_steps": later}
    return {key: seconds * 1e3 for key, seconds in times.items()}


def summary(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return what a checkpoint costs: the least of all rounds, for the machine may be busy."""
    least = {key: min(times[key] for times in rounds) for key in rounds[0]}
    extra = {
        "cost": least["blocked"] + max(0.0, least["first_step"] - least["usual_step"]),
        "later": least.pop("later_steps") - LATER * least["usual_step"],
    }
    return {f"{key}_ms": round(value, 1) for key, value in (least | extra).items()}


def compare(threads: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Return the costs of all designs, and the ratios that have bars."""
    torch.set_num_threads(threads)
    training = Training()
    training.step()
    ours = folder / str(threads)
    makers: dict[str, Callable[[], Design]] = {
        "staging": lambda: Materialised(
            training, StagingMaterialiser(str(ours / "s"), str(ours / "s_run"))
        ),
        "fork": lambda: Materialised(
            training, ForkMaterialiser(str(ours / "f"), str(ours / "f_run"))
        ),
        "torch_save": lambda: TorchSave(training, folder),
        "dcp": lambda: Distributed(training, folder),
    }
    designs = {name: make() for name, make in makers.items()}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in designs}
    for number in range(rounds + 1):
        for name, design in designs.items():
            times = measured(training, design)
            shown = ", ".join(f"{key} {value:.0f}" for key, value in times.items())
            sys.stderr.write(f"{threads} threads, round {number}, {name}: {shown}\n")
            if number:  # in the first round all of them get their memory
                found[name].append(times)
    costs = {name: summary(times) for name, times in found.items()}
    ratios = {peer: costs["staging"]["cost_ms"] / costs[peer]["cost_ms"] for peer in BARS}
    return {
        "state_mb": round(sum(each.nbytes for _, each in training.tensors()) / 1e6, 1),
        "designs": costs,
        "ratio": {peer: round(ratio, 3) for peer, ratio in ratios.items()},
        "bar": BARS,
        "is_met": all(ratios[peer] <= bar for peer, bar in BARS.items()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        group = Path(folder) / "group"
        dist.init_process_group("gloo", init_method=f"file://{group}", rank=0, world_size=1)
        result = {
            f"threads_{threads}": compare(threads, args.rounds, Path(folder))
            for threads in args.threads
        }
        dist.destroy_process_group()
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
