"""How what one run of a cell showed and wrote compares with another: the same, close, different."""

from chexpoint.compare.files import compare_files
from chexpoint.compare.finding import Comparison
from chexpoint.compare.logs import missing_from_log
from chexpoint.compare.outputs import compare_outputs
from chexpoint.compare.tolerance import Tolerance

__all__ = ["Comparison", "Tolerance", "compare_files", "compare_outputs", "missing_from_log"]
