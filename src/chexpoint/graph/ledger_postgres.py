"""Connections to PostgreSQL that do not wait for ever; the only place that knows its driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chexpoint.errors import GraphError

if TYPE_CHECKING:
    from psycopg import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for what, in seconds."""

    connect_s: float = 5.0
    statement_s: float = 30.0
    busy_s: float = 10.0
    """For others who hold what is needed."""


def connector(patience: Patience) -> Callable[..., Connection[Any]]:
    """Return what opens connections, from the arguments of the driver.

    A statement that takes too long is given up by the server; a server that does not even do that
    is left a bit later.

    Raises
    ------
    GraphError
        If the driver is not installed.
    """
    try:
        import psycopg
    except ImportError:
        raise GraphError(
            "a graph in PostgreSQL needs a driver. Run: pip install 'chexpoint[postgres]'."
        ) from None

    limit_s = patience.statement_s + patience.connect_s

    class PatientConnection(psycopg.Connection[Any]):
        """Closes itself if the server does not answer: then SQLAlchemy opens another one."""

        def wait(self, gen: Any, *args: Any, **keywords: Any) -> Any:
            return super().wait(self._limited(gen), *args, **keywords)

        def _limited(self, gen: Any) -> Generator[Any, Any, Any]:
            deadline = time.monotonic() + limit_s
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    # The driver comes by about ten times a second with empty hands.
                    if not ready and time.monotonic() > deadline:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"no answer within {limit_s:.0f} s")
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value

    settings = {"connect_timeout": max(2, round(patience.connect_s)), "application_name": "chex"}
    limits = (
        f"SET statement_timeout = {round(patience.statement_s * 1000)};"
        f"SET lock_timeout = {round(patience.busy_s * 1000)};"
        f"SET idle_in_transaction_session_timeout = {round(limit_s * 1000)}"
    )

    def connect(*args: Any, **keywords: Any) -> Connection[Any]:
        connection = PatientConnection.connect(*args, **{**settings, **keywords})
        try:
            connection.execute(limits.encode())
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection

    return connect
