"""Which names a package may have: those of its members, and those of files in a project.

Both come from strangers, and both end up as paths on somebody's disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from chexpoint.model import Digest

PROJECT = "./"
"""What canonical names of files in the project begin with."""

LONGEST_MEMBER = 255
# No part begins with a dot, so none is `..`; no letter is a backslash, a colon or a control
# character, and none has a second spelling in Unicode.
_PART = "[A-Za-z0-9_+=,@-][A-Za-z0-9._+=,@-]*"
_MEMBER = re.compile(rf"{_PART}(?:/{_PART})*")
_DIGEST = re.compile("[0-9a-f]{32}")
_FILE = re.compile("files/([0-9a-f]{2})/([0-9a-f]{32})")
_OTHER_LETTERS = "._-+=,"
LONGEST_VERSION = 100


def is_member_name(name: str) -> bool:
    """Return whether a member of a package may have this name."""
    return len(name) <= LONGEST_MEMBER and _MEMBER.fullmatch(name) is not None


def is_project_name(name: str) -> bool:
    """Return whether a name is that of something inside the project folder, and nowhere else."""
    return (
        name.startswith(PROJECT)
        and {"", ".", ".."}.isdisjoint(name[len(PROJECT) :].split("/"))
        and "\0" not in name
        and _has_bytes(name)
    )


def is_folder(path: str) -> bool:
    """Return whether this is an absolute path of a folder that is not the whole disk."""
    return path.startswith("/") and path.isprintable() and not path.endswith("/")


def is_entry_name(name: str) -> bool:
    """Return whether something in a folder may be called so."""
    return "/" not in name and is_project_name(PROJECT + name)


def is_version_name(name: str) -> bool:
    """Return whether a version may be called so: files are named after it."""
    return (
        0 < len(name) <= LONGEST_VERSION
        and name.strip(".") != ""
        and all(letter.isalnum() or letter in _OTHER_LETTERS for letter in name)
    )


def is_digest(word: Digest) -> bool:
    """Return whether this is the digest of contents, and no word that stands for one."""
    return _DIGEST.fullmatch(word) is not None


def file_member(digest: Digest) -> str:
    """Return the member that holds these contents: ``files/ab/ab12...``."""
    return f"files/{digest[:2]}/{digest}"


def digest_of_member(name: str) -> Digest | None:
    """Return the digest of the contents that a member holds; None if it holds something else."""
    match = _FILE.fullmatch(name)
    return match[2] if match is not None and match[2].startswith(match[1]) else None


def notebook_members(labels: Iterable[str]) -> dict[str, str]:
    """Return the member for the notebook of each version, by its label.

    Labels may have letters that members may not, and may differ in case only.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for label in labels:
        stem = re.sub("[^A-Za-z0-9._+=,@-]", "_", label)
        stem = re.sub(r"^\.", "_", stem)
        name, number = stem, 1
        while name.lower() in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name.lower())
        found[label] = f"notebooks/{name}.ipynb"
    return found


def plain(text: str) -> str:
    """Return a text in one line, in which nothing can confuse a terminal."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _has_bytes(name: str) -> bool:
    """Return whether a file can have this name."""
    try:
        return len(name.encode("utf-8", "surrogateescape")) < 4096
    except UnicodeEncodeError:
        return False
