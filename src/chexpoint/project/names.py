"""How versions are called, and how a user says which one is meant."""

from __future__ import annotations

import re
from typing import NamedTuple

from chexpoint.errors import InvalidValue

LONGEST_NAME = 100
_OTHER_LETTERS = "._-+=,"
_NUMBERED = re.compile(r"(.+)@([0-9]{1,9})")


class VersionRef(NamedTuple):
    """A version as a user names it."""

    name: str
    number: int | None
    """None is the newest of that name."""


def check_version_name(name: str) -> None:
    """Refuse a name that a version cannot have.

    Raises
    ------
    InvalidValue
        With a sentence that says what is wrong with it.
    """
    if not name:
        raise InvalidValue("a version needs a name")
    if len(name) > LONGEST_NAME:
        raise InvalidValue(
            f"the name '{name[:20]}...' is too long: a version has at most {LONGEST_NAME} letters"
        )
    for letter in name:
        if not letter.isalnum() and letter not in _OTHER_LETTERS:
            raise InvalidValue(
                f"{letter!a} cannot be in the name of a version: use letters, digits and "
                f"{' '.join(_OTHER_LETTERS)}"
            )
    if name.isdigit():
        raise InvalidValue(f"'{name}' is no name for a version: it would be taken for a cell")


def version_ref(text: str) -> VersionRef:
    """Return what is meant by ``name`` or ``name@2``."""
    numbered = _NUMBERED.fullmatch(text)
    return VersionRef(numbered[1], int(numbered[2])) if numbered else VersionRef(text, None)
