"""Settings of an engine, from what the user has set and from what the machine has."""

from __future__ import annotations

import os
from dataclasses import dataclass

from chexpoint.config import Config
from chexpoint.engine import proc
from chexpoint.engine.memory import available_bytes
from chexpoint.errors import InvalidValue
from chexpoint.model import AutoMode, Bytes

_RESERVE_SHARE = 0.05
_FALLBACK_BUDGET = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an engine is to behave."""

    budget_bytes: Bytes
    reserve_bytes: Bytes
    """Checkpoints go when less memory than this is left."""
    auto: AutoMode
    persist: AutoMode
    """Which states are kept on disk from the start."""
    store_budget: Bytes | None
    """Most disk they may take; None leaves it to the store."""
    overhead: float | None
    """The share of time that checkpoints of loops may take; None records no loops."""
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


PERSIST_WORDS: dict[str, AutoMode] = {"on": "rule", "always": "always", "off": "never"}
"""How a user says which states are to be kept on disk."""


def persist_mode(text: str) -> AutoMode:
    """Return which states are kept on disk, from how a user says it."""
    if text in PERSIST_WORDS:
        return PERSIST_WORDS[text]
    raise InvalidValue(f"'{text}' is not a mode: choose on, always or off")


def settings_from(config: Config) -> tuple[Settings, list[str]]:
    """Return the settings, and what is wrong with those of the user, which is then not used."""
    wrong = list(config.problems)
    config = config.without_problems()
    missing, can_fork = _look_around()
    settings = Settings(
        budget_bytes=config.size("budget") or default_budget(),
        reserve_bytes=int(available_bytes() * _RESERVE_SHARE),
        auto=auto_mode(config.word("auto")),
        persist=persist_mode(config.word("persist")),
        store_budget=config.size("store_budget"),
        overhead=config.share("overhead"),
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
    if not proc.can_adopt_orphans():
        missing.append("this process cannot adopt orphans: no checkpoints are taken")
        can_fork = False
    return missing, can_fork
