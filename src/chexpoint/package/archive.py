"""The zip file of a package, read so strictly that every byte of it is accounted for.

`zipfile` reads what others have written as well as it can, which is too well for a file from a
stranger.  Here the members lie side by side from the first byte on, the directory follows at once,
and the file ends with its end record; what the directory says of a member, the member says itself.
So no two members overlap, none is hidden, and none is there twice.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from chexpoint.errors import PackageError
from chexpoint.model import Bytes
from chexpoint.package.names import LONGEST_MEMBER, is_member_name

MOST_MEMBERS = 100_000

_SIGN = 4
# What a member's own header and the directory both say: version, flags, method, time, date, CRC,
# packed size, size, and the lengths of the name and of the extra field.
_SAID = struct.Struct("<HHHHHLLLHH")
_LOCAL_SIZE = _SIGN + _SAID.size
# In the directory alone: comment, disk, two kinds of attributes, and where the header is.
_REST = struct.Struct("<HHHLL")
_CENTRAL_SIZE = _SIGN + 2 + _SAID.size + _REST.size
_END = struct.Struct("<4sHHHHLLH")
_END_64 = struct.Struct("<4sQHHLLQQQQ")
_LOCATOR_64 = struct.Struct("<4sLQL")
_LOCAL_SIGN = b"PK\x03\x04"
_CENTRAL_SIGN = b"PK\x01\x02"
_MARK_16 = 0xFFFF
_MARK_32 = 0xFFFFFFFF
_EXTRA_64 = 1
_STORED, _DEFLATED = 0, 8
_METHODS = {_STORED, _DEFLATED}
_UTF8_FLAG = 0x800
_DOS_FOLDER = 0x10
_CHUNK = 2**18


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file in the archive."""

    name: str
    size_bytes: Bytes
    """Of its contents."""
    packed_bytes: Bytes
    """What it takes in the archive."""
    crc: int
    is_deflated: bool
    offset: int
    """Where its bytes begin."""


class _Said(NamedTuple):
    """What is said of a member, in two places."""

    version: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    letters: int
    extra: int

    def is_about_same(self, other: _Said) -> bool:
        """Return whether both say the same; versions and extra fields may differ."""
        return self[1:-1] == other[1:-1]


class _Entry(NamedTuple):
    """An entry of the directory."""

    name: bytes
    said: _Said
    header: int
    """Where the member's own header is."""


class Archive:
    """The members of an archive, in the order in which they lie in it; nothing is unpacked yet.

    Parameters
    ----------
    file
        Open for reading; it must stay open.

    Raises
    ------
    PackageError
        If it is no zip file, or not one as CHEX writes them.
    OSError
        If it cannot be read.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size_bytes: Bytes = file.seek(0, os.SEEK_END)
        count, directory, directory_size = self._end()
        members: dict[str, Member] = {}
        lower: set[str] = set()
        at = 0
        for entry in _entries(self._bytes(directory, directory_size), count):
            member = self._member(entry, at, directory)
            if member.name.lower() in lower:
                raise PackageError(f"the member {member.name} is in it twice")
            lower.add(member.name.lower())
            members[member.name] = member
            at = member.offset + member.packed_bytes
        if at != directory:
            raise _damaged("something lies between its members and its directory")
        self.members = members

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield the contents of a member; they end where the member says, or it is refused.

        Raises
        ------
        PackageError
            If they are longer, shorter or others than the member says.
        """
        left, crc = member.size_bytes, 0
        for chunk in self._inflated(member) if member.is_deflated else self._packed(member):
            left -= len(chunk)
            if left < 0:
                raise _damaged(f"the member {member.name} is larger than it says")
            crc = zlib.crc32(chunk, crc)
            yield chunk
        if left or crc != member.crc:
            raise _damaged(f"the member {member.name} is not what it was")

    def _inflated(self, member: Member) -> Iterator[bytes]:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            for packed in self._packed(member):
                if inflater.eof:
                    raise _damaged(f"something follows the contents of {member.name}")
                waiting = packed
                while waiting and not inflater.eof:
                    # Never more than a chunk at a time, whatever a few bytes may unfold to.
                    yield inflater.decompress(waiting, _CHUNK)
                    waiting = inflater.unconsumed_tail
                if inflater.unused_data:
                    raise _damaged(f"something follows the contents of {member.name}")
            while not inflater.eof:
                chunk = inflater.decompress(b"", _CHUNK)
                if not chunk:
                    raise _damaged(f"the member {member.name} ends too early")
                yield chunk
        except zlib.error as error:
            raise _damaged(f"the member {member.name} cannot be unpacked") from error

    def _packed(self, member: Member) -> Iterator[bytes]:
        at, end = member.offset, member.offset + member.packed_bytes
        while at < end:
            chunk = self._bytes(at, min(_CHUNK, end - at))
            yield chunk
            at += len(chunk)

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset < 0 or offset + size > self.size_bytes:
            raise _damaged("it is shorter than it says")
        self._file.seek(offset)
        found = self._file.read(size)
        if len(found) < size:
            raise _damaged("it is shorter than it says")
        return found

    # ------------------------------------------------------------ the end record

    def _end(self) -> tuple[int, int, int]:
        """Return the number of members, and where the directory begins and how long it is."""
        if self.size_bytes < _END.size or self._bytes(0, _SIGN) != _LOCAL_SIGN:
            raise PackageError("it is no package of CHEX")
        at = self.size_bytes - _END.size
        sign, disk, first, here, count, size, directory, comment = _END.unpack(
            self._bytes(at, _END.size)
        )
        if (sign, disk, first, here, comment) != (b"PK\x05\x06", 0, 0, count, 0):
            raise _damaged("it does not end as a package ends")
        if count == _MARK_16 or _MARK_32 in (size, directory):
            small = (count, size, directory)
            at, count, size, directory = self._end_64(at)
            if small != (min(count, _MARK_16), min(size, _MARK_32), min(directory, _MARK_32)):
                raise _damaged("its two end records say different things")
        if directory + size != at:
            raise _damaged("its directory is not where it should be")
        if count > MOST_MEMBERS:
            raise PackageError(f"it has {count} members, and {MOST_MEMBERS} are allowed")
        if size > count * (_CENTRAL_SIZE + LONGEST_MEMBER + 32):
            raise _damaged("its directory is too long")
        return count, directory, size

    def _end_64(self, end: int) -> tuple[int, int, int, int]:
        """Return where the large end record is, and what it says."""
        locator = end - _LOCATOR_64.size
        at = locator - _END_64.size
        sign, disk, where, disks = _LOCATOR_64.unpack(self._bytes(locator, _LOCATOR_64.size))
        if (sign, disk, where, disks) != (b"PK\x06\x07", 0, at, 1):
            raise _damaged("its large end record is not where it should be")
        sign, length, _, _, disk, first, here, count, size, directory = _END_64.unpack(
            self._bytes(at, _END_64.size)
        )
        expected = (b"PK\x06\x06", _END_64.size - 12, 0, 0, count)
        if (sign, length, disk, first, here) != expected:
            raise _damaged("its large end record is wrong")
        return at, count, size, directory

    # ------------------------------------------------------------ headers

    def _member(self, entry: _Entry, at: int, end: int) -> Member:
        """Return a member whose own header says what the directory says."""
        name = _safe_name(entry.name)
        if entry.header != at:
            raise _damaged(f"the member {name} is not where it should be, or overlaps another")
        header = self._bytes(at, _LOCAL_SIZE)
        said = _Said(*_SAID.unpack_from(header, _SIGN))
        if not header.startswith(_LOCAL_SIGN):
            raise _damaged(f"the header of {name} is wrong")
        at += _LOCAL_SIZE
        own_name = self._bytes(at, said.letters)
        at += said.letters
        extra = self._bytes(at, said.extra)
        at += said.extra
        size, packed = _large(extra, name, said.size, said.packed)
        said = said._replace(size=size, packed=packed)
        if own_name != entry.name or not said.is_about_same(entry.said):
            raise _damaged(f"the header of {name} and the directory say different things")
        if at + packed > end:
            raise _damaged(f"the member {name} overlaps the directory")
        is_deflated = said.method == _DEFLATED
        if not is_deflated and packed != size:
            raise _damaged(f"the member {name} says two sizes")
        return Member(
            name=name,
            size_bytes=size,
            packed_bytes=packed,
            crc=said.crc,
            is_deflated=is_deflated,
            offset=at,
        )


def _entries(directory: bytes, count: int) -> Iterator[_Entry]:
    """Yield what the directory says, after everything that concerns it alone was checked."""
    at = 0
    for _ in range(count):
        if at + _CENTRAL_SIZE > len(directory):
            raise _damaged("its directory is too short")
        sign = directory[at : at + _SIGN]
        said = _Said(*_SAID.unpack_from(directory, at + _SIGN + 2))
        comment, disk, _, attributes, header = _REST.unpack_from(
            directory, at + _CENTRAL_SIZE - _REST.size
        )
        if sign != _CENTRAL_SIGN or comment or disk:
            raise _damaged("its directory is wrong")
        at += _CENTRAL_SIZE
        name = directory[at : at + said.letters]
        at += said.letters
        extra = directory[at : at + said.extra]
        at += said.extra
        shown = _safe_name(name)
        _check_kind(shown, said, attributes)
        size, packed, header = _large(extra, shown, said.size, said.packed, header)
        yield _Entry(name, said._replace(size=size, packed=packed), header)
    if at != len(directory):
        raise _damaged("its directory is too long")


def _check_kind(name: str, said: _Said, attributes: int) -> None:
    """Refuse what is no plain file."""
    if said.flags & ~_UTF8_FLAG or said.method not in _METHODS:
        raise PackageError(f"the member {name} is encrypted, or packed in some unknown way")
    if stat.S_IFMT(attributes >> 16) not in {0, stat.S_IFREG} or attributes & _DOS_FOLDER:
        raise PackageError(f"the member {name} is no file, but a link, a folder or a device")


def _large(extra: bytes, name: str, *fields: int) -> tuple[int, ...]:
    """Return sizes and places, of which those that are too large are in an extra field."""
    marked = [field == _MARK_32 for field in fields]
    if not extra and not any(marked):
        return fields
    wanted = struct.pack("<HH", _EXTRA_64, 8 * sum(marked))
    if not any(marked) or extra[:4] != wanted or len(extra) != 4 + 8 * sum(marked):
        raise _damaged(f"the member {name} has an extra field that is wrong")
    values = iter(struct.unpack(f"<{sum(marked)}Q", extra[4:]))
    return tuple(
        next(values) if is_marked else f for f, is_marked in zip(fields, marked, strict=True)
    )


def _safe_name(name: bytes) -> str:
    """Return the name of a member.

    Raises
    ------
    PackageError
        If it could lead somewhere else, or look like another one.
    """
    text = name.decode("ascii", "backslashreplace")
    if not is_member_name(text):
        raise PackageError(
            f"the name of a member, {text[:60]!a}, could lead out of the folder it is unpacked in, "
            "or is not known"
        )
    return text


def _damaged(why: str) -> PackageError:
    return PackageError(f"it is damaged, or was changed by another program: {why}")
