"""Environments are made from pins, and what cannot be installed is told."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import chexpoint
from chexpoint.errors import InvalidValue, PackageError
from chexpoint.package import build_venv, find_python
from chexpoint.package.venv import install, own_requirements

THIS = ".".join(map(str, sys.version_info[:3]))


def wheel(folder: Path, name: str, version: str) -> None:
    """Write a package of one module that can be installed."""
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"version = {version!r}\n")
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", f"{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with all packages that pip knows of."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel(folder, "chex_test_package", "1.5")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.mark.slow
def test_an_environment_has_what_is_pinned_and_chex_itself(tmp_path: Path, index: Path) -> None:
    told: list[str] = []
    lock = "# a comment\nchex-test-package==1.5\n"
    python = build_venv(tmp_path / "venv", lock, told.append, python=THIS, also=())
    code = (
        "import chex_test_package, chexpoint, chexpoint.package;"
        "print(chex_test_package.version, chexpoint.__version__, chexpoint.__file__)"
    )
    found = subprocess.run(
        [python, "-I", "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()
    assert found[:2] == ["1.5", chexpoint.__version__]
    assert Path(found[2]).is_relative_to(tmp_path / "venv")
    assert told[0] == "making a virtual environment"
    assert any("chex_test_package" in line or "chex-test-package" in line for line in told)
    with pytest.raises(InvalidValue, match="is not empty: name another folder"):
        build_venv(tmp_path / "venv", lock, also=())


@pytest.mark.slow
def test_a_pin_that_cannot_be_had_is_named(index: Path) -> None:
    # Nothing is installed here: pip looks for everything first.
    with pytest.raises(PackageError) as caught:
        install(Path(sys.executable), ["chex-test-package==2.0"], lambda _: None)
    line = str(caught.value)
    assert line.startswith("the environment cannot be made: ")
    assert "chex-test-package==2.0" in line
    assert "\n" not in line


def test_a_lock_file_that_does_more_than_pin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="is no pin"):
        build_venv(tmp_path / "venv", "--index-url https://evil\nnumpy==1.0\n")
    assert not (tmp_path / "venv").exists()


def test_this_python_will_do_for_its_own_minor_version() -> None:
    assert find_python(THIS) == sys.executable
    assert find_python("") == sys.executable


def test_another_python_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidValue, match=r"there is no python3\.99 on the PATH"):
        find_python("3.99.1")
    # One that does not run is none: version managers put such scripts on the PATH.
    script = tmp_path / "python3.99"
    script.write_text("#!/bin/sh\nexit 127\n")
    script.chmod(stat.S_IRWXU)
    with pytest.raises(InvalidValue, match=r"there is no python3\.99 on the PATH"):
        find_python("3.99.1")
    script.write_text("#!/bin/sh\necho 3.99\n")
    assert find_python("3.99.1") == str(script)


def test_what_chex_requires_is_known() -> None:
    names = " ".join(own_requirements())
    assert "ipykernel" in names
    assert "extra" not in names
