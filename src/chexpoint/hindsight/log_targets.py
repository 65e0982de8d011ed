"""Functions that log, and what their arguments say.

To add a library: a `Target` for each of its functions, with a function that takes the same
arguments and returns names and values.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

Logged = Iterable[tuple[str, object]]
"""Names and values."""

# ------------------------------------------------------------ whose code it is

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")} | {_OWN_FOLDER}
)


@functools.lru_cache(maxsize=1024)
def _is_program_file(name: str) -> bool:
    if name.startswith("<frozen"):
        return False
    if "site-packages" in name or "dist-packages" in name:
        return False
    return not name.startswith(_LIBRARY)


def is_program(code: CodeType) -> bool:
    """Return whether code is the user's: not of a library, of Python or of CHEX."""
    return _is_program_file(code.co_filename)


def is_own(code: CodeType) -> bool:
    """Return whether code is of CHEX."""
    return code.co_filename.startswith(_OWN_FOLDER)


# ------------------------------------------------------------ what the arguments say


def _add_scalar(_self: object, tag: str, scalar_value: object, *_: object, **__: object) -> Logged:
    return ((tag, scalar_value),)


def _add_scalars(
    _self: object, main_tag: str, tag_scalar_dict: Mapping[str, object], *_: object, **__: object
) -> Logged:
    return ((f"{main_tag}/{tag}", value) for tag, value in tag_scalar_dict.items())


def _add_text(_self: object, tag: str, text_string: str, *_: object, **__: object) -> Logged:
    return ((tag, text_string),)


def _add_histogram(_self: object, tag: str, values: Any, *_: object, **__: object) -> Logged:
    """Return what sums up a distribution."""
    import numpy as np

    if hasattr(values, "detach"):
        values = values.detach().cpu()
    array = np.asarray(values, dtype=np.float64)
    facts: dict[str, object] = {"count": array.size}
    if array.size:
        facts |= {"mean": array.mean(), "std": array.std(), "min": array.min(), "max": array.max()}
    return ((tag, facts),)


def _key_value(key: str, value: object, *_: object, **__: object) -> Logged:
    return ((key, value),)


def _client_key_value(
    _self: object, run_id: str, key: str, value: object, *_: object, **__: object
) -> Logged:
    return ((key, value),)


def _metrics(metrics: Mapping[str, object], *_: object, **__: object) -> Logged:
    return metrics.items()


def _params(params: Mapping[str, object], *_: object, **__: object) -> Logged:
    return params.items()


def _log_batch(
    _self: object,
    run_id: str,
    metrics: Iterable[Any] = (),
    params: Iterable[Any] = (),
    *_: object,
    **__: object,
) -> Logged:
    return [(each.key, each.value) for each in (*metrics, *params)]


def _run_log(_self: object, data: Mapping[str, object], *_: object, **__: object) -> Logged:
    return data.items()


def _wandb_log(data: Mapping[str, object], *_: object, **__: object) -> Logged:
    return data.items()


def _handle(_self: logging.Logger, record: logging.LogRecord) -> Logged:
    # What libraries say about themselves is not what the program logs.
    frame: FrameType | None = sys._getframe()
    while frame is not None and (
        is_own(frame.f_code) or frame.f_globals.get("__name__") == "logging"
    ):
        frame = frame.f_back
    if _self.disabled or frame is None or not is_program(frame.f_code):
        return ()
    return ((record.name, record.getMessage()),)


@dataclass(frozen=True, slots=True)
class Target:
    """A function that logs."""

    module: str
    name: str
    """In the module: ``log`` or ``Run.log``."""
    via: str
    read: Callable[..., Logged]
    """Takes the same arguments, and returns what they log."""
    answer: Callable[..., object] | None = None
    """What it returns if the original is not called."""


_WRITER: dict[str, Callable[..., Logged]] = {
    "add_scalar": _add_scalar,
    "add_scalars": _add_scalars,
    "add_text": _add_text,
    "add_histogram": _add_histogram,
}
_FLUENT: dict[str, Callable[..., Logged]] = {
    "log_metric": _key_value,
    "log_metrics": _metrics,
    "log_param": _key_value,
    "log_params": _params,
}
_CLIENT: dict[str, Callable[..., Logged]] = {
    "log_metric": _client_key_value,
    "log_param": _client_key_value,
    "log_batch": _log_batch,
}


def _param(key: str, value: object, *_: object, **__: object) -> object:
    return value


def _client_param(_self: object, run_id: str, key: str, value: object, *_: object) -> object:
    return value


TARGETS = (
    Target("logging", "Logger.handle", "logging", _handle),
    *(
        Target(module, f"SummaryWriter.{name}", "tensorboard", read)
        for module in ("torch.utils.tensorboard.writer", "tensorboardX.writer")
        for name, read in _WRITER.items()
    ),
    *(
        Target(module, name, "mlflow", read, _param if name == "log_param" else None)
        for module in ("mlflow", "mlflow.tracking.fluent")
        for name, read in _FLUENT.items()
    ),
    # For those who have imported a function of the above before it was replaced.
    *(
        Target(
            "mlflow.tracking.client",
            f"MlflowClient.{name}",
            "mlflow",
            read,
            _client_param if name == "log_param" else None,
        )
        for name, read in _CLIENT.items()
    ),
    Target("wandb.sdk.wandb_run", "Run.log", "wandb", _run_log),
    # Of a run that is disabled.
    Target("wandb.sdk.lib.noop_run", "NoopRun.log", "wandb", _run_log),
    # The method of a run, once there is one; made when the run began.
    Target("wandb", "log", "wandb", _wandb_log),
)
LOCAL = ("print", "logging")
"""Shown where the program runs, and nowhere else: a replay shows them too."""
