"""The files that ``chex replay`` leaves behind: a page, a JUnit file, notebooks.

A replay may take hours, so whether they can be written is found out before it begins; and each is
written whole or not at all.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.picture_files import replaceable_file
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    from chexpoint.model import Recording, Replay, Version

_VERB = "chex replay"
_NOTEBOOK = ".ipynb"
_UNSAFE = re.compile(r"[^\w.,=+@-]|^\.")
_JUNIT_START = '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="chex replay'


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFiles:
    """What is to be written, and where; None if it is not."""

    report: Path | None = None
    junit: Path | None = None
    notebooks: Path | None = None

    @classmethod
    def wanted(cls, args: argparse.Namespace) -> ReplayFiles:
        """Return what a command line asks for.

        Raises
        ------
        InvalidValue
            If one of the files cannot be written, or something else would be lost.
        """
        from chexpoint.view import PAGE_START

        notebooks = None if args.notebooks is None else Path(args.notebooks)
        if notebooks is not None:
            _make_folder(notebooks)
            _try_out(notebooks / "notebook")
        return cls(
            report=_file(args.report, "--report", ".html", PAGE_START),
            junit=_file(args.junit, "--junit", ".xml", _JUNIT_START),
            notebooks=notebooks,
        )

    def refuse_other_notebooks(self, recording: Recording) -> None:
        """Refuse to write over notebooks that are no results of a replay.

        Raises
        ------
        InvalidValue
            With the first of them.
        """
        if self.notebooks is None:
            return
        for name in _names(recording.labels).values():
            path = self.notebooks / name
            if path.exists() and not _is_replayed(path):
                raise InvalidValue(
                    f"{path} exists and is not a notebook of {_VERB}: choose another folder"
                )

    def write(self, replay: Replay) -> Written:
        """Write everything that can be written."""
        from chexpoint.view import replay_junit, replay_page

        wanted: list[tuple[Path, Callable[[], str]]] = []
        if self.report is not None:
            wanted.append((self.report, lambda: replay_page(replay)))
        if self.junit is not None:
            wanted.append((self.junit, lambda: replay_junit(replay)))
        if self.notebooks is not None:
            for version, name in _names(replay.recording.labels).items():
                if any(node in replay.cells for node in version.path):
                    wanted.append((self.notebooks / name, partial(_notebook, replay, version)))
        written, problems = [], []
        for path, text in wanted:
            try:
                write_whole(path, text())
                written.append(path)
            except OSError as error:
                problems.append(f"cannot write {path}: {error.strerror or error}")
        return Written(paths=tuple(written), problems=tuple(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What came of writing the files."""

    paths: tuple[Path, ...]
    problems: tuple[str, ...]
    """Why others could not be written, in sentences."""

    def lines(self) -> Iterator[str]:
        """Yield what to tell of it: there may be hundreds of notebooks."""
        notebooks = [path for path in self.paths if path.suffix == _NOTEBOOK]
        yield from (f"wrote {path}" for path in self.paths if path.suffix != _NOTEBOOK)
        if notebooks:
            noun = "notebook" if len(notebooks) == 1 else "notebooks"
            yield f"wrote {len(notebooks)} {noun} into {notebooks[0].parent}"


def _notebook(replay: Replay, version: Version) -> str:
    from chexpoint.view import replay_notebook

    notebook = replay_notebook(replay.recording, version, replay.cells)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees a part of it.

    Raises
    ------
    OSError
        If it cannot be written; then it is as it was.
    """
    partial_file = _partial(path)
    try:
        partial_file.write_text(text, encoding="utf-8")
        partial_file.replace(path)
    finally:
        partial_file.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _file(name: str | None, flag: str, suffix: str, start: str) -> Path | None:
    if name is None:
        return None
    if Path(name).suffix != suffix:
        raise InvalidValue(f"'{name}' does not end in {suffix}: write {flag} FILE{suffix}")
    if Path(name).is_dir():
        raise InvalidValue(f"{name} is a folder: write {flag} FILE{suffix}")
    path = replaceable_file(name, suffix=suffix, start=start, verb=_VERB)
    _make_folder(path.parent)
    _try_out(path)
    return path


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidValue(f"cannot make the folder {path}: {error.strerror or error}") from error


def _try_out(path: Path) -> None:
    """Find out whether a file can be written, without touching what is there."""
    partial = _partial(path)
    try:
        partial.touch(exist_ok=True)
        partial.unlink()
    except OSError as error:
        raise InvalidValue(f"cannot write {path}: {error.strerror or error}") from error


def _names(labels: Mapping[str, Version]) -> dict[Version, str]:
    """Return a file name for each version; labels may come from a stranger's package."""
    names: dict[Version, str] = {}
    for label, version in labels.items():
        names[version] = _free(_UNSAFE.sub("_", label)[:200], names.values())
    return names


def _free(stem: str, taken: Iterable[str]) -> str:
    """Return a name of a notebook that no other one has, also where case does not count."""
    known = {name.lower() for name in taken}
    name, count = f"{stem}{_NOTEBOOK}", 1
    while name.lower() in known:
        count += 1
        name = f"{stem}_{count}{_NOTEBOOK}"
    return name


def _is_replayed(path: Path) -> bool:
    """Return whether a notebook has the outputs of a replay, so that nothing is lost with it."""
    try:
        notebook = json.loads(path.read_bytes())
        return any("status" in cell["metadata"].get("chex", {}) for cell in notebook["cells"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
