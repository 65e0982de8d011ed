"""The CHEX kernel: the engine behind Jupyter's sockets; ``python -m chexpoint.kernel``."""
