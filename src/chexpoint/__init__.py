"""CHEX: a Jupyter kernel that records versions of notebooks and goes back to any of them."""

from __future__ import annotations

# Not from typing, which takes longer to import than the rest of what starts a worker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from IPython.core.interactiveshell import InteractiveShell

    from chexpoint.engine.variable_scores import score
    from chexpoint.hindsight import SkipBlock, load, log, loop, save

__version__ = "0.1.0"

__all__ = [
    "SkipBlock",
    "__version__",
    "load",
    "load_ipython_extension",
    "log",
    "loop",
    "save",
    "score",
    "unload_ipython_extension",
]

_FOR_PROGRAMS = ("SkipBlock", "load", "log", "loop", "save")


def __getattr__(name: str) -> Any:
    if name in _FOR_PROGRAMS:
        from chexpoint import hindsight

        return getattr(hindsight, name)
    if name == "score":
        from chexpoint.engine.variable_scores import score

        return score
    raise AttributeError(f"module 'chexpoint' has no attribute '{name}'")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics of CHEX in ``shell``; ``%load_ext chexpoint`` calls this."""
    from chexpoint import magics

    magics.load_ipython_extension(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Stop recording in a kernel that is not CHEX's; ``%unload_ext chexpoint`` calls this."""
    from chexpoint import magics

    magics.unload_ipython_extension(shell)
