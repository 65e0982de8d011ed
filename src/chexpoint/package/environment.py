"""The Python that versions were recorded with, and how another one differs from it."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions

from chexpoint.model import EnvironmentInfo

OURS = "chexpoint"

_RELEASE = re.compile("[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_SEPARATORS = re.compile("[-_.]+")


def normalised(name: str) -> str:
    """Return the name of a distribution as all its spellings have it (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A distribution that is installed here."""

    version: str
    requires: tuple[str, ...]
    """What it requires, as it says itself; that of its extras included."""
    extras: tuple[str, ...]
    is_local: bool
    """Whether it came from elsewhere than an index: a folder, a repository, a file (PEP 610)."""


def installed() -> dict[str, Installed]:
    """Return what is installed, by normalised name; of two of the same name, what Python finds."""
    found: dict[str, Installed] = {}
    for distribution in distributions():
        # Each time it is asked for, it is read again.
        metadata = distribution.metadata
        # A broken one has no name, whatever its types say.
        name = normalised(str(metadata["Name"] or ""))
        if name and name not in found:
            found[name] = Installed(
                version=str(metadata["Version"] or ""),
                requires=tuple(metadata.get_all("Requires-Dist") or ()),
                extras=tuple(metadata.get_all("Provides-Extra") or ()),
                is_local=distribution.read_text("direct_url.json") is not None,
            )
    return found


def environment_info() -> EnvironmentInfo:
    """Return the Python that is running, and all packages that are installed for it."""
    return EnvironmentInfo(
        python=platform.python_version(),
        implementation=sys.implementation.name,
        machine=platform.machine(),
        system=platform.system(),
        packages=tuple(
            (name, each.version)
            for name, each in sorted(installed().items())
            if _RELEASE.fullmatch(each.version)
        ),
    )


def minor_version(python: str) -> str:
    """Return the ``3.11`` of ``3.11.2``."""
    return ".".join(python.split(".")[:2])


def environment_differences(
    recorded: EnvironmentInfo, now: EnvironmentInfo, needed: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return how an environment differs from the recorded one, in sentences.

    Parameters
    ----------
    needed
        The packages that count; None is all of them.
    """
    return (*_python_differences(recorded, now), *_package_differences(recorded, now, needed))


def _python_differences(recorded: EnvironmentInfo, now: EnvironmentInfo) -> Iterator[str]:
    if recorded.implementation and recorded.implementation != now.implementation:
        yield f"recorded with {recorded.implementation}, and this is {now.implementation}"
    if recorded.python and minor_version(recorded.python) != minor_version(now.python):
        yield f"recorded with Python {recorded.python}, and this is {now.python}"
    if recorded.machine and recorded.machine != now.machine:
        yield f"recorded on {recorded.machine}, and this machine is {now.machine}"


def _package_differences(
    recorded: EnvironmentInfo, now: EnvironmentInfo, needed: Collection[str] | None
) -> Iterator[str]:
    here = dict(now.packages)
    for name, version in recorded.packages:
        if name == OURS or (needed is not None and name not in needed):
            continue
        if name not in here:
            yield f"{name} {version} is not installed"
        elif here[name] != version:
            yield f"{name} is {here[name]} here, and was {version}"


def how_to_create(package: str, recorded: EnvironmentInfo) -> tuple[str, ...]:
    """Return the commands that make an environment like the recorded one, and replay in it.

    Parameters
    ----------
    package
        The file, as the user has called it.
    """
    python = f"python{minor_version(recorded.python)}" if recorded.python else "python3"
    file = shlex.quote(package)
    return (
        f"unzip -o {file} requirements.lock",
        f"{python} -m venv chex-venv",
        f"chex-venv/bin/python -m pip install {OURS} -r requirements.lock",
        f"chex-venv/bin/chex replay {file}",
    )


def pin(name: str, version: str) -> str:
    """Return the line of a lock file for a package.

    The local part of a version, such as ``+cpu``, is left out: indexes do not have it, and a pin
    without it fits such a version too.
    """
    return f"{name}=={version.partition('+')[0]}"
