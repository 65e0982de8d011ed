"""CHEX: a Jupyter kernel that records versions of notebooks and goes back to any of them."""

from __future__ import annotations

# Not from typing, which takes longer to import than the rest of what starts a worker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"

__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics of CHEX in ``shell``; ``%load_ext chexpoint`` calls this."""
    from chexpoint import magics

    magics.load_ipython_extension(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Stop recording in a kernel that is not CHEX's; ``%unload_ext chexpoint`` calls this."""
    from chexpoint import magics

    magics.unload_ipython_extension(shell)
