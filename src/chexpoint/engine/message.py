"""Jupyter messages as the supervisor needs them: read the header, write a short reply.

The worker uses jupyter_client's session.  The supervisor has its own small
codec because importing jupyter_client takes longer than starting the worker.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from chexpoint.errors import InvalidValue

DELIMITER = b"<IDS|MSG>"
PROTOCOL = "5.4"
HEADLESS_KEY = b"headless"
"""Signs the messages of headless engines, which never leave a pair of sockets."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message; ``parent`` and ``content`` are read only when needed."""

    idents: tuple[bytes, ...]
    header: dict[str, Any]
    frames: tuple[bytes, ...] = field(repr=False)
    """All frames as they came, identities included."""

    @property
    def type(self) -> str:
        return str(self.header["msg_type"])

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.frames[len(self.idents) + 5])
        return content

    @property
    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = json.loads(self.frames[len(self.idents) + 4])
        return metadata

    @property
    def parent(self) -> dict[str, Any]:
        parent: dict[str, Any] = json.loads(self.frames[len(self.idents) + 3])
        return parent

    @property
    def reply_type(self) -> str:
        return self.type.removesuffix("_request") + "_reply"


class Codec:
    """Signs and checks messages with the key of the connection file."""

    def __init__(self, key: bytes = b"", scheme: str = "hmac-sha256", username: str = "") -> None:
        self._key = key
        self._digest = scheme.removeprefix("hmac-")
        if key and self._digest not in hashlib.algorithms_available:
            raise InvalidValue(f"unknown signature scheme {scheme}")
        self._username = username
        self._session = uuid.uuid4().hex
        self._seen: set[bytes] = set()

    def _sign(self, parts: Sequence[bytes]) -> bytes:
        if not self._key:
            return b""
        signer = hmac.new(self._key, digestmod=self._digest)
        for part in parts:
            signer.update(part)
        return signer.hexdigest().encode()

    def parse(self, frames: Sequence[bytes], *, once: bool = False) -> Message:
        """Return the message in ``frames``.

        Raises
        ------
        InvalidValue
            If it is malformed, wrongly signed, or, with ``once``, seen before.
        """
        try:
            at = list(frames).index(DELIMITER)
            signature, *parts = frames[at + 1 : at + 6]
            header = json.loads(parts[0])
            header["msg_type"], header["msg_id"]
        except (ValueError, KeyError, TypeError, IndexError):
            raise InvalidValue("not a Jupyter message") from None
        if len(parts) != 4 or not hmac.compare_digest(self._sign(parts), signature):
            raise InvalidValue("wrong signature")
        if once and self._key:
            if signature in self._seen:
                raise InvalidValue("message repeated")
            self._seen.add(signature)
        return Message(tuple(frames[:at]), header, tuple(frames))

    def build(
        self,
        msg_type: str,
        content: dict[str, Any],
        *,
        parent: dict[str, Any] | None = None,
        idents: Sequence[bytes] = (),
        metadata: dict[str, Any] | None = None,
    ) -> list[bytes]:
        """Return the frames of a new message; ``parent`` is the header it answers."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": msg_type,
            "username": self._username,
            "session": self._session,
            "date": datetime.now(UTC).isoformat(),
            "version": PROTOCOL,
        }
        parts = [json.dumps(p).encode() for p in (header, parent or {}, metadata or {}, content)]
        return [*idents, DELIMITER, self._sign(parts), *parts]


def execute_request(codec: Codec, source: str) -> tuple[bytes, ...]:
    """Return the frames of a request to run a cell."""
    content = {
        "code": source,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": True,
    }
    return tuple(codec.build("execute_request", content, idents=[b"chex"]))


def published(frames: Sequence[bytes]) -> tuple[str, str, bytes]:
    """Return type, id of the parent, and contents of a message that was published.

    All are empty if it is none: a cell may have changed what messages are made with.
    """
    try:
        at = list(frames).index(DELIMITER)
        header, parent = json.loads(frames[at + 2]), json.loads(frames[at + 3])
        return str(header["msg_type"]), str(parent.get("msg_id", "")), frames[at + 5]
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", "", b""


def message_id(frames: Sequence[bytes]) -> str:
    """Return the id of a message."""
    header = json.loads(frames[list(frames).index(DELIMITER) + 2])
    return str(header["msg_id"])


def may_run_code(frames: Sequence[bytes]) -> bool:
    """Return whether a request may run code of the user's: a cell, or what a widget sends."""
    header = frames[list(frames).index(DELIMITER) + 2]
    return b"execute_request" in header or b"comm_" in header
