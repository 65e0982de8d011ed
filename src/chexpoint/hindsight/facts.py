"""What the values of a run may depend on besides its code and its state."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from typing import Any

_LIBRARIES = ("numpy", "torch", "sklearn", "keras")


def facts_now() -> dict[str, Any]:
    """Return the versions of Python and libraries, the machine, and how many threads compute."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "argv": list(sys.argv),
    }
    for name in _LIBRARIES:
        if (module := sys.modules.get(name)) is not None:
            facts[name] = str(getattr(module, "__version__", ""))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        facts["torch_threads"] = torch.get_num_threads()
    return facts


def differences(recorded: Mapping[str, Any]) -> list[str]:
    """Return what is not as it was in a run, one sentence each."""
    now = facts_now()
    return [
        f"{name} was {recorded[name]} in the record and is {now[name]} now"
        for name in ("python", "machine", *_LIBRARIES)
        if name in recorded and name in now and recorded[name] != now[name]
    ]


def use_threads(recorded: Mapping[str, Any]) -> None:
    """Compute with as many threads as a run did: sums of floats depend on it."""
    torch, threads = sys.modules.get("torch"), recorded.get("torch_threads")
    if torch is not None and isinstance(threads, int) and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
