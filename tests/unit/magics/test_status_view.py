"""What ``%chex_status`` shows."""

from __future__ import annotations

from chexpoint.magics.status_view import StatusView
from chexpoint.model import Hazard, Mechanism, Status


def status(audit: Mechanism = "system calls", note: str = "") -> Status:
    """Return the status of an engine that has just started."""
    return Status(
        worker_pid=7,
        busy=False,
        head=None,
        cells_since_head=1,
        seconds_since_head=0.0,
        auto="rule",
        budget_bytes=2**30,
        held_bytes=0,
        worker_bytes=2**20,
        checkpoints=(),
        refused=(),
        audit=audit,
        audit_note=note,
    )


def test_the_audit_is_named() -> None:
    assert "audit: system calls\n" in repr(StatusView(status(), []))


def test_what_is_wrong_with_the_audit_is_named_too() -> None:
    view = StatusView(status("audit hook", "CHEX_AUDIT=hook"), [])
    assert "audit: audit hook (CHEX_AUDIT=hook)\n" in repr(view)
    assert "<br>audit: audit hook (CHEX_AUDIT=hook)<" in view._repr_html_()


def test_html_is_escaped() -> None:
    hazard = Hazard(kind="thread", what="thread '<lambda>' is running")
    html = StatusView(status(note="<b>"), [hazard])._repr_html_()
    assert "thread &#x27;&lt;lambda&gt;&#x27; is running" in html
    assert "(&lt;b&gt;)" in html
    assert "<b>" not in html
