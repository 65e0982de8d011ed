"""Jupyter messages as the tests see them, and the rules every message of a kernel must obey.

The rules restate the messaging specification for the kernel's side: `parse` is applied to each
message a test receives, so any test that talks to a kernel also checks its wire format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Content = dict[str, Any]
Rule = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message from the kernel, already checked against the specification."""

    channel: str
    type: str
    id: str
    parent_id: str | None
    content: Content
    metadata: Content
    buffers: tuple[bytes, ...]
    date: datetime


class BadMessage(AssertionError):
    """A message of the kernel breaks the messaging specification."""

    def __init__(self, raw: Mapping[str, Any], reason: str) -> None:
        super().__init__(f"{raw.get('msg_type')!r} message: {reason}: {raw!r:.2000}")


def parse(raw: Mapping[str, Any], channel: str) -> Message:
    """Check a message as `jupyter_client` deserialized it and return it typed."""
    for key in ("header", "parent_header", "metadata", "content"):
        if not isinstance(raw.get(key), dict):
            raise BadMessage(raw, f"{key} is not a mapping")
    header, parent = raw["header"], raw["parent_header"]
    _check_fields(raw, header, HEADER, "header")
    if parent:
        _check_fields(raw, parent, {"msg_id": _text, "msg_type": _text}, "parent_header")
    kind = header["msg_type"]
    if kind not in CONTENTS:
        raise BadMessage(raw, "unknown type")
    if channel not in CHANNELS.get(kind, ("iopub",)):
        raise BadMessage(raw, f"sent on the {channel} channel")
    _check_content(raw, kind, raw["content"])
    return Message(
        channel=channel,
        type=kind,
        id=header["msg_id"],
        parent_id=parent.get("msg_id"),
        content=raw["content"],
        metadata=raw["metadata"],
        buffers=tuple(bytes(buffer) for buffer in raw.get("buffers", ())),
        date=header["date"],
    )


def _check_content(raw: Mapping[str, Any], kind: str, content: Content) -> None:
    _check_fields(raw, content, CONTENTS[kind], "content")
    if kind in STATUS_REPLIES:
        status = content.get("status")
        if status == "error":
            _check_fields(raw, content, ERROR_REPLIES.get(kind, ERROR), "content")
        elif status == "ok":
            _check_fields(raw, content, OK_REPLIES.get(kind, {}), "content")
        elif not (status == "aborted" and kind == "execute_reply"):
            raise BadMessage(raw, f"status is {status!r}")
    if kind == "is_complete_reply" and content["status"] == "incomplete":
        _check_fields(raw, content, {"indent": _text}, "content")


def _check_fields(
    raw: Mapping[str, Any], found: Mapping[str, Any], rules: Mapping[str, Rule], where: str
) -> None:
    for name, rule in rules.items():
        if name not in found:
            raise BadMessage(raw, f"{where} lacks {name!r}")
        if not rule(found[name]):
            raise BadMessage(raw, f"{where}[{name!r}] is {found[name]!r:.200}")


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _list_of_dicts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _history(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, (list, tuple)) and len(entry) == 3 for entry in value
    )


def _one_of(*allowed: str) -> Rule:
    return lambda value: value in allowed


def _version(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"5\.\d+", value) is not None


def _date(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _bundle(value: Any) -> bool:
    """A MIME bundle: JSON kinds hold any JSON, all others hold text."""
    return isinstance(value, dict) and all(
        re.fullmatch(r"[\w\-+.]+/[\w\-+.]+", kind)
        and (isinstance(data, str) or kind.endswith("json"))
        for kind, data in value.items()
    )


def _language(value: Any) -> bool:
    names = ("name", "version", "mimetype", "file_extension", "pygments_lexer")
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in names)


def _comms(value: Any) -> bool:
    return isinstance(value, dict) and all(
        set(entry) == {"target_name"} for entry in value.values()
    )


HEADER: Mapping[str, Rule] = {
    "msg_id": _text,
    "msg_type": _text,
    "session": _text,
    "username": _text,
    "version": _version,
    "date": _date,
}
ERROR: Mapping[str, Rule] = {"ename": _text, "evalue": _text, "traceback": _texts}
DISPLAY: Mapping[str, Rule] = {"data": _bundle, "metadata": _mapping, "transient": _mapping}
COMM: Mapping[str, Rule] = {"comm_id": _text, "data": _mapping}

CONTENTS: Mapping[str, Mapping[str, Rule]] = {
    # shell and control replies
    "execute_reply": {"status": _text},
    "complete_reply": {"status": _text},
    "inspect_reply": {"status": _text},
    "history_reply": {"status": _text},
    "is_complete_reply": {"status": _one_of("complete", "incomplete", "invalid", "unknown")},
    "kernel_info_reply": {"status": _text},
    "comm_info_reply": {"status": _text},
    "connect_reply": {},
    "shutdown_reply": {"status": _text, "restart": _flag},
    "interrupt_reply": {"status": _text},
    "usage_reply": {"hostname": _text, "pid": _number},
    "debug_reply": {},
    # iopub
    "status": {"execution_state": _one_of("busy", "idle", "starting")},
    "execute_input": {"code": _text, "execution_count": _number},
    "stream": {"name": _one_of("stdout", "stderr"), "text": _text},
    "display_data": DISPLAY,
    "update_display_data": DISPLAY,
    "execute_result": {"data": _bundle, "metadata": _mapping, "execution_count": _number},
    "error": ERROR,
    "clear_output": {"wait": _flag},
    "debug_event": {},
    "iopub_welcome": {"subscription": _text},
    "comm_open": {**COMM, "target_name": _text},
    "comm_msg": COMM,
    "comm_close": COMM,
    # stdin
    "input_request": {"prompt": _text, "password": _flag},
}
STATUS_REPLIES = frozenset(
    {
        "execute_reply",
        "complete_reply",
        "inspect_reply",
        "history_reply",
        "kernel_info_reply",
        "comm_info_reply",
        "shutdown_reply",
        "interrupt_reply",
    }
)
OK_REPLIES: Mapping[str, Mapping[str, Rule]] = {
    "execute_reply": {
        "execution_count": _number,
        "user_expressions": _mapping,
        "payload": _list_of_dicts,
    },
    "complete_reply": {
        "matches": _texts,
        "cursor_start": _number,
        "cursor_end": _number,
        "metadata": _mapping,
    },
    "inspect_reply": {"found": _flag, "data": _bundle, "metadata": _mapping},
    "history_reply": {"history": _history},
    "kernel_info_reply": {
        "protocol_version": _version,
        "implementation": _text,
        "implementation_version": _text,
        "language_info": _language,
        "banner": _text,
        "help_links": _list_of_dicts,
        "supported_features": _texts,
    },
    "comm_info_reply": {"comms": _comms},
}
ERROR_REPLIES: Mapping[str, Mapping[str, Rule]] = {
    "execute_reply": {**ERROR, "execution_count": _number}
}
# Where a type may appear; iopub where nothing is said.
REQUEST_CHANNELS = ("shell", "control")
CHANNELS: Mapping[str, tuple[str, ...]] = {
    **{kind: REQUEST_CHANNELS for kind in CONTENTS if kind.endswith("_reply")},
    "shutdown_reply": ("shell", "control", "iopub"),
    "debug_reply": ("control",),
    "usage_reply": ("control",),
    "input_request": ("stdin",),
}
