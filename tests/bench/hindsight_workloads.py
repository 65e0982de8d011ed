"""Trainings for the benchmark of hindsight logging, as the scripts that a user would write.

The same training is written plainly, with added log statements, and in the dialect of FlorDB.  Each
script leaves the seconds of its training loop in ``trained.json``, so that start-up does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent
from typing import Literal

Probe = Literal["outer", "inner"]

SEED = 7

OPENING = """
import json
import time

import torch
from torch import nn
"""

START = """
begun, begun_cpu = time.perf_counter(), time.process_time()
"""

# Without a blank line: in the cell of the loop, so that what happens between cells does not count.
STOP = """ended, ended_cpu = time.perf_counter(), time.process_time()
"""

CLOSING = """
trained = {"seconds": ended - begun, "cpu_seconds": ended_cpu - begun_cpu}
with open("trained.json", "w") as out:
    json.dump(trained, out)
"""

NAMES: dict[Probe, str] = {"outer": "weight_norm", "inner": "gradient_norm"}
VALUES: dict[Probe, str] = {
    "outer": "sum(p.norm().item() for p in model.parameters())",
    "inner": "sum(p.grad.norm().item() for p in model.parameters() if p.grad is not None)",
}
"""What the added statements log: of the weights after each epoch, of the gradients at each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A training: a loop over epochs around a loop over mini-batches."""

    name: str
    about: str
    epochs: int
    setup: str
    """Makes ``model``, ``optimizer`` and the data."""
    before: str
    """At the beginning of each epoch."""
    batches: str
    """What the inner loop goes over: ``TARGET in ITERABLE``."""
    step: str
    """One mini-batch; it leaves ``loss``."""
    after: str
    """At the end of each epoch."""

    def plain(self, *probes: Probe) -> str:
        """Return the script, with the statements of some probes added."""
        logs = {probe: f'print("{NAMES[probe]}", {VALUES[probe]})\n' for probe in probes}
        loop = self._loop(f"epoch in range({self.epochs})", self.batches, logs)
        return "".join([OPENING, self.setup, START, loop, STOP, CLOSING])

    def flor(self, *probes: Probe) -> str:
        """Return the script as FlorDB wants it, with the statements of some probes added."""
        logs = {probe: f'flor.log("{NAMES[probe]}", {VALUES[probe]})\n' for probe in probes}
        target, _, iterable = self.batches.partition(" in ")
        epochs = f'epoch in flor.loop("epoch", range({self.epochs}))'
        # Its replay wants a value of the run as a whole, and one of each epoch.
        logs["outer"] = 'flor.log("loss", loss.item())\n' + logs.get("outer", "")
        loop = self._loop(epochs, f'{target} in flor.loop("step", {iterable})', logs)
        held = "\nwith flor.checkpointing(model=model, optimizer=optimizer):\n"
        opening = OPENING + f'import flordb as flor\n\nflor.arg("seed", {SEED})\n'
        return "".join([opening, self.setup, START, held, indent(loop, "    "), STOP, CLOSING])

    def _loop(self, epochs: str, batches: str, logs: dict[Probe, str]) -> str:
        step = self.step + logs.get("inner", "")
        body = [self.before, f"for {batches}:\n", indent(step, "    "), self.after]
        return f"for {epochs}:\n" + indent("".join(body) + logs.get("outer", ""), "    ")


def _code(text: str) -> str:
    return dedent(text).lstrip("\n")


def cnn(epochs: int, images: int) -> Workload:
    """Return a small convolutional network on synthetic images."""
    return Workload(
        name="cnn",
        about=f"a small CNN on {images} synthetic images of 28 x 28, Adam, dropout, shuffled",
        epochs=epochs,
        setup="\n"
        + _code(
            f"""
            torch.manual_seed({SEED})
            torch.set_num_threads(1)

            labels = torch.randint(0, 10, ({images + 256},))
            images = torch.randn({images + 256}, 1, 28, 28)
            images[:, 0, 0, :] += labels.view(-1, 1) / 3
            held_back = slice({images}, None)
            loader = torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(images[:{images}], labels[:{images}]),
                batch_size=64,
                shuffle=True,
            )

            model = nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1),
                nn.BatchNorm2d(16),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(16, 32, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Dropout(0.2),
                nn.Linear(32 * 7 * 7, 10),
            )
            loss_of = nn.CrossEntropyLoss()
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
            """
        ),
        before="model.train()\n",
        batches="batch, wanted in loader",
        step=_code(
            """
            optimizer.zero_grad()
            loss = loss_of(model(batch), wanted)
            loss.backward()
            optimizer.step()
            """
        ),
        after=_code(
            """
            scheduler.step()
            model.eval()
            with torch.no_grad():
                found = model(images[held_back]).argmax(1)
            accuracy = (found == labels[held_back]).float().mean().item()
            print("epoch", epoch, "loss", loss.item(), "accuracy", accuracy)
            """
        ),
    )


def fine_tuning(epochs: int, steps: int) -> Workload:
    """Return a training of the last layers of a network of 100 MB, the rest of it frozen."""
    return Workload(
        name="fine_tuning",
        about="the last 5 MB of a network of 100 MB, the rest frozen, Adam",
        epochs=epochs,
        setup="\n"
        + _code(
            f"""
            torch.manual_seed({SEED})
            torch.set_num_threads(1)

            data = torch.randn({steps * 16}, 2000)
            labels = torch.randint(0, 10, ({steps * 16},))

            frozen = []
            for _ in range(6):
                frozen += [nn.Linear(2000, 2000).requires_grad_(False), nn.ReLU()]
            model = nn.Sequential(*frozen, nn.Linear(2000, 600), nn.ReLU(), nn.Linear(600, 10))
            loss_of = nn.CrossEntropyLoss()
            optimizer = torch.optim.Adam(
                [p for p in model.parameters() if p.requires_grad], lr=1e-3
            )
            """
        ),
        before=f"order = torch.randperm({steps * 16}).split(16)\n",
        batches="chosen in order",
        step=_code(
            """
            optimizer.zero_grad()
            loss = loss_of(model(data[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
            """
        ),
        after='print("epoch", epoch, "loss", loss.item())\n',
    )


def workloads(*, is_quick: bool, size: float = 1.0) -> dict[str, Workload]:
    """Return the trainings by their names: of about 300 s and 40 s, or of a few seconds.

    Parameters
    ----------
    size
        A part of the images and steps of an epoch.
    """
    epochs, images, steps = (10, 640, 6) if is_quick else (40, 16000, 30)
    made = [cnn(epochs, int(images * size)), fine_tuning(epochs, max(1, int(steps * size)))]
    return {work.name: work for work in made}
