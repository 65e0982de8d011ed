"""FlorDB, from PyPI, on the trainings of the benchmark of hindsight logging.

Two versions: the newest one, which takes no checkpoints and replays by training again, and the last
one that takes a checkpoint after every epoch.  Each is installed into an environment of its own
that sees the packages of this one, torch among them.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path

from tests.bench.hindsight_run import SCRIPT, Failed, Row, run, seconds_of, trained, write
from tests.bench.hindsight_workloads import NAMES, Probe, Workload

VERSIONS = ("4.0.1", "3.4.12")
PANDAS = "pandas==2.3.3"
"""With pandas 3 neither version can read back what it has logged."""

READ = """
import json
import sys
import flordb as flor
name = sys.argv[1]
frame = flor.dataframe(name)
loops = [each for each in ("epoch", "step") if each in frame.columns]
rows = []
for _, row in frame.dropna(subset=[name]).iterrows():
    rows.append(([int(row[each]) for each in loops], repr(float(row[name]))))
print(json.dumps([value for _, value in sorted(rows)]))
"""


class Flor:
    """One version of FlorDB in an environment of its own, which is built when it is first used."""

    def __init__(self, version: str, home: Path) -> None:
        self.version = version
        self._home = home / f"flordb-{version}"

    @property
    def _python(self) -> str:
        return str(self._home / "bin" / "python")

    def install(self) -> None:
        """Build the environment.

        Raises
        ------
        Failed
            If it cannot be built.
        """
        if (self._home / "complete").exists():
            return
        self._home.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "venv", str(self._home)], self._home)
        # A virtual environment cannot inherit from another one; a path file does the same.
        (site,) = self._home.glob("lib/python*/site-packages")
        (site / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        packages = [f"flordb=={self.version}", PANDAS]
        run([self._python, "-m", "pip", "install", "-q", *packages], self._home)
        (self._home / "complete").write_text("", encoding="utf-8")

    def record(self, work: Workload, folder: Path) -> Row:
        """Train with FlorDB, in a Git repository, which it needs."""
        write(work.flor(), folder)
        (folder / ".gitignore").write_text("trained.json\n", encoding="utf-8")
        for words in ("init -q -b main", "add .", "commit -q -m begin"):
            run(["git", *_WHO, *words.split()], folder)
        done = run([self._python, SCRIPT], folder, env=self._environment(folder))
        files = [path for path in folder.parent.rglob("*") if path.is_file()]
        nbytes = sum(path.stat().st_size for path in files)
        return seconds_of(done) | trained(folder) | {"bytes": nbytes}

    def probe(self, work: Workload, folder: Path, which: Probe) -> Row:
        """Add a log statement, and replay."""
        name = NAMES[which]
        write(work.flor(which), folder)
        words = [name]
        if self.version.startswith("4"):
            # Without being asked it logs only the last step of each epoch.
            words = ["--apply", name, "--iter", "epoch=all"]
            words += ["--iter", "step=all"] if which == "inner" else []
        env = self._environment(folder)
        command = [self._python, "-m", "flordb", "replay", *words]
        done = run(command, folder, env=env, answers="y\n")
        lines = run([self._python, "-c", READ, name], folder, env=env).printed.splitlines()
        if not lines:
            raise Failed(f"flordb gave no values of {name}: {done.printed[-300:]!r}")
        return seconds_of(done) | {"values": {name: json.loads(lines[-1])}}

    def _environment(self, folder: Path) -> dict[str, str]:
        # It starts `python` by that name, and keeps checkpoints in the home folder.
        path = f"{self._home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        who = {f"GIT_{role}_{key}": "bench" for role in _ROLES for key in ("NAME", "EMAIL")}
        return {"PATH": path, "HOME": str(folder.parent / "home"), **who}


_ROLES = ("AUTHOR", "COMMITTER")
_WHO = ("-c", "user.name=bench", "-c", "user.email=bench")
