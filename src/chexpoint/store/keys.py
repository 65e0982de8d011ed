"""The key of the user: images that it did not sign are not unpickled."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from chexpoint.errors import InvalidValue, StoreError

_PERSON = b"chex-image"


def store_key() -> bytes:
    """Return the key of the user; it is made at first use.

    It comes from ``CHEX_STORE_KEY``, as hexadecimal digits, which a team may share; else from a
    file in the user's folder of settings that nobody else can read.

    Raises
    ------
    InvalidValue
        If ``CHEX_STORE_KEY`` is no key.
    StoreError
        If the file cannot be read or written.
    """
    given = os.environ.get("CHEX_STORE_KEY")
    if given:
        return _parsed(given, "CHEX_STORE_KEY")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(base) / "chexpoint" / "store.key"
    try:
        if not path.exists():
            _make(path)
        return _parsed(path.read_text(encoding="ascii", errors="replace"), f"the file '{path}'")
    except OSError as error:
        raise StoreError(
            f"the key of the store '{path}' cannot be read or written, because of:"
            f" {error.strerror or error}. Make the folder writable, or set CHEX_STORE_KEY."
        ) from error


def sign(key: bytes, data: bytes) -> str:
    """Return the mark that only the owner of the key can make."""
    return hashlib.blake2b(data, key=key, person=_PERSON, digest_size=32).hexdigest()


def is_signed(key: bytes, data: bytes, mark: str) -> bool:
    """Return whether the owner of the key made the mark."""
    return hmac.compare_digest(sign(key, data).encode(), mark.encode(errors="replace"))


def checked_key(key: bytes) -> bytes:
    """Return a key if it is one."""
    if not 16 <= len(key) <= 64:
        raise InvalidValue(f"a key of a store has 16 to 64 bytes, not {len(key)}.")
    return bytes(key)


def _parsed(text: str, where: str) -> bytes:
    try:
        return checked_key(bytes.fromhex(text.strip()))
    except ValueError:
        raise InvalidValue(
            f"{where} holds no key: 32 to 128 hexadecimal digits are expected."
            " 'python -c \"import secrets; print(secrets.token_hex(32))\"' makes one."
        ) from None


def _make(path: Path) -> None:
    """Write a new key, unless another process is first; readers see all of it or nothing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(fd, os.urandom(32).hex().encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)
