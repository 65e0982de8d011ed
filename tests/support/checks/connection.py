"""The other ways to connect: IPC sockets and encrypted channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import recv_monitor_message

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

HANDSHAKE_EVENTS = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
)


def converse(kernel: Kernel) -> None:
    """Use every channel once."""
    outcome = kernel.execute("print(input('who? '))\n6 * 7", answers=["me"]).ok()
    assert (outcome.stdout, outcome.result) == ("me\n", {"text/plain": "42"})
    kernel.request("complete_request", {"code": "pri", "cursor_pos": 3}).ok()
    request = kernel.submit("print('ready', flush=True)\nwhile True: pass")
    kernel.wait_stdout(request, "ready\n")
    kernel.request("interrupt_request", {}, channel="control").ok()
    assert kernel.finish(request).content["ename"] == "KeyboardInterrupt"
    socket = kernel.manager.connect_hb()
    try:
        socket.send(b"beat")
        assert socket.poll(10_000, zmq.POLLIN)
        assert socket.recv() == b"beat"
    finally:
        socket.close(linger=0)
    kernel.restart()
    assert kernel.run("print('again')") == "again\n"


@feature(own_kernel=True, transport="ipc")
def check_ipc(kernel: Kernel) -> None:
    converse(kernel)


@feature(own_kernel=True, encrypted=True)
def check_curve(kernel: Kernel) -> None:
    assert kernel.manager.curve_publickey
    converse(kernel)
    assert "without encryption" not in kernel.own_output()


@feature(own_kernel=True, transport="ipc", encrypted=True)
def check_curve_over_ipc(kernel: Kernel) -> None:
    converse(kernel)


@feature(own_kernel=True, encrypted=True)
def check_curve_refuses_plain_clients(kernel: Kernel) -> None:
    ports = kernel.manager
    context = zmq.Context()
    try:
        for port, kind in (
            (ports.shell_port, zmq.DEALER),
            (ports.control_port, zmq.DEALER),
            (ports.stdin_port, zmq.DEALER),
            (ports.iopub_port, zmq.SUB),
            (ports.hb_port, zmq.REQ),
        ):
            socket = context.socket(kind)
            monitor = socket.get_monitor_socket(HANDSHAKE_EVENTS)
            socket.connect(f"tcp://{ports.ip}:{port}")
            assert monitor.poll(10_000), f"{port}: neither accepted nor refused"
            event = recv_monitor_message(monitor)["event"]
            assert event != zmq.EVENT_HANDSHAKE_SUCCEEDED, port
            socket.disable_monitor()
            monitor.close(linger=0)
            socket.close(linger=0)
    finally:
        context.destroy(linger=0)
    converse(kernel)
