"""The settings: one table of them, and which value of each holds.

A value comes from the nearest file ``chexpoint.toml``, or ``pyproject.toml`` with a table
``[tool.chexpoint]``, at or above a folder; an environment variable goes before it.  What is wrong
is said in one line that names its place, and is not used.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from chexpoint.errors import InvalidValue, suggestion
from chexpoint.model import DEFAULT_OVERHEAD, KeepStrategy, parse_overhead, parse_size

FILE_NAME = "chexpoint.toml"
PROJECT_FILE_NAME = "pyproject.toml"
TABLE = "tool.chexpoint"

Kind = Literal["size", "share", "fraction", "choice", "place", "key"]
Value = int | float | str | None

_NO_PLACE = frozenset({"off", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What can be set, and how."""

    name: str
    """The key in a file."""
    kind: Kind
    default: str = ""
    unset: str = ""
    """What holds if there is no value at all, in words."""
    help: str
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"CHEX_{self.name.upper()}"

    @property
    def is_secret(self) -> bool:
        """Whether it is neither shown nor read from a file, which others may see."""
        return self.kind == "key"

    def parse(self, text: str) -> Value:
        """Return what a text means.

        Raises
        ------
        InvalidValue
            If it means nothing.
        """
        match self.kind:
            case "size":
                # Nothing at all can be meant for files only; a budget of nothing is a slip.
                return 0 if text == "0" and self.name == "keep_files" else parse_size(text)
            case "share":
                return parse_overhead(text)
            case "fraction":
                return _fraction(text)
            case "choice" if text not in self.choices:
                names = f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
                raise InvalidValue(f"'{text}' is not a mode: choose {names}")
        return text


SETTINGS = (
    Setting(
        name="budget",
        kind="size",
        unset="half of the available memory",
        help="how much memory all checkpoints of a kernel may hold together, such as 4G",
    ),
    Setting(
        name="auto",
        kind="choice",
        default="rule",
        choices=("rule", "always", "never"),
        help="when checkpoints are taken by themselves: after cells that are worth it (rule), after"
        " every cell (always), or not at all (never)",
    ),
    Setting(
        name="audit",
        kind="choice",
        default="auto",
        choices=("auto", "hook", "off"),
        help="how the inputs of cells are seen: by system calls where the machine allows it (auto),"
        " by Python's audit hook (hook), or not at all (off)",
    ),
    Setting(
        name="keep_files",
        kind="size",
        default="32M",
        help="the largest file whose contents are kept in .chex; 0 keeps none",
    ),
    Setting(
        name="persist",
        kind="choice",
        default="off",
        choices=("on", "always", "off"),
        help="which states kernels keep on disk from the start: those that took more than a second"
        " (on), all (always) or none (off)",
    ),
    Setting(
        name="store_budget",
        kind="size",
        unset="no limit",
        help="the most disk that the store of a project may take, such as 20G",
    ),
    Setting(
        name="store_key",
        kind="key",
        unset="your own key",
        help="the key that stored states are signed with, as 32 to 128 hexadecimal digits; in the"
        " environment only, because it is a secret",
    ),
    Setting(
        name="overhead",
        kind="share",
        default=repr(DEFAULT_OVERHEAD),
        help="which share of the time of a loop its recording may take, such as 3%; always keeps"
        " every state, off records no loops",
    ),
    Setting(
        name="materialiser",
        kind="choice",
        default="staging",
        choices=("staging", "fork"),
        help="how checkpoints of loops leave the training",
    ),
    Setting(
        name="graph",
        kind="place",
        unset=".chex/graph.sqlite of the project",
        help="the experiment graph: a file, or a URL such as postgresql://ada@host/database; off"
        " for none",
    ),
    Setting(
        name="graph_store",
        kind="place",
        unset="beside the graph",
        help="where large contents of the graph go: a folder, or a URL such as s3://bucket/folder",
    ),
    Setting(
        name="graph_budget",
        kind="size",
        default="4G",
        help="the most that these may take",
    ),
    Setting(
        name="graph_keep",
        kind="choice",
        default="storage-aware",
        choices=get_args(KeepStrategy),
        help="how it is chosen what of the graph is stored",
    ),
    Setting(
        name="graph_alpha",
        kind="fraction",
        default="0.5",
        help="how much the quality of models counts against the time that is saved, from 0 to 1",
    ),
)
"""All settings there are."""

_BY_NAME = {each.name: each for each in SETTINGS}


@dataclass(frozen=True, slots=True)
class Held:
    """The value of a setting that holds."""

    setting: Setting
    text: str
    source: str
    """``default``, the environment variable, or the file."""

    @property
    def value(self) -> Value:
        """What the text means; None if there is none.

        Raises
        ------
        InvalidValue
            If it means nothing; the message names where it stands.
        """
        if not self.text:
            return None
        try:
            return self.setting.parse(self.text)
        except InvalidValue as error:
            raise InvalidValue(f"{self.place}: {error}") from None

    @property
    def place(self) -> str:
        """Where it stands: the variable, or the key and its file."""
        if self.source in {"default", self.setting.variable}:
            return self.setting.variable
        return f"{self.source}: {self.setting.name}"

    @property
    def said(self) -> str:
        """What the user has said, where."""
        if self.source in {"default", self.setting.variable}:
            return f"{self.setting.variable}={self.text}"
        return f"{self.setting.name} = {self.text} in {self.source}"


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a file says."""

    path: Path
    values: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    is_readable: bool = True


class Config:
    """Which values hold for a folder.

    Parameters
    ----------
    file
        The nearest one, if there is one.
    environ
        Read at each question, so that a change is seen.
    defaults
        Settings that have their default value, whatever is said.
    """

    def __init__(
        self,
        file: SettingsFile | None,
        environ: Mapping[str, str],
        *,
        defaults: Collection[str] = (),
    ) -> None:
        self.file = file
        self._environ = environ
        self._defaults = defaults

    @classmethod
    def at(
        cls, folder: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None
    ) -> Config:
        """Return the settings that hold in a folder; the environment is that of the process."""
        return cls(find_file(Path(folder)), os.environ if environ is None else environ)

    def held(self, name: str) -> Held:
        """Return the value of a setting, and where it comes from."""
        setting = _BY_NAME[name]
        if name in self._defaults:
            return Held(setting, setting.default, "default")
        if text := self._environ.get(setting.variable, ""):
            return Held(setting, text, setting.variable)
        if self.file is not None and name in self.file.values:
            return Held(setting, self.file.values[name], str(self.file.path))
        return Held(setting, setting.default, "default")

    def size(self, name: str) -> int | None:
        """Return the value of a size, in bytes; None if there is none."""
        value = self._checked(name)
        return value if isinstance(value, int) else None

    def share(self, name: str) -> float | None:
        """Return the value of a share or fraction; None for ``off``."""
        value = self._checked(name)
        return value if isinstance(value, float) else None

    def word(self, name: str) -> str:
        """Return the value of a choice or place; empty if there is none."""
        return str(self._checked(name) or "")

    def _checked(self, name: str) -> Value:
        held = self.held(name)
        if held.source == "default" and self.file is not None and not self.file.is_readable:
            raise InvalidValue(self.file.problems[0])
        return held.value

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in the file or the environment, one line each."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        if self.file is not None:
            yield from self.file.problems
        for setting in SETTINGS:
            try:
                _ = self.held(setting.name).value
            except InvalidValue as error:
                yield str(error)

    def without_problems(self) -> Config:
        """Return the settings with the defaults in place of what is wrong."""
        wrong = set()
        for setting in SETTINGS:
            try:
                _ = self.held(setting.name).value
            except InvalidValue:
                wrong.add(setting.name)
        file = self.file if self.file is None or self.file.is_readable else None
        return Config(file, self._environ, defaults=wrong)

    def export(self) -> None:
        """Give what the file says to processes that this one starts, in whatever folder."""
        for name, text in (self.file.values if self.file else {}).items():
            os.environ.setdefault(_BY_NAME[name].variable, text)

    def for_elsewhere(self) -> dict[str, str]:
        """Return what is set as variables, for engines on other machines.

        Places are of this machine, and secrets do not travel.
        """
        held = (self.held(each.name) for each in SETTINGS if each.kind not in {"place", "key"})
        return {each.setting.variable: each.text for each in held if each.source != "default"}


@cache
def here() -> Config:
    """Return the settings of the folder that this process was in when it was first asked.

    Cells of a worker must not read the file, because it would become one of their inputs: the
    worker asks before its first cell, and its forks have the answer.
    """
    return Config.at()


# ---------------------------------------------------------------- the file


def find_file(folder: Path) -> SettingsFile | None:
    """Return what the nearest file at or above a folder says; None if there is none."""
    folder = folder.absolute()
    for at in (folder, *folder.parents):
        own, project = at / FILE_NAME, at / PROJECT_FILE_NAME
        if _is_trusted(own):
            return _read(own)
        if _is_trusted(project) and (found := _read(project)) is not None:
            return found
    return None


def _is_trusted(path: Path) -> bool:
    """Return whether there is such a file, and not one that anybody may have put there."""
    try:
        if not path.is_file():
            return False
        return not path.parent.stat().st_mode & 0o002 or path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _read(path: Path) -> SettingsFile | None:
    """Return what a file says; None for a ``pyproject.toml`` that says nothing about CHEX."""
    import tomllib

    is_project = path.name == PROJECT_FILE_NAME
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if is_project and TABLE not in text:
            return None  # that is for others to say
        why = error.strerror if isinstance(error, OSError) else error
        return SettingsFile(path, problems=(f"{path}: {why}",), is_readable=False)
    if is_project:
        tools = table.get("tool")
        if not isinstance(tools, dict) or "chexpoint" not in tools:
            return None
        table = tools["chexpoint"]
        if not isinstance(table, dict):
            return SettingsFile(path, problems=(f"{path}: {TABLE} is not a table",))
    return _understood(path, table)


def _understood(path: Path, table: Mapping[str, object]) -> SettingsFile:
    values: dict[str, str] = {}
    problems: list[str] = []
    for name, value in table.items():
        setting = _BY_NAME.get(name)
        text = _as_text(value)
        if setting is None:
            known = [each.name for each in SETTINGS if not each.is_secret]
            problems.append(f"{path}: no setting '{name}'. {suggestion(name, known)}")
        elif setting.is_secret:
            problems.append(f"{path}: {name} is a secret: set {setting.variable} instead")
        elif text is None or (value is True and setting.kind == "place"):
            problems.append(f"{path}: {name}: write a text or a number")
        else:
            values[name] = _place(path, text) if setting.kind == "place" else text
    return SettingsFile(path, values, tuple(problems))


def _as_text(value: object) -> str | None:
    """Return a value of TOML as one would write it into a variable; None if one could not."""
    match value:
        case bool():
            return "on" if value else "off"
        case str() | int() | float():
            return str(value)
    return None


def _place(file: Path, text: str) -> str:
    """Return a path with the folder of the file before it; URLs as they are."""
    if not text or text in _NO_PLACE or "://" in text:
        return text
    return str(file.parent / Path(text).expanduser())


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InvalidValue(f"'{text}' is not a number from 0 to 1")
    return value


__all__ = [
    "FILE_NAME",
    "SETTINGS",
    "Config",
    "Held",
    "Setting",
    "SettingsFile",
    "find_file",
    "here",
]
