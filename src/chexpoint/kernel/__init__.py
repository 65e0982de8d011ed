"""The CHEX kernel: the engine behind Jupyter's sockets."""

from chexpoint.kernel.launch import launch

__all__ = ["launch"]
