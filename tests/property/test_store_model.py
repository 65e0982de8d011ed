"""A store behaves as a dictionary of images does, whatever is done to it in whatever order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chexpoint.store import Store
from chexpoint.store.image_writer import goes_on
from chexpoint.store.manifests import Part, Place

KEY = bytes(range(32))
KEYS = ("x", "y", "z")

edits = st.lists(st.tuples(st.integers(0, 2**32), st.binary(max_size=300)), max_size=4)


def edited(data: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    """Return data with parts of it overwritten; it may grow."""
    for place, new in changes:
        start = place % (len(data) + 1)
        data = data[:start] + new + data[start + len(new) :]
    return data


class StoreModel(RuleBasedStateMachine):
    """Compares a store with a dictionary that is assumed to be perfect."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="chex-store-model-"))
        self.images: dict[str, dict[str, bytes]] = {}
        self.count = 0

    @initialize(budget=st.sampled_from([None, 10**9]))
    def start(self, budget: int | None) -> None:
        self.budget = budget
        self.reopen()

    @rule()
    def reopen(self) -> None:
        self.store = Store.open(self.folder / "store", key=KEY, budget_bytes=self.budget)

    @rule(
        data=st.data(),
        key=st.sampled_from(KEYS),
        changes=edits,
        size=st.sampled_from([0, 100, 5_000, 70_001]),
    )
    def put(
        self, data: st.DataObject, key: str, changes: list[tuple[int, bytes]], size: int
    ) -> None:
        like = data.draw(st.sampled_from([None, *self.images]))
        before = self.images[like] if like is not None else {}
        contents = {**before, key: edited(before.get(key, bytes(size)), changes)}
        same = [each for each in before if each != key]
        name = f"image{self.count}"
        self.count += 1
        info = self.store.put(
            name,
            {"name": name},
            streams={"s": name.encode()},
            arrays={key: contents[key]},
            same=[each for each in same if each != "s"],
            like=like,
        )
        self.images[name] = {**contents, "s": name.encode()}
        assert info.state_bytes == sum(map(len, self.images[name].values()))

    @precondition(lambda self: self.images)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.images)))
        self.store.forget(name)
        del self.images[name]

    @rule()
    def sweep(self) -> None:
        self.store.gc()
        assert self.store.usage().waste_bytes == 0

    @precondition(lambda self: self.images)
    @rule(data=st.data())
    def sweep_to(self, data: st.DataObject) -> None:
        wanted = data.draw(st.sets(st.sampled_from(sorted(self.images))))
        self.store.gc(wanted=wanted)
        self.images = {name: self.images[name] for name in self.images if name in wanted}

    @rule()
    def drop_caches(self) -> None:
        shutil.rmtree(self.folder / "store" / "index")
        (self.folder / "store" / "index").mkdir()

    @invariant()
    def all_is_as_it_should_be(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {each.name for each in self.store.images()} == set(self.images)
        assert self.store.fsck().damages == ()
        for name, parts in self.images.items():
            with self.store.read(name) as image:
                assert image.document == {"name": name}
                found = {key: image.array(key).tobytes() for key in image.arrays}
                found["s"] = image.stream("s")
                assert found == parts

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(max_examples=12, stateful_step_count=12, deadline=None)


def test_chains_are_bounded_in_number_and_in_bytes() -> None:
    def part(*sizes: int) -> Part:
        chain = tuple(Place(pack="p", section=n, nbytes=size) for n, size in enumerate(sizes))
        return Part(kind="array", nbytes=9_000, root=bytes(16), digest="", chain=chain)

    assert goes_on(part(100), 9_000)
    assert goes_on(part(100, 50, 50), 9_000)
    assert not goes_on(part(100, 50, 51), 9_000)
    assert not goes_on(part(100, *[1] * 63), 9_000)
    assert not goes_on(part(100), 100)
