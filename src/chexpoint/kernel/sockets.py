"""The five ZMQ sockets of a kernel."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq

from chexpoint.errors import InvalidValue
from chexpoint.kernel.connection import CHANNELS, ConnectionSpec

_LINGER_MS = 1000
# Stock loses output when a client is a thousand messages behind.
_IOPUB_BACKLOG = 100_000


@dataclass(frozen=True, slots=True)
class Sockets:
    """Bound sockets by channel name."""

    spec: ConnectionSpec
    context: zmq.Context[zmq.Socket[bytes]]
    by_name: dict[str, zmq.Socket[bytes]]

    def close(self) -> None:
        """Send what is waiting and close; a client that has gone is not waited for."""
        self.context.destroy(linger=_LINGER_MS // 2)


def bind(spec: ConnectionSpec) -> Sockets:
    """Bind what a connection file asks for; ports that were left open are written back."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    info = dict(spec.info)
    by_name = {}
    for name in CHANNELS:
        socket = context.socket(zmq.XPUB if name == "iopub" else zmq.ROUTER)
        socket.linger = _LINGER_MS
        if name == "iopub":
            socket.sndhwm = _IOPUB_BACKLOG
        else:
            socket.router_handover = 1  # a client that reconnects keeps its identity
        _encrypt(socket, info)
        try:
            info[f"{name}_port"] = _bind(socket, info, int(info.get(f"{name}_port") or 0))
        except zmq.ZMQError as error:
            context.destroy(linger=0)
            raise InvalidValue(f"cannot serve {name} on {info['ip']}: {error}") from error
        by_name[name] = socket
    if info != spec.info:
        spec.write(info)
    return Sockets(spec, context, by_name)


def _encrypt(socket: zmq.Socket[bytes], info: dict[str, Any]) -> None:
    if secret := info.get("curve_secretkey"):
        socket.curve_secretkey = secret.encode()
        socket.curve_publickey = info["curve_publickey"].encode()
        socket.curve_server = True


def _bind(socket: zmq.Socket[bytes], info: dict[str, Any], port: int) -> int:
    ip = info["ip"]
    if info["transport"] == "ipc":
        if not port:
            port = next(n for n in itertools.count(1) if not Path(f"{ip}-{n}").exists())
        socket.bind(f"ipc://{ip}-{port}")
    elif port:
        socket.bind(f"tcp://{ip}:{port}")
    else:
        port = socket.bind_to_random_port(f"tcp://{ip}")
    return port
