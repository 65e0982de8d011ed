"""An interrupt that meets our code is shown where it has met the user's."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType

import pytest

from chexpoint.engine.tracebacks import of_user


def raised_through(files: list[str]) -> TracebackType | None:
    """Return the traceback of functions that call one another, each in a file of its own."""
    call: Callable[[], None] = interrupt
    for file in reversed(files):
        space: dict[str, object] = {"call": call}
        exec(compile("def step(): call()", file, "exec"), space)  # noqa: S102
        call = space["step"]  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt) as raised:
        call()
    return raised.tb.tb_next


def interrupt() -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        (["/cell", "/chex/a", "/chex/b"], ["/cell"]),
        (["/cell", "/std/x", "/chex/a", "/std/y"], ["/cell", "/std/x"]),
        (["/cell", "/std/x"], ["/cell", "/std/x"]),
        # What we have called of the user's is theirs; what is installed may be called by us.
        (["/chex/run", "/cell", "/chex/a"], ["/chex/run", "/cell"]),
        (["/cell", "/chex/a", "/own"], ["/cell", "/chex/a", "/own"]),
        (["/cell", "/chex/a", "/venv/site-packages/x.py", "/std/y"], ["/cell"]),
        (["/cell", "/chex/a", "<frozen importlib>", "/std/y"], ["/cell"]),
        (["/cell", "/venv/site-packages/x.py"], ["/cell", "/venv/site-packages/x.py"]),
        (["/chex/a", "/chex/b"], ["/chex/a", "/chex/b"]),
    ],
)
def test_our_end_is_cut_off(files: list[str], shown: list[str]) -> None:
    cut = of_user(strip_last(raised_through(files)), ours="/chex/", library="/std/")
    assert [frame.filename for frame in traceback.extract_tb(cut)] == shown


def strip_last(whole: TracebackType | None) -> TracebackType | None:
    """Return a traceback without its last step, which is that of this file."""
    if whole is None or whole.tb_next is None:
        return None
    rest = strip_last(whole.tb_next)
    return TracebackType(rest, whole.tb_frame, whole.tb_lasti, whole.tb_lineno)
