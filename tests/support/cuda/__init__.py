"""Runs the kernels of the CUDA engine without a device: as source, and as what is compiled."""
