"""The parts of a text that differ with every run, and say nothing about what was computed.

They are replaced by a word in angle brackets, such as ``<time>``.  What is replaced is not
compared, so the patterns are narrow: a digest, a speed in m/s or a date of long ago is a result.

Patterns begin with a character, and only then look at what is before it: that lets Python skip
what cannot match.  A possessive ``++`` never gives back what it took.  Both keep long lines cheap,
whoever made them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from chexpoint.compare.tolerance import Tolerance

# No version was recorded before this year: an earlier date is data, and not the time of a run.
_YEAR = r"20(?:2[5-9]|[3-9]\d)"
_CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d++)?)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?"
_AND_CLOCK = rf"(?:[T\s,]\s?{_CLOCK}{_ZONE})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}+"
_LETTERS = r"(?:[AP]M\s)?(?:[A-Z]{3,4}\s)?"  # as the command `date` puts them
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}+,?\s)?"

_AMOUNT = r"\d(?<![\w.]\d)\d*+(?:\.\d++)?(?:e[-+]?\d++)?"
_UNIT = r"(?:[nuµμm]?s|[num]?secs?)"
_PER = r"(?:/(?:step|it|iter|iteration|epoch|batch|sample|call|loop)\b)?"
_COUNTED = (
    r"(?:[kKMGT]?i?[Bb](?:ytes?|its?)?"
    r"|it|its|iters?|iterations?|steps?|batch(?:es)?|epochs?|samples?|examples?|images?|img"
    r"|rows?|records?|tokens?|files?|requests?)"
)
# There is no duration in `max 4 min 2`, nor in `p 0.5 s 0.3`.
_NO_NAME = r"(?!\s?[=:]?\s?[-+]?\d)"
_TIMED = (
    r"(?:elapsed(?:[ _]time)?|took|runtime"
    r"|(?:wall|cpu|run|running|execution|training|fit|total|computation)[ _]time)"
)
_RATE = r",\s*+[\d.?]++\s?\w{0,12}/\w{1,12}"


class _Kind(NamedTuple):
    """One kind of volatile part."""

    name: str
    hints: tuple[str, ...]
    """A line without any of these has no such part."""
    pattern: re.Pattern[str]


def _kind(name: str, hints: tuple[str, ...], *patterns: str) -> _Kind:
    return _Kind(name, hints, re.compile("|".join(patterns), re.ASCII))


_KINDS = (
    _kind("bar", ("[",), rf"\[(?:\d+:)?\d\d:\d\d(?:<(?:[\d:]++|\?)(?:{_RATE})?|{_RATE})"),
    _kind(
        "id",
        ("-",),
        r"[0-9a-fA-F]{8}(?<!\w.{8})-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
    ),
    _kind(
        "address",
        ("0x",),
        r"0x(?<!\w0x)(?:(?<=at 0x)[0-9a-fA-F]++|[0-9a-fA-F]{9,16}+)\b",
    ),
    _kind("cell", ("input-", "In["), r"ipython-input-\d++", r"Cell In\[\d++\]"),
    _kind("process", ("ipykernel_",), r"ipykernel_\d++"),
    _kind("process", ("pid", "PID"), r"(?:pid|PID)(?<!\w...)\s?[=:]?\s?\d++"),
    _kind(
        "object",
        ("139", "140", "93", "94"),
        r"1(?<![\d.]1)(?:39[6-9]|40[0-7])\d{11}(?![\d.])",
        r"9(?<![\d.]9)[34]\d{12}(?![\d.])",
    ),
    _kind(
        "time",
        ("20",),
        rf"{_YEAR}(?<!\d....)(?P<sep>[-/.])\d\d?(?P=sep)\d\d?(?!\d){_AND_CLOCK}",
        rf"{_YEAR}(?<!\d....)[01]\d[0-3]\d[-_T][0-2]\d{{5}}(?!\d)",
        rf"\d(?<!\w\d)\d?(?P<mid>[-/.])\d\d?(?P=mid){_YEAR}\b{_AND_CLOCK}",
        rf"{_DAY}{_MONTH}\s{{1,2}}\d\d?,?\s(?:{_CLOCK}\s{_LETTERS})?{_YEAR}\b(?:\s{_CLOCK}{_ZONE})?",
        rf"{_DAY}\d\d?[\s-]{_MONTH}[\s-]{_YEAR}\b(?:\s{_CLOCK}{_ZONE})?",
        rf"datetime\.date(?:time)?\({_YEAR},[\d,\s]*+\)",
    ),
    _kind("time", (":",), r"\d(?<![\d:.]\d)\d?:\d\d:\d\d(?:[.,]\d++)?(?![\d:])"),
    _kind(
        "duration",
        ("s", "m", "h"),
        rf"{_AMOUNT}(?:h|min|m)(?:\s?\d++(?:\.\d++)?(?:min|ms|m|s)){{1,3}}+\b",
        rf"{_AMOUNT}(?:{_UNIT}|min|h)\b{_PER}",
        rf"{_AMOUNT}\s{_UNIT}\b{_PER}{_NO_NAME}",
        rf"{_AMOUNT}\s(?:(?:milli|micro|nano)?seconds?|min(?:ute)?s?|hours?|h)\b{_NO_NAME}",
        rf"{_AMOUNT}\s?{_COUNTED}/s(?:ec)?\b",
    ),
    _kind(
        "duration",
        ("elapsed", "Elapsed", "took", "time"),
        rf"(?i:\b{_TIMED}\s?[:=]?\s?)\d++(?:\.\d++)?(?!\w|\.\d|\s?[A-Za-z%])",
    ),
)
_PATH = re.compile(r"/(?<![\w.~/-]/)[^\s'\"<>|:;,()\[\]{}]++", re.ASCII)
_TEMPORARY = re.compile(r"(?:/private)?(?:/var)?/tmp/[^/]++")
_INSTALLED = re.compile(r".*/(?:(?:site|dist)-packages|lib/python3\.\d++)/")
_TIMINGS = ("CPU times:", "Wall time:", "peak memory:")
_FLEETING = (
    "Compiler :",
    "Compiler time:",
    "Parser   :",
    "The slowest run took ",
    "This could mean that an intermediate result is being cached",
)


def is_fleeting(line: str) -> bool:
    """Return whether a line may be there or not, as it happens.

    IPython says how long compiling took if it was long.
    """
    return line.startswith(_FLEETING)


def without_volatile(line: str, tolerance: Tolerance) -> str:
    """Return a line with words instead of its volatile parts."""
    is_timeit = " per loop" in line and ("mean" in line or "best of" in line)
    if is_timeit or line.startswith(_TIMINGS):
        return "<timing>"
    if tolerance.folders:
        line = _folder_pattern(tolerance.folders).sub("<project>", line)
    if "/" in line:
        line = _PATH.sub(lambda path: _without_place(path[0]), line)
    for name, hints, pattern in _KINDS:
        if any(hint in line for hint in hints):
            line = pattern.sub(f"<{name}>", line)
    return line


def _without_place(path: str) -> str:
    """Return a path without what depends on the machine or on chance."""
    if installed := _INSTALLED.match(path):
        return f"<python>/{path[installed.end() :]}"
    if temporary := _TEMPORARY.match(path):
        return f"<temporary>{path[temporary.end() :]}"
    return path


@lru_cache(maxsize=16)
def _folder_pattern(folders: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds the folders; the longest first, because one may be inside another."""
    names = sorted((folder.rstrip("/") for folder in folders), key=len, reverse=True)
    known = "|".join(re.escape(name) for name in names if name)
    return re.compile(rf"(?<![\w.~-])(?:{known})(?![\w.-])" if known else r"(?!)")
