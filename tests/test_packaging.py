"""The wheel holds what the source tree holds."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Return the wheel, built with the build backend that pip would call."""
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True)
    (path,) = folder.glob("chexpoint-*.whl")
    return zipfile.ZipFile(path)


def test_every_module_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    modules = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    assert modules <= set(wheel.namelist())
    assert "chexpoint/py.typed" in wheel.namelist()


@pytest.mark.parametrize("folder", ["kernel_spec", "notebooks"])
def test_bundled_files_are_in_the_wheel(wheel: zipfile.ZipFile, folder: str) -> None:
    inner = [path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.*")]
    # Not what Jupyter leaves behind in hidden folders.
    files = [path for path in inner if not any(part.startswith(".") for part in path.parts)]
    assert files
    for path in files:
        assert wheel.read(f"chexpoint/_{folder}/{path}") == (ROOT / folder / path).read_bytes()


def test_kernel_spec_goes_where_jupyter_looks(wheel: zipfile.ZipFile) -> None:
    (name,) = [
        name for name in wheel.namelist() if name.endswith("share/jupyter/kernels/chex/kernel.json")
    ]
    assert ".data/data/" in name
    # Jupyter replaces a bare "python" by the interpreter it runs under itself.
    assert json.loads(wheel.read(name))["argv"][0] == "python"


def test_nothing_else_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top.split("-")[0] for top in tops} == {"chexpoint"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name or "test" in name]
