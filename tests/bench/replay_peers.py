"""Other tools for the replay benchmark, each in a virtual environment of its own.

Environments are built on demand in a folder that is kept, from packages by name, with these
versions.  A tool that cannot be installed, or fails, has a row that says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.replay_work import Study, Versions, write_notebooks

Row = dict[str, Any]

RIVAL = Path(__file__).with_name("replay_rival.py")
KERNEL = "stock"
TIMEOUT_S = 900.0

NUMPY = "numpy==2.4.6"
NOTEBOOK_TOOLS = (
    "nbclient==0.11.0",
    "papermill==2.7.0",
    "jupyter-cache==1.0.1",
    "jupyter_client==8.10.0",
)
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "nbclient": NOTEBOOK_TOOLS,
    "papermill": NOTEBOOK_TOOLS,
    "jupyter-cache": NOTEBOOK_TOOLS,
    "joblib": ("joblib==1.6.0", NUMPY),
    "marimo": ("marimo==0.25.2", NUMPY),
    # With newer ones a checkout may leave its kernel without an answer.
    "kishu": ("kishu==0.3.4", "ipykernel==6.31.0", "numpy==2.2.6", "pandas==2.3.3"),
    "fork": (),
}
"""What each way needs; nothing: it runs in the Python that runs this."""


class Peers:
    """Environments in a folder, each built when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def python(self, way: str) -> str:
        """Return the Python that a way runs in.

        Raises
        ------
        OSError, subprocess.SubprocessError
            If its environment cannot be built.
        """
        packages = PACKAGES[way]
        if not packages:
            return sys.executable
        # Other packages are another environment.
        key = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
        home = self._folder / key
        python = home / "bin" / "python"
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(home)])
            _run([str(python), "-m", "pip", "install", "--quiet", *packages])
            (home / "complete").write_text("\n".join(packages), encoding="utf-8")
        return str(python)

    def run(self, way: str, versions: Versions, folder: Path, study: Study | None = None) -> Row:
        """Run versions in a folder; return the seconds, what they printed, and with what."""
        row: Row = {"packages": list(PACKAGES[way])}
        try:
            python = self.python(way)
        except (OSError, subprocess.SubprocessError) as error:
            return row | {"failed": f"it cannot be installed: {_told(error)}"}
        write_notebooks(folder, versions)
        job = folder / "job.json"
        job.write_text(json.dumps(_job(folder, versions, study)), encoding="utf-8")
        started = time.perf_counter()
        try:
            with tempfile.TemporaryDirectory() as home:
                found = _run([python, str(RIVAL), way, str(job)], env=_environment(Path(home)))
            row |= json.loads(found)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return row | {"failed": _told(error)}
        row["process_seconds"] = round(time.perf_counter() - started, 3)
        row["seconds"] = round(row["seconds"], 3)
        return row


def _job(folder: Path, versions: Versions, study: Study | None) -> Row:
    from tests.bench.replay_work import SET_UP

    functions: Sequence[Row] = ()
    if study is not None:
        functions = [
            {
                "name": cell.name,
                "parent": cell.parent,
                "needs": cell.needs,
                "makes": cell.makes,
                "body": cell.text,
            }
            for cell in study.cells.values()
        ]
    return {
        "folder": str(folder),
        "kernel": KERNEL,
        "versions": {name: list(cells) for name, cells in versions.items()},
        "functions": functions,
        "set_up": SET_UP,
    }


def _environment(home: Path) -> dict[str, str]:
    """Return variables with which notebook tools find the stock kernel of this Python."""
    place = home / "jupyter" / "kernels" / KERNEL
    place.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": KERNEL, "language": "python"}
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return {
        **os.environ,
        "JUPYTER_PATH": str(home / "jupyter"),
        "HOME": str(home),
        "JUPYTER_PLATFORM_DIRS": "1",
    }


def _run(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        argv, check=True, capture_output=True, text=True, env=env, timeout=TIMEOUT_S
    )
    return done.stdout


def _told(error: Exception) -> str:
    """Return the last line that a command has to say about why it failed."""
    lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
    return lines[-1][:300] if lines else type(error).__name__
