"""Runs versions with another tool, in whatever Python that tool is installed in.

python tests/bench/replay_rival.py WAY JOB.json    prints what came of it, as JSON

Needs nothing of CHEX, so that it runs in an environment that has the tool and nothing else.  The
seconds are by the clock, from when the tool has been imported until the last version is done.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

Job = dict[str, Any]
"""``folder`` to run in, ``kernel`` to use, ``versions`` as lists of cells, and the same as
``functions``: name, parent, needs, makes and body of each cell, and its ``set_up``."""
Found = dict[str, Any]


def text_of(outputs: list[Any]) -> str:
    """Return what cells printed."""
    return "".join(each["text"] for each in outputs if each["output_type"] == "stream")


def texts_in(notebook: Any) -> str:
    return "".join(text_of(cell["outputs"]) for cell in notebook["cells"])


# ---------------------------------------------------------------- version by version


def run_nbclient(job: Job) -> Found:
    nbclient, nbformat = importlib.import_module("nbclient"), importlib.import_module("nbformat")
    folder = Path(job["folder"])
    texts = {}
    started = time.perf_counter()
    for name in job["versions"]:
        found = nbformat.read(folder / f"{name}.ipynb", as_version=4)
        client = nbclient.NotebookClient(
            found, kernel_name=job["kernel"], resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
        texts[name] = texts_in(found)
    return {"seconds": time.perf_counter() - started, "texts": texts}


def run_papermill(job: Job) -> Found:
    papermill = importlib.import_module("papermill")
    folder = Path(job["folder"])
    texts = {}
    started = time.perf_counter()
    for name in job["versions"]:
        found = papermill.execute_notebook(
            str(folder / f"{name}.ipynb"),
            str(folder / f"{name}.done.ipynb"),
            kernel_name=job["kernel"],
            cwd=str(folder),
            progress_bar=False,
        )
        texts[name] = texts_in(found)
    return {"seconds": time.perf_counter() - started, "texts": texts}


def run_jupyter_cache(job: Job) -> Found:
    cache_module = importlib.import_module("jupyter_cache")
    executors = importlib.import_module("jupyter_cache.executors")
    folder = Path(job["folder"])
    cache = cache_module.get_cache(str(folder / ".cache"))
    started = time.perf_counter()
    for name in job["versions"]:
        cache.add_nb_to_project(str(folder / f"{name}.ipynb"))
    executors.load_executor("local-serial", cache).run_and_cache(timeout=600)
    seconds = time.perf_counter() - started
    texts = {}
    for name in job["versions"]:
        record = cache.get_cached_project_nb(str(folder / f"{name}.ipynb"))
        texts[name] = texts_in(cache.get_cache_bundle(record.pk).nb) if record else ""
    again = time.perf_counter()
    executors.load_executor("local-serial", cache).run_and_cache(timeout=600)
    warm = time.perf_counter() - again
    return {"seconds": seconds, "texts": texts, "seconds_if_nothing_changed": warm}


# ---------------------------------------------------------------- rewritten as functions


def paths_of(job: Job) -> dict[str, list[dict[str, Any]]]:
    """Return the functions that each version calls, in order."""
    functions = {each["name"]: each for each in job["functions"]}
    found = {}
    for name in job["versions"]:
        path = [functions[name]]
        while path[0]["parent"] is not None:
            path.insert(0, functions[path[0]["parent"]])
        found[name] = path
    return found


def indented(text: str, spaces: int) -> str:
    return "\n".join(" " * spaces + line for line in text.splitlines())


def joblib_module(job: Job) -> str:
    """Return all cells as functions whose results joblib keeps."""
    location = str(Path(job["folder"]) / "joblib")
    parts = [
        job["set_up"],
        f"from joblib import Memory\nmemory = Memory({location!r}, verbose=0)",
    ]
    parts += [
        f"@memory.cache\ndef {each['name']}({', '.join(each['needs'])}):\n"
        f"{indented(each['body'], 4)}\n    return {', '.join(each['makes'])}"
        for each in job["functions"]
    ]
    for name, path in paths_of(job).items():
        calls = [
            f"{', '.join(each['makes'])} = {each['name']}({', '.join(each['needs'])})"
            for each in path
        ]
        parts.append(f"def version_{name}():\n" + indented("\n".join(calls), 4))
        parts[-1] += "\n    return text"
    return "\n\n".join(parts) + "\n"


def run_joblib(job: Job) -> Found:
    module = imported(Path(job["folder"]), "as_functions", joblib_module(job))
    started = time.perf_counter()
    texts = {name: getattr(module, f"version_{name}")() + "\n" for name in job["versions"]}
    return {"seconds": time.perf_counter() - started, "texts": texts}


def imported(folder: Path, name: str, text: str) -> Any:
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module(name)


def marimo_app(job: Job, path: list[dict[str, Any]]) -> str:
    """Return a version as a marimo notebook with a persistent cache in each cell."""
    place = str(Path(job["folder"]) / "marimo")
    first = f"import marimo as mo\n{job['set_up']}\nreturn burn, mo, np"
    parts = ["import marimo\napp = marimo.App()", f"@app.cell\ndef _():\n{indented(first, 4)}"]
    for each in path:
        needs = ", ".join(["burn", "mo", "np", *each["needs"]])
        parts.append(
            f"@app.cell\ndef _({needs}):\n"
            f"    with mo.persistent_cache('{each['name']}', save_path={place!r}):\n"
            f"{indented(each['body'], 8)}\n    return {', '.join(each['makes'])},"
        )
    return "\n\n".join(parts) + "\n"


def run_marimo(job: Job) -> Found:
    importlib.import_module("marimo")
    importlib.import_module("numpy")
    texts = {}
    started = time.perf_counter()
    for name, path in paths_of(job).items():
        module = imported(Path(job["folder"]), f"app_{name}", marimo_app(job, path))
        _, defined = module.app.run()
        texts[name] = defined["text"] + "\n"
    return {"seconds": time.perf_counter() - started, "texts": texts}


# ---------------------------------------------------------------- one process, states kept


def children_of(job: Job) -> dict[str | None, list[str]]:
    """Return the cells that follow each one; None is before the first."""
    found: dict[str | None, list[str]] = {}
    for each in job["functions"]:
        found.setdefault(each["parent"], []).append(each["name"])
    return found


def run_kishu(job: Job) -> Found:
    """Run each cell once in a kernel that Kishu watches; check out where versions part.

    In Kishu's test mode, in which it does not wait for a front end to save the notebook.  The
    function that burns is in a module: if a cell defines it, Kishu 0.3.4 finds that it cannot be
    pickled, takes all variables for such, keeps nothing, and runs cells again.
    """
    manager_module = importlib.import_module("jupyter_client.manager")
    folder = Path(job["folder"])
    path = folder / "session.ipynb"
    path.write_text((folder / f"{next(iter(job['versions']))}.ipynb").read_text())
    env = {
        **os.environ,
        "ENV_KISHU_TEST_MODE": "1",
        "TEST_NOTEBOOK_PATH": str(path),
        "KISHU_PATH_ROOT": str(folder),
    }
    numpy, function = job["set_up"].split("\n", 1)
    (folder / "burning.py").write_text(function, encoding="utf-8")
    started = time.perf_counter()
    manager = manager_module.KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(folder), env=env)
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    session = Session(client)
    try:
        session.run(f"from kishu import init_kishu\ninit_kishu({str(path)!r})")
        commit, _ = session.run(f"{numpy}\nfrom burning import burn")
        texts: dict[str, str] = {}
        walk(job, session, children_of(job), None, commit, texts)
        return {
            "seconds": time.perf_counter() - started,
            "texts": texts,
            "checkouts": session.checkouts,
            "disk_mb": round(sum(f.stat().st_size for f in folder.glob("*.kishudb*")) / 2**20, 1),
        }
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


class Session:
    """Cells in a kernel, and where Kishu is after each."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.checkouts = 0

    def run(self, source: str) -> tuple[str, str]:
        """Return the commit after a cell, and what it printed."""
        printed: list[str] = []

        def take(message: Any) -> None:
            if message["header"]["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = self._client.execute_interactive(
            source,
            user_expressions={"commit": "_kishu._kishu_branch.get_head().commit_id"},
            output_hook=take,
            timeout=600,
        )["content"]
        if reply["status"] != "ok":
            raise RuntimeError(f"{reply['ename']}: {reply['evalue']}")
        found = reply["user_expressions"]["commit"]
        return found["data"]["text/plain"].strip("'") if "data" in found else "", "".join(printed)

    def check_out(self, commit: str) -> None:
        self.checkouts += 1
        self.run(f"_kishu.checkout({commit!r})")


def walk(
    job: Job,
    session: Session,
    children: dict[str | None, list[str]],
    at: str | None,
    commit: str,
    texts: dict[str, str],
) -> None:
    """Run everything below a cell; the session is at it."""
    bodies = {each["name"]: each["body"] for each in job["functions"]}
    for number, child in enumerate(children.get(at, ())):
        if number:
            session.check_out(commit)
        is_end = child in job["versions"]
        after, text = session.run(bodies[child] + ("\nprint(text)" if is_end else ""))
        if is_end:
            texts[child] = text
        walk(job, session, children, child, after, texts)


def run_fork(job: Job) -> Found:
    """Run each cell once in this process and in forks of it, one at a time: the least there is."""
    importlib.import_module("numpy")
    results = Path(job["folder"]) / "forked"
    results.mkdir()
    children = children_of(job)
    bodies = {each["name"]: each["body"] for each in job["functions"]}
    scope: dict[str, Any] = {}

    def below(at: str | None) -> None:
        for child in children.get(at, ()):
            pid = os.fork()
            if pid:
                if os.waitpid(pid, 0)[1]:
                    raise RuntimeError(f"{child} failed")
                continue
            exec(bodies[child], scope)  # noqa: S102 - our own cells
            if child in job["versions"]:
                (results / child).write_text(scope["text"] + "\n", encoding="utf-8")
            below(child)
            os._exit(0)

    started = time.perf_counter()
    exec(job["set_up"], scope)  # noqa: S102 - our own cells
    below(None)
    seconds = time.perf_counter() - started
    texts = {name: (results / name).read_text(encoding="utf-8") for name in job["versions"]}
    return {"seconds": seconds, "texts": texts}


WAYS = {
    "nbclient": run_nbclient,
    "papermill": run_papermill,
    "jupyter-cache": run_jupyter_cache,
    "joblib": run_joblib,
    "marimo": run_marimo,
    "kishu": run_kishu,
    "fork": run_fork,
}


def main() -> None:
    way, path = sys.argv[1:]
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    # Tools print what they do; only the result goes to standard output.
    output = os.dup(1)
    os.dup2(2, 1)
    found = WAYS[way](job)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
