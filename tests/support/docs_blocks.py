"""The code blocks of the documentation, and the commands and magics that they show."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]

_FENCE = re.compile(
    r"^( *)```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^\1```$", re.DOTALL | re.MULTILINE
)
_SEPARATORS = {"|", "||", "&&", ";", "&", "(", ")", "<("}


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences."""

    page: Path
    language: str
    text: str
    line: int
    title: str = ""
    """The name of the file that it is; of others, nothing."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of a page, all of them or those in some languages."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(page, match[2], match[4], text.count("\n", 0, match.start()) + 2, match[3] or "")
        for match in _FENCE.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def shell_lines(block: Block) -> Iterator[str]:
    """Yield what is typed into a shell, one command line each."""
    lines = re.sub(r"\\\n\s*", " ", block.text).splitlines()
    match block.language:
        case "console":
            yield from (line.removeprefix("$ ") for line in lines if line.startswith("$ "))
        case "yaml":
            yield from (line.partition("run: ")[2] for line in lines if "run: " in line)
        case "bash":
            yield from lines
        case "":
            yield from (line for line in lines if re.match(r"chex [a-z-]", line))


def chex_commands(line: str) -> Iterator[list[str]]:
    """Yield the words after ``chex`` of each call of it in a command line."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = ""
    call: list[str] = []
    for word in [*_until_comment(words), ";"]:
        if word not in _SEPARATORS and word not in {"<", ">", ">>"}:
            call.append(word)
            continue
        while call and re.match(r"\w+=", call[0]):
            del call[0]
        if call and call[0].split("/")[-1] == "chex":
            yield call[1:]
        call = []


def _until_comment(words: Iterator[str]) -> Iterator[str]:
    with contextlib.suppress(ValueError):  # an apostrophe in a comment
        for word in words:
            if word.startswith("#"):
                return
            yield word


def is_synopsis(line: str) -> bool:
    """Return whether brackets say what may be left out."""
    return re.search(r"\[[A-Z-]", line) is not None
