"""The command line of benchmarks that have sections, each with a bar or without."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Row = dict[str, Any]


def run_sections(
    sections: Mapping[str, Callable[[bool], Row]], *, about: str, quick_help: str
) -> int:
    """Run the sections that the user names, print what they return, and return the exit code.

    Parameters
    ----------
    sections
        Called with whether ``--quick`` was given; ``is_met`` of what they return is their bar.
    about
        The text of the benchmark, whose first line is shown by ``--help``.
    quick_help
        What ``--quick`` leaves out.
    """
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=quick_help)
    parser.add_argument("--only", default=",".join(sections), help="sections, with commas between")
    args = parser.parse_args()
    found: Row = {}
    for name in args.only.split(","):
        started = time.perf_counter()
        found[name] = sections[name](args.quick)
        found[name]["section_s"] = round(time.perf_counter() - started, 1)
    missed = [n for n, section in found.items() if section.get("is_met", True) is not True]
    found["missed"] = missed
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return int(bool(missed))
