"""``chex store``, ``chex gc`` and ``chex fsck`` on a real store, whole and damaged."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from chexpoint.cli import main
from chexpoint.cli.gc import unknown_images
from chexpoint.model import ImageName, KnownImage
from chexpoint.project import Project
from chexpoint.store import Store
from tests.unit.view.worlds import recorded

CELLS = 65536


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder: a project with a store of three images, each a little changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("CHEX_STORE_KEY", "ab" * 32)
    monkeypatch.delenv("CHEX_STORE_BUDGET", raising=False)
    recorded(tmp_path)
    x = np.random.default_rng(0).integers(0, 2**60, CELLS)
    with Store.open(tmp_path / ".chex" / "store") as store:
        for number in range(3):
            x[number] = number
            store.put(f"image-{number}", {"number": number}, streams={}, arrays={"x": x.data})
    return tmp_path


def forget(project: Path, *names: str) -> None:
    """Forget images of the store."""
    with Store.open(project / ".chex" / "store") as store:
        store.forget(*names)


def packs(project: Path) -> list[Path]:
    """Return the packs of the store."""
    return sorted((project / ".chex" / "store" / "packs").iterdir())


def damage(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)


# ---------------------------------------------------------------- store


@pytest.mark.usefixtures("project")
def test_what_is_kept_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store"]) == 0
    facts, table, chart = capsys.readouterr().out.split("\n\n")
    assert "3 with states of 1.5 MB" in facts
    assert "times smaller" in facts
    assert [line.split()[2] for line in table.split("\n")[1:]] == ["image-0", "image-1", "image-2"]
    assert "1.5 MB of states" in chart


def test_images_are_called_by_their_nodes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = Project.at(project)
    node = next(each.node for each in catalog.nodes() if each.source == "x.std()")
    catalog.add_image(KnownImage(name=ImageName("image-2"), node=node, taint=""))
    assert main(["store"]) == 0
    assert f"{node[:8]} (tuned) x.std()" in capsys.readouterr().out
    assert main(["store", "--json"]) == 0
    images = json.loads(capsys.readouterr().out)["images"]
    assert [image["node"] for image in images] == [None, None, node]


@pytest.mark.usefixtures("project")
def test_json_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [image["name"] for image in data["images"]] == ["image-0", "image-1", "image-2"]
    assert data["state_bytes"] == 3 * 8 * CELLS
    assert data["ratio"] > 2.5
    assert data["budget_bytes"] is None


@pytest.mark.usefixtures("project")
def test_pictures_and_pages_are_drawn_and_drawn_again(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["store", "--svg", "store.svg", "--html", "store.html"]) == 0
        assert capsys.readouterr().out == "drew store.svg\ndrew store.html\n"
    ElementTree.parse("store.svg")  # noqa: S314 - our own file
    assert "image-2" in Path("store.html").read_text(encoding="utf-8")
    assert main(["store", "--svg"]) == 0
    ElementTree.fromstring(capsys.readouterr().out)  # noqa: S314 - our own text
    Path("mine.svg").write_text("<svg>mine</svg>", encoding="utf-8")
    assert main(["store", "--svg", "mine.svg"]) == 2
    assert "mine.svg exists and is not a picture of chex store" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_the_budget_of_the_environment_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHEX_STORE_BUDGET", "20G")
    assert main(["store"]) == 0
    assert "budget:   20.0 GB" in capsys.readouterr().out
    monkeypatch.setenv("CHEX_STORE_BUDGET", "much")
    assert main(["store"]) == 2
    assert "CHEX_STORE_BUDGET: 'much' is not a size" in capsys.readouterr().err


# ---------------------------------------------------------------- gc


def test_a_sweep_frees_what_no_image_needs(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = packs(project)
    forget(project, "image-2")
    assert main(["gc", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("would free ")
    assert packs(project) == before
    assert main(["gc", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["freed_bytes"] > 0
    assert data["packs"] == 1
    assert len(packs(project)) == 2
    assert main(["gc"]) == 0
    assert capsys.readouterr().out == "freed 0 B\n"
    assert main(["fsck"]) == 0


def test_a_budget_lets_images_go(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gc", "--budget", "1K"]) == 0
    assert ": 3 images and 3 packs" in capsys.readouterr().out
    assert packs(project) == []
    assert main(["gc", "--budget", "much"]) == 2
    assert "'much' is not a size" in capsys.readouterr().err


def test_images_that_the_catalog_does_not_know_are_useless(project: Path) -> None:
    catalog = Project.at(project)
    node = catalog.nodes()[0].node
    catalog.add_image(KnownImage(name=ImageName("image-1"), node=node, taint=""))
    with Store.open(project / ".chex" / "store") as store:
        known = unknown_images(catalog, store, before=math.inf)
        assert known == ("image-0", "image-2")
        assert unknown_images(catalog, store, before=0.0) == ()  # they may become known yet
        catalog.close()
        catalog.path.unlink()
        assert unknown_images(catalog, store, before=math.inf) == ()


def test_unfinished_files_go_when_nobody_can_be_writing_them(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project / ".chex" / "files" / "ab"
    folder.mkdir(parents=True)
    (project / ".chex" / "replays").mkdir()
    old, new, kept = folder / ".unfinished-old", folder / ".unfinished-new", folder / ("ab" * 16)
    log = project / ".chex" / "replays" / "log.jsonl.new"
    for path in (old, new, kept, log):
        path.write_bytes(bytes(1024))
    for path in (old, kept, log):
        os.utime(path, (1e9, 1e9))
    assert main(["gc", "--dry-run"]) == 0
    line = "2 unfinished files of more than a day ago (2.0 KB)"
    assert f"would remove {line}" in capsys.readouterr().out
    assert main(["gc"]) == 0
    assert f"removed {line}" in capsys.readouterr().out
    assert not old.exists()
    assert not log.exists()
    assert new.exists()
    assert kept.exists()


# ---------------------------------------------------------------- fsck


@pytest.mark.usefixtures("project")
def test_a_store_that_is_whole_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fsck"]) == 0
    assert "3 images in 3 packs, nothing is damaged" in capsys.readouterr().out
    assert main(["fsck", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fine"] is True


def test_damage_is_an_error_until_it_is_repaired(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(min(packs(project), key=lambda path: path.stat().st_size))
    assert main(["fsck"]) == 1
    out = capsys.readouterr().out
    assert "lost with it: image-" in out
    assert out.endswith("not repaired: chex fsck --repair does what can be done\n")
    assert main(["fsck", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["fine"] is False
    assert main(["fsck", "--repair"]) == 0
    assert "repaired: " in capsys.readouterr().out
    assert main(["fsck"]) == 0
    assert "nothing is damaged" in capsys.readouterr().out
    assert main(["store"]) == 0


# ---------------------------------------------------------------- no store


@pytest.mark.parametrize("verb", ["store", "gc", "fsck"])
def test_where_there_is_none_it_is_said_in_one_line(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--project", str(tmp_path)]) == 2
    assert "no .chex folder in" in capsys.readouterr().err
    (tmp_path / ".chex").mkdir()
    assert main([verb, "--project", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "nothing is kept on disk" in captured.err
    assert "%chex_persist on" in captured.err
    assert list((tmp_path / ".chex").iterdir()) == []


@pytest.mark.parametrize("verb", ["store", "gc", "fsck"])
def test_a_newer_store_is_left_alone(
    verb: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = b'{"chex_store":true,"format":99}\n'
    (project / ".chex" / "store" / "format.json").write_bytes(newer)
    assert main([verb]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "newer" in captured.err
    assert len(packs(project)) == 3
