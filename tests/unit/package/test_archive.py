"""Archives are read as they are, with all that large ones need."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from chexpoint.errors import PackageError
from chexpoint.package import open_package
from chexpoint.package.archive import Archive
from tests.unit.package.worlds import members_of, packed, put_together, small_recording


def contents(data: bytes) -> dict[str, bytes]:
    """Return what is in an archive."""
    archive = Archive(io.BytesIO(data))
    return {name: b"".join(archive.chunks(m)) for name, m in archive.members.items()}


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive as Python writes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read_in_their_order(method: int) -> None:
    members = {"b": b"", "a": b"hello" * 100_000, "c/d": bytes(range(256))}
    found = contents(zipped(members, method))
    assert list(found.items()) == list(members.items())


def test_contents_come_in_small_pieces() -> None:
    archive = Archive(io.BytesIO(zipped({"a": b"\0" * 10**7})))
    assert max(map(len, archive.chunks(archive.members["a"]))) <= 2**18


def large(data: bytes, *, mark: int = 0xFFFFFFFF, kind: int = 1, offset: int = 0) -> bytes:
    """Return an archive of one member whose sizes and place are where those of large ones are."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(data) + packer.flush()
    common = (45, 0, 8, 0, 33, zlib.crc32(data), mark, mark, 1)
    sizes = struct.pack("<QQ", len(data), len(body))
    local = struct.pack("<4sHHHHHLLLHH", b"PK\x03\x04", *common, 20) + b"a"
    local += struct.pack("<HH", kind, 16) + sizes + body
    central = struct.pack("<4sHHHHHHLLLHHHHHLL", b"PK\x01\x02", 45, *common, 28, 0, 0, 0, 0, mark)
    central += b"a" + struct.pack("<HH", kind, 24) + sizes + struct.pack("<Q", offset)
    return local + central + end_record(1, len(central), len(local))


def end_record(count: int, size: int, offset: int) -> bytes:
    return struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, count, count, size, offset, 0)


def test_the_fields_of_large_members_are_understood() -> None:
    data = large(b"hello" * 1000)
    # Python reads it as well, so this is what it should be.
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("a") == b"hello" * 1000
    assert contents(data) == {"a": b"hello" * 1000}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (large(b"a", mark=0), "an extra field that is wrong"),
        (large(b"a", kind=2), "an extra field that is wrong"),
        (large(b"a", offset=1), "is not where it should be"),
        (large(b"a", offset=2**63), "is not where it should be"),
    ],
)
def test_lies_in_the_fields_of_large_members_are_noticed(data: bytes, complaint: str) -> None:
    with pytest.raises(PackageError, match=complaint):
        contents(data)


@pytest.mark.slow
def test_more_members_than_a_small_end_record_can_count() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(66_000):
            archive.writestr(zipfile.ZipInfo(str(number)), b"")
    data = file.getvalue()
    assert len(Archive(io.BytesIO(data)).members) == 66_000
    end, locator = len(data) - 22, len(data) - 42
    record = locator - 56
    for at in (end + 12, end + 16, locator, locator + 8, record, record + 24, record + 40):
        lie = bytearray(data)
        lie[at] ^= 1
        with pytest.raises(PackageError, match="it is damaged"):
            Archive(io.BytesIO(lie))


def test_a_package_that_others_have_stored_can_be_opened(tmp_path: Path) -> None:
    package = packed(tmp_path)
    put_together(package, members_of(package), method=zipfile.ZIP_STORED)
    with open_package(package) as found:
        assert found.recording == small_recording()
