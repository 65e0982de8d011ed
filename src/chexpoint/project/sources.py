"""Reads notebooks and scripts into the cells that are run.

Whatever is wrong with a file is told in one line that begins with its name.
"""

from __future__ import annotations

import io
import json
import os
import stat
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from chexpoint.errors import InvalidValue
from chexpoint.project.script_cells import ScriptCell, split_script

NOTEBOOK, SCRIPT = ".ipynb", ".py"

SourceKind = Literal["notebook", "script"]
CellKind = Literal["cell", "set-up", "parameters", "end"]

_NEWEST_NOTEBOOK = 4
_PYTHON = ("python", "ipython")
# What the parser and the compiler raise for text that is no program.
_NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCell:
    """A cell that is to be run."""

    source: str
    kind: CellKind = "cell"
    """``cell`` is one of the file; the others are added by CHEX."""
    number: int | None = None
    """Its place among the cells of the file that are run; None if it is not one of them."""
    line: int | None = None
    """Where it begins in a script, counted from 1."""
    cell_id: str = ""
    """How the notebook calls it."""
    tags: frozenset[str] = frozenset()
    is_head: bool = False
    """Whether it must stay the first: the docstring of a script and ``__future__`` imports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A notebook or a script, as cells."""

    path: Path
    kind: SourceKind
    cells: tuple[SourceCell, ...]


def read_source(path: str | os.PathLike[str]) -> SourceFile:
    """Return the cells of a notebook or a script.

    Raises
    ------
    InvalidValue
        If it cannot be read, or is not what its name says.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in {NOTEBOOK, SCRIPT}:
        raise InvalidValue(f"{path}: neither a notebook ({NOTEBOOK}) nor a script ({SCRIPT})")
    data = _contents(file)
    if suffix == NOTEBOOK:
        return SourceFile(path=file, kind="notebook", cells=tuple(_notebook_cells(file, data)))
    return SourceFile(path=file, kind="script", cells=tuple(_script_cells(file, data)))


def _contents(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InvalidValue(f"{path}: a folder, not a file")
        if not stat.S_ISREG(mode):  # reading a pipe may take for ever
            raise InvalidValue(f"{path}: not a regular file")
        return path.read_bytes()
    except ValueError as error:  # a null byte in the path
        if isinstance(error, InvalidValue):
            raise
        raise InvalidValue(f"{path}: {error}") from error
    except OSError as error:
        raise InvalidValue(f"{path}: {error.strerror or error}") from error


# ---------------------------------------------------------------- notebooks


def _notebook_cells(path: Path, data: bytes) -> Iterator[SourceCell]:
    content = _json(path, data)
    notebook = _notebook(path, content)
    _refuse_other_languages(path, notebook)
    ids = _cell_ids(content)
    number = 0
    for at, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code" and cell["source"].strip():
            number += 1
            yield SourceCell(
                source=cell["source"],
                number=number,
                cell_id=ids[at] if at < len(ids) else "",
                tags=frozenset(cell["metadata"].get("tags", ())),
            )


def _notebook(path: Path, content: object) -> dict[str, Any]:
    """Return a notebook of the format's version 4, in which everything is what it should be."""
    if not isinstance(content, dict) or type(version := content.get("nbformat")) is not int:
        raise InvalidValue(f"{path}: JSON, but not a notebook")
    if version > _NEWEST_NOTEBOOK:
        raise InvalidValue(f"{path}: a notebook of version {version}, which is too new")
    if version == _NEWEST_NOTEBOOK and _is_plain(content):
        return content
    # Takes a second or two to import, where it finds all the validators that it can make use of.
    import nbformat

    try:
        with warnings.catch_warnings():
            # Cells without an id, or with one that is not unique, do no harm here.
            warnings.simplefilter("ignore")
            read = nbformat.reader.reads(json.dumps(content))
            notebook: Any = nbformat.convert(read, _NEWEST_NOTEBOOK)
            nbformat.validate(notebook, relax_add_props=True)
    except RecursionError as error:
        raise InvalidValue(f"{path}: nested too deeply to be a notebook") from error
    except nbformat.ValidationError as error:
        reason = " ".join(str(getattr(error, "message", error)).split())
        raise InvalidValue(f"{path}: not a valid notebook: {reason[:200]}") from error
    except Exception as error:  # converters stumble over anything that a file lacks
        reason = f"it cannot be converted ({type(error).__name__})"
        raise InvalidValue(f"{path}: not a valid notebook: {reason}") from error
    result: dict[str, Any] = notebook
    return result


def _is_plain(content: dict[str, Any]) -> bool:
    """Return whether all that is read of a notebook is what it should be, as it is in the file."""
    cells = content.get("cells")
    return (
        type(content.get("nbformat_minor")) is int
        and isinstance(content.get("metadata"), dict)
        and isinstance(cells, list)
        and all(isinstance(cell, dict) and _is_plain_cell(cell) for cell in cells)
    )


def _is_plain_cell(cell: dict[str, Any]) -> bool:
    source, metadata = cell.get("source"), cell.get("metadata")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = cell["source"] = "".join(source)
    tags = metadata.get("tags", []) if isinstance(metadata, dict) else None
    return (
        cell.get("cell_type") in {"code", "markdown", "raw"}
        and isinstance(source, str)
        and isinstance(tags, list)
        and all(isinstance(tag, str) for tag in tags)
    )


def _cell_ids(content: object) -> list[str]:
    """Return the ids that are in the file; nbformat makes up those that are not."""
    cells = content.get("cells") if isinstance(content, dict) else None
    return [str(cell.get("id", "")) for cell in cells or () if isinstance(cell, dict)]


def _json(path: Path, data: bytes) -> object:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{path}: not UTF-8 (at byte {error.start})") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidValue(f"{path}: not JSON ({error.msg}: {where})") from error
    except (RecursionError, ValueError) as error:
        raise InvalidValue(f"{path}: nested too deeply to be a notebook") from error


def _refuse_other_languages(path: Path, notebook: dict[str, Any]) -> None:
    metadata = notebook["metadata"]
    for section, key in (("kernelspec", "language"), ("language_info", "name")):
        found = metadata.get(section)
        language = found.get(key) if isinstance(found, dict) else None
        if isinstance(language, str) and language:
            if not language.lower().startswith(_PYTHON):
                raise InvalidValue(f"{path}: written in {language}; only Python is recorded")
            return


# ---------------------------------------------------------------- scripts


def _script_cells(path: Path, data: bytes) -> Iterator[SourceCell]:
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise InvalidValue(f"{path}:{line}: a null byte, which no script may have")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Python itself says what is wrong with it, which splitting would not notice.
            compile(data, os.fspath(path), "exec", dont_inherit=True)
        cells = split_script(_decoded(data))
    except _NOT_PYTHON as error:
        raise InvalidValue(_syntax_message(path, error)) from error
    for number, cell in enumerate(_with_text(cells), start=1):
        yield SourceCell(
            # The end of its last line is the end of the cell.
            source=cell.text.removesuffix("\n"),
            number=number,
            line=cell.line,
            tags=cell.tags,
            is_head=cell.is_head,
        )


def _with_text(cells: Sequence[ScriptCell]) -> list[ScriptCell]:
    """Return the cells that are run, with what is none below the one above it.

    All lines of a script must be in some cell, for errors to show their numbers.
    """
    found: list[ScriptCell] = []
    above = ""
    for cell in cells:
        if cell.is_code:
            line = cell.line - above.count("\n")
            found.append(replace(cell, text=above + cell.text, line=line))
            above = ""
        elif found:
            found[-1] = replace(found[-1], text=found[-1].text + cell.text)
        else:
            above += cell.text
    return found


def _decoded(data: bytes) -> str:
    """Return a script as Python reads it: by its own declaration, with one kind of line ends."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text = data.decode(encoding)
    return io.IncrementalNewlineDecoder(None, translate=True).decode(text, final=True)


def _syntax_message(path: Path, error: BaseException) -> str:
    match error:
        case SyntaxError(msg=str(message)):
            where = f"{path}:{error.lineno}" if error.lineno else f"{path}"
            return f"{where}: {type(error).__name__}: {message}"
        case RecursionError() | MemoryError():
            return f"{path}: nested too deeply for Python"
    return f"{path}: {error}"
