"""The suites others wrote for Jupyter kernels, run against CHEX.

The suites are those of jupyter_kernel_test, compared with the stock kernel in the same run, and of
ipykernel itself, taken at test time from the source archive of the installed version. Which of
ipykernel's own tests pass with the stock kernel is checked on demand:

    CHEX_CONFORMANCE_KERNEL=stock pytest tests/e2e/test_conformance.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.kernel_test_suite import run_suite
from tests.support.kernels import CHEX, FOREIGN_VARIABLES, MARK, STOCK
from tests.support.processes import wait_none_marked

pytestmark = pytest.mark.slow

MODULES = ("test_kernel", "test_message_spec", "test_async", "test_debugger")

# Tests of ipykernel that fail with CHEX, and why they may.
DEVIATIONS: Mapping[str, str] = {
    "test_message_spec::test_subshell": "CHEX has no subshells: one request runs at a time",
    "test_message_spec::test_kernel_info_request": "CHEX does not announce subshells",
    "test_kernel::test_parent_header_and_ident": (
        "reads the private k._parent_ident['control']; control requests do not reach the process"
        " that runs the cells"
    ),
}


def test_kernel_test_suite_passes_wherever_stock_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path.name + str(os.getpid())
    for name in [name for name in os.environ if name.startswith(FOREIGN_VARIABLES)]:
        monkeypatch.delenv(name)
    for name, argv in (("stock", STOCK), ("chex", CHEX)):
        write_spec(tmp_path / "jupyter", name, argv)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv(MARK, mark)
    outcomes = {}
    for name in ("stock", "chex"):
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path / f"ipython-{name}"))
        outcomes[name] = run_suite(name)
    assert "test_execute_stdout" in outcomes["stock"].passed
    lost = outcomes["stock"].passed - outcomes["chex"].passed
    reports = {name: outcomes["chex"].failed.get(name, "did not run") for name in sorted(lost)}
    assert reports == {}
    assert wait_none_marked(MARK, mark) == []


def test_ipykernels_own_tests(tmp_path: Path, ipykernel_tests: Path) -> None:
    is_stock = os.environ.get("CHEX_CONFORMANCE_KERNEL") == "stock"
    expected = set() if is_stock else set(DEVIATIONS)
    results = run_tests(ipykernel_tests, tmp_path, STOCK if is_stock else CHEX)
    assert sum(outcome == "passed" for outcome, _ in results.values()) >= 60
    failed = {name for name, (outcome, _) in results.items() if outcome == "failed"}
    unexpected = {name: results[name][1] for name in sorted(failed - expected)}
    assert not unexpected, "\n\n".join(f"{name}\n{text}" for name, text in unexpected.items())
    assert expected - failed == set(), "expected to deviate, but passed: drop from DEVIATIONS"


@pytest.fixture
def ipykernel_tests(pytestconfig: pytest.Config) -> Path:
    """A folder with the test modules of the installed ipykernel, kept between test runs."""
    release = version("ipykernel")
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir(f"ipykernel-{release}")
    if not (folder / "tests").exists():
        download(release, folder)
    return folder


def download(release: str, folder: Path) -> None:
    """Fetch a release's source archive, from wherever pip is set up to look, and unpack its tests.

    Without build isolation pip makes the metadata with what is installed here, and fetches no
    build tools.
    """
    fetch = ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "pip", *fetch, "--dest", str(folder), f"ipykernel=={release}"],
        check=True,
    )
    (archive,) = folder.glob("*.tar.gz")
    root = archive.name.removesuffix(".tar.gz")
    wanted = {f"{name}.py" for name in (*MODULES, "__init__", "utils")}
    (folder / "incomplete").mkdir(exist_ok=True)
    with tarfile.open(archive) as files:
        for name in wanted:
            content = files.extractfile(f"{root}/tests/{name}")
            assert content is not None
            (folder / "incomplete" / name).write_bytes(content.read())
    (folder / "incomplete").rename(folder / "tests")


def run_tests(folder: Path, scratch: Path, argv: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Run the modules with `argv` as the `python3` kernel; return outcome and report by test."""
    mark = scratch.name + str(os.getpid())
    write_spec(scratch / "jupyter", "python3", argv)
    (scratch / "pytest.ini").write_text(
        "[pytest]\nmarkers = flaky: run again when it fails\n"
        "addopts = -p flaky.flaky_pytest_plugin -p pytest_timeout -p no:cacheprovider\n"
        "timeout = 60\n"
    )
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_VARIABLES)
    }
    report = scratch / "report.xml"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", str(scratch / "pytest.ini")),
            *("--rootdir", str(folder), "--junitxml", str(report)),
            *(f"tests/{name}.py" for name in MODULES),
        ],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        env={
            **inherited,
            "JUPYTER_PATH": str(scratch / "jupyter"),
            "IPYTHONDIR": str(scratch / "ipython"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            MARK: mark,
        },
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert wait_none_marked(MARK, mark) == []
    return read_report(report)


def read_report(path: Path) -> dict[str, tuple[str, str]]:
    results = {}
    # The report was written by our own subprocess.
    for case in ET.parse(path).getroot().iter("testcase"):  # noqa: S314
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
        problems = [child for child in case if child.tag in ("failure", "error")]
        if problems:
            results[name] = ("failed", "\n".join(problem.text or "" for problem in problems))
        else:
            results[name] = ("skipped" if case.find("skipped") is not None else "passed", "")
    return results


def write_spec(folder: Path, name: str, argv: Sequence[str]) -> None:
    spec = folder / "kernels" / name
    spec.mkdir(parents=True)
    contents = {
        "argv": list(argv),
        "display_name": name,
        "language": "python",
        "metadata": {"debugger": True},
    }
    (spec / "kernel.json").write_text(json.dumps(contents))
