"""The options of commands that can have other machines compute."""

from __future__ import annotations

import argparse

from chexpoint.errors import InvalidValue


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add where a cluster is."""
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="compute on a Dask cluster: the address of its scheduler, such as tcp://10.0.0.1:8786",
    )
    parser.add_argument(
        "--local-cluster",
        metavar="N",
        help="start a Dask cluster of N workers here, and compute on it",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="a folder or URL that all hosts of the cluster see, for large files",
    )


def chosen_cluster(args: argparse.Namespace) -> str | int | None:
    """Return where a command line wants to compute; None is here, without a cluster.

    Raises
    ------
    InvalidValue
        If it says two things, or nothing that can be understood.
    """
    if args.scheduler is not None and args.local_cluster is not None:
        raise InvalidValue("--scheduler, or --local-cluster: leave one of them out")
    if args.local_cluster is not None:
        text = args.local_cluster.strip()
        if not text.isdecimal() or int(text) < 1:
            raise InvalidValue(f"--local-cluster {args.local_cluster}: give 1 or more")
        return int(text)
    if args.scheduler is not None:
        if not args.scheduler.strip():
            raise InvalidValue("--scheduler needs an address, such as tcp://10.0.0.1:8786")
        return str(args.scheduler)
    if args.store is not None:
        raise InvalidValue("--store is for a cluster: add --scheduler or --local-cluster")
    return None
