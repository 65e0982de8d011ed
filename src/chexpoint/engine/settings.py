"""Settings of an engine, from the environment and from what the machine has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from chexpoint.engine import proc
from chexpoint.engine.memory import available_bytes
from chexpoint.errors import InvalidValue
from chexpoint.model import AutoMode, Bytes, parse_size

AUDIT_MODES = ("auto", "hook", "off")
_RESERVE_SHARE = 0.05
_FALLBACK_BUDGET = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an engine is to behave."""

    budget_bytes: Bytes
    reserve_bytes: Bytes
    """Checkpoints go when less memory than this is left."""
    auto: AutoMode
    missing: tuple[str, ...]
    """What this machine lacks, one sentence each."""
    can_fork: bool
    """Whether checkpoints can be taken at all."""


def default_budget() -> Bytes:
    """Return half of the available memory."""
    available = available_bytes()
    return available // 2 if 0 < available < 2**60 else _FALLBACK_BUDGET


def auto_mode(text: str) -> AutoMode:
    """Return the automatic mode of that name."""
    match text:
        case "rule" | "always" | "never":
            return text
    raise InvalidValue(f"'{text}' is not a mode: choose rule, always or never")


def settings_from(environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Return the settings, and what is wrong with the environment's, which is then not used."""
    wrong = []
    budget, auto = 0, auto_mode("rule")
    try:
        if text := environ.get("CHEX_BUDGET"):
            budget = parse_size(text)
    except InvalidValue as error:
        wrong.append(f"CHEX_BUDGET: {error}")
    try:
        if text := environ.get("CHEX_AUTO"):
            auto = auto_mode(text)
    except InvalidValue as error:
        wrong.append(f"CHEX_AUTO: {error}")
    audit = environ.get("CHEX_AUDIT", "auto")
    if audit not in AUDIT_MODES:
        wrong.append(f"CHEX_AUDIT: '{audit}' is not a mode: choose {', '.join(AUDIT_MODES)}")
    missing, can_fork = _look_around()
    settings = Settings(
        budget_bytes=budget or default_budget(),
        reserve_bytes=int(available_bytes() * _RESERVE_SHARE),
        auto=auto,
        missing=tuple(missing),
        can_fork=can_fork,
    )
    return settings, wrong


def _look_around() -> tuple[list[str], bool]:
    """Return what CHEX lacks here, in sentences, and whether it can checkpoint all the same."""
    missing, can_fork = [], True
    if not os.path.isdir("/proc/self/task") or not os.path.exists("/proc/self/maps"):
        missing.append("/proc is not readable: hazards cannot be seen, so no checkpoints are taken")
        can_fork = False
    elif proc.memory(os.getpid()) is None:
        missing.append("/proc/PID/smaps_rollup is not readable: checkpoint sizes are estimates")
    if not proc.prctl(proc.PR_SET_CHILD_SUBREAPER, 1):
        missing.append("this process cannot adopt orphans: no checkpoints are taken")
        can_fork = False
    return missing, can_fork
