"""The ``%chex_*`` magics."""

from chexpoint.magics.magics import (
    ChexMagics,
    load_ipython_extension,
    unload_ipython_extension,
)

__all__ = ["ChexMagics", "load_ipython_extension", "unload_ipython_extension"]
