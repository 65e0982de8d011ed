"""A shell for the command lines of the documentation, and what a page may show of their output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.docs_blocks import Block, shell_lines

TIMEOUT_S = 120.0
PROMPT = "[y/N] "
# A page shows one run, and yours differs from it in these.
_DIFFERENT = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE"),
    (r"\d+(\.\d+)? (ms|s|min|h)\b", "TIME"),
    (r"\d+(\.\d+)? (B|KB|MB|GB)(?!\w)", "SIZE"),
    # Said only if anything was saved.
    (r"TIME instead of TIME", "TIME"),
    (r"\d+(\.\d+)? ?%", "PERCENT"),
    # How many were taken by themselves depends on what cells took, and so does what is run again.
    (r"\bc\d+\b", "CHECKPOINT"),
    (r"; \d+ cells? run again$", ""),
    (r"\b(?=[a-f]*\d)[0-9a-f]{8}([0-9a-f]{4})?\b", "NODE"),
    (r"(/home|/tmp)/[\w./-]+", "PATH"),
    # Numbers that a cell draws without a seed, where they are told as such.
    (r"'\d+\.\d+'", "DRAWN"),
)
ANY_LINES = "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command line, and what the page says that it prints."""

    line: str
    shown: tuple[str, ...]

    @property
    def answer(self) -> str | None:
        """What is answered to the question that it asks, if it asks one."""
        asked = [line for line in self.shown if PROMPT in line]
        return asked[0].partition(PROMPT)[2] if asked else None

    @property
    def code(self) -> int:
        """The exit code, which is 1 if the page shows that not all is reproduced."""
        text = "\n".join(self.shown)
        found = re.search(r"^(\d+) of (\d+) versions? reproduced", text, re.MULTILINE)
        return int(found is not None and found[1] != found[2])


def typed_lines(block: Block) -> Iterator[Typed]:
    """Yield the command lines of a block, each with what the page shows below it."""
    if block.language != "console":
        yield from (Typed(line=line, shown=()) for line in shell_lines(block) if line)
        return
    for part in re.split(r"^\$ ", re.sub(r"\\\n\s*", " ", block.text), flags=re.MULTILINE)[1:]:
        line, *shown = part.rstrip("\n").split("\n")
        yield Typed(line=line, shown=tuple(shown))


def plain(line: str) -> str:
    """Return a line without what differs from run to run, and with single blanks."""
    for pattern, word in _DIFFERENT:
        line = re.sub(pattern, word, line)
    return " ".join(line.split())


def is_shown(page: tuple[str, ...], found: str, *, is_larger: bool = False) -> bool:
    """Return whether a page shows what came: all lines, or parts with ``...`` for what is left out.

    Times, sizes, dates, percentages, nodes, absolute paths and blanks may differ; whole numbers
    only if the page is about something larger.
    """

    def compared(line: str) -> str:
        return re.sub(r"\d+", "0", plain(line)) if is_larger else plain(line)

    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == ANY_LINES else re.escape(compared(line)) + r"\n"
        for line in page
    )
    text = "".join(f"{compared(line)}\n" for line in found.rstrip("\n").split("\n"))
    return re.fullmatch(pattern, text) is not None


class Shell:
    """Runs command lines one after the other; it stays in the folder that they go to."""

    def __init__(self, folder: Path, home: Path, **env: str) -> None:
        """Begin in a folder, with a home that is not the user's."""
        self.folder = folder
        self._home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CHEX_")}
        self._env = {
            **kept,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "COLUMNS": "160",
            **env,
        }

    def run(self, typed: Typed) -> subprocess.CompletedProcess[str]:
        """Run a command line, and answer what it asks."""
        place = self._home / "place"
        script = f"trap 'pwd > {place}' EXIT\n{typed.line}\n"
        bash = shutil.which("bash") or "bash"
        command = [bash, "-c", script]
        if typed.answer is None:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
        else:
            done = self._run_with_a_terminal(command, typed.answer)
        self.folder = Path(place.read_text(encoding="utf-8").strip())
        return done

    def check(self, typed: Typed, where: object, *, is_larger: bool = False) -> None:
        """Run a command line; fail if it ends otherwise, or prints something else than is shown.

        Of what is printed to standard error, only a question is compared, with what is above it.
        """
        done = self.run(typed)
        told = f"{where}: $ {typed.line}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == typed.code, f"exit code {done.returncode}\n{told}"
        # Of a pipe, the exit code is that of the last program.
        assert not re.search(r"^chex: ", done.stderr, re.MULTILINE), told
        shown = typed.shown
        if typed.answer is not None:
            number = next(n for n, line in enumerate(shown) if PROMPT in line)
            asked = done.stderr.partition(PROMPT)[0].split("\n")[-number - 1 : -1]
            assert is_shown(shown[:number], "\n".join(asked)), told
            shown = shown[number + 1 :]
        assert not shown or is_shown(shown, done.stdout, is_larger=is_larger), told

    def _run_with_a_terminal(
        self, command: list[str], answer: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that asks a person: its input and its errors are a terminal."""
        ours, theirs = os.openpty()
        with (
            os.fdopen(ours, "r+b", buffering=0) as terminal,
            subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._env,
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=theirs,
                text=True,
            ) as process,
        ):
            os.close(theirs)
            terminal.write(f"{answer}\n".encode())
            errors = b""
            while part := _read(terminal.fileno()):
                errors += part
            out, _ = process.communicate(timeout=TIMEOUT_S)
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "", errors.decode(errors="replace"))
        return subprocess.CompletedProcess(command, process.returncode, out, text)


def _read(terminal: int) -> bytes:
    """Return what has come, and nothing when the other side is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # as Linux says it
        return b""
