"""The connection file: which addresses to serve, and the key that signs messages."""

from __future__ import annotations

import json
import os
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chexpoint.errors import InvalidValue

CHANNELS = ("shell", "control", "stdin", "iopub", "hb")


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """What a connection file says."""

    file: str
    info: dict[str, Any]

    @property
    def key(self) -> bytes:
        return str(self.info.get("key", "")).encode()

    @property
    def scheme(self) -> str:
        return str(self.info.get("signature_scheme", "hmac-sha256"))

    def write(self, info: dict[str, Any]) -> None:
        """Write the file for its owner's eyes only: it holds the key."""
        mode = stat.S_IRUSR | stat.S_IWUSR
        fd = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(fd, "w") as out:
            json.dump(info, out, indent=2)


def read_connection_file(path: str) -> ConnectionSpec:
    """Return what a connection file asks for, or a new key and no ports where there is none.

    Raises
    ------
    InvalidValue
        If the file is there but cannot be understood.
    """
    file = Path(path)
    if not file.exists():
        key = uuid.uuid4().hex
        info = {"ip": "127.0.0.1", "transport": "tcp", "key": key}
        return ConnectionSpec(str(file), {**info, "signature_scheme": "hmac-sha256"})
    try:
        loaded: dict[str, Any] = json.loads(file.read_text())
        if loaded.get("transport", "tcp") not in {"tcp", "ipc"}:
            raise ValueError(f"unknown transport {loaded['transport']}")
    except (OSError, ValueError, AttributeError) as error:
        raise InvalidValue(f"the connection file {file} cannot be used: {error}") from error
    return ConnectionSpec(str(file), {"ip": "127.0.0.1", "transport": "tcp", **loaded})
