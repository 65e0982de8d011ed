"""An image keeps what variables share, names what it cannot keep, and is loaded whole or not."""

from __future__ import annotations

import os
import random
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chexpoint.errors import ImageRefused, StoreDamaged
from tests.unit.image.notebook import Notebook, groups, load, reasons


def test_variables_that_share_an_object_are_in_one_group_and_others_alone() -> None:
    book = Notebook().run("x = [1]; a = {'x': x}; b = (x, 2); c = [1]; s = 'text'; t = s")
    assert groups(book.image()) == [("x", "a", "b"), ("c",), ("s",), ("t",)]
    new = load(book.image())
    assert new["a"]["x"] is new["x"] is new["b"][0]
    assert new["c"] is not new["x"]


def test_arrays_that_overlap_are_in_one_group_and_written_once() -> None:
    book = Notebook().run(
        "import numpy as np; a = np.arange(10000.)\n"
        "b = a[100:200]; c = a.reshape(100, 100).T; d = a + 1"
    )
    image = book.image()
    assert groups(image) == [("np",), ("a", "b", "c"), ("d",)]
    sizes = {key: part.nbytes for key, part in image.arrays.items()}
    # The process and modules of one's own, such as other tests, have arrays, too.
    assert {key: size for key, size in sizes.items() if not key.startswith(":")} == {
        "a/0": 80000,
        "d/0": 80000,
    }
    new = load(image)
    new["a"][100] = -1
    assert new["b"][0] == -1
    assert new["c"][0, 1] == -1


def test_an_array_becomes_the_memory_it_is_given() -> None:
    image = Notebook().run("import numpy as np; a = np.arange(10000.)").image()
    memory = bytearray(image.arrays["a/0"])
    book = Notebook()
    from chexpoint.image import rebuild

    loaded = rebuild(
        image.document,
        image.streams.__getitem__,
        lambda key: memory if key == "a/0" else bytearray(image.arrays[key]),
        main=book.names,
    )
    array = loaded["a"]
    assert isinstance(array, np.ndarray)
    array[0] = 7.0
    assert np.frombuffer(memory)[0] == 7.0


def test_equal_states_give_equal_bytes() -> None:
    source = (
        "import numpy as np; a = [1, {'k': 2.5}]; b = np.ones(9999)\n"
        "class A: pass\n"
        "c = A(); c.x = 1"
    )
    one, other = Notebook().run(source).image(), Notebook().run(source).image()
    assert one.streams["a/stream"] == other.streams["a/stream"]
    assert one.streams["b/stream"] == other.streams["b/stream"]
    assert one.streams["A/stream"] == other.streams["A/stream"]


def test_arrays_keep_their_keys_when_another_variable_of_the_group_grows() -> None:
    book = Notebook().run("import numpy as np; x = [np.ones(999)]; y = [np.zeros(999), x]")
    before = book.image().document.groups[1]
    after = book.run("x.append(np.ones(888))").image().document.groups[1]
    assert before.arrays == ("x/0", "y/0")
    assert after.arrays == ("x/0", "x/1", "y/0")


def test_what_cannot_be_stored_is_named_with_its_cell() -> None:
    book = (
        Notebook()
        .run("a = 1")
        .run("g = (i for i in 'ab'); d = {'g': g}")
        .run("h = open(__import__('os').devnull, 'w')")
    )
    image = book.image()
    lost = {each.name: each for each in image.document.lost}
    assert lost["g"].kind == "generator"
    assert lost["g"].why == "cannot pickle 'generator' object"
    assert lost["h"].why == f"file {os.devnull!r} is open for writing"
    assert load(image)["a"] == 1
    assert not lost["g"].is_alone
    book["h"].close()


def test_a_lost_variable_is_alone_only_if_nothing_shares_its_objects() -> None:
    book = (
        Notebook()
        .run("g = (i for i in 'ab')")
        .run("x = [1]")
        .run("h = (j for j in x)")
        .run("y = 2")
    )
    lost = {each.name: each for each in book.image().document.lost}
    assert (lost["g"].cell, lost["g"].is_alone) == ("c0", True)
    assert (lost["h"].cell, lost["h"].is_alone) == ("c2", False)


def test_a_spoiled_variable_does_not_spoil_those_it_shares_with() -> None:
    source = (
        "class A:\n"
        "    def __init__(self): self.n = 1\n"
        "    def __setstate__(self, s): self.n = 7\n"
        "x = [1]; v = A(); v.x = x; w = [x]"
    )
    image = Notebook().run(source).image()
    assert reasons(image) == {"v": "it does not come back equal: [0].x"}
    new = load(image)
    assert new["w"][0] is new["x"]
    assert new["A"]().n == 1


def test_names_with_a_colon_are_treated_like_variables() -> None:
    book = Notebook().run("x = [1]")
    book.names |= {":in": ["x = [1]"], ":out:1": book["x"], ":out:2": (i for i in "a")}
    image = book.image()
    assert reasons(image).keys() == {":out:2"}
    new = load(image)
    assert new[":out:1"] is new["x"]


def test_functions_see_the_namespace_they_are_loaded_into() -> None:
    new = load(Notebook().run("k = 1\ndef f(): return k").image())
    assert new["f"].__globals__ is new.names
    new.run("k = 5")
    assert new["f"]() == 5


def test_unchanged_variables_are_not_written_again() -> None:
    book = Notebook().run(
        "import numpy as np; a = np.ones(9999); b = np.zeros(9999); n = (1, 'x'); l = [1]"
    )
    first = book.image()
    second = book.run("b[0] = 1").image(first.document)
    assert second.same == {"a/stream", "a/0", "n/stream"}
    assert "a/0" not in second.arrays
    assert second.arrays["b/0"] != first.arrays["b/0"]
    assert second.document.groups[1] == first.document.groups[1]


def test_a_loaded_notebook_goes_on_with_the_parts_of_its_image() -> None:
    image = (
        Notebook().run("import numpy as np; a = np.ones(9999); n = 1\ndef f(): return n").image()
    )
    new = load(image)
    assert {"a/stream", "a/0", "n/stream"} <= new.image(image.document).same
    new.run("m = 2")
    # What `f` uses may have changed.
    assert new.image(image.document).same == {"a/stream", "a/0"}
    new.run("b = a[1:]")
    new.run("b[0] = 5")
    assert new.image(image.document).same == frozenset()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"python": "cpython 2.7.1"}, "was written by cpython 2.7.1"),
        (
            {"libraries": {"numpy": "0.1"}},
            f"numpy 0.1 wrote the image, {np.__version__} is installed",
        ),
        ({"libraries": {"no_such": "3"}}, "no_such 3 wrote the image, it is not installed"),
        ({"facts": {"format": 99}}, "another version of chexpoint"),
        ({"facts": {"cwd": "/no/such/folder"}}, "folder /no/such/folder is gone"),
    ],
)
def test_an_image_of_another_world_is_refused(change: dict[str, object], message: str) -> None:
    image = Notebook().run("import numpy as np; a = np.ones(3)").image()
    document = replace(image.document, **change)  # type: ignore[arg-type]
    with pytest.raises(ImageRefused, match=message):
        load(image, document)


def test_a_refused_image_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "read.txt"
    file.write_text("one\n")
    book = Notebook().run(f"import random; random.seed(1); a = 1; f = open({str(file)!r})")
    image = book.image()
    book["f"].close()
    file.write_text("another\n")
    random.seed(5)
    before = (random.getstate(), os.getcwd(), list(sys.path), dict(os.environ))
    with pytest.raises(ImageRefused, match=r"because of f: file .*read.txt has changed"):
        load(image)
    assert before == (random.getstate(), os.getcwd(), list(sys.path), dict(os.environ))


def test_a_damaged_stream_is_refused_and_damage_of_the_store_is_told() -> None:
    image = Notebook().run("a = [1, 2]").image()
    image.streams["a/stream"] = b"\x80\x05junk"
    with pytest.raises(ImageRefused, match="because of a"):
        load(image)

    class Streams(dict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            raise StoreDamaged(key)

    broken = replace(image, streams=Streams())
    with pytest.raises(StoreDamaged):
        load(broken)


def test_process_facts_are_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEX_TEST", "before")
    book = Notebook().run("import random, decimal; random.seed(3)")
    monkeypatch.chdir(tmp_path)
    image = book.image()
    expected = random.random()
    monkeypatch.chdir("/")
    monkeypatch.setenv("CHEX_TEST", "after")
    load(image)
    assert random.random() == expected
    assert Path.cwd() == tmp_path
    assert os.environ["CHEX_TEST"] == "before"


def test_own_modules_keep_their_data_and_must_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "my_settings.py"
    module.write_text("shared = [1]\ncount = 0\nmissing = object()\ndef f(): return count\n")
    book = Notebook().run(
        "import my_settings; my_settings.count = 4; x = my_settings.shared; x.append(2)"
    )
    image = book.image()
    missing = sys.modules.pop("my_settings").missing
    new = load(image)
    assert new["my_settings"].f() == 4
    assert new["my_settings"].shared is new["x"]
    assert new["x"] == [1, 2]
    assert new["my_settings"].missing is not missing
    module.write_text("shared = []\n")
    with pytest.raises(ImageRefused, match=r"module my_settings .* has changed"):
        load(image)
    del sys.modules["my_settings"]


def test_attributes_that_cells_set_in_libraries_are_put_back() -> None:
    book = Notebook().run("import textwrap; textwrap.added = [1]; textwrap.TextWrapper.extra = 'e'")
    image = book.image()
    del textwrap.added  # type: ignore[attr-defined]
    del textwrap.TextWrapper.extra  # type: ignore[attr-defined]
    new = load(image)
    assert new["textwrap"].added == [1]
    assert textwrap.TextWrapper.extra == "e"  # type: ignore[attr-defined]
    del textwrap.added  # type: ignore[attr-defined]
    del textwrap.TextWrapper.extra  # type: ignore[attr-defined]


def test_an_array_on_a_device_is_handed_over_as_it_is() -> None:
    from chexpoint.image.devices import DevicePart, add_part
    from chexpoint.image.pickler import ImagePickler, Surroundings

    pickler = ImagePickler(Surroundings(mains=()), [])
    assert [add_part(pickler, address, 64, object()) for address in (4096, 8192)] == [0, 1]
    part = pickler.memory.parts[1]
    assert isinstance(part, DevicePart)
    assert part.__cuda_array_interface__ == {
        "shape": (64,),
        "typestr": "|u1",
        "data": (8192, True),
        "version": 3,
    }


def test_text_columns_of_one_chunk_are_written_without_a_copy_and_parts_of_one_with_it() -> None:
    pytest.importorskip("pyarrow")
    book = Notebook().run(
        "import pandas as pd\n"
        "whole = pd.Series(['ab', None, 'c'] * 9000, dtype='str').astype('string[pyarrow]')\n"
        "part = pd.Series(whole.array[30:60]); none = whole[:0].copy()\n"
        "both = pd.concat([whole, part])\n"
        "numbers = pd.Series([1, None] * 9000, dtype='int64[pyarrow]')\n"
    )
    from chexpoint.image import Surroundings, dump

    world = Surroundings(mains=(book.names,))
    (chunk,) = book["whole"].array._pa_array.chunks
    written = [np.frombuffer(each, np.uint8) for each in dump([book["whole"]], world).parts]
    places = {each.__array_interface__["data"][0] for each in written}
    assert len(places) > 1
    assert places <= {buffer.address for buffer in chunk.buffers()}
    assert dump([book["part"]], world).size_bytes < 4096, "only its own thirty values"
    new = load(book.image())
    for name in ("whole", "part", "none", "both", "numbers"):
        assert new[name].equals(book[name])
        assert new[name].dtype == book[name].dtype


LARGE = (
    "import numpy as np, pandas as pd\na = pd.DataFrame({c: np.arange(200_000.0) for c in 'nm'})\n"
)


@pytest.mark.parametrize(
    "more",
    [
        "b = a[['n']]",
        "b = a[['n']]; del a",
        "b = a['n']; c = a['n']",
        "b = [a['n'], a['n'], a]",
        "b = [a, a.iloc[:, :1]]",
        "b = [a.head(150_000), a.tail(150_000)]",
        "v = a.to_numpy(); b = a.copy()",
        "b = a.set_index('n'); c = b.index",
        "b = a.T; c = a.astype('float32')",
    ],
)
def test_tables_that_show_the_same_memory_are_changed_after_loading_as_before(more: str) -> None:
    names = {"a", "b", "c", "v"}
    image = Notebook().run(LARGE + more).image()
    for name in sorted(load(image).names.keys() & names - {"v"}):
        change = (
            f"table = {name}[0] if isinstance({name}, list) else {name}\n"
            "if not isinstance(table, pd.Index): table.iloc[0] = -1.0\n"
        )
        new, plain = load(image).run(change), Notebook().run(LARGE + more).run(change)
        assert {each: repr(new[each]) for each in new.names.keys() & names} == {
            each: repr(plain[each]) for each in plain.names.keys() & names
        }


def test_memory_that_nothing_else_in_an_image_shares_is_not_copied_when_it_is_loaded() -> None:
    from chexpoint.image import Surroundings, dump
    from chexpoint.image.memory import lone_arrays

    book = Notebook().run(LARGE + "b = a[['n']]; c = a['m'].head(1000); d = [a['n'], a['n']]")
    world = Surroundings(mains=(book.names,))

    def alone(*names: str) -> int:
        return len(lone_arrays([dump([book[name]], world).memory for name in names]))

    assert alone("a") > 0
    assert alone("b") > 0
    assert alone("c") == 0, "to copy it costs nothing"
    assert alone("d") == 0
    assert alone("a", "b") < alone("a"), "both show the same memory"
    del book.names["b"], book.names["c"], book.names["d"]
    new = load(book.image())
    assert new["a"].equals(book["a"])


def test_loaded_arrays_are_made_with_small_pages_and_the_users_are_not() -> None:
    from chexpoint.image import small_pages

    switch = np._core.multiarray._set_madvise_hugepage  # type: ignore[attr-defined]
    before = switch(True)
    try:
        with small_pages():
            assert switch(False) is False
        assert switch(True) is True
    finally:
        switch(before)
