"""The first moments of a kernel: start the worker, then load everything else beside it."""

import sys

from chexpoint.engine import Spawner
from chexpoint.errors import ChexError
from chexpoint.kernel.connection import read_connection_file


def launch(argv: list[str]) -> int:
    """Run a kernel until it is shut down; return the exit code."""
    file, rest = split_options(argv)
    try:
        spec = read_connection_file(file)
        spawner = Spawner(["-f", spec.file, "--ext=chexpoint", *rest])
        if spec.has_ports:  # else the worker would not learn which were chosen
            spawner.start_ahead()
        from chexpoint.kernel.app import run

        run(spec, spawner)
    except ChexError as error:
        print(f"chex: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def split_options(argv: list[str]) -> tuple[str | None, list[str]]:
    """Return the connection file and the other options, which are ipykernel's."""
    file, rest = None, []
    words = iter(argv)
    for word in words:
        if word == "-f":
            file = next(words, None)
        elif word.startswith(("-f=", "--f=", "--IPKernelApp.connection_file=")):
            file = word.partition("=")[2]
        else:
            rest.append(word)
    return file, rest
