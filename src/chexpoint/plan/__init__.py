"""Replay planners: the least recomputation within a memory budget.

Pure functions over values of the model, no I/O.
"""
