"""``chex install``: make the CHEX kernel known to Jupyter."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.resources import bundled
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse

KERNEL_NAME = "chex"

# Stricter than Jupyter, which takes "..": installing under that name would replace the folder
# above the one of the kernels.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class InstallCommand:
    """Write the kernel spec where Jupyter looks for it."""

    name = "install"
    summary = "make the CHEX kernel known to Jupyter"
    example = (
        "  chex install --sys-prefix        into the environment chex runs in\n"
        "  chex install --user              for all your environments\n"
        "  jupyter lab                      then pick the kernel CHEX"
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add where to install, and under which name."""
        where = parser.add_mutually_exclusive_group()
        where.add_argument(
            "--user", action="store_true", help="for the current user, in every environment"
        )
        where.add_argument(
            "--sys-prefix",
            action="store_true",
            help="into the Python environment chex runs in (default inside a virtual environment)",
        )
        where.add_argument("--prefix", metavar="DIR", help="under DIR/share/jupyter/kernels")
        parser.add_argument(
            "--name", default=KERNEL_NAME, help=f"name of the kernel spec (default {KERNEL_NAME})"
        )
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Install, and say where."""
        prefix = sys.prefix if args.sys_prefix else args.prefix
        if prefix is None and not args.user and sys.prefix != sys.base_prefix:
            prefix = sys.prefix
        path = install_spec(name=args.name, prefix=prefix)
        if args.json:
            print(json.dumps({"name": args.name, "path": str(path)}))
        else:
            print(f"kernel '{args.name}' installed in {path}")
            if not _is_found(args.name, path):
                jupyter_folder = path.parent.parent
                print(f"Jupyter finds it there when JUPYTER_PATH contains {jupyter_folder}")
        return 0


def write_spec(
    folder: Path, *, display_name: str | None = None, executable: str = sys.executable
) -> Path:
    """Write the kernel spec and its logos into ``folder`` and return it.

    Parameters
    ----------
    folder
        Created if it does not exist.
    display_name
        What front ends show, if not the bundled name.
    executable
        The Python that is to run the kernel.
    """
    shutil.copytree(bundled("kernel_spec"), folder, dirs_exist_ok=True)
    path = folder / "kernel.json"
    spec = json.loads(path.read_text(encoding="utf-8"))
    spec["argv"][0] = executable
    if display_name is not None:
        spec["display_name"] = display_name
    path.write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")
    return folder


def install_spec(*, name: str = KERNEL_NAME, prefix: str | None = None) -> Path:
    """Install the kernel spec and return its folder.

    Parameters
    ----------
    name
        What front ends ask for; an installed spec of that name is replaced.
    prefix
        Root of an environment; ``None`` installs for the current user.

    Raises
    ------
    InvalidValue
        If ``name`` holds characters that Jupyter does not allow.
    OSError
        If the place cannot be written.
    """
    from jupyter_client.kernelspec import KernelSpecManager

    if not _NAME.fullmatch(name):
        raise InvalidValue(
            f"'{name}' cannot name a kernel. Use letters, digits, '-', '_' and '.', "
            "and no '.' at the start."
        )
    display_name = None if name == KERNEL_NAME else f"CHEX ({name})"
    # The manager warns about folders that Jupyter does not search; the command says it better.
    quiet = logging.getLogger("chexpoint.cli.install.jupyter")
    quiet.setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="chex-spec-") as scratch:
        spec = write_spec(Path(scratch) / KERNEL_NAME, display_name=display_name)
        installed = KernelSpecManager(log=quiet).install_kernel_spec(
            str(spec), kernel_name=name, user=prefix is None, prefix=prefix
        )
    return Path(installed)


def _is_found(name: str, path: Path) -> bool:
    from jupyter_client.kernelspec import KernelSpecManager

    found = KernelSpecManager().find_kernel_specs().get(name.lower())
    return found is not None and Path(found).resolve() == path.resolve()
