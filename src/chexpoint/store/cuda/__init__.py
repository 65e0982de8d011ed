"""The de-duplicator on a CUDA device: the array stays there, and only what is new leaves it.

`CudaDiffer` finds exactly what the engines on the CPU find.  Kernels are in one file of CUDA C,
which CuPy compiles; `Device` is all that the rest asks of it, so that tests can run the same
kernels without one.
"""

from chexpoint.store.cuda.device import KERNELS, OPTIONS, Device, DeviceArray
from chexpoint.store.cuda.differ import CudaDiffer

__all__ = ["KERNELS", "OPTIONS", "CudaDiffer", "Device", "DeviceArray"]
