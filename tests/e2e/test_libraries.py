"""Libraries that keep threads, processes or locks of their own, across a restore.

Each is used for real, with more than one thread or process, before the
checkpoint, after it, after a restore, and after a restore of a checkpoint of
the restored state.  The numbers must be the same every time.  A library whose
threads cannot be brought back may be refused instead, by name.  A hang is a
failure, never a hung suite.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from chexpoint.engine import Engine
from chexpoint.errors import ChexError, ForkRefused, RestoreFailed

pytestmark = pytest.mark.slow

CELL_TIMEOUT_S = 25.0
CASE_TIMEOUT_S = 75.0
THREADS = "3"
ENVIRONMENT = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_MAX_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "LOKY_MAX_CPU_COUNT",
    ),
    THREADS,
)

WATCHING = """
import os, threading

def watched(work):
    "Return what work() returns, and the most threads this process had meanwhile."
    peaks, done = [], threading.Event()
    def look(): peaks.append(len(os.listdir("/proc/self/task")) - 1)
    def watch():
        while not done.wait(0.001): look()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = work()
        look()
    finally:
        done.set()
        watcher.join()
    return result, max(peaks)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One use of one library: ``use()`` returns numbers that do not change."""

    name: str
    imports: str
    """Run once for all uses of the library, before anything uses its threads."""
    define: str
    """Defines ``use`` and whatever it needs."""
    threads: bool = True
    """Whether ``use`` keeps more than one thread busy."""
    threads_after: bool = True
    """Whether it still does so after a restore."""
    refuse: str = ""
    """The name that a refusal must give; empty: it must not be refused."""


LIBRARIES: list[Library] = []


def _library(
    name: str,
    imports: str,
    define: str,
    *,
    threads: bool = True,
    threads_after: bool = True,
    refuse: str = "",
) -> None:
    LIBRARIES.append(
        Library(
            name=name,
            imports=imports,
            define=dedent(define),
            threads=threads,
            threads_after=threads and threads_after,
            refuse=refuse,
        )
    )


_library(
    "numpy matmul",
    "import numpy as np",
    """
    a = np.random.default_rng(0).normal(size=(700, 700))
    def use(): return [float((a @ a).sum()), float(np.linalg.norm(a @ a.T))]
    """,
)
_library(
    "scipy svd",
    "import numpy as np, scipy.linalg",
    """
    a = np.random.default_rng(0).normal(size=(300, 300))
    def use(): return [float(scipy.linalg.svd(a)[1].sum()), float(scipy.linalg.det(a @ a.T / 300))]
    """,
)
_library(
    "scipy fft with workers",
    "import numpy as np, scipy.fft",
    """
    a = np.random.default_rng(0).normal(size=(64, 1 << 14))
    def use(): return [float(np.abs(scipy.fft.fft(a, workers=3)).sum()) for _ in range(3)]
    """,
)
_library(
    "torch elementwise",
    "import torch",
    """
    t = torch.linspace(0, 1, 4_000_000)
    def use(): return [float((t.sin() * t.exp()).sum()), float(t.clone().sqrt_().mean())]
    assert torch.get_num_threads() > 1
    """,
)
_library(
    "torch matmul",
    "import torch",
    """
    t = torch.rand(700, 700, generator=torch.Generator().manual_seed(0))
    def use(): return [float((t @ t).sum()), float(torch.linalg.svdvals(t[:200, :200]).sum())]
    """,
)
_library(
    "torch convolution",
    "import torch",
    """
    g = torch.Generator().manual_seed(0)
    x = torch.rand(8, 8, 64, 64, generator=g); k = torch.rand(16, 8, 3, 3, generator=g)
    def use(): return [float(torch.nn.functional.conv2d(x, k).sum())]
    """,
)
_library(
    "torch training",
    "import torch",
    """
    import copy
    torch.manual_seed(0)
    x = torch.rand(2048, 64); y = (x.sum(1) > 32).long()
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
    def use():
        model = copy.deepcopy(net); opt = torch.optim.Adam(model.parameters())
        losses = []
        for _ in range(10):
            opt.zero_grad(); loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward(); opt.step(); losses.append(float(loss))
        return losses
    """,
)
_library(
    "torch inter-op",
    "import torch",
    """
    import warnings; warnings.simplefilter("ignore")
    def inner(x: torch.Tensor): return (x @ x).sum()
    @torch.jit.script
    def outer(x: torch.Tensor):
        futures = [torch.jit.fork(inner, x), torch.jit.fork(inner, x + 1)]
        return torch.stack([torch.jit.wait(f) for f in futures])
    t = torch.rand(200, 200, generator=torch.Generator().manual_seed(0))
    def use(): return outer(t).tolist()
    """,
    refuse="torch",
)
_library(
    "torch DataLoader",
    "import torch",
    """
    import torch.utils.data
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(
        data, batch_size=8, num_workers=2, multiprocessing_context="fork")
    kept = [batch[0] for batch in loader]
    def use():
        kept[0] += 0
        return [float(b[0].sum()) for b in loader] + [float(k.sum()) for k in kept]
    """,
    threads_after=False,
)
_library(
    "sklearn HistGradientBoosting",
    "import numpy as np, sklearn.ensemble",
    """
    rng = np.random.default_rng(0); x = rng.normal(size=(3000, 8)); y = x[:, 0] + x[:, 1] ** 2
    def use():
        model = sklearn.ensemble.HistGradientBoostingRegressor(max_iter=8, random_state=0)
        return [float(model.fit(x, y).predict(x).sum())]
    """,
)
_library(
    "sklearn KMeans",
    "import numpy as np, sklearn.cluster",
    """
    x = np.random.default_rng(0).normal(size=(5000, 6))
    def use(): return [float(sklearn.cluster.KMeans(5, n_init=2, random_state=0).fit(x).inertia_)]
    """,
)
_library(
    "sklearn RandomForest in threads",
    "import numpy as np, sklearn.ensemble",
    """
    rng = np.random.default_rng(0); x = rng.normal(size=(1500, 8)); y = x[:, 0] > 0
    def use():
        model = sklearn.ensemble.RandomForestClassifier(20, n_jobs=2, random_state=0)
        return [float(model.fit(x, y).predict_proba(x).sum()), float(model.score(x, y))]
    """,
)
_library(
    "joblib loky",
    "import joblib",
    """
    import math
    def use():
        with joblib.parallel_config("loky", n_jobs=2):
            return joblib.Parallel()(joblib.delayed(math.sqrt)(i) for i in range(8))
    """,
    refuse="loky|joblib",
)
_library(
    "polars group_by",
    "import polars as pl",
    """
    n = 200_000
    df = pl.DataFrame({"k": [i % 97 for i in range(n)], "v": [float(i) for i in range(n)]})
    def use(): return df.group_by("k").agg(pl.col("v").sum()).sort("k")["v"].to_list()
    """,
    refuse="polars",
)
_library(
    "pyarrow compute, parquet and csv",
    "import pyarrow as pa, pyarrow.compute as pc, pyarrow.csv, pyarrow.parquet as pq",
    """
    pa.set_cpu_count(3)
    t = pa.table({"k": [i % 50 for i in range(200_000)], "v": [float(i) for i in range(200_000)]})
    pq.write_table(t, "t.parquet", row_group_size=10_000); pyarrow.csv.write_csv(t, "t.csv")
    def use():
        grouped = t.group_by("k", use_threads=True).aggregate([("v", "sum")]).sort_by("k")
        back = pq.read_table("t.parquet", use_threads=True)
        blocks = pyarrow.csv.ReadOptions(block_size=100_000)
        text = pyarrow.csv.read_csv("t.csv", read_options=blocks)
        return grouped["v_sum"].to_pylist() + [pc.sum(back["v"]).as_py(), pc.sum(text["v"]).as_py()]
    """,
)
_library(
    "duckdb",
    "import duckdb",
    """
    con = duckdb.connect(); con.execute("set threads = 3")
    con.execute("create table t as select i % 97 as k, i as v from range(1000000) r(i)")
    def use():
        new = duckdb.connect(); new.execute("set threads = 3")
        one = new.execute("select sum(i) from range(3000000) r(i)").fetchone()
        new.close()
        rows = con.execute("select sum(v) from t group by k order by k").fetchall()
        return [row[0] for row in rows] + [*one]
    """,
    threads_after=False,
    refuse="duckdb",
)
_library(
    "numexpr",
    "import numpy as np, numexpr",
    """
    a = np.linspace(0, 1, 3_000_000)
    numexpr.set_num_threads(3)
    def use(): return [float(numexpr.evaluate("sin(a) * exp(a) + a ** 3").sum())]
    assert numexpr.set_num_threads(3) == 3
    """,
)
_library(
    "pandas with numexpr",
    "import numpy as np, pandas as pd, numexpr",
    """
    pd.set_option("compute.use_numexpr", True); numexpr.set_num_threads(3)
    df = pd.DataFrame({"a": np.linspace(0, 1, 2_000_000), "b": np.linspace(1, 2, 2_000_000)})
    def use(): return [float(df.eval("a * b + a ** 2").sum()), float((df["a"] + df["b"]).sum())]
    """,
)
_NUMBA = """
    @numba.njit(parallel=True)
    def total(x):
        s = 0.0
        for i in numba.prange(len(x)): s += x[i] * x[i]
        return s
    data = np.linspace(0, 1, 1_000_000)
    def use(): return [total(data)]
    use()
    assert numba.threading_layer() == "LAYER" and numba.get_num_threads() > 1
    """
_library(
    "numba workqueue",
    "import os; os.environ['NUMBA_THREADING_LAYER'] = 'workqueue'\nimport numba, numpy as np",
    _NUMBA.replace("LAYER", "workqueue"),
)
_library(
    "numba OpenMP",
    "import os; os.environ['NUMBA_THREADING_LAYER'] = 'omp'\nimport numba, numpy as np",
    _NUMBA.replace("LAYER", "omp"),
    refuse="numba",
)
_library(
    "xgboost",
    "import numpy as np, xgboost",
    """
    rng = np.random.default_rng(0); x = rng.normal(size=(3000, 8)); y = x[:, 0] * 2
    def use():
        d = xgboost.DMatrix(x, y, nthread=3)
        params = {"nthread": 3, "tree_method": "hist", "seed": 0}
        return [float(xgboost.train(params, d, num_boost_round=8).predict(d).sum())]
    """,
)
_library(
    "lightgbm",
    "import numpy as np, lightgbm",
    """
    rng = np.random.default_rng(0); x = rng.normal(size=(3000, 8)); y = x[:, 0] * 2
    params = {"num_threads": 3, "verbose": -1, "deterministic": True, "seed": 0}
    def use():
        model = lightgbm.train(params, lightgbm.Dataset(x, y, params=params), num_boost_round=8)
        return [float(model.predict(x).sum())]
    """,
)
_library(
    "several OpenMP runtimes at once",
    "import numpy as np, torch, sklearn.cluster, lightgbm, xgboost",
    """
    x = np.random.default_rng(0).normal(size=(3000, 8)); y = x[:, 0]
    params = {"num_threads": 3, "verbose": -1, "deterministic": True, "seed": 0}
    def use():
        t = torch.from_numpy(x)
        d = xgboost.DMatrix(x, y, nthread=3)
        return [
            float((t.T @ t).sum()), float(torch.sin(torch.linspace(0, 1, 2_000_000)).sum()),
            float(sklearn.cluster.KMeans(3, n_init=1, random_state=0).fit(x).inertia_),
            float(lightgbm.train(params, lightgbm.Dataset(x, y), 4).predict(x).sum()),
            float(xgboost.train({"nthread": 3}, d, 4).predict(d).sum()),
            float((x.T @ x).sum()),
        ]
    """,
)
_library(
    "a thread pool of the user",
    "import numpy as np, hashlib",
    """
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(3); blocks = [bytes([i]) * 3_000_000 for i in range(12)]
    def digest(block): return int(hashlib.sha1(block).hexdigest()[:8], 16)
    def use(): return list(pool.map(digest, blocks))
    """,
)
_library(
    "matplotlib Agg",
    "import zlib, numpy as np, matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt",
    """
    def use():
        fig, ax = plt.subplots(figsize=(2, 2), dpi=60); ax.plot([1, 3, 2]); ax.set_title("title")
        fig.canvas.draw(); pixels = np.asarray(fig.canvas.buffer_rgba()).tobytes(); plt.close(fig)
        return [zlib.crc32(pixels)]
    """,
    threads=False,
)
_library(
    "h5py",
    "import h5py, numpy as np",
    """
    with h5py.File("x.h5", "w") as f:
        f.create_dataset("d", data=np.arange(100_000.0), chunks=(1000,), compression="gzip")
    f = h5py.File("x.h5", "r"); d = f["d"]
    def use(): return [float(d[i : i + 5000].sum()) for i in range(0, 100_000, 5000)]
    """,
    threads=False,
    refuse="x.h5",
)


class Bench:
    """One engine for all libraries; each starts from a state that has only imported it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._engine: Engine | None = None
        self._imported: set[str] = set()

    @contextlib.contextmanager
    def engine_with(self, imports: str) -> Iterator[Engine]:
        """Give an engine that has run ``imports``; a hang or a crash costs only that engine."""
        engine = self._engine
        if engine is None:
            # A pool that dies with its engine leaves its shared files behind: not in /dev/shm.
            env = {**ENVIRONMENT, "JOBLIB_TEMP_FOLDER": str(self._folder)}
            engine = self._engine = Engine(auto="never", cwd=self._folder, env=env)
            engine.checkpoint("fresh")
            self._imported = set()
        watchdog = threading.Timer(CASE_TIMEOUT_S, os.kill, (engine.pid, signal.SIGKILL))
        watchdog.start()
        try:
            self._go_to(engine, imports)
            yield engine
        except ForkRefused:
            raise
        except (ChexError, OSError, AssertionError):
            self.close()
            raise
        finally:
            watchdog.cancel()

    def _go_to(self, engine: Engine, imports: str) -> None:
        if imports in self._imported:
            engine.restore(imports)
            return
        engine.restore("fresh")
        run(engine, f"{imports}\n{WATCHING}")
        with contextlib.suppress(ForkRefused):  # some start threads on import
            engine.checkpoint(imports)
            self._imported.add(imports)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.kill()
            self._engine = None


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with contextlib.closing(Bench(tmp_path_factory.mktemp("libraries"))) as bench:
        yield bench


def run(engine: Engine, cell: str) -> str:
    """Run a cell that has to succeed, and return what it printed."""
    result = engine.run(cell, timeout_s=CELL_TIMEOUT_S)
    assert result.status == "ok", f"{result.error and result.error.evalue}\n{cell}"
    return result.text


def start_once(thread: threading.Thread) -> None:
    if thread.ident is None:
        thread.start()


FIRST_USE = "before, busy = watched(use); print(busy)"
SAME_AGAIN = """
after, busy = watched(use)
if isinstance(before[0], str): same = after == before
else:
    import math
    same = len(after) == len(before) and all(map(math.isclose, after, before))
print(busy if same else f"{str(after)[:200]} instead of {str(before)[:200]}")
"""


def check_use(engine: Engine, library: Library, *, threads: bool) -> None:
    said = run(engine, SAME_AGAIN).strip()
    assert said.isdigit(), f"{library.name} computes something else: {said}"
    assert int(said) > 1 or not threads, f"{library.name} uses only one thread"


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda lib: re.sub(r"\W+", "-", lib.name))
def test_library_works_after_restore_or_is_refused(library: Library, bench: Bench) -> None:
    with bench.engine_with(library.imports) as engine:
        run(engine, library.define)
        threads = int(run(engine, FIRST_USE))
        assert threads > 1 or not library.threads, "the library was meant to use several threads"
        try:
            engine.checkpoint("used")
        except ForkRefused as refusal:
            reasons = "; ".join(f"{r.what} ({r.advice})" for r in refusal.reasons)
            assert library.refuse, f"refused without need: {reasons}"
            assert re.search(library.refuse, reasons)
            check_use(engine, library, threads=library.threads)
            return
        check_use(engine, library, threads=library.threads)
        engine.restore("used")
        check_use(engine, library, threads=library.threads_after)
        engine.checkpoint("used again")
        check_use(engine, library, threads=library.threads_after)
        engine.restore("used again")
        check_use(engine, library, threads=library.threads_after)
        engine.take("used")
        check_use(engine, library, threads=library.threads_after)
        engine.evict("used again")


DEADLOCK = """
import ctypes, os
libc = ctypes.{loader}(None)
home, mutex = os.getpid(), ctypes.create_string_buffer(128)

def use():
    "As a library that cannot cope with a fork: works at first, waits for ever in a fork."
    libc.pthread_mutex_lock(mutex)
    if os.getpid() == home:
        libc.pthread_mutex_unlock(mutex)
    else:
        print("waiting", flush=True)
        libc.pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize("loader", ["CDLL", "PyDLL"])
def test_interrupt_ends_a_deadlock_and_condemns_the_checkpoint(loader: str, tmp_path: Path) -> None:
    """``PyDLL`` waits with the interpreter's lock held, as C code that is unaware of Python."""
    with Engine(auto="never", cwd=tmp_path) as engine:
        run(engine, "kept = 'before'")
        engine.checkpoint("good")
        run(engine, DEADLOCK.format(loader=loader))
        engine.checkpoint("hangs")
        run(engine, "use()")
        engine.restore("hangs")
        watchdog = threading.Timer(CASE_TIMEOUT_S, os.kill, (engine.pid, signal.SIGKILL))
        watchdog.start()
        interrupter = threading.Timer(1.0, engine.interrupt)
        hung = engine.run("use()", on_output=lambda _: start_once(interrupter))
        watchdog.cancel()
        assert hung.status == "error"
        bad = {checkpoint.name: checkpoint.bad for checkpoint in engine.status().checkpoints}
        assert bad["hangs"]
        assert not bad["good"]
        with pytest.raises(RestoreFailed, match="hangs"):
            engine.restore("hangs")
        engine.restore("good")
        assert run(engine, "print(kept)") == "before\n"


def test_interrupt_of_a_long_computation_condemns_nothing(tmp_path: Path) -> None:
    """C code that computes does not react either, but it is not a deadlock."""
    compute = "print('begun', flush=True); k = hashlib.pbkdf2_hmac('sha256', b'p', b's', rounds)"
    measure = (
        "import time, hashlib; t = time.perf_counter();"
        " hashlib.pbkdf2_hmac('sha256', b'p', b's', 200_000);"
        " rounds = int(200_000 * 6 / (time.perf_counter() - t))"
    )
    with Engine(auto="never", cwd=tmp_path) as engine:
        run(engine, measure)
        engine.checkpoint("busy")
        run(engine, "x = 1")
        engine.restore("busy")
        run(engine, "mine = 'survives'")
        interrupter = threading.Timer(1.0, engine.interrupt)
        result = engine.run(compute, on_output=lambda _: start_once(interrupter))
        assert result.error is not None
        assert result.error.ename == "KeyboardInterrupt"
        assert run(engine, "print(mine)") == "survives\n"
        assert not any(checkpoint.bad for checkpoint in engine.status().checkpoints)
