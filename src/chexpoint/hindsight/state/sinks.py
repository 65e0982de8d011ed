"""Objects that hold no state of a loop: they only take, or there is nothing to follow in them."""

from __future__ import annotations

import io
import sys
from typing import Any

# Loggers and handles that only take.  So do plots: they are shown, and to follow all that belongs
# to a figure would make every loop that draws wait.
SINKS = frozenset(
    {
        "IPython.core.display_functions.DisplayHandle",
        "aim.sdk.run.Run",
        "clearml.task.Task",
        "comet_ml._online.Experiment",
        "ipykernel.iostream.OutStream",
        "logging.Handler",
        "logging.Logger",
        "logging.LoggerAdapter",
        "matplotlib.artist.Artist",
        "matplotlib.backend_bases.FigureCanvasBase",
        "mlflow.tracking.client.MlflowClient",
        "neptune.metadata_containers.run.Run",
        "rich.console.Console",
        "rich.progress.Progress",
        "tensorboardX.writer.SummaryWriter",
        "torch.utils.tensorboard.writer.SummaryWriter",
        "tqdm.std.tqdm",
        "wandb.sdk.wandb_run.Run",
        "wandb.wandb_run.Run",
    }
)

_found: dict[type, bool] = {}


def is_sink(obj: Any) -> bool:
    """Return whether an object only takes what the program gives it."""
    kind = type(obj)
    known = _found.get(kind)
    if known is None:
        known = _found[kind] = any(
            f"{base.__module__}.{base.__qualname__}" in SINKS for base in kind.__mro__
        )
    if known:
        return True
    if issubclass(kind, io.TextIOBase) and not issubclass(kind, io.StringIO):
        standard = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        return any(obj is each for each in standard) or _only_writes(obj)
    return False


def _only_writes(file: Any) -> bool:
    try:
        return bool(file.writable() and not file.readable())
    except ValueError:
        # Closed.
        return True
