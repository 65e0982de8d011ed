"""The command ``chex``: one module per verb."""

from chexpoint.cli.main import main

__all__ = ["main"]
