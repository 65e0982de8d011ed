"""Which of the installed packages some versions need, and the lock file that follows.

The cells say what they import.  That needs other packages in turn, and may use more when they are
there: pandas reads Parquet files if pyarrow is installed, and no cell imports it.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from chexpoint.model import EnvironmentInfo
from chexpoint.package.environment import OURS, Installed, installed, normalised, pin

_IMPORT = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.MULTILINE)
_MAGIC = re.compile(r"^(\s*)[%!?].*$", re.MULTILINE)
_IMPORTERS = {"import_module", "__import__"}
# Extras for those who develop a package; what they name is no part of it.
_DEVELOPMENT = re.compile(
    "all|build|ci|dev|develop|doc|docs|benchmark|benchmarks|lint|maintenance|mypy|style|"
    "test|testing|tests|test-.*|tests-.*|type|types|typing"
)


def imported_modules(source: str) -> set[str]:
    """Return the top-level modules that a cell or a module names in imports.

    Lines that are no Python, such as magics, are left out.
    """
    text = _MAGIC.sub(r"\1pass", source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of strings such as "\d"; the author has seen them
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(_IMPORT.findall(source))
    found: set[str] = set()
    for node in ast.walk(tree):
        found.update(name.partition(".")[0] for name in _named(node))
    return found - {""}


def _named(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name), [ast.Constant(str(module)), *_]):
            if name in _IMPORTERS:
                yield module


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What some versions need of an environment."""

    packages: tuple[str, ...]
    """Normalised names of distributions, sorted."""
    local: frozenset[str] = frozenset()
    """Those that were not installed from an index: from a folder, a repository or a file."""


def needs_of(sources: Iterable[str], environment: EnvironmentInfo) -> Needs:
    """Return what cells and helper modules need, and what CHEX itself needs.

    What is installed here tells which package a module belongs to, and what it needs in turn.

    Parameters
    ----------
    environment
        The one that the versions were recorded in: only what is in it can be needed.
    """
    here = installed()
    known = dict(environment.packages)
    modules = {module for source in sources for module in imported_modules(source)}
    modules -= sys.stdlib_module_names
    owners = _owners(here) if modules else {}
    direct = {
        name
        for module in modules
        for name in owners.get(module, [normalised(module)])
        if name in known
    }
    wanted = _Requirements(here)
    # Of CHEX itself no more is needed than it takes to replay.
    optional = {
        each.name
        for name in direct - {OURS}
        for each in wanted.of(name)
        if each.extra and not _DEVELOPMENT.fullmatch(each.extra) and each.name in known
    }
    needed = _closure({*direct, *optional, OURS}, wanted, known) - {OURS}
    return Needs(
        packages=tuple(sorted(needed)),
        local=frozenset(name for name in needed if name in here and here[name].is_local),
    )


def lock_text(environment: EnvironmentInfo, needs: Needs) -> str:
    """Return a requirements file that pins what is needed to the recorded versions."""
    python = environment.python or "an unknown version"
    lines = [f"# Recorded with Python {python}. Install with: pip install -r requirements.lock"]
    for name, version in environment.packages:
        if name not in needs.packages:
            continue
        if name in needs.local:
            lines.append(
                f"# {name} {version} was not installed from an index: ask the author for it"
            )
        else:
            lines.append(pin(name, version))
    return "".join(f"{line}\n" for line in lines)


# ---------------------------------------------------------------- what is installed here


@dataclass(frozen=True, slots=True)
class _Requirement:
    """One line of what a distribution requires, if it applies here."""

    name: str
    extra: str
    """The extra it belongs to; empty if it is always needed."""
    extras: frozenset[str]
    """The extras that it wants of the other one."""


class _Requirements:
    """What installed distributions require; to find that out takes its time."""

    def __init__(self, here: Mapping[str, Installed]) -> None:
        self._here = here
        self._found: dict[str, tuple[_Requirement, ...]] = {}

    def of(self, name: str) -> tuple[_Requirement, ...]:
        if name not in self._found:
            self._found[name] = tuple(_applying(self._here[name])) if name in self._here else ()
        return self._found[name]


def _applying(distribution: Installed) -> Iterator[_Requirement]:
    """Yield what a distribution requires on this machine, by itself or for an extra."""
    from packaging.requirements import InvalidRequirement, Requirement

    for line in distribution.requires:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue  # old packages have lines that nobody understands any more
        name, marker = normalised(requirement.name), requirement.marker
        inner = frozenset(requirement.extras)
        if marker is None or marker.evaluate({"extra": ""}):
            yield _Requirement(name, "", inner)
            continue
        for extra in distribution.extras:
            if marker.evaluate({"extra": extra}):
                yield _Requirement(name, normalised(extra), inner)


def _owners(here: Collection[str]) -> dict[str, list[str]]:
    """Return the distributions that each top-level module belongs to."""
    from importlib.metadata import packages_distributions

    return {
        module: [found for name in names if (found := normalised(name)) in here]
        for module, names in packages_distributions().items()
    }


def _closure(names: Collection[str], wanted: _Requirements, known: Collection[str]) -> set[str]:
    """Return packages with all that they need, as far as it is known."""
    found: set[tuple[str, str]] = set()
    waiting = [(name, "") for name in names]
    while waiting:
        name, extra = at = waiting.pop()
        if at in found or (name not in known and name != OURS):
            continue
        found.add(at)
        for each in wanted.of(name):
            if each.extra in {"", extra}:
                waiting.append((each.name, ""))
                waiting += [(each.name, normalised(inner)) for inner in each.extras]
    return {name for name, _ in found}
