"""The door to Dask: the only module that imports it.

A `Cluster` knows its members, starts functions of ours on one of them, and passes on what they say
while they work.  A `Desk` is the other end, in the member that such a function runs on.  Nothing
here knows what a replay is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from chexpoint.errors import ChexError, ClusterError, InvalidValue
from chexpoint.model import Seconds

ENGINE_RESOURCE = "engine"
"""What a Dask worker may be started with to say how many engines it may run."""

SCHEDULER = "scheduler"
"""Where others have an address: orders pass through it, and it has to understand them."""

_CONNECT_S: Seconds = 10.0
_ANSWER_S: Seconds = 30.0
_SHORT_S: Seconds = 3.0
_ASKED = ["chexpoint"]
_MOST_LOCAL = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A worker of Dask."""

    address: str
    name: str
    """How Dask calls it; its address unless somebody has named it."""
    slots: int
    """How many engines it may run side by side."""
    has_resource: bool = False
    """Whether it was started with so many engines in mind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberVersions:
    """What runs there; empty for what is not installed."""

    python: str = ""
    chex: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A text that a function has said on its way."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A function has come to its end."""

    job: int


class Cluster:
    """A cluster that somebody has started, or that is started here; use it in a ``with`` statement.

    Parameters
    ----------
    where
        The address of a scheduler, a cluster or client object of Dask, or how many workers to start
        in this process.
    topic
        What tells what is said to us from what is said to others.

    Raises
    ------
    ClusterError
        If Dask is not installed, or the scheduler does not answer.
    """

    def __init__(self, where: object, topic: str) -> None:
        self._topic = topic
        self._exit = contextlib.ExitStack()
        self._inbox: queue.SimpleQueue[Said | Ended] = queue.SimpleQueue()
        self._unread: deque[Said | Ended] = deque()
        self._jobs: dict[int, Any] = {}
        try:
            self._client = self._opened(where)
            self.address = str(self._client.scheduler.address)
            self._client.subscribe_topic(topic, self._hear)
            self._exit.callback(self._quietly, self._client.unsubscribe_topic, topic)
        except BaseException:
            self._exit.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what still runs, and let go of the cluster."""
        self.stop_all()
        self._exit.close()

    # ------------------------------------------------------------ who is there

    @property
    def is_lost(self) -> bool:
        """Whether the scheduler does not answer any more."""
        return str(self._client.status) != "running"

    def members(self) -> dict[str, Member]:
        """Return the workers that there are now, by their addresses.

        Raises
        ------
        ClusterError
            If the scheduler does not answer.
        """
        info = self._ask(self._client.scheduler.identity, n_workers=-1)
        return {
            address: _member(address, facts)
            for address, facts in info["workers"].items()
            if facts.get("status", "running") == "running"
        }

    def versions(self) -> dict[str, MemberVersions]:
        """Return what runs on the scheduler, as `SCHEDULER`, and on each member that answers.

        Raises
        ------
        ClusterError
            If the scheduler does not answer.
        """
        found = {SCHEDULER: self._ask(self._client.scheduler.versions, packages=_ASKED)}
        try:
            found |= self._versions_of(None, _ANSWER_S)
        except ClusterError:  # one does not answer, and it has to be known which
            for address in self.members():
                with contextlib.suppress(ClusterError):
                    found |= self._versions_of([address], _SHORT_S)
        return {
            address: MemberVersions(
                python=".".join(str(each["host"]["python"]).split(".")[:2]),
                chex=str(each["packages"].get("chexpoint") or ""),
            )
            for address, each in found.items()
        }

    def _versions_of(self, workers: list[str] | None, timeout_s: Seconds) -> dict[str, Any]:
        question = {"op": "versions", "packages": _ASKED}
        broadcast = self._client.scheduler.broadcast
        return dict(
            self._ask(broadcast, timeout_s, msg=question, workers=workers, on_error="ignore")
        )

    # ------------------------------------------------------------ work

    def start(
        self, job: int, member: Member, function: Callable[..., object], *args: object
    ) -> None:
        """Have a function called on a member, and on no other; `Ended` is said when it is done.

        Parameters
        ----------
        function
            Of a module that the member can import; its first argument is the topic.
        """
        self._jobs[job] = future = self._client.submit(
            function,
            self._topic,
            *args,
            key=f"chex-{self._topic}-{job}",
            workers=[member.address],
            allow_other_workers=False,
            resources={ENGINE_RESOURCE: 1} if member.has_resource else None,
            retries=0,
            pure=False,
        )
        future.add_done_callback(lambda _: self._inbox.put(Ended(job)))

    def call(self, member: Member, function: Callable[..., Any], *args: object) -> Any:
        """Call a function on a member at once, whatever it computes; it must not take long.

        Parameters
        ----------
        function
            Of a module that the member can import; gets the topic and the address of the member
            before its other arguments.

        Raises
        ------
        ClusterError
            If the member does not answer.
        """
        address = member.address
        try:
            found = self._client.run(
                *(function, self._topic, address, *args),
                workers=[address],
                callback_timeout=_ANSWER_S,
            )
            return found[address]
        except Exception as error:
            raise ClusterError(f"{address} does not answer ({_first_line(error)})") from error

    def send(self, member: Member, data: bytes) -> object:
        """Bring data to a member; what is returned may be an argument of `start`.

        Raises
        ------
        ClusterError
            If the member does not answer.
        """
        try:
            return self._client.scatter(data, workers=[member.address], hash=False)
        except Exception as error:
            raise ClusterError(f"it does not answer ({_first_line(error)})") from error

    def result(self, job: int) -> Any:
        """Return what the function of a job has returned; may be asked once, after its end.

        Raises
        ------
        ClusterError
            If the member is lost, or the result with it.
        ChexError, OSError
            If the function has raised it.
        """
        future = self._jobs.pop(job)
        try:
            if future.status in {"cancelled", "lost"}:
                raise ClusterError("it could not be run there: the log of its worker says why")
            return future.result(timeout=_ANSWER_S)
        except TimeoutError as error:
            raise ClusterError("its result did not arrive") from error
        except (ChexError, OSError):
            raise
        except Exception as error:
            raise ClusterError(f"{type(error).__name__}: {_first_line(error)}") from error
        finally:
            self._quietly(future.release)

    def stop(self, job: int) -> None:
        """Say that what a function does is not wanted any more; see `Desk.is_wanted`."""
        future = self._jobs.pop(job, None)
        if future is not None and not self.is_lost:
            self._quietly(future.cancel)

    def stop_all(self) -> None:
        """Say that nothing that runs is wanted any more."""
        for job in list(self._jobs):
            self.stop(job)

    def next_event(self, timeout_s: Seconds) -> Said | Ended | None:
        """Return what has happened next, in order; None if nothing happens in that time."""
        if self._unread:
            return self._unread.popleft()
        try:
            return self._inbox.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None

    def put_back(self, events: Iterable[Said | Ended]) -> None:
        """Have events come again that were not meant for whoever got them."""
        self._unread.extend(events)

    # ------------------------------------------------------------ inside

    def _opened(self, where: object) -> Any:
        try:
            from distributed import Client
            from distributed.comm.addressing import get_address_host_port
        except ImportError:
            raise ClusterError(
                "a cluster needs Dask. Install it with: pip install 'chexpoint[dask]'"
            ) from None
        if isinstance(where, Client):
            if where.asynchronous:
                raise InvalidValue("an asynchronous client cannot be used: give its cluster")
            return where  # its owner closes it
        self._exit.enter_context(_quiet_logs())
        if isinstance(where, int):
            where = self._local(where)
        elif isinstance(where, str) and not where.strip():
            raise InvalidValue("no address of a scheduler. Write for example tcp://10.0.0.1:8786")
        try:
            if isinstance(where, str) and not where.startswith("inproc"):
                # Here, because a client that fails over it takes 20 s to go, and complains.
                get_address_host_port(where)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # other versions are refused in our own words
                client = Client(  # type: ignore[no-untyped-call]
                    where, timeout=_CONNECT_S, set_as_default=False
                )
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"no scheduler answers at {where} ({_first_line(error)}). Check the address, and "
                "that 'dask scheduler' runs there"
            ) from None
        except (ValueError, TypeError) as error:
            raise InvalidValue(f"'{where}' is no scheduler: {_first_line(error)}") from None
        self._exit.callback(self._quietly, client.close, _CONNECT_S)
        return client

    def _local(self, count: int) -> object:
        """Start workers in this process: engines are processes of their own anyway.

        So no port is opened by which somebody else could have something run.
        """
        import dask
        from distributed import LocalCluster

        if not 1 <= count <= _MOST_LOCAL:
            raise InvalidValue(f"{count} local workers are not possible: 1 to {_MOST_LOCAL} are")
        routes: dict[str, list[str]] = {
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
        }
        with dask.config.set(routes):
            return self._exit.enter_context(
                LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=count,
                    threads_per_worker=1,
                    processes=False,
                    memory_limit=0,  # it would not see our engines, and they have a limit
                    dashboard_address="127.0.0.1:0",
                    worker_dashboard_address="127.0.0.1:0",
                )
            )

    def _hear(self, event: tuple[float, Any]) -> None:
        if isinstance(event[1], str):
            self._inbox.put(Said(event[1]))

    def _ask(
        self, question: Callable[..., Any], timeout_s: Seconds = _ANSWER_S, **args: object
    ) -> Any:
        try:
            return self._client.sync(question, callback_timeout=timeout_s, **args)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise ClusterError(
                f"the scheduler {self.address} does not answer ({_first_line(error)})"
            ) from error

    @staticmethod
    def _quietly(do: Callable[..., object], *args: object) -> None:
        """Tidy up; who is gone does not mind."""
        with contextlib.suppress(Exception):
            do(*args)


def _member(address: str, facts: Mapping[str, Any]) -> Member:
    engines = facts.get("resources", {}).get(ENGINE_RESOURCE)
    return Member(
        address=address,
        name=str(facts.get("name", address)),
        slots=int(facts["nthreads"] if engines is None else engines),
        has_resource=engines is not None,
    )


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Keep Dask from telling in many lines what is told in one."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def slots_in(where: object) -> int:
    """Return how many engines a cluster can run side by side; see `Cluster`."""
    with Cluster(where, "slots") as cluster:
        return max(1, sum(member.slots for member in cluster.members().values()))


# ---------------------------------------------------------------- at the other end


class Desk:
    """Where a function of ours works: in a thread of a Dask worker.

    To be made by that thread; `say` and `is_wanted` may then be called by any.
    """

    def __init__(self, topic: str) -> None:
        from distributed import get_worker

        self._worker = get_worker()
        self.topic = topic
        self._job = self._worker.get_current_task()
        self.address = str(self._worker.address)
        self.folder = Path(self._worker.local_directory)
        """For what the member keeps; Dask removes it when the worker has ended."""
        self.environment = _set_by_nanny() if self._worker.nanny else ()
        """Variables that Dask has set for its own work, such as ``OMP_NUM_THREADS``."""

    def say(self, text: str) -> None:
        """Tell those who have started us something."""
        self._worker.log_event(self.topic, text)

    def is_wanted(self) -> bool:
        """Return whether somebody still waits for this.

        Dask cannot stop a function: it says that its result is not needed, also if whoever has
        asked for it is gone; and a worker that has lost its scheduler closes.
        """
        task = self._worker.state.tasks.get(self._job)
        is_needed = task is not None and task.state not in {"cancelled", "released", "forgotten"}
        return is_needed and self._worker.status.name in {"running", "paused"}


def _set_by_nanny() -> tuple[str, ...]:
    """Return the environment variables that the watchdog of a worker has given to it."""
    import dask

    given: dict[str, Any] = {
        # It would give sets of strings another order than they had when they were recorded.
        "PYTHONHASHSEED": 6640,
        **dask.config.get("distributed.nanny.pre-spawn-environ", {}),
        **dask.config.get("distributed.nanny.environ", {}),
    }
    return tuple(name for name, value in given.items() if os.environ.get(name) == str(value))
