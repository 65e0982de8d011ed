"""``chex install`` writes a kernel spec that Jupyter finds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from chexpoint.cli import main
from chexpoint.cli.resources import bundled
from chexpoint.errors import ChexError

if TYPE_CHECKING:
    from types import ModuleType


def find(prefix: Path) -> KernelSpecManager:
    """Return a manager that looks below ``prefix`` only."""
    return KernelSpecManager(
        kernel_dirs=[str(prefix / "share" / "jupyter" / "kernels")], ensure_native_kernel=False
    )


def test_jupyter_finds_the_kernel(tmp_path: Path) -> None:
    assert main(["install", "--prefix", str(tmp_path)]) == 0
    spec = find(tmp_path).get_kernel_spec("chex")
    assert spec.display_name == "CHEX"
    assert spec.language == "python"
    assert spec.interrupt_mode == "signal"
    assert spec.argv == [sys.executable, "-m", "chexpoint.kernel", "-f", "{connection_file}"]
    assert spec.metadata == {"debugger": True, "supported_encryption": ["curve"]}


def test_metadata_is_that_of_the_stock_kernel() -> None:
    from ipykernel.kernelspec import get_kernel_dict

    stock = get_kernel_dict()
    ours = json.loads((bundled("kernel_spec") / "kernel.json").read_text())
    assert ours["metadata"] == stock["metadata"]
    assert ours["kernel_protocol_version"] == stock["kernel_protocol_version"]


def test_logos_are_installed(tmp_path: Path) -> None:
    main(["install", "--prefix", str(tmp_path)])
    folder = Path(find(tmp_path).get_kernel_spec("chex").resource_dir)
    for size in (32, 64):
        header = (folder / f"logo-{size}x{size}.png").read_bytes()[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(header[16:20]) == size
    assert "<svg" in (folder / "logo-svg.svg").read_text()


def test_another_name_is_shown_in_front_ends(tmp_path: Path) -> None:
    main(["install", "--prefix", str(tmp_path), "--name", "chex-dev"])
    assert find(tmp_path).get_kernel_spec("chex-dev").display_name == "CHEX (chex-dev)"


def test_installing_twice_replaces(tmp_path: Path) -> None:
    for _ in range(2):
        assert main(["install", "--prefix", str(tmp_path)]) == 0
    assert list(find(tmp_path).find_kernel_specs()) == ["chex"]


def test_user_install_goes_to_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    assert main(["install", "--user", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "chex",
        "path": str(tmp_path / "kernels" / "chex"),
    }


def test_default_inside_a_virtual_environment_is_that_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert main(["install"]) == 0
    assert "chex" in find(tmp_path).find_kernel_specs()


def test_a_place_jupyter_does_not_search_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["install", "--prefix", str(tmp_path)])
    captured = capsys.readouterr()
    assert f"JUPYTER_PATH contains {tmp_path / 'share' / 'jupyter'}" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a b", "é", ".hidden"])
def test_a_name_that_could_do_harm_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "share" / "jupyter" / "precious"
    precious.mkdir(parents=True)
    assert main(["install", "--prefix", str(tmp_path), "--name", name]) == 2
    assert "cannot name a kernel" in capsys.readouterr().err
    assert precious.is_dir()


def test_a_place_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    assert main(["install", "--prefix", str(blocker)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_missing_bundled_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(_: ModuleType | str) -> Path:
        return tmp_path / "lib" / "chexpoint"

    monkeypatch.setattr("chexpoint.cli.resources.files", elsewhere)
    with pytest.raises(ChexError, match="lacks its folder notebooks"):
        bundled("notebooks")
