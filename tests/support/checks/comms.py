"""Comms and widgets, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel
    from tests.support.messages import Content, Message

VIEW = "application/vnd.jupyter.widget-view+json"


def tell(kernel: Kernel, comm_id: str, data: Content, buffers: tuple[bytes, ...] = ()) -> str:
    """Send to a comm of the kernel and wait until it has been served; return the request."""
    request = kernel.send("comm_msg", {"comm_id": comm_id, "data": data}, buffers=buffers)
    served(kernel, request)
    return request


def served(kernel: Kernel, request: str) -> None:
    assert kernel.wait_published(request, "status").content["execution_state"] == "busy"
    assert kernel.wait_published(request, "status", 2).content["execution_state"] == "idle"


def update(**state: object) -> Content:
    return {"method": "update", "state": state, "buffer_paths": []}


def opened(messages: list[Message], module: str) -> Message:
    """The comm_open of the widget of that class."""
    (found,) = [
        m
        for m in messages
        if m.type == "comm_open" and m.content["data"]["state"].get("_model_name") == module
    ]
    return found


@feature()
def check_comm_opened_by_the_kernel(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import comm
        received = []
        channel = comm.create_comm(target_name="mine", data={"a": 1}, metadata={"m": 2},
                                   buffers=[b"binary"])
        def on_message(message):
            received.append((message["content"]["data"], [bytes(b) for b in message["buffers"]]))
            print("got", message["content"]["data"])
            channel.send({"echo": message["content"]["data"]}, buffers=message["buffers"])
        channel.on_msg(on_message)
        channel.on_close(lambda message: print("closed by the front end"))
        """
    ).ok()
    (message,) = outcome.of_type("comm_open")
    assert message.content["target_name"] == "mine"
    assert (message.content["data"], message.metadata) == ({"a": 1}, {"m": 2})
    assert message.buffers == (b"binary",)
    comm_id = message.content["comm_id"]
    request = tell(kernel, comm_id, {"hello": "é"}, (b"\0\1\2", b""))
    echo = kernel.wait_comm("comm_msg", comm_id)
    assert echo.parent_id == request
    assert (echo.content["data"], echo.buffers) == ({"echo": {"hello": "é"}}, (b"\0\1\2", b""))
    kernel.wait_stdout(request, "got {'hello': 'é'}\n")
    assert kernel.run("print(received)") == "[({'hello': 'é'}, [b'\\x00\\x01\\x02', b''])]\n"
    info = kernel.request("comm_info_request", {"target_name": "mine"}).ok().content
    assert info["comms"] == {comm_id: {"target_name": "mine"}}
    request = kernel.send("comm_close", {"comm_id": comm_id, "data": {}})
    served(kernel, request)
    kernel.wait_stdout(request, "closed by the front end\n")
    info = kernel.request("comm_info_request", {}).ok().content
    assert comm_id not in info["comms"]


@feature()
def check_comm_opened_by_the_front_end(kernel: Kernel) -> None:
    kernel.run(
        """
        def opened(channel, message):
            channel.send({"welcome": message["content"]["data"]})
            channel.on_msg(lambda m: channel.close({"bye": m["content"]["data"]}))
        get_ipython().kernel.comm_manager.register_target("theirs", opened)
        """
    )
    request = kernel.send(
        "comm_open", {"comm_id": "c1", "target_name": "theirs", "data": {"from": "front end"}}
    )
    served(kernel, request)
    welcome = kernel.wait_comm("comm_msg", "c1")
    assert welcome.content["data"] == {"welcome": {"from": "front end"}}
    tell(kernel, "c1", {"n": 1})
    assert kernel.wait_comm("comm_close", "c1").content["data"] == {"bye": {"n": 1}}
    request = kernel.send("comm_open", {"comm_id": "c2", "target_name": "nobody", "data": {}})
    served(kernel, request)
    assert kernel.wait_comm("comm_close", "c2").parent_id == request


@feature()
def check_comm_to_an_async_cell(kernel: Kernel) -> None:
    """A cell may await an answer of the front end; other requests wait for the cell."""
    request = kernel.submit(
        """
        import asyncio, comm
        answer = asyncio.get_running_loop().create_future()
        channel = comm.create_comm(target_name="ask")
        channel.on_msg(lambda message: answer.set_result(message["content"]["data"]["value"]))
        print("got", await asyncio.wait_for(answer, 30))
        """
    )
    comm_id = kernel.wait_published(request, "comm_open").content["comm_id"]
    queued = kernel.submit("print('after', answer.result())")
    kernel.send("comm_msg", {"comm_id": comm_id, "data": {"value": 42}})
    assert kernel.finish(request).ok().stdout == "got 42\n"
    assert kernel.finish(queued).ok().stdout == "after 42\n"


@feature()
def check_comm_waits_for_a_plain_cell(kernel: Kernel) -> None:
    kernel.run(
        """
        import comm
        order = []
        channel = comm.create_comm(target_name="order", comm_id="ordered")
        channel.on_msg(lambda message: order.append("comm"))
        """
    )
    request = kernel.submit("ignored = input()\norder.append('cell')")
    kernel.wait_input(request)
    message = kernel.send("comm_msg", {"comm_id": "ordered", "data": {}})
    kernel.answer("")
    kernel.finish(request).ok()
    served(kernel, message)
    assert kernel.run("print(order)") == "['cell', 'comm']\n"


@feature()
def check_error_in_a_comm_callback(kernel: Kernel) -> None:
    kernel.run(
        """
        import comm
        channel = comm.create_comm(target_name="fails", comm_id="failing")
        channel.on_msg(lambda message: 1 / 0)
        """
    )
    tell(kernel, "failing", {})
    tell(kernel, "no such comm", {})
    assert kernel.run("print('still here')") == "still here\n"


@feature()
def check_widget(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import ipywidgets as widgets
        slider = widgets.IntSlider(value=3, description="n")
        slider.observe(lambda change: print("moved to", change.new), "value")
        slider
        """
    ).ok()
    model = opened(outcome.outputs, "IntSliderModel")
    assert model.content["target_name"] == "jupyter.widget"
    assert model.content["data"]["state"]["value"] == 3
    comm_id = model.content["comm_id"]
    assert outcome.result[VIEW]["model_id"] == comm_id
    request = tell(kernel, comm_id, update(value=7))
    kernel.wait_stdout(request, "moved to 7\n")
    assert kernel.run("print(slider.value)") == "7\n"
    moved = kernel.execute("slider.value = 9").ok()
    assert moved.stdout == "moved to 9\n"
    assert [m.content["data"]["state"]["value"] for m in moved.of_type("comm_msg")] == [9]
    closed = kernel.execute("slider.close()").ok()
    assert comm_id in [m.content["comm_id"] for m in closed.of_type("comm_close")]


@feature()
def check_widget_state_request(kernel: Kernel) -> None:
    """A page that is reloaded asks each widget, and then all of them, for their state."""
    outcome = kernel.execute("import ipywidgets as w\ntext = w.Text('typed')\ntext").ok()
    comm_id = opened(outcome.outputs, "TextModel").content["comm_id"]
    kernel.forget()
    tell(kernel, comm_id, {"method": "request_state"})
    state = kernel.wait_comm("comm_msg", comm_id).content["data"]
    assert (state["method"], state["state"]["value"]) == ("update", "typed")
    request = kernel.send(
        "comm_open",
        {
            "comm_id": "all",
            "target_name": "jupyter.widget.control",
            "data": {},
        },
        metadata={"version": "1.0.0"},
    )
    served(kernel, request)
    tell(kernel, "all", {"method": "request_states"})
    states = kernel.wait_comm("comm_msg", "all").content["data"]
    assert states["method"] == "update_states"
    assert states["states"][comm_id]["state"]["value"] == "typed"


@feature()
def check_widget_with_binary_state(kernel: Kernel) -> None:
    outcome = kernel.execute(
        "import ipywidgets as w\npicture = w.Image(value=b'\\x89PNG' + bytes(100_000))"
    ).ok()
    model = opened(outcome.outputs, "ImageModel")
    assert model.buffers == (b"\x89PNG" + bytes(100_000),)
    data = {"method": "update", "state": {}, "buffer_paths": [["value"]]}
    tell(kernel, model.content["comm_id"], data, (b"from the front end",))
    assert kernel.run("print(bytes(picture.value))") == "b'from the front end'\n"


@feature()
def check_interact_and_output_widget(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import ipywidgets as w
        def show(n): print("n is", n)
        control = w.interactive(show, n=w.IntSlider(value=1))
        display(control)
        """
    ).ok()
    comm_id = opened(outcome.outputs, "IntSliderModel").content["comm_id"]
    area = opened(outcome.outputs, "OutputModel").content["comm_id"]
    kernel.forget()
    request = tell(kernel, comm_id, update(value=5))
    kernel.wait_stdout(request, "n is 5\n")
    bound = [
        m.content["data"]["state"]["msg_id"]
        for m in kernel.log
        if m.type == "comm_msg"
        and m.content["comm_id"] == area
        and "msg_id" in m.content["data"].get("state", {})
    ]
    assert bound == [request, ""]


@feature()
def check_output_widget_keeps_outputs(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import ipywidgets as w
        area = w.Output()
        area.append_stdout("kept")
        with area:
            print("inside")
        """
    ).ok()
    assert outcome.stdout == "inside\n"
    assert kernel.run("print(area.outputs[0]['text'])") == "kept\n"


@feature()
def check_progress_widget_updates_while_running(kernel: Kernel) -> None:
    request = kernel.submit(
        """
        import ipywidgets as w
        bar = w.IntProgress(max=3)
        display(bar)
        for i in range(1, 4): bar.value = i
        ignored = input()
        """
    )
    comm_id = kernel.wait_published(request, "display_data").content["data"][VIEW]["model_id"]
    values = [
        kernel.wait_comm("comm_msg", comm_id, n).content["data"]["state"]["value"]
        for n in (1, 2, 3)
    ]
    assert values == [1, 2, 3]
    kernel.wait_input(request)
    kernel.answer("")
    kernel.finish(request).ok()
