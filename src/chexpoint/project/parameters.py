"""Parameters of a version: values given on the command line, set in a cell of their own.

A value is read as papermill reads it: a number, a truth value, None, else a text.  Several values
give several versions::

    lr=0.1,0.01         two values
    depth=2:6           the whole numbers from 2 to 6, both included
    width=16:64:16      every 16th of them: 16, 32, 48, 64
    layers=[64,32]      one list, as JSON; a comma in brackets or quotes separates nothing
    title="a,b"         one text
"""

from __future__ import annotations

import ast
import itertools
import json
import keyword
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chexpoint.errors import InvalidValue

MOST_VERSIONS = 10_000
"""More in one go are a slip: ``seed=1:1000000``."""

_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
# No other leading zeros than one for 0 where there is a step: 12:05:00 is a time.
_WHOLE = r"[+-]?(?:0|[1-9][0-9]{0,17})"
_RANGE = re.compile(
    rf"\s*(?:([+-]?[0-9]{{1,18}}):([+-]?[0-9]{{1,18}})|({_WHOLE}):({_WHOLE}):({_WHOLE}))\s*"
)
_DECIMAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_DECIMAL_RANGE = re.compile(rf"\s*{_DECIMAL}(?::{_DECIMAL}){{1,2}}\s*", re.IGNORECASE)
_DIGITS = re.compile(r"\s*[+-]?[0-9_]+\s*")
_OPENING, _CLOSING = "[{(", "]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One name and the value it has in one version."""

    name: str
    text: str
    """The value as the user wrote it, without quotes around it."""
    value: Any

    @property
    def line(self) -> str:
        """The assignment that sets it."""
        return f"{self.name} = {_literal(self.value)}"


def parse_parameter(option: str) -> tuple[Parameter, ...]:
    """Return a parameter with each of the values that ``name=values`` gives it.

    Raises
    ------
    InvalidValue
        If it is not of that form, or the name cannot be that of a variable.
    """
    name, equals, values = option.partition("=")
    name = name.strip()
    if not equals:
        raise InvalidValue(f"'{option}' sets no parameter: write -p NAME=VALUE")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise InvalidValue(f"'{name}' cannot be the name of a parameter: it is no Python variable")
    # Python normalises the names in a source, so these are the same variable.
    name = unicodedata.normalize("NFKC", name)
    parameters = tuple(
        Parameter(name=name, text=text, value=value)
        for piece in _pieces(values)
        for text, value in _values(name, piece)
    )
    _refuse_many(len(parameters))
    seen: set[tuple[str, str]] = set()
    for each in parameters:
        if (known := (type(each.value).__name__, each.text)) in seen:
            raise InvalidValue(f"{name} is to be {each.text} twice: each value makes a version")
        seen.add(known)
    return parameters


def combinations(options: Sequence[str]) -> tuple[tuple[Parameter, ...], ...]:
    """Return the parameters of each version: every value of each with every value of the others.

    Parameters
    ----------
    options
        Each ``name=values``; without any there is one version, without parameters.
    """
    choices = [parse_parameter(option) for option in options]
    names = [choice[0].name for choice in choices]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValue(f"{name} is set twice: write -p {name}=VALUE,VALUE for two versions")
    _refuse_many(math.prod(len(choice) for choice in choices))
    return tuple(itertools.product(*choices))


def parameters_source(parameters: Sequence[Parameter], title: str = "# Parameters") -> str:
    """Return the cell that sets parameters."""
    return "\n".join([title, *(parameter.line for parameter in parameters)])


def _refuse_many(count: int) -> None:
    if count > MOST_VERSIONS:
        raise InvalidValue(f"that would be {count} versions: at most {MOST_VERSIONS} at a time")


def _pieces(values: str) -> Iterator[str]:
    """Yield what commas separate that are neither in brackets nor in quotes."""
    start = depth = at = 0
    while at < len(values):
        letter = values[at]
        # An apostrophe inside of a word is no quote.
        if letter in "\"'" and (depth or not values[start:at].strip()):
            at = _end_of_quote(values, at)
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == "," and depth <= 0:
            yield values[start:at]
            start, depth = at + 1, 0
        at += 1
    yield values[start:]


def _end_of_quote(values: str, start: int) -> int:
    """Return where a quote ends; where it starts if it does not end."""
    at = start + 1
    while at < len(values):
        if values[at] == "\\":
            at += 1
        elif values[at] == values[start]:
            return at
        at += 1
    return start


def _values(name: str, piece: str) -> Iterator[tuple[str, Any]]:
    span = _RANGE.fullmatch(piece)
    if span is None:
        if _DECIMAL_RANGE.fullmatch(piece) and any(letter in piece for letter in ".eE"):
            raise InvalidValue(
                f"{name}={piece}: a range is of whole numbers. Write the values with commas "
                f"between; put quotes around it if it is a text"
            )
        value = _value(name, piece)
        yield (value if isinstance(value, str) else piece.strip()), value
        return
    numbers = _numbers(name, piece, *(int(text) for text in span.groups() if text is not None))
    _refuse_many(len(numbers))
    for number in numbers:
        yield str(number), number


def _numbers(name: str, piece: str, first: int, last: int, step: int = 1) -> range:
    """Return the numbers of a range, both ends included."""
    if step == 0:
        raise InvalidValue(
            f"{name}={piece} goes nowhere: the third number is the step. Put quotes around it if "
            "it is a text"
        )
    found = range(first, last + (1 if step > 0 else -1), step)
    if not found:
        way = "up" if step > 0 else "down"
        right = ":".join(map(str, (last, first) if step == 1 else (last, first, step)))
        raise InvalidValue(f"{name}={piece} has no numbers: a range goes {way}, as in {right}")
    return found


def _value(name: str, text: str) -> Any:
    word = text.strip()
    if word in _WORDS:
        return _WORDS[word]
    if word[:1] in set("[{\"'"):
        return _structure(word, text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            if _DIGITS.fullmatch(text) and len(word) > 1000:
                raise InvalidValue(f"the number that {name} is to be is too long") from None
    return text


def _structure(word: str, text: str) -> Any:
    """Return a list, a dictionary or a quoted text; anything else is a text as it is."""
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(word)
            _literal(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(value, list | dict | str):
            return value
    return text


def _literal(value: Any) -> str:
    """Return a value as Python that gives the value.

    Raises
    ------
    TypeError
        If there is no such Python.
    """
    match value:
        case float() if not math.isfinite(value):
            return f"float({str(value)!r})"
        case None | bool() | int() | float() | str():
            return repr(value)
        case list():
            return f"[{', '.join(_literal(item) for item in value)}]"
        case dict():
            pairs = (f"{_literal(key)}: {_literal(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise TypeError(f"{type(value).__name__} is no parameter")
