"""Rich output: what `display` and the last expression of a cell publish."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

# A picture of one pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)

# An expression, and the kind and data it must be published as.
RICH = (
    ("HTML('<b>x</b>')", "text/html", "<b>x</b>"),
    ("Markdown('*x*')", "text/markdown", "*x*"),
    ("Latex('$x$')", "text/latex", "$x$"),
    ("Math('x^2')", "text/latex", r"$\displaystyle x^2$"),
    ("JSON({'a': [1, None]})", "application/json", {"a": [1, None]}),
    ("Javascript('1')", "application/javascript", "1"),
    ("SVG('<svg><g/></svg>')", "image/svg+xml", "<svg><g/></svg>"),
    (f"Image(base64.b64decode('{PIXEL}'))", "image/png", PIXEL),
    ("Image(b'\\xff\\xd8\\xff', format='jpeg')", "image/jpeg", "/9j/"),
    ("Pretty('p')", "text/plain", "p"),
    ("Code('a = 1', language='python')", "text/plain", "a = 1"),
)


@feature()
def check_every_mime_kind(kernel: Kernel) -> None:
    kernel.run("import base64\nfrom IPython.display import *")
    for expression, kind, data in RICH:
        outcome = kernel.execute(f"display({expression})\n{expression}").ok()
        (shown,) = outcome.displays
        assert shown.content["data"][kind] == data
        assert outcome.result[kind] == data


@feature()
def check_raw_bundle_with_metadata(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        from IPython.display import display
        display({"application/vnd.x.v1+json": {"a": 1}, "text/plain": "x"},
                raw=True, metadata={"k": 1})
        """
    ).ok()
    (shown,) = outcome.displays
    assert shown.content["data"] == {"application/vnd.x.v1+json": {"a": 1}, "text/plain": "x"}
    assert shown.content["metadata"] == {"k": 1}


@feature()
def check_object_representations(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        class Shown:
            def __repr__(self): return "plain"
            def _repr_html_(self): return "<i>html</i>", {"isolated": True}
            def _repr_png_(self): return b"png"
            def _repr_mimebundle_(self, include=None, exclude=None):
                return {"application/x-own": "own"}
        Shown()
        """
    ).ok()
    (message,) = outcome.of_type("execute_result")
    assert message.content["data"]["text/plain"] == "plain"
    assert message.content["data"]["application/x-own"] == "own"
    assert message.content["execution_count"] == outcome.reply.content["execution_count"]


@feature()
def check_last_expression(kernel: Kernel) -> None:
    assert kernel.execute("6 * 7").ok().result == {"text/plain": "42"}
    assert kernel.execute("6 * 7;").ok().outputs == []
    assert kernel.execute("None").ok().outputs == []
    outcome = kernel.execute("_, [1, 2]").ok()
    assert outcome.result == {"text/plain": "(42, [1, 2])"}
    count = outcome.reply.content["execution_count"]
    assert kernel.run(f"print(Out[{count}] is _, In[{count}], _i)") == (
        "True _, [1, 2] _, [1, 2]\n"
    )
    lines = kernel.execute("list(range(100))").ok().result["text/plain"].splitlines()
    assert len(lines) == 100
    assert kernel.execute("%precision 3\n3.14159").ok().result == {"text/plain": "3.142"}
    kernel.run("%precision")


@feature()
def check_display_ids(kernel: Kernel) -> None:
    outcome = kernel.execute("shown = display('one', display_id='spot'); shown.display('two')").ok()
    first, second = outcome.displays
    assert first.content["transient"] == {"display_id": "spot"}
    assert second.content["transient"] == {"display_id": "spot"}
    kernel.run("from IPython.display import update_display")
    later = kernel.execute("shown.update('three')\nupdate_display('four', display_id='spot')").ok()
    updates = later.of_type("update_display_data")
    assert [m.content["data"]["text/plain"] for m in updates] == ["'three'", "'four'"]
    assert all(m.content["transient"] == {"display_id": "spot"} for m in updates)
    fresh = kernel.execute("handle = display(1, display_id=True)\nprint(handle.display_id)").ok()
    (shown,) = fresh.displays
    assert shown.content["transient"]["display_id"] == fresh.stdout.strip()


@feature()
def check_clear_output(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        from IPython.display import clear_output
        print("a", flush=True)
        clear_output(wait=True)
        print("b", flush=True)
        clear_output()
        """
    ).ok()
    kinds = [(m.type, m.content.get("text", m.content.get("wait"))) for m in outcome.outputs]
    assert kinds == [
        ("stream", "a\n"),
        ("clear_output", True),
        ("stream", "b\n"),
        ("clear_output", False),
    ]


@feature()
def check_many_displays_in_order(kernel: Kernel) -> None:
    outcome = kernel.execute("for i in range(2000): display(i)").ok()
    shown = [int(m.content["data"]["text/plain"]) for m in outcome.displays]
    assert shown == list(range(2000))


@feature()
def check_huge_display(kernel: Kernel) -> None:
    outcome = kernel.execute(
        "display({'text/html': 'h' * 20_000_000, 'text/plain': 'p'}, raw=True)"
    ).ok()
    (shown,) = outcome.displays
    assert shown.content["data"]["text/html"] == "h" * 20_000_000


@feature()
def check_matplotlib_inline(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        import matplotlib.pyplot as plt
        plt.plot([1, 2, 3]);
        """
    ).ok()
    (shown,) = outcome.displays
    assert base64.b64decode(shown.content["data"]["image/png"]).startswith(b"\x89PNG")
    assert "Figure size" in shown.content["data"]["text/plain"]
    assert kernel.run("print(plt.get_fignums())") == "[]\n"
    svg = kernel.execute(
        """
        %matplotlib inline
        %config InlineBackend.figure_formats = ["svg"]
        fig, ax = plt.subplots()
        print("before the figure")
        """
    ).ok()
    assert svg.displays[0].content["data"]["image/svg+xml"].count("<svg") == 1
    assert [m.type for m in svg.outputs] == ["stream", "display_data"]
    assert kernel.execute("fig").ok().result["image/svg+xml"].count("<svg") == 1
    kernel.run("%config InlineBackend.figure_formats = ['png']")


@feature()
def check_pandas_html(kernel: Kernel) -> None:
    outcome = kernel.execute("import pandas as pd\npd.DataFrame({'col': [1.5, 2.5]})").ok()
    assert "<table" in outcome.result["text/html"]
    assert "col" in outcome.result["text/plain"]
    styled = kernel.execute("pd.DataFrame({'col': [1]}).style.format('{:.2f}')").ok()
    assert "1.00" in styled.result["text/html"]


@feature()
def check_capture_magic(kernel: Kernel) -> None:
    silent = kernel.execute(
        """
        %%capture kept
        import sys
        print("out")
        print("err", file=sys.stderr)
        display("shown")
        """
    ).ok()
    assert silent.outputs == []
    replayed = kernel.execute("kept.show(); kept.stdout, kept.stderr, len(kept.outputs)").ok()
    assert replayed.result == {"text/plain": "('out\\n', 'err\\n', 1)"}
    assert (replayed.stdout, replayed.stderr) == ("out\n", "err\n")
    (shown,) = replayed.displays
    assert shown.content["data"] == {"text/plain": "'shown'"}


@feature()
def check_display_from_a_failing_representation(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        class Broken:
            def __repr__(self): return "plain"
            def _repr_html_(self): raise ValueError("no html")
        display(Broken())
        """
    )
    (shown,) = outcome.displays
    assert shown.content["data"] == {"text/plain": "plain"}
    assert "no html" in outcome.stderr + json.dumps([m.content for m in outcome.of_type("error")])


@feature()
def check_display_hooks_and_formatters(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        class Point:
            def __init__(self, x): self.x = x
        shell = get_ipython()
        html = shell.display_formatter.formatters["text/html"]
        html.for_type(Point, lambda p: f"<p>{p.x}</p>")
        seen = []
        def hook(message):
            seen.append(message["msg_type"])
            return message
        shell.display_pub.register_hook(hook)
        display(Point(3))
        shell.display_pub.unregister_hook(hook)
        display(Point(4))
        print(seen)
        """
    ).ok()
    assert [m.content["data"]["text/html"] for m in outcome.displays] == ["<p>3</p>", "<p>4</p>"]
    assert outcome.stdout == "['display_data']\n"
