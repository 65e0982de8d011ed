"""Packages that were changed at random: none escapes, crashes, or is taken for something else.

Ten thousand of them, the same each time.  Changes of single bytes must be noticed, or not matter.
Changes of what the documents say, with digests that were put right, may give another package, but
never one that is not safe.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.errors import PackageError
from chexpoint.model import (
    CellAudit,
    CellLineage,
    Effect,
    ExecutionTree,
    Hint,
    Input,
    RecordedCell,
    Recording,
    Version,
)
from chexpoint.package import Package, open_package, unpack, write_package
from chexpoint.package.documents import portable
from tests.unit.package.worlds import (
    EXTRA,
    NEEDS,
    ROOT_NODE,
    digest,
    full_recording,
    ident,
    members_of,
    node_of,
    packed,
    small_recording,
    stream,
)

Mutator = Callable[[random.Random, "World"], bytes]

BYTES, HEADERS, NAMES, LIES, VALUES, TREES = 2500, 2500, 1000, 1000, 1500, 1500
EVIL_NUMBERS = (0, 1, 8, 30, 46, 0x20, 0xFFFE, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF)


class World:
    """A good package, what is in it, and a folder that nothing may leave."""

    def __init__(self, folder: Path) -> None:
        good = packed(folder, full_recording())
        self.data = good.read_bytes()
        self.members = members_of(good)
        self.documents = {
            name: json.loads(self.members[name])
            for name in ("chex.json", "lineage.json", "outputs.json", "environment.json")
        }
        self.recording = portable(full_recording())
        self.folder = folder / "world"
        self.folder.mkdir()
        self.package = self.folder / "changed.chex"
        self.escape = str(self.folder / "escaped")
        self.unpacked: set[str] = set()
        with zipfile.ZipFile(good) as archive:
            self.headers = [info.header_offset for info in archive.infolist()]
            self.directory = archive.start_dir

    def opened(self, data: bytes) -> Recording | None:
        """Return what a package says; None if it is refused.

        It is unpacked if it is not refused, and none that would write the same was unpacked before.
        """
        self.package.write_bytes(data)
        inside = self.folder / "inside"
        try:
            with open_package(self.package) as package:
                written = repr((names_in(package.recording), package.notebooks, package.digests))
                if written not in self.unpacked:
                    self.unpacked.add(written)
                    self.unpack(package, inside)
                return package.recording
        except PackageError:
            assert not inside.exists()
            return None
        finally:
            there = {path.name for path in self.folder.iterdir()}
            assert there <= {"changed.chex", "inside"}
            if inside.exists():
                shutil.rmtree(inside)

    def unpack(self, package: Package, inside: Path) -> None:
        """Let a package write all that it can."""
        package.extract_files(inside)
        for wanted in package.digests:
            path = package.find("./any", wanted)
            assert path is not None
            assert digest(path.read_bytes()) == wanted
        unpack(package, inside / "unpacked")


def names_in(recording: Recording) -> list[str]:
    """Return the names of all files and folders of a recording."""
    names = [*recording.extra_files, *recording.folders]
    for cell in recording.cells.values():
        audit = cell.lineage.audit
        names += [each.name for each in audit.inputs if each.kind in {"file", "folder", "look"}]
        names += [effect.path for effect in audit.effects]
    return sorted(names)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("fuzz"))


def changed(world: World, mutate: Mutator, count: int) -> Iterator[Recording | None]:
    """Yield what becomes of a number of changed packages."""
    for seed in range(count):
        data = mutate(random.Random(f"{mutate.__name__} {seed}"), world)
        try:
            yield world.opened(data)
        except Exception as error:
            raise AssertionError(f"{mutate.__name__}, seed {seed}: {error!r}") from error


# ---------------------------------------------------------------- bytes


def flip_and_splice(rng: random.Random, world: World) -> bytes:
    """Flip bits, cut off, cut out, repeat, or move bytes."""
    data = bytearray(world.data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        end = min(end, start + rng.choice((1, 4, 30, 500, len(data))))
        match rng.randrange(7):
            case 0 | 1 if start < len(data):
                data[start] ^= 1 << rng.randrange(8)
            case 2:
                data[start:end] = rng.randbytes(end - start)
            case 3:
                del data[start:end]
            case 4:
                data[start:start] = data[start:end]
            case 5:
                del data[start:]
            case 6:
                at = rng.randrange(len(data) + 1)
                data[at : at + end - start] = data[start:end]
    return bytes(data)


def edit_headers(rng: random.Random, world: World) -> bytes:
    """Change numbers in headers, the directory and the end record."""
    data = bytearray(world.data)
    entries = [
        at for at in range(world.directory, len(data) - 46) if data[at : at + 4] == b"PK\x01\x02"
    ]
    for _ in range(rng.choice((1, 1, 2, 3))):
        match rng.randrange(3):
            case 0:
                at = rng.choice(world.headers) + rng.choice((0, 4, 6, 8, 10, 14, 18, 22, 26, 28))
            case 1:
                at = rng.choice(entries) + rng.choice(
                    (0, 4, 6, 8, 10, 12, 16, 20, 24, 28, 30, 32, 34, 36, 38, 40, 42)
                )
            case _:
                at = len(data) - 22 + rng.choice((0, 4, 6, 8, 10, 12, 16, 20))
        size = rng.choice((1, 2, 4))
        now = int.from_bytes(data[at : at + size], "little")
        value = rng.choice((*EVIL_NUMBERS, now + 1, now - 1, now ^ (1 << rng.randrange(8 * size))))
        data[at : at + size] = (value % 256**size).to_bytes(size, "little")
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutate", "count"),
    [
        pytest.param(flip_and_splice, BYTES, id="bytes"),
        pytest.param(edit_headers, HEADERS, id="headers"),
    ],
)
def test_changed_bytes_are_noticed_or_do_not_matter(
    world: World, mutate: Mutator, count: int
) -> None:
    results = list(changed(world, mutate, count))
    assert len(results) == count
    assert [result for result in results if result is not None and result != world.recording] == []
    # Something must be refused, and something may go unnoticed: the mode of a file, for one.
    assert results.count(None) > count * 0.8


# ---------------------------------------------------------------- archives that are put together


def put_together(
    documents: Mapping[str, Any],
    members: Mapping[str, bytes],
    lie: Callable[[dict[str, Any]], None] | None = None,
) -> bytes:
    """Return a package whose manifest is right about its members, unless it is made to lie."""
    found = dict(members)
    for name, document in documents.items():
        found[name] = json.dumps(document).encode()
    manifest = documents["chex.json"]
    if isinstance(manifest, dict) and "members" in manifest:
        listed = {
            name: [len(data), hashlib.sha256(data).hexdigest()]
            for name, data in found.items()
            if name != "chex.json"
        }
        if lie is not None:
            lie(listed)
        found["chex.json"] = json.dumps({**manifest, "members": listed}).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in found.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return file.getvalue()


def evil_name(rng: random.Random, world: World) -> str:
    """Return a name that should lead nowhere."""
    up = "../" * rng.randrange(1, 6)
    return rng.choice(
        (
            world.escape,
            f"{up}escaped",
            f"files/{up}escaped",
            f"./{up}escaped",
            f"notebooks/{up}escaped.ipynb",
            "..",
            ".",
            "",
            "./",
            "C:\\escaped",
            "files\\..\\..\\escaped",
            "esc\naped",
            "esc\x1baped",
            "ESCAPED",
            "e\u0301scaped",
            "\ud800",
            "x" * rng.randrange(200, 400),
            "~/escaped",
            "$HOME/escaped",
            "chex.json/escaped",
            f"files/{rng.choice('abc')}{rng.randrange(10)}/escaped",
        )
    )


def rename_members(rng: random.Random, world: World) -> bytes:
    """Give a member another name, or add one; the manifest knows it."""
    members = dict(world.members)
    name = evil_name(rng, world).encode("utf-8", "replace").decode() or "?"
    if rng.random() < 0.5:
        old = rng.choice(list(members))
        members = {name if each == old else each: data for each, data in members.items()}
    else:
        members[name] = b"evil"
    documents = {} if "chex.json" not in members else dict(world.documents)
    documents = {each: value for each, value in documents.items() if each in members}
    if "chex.json" not in documents:
        documents["chex.json"] = None
    return put_together(documents, members)


def lie_about_members(rng: random.Random, world: World) -> bytes:
    """Let the manifest say something else of its members."""

    def lie(listed: dict[str, Any]) -> None:
        name = rng.choice(list(listed))
        match rng.randrange(6):
            case 0:
                listed[name][0] = max(0, listed[name][0] + rng.choice((-1, 1, 10**6, 10**12)))
            case 1:
                listed[name][1] = rng.randbytes(32).hex()
            case 2:
                del listed[name]
            case 3:
                listed[evil_name(rng, world)] = listed[name]
            case 4:
                other = rng.choice([each for each in listed if each != name])
                listed[name], listed[other] = listed[other], listed[name]
            case _:
                listed[name] = evil_value(rng, world)

    return put_together(world.documents, world.members, lie)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutate", "count"),
    [
        pytest.param(rename_members, NAMES, id="names"),
        pytest.param(lie_about_members, LIES, id="lies"),
    ],
)
def test_names_and_lies_are_refused(world: World, mutate: Mutator, count: int) -> None:
    results = list(changed(world, mutate, count))
    assert len(results) == count
    assert [result for result in results if result is not None and result != world.recording] == []
    assert results.count(None) > count * 0.95


# ---------------------------------------------------------------- documents


def evil_value(rng: random.Random, world: World) -> Any:
    """Return what a document should not have, or not there."""
    return rng.choice(
        (
            None,
            True,
            -1,
            0,
            1.5,
            2**70,
            -0.0,
            float("nan"),
            float("inf"),
            [],
            {},
            [[]],
            {"a": 1},
            "",
            "error",
            "absent",
            "cell:1",
            ident(1),
            ident(2),
            ident(77),
            evil_name(rng, world),
        )
    )


def edit_documents(rng: random.Random, world: World) -> bytes:
    """Change, remove, repeat or exchange values in documents; digests are put right."""
    documents = copy.deepcopy(world.documents)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice(("chex.json", "chex.json", "lineage.json", "lineage.json", *documents))
        edit_somewhere(rng, world, documents[name])
    return put_together(documents, world.members)


def edit_somewhere(rng: random.Random, world: World, at: Any) -> None:
    """Go down into a value, and change something there."""
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = at[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.9:
            at = inner
            continue
        match rng.randrange(5):
            case 0:
                del at[key]
            case 1 if isinstance(at, list):
                at.insert(key, copy.deepcopy(inner))
            case 2:
                other = rng.choice(keys)
                at[key], at[other] = at[other], at[key]
            case 3 if isinstance(at, dict):
                at[evil_name(rng, world)] = at.pop(key)
            case _:
                at[key] = evil_value(rng, world)
        return


def rewire(rng: random.Random, world: World) -> bytes:
    """Change how nodes hang together, and where files are, in all documents alike."""
    documents = copy.deepcopy(world.documents)
    manifest, cells = documents["chex.json"], documents["lineage.json"]["cells"]
    nodes, versions, rows = manifest["nodes"], manifest["versions"], cells[0]["inputs"]
    for _ in range(rng.choice((1, 1, 2))):
        at, other = rng.randrange(len(nodes)), rng.randrange(len(nodes))
        match rng.randrange(7):
            case 0:
                nodes[at]["parent"] = nodes[other]["id"]
                cells[at].pop("parent", None)
            case 1:
                nodes[at].pop("parent", None)
                cells[at]["parent"] = rng.choice((ROOT_NODE, nodes[other]["id"]))
            case 2:
                for entries in (nodes, cells):
                    entries[at], entries[other] = entries[other], entries[at]
            case 3:
                for entries in (nodes, cells):
                    entries.insert(other, copy.deepcopy(entries[at]))
            case 4:
                rng.choice(versions)["node"] = rng.choice((nodes[at]["id"], ident(99)))
                rng.choice(versions)["name"] = rng.choice((versions[0]["name"], "new"))
            case 5:
                rng.choice(rows)[1] = evil_name(rng, world)
            case _:
                name = evil_name(rng, world)
                manifest["extra_files"][name] = rng.choice(("", "ab" * 16, digest(EXTRA)))
                manifest["folders"] += rng.choice(([], [name]))
    return put_together(documents, world.members)


def assert_is_safe(recording: Recording) -> None:
    """Check what everybody relies on who is given a recording."""
    tree = recording.tree
    assert tree.versions
    assert {node for version in tree.versions for node in version.path} == set(tree.nodes)
    for version in tree.versions:
        assert version.node is not None
        assert tuple(node.id for node in tree.path(version.node)) == version.path
        assert "/" not in version.name
        assert version.name not in {"", ".", ".."}
    assert len(recording.labels) == len(tree.versions)
    assert recording.cells.keys() == tree.nodes.keys()
    assert all(cell.node == node and len(node) == 32 for node, cell in recording.cells.items())
    for name in names_in(recording):
        assert ".." not in name.split("/")
        assert "\0" not in name
    # What was read can be packed again, and is then the same.
    assert portable(recording) == recording


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutate", "count"),
    [
        pytest.param(edit_documents, VALUES, id="values"),
        pytest.param(rewire, TREES, id="trees"),
    ],
)
def test_edited_documents_are_refused_or_safe(world: World, mutate: Mutator, count: int) -> None:
    results = list(changed(world, mutate, count))
    assert len(results) == count
    opened = [result for result in results if result is not None]
    for result in opened:
        assert_is_safe(result)
    # Neither is everything refused, nor nothing: otherwise this would test little.
    assert 0.1 < len(opened) / count < 0.9


# ---------------------------------------------------------------- round trip

texts = st.text(st.characters(codec=None), max_size=20)
hexes = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")
parts = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8
).filter(lambda part: part not in {".", ".."})
paths = st.lists(parts, min_size=1, max_size=3).map(lambda found: "./" + "/".join(found))
numbers = st.floats(0, 2**60)
wholes = st.integers(0, 2**62)
inputs = st.builds(
    Input,
    kind=st.sampled_from(["file", "folder", "look", "variable", "network"]),
    name=paths,
    digests=st.lists(hexes | st.just("absent"), min_size=1, max_size=2).map(tuple),
)
audits = st.builds(
    CellAudit,
    inputs=st.lists(inputs, max_size=3).map(tuple),
    effects=st.lists(
        st.builds(Effect, path=paths, kind=st.just("written"), digest=hexes, size_bytes=wholes),
        max_size=2,
    ).map(tuple),
    hints=st.lists(
        st.builds(Hint, kind=texts, what=texts, line=st.none() | wholes), max_size=2
    ).map(tuple),
    gaps=st.lists(texts, max_size=2).map(tuple),
    environment_reads=wholes,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
outputs = st.builds(stream, texts) | st.fixed_dictionaries(
    {
        "output_type": st.just("display_data"),
        "data": st.dictionaries(texts, values, max_size=2),
        "metadata": st.just({}),
    }
)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Draw versions of a tree, with anything in their cells."""
    cells = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        parent = draw(st.integers(0, number - 1))
        cells.append(
            RecordedCell(
                lineage=CellLineage(
                    node=ident(number),
                    parent=ident(parent) if parent else ROOT_NODE,
                    code=draw(hexes),
                    strict=draw(hexes),
                    number=number,
                    execution_count=draw(wholes),
                    source=draw(texts),
                    audit=draw(audits),
                    seconds=draw(numbers),
                    size_bytes=draw(wholes),
                    status=draw(st.sampled_from(["ok", "error"])),
                ),
                outputs=tuple(draw(st.lists(outputs, max_size=2))),
                cell_id=draw(texts),
                tags=draw(st.frozensets(texts, max_size=2)),
            )
        )
    tree = ExecutionTree([node_of(each) for each in cells])
    versions = [
        Version(
            name=f"v{at}",
            path=tuple(node.id for node in tree.path(each.node)),
            created=draw(numbers),
            parameters=tuple(draw(st.lists(st.tuples(texts, texts), max_size=2))),
        )
        for at, each in enumerate(cells)
    ]
    return Recording(
        tree=ExecutionTree(tree.nodes.values(), versions),
        cells={each.node: each for each in cells},
        title=draw(texts),
        extra_files=draw(st.dictionaries(paths, hexes | st.just(""), max_size=2)),
        listings=draw(st.dictionaries(hexes, st.lists(parts, max_size=2).map(tuple), max_size=2)),
        folders=tuple(draw(st.lists(paths, max_size=2))),
        notes=tuple(draw(st.lists(texts, max_size=2))),
        environment=small_recording().environment,
    )


@settings(max_examples=60, deadline=None)
@given(recording=recordings())
def test_any_recording_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, recording: Recording
) -> None:
    out = tmp_path_factory.getbasetemp() / "any.chex"
    write_package(out, recording, lambda _name, _digest: None, needs=NEEDS)
    with open_package(out) as package:
        assert package.recording == portable(recording)


def test_there_are_ten_thousand_of_them() -> None:
    assert BYTES + HEADERS + NAMES + LIES + VALUES + TREES >= 10_000
