"""Packages that were made to do harm are refused in one line, before anything is written."""

from __future__ import annotations

import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chexpoint.errors import PackageError
from chexpoint.package import FORMAT, open_package
from tests.unit.package.worlds import (
    DATA,
    digest,
    edited,
    full_recording,
    ident,
    members_of,
    packed,
    put_together,
)


def refusal(package: Path, limit_bytes: int | None = None) -> str:
    """Return the line with which a package is refused; nothing is written meanwhile."""
    before = sorted(package.parent.rglob("*"))
    with pytest.raises(PackageError) as caught:
        open_package(package, limit_bytes=limit_bytes)
    assert sorted(package.parent.rglob("*")) == before
    line = str(caught.value)
    assert line.isprintable()
    assert line.startswith(str(package))
    assert len(line) < 400
    return line


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a package that is as it should be."""
    return packed(tmp_path_factory.mktemp("good"), full_recording()).read_bytes()


@pytest.fixture
def package(good: bytes, tmp_path: Path) -> Path:
    """Return a package that is as it should be."""
    path = tmp_path / "paper.chex"
    path.write_bytes(good)
    return path


# ---------------------------------------------------------------- names and kinds of members


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "files/../../evil",
        "/etc/evil",
        "C:/evil",
        "C:evil",
        "files\\..\\evil",
        "..",
        "./evil",
        "files//evil",
        "evil\n",
        "evil\x1b[2J",
        "files/",
        ".bashrc",
        "e\u0301vil",
        "ﬁles/evil",
        "a" * 300,
        "~root",
        "$HOME",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(package: Path, name: str) -> None:
    members = members_of(package)
    put_together(package, {**members, name: b"evil"})
    assert "could lead out of the folder" in refusal(package)


def test_a_name_with_a_null_is_refused(package: Path) -> None:
    members = members_of(package)
    put_together(package, {**members, "evilXname": b"evil"})
    package.write_bytes(package.read_bytes().replace(b"evilXname", b"evil\0name"))
    assert "could lead out of the folder" in refusal(package)


@pytest.mark.parametrize("second", ["lineage.json", "LINEAGE.json", "Notebooks/base.ipynb"])
def test_a_name_that_is_there_twice_is_refused(package: Path, second: str) -> None:
    placeholder = "x" * len(second)
    put_together(package, {**members_of(package), placeholder: b"evil"})
    package.write_bytes(package.read_bytes().replace(placeholder.encode(), second.encode()))
    assert "is in it twice" in refusal(package)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFCHR, stat.S_IFIFO])
def test_a_link_or_a_device_is_refused(package: Path, kind: int) -> None:
    with zipfile.ZipFile(package, "a") as archive:
        info = zipfile.ZipInfo("files/link")
        info.external_attr = (kind | 0o777) << 16
        archive.writestr(info, b"/etc/passwd")
    assert "is no file, but a link, a folder or a device" in refusal(package)


def test_a_member_that_the_manifest_does_not_list_is_refused(package: Path) -> None:
    put_together(package, {**members_of(package), "evil": b"evil"}, is_honest=False)
    assert "the member evil is not in its manifest" in refusal(package)


@pytest.mark.parametrize(
    "name", ["evil", "files/evil", "files/aa/" + "b" * 32, "outputs/" + "a" * 64 + ".json"]
)
def test_a_member_of_no_known_kind_is_refused(package: Path, name: str) -> None:
    put_together(package, {**members_of(package), name: b"{}"})
    assert "is of no kind that there is" in refusal(package)


@pytest.mark.parametrize("name", ["lineage.json", "README.md", "ro-crate-metadata.json"])
def test_a_member_that_is_missing_is_noticed(package: Path, name: str) -> None:
    members = members_of(package)
    del members[name]
    put_together(package, members)
    assert f"the member {name} is missing" in refusal(package)


def test_an_encrypted_member_is_refused(package: Path) -> None:
    data = bytearray(package.read_bytes())
    for sign, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(sign) + at] |= 1
    package.write_bytes(data)
    assert "is encrypted" in refusal(package)


def test_an_unknown_compression_is_refused(package: Path) -> None:
    members = members_of(package)
    put_together(package, members, method=zipfile.ZIP_LZMA)
    assert "packed in some unknown way" in refusal(package)


# ---------------------------------------------------------------- bombs


def said_size(package: Path, member: str, size: int) -> None:
    """Let both headers of a member say another size."""
    data = bytearray(package.read_bytes())
    name = member.encode()
    for sign, place, length in ((b"PK\x03\x04", 22, 30), (b"PK\x01\x02", 24, 46)):
        at = data.index(sign)
        while data[at + length : at + length + len(name)] != name:
            at = data.index(sign, at + 1)
        data[at + place : at + place + 4] = struct.pack("<L", size)
    package.write_bytes(data)


def test_a_bomb_is_refused_by_what_it_says(package: Path) -> None:
    said_size(package, "README.md", 300 * 2**20)
    line = refusal(package)
    assert "it would unpack to 300 MB, and 256 MB is allowed" in line
    assert "allow more with --limit" in line


def test_a_limit_is_for_everything_together(package: Path) -> None:
    with open_package(package) as found:
        size = found.summary.unpacked_bytes
    assert "is allowed" in refusal(package, limit_bytes=size - 1)
    open_package(package, limit_bytes=size).close()


def test_a_bomb_that_lies_about_its_size_stops_there(package: Path) -> None:
    put_together(package, {**members_of(package), "README.md": b"0123456789"})
    bomb = {**members_of(package), "README.md": b"\0" * 2**24}
    put_together(package, bomb, is_honest=False)
    said_size(package, "README.md", 10)
    assert "the member README.md is larger than it says" in refusal(package)


def overlapping(count: int, kernel: bytes) -> bytes:
    """Return an archive of many members that share the bytes of one (a flat bomb)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed_kernel = packer.compress(kernel) + packer.flush()
    crc = zlib.crc32(kernel)
    common = (20, 0, 8, 0, 33, crc, len(packed_kernel), len(kernel))
    local = struct.pack("<4sHHHHHLLLHH", b"PK\x03\x04", *common, 9, 0) + b"chex.json"
    body = local + packed_kernel
    central = b""
    for number in range(count):
        name = f"{number:04}.json".encode() if number else b"chex.json"
        central += struct.pack(
            "<4sHHHHHHLLLHHHHHLL", b"PK\x01\x02", 20, *common, 9, 0, 0, 0, 0, 0, 0
        )
        central += name
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, count, count, len(central), len(body), 0)
    return body + central + end


def test_members_that_overlap_are_refused(tmp_path: Path) -> None:
    package = tmp_path / "bomb.chex"
    package.write_bytes(overlapping(250, b"\0" * 2**20))
    assert package.stat().st_size < 20_000
    assert "overlaps another" in refusal(package)


def test_an_archive_that_holds_itself_is_a_file_like_any_other(package: Path) -> None:
    # Nothing in a package is ever opened as an archive again.
    inner = package.read_bytes()
    name = f"files/{digest(inner)[:2]}/{digest(inner)}"
    put_together(package, {**members_of(package), name: inner})
    with open_package(package) as found:
        assert digest(inner) in found.digests


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    package = tmp_path / "many.chex"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("chex.json", b"{}")
    data = package.read_bytes()
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 55, len(data) - 77, 0)
    large = struct.pack(
        "<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 10**9, 10**9, 55, len(data) - 22 - 55
    )
    where = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(data) - 22, 1)
    package.write_bytes(data[:-22] + large + where + end)
    assert "it has 1000000000 members" in refusal(package)


# ---------------------------------------------------------------- lies


def test_a_lie_about_contents_is_noticed(package: Path) -> None:
    members = members_of(package)
    put_together(package, {**members, "README.md": members["README.md"].upper()}, is_honest=False)
    assert "the manifest lies about the contents of README.md" in refusal(package)


def test_a_lie_about_a_size_is_noticed(package: Path) -> None:
    put_together(package, {**members_of(package), "README.md": b"short"}, is_honest=False)
    assert "the manifest lies about the size of README.md" in refusal(package)


def test_a_file_that_is_not_what_its_digest_says_is_refused(package: Path) -> None:
    name = f"files/{digest(DATA)[:2]}/{digest(DATA)}"
    put_together(package, {**members_of(package), name: b"other data"})
    assert "are not those of its digest" in refusal(package)


def test_headers_that_disagree_are_noticed(package: Path) -> None:
    original = package.read_bytes()
    first = original.index(b"PK\x03\x04", 10)
    for at in (6, 8, 10, 12, 14, 18, 22, 26, 30):
        data = bytearray(original)
        data[first + at] ^= 0x10
        package.write_bytes(data)
        assert "it is damaged" in refusal(package)


def test_bytes_before_between_and_after_are_noticed(package: Path) -> None:
    data = package.read_bytes()
    second = data.index(b"PK\x03\x04", 10)
    directory = data.index(b"PK\x01\x02")
    for changed in (
        b"#!/bin/sh\n" + data,
        data[:second] + b"\0" + data[second:],
        data[:directory] + b"\0" + data[directory:],
        data[:-22] + b"\0" + data[-22:],
        data + b"\0",
        data[:-2] + b"\5\0hello",
    ):
        package.write_bytes(changed)
        refusal(package)


@pytest.mark.parametrize("size", [0, 1, 4, 21, 22, 100, 1000, -1, -22, -23, -100])
def test_a_truncated_package_is_refused(package: Path, size: int) -> None:
    package.write_bytes(package.read_bytes()[:size])
    line = refusal(package)
    assert "it is no package of CHEX" in line or "it is damaged" in line


# ---------------------------------------------------------------- documents


@pytest.mark.parametrize(
    ("notebooks", "complaint"),
    [
        ({"Base": "README.md"}, "the notebook README.md is of no version"),
        ({"nobody": "notebooks/nobody.ipynb"}, "is of no version"),
        ({"Base": "notebooks/nobody.ipynb"}, "the notebook notebooks/nobody.ipynb is not there"),
    ],
)
def test_notebooks_are_those_of_versions(
    package: Path, notebooks: dict[str, str], complaint: str
) -> None:
    members = {n: d for n, d in members_of(package).items() if not n.startswith("notebooks/")}
    put_together(package, members)
    assert complaint in refusal(edited(package, "chex.json", put("notebooks", notebooks)))


def test_a_newer_format_asks_for_an_upgrade(package: Path) -> None:
    members = members_of(package)
    document = {"format": FORMAT + 1, "new": True}
    put_together(package, {**members, "chex.json": json.dumps(document).encode()}, is_honest=False)
    line = refusal(package)
    assert "it was made by a newer CHEX (format 2, this one reads up to 1): upgrade" in line


def test_another_zip_file_is_no_package(tmp_path: Path) -> None:
    package = tmp_path / "other.chex"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert "it is no package of CHEX" in refusal(package)
    package.write_text("hello, this is no zip file at all, and has a few letters\n" * 3)
    assert "it is no package of CHEX" in refusal(package)
    package.unlink()
    with pytest.raises(PackageError, match="cannot be read: No such file"):
        open_package(package)
    with pytest.raises(PackageError, match="cannot be read: Is a directory"):
        open_package(tmp_path)


def put(path: str, value: object) -> Callable[[Any], None]:
    """Return an edit that puts a value at a place such as ``nodes.0.id``."""

    def edit(document: Any) -> None:
        *way, last = (int(word) if word.isdigit() else word for word in path.split("."))
        for word in way:
            document = document[word]
        document[last] = value

    return edit


HOSTILE_MANIFESTS = [
    ("nodes.0.id", "../../etc/passwd", "nodes[0].id is not the id of a node"),
    ("nodes.1.parent", ident(2), "does not come before it"),
    ("nodes.0.parent", ident(1), "does not come before it"),
    ("nodes.1.id", ident(1), "has other nodes"),
    ("nodes.0.cost", -1, "nodes[0].cost is not a number from 0 on: -1"),
    ("nodes.0.cost", float("nan"), "nodes[0].cost is not a number from 0 on: nan"),
    ("nodes.0.cost", 1e300, "is not a number from 0 on"),
    ("nodes.0.size", 1.5, "nodes[0].size is not a whole number"),
    ("nodes.0.size", True, "nodes[0].size is not a whole number"),
    ("nodes.0.size", 2**64, "is not a whole number"),
    ("nodes.0.cell", 3, "nodes[0].cell is not a text"),
    ("nodes.0.status", "fine", "is not one of ok, error"),
    ("nodes.0.more", 1, "has something that is not known: more"),
    ("nodes.0", [], "nodes[0] is not an object"),
    ("nodes", {}, "nodes is not a list"),
    ("versions", [], "versions is not a list of at least 1"),
    ("versions.0.node", ident(99), "leads to a node that is not in the tree"),
    ("versions.0.name", "../evil", "is not the name of a version"),
    ("versions.0.name", "..", "is not the name of a version"),
    ("versions.0.name", "a@1", "is not the name of a version"),
    ("versions.0.name", "a\x1b[2J", "is not the name of a version"),
    ("versions.0.parameters", [["a"]], "parameters[0] is not a list of 2"),
    ("extra_files", {"./../evil": ""}, "is not the name of a file in the project"),
    ("extra_files", {"/evil": ""}, "is not the name of a file in the project"),
    ("extra_files", {"./a\0b": ""}, "is not the name of a file in the project"),
    ("extra_files", {"./a/./b": ""}, "is not the name of a file in the project"),
    ("extra_files", {"./": ""}, "is not the name of a file in the project"),
    ("extra_files", {"./a": "../evil"}, "is not the digest of contents"),
    ("folders", ["./a/../.."], "is not the name of a folder"),
    ("folders", [".."], "is not the name of a folder"),
    ("listings", {"aa": ["../evil"]}, "is not the name of something in a folder"),
    ("listings", {"aa": [".."]}, "is not the name of something in a folder"),
    ("notebooks", {"Base": "chex.json"}, "is of no kind"),
    ("notebooks", {"nobody": "notebooks/Base.ipynb"}, "is of no kind"),
    ("title", "two\nlines", "title is not a text in one line"),
    ("left_out", ["\x1b]0;evil\x07"], "left_out[0] is not a text in one line"),
    ("folder", "relative", "folder is not the path of a folder"),
    ("folder", "/", "folder is not the path of a folder"),
    ("format", "1", "format is not a whole number"),
    ("format", 0, "there is no format 0"),
]


@pytest.mark.parametrize(("where", "value", "complaint"), HOSTILE_MANIFESTS)
def test_a_manifest_that_is_wrong_is_refused(
    package: Path, where: str, value: object, complaint: str
) -> None:
    assert complaint in refusal(edited(package, "chex.json", put(where, value)))


HOSTILE_LINEAGES = [
    ("cells.0.node", ident(2), "lineage.json has other nodes than chex.json"),
    ("cells", [], "lineage.json has other nodes than chex.json"),
    ("cells.1.parent", ident(1), "has another parent of node"),
    ("cells.0.parent", "evil", "parent is not the id of a node"),
    ("cells.0.inputs.0.1", "./../evil", "is not the name of a file"),
    ("cells.0.inputs.0.1", "/../evil", "is not the name of a file"),
    ("cells.0.inputs.0.1", "./\0", "is not the name of a file"),
    ("cells.0.inputs.0.1", "./" + "a" * 5000, "is not the name of a file"),
    ("cells.0.inputs.0.1", "./\ud800", "is not the name of a file"),
    ("cells.0.inputs.0", ["file", "./a"], "has no digest"),
    ("cells.0.inputs.0.0", "magic", "is not one of file"),
    ("cells.0.inputs.0.2", 3, "is not a text"),
    ("cells.0.effects.0.0", "./../evil", "is not the name of a file"),
    ("cells.0.effects.0", ["./a", "written"], "is not a list of 4"),
    ("cells.0.hints.0.2", "two", "is not a whole number"),
    ("cells.0.tags", "abc", "tags is not a list"),
    ("cells.0.code", None, "code is not a text: None"),
]


@pytest.mark.parametrize(("where", "value", "complaint"), HOSTILE_LINEAGES)
def test_a_lineage_that_is_wrong_is_refused(
    package: Path, where: str, value: object, complaint: str
) -> None:
    assert complaint in refusal(edited(package, "lineage.json", put(where, value)))


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({ident(9): []}, "of a node that is not in the tree"),
        ({"evil": []}, "is not the id of a node"),
        ({ident(1): ["lineage.json"]}, "the output 'lineage.json' is not there"),
        ({ident(1): ["../../evil"]}, "is not there"),
        ({ident(1): [3]}, "is no output of a notebook"),
        ({ident(1): [{"output_type": "evil"}]}, "is no output of a notebook"),
        ({ident(1): [{"output_type": []}]}, "is no output of a notebook"),
        (
            {ident(1): [{"output_type": "stream", "name": "stdout", "text": 3}]},
            "text is not a text",
        ),
        ({ident(1): [{"output_type": "stream", "name": "stdout"}]}, "text is not a text"),
        ({ident(1): [{"output_type": "display_data", "data": []}]}, "data is not an object"),
        ({ident(1): 3}, "is not a list"),
        (3, "outputs is not an object"),
    ],
)
def test_outputs_that_are_wrong_are_refused(package: Path, value: object, complaint: str) -> None:
    assert complaint in refusal(edited(package, "outputs.json", put("outputs", value)))


@pytest.mark.parametrize(
    ("where", "value", "complaint"),
    [
        ("packages", {"numpy": "1.0; rm -rf ~"}, "is not the version of a package"),
        ("packages", {"-r evil": "1"}, "is not the name of a Python package"),
        ("needed", ["evil"], "needs evil, which it does not have"),
        ("python", "3.11; rm -rf ~", "is not a version of Python"),
        ("machine", "a\nb", "is not a text in one line"),
    ],
)
def test_an_environment_that_is_wrong_is_refused(
    package: Path, where: str, value: object, complaint: str
) -> None:
    assert complaint in refusal(edited(package, "environment.json", put(where, value)))


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://evil",
        "-r ../evil.txt",
        "evil @ https://evil/evil.whl",
        "./evil.whl",
        "numpy>=1",
        "numpy==1.0 --global-option=evil",
        "numpy==1.0 # comment",
    ],
)
def test_a_lock_file_holds_nothing_but_pins(package: Path, line: str) -> None:
    members = members_of(package)
    put_together(package, {**members, "requirements.lock": f"# fine\n{line}\n".encode()})
    assert "a line of the lock file is no pin" in refusal(package)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b"\x80",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"format": 1, "format": 1}',
        b"1" * 10_000,
        b"[]",
        b"null",
    ],
)
def test_what_is_no_document_is_refused(package: Path, text: bytes) -> None:
    members = members_of(package)
    put_together(package, {**members, "lineage.json": text})
    assert "lineage.json" in refusal(package)
    put_together(package, {**members, "chex.json": text}, is_honest=False)
    assert "chex.json" in refusal(package)


def test_an_output_that_is_nested_too_deep_is_refused(package: Path) -> None:
    deep: object = 1
    for _ in range(150):
        deep = [deep]
    output = {"output_type": "display_data", "data": {"application/json": deep}}
    change = put("outputs", {ident(1): [output]})
    assert "is nested too deep" in refusal(edited(package, "outputs.json", change))


def test_paths_that_do_not_fit_in_memory_are_refused(package: Path) -> None:
    length = 3000

    def chain(manifest: dict[str, Any]) -> None:
        manifest["nodes"] = [
            {"id": ident(n), **({"parent": ident(n - 1)} if n > 1 else {})}
            for n in range(1, length + 1)
        ]
        manifest["versions"] = [
            {"name": f"v{number}", "node": ident(length)} for number in range(length)
        ]
        manifest["notebooks"] = {}

    def chained(lineage: dict[str, Any]) -> None:
        one = {"code": "", "strict": "", "number": 1}
        lineage["cells"] = [{"node": ident(n), **one} for n in range(1, length + 1)]
        lineage["cells"][0]["parent"] = "f" * 32

    members = {n: d for n, d in members_of(package).items() if not n.startswith("notebooks/")}
    put_together(package, members)
    edited(package, "outputs.json", put("outputs", {}))
    edited(package, "lineage.json", chained)
    assert "more than 2,000,000 cells" in refusal(edited(package, "chex.json", chain))


def test_a_package_is_not_written_to(package: Path) -> None:
    before = package.read_bytes()
    os.chmod(package, 0o400)
    with open_package(package) as found:
        found.extract_files(package.parent / "scratch")
    assert package.read_bytes() == before
