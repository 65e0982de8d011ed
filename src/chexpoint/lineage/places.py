"""Which files count, and how they are called.

Names are relative to the project, the temporary folder or the home folder, so
that the same notebook elsewhere has the same lineage.  Files of Python and of
the system are only counted: the environment fingerprint stands for them.
"""

from __future__ import annotations

import enum
import os
import re
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterable


class Kind(enum.Enum):
    """What a file in a folder is to a cell."""

    DATA = enum.auto()
    ENVIRONMENT = enum.auto()
    """Belongs to Python, an installed package, or the system."""
    CACHE = enum.auto()
    """A ``__pycache__``: its source counts instead."""
    IGNORED = enum.auto()
    """Says nothing about results: devices, histories, caches of fonts."""


_SYSTEM = (
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share",
    "/usr/bin",
    "/usr/sbin",
    "/usr/include",
    "/usr/local/lib",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/local/cuda",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/snap",
    "/nix/store",
    "/gnu/store",
    "/var/lib/dpkg",
    "/var/cache/fontconfig",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ipython",
    "/etc/jupyter",
    "/etc/ld.so.conf.d",
    "/etc/profile.d",
    "/etc/security",
    "/etc/selinux",
    "/etc/ssl",
    "/etc/pki",
    "/etc/terminfo",
)
_PREFIX_FOLDERS = (
    "bin",
    "conda-meta",
    "etc",
    "include",
    "lib",
    "lib64",
    "libexec",
    "sbin",
    "share",
)
_NOT_FILES = ("/proc", "/sys", "/dev")
_SHARED_MEMORY = "/dev/shm"
_HOME_IGNORED = (
    ".cache/fontconfig",
    ".cache/jedi",
    ".cache/matplotlib",
    ".cache/mesa_shader_cache",
    ".cache/pip",
    ".cache/parso",
    ".config/matplotlib",
    ".ipython",
    ".jupyter",
    ".local/share/jupyter",
    ".nv",
    ".terminfo",
)
# Beside data: these single files are the system's.
_SYSTEM_FILES = re.compile(
    r"/etc/(ld\.so\.[^/]*|nsswitch\.conf|passwd|group|hosts|hostname|resolv\.conf|localtime|timezone"
    r"|host\.conf|gai\.conf|mime\.types|inputrc|protocols|services|os-release|debian_version"
    r"|lsb-release|bash\.bashrc|profile|environment|locale\.(alias|gen|conf)|machine-id|shells"
    r"|login\.defs|papersize|magic|krb5\.conf|odbc[^/]*|issue|fstab|mtab|gitconfig|python3[^/]*)"
)
_SYSTEM_NAMES = frozenset(
    (
        "pyvenv.cfg",
        ".bash_logout",
        ".bash_profile",
        ".bashrc",
        ".editrc",
        ".inputrc",
        ".profile",
        ".python_history",
    )
)
_SKIPPED_NAMES = ("__pycache__", ".chex", ".ipynb_checkpoints")
# Names that Python, joblib and others draw by lot, in folders made for that.
_RANDOM_NAMES = re.compile(
    r"^((?:tmp|pymp-)(?=[a-z0-9_]{8}(?:$|\.))|(?:psm_|sem\.mp-|sem\.loky-|loky-)"
    r"|joblib_memmapping_folder_)[A-Za-z0-9_-]{6,}(?=$|\.)"
)


class Places:
    """The folders that names are relative to, and those whose files do not count."""

    def __init__(
        self,
        project: str,
        *,
        home: str | None = None,
        tmp: str | None = None,
        ignored: Iterable[str] = (),
        environment: Iterable[str] | None = None,
    ) -> None:
        self.project = os.path.realpath(project)
        self.tmp = os.path.realpath(tmp or tempfile.gettempdir())
        self.home = os.path.realpath(home or os.path.expanduser("~"))
        self._bases = _deepest_first([(self.project, "."), (self.tmp, "$TMP"), (self.home, "~")])
        self.bases = frozenset(base for base, _ in self._bases)
        self._ignored = {os.path.realpath(path) for path in ignored}
        self._ignored.update(os.path.join(self.home, path) for path in _HOME_IGNORED)
        self._ignored.update(_NOT_FILES)
        if ipython := os.environ.get("IPYTHONDIR"):
            self._ignored.add(os.path.realpath(ipython))
        found = python_folders() if environment is None else environment
        self._environment = {os.path.realpath(path) for path in (*_SYSTEM, *found)}

    def ignore(self, paths: Iterable[str]) -> None:
        """Leave out the files below some more folders."""
        self._ignored.update(os.path.realpath(path) for path in paths)

    def kind(self, folder: str) -> Kind:
        """Return what the files in a folder (its real path) are."""
        if folder == _SHARED_MEMORY or folder.startswith(_SHARED_MEMORY + "/"):
            return Kind.DATA
        found = Kind.DATA
        at = folder
        # Wherever the project is, its files are data.
        while at not in {self.project, "/", ""}:
            if at in self._ignored:
                return Kind.IGNORED
            parent, _, name = at.rpartition("/")
            if name.startswith(".") and name in _SKIPPED_NAMES:
                return Kind.IGNORED
            if name.startswith("ipykernel_") and parent == self.tmp:
                return Kind.IGNORED  # cell sources, for tracebacks
            if found is Kind.DATA and at in self._environment:
                found = Kind.ENVIRONMENT
            at = parent
        if found is Kind.DATA and folder.endswith("/__pycache__"):
            return Kind.CACHE
        return found

    def kind_below(self, parent: Kind, folder: str) -> Kind:
        """Return the kind of a folder in one whose kind is known; quicker than `kind`."""
        if parent in {Kind.ENVIRONMENT, Kind.IGNORED} and not self.project.startswith(folder):
            return parent if folder != _SHARED_MEMORY else Kind.DATA
        return self.kind(folder)

    def is_system_file(self, path: str) -> bool:
        """Return whether a single file beside data belongs to the system."""
        if path.startswith("/etc/"):
            return _SYSTEM_FILES.fullmatch(path) is not None
        return path.rpartition("/")[2] in _SYSTEM_NAMES

    def name(self, path: str) -> str:
        """Return how a file (its real path) is called, whoever runs the notebook, and where."""
        for base, name in self._bases:
            if path == base:
                return name
            if path.startswith(base + "/"):
                rest = path[len(base) :]
                return name + (without_lots(rest) if name == "$TMP" else rest)
        if path.startswith(_SHARED_MEMORY + "/"):
            return without_lots(path)
        return path

    def normalise(self, text: str) -> str:
        """Return a value, such as that of a variable, with the folders in it named alike."""
        for base, name in _deepest_first([*self._bases, (sys.prefix, "$PREFIX")]):
            text = re.sub(r"(?<![\w.-])" + re.escape(base) + r"(?=[/:;]|$)", name, text)
        return text


def _deepest_first(bases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the folders in the order in which names are to be relative to them."""
    kept = [(base, name) for base, name in bases if base != "/"]
    return sorted(kept, key=lambda entry: -len(entry[0]))


def listed_names(names: Iterable[bytes]) -> list[bytes]:
    """Return what counts of a folder's entries, in order."""
    skipped = {name.encode() for name in _SKIPPED_NAMES}
    return sorted(name for name in names if name not in skipped)


def without_lots(rest: str) -> str:
    """Return a path below a temporary folder without what is drawn by lot."""
    return "/".join(_RANDOM_NAMES.sub(r"\1*", part) for part in rest.split("/"))


def python_folders() -> list[str]:
    """Return the folders of this Python and of what is installed for it."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found.update(site.getsitepackages())
    found.add(site.getusersitepackages())
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}:
        if prefix not in {"/", "/usr", "/usr/local"}:
            found.update(os.path.join(prefix, name) for name in _PREFIX_FOLDERS)
    # Only the folder of this package: in a source tree its neighbours are the user's.
    found.add(os.path.dirname(os.path.dirname(__file__)))
    return sorted(found)
