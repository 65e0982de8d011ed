"""The first moments of a kernel: start the worker, then load everything else beside it.

Until the worker is started, every import delays the user.
"""

import gc
import os
import sys

from chexpoint.engine import PLAIN, Spawner


def launch(argv: list[str]) -> int:
    """Run a kernel until it is shut down; return the exit code."""
    file, rest = split_options(argv)
    if file is None:
        file = _new_connection_file()
    options = ["-f", file, "--ext=chexpoint", *rest]
    spawner = Spawner(options)
    if _has_ports(file):  # else the worker would not learn which were chosen
        try:
            spawner.start_ahead()
        except OSError as error:
            return _run_plain(options, f"no process can be started here ({error.strerror})")

    gc.disable()
    from chexpoint.errors import ChexError
    from chexpoint.kernel.app import run

    # Modules stay: no collection need look at them.
    gc.freeze()
    gc.enable()
    try:
        run(file, spawner)
    except ChexError as error:
        print(f"chex: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run_plain(options: list[str], reason: str) -> int:
    """Run the stock kernel in this process: better no checkpoints than no kernel."""
    from ipykernel.kernelapp import IPKernelApp

    print(f"chex: {reason}: running without checkpoints", file=sys.stderr)
    os.environ[PLAIN] = reason  # for %chex_status
    IPKernelApp.launch_instance(argv=options)
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


def _has_ports(file: str) -> bool:
    import json

    try:
        with open(file) as opened:
            info = json.load(opened)
        return all(info[f"{name}_port"] for name in ("shell", "control", "stdin", "iopub", "hb"))
    except (OSError, ValueError, KeyError, TypeError):
        return False  # what is wrong with it will be said when it is read


def _new_connection_file() -> str:
    from jupyter_core.paths import jupyter_runtime_dir

    folder = jupyter_runtime_dir()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, f"kernel-{os.getpid()}.json")
