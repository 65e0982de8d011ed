"""A virtual environment with the packages that versions were recorded with."""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from chexpoint.errors import InvalidValue, PackageError
from chexpoint.package.environment import OURS, installed, minor_version

Progress = Callable[[str], None]
"""Called with what is being done, in a few words."""

# A requirements file can also name files, addresses and other indexes: a stranger's may not.
_PIN = re.compile("[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_TOLD = re.compile(r"(?:Collecting|Installing collected packages:) .*")
_ERROR = re.compile(r"(?:ERROR|error): (.*)")
_LAST_LINES = 30
_PATIENCE_S = 60


def pins_of(lock: str) -> tuple[str, ...]:
    """Return the pins of a lock file.

    Raises
    ------
    PackageError
        If there is anything else in it: pip would do what it says.
    """
    found = []
    for line in lock.splitlines():
        if not line or line.startswith("#"):
            continue
        if _PIN.fullmatch(line) is None:
            raise PackageError(f"a line of the lock file is no pin: {line[:60]!a}")
        found.append(line)
    return tuple(found)


def own_requirements() -> tuple[str, ...]:
    """Return what CHEX itself requires, as its distribution says."""
    ours = installed().get(OURS)
    return tuple(line for line in (ours.requires if ours else ()) if "extra ==" not in line)


def find_python(version: str) -> str:
    """Return a Python of the same minor version as another one, such as ``3.11.2``.

    Raises
    ------
    InvalidValue
        If there is none.
    """
    wanted = minor_version(version)
    if not version or wanted == minor_version(".".join(map(str, sys.version_info[:2]))):
        return sys.executable
    found = shutil.which(f"python{wanted}")
    if found is not None and _is_python(found, wanted):
        return found
    raise InvalidValue(
        f"there is no python{wanted} on the PATH, with which the versions were recorded: install "
        f"Python {wanted}, or replay without --venv"
    )


def _is_python(program: str, minor: str) -> bool:
    """Return whether a program runs, is that Python, and can make environments."""
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        result = subprocess.run(
            [program, "-I", "-c", code],
            check=False,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return result.returncode == 0 and result.stdout.strip() == minor


def build_venv(
    folder: Path,
    lock: str,
    progress: Progress = lambda _: None,
    *,
    python: str = "",
    also: Sequence[str] | None = None,
) -> Path:
    """Make a virtual environment with the packages of a lock file, and CHEX as it is running now.

    Packages may run code of their own while they are installed: ask before.

    Parameters
    ----------
    folder
        Is made; it must not exist yet, or be empty.
    python
        The version that is wanted, such as ``3.11.2``; by default, that which is running.
    also
        What to install besides; by default, what CHEX requires.

    Returns
    -------
    Path
        Its Python.

    Raises
    ------
    ChexError
        If that Python is not there, or something cannot be installed, with what and why.
    """
    pins = pins_of(lock)
    program = find_python(python)
    if folder.exists() and any(folder.iterdir()):
        raise InvalidValue(f"{folder} is not empty: name another folder for the environment")
    progress("making a virtual environment")
    _run([program, "-m", "venv", os.fspath(folder)], progress)
    found = folder.absolute() / "bin" / "python"
    wanted = [*pins, *(own_requirements() if also is None else also)]
    if wanted:
        install(found, wanted, progress)
    _copy_chex(found)
    return found


def install(python: Path, wanted: Sequence[str], progress: Progress) -> None:
    """Install packages for a Python.

    Raises
    ------
    PackageError
        If that cannot be done, with what pip says about it.
    """
    pip = [os.fspath(python), "-m", "pip", "install", "--disable-pip-version-check"]
    _run([*pip, "--no-input", "--progress-bar=off", "--prefer-binary", *wanted], progress)


def _run(command: Sequence[str], progress: Progress) -> None:
    """Run a command, telling what it does.

    Raises
    ------
    PackageError
        If it fails, with the last that it said.
    """
    last: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environ,
    ) as process:
        try:
            for line in process.stdout or ():
                last.append(line.strip())
                if _TOLD.match(line):
                    progress(line.strip()[:100])
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise PackageError(f"the environment cannot be made: {_why(list(last))}")


def _why(lines: Sequence[str]) -> str:
    errors = [match[1] for line in lines if (match := _ERROR.match(line))]
    return "; ".join(dict.fromkeys(errors)) or (lines[-1] if lines else "pip said nothing")


def _copy_chex(python: Path) -> None:
    """Copy this very CHEX: what an index has may be another one, or none."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    result = subprocess.run(
        [python, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=_PATIENCE_S
    )
    target = Path(result.stdout.strip()) / OURS
    ours = Path(__file__).parent.parent
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(ours, target, ignore=shutil.ignore_patterns("__pycache__"))
